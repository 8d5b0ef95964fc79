//! Functions of two arguments, rounded correctly.
//!
//! A result in 64 bits has a relative error below a bound, which `make function-bounds` derives. If both ends of the
//! interval that the bound leaves round to the same float, so does the exact result: rounding is monotone (Ziv, Fast
//! evaluation of elementary mathematical functions with correctly rounded last bit). Otherwise, for at most one in 10^5
//! ordinary arguments, a more exact sequence decides.

use crate::Machine;
use crate::double::pair::any_sum;
use crate::exponential::exponential;
use crate::inverse::angle;
use crate::logarithm::natural;
use crate::precise;
use crate::sequence::{at_most, clamp, magnitude, to_odd, two_to, with_sign_of};

/// The polynomial in atan t = t + t³ SHORT_ARC_TANGENT(t²) for |t| ≤ tan π/8, with a relative error of 2^-45.1.
const SHORT_ARC_TANGENT: [f64; 8] = [
    -0.3333333333169666,
    0.19999999685474715,
    -0.14285693586956083,
    0.1111044974294198,
    -0.09079134326564937,
    0.07568515819625118,
    -0.058909666702177434,
    0.03089330121635262,
];

/// The relative error of a power in 64 bits, without the rounding of an end.
const POWER_BOUND: f64 = two_to(-43);
/// The relative error of an angle in 64 bits, without the rounding of an end.
const ANGLE_BOUND: f64 = two_to(-44);
/// The relative error of a length in 64 bits, without the rounding of an end.
const LENGTH_BOUND: f64 = two_to(-51);

/// Turns |x|^y into x^y: sets the sign of odd powers. The result is NaN for a power of a negative number that is not
/// whole, and 1 if one argument alone decides that.
#[inline(always)]
pub(crate) fn signed_power<M: Machine>(m: &M, x: M::F64, y: M::F64, power: M::F64) -> M::F64 {
    let (zero, one, infinity) = (m.f64(0.0), m.f64(1.0), m.f64(f64::INFINITY));
    let is_whole = |y: M::F64| {
        // From 2^52 on all numbers are whole.
        let to_whole = m.f64(two_to(52));
        let nearest = (y + to_whole) - to_whole;
        m.equal(m.select(m.less(y, to_whole), nearest, y), y)
    };
    let size = magnitude(m, y);
    let whole = is_whole(size);
    let even = is_whole(size * m.f64(0.5));
    let sign = m.select(whole, m.select(even, zero, x), zero);
    let power = m.float(m.bits(power) | (m.bits(sign) & m.i64(i64::MIN)));
    let below = m.select(m.less(x, zero), m.f64(f64::NAN), power);
    let below = m.select(m.equal(magnitude(m, x), infinity), power, below);
    let power = m.select(whole, power, below);
    m.select(m.equal(x, one), one, m.select(m.equal(y, zero), one, power))
}

/// x to the power y, as e^(y log x).
///
/// A power that is a float, or in the middle of two, has at most 25 bits. For x = m 2^e with an odd m > 1, this
/// requires that y = n / 2^k is positive, m is a power with the exponent 2^k, and m^y is below 2^25; so n and m^(1 /
/// 2^k) are small. For m = 1 it requires that y e is whole. The precise power has an error below 2^-91. If it is that
/// close to a number of 53 bits, it is taken to be this number, which is right for these powers. Probably no other
/// power is as close to the middle of two floats, but this is not proved: each of some 2^60 pairs with powers other
/// than 0, 1 and ∞ is within 2^-91 with a probability of 2^-65.
#[inline(always)]
pub fn pow<M: Machine>(m: &M, x: M::F32, y: M::F32) -> M::F32 {
    let (x, y) = (m.widen(x), m.widen(y));
    let size = magnitude(m, x);
    // With exponents beyond 2^60, powers are infinite, zero or one. Infinite exponents would make NaNs.
    let product = clamp(m, y, -two_to(60), two_to(60)) * natural(m, size);
    let power = exponential(m, clamp(m, product, -110.0, 90.0));
    // Squares are exact, and are in the middle of two floats more often than other powers.
    let is_square = m.equal(y, m.f64(2.0));
    let power = signed_power(m, x, y, m.select(is_square, size * size, power));
    let end = |factor| power * m.select(is_square, m.f64(1.0), m.f64(factor));
    let ends = [end(1.0 - POWER_BOUND), end(1.0 + POWER_BOUND)];
    m.rounded(ends, || with_sign_of(m, precise::power(m, size, y), power))
}

