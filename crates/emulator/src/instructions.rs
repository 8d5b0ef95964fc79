//! The results of the instructions, as the PTX ISA's reference defines them.

use gpuvec_oracle::half;

/// The NaN of 32 bits that arithmetic returns.
const NAN_32: u32 = 0xFFD1_2345;
/// The NaN of 64 bits that arithmetic returns.
const NAN_64: u64 = 0xFFFD_1234_5678_9ABC;
/// The result of an operation where the reference leaves it open.
const UNDEFINED: u64 = 0xDEAD_BEEF_DEAD_BEEF;

/// Bits as a value of a type, and back.
trait Bits: Copy {
    fn of_slot(bits: u64) -> Self;
    fn to_slot(self) -> u64;
}

macro_rules! bits {
    ($($ty:ty: |$bits:ident| $from:expr, |$value:ident| $into:expr;)*) => {
        $(impl Bits for $ty {
            fn of_slot($bits: u64) -> $ty {
                $from
            }

            fn to_slot(self) -> u64 {
                let $value = self;
                $into
            }
        })*
    };
}

bits! {
    bool: |x| x != 0, |x| x as u64;
    u32: |x| x as u32, |x| x as u64;
    i32: |x| x as i32, |x| x as u32 as u64;
    u64: |x| x, |x| x;
    i64: |x| x as i64, |x| x as u64;
    f32: |x| f32::from_bits(x as u32), |x| if x.is_nan() { NAN_32.into() } else { x.to_bits() as u64 };
    f64: |x| f64::from_bits(x), |x| if x.is_nan() { NAN_64 } else { x.to_bits() };
}

/// Computes a slot's value from three; those that an instruction lacks are anything.
pub(crate) type Compute = fn(u64, u64, u64) -> u64;

/// The types of PTX, by which the table names instructions.
#[allow(non_camel_case_types, reason = "PTX's own names")]
mod types {
    pub(super) type pred = bool;
    pub(super) type b32 = u32;
    pub(super) type b64 = u64;
    pub(super) type s32 = i32;
    pub(super) type s64 = i64;
}

/// Makes a function of a formula, for values of a type.
macro_rules! compute {
    ($ty:ident { $($formula:tt)+ }) => {
        compute!($ty, $($formula)+)
    };
    ($ty:ident, |$($x:ident),*| $value:expr) => {{
        fn compute(a: u64, b: u64, c: u64) -> u64 {
            let mut operands = [a, b, c].into_iter();
            $(let $x: $ty = Bits::of_slot(operands.next().unwrap_or_default());)*
            Bits::to_slot($value)
        }
        Some((compute as Compute, [$(stringify!($x)),*].len()))
    }};
}

