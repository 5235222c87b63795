# SPDX-License-Identifier: GPL-2.0
"""make selftests: the kernel's own tests of mm, on stock against patched.

  selftests.py    those of selftests.tsv that ARCH= and T= (names or globs)
                  leave, on the main machine of each ARCH

The tests are those of the base, tools/testing/selftests: cross-built, static,
from a copy of what they need in build/<base>/selftests-<arch>; the trees stay
clean. Both kernels are those of `make bench`; a boot runs ten tests.

A test must give at least as many passed cases as selftests.tsv asks for, on both
kernels; no case may be worse on the patched one, or missing there; and neither
kernel may complain. What can't run here is a row with the reason, and counts as
skipped. The last line is `N passed, N failed, N skipped`.
"""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import boot
import kernel as kernels
import series
from lib import (BUILD, BUILD_FAILED, OK, SCRIPTS, SKIPPED, TEST_FAILED,
                 TIMEOUT, USAGE, Fail, Step, Variant, arch_names, chosen_base,
                 chosen_names, chosen_variants, lock, rel, run, run_main)
from test import Tally

TABLE = SCRIPTS / "selftests.tsv"
LIBRARIES = ("libcap-dev", "libnuma-dev", "liburing-dev")
MEMORY = 2048
# For the boot and for what the guest's program needs itself (s)
SPARE = 120
# The kernel gives init 32 words at the most, and a test has three.
TESTS_PER_BOOT = 10
TREES = ("stock", "patched")


@dataclass(frozen=True)
class Row:
    """A line of selftests.tsv."""
    name: str
    archs: tuple[str, ...]
    folder: str
    command: str
    least: int
    seconds: int
    setup: str
    skip: str
    unstable: str


@dataclass
class Result:
    """What one test gave on one kernel."""
    rc: int | None
    cases: dict[str, str] = field(default_factory=dict)

    def count(self, status: str) -> int:
        return list(self.cases.values()).count(status)


def read_table(text: str) -> list[Row]:
    rows: list[Row] = []
    for line in text.splitlines():
        words = line.split("\t")
        if not line or line.startswith("#") or words[0] == "name":
            continue
        if len(words) != 8:
            raise Fail(USAGE, f"selftests.tsv: {words[0]} has {len(words)} "
                       "columns", "it needs 8, with a tab between two")
        name, archs, folder, command, least, seconds, setup, skip = words
        if name in {row.name for row in rows}:
            raise Fail(USAGE, f"selftests.tsv: there are two tests {name}")
        if (skip == "-" or skip.startswith("case ")) and int(least) < 1:
            raise Fail(USAGE, f"selftests.tsv: {name} asks for no passed case",
                       "a test that can't pass has a reason to be skipped")
        case = re.match(r"case (\S+): \S", skip)
        rows.append(Row(name, tuple(arch_names() if archs == "all" else
                                    archs.split()), folder, command,
                        int(least), int(seconds),
                        "" if setup == "-" else setup,
                        "" if skip == "-" or case else skip,
                        case[1] if case else ""))
    return rows


def parse_cases(lines: list[str], rc: int | None) -> dict[str, str]:
    """Cases by name. A program that prints none is one case: its exit code.

    TAP; what the harness of powerpc prints; and `Testing X... done`."""
    cases: dict[str, str] = {}

    def add(name: str, status: str) -> None:
        # Addresses and sizes differ from run to run.
        name = re.sub(r"0x[0-9a-f]+|\d+(?= ?MB)", "N", name).strip(" -") \
            or "case"
        key, n = name, 1
        while key in cases:
            n += 1
            key = f"{name} ({n})"
        cases[key] = status

    for line in lines:
        if match := re.match(r"(ok|not ok) \d+ ?([^#]*)(.*)$", line):
            words = match[3].upper()
            status = "PASS" if match[1] == "ok" else "FAIL"
            if re.match(r"#\s*(SKIP|XFAIL)", words):
                status = "SKIP"
            name = match[2].strip(" -")
            if not name:
                name = re.sub(r"^#\s*\w+\s*", "", match[3])
            add(name, status)
        elif match := re.match(r"(success|failure|skip): (.*)$", line):
            add(match[2], {"success": "PASS", "skip": "SKIP"}.get(
                match[1], "FAIL"))
        elif match := re.match(r"Testing (.*?)\.\.\. (done|failed|skipped)\b",
                               line):
            add(match[1], {"done": "PASS", "skipped": "SKIP"}.get(
                match[2], "FAIL"))
    if not cases:
        add("exit code", {OK: "PASS", SKIPPED: "SKIP"}.get(
            rc if rc is not None else -1, "FAIL"))
    return cases


RANK = {"PASS": 0, "SKIP": 1, "FAIL": 2, "missing": 3}


def worse(stock: Result, patched: Result) -> list[str]:
    """What is worse on the patched kernel."""
    found = []
    for name in {**stock.cases, **patched.cases}:
        was = stock.cases.get(name, "PASS")
        now = patched.cases.get(name, "missing")
        if RANK[now] > RANK[was]:
            found.append(f"{name}: {stock.cases.get(name, 'missing')} on "
                         f"stock, {now} on patched")
    if stock.rc in (OK, SKIPPED) and patched.rc not in (OK, SKIPPED):
        found.append(f"exit code {patched.rc}, on stock {stock.rc}")
    return found


