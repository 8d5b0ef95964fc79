//! The operations on arrays of every length, alignment and kind of host memory, under every
//! placement, against naive models.

mod common;

use common::{
    Array, Operation, add_f32, add_i32, dot_f32, has_gpu, last_error, last_run, with_placement,
};
use gpuvec::Placement;
use gpuvec::last_run::Backend;
use gpuvec_exact::{Dot, State};
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
    /// Multiples of 2^-24 between -1 and 1.
    Fixed,
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

/// Returns the elements of a dot product in pairs.
fn pairs(a: &[u32], b: &[u32]) -> impl Iterator<Item = (f32, f32)> {
    a.iter().zip(b).map(|(a, b)| (f32::from_bits(*a), f32::from_bits(*b)))
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

    /// The integers of `deposit` are compared with rationals in crates/exact/tests.
    #[test]
    fn dot_product_is_exact(case in cases(floats())) {
        case.check(dot_f32, |a, b| {
            let mut state = State::<Dot<f32>>::ZERO;
            pairs(a, b).for_each(|pair| state.deposit(pair));
            vec![state.value().to_bits()]
        });
    }

    /// `i128 as f32` rounds the exact sum to nearest.
    #[test]
    fn dot_product_of_multiples_is_rounded_once(case in cases(Just(Values::Fixed))) {
        case.check(dot_f32, |a, b| {
            let scaled = |x: f32| (f64::from(x) * FIXED_SCALE) as i128;
            let exact: i128 = pairs(a, b).map(|(x, y)| scaled(x) * scaled(y)).sum();
            vec![((f64::from(exact as f32) / FIXED_SCALE / FIXED_SCALE) as f32).to_bits()]
        });
    }
}
