# SPDX-License-Identifier: GPL-2.0
"""Each way a guest can end is told from the others (canned logs)."""
import unittest

import boot
import lib

GOOD = """K| [    0.0] Linux version 6.12.117
@@ begin fork
@@ step fork1/4k units 16 ipi 0 fault 1 ctxt 2
K| [    1.0] something harmless
@@ rc 0 fork
@@ end
"""


def verdict(console="", results=GOOD, timed_out=False, exit_code=0):
    return boot.judge(console, results, timed_out, 300, exit_code)


class Judge(unittest.TestCase):
    def test_good_run_is_ok_and_keeps_lines_by_command(self):
        outcome = verdict()
        self.assertEqual(outcome.code, lib.OK)
        command = outcome.commands[0]
        self.assertEqual((command.name, command.rc), ("fork", 0))
        self.assertEqual(command.lines,
                         ["@@ step fork1/4k units 16 ipi 0 fault 1 ctxt 2"])
        self.assertEqual(command.klog, ["[    1.0] something harmless"])

    def test_carriage_returns_of_a_console_do_not_matter(self):
        self.assertEqual(verdict(results=GOOD.replace("\n", "\r\n")).code,
                         lib.OK)

    def test_failed_command_is_not_the_guests_failure(self):
        outcome = verdict(results=GOOD.replace("rc 0", "rc 1"))
        self.assertEqual((outcome.code, outcome.commands[0].rc), (lib.OK, 1))

    def test_panic(self):
        cut = GOOD.split("@@ rc")[0]
        outcome = verdict("Kernel panic - not syncing: Fatal exception\n", cut)
        self.assertEqual(outcome.code, lib.PANIC)
        self.assertIn("during `fork`", outcome.why)

    def test_oops_that_panics_names_its_first_line(self):
        outcome = verdict("Unable to handle kernel NULL pointer dereference\n"
                          "Internal error: Oops\n"
                          "Kernel panic - not syncing: Oops\n", "")
        self.assertEqual(outcome.code, lib.PANIC)
        self.assertIn("NULL pointer", outcome.why)
        self.assertIn("before the first command", outcome.why)

    def test_hang_is_a_timeout(self):
        outcome = verdict(results=GOOD.split("@@ rc")[0], timed_out=True)
        self.assertEqual(outcome.code, lib.TIMEOUT)
        self.assertIn("300 s", outcome.why)

    def test_warning_in_the_kernel_log_fails_a_run_that_looks_good(self):
        for line in ("WARNING: CPU: 0 PID: 1 at mm/memory.c:1",
                     "BUG: Bad page map in process fork",
                     "BUG: KASAN: use-after-free in foo",
                     "WARNING: possible circular locking dependency detected",
                     "fork[33]: segfault at 0 nip 0"):
            bad = GOOD.replace("something harmless", line)
            outcome = verdict(results=bad)
            self.assertEqual(outcome.code, lib.BAD_LOG, line)
            self.assertIn(line, outcome.why)

    def test_warning_on_the_console_only_counts_too(self):
        self.assertEqual(verdict("WARNING: CPU: 1 PID: 7\n").code,
                         lib.BAD_LOG)

    def test_allowed_line_is_allowed(self):
        self.assertEqual(verdict("WARNING: nvram corruption detected: 0-bytes"
                                 " partition\n").code, lib.OK)

    def test_early_end_is_a_lost_vm(self):
        outcome = verdict("last words\n", GOOD.split("@@ rc")[0], exit_code=1)
        self.assertEqual(outcome.code, lib.LOST_VM)
        self.assertIn("last words", outcome.why)

    def test_missing_end_line_is_a_lost_vm(self):
        self.assertEqual(verdict(results=GOOD.replace("@@ end\n", "")).code,
                         lib.LOST_VM)

    def test_nothing_at_all_is_a_lost_vm(self):
        self.assertEqual(verdict(results="").code, lib.LOST_VM)

    def test_the_codes_are_distinct(self):
        codes = [lib.OK, lib.TEST_FAILED, lib.USAGE, lib.BUILD_FAILED,
                 lib.SKIPPED, lib.LOST_VM, lib.NOT_APPLIED, lib.BAD_LOG,
                 lib.PANIC, lib.NO_SOURCE, lib.TIMEOUT, lib.INTERRUPTED]
        self.assertEqual(len(codes), len(set(codes)))


if __name__ == "__main__":
    unittest.main()
