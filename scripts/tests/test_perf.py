# SPDX-License-Identifier: GPL-2.0
"""What perf says, and when a count is none."""
from __future__ import annotations

import contextlib
import io
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import boot
import lib
import perf
from perf import Run, Value, parse
from test import Tally

TABLE = "name\tarchs\tevents\tcommand\tstock\tpatched\n"


def line(event: str, count: object, share: float = 100.0) -> str:
    """As perf 6.12 prints it with -j -r."""
    value = count if isinstance(count, str) else f"{count:f}"
    return (f'{{"counter-value" : "{value}", "unit" : "", "event" : "{event}", '
            f'"variance" : 0.12, "event-runtime" : 1200, "pcnt-running" : '
            f'{share:.2f}}}')


def command(*lines: str, rc: int | None = 0) -> boot.Command:
    return boot.Command("selftest", list(lines), rc=rc)


def judged(what: Run, stock: boot.Command | None,
           patched: boot.Command | None):
    """The tally, what it printed, and the values."""
    tally = Tally()
    with contextlib.redirect_stdout(io.StringIO()) as out:
        values = perf.judge(tally, "x", what,
                            {"stock": stock, "patched": patched})
    return tally, out.getvalue(), values


class Parse(unittest.TestCase):
    def test_counts_among_other_lines(self):
        self.assertEqual(parse([
            "@@ step fork1/4k units 1000", line("instructions:k", 1234.5),
            "0.123", line("page-faults", 7)]),
            {"instructions:k": Value(1234.5, 0.12),
             "page-faults": Value(7, 0.12)})

    def test_what_a_machine_does_not_have(self):
        value = parse([line("instructions:k", "<not supported>", 0)])[
            "instructions:k"]
        self.assertIsNone(value.count)
        self.assertIn("not supported", value.why)
        self.assertEqual(str(value), "-")

    def test_whatever_is_no_count_is_an_error(self):
        whole = line("page-faults", 7)
        for bad in (whole[:-30], whole[:20], "{}", '{"event" : "x"}',
                    line("page-faults", "<not counted>", 0),
                    line("page-faults", 7, 49.99)):
            with self.assertRaises(ValueError):
                parse([bad])
        with self.assertRaises(ValueError):
            parse([whole, whole])

    def test_numbers_are_written_as_they_are(self):
        self.assertEqual([str(Value(n)) for n in (0.0, 123456789.0, 1.333333)],
                         ["0", "123456789", "1.33"])


class Judge(unittest.TestCase):
    what = Run("fork", "fork", ("page-faults", "instructions:k"))
    good = command(line("page-faults", 7), line("instructions:k", 9))
    known = Run("known", "known fork 25", ("a:b", "c:*"), 1, {
        "stock": {"a:b": "25", "c:d": "-"}, "patched": {"a:b": "2",
                                                       "c:d": "-"}})

    def test_good(self):
        tally, _, values = judged(self.what, self.good, self.good)
        self.assertEqual((tally.passed, tally.failed), (1, []))
        self.assertEqual(values["patched"]["page-faults"].count, 7)

    def test_each_way_to_fail_on_either_kernel(self):
        for bad, word in (
                (None, "no result"),
                (command(*self.good.lines, rc=None), "no result"),
                (command(*self.good.lines, rc=139), "exit code 139"),
                (command(*self.good.lines, "@@ fail fork: no"), "fork: no"),
                (command(self.good.lines[0]), "no count of instructions:k"),
                (command(self.good.lines[0], self.good.lines[1][:40]),
                 "no count in")):
            for pair in ((bad, self.good), (self.good, bad), (bad, bad)):
                tally, out, values = judged(self.what, *pair)
                self.assertTrue(tally.failed, word)
                self.assertIn(word, out)
                self.assertEqual(values, {})

    def test_skipped_with_its_words(self):
        skip = command("@@ skip all: needs root", rc=lib.SKIPPED)
        tally, out, _ = judged(self.what, skip, skip)
        self.assertEqual((tally.passed, tally.failed, tally.skipped),
                         (0, [], 1))
        self.assertIn("needs root", out)
        self.assertTrue(judged(self.what, skip, self.good)[0].failed)

    def test_known_numbers_are_exact(self):
        no_cd = line("c:d", "<not supported>", 0)
        stock = command(line("a:b", 25), no_cd)
        patched = command(line("a:b", 2), no_cd)
        self.assertFalse(judged(self.known, stock, patched)[0].failed)
        for bad, word in (
                (command(line("a:b", 3), no_cd), "a:b 3, expected 2"),
                (command(line("a:b", 2), line("c:d", 0)), "c:d 0, expected -"),
                (command(line("a:b", 2)), "no count of c:d"),
                (command(line("a:b", "<not supported>", 0), no_cd),
                 "a:b -, expected 2")):
            tally, out, _ = judged(self.known, stock, bad)
            self.assertTrue(tally.failed, word)
            self.assertIn(word, out)

    def test_a_bench_has_to_come_to_its_end_each_time(self):
        bench = Run("b", "perf bench -f simple sched pipe", ("page-faults",), 3)
        counted = line("page-faults", 7)
        three, two = (command(*["0.123"] * n, counted) for n in (3, 2))
        self.assertFalse(judged(bench, three, three)[0].failed)
        self.assertIn("patched: 2 of 3 runs", judged(bench, three, two)[1])


