"""Draws the figures of the benchmarks' page from its data (benches/page.py).

Each SVG has its own background, and other colours where the reader's system prefers dark ones.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from cases import TITLES
from harness import Row
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from report import share_of_ceiling

Data = dict[str, Any]

# The colours of each contender and of the rest, on light and on dark backgrounds.
COLOURS = {
    "gpuvec": ("#15803d", "#4ade80"),
    "gpu": ("#6d28d9", "#a78bfa"),
    "cpu": ("#1d4ed8", "#60a5fa"),
    "all": ("#c2410c", "#fb923c"),
    "NumPy": ("#c2410c", "#fb923c"),
    "numexpr": ("#a16207", "#facc15"),
    "PyTorch CPU": ("#7c2d5e", "#f0abfc"),
    "PyTorch CUDA": ("#6d28d9", "#a78bfa"),
    "CuPy": ("#b91c1c", "#f87171"),
    "Numba": ("#0e7490", "#22d3ee"),
    "CuPy kernel": ("#9f1239", "#fda4af"),
    "text": ("#1f2937", "#e5e7eb"),
    "paper": ("#fdfdfd", "#15191f"),
    "grid": ("#d1d5db", "#374151"),
}
LIGHT = {name: light for name, (light, _) in COLOURS.items()}
STYLE = {
    "svg.hashsalt": "gpuvec",
    "svg.fonttype": "none",
    "font.size": 10,
    "figure.constrained_layout.use": True,
    "figure.facecolor": LIGHT["paper"],
    "axes.facecolor": LIGHT["paper"],
    "axes.edgecolor": LIGHT["grid"],
    "axes.labelcolor": LIGHT["text"],
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "text.color": LIGHT["text"],
    "xtick.color": LIGHT["text"],
    "ytick.color": LIGHT["text"],
}
WIDTH = 7.4


def save(figure: Figure, path: Path) -> None:
    """Writes a figure, whose colours are variables of its style sheet."""
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    svg = path.read_text()
    variables: dict[str, tuple[str, str]] = {}
    for number, (light, dark) in enumerate(dict.fromkeys(COLOURS.values())):
        name = f"--colour-{number}"
        if light in svg:
            variables[name] = light, dark
            svg = svg.replace(light, f"var({name}, {light})")
    one, other = (
        "".join(f"{name}:{pair[way]};" for name, pair in variables.items()) for way in (0, 1)
    )
    style = f":root{{{one}}}@media (prefers-color-scheme:dark){{:root{{{other}}}}}"
    svg = svg.replace('<style type="text/css">', f'<style type="text/css">{style}', 1)
    path.write_text(re.sub(r"^ +| +$", "", svg, flags=re.MULTILINE))


def line(axes: Axes, name: str, points: Iterable[tuple[float, float]]) -> None:
    """Draws a contender's line, gpuvec's the thickest."""
    found = sorted(points)
    if found:
        ours = name in ("gpuvec", "auto")
        axes.plot(
            *zip(*found),
            color=LIGHT["gpuvec" if ours else name],
            linewidth=2.6 if ours else 1.3,
            zorder=2 if ours else 3,
            marker=".",
            label="gpuvec" if ours and name == "gpuvec" else name,
        )


def over_length(axes: Axes, title: str) -> None:
    """Labels axes of figures over the length."""
    axes.set(xscale="log", xlabel="elements", title=title)
    axes.minorticks_off()


def legend(figure: Figure, columns: int) -> None:
    """Adds one legend for all axes."""
    named = {}
    for axes in figure.axes:
        handles, names = axes.get_legend_handles_labels()
        named.update(zip(names, handles))
    figure.legend(named.values(), named, loc="outside lower center", ncols=columns)


def grid_of(rows: int, columns: int, height: float, **shared: Any) -> tuple[Figure, Any]:
    """Makes a figure with panels, and the array of these."""
    return plt.subplots(rows, columns, figsize=(WIDTH, height), squeeze=False, **shared)


def per_element(axes: Axes, title: str, rows: list[Row], names: dict[str, str]) -> None:
    """Draws the times per element of contenders, with the names of their lines."""
    for name, shown in names.items():
        found = (row for row in rows if name in row["us"])
        line(axes, shown, ((row["n"], 1e3 * row["us"][name] / row["n"]) for row in found))
    axes.set_yscale("log")
    over_length(axes, title)


def calls(data: Data, chosen: list[str], rows: int, height: float) -> Figure:
    """Draws calls on NumPy arrays beside other libraries, a panel for each."""
    figure, grid = grid_of(rows, len(chosen) // rows, height, sharex=True)
    names = ("gpuvec", "NumPy", "numexpr", "PyTorch CPU", "PyTorch CUDA", "CuPy")
    for axes, call in zip(grid.flat, chosen):
        found = [row for row in data["libraries"] if row["call"] == call]
        per_element(axes, TITLES[call].strip("`"), found, dict(zip(names, names)))
    for axes in grid[:-1].flat:
        axes.set_xlabel("")
    for axes in grid[:, 0]:
        axes.set_ylabel("ns per element")
    legend(figure, 3)
    return figure


def auto(data: Data) -> Figure:
    """Draws two calls on NumPy arrays: README's figure."""
    figure = calls(data, ["dot", "a*b + a - 2"], 1, 4.0)
    machine = data["machine"]
    where = f"{machine['gpu'] or machine['cpu']}, {machine['cores']} cores, {machine['date'][:10]}"
    figure.suptitle(f"NumPy arrays, float32, no settings: {where}", fontsize=10)
    return figure


