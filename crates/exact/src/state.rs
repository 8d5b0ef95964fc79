//! The states of the four exact sums.
//!
//! A state is an array of signed words of 64 bits. The array's length depends only on the kind. States are added word
//! by word, in any order and on any device:
//!
//! | words | hold |
//! |---|---|
//! | 0 | elements (pairs of them, for a dot product) |
//! | 1, 2, 3 | terms that are NaN, +Inf, −Inf |
//! | 4 … | digits: word 4 + k stands for word·2^(LOW + 32k) (see `digits.rs`) |
//!
//! | kind | LOW | digits | finite terms are below | 2^64 of them are below | the digits hold |
//! |---|---|---|---|---|---|
//! | sum of f32 | −149 | 11 | 2^128 | 2^192 | 2^234 |
//! | dot of f32 | −298 | 20 | 2^256 | 2^320 | 2^373 |
//! | sum of f64 | −1074 | 68 | 2^1024 | 2^1088 | 2^1133 |
//! | dot of f64 | −2148 | 134 | 2^2048 | 2^2112 | 2^2171 |
//!
//! Every finite term is a multiple of 2^LOW. The last two columns differ by a factor of more than 2^40, and the wire
//! form needs 2^30 of it. [`State::ZERO`] asserts this when a kind is compiled.

use crate::digits::{self, span};
use crate::window::units;
use crate::{Code, Float, Value};
use std::marker::PhantomData;

/// The number of words before the digits: the elements, and the terms that are NaN, +Inf, −Inf.
pub const COUNTS: usize = 4;

/// The number of deposits after which digits must be normalised. A deposit adds less than 2^32 to a digit, so digits
/// stay below 2^61 + 2^32, and the sum of two such states below 2^62 + 2^33.
const MAX_PENDING: u32 = 1 << 29;

/// One of the sums: its terms, and the layout of its state.
pub trait Kind: Copy + Send + Sync + 'static {
    /// The type of the elements and of the result.
    type Element: Float;
    /// An element, or a pair of elements to multiply.
    type Term: Copy + Send + Sync + 'static;
    /// The state's words: an array.
    type Words: Copy + AsRef<[i64]> + AsMut<[i64]> + Send + Sync + 'static;
    /// The kind's number.
    const CODE: Code;
    /// The words of no elements.
    const ZERO: Self::Words;
    /// The number of digits.
    const DIGITS: usize;
    /// The first digit is a multiple of 2^LOW.
    const LOW: i32;
    /// Every finite term is smaller than 2^TOP.
    const TOP: i32;
    /// The bits of a term's magnitude.
    const TERM_BITS: u32;

    /// The term of an element or, for a dot product, of one of each input.
    fn term_of(a: Self::Element, b: Self::Element) -> Self::Term;

    /// The term's value.
    fn value(term: Self::Term) -> Value;
}

/// The sum of elements.
#[derive(Clone, Copy, Debug)]
pub struct Sum<T>(PhantomData<T>);

/// The dot product: the sum of products of two elements.
#[derive(Clone, Copy, Debug)]
pub struct Dot<T>(PhantomData<T>);

macro_rules! kinds {
    ($($kind:ident<$element:ty>: $code:ident, $term:ty, $digits:literal, $factors:literal,
        $of:expr, $value:expr;)+) => {
        $(impl Kind for $kind<$element> {
            type Element = $element;
            type Term = $term;
            type Words = [i64; COUNTS + $digits];
            const CODE: Code = Code::$code;
            const ZERO: Self::Words = [0; COUNTS + $digits];
            const DIGITS: usize = $digits;
            const LOW: i32 = $factors * <$element>::LEAST;
            const TOP: i32 = $factors * <$element>::TOP;
            const TERM_BITS: u32 = $factors * <$element>::PRECISION;

            #[inline(always)]
            fn term_of(a: $element, b: $element) -> $term {
                $of(a, b)
            }

            #[inline(always)]
            fn value(term: $term) -> Value {
                $value(term)
            }
        })+
    };
}

kinds! {
    Sum<f32>: SumF32, f32, 11, 1, |a, _| a, Value::of;
    Dot<f32>: DotF32, (f32, f32), 20, 2, |a, b| (a, b), |(x, y)| Value::of(x).times(Value::of(y));
    Sum<f64>: SumF64, f64, 68, 1, |a, _| a, Value::of;
    Dot<f64>: DotF64, (f64, f64), 134, 2, |a, b| (a, b), |(x, y)| Value::of(x).times(Value::of(y));
}

/// The exact sum of some terms.
#[derive(Clone, Copy)]
pub struct State<K: Kind> {
    words: K::Words,
    /// The digits are at most (pending + 1)·2^32 in magnitude, but for the last.
    pending: u32,
}

