# SPDX-License-Identifier: GPL-2.0
"""make perf: perf stat and perf bench in guests, stock against patched.

  perf.py    the workloads that W= leaves and the lines of perf.tsv that NAME=
             (names or globs) leaves, on the main machine of each ARCH, or CPU=

perf is the base's own (tools/perf), static, with tracepoints; the kernels are
those of config/<arch>-perf.config, with pteopt.ko loaded. Each workload (of 8 MiB)
and each perf bench runs REPEAT times for the counts and, apart from these, for the
tracepoints, whose probes are instructions too. A line of perf.tsv with numbers is a
known amount of work, and has to be counted exactly. The clock of the guest advances
with the instructions, so that the emulated PMU can count them; no time is shown.

Writes build/<base>/<arch>-<cpu>/report/perf.tsv:
  base arch cpu run event repeat stock patched stock_pct patched_pct why
stock and patched are means, *_pct what they vary by (perf's +-, in percent); `-`
is not available, and why says the reason. A run of some (W=, NAME=) replaces
their rows and keeps the others'. The last line is `N passed, N failed, N skipped`.
"""
from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import boot
import kernel as kernels
import module
import selftests
import series
from bench import TREES, aligned, merge_tsv, number, ratio
from lib import (BUILD, BUILD_FAILED, OK, SCRIPTS, SKIPPED, USAGE, Fail, Step,
                 Variant, arch_names, chosen_base, chosen_names,
                 chosen_variants, default_workloads, lock, rel, run, run_main,
                 workload_data, workload_names)
from test import SMALL, Tally

TABLE = SCRIPTS / "perf.tsv"
HEAD = ("base arch cpu run event repeat stock patched stock_pct patched_pct "
        "why").split()
# What each workload and each perf bench is counted for, in runs of their own.
COUNTS = {"arm64": ("instructions:k", "instructions:u", "page-faults",
                    "context-switches"),
          "powerpc": ("cycles", "page-faults", "context-switches")}
TRACES = ("pteopt:protect", "pteopt:contpte_convert", "pteopt:icache_sync",
          "syscalls:sys_enter_mprotect", "kmem:mm_page_alloc",
          "kmem:mm_page_free")
TRACES_OF = {"arm64": TRACES, "powerpc": (*TRACES, "powerpc:tlbie")}
# What an emulated PMU has, but not right.
WRONG = {"powerpc": {"instructions": "QEMU misses some (186 of the 375 of a "
                     "getppid()) and does not tell kernel from user; by "
                     "-icount, cycles are instructions, of both"}}
REPEAT = 3
# s, for what has no limit of its own
TIMEOUT = 300
# So that one that hangs takes few others with it.
RUNS_PER_BOOT = 9
UNSUPPORTED = "perf: not supported by this kernel or this machine"


@dataclass(frozen=True)
class Run:
    """One perf stat in the guest."""
    name: str
    what: str
    events: tuple[str, ...]
    repeat: int = REPEAT
    # By tree: what each event has to be, as in perf.tsv; empty: not known
    expected: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: int = TIMEOUT
    memory: int = 1024

    @property
    def command(self) -> str:
        return (f"perf stat -j -r {self.repeat} -e {','.join(self.events)} -- "
                f"{self.what}")

    @property
    def label(self) -> str:
        return self.name if self.expected else f"{self.name}, {self.kind}"

    @property
    def kind(self) -> str:
        return "known" if self.expected else \
            "counts" if self.events in COUNTS.values() else "tracepoints"


@dataclass(frozen=True)
class Value:
    """What perf says of one event."""
    count: float | None
    percent: float = 0.0
    why: str = ""

    def __str__(self) -> str:
        return "-" if self.count is None else f"{self.count:.2f}" \
            .removesuffix(".00")


# What was counted of each run, by tree and event.
Results = list[tuple[Run, dict[str, dict[str, Value]]]]


# --- what is to be run ----------------------------------------------------------

def read_expected(name: str, text: str) -> dict[str, str]:
    """EVENT=NUMBER, or EVENT=-, separated by blanks."""
    found = dict(re.findall(r"(?:^| )(\S+)=(\d+|-)(?= |$)", text))
    if len(found) != len(text.split()):
        raise Fail(USAGE, f"perf.tsv: {name} has `{text}`",
                   "it has to be EVENT=NUMBER, separated by blanks")
    return found


