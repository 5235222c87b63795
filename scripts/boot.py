# SPDX-License-Identifier: GPL-2.0
"""Boot a guest, run commands in it, and judge what came back.

  boot.py    a shell in the patched guest of ARCH= CPU= (make boot)

The only QEMU command line of the project is made here. A run folder holds
  qemu-cmd      the command, to run it by hand
  console.log   the guest's console
  results.txt   what init sent (see guest/init.c)
  counts.tsv    what the op counter saw, if it was asked for
"""
from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator, Sequence

import kernel as kernels
import series
from lib import (BAD_LOG, BUILD, LOST_VM, NO_SOURCE, OK, PANIC, SCRIPTS,
                 TIMEOUT, USAGE, Arch, Fail, Variant, chosen_base,
                 chosen_variants, lock, rel, run, run_main, say)

# Counts are taken on one CPU with a virtual clock that advances with the
# instructions, and with the same date and random numbers each time: two runs of
# one kernel then see the same interrupts and the same addresses.
COUNTING = ["-icount", "shift=0,sleep=off", "-seed", "1",
            "-rtc", "base=2026-01-01,clock=vm"]


# Of all architectures here.
COMMAND_LINE = 2048


@dataclass
class Command:
    """One command that init ran."""
    name: str
    lines: list[str] = field(default_factory=list)
    klog: list[str] = field(default_factory=list)
    rc: int | None = None


@dataclass
class Outcome:
    """A guest's run: its verdict (an exit code), why, and its commands."""
    code: int
    why: str
    commands: list[Command]
    folder: Path = Path()


def parse_results(text: str) -> tuple[list[Command], list[str], bool]:
    """Split what init sent: commands, the whole kernel log, seen the end."""
    commands: list[Command] = []
    klog: list[str] = []
    for line in text.replace("\r", "").splitlines():
        if line.startswith("K| "):
            klog.append(line[3:])
            if commands:
                commands[-1].klog.append(line[3:])
        elif line.startswith("@@ begin "):
            commands.append(Command(line[9:]))
        elif match := re.match(r"@@ rc (\d+) (.*)$", line):
            if commands and commands[-1].name == match[2]:
                commands[-1].rc = int(match[1])
        elif line == "@@ end":
            return commands, klog, True
        elif commands:
            commands[-1].lines.append(line)
    return commands, klog, False


def bad_lines(log: list[str]) -> list[str]:
    """The lines of a kernel log that must not be there."""
    bad, allowed = [], []
    for line in (SCRIPTS / "console-badness").read_text().splitlines():
        if line.startswith("!"):
            allowed.append(re.compile(line[1:]))
        elif line and not line.startswith("#"):
            bad.append(re.compile(line))
    return [line for line in log if any(b.search(line) for b in bad)
            and not any(a.search(line) for a in allowed)]


def judge(console: str, results: str, timed_out: bool, limit: int,
          exit_code: int) -> Outcome:
    """Decide what a run was. Everything unknown is a failure."""
    commands, klog, ended = parse_results(results)
    log = console.replace("\r", "").splitlines()
    bad = bad_lines(klog + log)
    first = bad[0].strip() if bad else ""
    running = [c.name for c in commands if c.rc is None]
    during = f" during `{running[-1]}`" if running else \
        ("" if commands else " before the first command")
    if any("Kernel panic" in line for line in bad):
        return Outcome(PANIC, f"the guest panicked{during}: {first}", commands)
    if timed_out:
        return Outcome(TIMEOUT, f"no end within {limit} s{during}"
                       + (f": {first}" if first else ""), commands)
    if bad:
        return Outcome(BAD_LOG, f"{len(bad)} bad lines in the kernel log: "
                       f"{first}", commands)
    if not ended or running:
        last = next((line for line in reversed(log) if line.strip()), "")
        return Outcome(LOST_VM, f"the guest ended early{during} (QEMU's exit "
                       f"code {exit_code}): {last.strip() or 'no output'}",
                       commands)
    return Outcome(OK, "", commands)


def plugin() -> Path:
    """The op counter, built if need be."""
    out = BUILD / "opcount"
    sources = [p for p in (SCRIPTS / "opcount").glob("*.[ch]")]
    target = out / "libopcount.so"
    if not target.is_file() or target.stat().st_mtime < max(
            p.stat().st_mtime for p in sources):
        out.mkdir(parents=True, exist_ok=True)
        run([SCRIPTS / "opcount" / "build.sh", out])
    return target


