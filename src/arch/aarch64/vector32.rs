//! Vectors of four 32-bit lanes, as a machine of fast functions.

use super::Neon;
use crate::arch::{Pair, Vectors, pair::Two, vector32::machine32};
use gpuvec_math::fast::Tables;
use std::arch::aarch64::*;

/// Shifts all lanes to the left.
#[inline(always)]
fn shift<const COUNT: u32>(x: int32x4_t) -> int32x4_t {
    // SAFETY: every processor has NEON.
    unsafe { vshlq_s32(x, vdupq_n_s32(COUNT as i32)) }
}

/// Looks up the entries of a table of 16 or 32 at places. The instruction looks up bytes, by their offsets.
#[inline(always)]
fn lookup<const N: usize>(table: &'static [f32; N], places: int32x4_t) -> float32x4_t {
    const { assert!(N == 16 || N == 32) };
    // SAFETY: every processor has NEON; the table has the entries.
    unsafe {
        let places = vandq_u32(vreinterpretq_u32_s32(places), vdupq_n_u32(N as u32 - 1));
        // The offset of a byte is four times the place plus the byte's number in its entry.
        let offsets = vmlaq_u32(vdupq_n_u32(0x0302_0100), places, vdupq_n_u32(0x0404_0404));
        let offsets = vreinterpretq_u8_u32(offsets);
        let bytes = table.as_ptr().cast::<u8>();
        let mut entries = vqtbl4q_u8(vld1q_u8_x4(bytes), offsets);
        if N == 32 {
            // Offsets below 64 wrap to values beyond the table, for which the instruction keeps the entries.
            let offsets = vsubq_u8(offsets, vdupq_n_u8(64));
            entries = vqtbx4q_u8(entries, vld1q_u8_x4(bytes.add(64)), offsets);
        }
        vreinterpretq_f32_u8(entries)
    }
}

/// Looks up the entries of up to four tables at places. Loads whole rows and transposes them.
#[inline(always)]
fn lookups(rows: &'static [[f32; 4]; 32], places: int32x4_t) -> [float32x4_t; 4] {
    // SAFETY: every processor has NEON; the mask makes each place the number of a row.
    unsafe {
        let places = vandq_u32(vreinterpretq_u32_s32(places), vdupq_n_u32(rows.len() as u32 - 1));
        let places: [u32; 4] = std::mem::transmute(places);
        let [a, b, c, d] = places.map(|place| vld1q_f32(rows.as_ptr().add(place as usize).cast()));
        use vreinterpretq_f64_f32 as f64x2;
        let (ab, cd) = (f64x2(vtrn1q_f32(a, b)), f64x2(vtrn1q_f32(c, d)));
        let (ab_odd, cd_odd) = (f64x2(vtrn2q_f32(a, b)), f64x2(vtrn2q_f32(c, d)));
        [
            vreinterpretq_f32_f64(vzip1q_f64(ab, cd)),
            vreinterpretq_f32_f64(vzip1q_f64(ab_odd, cd_odd)),
            vreinterpretq_f32_f64(vzip2q_f64(ab, cd)),
            vreinterpretq_f32_f64(vzip2q_f64(ab_odd, cd_odd)),
        ]
    }
}

/// An estimate of the reciprocal with an error of 2^-8, and a Newton step, which reduces the error to 2^-16.
#[inline(always)]
fn rough_reciprocal(x: float32x4_t) -> float32x4_t {
    // SAFETY: every processor has NEON.
    unsafe {
        let y = vrecpeq_f32(x);
        vmulq_f32(y, vrecpsq_f32(x, y))
    }
}

/// The rough reciprocal and a second Newton step, which reduces the error to 2^-32. The roundings of the step and of
/// its product add 2^-23. (A division would occupy the processor's only divider for several cycles.)
#[inline(always)]
fn reciprocal(x: float32x4_t) -> float32x4_t {
    let y = rough_reciprocal(x);
    // SAFETY: every processor has NEON.
    unsafe { vmulq_f32(y, vrecpsq_f32(x, y)) }
}

