//! Logarithms: x = 2^k m, r = m c - 1, and log x = k log 2 - log c + log(1 + r).
//!
//! c is a multiple of 1/32 next to 1/m, by a rough polynomial, so that r is exact: where m < 1
//! a multiple of 2^-29 below 2^-5, else a multiple of 2^-28 below 2^-4. Near 1 the polynomial
//! is close to 1/m, so that c = 1 there, and r = x - 1.
//!
//! k log 2 - log c is exact in its first part, where all terms are multiples of 2^-17, and so is r - r²/2 in
//! two parts. |r³| is below 2^-11.8 of the natural logarithm: the roundings of r³ (two), of its polynomial
//! and of their product, 2^-24 r³ / 3 each, err by 2^-35.4 together. The polynomial errs by 2^-35.5, and each
//! of three to five sums of low parts, which are below 2^-13 of the result, by 2^-37: all of them by
//! less than 2^-33.6.

use super::constants::{
    LOG, LOG_2, LOG_2_LOW, LOG_HIGH, LOG_INVERSE, LOG_LOW, LOG2_2, LOG2_2_LOW, LOG2_E, LOG2_HIGH,
    LOG2_LOW, LOG10_2, LOG10_2_LOW, LOG10_E, LOG10_HIGH, LOG10_LOW,
};
use super::{Machine32, any_sum, polynomial, product, rounded, sum, with_sign_of};

const BOUND: f32 = 8e-11; // 2^-33.54
/// The least significand: one in 0.7604 ..< 1.5208 is where 1 is neither first nor last.
const LEAST: i32 = 0x3f42_aaab;
const EXPONENT: i32 = -1 << 23;
const ONE: i32 = 127 << 23;
/// Added to a number below 2^17 in magnitude and taken away again, leaves the nearest multiple of 1/32.
const TO_MULTIPLE: f32 = 393_216.0; // 1.5 · 2^18

/// Constants of logarithms to a base, in two parts.
struct Base {
    two: [f32; 2],
    high: &'static [f32; 32],
    low: &'static [f32; 32],
}

/// An argument: the two parts of k log 2 - log c, c, and r; and the bits of 2^k without those of 1.
struct Reduced<M: Machine32> {
    exponent: M::I32,
    high: M::F32,
    low: M::F32,
    c: M::F32,
    r: M::F32,
}

#[inline(always)]
fn reduce<M: Machine32>(m: &M, x: M::F32, base: &Base) -> Reduced<M> {
    let exponent = (m.bits(x) - m.i32(LEAST)) & m.i32(EXPONENT);
    let significand = m.float(m.bits(x) - exponent);
    // k times 2^23.
    let k = m.convert(exponent);
    let shifted = polynomial(m, significand, &LOG_INVERSE);
    let place = m.bits(shifted);
    let c = shifted - m.f32(TO_MULTIPLE);
    let [two, two_low] = base.two.map(|part| m.f32(part));
    Reduced {
        exponent,
        high: m.fma(k, two, m.lookup(base.high, place)),
        low: m.fma(k, two_low, m.lookup(base.low, place)),
        c,
        r: m.fma(significand, c, m.f32(-1.0)),
    }
}

/// Says whether an argument is a positive normal number other than the least.
#[inline(always)]
fn is_normal<M: Machine32>(m: &M, x: M::F32) -> M::Bool {
    m.less(m.f32(f32::MIN_POSITIVE), x) & m.less(x, m.f32(f32::INFINITY))
}

const NATURAL: Base = Base { two: [LOG_2, LOG_2_LOW], high: &LOG_HIGH, low: &LOG_LOW };

/// The natural logarithm.
#[inline(always)]
pub fn log<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let Reduced { high, low, r, .. } = reduce(m, x, &NATURAL);
    let (y, is_sure) = log_of_sum(m, high, low, r, product(m, r, r));
    (y, is_sure & is_normal(m, x))
}

/// high + low + log(1 + r), from r² in two parts.
#[inline(always)]
fn log_of_sum<M: Machine32>(
    m: &M, high: M::F32, low: M::F32, r: M::F32, (square, square_low): (M::F32, M::F32),
) -> (M::F32, M::Bool) {
    let half = m.f32(-0.5);
    let (high, high_low) = sum::<M>(high, r);
    let y = m.fma(square, half, high);
    let y_low = m.fma(square, half, high - y);
    let low = m.fma(square * r, polynomial(m, r, &LOG), m.fma(square_low, half, low));
    rounded(m, y, (high_low + y_low) + low, BOUND)
}

/// log(1 + x), where 1 + x and r are in two parts.
///
/// If k = 0 and c = 1 the sum of r's parts is x, and its second part vanishes. Else r's second part is below
/// 2^-25 r, so that of its terms after the square the greatest, r² times it, is below 2^-36 of the result.
#[inline(always)]
pub fn log1p<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let (above, above_low) = any_sum::<M>(m.f32(1.0), x);
    let Reduced { exponent, high, low, c, r } = reduce(m, above, &NATURAL);
    let inverse_power = m.float(m.i32(ONE) - exponent);
    let (r, r_low) = sum::<M>(r, above_low * inverse_power * c);
    let (square, square_low) = product(m, r, r);
    let square_low = m.fma(r + r, r_low, square_low);
    let (y, is_sure) = log_of_sum(m, high, low + r_low, r, (square, square_low));
    (with_sign_of(m, y, x), is_sure & is_normal(m, above))
}

/// The logarithm to another base. The logarithm of e to that base is in two parts.
#[inline(always)]
fn log_to<M: Machine32>(m: &M, x: M::F32, base: &Base, e: [f32; 2]) -> (M::F32, M::Bool) {
    let Reduced { high, low, r, .. } = reduce(m, x, base);
    let half = m.f32(-0.5);
    let (square, square_low) = product(m, r, r);
    let natural = m.fma(square, half, r);
    let natural_low = m.fma(square, half, r - natural);
    let rest = m.fma(square * r, polynomial(m, r, &LOG), m.fma(square_low, half, natural_low));
    let [e, e_low] = e.map(|part| m.f32(part));
    let (part, part_low) = product(m, natural, e);
    let (y, y_low) = sum::<M>(high, part);
    let part_low = m.fma(rest, e, m.fma(natural, e_low, part_low));
    let (y, is_sure) = rounded(m, y, y_low + (part_low + low), BOUND);
    (y, is_sure & is_normal(m, x))
}

/// The logarithm to base 2.
#[inline(always)]
pub fn log2<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const BASE: Base = Base { two: [LOG2_2, LOG2_2_LOW], high: &LOG2_HIGH, low: &LOG2_LOW };
    log_to(m, x, &BASE, LOG2_E)
}

/// The logarithm to base 10.
#[inline(always)]
pub fn log10<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const BASE: Base = Base { two: [LOG10_2, LOG10_2_LOW], high: &LOG10_HIGH, low: &LOG10_LOW };
    log_to(m, x, &BASE, LOG10_E)
}
