# SPDX-License-Identifier: GPL-2.0
"""make test: prove that it works; make prove: that the proof can fail.

  test.py          all parts, on every machine that ARCH= and CPU= leave
  test.py prove    each KUnit suite on the stock kernel: it must fail there

Parts, in this order (PART=name runs one):
  harness   the harness's own tests, on canned logs
  opcount   the op counter's decoder and its self-test
  series    the series and the mutants apply, `make refresh` changes nothing
  kunit     every suite on every machine
  mutants   a kernel with wrong edits to the series: the suites must see each
  workload  every workload checks its own data on every machine, small size
  order     stores, TLBIs and barriers when contpte blocks change, in order
  limits    the patched kernel's counts against scripts/limits.tsv, twice
and, only on request, for it builds the stock kernel too:
  baseline  the stock kernel's counts against scripts/limits.tsv
  worse     all workloads on stock and patched: no count of any class may grow
  off       the same with the series turned off on the kernel command line, or on
            a machine that it is not for: all counts must be those of stock
  debug     suites and workloads on kernels with checks, or with other options:
            scripts/config/debug/; NAME= leaves some
The last line is `N passed, N failed, N skipped`.
"""
from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import bench
import boot
import kernel as kernels
import ktap
import orderlog
import series
from lib import (BUILD, OK, SCRIPTS, SKIPPED, TEST_FAILED, USAGE, Fail, Variant,
                 chosen_base, chosen_variants, chosen_workloads,
                 default_workloads, lock, rel, run, run_main, say, variants,
                 workload_data)

# Small enough for an emulator, large enough for several 2 MiB blocks.
SMALL = 8
# The op counter's promise: two runs of one kernel.
REPEATABLE = 0.005
# Parts that build kernels which nothing else needs.
ON_REQUEST = ("baseline", "worse", "off", "debug")
# A class with fewer operations than this is compared by difference: one
# interrupt more or less is no news.
FEW = 200


@dataclass
class Tally:
    """Verdicts, printed as they come."""
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: int = 0

    def add(self, name: str, status: str, why: str = "") -> None:
        if status == "PASS":
            self.passed += 1
            print(f"ok       {name}", flush=True)
        elif status == "SKIP":
            self.skipped += 1
            print(f"skip     {name}: {why or 'no reason given'}", flush=True)
        else:
            self.failed.append(name)
            print(f"FAILED   {name}: {why}", flush=True)

    def check(self, name: str, good: bool, why: str = "") -> None:
        self.add(name, "PASS" if good else "FAIL", why)

    @contextlib.contextmanager
    def part(self, name: str):
        """A part that breaks down is one failure; the others go on."""
        say(f"part {name}")
        before = self.passed + len(self.failed) + self.skipped
        try:
            yield
        except Fail as fail:
            self.add(name, "FAIL", f"{fail.what}: {fail.why} {fail.todo}"
                     f" (exit code {fail.code})")
        if self.passed + len(self.failed) + self.skipped == before:
            self.add(name, "FAIL", "the part ran no test")

    def close(self) -> int:
        for name in self.failed:
            print(f"failed: {name}")
        print(f"{self.passed} passed, {len(self.failed)} failed, "
              f"{self.skipped} skipped", flush=True)
        return TEST_FAILED if self.failed or not self.passed else OK


def harness(tally: Tally) -> None:
    """The unittest cases of scripts/tests/."""
    suite = unittest.defaultTestLoader.discover(str(SCRIPTS / "tests"),
                                                top_level_dir=str(SCRIPTS))

    def cases(tests):
        for test in tests:
            if isinstance(test, unittest.TestSuite):
                yield from cases(test)
            else:
                yield test

    for test in cases(suite):
        result = unittest.TestResult()
        output = io.StringIO()
        with contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(output):
            test.run(result)
        name = "harness " + test.id().removeprefix("tests.")
        if result.skipped:
            tally.add(name, "SKIP", result.skipped[0][1])
        else:
            wrong = result.failures + result.errors
            tally.check(name, result.wasSuccessful(),
                        wrong[0][1].strip().splitlines()[-1] if wrong else "")


