//! Sine and cosine: |x| = k π/16 + r + r_low, and sin |x| = S cos r + C sin r from tables of 16 multiples.
//!
//! |r| ≤ 0.0982. The first part of π/16 leaves an exact difference: it is below 2^-3 and a multiple of
//! 2^-26, as |x| is from 1/4 on; if k = 1 the two are within a factor of two. The next part is below 2^-27.4:
//! the difference is exact in two parts where |r| is above twice its multiple, other results near 0
//! are left to f64. The third part leaves 2^-77 k.
//!
//! S + C r - S r²/2 is exact in two parts. Of what remains, the greatest term is r³/6: its eight roundings,
//! of at most 2^-24 of it each, and the product of r_low and r²/2, which is left out, err by less than
//! 1.1e-7 |r³|. The other terms are below 2^-17, so that their roundings, and the polynomials, err by less than
//! 1e-11 of the result.

use super::constants::{COS, COS_HIGH, COS_LOW, SIN, SIN_HIGH, SIN_LOW, SIN_STEP, SIN_STEPS};
use super::{Machine32, TO_INTEGER, polynomial, product, sum};

const SIGN: i32 = i32::MIN;

/// The magnitude of the sine of |x| + steps · π/16, the place whose fifth bit is its sign, and whether
/// it is right.
#[inline(always)]
fn sine_after<M: Machine32>(m: &M, size: M::F32, steps: i32) -> (M::F32, M::I32, M::Bool) {
    const BOUND: f32 = 2e-11;
    const PER_CUBE: f32 = 1.1e-7;
    let shifted = m.fma(size, m.f32(SIN_STEPS), m.f32(TO_INTEGER));
    let k = shifted - m.f32(TO_INTEGER);
    let place = m.bits(shifted) + m.i32(steps);
    let [step, step_middle, step_low] = SIN_STEP.map(|part| m.f32(-part));
    let first = m.fma(k, step, size);
    let r = m.fma(k, step_middle, first);
    let r_low = m.fma(k, step_low, m.fma(k, step_middle, first - r));

    let (sin, cos) = (m.lookup(&SIN_HIGH, place), m.lookup(&COS_HIGH, place));
    let (sin_low, cos_low) = (m.lookup(&SIN_LOW, place), m.lookup(&COS_LOW, place));
    let (square, square_low) = product(m, r, r);
    let half = m.f32(-0.5);
    // S + C r - S r²/2, in two parts.
    let (odd, odd_low) = product(m, cos, r);
    let (high, high_low) = sum::<M>(sin, odd);
    let (even, even_low) = product(m, sin, square);
    let y = m.fma(even, half, high);
    let y_low = m.fma(even, half, high - y);
    // The rest.
    let square_low = m.fma(r + r, r_low, square_low);
    let cos_rest = m.fma(square * square, polynomial(m, square, &COS), square_low * half);
    let cube = square * r;
    let sin_rest = m.fma(cube, polynomial(m, square, &SIN), r_low);
    let sin_low = m.fma(m.fma(sin_low, square, even_low), half, sin_low);
    let rest = m.fma(cos_low, r, sin_low);
    let rest = m.fma(sin, cos_rest, m.fma(cos, sin_rest, odd_low + rest));
    let rest = (high_low + y_low) + rest;
    let size_of_y = m.magnitude(y);
    let error = m.fma(m.magnitude(cube), m.f32(PER_CUBE), size_of_y * m.f32(BOUND));
    let (result, is_sure) = m.rounded(y, [rest - error, rest + error]);

    // Too near to 0, the parts of k steps do not suffice. For k = 0 they do: a normal number is below 0. (A
    // subnormal one would cost some processors 100 times as much.)
    let is_far = m.less(m.fma(k, m.f32(1.5e-8), m.f32(-f32::MIN_POSITIVE)), size_of_y);
    let is_inside = m.less(size, m.f32(2048.0));
    (result, place, is_sure & is_far & is_inside)
}

/// The sine.
#[inline(always)]
pub fn sin<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let (y, place, is_right) = sine_after(m, m.magnitude(x), 0);
    let sign = (m.shift_left::<27>(place) ^ m.bits(x)) & m.i32(SIGN);
    (m.float(m.bits(y) ^ sign), is_right)
}

/// The cosine.
#[inline(always)]
pub fn cos<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let (y, place, is_right) = sine_after(m, m.magnitude(x), 8);
    let sign = m.shift_left::<27>(place) & m.i32(SIGN);
    (m.float(m.bits(y) ^ sign), is_right)
}
