//! Vectors of 32 bits of two instruction sets, as the machines of fast functions.

use gpuvec_math::fast::Machine32;
use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, BitXor, Mul, Sub};

/// A machine of vectors. Its constructor is unsafe, so that its operations are safe: they need the
/// processor's instructions.
pub(crate) trait Vectors: Machine32 {
    /// The number of elements of a vector.
    const LANES: usize;
    /// The elements of a vector.
    type Elements;

    /// # Safety
    /// The processor has the machine's instructions.
    unsafe fn new() -> Self;

    /// Loads elements.
    fn load(&self, from: &Self::Elements) -> Self::F32;

    /// Stores elements.
    fn store(&self, x: Self::F32, to: &mut Self::Elements);

    /// Says whether a condition holds for all elements.
    fn all(&self, condition: Self::Bool) -> bool;
}

/// Shifts to the left; here the instruction's count is not a constant.
#[inline(always)]
fn shift_avx2<const COUNT: u32>(x: __m256i) -> __m256i {
    // SAFETY: a vector proves the instructions.
    unsafe { _mm256_sll_epi32(x, _mm_cvtsi32_si128(COUNT as i32)) }
}

/// Shifts to the left.
#[inline(always)]
fn shift_avx512<const COUNT: u32>(x: __m512i) -> __m512i {
    // SAFETY: a vector proves the instructions.
    unsafe { _mm512_slli_epi32::<COUNT>(x) }
}

/// The entries of a table of 16 or 32 at places.
#[inline(always)]
fn lookup_avx2<const N: usize>(table: &'static [f32; N], places: __m256i) -> __m256 {
    const { assert!(N == 16 || N == 32) };
    // SAFETY: a vector proves the instructions; the table has the entries.
    unsafe {
        let eighth =
            |i: usize| _mm256_permutevar8x32_ps(_mm256_loadu_ps(table[8 * i..].as_ptr()), places);
        // The sign of a lane chooses.
        let by_bit_3 = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(places));
        let low = _mm256_blendv_ps(eighth(0), eighth(1), by_bit_3);
        if N == 16 {
            return low;
        }
        let high = _mm256_blendv_ps(eighth(2), eighth(3), by_bit_3);
        _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32::<27>(places)))
    }
}

/// The entries of a table of 16 or 32 at places.
#[inline(always)]
fn lookup_avx512<const N: usize>(table: &'static [f32; N], places: __m512i) -> __m512 {
    const { assert!(N == 16 || N == 32) };
    // SAFETY: a vector proves the instructions; the table has the entries.
    unsafe {
        let half = |i: usize| _mm512_loadu_ps(table[16 * i..].as_ptr());
        if N == 16 {
            _mm512_permutexvar_ps(places, half(0))
        } else {
            _mm512_permutex2var_ps(half(0), places, half(1))
        }
    }
}