def read_table(text: str, arch: str) -> list[Run]:
    """The lines of perf.tsv for an architecture."""
    runs: list[Run] = []
    for line in text.splitlines():
        words = line.split("\t")
        if not line or line.startswith("#") or words[0] == "name":
            continue
        if len(words) != 6:
            raise Fail(USAGE, f"perf.tsv: {words[0]} has {len(words)} columns",
                       "it needs 6, with a tab between two")
        name, archs, events, command = words[:4]
        if archs != "all" and arch not in archs.split():
            continue
        if name in {known.name for known in runs}:
            raise Fail(USAGE, f"perf.tsv: there are two of {name} for {arch}")
        if events == "-":
            runs += both_sets(arch, name, command)
            continue
        runs.append(Run(name, command, tuple(events.split(",")), 1, {
            tree: read_expected(name, words[4 + at])
            for at, tree in enumerate(TREES)}))
    return runs


def both_sets(arch: str, name: str, command: str, seconds: int = TIMEOUT,
              memory: int = 1024) -> list[Run]:
    return [Run(name, command, events, seconds=seconds * REPEAT, memory=memory)
            for events in (COUNTS[arch], TRACES_OF[arch])]


def chosen_runs(arch: str) -> list[Run]:
    """W= of the workloads, NAME= of the table; all if neither is given."""
    only = {name: bool(os.environ.get(name)) for name in ("W", "NAME")}
    names = {known.name for a in arch_names()
             for known in read_table(TABLE.read_text(), a)}
    kept = chosen_names("NAME", sorted(names), [] if only["W"] else None)
    workloads = chosen_names("W", workload_names(), [] if only["NAME"] else
                             default_workloads())
    runs: list[Run] = []
    for workload in workloads:
        data = workload_data(workload)
        runs += both_sets(arch, workload, f"{workload} --size={SMALL}",
                          data.timeout, data.memory)
    return runs + [known for known in read_table(TABLE.read_text(), arch)
                   if known.name in kept]


# --- perf -----------------------------------------------------------------------

def build(kernel: kernels.Kernel) -> Path:
    """The folder with perf, from the base's tree, and known; static."""
    arch = kernel.arch
    home = BUILD / kernel.base / f"perf-{arch.name}"
    out, log, stamp = home / "out", home / "build.log", home / "stamp"
    out.mkdir(parents=True, exist_ok=True)
    # Without RELRO, or its start would change the protection of some pages.
    run([f"{arch.cross}gcc", "-O2", "-static", "-Wl,-z,norelro", "-Wall",
         "-Wextra", "-Werror", "-o", out / "known",
         SCRIPTS / "guest" / "known.c"],
        code=BUILD_FAILED)
    wanted = (BUILD / kernel.base / "stock.stamp").read_text()
    if stamp.is_file() and stamp.read_text() == wanted:
        return out
    root = boot.unpack(arch, ["libtraceevent-dev"])
    (home / "obj").mkdir(exist_ok=True)
    step = Step(f"perf of {kernel.base} for {arch.name}", log)
    libraries = root / "usr/lib" / arch.cross.rstrip("-")
    env = {**kernels.make_env(), "C_INCLUDE_PATH": str(root / "usr/include"),
           "PKG_CONFIG_SYSROOT_DIR": str(root),
           "PKG_CONFIG_LIBDIR": str(libraries / "pkgconfig")}
    # Only the program: its plugins are shared objects, and can't be static.
    log.write_text(run(kernels.make_argv(
        kernel, "-C", "tools/perf", f"O={home / 'obj'}",
        f"JOBS={os.cpu_count()}", f"LDFLAGS=-static -L{libraries}",
        *(f"NO_{what}=1" for what in (
            "AUXTRACE", "DEMANGLE", "JEVENTS", "LIBBPF", "LIBCAP", "LIBCRYPTO",
            "LIBELF", "LIBNUMA", "LIBPERL", "LIBPYTHON", "LIBZSTD", "LZMA",
            "SHELLCHECK", "SLANG")),
        str(home / "obj" / "perf")), cwd=kernel.source, env=env,
        code=BUILD_FAILED))
    run([f"{arch.cross}strip", "-o", out / "perf", home / "obj" / "perf"],
        code=BUILD_FAILED)
    stamp.write_text(wanted)
    step.done()
    return out


