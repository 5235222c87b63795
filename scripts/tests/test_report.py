# SPDX-License-Identifier: GPL-2.0
"""The report: what it refuses, and what it says."""
from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock

import bench
import lib
import report


def counts(workload: str = "fork", step: str = "fork1/4k", units: int = 1000,
           kib: str = "", **values: tuple[int, int]) -> list[list[str]]:
    """The rows of one step, all classes."""
    rows = []
    for cls in bench.CLASSES:
        stock, patched = values.get(cls, (0, 0))
        rows.append(["6.12", "arm64", "max", workload, step]
                    + ([kib] if kib else [])
                    + [str(units), cls, str(stock), str(patched)])
    return rows


def tsv(head: list[str], rows: list[list[str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in [head, *rows])


class Wellformed(HTMLParser):
    """Every element is closed in its order, and identifiers are unique."""
    VOID = {"meta", "link", "br", "path", "polygon", "use", "rect", "circle",
            "line", "polyline", "stop"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.wrong: list[str] = []

    def handle_startendtag(self, tag, attrs):
        self.look(attrs)

    def handle_starttag(self, tag, attrs):
        self.look(attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def look(self, attrs):
        for key, value in attrs:
            if key == "id":
                self.ids.append(value)
            if key in ("href", "src"):
                self.references.append(value)

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


class Folder(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.build = Path(tmp.name)
        self.home = self.build / "6.12" / "arm64-max" / "report"
        self.home.mkdir(parents=True)
        self.put()

    def put(self, rows=None, functions=None):
        (self.home / "counts.tsv").write_text(tsv(
            bench.COUNTS_HEAD, rows or counts(insn=(114000, 38000),
                                              atomic=(7000, 5000))))
        (self.home / "by-function.tsv").write_text(tsv(
            bench.FUNCTION_HEAD, functions or [
                ["6.12", "arm64", "max", "fork", "fork1/4k", "atomic",
                 "copy_pte_range/<b>", "2000", "9"]]))
        (self.home / "metadata.json").write_text(json.dumps(
            {"base": "6.12", "variant": "arm64-max", "series": ["a", "b"]}))

    def make(self, **env: str) -> str:
        """Run main(); the page."""
        with mock.patch.object(report, "BUILD", self.build), \
                mock.patch.dict(os.environ, env), \
                contextlib.redirect_stdout(io.StringIO()) as said, \
                contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(report.main(), lib.OK)
        self.assertIn("report.html", said.getvalue())
        return (self.build / "report.html").read_text()


class Refused(Folder):
    def refused(self, *words: str, **env: str):
        with mock.patch.object(report, "BUILD", self.build), \
                mock.patch.dict(os.environ, env), \
                self.assertRaises(lib.Fail) as caught:
            report.main()
        self.assertEqual(caught.exception.code, lib.BAD_INPUT)
        for word in words:
            self.assertIn(word, f"{caught.exception.what} "
                                f"{caught.exception.why} "
                                f"{caught.exception.todo}")
        self.assertFalse((self.build / "report.html").exists())

    def test_nothing_measured(self):
        shutil.rmtree(self.home)
        self.refused("nothing to report", "make bench")

    def test_missing_file_is_named(self):
        for name in ("counts.tsv", "by-function.tsv", "metadata.json"):
            self.put()
            (self.home / name).unlink()
            self.refused(name, "missing")

    def test_empty_file(self):
        (self.home / "counts.tsv").write_text("")
        self.refused("counts.tsv", "empty")

    def test_head_only(self):
        (self.home / "by-function.tsv").write_text(
            tsv(bench.FUNCTION_HEAD, []))
        self.refused("by-function.tsv", "no rows")

    def test_every_cut_is_seen(self):
        """Wherever the file ends, not as a whole: it is refused."""
        path = self.home / "counts.tsv"
        whole = path.read_text()
        for length in range(len(whole)):
            path.write_text(whole[:length])
            with self.assertRaises(lib.Fail) as caught:
                report.read_machine(self.home, True)
            self.assertEqual(caught.exception.code, lib.BAD_INPUT)

    def test_row_with_a_word_for_a_number_names_the_line(self):
        path = self.home / "counts.tsv"
        path.write_text(path.read_text().replace("114000", "114k"))
        self.refused("line 2", "stock is `114k`")

    def test_row_twice(self):
        rows = counts(insn=(2, 1))
        self.put(rows + rows)
        self.refused("comes twice")

    def test_damaged_metadata(self):
        (self.home / "metadata.json").write_text("{")
        self.refused("metadata.json", "damaged")

    def test_damaged_sizes_are_not_ignored(self):
        (self.home / "sizes.tsv").write_text("x\n")
        self.refused("sizes.tsv")

    def test_damaged_perf_is_not_ignored(self):
        for row in (["fork", "page-faults", "3", "7", "x", "0", "0", "-"],
                    ["fork", "page-faults", "3", "7", "8", "0"]):
            (self.home / "perf.tsv").write_text(tsv(
                report.PERF_HEAD, [["6.12", "arm64", "max", *row]]))
            self.refused("perf.tsv", "line 2")

    def test_hardware_file_that_is_not_there(self):
        self.refused("none.tsv", HW=str(self.build / "none.tsv"))


@unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
class Page(Folder):
    def test_self_contained_and_well_formed(self):
        (self.home / "sizes.tsv").write_text(tsv(
            bench.SIZES_HEAD, [row for kib in (4, 400, 4096, 1 << 20)
                               for row in counts(
                step="toggle/4k", units=kib // 4, kib=str(kib),
                insn=(10 * kib + 900, 4 * kib + 800))]))
        text = self.make()
        for size in ("4 KiB", "400 KiB", "4 MiB", "1 GiB"):
            self.assertIn(f'<th scope="col">{size}</th>', text)
        page = Wellformed()
        page.feed(text)
        self.assertEqual((page.open, page.wrong), ([], []))
        self.assertEqual(len(page.ids), len(set(page.ids)))
        for reference in page.references:
            self.assertRegex(reference, "^#")
            self.assertIn(reference[1:], page.ids)
        self.assertNotRegex(text, r"@@|@[A-Z]{3}|url\(|@import|src=")
        # Two of the workload, one of the functions, one of the sizes.
        self.assertEqual(text.count("<svg role"), 4)

    def test_charts_have_the_page_s_colours_only(self):
        svgs = re.findall(r"<svg role.*?</svg>", self.make(), re.S)
        self.assertTrue(svgs)
        for svg in svgs:
            self.assertIn("var(--c2)", svg)
            for colour in re.findall(r"(?:fill|stroke|color)\s*=\s*[\"']"
                                     r"([^\"']+)", svg):
                self.assertRegex(colour, r"^(none|currentColor|var\(--c\d\))$")

    def test_numbers_and_names(self):
        text = self.make()
        self.assertIn("114 → 38.0", text)
        self.assertIn("×0.33", text)
        self.assertIn("copy_pte_range/&lt;b", text)
        self.assertIn("−66.7 %", text)

    def test_worse_is_shown_and_marked(self):
        self.put(counts(insn=(100000, 120000)))
        text = self.make()
        self.assertIn('<b class="worse">+20.0 % ▲</b>', text)
        self.assertNotIn("In no class of any step", text)

    def test_nothing_worse_is_said_too(self):
        self.assertIn("In no class of any step", self.make())

    def test_perf_is_shown_also_if_there_is_nothing_else(self):
        (self.home / "perf.tsv").write_text(tsv(report.PERF_HEAD, [
            ["6.12", "arm64", "max", *row.split()] for row in (
                "fork page-faults 3 6377 4378 0.01 0.02 -",
                "fork instructions:k 3 - - 0 0 unsupported",
                "known-fork sched:x 1 25 26 0 0 -")]))
        for _ in range(2):
            text = self.make()
            for word in ("6377 → 4378", "instructions:k", "unsupported",
                         "<td>25</td><td>26</td>"):
                self.assertIn(word, text)
            for name in ("counts.tsv", "by-function.tsv", "metadata.json"):
                (self.home / name).unlink(missing_ok=True)

    def test_machines_can_be_chosen(self):
        other = self.build / "6.12" / "powerpc-power9"
        shutil.copytree(self.home, other / "report")
        meta = other / "report" / "metadata.json"
        meta.write_text(meta.read_text().replace("arm64-max",
                                                 "powerpc-power9"))
        self.assertIn("powerpc-power9, 6.12", self.make())
        self.assertNotIn("powerpc-power9, 6.12", self.make(ARCH="arm64"))


if __name__ == "__main__":
    unittest.main()
