//! The loops of functions.

use super::kernel::{Loops, kernel};
use gpuvec_expr::Op;
use gpuvec_math::{self as math, Scalar};

pub(super) fn of_f32(op: Op) -> Option<Loops> {
    macro_rules! functions {
        ($($op:ident $name:ident;)+) => {
            match op {
                $(Op::$op => Some(kernel!(Long, |a: f32| -> f32 { math::$name(&Scalar, a) })),)+
                _ => None,
            }
        };
    }
    functions! {
        Cbrt cbrt;
        Exp exp;
        Exp2 exp2;
        Expm1 expm1;
        Log log;
        Log2 log2;
        Log10 log10;
        Log1p log1p;
        Sin sin;
        Cos cos;
        Tan tan;
        Asin asin;
        Acos acos;
        Atan atan;
        Sinh sinh;
        Cosh cosh;
        Tanh tanh;
        Erf erf;
    }
}

pub(super) fn of_f64(_op: Op) -> Option<Loops> {
    None
}
