"""The shared code of the benchmark of placement auto: ratios, tables, files with the rows."""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from placement_calls import Case, cores, library_path

Row = dict[str, Any]
Rows = list[Row]

# The placements that choose no processor by themselves.
FIXED = ("gpu", "cpu", "all")

# The file with the rows of all parts.
FILE = "placement.json"


def shown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Aligns the columns of a table."""
    columns = zip(heads, *lines)
    widths = [max(map(len, column)) for column in columns]
    cells = (
        [cell.ljust(width) if not at else cell.rjust(width) for at, (cell, width) in pairs]
        for pairs in (list(enumerate(zip(line, widths))) for line in (heads, *lines))
    )
    return "\n".join("  ".join(line).rstrip() for line in cells)


def microseconds(us: float) -> str:
    """Shows a time with three digits."""
    return f"{us:,.0f}" if us >= 100 else f"{us:.3g}"


def written(given: argparse.Namespace, name: str, rows: Rows) -> None:
    """Writes all rows of a part into the file that the parts share."""
    given.output.mkdir(parents=True, exist_ok=True)
    path = given.output / FILE
    found = json.loads(path.read_text()) if path.exists() else {}
    at = time.strftime("%Y-%m-%d %H:%M:%S")
    found[name] = {"at": at, "library": library_path(), "cpus": cores(), "rows": rows}
    path.write_text(json.dumps(found))
    print(f"rows: {name} in {path}", flush=True)


def rows_in(folder: Path, name: str) -> Rows:
    """Reads the rows of a part."""
    return list(json.loads((folder / FILE).read_text())[name]["rows"])


def fastest(row: Row, among: Sequence[str] = FIXED) -> str:
    """Returns the fastest fixed placement of a row."""
    return min((name for name in among if name in row["us"]), key=lambda name: row["us"][name])


def ratio(row: Row, *more: str, us: Optional[float] = None) -> float:
    """Returns the time of placement auto over the fastest fixed placement's."""
    best = fastest(row, (*FIXED, *more))
    return float((us or row["us"]["auto"]) / row["us"][best])


def in_words(row: Row) -> str:
    """Names a row's case."""
    return str(Case(*(row[name] for name in Case._fields)))
