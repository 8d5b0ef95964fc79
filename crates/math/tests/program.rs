//! Recordings, from which the GPU's instructions are made: functions are one sequence for all inputs.

mod samples;

use gpuvec_math::{Recorder, Recordings, Scalar, Step, double, fast, steps};
use samples::Random;

fn number(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Runs a recording on arguments' encodings, without its rare steps where they may be skipped: the result, and
/// whether it is right.
fn run(recordings: &Recordings, start: usize, arguments: &[u64]) -> (u64, bool) {
    let mut values = arguments.to_vec();
    let mut is_skipping = false;
    for (step, [i, j, k]) in steps(&recordings.steps[start..], arguments.len()) {
        let bits = |place: usize| values.get(place).copied().unwrap_or_default();
        let (x, y) = (number(bits(i)), number(bits(j)));
        let [single_x, single_y, single_z] =
            [i, j, k].map(|place| f32::from_bits(bits(place) as u32));
        let single = |x: f32| u64::from(x.to_bits());
        let wrapped = |bits: u64| u64::from(bits as u32);
        let entry = |len: u64| single(recordings.tables[j][(bits(i) % len) as usize]);
        let made = match step {
            Step::Float | Step::Bits | Step::Float32 | Step::Bits32 => recordings.constants[i],
            Step::AddFloat32 => single(single_x + single_y),
            Step::SubFloat32 => single(single_x - single_y),
            Step::MulFloat32 => single(single_x * single_y),
            Step::Fma32 => single(single_x.mul_add(single_y, single_z)),
            Step::Magnitude32 => single(single_x.abs()),
            Step::Negate32 => single(-single_x),
            Step::Min32 => single(single_x.min(single_y)),
            Step::Select32 => bits(if bits(k) == 1 { i } else { j }),
            Step::Reciprocal32 => single(1.0 / single_x),
            Step::ReciprocalRoot32 => single(1.0 / single_x.sqrt()),
            Step::Convert32 => single(bits(i) as i32 as f32),
            Step::AddBits32 => wrapped(bits(i).wrapping_add(bits(j))),
            Step::SubBits32 => wrapped(bits(i).wrapping_sub(bits(j))),
            Step::And32 | Step::Both => bits(i) & bits(j),
            Step::Or32 => bits(i) | bits(j),
            Step::Xor32 => bits(i) ^ bits(j),
            Step::ShiftLeft32 => wrapped(bits(i) << j),
            Step::Less32 => (single_x < single_y).into(),
            Step::Equal32 => (single_x == single_y).into(),
            Step::Lookup16 => entry(16),
            Step::Lookup32 => entry(32),
            Step::ToBits32 | Step::ToFloat32 => bits(i),
            Step::NegFloat => (-x).to_bits(),
            Step::AddFloat => (x + y).to_bits(),
            Step::SubFloat => (x - y).to_bits(),
            Step::MulFloat => (x * y).to_bits(),
            Step::DivFloat => (x / y).to_bits(),
            Step::Quotient => {
                let is_ordinary = |z: f64| (2_f64.powi(-700)..2_f64.powi(700)).contains(&z.abs());
                let is_zero = x == 0.0 && y > 0.0;
                let is_kept = is_ordinary(y) && (is_zero || is_ordinary(x) && is_ordinary(x / y));
                assert!(x.is_nan() || y.is_nan() || is_kept, "{x:e} / {y:e}");
                (x / y).to_bits()
            }
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
            Step::Differ => {
                let [x, y] = [i, j].map(|place| f32::from_bits(bits(place) as u32));
                (x != y && !x.is_nan() && !y.is_nan()).into()
            }
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
            Step::Return => return (bits(i), true),
            Step::ReturnIf => return (bits(i), bits(j) == 1),
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

        mod fast_of_f32 {
            use super::*;

            $(functions!(@$loops $name $($x)+);)*
        }
    };
    (@fast $name:ident $x:ident) => {
        #[test]
        fn $name() {
            let recorder = Recorder::default();
            let start = recorder.record_fast(|[$x]| fast::$name(&&recorder, $x));
            let recordings = recorder.finish();
            let mut random = Random(5);
            for _ in 0..4096 {
                let $x = random.f32();
                let (expected, expected_right) = fast::$name(&Scalar, $x);
                let (bits, is_right) = run(&recordings, start, &[$x.to_bits().into()]);
                let found = f32::of_bits(bits);
                assert_eq!(
                    (found.encoded(), is_right), (expected.encoded(), expected_right), "of {:?}", $x
                );
            }
        }
    };
    (@$loops:ident $name:ident $($x:ident)+) => {};
    (@test $float:ident $path:path, $name:ident $($x:ident)+) => {
        #[test]
        fn $name() {
            let recorder = Recorder::default();
            let start = recorder.record(|[$($x),+]| $path(&&recorder, $($x),+));
            let recordings = recorder.finish();
            let mut random = Random(4);
            for _ in 0..4096 {
                $(let $x = random.$float();)+
                let expected = $path(&Scalar, $($x),+);
                let encodings = [$(u64::from($x.to_bits())),+];
                let (bits, _) = run(&recordings, start, &encodings);
                let found = <$float>::of_bits(bits);
                assert_eq!(found.encoded(), expected.encoded(), "of {:?}", [$($x),+]);
            }
        }
    };
}

gpuvec_math::functions!(functions!);
