"""Formats a run's data as Markdown: a table for each suite, and what it says in a sentence."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import geometric_mean, median
from typing import Any, Optional

from calls import AGAINST
from cases import FORMULAS, Case, case_of
from ceilings import bound, value
from harness import Row, best, is_peer, us
from placement import FIRST, FIXED
from suites import SUITES
from targets import GPU_PEERS

Data = dict[str, Any]
Lines = list[str]

# A ratio of times to the best peer's below this counts as behind; auto within this as close.
BEHIND, CLOSE = 0.95, 1.15
# A call is slower than in another build if it has less than this share of its speed.
SLOWER = 0.97
MARKS = {True: "reached", False: "**MISSED**", None: "not measured"}
# Fields of rows that are not columns of their own.
NOT_SHOWN = ("us", "spread", "after_pause_us", "ran", "missing", "of copy", "bytes")
NOT_SHOWN += ("calls_before", "alone_us", "again")


def unit_of(microseconds: float) -> tuple[str, float]:
    """Returns the unit that suits a time, and its microseconds."""
    units = [("s", 1e6), ("ms", 1e3), ("µs", 1.0), ("ns", 1e-3)]
    return next((unit for unit in units if microseconds >= unit[1]), units[-1])


def number(figure: float) -> str:
    """Formats three digits; thousands with separators."""
    return f"{figure:,.0f}" if figure >= 1000 else f"{figure:.3g}"


def time_text(microseconds: float) -> str:
    """Formats a time in the unit that suits it."""
    unit, size = unit_of(microseconds)
    return f"{number(microseconds / size)} {unit}"


def length_text(n: int) -> str:
    """Formats a length, a power of two as such."""
    power = n.bit_length() - 1
    return f"2^{power}" if power >= 20 and n == 1 << power else f"{n:,}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Lines:
    """Formats a table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def spread(row: Row, name: str) -> str:
    """Formats a median and its quartiles in one unit."""
    unit, size = unit_of(row["us"][name])
    text = f"{number(row['us'][name] / size)} {unit}"
    if name not in row.get("spread", {}):
        return text
    _, low, high, _ = (number(figure / size) for figure in row["spread"][name])
    return f"{text} ({low}–{high})"


def on_gpu(row: Row, name: str) -> bool:
    """True for a contender that ran the case on a GPU."""
    ran = row.get("ran", {}).get(name.split(",")[0])
    return ran.startswith("gpu") if ran else name in GPU_PEERS


def share_of_ceiling(row: Row, name: str, ceilings: list[Row]) -> Optional[float]:
    """Returns the share of its ceiling that a contender reaches; None if that was not measured."""
    found, time = bound(row, on_gpu(row, name), ceilings), us(row, name)
    return found.us / time if found and time else None


def cell(row: Row, name: str, ceilings: list[Row]) -> str:
    """Formats a contender's time, and its share of a copy's rate or of the ceiling.

    Without these, a peer's time is followed by its ratio to gpuvec's.
    """
    if name not in row["us"]:
        return "–"
    ceiling = share_of_ceiling(row, name, ceilings) if "n" in row else None
    share = ""
    if "of copy" in row:
        share = f"{row['of copy'][name]:.3f}"
    elif ceiling:
        share = f"{ceiling:.2f}"
    elif ours(row) and is_peer(name):
        share = f"{row['us'][name] / ours(row):.2f}×"
    where = row.get("ran", {}).get(name, "") if name.endswith("auto") else ""
    return ", ".join(filter(None, [spread(row, name), share, where]))


def cell_text(value: Any) -> str:
    """Formats a cell that is not a time."""
    if isinstance(value, int):
        return length_text(value)
    return number(value) if isinstance(value, float) else str(value)


