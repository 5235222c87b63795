# SPDX-License-Identifier: GPL-2.0
"""The kernel source and the patch series.

  series.py trees       build/<base>/stock and build/<base>/patched (git)
  series.py apply       the series onto a user's git tree, on a new branch
  series.py export      build/<base>/pteopt.mbox and a quilt series
  series.py refresh     from build/<base>/patched back to patches/<base>
  series.py refresh --check   the same, but only say whether it would differ
"""
from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lib import (BUILD, NO_SOURCE, NOT_APPLIED, OK, ROOT, TEST_FAILED, USAGE,
                 Fail, Step, chosen_base, lock, read_data, rel, run, run_main,
                 say)

# The project's commits, not the user's; no repacking of 85,000 files on the way.
IDENTITY = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "gc.auto",
            "GIT_CONFIG_VALUE_0": "0",
            "GIT_AUTHOR_NAME": "pteopt", "GIT_AUTHOR_EMAIL": "pteopt@localhost",
            "GIT_COMMITTER_NAME": "pteopt",
            "GIT_COMMITTER_EMAIL": "pteopt@localhost",
            "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
# Objects live directly below a source tree: kbuild then uses relative paths,
# so that the compiler cache serves every tree.
OBJECTS = "/o-*/"


def git(tree: Path, *args: str, code: int = USAGE) -> str:
    return run(["git", "-C", tree, *args], code=code,
               env={**os.environ, **IDENTITY}).strip()


def patches_of(base: str) -> list[Path]:
    return [p for p in sorted((ROOT / "patches" / base).glob("[0-9]*.patch"))
            if not p.name.startswith("0000-")]


def kernel_version(tree: Path) -> str:
    """6.12.117 of a kernel source, or '' if it is none."""
    makefile = tree / "Makefile"
    if not makefile.is_file() or not (tree / "Kbuild").is_file():
        return ""
    found = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)",
                            makefile.read_text(errors="replace"), re.M))
    return ".".join(found.get(k, "?")
                    for k in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))


def tested_version(base: str) -> str:
    return read_data(ROOT / "patches" / base / "base")["VERSION"]


def check_version(what: str, base: str, version: str) -> None:
    if not version:
        raise Fail(USAGE, what, "that is not a kernel source tree")
    if version.rsplit(".", 1)[0] != base:
        raise Fail(USAGE, what, f"that is Linux {version}, "
                   f"the series is for {base}", "choose BASE= to match")
    tested = tested_version(base)
    if version != tested:
        say(f"note: the source is {version}, the series was last tested "
            f"on {tested}")


def debian_tarball(base: str) -> Path:
    """The base's source package: installed, downloaded before, or now."""
    data = read_data(ROOT / "patches" / base / "base")
    package, name = data["PACKAGE"], Path(data["TARBALL"])
    store = BUILD / "dl"
    for place in (Path("/") / name, store / "root" / name):
        if place.is_file():
            return place
    store.mkdir(parents=True, exist_ok=True)
    step = Step(f"source package {package}")
    try:
        run(["apt-get", "-q", "download", package], cwd=store, code=NO_SOURCE)
        deb = max(store.glob(f"{package}_*.deb"),
                  key=lambda p: p.stat().st_mtime)
        run(["dpkg-deb", "-x", deb, store / "root.tmp"], code=NO_SOURCE)
    except Fail as fail:
        raise Fail(NO_SOURCE, f"the source package {package} is not to be had",
                   fail.why.splitlines()[-1] if fail.why else fail.what,
                   "run `apt-get update` as root, or give KSRC=DIR|TARBALL|GIT")
    (store / "root").mkdir(exist_ok=True)
    shutil.copytree(store / "root.tmp", store / "root", dirs_exist_ok=True)
    shutil.rmtree(store / "root.tmp")
    deb.unlink()
    step.done()
    return store / "root" / name


