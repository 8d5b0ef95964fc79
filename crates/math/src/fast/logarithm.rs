//! Logarithms: x = 2^k m, r = m c - 1, and log x = k log 2 - log c + log(1 + r).
//!
//! m is from 1 to 2. c, next to 1/m, is from a table of cells of m, in whose middles are the multiples of 1/31; it is
//! a multiple of 1/64 where |r| < 2^-5, or of 1/128 where |r| < 2^-6, so that r is exact. Near 1, c = 1 and r = x - 1;
//! near 2, c = 1/2 and -log c = log 2, which k = -1 takes away.
//!
//! k log 2 - log c is exact in its first part H, where all terms are multiples of 2^-17. The result is Y = H + r - r²/2
//! plus low parts. (H - Y) + r is exact: H - Y, about r, and r are multiples of the last bits of Y and r, and their sum
//! is about r²/2; a last fma with r² makes it what Y lacks. As for other bases, r - r²/2 is first one number and the
//! rest of it.
//!
//! Relative to the result, r² is at most 2^-11.9: the four roundings of the term r³/3, of at most 2^-24 of it each, err
//! by 2^-35.5 together, and the polynomial by 2^-34.6. Low parts are below 2^-17.5; where there is one, the
//! result is at least 2^-7, and where it is below 2^-4 in magnitude, k log 2 - log c needs no rounding but of the
//! table: their roundings, of 2^-24 of them each, err by 2^-34.5. All of them err by less than 2^-33.6.
//!
//! So as to test one interval from the computed low part, all terms of it are less by a bias: the table, the low part of
//! log 2, and r's factor. The interval's length is twice the bias, which is the bound of the error.

use super::constants::{
    LOG, LOG_2, LOG_2_LOW, LOG_BIAS, LOG_HIGH, LOG_INVERSE, LOG_LOW, LOG2, LOG2_2, LOG2_E,
    LOG2_E_LOW, LOG2_HIGH, LOG2_LOW, LOG10, LOG10_2, LOG10_2_LOW, LOG10_BIAS, LOG10_E, LOG10_E_LOW,
    LOG10_HIGH, LOG10_LOW,
};
use super::{Machine32, TO_INTEGER, polynomial, product, rounded, sum, with_sign_of};

/// The error of logarithms with a bias is from 0 to that; [`LOG_BIAS`] is half of it.
const BIASED: f32 = -2.0 * LOG_BIAS;

/// An argument: k, c and its place in tables, and whether they are right.
struct Reduced<M: Machine32> {
    k: M::F32,
    significand: M::F32,
    c: M::F32,
    place: M::I32,
    is_right: M::Bool,
}

impl<M: Machine32> Reduced<M> {
    #[inline(always)]
    fn new(m: &M, x: M::F32) -> Self {
        let (k, significand, is_right) = m.split(x);
        let place = m.bits(m.fma(significand, m.f32(31.0), m.f32(TO_INTEGER)));
        Reduced { k, significand, c: m.lookup(&LOG_INVERSE, place), place, is_right }
    }

    /// m c - 1.
    #[inline(always)]
    fn r(&self, m: &M) -> M::F32 {
        m.fma(self.significand, self.c, m.f32(-1.0))
    }

    /// k · two and an entry of a table.
    #[inline(always)]
    fn sum(&self, m: &M, two: f32, table: &'static [f32; 32]) -> M::F32 {
        m.fma(self.k, m.f32(two / M::EXPONENT), m.lookup(table, self.place))
    }
}

/// The natural logarithm.
#[inline(always)]
pub fn log<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let reduced = Reduced::new(m, x);
    let low = reduced.sum(m, LOG_2_LOW, &LOG_LOW);
    let (y, is_sure) = natural(m, &reduced, low, reduced.r(m), m.f32(LOG_BIAS));
    (y, is_sure & reduced.is_right)
}