def opcount(tally: Tally) -> None:
    """TAP of the decoder test and of the plugin's self-test."""
    boot.plugin()
    out = BUILD / "opcount"
    for script in ("decode-test.sh", "selftest.sh"):
        done = subprocess.run([SCRIPTS / "opcount" / script, out], text=True,
                              stdout=subprocess.PIPE, check=False,
                              stderr=subprocess.STDOUT)
        log = out / f"{script}.log"
        log.write_text(done.stdout)
        good = bad = 0
        for line in done.stdout.splitlines():
            if line.startswith("ok ") and "# SKIP" in line:
                tally.add(f"opcount {line[3:].split('#')[0].strip()}", "SKIP",
                          line.split("# SKIP")[1].strip())
            elif line.startswith("ok "):
                good += 1
            elif line.startswith("not ok "):
                bad += 1
                tally.add(f"opcount {script} {line[7:]}", "FAIL", rel(log))
        tally.check(f"opcount {script}: {good} cases",
                    done.returncode == 0 and good > 0 and not bad,
                    f"exit code {done.returncode}, {good} ok, {bad} not ok; "
                    f"log: {rel(log)}")


def series_part(tally: Tally, base: str) -> None:
    series.trees(base)
    count = len(series.patches_of(base))
    tally.check(f"series {base}: {count} patches apply", count > 0,
                "there is no patch")
    code = series.refresh(base, check=True)
    tally.check(f"series {base}: refresh makes no difference", code == OK,
                "run `make refresh` and look at `git diff patches/`")
    mutants = sorted((SCRIPTS / "mutants").glob("*.patch"))
    stale = [path.name for path in mutants if subprocess.run(
        ["git", "apply", "--check", path], cwd=BUILD / base / "patched",
        capture_output=True).returncode]
    tally.check(f"series {base}: {len(mutants)} mutants apply",
                bool(mutants) and not stale, " ".join(stale))


def mutants_part(tally: Tally, base: str, chosen: list[Variant]) -> None:
    """On the main machine of an architecture, so not if CPU= is another."""
    import mutants  # which uses this file
    mains = [v.arch for v in chosen if v == variants(v.arch)[0]]
    if not mains:
        tally.add("mutants", "SKIP", "CPU= is not the main machine")
    mutants.quick(tally, base, mains)


def test_kernel(base: str, tree: str, variant: Variant,
                purpose: str = "test") -> kernels.Kernel:
    kernel = kernels.Kernel(base, tree, variant.arch, variant.config, purpose)
    kernels.build(kernel)
    return kernel


def modules() -> list[str]:
    return sorted(f"{p.stem}.ko" for p in
                  (SCRIPTS.parent / "kunit").glob("*_kunit.c"))


def kunit_guest(base: str, tree: str, variant: Variant,
                purpose: str = "test") -> boot.Guest:
    folder = "kunit" if purpose == "test" else f"kunit-{purpose}"
    return boot.Guest(variant, test_kernel(base, tree, variant, purpose),
                      ["kunit"], BUILD / base / variant.name
                      / f"{folder}-{tree}", timeout=900, smp=2)


def kunit_cases(base: str, variant: Variant, outcome: boot.Outcome
                ) -> list[ktap.Case]:
    """What KUnit says on a machine."""
    boot.need(outcome, f"KUnit on {variant.name}")
    return ktap.parse(outcome.commands[0].lines, modules(),
                      BUILD / base / "stock", outcome.folder)


def kunit(tally: Tally, base: str, chosen: list[Variant]) -> None:
    for variant, outcome in boot.one_ahead(
            chosen, lambda v: kunit_guest(base, "patched", v)):
        with tally.part(f"kunit {variant.name}"):
            for case in kunit_cases(base, variant, outcome()):
                tally.add(f"kunit {variant.name} {case.suite}:{case.name}",
                          case.status, case.why)


