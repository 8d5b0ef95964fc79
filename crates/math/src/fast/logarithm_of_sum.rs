//! log(1 + u) for a u that may be far below the last bit of 1, computed like other logarithms (logarithm.rs): 1 + u is
//! 2^k m, c is near 1/m, C = 2^-k c, and r = (1 + u) C - 1.
//!
//! The first step of the reduction adds 2^17 to the encoding, as a number. The sum over 2^18 is 32 k + i for the
//! nearest i/32 to m - 1. The multiples of 1/32 are in the middles of cells, so that the last cell of an octave ends
//! 1/64 before the next octave, and the next octave's first cell begins there. c is 1 in the first cell, which reaches
//! from 1 - 2^-7 to 1 + 2^-6. There r is u, and no digits cancel. Encodings are scaled by slightly less than 2^-18,
//! which moves the ends of cells up by 0.0065 of their length. So log(1 + u) is at least 2^-6 in the second cell, r is
//! below 2^-7 in the last cell, and H - Y is exact.
//!
//! 1 + u has up to three parts. The first part is rounded. Its product with C, minus 1, is exact and a multiple of
//! 2^-30. r is the sum of that and of C times the second part, which is at most 2^-20 of the first part. r_low is the
//! rest that r lacks, rounded. The third part, if there is one, is at most 2^-21 of u. C times it is added to r_low
//! only. Near 1, r is u, and r_low is the third part: relative to the result they are as exact as u and the third part,
//! however small it is.
//!
//! log(1 + r + r_low) is log(1 + r) + r_low (1 - r + r²), except for r³ r_low, at most 2^-37 of the result, and
//! r_low²/2. The unit is -1/2: with f = 2, the low part has no term of r or r². The roundings of r³/3 add 2^-35.5 of
//! the result, as in other logarithms, and the polynomial adds 2^-34.9. On each 31st float, the greatest error of log1p
//! is 0.78 of the bias, 2^-34.2.

use super::constants::{
    LOG_UNIT, LOG1P, LOG1P_BIAS, LOG1P_INVERSE, LOG1P_STEP, LOG1P_STEP_LOW, LOG1P_STEPS,
    LOG1P_TABLE, LOG1P_TABLE_LOW,
};
use super::{Machine32, TO_INTEGER, Tables, polynomial, with_sign_of};

/// c, and the logarithms of 1/c in two parts. The first parts are in multiples of the unit.
struct Cells;

impl Tables<3> for Cells {
    const TABLES: [&'static [f32; 32]; 3] = [&LOG1P_INVERSE, &LOG1P_TABLE, &LOG1P_TABLE_LOW];
}

/// The number of cells of an octave.
const CELLS: f32 = 32.0;

/// The logarithm of a number that is given in parts, as two parts for [`rounded`], and the number of its cell, counted
/// from the cell of 1. The parts are right if the number of the cell is below 32 · 126 in magnitude.
#[inline(always)]
pub(super) fn of_sum<M: Machine32>(
    m: &M, above: M::F32, rest: M::F32, last: Option<M::F32>,
) -> ([M::F32; 2], M::F32) {
    const AT_1: f32 = CELLS * 127.0;
    let encoding = m.convert(m.bits(above));
    let shifted = m.fma(encoding, m.f32(LOG1P_STEPS), m.f32(TO_INTEGER - AT_1));
    let (place, cell) = (m.bits(shifted), shifted - m.f32(TO_INTEGER));
    let [inverse, table, table_low] = m.lookups::<3, Cells>(place);
    let c = m.float(m.bits(inverse) - m.shift_left::<18>(place));
    let high = m.fma(cell, m.f32(LOG1P_STEP), table);
    let low = m.fma(cell, m.f32(LOG1P_STEP_LOW), table_low);
    let first = m.fma(above, c, m.f32(-1.0));
    let r = m.fma(rest, c, first);
    let r_low = m.fma(rest, c, first - r);
    let r_low = last.map_or(r_low, |last| m.fma(last, c, r_low));
    let y = m.fma(r, r, m.fma(r, m.f32(-2.0), high));
    let y_low = m.fma(r, r, m.fma(r, m.f32(-2.0), high - y));
    let per_square = m.fma(r, polynomial(m, r, &LOG1P), r_low);
    let small = m.fma(r, per_square, m.f32(-LOG1P_BIAS) - r_low);
    let low = m.fma(r, small, low + r_low);
    ([y, m.fma(y_low, m.f32(LOG_UNIT), low)], cell)
}

/// The logarithm of 1 + u + `last`, in the form of [`of_sum`]. Right for u below 2^24.
#[inline(always)]
pub(super) fn of_one_plus<M: Machine32>(
    m: &M, u: M::F32, last: Option<M::F32>,
) -> ([M::F32; 2], M::F32) {
    let above = u + m.f32(1.0);
    of_sum(m, above, u - (above - m.f32(1.0)), last)
}

/// Rounds a logarithm in two parts. The first part is in multiples of the unit.
#[inline(always)]
pub(super) fn rounded<M: Machine32>(m: &M, [y, low]: [M::F32; 2]) -> (M::F32, M::Bool) {
    let other = m.fma(y, m.f32(2.0 * LOG1P_BIAS * LOG_UNIT), low);
    m.rounded_product(y, LOG_UNIT, [low, other])
}

/// log(1 + x).
#[inline(always)]
pub fn log1p<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let (parts, cell) = of_one_plus(m, x, None);
    let (y, is_sure) = rounded(m, parts);
    (with_sign_of(m, y, x), m.and_less(is_sure, m.magnitude(cell), m.f32(23.5 * CELLS)))
}
