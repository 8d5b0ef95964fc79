"""The operations' oracles, which use NumPy alone and share no code with the library.

Each oracle takes the function's arguments before the output, and returns the output as an array.
"""

from typing import Callable

import numpy as np

# The only NaN in results.
QUIET_NAN = {
    np.dtype(np.float16): np.uint16(0x7E00).view(np.float16),
    np.dtype(np.float32): np.uint32(0x7FC00000).view(np.float32),
    np.dtype(np.float64): np.uint64(0x7FF8000000000000).view(np.float64),
}

# A type that can hold a product and its rounding error, and that has enough bits to round again
# after rounding to odd. The wider one is the x87's: 64 bits, and 15 of exponent.
WIDER = {np.dtype(np.float32): np.float64, np.dtype(np.float64): np.longdouble}

Oracle = Callable[..., np.ndarray]


def unsigned(dtype) -> np.dtype:
    """Returns the unsigned integer type of a type's size."""
    return np.dtype(f"u{np.dtype(dtype).itemsize}")


def canonical(values: np.ndarray) -> np.ndarray:
    """Replaces every NaN by the one quiet NaN."""
    return np.where(np.isnan(values), QUIET_NAN[values.dtype], values)


def rounded(ufunc: np.ufunc) -> Oracle:
    """Makes an oracle of a NumPy function on floats, with canonical NaN."""

    def oracle(*arguments) -> np.ndarray:
        with np.errstate(all="ignore"):
            return canonical(ufunc(*arguments))

    return oracle


def wrapping(ufunc: np.ufunc) -> Oracle:
    """Makes an oracle of a NumPy function on integers, wrapping around."""

    def oracle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return ufunc(a.view(unsigned(a.dtype)), b.view(unsigned(b.dtype))).view(a.dtype)

    return oracle


def fused(alpha: float, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns `alpha * a + b`, rounded once, with canonical NaN.

    Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using
    rounding to odd", IEEE Transactions on Computers 57(4), 2008.
    """
    with np.errstate(all="ignore"):
        product, rest = exact_product(np.full(1, alpha, a.dtype), a)
        addend = b.astype(product.dtype)
        high, low = exact_sum(addend, rest)
        high, middle = exact_sum(product, high)
        fine = to_odd(high, to_odd(middle, low))
        # Right for infinities, NaNs and the sign of zero.
        coarse = product + addend
        exact = np.where(np.isfinite(coarse) & (fine != 0), fine, coarse)
        return canonical(exact.astype(a.dtype))


def exact_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns a product in the wider type and its error, from the factors' halves."""
    wide = WIDER[a.dtype]
    (a_high, a_low), (b_high, b_low) = halves(a), halves(b)
    product = a.astype(wide) * b.astype(wide)
    rest = a_high * b_high - product + a_high * b_low + a_low * b_high + a_low * b_low
    return product, rest


def halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the leading and the trailing half of each float's bits, in the wider type."""
    bits = unsigned(values.dtype)
    others = bits.type((1 << (np.finfo(values.dtype).nmant + 1) // 2) - 1)
    high = (values.view(bits) & ~others).view(values.dtype)
    return high.astype(WIDER[values.dtype]), (values - high).astype(WIDER[values.dtype])


def exact_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns a sum and its error."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def to_odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns `a + b`, or if that is inexact, its neighbour whose last bit is 1.

    Rounded again, to at least two bits less, it equals the exact sum rounded once.
    """
    total, rest = exact_sum(a, b)
    is_even = total.view(np.uint64)[:: total.itemsize // 8] % 2 == 0
    other = np.nextafter(total, np.copysign(np.inf, rest).astype(total.dtype))
    return np.where(is_even & (rest != 0), other, total)


def wrapping_dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns the dot product of integers, as an int64, wrapping around."""
    return wrapping_sum(wide_bits(a) * wide_bits(b))


def wrapping_sum(a: np.ndarray) -> np.ndarray:
    """Returns the sum of integers, as an int64, wrapping around."""
    return np.add.reduce(wide_bits(a), keepdims=True).view(np.int64)


def smallest(a: np.ndarray) -> np.ndarray:
    """Returns the minimum: NaN if there is one, -0 below +0."""
    return extreme(a, np.min, np.any)


def largest(a: np.ndarray) -> np.ndarray:
    """Returns the maximum: NaN if there is one, -0 below +0."""
    return extreme(a, np.max, np.all)


def extreme(a: np.ndarray, choose: Callable, is_minus: Callable) -> np.ndarray:
    """Returns the chosen element. A zero is -0 if `is_minus` holds for the signs of the zeros."""
    result = np.array([choose(a)])
    if np.issubdtype(a.dtype, np.floating) and result[0] == 0:
        result[0] = -0.0 if is_minus(np.signbit(a[a == 0])) else 0.0
    return canonical(result) if result.dtype in QUIET_NAN else result


def wide_bits(values: np.ndarray) -> np.ndarray:
    """Converts integers to 64 bits that wrap around."""
    return values.astype(np.int64).view(np.uint64)
