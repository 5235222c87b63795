# SPDX-License-Identifier: GPL-2.0
"""make report: one HTML file that shows all that was measured.

Read, for each machine that has them:
  build/<base>/<arch>-<cpu>/report/counts.tsv, by-function.tsv, metadata.json
  build/<base>/<arch>-<cpu>/report/sizes.tsv     if there (make bench W=sweep)
  build/<base>/<arch>-<cpu>/report/perf.tsv      if there (make perf)
  build/hw-bench/*.tsv, or HW=<files>            if there (scripts/hw-bench)
Written: build/report.html, with its charts (gnuplot) in it. It needs no network
and nothing beside it.
"""
from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterable, Sequence

from bench import (CLASSES, COUNTS_HEAD, FUNCTION_HEAD, PER_UNIT, SIZES_HEAD,
                   WORSE, WORSE_FEW, number, ratio)
from lib import (BAD_INPUT, BUILD, OK, SCRIPTS, USAGE, Fail, Step,
                 arch_names, get_arch, load_script, rel, run_main, variants,
                 workload_names)
from perf import HEAD as PERF_HEAD

# What has a chart for each machine; the tables have all classes.
CHARTED = ("insn", "atomic")
# Functions in a chart of where the atomics are; the rest is one bar.
TOP = 10
MEANING = {
    "insn": "kernel instructions", "atomic": "atomics",
    "tlbi": "TLB invalidations, broadcast", "tlbi_local": "local ones",
    "dsb": "DSB, ptesync", "dmb": "DMB, sync", "isb": "ISB, isync",
    "ic": "icache invalidations", "dc": "dcache cleans", "ipi": "IPIs",
    "fault": "page faults"}

# What the first tables show.
SUMMED = {("atomic",): "atomics", ("insn",): "kernel instructions",
          ("tlbi", "tlbi_local"): "TLB invalidations",
          ("dsb",): "DSB, ptesync"}

Pair = tuple[float, float]


# --- reading ------------------------------------------------------------------

def damaged(path: Path, why: str) -> Fail:
    return Fail(BAD_INPUT, f"{rel(path)} is damaged", why,
                "measure again (make bench or hw-bench), or remove it")


