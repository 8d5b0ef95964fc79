//! Sine and cosine: |x| = k π/16 + r + r_low, and sin |x| = S cos r + C sin r from tables of 16 multiples.
//!
//! |r| ≤ 0.0983. The first part of π/16 leaves an exact difference: it is below 2^-3 and a multiple of
//! 2^-26, as |x| is from 1/4 on; if k = 1 the two are within a factor of two. The next part is below 2^-27.4:
//! the difference is exact in two parts, but near 0 for 2^-24 of its multiple. What remains of π/16 is
//! 2.2e-16: together less than 5.5e-16 k.
//!
//! The result is S + r G with G = C - S r/2 + r² R and R = C SIN(r²) + S r/2 COS(r²), which is below 1/6. All is
//! exact in two parts but for r² R in the second part of G. Its five roundings, of at most 2^-24 of it each, and SIN
//! err by less than 5.3e-8 |r³|, or 5.2e-9 r². COS and all other roundings err by less than 1e-12 of the result, to
//! which r_low adds its product with the derivative, which is almost G - r/2 times the result.

use super::constants::{COS, COS_HIGH, COS_LOW, SIN, SIN_HIGH, SIN_LOW, SIN_STEP, SIN_STEPS};
use super::{Machine32, TO_INTEGER, polynomial};

const SIGN: i32 = i32::MIN;

/// The magnitude of the sine of |x| + steps · π/16, the place whose fifth bit is its sign, and whether
/// it is right.
#[inline(always)]
fn sine_after<M: Machine32>(m: &M, size: M::F32, steps: f32) -> (M::F32, M::I32, M::Bool) {
    const BOUND: f32 = 1e-12;
    const PER_SQUARE: f32 = 5.2e-9;
    const PER_STEP: f32 = 5.5e-16;
    let to_integer = m.f32(TO_INTEGER + steps);
    let shifted = m.fma(size, m.f32(SIN_STEPS), to_integer);
    let k = shifted - to_integer;
    let place = m.bits(shifted);
    let (step, step_low) = (m.f32(-SIN_STEP[0]), m.f32(-SIN_STEP[1]));
    let first = m.fma(k, step, size);
    let r = m.fma(k, step_low, first);
    let r_low = m.fma(k, step_low, first - r);

    let (sin, cos) = (m.lookup(&SIN_HIGH, place), m.lookup(&COS_HIGH, place));
    let (sin_low, cos_low) = (m.lookup(&SIN_LOW, place), m.lookup(&COS_LOW, place));
    let square = r * r;
    let half = r * m.f32(-0.5);
    let slope = m.fma(sin, half, cos);
    // S r/2, nearly.
    let change = cos - slope;
    let slope_low = m.fma(sin, half, change) + m.fma(sin_low, half, cos_low);
    let rest = m.fma(cos, polynomial(m, square, &SIN), change * polynomial(m, square, &COS));
    let slope_low = m.fma(square, rest, slope_low);
    let y = m.fma(slope, r, sin);
    let low = m.fma(slope, r, sin - y) + sin_low;
    let low = m.fma(slope_low, r, m.fma(m.fma(half, y, slope), r_low, low));

    let error = m.fma(square, m.f32(PER_SQUARE / BOUND), m.magnitude(y));
    let error = m.fma(k, m.f32(PER_STEP / BOUND), error);
    let bound = m.f32(BOUND);
    let (y, is_sure) = m.rounded(y, [m.fnma(error, bound, low), m.fma(error, bound, low)]);
    (y, place, m.and_less(is_sure, size, m.f32(2048.0)))
}

/// The sine.
#[inline(always)]
pub fn sin<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let (y, place, is_right) = sine_after(m, m.magnitude(x), 0.0);
    let sign = (m.shift_left::<27>(place) ^ m.bits(x)) & m.i32(SIGN);
    (m.float(m.bits(y) ^ sign), is_right)
}

/// The cosine.
#[inline(always)]
pub fn cos<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let (y, place, is_right) = sine_after(m, m.magnitude(x), 8.0);
    let sign = m.shift_left::<27>(place) & m.i32(SIGN);
    (m.float(m.bits(y) ^ sign), is_right)
}
