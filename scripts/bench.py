# SPDX-License-Identifier: GPL-2.0
"""make bench: run the workloads on the stock and the patched kernel under the
op counter, and say what changed.

Writes build/<base>/<arch>-<cpu>/report/:
  counts.tsv       base arch cpu workload step units class stock patched
  by-function.tsv  base arch cpu workload step class function stock patched
  metadata.json    versions and commands
  sizes.tsv        of W=sweep: as counts.tsv, with the size of the region (KiB)
                   before units
A run of some workloads (W=) replaces their rows and keeps the others'.
"""
from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import boot
import kernel as kernels
import series
from lib import (BUILD, LOST_VM, OK, SCRIPTS, SKIPPED, TEST_FAILED, Fail, Step,
                 Variant, chosen_base, chosen_variants, chosen_workloads, clock,
                 default_workloads, lock, read_data, rel, run, run_main,
                 workload_data)

TREES = ("stock", "patched")
# Order of columns; insn and atomic are shown per unit, the rest in all.
CLASSES = ("insn", "atomic", "tlbi", "tlbi_local", "dsb", "dmb", "isb", "ic",
           "dc", "ipi", "fault")
PER_UNIT = ("insn", "atomic", "dmb")
# MiB; beyond that one guest runs at a time.
LARGE = 4096
# Above stock by more than this share, and by more operations than one interrupt
# makes, is worse. Steps are counted from the first to the last mark, and the
# timer's interrupts fall into either kernel's at other places.
WORSE, WORSE_FEW = 0.005, 300
COUNTS_HEAD = "base arch cpu workload step units class stock patched".split()
SIZES_HEAD = COUNTS_HEAD[:5] + ["kib"] + COUNTS_HEAD[5:]
# The workload whose steps end in the size of the region: toggle/4k/400k
SIZED = "sweep"
FUNCTION_HEAD = ("base arch cpu workload step class function stock "
                 "patched").split()


@dataclass
class StepCounts:
    """What one kernel did in one step."""
    units: int
    classes: dict[str, int] = field(default_factory=dict)
    functions: dict[tuple[str, str], int] = field(
        default_factory=lambda: defaultdict(int))
    pte: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class Attribution:
    """From a program counter to `symbol` or `symbol/inlined helper`, and to
    a group of groups.conf, through the kernel's debug information."""

    # Where the atomic primitives themselves stand: the interesting frame is
    # the one that calls them.
    PRIMITIVE = re.compile(r"(^|/)(atomic|cmpxchg|bitops|barrier|refcount|"
                           r"instrumented|lse|percpu|rwonce|atomic_lse|"
                           r"atomic_ll_sc|spinlock|qspinlock|"
                           r"non-atomic)[^/]*\.h$|include/linux/atomic/|"
                           r"asm-generic/bitops/|include/asm/alternative")

    def __init__(self, kernel: kernels.Kernel):
        self.kernel = kernel
        self.groups = [(name, re.compile(regex)) for name, regex in
                       read_data(SCRIPTS / "groups.conf").items()]
        self.known: dict[str, tuple[str, str]] = {}

    def learn(self, pcs: set[str]) -> None:
        todo = sorted(pcs - self.known.keys())
        if not todo:
            return
        argv = [f"{self.kernel.arch.cross}addr2line", "-a", "-i", "-f", "-e",
                str(self.kernel.objects / "vmlinux")]
        out = subprocess.run(argv, input="\n".join(todo), text=True,
                             check=True, capture_output=True).stdout
        frames: list[tuple[str, str]] = []
        lines = iter(out.splitlines() + ["0xend"])
        pc = ""
        for line in lines:
            if line.startswith("0x"):
                if pc:
                    self.known[pc] = self.choose(frames)
                pc, frames = line, []
            else:
                frames.append((line, next(lines)))
        self.known = {f"0x{int(k, 16):x}": v for k, v in self.known.items()}

    def choose(self, frames: list[tuple[str, str]]) -> tuple[str, str]:
        """Innermost frame that is no primitive: its function and group."""
        for function, where in frames:
            path = re.sub(r"^(.*?/)?\.\./|^\./|:.*$", "", where)
            path = re.sub(r"^.*?((arch|include|mm|kernel|fs|lib|drivers|net|"
                          r"ipc|block|security|init)/)", r"\1", path, count=1)
            if self.PRIMITIVE.search(path):
                continue
            for name, regex in self.groups:
                if regex.search(path):
                    return function, name
            return function, "other"
        return (frames[-1][0] if frames else "?"), "other"