def parse(lines: list[str]) -> dict[str, Value]:
    """The JSON lines of perf stat; ValueError for what is cut or estimated."""
    found: dict[str, Value] = {}
    for line in lines:
        if not line.startswith("{"):
            continue
        try:
            said = json.loads(line)
            event, count = said["event"], said["counter-value"]
            share, percent = said["pcnt-running"], said.get("variance", 0.0)
            value = Value(None, why=UNSUPPORTED) \
                if count == "<not supported>" else Value(float(count), percent)
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"no count in `{line}`") from None
        if value.count is not None and share != 100:
            raise ValueError(f"{event} was counted {share} % of the time")
        if event in found:
            raise ValueError(f"{event} came twice")
        found[event] = value
    return found


# --- verdicts -------------------------------------------------------------------

def complaints(what: Run, tree: str, command: boot.Command | None
               ) -> tuple[list[str], dict[str, Value]]:
    """Why a run is not as it has to be, and what it counted."""
    if command is None or command.rc is None:
        return ["no result"], {}
    found = []
    said = [line for line in command.lines if line.startswith("@@ fail")]
    if command.rc != OK or said:
        found.append(f"exit code {command.rc}: "
                     + "; ".join(said or command.lines[-3:]))
    try:
        values = parse(command.lines)
    except ValueError as error:
        return [*found, str(error)], {}
    expected = what.expected.get(tree, {})
    found += [f"no count of {event}" for event in expected or what.events
              if event not in values]
    found += [f"{event} {values[event]}, expected {number}"
              for event, number in expected.items()
              if event in values and str(values[event]) != number]
    ends = sum(bool(re.match(r"\d+\.\d+$", line)) for line in command.lines)
    if what.what.startswith("perf bench") and ends < what.repeat:
        found.append(f"{ends} of {what.repeat} runs of perf bench came to "
                     "their end")
    return found, values


def judge(tally: Tally, name: str, what: Run,
          commands: dict[str, boot.Command | None]
          ) -> dict[str, dict[str, Value]]:
    """A verdict; by tree, what was counted."""
    if all(command and command.rc == SKIPPED
           for command in commands.values()):
        tally.add(name, "SKIP", "; ".join(
            line for command in commands.values() if command
            for line in command.lines if line.startswith("@@ skip")))
        return {}
    wrong, values = [], {}
    for tree, command in commands.items():
        found, values[tree] = complaints(what, tree, command)
        wrong += [f"{tree}: {line}" for line in found]
    if what.expected and not wrong:
        name += ": " + ", ".join(
            f"{event} " + ">".join(str(of[event]) for of in values.values())
            for event in values["stock"])
    tally.check(name, not wrong, "; ".join(wrong))
    return {} if wrong else values


# --- running --------------------------------------------------------------------

def initramfs(kernel: kernels.Kernel, runs: list[Run], programs: Path) -> Path:
    """All runs are in the guest's list, behind the one that loads the module."""
    lines = [(TIMEOUT, "", "known load"),
             *((r.seconds, "", r.command) for r in runs)]
    return kernels.initramfs(kernel, {
        **selftests.guest_files(kernel, lines, programs),
        "/bin/true": programs / "known", "/lib/pteopt.ko": module.build(kernel)})


def boot_runs(tally: Tally, base: str, variant: Variant, runs: list[Run],
              first: int, initrds: dict[str, Path]
              ) -> list[dict[str, boot.Command | None]]:
    """Some runs in a boot of each kernel, at the same time on two host cores."""
    number = first // RUNS_PER_BOOT + 1
    name = f"perf {variant.name} boot {number}"
    home = BUILD / base / variant.name
    commands = ["selftest 0", *(f"selftest {first + at + 1}"
                                for at in range(len(runs)))]
    guests = {tree: boot.Guest(
        variant, perf_kernel(base, tree, variant), commands,
        home / f"perf-{tree}-{number}",
        timeout=sum(r.seconds for r in runs) + TIMEOUT,
        memory=max(r.memory for r in runs), initrd=initrd,
        qemu_extra=tuple(boot.COUNTING)) for tree, initrd in initrds.items()}
    step = Step(name, home)
    for guest in guests.values():
        guest.start()
    outcomes = {tree: guest.wait() for tree, guest in guests.items()}
    step.done()
    for tree, outcome in outcomes.items():
        loaded = outcome.commands[:1]
        tally.check(f"{name}, {tree}: the kernel log, and pteopt.ko",
                    outcome.code == OK and [c.rc for c in loaded] == [OK],
                    f"{outcome.why} (exit code {outcome.code}) "
                    + "; ".join(line for c in loaded for line in c.lines))
    return [{tree: outcome.commands[at] if at < len(outcome.commands) else None
             for tree, outcome in outcomes.items()}
            for at in range(1, len(commands))]


