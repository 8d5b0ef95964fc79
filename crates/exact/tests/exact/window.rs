//! Windows: ordinary terms fit, and no guard can be left out.

use crate::oracle::{Case, Random, check, deposited, in_windows, normalised};
use gpuvec_exact::{Dot, Guards, Kind, LEVEL_BITS, Sum};

/// Asserts that terms are summed exactly, but not without one of the guards.
fn assert_needed<K: Case, const LEVELS: usize>(terms: &[K::Term], without: Guards) {
    let exact = normalised(&deposited::<K>(terms));
    assert_eq!(normalised(&in_windows::<K, LEVELS>(terms, Guards::ALL).0), exact);
    assert_ne!(normalised(&in_windows::<K, LEVELS>(terms, without).0), exact);
}

/// Terms for which a window is chosen, and a block after them.
fn after_ordinary<T: Copy>(ordinary: T, block: &[T]) -> Vec<T> {
    let mut terms = vec![ordinary; 256];
    terms.extend(block);
    terms
}

#[test]
fn without_the_limit_bits_are_lost_while_a_large_term_is_there() {
    let without = Guards { limit: false, ..Guards::ALL };
    let large = 2_f64.powi(90);
    let mut block = vec![0.0; 64];
    (block[3], block[8], block[24]) = (1.0 / 3.0, large, -large);
    assert_needed::<Sum<f64>, 2>(&after_ordinary(1.0, &block), without);
    let block: Vec<_> = block.into_iter().map(|x| (x, 1.0)).collect();
    assert_needed::<Dot<f64>, 3>(&after_ordinary((1.0, 1.0), &block), without);
    let block: Vec<_> = block.into_iter().map(|(x, y)| (x as f32, y as f32)).collect();
    assert_needed::<Dot<f32>, 2>(&after_ordinary((1.0, 1.0), &block), without);
    let block: Vec<_> = block.into_iter().map(|(x, _)| x).collect();
    assert_needed::<Sum<f32>, 1>(&after_ordinary(1.0, &block), without);
}

#[test]
fn without_the_limit_an_overflow_counts_as_units() {
    let without = Guards { limit: false, ..Guards::ALL };
    assert_needed::<Sum<f64>, 2>(&after_ordinary(1.0, &[2_f64.powi(60)]), without);
}

#[test]
fn without_the_witness_small_terms_and_nan_are_lost() {
    let without = Guards { witness: false, ..Guards::ALL };
    assert_needed::<Sum<f64>, 2>(&[1.0, 2_f64.powi(-200)], without);
    assert_needed::<Sum<f64>, 2>(&[1.0, f64::NAN], without);
    assert_needed::<Sum<f32>, 1>(&[1.0, 2_f32.powi(-100)], without);
    assert_needed::<Dot<f32>, 2>(&[(1.0, 1.0), (2_f32.powi(-100), 1.0)], without);
    assert_needed::<Dot<f32>, 2>(&[(1.0, 1.0), (0.0, f32::INFINITY)], without);
    assert_needed::<Dot<f64>, 3>(&[(1.0, 1.0), (1e-100, 1.0)], without);
}

/// x² = 2^−990 (1 + 2^−43 + 2^−88): its error term is less than half the smallest f64, and the rest fits
/// into the window.
#[test]
fn without_the_floor_error_terms_underflow() {
    let without = Guards { floor: false, ..Guards::ALL };
    let x = 2_f64.powi(-495) * (1.0 + 2_f64.powi(-44));
    let y = 2_f64.powi(-450);
    assert_needed::<Dot<f64>, 3>(&[(y, y), (x, x), (y, -y)], without);
}

#[test]
fn without_the_test_for_zero_products_underflow() {
    let without = Guards { zero: false, ..Guards::ALL };
    assert_needed::<Dot<f64>, 3>(&[(1.0, 1.0), (1e-200, 1e-200)], without);
    assert_needed::<Dot<f64>, 3>(&[(1e-300, -1e-300)], without);
}

