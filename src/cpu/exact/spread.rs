//! Terms that spread over more levels than a window has.

use super::vector::Vector;
use super::window::{TOO_LARGE, covering, highest_unit, middle, moved};
use super::{Conditions, Inputs, Vectorised};
use gpuvec_exact::{Float, LEVEL_BITS, State};

/// Terms that are taken at a time: with the errors of products, 128 for each lane of the shortest
/// accumulators, and a quarter of the nearest cache.
const PIECE: usize = 512;

/// Accumulators of a level.
const CHAINS: usize = 4;

/// Products of at least this size have an exact error term.
const EXACT_ERROR: f64 = f64::from_bits((1023 - 968) << 52);

/// Adds terms to a state. Returns the unit of a window that would have held the last of them, if windows
/// would have held all.
///
/// # Safety
/// The inputs have their elements, and the processor has the vector's instructions.
#[inline(always)]
pub(super) unsafe fn spread<K: Vectorised, C: Conditions, V: Vector>(
    state: &mut State<K>, inputs: Inputs<K::Element>,
) -> Option<i32> {
    let mut parts = [[0.0; PIECE]; 2];
    let mut unit = None;
    let mut all = true;
    for start in (0..inputs.len).step_by(PIECE) {
        let piece = inputs.after(start).first(PIECE);
        // SAFETY: the caller promises the elements and the instructions.
        unit = unsafe { spread_piece::<K, C, V>(state, piece, &mut parts) };
        all &= unit.is_some();
    }
    unit.filter(|_| all)
}

#[inline(always)]
unsafe fn spread_piece<K: Vectorised, C: Conditions, V: Vector>(
    state: &mut State<K>, piece: Inputs<K::Element>, parts: &mut [[f64; PIECE]; 2],
) -> Option<i32> {
    let mut largest = TOO_LARGE;
    if V::FUSED || !K::ERRORS {
        // SAFETY: the caller promises the elements.
        largest = unsafe { split::<K>(piece, parts) };
    }
    // NaN is not below.
    if !(largest < TOO_LARGE) {
        for i in 0..piece.len {
            // SAFETY: as above.
            let (x, y) = unsafe { (piece.a.add(i).read(), piece.b.add(i).read()) };
            state.deposit(K::term(x, y));
        }
        return None;
    }
    state.count(piece.len);
    let parts = &mut parts.as_flattened_mut()[..if K::ERRORS { 2 * PIECE } else { PIECE }];
    let window = highest_unit::<K, C>(largest);
    let mut lowest = window;
    // Fourteen levels hold all products of f32. Integers are faster for more than six, but the parts of
    // f32 are no terms of its states.
    for _ in 0..if K::Element::BITS == 32 { 14 } else { 6 } {
        if largest == 0.0 {
            break;
        }
        // Every part is a multiple of both.
        lowest = covering(largest, K::LOW.max(f64::LEAST));
        // SAFETY: the caller promises the instructions.
        let (sum, rest) = unsafe { deposit_level::<V>(lowest, parts) };
        state.add_units(sum, lowest);
        largest = rest;
    }
    if largest != 0.0 {
        parts.iter().for_each(|&part| state.add_part(part));
        return None;
    }
    Some(window).filter(|unit| lowest > unit - LEVEL_BITS * K::LEVELS as i32)
}

/// Writes the parts of the terms. Returns the size of the largest; NaN if a part may be wrong.
#[inline(always)]
unsafe fn split<K: Vectorised>(
    piece: Inputs<K::Element>, [products, errors]: &mut [[f64; PIECE]; 2],
) -> f64 {
    if piece.len < PIECE {
        products.fill(0.0);
        errors.fill(0.0);
    }
    let mut largest = 0;
    let mut inexact = false;
    // Without branches, so that it is compiled to vectors.
    for i in 0..piece.len {
        // SAFETY: the caller promises the elements.
        let (x, y): (f64, f64) =
            unsafe { (piece.a.add(i).read().into(), piece.b.add(i).read().into()) };
        let product = if K::PRODUCTS { x * y } else { x };
        products[i] = product;
        // As integers, encodings are in the order of the sizes, and NaN is the largest.
        largest = largest.max(product.abs().to_bits().cast_signed());
        if K::ERRORS {
            errors[i] = x.mul_add(y, -product);
            inexact |= (product.abs() < EXACT_ERROR) & (x != 0.0) & (y != 0.0);
        }
    }
    if inexact { f64::NAN } else { f64::from_bits(largest.cast_unsigned()) }
}

/// Deposits parts in the level with the unit 2^unit, which covers them, and leaves the rest. Returns the sum,
/// and the largest size that is left.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
unsafe fn deposit_level<V: Vector>(unit: i32, parts: &mut [f64]) -> (i64, f64) {
    // SAFETY: the caller promises the instructions.
    let [start, absolute, mut largest] =
        unsafe { [V::splat(middle(unit)), V::splat(f64::from_bits(!(1 << 63))), V::splat(0.0)] };
    let mut accumulators = [start; CHAINS];
    for row in parts.chunks_exact_mut(CHAINS * V::LANES) {
        for chain in 0..CHAINS {
            let place = row[chain * V::LANES..].as_mut_ptr();
            // SAFETY: the row has a vector for each chain.
            let part = unsafe { V::load_f64(place) };
            let sum = accumulators[chain] + part;
            let rest = part - (sum - accumulators[chain]);
            accumulators[chain] = sum;
            largest = largest.max(rest & absolute);
            // SAFETY: as above.
            unsafe { rest.store(place) };
        }
    }
    let mut sum = 0;
    for accumulator in accumulators {
        sum += moved(accumulator, middle(unit));
    }
    let mut size = 0;
    for &bits in largest.bits().as_ref() {
        size = size.max(bits);
    }
    (sum, f64::from_bits(size))
}
