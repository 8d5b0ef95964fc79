//! The final rounding: ties and their neighbours at every bit, and integers of any size.

use crate::oracle::{Case, Random, nearest};
use gpuvec_exact::{Dot, Float, Kind, State, Sum, round};
use num_bigint::BigInt;

crate::for_each_kind! {
    ties_and_their_neighbours_at_every_bit;
    integers_of_any_size;
}

mod generic {
    use super::*;

    /// Between an encoding and the next lies a tie; from there on every bit below decides.
    pub(super) fn ties_and_their_neighbours_at_every_bit<K: Case>() {
        let precision = K::Element::PRECISION;
        let binades = K::Element::INFINITY >> (precision - 1);
        let mut random = Random(7);
        for binade in 0..binades {
            let first = binade << (precision - 1);
            let last = first + (1 << (precision - 1)) - 1;
            let between = first + random.bits() % (last - first);
            // The exponent of half a step.
            let half = K::Element::LEAST + (binade.max(1) - 1) as i32 - 1;
            // Every bit in each binade of f32, and in some of f64.
            let every = precision == 24 || binade % 128 == 0 || binade + 1 == binades;
            let step = if every { 1 } else { 293 };
            for encoding in [first, first + 1, between, last - 1, last] {
                if half < K::LOW {
                    continue; // A sum has no bits there.
                }
                let even = encoding + (encoding & 1);
                assert_eq!(rounded::<K>(encoding, half, 0), even);
                assert_eq!(rounded::<K>(encoding, half, 1), encoding + 1);
                assert_eq!(rounded::<K>(encoding, half, -1), encoding);
                for bit in (K::LOW..half).step_by(step) {
                    assert_eq!(neighbour::<K>(encoding, half, bit, 1), encoding + 1, "2^{bit}");
                    assert_eq!(neighbour::<K>(encoding, half, bit, -1), encoding, "-2^{bit}");
                }
            }
        }
    }

    /// Rounds the tie above an encoding plus `units` of 2^LOW, with both signs.
    fn rounded<K: Case>(encoding: u64, half: i32, units: i64) -> u64 {
        if half == K::LOW && units != 0 {
            // The neighbours of the tie are the floats themselves.
            return if units > 0 { encoding + 1 } else { encoding };
        }
        neighbour::<K>(encoding, half, K::LOW, units)
    }

    fn neighbour<K: Case>(encoding: u64, half: i32, bit: i32, units: i64) -> u64 {
        let fraction = (1 << (K::Element::PRECISION - 1)) - 1;
        let implicit = if encoding > fraction { fraction + 1 } else { 0 };
        let significand = (encoding & fraction | implicit).cast_signed();
        let result = |sign: i64| {
            let mut state = State::<K>::ZERO;
            state.add_units(sign * (2 * significand + 1), half);
            state.add_units(sign * units, bit);
            state.value().encoding()
        };
        let sign = 1 << (K::Element::BITS - 1);
        assert_eq!(result(1) | sign, result(-1), "the signs");
        result(1)
    }

    pub(super) fn integers_of_any_size<K: Case>() {
        let mut random = Random(8);
        for _ in 0..3000 {
            // Runs of zeros, of ones and of random bits, in carry-save form, of any length.
            let mut digits = vec![0; 1 + random.below(K::DIGITS)];
            for digit in &mut digits {
                *digit = [0, -1, 0xFFFF_FFFF, random.bits().cast_signed() >> 2][random.below(4)];
            }
            let zeros = random.below(digits.len());
            digits[..zeros].fill(0);
            let low = K::LOW + random.below(200) as i32;
            let exact = integer(&digits);
            let expected: K::Element = nearest(&exact, low);
            let found: K::Element = round(&mut digits, low);
            assert_eq!(found.encoding(), expected.encoding(), "{found:?} {expected:?}");
        }
    }
}

fn integer(digits: &[i64]) -> BigInt {
    digits.iter().rev().fold(BigInt::ZERO, |sum, &digit| (sum << 32_u32) + digit)
}

/// The processor's rounding of f64 to f32 is a third oracle.
#[test]
fn short_integers_round_as_the_processor_rounds() {
    let mut random = Random(9);
    let compare = |units: i64, exponent: i32| {
        let exact = units as f64 * 2_f64.powi(exponent);
        let mut digits = [units & 0xFFFF_FFFF, units >> 32];
        let found: f32 = round(&mut digits, exponent);
        assert_eq!(found.to_bits(), ((exact + 0.0) as f32).to_bits(), "{units} 2^{exponent}");
    };
    for exponent in [-170, -160, -152, -151, -150, -149, -126, -100, -24, 0, 100, 104, 105, 120] {
        for units in -70_000..70_000 {
            compare(units, exponent);
        }
        for _ in 0..40_000 {
            compare(random.bits().cast_signed() >> (11 + random.below(50)), exponent);
        }
    }
}

/// Results are not rounded to f64 on the way to f32: that would round a tie's neighbour to the tie, and then
/// to even.
#[test]
fn results_of_f32_round_once() {
    let mut state = State::<Dot<f32>>::ZERO;
    state.deposit((1.0, 1.0));
    state.deposit((2_f32.powi(-12), 2_f32.powi(-12)));
    state.deposit((2_f32.powi(-60), 2_f32.powi(-60)));
    assert_eq!(state.value(), 1.0 + f32::EPSILON);
    state.deposit((-(2_f32.powi(-59)), 2_f32.powi(-60)));
    assert_eq!(state.value(), 1.0);
}

/// The last digit has 64 bits, and each of those below a tie decides.
#[test]
fn long_last_digits_round_as_others() {
    let (lowest, tie) = (1 << 61, 1 << 37);
    assert_eq!(round::<f32>(&mut [0, lowest | tie], 0).to_bits(), 0x6E00_0000);
    for bit in 0..37 {
        assert_eq!(round::<f32>(&mut [0, lowest | tie | 1 << bit], 0).to_bits(), 0x6E00_0001);
    }
    assert_eq!(round::<f32>(&mut [1, lowest | tie], 0).to_bits(), 0x6E00_0001);
}

#[test]
fn no_digits_are_zero() {
    assert_eq!(round::<f64>(&mut [], 0).to_bits(), 0);
    assert_eq!(round::<f32>(&mut [0, 0, 0], Sum::<f32>::LOW).to_bits(), 0);
}
