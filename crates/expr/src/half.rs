//! Floats of 16 bits: f16, which is IEEE 754's binary16, and bf16, the upper half of an f32.
//!
//! Without branches, so that loops become vector code. A NaN becomes the one quiet NaN.

/// The quiet NaN of f16.
pub const F16_NAN: u16 = 0x7E00;
/// The quiet NaN of bf16.
pub const BF16_NAN: u16 = 0x7FC0;

/// The least normal f16, 2^-14, as an f32.
const LEAST_NORMAL: f32 = f32::from_bits((127 - 14) << 23);

/// The value of an f16.
#[must_use]
#[inline(always)]
pub fn f32_of_f16(bits: u16) -> f32 {
    let sign = (u32::from(bits) & 0x8000) << 16;
    // The exponent and the mantissa in their places in an f32, whose exponents are greater by 112.
    let magnitude = (u32::from(bits) & 0x7FFF) << 13;
    let normal = magnitude + (112 << 23);
    let subnormal = f32::from_bits(magnitude + (113 << 23)) - LEAST_NORMAL;
    let magnitude = match magnitude >> 23 {
        0 => subnormal.to_bits(),
        31 => normal + (112 << 23),
        _ => normal,
    };
    f32::from_bits(sign | magnitude)
}

/// The value of a bf16.
#[must_use]
#[inline(always)]
pub fn f32_of_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bits of the nearest f16, ties to even; from 65520 on, an infinity.
#[must_use]
#[inline(always)]
pub fn f16_bits(x: f32) -> u16 {
    /// Its last bit is worth that of a subnormal f16, 2^-24.
    const ALIGNED: f32 = 0.5;
    /// 2^16: larger numbers are infinite.
    const LARGE: u32 = (127 + 16) << 23;
    let sign = (x.to_bits() >> 16) & 0x8000;
    let magnitude = x.to_bits() & 0x7FFF_FFFF;
    let (normal, subnormal) = (
        rounded(magnitude.min(LARGE), 13).wrapping_sub(112 << 10),
        (f32::from_bits(magnitude.min(LARGE)) + ALIGNED).to_bits().wrapping_sub(ALIGNED.to_bits()),
    );
    let rounded = if magnitude < LEAST_NORMAL.to_bits() { subnormal } else { normal };
    if x.is_nan() { F16_NAN } else { (sign | rounded.min(0x7C00)) as u16 }
}

/// The bits of the nearest bf16, ties to even.
#[must_use]
#[inline(always)]
pub fn bf16_bits(x: f32) -> u16 {
    if x.is_nan() { BF16_NAN } else { rounded(x.to_bits(), 16) as u16 }
}

/// The bits of a float's magnitude without the last ones, which round them to nearest, ties to even.
#[inline(always)]
fn rounded(bits: u32, count: u32) -> u32 {
    let half = (1 << (count - 1)) - 1;
    bits.wrapping_add(half + (bits >> count & 1)) >> count
}

/// The f32 of an f64 toward zero, with the last bit set if it is not exact: rounded again to a float that is shorter
/// by two bits or more, it is the f64 rounded once (Boldo and Melquiond, 2008).
#[must_use]
#[inline(always)]
pub fn rounded_to_odd(x: f64) -> f32 {
    let near = x as f32;
    // Of two neighbours with the exact value between them the odd one is wanted.
    let is_larger = f64::from(near).abs() > x.abs();
    let toward_zero = near.to_bits() - u32::from(is_larger);
    let is_inexact = f64::from(near) != x && !x.is_nan();
    f32::from_bits(toward_zero | u32::from(is_inexact))
}
