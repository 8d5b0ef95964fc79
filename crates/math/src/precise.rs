//! Angles and powers of f32 with errors below 2^-99 and 2^-91, for results so close to the middle of two floats that a
//! number of 64 bits does not show on which side they are.
//!
//! Numbers have two parts (Dekker). Series have the exact rational coefficients of Taylor's series.
//! tools/function_bounds/two_arguments.py derives the errors: it repeats the operations here with a bound for each.

use crate::Machine;
use crate::double::pair::{Pair, any_sum, multiply, product, quotient, sum};
use crate::double::reduced_angle;
use crate::inverse::PI_REST;
use crate::sequence::{magnitude, nearest, sum_to_odd, two_to};
use crate::{exponential, logarithm};
use std::f64::consts::LOG2_E;

/// 1 / (2i + 1): the coefficients of atan t / t in -t², and of artanh s / s in s².
const ODD: [(f64, f64); 40] = {
    let mut odd = [(0.0, 0.0); 40];
    let mut i = 0;
    while i < odd.len() {
        odd[i] = reciprocal(2 * i as i128 + 1);
        i += 1;
    }
    odd
};
/// 1 / i!: the coefficients of e^r.
const FACTORIALS: [(f64, f64); 23] = {
    let (mut factorials, mut factorial) = ([(1.0, 0.0); 23], 1);
    let mut i = 1;
    while i < factorials.len() {
        factorial *= i as i128;
        factorials[i] = reciprocal(factorial);
        i += 1;
    }
    factorials
};

/// ln 2 minus the two parts in crate::logarithm.
const LN_2_LOWEST: f64 = f64::from_bits(0x398f_97b5_7a07_9a19);
/// The error of a power before it is scaled. A smaller rest counts as zero (crate::two_arguments::pow).
const EXACT_BELOW: f64 = two_to(-91);

/// 1 / n in two parts, for a double n below 2^71.
const fn reciprocal(n: i128) -> (f64, f64) {
    let high = 1.0 / n as f64;
    // high = significand / power, so 1 / n - high = (power - significand n) / power / n.
    let significand = (high.to_bits() & ((1 << 52) - 1) | 1 << 52) as i128;
    let exponent = 1075 - (high.to_bits() >> 52) as i64;
    let rest = (1 << exponent) - significand * n;
    (high, rest as f64 / n as f64 * two_to(-exponent))
}

/// a + b for |a| ≥ |b| or a = 0.
#[inline(always)]
fn add<M: Machine>(m: &M, a: Pair<M>, b: Pair<M>) -> Pair<M> {
    let (high, rest) = sum(m, a.0, b.0);
    (high, rest + (a.1 + b.1))
}

/// The sum of a series' first terms by Horner's rule. The first `pairs` terms are computed in two parts.
#[inline(always)]
fn series<M: Machine>(m: &M, x: Pair<M>, coefficients: &[(f64, f64)], pairs: usize) -> Pair<M> {
    let (pairs, rest) = coefficients.split_at(pairs);
    let zero = m.f64(0.0);
    let rest = rest.iter().rev().fold(zero, |sum, &(c, _)| m.fma(sum, x.0, m.f64(c)));
    pairs
        .iter()
        .rev()
        .fold((rest, zero), |sum, &(c, low)| add(m, (m.f64(c), m.f64(low)), multiply(m, x, sum)))
}

/// The angle of a point that is `height` above and `width` beside the origin, to the left if the sign of `side` is set,
/// rounded to odd.
///
/// The reduction is the same as for the angle in 64 bits: |t| ≤ tan π/8.
#[inline(always)]
pub(crate) fn angle<M: Machine>(m: &M, height: M::F64, width: M::F64, side: M::F64) -> M::F64 {
    let (base, (t, low), left) = reduced_angle(m, height, width, side);
    let t = sum(m, m.select(left, -t, t), m.select(left, -low, low));
    let square = multiply(m, t, t);
    let angle = multiply(m, t, series(m, (-square.0, -square.1), &ODD, 20));
    let (high, low) = add(m, (base, base * m.f64(PI_REST)), angle);
    sum_to_odd(m, high, low)
}

/// The natural logarithm of a positive finite f32.
#[inline(always)]
fn natural<M: Machine>(m: &M, x: M::F64) -> Pair<M> {
    let zero = m.f64(0.0);
    let (k, f) = logarithm::split(m, x);
    // 2 + f is exact: f is a multiple of 2^-24.
    let s = quotient(m, (f, zero), (m.f64(2.0) + f, zero));
    let square = multiply(m, s, s);
    let artanh = multiply(m, s, series(m, square, &ODD[..21], 10));
    let ln_2 = (m.f64(exponential::LN_2), m.f64(exponential::LN_2_LOW));
    let (high, low) =
        add(m, multiply(m, (k, zero), ln_2), (artanh.0 + artanh.0, artanh.1 + artanh.1));
    sum(m, high, low)
}

/// x to the power y, for positive finite x and powers from 2^-160 to 2^130, rounded to odd. Exact if the power has few
/// bits.
#[inline(always)]
pub(crate) fn power<M: Machine>(m: &M, x: M::F64, y: M::F64) -> M::F64 {
    let (product_high, product_low) = multiply(m, (y, m.f64(0.0)), natural(m, x));
    let (k, shifted) = nearest(m, product_high * m.f64(LOG2_E));
    // Exact: the first part of ln 2 ends with eleven zeros.
    let r = m.fma(k, m.f64(-logarithm::LN_2), product_high);
    let (term, term_rest) = product(m, k, m.f64(-logarithm::LN_2_LOW));
    let (r, rest) = any_sum(m, r, term);
    let rest = rest + (product_low + m.fma(k, m.f64(-LN_2_LOWEST), term_rest));
    let (high, low) = series(m, any_sum(m, r, rest), &FACTORIALS, 14);
    let (high, low) = sum(m, high, low);
    let is_exact = m.less(magnitude(m, low), m.f64(EXACT_BELOW));
    let low = m.select(is_exact, m.f64(0.0), low);
    sum_to_odd(m, high, low) * exponential::power_of_two(m, shifted)
}