def user_source(base: str, ksrc: Path) -> str:
    """Check KSRC and name its state: what a new import depends on."""
    if ksrc.is_file():
        stat = ksrc.stat()
        return f"{ksrc} {stat.st_size} {stat.st_mtime_ns}"
    if not ksrc.is_dir():
        raise Fail(USAGE, f"KSRC={ksrc}", "there is no such file or directory")
    check_version(f"KSRC={ksrc}", base, kernel_version(ksrc))
    if (ksrc / ".git").exists():
        require_clean(ksrc, f"KSRC={ksrc}")
        return f"{ksrc} {git(ksrc, 'rev-parse', 'HEAD')}"
    newest = count = 0
    for folder, _, files in os.walk(ksrc):
        count += len(files)
        newest = max(newest, os.stat(folder).st_mtime_ns,
                     *(os.lstat(f"{folder}/{f}").st_mtime_ns for f in files),
                     0)
    return f"{ksrc} {count} {newest}"


def require_clean(tree: Path, what: str) -> None:
    # --no-optional-locks: not even the index of the user's tree is touched.
    dirty = git(tree, "--no-optional-locks", "status", "--porcelain",
                "--untracked-files=no")
    if dirty:
        raise Fail(USAGE, what,
                   f"the tree has uncommitted changes:\n{dirty[:500]}",
                   "commit or stash them there, then run this again")


def unpack(source: Path, tree: Path) -> None:
    """Copy or unpack a source into an empty tree; the source is only read."""
    if source.is_file():
        run(["tar", "-xf", source, "-C", tree, "--strip-components=1"],
            code=NO_SOURCE)
    elif (source / ".git").exists():
        with subprocess.Popen(["git", "-C", source, "archive", "HEAD"],
                              stdout=subprocess.PIPE) as archive:
            run(["tar", "-xf", "-", "-C", tree], stdin=archive.stdout,
                code=NO_SOURCE)
    else:
        run(["rsync", "-a", "--exclude=*.o", "--exclude=.*.cmd",
             "--exclude=/.config*", "--exclude=/include/config",
             "--exclude=/include/generated", "--exclude=/arch/*/include/generated",
             f"{source}/", f"{tree}/"], code=NO_SOURCE)


def import_stock(base: str) -> str:
    """build/<base>/stock: the base as a git tree of one commit."""
    tree, stamp = BUILD / base / "stock", BUILD / base / "stock.stamp"
    ksrc = os.environ.get("KSRC")
    if ksrc:
        source = Path(ksrc).expanduser().resolve()
        origin = user_source(base, source)
    else:
        source = debian_tarball(base)
        origin = f"{source.name} {source.stat().st_size}"
    if stamp.is_file() and stamp.read_text() == origin:
        return origin
    if tree.exists():
        protect_work(base)
        say(f"the source is another one now: {rel(tree)} is made anew")
    step = Step(f"kernel source {base} -> {rel(tree)}")
    for old in (stamp, BUILD / base / "patched.stamp"):
        old.unlink(missing_ok=True)
    for old in (BUILD / base / "patched", tree):
        if old.exists():
            shutil.rmtree(old)
    tree.mkdir(parents=True)
    unpack(source, tree)
    check_version(str(source), base, kernel_version(tree))
    git(tree, "init", "-q", "-b", "stock")
    with (tree / ".git/info/exclude").open("a") as exclude:
        exclude.write(OBJECTS + "\n")
    git(tree, "add", "-A", "-f", ".")
    git(tree, "commit", "-q", "-m",
        f"Linux {kernel_version(tree)}", "--date=2026-01-01T00:00:00Z")
    git(tree, "tag", "base")
    stamp.write_text(origin)
    step.done(kernel_version(tree))
    return origin


def protect_work(base: str) -> None:
    """Refuse to throw away commits or edits in build/<base>/patched."""
    tree, stamp = BUILD / base / "patched", BUILD / base / "patched.stamp"
    if not (tree / ".git").exists() or not stamp.is_file():
        return
    applied = stamp.read_text().split()[-1]
    todo = "keep it with `make refresh`, or drop it with `make clean`"
    if git(tree, "status", "--porcelain", "--untracked-files=no"):
        raise Fail(USAGE, f"{rel(tree)} has uncommitted changes", todo=todo)
    if git(tree, "rev-parse", "HEAD") != applied:
        raise Fail(USAGE, f"{rel(tree)} has commits that are not in patches/",
                   todo=todo)


