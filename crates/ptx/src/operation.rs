//! Operations on values in registers, as instructions.

use crate::function::function;
use crate::halves;
use crate::writer::{Class, Operand, Writer, ptx};
use gpuvec_expr::{Node, Op, Program, Type};

/// The opcode of an operation that is one instruction, for operands of a type.
fn opcode(op: Op, ty: Type) -> Option<&'static str> {
    // For bools, i32, i64 or u64, f32 and f64.
    let [bools, i32s, i64s, f32s, f64s] = match op {
        Op::Neg => ["", "neg.s32", "neg.s64", "neg.f32", "neg.f64"],
        Op::Add => ["", "add.s32", "add.s64", "add.rn.f32", "add.rn.f64"],
        Op::Sub => ["", "sub.s32", "sub.s64", "sub.rn.f32", "sub.rn.f64"],
        Op::Mul => ["", "mul.lo.s32", "mul.lo.s64", "mul.rn.f32", "mul.rn.f64"],
        Op::Div => ["", "", "", "div.rn.f32", "div.rn.f64"],
        Op::Less => ["", "setp.lt.s32", "setp.lt.s64", "setp.lt.f32", "setp.lt.f64"],
        Op::LessEqual => ["", "setp.le.s32", "setp.le.s64", "setp.le.f32", "setp.le.f64"],
        Op::Equal => ["", "setp.eq.s32", "setp.eq.s64", "setp.eq.f32", "setp.eq.f64"],
        Op::NotEqual => ["", "setp.ne.s32", "setp.ne.s64", "setp.neu.f32", "setp.neu.f64"],
        Op::And => ["and.pred", "and.b32", "and.b64", "", ""],
        Op::Or => ["or.pred", "or.b32", "or.b64", "", ""],
        Op::Xor => ["xor.pred", "xor.b32", "xor.b64", "", ""],
        // A count is unsigned, and one above 31 shifts all bits out. So do negative counts.
        Op::Shl => ["", "shl.b32", "", "", ""],
        Op::Shr => ["", "shr.s32", "", "", ""],
        Op::Not => ["not.pred", "", "", "", ""],
        Op::Fma => ["", "", "", "fma.rn.f32", "fma.rn.f64"],
        Op::Sqrt => ["", "", "", "sqrt.rn.f32", "sqrt.rn.f64"],
        Op::Abs => ["", "", "", "abs.f32", "abs.f64"],
        Op::Minimum => ["", "min.s32", "min.s64", "", ""],
        Op::Maximum => ["", "max.s32", "max.s64", "", ""],
        Op::Floor => ["", "", "", "cvt.rmi.f32.f32", "cvt.rmi.f64.f64"],
        Op::Ceil => ["", "", "", "cvt.rpi.f32.f32", "cvt.rpi.f64.f64"],
        Op::Trunc => ["", "", "", "cvt.rzi.f32.f32", "cvt.rzi.f64.f64"],
        Op::Rint => ["", "", "", "cvt.rni.f32.f32", "cvt.rni.f64.f64"],
        _ => return None,
    };
    let opcode = match ty {
        Type::Bool => bools,
        Type::I32 => i32s,
        Type::I64 | Type::U64 => i64s,
        Type::F32 => f32s,
        Type::F64 => f64s,
    };
    Some(opcode).filter(|opcode| !opcode.is_empty())
}

/// The type of a node's last operand.
pub(crate) fn operand_type(program: &Program, node: &Node) -> Type {
    node.operands().last().map_or(node.ty, |&id| program.nodes()[usize::from(id)].ty)
}

