//! The machine that records functions as data, from which other crates write programs.
//!
//! A recording is a row of steps: a byte for the [`Step`], then its operands in LEB128. Values are numbered
//! as steps make them, after the arguments. An operand that is a value is said by how many were made since,
//! so that equal sequences of different functions are equal bytes, which pack well.

use crate::Machine;
use std::cell::{Cell, RefCell};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Sub};

macro_rules! steps {
    ($($step:ident $values:literal $numbers:literal $makes:literal $doc:literal;)*) => {
        /// A step of a recording.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Step {
            $(#[doc = $doc] $step,)*
        }

        impl Step {
            const ALL: &[Step] = &[$(Step::$step,)*];
            /// The operands that are values, then those that are numbers; and whether it makes a value.
            const SHAPES: &[(usize, usize, bool)] = &[$(($values, $numbers, $makes),)*];

            /// The number of its operands.
            #[must_use]
            pub const fn operands(self) -> usize {
                let (values, numbers, _) = Step::SHAPES[self as usize];
                values + numbers
            }
        }
    };
}

steps! {
    Float 0 1 true "The float whose encoding is in the table of constants at a place.";
    Bits 0 1 true "The 64 bits in that table at a place.";
    NegFloat 1 0 true "-a.";
    AddFloat 2 0 true "a + b.";
    SubFloat 2 0 true "a - b.";
    MulFloat 2 0 true "a · b.";
    DivFloat 2 0 true "a / b.";
    AddBits 2 0 true "a + b, which wraps.";
    SubBits 2 0 true "a - b, which wraps.";
    And 2 0 true "a & b.";
    Or 2 0 true "a | b.";
    Xor 2 0 true "a ^ b.";
    Widen 1 0 true "[`Machine::widen`].";
    Narrow 1 0 true "[`Machine::narrow`].";
    Fma 3 0 true "[`Machine::fma`].";
    Sqrt 1 0 true "[`Machine::sqrt`].";
    ToBits 1 0 true "[`Machine::bits`].";
    ToFloat 1 0 true "[`Machine::float`].";
    ShiftLeft 1 1 true "a, shifted by a number.";
    ShiftRight 1 1 true "a, shifted by a number; zeros come in.";
    Less 2 0 true "[`Machine::less`].";
    Equal 2 0 true "[`Machine::equal`].";
    Select 3 0 true "a where c holds, else b.";
    Copy 1 0 true "A float that `Set` may change.";
    SkipUnless 1 0 false "Skips the steps before `End` unless a holds.";
    Set 2 0 false "Makes the value a, a copy, equal to b.";
    End 0 0 false "The end of what is skipped.";
    Return 1 0 false "The result is a: the recording ends.";
}

/// Reads the steps of a recording of a function of some arguments, each with its operands. An operand that is
/// a value is given by the value's number.
pub fn steps(recording: &[u8], arguments: usize) -> impl Iterator<Item = (Step, [usize; 3])> {
    let mut bytes = recording.iter();
    let mut made = arguments;
    std::iter::from_fn(move || {
        let step = *Step::ALL.get(usize::from(*bytes.next()?))?;
        let (values, _, makes) = Step::SHAPES[step as usize];
        let mut operands = [0; 3];
        for (i, operand) in operands[..step.operands()].iter_mut().enumerate() {
            let mut shift = 0;
            loop {
                let byte = usize::from(*bytes.next()?);
                *operand |= (byte & 127) << shift;
                shift += 7;
                if byte < 128 {
                    break;
                }
            }
            if i < values {
                *operand = made.checked_sub(*operand)?;
            }
        }
        made += usize::from(makes);
        Some((step, operands))
    })
}

/// Records functions, one behind the other.
#[derive(Debug, Default)]
pub struct Recorder {
    bytes: RefCell<Vec<u8>>,
    constants: RefCell<Vec<u64>>,
    made: Cell<usize>,
}

/// A value of a function that is recorded: a float of 64 bits, or something else.
#[derive(Clone, Copy, Debug)]
pub struct Value<'r, const FLOAT: bool> {
    recorder: &'r Recorder,
    number: usize,
}

type Float<'r> = Value<'r, true>;
type Bits<'r> = Value<'r, false>;

