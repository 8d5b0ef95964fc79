//! Floats of 16 bits, which are computed as f32. bf16 is converted by integer arithmetic: instructions for it need
//! compute capability 8.0.

use crate::writer::{Class, Operand, Writer};
use gpuvec_expr::Element;
use gpuvec_expr::half::{BF16_NAN, F16_NAN};

/// The value of an f16 in the low bits.
pub(crate) fn f32_of_f16(writer: &Writer, bits: Operand) -> Operand {
    writer.emit("cvt.f32.f16", Class::F32, &[bits])
}

/// The value of a bf16 in the low bits.
pub(crate) fn f32_of_bf16(writer: &Writer, bits: Operand) -> Operand {
    let upper = writer.emit("shl.b32", Class::B32, &[bits, Operand::b32(16)]);
    writer.emit("mov.b32", Class::F32, &[upper])
}

/// The bits of the nearest f16, in the low half of the register; the upper half is undefined.
pub(crate) fn f16_bits(writer: &Writer, x: Operand) -> Operand {
    let x = writer.in_register(x);
    let bits = writer.emit("cvt.rn.f16.f32", Class::B32, &[x]);
    unless_nan(writer, x, F16_NAN, bits)
}

/// The bits of the nearest bf16.
pub(crate) fn bf16_bits(writer: &Writer, x: Operand) -> Operand {
    let bits = rounded_upper_half(writer, x);
    let bits = writer.emit("shr.u32", Class::B32, &[bits, Operand::b32(16)]);
    unless_nan(writer, x, BF16_NAN, bits)
}

/// The nearest f16, as an f32.
pub(crate) fn nearest_f16(writer: &Writer, x: Operand) -> Operand {
    let x = writer.in_register(x);
    f32_of_f16(writer, writer.emit("cvt.rn.f16.f32", Class::B32, &[x]))
}

/// The nearest bf16, as an f32.
pub(crate) fn nearest_bf16(writer: &Writer, x: Operand) -> Operand {
    let bits = rounded_upper_half(writer, x);
    let bits = writer.emit("and.b32", Class::B32, &[bits, Operand::b32(-1 << 16)]);
    let number = writer.emit("mov.b32", Class::F32, &[bits]);
    let is_nan = writer.emit("setp.nan.f32", Class::Predicate, &[x, x]);
    writer.emit("selp.f32", Class::F32, &[x, number, is_nan])
}

/// The f32 of an f64 toward zero, with the last bit set if it is not exact.
pub(crate) fn rounded_to_odd(writer: &Writer, x: Operand) -> Operand {
    let x = writer.in_register(x);
    let single = writer.emit("cvt.rz.f32.f64", Class::F32, &[x]);
    let back = writer.emit("cvt.f64.f32", Class::F64, &[single]);
    let is_inexact = writer.emit("setp.neu.f64", Class::Predicate, &[back, x]);
    let bits = writer.emit("mov.b32", Class::B32, &[single]);
    let odd = writer.emit("or.b32", Class::B32, &[bits, Operand::b32(1)]);
    let bits = writer.emit("selp.b32", Class::B32, &[odd, bits, is_inexact]);
    writer.emit("mov.b32", Class::F32, &[bits])
}

/// The bits of a number, with the upper half rounded to nearest, ties to even.
fn rounded_upper_half(writer: &Writer, x: Operand) -> Operand {
    let emit = |name, operands: &[Operand]| writer.emit(name, Class::B32, operands);
    let bits = emit("mov.b32", &[writer.in_register(x)]);
    let last = emit("shr.u32", &[bits, Operand::b32(16)]);
    let last = emit("and.b32", &[last, Operand::b32(1)]);
    let half = emit("add.s32", &[bits, Operand::b32(0x7FFF)]);
    emit("add.s32", &[half, last])
}

/// The bits of a number, or those of the quiet NaN if it is a NaN.
fn unless_nan(writer: &Writer, x: Operand, nan: u16, bits: Operand) -> Operand {
    let is_nan = writer.emit("setp.nan.f32", Class::Predicate, &[x, x]);
    writer.emit("selp.b32", Class::B32, &[Operand::b32(nan.into()), bits, is_nan])
}

/// Lines that round the bits of an f32 in the register %mv, with %mo and %mf free.
pub(crate) const fn lines(to: Element) -> &'static str {
    match to {
        Element::F16 => "mov.b32 %mf, %mv;\ncvt.rn.f16.f32 %mv, %mf;\n",
        _ => {
            "shr.u32 %mo, %mv, 16;\nand.b32 %mo, %mo, 1;\nadd.s32 %mv, %mv, 0x7FFF;\nadd.s32 %mv, %mv, %mo;\n\
             shr.u32 %mv, %mv, 16;\n"
        }
    }
}
