//! The wire form of a state: bytes that any process can read, and that add as integers.
//!
//! | word | holds |
//! |---|---|
//! | 0 | R · magic, where magic = "gv" · 2^16 + version · 2^8 + kind |
//! | 1 | R, the states that were added: 1 as written |
//! | 2 | elements |
//! | 3, 4, 5 | terms that are NaN, +Inf, −Inf |
//! | 6 … | digits, normalised as written: the last signed, the others in [0, 2^32) |
//! | last | checksum: Σ G^(n − i)·word i over the n words before it, mod 2^64 |
//!
//! A word has 64 bits, little-endian, signed. 144 bytes are a sum of f32, 216 a dot of f32, 600 a sum
//! of f64, 1,128 a dot of f64.
//!
//! Wire forms of one kind that are added word by word, as int64, are the wire form of all their terms:
//! every rule is linear in the words, and holds for R states as for one. A changed word never passes:
//! G is odd, so that G^(n − i)·difference is not 0 mod 2^64.

use crate::{COUNTS, Kind, State};
use std::fmt::{self, Display, Formatter};

/// States that may be added word by word, so that digits stay below 2^62.
pub const MAX_STATES: i64 = 1 << 30;

const NAME: i64 = 0x7667; // "gv", as its bytes lie in memory
const VERSION: u8 = 1;
const HEADER: usize = 2;
/// 2^64 divided by the golden ratio, the nearest odd integer.
const G: i64 = 0x9E37_79B9_7F4A_7C15_u64.cast_signed();

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

/// Why bytes are no state of the kind that is asked for.
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
    /// The first word is that of no state.
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
    /// The number of states that were added is not from 1 to [`MAX_STATES`].
    States {
        /// The number.
        found: i64,
    },
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
                write!(
                    f,
                    "it says that {found} states were added: at least 1, at most {MAX_STATES}"
                )
            }
            Self::Counts => write!(f, "it is damaged: its counts contradict each other"),
            Self::Digits => write!(f, "it is damaged: a digit is out of range"),
            Self::Checksum => write!(f, "it is damaged: its checksum is wrong"),
        }
    }
}

impl std::error::Error for WireError {}

/// The length of the wire form.
pub const fn wire_bytes<K: Kind>() -> usize {
    8 * (HEADER + COUNTS + K::DIGITS + 1)
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
    // The last digit is limited by the sum of 2^64 terms, or of their negatives.
    let most = 1 << (K::TOP + 64 - K::LOW - 32 * (K::DIGITS as i32 - 1));
    read(K::CODE, most, bytes, state.as_mut())?;
    Ok(State::from_words(state))
}

/// Writes the words of a normalised state.
fn write(code: Code, state: &[i64], bytes: &mut [u8]) {
    assert_eq!(bytes.len(), bytes_of(state), "bytes of the wire form");
    let words = || [code.magic(), 1].into_iter().chain(state.iter().copied());
    for (place, word) in bytes.chunks_exact_mut(8).zip(words().chain([checksum(words())])) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

/// Reads the words of a state, in which the last digit is at most `most`.
fn read(code: Code, most: i64, bytes: &[u8], state: &mut [i64]) -> Result<(), WireError> {
    let found = kind_of(bytes)?;
    if found != code {
        return Err(WireError::OtherKind { found: found as u8 });
    }
    let (found, expected) = (bytes.len(), bytes_of(state));
    if found != expected {
        return Err(WireError::Length { found, expected });
    }
    let count = expected / 8 - 1;
    if checksum(words(bytes).take(count)) != word(bytes, count) {
        return Err(WireError::Checksum);
    }
    for (place, word) in state.iter_mut().zip(words(bytes).skip(HEADER)) {
        *place = word;
    }
    let (counts, digits) = state.split_at(COUNTS);
    if counts.iter().any(|count| !(0..=counts[0]).contains(count)) {
        return Err(WireError::Counts);
    }
    if !digits_in_range(digits, most, word(bytes, 1)) {
        return Err(WireError::Digits);
    }
    Ok(())
}

/// The length of the wire form of a state's words.
const fn bytes_of(state: &[i64]) -> usize {
    8 * (HEADER + state.len() + 1)
}

/// The kind of state that some bytes begin as.
pub fn kind_of(bytes: &[u8]) -> Result<Code, WireError> {
    let expected = 8 * HEADER;
    if bytes.len() < expected {
        return Err(WireError::Length { found: bytes.len(), expected });
    }
    let (product, states) = (word(bytes, 0), word(bytes, 1));
    if !(1..=MAX_STATES).contains(&states) {
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

/// Checks if `digits` can be the sum of the digits of `states` normalised states, of which the last is at
/// most `most`.
fn digits_in_range(digits: &[i64], most: i64, states: i64) -> bool {
    let [lower @ .., last] = digits else { return false };
    lower.iter().all(|digit| (0..=states * 0xFFFF_FFFF).contains(digit))
        && (-states * most..=states * most).contains(last)
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
