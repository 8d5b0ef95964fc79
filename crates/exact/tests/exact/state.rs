//! States: any terms, merged in any order, give the words and the result of the exact sum.

use crate::oracle::{
    Case, Random, by_groups, check, check_pairs, deposited, digits, in_windows, is_single, nearest,
    normalised, scale,
};
use gpuvec_exact::{Dot, Float, Guards, Kind, State, Sum};
use num_bigint::BigInt;
use proptest::prelude::*;

crate::for_each_kind! {
    exponents_of_any_range;
    exact_and_near_cancellation;
    subnormal_numbers;
    overflow_that_cancels;
    overflow_of_the_result;
    special_values;
    special_values_anywhere;
    many_terms;
    zeros_give_positive_zero;
    the_digits_hold_two_to_the_62_of_the_largest_terms;
}

mod generic {
    use super::*;

    pub(super) fn exponents_of_any_range<K: Case>() {
        let most = if is_single::<K>() { 126 } else { 1022 };
        let mut random = Random(1);
        for range in [0, 1, 3, 10, 20, 40, 60, 100, 126, 300, 600, 1022] {
            let range = range.min(most);
            for n in [1, 2, 3, 7, 20, 63, 64, 65, 128, 129, 700] {
                let mut scaled = || random.scaled(-range, range);
                let pairs: Vec<_> = (0..n).map(|_| (scaled(), scaled())).collect();
                check_pairs::<K>(&pairs);
            }
        }
    }

    pub(super) fn many_terms<K: Case>() {
        let mut random = Random(16);
        for range in [0, 30] {
            let mut scaled = || random.scaled(-range, range);
            check_pairs::<K>(&(0..100_003).map(|_| (scaled(), scaled())).collect::<Vec<_>>());
        }
    }

    pub(super) fn exact_and_near_cancellation<K: Case>() {
        let most = if is_single::<K>() { 120 } else { 1000 };
        let tiny = if is_single::<K>() { 2_f64.powi(-149) } else { 2_f64.powi(-1074) };
        let mut random = Random(2);
        for range in [0, 5, 30, most] {
            for rest in [0.0, 1.0, -1.0, tiny, -tiny] {
                let mut pairs = Vec::new();
                for _ in 0..150 {
                    let (x, y) = (random.scaled(-range, range), random.scaled(-range, range));
                    pairs.extend([(x, y), (-x, y)]);
                }
                pairs.push((rest, 1.0));
                pairs.push((rest, tiny));
                random.shuffle(&mut pairs);
                check_pairs::<K>(&pairs);
            }
        }
    }

    pub(super) fn subnormal_numbers<K: Case>() {
        let least = K::Element::LEAST;
        let mut random = Random(3);
        for n in [1, 2, 10, 64, 300] {
            let mut tiny = || scale((random.bits() % 1000) as f64 - 500.0, least);
            check_pairs::<K>(&(0..n).map(|_| (tiny(), tiny())).collect::<Vec<_>>());
            check_pairs::<K>(&(0..n).map(|_| (tiny(), 1.0)).collect::<Vec<_>>());
            check_pairs::<K>(&(0..n).map(|i| (tiny(), f64::from(i))).collect::<Vec<_>>());
        }
    }

    pub(super) fn overflow_that_cancels<K: Case>() {
        let largest = K::Element::from_encoding(K::Element::INFINITY - 1).into();
        for copies in [1, 2, 63, 64, 500] {
            let mut pairs = vec![(largest, largest); copies];
            pairs.push((1.5, 1.5));
            pairs.extend(vec![(-largest, largest); copies]);
            check_pairs::<K>(&pairs);
        }
    }

    pub(super) fn overflow_of_the_result<K: Case>() {
        let infinity = K::Element::INFINITY;
        let largest: f64 = K::Element::from_encoding(infinity - 1).into();
        let step = K::Element::TOP - K::Element::PRECISION as i32;
        // Half a step above the largest number is where infinity begins.
        let half = scale(1.0, step - 1);
        for sign in [1.0, -1.0] {
            let terms = |rest: &[f64]| {
                let one = K::term(sign, 1.0);
                let all = [&largest].into_iter().chain(rest).map(|&x| K::term(sign * x, 1.0));
                // Two terms of 1 and −1, which change nothing.
                all.chain([one, K::term(-sign, 1.0)]).collect::<Vec<_>>()
            };
            let encoding = |rest: &[f64]| {
                check::<K>(&terms(rest));
                deposited::<K>(&terms(rest)).value().encoding() & (infinity | (infinity >> 1))
            };
            let below = half * (1.0 - 2_f64.powi(-20));
            assert_eq!(encoding(&[half]), infinity);
            assert_ne!(encoding(&[below]), infinity);
            assert_ne!(encoding(&[half, -1.0]), infinity);
            assert_eq!(encoding(&[half, 1.0]), infinity);
            assert_eq!(encoding(&[largest, largest]), infinity);
        }
    }

