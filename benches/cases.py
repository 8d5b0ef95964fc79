"""The calls that all contenders make, their arrays, and the formulas in other languages."""

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
from device import Device, DeviceMemory
from harness import Row

DTYPES = {"f32": np.float32, "f64": np.float64}
# `GPUVEC_F32` and `GPUVEC_F64`; C's types, and the suffix of its literals and functions.
TYPE_NUMBERS = {"i32": 7, "f32": 9, "f64": 10}
C_TYPES = {"f32": ("float", "f"), "f64": ("double", "")}
PLACEMENTS = ("auto", "gpu", "cpu", "all")
KINDS = ("pageable", "pinned", "device")

# Calls by these names are functions of the header; all others are expressions.
FUNCTIONS = {"add": "a + b", "dot": "dot(a, b)", "sum": "sum(a)", "min": "min(a)", "max": "max(a)"}
REDUCTION = re.compile(r"(sum|mean|norm|min|max|argmin|dot|count)\(")
LITERAL = re.compile(r"(?<![\w.])(\d+\.?\d*)(?![\w.])")
C_FUNCTION = re.compile(r"\b(sqrt|exp|log|sin|abs)\(")

# How an input's values are distributed: uniform in a range, or by a name of `values`.
Distribution = tuple
USUAL: Distribution = (0.5, 1.5)
# The period of the values: a prime, so that it does not align with chunks.
PERIOD = 1_000_003
# The number of elements to compare, at the end of the output.
COMPARED = 1000


@dataclass(frozen=True)
class Formula:
    """A formula of up to four arrays: a, b, c and d."""

    name: str
    text: str
    data: tuple[Distribution, ...] = (USUAL,) * 4

    @property
    def inputs(self) -> list[str]:
        """The names of its arrays."""
        return sorted(set(re.findall(r"\b[a-d]\b", self.text)))

    def is_reduction(self) -> bool:
        """True if the result is one value."""
        return bool(REDUCTION.match(self.text))

    def is_integer(self) -> bool:
        """True if the result is an integer of 64 bits."""
        return self.text.startswith(("argmin(", "count("))

    def function(self) -> str:
        """Returns the name of the header's function for it; empty if it is an expression."""
        name = self.name.split(",")[0]
        return name if FUNCTIONS.get(name) == self.text else ""

    def in_c(self, dtype: str) -> str:
        """Returns the formula in C, with a macro `where`."""
        suffix = C_TYPES[dtype][1]
        text = LITERAL.sub(lambda match: f"{float(match[1])}{suffix}", self.text)
        return C_FUNCTION.sub(rf"\1{suffix}(", text).replace("abs", "fabs")

    def with_constants(self, scalar: type) -> tuple[str, dict]:
        """Returns the text with names in place of its numbers, and their values of one type."""
        values = {}

        def name(match: re.Match) -> str:
            key = "k" + re.sub(r"\W", "_", match[1])
            values[key] = scalar(float(match[1]))
            return key

        return LITERAL.sub(name, self.text), values


def normal_distribution(x: str) -> str:
    """Returns the normal distribution, by the series of Abramowitz and Stegun (26.2.17)."""
    k = f"(1 / (1 + 0.2316419 * abs({x})))"
    series = f"(-1.821255978 + {k} * 1.330274429)"
    for coefficient in ("1.781477937", "-0.356563782", "0.31938153"):
        series = f"({coefficient} + {k} * {series})"
    tail = f"(0.39894228 * exp({x} * {x} * -0.5) * ({k} * {series}))"
    return f"where({x} < 0, {tail}, 1 - {tail})"


def black_scholes() -> str:
    """Returns the price of a call option, for the price a, the strike b and the time c."""
    d1 = "((log(a / b) + 0.065 * c) / (0.3 * sqrt(c)))"
    d2 = f"({d1} - 0.3 * sqrt(c))"
    return f"a * {normal_distribution(d1)} - b * exp(-0.02 * c) * {normal_distribution(d2)}"


def horner(terms: int) -> str:
    """Returns a polynomial, of two operations for each term."""
    text = "0.5"
    for i in range(terms):
        text = f"({text}) * a + {0.1 + 0.01 * i:.2f}"
    return text