def cases_of(data: Data, call: str, dtype: str, kind: str) -> list[Row]:
    """Returns a panel's points."""
    key = {"call": call, "dtype": dtype, "kind": kind}
    return [row for row in data["calls"] if key.items() <= row.items()]


def placements(data: Data) -> Figure:
    """Draws each placement on host arrays."""
    kinds = [kind for kind in ("pageable", "pinned") if cases_of(data, "add", "f32", kind)]
    figure, grid = grid_of(2, len(kinds), 5.6, sharex=True, sharey="row")
    names = {f"gpuvec {name}": name for name in ("gpu", "cpu", "all", "auto")}
    for row, op in zip(grid, ("add", "dot")):
        for axes, kind in zip(row, kinds):
            per_element(axes, f"{op}, {kind} arrays", cases_of(data, op, "f32", kind), names)
        row[0].set_ylabel("ns per element")
    legend(figure, 4)
    return figure


def device(data: Data) -> Figure:
    """Draws the shares of the ceiling on device arrays."""
    panels = [(op, dtype) for op in ("add", "dot") for dtype in ("f32", "f64")]
    panels = [panel for panel in panels if cases_of(data, *panel, "device")]
    figure, grid = grid_of(1, len(panels), 3.2, sharey=True)
    for axes, (op, dtype) in zip(grid.flat, panels):
        cases = cases_of(data, op, dtype, "device")
        for name in ("Numba", "CuPy", "PyTorch CUDA", "gpuvec"):
            contender = "gpuvec auto" if name == "gpuvec" else name
            shares = (
                (case["n"], share_of_ceiling(case, contender, data["ceilings"])) for case in cases
            )
            line(axes, name, ((n, share) for n, share in shares if share))
        over_length(axes, f"{op}, {dtype}")
        axes.set_ylim(0, 1.1)
        axes.axhline(1, color=LIGHT["text"], linewidth=0.8)
    grid[0][0].set_ylabel("share of the ceiling")
    legend(figure, 4)
    return figure