impl<K: Kind> State<K> {
    /// The state of no elements.
    pub const ZERO: Self = {
        let holds = K::LOW + 32 * (K::DIGITS as i32 - 1) + 63;
        assert!(holds >= K::TOP + 64 + 40, "too few digits for 2^64 terms");
        Self { words: K::ZERO, pending: 0 }
    };

    /// The state of words that were added elsewhere. The digits are at most 2^62 in magnitude, as after 2^30 normalised
    /// states or deposits.
    pub fn from_words(words: K::Words) -> Self {
        let mut state = Self { words, pending: 0 };
        state.normalise();
        state
    }

    /// The words. They are normalised if [`State::normalise`] was the last call that changed them.
    pub fn words(&self) -> &K::Words {
        &self.words
    }

    /// Adds a term to the sum by integer arithmetic.
    pub fn deposit(&mut self, term: K::Term) {
        self.count(1);
        let [_, nan, plus, minus, ..] = self.words.as_mut() else { unreachable!() };
        match K::value(term) {
            Value::Finite { negative, magnitude, exponent } => {
                self.add(exponent, magnitude, negative, const { span(K::TERM_BITS) });
            }
            Value::Nan => *nan += 1,
            Value::Infinite { negative: false } => *plus += 1,
            Value::Infinite { negative: true } => *minus += 1,
        }
    }

    /// Counts elements. [`State::add_units`] adds their sum.
    #[inline]
    pub fn count(&mut self, elements: usize) {
        self.words.as_mut()[0] += elements as i64;
    }

    /// Adds units·2^exponent without counting an element. Unless it is 0, the exponent is at least LOW, and the value
    /// below 2^(TOP + 64).
    #[inline(never)]
    pub fn add_units(&mut self, units: impl Into<i128>, exponent: i32) {
        let units = units.into();
        if units != 0 {
            self.add(exponent, units.unsigned_abs(), units < 0, span(128));
        }
    }

    /// Adds the sums of a window's levels. The highest level has the unit 2^unit.
    pub fn add_window(&mut self, sums: &[i64], unit: i32) {
        for (&sum, unit) in sums.iter().zip(units(unit)) {
            self.add_units(sum, unit);
        }
    }

    #[inline]
    fn add(&mut self, exponent: i32, magnitude: u128, negative: bool, span: usize) {
        self.reserve(1);
        let position = (exponent - K::LOW) as usize;
        digits::add(&mut self.words.as_mut()[COUNTS..], position, magnitude, negative, span);
    }

    /// Adds the terms of another state. Together the states have fewer than 2^63 terms.
    pub fn merge(&mut self, other: &Self) {
        self.reserve(other.pending + 1);
        add_words(self.words.as_mut(), other.words.as_ref());
    }

    /// Adds the sum of parts of the same elements. Takes over the other state's number of elements.
    #[inline(never)]
    pub fn merge_part(&mut self, other: &Self) {
        self.merge(other);
        self.words.as_mut()[0] = other.elements();
    }

    /// Brings the words into the normalised form.
    pub fn normalise(&mut self) {
        digits::normalise(&mut self.words.as_mut()[COUNTS..]);
        self.pending = 0;
    }

    /// Normalises if `deposits` more would be too many.
    #[inline]
    fn reserve(&mut self, deposits: u32) {
        if self.pending + deposits > MAX_PENDING {
            self.normalise();
        }
        self.pending += deposits;
    }

    /// The sum, rounded to nearest, ties to even. As in IEEE 754, it is NaN with a NaN or both infinities among the
    /// terms, and infinite with one infinity. An exact zero is +0, and so is the sum of no terms.
    pub fn value(&self) -> K::Element {
        let mut words = self.words;
        rounded(words.as_mut(), K::LOW)
    }

    /// The number of elements.
    pub fn elements(&self) -> i64 {
        self.words.as_ref()[0]
    }
}

/// Adds words to others. One loop for all kinds keeps the library small.
#[inline(never)]
pub(crate) fn add_words(words: &mut [i64], others: &[i64]) {
    for (word, &addend) in words.iter_mut().zip(others) {
        *word = word.wrapping_add(addend);
    }
}

/// The sum in a state's words, rounded as by [`State::value`]. The first digit counts units of 2^low. Overwrites the
/// words.
pub(crate) fn rounded<T: Float>(words: &mut [i64], low: i32) -> T {
    match special::<T>(words) {
        Some(encoding) => T::from_encoding(encoding),
        None => digits::round(&mut words[COUNTS..], low),
    }
}

/// The encoding of the sum in a state's words, if it is not finite.
pub(crate) fn special<T: Float>(words: &[i64]) -> Option<u64> {
    match (words[1] > 0, words[2] > 0, words[3] > 0) {
        (false, false, false) => None,
        (false, true, false) => Some(T::INFINITY),
        (false, false, true) => Some(T::INFINITY | 1 << (T::BITS - 1)),
        _ => Some(T::NAN),
    }
}