ELEMENTWISE = {
    "1 op": "a + b",
    "3 ops": "a * b + c * d",
    "8 ops": "(a + b) * (c - d) + (a - c) * (b + d) - a * 0.5",
    "20 ops": horner(10),
    "24 ops": "where(a < b, (a + b) * c - d, (a - b) * c + d) / (c + 0.5)"
    " + (a * b - c * d) * (a + d) - (b + c) * 0.125 + (a - d) * (b - 0.5) * c",
    "sqrt": "sqrt(a * a + b * b)",
    "exp": "exp(a)",
    "log": "log(a)",
    "sin": "sin(a)",
    "logistic": "1 / (1 + exp(-1 * a))",
    "Black-Scholes": black_scholes(),
}
REDUCTIONS = {
    **{name: f"{name}(a)" for name in ("sum", "mean", "norm", "min", "max", "argmin")},
    "dot": "dot(a, b)",
    "count": "count(a < b)",
    "sum of 3 ops": "sum(a * b + c * d)",
    "sum of sqrt": "sum(sqrt(a * a + b * b) * c)",
}
# The six calls beside other libraries and placements; the titles of their tables.
SIX = {
    "add": "a + b",
    "dot": "dot(a, b)",
    "a*b + a - 2": "a * b + a - 2",
    "exp": "exp(a)",
    "Black-Scholes": black_scholes(),
    "sum(sqrt)": "sum(sqrt(a * a + b * b))",
}
TITLES = {"add": "`a + b`", "dot": "dot, exact", "Black-Scholes": "Black-Scholes"}
TITLES = {name: TITLES.get(name, f"`{text}`") for name, text in SIX.items()}

# Each function's usual arguments.
NORMAL = {
    **dict.fromkeys(("exp", "exp2", "expm1", "sinh", "cosh", "atan", "asinh"), 3),
    **dict.fromkeys(("sin", "cos", "tan", "cbrt"), 10),
    **{"tanh": 2, "erf": 1},
}
UNIFORM = {
    **dict.fromkeys(("log", "log2", "log10", "log1p"), (0, 100)),
    **dict.fromkeys(("asin", "acos", "atanh"), (-1, 1)),
    "acosh": (1, 100),
}
ARGUMENTS: dict[str, tuple[Distribution, ...]] = {
    name: (("normal", NORMAL[name]) if name in NORMAL else UNIFORM[name],)
    for name in "exp exp2 expm1 sinh cosh tanh log log2 log10 log1p sin cos tan asin acos atan "
    "asinh acosh atanh erf cbrt".split()
}
ARGUMENTS_OF_TWO: dict[str, tuple[Distribution, ...]] = {
    "pow": ((0, 10), ("normal", 3)),
    # Squares of whole numbers: many of the results are in the middle of two floats.
    "square": (("whole", 6000), (2, 2)),
    **dict.fromkeys(("atan2", "hypot"), (("normal", 1), ("normal", 1))),
}
# Data on which exact sums take different ways; the factors of products have half of the exponents.
BY_DATA: dict[str, Distribution] = {
    "normal": ("normal", 1),
    "uniform": (0, 1),
    "integers": ("whole", 200),
    "sorted": ("sorted",),
    "half zeros": ("some", 2),
    "sparse": ("some", 100),
    "half of the exponents": ("spread", 0.5),
    "most exponents": ("spread", 0.95),
    "outliers": ("scaled", 512, 0.75),
    "two scales": ("scaled", 2, 0.75),
    "another scale every 4,096": ("blocks", 4096, 0.5),
    "subnormal": ("subnormal",),
}
SUMS = {
    f"{call}, {what}": Formula(
        f"{call}, {what}",
        FUNCTIONS[call],
        (tuple(one / 2 if isinstance(one, float) and call == "dot" else one for one in data),) * 2,
    )
    for call in ("sum", "dot")
    for what, data in BY_DATA.items()
}
OF_ONE = {
    f"{name}(x)": Formula(f"{name}(x)", f"{name}(a)", data) for name, data in ARGUMENTS.items()
}
OF_TWO = {
    f"{name}(x, y)": Formula(f"{name}(x, y)", f"{name.replace('square', 'pow')}(a, b)", data)
    for name, data in ARGUMENTS_OF_TWO.items()
}
FORMULAS = {
    **{name: Formula(name, text) for name, text in {**ELEMENTWISE, **REDUCTIONS, **SIX}.items()},
    **OF_ONE,
    **SUMS,
    **OF_TWO,
}
LISTS = {"SIX": SIX, "ELEMENTWISE": ELEMENTWISE, "REDUCTIONS": REDUCTIONS, "SUMS": SUMS}
LISTS |= {"OF_ONE": OF_ONE, "FUNCTIONS": {**OF_ONE, **OF_TWO}}


