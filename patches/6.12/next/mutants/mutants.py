# SPDX-License-Identifier: GPL-2.0
"""make mutants: small wrong edits to the series, each of which a test must see.

  mutants.py    all of scripts/mutants/<arch>-<name>.patch, or those that
                MUTANT= (names or globs) and ARCH= leave; RUNS=5 times each

A mutant is a diff against the patched tree. The lines before its `---` say what
is wrong and name the tests that must fail, each in every run:

  Killed-by: stress <program> [options]     a program of scripts/stress/
  Killed-by: kunit <suite>

The same tests must pass on the patched kernel, which is tried first. A mutant is
built in build/<base>/mutant: a copy of the patched tree with its objects, of
which those are compiled anew that update user page tables (mm/ and
arch/<arch>/mm/), not everything that includes the header in question.
The last line is `N passed, N failed, N skipped`; passed is killed.
"""
from __future__ import annotations

import fnmatch
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import boot
import kernel as kernels
import ktap
import series
import test
from lib import (BAD_LOG, BUILD, OK, SCRIPTS, TEST_FAILED, USAGE, Arch, Fail,
                 Step, Variant, chosen_archs, chosen_base, lock, run, run_main,
                 variants)

MUTANTS = SCRIPTS / "mutants"
# The stress programs want several CPUs; a run that hangs is a failure.
CPUS, TIMEOUT = 4, 900


@dataclass(frozen=True)
class Mutant:
    """One file of scripts/mutants/."""
    path: Path
    arch: Arch
    tests: list[str]

    @property
    def name(self) -> str:
        return self.path.stem


def read_mutant(path: Path, arch: Arch) -> Mutant:
    head = path.read_text().partition("\n---")[0]
    tests = re.findall(r"^Killed-by: (.+)$", head, re.M)
    for name in tests:
        if not re.match(r"(stress|kunit) \S", name):
            raise Fail(USAGE, f"{path.name}: Killed-by: {name}",
                       "it is `stress <program> ...` or `kunit <suite>`")
    if not tests:
        raise Fail(USAGE, f"{path.name} names no test",
                   "it needs a line `Killed-by: ...` before `---`")
    return Mutant(path, arch, tests)


def chosen_mutants() -> list[Mutant]:
    found = [read_mutant(path, arch) for arch in chosen_archs()
             for path in sorted(MUTANTS.glob(f"{arch.name}-*.patch"))]
    wanted = os.environ.get("MUTANT", "").split() or ["*"]
    chosen = [m for m in found
              if any(fnmatch.fnmatch(m.name, w) for w in wanted)]
    if not chosen:
        raise Fail(USAGE, f"MUTANT={' '.join(wanted)} is not known",
                   f"valid: {' '.join(m.name for m in found)}")
    return chosen


def files_of(mutant: Mutant) -> list[str]:
    return re.findall(r"^\+\+\+ b/(\S+)", mutant.path.read_text(), re.M)


def copy_tree(patched: kernels.Kernel, kernel: kernels.Kernel) -> None:
    """The source, as links: the build only reads it, and `git apply` makes a
    new file of what it changes."""
    kernel.source.mkdir(exist_ok=True)
    run(["rsync", "-a", "--delete", f"--link-dest={patched.source}",
         "--exclude=/.git", "--exclude=/o-*", f"{patched.source}/",
         f"{kernel.source}/"])


def copy_objects(patched: kernels.Kernel, kernel: kernels.Kernel) -> None:
    """The objects, with their times, so that make finds nothing to do."""
    run(["rsync", "-a", "--delete", "--exclude=/ext", f"{patched.objects}/",
         f"{kernel.objects}/"])


def restore(mutants: list[Mutant], patched: kernels.Kernel,
            kernel: kernels.Kernel) -> None:
    """Undo all edits, those of an interrupted run, too."""
    for name in {n for mutant in mutants for n in files_of(mutant)}:
        (kernel.source / name).unlink(missing_ok=True)
        os.link(patched.source / name, kernel.source / name)


