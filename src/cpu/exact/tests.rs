//! Every instruction set gives the words of deposits, one by one, and needs each of its guards.

use super::lanes::add_parts;
use super::*;
use gpuvec_exact::{COUNTS, Dot, Kind, Sum};
use proptest::prelude::*;
use std::iter::zip;
use std::ops::Range;

fn deposited<K: Vectorised>(a: &[K::Element], b: &[K::Element]) -> State<K> {
    let mut state = State::ZERO;
    a.iter().zip(b).for_each(|(&x, &y)| state.deposit(K::term_of(x, y)));
    state
}

fn accumulated<K: Vectorised, C: Conditions>(
    isa: Isa, a: &[K::Element], b: &[K::Element],
) -> State<K> {
    let mut state = State::ZERO;
    accumulate::<K, C>(isa, &mut state, Inputs::new(a, b));
    state
}

fn words<K: Kind>(mut state: State<K>) -> Vec<i64> {
    state.normalise();
    state.words().as_ref().to_vec()
}

fn check<K: Vectorised>(a: &[K::Element], b: &[K::Element]) {
    let exact = deposited::<K>(a, b);
    for isa in Isa::all() {
        assert_eq!(words(accumulated::<K, All>(isa, a, b)), words(exact), "{isa:?}");
        let value = value::<K, All>(isa, Inputs::new(a, b));
        assert_eq!(value.encoding(), exact.value().encoding(), "{isa:?}");
        if K::PRODUCTS {
            assert_within::<K>(isa, a, b, &exact);
        }
    }
}

/// Asserts that the sum within a bound, of two pieces, has ends which differ and hold the exact sum between them.
fn assert_within<K: Vectorised>(isa: Isa, a: &[K::Element], b: &[K::Element], exact: &State<K>) {
    let sum = |range: Range<usize>| {
        let mut sum = Bounded::<K>::ZERO;
        sum.accumulate(isa, Inputs::new(&a[range.clone()], &b[range]));
        sum
    };
    let mut merged = sum(0..a.len() / 3);
    merged.merge(&sum(a.len() / 3..a.len()));
    // Ordinary numbers alone have such a sum.
    let Some([least, most]) = merged.ends() else { return };
    let sign = |greater: &State<K>, less: &State<K>| {
        let mut words = *greater.words();
        zip(words.as_mut(), less.words().as_ref()).for_each(|(word, other)| *word -= other);
        // All normalised digits but the last are positive or 0.
        let difference = State::<K>::from_words(words);
        let digits = &difference.words().as_ref()[COUNTS..];
        digits.iter().rev().find(|digit| **digit != 0).map_or(0, |digit| digit.signum())
    };
    assert!(sign(exact, &least) > 0 && sign(&most, exact) > 0, "{isa:?}");
    assert_eq!(least.elements(), a.len() as i64);
}

fn check_all(pairs: &[(f64, f64)]) {
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let [c, d]: [Vec<f32>; 2] = [&a, &b].map(|array| array.iter().map(|&x| x as f32).collect());
    check::<Dot<f64>>(&a, &b);
    check::<Sum<f64>>(&a, &a);
    check::<Dot<f32>>(&c, &d);
    check::<Sum<f32>>(&c, &c);
    check_lanes::<Sum<f64>>(&a, &a);
    check_lanes::<Dot<f32>>(&c, &d);
    check_lanes::<Sum<f32>>(&c, &c);
}

/// Asserts that the sum of a row, if lanes hold it, and those of columns are exact.
fn check_lanes<K: LaneKind>(a: &[K::Element], b: &[K::Element]) {
    for isa in Isa::all() {
        if let Some(parts) = row::<K>(isa, Inputs::new(a, b)) {
            let mut state = State::<K>::ZERO;
            add_parts(&mut state, parts, a.len());
            assert_eq!(words(state), words(deposited::<K>(a, b)), "{isa:?}");
        }
        check_columns::<K>(isa, a, b);
    }
}