/// Finds an instruction by its name, with the number of values that it computes from. A row of the table is for the types
/// of values that follow the beginning of its names.
pub(crate) fn find(name: &str) -> Option<(Compute, usize)> {
    use types::{b32, b64, pred, s32, s64};
    macro_rules! table {
        ($($known:literal $($ty:ident)+ => $formula:tt)*) => {
            $($(if name == concat!($known, stringify!($ty)) {
                return compute!($ty $formula);
            })+)*
        };
    }
    // These instructions work on bits, so that the payload of a NaN is kept.
    match name {
        "cvt.f32.f16" => return compute!(b32, |a| half::f32_of_f16(a as u16)),
        "mov.f32" => return compute!(b32, |a| a),
        "mov.f64" => return compute!(b64, |a| a),
        "copysign.f32" => return compute!(b32, |a, b| (a & 0x8000_0000) | (b & 0x7FFF_FFFF)),
        "copysign.f64" => return compute!(b64, |a, b| (a & (1 << 63)) | (b & !(1 << 63))),
        "selp.b32" => {
            return compute!(b64, |a, b, c| (if c != 0 { a } else { b }) & 0xFFFF_FFFF);
        }
        "selp.b64" | "selp.f32" | "selp.f64" => {
            return compute!(b64, |a, b, c| if c != 0 { a } else { b });
        }
        _ => {}
    }
    table! {
        "mov." b32 u32 b64 => { |a| a }
        "cvta.to.global." u64 => { |a| a }
        "cvt.u64." u32 => { |a| u64::from(a) }
        "cvt.u32." u64 => { |a| a as u32 }
        "cvt.s64." s32 => { |a| i64::from(a) }
        "cvt.f64." f32 => { |a| f64::from(a) }
        "cvt.rn.f32." f64 s32 s64 u64 => { |a| a as f32 }
        "cvt.rn.f64." s32 s64 u64 => { |a| a as f64 }
        "cvt.rz.f32." f64 => { |a| half::toward_zero(a) }
        "cvt.rn.f16." f32 => { |a| UNDEFINED as u32 & 0xFFFF_0000 | u32::from(if a.is_nan() { 0x7FFF } else { half::f16_bits(a) }) }
        "cvt.rzi.s32." f32 f64 => { |a| if a.is_nan() { UNDEFINED as i32 } else { a as i32 } }
        "cvt.rzi.s64." f32 f64 => { |a| if a.is_nan() { UNDEFINED as i64 } else { a as i64 } }
        "cvt.rzi.u64." f64 => { |a| if a.is_nan() { UNDEFINED } else { a as u64 } }
        "cvt.rmi.f32." f32 => { |a| a.floor() }
        "cvt.rmi.f64." f64 => { |a| a.floor() }
        "cvt.rpi.f32." f32 => { |a| a.ceil() }
        "cvt.rpi.f64." f64 => { |a| a.ceil() }
        "cvt.rzi.f32." f32 => { |a| a.trunc() }
        "cvt.rzi.f64." f64 => { |a| a.trunc() }
        "cvt.rni.f32." f32 => { |a| a.round_ties_even() }
        "cvt.rni.f64." f64 => { |a| a.round_ties_even() }

        "add." s32 s64 => { |a, b| a.wrapping_add(b) }
        "sub." s32 s64 => { |a, b| a.wrapping_sub(b) }
        "mul.lo." s32 s64 => { |a, b| a.wrapping_mul(b) }
        "mul.hi." u32 => { |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32 }
        "mul.wide." s32 => { |a, b| i64::from(a) * i64::from(b) }
        "mul.wide." u32 => { |a, b| u64::from(a) * u64::from(b) }
        "div." s32 => { |a, b| a.checked_div(b).unwrap_or(UNDEFINED as i32) }
        "div." s64 => { |a, b| a.checked_div(b).unwrap_or(UNDEFINED as i64) }
        "div." u64 => { |a, b| a.checked_div(b).unwrap_or(UNDEFINED) }
        "neg." s32 s64 => { |a| a.wrapping_neg() }
        "min." s32 s64 u64 => { |a, b| a.min(b) }
        "max." s32 s64 => { |a, b| a.max(b) }
        "and." b32 b64 pred => { |a, b| a & b }
        "or." b32 b64 pred => { |a, b| a | b }
        "xor." b32 b64 pred => { |a, b| a ^ b }
        "not." pred => { |a| !a }
        "bfind." u32 => { |a| a.checked_ilog2().unwrap_or(u32::MAX) }
        "shl." b32 b64 => { |a, b| a.checked_shl(b as u32).unwrap_or(0) }
        "shr." u32 u64 => { |a, b| a.checked_shr(b as u32).unwrap_or(0) }
        "shr." s32 => { |a, b| a >> (b as u32).min(31) }
        "shr." s64 => { |a, b| a >> (b as u32).min(63) }

        "add.rn." f32 f64 => { |a, b| a + b }
        "sub.rn." f32 f64 => { |a, b| a - b }
        "mul.rn." f32 f64 => { |a, b| a * b }
        "div.rn." f32 f64 => { |a, b| a / b }
        "fma.rn." f32 f64 => { |a, b, c| a.mul_add(b, c) }
        "sqrt.rn." f32 f64 => { |a| a.sqrt() }
        "rcp.approx.ftz." f32 => { |a| without_subnormals(almost(1.0 / without_subnormals(a))) }
        "rcp.approx.ftz." f64 => { |a| of_upper_half(1.0 / of_upper_half(a)) }
        "rsqrt.approx.ftz." f32 => { |a| almost(1.0 / without_subnormals(a).sqrt()) }
        "neg." f32 f64 => { |a| -a }
        "abs." f32 f64 => { |a| a.abs() }
        "min." f32 f64 => { |a, b| if is_below(a, b) || b.is_nan() { a } else { b } }
        "max." f32 f64 => { |a, b| if is_below(b, a) || b.is_nan() { a } else { b } }

        "setp.lt." s32 s64 u64 f32 f64 => { |a, b| a < b }
        "setp.le." s32 s64 f32 f64 => { |a, b| a <= b }
        "setp.ge." s32 u64 => { |a, b| a >= b }
        "setp.gt." s64 f64 => { |a, b| a > b }
        "setp.eq." s32 s64 f32 f64 => { |a, b| a == b }
        "setp.ne." s32 s64 => { |a, b| a != b }
        "setp.ne." f32 => { |a, b| a != b && !a.is_nan() && !b.is_nan() }
        "setp.neu." f32 f64 => { |a, b| a != b }
        "setp.nan." f32 f64 => { |a, b| a.is_nan() || b.is_nan() }
    }
    None
}

/// A number with the greatest error of an approximation, nearly 2^-22.
fn almost(x: f32) -> f32 {
    x.mul_add(f32::from_bits(0x347f_0000), x)
}

/// A number as its encoding's upper half has it.
fn of_upper_half(x: f64) -> f64 {
    f64::from_bits(x.to_bits() >> 32 << 32)
}

/// Zero for a subnormal number.
fn without_subnormals(x: f32) -> f32 {
    if x.is_subnormal() { 0.0f32.copysign(x) } else { x }
}

/// Orders -0 before +0.
fn is_below<T: Into<f64>>(a: T, b: T) -> bool {
    let [a, b]: [f64; 2] = [a, b].map(Into::into);
    a < b || (a == b && a.is_sign_negative() && b.is_sign_positive())
}
