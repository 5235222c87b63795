# SPDX-License-Identifier: GPL-2.0
"""A litmus test that does not come out as it says fails; what the page on
correctness names is there."""
import contextlib
import io
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import correctness
import lib
import litmus
import orderlog
import series

FILES = sorted(litmus.TESTS.glob("*.litmus"))
NEVER = "Observation x Never 0 2\n"
SOMETIMES = "Observation x Sometimes 1 2\n"


def subjects():
    """The patches of all bases, long subjects unfolded."""
    found = set()
    for base in lib.base_names():
        for path in series.patches_of(base):
            head = path.read_text(errors="replace").partition("\n\n")[0]
            subject = re.search(r"^Subject: (.*(?:\n .*)*)", head, re.M)[1]
            found.add(re.sub(r"^\[PATCH[^]]*\] ", "",
                             subject.replace("\n", "")))
    return found


class Verdict(unittest.TestCase):
    """herd7's part is played by a program that prints what it is told."""

    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.tmp = Path(tmp.name)
        self.path = self.tmp / "x.litmus"
        self.write("Result: Never", "Control: y", "Patch: z")

    def write(self, *fields):
        lines = "".join(f" * {f}\n" for f in fields)
        self.path.write_text(f"AArch64 x\n(*\n{lines} *)\n")

    def judge(self, code, timeout=60):
        return litmus.judge([sys.executable, "-c", code], self.path, timeout)

    def says(self, text):
        return self.judge(f"print({text!r})")

    def test_as_expected(self):
        self.assertEqual(self.says(NEVER), "")

    def test_wrong_expectation_fails(self):
        self.assertEqual(self.says(SOMETIMES), "Sometimes, expected Never")
        self.write("Result: Sometimes", "Patch: z")
        self.assertEqual(self.says(SOMETIMES), "")
        self.assertEqual(self.says(NEVER), "Never, expected Sometimes")

    def test_always_is_not_sometimes(self):
        self.write("Result: Sometimes", "Patch: z")
        self.assertIn("Always", self.says("Observation x Always 2 0"))

    def test_flag_that_is_not_expected_fails(self):
        self.assertIn("requires-BBM", self.says(NEVER + "Flag requires-BBM"))

    def test_note_of_the_model_is_no_flag(self):
        self.assertEqual(self.says(f"{NEVER}Flag {min(litmus.NOTES)}"), "")

    def test_flag_that_is_missing_fails(self):
        self.write("Result: Never", "Control: y", "Patch: z",
                   "Flag: requires-BBM")
        self.assertEqual(self.says(NEVER + "Flag requires-BBM"), "")
        self.assertIn("flags: none", self.says(NEVER))

    def test_no_verdict_fails(self):
        self.assertIn("no output", self.says(""))
        self.assertIn("syntax", self.says("Warning: syntax error"))
        self.assertIn("no verdict", self.says(NEVER + NEVER))

    def test_herd7_that_fails_fails(self):
        self.assertIn("(3)", self.judge(f"print({NEVER!r}); exit(3)"))

    def test_timeout_fails(self):
        self.assertIn("no verdict after",
                      self.judge("import time; time.sleep(60)", 0.1))

    def test_fields_are_checked(self):
        for fields in (["Patch: z"], ["Result: Maybe", "Patch: z"],
                       ["Result: Never", "Patch: z"],
                       ["Result: Never", "Control: y"],
                       ["Result: Sometimes", "Control: y", "Patch: z"]):
            self.write(*fields)
            self.assertNotEqual(self.says(NEVER), "", fields)

    def run_main(self, **env):
        with mock.patch.object(litmus, "TESTS", self.tmp), \
                mock.patch.dict(os.environ, env), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            code = litmus.main()
        return code, out.getvalue().splitlines()

    def test_no_herd7_is_a_skip_with_its_reason(self):
        gone = lib.Fail(lib.NO_SOURCE, "apt has no mirror", "none")
        with mock.patch.object(litmus, "herd7", side_effect=gone):
            code, lines = self.run_main()
        self.assertEqual(code, lib.SKIPPED)
        self.assertIn("apt has no mirror", lines[0])
        self.assertEqual(lines[-1], "0 passed, 0 failed, 1 skipped")

    def test_herd7_that_was_given_but_does_not_run_is_no_skip(self):
        with self.assertRaises(lib.Fail):
            self.run_main(HERD="/nonexistent/herd7")

    def test_failure_is_counted(self):
        herd = self.tmp / "herd7"
        herd.write_text(f"#!/bin/sh\necho '{SOMETIMES}'\n")
        herd.chmod(0o755)
        code, lines = self.run_main(HERD=str(herd))
        self.assertEqual(code, lib.TEST_FAILED)
        self.assertEqual(lines[-1], "0 passed, 1 failed, 0 skipped")


