# SPDX-License-Identifier: GPL-2.0
"""Build kernels and what runs in their guests.

A kernel is (base, tree, config, purpose):
  tree     stock or patched
  config   a fragment name: arm64, powerpc-64k, ... (scripts/config/)
  purpose  bench: as people run it; test, perf: plus
           scripts/config/<arch>-<purpose>.config;
           others: plus scripts/config/debug/<arch>-<purpose>.config
It is built in build/<base>/<tree>/o-<config>-<purpose>; an architecture that
has nothing to add for tests is tested on its bench kernel.

  kernel.py    build all that ARCH=, CPU= and BASE= name
"""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import series
from lib import (BUILD, BUILD_FAILED, JOBS, OK, ROOT, SCRIPTS, USAGE, VERBOSE,
                 Arch, Fail, Step, chosen_base, chosen_variants, lock, rel,
                 run, run_main, workload_names)

# Same input, same output: what kbuild would put into the image otherwise.
PINNED = {"KBUILD_BUILD_TIMESTAMP": "2026-01-01", "KBUILD_BUILD_USER": "pteopt",
          "KBUILD_BUILD_HOST": "pteopt", "LC_ALL": "C"}
# Objects are compiled with relative paths, so the user's compiler cache serves
# every tree and every clone. The kernels' headers differ, so a second look at
# the preprocessed text (no "depend") would cost more than it finds.
PINNED.update(CCACHE_NOHASHDIR="1", CCACHE_DEPEND="1")


# Trees that have none of what the series adds to Kconfig, or not yet
WITHOUT_SERIES = ("stock", "bisect")


@dataclass(frozen=True)
class Kernel:
    """One kernel and where it is built."""
    base: str
    tree: str
    arch: Arch
    config: str
    purpose: str

    @property
    def source(self) -> Path:
        return BUILD / self.base / self.tree

    @property
    def objects(self) -> Path:
        own = self.extra_fragment.is_file()
        return self.source / (f"o-{self.config}-"
                              f"{self.purpose if own else 'bench'}")

    @property
    def extra_fragment(self) -> Path:
        folder = SCRIPTS / "config"
        if self.purpose not in ("bench", "test", "perf"):
            folder /= "debug"
        return folder / f"{self.arch.name}-{self.purpose}.config"

    @property
    def image(self) -> Path:
        return self.objects / self.arch.image

    def symbols(self) -> dict[str, int]:
        """Name and address of what System.map lists."""
        lines = (self.objects / "System.map").read_text().splitlines()
        return {name: int(address, 16)
                for address, _, name in map(str.split, lines)}

    @property
    def name(self) -> str:
        return f"kernel {self.base} {self.tree} " \
               f"{self.objects.name.removeprefix('o-')}"

    def fragments(self) -> list[Path]:
        paths = [SCRIPTS / "config" / f"{name}.config" for name in
                 dict.fromkeys(["common", self.arch.name, self.config])]
        return [p for p in [*paths, self.extra_fragment] if p.is_file()]


def make_argv(kernel: Kernel, *args: str) -> list[str]:
    """make for a kernel; run it in kernel.objects."""
    ccache = "ccache " if shutil.which("ccache") else ""
    return ["make", f"-j{JOBS}", f"ARCH={kernel.arch.name}",
            f"CROSS_COMPILE={kernel.arch.cross}",
            f"CC={ccache}{kernel.arch.cross}gcc",
            f"HOSTCC={ccache}gcc", *args]


def make_env() -> dict[str, str]:
    # Our own knobs must not reach kbuild.
    env = {k: v for k, v in os.environ.items()
           if k not in ("O", "V", "W", "ARCH", "CPU", "BASE", "KSRC",
                        "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")}
    return {**env, **PINNED}