    pub(super) fn special_values<K: Case>() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let largest: f64 = K::Element::from_encoding(K::Element::INFINITY - 1).into();
        let value = |pairs: &[(f64, f64)]| -> f64 {
            let terms: Vec<_> = pairs.iter().map(|&(x, y)| K::term(x, y)).collect();
            let (first, second) = terms.split_at(terms.len() / 2);
            let mut state = deposited::<K>(second);
            state.merge(&deposited::<K>(first));
            let (windowed, _) = in_windows::<K, 2>(&terms, Guards::ALL);
            assert_eq!(normalised(&state), normalised(&windowed));
            state.value().into()
        };
        let (one, huge) = ((1.0, 1.0), (-largest, largest));
        assert_eq!(value(&[(inf, 1.0), one]), inf);
        assert_eq!(value(&[one, (inf, 2.0), huge, huge]), inf);
        assert_eq!(value(&[(-inf, 1.0), one, (-inf, 1.0)]), -inf);
        assert!(value(&[(inf, 1.0), one, (-inf, 1.0)]).is_nan());
        assert!(value(&[(nan, 1.0), one]).is_nan());
        assert!(value(&[one, (nan, 0.0), (inf, 1.0)]).is_nan());
        assert!(value(&[(-inf, 1.0), huge, (-nan, 1.0)]).is_nan());
    }

    /// With every finite number as 1, 0 or −1, the processor's sum knows all but the finite results.
    pub(super) fn special_values_anywhere<K: Case>() {
        let largest: f64 = K::Element::from_encoding(K::Element::INFINITY - 1).into();
        let mut random = Random(15);
        let ordinary = [0.0, -0.0, 1.0, -1.0, 2.0, largest, -largest, 1e-30];
        let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        for _ in 0..3000 {
            let rare = 2 + random.below(60);
            let length = random.below(200);
            let mut any = || match random.below(rare) {
                0 => special[random.below(3)],
                _ => ordinary[random.below(8)],
            };
            let pairs: Vec<_> = (0..length).map(|_| (any(), any())).collect();
            let terms: Vec<_> = pairs.iter().map(|&(x, y)| K::term(x, y)).collect();
            let small = |x: f64| if x.is_finite() && x != 0.0 { x.signum() } else { x };
            let small = |term| {
                let (x, y) = K::factors(term);
                small(x) * small(y)
            };
            let expected: f64 = terms.iter().copied().map(small).sum();
            for state in [deposited::<K>(&terms), in_windows::<K, 3>(&terms, Guards::ALL).0] {
                let found: f64 = state.value().into();
                if expected.is_finite() {
                    assert!(state.words().as_ref()[1..4] == [0; 3]);
                } else if expected.is_nan() {
                    let quiet = 1 << (K::Element::PRECISION - 2);
                    assert_eq!(state.value().encoding(), K::Element::INFINITY | quiet);
                } else {
                    assert_eq!(found, expected);
                }
            }
        }
    }

    pub(super) fn zeros_give_positive_zero<K: Case>() {
        for pairs in [
            &[][..],
            &[(0.0, 0.0)],
            &[(-0.0, 1.0)],
            &[(-0.0, 1.0); 200],
            &[(1.0, 1.0), (-1.0, 1.0)],
        ] {
            check_pairs::<K>(pairs);
            let terms: Vec<_> = pairs.iter().map(|&(x, y)| K::term(x, y)).collect();
            assert_eq!(deposited::<K>(&terms).value().encoding(), 0, "{pairs:?}");
        }
    }

    pub(super) fn the_digits_hold_two_to_the_62_of_the_largest_terms<K: Case>() {
        let largest = K::Element::from_encoding(K::Element::INFINITY - 1).into();
        for (x, y) in [(largest, largest), (-largest, largest), (1.0, -1.0 / 3.0)] {
            let term = K::term(x, y);
            let mut state = deposited::<K>(&[term]);
            for doubled in 1..=62 {
                let half = state;
                state.merge(&half);
                let expected: BigInt = by_groups::<K>(&[term]) << doubled;
                assert_eq!(normalised(&state)[4..], digits::<K>(&expected), "2^{doubled} terms");
                assert_eq!(normalised(&state)[0], 1 << doubled);
            }
        }
    }
}

/// The first of algorithm 6.1 of Ogita, Rump and Oishi (Accurate sum and dot product, 2005): a dot
/// product of about the given condition number, by the exact sums of the oracle.
fn ill_conditioned<K: Case>(n: usize, condition: f64, random: &mut Random) -> Vec<K::Term> {
    let bits = condition.log2();
    let half = n / 2;
    let mut exact = BigInt::ZERO;
    let mut terms = Vec::new();
    for i in 0..half {
        let exponent = match i {
            0 => (bits / 2.0).round() as i32 + 1,
            _ if i == half - 1 => 0,
            _ => (random.signed().abs() * bits / 2.0).round() as i32,
        };
        terms.push(K::term(random.scaled(exponent, exponent), random.scaled(exponent, exponent)));
    }
    exact += by_groups::<K>(&terms);
    for i in half..n {
        let part = (n - 1 - i) as f64 / (n - 1 - half) as f64;
        let exponent = (part * bits / 2.0).round() as i32;
        let x = K::factors(K::term(random.scaled(exponent, exponent), 1.0)).0;
        let sum: f64 = nearest(&exact, K::LOW);
        let y = if x == 0.0 { 0.0 } else { (random.scaled(exponent, exponent) - sum) / x };
        let term = K::term(x, y);
        exact += by_groups::<K>(&[term]);
        terms.push(term);
    }
    random.shuffle(&mut terms);
    terms
}

