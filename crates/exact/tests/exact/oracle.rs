//! Two oracles that share nothing with the crate, and the checks that every case goes through.

use gpuvec_exact::{
    Bins, COUNTS, Dot, Float, Guards, Kind, State, Sum, Windowed, WireError, accumulate,
};
use num_bigint::{BigInt, Sign};
use num_rational::{BigRational, Ratio};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A kind whose terms are made from f64.
pub(crate) trait Case: Windowed<Element: std::fmt::Debug> {
    /// A term of x and y rounded to the element type; the sum takes x alone.
    fn term(x: f64, y: f64) -> Self::Term;
    /// The term's factors; the second is 1 for the sum.
    fn factors(term: Self::Term) -> (f64, f64);
}

impl Case for Sum<f32> {
    fn term(x: f64, _: f64) -> f32 {
        x as f32
    }
    fn factors(x: f32) -> (f64, f64) {
        (x.into(), 1.0)
    }
}

impl Case for Dot<f32> {
    fn term(x: f64, y: f64) -> (f32, f32) {
        (x as f32, y as f32)
    }
    fn factors((x, y): (f32, f32)) -> (f64, f64) {
        (x.into(), y.into())
    }
}

impl Case for Sum<f64> {
    fn term(x: f64, _: f64) -> f64 {
        x
    }
    fn factors(x: f64) -> (f64, f64) {
        (x, 1.0)
    }
}

impl Case for Dot<f64> {
    fn term(x: f64, y: f64) -> (f64, f64) {
        (x, y)
    }
    fn factors((x, y): (f64, f64)) -> (f64, f64) {
        (x, y)
    }
}

/// Checks if a case's element type is f32.
pub(crate) fn is_single<K: Kind>() -> bool {
    K::Element::BITS == 32
}

/// The sum by rationals, as an integer in units of 2^LOW.
pub(crate) fn by_rationals<K: Case>(terms: &[K::Term]) -> BigInt {
    let rational = |x: f64| -> BigRational { Ratio::from_float(x).expect("finite") };
    let sum = terms
        .iter()
        .map(|&term| K::factors(term))
        .fold(Ratio::from_integer(BigInt::ZERO), |sum, (x, y)| sum + rational(x) * rational(y));
    let sum = sum * Ratio::from_integer(BigInt::from(1) << -K::LOW);
    assert!(sum.is_integer(), "a multiple of 2^LOW");
    sum.to_integer()
}

/// The sum by integers, which are grouped by their exponents, in units of 2^LOW.
pub(crate) fn by_groups<K: Case>(terms: &[K::Term]) -> BigInt {
    assert!(terms.len() <= 1 << 20, "128 bits hold the sum of 2^20 products");
    let split = |x: f64| {
        let (bits, sign) = (x.abs().to_bits(), if x < 0.0 { -1 } else { 1 });
        match (bits >> 52) as i32 {
            0 => (sign * i128::from(bits), -1074),
            e => (sign * i128::from(bits & ((1 << 52) - 1) | 1 << 52), e - 1075),
        }
    };
    let mut groups = BTreeMap::<i32, i128>::new();
    for &term in terms {
        let (x, y) = K::factors(term);
        let ((m, e), (n, f)) = (split(x), split(y));
        *groups.entry(e + f).or_default() += m * n;
    }
    groups.into_iter().fold(BigInt::ZERO, |sum, (exponent, group)| {
        let shift = exponent - K::LOW;
        let group = BigInt::from(group);
        // A float's bits may lie below 2^LOW, where they are 0.
        sum + if shift < 0 { group >> -shift } else { group << shift }
    })
}

/// The float that is nearest to integer·2^low, found among the encodings by bisection.
pub(crate) fn nearest<T: Float>(integer: &BigInt, low: i32) -> T {
    // Everything in units of half of 2^low or of the format's smallest step.
    let unit = low.min(T::LEAST) - 1;
    let exact = BigInt::from(integer.magnitude().clone()) << (low - unit);
    let value = |encoding: u64| {
        let (biased, fraction) =
            (encoding >> (T::PRECISION - 1), encoding & ((1 << (T::PRECISION - 1)) - 1));
        let significand = if biased == 0 { fraction } else { fraction | 1 << (T::PRECISION - 1) };
        BigInt::from(significand) << (T::LEAST - unit + biased.max(1) as i32 - 1)
    };
    // The largest encoding whose value is at most `exact`; Inf's counts as the next binade's.
    let (mut below, mut above) = (0, T::INFINITY);
    while above - below > 1 {
        let middle = u64::midpoint(below, above);
        *(if value(middle) <= exact { &mut below } else { &mut above }) = middle;
    }
    let sum = value(below) + value(above);
    let encoding = match (exact << 1_u32).cmp(&sum) {
        Ordering::Less => below,
        Ordering::Greater => above,
        Ordering::Equal => below + (below & 1),
    };
    let sign = u64::from(integer.sign() == Sign::Minus && (encoding != 0 || integer.bits() > 0));
    T::from_encoding(encoding | sign << (T::BITS - 1))
}

