//! Sums of a few terms by error-free additions, which need no setup, as a window does.

use super::{Inputs, Vectorised};
use crate::arch::{InstructionSet, Isa, Vectorized, stay_a_loop};
use gpuvec_exact::Float;
use std::iter::zip;

/// The most terms of a short sum.
pub(super) const fn longest<K: Vectorised>() -> usize {
    if is_f64::<K>() { 16 } else { 32 }
}

const fn is_f64<K: Vectorised>() -> bool {
    K::Element::PRECISION == f64::PRECISION
}

/// The sum of terms, rounded once; `None` if the error bound does not decide the rounding.
pub(super) fn short_sum<K: Vectorised>(
    isa: Isa, terms: Inputs<'_, K::Element>,
) -> Option<K::Element> {
    match K::ERRORS {
        false => Isa::BASELINE.run(ShortSum::<K>(terms)),
        true if isa.has_fma() => isa.run_as_short(ShortSum::<K>(terms)),
        true => None,
    }
}

struct ShortSum<'a, K: Vectorised>(Inputs<'a, K::Element>);

impl<K: Vectorised> Vectorized for ShortSum<'_, K> {
    type Result = Option<K::Element>;

    /// Adds the terms in f64. Terms of f64 also have their rounding errors and the products' errors added up, in `rest`
    /// (Ogita, Rump and Oishi, "Accurate sum and dot product", 2005, section 3). The exact sum differs from `sum` for
    /// f32, or from `sum + rest` for f64, by at most `lost` and the rounding errors of `lost`.
    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) -> Self::Result {
        /// The error of a smaller product may underflow.
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
        // Twice `lost`, for its own rounding errors, and the rounding of both ends.
        let bound = if lost == 0.0 { 0.0 } else { 2.0 * lost + last.abs() * f64::EPSILON };
        let [least, most] = [last - bound, last + bound]
            .map(|end| K::Element::nearest(if is_f64 { sum + end } else { end }));
        // The value comparison excludes NaN; the encodings exclude a zero of unknown sign.
        let is_sure = least.into() == most.into() && least.encoding() == most.encoding();
        is_sure.then_some(least)
    }
}

/// Adds a term, and returns the rounding error, which is exact if the sum is finite.
#[inline(always)]
fn add(sum: &mut f64, term: f64) -> f64 {
    let before = *sum;
    *sum += term;
    let added = *sum - before;
    (before - (*sum - added)) + (term - added)
}