def perf_kernel(base: str, tree: str, variant: Variant) -> kernels.Kernel:
    return kernels.Kernel(base, tree, variant.arch, variant.config, "perf")


def perf(tally: Tally, base: str, variant: Variant) -> str:
    """All runs on a machine; the tables."""
    runs = chosen_runs(variant.arch.name)
    programs = build(perf_kernel(base, "stock", variant))
    initrds = {}
    for tree in TREES:
        kernel = perf_kernel(base, tree, variant)
        kernels.build(kernel)
        initrds[tree] = initramfs(kernel, runs, programs)
    results: Results = []
    for first in range(0, len(runs), RUNS_PER_BOOT):
        some = runs[first:first + RUNS_PER_BOOT]
        for what, commands in zip(some, boot_runs(
                tally, base, variant, some, first, initrds)):
            values = judge(tally, f"perf {variant.name} {what.label}", what,
                           commands)
            if values:
                results.append((what, values))
    missing = sorted({(event, tree, value.why) for what, trees in results
                      for tree, values in trees.items()
                      for event, value in values.items()
                      if value.count is None and not what.expected})
    for event, tree, why in missing:
        tally.add(f"perf {variant.name} {tree} {event}", "SKIP", why)
    for event, why in WRONG.get(variant.arch.name, {}).items():
        tally.add(f"perf {variant.name} {event}", "SKIP", why)
    write(base, variant, runs, results)
    return "\n\n".join(filter(None, (
        table(f"{variant.name}, {kind}: stock>patched ratio, means of {REPEAT} "
              "runs", [r for r in results if r[0].kind == kind])
        for kind in ("counts", "tracepoints"))))


# --- what is shown --------------------------------------------------------------

def write(base: str, variant: Variant, runs: list[Run],
          results: Results) -> None:
    """perf.tsv; what failed has no row, nor has it one of another time."""
    rows = []
    for what, trees in results:
        stock, patched = (trees[tree] for tree in TREES)
        for event in stock:
            pair = stock[event], patched[event]
            rows.append([base, variant.arch.name, variant.cpu, what.name,
                         event, str(what.repeat), *(str(v) for v in pair),
                         *(f"{v.percent:.2f}" for v in pair),
                         next((v.why for v in pair if v.why), "-")])
    folder = BUILD / base / variant.name / "report"
    folder.mkdir(parents=True, exist_ok=True)
    merge_tsv(folder / "perf.tsv", HEAD, [what.name for what in runs], rows)


def table(title: str, results: Results) -> str:
    """A line for each run, a column for each event that anything has."""
    if not results:
        return ""
    events = [e for e in dict.fromkeys(e for what, _ in results
                                       for e in what.events)
              if any(trees[tree][e].count != 0 for _, trees in results
                     for tree in TREES)]
    lines = [["run", *(e.partition(":")[2] if results[0][0].kind ==
                       "tracepoints" else e for e in events)]]
    for what, trees in results:
        line = [what.name]
        for event in events:
            old, new = (trees[tree][event].count for tree in TREES)
            line.append(
                "-" if old is None or new is None else
                "0" if old == new == 0 else
                f"{number(old)}>{number(new)} {ratio(old, new)}")
        lines.append(line)
    return "\n".join([title, *aligned(lines)])


def main() -> int:
    base, chosen = chosen_base(), chosen_variants(every=False)
    for variant in chosen:
        chosen_runs(variant.arch.name)
    tally, tables = Tally(), []
    with lock():
        series.trees(base)
        for variant in chosen:
            with tally.part(f"perf {variant.name}"):
                tables.append(perf(tally, base, variant))
    print("\n".join(["", *(f"{text}\n" for text in tables if text)])
          + "- is not available, for the reason above and in the file. Counts, "
          "no times,\nperf bench's neither: an emulator's clock says nothing of "
          "a machine's")
    for variant in chosen:
        path = BUILD / base / variant.name / "report" / "perf.tsv"
        if path.is_file():
            print(rel(path))
    return tally.close()


if __name__ == "__main__":
    sys.path.insert(0, str(SCRIPTS))
    run_main(main)
