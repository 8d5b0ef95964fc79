//! The loops of operations, loads and stores.

use super::functions;
use super::loops::{Loop, element_loop};
use gpuvec_expr::{Element, Op, Type, half};
use gpuvec_ops::{Accumulator, Max, Min};

/// Selects the loop of an operation from a table of operations, chunks and formulas. For other operations the result is
/// `$other`.
macro_rules! in_table {
    ($op:expr, {
        $($name:ident $chunks:ident |$($x:ident: $X:ty),+| -> $Out:ty $formula:block $(usually $usual:block)?;)+
    } or $other:expr) => {
        match $op {
            $(Op::$name => {
                Some(element_loop!($chunks, |$($x: $X),+| -> $Out $formula $(usually $usual)?))
            })+
            _ => $other,
        }
    };
}

/// The loop of an operation on operands of type `from` with a result of type `to`. For `where`, `from` is the type of
/// the choices.
pub(super) fn operation(op: Op, from: Type, to: Type) -> Option<Loop> {
    in_table!(op, {
        RoundOdd Short |a: f64| -> f32 { half::rounded_to_odd(a) };
        RoundF16 Short |a: f32| -> f32 { half::nearest_f16(a) };
        RoundBf16 Short |a: f32| -> f32 { half::f32_of_bf16(half::bf16_bits(a)) };
    } or match (op, from) {
        (Op::Cast, _) => cast(from, to),
        (Op::Where, _) => Some(choice(to)),
        (_, Type::Bool) => of_bool(op),
        (_, Type::I32) => of_i32(op),
        (_, Type::I64) => of_i64(op),
        (_, Type::U64) => of_u64(op),
        (_, Type::F32) => of_f32(op).or_else(|| functions::of_f32(op)),
        (_, Type::F64) => of_f64(op).or_else(|| functions::of_f64(op)),
    })
}

/// The operations that both integers and floats have, with the methods that compute them.
macro_rules! numbers {
    ($op:expr, $chunks:ident, $T:ty, $neg:path, $add:path, $sub:path, $mul:path, $abs:path) => {
        in_table!($op, {
            Neg Short |a: $T| -> $T { $neg(a) };
            Add Short |a: $T, b: $T| -> $T { $add(a, b) };
            Sub Short |a: $T, b: $T| -> $T { $sub(a, b) };
            Mul $chunks |a: $T, b: $T| -> $T { $mul(a, b) };
            Abs $chunks |a: $T| -> $T { $abs(a) };
            Less Short |a: $T, b: $T| -> bool { a < b };
            LessEqual Short |a: $T, b: $T| -> bool { a <= b };
            Equal Short |a: $T, b: $T| -> bool { a == b };
            NotEqual Short |a: $T, b: $T| -> bool { a != b };
            Minimum $chunks |a: $T, b: $T| -> $T { merged::<Min<$T>>(a, b) };
            Maximum $chunks |a: $T, b: $T| -> $T { merged::<Max<$T>>(a, b) };
        } or None)
    };
}

/// Merges two values as the states of a reduction: `minimum` and `maximum` compute the same as `min` and `max`.
#[inline(always)]
fn merged<A: Accumulator>(mut a: A::State, b: A::State) -> A::State {
    A::merge(&mut a, &b);
    a
}

macro_rules! integers {
    ($name:ident, $T:ident, $chunks:ident) => {
        fn $name(op: Op) -> Option<Loop> {
            in_table!(op, {
                FloorDiv Scalar |a: $T, b: $T| -> $T {
                    if b == 0 { 0 } else { a.wrapping_div(b) - $T::from(goes_below!(a, b)) }
                };
                Mod Scalar |a: $T, b: $T| -> $T {
                    if b == 0 {
                        0
                    } else {
                        a.wrapping_rem(b) + if goes_below!(a, b) { b } else { 0 }
                    }
                };
                Sign Short |a: $T| -> $T { $T::from(a > 0) - $T::from(a < 0) };
                And Short |a: $T, b: $T| -> $T { a & b };
                Or Short |a: $T, b: $T| -> $T { a | b };
                Xor Short |a: $T, b: $T| -> $T { a ^ b };
                Shl $chunks |a: $T, b: $T| -> $T {
                    if (0..$T::BITS as $T).contains(&b) { a.wrapping_shl(b as u32) } else { 0 }
                };
                Shr $chunks |a: $T, b: $T| -> $T {
                    let most = $T::BITS as $T - 1;
                    a >> if (0..most).contains(&b) { b } else { most }
                };
            } or numbers!(
                op,
                $chunks,
                $T,
                $T::wrapping_neg,
                $T::wrapping_add,
                $T::wrapping_sub,
                $T::wrapping_mul,
                $T::wrapping_abs
            ))
        }
    };
}

