//! Floats of 16 bits, which are computed as f32. Integer arithmetic converts bf16, since instructions for bf16 need
//! compute capability 8.0.

use crate::writer::{Operand, Writer, ptx};
use gpuvec_expr::half::{BF16_NAN, F16_NAN};

/// The value of an f16 in the low bits.
pub(crate) fn f32_of_f16(w: &Writer<'_>, bits: Operand) -> Operand {
    ptx!(w, bits; "cvt.f32.f16 value, bits")
}

/// The value of a bf16 in the low bits.
pub(crate) fn f32_of_bf16(w: &Writer<'_>, bits: Operand) -> Operand {
    w.float_of(ptx!(w, bits; "shl.b32 upper, bits, 16"))
}

/// The bits of the nearest f16, in the low half of the register; the upper half is undefined.
pub(crate) fn f16_bits(w: &Writer<'_>, x: Operand) -> Operand {
    let x = w.in_register(x);
    unless_nan(w, x, F16_NAN, ptx!(w, x; "cvt.rn.f16.f32 bits, x"))
}

/// The bits of the nearest bf16.
pub(crate) fn bf16_bits(w: &Writer<'_>, x: Operand) -> Operand {
    let bits = rounded_upper_half(w, x);
    unless_nan(w, x, BF16_NAN, ptx!(w, bits; "shr.u32 half, bits, 16"))
}

/// The nearest f16, as an f32.
pub(crate) fn nearest_f16(w: &Writer<'_>, x: Operand) -> Operand {
    ptx!(w, x = w.in_register(x); "cvt.rn.f16.f32 bits, x; cvt.f32.f16 value, bits")
}

/// The nearest bf16, as an f32.
pub(crate) fn nearest_bf16(w: &Writer<'_>, x: Operand) -> Operand {
    let bits = rounded_upper_half(w, x);
    let number = w.float_of(ptx!(w, bits; "and.b32 upper, bits, 0xFFFF0000"));
    ptx!(w, x, number; "setp.nan.f32 is_nan, x, x; selp.f32 value, x, number, is_nan")
}

/// The f32 of an f64 rounded toward zero, with the last bit set if it is not exact.
pub(crate) fn rounded_to_odd(w: &Writer<'_>, x: Operand) -> Operand {
    let x = w.in_register(x);
    let bits = ptx!(w, x; "
        cvt.rz.f32.f64 single, x
        cvt.f64.f32 back, single
        setp.neu.f64 is_inexact, back, x
        mov.b32 bits, single
        or.b32 odd, bits, 1
        selp.b32 bits, odd, bits, is_inexact
    ");
    w.float_of(bits)
}

/// The bits of a number, with the upper half rounded to nearest, ties to even.
fn rounded_upper_half(w: &Writer<'_>, x: Operand) -> Operand {
    ptx!(w, x = w.in_register(x); "
        mov.b32 bits, x
        shr.u32 last, bits, 16
        and.b32 last, last, 1
        add.s32 half, bits, 0x7FFF
        add.s32 rounded, half, last
    ")
}

/// The bits of a number, or the bits of the quiet NaN for any NaN.
fn unless_nan(w: &Writer<'_>, x: Operand, nan: u16, bits: Operand) -> Operand {
    let nan = i32::from(nan);
    ptx!(w, x, nan, bits; "setp.nan.f32 is_nan, x, x; selp.b32 result, nan, bits, is_nan")
}