def parse_steps(workload: str, lines: list[str]) -> list[tuple[str, dict]]:
    """The `@@ step` lines of a workload, in order."""
    steps = []
    for line in lines:
        words = line.split()
        if words[:2] == ["@@", "step"] and len(words) >= 3:
            numbers = [int(w) for w in words[4::2] if w.isdigit()]
            values = dict(zip(words[3::2], numbers))
            if len(values) != (len(words) - 3) / 2 or not values.get("units"):
                raise Fail(TEST_FAILED, f"{workload}: bad line: {line}")
            steps.append((words[2], values))
    return steps


def parse_counts(path: Path) -> tuple[list[tuple[int, str, str, str, int]], int]:
    """The op counter's file: rows, number of intervals."""
    rows, intervals = [], -1
    for line in path.read_text().splitlines()[1:]:
        words = line.split("\t")
        if words[0] == "end":
            intervals = int(words[1])
        elif words[0] == "error":
            raise Fail(TEST_FAILED, f"{rel(path)}", "\t".join(words[1:]))
        else:
            rows.append((int(words[0]), words[1], words[2], words[3],
                         int(words[4])))
    if intervals < 0:
        raise Fail(LOST_VM, f"{rel(path)} has no end: the op counter was cut")
    return rows, intervals


def collect(workload: str, lines: list[str], counts: Path,
            where: Attribution) -> dict[str, StepCounts]:
    """Join a workload's step lines with the op counter's intervals."""
    steps = parse_steps(workload, lines)
    rows, intervals = parse_counts(counts)
    if len(steps) != intervals:
        raise Fail(TEST_FAILED, f"{workload}: {len(steps)} steps printed, "
                   f"{intervals} intervals counted", f"see {rel(counts)}")
    where.learn({pc for _, _, _, pc, _ in rows if pc != "-"})
    result: dict[str, StepCounts] = {}
    for name, values in steps:
        if name in result:
            raise Fail(TEST_FAILED, f"{workload}: step {name} came twice")
        step = result[name] = StepCounts(values["units"])
        for cls in CLASSES:
            step.classes[cls] = values.get(cls, 0)
    names = list(result)
    for interval, cls, symbol, pc, count in rows:
        step = result[names[interval]]
        step.classes[cls] += count
        function, group = where.known.get(pc, (symbol, "other"))
        label = symbol if function in (symbol, "?", "??") \
            else f"{symbol}/{function}"
        step.functions[cls, label] += count
        if group == "pte":
            step.pte[cls] += count
    return result


def measure(base: str, variant: Variant, workload: str, folder: Path,
            trees: tuple[str, ...] = TREES, append: str = ""
            ) -> dict[str, dict[str, StepCounts]]:
    """One workload on both kernels, at the same time on two host cores; the
    patched one with @append on its command line."""
    data = workload_data(workload)
    guests = {}
    for tree in trees:
        kernel = kernels.Kernel(base, tree, variant.arch, variant.config,
                                "bench")
        guests[tree] = boot.Guest(
            variant, kernel, [workload], folder / f"{workload}-{tree}",
            timeout=data.timeout, memory=data.memory, count=True,
            append=append if tree == "patched" else "")
    progress = Step(f"{variant.name} {workload}", folder)
    # Two large guests at a time may be more than the host has.
    together = data.memory <= LARGE
    if together:
        for guest in guests.values():
            guest.start()
    result = {}
    for tree, guest in guests.items():
        if not together:
            guest.start()
        outcome = boot.need(guest.wait(), f"{workload} on {tree}")
        command = outcome.commands[0]
        said = [line for line in command.lines if line.startswith("@@ fail")
                or line.startswith("@@ skip")]
        if command.rc == SKIPPED:
            progress.done("skipped: " + "; ".join(said))
            return {}
        if command.rc != OK:
            raise Fail(TEST_FAILED, f"{workload} on {tree} failed "
                       f"({command.rc})", "; ".join(said)
                       or "\n".join(command.lines[-3:]),
                       f"logs: {rel(guest.folder)}")
        result[tree] = collect(workload, command.lines,
                               guest.folder / "counts.tsv",
                               Attribution(guest.kernel))
    if len({tuple(steps) for steps in result.values()}) != 1:
        raise Fail(TEST_FAILED, f"{workload}: stock and patched ran different "
                   "steps", str([list(steps) for steps in result.values()]))
    progress.done()
    return result