def workload(tally: Tally, base: str, chosen: list[Variant],
             purpose: str = "test") -> None:
    """All workloads in one boot; the marks count nothing here."""
    names = default_workloads()
    part = "workload" if purpose == "test" else f"workload {purpose}"

    def guest(variant: Variant) -> boot.Guest:
        return boot.Guest(
            variant, test_kernel(base, "patched", variant, purpose),
            [f"{w} --size={SMALL}" for w in names],
            BUILD / base / variant.name / part.replace(" ", "-"),
            timeout=max(workload_data(w).timeout for w in names))

    for variant, outcome in boot.one_ahead(chosen, guest):
        with tally.part(f"{part} {variant.name}"):
            found = boot.need(outcome(), f"workloads on {variant.name}")
            if len(found.commands) != len(names):
                tally.add(f"workload {variant.name}", "FAIL",
                          f"{len(found.commands)} of {len(names)} ran")
            for command in found.commands:
                judge_workload(tally, f"{part} {variant.name} {command.name}",
                               command, found.folder)


def judge_workload(tally: Tally, name: str, command: boot.Command,
                   folder: Path) -> None:
    for line in command.lines:
        if line.startswith("@@ skip "):
            step, _, why = line[8:].partition(": ")
            tally.add(f"{name} {step}", "SKIP", why)
    said = "; ".join(line for line in command.lines
                     if line.startswith("@@ fail"))
    steps = sum(line.startswith("@@ step") for line in command.lines)
    if command.rc != SKIPPED:
        tally.check(f"{name}: {steps} steps", command.rc == OK and steps > 0,
                    f"exit code {command.rc}: {said} (logs: {rel(folder)})")


@dataclass(frozen=True)
class Limit:
    """A line of scripts/limits.tsv."""
    variant: str
    workload: str
    step: str
    what: str
    tree: str
    low: float
    high: float


def read_limits() -> list[Limit]:
    limits = []
    for line in (SCRIPTS / "limits.tsv").read_text().splitlines():
        words = line.split("\t")
        if line and not line.startswith("#") and words[0] != "variant":
            limits.append(Limit(*words[:5], float(words[5]), float(words[6])))
    return limits


def limits_part(tally: Tally, base: str, chosen: list[Variant],
                tree: str) -> None:
    """One kernel's counts per unit against the limits, and again: two runs
    must not differ."""
    for variant in chosen:
        mine = [x for x in read_limits()
                if x.variant == variant.name and x.tree == tree]
        if not mine:
            continue
        with tally.part(f"limits {variant.name} {tree}"):
            bench.prepare(base, [variant], (tree,))
            home = BUILD / base / variant.name
            names = sorted({x.workload for x in mine})
            # One guest for each of two host cores
            with ThreadPoolExecutor(2) as pool:
                counts = pool.map(
                    lambda name, folder: bench.measure(base, variant, name,
                                                       home / folder, (tree,)),
                    [*names, names[-1]], ["limits"] * len(names) + ["again"])
                *first, again = counts
            results = dict(zip(names, first))
            for limit in mine:
                judge_limit(tally, limit, results)
            repeatable(tally, variant, names[-1], results[names[-1]], again)


def judge_limit(tally: Tally, limit: Limit, results: dict) -> None:
    per = "" if limit.what.startswith("total-") else " per unit"
    name = (f"limits {limit.variant} {limit.step} {limit.what}{per}, "
            f"{limit.tree}")
    step = results.get(limit.workload, {}).get(limit.tree, {}).get(limit.step)
    if step is None:
        tally.add(name, "FAIL", "the step did not run")
        return
    if limit.what.startswith("pte-"):
        value = step.pte.get(limit.what[4:], 0) / step.units
    elif limit.what.startswith("total-"):
        value = step.classes[limit.what[6:]]
    else:
        value = step.classes[limit.what] / step.units
    tally.check(f"{name}: {value:.3f} in [{limit.low:g}, {limit.high:g}]",
                limit.low <= value <= limit.high, "out of bounds")


def repeatable(tally: Tally, variant: Variant, name: str, first: dict,
               second: dict) -> None:
    worst, where = 0.0, ""
    for tree, steps in first.items():
        for step, counts in steps.items():
            for cls, value in counts.classes.items():
                other = second[tree][step].classes[cls]
                off = abs(value - other) / max(value, other, FEW)
                if off > worst:
                    worst, where = off, f"{tree} {step} {cls}: {value}, {other}"
    tally.check(f"limits {variant.name} {name}: two runs differ by at most "
                f"{worst:.3%}", worst < REPEATABLE, where)


