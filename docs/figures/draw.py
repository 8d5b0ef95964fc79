"""Draws the figures of the explanations, as SVG beside this script; the site's build runs it.

    PYTHONPATH=python python docs/figures/draw.py [accumulator error chunks views learning]

It needs matplotlib 3.8 or newer. Text is grey and the background transparent, so that light and
dark pages show the figures alike. The data of `learning` come from a machine with a GPU
(`record.py`); all others are computed here.
"""

import json
import math
import sys
from fractions import Fraction
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import gpuvec
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

FOLDER = Path(__file__).resolve().parent
TEXT, FAINT = "#7d7d7d", "#7d7d7d40"
BLUE, ORANGE, GREEN, VIOLET = "#3a86c8", "#d9782d", "#4f9d3a", "#9a6fc4"

plt.rcParams.update(
    {
        "font.size": 10,
        "svg.fonttype": "none",
        "svg.hashsalt": "gpuvec",
        "savefig.transparent": True,
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        **{f"{part}.color": TEXT for part in ("text", "xtick", "ytick")},
        "axes.labelcolor": TEXT,
        "axes.edgecolor": TEXT,
    }
)


def save(name: str) -> None:
    """Writes the current figure; the same data give the same bytes."""
    plt.savefig(FOLDER / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
    plt.close()


def exponents_of_bits(value: Fraction) -> list[int]:
    """Returns the exponents of the powers of two that add up to a number's magnitude."""
    units = abs(int(value * 2**149))
    return [place - 149 for place in range(units.bit_length()) if units >> place & 1]


def draw_bits(axes: Axes, row: float, value: Fraction, colour: str) -> None:
    """Draws a number's bits where they are in the accumulator."""
    for exponent in exponents_of_bits(value):
        axes.add_patch(Rectangle((exponent, row - 0.3), 1, 0.6, color=colour, linewidth=0))


def accumulator() -> None:
    """Bits of five floats, and of their exact sum, in the accumulator's digits of 32 bits."""
    values = [np.float32(value) for value in (2e30, math.pi, -2e30, 1e-10, 1e-38)]
    names = ["2e30", "3.1415927", "−2e30", "1e−10", "1e−38"]
    exact = sum((Fraction(float(value)) for value in values), Fraction(0))
    rounded = gpuvec.sum(np.array(values))
    assert rounded == np.float32(math.pi)

    _, axes = plt.subplots(figsize=(7.4, 3))
    for row, (name, value) in enumerate(zip(names, values)):
        draw_bits(axes, -row, Fraction(float(value)), ORANGE if value < 0 else BLUE)
        axes.text(118, -row, name, va="center")
    draw_bits(axes, -5.4, exact, GREEN)
    axes.text(118, -5.4, "the exact sum", va="center")
    draw_bits(axes, -6.4, Fraction(float(rounded)), GREEN)
    axes.text(118, -6.4, "rounded once", va="center")
    for digit in range(9):
        axes.axvline(-149 + 32 * digit, color=FAINT, linewidth=1)
    axes.set_xlim(110, -150)
    axes.set_ylim(-7, 0.7)
    units = [-149 + 32 * digit for digit in range(9)]
    axes.set_xticks(units, [f"$2^{{{unit}}}$" for unit in units])
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    for text in axes.texts:
        text.set_ha("right")
    save("accumulator")


def ulps(result: np.float32, exact: float) -> float:
    """Returns the distance of a result from the exact value, in units of its last place."""
    return abs(float(result) - exact) / float(np.spacing(np.float32(abs(exact))))


def error() -> None:
    """Errors of sums over the number of elements."""
    data = np.random.default_rng(1).standard_normal(10**7, np.float32)
    running = np.cumsum(data, dtype=np.float32)
    lengths = [round(10 ** (k / 2)) for k in range(2, 15)]
    exact = {n: math.fsum(data[:n].tolist()) for n in lengths}
    rows = {
        "one after the other": [ulps(running[n - 1], exact[n]) for n in lengths],
        "NumPy": [ulps(data[:n].sum(), exact[n]) for n in lengths],
        "gpuvec": [ulps(gpuvec.sum(data[:n]), exact[n]) for n in lengths],
    }
    _, axes = plt.subplots(figsize=(6.4, 3.2))
    for (name, errors), colour in zip(rows.items(), (ORANGE, VIOLET, BLUE)):
        axes.plot(lengths, errors, "o-", color=colour, markersize=4, label=name)
    axes.axhline(0.5, color=TEXT, linewidth=0.8, linestyle=":")
    axes.set(xscale="log", xlabel="number of elements", ylabel="error in units of the last place")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(0, 3e4)
    axes.set_yticks([0, 0.5, 1, 10, 100, 1000, 10000], ["0", "½", "1", "10", "100", "10³", "10⁴"])
    axes.minorticks_off()
    axes.legend()
    save("error")


def chunks() -> None:
    """Results of sums in parts, over the number of parts."""
    data = np.random.default_rng(2).standard_normal(10**6).astype(np.float32) + np.float32(0.1)
    exact = math.fsum(data.astype(np.float64))
    unit = float(np.spacing(np.float32(abs(exact))))
    counts = [*range(1, 33), 48, 64, 96, 128, 192, 256]
    plain, accumulated = [], []
    for count in counts:
        parts = np.array_split(data, count)
        plain.append((float(np.sum([part.sum() for part in parts])) - exact) / unit)
        total = gpuvec.Accumulator("sum", np.float32)
        for part in reversed(parts):
            total.add(part)
        accumulated.append((float(total.value()) - exact) / unit)
    _, axes = plt.subplots(figsize=(6.4, 2.8))
    axes.plot(
        counts, plain, "o", color=VIOLET, markersize=4, label="NumPy's sum of the parts' sums"
    )
    axes.plot(counts, accumulated, "o", color=BLUE, markersize=4, label="gpuvec.Accumulator")
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 4, 16, 64, 256], ["1", "4", "16", "64", "256"])
    axes.set(xlabel="number of parts", ylabel="result − exact sum,\nin units of the last place")
    axes.set_ylim(-1.5, 3.4)
    axes.legend(loc="upper left")
    save("chunks")


