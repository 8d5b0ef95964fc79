//! pow, atan2 and hypot of f32 against CORE-MATH's functions of f32 and of f64, which round correctly.

mod samples;

use gpuvec_math::{Scalar, Usual};
use samples::{Random, special_pairs};

/// A number of f32 that is not negative, of any magnitude.
fn size(random: &mut Random) -> f32 {
    f32::from_bits(random.bits() as u32 % f32::INFINITY.to_bits())
}

/// The middle of a positive float and the next one.
fn middle(x: f32) -> f64 {
    let next = if x == f32::MAX { 2_f64.powi(128) } else { x.next_up().into() };
    f64::midpoint(x.into(), next)
}

/// Arguments of a function whose results are finite and not zero more often than by chance.
fn ordinary(random: &mut Random) -> (f32, f32) {
    let (x, y) = (random.f32(), random.f32());
    match random.bits() % 4 {
        0 => (x, y),
        // Powers up to 2^±160, so also the bounds of floats.
        1 => (x.abs(), ((random.bits() % 320) as f32 - 160.0 + y.fract()) / x.abs().log2()),
        // Arguments near 1, and whole and half powers, whose results may be in the middle of floats.
        2 => (1.0 + x.fract() / 4096.0, y * 100.0),
        _ => ((random.bits() % 8192) as f32 / 32.0, (random.bits() % 64) as f32 / 2.0 - 12.0),
    }
}

/// Arguments with a power close to the middle of two floats, or there.
fn hard_power(random: &mut Random) -> (f32, f32) {
    match random.bits() % 4 {
        // Numbers of few bits to powers of few bits.
        0 => {
            let bits = random.bits() % 24 + 1;
            let odd = ((random.bits() % (1 << bits)) | 1) as f32;
            let x = odd * 2_f32.powi((random.bits() % 65) as i32 - 32);
            (x, (random.bits() % 128) as f32 / 8.0)
        }
        // x^(n/2^k) for x a power of that kind.
        1 => {
            let root =
                ((random.bits() % 4096) | 1) as f64 * 2_f64.powi((random.bits() % 33) as i32 - 16);
            let k = (random.bits() % 4) as i32;
            (root.powi(1 << k) as f32, (random.bits() % 64) as f32 / (1 << k) as f32)
        }
        // The power is next to 1, where y has more bits than it takes.
        2 => {
            let x = size(random);
            let size = 1_u64 << (random.bits() % 20);
            let z = (2.0 * (random.bits() % size) as f64 + 1.0) * 2_f64.powi(-24);
            let log = if random.bits().is_multiple_of(2) { z.ln_1p() } else { (-z / 2.0).ln_1p() };
            (x, (log / f64::from(x).ln()) as f32)
        }
        // Any power.
        _ => {
            let (x, z) = (size(random), middle(size(random)));
            (x, (z.ln() / f64::from(x).ln()) as f32)
        }
    }
}

/// Arguments with an angle close to the middle of two floats, by the quotients nearest to its tangent: the last
/// convergent of the continued fraction with parts of 24 bits.
fn hard_angle(random: &mut Random) -> (f32, f32) {
    let angle = middle(f32::from_bits((random.bits() % 0x4049_0fda) as u32));
    let (sign, exponent) =
        (angle.tan().signum(), angle.tan().abs().log2().round().clamp(-250.0, 250.0));
    let exponent = exponent as i32;
    let mut rest = angle.tan().abs() * 2_f64.powi(-exponent);
    let ([mut p, mut q], [mut p_before, mut q_before]) = ([1.0, 0.0], [0.0, 1.0]);
    for _ in 0..40 {
        let whole = rest.floor();
        let next = [whole * p + p_before, whole * q + q_before];
        if next.iter().any(|part| *part > 16_777_216.0) {
            break;
        }
        ([p_before, q_before], [p, q]) = ([p, q], next);
        rest = 1.0 / (rest - whole);
    }
    // Powers of two that keep both parts in the range of floats, subnormal ones included.
    let shift = (random.bits() % 200) as i32 - 124;
    let power = |exponent: i32| 2_f64.powi(exponent.clamp(-300, 300));
    ((p * power(exponent + shift)) as f32, (sign * q * power(shift)) as f32)
}

