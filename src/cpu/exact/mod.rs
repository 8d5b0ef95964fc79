//! The exact sums and dot products on one core, in vectors.
//!
//! The method, and why it is exact, is in crates/exact/src/window.rs: floating-point windows, whose levels hold
//! sums as integers. Ordinary blocks of terms fit into one window, which stays the same from block to
//! block (`window.rs`); most blocks of f32 need no test of each sum (`plain.rs`). The other blocks are added as
//! integers, at a rate that does not depend on the data ([`Bins`]). The words of the state, normalised, are those
//! of [`State::deposit`] for each term. Sums that need no state may take less: of products within a bound
//! (`bounded.rs`), and of a few terms (`few.rs`).
//!
//! The arithmetic needs rounding to nearest without flush to zero: src/process/float_modes.rs sets
//! that around every call.

mod bounded;
mod few;
mod lanes;
mod plain;
#[cfg(test)]
mod tests;
mod window;

use crate::arch::Version;
use crate::policy::CORES;
pub(crate) use bounded::Bounded;
use few::{few, sum_of_few};
use gpuvec_exact::{Bins, Float, Guards, LEVEL_BITS, State, Windowed};
pub(crate) use lanes::{LaneSums, Laned, row};
use std::iter::zip;
use std::marker::PhantomData;
use std::ops::Range;
use std::slice::from_raw_parts;
use window::Window;

/// Terms that are deposited one by one: bins would take longer to clear and to empty.
const FEW_DEPOSITS: usize = CORES.few_deposits;

/// The terms of a part of a block that no window holds, and the most parts that are deposited term by term.
const PART: usize = CORES.unheld_part;
const MOST_PARTS: usize = CORES.most_unheld_parts;

/// The number of terms above which parts of a block are tried.
const FEWEST_IN_PARTS: usize = CORES.fewest_in_parts;

/// The most blocks that are added as integers, without trying a window, after windows failed.
const MOST_SKIPPED: usize = CORES.most_skipped;

/// The facts about a kind that its vector code depends on.
pub(crate) trait Vectorised: Windowed {
    /// The terms are products of two elements.
    const PRODUCTS: bool = Self::TERM_BITS > Self::Element::PRECISION;
    /// A product is the sum of two f64: itself rounded, and its error.
    const ERRORS: bool = Self::TERM_BITS > f64::PRECISION;
    /// The terms are f32, which their encodings alone may allow to add as they are.
    const PLAIN: bool = !Self::PRODUCTS && <Self::Element as Float>::BITS == 32;
    /// The levels of a window: they hold terms that differ by a factor of up to 2^20.
    const LEVELS: usize = (Self::TERM_BITS as usize + 20).div_ceil(LEVEL_BITS as usize);
}

impl<K: Windowed> Vectorised for K {}

/// Elements, or pairs of them; where one array is the input, it is there twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'a, T> {
    a: &'a [T],
    b: &'a [T],
}

impl<'a, T: Copy> Inputs<'a, T> {
    /// The pairs of two arrays of a length.
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

    /// All but the first elements.
    fn after(self, elements: usize) -> Self {
        Inputs { a: &self.a[elements..], b: &self.b[elements..] }
    }

    /// The first elements, or all if they are fewer.
    fn first(self, elements: usize) -> Self {
        let elements = elements.min(self.len());
        Inputs { a: &self.a[..elements], b: &self.b[..elements] }
    }
}

/// Columns of elements, or of pairs: rows of one length, at any distances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<'a, T> {
    starts: [*const T; 2],
    /// The bytes from a row to the next.
    strides: [isize; 2],
    rows: usize,
    len: usize,
    lifetime: PhantomData<&'a [T]>,
}

impl<'a, T: Copy> Columns<'a, T> {
    /// The columns of `rows` rows of `len` elements, with these bytes between rows.
    ///
    /// # Safety
    /// All rows are there, aligned as elements are; for the lifetime nothing changes them.
    pub(crate) unsafe fn new(
        starts: [*const T; 2], strides: [isize; 2], rows: usize, len: usize,
    ) -> Self {
        Columns { starts, strides, rows, len, lifetime: PhantomData }
    }

    /// The number of rows.
    pub(crate) fn rows(self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// A row.
    ///
    /// # Panics
    /// If there is none of this number.
    #[inline(always)]
    pub(crate) fn row(self, number: usize) -> Inputs<'a, T> {
        assert!(number < self.rows, "one of the rows");
        let row = |i: usize| {
            let start = self.starts[i].wrapping_byte_offset(number as isize * self.strides[i]);
            // SAFETY: `new` was promised the row.
            unsafe { from_raw_parts(start, self.len) }
        };
        Inputs { a: row(0), b: row(1) }
    }

