"""The language of expressions by NumPy: evaluates a text as Python parses it, one node at a time.

Python's parser decides what a text means, and NumPy the types and the values. Each difference from
NumPy is a function or a table here that quotes docs/reference/language.md. Only the functions
that are not exact (`approximate`) come from gpuvec: each is called on the operands of its node,
compared with NumPy's `longdouble` function, and its result is the node's value, so errors do not
accumulate from node to node.
"""

import ast
import math
import operator
from fractions import Fraction
from functools import cache
from typing import Any, Callable, Optional, Union

import gpuvec
import numpy as np
from functions import OF_FLOATS
from numpy_reductions import BOOL, F32, F64, I32, I64, REDUCTIONS, Empty, Refused, nearest
from oracles import canonical

# "Integers of less than 32 bits are computed as `i32`, and `u32` as `i64`"; NumPy has functions of
# 8 bits in f16: "Floating-point functions of integers are `f64`, or `f32` for integers of 8 and 16
# bits".
WIDENED = {np.dtype(t): I32 for t in ("u1", "i1", "u2", "i2")} | {
    np.dtype("u4"): I64,
    np.dtype("f2"): F32,
}

Value = Union[np.ndarray, np.generic, int, float]


class Undecided(Exception):
    """Python raises on numbers that an expression computes at run time."""


class Unfit(Refused):
    """A Python integer does not fit, which a call finds out only if there are elements."""


class Wrong(AssertionError):
    """A function of gpuvec is further from NumPy's than its bound."""


def is_python(value: Value) -> bool:
    """Returns whether a value is a Python number, which takes the type of the other operand."""
    return type(value) in (int, float)


def kind(value: Value) -> Any:
    """Returns the type that NumPy's promotion sees: a dtype, or Python's int or float."""
    return type(value) if is_python(value) else value.dtype


@cache
def numpy_type(function: Callable[..., Any], *kinds: Any) -> np.dtype:
    """Returns the type that NumPy computes in, widened as gpuvec widens it."""
    samples = [each(1) if isinstance(each, type) else np.ones(1, each) for each in kinds]
    with np.errstate(all="ignore"):
        dtype = np.asarray(function(*samples)).dtype
    return WIDENED.get(dtype, dtype)


def promoted(*values: Value) -> np.dtype:
    """Returns NumPy's type of values together."""
    return np.result_type(*(value if is_python(value) else value.dtype for value in values))


def common(*values: Value) -> np.dtype:
    """Returns the type that values have in common."""
    if all(map(is_python, values)):
        return F64 if float in map(type, values) else I64
    dtype = promoted(*values)
    return WIDENED.get(dtype, dtype)


def convert(value: Value, dtype: np.dtype) -> Any:
    """Returns a value in a type; a Python integer must fit."""
    if type(value) is int and dtype.kind == "i":
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            # "An integer beside an `i32` that does not fit into `i32` is an error"
            raise Unfit(f"{value} does not fit into {dtype}")
    return value.astype(dtype) if not is_python(value) else dtype.type(value)


def no_bools(*values: Value) -> None:
    """Refuses operands that are all bools."""
    if not any(is_python(value) or value.dtype != BOOL for value in values):
        raise Refused("Arithmetic on bools is an error")


def in_python(value: Value) -> Value:
    """Returns a Python number; an integer must have 64 bits if a call computes it."""
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise Undecided("a large Python integer")
    return value


def arithmetic(function: Callable[..., Any]) -> Callable[..., Value]:
    """Makes an operation that has the type of NumPy's."""

    def apply(*values: Value) -> Value:
        if all(map(is_python, values)):
            return in_python(function(*values))
        no_bools(*values)
        dtype = numpy_type(function, *map(kind, values))
        return function(*(convert(value, dtype) for value in values))

    return apply


def comparison(function: Callable[..., Any]) -> Callable[..., Value]:
    """Makes a comparison."""

    def apply(a: Value, b: Value) -> Value:
        if is_python(a) and is_python(b):
            return np.bool_(function(a, b))
        dtype = common(a, b)
        if dtype.kind == "i":
            # "Comparisons are exact": NumPy's are, too, if a Python integer does not fit.
            return function(*(x if type(x) is int else convert(x, dtype) for x in (a, b)))
        return function(convert(a, dtype), convert(b, dtype))

    return apply


