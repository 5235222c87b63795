# SPDX-License-Identifier: GPL-2.0
"""Bisection: what is a warning, what is worse, and what is known."""
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import bisection
import lib


class Warnings(unittest.TestCase):
    def test_line_numbers_do_not_matter(self):
        one = bisection.warnings("../mm/a.c:12:3: warning: unused variable 'x'\n")
        two = bisection.warnings("mm/a.c:99:1: warning: unused variable 'x'\n")
        self.assertEqual(one, two)
        self.assertEqual(one, {"mm/a.c: unused variable 'x'"})

    def test_modpost_counts_and_other_words_do_not(self):
        self.assertEqual(bisection.warnings(
            "  CC      mm/warning.o\nWARNING: modpost: vmlinux: section\n"
            "mm/a.c: In function 'f':\n"),
            {"WARNING: modpost: vmlinux: section"})


class Choice(unittest.TestCase):
    found = [bisection.Patch(n, f"c{n}", f"s{n}") for n in range(6)]

    def chosen(self, **env):
        with mock.patch.dict(os.environ, env):
            return [p.number for p in bisection.chosen_patches(self.found)]

    def test_all_but_the_base(self):
        self.assertEqual(self.chosen(FROM="", TO=""), [1, 2, 3, 4, 5])

    def test_from_and_to(self):
        self.assertEqual(self.chosen(FROM="2", TO="3"), [2, 3])
        self.assertEqual(self.chosen(FROM="5", TO=""), [5])

    def test_wrong_numbers(self):
        for env in ({"FROM": "0"}, {"TO": "6"}, {"FROM": "x"},
                    {"FROM": "3", "TO": "2"}):
            with self.assertRaises(lib.Fail) as caught:
                self.chosen(**{"FROM": "", "TO": "", **env})
            self.assertEqual(caught.exception.code, lib.USAGE)


class Kunit(unittest.TestCase):
    def test_what_passed_must_pass(self):
        green = {"s:a": "mm: add a", "s:b": "mm: add b"}
        self.assertEqual(bisection.judge_kunit(
            {"s:a": "PASS", "s:b": "PASS", "s:c": "FAIL"}, green, False), [])
        wrong = bisection.judge_kunit({"s:a": "FAIL"}, green, False)
        self.assertEqual(len(wrong), 2)
        self.assertIn("`mm: add a`", wrong[0])
        self.assertIn("missing", wrong[1])

    def test_at_the_end_all_must_pass(self):
        self.assertEqual(len(bisection.judge_kunit(
            {"s:a": "PASS", "s:c": "FAIL", "s:d": "SKIP"}, {}, True)), 1)


class Known(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.path = Path(tmp.name) / "bisect.json"

    def test_by_commit_part_and_key(self):
        bisection.State(self.path, "key").put("c1", "boot", {"cases": {}})
        state = bisection.State(self.path, "key")
        self.assertEqual(state.get("c1", "boot"), {"cases": {}})
        self.assertIsNone(state.get("c1", "build"))
        self.assertIsNone(state.get("c2", "boot"))
        self.assertIsNone(bisection.State(self.path, "other").get("c1", "boot"))


if __name__ == "__main__":
    unittest.main()