def complaints(row: Row, results: dict[str, Result]) -> list[str]:
    """Why a test is not as it has to be."""
    found = []
    for tree, result in results.items():
        if result.rc is None:
            found.append(f"no result on {tree}")
        elif result.rc == TIMEOUT:
            found.append(f"no end within {row.seconds} s on {tree}")
        elif result.count("PASS") < row.least:
            found.append(f"{result.count('PASS')} passed cases on {tree}, "
                         f"at least {row.least} expected")
    return found + worse(results["stock"], results["patched"])


def judge(tally: Tally, name: str, row: Row,
          results: dict[str, Result]) -> None:
    wrong = complaints(row, results)
    patched = results["patched"]
    counts = ", ".join(f"{patched.count(status)} {word}" for status, word in (
        ("PASS", "passed"), ("SKIP", "skipped"), ("FAIL", "failed"))
        if patched.count(status))
    tally.check(f"{name}: {counts}", not wrong, "; ".join(wrong[:8])
                + (f"; and {len(wrong) - 8} more" if len(wrong) > 8 else ""))


# --- building ------------------------------------------------------------------

def copy_sources(kernel: kernels.Kernel, copy: Path) -> None:
    """What the tests are built from; their Makefiles write beside it."""
    copy.mkdir(parents=True, exist_ok=True)
    run(["rsync", "-a", "--delete", "--relative", "--exclude=local_config.*",
         "--include=*/",
         "--include=/tools/**", "--include=/include/vdso/**",
         "--include=/mm/*.h", "--include=/lib/*.h", "--exclude=*",
         "tools/testing/selftests", "tools/include", "tools/arch",
         "include/vdso", "mm", "lib", f"{copy}/"], cwd=kernel.source)


def headers(kernel: kernels.Kernel, out: Path) -> None:
    """The base's user headers; only `out` is written to."""
    out.mkdir(parents=True, exist_ok=True)
    run([*kernels.make_argv(kernel, "-s", f"O={out}", "headers")],
        cwd=kernel.source, env=kernels.make_env(), code=BUILD_FAILED)


def program(row: Row) -> str:
    return row.command.split()[0]


def build(kernel: kernels.Kernel, table: list[Row]) -> Path:
    """The programs of all tests of the architecture, stripped; the folder."""
    arch = kernel.arch
    rows = [row for row in table if arch.name in row.archs and not row.skip]
    home = BUILD / kernel.base / f"selftests-{arch.name}"
    out, log = home / "out", home / "build.log"
    wanted = (BUILD / kernel.base / "stock.stamp").read_text()
    stamp = home / "stamp"
    if stamp.is_file() and stamp.read_text() == wanted and \
            all((out / program(row)).is_file() for row in rows):
        return out
    step = Step(f"selftests of {kernel.base} for {arch.name}", log)
    root = boot.unpack(arch, LIBRARIES)
    copy_sources(kernel, home / "src")
    headers(kernel, home / "headers")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    triplet = arch.cross.rstrip("-")
    # A static PIE: a program at a fixed low address is in the way of tests that
    # map one. Debian's cross libc has no start code for that on powerpc.
    pie = "-static-pie" if arch.name == "arm64" else "-static"
    env = {**kernels.make_env(),
           "C_INCLUDE_PATH": str(root / "usr/include")}
    with log.open("w") as handle:
        for folder in sorted({row.folder for row in rows}):
            top, _, below = folder.partition("/")
            where = folder if top == "powerpc" else top
            argv = ["make", "-k", f"-j{os.cpu_count()}", "-C",
                    home / "src/tools/testing/selftests" / where,
                    f"OUTPUT={home / 'obj' / where}", f"ARCH={arch.name}",
                    f"CROSS_COMPILE={arch.cross}", "GIT_VERSION=none",
                    f"KHDR_INCLUDES=-isystem {home / 'headers/usr/include'}",
                    # khugepaged.c of 6.12 forgets the header of this
                    "EXTRA_CFLAGS=-DKSFT_SKIP=4",
                    f"LDFLAGS={pie} -Wl,-z,separate-code "
                    f"-L{root / 'usr/lib' / triplet}"]
            if top == "arm64":
                argv.append(f"ARM64_SUBTARGETS={below}")
            (home / "obj" / where).mkdir(parents=True, exist_ok=True)
            # A program that does not build is named below, if a row wants it.
            subprocess.run([str(a) for a in argv], env=env, stdout=handle,
                           stderr=subprocess.STDOUT, check=False)
    missing = []
    for folder, name in sorted({(row.folder, program(row)) for row in rows}):
        source = home / "obj" / folder / name
        if source.is_file():
            run([f"{arch.cross}strip", "-o", out / name, source],
                code=BUILD_FAILED)
        else:
            missing.append(name)
    if missing:
        step.done("FAILED")
        raise Fail(BUILD_FAILED, f"selftests for {arch.name}",
                   f"not built: {' '.join(missing)}", f"log: {rel(log)}")
    stamp.write_text(wanted)
    step.done()
    return out