impl Recorder {
    /// Records a function of f32, or with `FLOAT` of f64, and returns the place where the recording begins.
    pub fn record<'r, const N: usize, const FLOAT: bool>(
        &'r self, function: impl FnOnce([Value<'r, FLOAT>; N]) -> Value<'r, FLOAT>,
    ) -> usize {
        let start = self.bytes.borrow().len();
        self.made.set(N);
        let result = function(std::array::from_fn(|number| Value { recorder: self, number }));
        self.step(Step::Return, &[result.number], 0);
        start
    }

    /// All recordings, and the table of constants, which they share.
    #[must_use]
    pub fn finish(self) -> (Vec<u8>, Vec<u64>) {
        (self.bytes.into_inner(), self.constants.into_inner())
    }

    fn step(&self, step: Step, values: &[usize], number: usize) -> usize {
        let (_, numbers, makes) = Step::SHAPES[step as usize];
        let made = self.made.get();
        let bytes = &mut *self.bytes.borrow_mut();
        bytes.push(step as u8);
        let operands = values.iter().map(|value| made - value);
        for mut operand in operands.chain([number].into_iter().take(numbers)) {
            while operand >= 128 {
                bytes.push((operand & 127 | 128) as u8);
                operand >>= 7;
            }
            bytes.push(operand as u8);
        }
        self.made.set(made + usize::from(makes));
        made
    }

    fn value<const FLOAT: bool>(&self, step: Step, values: &[usize]) -> Value<'_, FLOAT> {
        Value { recorder: self, number: self.step(step, values, 0) }
    }

    fn constant<const FLOAT: bool>(&self, step: Step, bits: u64) -> Value<'_, FLOAT> {
        let mut constants = self.constants.borrow_mut();
        let known = constants.iter().position(|&constant| constant == bits);
        let place = known.unwrap_or(constants.len());
        if known.is_none() {
            constants.push(bits);
        }
        Value { recorder: self, number: self.step(step, &[], place) }
    }
}

macro_rules! operators {
    ($($operator:ident $name:ident $value:ident $step:ident;)*) => {
        $(impl<'r> $operator for $value<'r> {
            type Output = Self;

            fn $name(self, other: Self) -> Self {
                self.recorder.value(Step::$step, &[self.number, other.number])
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

impl<'r> Neg for Float<'r> {
    type Output = Self;

    fn neg(self) -> Self {
        self.recorder.value(Step::NegFloat, &[self.number])
    }
}

impl<'r> Machine for &'r Recorder {
    type F32 = Bits<'r>;
    type F64 = Float<'r>;
    type I64 = Bits<'r>;
    type Bool = Bits<'r>;

    fn widen(&self, x: Bits<'r>) -> Float<'r> {
        self.value(Step::Widen, &[x.number])
    }

    fn narrow(&self, x: Float<'r>) -> Bits<'r> {
        self.value(Step::Narrow, &[x.number])
    }

    fn f64(&self, value: f64) -> Float<'r> {
        self.constant(Step::Float, value.to_bits())
    }

    fn i64(&self, value: i64) -> Bits<'r> {
        self.constant(Step::Bits, value.cast_unsigned())
    }

    fn fma(&self, a: Float<'r>, b: Float<'r>, c: Float<'r>) -> Float<'r> {
        self.value(Step::Fma, &[a.number, b.number, c.number])
    }

    fn sqrt(&self, x: Float<'r>) -> Float<'r> {
        self.value(Step::Sqrt, &[x.number])
    }

    fn bits(&self, x: Float<'r>) -> Bits<'r> {
        self.value(Step::ToBits, &[x.number])
    }

    fn float(&self, bits: Bits<'r>) -> Float<'r> {
        self.value(Step::ToFloat, &[bits.number])
    }

    fn shift_left(&self, bits: Bits<'r>, count: u32) -> Bits<'r> {
        Value { number: self.step(Step::ShiftLeft, &[bits.number], count as usize), ..bits }
    }

    fn shift_right(&self, bits: Bits<'r>, count: u32) -> Bits<'r> {
        Value { number: self.step(Step::ShiftRight, &[bits.number], count as usize), ..bits }
    }

    fn less(&self, a: Float<'r>, b: Float<'r>) -> Bits<'r> {
        self.value(Step::Less, &[a.number, b.number])
    }

    fn equal(&self, a: Float<'r>, b: Float<'r>) -> Bits<'r> {
        self.value(Step::Equal, &[a.number, b.number])
    }

    fn select(&self, condition: Bits<'r>, yes: Float<'r>, no: Float<'r>) -> Float<'r> {
        self.value(Step::Select, &[yes.number, no.number, condition.number])
    }

    fn rarely<const N: usize>(
        &self, condition: Bits<'r>, usual: [Float<'r>; N], rare: impl FnOnce() -> [Float<'r>; N],
    ) -> [Float<'r>; N] {
        let results: [Float<'r>; N] = usual.map(|x| self.value(Step::Copy, &[x.number]));
        self.step(Step::SkipUnless, &[condition.number], 0);
        for (result, value) in results.iter().zip(rare()) {
            self.step(Step::Set, &[result.number, value.number], 0);
        }
        self.step(Step::End, &[], 0);
        results
    }
}
