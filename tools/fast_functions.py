"""Prints crates/math/src/fast/constants.rs: tables and polynomials of f32.

    python tools/fast_functions.py | rustfmt --edition 2024 > crates/math/src/fast/constants.rs

`make fresh` compares them. With --fit, series in two variables are fitted again. Needs mpmath and
NumPy. A value in two parts is the nearest f32, or one with a few bits, and the f32 that is nearest
to the rest.
"""

import math
import sys

import numpy as np
from minimax import minimax
from mpmath import asin, atan, cos, exp, floor, log, mpf, pi, sin, sqrt, tan, tanh


def nearest(x):
    """Returns the nearest f32, as a float."""
    return float(np.float32(float(x)))


def multiple(x, unit):
    """Returns the nearest multiple of a unit, a power of two."""
    return float(floor(x / unit + mpf("0.5")) * unit)


def in_two_parts(x):
    """Returns the nearest f32, and the f32 nearest to the rest."""
    return [nearest(x), nearest(x - nearest(x))]


def by_encoding(x, change):
    """Returns the f32 whose encoding is that of the nearest f32 plus a change."""
    return float((np.float32(float(x)).view(np.int32) + np.int32(change)).view(np.float32))


def show(doc, name, value, visibility="pub(super)"):
    """Prints a number, or the numbers of a table or a polynomial, as a constant of Rust."""
    if isinstance(value, (list, tuple)):
        kind, text = f"[f32; {len(value)}]", f"[{', '.join(map(literal, value))}]"
    else:
        kind, text = "f32", literal(value)
    print(f"/// {doc}\n{visibility} const {name}: {kind} = {text};")


def literal(value):
    """Returns the shortest literal of an f32."""
    assert np.float32(value) == value, value
    digits = np.format_float_scientific(np.float32(value), unique=True, trim="-", exp_digits=1)
    mantissa, exponent = digits.split("e")
    if -5 <= int(exponent) < 7:
        return np.format_float_positional(np.float32(value), unique=True, trim="0")
    return f"{mantissa}e{int(exponent)}"


def polynomial(doc, name, *sought, before=()):
    """Prints a polynomial with its greatest weighted error, after known coefficients."""
    coefficients, error = minimax(*sought, nearest=nearest)
    coefficients = [*before, *map(float, coefficients)]
    show(f"{doc}, with an error of 2^{float(log(error, 2)):.1f}.", name, coefficients)


# The results of powers are biased by this share, down.
EXP_BIAS = mpf("7e-11")


# The offsets of the exponents in the table of powers of 2 are multiples of 2^-28 and at most 2^-9.
EXP2_RADIUS = mpf(1) / 32 + mpf(2) ** -9


def power_with_exact_slope(i, ln_2):
    """Finds x near i / 16 where 2^x and ln 2 times it are nearly f32; returns x - i / 16, 2^x."""
    offsets = np.arange(-(1 << 19), (1 << 19) + 1) / 2.0**28
    powers = np.exp2(np.longdouble(i) / 16 + offsets)
    floats = powers.astype(np.float32).astype(float)
    slopes = floats * ln_2
    errors = abs(floats / powers - 1)
    errors += abs(slopes.astype(np.float32) / slopes - 1) * float(EXP2_RADIUS * log(2))
    best = np.argmin(errors)
    assert errors[best] < 2**-35.9
    return float(offsets[best]), float(floats[best])


