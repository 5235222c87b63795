# SPDX-License-Identifier: GPL-2.0
"""From what init printed of KUnit to verdicts, by the kernel's own parser.

The parser reads one document with one root; each suite's results file is a
document of its own, and several of them in a row lose all but the first. So
a root is written around them, and what was parsed is compared with what was
loaded: a suite that vanished is a failure.
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lib import TEST_FAILED, Fail, rel


@dataclass(frozen=True)
class Case:
    """One KUnit case's verdict: PASS, FAIL or SKIP."""
    suite: str
    name: str
    status: str
    why: str = ""


def split_suites(lines: list[str]) -> tuple[dict[str, list[str]],
                                            dict[str, str]]:
    """What init's `kunit` printed: results by suite, load errors by module."""
    suites: dict[str, list[str]] = {}
    loads: dict[str, str] = {}
    current: list[str] | None = None
    for line in lines:
        if line.startswith("@@ suite "):
            current = suites[line[9:]] = []
        elif match := re.match(r"@@ load (\S+) (.*)", line):
            loads[match[1]] = match[2]
        elif current is not None:
            current.append(line)
    return suites, loads


def root_document(suites: dict[str, list[str]]) -> str:
    """One KTAP document of several suites' results files."""
    out = ["KTAP version 1", f"1..{len(suites)}"]
    for number, (name, lines) in enumerate(suites.items(), 1):
        body = list(lines)
        # A results file starts with its own version line and plan `1..1`.
        if body[:1] == ["KTAP version 1"]:
            body = body[1:]
        if body[:1] == ["1..1"]:
            body = body[1:]
        seen = False
        for i, line in enumerate(body):
            if match := re.match(r"(ok|not ok) \d+ (.*)$", line):
                body[i] = f"{match[1]} {number} {match[2]}"
                seen = True
        if not seen:
            # The suite did not end: say so instead of leaving a gap.
            body.append(f"not ok {number} {name}")
        out += body
    return "\n".join(out) + "\n"


def reasons(lines: list[str]) -> dict[str, str]:
    """The diagnostic lines before each failed case, the reason of a skip."""
    found: dict[str, str] = {}
    notes: list[str] = []
    for line in lines:
        if match := re.match(r"\s+(ok|not ok) \d+ (\S+)(?: # SKIP (.*))?",
                             line):
            if match[3]:
                found[match[2]] = match[3]
            elif match[1] == "not ok":
                found[match[2]] = " ".join(notes)[-300:]
            notes = []
        elif line.strip().startswith("# "):
            notes.append(line.strip()[2:])
    return found


def parse(lines: list[str], modules: list[str], kernel_source: Path,
          folder: Path) -> list[Case]:
    """Verdicts of all cases; modules are the suites' .ko names expected."""
    suites, loads = split_suites(lines)
    cases = [Case(name, "load", "FAIL", loads.get(name, "was not loaded"))
             for name in modules if loads.get(name) != "ok"]
    document = folder / "kunit.ktap"
    document.write_text(root_document(suites))
    out = folder / "kunit.json"
    tool = kernel_source / "tools/testing/kunit/kunit.py"
    done = subprocess.run(
        [sys.executable, str(tool), "parse", f"--json={out.resolve()}",
         str(document.resolve())], text=True, capture_output=True, check=False)
    (folder / "kunit.txt").write_text(done.stdout + done.stderr)
    if not out.is_file():
        raise Fail(TEST_FAILED, "kunit.py could not parse the results",
                   done.stderr[-500:], f"see {rel(document)}")
    parsed = json.loads(out.read_text())
    groups = parsed.get("sub_groups", [])
    if len(groups) != len(suites) or len(suites) < len(modules):
        cases.append(Case("(suites)", "count", "FAIL",
                          f"{len(modules)} modules, {len(suites)} suites "
                          f"printed, {len(groups)} parsed"))
    for name in suites.keys() - {group["name"] for group in groups}:
        cases.append(Case(name, "(suite)", "FAIL", "it ran no case"))
    for group in groups:
        why = reasons(suites.get(group["name"], []))
        for name, status in walk(group) or [("(suite)", "no case")]:
            verdict = status if status in ("PASS", "SKIP") else "FAIL"
            cases.append(Case(group["name"], name, verdict,
                              why.get(name, "" if verdict == "PASS"
                                      else status)))
    return cases


def walk(group: dict) -> list[tuple[str, str]]:
    """(case, status) of a suite; a parametrised case counts as one."""
    found = [(t["name"], t["status"]) for t in group.get("test_cases", [])]
    for sub in group.get("sub_groups", []):
        statuses = {s for _, s in walk(sub)} or {"FAIL"}
        found.append((sub["name"],
                      "FAIL" if statuses - {"PASS", "SKIP"} else
                      "SKIP" if statuses == {"SKIP"} else "PASS"))
    return found
