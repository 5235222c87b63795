# SPDX-License-Identifier: GPL-2.0
"""make bisect: the series is good at each of its patches.

  bisection.py each patch in turn, or those from FROM= to TO= (numbers), for each
               ARCH=, and for x86_64, which the series must not break

For each patch, in build/<base>/bisect, a worktree that goes from one to the next:
  build   the test kernel of each architecture builds, and no compiler warning is
          there that the base does not have
  boot    its main machine boots; the workloads find their data; the kernel log is
          silent. Not again for an image that an earlier patch had: one patch is
          for one architecture, the other's image is what it was.
  kunit   no suite and no case that passed at an earlier patch fails at this one;
          at the last patch all pass. A suite that needs what a later patch adds
          does not build, or its cases fail, until then.
  x86_64  mm/ and what the series touches outside of arch/ builds with its
          defconfig, without a new warning

What passed is kept in build/<base>/bisect.json by the commit and by what it was
tested with, so an interrupted run goes on where it was, and a run after a change
of one patch starts with that patch. The last line is `N passed, N failed,
N skipped`.
"""
from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import boot
import kernel as kernels
import ktap
import series
from lib import (BUILD, BUILD_FAILED, OK, ROOT, SCRIPTS, SKIPPED, USAGE, Arch,
                 Fail, Step, Variant, chosen_archs, chosen_base,
                 default_workloads, lock, rel, run_main, say, variants)
from test import SMALL, Tally

TREE = "bisect"
X86 = Arch("x86_64", "" if platform.machine() == "x86_64" else
           "x86_64-linux-gnu-", "", (), (), "amd64", *[""] * 5)
# Of one guest (s), on a busy host
TIMEOUT = 1800
WARNING = re.compile(r"^(\S+?):\d+(?::\d+)?: warning: (.*)$|^(WARNING: .*)$")


@dataclass(frozen=True)
class Patch:
    """One commit of the series; 0 is the base."""
    number: int
    commit: str
    subject: str


def warnings(log: str) -> set[str]:
    """Compiler's and modpost's warnings, without their line numbers."""
    found = set()
    for line in log.splitlines():
        if match := WARNING.match(line):
            found.add(match[3] or f"{match[1].removeprefix('../')}: {match[2]}")
    return found


def patches(base: str) -> list[Patch]:
    """The base and the series, from build/<base>/patched."""
    tree = BUILD / base / "patched"
    lines = series.git(tree, "log", "--reverse", "--format=%H %s",
                       "base..HEAD").splitlines()
    first = series.git(tree, "rev-parse", "base")
    return [Patch(0, first, "the base")] + [
        Patch(n, *line.split(" ", 1)) for n, line in enumerate(lines, 1)]


def chosen_patches(found: list[Patch]) -> list[Patch]:
    """FROM= to TO=, by number."""
    last = found[-1].number
    ends = []
    for name, default in (("FROM", 1), ("TO", last)):
        text = os.environ.get(name) or str(default)
        if not text.isdecimal() or not 1 <= int(text) <= last:
            raise Fail(USAGE, f"{name}={text}", f"a patch is 1 to {last}")
        ends.append(int(text))
    if ends[0] > ends[1]:
        raise Fail(USAGE, f"FROM={ends[0]} TO={ends[1]}", "there is none")
    return found[ends[0]:ends[1] + 1]


class State:
    """What is known: by what was tested with and commit, for each part."""

    def __init__(self, path: Path, key: str):
        self.path, self.key = path, key
        known = json.loads(path.read_text()) if path.is_file() else {}
        # What was tested otherwise says nothing about now.
        self.known: dict = known if known.get("key") == key else {"key": key}

    def get(self, commit: str, part: str):
        return self.known.get(commit, {}).get(part)

    def put(self, commit: str, part: str, value) -> None:
        self.known.setdefault(commit, {})[part] = value
        new = self.path.with_suffix(".tmp")
        new.write_text(json.dumps(self.known, indent=1))
        new.replace(self.path)


