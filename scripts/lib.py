# SPDX-License-Identifier: GPL-2.0
"""What all scripts share: paths, variants, errors with exit codes, progress.

User knobs come from the environment (the Makefile exports them):
ARCH, CPU, BASE, W, KSRC, O, V. Everything is written below O (build/).
"""
from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Callable, Iterator, Sequence

SCRIPTS = Path(__file__).resolve().parent
ROOT = SCRIPTS.parent
BUILD = Path(os.environ.get("O") or ROOT / "build").resolve()
VERBOSE = os.environ.get("V", "") not in ("", "0")
JOBS = (os.cpu_count() or 1) + 1

# Exit codes; Documentation/exit-codes.rst is the table for people.
OK, TEST_FAILED, USAGE, BUILD_FAILED, SKIPPED, LOST_VM = 0, 1, 2, 3, 4, 5
NOT_APPLIED, BAD_LOG, PANIC, NO_SOURCE, BAD_INPUT, TIMEOUT, INTERRUPTED = (
    6, 7, 8, 9, 10, 124, 130)


class Fail(Exception):
    """A failure that a person can act on: what, why, next step, exit code."""

    def __init__(self, code: int, what: str, why: str = "", todo: str = ""):
        super().__init__(what)
        self.code, self.what, self.why, self.todo = code, what, why, todo

    def report(self) -> None:
        print(f"{Path(sys.argv[0]).name}: {self.what}"
              + (f": {self.why}" if self.why else ""), file=sys.stderr)
        if self.todo:
            print(f"  {self.todo}", file=sys.stderr)


