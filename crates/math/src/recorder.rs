//! The machine that records functions as data, from which other crates write programs.
//!
//! A recording is a sequence of steps: a byte for the [`Step`], then its operands in LEB128. The arguments and then the
//! steps' values are numbered in order. A value as an operand is stored as the number of values since then, so that
//! equal sequences in different functions have equal bytes, which compress well.

use crate::Machine;
use crate::fast::Machine32;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
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
            /// For each step, the number of operands that are values, the number of those that are numbers, and true if
            /// it makes a value.
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
    Float 0 1 true "The float with the encoding at a place in the table of constants.";
    Bits 0 1 true "The 64 bits at a place in that table.";
    NegFloat 1 0 true "-a.";
    AddFloat 2 0 true "a + b.";
    SubFloat 2 0 true "a - b.";
    MulFloat 2 0 true "a · b.";
    DivFloat 2 0 true "a / b.";
    Quotient 2 0 true "[`Machine::quotient`].";
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
    Differ 2 0 true "a < b or a > b, of 32 bits.";
    Copy 1 0 true "A copy of a, which `Set` may change.";
    SkipUnless 1 0 false "Skips the steps before `End` unless a holds.";
    Set 2 0 false "Sets a, a copy, to b.";
    End 0 0 false "Ends the skipped steps.";
    Return 1 0 false "Ends the recording with the result a.";
    Float32 0 1 true "The f32 with the encoding at a place in the table of constants.";
    Bits32 0 1 true "The 32 bits at a place in that table.";
    AddFloat32 2 0 true "a + b.";
    SubFloat32 2 0 true "a - b.";
    MulFloat32 2 0 true "a · b.";
    Fma32 3 0 true "[`Machine32::fma`].";
    Negate32 1 0 true "-a.";
    Magnitude32 1 0 true "[`Machine32::magnitude`].";
    Min32 2 0 true "[`Machine32::min`].";
    Select32 3 0 true "a where c holds, else b.";
    Reciprocal32 1 0 true "[`Machine32::reciprocal`].";
    ReciprocalRoot32 1 0 true "[`Machine32::reciprocal_root`].";
    Convert32 1 0 true "[`Machine32::convert`].";
    ToBits32 1 0 true "[`Machine32::bits`].";
    ToFloat32 1 0 true "[`Machine32::float`].";
    AddBits32 2 0 true "a + b, which wraps.";
    SubBits32 2 0 true "a - b, which wraps.";
    And32 2 0 true "a & b.";
    Or32 2 0 true "a | b.";
    Xor32 2 0 true "a ^ b.";
    ShiftLeft32 1 1 true "a, shifted by a number.";
    Less32 2 0 true "[`Machine32::less`].";
    Equal32 2 0 true "[`Machine32::equal`].";
    Both 2 0 true "a and b hold.";
    Lookup16 1 1 true "[`Machine32::lookup`] at a, in the table of 16 with a number.";
    Lookup32 1 1 true "[`Machine32::lookup`] at a, in the table of 32 with a number.";
    ReturnIf 2 0 false "Ends the recording with the result a, which is right where b holds.";
}

/// Reads the steps of a function's recording, each with its operands. An operand that is a value is given by the
/// value's number.
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

/// Records functions, one after another.
#[derive(Debug, Default)]
pub struct Recorder {
    bytes: RefCell<Vec<u8>>,
    constants: RefCell<Vec<u64>>,
    tables: RefCell<Vec<&'static [f32]>>,
    made: Cell<usize>,
}

/// Recordings with the constants and the tables that they share.
#[derive(Debug)]
pub struct Recordings {
    /// The steps of all functions.
    pub steps: Vec<u8>,
    /// Encodings, in the low ends of words.
    pub constants: Vec<u64>,
    /// The tables, of 16 or 32 entries.
    pub tables: Vec<&'static [f32]>,
}

/// A value of a recorded function.
#[derive(Debug)]
pub struct Value<'r, Kind> {
    recorder: &'r Recorder,
    number: usize,
    kind: PhantomData<Kind>,
}

impl<Kind> Clone for Value<'_, Kind> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Kind> Copy for Value<'_, Kind> {}

