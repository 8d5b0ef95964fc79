"""Makes the page of a run of bench.py: docs/benchmarks/index.md, its figures, and its data.

    python3 benches/page.py [target/bench/bench.json] [docs/benchmarks]

Every figure and table of the page is from the run. The data are rounded to four digits; the page
can be made again from them: `python3 benches/page.py docs/benchmarks/bench.json`.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
import report
from placement_peers import (
    BEHIND,
    TABLE_CALLS,
    TABLE_SIZES,
    TOLERANCES,
    TOO_LONG_US,
    behind,
    best,
    cell,
)
from report import MARKS, number, table

ROOT = Path(__file__).resolve().parents[1]
DIGITS = 4
Data = dict[str, Any]
Row = dict[str, Any]
Lines = list[str]

# The fields that the page shows, of parts that measure more.
FIELDS = {
    "points": ("op", "dtype", "kind", "n", "ran", "results"),
    "sweep": ("op", "kind", "n", "results"),
    "libraries": ("call", "dtype", "n", "us", "failures", "ran"),
    "kernels": ("kernel", "GB/s", "of ceiling", "ceiling"),
}
OF_RESULTS = ("median_us", "low_us", "high_us")
LEFT_OUT = ("name", "system", "library", "output")
# Paragraphs of the page.
ABOUT = """
Times are medians. Contenders take turns in batches of calls of 2 ms, in random order. gpuvec's sums
are exact and its functions correctly rounded; those of the other libraries are neither. [What was
missed](#what-was-missed) is listed near the end, and the commands that [repeat the
run](#repeat-the-run) after it.
"""
ON_LIBRARIES = f"""
The Python package with `out=` and no setting, on `float32` arrays in ordinary memory. The times of
CuPy and PyTorch on the GPU include the copies to and from it. A library whose call takes longer
than {TOO_LONG_US / 1e6:g} s is left out at greater lengths, and so is a result that differs by more
than {TOLERANCES["f32"][0]:g} of its value.
"""
ON_CELLS = """
Each cell has gpuvec's time, and the fastest other library's time divided by it: above 1, gpuvec is
faster.
"""
ON_PLACEMENTS = """
Calls from C under each placement. Auto, the default, takes the cores, the GPU or both, whichever is
predicted to finish first.
"""
ON_DEVICE = """
The share of the ceiling that calls reach: of a copy for an add, of a plain loop for a dot product,
and of an empty launch for short arrays.
"""
ON_EXPRESSIONS = """
Beside CuPy's own kernel of the formula (`ElementwiseKernel`, `ReductionKernel`), and beside CuPy
and PyTorch with one operation after the other. Arrays have {n} elements.
"""
ON_AXES = """
Sums of the rows or of the columns of `float32` matrices in device memory, queued one after the
other: bytes read per second, as a share of a copy's rate.
"""
ON_STRIDES = """
Formulas on arrays of any strides in device memory, as shares of a contiguous copy's rate.
"""
ON_FUNCTIONS = """
On the GPU: the rate of `f(x)` on arrays in device memory, as a share of a copy's. On one core:
nanoseconds per element of 100,000, in the cache. `square` is `pow(x, 2)`.
"""
REPEAT = """
    make bench                           # the run, and its page in target/bench/page
    python3 benches/bench.py             # on a machine without Rust, with GPUVEC_LIB: the run alone
    python3 benches/page.py RUN FOLDER   # the page of a run's bench.json

The run takes less than ten minutes with a GPU, and measures the libraries that are installed.
[bench.json](bench.json) has the figures of this page. Other measurements:

- [formulas](formulas.md) on cores, across the bus and on two GPUs
- [placement auto](placement.md) beside placements, libraries and builds, on two machines
- [a billion elements, several GPUs](more.md), and the memory that the library keeps

```{toctree}
:hidden:

formulas
placement
more
```
"""
# Shares below these are named among the missed.
LEAST_OF_FUNCTIONS, LEAST_OF_AXES = 0.9, 0.95


def rounded(value: Any) -> Any:
    """Rounds all floats in the data."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items() if key not in LEFT_OUT}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def shown_of(part: str, row: Row) -> Row:
    """Returns the fields of a row that the page shows."""
    row = {name: row[name] for name in FIELDS.get(part, row)}
    if "results" in row:
        row["results"] = {
            name: {field: figures[field] for field in OF_RESULTS if field in figures}
            for name, figures in row["results"].items()
        }
    if part == "points":
        row["ran"] = {name: {"backend": ran["backend"]} for name, ran in row["ran"].items()}
    return row


def page_data(data: Data) -> Data:
    """Returns what the page shows of a run's data, or of the page's own."""
    return rounded(
        {
            part: [shown_of(part, row) for row in rows] if isinstance(rows, list) else rows
            for part, rows in data.items()
        }
    )


def as_text(data: Data) -> str:
    """Writes the data as JSON, each row in a line."""

    def of(part: Any) -> str:
        if not isinstance(part, (list, dict)) or not part:
            return json.dumps(part, ensure_ascii=False)
        if isinstance(part, list):
            return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in part) + "\n]"
        lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in part.items())
        return "{\n" + ",\n".join(lines) + "\n}"

    parts = ",\n".join(f"{json.dumps(name)}: {of(part)}" for name, part in data.items())
    return f"{{\n{parts}\n}}\n"