def in_groups(rows: list[Row]) -> list[list[Row]]:
    """Groups rows by call, type and memory; those of a single length by type and memory."""
    by = ("dtype", "kind") if len({row.get("n") for row in rows}) == 1 else Case._fields[:3]
    calls = list(dict.fromkeys([*FORMULAS, *(row.get("call") for row in rows)]))
    key = lambda row: [str(row.get(name)) for name in by] + list(row)[:1]  # noqa: E731
    if "call" in rows[0]:
        rows = sorted(rows, key=lambda row: (key(row), row["n"], calls.index(row["call"])))
    return [list(group) for _, group in groupby(rows, key=key)]


def tables(rows: list[Row], ceilings: list[Row]) -> Lines:
    """Formats rows as tables."""
    lines: Lines = []
    for group in in_groups(rows):
        names = [key for key in dict.fromkeys(key for row in group for key in row)]
        names = [key for key in names if key not in NOT_SHOWN]
        contenders = list(dict.fromkeys(one for row in group for one in row.get("us", {})))
        if "call" in names:
            constant = [key for key in names if len({row.get(key) for row in group}) == 1]
            names = [key for key in names if key not in constant] or ["n"]
            texts = {**group[0], "n": f"n = {length_text(group[0]['n'])}"}
            lines += [f"{', '.join(str(texts[key]) for key in constant)}:", ""]
        cells = [
            [
                *(cell_text(row.get(key, "")) for key in names),
                *(cell(row, one, ceilings) for one in contenders),
            ]
            for row in group
        ]
        lines += table([*names, *contenders], cells)
    return lines


def of_rows(name: str, rows: list[Row], ceilings: list[Row]) -> Lines:
    """Formats the rows of a suite, and what is missing."""
    failures = {f"{one}: {why}" for row in rows for one, why in row.get("missing", {}).items()}
    missing = [f"- missing: {failure}" for failure in sorted(failures)]
    return [f"## {name}", "", f"{SUITES[name].about}.", "", *tables(rows, ceilings), *missing, ""]


def ratio(row: Row, names: Sequence[str] = FIXED, us: Optional[float] = None) -> float:
    """Returns the time of placement auto over the fastest other contender's."""
    fastest = best(row, names)
    assert fastest
    return float((us or row["us"]["gpuvec auto"]) / fastest[0])


def of_sweep(rows: list[Row]) -> Lines:
    """Formats the ratios of placement auto to the fastest placement, and the worst cases."""
    rows = [row for row in rows if {"gpuvec auto", "gpuvec cpu"} <= row["us"].keys()]
    if not rows:
        return []
    mean = geometric_mean(map(ratio, rows))
    within = sum(ratio(row) <= CLOSE for row in rows)
    worst = sorted(rows, key=ratio, reverse=True)[:8]
    lines = [
        f"auto / fastest: geometric mean {mean:.3f}, within {CLOSE} in {within} of {len(rows)}, "
        f"worst {ratio(worst[0]):.2f} ({case_of(worst[0])})"
    ]
    same = [row for row in rows if row.get("again") == best(row, FIXED)[1]]
    if same:
        noise = geometric_mean(row["us"]["again"] / row["us"][row["again"]] for row in same)
        lines.append(f"noise: the fastest, measured twice, differs by {noise:.3f}")
    alone = [ratio(row, us=row["alone_us"]) for row in rows if row.get("alone_us")]
    if alone:
        before = min(row["calls_before"] for row in rows)
        what = f"after {before} calls or more, before other placements ran"
        lines.append(f"{what}: {geometric_mean(alone):.3f}")
    short = [row for row in rows if "gpuvec core" in row["us"]]
    if short:
        with_core = geometric_mean(ratio(row, (*FIXED, "gpuvec core")) for row in short)
        without = geometric_mean(map(ratio, short))
        lines.append(
            f"short arrays: {without:.3f}, with one core among the fastest {with_core:.3f}"
        )
    heads = ["worst cases", *FIXED, "gpuvec auto", "auto ran on", "ratio"]
    cells = [
        [
            str(case_of(row)),
            *(time_text(row["us"][name]) if name in row["us"] else "" for name in heads[1:5]),
            row["ran"]["gpuvec auto"],
            f"{ratio(row):.2f}",
        ]
        for row in worst
    ]
    return [*(f"- {line}" for line in lines), "", *table(heads, cells)]


