# SPDX-License-Identifier: GPL-2.0
"""Fill in what Documentation/correctness.rst can derive, patch by patch.

  correctness.py    the lines `:litmus:`, `:tests:` and `:mutants:` below each
                    patch: the litmus tests and mutants that name it (Patch:),
                    and what kills these mutants (Killed-by:)

The rest of the page is written by hand. scripts/tests/test_litmus.py fails if
the page is not up to date.
"""
from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from pathlib import Path

from lib import OK, ROOT, SCRIPTS, rel, run_main

PAGE = ROOT / "Documentation" / "correctness.rst"
# A patch's title, and the block of derived lines at the end of its text.
TITLE = re.compile(r"^(\S.*: .+)\n-+\n", re.M)
DERIVED = re.compile(r"^:litmus:.*\n(?:[: \t].*\n)*", re.M)


def short(test: str) -> str:
    """`kunit pteopt_<suite> [case]` becomes `<suite>[.case]`; how often a
    stress program goes round does not matter here."""
    kunit = re.fullmatch(r"kunit pteopt_(\S+)(?: (\S+))?", test)
    if kunit:
        return ".".join(filter(None, kunit.groups()))
    return re.sub(r" --rounds=\S+", "", test)


def by_patch() -> dict[str, dict[str, list[str]]]:
    """What names each patch: {subject: {"litmus": [...], ...}}."""
    found: dict[str, dict[str, list[str]]] = defaultdict(
        lambda: defaultdict(list))

    def add(path: Path, field: str, line: str) -> list[str]:
        head = re.split(r"^(?: \*\)|---)$", path.read_text(), maxsplit=1,
                        flags=re.M)[0]
        subjects = re.findall(rf"^{line}Patch: (.+?)\s*$", head, re.M)
        for subject in subjects:
            found[subject][field].append(path.stem)
            for test in re.findall(r"^Killed-by: (.+?)\s*$", head, re.M):
                found[subject]["tests"].append(short(test))
        return subjects

    for path in sorted((ROOT / "Documentation/litmus-tests").glob("*.litmus")):
        add(path, "litmus", r" \* ")
    for path in sorted((SCRIPTS / "mutants").glob("*.patch")):
        add(path, "mutants", "")
    return found


def derived(found: dict[str, list[str]]) -> str:
    """The three lines of one patch."""
    lines = []
    for name in ("litmus", "tests", "mutants"):
        values = sorted(set(found.get(name, []))) or ["none"]
        # No line ends within a value.
        text = ", ".join(v.replace(" ", "\0") for v in values)
        lines += textwrap.wrap(f":{name}: {text}", 79, subsequent_indent="\t",
                               break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ") + "\n"


def filled(page: str) -> str:
    """The page with its derived lines as they have to be."""
    found = by_patch()
    parts = TITLE.split(page)
    out = [parts[0]]
    for title, text in zip(parts[1::2], parts[2::2]):
        out += [f"{title}\n{'-' * len(title)}\n",
                DERIVED.sub(lambda _: derived(found[title]), text)]
    return "".join(out)


def main() -> int:
    page = PAGE.read_text()
    new = filled(page)
    PAGE.write_text(new)
    print(f"{rel(PAGE)}: {'was up to date' if new == page else 'updated'}")
    return OK


if __name__ == "__main__":
    run_main(main)
