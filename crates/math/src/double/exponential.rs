//! Exponential and hyperbolic functions.
//!
//! The method is the same as for f32, with error terms of reduced arguments and sums: x = k ln 2 + r, where r is a
//! pair.

use super::pair::{Pair, any_sum, product, quotient, sum};
use crate::Machine;
use crate::exponential::{COSH, LN_2, LN_2_LOW, SINH, power_of_two};
use crate::sequence::{
    TO_INTEGER, at_most, clamp, magnitude, nearest, polynomial, two_to, with_sign_of,
};

/// Below this magnitude expm1, sinh and tanh return their argument.
const TINY: f64 = two_to(-54);

/// k ln 2 + r.
struct Reduced<M: Machine> {
    k: M::F64,
    r: Pair<M>,
    square: M::F64,
}

impl<M: Machine> Reduced<M> {
    #[inline(always)]
    fn new(k: M::F64, r: Pair<M>) -> Self {
        Self { k, r, square: r.0 * r.0 }
    }

    /// Reduces an argument with a second part of up to 2^-32.
    #[inline(always)]
    fn of(m: &M, x: Pair<M>) -> Self {
        let (k, _) = nearest(m, x.0 * m.f64(std::f64::consts::LOG2_E));
        let r = m.fma(k, m.f64(-LN_2), x.0);
        let low = m.fma(k, m.f64(LN_2_LOW), -x.1);
        Self::new(k, sum(m, r, -low))
    }

    /// e^r - 1 - r.0.
    #[inline(always)]
    fn rest(&self, m: &M) -> M::F64 {
        let (high, low) = self.r;
        let odd = high * polynomial(m, self.square, &SINH);
        // The greatest term, r² / 2, is added last.
        let cubic = m.fma(self.square, polynomial(m, self.square, &COSH[1..]), odd);
        m.fma(self.square, m.f64(COSH[0]), m.fma(self.square, cubic, m.fma(low, high, low)))
    }

    /// e^r.
    #[inline(always)]
    fn exp(&self, m: &M) -> Pair<M> {
        let (high, low) = sum(m, m.f64(1.0), self.r.0);
        (high, low + self.rest(m))
    }
}

/// 2^k for a whole k from -1022 to 1023.
#[inline(always)]
pub(super) fn power<M: Machine>(m: &M, k: M::F64) -> M::F64 {
    power_of_two(m, k + m.f64(TO_INTEGER))
}

/// y · 2^k, for y from 1/2 to 2. A result that may be subnormal or infinite is scaled in two steps. Only the second
/// step can round.
#[inline(always)]
fn scale<M: Machine>(m: &M, y: M::F64, k: M::F64) -> M::F64 {
    let is_far = m.less(m.f64(1000.0), magnitude(m, k));
    let [scaled] = m.rarely(is_far, [y * power(m, k)], || {
        let (half, shifted) = nearest(m, k * m.f64(0.5));
        [(y * power_of_two(m, shifted)) * power(m, k - half)]
    });
    scaled
}

/// e^x of a pair from -746 to 710.
#[inline(always)]
pub(super) fn exponential<M: Machine>(m: &M, x: Pair<M>) -> M::F64 {
    let reduced = Reduced::of(m, x);
    let (high, low) = reduced.exp(m);
    scale(m, high + low, reduced.k)
}

/// 1 - e^x of a pair from -50 to 0.
#[inline(always)]
pub(super) fn complement<M: Machine>(m: &M, x: Pair<M>) -> M::F64 {
    let reduced = Reduced::of(m, x);
    let (high, low) = reduced.exp(m);
    let minus_power = -power(m, reduced.k);
    let (y, rest) = sum(m, m.f64(1.0), high * minus_power);
    y + m.fma(minus_power, low, rest)
}

/// e^x = 2^k e^r.
#[inline(always)]
pub fn exp<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    exponential(m, (clamp(m, x, -746.0, 710.0), m.f64(0.0)))
}

/// 2^x = 2^k e^r, where r is ln 2 times the exact x - k.
#[inline(always)]
pub fn exp2<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let x = clamp(m, x, -1080.0, 1030.0);
    let (k, _) = nearest(m, x);
    let rest = x - k;
    let (r, low) = product(m, rest, m.f64(LN_2));
    let (high, low) = Reduced::<M>::new(k, (r, m.fma(rest, m.f64(LN_2_LOW), low))).exp(m);
    scale(m, high + low, k)
}

/// e^x - 1 = 2^k (e^r - 1) + (2^k - 1). Half of it is a sum of three terms.
#[inline(always)]
pub fn expm1<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let reduced = Reduced::of(m, (clamp(m, x, -50.0, 710.0), m.f64(0.0)));
    let half = power(m, reduced.k - m.f64(1.0));
    let (above, above_rest) = any_sum(m, half, m.f64(-0.5));
    let (y, rest) = sum(m, above, half * reduced.r.0);
    let y = y + (rest + m.fma(half, reduced.rest(m), above_rest));
    m.select(m.less(magnitude(m, x), m.f64(TINY)), x, y + y)
}

/// Half of sinh x and of cosh x for x from 0 to 710.8, by the addition theorems for k ln 2 and r.
#[inline(always)]
fn hyperbolic<M: Machine>(m: &M, x: M::F64) -> (Pair<M>, Pair<M>) {
    let Reduced { k, r: (r, low), square } = Reduced::of(m, (x, m.f64(0.0)));
    let quarter = power(m, k - m.f64(2.0));
    // 2^-k, or 2^-64 if k is greater: it then no longer counts.
    let inverse = power(m, m.f64(-2.0) - at_most(m, k, 64.0));
    let sinh_k = sum(m, quarter, -inverse);
    let cosh_k = sum(m, quarter, inverse);
    let sinh_rest = m.fma(square * r, polynomial(m, square, &SINH), low);
    let cosh_rest = m.fma(square, polynomial(m, square, &COSH), r * low);
    // a + a (cosh r - 1) + b sinh r.
    let theorem = |a: Pair<M>, b: Pair<M>| {
        let (term, term_rest) = product(m, b.0, r);
        let (y, rest) = sum(m, a.0, term);
        let small = m.fma(b.1, r, term_rest + a.1);
        let small = m.fma(a.0, cosh_rest, m.fma(b.0, sinh_rest, small));
        (y, rest + small)
    };
    (theorem(sinh_k, cosh_k), theorem(cosh_k, sinh_k))
}

/// The hyperbolic sine.
#[inline(always)]
pub fn sinh<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let size = magnitude(m, x);
    let ((high, low), _) = hyperbolic(m, at_most(m, size, 710.8));
    let half = high + low;
    let y = with_sign_of(m, half + half, x);
    m.select(m.less(size, m.f64(TINY)), x, y)
}

/// The hyperbolic cosine.
#[inline(always)]
pub fn cosh<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let (_, (high, low)) = hyperbolic(m, at_most(m, magnitude(m, x), 710.8));
    let half = high + low;
    half + half
}

/// The hyperbolic tangent, sinh x / cosh x; 1 long before 22.
#[inline(always)]
pub fn tanh<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let size = magnitude(m, x);
    let (sinh, cosh) = hyperbolic(m, at_most(m, size, 22.0));
    let (high, low) = quotient(m, sum(m, sinh.0, sinh.1), sum(m, cosh.0, cosh.1));
    let y = with_sign_of(m, high + low, x);
    m.select(m.less(size, m.f64(TINY)), x, y)
}