/// Asserts that columns which are added in two parts, where lanes do not hold them to states, are summed.
fn check_columns<K: LaneKind>(isa: Isa, a: &[K::Element], b: &[K::Element]) {
    const FIRST: usize = 3;
    const LEN: usize = 29;
    let rows = (a.len() / LEN).min(300);
    let stride = (LEN * size_of::<K::Element>()) as isize;
    // SAFETY: the arrays have these rows.
    let columns = unsafe { Columns::new([a.as_ptr(), b.as_ptr()], [stride; 2], rows, LEN) };
    let of_column = |array: &[K::Element], rows: Range<usize>, column: usize| -> Vec<_> {
        rows.map(|row| array[row * LEN + column]).collect()
    };
    let (mut lanes, mut states) = (LaneSums::<K>::default(), [State::<K>::ZERO; LEN]);
    lanes.reserve(FIRST + LEN).unwrap();
    for rows in [0..rows / 3, rows / 3..rows] {
        let inexact = lanes.add(isa, FIRST, columns.part(rows.clone()));
        let lost: Vec<_> = (0..LEN).filter(|column| !lanes.is_exact(FIRST + column)).collect();
        assert_eq!(lost.len(), inexact);
        for column in lost {
            let lane = FIRST + column;
            lanes.restore(lane..lane + 1);
            let [a, b] = [a, b].map(|array| of_column(array, rows.clone(), column));
            states[column].merge(&deposited::<K>(&a, &b));
        }
    }
    for (column, state) in states.iter_mut().enumerate() {
        lanes.empty(FIRST + column, state);
        let [a, b] = [a, b].map(|array| of_column(array, 0..rows, column));
        assert_eq!(words(*state), words(deposited::<K>(&a, &b)), "{isa:?}, column {column}");
    }
}

/// Numbers of kinds that meet in arrays: of a few scales, or any.
fn number() -> impl Strategy<Value = f64> {
    let scaled = |exponents| {
        (-1.0..1.0, exponents).prop_map(|(x, exponent): (f64, i32)| {
            x * 2_f64.powi(exponent / 2) * 2_f64.powi(exponent - exponent / 2)
        })
    };
    prop_oneof![
        20 => -1.0..1.0,
        5 => (-100..100).prop_map(f64::from),
        5 => Just(0.0),
        2 => Just(-0.0),
        2 => scaled(-60..60),
        1 => scaled(-149..128),
        1 => scaled(-1074..1024),
        1 => any::<f64>(),
        1 => any::<f32>().prop_map(f64::from),
    ]
}

