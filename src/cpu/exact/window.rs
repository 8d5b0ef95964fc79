//! Sums of blocks in a floating-point window.

use super::uniform_exponent::uniform_sum;
use super::{Conditions, Inputs, Vectorised};
use crate::arch::{InstructionSet, Isa, Vector, Vectorized, prefetch};
use crate::policy::cores;
use gpuvec_exact::{Float, LEVEL_BITS, State, round_window};
use std::iter::zip;
use std::marker::PhantomData;
use std::mem::size_of;

/// The number of deposits in an accumulator before its sum is read.
const DEPOSITS: usize = 1 << 7;

/// A level with the unit 2^u takes deposits of at most 2^(u + REACH).
pub(super) const REACH: i32 = 44;

/// The most levels of a window.
const MAX_LEVELS: usize = 3;

/// The most accumulators of a level, the most rows per step of the loop, and the most elements of a step: a row has one
/// vector for each accumulator.
const MAX_CHAINS: usize = 4;
const MAX_ROWS: usize = 2;
const MAX_WIDTH: usize = MAX_ROWS * 8 * MAX_CHAINS;

/// The number of vectors that collect each kind of flags.
const FLAGS: usize = 2;

/// The most blocks before the sums are moved to the state, so that the sum of a level stays below 2^63 units. A block
/// adds at most 2^51 units in each of at most 2^5 lanes. (The end of the array may be two short blocks.)
const MAX_BLOCKS: usize = 1 << 6;

/// Levels for deposits below 2^TOO_LARGE have accumulators below 2^1023.
const TOO_LARGE: i32 = 1014;

const SIGN: u64 = 1 << 63;
const EXPONENT: u64 = 0x7FF << 52;

/// The sums of blocks in the levels of a window. The highest level has the unit 2^unit.
pub(super) struct Window {
    /// True if sums of products drop the remainder after the last level.
    is_bounded: bool,
    /// `None` until the window is chosen.
    pub(super) unit: Option<i32>,
    sums: [i64; MAX_LEVELS],
    /// The number of terms of the block that does not fit, or 0.
    pub(super) failed: usize,
}

impl Window {
    pub(super) fn exact() -> Self {
        Window { is_bounded: false, unit: None, sums: [0; MAX_LEVELS], failed: 0 }
    }

    /// A window for bounded sums of products. `unit` may continue the window of earlier terms.
    pub(super) fn bounded(unit: Option<i32>) -> Self {
        Window { is_bounded: true, unit, ..Window::exact() }
    }

    /// Chooses the window for all terms of a block.
    pub(super) fn choose_again<K: Vectorised, C: Conditions>(
        &mut self, isa: Isa, block: Inputs<'_, K::Element>,
    ) {
        self.unit = choose::<K, C>(isa, block, self.is_bounded);
    }

    /// Empties the window. Returns the total of its sums in units of the lowest level, and the exponent of that unit;
    /// `None` if no window was chosen.
    pub(super) fn take<K: Vectorised>(&mut self) -> Option<(i128, i32)> {
        let unit = self.unit?;
        let sums = &mut self.sums[..levels::<K>(self.is_bounded)];
        let lowest = unit - LEVEL_BITS * (sums.len() as i32 - 1);
        let total = sums.iter().fold(0, |total, &sum| (total << LEVEL_BITS) + i128::from(sum));
        sums.fill(0);
        Some((total, lowest))
    }

    /// Moves the sums to a state.
    pub(super) fn empty<K: Vectorised>(&mut self, state: &mut State<K>) {
        if let Some(unit) = self.unit {
            state.add_window(&self.sums[..levels::<K>(self.is_bounded)], unit);
        }
        self.sums = [0; MAX_LEVELS];
        if self.failed > 0 {
            self.unit = None;
        }
    }

    /// The total of exact sums, rounded once; `None` if no window was chosen.
    pub(super) fn value<K: Vectorised>(&self) -> Option<K::Element> {
        self.unit.map(|unit| round_window(&self.sums[..K::LEVELS], unit))
    }

