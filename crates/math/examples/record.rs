//! Writes the recordings of the functions of f64 as text, for tools/function_bounds.
//!
//! A function begins with its name and its number of arguments. A line is a step with its operands; constants
//! are encodings.

use gpuvec_math::{Recorder, Step, double, steps};

macro_rules! write_recordings {
    ($($op:ident $name:ident($($x:ident)+) $loops:ident $cost:tt $oracle:ident;)*) => {
        $({
            let recorder = Recorder::default();
            recorder.record(|[$($x),+]| double::$name(&&recorder, $($x),+));
            let recordings = recorder.finish();
            let arguments = [$(stringify!($x)),+].len();
            println!("{} {arguments}", stringify!($name));
            for (step, operands) in steps(&recordings.steps, arguments) {
                match step {
                    Step::Float | Step::Bits => {
                        println!("{step:?} {}", recordings.constants[operands[0]]);
                    }
                    _ => {
                        let operands = operands[..step.operands()].iter();
                        let operands: Vec<_> = operands.map(ToString::to_string).collect();
                        println!("{step:?} {}", operands.join(" "));
                    }
                }
            }
        })*
    };
}

fn main() {
    gpuvec_math::functions!(write_recordings!);
}
