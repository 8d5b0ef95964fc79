//! Recordings, from which the GPU's instructions are made: functions are one sequence for all inputs.

mod samples;

use gpuvec_math::{Recorder, Scalar, Step, double, steps};
use samples::Random;

fn number(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Runs a recording on arguments' encodings, without its rare steps where they may be skipped.
fn run(recording: &[u8], constants: &[u64], arguments: &[u64]) -> u64 {
    let mut values = arguments.to_vec();
    let mut is_skipping = false;
    for (step, [i, j, k]) in steps(recording, arguments.len()) {
        let bits = |place: usize| values.get(place).copied().unwrap_or_default();
        let (x, y) = (number(bits(i)), number(bits(j)));
        let made = match step {
            Step::Float | Step::Bits => constants[i],
            Step::NegFloat => (-x).to_bits(),
            Step::AddFloat => (x + y).to_bits(),
            Step::SubFloat => (x - y).to_bits(),
            Step::MulFloat => (x * y).to_bits(),
            Step::DivFloat => (x / y).to_bits(),
            Step::AddBits => bits(i).wrapping_add(bits(j)),
            Step::SubBits => bits(i).wrapping_sub(bits(j)),
            Step::And => bits(i) & bits(j),
            Step::Or => bits(i) | bits(j),
            Step::Xor => bits(i) ^ bits(j),
            Step::Widen => f64::from(f32::from_bits(bits(i) as u32)).to_bits(),
            Step::Narrow => (x as f32).to_bits().into(),
            Step::Fma => x.mul_add(y, number(bits(k))).to_bits(),
            Step::Sqrt => x.sqrt().to_bits(),
            Step::ToBits | Step::ToFloat | Step::Copy => bits(i),
            Step::ShiftLeft => bits(i) << j,
            Step::ShiftRight => bits(i) >> j,
            Step::Less => (x < y).into(),
            Step::Equal => (x == y).into(),
            Step::Select => bits(if bits(k) == 1 { i } else { j }),
            Step::SkipUnless | Step::End => {
                is_skipping = step == Step::SkipUnless && bits(i) == 0;
                continue;
            }
            Step::Set => {
                if !is_skipping {
                    values[i] = bits(j);
                }
                continue;
            }
            Step::Return => return bits(i),
        };
        values.push(made);
    }
    panic!("a recording without its end")
}

/// A float by its bits; NaNs are all alike.
trait Encoded {
    fn encoded(self) -> u64;
}

impl Encoded for f32 {
    fn encoded(self) -> u64 {
        if self.is_nan() { u64::MAX } else { self.to_bits().into() }
    }
}

impl Encoded for f64 {
    fn encoded(self) -> u64 {
        if self.is_nan() { u64::MAX } else { self.to_bits() }
    }
}

macro_rules! functions {
    ($module:ident $float:ident $decode:expr; $($path:path: $name:ident($($place:literal)*);)*) => {
        mod $module {
            use super::*;

            $(#[test]
            fn $name() {
                let recorder = Recorder::default();
                let start = recorder.record(|x: [_; [$($place),*].len()]| $path(&&recorder, $(x[$place]),*));
                let (recordings, constants) = recorder.finish();
                let mut random = Random(4);
                for _ in 0..4096 {
                    let arguments = [random.$float(), random.$float()];
                    let expected = $path(&Scalar, $(arguments[$place]),*);
                    let encodings = [$(u64::from(arguments[$place].to_bits())),*];
                    let bits = run(&recordings[start..], &constants, &encodings);
                    let found: $float = $decode(bits);
                    assert_eq!(found.encoded(), expected.encoded(), "of {arguments:?}");
                }
            })*
        }
    };
}

functions! {
    of_f32 f32 |bits| f32::from_bits(bits as u32);
    gpuvec_math::exp: exp(0);
    gpuvec_math::exp2: exp2(0);
    gpuvec_math::expm1: expm1(0);
    gpuvec_math::sinh: sinh(0);
    gpuvec_math::cosh: cosh(0);
    gpuvec_math::tanh: tanh(0);
    gpuvec_math::log: log(0);
    gpuvec_math::log1p: log1p(0);
    gpuvec_math::log2: log2(0);
    gpuvec_math::log10: log10(0);
    gpuvec_math::sin: sin(0);
    gpuvec_math::cos: cos(0);
    gpuvec_math::tan: tan(0);
    gpuvec_math::atan: atan(0);
    gpuvec_math::asin: asin(0);
    gpuvec_math::acos: acos(0);
    gpuvec_math::cbrt: cbrt(0);
    gpuvec_math::erf: erf(0);
    gpuvec_math::atan2: atan2(0 1);
    gpuvec_math::hypot: hypot(0 1);
    gpuvec_math::pow: pow(0 1);
}

functions! {
    of_f64 f64 f64::from_bits;
    double::exp: exp(0);
    double::exp2: exp2(0);
    double::expm1: expm1(0);
    double::sinh: sinh(0);
    double::cosh: cosh(0);
    double::tanh: tanh(0);
    double::log: log(0);
    double::log1p: log1p(0);
    double::log2: log2(0);
    double::log10: log10(0);
    double::sin: sin(0);
    double::cos: cos(0);
    double::tan: tan(0);
    double::atan: atan(0);
    double::asin: asin(0);
    double::acos: acos(0);
    double::cbrt: cbrt(0);
    double::erf: erf(0);
    double::atan2: atan2(0 1);
    double::hypot: hypot(0 1);
    double::pow: pow(0 1);
}
