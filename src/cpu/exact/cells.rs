//! Exact sums of groups as integers of 128 bits, as long as these hold the terms.
//!
//! All cells count in one unit, a power of two that is chosen by the first terms. A term is added as the integer that it
//! is in this unit. Terms with lower bits, or too large ones, go to the states of their groups.

use super::{Inputs, LaneKind, Vectorised};
use crate::arch::{InstructionSet, Isa, Vectorized};
use crate::cpu::expression::Groups;
use crate::process::memory;
use gpuvec_exact::{Kind, State};
use std::collections::TryReserveError;

/// The bits of an integer without its sign, and without those that the number of terms needs.
const BITS: i32 = 127 - 30;
/// The most terms of all cells, before they go to the states.
const MOST_TERMS: usize = 1 << 30;
/// The binades, at least, that the largest term may be above the largest of the first ones.
const MARGIN: i32 = 4;
/// Units are multiples of this many binades: cells of different threads mostly have the same.
const STEP: i32 = 8;
/// The greatest unit: it holds the largest finite number, and neither infinities nor NaNs.
const MOST_UNIT: i32 = 971 - (BITS - 53);
/// The terms that are split at once.
const BLOCK: usize = 256;

/// A sum as an integer of 128 bits, the low word first, and its number of terms.
type Cell = [u64; 3];

/// The sums of groups.
#[derive(Default)]
pub(crate) struct Cells {
    cells: Vec<Cell>,
    /// The unit is 2^unit.
    unit: i32,
    /// The terms of all cells since they were empty.
    terms: usize,
}

/// Terms as integers, each in two words.
struct Split {
    terms: [f64; BLOCK],
    low: [u64; BLOCK],
    high: [u64; BLOCK],
}

impl Cells {
    /// Room for a number of sums, if there is none yet.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<(), TryReserveError> {
        if self.cells.is_empty() {
            self.cells = memory::filled([0; 3], count)?;
        }
        Ok(())
    }

    /// Adds the terms of the first `count` other cells to the cells from number `first` on, and returns true, if both
    /// have the same unit or these have no terms. There is room for them.
    pub(crate) fn absorb(&mut self, first: usize, others: &Self, count: usize) -> bool {
        if self.terms == 0 {
            self.unit = others.unit;
        }
        if self.unit != others.unit || !self.has_room(others.terms) {
            return false;
        }
        for (cell, other) in self.cells[first..].iter_mut().zip(&others.cells[..count]) {
            let (low, carry) = cell[0].overflowing_add(other[0]);
            let high = cell[1].wrapping_add(other[1]).wrapping_add(carry.into());
            *cell = [low, high, cell[2] + other[2]];
        }
        self.terms += others.terms;
        true
    }

    /// True if there are no terms.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms == 0
    }

    /// The sum, in units of 2^unit, and the number of the terms of a cell.
    pub(crate) fn sum(&self, number: usize) -> (i128, i32, usize) {
        let [low, high, terms] = self.cells[number];
        let units = (u128::from(high) << 64 | u128::from(low)).cast_signed();
        (units, self.unit, terms as usize)
    }

    /// The same sum in two parts, the nearest f64 and the rest, if both are exact.
    pub(crate) fn parts(&self, number: usize) -> ([f64; 2], usize) {
        let (units, unit, terms) = self.sum(number);
        let near = units as f64;
        let rest = (units - near as i128) as f64;
        let scale = power(unit);
        ([near * scale, rest * scale], terms)
    }

    /// Removes the terms of a cell, and returns their sum as `sum`.
    pub(crate) fn take(&mut self, number: usize) -> (i128, i32, usize) {
        let sum = self.sum(number);
        self.cells[number] = [0; 3];
        sum
    }

    /// True if the parts of every sum are normal numbers or zero.
    pub(crate) fn has_parts(&self) -> bool {
        (-1022..1023 - 128).contains(&self.unit)
    }

    /// Removes the terms of all cells.
    pub(crate) fn clear(&mut self) {
        if self.terms > 0 {
            self.cells.fill([0; 3]);
            self.terms = 0;
        }
    }

    /// True if there is room for more terms.
    pub(crate) fn has_room(&self, terms: usize) -> bool {
        self.terms + terms <= MOST_TERMS
    }

    /// Adds each term to the cell of its key; calls `rest` with the places of terms that the cells do not hold.
    pub(crate) fn add<K: Cellular>(
        &mut self, isa: Isa, inputs: Inputs<'_, K::Element>, groups: Groups, keys: &[i64],
        mut rest: impl FnMut(usize),
    ) {
        let mut split = Split { terms: [0.0; BLOCK], low: [0; BLOCK], high: [0; BLOCK] };
        for start in (0..inputs.len()).step_by(BLOCK) {
            let len = BLOCK.min(inputs.len() - start);
            let (block, keys) = (inputs.part(start, len), &keys[start..start + len]);
            if self.terms == 0 {
                let Some(top) = top::<K>(block) else {
                    (start..start + len).for_each(&mut rest);
                    continue;
                };
                let above = top + MARGIN;
                self.unit = (above + (-above).rem_euclid(STEP) - BITS).clamp(K::LOW, MOST_UNIT);
            }
            let count = groups.count as u64;
            let (unit, into) = (self.unit, &mut split);
            let all_fit = isa.run(Splitting::<K> { inputs: block, keys, count, unit, into });
            let integers = || split.low.iter().zip(&split.high);
            if all_fit && groups.step == 0 {
                let cells = &mut self.cells[groups.first..][..groups.count];
                for (key, (low, high)) in keys.iter().zip(integers()) {
                    add(&mut cells[*key as usize], *low, *high);
                }
            } else {
                for (i, (low, high)) in integers().enumerate().take(len) {
                    match groups.state(start + i, keys[i]) {
                        Some(number) if fits(K::term(block.a()[i], block.b()[i]), self.unit) => {
                            add(&mut self.cells[number], *low, *high);
                        }
                        _ => rest(start + i),
                    }
                }
            }
            self.terms += len;
        }
    }
}

