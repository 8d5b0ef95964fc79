//! Vectors of 32-bit lanes of two instruction sets, as machines of fast functions.

use super::{Avx2, Avx512};
use crate::arch::Vectors;
use crate::arch::vector32::{instructions, machine32};
use gpuvec_math::fast::{EXP_POWERS, Tables};
use std::arch::x86_64::*;

/// Shifts all lanes to the left. This instruction takes its count from a register.
#[inline(always)]
fn shift_avx2<const COUNT: u32>(x: __m256i) -> __m256i {
    // SAFETY: a vector proves the instructions.
    unsafe { _mm256_sll_epi32(x, _mm_cvtsi32_si128(COUNT as i32)) }
}

/// Shifts all lanes to the left.
#[inline(always)]
fn shift_avx512<const COUNT: u32>(x: __m512i) -> __m512i {
    // SAFETY: a vector proves the instructions.
    unsafe { _mm512_slli_epi32::<COUNT>(x) }
}

/// Looks up the entries of a table of 16 or 32 at places. A permutation takes the lowest three bits of a place. Masks
/// of bits 3 and 4 choose between the permutations of each eight entries. Several tables share the masks, so that on
/// some processors they take half the operations of blends. (No closures here: the compiler does not always inline
/// them.)
#[inline(always)]
fn lookup_avx2<const N: usize>(table: &'static [f32; N], places: __m256i) -> __m256 {
    const { assert!(N == 16 || N == 32) };
    // SAFETY: a vector proves the instructions; the table has the entries.
    unsafe {
        let parts = table.as_ptr().cast::<__m256i>();
        let (first, second) = (_mm256_loadu_si256(parts), _mm256_loadu_si256(parts.add(1)));
        // All ones where the bit is set.
        let by_bit_3 = _mm256_srai_epi32::<31>(_mm256_slli_epi32::<28>(places));
        let changes = _mm256_xor_si256(first, second);
        let low = _mm256_and_si256(_mm256_permutevar8x32_epi32(changes, places), by_bit_3);
        let low = _mm256_xor_si256(_mm256_permutevar8x32_epi32(first, places), low);
        if N == 16 {
            return _mm256_castsi256_ps(low);
        }
        let (third, last) = (_mm256_loadu_si256(parts.add(2)), _mm256_loadu_si256(parts.add(3)));
        let by_bit_4 = _mm256_srai_epi32::<31>(_mm256_slli_epi32::<27>(places));
        let later = _mm256_xor_si256(first, third);
        let later_changes = _mm256_xor_si256(changes, _mm256_xor_si256(third, last));
        let high = _mm256_and_si256(_mm256_permutevar8x32_epi32(later_changes, places), by_bit_3);
        let high = _mm256_xor_si256(_mm256_permutevar8x32_epi32(later, places), high);
        _mm256_castsi256_ps(_mm256_xor_si256(low, _mm256_and_si256(high, by_bit_4)))
    }
}

/// Looks up the entries of up to four tables at places. Loads whole rows and transposes them: at most eight shuffles,
/// instead of four for each table and masks.
#[inline(always)]
fn lookups_avx2(rows: &'static [[f32; 4]; 32], places: __m256i) -> [__m256; 4] {
    // SAFETY: a vector proves the instructions; the mask makes each offset the offset of a row.
    unsafe {
        let mask = _mm256_set1_epi32(size_of_val(rows) as i32 - 16);
        let offsets = _mm256_and_si256(_mm256_slli_epi32::<4>(places), mask);
        let offsets: [u32; 8] = std::mem::transmute(offsets);
        macro_rules! row {
            // Volatile, so that offsets go through memory. Instructions that extract them would compete with the
            // shuffles for the same units.
            ($i:expr) => {
                rows.as_ptr().byte_add((&raw const offsets[$i]).read_volatile() as usize).cast()
            };
        }
        macro_rules! two_rows {
            ($i:expr) => {
                _mm256_insertf128_ps::<1>(
                    _mm256_castps128_ps256(_mm_loadu_ps(row!($i))),
                    _mm_loadu_ps(row!($i + 4)),
                )
            };
        }
        let (a, b, c, d) = (two_rows!(0), two_rows!(1), two_rows!(2), two_rows!(3));
        use _mm256_castps_pd as pd;
        let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
        let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
        [
            _mm256_castpd_ps(_mm256_unpacklo_pd(pd(ab), pd(cd))),
            _mm256_castpd_ps(_mm256_unpackhi_pd(pd(ab), pd(cd))),
            _mm256_castpd_ps(_mm256_unpacklo_pd(pd(ab_high), pd(cd_high))),
            _mm256_castpd_ps(_mm256_unpackhi_pd(pd(ab_high), pd(cd_high))),
        ]
    }
}

