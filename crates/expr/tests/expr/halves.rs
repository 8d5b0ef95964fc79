//! Conversions of f16 and bf16, against arithmetic that rounds as they do.

use gpuvec_expr::half::{
    bf16_bits, f16_bits, f32_of_bf16, f32_of_f16, nearest_f16, rounded_to_odd,
};
use gpuvec_oracle::half;

/// Every f32 that is one of 16 bits, halfway between two or beside that, with both signs.
fn near(of: fn(u16) -> f32) -> impl Iterator<Item = f32> {
    (0..=u16::MAX).flat_map(move |bits| {
        let (x, next) = (of(bits), of(bits.wrapping_add(1)));
        let between = ((f64::from(x) + f64::from(next)) / 2.0) as f32;
        [x, between].into_iter().flat_map(|x| {
            let bits = x.to_bits();
            [bits.wrapping_sub(1), bits, bits.wrapping_add(1)].map(f32::from_bits)
        })
    })
}

#[test]
fn every_f16_is_loaded_and_stored_as_it_is() {
    for bits in 0..=u16::MAX {
        let (found, expected) = (f32_of_f16(bits), half::f32_of_f16(bits));
        if expected.is_nan() {
            assert!(found.is_nan(), "{bits:#x}");
            assert_eq!(f16_bits(found), 0x7E00, "{bits:#x}");
        } else {
            assert_eq!(found.to_bits(), expected.to_bits(), "{bits:#x}");
            assert_eq!(f16_bits(found), bits);
        }
    }
}

#[test]
fn every_bf16_is_loaded_and_stored_as_it_is() {
    for bits in 0..=u16::MAX {
        let value = f32_of_bf16(bits);
        assert_eq!(value.to_bits(), u32::from(bits) << 16);
        assert_eq!(bf16_bits(value), if value.is_nan() { 0x7FC0 } else { bits });
    }
}

#[test]
fn floats_are_rounded_to_the_nearest_of_16_bits() {
    for x in near(f32_of_f16).chain(near(f32_of_bf16)) {
        assert_eq!(f16_bits(x), half::f16_bits(x), "{x:e}");
        let nearest = half::f32_of_f16(half::f16_bits(x));
        assert!(nearest_f16(x).to_bits() == nearest.to_bits() || x.is_nan(), "{x:e}");
        assert_eq!(nearest_f16(x).is_nan(), x.is_nan());
        assert_eq!(bf16_bits(x), half::bf16_bits(x), "{x:e}");
    }
    // The largest f16 is 65504; halfway to 65536 begins infinity.
    assert_eq!([65519.996, 65520.0, -1e30].map(f16_bits), [0x7BFF, 0x7C00, 0xFC00]);
    // Half of the least subnormal is a tie, which zero wins.
    let least = 2_f32.powi(-24);
    assert_eq!([least, least / 2.0, least * 0.500_001].map(f16_bits), [1, 0, 1]);
}

#[test]
fn doubles_are_rounded_once() {
    // A tie of f16, and what f32 cannot tell from it.
    let (tie, beside) = (1.0 + 2_f64.powi(-11), 2_f64.powi(-40));
    for (x, expected) in [(tie - beside, 0x3C00), (tie, 0x3C00), (tie + beside, 0x3C01)] {
        assert_eq!(f16_bits(rounded_to_odd(x)), expected);
        assert_eq!(f16_bits(rounded_to_odd(-x)), expected | 0x8000);
    }
    for x in near(f32_of_f16).map(f64::from) {
        for x in [x, x * (1.0 + f64::EPSILON), x * (1.0 - f64::EPSILON), x * 1e40, x * 1e-40] {
            let (found, expected) = (rounded_to_odd(x), half::to_odd(x));
            assert!(found.to_bits() == expected.to_bits() || x.is_nan() && found.is_nan(), "{x:e}");
        }
    }
}