def exponential():
    """Prints the exponential: e^x = 2^(k/16) e^r."""
    print("// exp")
    step = log(2) / 16
    show("1 / ln 2.", "LOG2_E", nearest(1 / log(2)))
    ln_2, ln_2_low = in_two_parts(log(2))
    show("ln 2.", "LN_2", ln_2)
    show("The rest of it.", "LN_2_LOW", ln_2_low)
    show("The bias, as a share.", "EXP_BIAS", nearest(EXP_BIAS))
    powers = [exp(step * i) for i in range(16)]
    show("2^(i/16).", "EXP_POWERS", [nearest(power) for power in powers], "pub")
    doc = "The same with encodings less by i · 2^19, which a place shifted by 19 bits adds again."
    shifted = [by_encoding(power, -i << 19) for i, power in enumerate(powers)]
    show(doc, "EXP_SHIFTED_POWERS", shifted)
    rests = [log(power / nearest(power)) for power in powers]
    doc = "The logarithm of 2^(i/16) over its part in `EXP_POWERS`."
    show(doc, "EXPM1_RESTS", [nearest(rest) for rest in rests])
    show("The same with a bias.", "EXP_RESTS", [nearest(rest - EXP_BIAS) for rest in rests])
    radius = step / 2 * mpf("1.001")
    polynomial(
        "e^r = 1 + r + r² EXP(r)",
        "EXP",
        lambda r: (exp(r) - 1 - r) / r**2 if r else mpf(1) / 2,
        lambda r: r**2,
        -radius,
        radius,
        3,
    )
    polynomial(
        "2^f = 1 + f LN_2 + f EXP2(f)",
        "EXP2",
        lambda f: (2**f - 1 - f * log(2)) / f**2 if f else log(2) ** 2 / 2,
        lambda f: f**2,
        -EXP2_RADIUS,
        EXP2_RADIUS,
        3,
        before=[ln_2_low],
    )
    offsets, powers = zip((0.0, 1.0), *(power_with_exact_slope(i, ln_2) for i in range(1, 16)))
    show("Offsets from sixteenths.", "EXP2_OFFSETS", offsets)
    doc = "Powers of 2 there. Their errors and the errors of their products with ln 2 add up to"
    show(f"{doc} 2^-35.9.", "EXP2_POWERS", powers)
    polynomial(
        "e^r = 1 + r + r²/2 + r³ (1 + r/2) EXPM1(r), relative to r",
        "EXPM1",
        lambda r: (exp(r) - 1 - r - r**2 / 2) / r**3 / (1 + r / 2) if r else mpf(1) / 6,
        lambda r: r**2,
        -radius,
        radius,
        3,
    )


# The significands from 1 to 2 are in cells, in whose middles are multiples of about 1/31.
CELLS = range(31, 63)


def inverse(cell, at_1, steps):
    """Finds the multiple c of 1/128 with the least exact r = m c - at_1 in a cell, and r's ends."""
    ends = [max((cell - 0.5) / steps, 1), min((cell + 0.5) / steps, 2)]
    if cell in (31, 62):
        c = at_1 * 31 / cell
        return c, ends[0] * c - at_1, ends[1] * c - at_1
    return inverse_between(*ends, at_1)


def inverse_between(low, high, at_1):
    """Does the same for significands m between two numbers."""

    def greatest(c):
        return max(abs(m * c - at_1) for m in (low, high))

    # Where c is a multiple of u, r is one of 2^-23 u: exact below 2 u.
    units = {n / 128: (n & -n) / 128 for n in range(int(64 * at_1), int(128 * at_1) + 1)}
    exact = [c for c, unit in units.items() if greatest(c) < 2 * unit]
    c = min(exact, key=greatest)
    return c, low * c - at_1, high * c - at_1


def in_two_parts_over(unit, value, bias):
    """Divides a logarithm by the unit; returns its first bits, and the rest with the bias."""
    high = multiple(value / unit, mpf(2) ** -16)
    return high, nearest(value * (1 - bias) - high * mpf(unit))


# The share by which results are biased, down: the rounding test's interval begins there. Then the
# logarithm of e; the steps from 1 to 2 by cells; c at 1; the factor of -r in high parts; and the
# logarithm of 2 over the unit, in multiples of 2^-16, or None if it is in two parts. (Found by
# trying all factors of few bits. To base 10, H - Y would not be exact from m = 1.01613 on in cell
# 32, nor up to m = 1.98515 in cell 61: from 30.985 to 30.998 steps leave these to other cells.)
LOGARITHMS = {
    "LOG": (mpf("5e-11"), mpf(1), 31, 1.0, 2.0, None),
    "LOG2": (mpf("5e-11"), 1 / log(2), 31, 35 / 32, 35 / 16, 108678),
    "LOG10": (mpf("6.5e-11"), 1 / log(10), 30.99, 29 / 32, 29 / 16, 74616),
}


def logarithm():
    """Prints the logarithms: log x = k log 2 - log c + log(1 + r), with c from a table."""
    print("\n// log")
    for name, base in LOGARITHMS.items():
        logarithm_to_base(name, *base)


