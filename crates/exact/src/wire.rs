//! The wire form of a state: bytes that any process can read, and that can be added as integers.
//!
//! | word | holds |
//! |---|---|
//! | 0 | R · magic, where magic = "gv" · 2^16 + version · 2^8 + kind |
//! | 1 | R, the states that were added: 1 as written |
//! | 2, 3 | elements: modulo 2^32, and divided by 2^32, as written |
//! | 4, 5, 6 | states with a term that is NaN, +Inf, −Inf: 0 or 1 as written |
//! | 7 … | digits, normalised as written: the last signed, the others in [0, 2^32) |
//! | last | checksum: Σ G^(n − i)·word i over the n words before it, mod 2^64 |
//!
//! A word is a signed little-endian integer of 64 bits. A sum of f32 has 152 bytes, a dot of f32 224, a sum of f64 608,
//! and a dot of f64 1,136.
//!
//! Wire forms of one kind that are added word by word, as int64, are the wire form of all their terms: every rule is
//! linear in the words, and holds for R states as for one. No word wraps for R ≤ [`MAX_STATES`], because in one state
//! each word except the checksum is below 2^32 in magnitude. So sums of valid wire forms are valid, unless they have
//! too many elements or states, which is an error of its own. A single changed word is always detected: G is odd, so
//! G^(n − i)·difference is not 0 mod 2^64.

use crate::code::{Layout, MOST_WORDS};
use crate::{COUNTS, Code, digits};

/// The most states that may be added word by word: their words stay below 2^62.
pub const MAX_STATES: i64 = 1 << 30;

const NAME: i64 = 0x7667; // "gv", as its bytes lie in memory
const VERSION: u8 = 1;
/// The number of words before the elements.
const HEADER: usize = 2;
/// The number of words before the digits: the header, two for elements, three for special terms.
const BEFORE_DIGITS: usize = HEADER + COUNTS + 1;
/// 2^64 divided by the golden ratio, the nearest odd integer.
const G: i64 = 0x9E37_79B9_7F4A_7C15_u64.cast_signed();
const LOW_HALF: i64 = 0xFFFF_FFFF;
/// The lengths of the wire forms, by kind.
const BYTES: [usize; 4] = {
    let [a, b, c, d] = Code::ALL;
    [a.wire_bytes(), b.wire_bytes(), c.wire_bytes(), d.wire_bytes()]
};

impl Code {
    fn magic(self) -> i64 {
        NAME << 16 | i64::from(VERSION) << 8 | self as i64
    }

    /// The length of the wire form.
    pub const fn wire_bytes(self) -> usize {
        8 * (BEFORE_DIGITS + self.layout().digits + 1)
    }

