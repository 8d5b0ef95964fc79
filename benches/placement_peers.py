"""Placement auto beside other libraries: pageable arrays, calls from Python.

All write into a preallocated output in host memory. Peers on the GPU copy the inputs to the device
and the result back in every call. A formula's repeated part is computed once, as its author would
write it.
"""

import argparse
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from statistics import geometric_mean
from typing import Any

import numpy as np
from placement_calls import (
    ARRAYS,
    DTYPES,
    FORMULAS,
    REDUCTIONS,
    ROOT,
    Case,
    cores,
    fill,
    fitting,
    longest,
    warmed_up,
)
from placement_report import Row, in_words, microseconds, shown, written
from progress import progress
from report import number, unit_of
from report import table as markdown_table
from timing import Contender, measure, of_python

ROUNDS = 3
BEHIND = 0.95
# A peer that takes longer than this for a call is left out at greater lengths.
TOO_LONG_US = 250_000
# The relative and absolute difference of results: each library rounds in its own way.
TOLERANCES = {"f32": (1e-3, 1e-5), "f64": (1e-9, 1e-12)}
# The number of elements to compare, at the end of the output.
COMPARED = 1000
# The lengths and the calls of the table of float.
TABLE_SIZES = [100_000, 1_000_000, 10_000_000, 100_000_000]
TABLE_CALLS = {
    "add": "`a + b`",
    "dot": "dot, exact",
    **{name: f"`{FORMULAS[name].text}`" for name in ("3ops", "exp")},
    "black-scholes": "Black-Scholes",
    "sum-sqrt": f"`{FORMULAS['sum-sqrt'].text}`",
}

Call = Callable[[], object]


class Data:
    """The arrays of a case."""

    def __init__(self, case: Case, arrays: list[np.ndarray]) -> None:
        self.case = case
        self.a, self.b, self.c, self.out, self.scratch = (array[: case.n] for array in arrays)

    def inputs(self) -> tuple[np.ndarray, ...]:
        """Returns the arrays that the call reads."""
        count = {"exp": 1, "black-scholes": 3}.get(self.case.call, 2)
        return (self.a, self.b, self.c)[:count]

    def compared(self) -> np.ndarray:
        """Returns the part of the output that is compared."""
        return self.out[:1] if self.case.call in REDUCTIONS else self.out[-COMPARED:]


def normal(xp: Any, x: Any) -> Any:
    """Returns the normal distribution, by the series of Abramowitz and Stegun (26.2.17)."""
    k = 1 / (1 + 0.2316419 * abs(x))
    series = -0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))
    tail = 0.39894228 * xp.exp(x * x * -0.5) * (k * (0.31938153 + k * series))
    return xp.where(x < 0, tail, 1 - tail)


def black_scholes(xp: Any, a: Any, b: Any, c: Any, out: Any) -> None:
    """Prices call options."""
    deviation = 0.3 * xp.sqrt(c)
    d1 = (xp.log(a / b) + 0.065 * c) / deviation
    d2 = d1 - deviation
    xp.subtract(a * normal(xp, d1), b * xp.exp(-0.02 * c) * normal(xp, d2), out=out)


def elementwise(xp: Any, call: str, arrays: Any, out: Any) -> None:
    """Makes a call whose result is an array, with NumPy or a library with NumPy's names."""
    if call == "add":
        xp.add(*arrays, out=out)
    elif call == "3ops":
        a, b = arrays
        xp.multiply(a, b, out=out)
        xp.add(out, a, out=out)
        xp.subtract(out, 2, out=out)
    elif call == "exp":
        xp.exp(*arrays, out=out)
    else:
        black_scholes(xp, *arrays, out)


def reduction(xp: Any, call: str, arrays: Any, out: Any, scratch: Any) -> Any:
    """Makes a call whose result is one value; `out` and `scratch` hold intermediate results."""
    a, b = arrays
    if call == "dot":
        return xp.dot(a, b)
    xp.multiply(a, a, out=out)
    xp.multiply(b, b, out=scratch)
    xp.add(out, scratch, out=out)
    xp.sqrt(out, out=out)
    return out.sum()