def configure(kernel: Kernel) -> None:
    """allnoconfig plus fragments; every requested option is verified."""
    fragments = kernel.fragments()
    wanted = "".join(p.read_text() for p in fragments)
    stamp = kernel.objects / "fragments.stamp"
    version = (kernel.source / "Makefile").read_text()[:200]
    if (kernel.objects / ".config").is_file() and stamp.is_file() \
            and stamp.read_text() == wanted + version:
        return
    if not (SCRIPTS / "config" / f"{kernel.config}.config").is_file():
        raise Fail(USAGE, f"config {kernel.config} is not known")
    kernel.objects.mkdir(parents=True, exist_ok=True)
    tree_make = ["make", "-s", f"O={kernel.objects.name}",
                 *make_argv(kernel)[2:]]
    run([*tree_make, "allnoconfig"], cwd=kernel.source, env=make_env(),
        code=BUILD_FAILED)
    run(["../scripts/kconfig/merge_config.sh", "-m", ".config", *fragments],
        cwd=kernel.objects, env=make_env(), code=BUILD_FAILED)
    run([*tree_make, "olddefconfig"], cwd=kernel.source, env=make_env(),
        code=BUILD_FAILED)
    missing = missing_options(wanted, (kernel.objects / ".config").read_text(),
                              kernel.tree in WITHOUT_SERIES)
    if missing:
        raise Fail(BUILD_FAILED, f"{kernel.name}: options asked for did not "
                   "come out", "; ".join(missing),
                   f"see {rel(kernel.objects / '.config')} and the fragments "
                   "in scripts/config/")
    stamp.write_text(wanted + version)


def missing_options(wanted: str, config: str, stock: bool) -> list[str]:
    """Requested lines that the final .config does not have.

    The last line about an option counts. Lines below `# needs: patched` name
    options that the series adds; a stock kernel has none of them."""
    have = dict(re.findall(r"^(CONFIG_\w+)=(.*)$", config, re.M))
    missing, patched_only = {}, False
    for line in wanted.splitlines():
        if line.startswith("# SPDX"):
            patched_only = False
        elif line.startswith("# needs: patched"):
            patched_only = True
        elif match := re.match(r"(?:# )?(CONFIG_\w+)(?:=(.*)| is not set)$",
                               line):
            name, value = match[1], match[2] or "n"
            missing.pop(name, None)
            if not (patched_only and stock) \
                    and have.get(name, "n") != value:
                missing[name] = f"{name}={value} (is {have.get(name, 'n')})"
    return list(missing.values())


# Objects that this run has brought up to date, and what was staged against them.
BUILT: dict[Path, dict[str, list[Path]]] = {}


