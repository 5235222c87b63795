# SPDX-License-Identifier: GPL-2.0
"""Results of several suites become verdicts; what is missing is a failure."""
import tempfile
import unittest
from pathlib import Path

import ktap
import lib

# The parser is the kernel's own; any imported tree has it.
TREES = sorted(lib.BUILD.glob("*/stock/tools/testing/kunit/kunit.py"))


def suite(name, cases):
    """A results file as debugfs shows it: (case, ok, note) in order."""
    lines = [f"@@ suite {name}", "KTAP version 1", "1..1",
             "    KTAP version 1", f"    # Subtest: {name}",
             f"    1..{len(cases)}"]
    for number, (case, good, note) in enumerate(cases, 1):
        if not good:
            lines.append(f"    # {case}: EXPECTATION FAILED at x.c:1")
        lines.append(f"    {'ok' if good else 'not ok'} {number} {case}{note}")
    all_good = all(good for _, good, _ in cases)
    lines.append(f"{'ok' if all_good else 'not ok'} 1 {name}")
    return lines


@unittest.skipUnless(TREES, "no kernel source is unpacked yet (make trees)")
class Ktap(unittest.TestCase):
    def parse(self, lines, modules=("a_kunit.ko", "b_kunit.ko")):
        loads = [f"@@ load {m} ok" for m in modules]
        with tempfile.TemporaryDirectory() as tmp:
            return ktap.parse(loads + lines, list(modules),
                              TREES[0].parents[3], Path(tmp))

    def statuses(self, cases):
        return [(c.suite, c.name, c.status) for c in cases]

    def test_two_suites_keep_their_own_verdicts(self):
        cases = self.parse(suite("a", [("one", False, "")])
                           + suite("b", [("two", True, "")]))
        self.assertEqual(self.statuses(cases), [("a", "one", "FAIL"),
                                                ("b", "two", "PASS")])
        self.assertIn("EXPECTATION FAILED", cases[0].why)

    def test_skip_carries_its_reason(self):
        cases = self.parse(suite("a", [("one", True, " # SKIP no HAFDBS")])
                           + suite("b", [("two", True, "")]))
        self.assertEqual((cases[0].status, cases[0].why),
                         ("SKIP", "no HAFDBS"))

    def test_lost_suite_is_a_failure(self):
        cases = self.parse(suite("a", [("one", True, "")]))
        self.assertIn(("(suites)", "count", "FAIL"), self.statuses(cases))

    def test_module_that_does_not_load_is_a_failure(self):
        with tempfile.TemporaryDirectory() as tmp:
            cases = ktap.parse(["@@ load a_kunit.ko Exec format error"],
                               ["a_kunit.ko"], TREES[0].parents[3], Path(tmp))
        self.assertIn(("a_kunit.ko", "load", "FAIL"), self.statuses(cases))
        self.assertEqual(cases[0].why, "Exec format error")

    def test_suite_cut_in_the_middle_is_a_failure(self):
        cut = suite("a", [("one", True, ""), ("two", True, "")])[:-2]
        cases = self.parse(cut + suite("b", [("three", True, "")]))
        self.assertIn("FAIL", {c.status for c in cases if c.suite == "a"})
        self.assertIn(("b", "three", "PASS"), self.statuses(cases))

    def test_suite_without_cases_is_a_failure(self):
        cases = self.parse(suite("a", []) + suite("b", [("two", True, "")]))
        self.assertIn("FAIL", {c.status for c in cases if c.suite == "a"})


if __name__ == "__main__":
    unittest.main()