# `mov w0, #1; ret`
YES = {"arm64": bytes.fromhex("20008052c0035fd6")}


def image(variant: Variant, kernel: kernels.Kernel, folder: Path) -> Path:
    """The kernel's image, or a copy in which a function says yes."""
    if not variant.says_yes:
        return kernel.image
    symbols = kernel.symbols()
    if variant.says_yes not in symbols:
        raise Fail(USAGE, f"{variant.name}: {kernel.name} has no function "
                   f"{variant.says_yes}")
    data = bytearray(kernel.image.read_bytes())
    at = symbols[variant.says_yes] - symbols["_text"]
    if kernel.arch.name not in YES:
        raise Fail(USAGE, f"{variant.name}: SAYS_YES={variant.says_yes}",
                   f"boot.py knows no function that says yes on "
                   f"{kernel.arch.name}", "add its two instructions to YES")
    yes = YES[kernel.arch.name]
    data[at:at + len(yes)] = yes
    copy = folder / kernel.image.name
    copy.write_bytes(data)
    return copy


def qemu_argv(variant: Variant, kernel: Path, initrd: Path, append: str,
              smp: int, memory: int) -> list[str]:
    return [*variant.qemu, "-smp", str(smp), "-m", str(memory), "-nodefaults",
            "-display", "none", "-monitor", "none", "-no-reboot",
            "-kernel", str(kernel), "-initrd", str(initrd), "-append", append]


def start(argv: list[str]) -> subprocess.Popen:
    if not shutil.which(argv[0]):
        raise Fail(USAGE, f"{argv[0]} is missing",
                   todo="run `make deps` (it names the Debian packages)")
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *argv], text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)


@dataclass
class Guest:
    """One boot: what to run where. start() then wait()."""
    variant: Variant
    kernel: kernels.Kernel
    commands: list[str]
    folder: Path
    timeout: int = 300
    memory: int = 1024
    smp: int = 1
    append: str = ""
    count: bool = False
    qemu_extra: tuple[str, ...] = ()
    plugin_extra: str = ""
    initrd: Path | None = None

    def start(self) -> None:
        initrd = self.initrd or kernels.initramfs(self.kernel)
        old = self.folder.with_name(self.folder.name + ".old")
        if self.folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            self.folder.rename(old)
        self.folder.mkdir(parents=True)
        for name in ("console.log", "results.txt"):
            (self.folder / name).touch()
        arch = self.variant.arch
        append = " ".join(filter(None, (
            arch.append, self.variant.append, "panic=-1 oops=panic loglevel=5",
            f"pteopt.port={arch.port}", self.append,
            f'pteopt.run="{" + ".join(self.commands)}"')))
        if len(append) >= COMMAND_LINE:
            raise Fail(USAGE, "the kernel command line is too long",
                       f"{len(append)} characters, of {COMMAND_LINE - 1}: "
                       + append)
        argv = qemu_argv(self.variant,
                         image(self.variant, self.kernel, self.folder), initrd,
                         append, self.smp, self.memory)
        argv += shlex.split(arch.console_args.replace(
            "@CONSOLE@", str(self.folder / "console.log")))
        argv += shlex.split(arch.port_args.replace(
            "@PORT@", str(self.folder / "results.txt")))
        argv += self.qemu_extra
        if self.count:
            argv += [*COUNTING, "-plugin",
                     f"{plugin()},out={self.folder / 'counts.tsv'},"
                     f"map={self.kernel.objects / 'System.map'}"
                     + self.plugin_extra]
        (self.folder / "qemu-cmd").write_text(shlex.join(argv) + "\n")
        self.began = time.monotonic()
        self.process = start(argv)

    def wait(self) -> Outcome:
        timed_out = False
        try:
            left = self.timeout - (time.monotonic() - self.began)
            words, _ = self.process.communicate(timeout=max(left, 1))
        except subprocess.TimeoutExpired:
            timed_out = True
            self.process.kill()
            words, _ = self.process.communicate()
        except BaseException:
            self.process.kill()
            raise
        console = (self.folder / "console.log").read_text(errors="replace")
        results = (self.folder / "results.txt").read_text(errors="replace")
        if words.strip() and not results:
            console += "\n" + words
        outcome = judge(console, results, timed_out, self.timeout,
                        self.process.returncode)
        outcome.folder = self.folder
        if outcome.code != OK:
            outcome.why += f"\n  logs: {rel(self.folder)}"
        return outcome

    def run(self) -> Outcome:
        self.start()
        return self.wait()