def figure(name: str, alt: str) -> Lines:
    """Shows a figure."""
    return [f"![{alt}]({name}.svg)", ""]


def dropdown(title: str, lines: Lines) -> Lines:
    """Hides a table until the reader opens it."""
    return [f":::{{dropdown}} {title}", "", *lines, ":::", ""]


def head(data: Data) -> Lines:
    """Tells what was measured, when and where."""
    machine, versions = data["machine"], data["versions"]
    where = f"{machine['gpu']}, driver {machine['driver']}" if machine["gpu"] else "no GPU"
    numbers = ", ".join(
        f"{name} {version}" for name, version in versions.items() if "/" not in version
    )
    return [
        "# Benchmarks",
        "",
        "<!-- benches/page.py made this page. -->",
        "",
        "All figures of this page are from one run of `make bench`, on "
        f"{machine['date']}, which took {data['seconds']:.0f} s:",
        "",
        f"- {machine['cpu']}, {machine['cores']} cores; {where}",
        f"- {numbers}",
        ABOUT,
    ]


def libraries(data: Data) -> Lines:
    """Shows calls on NumPy arrays beside other libraries."""
    rows = compared(data)
    sizes = [n for n in TABLE_SIZES if any(row["n"] == n for row in rows)]
    cells = {(row["call"], row["n"]): cell(row) for row in rows}
    lines = [
        [words, *(cells.get((call, n), "") for n in sizes)]
        for call, words in TABLE_CALLS.items()
        if any(row["call"] == call for row in rows)
    ]
    return [
        "## NumPy arrays, beside other libraries",
        ON_LIBRARIES,
        *figure("auto", "The time per element over the length: gpuvec and other libraries"),
        *figure("libraries", "The same for six calls"),
        ON_CELLS,
        *table(["", *(f"{n:,}" for n in sizes)], lines),
    ]


def compared(data: Data) -> list[Row]:
    """Returns the calls on NumPy arrays that a peer made, too."""
    return [row for row in data.get("libraries", []) if len(row["us"]) > 1]


def placements(data: Data) -> Lines:
    """Shows the placements over the length."""
    return [
        "## Placements",
        ON_PLACEMENTS,
        *figure("placements", "The time per element under each placement, over the length"),
    ]


def device(data: Data) -> Lines:
    """Shows calls on arrays in device memory."""
    rows = [
        [row["kernel"], number(row["GB/s"]), row["of ceiling"]]
        for row in data.get("kernels", [])
        if row["ceiling"]
    ]
    return [
        "## Arrays in device memory",
        ON_DEVICE,
        *figure("device", "The share of the ceiling over the length, on arrays in device memory"),
        *dropdown("Kernels of all operations", table(["kernel", "GB/s", "of ceiling"], rows)),
    ]


def expressions(data: Data) -> Lines:
    """Shows formulas on arrays in device memory."""
    rows = data["expressions"]
    peers = list(dict.fromkeys(name for row in rows for name in row["us"] if name != "gpuvec"))
    lines = [
        [row["formula"], row["type"], f"{row['us']['gpuvec'] / 1e3:.3g}", *ratios(row, peers)]
        for row in rows
        if "gpuvec" in row["us"]
    ]
    heads = ["formula", "type", "gpuvec, ms", *(f"{peer} / gpuvec" for peer in peers)]
    return [
        "## Formulas on arrays in device memory",
        ON_EXPRESSIONS.format(n=report.length_text(rows[0]["n"])),
        *figure("expressions", "Times of formulas on arrays in device memory, gpuvec's is 1"),
        *dropdown("Figures", table(heads, lines)),
    ]


