# SPDX-License-Identifier: GPL-2.0
"""hw-bench: its statistics, what applies where, and that it changes nothing."""
from __future__ import annotations

import contextlib
import io
import json
import random
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import lib

hw = lib.load_script("hw-bench")


def machine_times(rng: random.Random, n: int, scale: float = 1.0,
                  noise: float = 0.03) -> list[float]:
    """As machines are: mostly close, now and then an interrupt."""
    return [100 * scale * rng.lognormvariate(0, noise)
            * (rng.uniform(1.2, 3) if rng.random() < 0.05 else 1)
            for _ in range(n)]


def result(times: dict[str, list[float]], label: str = "a") -> "hw.Result":
    return hw.Result(Path(f"{label}.tsv"),
                     {"label": label, "machine": "m", "settings": "",
                      "size": 0}, {("w", k): v for k, v in times.items()})


def sides(seed: int, steps: int, planted: dict[int, float], boots: int = 1,
          n: int = 30) -> "hw.Compared":
    """Both sides of so many steps, some with a planted ratio."""
    rng = random.Random(seed)

    def side(ratios: dict[int, float]) -> list["hw.Result"]:
        return [result({f"s{i:02d}": machine_times(rng, n, ratios.get(i, 1.0))
                        for i in range(steps)}) for _ in range(boots)]
    return hw.compare(side({}), side(planted))


def found(compared: "hw.Compared") -> dict[str, bool]:
    """step -> is it slower, of the steps that differ."""
    return {r.step: r.ratio > 1 for r in compared.rows if r.differs}


class Statistics(unittest.TestCase):
    def test_planted_five_percent_is_found(self):
        compared = sides(1, 20, {3: 1.05, 11: 0.95})
        self.assertEqual(found(compared), {"s03": True, "s11": False})
        row = compared.rows[3]
        self.assertTrue(row.low < 1.05 < row.high)
        self.assertIn("2 of 20 steps differ: 1 faster, 1 slower",
                      compared.verdict)

    def test_planted_nothing_is_not_found(self):
        self.assertEqual(found(sides(2, 20, {})), {})

    def test_false_alarms_stay_below_the_level(self):
        """One comparison of 20 equal steps in 20 may be wrong."""
        with mock.patch.object(hw, "BOOTSTRAPS", 200):
            alarms = sum(bool(found(sides(seed, 20, {})))
                         for seed in range(100, 120))
        self.assertLessEqual(alarms, 1)

    def test_drift_is_not_a_difference(self):
        """One side got slower while it ran: that is not the kernel."""
        rng = random.Random(4)
        still = machine_times(rng, 30, noise=0.01)
        moved = [t * (1 + 0.12 * i / 30) for i, t in
                 enumerate(machine_times(rng, 30, noise=0.01))]
        row = hw.compare([result({"s": still})], [result({"s": moved})]).rows[0]
        self.assertLess(row.p, 0.05)
        self.assertFalse(row.differs)

    def test_boots_that_differ_among_themselves_are_no_difference(self):
        rng = random.Random(5)

        def boots(*scales: float):
            return [result({"s": machine_times(rng, 30, s, 0.01)})
                    for s in scales]
        row = hw.compare(boots(1.0, 1.06), boots(1.05, 1.11)).rows[0]
        self.assertFalse(row.differs)
        row = hw.compare(boots(1.0, 1.01), boots(1.05, 1.06)).rows[0]
        self.assertTrue(row.differs)

    def test_rank_test_against_known_values(self):
        self.assertEqual(hw.mann_whitney([1.0] * 10, [1.0] * 10), 1.0)
        # U is 0 of 64; by the normal approximation with continuity.
        p = hw.mann_whitney(list(range(8)), list(range(10, 18)))
        self.assertAlmostEqual(p, 0.000939, places=5)
        a, b = [1, 2, 2, 3, 5, 8, 8, 9], [2, 4, 5, 6, 8, 10, 11, 12]
        self.assertAlmostEqual(hw.mann_whitney(a, b), hw.mann_whitney(b, a))

    def test_holm(self):
        for got, want in zip(hw.holm([0.01, 0.04, 0.03, 0.005]),
                             [0.03, 0.06, 0.06, 0.02]):
            self.assertAlmostEqual(got, want)
        self.assertEqual(hw.holm([]), [])

    def test_interval_of_the_median(self):
        # The classic table: ranks 6 and 15 of 20 hold it with 95.9 %.
        self.assertEqual(hw.median_interval(list(range(1, 21))), (6, 15))
        self.assertEqual(hw.median_interval([3, 1, 2]), (1, 3))
        self.assertEqual(hw.median_interval([7]), (7, 7))

    def test_interval_covers_the_median(self):
        rng = random.Random(6)
        hits = 0
        for _ in range(400):
            low, high = hw.median_interval([rng.expovariate(1)
                                            for _ in range(25)])
            hits += low <= 0.6931 <= high
        self.assertGreaterEqual(hits / 400, 0.93)

    def test_too_few_samples_are_left_out(self):
        compared = sides(7, 2, {}, n=5)
        self.assertEqual(compared.rows, [])
        self.assertEqual(len(compared.left_out), 2)


