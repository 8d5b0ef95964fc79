//! Operations on values in registers, as instructions.

use crate::function::function;
use crate::halves;
use crate::writer::{Class, Operand, Writer};
use gpuvec_expr::{Node, Op, Program, Type};

/// The name of an instruction for a type: for bools, i32, i64 or u64, f32 and f64.
fn named(ty: Type, names: [&'static str; 5]) -> &'static str {
    match ty {
        Type::Bool => names[0],
        Type::I32 => names[1],
        Type::I64 | Type::U64 => names[2],
        Type::F32 => names[3],
        Type::F64 => names[4],
    }
}

/// The instruction of an operation that is one, for operands of a type.
fn instruction(op: Op, ty: Type) -> Option<&'static str> {
    let names = match op {
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
        // Larger counts, as which negative ones are read, are those of all bits.
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
    Some(named(ty, names)).filter(|name| !name.is_empty())
}

/// The type of a node's last operand.
pub(crate) fn operand_type(program: &Program, node: &Node) -> Type {
    node.operands().last().map_or(node.ty, |&id| program.nodes()[usize::from(id)].ty)
}

/// Writes an operation on values, with a result of type `to`; `last` is the type of the last value.
pub(crate) fn apply(writer: &Writer, op: Op, last: Type, to: Type, values: &[Operand]) -> Operand {
    let class = Class::of(to);
    if let Some(name) = instruction(op, last) {
        return writer.emit(name, class, values);
    }
    match (op, values) {
        (Op::Cast, &[x]) => cast(writer, x, last, to),
        (Op::Where, &[condition, a, b]) => select(writer, to, condition, a, b),
        (Op::Shl | Op::Shr, &[a, b]) => {
            let count = writer.emit("min.u64", Class::B64, &[b, Operand::b64(64)]);
            let count = writer.emit("cvt.u32.u64", Class::B32, &[count]);
            let name = match (op, last) {
                (Op::Shl, _) => "shl.b64",
                (_, Type::U64) => "shr.u64",
                _ => "shr.s64",
            };
            writer.emit(name, class, &[a, count])
        }
        (Op::RoundOdd, &[x]) => halves::rounded_to_odd(writer, x),
        (Op::RoundF16, &[x]) => halves::nearest_f16(writer, x),
        (Op::RoundBf16, &[x]) => halves::nearest_bf16(writer, x),
        (Op::FloorDiv, &[a, b]) if last == Type::U64 => divide_unsigned(writer, a, b).0,
        (Op::Mod, &[a, b]) if last == Type::U64 => divide_unsigned(writer, a, b).1,
        (Op::FloorDiv, &[a, b]) if last.is_integer() => divide(writer, last, a, b).0,
        (Op::Mod, &[a, b]) if last.is_integer() => divide(writer, last, a, b).1,
        (Op::FloorDiv, &[a, b]) => float_floor_div(writer, last, a, b),
        (Op::Mod, &[a, b]) => float_mod(writer, last, a, b),
        (Op::Abs, &[x]) => {
            let negative =
                writer.emit(named(last, ["", "neg.s32", "neg.s64", "", ""]), class, &[x]);
            writer.emit(named(last, ["", "max.s32", "max.s64", "", ""]), class, &[x, negative])
        }
        (Op::Sign, &[x]) => sign(writer, last, x),
        (Op::Minimum | Op::Maximum, &[a, b]) => {
            let name = match op {
                Op::Minimum => named(last, ["", "", "", "min.f32", "min.f64"]),
                _ => named(last, ["", "", "", "max.f32", "max.f64"]),
            };
            // The instruction orders the zeros, and returns the other operand for a NaN; here NaN wins.
            let number = writer.emit(name, class, &[a, b]);
            unless_nan(writer, last, a, b, number)
        }
        (Op::Copysign, &[a, b]) => {
            let b = canonical(writer, last, b);
            let name = named(last, ["", "", "", "copysign.f32", "copysign.f64"]);
            writer.emit(name, class, &[b, a])
        }
        _ => function(writer, last, op, values),
    }
}

/// Replaces a NaN by the quiet one.
pub(crate) fn canonical(writer: &Writer, ty: Type, x: Operand) -> Operand {
    if matches!(ty, Type::F32 | Type::F64) { unless_nan(writer, ty, x, x, x) } else { x }
}

/// The number, or the quiet NaN if `a` or `b` is NaN.
fn unless_nan(writer: &Writer, ty: Type, a: Operand, b: Operand, number: Operand) -> Operand {
    let test = named(ty, ["", "", "", "setp.nan.f32", "setp.nan.f64"]);
    let is_nan = writer.emit(test, Class::Predicate, &[a, b]);
    select(writer, ty, is_nan, quiet_nan(ty), number)
}

pub(crate) fn quiet_nan(ty: Type) -> Operand {
    float(ty, f64::NAN)
}

/// A constant whose value is exact in the type.
fn float(ty: Type, value: f64) -> Operand {
    if ty == Type::F32 { Operand::f32(value as f32) } else { Operand::f64(value) }
}

/// An integer constant.
fn integer(ty: Type, value: i32) -> Operand {
    if ty == Type::I32 { Operand::b32(value) } else { Operand::b64(value.into()) }
}

/// The number 0.
fn zero(ty: Type) -> Operand {
    if ty.is_integer() { integer(ty, 0) } else { float(ty, 0.0) }
}

fn select(writer: &Writer, ty: Type, condition: Operand, a: Operand, b: Operand) -> Operand {
    let class = Class::of(ty);
    if ty != Type::Bool {
        let name = named(ty, ["", "selp.b32", "selp.b64", "selp.f32", "selp.f64"]);
        return writer.emit(name, class, &[a, b, condition]);
    }
    let a = writer.emit("and.pred", class, &[a, condition]);
    let not = writer.emit("not.pred", class, &[condition]);
    let b = writer.emit("and.pred", class, &[b, not]);
    writer.emit("or.pred", class, &[a, b])
}

/// A float's sign.
fn sign(writer: &Writer, ty: Type, x: Operand) -> Operand {
    let (one, minus_one) = match ty {
        Type::F32 | Type::F64 => (float(ty, 1.0), float(ty, -1.0)),
        _ => (integer(ty, 1), integer(ty, -1)),
    };
    let test = |op, x: [Operand; 2]| {
        let name = instruction(op, ty).unwrap_or_default();
        writer.emit(name, Class::Predicate, &x)
    };
    let is_negative = test(Op::Less, [x, zero(ty)]);
    let is_positive = test(Op::Less, [zero(ty), x]);
    let signed = select(writer, ty, is_negative, minus_one, zero(ty));
    let result = select(writer, ty, is_positive, one, signed);
    if ty.is_integer() { result } else { unless_nan(writer, ty, x, x, result) }
}

/// The quotient of integers, rounded toward minus infinity, and the remainder; both are 0 for the
/// divisor 0.
fn divide(writer: &Writer, ty: Type, a: Operand, b: Operand) -> (Operand, Operand) {
    let class = Class::of(ty);
    let emit = |names: [&'static str; 2], operands: &[Operand]| {
        writer.emit(names[usize::from(ty == Type::I64)], class, operands)
    };
    let test = |names: [&'static str; 2], operands: &[Operand]| {
        writer.emit(names[usize::from(ty == Type::I64)], Class::Predicate, operands)
    };
    let (nought, one, minus_one) = (integer(ty, 0), integer(ty, 1), integer(ty, -1));
    // By -1 the least integer overflows: -a is divided by 1 instead.
    let is_minus_one = test(["setp.eq.s32", "setp.eq.s64"], &[b, minus_one]);
    let is_zero = test(["setp.eq.s32", "setp.eq.s64"], &[b, nought]);
    let negative = emit(["neg.s32", "neg.s64"], &[a]);
    let dividend = select(writer, ty, is_minus_one, negative, a);
    let by_one = writer.emit("or.pred", Class::Predicate, &[is_minus_one, is_zero]);
    let divisor = select(writer, ty, by_one, one, b);
    let quotient = emit(["div.s32", "div.s64"], &[dividend, divisor]);
    let product = emit(["mul.lo.s32", "mul.lo.s64"], &[quotient, divisor]);
    let remainder = emit(["sub.s32", "sub.s64"], &[dividend, product]);
    let inexact = test(["setp.ne.s32", "setp.ne.s64"], &[remainder, nought]);
    let signs = emit(["xor.b32", "xor.b64"], &[remainder, divisor]);
    let opposite = test(["setp.lt.s32", "setp.lt.s64"], &[signs, nought]);
    let below = writer.emit("and.pred", Class::Predicate, &[inexact, opposite]);
    let down = select(writer, ty, below, minus_one, nought);
    let quotient = emit(["add.s32", "add.s64"], &[quotient, down]);
    let quotient = select(writer, ty, is_zero, nought, quotient);
    let up = select(writer, ty, below, divisor, nought);
    (quotient, emit(["add.s32", "add.s64"], &[remainder, up]))
}

/// The quotient of integers of u64, and the remainder; both are 0 for the divisor 0.
fn divide_unsigned(writer: &Writer, a: Operand, b: Operand) -> (Operand, Operand) {
    let emit = |name, operands: &[Operand]| writer.emit(name, Class::B64, operands);
    let [zero, one] = [0, 1].map(Operand::b64);
    let is_zero = writer.emit("setp.eq.s64", Class::Predicate, &[b, zero]);
    let dividend = emit("selp.b64", &[zero, a, is_zero]);
    let divisor = emit("selp.b64", &[one, b, is_zero]);
    let quotient = emit("div.u64", &[dividend, divisor]);
    let product = emit("mul.lo.s64", &[quotient, divisor]);
    (quotient, emit("sub.s64", &[dividend, product]))
}

fn cast(writer: &Writer, x: Operand, from: Type, to: Type) -> Operand {
    use Type::{Bool, F32, F64, I32, I64, U64};
    let class = Class::of(to);
    let name = match (from, to) {
        (Bool, _) => {
            let one = if to.is_integer() { integer(to, 1) } else { float(to, 1.0) };
            return select(writer, to, x, one, zero(to));
        }
        (_, Bool) => {
            let test = instruction(Op::NotEqual, from).unwrap_or_default();
            return writer.emit(test, class, &[x, zero(from)]);
        }
        // NaN to 0: what the instruction makes of it depends on the types.
        (F32 | F64, I32 | I64 | U64) => {
            let name = match (from, to) {
                (_, U64) => "cvt.rzi.u64.f64",
                (F32, I32) => "cvt.rzi.s32.f32",
                (F32, _) => "cvt.rzi.s64.f32",
                (_, I32) => "cvt.rzi.s32.f64",
                _ => "cvt.rzi.s64.f64",
            };
            let test = named(from, ["", "", "", "setp.nan.f32", "setp.nan.f64"]);
            let is_nan = writer.emit(test, Class::Predicate, &[x, x]);
            let number = writer.emit(name, class, &[x]);
            return select(writer, to, is_nan, zero(to), number);
        }
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
    writer.emit(name, class, &[x])
}

/// The quotient of floats, rounded toward minus infinity (crates/expr/src/table.rs).
fn float_floor_div(writer: &Writer, ty: Type, a: Operand, b: Operand) -> Operand {
    let class = Class::of(ty);
    let float_op =
        |names, operands: &[Operand]| writer.emit(named_float(ty, names), class, operands);
    let test = |names, operands: &[Operand]| {
        writer.emit(named_float(ty, names), Class::Predicate, operands)
    };
    let nought = zero(ty);
    // Quotients below it have a bit for halves.
    let large = float(ty, if ty == Type::F32 { 2_f64.powi(24) } else { 2_f64.powi(53) });
    let quotient = float_op(["div.rn.f32", "div.rn.f64"], &[a, b]);
    let down = float_op(["cvt.rmi.f32.f32", "cvt.rmi.f64.f64"], &[quotient]);
    let negative = float_op(["neg.f32", "neg.f64"], &[down]);
    let rest = float_op(["fma.rn.f32", "fma.rn.f64"], &[negative, b, a]);
    let magnitude = float_op(["abs.f32", "abs.f64"], &[b]);
    let b_is_infinite =
        test(["setp.eq.f32", "setp.eq.f64"], &[magnitude, float(ty, f64::INFINITY)]);
    let rest = select(writer, ty, b_is_infinite, a, rest);
    let inexact = test(["setp.neu.f32", "setp.neu.f64"], &[rest, nought]);
    let opposite = opposite(writer, ty, rest, b);
    let size = float_op(["abs.f32", "abs.f64"], &[down]);
    let is_small = test(["setp.lt.f32", "setp.lt.f64"], &[size, large]);
    let is_above = writer.emit("and.pred", Class::Predicate, &[inexact, opposite]);
    let is_above = writer.emit("and.pred", Class::Predicate, &[is_above, is_small]);
    let below = float_op(["sub.rn.f32", "sub.rn.f64"], &[down, float(ty, 1.0)]);
    select(writer, ty, is_above, below, down)
}

/// The name of an instruction for f32 or f64.
fn named_float(ty: Type, [single, double]: [&'static str; 2]) -> &'static str {
    if ty == Type::F32 { single } else { double }
}

/// Says whether one of two numbers is negative, and the other is not.
fn opposite(writer: &Writer, ty: Type, a: Operand, b: Operand) -> Operand {
    let name = named_float(ty, ["setp.lt.f32", "setp.lt.f64"]);
    let [a, b] = [a, b].map(|x| writer.emit(name, Class::Predicate, &[x, zero(ty)]));
    writer.emit("xor.pred", Class::Predicate, &[a, b])
}

/// The remainder of floats with the sign of the divisor (crates/expr/src/table.rs).
fn float_mod(writer: &Writer, ty: Type, a: Operand, b: Operand) -> Operand {
    let class = Class::of(ty);
    let rest = match ty {
        // Of two f32 it is one, too.
        Type::F32 => {
            let [a, b] = [a, b].map(|x| cast(writer, x, ty, Type::F64));
            let rest = remainder(writer, a, b);
            cast(writer, rest, Type::F64, ty)
        }
        _ => remainder(writer, a, b),
    };
    let equal = named_float(ty, ["setp.eq.f32", "setp.eq.f64"]);
    let is_zero = writer.emit(equal, Class::Predicate, &[rest, zero(ty)]);
    let signed = writer.emit(named_float(ty, ["copysign.f32", "copysign.f64"]), class, &[b, rest]);
    let opposite = opposite(writer, ty, rest, b);
    let sum = writer.emit(named_float(ty, ["add.rn.f32", "add.rn.f64"]), class, &[rest, b]);
    let rest = select(writer, ty, opposite, sum, rest);
    select(writer, ty, is_zero, signed, rest)
}

/// The exact remainder of a / b rounded toward zero, with the sign of a: C's fmod.
///
/// A long division with digits of 52 bits: the divisor, times powers of 2^52, is taken away as often as
/// the quotient says, or once more if that was rounded up, which is put right.
fn remainder(writer: &Writer, a: Operand, b: Operand) -> Operand {
    let float_op = |name, operands: &[Operand]| writer.emit(name, Class::F64, operands);
    let test = |name, operands: &[Operand]| writer.emit(name, Class::Predicate, operands);
    let [nought, one, infinity] = [0.0, 1.0, f64::INFINITY].map(Operand::f64);
    let [digit, inverse] = [52, -52].map(|exponent| Operand::f64(2_f64.powi(exponent)));
    let [size, divisor] = [a, b].map(|x| float_op("abs.f64", &[x]));
    let is_finite = test("setp.lt.f64", &[size, infinity]);
    let has_quotient = test("setp.lt.f64", &[divisor, infinity]);
    let is_positive = test("setp.lt.f64", &[nought, divisor]);
    let divides = test("and.pred", &[has_quotient, is_positive]);
    // The loops end for these.
    let size = float_op("selp.f64", &[size, nought, is_finite]);
    let divisor = float_op("selp.f64", &[divisor, one, divides]);

    let [up, down, end] = [writer.label(), writer.label(), writer.label()];
    let [rest, scaled] = [size, divisor].map(|x| float_op("mov.f64", &[x]));
    let next = writer.register(Class::F64);
    writer.place(up);
    writer.set("mul.rn.f64", next, &[scaled, digit]);
    let is_above = test("setp.lt.f64", &[rest, next]);
    writer.jump_if(is_above, down);
    writer.set("mov.f64", scaled, &[next]);
    let always = test("setp.eq.s32", &[Operand::b32(0), Operand::b32(0)]);
    writer.jump_if(always, up);
    writer.place(down);
    let quotient = float_op("div.rn.f64", &[rest, scaled]);
    let whole = float_op("cvt.rzi.f64.f64", &[quotient]);
    let negative = float_op("neg.f64", &[whole]);
    writer.set("fma.rn.f64", rest, &[negative, scaled, rest]);
    let is_negative = test("setp.lt.f64", &[rest, nought]);
    let put_right = float_op("add.rn.f64", &[rest, scaled]);
    writer.set("selp.f64", rest, &[put_right, rest, is_negative]);
    let is_last = test("setp.le.f64", &[scaled, divisor]);
    writer.set("mul.rn.f64", scaled, &[scaled, inverse]);
    writer.jump_if(is_last, end);
    writer.jump_if(always, down);
    writer.place(end);

    let signed = float_op("copysign.f64", &[a, rest]);
    let known = test("and.pred", &[is_finite, divides]);
    let result = float_op("selp.f64", &[signed, Operand::f64(f64::NAN), known]);
    let by_infinity = test("setp.eq.f64", &[float_op("abs.f64", &[b]), infinity]);
    let is_a = test("and.pred", &[is_finite, by_infinity]);
    float_op("selp.f64", &[a, result, is_a])
}
