"""Measures expressions beside NumPy, numexpr, CuPy, PyTorch and a loop of gcc's, in one run.

    GPUVEC_LIB=target/gpu/libgpuvec.so python3 benches/expression_table.py --output target/bench
    ... --parts core,first

Writes expressions.json and expressions.md; takes less than 200 seconds. Each part is a process of
its own, since a process reads its number of threads once. Measures the contenders that are
installed, and only the cores if there is no GPU. A time is the mean of a batch of calls, the least
of all batches.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
import numpy as np
from bindings import Place, last_error, lib
from ceilings import OfGpu
from compiled import Compiled
from device import ROOT, Device, driver_version, why_no_gpu
from expression_peers import CuPyKernels, Data, Eager, Fused, Gpuvec, NumExpr
from formulas import Compiled as Expression
from formulas_measured import ELEMENTWISE, REDUCTIONS, Formula, named
from header import enumeration
from peers import cores
from programs import library_environment
from progress import progress
from timing import measure

# The seconds after which a part is ended.
MOST_SECONDS = {"core": 40, "cores": 45, "device": 60, "host": 35, "first": 20}

# For the formulas that are compiled in a process of their own.
FIRST = ["1 op", "3 ops", "24 ops", "exp", "Black-Scholes", "sum of 3 ops"]
ON_HOST = ["1 op", "3 ops", "8 ops", "exp", "Black-Scholes"]
N_ON_CORE, N_ON_CORES, N_ON_DEVICE, N_ON_HOST = 100_000, 10_000_000, 1 << 27, 100_000_000
F64_ON_CORES = ["1 op", "8 ops", "24 ops", "exp", "Black-Scholes"]

Row = dict[str, Any]
F32 = enumeration("gpuvec_type")["GPUVEC_F32"]


def microseconds(contenders: list, seconds: float, rounds: int) -> dict[str, float]:
    """Returns the shortest time of each contender."""
    results = measure(contenders, seconds, rounds)
    return {name: figures["min_us"] for name, figures in results.items()}


def installed(*makers: Callable[[], Any]) -> list:
    """Returns the installed contenders, and prints why others are missing."""
    found = []
    for maker in makers:
        try:
            found.append(maker())
        except Exception as error:
            print(f"not measured: {type(error).__name__}: {error}", file=sys.stderr)
    return found


def row(peers: list, formula: Formula, data: Data, seconds: float, rounds: int) -> Row:
    """Measures a formula; a peer that cannot evaluate it is left out."""
    contenders = installed(*(lambda peer=peer: peer.contender(formula, data) for peer in peers))
    us = microseconds(contenders, seconds, rounds)
    return {"formula": formula.name, "type": data.dtype, "n": data.n, "us": us}


def torch_of(threads: int) -> Eager:
    """Returns PyTorch on cores."""
    eager = Eager("torch", "PyTorch", array=lambda one: eager.library.from_numpy(one))
    eager.library.set_num_threads(threads)
    return eager


def on_cores(compiled: Compiled, threads: int) -> list:
    """Returns the contenders on cores."""
    return installed(
        lambda: Gpuvec(compiled, Place.CPU),
        lambda: NumExpr(threads),
        lambda: Eager("numpy", "NumPy"),
        lambda: torch_of(threads),
    )


def core(compiled: Compiled, folder: Path) -> Iterator[Row]:
    """One thread, arrays in its cache."""
    peers = [*on_cores(compiled, 1), *installed(lambda: Fused(folder))]
    for dtype in ("f32", "f64"):
        data = Data(dtype, N_ON_CORE, "pageable")
        for formula in ELEMENTWISE:
            yield row(peers, formula, data, 0.25, 5)
        for formula in REDUCTIONS:
            some = [one for one in peers if one.name not in ("numexpr", "gcc's loop")]
            yield row(some, formula, data, 0.1, 4)


def all_cores(compiled: Compiled, _: Path) -> Iterator[Row]:
    """All threads, arrays in memory."""
    # NumPy has one thread.
    peers = [one for one in on_cores(compiled, cores()) if one.name != "NumPy"]
    for dtype in ("f32", "f64"):
        data = Data(dtype, N_ON_CORES, "pageable")
        for formula in ELEMENTWISE:
            if dtype == "f32" or formula.name in F64_ON_CORES:
                yield row(peers, formula, data, 0.3, 3)
        some = [one for one in peers if one.name != "numexpr"]
        yield row(some, named("sum of 3 ops"), data, 0.3, 3)


def on_device(compiled: Compiled, _: Path, n: int = N_ON_DEVICE) -> Iterator[Row]:
    """Arrays of 2^27 elements in device memory, or of another length."""
    device = Device()
    peers = installed(
        lambda: Gpuvec(compiled, Place.GPU), CuPyKernels, of_cupy, lambda: torch_on(device)
    )
    for dtype in ("f32", "f64"):
        with closing(Data(dtype, n, "device", device)) as data:
            for formula in ELEMENTWISE:
                yield row(peers, formula, data, 0.2, 4)
            for formula in REDUCTIONS:
                is_sum = formula.text.startswith("sum(")
                some = peers if is_sum else [one for one in peers if one.name != "CuPy kernel"]
                yield row(some, formula, data, 0.15, 4)


def of_cupy() -> Eager:
    """Returns CuPy, one operation after the other."""
    cupy = Eager("cupy", "CuPy", array=lambda one: cupy.library.asarray(one))
    cupy.wait = cupy.library.cuda.Stream.null.synchronize
    return cupy


def torch_on(device: Device) -> Eager:
    """Returns PyTorch on the GPU."""
    torch = Eager("torch", "PyTorch", lambda one: torch.library.as_tensor(one, device="cuda"))
    torch.wait = torch.library.cuda.synchronize
    device.set_current(device.context)
    return torch


def on_host(compiled: Compiled, _: Path) -> Iterator[Row]:
    """Arrays of 10^8 elements in host memory: the GPU, all cores, and what the bus allows."""
    device = Device()
    n = N_ON_HOST
    bus = OfGpu(device, 4 * n, 3)
    allowed = {count: 1e6 * min(bus.transfer(count, 1)) for count in range(1, 5)}
    bus.close()
    places = (("GPU", Place.GPU), ("cores", Place.CPU), ("auto", Place.AUTO))
    peers = [Gpuvec(compiled, place, name) for name, place in places]
    peers += installed(lambda: NumExpr(cores()))
    for kind in ("pinned", "pageable"):
        with closing(Data("f32", n, kind, device)) as data:
            yield {**added(data), "kind": kind, "bus_us": allowed[2]}
            for formula in map(named, ON_HOST):
                found = row(peers, formula, data, 0, 3)
                yield {**found, "kind": kind, "bus_us": allowed[len(formula.inputs)]}


def added(data: Data) -> Row:
    """Measures the library's add on the GPU, which is not an expression."""
    lib.gpuvec_set_placement(Place.GPU)
    a, b = (data.inputs[name].ctypes.data for name in "ab")
    arguments = (a, b, data.out_address, data.n, None)
    times = [timed(lambda: lib.gpuvec_add_f32(*arguments)) for _ in range(4)]
    return {"formula": "vector_add", "type": "f32", "n": data.n, "us": {"GPU": min(times)}}


