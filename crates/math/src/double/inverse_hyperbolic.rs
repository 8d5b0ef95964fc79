//! Inverse hyperbolic functions, as logarithms of pairs.
//!
//! A pair for 1 + u has an absolute error below 2^-98 if the result is below 1. So log(1 + u) is exact enough for
//! results from 2^-28 on, without a sequence of its own near zero. Smaller results are x: the relative difference from
//! asinh x and atanh x is less than 2^-57. From 2^30 on asinh x and acosh x are log 2x, within 2^-61. The bounds follow
//! from pieces of the arguments up to 2^30 (logarithms.py in tools/function_bounds).

use super::logarithm::log_of_pair;
use super::pair::{any_sum, product, quotient, sum};
use crate::Machine;
use crate::logarithm::special;
use crate::sequence::{at_most, magnitude, two_to, with_sign_of};

/// Below this magnitude asinh and atanh return their argument.
const TINY: f64 = two_to(-28);
/// If half of the argument is greater, the root counts as this half.
const HUGE: f64 = two_to(29);

/// log(2 (h + √(t² + c))), where h is half of the argument `size`, and the root is half of the result's cosh or sinh.
/// With halves, the greatest arguments do not overflow.
#[inline(always)]
fn area<M: Machine>(m: &M, size: M::F64, half: M::F64, t: M::F64, c: M::F64) -> M::F64 {
    let is_huge = m.less(m.f64(HUGE), half);
    let t = at_most(m, t, HUGE);
    let (square, square_rest) = product(m, t, t);
    let (total, total_rest) = any_sum(m, square, c);
    let root = m.sqrt(total);
    // The rest of the root. For a root of zero it is zero.
    let left = m.fma(-root, root, total) + (total_rest + square_rest);
    let root_rest = left / (root + root + m.f64(two_to(-200)));
    let (high, rest) = any_sum(m, half, root);
    let high = m.select(is_huge, size, high);
    let rest = m.select(is_huge, m.f64(0.0), rest + root_rest);
    let y = log_of_pair(m, (high, rest), 1.0);
    m.select(m.less(size, m.f64(f64::INFINITY)), y, size)
}

/// The inverse hyperbolic sine: log(x + √(x² + 1)).
#[inline(always)]
pub fn asinh<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let size = magnitude(m, x);
    let half = size * m.f64(0.5);
    let y = with_sign_of(m, area(m, size, half, half, m.f64(0.25)), x);
    m.select(m.less(size, m.f64(TINY)), x, y)
}

/// The inverse hyperbolic cosine: log(x + √(x² - 1)), where a quarter of x² - 1 is t² + t for t = (x - 1) / 2.
#[inline(always)]
pub fn acosh<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let half = x * m.f64(0.5);
    // Exact up to 2^53; beyond that the error does not count.
    let t = half - m.f64(0.5);
    let y = area(m, x, half, t, at_most(m, t, HUGE));
    m.select(m.less(x, m.f64(1.0)), m.f64(f64::NAN), y)
}

/// The inverse hyperbolic tangent: half of log((1 + x) / (1 - x)).
#[inline(always)]
pub fn atanh<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let size = magnitude(m, x);
    let one = m.f64(1.0);
    let ratio = quotient(m, sum(m, one, size), sum(m, one, -size));
    let y = special(m, ratio.0, log_of_pair(m, ratio, 0.0)) * m.f64(0.5);
    m.select(m.less(size, m.f64(TINY)), x, with_sign_of(m, y, x))
}