    /// Adds blocks of terms to the window, and chooses its unit first, if it has none. Returns the number of terms
    /// added: fewer than all if a block does not fit, or after [`MAX_BLOCKS`] blocks.
    // Not inlined, to keep the library small.
    #[inline(never)]
    pub(super) fn hold<K: Vectorised, C: Conditions>(
        &mut self, isa: Isa, inputs: Inputs<'_, K::Element>,
    ) -> usize {
        self.failed = inputs.len();
        if K::ERRORS && !isa.has_fma() {
            return 0;
        }
        let unit = match self.unit {
            Some(unit) => unit,
            None => {
                let sample = inputs.first(cores::WINDOW_SAMPLE);
                self.failed = sample.len();
                let Some(unit) = choose::<K, C>(isa, sample, self.is_bounded) else { return 0 };
                *self.unit.insert(unit)
            }
        };
        let width = isa.run(Width::<K>(PhantomData));
        let whole = inputs.first(inputs.len() - inputs.len() % width);
        let rest = inputs.after(whole.len());
        // The last rows are padded with zeros.
        let (mut a, mut b);
        let mut last = rest;
        if rest.len() > 0 {
            a = [K::Element::from_encoding(0); MAX_WIDTH];
            a[..rest.len()].copy_from_slice(rest.a);
            last = Inputs { a: &a[..width], b: &a[..width] };
            if K::PRODUCTS {
                b = [K::Element::from_encoding(0); MAX_WIDTH];
                b[..rest.len()].copy_from_slice(rest.b);
                last.b = &b[..width];
            }
        }
        let mut held = 0;
        self.failed = 0;
        for (part, terms) in [(whole, whole.len()), (last, rest.len())] {
            if terms == 0 {
                continue;
            }
            let held_of_part = hold_in::<K, C>(isa, self, unit, part);
            if held_of_part < part.len() {
                self.failed = self.failed.min(terms);
                return held + held_of_part;
            }
            held += terms;
        }
        held
    }
}

/// Computes the number of elements of a step of the loop.
struct Width<K>(PhantomData<K>);

impl<K: Vectorised> Vectorized for Width<K> {
    type Result = usize;

    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) -> usize {
        rows::<K, S>() * chains::<K>() * S::F64::LANES
    }
}

/// Adds whole steps of terms to a window with the highest unit 2^unit. Returns the number of terms added.
// Inlined: a call takes 5 % of a short sum's time.
#[inline(always)]
fn hold_in<K: Vectorised, C: Conditions>(
    isa: Isa, window: &mut Window, unit: i32, inputs: Inputs<'_, K::Element>,
) -> usize {
    match K::PRODUCTS && window.is_bounded {
        false => isa.run(Hold::<K, C, false>(window, unit, inputs, PhantomData)),
        true => isa.run(Hold::<K, C, true>(window, unit, inputs, PhantomData)),
    }
}

struct Hold<'a, K: Vectorised, C, const BOUNDED: bool>(
    &'a mut Window,
    i32,
    Inputs<'a, K::Element>,
    PhantomData<C>,
);

impl<K: Vectorised, C: Conditions, const BOUNDED: bool> Vectorized for Hold<'_, K, C, BOUNDED> {
    type Result = usize;

    #[inline(always)]
    fn run<S: InstructionSet>(self, set: S) -> usize {
        let Hold(window, unit, inputs, _) = self;
        let deposits = if K::ERRORS { DEPOSITS / 2 } else { DEPOSITS };
        let block_len = chains::<K>() * S::F64::LANES * deposits;
        let mut held = 0;
        let mut witnessed = 0;
        window.failed = 0;
        for _ in 0..MAX_BLOCKS {
            if held == inputs.len() {
                break;
            }
            let block = inputs.after(held).first(block_len);
            if const { K::MAY_BE_UNIFORM } && witnessed == 0 {
                if let Some(sum) = uniform_sum::<K, C, S>(set, unit, block) {
                    window.sums[0] += sum;
                    held += block.len();
                    continue;
                }
                witnessed = cores::MOST_WITNESSED;
            }
            witnessed = witnessed.saturating_sub(1);
            let Some(sums) = sums::<K, C, S, BOUNDED>(set, unit, block) else {
                window.failed = block.len();
                break;
            };
            zip(&mut window.sums, sums).for_each(|(total, sum)| *total += sum);
            held += block.len();
        }
        held
    }
}

/// Chooses the lowest window for terms of the sample's magnitude. `None` if terms are too large or not finite.
// Not inlined, to keep the library small.
#[inline(never)]
fn choose<K: Vectorised, C: Conditions>(
    isa: Isa, sample: Inputs<'_, K::Element>, is_bounded: bool,
) -> Option<i32> {
    let largest = isa.run_as_short(Largest::<K>(sample));
    // Terms are below 2^exponent.
    let exponent = (largest >> 20) - 1022;
    // Below 2^−968 the computed error of a product may be wrong. The floor keeps the lowest unit so high that such a
    // product is not a multiple of it, and the witness shows a remainder.
    let floor = if C::GUARDS.floor { K::FLOOR } else { K::FLOOR.min(-1074) };
    let lowest = floor + LEVEL_BITS * (levels::<K>(is_bounded) as i32 - 1);
    Some((exponent - REACH).max(lowest)).filter(|_| exponent <= TOO_LARGE)
}

