# SPDX-License-Identifier: GPL-2.0
"""make litmus: the memory model on what the series relies on.

  litmus.py    all of Documentation/litmus-tests/, or those that T= (names or
               globs) leaves

Each test says in its comment what herd7 is expected to find; README.rst beside
them has the fields. herd7 is the machine's own, or HERD=, or comes as a package
of Debian sid, through the mirror that apt is configured for, into build/dl/:
nothing is installed, and it runs with the libraries that come with it.
The last line is `N passed, N failed, N skipped`.
"""
from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lib import (BUILD, NO_SOURCE, ROOT, SKIPPED, USAGE, Fail, Step,
                 chosen_names, read_data, rel, run, run_main, say)
from test import Tally

TESTS = ROOT / "Documentation" / "litmus-tests"
# Most take less than a second; an idle machine needs a few for the longest.
TIMEOUT = 600
# Flags by which a model says what it takes for granted, not what it found.
NOTES = {"Assuming-common-inner-shareable-domain"}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True)
class Expected:
    """What a test's comment says."""
    result: str
    control: str
    flags: frozenset[str] = frozenset()
    patches: tuple[str, ...] = ()


def read_test(path: Path) -> Expected:
    """Read the fields of a test; a wrong one is named."""
    head = path.read_text().partition("*)")[0]

    def values(name: str) -> list[str]:
        return re.findall(rf"^ \* {name}: (.+?)\s*$", head, re.M)

    result, control, patches = (values(n) for n in
                                ("Result", "Control", "Patch"))
    if len(result) != 1 or result[0] not in ("Never", "Sometimes"):
        raise Fail(USAGE, f"{path.name}: Result: {' '.join(result) or 'none'}",
                   "it is `Never` or `Sometimes`, once")
    if (result[0] == "Never") != (len(control) == 1):
        raise Fail(USAGE,
                   f"{path.name}: Control: {' '.join(control) or 'none'}",
                   "a `Never` has one, a `Sometimes` has none")
    if not patches:
        raise Fail(USAGE, f"{path.name} names no patch",
                   "it needs a line ` * Patch: <subject>`")
    return Expected(result[0], "".join(control), frozenset(values("Flag")),
                    tuple(patches))


def chosen_tests() -> list[Path]:
    """T= of the user, or all."""
    found = {path.stem: path for path in sorted(TESTS.glob("*.litmus"))}
    return [found[name] for name in chosen_names("T", list(found))]


def wrong(expected: Expected, output: str) -> str:
    """Why herd7's output is not what was expected, or ''."""
    found = re.findall(r"^Observation \S+ (Always|Sometimes|Never) ", output,
                       re.M)
    flags = frozenset(re.findall(r"^Flag (\S+)", output, re.M)) - NOTES
    if len(found) != 1:
        return "no verdict: " + (output.strip()[:300] or "no output")
    if found[0] != expected.result:
        return f"{found[0]}, expected {expected.result}"
    if flags != expected.flags:
        return (f"flags: {' '.join(sorted(flags)) or 'none'}, expected "
                f"{' '.join(sorted(expected.flags)) or 'none'}")
    return ""


def judge(herd: list[str], path: Path, timeout: float = TIMEOUT) -> str:
    """Run one test. Returns why it failed, or ''."""
    try:
        expected = read_test(path)
        done = subprocess.run([*herd, path], text=True, check=False,
                              stdout=subprocess.PIPE, timeout=timeout,
                              stderr=subprocess.STDOUT)
    except Fail as fail:
        return f"{fail.what}: {fail.why}"
    except subprocess.TimeoutExpired:
        return f"no verdict after {timeout} s"
    if done.returncode:
        return f"herd7 failed ({done.returncode}): {done.stdout[-300:]}"
    return wrong(expected, done.stdout)


def mirror() -> str:
    """The mirror that apt takes this machine's Debian release from."""
    if not shutil.which("apt-get"):
        raise Fail(NO_SOURCE, "apt-get is missing", "this is no Debian")
    codename = read_data(Path("/etc/os-release")).get("VERSION_CODENAME", "")
    targets = run(["apt-get", "indextargets", "--format",
                   "$(REPO_URI) $(RELEASE) $(IDENTIFIER)"])
    for line in targets.splitlines():
        uri, release, kind = line.split()[:3]
        if release == codename and kind == "Packages":
            return uri
    raise Fail(NO_SOURCE, "apt has no mirror",
               f"none of its sources is for {codename or 'this release'}")


def fetch(root: Path) -> None:
    """Unpack the package and what it depends on, through a private apt state.
    Whoever else does the same meanwhile does no harm."""
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent) as tmp:
        home = Path(tmp)
        home.chmod(0o755)   # apt drops root to download
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (home / folder).mkdir(parents=True)
        (home / "state/status").touch()
        signed = f"[signed-by={KEYRING}] " if KEYRING.is_file() else ""
        (home / "sources.list").write_text(
            f"deb {signed}{mirror()} sid main\n")
        (home / "conf").write_text(
            f'Acquire::Languages "none"; Dir::State "{home}/state";\n'
            f'Dir::State::status "{home}/state/status"; '
            f'Dir::Cache "{home}/cache";\n'
            f'Dir::Etc::sourcelist "{home}/sources.list"; '
            'Dir::Etc::sourceparts "-"; APT::Install-Recommends "false";\n')
        env = {**os.environ, "APT_CONFIG": str(home / "conf")}
        run(["apt-get", "-q", "update"], env=env, code=NO_SOURCE)
        run(["apt-get", "-q", "-y", "--download-only", "install",
             "herdtools7"], env=env, code=NO_SOURCE)
        for deb in (home / "cache/archives").glob("*.deb"):
            run(["dpkg-deb", "-x", deb, home / "root"], code=NO_SOURCE)
        if not root.is_dir():
            (home / "root").rename(root)


def herd7(may_fetch: bool = True) -> list[str]:
    """The command that runs herd7; empty if it is neither here nor to be
    fetched."""
    own = os.environ.get("HERD") or shutil.which("herd7")
    if own:
        return shlex.split(own)
    root = BUILD / "dl" / "herd7"
    if not root.is_dir():
        if not may_fetch:
            return []
        step = Step("herdtools7 of Debian sid")
        fetch(root)
        step.done()
    loader = next(root.glob("usr/lib/*/ld-linux*.so.*"))
    return [str(p) for p in (
        loader, "--library-path", loader.parent, root / "usr/bin/herd7",
        "-set-libdir", root / "usr/share/herdtools7/herd")]


def run_tests(tally: Tally) -> None:
    """Run the chosen tests; without herd7, each is a skip with the reason."""
    tests = chosen_tests()
    try:
        herd = herd7()
    except Fail as fail:
        if fail.code != NO_SOURCE:
            raise
        why = f"{fail.what}: {fail.why.splitlines()[-1] if fail.why else ''}"
        for path in tests:
            tally.add(f"litmus {path.stem}", "SKIP", f"no herd7: {why}")
        return
    version = run([*herd, "-version"]).split(",")[0]
    say(f"herd7 {version}, tests of {rel(TESTS)}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = pool.map(lambda path: judge(herd, path), tests)
        for path, why in zip(tests, verdicts):
            tally.check(f"litmus {path.stem}", not why, why)


def main() -> int:
    tally = Tally()
    run_tests(tally)
    code = tally.close()
    return code if tally.passed or tally.failed else SKIPPED


if __name__ == "__main__":
    run_main(main)