class Gpuvec:
    """gpuvec's Python package, under placement auto."""

    name = "gpuvec"

    def __init__(self) -> None:
        sys.path.insert(0, str(ROOT / "python"))
        self.library = importlib.import_module("gpuvec")
        self.library.set_placement("auto")

    def call(self, data: Data) -> Call:
        """Returns a function that makes the call."""
        call, inputs, out = data.case.call, data.inputs(), data.out
        if call in REDUCTIONS:
            out = out[:1].reshape(())
        if call not in FORMULAS:
            function = getattr(self.library, call)
            return lambda: function(*inputs, out=out)
        named = dict(zip("abc", inputs))
        types = dict.fromkeys(named, DTYPES[data.case.dtype])
        expression = self.library.Expression(FORMULAS[call].text, types)
        return lambda: expression(named, out=out)


class NumPy:
    """NumPy on one core, but for its BLAS."""

    name, library = "NumPy", np

    def call(self, data: Data) -> Call:
        """Returns a function that makes the call."""
        call, inputs, out, scratch = data.case.call, data.inputs(), data.out, data.scratch
        if call not in REDUCTIONS:
            return lambda: elementwise(np, call, inputs, out)
        return lambda: out.__setitem__(0, reduction(np, call, inputs, out, scratch))


class NumExpr:
    """numexpr on all cores."""

    name = "numexpr"

    def __init__(self) -> None:
        os.environ.setdefault("NUMEXPR_MAX_THREADS", str(cores()))
        self.library = importlib.import_module("numexpr")
        self.library.set_num_threads(cores())

    def call(self, data: Data) -> Call:
        """Returns a function that makes the call; the library remembers the compiled text."""
        call, out, evaluate = data.case.call, data.out, self.library.evaluate
        constants: dict[str, Any] = {}
        text = {"add": "a + b", "dot": "sum(a * b)"}.get(call)
        if text is None:
            text, constants = FORMULAS[call].with_constants(DTYPES[data.case.dtype])
        names = {**dict(zip("abc", data.inputs())), **constants}
        if call in REDUCTIONS:
            return lambda: out.__setitem__(0, evaluate(text, names))
        return lambda: evaluate(text, names, out=out, casting="same_kind")


class TorchCpu:
    """PyTorch on all cores."""

    name = "PyTorch CPU"

    def __init__(self) -> None:
        self.library = importlib.import_module("torch")
        self.library.set_num_threads(cores())

    def call(self, data: Data) -> Call:
        """Returns a function that makes the call."""
        torch, call, result = self.library, data.case.call, data.out
        inputs = [torch.from_numpy(array) for array in data.inputs()]
        out, scratch = torch.from_numpy(data.out), torch.from_numpy(data.scratch)
        if call not in REDUCTIONS:
            return lambda: elementwise(torch, call, inputs, out)
        return lambda: result.__setitem__(0, reduction(torch, call, inputs, out, scratch).item())


class TorchCuda:
    """PyTorch on the GPU."""

    name = "PyTorch CUDA"

    def __init__(self) -> None:
        self.library = importlib.import_module("torch")
        if not self.library.cuda.is_available():
            raise RuntimeError("it sees no GPU")

    def call(self, data: Data) -> Call:
        """Returns a function that copies in, makes the call and copies out."""
        torch, call, result = self.library, data.case.call, data.out
        hosts, host_out = [torch.from_numpy(one) for one in data.inputs()], torch.from_numpy(result)

        def one() -> None:
            inputs = [host.cuda() for host in hosts]
            out = torch.empty_like(inputs[0])
            if call in REDUCTIONS:
                scratch = torch.empty_like(out) if call != "dot" else None
                result[0] = reduction(torch, call, inputs, out, scratch).item()
            else:
                elementwise(torch, call, inputs, out)
                host_out.copy_(out)

        return one


