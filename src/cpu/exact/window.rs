//! Blocks of terms that one window holds.

use super::vector::{Element, Vector};
use super::{Conditions, Inputs, Vectorised};
use gpuvec_exact::{LEVEL_BITS, State};
use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::mem::size_of;

/// Parts of terms that an accumulator takes before its sum is read.
const DEPOSITS: usize = 1 << 7;

/// A level takes parts of at most 2^(u + REACH), if its unit is 2^u.
const REACH: i32 = 44;

/// The most levels of a window.
const MAX_LEVELS: usize = 3;

/// Blocks of which the sums of a level stay below 2^63: a block has at most 2^5 accumulators, each of
/// which moves by at most 2^51 units. (The last two blocks are the end of the array.)
const MAX_BLOCKS: usize = 1 << 6;

/// Elements among which the largest gives the first window.
const SAMPLE: usize = 128;

/// How far ahead the loops prefetch, in bytes. The second array's is farther, so that two arrays at the
/// same page offset do not ask for the same sets of the cache concurrently.
const AHEAD: [usize; 2] = [2 << 10, 3 << 10];

const SIGN: u64 = 1 << 63;
const EXPONENT: u64 = 0x7FF << 52;

/// Sums in the levels of a window, of which the highest has the unit 2^unit.
#[derive(Default)]
pub(super) struct Window {
    pub(super) unit: Option<i32>,
    pub(super) sums: [i64; MAX_LEVELS],
    /// Terms of the block that did not fit, or 0.
    pub(super) failed: usize,
}

impl Window {
    /// Adds the sums to a state.
    pub(super) fn flush<K: Vectorised>(&mut self, state: &mut State<K>) {
        if let Some(unit) = self.unit {
            state.add_window(&self.sums[..K::LEVELS], unit);
        }
        self.sums = [0; MAX_LEVELS];
    }
}

/// The number in the middle of the range of an accumulator: 1.5·2^(unit + 52).
#[inline(always)]
pub(super) fn middle(unit: i32) -> f64 {
    f64::from_bits(((unit + 52 + 1023) as u64) << 52 | 1 << 51)
}

/// The unit of the lowest level, at least 2^floor, that takes parts up to a size.
#[inline(always)]
pub(super) fn covering(largest: f64, floor: i32) -> i32 {
    // Every part is below 2^exponent.
    let exponent = (largest.to_bits() >> 52) as i32 - 1022;
    (exponent - REACH).max(floor)
}

/// The unit of the highest level of a window that takes terms up to a size.
#[inline(always)]
pub(super) fn highest_unit<K: Vectorised, C: Conditions>(largest: f64) -> i32 {
    // The floor: a product below 2^−968, of which the error may be wrong, is not a multiple of the lowest
    // unit, so that something is left.
    let floor = if C::GUARDS.floor { K::FLOOR } else { K::FLOOR.min(-1074) };
    covering(largest, floor + LEVEL_BITS * (K::LEVELS as i32 - 1))
}

/// The largest size below which covering levels exist: their accumulators are below 2^1023.
pub(super) const TOO_LARGE: f64 = f64::from_bits((1014 + 1023) << 52);

/// Adds blocks of terms to the window, which is chosen first if it has no unit. Returns the number of
/// terms. It is smaller than all if a block does not fit, or after [`MAX_BLOCKS`] blocks.
///
/// # Safety
/// The inputs have their elements, and the processor has the vector's instructions.
#[inline(always)]
pub(super) unsafe fn sum_in_window<K: Vectorised, C: Conditions, V: Vector>(
    window: &mut Window, inputs: Inputs<K::Element>,
) -> usize {
    // Without products' errors all is added as integers.
    window.failed = inputs.len;
    if K::ERRORS && !V::FUSED {
        return 0;
    }
    let unit = match window.unit {
        Some(unit) => unit,
        None => {
            // SAFETY: the caller promises the elements.
            let largest = unsafe { largest::<K>(inputs.first(SAMPLE)) };
            // NaN is not below.
            if !(largest < TOO_LARGE) {
                window.failed = inputs.first(SAMPLE).len;
                return 0;
            }
            highest_unit::<K, C>(largest)
        }
    };
    window.unit = Some(unit);
    let width = chains::<K>() * V::LANES;
    let mut end = [[K::Element::ZERO; 32]; 2];
    let mut done = 0;
    for _ in 0..MAX_BLOCKS {
        let block = inputs.after(done).first(rows::<K>() * width);
        window.failed = block.len - block.len % width;
        let mut whole = block.first(window.failed);
        if whole.len == 0 {
            // The last terms, with zeros after them.
            window.failed = block.len;
            for (end, from) in end.iter_mut().zip([block.a, block.b]) {
                // SAFETY: the caller promises the elements, which are fewer than a row.
                unsafe { end.as_mut_ptr().copy_from_nonoverlapping(from, block.len) };
            }
            whole = Inputs { a: end[0].as_ptr(), b: end[1].as_ptr(), len: width };
        }
        // SAFETY: the caller promises the elements and the instructions.
        let Some(sums) = (unsafe { sums::<K, C, V>(unit, whole) }) else { return done };
        for level in 0..K::LEVELS {
            window.sums[level] += sums[level];
        }
        done += window.failed;
        if done == inputs.len {
            break;
        }
    }
    window.failed = 0;
    done
}

