//! The machine of src/math that writes instructions.

use crate::writer::{Class, Operand, Writer};
use gpuvec_math::Machine;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Sub};

/// A value: where it is, and who writes what becomes of it.
#[derive(Clone, Copy)]
pub(crate) struct Value<'w, const FLOAT: bool> {
    writer: &'w Writer,
    pub(crate) operand: Operand,
}

pub(crate) type Float<'w> = Value<'w, true>;
type Bits<'w> = Value<'w, false>;

macro_rules! operators {
    ($($operator:ident $name:ident $value:ident $class:ident $instruction:literal;)*) => {
        $(impl<'w> $operator for $value<'w> {
            type Output = Self;

            fn $name(self, other: Self) -> Self {
                let operands = [self.operand, other.operand];
                let operand = self.writer.emit($instruction, Class::$class, &operands);
                Value { operand, ..self }
            }
        })*
    };
}

operators! {
    Add add Float F64 "add.rn.f64";
    Sub sub Float F64 "sub.rn.f64";
    Mul mul Float F64 "mul.rn.f64";
    Div div Float F64 "div.rn.f64";
    Add add Bits B64 "add.s64";
    Sub sub Bits B64 "sub.s64";
    BitAnd bitand Bits B64 "and.b64";
    BitOr bitor Bits B64 "or.b64";
    BitXor bitxor Bits B64 "xor.b64";
}

impl Writer {
    /// A number of 64 bits, as functions take it.
    pub(crate) fn float_value(&self, operand: Operand) -> Float<'_> {
        self.value(operand)
    }

    fn value<const FLOAT: bool>(&self, operand: Operand) -> Value<'_, FLOAT> {
        Value { writer: self, operand }
    }
}

impl<'w> Machine for &'w Writer {
    type F32 = Operand;
    type F64 = Float<'w>;
    type I64 = Bits<'w>;
    type Bool = Operand;

    fn widen(&self, x: Operand) -> Float<'w> {
        self.value(self.emit("cvt.f64.f32", Class::F64, &[x]))
    }

    fn narrow(&self, x: Float<'w>) -> Operand {
        self.emit("cvt.rn.f32.f64", Class::F32, &[x.operand])
    }

    fn f64(&self, value: f64) -> Float<'w> {
        self.value(Operand::f64(value))
    }

    fn i64(&self, value: i64) -> Bits<'w> {
        self.value(Operand::b64(value))
    }

    fn fma(&self, a: Float<'w>, b: Float<'w>, c: Float<'w>) -> Float<'w> {
        let operands = [a.operand, b.operand, c.operand];
        self.value(self.emit("fma.rn.f64", Class::F64, &operands))
    }

    fn sqrt(&self, x: Float<'w>) -> Float<'w> {
        self.value(self.emit("sqrt.rn.f64", Class::F64, &[x.operand]))
    }

    fn bits(&self, x: Float<'w>) -> Bits<'w> {
        self.value(self.emit("mov.b64", Class::B64, &[x.operand]))
    }

    fn float(&self, bits: Bits<'w>) -> Float<'w> {
        self.value(self.emit("mov.b64", Class::F64, &[bits.operand]))
    }

    fn shift_left(&self, bits: Bits<'w>, count: u32) -> Bits<'w> {
        let count = Operand::b32(count.cast_signed());
        self.value(self.emit("shl.b64", Class::B64, &[bits.operand, count]))
    }

    fn shift_right(&self, bits: Bits<'w>, count: u32) -> Bits<'w> {
        let count = Operand::b32(count.cast_signed());
        self.value(self.emit("shr.u64", Class::B64, &[bits.operand, count]))
    }

    fn less(&self, a: Float<'w>, b: Float<'w>) -> Operand {
        self.emit("setp.lt.f64", Class::Predicate, &[a.operand, b.operand])
    }

    fn equal(&self, a: Float<'w>, b: Float<'w>) -> Operand {
        self.emit("setp.eq.f64", Class::Predicate, &[a.operand, b.operand])
    }

    fn select(&self, condition: Operand, yes: Float<'w>, no: Float<'w>) -> Float<'w> {
        let operands = [yes.operand, no.operand, condition];
        self.value(self.emit("selp.f64", Class::F64, &operands))
    }

    fn rarely<const N: usize>(
        &self, condition: Operand, usual: [Float<'w>; N], rare: impl FnOnce() -> [Float<'w>; N],
    ) -> [Float<'w>; N] {
        let results = usual.map(|x| self.emit("mov.f64", Class::F64, &[x.operand]));
        let usually = self.emit("not.pred", Class::Predicate, &[condition]);
        let end = self.label();
        self.jump_if(usually, end);
        for (result, value) in results.into_iter().zip(rare()) {
            self.set("mov.f64", result, &[value.operand]);
        }
        self.place(end);
        results.map(|result| self.value(result))
    }
}
