//! A machine that writes programs, as the GPU's does: functions are one sequence for all inputs.

mod samples;

use gpuvec_math::{Machine, Scalar, double};
use samples::Random;
use std::cell::RefCell;
use std::num::Wrapping;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Sub};

/// An operation on earlier results of 64 bits.
type Operation = Box<dyn Fn(&[u64]) -> u64>;

/// The sequence of operations so far. The first two results are the arguments.
#[derive(Default)]
struct Program(RefCell<Vec<Operation>>);

/// The place of a result.
#[derive(Clone, Copy)]
struct Value<'a, const IS_FLOAT: bool> {
    program: &'a Program,
    place: usize,
}

type Float<'a> = Value<'a, true>;
type Bits<'a> = Value<'a, false>;

impl Program {
    fn argument<const F: bool>(&self, place: usize) -> Value<'_, F> {
        Value { program: self, place }
    }

    fn push<const F: bool>(&self, operation: impl Fn(&[u64]) -> u64 + 'static) -> Value<'_, F> {
        let mut operations = self.0.borrow_mut();
        operations.push(Box::new(operation));
        Value { program: self, place: operations.len() + 1 }
    }

    fn run(&self, arguments: [u64; 2], place: usize) -> u64 {
        let mut results = arguments.to_vec();
        for operation in self.0.borrow().iter() {
            let result = operation(&results);
            results.push(result);
        }
        results[place]
    }
}

impl<'a, const F: bool> Value<'a, F> {
    fn with<const G: bool>(self, other: Self, f: fn(u64, u64) -> u64) -> Value<'a, G> {
        self.program.push(move |r| f(r[self.place], r[other.place]))
    }

    fn map<const G: bool>(self, f: impl Fn(u64) -> u64 + 'static) -> Value<'a, G> {
        self.program.push(move |r| f(r[self.place]))
    }
}

fn number(bits: u64) -> f64 {
    f64::from_bits(bits)
}

macro_rules! operators {
    ($($operator:ident $name:ident: $value:ident, |$a:ident, $b:ident| $result:expr;)*) => {
        $(impl<'a> $operator for $value<'a> {
            type Output = Self;

            fn $name(self, other: Self) -> Self {
                self.with(other, |$a, $b| $result)
            }
        })*
    };
}

operators! {
    Add add: Float, |a, b| (number(a) + number(b)).to_bits();
    Sub sub: Float, |a, b| (number(a) - number(b)).to_bits();
    Mul mul: Float, |a, b| (number(a) * number(b)).to_bits();
    Div div: Float, |a, b| (number(a) / number(b)).to_bits();
    Add add: Bits, |a, b| (Wrapping(a) + Wrapping(b)).0;
    Sub sub: Bits, |a, b| (Wrapping(a) - Wrapping(b)).0;
    BitAnd bitand: Bits, |a, b| a & b;
    BitOr bitor: Bits, |a, b| a | b;
    BitXor bitxor: Bits, |a, b| a ^ b;
}

impl<'a> Machine for &'a Program {
    type F32 = Bits<'a>;
    type F64 = Float<'a>;
    type I64 = Bits<'a>;
    type Bool = Bits<'a>;

    fn widen(&self, x: Bits<'a>) -> Float<'a> {
        x.map(|x| f64::from(f32::from_bits(x as u32)).to_bits())
    }

    fn narrow(&self, x: Float<'a>) -> Bits<'a> {
        x.map(|x| (number(x) as f32).to_bits().into())
    }

    fn f64(&self, value: f64) -> Float<'a> {
        self.push(move |_| value.to_bits())
    }

    fn i64(&self, value: i64) -> Bits<'a> {
        self.push(move |_| value as u64)
    }