/// Looks up the entries of a table of 16 or 32 at places.
#[inline(always)]
fn lookup_avx512<const N: usize>(table: &'static [f32; N], places: __m512i) -> __m512 {
    const { assert!(N == 16 || N == 32) };
    // SAFETY: a vector proves the instructions; the table has the entries.
    unsafe {
        let first = _mm512_loadu_ps(table.as_ptr());
        if N == 16 {
            _mm512_permutexvar_ps(places, first)
        } else {
            _mm512_permutex2var_ps(first, places, _mm512_loadu_ps(table.as_ptr().add(16)))
        }
    }
}

/// An estimate of the reciprocal with an error of 2^-14, and a Newton step, which reduces the error to 2^-28 and
/// roundings. A division of 16 numbers takes three times as long.
#[inline(always)]
fn reciprocal_avx512(x: __m512) -> __m512 {
    // SAFETY: a vector proves the instructions.
    unsafe {
        let y = _mm512_rcp14_ps(x);
        _mm512_fmadd_ps(y, _mm512_fnmadd_ps(x, y, _mm512_set1_ps(1.0)), y)
    }
}

/// The square root and its reciprocal. An estimate has an error of 1.5 · 2^-12. A Newton step (in Goldschmidt's form)
/// reduces it to 2^-22.2, and adds roundings below 2^-23.
#[inline(always)]
fn roots_avx2(x: __m256) -> (__m256, __m256) {
    // SAFETY: a vector proves the instructions.
    unsafe {
        let y = _mm256_rsqrt_ps(x);
        let root = _mm256_mul_ps(x, y);
        let half = _mm256_set1_ps(0.5);
        let rest = _mm256_fnmadd_ps(root, _mm256_mul_ps(y, half), half);
        (_mm256_fmadd_ps(root, rest, root), _mm256_fmadd_ps(y, rest, y))
    }
}

/// The same for AVX-512. The estimate has an error of 2^-14. The step reduces it to 2^-27.4, and adds roundings below
/// 2^-23.
#[inline(always)]
fn roots_avx512(x: __m512) -> (__m512, __m512) {
    // SAFETY: a vector proves the instructions.
    unsafe {
        let y = _mm512_rsqrt14_ps(x);
        let root = _mm512_mul_ps(x, y);
        let half = _mm512_set1_ps(0.5);
        let rest = _mm512_fnmadd_ps(root, _mm512_mul_ps(y, half), half);
        (_mm512_fmadd_ps(root, rest, root), _mm512_fmadd_ps(y, rest, y))
    }
}

/// x - 1, and the difference between that and the exact value (Dekker). Rounded down, so that 1 - 1 is -0. The
/// difference is exact for x below 2^24, since 1 is a multiple of the last bit of such numbers. For a greater x the
/// results are x and 1.
#[inline(always)]
fn less_one_avx512(x: __m512) -> [__m512; 2] {
    const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    // SAFETY: a vector proves the instructions.
    unsafe {
        let one = _mm512_set1_ps(1.0);
        let is_small = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(x, _mm512_set1_ps(16_777_216.0));
        let less_one = _mm512_mask_sub_round_ps::<DOWN>(x, is_small, x, one);
        let too_much = _mm512_mask_sub_ps(one, is_small, _mm512_add_ps(less_one, one), x);
        [less_one, too_much]
    }
}

