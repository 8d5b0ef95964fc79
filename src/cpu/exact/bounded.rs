//! Sums of products with an error bound. Such a sum has a few words; the state of an exact sum has up to 138.

use super::window::Window;
use super::{Inputs, Isa, Vectorised};
use gpuvec_exact::{Float, State, power, round_units};
use std::marker::PhantomData;

/// The greatest error of a term, in units of the window's lowest level.
const UNITS_A_TERM: f64 = 0.51;

/// A sum of products with a bound of its error.
#[derive(Clone, Copy)]
pub(crate) struct Bounded<K> {
    /// The sum in units of 2^unit. It is 0 as long as `unit` is `None`.
    sum: i128,
    unit: Option<i32>,
    /// The bound, without the rounding errors of its own computation.
    bound: f64,
    elements: usize,
    /// The unit of the window for the preceding terms.
    window: Option<i32>,
    /// The terms differ too much in magnitude: the other fields are meaningless.
    is_lost: bool,
    kind: PhantomData<K>,
}

impl<K: Vectorised> Bounded<K> {
    /// The sum of no products.
    pub(crate) const ZERO: Self = Bounded {
        sum: 0,
        unit: None,
        bound: 0.0,
        elements: 0,
        window: None,
        is_lost: false,
        kind: PhantomData,
    };

    /// Adds products.
    // Not inlined, to keep the library small.
    #[inline(never)]
    pub(crate) fn accumulate(&mut self, isa: Isa, mut inputs: Inputs<'_, K::Element>) {
        self.is_lost |= K::ERRORS && !isa.has_fma();
        let mut window = Window::bounded(self.window);
        let mut failed = 0;
        while inputs.len() > 0 && !self.is_lost {
            let held = window.hold::<K, super::All>(isa, inputs);
            if let Some((sum, unit)) = window.take::<K>() {
                self.add(sum, unit);
                self.bound += held as f64 * UNITS_A_TERM * power(unit);
            }
            inputs = inputs.after(held);
            self.elements += held;
            // The window was chosen for this block and does not hold it, so no window does.
            self.is_lost |= window.failed > 0 && failed == inputs.len();
            failed = inputs.len();
            if window.failed > 0 {
                window.choose_again::<K, super::All>(isa, inputs.first(window.failed));
            }
        }
        self.window = window.unit;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if let Some(unit) = other.unit {
            self.add(other.sum, unit);
        }
        self.bound += other.bound;
        self.elements += other.elements;
        self.is_lost |= other.is_lost;
    }

    /// Adds units of 2^unit.
    fn add(&mut self, sum: i128, unit: i32) {
        let lowest = self.unit.map_or(unit, |before| before.min(unit));
        let sums = [(self.sum, self.unit.unwrap_or(unit)), (sum, unit)];
        let mut total = Some(0_i128);
        for (sum, unit) in sums {
            let places = (unit - lowest).cast_unsigned();
            let is_held = sum == 0 || places + 2 < sum.unsigned_abs().leading_zeros();
            let shifted = is_held.then(|| sum.wrapping_shl(places));
            total = total.zip(shifted).and_then(|(total, sum)| total.checked_add(sum));
        }
        self.is_lost |= total.is_none();
        self.sum = total.unwrap_or(0);
        self.unit = Some(lowest);
    }

    /// The least and the greatest possible value of the exact sum in units of 2^unit, and `unit`.
    fn units(&self) -> Option<([i128; 2], i32)> {
        let unit = self.unit.filter(|_| !self.is_lost)?;
        // A millionth more, for the bound's own rounding errors.
        let bound = (self.bound / power(unit) * (1.0 + 1e-6)) as i128 + 1;
        Some(([self.sum.checked_sub(bound)?, self.sum.checked_add(bound)?], unit))
    }

    /// The least and the greatest possible value of the exact sum, as states.
    pub(crate) fn ends(&self) -> Option<[State<K>; 2]> {
        let (ends, unit) = self.units()?;
        Some(ends.map(|units| {
            let mut state = State::ZERO;
            state.count(self.elements);
            state.add_units(units, unit);
            state
        }))
    }

    /// The exact sum, rounded once; `None` if the bound does not decide the rounding.
    pub(super) fn value(&self) -> Option<K::Element> {
        let (ends, unit) = self.units()?;
        let [least, most] = ends.map(|units| round_units::<K::Element>(units, unit));
        (least.encoding() == most.encoding()).then_some(least)
    }
}
