"""Compares expressions on one core with numexpr and with one loop that a C compiler fuses.

    cargo bench --no-run --bench expression
    python3 benches/expressions.py target/release/deps/expression-HASH [--n 1000,100000]

All take turns, one thread each, and the least times count. Ratios above 1 mean that gpuvec is faster.
"""

import argparse
import ctypes
import re
import subprocess
import tempfile
import time
from pathlib import Path

import numexpr
import numpy as np

ROUNDS = 3
SECONDS = 0.2

K = "(1 / (1 + 0.2316419 * {x}))"
POLYNOMIAL = "({k} * (0.31938153 + {k} * (-0.356563782 + {k} * (1.781477937 + {k} * (-1.821255978 + {k} * 1.330274429)))))"


def normal_distribution(x: str) -> str:
    """Return the cumulative normal distribution, by the series of Abramowitz and Stegun (26.2.17)."""
    series = POLYNOMIAL.format(k=K.format(x=f"abs({x})"))
    tail = f"(0.39894228 * exp({x} * {x} * -0.5) * {series})"
    return f"where({x} < 0, {tail}, 1 - {tail})"


def black_scholes() -> str:
    """Return the price of a call option: of the price a, strike b and time c, at fixed rate and volatility."""
    d1 = "((log(a / b) + 0.065 * c) / (0.3 * sqrt(c)))"
    d2 = f"({d1} - 0.3 * sqrt(c))"
    return f"a * {normal_distribution(d1)} - b * exp(-0.02 * c) * {normal_distribution(d2)}"


def horner(terms: int) -> str:
    """Return a polynomial, of two operations for each term."""
    text = "0.5"
    for i in range(terms):
        text = f"({text}) * a + {0.1 + 0.01 * i:.2f}"
    return text


LONG = (
    "where(a < b, (a + b) * c - d, (a - b) * c + d) / (c + 0.5)"
    " + (a * b - c * d) * (a + d) - (b + c) * 0.125 + (a - d) * (b - 0.5) * c"
)

CASES = {
    "1 op": ("a + b", "f32 f64"),
    "3 ops": ("a * b + c * d", "f32 f64"),
    "8 ops": ("(a + b) * (c - d) + (a - c) * (b + d) - a * 0.5", "f32 f64"),
    "20 ops": (horner(10), "f32 f64"),
    "24 ops": (LONG, "f32 f64"),
    "sqrt": ("sqrt(a * a + b * b)", "f32 f64"),
    "exp": ("exp(a)", "f32 f64"),
    "Black-Scholes": (black_scholes(), "f32 f64"),
}

TYPES = {"f32": ("float", np.float32, "f"), "f64": ("double", np.float64, "")}


def least(run) -> float:
    """Return the least time of some runs."""
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def fused_loop(text: str, ty: str, folder: Path):
    """Compile an expression as one loop in C, without contraction."""
    c_type, _, suffix = TYPES[ty]
    text = re.sub(r"(?<![\w.])(\d+\.?\d*)(?![\w.])", lambda m: m[1] + ("" if "." in m[1] else ".0") + suffix, text)
    text = re.sub(r"\b(sqrt|exp|log)\(", rf"\1{suffix}(", text).replace("abs(", f"fabs{suffix}(")
    source = folder / "loop.c"
    source.write_text(
        "#include <math.h>\n#include <stddef.h>\n#define where(c, x, y) ((c) ? (x) : (y))\n"
        + f"void loop(size_t n, {c_type} *restrict out, const {c_type} *a, const {c_type} *b,"
        + f" const {c_type} *c, const {c_type} *d) {{ for (size_t i = 0; i < n; ++i) out[i] = "
        + re.sub(r"\b([abcd])\b(?!\()", r"\1[i]", text)
        + "; }\n"
    )
    library = folder / f"loop_{abs(hash((text, ty)))}.so"
    flags = ["-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, source, "-o", library, "-lm"], check=True)
    return ctypes.CDLL(str(library)).loop


def numexpr_call(text: str, arrays: dict, out: np.ndarray):
    """Return a call of numexpr, in which literals have the arrays' type."""
    names = dict(arrays)

    def name(match: re.Match) -> str:
        key = "k" + re.sub(r"\W", "_", match[1])
        names[key] = out.dtype.type(float(match[1]))
        return key

    text = re.sub(r"(?<![\w.])(\d+\.?\d*)(?![\w.])", name, text)
    numexpr.evaluate(text, names, out=out, casting="same_kind")
    return lambda: numexpr.re_evaluate(names)


def gpuvec_time(program: str, text: str, ty: str, n: int) -> float:
    """Return the best version's time for an element, in nanoseconds."""
    run = subprocess.run([program, str(n), ty, text], check=True, capture_output=True, text=True)
    return min(float(line.split()[1]) for line in run.stdout.splitlines()[1:])


def main() -> None:
    """Print a line for each expression, type and length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--n", default="100000")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    numexpr.set_num_threads(1)
    print(f"{'':14} type        n   gpuvec  numexpr    fused ns  numexpr/gpuvec  gpuvec/fused")
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, types) in CASES.items():
            if arguments.only not in name:
                continue
            for ty in types.split():
                for n in map(int, arguments.n.split(",")):
                    compare(arguments.program, name, text, ty, n, Path(folder))


def compare(program: str, name: str, text: str, ty: str, n: int, folder: Path) -> None:
    """Measure an expression and print its line."""
    dtype = TYPES[ty][1]
    arrays = {key: ((np.arange(n) + i) * 0.6180339887498949 % 1 + 0.5).astype(dtype) for i, key in enumerate("abcd")}
    out = np.empty(n, dtype)
    evaluate = numexpr_call(text, arrays, out)
    loop = fused_loop(text, ty, folder)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (out, *arrays.values())]
    times = [[], [], []]
    for _ in range(ROUNDS):
        times[0].append(gpuvec_time(program, text, ty, n))
        times[1].append(least(evaluate) * 1e9 / n)
        times[2].append(least(lambda: loop(ctypes.c_size_t(n), *pointers)) * 1e9 / n)
    ours, theirs, fused = map(min, times)
    print(
        f"{name:14} {ty} {n:>8} {ours:8.3f} {theirs:8.3f} {fused:8.3f}     {theirs / ours:11.2f} {ours / fused:13.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