/// Implements [`Vectors`] by instructions.
macro_rules! vectors {
    (
        $name:ident($lanes:literal) of $F32:ident and $Bool:ident: load $load:ident, store $store:ident,
        holding $lanes_type:ident $holding:expr
    ) => {
        impl Vectors for $name {
            const LANES: usize = $lanes;
            type Elements = [f32; $lanes];
            type Lanes = $lanes_type;

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
            fn holding(&self, condition: $Bool) -> $lanes_type {
                // SAFETY: the machine proves the instructions.
                #[allow(unused_unsafe, reason = "some are operators")]
                unsafe {
                    $holding(condition.0)
                }
            }
        }
    };
}

machine32! {
    /// AVX2 with FMA.
    Machine8 by Avx2: F32x8(__m256), I32x8(__m256i), Bool8(__m256),
    operators F32x8 {
        Add add _mm256_add_ps;
        Sub sub _mm256_sub_ps;
        Mul mul _mm256_mul_ps;
    }
    operators I32x8 {
        Add add _mm256_add_epi32;
        Sub sub _mm256_sub_epi32;
        BitAnd bitand _mm256_and_si256;
        BitOr bitor _mm256_or_si256;
        BitXor bitxor _mm256_xor_si256;
    }
    operators Bool8 {
        BitAnd bitand _mm256_and_ps;
    }
    f32 _mm256_set1_ps, i32 _mm256_set1_epi32,
    fma _mm256_fmadd_ps, fms _mm256_fmsub_ps, fnma _mm256_fnmadd_ps, bits _mm256_castps_si256,
    float _mm256_castsi256_ps, convert _mm256_cvtepi32_ps, shift_left shift_avx2,
    less |a, b| _mm256_cmp_ps::<_CMP_LT_OQ>(a, b), equal |a, b| _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b),
    // SAFETY: a vector proves the instructions.
    always unsafe { _mm256_castsi256_ps(_mm256_set1_epi32(-1)) },
    // It takes fewer operations than a blend if both are constants, or one is 0.
    select |mask, yes, no| _mm256_xor_ps(no, _mm256_and_ps(mask, _mm256_xor_ps(yes, no))),
    lookup lookup_avx2, min _mm256_min_ps,
    // A division takes fewer instructions than an estimate and Newton's step.
    reciprocal |x| _mm256_div_ps(_mm256_set1_ps(1.0), x), roots roots_avx2,

    instructions! { rough_reciprocal(x: F32x8) -> F32x8: _mm256_rcp_ps; }

    #[inline(always)]
    fn lookups<const N: usize, T: Tables<N>>(&self, place: I32x8) -> [F32x8; N] {
        let all = lookups_avx2(const { &T::ROWS }, place.0);
        let mut entries = [F32x8(all[0]); N];
        for (entry, found) in entries.iter_mut().zip(&all) {
            *entry = F32x8(*found);
        }
        entries
    }
}

vectors! {
    Machine8(8) of F32x8 and Bool8: load _mm256_loadu_ps, store _mm256_storeu_ps,
    holding u8 |condition| _mm256_movemask_ps(condition) as u8
}