ARM = """processor\t: 0
Features\t: fp asimd evtstrm aes {atomics}cpuid
CPU implementer\t: {vendor}
CPU architecture: 8
CPU variant\t: {variant}
CPU part\t: {part}
CPU revision\t: {revision}
"""
LOG = "CPU features: detected: 32-bit EL0 Support\n"


def arm(vendor="0x41", part="0xd0c", variant="0x3", revision="1",
        atomics="atomics ", **facts):
    text = ARM.format(vendor=vendor, part=part, variant=variant,
                      revision=revision, atomics=atomics)
    facts = {"page_kib": 4, "folios_kib": (64, 2048), "ctr": 0, "klog": LOG,
             **facts}
    return hw.Facts("aarch64", text, midrs=hw.midrs_of(text), **facts)


class Applies(unittest.TestCase):
    def said(self, facts, *words):
        lines = "\n".join(hw.applies(facts))
        for word in words:
            self.assertIn(word, lines)
        return lines

    def test_neoverse_n1(self):
        lines = self.said(
            arm(klog=LOG + "CPU features: detected: Hardware dirty bit "
                "management\n", ctr=3 << 28), "0x413fd0c1", ", LSE atomics",
            "(HAFDBS): yes", "contpte blocks of 64 KiB", "IDC=1 DIC=1",
            "no instruction cache maintenance", "BBML2: not known")
        self.assertNotIn("this kernel has the series", lines)

    def test_cortex_a72(self):
        self.said(arm(part="0xd08", variant="0x0", revision="3", atomics=""),
                  "no LSE atomics", "(HAFDBS): no", "IDC=0 DIC=0",
                  "cost icache maintenance")

    def test_log_that_was_overwritten_is_not_a_no(self):
        self.said(arm(klog="usb 1-1: new device\n"), "(HAFDBS): unknown")

    def test_bbml2_by_revision(self):
        good = dict(part="0xd84", variant="0x0")
        self.said(arm(revision="2", **good), "BBML2: Neoverse V3")
        self.said(arm(revision="1", **good), "BBML2: not known")
        self.said(arm(vendor="0xc0", part="0xac3"), "BBML2: AmpereOne")

    def test_mixed_cores_need_all(self):
        text = ARM.format(vendor="0x41", part="0xd84", variant="0x0",
                          revision="2", atomics="")
        both = text + "\n" + text.replace("0xd84", "0xd80")
        self.assertEqual(len(hw.midrs_of(both)), 2)
        self.said(hw.Facts("aarch64", both, 4, hw.midrs_of(both)),
                  "BBML2: not known", "CTR_EL0 cannot be read")

    def test_contpte_needs_folios_of_its_size(self):
        self.said(arm(page_kib=64), "contpte blocks of 2048 KiB with 64 KiB")
        self.said(arm(folios_kib=()), "does not apply: contpte")

    def test_switched_off_is_said(self):
        self.said(arm(cmdline="root=/dev/x arm64.noplainpte"), "turned off")

    def test_power(self):
        text = "cpu\t\t: POWER9 (raw), altivec supported\nMMU\t\t: {}\n"
        self.said(hw.Facts("ppc64le", text.format("Radix"), 64),
                  "POWER9", "MMU: radix, 64 KiB", "applies: plain", "nest MMU")
        self.said(hw.Facts("ppc64le", text.format("Hash"), 64),
                  "does not apply")
        self.said(hw.Facts("ppc64le", "cpu\t\t: POWER10\n", 64),
                  "not known whether")

    def test_x86(self):
        self.said(hw.Facts("x86_64", "", 4), "nothing of the series applies")


OUTPUT = """@@ step fork1/4k units 10 ipi 0 fault 1 ctxt 2 ns 5000 ev:cycles 7
@@ skip fork1/64k: no such folios
@@ no-event dsb_spec: No such file or directory
"""