def bits(function: Callable[..., Any]) -> Callable[..., Value]:
    """Makes an operation on the bits of bools or integers."""

    def apply(*values: Value) -> Value:
        if all(kind(value) is int for value in values):
            return in_python(function(*values))
        dtype = common(*values)
        if dtype.kind == "f":
            raise Refused("bits of floats")
        return function(*(convert(value, dtype) for value in values))

    return apply


def shift(function: Callable[..., Any]) -> Callable[..., Value]:
    """Makes a shift, which NumPy defines for counts of any size."""

    def apply(a: Value, count: Value) -> Value:
        if kind(a) is int and kind(count) is int and not 0 <= count < 64:
            raise Undecided("Python refuses negative counts, and has integers of any size")
        no_bools(a, count)
        return bits(function)(a, count)

    return apply


def floor_divide(a: Any, b: Any) -> Any:
    """Returns NumPy's quotient, but for floats the exact one where NumPy's is not.

    "`//` of floats is the floor of the exact quotient below 2^24 (`f64`: 2^53), where NumPy's may
    be off by one, and the floor of the rounded quotient above: `inf // 2.0` is `inf`, while NumPy's
    is NaN."
    """
    if is_python(a) and is_python(b):
        is_whole = type(a) is int and type(b) is int
        return a // b if is_whole or b == 0 else float(floor_divide(np.float64(a), np.float64(b)))
    quotient = np.floor_divide(a, b)
    if quotient.dtype.kind != "f":
        return quotient
    ratio = np.asarray(np.true_divide(a, b))
    exact, (a, b) = np.array(quotient), np.broadcast_arrays(a, b)
    exact[np.isinf(a)] = np.floor(ratio)[np.isinf(a)]
    bound = 2.0 ** (np.finfo(ratio.dtype).nmant + 1)
    huge = np.isfinite(a) & (b != 0) & (np.abs(ratio) >= bound)
    exact[huge] = ratio[huge]
    for index in np.argwhere((np.abs(ratio) >= bound / 4) & (np.abs(ratio) < bound)):
        at = tuple(index)
        exact[at] = math.floor(Fraction(float(a[at])) / Fraction(float(b[at])))
    return exact[()]


def extreme(function: Callable[..., Any], signs: Callable[..., Any]) -> Callable[..., Value]:
    """Makes a minimum or maximum. "IEEE 754-2019's: they propagate NaN, and -0 < +0"."""

    def apply(a: Any, b: Any) -> Any:
        result = function(a, b)
        if result.dtype.kind != "f":
            return result
        is_negative = signs(np.signbit(a), np.signbit(b))
        zeros = np.where(is_negative, result.dtype.type(-0.0), result.dtype.type(0))
        return np.where((a == 0) & (b == 0), zeros, result)[()]

    return apply


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of quiet NaNs: C's fmin and fmax return a signaling one."""
    return lambda a, b: function(a * 1, b * 1)


def clip(*values: Value) -> Value:
    """Returns NumPy's clip, by the minimum and the maximum of the language.

    "Numbers take the type of the other operand": also the first, of which np.clip makes an array.
    """
    no_bools(*values)
    a, low, high = (convert(value, common(*values)) for value in values)
    result = extreme(np.minimum, np.logical_or)(extreme(np.maximum, np.logical_and)(a, low), high)
    return result.item() if all(map(is_python, values)) else result


def predicate(function: Callable[..., Any]) -> Callable[[Value], Value]:
    """Makes a function of numbers whose result is a bool."""

    def apply(value: Value) -> Value:
        no_bools(value)
        return function(convert(value, common(value)))

    return apply


def signbit(a: Any) -> Any:
    """Returns NumPy's signbit, but False for every NaN."""
    return np.signbit(a) & ~np.isnan(a)