machine32! {
    /// AVX-512 F and DQ.
    Machine16 by Avx512: F32x16(__m512), I32x16(__m512i), Bool16(__mmask16),
    operators F32x16 {
        Add add _mm512_add_ps;
        Sub sub _mm512_sub_ps;
        Mul mul _mm512_mul_ps;
    }
    operators I32x16 {
        Add add _mm512_add_epi32;
        Sub sub _mm512_sub_epi32;
        BitAnd bitand _mm512_and_si512;
        BitOr bitor _mm512_or_si512;
        BitXor bitxor _mm512_xor_si512;
    }
    operators Bool16 {
        BitAnd bitand u16::bitand;
    }
    f32 _mm512_set1_ps, i32 _mm512_set1_epi32,
    fma _mm512_fmadd_ps, fms _mm512_fmsub_ps, fnma _mm512_fnmadd_ps, bits _mm512_castps_si512,
    float _mm512_castsi512_ps, convert _mm512_cvtepi32_ps, shift_left shift_avx512,
    less |a, b| _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b),
    equal |a, b| _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b),
    always u16::MAX,
    select |mask, yes, no| _mm512_mask_blend_ps(mask, no, yes), lookup lookup_avx512,
    min _mm512_min_ps, reciprocal reciprocal_avx512, roots roots_avx512,

    const EXPONENT: f32 = 1.0;
    const LARGE_TABLES: bool = true;

    instructions! {
        rough_reciprocal(x: F32x16) -> F32x16: _mm512_rcp14_ps;
        and_less(condition: Bool16, a: F32x16, b: F32x16) -> Bool16:
            |condition, a, b| _mm512_mask_cmp_ps_mask::<_CMP_LT_OQ>(condition, a, b);
    }

    #[inline(always)]
    fn scaled(
        &self, (y, is_right): (F32x16, Bool16), k: F32x16, _: I32x16,
    ) -> (F32x16, Bool16) {
        // SAFETY: a vector proves the instructions.
        unsafe {
            // A subnormal result would take a hundred times as long. A result that overflows is right.
            let least = _mm512_set1_ps(-125.0);
            let y = _mm512_scalef_ps(y.0, _mm512_max_ps(k.0, least));
            (F32x16(y), Bool16(_mm512_mask_cmp_ps_mask::<_CMP_GE_OQ>(is_right.0, k.0, least)))
        }
    }

    #[inline(always)]
    fn power(&self, k: F32x16, place: I32x16) -> F32x16 {
        let power = self.lookup(&EXP_POWERS, place);
        // SAFETY: a vector proves the instructions.
        F32x16(unsafe { _mm512_scalef_ps(power.0, k.0) })
    }

    #[inline(always)]
    fn bounded(&self, x: F32x16, least: f32, _greatest: f32) -> (F32x16, Bool16) {
        // The result is the second operand if one is a NaN.
        // SAFETY: a vector proves the instructions.
        (F32x16(unsafe { _mm512_max_ps(_mm512_set1_ps(least), x.0) }), Bool16(u16::MAX))
    }

    #[inline(always)]
    fn one_minus(&self, x: F32x16) -> (F32x16, F32x16) {
        let [less_one, too_much] = less_one_avx512(x.0);
        // SAFETY: a vector proves the instructions. (x - 1 is -0 where x = 1.)
        unsafe {
            let sign = _mm512_set1_ps(-0.0);
            (F32x16(_mm512_xor_ps(less_one, sign)), F32x16(_mm512_xor_ps(too_much, sign)))
        }
    }

    #[inline(always)]
    fn product_and_less_one(
        &self, a: F32x16, b: F32x16, x: F32x16, excess: F32x16,
    ) -> [F32x16; 3] {
        let [less_one, too_much] = less_one_avx512(x.0);
        let y = self.fma(a, b, F32x16(less_one));
        // If the product is -0, the difference is +0, and the rest that y lacks is -0.
        [y, self.fms(a, b, y - F32x16(less_one)), self.fma(excess, x, F32x16(too_much))]
    }

    #[inline(always)]
    fn split(&self, x: F32x16) -> (F32x16, F32x16, Bool16) {
        // SAFETY: a vector proves the instructions.
        let [exponent, significand] = unsafe {
            [_mm512_getexp_ps(x.0), _mm512_getmant_ps::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_NAN>(x.0)]
        };
        // The significand of a negative number is NaN; 0 and infinity have an infinite exponent. Subnormal numbers are
        // right.
        (F32x16(exponent), F32x16(significand), Bool16(u16::MAX))
    }
}

vectors! {
    Machine16(16) of F32x16 and Bool16: load _mm512_loadu_ps, store _mm512_storeu_ps,
    holding u16 |condition| condition
}