def of_restricted(rows: list[Row]) -> Lines:
    """Formats the same for each restriction."""
    lines: Lines = []
    for what in dict.fromkeys(row["what"] for row in rows):
        lines += [f"### {what}", "", *of_sweep([row for row in rows if row["what"] == what])]
    return lines


def of_cold(rows: list[Row]) -> Lines:
    """Shows the totals of each seed, and auto's ratios to the oracle, also of the first calls."""
    parts = ("auto", "oracle", "replayed", "medians")
    cells = [
        [
            str(row["seed"]),
            *(f"{1e3 * row['totals'][0][name]:.1f}" for name in parts),
            *(f"{one['auto'] / one['oracle']:.3f}" for one in row["totals"]),
            f"{row['totals'][0]['ready'] / row['totals'][0]['oracle']:.1%}",
        ]
        for row in rows
    ]
    heads = ["seed", *(f"{name}, ms" for name in parts), "auto / oracle"]
    heads += [*(f"first {count}" for count in FIRST), "getting ready, of the oracle"]
    ways = (f"{way} {1e3 * sum(times):.1f} ms" for way, times in rows[0]["times"].items())
    return [*table(heads, cells), f"Seed {rows[0]['seed']}: {', '.join(ways)}.", ""]


def of_script(rows: list[Row]) -> Lines:
    """Shows the medians under each placement."""
    cells = []
    for placement in dict.fromkeys(row["placement"] for row in rows):
        runs = [run for run in rows if run["placement"] == placement]
        times = [f"{1e3 * median(run[what] for run in runs):.2f}" for what in ("process", "loop")]
        opened = f"{sum(run['driver'] for run in runs)} of {len(runs)}"
        cells.append([placement, *times, opened, runs[-1]["backend"]])
    heads = ["twenty adds", "process, ms", "loop, ms", "opened the driver", "last add ran on"]
    return table(heads, cells)


def ours(row: Row) -> float:
    """Returns the time of gpuvec where it has one contender."""
    return row["us"].get("gpuvec") or row["us"].get("gpuvec cpu", 0.0)


def behind(row: Row) -> float:
    """Returns the best peer's time over gpuvec's."""
    return float(best(row)[0] / ours(row))


def compared(rows: list[Row]) -> list[Row]:
    """Returns the rows that have gpuvec and a peer."""
    return [row for row in rows if ours(row) and any(map(is_peer, row["us"]))]


def of_libraries(rows: list[Row]) -> Lines:
    """Formats the ratios of the best peer of each case to gpuvec."""
    rows = compared(rows)
    if not rows:
        return []
    kept = sum(behind(row) >= BEHIND for row in rows)
    worst = min(rows, key=behind)
    return [
        f"best peer / gpuvec: geometric mean {geometric_mean(map(behind, rows)):.3f}, not behind "
        f"(at least {BEHIND}) in {kept} of {len(rows)}, worst {behind(worst):.2f} "
        f"({case_of(worst)})",
        "",
    ]


def against(rows: list[Row]) -> Lines:
    """Compares builds: another one's time over this one's, the least first."""
    ratios = []
    for row in rows:
        what = str(case_of(row)) if set(Case._fields) <= row.keys() else row.get("what", "")
        for name, other in row.get("us", {}).items():
            ours, is_other, build = name.partition(AGAINST)
            if is_other and ours in row["us"]:
                now = row["us"][ours]
                ratios.append((other / now, f"{what}, {ours}", build, other, now))
    if not ratios:
        return []
    slower = sum(found[0] < SLOWER for found in ratios)
    mean = geometric_mean(found[0] for found in ratios)
    cells = [
        [what, build, time_text(other), time_text(now), f"{speed:.3f}"]
        for speed, what, build, other, now in sorted(ratios)
    ]
    return [
        f"other / this build: geometric mean {mean:.3f}, below {SLOWER} in {slower} of "
        f"{len(ratios)}.",
        "",
        *table(["call", "other build", "its time", "this build's", "other / this"], cells),
    ]


