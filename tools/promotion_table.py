"""Writes NumPy's result types, with which the tests of crates/expr compare.

    python3 tools/promotion_table.py > crates/expr/tests/expr/promotion.txt

A line has an operation, its left operand, and the type of the result for each right operand, in the
order of the first line. Python's numbers are k, an int, h, a float, and expressions of these two. A
dash is an error.
"""

import operator
import warnings

import numpy as np

ARRAYS = "bool u8 i8 u16 i16 u32 i32 u64 i64 f16 f32 f64".split()
INTS = "k -(-k) k+1 k*k-k abs(k) k**2 k//2 k%3".split()
FLOATS = "k/2 k**-1 k**0.5 h -(-h) k+h k*h h//1 h**2".split()
NUMBERS = INTS + FLOATS
TYPES = ARRAYS + NUMBERS
DTYPES = {"u": "uint", "i": "int", "f": "float"}

BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "<": operator.lt,
    "==": operator.eq,
    "&": operator.and_,
    "^": operator.xor,
    "<<": operator.lshift,
    "minimum": np.minimum,
    "copysign": np.copysign,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "pow": np.power,
    "fmax": np.fmax,
    "fmod": np.fmod,
    "nextafter": np.nextafter,
    "where": lambda a, b: np.where(np.ones(1, bool), a, b),
    "dot": lambda a, b: np.sum(a * b),
}

UNARY = {
    "neg": operator.neg,
    "plus": operator.pos,
    "square": lambda x: x**2,
    "root": lambda x: x**0.5,
    "invert": operator.invert,
    "clip": lambda x: np.clip(x, 1, 2),
    **{name: getattr(np, name) for name in "sqrt cbrt abs sign floor ceil trunc rint exp".split()},
    **{name: getattr(np, name) for name in "isnan signbit round degrees".split()},
    **{name: getattr(np, name) for name in "sum mean min argmin any count_nonzero".split()},
    "norm": np.linalg.norm,
}


def operand(name: str):
    """Returns an array of a type, or a Python number."""
    if name in NUMBERS:
        return eval(name, {"k": 2, "h": 1.5})
    return np.ones(1, bool if name == "bool" else DTYPES[name[0]] + name[1:])


def result(function, *operands) -> str:
    """Names the type of a function's result."""
    try:
        value = function(*operands)
    except TypeError:
        return "-"
    name = np.asarray(value).dtype.name
    return name.replace("uint", "u").replace("int", "i").replace("float", "f")


def main() -> None:
    """Prints the table."""
    warnings.simplefilter("error")
    print("operation left", *TYPES)
    for name, function in BINARY.items():
        for left in TYPES:
            row = [result(function, operand(left), operand(right)) for right in TYPES]
            print(name, left, *row)
    for name, function in UNARY.items():
        print(name, "unary", *[result(function, operand(each)) for each in TYPES])


if __name__ == "__main__":
    main()
