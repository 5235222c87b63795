# SPDX-License-Identifier: GPL-2.0
"""make mutants: small wrong edits to the series, each of which a test must see.

  mutants.py          all of scripts/mutants/<arch>-<name>.patch, or those that
                      ARCH= and MUTANT= (names or globs) leave; stress programs
                      RUNS=5 times each. QUICK=1 is the part of `make test`
  mutants.py index    write Documentation/mutants.rst

A mutant is a diff against the patched tree. The lines before its `---` say what
is wrong, and

  Patch: <subject of the patch whose work it undoes>
  Append: <words for the kernel command line>           (if it needs some)
  CPU: <machine of scripts/arch/>                       (if not the main one)
  Rebuild: <objects that use what it changes of a header, beside the suites>
  Alone: <why it is not to be built together with others>
  Killed-by: kunit <suite> <case>                       (one or more of these)
  Killed-by: stress <program> [options]
  Killed-by: order <case>/<step>                        (of orderlog.py)

Each of the tests must fail, in every run, and pass on the patched kernel, which
is tried first.

QUICK=1 takes one mutant a patch, of those that KUnit kills, and builds all of them
into one kernel for each architecture, each with cases of its own that must fail.
Which mutant made a case fail is for the long run to tell; this one tells that a
suite, or what the harness makes of it, does not pass whatever the kernel does.

A mutant is built in build/<base>/mutant: a copy of the patched tree with its
objects. If it changes a header, what is compiled anew is the suites that it
names and what `Rebuild:` says, not all that includes the header. A run that is
interrupted goes on where it was. The last line is `N passed, N failed, N
skipped`; passed is killed.
"""
from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import boot
import kernel as kernels
import ktap
import orderlog
import series
import stress
import test
from lib import (BAD_LOG, BUILD, OK, ROOT, SCRIPTS, TEST_FAILED, USAGE, Arch,
                 Fail, Step, Variant, chosen_archs, chosen_base, chosen_names,
                 lock, run, run_main, say, variants)

MUTANTS = SCRIPTS / "mutants"
INDEX = ROOT / "Documentation" / "mutants.rst"
# Of a guest that runs KUnit (s), on a busy host; a mutant may hang in it.
TIMEOUT = 1800


@dataclass(frozen=True)
class Mutant:
    """One file of scripts/mutants/."""
    path: Path
    arch: Arch
    what: str
    patch: str
    append: str
    cpu: str
    rebuild: tuple[str, ...]
    alone: str
    tests: tuple[str, ...]
    files: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def sources(self) -> list[Path]:
        """Of the suites and programs that are to see it."""
        names = {(kind, name.removeprefix("pteopt_")) for kind, name in
                 (test.split()[:2] for test in self.tests)}
        return sorted({
            SCRIPTS / "stress" / f"{name}.c" if kind == "stress" else
            SCRIPTS / "orderlog.py" if kind == "order" else
            ROOT / "kunit" / f"{name}_kunit.c" for kind, name in names})

    @property
    def is_quick(self) -> bool:
        """One boot of KUnit is enough, and others may be in it."""
        return not (self.append or self.cpu or self.alone) and \
            all(t.startswith("kunit ") for t in self.tests)


def read_mutant(path: Path, arch: Arch) -> Mutant:
    head, _, diff = path.read_text().partition("\n---\n")
    words: list[str] = []
    fields: dict[str, list[str]] = {"Patch": [], "Append": [], "CPU": [],
                                    "Rebuild": [], "Alone": [],
                                    "Killed-by": []}
    for line in head.splitlines():
        key, colon, value = line.partition(": ")
        if colon and key in fields:
            fields[key].append(value)
        elif not line.startswith("SPDX-"):
            words.append(line)
    for name in fields["Killed-by"]:
        if not re.match(r"(stress \S|kunit \S+ \S+$|order \S+$)", name):
            raise Fail(USAGE, f"{path.name}: Killed-by: {name}", "it is `kunit "
                       "<suite> <case>`, `stress <program> ...`, or `order "
                       "<case>/<step>`")
    for key in ("Patch", "Killed-by"):
        if not fields[key]:
            raise Fail(USAGE, f"{path.name} has no line `{key}: ...`",
                       f"add it before `---`; see {Path(__file__).name}")
    return Mutant(path, arch, " ".join(words), fields["Patch"][0],
                  " ".join(fields["Append"]), " ".join(fields["CPU"]),
                  tuple(" ".join(fields["Rebuild"]).split()),
                  " ".join(fields["Alone"]),
                  tuple(fields["Killed-by"]),
                  tuple(re.findall(r"^\+\+\+ b/(\S+)", diff, re.M)))