def draw_view(axes: Axes, view: np.ndarray, base: np.ndarray, title: str, left: str) -> None:
    """Draws the memory of an array, with the elements of a view in the order of its axes."""
    start = base.__array_interface__["data"][0]
    offset = (view.__array_interface__["data"][0] - start) // base.itemsize
    strides = [stride // base.itemsize for stride in view.strides]
    order = {}
    for number, index in enumerate(np.ndindex(view.shape)):
        order[offset + sum(i * s for i, s in zip(index, strides))] = number
    for place in range(base.size):
        used = place in order
        axes.add_patch(Rectangle((place, 0), 0.92, 1, color=BLUE if used else FAINT, linewidth=0))
        if used:
            axes.text(place + 0.46, 0.45, order[place], ha="center", va="center", color="white")
    axes.text(0, 1.25, title, family="monospace")
    axes.text(0, -0.75, left)
    axes.set(xlim=(-0.2, base.size), ylim=(-1.1, 2))
    axes.axis("off")


def views() -> None:
    """Views of a matrix in memory, with the axes that are left of each."""
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    examples = [
        ("x", base, "one axis: 24 elements, 4 bytes apart"),
        ("x.T", base.T, "the same: the axes are sorted by their strides, then merged"),
        ("x[::-1, ::-1]", base[::-1, ::-1], "the same: axes that go backwards are flipped"),
        ("x[:, 1:5]", base[:, 1:5], "two axes: 4 rows, 24 bytes apart, of 4 neighbours"),
        ("x[:, 2]", base[:, 2], "one axis: 4 elements, 24 bytes apart"),
    ]
    _, rows = plt.subplots(len(examples), figsize=(7.4, 4.8))
    for row, (title, view, left) in zip(rows, examples):
        draw_view(row, view, base, title, left)
    save("views")


def learning() -> None:
    """Times of the calls of a new process, by the processors that placement auto chose."""
    record = json.loads((FOLDER / "learning.json").read_text())
    _, axes = plt.subplots(figsize=(6.8, 3.4))
    for choice, colour in zip(record["choices"], (VIOLET, ORANGE, GREEN, BLUE)):
        calls = [
            (number, ms) for number, (ms, one, _) in enumerate(record["calls"], 1) if one == choice
        ]
        axes.plot(*zip(*calls), "o", markersize=3, color=colour, label=choice)
    axes.set(yscale="log", xlabel="number of the call", ylabel="time of the call in ms")
    axes.set_yticks([1, 3, 10, 30, 100, 300, 1000], ["1", "3", "10", "30", "100", "300", "1000"])
    axes.minorticks_off()
    axes.legend(loc="upper left", bbox_to_anchor=(0.05, 1))
    save("learning")


FIGURES = {draw.__name__: draw for draw in (accumulator, error, chunks, views, learning)}

if __name__ == "__main__":
    for name in sys.argv[1:] or FIGURES:
        FIGURES[name]()
