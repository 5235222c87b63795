# SPDX-License-Identifier: GPL-2.0
"""In which order mprotect() writes contpte blocks and invalidates the TLB.

A block of 16 entries must not turn from contpte to single pages, nor back, while
the TLB may hold it as what it was, unless the CPUs can stand that.
The guest program `blocks` changes the protection of blocks step by step, and
prints their entries before and after each step; the op counter logs all stores
to page tables, TLBIs and barriers of the call, in order. Here both are put
together, and for each step it is checked that

- every entry that changed was seen to be stored to: the log is complete;
- a valid entry whose contiguous bit changes, and which is valid afterwards, was
  cleared, then there was a TLBI and a DSB, and then it was written; or, if the
  kernel found CPUs that can stand that, it was never cleared;
- behind the last store to an entry that lost a permission there is a TLBI, and a
  DSB behind that;
- before the first store to an entry that becomes executable, its folio was synced:
  cleaned (DC), a DSB, the instruction cache invalidated (IC), a DSB; less of it if
  the kernel found CPUs that need less;
- a block has the contiguous bit in all of its entries, or in none, and
- that, and the number of flushes, are what EXPECTED says.

A flush is all TLBIs up to a DSB: one for a range if the CPU can do that, or one
for each page. Which address they are for can't be seen; there are few enough.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Iterator

import boot
import kernel as kernels
from lib import (BUILD, LOST_VM, OK, SKIPPED, TEST_FAILED, Fail, Variant, rel,
                 run)

# <case>/<step>: flushes of the call, and whether each of the two blocks is contpte
# afterwards. A step that folds or unfolds a block has one for that, if it can not
# be done in place, and one more if it takes a permission away, or grants one.
EXPECTED: dict[str, tuple[int, str]] = {
    "whole/ro": (1, "yes yes"),
    "whole/rw": (1, "yes yes"),
    "whole/none": (1, "no no"),
    "whole/rw-again": (0, "yes yes"),
    "exec/rx": (1, "yes yes"),
    "exec/rw": (1, "yes yes"),
    # Unfold
    "one-page/page-ro": (2, "no yes"),
    "one-page/page-rw": (1, "no yes"),
    # Fold
    "one-page/ro": (2, "yes yes"),
    "one-page/rw": (1, "yes yes"),
    "last-page/page-ro": (2, "no yes"),
    "last-page/page-rw": (2, "yes yes"),
    "last-page/ro": (1, "yes yes"),
    "unfolded/page-ro": (2, "no yes"),
    "unfolded/page-rw": (1, "no yes"),
    "unfolded/none": (1, "no no"),
    "unfolded/rw": (0, "yes yes"),
    # Unfold two; fold the one whose last page changes; fold the other one
    "edges/ro": (3, "no no"),
    "edges/rw": (2, "yes no"),
    "edges/all-ro": (2, "yes yes"),
    # The block that is exclusive in half can not be writable as a whole.
    "exclusive/ro": (2, "yes yes"),
    "exclusive/rw": (2, "no yes"),
    "exclusive/ro-again": (2, "yes yes"),
    "exclusive/none": (1, "no no"),
    "exclusive/rw-again": (0, "no yes"),
}

# Whose functions store to entries in a change of protection; what is stored by
# others would be found missing.
WRITERS = ("arch/arm64/mm/change_prot.o", "arch/arm64/mm/contpte.o",
           "arch/arm64/mm/mmu.o", "mm/mprotect.o")

# Who flushes what is the kernel's own, and may do so at any time
OTHERS = {"__purge_vmap_area_lazy"}

# The bits of an arm64 entry
VALID, USER, RDONLY = 1 << 0, 1 << 6, 1 << 7
DBM, CONT, UXN = 1 << 51, 1 << 52, 1 << 54

# (mask, value) of the 64-bit stores, without the registers that they store;
# STP has two. A swap may store anything: in page tables it takes entries out.
STR = ((0xffc00000, 0xf9000000), (0xffe00000, 0xf8000000))
STP = ((0xffc00000, 0xa8800000), (0xffc00000, 0xa9000000),
       (0xffc00000, 0xa9800000))
SWP = ((0xff20fc00, 0xf8208000),)


@dataclass(frozen=True)
class Event:
    """One line of the order log."""
    kind: str
    opcode: int = 0
    where: int = -1


@dataclass(frozen=True)
class Block:
    """A block: the address of its first entry, its entries before and after."""
    where: int
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True)
class OrderStep:
    name: str
    blocks: tuple[Block, ...]


def clears(opcode: int) -> bool:
    """Whether a store clears what it stores to, or a swap may."""
    def one_of(encodings: Iterable[tuple[int, int]]) -> bool:
        return any(opcode & mask == value for mask, value in encodings)
    zero = 31
    return (one_of(STR) and opcode & 31 == zero) or one_of(SWP) or \
        (one_of(STP) and opcode & 31 == opcode >> 10 & 31 == zero)


@dataclass(frozen=True)
class Machine:
    """What the CPUs are good for.

    live: blocks are made and unmade while they are live
    sync: what comes before an entry that becomes executable, in this order
    """
    live: bool = False
    sync: tuple[str, ...] = ("dc", "dsb", "ic", "dsb")


def read_machine(log: str) -> Machine:
    """The machine, by what the kernel says of it."""
    def has(feature: str) -> bool:
        return f"detected: {feature}" in log
    idc = has("Data cache clean to the PoU not required")
    dic = has("Instruction cache invalidation not required")
    return Machine(has("BBM Level 2 without TLB conflict abort"),
                   (*(() if idc else ("dc",)), "dsb",
                    *(() if dic else ("ic", "dsb"))))


def permissions(entry: int) -> set[str]:
    """What user space may do."""
    if not entry & VALID or not entry & USER:
        return set()
    return {"read"} | ({"write"} if entry & DBM or not entry & RDONLY
                       else set()) | (set() if entry & UXN else {"execute"})


def in_order(kinds: Iterable[str], wanted: tuple[str, ...]) -> bool:
    """Whether there are all that are wanted, in this order."""
    rest = iter(kinds)
    return all(kind in rest for kind in wanted)


def entry_problems(where: int, before: int, after: int, others: set[int],
                   events: list[Event], machine: Machine) -> list[str]:
    """What is wrong with the change of one entry, in short; `others` are where
    those of other blocks are."""
    if before == after:
        return []
    stores = [i for i, e in enumerate(events)
              if e.kind in ("store", "atomic") and e.where == where]
    tlbis = [i for i, e in enumerate(events) if e.kind == "tlbi"]
    dsbs = [i for i, e in enumerate(events) if e.kind == "dsb"]
    if not stores:
        return ["changed, but no store to it was seen"]

    def broken_at(tlbi: int) -> bool:
        """Cleared before this TLBI, written after it and a DSB."""
        earlier = [i for i in stores if i < tlbi]
        later = [i for i in stores if i > tlbi]
        return bool(earlier and later) and clears(events[earlier[-1]].opcode) \
            and any(tlbi < i < later[0] for i in dsbs)

    problems = []
    if before & VALID and after & VALID and (before ^ after) & CONT:
        if machine.live and any(clears(events[i].opcode) for i in stores):
            problems.append("it was cleared, where it could change in place")
        elif not machine.live and not any(broken_at(i) for i in tlbis):
            problems.append("the contiguous bit changed, but not by way of: "
                            "clear, TLBI, DSB, write")
    if "execute" in permissions(after) - permissions(before):
        written = next((i for i in stores if not clears(events[i].opcode)), 0)
        # Another block's sync is not this one's
        start = max((i for i, e in enumerate(events[:written])
                     if e.where in others), default=0)
        if not in_order((e.kind for e in events[start:written]), machine.sync):
            problems.append("became executable, but not by way of: "
                            + ", ".join(machine.sync) + ", write")
    lost = permissions(before) - permissions(after)
    if lost and not any(tlbi > stores[-1] and any(i > tlbi for i in dsbs)
                        for tlbi in tlbis):
        problems.append(f"lost {', '.join(sorted(lost))}, but there is no TLBI "
                        "and DSB behind the last store to it")
    return problems


def flushes(events: list[Event]) -> int:
    """Groups of TLBIs that end with a DSB, or with the call."""
    kinds = [e.kind for e in events if e.kind in ("tlbi", "dsb")]
    return sum(kind == "tlbi" and kinds[i + 1:i + 2] != ["tlbi"]
               for i, kind in enumerate(kinds))


def is_cont(block: Block) -> str:
    bits = {bool(entry & CONT and entry & VALID) for entry in block.after}
    return {(True,): "yes", (False,): "no"}.get(tuple(bits), "mixed")


def problems(step: OrderStep, events: list[Event],
             expected: tuple[int, str] | None,
             machine: Machine = Machine()) -> list[str]:
    """All that is wrong with a step; one line for entries that are alike."""
    found: dict[str, list[str]] = {}
    entries = [{block.where + 8 * i for i in range(len(block.before))}
               for block in step.blocks]
    for number, block in enumerate(step.blocks):
        others = set().union(*entries[:number], *entries[number + 1:])
        for i, (before, after) in enumerate(zip(block.before, block.after)):
            for text in entry_problems(block.where + 8 * i, before, after,
                                       others, events, machine):
                found.setdefault(text, []).append(f"{number}:{i}")
    out = [f"entries {' '.join(where)}: {text}"
           for text, where in found.items()]
    if expected is None:
        return [*out, "EXPECTED has no such step"]
    seen = flushes(events)
    cont = " ".join(is_cont(block) for block in step.blocks)
    most = min(expected[0], 1) if machine.live else expected[0]
    if seen != most:
        out.append(f"{seen} flushes, expected {most}")
    if cont != expected[1]:
        out.append(f"contpte afterwards: {cont}, expected {expected[1]}")
    return out


def parse_steps(lines: list[str]) -> list[OrderStep]:
    """What the guest program printed."""
    steps: list[tuple[str, dict[tuple[str, int], list[int]]]] = []
    for line in lines:
        words = line.split()
        if line.startswith("@@ order "):
            steps.append((words[2], {}))
        elif words and words[0] in ("before", "after") and steps:
            steps[-1][1][words[0], int(words[1])] = [int(w, 16)
                                                     for w in words[2:]]
    out = []
    for name, data in steps:
        blocks = []
        for number in range(len(data) // 2):
            before = data.get(("before", number), [])
            after = data.get(("after", number), [])
            if len(before) != 17 or len(after) != 17 or before[0] != after[0]:
                raise Fail(TEST_FAILED, f"{name}: block {number} is garbled")
            blocks.append(Block(before[0], tuple(before[1:]),
                                tuple(after[1:])))
        if not blocks:
            raise Fail(TEST_FAILED, f"{name}: no entries")
        out.append(OrderStep(name, tuple(blocks)))
    return out


def parse_log(text: str) -> dict[int, list[Event]]:
    """The order log: the events of each interval that are of mprotect()."""
    out: dict[int, list[Event]] = {}
    for line in text.splitlines()[1:]:
        words = line.split("\t")
        if len(words) != 8:
            raise Fail(LOST_VM, f"a line of the order log is garbled: {line}")
        if words[6] != "-" and words[4] not in OTHERS:
            out.setdefault(int(words[6]), []).append(
                Event(words[2], int(words[3], 16),
                      -1 if words[7] == "-" else int(words[7], 16)))
    return out


def writers(kernel: kernels.Kernel) -> list[str]:
    """The functions of WRITERS that are in the kernel."""
    listing = run([f"{kernel.arch.cross}nm",
                   *(kernel.objects / path for path in WRITERS)])
    known = kernel.symbols()
    return sorted({name for name in
                   re.findall(r"^\w+ [Tt] ([\w.]+)$", listing, re.M)
                   if name in known})


@dataclass(frozen=True)
class Blocks:
    """A run of `blocks`: its steps, the events of each, the machine, and why
    it has no such blocks, if so."""
    steps: list[OrderStep]
    log: dict[int, list[Event]]
    machine: Machine
    skipped: str = ""

    def judged(self) -> Iterator[tuple[OrderStep, list[Event], list[str]]]:
        """Each step with its events and problems."""
        for number, step in enumerate(self.steps):
            events = self.log.get(number, [])
            yield step, events, problems(step, events, EXPECTED.get(step.name),
                                         self.machine)


def run_blocks(variant: Variant, kernel: kernels.Kernel, folder: Path
               ) -> Blocks:
    log = folder.with_name(folder.name + ".tsv")
    # A comma in an option of QEMU's is doubled.
    guest = boot.Guest(variant, kernel, ["blocks"], folder, timeout=900,
                       count=True, plugin_extra=f",order={log},stores="
                       + ",,".join(writers(kernel)))
    outcome = boot.need(guest.run(), f"blocks on {variant.name}")
    command = outcome.commands[0]
    machine = read_machine(
        (guest.folder / "results.txt").read_text(errors="replace"))
    if command.rc == SKIPPED:
        return Blocks([], {}, machine,
                      "; ".join(line for line in command.lines
                                if line.startswith("@@ skip")))
    if command.rc != OK:
        raise Fail(TEST_FAILED, f"blocks on {variant.name} failed "
                   f"({command.rc})", "; ".join(
                       line for line in command.lines
                       if line.startswith("@@ fail")),
                   f"logs: {rel(folder)}")
    return Blocks(parse_steps(command.lines), parse_log(log.read_text()),
                  machine)


def wrong_steps(variant: Variant, kernel: kernels.Kernel, folder: Path
                ) -> dict[str, bool]:
    """For each step that ran, whether anything is wrong with it."""
    return {step.name: bool(wrong) for step, _, wrong in
            run_blocks(variant, kernel, folder).judged()}


def orderlog(tally, base: str, chosen: list[Variant]) -> None:
    """The part of make test; `tally` is its test.Tally."""
    for variant in chosen:
        with tally.part(f"order {variant.name}"):
            if variant.arch.name != "arm64":
                tally.add(f"order {variant.name}", "SKIP",
                          "contpte blocks are arm64's")
                continue
            kernel = kernels.Kernel(base, "patched", variant.arch,
                                    variant.config, "test")
            kernels.build(kernel)
            folder = BUILD / base / variant.name / "order"
            blocks = run_blocks(variant, kernel, folder)
            if blocks.skipped:
                tally.add(f"order {variant.name}", "SKIP", blocks.skipped)
                continue
            for step, events, wrong in blocks.judged():
                tally.check(f"order {variant.name} {step.name}: "
                            f"{flushes(events)} flushes, contpte afterwards: "
                            f"{' '.join(map(is_cont, step.blocks))}",
                            not wrong, "; ".join(wrong)
                            + f" (log: {rel(folder)}.tsv)")
            for name in EXPECTED.keys() - {s.name for s in blocks.steps}:
                tally.add(f"order {variant.name} {name}", "FAIL",
                          "the step did not run")