def copysign(a: Any, b: Any) -> Any:
    """Returns NumPy's copysign, but "treats a NaN `b` as positive"."""
    return np.copysign(a, np.where(np.isnan(b), 1, b)).astype(a.dtype)[()]


def rounding(function: Callable[..., Any]) -> Callable[..., Value]:
    """Makes a rounding function, which leaves integers as they are."""

    def apply(value: Value) -> Value:
        no_bools(value)
        if not is_python(value) and value.dtype.kind in "iu":
            return value
        return value if type(value) is int else like(value, function(value))

    return apply


def like(value: Value, result: Any) -> Value:
    """Returns a function's result. "Functions of numbers alone are numbers"."""
    return float(result) if is_python(value) else result


def fma(a: Any, b: Any, c: Any) -> Any:
    """Returns `a * b + c`, rounded once, by fractions where all are finite."""
    # The product of two f64 is finite in x87's format.
    result = np.array(np.asarray(a, np.longdouble) * b + c).astype(a.dtype)
    arrays = np.broadcast_arrays(a, b, c)
    finite = np.logical_and.reduce([np.isfinite(each) for each in arrays])
    for index in np.argwhere(finite):
        at = tuple(index)
        x, y, z = (Fraction(float(each[at])) for each in arrays)
        if exact := x * y + z:
            result[at] = nearest(exact, result.dtype)
        elif x * y:
            result[at] = 0.0
    return result[()]


def select(condition: Value, a: Value, b: Value) -> Value:
    """Returns where(condition, a, b)."""
    if kind(condition) != BOOL:
        raise Refused("where takes a bool")
    dtype = common(a, b)
    return np.where(condition, convert(a, dtype), convert(b, dtype))[()]


def cast(dtype: np.dtype) -> Callable[[Value], Value]:
    """Makes a cast. "Casts from floats to integers saturate, and convert NaN to 0"."""

    def apply(value: Value) -> Value:
        if type(value) is int and dtype.kind == "i":
            return convert(value, dtype)
        value = np.float64(value) if is_python(value) else value
        if value.dtype.kind != "f" or dtype.kind != "i":
            return value.astype(dtype)
        limits = np.iinfo(dtype)
        inside = (value > limits.min) & (value < -float(limits.min))
        whole = np.where(inside, value, 0).astype(dtype)
        return np.where(
            value >= -float(limits.min),
            limits.max,
            np.where(value <= limits.min, limits.min, whole),
        ).astype(dtype)[()]

    return apply


def power_of_floats(a: Any, b: Any) -> Any:
    """Returns NumPy's power; of infinities C's, since x87's powl(-inf, -2^63) is not 0."""
    is_special = np.isinf(a) | np.isinf(b)
    return np.where(is_special, c_pow(np.where(is_special, a, 1), b), np.power(a, b))


c_pow = np.vectorize(math.pow, otypes=[float])