def all_mutants(archs: list[Arch]) -> list[Mutant]:
    return [read_mutant(path, arch) for arch in archs
            for path in sorted(MUTANTS.glob(f"{arch.name}-*.patch"))]


def chosen_mutants() -> list[Mutant]:
    found = {m.name: m for m in all_mutants(chosen_archs())}
    return [found[name] for name in chosen_names("MUTANT", list(found))]


def copy_tree(patched: kernels.Kernel, kernel: kernels.Kernel) -> None:
    """The source, as links: the build only reads it, and `git apply` makes a
    new file of what it changes."""
    kernel.source.mkdir(exist_ok=True)
    run(["rsync", "-a", "--delete", f"--link-dest={patched.source}",
         "--exclude=/.git", "--exclude=/o-*", f"{patched.source}/",
         f"{kernel.source}/"])


def copy_objects(patched: kernels.Kernel, kernel: kernels.Kernel) -> None:
    """The objects, with their times, so that make finds nothing to do."""
    run(["rsync", "-a", "--delete", f"{patched.objects}/",
         f"{kernel.objects}/"])


def restore(mutants: list[Mutant], patched: kernels.Kernel,
            kernel: kernels.Kernel) -> None:
    """Undo all edits, those of an interrupted run, too."""
    for name in {n for mutant in mutants for n in mutant.files}:
        (kernel.source / name).unlink(missing_ok=True)
        os.link(patched.source / name, kernel.source / name)


def stale_objects(mutant: Mutant, kernel: kernels.Kernel) -> list[Path]:
    """What a header's change makes stale, as far as the tests see it."""
    if not any(name.endswith(".h") for name in mutant.files):
        return []
    suites = {f"ext/kunit/{name.split()[1].removeprefix('pteopt_')}_kunit.o"
              for name in mutant.tests if name.startswith("kunit ")}
    found = []
    for pattern in [*sorted(suites), *mutant.rebuild]:
        hits = list(kernel.objects.glob(pattern))
        if not hits:
            raise Fail(USAGE, mutant.name, f"there is no object {pattern}")
        found += hits
    return found


def git_env(kernel: kernels.Kernel) -> dict[str, str]:
    """So that git finds none of the trees that build/ may be in."""
    return {**os.environ, "GIT_CEILING_DIRECTORIES": str(kernel.source.parent)}


def mutate(mutant: Mutant, patched: kernels.Kernel,
           kernel: kernels.Kernel) -> None:
    """Apply the edit; of a header without a change of its time."""
    headers = [n for n in mutant.files if n.endswith(".h")]
    times = {n: (kernel.source / n).stat().st_mtime_ns for n in headers}
    run(["git", "apply", mutant.path], cwd=kernel.source, env=git_env(kernel))
    for name in mutant.files:
        if (kernel.source / name).samefile(patched.source / name):
            raise Fail(TEST_FAILED, mutant.name, f"{name} did not change")
    for name, mtime in times.items():
        os.utime(kernel.source / name, ns=(mtime, mtime))


def build(mutants: list[Mutant], kernel: kernels.Kernel) -> None:
    """The kernel, unless only suites are stale, which a boot sees to."""
    for stale in {path for mutant in mutants for path in
                  stale_objects(mutant, kernel)}:
        stale.unlink()
    if any(mutant.rebuild or any(n.endswith(".c") for n in mutant.files)
           for mutant in mutants):
        kernels.BUILT.pop(kernel.objects, None)
        kernels.build(kernel)
    else:
        kernels.BUILT.get(kernel.objects, {}).clear()


def boot_and_look(variant: Variant, kernel: kernels.Kernel,
                  tests: tuple[str, ...], append: str, runs: int,
                  folder: Path) -> dict[str, list[str]]:
    """For each test `pass`, `fail`, or what else became of it, each run."""
    found: dict[str, list[str]] = {name: [] for name in tests}
    programs = [name for name in tests if name.startswith("stress ")]
    cases = [name for name in tests if name.startswith("kunit ")]
    steps = [name for name in tests if name.startswith("order ")]
    for number, name in enumerate(programs):
        # A boot for each: a wrong kernel may not live on. Each run has its seed.
        commands = [f"{name.removeprefix('stress ')} --seed={n + 1}"
                    for n in range(runs)]
        outcome = checked(stress.guest(variant, kernel, commands,
                                       folder / f"stress-{number}",
                                       append).run(), folder)
        for command in outcome.commands:
            found[name].append({OK: "pass", TEST_FAILED: "fail"}.get(
                command.rc or 0, f"exit code {command.rc}"))
    if cases:
        guest = boot.Guest(variant, kernel, ["kunit"], folder / "kunit",
                           timeout=TIMEOUT, smp=2, append=append)
        outcome = checked(guest.run(), folder)
        seen = {f"kunit {c.suite} {c.name}": c.status for c in
                ktap.parse(outcome.commands[0].lines, test.modules(),
                           kernel.source, guest.folder)}
        for name in cases:
            status = seen.get(name, "no result")
            found[name].append({"PASS": "pass", "FAIL": "fail"}.get(
                status, status.lower()))
    if steps:
        wrong = orderlog.wrong_steps(variant, kernel, folder / "order")
        for name in steps:
            found[name].append({None: "no result", False: "pass"}.get(
                wrong.get(name.removeprefix("order ")), "fail"))
    return found


