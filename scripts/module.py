# SPDX-License-Identifier: GPL-2.0
"""make module: build pteopt.ko, and with TEST=1 prove in guests that it works.

It is built for the stock and the patched kernel of ARCH= (and CPU=, BASE=), with
all of the compiler's extra warnings (W=1) and, if it is installed, sparse. The
tests are those of guest/pteopt.c, on kernels that have kernel probes, trace
events and kmemleak (config/debug/<arch>-module.config).

  KDIR=<objects of a kernel>   build for that kernel instead, with ARCH=
"""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import boot
import kernel as kernels
import series
from lib import (BUILD, BUILD_FAILED, OK, ROOT, SCRIPTS, USAGE, Fail, Variant,
                 chosen_base, chosen_variants, lock, rel, run, run_main, say)

# In this order; each is a command of the guest's program.
PARTS = ("walk", "poke", "ops", "events", "fuzz", "load", "stress",
         "hotplug")
# The guest's own limits are in counts; this is for a machine that is busy.
TIMEOUT = 1800


def noise(log: str) -> list[str]:
    """What compiler, sparse, modpost say of our files; headers are not ours."""
    return [line for line in log.splitlines()
            if re.search(r"(?:^|/)ext/module/\S+: (?:warning|error):", line)
            or re.search(r"^(?:ERROR|WARNING): modpost:|^make.*\*\*\*", line)]


def build(kernel: kernels.Kernel) -> Path:
    """Build the module for a kernel that is built, every warning an error."""
    kernels.stage(kernel, "module")
    extra = ["W=1"]
    if shutil.which("sparse"):
        extra.append("C=2")
    else:
        say("sparse is not installed: built without it")
    log = kernel.objects / "ext" / "module-w1.log"
    done = subprocess.run(
        kernels.make_argv(kernel, "M=ext/module", *extra, "modules"),
        cwd=kernel.objects, env=kernels.make_env(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    log.write_text(done.stdout)
    said = noise(done.stdout)
    if done.returncode or said:
        raise Fail(BUILD_FAILED, f"module/ is not clean for {kernel.name}",
                   "\n  ".join(said[:5]), f"log: {rel(log)}")
    return kernel.objects / "ext" / "module" / "pteopt.ko"


def build_for(folder: Path) -> Path:
    """Build the module for somebody's own kernel, in build/module."""
    out = BUILD / "module"
    if not (folder / "Makefile").is_file():
        raise Fail(USAGE, f"KDIR={folder} is not a kernel's objects",
                   "there is no Makefile", "e.g. /lib/modules/<version>/build")
    shutil.copytree(ROOT / "module", out, dirs_exist_ok=True)
    run(["make", "-C", folder, f"M={out}", "modules"], env=kernels.make_env(),
        code=BUILD_FAILED)
    return out / "pteopt.ko"


def program(kernel: kernels.Kernel) -> Path:
    """The tests, for the guest."""
    target = kernel.objects / "ext" / "pteopt-test"
    run([f"{kernel.arch.cross}gcc", "-O2", "-static", "-Wall", "-Wextra",
         "-Werror", "-pthread", "-o", target, SCRIPTS / "guest" / "pteopt.c"],
        code=BUILD_FAILED)
    return target


def judge(tally, name: str, command: boot.Command) -> None:
    """One part: a verdict for each of its lines, and none is a failure."""
    lines = 0
    for line in command.lines:
        if match := re.match(r"(ok|not ok|skip) ([^:]*)(?:: (.*))?$", line):
            lines += 1
            status = {"ok": "PASS", "skip": "SKIP"}.get(match[1], "FAIL")
            what, why = match[2], match[3] or ""
            if status == "PASS" and why:
                what += f": {why}"
            tally.add(f"{name} {what}", status, why)
    bad = any(line.startswith("not ok ") for line in command.lines)
    if not lines or command.rc is None or (command.rc != OK) != bad:
        tally.add(f"{name}: {lines} verdicts", "FAIL",
                  f"the program ended with {command.rc}")


def test(tally, base: str, tree: str, variant: Variant) -> None:
    """All parts, in one boot of one machine with one kernel."""
    kernel = kernels.Kernel(base, tree, variant.arch, variant.config, "module")
    kernels.build(kernel)
    extra = {"/lib/pteopt.ko": build(kernel), "/bin/pteopt": program(kernel)}
    series_arg = " series" if tree == "patched" else ""
    guest = boot.Guest(
        variant, kernel, [f"pteopt {part}{series_arg}" for part in PARTS],
        BUILD / base / variant.name / f"module-{tree}", timeout=TIMEOUT, smp=2,
        initrd=kernels.initramfs(kernel, extra))
    outcome = guest.run()
    for part, command in zip(PARTS, outcome.commands):
        if command.rc is not None:
            judge(tally, f"module {variant.name} {tree}", command)
    boot.need(outcome, f"module on {variant.name} {tree}")
    if len(outcome.commands) != len(PARTS):
        tally.add(f"module {variant.name} {tree}", "FAIL",
                  f"{len(outcome.commands)} of {len(PARTS)} parts ran")


def module_part(tally, base: str, variants: list[Variant]) -> None:
    """For test.py: on the stock and the patched kernel of each machine."""
    for variant in variants:
        for tree in ("stock", "patched"):
            with tally.part(f"module {variant.name} {tree}"):
                test(tally, base, tree, variant)


def main() -> int:
    if os.environ.get("KDIR"):
        print(f"built {rel(build_for(Path(os.environ['KDIR'])))}")
        return OK
    base = chosen_base()
    chosen = chosen_variants(every=False)
    with lock():
        series.trees(base)
        if os.environ.get("TEST"):
            from test import Tally
            tally = Tally()
            module_part(tally, base, chosen)
            return tally.close()
        built = []
        for variant in chosen:
            for tree in ("stock", "patched"):
                kernel = kernels.Kernel(base, tree, variant.arch,
                                        variant.config, "bench")
                kernels.build(kernel)
                built.append((kernel, build(kernel)))
    for kernel, ko in built:
        print(f"built {rel(ko)} for {kernel.name}: no warning of W=1"
              + (" and sparse" if shutil.which("sparse") else ""))
    print("load it in a guest or on the machine: insmod pteopt.ko; "
          "see Documentation/module.rst")
    return OK


if __name__ == "__main__":
    sys.path.insert(0, str(SCRIPTS))
    run_main(main)
