"""NumPy's names have NumPy's values, and advice in errors never changes what a formula means.

The names are NumPy's ufuncs and functions, C's and Python's functions. Each compiles, or its error
says plainly that the language lacks it, or suggests a formula. Formulas that are suggested, and
those that the language has for a name, have NumPy's values.
"""

import math
import re

import gpuvec
import numpy as np
import pytest
from functions import FORMULAS

C_NAMES = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs
fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2
logb lrint lround modf nan nearbyint nextafter pow remainder remquo rint round scalbln scalbn sin
sinh sqrt tan tanh tgamma trunc rsqrt rcbrt sinpi cospi sincos exp10 erfinv erfcinv normcdf j0 j1
y0 y1
""".split()
# Of scipy, CUDA and Python.
OTHERS = """
hypot3 norm3d norm4d rhypot roundeven fminimum fmaximum exp2m1 exp10m1 log2p1 rootn pown powr asinpi
acospi atanpi atan2pi isgreater isless isnormal sad fdividef fsqrt cyl_bessel_i0 digamma zeta erfi
ndtr xlogy xlog1py entr huber logsumexp cummax cummin sem iqr zscore gmean hmean pmean tmean tmax
tmin imin imax labs sqrtl expl logl powl sinl cosl map zip len list dict set filter range first last
""".split()
NAMES = sorted(
    {name for name in dir(np) if callable(getattr(np, name)) and re.fullmatch("[a-z]\\w*", name)}
    | {name for name in dir(math) if callable(getattr(math, name))}
    | {*C_NAMES, *(name + "f" for name in C_NAMES)}
)
# They are called with one argument, and these with two.
TWO = """
add arctan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign
divide equal float_power floor_divide fmax fmin fmod greater greater_equal heaviside inner
left_shift less less_equal logaddexp logical_and logical_or logical_xor maximum minimum mod
multiply nextafter not_equal power remainder right_shift subtract true_divide vdot vecdot
""".split()

FLOATS = [
    np.array(pair, dtype)
    for dtype in (np.float32, np.float64)
    for pair in [[0.0, -0.0, 1.0, -1.5, 2.5, -7.25, 4.0, np.inf, -np.inf, np.nan, 1e-3, -1e20]]
]
INTS = [np.array([0, 1, -1, 2, 5, -7, 100], dtype) for dtype in (np.int32, np.int64)]
BOOLS = [np.array([False, True])]

UNSIGNED = [np.array([0, 1, 2, 5, 100, 2**40], np.uint64)]

# The cases that advice names ("for integers"), each with an array of its kind.
CASES = {
    "": [*FLOATS, *INTS, *UNSIGNED],
    "floats": FLOATS,
    "integers": INTS,
    "bools": BOOLS,
    "integers and a literal n": INTS,
    "arrays of one dimension": INTS,
    "equal weights": FLOATS,
    "what is not NaN": [x[~np.isnan(x)] for x in FLOATS],
}
# Advice for several languages: the part that is NumPy's or Python's.
OWNERS = r"NumPy's.*|Python's \w+"
# Values that gpuvec documents as its own: of powers and logarithms, to some ulp; of infinite
# dividends; of equal zeros of both signs.
INEXACT = """
arccos arccosh arcsin arcsinh arctan arctan2 arctanh deg2rad degrees float_power logaddexp power
rad2deg radians
""".split()
# Names that are taken for several functions, or are none of NumPy's: they have tests of their own.
ELSEWHERE = {"select", "clip", "rsqrt", "fma", "bool", "int", "float", "ln", "nearbyint", "fix"}


def error_of(name: str) -> str:
    """Returns the error of a call with one argument, or nothing."""
    try:
        gpuvec.Expression(f"{name}(x)", x=np.float64)
    except gpuvec.ExpressionError as error:
        return str(error).splitlines()[0]
    return ""


def test_no_other_function_is_proposed():
    """A name that is spelled right is not taken for a misspelling."""
    errors = [error_of(name) for name in [*NAMES, *OTHERS]]
    assert not [error for error in errors if "did you mean" in error]


def compiles(text: str, array: np.ndarray) -> bool:
    """Returns whether a formula takes such arrays."""
    used = {name: array.dtype for name in ("x", "y") if re.search(rf"\b{name}\b", text)}
    try:
        gpuvec.Expression(text, **used)
    except gpuvec.ExpressionError:
        return False
    return True


def formulas(name: str) -> list:
    """Returns a name's call, or the formulas of its advice, each with the arrays that it is for."""
    if name in FORMULAS:
        call = f"{name}(x, y)" if name in TWO else f"{name}(x)"
        return [(call, [x for x in [*FLOATS, *INTS, *BOOLS] if compiles(call, x)])]
    found = re.fullmatch(r"no function is named '\w+': write (.*)", error_of(name))
    advised = []
    for part in re.split(", and |; ", found[1]) if found else ():
        match = re.fullmatch(r"(.*?)(?: for (.*))?", part)
        case = match[2] or ""
        if re.fullmatch(OWNERS, case):
            case = "floats"
        if case in CASES and not part.startswith("the language"):
            advised.append((match[1], CASES[case]))
    return advised


