//! Logarithms, and powers.
//!
//! The method is the same as for f32: x = 2^k (1 + f) and s = f / (2 + f), with error terms of sums and products.

use super::exponential::{exponential, power};
use super::pair::{Pair, any_sum, multiply, product, quotient, sum};
use crate::Machine;
use crate::logarithm::{ARTANH, LN_2, LN_2_LOW, LOG10_2, LOG10_2_LOW, special, split};
use crate::sequence::{at_most, clamp, magnitude, polynomial, two_to};
use crate::two_arguments::signed_power;
use std::f64::consts::{LOG2_E, LOG10_E};

/// 1 / ln 2 and 1 / ln 10, minus the doubles nearest to them.
const LOG2_E_LOW: f64 = 2.0355273740931033e-17;
const LOG10_E_LOW: f64 = 1.098319650216765e-17;

/// The polynomial in 2 artanh s = 2s + s³ (2/3 + 2/5 s² + s⁴ ARTANH_TAIL(s²)), with a relative error of 2^-72.8.
const ARTANH_TAIL: [f64; 7] = [
    0.28571428571433155,
    0.22222222220014567,
    0.18181818605126976,
    0.15384572922602624,
    0.13335762150202343,
    0.11685062239343735,
    0.11910798718537749,
];
/// 2/3 and 2/5.
const TWO_THIRDS: (f64, f64) = (2.0 / 3.0, 3.700743415417188e-17);
const TWO_FIFTHS: (f64, f64) = (2.0 / 5.0, -2.2204460492503132e-17);

/// A positive finite number, which may be subnormal, as 2^k (1 + f).
#[inline(always)]
fn split_any<M: Machine>(m: &M, x: M::F64) -> (M::F64, M::F64) {
    let subnormal = m.less(x, m.f64(f64::MIN_POSITIVE));
    let (k, f) = split(m, m.select(subnormal, x * m.f64(two_to(52)), x));
    (m.select(subnormal, k - m.f64(52.0), k), f)
}

/// log(1 + f), with an error far below the last bit.
#[inline(always)]
fn fraction<M: Machine>(m: &M, f: M::F64) -> Pair<M> {
    let s = f / (m.f64(2.0) + f);
    let z = s * s;
    let (half, half_rest) = product(m, f, f * m.f64(0.5));
    let (high, rest) = sum(m, f, -half);
    (high, m.fma(s, m.fma(z, polynomial(m, z, &ARTANH), half), rest - half_rest))
}

/// k · unit + y. The product of k and the unit's first part must be exact.
#[inline(always)]
fn with_power<M: Machine>(m: &M, k: M::F64, unit: (f64, f64), (y, low): Pair<M>) -> M::F64 {
    let (high, rest) = sum(m, k * m.f64(unit.0), y);
    high + (rest + m.fma(k, m.f64(unit.1), low))
}

/// k · unit + y · factor.
#[inline(always)]
fn combine<M: Machine>(
    m: &M, k: M::F64, unit: (f64, f64), y: Pair<M>, factor: (f64, f64),
) -> M::F64 {
    with_power(m, k, unit, multiply(m, y, (m.f64(factor.0), m.f64(factor.1))))
}

/// The natural logarithm.
#[inline(always)]
pub fn log<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let (k, f) = split_any(m, x);
    special(m, x, with_power(m, k, (LN_2, LN_2_LOW), fraction(m, f)))
}

/// The logarithm to base 2.
#[inline(always)]
pub fn log2<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let (k, f) = split_any(m, x);
    special(m, x, combine(m, k, (1.0, 0.0), fraction(m, f), (LOG2_E, LOG2_E_LOW)))
}

/// The logarithm to base 10.
#[inline(always)]
pub fn log10<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let (k, f) = split_any(m, x);
    let y = combine(m, k, (LOG10_2, LOG10_2_LOW), fraction(m, f), (LOG10_E, LOG10_E_LOW));
    special(m, x, y)
}