/// Finds the upper half of the largest term's encoding, without its sign.
struct Largest<'a, K: Vectorised>(Inputs<'a, K::Element>);

impl<K: Vectorised> Vectorized for Largest<'_, K> {
    type Result = i32;

    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) -> i32 {
        let mut largest = 0;
        for (&x, &y) in zip(self.0.a, self.0.b) {
            let (x, y): (f64, f64) = (x.into(), y.into());
            let term = if K::PRODUCTS { x * y } else { x };
            // Read as integers, encodings have the order of the magnitudes, and NaN is above infinity.
            largest = largest.max((term.abs().to_bits() >> 32) as i32);
        }
        largest
    }
}

/// The number of levels of a window: one less for bounded sums.
#[inline(always)]
const fn levels<K: Vectorised>(is_bounded: bool) -> usize {
    if is_bounded { K::LEVELS - 1 } else { K::LEVELS }
}

/// The number of accumulators of a level. Several hide the latency of additions; terms with errors need fewer.
#[inline(always)]
const fn chains<K: Vectorised>() -> usize {
    if K::ERRORS { MAX_CHAINS / 2 } else { MAX_CHAINS }
}

/// The number of rows in a step: two for exact products if the registers hold that many values. An accumulator's next
/// value then needs no copy to the previous value's register. (Products of f64, with errors, are 6 % slower with two.)
#[inline(always)]
const fn rows<K: Vectorised, S: InstructionSet>() -> usize {
    if K::PRODUCTS && !K::ERRORS && S::REGISTERS >= 32 { MAX_ROWS } else { 1 }
}

