# SPDX-License-Identifier: GPL-2.0
"""make help: targets from the Makefile's `##` comments, and what can be given."""
from __future__ import annotations

import re
import sys
from pathlib import Path

from lib import arch_names, base_names, get_arch, run_main, variants, \
    workload_names


def main() -> int:
    print("pteopt: cheaper page-table updates for arm64 and powerpc radix\n")
    for target, text in re.findall(r"^([\w-]+):.*?## (.*)$",
                                   Path(sys.argv[1]).read_text(), re.M):
        print(f"  make {target:<9} {text}")
    print("\nTo be given, each with its valid values:")
    print(f"  ARCH=  {' '.join(arch_names())}  (default: all)")
    for name in arch_names():
        cpus = " ".join(v.cpu for v in variants(get_arch(name)))
        print(f"  CPU=   {cpus}  ({name}; default for bench: the first)")
    print(f"  BASE=  {' '.join(base_names())}")
    print(f"  W=     {' '.join(workload_names())}  (names or globs)")
    print("  NAME=  what debug and perf are to run (names or globs)")
    print("  KSRC=  a directory, tarball or git tree of your own kernel; "
          "it is only read")
    print("  O=     output folder (default: build)\n  V=1    show commands")
    print("\nExit codes of the scripts: Documentation/exit-codes.rst "
          "(make itself prints them as `Error N`)")
    return 0


if __name__ == "__main__":
    run_main(main)
