//! Long integers, as digits of 32 bits in signed words of 64 bits, and their rounding.
//!
//! The digits d₀, d₁, … stand for the integer Σ dₖ·2^(32k). They may be any signed words (carry-save), so integers are
//! added word by word, without carries. An integer has one normalised form: every digit is in [0, 2^32), except the
//! last, which is signed and has the rest.

use crate::Float;

/// Adds magnitude·2^position, or its negative, to at most `span` digits. Each changes by less than 2^32. Without
/// branches, since signs and positions cannot be predicted.
#[inline]
pub(crate) fn add(
    digits: &mut [i64], position: usize, magnitude: u128, negative: bool, span: usize,
) {
    let sign = -i64::from(negative);
    let (place, shift) = (position / 32, position % 32);
    let mut digit = (magnitude << shift) as u32;
    let mut rest = magnitude >> (32 - shift);
    for word in digits[place..].iter_mut().take(span) {
        *word += (i64::from(digit) ^ sign) - sign;
        digit = rest as u32;
        rest >>= 32;
    }
    debug_assert!(digit == 0 && rest == 0, "the digits end below the integer's highest bit");
}

/// Counts the digits that an integer of `bits` bits changes, at any position.
pub(crate) const fn span(bits: u32) -> usize {
    (bits + 31).div_ceil(32) as usize
}

/// Normalises digits of at most 2^62 in magnitude. The integer stays the same.
///
/// A carry is at most 2^30 + 1 in magnitude, so no sum overflows. An integer that does not fit wraps, as its words do.
pub fn normalise(digits: &mut [i64]) {
    let [lower @ .., last] = digits else { return };
    let mut carry = 0;
    for digit in lower {
        let sum = *digit + carry;
        *digit = sum & 0xFFFF_FFFF;
        carry = sum >> 32;
    }
    *last = last.wrapping_add(carry);
}

/// Normalises digits, and negates a negative integer. Returns true if it was negative.
pub(crate) fn make_positive(digits: &mut [i64]) -> bool {
    normalise(digits);
    let negative = digits.last().is_some_and(|&digit| digit < 0);
    if negative {
        digits.iter_mut().for_each(|digit| *digit = -*digit);
        normalise(digits);
    }
    negative
}

/// Rounds the digits' integer times 2^low to the nearest value of a format, ties to even. The result for 0 is +0. The
/// digits are at most 2^62 in magnitude, and are overwritten. The sum is below 2^3000.
///
/// This is exact, without a case for any range of the result:
///
/// 1. Let S be the integer's magnitude, as a real number, and 2^t its highest bit. The format's values
///    around S are multiples of 2^u with u = max(t − (P − 1), LEAST): P bits of a normal value, fewer
///    of a subnormal one. So S = (q + f)·2^u with an integer q < 2^P, and f in [0, 1).
/// 2. The nearest value is q + up, where up = 1 if f > 1/2, or if f = 1/2 and q is odd. f ≥ 1/2 if the bit
///    below 2^u is set, and f = 1/2 if in addition every lower bit is 0. The last bit of q is the last bit of
///    the encoding, so that "even" has IEEE 754's meaning.
/// 3. The encodings of a format, read as integers, are in the order of the values, without gaps. Below
///    the binade with steps of 2^u lie (u − LEAST + 1)·2^(P−1) encodings: 2^(P−1) of zero and subnormal
///    values, and 2^(P−1) of each binade. There q begins at 2^(P−1). So the encoding of (q + up)·2^u
///    is (u − LEAST)·2^(P−1) + q + up. For a subnormal value, u = LEAST, and the encoding is q + up. If q + up
///    is 2^P, the sum is the first encoding of the next binade, which is the right value.
/// 4. The encoding after the largest finite one is the encoding of Inf. IEEE 754 rounds as if there were one
///    more binade, and returns Inf for every value in it. So larger encodings become that of Inf.
///
/// u − LEAST < 3000 + 1074 < 2^12 − 8, so the sum of step 3 does not overflow 64 bits for f64.
pub fn round<T: Float>(digits: &mut [i64], low: i32) -> T {
    let negative = make_positive(digits);
    let Some(highest) = highest_bit(digits) else { return T::from_encoding(0) };
    // The position of 2^u: below the digits, if there are too few bits.
    let unit = (highest - (T::PRECISION as i32 - 1)).max(T::LEAST - low);
    let q = bits_from(digits, unit);
    let half = bits_from(digits, unit - 1) & 1;
    let up = half & (q | u64::from(any_below(digits, unit - 1)));
    let steps = ((unit + low - T::LEAST) as u64) << (T::PRECISION - 1);
    let encoding = (steps + q + up).min(T::INFINITY);
    T::from_encoding(encoding | u64::from(negative) << (T::BITS - 1))
}

/// The position of the highest bit, or `None` for 0. The digits are normalised and not negative.
pub(crate) fn highest_bit(digits: &[i64]) -> Option<i32> {
    let place = digits.iter().rposition(|&digit| digit != 0)?;
    Some(32 * place as i32 + digits[place].ilog2() as i32)
}

/// The lowest 64 bits of the integer divided by 2^position and rounded down. The digits are normalised and not
/// negative.
pub(crate) fn bits_from(digits: &[i64], position: i32) -> u64 {
    // The last digit has more than 32 bits.
    let first = (position.max(0) / 32).min(digits.len() as i32 - 1);
    let shifts = (32 * first - position..).step_by(32);
    digits.iter().skip(first as usize).take(3).zip(shifts).fold(0, |bits, (&digit, shift)| {
        let digit = digit.cast_unsigned();
        bits | if shift < 0 {
            digit.unbounded_shr(shift.unsigned_abs())
        } else {
            digit.unbounded_shl(shift.unsigned_abs())
        }
    })
}

/// True if a bit below `position` is set. The digits are normalised and not negative.
pub(crate) fn any_below(digits: &[i64], position: i32) -> bool {
    digits.iter().zip((0..position.max(0)).step_by(32)).any(|(&digit, first)| {
        let bits = (position - first).unsigned_abs().min(64);
        digit << (64 - bits) != 0
    })
}
