//! The functions: of f32 CORE-MATH's, which round correctly; of f64, whose bits another implementation need not
//! have, the library's own sequences, whose errors have tests of their own.

use gpuvec_expr::Op;
use gpuvec_math::{Scalar, double};

/// A NaN that does not signal: CORE-MATH's functions of two numbers tell them apart, as IEEE 754 does.
fn quiet(x: f32) -> f32 {
    if x.is_nan() { f32::NAN } else { x }
}

macro_rules! of_all {
    ($($op:ident $name:ident($($x:ident)+) $loops:ident $cost:tt $oracle:ident;)*) => {
        pub(crate) fn of_f32(op: Op, operands: &[f32]) -> f32 {
            match (op, operands) {
                $((Op::$op, [$($x),+]) => core_math::$oracle($(quiet(*$x)),+),)*
                _ => panic!("{op:?} of {operands:?}"),
            }
        }

        pub(crate) fn of_f64(op: Op, operands: &[f64]) -> f64 {
            match (op, operands) {
                $((Op::$op, [$($x),+]) => double::$name(&Scalar, $(*$x),+),)*
                _ => panic!("{op:?} of {operands:?}"),
            }
        }
    };
}

gpuvec_math::functions!(of_all!);
