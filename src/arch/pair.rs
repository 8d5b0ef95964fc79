//! Evaluates fast functions on two vectors at a time.
//!
//! The sequence of a function is a long chain of dependent operations, and the processor does not look ahead far enough
//! to begin the next vector's chain meanwhile. Two chains side by side keep its units busy.

use super::Vectors;
use gpuvec_math::fast::{Machine32, Tables};
use std::ops::{Add, BitAnd, BitOr, BitXor, Mul, Sub};

/// A machine with two of another machine's values as each value.
pub(crate) struct Pair<M>(pub(crate) M);

/// Two values. The elements of the first precede the elements of the second in memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Two<T>(pub(super) T, pub(super) T);

macro_rules! operators {
    ($($Trait:ident $operator:ident;)+) => {
        $(impl<T: $Trait<Output = T>> $Trait for Two<T> {
            type Output = Self;

            #[inline(always)]
            fn $operator(self, other: Self) -> Self {
                Two(self.0.$operator(other.0), self.1.$operator(other.1))
            }
        })+
    };
}

operators! { Add add; Sub sub; Mul mul; BitAnd bitand; BitOr bitor; BitXor bitxor; }

/// Implements operations by applying them to both values.
macro_rules! both {
    ($($name:ident($($argument:ident: $Argument:ident),+) -> $Result:ident;)+) => {
        $(#[inline(always)]
        fn $name(&self, $($argument: Self::$Argument),+) -> Self::$Result {
            Two(self.0.$name($($argument.0),+), self.0.$name($($argument.1),+))
        })+
    };
}

/// Does the same for operations with two results. Both values take the same numbers.
macro_rules! both_of_two {
    ($($name:ident(F32 $(, $number:ident: f32)*) -> ($First:ident, $Second:ident);)+) => {
        $(#[inline(always)]
        fn $name(&self, x: Self::F32 $(, $number: f32)*) -> (Self::$First, Self::$Second) {
            let (first, second) = (self.0.$name(x.0 $(, $number)*), self.0.$name(x.1 $(, $number)*));
            (Two(first.0, second.0), Two(first.1, second.1))
        })+
    };
}

impl<M: Machine32> Machine32 for Pair<M> {
    type F32 = Two<M::F32>;
    type I32 = Two<M::I32>;
    type Bool = Two<M::Bool>;

    const EXPONENT: f32 = M::EXPONENT;
    const LARGE_TABLES: bool = M::LARGE_TABLES;

    both! {
        fma(a: F32, b: F32, c: F32) -> F32;
        fms(a: F32, b: F32, c: F32) -> F32;
        fnma(a: F32, b: F32, c: F32) -> F32;
        bits(x: F32) -> I32;
        float(bits: I32) -> F32;
        convert(integer: I32) -> F32;
        less(a: F32, b: F32) -> Bool;
        and_less(condition: Bool, a: F32, b: F32) -> Bool;
        equal(a: F32, b: F32) -> Bool;
        select(condition: Bool, yes: F32, no: F32) -> F32;
        min(a: F32, b: F32) -> F32;
        power(k: F32, place: I32) -> F32;
        reciprocal(x: F32) -> F32;
        rough_reciprocal(x: F32) -> F32;
        reciprocal_root(x: F32) -> F32;
    }

    both_of_two! {
        roots(F32) -> (F32, F32);
        at_most(F32, most: f32) -> (F32, Bool);
        bounded(F32, least: f32, greatest: f32) -> (F32, Bool);
        one_minus(F32) -> (F32, F32);
    }

    #[inline(always)]
    fn f32(&self, value: f32) -> Self::F32 {
        Two(self.0.f32(value), self.0.f32(value))
    }

    #[inline(always)]
    fn i32(&self, value: i32) -> Self::I32 {
        Two(self.0.i32(value), self.0.i32(value))
    }

    #[inline(always)]
    fn shift_left<const COUNT: u32>(&self, bits: Self::I32) -> Self::I32 {
        Two(self.0.shift_left::<COUNT>(bits.0), self.0.shift_left::<COUNT>(bits.1))
    }

    #[inline(always)]
    fn lookup<const N: usize>(&self, table: &'static [f32; N], place: Self::I32) -> Self::F32 {
        Two(self.0.lookup(table, place.0), self.0.lookup(table, place.1))
    }

    #[inline(always)]
    fn lookups<const N: usize, T: Tables<N>>(&self, place: Self::I32) -> [Self::F32; N] {
        let (first, second) = (self.0.lookups::<N, T>(place.0), self.0.lookups::<N, T>(place.1));
        let mut entries = [Two(first[0], second[0]); N];
        // A loop, because the compiler does not always inline iterators.
        let mut i = 1;
        while i < N {
            entries[i] = Two(first[i], second[i]);
            i += 1;
        }
        entries
    }

    #[inline(always)]
    fn scaled(
        &self, (y, is_right): (Self::F32, Self::Bool), k: Self::F32, place: Self::I32,
    ) -> (Self::F32, Self::Bool) {
        let first = self.0.scaled((y.0, is_right.0), k.0, place.0);
        let second = self.0.scaled((y.1, is_right.1), k.1, place.1);
        (Two(first.0, second.0), Two(first.1, second.1))
    }

    #[inline(always)]
    fn product_and_less_one(
        &self, a: Self::F32, b: Self::F32, x: Self::F32, excess: Self::F32,
    ) -> [Self::F32; 3] {
        let first = self.0.product_and_less_one(a.0, b.0, x.0, excess.0);
        let second = self.0.product_and_less_one(a.1, b.1, x.1, excess.1);
        [Two(first[0], second[0]), Two(first[1], second[1]), Two(first[2], second[2])]
    }

    #[inline(always)]
    fn split(&self, x: Self::F32) -> (Self::F32, Self::F32, Self::Bool) {
        let ((k, significand, is_right), second) = (self.0.split(x.0), self.0.split(x.1));
        (Two(k, second.0), Two(significand, second.1), Two(is_right, second.2))
    }
}

impl<M: Vectors> Vectors for Pair<M> {
    const LANES: usize = 2 * M::LANES;
    type Elements = [M::Elements; 2];
    type Lanes = Two<M::Lanes>;

    #[inline(always)]
    fn load(&self, from: &Self::Elements) -> Self::F32 {
        Two(self.0.load(&from[0]), self.0.load(&from[1]))
    }

    #[inline(always)]
    fn store(&self, x: Self::F32, to: &mut Self::Elements) {
        self.0.store(x.0, &mut to[0]);
        self.0.store(x.1, &mut to[1]);
    }

    #[inline(always)]
    fn holding(&self, condition: Self::Bool) -> Self::Lanes {
        Two(self.0.holding(condition.0), self.0.holding(condition.1))
    }
}
