//! Implements [`Machine32`](gpuvec_math::fast::Machine32) from a list of instructions.

/// Defines a machine by its instructions.
macro_rules! machine32 {
    (
        $(#[$doc:meta])* $name:ident by $set:ident:
        $F32:ident($f32:ty), $I32:ident($i32:ty), $Bool:ident($bool:ty),
        $(operators $type:ident { $($trait:ident $operator:ident $instruction:expr;)+ })+
        f32 $splat:ident, i32 $splat_bits:ident,
        fma $fma:expr, fms $fms:expr, fnma $fnma:expr, bits $bits:ident, float $float:ident,
        convert $convert:ident, shift_left $shift_left:ident, less $less:expr, equal $equal:expr,
        always $always:expr, select $select:ident, lookup $lookup:ident, min $min:ident,
        reciprocal $reciprocal:ident, roots $roots:ident, $($better:item)*
    ) => {
        $(#[$doc])*
        pub(crate) struct $name($set);

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

        impl $name {
            #[inline(always)]
            pub(in crate::arch) fn new(set: $set) -> Self {
                Self(set)
            }
        }

        impl gpuvec_math::fast::Machine32 for $name {
            type F32 = $F32;
            type I32 = $I32;
            type Bool = $Bool;

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
            fn fma(&self, a: $F32, b: $F32, c: $F32) -> $F32 {
                // SAFETY: the machine proves the instructions.
                $F32(unsafe { $fma(a.0, b.0, c.0) })
            }

            #[inline(always)]
            fn fms(&self, a: $F32, b: $F32, c: $F32) -> $F32 {
                // SAFETY: the machine proves the instructions.
                $F32(unsafe { $fms(a.0, b.0, c.0) })
            }

            #[inline(always)]
            fn fnma(&self, a: $F32, b: $F32, c: $F32) -> $F32 {
                // SAFETY: the machine proves the instructions.
                $F32(unsafe { $fnma(a.0, b.0, c.0) })
            }

            #[inline(always)]
            fn bits(&self, x: $F32) -> $I32 {
                // SAFETY: the machine proves the instructions.
                $I32(unsafe { $bits(x.0) })
            }

            #[inline(always)]
            fn float(&self, bits: $I32) -> $F32 {
                // SAFETY: the machine proves the instructions.
                $F32(unsafe { $float(bits.0) })
            }

            #[inline(always)]
            fn convert(&self, integer: $I32) -> $F32 {
                // SAFETY: the machine proves the instructions.
                $F32(unsafe { $convert(integer.0) })
            }

            #[inline(always)]
            fn shift_left<const COUNT: u32>(&self, bits: $I32) -> $I32 {
                $I32($shift_left::<COUNT>(bits.0))
            }

            #[inline(always)]
            fn less(&self, a: $F32, b: $F32) -> $Bool {
                // SAFETY: the machine proves the instructions.
                $Bool(unsafe { $less(a.0, b.0) })
            }

            #[inline(always)]
            fn equal(&self, a: $F32, b: $F32) -> $Bool {
                // SAFETY: the machine proves the instructions.
                $Bool(unsafe { $equal(a.0, b.0) })
            }

            #[inline(always)]
            fn select(&self, condition: $Bool, yes: $F32, no: $F32) -> $F32 {
                $F32($select(condition.0, yes.0, no.0))
            }

            #[inline(always)]
            fn lookup<const N: usize>(&self, table: &'static [f32; N], place: $I32) -> $F32 {
                $F32($lookup(table, place.0))
            }

            #[inline(always)]
            fn min(&self, a: $F32, b: $F32) -> $F32 {
                // SAFETY: the machine proves the instructions.
                $F32(unsafe { $min(a.0, b.0) })
            }

            /// The instruction returns its second operand if that is a NaN.
            #[inline(always)]
            fn at_most(&self, x: $F32, most: f32) -> ($F32, $Bool) {
                (self.min(self.f32(most), x), $Bool($always))
            }

            #[inline(always)]
            fn reciprocal(&self, x: $F32) -> $F32 {
                $F32($reciprocal(x.0))
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

pub(crate) use machine32;