def tested_with() -> str:
    """A digest of suites, workloads, configurations and machines."""
    digest = hashlib.sha256()
    for path in sorted([*(ROOT / "kunit").glob("*"),
                        *SCRIPTS.glob("workloads/*.[ch]"),
                        *SCRIPTS.glob("config/*.config"),
                        *SCRIPTS.glob("arch/*.conf"),
                        SCRIPTS / "console-badness",
                        SCRIPTS / "guest" / "init.c"]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def checkout(base: str, patch: Patch) -> Path:
    """The worktree at this patch; files that are the same keep their times."""
    stock, tree = BUILD / base / "stock", BUILD / base / TREE
    if not (tree / ".git").exists():
        shutil.rmtree(tree, ignore_errors=True)
        series.git(stock, "worktree", "prune")
        series.git(stock, "worktree", "add", "-q", "--detach", str(tree),
                   patch.commit)
    series.git(tree, "checkout", "-q", "--force", "--detach", patch.commit)
    return tree


def kernel_of(base: str, variant: Variant) -> kernels.Kernel:
    return kernels.Kernel(base, TREE, variant.arch, variant.config, "test")


def build(kernel: kernels.Kernel) -> set[str]:
    """Build; the warnings of what was compiled."""
    # An option may have come or gone.
    (kernel.objects / "fragments.stamp").unlink(missing_ok=True)
    kernels.BUILT.pop(kernel.objects, None)
    kernels.build(kernel)
    return warnings((kernel.objects / "build.log").read_text())


def touched(base: str) -> list[str]:
    """Objects of the series' generic files outside of mm/."""
    names = series.git(BUILD / base / "patched", "diff", "--name-only",
                       "--diff-filter=AM", "base..HEAD", "--", "*.c").split()
    return [f"{name[:-2]}.o" for name in names
            if not name.startswith(("arch/", "mm/", "lib/kunit/"))]


def build_x86(base: str, tree: Path) -> set[str]:
    """mm/ and the touched generic files with x86_64's defconfig."""
    kernel = kernels.Kernel(base, TREE, X86, "x86_64", "defconfig")
    out = tree / "o-x86_64-defconfig"
    out.mkdir(exist_ok=True)
    log = out / "build.log"
    step = Step(f"{base} {TREE} x86_64 mm/", log)
    targets = ["mm/", *(n for n in touched(base)
                        if (tree / n).with_suffix(".c").is_file())]
    with log.open("w") as handle:
        for goals in (["x86_64_defconfig"], targets):
            argv = [*kernels.make_argv(kernel, f"O={out.name}"), *goals]
            done = subprocess.run(argv, cwd=tree, env=kernels.make_env(),
                                  stdout=handle, stderr=subprocess.STDOUT,
                                  check=False)
            if done.returncode:
                step.done("FAILED")
                raise Fail(BUILD_FAILED, "x86_64 does not build",
                           "", f"log: {rel(log)}")
    step.done()
    return warnings(log.read_text())


def suites(kernel: kernels.Kernel) -> tuple[list[Path], list[str]]:
    """The suites that build for this kernel, and those that do not yet."""
    out = kernel.objects / "ext" / "kunit"
    for old in out.glob("*.ko"):
        old.unlink()
    try:
        kernels.stage(kernel, "kunit")
    except Fail:
        # One at a time: each is a module of its own.
        log = (kernel.objects / "ext" / "kunit-single.log").open("w")
        for source in sorted((ROOT / "kunit").glob("*_kunit.c")):
            (out / "Kbuild").write_text(f"obj-m := {source.stem}.o\n")
            subprocess.run(
                kernels.make_argv(kernel, "M=ext/kunit", "modules"),
                cwd=kernel.objects, env=kernels.make_env(), check=False,
                stdout=log, stderr=subprocess.STDOUT)
        log.close()
    built = sorted(out.glob("*_kunit.ko"))
    stems = {ko.stem for ko in built}
    return built, sorted(p.stem for p in (ROOT / "kunit").glob("*_kunit.c")
                         if p.stem not in stems)


def boot_patch(kernel: kernels.Kernel, variant: Variant, built: list[Path],
               folder: Path) -> tuple[dict[str, str], boot.Outcome]:
    """Workloads and suites in one boot; cases by name, and what became of the
    guest."""
    names = default_workloads()
    guest = boot.Guest(
        variant, kernel, [f"{w} --size={SMALL}" for w in names] + ["kunit"],
        folder, timeout=TIMEOUT, smp=2,
        initrd=kernels.initramfs(kernel, suites=built))
    outcome = guest.run()
    cases = {}
    if built and len(outcome.commands) > len(names):
        modules = [ko.name for ko in built]
        cases = {f"{c.suite}:{c.name}": c.status for c in ktap.parse(
            outcome.commands[-1].lines, modules, kernel.source, guest.folder)}
    return cases, outcome


def judge_kunit(cases: dict[str, str], green: dict[str, str],
                last: bool) -> list[str]:
    """Cases that are worse than at an earlier patch, or not good at the end.

    green: the cases that passed, with the subject of the first patch."""
    wrong = [f"{name}: {cases.get(name, 'missing')}, it passed from "
             f"`{since}` on" for name, since in green.items()
             if cases.get(name) != "PASS"]
    if last:
        wrong += [f"{name}: {status} at the end of the series"
                  for name, status in cases.items() if status == "FAIL"]
    return wrong


class Bisect:
    """One run."""

    def __init__(self, base: str, tally: Tally):
        self.base, self.tally = base, tally
        self.all = patches(base)
        self.state = State(BUILD / base / "bisect.json", tested_with())

    def base_warnings(self, part: str, how) -> set[str]:
        """Those of the base, built once."""
        first = self.all[0]
        known = self.state.get(first.commit, part)
        if known is None:
            checkout(self.base, first)
            known = sorted(how())
            self.state.put(first.commit, part, known)
        return set(known)

    def verdict(self, patch: Patch, part: str, why: list[str],
                detail: str = "") -> bool:
        name = f"bisect {patch.number} {part}"
        self.tally.check(f"{name}: {detail or patch.subject}", not why,
                         "; ".join(why[:5]))
        return not why

    def known(self, patch: Patch, part: str) -> bool:
        """It passed in an earlier run: said as such."""
        value = self.state.get(patch.commit, part)
        if value is not None:
            self.tally.check(f"bisect {patch.number} {part}: {patch.subject} "
                             "(known from an earlier run)", True)
        return value is not None

    def green(self, patch: Patch, part: str) -> dict[str, str]:
        """The cases that passed at an earlier patch that is known."""
        found: dict[str, str] = {}
        for old in self.all[1:patch.number]:
            value = self.state.get(old.commit, part) or {}
            for name, status in value.get("cases", {}).items():
                if status == "PASS":
                    found.setdefault(name, old.subject)
        return found

    def same_image(self, patch: Patch, part: str, image: str) -> Patch | None:
        """The earlier patch after which this image was tested."""
        for old in self.all[1:patch.number]:
            if (self.state.get(old.commit, part) or {}).get("image") == image:
                return old
        return None

    def one_arch(self, patch: Patch, variant: Variant) -> None:
        part = f"boot {variant.name}"
        if self.known(patch, part):
            return
        kernel = kernel_of(self.base, variant)
        had = self.base_warnings(f"build {variant.config}",
                                 lambda: build(kernel))
        checkout(self.base, patch)
        new = sorted(build(kernel) - had)
        if not self.verdict(patch, f"build {variant.config}", new):
            return
        image = hashlib.sha256(kernel.image.read_bytes()).hexdigest()
        if old := self.same_image(patch, part, image):
            self.verdict(patch, part, [], f"the image of patch {old.number}")
            self.state.put(patch.commit, part,
                           self.state.get(old.commit, part))
            return
        built, missing = suites(kernel)
        folder = BUILD / self.base / variant.name / f"bisect-{patch.number:02}"
        cases, outcome = boot_patch(kernel, variant, built, folder)
        wrong = [] if outcome.code == OK else [outcome.why]
        for command in outcome.commands[:-1]:
            if command.rc not in (OK, SKIPPED):
                wrong.append(f"{command.name}: exit code {command.rc}: "
                             + "; ".join(command.lines[-2:]))
        good = self.verdict(patch, part, wrong,
                            f"{len(outcome.commands)} commands")
        wrong = judge_kunit(cases, self.green(patch, part),
                            patch is self.all[-1])
        if patch is self.all[-1]:
            wrong += [f"{name} does not build" for name in missing]
        statuses = list(cases.values())
        good &= self.verdict(
            patch, f"kunit {variant.name}", wrong,
            f"{statuses.count('PASS')} cases pass, {statuses.count('FAIL')} not"
            f" yet, {statuses.count('SKIP')} skipped; {len(missing)} suites do "
            "not build yet")
        if good:
            self.state.put(patch.commit, part,
                           {"cases": cases, "image": image})

    def x86(self, patch: Patch) -> None:
        part = "build x86_64"
        if self.known(patch, part):
            return
        tree = BUILD / self.base / TREE
        had = self.base_warnings(
            part, lambda: build_x86(self.base, tree))
        checkout(self.base, patch)
        new = sorted(build_x86(self.base, tree) - had)
        if self.verdict(patch, part, new):
            self.state.put(patch.commit, part, True)

    def run(self, wanted: list[Patch]) -> None:
        checkout(self.base, wanted[0])
        for patch in wanted:
            say(f"patch {patch.number} of {self.all[-1].number}: "
                f"{patch.subject}")
            for arch in chosen_archs():
                variant = variants(arch)[0]
                with self.tally.part(f"bisect {patch.number} {arch.name}"):
                    self.one_arch(patch, variant)
            with self.tally.part(f"bisect {patch.number} x86_64"):
                self.x86(patch)


def main() -> int:
    base, tally = chosen_base(), Tally()
    with lock():
        series.trees(base)
        work = Bisect(base, tally)
        work.run(chosen_patches(work.all))
    return tally.close()


if __name__ == "__main__":
    run_main(main)