def build(kernel: Kernel) -> None:
    """Build image and modules, with progress; once in a run of a script."""
    if kernel.objects in BUILT:
        return
    configure(kernel)
    log = kernel.objects / "build.log"
    total = 0
    if log.is_file():
        total = len(re.findall(r"^  [A-Z]", log.read_text(), re.M))
    count_file = kernel.objects / "objects.count"
    if count_file.is_file():
        total = max(total, int(count_file.read_text()))
    step = Step(kernel.name, log)
    done = 0
    with log.open("w") as out:
        argv = make_argv(kernel, *kernel.arch.targets)
        with subprocess.Popen(argv, cwd=kernel.objects, env=make_env(),
                              text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as make:
            for line in make.stdout or ():
                out.write(line)
                if VERBOSE:
                    sys.stderr.write(line)
                if line.startswith("  "):
                    done += 1
                    step.update(f"{done}/{total or '?'} objects")
    if make.returncode:
        errors = [line for line in log.read_text().splitlines()
                  if re.search(r"error:|Error \d|undefined reference", line)]
        step.done("FAILED")
        raise Fail(BUILD_FAILED, f"{kernel.name} does not build",
                   "\n  ".join(errors[:5]), f"log: {rel(log)}")
    if done > 200:
        count_file.write_text(str(done))
    step.done(f"done, {done} steps")
    BUILT[kernel.objects] = {}


def stage(kernel: Kernel, what: str) -> list[Path]:
    """Build kunit/, module/ or what workloads load out of tree against a
    kernel; the .ko files.

    The sources are copied next to the objects: 6.12 cannot build a module
    into another folder than its source. Once in a run, as the kernel is."""
    staged = BUILT.get(kernel.objects, {})
    if what in staged:
        return staged[what]
    out = kernel.objects / "ext" / what
    out.mkdir(parents=True, exist_ok=True)
    sources = {p.relative_to(ROOT / what) for p in (ROOT / what).rglob("*")
               if p.is_file()}
    for path in sources:
        new, old = ROOT / what / path, out / path
        if not old.is_file() or old.read_bytes() != new.read_bytes():
            old.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(new, old)
    for old in out.glob("*.c"):
        if old.relative_to(out) not in sources and ".mod." not in old.name:
            for stale in out.glob(f"{old.stem}.*"):
                stale.unlink()
    log = kernel.objects / "ext" / f"{what}.log"
    done = subprocess.run(make_argv(kernel, f"M=ext/{what}", "modules"),
                          cwd=kernel.objects, env=make_env(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    log.write_text(done.stdout)
    noise = [line for line in done.stdout.splitlines()
             if re.search(r"warning:|error:|ERROR", line)]
    if done.returncode or noise:
        raise Fail(BUILD_FAILED, f"{what}/ does not build for {kernel.name}",
                   "\n  ".join(noise[:5]), f"log: {rel(log)}")
    staged[what] = sorted(out.glob("*.ko"))
    return staged[what]


def programs(arch: Arch, base: str) -> Path:
    """Cross-build init, workloads and stress programs, static; the folder."""
    out = BUILD / base / f"guest-{arch.name}"
    out.mkdir(parents=True, exist_ok=True)
    jobs = {"init": SCRIPTS / "guest" / "init.c",
            **{n: SCRIPTS / "workloads" / f"{n}.c" for n in workload_names()},
            **{p.stem: p for p in (SCRIPTS / "stress").glob("*.c")}}
    headers = [*SCRIPTS.glob("workloads/*.h"), *SCRIPTS.glob("stress/*.h")]
    for name, source in jobs.items():
        target = out / name
        newest = max(p.stat().st_mtime for p in (source, *headers))
        if not target.is_file() or target.stat().st_mtime < newest:
            run([f"{arch.cross}gcc", "-O2", "-static", "-Wall", "-Wextra",
                 "-Werror", "-pthread", "-o", target, source],
                code=BUILD_FAILED)
            run([f"{arch.cross}strip", target], code=BUILD_FAILED)
    for old in out.iterdir():
        if old.suffix == "" and old.name not in jobs:
            old.unlink()
    return out


def initramfs(kernel: Kernel, extra: dict[str, Path] | None = None,
              suites: list[Path] | None = None) -> Path:
    """An archive with init, the workloads, KUnit, the suites (all, if they are
    not given) and the stress programs (test kernels), and extra files {path in
    guest: file}."""
    guest = programs(kernel.arch, kernel.base)
    lines = [f"dir /{d} 0755 0 0" for d in
             ("dev", "proc", "sys", "tmp", "bin", "lib", "lib/kunit", "mnt")]
    lines += ["nod /dev/console 0600 0 0 c 5 1",
              f"file /init {guest / 'init'} 0755 0 0"]
    lines += [f"file /bin/{n} {guest / n} 0755 0 0" for n in workload_names()]
    lines += [f"file /lib/{ko.name} {ko} 0644 0 0"
              for ko in stage(kernel, "scripts/workloads/modules")]
    if kernel.purpose not in ("bench", "perf"):
        kunit = kernel.objects / "lib/kunit/kunit.ko"
        lines += [f"file /lib/kunit.ko {kunit} 0644 0 0"]
        lines += [f"file /lib/kunit/{ko.name} {ko} 0644 0 0"
                  for ko in (stage(kernel, "kunit") if suites is None
                             else suites)]
        lines += [f"file /bin/{p.stem} {guest / p.stem} 0755 0 0"
                  for p in sorted((SCRIPTS / "stress").glob("*.c"))]
    for path, file in (extra or {}).items():
        lines.append(f"file {path} {file} 0755 0 0")
    out = kernel.objects / "ext"
    out.mkdir(exist_ok=True)
    spec = out / f"initramfs-{kernel.purpose}.list"
    archive = spec.with_suffix(".cpio")
    spec.write_text("\n".join(lines) + "\n")
    # Under a new name first: another guest may be reading the old one.
    with tempfile.NamedTemporaryFile(dir=out, delete=False) as handle:
        done = subprocess.run([kernel.objects / "usr/gen_init_cpio", "-t", "0",
                               spec], stdout=handle, stderr=subprocess.PIPE,
                              text=True)
    if done.returncode:
        Path(handle.name).unlink()
        raise Fail(BUILD_FAILED, "the initramfs could not be made",
                   done.stderr.strip())
    Path(handle.name).replace(archive)
    return archive


def main() -> int:
    base = chosen_base()
    with lock():
        series.trees(base)
        kernels = {Kernel(base, tree, v.arch, v.config, "bench")
                   for v in chosen_variants(every=False)
                   for tree in ("stock", "patched")}
        for kernel in sorted(kernels, key=lambda k: k.name):
            build(kernel)
            initramfs(kernel)
    return OK


if __name__ == "__main__":
    run_main(main)
