//! The elementary operations of functions. Cores and GPUs return the same bits for each of them.

use std::cell::Cell;
use std::num::Wrapping;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Sub};

/// A processor on which a function is a branch-free sequence of operations.
///
/// Every operation is IEEE 754's, rounded to nearest with ties to even, with subnormals, and without contraction. A
/// value is an element, a vector, or the name of a register: a machine computes, or it writes a program.
pub trait Machine {
    /// A number of 32 bits: an argument or a result.
    type F32: Copy;
    /// A number of 64 bits.
    type F64: Copy
        + Neg<Output = Self::F64>
        + Add<Output = Self::F64>
        + Sub<Output = Self::F64>
        + Mul<Output = Self::F64>
        + Div<Output = Self::F64>;
    /// 64 bits; sums wrap.
    type I64: Copy
        + Add<Output = Self::I64>
        + Sub<Output = Self::I64>
        + BitAnd<Output = Self::I64>
        + BitOr<Output = Self::I64>
        + BitXor<Output = Self::I64>;
    /// The outcome of a comparison.
    type Bool: Copy;

    /// The same value in 64 bits.
    fn widen(&self, x: Self::F32) -> Self::F64;
    /// The nearest value of 32 bits.
    fn narrow(&self, x: Self::F64) -> Self::F32;
    /// A constant.
    fn f64(&self, value: f64) -> Self::F64;
    /// A constant.
    fn i64(&self, value: i64) -> Self::I64;
    /// a · b + c, rounded once.
    fn fma(&self, a: Self::F64, b: Self::F64, c: Self::F64) -> Self::F64;
    /// a / b. Either a, b and the quotient are between 2^−700 and 2^700 in magnitude, or a is 0 and b positive and in
    /// this range, or one of them is NaN.
    ///
    /// A machine may need fewer operations for this than for other quotients.
    #[inline(always)]
    fn quotient(&self, a: Self::F64, b: Self::F64) -> Self::F64 {
        a / b
    }
    /// The square root.
    fn sqrt(&self, x: Self::F64) -> Self::F64;
    /// The encoding of a number.
    fn bits(&self, x: Self::F64) -> Self::I64;
    /// The number with an encoding.
    fn float(&self, bits: Self::I64) -> Self::F64;
    /// Shifts to the left; zeros come in.
    fn shift_left(&self, bits: Self::I64, count: u32) -> Self::I64;
    /// Shifts to the right; zeros come in.
    fn shift_right(&self, bits: Self::I64, count: u32) -> Self::I64;
    /// a < b; false if one is NaN.
    fn less(&self, a: Self::F64, b: Self::F64) -> Self::Bool;
    /// a = b; false if one is NaN.
    fn equal(&self, a: Self::F64, b: Self::F64) -> Self::Bool;
    /// `yes` where the condition holds, else `no`.
    fn select(&self, condition: Self::Bool, yes: Self::F64, no: Self::F64) -> Self::F64;

    /// `rare` where the condition holds, which is seldom, else `usual`.
    ///
    /// A machine may skip the rare sequence if the condition holds nowhere.
    #[inline(always)]
    fn rarely<const N: usize>(
        &self, condition: Self::Bool, usual: [Self::F64; N], rare: impl FnOnce() -> [Self::F64; N],
    ) -> [Self::F64; N] {
        let rare = rare();
        std::array::from_fn(|i| self.select(condition, rare[i], usual[i]))
    }

    /// The value of 32 bits that is nearest to every number from one end to the other, if there is one, as for nearly
    /// all ends, else the value nearest to `exact`. NaN if the ends are.
    ///
    /// A machine may skip the exact sequence if it is needed nowhere.
    fn rounded(&self, ends: [Self::F64; 2], exact: impl FnOnce() -> Self::F64) -> Self::F32;
}

/// Rust's own numbers, one at a time.
#[derive(Clone, Copy, Debug)]
pub struct Scalar;

/// Rust's own numbers without rare sequences, which takes a third of the time for the sine of f64.
///
/// If [`Usual::missed`] is true, some results since `default` may be wrong, and [`Scalar`] computes the right ones.
#[derive(Debug, Default)]
pub struct Usual(Cell<bool>);

impl Usual {
    /// True if an argument needed a rare sequence.
    #[inline(always)]
    pub fn missed(&self) -> bool {
        self.0.get()
    }
}

/// The value of 32 bits nearest to the second end, and true if another value is nearest to the first end.
#[inline(always)]
fn narrowed(ends: [f64; 2]) -> (f32, bool) {
    let [low, high] = ends.map(|end| end as f32);
    (high, (low < high) | (high < low))
}

/// Defines operations by expressions of their arguments.
macro_rules! operations {
    ($($name:ident($($x:ident: $X:ty),+) -> $Result:ty { $value:expr })+) => {
        $(#[inline(always)]
        fn $name(&self, $($x: $X),+) -> $Result {
            $value
        })+
    };
}
pub(crate) use operations;

macro_rules! rust_numbers {
    ($machine:ty { $($rarely:item)* }) => {
        impl Machine for $machine {
            type F32 = f32;
            type F64 = f64;
            type I64 = Wrapping<i64>;
            type Bool = bool;

            operations! {
                widen(x: f32) -> f64 { x.into() }
                narrow(x: f64) -> f32 { x as f32 }
                f64(value: f64) -> f64 { value }
                i64(value: i64) -> Self::I64 { Wrapping(value) }
                fma(a: f64, b: f64, c: f64) -> f64 { a.mul_add(b, c) }
                sqrt(x: f64) -> f64 { x.sqrt() }
                bits(x: f64) -> Self::I64 { Wrapping(x.to_bits() as i64) }
                float(bits: Self::I64) -> f64 { f64::from_bits(bits.0 as u64) }
                shift_left(bits: Self::I64, count: u32) -> Self::I64 { Wrapping(bits.0 << count) }
                shift_right(bits: Self::I64, count: u32) -> Self::I64 {
                    Wrapping((bits.0 as u64 >> count) as i64)
                }
                less(a: f64, b: f64) -> bool { a < b }
                equal(a: f64, b: f64) -> bool { a == b }
                select(condition: bool, yes: f64, no: f64) -> f64 {
                    if condition { yes } else { no }
                }
            }

            $($rarely)*
        }
    };
}

rust_numbers! { Scalar {
    #[inline(always)]
    fn rounded(&self, ends: [f64; 2], exact: impl FnOnce() -> f64) -> f32 {
        let (nearest, is_open) = narrowed(ends);
        if is_open { exact() as f32 } else { nearest }
    }
} }
rust_numbers! { Usual {
    #[inline(always)]
    fn rarely<const N: usize>(
        &self, condition: bool, usual: [f64; N], _: impl FnOnce() -> [f64; N],
    ) -> [f64; N] {
        self.0.set(self.0.get() | condition);
        usual
    }

    #[inline(always)]
    fn rounded(&self, ends: [f64; 2], _: impl FnOnce() -> f64) -> f32 {
        let (nearest, is_open) = narrowed(ends);
        self.0.set(self.0.get() | is_open);
        nearest
    }
} }
