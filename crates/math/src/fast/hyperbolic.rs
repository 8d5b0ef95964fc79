//! Hyperbolic sine and cosine. Arguments are reduced like those of the exponential.

use super::constants::{EXP, EXPM1_RESTS, INVERSE_POWERS, INVERSE_POWERS_LOW};
use super::exponential::{Reduced, reduce, scaled_power};
use super::{Machine32, TO_SIXTEENTHS, polynomial, rounded, sum, with_sign_of};

/// Greater arguments have infinite results, or nearly.
const GREATEST: f32 = 88.5;
/// Greater arguments have powers with subnormal inverses, or nearly.
const GREATEST_SINH: f32 = 85.0;

/// A quarter of 2^(-i/16) with encodings that are greater by i · 2^19. Subtracting a place shifted by 19 bits corrects
/// them.
const SHIFTED_INVERSES: [f32; 16] = {
    let mut shifted = [0.0; 16];
    let mut i = 0;
    while i < 16 {
        shifted[i] = f32::from_bits(INVERSE_POWERS[i].to_bits() + ((i as u32) << 19));
        i += 1;
    }
    shifted
};
/// The quotients of the powers' second and first parts.
const INVERSE_RESTS: [f32; 16] = {
    let mut rests = [0.0; 16];
    let mut i = 0;
    while i < 16 {
        rests[i] = INVERSE_POWERS_LOW[i] / INVERSE_POWERS[i];
        i += 1;
    }
    rests
};

/// The hyperbolic sine: S cosh r + C sinh r, where S = sinh a and C = cosh a, for |x| = a + r.
///
/// S and C are the difference and the sum of two powers, in two parts each. S + r (C + r (S/2 + r R)) is exact in two
/// parts, too, except for r² R, where R = C SINH(r²) + S r/24. C r³ is below 2^-11 of the result. So the five roundings
/// of r³ R, of 2^-24 of it each, and SINH add errors of less than 2.5e-11. Other roundings and the rest of the series
/// add less than 2^-40.
#[inline(always)]
pub fn sinh<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const SINH: [f32; 2] = [1.0 / 6.0, 1.0 / 120.0];
    const BOUND: f32 = 2.8e-11; // 2^-35.06
    let size = m.magnitude(x);
    // Half of the power and half of its inverse.
    let Reduced { place, r, excess, .. } = reduce(m, size, TO_SIXTEENTHS - 1.0, &EXPM1_RESTS);
    let power = scaled_power(m, place);
    let encoding = m.bits(m.lookup(&SHIFTED_INVERSES, place)) - m.shift_left::<19>(place);
    let inverse = m.float(encoding);
    let rest = m.lookup(&INVERSE_RESTS, place);
    let cosh = power + inverse;
    let cosh_low = m.fma(inverse, rest, (power - cosh) + inverse);
    // -S.
    let sinh = inverse - power;
    let sinh_low = m.fma(inverse, rest, inverse - (power + sinh));

    let square = r * r;
    let half = r * m.f32(0.5);
    let slope = m.fnma(sinh, half, cosh);
    let slope_low = m.fnma(sinh, half, cosh - slope) + m.fnma(sinh_low, half, cosh_low);
    let rest = m.fma(cosh, polynomial(m, square, &SINH), (slope - cosh) * m.f32(1.0 / 12.0));
    let slope_low = m.fma(square, rest, slope_low);
    let y = m.fms(slope, r, sinh);
    let low = m.fms(slope, r, sinh + y) - sinh_low;
    let low = m.fma(slope_low, r, m.fnma(excess, m.fma(half, y, slope), low));
    let (y, is_sure) = rounded(m, y, low, BOUND);
    (with_sign_of(m, y, x), m.and_less(is_sure, size, m.f32(GREATEST_SINH)))
}

/// The hyperbolic cosine: half of e^|x| and its inverse.
///
/// e^|x| = P + P r + P r² EXP(r) - excess · e^|x|, with P = 2^k. The third term is below 2^-12 of the result. So the
/// roundings of r², of EXP(r), of their product and of the last sum add errors of 2^-36 each, and EXP adds 2^-37.5. The
/// reciprocal of the rounded sum is corrected, and adds 2^-37: together less than 2^-33.78.
#[inline(always)]
pub fn cosh<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const BOUND: f32 = 6.8e-11; // 2^-33.78
    let size = m.magnitude(x);
    let Reduced { k, place, r, excess } = reduce(m, size, TO_SIXTEENTHS, &EXPM1_RESTS);
    let power = m.power(k, place);
    let exp = m.fma(power, r, power);
    let small = (r * r) * polynomial(m, r, &EXP);
    let nearly = m.fma(power, small, exp);
    let exp_low = m.fnma(excess, nearly, m.fma(power, r, power - exp));

    let inverse = m.reciprocal(nearly);
    // The relative excess of the inverse.
    let low = m.fma(power, small, exp_low);
    let excess = m.fma(inverse, low, m.fms(inverse, exp, m.f32(1.0)));
    let (high, high_low) = sum::<M>(exp, inverse);
    let low = m.fma(power, small, m.fnma(inverse, excess, high_low + exp_low));
    let (y, is_sure) = rounded(m, high, low, BOUND);
    (y * m.f32(0.5), m.and_less(is_sure, size, m.f32(GREATEST)))
}