ADVISED = [name for name in NAMES if hasattr(np, name) and name not in ELSEWHERE and formulas(name)]


def test_there_are_names_and_advice():
    assert len(ADVISED) > 60
    assert all(arrays for name in ADVISED for _, arrays in formulas(name))


@pytest.mark.parametrize("name", ADVISED)
def test_formulas_of_advice_are_numpy_s(placement, name):
    function = getattr(np, name)
    for text, arrays in formulas(name):
        for array in arrays:
            check(name, function, text, array)


def check(name: str, function, text: str, array: np.ndarray) -> None:
    """Compares a formula with a function: on each element, or on each pair."""
    inputs = {"x": array}
    if name in TWO:
        x, y = np.meshgrid(array, array)
        inputs = {"x": x.ravel(), "y": y.ravel()}
    if "2**n" in text:
        inputs["y"] = np.full_like(inputs["x"], 3)
        text = text.replace("2**n", "2**3")
    if name in ("int32", "int64", "long"):
        # Casts of other floats saturate, which C leaves open.
        inputs["x"] = array[np.abs(array) < 2**31]
    if name == "uint64" and array.dtype.kind == "f":
        inputs["x"] = array[(array > -1) & (array < 2**31)]
    used = {key: value for key, value in inputs.items() if re.search(rf"\b{key}\b", text)}
    with np.errstate(all="ignore"):
        expected = function(*inputs.values())
    found = gpuvec.evaluate(text, **used)
    if expected.dtype.kind == "f":
        compare_floats(name, found, expected, inputs)
    else:
        assert np.array_equal(found, expected), text


def compare_floats(name: str, found, expected, inputs: dict) -> None:
    """Compares bits but for NaN, or values in some cases that are documented."""
    found, expected = (np.asarray(x) for x in (found, expected))
    assert found.dtype == expected.dtype or name == "reciprocal"
    if name == "floor_divide":
        finite = np.isfinite(inputs["x"])
        found, expected = found[finite], expected[finite]
    exact = name not in INEXACT
    np.testing.assert_allclose(found, expected, rtol=0 if exact else 1e-6, equal_nan=True)
    if exact and name not in ("amax", "amin", "nansum", "around", "average"):
        numbers = ~np.isnan(expected)
        if name in ("fmax", "fmin"):
            # Of zeros of two signs NumPy takes either.
            numbers &= expected != 0
        assert np.array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


def test_fix(placement):
    [(text, arrays)] = formulas("fix")
    for x in arrays:
        assert np.array_equal(gpuvec.evaluate(text, x=x), np.trunc(x), equal_nan=True)


@pytest.mark.parametrize("name", "u8 i8 u16 i16 u32".split())
def test_casts_to_types_of_inputs_alone(placement, name):
    """The advice wraps as NumPy's casts of integers do."""
    text = re.search("write (.*) for integers", error_of(name))[1]
    dtype = np.dtype(name[0] + str(int(name[1:]) // 8))
    for x in (np.arange(-70000, 70000, 7), np.array([2**31, -(2**31) - 1, 2**40 + 200, -1])):
        assert np.array_equal(gpuvec.evaluate(text, x=x), x.astype(dtype))


def test_other_advice_is_numpy_s(placement):
    """Of operators that take other types, and of a function that takes more arguments."""
    x, m = np.float32([0.5, 1.125, -5, 1e9]), np.array([True, False])
    assert np.array_equal(gpuvec.evaluate("rint(x * 100) / 100", x=x), np.round(x, 2))
    with pytest.raises(gpuvec.ExpressionError, match="write rint\\(x \\* 100\\) / 100"):
        gpuvec.evaluate("round(x, 2)", x=x)
    assert gpuvec.evaluate("any(x & y)", x=m, y=m) == np.dot(m, m)
    with pytest.raises(gpuvec.ExpressionError, match="write any\\(x & y\\), or"):
        gpuvec.evaluate("dot(x, y)", x=m, y=m)