def with_shares(rows: list[Row], ceilings: list[Row]) -> list[Row]:
    """Adds the share of its ceiling that each kernel reaches."""
    shares = [(row, value(ceilings, row.get("ceiling", ""))) for row in rows]
    return [{**row, "of ceiling": row["GB/s"] / most if most else ""} for row, most in shares]


def ceilings(data: Data) -> Lines:
    """Formats the ceilings."""
    rows = [
        [
            *(row["name"], row["what"], f"{number(row['value'])} {row['unit']}"),
            f"{number(row['min'])}–{number(row['max'])}",
        ]
        for row in data["ceilings"]
    ]
    return ["## Ceilings", "", *table(["name", "what", "median", "min–max"], rows)]


def target_cells(target: Row) -> Lines:
    """Formats a target's result and limit."""
    sign = "≥" if target["at_least"] else "≤"
    result = f"{target['figure']:.3g} {target['unit']}".strip()
    return [result, f"{sign} {number(target['limit'])} {target['unit']}".strip()]


def target_lines(data: Data) -> Lines:
    """Formats the targets."""
    rows = [
        [
            *(MARKS[target["reached"]], target["text"]),
            *(["", "", ""] if target["reached"] is None else [*target_cells(target), target["of"]]),
        ]
        for target in data["targets"]
    ]
    return ["## Targets", "", *table(["", "target", "result", "limit", "reference"], rows)]


def head(data: Data) -> Lines:
    """Formats the machine and the versions."""
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    machine = data["machine"]
    lines = [
        "# gpuvec's benchmark",
        "",
        f"{machine['date']}, {machine['gpu'] or 'no GPU'} ({machine['gpus']} visible), driver "
        f"{machine['driver']}, {machine['cpu']}, {machine['cores']} cores. {versions}.",
        "",
        "Times are medians with quartiles, in batches of back-to-back calls for 2 ms, of "
        "contenders that take turns. gpuvec's contenders are named after the placement of calls "
        'from C; "gpuvec" alone is the Python package with `out=`, or queued calls. The calling '
        "thread has a current CUDA context, as other GPU libraries leave it, except in columns "
        'that say "no context". The share of the ceiling, or of a copy\'s rate, follows a time.',
        "",
    ]
    return lines + [f"- missing: {name}: {why}" for name, why in data["missing"].items()] + [""]


SUMMARIES = {"sweep": of_sweep, "libraries": of_libraries}
# Suites whose rows are too many or too long for a table of their own.
WHOLE = {"cold": of_cold, "script": of_script, "restricted": of_restricted}


def summary(data: Data) -> str:
    """Formats the machine, the targets and the ceilings."""
    lines = head(data)
    for part, lines_of in (("targets", target_lines), ("ceilings", ceilings)):
        lines += lines_of(data) if data.get(part) else []
    return "\n".join(lines)


def markdown(data: Data) -> str:
    """Formats the whole report."""
    lines = [summary(data)]
    for name in SUITES:
        rows = data.get(name)
        if not rows or name == "ceilings":
            continue
        if name in WHOLE:
            lines += [f"## {name}", "", *WHOLE[name](rows)]
        else:
            rows = with_shares(rows, data.get("ceilings", [])) if name == "kernels" else rows
            lines += of_rows(name, rows, data.get("ceilings", []))
            lines += SUMMARIES.get(name, lambda _: [])(rows) + against(rows)
    return "\n".join(lines)
