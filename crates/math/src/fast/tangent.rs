//! Tangents, by their addition theorems: tanh(a + r) = (T + t) / (1 + T t), where T = tanh a and t = tanh r.
//!
//! t has two parts. Numerator and denominator are exact except for roundings of their second parts, and the quotient of
//! their first parts is corrected by its exact rest: their errors are below 2^-42, whatever the approximation of the
//! reciprocal. For the tangent, the second part of t is added at the end: it changes the quotient by its product with
//! the derivative by r, 1 + tan².
//!
//! So only the error of t matters: r², r³ and the polynomial have errors of 2^-24 each, which add up to 2^-24 |r³|, and
//! the polynomial is an approximation.

use super::constants::{
    TAN, TAN_COS, TAN_SIN, TAN_STEP, TAN_STEPS, TANH, TANH_ARGUMENTS, TANH_GREATEST, TANH_OFFSET,
    TANH_PLACES, TANH_STEPS, TANH_VALUES,
};
use super::{Machine32, TO_INTEGER, Tables, polynomial, rounded, sum, with_sign_of};

/// Arguments, and their hyperbolic tangents.
struct Hyperbolic;

impl Tables<2> for Hyperbolic {
    const TABLES: [&'static [f32; 32]; 2] = [&TANH_ARGUMENTS, &TANH_VALUES];
}

/// Multiples of sines and cosines. Their quotients are tangents.
struct Circular;

impl Tables<2> for Circular {
    const TABLES: [&'static [f32; 32]; 2] = [&TAN_SIN, &TAN_COS];
}

/// r², r³, and a polynomial in r².
#[inline(always)]
fn powers<M: Machine32>(m: &M, r: M::F32, coefficients: &[f32]) -> [M::F32; 3] {
    let square = r * r;
    [square, square * r, polynomial(m, square, coefficients)]
}

/// A quotient of two numbers in two parts each, and two factors of its rest.
#[inline(always)]
fn quotient<M: Machine32>(
    m: &M, (n, n_low): (M::F32, M::F32), (d, d_low): (M::F32, M::F32),
) -> (M::F32, [M::F32; 2]) {
    let inverse = m.reciprocal(d);
    let q = n * inverse;
    (q, [m.fnma(q, d, n) + m.fnma(q, d_low, n_low), inverse])
}

/// The hyperbolic tangent.
///
/// There are 32 arguments a. Their distances grow with |x|, so that the errors of t stay in proportion: 2^-24 |r³|
/// times the derivative is at most 2^-35.1 of the result. The hyperbolic tangents of the arguments are floats with
/// errors of 2^-40, and the arguments are so near to |x| that r is exact. The polynomial has an error of 2^-37.7:
/// together less than 2^-34.8.
#[inline(always)]
pub fn tanh<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const BOUND: f32 = 3.4e-11; // 2^-34.78
    let (size, is_number) = m.at_most(m.magnitude(x), TANH_GREATEST);
    // The encoding, read as an integer, is a logarithm that is linear within an octave.
    let octaves = m.convert(m.bits(size + m.f32(TANH_OFFSET)));
    let place = m.bits(m.fma(octaves, m.f32(TANH_STEPS), m.f32(TANH_PLACES)));
    let [argument, value] = m.lookups::<2, Hyperbolic>(place);
    let r = size - argument;
    let [_, cube, p] = powers(m, r, &TANH);
    let t = m.fma(cube, p, r);
    let t_low = m.fma(cube, p, r - t);
    let (n, n_low) = sum::<M>(value, t);
    let one = m.f32(1.0);
    let d = m.fma(value, t, one);
    let d_low = m.fma(value, t_low, m.fma(value, t, one - d));
    let (y, [rest, inverse]) = quotient(m, (n, n_low + t_low), (d, d_low));
    let (y, is_sure) = rounded(m, y, rest * inverse, BOUND);
    (with_sign_of(m, y, x), is_sure & is_number)
}

/// The tangent: (S + C t) / (C - S t), where |x| = k π/32 + r, |r| ≤ 0.0492, and S / C = tan(k π/32).
///
/// S and C are multiples of the sine and the cosine, chosen so that S / C has an error of 2^-42. The first part of π/32
/// leaves an exact difference, as for the sine (trigonometric.rs). The second part of t is the rest of the difference,
/// with an error of 2.7e-16 k. t has an error of 2^-24 |r³|, and the polynomial of 1.1e-8 |r³|. The second part of t,
/// below 2^-29, is multiplied by the derivative by r, not by the one by t, which differs by r²: together less than
/// 6.6e-9 r², times the derivative 1 + tan².
///
/// The quotient has a relative error of 2^-41, or 4.6e-13. The derivative is the reciprocal of the cosine's square, so
/// that its product with the numerator is at least half of the quotient. Next to a multiple of π the numerator may be
/// negative. It then reduces the bound by less than the slack of the other terms.
#[inline(always)]
pub fn tan<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const PER_NUMERATOR: f32 = 1.5e-12;
    const PER_SQUARE: f32 = 6.6e-9;
    const PER_STEP: f32 = 3.5e-16;
    let size = m.magnitude(x);
    let place = m.fma(size, m.f32(TAN_STEPS), m.f32(TO_INTEGER));
    let k = place - m.f32(TO_INTEGER);
    let (step, step_low) = (m.f32(-TAN_STEP[0]), m.f32(-TAN_STEP[1]));
    let first = m.fma(k, step, size);
    let r = m.fma(k, step_low, first);

    let place = m.bits(place);
    let [sin, cos] = m.lookups::<2, Circular>(place);
    let [square, cube, p] = powers(m, r, &TAN);
    let t = m.fma(cube, p, r);
    let t_low = m.fma(cube, p, m.fma(k, step_low, first - t));
    let n = m.fma(cos, t, sin);
    let n_low = m.fma(cos, t, sin - n);
    let d = m.fnma(sin, t, cos);
    let d_low = m.fnma(sin, t, cos - d);
    let (y, [rest, inverse]) = quotient(m, (n, n_low), (d, d_low));
    let slope = m.fma(y, y, m.f32(1.0));
    let low = m.fma(rest, inverse, t_low * slope);
    let error = m.fma(square, m.f32(PER_SQUARE / PER_NUMERATOR), n);
    let error = slope * m.fma(k, m.f32(PER_STEP / PER_NUMERATOR), error);
    let bound = m.f32(PER_NUMERATOR);
    let ends = [m.fnma(error, bound, low), m.fma(error, bound, low)];
    let (y, is_sure) = m.rounded(y, ends);
    let y = m.float(m.bits(y) ^ (m.bits(x) & m.i32(i32::MIN)));
    (y, m.and_less(is_sure, size, m.f32(2048.0)))
}
