# SPDX-License-Identifier: GPL-2.0
"""make stress: the programs of scripts/stress/ on the patched kernel.

  stress.py    all of them, or those that STRESS= (names or globs) leaves, on
               the main machine of each ARCH; ROUNDS= is how long, SEED= another
               seed than 1, THREADS=1 a thread of the host for each CPU

A program says how it is to be run in lines `// stress: <options>`, each of
which is a boot of its own with several CPUs; without one, it is run as it is.
With THREADS=1 what a line `// threads: <options>` says is added. A line
`// kernel: <name>` asks for the kernel of config/debug/<arch>-<name>.config.
A line of output `<case>: races N ... overlaps N ...: <verdict>` is a case; the
races and overlaps of all are summed up. So is `<case>: operations N ...:
<verdict>`, without a sum. The last line is `N passed, N failed, N skipped`.
"""
from __future__ import annotations

import os
import re
from pathlib import Path

import boot
import kernel as kernels
import series
import test
from lib import (BAD_LOG, BUILD, LOST_VM, OK, SCRIPTS, SKIPPED, USAGE, Fail,
                 Variant, chosen_base, chosen_names, chosen_variants, lock,
                 run_main)

# A run that does not end in this time (s) hangs.
CPUS, TIMEOUT = 4, 3600
# The clock advances with the instructions, and a CPU that waits lets others run:
# how often a write meets an update does not depend on how busy the host is, and
# a seed gives the same run again. With a thread for each CPU instead, QEMU's
# ppc64 does not wait for other CPUs in tlbie, so that these write through
# translations that are gone: also on a stock kernel.
ONE_THREAD = ("-icount", "shift=0,sleep=off", "-rtc", "base=2026-01-01,clock=vm")
THREADS = ("-accel", "tcg,thread=multi")

CASE = re.compile(r"(\S+): races (\d+) .*overlaps (\d+) .*: (ok|FAILED.*)$")
COUNTED = re.compile(r"(\S+: operations \d+, .*?): (ok|FAILED.*)$")


def program_runs(path: Path, threads: bool = False) -> list[str]:
    """The commands of a program's `// stress:` lines, with what `// threads:`
    says if each CPU is a thread."""
    text = path.read_text()
    found = re.findall(r"^// stress:(.*)$", text, re.M) or [""]
    more = re.findall(r"^// threads:(.*)$", text, re.M) if threads else []
    return [" ".join(" ".join([path.stem, options, *more]).split())
            for options in found]


def chosen_programs() -> list[Path]:
    found = {path.stem: path
             for path in sorted((SCRIPTS / "stress").glob("*.c"))}
    return [found[name] for name in chosen_names("STRESS", list(found))]


def purpose_of(path: Path) -> str:
    """Which kernel a program asks for."""
    found = re.search(r"^// kernel: (\S+)$", path.read_text(), re.M)
    return found[1] if found else "test"


def number(name: str) -> int:
    """A positive number of the environment, 0 if it is not given."""
    text = os.environ.get(name) or "0"
    if not text.isdecimal():
        raise Fail(USAGE, f"{name}={text}", "that is not a number")
    return int(text)


def guest(variant: Variant, kernel: kernels.Kernel, commands: list[str],
          folder: Path, append: str = "", threads: bool = False) -> boot.Guest:
    return boot.Guest(variant, kernel, commands, folder, timeout=TIMEOUT,
                      smp=CPUS, append=append,
                      qemu_extra=THREADS if threads else ONE_THREAD)


def judge(tally: test.Tally, name: str, outcome: boot.Outcome) -> list[int]:
    """Verdicts of one run; the races and overlaps of its cases."""
    if outcome.code not in (OK, BAD_LOG):
        tally.add(name, "FAIL", f"{outcome.why} (exit code {outcome.code})")
        return [0, 0]
    tally.check(f"{name}: kernel log", outcome.code == OK, outcome.why)
    if len(outcome.commands) != 1:
        tally.add(name, "FAIL", f"no result (exit code {LOST_VM})")
        return [0, 0]
    command, sums = outcome.commands[0], [0, 0]
    if command.rc == SKIPPED:
        tally.add(name, "SKIP", " ".join(command.lines))
        return sums
    for line in command.lines:
        if match := CASE.match(line):
            sums[0] += int(match[2])
            sums[1] += int(match[3])
            tally.check(f"{name} {match[1]}: {match[2]} races, {match[3]} "
                        "overlaps", match[4] == "ok", match[4])
        elif match := COUNTED.match(line):
            tally.check(f"{name} {match[1]}", match[2] == "ok", match[2])
    said = "; ".join(command.lines[-3:])
    tally.check(f"{name}: all of it", command.rc == OK,
                f"exit code {command.rc}: {said}")
    return sums


def main() -> int:
    base, programs = chosen_base(), chosen_programs()
    extra = f" --rounds={number('ROUNDS')}" if number("ROUNDS") else ""
    extra += f" --seed={number('SEED')}" if number("SEED") else ""
    tally, races, overlaps = test.Tally(), 0, 0
    threads = bool(number("THREADS"))
    with lock():
        series.trees(base)
        for variant in chosen_variants(every=False):
            runs = [(run, purpose_of(path)) for path in programs
                    for run in program_runs(path, threads)]
            for run, purpose in runs:
                name = f"{variant.name} {run}"
                with tally.part(name):
                    kernel = kernels.Kernel(base, "patched", variant.arch,
                                            variant.config, purpose)
                    kernels.build(kernel)
                    folder = re.sub(r"[^\w=-]+", "-", run)
                    outcome = guest(variant, kernel, [run + extra], BUILD /
                                    base / variant.name / "stress" / folder,
                                    threads=threads).run()
                    more = judge(tally, name, outcome)
                races, overlaps = races + more[0], overlaps + more[1]
    print(f"{races} racing updates, {overlaps} of which overlapped with a "
          "write")
    return tally.close()


if __name__ == "__main__":
    run_main(main)
