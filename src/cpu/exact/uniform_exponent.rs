//! Blocks of f32 with similar exponents: the extreme encodings prove that sums in f64 are exact.

use super::window::REACH;
use super::{Conditions, Inputs, Vectorised};
use crate::arch::{InstructionSet, Vector, prefetch};
use crate::policy::cores;
use gpuvec_exact::power;
use std::iter::zip;

/// The number of accumulators, each a vector: two for each half of a block.
const CHAINS: usize = 4;

/// A block's sum in a window of one level, in units of 2^unit, if the encodings of its terms allow it.
///
/// Each lane of an accumulator begins at 1.5·2^(u+52) and takes at most 2^7 terms. If the terms are multiples of 2^u
/// below 2^(u+44), the sums are multiples of 2^u, too, and stay in [2^(u+52), 2^(u+53)), where neighbouring f64 are 2^u
/// apart. So additions are exact, and no witness is needed. A term with the exponent field e is below 2^(e−126) and a
/// multiple of 2^(max(e, 1)−150). Both grow with e, so the greatest and the least encoding decide. (The test refuses
/// some blocks that a window with witnesses holds: with small terms that end in zeros.)
///
/// # Panics
/// If the terms are not whole rows.
#[inline(always)]
pub(super) fn uniform_sum<K: Vectorised, C: Conditions, S: InstructionSet>(
    set: S, unit: i32, block: Inputs<'_, K::Element>,
) -> Option<i64> {
    let (block, step) = (block.a(), 2 * S::F64::LANES);
    let half = block.len() / 2;
    assert!(block.len().is_multiple_of(2 * step));
    let start = 1.5 * power(unit + 52);
    let mut accumulators = [S::F64::splat(set, start); CHAINS];
    let none = [u64::MAX, 0].map(|bits| S::F64::splat(set, f64::from_bits(bits)));
    let mut extremes = [none; 2];
    for place in (0..half).step_by(step) {
        for (part, extremes) in extremes.iter_mut().enumerate() {
            let first = part * half + place;
            // SAFETY: the assertion above: `first` begins a step in its half.
            let row = unsafe { block.get_unchecked(first..first + step) };
            let halves = [S::F64::load(set, row), S::F64::load(set, &row[step / 2..])];
            for (sum, half) in zip(&mut accumulators[2 * part..], halves) {
                *sum = *sum + half;
            }
            *extremes = S::F64::extremes(*extremes, row);
            prefetch(row.as_ptr().wrapping_byte_add(cores::UNIFORM_AHEAD));
        }
    }
    let field = |exponent: i32| (exponent.clamp(0, 255) as u32) << 24;
    let [least, most] = total(extremes);
    let is_below = most < field(unit + REACH + 127);
    let is_multiple = unit + 150 <= 1 || least >= field(unit + 150) - 1;
    if C::GUARDS.limit && !is_below || C::GUARDS.witness && !is_multiple {
        return None;
    }
    let units = |bits: &u64| bits.wrapping_sub(start.to_bits()).cast_signed();
    let of_chain = |sums: S::F64| sums.bits().as_ref().iter().map(units).fold(0, i64::wrapping_add);
    Some(accumulators.into_iter().map(of_chain).fold(0, i64::wrapping_add))
}

/// The least and the greatest magnitude of all lanes.
#[inline(always)]
fn total<V: Vector>(extremes: [[V; 2]; 2]) -> [u32; 2] {
    let [mut least, mut most] = [u32::MAX, 0];
    for ends in extremes {
        let [least_sizes, most_sizes] = ends.map(V::bits);
        for (&low, &high) in zip(least_sizes.as_ref(), most_sizes.as_ref()) {
            least = least.min(low as u32).min((low >> 32) as u32);
            most = most.max(high as u32).max((high >> 32) as u32);
        }
    }
    [least, most]
}
