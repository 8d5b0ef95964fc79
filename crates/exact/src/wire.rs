//! The wire form of a state: bytes that any process can read, and that add as integers.
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
//! A word has 64 bits, little-endian, signed. 152 bytes are a sum of f32, 224 a dot of f32, 608 a sum
//! of f64, 1,136 a dot of f64.
//!
//! Wire forms of one kind that are added word by word, as int64, are the wire form of all their terms:
//! every rule is linear in the words, and holds for R states as for one. No word wraps for
//! R ≤ [`MAX_STATES`]: each but the checksum is below 2^32 in magnitude for one state. So sums of what is
//! read are read, too, unless their elements or states are too many, which is an error of its own. A
//! changed word never passes: G is odd, so that G^(n − i)·difference is not 0 mod 2^64.

use crate::{COUNTS, Kind, State, digits};
use std::fmt::{self, Display, Formatter};

/// States that may be added word by word, so that their words stay below 2^62.
pub const MAX_STATES: i64 = 1 << 30;

const NAME: i64 = 0x7667; // "gv", as its bytes lie in memory
const VERSION: u8 = 1;
/// Words before the elements.
const HEADER: usize = 2;
/// Words before the digits: the header, two of the elements, three of special terms.
const BEFORE_DIGITS: usize = HEADER + COUNTS + 1;
/// 2^64 divided by the golden ratio, the nearest odd integer.
const G: i64 = 0x9E37_79B9_7F4A_7C15_u64.cast_signed();
const LOW_HALF: i64 = 0xFFFF_FFFF;

/// The kinds, by their number on the wire.
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

impl Code {
    const ALL: [Self; 4] = [Self::SumF32, Self::DotF32, Self::SumF64, Self::DotF64];

    fn magic(self) -> i64 {
        NAME << 16 | i64::from(VERSION) << 8 | self as i64
    }
}

/// The reason why bytes are not a state of the requested kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// The length is not that of the kind.
    Length {
        /// The number of bytes.
        found: usize,
        /// The number of bytes of the kind's states.
        expected: usize,
    },
    /// The first word is not that of a state.
    NotAState,
    /// A state in another version of the wire form.
    Version {
        /// The version.
        found: u8,
    },
    /// A state of another kind, or of one that this version does not know.
    OtherKind {
        /// The kind's number.
        found: u8,
    },
    /// The number of states that were added is not positive, or the first word does not match it.
    States {
        /// The number.
        found: i64,
    },
    /// The sum of more than [`MAX_STATES`] states.
    TooManyStates {
        /// The number.
        found: i64,
    },
    /// The states have 2^63 elements or more.
    TooManyElements,
    /// The counts of elements and of special values contradict each other.
    Counts,
    /// A digit is out of range.
    Digits,
    /// The checksum is not that of the words.
    Checksum,
}

impl Display for WireError {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Self::Length { found, expected } => {
                write!(f, "it has {found} bytes, but states of this kind have {expected}")
            }
            Self::NotAState => write!(f, "it does not begin as a state does"),
            Self::Version { found } => {
                write!(f, "it is in version {found} of the format; this library reads {VERSION}")
            }
            Self::OtherKind { found } => write!(f, "it is a state of another kind, {found}"),
            Self::States { found } => {
                write!(f, "it says that {found} states were added, which it does not begin as")
            }
            Self::TooManyStates { found } => {
                write!(f, "{found} states were added: add at most {MAX_STATES}")
            }
            Self::TooManyElements => write!(f, "it has 2^63 elements or more"),
            Self::Counts => write!(f, "it is damaged: its counts contradict each other"),
            Self::Digits => write!(f, "it is damaged: a digit is out of range"),
            Self::Checksum => write!(f, "it is damaged: its checksum is wrong"),
        }
    }
}

impl std::error::Error for WireError {}

/// The length of the wire form.
pub const fn wire_bytes<K: Kind>() -> usize {
    8 * (BEFORE_DIGITS + K::DIGITS + 1)
}

/// Writes a state.
///
/// # Panics
/// If there are not [`wire_bytes`] bytes.
pub fn encode<K: Kind>(state: &State<K>, bytes: &mut [u8]) {
    let mut state = *state;
    state.normalise();
    write(K::CODE, state.words().as_ref(), bytes);
}

/// Reads a state, or several that were added word by word.
pub fn decode<K: Kind>(bytes: &[u8]) -> Result<State<K>, WireError> {
    let mut state = K::ZERO;
    let (counts, digits) = state.as_mut().split_at_mut(COUNTS);
    read(K::CODE, bytes, counts, digits)?;
    // Special terms are at most 3·2^30.
    let finite = counts[0] - counts[1..].iter().sum::<i64>();
    let Ok(finite) = u128::try_from(finite) else { return Err(WireError::Counts) };
    if !is_sum_of::<K>(digits, finite) {
        return Err(WireError::Digits);
    }
    Ok(State::from_words(state))
}

/// Writes the words of a normalised state.
fn write(code: Code, state: &[i64], bytes: &mut [u8]) {
    assert_eq!(bytes.len(), bytes_of(state.len() - COUNTS), "bytes of the wire form");
    let [elements, nan, plus, minus, digits @ ..] = state else { unreachable!("a state's words") };
    let before = [
        code.magic(),
        1,
        elements & LOW_HALF,
        elements >> 32,
        i64::from(*nan > 0),
        i64::from(*plus > 0),
        i64::from(*minus > 0),
    ];
    let words = || before.into_iter().chain(digits.iter().copied());
    for (place, word) in bytes.chunks_exact_mut(8).zip(words().chain([checksum(words())])) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

/// Reads a state's counts, and its digits, which are normalised.
fn read(code: Code, bytes: &[u8], counts: &mut [i64], digits: &mut [i64]) -> Result<(), WireError> {
    let found = kind_of(bytes)?;
    if found != code {
        return Err(WireError::OtherKind { found: found as u8 });
    }
    let (found, expected) = (bytes.len(), bytes_of(digits.len()));
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

/// Says whether normalised digits can be the sum of `terms` finite terms: each is below 2^TOP, so that the
/// sum is at most terms·2^TOP in magnitude. Sums of such states are such states, of all their terms.
fn is_sum_of<K: Kind>(digits: &[i64], terms: u128) -> bool {
    let position = (K::TOP - K::LOW) as usize;
    let is_negative = |sign: i64| {
        let mut sum = K::ZERO;
        let sum = &mut sum.as_mut()[COUNTS..];
        sum.iter_mut().zip(digits).for_each(|(sum, digit)| *sum = sign * digit);
        digits::add(sum, position, terms, false, digits::span(64));
        digits::normalise(sum);
        sum.last().is_some_and(|&last| last < 0)
    };
    !is_negative(1) && !is_negative(-1)
}

/// The length of the wire form of a state with this number of digits.
const fn bytes_of(digits: usize) -> usize {
    8 * (BEFORE_DIGITS + digits + 1)
}

/// The kind of state that some bytes begin as.
pub fn kind_of(bytes: &[u8]) -> Result<Code, WireError> {
    let expected = 8 * HEADER;
    if bytes.len() < expected {
        return Err(WireError::Length { found: bytes.len(), expected });
    }
    let (product, states) = (word(bytes, 0), word(bytes, 1));
    if states > MAX_STATES {
        // The product has wrapped, maybe; it is that of a kind that is known, or bytes from elsewhere.
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
