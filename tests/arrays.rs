//! The operations on arrays of every length, alignment and kind of host memory, under every
//! placement, against naive models.

mod common;

use common::{
    Array, Operation, add_f32, add_i32, dot_f32, has_gpu, last_error, last_run, with_placement,
};
use gpuvec::Placement;
use gpuvec::last_run::Backend;
use proptest::prelude::*;
use proptest::sample::select;

/// Returns the placements that this machine supports.
fn placements() -> &'static [Placement] {
    if has_gpu() {
        &[Placement::Auto, Placement::Cpu, Placement::Gpu]
    } else {
        &[Placement::Auto, Placement::Cpu]
    }
}

/// One call: its length, its memory, and its arrays.
#[derive(Clone, Debug)]
struct Case {
    n: usize,
    values: Values,
    seed: u64,
    /// The indices of `a`, `b` and `out` among three arrays, equal for calls in place.
    roles: [usize; 3],
    offsets: [usize; 3],
    pinned: [bool; 3],
}

/// The bit patterns of the inputs.
#[derive(Clone, Copy, Debug)]
enum Values {
    /// Any: NaNs of all kinds, infinities, subnormals.
    Bits,
    /// Finite, of any magnitude.
    Finite,
    /// Subnormal, or just above.
    Tiny,
    /// Multiples of 2^-24 between -1 and 1, which [`Values::scaled`] gives as whole numbers.
    Fixed,
    /// Whole numbers of up to 16 bits: f64 holds every sum of their products.
    Whole,
}

const FIXED_SCALE: f64 = (1u64 << 24) as f64;

impl Values {
    fn word(self, random: u64) -> u32 {
        let bits = random as u32;
        let sign = bits & 0x8000_0000;
        match self {
            Values::Bits => bits,
            Values::Finite => bits & !0x0080_0000,
            Values::Tiny => bits & 0x80FF_FFFF,
            Values::Fixed => sign | ((bits & 0xFF_FFFF) as f32 / FIXED_SCALE as f32).to_bits(),
            Values::Whole => sign | ((bits & 0xFFFF) as f32).to_bits(),
        }
    }
}

impl Case {
    /// Returns the contents of the three arrays.
    fn contents(&self) -> [Vec<u32>; 3] {
        let mut random = SplitMix(self.seed);
        std::array::from_fn(|_| (0..self.n).map(|_| self.values.word(random.next())).collect())
    }

    /// Allocates with placement auto, since placement `cpu` does not page-lock pinned memory.
    fn arrays(&self, contents: &[Vec<u32>; 3]) -> [Array; 3] {
        with_placement(Placement::Auto, || {
            std::array::from_fn(|i| Array::new(&contents[i], self.offsets[i], self.pinned[i]))
        })
    }

    /// Calls `operation` under every placement: `out` must begin with the result of `model`, and no
    /// other element may have changed.
    fn check(&self, operation: Operation, model: impl Fn(&[u32], &[u32]) -> Vec<u32>) {
        let [a, b, out] = self.roles;
        let before = self.contents();
        let result = model(&before[a], &before[b]);
        let mut after = before.clone();
        after[out][..result.len()].copy_from_slice(&result);
        for placement in placements() {
            let mut arrays = self.arrays(&before);
            let [a, b, out] = self.roles.map(|role| arrays[role].pointer());
            with_placement(*placement, || {
                // SAFETY: all three point to `n` elements.
                let status = unsafe { operation(a, b, out, self.n) };
                assert_eq!(status, 0, "{placement:?}: {}", last_error());
                check_backend(*placement);
            });
            for (array, after) in arrays.iter().zip(&after) {
                let differs = array.content().iter().zip(after).position(|(x, y)| x != y);
                if let Some(i) = differs {
                    let (found, expected) = (array.content()[i], after[i]);
                    panic!("{placement:?}: element {i} is {found:#x}, not {expected:#x}");
                }
                assert!(array.guards_are_whole(), "{placement:?}: wrote outside of an array");
            }
        }
    }
}

fn check_backend(placement: Placement) {
    let backend = last_run().backend;
    match placement {
        Placement::Auto | Placement::All => assert_ne!(backend, Backend::None as i32),
        Placement::Cpu => assert_eq!(backend, Backend::Cpu as i32),
        Placement::Gpu => assert_eq!(backend, Backend::Gpu as i32),
    }
}

/// Steele, Lea and Flood's generator (OOPSLA 2014).
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Chooses lengths around every size at which the library changes its plan.
fn lengths() -> impl Strategy<Value = usize> {
    const SIZES: &[usize] = &[1, 32, 128, 4096, 65_536, 200_000, 1_200_000];
    (select(SIZES), 0usize..7).prop_map(|(size, more)| (size + more).saturating_sub(3).max(1))
}