def timed(call: Callable[[], int]) -> float:
    """Returns the microseconds of a call that must succeed."""
    start = time.perf_counter()
    status = call()
    us = 1e6 * (time.perf_counter() - start)
    if status:
        raise RuntimeError(last_error())
    return us


def first(compiled: Compiled, _: Path) -> Iterator[Row]:
    """Compiling, and the first calls in a new process, with an empty and a full driver cache."""
    yield {"formula": "24 ops", "us": compile_times(named("24 ops"))}
    yield {"formula": "1 op, n = 1000", "us": small_calls(compiled)}
    if why_no_gpu():
        return
    for name in FIRST:
        with tempfile.TemporaryDirectory() as cache:
            us: dict[str, float] = {}
            for state in ("empty cache", "full cache"):
                for key, value in in_new_process(name, cache).items():
                    us[f"{key}, {state}"] = value
            yield {"formula": name, "us": us}


def compile_times(formula: Formula) -> dict[str, float]:
    """Returns the times to compile a new text, and one that the library remembers."""
    inputs = dict.fromkeys(formula.inputs, F32)
    texts = [f"{formula.text} + {number}" for number in range(500)]

    def compile_all(some: list[str]) -> float:
        start = time.perf_counter()
        for text in some:
            with Expression(text, inputs):
                pass
        return 1e6 * (time.perf_counter() - start) / len(some)

    new = compile_all(texts)
    return {"compile": new, "compile again": min(compile_all(texts[-1:] * 500) for _ in range(3))}


