//! The operations of fast sequences.

use super::exponential::scaled_power;
use crate::Scalar;
use crate::machine::operations;
use std::num::Wrapping;
use std::ops::{Add, BitAnd, BitOr, BitXor, Mul, Sub};

/// The bits of 1.
pub(super) const ONE: i32 = 127 << 23;

/// Up to four tables that are looked up together at one place.
pub trait Tables<const N: usize> {
    /// The tables.
    const TABLES: [&'static [f32; 32]; N];
    /// The entries of all tables at each place, filled up with zeros.
    const ROWS: [[f32; 4]; 32] = {
        let mut rows = [[0.0; 4]; 32];
        let mut i = 0;
        while i < N * 32 {
            rows[i / N][i % N] = Self::TABLES[i % N][i / N];
            i += 1;
        }
        rows
    };
}

/// A processor on which a function is a sequence of operations on 32 bits.
///
/// As in [`crate::Machine`], every operation is IEEE 754's, rounded to nearest with ties to even, with subnormals, and
/// without contraction, and a value is an element, a vector, or the name of a register.
pub trait Machine32: Sized {
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

    /// One, in the unit of the exponents of [`Machine32::split`].
    const EXPONENT: f32 = 8_388_608.0; // 2^23

    /// True if a table of 32 entries costs no more than a table of 16.
    const LARGE_TABLES: bool = false;