# The functions that are not exact and that NumPy lacks, or has in other ways. Their errors in ulp
# are those that docs/reference/language.md promises: "Functions of `f32` are correctly rounded",
# "`f64` functions have errors below 1 ulp".
OTHERS = {
    "pow": power_of_floats,
    "erf": np.vectorize(math.erf, otypes=[float]),
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
# Error bounds, in ulp of the narrower type: of NumPy's `longdouble` functions, and of math.erf,
# which computes in f64.
ORACLE_ERROR = {F32: 1e-6, F64: 0.01}
ERF_ERROR = {F32: 1e-6, F64: 1.0}


def promised(dtype: np.dtype) -> float:
    """Returns the greatest error of a function in ulp."""
    return 1.0 if dtype == F64 else 0.5


def numpy_function(name: str) -> Callable[..., Any]:
    """Returns NumPy's function of a name; newer versions have asin beside arcsin."""
    found = OTHERS.get(name) or getattr(np, name, None) or getattr(np, f"arc{name[1:]}", None)
    if found is None:
        raise LookupError(f"NumPy lacks {name}: add it to OTHERS in {__file__}")
    return found


def approximate(name: str) -> Callable[..., Value]:
    """Makes a function that is computed by gpuvec and compared with NumPy."""
    function = numpy_function(name)
    formula = f"{name}({', '.join('xy'[: OF_FLOATS[name]])})"

    def apply(*values: Value) -> Value:
        dtype = float_type(name, *values)
        operands = [convert(value, dtype) for value in values]
        result = gpuvec.evaluate(formula, **dict(zip("xy", operands)))
        compare_function(name, function, operands, result)
        return float(result) if all(map(is_python, values)) else result

    return apply


def float_type(name: str, *values: Value) -> np.dtype:
    """Returns the type in which a function of floats computes."""
    no_bools(*values)
    if all(map(is_python, values)):
        return F64
    if name == "pow" and common(*values).kind != "f":
        raise Refused("pow takes floats")
    if len(values) == 3:
        return fma_type(*map(kind, sorted(values, key=is_python)))
    return numpy_type(np.hypot if len(values) == 2 else np.sqrt, *map(kind, values))


def fma_type(together: Any, *others: Any) -> np.dtype:
    """Returns the type of fma, which NumPy lacks: hypot's, or that of small integers."""
    for other in others:
        if other is int:
            together = I64 if together == BOOL else together
        elif other is float or max(together.itemsize, other.itemsize) > 2:
            together = numpy_type(np.hypot, together, other)
        elif together == BOOL:
            together = other
    return numpy_type(np.sqrt, together)


def compare_function(name: str, function: Any, operands: list[Any], result: Any) -> None:
    """Raises `Wrong` if a result is too far from NumPy's."""
    dtype = result.dtype
    wide = [
        np.float64(each) if name == "erf" else np.asarray(each, np.longdouble) for each in operands
    ]
    exact = np.asarray(function(*wide), np.longdouble)
    got = np.asarray(result, np.longdouble)
    format_ = np.finfo(dtype)
    least, most = np.longdouble(2) ** format_.minexp, np.longdouble(2) ** format_.maxexp
    # Infinity stands for the first number that is too large, and is right for all greater ones.
    beyond = np.clip(exact, -most, most)
    finite = np.where(np.isinf(got), np.copysign(most, got), got)
    _, exponent = np.frexp(np.maximum(np.abs(beyond), least))
    error = np.abs(finite - beyond) / np.exp2((exponent - 1 - format_.nmant).astype(np.longdouble))
    allowance = (ERF_ERROR if name == "erf" else ORACLE_ERROR)[dtype]
    good = error <= promised(dtype) + allowance
    good &= np.signbit(got) == np.signbit(exact)
    good &= (np.isinf(got) | ~np.isinf(exact)) & ((got == 0) | (exact != 0))
    good = np.where(np.isnan(exact), np.isnan(got), good & ~np.isnan(got))
    if not good.all():
        at = tuple(np.argwhere(~good)[0])
        arguments = ", ".join(repr(np.broadcast_to(x, good.shape)[at]) for x in operands)
        raise Wrong(f"{name}({arguments}) is {result[at]!r}, and NumPy's is {exact[at]!r}")


def of_floats(function: Callable[..., Any], name: str) -> Callable[..., Value]:
    """Makes an exact function of floats."""

    def apply(*values: Value) -> Value:
        dtype = float_type(name, *values)
        result = function(*(convert(value, dtype) for value in values))
        return float(result) if all(map(is_python, values)) else result

    return apply


def of_numbers(function: Callable[..., Any], twin: Callable[..., Any]) -> Callable[..., Value]:
    """Makes a function of numbers, of the type of `twin`'s result."""

    def apply(*values: Value) -> Value:
        no_bools(*values)
        dtype = numpy_type(twin, *map(kind, values))
        result = function(*(convert(value, dtype) for value in values))
        # "Functions of numbers alone are numbers"; NumPy's are NumPy scalars.
        return in_python(result.item()) if all(map(is_python, values)) else result

    return apply


def fmod(a: Value, b: Value) -> Value:
    """Returns NumPy's fmod; dividing a literal by zero is an error, as for `%`."""
    if is_python(a) and is_python(b) and b == 0:
        raise Undecided("a Python number is divided by zero")
    return of_numbers(np.fmod, np.fmod)(a, b)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "where": select,
    "fma": of_floats(fma, "fma"),
    "sqrt": of_floats(np.sqrt, "sqrt"),
    "rint": of_floats(np.rint, "rint"),
    "copysign": of_floats(copysign, "copysign"),
    "abs": of_numbers(np.abs, np.abs),
    "sign": of_numbers(np.sign, np.sign),
    "minimum": of_numbers(extreme(np.minimum, np.logical_or), np.minimum),
    "maximum": of_numbers(extreme(np.maximum, np.logical_and), np.maximum),
    "fmin": of_numbers(extreme(quiet(np.fmin), np.logical_or), np.fmin),
    "fmax": of_numbers(extreme(quiet(np.fmax), np.logical_and), np.fmax),
    "fmod": fmod,
    "clip": clip,
    "nextafter": of_floats(np.nextafter, "nextafter"),
    **{name: predicate(getattr(np, name)) for name in ("isnan", "isinf", "isfinite")},
    "signbit": predicate(signbit),
    **{name: rounding(getattr(np, name)) for name in ("floor", "ceil", "trunc", "round")},
    **{
        name: cast(dtype)
        for name, dtype in zip("bool i32 i64 f32 f64".split(), (BOOL, I32, I64, F32, F64))
    },
}
# All others of floats are not exact.
FUNCTIONS |= {name: approximate(name) for name in OF_FLOATS if name not in FUNCTIONS}
BINARY = {
    ast.Add: arithmetic(operator.add),
    ast.Sub: arithmetic(operator.sub),
    ast.Mult: arithmetic(operator.mul),
    ast.Div: arithmetic(operator.truediv),
    ast.FloorDiv: arithmetic(floor_divide),
    ast.Mod: arithmetic(operator.mod),
    ast.BitAnd: bits(operator.and_),
    ast.BitOr: bits(operator.or_),
    ast.BitXor: bits(operator.xor),
    ast.LShift: shift(operator.lshift),
    ast.RShift: shift(operator.rshift),
}
UNARY = {
    ast.USub: arithmetic(operator.neg),
    ast.UAdd: lambda value: no_bools(value) or value,
    ast.Invert: bits(operator.invert),
}
# Operations whose integers may be larger than their operands.
GROWING = {
    ast.USub: operator.neg,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda a, b: a // b if b else 0,
    ast.LShift: lambda a, count: a << min(count, 64) if count >= 0 else 0,
    ast.Pow: lambda a, n: a ** max(n, 0),
}
COMPARISONS = {
    ast.Lt: comparison(operator.lt),
    ast.LtE: comparison(operator.le),
    ast.Gt: comparison(operator.gt),
    ast.GtE: comparison(operator.ge),
    ast.Eq: comparison(operator.eq),
    ast.NotEq: comparison(operator.ne),
}
CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan}
MOST_MULTIPLICATIONS = 64


