# SPDX-License-Identifier: GPL-2.0
"""make new: a commented template in the one place where it belongs."""
from __future__ import annotations

import os
import re

from lib import OK, ROOT, SCRIPTS, USAGE, Fail, rel, run_main

# kind -> (template, where it goes, what to do next)
KINDS = {
    "kunit": ("kunit.c", "kunit/{name}_kunit.c",
              "make test PART=kunit; a new kernel option goes to "
              "scripts/config/<arch>-test.config"),
    "workload": ("workload.c", "scripts/workloads/{name}.c",
                 "make bench W={name}"),
    "patch-base": ("base", "patches/{name}/base",
                   "put the ported series beside it, then "
                   "make test BASE={name}"),
}


def main() -> int:
    kind, name = os.environ.get("KIND", ""), os.environ.get("NAME", "")
    if kind not in KINDS or not re.fullmatch(r"[a-z0-9][a-z0-9_.]*", name):
        raise Fail(USAGE, "usage: make new KIND=... NAME=...",
                   f"KIND is one of {' '.join(KINDS)}; NAME is lower case")
    template, where, then = KINDS[kind]
    target = ROOT / where.format(name=name)
    if target.exists():
        raise Fail(USAGE, f"{rel(target)} is there already")
    text = (SCRIPTS / "templates" / template).read_text()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text.replace("@NAME@", name))
    print(f"{rel(target)}\nnext: {then.format(name=name)}")
    return OK


if __name__ == "__main__":
    run_main(main)
