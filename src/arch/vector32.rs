//! Implements [`Machine32`](gpuvec_math::fast::Machine32) from a list of instructions.

/// Defines methods that each are one instruction, or a function of vectors.
macro_rules! instructions {
    ($($name:ident($($x:ident: $X:ident),+) -> $Result:ident: $instruction:expr;)+) => {
        $(#[inline(always)]
        #[allow(unused_unsafe, reason = "some are safe functions")]
        fn $name(&self, $($x: $X),+) -> $Result {
            // SAFETY: the machine proves the instructions.
            $Result(unsafe { $instruction($($x.0),+) })
        })+
    };
}

/// Defines a machine by its instructions.
macro_rules! machine32 {
    (
        $(#[$doc:meta])* $name:ident by $set:ident:
        $F32:ident($f32:ty), $I32:ident($i32:ty), $Bool:ident($bool:ty),
        $(operators $type:ident { $($trait:ident $operator:ident $instruction:expr;)+ })+
        f32 $splat:ident, i32 $splat_bits:ident,
        fma $fma:expr, fms $fms:expr, fnma $fnma:expr, bits $bits:ident, float $float:ident,
        convert $convert:ident, shift_left $shift_left:ident, less $less:expr, equal $equal:expr,
        always $always:expr, select $select:expr, lookup $lookup:ident, min $min:ident,
        reciprocal $reciprocal:expr, roots $roots:ident, $($better:tt)*
    ) => {
        $(#[$doc])*
        pub(crate) struct $name(pub(in crate::arch) $set);

        #[derive(Clone, Copy)]
        pub(crate) struct $F32($f32);
        #[derive(Clone, Copy)]
        pub(crate) struct $I32($i32);
        #[derive(Clone, Copy)]
        pub(crate) struct $Bool($bool);

        $($(impl std::ops::$trait for $type {
            type Output = Self;

            #[inline(always)]
            fn $operator(self, other: Self) -> Self {
                // SAFETY: a vector proves the instructions.
                #[allow(unused_unsafe, reason = "some are operators")]
                Self(unsafe { $instruction(self.0, other.0) })
            }
        })+)+

        impl gpuvec_math::fast::Machine32 for $name {
            type F32 = $F32;
            type I32 = $I32;
            type Bool = $Bool;

            $crate::arch::vector32::instructions! {
                fma(a: $F32, b: $F32, c: $F32) -> $F32: $fma;
                fms(a: $F32, b: $F32, c: $F32) -> $F32: $fms;
                fnma(a: $F32, b: $F32, c: $F32) -> $F32: $fnma;
                bits(x: $F32) -> $I32: $bits;
                float(bits: $I32) -> $F32: $float;
                convert(integer: $I32) -> $F32: $convert;
                less(a: $F32, b: $F32) -> $Bool: $less;
                equal(a: $F32, b: $F32) -> $Bool: $equal;
                select(condition: $Bool, yes: $F32, no: $F32) -> $F32: $select;
                min(a: $F32, b: $F32) -> $F32: $min;
                reciprocal(x: $F32) -> $F32: $reciprocal;
            }

            #[inline(always)]
            fn f32(&self, value: f32) -> $F32 {
                // SAFETY: the machine proves the instructions.
                $F32(unsafe { $splat(value) })
            }

            #[inline(always)]
            fn i32(&self, value: i32) -> $I32 {
                // SAFETY: the machine proves the instructions.
                $I32(unsafe { $splat_bits(value) })
            }

            #[inline(always)]
            fn shift_left<const COUNT: u32>(&self, bits: $I32) -> $I32 {
                $I32($shift_left::<COUNT>(bits.0))
            }

            #[inline(always)]
            fn lookup<const N: usize>(&self, table: &'static [f32; N], place: $I32) -> $F32 {
                $F32($lookup(table, place.0))
            }

            /// The instruction returns its second operand, x, if that is a NaN.
            #[inline(always)]
            fn at_most(&self, x: $F32, most: f32) -> ($F32, $Bool) {
                (self.min(self.f32(most), x), $Bool($always))
            }

            #[inline(always)]
            fn reciprocal_root(&self, x: $F32) -> $F32 {
                self.roots(x).1
            }

            #[inline(always)]
            fn roots(&self, x: $F32) -> ($F32, $F32) {
                let (root, inverse) = $roots(x.0);
                ($F32(root), $F32(inverse))
            }

            $($better)*
        }
    };
}

pub(crate) use {instructions, machine32};
