//! Exact sums and dot products on one core, vectorised.
//!
//! crates/exact/src/window.rs describes the method and proves that it is exact: the levels of floating-point windows
//! hold sums as integers. One window holds ordinary blocks of terms, and stays the same from block to block
//! (`window.rs`). Most blocks of f32 have such similar exponents that no addition needs a test (`uniform_exponent.rs`).
//! Blocks that fit no window are added as integers, at a rate that does not depend on the data ([`Bins`]). The state's
//! normalised words are the same as after [`State::deposit`] of each term.
//!
//! Results that need no state are faster: dot products with an error bound that decides the rounding (`bounded.rs`),
//! sums of a few terms (`short_sum.rs`), and sums of rows and columns along axes (`lanes.rs`).
//! docs/explanation/exact_sums.md has a table of what each method gains.
//!
//! The arithmetic needs rounding to nearest without flush to zero: src/process/float_modes.rs sets
//! these modes around every call.

mod bounded;
mod cells;
mod lanes;
mod short_sum;
#[cfg(test)]
mod tests;
mod uniform_exponent;
mod window;

use crate::arch::Isa;
use crate::policy::cores;
pub(crate) use bounded::Bounded;
pub(crate) use cells::{BLOCK, Cells, Cellular, Cellwise, CommonUnit, Places, Split, Words};
use gpuvec_exact::{Bins, Float, Guards, LEVEL_BITS, State, Windowed};
pub(crate) use lanes::{LaneKind, LaneSums, Lanes, NoLanes, row};
use short_sum::{longest, short_sum};
use std::iter::zip;
use std::marker::PhantomData;
use std::ops::Range;
use std::slice::from_raw_parts;
use window::Window;

/// Properties of a kind of sums on which its vector code depends.
pub(crate) trait Vectorised: Windowed {
    /// The terms are products of two elements.
    const PRODUCTS: bool = Self::TERM_BITS > Self::Element::PRECISION;
    /// Each product is the sum of two f64: the rounded product and its error.
    const ERRORS: bool = Self::TERM_BITS > f64::PRECISION;
    /// The terms are f32: if the exponents of a block are similar, sums in f64 are exact without tests.
    const MAY_BE_UNIFORM: bool = !Self::PRODUCTS && <Self::Element as Float>::BITS == 32;
    /// The levels of a window, enough for terms that differ by a factor of up to 2^20.
    const LEVELS: usize = (Self::TERM_BITS as usize + 20).div_ceil(LEVEL_BITS as usize);
}

impl<K: Windowed> Vectorised for K {}

/// Pairs of elements of two arrays. A sum of one array has it as both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'a, T> {
    a: &'a [T],
    b: &'a [T],
}

impl<'a, T: Copy> Inputs<'a, T> {
    /// Pairs of elements of two arrays.
    ///
    /// # Panics
    /// If the lengths differ.
    pub(crate) fn new(a: &'a [T], b: &'a [T]) -> Self {
        assert_eq!(a.len(), b.len());
        Inputs { a, b }
    }

    pub(crate) fn a(self) -> &'a [T] {
        self.a
    }

    pub(crate) fn b(self) -> &'a [T] {
        self.b
    }

    pub(crate) fn len(self) -> usize {
        self.a.len()
    }

    /// The elements after the first `elements`.
    fn after(self, elements: usize) -> Self {
        Inputs { a: &self.a[elements..], b: &self.b[elements..] }
    }

    /// The first `elements`, or all if there are fewer.
    fn first(self, elements: usize) -> Self {
        let elements = elements.min(self.len());
        Inputs { a: &self.a[..elements], b: &self.b[..elements] }
    }
}

/// Columns of pairs: contiguous rows of one length, at any distance from each other. A sum of one array has it as both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<'a, T> {
    starts: [*const T; 2],
    /// The distance between neighbouring rows, in bytes.
    strides: [isize; 2],
    rows: usize,
    len: usize,
    lifetime: PhantomData<&'a [T]>,
}

impl<'a, T: Copy> Columns<'a, T> {
    /// The columns of `rows` rows of `len` elements.
    ///
    /// # Safety
    /// All rows are readable and aligned, and nothing changes them during the lifetime.
    pub(crate) unsafe fn new(
        starts: [*const T; 2], strides: [isize; 2], rows: usize, len: usize,
    ) -> Self {
        Columns { starts, strides, rows, len, lifetime: PhantomData }
    }