macro_rules! vectors {
    (
        $(#[$doc:meta])* $name:ident($lanes:literal):
        $F32:ident($f32:ty), $I32:ident($i32:ty), $Bool:ident($bool:ty),
        $(operators $type:ident { $($trait:ident $operator:ident $instruction:expr;)+ })+
        load $load:ident, store $store:ident, f32 $splat:ident, i32 $splat_bits:ident,
        fma $fma:ident, fms $fms:ident, bits $bits:ident, float $float:ident, convert $convert:ident,
        shift_left $shift_left:ident, less $less:expr, equal $equal:expr,
        all $all:expr, lookup $lookup:ident,
    ) => {
        $(#[$doc])*
        pub(crate) struct $name(());

        #[derive(Clone, Copy)]
        pub(crate) struct $F32($f32);
        #[derive(Clone, Copy)]
        pub(crate) struct $I32($i32);
        #[derive(Clone, Copy)]
        pub(crate) struct $Bool($bool);

        $($(impl $trait for $type {
            type Output = Self;

            #[inline(always)]
            fn $operator(self, other: Self) -> Self {
                // SAFETY: a vector proves the instructions.
                #[allow(unused_unsafe, reason = "some are operators")]
                Self(unsafe { $instruction(self.0, other.0) })
            }
        })+)+

        impl Vectors for $name {
            const LANES: usize = $lanes;
            type Elements = [f32; $lanes];

            #[inline(always)]
            unsafe fn new() -> Self {
                Self(())
            }

            #[inline(always)]
            fn load(&self, from: &[f32; $lanes]) -> $F32 {
                // SAFETY: the machine proves the instructions, and the array has a vector's elements.
                $F32(unsafe { $load(from.as_ptr()) })
            }

            #[inline(always)]
            fn store(&self, x: $F32, to: &mut [f32; $lanes]) {
                // SAFETY: the machine proves the instructions, and the array has a vector's elements.
                unsafe { $store(to.as_mut_ptr(), x.0) }
            }

            #[inline(always)]
            fn all(&self, condition: $Bool) -> bool {
                // SAFETY: the machine proves the instructions.
                #[allow(unused_unsafe, reason = "some are operators")]
                unsafe { $all(condition.0) }
            }
        }

        impl Machine32 for $name {
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
            fn lookup<const N: usize>(&self, table: &'static [f32; N], place: $I32) -> $F32 {
                $F32($lookup(table, place.0))
            }
        }
    };
}

vectors! {
    /// AVX2 with FMA.
    Avx2(8): Avx2F32(__m256), Avx2I32(__m256i), Avx2Bool(__m256),
    operators Avx2F32 {
        Add add _mm256_add_ps;
        Sub sub _mm256_sub_ps;
        Mul mul _mm256_mul_ps;
    }
    operators Avx2I32 {
        Add add _mm256_add_epi32;
        Sub sub _mm256_sub_epi32;
        BitAnd bitand _mm256_and_si256;
        BitOr bitor _mm256_or_si256;
        BitXor bitxor _mm256_xor_si256;
    }
    operators Avx2Bool {
        BitAnd bitand _mm256_and_ps;
    }
    load _mm256_loadu_ps, store _mm256_storeu_ps, f32 _mm256_set1_ps, i32 _mm256_set1_epi32,
    fma _mm256_fmadd_ps, fms _mm256_fmsub_ps, bits _mm256_castps_si256, float _mm256_castsi256_ps,
    convert _mm256_cvtepi32_ps, shift_left shift_avx2,
    less |a, b| _mm256_cmp_ps::<_CMP_LT_OQ>(a, b), equal |a, b| _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b),
    all |condition| _mm256_movemask_ps(condition) == 0xff, lookup lookup_avx2,
}

vectors! {
    /// AVX-512 F and DQ.
    Avx512(16): Avx512F32(__m512), Avx512I32(__m512i), Avx512Bool(__mmask16),
    operators Avx512F32 {
        Add add _mm512_add_ps;
        Sub sub _mm512_sub_ps;
        Mul mul _mm512_mul_ps;
    }
    operators Avx512I32 {
        Add add _mm512_add_epi32;
        Sub sub _mm512_sub_epi32;
        BitAnd bitand _mm512_and_si512;
        BitOr bitor _mm512_or_si512;
        BitXor bitxor _mm512_xor_si512;
    }
    operators Avx512Bool {
        BitAnd bitand u16::bitand;
    }
    load _mm512_loadu_ps, store _mm512_storeu_ps, f32 _mm512_set1_ps, i32 _mm512_set1_epi32,
    fma _mm512_fmadd_ps, fms _mm512_fmsub_ps, bits _mm512_castps_si512, float _mm512_castsi512_ps,
    convert _mm512_cvtepi32_ps, shift_left shift_avx512,
    less |a, b| _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b),
    equal |a, b| _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b),
    all |condition| condition == u16::MAX, lookup lookup_avx512,
}
