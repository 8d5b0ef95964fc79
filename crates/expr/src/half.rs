//! Floats of 16 bits: f16, which is IEEE 754's binary16, and bf16, the upper half of an f32.
//!
//! Without branches, so that loops become vector code. A NaN becomes the one quiet NaN.

/// The quiet NaN of f16.
pub const F16_NAN: u16 = 0x7E00;
/// The quiet NaN of bf16.
pub const BF16_NAN: u16 = 0x7FC0;

/// The least normal f16, 2^-14, as an f32.
const LEAST_NORMAL: f32 = f32::from_bits((127 - 14) << 23);
/// 2^16, as an f32: larger numbers are infinite f16s, as it is.
const LARGE: f32 = f32::from_bits((127 + 16) << 23);

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
    let power = power_below(x);
    let aligned = power * TO_ALIGN;
    let magnitude = if x.abs() < LARGE { x.abs() } else { LARGE };
    let units = (magnitude + aligned).to_bits() - aligned.to_bits();
    // The mantissa's first bit, which is 1 unless the number is subnormal, adds to the exponent.
    let rounded = ((power.to_bits() - LEAST_NORMAL.to_bits()) >> 13) + units;
    let sign = (x.to_bits() >> 16) & 0x8000;
    if x.is_nan() { F16_NAN } else { (sign | rounded) as u16 }
}

/// The nearest f16 as an f32, as [`f16_bits`] rounds.
#[must_use]
#[inline(always)]
pub fn nearest_f16(x: f32) -> f32 {
    let aligned = power_below(x) * TO_ALIGN;
    let rounded = (x.abs() + aligned) - aligned;
    let magnitude = if rounded < LARGE || x.is_nan() { rounded } else { f32::INFINITY };
    magnitude.copysign(x)
}

/// Times a power of two, it is a number whose ulp is the distance between f16s from that power on.
const TO_ALIGN: f32 = 8192.0;

/// The power of two from which on the f16s around a number are equally far apart, for numbers up to [`LARGE`].
#[inline(always)]
fn power_below(x: f32) -> f32 {
    // Not f32's methods, which look for a NaN.
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

/// The f32 of an f64 toward zero, with the last bit set if it is not exact. Rounded again to a float that is at least
/// two bits shorter, it is the f64 rounded once (Boldo and Melquiond, 2008).
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
