"""Makes the page of a run of bench.py: docs/benchmarks/index.md, its figures, and its data.

    python3 benches/page.py [target/bench/bench.json] [docs/benchmarks]
Every figure and table of the page is from the run. The data are rounded to four digits; the page
can be made again from them: `python3 benches/page.py docs/benchmarks/bench.json`.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
import report
from cases import SIX, TITLES
from grid import TOLERANCES, TOO_LONG_US
from harness import best
from report import BEHIND, MARKS, Lines, behind, compared, table, target_cells

ROOT = Path(__file__).resolve().parents[1]
DIGITS = 4
Data = dict[str, Any]

# The fields of rows that the page does not show, and of the whole.
LEFT_OUT = ("after_pause_us", "calls_before", "alone_us", "again", "library", "bytes")
# The lengths of the table of calls on NumPy arrays.
TABLE_SIZES = [100_000, 1_000_000, 10_000_000, 100_000_000]
# Paragraphs of the page.
ABOUT = """
Times are medians. Contenders take turns in batches of calls of 2 ms, in random order. gpuvec's sums
are exact and its functions correctly rounded; those of the other libraries are neither. [What was
missed](#what-was-missed) is listed near the end, and the commands that [repeat the
run](#repeat-the-run) after it.
"""
ON_CELLS = """
Each cell has gpuvec's time, and the fastest other library's time divided by it: above 1, gpuvec is
faster.
"""
ON_FIRST = """
Medians of new processes, with an empty and a warm driver cache, and their range: `load` opens the
library, `bare` the driver and a context without gpuvec, `init` calls `gpuvec_init`, and `add` makes
a first call on the GPU; a formula's first call follows another formula's.
"""
# The sections of suites: their titles, their texts, their figures and what these show.
ABOUT_SUITES = {
    "libraries": (
        "NumPy arrays, beside other libraries",
        f"""
The Python package with `out=` and no setting, on `float32` arrays in ordinary memory. The times of
CuPy and PyTorch on the GPU include the copies to and from it. A library whose call takes longer
than {TOO_LONG_US / 1e6:g} s is left out at greater lengths, and so is a result that differs by more
than {TOLERANCES["f32"][0]:g} of its value.
""",
        {
            "auto": "The time per element over the length: gpuvec and other libraries",
            "libraries": "The same for six calls",
        },
    ),
    "calls": (
        "Placements",
        """
Calls from C under each placement. Auto, the default, takes the cores, the GPU or both, whichever is
predicted to finish first.
""",
        {"placements": "The time per element under each placement, over the length"},
    ),
    "kernels": (
        "Arrays in device memory",
        """
The share of the ceiling that calls reach: of a copy for an add, of a plain loop for a dot product,
and of an empty launch for short arrays. The table has the kernels of all operations.
""",
        {"device": "The share of the ceiling over the length, on arrays in device memory"},
    ),
    "formulas": (
        "Formulas on arrays in device memory",
        """
Beside CuPy's own kernel of the formula (`ElementwiseKernel`, `ReductionKernel`), and beside CuPy
and PyTorch with one operation after the other. In the tables, the time of another library over
gpuvec's follows its time.
""",
        {"formulas": "Times of formulas on arrays in device memory, gpuvec's is 1"},
    ),
    "axes": (
        "Sums along axes",
        """
Sums of the rows or of the columns of `float32` matrices in device memory, queued one after the
other: bytes read per second, as a share of a copy's rate.
""",
        {"axes": "Sums along axes, as shares of a copy's rate"},
    ),
    "strides": (
        "Broadcast, sliced and transposed arrays",
        """
Formulas on arrays of any strides in device memory, as shares of a contiguous copy's rate.
""",
        {"strides": "Formulas on arrays of any strides, as shares of a copy's rate"},
    ),
    "functions": (
        "Functions of float32",
        """
On the GPU: the rate of `f(x)` on arrays in device memory, as a share of a copy's. On one core: the
time for 100,000 elements, in the cache. `square` is `pow(x, 2)`.
""",
        {"functions": "Functions of float32, on the GPU and on one core"},
    ),
}
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
# Shares of a copy's rate below this are named among the missed.
LEAST_OF_FUNCTIONS = 0.9


def page_data(value: Any) -> Any:
    """Returns what the page shows of a run's data, or of the page's own; rounds all floats."""
    if isinstance(value, dict):
        kept = {key: page_data(one) for key, one in value.items() if key not in LEFT_OUT}
        # Quartiles are in the tables of the run.
        return {key: one for key, one in kept.items() if key != "spread" or "call" not in kept}
    if isinstance(value, list):
        return [page_data(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


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


def head(data: Data) -> Lines:
    """Describes the run: the machine, the versions and the time."""
    machine, versions = data["machine"], data["versions"]
    where = f"{machine['gpu']}, driver {machine['driver']}" if machine["gpu"] else "no GPU"
    numbers = ", ".join(
        f"{name} {version}" for name, version in versions.items() if version[:1].isdigit()
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


def library_rows(data: Data) -> Lines:
    """Makes the table of calls on NumPy arrays."""
    rows = compared(data["libraries"])
    sizes = [n for n in TABLE_SIZES if any(row["n"] == n for row in rows)]
    cells = {
        (row["call"], row["n"]): (
            f"{report.time_text(row['us']['gpuvec'])}, {behind(row):.2f}× ({best(row)[1]})"
        )
        for row in rows
    }
    lines = [
        [TITLES[call], *(cells.get((call, n), "") for n in sizes)]
        for call in SIX
        if any(row["call"] == call for row in rows)
    ]
    return [ON_CELLS, *table(["", *(f"{n:,}" for n in sizes)], lines)]


def first(data: Data) -> Lines:
    """Shows first calls of new processes."""
    caches = ("empty cache", "warm cache")
    rows = [
        [row["what"], *(f"{report.time_text(row['us'][cache])}" for cache in caches)]
        for row in data["first"]
        if row["us"].keys() >= set(caches)
    ]
    return ["## First call in a new process", ON_FIRST, *table(["", *caches], rows)]


def section(suite: str) -> Callable[[Data], Lines]:
    """Makes the section of a suite: its text, its figures and its table."""
    title, about, figures = ABOUT_SUITES[suite]

    def lines(data: Data) -> Lines:
        rows = data[suite]
        shown = [line for name, alt in figures.items() for line in (f"![{alt}]({name}.svg)", "")]
        if suite == "libraries":
            return [f"## {title}", about, *shown, *library_rows(data)]
        if suite == "kernels":
            rows = [row for row in report.with_shares(rows, data["ceilings"]) if "ceiling" in row]
            rows = [{name: row[name] for name in ("kernel", "GB/s", "of ceiling")} for row in rows]
        if suite == "functions":
            on_device = {row["what"]: row["of copy"] for row in data.get("functions-device", [])}
            extra = "GPU, of a copy"
            rows = [{**row, extra: on_device.get(row["call"], "–")} for row in rows]
        if suite == "calls":
            return [f"## {title}", about, *shown]
        # Hidden until the reader opens it.
        figures_of = [":::{dropdown} Figures", "", *report.tables(rows, []), ":::", ""]
        return [f"## {title}", about, *shown, *figures_of]

    return lines


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
        *slower(data, "libraries", "calls on NumPy arrays"),
        *slower(data, "formulas", "formulas on the device"),
        *slower(data, "axes", "sums along axes"),
        *slower(data, "functions", "functions on one core"),
        *slow_functions(data),
        *failed_calls(data),
        *(f"not measured: {name}: {why}" for name, why in data["missing"].items()),
    ]
    return [*lines, *(f"- {item}" for item in items), ""]


def slower(data: Data, suite: str, what: str) -> Lines:
    """Names the cases of a suite in which another library is faster, in a line for each call."""
    rows = compared(data.get(suite, []))
    found: dict[str, list[str]] = {}
    for row in rows:
        if behind(row) < BEHIND:
            ratio = f"({behind(row):.2f}, {best(row)[1]})"
            if suite == "libraries":
                found.setdefault(f"{TITLES[row['call']]} of ", []).append(f"{row['n']:,} {ratio}")
            else:
                name = row.get("what") or f"{row['call']} of {row['dtype']}"
                found.setdefault("", []).append(f"{name} {ratio}")
    number = sum(map(len, found.values()))
    about = "slower than the fastest library, whose time is divided by gpuvec's:"
    lines = (f"\n  - {call}{', '.join(cases)}" for call, cases in found.items())
    return [f"{what}, {number} of {len(rows)} {about}{''.join(lines)}"] if found else []


def slow_functions(data: Data) -> Lines:
    """Names the functions that are slow on the GPU."""
    below = [
        f"{row['what']} ({row['of copy']:.2f})"
        for row in data.get("functions-device", [])
        if row["of copy"] < LEAST_OF_FUNCTIONS
    ]
    text = f"functions on the GPU below {LEAST_OF_FUNCTIONS} of a copy: {', '.join(below)}"
    return [text] if below else []


def failed_calls(data: Data) -> Lines:
    """Names the calls of other libraries that failed, or whose results differ."""
    failed: dict[str, dict[str, str]] = {}
    for row in data.get("libraries", []):
        for name, why in row["missing"].items():
            case = f"{TITLES[row['call']]} of {row['n']:,}"
            failed.setdefault(name, {})[case] = why.partition(": ")[2]
    return [
        f"left out, {name}'s {', '.join(cases)}; of the last, {list(cases.values())[-1]}"
        for name, cases in failed.items()
    ]


# The sections, each with the part of the data that it needs.
SECTIONS = (
    ("machine", head),
    *((suite, section(suite)) for suite in ABOUT_SUITES),
    ("first", first),
    ("ceilings", report.ceilings),
    ("targets", missed),
    ("machine", lambda _: ["## Repeat the run", REPEAT]),
)


def text(data: Data) -> str:
    """Makes the page of its data."""
    lines = [line for part, section in SECTIONS if data.get(part) for line in section(data)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def main() -> None:
    """Writes the page, its figures and its data."""
    import plots

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, nargs="?", default=ROOT / "target/bench/bench.json")
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs/benchmarks")
    given = parser.parse_args()
    data = page_data(json.loads(given.run.read_text()))
    given.folder.mkdir(parents=True, exist_ok=True)
    (given.folder / "bench.json").write_text(as_text(data))
    (given.folder / "index.md").write_text(text(data))
    plots.draw(data, given.folder)


if __name__ == "__main__":
    main()
