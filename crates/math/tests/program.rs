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
    fn of_bits(bits: u64) -> Self;
}

impl Encoded for f32 {
    fn encoded(self) -> u64 {
        if self.is_nan() { u64::MAX } else { self.to_bits().into() }
    }

    fn of_bits(bits: u64) -> Self {
        Self::from_bits(bits as u32)
    }
}

impl Encoded for f64 {
    fn encoded(self) -> u64 {
        if self.is_nan() { u64::MAX } else { self.to_bits() }
    }

    fn of_bits(bits: u64) -> Self {
        Self::from_bits(bits)
    }
}

macro_rules! functions {
    ($($op:ident $name:ident($($x:ident)+) $loops:ident $cost:tt $oracle:ident;)*) => {
        mod of_f32 {
            use super::*;

            $(functions!(@test f32 gpuvec_math::$name, $name $($x)+);)*
        }

        mod of_f64 {
            use super::*;

            $(functions!(@test f64 double::$name, $name $($x)+);)*
        }
    };
    (@test $float:ident $path:path, $name:ident $($x:ident)+) => {
        #[test]
        fn $name() {
            let recorder = Recorder::default();
            let start = recorder.record(|[$($x),+]| $path(&&recorder, $($x),+));
            let (recordings, constants) = recorder.finish();
            let mut random = Random(4);
            for _ in 0..4096 {
                $(let $x = random.$float();)+
                let expected = $path(&Scalar, $($x),+);
                let encodings = [$(u64::from($x.to_bits())),+];
                let bits = run(&recordings[start..], &constants, &encodings);
                let found = <$float>::of_bits(bits);
                assert_eq!(found.encoded(), expected.encoded(), "of {:?}", [$($x),+]);
            }
        }
    };
}

gpuvec_math::functions!(functions!);