def series_id(base: str, origin: str) -> str:
    digest = hashlib.sha256(origin.encode())
    for patch in patches_of(base):
        digest.update(patch.read_bytes())
    return digest.hexdigest()


def am(tree: Path, base: str) -> None:
    """Apply the series to a clean tree; name patch and file if one fails."""
    patches = patches_of(base)
    # In one go: git looks at each file of the tree once, not once per patch.
    done = subprocess.run(
        ["git", "-C", tree, "am", "-q", "--no-gpg-sign",
         "--committer-date-is-author-date", *(p.resolve() for p in patches)],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **IDENTITY})
    if done.returncode:
        why = [line for line in done.stdout.splitlines()
               if line.startswith("error:")]
        nth = Path(git(tree, "rev-parse", "--path-format=absolute",
                       "--git-path", "rebase-apply/next"))
        name = patches[int(nth.read_text()) - 1].name if nth.is_file() \
            else "the series"
        subprocess.run(["git", "-C", tree, "am", "--abort"],
                       capture_output=True, check=False)
        raise Fail(NOT_APPLIED, f"{name} does not apply to {rel(tree)}",
                   "; ".join(why) or done.stdout.strip()[-500:],
                   "the patches before it do; see patches/"
                   f"{base}/base for the version that the series is for")


def import_patched(base: str, origin: str) -> None:
    """build/<base>/patched: a worktree of stock with the series on top."""
    stock, tree = BUILD / base / "stock", BUILD / base / "patched"
    stamp = BUILD / base / "patched.stamp"
    wanted = series_id(base, origin)
    if stamp.is_file() and stamp.read_text().split()[0] == wanted:
        return
    protect_work(base)
    step = Step(f"series of {len(patches_of(base))} patches -> {rel(tree)}")
    git(stock, "worktree", "prune")
    if (tree / ".git").exists():
        subprocess.run(["git", "-C", tree, "am", "--abort"],
                       capture_output=True, check=False)
        git(tree, "checkout", "-q", "-f", "-B", "pteopt", "base")
    else:
        git(stock, "worktree", "add", "-q", "-f", "-B", "pteopt",
            str(tree), "base")
    stamp.unlink(missing_ok=True)
    am(tree, base)
    stamp.write_text(f"{wanted} {git(tree, 'rev-parse', 'HEAD')}")
    step.done()


def trees(base: str) -> None:
    """Bring build/<base>/stock and build/<base>/patched up to date."""
    import_patched(base, import_stock(base))


def apply(base: str) -> int:
    """The series onto the user's tree, on a new branch; all or nothing."""
    ksrc = os.environ.get("KSRC")
    if not ksrc:
        raise Fail(USAGE, "make apply needs KSRC=DIR", todo="a clean git tree "
                   f"of Linux {base}: make apply KSRC=~/linux")
    tree = Path(ksrc).expanduser().resolve()
    what = f"KSRC={ksrc}"
    check_version(what, base, kernel_version(tree) if tree.is_dir() else "")
    if not (tree / ".git").exists():
        raise Fail(USAGE, what, "that is not a git tree",
                   "`git init && git add -A && git commit` there, or use "
                   "`make series` and quilt")
    require_clean(tree, what)
    branch = f"pteopt-{base}"
    if git(tree, "branch", "--list", branch):
        raise Fail(USAGE, what, f"it has a branch {branch} already",
                   f"remove it first: git -C {ksrc} branch -D {branch}")
    # The check: in a worktree of our own, so that a conflict leaves no trace.
    with tempfile.TemporaryDirectory(dir=BUILD) as tmp:
        trial = Path(tmp) / "tree"
        git(tree, "worktree", "add", "-q", "--detach", str(trial))
        try:
            am(trial, base)
            head = git(trial, "rev-parse", "HEAD")
        finally:
            git(tree, "worktree", "remove", "--force", str(trial))
    git(tree, "checkout", "-q", "-b", branch, head)
    print(f"{len(patches_of(base))} patches applied to {ksrc}, "
          f"branch {branch}")
    return OK