def small_calls(compiled: Compiled) -> dict[str, float]:
    """Returns the times of calls on 1,000 elements on the calling core."""
    data = Data("f32", 1000, "pageable")
    lib.gpuvec_set_placement(Place.CPU)
    run = Gpuvec(compiled, Place.CPU, "expression").contender(named("1 op"), data)
    addresses = (*(data.inputs[name].ctypes.data for name in "ab"), data.out_address)
    add = run._replace(
        name="vector_add", batch=compiled.batch(lib.gpuvec_add_f32, addresses, data.n, None)
    )
    return microseconds([run, add], 0.2, 5)


def in_new_process(name: str, cache: str) -> dict[str, float]:
    """Runs `first_calls` in a new process with that folder as the driver's cache."""
    environment = library_environment(CUDA_CACHE_PATH=cache, CUDA_CACHE_DISABLE="0")
    command = [sys.executable, __file__, "--first-calls", name]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=30, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def first_calls(formula: Formula) -> dict[str, float]:
    """Returns the times of a first call on the GPU, and of one after it, with the driver open."""
    lib.gpuvec_set_placement(Place.GPU)
    one = np.ones(1000, np.float32)
    warm = [one.ctypes.data, one.ctypes.data, one.ctypes.data, 1000, None]
    timed(lambda: lib.gpuvec_mul_f32(*warm))
    arrays, out = [np.ones(1000, np.float32) for _ in formula.inputs], np.ones(1000, np.float32)
    with Expression(formula.text, dict.fromkeys(formula.inputs, F32)) as expression:
        pointers = [array.ctypes.data for array in arrays]
        call = lambda: expression.run(pointers, out.ctypes.data, 1000)  # noqa: E731
        return {"first call": timed(call), "later call": min(timed(call) for _ in range(20))}


PARTS = {
    "core": core,
    "cores": all_cores,
    "device": on_device,
    "host": on_host,
    "first": first,
}
OF_GPU = ["device", "host"]


def run_part(name: str, n: Optional[int]) -> None:
    """Measures a part, and prints each row when it is measured."""
    length = {"n": n} if n and name == "device" else {}
    with tempfile.TemporaryDirectory() as folder:
        compiled = Compiled(Path(folder))
        for found in PARTS[name](compiled, Path(folder), **length):
            print(json.dumps(found), flush=True)


def rows_of(part: str, seconds: float) -> list[Row]:
    """Measures a part in a process of its own, until its time limit."""
    threads = "1" if part in ("core", "first") else str(cores())
    names = ("GPUVEC_NUM_THREADS", "NUMEXPR_MAX_THREADS", "OMP_NUM_THREADS")
    environment = library_environment(**dict.fromkeys(names, threads))
    command = ["timeout", f"{seconds:.0f}", sys.executable, __file__, "--part", part]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"part {part}: exit status {done.returncode}", file=sys.stderr)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def ratio(us: dict[str, float], of: str) -> Optional[str]:
    """Returns how many times as long as gpuvec another contender took."""
    ours, others = us.get("gpuvec"), us.get(of)
    return f"{others / ours:.2f} ×" if ours and others else None


def table(heads: list[str], lines: list[list[Optional[str]]]) -> str:
    """Makes a table in Markdown."""
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(cell or "" for cell in line) + " |" for line in rows)