macro_rules! kinds {
    ($($kind:ident $value:ident $doc:literal;)*) => {
        $(
            #[doc = $doc]
            #[derive(Debug)]
            pub enum $kind {}
            type $value<'r> = Value<'r, $kind>;
        )*
    };
}

kinds! {
    OfF64 Float "A float of 64 bits.";
    OfF32 Float32 "A float of 32 bits, of a fast sequence.";
    OfI32 Bits32 "32 bits, of a fast sequence.";
    OfBool Truth "The outcome of a comparison, of a fast sequence.";
    OfBits Bits "Anything else.";
}

impl Recorder {
    /// Records a function of f32 or of f64, and returns the place where the recording begins.
    pub fn record<'r, const N: usize, Kind>(
        &'r self, function: impl FnOnce([Value<'r, Kind>; N]) -> Value<'r, Kind>,
    ) -> usize {
        let (start, arguments) = self.begin();
        let result = function(arguments);
        self.step(Step::Return, &[result.number], 0);
        start
    }

    /// Records a fast function, which also returns where its result is right. Returns the place where the recording
    /// begins.
    pub fn record_fast<'r, const N: usize>(
        &'r self,
        function: impl FnOnce([Value<'r, OfF32>; N]) -> (Value<'r, OfF32>, Value<'r, OfBool>),
    ) -> usize {
        let (start, arguments) = self.begin();
        let (result, is_right) = function(arguments);
        self.step(Step::ReturnIf, &[result.number, is_right.number], 0);
        start
    }

    fn begin<const N: usize, Kind>(&self) -> (usize, [Value<'_, Kind>; N]) {
        self.made.set(N);
        (self.bytes.borrow().len(), std::array::from_fn(|number| self.numbered(number)))
    }

    const fn numbered<Kind>(&self, number: usize) -> Value<'_, Kind> {
        Value { recorder: self, number, kind: PhantomData }
    }

    /// All recordings.
    #[must_use]
    pub fn finish(self) -> Recordings {
        let Recorder { bytes, constants, tables, .. } = self;
        Recordings {
            steps: bytes.into_inner(),
            constants: constants.into_inner(),
            tables: tables.into_inner(),
        }
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

    fn value<Kind>(&self, step: Step, values: &[usize]) -> Value<'_, Kind> {
        self.numbered(self.step(step, values, 0))
    }

    fn constant<Kind>(&self, step: Step, bits: u64) -> Value<'_, Kind> {
        self.numbered(self.step(step, &[], place_in(&self.constants, bits)))
    }
}

/// The place of an item in a list. Adds the item if it is new.
fn place_in<T: PartialEq>(list: &RefCell<Vec<T>>, item: T) -> usize {
    let list = &mut *list.borrow_mut();
    list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
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
    Add add Float32 AddFloat32;
    Sub sub Float32 SubFloat32;
    Mul mul Float32 MulFloat32;
    Add add Bits32 AddBits32;
    Sub sub Bits32 SubBits32;
    BitAnd bitand Bits32 And32;
    BitOr bitor Bits32 Or32;
    BitXor bitxor Bits32 Xor32;
    BitAnd bitand Truth Both;
}

impl<'r> Neg for Float<'r> {
    type Output = Self;

    fn neg(self) -> Self {
        self.recorder.value(Step::NegFloat, &[self.number])
    }
}