def logarithm_to_base(name, bias, scale, steps, at_1, factor, of_2):
    """Prints the tables and the polynomial of a logarithm; `scale` is the logarithm of e."""
    base = name.lower()
    show("The bias, as a share.", f"{name}_BIAS", nearest(bias))
    # The low bits of a cell are its place.
    order = sorted(CELLS, key=lambda cell: cell % 32)
    cells = [inverse(cell, at_1, steps) for cell in order]
    inverses = [mpf(c) for c, _, _ in cells]
    doc = f"c, next to {literal(at_1)} / m for the significands m of a cell."
    show(doc, f"{name}_INVERSE", inverses)

    def weight(r):
        """Divides the square of r by the least logarithm of an argument with this r."""
        others = [c for c, low, high in cells if low <= r <= high and c not in (at_1, at_1 / 2)]
        ends = [(at_1 + r) / c for c in others]
        least = min([abs(log(m / n)) for m in ends for n in (1, 2)], default=mpf(1))
        if -at_1 / (4 * steps) <= r <= at_1 / (2 * steps):
            least = min(least, abs(log(1 + r / at_1)))
        return r**2 / least if r else mpf(0)

    # High parts are the logarithm over the unit: -factor r + r², nearly.
    if of_2:
        unit = nearest(-scale * log(2) * (1 - bias) / of_2 * 2**16)
        of_2 = [-of_2 / 2**16, 0.0]
    else:
        unit = nearest(-scale / at_1 / factor)
    show("The unit of high parts.", f"{name}_UNIT", unit)

    of_2 = of_2 or in_two_parts_over(unit, scale * log(2), bias)
    show(f"{base} 2 over the unit, in its first bits.", f"{name}_2", of_2[0])
    rest_doc = "The rest of it, not over the unit, and its bias."
    show(rest_doc, f"{name}_2_LOW", of_2[1])
    # An error of log 2 without a low part is in the logarithms next to it, too, and cancels out.
    error = 0 if of_2[1] else mpf(of_2[0]) * unit - scale * log(2) * (1 - bias)
    entries = []
    for cell, c in zip(order, inverses):
        value = scale * log(at_1 / c) + (error / (1 - bias) if cell > 44 else 0)
        entries.append(in_two_parts_over(unit, value, bias) if cell < 62 else tuple(of_2))
    doc = f"-{base} c over the unit, in its first bits."
    show(doc, f"{name}_TABLE", [high for high, _ in entries])
    show(rest_doc, f"{name}_TABLE_LOW", [low for _, low in entries])
    slope = scale / at_1 * (1 - bias) + factor * mpf(unit)
    doc = "The rest of r's factor beside its high parts, and its bias."
    show(doc, f"{name}_SLOPE", nearest(slope))

    def rest(r):
        """Returns the function that the polynomial approximates."""
        if not r:
            return -scale / 2 / at_1**2 - unit
        return (scale * (log(1 + r / at_1) - r / at_1) - unit * r**2) / r**2

    polynomial(
        f"The rest is r² {name}(r), relative to the logarithm",
        name,
        rest,
        lambda r: weight(r) / scale,
        min(low for _, low, _ in cells),
        max(high for _, _, high in cells),
        4,
    )


# The bias of logarithms of sums; and the share by which encodings are scaled less, which moves the
# ends of cells up.
LOG1P_BIAS, LOG1P_SHIFT = mpf("5.5e-11"), mpf("1.6e-6")


def logarithm_of_sum():
    """Prints log(1 + u): the logarithm with cells that go on from one octave to the next one."""
    print("\n// log1p, asinh, acosh, atanh")
    bias, unit = LOG1P_BIAS, mpf(-1) / 2
    show("The bias, as a share.", "LOG1P_BIAS", nearest(bias))
    doc = "The cells of a unit of encodings, less a share that moves the ends of cells up."
    show(doc, "LOG1P_STEPS", nearest((1 - LOG1P_SHIFT) / 2**18))
    # As in the octaves next to 1: in others logarithms are greater, and ends may differ.
    shift, slack = 32 * 127 * LOG1P_SHIFT, mpf("0.0005")
    ends = [32 + i + mpf("0.5") + shift for i in range(-1, 32)]
    pairs = [((a - slack) / 32, (b + slack) / 32) for a, b in zip(ends, ends[1:])]
    cells = [inverse_between(low, high, 1) for low, high in pairs]
    doc = "c, next to 1 / m for the significands m of a cell, with encodings greater by i · 2^18."
    show(doc, "LOG1P_INVERSE", [by_encoding(c, i << 18) for i, (c, _, _) in enumerate(cells)])
    step, step_low = (part / 32 for part in in_two_parts_over(unit, log(2), bias))
    show("log 2 over the unit and 32, in its first bits.", "LOG1P_STEP", step)
    show("The rest of it, not over the unit, and its bias.", "LOG1P_STEP_LOW", step_low)
    entries = [in_two_parts_over(unit, -log(mpf(c)), bias) for c, _, _ in cells]
    highs = [high - i * step for i, (high, _) in enumerate(entries)]
    show("-log c over the unit, in its first bits, less i times that.", "LOG1P_TABLE", highs)
    lows = [nearest(low - i * step_low) for i, (_, low) in enumerate(entries)]
    doc = "The rest of it, not over the unit, and its bias, less i times the rest of that."
    show(doc, "LOG1P_TABLE_LOW", lows)

    def weight(r):
        """Divides the cube of r by the least logarithm of an argument with this r."""
        others = [c for c, low, high in cells[1:] if low <= r <= high]
        least = [abs(log((1 + r) / c / octave)) for c in others for octave in (1, 2)]
        if cells[0][1] <= r <= cells[0][2]:
            least.append(abs(log(1 + r)))
        return abs(r) ** 3 / min(least) if r and least else mpf(0)

    polynomial(
        "log(1 + r) = r - r²/2 + r³ LOG1P(r), relative to the logarithm",
        "LOG1P",
        lambda r: (log(1 + r) - r + r**2 / 2) / r**3 if r else mpf(1) / 3,
        weight,
        min(low for _, low, _ in cells),
        max(high for _, _, high in cells),
        3,
    )