/// The sums of a block's terms in the levels of a window, if it holds them.
///
/// The method differs from crates/exact/src/window.rs in two points, which save instructions:
///
/// * The limit applies to the highest accumulator instead of the terms: it must be in [2^(u+52), 2^(u+53)) after
///   every deposit of r. There t and a are multiples of 2^u, and |t − a| < 2^(u+52) ≤ |a|, so that q and r − q are
///   exact and |r − q| ≤ 2^(u−1). NaN and infinities are outside the range, too.
/// * The error of a product skips the highest level: it is at most 2^−53 of the product, which is below
///   2^(u+52), and so within the reach of the second level.
///
/// A bounded sum drops the remainder after the last level. Each term then has an error of at most `UNITS_A_TERM`
/// units of that level. The product of two f32 is rounded once, to a multiple of 2^u: half a unit. For two f64,
/// the remainder of the first level and the product's error are at most 2^(u−1) each, since the product is below
/// 2^(u+52). Their sum is rounded to the second level's unit, 2^(u−45), by half a unit, after a rounding by at most
/// 2^(u−54) and an underflow of at most 2^−1075: together less than a hundredth of a unit.
///
/// # Panics
/// If the terms are not whole rows.
#[inline(always)]
fn sums<K: Vectorised, C: Conditions, S: InstructionSet, const BOUNDED: bool>(
    set: S, unit: i32, block: Inputs<'_, K::Element>,
) -> Option<[i64; MAX_LEVELS]> {
    let (chains, levels, ahead) = (chains::<K>(), levels::<K>(BOUNDED), cores::WINDOW_AHEAD);
    // A sum reads the two halves of its block side by side, so that the processor fetches two streams, as for a
    // product.
    let streams = if K::PRODUCTS { 1 } else { 2 };
    let step = chains / streams * S::F64::LANES;
    let stream_len = block.len() / streams;
    let rows = rows::<K, S>();
    assert!(block.len().is_multiple_of(streams * rows * step) && block.b.len() == block.len());
    // 1.5·2^(u+52) in each level.
    let starts = [0, 1, 2].map(|level| {
        f64::from_bits(((unit - LEVEL_BITS * level + 52 + 1023) as u64) << 52 | 1 << 51)
    });
    let [zero, start] = [0.0, starts[0]].map(|x| S::F64::splat(set, x));
    let mut accumulators = starts.map(|start| [S::F64::splat(set, start); MAX_CHAINS]);
    let mut vanished = zero;
    // Two of each, so that a flag need not wait for the one before.
    let [mut outside, mut left] = [[zero; FLAGS]; 2];
    let [mut xs, mut ys, mut rests, mut errors] = [[zero; MAX_CHAINS]; 4];
    for first in (0..stream_len).step_by(rows * step) {
        for place in (first..first + rows * step).step_by(step) {
            for chain in 0..chains {
                let in_step = chain * S::F64::LANES % step;
                let i = chain * S::F64::LANES / step * stream_len + place + in_step;
                // SAFETY: the assertion above: both arrays have whole rows, so that `i` begins a vector.
                xs[chain] =
                    S::F64::load(set, unsafe { block.a.get_unchecked(i..i + S::F64::LANES) });
                rests[chain] = xs[chain];
                let is_line = (in_step * size_of::<K::Element>()).is_multiple_of(64);
                if is_line && !BOUNDED {
                    // Past the end of a stream follows the same stream of the next block.
                    let is_next = place + ahead[0] / size_of::<K::Element>() >= stream_len;
                    let skip = if is_next { (streams - 1) * stream_len } else { 0 };
                    prefetch(block.a.as_ptr().wrapping_add(i + skip).wrapping_byte_add(ahead[0]));
                }
                if K::PRODUCTS {
                    // SAFETY: as above.
                    ys[chain] =
                        S::F64::load(set, unsafe { block.b.get_unchecked(i..i + S::F64::LANES) });
                    rests[chain] = xs[chain] * ys[chain];
                    if is_line && !BOUNDED {
                        prefetch(block.b.as_ptr().wrapping_add(i).wrapping_byte_add(ahead[1]));
                    }
                }
                if K::ERRORS {
                    errors[chain] = S::F64::multiply_subtract(xs[chain], ys[chain], rests[chain]);
                    if !BOUNDED {
                        vanished =
                            S::F64::flag_vanished(vanished, rests[chain], xs[chain], ys[chain]);
                    }
                }
            }
            // Level by level, so that the processor finds independent instructions next to each other.
            for (level, accumulators) in accumulators.iter_mut().take(levels).enumerate() {
                let is_last = level + 1 == levels;
                for chain in 0..chains {
                    let accumulator = &mut accumulators[chain];
                    if BOUNDED && is_last {
                        *accumulator = if level == 0 {
                            S::F64::multiply_add(xs[chain], ys[chain], *accumulator)
                        } else {
                            *accumulator + (rests[chain] + errors[chain])
                        };
                    } else if K::PRODUCTS && !K::ERRORS && level == 0 {
                        // The product of two f32 is exact, so that both its uses may be fused.
                        let sum = S::F64::multiply_add(xs[chain], ys[chain], *accumulator);
                        let deposited = sum - *accumulator;
                        rests[chain] = S::F64::multiply_subtract(xs[chain], ys[chain], deposited);
                        *accumulator = sum;
                    } else {
                        rests[chain] =
                            deposit(accumulator, rests[chain], is_last, &mut left[chain % FLAGS]);
                    }
                    if level == 0 {
                        let outside = &mut outside[chain % FLAGS];
                        *outside = S::F64::flag_changes(*outside, *accumulator, start);
                    }
                }
                if K::ERRORS && level > 0 && !BOUNDED {
                    for chain in 0..chains {
                        let accumulator = &mut accumulators[chain];
                        errors[chain] =
                            deposit(accumulator, errors[chain], is_last, &mut left[chain % FLAGS]);
                    }
                }
            }
        }
    }
    // The limit: an accumulator outside its range has lost bits.
    if C::GUARDS.limit && any(&outside) & (SIGN | EXPONENT) != 0 {
        return None;
    }
    // The witness: a remainder after the last level is in no sum. The sign is masked, because zeros are equal.
    if C::GUARDS.witness && !BOUNDED && any(&left) & !SIGN != 0 {
        return None;
    }
    // Zero: a product that underflowed to 0 leaves no remainder.
    if C::GUARDS.zero && !BOUNDED && any(&[vanished]) != 0 {
        return None;
    }
    let mut sums = [0_i64; MAX_LEVELS];
    for (sum, (accumulators, start)) in zip(&mut sums, zip(&accumulators, starts)).take(levels) {
        for accumulator in &accumulators[..chains] {
            for &bits in accumulator.bits().as_ref() {
                // Encodings of one binade are consecutive integers.
                let units = bits.wrapping_sub(start.to_bits()).cast_signed();
                *sum = sum.wrapping_add(units);
            }
        }
    }
    Some(sums)
}

/// Deposits a part in a level, and returns the remainder. The last level records a remainder only as bits in `left`,
/// the witness.
#[inline(always)]
fn deposit<V: Vector>(accumulator: &mut V, part: V, is_last: bool, left: &mut V) -> V {
    let sum = *accumulator + part;
    let deposited = sum - *accumulator;
    *accumulator = sum;
    if is_last {
        *left = V::flag_changes(*left, part, deposited);
        return part;
    }
    part - deposited
}

/// The bits that are set in any lane.
#[inline(always)]
fn any<V: Vector>(vectors: &[V]) -> u64 {
    let of_vector =
        |any, vector: &V| vector.bits().as_ref().iter().fold(any, |any, bits| any | bits);
    vectors.iter().fold(0, of_vector)
}
