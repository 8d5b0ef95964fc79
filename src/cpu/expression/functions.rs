//! The loops of functions.

use super::kernel::{Loops, kernel};
use gpuvec_expr::Op;
use gpuvec_math::{Scalar, Usual, double};

macro_rules! functions {
    ($name:ident, $T:ident, $module:ident) => {
        pub(super) fn $name(op: Op) -> Option<Loops> {
            macro_rules! one {
                ($function:ident) => {
                    Some(kernel!(Long, |a: $T| -> $T { $module::$function(&Scalar, a) }))
                };
            }
            macro_rules! seldom {
                                        ($function:ident) => {
                                            Some(kernel!(Long, |a: $T| -> $T {
                                                $module::$function(&Scalar, a)
                                            } usually {
                                                let machine = Usual::default();
                                                ($module::$function(&machine, a), machine.missed())
                                            }))
                                        };
                                    }
            macro_rules! two {
                ($function:ident) => {
                    Some(kernel!(Long, |a: $T, b: $T| -> $T { $module::$function(&Scalar, a, b) }))
                };
            }
            match op {
                Op::Cbrt => one!(cbrt),
                Op::Exp => one!(exp),
                Op::Exp2 => one!(exp2),
                Op::Expm1 => one!(expm1),
                Op::Log => one!(log),
                Op::Log2 => one!(log2),
                Op::Log10 => one!(log10),
                Op::Log1p => one!(log1p),
                Op::Sin => seldom!(sin),
                Op::Cos => seldom!(cos),
                Op::Tan => seldom!(tan),
                Op::Asin => one!(asin),
                Op::Acos => one!(acos),
                Op::Atan => one!(atan),
                Op::Atan2 => two!(atan2),
                Op::Sinh => one!(sinh),
                Op::Cosh => one!(cosh),
                Op::Tanh => one!(tanh),
                Op::Erf => one!(erf),
                Op::Hypot => two!(hypot),
                Op::Pow => two!(pow),
                _ => None,
            }
        }
    };
}

functions!(of_f32, f32, gpuvec_math);
functions!(of_f64, f64, double);