# The step of the sine's nodes, 1/32 of a turn, and the limit of their shifts from its multiples.
SIN_STEP = pi / 16
SIN_SHIFT = 2.0**-7


def shifted_node(i):
    """Finds a shift from the i-th step where sine and cosine are nearly f32, and their error."""
    shifts = np.arange(-(2.0**20), 2**20 + 1) / 2.0**27
    angles = np.longdouble(str(SIN_STEP * i)) + shifts
    nodes = [np.sin(angles), np.cos(angles)]
    sine, cosine = (node.astype(np.float32).astype(float) for node in nodes)
    errors = [(value - node).astype(float) for value, node in zip((sine, cosine), nodes)]

    def error_at(x):
        """Returns the error of an angle's sine from the node's sine and cosine."""
        r = x - float(SIN_STEP * i) - shifts
        return abs(errors[0] * np.cos(r) + errors[1] * np.sin(r)) / math.sin(x)

    error = np.maximum(*(error_at(float(SIN_STEP * (i + half))) for half in (-0.5, 0.5)))
    best = np.argmin(error)
    return float(shifts[best]), float(sine[best]), float(cosine[best]), float(error[best])


def trigonometric():
    """Prints sin x = S cos r + C sin r, where S and C are of a node near kπ/16."""
    print("\n// sin, cos")
    show("16 / π.", "SIN_STEPS", nearest(1 / SIN_STEP))
    show("π/16 in two parts.", "SIN_STEP", in_two_parts(SIN_STEP))
    nodes = [shifted_node(i) for i in range(1, 8)]
    shifts, sines, cosines, errors = zip(*nodes)
    doc = "Shifts from iπ/16, below 2^-7, to where sines and cosines are nearly floats."
    mirrored = [-shift for shift in shifts[::-1]]
    show(doc, "SIN_SHIFTS", [0.0, *shifts, 0.0, *mirrored])
    bits = math.log2(max(errors))
    doc = f"The sines there; their and the cosines' errors add up to 2^{bits:.2f} of a result."
    show(doc, "SIN_NODES", [0.0, *sines, 1.0, *sines[::-1]])
    mirrored = [-cosine for cosine in cosines[::-1]]
    show("The cosines there.", "COS_NODES", [1.0, *cosines, 0.0, *mirrored])

    def of_sine(z):
        """Returns the function that the sine's polynomial approximates."""
        return (sin(sqrt(z)) / sqrt(z) - 1) / z

    def of_cosine(z):
        """Returns the function that the cosine's polynomial approximates."""
        return (cos(sqrt(z)) - 1 + z / 2) / z**2 * 2

    greatest = (SIN_STEP / 2 * mpf("1.002") + SIN_SHIFT) ** 2
    first = nearest(-mpf(1) / 6)
    polynomial(
        "sin r = r + r³ SIN(r²), relative to r³",
        "SIN",
        lambda z: (of_sine(z) - first) / z,
        lambda z: z,
        mpf("1e-12"),
        greatest,
        1,
        before=[first],
    )
    # Fitted to half a step, since the greatest shifts are where the cosine's part is small.
    usual = (SIN_STEP / 2 * mpf("1.001")) ** 2
    coefficients, _ = minimax(of_cosine, lambda z: z**2 / 2, 0, usual, 2, nearest=nearest)
    errors = [
        abs(coefficients[0] + coefficients[1] * z - of_cosine(z)) * z**2 / 2
        for z in (greatest * i / 100 for i in range(1, 101))
    ]
    bits = float(log(max(errors), 2))
    doc = f"cos r = 1 - r²/2 + r⁴/2 COS(r²), with an error of 2^{bits:.1f}."
    show(doc, "COS", [float(c) for c in coefficients])


# The inverse tangent's table has a node for each multiple of 1/31 of 1 / (1 + x).
ATAN_STEPS = 31
# Its results are biased by this share, down.
ATAN_BIAS = mpf("3e-11")


