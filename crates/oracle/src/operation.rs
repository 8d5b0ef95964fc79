//! The operations.

use crate::Value::{self, Bool, F32, F64, I32, I64, U64};
use crate::{function, half};
use gpuvec_expr::{Op, Type};
use std::cmp::{max_by, min_by};

pub(crate) fn apply(op: Op, operands: &[Value], to: Type) -> Value {
    match (op, operands) {
        (Op::Where, [Bool(condition), a, b]) => *if *condition { a } else { b },
        (Op::And, [Bool(a), Bool(b)]) => Bool(*a && *b),
        (Op::Or, [Bool(a), Bool(b)]) => Bool(*a || *b),
        (Op::Xor, [Bool(a), Bool(b)]) => Bool(a != b),
        (Op::Not, [Bool(a)]) => Bool(!a),
        (Op::Cast, [a]) => cast(*a, to),
        (Op::RoundOdd, [F64(a)]) => F32(half::to_odd(*a)),
        (Op::RoundF16, [F32(a)]) if a.is_nan() => F32(*a),
        (Op::RoundF16, [F32(a)]) => F32(half::f32_of_f16(half::f16_bits(*a))),
        (Op::RoundBf16, [F32(a)]) => F32(f32::from_bits(u32::from(half::bf16_bits(*a)) << 16)),
        (
            Op::Less | Op::LessEqual | Op::Equal | Op::NotEqual,
            [a @ (I32(_) | I64(_) | U64(_)), b],
        ) => Bool(compare(op, a.integer(), b.integer())),
        (_, [I32(a), ..]) => I32(integer(op, 32, (*a).into(), second(operands)) as i32),
        (_, [I64(a), ..]) => I64(integer(op, 64, (*a).into(), second(operands)) as i64),
        (_, [U64(a), ..]) => U64(integer(op, 64, (*a).into(), second(operands)) as u64),
        (_, [F32(a)]) => F32(unary_f32(op, *a).unwrap_or_else(|| function::of_f32(op, &[*a]))),
        (_, [F64(a)]) => F64(unary_f64(op, *a).unwrap_or_else(|| function::of_f64(op, &[*a]))),
        (Op::Fma, [F32(a), F32(b), F32(c)]) => F32(a.mul_add(*b, *c)),
        (Op::Fma, [F64(a), F64(b), F64(c)]) => F64(a.mul_add(*b, *c)),
        (_, [F32(a), F32(b)]) => binary_f32(op, *a, *b),
        (_, [F64(a), F64(b)]) => binary_f64(op, *a, *b),
        _ => panic!("{op:?} of {operands:?}"),
    }
}

/// The second operand; 0 if there is none.
fn second(operands: &[Value]) -> i128 {
    operands.get(1).map_or(0, |b| b.integer())
}

fn compare(op: Op, a: i128, b: i128) -> bool {
    match op {
        Op::Less => a < b,
        Op::LessEqual => a <= b,
        Op::Equal => a == b,
        _ => a != b,
    }
}

/// Integers without bounds; the caller wraps.
fn integer(op: Op, bits: i128, a: i128, b: i128) -> i128 {
    match op {
        Op::Neg => -a,
        Op::Add => a + b,
        Op::Sub => a - b,
        // Products of u64 may have more than 127 bits.
        Op::Mul => a.wrapping_mul(b),
        Op::FloorDiv if b == 0 => 0,
        // Euclid's remainder is not negative.
        Op::FloorDiv if b > 0 => a.div_euclid(b),
        Op::FloorDiv => (-a).div_euclid(-b),
        Op::Mod if b == 0 => 0,
        Op::Mod if b > 0 => a.rem_euclid(b),
        Op::Mod => -((-a).rem_euclid(-b)),
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::Shl if b < 0 || b >= bits => 0,
        Op::Shl => a.wrapping_mul(1 << b),
        Op::Shr if b < 0 || b >= bits => -i128::from(a < 0),
        Op::Shr => a.div_euclid(1 << b),
        Op::Abs => a.abs(),
        Op::Sign => a.signum(),
        Op::Minimum => a.min(b),
        Op::Maximum => a.max(b),
        _ => panic!("{op:?} of integers"),
    }
}

