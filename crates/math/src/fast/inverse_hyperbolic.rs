//! Inverse hyperbolic functions

use super::logarithm_of_sum::{of_one_and, of_sum, rounded};
use super::{Machine32, with_sign_of};

#[inline(always)]
/// The function.
pub fn asinh<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let (size, one) = (m.magnitude(x), m.f32(1.0));
    let square = x * x;
    let above_square = square + one;
    let inverse = m.reciprocal_root(above_square);
    let part = m.reciprocal(m.fma(above_square, inverse, one));
    let u = m.fma(square, part, size);
    let rest = m.fma(u, m.fma(u, m.f32(-0.5), size), size - u);
    let (parts, _) = of_one_and(m, u, Some(rest * inverse));
    let (y, is_sure) = rounded(m, parts);
    (with_sign_of(m, y, x), m.and_less(is_sure, size, m.f32(8_388_608.0)))
}

#[inline(always)]
/// The function.
pub fn acosh<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let one = m.f32(1.0);
    let (root, inverse) = m.roots(m.fms(x, x, one));
    let above = x + root;
    let taken = above - x;
    let rest = root - taken;
    let missing = m.fms(above, m.fms(x, m.f32(2.0), above), one);
    let missing = m.fnma(rest, taken + root, missing);
    let rest = m.fma(missing * inverse, m.f32(0.5), rest);
    let (parts, _) = of_sum(m, above, rest, None);
    let (y, is_sure) = rounded(m, parts);
    (y, m.and_less(is_sure, one, x))
}

#[inline(always)]
/// The function.
pub fn atanh<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let (size, one) = (m.magnitude(x), m.f32(1.0));
    let twice = size + size;
    let below = one - size;
    let below_low = (one - below) - size;
    let inverse = m.reciprocal(below);
    let u = m.fma(twice * size, inverse, twice);
    let rest = m.fnma(u, below_low, m.fnma(u, below, twice));
    let (parts, _) = of_one_and(m, u, Some(rest * inverse));
    let (y, is_sure) = rounded(m, parts);
    (with_sign_of(m, y * m.f32(0.5), x), m.and_less(is_sure, size, m.f32(0.999_999_94)))
}
