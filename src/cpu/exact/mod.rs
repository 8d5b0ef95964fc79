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
mod vector;
mod window;

use gpuvec_exact::{Bins, Float, Guards, LEVEL_BITS, State, Windowed};
use std::is_x86_feature_detected;
use vector::{Avx2, Avx512, Baseline, Vector};
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
#[derive(Clone, Copy)]
pub(crate) struct Inputs<T> {
    pub(crate) a: *const T,
    pub(crate) b: *const T,
    pub(crate) len: usize,
}

impl<T> Inputs<T> {
    /// All but the first elements.
    fn after(self, elements: usize) -> Self {
        let [a, b] = [self.a, self.b].map(|pointer| pointer.wrapping_add(elements));
        Inputs { a, b, len: self.len - elements }
    }

    /// The first elements, or all if they are fewer.
    fn first(self, elements: usize) -> Self {
        Inputs { len: self.len.min(elements), ..self }
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

/// The sets of instructions of which there is a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    Baseline,
    Avx2,
    Avx512,
}

impl Version {
    /// The best that the processor has.
    pub(crate) fn detect() -> Self {
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        if avx512 {
            Self::Avx512
        } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            Self::Avx2
        } else {
            Self::Baseline
        }
    }

    const fn lanes(self) -> usize {
        match self {
            Self::Avx512 => Avx512::LANES,
            Self::Avx2 => Avx2::LANES,
            Self::Baseline => Baseline::LANES,
        }
    }
}

/// Adds terms to a state, in a version that the processor has.
///
/// # Safety
/// The inputs have their elements, and the processor has the version's instructions.
// Once in the library, for all its callers.
#[inline(never)]
pub(crate) unsafe fn accumulate<K: Vectorised, C: Conditions>(
    version: Version, state: &mut State<K>, mut inputs: Inputs<K::Element>,
) {
    let mut window = Window::default();
    let mut bins = None;
    while inputs.len > 0 {
        // SAFETY: the caller promises the elements and the instructions.
        let held = unsafe { window.hold::<K, C>(version, inputs) };
        state.count(held);
        window.empty(state);
        inputs = inputs.after(held);
        let block = inputs.first(window.failed);
        // SAFETY: as above.
        let term = |i| unsafe { K::term_of(block.a.add(i).read(), block.b.add(i).read()) };
        if block.len > FEW {
            bins.get_or_insert(Bins::EMPTY).deposit(state, block.len, term);
        } else {
            (0..block.len).for_each(|i| state.deposit(term(i)));
        }
        inputs = inputs.after(block.len);
    }
    if let Some(mut bins) = bins {
        bins.empty(state);
    }
}

/// The sum of terms, rounded once. A few ordinary terms make no state.
///
/// # Safety
/// As [`accumulate`].
pub(crate) unsafe fn value<K: Vectorised, C: Conditions>(
    version: Version, inputs: Inputs<K::Element>,
) -> K::Element {
    let mut window = Window::default();
    // SAFETY: the caller promises the elements and the instructions.
    let held = unsafe { window.hold::<K, C>(version, inputs) };
    if held == inputs.len
        && let Some(value) = window.value::<K>()
    {
        return value;
    }
    let mut state = State::ZERO;
    // SAFETY: as above.
    unsafe { accumulate::<K, C>(version, &mut state, inputs) };
    state.value()
}