class CuPy:
    """CuPy."""

    name = "CuPy"

    def __init__(self) -> None:
        self.library = importlib.import_module("cupy")
        self.library.zeros(1).sum().get()

    def call(self, data: Data) -> Call:
        """Returns a function that copies in, makes the call and copies out."""
        cupy, call, result, hosts = self.library, data.case.call, data.out, data.inputs()

        def one() -> None:
            inputs = [cupy.asarray(host) for host in hosts]
            out = cupy.empty_like(inputs[0])
            if call in REDUCTIONS:
                scratch = cupy.empty_like(out) if call != "dot" else None
                result[0] = reduction(cupy, call, inputs, out, scratch).item()
            else:
                elementwise(cupy, call, inputs, out)
                out.get(out=result)

        return one


def installed() -> list[Any]:
    """Returns the usable peers, and prints why others are missing."""
    found: list[Any] = []
    for peer in (NumPy, NumExpr, TorchCpu, TorchCuda, CuPy):
        try:
            found.append(peer())
        except Exception as error:
            print(f"without {peer.name}: {type(error).__name__}: {str(error)[:100]}")
    versions = {one.library.__name__: one.library.__version__ for one in found}
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    return found


class Comparison:
    """Measures gpuvec and its peers on one case after the other."""

    def __init__(self, cases: list[Case], seconds: float) -> None:
        self.seconds = seconds
        self.gpuvec, self.peers = Gpuvec(), installed()
        self.arrays: dict[str, list[np.ndarray]] = {}
        for case in longest(cases):
            # One array more, for intermediate results.
            arrays = [np.empty(case.n, DTYPES[case.dtype]) for _ in range(ARRAYS + 1)]
            for seed, array in enumerate(arrays):
                fill(array, seed)
            self.arrays[case.dtype] = arrays
        self.slow: set[tuple[str, str, str]] = set()

    def row(self, case: Case) -> Row:
        """Measures a case, once all results agree."""
        data = Data(case, self.arrays[case.dtype])
        ours = self.gpuvec.call(data)
        ours()
        expected = data.compared().copy()
        contenders = [Contender("gpuvec", of_python(ours))]
        failures = {}
        for peer in self.peers:
            if (case.call, case.dtype, peer.name) in self.slow:
                continue
            try:
                call = peer.call(data)
                check(call, data, expected)
                contenders.append(Contender(peer.name, of_python(call)))
            except Exception as error:
                failures[peer.name] = f"{type(error).__name__}: {error}"
        before = warmed_up(contenders[0].batch)
        results = measure(contenders, self.seconds * len(contenders), ROUNDS)
        us = {name: figures["median_us"] for name, figures in results.items()}
        late = [name for name in us if us[name] > TOO_LONG_US and name != "gpuvec"]
        self.slow |= {(case.call, case.dtype, name) for name in late}
        ours()
        ran = self.gpuvec.library.last_run()
        return {
            **case._asdict(),
            "us": us,
            "failures": failures,
            "calls_before": len(before),
            "ran": f"{ran.backend} {ran.threads}",
            "results": results,
        }


def check(call: Call, data: Data, expected: np.ndarray) -> None:
    """Makes one call, whose result must agree."""
    data.compared()[:] = np.nan
    call()
    relative, absolute = TOLERANCES[data.case.dtype]
    found = data.compared()
    if not np.allclose(found, expected, rtol=relative, atol=absolute):
        raise RuntimeError(f"the result ends {found[-3:]} instead of {expected[-3:]}")


def best(us: dict[str, float]) -> str:
    """Returns the fastest peer."""
    return min((name for name in us if name != "gpuvec"), key=lambda name: us[name])


def behind(row: Row) -> float:
    """Returns the best peer's time over gpuvec's."""
    return float(row["us"][best(row["us"])] / row["us"]["gpuvec"])