/// Writes an operation on values, with a result of type `to`; `last` is the type of the last value.
pub(crate) fn apply(w: &Writer<'_>, op: Op, last: Type, to: Type, values: &[Operand]) -> Operand {
    if let Some(opcode) = opcode(op, last) {
        return w.instruction(opcode, values);
    }
    let ty = last;
    match (op, values) {
        (Op::Cast, &[x]) => cast(w, x, last, to),
        (Op::Where, &[condition, a, b]) => select(w, to, condition, a, b),
        (Op::Shl | Op::Shr, &[a, count]) => {
            let shift = match (op, last) {
                (Op::Shl, _) => {
                    "min.u64 most, count, 64; cvt.u32.u64 n, most; shl.b64 shifted, a, n"
                }
                (_, Type::U64) => {
                    "min.u64 most, count, 64; cvt.u32.u64 n, most; shr.u64 shifted, a, n"
                }
                _ => "min.u64 most, count, 64; cvt.u32.u64 n, most; shr.s64 shifted, a, n",
            };
            ptx!(w, a, count; shift)
        }
        (Op::RoundOdd, &[x]) => halves::rounded_to_odd(w, x),
        (Op::RoundF16, &[x]) => halves::nearest_f16(w, x),
        (Op::RoundBf16, &[x]) => halves::nearest_bf16(w, x),
        (Op::FloorDiv, &[a, b]) if last == Type::U64 => divide_unsigned(w, a, b).0,
        (Op::Mod, &[a, b]) if last == Type::U64 => divide_unsigned(w, a, b).1,
        (Op::FloorDiv, &[a, b]) if last.is_integer() => divide(w, last, a, b).0,
        (Op::Mod, &[a, b]) if last.is_integer() => divide(w, last, a, b).1,
        (Op::FloorDiv, &[a, b]) => float_floor_div(w, last, a, b),
        (Op::Mod, &[a, b]) => float_mod(w, last, a, b),
        (Op::Abs, &[x]) => ptx!(w, x, ty; "neg.T negative, x; max.T size, x, negative"),
        (Op::Sign, &[x]) => sign(w, last, x),
        // The instruction orders zeros, too. Of a NaN and a number it returns the number, but the result is NaN.
        (Op::Minimum, &[a, b]) => unless_nan(w, last, a, b, ptx!(w, a, b, ty; "min.T least, a, b")),
        (Op::Maximum, &[a, b]) => unless_nan(w, last, a, b, ptx!(w, a, b, ty; "max.T most, a, b")),
        (Op::Copysign, &[a, b]) => {
            ptx!(w, a, b = canonical(w, last, b), ty; "copysign.T signed, b, a")
        }
        _ => function(w, last, op, values),
    }
}

/// Replaces a NaN by the quiet one.
pub(crate) fn canonical(w: &Writer<'_>, ty: Type, x: Operand) -> Operand {
    if matches!(ty, Type::F32 | Type::F64) { unless_nan(w, ty, x, x, x) } else { x }
}

/// The number, or the quiet NaN if `a` or `b` is NaN.
fn unless_nan(w: &Writer<'_>, ty: Type, a: Operand, b: Operand, number: Operand) -> Operand {
    let lines = "setp.nan.T is_nan, a, b; selp.B result, nan, number, is_nan";
    ptx!(w, a, b, number, nan = quiet_nan(ty), ty; lines)
}

pub(crate) fn quiet_nan(ty: Type) -> Operand {
    constant(ty, f64::NAN)
}

/// A constant of a type of numbers, whose value is exact in it.
pub(crate) fn constant(ty: Type, value: f64) -> Operand {
    match ty {
        Type::F32 => Operand::from(value as f32),
        Type::F64 => Operand::from(value),
        Type::I32 => Operand::from(value as i32),
        _ => Operand::from(value as i64),
    }
}

/// Selects `a` where a condition holds, else `b`.
fn select(w: &Writer<'_>, ty: Type, condition: Operand, a: Operand, b: Operand) -> Operand {
    let lines = match ty {
        // `selp` does not select predicates.
        Type::Bool => {
            "and.pred first, a, condition; not.pred not, condition
             and.pred second, b, not; or.pred selected, first, second"
        }
        _ => "selp.B selected, a, b, condition",
    };
    ptx!(w, a, b, condition, ty; lines)
}

