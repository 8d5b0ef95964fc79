//! pow, atan2 and hypot of f32 against CORE-MATH's functions of f64, which round correctly.

mod samples;

use gpuvec_math::Scalar;
use samples::{Random, special_pairs};

/// Returns the error of a result in units of the last place of the exact one, which is known as a
/// double.
fn error(result: f32, exact: f64) -> f64 {
    let same = f64::from(result) == exact || (result.is_nan() && exact.is_nan());
    if same || result.is_infinite() && exact as f32 == result {
        return 0.0;
    }
    let exponent = ((exact.to_bits() >> 52 & 0x7ff) as i32 - 1023).clamp(-126, 127);
    (f64::from(result) - exact).abs() / 2_f64.powi(exponent - 23)
}

/// Arguments of a function whose results are finite and not zero more often than by chance.
fn arguments(random: &mut Random, i: u32) -> (f32, f32) {
    let (x, y) = (random.f32(), random.f32());
    match i % 4 {
        0 => (x, y),
        // Powers up to 2^±160, so also the bounds of floats.
        1 => (x.abs(), ((random.bits() % 320) as f32 - 160.0 + y.fract()) / x.abs().log2()),
        // Arguments near 1, and whole and half powers, whose results may be in the middle of floats.
        2 => (1.0 + x.fract() / 4096.0, y * 100.0),
        _ => ((random.bits() % 8192) as f32 / 32.0, (random.bits() % 64) as f32 / 2.0 - 12.0),
    }
}

/// The greatest error over a sample.
fn worst(ours: fn(f32, f32) -> f32, oracle: fn(f64, f64) -> f64, count: u32) -> f64 {
    let mut random = Random(1);
    (0..count).fold(0.0, |worst, i| {
        let (x, y) = arguments(&mut random, i);
        worst.max(error(ours(x, y), oracle(x.into(), y.into())))
    })
}

macro_rules! functions {
    ($($name:ident $single:ident)*) => {
        $(mod $name {
            use super::*;

            fn ours(x: f32, y: f32) -> f32 {
                gpuvec_math::$name(&Scalar, x, y)
            }

            #[test]
            fn is_nearly_rounded_correctly() {
                let worst = worst(ours, core_math::$name, 1 << 20);
                assert!(worst < 0.51, "{worst}");
            }

            #[test]
            #[ignore = "takes a minute (make every-float)"]
            fn is_nearly_rounded_correctly_everywhere() {
                let worst = worst(ours, core_math::$name, 1 << 27);
                println!("{}: {worst}", stringify!($name));
                assert!(worst < 0.51, "{worst}");
            }

            #[test]
            fn has_the_special_values_of_the_c_standard() {
                for (x, y) in special_pairs() {
                    let (x, y) = (x as f32, y as f32);
                    let (result, right) = (ours(x, y), core_math::$single(x, y));
                    assert!(
                        result.to_bits() == right.to_bits() || (result.is_nan() && right.is_nan()),
                        "{x:e}, {y:e}: {result:e}, not {right:e}"
                    );
                }
            }
        })*
    };
}

functions! {
    pow powf
    atan2 atan2f
    hypot hypotf
}