def one_ahead(variants: list[Variant], make: Callable[[Variant], Guest]
              ) -> Iterator[tuple[Variant, Callable[[], Outcome]]]:
    """Each machine with what gives its outcome, or raises why @make has no guest
    for it. The next guest is made and runs meanwhile, since hosts have two cores
    at least."""
    guests: list[Guest] = []

    def started(variant: Variant) -> Callable[[], Outcome]:
        try:
            guest = make(variant)
            guest.start()
        except Fail as fail:
            why = fail

            def no_guest() -> Outcome:
                raise why
            return no_guest
        guests.append(guest)
        return guest.wait

    try:
        ready = [started(variant) for variant in variants[:1]]
        for i, variant in enumerate(variants):
            ready += [started(next_one) for next_one in variants[i + 1:i + 2]]
            yield variant, ready[i]
    finally:
        for guest in guests:
            if guest.process.poll() is None:
                guest.process.kill()


def need(outcome: Outcome, what: str) -> Outcome:
    """Raise what a bad outcome says."""
    if outcome.code != OK:
        raise Fail(outcome.code, what, outcome.why)
    return outcome


def unpack(arch: Arch, packages: Sequence[str]) -> Path:
    """Unpack Debian packages of the guest's architecture, through a private apt
    state: nothing is installed, no foreign architecture is added."""
    home = BUILD / "dl" / f"apt-{arch.debian_arch}"
    done = home / "unpacked"
    have = done.read_text().split() if done.is_file() else []
    wanted = [name for name in packages if name not in have]
    if not wanted:
        return home / "root"
    for folder in ("state/lists/partial", "cache/archives/partial", "root"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / "state/status").touch()
    (home / "conf").write_text(
        f'APT::Architecture "{arch.debian_arch}"; '
        f'APT::Architectures {{ "{arch.debian_arch}"; }};\n'
        f'Acquire::Languages "none"; Dir::State "{home}/state";\n'
        f'Dir::State::status "{home}/state/status"; '
        f'Dir::Cache "{home}/cache";\n')
    env = {**os.environ, "APT_CONFIG": str(home / "conf")}
    # One broken list of several is no reason to stop; the download decides.
    subprocess.run(["apt-get", "-q", "update"], env=env, check=False,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run(["apt-get", "-q", "download", *wanted], env=env, cwd=home,
        code=NO_SOURCE)
    for name in wanted:
        run(["dpkg-deb", "-x", next(home.glob(f"{name}_*.deb")),
             home / "root"], code=NO_SOURCE)
    done.write_text(" ".join([*have, *wanted]))
    return home / "root"


def busybox(variant: Variant) -> Path:
    return unpack(variant.arch, ["busybox-static"]) / "bin" / "busybox"


def shell() -> int:
    """make boot: the console on this terminal."""
    base = chosen_base()
    variant = chosen_variants(every=False)[0]
    with lock():
        series.trees(base)
        kernel = kernels.Kernel(base, "patched", variant.arch, variant.config,
                                "bench")
        kernels.build(kernel)
        initrd = kernels.initramfs(kernel,
                                   {"/bin/busybox": busybox(variant)})
        shell_initrd = initrd.with_name("shell.cpio")
        initrd.replace(shell_initrd)
    append = " ".join(filter(None, (variant.arch.append, variant.append,
                                    "panic=-1 pteopt.run=sh")))
    argv = qemu_argv(variant, image(variant, kernel, initrd.parent),
                     shell_initrd, append, 2, 1024)
    serial = "chardev:con" if "-serial" in variant.arch.console_args else None
    argv += ["-chardev", "stdio,id=con,mux=on,signal=off", "-mon", "con"]
    argv += ["-serial", serial] if serial else \
        ["-device", "spapr-vty,chardev=con"]
    say(f"{variant.name}: leave with `exit`, or Ctrl-A X; the workloads are "
        "in /bin")
    return subprocess.run(argv, check=False).returncode


def main() -> int:
    return shell()


if __name__ == "__main__":
    sys.path.insert(0, str(SCRIPTS))
    run_main(main)