def inverse_tangent():
    """Prints atan x = atan b + atan t, where b, from a table, is next to x."""
    print("\n// atan")
    show("The bias, as a share.", "ATAN_BIAS", nearest(-ATAN_BIAS))
    # Places may err by 31 times 2^-11.
    half = mpf("0.5") + mpf(ATAN_STEPS) / 2**11
    nodes, greatest = [1.0], mpf(0)
    for i in range(1, ATAN_STEPS + 1):
        low = max(mpf(0), ATAN_STEPS / (i + half) - 1)
        high = ATAN_STEPS / (i - half) - 1
        middle = tan((atan(low) + atan(high)) / 2)
        # Differences are exact if arguments are at least half of a node and at most twice.
        nodes.append(nearest(min(max(middle, high / 2), low * 2)))
        ends = [abs(x - nodes[-1]) / (1 + x * nodes[-1]) for x in (low, high)]
        greatest = max(greatest, *ends)
    show("Nodes b; of 1/x at infinity.", "ATAN_NODES", nodes)
    angles = [pi / 2, *(atan(mpf(b)) for b in nodes[1:])]
    highs = [nearest(angle) for angle in angles]
    show("Their inverse tangents.", "ATAN_HIGH", highs)
    rests = [nearest(angle * (1 - ATAN_BIAS) - high) for angle, high in zip(angles, highs)]
    show("The rest of them, and the bias.", "ATAN_LOW", rests)
    print(f"// |t| is at most {float(greatest):.4f}.")
    polynomial(
        "atan t = t + t³ ATAN(t²), relative to t³",
        "ATAN",
        lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z if z else -mpf(1) / 3,
        lambda z: 1,
        0,
        greatest**2,
        3,
    )


# The results of the inverse sine and cosine are biased by these shares, down.
ASIN_BIAS, ACOS_BIAS = mpf("8e-11"), mpf("4.5e-11")
# Steps of sines, from 0 to 1/2.
ASIN_STEPS = 62


def sine_with_exact_slope(middle):
    """Finds a sine near another one where the inverse sine's derivative is nearly an f32."""
    sines = np.linspace(0.99 * middle, middle, 1 << 15).astype(np.float32).astype(float)
    slopes = 1 / np.sqrt((1 - sines) * (1 + sines))
    i = int(abs(slopes / slopes.astype(np.float32) - 1).argmin())
    return float(sines[i])


class Series:
    """Has terms, a target that a sum of them approximates, and its share of a result, at points."""

    def __init__(self, terms, target, size):
        self.terms, self.target, self.size = np.stack(terms, 1), target, size

    def errors(self, coefficients):
        """Returns the errors of a sum with these coefficients, relative to the result."""
        rounded = np.array(coefficients).astype(np.float32)
        return abs(self.terms @ rounded - self.target) * self.size

    def fit(self):
        """Fits by least squares, with new weights until errors are level (Lawson)."""
        level, best = np.ones_like(self.size), (math.inf, [])
        for _ in range(300):
            scale = np.sqrt(level) * self.size
            scaled = self.terms * scale[:, None]
            fitted = np.linalg.lstsq(scaled, self.target * scale, rcond=None)[0]
            errors = self.errors(fitted)
            best = min(best, (errors.max(), fitted.tolist()))
            level *= errors / errors.max() + 1e-3
            level /= level.sum()
        return best[1]

    def coefficients(self, known):
        """Returns the known coefficients, or new ones with --fit; prints their error."""
        chosen = [nearest(c) for c in self.fit()] if "--fit" in sys.argv else known
        bits = math.log2(self.errors(chosen).max())
        print(f"// The series' error is 2^{bits:.1f} of the result.")
        return chosen


# Of powers of w from the first one on; then of q, q w and q². Found by a fit, whose last digits
# depend on the machine's linear algebra.
ASIN_SERIES = [0.49999958, 0.5000331, 0.6398621, 0.16666621, 0.3791931, 0.07969649]


def asin_series(sines, slopes):
    """Makes the series of (asin u - asin c) / (D h) - 1 in w and q."""
    cells = np.arange(len(sines))[:, None]
    offsets = np.linspace(-0.5001, 0.5001, 80)[None, :]
    u = np.maximum(cells + offsets, 1e-4).ravel() / ASIN_STEPS
    sine, slope = np.repeat(sines, 80), np.repeat(slopes, 80)
    h = u - sine
    first = slope * h
    w, square = sine * slope * first, first * first
    # By the integral of the derivative.
    points, weights = np.polynomial.legendre.leggauss(12)
    inner = sine[:, None] + h[:, None] * (points + 1) / 2
    ratio = np.sqrt((1 - sine**2)[:, None] / (1 - inner**2))
    target = ((ratio - 1) * weights / 2).sum(1)
    terms = [w, w**2, w**3, square, square * w, square**2]
    return Series(terms, target, abs(first) / np.arcsin(u))


