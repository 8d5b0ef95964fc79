//! The functions: CORE-MATH's, which are proved to round correctly. Those whose bits another
//! implementation need not have are the library's own sequences, whose errors have tests of their own.

use gpuvec_expr::Op;
use gpuvec_math::{self as math, Scalar};

pub(crate) fn of_f32(op: Op, operands: &[f32]) -> f32 {
    match (op, operands) {
        (Op::Cbrt, [a]) => core_math::cbrtf(*a),
        (Op::Exp, [a]) => core_math::expf(*a),
        (Op::Exp2, [a]) => core_math::exp2f(*a),
        (Op::Expm1, [a]) => core_math::expm1f(*a),
        (Op::Log, [a]) => core_math::logf(*a),
        (Op::Log2, [a]) => core_math::log2f(*a),
        (Op::Log10, [a]) => core_math::log10f(*a),
        (Op::Log1p, [a]) => core_math::log1pf(*a),
        (Op::Sin, [a]) => core_math::sinf(*a),
        (Op::Cos, [a]) => core_math::cosf(*a),
        (Op::Tan, [a]) => core_math::tanf(*a),
        (Op::Asin, [a]) => core_math::asinf(*a),
        (Op::Acos, [a]) => core_math::acosf(*a),
        (Op::Atan, [a]) => core_math::atanf(*a),
        (Op::Sinh, [a]) => core_math::sinhf(*a),
        (Op::Cosh, [a]) => core_math::coshf(*a),
        (Op::Tanh, [a]) => core_math::tanhf(*a),
        (Op::Erf, [a]) => core_math::erff(*a),
        (Op::Atan2, [a, b]) => math::atan2(&Scalar, *a, *b),
        (Op::Hypot, [a, b]) => math::hypot(&Scalar, *a, *b),
        (Op::Pow, [a, b]) => math::pow(&Scalar, *a, *b),
        _ => panic!("{op:?} of {operands:?}"),
    }
}

pub(crate) fn of_f64(op: Op, operands: &[f64]) -> f64 {
    macro_rules! functions {
        ($($op:ident $name:ident $($x:ident)+;)*) => {
            match (op, operands) {
                $((Op::$op, &[$($x),+]) => math::double::$name(&Scalar, $($x),+),)*
                _ => panic!("{op:?} of {operands:?}"),
            }
        };
    }
    functions! {
        Cbrt cbrt x;
        Exp exp x;
        Exp2 exp2 x;
        Expm1 expm1 x;
        Log log x;
        Log2 log2 x;
        Log10 log10 x;
        Log1p log1p x;
        Sin sin x;
        Cos cos x;
        Tan tan x;
        Asin asin x;
        Acos acos x;
        Atan atan x;
        Atan2 atan2 x y;
        Sinh sinh x;
        Cosh cosh x;
        Tanh tanh x;
        Erf erf x;
        Hypot hypot x y;
        Pow pow x y;
    }
}
