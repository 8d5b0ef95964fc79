//! The loops of functions.

use super::loops::{Loops, element_loops, fast_loops};
use gpuvec_expr::Op;
use gpuvec_math::{Scalar, Usual, double, fast};

/// The loops of a function that has rare sequences.
macro_rules! seldom {
    ($T:ident, $module:ident, $function:ident) => {
        element_loops!(Long, |a: $T| -> $T { $module::$function(&Scalar, a) } usually {
            let machine = Usual::default();
            ($module::$function(&machine, a), machine.missed())
        })
    };
}

/// The loops of a function of f32 that is fast for nearly all elements.
macro_rules! fast {
    ($T:ident, $module:ident, $function:ident) => {
        fast_loops!(fast::$function, |a| { $module::$function(&Scalar, a) } usually {
            let machine = Usual::default();
            ($module::$function(&machine, a), machine.missed())
        })
    };
}

/// The loops of all functions of a type, with the macro for those that are fast for f32.
macro_rules! functions {
    ($name:ident, $T:ident, $module:ident, $fast:ident) => {
        pub(super) fn $name(op: Op) -> Option<Loops> {
            macro_rules! one {
                ($function:ident) => {
                    element_loops!(Long, |a: $T| -> $T { $module::$function(&Scalar, a) })
                };
            }
            macro_rules! two {
                ($function:ident) => {
                    element_loops!(Long, |a: $T, b: $T| -> $T { $module::$function(&Scalar, a, b) })
                };
            }
            Some(match op {
                Op::Cbrt => one!(cbrt),
                Op::Exp => $fast!($T, $module, exp),
                Op::Exp2 => $fast!($T, $module, exp2),
                Op::Expm1 => $fast!($T, $module, expm1),
                Op::Log => $fast!($T, $module, log),
                Op::Log2 => $fast!($T, $module, log2),
                Op::Log10 => $fast!($T, $module, log10),
                Op::Log1p => $fast!($T, $module, log1p),
                Op::Sin => $fast!($T, $module, sin),
                Op::Cos => $fast!($T, $module, cos),
                Op::Tan => seldom!($T, $module, tan),
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
                _ => return None,
            })
        }
    };
}

functions!(of_f32, f32, gpuvec_math, fast);
functions!(of_f64, f64, double, seldom);