def guest_files(kernel: kernels.Kernel, lines: list[tuple[int, str, str]],
                programs: Path) -> dict[str, Path]:
    """Programs, the one that runs them, and its list: limit (s), set-up and
    command of each."""
    out = kernel.objects / "ext"
    out.mkdir(exist_ok=True)
    runner, table = out / "selftest", out / "selftests.list"
    run([f"{kernel.arch.cross}gcc", "-O2", "-static", "-Wall", "-Wextra",
         "-Werror", "-o", runner, SCRIPTS / "guest" / "selftest.c"],
        code=BUILD_FAILED)
    table.write_text("".join(f"{seconds}\t{setup}\t{command}\n"
                             for seconds, setup, command in lines))
    return {"/bin/selftest": runner, "/lib/selftests.list": table,
            **{f"/bin/{name}": programs / name
               for name in sorted({line[2].split()[0] for line in lines})}}


# --- running -------------------------------------------------------------------

def boot_tests(guest: boot.Guest, name: str, rows: list[Row],
               tally: Tally) -> dict[str, Result]:
    """One boot of one kernel; a test that it did not come to has no result."""
    results_file = guest.folder / "results.txt"
    step = Step(name, results_file)
    guest.start()
    while guest.process.poll() is None and \
            time.monotonic() - guest.began < guest.timeout:
        time.sleep(1)
        sent = results_file.read_text(errors="replace")
        step.update(f"{sent.count('@@ rc ')}/{len(rows)} tests")
    outcome = guest.wait()
    step.done(outcome.why.splitlines()[0] if outcome.why else "done")
    tally.check(f"{name}: the guest and its kernel log", outcome.code == OK,
                f"{outcome.why} (exit code {outcome.code})")
    results = {row.name: Result(None) for row in rows}
    for row, command in zip(rows, outcome.commands):
        cases = parse_cases(command.lines, command.rc)
        unstable = cases.pop(row.unstable, None)
        # The program's exit code says what its worst case does.
        rc = OK if unstable == "FAIL" and "FAIL" not in cases.values() \
            and command.rc == TEST_FAILED else command.rc
        results[row.name] = Result(rc, cases)
    return results


def run_tests(tally: Tally, base: str, tree: str, variant: Variant,
              rows: list[Row], programs: Path) -> dict[str, Result]:
    """All tests on one kernel, some in each boot."""
    kernel = kernels.Kernel(base, tree, variant.arch, variant.config, "bench")
    kernels.build(kernel)
    initrd = kernels.initramfs(kernel, guest_files(
        kernel, [(row.seconds, row.setup, row.command) for row in rows],
        programs))
    results: dict[str, Result] = {}
    for at in range(0, len(rows), TESTS_PER_BOOT):
        some = rows[at:at + TESTS_PER_BOOT]
        number = at // TESTS_PER_BOOT + 1
        guest = boot.Guest(
            variant, kernel,
            [f"selftest {at + n}" for n in range(len(some))],
            BUILD / base / variant.name / f"selftests-{tree}-{number}",
            timeout=sum(row.seconds for row in some) + SPARE, memory=MEMORY,
            initrd=initrd)
        results.update(boot_tests(guest, f"selftests {variant.name} {tree}, "
                                  f"boot {number}", some, tally))
    return results


def selftests(tally: Tally, base: str, variant: Variant, rows: list[Row],
              table: list[Row]) -> None:
    for row in rows:
        name = f"selftests {variant.name} {row.name}"
        if row.skip:
            tally.add(name, "SKIP", row.skip)
        elif row.unstable:
            tally.add(f"{name} {row.unstable}", "SKIP",
                      "it fails on stock in some runs, see selftests.tsv")
    rows = [row for row in rows if not row.skip]
    if not rows:
        return
    # The same programs for both kernels: those of the base
    programs = build(kernels.Kernel(base, "stock", variant.arch,
                                    variant.config, "bench"), table)
    results = {tree: run_tests(tally, base, tree, variant, rows, programs)
               for tree in TREES}
    for row in rows:
        judge(tally, f"selftests {variant.name} {row.name}", row,
              {tree: results[tree][row.name] for tree in TREES})
    for tree in TREES:
        sums = Counter(status for result in results[tree].values()
                       for status in result.cases.values())
        print(f"{variant.name} {tree}: {len(rows)} tests, cases: "
              f"{sums['PASS']} passed, {sums['FAIL']} failed, "
              f"{sums['SKIP']} skipped")


def main() -> int:
    base = chosen_base()
    table = read_table(TABLE.read_text())
    chosen = chosen_names("T", [row.name for row in table])
    tally = Tally()
    with lock():
        series.trees(base)
        for variant in chosen_variants(every=False):
            rows = [row for row in table if row.name in chosen
                    and variant.arch.name in row.archs]
            if rows:
                with tally.part(f"selftests {variant.name}"):
                    selftests(tally, base, variant, rows, table)
    return tally.close()


if __name__ == "__main__":
    sys.path.insert(0, str(SCRIPTS))
    run_main(main)
