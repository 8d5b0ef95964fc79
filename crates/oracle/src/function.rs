//! The functions: CORE-MATH's, which are proved to round correctly. Those whose bits another
//! implementation need not have are the library's own sequences, whose errors have tests of their own.

use gpuvec_expr::Op;
use gpuvec_math::{Scalar, double};

macro_rules! of_all {
    ($($op:ident $name:ident($($x:ident)+) $loops:ident $cost:tt $oracle:ident;)*) => {
        pub(crate) fn of_f32(op: Op, operands: &[f32]) -> f32 {
            match (op, operands) {
                $((Op::$op, [$($x),+]) => of_all!(@f32 $oracle $name($($x)+)),)*
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
    (@f32 none $name:ident($($x:ident)+)) => {
        gpuvec_math::$name(&Scalar, $(*$x),+)
    };
    (@f32 $oracle:ident $name:ident($($x:ident)+)) => {
        core_math::$oracle($(*$x),+)
    };
}

gpuvec_math::functions!(of_all!);
