//! Means, norms, variances and standard deviations of exact sums, rounded once.
//!
//! For n elements with the sum S and the sum of squares Q, the mean is S / n, the norm √Q, and the variance (n·Q − S²)
//! / (n·(n − ddof)). The sums are integers, in units of 2^LOW and 2^(2·LOW), so these are quotients of integers and
//! their roots. The leading bits decide the rounded result, with one more bit that is set if any bits follow them.

use crate::digits::{self, highest_bit, make_positive, round};
use crate::state::special;
use crate::{COUNTS, Dot, Float, Kind, State, Sum};

/// The words of 64 bits of the longest integer, the square of a sum of f64.
const LIMBS: usize = 70;

/// The least number of bits of a quotient: its root has more bits than an f64.
const QUOTIENT_BITS: i32 = 125;

/// A variance, before it is rounded.
enum Variance {
    /// There are no elements, one is infinite or NaN, or 0 is divided by 0.
    Nan,
    Infinite,
    Finite(Leading),
}

/// The leading bits of a real number that is not negative: (bits + f)·2^exponent, with f in [0, 1).
struct Leading {
    bits: u128,
    exponent: i32,
    /// True if f is not 0.
    has_more: bool,
}

/// The sum divided by the number of elements, rounded to nearest. NaN for no elements. With a NaN or infinite element,
/// it equals the sum.
pub fn mean<K: Kind>(sum: &State<K>) -> K::Element {
    quotient(sum, sum.elements().cast_unsigned())
}

/// The sum divided by an integer, rounded to nearest in any format. NaN if the integer is 0.
pub fn quotient<K: Kind, T: Float>(sum: &State<K>, divisor: u64) -> T {
    match divisor {
        0 => T::from_encoding(T::NAN),
        _ => of_sum(sum, &|sum| sum.over(divisor)),
    }
}

/// The square root of a sum that is not negative, rounded to nearest in any format. Of a sum of squares it is the norm,
/// which is NaN or infinite if an element is.
pub fn root<K: Kind, T: Float>(sum: &State<K>) -> T {
    of_sum(sum, &Leading::root)
}

/// A function of the magnitude of a finite sum, rounded to nearest, with the sum's sign.
fn of_sum<K: Kind, T: Float>(sum: &State<K>, function: &dyn Fn(Leading) -> Leading) -> T {
    let mut words = *sum.words();
    let words = words.as_mut();
    if let Some(encoding) = special::<T>(words) {
        return T::from_encoding(encoding);
    }
    let digits = &mut words[COUNTS..];
    let is_negative = make_positive(digits);
    let Some(highest) = highest_bit(digits) else { return T::from_encoding(0) };
    let encoding = function(Leading::of_digits(digits, highest, K::LOW)).rounded::<T>().encoding();
    T::from_encoding(encoding | u64::from(is_negative) << (T::BITS - 1))
}

/// The variance with the divisor n − ddof of the elements of a sum and their squares, rounded to nearest. NaN for no
/// elements, and if one is infinite or NaN. With a divisor of 0 or less it is infinite, or NaN if all elements are
/// equal.
pub fn variance<T: Float>(sum: &State<Sum<T>>, squares: &State<Dot<T>>, ddof: i64) -> T
where
    Sum<T>: Kind,
    Dot<T>: Kind,
{
    exact(sum, squares, ddof).rounded()
}

/// The square root of the exact [`variance`], rounded to nearest.
pub fn standard_deviation<T: Float>(sum: &State<Sum<T>>, squares: &State<Dot<T>>, ddof: i64) -> T
where
    Sum<T>: Kind,
    Dot<T>: Kind,
{
    match exact(sum, squares, ddof) {
        Variance::Finite(value) => value.root().rounded(),
        other => other.rounded(),
    }
}

fn exact<T: Float>(sum: &State<Sum<T>>, squares: &State<Dot<T>>, ddof: i64) -> Variance
where
    Sum<T>: Kind,
    Dot<T>: Kind,
{
    const { assert!(Dot::<T>::LOW == 2 * Sum::<T>::LOW, "squares of a sum's units") };
    let (mut sum, mut squares) = (*sum.words(), *squares.words());
    of_words(sum.as_mut(), squares.as_mut(), Dot::<T>::LOW, ddof)
}

/// The variance of the words of two states; squares are in units of 2^low. The words are overwritten.
fn of_words(sum: &mut [i64], squares: &mut [i64], low: i32, ddof: i64) -> Variance {
    let n = sum[0];
    if n == 0 || sum[1..COUNTS].iter().any(|count| *count > 0) {
        return Variance::Nan;
    }
    let mut spread = limbs(&mut squares[COUNTS..]);
    multiply(&mut spread, n.cast_unsigned());
    subtract_square(&mut spread, &limbs(&mut sum[COUNTS..]));
    match (n.saturating_sub(ddof), bits_of(&spread)) {
        (..=0, 0) => Variance::Nan,
        (..=0, _) => Variance::Infinite,
        (divisor, _) => {
            let divisors = [n, divisor].map(i64::cast_unsigned);
            Variance::Finite(Leading::of_quotient(&spread, low, divisors))
        }
    }
}

impl Variance {
    fn rounded<T: Float>(self) -> T {
        match self {
            Variance::Nan => T::from_encoding(T::NAN),
            Variance::Infinite => T::from_encoding(T::INFINITY),
            Variance::Finite(value) => value.rounded(),
        }
    }
}