def checked(outcome: boot.Outcome, folder: Path) -> boot.Outcome:
    """A wrong kernel may complain; what matters is what the test says."""
    if outcome.code not in (OK, BAD_LOG):
        raise Fail(outcome.code, folder.name, outcome.why)
    return outcome


def judge(tally: test.Tally, name: str, found: dict[str, list[str]],
          runs: int, want: str) -> bool:
    good = True
    for what, verdicts in found.items():
        need = [want] * (runs if what.startswith("stress ") else 1)
        seen = ", ".join(f"{verdicts.count(v)} {v}"
                         for v in sorted(set(verdicts))) or "no result"
        tally.check(f"{name}, {what}: {seen}", verdicts == need,
                    "SURVIVED" if want == "fail" else
                    "it does not pass without a mutant, so it proves nothing")
        good &= verdicts == need
    return good


class Done:
    """What an interrupted run has found out already."""

    def __init__(self, base: str, runs: int):
        self.path = BUILD / base / "mutants.json"
        digest = hashlib.sha256(f"{runs}".encode())
        for path in sorted([BUILD / base / "patched.stamp",
                            *(ROOT / "kunit").glob("*.h"),
                            *SCRIPTS.glob("stress/*.h"),
                            *SCRIPTS.glob("workloads/*.h"),
                            *SCRIPTS.glob("config/*.config"),
                            *SCRIPTS.glob("arch/*.conf")]):
            digest.update(path.read_bytes())
        self.common = digest
        self.known: dict = json.loads(self.path.read_text()) \
            if self.path.is_file() else {}

    def key(self, mutant: Mutant) -> str:
        digest = self.common.copy()
        for path in [mutant.path, *filter(Path.is_file, mutant.sources)]:
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def get(self, mutant: Mutant) -> dict[str, list[str]] | None:
        key, found = self.known.get(mutant.name, ("", None))
        return found if key == self.key(mutant) else None

    def put(self, mutant: Mutant, found: dict[str, list[str]]) -> None:
        self.known[mutant.name] = (self.key(mutant), found)
        self.save()

    def drop(self, mutants: list[Mutant]) -> None:
        for mutant in mutants:
            self.known.pop(mutant.name, None)
        self.save()

    def save(self) -> None:
        self.path.write_text(json.dumps(self.known, indent=1))


def control(tally: test.Tally, variant: Variant, patched: kernels.Kernel,
            mutants: list[Mutant], folder: Path) -> None:
    """All tests pass if nothing is wrong."""
    for append in sorted({m.append for m in mutants}):
        name = " ".join(filter(None, ("control", variant.name, append)))
        tests = dict.fromkeys(t for m in mutants for t in m.tests
                              if m.append == append)
        with tally.part(name):
            judge(tally, name, boot_and_look(
                variant, patched, tuple(tests), append, 1,
                folder / f"control{append and '-'}{append}"), 1, "pass")


def try_machine(tally: test.Tally, base: str, variant: Variant,
                mutants: list[Mutant], runs: int, done: Done) -> None:
    arch = variant.arch
    patched = kernels.Kernel(base, "patched", arch, variant.config, "test")
    kernel = kernels.Kernel(base, "mutant", arch, variant.config, "test")
    kernels.build(patched)
    folder = BUILD / base / variant.name / "mutants"
    control(tally, variant, patched, mutants, folder)
    if any(done.get(m) is None for m in mutants):
        step = Step(f"copy of {patched.name}")
        copy_tree(patched, kernel)
        step.done()
    for number, mutant in enumerate(mutants, 1):
        with tally.part(f"mutant {mutant.name}"):
            found = done.get(mutant)
            if found is None:
                say(f"{number} of {len(mutants)} on {variant.name}: "
                    f"{mutant.what}")
                restore(mutants, patched, kernel)
                copy_objects(patched, kernel)
                mutate(mutant, patched, kernel)
                build([mutant], kernel)
                found = boot_and_look(variant, kernel, mutant.tests,
                                      mutant.append, runs,
                                      folder / mutant.name)
                done.put(mutant, found)
            judge(tally, f"mutant {mutant.name}", found, runs, "fail")


