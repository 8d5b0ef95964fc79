//! The kinds of states by their numbers, and states as words in memory, for code that knows the kind only at run time.

use crate::state::{add_words, rounded};
use crate::{COUNTS, Dot, Float, Kind, Sum, digits};

/// The kinds by their numbers in the wire form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The sum of f32.
    SumF32 = 1,
    /// The dot product of f32.
    DotF32 = 2,
    /// The sum of f64.
    SumF64 = 3,
    /// The dot product of f64.
    DotF64 = 4,
}

/// The numbers of a [`Kind`].
pub(crate) struct Layout {
    pub(crate) digits: usize,
    pub(crate) low: i32,
    pub(crate) top: i32,
    /// The bits of an element.
    bits: u32,
}

/// The most words of a state.
pub(crate) const MOST_WORDS: usize = Code::DotF64.words();

impl Layout {
    const fn of<K: Kind>() -> Self {
        Layout { digits: K::DIGITS, low: K::LOW, top: K::TOP, bits: K::Element::BITS }
    }
}

impl Code {
    pub(crate) const ALL: [Self; 4] = [Self::SumF32, Self::DotF32, Self::SumF64, Self::DotF64];

    pub(crate) const fn layout(self) -> Layout {
        match self {
            Self::SumF32 => Layout::of::<Sum<f32>>(),
            Self::DotF32 => Layout::of::<Dot<f32>>(),
            Self::SumF64 => Layout::of::<Sum<f64>>(),
            Self::DotF64 => Layout::of::<Dot<f64>>(),
        }
    }

    /// The number of a state's words.
    pub const fn words(self) -> usize {
        COUNTS + self.layout().digits
    }

    /// The encoding of a state's [value](crate::State::value), and its number of bytes. The state is given by its
    /// words.
    pub fn value(self, words: &[i64]) -> (u64, usize) {
        let Layout { low, bits, .. } = self.layout();
        let mut copy = [0; MOST_WORDS];
        let copy = &mut copy[..words.len()];
        copy.copy_from_slice(words);
        let encoding = match bits {
            32 => rounded::<f32>(copy, low).encoding(),
            _ => rounded::<f64>(copy, low).encoding(),
        };
        (encoding, bits as usize / 8)
    }
}

/// Adds the terms of one state to another of the same kind, both given by their words. The other is normalised, and
/// stays so. Together they have fewer than 2^63 terms.
pub fn merge_words(words: &mut [i64], others: &[i64]) {
    add_words(words, others);
    digits::normalise(&mut words[COUNTS..]);
}