/// k log 2 - log c + log(1 + r) + low + (factor - bias) r. In high parts it is -2 times the logarithm, so that r² needs no
/// factor.
#[inline(always)]
fn natural<M: Machine32>(
    m: &M, reduced: &Reduced<M>, low: M::F32, r: M::F32, factor: M::F32,
) -> (M::F32, M::Bool) {
    let (minus_2, half) = (m.f32(-2.0), m.f32(-0.5));
    let high = reduced.sum(m, LOG_2, &LOG_HIGH);
    let y = m.fma(r, r, m.fma(r, minus_2, high));
    let y_low = m.fma(r, r, m.fma(r, minus_2, high - y));
    let small = m.fma(r * r, polynomial(m, r, &LOG), factor);
    let low = m.fma(y_low, half, m.fma(r, small, low));
    m.rounded_product(y, -0.5, [low, m.fma(y, m.f32(-0.5 * BIASED), low)])
}

/// log(1 + x), where r = x C + (C - 1) is in two parts, with C = c 2^-k.
///
/// If C = 1, r = x. Else the sum of x C in its first part and C - 1 is exact: it is a multiple of the last bit of the
/// first part and less than twice it. So are the sum's low parts where C > 1. r's second part is below 2^-24 r, or below
/// 2^-24 of a result above 1/64, so that of its terms after its product with r the greatest, r² times it, is below
/// 2^-35 of the result. From 2^125 on C may be subnormal, and is not computed.
#[inline(always)]
pub fn log1p<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let one = m.f32(1.0);
    let above = x + one;
    let reduced = Reduced::new(m, above);
    let exponent = m.bits(above) - m.bits(reduced.significand);
    let c = m.float(m.bits(reduced.c) - exponent);
    // C - 1 in two parts: |C| ≤ 1, or it is exact.
    let base = c - one;
    let base_low = c - (base + one);
    let (part, part_low) = product(m, x, c);
    let (r, r_low) = sum::<M>(part + base, part_low + base_low);
    let low = reduced.sum(m, LOG_2_LOW, &LOG_LOW) + r_low;
    let (y, is_sure) = natural(m, &reduced, low, r, m.f32(LOG_BIAS) - r_low);
    let has_c = m.less(x, m.f32(4.2e37));
    (with_sign_of(m, y, x), is_sure & reduced.is_right & has_c)
}

/// high + low + the logarithm of 1 + r to another base, that of e being in two parts: a value and the rest of it.
#[inline(always)]
fn to_base<M: Machine32>(
    m: &M, high: M::F32, low: M::F32, r: M::F32, [e, e_low]: [f32; 2], coefficients: &[f32],
) -> (M::F32, M::F32) {
    let half = r * m.f32(-0.5);
    let n = m.fma(r, half, r);
    let n_low = m.fma(r, half, r - n);
    let e = m.f32(e);
    let y = m.fma(n, e, high);
    let y_low = m.fma(n, e, high - y);
    let small = m.fma(r * r, polynomial(m, r, coefficients), m.f32(e_low));
    (y, m.fma(n_low, e, m.fma(n, small, low)) + y_low)
}

/// The logarithm to base 2: without a bias, since that of k would take an operation, too.
#[inline(always)]
pub fn log2<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const BOUND: f32 = 8e-11; // 2^-33.54
    let reduced = Reduced::new(m, x);
    let high = reduced.sum(m, LOG2_2, &LOG2_HIGH);
    let low = m.lookup(&LOG2_LOW, reduced.place);
    let (y, low) = to_base(m, high, low, reduced.r(m), [LOG2_E, LOG2_E_LOW], &LOG2);
    let (y, is_sure) = rounded(m, y, low, BOUND);
    (y, is_sure & reduced.is_right)
}

/// The logarithm to base 10: its bias is greater, since the products with log10 e are rounded.
#[inline(always)]
pub fn log10<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let reduced = Reduced::new(m, x);
    let high = reduced.sum(m, LOG10_2, &LOG10_HIGH);
    let low = reduced.sum(m, LOG10_2_LOW, &LOG10_LOW);
    let (y, low) = to_base(m, high, low, reduced.r(m), [LOG10_E, LOG10_E_LOW], &LOG10);
    let (y, is_sure) = m.rounded(y, [low, m.fma(y, m.f32(-2.0 * LOG10_BIAS), low)]);
    (y, is_sure & reduced.is_right)
}