class Boots(unittest.TestCase):
    RUNS = [Run(f"r{at}", "true", ("page-faults",)) for at in range(2)]

    def booted(self, **outcomes: boot.Outcome):
        """The tally of a boot of both kernels, and the commands by run."""
        variant = lib.variants(lib.get_arch("arm64"))[0]
        tally = Tally()

        def guest(_variant, kernel, commands, *_args, **_kwargs):
            self.assertEqual(commands, ["selftest 0", "selftest 1",
                                        "selftest 2"])
            return mock.Mock(wait=lambda: outcomes[kernel.tree])

        with mock.patch.object(boot, "Guest", guest), \
                contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()):
            found = perf.boot_runs(tally, "6.12", variant, self.RUNS, 0,
                                   dict.fromkeys(perf.TREES, Path()))
        return tally, found

    def test_a_lost_guest_fails_and_so_does_all_it_did_not_do(self):
        counted = command(line("page-faults", 7))
        whole = boot.Outcome(lib.OK, "", [command(), counted, counted])
        lost = boot.Outcome(lib.LOST_VM, "it ended early",
                            [command(), command(rc=None)])
        tally, found = self.booted(stock=whole, patched=whole)
        self.assertEqual((tally.passed, tally.failed), (2, []))
        self.assertFalse(judged(self.RUNS[1], *found[1].values())[0].failed)
        tally, found = self.booted(stock=whole, patched=lost)
        self.assertEqual(len(tally.failed), 1)
        for what, commands in zip(self.RUNS, found):
            self.assertIn("patched: no result",
                          judged(what, *commands.values())[1])

    def test_a_module_that_is_not_loaded_is_a_failure(self):
        for commands in ([], [command("@@ fail: no", rc=1)]):
            bad = boot.Outcome(lib.OK, "", commands)
            self.assertEqual(len(self.booted(stock=bad, patched=bad)[0].failed),
                             2)


class Table(unittest.TestCase):
    def test_the_table_of_the_project(self):
        for arch in lib.arch_names():
            runs = perf.read_table(perf.TABLE.read_text(), arch)
            self.assertGreater(sum(bool(r.expected) for r in runs), 3)
            for run in runs:
                self.assertLess(len(run.command.split()), 32)
                self.assertEqual(set(run.expected) or set(perf.TREES),
                                 set(perf.TREES))

    def test_wrong_lines_are_named(self):
        good = "x\tall\ta:b\tknown fork 1\ta:b=1\ta:b=1\n"
        for text, word in ((good[:-7], "5 columns"), (good + good, "two of x"),
                           (good.replace("a:b=1\n", "a:b=one\n"), "a:b=one")):
            with self.assertRaises(lib.Fail) as caught:
                perf.read_table(TABLE + text, "arm64")
            self.assertIn(word, caught.exception.what)

    def names(self, **env: str) -> set[str]:
        with mock.patch.dict(os.environ, env):
            return {run.name for run in perf.chosen_runs("arm64")}

    def test_what_is_chosen(self):
        everything = self.names()
        self.assertTrue({"fork", "bench-pipe", "known-fold"} <= everything)
        self.assertNotIn("seed16g", everything)
        self.assertEqual(self.names(W="fork"), {"fork"})
        self.assertEqual(self.names(NAME="bench-m*set known-fork"),
                         {"bench-memset", "known-fork"})
        self.assertEqual(self.names(W="fork", NAME="known-fork"),
                         {"fork", "known-fork"})
        with self.assertRaises(lib.Fail) as caught:
            self.names(NAME="nonsense")
        self.assertIn("bench-pipe", caught.exception.why)


class Shown(unittest.TestCase):
    def test_rows_and_columns(self):
        variant = lib.variants(lib.get_arch("arm64"))[0]
        run = Run("fork", "fork", perf.COUNTS["arm64"])
        trees = {tree: {"instructions:k": Value(None, why="no PMU"),
                        "instructions:u": Value(200.0, 0.5),
                        "page-faults": Value(count),
                        "context-switches": Value(0.0)}
                 for tree, count in (("stock", 200.0), ("patched", 100.0))}
        with tempfile.TemporaryDirectory() as tmp, \
                mock.patch.object(perf, "BUILD", Path(tmp)):
            for _ in range(2):
                perf.write("6.12", variant, [run], [(run, trees)])
            text = (Path(tmp) / "6.12/arm64-max/report/perf.tsv").read_text()
        rows = [row.split("\t") for row in text.splitlines()]
        self.assertEqual(rows[0], perf.HEAD)
        self.assertEqual(rows[1][3:], ["fork", "instructions:k", "3", "-", "-",
                                       "0.00", "0.00", "no PMU"])
        self.assertEqual(rows[3][4:8], ["page-faults", "3", "200", "100"])
        self.assertEqual(len(rows), 5)
        table = perf.table("t", [(run, trees)])
        self.assertIn("200>100 x0.50", table)
        self.assertNotIn("context-switches", table)


if __name__ == "__main__":
    unittest.main()
