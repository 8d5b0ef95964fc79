//! Powers of e and 2.
//!
//! e^x is 2^k e^r e^-excess, where k is a multiple of 1/16 and |r| at most ln 2 / 32 = 0.0217. T = 2^(i/16) is from a
//! table for the sixteenths of k. The excess is k times the second part of ln 2, less the logarithm of T's rounded
//! value over its exact value, so that it corrects T's rounding.
//!
//! T + T r is exact in two parts, since the same product is added twice. The remainder is T (s² EXP(s) - excess), where
//! s is r - excess, rounded. It is below 2^-11 T. Its error relative to the result is less than 2^-33.8: the rounding
//! of s adds 2^-35.5, the rounding of EXP(s) 2^-36, of s EXP(s) 2^-36.5, of both sums 2^-36.5, and the polynomial
//! 2^-37.5. The low parts in the table are reduced by a bias of 7e-11, or 2^-33.7, so that the exact result is between
//! the computed result and the computed result plus twice the bias.
//!
//! 2^x is 2^k 2^o 2^f. The offset o, at most 2^-9, makes T = 2^(i/16 + o) and T ln 2 nearly floats: together, their
//! errors are 2^-35.9 of the result, since f ln 2 is below 2^-5.4. k, o and f add up to x exactly: f is below 2^-4 and,
//! unless k and o are 0, a multiple of 2^-28. Otherwise 2^x is computed as e^x, with the bias in place of the excess.

use super::constants::{
    EXP, EXP_BIAS, EXP_POWERS, EXP_RESTS, EXP_SHIFTED_POWERS, EXP2, EXP2_OFFSETS, EXP2_POWERS,
    EXPM1, EXPM1_RESTS, LN_2, LN_2_LOW, LOG2_E,
};
use super::{Halves, Machine32, TO_SIXTEENTHS, polynomial};

/// Arguments that are greater in magnitude have subnormal or infinite results, or nearly.
const GREATEST: f32 = 87.3;
/// For this argument and smaller ones, e^x - 1 rounds to -1.
const LEAST_EXPM1: f32 = -18.0;
/// The error of e^x - 1, relative to its low part.
const EXPM1_BOUND: f32 = 1.75e-5;

/// 2^⌊k⌋ (power + slope · r + power · small), rounded.
#[inline(always)]
fn power<M: Machine32>(
    m: &M, (k, place): (M::F32, M::I32), [power, slope]: [M::F32; 2], r: M::F32, small: M::F32,
) -> (M::F32, M::Bool) {
    let high = m.fma(slope, r, power);
    let low = m.fma(power, small, m.fma(slope, r, power - high));
    m.scaled(m.rounded(high, [low, m.fma(high, m.f32(2.0 * EXP_BIAS), low)]), k, place)
}

/// x = k ln 2 + r - excess, for 2^k from a table.
pub(super) struct Reduced<M: Machine32> {
    /// A multiple of 1/16.
    pub(super) k: M::F32,
    /// The low bits are the sixteenths of k.
    pub(super) place: M::I32,
    pub(super) r: M::F32,
    /// Below 2^-21. Includes the logarithm of the table's power over the exact one.
    pub(super) excess: M::F32,
}

/// Reduces an argument below 90 in magnitude. If `to_sixteenths` is smaller than [`TO_SIXTEENTHS`], the place is
/// smaller by the difference.
///
/// The first part of ln 2 is a multiple of 2^-24, so the difference is exact: it is below 2^-5 and, unless k = 0, a
/// multiple of 2^-29, like x. The second part's multiple is below 2^-21.9.
#[inline(always)]
pub(super) fn reduce<M: Machine32>(
    m: &M, x: M::F32, to_sixteenths: f32, rests: &'static [f32; 16],
) -> Reduced<M> {
    let shifted = m.fma(x, m.f32(LOG2_E), m.f32(to_sixteenths));
    let k = shifted - m.f32(to_sixteenths);
    let place = m.bits(shifted);
    let r = m.fma(k, m.f32(-LN_2), x);
    let excess = m.fms(k, m.f32(LN_2_LOW), m.lookup(rests, place));
    Reduced { k, place, r, excess }
}