def inverse_sine():
    """Prints asin(c + h) = asin c + D h (1 + w W + q Q), q = (D h)², w = c D² h."""
    print("\n// asin, acos")
    show("The bias of the inverse sine, as a share.", "ASIN_BIAS", nearest(-ASIN_BIAS))
    show("The bias of the inverse cosine, as a share.", "ACOS_BIAS", nearest(-ACOS_BIAS))
    show("Steps to a sine of 1.", "ASIN_STEPS", ASIN_STEPS)
    sines = [0.0] + [sine_with_exact_slope(i / ASIN_STEPS) for i in range(1, 32)]
    slopes = [1 / sqrt(1 - mpf(c) ** 2) for c in sines]
    show("Sines c.", "ASIN_SINES", sines)
    bits = float(log(max(abs(nearest(d) / d - 1) for d in slopes), 2))
    doc = f"The derivatives D of the inverse sine there, with an error of 2^{bits:.1f}."
    show(doc, "ASIN_SLOPES", [nearest(d) for d in slopes])
    tables = [("ASIN", "asin c less π/6", -pi / 6, ASIN_BIAS), ("ACOS", "asin c", 0, ACOS_BIAS)]
    for name, doc, start, bias in tables:
        angles = [asin(mpf(c)) + start for c in sines]
        highs = [multiple(angle, mpf(2) ** -22) for angle in angles]
        lows = [nearest(a * (1 - bias) - high) for a, high in zip(angles, highs)]
        show(f"{doc} in its first bits.", f"{name}_HIGH", highs)
        show("The rest of it, and the bias.", f"{name}_LOW", lows)
    for name, value, bias in (("SIXTH_TURN", pi / 6, ASIN_BIAS), ("HALF_TURN", pi, ACOS_BIAS)):
        high = multiple(value, mpf(2) ** -21)
        low = nearest(value * (1 - bias) - high)
        show("In two parts, the second one with the bias.", name, [high, low])
    series = asin_series(sines, [float(d) for d in slopes]).coefficients(ASIN_SERIES)
    show("W.", "ASIN_W", series[:3])
    show("Q: at 0, and times w and q.", "ASIN_Q", series[3:])


# The place of a node of the error function: (slope + curve x) x, which is 31 at 4.
ERF_SLOPE, ERF_CURVE = 12, -17 / 16
# Powers of w = -c h and of h² in the error function's series.
ERF_TERMS = [[2, 3, 4, 5], [0, 1, 2, 3, 4], [0, 1, 2]]


def density(x):
    """Returns the derivative of the error function."""
    return 2 / math.sqrt(math.pi) * math.exp(-x * x)


def node_of_float(middle):
    """Finds a node nearby whose error function is nearest to an f32."""
    radius = max(0.002, 0.6 * 2**-24 / density(middle))
    nodes = np.linspace(middle - radius, middle + radius, 2**16).astype(np.float32)
    values = np.array([math.erf(node) for node in nodes.tolist()])
    return float(nodes[abs(values - values.astype(np.float32)).argmin()])


# Found by a fit as that of the inverse sine.
ERF_SERIES = [
    *[0.66666746, 0.3333221, 0.132959, 0.043797247],
    *[-0.33333328, -0.49999455, -0.4000061, -0.21599843, 0.07139322],
    *[0.09993009, 0.16307005, 0.005091156],
]


def erf_series(nodes, ends):
    """Makes the series of (erf x - erf c) / (D h) - 1 - w in w and h²."""
    x = np.concatenate([np.linspace(a, b, 60) for a, b in zip(ends, ends[1:])])[1:]
    node = np.repeat(nodes, 60)[1:]
    h = x - node
    w, square = -node * h, h * h
    # By the integral of exp(2 w t - h² t²) for t from 0 to 1.
    points, weights = np.polynomial.legendre.leggauss(20)
    points, weights = (points + 1) / 2, weights / 2
    target = (np.expm1(2 * np.outer(w, points) - np.outer(square, points**2)) * weights).sum(1) - w
    size = np.array([density(c) / math.erf(x) for c, x in zip(node, x)]) * abs(h)
    terms = [w**i * square**j for j, powers in enumerate(ERF_TERMS) for i in powers]
    return Series(terms, target, size)


