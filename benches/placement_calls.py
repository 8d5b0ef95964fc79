"""Six calls of gpuvec on host arrays, timed from C, in this process or in another.

The library is loaded through ctypes with the few functions that the calls need, so that builds of
different versions can be compared.
"""

import argparse
import ctypes
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from ctypes import c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
from formulas_measured import Formula, black_scholes
from timing import Contender

ROOT = Path(__file__).resolve().parents[1]

# The header's numbers of the placements are their places in this tuple.
PLACEMENTS = ("auto", "gpu", "cpu", "all")
KINDS = ("pageable", "pinned")
DTYPES = {"f32": np.float32, "f64": np.float64}
# `GPUVEC_F32` and `GPUVEC_F64`.
TYPE_NUMBERS = {"f32": 9, "f64": 10}

# The calls: two functions of the header and four expressions.
FUNCTIONS = ("add", "dot")
FORMULAS = {
    "3ops": Formula("3ops", "a * b + a - 2"),
    "exp": Formula("exp", "exp(a)"),
    "black-scholes": Formula("black-scholes", black_scholes()),
    "sum-sqrt": Formula("sum-sqrt", "sum(sqrt(a * a + b * b))"),
}
CALLS = (*FUNCTIONS, *FORMULAS)
REDUCTIONS = ("dot", "sum-sqrt")

# Inputs a, b and c, and the output.
ARRAYS = 4
# The period of the values: a prime, so that it does not align with chunks.
PERIOD = 1_000_003

# Placement auto is measured after this number of calls of the case, or after this time.
CALLS_BEFORE, SECONDS_BEFORE = 30, 0.5


class Case(NamedTuple):
    """A call on the first `n` elements of arrays of one type and memory kind."""

    call: str
    dtype: str
    kind: str
    n: int

    def __str__(self) -> str:
        """The case in words."""
        return f"{self.call} {self.dtype} {self.kind} n = {self.n:,}"


class Run(ctypes.Structure):
    """The fields of `gpuvec_run`; a build that has fewer leaves the others 0."""

    _fields_ = [
        ("backend", c_int32),
        ("path", c_uint32),
        ("devices", c_uint64),
        ("threads", c_uint64),
        ("chunks", c_uint64),
        ("bytes_staged", c_uint64),
        ("choice", c_int32),
        ("reason", c_int32),
        ("time_ns", c_uint64),
        ("predicted_ns", c_uint64 * 8),
    ]


def all_cases(
    calls: Iterable[str], dtypes: Iterable[str], kinds: Iterable[str], sizes: Iterable[int]
) -> list[Case]:
    """Returns every case of these calls, types, memory kinds and sizes."""
    return [Case(*parts) for parts in product(calls, dtypes, kinds, sizes)]


def fitting(cases: list[Case]) -> list[Case]:
    """Returns the cases whose arrays fit in half of the free memory, the longest left out."""
    text = Path("/proc/meminfo").read_text()
    free = 1024 * int(text.split("MemAvailable:")[1].split()[0])
    kept = cases
    while sum(map(bytes_of, longest(kept))) > free / 2:
        most = max(map(bytes_of, kept))
        kept = [case for case in kept if bytes_of(case) < most]
    return kept


def bytes_of(case: Case) -> int:
    """Returns the size of a case's arrays."""
    return ARRAYS * case.n * np.dtype(DTYPES[case.dtype]).itemsize


def longest(cases: Iterable[Case]) -> list[Case]:
    """Returns the longest case of each type and memory kind."""
    by_memory = sorted(cases, key=lambda case: (case.dtype, case.kind, case.n))
    groups = groupby(by_memory, key=lambda case: (case.dtype, case.kind))
    return [list(group)[-1] for _, group in groups]


