//! Python's numbers, and arithmetic on them.

use crate::types::Class;
use crate::{Op, Type};
use std::fmt;

/// The value of a literal, or of arithmetic on literals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
}

/// The outcome of arithmetic on literals.
pub(crate) enum Folded {
    Number(Number),
    /// None: the program does the operation.
    Not,
    /// An error, with its message.
    Error(&'static str),
}

impl Number {
    pub(crate) const fn class(self) -> Class {
        match self {
            Number::Int(_) => Class::WeakInt,
            Number::Float(_) => Class::WeakFloat,
        }
    }

    pub(crate) const fn float(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Float(value) => value,
        }
    }

    /// The number as an integer, if it is whole. Large floats do not count as whole.
    pub(crate) fn whole(self) -> Option<i128> {
        match self {
            Number::Int(value) => Some(value),
            Number::Float(value) => {
                (value.fract() == 0.0 && value.abs() < 1e9).then_some(value as i128)
            }
        }
    }

    /// The bits of the number as a constant; `None` if it does not fit. An f32 is rounded from an f64, as in NumPy.
    pub(crate) fn bits(self, ty: Type) -> Option<u64> {
        let int = || match self {
            Number::Int(value) => Some(value),
            Number::Float(_) => None,
        };
        let float = if self.float().is_nan() { f64::NAN } else { self.float() };
        match ty {
            Type::Bool => Some((float != 0.0).into()),
            Type::I32 => i32::try_from(int()?).ok().map(|value| value.cast_unsigned().into()),
            Type::I64 => i64::try_from(int()?).ok().map(i64::cast_unsigned),
            Type::U64 => u64::try_from(int()?).ok(),
            Type::F32 => Some((float as f32).to_bits().into()),
            Type::F64 => Some(float.to_bits()),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(value) => write!(f, "{value}"),
            Number::Float(value) => write!(f, "{value:?}"),
        }
    }
}

/// Does an operation on literals, if Python's result is exact or the result of one IEEE 754 operation.
pub(crate) fn fold(op: Op, numbers: &[Number]) -> Folded {
    match (op, numbers) {
        (Op::Div | Op::FloorDiv | Op::Mod, [_, divisor]) if divisor.float() == 0.0 => {
            Folded::Error("a literal is divided by zero: write inf for infinity")
        }
        (Op::Shl | Op::Shr, [Number::Int(_), Number::Int(count)]) if *count < 0 => {
            Folded::Error("a literal is shifted by a negative number")
        }
        (Op::Not, [Number::Int(a)]) => Folded::Number(Number::Int(!a)),
        (Op::Neg, [Number::Float(a)]) => Folded::Number(Number::Float(-a)),
        (Op::Div, [a, b]) => Folded::Number(Number::Float(a.float() / b.float())),
        (_, [Number::Int(a)]) => folded(integers(op, *a, *a)),
        (_, [Number::Int(a), Number::Int(b)]) => folded(integers(op, *a, *b)),
        (_, [a, b]) => floats(op, a.float(), b.float()),
        _ => Folded::Not,
    }
}

/// Python's result of an operation on integers. `None` if the result is not an integer, `Some(None)` if it is too
/// large. An operation on one operand takes `a`. No divisor is 0.
pub(crate) fn integers(op: Op, a: i128, b: i128) -> Option<Option<i128>> {
    // Rust's division rounds toward zero, and its remainder has the sign of `a`.
    let is_rounded_up = || a.checked_rem(b).is_some_and(|r| r != 0 && (r < 0) != (b < 0));
    Some(match op {
        Op::Neg => a.checked_neg(),
        Op::Abs => a.checked_abs(),
        Op::Sign => Some(a.signum()),
        Op::Minimum => Some(a.min(b)),
        Op::Maximum => Some(a.max(b)),
        Op::Add => a.checked_add(b),
        Op::Sub => a.checked_sub(b),
        Op::Mul => a.checked_mul(b),
        Op::Mod => Some(a.wrapping_rem(b) + if is_rounded_up() { b } else { 0 }),
        Op::FloorDiv => a.checked_div(b).map(|q| q - i128::from(is_rounded_up())),
        Op::And => Some(a & b),
        Op::Or => Some(a | b),
        Op::Xor => Some(a ^ b),
        Op::Shl => shifted(a, b),
        Op::Shr => Some(a >> b.min(127)),
        _ => return None,
    })
}

/// `a << count`, if it fits.
fn shifted(a: i128, count: i128) -> Option<i128> {
    let count = u32::try_from(count)
        .ok()
        .filter(|&count| count < a.leading_zeros().max((!a).leading_zeros()));
    count.map_or((a == 0).then_some(0), |count| Some(a << count))
}

fn folded(value: Option<Option<i128>>) -> Folded {
    match value {
        Some(Some(value)) => Folded::Number(Number::Int(value)),
        Some(None) => Folded::Error("the integer is too large: write a float, as in 1e40"),
        None => Folded::Not,
    }
}

fn floats(op: Op, a: f64, b: f64) -> Folded {
    Folded::Number(Number::Float(match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        _ => return Folded::Not,
    }))
}
