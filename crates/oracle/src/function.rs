//! The functions: CORE-MATH's, which are proved to round correctly. Those whose bits another
//! implementation need not have are the library's own sequences, whose errors have tests of their own.

use gpuvec_expr::Op;
use gpuvec_math::{Scalar, double};

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
        (Op::Atan2, [a, b]) => gpuvec_math::atan2(&Scalar, *a, *b),
        (Op::Hypot, [a, b]) => gpuvec_math::hypot(&Scalar, *a, *b),
        (Op::Pow, [a, b]) => gpuvec_math::pow(&Scalar, *a, *b),
        _ => panic!("{op:?} of {operands:?}"),
    }
}

pub(crate) fn of_f64(op: Op, operands: &[f64]) -> f64 {
    match (op, operands) {
        (Op::Cbrt, [a]) => double::cbrt(&Scalar, *a),
        (Op::Exp, [a]) => double::exp(&Scalar, *a),
        (Op::Exp2, [a]) => double::exp2(&Scalar, *a),
        (Op::Expm1, [a]) => double::expm1(&Scalar, *a),
        (Op::Log, [a]) => double::log(&Scalar, *a),
        (Op::Log2, [a]) => double::log2(&Scalar, *a),
        (Op::Log10, [a]) => double::log10(&Scalar, *a),
        (Op::Log1p, [a]) => double::log1p(&Scalar, *a),
        (Op::Sin, [a]) => double::sin(&Scalar, *a),
        (Op::Cos, [a]) => double::cos(&Scalar, *a),
        (Op::Tan, [a]) => double::tan(&Scalar, *a),
        (Op::Asin, [a]) => double::asin(&Scalar, *a),
        (Op::Acos, [a]) => double::acos(&Scalar, *a),
        (Op::Atan, [a]) => double::atan(&Scalar, *a),
        (Op::Sinh, [a]) => double::sinh(&Scalar, *a),
        (Op::Cosh, [a]) => double::cosh(&Scalar, *a),
        (Op::Tanh, [a]) => double::tanh(&Scalar, *a),
        (Op::Erf, [a]) => double::erf(&Scalar, *a),
        (Op::Atan2, [a, b]) => double::atan2(&Scalar, *a, *b),
        (Op::Hypot, [a, b]) => double::hypot(&Scalar, *a, *b),
        (Op::Pow, [a, b]) => double::pow(&Scalar, *a, *b),
        _ => panic!("{op:?} of {operands:?}"),
    }
}
