//! Exponential and hyperbolic functions.
//!
//! All reduce the argument to x = k ln 2 + r with |r| ≤ ½ ln 2 and ln 2 in two parts (Cody and Waite, Software Manual
//! for the Elementary Functions). They share two polynomials, sinh r = r + r³ SINH(r²) and cosh r = 1 + r² COSH(r²),
//! fitted by tools/minimax.py (Muller, Elementary Functions).

use crate::Machine;
use crate::sequence::{at_most, clamp, except, magnitude, nearest, polynomial, with_sign_of};

/// The polynomial in sinh r, with a relative error of 2^-61.7.
pub(crate) const SINH: [f64; 5] = [
    0.16666666666666677,
    0.008333333333321383,
    0.00019841269886829602,
    2.7557243434106776e-06,
    2.510932835540414e-08,
];
/// The polynomial in cosh r, with a relative error of 2^-67.8.
pub(crate) const COSH: [f64; 6] = [
    0.5,
    0.04166666666666668,
    0.001388888888887744,
    2.480158734062516e-05,
    2.75572592047599e-07,
    2.0919498626037117e-09,
];

pub(crate) const LN_2: f64 = std::f64::consts::LN_2;
/// ln 2 minus `LN_2`.
pub(crate) const LN_2_LOW: f64 = 2.3190468138462996e-17;

/// Inputs of `exp2` and `sinh` with results too close to the middle of two floats.
const EXP2_EXCEPTIONS: [(u32, u32); 2] = [(0x3b42_9d37, 0x3f80_4385), (0xbcf3_a937, 0x3f7a_c6b1)];
const SINH_EXCEPTION: [(u32, u32); 1] = [(0x3a12_85ff, 0x3a12_85ff)];

/// A reduced argument, k ln 2 + r.
struct Reduced<M: Machine> {
    /// 2^k.
    power: M::F64,
    r: M::F64,
    /// r².
    square: M::F64,
}

/// Reduces an argument below 700 in magnitude.
#[inline(always)]
fn reduce<M: Machine>(m: &M, x: M::F64) -> Reduced<M> {
    let (k, shifted) = nearest(m, x * m.f64(std::f64::consts::LOG2_E));
    let r = m.fma(k, m.f64(-LN_2), x);
    let r = m.fma(k, m.f64(-LN_2_LOW), r);
    Reduced { power: power_of_two(m, shifted), r, square: r * r }
}

/// 2^k, for k in the low bits of its argument.
#[inline(always)]
pub(crate) fn power_of_two<M: Machine>(m: &M, shifted: M::F64) -> M::F64 {
    m.float(m.shift_left(m.bits(shifted) + m.i64(1023), 52))
}

impl<M: Machine> Reduced<M> {
    /// sinh r.
    #[inline(always)]
    fn sinh(&self, m: &M) -> M::F64 {
        m.fma(self.square * self.r, polynomial(m, self.square, &SINH), self.r)
    }

    /// cosh r.
    #[inline(always)]
    fn cosh(&self, m: &M) -> M::F64 {
        m.fma(self.square, polynomial(m, self.square, &COSH), m.f64(1.0))
    }

    /// e^r - 1.
    #[inline(always)]
    fn expm1(&self, m: &M) -> M::F64 {
        let odd = self.r * polynomial(m, self.square, &SINH);
        let even = polynomial(m, self.square, &COSH);
        m.fma(self.square, odd + even, self.r)
    }
}

/// e^x = 2^k (1 + (e^r - 1)).
///
/// Wrong for 0 of 2^32 inputs.
#[inline(always)]
pub fn exp<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    m.narrow(exponential(m, clamp(m, m.widen(x), -110.0, 90.0)))
}

/// e^x for x below 700 in magnitude.
#[inline(always)]
pub(crate) fn exponential<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let reduced = reduce(m, x);
    reduced.power * (m.f64(1.0) + reduced.expm1(m))
}

/// 2^x = 2^k e^r, where r is ln 2 times the exact x - k.
///
/// Wrong for 0 of 2^32 inputs: two results are replaced.
#[inline(always)]
pub fn exp2<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = clamp(m, m.widen(x), -160.0, 130.0);
    let (k, shifted) = nearest(m, x);
    let r = (x - k) * m.f64(LN_2);
    let reduced = Reduced::<M> { power: power_of_two(m, shifted), r, square: r * r };
    let y = reduced.power * (m.f64(1.0) + reduced.expm1(m));
    m.narrow(except(m, x, y, &EXP2_EXCEPTIONS))
}

/// e^x - 1 = 2^k (e^r - 1) + (2^k - 1), rounded once.
///
/// Wrong for 0 of 2^32 inputs.
#[inline(always)]
pub fn expm1<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = clamp(m, m.widen(x), -110.0, 90.0);
    let reduced = reduce(m, x);
    let y = m.fma(reduced.power, reduced.expm1(m), reduced.power - m.f64(1.0));
    m.narrow(m.select(m.equal(x, m.f64(0.0)), x, y))
}

/// sinh x and cosh x for x from 0 to 100, by the addition theorems for k ln 2 and r.
#[inline(always)]
fn hyperbolic<M: Machine>(m: &M, x: M::F64) -> (M::F64, M::F64) {
    let reduced = reduce(m, x);
    let half = reduced.power * m.f64(0.5);
    // 2^-k / 2: the exponents of a power and its inverse have a fixed sum.
    let inverse = m.float(m.i64(2045 << 52) - m.bits(reduced.power));
    let (sinh_k, cosh_k) = (half - inverse, half + inverse);
    let (sinh_r, cosh_r) = (reduced.sinh(m), reduced.cosh(m));
    let sinh = m.fma(sinh_r, cosh_k, cosh_r * sinh_k);
    let cosh = m.fma(cosh_r, cosh_k, sinh_r * sinh_k);
    (sinh, cosh)
}

/// The hyperbolic sine.
///
/// Wrong for 0 of 2^32 inputs: one result and its negative are replaced.
#[inline(always)]
pub fn sinh<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = m.widen(x);
    let size = at_most(m, magnitude(m, x), 100.0);
    let (sinh, _) = hyperbolic(m, size);
    m.narrow(with_sign_of(m, except(m, size, sinh, &SINH_EXCEPTION), x))
}

/// The hyperbolic cosine.
///
/// Wrong for 0 of 2^32 inputs.
#[inline(always)]
pub fn cosh<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let size = at_most(m, magnitude(m, m.widen(x)), 100.0);
    let (_, cosh) = hyperbolic(m, size);
    m.narrow(cosh)
}

/// The hyperbolic tangent, sinh x / cosh x; 1 in f32 long before 20.
///
/// Wrong for 0 of 2^32 inputs.
#[inline(always)]
pub fn tanh<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = m.widen(x);
    let (sinh, cosh) = hyperbolic(m, at_most(m, magnitude(m, x), 20.0));
    m.narrow(with_sign_of(m, m.quotient(sinh, cosh), x))
}