def worse(tally: Tally, base: str, chosen: list[Variant],
          off: bool = False) -> None:
    """The full-size workloads; one verdict each. @off: with the series turned
    off, which must be as if it was not there."""
    part, promise = ("off", "as stock") if off else \
        ("worse", "nowhere above stock")
    for variant in chosen:
        with tally.part(f"{part} {variant.name}"):
            bench.prepare(base, [variant])
            for name in chosen_workloads(default_workloads()):
                if off and workload_data(name).no_switch:
                    tally.add(f"{part} {variant.name} {name}", "SKIP",
                              "no boot parameter turns this off")
                    continue
                trees = bench.measure(base, variant, name,
                                      BUILD / base / variant.name / part,
                                      append=variant.off if off else "")
                found = bench.worse(trees, same=off) if trees else []
                tally.check(f"{part} {variant.name} {name}: {promise}",
                            bool(trees) and not found, "; ".join(found))


def debug(tally: Tally, base: str) -> None:
    """The main machine of each architecture under each debug kernel. A line on
    the console that has no business there fails the run, see boot.judge()."""
    series.trees(base)
    known = sorted((SCRIPTS / "config" / "debug").glob("*.config"))
    wanted = os.environ.get("NAME", "").split()
    for variant in chosen_variants(every=False):
        for path in known:
            arch, _, purpose = path.stem.partition("-")
            if arch != variant.arch.name or wanted and purpose not in wanted:
                continue
            with tally.part(f"debug {path.stem}"):
                guest = kunit_guest(base, "patched", variant, purpose)
                for case in kunit_cases(base, variant, guest.run()):
                    tally.add(f"debug {path.stem} {case.suite}:{case.name}",
                              case.status, case.why)
            workload(tally, base, [variant], purpose)


def prove(tally: Tally, base: str, chosen: list[Variant]) -> None:
    """Each suite must fail on the stock kernel on the main machines."""
    series.trees(base)
    for variant in chosen:
        with tally.part(f"prove {variant.name}"):
            by_suite: dict[str, set[str]] = {}
            guest = kunit_guest(base, "stock", variant)
            for case in kunit_cases(base, variant, guest.run()):
                by_suite.setdefault(case.suite, set()).add(case.status)
            for suite, statuses in sorted(by_suite.items()):
                name = f"prove {variant.name} {suite} fails on stock"
                if statuses == {"SKIP"}:
                    tally.add(name, "SKIP", "it is for another architecture")
                else:
                    tally.check(name, "FAIL" in statuses, "it passes there")


def main() -> int:
    base = chosen_base()
    chosen = chosen_variants(every=True)
    tally = Tally()
    with lock():
        if sys.argv[1:] == ["prove"]:
            prove(tally, base, chosen_variants(every=False))
            return tally.close()
        parts = {
            "harness": lambda: harness(tally),
            "opcount": lambda: opcount(tally),
            "series": lambda: series_part(tally, base),
            "kunit": lambda: kunit(tally, base, chosen),
            "mutants": lambda: mutants_part(tally, base, chosen),
            "workload": lambda: workload(tally, base, chosen),
            "order": lambda: orderlog.orderlog(tally, base, chosen),
            "limits": lambda: limits_part(tally, base, chosen, "patched"),
            "baseline": lambda: limits_part(tally, base, chosen, "stock"),
            "worse": lambda: worse(tally, base, chosen),
            "off": lambda: worse(tally, base, chosen, off=True),
            "debug": lambda: debug(tally, base),
        }
        wanted = os.environ.get("PART", "").split() or \
            [name for name in parts if name not in ON_REQUEST]
        for name in wanted:
            if name not in parts:
                raise Fail(USAGE, f"PART={name} is not known",
                           f"valid: {' '.join(parts)}")
        for name in wanted:
            with tally.part(name):
                parts[name]()
    return tally.close()


if __name__ == "__main__":
    sys.path.insert(0, str(SCRIPTS))
    run_main(main)
