//! Sequences of operations that several functions share.

use crate::Machine;

/// Adding this to a number below 2^51 in magnitude and subtracting it again rounds to the nearest integer. The low bits
/// of the sum are this integer.
pub(crate) const TO_INTEGER: f64 = 6_755_399_441_055_744.0; // 1.5 · 2^52

/// 2^exponent, which must be a normal number.
pub(crate) const fn two_to(exponent: i64) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// The polynomial with these coefficients, lowest first, by Horner's rule.
#[inline(always)]
pub(crate) fn polynomial<M: Machine>(m: &M, x: M::F64, coefficients: &[f64]) -> M::F64 {
    let (last, rest) = coefficients.split_last().expect("a polynomial has coefficients");
    rest.iter().rev().fold(m.f64(*last), |sum, &c| m.fma(sum, x, m.f64(c)))
}

/// The same by Horner's rule for the even and for the odd powers separately: their operations do not wait for each
/// other.
#[inline(always)]
pub(crate) fn long_polynomial<M: Machine>(m: &M, x: M::F64, coefficients: &[f64]) -> M::F64 {
    let square = x * x;
    let every_other = |first: usize| {
        let mut powers = coefficients[first..].iter().step_by(2).rev();
        let last = m.f64(*powers.next().expect("a long polynomial has both"));
        powers.fold(last, |sum, &c| m.fma(sum, square, m.f64(c)))
    };
    m.fma(every_other(1), x, every_other(0))
}

/// The nearest integer to a number below 2^51 in magnitude, and a number with this integer in its low bits.
#[inline(always)]
pub(crate) fn nearest<M: Machine>(m: &M, x: M::F64) -> (M::F64, M::F64) {
    let shifted = x + m.f64(TO_INTEGER);
    (shifted - m.f64(TO_INTEGER), shifted)
}

/// The smaller of x and `high`. NaN stays.
#[inline(always)]
pub(crate) fn at_most<M: Machine>(m: &M, x: M::F64, high: f64) -> M::F64 {
    m.select(m.less(m.f64(high), x), m.f64(high), x)
}

/// The number nearest to x from `low` to `high`. NaN stays.
#[inline(always)]
pub(crate) fn clamp<M: Machine>(m: &M, x: M::F64, low: f64, high: f64) -> M::F64 {
    at_most(m, m.select(m.less(x, m.f64(low)), m.f64(low), x), high)
}

/// The magnitude.
#[inline(always)]
pub(crate) fn magnitude<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    m.float(m.bits(x) & m.i64(i64::MAX))
}

/// The magnitude of y with the sign of x.
#[inline(always)]
pub(crate) fn with_sign_of<M: Machine>(m: &M, y: M::F64, x: M::F64) -> M::F64 {
    m.float((m.bits(y) & m.i64(i64::MAX)) | (m.bits(x) & m.i64(i64::MIN)))
}

/// Replaces y for the few inputs with results too close to the middle of two floats. `exceptions` has the bits of each
/// input and of its result.
#[inline(always)]
pub(crate) fn except<M: Machine>(m: &M, x: M::F64, y: M::F64, exceptions: &[(u32, u32)]) -> M::F64 {
    exceptions.iter().fold(y, |y, &(input, result)| {
        let [input, result] = [input, result].map(|bits| m.f64(f32::from_bits(bits).into()));
        m.select(m.equal(x, input), result, y)
    })
}

/// a + b for |a| ≥ |b|, rounded to odd. Narrowing it has the same result as narrowing the exact sum.
#[inline(always)]
pub(crate) fn sum_to_odd<M: Machine>(m: &M, a: M::F64, b: M::F64) -> M::F64 {
    let sum = a + b;
    to_odd(m, sum, b - (sum - a))
}

/// y plus a rest below its last bit, rounded to odd. Only the sign of the rest counts.
#[inline(always)]
pub(crate) fn to_odd<M: Machine>(m: &M, y: M::F64, rest: M::F64) -> M::F64 {
    // The exact number lies towards zero from y if the signs differ.
    let opposite = m.shift_right(m.bits(y) ^ m.bits(rest), 63);
    let odd = m.float((m.bits(y) - opposite) | m.i64(1));
    m.select(m.equal(rest, m.f64(0.0)), y, odd)
}