/// The size of the largest term; NaN or infinite if one is.
#[inline(always)]
unsafe fn largest<K: Vectorised>(inputs: Inputs<K::Element>) -> f64 {
    let mut largest = 0;
    for i in 0..inputs.len {
        // SAFETY: the caller promises the elements.
        let (x, y) = unsafe { (inputs.a.add(i).read().into(), inputs.b.add(i).read().into()) };
        let term: f64 = if K::PRODUCTS { x * y } else { x };
        // As integers, encodings are in the order of the sizes, and NaN is the largest.
        largest = largest.max((term.to_bits() & !SIGN).cast_signed());
    }
    f64::from_bits(largest.cast_unsigned())
}

/// Accumulators of a level, so that additions do not wait for each other: fewer where there is
/// more to do for each.
#[inline(always)]
pub(super) const fn chains<K: Vectorised>() -> usize {
    if K::ERRORS { 2 } else { 4 }
}

/// The most rows of a block, of which each has a vector for each chain.
#[inline(always)]
const fn rows<K: Vectorised>() -> usize {
    if K::ERRORS { DEPOSITS / 2 } else { DEPOSITS }
}

/// The sums of a block's terms in the levels of a window, if it holds them.
///
/// Differs from src/exact/window.rs in two points, which save instructions:
///
/// * The limit is not one of the terms, but of the highest accumulator, which must stay in [2^(u+52),
///   2^(u+53)) after every deposit of r. There t and a are multiples of 2^u with |t − a| < 2^(u+52) ≤ |a|,
///   so that q and r − q are exact and |r − q| ≤ 2^(u−1). NaN and infinities are outside, too.
/// * The error of a product is no part of the highest level: its size is at most 2^−53 of the product's,
///   which is below 2^(u+52), and so within the reach of the second.
///
/// # Safety
/// As [`sum_in_window`]; the block has whole rows.
#[inline(always)]
unsafe fn sums<K: Vectorised, C: Conditions, V: Vector>(
    unit: i32, block: Inputs<K::Element>,
) -> Option<[i64; MAX_LEVELS]> {
    let chains = chains::<K>();
    // One array alone is read as two halves, so that the processor fetches two streams.
    let in_stream = if K::PRODUCTS { chains } else { chains / 2 };
    let rows = block.len / (chains * V::LANES);
    // SAFETY: the caller promises the instructions.
    let splat = |x: f64| unsafe { V::splat(x) };
    let starts: [f64; MAX_LEVELS] =
        [middle(unit), middle(unit - LEVEL_BITS), middle(unit - 2 * LEVEL_BITS)];
    let start = splat(starts[0]);
    let absolute = splat(f64::from_bits(!SIGN));
    let mut accumulators = starts.map(|start| [splat(start); 4]);
    let mut outside = splat(0.0);
    let mut left = splat(0.0);
    let mut smallest = splat(1.0);
    let [mut rests, mut errors, mut xs, mut ys] = [[splat(0.0); 4]; 4];
    let half = if K::PRODUCTS { 0 } else { block.len / 2 * size_of::<K::Element>() };
    for row in 0..rows {
        // Past the end of a half follows the same half of the next block.
        let place = row * in_stream * V::LANES * size_of::<K::Element>();
        let jump = if place + AHEAD[0] < half { 0 } else { half };
        for chain in 0..chains {
            let in_row = chain % in_stream;
            let i = (chain / in_stream * rows * in_stream + row * in_stream + in_row) * V::LANES;
            // SAFETY: the caller promises the elements, of which i begins a vector.
            let x = unsafe { K::Element::load::<V>(block.a.add(i)) };
            let y = if K::PRODUCTS {
                // SAFETY: as above.
                unsafe { K::Element::load::<V>(block.b.add(i)) }
            } else {
                x
            };
            if in_row * V::LANES * size_of::<K::Element>() % 64 == 0 {
                for (pointer, ahead) in
                    [block.a, block.b].into_iter().zip(AHEAD).take(if K::PRODUCTS { 2 } else { 1 })
                {
                    let line = pointer.wrapping_add(i).wrapping_byte_add(ahead + jump);
                    // SAFETY: a prefetch of any address does nothing but take time.
                    unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
                }
            }
            (xs[chain], ys[chain]) = (x, if K::PRODUCTS { y } else { splat(1.0) });
            rests[chain] = if K::PRODUCTS { x * y } else { x };
            if K::ERRORS {
                errors[chain] = V::multiply_subtract(x, y, rests[chain]);
                smallest = smallest.min(rests[chain] & absolute);
            }
        }
        // Level by level, so that the processor finds independent instructions next to each other.
        for level in 0..K::LEVELS {
            let last = level + 1 == K::LEVELS;
            for chain in 0..chains {
                let accumulator = &mut accumulators[level][chain];
                if level == 0 && K::PRODUCTS && !K::ERRORS {
                    let sum = V::multiply_add(xs[chain], ys[chain], *accumulator);
                    let deposited = sum - *accumulator;
                    *accumulator = sum;
                    if last {
                        left = left | (xs[chain] ^ deposited);
                    } else {
                        rests[chain] = V::multiply_subtract(xs[chain], ys[chain], deposited);
                    }
                } else {
                    rests[chain] = deposit(accumulator, rests[chain], last, &mut left);
                }
                if level == 0 {
                    outside = outside | (*accumulator ^ start);
                }
            }
            if K::ERRORS && level > 0 {
                for chain in 0..chains {
                    let accumulator = &mut accumulators[level][chain];
                    errors[chain] = deposit(accumulator, errors[chain], last, &mut left);
                }
            }
        }
    }
    // The limit: a sum beyond the accumulator's range has lost bits.
    if C::GUARDS.limit && any(outside) & (SIGN | EXPONENT) != 0 {
        return None;
    }
    // The witness: what is left after the last level is in no sum. Zeros of either sign are equal.
    if C::GUARDS.witness && any(left) & !SIGN != 0 {
        return None;
    }
    // Zero: a product of numbers that are not 0 may be 0, and leaves nothing.
    if K::ERRORS && C::GUARDS.zero && smallest.bits().as_ref().contains(&0) {
        // SAFETY: as above.
        if unsafe { vanishes::<K>(block) } {
            return None;
        }
    }
    let mut sums = [0; MAX_LEVELS];
    for level in 0..K::LEVELS {
        for chain in 0..chains {
            sums[level] += moved(accumulators[level][chain], starts[level]);
        }
    }
    Some(sums)
}

