"""Prints crates/math/src/fast/constants.rs: tables and polynomials of f32.

    python tools/fast_functions.py | rustfmt --edition 2024 > crates/math/src/fast/constants.rs

Needs mpmath and NumPy. A value in two parts is the nearest f32, or one with a few bits, and the f32
that is nearest to the rest.
"""

import numpy as np
from minimax import minimax
from mpmath import cos, exp, floor, log, mpf, pi, sin, sqrt


def nearest(x):
    """The nearest f32, as a float."""
    return float(np.float32(float(x)))


def multiple(x, unit):
    """The nearest multiple of a unit, a power of two."""
    return float(floor(x / unit + mpf("0.5")) * unit)


def in_two_parts(x):
    """The nearest f32, and the one nearest to the rest."""
    return [nearest(x), nearest(x - nearest(x))]


def print_constant(doc, name, value):
    """Prints a number."""
    print(f"/// {doc}\npub(super) const {name}: f32 = {literal(value)};")


def print_array(doc, name, values):
    """Prints a table or a polynomial."""
    lines = "".join(f"    {literal(value)},\n" for value in values)
    print(f"/// {doc}\npub(super) const {name}: [f32; {len(values)}] = [\n{lines}];")


def literal(value):
    """The shortest literal of an f32."""
    assert np.float32(value) == value, value
    digits = np.format_float_scientific(np.float32(value), unique=True, trim="-", exp_digits=1)
    mantissa, exponent = digits.split("e")
    if -5 <= int(exponent) < 7:
        return np.format_float_positional(np.float32(value), unique=True, trim="0")
    return f"{mantissa}e{int(exponent)}"


def print_polynomial(doc, name, *polynomial):
    """Prints a polynomial with its greatest weighted error."""
    coefficients, error = minimax(*polynomial, nearest=nearest)
    bits = float(log(error, 2))
    print_array(f"{doc}, with an error of 2^{bits:.1f}.", name, [float(c) for c in coefficients])


def exponential():
    """The exponential: e^x = 2^(k/16) e^r."""
    print("// exp")
    step = log(2) / 16
    high = nearest(step)
    print_constant("16 / ln 2.", "EXP_STEPS", nearest(1 / step))
    print_constant("ln 2 / 16.", "EXP_STEP", high)
    print_constant("The rest of it.", "EXP_STEP_LOW", nearest(step - high))
    powers = [exp(step * i) for i in range(16)]
    print_array("2^(i/16).", "EXP_POWERS", [nearest(power) for power in powers])
    print_array(
        "The logarithm of 2^(i/16) over its part in `EXP_POWERS`.",
        "EXP_RESTS",
        [nearest(log(power / nearest(power))) for power in powers],
    )
    print_array("ln 2 and the rest of it.", "LN_2", in_two_parts(log(2)))
    radius = step / 2 * mpf("1.001")
    print_polynomial(
        "e^r = 1 + r + r² EXP(r)",
        "EXP",
        lambda r: (exp(r) - 1 - r) / r**2 if r else mpf(1) / 2,
        lambda r: r**2,
        -radius,
        radius,
        3,
    )
    print_polynomial(
        "e^r = 1 + r + r²/2 + r³ EXPM1(r), relative to r",
        "EXPM1",
        lambda r: (exp(r) - 1 - r - r**2 / 2) / r**3 if r else mpf(1) / 6,
        lambda r: r**2,
        -radius,
        radius,
        3,
    )


# The least significand, and that of the greatest, twice it.
LEAST = mpf("0.7604")


def logarithm():
    """The logarithms: log x = k log 2 - log c + log(1 + r), where c is a multiple of 1/32."""
    print("\n// log")
    m = np.linspace(float(LEAST), 2 * float(LEAST), 20_001)
    first = 90 / 32

    def inverse(slope):
        """The polynomial that is 1 at 1, with this slope there."""
        return [first, 2 - 2 * first - slope, first - 1 + slope]

    def error(slope):
        """The greatest r³, relative to the result."""
        c = np.rint(np.polyval(inverse(slope)[::-1], m) * 32) / 32
        return (abs(m * c - 1) ** 3 / abs(np.log(m)))[c != 1].max()

    slope = min(np.linspace(-1.1, -0.9, 1001), key=error)
    print_array(
        "1 / m for a significand m; the constant term is added to a number whose last bit is 1/32.",
        "LOG_INVERSE",
        [nearest(c) for c in np.array(inverse(slope)) + [1.5 * 2**18, 0, 0]],
    )
    inverses = [mpf(i if i >= 16 else 32 + i) / 32 for i in range(32)]
    for scale, name in ((mpf(1), "LOG"), (1 / log(2), "LOG2"), (1 / log(10), "LOG10")):
        base = name.lower()
        two = log(2) * scale
        high = multiple(two, mpf(2) ** -17)
        print_constant(f"{base} 2 in its first bits, over 2^23.", f"{name}_2", high / 2**23)
        print_constant("The rest of it.", f"{name}_2_LOW", nearest((two - high) / 2**23))
        values = [-log(c) * scale for c in inverses]
        highs = [multiple(value, mpf(2) ** -17) for value in values]
        lows = [nearest(value - high) for value, high in zip(values, highs)]
        print_array(f"-{base} c in its first bits, by the low bits of 32 c.", f"{name}_HIGH", highs)
        print_array("The rest of it.", f"{name}_LOW", lows)
        if scale != 1:
            print_array(f"{base} e and the rest of it.", f"{name}_E", in_two_parts(scale))
    print_polynomial(
        "log(1 + r) = r - r²/2 + r³ LOG(r), relative to the logarithm",
        "LOG",
        lambda r: (log(1 + r) - r + r**2 / 2) / r**3 if r else mpf(1) / 3,
        lambda r: min(r**2, mpf("2.7e-4")),
        mpf("-0.047"),
        mpf("0.047"),
        4,
    )


def trigonometric():
    """The sine: sin x = S cos r + C sin r, where S and C are those of a multiple of pi / 16."""
    print("\n// sin, cos")
    step = pi / 16
    print_constant("16 / π.", "SIN_STEPS", nearest(1 / step))
    parts = []
    for _ in range(3):
        parts.append(nearest(step - sum(parts)))
    print_array("Consecutive parts of π/16.", "SIN_STEP", parts)
    for function, name in ((sin, "SIN"), (cos, "COS")):
        values = [function(step * i) if i != 8 or function is sin else mpf(0) for i in range(16)]
        highs = [nearest(value) for value in values]
        print_array(f"{name.lower()}(iπ/16).", f"{name}_HIGH", highs)
        rests = [nearest(value - high) for value, high in zip(values, highs)]
        print_array("The rest of it.", f"{name}_LOW", rests)
    square = (step / 2 * mpf("1.001")) ** 2
    print_polynomial(
        "sin r = r + r³ SIN(r²), relative to r",
        "SIN",
        lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z,
        lambda z: z,
        0,
        square,
        3,
    )
    print_polynomial(
        "cos r = 1 - r²/2 + r⁴ COS(r²)",
        "COS",
        lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2,
        lambda z: z**2,
        0,
        square,
        2,
    )


if __name__ == "__main__":
    print("//! Tables and polynomials, printed by tools/fast_functions.py.\n")
    print('#![allow(clippy::approx_constant, reason = "first parts of constants are f32")]\n')
    exponential()
    logarithm()
    trigonometric()