def merge_tsv(path: Path, head: list[str], workloads: list[str],
              rows: list[list[str]]) -> None:
    """Replace the rows of these workloads, keep the others'."""
    kept = []
    if path.is_file():
        old = [line.split("\t") for line in path.read_text().splitlines()]
        if old and old[0] == head:
            kept = [r for r in old[1:] if r[3] not in workloads]
    with path.open("w") as out:
        for row in [head, *sorted(kept + rows, key=lambda r: r[3])]:
            out.write("\t".join(row) + "\n")


def split_size(step: str) -> tuple[str, int]:
    """The name of a sized step without the size, and the size in KiB."""
    name, _, size = step.rpartition("/")
    return name, int(size[:-1]) * {"k": 1, "m": 1024, "g": 1024 ** 2}[size[-1]]


def write_report(base: str, variant: Variant, folder: Path,
                 results: dict[str, dict[str, dict[str, StepCounts]]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    head = [base, variant.arch.name, variant.cpu]
    counts, functions, sizes = [], [], []
    for workload, trees in results.items():
        for name, stock in trees["stock"].items():
            patched = trees["patched"][name]
            if stock.units != patched.units:
                raise Fail(TEST_FAILED, f"{workload} {name}: units differ")
            for cls in CLASSES:
                row = [str(stock.units), cls, str(stock.classes[cls]),
                       str(patched.classes[cls])]
                counts.append([*head, workload, name, *row])
                if workload == SIZED:
                    step, kib = split_size(name)
                    sizes.append([*head, workload, step, str(kib), *row])
            for key in sorted({*stock.functions, *patched.functions}):
                functions.append([*head, workload, name, *key,
                                  str(stock.functions.get(key, 0)),
                                  str(patched.functions.get(key, 0))])
            for cls in CLASSES:
                if stock.pte.get(cls) or patched.pte.get(cls):
                    functions.append([*head, workload, name, cls,
                                      "(PTE helpers)",
                                      str(stock.pte.get(cls, 0)),
                                      str(patched.pte.get(cls, 0))])
    merge_tsv(folder / "counts.tsv", COUNTS_HEAD, list(results), counts)
    merge_tsv(folder / "by-function.tsv", FUNCTION_HEAD, list(results),
              functions)
    if sizes:
        merge_tsv(folder / "sizes.tsv", SIZES_HEAD, [SIZED], sizes)


def write_metadata(base: str, variant: Variant, folder: Path) -> None:
    kernel = kernels.Kernel(base, "stock", variant.arch, variant.config,
                            "bench")
    commands = {p.parent.name: p.read_text().strip()
                for p in sorted(folder.parent.glob("bench/*/qemu-cmd"))
                if not p.parent.name.endswith(".old")}
    (folder / "metadata.json").write_text(json.dumps({
        "base": base, "source": series.kernel_version(kernel.source),
        "series": [p.name for p in series.patches_of(base)],
        "series_id": (BUILD / base / "patched.stamp").read_text().split()[0],
        "variant": variant.name, "qemu": run([variant.qemu[0], "--version"])
        .splitlines()[0],
        "compiler": run([f"{variant.arch.cross}gcc", "--version"])
        .splitlines()[0],
        "host": platform.platform(), "python": platform.python_version(),
        "commands": commands}, indent=1) + "\n")


def number(value: float) -> str:
    if value == int(value) and abs(value) >= 100 or value == 0:
        return f"{int(value)}"
    return f"{value:.0f}" if value >= 1000 else \
        f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(stock: float, patched: float) -> str:
    if stock == patched:
        return "="
    return f"x{patched / stock:.2f}" if stock else "new"


def aligned(lines: list[list[str]]) -> list[str]:
    """The lines of a table, the first column to the left."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    return ["  ".join([line[0].ljust(widths[0])]
                      + [cell.rjust(w)
                         for cell, w in zip(line[1:], widths[1:])])
            for line in lines]


def table(variant: Variant, workload: str,
          trees: dict[str, dict[str, StepCounts]]) -> str:
    """The aligned table of one workload."""
    stock, patched = trees["stock"], trees["patched"]
    columns = [c for c in CLASSES
               if any(t[s].classes[c] for t in trees.values() for s in t)]
    if any(t[s].pte.get("atomic") for t in trees.values() for s in t):
        columns.insert(columns.index("atomic") + 1, "pte-atomic")
    head = ["step", "units"]
    for cls in columns:
        head.append(cls + ("/u" if cls in (*PER_UNIT, "pte-atomic") else ""))
    lines = [head]
    for name in stock:
        row = [name, str(stock[name].units)]
        for cls in columns:
            if cls == "pte-atomic":
                pair = [t[name].pte.get("atomic", 0) / t[name].units
                        for t in (stock, patched)]
            else:
                pair = [t[name].classes[cls] / (t[name].units if cls in
                                                PER_UNIT else 1)
                        for t in (stock, patched)]
            row.append("0" if pair == [0, 0] else
                       f"{number(pair[0])}>{number(pair[1])} "
                       f"{ratio(*pair)}")
        lines.append(row)
    return "\n".join([f"{workload} on {variant.name}: stock>patched ratio; /u = "
                      "per unit (PTE or operation), else in all",
                      *aligned(lines)])


def worse(trees: dict[str, dict[str, StepCounts]], same: bool = False
          ) -> list[str]:
    """Where the patched kernel does more than the stock one, or @same: does
    not do the same."""
    found = []
    for name, stock in trees["stock"].items():
        for cls in CLASSES:
            old, new = stock.classes[cls], trees["patched"][name].classes[cls]
            # Fewer instructions can only be those of code that all share.
            more = abs(new - old) if same and cls != "insn" else new - old
            if more > max(old * WORSE, WORSE_FEW):
                found.append(f"{name} {cls}: {old} > {new} "
                             f"({(new - old) / stock.units:+.2f} per unit)")
    return found


def prepare(base: str, chosen: list[Variant],
            trees: tuple[str, ...] = TREES) -> None:
    """Source, series, kernels, op counter."""
    series.trees(base)
    boot.plugin()
    for variant in chosen:
        for tree in trees:
            kernel = kernels.Kernel(base, tree, variant.arch, variant.config,
                                    "bench")
            kernels.build(kernel)
            # What it stages is there then for guests that start together.
            kernels.initramfs(kernel)


def bench_variant(base: str, variant: Variant, workloads: list[str]
                  ) -> dict[str, dict[str, dict[str, StepCounts]]]:
    home = BUILD / base / variant.name
    results = {}
    for workload in workloads:
        trees = measure(base, variant, workload, home / "bench")
        if trees:
            results[workload] = trees
    write_report(base, variant, home / "report", results)
    write_metadata(base, variant, home / "report")
    return results


def main() -> int:
    base = chosen_base()
    chosen = chosen_variants(every=False)
    workloads = chosen_workloads(default_workloads())
    ran = 0
    with lock():
        prepare(base, chosen)
        tables = []
        for variant in chosen:
            results = bench_variant(base, variant, workloads)
            ran += len(results)
            for name, trees in results.items():
                tables.append("\n".join(
                    [table(variant, name, trees)]
                    + [f"worse than stock: {line}" for line in worse(trees)]))
    print("\n" + "\n\n".join(tables) + "\n")
    for variant in chosen:
        home = BUILD / base / variant.name
        print(f"{variant.name}: {rel(home / 'report')}/counts.tsv, "
              "by-function.tsv, metadata.json; to run a guest by hand: "
              f"{rel(home / 'bench')}/*/qemu-cmd")
    print(f"{ran} workloads compared in {clock()}; counts, not times: an "
          "emulator's clock says nothing of a machine's")
    return OK if ran else SKIPPED


if __name__ == "__main__":
    sys.path.insert(0, str(SCRIPTS))
    run_main(main)