def read_tsv(path: Path, head: Sequence[str], numbers: Sequence[str]
             ) -> list[dict[str, str]]:
    """The rows of a whole table; whatever is cut or not a number is an error.

    The last line of a file that was cut may still look whole, but does not
    end like one."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise Fail(BAD_INPUT, f"{rel(path)} is missing",
                   todo="run `make bench` again: it writes all of them")
    except UnicodeDecodeError as error:
        raise damaged(path, f"it is not text: {error}")
    if not text:
        raise damaged(path, "it is empty")
    if not text.endswith("\n"):
        raise damaged(path, "its last line is cut")
    lines = [line.split("\t") for line in text.splitlines()]
    if lines[0] != list(head):
        raise damaged(path, f"its columns are {' '.join(lines[0])}; expected "
                      f"{' '.join(head)}")
    if len(lines) == 1:
        raise damaged(path, "it has a head line but no rows")
    rows = []
    for at, words in enumerate(lines[1:], 2):
        if len(words) != len(head):
            raise damaged(path, f"line {at} has {len(words)} of {len(head)} "
                          "columns")
        row = dict(zip(head, words))
        for name in numbers:
            if not re.fullmatch(r"\d+(\.\d+)?", row[name]):
                raise damaged(path, f"line {at}: {name} is `{row[name]}`, not "
                              "a number")
        rows.append(row)
    return rows


def pair_of(row: dict[str, str]) -> Pair:
    return float(row["stock"]), float(row["patched"])


@dataclass
class StepRow:
    """One step of a workload: how many units, and each class on both."""
    units: int
    classes: dict[str, Pair] = field(default_factory=dict)

    def shown(self, cls: str) -> Pair:
        """Per unit where that says more, else in all."""
        stock, patched = self.classes[cls]
        per = self.units if cls in PER_UNIT else 1
        return stock / per, patched / per


@dataclass
class Machine:
    """What one emulated machine has in its report folder."""
    base: str
    name: str
    main: bool
    about: str
    meta: dict
    when: float
    workloads: dict[str, dict[str, StepRow]]
    functions: dict[tuple[str, str], dict[str, Pair]]
    # workload -> step -> size in KiB
    sizes: dict[str, dict[str, dict[int, StepRow]]]

    @property
    def title(self) -> str:
        return f"{self.name}, {self.base}"

    def total(self, workload: str, classes: Sequence[str]) -> Pair:
        """All steps of a workload together."""
        pairs = [s.classes[cls] for s in self.workloads[workload].values()
                 for cls in classes]
        return sum(p[0] for p in pairs), sum(p[1] for p in pairs)


def add_step(path: Path, steps: dict, key: object, row: dict[str, str]) -> None:
    step = steps.setdefault(key, StepRow(int(row["units"])))
    if not step.units or step.units != int(row["units"]):
        raise damaged(path, f"{row['step']}: units are {row['units']}")
    if row["class"] in step.classes:
        raise damaged(path, f"{row['step']}: class {row['class']} comes twice")
    step.classes[row["class"]] = pair_of(row)


def whole(path: Path, name: str, step: StepRow) -> None:
    """bench.py writes all classes of a step, so a missing one was cut off."""
    missing = [c for c in CLASSES if c not in step.classes]
    if missing:
        raise damaged(path, f"{name} has no row for {' '.join(missing)}")


def read_machine(folder: Path, main: bool) -> Machine:
    counts = folder / "counts.tsv"
    workloads: dict[str, dict[str, StepRow]] = {}
    for row in read_tsv(counts, COUNTS_HEAD, ("units", "stock", "patched")):
        add_step(counts, workloads.setdefault(row["workload"], {}),
                 row["step"], row)
    for steps in workloads.values():
        for name, step in steps.items():
            whole(counts, name, step)

    functions: dict[tuple[str, str], dict[str, Pair]] = \
        defaultdict(lambda: defaultdict(lambda: (0.0, 0.0)))
    for row in read_tsv(folder / "by-function.tsv", FUNCTION_HEAD,
                        ("stock", "patched")):
        of = functions[row["workload"], row["class"]]
        old, new = of[row["function"]], pair_of(row)
        of[row["function"]] = old[0] + new[0], old[1] + new[1]

    sizes: dict[str, dict[str, dict[int, StepRow]]] = {}
    path = folder / "sizes.tsv"
    if path.exists():
        for row in read_tsv(path, SIZES_HEAD,
                            ("kib", "units", "stock", "patched")):
            add_step(path, sizes.setdefault(row["workload"], {})
                     .setdefault(row["step"], {}), int(row["kib"]), row)
        for steps_of in sizes.values():
            for name, by_size in steps_of.items():
                for step in by_size.values():
                    whole(path, name, step)

    path = folder / "metadata.json"
    try:
        meta = json.loads(path.read_text())
        variant = meta["variant"]
    except FileNotFoundError:
        raise Fail(BAD_INPUT, f"{rel(path)} is missing",
                   todo="run `make bench` again: it writes all of them")
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, str(error))
    conf = SCRIPTS / "arch" / f"{variant}.conf"
    about = " ".join(line[2:] for line in conf.read_text().splitlines()[1:]
                     if line.startswith("# ")) if conf.is_file() else ""
    return Machine(meta["base"], variant, main, about, meta,
                   counts.stat().st_mtime, workloads, dict(functions), sizes)


def report_folders(build: Path) -> list[tuple[Path, bool]]:
    """The report folder of every machine that has one, and whether it is the main
    one of its architecture, which comes first; ARCH=, CPU= and BASE= leave some."""
    known = {v.name: at for a in arch_names()
             for at, v in enumerate(variants(get_arch(a)))}
    arch, cpu, base = (os.environ.get(k, "").split()
                       for k in ("ARCH", "CPU", "BASE"))
    found = []
    for folder in build.glob("*/*/report"):
        name = folder.parent.name
        of_arch, _, of_cpu = name.partition("-")
        if (not arch or of_arch in arch) and (not cpu or of_cpu in cpu) \
                and (not base or folder.parent.parent.name in base):
            found.append((folder.parent.parent.name, of_arch,
                          known.get(name, len(known)), folder))
    return [(folder, at == 0) for _, _, at, folder in sorted(found)]


def find_machines(build: Path) -> list[Machine]:
    """Every machine that `make bench` has run on, so not by `make perf` alone."""
    return [read_machine(folder, main)
            for folder, main in report_folders(build)
            if [p.name for p in folder.iterdir()] != ["perf.tsv"]]


def find_perf(build: Path) -> dict[str, list[dict[str, str]]]:
    """By machine, the rows of perf.tsv."""
    found = {}
    for folder, _ in report_folders(build):
        path = folder / "perf.tsv"
        if path.exists():
            rows = read_tsv(path, PERF_HEAD, ("repeat",))
            for at, row in enumerate(rows, 2):
                for tree in ("stock", "patched"):
                    if not re.fullmatch(r"\d+(\.\d+)?|-", row[tree]):
                        raise damaged(path, f"line {at}: {tree} is "
                                      f"`{row[tree]}`, not a number or -")
            found[f"{folder.parent.name}, {folder.parent.parent.name}"] = rows
    return found


def find_hardware(build: Path, hw_bench) -> list:
    """Results of hw-bench: HW= of the user, or all that are in build/."""
    named = os.environ.get("HW", "").split()
    paths = [Path(p) for p in named] or sorted(build.glob("hw-bench/*.tsv"))
    try:
        return [hw_bench.read_result(path) for path in paths]
    except hw_bench.Stop as stop:
        raise Fail(BAD_INPUT, stop.what, stop.todo)


# --- charts -------------------------------------------------------------------

# gnuplot knows colours, the page knows which they are in the light and in the
# dark: these numbers stand for them until then.
STOCK, PATCHED, INK, FAINT, WORSE_INK = (f"'#0a000{i}'" for i in range(1, 6))
WIDTH = 440


def rows_script(names: Sequence[str], right: int) -> tuple[list[str], int]:
    """A line of 18 pixels for each name, the names at the left, room for a
    value at the right and for the axis below; and the height."""
    height = 18 * len(names) + 24
    # gnuplot cannot measure text, so it is taken to be as wide as usual.
    left = 7.4 * max(map(len, names)) + 8
    tics = ", ".join(f"{quoted(n)} {at}" for at, n in enumerate(names, 1))
    return [f"set yrange [{len(names) + .5}:.5]",
            f"set lmargin at screen {left / WIDTH:.3f}",
            f"set rmargin at screen {1 - right / WIDTH:.3f}",
            f"set tmargin at screen {1 - 2 / height:.3f}",
            f"set bmargin at screen {22 / height:.3f}",
            f"set ytics ({tics}) scale 0 textcolor rgb {INK}"], height


def quoted(text: str) -> str:
    return '"' + re.sub(r'[\\"]', "", text) + '"'


class Charts:
    """gnuplot scripts, drawn by one gnuplot at the end."""

    def __init__(self) -> None:
        self.scripts: list[str] = []
        self.alts: list[str] = []

    def add(self, script: str, height: int, alt: str, width: int = WIDTH) -> str:
        """A mark, to be replaced by the chart."""
        self.scripts.append(
            "reset\nset encoding utf8\n"
            f"set term svg size {width},{height} dynamic noenhanced "
            f"font 'sans-serif,12'\n"
            f"set tics textcolor rgb {INK} scale 0.4\n"
            f"set border 1 lc rgb {FAINT}\nunset key\n"
            "set style fill solid 1 noborder\n" + script)
        self.alts.append(alt)
        return f"@@chart {len(self.scripts) - 1}@@"

    def draw(self) -> list[str]:
        if not self.scripts:
            return []
        with tempfile.TemporaryDirectory() as tmp:
            text = "".join(f"{script.split('plot ', 1)[0]}"
                           f"set output '{tmp}/{at}.svg'\n"
                           f"plot {script.split('plot ', 1)[1]}\n"
                           for at, script in enumerate(self.scripts))
            try:
                done = subprocess.run(["gnuplot"], input=text, text=True,
                                      capture_output=True, check=False,
                                      timeout=600)
            except FileNotFoundError:
                raise Fail(USAGE, "gnuplot is missing",
                           todo="apt-get install gnuplot-nox")
            if done.returncode or done.stderr.strip():
                raise Fail(USAGE, "gnuplot failed", done.stderr.strip()[-800:])
            return [tidy_svg((Path(tmp) / f"{at}.svg").read_text(), alt)
                    for at, alt in enumerate(self.alts)]


def tidy_svg(text: str, alt: str) -> str:
    """What gnuplot wrote, for the middle of a page that has more of them: no
    identifiers of its own, and the page's colours and fonts."""
    text = re.sub(r"^<\?xml.*?\?>\s*", "", text, flags=re.S)
    text = re.sub(r"<defs>.*?</defs>|<title>.*?</title>|<desc>.*?</desc>|"
                  r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"""<rect x="0" y="0" [^>]*fill="none"/>""", "", text)
    text = re.sub(r"""\s+(id|font-family|xmlns:xlink|color|stroke-linecap|"""
                  r"""stroke-linejoin)=("[^"]*")""",
                  "", text)
    text = text.replace("xlink:href", "href")
    text = re.sub(r"rgb\(\s*10,\s*0,\s*(\d)\)", r"var(--c\1)", text)
    text = re.sub(r"""=(["'])black\1""", r"=\1currentColor\1", text)
    # Ticks of no length, and groups with nothing in them.
    text = re.sub(r"<path [^>]*d='(M[\d.,-]+\s*)+'/>", "", text)
    before = ""
    while before != text:
        before, text = text, re.sub(r"<g[^>]*>\s*</g>", "", text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    return text.replace("<svg", f'<svg role="img" aria-label="'
                        f'{html.escape(alt, quote=True)}"', 1).strip()


def points_used(svgs: Iterable[str]) -> str:
    """gnuplot's point signs that the charts refer to, once for the page."""
    if not any("#gpPt" in svg for svg in svgs):
        return ""
    return ('<svg width="0" height="0" aria-hidden="true" class="defs"><defs>'
            '<circle id="gpPt6" r="1" fill="currentColor"/>'
            '<rect id="gpPt4" x="-1" y="-1" width="2" height="2" '
            'fill="currentColor"/></defs></svg>')


def share_chart(charts: Charts, rows: list[tuple[str, Pair]], alt: str) -> str:
    """A bar a step: patched, as a share of stock, which is the pale bar behind
    it. Beyond twice the stock count the bar ends; the numbers say more."""
    data, labels = [], []
    top = 105.0
    for at, (name, (stock, patched)) in enumerate(rows, 1):
        share = 100 * patched / stock if stock else (200 if patched else 0)
        share = min(share, 200)
        top = max(top, share * 1.02)
        worse = share > 100 * (1 + WORSE)
        data.append(f"{at} {100 if stock else 0} {share:.2f} {int(worse)}")
        value = f"{number(stock)} → {number(patched)}" if stock != patched \
            else number(stock)
        labels.append(f"set label {quoted(value)} at graph 1.03, first {at} "
                      f"left textcolor rgb {WORSE_INK if worse else INK}")
    layout, height = rows_script([name for name, _ in rows], 118)
    script = "\n".join([
        "$d << E", *data, "E", *labels, *layout, f"set xrange [0:{top:.0f}]",
        "set xtics 50 format '%g%%' nomirror offset 0,0.5",
        "plot $d using (50):1:(0):2:($1-.38):($1+.38) with boxxyerror "
        f"lc rgb {STOCK}, "
        "$d using (50):1:(0):($4 > 0 ? 0 : $3):($1-.2):($1+.2) with boxxyerror "
        f"lc rgb {PATCHED}, "
        "$d using (50):1:(0):($4 > 0 ? $3 : 0):($1-.2):($1+.2) with boxxyerror "
        f"lc rgb {WORSE_INK}"])
    return charts.add(script, height, alt)


def function_chart(charts: Charts, rows: list[tuple[str, Pair]], alt: str
                   ) -> str:
    """Two bars a function, on one scale, its name above them."""
    data, labels = [], []
    most = max(max(pair) for _, pair in rows)
    for at, (name, (stock, patched)) in enumerate(rows, 1):
        data.append(f"{at} {stock:.0f} {patched:.0f}")
        value = f"{number(stock)} → {number(patched)}" if stock != patched \
            else f"{number(stock)} ="
        labels.append(f"set label {quoted(name)} at graph 0, first {at - .37} "
                      f"left textcolor rgb {INK}")
        labels.append(f"set label {quoted(value)} at graph 1.02, first "
                      f"{at + .12} left textcolor rgb {INK}")
    script = "\n".join([
        "$d << E", *data, "E", *labels, f"set yrange [{len(rows) + .42}:.4]",
        f"set xrange [0:{most or 1}]", "set lmargin 0.5", "set rmargin 19",
        "set tmargin 0.2", "set bmargin 0.4", "unset xtics", "unset ytics",
        "unset border",
        "plot $d using ($2/2):1:(0):2:($1-.1):($1+.12) with boxxyerror "
        f"lc rgb {STOCK}, "
        "$d using ($3/2):1:(0):3:($1+.12):($1+.34) with boxxyerror "
        f"lc rgb {PATCHED}"])
    return charts.add(script, 40 * len(rows) + 8, alt)


def size_name(kib: int) -> str:
    """4 KiB, 40 KiB, 4 MiB, 1 GiB"""
    for unit in ("KiB", "MiB"):
        if kib % 1024:
            return f"{kib} {unit}"
        kib //= 1024
    return f"{kib} GiB"


def size_chart(charts: Charts, by_size: dict[int, StepRow], cls: str, alt: str
               ) -> str:
    """Cost per unit against the size of the region, both axes logarithmic. A
    zero has no place there and is left out; the table has it."""
    data = []
    for size, step in sorted(by_size.items()):
        stock, patched = (v / step.units for v in step.classes[cls])
        data.append(f"{size} {stock or 'NaN'} {patched or 'NaN'}")
    if all(line.endswith("NaN NaN") for line in data):
        return ""
    script = "\n".join([
        "$d << E", *data, "E", "set logscale xy", "set datafile missing 'NaN'",
        f"set grid lc rgb {FAINT} lw 0.5", "set lmargin 7", "set rmargin 2",
        "set tmargin 0.5", "set bmargin 3",
        f"set xlabel 'size of the region' textcolor rgb {INK} offset 0,0.6",
        f"set border 3 lc rgb {FAINT}",
        "set xtics (" + ", ".join(
            f"'{size_name(s).replace(' ', '').removesuffix('iB')}' {s}"
            for s in sorted(by_size))
        + ") nomirror", "set ytics nomirror", "set format y '%g'",
        f"plot $d using 1:2 with linespoints lw 1.5 pt 5 ps 0.8 lc rgb {INK}, "
        f"$d using 1:3 with linespoints lw 2 pt 7 ps 0.8 lc rgb {PATCHED}"])
    return charts.add(script, 210, alt, 300)


def ratio_chart(charts: Charts, rows: list, alt: str) -> str:
    """What hw-bench found: each step's ratio with its interval."""
    data, labels = [], []
    low, high = 0.95, 1.05
    for at, row in enumerate(rows, 1):
        data.append(f"{at} {row.ratio} {row.low} {row.high} "
                    f"{0 if not row.differs else 1 if row.ratio < 1 else 2}")
        labels.append(f"set label {quoted(f'{100 * (row.ratio - 1):+.1f} %')} "
                      f"at graph 1.03, first {at} left textcolor rgb {INK}")
        low, high = min(low, row.low), max(high, row.high)
    layout, height = rows_script([row.step for row in rows], 64)
    # A wide interval of one step must not flatten the others.
    low, high = max(low, 0.2), min(high, 2.0)
    script = "\n".join([
        "$d << E", *data, "E", *labels, *layout,
        f"set xrange [{low - .01}:{high + .01}]",
        "set xtics nomirror format '%.2f' offset 0,0.5",
        f"set arrow from 1, graph 0 to 1, graph 1 nohead lc rgb {FAINT}",
        "plot "
        + ", ".join(f"$d using ($5 == {k} ? $2 : 1/0):1:3:4 with xerrorbars "
                    f"pt 7 ps 0.8 lw 1.5 lc rgb {colour}" for k, colour in
                    enumerate((INK, PATCHED, WORSE_INK)))])
    return charts.add(script, height, alt)


# --- the page -----------------------------------------------------------------

def esc(text: object) -> str:
    return html.escape(str(text))


def slug(*words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")


def table(head: Sequence[str], rows: Iterable[Sequence[str]],
          caption: str = "") -> str:
    """Cells are HTML. The first column names the row."""
    out = ['<div class="scroll"><table>']
    if caption:
        out.append(f"<caption>{esc(caption)}</caption>")
    out.append("<thead><tr>" + "".join(f'<th scope="col">{cell}</th>'
                                       for cell in head) + "</tr></thead>")
    out.append("<tbody>")
    for row in rows:
        out.append(f'<tr><th scope="row">{row[0]}</th>'
                   + "".join(f"<td>{cell}</td>" for cell in row[1:])
                   + "</tr>")
    out.append("</tbody></table></div>")
    return "\n".join(out)


def is_worse(counts: Pair) -> bool:
    """As bench.py has it: more than an interrupt can make."""
    stock, patched = counts
    return patched > stock * (1 + WORSE) and patched - stock > WORSE_FEW


def cell(shown: Pair, counts: Pair) -> str:
    """`stock → patched ×ratio`; a sign, not only a colour, where it is worse.
    One number where they are as good as equal."""
    stock, patched = shown
    if not stock and not patched:
        return '<span class="nil">0</span>'
    if stock and abs(patched / stock - 1) < WORSE:
        return number(stock)
    kind, sign = ("worse", " ▲") if is_worse(counts) else \
        ("better", "") if patched < stock * (1 - WORSE) else ("", "")
    return (f"{number(stock)} → {number(patched)} "
            f'<b class="{kind}">{ratio(stock, patched).replace("x", "×")}'
            f"{sign}</b>")


def share(pair: Pair) -> str:
    stock, patched = pair
    if not stock and not patched:
        return '<span class="nil">0</span>'
    if not stock:
        return f'<b class="worse">new: {number(patched)} ▲</b>'
    percent = 100 * (patched / stock - 1)
    if abs(percent) < 0.05:
        return "="
    kind, sign = ("worse", " ▲") if is_worse(pair) else \
        ("better", "") if percent <= -100 * WORSE else ("", "")
    return f'<b class="{kind}">{percent:+.1f} %{sign}</b>'.replace("-", "−")


def folded(title: str, body: str, is_open: bool) -> str:
    return (f"<details{' open' if is_open else ''}><summary>{title}</summary>"
            f"{body}</details>")


def figure(mark: str, caption: str) -> str:
    return f"<figure><figcaption>{esc(caption)}</figcaption>{mark}</figure>" \
        if mark else ""


def workload_about(name: str) -> str:
    path = SCRIPTS / "workloads" / f"{name}.c"
    return path.read_text().splitlines()[1].lstrip("/ ") \
        if path.is_file() else ""


def order_of_workloads(machines: list[Machine]) -> list[str]:
    seen = {w for m in machines for w in m.workloads}
    known = [w for w in workload_names() if w in seen]
    return known + sorted(seen - set(known))


def summary(machines: list[Machine]) -> str:
    """The first thing to see: per workload and machine, what became of the
    instructions and the atomics."""
    parts = []
    for classes, title in SUMMED.items():
        rows = []
        for workload in order_of_workloads(machines):
            rows.append([f'<a href="#w-{slug(workload)}">{esc(workload)}</a>']
                        + [share(m.total(workload, classes))
                           if workload in m.workloads else "–"
                           for m in machines])
        if any(m.total(w, classes) != (0, 0) for m in machines
               for w in m.workloads):
            parts.append(table(
                [esc(title)] + [esc(m.name) for m in machines], rows))
    return "\n".join(parts)


def worse_list(machines: list[Machine]) -> str:
    """Where the patched kernel does more: nobody should have to look for it."""
    rows = []
    for m in machines:
        for workload, steps in m.workloads.items():
            for name, step in steps.items():
                for cls, pair in step.classes.items():
                    if is_worse(pair):
                        rows.append([esc(name), esc(m.name), esc(cls),
                                     number(pair[0]), number(pair[1]),
                                     f"{(pair[1] - pair[0]) / step.units:+.2f}"
                                     ])
    if not rows:
        return ("<p>In no class of any step does the patched kernel do more "
                f"than the stock one (by more than {WORSE:.1%} and more than "
                f"{WORSE_FEW} operations, which is what one interrupt "
                "makes).</p>")
    return table(["step", "machine", "class", "stock", "patched", "per unit"],
                 rows)


def ran_on(machines: list[Machine]) -> str:
    rows = []
    for m in machines:
        rows.append([
            esc(m.name), esc(m.about), esc(f"Linux {m.meta.get('source', '?')}"),
            esc(f"{len(m.meta.get('series', []))} patches, "
                f"{str(m.meta.get('series_id', '?'))[:12]}"),
            esc(m.meta.get("qemu", "?")), esc(m.meta.get("compiler", "?")),
            time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(m.when))])
    return table(["machine", "what it is", "stock kernel", "series", "emulator",
                  "compiler", "counted"], rows)


def workload_section(charts: Charts, machines: list[Machine], workload: str
                     ) -> str:
    parts = [f'<section id="w-{slug(workload)}"><h3>{esc(workload)}</h3>'
             f"<p>{esc(workload_about(workload))}.</p>"]
    for m in machines:
        steps = m.workloads.get(workload)
        if not steps:
            continue
        figures = []
        for cls in CHARTED:
            rows = [(name, step.shown(cls)) for name, step in steps.items()]
            if any(pair != (0, 0) for _, pair in rows):
                caption = f"{MEANING[cls]} per unit, {m.name}"
                figures.append(figure(share_chart(
                    charts, rows, f"{workload}: {caption}, patched as a share "
                    "of stock"), caption))
        columns = [c for c in CLASSES
                   if any(s.classes[c] != (0, 0) for s in steps.values())]
        body = f'<div class="charts">{"".join(figures)}</div>' + table(
            ["step", "units"] + [esc(c + ("/u" if c in PER_UNIT else ""))
                                 for c in columns],
            [[esc(name), str(step.units)]
             + [cell(step.shown(c), step.classes[c]) for c in columns]
             for name, step in steps.items()])
        parts.append(folded(esc(m.title), body, m.main))
    return "\n".join(parts) + "</section>"


def size_section(charts: Charts, machines: list[Machine]) -> str:
    parts = []
    for m in machines:
        for workload, steps in m.sizes.items():
            steps = {n: s for n, s in steps.items() if len(s) > 1}
            if not steps:
                continue
            body = []
            for cls in CHARTED:
                figures = [figure(size_chart(
                    charts, by_size, cls, f"{name} on {m.name}: {MEANING[cls]} "
                    "per unit against region size"), name)
                    for name, by_size in steps.items()]
                if any(figures):
                    body.append(f"<h4>{esc(MEANING[cls])} per unit</h4>"
                                f'<div class="charts small">{"".join(figures)}'
                                "</div>")
            rows = []
            sizes = sorted({s for by_size in steps.values() for s in by_size})
            for name, by_size in steps.items():
                for cls in CHARTED:
                    row = [f"{esc(name)}, {cls}/u"]
                    for size in sizes:
                        step = by_size.get(size)
                        row.append(cell((step.classes[cls][0] / step.units,
                                         step.classes[cls][1] / step.units),
                                        step.classes[cls]) if step else "–")
                    rows.append(row)
            body.append(table(["step"] + [size_name(s) for s in sizes], rows))
            parts.append(folded(f"{esc(workload)}, {esc(m.title)}",
                                "".join(body), m.main))
    if not parts:
        return ("<p>Not measured yet. <code>make bench W=sweep</code> does "
                "it.</p>")
    return "\n".join(parts)


def top_functions(of: dict[str, Pair]) -> list[tuple[str, Pair]]:
    """The functions that matter most in either kernel, and the rest as one."""
    named = {n: p for n, p in of.items() if not n.startswith("(")}
    rows = sorted(named.items(), key=lambda x: (-max(x[1]), x[0]))
    top, rest = rows[:TOP], rows[TOP:]
    if rest:
        top.append((f"{len(rest)} others",
                    (sum(p[0] for _, p in rest), sum(p[1] for _, p in rest))))
    return [row for row in top if row[1] != (0, 0)]


def function_section(charts: Charts, machines: list[Machine]) -> str:
    parts = []
    for workload in order_of_workloads(machines):
        figures, others = [], []
        for m in machines:
            of = m.functions.get((workload, "atomic"))
            rows = top_functions(of) if of else []
            if not rows:
                continue
            caption = f"atomics of {workload} on {m.name}, all steps"
            one = figure(function_chart(charts, rows, caption
                                        + ", by function"), caption)
            (figures if m.main else others).append(one)
        if not figures and not others:
            continue
        body = f'<div class="charts">{"".join(figures)}</div>'
        if others:
            body += folded("other machines", '<div class="charts">'
                           + "".join(others) + "</div>", False)
        parts.append(f"<h3>{esc(workload)}</h3>{body}")
    return "\n".join(parts)


def perf_section(machines: dict[str, list[dict[str, str]]]) -> str:
    """What perf counted: a column for each event of the side by side, a line for
    each event that has a known number."""
    def shown(row: dict[str, str]) -> str:
        if "-" in (row["stock"], row["patched"]):
            return f'<span title="{esc(row["why"])}">–</span>'
        return cell(pair_of(row), pair_of(row))

    parts = []
    for title, rows in machines.items():
        many = [row for row in rows if row["repeat"] != "1"]
        events = list(dict.fromkeys(
            row["event"] for row in many
            if (row["stock"], row["patched"]) != ("0", "0")))
        by_run: dict[str, dict[str, str]] = defaultdict(dict)
        for row in many:
            by_run[row["run"]][row["event"]] = shown(row)
        known = [[esc(row["run"]), esc(row["event"]), row["stock"],
                  row["patched"]] for row in rows if row["repeat"] == "1"]
        body = table(["run", *map(esc, events)],
                     [[esc(run), *(of.get(event, "–") for event in events)]
                      for run, of in by_run.items()]) if by_run else ""
        if known:
            body += table(["known amount of work", "event", "stock", "patched"],
                          known)
        parts.append(folded(esc(title), body, not parts))
    return "\n".join(parts) or ("<p>Not measured yet. <code>make perf</code> "
                                "does it.</p>")


def hardware_section(charts: Charts, results: list, hw_bench) -> str:
    if not results:
        return ("<p>No results of <code>scripts/hw-bench</code> were found. "
                "Nothing on this page says anything about time until there "
                "are.</p>")
    parts = []
    by_machine: dict[str, list] = defaultdict(list)
    for result in results:
        by_machine[result.machine].append(result)
    for machine, group in sorted(by_machine.items()):
        sides: dict[str, list] = defaultdict(list)
        for result in group:
            sides[result.label].append(result)
        labels = sorted(sides, key=lambda name: (name != "stock", name))
        body = [table(
            ["file", "label", "kernel", "runs", "CPU", "settings", "when"],
            [[esc(r.path.name), esc(r.label), esc(r.meta["kernel"]),
              str(r.meta["runs"]), str(r.meta["cpu"]),
              esc(r.meta["settings"]), esc(r.meta["when"])] for r in group])]
        body.append("<p>" + "<br>".join(
            esc(line) for line in group[0].meta["applies"]) + "</p>")
        for label in labels:
            rows = [[esc(s.step), f"{s.median:.1f}",
                     f"{s.low:.1f} to {s.high:.1f}",
                     f"{100 * s.spread:.1f} %", str(s.n)]
                    for s in hw_bench.summarise(sides[label])]
            body.append(folded(f"{esc(label)}: ns per unit", table(
                ["step", "median", "95 % interval", "spread", "samples"],
                rows), False))
        for label in labels[1:]:
            compared = hw_bench.compare(sides[labels[0]], sides[label])
            if compared.rows:
                caption = f"time of {label} over {labels[0]}, per step"
                body.append(
                    f'<div class="charts wide">'
                    + figure(ratio_chart(charts, compared.rows,
                                         caption), caption) + "</div>")
            body.append(f"<p>{esc(compared.verdict)}</p><p>"
                        f"{esc(hw_bench.METHOD)}</p>")
        parts.append(f"<h3>{esc(machine)}</h3>" + "".join(body))
    return "\n".join(parts)


def page(machines: list[Machine], perf: dict[str, list[dict[str, str]]],
         hardware: list, hw_bench) -> str:
    """The whole document."""
    charts = Charts()
    sections = {
        "summary": summary(machines),
        "worse": worse_list(machines),
        "ran": ran_on(machines),
        "workloads": "\n".join(workload_section(charts, machines, w)
                               for w in order_of_workloads(machines)),
        "sizes": size_section(charts, machines),
        "functions": function_section(charts, machines),
        "perf": perf_section(perf),
        "hardware": hardware_section(charts, hardware, hw_bench),
        "links": " ".join(f'<a href="#w-{slug(w)}">{esc(w)}</a>'
                          for w in order_of_workloads(machines)),
        "classes": ", ".join(f"<b>{c}</b> {MEANING[c]}" for c in CLASSES)}
    step = Step(f"{len(charts.scripts)} charts")
    svgs = charts.draw()
    step.done()
    sections["defs"] = points_used(svgs)
    text = (SCRIPTS / "templates" / "report.html").read_text()
    for name, body in sections.items():
        text = text.replace(f"@{name.upper()}@", body)
    return re.sub(r"@@chart (\d+)@@", lambda m: svgs[int(m[1])], text)


def main() -> int:
    hw_bench = load_script("hw-bench")
    machines, perf = find_machines(BUILD), find_perf(BUILD)
    hardware = find_hardware(BUILD, hw_bench)
    if not machines and not perf and not hardware:
        raise Fail(BAD_INPUT, "there is nothing to report", f"no "
                   f"{rel(BUILD)}/<base>/<arch>-<cpu>/report/ for these ARCH=, "
                   "CPU= and BASE=", "run `make bench`, or scripts/hw-bench on "
                   "a real machine and give its files as HW=")
    out = BUILD / "report.html"
    text = page(machines, perf, hardware, hw_bench)
    part = out.with_suffix(".part")
    part.write_text(text)
    part.replace(out)
    print(f"{rel(out)}: {len(machines)} machines, {len(perf)} with perf, "
          f"{len(hardware)} results of real hardware, {len(text) // 1024} KiB; "
          "open it in any browser")
    return OK


if __name__ == "__main__":
    sys.path.insert(0, str(SCRIPTS))
    run_main(main)