def mutate(mutant: Mutant, kernel: kernels.Kernel) -> None:
    """Apply the edit without a change of a header's time."""
    times = {n: (kernel.source / n).stat().st_mtime_ns
             for n in files_of(mutant) if n.endswith(".h")}
    # Not the git tree that build/ may be in.
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(kernel.source.parent)}
    run(["git", "apply", mutant.path], cwd=kernel.source, env=env)
    for name, mtime in times.items():
        os.utime(kernel.source / name, ns=(mtime, mtime))
    for folder in ("mm", f"arch/{kernel.arch.name}/mm", "ext/kunit"):
        for stale in (kernel.objects / folder).glob("*.o"):
            stale.unlink()


def commands(tests: list[str], runs: int) -> list[str]:
    """What the guest is to run: a stress run has a seed of its own."""
    out = []
    for name in tests:
        kind, _, rest = name.partition(" ")
        if kind == "stress":
            out += [f"{rest} --seed={n}" for n in range(1, runs + 1)]
    return out + ["kunit"] * any(n.startswith("kunit ") for n in tests)


def results(variant: Variant, kernel: kernels.Kernel, tests: list[str],
            runs: int, folder: Path) -> dict[str, list[str]]:
    """For each test `pass`, `fail`, or what else became of it, each run."""
    guest = boot.Guest(variant, kernel, commands(tests, runs), folder,
                       timeout=TIMEOUT, smp=CPUS)
    outcome = guest.run()
    # A wrong kernel may complain; what matters is what the named test says.
    if outcome.code not in (OK, BAD_LOG):
        raise Fail(outcome.code, folder.name, outcome.why)
    found: dict[str, list[str]] = {name: [] for name in tests}
    for command in outcome.commands:
        if command.name == "kunit":
            suites, _ = ktap.split_suites(command.lines)
            for name in tests:
                kind, _, suite = name.partition(" ")
                if kind == "kunit":
                    found[name].append(suite_verdict(suites.get(suite, [])))
        else:
            name = "stress " + command.name.rpartition(" --seed=")[0]
            found[name].append({OK: "pass", TEST_FAILED: "fail"}.get(
                command.rc or 0, f"exit code {command.rc}"))
    return found


def suite_verdict(lines: list[str]) -> str:
    if any(re.match(r"not ok ", line) for line in lines):
        return "fail"
    return "pass" if any(re.match(r"ok \d+ (?!.*# SKIP)", line)
                         for line in lines) else "no result"


def judge(tally: test.Tally, name: str, found: dict[str, list[str]],
          runs: int, want: str) -> None:
    for what, verdicts in found.items():
        need = runs if what.startswith("stress ") else 1
        seen = ", ".join(f"{verdicts.count(v)} {v}"
                         for v in sorted(set(verdicts))) or "no result"
        tally.check(f"{name}, {what}: {seen}", verdicts == [want] * need,
                    "SURVIVED" if want == "fail" else
                    "the test fails without a mutant, so it proves nothing")


def try_arch(tally: test.Tally, base: str, arch: Arch, mutants: list[Mutant],
             runs: int) -> None:
    variant = variants(arch)[0]
    patched = kernels.Kernel(base, "patched", arch, variant.config, "test")
    kernels.build(patched)
    folder = BUILD / base / variant.name
    tests = list(dict.fromkeys(t for m in mutants for t in m.tests))
    with tally.part(f"control {variant.name}"):
        judge(tally, "control", results(variant, patched, tests, 1,
                                        folder / "mutant-control"), 1, "pass")
    kernel = kernels.Kernel(base, "mutant", arch, variant.config, "test")
    step = Step(f"copy of {patched.name}")
    copy_tree(patched, kernel)
    step.done()
    for mutant in mutants:
        with tally.part(f"mutant {mutant.name}"):
            restore(mutants, patched, kernel)
            copy_objects(patched, kernel)
            mutate(mutant, kernel)
            kernels.BUILT.discard(kernel.objects)
            kernels.build(kernel)
            judge(tally, f"mutant {mutant.name}",
                  results(variant, kernel, mutant.tests, runs,
                          folder / f"mutant-{mutant.name}"), runs, "fail")


def main() -> int:
    base, mutants = chosen_base(), chosen_mutants()
    runs = int(os.environ.get("RUNS") or 5)
    tally = test.Tally()
    with lock():
        series.trees(base)
        for arch in chosen_archs():
            mine = [m for m in mutants if m.arch == arch]
            if mine:
                try_arch(tally, base, arch, mine, runs)
    return tally.close()


if __name__ == "__main__":
    sys.path.insert(0, str(SCRIPTS))
    run_main(main)