def error_function():
    """Prints erf(c + h) = erf c + D h (1 + w + w² F(w) + h² (G(w) + h² H(w)))."""
    print("\n// erf")
    show("Steps for small arguments.", "ERF_SLOPE", ERF_SLOPE)
    show("The decrease of the steps.", "ERF_CURVE", ERF_CURVE)
    ends = [0.0]
    for i in range(31):
        ends.append(
            (math.sqrt(ERF_SLOPE**2 + 4 * ERF_CURVE * (i + 0.5)) - ERF_SLOPE) / 2 / ERF_CURVE
        )
    ends.append(4.0)
    nodes = [0.0] + [node_of_float((a + b) / 2) for a, b in zip(ends[1:], ends[2:])]
    show("Nodes c, negated.", "ERF_NODES", [-c for c in nodes])
    values = [nearest(math.erf(c)) for c in nodes]
    rest = max(abs(math.erf(c) - y) / y for c, y in zip(nodes[1:], values[1:]))
    doc = f"erf c, with an error of 2^{math.log2(rest):.1f}."
    show(doc, "ERF_VALUES", values)
    slopes = [2 / sqrt(pi) * exp(-(mpf(c) ** 2)) for c in nodes]
    show("The derivative D at c.", "ERF_SLOPES", [nearest(d) for d in slopes])
    show("The rest of it.", "ERF_SLOPES_LOW", [nearest(d - nearest(d)) for d in slopes])
    series = iter(erf_series(nodes, ends).coefficients(ERF_SERIES))
    for name, powers in zip(("W", "SQUARE", "FOURTH"), ERF_TERMS):
        values = [next(series) for _ in powers]
        show(f"Of powers of w from {powers[0]} on.", f"ERF_{name}", values)


def logarithm_by_bits(x):
    """Returns an f32's encoding as a number of binades: a logarithm that is linear in each."""
    return float(np.float32(x).view(np.int32)) / 2**23


def number_by_bits(binades):
    """Inverts `logarithm_by_bits`."""
    return float(2 ** (np.floor(binades) - 127) * (1 + binades % 1))


def value_near(low, high):
    """Finds an argument near an interval's middle whose tanh is almost an f32; returns both."""
    middle, half = (low + high) / 2, (high - low) / 2
    for share in (0.02, 0.05, 0.1, 0.2, 0.5):
        ends = np.float32(np.tanh([middle - half * share, middle + half * share])).view(np.int32)
        values = np.arange(ends[0], ends[1] + 1, dtype=np.int32).view(np.float32).astype(float)
        arguments = np.arctanh(values[values < 1]).astype(np.float32).astype(float)
        values = values[: len(arguments)]
        i = np.argmin(abs(np.tanh(arguments) / values - 1)) if len(values) else None
        if i is not None and abs(tanh(mpf(arguments[i])) / values[i] - 1) < mpf(2) ** -40:
            return float(arguments[i]), float(values[i])
    raise AssertionError("no value is close enough")


def hyperbolic_tangent():
    """Prints tanh(a + r), which is computed from tanh a, in a table, and tanh r."""
    print("\n// tanh")
    greatest, offset, steps = 9.125, 0.375, 838 / 125.5
    first = steps * logarithm_by_bits(offset)
    assert first == 838
    show("The hyperbolic tangent of greater numbers is 1.", "TANH_GREATEST", greatest)
    show("Added to an argument before it is placed.", "TANH_OFFSET", offset)
    show("The places of an octave, over 2^23.", "TANH_STEPS", nearest(mpf(steps) / 2**23))
    show("1.5 · 2^23 less the place of 0.", "TANH_PLACES", 1.5 * 2**23 - first)
    ends = [number_by_bits((i + 0.5 + first) / steps) - offset for i in range(31)] + [greatest]
    # The numbers at a place are up to a thousandth of a step beyond its ends.
    slack = [0.001 * (high - low) for low, high in zip([0, *ends], ends)]
    places = [(low - s, high + s) for low, high, s in zip(ends, ends[1:], slack[1:])]
    entries = [(0.0, 0.0)] + [value_near(*place) for place in places]
    show("Arguments, one at each place.", "TANH_ARGUMENTS", [a for a, _ in entries])
    show("Their hyperbolic tangents, within 2^-40.", "TANH_VALUES", [value for _, value in entries])
    radii = [max(a - low, high - a) for (a, _), (low, high) in zip(entries[1:], places)]
    for (a, _), (low, high) in zip(entries[1:], places):
        # The difference from a is a multiple of the lower end's last bit.
        assert max(a - low, high - a) < np.spacing(np.float32(low)) * 2**24

    def weight(z):
        """Returns the share of r³ in the result where it is greatest."""
        r = float(sqrt(z))
        slopes = [1 / r if r < ends[0] + slack[0] else 0.0]
        for (a, _), radius in zip(entries[1:], radii):
            if r < radius:
                slopes.append(2 / np.sinh(2 * max(a - r, 1e-9)))
        return mpf(max(slopes) * r**3)

    polynomial(
        "tanh r = r + r³ TANH(r²), relative to the result",
        "TANH",
        lambda z: (tanh(sqrt(z)) / sqrt(z) - 1) / z,
        weight,
        mpf("1e-12"),
        mpf(max(radii)) ** 2,
        4,
    )