def fill(array: np.ndarray, seed: int) -> None:
    """Fills an array with numbers from 0.5 to 1.5, and so touches every page."""
    values = np.random.default_rng(seed).random(min(PERIOD, array.size), array.dtype)
    values += 0.5
    for start in range(0, array.size, PERIOD):
        part = array[start : start + PERIOD]
        part[:] = values[: part.size]


def library_path() -> str:
    """Returns the path of the library: GPUVEC_LIB, or the release build."""
    return os.environ.get("GPUVEC_LIB") or str(ROOT / "target/release/libgpuvec.so")


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


class Library:
    """A build of gpuvec, loaded in this process."""

    def __init__(self, path: str) -> None:
        self.functions = functions = ctypes.CDLL(path)
        functions.pinned_alloc.restype = c_void_p
        functions.pinned_alloc.argtypes = [c_size_t]
        functions.gpuvec_last_error.restype = c_char_p
        functions.gpuvec_expr_compile.argtypes = [c_char_p, c_void_p, c_void_p, c_size_t, c_void_p]
        functions.gpuvec_last_run.argtypes = [c_void_p, c_size_t]

    def has_gpu(self) -> bool:
        """Says whether there is a GPU; opens the driver."""
        return bool(self.functions.gpuvec_device_count() > 0)

    def set_placement(self, placement: str) -> None:
        """Sets the placement of later calls."""
        self.check(self.functions.gpuvec_set_placement(PLACEMENTS.index(placement)))

    def check(self, status: int) -> None:
        """Raises the last error if there is one."""
        if status:
            raise RuntimeError(self.functions.gpuvec_last_error().decode())

    def ran(self) -> str:
        """Tells where the last call ran: "gpu", or "cpu" and the number of threads."""
        run = self.last_run()
        if run.backend == 1:
            return f"cpu {run.threads}"
        return "gpu and cores" if run.path & 2 else "gpu"

    def last_run(self) -> Run:
        """Tells how the last call ran."""
        run = Run()
        self.check(self.functions.gpuvec_last_run(ctypes.byref(run), ctypes.sizeof(run)))
        return run

    def memory(self, kind: str, dtype: str, n: int) -> np.ndarray:
        """Makes an array, which lives as long as the process."""
        if kind == "pageable":
            return np.empty(n, DTYPES[dtype])
        size = n * np.dtype(DTYPES[dtype]).itemsize
        address = self.functions.pinned_alloc(size)
        if not address:
            raise MemoryError(self.functions.gpuvec_last_error().decode())
        memory = (ctypes.c_char * size).from_address(address)
        return np.ndarray(n, DTYPES[dtype], buffer=memory)

    def expression(self, formula: Formula, dtype: str) -> c_void_p:
        """Compiles a formula, for as long as the process lives."""
        names = [name.encode() for name in formula.inputs]
        count, handle = len(names), c_void_p()
        types = (c_int32 * count)(*[TYPE_NUMBERS[dtype]] * count)
        status = self.functions.gpuvec_expr_compile(
            formula.text.encode(),
            (c_char_p * count)(*names),
            types,
            count,
            ctypes.byref(handle),
        )
        self.check(status)
        return handle


def kinds_of(given: argparse.Namespace, library: Library) -> list[str]:
    """Returns the memory kinds to measure; page-locked memory needs a GPU."""
    return [kind for kind in given.kinds if kind != "pinned" or library.has_gpu()]


def cases_of(given: argparse.Namespace, kinds: list[str]) -> list[Case]:
    """Returns the chosen cases whose arrays fit in memory, in random order."""
    wanted = all_cases(given.calls, given.types, kinds, given.sizes)
    cases = fitting(wanted)
    if len(cases) < len(wanted):
        print(f"{len(wanted) - len(cases)} cases are left out: their arrays exceed the memory")
    return random.Random(0).sample(cases, len(cases))


def warmed_up(batch: Callable[[int], float]) -> list[float]:
    """Makes calls of placement auto before it is measured; returns their times."""
    seconds: list[float] = []
    while len(seconds) < CALLS_BEFORE and sum(seconds) < SECONDS_BEFORE:
        seconds.append(batch(1))
    return seconds


