//! Inverse hyperbolic functions: log(1 + u), for a u in two parts.
//!
//! u is the root of an equation of degree one or two. The first part of u is an approximation. The second part is
//! Newton's correction: the equation's residual there, which has only one rounding, over the derivative. Its error is
//! the product of the relative errors of the first part and of the derivative, plus, for an equation of degree two,
//! half the square of the first part's: together less than 2^-41 of u. So u has a small relative error, however small
//! it is, and so have the results. On each 31st float, errors are at most 0.71 of the bias of logarithms for the sine,
//! 0.58 for the cosine and 0.75 for the tangent.

use super::logarithm_of_sum::{of_one_plus, of_sum, rounded};
use super::{Machine32, with_sign_of};

/// The inverse hyperbolic sine of a magnitude x: u = x + √(x² + 1) - 1 = x + x² / (1 + √(x² + 1)).
///
/// (1 + u)² - 2 x (1 + u) = 1. Half of the residual is x - u + u (x - u/2). u is from x to 2x, so that both differences
/// are exact.
#[inline(always)]
pub fn asinh<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const GREATEST: f32 = (1 << 23) as f32;
    let (size, one) = (m.magnitude(x), m.f32(1.0));
    let square = x * x;
    let above_square = square + one;
    let inverse = m.reciprocal_root(above_square);
    let part = m.reciprocal(m.fma(above_square, inverse, one));
    let u = m.fma(square, part, size);
    let lacks = m.fma(u, m.fma(u, m.f32(-0.5), size), size - u);
    let (parts, _) = of_one_plus(m, u, Some(lacks * inverse));
    let (y, is_sure) = rounded(m, parts);
    (with_sign_of(m, y, x), m.and_less(is_sure, size, m.f32(GREATEST)))
}

/// The inverse hyperbolic cosine: 1 + u = x + √(x² - 1).
///
/// For w = 1 + u, w (2x - w) = 1. x plus the root is exactly w plus a rest, since the root is less than x. 2x - w is
/// exact, too, so that the residual at w has only one rounding. Newton's correction is for w plus the rest. There the
/// residual is less by the rest times the derivative, which is the root plus the root minus the rest.
///
/// From 2^64 on, x² is infinite, and no result is sure.
#[inline(always)]
pub fn acosh<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let one = m.f32(1.0);
    let (root, inverse) = m.roots(m.fms(x, x, one));
    let above = x + root;
    let without_rest = above - x;
    let rest = root - without_rest;
    let lacks = m.fms(above, m.fms(x, m.f32(2.0), above), one);
    let lacks = m.fnma(rest, root + without_rest, lacks);
    let rest = m.fma(lacks * inverse, m.f32(0.5), rest);
    let (parts, _) = of_sum(m, above, rest, None);
    let (y, is_sure) = rounded(m, parts);
    (y, m.and_less(is_sure, one, x))
}

/// The inverse hyperbolic tangent: half of log(1 + u) with u = 2x / (1 - x) = 2x + 2x² / (1 - x) for a magnitude x.
///
/// u (1 - x) = 2x, with 1 - x in two parts.
#[inline(always)]
pub fn atanh<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    /// u is below 2^24 for all numbers below.
    const GREATEST: f32 = 1.0 - f32::EPSILON / 2.0;
    let (size, one) = (m.magnitude(x), m.f32(1.0));
    let twice = size + size;
    let below = one - size;
    let below_low = (one - below) - size;
    let inverse = m.reciprocal(below);
    let u = m.fma(twice * size, inverse, twice);
    let lacks = m.fnma(u, below_low, m.fnma(u, below, twice));
    let (parts, _) = of_one_plus(m, u, Some(lacks * inverse));
    let (y, is_sure) = rounded(m, parts);
    (with_sign_of(m, y * m.f32(0.5), x), m.and_less(is_sure, size, m.f32(GREATEST)))
}