def any_power(base: Value, exponent: Value) -> Value:
    """Returns a power whose exponent is not a literal: that of `pow`, which takes floats."""
    if common(base, exponent).kind != "f":
        raise Refused("a power of integers or bools")
    return FUNCTIONS["pow"](base, exponent)


def power(base: Value, exponent: Value) -> Value:
    """Returns a power. "`x**n` is a sequence of multiplications": squares, and the value itself."""
    if kind(base) == BOOL:
        raise Refused("a power of bools")
    if type(exponent) is float:
        base = float(base) if is_python(base) else convert(base, common(base, exponent))
    if type(base) is int and exponent < 0:
        base = float(base)
    is_float = kind(base) is float or (not is_python(base) and base.dtype.kind == "f")
    if exponent == 0.5:
        return FUNCTIONS["sqrt"](base)
    if not is_float and exponent < 0:
        raise Refused("a power of an integer below 1")
    if is_float and (abs(exponent) > MOST_MULTIPLICATIONS or exponent % 1 != 0):
        return any_power(base, exponent)
    size = abs(int(exponent))
    if size == 0:
        return type(base)(1) if is_python(base) else convert(1, common(base, base))
    result = product(base, size)
    if exponent < 0:
        result = BINARY[ast.Div](1, result)
    compare_power(base, int(exponent), result)
    return result


