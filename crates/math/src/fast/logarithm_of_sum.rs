//! log(1 + u)

use super::constants::{
    LOG_BIAS, LOG_UNIT, LOG1P, LOG1P_INVERSE, LOG1P_STEP, LOG1P_STEP_LOW, LOG1P_STEPS, LOG1P_TABLE,
    LOG1P_TABLE_LOW,
};
use super::{Machine32, TO_INTEGER, Tables, polynomial, with_sign_of};

struct Cells;

impl Tables<3> for Cells {
    const TABLES: [&'static [f32; 32]; 3] = [&LOG1P_INVERSE, &LOG1P_TABLE, &LOG1P_TABLE_LOW];
}

/// A number of at least 2^-126, as a sum
#[inline(always)]
pub(super) fn of_sum<M: Machine32>(
    m: &M, above: M::F32, rest: M::F32, missing: Option<M::F32>,
) -> ([M::F32; 2], M::F32) {
    const AT_1: f32 = 32.0 * 127.0;
    let binades = m.convert(m.bits(above));
    let shifted = m.fma(binades, m.f32(LOG1P_STEPS), m.f32(TO_INTEGER - AT_1));
    let (place, steps) = (m.bits(shifted), shifted - m.f32(TO_INTEGER));
    let [inverse, table, table_low] = m.lookups::<3, Cells>(place);
    let c = m.float(m.bits(inverse) - m.shift_left::<18>(place));
    let high = m.fma(steps, m.f32(LOG1P_STEP), table);
    let low = m.fma(steps, m.f32(LOG1P_STEP_LOW), table_low);
    let first = m.fma(above, c, m.f32(-1.0));
    let r = m.fma(rest, c, first);
    let r_low = m.fma(rest, c, first - r);
    let r_low = missing.map_or(r_low, |missing| m.fma(missing, c, r_low));
    let y = m.fma(r, r, m.fma(r, m.f32(-2.0), high));
    let y_low = m.fma(r, r, m.fma(r, m.f32(-2.0), high - y));
    let square_factor = m.fma(r, polynomial(m, r, &LOG1P), r_low);
    let factor = m.fma(r, square_factor, m.f32(-LOG_BIAS) - r_low);
    ([y, m.fma(y_low, m.f32(LOG_UNIT), m.fma(r, factor, low + r_low))], steps)
}

/// 1 + u
#[inline(always)]
pub(super) fn of_one_and<M: Machine32>(
    m: &M, u: M::F32, missing: Option<M::F32>,
) -> ([M::F32; 2], M::F32) {
    let above = u + m.f32(1.0);
    of_sum(m, above, u - (above - m.f32(1.0)), missing)
}

#[inline(always)]
pub(super) fn rounded<M: Machine32>(m: &M, [y, low]: [M::F32; 2]) -> (M::F32, M::Bool) {
    let other = m.fma(y, m.f32(2.0 * LOG_BIAS * LOG_UNIT), low);
    m.rounded_product(y, LOG_UNIT, [low, other])
}

/// log(1 + x), that of the rounded sum and what the sum lacks.
#[inline(always)]
pub fn log1p<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let (parts, steps) = of_one_and(m, x, None);
    let (y, is_sure) = rounded(m, parts);
    (with_sign_of(m, y, x), m.and_less(is_sure, m.magnitude(steps), m.f32(23.5 * 32.0)))
}
