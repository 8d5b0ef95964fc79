//! Powers of e and 2.
//!
//! Both are T e^(r + rest) = T + T r + T (r² EXP(r) + rest + rest · r), times a power of two, where |r| is at
//! most ln 2 / 32 = 0.0217 and T = 2^(i/16) is from a table, to whose rounding the second part of r makes
//! up: the logarithm of the quotient is added to it.
//!
//! T + T r is exact in two parts, by a product that is added twice. The remainder is below 2^-11 T; relative to the
//! result, its roundings err as follows: r² and EXP(r), whose product is below 2^-12, by 2^-36 each; their sum
//! with the rests by 2^-37, the polynomial by 2^-37.5, and each of two sums of low parts by 2^-36.5:
//! together by less than 2^-33.7. The rests of the table are less by a bias of 7e-11, or 2^-33.7, so that the
//! exact result is between the computed one and that plus twice the bias.

use super::constants::{
    EXP, EXP_POWERS, EXP_RESTS, EXP_SHIFTED_POWERS, EXP_STEP, EXP_STEP_LOW, EXP_STEPS, EXP2, EXPM1,
    EXPM1_RESTS, LN_2,
};
use super::{Machine32, TO_INTEGER, polynomial, product, rounded};

/// The error of a power is from 0 to that: half of it is taken from the rests in [`EXP_RESTS`].
const BIASED: f32 = 1.4e-10; // 2^-32.7
const EXPONENT: i32 = -1 << 23;
pub(super) const ONE: i32 = 127 << 23;
/// Arguments above that have results that are subnormal or infinite, or nearly.
const GREATEST: f32 = 87.3;

/// 2^(k/16) (1 + r + small), for k in the low bits of `place`; the result is a normal number.
#[inline(always)]
fn power<M: Machine32>(m: &M, place: M::I32, r: M::F32, small: M::F32) -> (M::F32, M::Bool) {
    let power = m.lookup(&EXP_POWERS, place);
    let high = m.fma(power, r, power);
    let low = m.fma(power, small, m.fma(power, r, power - high));
    let (y, is_sure) = m.rounded(high, [low, m.fma(high, m.f32(BIASED), low)]);
    (m.float(m.bits(y) + exponent(m, place)), is_sure)
}

/// x = k ln 2 / 16 + r - excess, for 2^(k/16) from a table.
pub(super) struct Reduced<M: Machine32> {
    /// k is in its low bits.
    pub(super) place: M::I32,
    pub(super) r: M::F32,
    /// Below 2^-21, with the logarithm of the table's power over the exact one.
    pub(super) excess: M::F32,
}

/// Reduces an argument below 90 in magnitude. What `to_integer` is less than [`TO_INTEGER`] is taken from the place.
///
/// The first part of ln 2 / 16, a multiple of 2^-28, leaves an exact difference: it is below 2^-5, and
/// a multiple of 2^-29 as x is, unless k = 0. The second part's multiple is below 2^-21.9.
#[inline(always)]
pub(super) fn reduce<M: Machine32>(m: &M, x: M::F32, to_integer: f32) -> Reduced<M> {
    let shifted = m.fma(x, m.f32(EXP_STEPS), m.f32(to_integer));
    let k = shifted - m.f32(to_integer);
    let place = m.bits(shifted);
    let r = m.fma(k, m.f32(-EXP_STEP), x);
    let excess = m.fms(k, m.f32(EXP_STEP_LOW), m.lookup(&EXPM1_RESTS, place));
    Reduced { place, r, excess }
}

/// 2^(k/16) for k in the low bits of a place, without the rounding that [`EXPM1_RESTS`] makes up for.
#[inline(always)]
pub(super) fn scaled_power<M: Machine32>(m: &M, place: M::I32) -> M::F32 {
    m.float(m.bits(m.lookup(&EXP_SHIFTED_POWERS, place)) + m.shift_left::<19>(place))
}

/// The bits that 2^j adds to a number's encoding, for k = 16 j + i in the low bits of a place.
#[inline(always)]
pub(super) fn exponent<M: Machine32>(m: &M, place: M::I32) -> M::I32 {
    m.shift_left::<19>(place) & m.i32(EXPONENT)
}

/// e^x = 2^(k/16) e^r. Arguments with subnormal or infinite results are left.
#[inline(always)]
pub fn exp<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let shifted = m.fma(x, m.f32(EXP_STEPS), m.f32(TO_INTEGER));
    let k = shifted - m.f32(TO_INTEGER);
    let place = m.bits(shifted);
    let first = m.fma(k, m.f32(-EXP_STEP), x);
    let r = m.fma(k, m.f32(-EXP_STEP_LOW), first);
    let rest = m.fma(k, m.f32(-EXP_STEP_LOW), first - r) + m.lookup(&EXP_RESTS, place);
    let small = m.fma(r * r, polynomial(m, r, &EXP), m.fma(rest, r, rest));
    let (y, is_sure) = power(m, place, r, small);
    (y, is_sure & m.less(m.magnitude(x), m.f32(GREATEST)))
}

/// e^x - 1 = P - 1 + r (P + P r/2 + P r² EXPM1(r)) - excess · e^x, with P = 2^(k/16).
///
/// All is exact in two parts but for the last two terms. Where k = 0 the result is about r, else it is as large or
/// larger: the roundings of r², of the polynomial, of their product and of two sums with it, 2^-24 r³ / 6 each, err by
/// 2^-35.3 together, relative to it. The polynomial errs by 2^-38.2, and the other sums and the excess by less.
///
/// The signs of differences are such that they are -0 where x is.
#[inline(always)]
pub fn expm1<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let Reduced { place, r, excess } = reduce(m, x, TO_INTEGER);
    let power = scaled_power(m, place);
    // 1 - P.
    let one = m.f32(1.0);
    let base = one - power;
    let of_power = base - one;
    let base_low = (one - (base - of_power)) - (power + of_power);
    let half = r * m.f32(0.5);
    let slope = m.fma(power, half, power);
    let slope_low = m.fma(power, half, power - slope);
    let square = r * r;
    let slope_low = m.fma(square * polynomial(m, r, &EXPM1), power, slope_low);
    let y = m.fms(slope, r, base);
    let low = m.fms(slope, r, base + y) - base_low;
    let low = m.fms(slope_low, r, m.fms(excess, y + one, low));
    let (y, is_sure) = rounded(m, y, low, 3e-11); // 2^-34.96
    (y, is_sure & m.less(m.magnitude(x), m.f32(GREATEST)))
}

/// 2^x = 2^(k/16) 2^f, where f is the exact rest of x, and r + rest = f log 2 but for the second part of log 2, which
/// is the first coefficient of the polynomial.
#[inline(always)]
pub fn exp2<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let shifted = m.fma(x, m.f32(16.0), m.f32(TO_INTEGER));
    let k = shifted - m.f32(TO_INTEGER);
    let f = m.fma(k, m.f32(-1.0 / 16.0), x);
    let place = m.bits(shifted);
    let (r, rest) = product(m, f, m.f32(LN_2));
    let rest = rest + m.lookup(&EXP_RESTS, place);
    let small = m.fma(f, polynomial(m, f, &EXP2), m.fma(rest, r, rest));
    let (y, is_sure) = power(m, place, r, small);
    (y, is_sure & m.less(m.magnitude(x), m.f32(125.9)))
}