/// Defines operations that are one step each, with their arguments as operands.
macro_rules! records {
    ($($name:ident($($x:ident: $X:ident),+) -> $Result:ident: $step:ident;)+) => {
        $(fn $name(&self, $($x: $X<'r>),+) -> $Result<'r> {
            self.value(Step::$step, &[$($x.number),+])
        })+
    };
}

impl<'r> Machine for &'r Recorder {
    type F32 = Bits<'r>;
    type F64 = Float<'r>;
    type I64 = Bits<'r>;
    type Bool = Bits<'r>;

    records! {
        widen(x: Bits) -> Float: Widen;
        narrow(x: Float) -> Bits: Narrow;
        fma(a: Float, b: Float, c: Float) -> Float: Fma;
        quotient(a: Float, b: Float) -> Float: Quotient;
        sqrt(x: Float) -> Float: Sqrt;
        bits(x: Float) -> Bits: ToBits;
        float(bits: Bits) -> Float: ToFloat;
        less(a: Float, b: Float) -> Bits: Less;
        equal(a: Float, b: Float) -> Bits: Equal;
    }

    fn f64(&self, value: f64) -> Float<'r> {
        self.constant(Step::Float, value.to_bits())
    }

    fn i64(&self, value: i64) -> Bits<'r> {
        self.constant(Step::Bits, value.cast_unsigned())
    }

    fn shift_left(&self, bits: Bits<'r>, count: u32) -> Bits<'r> {
        self.numbered(self.step(Step::ShiftLeft, &[bits.number], count as usize))
    }

    fn shift_right(&self, bits: Bits<'r>, count: u32) -> Bits<'r> {
        self.numbered(self.step(Step::ShiftRight, &[bits.number], count as usize))
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

    fn rounded(&self, ends: [Float<'r>; 2], exact: impl FnOnce() -> Float<'r>) -> Bits<'r> {
        let [low, high] = ends.map(|end| self.narrow(end).number);
        let result = self.value(Step::Copy, &[high]);
        let is_open = self.step(Step::Differ, &[low, high], 0);
        self.step(Step::SkipUnless, &[is_open], 0);
        let exact = self.narrow(exact());
        self.step(Step::Set, &[result.number, exact.number], 0);
        self.step(Step::End, &[], 0);
        result
    }
}

impl<'r> Machine32 for &'r Recorder {
    type F32 = Float32<'r>;
    type I32 = Bits32<'r>;
    type Bool = Truth<'r>;

    const LARGE_TABLES: bool = true;

    records! {
        fma(a: Float32, b: Float32, c: Float32) -> Float32: Fma32;
        min(a: Float32, b: Float32) -> Float32: Min32;
        reciprocal(x: Float32) -> Float32: Reciprocal32;
        reciprocal_root(x: Float32) -> Float32: ReciprocalRoot32;
        magnitude(x: Float32) -> Float32: Magnitude32;
        bits(x: Float32) -> Bits32: ToBits32;
        float(bits: Bits32) -> Float32: ToFloat32;
        convert(integer: Bits32) -> Float32: Convert32;
        less(a: Float32, b: Float32) -> Truth: Less32;
        equal(a: Float32, b: Float32) -> Truth: Equal32;
    }

    fn f32(&self, value: f32) -> Float32<'r> {
        self.constant(Step::Float32, value.to_bits().into())
    }

    fn i32(&self, value: i32) -> Bits32<'r> {
        self.constant(Step::Bits32, value.cast_unsigned().into())
    }

    fn fms(&self, a: Float32<'r>, b: Float32<'r>, c: Float32<'r>) -> Float32<'r> {
        let negative = self.value(Step::Negate32, &[c.number]);
        Machine32::fma(self, a, b, negative)
    }

    fn fnma(&self, a: Float32<'r>, b: Float32<'r>, c: Float32<'r>) -> Float32<'r> {
        let negative = self.value(Step::Negate32, &[a.number]);
        Machine32::fma(self, negative, b, c)
    }

    /// Saves a register on GPUs.
    fn minus_or_twice(
        &self, condition: Truth<'r>, _: Float32<'r>, unit: Float32<'r>,
    ) -> Float32<'r> {
        let minus = Machine32::f32(self, 0.0) - unit;
        Machine32::select(self, condition, minus, unit + unit)
    }

    fn select(&self, condition: Truth<'r>, yes: Float32<'r>, no: Float32<'r>) -> Float32<'r> {
        self.value(Step::Select32, &[yes.number, no.number, condition.number])
    }

    fn shift_left<const COUNT: u32>(&self, bits: Bits32<'r>) -> Bits32<'r> {
        self.numbered(self.step(Step::ShiftLeft32, &[bits.number], COUNT as usize))
    }

    fn lookup<const N: usize>(&self, table: &'static [f32; N], place: Bits32<'r>) -> Float32<'r> {
        let step = const {
            match N {
                16 => Step::Lookup16,
                32 => Step::Lookup32,
                _ => panic!("tables have 16 or 32 entries"),
            }
        };
        self.numbered(self.step(step, &[place.number], place_in(&self.tables, table)))
    }
}
