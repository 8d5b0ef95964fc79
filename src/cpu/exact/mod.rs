//! The exact sums and dot products on one core, in vectors.
//!
//! The method, and why it is exact, is in src/exact/window.rs: floating-point windows, whose levels hold
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

use super::Inputs;
use crate::exact::{Bins, Float, Guards, LEVEL_BITS, State, Windowed};
use crate::process::settings::{self, Vectors};
use std::is_x86_feature_detected;
use vector::{Avx2, Avx512, Baseline};
use window::{Window, hold};

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

/// The best instructions that the processor has, and that may be used.
pub(crate) fn best() -> Vectors {
    let has_avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq");
    let has_avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    settings::vectors().min(match (has_avx512, has_avx2) {
        (true, _) => Vectors::Avx512,
        (false, true) => Vectors::Avx2,
        (false, false) => Vectors::Portable,
    })
}

/// [`hold`], compiled for the instructions.
///
/// # Safety
/// As [`hold`], with the instructions.
unsafe fn hold_in<K: Vectorised, C: Conditions>(
    vectors: Vectors, window: &mut Window, inputs: Inputs<K::Element>,
) -> usize {
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn avx512<K: Vectorised, C: Conditions>(
        window: &mut Window, inputs: Inputs<K::Element>,
    ) -> usize {
        // SAFETY: the same contract.
        unsafe { hold::<K, C, Avx512>(window, inputs) }
    }

    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2<K: Vectorised, C: Conditions>(
        window: &mut Window, inputs: Inputs<K::Element>,
    ) -> usize {
        // SAFETY: the same contract.
        unsafe { hold::<K, C, Avx2>(window, inputs) }
    }

    // SAFETY: the same contract.
    unsafe {
        match vectors {
            Vectors::Avx512 => avx512::<K, C>(window, inputs),
            Vectors::Avx2 => avx2::<K, C>(window, inputs),
            Vectors::Portable => hold::<K, C, Baseline>(window, inputs),
        }
    }
}

/// Adds terms to a state. A sum does not use `b`.
///
/// # Safety
/// The inputs have their elements.
pub(crate) unsafe fn accumulate<K: Vectorised>(state: &mut State<K>, inputs: Inputs<K::Element>) {
    // SAFETY: the caller promises the elements; the processor has the best instructions.
    unsafe { accumulate_with::<K, All>(best(), state, inputs) }
}

pub(crate) unsafe fn accumulate_with<K: Vectorised, C: Conditions>(
    vectors: Vectors, state: &mut State<K>, mut inputs: Inputs<K::Element>,
) {
    let mut window = Window::default();
    let mut bins = None;
    while inputs.len > 0 {
        // SAFETY: the caller promises the elements and the instructions.
        let held = unsafe { hold_in::<K, C>(vectors, &mut window, inputs) };
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
/// The inputs have their elements.
pub(crate) unsafe fn value<K: Vectorised>(inputs: Inputs<K::Element>) -> K::Element {
    // SAFETY: the caller promises the elements; the processor has the best instructions.
    unsafe { value_with::<K, All>(best(), inputs) }
}

pub(crate) unsafe fn value_with<K: Vectorised, C: Conditions>(
    vectors: Vectors, inputs: Inputs<K::Element>,
) -> K::Element {
    let mut window = Window::default();
    // SAFETY: the caller promises the elements and the instructions.
    let held = unsafe { hold_in::<K, C>(vectors, &mut window, inputs) };
    if held == inputs.len
        && let Some(value) = window.value::<K>()
    {
        return value;
    }
    let mut state = State::ZERO;
    // SAFETY: as above.
    unsafe { accumulate_with::<K, C>(vectors, &mut state, inputs) };
    state.value()
}