/// log(1 + x), as the logarithm of the rounded 1 + x plus the contribution of the rest.
#[inline(always)]
pub fn log1p<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let zero = m.f64(0.0);
    let (above, rest) = any_sum(m, x, m.f64(1.0));
    let (k, f) = split(m, above);
    // If k is zero, f is x itself.
    let exact = m.equal(k, zero);
    let f = m.select(exact, x, f);
    // 2^-k, as long as the rest counts.
    let scale = m.select(exact, zero, power(m, -at_most(m, k, 1000.0)));
    let y = natural(m, k, (f, rest * scale));
    special(m, above, m.select(m.equal(x, zero), x, y))
}

/// The natural logarithm of 2^unit times a pair. The second part is at most a few last bits of the first.
#[inline(always)]
pub(super) fn log_of_pair<M: Machine>(m: &M, (high, rest): Pair<M>, unit: f64) -> M::F64 {
    let (k, f) = split(m, high);
    let scale = power(m, -at_most(m, k, 1000.0));
    natural(m, k + m.f64(unit), (f, rest * scale))
}

/// k ln 2 + log(1 + f) of a pair f. The second part is at most a few last bits of 1.
#[inline(always)]
fn natural<M: Machine>(m: &M, k: M::F64, (f, rest): Pair<M>) -> M::F64 {
    // 1 / (1 + f) is nearly 1 - f + f² - f³ + f⁴.
    let inverse = polynomial(m, f, &[1.0, -1.0, 1.0, -1.0, 1.0]);
    let (high, low) = fraction(m, f);
    with_power(m, k, (LN_2, LN_2_LOW), (high, m.fma(rest, inverse, low)))
}

/// log(2^k (1 + f)), with a relative error below 1.125 · 2^-67. The second part is below 2^-42 of the first.
#[inline(always)]
fn precise<M: Machine>(m: &M, k: M::F64, f: M::F64) -> Pair<M> {
    let pair = |(high, low)| (m.f64(high), m.f64(low));
    // An exact constant plus a smaller pair.
    let add = |a: Pair<M>, b: Pair<M>| {
        let (high, rest) = sum(m, a.0, b.0);
        (high, rest + (a.1 + b.1))
    };
    let s = quotient(m, (f, m.f64(0.0)), sum(m, m.f64(2.0), f));
    let z = multiply(m, s, s);
    let tail = z.0 * polynomial(m, z.0, &ARTANH_TAIL);
    let series = add(pair(TWO_FIFTHS), (tail, m.f64(0.0)));
    let series = add(pair(TWO_THIRDS), multiply(m, z, series));
    let cubic = multiply(m, s, multiply(m, z, series));
    let y = add((s.0 + s.0, s.1 + s.1), cubic);
    add((k * m.f64(LN_2), k * m.f64(LN_2_LOW)), y)
}

/// x to the power y, as e^(y log x).
///
/// The bound of its error follows in three steps. Each step allows any pair within the errors of the step before
/// (tools/function_bounds/powers.py). The logarithm of the fraction, for fractions from √½ to √2, has a relative error
/// below 2^-67 in both parts together. With k ln 2, for all k, the error is below 1.125 · 2^-67. e^p is bounded like
/// exp, for all products p = k ln 2 + r from -746 to 710 and all pairs with the logarithm's error times |p|, at most
/// 2^-57.3, and two more roundings of the second part. Subnormal results are rounded once more, by half of a unit that
/// is at least twice the one before. Beyond these products results are zero or infinite. Signs are exact.
#[inline(always)]
pub fn pow<M: Machine>(m: &M, x: M::F64, y: M::F64) -> M::F64 {
    let size = magnitude(m, x);
    let (k, f) = split_any(m, size);
    let log = precise(m, k, f);
    let log = (special(m, size, log.0), log.1);
    // With exponents beyond 2^80, powers are infinite, zero or one. Infinite exponents would make NaNs.
    let exponent = clamp(m, y, -two_to(80), two_to(80));
    let (high, low) = multiply(m, (exponent, m.f64(0.0)), log);
    // If the first part is infinite, the rest is NaN.
    let low = m.select(m.less(magnitude(m, high), m.f64(746.0)), low, m.f64(0.0));
    signed_power(m, x, y, exponential(m, (clamp(m, high, -746.0, 710.0), low)))
}