def compared(rows: list[Row]) -> str:
    """Shows gpuvec's time for an element, and each peer's time divided by it."""
    peers = list(dict.fromkeys(name for one in rows for name in one["us"] if name != "gpuvec"))
    lines = [
        [
            *(one["formula"], one["type"], f"{1e3 * one['us']['gpuvec'] / one['n']:.4g}"),
            *(ratio(one["us"], name) for name in peers),
        ]
        for one in rows
        if "gpuvec" in one["us"]
    ]
    return table(["formula", "type", "gpuvec, ns/element", *peers], lines)


def with_rates(rows: list[Row]) -> str:
    """Shows the bytes of device memory in a second, too, as a share of the expression `a + b`."""

    def rate(one: Row) -> float:
        formula = named(one["formula"])
        arrays = len(formula.inputs) + (formula in ELEMENTWISE)
        return arrays * one["n"] * int(one["type"][1:]) / 8 / one["us"]["gpuvec"] / 1e3

    adds = {one["type"]: rate(one) for one in rows if one["formula"] == "1 op"}
    lines = [
        [one["formula"], one["type"], f"{rate(one):.0f}", f"{rate(one) / adds[one['type']]:.3f}"]
        for one in rows
        if "gpuvec" in one["us"] and one["type"] in adds
    ]
    return table(["formula", "type", "GB/s", "of a + b"], lines)


def shares(rows: list[Row]) -> str:
    """Shows times on host arrays, and the share of the bus in the GPU's time."""
    names = list(dict.fromkeys(name for one in rows for name in one["us"]))
    lines = []
    for one in rows:
        ms = [f"{one['us'][name] / 1e3:.1f}" if name in one["us"] else None for name in names]
        share = f"{one['bus_us'] / one['us']['GPU']:.3f}"
        lines.append([one["formula"], one["kind"], *ms, f"{one['bus_us'] / 1e3:.1f}", share])
    return table(
        ["formula", "memory", *(f"{name}, ms" for name in names), "bus, ms", "share"], lines
    )


def latencies(rows: list[Row]) -> str:
    """Shows one time in each line."""
    lines = [
        [one["formula"], what, f"{us:.2f} µs" if us < 1000 else f"{us / 1e3:.2f} ms"]
        for one in rows
        for what, us in one["us"].items()
    ]
    return table(["formula", "what", "time"], lines)


SHOWN = {
    "core": ("One thread, 10^5 elements", compared),
    "cores": ("All threads, 10^7 elements", compared),
    "device": (
        "Device memory, 2^27 elements",
        lambda rows: f"{compared(rows)}\n\n{with_rates(rows)}",
    ),
    "host": ("Host memory, 10^8 elements of f32", shares),
    "first": ("Compiling, small calls and first calls", latencies),
}


def versions() -> dict[str, str]:
    """Returns the versions of the libraries that are installed."""
    names = ["numpy", "numexpr", "torch", "cupy", "cupy-cuda12x", "cupy-cuda13x"]
    found = {}
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def main() -> None:
    """Measures the parts, and writes the data and the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "target" / "bench")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--first-calls", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        run_part(given.part, given.n)
        return
    if given.first_calls:
        print(json.dumps(first_calls(named(given.first_calls))))
        return
    has_gpu = not why_no_gpu()
    about = f"{platform.processor() or platform.machine()}, {cores()} cores"
    about += f", {Device().name()}, driver {driver_version()}" if has_gpu else ", no GPU"
    about += "".join(f", {name} {version}" for name, version in versions().items())
    data: dict[str, Any] = {"about": about}
    given.output.mkdir(parents=True, exist_ok=True)
    texts = [f"# Expressions, measured\n\n{about}."]
    for part in progress(given.parts.split(","), "expressions"):
        if part in OF_GPU and not has_gpu:
            continue
        start = time.perf_counter()
        data[part] = rows_of(part, MOST_SECONDS[part])
        print(f"{part}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
        title, shown = SHOWN[part]
        texts.append(f"## {title}\n\n{shown(data[part])}")
    (given.output / "expressions.json").write_text(json.dumps(data, indent=1))
    (given.output / "expressions.md").write_text("\n\n".join(texts) + "\n")
    print("\n\n".join(texts))


if __name__ == "__main__":
    main()