/// 2^k for the sixteenths of k in the low bits of a place. [`EXPM1_RESTS`] corrects its rounding.
#[inline(always)]
pub(super) fn scaled_power<M: Machine32>(m: &M, place: M::I32) -> M::F32 {
    m.float(m.bits(m.lookup(&EXP_SHIFTED_POWERS, place)) + m.shift_left::<19>(place))
}

/// e^x = 2^k e^(r - excess). Not right for arguments with subnormal or infinite results.
#[inline(always)]
pub fn exp<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let Reduced { k, place, r, excess } = reduce(m, x, TO_SIXTEENTHS, &EXP_RESTS);
    let rest = r - excess;
    let small = m.fms(rest, rest * polynomial(m, rest, &EXP), excess);
    let table = m.lookup(&EXP_POWERS, place);
    power(m, (k, place), [table, table], r, small)
}

/// e^x - 1 = P - 1 - excess P + r (S + S (r² EXPM1(r) - excess)), with P = 2^k and S = P + P r/2.
///
/// P - 1, S, and P - 1 + r S are exact in two parts. The factor of the excess, about e^x, lacks P r³ / 6. That is 2^-19
/// of the factor, and at most 2^-24 of the low part. Near 0 the excess is 0, and the error is relative to r³ EXPM1(r):
/// 2^-22.8 for the polynomial and 2^-22 for roundings. Elsewhere the error of the excess is at most 2^-47.4 P, and
/// e^x - 1 is 0.02 P or more. Relative to the low part, or to 2^-25 of the result, this is the greatest error. Of all
/// floats from 0.002 to 1, the worst one has 0.86 of the bound.
///
/// The operands of differences are in such an order that the differences are -0 if x is -0.
pub struct Expm1;

/// The values between the halves of expm1: r, the excess, P, and true if the argument is in range.
pub struct Expm1Parts<M: Machine32>([M::F32; 3], M::Bool);

impl Halves for Expm1 {
    type Middle<M: Machine32> = Expm1Parts<M>;

    #[inline(always)]
    fn begin<M: Machine32>(m: &M, x: M::F32) -> Expm1Parts<M> {
        let (x, is_in_range) = m.bounded(x, LEAST_EXPM1, GREATEST);
        let Reduced { k, place, r, excess } = reduce(m, x, TO_SIXTEENTHS, &EXPM1_RESTS);
        Expm1Parts([r, excess, m.power(k, place)], is_in_range)
    }

    #[inline(always)]
    fn finish<M: Machine32>(
        m: &M, Expm1Parts([r, excess, power], is_in_range): Expm1Parts<M>,
    ) -> (M::F32, M::Bool) {
        let half = r * m.f32(0.5);
        let slope = m.fma(power, half, power);
        let slope_low = m.fma(power, half, power - slope);
        let [y, low, too_much] = m.product_and_less_one(slope, r, power, excess);
        let small = m.fms(r * r, polynomial(m, r, &EXPM1), excess);
        let slope_low = m.fma(small, slope, slope_low);
        let low = low - m.fnma(slope_low, r, too_much);
        let (y, is_sure) = m.rounded_sum(y, low, EXPM1_BOUND);
        (y, is_sure & is_in_range)
    }
}

/// e^x - 1.
#[inline(always)]
pub fn expm1<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    Expm1::finish(m, Expm1::begin(m, x))
}

/// 2^x = 2^k 2^(offset + f).
#[inline(always)]
pub fn exp2<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let shifted = x + m.f32(TO_SIXTEENTHS);
    let k = shifted - m.f32(TO_SIXTEENTHS);
    let place = m.bits(shifted);
    let f = (x - k) - m.lookup(&EXP2_OFFSETS, place);
    let small = m.fma(f, polynomial(m, f, &EXP2), m.f32(-EXP_BIAS));
    let table = m.lookup(&EXP2_POWERS, place);
    power(m, (k, place), [table, table * m.f32(LN_2)], f, small)
}
