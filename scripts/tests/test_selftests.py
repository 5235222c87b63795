# SPDX-License-Identifier: GPL-2.0
"""The kernel's own tests: what counts as a case, and what as worse."""
import contextlib
import io
import unittest

import lib
import selftests
import test
from selftests import Result, parse_cases, read_table, worse

HEAD = "name\tarchs\tfolder\tcommand\tleast\tseconds\tsetup\tskip\n"


def row(text="x\tall\tmm\tx -a\t1\t60\t-\t-"):
    return read_table(HEAD + text)[0]


def judged(stock, patched, least=1):
    tally = test.Tally()
    with contextlib.redirect_stdout(io.StringIO()) as out:
        selftests.judge(tally, "x", row(f"x\tall\tmm\tx\t{least}\t60\t-\t-"),
                        {"stock": stock, "patched": patched})
    return tally, out.getvalue()


class Table(unittest.TestCase):
    def test_the_table_of_the_project_can_be_read(self):
        rows = read_table(selftests.TABLE.read_text())
        self.assertGreater(len(rows), 40)
        for arch in lib.arch_names():
            self.assertGreater(sum(arch in r.archs and not r.skip
                                   for r in rows), 25, arch)

    def test_programs_do_not_hide_each_other_or_those_of_the_guest(self):
        programs = {}
        for r in read_table(selftests.TABLE.read_text()):
            name = r.command.split()[0]
            self.assertEqual(programs.setdefault(name, r.folder), r.folder)
        self.assertFalse(programs.keys() & {
            "init", "selftest", *lib.workload_names(),
            *(p.stem for p in (lib.SCRIPTS / "stress").glob("*.c"))})

    def test_fields(self):
        r = row("x\tarm64\tmm\tx -a\t3\t60\t/proc/a=1 /proc/b=2\t-")
        self.assertEqual((r.archs, r.command, r.least, r.seconds, r.setup,
                          r.skip),
                         (("arm64",), "x -a", 3, 60, "/proc/a=1 /proc/b=2",
                          ""))

    def test_a_case_that_is_not_compared(self):
        r = row("x\tall\tmm\tx\t1\t60\t-\tcase a_b: it is flaky")
        self.assertEqual((r.skip, r.unstable), ("", "a_b"))

    def test_wrong_lines_are_named(self):
        for text, word in (("x\tall\tmm\tx\t1\t60\t-", "7 columns"),
                           ("x\tall\tmm\tx\t0\t60\t-\t-", "no passed case"),
                           ("x\tall\tmm\tx\t1\t60\t-\t-\n" * 2, "two tests")):
            with self.assertRaises(lib.Fail) as caught:
                read_table(HEAD + text)
            self.assertIn(word, caught.exception.what)


class Cases(unittest.TestCase):
    def test_tap(self):
        cases = parse_cases(
            ["TAP version 13", "1..5", "ok 1 fork", "not ok 2 - write",
             "ok 3 swap # SKIP no swap", "ok 4 # SKIP is the directive only",
             "not ok 5 known # XFAIL wanted", "# ok 6 a comment"], 1)
        self.assertEqual(cases, {"fork": "PASS", "write": "FAIL",
                                 "swap": "SKIP", "known": "SKIP",
                                 "is the directive only": "SKIP"})

    def test_one_name_twice_and_addresses(self):
        cases = parse_cases(["ok 1 at 0xffff1000", "not ok 2 at 0xffff2000",
                             "ok 3 reaped with 12MB"], 1)
        self.assertEqual(cases, {"at N": "PASS", "at N (2)": "FAIL",
                                 "reaped with NMB": "PASS"})

    def test_other_words(self):
        cases = parse_cases(
            ["test: exec_prot", "success: exec_prot", "failure: b", "skip: c",
             "Testing move on anon... done", "Testing wp on shmem... failed "
             "[reason: x]", "Testing y on z... skipped [reason: no]"], 1)
        self.assertEqual(cases, {"exec_prot": "PASS", "b": "FAIL", "c": "SKIP",
                                 "move on anon": "PASS",
                                 "wp on shmem": "FAIL", "y on z": "SKIP"})

    def test_without_cases_the_exit_code_is_one(self):
        for rc, status in ((0, "PASS"), (4, "SKIP"), (1, "FAIL"),
                           (139, "FAIL"), (None, "FAIL")):
            self.assertEqual(parse_cases(["words"], rc), {"exit code": status})


class Verdicts(unittest.TestCase):
    good = Result(0, {"a": "PASS", "b": "PASS", "c": "SKIP"})

    def test_the_same_is_good(self):
        tally, out = judged(self.good, self.good)
        self.assertEqual((tally.passed, tally.failed), (1, []))
        self.assertIn("2 passed, 1 skipped", out)

    def test_better_is_good(self):
        self.assertEqual(worse(Result(1, {"a": "FAIL", "b": "SKIP"}),
                               Result(0, {"a": "PASS", "b": "PASS"})), [])

    def test_each_way_to_be_worse(self):
        for case, status in (("a", "FAIL"), ("a", "SKIP"), ("c", "FAIL")):
            patched = Result(0, {**self.good.cases, case: status})
            self.assertEqual(len(worse(self.good, patched)), 1, case)
        lost = {k: v for k, v in self.good.cases.items() if k != "b"}
        self.assertIn("missing", worse(self.good, Result(0, lost))[0])
        new = {**self.good.cases, "new": "FAIL"}
        self.assertIn("new", worse(self.good, Result(0, new))[0])
        self.assertIn("exit code 139",
                      worse(self.good, Result(139, self.good.cases))[0])

    def test_a_new_case_that_is_skipped_is_worse_than_none(self):
        self.assertEqual(len(worse(self.good, Result(0, {
            **self.good.cases, "new": "SKIP"}))), 1)

    def test_fewer_than_expected_fail_although_both_are_the_same(self):
        tally, out = judged(self.good, self.good, least=3)
        self.assertTrue(tally.failed)
        self.assertIn("2 passed cases on stock, at least 3 expected", out)

    def test_no_result_and_no_end_fail_on_either_kernel(self):
        for bad, word in ((Result(None), "no result"),
                          (Result(124, {"a": "PASS", "b": "PASS"}), "no end")):
            for pair in ((bad, self.good), (self.good, bad), (bad, bad)):
                tally, out = judged(*pair)
                self.assertTrue(tally.failed)
                self.assertIn(word, out)

    def test_a_failure_on_both_is_no_reason_to_fail_but_is_counted(self):
        both = Result(1, {"a": "PASS", "b": "FAIL"})
        tally, out = judged(both, both)
        self.assertFalse(tally.failed)
        self.assertIn("1 passed, 1 failed", out)


if __name__ == "__main__":
    unittest.main()
