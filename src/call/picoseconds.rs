//! The times of operations on a core, measured on a processor of 2023 with AVX-512 (`benches/bench.py`, the suites
//! `formulas-core` and `functions`).

use gpuvec_expr::{Op, Reduction, Type};

/// The time of an operation on an element, in picoseconds. A core without AVX2 takes many times as long.
pub(crate) const fn operation(op: Op, ty: Type) -> u32 {
    let [short, long] = match op {
        Op::FloorDiv | Op::Mod if ty.is_integer() => [1600, 1600],
        Op::Div => [100, 260],
        Op::FloorDiv | Op::Mod => [220, 400],
        Op::Fma | Op::Where => [100, 220],
        Op::Sqrt => [170, 520],
        _ => function(op),
    };
    match ty {
        Type::Bool | Type::I32 | Type::F32 => short,
        Type::I64 | Type::U64 | Type::F64 => long,
    }
}

macro_rules! functions {
    ($($op:ident $name:ident $arguments:tt $loops:ident $cost:tt $oracle:ident;)*) => {
        const fn function(op: Op) -> [u32; 2] {
            match op {
                $(Op::$op => $cost,)*
                _ => [60, 130],
            }
        }
    };
}

gpuvec_math::functions!(functions!);

/// The time to widen an element when it is loaded, or to test for a NaN when it is stored.
pub(crate) const MOVE: u32 = 30;

/// The time for a byte of an array that is read or written.
pub(crate) const BYTE: u32 = 5;

/// The time to add a value to the state of a reduction.
pub(crate) const fn reduction(reduction: Reduction, ty: Type) -> u32 {
    use Reduction::{Dot, Mean, Norm, Sum};
    match (reduction, ty) {
        (Sum | Mean, Type::F32) => 170,
        (Sum | Mean, Type::F64) => 240,
        (Dot | Norm, Type::F32) => 160,
        (Dot | Norm, Type::F64) => 290,
        _ => 60,
    }
}