/// True if the quotient's floor is below the quotient rounded toward zero.
macro_rules! goes_below {
    ($a:ident, $b:ident) => {
        ($a.wrapping_rem($b) != 0) & (($a < 0) != ($b < 0))
    };
}

integers!(of_i32, i32, Short);
integers!(of_i64, i64, Newest);

/// The loops of u64: the loops of i64, except where the sign matters. Programs contain no comparisons of u64.
fn of_u64(op: Op) -> Option<Loop> {
    in_table!(op, {
        FloorDiv Scalar |a: u64, b: u64| -> u64 { a.checked_div(b).unwrap_or(0) };
        Mod Scalar |a: u64, b: u64| -> u64 { a.checked_rem(b).unwrap_or(0) };
        Shr Newest |a: u64, b: u64| -> u64 { if b < 64 { a >> b } else { 0 } };
    } or of_i64(op))
}

/// The remainder with the sign of the divisor.
macro_rules! remainder {
    ($rest:expr, $b:ident) => {{
        let rest = $rest;
        let moved = if (rest < 0.0) != ($b < 0.0) { rest + $b } else { rest };
        if rest == 0.0 { rest.copysign($b) } else { moved }
    }};
}

macro_rules! floats {
    ($name:ident, $T:ident) => {
        fn $name(op: Op) -> Option<Loop> {
            use std::ops::{Add, Mul, Neg, Sub};
            /// All integers below it are floats.
            const LARGE: $T = (1_u64 << $T::MANTISSA_DIGITS) as $T;
            in_table!(op, {
                Div Short |a: $T, b: $T| -> $T { a / b };
                FloorDiv Long |a: $T, b: $T| -> $T {
                    let q = (a / b).floor();
                    let rest = if b.is_infinite() { a } else { (-q).mul_add(b, a) };
                    let is_above = (rest != 0.0) & ((rest < 0.0) != (b < 0.0));
                    if (q.abs() < LARGE) & is_above { q - 1.0 } else { q }
                };
                Mod Long |a: $T, b: $T| -> $T { remainder!(a % b, b) } usually {
                    // If the quotient was rounded up to q, the rest has the other sign, and is exact.
                    let q = (a / b).floor();
                    let result = remainder!((-q).mul_add(b, a), b);
                    let is_exact = (q.abs() < LARGE) & !b.is_infinite();
                    (result, !is_exact)
                };
                Fma Short |a: $T, b: $T, c: $T| -> $T { a.mul_add(b, c) };
                Sqrt Short |a: $T| -> $T { a.sqrt() };
                Sign Short |a: $T| -> $T {
                    if a > 0.0 {
                        1.0
                    } else if a < 0.0 {
                        -1.0
                    } else {
                        a + 0.0
                    }
                };
                Floor Short |a: $T| -> $T { a.floor() };
                Ceil Short |a: $T| -> $T { a.ceil() };
                Trunc Short |a: $T| -> $T { a.trunc() };
                Rint Short |a: $T| -> $T { a.round_ties_even() };
                Copysign Short |a: $T, b: $T| -> $T {
                    a.copysign(if b.is_nan() { 1.0 } else { b })
                };
            } or numbers!(op, Short, $T, $T::neg, $T::add, $T::sub, $T::mul, $T::abs))
        }
    };
}

floats!(of_f32, f32);
floats!(of_f64, f64);

fn of_bool(op: Op) -> Option<Loop> {
    in_table!(op, {
        And Short |a: bool, b: bool| -> bool { a & b };
        Or Short |a: bool, b: bool| -> bool { a | b };
        Xor Short |a: bool, b: bool| -> bool { a ^ b };
        Not Short |a: bool| -> bool { !a };
    } or None)
}

/// The loop of a formula for values of a type.
macro_rules! of_each_type {
    ($ty:expr, $loops:ident) => {
        match $ty {
            Type::Bool => $loops!(u8),
            Type::I32 => $loops!(i32),
            Type::I64 | Type::U64 => $loops!(i64),
            Type::F32 => $loops!(f32),
            Type::F64 => $loops!(f64),
        }
    };
}

fn choice(ty: Type) -> Loop {
    macro_rules! choice {
        ($T:ident) => {
            element_loop!(|a: bool, b: $T, c: $T| -> $T { if a { b } else { c } })
        };
    }
    of_each_type!(ty, choice)
}

