//! Functions of two arguments.

use crate::Machine;
use crate::exponential::exponential;
use crate::inverse::angle;
use crate::logarithm::natural;
use crate::sequence::{at_most, clamp, magnitude, two_to, with_sign_of};

/// |x|^y becomes x^y: the sign of odd powers, NaN for other than whole powers of negative numbers,
/// and 1 where an argument alone decides.
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
/// The error is below 0.51 of the last bit: 0.50000001 in 2^27 trials.
#[inline(always)]
pub fn pow<M: Machine>(m: &M, x: M::F32, y: M::F32) -> M::F32 {
    let (x, y) = (m.widen(x), m.widen(y));
    // Powers beyond 2^60 are infinite, zero or one already: infinities would make NaNs.
    let product = clamp(m, y, -two_to(60), two_to(60)) * natural(m, magnitude(m, x));
    m.narrow(signed_power(m, x, y, exponential(m, clamp(m, product, -110.0, 90.0))))
}

/// The angle of the point (x, y), from -π to π.
///
/// The error is below 0.51 of the last bit: 0.5 in 2^27 trials.
#[inline(always)]
pub fn atan2<M: Machine>(m: &M, y: M::F32, x: M::F32) -> M::F32 {
    let (y, x) = (m.widen(y), m.widen(x));
    // 2^1000 is as infinite beside an f32, but has quotients; so does 2^-300 as a zero.
    let finite = |x| at_most(m, magnitude(m, x), two_to(1000));
    let width = finite(x) + m.f64(two_to(-300));
    m.narrow(with_sign_of(m, angle(m, finite(y), width, x), y))
}

/// √(x² + y²), without overflow.
///
/// The error is below 0.51 of the last bit: 0.5 in 2^27 trials.
#[inline(always)]
pub fn hypot<M: Machine>(m: &M, x: M::F32, y: M::F32) -> M::F32 {
    let (x, y) = (m.widen(x), m.widen(y));
    m.narrow(or_infinite(m, x, y, m.sqrt(m.fma(x, x, y * y))))
}

/// Infinity if an argument is infinite, even beside NaN, else `length`.
#[inline(always)]
pub(crate) fn or_infinite<M: Machine>(m: &M, x: M::F64, y: M::F64, length: M::F64) -> M::F64 {
    [x, y].into_iter().fold(length, |length, x| {
        let size = magnitude(m, x);
        m.select(m.equal(size, m.f64(f64::INFINITY)), size, length)
    })
}