fn cases(values: impl Strategy<Value = Values>) -> impl Strategy<Value = Case> {
    const ROLES: &[[usize; 3]] = &[[0, 1, 2], [0, 1, 0], [0, 1, 1], [0, 0, 2], [0, 0, 0]];
    let offsets = prop::array::uniform3(0usize..9);
    (lengths(), values, any::<u64>(), select(ROLES), offsets, any::<[bool; 3]>()).prop_map(
        |(n, values, seed, roles, offsets, pinned)| Case {
            n,
            values,
            seed,
            roles,
            offsets,
            pinned,
        },
    )
}

fn floats() -> impl Strategy<Value = Values> {
    const FLOATS: &[Values] = &[Values::Bits, Values::Finite, Values::Tiny, Values::Fixed];
    select(FLOATS)
}

fn canonical(x: f32) -> u32 {
    if x.is_nan() { 0x7FC0_0000 } else { x.to_bits() }
}

fn each(a: &[u32], b: &[u32], op: impl Fn(u32, u32) -> u32) -> Vec<u32> {
    a.iter().zip(b).map(|(a, b)| op(*a, *b)).collect()
}

/// Returns the terms of a dot product, exact in f64.
fn terms(a: &[u32], b: &[u32]) -> impl Iterator<Item = f64> {
    let wide = |bits: &u32| f64::from(f32::from_bits(*bits));
    a.iter().zip(b).map(move |(a, b)| wide(a) * wide(b))
}

/// Returns the terms of a dot product of [`Values::Fixed`], as multiples of 2^-48.
fn scaled_terms(a: &[u32], b: &[u32]) -> impl Iterator<Item = i128> {
    terms(a, b).map(|term| (term * FIXED_SCALE * FIXED_SCALE) as i128)
}

/// Adds in the order that dot_product promises: tiles of 4096 terms, in each 128 lanes that are
/// halved, then a binary tree over the tiles.
fn dot_in_order(terms: &[f64]) -> f64 {
    let mut sums: Vec<f64> = terms.chunks(4096).map(tile_sum).collect();
    while sums.len() > 1 {
        sums = sums.chunks(2).map(|pair| if let [x, y] = pair { x + y } else { pair[0] }).collect();
    }
    sums[0]
}

fn tile_sum(terms: &[f64]) -> f64 {
    let lane = |first: usize| terms.iter().skip(first).step_by(128).fold(0.0, |sum, x| sum + x);
    let mut lanes: Vec<f64> = (0..128).map(lane).collect();
    while lanes.len() > 1 {
        let (low, high) = lanes.split_at(lanes.len() / 2);
        lanes = low.iter().zip(high).map(|(x, y)| x + y).collect();
    }
    lanes[0]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn vector_add_rounds_as_ieee_754(case in cases(floats())) {
        let add = |a, b| canonical(f32::from_bits(a) + f32::from_bits(b));
        case.check(add_f32, |a, b| each(a, b, add));
    }

    #[test]
    fn add_arrays_wraps_around(case in cases(Just(Values::Bits))) {
        case.check(add_i32, |a, b| each(a, b, u32::wrapping_add));
    }

    #[test]
    fn dot_product_adds_in_the_promised_order(case in cases(floats())) {
        case.check(dot_f32, |a, b| {
            let terms: Vec<f64> = terms(a, b).collect();
            vec![canonical(dot_in_order(&terms) as f32)]
        });
    }

    /// `i64 as f32` rounds the exact sum to nearest.
    #[test]
    fn dot_product_of_exact_sums_rounds_once(case in cases(Just(Values::Whole))) {
        case.check(dot_f32, |a, b| {
            let exact: i64 = terms(a, b).map(|term| term as i64).sum();
            vec![(exact as f32).to_bits()]
        });
    }

    /// Half an ulp for the one rounding to f32, and one rounding to f64 for each addition that a
    /// term goes through: 32 in a lane, 7 halvings, fewer than 20 levels of the tree.
    #[test]
    fn dot_product_is_close_to_the_exact_sum(case in cases(Just(Values::Fixed))) {
        let [mut a, mut b, _] = case.contents();
        let exact: i128 = scaled_terms(&a, &b).sum();
        let magnitude: i128 = scaled_terms(&a, &b).map(i128::abs).sum();
        let allowed = exact.abs() as f64 / FIXED_SCALE + magnitude as f64 * 60.0 * f64::EPSILON;
        let mut out = 0;
        with_placement(Placement::Auto, || {
            // SAFETY: `a` and `b` have `n` elements, `out` is one.
            let status = unsafe { dot_f32(a.as_mut_ptr(), b.as_mut_ptr(), &raw mut out, case.n) };
            assert_eq!(status, 0, "{}", last_error());
        });
        let scaled = f64::from(f32::from_bits(out)) * FIXED_SCALE * FIXED_SCALE;
        let error = (scaled - exact as f64).abs();
        prop_assert!(error <= allowed, "{scaled} is {error} away from {exact}");
    }
}
