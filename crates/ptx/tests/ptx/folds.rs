//! Folds, which merge states and store them, in a template of one merge, against the library's accumulators.

use crate::run::program_of;
use crate::values::special;
use gpuvec_emulator::HostMemory;
use gpuvec_expr::{Element as Type, Reduction};
use gpuvec_ops::{
    Accumulator, All, Any, ArgMax, ArgMin, Element, Indexed, Max, Min, WrappingProduct, WrappingSum,
};
use gpuvec_oracle::half;
use gpuvec_ptx::{Kernel, NAME};

/// Merges two states, whose words are in the first array, in the registers of the first; then with none.
const TEMPLATE: &str = ".version 8.0
.target sm_60
.address_size 64
.visible .entry fold(
.param .u64 p0,
.param .u64 p1
)
{
.reg .b64 %word0, %word1, %word2, %word3, %word4, %word5, %word6, %word7, %word8;
ld.param.u64 %word0, [a0];
ld.global.u64 %word1, [%word0];
ld.global.u64 %word2, [%word0+8];
ld.global.u64 %word3, [%word0+16];
ld.global.u64 %word4, [%word0+24];
MERGE %word1, %word2, %word1, %word2, %word3, %word4;
IDENTITY %word5, %word6;
MERGE %word1, %word2, %word5, %word6, %word1, %word2;
ld.param.u64 %word7, [p0];
STATE %word7, %word1, %word2;
ld.param.u64 %word8, [p1];
RESULT %word8, %word1, %word2;
ret;
}
";

/// The template of a reduction.
struct Merge(gpuvec_emulator::Kernel);

impl Merge {
    fn new(reduction: Reduction, ty: Type) -> Merge {
        let operand = if ty == Type::Bool { "x == y" } else { "x" };
        let arguments = if reduction == Reduction::Dot { "x, y" } else { operand };
        let program = program_of(&format!("{}({arguments})", reduction.name()), ty);
        let kernel = Kernel::new(NAME, &program, TEMPLATE);
        let text = kernel.image().to_str().expect("PTX is ASCII");
        Merge(gpuvec_emulator::Kernel::parse(text).unwrap_or_else(|why| panic!("{why}\n{text}")))
    }

    /// The bytes of the state and of the result of two states' words.
    fn of(&self, words: [u64; 4]) -> (Vec<u8>, Vec<u8>) {
        let mut input: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let [mut state, mut result] = [vec![0; 16], vec![0; 8]];
        let mut memory = HostMemory::default();
        memory.add(0x1000, &mut input);
        memory.add(0x2000, &mut state);
        memory.add(0x3000, &mut result);
        let outcome = self.0.run(&[0x1000, 0, 0, 0, 0x2000, 0x3000], 1, &mut memory);
        outcome.unwrap_or_else(|why| panic!("{why}"));
        (state, result)
    }
}

fn low_bytes(bits: u64, size: usize, len: usize) -> Vec<u8> {
    let mut bytes = bits.to_le_bytes()[..size].to_vec();
    bytes.resize(len, 0);
    bytes
}

/// A value's words.
trait Word: Element {
    /// Beside an index: floats as f64, integers with 64 bits.
    fn word(self) -> u64;

    /// Alone: an integer in the order of the values, or of a NaN `of_nan`.
    fn key(self, of_nan: i64) -> i64;
}

macro_rules! words {
    ($($ty:ty: |$x:ident| $word:expr, |$of_nan:pat_param| $key:expr;)*) => {
        $(impl Word for $ty {
            fn word(self) -> u64 {
                let $x = self;
                $word
            }

            fn key(self, $of_nan: i64) -> i64 {
                let $x = self;
                $key
            }
        })*
    };
}

/// Bits of floats that are not negative, read as integers, have the order of the floats.
fn ordered(bits: i64, most: i64) -> i64 {
    if bits < 0 { bits ^ most } else { bits }
}

words! {
    f32: |x| f64::from(x).to_bits(), |of_nan| match x.is_nan() {
        true => of_nan,
        false => ordered(x.to_bits().cast_signed().into(), i32::MAX.into()),
    };
    f64: |x| x.to_bits(), |of_nan| match x.is_nan() {
        true => of_nan,
        false => ordered(x.to_bits().cast_signed(), i64::MAX),
    };
    i32: |x| i64::from(x).cast_unsigned(), |_| x.into();
    i64: |x| x.cast_unsigned(), |_| x;
}

fn check_value<A: Accumulator<State = T, Result = T>, T: Word>(reduction: Reduction, ty: Type) {
    let merge = Merge::new(reduction, ty);
    let of_nan = if reduction == Reduction::Min { i64::MIN } else { i64::MAX };
    for x in special(ty) {
        for y in special(ty) {
            let [x, y] = [x, y].map(T::from_bits);
            let [first, second] = [x, y].map(|value| value.key(of_nan).cast_unsigned());
            let (state, result) = merge.of([first, 0, second, 0]);
            let mut expected = x;
            A::merge(&mut expected, &y);
            let bits = A::finish(&expected).bits();
            assert_eq!(state, low_bytes(bits, size_of::<T>(), 16), "{reduction:?} {ty:?}");
            assert_eq!(result, low_bytes(bits, size_of::<T>(), 8), "{reduction:?} {ty:?}");
        }
    }
}