#[test]
fn ordinary_terms_need_no_integers() {
    let mut random = Random(10);
    let normal: Vec<f64> =
        (0..10_000).map(|_| (0..12).map(|_| random.signed()).sum::<f64>()).collect();
    let integers: Vec<f64> = (0..10_000).map(|_| random.below(200) as f64 - 100.0).collect();
    for data in [normal, integers, vec![0.0; 1000], vec![-0.0; 1000]] {
        let pairs: Vec<_> = data.iter().map(|&x| (x, x)).collect();
        let singles: Vec<_> = data.iter().map(|&x| (x as f32, x as f32)).collect();
        let single: Vec<_> = data.iter().map(|&x| x as f32).collect();
        assert_eq!(in_windows::<Dot<f64>, 4>(&pairs, Guards::ALL).1, 0);
        assert_eq!(in_windows::<Dot<f32>, 3>(&singles, Guards::ALL).1, 0);
        assert_eq!(in_windows::<Sum<f64>, 3>(&data, Guards::ALL).1, 0);
        assert_eq!(in_windows::<Sum<f32>, 2>(&single, Guards::ALL).1, 0);
        check::<Dot<f64>>(&pairs);
        check::<Sum<f64>>(&data);
    }
}

/// Fourteen levels hold every product of f32.
#[test]
fn many_levels_hold_every_product_of_f32() {
    let mut random = Random(11);
    let mut any = || f32::from_bits(random.bits() as u32);
    let finite = |(x, y): &(f32, f32)| x.is_finite() && y.is_finite();
    let terms: Vec<_> = (0..10_000).map(|_| (any(), any())).filter(finite).collect();
    assert_eq!(in_windows::<Dot<f32>, 14>(&terms, Guards::ALL).1, 0);
    check::<Dot<f32>>(&terms);
}

/// A block of the largest terms below 2^exponent fits into the window that is chosen for it, wherever that
/// lies on its grid.
#[test]
fn the_window_that_is_chosen_holds_the_largest_terms() {
    for exponent in -60..60 {
        for sign in [1.0, -1.0] {
            let term = sign * 2_f64.powi(exponent) * (1.0 - 2_f64.powi(-53));
            let terms = [term; 128];
            let (state, spilled) = in_windows::<Sum<f64>, 3>(&terms, Guards::ALL);
            assert_eq!(spilled, 0);
            assert_eq!(normalised(&state), normalised(&deposited::<Sum<f64>>(&terms)));
            let terms = [(term, 1.0 - 2_f64.powi(-53)); 128];
            let (state, spilled) = in_windows::<Dot<f64>, 4>(&terms, Guards::ALL);
            assert_eq!(spilled, 0);
            assert_eq!(normalised(&state), normalised(&deposited::<Dot<f64>>(&terms)));
        }
    }
}

/// Terms of the largest size that a window takes move its accumulator from end to end of its binade;
/// their last bits do the same in the level below.
#[test]
fn the_largest_terms_reach_the_ends_of_a_binade() {
    let unit = Sum::<f64>::LOW + 5 * 200;
    let largest = 2_f64.powi(unit + 44);
    // Chooses the window with that unit.
    let first = [0.75 * largest; 128];
    for sign in [1.0, -1.0] {
        let mut terms = first.to_vec();
        terms.extend([sign * largest; 128]);
        // Half a unit stays for the next level, as a tie does.
        terms.extend([sign * (largest / 2.0 + 2_f64.powi(unit - 1)); 128]);
        terms.extend([sign * (2_f64.powi(unit - 1) - 2_f64.powi(unit - LEVEL_BITS)); 128]);
        let (state, spilled) = in_windows::<Sum<f64>, 2>(&terms, Guards::ALL);
        assert_eq!(spilled, 0);
        assert_eq!(normalised(&state), normalised(&deposited::<Sum<f64>>(&terms)));
    }
}

/// Products whose two parts leave as much as they can for the second level: half of the first level's unit, a
/// tie, and an error of the same sign.
#[test]
fn the_largest_errors_of_products_fit_beside_the_products() {
    let mut random = Random(17);
    // The window's unit for products in [1, 2); the bits of a product below it, and one above.
    let unit = 1 - 44;
    let bits = |x: f64| (x * 2_f64.powi(10 - unit)) as u64 % (1 << 11);
    let products = std::iter::repeat_with(|| {
        let mut factor = || 1.0 + random.signed().abs() * 0.4;
        (factor(), factor())
    });
    let is_worst =
        |&(x, y): &(f64, f64)| bits(x * y) == 1 << 9 && x.mul_add(y, -(x * y)) > 2_f64.powi(-55);
    let terms = [products.take(1_000_000).find(is_worst).expect("one in thousands"); 128];
    let (state, spilled) = in_windows::<Dot<f64>, 4>(&terms, Guards::ALL);
    assert_eq!(spilled, 0);
    assert_eq!(normalised(&state), normalised(&deposited::<Dot<f64>>(&terms)));
}
