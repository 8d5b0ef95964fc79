"""Draws figures from a run's bench.json, of this machine or another.

    python benches/plots.py [bench.json] [folder]   default: target/bench/bench.json docs/benchmarks

Draws, for each operation on f32 arrays (f64 with --dtype f64) and every memory kind, the time per
element and the share of the ceiling over the length, as SVG.
"""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import bounds
import matplotlib.pyplot as plt
from report import on_gpu
from targets import us

ROOT = Path(__file__).resolve().parents[1]
KINDS = ["pageable", "pinned", "device"]

# The colour of each contender in every figure; gpuvec's lines are thicker.
COLOURS = {
    "gpuvec auto": "#111111",
    "gpuvec gpu": "#76b900",
    "gpuvec cpu": "#1f77b4",
    "gpuvec all": "#2ca02c",
    "NumPy": "#ff7f0e",
    "numexpr": "#bcbd22",
    "PyTorch CPU": "#8c564b",
    "plain C loop": "#7f7f7f",
    "CuPy": "#d62728",
    "PyTorch CUDA": "#9467bd",
    "Numba": "#17becf",
    "naive C": "#e377c2",
}


def cases_of(data: dict, op: str, dtype: str, kind: str) -> list[dict]:
    """Returns a panel's points, sorted by length."""
    key = {"op": op, "dtype": dtype, "kind": kind}
    found = [point for point in data["points"] if key.items() <= point.items()]
    return sorted(found, key=lambda point: point["n"])


def time_per_element(case: dict, name: str, _: dict):
    """Returns the nanoseconds per element."""
    return 1000 * us(case, name) / case["n"]


def share_of_ceiling(case: dict, name: str, ceilings: dict):
    """Returns the contender's share of its ceiling; None if that was not measured."""
    bound = bounds.bound(case, on_gpu(case, name), ceilings)
    return bound.us / us(case, name) if bound else None


def lines(axes, cases: list[dict], ceilings: dict, figure) -> None:
    """Draws a line for each contender that has figures."""
    for name, colour in COLOURS.items():
        measured = [case for case in cases if us(case, name) is not None]
        points = [(case["n"], figure(case, name, ceilings)) for case in measured]
        points = [point for point in points if point[1] is not None]
        if points:
            width = 2.2 if name.startswith("gpuvec") else 1.0
            marker = "." if len(points) > 1 else "o"
            axes.plot(*zip(*points), color=colour, linewidth=width, marker=marker, label=name)


def draw(data: dict, op: str, dtype: str, folder: Path) -> None:
    """Draws one operation's figure, with a column for each memory kind."""
    panels = {kind: cases_of(data, op, dtype, kind) for kind in KINDS}
    panels = {kind: cases for kind, cases in panels.items() if cases}
    if not panels:
        return
    figure, grid = plt.subplots(2, len(panels), figsize=(4.6 * len(panels), 8), squeeze=False)
    for column, (kind, cases) in zip(grid.T, panels.items()):
        for axes, of in zip(column, (time_per_element, share_of_ceiling)):
            lines(axes, cases, data["ceilings"], of)
            axes.set_xscale("log")
            axes.grid(alpha=0.3)
        column[0].set_title(f"{kind} arrays")
        column[0].set_yscale("log")
        column[1].axhline(1, color="black", linewidth=0.6)
        column[1].set_ylim(0, 1.15)
        column[1].set_xlabel("elements")
    grid[0][0].set_ylabel("ns per element")
    grid[1][0].set_ylabel("share of the ceiling")
    named = {}
    for axes in grid.flat:
        handles, names = axes.get_legend_handles_labels()
        named.update(zip(names, handles))
    figure.legend(named.values(), named, loc="lower center", ncols=6, frameon=False)
    machine = data["machine"]
    where = machine["gpu"] or machine["cpu"]
    figure.suptitle(f"{op}, {dtype}: {where}, {machine['cores']} cores, {machine['date'][:10]}")
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    path = folder / f"bench_{op}_{dtype}.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    print(path)


def main() -> None:
    """Draws the figures that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("run", type=Path, nargs="?", default=ROOT / "target" / "bench" / "bench.json")
    add("folder", type=Path, nargs="?", default=ROOT / "docs/benchmarks")
    add("--dtype", default="f32", help="f32 or f64")
    chosen = parser.parse_args()
    data = json.loads(chosen.run.read_text())
    chosen.folder.mkdir(parents=True, exist_ok=True)
    # Makes the SVG reproducible, and keeps its text as text.
    matplotlib.rcParams.update({"svg.hashsalt": "gpuvec", "svg.fonttype": "none"})
    for op in ("add", "dot"):
        draw(data, op, chosen.dtype, chosen.folder)


if __name__ == "__main__":
    main()