/// The angle of the point (x, y), from -π to π.
///
/// An angle other than 0 is never in the middle of two floats, since its tangent would not be a quotient of floats
/// (Lindemann). A quotient t below 2^-26 is slightly greater than its angle. The angle is so close to it that both are
/// on the same side of each float and each middle, or the angle is just below one that the quotient equals. The precise
/// angle has both parts, the exact quotient and the term -t³/3, however small. Greater angles have an error below
/// 2^-99.
#[inline(always)]
pub fn atan2<M: Machine>(m: &M, y: M::F32, x: M::F32) -> M::F32 {
    let (y, x) = (m.widen(y), m.widen(x));
    // Beside an f32, 2^300 acts as an infinity and 2^-300 as a zero, but both have quotients.
    let finite = |x| at_most(m, magnitude(m, x), two_to(300));
    let (height, width) = (finite(y), finite(x) + m.f64(two_to(-300)));
    let angle = angle(m, height, width, x, &SHORT_ARC_TANGENT);
    // The sign of `angle` is never set.
    let result = m.float(m.bits(angle) | (m.bits(y) & m.i64(i64::MIN)));
    let exact = || with_sign_of(m, precise::angle(m, height, width, x), y);
    m.rounded(around(m, result, ANGLE_BOUND), exact)
}

/// √(x² + y²), without overflow.
///
/// Squares of f32 are exact, so the sum has a relative error of 2^-53. It adds 2^-54 to the root's own error of 2^-53.
#[inline(always)]
pub fn hypot<M: Machine>(m: &M, x: M::F32, y: M::F32) -> M::F32 {
    let (x, y) = (m.widen(x), m.widen(y));
    let (x_square, y_square, infinity) = (x * x, y * y, m.f64(f64::INFINITY));
    // Infinity if an argument is infinite, even beside NaN.
    let first = m.select(m.equal(y_square, infinity), y_square, x_square);
    let second = m.select(m.equal(x_square, infinity), x_square, y_square);
    let length = m.sqrt(first + second);
    m.rounded(around(m, length, LENGTH_BOUND), || exact_length(m, x, y))
}

/// The ends of the interval around y with a relative distance of `bound`, without the rounding of an end.
#[inline(always)]
fn around<M: Machine>(m: &M, y: M::F64, bound: f64) -> [M::F64; 2] {
    [1.0 - bound, 1.0 + bound].map(|factor| y * m.f64(factor))
}

/// √(x² + y²), rounded to odd, for finite numbers that are not both zero.
///
/// The difference of the sum's first part and the root's square is exact (Muller and others, Handbook of Floating-Point
/// Arithmetic, Theorem 4.10). With the sum's second part it has the right sign. The exact root is less than a last bit
/// away: half a bit for the root itself, and a quarter for the sum's second part.
#[inline(always)]
fn exact_length<M: Machine>(m: &M, x: M::F64, y: M::F64) -> M::F64 {
    let (square, rest) = any_sum(m, x * x, y * y);
    let root = m.sqrt(square);
    to_odd(m, root, m.fma(-root, root, square) + rest)
}

/// Infinity if an argument is infinite, even beside NaN, else `length`.
#[inline(always)]
pub(crate) fn or_infinite<M: Machine>(m: &M, x: M::F64, y: M::F64, length: M::F64) -> M::F64 {
    [x, y].into_iter().fold(length, |length, x| {
        let size = magnitude(m, x);
        m.select(m.equal(size, m.f64(f64::INFINITY)), size, length)
    })
}