/// Arguments with a length close to the middle of two floats, or there.
fn hard_length(random: &mut Random) -> (f32, f32) {
    let scale = 2_f32.powi((random.bits() % 100) as i32 - 50);
    let (x, y) = match random.bits() % 3 {
        // Pythagorean triples.
        0 => {
            let (m, n) = (random.bits() % 8192, random.bits() % 4096);
            (m.pow(2).abs_diff(n.pow(2)) as f32, (2 * m * n) as f32)
        }
        // One length that is half a last bit above the other.
        1 => {
            let x = size(random);
            let (exact, middle) = (f64::from(x), middle(x));
            return (x, ((middle - exact) * (middle + exact)).sqrt() as f32);
        }
        _ => {
            let z = middle((random.bits() % (1 << 24)) as f32);
            let x = (z * ((random.bits() % 4096) as f64 / 4096.0)) as f32;
            (x, ((z - f64::from(x)) * (z + f64::from(x))).sqrt() as f32)
        }
    };
    (x * scale, y * scale)
}

type Function = fn(f32, f32) -> f32;

/// True if the results are the same, where all NaNs count as the same.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// Panics where a result is not the float nearest to the double nearest to the exact one, or where that is in the
/// middle of two floats, CORE-MATH's float.
fn check(
    arguments: impl Iterator<Item = (f32, f32)>, ours: Function, float: Function,
    double: fn(f64, f64) -> f64,
) {
    for (x, y) in arguments {
        let nearest = double(x.into(), y.into());
        let is_middle = f64::midpoint((nearest as f32).next_up().into(), (nearest as f32).into())
            == nearest
            || f64::midpoint((nearest as f32).next_down().into(), (nearest as f32).into())
                == nearest;
        let right = if is_middle { float(x, y) } else { nearest as f32 };
        let result = ours(x, y);
        assert!(same(result, right), "{x:e}, {y:e}: {result:e}, not {right:e}");
    }
}

macro_rules! functions {
    ($($name:ident $single:ident $hard:ident)*) => {
        $(mod $name {
            use super::*;

            fn ours(x: f32, y: f32) -> f32 {
                gpuvec_math::$name(&Scalar, x, y)
            }

            fn check_some(ordinaries: u32, hard: u32) {
                let mut random = Random(1);
                let arguments = (0..ordinaries).map(|_| ordinary(&mut random));
                check(arguments, ours, core_math::$single, core_math::$name);
                let arguments = (0..hard).map(|_| $hard(&mut random));
                check(arguments, ours, core_math::$single, core_math::$name);
            }

            #[test]
            fn rounds_a_sample_correctly() {
                check_some(1 << 20, 1 << 20);
            }

            #[test]
            #[ignore = "takes minutes (make every-float)"]
            fn rounds_many_correctly() {
                check_some(1 << 27, 10_000_000);
            }

            #[test]
            fn needs_its_exact_sequence_for_hard_arguments() {
                let mut random = Random(2);
                let missed = (0..1000).filter(|_| {
                    let (usual, (x, y)) = (Usual::default(), $hard(&mut random));
                    gpuvec_math::$name(&usual, x, y);
                    usual.missed()
                });
                assert!(missed.count() > 50);
            }

            #[test]
            fn has_the_special_values_of_the_c_standard() {
                for (x, y) in special_pairs() {
                    let (x, y) = (x as f32, y as f32);
                    let (result, right) = (ours(x, y), core_math::$single(x, y));
                    assert!(same(result, right), "{x:e}, {y:e}: {result:e}, not {right:e}");
                }
            }
        })*
    };
}

functions! {
    pow powf hard_power
    atan2 atan2f hard_angle
    hypot hypotf hard_length
}
