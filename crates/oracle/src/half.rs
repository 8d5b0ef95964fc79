//! Conversions of floats of 16 bits, by arithmetic that rounds as the conversions do, or not at all.

/// The value of an f16. A NaN has a sign and a payload.
#[must_use]
pub fn f32_of_f16(bits: u16) -> f32 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 0x1F), f32::from(bits & 0x3FF));
    let magnitude = match exponent {
        0 => mantissa * 2_f32.powi(-24),
        31 if mantissa == 0.0 => f32::INFINITY,
        31 => f32::from_bits(0x7FD1_2345),
        _ => (1024.0 + mantissa) * 2_f32.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// The bits of the nearest f16.
#[must_use]
pub fn f16_bits(x: f32) -> u16 {
    if x.is_nan() {
        return 0x7E00;
    }
    let sign = u16::from(x.is_sign_negative()) << 15;
    let magnitude = f64::from(x.abs());
    // The numbers of a binade are equally far apart, and so are all numbers below the normal ones.
    let exponent = (-14..=16).rev().find(|&e| magnitude >= 2_f64.powi(e)).unwrap_or(-14);
    let units = (magnitude / 2_f64.powi(exponent - 10)).round_ties_even();
    // The mantissa's first bit adds to the exponent.
    let bits = if exponent == 16 { 0x7C00 } else { units as u16 + ((exponent + 14) as u16) * 1024 };
    sign | bits.min(0x7C00)
}

/// The f32 that is nearest to an f64 among those that are not larger.
#[must_use]
pub fn toward_zero(x: f64) -> f32 {
    let near = x as f32;
    match f64::from(near).abs() > x.abs() {
        true => f32::from_bits(near.to_bits() - 1),
        false => near,
    }
}

/// The bits of the nearest bf16.
#[must_use]
pub fn bf16_bits(x: f32) -> u16 {
    let below = (x.to_bits() >> 16) as u16;
    let rest = x.to_bits() & 0xFFFF;
    let is_up = rest > 0x8000 || (rest == 0x8000 && below % 2 == 1);
    if x.is_nan() { 0x7FC0 } else { below + u16::from(is_up) }
}

/// Rounds an f64 to odd: a number that is not exact becomes the one of its two neighbours with the last bit set.
#[must_use]
pub fn to_odd(x: f64) -> f32 {
    let below = toward_zero(x);
    let is_even = below.to_bits().is_multiple_of(2);
    let is_exact = x.is_nan() || f64::from(below) == x;
    if is_even && !is_exact { f32::from_bits(below.to_bits() + 1) } else { below }
}