    /// Some of the rows.
    ///
    /// # Panics
    /// If they are not there.
    pub(crate) fn part(self, rows: Range<usize>) -> Self {
        assert!(rows.end <= self.rows, "some of the rows");
        let start =
            |i: usize| self.starts[i].wrapping_byte_offset(rows.start as isize * self.strides[i]);
        Columns { starts: [start(0), start(1)], rows: rows.len(), ..self }
    }
}

/// The conditions under which sums are exact, of which tests leave out one.
pub(crate) trait Conditions {
    const GUARDS: Guards;
}

pub(crate) struct All;

impl Conditions for All {
    const GUARDS: Guards = Guards::ALL;
}

/// Adds terms to a state, in a version.
// Once in the library, for all its callers.
#[inline(never)]
pub(crate) fn accumulate<K: Vectorised, C: Conditions>(
    version: Version, state: &mut State<K>, mut inputs: Inputs<'_, K::Element>,
) {
    let mut window = Window::exact();
    let (mut bins, mut failed, mut skipped) = (None, 0, 0);
    while inputs.len() > 0 {
        let held = window.hold::<K, C>(version, inputs);
        state.count(held);
        window.empty(state);
        inputs = inputs.after(held);
        let block = inputs.first(window.failed);
        if block.len() > 0 && failed != inputs.len() {
            // The window was chosen for terms before this block.
            failed = inputs.len();
            window.choose_again::<K, C>(version, block);
            skipped = if held > 0 { 0 } else { skipped };
            continue;
        }
        if skipped == 0 && block.len() > FEWEST_IN_PARTS {
            // No window holds the block, but one may hold most of it.
            skipped = 1;
            inputs = inputs.after(deposit_parts::<K, C>(version, state, block));
            continue;
        }
        // Probably none holds those that follow.
        let block = inputs.first((1 + skipped) * block.len());
        skipped = MOST_SKIPPED.min(2 * skipped + 1);
        if block.len() > FEW_DEPOSITS {
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

/// Adds a block in parts, and those that windows do not hold term by term: a few at most. Returns the number of terms
/// that it added.
#[inline(never)]
fn deposit_parts<K: Vectorised, C: Conditions>(
    version: Version, state: &mut State<K>, block: Inputs<'_, K::Element>,
) -> usize {
    let (mut window, mut rest, mut not_held) = (Window::exact(), block, 0);
    while rest.len() > 0 && not_held < MOST_PARTS {
        let part = rest.first(PART);
        let held = window.hold::<K, C>(version, part);
        state.count(held);
        window.empty(state);
        let terms = part.after(held);
        not_held += usize::from(terms.len() > 0);
        deposit_each(state, terms);
        rest = rest.after(part.len());
    }
    block.len() - rest.len()
}

/// The number of products from which on a bounded sum costs less on average, although an exact one may have to
/// follow.
const BOUNDED_FROM: usize = CORES.bounded_from;

/// The number of terms up to which a window for all of them is tried before a state is made.
const MOST_IN_ONE_WINDOW: usize = CORES.one_window;

/// The sum of terms, rounded once. Up to some thousands of ordinary terms make no state.
pub(crate) fn value<K: Vectorised, C: Conditions>(
    version: Version, inputs: Inputs<'_, K::Element>,
) -> K::Element {
    if inputs.len() <= few::<K>()
        && let Some(value) = sum_of_few::<K>(version, inputs)
    {
        return value;
    }
    if K::PRODUCTS && inputs.len() >= BOUNDED_FROM {
        let mut sum = Bounded::<K>::ZERO;
        sum.accumulate(version, inputs);
        if let Some(value) = sum.value() {
            return value;
        }
    }
    let mut window = Window::exact();
    // The second window is chosen for all terms.
    for _ in 0..2 {
        let held = window.hold::<K, C>(version, inputs);
        if held == inputs.len()
            && let Some(value) = window.value::<K>()
        {
            return value;
        }
        if inputs.len() > MOST_IN_ONE_WINDOW {
            break;
        }
        window = Window::exact();
        window.choose_again::<K, C>(version, inputs);
    }
    let mut state = State::ZERO;
    accumulate::<K, C>(version, &mut state, inputs);
    state.value()
}