/// The sign of a number: -1, 0, 1 or NaN.
fn sign(w: &Writer<'_>, ty: Type, x: Operand) -> Operand {
    let [zero, one, minus_one] = [0.0, 1.0, -1.0].map(|value| constant(ty, value));
    let sign = ptx!(w, x, zero, one, minus_one, ty; "
        setp.lt.T is_negative, x, zero
        setp.lt.T is_positive, zero, x
        selp.B sign, minus_one, zero, is_negative
        selp.B sign, one, sign, is_positive
    ");
    if ty.is_integer() { sign } else { unless_nan(w, ty, x, x, sign) }
}

/// The quotient of signed integers, rounded toward minus infinity, and the remainder. Both are 0 if the divisor is 0.
///
/// The least integer divided by -1 overflows: -a is divided by 1 instead.
fn divide(w: &Writer<'_>, ty: Type, a: Operand, b: Operand) -> (Operand, Operand) {
    let (floor, minus_one) = (w.register(Class::of(ty)), constant(ty, -1.0));
    let remainder = ptx!(w, a, b, floor, minus_one, ty; "
        setp.eq.T is_minus_one, b, minus_one
        setp.eq.T is_zero, b, 0
        neg.T negative, a
        selp.B dividend, negative, a, is_minus_one
        or.pred by_one, is_minus_one, is_zero
        selp.B divisor, 1, b, by_one
        div.T quotient, dividend, divisor
        mul.lo.T product, quotient, divisor
        sub.T remainder, dividend, product
        setp.ne.T is_inexact, remainder, 0
        xor.B signs, remainder, divisor
        setp.lt.T is_opposite, signs, 0
        and.pred is_below, is_inexact, is_opposite
        selp.B down, minus_one, 0, is_below
        add.T rounded, quotient, down
        selp.B floor, 0, rounded, is_zero
        selp.B up, divisor, 0, is_below
        add.T remainder, remainder, up
    ");
    (floor, remainder)
}

/// The quotient of unsigned integers, and the remainder. Both are 0 if the divisor is 0.
fn divide_unsigned(w: &Writer<'_>, a: Operand, b: Operand) -> (Operand, Operand) {
    let quotient = w.register(Class::B64);
    let remainder = ptx!(w, a, b, quotient; "
        setp.eq.s64 is_zero, b, 0
        selp.b64 dividend, 0, a, is_zero
        selp.b64 divisor, 1, b, is_zero
        div.u64 quotient, dividend, divisor
        mul.lo.s64 product, quotient, divisor
        sub.s64 remainder, dividend, product
    ");
    (quotient, remainder)
}

fn cast(w: &Writer<'_>, x: Operand, from: Type, to: Type) -> Operand {
    use Type::{Bool, F32, F64, I32, I64, U64};
    let opcode = match (from, to) {
        (Bool, _) => return select(w, to, x, constant(to, 1.0), constant(to, 0.0)),
        (_, Bool) => {
            let opcode = opcode(Op::NotEqual, from).unwrap_or_default();
            return w.instruction(opcode, &[x, constant(from, 0.0)]);
        }
        (F32, I32) => "cvt.rzi.s32.f32",
        (F32, I64) => "cvt.rzi.s64.f32",
        (F64, I32) => "cvt.rzi.s32.f64",
        (F64, I64) => "cvt.rzi.s64.f64",
        (F32 | F64, U64) => "cvt.rzi.u64.f64",
        (I32, I64 | U64) => "cvt.s64.s32",
        (I64 | U64, I32) => "cvt.u32.u64",
        (I32, F32) => "cvt.rn.f32.s32",
        (I32, F64) => "cvt.rn.f64.s32",
        (I64, F32) => "cvt.rn.f32.s64",
        (I64, F64) => "cvt.rn.f64.s64",
        (U64, F32) => "cvt.rn.f32.u64",
        (U64, F64) => "cvt.rn.f64.u64",
        (F32, F64) => "cvt.f64.f32",
        (F64, F32) => "cvt.rn.f32.f64",
        (I32, I32) | (I64 | U64, I64 | U64) | (F32, F32) | (F64, F64) => return x,
    };
    if from.is_integer() || !to.is_integer() {
        return w.instruction(opcode, &[x]);
    }
    // NaN becomes 0: the instruction's result depends on the types.
    let is_nan = ptx!(w, x, ty = from; "setp.nan.T is_nan, x, x");
    let number = w.instruction(opcode, &[x]);
    ptx!(
        w, zero = constant(to, 0.0), number, is_nan, ty = to;
        "selp.B result, zero, number, is_nan"
    )
}

/// A predicate: true if exactly one of two numbers is negative.
fn opposite(w: &Writer<'_>, ty: Type, a: Operand, b: Operand) -> Operand {
    let lines =
        "setp.lt.T first, a, zero; setp.lt.T second, b, zero; xor.pred opposite, first, second";
    ptx!(w, a, b, zero = constant(ty, 0.0), ty; lines)
}

/// The quotient of floats, rounded toward minus infinity (crates/expr/src/table.rs).
fn float_floor_div(w: &Writer<'_>, ty: Type, a: Operand, b: Operand) -> Operand {
    // Quotients below it have a bit for halves.
    let large = constant(ty, if ty == Type::F32 { 2_f64.powi(24) } else { 2_f64.powi(53) });
    let lines = match ty {
        Type::F32 => "div.rn.f32 quotient, a, b; cvt.rmi.f32.f32 down, quotient",
        _ => "div.rn.f64 quotient, a, b; cvt.rmi.f64.f64 down, quotient",
    };
    let down = ptx!(w, a, b; lines);
    let rest = ptx!(w, a, b, down, infinity = constant(ty, f64::INFINITY), ty; "
        neg.T negative, down
        fma.rn.T rest, negative, b, a
        abs.T size, b
        setp.eq.T is_infinite, size, infinity
        selp.B rest, a, rest, is_infinite
    ");
    let is_inexact =
        ptx!(w, rest, zero = constant(ty, 0.0), ty; "setp.neu.T is_inexact, rest, zero");
    ptx!(
        w, down, large, is_inexact, opposite = opposite(w, ty, rest, b), one = constant(ty, 1.0),
        ty; "
        abs.T size, down
        setp.lt.T is_small, size, large
        and.pred is_above, is_inexact, opposite
        and.pred is_above, is_above, is_small
        sub.rn.T below, down, one
        selp.B floor, below, down, is_above
    ")
}

/// The remainder of floats with the sign of the divisor (crates/expr/src/table.rs).
fn float_mod(w: &Writer<'_>, ty: Type, a: Operand, b: Operand) -> Operand {
    let rest = match ty {
        // The remainder of two f32 is an f32, too.
        Type::F32 => {
            let [a, b] = [a, b].map(|x| cast(w, x, ty, Type::F64));
            cast(w, remainder(w, a, b), Type::F64, ty)
        }
        _ => remainder(w, a, b),
    };
    let is_zero = ptx!(w, rest, zero = constant(ty, 0.0), ty; "setp.eq.T is_zero, rest, zero");
    let signed = ptx!(w, b, rest, ty; "copysign.T signed, b, rest");
    ptx!(w, rest, b, opposite = opposite(w, ty, rest, b), signed, is_zero, ty; "
        add.rn.T sum, rest, b
        selp.B moved, sum, rest, opposite
        selp.B result, signed, moved, is_zero
    ")
}

/// The exact remainder of a / b rounded toward zero, with the sign of a: C's `fmod`.
///
/// A long division with digits of 52 bits: it subtracts the divisor, times powers of 2^52, as often as the quotient
/// says. The loops end for the operands without a remainder, since they compute with others. A quotient that was rounded up subtracts the divisor once too often, and the divisor is added again.
fn remainder(w: &Writer<'_>, a: Operand, b: Operand) -> Operand {
    let [zero, one, infinity, nan] = [0.0, 1.0, f64::INFINITY, f64::NAN].map(Operand::from);
    let [digit, inverse] = [52, -52].map(|exponent| Operand::from(2_f64.powi(exponent)));
    let [rest, scaled, next] = [(); 3].map(|()| w.register(Class::F64));
    ptx!(w, a, b, rest, scaled, next, digit, inverse, zero, one, infinity, nan; "
        abs.f64 size, a
        abs.f64 divisor, b
        setp.lt.f64 is_finite, size, infinity
        setp.lt.f64 has_quotient, divisor, infinity
        setp.lt.f64 is_positive, zero, divisor
        and.pred divides, has_quotient, is_positive
        selp.f64 size, size, zero, is_finite
        selp.f64 divisor, divisor, one, divides
        mov.f64 rest, size
        mov.f64 scaled, divisor
        up:
        mul.rn.f64 next, scaled, digit
        setp.lt.f64 is_above, rest, next
        @is_above bra down
        mov.f64 scaled, next
        setp.eq.s32 always, 0, 0
        @always bra up
        down:
        div.rn.f64 quotient, rest, scaled
        cvt.rzi.f64.f64 whole, quotient
        neg.f64 negative, whole
        fma.rn.f64 rest, negative, scaled, rest
        setp.lt.f64 is_negative, rest, zero
        add.rn.f64 put_right, rest, scaled
        selp.f64 rest, put_right, rest, is_negative
        setp.le.f64 is_last, scaled, divisor
        mul.rn.f64 scaled, scaled, inverse
        @is_last bra end
        @always bra down
        end:
        copysign.f64 signed, a, rest
        and.pred is_known, is_finite, divides
        selp.f64 result, signed, nan, is_known
        abs.f64 size, b
        setp.eq.f64 by_infinity, size, infinity
        and.pred is_a, is_finite, by_infinity
        selp.f64 result, a, result, is_a
    ")
}
