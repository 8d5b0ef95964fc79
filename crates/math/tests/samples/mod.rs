//! Arguments for tests, the same in every run.

#![allow(dead_code, reason = "each test uses some of it")]

/// Random bits: SplitMix64 (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of any magnitude and sign, or, as often, one with an exponent from -8 to 7.
    pub(crate) fn f64(&mut self) -> f64 {
        let bits = self.bits();
        match self.bits() % 2 {
            0 => f64::from_bits(bits),
            _ => f64::from_bits((bits & !(0x7f0 << 52)) + (0x3f7 << 52)),
        }
    }

    /// Likewise.
    pub(crate) fn f32(&mut self) -> f32 {
        let bits = self.bits() as u32;
        match self.bits() % 2 {
            0 => f32::from_bits(bits),
            _ => f32::from_bits((bits & !(0xf0 << 23)) + (0x77 << 23)),
        }
    }
}

/// Values at which functions of two arguments change their minds.
pub(crate) const SPECIAL: [f64; 19] = [
    0.0,
    -0.0,
    f64::from_bits(1),
    -1.0e-310,
    f64::MIN_POSITIVE,
    1.0e-40,
    0.5,
    -0.5,
    1.0 - f64::EPSILON,
    1.0,
    -1.0,
    2.0,
    3.0,
    -3.0,
    1.0e300,
    9_007_199_254_740_991.0,
    -f64::MAX,
    f64::INFINITY,
    f64::NEG_INFINITY,
];

/// All pairs of special values, with NaN.
pub(crate) fn special_pairs() -> impl Iterator<Item = (f64, f64)> {
    let all = || SPECIAL.into_iter().chain([f64::NAN]);
    all().flat_map(move |x| all().map(move |y| (x, y)))
}