/// The condition number: twice the sum of magnitudes over the magnitude of the sum.
fn condition<K: Case>(terms: &[K::Term]) -> f64 {
    let magnitudes: Vec<_> = terms
        .iter()
        .map(|&term| K::factors(term))
        .map(|(x, y)| K::term(x.abs(), y.abs()))
        .collect();
    let bits = |terms| by_groups::<K>(terms).bits() as f64;
    2_f64.powf(1.0 + bits(&magnitudes) - bits(terms))
}

#[test]
fn ill_conditioned_products() {
    let mut random = Random(4);
    let mut largest = 1_f64;
    for digits in (5..=300).step_by(5) {
        let terms = ill_conditioned::<Dot<f64>>(100, 10_f64.powi(digits), &mut random);
        check::<Dot<f64>>(&terms);
        largest = largest.max(condition::<Dot<f64>>(&terms));
    }
    assert!(largest > 1e295, "the condition numbers reach {largest:e}");
    for digits in 5..=60 {
        check::<Dot<f32>>(&ill_conditioned::<Dot<f32>>(100, 10_f64.powi(digits), &mut random));
    }
}

#[test]
fn products_that_are_not_a_number() {
    for (x, y) in [(0.0, f64::INFINITY), (f64::NEG_INFINITY, -0.0), (f64::NAN, f64::INFINITY)] {
        assert_eq!(deposited::<Dot<f64>>(&[(x, y)]).value().to_bits(), 0x7FF8_0000_0000_0000);
        let single = deposited::<Dot<f32>>(&[(x as f32, y as f32)]);
        assert_eq!(single.value().to_bits(), 0x7FC0_0000);
    }
    // An infinite factor's sign is the product's; a product that f64 cannot hold is not an infinity.
    assert_eq!(deposited::<Dot<f64>>(&[(f64::INFINITY, -1.0)]).value(), f64::NEG_INFINITY);
    assert_eq!(deposited::<Dot<f64>>(&[(1e300, 1e300), (-1e300, 1e300)]).value(), 0.0);
}

#[test]
fn every_nan_is_one() {
    for payload in [1, 2, 0x0040_0000, 0x007F_FFFF] {
        for infinity in [0x7F80_0000_u32, 0xFF80_0000] {
            let nan = f32::from_bits(infinity | payload);
            assert_eq!(deposited::<Sum<f32>>(&[1.0, nan]).value().to_bits(), 0x7FC0_0000);
            let nan = f64::from_bits(u64::from(payload) | 0xFFF0 << 48);
            assert_eq!(deposited::<Sum<f64>>(&[nan, 1.0]).value().to_bits(), 0x7FF8 << 48);
        }
    }
}

/// A product whose rounding error is far below the smallest f64.
#[test]
fn products_whose_error_terms_underflow() {
    let mut random = Random(5);
    for exponent in (-1073..-400).step_by(3) {
        let mut pairs = Vec::new();
        for _ in 0..20 {
            pairs.push((random.scaled(exponent, exponent), random.scaled(-560, -480)));
        }
        check_pairs::<Dot<f64>>(&pairs);
    }
}

#[test]
fn words_of_any_split_are_the_same_state() {
    let state = deposited::<Sum<f32>>(&[1.5, -3.25e-30, 7e30]);
    let mut words = *state.words();
    for digit in 4..words.len() - 1 {
        words[digit] -= 5 << 32;
        words[digit + 1] += 5;
    }
    assert_eq!(normalised(&State::<Sum<f32>>::from_words(words)), normalised(&state));
}

/// Units that are added where windows and kernels add them are the terms that they stand for.
#[test]
fn units_are_added_at_any_exponent() {
    let mut random = Random(6);
    for exponent in -2148..1000 {
        let units = random.bits().cast_signed();
        let mut state = State::<Dot<f64>>::ZERO;
        state.add_units(units, exponent);
        let expected = BigInt::from(units) << (exponent - Dot::<f64>::LOW);
        assert_eq!(normalised(&state)[4..], digits::<Dot<f64>>(&expected));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_bits_of_f32(bits in prop::collection::vec(any::<(u32, u32)>(), 0..150)) {
        let pairs: Vec<(f64, f64)> = bits
            .into_iter()
            .map(|(x, y)| (f32::from_bits(x).into(), f32::from_bits(y).into()))
            .collect();
        check_pairs::<Sum<f32>>(&pairs);
        check_pairs::<Dot<f32>>(&pairs);
    }

    #[test]
    fn any_bits_of_f64(bits in prop::collection::vec(any::<(u64, u64)>(), 0..150)) {
        let pairs: Vec<_> =
            bits.into_iter().map(|(x, y)| (f64::from_bits(x), f64::from_bits(y))).collect();
        check_pairs::<Sum<f64>>(&pairs);
        check_pairs::<Dot<f64>>(&pairs);
    }
}