    fn fma(&self, a: Float<'a>, b: Float<'a>, c: Float<'a>) -> Float<'a> {
        self.push(move |r| {
            number(r[a.place]).mul_add(number(r[b.place]), number(r[c.place])).to_bits()
        })
    }

    fn sqrt(&self, x: Float<'a>) -> Float<'a> {
        x.map(|x| number(x).sqrt().to_bits())
    }

    fn bits(&self, x: Float<'a>) -> Bits<'a> {
        Value { program: x.program, place: x.place }
    }

    fn float(&self, bits: Bits<'a>) -> Float<'a> {
        Value { program: bits.program, place: bits.place }
    }

    fn shift_left(&self, bits: Bits<'a>, count: u32) -> Bits<'a> {
        bits.map(move |bits| bits << count)
    }

    fn shift_right(&self, bits: Bits<'a>, count: u32) -> Bits<'a> {
        bits.map(move |bits| bits >> count)
    }

    fn less(&self, a: Float<'a>, b: Float<'a>) -> Bits<'a> {
        a.with(b, |a, b| (number(a) < number(b)).into())
    }

    fn equal(&self, a: Float<'a>, b: Float<'a>) -> Bits<'a> {
        a.with(b, |a, b| (number(a) == number(b)).into())
    }

    fn select(&self, condition: Bits<'a>, yes: Float<'a>, no: Float<'a>) -> Float<'a> {
        self.push(move |r| r[if r[condition.place] == 1 { yes.place } else { no.place }])
    }
}

/// A float by its bits; NaNs are all alike.
trait Encoded {
    fn encoded(self) -> u64;
}

impl Encoded for f32 {
    fn encoded(self) -> u64 {
        if self.is_nan() { u64::MAX } else { self.to_bits().into() }
    }
}

impl Encoded for f64 {
    fn encoded(self) -> u64 {
        if self.is_nan() { u64::MAX } else { self.to_bits() }
    }
}

macro_rules! functions {
    ($module:ident $float:ident $decode:expr; $($path:path: $name:ident($($place:literal)*);)*) => {
        mod $module {
            use super::*;

            $(#[test]
            fn $name() {
                let program = Program::default();
                let result = $path(&&program, $(program.argument($place)),*);
                let mut random = Random(4);
                for _ in 0..4096 {
                    let arguments = [random.$float(), random.$float()];
                    let expected = $path(&Scalar, $(arguments[$place]),*);
                    let bits = program.run(arguments.map(|x| x.to_bits().into()), result.place);
                    let found: $float = $decode(bits);
                    assert_eq!(found.encoded(), expected.encoded(), "of {arguments:?}");
                }
            })*
        }
    };
}

functions! {
    of_f32 f32 |bits| f32::from_bits(bits as u32);
    gpuvec_math::exp: exp(0);
    gpuvec_math::exp2: exp2(0);
    gpuvec_math::expm1: expm1(0);
    gpuvec_math::sinh: sinh(0);
    gpuvec_math::cosh: cosh(0);
    gpuvec_math::tanh: tanh(0);
    gpuvec_math::log: log(0);
    gpuvec_math::log1p: log1p(0);
    gpuvec_math::log2: log2(0);
    gpuvec_math::log10: log10(0);
    gpuvec_math::sin: sin(0);
    gpuvec_math::cos: cos(0);
    gpuvec_math::tan: tan(0);
    gpuvec_math::atan: atan(0);
    gpuvec_math::asin: asin(0);
    gpuvec_math::acos: acos(0);
    gpuvec_math::cbrt: cbrt(0);
    gpuvec_math::erf: erf(0);
    gpuvec_math::atan2: atan2(0 1);
    gpuvec_math::hypot: hypot(0 1);
    gpuvec_math::pow: pow(0 1);
}

functions! {
    of_f64 f64 f64::from_bits;
    double::exp: exp(0);
    double::exp2: exp2(0);
    double::expm1: expm1(0);
    double::sinh: sinh(0);
    double::cosh: cosh(0);
    double::tanh: tanh(0);
    double::log: log(0);
    double::log1p: log1p(0);
    double::log2: log2(0);
    double::log10: log10(0);
    double::sin: sin(0);
    double::cos: cos(0);
    double::tan: tan(0);
    double::atan: atan(0);
    double::asin: asin(0);
    double::acos: acos(0);
    double::cbrt: cbrt(0);
    double::erf: erf(0);
    double::atan2: atan2(0 1);
    double::hypot: hypot(0 1);
    double::pow: pow(0 1);
}