    /// Writes a state, given by its normalised words.
    ///
    /// # Panics
    /// If there are not [`Code::wire_bytes`] bytes.
    pub fn encode(self, words: &[i64], bytes: &mut [u8]) {
        assert_eq!(bytes.len(), self.wire_bytes(), "bytes of the wire form");
        let [elements, nan, plus, minus, digits @ ..] = words else {
            unreachable!("a state's words")
        };
        let before = [
            self.magic(),
            1,
            elements & LOW_HALF,
            elements >> 32,
            i64::from(*nan > 0),
            i64::from(*plus > 0),
            i64::from(*minus > 0),
        ];
        let all = || before.into_iter().chain(digits.iter().copied());
        for (place, word) in bytes.chunks_exact_mut(8).zip(all().chain([checksum(all())])) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads a state, or several that were added word by word, as normalised words.
    ///
    /// # Panics
    /// If there are not [`Code::words`] words.
    pub fn decode(self, bytes: &[u8], words: &mut [i64]) -> Result<(), WireError> {
        let (counts, digits) = words.split_at_mut(COUNTS);
        read(self, bytes, counts, digits)?;
        // Special terms are at most 3·2^30.
        let finite = counts[0] - counts[1..].iter().sum::<i64>();
        let Ok(finite) = u128::try_from(finite) else { return Err(WireError::Counts) };
        if is_sum_of(&self.layout(), digits, finite) { Ok(()) } else { Err(WireError::Digits) }
    }
}

/// The reason why bytes are not a state of the requested kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the texts tell what the fields are")]
pub enum WireError {
    /// The length does not fit the kind.
    #[error("it has {found} bytes, but states of this kind have {expected}")]
    Length { found: usize, expected: usize },
    /// There are fewer bytes than any state has.
    #[error("it has {found} bytes, but a state has {0}, {1}, {2} or {3}", BYTES[0], BYTES[1], BYTES[2], BYTES[3])]
    TooShort { found: usize },
    /// The first word does not belong to a state.
    #[error("its first word is not that of a state")]
    NotAState,
    /// A state in another version of the wire form.
    #[error("it is in version {found} of the format; this library reads {VERSION}")]
    Version { found: u8 },
    /// A state of another kind, or of one that this version does not know.
    #[error("it is a state of another kind, {found}")]
    OtherKind { found: u8 },
    /// The number of states that were added is not positive, or the first word does not match it.
    #[error("it is damaged: it counts {found} states, and its first word does not")]
    States { found: i64 },
    /// The sum of more than [`MAX_STATES`] states.
    #[error("{found} states were added: add at most {MAX_STATES}")]
    TooManyStates { found: i64 },
    /// The states have 2^63 elements or more.
    #[error("it has 2^63 elements or more")]
    TooManyElements,
    /// The counts of elements and of special values contradict each other.
    #[error("it is damaged: its counts contradict each other")]
    Counts,
    /// A digit is out of range.
    #[error("it is damaged: a digit is out of range")]
    Digits,
    /// The checksum does not match the words.
    #[error("it is damaged: its checksum is wrong")]
    Checksum,
}

/// Reads a state's counts and its normalised digits.
fn read(code: Code, bytes: &[u8], counts: &mut [i64], digits: &mut [i64]) -> Result<(), WireError> {
    let found = kind_of(bytes)?;
    if found != code {
        return Err(WireError::OtherKind { found: found as u8 });
    }
    let (found, expected) = (bytes.len(), code.wire_bytes());
    if found != expected {
        return Err(WireError::Length { found, expected });
    }
    let last = expected / 8 - 1;
    if checksum(words(bytes).take(last)) != word(bytes, last) {
        return Err(WireError::Checksum);
    }
    let states = word(bytes, 1);
    if states > MAX_STATES {
        return Err(WireError::TooManyStates { found: states });
    }
    let special = || words(bytes).skip(HEADER + 2).take(COUNTS - 1);
    let halves = [word(bytes, HEADER), word(bytes, HEADER + 1)];
    let in_range = |most: i64| move |word: i64| (0..=states * most).contains(&word);
    if !halves.into_iter().all(in_range(LOW_HALF)) || !special().all(in_range(1)) {
        return Err(WireError::Counts);
    }
    let elements = i128::from(halves[0]) + (i128::from(halves[1]) << 32);
    let elements = elements.try_into().map_err(|_| WireError::TooManyElements)?;
    for (count, word) in counts.iter_mut().zip([elements].into_iter().chain(special())) {
        *count = word;
    }
    for (digit, word) in digits.iter_mut().zip(words(bytes).skip(BEFORE_DIGITS)) {
        *digit = word;
    }
    let [lower @ .., last] = &*digits else { unreachable!("a state has digits") };
    let magnitude = last.checked_abs().unwrap_or(i64::MAX);
    if !lower.iter().copied().chain([magnitude]).all(in_range(LOW_HALF)) {
        return Err(WireError::Digits);
    }
    digits::normalise(digits);
    Ok(())
}

/// True if normalised digits can be the sum of `terms` finite terms. Each term is below 2^TOP, so the sum is at most
/// terms·2^TOP in magnitude. The same holds for sums of such states, with the terms of all.
fn is_sum_of(kind: &Layout, digits: &[i64], terms: u128) -> bool {
    let position = (kind.top - kind.low) as usize;
    let is_negative = |sign: i64| {
        let mut sum = [0; MOST_WORDS];
        let sum = &mut sum[..kind.digits];
        sum.iter_mut().zip(digits).for_each(|(sum, digit)| *sum = sign * digit);
        digits::add(sum, position, terms, false, digits::span(64));
        digits::normalise(sum);
        sum.last().is_some_and(|&last| last < 0)
    };
    !is_negative(1) && !is_negative(-1)
}

/// The kind of the state with these bytes. Checks only the first words.
pub fn kind_of(bytes: &[u8]) -> Result<Code, WireError> {
    if bytes.len() < 8 * HEADER {
        return Err(WireError::TooShort { found: bytes.len() });
    }
    let (product, states) = (word(bytes, 0), word(bytes, 1));
    if states > MAX_STATES {
        // The product may have wrapped. Either the kind is known, or the bytes come from elsewhere.
        let known = Code::ALL.into_iter().find(|code| code.magic().wrapping_mul(states) == product);
        return known.ok_or(WireError::States { found: states });
    }
    if states < 1 {
        return Err(WireError::States { found: states });
    }
    let magic = product / states;
    if product % states != 0 || magic >> 16 != NAME {
        return Err(WireError::NotAState);
    }
    let [code, version, ..] = magic.to_le_bytes();
    if version != VERSION {
        return Err(WireError::Version { found: version });
    }
    let known = Code::ALL.into_iter().find(|&known| known as u8 == code);
    known.ok_or(WireError::OtherKind { found: code })
}

fn checksum(words: impl Iterator<Item = i64>) -> i64 {
    words.fold(0, |sum: i64, word| sum.wrapping_add(word).wrapping_mul(G))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.as_chunks().0.iter().map(|&word| i64::from_le_bytes(word))
}

fn word(bytes: &[u8], place: usize) -> i64 {
    bytes.as_chunks().0.get(place).map_or(0, |&word| i64::from_le_bytes(word))
}
