# SPDX-License-Identifier: GPL-2.0
"""make clean: remove what was built, never somebody's work.

Downloads stay; the compiler cache is the user's own. Refuses while build/<base>/patched has
commits or edits that are not in patches/ (FORCE=1 drops them)."""
from __future__ import annotations

import os
import shutil

import series
from lib import BUILD, OK, base_names, lock, rel, run_main

KEPT = ("dl", ".lock")


def main() -> int:
    with lock():
        if not os.environ.get("FORCE"):
            for base in base_names():
                series.protect_work(base)
        for path in BUILD.iterdir():
            if path.name in KEPT:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    print(f"{rel(BUILD)}: removed all but {KEPT[0]}")
    return OK


if __name__ == "__main__":
    run_main(main)