class Output(unittest.TestCase):
    def test_steps_skips_events(self):
        said = hw.parse(3, "fork", OUTPUT, 0)
        self.assertEqual(said.samples, [hw.Sample(3, "fork", "fork1/4k", 10,
                                                  5000, {"cycles": 7})])
        self.assertEqual(said.skipped, ["fork fork1/64k: no such folios"])
        self.assertEqual(said.no_event,
                         {"dsb_spec": "No such file or directory"})
        self.assertEqual(said.failed, [])

    def test_a_step_that_failed_is_no_result_those_before_are(self):
        said = hw.parse(1, "fork", OUTPUT + OUTPUT.replace("fork1", "fork2")
                        + "@@ fail fork2/4k: page 3\n", 1)
        self.assertEqual([s.step for s in said.samples], ["fork1/4k"])
        self.assertEqual(said.failed, ["fork fork2/4k: page 3"])

    def test_what_is_wrong_is_a_failure(self):
        for text, rc in ((OUTPUT, 1), (OUTPUT.replace("5000", "0"), 0),
                         (OUTPUT.replace("ns 5000", "ns"), 0),
                         ("@@ fail fork1/4k: page 3\n", 1), ("", 139)):
            self.assertTrue(hw.parse(1, "fork", text, rc).failed, text)


class Files(unittest.TestCase):
    META = {"label": "stock", "machine": "m", "kernel": "6.12", "runs": 2,
            "cpu": 1, "settings": "-", "when": "-", "applies": [],
            "events": ["cycles"], "size": 0}

    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.home = Path(tmp.name)
        samples = [hw.Sample(r, "fork", "fork1/4k", 10, 5000 + r,
                             {"cycles": 7} if r == 1 else {}) for r in (1, 2)]
        hw.write_result(self.home / "x", samples,
                        {**self.META, "rows": len(samples)})
        self.path = self.home / "x.tsv"

    def test_round_trip(self):
        self.assertEqual(hw.read_result(self.path).times,
                         {("fork", "fork1/4k"): [500.1, 500.2]})

    def test_every_cut_is_seen(self):
        whole = self.path.read_text()
        for length in range(len(whole)):
            self.path.write_text(whole[:length])
            with self.assertRaises(hw.Stop) as caught:
                hw.read_result(self.path)
            self.assertEqual(caught.exception.code, hw.BAD_INPUT)

    def test_missing_or_damaged_metadata(self):
        path = self.path.with_suffix(".json")
        for text in ("{", "{}", None):
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
            with self.assertRaises(hw.Stop) as caught:
                hw.read_result(self.path)
            self.assertEqual(caught.exception.code, hw.BAD_INPUT)

    def test_different_machines_are_not_compared(self):
        other = self.home / "y"
        hw.write_result(other, [hw.Sample(1, "fork", "fork1/4k", 1, 1)],
                        {**self.META, "rows": 1, "machine": "n"})
        args = hw.parser().parse_args(["compare", str(self.path),
                                       str(other) + ".tsv"])
        with self.assertRaises(hw.Stop) as caught:
            args.go(args)
        self.assertIn("different machines", caught.exception.what)


class Restore(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.home = Path(tmp.name)
        self.file = self.home / "enabled"
        self.file.write_text("always [madvise] never\n")
        self.settings = hw.Settings(self.home / "saved")
        self.settings.save([str(self.file), str(self.home / "not there")])

    def test_what_was_selected_comes_back(self):
        self.settings.set(str(self.file), "never")
        self.assertEqual(self.settings.restore(), [])
        self.assertEqual(self.file.read_text(), "madvise")
        self.assertFalse((self.home / "saved").exists())

    def test_what_was_not_changed_is_not_written(self):
        before = self.file.stat().st_mtime_ns
        self.settings.restore()
        self.assertEqual(self.file.stat().st_mtime_ns, before)

    def test_only_what_was_saved_can_be_set(self):
        with self.assertRaises(AssertionError):
            self.settings.set(str(self.home / "other"), "1")

    def test_a_killed_run_is_noticed_and_undone(self):
        self.settings.set(str(self.file), "never")
        with self.assertRaises(hw.Stop) as caught:
            hw.Settings(self.home / "saved").save([])
        self.assertIn("restore", caught.exception.todo)
        with mock.patch.object(hw, "RECORD", self.home / "saved"), \
                contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(hw.cmd_restore(None), hw.OK)
        self.assertEqual(self.file.read_text(), "madvise")

    def test_what_cannot_be_set_back_is_said(self):
        self.settings.set(str(self.file), "never")
        with mock.patch.object(Path, "write_text", side_effect=OSError):
            left = self.settings.restore()
        self.assertIn("was madvise", left[0])
        self.assertTrue((self.home / "saved").exists())

    def test_nobody_to_ask_is_a_no(self):
        with mock.patch("sys.stdin", io.StringIO("y\n")), \
                contextlib.redirect_stdout(io.StringIO()):
            self.assertFalse(hw.ask("?", None))
            self.assertTrue(hw.ask("?", True))
            self.assertFalse(hw.ask("?", False))


if __name__ == "__main__":
    unittest.main()