def bars(axes: Axes, rows: list[tuple[str, dict[str, float]]], names: list[str]) -> None:
    """Draws groups of horizontal bars, from the top down."""
    names = [name for name in names if any(name in values for _, values in rows)]
    height = 0.8 / len(names)
    for number, name in enumerate(names):
        found = [(at, values[name]) for at, (_, values) in enumerate(rows) if name in values]
        places, widths = zip(*((at + number * height, width) for at, width in found))
        axes.barh(places, widths, 0.9 * height, color=LIGHT[name], label=name)
    middle = 0.5 * (len(names) - 1) * height
    axes.set_yticks([at + middle for at in range(len(rows))], [label for label, _ in rows])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)


def shares_of_copy(axes: Axes, rows: list[tuple], names: list[str], **settings: Any) -> None:
    """Draws shares of a copy's rate as bars."""
    bars(axes, rows, names)
    axes.axvline(1, color=LIGHT["text"], linewidth=0.8)
    axes.set(xlabel="share of a copy's rate (more is better)", xlim=(0, None), **settings)


def formulas(data: Data) -> Figure:
    """Draws the times of formulas of f32, gpuvec's is 1."""
    rows = [row for row in data["formulas"] if row["dtype"] == "f32" and "gpuvec" in row["us"]]
    times = [
        (row["call"], {name: us / row["us"]["gpuvec"] for name, us in row["us"].items()})
        for row in rows
    ]
    figure, [[axes]] = grid_of(1, 1, 0.36 * len(rows) + 1.2)
    bars(axes, times, ["gpuvec", "CuPy kernel", "CuPy", "PyTorch CUDA"])
    axes.axvline(1, color=LIGHT["text"], linewidth=0.8)
    axes.set(xscale="log", xlabel="time, gpuvec's is 1 (less is better)")
    legend(figure, 4)
    return figure


def shares(rows: list[Row]) -> Figure:
    """Draws shares of a copy's rate: of gpuvec, and of peers."""
    names = ["gpuvec", "CuPy", "PyTorch CUDA"]
    names = [name for name in names if any(name in row["of copy"] for row in rows)]
    figure, [[axes]] = grid_of(1, 1, (0.14 + 0.14 * len(names)) * len(rows) + 1.1)
    shares_of_copy(axes, [(row["what"], row["of copy"]) for row in rows], names)
    if len(names) > 1:
        legend(figure, len(names))
    return figure


def functions(data: Data) -> Figure:
    """Draws functions on the device and on one core."""
    on_device, rows = data.get("functions-device", []), data["functions"]
    figure, [[*left, right]] = grid_of(1, 1 + bool(on_device), 0.32 * len(rows) + 1.2)
    for axes in left:
        found = [(row["what"], {"gpuvec": row["of copy"]}) for row in on_device]
        shares_of_copy(axes, found, ["gpuvec"], title="GPU")
    times = [
        (
            row["call"],
            {name.removesuffix(" cpu"): 1e3 * us / row["n"] for name, us in row["us"].items()},
        )
        for row in rows
    ]
    bars(right, times, ["gpuvec", "NumPy", "PyTorch CPU"])
    right.set(xlabel="ns per element (less is better)", title="one core", xscale="log")
    legend(figure, 3)
    return figure


# The figures, each with the part of the data that it needs.
FIGURES: dict[str, tuple[str, Callable[[Data], Figure]]] = {
    "auto": ("libraries", auto),
    "libraries": ("libraries", lambda data: calls(data, list(TITLES), 2, 5.8)),
    "placements": ("calls", placements),
    "device": ("kernels", device),
    "formulas": ("formulas", formulas),
    "axes": ("axes", lambda data: shares(data["axes"])),
    "strides": ("strides", lambda data: shares(data["strides"])),
    "functions": ("functions", functions),
}


def draw(data: Data, folder: Path) -> None:
    """Draws the figures of the parts that were measured."""
    with matplotlib.rc_context(STYLE):
        for name, (part, make) in FIGURES.items():
            if data.get(part):
                save(make(data), folder / f"{name}.svg")
