//! Values of the language's types.

use crate::half;
use gpuvec_expr::{Element, Type};

/// A value.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the types' names")]
pub enum Value {
    Bool(bool),
    I32(i32),
    I64(i64),
    U64(u64),
    F32(f32),
    F64(f64),
}

impl Value {
    /// The value of these bits, in the low end.
    #[must_use]
    pub fn of_bits(ty: Type, bits: u64) -> Value {
        match ty {
            Type::Bool => Value::Bool(bits & 0xFF != 0),
            Type::I32 => Value::I32(bits as i32),
            Type::I64 => Value::I64(bits as i64),
            Type::U64 => Value::U64(bits),
            Type::F32 => Value::F32(f32::from_bits(bits as u32)),
            Type::F64 => Value::F64(f64::from_bits(bits)),
        }
    }

    /// The value of an array's element.
    #[must_use]
    pub fn loaded(element: Element, bits: u64) -> Value {
        match element {
            Element::U8 => Value::I32((bits as u8).into()),
            Element::I8 => Value::I32((bits as i8).into()),
            Element::U16 => Value::I32((bits as u16).into()),
            Element::I16 => Value::I32((bits as i16).into()),
            Element::U32 => Value::I64((bits as u32).into()),
            Element::F16 => Value::F32(half::f32_of_f16(bits as u16)),
            Element::Bf16 => Value::F32(f32::from_bits((bits as u32) << 16)),
            _ => Value::of_bits(element.widened(), bits),
        }
    }

    /// An integer.
    pub(crate) fn integer(self) -> i128 {
        match self {
            Value::I32(x) => x.into(),
            Value::I64(x) => x.into(),
            Value::U64(x) => x.into(),
            _ => panic!("{self:?} is not an integer"),
        }
    }

    /// The bits with which the value is stored as an element of its own type.
    #[must_use]
    pub fn stored(self) -> u64 {
        match self {
            Value::Bool(x) => x.into(),
            Value::I32(x) => u64::from(x as u32),
            Value::I64(x) => x as u64,
            Value::U64(x) => x,
            Value::F32(x) if x.is_nan() => 0x7FC0_0000,
            Value::F32(x) => x.to_bits().into(),
            Value::F64(x) if x.is_nan() => 0x7FF8_0000_0000_0000,
            Value::F64(x) => x.to_bits(),
        }
    }
}
