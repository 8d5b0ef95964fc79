//! Expressions of two arrays, and what they compute, element by element.

use gpuvec::abi::expr::gpuvec_expr_compile;
use gpuvec::gpuvec_expr;
use gpuvec::gpuvec_type::{self, *};
use gpuvec_exact::{Dot, Kind, State, Sum};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use std::ffi::CStr;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::OnceLock;

/// Expressions of elements of each size, with one output and with several.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Formula {
    Affine,
    Swap,
    Widen,
    Less,
    Unlike,
    Sums,
    ExactDot,
    /// A reduction that does not use `b`.
    ExactSum,
    Extremes,
}

const COUNT: usize = Formula::Extremes as usize + 1;
static HANDLES: [OnceLock<usize>; COUNT] = [const { OnceLock::new() }; COUNT];

impl Formula {
    /// The text, and the types of the inputs and of the outputs.
    fn row(self) -> (&'static CStr, [gpuvec_type; 2], &'static [gpuvec_type]) {
        match self {
            Formula::Affine => (c"a*b + 1", [GPUVEC_F32; 2], &[GPUVEC_F32]),
            Formula::Swap => (c"b; a", [GPUVEC_F64; 2], &[GPUVEC_F64; 2]),
            Formula::Widen => (c"i64(a) + b", [GPUVEC_I32, GPUVEC_I64], &[GPUVEC_I64]),
            Formula::Less => (c"a < b", [GPUVEC_F32, GPUVEC_F64], &[GPUVEC_BOOL]),
            Formula::Unlike => (c"a != b", [GPUVEC_U8; 2], &[GPUVEC_BOOL]),
            Formula::Sums => (c"sum(a); sum(a*b)", [GPUVEC_I64; 2], &[GPUVEC_I64; 2]),
            Formula::ExactDot => (c"dot(a, b)", [GPUVEC_F32; 2], &[GPUVEC_F32]),
            Formula::ExactSum => (c"sum(a)", [GPUVEC_F64; 2], &[GPUVEC_F64]),
            Formula::Extremes => (c"max(a); argmin(b)", [GPUVEC_I64; 2], &[GPUVEC_I64; 2]),
        }
    }

    pub fn is_reduction(self) -> bool {
        use Formula::*;
        matches!(self, Sums | ExactDot | ExactSum | Extremes)
    }

    pub fn needs_elements(self) -> bool {
        matches!(self, Formula::Extremes)
    }

    pub fn uses(self, input: usize) -> bool {
        input == 0 || !matches!(self, Formula::ExactSum)
    }

    pub fn inputs(self) -> [gpuvec_type; 2] {
        self.row().1
    }

    pub fn outputs(self) -> &'static [gpuvec_type] {
        self.row().2
    }

    /// The handle of the expression, compiled once.
    pub fn expr(self) -> *mut gpuvec_expr {
        let handle = HANDLES[self as usize].get_or_init(|| {
            let (text, types, _) = self.row();
            let (names, types) = ([c"a".as_ptr(), c"b".as_ptr()], types.map(|ty| ty as i32));
            let mut expr = null_mut();
            // SAFETY: C strings, and arrays of two.
            let status = unsafe {
                gpuvec_expr_compile(text.as_ptr(), names.as_ptr(), types.as_ptr(), 2, &raw mut expr)
            };
            assert_eq!(status, 0);
            expr.addr()
        });
        without_provenance_mut(*handle)
    }

    /// The bits of the outputs, of the bits of two elements, or of all pairs that a reduction reduces.
    pub fn of(self, pairs: &[(u64, u64)]) -> Vec<u64> {
        let (a, b) = *pairs.first().unwrap_or(&(0, 0));
        let wrapping = |sum: u64, term: u64| sum.wrapping_add(term);
        match self {
            Formula::Affine => vec![single(float(a) * float(b) + 1.0)],
            // Bits pass unchanged, but for NaNs.
            Formula::Swap => vec![double(f64::from_bits(b)), double(f64::from_bits(a))],
            Formula::Widen => vec![(a as i32 as u64).wrapping_add(b)],
            Formula::Less => vec![u64::from(f64::from(float(a)) < f64::from_bits(b))],
            Formula::Unlike => vec![u64::from(a != b)],
            Formula::Sums => {
                let products = pairs.iter().map(|(a, b)| a.wrapping_mul(*b));
                vec![pairs.iter().map(|(a, _)| *a).fold(0, wrapping), products.fold(0, wrapping)]
            }
            Formula::ExactDot => {
                vec![single(exact::<Dot<f32>>(pairs.iter().map(|(a, b)| (float(*a), float(*b)))))]
            }
            Formula::ExactSum => {
                vec![double(exact::<Sum<f64>>(pairs.iter().map(|(a, _)| f64::from_bits(*a))))]
            }
            Formula::Extremes => {
                let largest = pairs.iter().map(|(a, _)| *a as i64).max().unwrap_or(0);
                let least = (0..pairs.len()).min_by_key(|i| pairs[*i].1 as i64).unwrap_or(0);
                vec![largest as u64, least as u64]
            }
        }
    }
}

pub fn bytes_of(ty: gpuvec_type) -> usize {
    match ty {
        GPUVEC_BOOL | GPUVEC_U8 => 1,
        GPUVEC_I32 | GPUVEC_F32 => 4,
        _ => 8,
    }
}

/// The value of the terms, deposited one by one.
pub fn exact<K: Kind>(terms: impl Iterator<Item = K::Term>) -> K::Element {
    let mut state = State::<K>::ZERO;
    terms.for_each(|term| state.deposit(term));
    state.value()
}

pub fn float(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// The bits as which a value is stored: one quiet NaN.
pub fn single(x: f32) -> u64 {
    u64::from(if x.is_nan() { 0x7FC0_0000 } else { x.to_bits() })
}

/// The bits as which a value is stored: one quiet NaN.
pub fn double(x: f64) -> u64 {
    if x.is_nan() { 0x7FF8_0000_0000_0000 } else { x.to_bits() }
}
