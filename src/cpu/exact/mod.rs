//! The exact sums and dot products on one core, in vectors.
//!
//! The method, and why it is exact, is in crates/exact/src/window.rs: floating-point windows, whose levels hold
//! sums as integers. Ordinary blocks of terms fit into one window, which stays the same from block to
//! block (`window.rs`). The others are added as integers, at a rate that does not depend on the data
//! ([`Bins`]). The words of the state, normalised, are those of [`State::deposit`] for each term.
//!
//! The arithmetic needs rounding to nearest without flush to zero: src/process/float_modes.rs sets
//! that around every call.

#[cfg(test)]
mod tests;
mod window;

use super::x86_64::Version;
use gpuvec_exact::{Bins, Float, Guards, LEVEL_BITS, State, Windowed};
use window::Window;

/// Terms that are deposited one by one: bins would take longer to clear and to empty.
const FEW: usize = 128;

/// The facts about a kind that its vector code depends on.
pub(crate) trait Vectorised: Windowed {
    /// The terms are products of two elements.
    const PRODUCTS: bool = Self::TERM_BITS > Self::Element::PRECISION;
    /// A product is the sum of two f64: itself rounded, and its error.
    const ERRORS: bool = Self::TERM_BITS > f64::PRECISION;
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

/// The conditions under which sums are exact, of which tests leave out one.
pub(crate) trait Conditions {
    const GUARDS: Guards;
}

pub(crate) struct All;

impl Conditions for All {
    const GUARDS: Guards = Guards::ALL;
}

/// The sum of products that err by less than a bound.
#[derive(Clone, Copy)]
pub(crate) struct Bounded<K: Vectorised> {
    state: State<K>,
    /// The bound, but for the roundings of its own sum.
    bound: f64,
}

impl<K: Vectorised> Bounded<K> {
    /// The sum of no products.
    pub(crate) const ZERO: Self = Bounded { state: State::ZERO, bound: 0.0 };

    /// Adds products, in a version.
    pub(crate) fn accumulate(&mut self, version: Version, inputs: Inputs<'_, K::Element>) {
        self.bound += add::<K, All>(version, &mut self.state, inputs, true);
    }

    /// Adds the products of another sum.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.state.merge(&other.state);
        self.bound += other.bound;
    }

    /// The least and the greatest that the exact sum may be.
    pub(crate) fn ends(&self) -> [State<K>; 2] {
        // A millionth more than the bound, for its roundings.
        let (units, exponent) = parts(self.bound);
        let units = (units + (units >> 20) + 1) >> (K::LOW - exponent).max(0);
        [-units - 1, units + 1].map(|units| {
            let mut state = self.state;
            state.add_units(units, exponent.max(K::LOW));
            state
        })
    }
}

/// Adds terms to a state, in a version.
pub(crate) fn accumulate<K: Vectorised, C: Conditions>(
    version: Version, state: &mut State<K>, inputs: Inputs<'_, K::Element>,
) {
    add::<K, C>(version, state, inputs, false);
}

/// A finite number as units of 2^exponent.
fn parts(x: f64) -> (i64, i32) {
    let (fraction, exponent) = (x.to_bits() & ((1 << 52) - 1), (x.to_bits() >> 52) as i32);
    if exponent == 0 {
        (fraction as i64, -1074)
    } else {
        ((1 << 52 | fraction) as i64, exponent - 1075)
    }
}

/// Adds terms to a state. Returns the bound of their error, if the sum may have one.
// Once in the library, for all its callers.
#[inline(never)]
fn add<K: Vectorised, C: Conditions>(
    version: Version, state: &mut State<K>, mut inputs: Inputs<'_, K::Element>, is_bounded: bool,
) -> f64 {
    let mut window = Window::new(is_bounded);
    let (mut bins, mut bound) = (None, 0.0);
    while inputs.len() > 0 {
        let held = window.hold::<K, C>(version, inputs);
        state.count(held);
        if is_bounded {
            bound += held as f64 * UNITS_A_TERM * window.lowest_unit::<K>();
        }
        window.empty(state);
        inputs = inputs.after(held);
        let block = inputs.first(window.failed);
        let term = |i: usize| K::term_of(block.a[i], block.b[i]);
        if block.len() > FEW {
            bins.get_or_insert(Bins::EMPTY).deposit(state, block.len(), term);
        } else {
            (0..block.len()).for_each(|i| state.deposit(term(i)));
        }
        inputs = inputs.after(block.len());
    }
    if let Some(mut bins) = bins {
        bins.empty(state);
    }
    bound
}

/// The most that a term of a bounded sum errs by, in units of the window's lowest level.
const UNITS_A_TERM: f64 = 0.51;

/// Products of which a second pass over all, where the first leaves doubts, costs less on average than exact sums
/// at once.
const BOUNDED_FROM: usize = 1 << 10;

/// The sum of products, rounded once, if one window holds all, and the bound leaves no doubt.
fn bounded_value<K: Vectorised>(
    version: Version, inputs: Inputs<'_, K::Element>,
) -> Option<K::Element> {
    let mut window = Window::new(true);
    if window.hold::<K, All>(version, inputs) < inputs.len() {
        return None;
    }
    let units = (inputs.len() as f64 * UNITS_A_TERM) as i64 + 1;
    let [least, most] = [-units, units].map(|units| window.value::<K>(units));
    let is_sure = least.map(Float::encoding) == most.map(Float::encoding);
    least.filter(|_| is_sure)
}

/// The sum of terms, rounded once. A few ordinary terms make no state.
pub(crate) fn value<K: Vectorised, C: Conditions>(
    version: Version, inputs: Inputs<'_, K::Element>,
) -> K::Element {
    if K::PRODUCTS
        && inputs.len() >= BOUNDED_FROM
        && let Some(value) = bounded_value::<K>(version, inputs)
    {
        return value;
    }
    let mut window = Window::new(false);
    let held = window.hold::<K, C>(version, inputs);
    if held == inputs.len()
        && let Some(value) = window.value::<K>(0)
    {
        return value;
    }
    let mut state = State::ZERO;
    accumulate::<K, C>(version, &mut state, inputs);
    state.value()
}
