//! The operations of fast sequences.

use crate::Scalar;
use std::num::Wrapping;
use std::ops::{Add, BitAnd, BitOr, BitXor, Mul, Sub};

/// A processor on which a function is a sequence of operations on 32 bits.
///
/// As of [`crate::Machine`], every operation is IEEE 754's, rounded to nearest with ties to even, with
/// subnormals, and without contraction; and a value is an element, a vector, or the name of a register.
pub trait Machine32 {
    /// A number.
    type F32: Copy + Add<Output = Self::F32> + Sub<Output = Self::F32> + Mul<Output = Self::F32>;
    /// 32 bits; sums wrap.
    type I32: Copy
        + Add<Output = Self::I32>
        + Sub<Output = Self::I32>
        + BitAnd<Output = Self::I32>
        + BitOr<Output = Self::I32>
        + BitXor<Output = Self::I32>;
    /// The outcome of a comparison.
    type Bool: Copy + BitAnd<Output = Self::Bool>;

    /// A constant.
    fn f32(&self, value: f32) -> Self::F32;
    /// A constant.
    fn i32(&self, value: i32) -> Self::I32;
    /// a · b + c, rounded once.
    fn fma(&self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// a · b - c, rounded once.
    fn fms(&self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// The encoding of a number.
    fn bits(&self, x: Self::F32) -> Self::I32;
    /// The number with an encoding.
    fn float(&self, bits: Self::I32) -> Self::F32;
    /// The number nearest to an integer.
    fn convert(&self, integer: Self::I32) -> Self::F32;
    /// Shifts to the left; zeros come in.
    fn shift_left<const COUNT: u32>(&self, bits: Self::I32) -> Self::I32;
    /// a < b; false if one is NaN.
    fn less(&self, a: Self::F32, b: Self::F32) -> Self::Bool;
    /// a = b; false if one is NaN.
    fn equal(&self, a: Self::F32, b: Self::F32) -> Self::Bool;
    /// The entry of a table of 16 or 32 at the place that the low bits say.
    fn lookup<const N: usize>(&self, table: &'static [f32; N], place: Self::I32) -> Self::F32;

    /// The float nearest to every number between high + one end and high + the other, and whether there
    /// is such a float.
    #[inline(always)]
    fn rounded(&self, high: Self::F32, ends: [Self::F32; 2]) -> (Self::F32, Self::Bool) {
        let [low, y] = ends.map(|end| high + end);
        (y, self.equal(low, y))
    }
}

macro_rules! rust_numbers {
    ($machine:ty { $($rounded:item)? }) => {
        impl Machine32 for $machine {
            type F32 = f32;
            type I32 = Wrapping<i32>;
            type Bool = bool;

            #[inline(always)]
            fn f32(&self, value: f32) -> f32 {
                value
            }

            #[inline(always)]
            fn i32(&self, value: i32) -> Self::I32 {
                Wrapping(value)
            }

            #[inline(always)]
            fn fma(&self, a: f32, b: f32, c: f32) -> f32 {
                a.mul_add(b, c)
            }

            #[inline(always)]
            fn fms(&self, a: f32, b: f32, c: f32) -> f32 {
                a.mul_add(b, -c)
            }

            #[inline(always)]
            fn bits(&self, x: f32) -> Self::I32 {
                Wrapping(x.to_bits().cast_signed())
            }

            #[inline(always)]
            fn float(&self, bits: Self::I32) -> f32 {
                f32::from_bits(bits.0.cast_unsigned())
            }

            #[inline(always)]
            fn convert(&self, integer: Self::I32) -> f32 {
                integer.0 as f32
            }

            #[inline(always)]
            fn shift_left<const COUNT: u32>(&self, bits: Self::I32) -> Self::I32 {
                Wrapping(bits.0 << COUNT)
            }

            #[inline(always)]
            fn less(&self, a: f32, b: f32) -> bool {
                a < b
            }

            #[inline(always)]
            fn equal(&self, a: f32, b: f32) -> bool {
                a == b
            }

            #[inline(always)]
            fn lookup<const N: usize>(&self, table: &'static [f32; N], place: Self::I32) -> f32 {
                table[place.0 as usize % N]
            }

            $($rounded)?
        }
    };
}

rust_numbers! { Scalar {} }

/// Rust's own numbers; keeps the ends between which a result lies.
#[cfg(test)]
#[derive(Debug, Default)]
pub(super) struct Measuring(pub(super) std::cell::Cell<[f64; 2]>);

#[cfg(test)]
rust_numbers! { Measuring {
    fn rounded(&self, high: f32, ends: [f32; 2]) -> (f32, bool) {
        self.0.set(ends.map(|end| f64::from(high) + f64::from(end)));
        Scalar.rounded(high, ends)
    }
} }