def quick_choice(mutants: list[Mutant], fits: Callable[[Mutant], bool]
                 ) -> list[Mutant]:
    """One a patch, if it has cases that no other one claims, and fits in."""
    chosen: dict[str, Mutant] = {}
    claimed: set[str] = set()
    for mutant in mutants:
        if mutant.is_quick and mutant.patch not in chosen and \
                not claimed & set(mutant.tests) and fits(mutant):
            chosen[mutant.patch] = mutant
            claimed |= set(mutant.tests)
    return list(chosen.values())


def quick(tally: test.Tally, base: str, archs: list[Arch]) -> None:
    """A kernel for each architecture with all of quick_choice(). That the cases
    pass on the patched kernel is for the part kunit of `make test` to show."""
    for arch in archs:
        variant = variants(arch)[0]
        every = all_mutants([arch])
        patched = kernels.Kernel(base, "patched", arch, variant.config, "test")
        kernel = kernels.Kernel(base, "mutant", arch, variant.config, "test")
        with tally.part(f"mutants {variant.name}"):
            kernels.build(patched)
            copy_tree(patched, kernel)
            restore(every, patched, kernel)
            copy_objects(patched, kernel)

            def fits(mutant: Mutant) -> bool:
                if subprocess.run(
                        ["git", "apply", "--check", mutant.path], check=False,
                        cwd=kernel.source, env=git_env(kernel),
                        capture_output=True).returncode:
                    return False
                mutate(mutant, patched, kernel)
                return True

            chosen = quick_choice([m for m in every
                                   if m.patch in subjects_of(base)], fits)
            if not chosen:
                raise Fail(TEST_FAILED, variant.name, "no mutant is quick")
            build(chosen, kernel)
            found = boot_and_look(variant, kernel,
                                  tuple(t for m in chosen for t in m.tests),
                                  "", 1, BUILD / base / variant.name
                                  / "mutants" / "together")
            for mutant in chosen:
                judge(tally, f"mutant {mutant.name} among others",
                      {name: found[name] for name in mutant.tests}, 1, "fail")


def index(mutants: list[Mutant], subjects: list[str]) -> str:
    """Documentation/mutants.rst."""
    out = [".. SPDX-License-Identifier: GPL-2.0", "", "=======", "Mutants",
           "=======", "",
           "Written by ``mutants.py index`` from ``scripts/mutants/``, by patch "
           "of the", "series. ``make mutants`` builds each, and each test named "
           "here must fail on it.", ""]
    for subject in subjects:
        out += [subject, "-" * len(subject), ""]
        mine = [m for m in mutants if m.patch == subject]
        for mutant in mine:
            out += [f"{mutant.name}", f"  {mutant.what}", ""]
            out += [f"  - ``{name}``" for name in mutant.tests]
            if mutant.append:
                out += ["", f"  with ``{mutant.append}`` on the kernel command "
                        "line"]
            out += [""]
        if not mine:
            out += ["No mutant.", ""]
    return "\n".join(out[:-1]) + "\n"


def subjects_of(base: str) -> list[str]:
    found = []
    for path in series.patches_of(base):
        head = path.read_text().partition("\n\n")[0].replace("\n ", " ")
        match = re.search(r"^Subject: (?:\[PATCH[^]]*\] )?(.*)$", head, re.M)
        if match:
            found.append(match[1])
    return found


def main() -> int:
    base = chosen_base()
    if sys.argv[1:] == ["index"]:
        mutants = all_mutants(chosen_archs())
        INDEX.write_text(index(mutants, subjects_of(base)))
        return OK
    tally = test.Tally()
    if os.environ.get("QUICK", "") not in ("", "0"):
        with lock():
            series.trees(base)
            quick(tally, base, chosen_archs())
        return tally.close()
    mutants, runs = chosen_mutants(), stress.number("RUNS") or 5
    with lock():
        series.trees(base)
        done, subjects = Done(base, runs), subjects_of(base)
        for mutant in mutants:
            if mutant.patch not in subjects:
                tally.add(f"mutant {mutant.name}", "SKIP", f"the series for "
                          f"{base} has no patch `{mutant.patch}`")
        for arch in chosen_archs():
            machines = variants(arch)
            for variant in machines:
                mine = [m for m in mutants
                        if m.arch == arch and m.patch in subjects and
                        (m.cpu or machines[0].cpu) == variant.cpu]
                if mine:
                    try_machine(tally, base, variant, mine, runs, done)
    done.drop(mutants)
    return tally.close()


if __name__ == "__main__":
    run_main(main)