impl Leading {
    /// The 128 highest bits of the digits' integer, in units of 2^low. The digits are normalised and not negative.
    #[inline(never)]
    fn of_digits(digits: &[i64], highest: i32, low: i32) -> Self {
        let first = highest - 127;
        let [lower, upper] =
            [first, first + 64].map(|position| digits::bits_from(digits, position));
        Leading {
            bits: u128::from(upper) << 64 | u128::from(lower),
            exponent: low + first,
            has_more: digits::any_below(digits, first),
        }
    }

    /// An integer, in units of 2^low, divided by two others.
    fn of_quotient(dividend: &[u64; LIMBS], low: i32, divisors: [u64; 2]) -> Self {
        let divisor_bits: u32 =
            divisors.iter().map(|divisor| u64::BITS - divisor.leading_zeros()).sum();
        let first = bits_of(dividend) - divisor_bits as i32 - QUOTIENT_BITS;
        let mut leading = [0, 64, 128, 192].map(|above| bits_from(dividend, first + above));
        let mut has_more = any_below(dividend, first);
        for divisor in divisors {
            has_more |= divide(&mut leading, divisor) != 0;
        }
        let bits = u128::from(leading[1]) << 64 | u128::from(leading[0]);
        Leading { bits, exponent: low + first, has_more }
    }

    /// The quotient by an integer. If this has 128 bits, the quotient has at least 64.
    fn over(self, divisor: u64) -> Self {
        let divisor = u128::from(divisor);
        let has_more = self.has_more || !self.bits.is_multiple_of(divisor);
        Leading { bits: self.bits / divisor, has_more, ..self }
    }

    /// The square root. If this has 122 bits, the root has at least 60.
    fn root(self) -> Self {
        let odd = self.exponent & 1;
        let (whole, is_cut) = (self.bits >> odd, self.bits & odd as u128 != 0);
        let bits = whole.isqrt();
        let has_more = self.has_more || is_cut || bits * bits != whole;
        Leading { bits, exponent: (self.exponent + odd) / 2, has_more }
    }

    /// The nearest float.
    #[inline(never)]
    fn rounded<T: Float>(self) -> T {
        let digit = |place: u32| i64::from((self.bits >> (32 * place)) as u32);
        let mut digits = [i64::from(self.has_more), digit(0), digit(1), digit(2), digit(3)];
        round(&mut digits, self.exponent - 32)
    }
}

/// The magnitude of the digits' integer. Overwrites the digits.
fn limbs(digits: &mut [i64]) -> [u64; LIMBS] {
    make_positive(digits);
    let mut limbs = [0; LIMBS];
    for (place, digit) in digits.iter().enumerate() {
        // The last digit may have more than 32 bits.
        let shifted = u128::from(digit.cast_unsigned()) << (place % 2 * 32);
        limbs[place / 2] |= shifted as u64;
        limbs[place / 2 + 1] |= (shifted >> 64) as u64;
    }
    limbs
}

fn multiply(limbs: &mut [u64; LIMBS], factor: u64) {
    let mut carry = 0;
    for limb in limbs {
        let product = u128::from(*limb) * u128::from(factor) + carry;
        *limb = product as u64;
        carry = product >> 64;
    }
}

/// Subtracts the square of an integer, which is not larger.
fn subtract_square(limbs: &mut [u64; LIMBS], root: &[u64; LIMBS]) {
    let len = root.iter().rposition(|limb| *limb != 0).map_or(0, |last| last + 1);
    for (place, factor) in root[..len].iter().enumerate().filter(|(_, factor)| **factor != 0) {
        let mut borrow = 0;
        for (other, limb) in limbs[place..].iter_mut().enumerate() {
            if other >= len && borrow == 0 {
                break;
            }
            let product = u128::from(*factor) * u128::from(root[other]) + u128::from(borrow);
            let (rest, is_less) = limb.overflowing_sub(product as u64);
            *limb = rest;
            borrow = (product >> 64) as u64 + u64::from(is_less);
        }
    }
}

/// Divides an integer of few bits, and returns the remainder.
fn divide(limbs: &mut [u64; 4], divisor: u64) -> u64 {
    limbs.iter_mut().rev().fold(0, |remainder, limb| {
        let dividend = u128::from(remainder) << 64 | u128::from(*limb);
        *limb = (dividend / u128::from(divisor)) as u64;
        (dividend as u64).wrapping_sub(limb.wrapping_mul(divisor))
    })
}

/// The number of an integer's bits.
fn bits_of(limbs: &[u64; LIMBS]) -> i32 {
    let last = limbs.iter().rposition(|limb| *limb != 0);
    last.map_or(0, |last| 64 * last as i32 + limbs[last].ilog2() as i32 + 1)
}

/// 64 bits of an integer from a position on, which may be negative.
fn bits_from(limbs: &[u64; LIMBS], position: i32) -> u64 {
    let limb = |place: i32| usize::try_from(place).ok().and_then(|place| limbs.get(place));
    let [low, high] =
        [0, 1].map(|next| limb(position.div_euclid(64) + next).map_or(0, |limb| u128::from(*limb)));
    ((high << 64 | low) >> position.rem_euclid(64)) as u64
}

/// True if a bit below `position` is set.
fn any_below(limbs: &[u64; LIMBS], position: i32) -> bool {
    let bits = position.max(0) as usize;
    let (whole, rest) = limbs.split_at((bits / 64).min(LIMBS));
    whole.iter().any(|limb| *limb != 0)
        || rest.first().is_some_and(|limb| limb & !(u64::MAX << (bits % 64)) != 0)
}