def product(base: Value, n: int) -> Value:
    """Multiplies a value n times: an even power is one of the square."""
    if n == 1:
        return base
    times = BINARY[ast.Mult]
    even = product(times(base, base), n // 2)
    return even if n % 2 == 0 else times(base, even)


def compare_power(base: Value, n: int, result: Value) -> None:
    """Raises `Wrong` if a power is far from NumPy's: by half an ulp for each multiplication."""
    if is_python(base) or result is base:
        return
    expected = np.power(convert(base, result.dtype), convert(n, result.dtype))
    if result.dtype.kind == "i":
        good = result == expected
    else:
        # Excludes elements at which a multiplication overflows or underflows.
        limits = np.finfo(result.dtype)
        normal = (np.abs(expected) < limits.max / 2) & (np.abs(expected) > 2 / limits.max)
        normal &= np.abs(expected) > 2 * limits.tiny
        near = np.abs(result - expected) <= (abs(n) + 2) * limits.eps * np.abs(expected)
        good = near | ~normal
    if not np.all(good):
        raise Wrong(f"{base!r}**{n} is {result!r}, and NumPy's is {expected!r}")


# Operations on literals that are not done when a text is compiled.
UNFOLDED = ast.FloorDiv, ast.Mod, ast.Pow


class Oracle(ast.NodeVisitor):
    """Evaluates the nodes of a text."""

    def __init__(self, inputs: dict[str, Value], shape: tuple[int, ...]):
        self.inputs = inputs
        self.shape = shape

    def visit_Constant(self, node: ast.Constant) -> Value:
        """Returns a number."""
        return np.bool_(node.value) if isinstance(node.value, bool) else node.value

    def visit_Name(self, node: ast.Name) -> Value:
        """Returns an input, or else a constant."""
        return self.inputs[node.id] if node.id in self.inputs else CONSTANTS[node.id]

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Value:
        """Applies a sign, or ~."""
        operand = self.visit(node.operand)
        self.check_integers(node, operand)
        return UNARY[type(node.op)](operand)

    def visit_BinOp(self, node: ast.BinOp) -> Value:
        """Applies an operator."""
        is_power = isinstance(node.op, ast.Pow)
        right = self.visit(node.right)
        try:
            left = self.visit(node.left)
        except Refused as refused:
            is_of_elements = isinstance(refused, (Unfit, Empty))
            if is_power and is_python(right) and right == 0 and is_of_elements:
                raise Undecided("x**0 does without x") from None
            raise
        self.check_integers(node, left, right)
        try:
            if not is_power:
                return BINARY[type(node.op)](left, right)
            return (power if self.is_literal(node.right) else any_power)(left, right)
        except ZeroDivisionError:
            parts = [*ast.walk(node.left), *ast.walk(node.right)]
            if any(isinstance(each, (ast.Name, ast.Call, *UNFOLDED)) for each in parts) or is_power:
                raise Undecided("a Python number is divided by zero") from None
            raise Refused("a literal is divided by zero") from None

    def check_integers(self, node: Union[ast.UnaryOp, ast.BinOp], *operands: Value) -> None:
        """Raises `Undecided` if an integer that a call computes from Python's alone is too large.

        "Integers that a call computes from Python integers alone, as in `i64(k) + 1`, have 64 bits:
        the call fails where the value exceeds them".
        """
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        given = [self.inputs[name] for name in names & self.inputs.keys()]
        function = GROWING.get(type(node.op))
        are_integers = all(kind(each) in (int, I64) for each in operands)
        if function and given and are_integers and all(type(each) is int for each in given):
            in_python(function(*map(int, operands)))

    def is_literal(self, node: ast.expr) -> bool:
        """Returns whether an exponent is a number when the text is compiled."""
        parts = list(ast.walk(node))
        if any(isinstance(part, ast.Pow) for part in parts):
            raise Undecided("only some powers of literals are literals")
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        is_called = any(isinstance(part, ast.Call) for part in parts)
        return not is_called and names <= CONSTANTS.keys() - self.inputs.keys()

    def visit_Compare(self, node: ast.Compare) -> Value:
        """Compares. "Chains of comparisons work": each must hold."""
        values = [self.visit(each) for each in (node.left, *node.comparators)]
        holds = [COMPARISONS[type(op)](*pair) for op, *pair in zip(node.ops, values, values[1:])]
        return np.logical_and.reduce(np.broadcast_arrays(*holds))

    def visit_Call(self, node: ast.Call) -> Value:
        """Calls a function, or reduces all elements."""
        if node.func.id not in REDUCTIONS:
            return FUNCTIONS[node.func.id](*map(self.visit, node.args))
        if is_one_value(node.args, self.inputs):
            raise Refused("A reduction of such a value is an error")
        return np.asarray(self.reduce(node))[()]

    def reduce(self, node: ast.Call, axes: Optional[tuple[int, ...]] = None) -> Any:
        """Returns a reduction of all elements, or of those along some axes."""
        values = [self.visit(each) for each in node.args]
        dtypes = [common(*values)] * 2 if len(values) == 2 else map(common, values)
        values = [typed(value, dtype, self.shape) for value, dtype in zip(values, dtypes)]
        return reduced(REDUCTIONS[node.func.id], values, axes)


def is_one_value(nodes: list[ast.expr], inputs: dict[str, Value]) -> bool:
    """Returns whether nodes have a reduction inside, and no array outside of reductions."""
    has_reduction, rest = False, list(nodes)
    while rest:
        node = rest.pop()
        if is_reduction(node):
            has_reduction = True
            continue
        if isinstance(node, ast.Name) and isinstance(inputs.get(node.id), np.ndarray):
            return False
        rest += ast.iter_child_nodes(node)
    return has_reduction


def is_reduction(node: ast.AST) -> bool:
    """Returns whether a node is a reduction."""
    return isinstance(node, ast.Call) and node.func.id in REDUCTIONS


def evaluate(
    text: str,
    inputs: dict[str, Value],
    shape: Optional[tuple[int, ...]] = None,
    axes: Optional[tuple[int, ...]] = None,
) -> Any:
    """Returns the right result of gpuvec.evaluate, with the quiet NaN for every NaN.

    The elements' shape is that of the first array, unless it is given. Reductions along some axes
    leave them with the length 1. Raises `Refused` if gpuvec has to refuse the text or the inputs.
    """
    root = ast.parse(text, mode="eval").body
    if shape is None:
        shape = next((each.shape for each in inputs.values() if isinstance(each, np.ndarray)), ())
    oracle = Oracle(inputs, shape)
    with np.errstate(all="ignore"):
        if is_reduction(root):
            if is_one_value(root.args, inputs):
                raise Refused("A reduction of such a value is an error")
            result = oracle.reduce(root, axes)
        else:
            value = oracle.visit(root)
            result = typed(value, common(value), () if is_one_value([root], inputs) else shape)
    return canonical(result) if result.dtype.kind == "f" else np.asarray(result)


def reduced(
    reduction: Callable[..., Any], values: list[np.ndarray], axes: Optional[tuple[int, ...]]
) -> Any:
    """Reduces all elements, or those of each slice along some axes."""
    if axes is None:
        return reduction(*values)
    lengths = values[0].shape
    kept = tuple(1 if axis in axes else length for axis, length in enumerate(lengths))
    results = []
    for index in np.ndindex(kept):
        part = tuple(slice(None) if axis in axes else at for axis, at in enumerate(index))
        results.append(reduction(*(value[part].ravel() for value in values)))
    if not results:
        raise Undecided("there are no results, and so no type")
    return np.array(results, np.asarray(results[0]).dtype).reshape(kept)


def typed(value: Value, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Returns a value as an array of a type and a shape."""
    return np.broadcast_to(convert(value, dtype), shape)