def hyperbolic_sine_and_cosine():
    """Prints the inverses of the exponential's powers, for hyperbolic sine and cosine."""
    print("\n// sinh, cosh")
    powers = [mpf(nearest(exp(log(2) / 16 * i))) for i in range(16)]
    inverses = [in_two_parts(1 / (4 * power)) for power in powers]
    show("1 / (4 p) for p in `EXP_POWERS`.", "INVERSE_POWERS", [h for h, _ in inverses])
    show("The rest of it.", "INVERSE_POWERS_LOW", [low for _, low in inverses])


def with_exact_quotient(angle):
    """Finds two f32 whose quotient is the tangent of an angle below π/4, within 2^-42."""
    cosines = np.arange(1 << 22, dtype=np.int32) + np.float32(0.5).view(np.int32)
    cosines = cosines.view(np.float32).astype(float)
    products = cosines * float(tan(angle))
    sines = products.astype(np.float32).astype(float)
    i = np.argmin(abs(sines / products - 1))
    assert abs(mpf(sines[i]) / mpf(cosines[i]) / tan(angle) - 1) < mpf(2) ** -42
    return float(sines[i]), float(cosines[i])


def tangent():
    """Prints tan(a + r), from multiples of the sine and cosine of a, in tables, and tan r."""
    print("\n// tan")
    step = pi / 32
    show("32 / π.", "TAN_STEPS", nearest(1 / step))
    show("π/32 in two parts.", "TAN_STEP", in_two_parts(step))
    pairs = [(0.0, 1.0)] + [with_exact_quotient(step * i) for i in range(1, 8)] + [(1.0, 1.0)]
    pairs += [(cosine, sine) for sine, cosine in reversed(pairs[:8])]
    pairs += [(sine, -cosine) for sine, cosine in reversed(pairs[1:16])]
    doc = "Multiples of sin(iπ/32). Their quotients by the cosines' are tangents within 2^-42."
    show(doc, "TAN_SIN", [sine for sine, _ in pairs])
    show("The same multiples of cos(iπ/32).", "TAN_COS", [cosine for _, cosine in pairs])
    polynomial(
        "tan r = r + r³ TAN(r²), relative to r³",
        "TAN",
        lambda z: (tan(sqrt(z)) / sqrt(z) - 1) / z,
        lambda z: 1,
        mpf("1e-12"),
        (step / 2 * mpf("1.001")) ** 2,
        3,
    )


def root():
    """Prints the cube root: the root of the reciprocal from an encoding, and a series."""
    print("\n// cbrt")
    numbers = np.arange(0x3F800000, 0x41000000, 64, dtype=np.int32)
    values = numbers.view(np.float32).astype(float)

    def excess(start):
        """Returns the least and the greatest x y³ - 1, for y by the encoding."""
        encodings = np.rint(start - numbers / 1536).astype(np.int32) * 512
        excesses = values * encodings.view(np.float32).astype(float) ** 3 - 1
        return excesses.min(), excesses.max()

    start = min(range(0x2A4500, 0x2A6000, 8), key=lambda start: np.abs(excess(start)).max())
    least, greatest = (mpf(end) * mpf("1.001") for end in excess(start))
    show("The encoding of 1, over 2^9, by 4/3, nearly, plus 2^23.", "ROOT_START", 2.0**23 + start)
    show("-1/3 over 2^9.", "ROOT_THIRD", nearest(mpf(-1) / 1536))
    polynomial(
        "(1 + e)^(-2/3) = 1 + e ROOT(e), relative to it",
        "ROOT",
        lambda e: ((1 + e) ** (mpf(-2) / 3) - 1) / e if e else mpf(-2) / 3,
        lambda e: abs(e) * (1 + e) ** (mpf(2) / 3),
        least,
        greatest,
        4,
    )


if __name__ == "__main__":
    print("//! Tables and polynomials, printed by tools/fast_functions.py.\n")
    print('#![allow(clippy::approx_constant, reason = "first parts of constants are f32")]\n')
    exponential()
    logarithm()
    logarithm_of_sum()
    trigonometric()
    inverse_tangent()
    inverse_sine()
    error_function()
    hyperbolic_tangent()
    hyperbolic_sine_and_cosine()
    tangent()
    root()
