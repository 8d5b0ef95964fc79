//! A machine that writes programs, as the GPU's does: functions are one sequence for all inputs.

use gpuvec_math::{Machine, Scalar};
use std::cell::RefCell;
use std::num::Wrapping;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Sub};

/// An operation on earlier results of 64 bits.
type Operation = Box<dyn Fn(&[u64]) -> u64>;

/// The sequence of operations so far. The first result is the argument, an f32.
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
    fn push<const F: bool>(&self, operation: impl Fn(&[u64]) -> u64 + 'static) -> Value<'_, F> {
        let mut operations = self.0.borrow_mut();
        operations.push(Box::new(operation));
        Value { program: self, place: operations.len() }
    }

    fn run(&self, x: f32) -> f32 {
        let mut results = vec![u64::from(x.to_bits())];
        for operation in self.0.borrow().iter() {
            let result = operation(&results);
            results.push(result);
        }
        f32::from_bits(results[results.len() - 1] as u32)
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

macro_rules! functions {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let program = Program::default();
            gpuvec_math::$name(&&program, Value { program: &program, place: 0 });
            for x in (0..=u32::MAX).step_by(1_000_003).map(f32::from_bits) {
                let (expected, result) = (gpuvec_math::$name(&Scalar, x), program.run(x));
                assert!(
                    result.to_bits() == expected.to_bits() || (result.is_nan() && expected.is_nan()),
                    "{x:e}: {result:e}, not {expected:e}"
                );
            }
        })*
    };
}

functions! {
    exp exp2 expm1 sinh cosh tanh log log1p log2 log10 sin cos tan atan asin acos cbrt erf
}