/// Of one kind throughout, or mixed.
fn numbers() -> impl Strategy<Value = Vec<(f64, f64)>> {
    let scale = prop_oneof![
        3 => Just(0),
        1 => -140..120_i32,
        1 => -1000..1000_i32,
        1 => Just(-1060),
    ];
    let ordinary = (prop::collection::vec((-1.0..1.0, -1.0..1.0), 0..3000), scale).prop_map(
        |(pairs, exponent): (Vec<(f64, f64)>, i32)| {
            let power = 2_f64.powi(exponent / 2);
            let scale = |x: f64| x * power * power;
            pairs.into_iter().map(|(x, y)| (scale(x), y)).collect()
        },
    );
    prop_oneof![ordinary, prop::collection::vec((number(), number()), 0..3000)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_words_are_those_of_deposits(pairs in numbers(), offset in 0_usize..9) {
        check_all(&pairs[offset.min(pairs.len())..]);
    }

    #[test]
    fn the_words_of_a_few_are_those_of_deposits(pairs in prop::collection::vec((number(), number()), 0..70)) {
        check_all(&pairs);
    }
}

/// Of these a window would have the sum, too.
#[test]
fn a_few_ordinary_terms_need_no_window() {
    fn check<K: Vectorised>(most: usize, array: &[K::Element]) {
        for len in 1..=most {
            let few = Inputs::new(&array[..len], &array[..len]);
            let exact = deposited::<K>(few.a, few.b).value().encoding();
            for isa in Isa::all().filter(|isa| isa.has_fma() || !K::ERRORS) {
                let sum = short_sum::<K>(isa, few).map(Float::encoding);
                assert_eq!(sum, Some(exact), "{len} terms, {isa:?}");
            }
        }
    }
    let a: Vec<f64> = (1..=64).map(|i| 1.0 / f64::from(i) - 0.3).collect();
    let c: Vec<f32> = a.iter().map(|&x| x as f32).collect();
    check::<Sum<f64>>(16, &a);
    check::<Dot<f64>>(16, &a);
    check::<Sum<f32>>(32, &c);
    check::<Dot<f32>>(32, &c);
}

/// Lengths around the widths of vectors, rows, blocks and parts, and around all blocks of a window.
#[test]
fn every_length_is_summed() {
    let pairs: Vec<_> = (0..(64 << 12) + 200)
        .map(|i| (f64::from(i % 1009) - 500.0, 1.0 / f64::from(i % 31 + 1)))
        .collect();
    for around in [0, 8, 16, 32, 64, 128, 512, 1024, 2048, 4096, 8192, 64 << 10, 64 << 12] {
        for len in (around - around.min(3)..around + 4).chain([around + 77]) {
            check_all(&pairs[1..][..len]);
        }
    }
}

/// One number of another kind in long ordinary arrays.
#[test]
fn a_single_number_of_another_kind_is_summed() {
    let specials = [
        (f64::INFINITY, 1.0),
        (f64::NEG_INFINITY, 1.0),
        (f64::NAN, 1.0),
        (f64::INFINITY, 0.0),
        (0.0, f64::NEG_INFINITY),
        (-0.0, 1.0),
        (1e300, 1e300),
        (f64::MAX, -1.0),
        (f64::MAX, f64::MAX),
        (f64::from(f32::MAX), f64::from(f32::MAX)),
        (1e-300, 1e-300),
        (5e-324, 1.0),
        (5e-324, 5e-324),
        (1e-45, 1e-45),
        (2_f64.powi(-500), 2_f64.powi(-500)),
        (2_f64.powi(100), 1.0 / 3.0),
    ];
    for special in specials {
        for place in [0, 5, 200, 4000, 4999] {
            let mut pairs: Vec<_> =
                (0..5000).map(|i| (f64::from(i % 97) / 7.0, f64::from(i % 89) - 44.0)).collect();
            pairs[place] = special;
            check_all(&pairs);
        }
    }
}

/// All rounding errors of a level are ties, or of one sign.
#[test]
fn the_largest_rests_are_summed() {
    for exponent in -60..60 {
        for sign in [1.0, -1.0] {
            let largest = 2_f64.powi(exponent);
            for term in
                [largest * (1.0 - 2_f64.powi(-53)), largest / 2.0 + largest * 2_f64.powi(-45)]
            {
                check_all(&[(sign * term, 1.0 - 2_f64.powi(-53)); 4200]);
            }
        }
    }
}

/// Numbers of all digits: the largest fill the accumulators, and the smallest are as small as the window takes, and
/// smaller; down to subnormal ones.
#[test]
fn f32_of_every_range_are_summed() {
    for top in [-148, -130, -127, -126, -100, 0, 127] {
        let largest = 2_f32.powi(top) * (2.0 - 2_f32.powi(-23));
        for range in 0..30 {
            let least = 2_f32.powi(top - range) * (1.0 + 2_f32.powi(-23));
            let others = [(3, least), (70, 0.0), (95, -0.0), (4000, -least), (6000, least)];
            for sign in [1.0, -1.0] {
                let a = after_ordinary(sign * largest, &others);
                check::<Sum<f32>>(&a, &a);
                check::<Sum<f32>>(&a[8_003..8_300], &a[8_003..8_300]);
            }
        }
    }
}

/// The smallest number of all, among ones for which the window's unit is that number, half of it, or more.
#[test]
fn the_smallest_f32_is_summed() {
    for exponent in -110..-100 {
        let a = after_ordinary(2_f32.powi(exponent), &[(7, f32::from_bits(1))]);
        check::<Sum<f32>>(&a, &a);
    }
}

/// A window holds all but a few terms of a block.
#[test]
fn small_numbers_among_ordinary_ones_are_summed() {
    for len in [1_000, 1_500, 5_000, 20_000] {
        for every in [2, 300, 900, 4_000] {
            let small = |i: usize| if i % every == 7 { 2_f64.powi(-90) } else { 1.0 };
            let pairs: Vec<_> = (0..len).map(|i| (i as f64 / 7.0 * small(i), 0.3)).collect();
            check_all(&pairs);
        }
    }
}

/// Also with an outlier, for which the window has to be chosen again, but for instruction sets without fused operations.
#[test]
fn ordinary_products_have_a_sum_within_a_bound() {
    let ordinary: Vec<f64> = (0..9_000).map(|i| f64::from(i % 97) / 7.0 - 5.0).collect();
    let mut with_outlier = ordinary.clone();
    with_outlier[5_000] = 1e6;
    for a in [ordinary, with_outlier] {
        let c: Vec<f32> = a.iter().map(|&x| x as f32).collect();
        for isa in Isa::all().filter(|isa| isa.has_fma()) {
            let mut sum = Bounded::<Dot<f64>>::ZERO;
            sum.accumulate(isa, Inputs::new(&a, &a));
            assert_eq!(sum.value(), Some(deposited::<Dot<f64>>(&a, &a).value()), "{isa:?}");
            let mut sum = Bounded::<Dot<f32>>::ZERO;
            sum.accumulate(isa, Inputs::new(&c, &c));
            assert_eq!(sum.value(), Some(deposited::<Dot<f32>>(&c, &c).value()), "{isa:?}");
        }
    }
}

/// One and half a unit in its last place, with a part that a bounded sum leaves out.
#[test]
fn sums_next_to_the_middle_of_two_numbers_are_rounded() {
    for (half, rest) in
        [(-24, -60), (-24, -100), (-24, -140), (-53, -100), (-53, -200), (-53, -1074)]
    {
        let [half, rest] = [half, rest].map(|exponent| 2_f64.powi(exponent));
        for len in [6, 20, 1_100, 9_000] {
            for signs in [[1.0, 0.0], [1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] {
                let mut pairs = vec![(0.0, 0.0); len];
                pairs[0] = (1.0, 1.0);
                pairs[len / 16 + 1] = (half, signs[0]);
                pairs[len - 4] = (rest, signs[1]);
                check_all(&pairs);
            }
        }
    }
}

macro_rules! without {
    ($($name:ident: $guard:ident;)+) => {
        $(struct $name;

        impl Conditions for $name {
            const GUARDS: Guards = Guards { $guard: false, ..Guards::ALL };
        })+
    };
}

without! {
    NoLimit: limit;
    NoWitness: witness;
    NoFloor: floor;
    NoZero: zero;
}

/// Asserts that sums are exact, but with no instruction set without one of the guards.
fn assert_needed<K: Vectorised, C: Conditions>(a: &[K::Element], b: &[K::Element]) {
    check::<K>(a, b);
    let exact = words(deposited::<K>(a, b));
    for isa in Isa::all().filter(|isa| isa.has_fma() || !K::ERRORS) {
        assert_ne!(words(accumulated::<K, C>(isa, a, b)), exact, "{isa:?}");
    }
}

/// Ordinary numbers, with others well after the window was chosen.
fn after_ordinary<T: Copy>(ordinary: T, others: &[(usize, T)]) -> Vec<T> {
    let mut array = vec![ordinary; 16_384];
    others.iter().for_each(|&(place, x)| array[8_000 + place] = x);
    array
}

/// 2^90 and its negative in one lane, with zeros between them.
#[test]
fn without_the_limit_bits_are_lost_while_a_large_term_is_there() {
    let large = 2_f64.powi(90);
    for apart in [8, 16, 32, 64] {
        let mut others: Vec<_> = (1..apart).map(|i| (i, 0.0)).collect();
        others.extend([(0, large), (apart, -large)]);
        let a = after_ordinary(1.0, &others);
        let b = vec![1.0; a.len()];
        let [c, d]: [Vec<f32>; 2] = [&a, &b].map(|array| array.iter().map(|&x| x as f32).collect());
        check::<Dot<f64>>(&a, &b);
        check::<Sum<f64>>(&a, &a);
        check::<Dot<f32>>(&c, &d);
        check::<Sum<f32>>(&c, &c);
        // With every instruction set a lane has every 64th number there.
        if apart == 64 {
            assert_needed::<Dot<f64>, NoLimit>(&a, &b);
            assert_needed::<Sum<f64>, NoLimit>(&a, &a);
            assert_needed::<Dot<f32>, NoLimit>(&c, &d);
            assert_needed::<Sum<f32>, NoLimit>(&c, &c);
        }
    }
}

#[test]
fn without_the_limit_nan_is_lost() {
    let a = after_ordinary(1.0, &[(7, f64::NAN)]);
    assert_needed::<Sum<f64>, NoLimit>(&a, &a);
}

#[test]
fn without_the_witness_small_terms_are_lost() {
    let a = after_ordinary(1.0, &[(7, 2_f64.powi(-200))]);
    let c = after_ordinary(1.0, &[(7, 2_f32.powi(-100))]);
    assert_needed::<Dot<f64>, NoWitness>(&a, &vec![1.0; a.len()]);
    assert_needed::<Sum<f64>, NoWitness>(&a, &a);
    assert_needed::<Dot<f32>, NoWitness>(&c, &vec![1.0; c.len()]);
    assert_needed::<Sum<f32>, NoWitness>(&c, &c);
}

/// x² = 2^−990 (1 + 2^−43 + 2^−88) among products near 2^−900: its error term is less than half the smallest
/// f64, and the rest fits into the window.
#[test]
fn without_the_floor_error_terms_underflow() {
    let x = 2_f64.powi(-495) * (1.0 + 2_f64.powi(-44));
    let a = after_ordinary(2_f64.powi(-450), &[(7, x)]);
    assert_needed::<Dot<f64>, NoFloor>(&a, &a);
    for s in -1000..-960 {
        for bits in 40..50 {
            let x = 2_f64.powi(s / 2) * (1.0 + 2_f64.powi(-bits));
            let a = after_ordinary(2_f64.powi(-450), &[(7, x)]);
            check::<Dot<f64>>(&a[7_000..], &a[7_000..]);
        }
    }
}

#[test]
fn without_the_test_for_zero_products_underflow() {
    let a = after_ordinary(1.0, &[(7, 1e-200), (8, 0.0)]);
    assert_needed::<Dot<f64>, NoZero>(&a, &a);
    let mut b = vec![1e-300; 100];
    b.push(-1e-300);
    assert_needed::<Dot<f64>, NoZero>(&b, &b);
}

/// The counts are the state's first words.
#[test]
fn elements_are_counted() {
    let a = after_ordinary(1.0, &[(1, f64::NAN), (900, f64::INFINITY), (901, f64::NEG_INFINITY)]);
    for isa in Isa::all() {
        let words = words(accumulated::<Sum<f64>, All>(isa, &a, &a));
        assert_eq!(words[..gpuvec_exact::COUNTS], [a.len() as i64, 1, 1, 1]);
    }
}

/// For each instruction set, or for each different answer, true if lanes hold the sum of a row.
fn are_held<K: LaneKind>(a: &[K::Element]) -> Vec<bool> {
    let held = |isa| row::<K>(isa, Inputs::new(a, a)).is_some();
    let mut all: Vec<bool> = Isa::all().map(held).collect();
    all.dedup();
    all
}

/// Terms of two sizes, whose exponents differ by `range`, with all bits of a significand.
fn of_two_sizes<T: Float>(range: i32, terms: usize) -> Vec<T> {
    let ones = (1 << (T::PRECISION - 1)) - 1;
    let term = |i: usize| {
        let exponent =
            if i.is_multiple_of(3) { range } else { 0 } + 1 - T::LEAST - T::PRECISION as i32;
        T::from_encoding((exponent as u64) << (T::PRECISION - 1) | (ones - (i as u64 % 8)))
    };
    (0..terms).map(term).collect()
}

#[test]
fn lanes_hold_sums_of_terms_in_their_range_and_no_others() {
    for log in 0..=12 {
        let terms = 1_usize << log;
        for range in 0..80 {
            let [a, b] = [of_two_sizes::<f64>(range, terms), of_two_sizes::<f64>(-range, terms)];
            let [c, d] = [of_two_sizes::<f32>(range, terms), of_two_sizes::<f32>(-range, terms)];
            for (a, c) in [(a, c), (b, d)] {
                check_lanes::<Sum<f64>>(&a, &a);
                check_lanes::<Sum<f32>>(&c, &c);
                check_lanes::<Dot<f32>>(&c, &c);
                // One term is of one size.
                let is_held = |most: i32| range <= most || terms == 1;
                let message = format!("{terms} terms, a range of {range}");
                assert_eq!(are_held::<Sum<f64>>(&a), [is_held(51 - 2 * log)], "{message}");
                assert_eq!(are_held::<Sum<f32>>(&c), [is_held(80 - 2 * log)], "{message}");
            }
        }
    }
}

#[test]
fn lanes_hold_ordinary_data_and_no_terms_that_are_not_finite() {
    let ordinary: Vec<f64> = (1..4000).map(|i| 1.0 / f64::from(i) - 0.3).collect();
    assert_eq!(are_held::<Sum<f64>>(&ordinary), [true]);
    for special in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300] {
        for place in [0, 1, 16, 3998] {
            let mut values = ordinary.clone();
            values[place] = special;
            assert_eq!(are_held::<Sum<f64>>(&values), [false]);
        }
    }
    assert_eq!(are_held::<Sum<f64>>(&[0.0; 4097]), [false]);
}