/// `as`, in a form that the compiler vectorises.
macro_rules! saturated {
    ($a:ident as $Out:ident) => {{
        const LEAST: f32 = $Out::MIN as f32;
        let (is_less, is_more) = ($a < LEAST.into(), $a >= (-LEAST).into());
        let inside = if is_less | is_more | $a.is_nan() { 0.0 } else { $a };
        // SAFETY: the number is in the integer's range.
        let integer: $Out = unsafe { inside.to_int_unchecked() };
        if is_less {
            $Out::MIN
        } else if is_more {
            $Out::MAX
        } else {
            integer
        }
    }};
}

fn cast(from: Type, to: Type) -> Option<Loop> {
    macro_rules! casts {
        ($($chunks:ident $from:ident $A:ty => $to:ident $Out:ty, |$a:ident| $formula:block;)+) => {
            match (from, to) {
                (Type::I64, Type::U64) | (Type::U64, Type::I64) => Some(copy(to)),
                (Type::Bool | Type::I32, Type::U64) => cast(from, Type::I64),
                (Type::U64, Type::Bool | Type::I32) => cast(Type::I64, to),
                $((Type::$from, Type::$to) => {
                    Some(element_loop!($chunks, |$a: $A| -> $Out $formula))
                })+
                _ => None,
            }
        };
    }
    casts! {
        // A bool is a byte of 0 or 1.
        Short Bool u8 => I32 i32, |a| { a.into() };
        Short Bool u8 => I64 i64, |a| { a.into() };
        Short Bool u8 => F32 f32, |a| { a.into() };
        Short Bool u8 => F64 f64, |a| { a.into() };
        Short I32 i32 => Bool bool, |a| { a != 0 };
        Short I32 i32 => I64 i64, |a| { a.into() };
        Short I32 i32 => F32 f32, |a| { a as f32 };
        Short I32 i32 => F64 f64, |a| { a.into() };
        Short I64 i64 => Bool bool, |a| { a != 0 };
        Short I64 i64 => I32 i32, |a| { a as i32 };
        Newest I64 i64 => F32 f32, |a| { a as f32 };
        Newest I64 i64 => F64 f64, |a| { a as f64 };
        Newest U64 u64 => F32 f32, |a| { a as f32 };
        Newest U64 u64 => F64 f64, |a| { a as f64 };
        Scalar F64 f64 => U64 u64, |a| { a as u64 };
        Short F32 f32 => Bool bool, |a| { a != 0.0 };
        Short F32 f32 => I32 i32, |a| { saturated!(a as i32) };
        Newest F32 f32 => I64 i64, |a| { saturated!(a as i64) };
        Short F32 f32 => F64 f64, |a| { a.into() };
        Short F64 f64 => Bool bool, |a| { a != 0.0 };
        Short F64 f64 => I32 i32, |a| { saturated!(a as i32) };
        Newest F64 f64 => I64 i64, |a| { saturated!(a as i64) };
        Short F64 f64 => F32 f32, |a| { a as f32 };
    }
}

/// The loop that widens the elements of an array; `None` for types that are not widened.
pub(super) fn load(element: Element) -> Option<Loop> {
    match element {
        Element::Bool => Some(element_loop!(|a: u8| -> bool { a != 0 })),
        Element::U8 => Some(element_loop!(|a: u8| -> i32 { a.into() })),
        Element::I8 => Some(element_loop!(|a: i8| -> i32 { a.into() })),
        Element::U16 => Some(element_loop!(|a: u16| -> i32 { a.into() })),
        Element::I16 => Some(element_loop!(|a: i16| -> i32 { a.into() })),
        Element::U32 => Some(element_loop!(|a: u32| -> i64 { a.into() })),
        Element::F16 => Some(element_loop!(|a: u16| -> f32 { half::f32_of_f16(a) })),
        Element::Bf16 => Some(element_loop!(|a: u16| -> f32 { half::f32_of_bf16(a) })),
        Element::I32 | Element::I64 | Element::U64 | Element::F32 | Element::F64 => None,
    }
}

/// The loop that stores values as elements of an array.
pub(super) fn store(element: Element) -> Loop {
    match element {
        Element::F16 => element_loop!(|a: f32| -> u16 { half::f16_bits(a) }),
        Element::Bf16 => element_loop!(|a: f32| -> u16 { half::bf16_bits(a) }),
        _ => copy(element.widened()),
    }
}

/// The loop that copies values.
pub(super) fn copy(ty: Type) -> Loop {
    macro_rules! copy {
        ($T:ident) => {
            element_loop!(|a: $T| -> $T { a })
        };
    }
    of_each_type!(ty, copy)
}
