# SPDX-License-Identifier: GPL-2.0
"""How the module's build logs and its tests' words are judged."""
from __future__ import annotations

import contextlib
import io
import unittest

import boot
import module
from test import Tally

LOG = """\
  CC [M]  ext/module/walk.o
./include/linux/mm.h:12:3: warning: a header is not ours
"""


def judged(rc: int | None, *lines: str) -> Tally:
    tally = Tally()
    with contextlib.redirect_stdout(io.StringIO()):
        module.judge(tally, "m", boot.Command("pteopt", list(lines), rc=rc))
    return tally


class Noise(unittest.TestCase):
    def test_headers_are_not_ours(self):
        self.assertEqual(module.noise(LOG), [])

    def test_warnings_of_ours_are(self):
        for line in ("ext/module/walk.c:1:2: warning: unused",
                     "ext/module/arch/arm64.c:3:4: error: no",
                     "../o-x/ext/module/ops.c:3:4: warning: sparse too",
                     'ERROR: modpost: "set_ptes" [x.ko] undefined!',
                     "make[2]: *** [Makefile:9: ext/module] Error 1"):
            self.assertEqual(module.noise(LOG + line + "\n"), [line])


class Judge(unittest.TestCase):
    def test_verdicts(self):
        tally = judged(0, "ok walk 2M", "# a remark", "skip swap: no disk",
                       "ok fuzz walk '1': Invalid argument")
        self.assertEqual((tally.passed, tally.failed, tally.skipped),
                         (2, [], 1))

    def test_not_ok_is_a_failure(self):
        self.assertEqual(judged(1, "ok a", "not ok b: why").failed, ["m b"])

    def test_no_verdict_is_a_failure(self):
        self.assertTrue(judged(0).failed)
        self.assertTrue(judged(0, "# nothing but words").failed)

    def test_exit_code_must_agree(self):
        self.assertTrue(judged(1, "ok a").failed)
        self.assertTrue(judged(139, "ok a").failed)
        self.assertTrue(judged(None, "ok a").failed)
        self.assertEqual(len(judged(0, "not ok b: why").failed), 2)


if __name__ == "__main__":
    unittest.main()
