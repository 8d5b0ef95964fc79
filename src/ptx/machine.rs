//! The machine of src/math that writes instructions.
//!
//! Values are numbers of a table, and instructions rows of another one: functions are thousands of
//! calls, each of which is to be small in the library.

use crate::writer::{Class, Operand, Writer};
use gpuvec_math::Machine;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Sub};

/// A value: who writes what becomes of it, and its number in the writer's table.
#[derive(Clone, Copy)]
pub(crate) struct Value<'w, const FLOAT: bool> {
    writer: &'w Writer,
    number: u32,
}

pub(crate) type Float<'w> = Value<'w, true>;
type Bits<'w> = Value<'w, false>;

macro_rules! instructions {
    ($($code:ident $name:literal $class:ident $arity:literal;)*) => {
        /// The instructions that functions are made of.
        #[derive(Clone, Copy)]
        enum Code {
            $($code,)*
        }

        impl Code {
            /// Its name, the class of its result, and the number of its operands.
            const ROWS: &[(&'static str, Class, usize)] = &[$(($name, Class::$class, $arity),)*];
        }
    };
}

instructions! {
    AddFloat "add.rn.f64" F64 2;
    SubFloat "sub.rn.f64" F64 2;
    MulFloat "mul.rn.f64" F64 2;
    DivFloat "div.rn.f64" F64 2;
    AddBits "add.s64" B64 2;
    SubBits "sub.s64" B64 2;
    And "and.b64" B64 2;
    Or "or.b64" B64 2;
    Xor "xor.b64" B64 2;
    Widen "cvt.f64.f32" F64 1;
    Narrow "cvt.rn.f32.f64" F32 1;
    Fma "fma.rn.f64" F64 3;
    Sqrt "sqrt.rn.f64" F64 1;
    ToBits "mov.b64" B64 1;
    ToFloat "mov.b64" F64 1;
    ShiftLeft "shl.b64" B64 2;
    ShiftRight "shr.u64" B64 2;
    Less "setp.lt.f64" Predicate 2;
    Equal "setp.eq.f64" Predicate 2;
    Select "selp.f64" F64 3;
    Copy "mov.f64" F64 1;
    Negate "not.pred" Predicate 1;
}

impl Writer {
    /// Numbers an operand of functions.
    #[inline(never)]
    fn number(&self, operand: Operand) -> u32 {
        let mut values = self.values.borrow_mut();
        values.push(operand);
        values.len() as u32 - 1
    }

    /// Numbers a constant.
    #[inline(never)]
    fn constant(&self, class: Class, bits: u64) -> u32 {
        self.number(Operand::Constant(class, bits))
    }

    fn operand(&self, number: u32) -> Operand {
        self.values.borrow()[number as usize]
    }

    /// Writes an instruction, and numbers its result. Operands that it lacks are anything.
    #[inline(never)]
    fn write(&self, code: Code, a: u32, b: u32, c: u32) -> u32 {
        let (name, class, arity) = Code::ROWS[code as usize];
        let operands = [a, b, c].map(|number| self.operand(number));
        self.number(self.emit(name, class, &operands[..arity]))
    }

    /// A number of 64 bits, as functions take it.
    pub(crate) fn float_of(&self, operand: Operand) -> Float<'_> {
        self.value(self.number(operand))
    }

    fn value<const FLOAT: bool>(&self, number: u32) -> Value<'_, FLOAT> {
        Value { writer: self, number }
    }
}

impl<const FLOAT: bool> Value<'_, FLOAT> {
    /// Where the value is.
    pub(crate) fn operand(self) -> Operand {
        self.writer.operand(self.number)
    }
}

macro_rules! operators {
    ($($operator:ident $name:ident $value:ident $code:ident;)*) => {
        $(impl<'w> $operator for $value<'w> {
            type Output = Self;

            fn $name(self, other: Self) -> Self {
                let number = self.writer.write(Code::$code, self.number, other.number, 0);
                Value { number, ..self }
            }
        })*
    };
}

operators! {
    Add add Float AddFloat;
    Sub sub Float SubFloat;
    Mul mul Float MulFloat;
    Div div Float DivFloat;
    Add add Bits AddBits;
    Sub sub Bits SubBits;
    BitAnd bitand Bits And;
    BitOr bitor Bits Or;
    BitXor bitxor Bits Xor;
}

impl<'w> Machine for &'w Writer {
    type F32 = Operand;
    type F64 = Float<'w>;
    type I64 = Bits<'w>;
    type Bool = u32;

    fn widen(&self, x: Operand) -> Float<'w> {
        self.value(self.write(Code::Widen, self.number(x), 0, 0))
    }

    fn narrow(&self, x: Float<'w>) -> Operand {
        self.operand(self.write(Code::Narrow, x.number, 0, 0))
    }

    fn f64(&self, value: f64) -> Float<'w> {
        self.value(self.constant(Class::F64, value.to_bits()))
    }

    fn i64(&self, value: i64) -> Bits<'w> {
        self.value(self.constant(Class::B64, value.cast_unsigned()))
    }

    fn fma(&self, a: Float<'w>, b: Float<'w>, c: Float<'w>) -> Float<'w> {
        self.value(self.write(Code::Fma, a.number, b.number, c.number))
    }

    fn sqrt(&self, x: Float<'w>) -> Float<'w> {
        self.value(self.write(Code::Sqrt, x.number, 0, 0))
    }

    fn bits(&self, x: Float<'w>) -> Bits<'w> {
        self.value(self.write(Code::ToBits, x.number, 0, 0))
    }

    fn float(&self, bits: Bits<'w>) -> Float<'w> {
        self.value(self.write(Code::ToFloat, bits.number, 0, 0))
    }

    fn shift_left(&self, bits: Bits<'w>, count: u32) -> Bits<'w> {
        let count = self.constant(Class::B32, count.into());
        self.value(self.write(Code::ShiftLeft, bits.number, count, 0))
    }

    fn shift_right(&self, bits: Bits<'w>, count: u32) -> Bits<'w> {
        let count = self.constant(Class::B32, count.into());
        self.value(self.write(Code::ShiftRight, bits.number, count, 0))
    }

    fn less(&self, a: Float<'w>, b: Float<'w>) -> u32 {
        self.write(Code::Less, a.number, b.number, 0)
    }

    fn equal(&self, a: Float<'w>, b: Float<'w>) -> u32 {
        self.write(Code::Equal, a.number, b.number, 0)
    }

    fn select(&self, condition: u32, yes: Float<'w>, no: Float<'w>) -> Float<'w> {
        self.value(self.write(Code::Select, yes.number, no.number, condition))
    }

    fn rarely<const N: usize>(
        &self, condition: u32, usual: [Float<'w>; N], rare: impl FnOnce() -> [Float<'w>; N],
    ) -> [Float<'w>; N] {
        let results = usual.map(|x| self.write(Code::Copy, x.number, 0, 0));
        let usually = self.operand(self.write(Code::Negate, condition, 0, 0));
        let end = self.label();
        self.jump_if(usually, end);
        for (result, value) in results.into_iter().zip(rare()) {
            self.set("mov.f64", self.operand(result), &[value.operand()]);
        }
        self.place(end);
        results.map(|result| self.value(result))
    }
}
