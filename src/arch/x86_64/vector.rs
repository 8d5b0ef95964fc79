//! Vectors of f64 of three instruction sets.

use super::{Avx2, Avx512, Sse2};
use crate::arch::vector::vector;
use std::arch::x86_64::*;

/// The greater of `a` and `b` as unsigned integers, or the smaller if `is_greatest` is false. SSE2 compares only signed
/// integers.
#[inline(always)]
fn extreme(is_greatest: bool, a: __m128i, b: __m128i) -> __m128i {
    // SAFETY: every processor has SSE2.
    unsafe {
        let flip = _mm_set1_epi32(i32::MIN);
        let is_greater = _mm_cmpgt_epi32(_mm_xor_si128(a, flip), _mm_xor_si128(b, flip));
        let (yes, no) = if is_greatest { (a, b) } else { (b, a) };
        _mm_or_si128(_mm_and_si128(is_greater, yes), _mm_andnot_si128(is_greater, no))
    }
}

vector! {
    /// AVX-512 F and DQ.
    F64x8(__m512d, 8) by Avx512: splat _mm512_set1_pd,
    load_f32 |from| _mm512_cvtps_pd(_mm256_loadu_ps(from)), load_f64 _mm512_loadu_pd,
    multiply_add _mm512_fmadd_pd, multiply_subtract _mm512_fmsub_pd,
    flag_changes |flags, x, y| {
        // The truth table of flags | (x ^ y), as one instruction. LLVM would emit more.
        const OR_XOR: i32 = 0xf6;
        let [flags, x, y] = [flags, x, y].map(|bits| _mm512_castpd_si512(bits));
        _mm512_castsi512_pd(_mm512_ternarylogic_epi64::<OR_XOR>(flags, x, y))
    },
    flag_vanished |flags, product, x, y| {
        let zero = _mm512_setzero_pd();
        let lanes = _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(product, zero);
        let lanes = _mm512_mask_cmp_pd_mask::<_CMP_NEQ_OQ>(lanes, x, zero);
        let lanes = _mm512_mask_cmp_pd_mask::<_CMP_NEQ_OQ>(lanes, y, zero);
        _mm512_mask_mov_pd(flags, lanes, x)
    },
    integers {
        _mm512_castpd_si512, _mm512_castsi512_pd, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_add_epi32,
        _mm512_min_epu32, _mm512_max_epu32
    },
    magnitudes |least, most, x| {
        let size = _mm512_abs_pd(x);
        let lanes = _mm512_cmp_pd_mask::<_CMP_NEQ_OQ>(size, _mm512_setzero_pd());
        [_mm512_mask_min_pd(least, lanes, size, least), _mm512_max_pd(size, most)]
    },
    Add add _mm512_add_pd, Sub sub _mm512_sub_pd, Mul mul _mm512_mul_pd
}

vector! {
    /// AVX2 and FMA.
    F64x4(__m256d, 4) by Avx2: splat _mm256_set1_pd,
    load_f32 |from| _mm256_cvtps_pd(_mm_loadu_ps(from)), load_f64 _mm256_loadu_pd,
    multiply_add _mm256_fmadd_pd, multiply_subtract _mm256_fmsub_pd,
    flag_changes |flags, x, y| _mm256_or_pd(flags, _mm256_xor_pd(x, y)),
    flag_vanished |flags, product, x, y| {
        let is_zero = |x| _mm256_cmp_pd::<_CMP_EQ_OQ>(x, _mm256_setzero_pd());
        let has_zero = _mm256_or_pd(is_zero(x), is_zero(y));
        _mm256_or_pd(flags, _mm256_xor_pd(is_zero(product), has_zero))
    },
    integers {
        _mm256_castpd_si256, _mm256_castsi256_pd, _mm256_loadu_si256, _mm256_set1_epi32, _mm256_add_epi32,
        _mm256_min_epu32, _mm256_max_epu32
    },
    magnitudes |least, most, x| {
        let size = _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
        let is_zero = _mm256_cmp_pd::<_CMP_EQ_OQ>(size, _mm256_setzero_pd());
        let not_zero = _mm256_or_pd(size, _mm256_and_pd(is_zero, _mm256_set1_pd(f64::INFINITY)));
        [_mm256_min_pd(not_zero, least), _mm256_max_pd(size, most)]
    },
    Add add _mm256_add_pd, Sub sub _mm256_sub_pd, Mul mul _mm256_mul_pd
}

vector! {
    /// SSE2, which every x86-64 processor has.
    F64x2(__m128d, 2) by Sse2: splat _mm_set1_pd,
    load_f32 |from: *const f32| _mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64(from.cast()))),
    load_f64 _mm_loadu_pd,
    multiply_add |x, y, z| _mm_add_pd(_mm_mul_pd(x, y), z),
    multiply_subtract |x, y, z| _mm_sub_pd(_mm_mul_pd(x, y), z),
    flag_changes |flags, x, y| _mm_or_pd(flags, _mm_xor_pd(x, y)),
    flag_vanished |flags, product, x, y| {
        let is_zero = |x| _mm_cmpeq_pd(x, _mm_setzero_pd());
        let has_zero = _mm_or_pd(is_zero(x), is_zero(y));
        _mm_or_pd(flags, _mm_xor_pd(is_zero(product), has_zero))
    },
    integers {
        _mm_castpd_si128, _mm_castsi128_pd, _mm_loadu_si128, _mm_set1_epi32, _mm_add_epi32,
        |a, b| extreme(false, a, b), |a, b| extreme(true, a, b)
    },
    magnitudes |least, most, x| {
        let size = _mm_andnot_pd(_mm_set1_pd(-0.0), x);
        let is_zero = _mm_cmpeq_pd(size, _mm_setzero_pd());
        let not_zero = _mm_or_pd(size, _mm_and_pd(is_zero, _mm_set1_pd(f64::INFINITY)));
        [_mm_min_pd(not_zero, least), _mm_max_pd(size, most)]
    },
    Add add _mm_add_pd, Sub sub _mm_sub_pd, Mul mul _mm_mul_pd
}
