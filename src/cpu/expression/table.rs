//! Merges the tables of kernels of reductions by key into states.

use super::groups::{ErasedGroups, GroupStates};
use crate::call::{HEADER, Table, Windows};
use crate::process::memory::NoMemory;
use arrayvec::ArrayVec;
use bytemuck::cast_slice;
use gpuvec_exact::{Dot, Kind, State, Sum};
use gpuvec_expr::{Reduction, Type};
use std::ops::Range;

impl GroupStates {
    /// Merges states of the table of kernel `number`: those of the numbers `range` into these states from number 0 on.
    /// There is a kernel for each sum, in the same order.
    pub(crate) fn merge_table(
        &mut self, number: usize, table: &Table, words: &[u64], range: Range<usize>,
    ) -> Result<(), NoMemory> {
        use Reduction::{Dot as Product, Norm};
        let (states, columns) = (self.sum_mut(number), &words[HEADER..]);
        match (table.windows, table.reduction, table.ty) {
            (None, ..) => merge_folds(states, table, columns, range),
            (Some(of), Product | Norm, Type::F32) => {
                merge_sums::<Dot<f32>>(states, table, of, columns, range)
            }
            (Some(of), Product | Norm, _) => {
                merge_sums::<Dot<f64>>(states, table, of, columns, range)
            }
            (Some(of), _, Type::F32) => merge_sums::<Sum<f32>>(states, table, of, columns, range),
            (Some(of), ..) => merge_sums::<Sum<f64>>(states, table, of, columns, range),
        }
    }
}

fn merge_folds(
    states: &mut dyn ErasedGroups, table: &Table, words: &[u64], range: Range<usize>,
) -> Result<(), NoMemory> {
    // The word of no elements, which is 0 in the table.
    let none = match table.reduction {
        Reduction::Min => i64::MAX,
        Reduction::Max => i64::MIN,
        Reduction::Prod => 1,
        _ => 0,
    };
    for (state, word) in words[range].iter().enumerate().filter(|(_, word)| **word != 0) {
        let word = word.cast_signed() ^ none;
        let bits = match (table.reduction, table.ty) {
            (Reduction::Min | Reduction::Max, Type::F32) => u64::from(f32_of_key(word).to_bits()),
            (Reduction::Min | Reduction::Max, Type::F64) => f64_of_key(word).to_bits(),
            _ => word.cast_unsigned(),
        };
        states.merge_words(state, &bits.to_le_bytes())?;
    }
    Ok(())
}

/// The float of a key (crates/ptx/src/fold.rs): its bits, in the order of floats, as an integer. The least or the
/// greatest of all integers stands for NaN.
fn f32_of_key(key: i64) -> f32 {
    let bits = |key: i32| if key < 0 { key ^ i32::MAX } else { key };
    i32::try_from(key).map_or(f32::NAN, |key| f32::from_bits(bits(key).cast_unsigned()))
}

fn f64_of_key(key: i64) -> f64 {
    match key {
        i64::MIN | i64::MAX => f64::NAN,
        ..0 => f64::from_bits((key ^ i64::MAX).cast_unsigned()),
        _ => f64::from_bits(key.cast_unsigned()),
    }
}

fn merge_sums<K: Kind>(
    states: &mut dyn ErasedGroups, table: &Table, windows: Windows, words: &[u64],
    range: Range<usize>,
) -> Result<(), NoMemory> {
    let count = table.states();
    let sums = windows.count * windows.words;
    for (state, number) in range.enumerate() {
        let column = |column: usize| words[column * count + number];
        if (0..=sums).all(|number| column(number) == 0) {
            continue;
        }
        let mut sum = State::<K>::ZERO;
        for window in 0..windows.count {
            let first = window * windows.words;
            let words = (first..first + windows.words).map(column).collect();
            let exponent = windows.base + windows.width * (windows.from + window) as i32;
            add_integer(&mut sum, words, exponent);
        }
        sum.normalise();
        let mut words = *sum.words();
        let last = column(sums).cast_signed();
        if let [elements, nan, plus, minus, ..] = words.as_mut() {
            (*elements, *nan, *plus, *minus) = (last >> 3, last & 1, last >> 1 & 1, last >> 2 & 1);
        }
        let bytes: &[u8] = cast_slice(words.as_ref());
        states.merge_words(state, bytes)?;
    }
    Ok(())
}

/// The most words of a window's sum.
const MOST_WORDS: usize = 3;

/// Adds an integer of signed words, the lowest first, times 2^exponent.
fn add_integer<K: Kind>(sum: &mut State<K>, mut words: ArrayVec<u64, MOST_WORDS>, exponent: i32) {
    let is_negative = words.last().is_some_and(|last| last.cast_signed() < 0);
    let mut carry = is_negative;
    for (word, exponent) in words.iter_mut().zip((exponent..).step_by(64)) {
        if is_negative {
            (*word, carry) = (!*word).overflowing_add(carry.into());
        }
        if *word != 0 {
            // Terms have no bits below the lowest digit.
            let below = (K::LOW - exponent).max(0);
            let units = i128::from(*word >> below);
            sum.add_units(if is_negative { -units } else { units }, exponent + below);
        }
    }
}