def ratios(row: Row, peers: list[str]) -> Lines:
    """Returns how many times as long as gpuvec each peer took."""
    us = row["us"]
    return [f"{us[peer] / us['gpuvec']:.2f}" if peer in us else "–" for peer in peers]


def axes(data: Data) -> Lines:
    """Shows sums along axes of arrays in device memory."""
    peers = ("CuPy", "PyTorch")
    lines = [
        [
            *(row["what"], f"{row['ms']:.3g}", f"{row['of copy']:.3f}"),
            *(f"{row[peer]:.3f}" if peer in row else "–" for peer in peers),
        ]
        for row in data["axes"]
    ]
    return [
        "## Sums along axes",
        ON_AXES,
        *figure("axes", "Sums along axes, as shares of a copy's rate"),
        *dropdown("Figures", table(["", "ms", "gpuvec", *peers], lines)),
    ]


def strides(data: Data) -> Lines:
    """Shows formulas on arrays of any strides."""
    lines = [
        [row["what"], f"{row['ms']:.3g}", number(row["GB/s"]), f"{row['of copy']:.3f}"]
        for row in data["strides"]
    ]
    return [
        "## Broadcast, sliced and transposed arrays",
        ON_STRIDES,
        *figure("strides", "Formulas on arrays of any strides, as shares of a copy's rate"),
        *dropdown("Figures", table(["", "ms", "GB/s", "of a copy"], lines)),
    ]


def functions(data: Data) -> Lines:
    """Shows the functions of f32, on the device and on one core."""
    shares = {row["what"]: row["of copy"] for row in data.get("functions_on_device", [])}
    lines = [
        [
            row["what"],
            f"{shares[row['what']]:.2f}" if row["what"] in shares else "–",
            *(f"{row[one]:.2f}" if row[one] else "–" for one in ("gpuvec", "NumPy", "PyTorch")),
        ]
        for row in data["functions"]
    ]
    heads = ["", "GPU, of a copy", "gpuvec, ns", "NumPy, ns", "PyTorch, ns"]
    return [
        "## Functions of float32",
        ON_FUNCTIONS,
        *figure("functions", "Functions of float32, on the GPU and on one core"),
        *dropdown("Figures", table(heads, lines)),
    ]


def missed(data: Data) -> Lines:
    """Lists targets that were missed, and cases in which another library is faster."""
    lines = ["## What was missed", ""]
    targets = [line for line in data.get("targets", []) if line["reached"] is False]
    rows = [[line["text"], *target_cells(line), line["of"]] for line in targets]
    if rows:
        counts = {mark: sum(t["reached"] is mark for t in data["targets"]) for mark in MARKS}
        lines += [
            f"Of the targets of `benches/targets.py`, {counts[True]} were reached, "
            f"{counts[False]} missed, {counts[None]} not measured. Missed:",
            "",
            *table(["target", "result", "limit", "reference"], rows),
        ]
    items = [
        *slower_calls(data),
        *slower_formulas(data),
        *slower_axes(data),
        *slower_functions(data),
        *failed_calls(data),
        *(f"not measured: {name}: {why}" for name, why in data["missing"].items()),
    ]
    return [*lines, *(f"- {item}" for item in items), ""]


def target_cells(line: Row) -> Lines:
    """Formats a target's result and limit."""
    sign = "≥" if line["at_least"] else "≤"
    result = f"{line['figure']:.3g} {line['unit']}".strip()
    return [result, f"{sign} {number(line['limit'])} {line['unit']}".strip()]


