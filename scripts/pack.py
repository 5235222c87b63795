# SPDX-License-Identifier: GPL-2.0
"""make tar: all that a real machine needs to measure the series, in one file.

For the main machine of ARCH= (or CPU=) build/hw-bench-<base>-<config>.tar.xz has
  hw-bench           the script
  programs/          the workloads, static
  stock/, patched/   a kernel each: image, config, System.map, and with CONFIG=
                     the modules; their versions end in -stock and -patched
  README             what to do with it

The project's own kernels are small and know virtual machines only. For a real
one give its configuration, such as /boot/config-<version>:
  make tar ARCH=arm64 CONFIG=<file>
"""
from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import kernel as kernels
import series
from lib import (BUILD, BUILD_FAILED, OK, SCRIPTS, USAGE, Fail, Variant,
                 chosen_base, chosen_variants, lock, rel, run, run_main,
                 workload_names)

README = """\
Measure {series} on a real machine ({arch}, Linux {version}).

1. Install both kernels, as you install others: {image}, and, if there
   is one, the folder of lib/modules; config is what they were built with.
   {note}
2. Boot stock, then, as root, in this folder:
	./hw-bench check
	./hw-bench run --label stock
   It asks before it changes a setting, and sets it back.
3. Boot patched:
	./hw-bench run --label patched
4. Do 2 and 3 again, twice or more: one boot says little of the next.
5. ./hw-bench compare S1.tsv,S2.tsv,S3.tsv P1.tsv,P2.tsv,P3.tsv
   Copy the .tsv and .json files to build/hw-bench/ of the project, or name them
   as HW=, and `make report` shows them.
"""
SMALL = ("These kernels are small ones for virtual machines (virtio): a real "
         "machine\n   needs `make tar CONFIG=<its config>`.")


@dataclass(frozen=True)
class OwnKernel(kernels.Kernel):
    """A kernel with the user's configuration instead of our fragments."""

    @property
    def objects(self) -> Path:
        return self.source / f"o-{self.config}"

    def fragments(self) -> list[Path]:
        return []


def own_kernel(base: str, tree: str, variant: Variant, config: Path
               ) -> OwnKernel:
    """Configured from the user's file, once for each content of it."""
    text = config.read_bytes()
    name = f"own-{variant.arch.name}-{hashlib.sha256(text).hexdigest()[:8]}"
    kernel = OwnKernel(base, tree, variant.arch, name, "bench")
    stamp = kernel.objects / "fragments.stamp"
    if not stamp.is_file():
        kernel.objects.mkdir(parents=True, exist_ok=True)
        # Both are to be installed beside each other.
        (kernel.objects / ".config").write_bytes(
            text + f'\nCONFIG_LOCALVERSION="-{tree}"\n'.encode())
        run(["make", "-s", f"O={kernel.objects.name}",
             *kernels.make_argv(kernel)[2:], "olddefconfig"],
            cwd=kernel.source, env=kernels.make_env(), code=BUILD_FAILED)
        # What kernels.configure() compares: no fragments, this version.
        stamp.write_text((kernel.source / "Makefile").read_text()[:200])
    return kernel


def stage_kernel(kernel: kernels.Kernel, folder: Path) -> None:
    folder.mkdir(parents=True)
    for source, name in ((kernel.image, kernel.image.name),
                         (kernel.objects / ".config", "config"),
                         (kernel.objects / "System.map", "System.map")):
        shutil.copyfile(source, folder / name)
    if kernel.image.name == "vmlinux":
        # Debug information is several times the kernel.
        run([f"{kernel.arch.cross}strip", "--strip-debug",
             folder / kernel.image.name])
    order = kernel.objects / "modules.order"
    # Those of the project's own kernels are of its tests.
    if isinstance(kernel, OwnKernel) and order.is_file() \
            and order.read_text().strip():
        run(kernels.make_argv(kernel, f"INSTALL_MOD_PATH={folder}",
                              "INSTALL_MOD_STRIP=1", "modules_install"),
            cwd=kernel.objects, env=kernels.make_env(), code=BUILD_FAILED)
        for link in folder.glob("lib/modules/*/build"):
            link.unlink()


def pack(base: str, variant: Variant, config: Path | None) -> Path:
    name = f"hw-bench-{base}-{variant.config}"
    out = BUILD / f"{name}.tar.xz"
    programs = kernels.programs(variant.arch, base)
    with tempfile.TemporaryDirectory(dir=BUILD) as tmp:
        home = Path(tmp) / name
        (home / "programs").mkdir(parents=True)
        shutil.copy(SCRIPTS / "hw-bench", home)
        for workload in workload_names():
            shutil.copy(programs / workload, home / "programs")
        for tree in ("stock", "patched"):
            kernel = own_kernel(base, tree, variant, config) if config else \
                kernels.Kernel(base, tree, variant.arch, variant.config,
                               "bench")
            kernels.build(kernel)
            stage_kernel(kernel, home / tree)
        (home / "README").write_text(README.format(
            series=f"the series on {base}", arch=variant.arch.name,
            version=series.kernel_version(kernel.source),
            image=kernel.image.name,
            note=f"They have the configuration {config.name}." if config
            else SMALL))
        part = out.with_suffix(".part")
        run(["tar", "--create", "--xz", f"--file={part}", "--sort=name",
             "--owner=0", "--group=0", "--numeric-owner",
             "--mtime=2026-01-01", f"--directory={tmp}", name],
            env={**os.environ, "XZ_OPT": "-T0 -3"})
        part.replace(out)
    return out


def main() -> int:
    base = chosen_base()
    words = os.environ.get("CONFIG", "")
    config = Path(words) if words else None
    if config and not config.is_file():
        raise Fail(USAGE, f"CONFIG={words} is no file",
                   "give a kernel's configuration, such as /boot/config-...")
    chosen = chosen_variants(every=False)
    if config and len(chosen) != 1:
        raise Fail(USAGE, "CONFIG= is of one architecture", "give ARCH= too")
    with lock():
        series.trees(base)
        made = [pack(base, variant, config) for variant in chosen]
    for out in made:
        print(f"{rel(out)}: {out.stat().st_size >> 20} MiB; copy it to the "
              "machine, its README says the rest")
    return OK


if __name__ == "__main__":
    sys.path.insert(0, str(SCRIPTS))
    run_main(main)