@cache
def c_loop() -> Any:
    """Compiles and loads the C loop that times calls."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "libcalls.so"
        source = ROOT / "benches/calls.c"
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-O3", "-shared", "-fPIC", source, "-o", built], check=True)
        loop = ctypes.CDLL(str(built)).time_family
    loop.argtypes = [c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_int64]
    loop.restype = c_double
    return loop


class Program:
    """A program that makes the calls: the library and the arrays of all cases."""

    def __init__(self, path: str, cases: Iterable[Case]) -> None:
        self.library = Library(path)
        self.arrays: dict[tuple[str, str], list[np.ndarray]] = {}
        self.expressions: dict[tuple[str, str], c_void_p] = {}
        for case in longest(cases):
            arrays = [self.library.memory(case.kind, case.dtype, case.n) for _ in range(ARRAYS)]
            for seed, array in enumerate(arrays):
                fill(array, seed)
            self.arrays[case.dtype, case.kind] = arrays

    def arguments(self, case: Case) -> tuple[Any, tuple[Any, Any, int]]:
        """Returns the function of a case, and its first three arguments."""
        a, b, c, out = (array.ctypes.data for array in self.arrays[case.dtype, case.kind])
        if case.call in FUNCTIONS:
            function = getattr(self.library.functions, f"gpuvec_{case.call}_{case.dtype}")
            return function, (a, b, out)
        formula, key = FORMULAS[case.call], (case.call, case.dtype)
        if key not in self.expressions:
            self.expressions[key] = self.library.expression(formula, case.dtype)
        inputs = [{"a": a, "b": b, "c": c}[name] for name in formula.inputs]
        pointers = (c_void_p * len(inputs))(*inputs)
        return self.library.functions.gpuvec_expr_run, (self.expressions[key], pointers, out)

    def batch(self, case: Case, placement: str) -> Callable[[int], float]:
        """Makes a C loop of calls, which sets the placement before it starts its clock."""
        function, (first, second, out) = self.arguments(case)
        loop, call = c_loop(), ctypes.cast(function, c_void_p)

        def batch(calls: int) -> float:
            self.library.set_placement(placement)
            seconds = loop(call, first, second, out, case.n, None, calls)
            if seconds < 0:
                message = self.library.functions.gpuvec_last_error().decode()
                raise RuntimeError(f"{case}, placement {placement}: {message}")
            return float(seconds)

        return batch

    def contender(self, case: Case, placement: str) -> Contender:
        """Returns the case under a placement as a contender with the placement's name."""
        return Contender(placement, self.batch(case, placement))


class OtherProcess:
    """A program in a process of its own, which makes the calls that it is told to make."""

    def __init__(self, path: str, cases: list[Case], **environment: str) -> None:
        command = [sys.executable, str(ROOT / "benches/placement.py"), "serve", path]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ask(longest(cases))

    def ask(self, question: object) -> Any:
        """Sends a line of JSON and returns the answer."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the other process ended with {self.process.wait()}")
        return json.loads(line)

    def contender(self, case: Case, placement: str, name: str) -> Contender:
        """Returns calls in that process as a contender."""
        return Contender(name, lambda calls: float(self.ask([case, placement, calls])))

    def close(self) -> None:
        """Ends the process."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def serve(path: str) -> None:
    """Answers each line of cases, placement and number of calls with the seconds that they took."""
    program: Optional[Program] = None
    batches: dict[tuple[Case, str], Callable[[int], float]] = {}
    for line in sys.stdin:
        question = json.loads(line)
        if program is None:
            program = Program(path, [Case(*case) for case in question])
            print("true", flush=True)
            continue
        parts, placement, calls = question
        key = Case(*parts), placement
        if key not in batches:
            batches[key] = program.batch(*key)
        print(json.dumps(batches[key](calls)), flush=True)
