//! Logarithms.
//!
//! x = 2^k (1 + f) with 1 + f in [√½, √2). With s = f / (2 + f), log(1 + f) = 2 artanh s is a series, and its largest
//! part is the exact f - f²/2 (Tang, Table-driven implementation of the logarithm function; fdlibm's log): log(1 + f) =
//! f + s (f²/2 + s² ARTANH(s²)) - f²/2.

use crate::Machine;
use crate::sequence::{polynomial, sum_to_odd, two_to, with_sign_of};

/// The polynomial in 2 artanh s = 2s + s³ ARTANH(s²), with a relative error of 2^-59.5 (tools/minimax.py).
pub(crate) const ARTANH: [f64; 7] = [
    0.6666666666666734,
    0.39999999999416574,
    0.28571428742051835,
    0.22222198601965673,
    0.1818356304083046,
    0.1531407930956859,
    0.1479569526275811,
];

/// ln 2 in two parts: the products of the first part with exponents are exact (Cody and Waite).
pub(crate) const LN_2: f64 = f64::from_bits(0x3fe62e42fefa3800);
pub(crate) const LN_2_LOW: f64 = f64::from_bits(0x3d2ef35793c76730);
/// log10 2, likewise.
pub(crate) const LOG10_2: f64 = f64::from_bits(0x3fd34413509f7000);
pub(crate) const LOG10_2_LOW: f64 = f64::from_bits(0x3d43fde623e2566b);

const SIGNIFICAND: i64 = (1 << 52) - 1;
const ROOT_HALF: i64 = 0x3fe6_a09e_667f_3bcd;
const ONE: i64 = 1023 << 52;

/// A positive finite number as 2^k (1 + f).
#[inline(always)]
pub(crate) fn split<M: Machine>(m: &M, x: M::F64) -> (M::F64, M::F64) {
    let shifted = m.bits(x) + m.i64(ONE - ROOT_HALF);
    let biased = m.float(m.shift_right(shifted, 52) | m.i64((1023 + 52) << 52));
    let k = biased - m.f64(two_to(52) + 1023.0);
    let f = m.float((shifted & m.i64(SIGNIFICAND)) + m.i64(ROOT_HALF)) - m.f64(1.0);
    (k, f)
}

/// log(1 + f) - f.
#[inline(always)]
fn rest<M: Machine>(m: &M, f: M::F64) -> M::F64 {
    rest_of(m, f, m.quotient(f, m.f64(2.0) + f))
}

/// The same, given s = f / (2 + f).
#[inline(always)]
fn rest_of<M: Machine>(m: &M, f: M::F64, s: M::F64) -> M::F64 {
    let z = s * s;
    let half = f * f * m.f64(0.5);
    s * m.fma(z, polynomial(m, z, &ARTANH), half) - half
}

/// The logarithm of a special value, else y.
#[inline(always)]
pub(crate) fn special<M: Machine>(m: &M, x: M::F64, y: M::F64) -> M::F64 {
    let y = m.select(m.less(x, m.f64(f64::INFINITY)), y, x);
    let zero = m.equal(x, m.f64(0.0));
    let pole = m.select(zero, m.f64(f64::NEG_INFINITY), m.f64(f64::NAN));
    m.select(m.less(m.f64(0.0), x), y, pole)
}

/// The natural logarithm, k ln 2 + log(1 + f).
///
/// Wrong for 0 of 2^32 inputs. The last sum is rounded to odd.
#[inline(always)]
pub fn log<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = m.widen(x);
    let (k, f) = split(m, x);
    let low = m.fma(k, m.f64(LN_2_LOW), rest(m, f));
    let sum = sum_to_odd(m, k * m.f64(LN_2), f + low);
    m.narrow(special(m, x, sum))
}

/// The natural logarithm of a magnitude, with an error of a few last bits of an f64.
#[inline(always)]
pub(crate) fn natural<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let (k, f) = split(m, x);
    // Not `quotient`: on GPUs this division has a jump, which keeps the compiler from computing the powers of several
    // elements at the same time, with more registers than a thread has.
    let s = f / (m.f64(2.0) + f);
    let low = m.fma(k, m.f64(LN_2_LOW), rest_of(m, f, s));
    let y = m.fma(k, m.f64(LN_2), f + low);
    let y = m.select(m.less(x, m.f64(f64::INFINITY)), y, x);
    m.select(m.equal(x, m.f64(0.0)), m.f64(f64::NEG_INFINITY), y)
}

/// log(1 + x).
///
/// Wrong for 0 of 2^32 inputs. The last sum is rounded to odd.
#[inline(always)]
pub fn log1p<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = m.widen(x);
    m.narrow(with_sign_of(m, one_plus(m, x), x))
}

/// log(1 + x), as the logarithm of 1 + x in f64. The last sum has three terms and is rounded to odd.
#[inline(always)]
pub(crate) fn one_plus<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let above = m.f64(1.0) + x;
    let (k, f) = split(m, above);
    // If x is below the last bit of 1, 1 + x is inexact, and f is x.
    let f = m.select(m.equal(k, m.f64(0.0)), x, f);
    let rest = rest(m, f);
    let power = k * m.f64(LN_2);
    let high = power + f;
    let low = m.fma(k, m.f64(LN_2_LOW), (f - (high - power)) + rest);
    special(m, above, sum_to_odd(m, high, low))
}

/// The logarithm to base 2, k + log(1 + f) / ln 2, rounded once.
///
/// Wrong for 0 of 2^32 inputs.
#[inline(always)]
pub fn log2<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = m.widen(x);
    let (k, f) = split(m, x);
    let y = f + rest(m, f);
    let sum = m.fma(y, m.f64(std::f64::consts::LOG2_E), k);
    m.narrow(special(m, x, sum))
}

/// The logarithm to base 10, k log10 2 + log(1 + f) / ln 10.
///
/// Wrong for 0 of 2^32 inputs. The last sum is rounded to odd.
#[inline(always)]
pub fn log10<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = m.widen(x);
    let (k, f) = split(m, x);
    let y = f + rest(m, f);
    let low = m.fma(y, m.f64(std::f64::consts::LOG10_E), k * m.f64(LOG10_2_LOW));
    let sum = sum_to_odd(m, k * m.f64(LOG10_2), low);
    m.narrow(special(m, x, sum))
}
