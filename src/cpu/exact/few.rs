//! Sums of a few terms, which begin and end faster than a window.

use super::{Inputs, Vectorised};
use crate::arch::{Set, Vectorized, Version, stay_a_loop};
use gpuvec_exact::Float;
use std::iter::zip;

/// The most terms.
pub(super) const fn few<K: Vectorised>() -> usize {
    if is_f64::<K>() { 16 } else { 32 }
}

const fn is_f64<K: Vectorised>() -> bool {
    K::Element::PRECISION == f64::PRECISION
}

/// The sum of terms, rounded once, if a bound of its error leaves no doubt about that.
pub(super) fn sum_of_few<K: Vectorised>(
    version: Version, terms: Inputs<'_, K::Element>,
) -> Option<K::Element> {
    match K::ERRORS {
        false => Version::BASELINE.run(SumOfFew::<K>(terms)),
        true if version.has_fma() => version.run_as_short(SumOfFew::<K>(terms)),
        true => None,
    }
}

struct SumOfFew<'a, K: Vectorised>(Inputs<'a, K::Element>);

impl<K: Vectorised> Vectorized for SumOfFew<'_, K> {
    type Result = Option<K::Element>;

    /// Adds the terms in f64: of f64 also what these additions and the products leave out (Ogita, Rump and Oishi,
    /// "Accurate sum and dot product", 2005, section 3). The exact sum differs from the last of these sums, to which
    /// in f64 `sum` is added, by at most `lost`, but for its roundings.
    #[inline(always)]
    fn run<S: Set>(self, _: S) -> Self::Result {
        /// The error of a product that is less may underflow.
        const LEAST_PRODUCT: f64 = f64::from_bits((1023 - 968) << 52);
        let is_f64 = const { is_f64::<K>() };
        let (mut sum, mut rest, mut lost) = (0.0, 0.0, 0.0);
        for (&x, &y) in zip(self.0.a, self.0.b) {
            let (x, y): (f64, f64) = (x.into(), y.into());
            let term = if K::PRODUCTS { x * y } else { x };
            let left = add(&mut sum, term);
            lost += if is_f64 { add(&mut rest, left) } else { left }.abs();
            if K::ERRORS {
                lost += add(&mut rest, x.mul_add(y, -term)).abs();
                let may_underflow = term.abs() < LEAST_PRODUCT && x != 0.0 && y != 0.0;
                lost += if may_underflow { f64::MIN_POSITIVE } else { 0.0 };
            }
            stay_a_loop();
        }
        let last = if is_f64 { rest } else { sum };
        // Twice as much as is lost, for the roundings of that, and the rounding of the ends.
        let bound = if lost == 0.0 { 0.0 } else { 2.0 * lost + last.abs() * f64::EPSILON };
        let [least, most] = [last - bound, last + bound]
            .map(|end| K::Element::nearest(if is_f64 { sum + end } else { end }));
        // Not a NaN, nor a zero whose sign the bound leaves open.
        let is_sure = least.into() == most.into() && least.encoding() == most.encoding();
        is_sure.then_some(least)
    }
}

/// Adds a term, and returns what the rounded sum leaves out: exactly that, if the sum is finite.
#[inline(always)]
fn add(sum: &mut f64, term: f64) -> f64 {
    let before = *sum;
    *sum += term;
    let added = *sum - before;
    (before - (*sum - added)) + (term - added)
}
