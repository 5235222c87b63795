# SPDX-License-Identifier: GPL-2.0
"""Joining what a workload printed with what the op counter counted."""
import re
import tempfile
import unittest
from pathlib import Path

import bench
import lib


class FakeAttribution:
    known = {"0xffff1": ("__ptep_get_and_clear", "pte"),
             "0xffff2": ("folio_put", "other")}

    def learn(self, pcs):
        assert pcs <= self.known.keys()


LINES = ["@@ step munmap/4k units 16 ipi 1 fault 2 ctxt 3"]
COUNTS = """interval\tclass\tsymbol\tpc\tcount
0\tinsn\tzap_pte_range\t-\t1000
0\tatomic\tzap_pte_range\t0xffff1\t16
0\tatomic\tfolio_put\t0xffff2\t16
end\t1
"""


class Collect(unittest.TestCase):
    def collect(self, counts=COUNTS, lines=LINES):
        with tempfile.TemporaryDirectory() as tmp:
            path = Path(tmp) / "counts.tsv"
            path.write_text(counts)
            return bench.collect("munmap", lines, path, FakeAttribution())

    def test_counts_and_attribution(self):
        step = self.collect()["munmap/4k"]
        self.assertEqual(step.units, 16)
        self.assertEqual(step.classes["insn"], 1000)
        self.assertEqual(step.classes["atomic"], 32)
        self.assertEqual(step.classes["fault"], 2)
        self.assertEqual(step.pte["atomic"], 16)
        self.assertEqual(
            dict(step.functions),
            {("insn", "zap_pte_range"): 1000,
             ("atomic", "zap_pte_range/__ptep_get_and_clear"): 16,
             ("atomic", "folio_put"): 16})

    def fails(self, code, **kwargs):
        with self.assertRaises(lib.Fail) as caught:
            self.collect(**kwargs)
        self.assertEqual(caught.exception.code, code)

    def test_more_steps_than_intervals(self):
        self.fails(lib.TEST_FAILED, lines=LINES + [LINES[0].replace(
            "munmap/4k", "munmap/64k")])

    def test_garbled_step_line(self):
        self.fails(lib.TEST_FAILED, lines=["@@ step munmap/4k units 1x ipi"])

    def test_counter_file_without_end(self):
        self.fails(lib.LOST_VM, counts=COUNTS.replace("end\t1\n", ""))

    def test_counter_reports_misused_marks(self):
        self.fails(lib.TEST_FAILED, counts=COUNTS.replace(
            "end", "error\tstop without start\nend"))

    def test_the_same_step_twice(self):
        self.fails(lib.TEST_FAILED, lines=LINES * 2,
                   counts=COUNTS.replace("end\t1", "end\t2"))


class Report(unittest.TestCase):
    def test_a_partial_run_keeps_the_other_workloads_rows(self):
        with tempfile.TemporaryDirectory() as tmp:
            path = Path(tmp) / "counts.tsv"
            row = ["6.12", "arm64", "max", "fork", "fork1/4k", "1", "insn",
                   "2", "3"]
            other = [*row[:3], "munmap", "munmap/4k", *row[5:]]
            bench.merge_tsv(path, bench.COUNTS_HEAD, ["fork", "munmap"],
                            [row, other])
            newer = [*row[:7], "9", "9"]
            bench.merge_tsv(path, bench.COUNTS_HEAD, ["fork"], [newer])
            lines = path.read_text().splitlines()
        self.assertEqual(lines[0], "base\tarch\tcpu\tworkload\tstep\tunits\t"
                         "class\tstock\tpatched")
        self.assertEqual(lines[1:], ["\t".join(newer), "\t".join(other)])

    def write(self, workload: str, *steps: str) -> Path:
        """A report of these steps; its folder."""
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        one = {name: bench.StepCounts(4, dict.fromkeys(bench.CLASSES, 7))
               for name in steps}
        bench.write_report("6.12", lib.variants(lib.get_arch("arm64"))[0],
                           Path(tmp.name),
                           {workload: {"stock": one, "patched": one}})
        return Path(tmp.name)

    def test_steps_of_the_sweep_are_rows_by_size(self):
        rows = [line.split("\t") for line in (self.write(
            bench.SIZED, "toggle/4k/40k", "toggle/4k/4m", "toggle/64k/1g")
            / "sizes.tsv").read_text().splitlines()]
        self.assertEqual(rows[0], bench.SIZES_HEAD)
        self.assertEqual([tuple(row[4:6]) for row in rows[1:]
                          if row[7] == "insn"],
                         [("toggle/4k", "40"), ("toggle/4k", "4096"),
                          ("toggle/64k", "1048576")])

    def test_other_workloads_have_no_sizes(self):
        folder = self.write("mprotect", "rw-ro/64k")
        self.assertTrue((folder / "counts.tsv").exists())
        self.assertFalse((folder / "sizes.tsv").exists())

    def test_every_step_of_the_sweep_has_a_size(self):
        text = (lib.SCRIPTS / "workloads" / f"{bench.SIZED}.c").read_text()
        names = re.findall(r'^\tSIZE\("(\w+)", (\d+) \* (\w)IB\)', text, re.M)
        self.assertEqual(len(names), 6)
        for name, count, unit in names:
            self.assertEqual(bench.split_size(f"toggle/4k/{name}"),
                             ("toggle/4k", int(count) *
                              {"K": 1, "M": 1024}[unit]))


if __name__ == "__main__":
    unittest.main()