def formula(name: str) -> Formula:
    """Returns the formula of a name; any other text is a formula of its own."""
    return FORMULAS.get(name) or Formula(name, name)


def calls_of(words: Iterable[str]) -> list[str]:
    """Returns the calls of words; those of a list's name are its calls."""
    return [call for word in words for call in LISTS.get(word, [word])]


class Case(NamedTuple):
    """A call on the first `n` elements of arrays of one type and memory kind."""

    call: str
    dtype: str
    kind: str
    n: int

    def __str__(self) -> str:
        """The case in words."""
        return f"{self.call} {self.dtype} {self.kind} n = {self.n:,}"

    def bytes_(self) -> int:
        """Returns the size of the case's arrays."""
        return (1 + len(formula(self.call).inputs)) * self.n * np.dtype(DTYPES[self.dtype]).itemsize


def case_of(row: Row) -> Case:
    """Returns the case of a row."""
    return Case(*(row[name] for name in Case._fields))


def cases_of(
    calls: Iterable[str], dtypes: Iterable[str], kinds: Iterable[str], sizes: Iterable[int]
) -> list[Case]:
    """Returns every case, in random order."""
    cases = [Case(*parts) for parts in product(calls, dtypes, kinds, sizes)]
    return random.Random(0).sample(cases, len(cases))


def fitting(cases: list[Case], device: Optional[Device]) -> list[Case]:
    """Leaves out cases whose arrays exceed half of the free memory, or 0.9 of a device's."""
    text = Path("/proc/meminfo").read_text()
    free = 1024 * int(text.split("MemAvailable:")[1].split()[0]) / 2
    on_device = 0.9 * device.free_bytes() if device else 0.0
    return [
        case for case in cases if case.bytes_() < (on_device if case.kind == "device" else free)
    ]


def by_memory(cases: Iterable[Case]) -> list[list[Case]]:
    """Groups cases by their type and memory kind, in their order."""
    key = lambda case: (case.dtype, KINDS.index(case.kind))  # noqa: E731
    return [list(group) for _, group in groupby(sorted(cases, key=key), key=key)]


