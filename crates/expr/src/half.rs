//! Floats of 16 bits: f16, which is IEEE 754's binary16, and bf16, the upper half of an f32.
//!
//! The functions have no branches, so that the compiler vectorises loops over them. A NaN becomes the one quiet NaN.

/// The quiet NaN of f16.
pub const F16_NAN: u16 = 0x7E00;
/// The quiet NaN of bf16.
pub const BF16_NAN: u16 = 0x7FC0;

/// The least normal f16, 2^-14, as an f32.
const LEAST_NORMAL: f32 = f32::from_bits((127 - 14) << 23);
/// 2^16, as an f32. It and all larger numbers are infinite as f16.
const LARGE: f32 = f32::from_bits((127 + 16) << 23);

/// The value of an f16.
#[must_use]
#[inline(always)]
pub fn f32_of_f16(bits: u16) -> f32 {
    let sign = (u32::from(bits) & 0x8000) << 16;
    // The exponent and the mantissa at their places in an f32. The exponents of f32 are greater by 112.
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

/// The bits of the nearest f16, ties to even. From 65520 on, it is infinite.
#[must_use]
#[inline(always)]
pub fn f16_bits(x: f32) -> u16 {
    let power = power_below(x);
    let aligned = power * TO_ALIGN;
    let magnitude = if x.abs() < LARGE { x.abs() } else { LARGE };
    let units = (magnitude + aligned).to_bits() - aligned.to_bits();
    // The mantissa's first bit is 1 unless the number is subnormal. It adds to the exponent.
    let rounded = ((power.to_bits() - LEAST_NORMAL.to_bits()) >> 13) + units;
    let sign = (x.to_bits() >> 16) & 0x8000;
    if x.is_nan() { F16_NAN } else { (sign | rounded) as u16 }
}

/// The nearest f16 as an f32, rounded as by [`f16_bits`].
#[must_use]
#[inline(always)]
pub fn nearest_f16(x: f32) -> f32 {
    let aligned = power_below(x) * TO_ALIGN;
    let rounded = (x.abs() + aligned) - aligned;
    let magnitude = if rounded < LARGE || x.is_nan() { rounded } else { f32::INFINITY };
    magnitude.copysign(x)
}

/// A power of two times this has an ulp that is the distance between f16s from that power on.
const TO_ALIGN: f32 = 8192.0;

/// The power of two at which the range of equally distant f16s around a number begins, for numbers up to [`LARGE`].
#[inline(always)]
fn power_below(x: f32) -> f32 {
    // Not the methods of f32, which also test for NaN.
    let power = f32::from_bits(x.to_bits() & 0x7F80_0000);
    let power = if power > LEAST_NORMAL { power } else { LEAST_NORMAL };
    if power < LARGE { power } else { LARGE }
}

/// The bits of the nearest bf16, ties to even.
#[must_use]
#[inline(always)]
pub fn bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let half = 0x7FFF + (bits >> 16 & 1);
    if x.is_nan() { BF16_NAN } else { (bits.wrapping_add(half) >> 16) as u16 }
}

/// Rounds an f64 to f32 toward zero, and sets the last bit if the result is not exact. Rounding it again, to a float
/// that is at least two bits shorter, gives the f64 rounded once (Boldo and Melquiond, 2008).
#[must_use]
#[inline(always)]
pub fn rounded_to_odd(x: f64) -> f32 {
    let near = x as f32;
    // If the exact value is between two neighbours, the odd one is the result.
    let is_larger = f64::from(near).abs() > x.abs();
    let toward_zero = near.to_bits() - u32::from(is_larger);
    let is_inexact = f64::from(near) != x && !x.is_nan();
    f32::from_bits(toward_zero | u32::from(is_inexact))
}