    pub(crate) fn rows(self) -> usize {
        self.rows
    }

    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Returns row `number`.
    ///
    /// # Panics
    /// If `number` is not below [`Columns::rows`].
    #[inline(always)]
    pub(crate) fn row(self, number: usize) -> Inputs<'a, T> {
        assert!(number < self.rows, "row {number} of {}", self.rows);
        let row = |i: usize| {
            let start = self.starts[i].wrapping_byte_offset(number as isize * self.strides[i]);
            // SAFETY: the caller of `new` promised that all rows are readable.
            unsafe { from_raw_parts(start, self.len) }
        };
        Inputs { a: row(0), b: row(1) }
    }

    /// The columns of a range of rows.
    ///
    /// # Panics
    /// If the range ends after the last row.
    pub(crate) fn part(self, rows: Range<usize>) -> Self {
        assert!(rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let start =
            |i: usize| self.starts[i].wrapping_byte_offset(rows.start as isize * self.strides[i]);
        Columns { starts: [start(0), start(1)], rows: rows.len(), ..self }
    }
}

/// The conditions that make sums exact. Each test leaves out one.
pub(crate) trait Conditions {
    const GUARDS: Guards;
}

pub(crate) struct All;

impl Conditions for All {
    const GUARDS: Guards = Guards::ALL;
}

/// Adds terms to a state.
// Not inlined, to keep the library small.
#[inline(never)]
pub(crate) fn accumulate<K: Vectorised, C: Conditions>(
    isa: Isa, state: &mut State<K>, mut inputs: Inputs<'_, K::Element>,
) {
    let mut window = Window::exact();
    let (mut bins, mut failed, mut skipped) = (None, 0, 0);
    while inputs.len() > 0 {
        let held = window.hold::<K, C>(isa, inputs);
        state.count(held);
        window.empty(state);
        inputs = inputs.after(held);
        let block = inputs.first(window.failed);
        if block.len() > 0 && failed != inputs.len() {
            // The window was chosen for earlier terms: choose one for this block.
            failed = inputs.len();
            window.choose_again::<K, C>(isa, block);
            skipped = if held > 0 { 0 } else { skipped };
            continue;
        }
        if skipped == 0 && block.len() > cores::FEWEST_IN_PARTS {
            // No window holds the whole block, but a window may hold most of it.
            skipped = 1;
            inputs = inputs.after(deposit_parts::<K, C>(isa, state, block));
            continue;
        }
        // The following blocks probably fit no window, either.
        let block = inputs.first((1 + skipped) * block.len());
        skipped = cores::MOST_SKIPPED.min(2 * skipped + 1);
        if block.len() > cores::FEW_DEPOSITS {
            let term = |i: usize| K::term_of(block.a[i], block.b[i]);
            bins.get_or_insert(Bins::EMPTY).deposit(state, block.len(), term);
        } else {
            deposit_each(state, block);
        }
        inputs = inputs.after(block.len());
    }
    if let Some(mut bins) = bins {
        bins.empty(state);
    }
}

/// Deposits terms one by one.
#[inline(never)]
fn deposit_each<K: Vectorised>(state: &mut State<K>, terms: Inputs<'_, K::Element>) {
    zip(terms.a, terms.b).for_each(|(&x, &y)| state.deposit(K::term_of(x, y)));
}

/// Adds a block in parts. Deposits parts that fit no window term by term, and stops after some of them. Returns the
/// number of terms added.
#[inline(never)]
fn deposit_parts<K: Vectorised, C: Conditions>(
    isa: Isa, state: &mut State<K>, block: Inputs<'_, K::Element>,
) -> usize {
    let (mut window, mut rest, mut not_held) = (Window::exact(), block, 0);
    while rest.len() > 0 && not_held < cores::MOST_UNHELD_PARTS {
        let part = rest.first(cores::UNHELD_PART);
        let held = window.hold::<K, C>(isa, part);
        state.count(held);
        window.empty(state);
        let terms = part.after(held);
        not_held += usize::from(terms.len() > 0);
        deposit_each(state, terms);
        rest = rest.after(part.len());
    }
    block.len() - rest.len()
}

/// The sum of terms, rounded once. Sums of up to some thousand ordinary terms make no state.
pub(crate) fn value<K: Vectorised, C: Conditions>(
    isa: Isa, inputs: Inputs<'_, K::Element>,
) -> K::Element {
    if inputs.len() <= longest::<K>()
        && let Some(value) = short_sum::<K>(isa, inputs)
    {
        return value;
    }
    if K::PRODUCTS && inputs.len() >= cores::BOUNDED_FROM {
        let mut sum = Bounded::<K>::ZERO;
        sum.accumulate(isa, inputs);
        if let Some(value) = sum.value() {
            return value;
        }
    }
    let mut window = Window::exact();
    // The first window is chosen for a sample, the second for all terms.
    for _ in 0..2 {
        let held = window.hold::<K, C>(isa, inputs);
        if held == inputs.len()
            && let Some(value) = window.value::<K>()
        {
            return value;
        }
        if inputs.len() > cores::ONE_WINDOW {
            break;
        }
        window = Window::exact();
        window.choose_again::<K, C>(isa, inputs);
    }
    let mut state = State::ZERO;
    accumulate::<K, C>(isa, &mut state, inputs);
    state.value()
}
