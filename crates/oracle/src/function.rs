//! The functions. For f32 they are CORE-MATH's, which round correctly. For f64 they are the library's own sequences,
//! since other implementations may have other bits; tests of their own check the errors of these sequences.

use gpuvec_expr::Op;
use gpuvec_math::{Scalar, double};

/// Makes a NaN quiet. CORE-MATH's functions of two numbers treat signaling NaNs differently, as IEEE 754 does.
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