def table(rows: list[Row]) -> str:
    """Shows the ratio and the best peer: a line for each call and type."""
    cells = {
        (row["call"], row["dtype"], row["n"]): f"{behind(row):.2f} {best(row['us'])}"
        for row in rows
    }
    sizes = sorted({row["n"] for row in rows})
    lines = [
        [f"{call} {dtype}", *(cells.get((call, dtype, n), "") for n in sizes)]
        for call, dtype in dict.fromkeys((row["call"], row["dtype"]) for row in rows)
    ]
    return shown(["best peer / gpuvec", *(f"{n:,}" for n in sizes)], lines)


def losses(rows: list[Row], count: int) -> str:
    """Shows the cases in which gpuvec is the farthest behind."""
    lines = [
        [
            in_words(row),
            microseconds(row["us"]["gpuvec"]),
            f"{microseconds(row['us'][best(row['us'])])} {best(row['us'])}",
            row["ran"],
        ]
        for row in sorted(rows, key=behind)[:count]
    ]
    return shown(["worst cases, µs", "gpuvec", "best peer", "gpuvec ran on"], lines)


def measured(given: argparse.Namespace) -> Iterator[Row]:
    """Measures the cases by length, so that slow peers are known, until the time is up."""
    by_length = product(sorted(given.sizes), given.types, given.calls)
    wanted = [Case(call, dtype, "pageable", n) for n, dtype, call in by_length]
    cases = fitting(wanted)
    comparison = Comparison(cases, given.seconds)
    end = time.monotonic() + given.at_most
    for done, case in enumerate(progress(cases, "beside other libraries")):
        if time.monotonic() > end:
            print(f"{len(cases) - done} cases are left out: the time is up")
            return
        yield comparison.row(case)


def summary(rows: list[Row]) -> str:
    """Tells how gpuvec compares with the best peer of each case."""
    mean = geometric_mean(map(behind, rows))
    kept = sum(behind(row) >= BEHIND for row in rows)
    worst = min(rows, key=behind)
    return (
        f"best peer / gpuvec: geometric mean {mean:.3f}, not behind (at least {BEHIND}) in {kept} "
        f"of {len(rows)}, worst {behind(worst):.2f} ({in_words(worst)})"
    )


def cell(row: Row) -> str:
    """Shows gpuvec's time, the best peer's time over it, and the best peer."""
    us, peer = row["us"]["gpuvec"], best(row["us"])
    unit, size = unit_of(us)
    return f"{number(us / size)} {unit}, {behind(row):.2f}× ({peer})"


def readme_table(rows: list[Row]) -> str:
    """Makes the table of f32: a row for each call, a column for each length."""
    f32 = [row for row in rows if row["dtype"] == "f32"]
    cells = {(row["call"], row["n"]): cell(row) for row in f32}
    sizes = [n for n in TABLE_SIZES if any(row["n"] == n for row in f32)]
    lines = [
        [words, *(cells.get((call, n), "") for n in sizes)]
        for call, words in TABLE_CALLS.items()
        if any(row["call"] == call for row in f32)
    ]
    heads = ["`f32`, pageable", *(f"{n:,}" for n in sizes)]
    return "\n".join([*markdown_table(heads, lines), f"{summary(rows)}."])


def peers(given: argparse.Namespace) -> None:
    """Beside NumPy, numexpr, PyTorch and CuPy, on pageable arrays."""
    rows = list(measured(given))
    for name, why in {key: why for row in rows for key, why in row["failures"].items()}.items():
        print(f"{name} failed: {why}")
    compared = [row for row in rows if len(row["us"]) > 1]
    print(summary(compared))
    print(table(compared))
    print(losses(compared, 8))
    written(given, "peers", rows)
    text = readme_table(compared)
    (given.output / "peers.md").write_text(f"{text}\n")
    print(text)