/// The square root and its reciprocal. An estimate has an error of 2^-8. Two Newton steps reduce it to 2^-15.4 and
/// 2^-30, and add roundings below 2^-22.4. The error of the root is greater by 2^-24.
#[inline(always)]
fn roots(x: float32x4_t) -> (float32x4_t, float32x4_t) {
    // SAFETY: every processor has NEON.
    unsafe {
        let y = vrsqrteq_f32(x);
        let y = vmulq_f32(y, vrsqrtsq_f32(vmulq_f32(x, y), y));
        let y = vmulq_f32(y, vrsqrtsq_f32(vmulq_f32(x, y), y));
        (vmulq_f32(x, y), y)
    }
}

machine32! {
    /// NEON.
    Machine4 by Neon: F32x4(float32x4_t), I32x4(int32x4_t), Bool4(uint32x4_t),
    operators F32x4 {
        Add add vaddq_f32;
        Sub sub vsubq_f32;
        Mul mul vmulq_f32;
    }
    operators I32x4 {
        Add add vaddq_s32;
        Sub sub vsubq_s32;
        BitAnd bitand vandq_s32;
        BitOr bitor vorrq_s32;
        BitXor bitxor veorq_s32;
    }
    operators Bool4 {
        BitAnd bitand vandq_u32;
    }
    f32 vdupq_n_f32, i32 vdupq_n_s32,
    fma |a, b, c| vfmaq_f32(c, a, b), fms |a, b, c| vfmaq_f32(vnegq_f32(c), a, b),
    fnma |a, b, c| vfmsq_f32(c, a, b), bits vreinterpretq_s32_f32, float vreinterpretq_f32_s32,
    convert vcvtq_f32_s32, shift_left shift, less vcltq_f32, equal vceqq_f32,
    // SAFETY: every processor has NEON.
    always unsafe { vdupq_n_u32(u32::MAX) },
    select |mask, yes, no| vbslq_f32(mask, yes, no), lookup lookup,
    // The result is NaN if one operand is.
    min vminq_f32, reciprocal reciprocal, roots roots,

    #[inline(always)]
    fn lookups<const N: usize, T: Tables<N>>(&self, place: I32x4) -> [F32x4; N] {
        let all = lookups(const { &T::ROWS }, place.0);
        let mut entries = [F32x4(all[0]); N];
        for (entry, found) in entries.iter_mut().zip(&all) {
            *entry = F32x4(*found);
        }
        entries
    }

    #[inline(always)]
    fn rough_reciprocal(&self, x: F32x4) -> F32x4 {
        F32x4(rough_reciprocal(x.0))
    }
}

/// A pair of vectors has eight lanes, so that a mask of them is a byte.
impl Vectors for Pair<Machine4> {
    const LANES: usize = 8;
    type Elements = [[f32; 4]; 2];
    type Lanes = u8;

    #[inline(always)]
    fn load(&self, [first, second]: &Self::Elements) -> Self::F32 {
        // SAFETY: every processor has NEON; each array has the elements of a vector.
        unsafe { Two(F32x4(vld1q_f32(first.as_ptr())), F32x4(vld1q_f32(second.as_ptr()))) }
    }

    #[inline(always)]
    fn store(&self, x: Self::F32, [first, second]: &mut Self::Elements) {
        // SAFETY: every processor has NEON; each array has the elements of a vector.
        unsafe {
            vst1q_f32(first.as_mut_ptr(), x.0.0);
            vst1q_f32(second.as_mut_ptr(), x.1.0);
        }
    }

    #[inline(always)]
    fn holding(&self, condition: Self::Bool) -> u8 {
        const BITS: [u16; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
        // SAFETY: every processor has NEON; the array has the elements of a vector.
        unsafe {
            let halves = vcombine_u16(vmovn_u32(condition.0.0), vmovn_u32(condition.1.0));
            vaddvq_u16(vandq_u16(halves, vld1q_u16(BITS.as_ptr()))) as u8
        }
    }
}