/// Adds an integer of two words, one term, to a cell.
#[inline(always)]
fn add(cell: &mut Cell, low: u64, high: u64) {
    let (low, carry) = cell[0].overflowing_add(low);
    *cell = [low, cell[1].wrapping_add(high).wrapping_add(carry.into()), cell[2] + 1];
}

/// Kinds of sums whose terms are f64.
pub(crate) trait Cellular: Vectorised {
    /// True if terms are f64.
    const HAS_TERMS: bool;
    /// The term of an element or of a pair, exactly.
    fn term(a: Self::Element, b: Self::Element) -> f64;
}

impl<K: LaneKind> Cellular for K {
    const HAS_TERMS: bool = true;

    #[inline(always)]
    fn term(a: Self::Element, b: Self::Element) -> f64 {
        let (a, b): (f64, f64) = (a.into(), b.into());
        if K::PRODUCTS { a * b } else { a }
    }
}

impl Cellular for gpuvec_exact::Dot<f64> {
    const HAS_TERMS: bool = false;

    fn term(_: f64, _: f64) -> f64 {
        unreachable!("products of f64 are not f64")
    }
}

/// The exponent above the largest finite term.
fn top<K: Cellular>(inputs: Inputs<'_, K::Element>) -> Option<i32> {
    let terms = inputs.a().iter().zip(inputs.b()).map(|(a, b)| K::term(*a, *b));
    let finite = terms.filter(|term| term.is_finite() && *term != 0.0);
    finite.map(|term| exponent(term) + 53).max()
}

/// The exponent of a term's last bit.
#[inline(always)]
fn exponent(term: f64) -> i32 {
    ((term.to_bits() >> 52 & 0x7FF) as i32).max(1) - 1075
}

/// True if a term is an integer in a unit, of at most [`BITS`].
#[inline(always)]
fn fits(term: f64, unit: i32) -> bool {
    term == 0.0 || ((exponent(term) - unit) as u32) <= (BITS - 53) as u32
}

fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Splits terms into words.
struct Splitting<'a, K: Kind> {
    inputs: Inputs<'a, K::Element>,
    keys: &'a [i64],
    count: u64,
    unit: i32,
    into: &'a mut Split,
}

impl<K: Cellular> Vectorized for Splitting<'_, K> {
    /// True if cells hold all terms, and all keys are in the groups.
    type Result = bool;

    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) -> bool {
        let Splitting { inputs, unit, into: Split { terms, low, high }, .. } = self;
        for ((a, b), term) in inputs.a().iter().zip(inputs.b()).zip(&mut *terms) {
            *term = K::term(*a, *b);
        }
        terms[inputs.len()..].fill(0.0);
        // Vectors of integers: no branches, and a constant number of terms.
        let lowest = i64::from(unit) + 1075;
        let mut unfit = 0;
        for i in 0..BLOCK {
            let bits = terms[i].to_bits();
            let stored = bits >> 52 & 0x7FF;
            let is_normal = u64::from(stored != 0);
            let magnitude = bits & ((1 << 52) - 1) | is_normal << 52;
            let shift = (stored + 1 - is_normal).wrapping_sub(lowest.cast_unsigned());
            unfit |= u64::from(shift > (BITS - 53) as u64) & u64::from(magnitude != 0);
            let lower = magnitude.unbounded_shl(shift as u32);
            let upper = magnitude.unbounded_shr(64_u64.wrapping_sub(shift) as u32);
            let sign = (bits.cast_signed() >> 63).cast_unsigned();
            low[i] = (lower ^ sign).wrapping_sub(sign);
            high[i] = (upper ^ sign).wrapping_add(sign & u64::from(lower == 0));
        }
        let all = unfit == 0;
        self.keys.iter().fold(all, |all, key| all & ((*key as u64) < self.count))
    }
}

/// A state that takes over the terms of a cell.
pub(crate) fn move_to<K: Kind>(state: &mut State<K>, (units, unit, terms): (i128, i32, usize)) {
    state.add_units(units, unit);
    state.count(terms);
}
