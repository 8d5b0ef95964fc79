//! Vectors of f64.

use super::Neon;
use crate::arch::vector::vector;
use std::arch::aarch64::*;

vector! {
    /// NEON.
    F64x2(float64x2_t, 2) by Neon: splat vdupq_n_f64,
    load_f32 |from| vcvt_f64_f32(vld1_f32(from)), load_f64 vld1q_f64,
    multiply_add |x, y, z| vfmaq_f64(z, x, y), multiply_subtract |x, y, z| vfmaq_f64(vnegq_f64(z), x, y),
    flag_changes |flags, x, y| {
        let [flags, x, y] = [flags, x, y].map(|bits| vreinterpretq_u64_f64(bits));
        vreinterpretq_f64_u64(vorrq_u64(flags, veorq_u64(x, y)))
    },
    flag_vanished |flags, product, x, y| {
        let has_zero = vorrq_u64(vceqzq_f64(x), vceqzq_f64(y));
        let vanished = veorq_u64(vceqzq_f64(product), has_zero);
        vreinterpretq_f64_u64(vorrq_u64(vreinterpretq_u64_f64(flags), vanished))
    },
    integers {
        vreinterpretq_u32_f64, vreinterpretq_f64_u32, vld1q_u32,
        |number| vreinterpretq_u32_s32(vdupq_n_s32(number)), vaddq_u32, vminq_u32, vmaxq_u32
    },
    magnitudes |least, most, x| {
        let size = vabsq_f64(x);
        let not_zero = vbslq_f64(vceqzq_f64(size), vdupq_n_f64(f64::INFINITY), size);
        // If one operand is a quiet NaN, the instruction returns the other. A NaN that arithmetic made is quiet.
        [vminnmq_f64(not_zero, least), vmaxnmq_f64(size, most)]
    },
    Add add vaddq_f64, Sub sub vsubq_f64, Mul mul vmulq_f64
}
