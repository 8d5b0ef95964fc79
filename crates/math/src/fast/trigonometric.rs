//! Sine and cosine: |x| = k π/16 + s + r + r_low, and sin |x| = S cos r + C sin r, where S and C are the sine and the
//! cosine of k π/16 + s. The shift s makes both nearly floats: together, their errors are below 2^-36.06 of the result.
//!
//! |r| ≤ 0.1061. The first part of π/16 leaves an exact difference, which stays exact when s is subtracted: both are below
//! 2^-3 and multiples of 2^-27, as is |x| unless k = 0. The next part is below 2^-27.4. The difference is then exact in
//! two parts, except near 0, for 2^-24 of the multiple of this part. The rest of π/16 is 2.2e-16: together less than
//! 5.5e-16 k.
//!
//! The result is S + r G with G = C - S r/2 + r² R and R = C SIN(r²) + S r/2 COS(r²), which is below 1/6. Everything is
//! exact in two parts except r² R, in the second part of G. Its five roundings, of at most 2^-24 of it each, and SIN
//! add errors of less than 5.7e-8 |r³|, or 6.1e-9 r². S and C, COS and all other roundings add less than 1.5e-11 of the
//! result. r_low adds its product with the derivative, which is almost G - r/2 times the result.

use super::constants::{COS, COS_NODES, SIN, SIN_NODES, SIN_SHIFTS, SIN_STEP, SIN_STEPS};
use super::{Machine32, TO_INTEGER, polynomial};

const SIGN: i32 = i32::MIN;

/// A table for a whole turn, from a table for half a turn. The entries of the second half are multiplied by a factor.
const fn whole_turn(half: &[f32; 16], factor: f32) -> [f32; 32] {
    let mut whole = [0.0; 32];
    let mut i = 0;
    while i < 16 {
        whole[i] = half[i];
        whole[i + 16] = half[i] * factor;
        i += 1;
    }
    whole
}

/// S, C and s at a place, and the change of the result's sign. If large tables cost no more than small ones, S and C
/// include this sign.
#[inline(always)]
fn nodes<M: Machine32>(m: &M, place: M::I32) -> ([M::F32; 3], M::I32) {
    const SIN: [f32; 32] = whole_turn(&SIN_NODES, -1.0);
    const COS: [f32; 32] = whole_turn(&COS_NODES, -1.0);
    const SHIFTS: [f32; 32] = whole_turn(&SIN_SHIFTS, 1.0);
    // Closures would not always be inlined.
    if M::LARGE_TABLES {
        let (sin, cos) = (m.lookup(&SIN, place), m.lookup(&COS, place));
        return ([sin, cos, m.lookup(&SHIFTS, place)], m.i32(0));
    }
    let (sin, cos) = (m.lookup(&SIN_NODES, place), m.lookup(&COS_NODES, place));
    ([sin, cos, m.lookup(&SIN_SHIFTS, place)], m.shift_left::<27>(place))
}

/// The sine of |x| + steps · π/16, negated if `sign` is negative, and true if it is right.
#[inline(always)]
fn sine_after<M: Machine32>(m: &M, size: M::F32, steps: f32, sign: M::I32) -> (M::F32, M::Bool) {
    const BOUND: f32 = 1.5e-11;
    const PER_SQUARE: f32 = 6.1e-9;
    const PER_STEP: f32 = 5.5e-16;
    let to_integer = m.f32(TO_INTEGER + steps);
    let shifted = m.fma(size, m.f32(SIN_STEPS), to_integer);
    let k = shifted - to_integer;
    let place = m.bits(shifted);
    let (step, step_low) = (m.f32(-SIN_STEP[0]), m.f32(-SIN_STEP[1]));
    let ([sin, cos, shift], turns) = nodes(m, place);
    let first = m.fma(k, step, size) - shift;
    let r = m.fma(k, step_low, first);
    let r_low = m.fma(k, step_low, first - r);

    let square = r * r;
    let half = r * m.f32(-0.5);
    let slope = m.fma(sin, half, cos);
    // S r/2, nearly.
    let change = cos - slope;
    let rest = m.fma(cos, polynomial(m, square, &SIN), change * polynomial(m, square, &COS));
    let slope_low = m.fma(square, rest, m.fma(sin, half, change));
    let y = m.fma(slope, r, sin);
    let low = m.fma(slope, r, sin - y);
    let low = m.fma(slope_low, r, m.fma(m.fma(half, y, slope), r_low, low));

    let error = m.fma(square, m.f32(PER_SQUARE / BOUND), m.magnitude(y));
    let error = m.fma(k, m.f32(PER_STEP / BOUND), error);
    let bound = m.f32(BOUND);
    let (y, is_sure) = m.rounded(y, [m.fnma(error, bound, low), m.fma(error, bound, low)]);
    let sign = (turns ^ sign) & m.i32(SIGN);
    (m.float(m.bits(y) ^ sign), m.and_less(is_sure, size, m.f32(2048.0)))
}

/// The sine.
#[inline(always)]
pub fn sin<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    sine_after(m, m.magnitude(x), 0.0, m.bits(x))
}

/// The cosine.
#[inline(always)]
pub fn cos<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    sine_after(m, m.magnitude(x), 8.0, m.i32(0))
}