/// Adds a part to an accumulator, and returns the rest; after the last level only whether there is one,
/// in bits of `left`.
#[inline(always)]
fn deposit<V: Vector>(accumulator: &mut V, part: V, last: bool, left: &mut V) -> V {
    let sum = *accumulator + part;
    let deposited = sum - *accumulator;
    *accumulator = sum;
    if last {
        *left = *left | (part ^ deposited);
        part
    } else {
        part - deposited
    }
}

/// The units by which the lanes of an accumulator moved: floats of one binade are numbered by
/// their encodings.
#[inline(always)]
pub(super) fn moved<V: Vector>(accumulator: V, start: f64) -> i64 {
    let mut sum = 0_i64;
    for &bits in accumulator.bits().as_ref() {
        sum = sum.wrapping_add(bits.wrapping_sub(start.to_bits()).cast_signed());
    }
    sum
}

/// The bits that are set in any lane.
#[inline(always)]
fn any<V: Vector>(vector: V) -> u64 {
    let mut any = 0;
    for bits in vector.bits().as_ref() {
        any |= bits;
    }
    any
}

/// Checks if a product is 0 of which no factor is.
#[inline(always)]
unsafe fn vanishes<K: Vectorised>(block: Inputs<K::Element>) -> bool {
    let mut vanishes = false;
    for i in 0..block.len {
        // SAFETY: the caller promises the elements.
        let (x, y): (f64, f64) =
            unsafe { (block.a.add(i).read().into(), block.b.add(i).read().into()) };
        // Without branches, so that it is compiled to vectors.
        vanishes |= (x * y == 0.0) & (x != 0.0) & (y != 0.0);
    }
    vanishes
}