fn cast(a: Value, to: Type) -> Value {
    macro_rules! from_number {
        ($a:expr) => {
            match to {
                Type::Bool => Bool($a != (0 as _)),
                Type::I32 => I32($a as i32),
                Type::I64 => I64($a as i64),
                Type::U64 => U64($a as u64),
                Type::F32 => F32($a as f32),
                Type::F64 => F64($a as f64),
            }
        };
    }
    match a {
        Bool(a) => from_number!(u8::from(a)),
        I32(a) => from_number!(a),
        I64(a) => from_number!(a),
        U64(a) => from_number!(a),
        F32(a) => from_number!(a),
        F64(a) => from_number!(a),
    }
}

macro_rules! floats {
    ($unary:ident, $binary:ident, $T:ident, $variant:ident, $function:path) => {
        fn $unary(op: Op, a: $T) -> Option<$T> {
            Some(match op {
                Op::Neg => -a,
                Op::Sqrt => a.sqrt(),
                Op::Abs => a.abs(),
                Op::Sign if a == 0.0 => 0.0,
                Op::Sign if a.is_nan() => a,
                Op::Sign => a.signum(),
                Op::Floor => a.floor(),
                Op::Ceil => a.ceil(),
                Op::Trunc => a.trunc(),
                Op::Rint => a.round_ties_even(),
                _ => return None,
            })
        }

        fn $binary(op: Op, a: $T, b: $T) -> Value {
            $variant(match op {
                Op::Add => a + b,
                Op::Sub => a - b,
                Op::Mul => a * b,
                Op::Div => a / b,
                Op::FloorDiv => {
                    let quotient = a / b;
                    let rest = a % b;
                    let is_whole = quotient.abs() >= (1_u64 << $T::MANTISSA_DIGITS) as $T;
                    if is_whole || quotient.is_nan() || b == 0.0 {
                        quotient
                    } else if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
                        // Between two whole numbers; this is the upper one.
                        toward_zero(a.into(), rest.into(), b.into()) as $T - 1.0
                    } else {
                        (toward_zero(a.into(), rest.into(), b.into()) as $T).copysign(quotient)
                    }
                }
                Op::Mod => {
                    let rest = a % b;
                    if rest == 0.0 {
                        (0.0 as $T).copysign(b)
                    } else if rest.is_sign_negative() != b.is_sign_negative() {
                        rest + b
                    } else {
                        rest
                    }
                }
                Op::Less => return Bool(a < b),
                Op::LessEqual => return Bool(a <= b),
                Op::Equal => return Bool(a == b),
                Op::NotEqual => return Bool(a != b),
                Op::Minimum | Op::Maximum if a.is_nan() || b.is_nan() => $T::NAN,
                // The total order of IEEE 754 has -0 before +0.
                Op::Minimum => min_by(a, b, $T::total_cmp),
                Op::Maximum => max_by(a, b, $T::total_cmp),
                Op::Copysign if b.is_nan() => a.abs(),
                Op::Copysign => a.copysign(b),
                _ => $function(op, &[a, b]),
            })
        }
    };
}

floats!(unary_f32, binary_f32, f32, F32, function::of_f32);
floats!(unary_f64, binary_f64, f64, F64, function::of_f64);

/// The quotient a / b, rounded toward zero. `rest` is the remainder, so that (a - rest) / b is whole.
fn toward_zero(a: f64, rest: f64, b: f64) -> f64 {
    if b.is_infinite() {
        return 0.0;
    }
    // The difference may be rounded by more than b.
    let near = ((a - rest) / b).round_ties_even();
    near + (((-near).mul_add(b, a) - rest) / b).round_ties_even()
}