def slower_calls(data: Data) -> Lines:
    """Names the calls on NumPy arrays in which another library is faster."""
    slower = [row for row in compared(data) if behind(row) < BEHIND]
    if not slower:
        return []
    count = f"{len(slower)} of {len(compared(data))}"
    lines = [
        f"calls on NumPy arrays, {count} slower than the fastest library, whose time is divided by "
        "gpuvec's:"
    ]
    for call in TABLE_CALLS:
        cases = (
            f"{row['n']:,} ({behind(row):.2f}, {best(row['us'])})"
            for row in slower
            if row["call"] == call
        )
        text = ", ".join(cases)
        lines[0] += f"\n  - {TABLE_CALLS[call]} of {text}" * bool(text)
    return lines


def failed_calls(data: Data) -> Lines:
    """Names the calls of other libraries that failed, or whose results differ."""
    failed: dict[str, dict[str, str]] = {}
    for row in data.get("libraries", []):
        for name, why in row["failures"].items():
            case = f"{TABLE_CALLS[row['call']]} of {row['n']:,}"
            failed.setdefault(name, {})[case] = why.partition(": ")[2]
    return [
        f"left out, {name}'s {', '.join(cases)}; of the last, {list(cases.values())[-1]}"
        for name, cases in failed.items()
    ]


def slower_formulas(data: Data) -> Lines:
    """Names the formulas on the device in which another library is faster."""
    found = []
    for row in data.get("expressions", []):
        others = {name: us for name, us in row["us"].items() if name != "gpuvec"}
        fastest: Optional[str] = min(others, key=lambda name: others[name], default=None)
        if fastest and "gpuvec" in row["us"] and behind(row) < BEHIND:
            found.append(f"{row['formula']} of {row['type']} ({behind(row):.2f}, {fastest})")
    return [f"formulas on the device, slower than another library: {', '.join(found)}"] * bool(
        found
    )


def slower_axes(data: Data) -> Lines:
    """Names the sums along axes in which another library is faster."""
    found = []
    for row in data.get("axes", []):
        peers = {peer: row[peer] for peer in ("CuPy", "PyTorch") if peer in row}
        fastest: Optional[str] = max(peers, key=lambda peer: peers[peer], default=None)
        if fastest and row["of copy"] < LEAST_OF_AXES * peers[fastest]:
            found.append(f"{row['what']} ({row['of copy']:.2f}, {fastest} {peers[fastest]:.2f})")
    return [f"sums along axes, slower than another library's: {', '.join(found)}"] if found else []


def slower_functions(data: Data) -> Lines:
    """Names the functions that are slow on the GPU, or slower than another library's on a core."""
    below = [
        f"{row['what']} ({row['of copy']:.2f})"
        for row in data.get("functions_on_device", [])
        if row["of copy"] < LEAST_OF_FUNCTIONS
    ]
    slower = []
    for row in data.get("functions", []):
        others = [row[peer] for peer in ("NumPy", "PyTorch") if row[peer]]
        if others and row["gpuvec"] * BEHIND > min(others):
            slower.append(f"{row['what']} ({row['gpuvec'] / min(others):.2f})")
    lines = []
    if below:
        lines.append(
            f"functions on the GPU below {LEAST_OF_FUNCTIONS} of a copy: {', '.join(below)}"
        )
    if slower:
        lines.append(f"functions on one core, times the faster library's time: {', '.join(slower)}")
    return lines


def repeat(_: Data) -> Lines:
    """Tells how to repeat the run."""
    return ["## Repeat the run", REPEAT]


# The sections, each with the part of the data that it needs.
SECTIONS = (
    ("machine", head),
    ("libraries", libraries),
    ("points", placements),
    ("kernels", device),
    ("expressions", expressions),
    ("axes", axes),
    ("strides", strides),
    ("functions", functions),
    ("first_call", report.first_calls),
    ("ceilings", report.ceilings),
    ("targets", missed),
    ("machine", repeat),
)


def text(data: Data) -> str:
    """Makes the page of its data."""
    lines = [line for part, section in SECTIONS if data.get(part) for line in section(data)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def main() -> None:
    """Writes the page, its figures and its data."""
    import plots

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "run", type=Path, nargs="?", default=ROOT / "target" / "bench" / "bench.json"
    )
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs" / "benchmarks")
    given = parser.parse_args()
    data = page_data(json.loads(given.run.read_text()))
    given.folder.mkdir(parents=True, exist_ok=True)
    (given.folder / "bench.json").write_text(as_text(data))
    (given.folder / "index.md").write_text(text(data))
    plots.draw(data, given.folder)


if __name__ == "__main__":
    main()