def export(base: str) -> int:
    """An mbox for `git am` and a quilt folder."""
    out = BUILD / base
    quilt = out / "quilt"
    shutil.rmtree(quilt, ignore_errors=True)
    quilt.mkdir(parents=True)
    cover = sorted((ROOT / "patches" / base).glob("0000-*.patch"))
    with (out / "pteopt.mbox").open("w") as mbox:
        for patch in patches_of(base):
            mbox.write(patch.read_text() + "\n")
            shutil.copy(patch, quilt)
    (quilt / "series").write_text(
        "".join(f"{p.name}\n" for p in patches_of(base)))
    for letter in cover:
        shutil.copy(letter, out / "cover-letter.txt")
    print(f"{rel(out / 'pteopt.mbox')}: git am\n"
          f"{rel(quilt)}/series: QUILT_PATCHES={rel(quilt)} quilt push -a")
    return OK


def format_patches(base: str, out: Path) -> None:
    tree = BUILD / base / "patched"
    git(tree, "format-patch", "-q", "-o", str(out), "--zero-commit",
        "--no-signature", "--full-index", "-M", "-n", "base..HEAD")


def without_places(patch: bytes) -> bytes:
    """A patch without what says where: the names of blobs, numbers of lines."""
    patch = re.sub(rb"^index [0-9a-f]+\.\.[0-9a-f]+", b"index", patch,
                   flags=re.M)
    return re.sub(rb"^@@ -[\d,]+ \+[\d,]+ @@", b"@@", patch, flags=re.M)


def differing(old: dict[str, bytes], new: dict[str, bytes],
              same_source: bool) -> list[str]:
    """The patches that are not the same. On another minor version of the base
    all lines may have moved, which is no change of the series."""
    if not same_source:
        old, new = ({name: without_places(patch)
                     for name, patch in patches.items()}
                    for patches in (old, new))
    return sorted(n for n in {*old, *new} if old.get(n) != new.get(n))


def refresh(base: str, check: bool) -> int:
    """patches/<base>/000N from the commits of build/<base>/patched."""
    home, tree = ROOT / "patches" / base, BUILD / base / "patched"
    if not (tree / ".git").exists():
        raise Fail(USAGE, f"{rel(tree)} is not there", todo="`make trees`")
    if git(tree, "status", "--porcelain", "--untracked-files=no"):
        raise Fail(USAGE, f"{rel(tree)} has uncommitted changes",
                   todo="commit them there first: a commit is a patch")
    with tempfile.TemporaryDirectory(dir=BUILD) as tmp:
        format_patches(base, Path(tmp))
        new = {p.name: p.read_bytes() for p in Path(tmp).glob("*.patch")}
    old = {p.name: p.read_bytes() for p in patches_of(base)}
    changed = differing(old, new, not check or
                        kernel_version(BUILD / base / "stock")
                        == tested_version(base))
    if check:
        for name in changed:
            print(f"differs: patches/{base}/{name}")
        return TEST_FAILED if changed else OK
    for name in changed:
        if name in new:
            (home / name).write_bytes(new[name])
        else:
            (home / name).unlink()
    for cover in home.glob("0000-*.patch"):
        cover.write_text(re.sub(r"^(Subject: \[PATCH 0*/)\d+",
                                rf"\g<1>{len(new)}", cover.read_text(),
                                count=1, flags=re.M))
    origin = (BUILD / base / "stock.stamp").read_text()
    (BUILD / base / "patched.stamp").write_text(
        f"{series_id(base, origin)} {git(tree, 'rev-parse', 'HEAD')}")
    print(f"patches/{base}: {len(new)} patches, {len(changed)} changed"
          + "".join(f"\n  {name}" for name in changed))
    return OK


def main() -> int:
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    base = chosen_base()
    with lock():
        if what == "trees":
            trees(base)
            return OK
        if what == "apply":
            return apply(base)
        if what == "export":
            return export(base)
        if what == "refresh":
            return refresh(base, "--check" in sys.argv)
    raise Fail(USAGE, "usage", (__doc__ or "").strip())


if __name__ == "__main__":
    run_main(main)
