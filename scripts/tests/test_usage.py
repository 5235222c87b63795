# SPDX-License-Identifier: GPL-2.0
"""What a person gives wrong is answered with what is right."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import boot
import kernel
import lib
import series


class Knobs(unittest.TestCase):
    def refused(self, function, *args, **env):
        with mock.patch.dict(os.environ, env), \
                self.assertRaises(lib.Fail) as caught:
            function(*args)
        self.assertEqual(caught.exception.code, lib.USAGE)
        return caught.exception.why

    def test_wrong_arch_lists_the_valid_ones(self):
        self.assertIn("arm64 powerpc", self.refused(lib.chosen_archs,
                                                    ARCH="sparc"))

    def test_wrong_cpu_lists_the_valid_ones(self):
        why = self.refused(lib.chosen_variants, False, ARCH="arm64",
                           CPU="power9")
        self.assertEqual(why, "valid: max midr neoverse-n1 cortex-a72 dic")

    def test_wrong_base_lists_the_valid_ones(self):
        self.assertIn("6.12", self.refused(lib.chosen_base, BASE="2.4"))

    def test_wrong_workload_lists_the_valid_ones(self):
        self.assertIn("mprotect", self.refused(lib.chosen_workloads, [],
                                               W="nonsense"))

    def test_workload_glob(self):
        with mock.patch.dict(os.environ, W="f*k"):
            self.assertEqual(lib.chosen_workloads([]), ["fork"])

    def test_every_variant_names_a_config_that_is_there(self):
        for name in lib.arch_names():
            for variant in lib.variants(lib.get_arch(name)):
                path = lib.SCRIPTS / "config" / f"{variant.config}.config"
                self.assertTrue(path.is_file(), path)


class Image(unittest.TestCase):
    """A kernel in which one function says yes, for what QEMU does not report."""

    def test_function_returns_true_in_a_copy_only(self):
        arch = lib.get_arch("arm64")
        dic = next(v for v in lib.variants(arch) if v.cpu == "dic")
        with tempfile.TemporaryDirectory() as tmp, \
                mock.patch.object(kernel, "BUILD", Path(tmp)):
            one = kernel.Kernel("6.12", "stock", arch, "arm64", "bench")
            one.image.parent.mkdir(parents=True)
            one.image.write_bytes(bytes(64))
            (one.objects / "System.map").write_text(
                "ffff800080000000 T _text\n"
                f"ffff800080000010 t {dic.says_yes}\n")
            copy = boot.image(dic, one, Path(tmp))
            self.assertEqual(one.image.read_bytes(), bytes(64))
            self.assertEqual(copy.read_bytes().hex(),
                             "00" * 16 + "20008052c0035fd6" + "00" * 40)
            (one.objects / "System.map").write_text(
                "ffff800080000000 T _text\n")
            with self.assertRaisesRegex(lib.Fail, "has no function"):
                boot.image(dic, one, Path(tmp))


class Source(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.addCleanup(self.tmp.cleanup)
        self.tree = Path(self.tmp.name) / "linux"
        self.tree.mkdir()

    def fake_kernel(self, patchlevel=12):
        (self.tree / "Kbuild").write_text("\n")
        (self.tree / "Makefile").write_text(
            f"VERSION = 6\nPATCHLEVEL = {patchlevel}\nSUBLEVEL = 117\n")

    def fake_git(self):
        self.fake_kernel()
        series.git(self.tree, "init", "-q")
        series.git(self.tree, "add", "-A")
        series.git(self.tree, "commit", "-q", "-m", "x")

    def refused(self, code=lib.USAGE):
        with self.assertRaises(lib.Fail) as caught:
            series.user_source("6.12", self.tree)
        self.assertEqual(caught.exception.code, code)
        return caught.exception.why

    def test_not_a_kernel(self):
        self.assertIn("not a kernel", self.refused())

    def test_another_version(self):
        self.fake_kernel(patchlevel=1)
        why = self.refused()
        self.assertIn("Linux 6.1.117", why)
        self.assertIn("for 6.12", why)

    def test_dirty_tree(self):
        self.fake_git()
        (self.tree / "Kbuild").write_text("changed\n")
        self.assertIn("uncommitted", self.refused())

    def test_clean_tree_is_only_read(self):
        self.fake_git()
        before = {p: p.stat().st_mtime_ns for p in self.tree.rglob("*")}
        self.assertIn("linux", series.user_source("6.12", self.tree))
        copy = Path(self.tmp.name) / "copy"
        copy.mkdir()
        series.unpack(self.tree, copy)
        self.assertTrue((copy / "Makefile").is_file())
        self.assertEqual(before, {p: p.stat().st_mtime_ns
                                  for p in self.tree.rglob("*")})

    def test_change_in_a_plain_directory_is_seen(self):
        self.fake_kernel()
        first = series.user_source("6.12", self.tree)
        os.utime(self.tree / "Kbuild", ns=(1, 2**61))
        self.assertNotEqual(first, series.user_source("6.12", self.tree))

    def test_patch_that_does_not_apply_names_patch_and_file(self):
        self.fake_git()
        home = Path(self.tmp.name) / "project"
        patches = home / "patches" / "6.12"
        patches.mkdir(parents=True)
        (patches / "0001-x.patch").write_text(
            "From: a <a@b>\nDate: Thu, 1 Jan 2026 00:00:00 +0000\n"
            "Subject: x\n\n---\n Kbuild | 2 +-\n\n"
            "diff --git a/Kbuild b/Kbuild\n--- a/Kbuild\n+++ b/Kbuild\n"
            "@@ -1 +1 @@\n-not what is there\n+new\n")
        with mock.patch.object(series, "ROOT", home), \
                self.assertRaises(lib.Fail) as caught:
            series.am(self.tree, "6.12")
        self.assertEqual(caught.exception.code, lib.NOT_APPLIED)
        self.assertIn("0001-x.patch", caught.exception.what)
        self.assertIn("Kbuild", caught.exception.why)
        self.assertFalse((self.tree / ".git/rebase-apply").exists())


class Config(unittest.TestCase):
    WANTED = ("# SPDX-License-Identifier: GPL-2.0\nCONFIG_A=y\n"
              "# CONFIG_B is not set\nCONFIG_C=n\n# needs: patched\n"
              "CONFIG_NEW=y\n")

    def test_all_there(self):
        self.assertEqual(kernel.missing_options(
            self.WANTED, "CONFIG_A=y\nCONFIG_NEW=y\n", False), [])

    def test_dropped_option_is_named(self):
        missing = kernel.missing_options(
            self.WANTED, "CONFIG_B=y\nCONFIG_NEW=y\n", False)
        self.assertEqual(missing, ["CONFIG_A=y (is n)", "CONFIG_B=n (is y)"])

    def test_options_of_the_series_are_not_asked_of_stock(self):
        self.assertEqual(kernel.missing_options(
            self.WANTED, "CONFIG_A=y\n", True), [])
        self.assertEqual(kernel.missing_options(
            self.WANTED, "CONFIG_A=y\n", False), ["CONFIG_NEW=y (is n)"])


class Build(unittest.TestCase):
    def test_kernel_that_does_not_build_is_its_own_failure(self):
        with tempfile.TemporaryDirectory() as tmp:
            fake = mock.Mock(objects=Path(tmp), arch=lib.get_arch("arm64"))
            fake.name = "kernel fake"
            broken = [sys.executable, "-c",
                      "print('  CC      mm/x.o'); "
                      "print('mm/x.c:1:1: error: no'); raise SystemExit(2)"]
            with mock.patch.object(kernel, "configure"), \
                    mock.patch.object(kernel, "make_argv",
                                      return_value=broken), \
                    self.assertRaises(lib.Fail) as caught:
                kernel.build(fake)
            self.assertEqual(caught.exception.code, lib.BUILD_FAILED)
            self.assertIn("mm/x.c:1:1: error", caught.exception.why)
            self.assertIn("build.log", caught.exception.todo)


class ExitCodes(unittest.TestCase):
    def test_script_exits_with_the_failures_code_and_words(self):
        done = subprocess.run(
            [sys.executable, str(lib.SCRIPTS / "bench.py")], text=True,
            capture_output=True, check=False,
            env={**os.environ, "ARCH": "sparc"})
        self.assertEqual(done.returncode, lib.USAGE)
        self.assertIn("bench.py: ARCH=sparc is not known: valid: arm64 "
                      "powerpc", done.stderr)


if __name__ == "__main__":
    unittest.main()