def values(rng: np.random.Generator, n: int, dtype: np.dtype, data: Distribution) -> np.ndarray:
    """Makes values of a distribution."""
    name, *numbers = data
    if not isinstance(name, str):
        return rng.uniform(*data, n)
    if name == "whole":
        return rng.integers(0, numbers[0], n)
    normal, at, limits = rng.standard_normal(n), np.arange(n), np.finfo(dtype)
    # The greatest exponent: values do not exceed it by much.
    top = limits.maxexp - 8
    if name == "sorted":
        return np.sort(normal)
    if name == "some":
        return normal * (at % numbers[0] == 0)
    if name == "spread":
        most = int(numbers[0] * top)
        return np.ldexp(normal, rng.integers(-most, most + 1, n))
    if name == "scaled":
        return np.ldexp(normal, np.where(at % numbers[0] == 0, int(numbers[1] * top), 0))
    if name == "blocks":
        return np.ldexp(normal, np.where(at // numbers[0] % 2, int(numbers[1] * top), 0))
    if name == "subnormal":
        return normal * float(limits.smallest_subnormal) * 1000
    return normal * numbers[0]


def fill(array: np.ndarray, seed: int, data: Distribution = USUAL) -> None:
    """Fills an array with values of a distribution, and so touches every page."""
    made = values(np.random.default_rng(seed), min(PERIOD, array.size), array.dtype, data)
    made = made.astype(array.dtype)
    for start in range(0, array.size, PERIOD):
        part = array[start : start + PERIOD]
        part[:] = made[: part.size]


class Arrays:
    """Inputs a to d and an output of one type and memory kind; cases use their first elements."""

    def __init__(self, dtype: str, kind: str, n: int, device: Optional[Device]) -> None:
        self.dtype, self.kind, self.n, self.device = DTYPES[dtype], kind, n, device
        self.made: dict[str, Any] = {}
        self.filled: dict[str, Distribution] = {}
        self.memory: dict[str, DeviceMemory] = {}

    def new(self) -> Any:
        """Makes an array."""
        if self.kind == "pageable":
            return np.zeros(self.n, self.dtype)
        self.device.enter()
        make = self.device.pinned if self.kind == "pinned" else self.device.memory
        return make(self.n, self.dtype)

    def input(self, name: str, data: Distribution) -> Any:
        """Returns an input with values of a distribution."""
        if self.filled.get(name) != data:
            array = self.made[name] if name in self.made else self.new()
            values = np.empty(self.n, self.dtype) if self.kind == "device" else array
            fill(values, ord(name), data)
            if self.kind == "device":
                self.device.put(array.address, values)
            self.made[name], self.filled[name] = array, data
        return self.made[name]

    def out(self) -> Any:
        """Returns the output."""
        if "out" not in self.made:
            self.made["out"] = self.new()
        return self.made["out"]

    def buffer(self, name: str) -> DeviceMemory:
        """Returns device memory for an array: the array itself, or a buffer to copy it to."""
        if self.kind == "device":
            return self.made[name]
        if name not in self.memory:
            self.device.enter()
            self.memory[name] = self.device.memory(self.n, self.dtype)
        return self.memory[name]

    def close(self) -> None:
        """Frees the memory; it must not be used afterwards."""
        for memory in self.memory.values():
            self.device.free(memory)
        if self.kind != "pageable":
            free = self.device.free_pinned if self.kind == "pinned" else self.device.free
            for array in self.made.values():
                free(array)
        self.made, self.memory = {}, {}


class Data:
    """The arrays of a case."""

    def __init__(self, case: Case, arrays: Arrays) -> None:
        self.case, self.arrays, self.formula = case, arrays, formula(case.call)
        names = zip(self.formula.inputs, self.formula.data)
        self.inputs = {name: first(arrays.input(name, data), case.n) for name, data in names}
        self.out = first(arrays.out(), case.n)
        # True while results are compared: peers on the GPU then store those of reductions.
        self.is_compared = False

    def buffers(self) -> tuple[dict[str, DeviceMemory], DeviceMemory]:
        """Returns the inputs and the output in device memory."""
        inputs = {name: first(self.arrays.buffer(name), self.case.n) for name in self.inputs}
        return inputs, first(self.arrays.buffer("out"), self.case.n)

    def compared(self) -> slice:
        """Returns the part of the output to compare."""
        if self.formula.is_reduction():
            size = 8 if self.formula.is_integer() else np.dtype(self.arrays.dtype).itemsize
            return slice(0, size // np.dtype(self.arrays.dtype).itemsize)
        return slice(max(0, self.case.n - COMPARED), self.case.n)

    def clear(self) -> None:
        """Overwrites that part."""
        end = self.compared()
        if self.case.kind != "device":
            self.out[end] = -1
            return
        values = np.full(end.stop - end.start, -1, self.arrays.dtype)
        self.arrays.device.put(self.out.address + end.start * values.itemsize, values)

    def results(self) -> np.ndarray:
        """Returns a copy of that part."""
        end = self.compared()
        values = np.empty(end.stop - end.start, self.arrays.dtype)
        if self.case.kind == "device":
            self.arrays.device.get(self.out.address + end.start * values.itemsize, values)
        else:
            values[:] = self.out[end]
        return values.view(np.int64) if self.formula.is_integer() else values


def first(array: Any, n: int) -> Any:
    """Returns the first elements of an array in any memory."""
    return array[:n] if isinstance(array, np.ndarray) else array.first(n)


def address(array: Any) -> int:
    """Returns the address of an array in any memory."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.address
