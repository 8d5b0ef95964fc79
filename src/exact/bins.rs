//! Sums of terms by their exponents: for many terms of any sizes, several times faster than deposits.

use crate::{Kind, State, Value};
use std::marker::PhantomData;

/// The number of bins: 16 KiB, half of the nearest cache.
const BINS: usize = 1024;

/// Terms after which bins must be emptied. Each is below 2^(106 + 3), so that their sum stays below 2^127.
const MAX_TERMS: usize = 1 << 17;

/// Sums of terms, of which bin i counts units of 2^(LOW + SHARE·i).
pub struct Bins<K> {
    sums: [i128; BINS],
    terms: usize,
    kind: PhantomData<K>,
}

impl<K: Kind> Bins<K> {
    /// Exponents that share a bin: 4 for products of f64, or fewer.
    const SHARE: usize = (K::TOP - K::LOW - K::TERM_BITS as i32) as usize / BINS + 1;

    /// Bins without terms.
    pub const EMPTY: Self = Self { sums: [0; BINS], terms: 0, kind: PhantomData };

    /// Adds a term, for which the bins or the state may be used; [`Bins::empty`] brings all to the state.
    #[inline]
    pub fn deposit(&mut self, state: &mut State<K>, term: K::Term) {
        let Value::Finite { negative, magnitude, exponent } = K::value(term) else {
            return state.deposit(term);
        };
        if self.terms == MAX_TERMS {
            self.empty(state);
        }
        self.terms += 1;
        let position = (exponent - K::LOW) as usize;
        let units = (magnitude << (position % Self::SHARE)).cast_signed();
        let sign = -i128::from(negative);
        self.sums[position / Self::SHARE % BINS] += (units ^ sign) - sign;
    }

    /// Adds the bins' sums to a state.
    pub fn empty(&mut self, state: &mut State<K>) {
        state.count(self.terms);
        self.terms = 0;
        for (exponent, sum) in (K::LOW..).step_by(Self::SHARE).zip(&mut self.sums) {
            state.add_units(std::mem::take(sum), exponent);
        }
    }
}