/// The normalised digits of an integer.
pub(crate) fn digits<K: Kind>(integer: &BigInt) -> Vec<i64> {
    let mut bytes = integer.to_signed_bytes_le();
    let fill = if integer.sign() == Sign::Minus { 0xFF } else { 0 };
    assert!(bytes.len() <= 4 * K::DIGITS + 4, "the digits hold the integer");
    bytes.resize(4 * K::DIGITS + 4, fill);
    let (last, lower) = bytes.split_last_chunk::<8>().map(|(lower, last)| (last, lower)).unwrap();
    let lower =
        lower.chunks_exact(4).map(|digit| i64::from(u32::from_le_bytes(digit.try_into().unwrap())));
    lower.chain([i64::from_le_bytes(*last)]).collect()
}

pub(crate) fn normalised<K: Kind>(state: &State<K>) -> Vec<i64> {
    let mut state = *state;
    state.normalise();
    state.words().as_ref().to_vec()
}

pub(crate) fn deposited<K: Kind>(terms: &[K::Term]) -> State<K> {
    let mut state = State::ZERO;
    terms.iter().for_each(|&term| state.deposit(term));
    state
}

pub(crate) fn binned<K: Windowed>(terms: &[K::Term]) -> State<K> {
    let (mut state, mut bins) = (State::ZERO, Bins::EMPTY);
    bins.deposit(&mut state, terms.len(), |i| terms[i]);
    bins.empty(&mut state);
    state
}

pub(crate) fn in_windows<K: Windowed, const LEVELS: usize>(
    terms: &[K::Term], guards: Guards,
) -> (State<K>, usize) {
    let mut state = State::ZERO;
    let spilled = accumulate::<K, LEVELS>(&mut state, terms, guards);
    (state, spilled)
}

/// Checks the sum of finite terms, computed in every way: all words, and the result.
pub(crate) fn check<K: Case>(terms: &[K::Term]) {
    let exact = by_groups::<K>(terms);
    if terms.len() <= 24 {
        assert_eq!(by_rationals::<K>(terms), exact, "the oracles");
    }
    let mut words = vec![terms.len() as i64, 0, 0, 0];
    words.extend(digits::<K>(&exact));

    let state = deposited::<K>(terms);
    assert_eq!(normalised(&state), words, "deposits");
    for (levels, state) in [
        (1, in_windows::<K, 1>(terms, Guards::ALL).0),
        (2, in_windows::<K, 2>(terms, Guards::ALL).0),
        (3, in_windows::<K, 3>(terms, Guards::ALL).0),
        (4, in_windows::<K, 4>(terms, Guards::ALL).0),
        (14, in_windows::<K, 14>(terms, Guards::ALL).0),
    ] {
        assert_eq!(normalised(&state), words, "windows of {levels} levels");
    }

    assert_eq!(normalised(&binned::<K>(terms)), words, "bins");

    let (left, right) = terms.split_at(terms.len() / 3);
    let mut merged = deposited::<K>(right);
    merged.merge(&in_windows::<K, 2>(left, Guards::ALL).0);
    assert_eq!(normalised(&merged), words, "merged");

    let mut bytes = vec![0; wire_bytes::<K>()];
    encode(&state, &mut bytes);
    let read = decode::<K>(&bytes).unwrap();
    assert_eq!(read.words().as_ref(), words, "the wire form");
    assert_eq!(words.len(), COUNTS + K::DIGITS);

    let expected: K::Element = nearest(&exact, K::LOW);
    for state in [state, merged, read] {
        assert_eq!(
            state.value().encoding(),
            expected.encoding(),
            "{:?} {expected:?}",
            state.value()
        );
    }
}

/// Checks terms that are made from pairs of f64, of those that are finite in the kind.
pub(crate) fn check_pairs<K: Case>(pairs: &[(f64, f64)]) {
    let finite = |&term: &K::Term| {
        let (x, y) = K::factors(term);
        x.is_finite() && y.is_finite()
    };
    check::<K>(&pairs.iter().map(|&(x, y)| K::term(x, y)).filter(finite).collect::<Vec<_>>());
}

/// Numbers that are random enough for a test, and always the same.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// From 0 up to `below`.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        (self.bits() % below as u64) as usize
    }

    /// In [−1, 1).
    pub(crate) fn signed(&mut self) -> f64 {
        (self.bits().cast_signed() >> 10) as f64 * 2_f64.powi(-53)
    }

    /// In [−1, 1) · 2^exponent, with exponents from a range.
    pub(crate) fn scaled(&mut self, low: i32, high: i32) -> f64 {
        let exponent = low + self.below((high - low + 1) as usize) as i32;
        scale(self.signed(), exponent)
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// x · 2^exponent, by steps that stay in range.
pub(crate) fn scale(x: f64, exponent: i32) -> f64 {
    let half = exponent / 2;
    x * 2_f64.powi(half) * 2_f64.powi(exponent - half)
}

/// The length of the wire form.
pub(crate) fn wire_bytes<K: Kind>() -> usize {
    K::CODE.wire_bytes()
}

/// Writes a state.
pub(crate) fn encode<K: Kind>(state: &State<K>, bytes: &mut [u8]) {
    let mut state = *state;
    state.normalise();
    K::CODE.encode(state.words().as_ref(), bytes);
}

/// Reads a state, or several that were added word by word.
pub(crate) fn decode<K: Kind>(bytes: &[u8]) -> Result<State<K>, WireError> {
    let mut words = K::ZERO;
    K::CODE.decode(bytes, words.as_mut())?;
    Ok(State::from_words(words))
}
