//! Hyperbolic sine and cosine, whose arguments are reduced as that of the exponential.

use super::constants::{EXP, EXP_POWERS, EXPM1_RESTS, INVERSE_POWERS, INVERSE_POWERS_LOW};
use super::exponential::{ONE, Reduced, exponent, reduce};
use super::{Machine32, TO_INTEGER, polynomial, product, rounded, sum, with_sign_of};

/// Arguments above have infinite results, or nearly.
const GREATEST: f32 = 88.5;

/// a + b · scale in two parts, where b is in two parts, and smaller.
#[inline(always)]
fn with_multiple<M: Machine32>(
    m: &M, a: M::F32, (b, b_low): (M::F32, M::F32), scale: M::F32,
) -> (M::F32, M::F32) {
    let high = m.fma(b, scale, a);
    (high, m.fma(b_low, scale, m.fma(b, scale, a - high)))
}

/// The hyperbolic sine: S cosh r + C sinh r, where S = sinh a and C = cosh a, for |x| = a + r.
///
/// S and C are a difference and a sum of two powers, in two parts each, and so is S + C r. The other terms are
/// E = S (cosh r - 1), below 2^-12 S, and C (sinh r - r). The second part of S, r/2, its product with r, that
/// with S, and the sum with other terms err by 2^-24 E each. C r³/6 is below 2^-13.6 of the result: its
/// six roundings err by 2^-35.1 together. Both series end at 2^-42.
#[inline(always)]
pub fn sinh<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const EVEN: f32 = 1.0 / 24.0;
    const ODD: [f32; 2] = [1.0 / 6.0, 1.0 / 120.0];
    const BOUND: f32 = 3e-11; // 2^-34.96
    const PER_EVEN: f32 = 3e-7; // 5 · 2^-24
    let size = m.magnitude(x);
    // The exponent is that of half the power.
    let Reduced { place, r, rest } = reduce(m, size, TO_INTEGER - 16.0);
    let rest = rest + m.lookup(&EXPM1_RESTS, place);
    let exponent = exponent(m, place);
    let half = m.float(m.bits(m.lookup(&EXP_POWERS, place)) + exponent);
    let [scale, minus_scale] = [ONE, ONE | i32::MIN].map(|one| m.float(m.i32(one) - exponent));
    let inverse = (m.lookup(&INVERSE_POWERS, place), m.lookup(&INVERSE_POWERS_LOW, place));
    let (sinh, sinh_low) = with_multiple(m, half, inverse, minus_scale);
    let (cosh, cosh_low) = with_multiple(m, half, inverse, scale);

    let square = r * r;
    let cube = square * r;
    let even = r * m.fma(r, m.f32(0.5), m.fma(cube, m.f32(EVEN), rest));
    let odd = m.fma(cube, polynomial(m, square, &ODD), m.fma(rest, even, rest));
    let (part, part_low) = product(m, cosh, r);
    let (high, high_low) = sum::<M>(sinh, part);
    let rest = m.fma(cosh_low, r, sinh_low) + (part_low + high_low);
    let even = sinh * even;
    let low = m.fma(cosh, odd, rest) + even;
    let error = m.fma(even, m.f32(PER_EVEN), high * m.f32(BOUND));
    let (y, is_sure) = m.rounded(high, [low - error, low + error]);
    (with_sign_of(m, y, x), is_sure & m.less(size, m.f32(GREATEST)))
}

/// The hyperbolic cosine: half of e^|x| and its inverse.
///
/// e^|x| = P + P r + P R, where R = r² EXP(r) + rest (1 + r) is below 2^-12: the roundings of EXP(r), of two sums and of
/// P R with other terms err by 2^-36 each, and EXP by 2^-37.5. The inverse of the first part and P R, rounded, is
/// corrected, and errs by 2^-37: together less than 2^-33.8.
#[inline(always)]
pub fn cosh<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const BOUND: f32 = 6.8e-11; // 2^-33.78
    let size = m.magnitude(x);
    let Reduced { place, r, rest } = reduce(m, size, TO_INTEGER);
    let rest = rest + m.lookup(&EXPM1_RESTS, place);
    let power = m.float(m.bits(m.lookup(&EXP_POWERS, place)) + exponent(m, place));
    let small = m.fma(r, m.fma(r, polynomial(m, r, &EXP), rest), rest);
    let (part, part_low) = product(m, power, r);
    let (exp, exp_low) = sum::<M>(power, part);
    let exp_rest = part_low + exp_low;
    let exp_low = m.fma(power, small, exp_rest);

    let inverse = m.reciprocal(exp + exp_low);
    // By how much the inverse is too great, as a share of it.
    let excess = m.fma(inverse, exp_low, m.fms(inverse, exp, m.f32(1.0)));
    let (high, high_low) = sum::<M>(exp, inverse);
    let low = m.fms(power, small, m.fms(inverse, excess, high_low + exp_rest));
    let (y, is_sure) = rounded(m, high, low, BOUND);
    (y * m.f32(0.5), is_sure & m.less(size, m.f32(GREATEST)))
}
