"""Compares expressions on one core with numexpr and with one loop that a C compiler fuses.

    GPUVEC_LIB=target/release/libgpuvec.so python3 benches/expressions.py [--n 1000] [--only exp]

All take turns, one thread each, and the least times count. GPUVEC_VECTORS forces a set of vector
instructions.
"""

import argparse
import ctypes
import os
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
POLYNOMIAL = (
    "({k} * (0.31938153 + {k} * (-0.356563782 + {k} * (1.781477937"
    " + {k} * (-1.821255978 + {k} * 1.330274429)))))"
)


def normal_distribution(x: str) -> str:
    """Return the normal distribution, by the series of Abramowitz and Stegun (26.2.17)."""
    series = POLYNOMIAL.format(k=K.format(x=f"abs({x})"))
    tail = f"(0.39894228 * exp({x} * {x} * -0.5) * {series})"
    return f"where({x} < 0, {tail}, 1 - {tail})"


def black_scholes() -> str:
    """Return the price of a call option, for the price a, the strike b and the time c."""
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

# In C: the type, that of NumPy, the suffix of literals and functions; and the gpuvec_type.
TYPES = {"f32": ("float", np.float32, "f", 9), "f64": ("double", np.float64, "", 10)}


LITERAL = re.compile(r"(?<![\w.])(\d+\.?\d*)(?![\w.])")


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
    c_type, _, suffix, _ = TYPES[ty]
    text = LITERAL.sub(lambda m: f"{float(m[1])}{suffix}", text)
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

    text = LITERAL.sub(name, text)
    numexpr.evaluate(text, names, out=out, casting="same_kind")
    return lambda: numexpr.re_evaluate(names)


def gpuvec_call(library: ctypes.CDLL, text: str, ty: str, arrays: dict, out: np.ndarray):
    """Return a call of gpuvec."""
    names = (ctypes.c_char_p * len(arrays))(*(name.encode() for name in arrays))
    types = (ctypes.c_int32 * len(arrays))(*[TYPES[ty][3]] * len(arrays))
    expression = ctypes.c_void_p()
    status = library.gpuvec_expr_compile(
        text.encode(), names, types, len(arrays), ctypes.byref(expression)
    )
    inputs = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays.values()))
    arguments = (
        expression,
        inputs,
        ctypes.c_void_p(out.ctypes.data),
        ctypes.c_size_t(out.size),
        None,
    )
    status = status or library.gpuvec_expr_run(*arguments)
    if status:
        raise SystemExit(f"{text}: status {status}")
    run = library.gpuvec_expr_run
    return lambda: run(*arguments)


def main() -> None:
    """Print a line for each expression, type and length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", default="100000")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    os.environ |= {"GPUVEC_PLACEMENT": "cpu", "GPUVEC_NUM_THREADS": "1"}
    library = ctypes.CDLL(os.environ["GPUVEC_LIB"])
    numexpr.set_num_threads(1)
    print("nanoseconds for an element")
    print(f"{'':14} type        n   gpuvec  numexpr    fused  numexpr/gpuvec  gpuvec/fused")
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, types) in CASES.items():
            if arguments.only in name:
                for ty in types.split():
                    for n in map(int, arguments.n.split(",")):
                        compare(library, name, text, ty, n, Path(folder))


def compare(library: ctypes.CDLL, name: str, text: str, ty: str, n: int, folder: Path) -> None:
    """Measure an expression and print its line."""
    dtype = TYPES[ty][1]
    fractions = np.arange(n) * 0.6180339887498949
    arrays = {key: ((fractions + i * 0.3) % 1 + 0.5).astype(dtype) for i, key in enumerate("abcd")}
    out = np.empty(n, dtype)
    loop = fused_loop(text, ty, folder)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (out, *arrays.values())]
    contenders = [
        gpuvec_call(library, text, ty, arrays, out),
        numexpr_call(text, arrays, out),
        lambda: loop(ctypes.c_size_t(n), *pointers),
    ]
    rounds = [[least(run) * 1e9 / n for run in contenders] for _ in range(ROUNDS)]
    ours, theirs, fused = map(min, zip(*rounds))
    print(
        f"{name:14} {ty} {n:>8} {ours:8.3f} {theirs:8.3f} {fused:8.3f}"
        f" {theirs / ours:15.2f} {ours / fused:13.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
