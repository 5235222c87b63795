# SPDX-License-Identifier: GPL-2.0
"""Mutants and stress: what a file must say, and that a survivor is named."""
import contextlib
import io
import os
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import boot
import kernel as kernels
import lib
import mutants
import orderlog
import series
import stress
import test

HEAD = """SPDX-License-Identifier: GPL-2.0
Something is wrong:
here.
Patch: mm: do good
Killed-by: kunit suite a_case
"""
DIFF = """---
--- a/mm/x.h
+++ b/mm/x.h
@@ -1 +1 @@
-good
+bad
"""


def quietly(function, *args):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        result = function(*args)
    return result, out.getvalue()


class TempDir(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.tmp = Path(tmp.name)
        self.arch = lib.get_arch("arm64")

    def mutant(self, text=HEAD + DIFF, name="arm64-x"):
        path = self.tmp / f"{name}.patch"
        path.write_text(text)
        return mutants.read_mutant(path, self.arch)


class Files(TempDir):
    def test_fields(self):
        m = self.mutant()
        self.assertEqual((m.what, m.patch, m.append, m.rebuild, m.tests,
                          m.files),
                         ("Something is wrong: here.", "mm: do good", "", (),
                          ("kunit suite a_case",), ("mm/x.h",)))

    def refused(self, text):
        with self.assertRaises(lib.Fail) as caught:
            self.mutant(text)
        self.assertEqual(caught.exception.code, lib.USAGE)
        return caught.exception.what

    def test_no_test_is_refused(self):
        self.assertIn("Killed-by", self.refused(
            HEAD.replace("Killed-by: kunit suite a_case\n", "") + DIFF))

    def test_no_patch_is_refused(self):
        self.assertIn("Patch", self.refused(
            HEAD.replace("Patch: mm: do good\n", "") + DIFF))

    def test_unknown_kind_of_test_is_refused(self):
        self.assertIn("hope", self.refused(
            HEAD.replace("kunit suite a_case", "hope") + DIFF))

    def test_suite_without_case_is_refused(self):
        self.refused(HEAD.replace(" a_case", "") + DIFF)

    def test_order_is_no_quick_test(self):
        self.assertTrue(self.mutant().is_quick)
        m = self.mutant(HEAD.replace("kunit suite a_case", "order exec/rx")
                        + DIFF)
        self.assertFalse(m.is_quick)
        self.assertEqual([path.name for path in m.sources], ["orderlog.py"])


class Looking(TempDir):
    """What becomes of a mutant whose test is a step of the order log."""

    def test_order(self):
        tests = ("order exec/rx", "order whole/ro", "order exec/none")
        with mock.patch.object(orderlog, "wrong_steps", return_value={
                "exec/rx": True, "whole/ro": False}):
            found = mutants.boot_and_look(None, None, tests, "", 5, self.tmp)
        self.assertEqual(found, dict(zip(tests, (["fail"], ["pass"],
                                                 ["no result"]))))


class Series(unittest.TestCase):
    """What the mutants of the project name is there."""

    def setUp(self):
        self.all = mutants.all_mutants(
            [lib.get_arch(n) for n in lib.arch_names()])

    def test_subjects(self):
        subjects = mutants.subjects_of("6.12")
        self.assertEqual(len(subjects), len(series.patches_of("6.12")))
        self.assertEqual([m.name for m in self.all
                          if m.patch not in subjects], [])

    def test_cases_and_programs(self):
        cases = set()
        for path in (lib.ROOT / "kunit").glob("*_kunit.c"):
            text = path.read_text()
            suite = re.findall(r'\.name = "(\w+)",\n', text)[-1]
            cases |= {(suite, c) for c in
                      re.findall(r"KUNIT_CASE\w*\((\w+)", text)}
        programs = {p.stem for p in (lib.SCRIPTS / "stress").glob("*.c")}
        for m in self.all:
            for name in m.tests:
                kind, *words = name.split()
                if kind == "kunit":
                    self.assertIn(tuple(words), cases, m.name)
                elif kind == "order":
                    self.assertIn(words[0], orderlog.EXPECTED, m.name)
                else:
                    self.assertIn(words[0], programs, m.name)

    def test_no_file_is_without_architecture(self):
        self.assertEqual({m.path for m in self.all},
                         set(mutants.MUTANTS.glob("*.patch")))

    def test_index_is_up_to_date(self):
        self.assertEqual(
            mutants.INDEX.read_text(),
            mutants.index(self.all, mutants.subjects_of("6.12")),
            "run `python3 scripts/mutants.py index`")

    def test_quick_takes_one_a_patch_with_cases_of_its_own(self):
        for name in lib.arch_names():
            quick = mutants.quick_choice([m for m in self.all
                                          if m.arch.name == name],
                                         lambda m: m.arch.name == name)
            self.assertTrue(all(m.is_quick for m in quick))
            cases = [case for m in quick for case in m.tests]
            self.assertEqual(len(cases), len(set(cases)))
            self.assertEqual(len(quick), len({m.patch for m in quick}))
            self.assertGreaterEqual(len(quick), 12)

    def test_unknown_name_lists_the_valid_ones(self):
        with mock.patch.dict(os.environ, MUTANT="nonsense"), \
                self.assertRaises(lib.Fail) as caught:
            mutants.chosen_mutants()
        self.assertIn(self.all[0].name, caught.exception.why)


class Tree(TempDir):
    """Of the edit, on a tree of one file."""

    def setUp(self):
        super().setUp()
        self.patched, self.kernel = (
            kernels.Kernel("6.12", tree, self.arch, "arm64", "test")
            for tree in ("patched", "mutant"))
        patcher = mock.patch.object(kernels, "BUILD", self.tmp)
        patcher.start()
        self.addCleanup(patcher.stop)
        (self.patched.source / "mm").mkdir(parents=True)
        for name in ("mm/x.h", "mm/x.c"):
            (self.patched.source / name).write_text("good\n")
            os.utime(self.patched.source / name, ns=(10**18, 10**18))
        for name in ("mm/x.o", "mm/y.o", "ext/kunit/suite_kunit.o",
                     "ext/kunit/other_kunit.o"):
            path = self.kernel.objects / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        mutants.copy_tree(self.patched, self.kernel)

    def objects(self):
        return sorted(p.stem for p in self.kernel.objects.rglob("*.o"))

    def edit(self, *texts):
        """The mutants, made and built; whether the kernel was, too."""
        edits = [self.mutant(text, f"arm64-{number}")
                 for number, text in enumerate(texts)]
        with mock.patch.object(kernels, "build") as build:
            for mutant in edits:
                mutants.mutate(mutant, self.patched, self.kernel)
            mutants.build(edits, self.kernel)
        return build.call_count

    def test_header(self):
        self.edit(HEAD + DIFF)
        header = self.kernel.source / "mm/x.h"
        self.assertEqual(header.read_text(), "bad\n")
        self.assertEqual(header.stat().st_mtime_ns, 10**18)
        self.assertEqual((self.patched.source / "mm/x.h").read_text(), "good\n")
        self.assertEqual(self.objects(), ["other_kunit", "x", "y"])

    def test_header_that_objects_use(self):
        self.edit(HEAD + "Rebuild: mm/x.o\n" + DIFF)
        self.assertEqual(self.objects(), ["other_kunit", "y"])

    def test_object_that_is_not_there_is_a_failure(self):
        with self.assertRaises(lib.Fail) as caught:
            self.edit(HEAD + "Rebuild: mm/z.o\n" + DIFF)
        self.assertIn("mm/z.o", caught.exception.why)

    def test_kernel_is_built_if_it_changes(self):
        self.assertEqual(self.edit(HEAD + DIFF), 0)

    def test_kernel_is_built_if_an_object_uses_the_header(self):
        self.assertEqual(self.edit(HEAD + "Rebuild: mm/x.o\n" + DIFF), 1)

    def test_several_in_one_kernel(self):
        self.assertEqual(self.edit(HEAD + DIFF,
                                   (HEAD + DIFF).replace("x.h", "x.c")), 1)
        self.assertEqual(self.objects(), ["other_kunit", "x", "y"])

    def test_c_file_is_left_to_make(self):
        self.edit((HEAD + DIFF).replace("x.h", "x.c"))
        self.assertGreater((self.kernel.source / "mm/x.c").stat().st_mtime_ns,
                           10**18)
        self.assertEqual(len(self.objects()), 4)

    def test_restore(self):
        m = self.mutant()
        mutants.mutate(m, self.patched, self.kernel)
        mutants.restore([m], self.patched, self.kernel)
        self.assertTrue((self.kernel.source / "mm/x.h").samefile(
            self.patched.source / "mm/x.h"))

    def test_mutant_that_does_not_apply_is_a_failure(self):
        with self.assertRaises(lib.Fail):
            mutants.mutate(self.mutant(HEAD + DIFF.replace("good", "other")),
                           self.patched, self.kernel)


class Verdicts(TempDir):
    def judged(self, found, runs=5, want="fail"):
        tally = test.Tally()
        _, said = quietly(mutants.judge, tally, "mutant m", found, runs, want)
        return tally, said

    def test_killed(self):
        tally, _ = self.judged({"kunit s c": ["fail"],
                                "stress p": ["fail"] * 5})
        self.assertEqual((tally.passed, tally.failed), (2, []))

    def test_survivor_is_named(self):
        tally, said = self.judged({"kunit s c": ["pass"]})
        self.assertEqual(len(tally.failed), 1)
        self.assertIn("mutant m, kunit s c", tally.failed[0])
        self.assertIn("SURVIVED", said)

    def test_one_run_of_five_survived(self):
        tally, said = self.judged({"stress p": ["fail"] * 4 + ["pass"]})
        self.assertEqual(len(tally.failed), 1)
        self.assertIn("4 fail, 1 pass", said)

    def test_nothing_else_is_a_kill(self):
        for verdicts in ([], ["no result"], ["skip"], ["exit code 127"],
                         ["fail", "fail"]):
            tally, _ = self.judged({"kunit s c": verdicts})
            self.assertEqual(tally.passed, 0, verdicts)

    def test_missing_run(self):
        tally, _ = self.judged({"stress p": ["fail"] * 4})
        self.assertEqual(tally.passed, 0)

    def test_control_that_fails_proves_nothing(self):
        tally, said = self.judged({"kunit s c": ["fail"]}, 1, "pass")
        self.assertEqual(len(tally.failed), 1)
        self.assertIn("proves nothing", said)


class Resume(TempDir):
    def setUp(self):
        super().setUp()
        (self.tmp / "6.12").mkdir()
        (self.tmp / "6.12/patched.stamp").write_text("series")
        patcher = mock.patch.object(mutants, "BUILD", self.tmp)
        patcher.start()
        self.addCleanup(patcher.stop)

    def test_goes_on_with_what_is_known(self):
        m, found = self.mutant(), {"kunit suite a_case": ["fail"]}
        mutants.Done("6.12", 5).put(m, found)
        self.assertEqual(mutants.Done("6.12", 5).get(m), found)

    def test_other_mutant_series_or_runs_are_not_known(self):
        m, found = self.mutant(), {"kunit suite a_case": ["fail"]}
        mutants.Done("6.12", 5).put(m, found)
        self.assertIsNone(mutants.Done("6.12", 3).get(m))
        changed = self.mutant(HEAD + DIFF.replace("+bad", "+worse"))
        self.assertIsNone(mutants.Done("6.12", 5).get(changed))
        (self.tmp / "6.12/patched.stamp").write_text("another series")
        self.assertIsNone(mutants.Done("6.12", 5).get(self.mutant()))

    def test_complete_run_forgets(self):
        m = self.mutant()
        done = mutants.Done("6.12", 5)
        done.put(m, {"kunit suite a_case": ["fail"]})
        done.drop([m])
        self.assertIsNone(mutants.Done("6.12", 5).get(m))


class Stress(unittest.TestCase):
    GOOD = ("clear/anon/thread: races 512 updates 600 plain 20 overlaps 99 "
            "kernel-lost 0 words-lost 0 torn 0 seconds 1.0: ok")

    def judged(self, lines, rc=0, code=lib.OK, why=""):
        command = boot.Command("ptes", lines=lines, rc=rc)
        tally = test.Tally()
        sums, _ = quietly(stress.judge, tally, "run",
                          boot.Outcome(code, why, [command]))
        return tally, sums

    def test_good_run_is_summed_up(self):
        tally, sums = self.judged(["ptes: 4 CPUs", self.GOOD, self.GOOD])
        self.assertEqual((tally.failed, sums), ([], [1024, 198]))

    def test_failed_case(self):
        tally, _ = self.judged(
            [self.GOOD.replace(": ok", ": FAILED: lost")], rc=1)
        self.assertEqual(len(tally.failed), 2)

    def test_case_with_operations_only(self):
        good = "nth-fork-4k: operations 61, failed 40, injected 60: ok"
        tally, sums = self.judged([good, good.replace(
            "ok", "FAILED: nothing failed")])
        self.assertEqual((tally.failed, sums, tally.passed), (
            ["run nth-fork-4k: operations 61, failed 40, injected 60"],
            [0, 0], 3))

    def test_program_asks_for_a_kernel_that_is_there(self):
        folder = lib.SCRIPTS / "stress"
        self.assertEqual(stress.purpose_of(folder / "ptes.c"), "test")
        for path in folder.glob("*.c"):
            purpose = stress.purpose_of(path)
            for arch in lib.arch_names():
                self.assertTrue(purpose == "test" or (
                    lib.SCRIPTS / "config/debug" / f"{arch}-{purpose}.config"
                ).is_file(), path)

    def test_bad_kernel_log(self):
        tally, _ = self.judged([self.GOOD], code=lib.BAD_LOG, why="WARN")
        self.assertEqual(len(tally.failed), 1)

    def test_lost_guest(self):
        tally, sums = self.judged([self.GOOD], code=lib.LOST_VM)
        self.assertEqual((len(tally.failed), sums), (1, [0, 0]))

    def test_skip_carries_its_reason(self):
        tally, _ = self.judged(["@@ skip ptes: no hooks"], rc=lib.SKIPPED)
        self.assertEqual((tally.skipped, tally.failed), (1, []))

    def test_program_says_how_it_is_run(self):
        runs = stress.program_runs(lib.SCRIPTS / "stress" / "ptes.c")
        self.assertIn("ptes --op=wrprotect", runs)
        with tempfile.TemporaryDirectory() as tmp:
            path = Path(tmp) / "x.c"
            path.write_text("int main;\n")
            self.assertEqual(stress.program_runs(path), ["x"])
            path.write_text("// stress: --a\n// stress:\n// threads: --t\n")
            self.assertEqual(stress.program_runs(path), ["x --a", "x"])
            self.assertEqual(stress.program_runs(path, True),
                             ["x --a --t", "x --t"])

    def test_rounds_that_are_no_number(self):
        with mock.patch.dict(os.environ, ROUNDS="many"), \
                self.assertRaises(lib.Fail) as caught:
            stress.number("ROUNDS")
        self.assertEqual(caught.exception.code, lib.USAGE)


if __name__ == "__main__":
    unittest.main()
