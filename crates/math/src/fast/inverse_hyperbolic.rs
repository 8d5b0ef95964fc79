//! Inverse hyperbolic functions: log(1 + u), where 1 + u is a sum in two parts.
//!
//! A quotient or a root in two parts is right but for the product of the errors of an approximation of it and of
//! its inverse, and half the square of the first one, 2^-41.3 together; other roundings err by 2^-46. Logarithms
//! err by up to 0.69 of their bias for u from 2^-5 on, where those of the sine and the tangent begin. Relative to
//! them 2^-41.3 is 2^-36.3 there, or 0.23 of the bias, and less for greater u, such as 0.08 where logarithms err
//! most. The cosine's root is the greater part of u where this is small, so that its error stays 2^-41.3 of u.
//!
//! Smaller arguments of the sine and the tangent have a series. x³/6 and x³/3 are below 2^-12.5 x and 2^-13.5 x
//! there, so that four roundings of 2^-24 err by less than 2^-34.5 of the result, 0.8 of the bias, and the terms
//! left out by 2^-38.8.
//!
//! So as to test one interval from the computed low part, all terms of it are less by the logarithm's bias. On each
//! 31st float errors are at most 0.70 of it for the sine, 0.58 for the cosine and 0.67 for the tangent.

use super::constants::{LOG_BIAS, LOG_UNIT};
use super::logarithm::{of_sum, rounded_natural};
use super::{Machine32, polynomial, product, sum, with_sign_of};

/// √(h + low) in two parts, for a `low` that is small beside h.
#[inline(always)]
fn root<M: Machine32>(m: &M, h: M::F32, low: M::F32) -> (M::F32, M::F32) {
    let (root, inverse) = m.roots(h);
    let missing = (low - m.fms(root, root, h)) * (inverse * m.f32(0.5));
    sum::<M>(root, missing)
}

/// factor · (x + x³ P(x²)) in the two parts that [`rounded_natural`] rounds.
#[inline(always)]
fn series<M: Machine32>(m: &M, x: M::F32, factor: f32, coefficients: &[f32]) -> [M::F32; 2] {
    let square = x * x;
    let rest = m.fma(square, polynomial(m, square, coefficients), m.f32(-LOG_BIAS));
    [x * m.f32(factor / LOG_UNIT), (x * m.f32(factor)) * rest]
}

/// The series in two parts where an argument is small, and else the logarithm of above + rest; rounded.
#[inline(always)]
fn rounded<M: Machine32>(
    m: &M, is_small: M::Bool, [small, small_low]: [M::F32; 2], (above, rest): (M::F32, M::F32),
) -> (M::F32, M::Bool) {
    let ([y, low], _, is_right) = of_sum(m, above, rest);
    let parts = [m.select(is_small, small, y), m.select(is_small, small_low, low)];
    let (y, is_sure) = rounded_natural(m, parts);
    (y, is_sure & is_right)
}

/// The inverse hyperbolic sine: 1 + u = √(x² + 1) + x.
///
/// x² + 1 in two parts is exact but for the rounding of the second one. Its first part less 1 may be inexact from
/// 2^24 on: `missing` makes up for that. From 2^64 on x² is infinite, and no result sure.
#[inline(always)]
pub fn asinh<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const SERIES: [f32; 3] = [-1.0 / 6.0, 3.0 / 40.0, -5.0 / 112.0];
    let (size, one) = (m.magnitude(x), m.f32(1.0));
    let above_square = m.fma(size, size, one);
    let square = above_square - one;
    let missing = (above_square - square) - one;
    let (root, root_low) = root(m, above_square, m.fms(size, size, square) - missing);
    let (above, rest) = sum::<M>(root, size);
    let is_small = m.less(size, m.f32(1.0 / 32.0));
    let small = series(m, size, 1.0, &SERIES);
    let (y, is_sure) = rounded(m, is_small, small, (above, rest + root_low));
    (with_sign_of(m, y, x), is_sure)
}

/// The inverse hyperbolic cosine: 1 + u = x + √(x² - 1).
///
/// x² - 1 in two parts is exact but for the rounding of the second one. From 2^64 on x² is infinite, and no result
/// sure.
#[inline(always)]
pub fn acosh<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let (square, square_low) = product(m, x, x);
    let (below, below_low) = sum::<M>(square, m.f32(-1.0));
    let (below, below_low) = sum::<M>(below, below_low + square_low);
    let (root, root_low) = root(m, below, below_low);
    let (above, rest) = sum::<M>(x, root);
    let (parts, _, is_right) = of_sum(m, above, rest + root_low);
    let (y, is_sure) = rounded_natural(m, parts);
    (y, is_sure & is_right)
}

/// The inverse hyperbolic tangent: half of log(1 + u) with 1 + u = (1 + x) / (1 - x).
#[inline(always)]
pub fn atanh<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const SERIES: [f32; 2] = [1.0 / 3.0, 1.0 / 5.0];
    let size = m.magnitude(x);
    let (top, top_low) = sum::<M>(m.f32(1.0), size);
    let (bottom, excess) = m.one_minus(size);
    let inverse = m.reciprocal(bottom);
    let quotient = top * inverse;
    let missing = m.fma(quotient, excess, top_low - m.fms(quotient, bottom, top));
    let quotient = sum::<M>(quotient, missing * inverse);
    let is_small = m.less(size, m.f32(1.0 / 64.0));
    let (y, is_sure) = rounded(m, is_small, series(m, size, 2.0, &SERIES), quotient);
    (with_sign_of(m, y * m.f32(0.5), x), is_sure)
}
