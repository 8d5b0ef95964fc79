//! Inverse hyperbolic functions as log(1 + u), with an error in u of a few last bits of an f64, which suffices for all
//! 2^32 inputs.

use crate::Machine;
use crate::logarithm::one_plus;
use crate::sequence::{magnitude, with_sign_of};

/// The inverse hyperbolic sine: u = x + x² / (1 + √(1 + x²)) = x + √(1 + x²) - 1.
///
/// Wrong for 0 of 2^32 inputs.
#[inline(always)]
pub fn asinh<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let (x, one) = (m.widen(x), m.f64(1.0));
    let size = magnitude(m, x);
    // With 0 in place of the square, an infinite argument has an infinite u.
    let square = m.select(m.less(size, m.f64(f64::INFINITY)), x * x, m.f64(0.0));
    let u = size + square / (one + m.sqrt(one + square));
    m.narrow(with_sign_of(m, one_plus(m, u), x))
}

/// The inverse hyperbolic cosine: u = x - 1 + √(x² - 1).
///
/// Wrong for 0 of 2^32 inputs.
#[inline(always)]
pub fn acosh<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let (x, one) = (m.widen(x), m.f64(1.0));
    let u = (x - one) + m.sqrt(m.fma(x, x, -one));
    m.narrow(one_plus(m, m.select(m.less(x, one), m.f64(f64::NAN), u)))
}

/// The inverse hyperbolic tangent: half of log(1 + u) for u = 2x / (1 - x).
///
/// Wrong for 0 of 2^32 inputs.
#[inline(always)]
pub fn atanh<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = m.widen(x);
    let size = magnitude(m, x);
    let y = one_plus(m, (size + size) / (m.f64(1.0) - size));
    m.narrow(with_sign_of(m, y * m.f64(0.5), x))
}