def run_main(main: Callable[[], int]) -> None:
    """Run main() and turn Fail and Ctrl-C into messages and exit codes."""
    try:
        code = main()
    except Fail as fail:
        fail.report()
        code = fail.code
    except KeyboardInterrupt:
        print("\ninterrupted: the same command goes on from here",
              file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        code = OK
    sys.stdout.flush()
    sys.exit(code)


def read_data(path: Path) -> dict[str, str]:
    """Read KEY=VALUE lines; `#` starts a comment line."""
    data = {}
    for line in path.read_text().splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            key, _, value = line.partition("=")
            data[key.strip()] = value.strip()
    return data


@dataclass(frozen=True)
class Arch:
    """One architecture: scripts/arch/<name>.conf."""
    name: str
    cross: str
    image: str
    targets: tuple[str, ...]
    packages: tuple[str, ...]
    debian_arch: str
    port: str
    append: str
    off: str
    console_args: str
    port_args: str


@dataclass(frozen=True)
class Variant:
    """One machine: scripts/arch/<arch>-<cpu>.conf."""
    arch: Arch
    cpu: str
    config: str
    qemu: list[str]
    append: str
    # What makes the patched kernel count like the stock one: the off switch of
    # the architecture, but nothing on a machine that the series is not for.
    off: str
    # A function of the kernel that says yes on this machine, for a feature that
    # QEMU emulates but no CPU of it reports.
    says_yes: str
    order: int
    on_request: bool

    @property
    def name(self) -> str:
        return f"{self.arch.name}-{self.cpu}"


def arch_names() -> list[str]:
    return sorted(p.stem for p in (SCRIPTS / "arch").glob("*.conf")
                  if "-" not in p.stem)


def get_arch(name: str) -> Arch:
    if name not in arch_names():
        raise Fail(USAGE, f"ARCH={name} is not known",
                   f"valid: {' '.join(arch_names())}")
    d = read_data(SCRIPTS / "arch" / f"{name}.conf")
    return Arch(name, d["CROSS"], d["IMAGE"], tuple(d["TARGETS"].split()),
                tuple(d["PACKAGES"].split()), d["DEBIAN_ARCH"], d["PORT"],
                d["APPEND"], d["OFF"], d["CONSOLE_ARGS"], d["PORT_ARGS"])


def variants(arch: Arch) -> list[Variant]:
    """All machines of an architecture, the main one first."""
    found = []
    for path in (SCRIPTS / "arch").glob(f"{arch.name}-*.conf"):
        d = read_data(path)
        found.append(Variant(arch, path.stem.partition("-")[2], d["CONFIG"],
                             shlex.split(d["QEMU"]), d.get("APPEND", ""),
                             d.get("OFF", arch.off), d.get("SAYS_YES", ""),
                             int(d["ORDER"]), "ON_REQUEST" in d))
    return sorted(found, key=lambda v: v.order)


def chosen_archs() -> list[Arch]:
    """ARCH= of the user, or all."""
    return [get_arch(n) for n in os.environ.get("ARCH", "").split()
            or arch_names()]


def chosen_variants(every: bool) -> list[Variant]:
    """CPU= of the user; else every machine that is not only for who asks, or the
    main one of each ARCH."""
    wanted = os.environ.get("CPU", "").split()
    chosen, known = [], []
    for arch in chosen_archs():
        all_of_arch = variants(arch)
        known += [v.cpu for v in all_of_arch]
        if wanted:
            chosen += [v for v in all_of_arch if v.cpu in wanted]
        else:
            chosen += [v for v in all_of_arch if not v.on_request] \
                if every else all_of_arch[:1]
    for cpu in wanted:
        if cpu not in known:
            raise Fail(USAGE, f"CPU={cpu} is not known",
                       f"valid: {' '.join(known)}")
    return chosen


def base_names() -> list[str]:
    return sorted(p.parent.name for p in (ROOT / "patches").glob("*/base"))


def chosen_base() -> str:
    base = os.environ.get("BASE") or "6.12"
    if base not in base_names():
        raise Fail(USAGE, f"BASE={base} is not known",
                   f"valid: {' '.join(base_names())}")
    return base


def workload_names() -> list[str]:
    return sorted(p.stem for p in (SCRIPTS / "workloads").glob("*.c"))


@dataclass(frozen=True)
class Workload:
    """What the `// key: value` lines of a workload say."""
    memory: int = 1024  # MiB of the guest
    timeout: int = 300  # s
    # Only for who asks for it by name: a large guest, or a long run
    on_request: bool = False
    # No boot parameter turns off what it shows
    no_switch: bool = False


def workload_data(name: str) -> Workload:
    text = (SCRIPTS / "workloads" / f"{name}.c").read_text()
    return Workload(**{key: int(value) for key, value in
                       re.findall(r"^// (\w+): (\d+)$", text, re.M)})


def default_workloads() -> list[str]:
    """All but those on request."""
    return [w for w in workload_names() if not workload_data(w).on_request]


def chosen_names(variable: str, names: Sequence[str],
                 default: Sequence[str] | None = None) -> list[str]:
    """What the user's variable (names or globs) leaves of names; the default,
    or all, if it is not set."""
    wanted = os.environ.get(variable, "").split()
    if not wanted:
        return list(names if default is None else default)
    chosen: list[str] = []
    for pattern in wanted:
        hits = fnmatch.filter(names, pattern)
        if not hits:
            raise Fail(USAGE, f"{variable}={pattern} is not known",
                       f"valid: {' '.join(names)}")
        chosen += [h for h in hits if h not in chosen]
    return chosen


def chosen_workloads(default: Sequence[str]) -> list[str]:
    """W= of the user, or the default."""
    return chosen_names("W", workload_names(), default)


def rel(path: Path) -> str:
    """A path as the user would type it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def load_script(name: str) -> ModuleType:
    """A script of ours that is no module by name, for it is copied about."""
    path = SCRIPTS / name
    module = ModuleType(name.replace("-", "_"))
    module.__file__ = str(path)
    # Dataclasses look their module up there.
    sys.modules[module.__name__] = module
    exec(compile(path.read_text(), path, "exec"), module.__dict__)
    return module


START = time.monotonic()


def clock(seconds: float | None = None) -> str:
    s = int(time.monotonic() - START if seconds is None else seconds)
    return f"{s // 60:02d}:{s % 60:02d}"


def say(text: str) -> None:
    print(f"[{clock()}] {text}", file=sys.stderr, flush=True)


class Step:
    """One step of progress: refreshed in place on a terminal, else a line
    at the start and one every 30 s. `expected` (s) makes it an estimate."""

    def __init__(self, text: str, log: Path | None = None):
        self.text, self.started = text, time.monotonic()
        self.tty = sys.stderr.isatty()
        self.shown = self.started
        say(f"{text} ..." + (f"  (log: {rel(log)})" if log else ""))

    def update(self, how_far: str) -> None:
        now = time.monotonic()
        if now - self.shown < (0.5 if self.tty else 30):
            return
        self.shown = now
        line = f"[{clock()}] {self.text} ... {how_far}"
        print(f"\r{line:<78}" if self.tty else line,
              end="" if self.tty else "\n", file=sys.stderr, flush=True)

    def done(self, result: str = "done") -> None:
        took = clock(time.monotonic() - self.started)
        print(("\r" if self.tty else "")
              + f"[{clock()}] {self.text} ... {result} ({took})"
              + (" " * 20 if self.tty else ""), file=sys.stderr, flush=True)


def run(argv: Sequence[str | Path], **kwargs) -> str:
    """Run a command, return its output; a failure is shown with its words."""
    argv = [str(a) for a in argv]
    if VERBOSE:
        print("+ " + shlex.join(argv), file=sys.stderr)
    code = kwargs.pop("code", USAGE)
    try:
        done = subprocess.run(argv, check=False, text=True,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **kwargs)
    except FileNotFoundError:
        raise Fail(USAGE, f"{argv[0]} is missing",
                   todo="run `make deps` (it names the Debian packages)")
    if done.returncode:
        raise Fail(code, f"{argv[0]} failed ({done.returncode})",
                   done.stdout.strip()[-2000:], shlex.join(argv))
    return done.stdout


@contextlib.contextmanager
def lock() -> Iterator[None]:
    """Only one command at a time works in an output folder."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another command works in {rel(BUILD)}: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