    /// A constant.
    fn f32(&self, value: f32) -> Self::F32;
    /// A constant.
    fn i32(&self, value: i32) -> Self::I32;
    /// a · b + c, rounded once.
    fn fma(&self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// a · b - c, rounded once.
    fn fms(&self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// c - a · b, rounded once.
    fn fnma(&self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
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
    /// True if the condition holds and a < b.
    #[inline(always)]
    fn and_less(&self, condition: Self::Bool, a: Self::F32, b: Self::F32) -> Self::Bool {
        condition & self.less(a, b)
    }
    /// a = b; false if one is NaN.
    fn equal(&self, a: Self::F32, b: Self::F32) -> Self::Bool;
    /// `yes` where a condition holds, else `no`.
    fn select(&self, condition: Self::Bool, yes: Self::F32, no: Self::F32) -> Self::F32;
    /// The entry of a table of 16 or 32 at the place in the low bits.
    fn lookup<const N: usize>(&self, table: &'static [f32; N], place: Self::I32) -> Self::F32;
    /// The entries of tables at the same place, in order.
    #[inline(always)]
    fn lookups<const N: usize, T: Tables<N>>(&self, place: Self::I32) -> [Self::F32; N] {
        let mut entries = [self.lookup(T::TABLES[0], place); N];
        // Iterators would not always be inlined.
        let mut i = 1;
        while i < N {
            entries[i] = self.lookup(T::TABLES[i], place);
            i += 1;
        }
        entries
    }
    /// The smaller of two numbers. If one is NaN, either of them, depending on the machine.
    fn min(&self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// An approximation of 1 / x with a relative error of at most 2^-22, for normal x and 1 / x. The bits depend on the
    /// machine.
    fn reciprocal(&self, x: Self::F32) -> Self::F32;
    /// An approximation of 1 / x with a relative error of at most 2^-11, for normal x and 1 / x. The bits depend on the
    /// machine.
    #[inline(always)]
    fn rough_reciprocal(&self, x: Self::F32) -> Self::F32 {
        self.reciprocal(x)
    }
    /// An approximation of 1 / √x with a relative error of at most 2^-21, for normal x. The bits depend on the machine.
    fn reciprocal_root(&self, x: Self::F32) -> Self::F32;

    /// Approximations of √x and 1 / √x with relative errors of at most 1.2 · 2^-21 and 2^-21, for normal x. The bits
    /// depend on the machine.
    #[inline(always)]
    fn roots(&self, x: Self::F32) -> (Self::F32, Self::F32) {
        let inverse = self.reciprocal_root(x);
        (x * inverse, inverse)
    }

    /// The smaller of x and a constant, and true if x is a number. A machine that keeps NaNs may always return true.
    #[inline(always)]
    fn at_most(&self, x: Self::F32, most: f32) -> (Self::F32, Self::Bool) {
        (self.min(x, self.f32(most)), self.equal(x, x))
    }

    /// The magnitude.
    #[inline(always)]
    fn magnitude(&self, x: Self::F32) -> Self::F32 {
        self.float(self.bits(x) & self.i32(i32::MAX))
    }

    /// Splits a positive normal number below 2^127 into 2^k times a significand in 1 ..< 2: k, the significand, and
    /// true for such a number. May return true for other numbers if the parts are right, or if one is infinite or NaN.
    #[inline(always)]
    fn split(&self, x: Self::F32) -> (Self::F32, Self::F32, Self::Bool) {
        let exponent = (self.bits(x) - self.i32(ONE)) & self.i32(-1 << 23);
        let significand = self.float(self.bits(x) - exponent);
        let k = self.convert(exponent);
        // For any other input, k is -127 or above 127 in magnitude.
        (k, significand, self.less(self.magnitude(k), self.f32(126.5 * Self::EXPONENT)))
    }

    /// y · 2^⌊k⌋ for y next to 1 or from 1 to 2, and true if it is right, given that y is. It may be wrong if it is
    /// subnormal or infinite. k is a multiple of 1/16, which is also in the low bits of `place`. y may be below 1 only
    /// if k is an integer.
    #[inline(always)]
    fn scaled(
        &self, (y, is_right): (Self::F32, Self::Bool), k: Self::F32, place: Self::I32,
    ) -> (Self::F32, Self::Bool) {
        let exponent = self.shift_left::<19>(place) & self.i32(-1 << 23);
        let is_right = self.and_less(is_right, self.magnitude(k), self.f32(125.97));
        (self.float(self.bits(y) + exponent), is_right)
    }

    /// 2^k for a multiple k of 1/16, which is also in the low bits of `place`. `EXPM1_RESTS` corrects its rounding.
    #[inline(always)]
    fn power(&self, _k: Self::F32, place: Self::I32) -> Self::F32 {
        scaled_power(self, place)
    }

    /// An argument of an exponential, and true if it is below `greatest` in magnitude. A machine with infinite powers
    /// may always return true, since no infinite result is sure to be rounded right. It may replace smaller numbers by
    /// `least`.
    #[inline(always)]
    fn bounded(&self, x: Self::F32, _least: f32, greatest: f32) -> (Self::F32, Self::Bool) {
        (x, self.less(self.magnitude(x), self.f32(greatest)))
    }

    /// 1 - x rounded, and its excess over the exact difference, for positive x (Knuth).
    #[inline(always)]
    fn one_minus(&self, x: Self::F32) -> (Self::F32, Self::F32) {
        let one = self.f32(1.0);
        let difference = one - x;
        let of_x = difference - one;
        (difference, (x + of_x) - (one - (difference - of_x)))
    }

    /// a · b + (x - 1) - excess · x for a positive x and a small product, in three parts: a · b + (x - 1) rounded, its
    /// exact rest, and the number to subtract from both. The first part is -0 if x is 1 and the product -0.
    #[inline(always)]
    fn product_and_less_one(
        &self, a: Self::F32, b: Self::F32, x: Self::F32, excess: Self::F32,
    ) -> [Self::F32; 3] {
        let (negated, more) = self.one_minus(x);
        let y = self.fms(a, b, negated);
        [y, self.fms(a, b, negated + y), self.fms(excess, x, more)]
    }

    /// -unit where a condition holds, else 2 unit. `other` is 0 where the condition holds, else unit.
    #[inline(always)]
    fn minus_or_twice(
        &self, _condition: Self::Bool, other: Self::F32, unit: Self::F32,
    ) -> Self::F32 {
        self.fms(other, self.f32(3.0), unit)
    }

    /// The float nearest to every number between factor · high + one end and factor · high + the other, and true if
    /// there is such a float.
    #[inline(always)]
    fn rounded_product(
        &self, high: Self::F32, factor: f32, ends: [Self::F32; 2],
    ) -> (Self::F32, Self::Bool) {
        let [low, y] = ends;
        let factor = self.f32(factor);
        let (low, y) = (self.fma(high, factor, low), self.fma(high, factor, y));
        (y, self.equal(low, y))
    }

    /// high + low, rounded, and true if that is right, given that the error of low is at most a share of low, or of
    /// 2^-25 of high. (If low is smaller than 2^-25 of high, both ends round to high.)
    #[inline(always)]
    fn rounded_sum(&self, high: Self::F32, low: Self::F32, share: f32) -> (Self::F32, Self::Bool) {
        let least = self.fma(low, self.f32(1.0 - share), high);
        let y = self.fma(low, self.f32(1.0 + share), high);
        (y, self.equal(least, y))
    }

    /// The float nearest to every number between high + one end and high + the other, and true if there is such a
    /// float.
    #[inline(always)]
    fn rounded(&self, high: Self::F32, ends: [Self::F32; 2]) -> (Self::F32, Self::Bool) {
        let (low, y) = (high + ends[0], high + ends[1]);
        (y, self.equal(low, y))
    }
}

macro_rules! rust_numbers {
    ($machine:ty { $($specific:item)* }) => {
        impl Machine32 for $machine {
            type F32 = f32;
            type I32 = Wrapping<i32>;
            type Bool = bool;

            const LARGE_TABLES: bool = true;

            #[inline(always)]
            fn shift_left<const COUNT: u32>(&self, bits: Self::I32) -> Self::I32 {
                Wrapping(bits.0 << COUNT)
            }

            #[inline(always)]
            fn lookup<const N: usize>(&self, table: &'static [f32; N], place: Self::I32) -> f32 {
                table[place.0 as usize % N]
            }

            operations! {
                f32(value: f32) -> f32 { value }
                i32(value: i32) -> Self::I32 { Wrapping(value) }
                fma(a: f32, b: f32, c: f32) -> f32 { a.mul_add(b, c) }
                fms(a: f32, b: f32, c: f32) -> f32 { a.mul_add(b, -c) }
                fnma(a: f32, b: f32, c: f32) -> f32 { (-a).mul_add(b, c) }
                bits(x: f32) -> Self::I32 { Wrapping(x.to_bits().cast_signed()) }
                float(bits: Self::I32) -> f32 { f32::from_bits(bits.0.cast_unsigned()) }
                convert(integer: Self::I32) -> f32 { integer.0 as f32 }
                less(a: f32, b: f32) -> bool { a < b }
                equal(a: f32, b: f32) -> bool { a == b }
                select(condition: bool, yes: f32, no: f32) -> f32 { if condition { yes } else { no } }
                min(a: f32, b: f32) -> f32 { a.min(b) }
            }

            $($specific)*
        }
    };
}

rust_numbers! { Scalar {
    #[inline(always)]
    fn reciprocal(&self, x: f32) -> f32 {
        1.0 / x
    }

    #[inline(always)]
    fn reciprocal_root(&self, x: f32) -> f32 {
        1.0 / x.sqrt()
    }
} }

/// Rust's own numbers. Stores the ends of the interval of a result. Approximations have the greatest allowed errors.
#[cfg(test)]
#[derive(Debug, Default)]
pub(super) struct Measuring(pub(super) std::cell::Cell<[f64; 2]>);

#[cfg(test)]
rust_numbers! { Measuring {
    fn rounded(&self, high: f32, ends: [f32; 2]) -> (f32, bool) {
        self.0.set(ends.map(|end| f64::from(high) + f64::from(end)));
        Scalar.rounded(high, ends)
    }

    fn rounded_sum(&self, high: f32, low: f32, share: f32) -> (f32, bool) {
        let radius = low.abs().max(high.abs() * 2.0_f32.powi(-25)) * share;
        self.0.set([-radius, radius].map(|end| f64::from(high) + f64::from(low) + f64::from(end)));
        Scalar.rounded_sum(high, low, share)
    }

    fn reciprocal(&self, x: f32) -> f32 {
        (1.0 / x).mul_add(f32::from_bits(0x347f_0000), 1.0 / x)
    }

    fn rough_reciprocal(&self, x: f32) -> f32 {
        (1.0 / x).mul_add(f32::from_bits(0x39ff_0000), 1.0 / x)
    }

    fn reciprocal_root(&self, x: f32) -> f32 {
        let root = 1.0 / x.sqrt();
        root.mul_add(f32::from_bits(0x34bf_0000), root)
    }

    fn rounded_product(&self, high: f32, factor: f32, ends: [f32; 2]) -> (f32, bool) {
        self.0.set(ends.map(|end| f64::from(high) * f64::from(factor) + f64::from(end)));
        Scalar.rounded_product(high, factor, ends)
    }
} }