class Real(unittest.TestCase):
    """The same with herd7 itself, if `make litmus` has fetched it."""

    def test_wrong_expectation_fails(self):
        herd = litmus.herd7(may_fetch=False)
        if not herd:
            self.skipTest("herd7 is not here yet (make litmus)")
        good = litmus.TESTS / "radix-settled.litmus"
        self.assertEqual(litmus.judge(herd, good), "")
        with tempfile.TemporaryDirectory() as tmp:
            bad = Path(tmp) / good.name
            bad.write_text(re.sub(r" \* Control: .*\n", "", good.read_text())
                           .replace("Result: Never", "Result: Sometimes"))
            self.assertEqual(litmus.judge(herd, bad),
                             "Never, expected Sometimes")
            # An entry that is not settled: the claim itself has to fail.
            bad.write_text(good.read_text().replace("pte=15;", "pte=11;"))
            self.assertEqual(litmus.judge(herd, bad),
                             "Always, expected Never")


class Files(unittest.TestCase):
    def test_each_never_has_a_control_that_is_possible(self):
        tests = {p.stem: litmus.read_test(p) for p in FILES}
        for name, test in tests.items():
            if test.result == "Never":
                self.assertIn(test.control, tests, name)
                self.assertEqual(tests[test.control].result, "Sometimes", name)

    def test_there_are_enough(self):
        self.assertGreaterEqual(len(FILES), 30)

    def test_name_is_that_of_the_file(self):
        for path in FILES:
            self.assertRegex(path.read_text(),
                             rf"^(AArch64|PPC) {path.stem}\n")

    def test_each_patch_exists(self):
        known = subjects()
        for path in FILES:
            for patch in litmus.read_test(path).patches:
                self.assertIn(patch, known, path.name)


class Page(unittest.TestCase):
    """Documentation/correctness.rst."""

    def setUp(self):
        self.text = correctness.PAGE.read_text()

    def values(self, name):
        """All values of a derived field, with what goes on in the next line."""
        for block in re.findall(rf"^:{name}: (.*(?:\n\t.*)*)", self.text, re.M):
            for value in re.split(r",\s+", block):
                if value != "none":
                    yield value

    def test_patches_are_those_of_the_series(self):
        titles = correctness.TITLE.findall(self.text)
        self.assertEqual(len(titles), len(set(titles)))
        self.assertEqual(set(titles), subjects())

    def test_is_up_to_date(self):
        self.assertEqual(self.text, correctness.filled(self.text),
                         "run `python3 scripts/correctness.py`")

    def test_each_patch_has_derived_lines(self):
        self.assertEqual(len(re.findall(r"^:litmus: ", self.text, re.M)),
                         len(correctness.TITLE.findall(self.text)))

    def test_each_litmus_test_is_named(self):
        self.assertEqual(set(self.values("litmus")), {p.stem for p in FILES})

    def test_each_mutant_is_named(self):
        self.assertEqual(
            set(self.values("mutants")),
            {p.stem for p in (lib.SCRIPTS / "mutants").glob("*.patch")})

    def test_each_test_exists(self):
        suites = {}
        for path in (lib.ROOT / "kunit").glob("*_kunit.c"):
            text = path.read_text()
            cases = re.findall(r"KUNIT_CASE\w*\((\w+)", text)
            for suite in re.findall(r'\.name = "pteopt_(\w+)"', text):
                suites.setdefault(suite, set()).update(cases)
        for value in self.values("tests"):
            if value.startswith("stress "):
                source = lib.SCRIPTS / "stress" / f"{value.split()[1]}.c"
                self.assertTrue(source.is_file(), value)
            elif value.startswith("order "):
                self.assertIn(value.split()[1], orderlog.EXPECTED)
            else:
                suite, _, case = value.partition(".")
                self.assertIn(suite, suites)
                # A mutant may name the suite alone.
                if case:
                    self.assertIn(case, suites[suite])


if __name__ == "__main__":
    unittest.main()