fn check_indexed<A: Accumulator<State = Indexed<T>, Result = i64>, T: Word>(
    reduction: Reduction, ty: Type,
) {
    let merge = Merge::new(reduction, ty);
    for x in special(ty) {
        for y in special(ty) {
            for [i, j] in [[3, 8], [8, 3]] {
                let [x, y] = [x, y].map(T::from_bits);
                let (state, result) = merge.of([x.word(), i, y.word(), j]);
                let [first, second] =
                    [(x, i), (y, j)].map(|(value, i)| Indexed { value, index: i.cast_signed() });
                let mut expected = first;
                A::merge(&mut expected, &second);
                let value = low_bytes(expected.value.canonical().bits(), 8, 8);
                assert_eq!(state[..8], value, "{reduction:?} {ty:?}");
                assert_eq!(state[8..], expected.index.to_le_bytes(), "{reduction:?} {ty:?}");
                assert_eq!(result, expected.index.to_le_bytes(), "{reduction:?} {ty:?}");
            }
        }
    }
}

#[test]
fn smallest_and_largest() {
    check_value::<Min<f32>, f32>(Reduction::Min, Type::F32);
    check_value::<Min<f64>, f64>(Reduction::Min, Type::F64);
    check_value::<Min<i32>, i32>(Reduction::Min, Type::I32);
    check_value::<Min<i64>, i64>(Reduction::Min, Type::I64);
    check_value::<Max<f32>, f32>(Reduction::Max, Type::F32);
    check_value::<Max<f64>, f64>(Reduction::Max, Type::F64);
    check_value::<Max<i32>, i32>(Reduction::Max, Type::I32);
    check_value::<Max<i64>, i64>(Reduction::Max, Type::I64);
}

/// Results of another type than their states: of f32 rounded to f16 or bf16, of i64 in the order of u64.
fn check_converted<A: Accumulator<State = T, Result = T>, T: Word>(
    reduction: Reduction, to: Type, stored: impl Fn(T) -> u64,
) {
    let merge = Merge::new(reduction, to);
    let of_nan = if reduction == Reduction::Min { i64::MIN } else { i64::MAX };
    for value in special(T::TYPE.element()).into_iter().map(T::from_bits) {
        let key = value.key(of_nan).cast_unsigned();
        let (state, result) = merge.of([key, 0, A::IDENTITY.key(of_nan).cast_unsigned(), 0]);
        let bits = value.canonical().bits();
        assert_eq!(state, low_bytes(bits, size_of::<T>(), 16), "{reduction:?} {to:?}");
        assert_eq!(result, low_bytes(stored(value), to.bytes(), 8), "{reduction:?} {to:?}");
    }
}

#[test]
fn smallest_and_largest_of_other_types() {
    let [f16, bf16] = [half::f16_bits, half::bf16_bits].map(|of| move |x| u64::from(of(x)));
    let unsigned = |x: i64| (i128::from(x) + (1 << 63)) as u64;
    check_converted::<Min<f32>, f32>(Reduction::Min, Type::F16, f16);
    check_converted::<Max<f32>, f32>(Reduction::Max, Type::F16, f16);
    check_converted::<Min<f32>, f32>(Reduction::Min, Type::Bf16, bf16);
    check_converted::<Max<f32>, f32>(Reduction::Max, Type::Bf16, bf16);
    check_converted::<Min<i64>, i64>(Reduction::Min, Type::U64, unsigned);
    check_converted::<Max<i64>, i64>(Reduction::Max, Type::U64, unsigned);
}

#[test]
fn their_indices() {
    check_indexed::<ArgMin<f32>, f32>(Reduction::ArgMin, Type::F32);
    check_indexed::<ArgMin<f64>, f64>(Reduction::ArgMin, Type::F64);
    check_indexed::<ArgMin<i32>, i32>(Reduction::ArgMin, Type::I32);
    check_indexed::<ArgMin<i64>, i64>(Reduction::ArgMin, Type::I64);
    check_indexed::<ArgMax<f32>, f32>(Reduction::ArgMax, Type::F32);
    check_indexed::<ArgMax<f64>, f64>(Reduction::ArgMax, Type::F64);
    check_indexed::<ArgMax<i32>, i32>(Reduction::ArgMax, Type::I32);
    check_indexed::<ArgMax<i64>, i64>(Reduction::ArgMax, Type::I64);
}

#[test]
fn sums_and_products_of_integers_and_counts() {
    for reduction in [Reduction::Sum, Reduction::Dot] {
        for ty in [Type::I32, Type::I64] {
            check_sum::<WrappingSum>(reduction, ty);
        }
    }
    check_sum::<WrappingProduct>(Reduction::Prod, Type::I32);
    check_sum::<WrappingProduct>(Reduction::Prod, Type::I64);
    check_sum::<WrappingSum>(Reduction::Count, Type::Bool);
    check_sum::<Any>(Reduction::Any, Type::Bool);
    check_sum::<All>(Reduction::All, Type::Bool);
}

fn check_sum<A: Accumulator<State = i64, Result: Element>>(reduction: Reduction, ty: Type) {
    let values = if ty == Type::Bool { vec![0, 1, 5] } else { special(Type::I64) };
    let merge = Merge::new(reduction, ty);
    for &x in &values {
        for &y in &values {
            let (state, result) = merge.of([x, 0, y, 0]);
            let mut expected = x.cast_signed();
            A::merge(&mut expected, &y.cast_signed());
            assert_eq!(state[..8], expected.to_le_bytes(), "{reduction:?} {ty:?}");
            let bits = A::finish(&expected).bits();
            assert_eq!(result, low_bytes(bits, size_of::<A::Result>(), 8), "{reduction:?} {ty:?}");
        }
    }
}
