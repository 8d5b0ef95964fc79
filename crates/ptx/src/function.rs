//! The functions of crates/math as instructions, from recordings of them.

use crate::large::DIVISION;
use crate::writer::{Class, Operand, Writer};
use gpuvec_expr::{Op, Type};
use gpuvec_math::{Step, steps};

// `RECORDINGS`; `CONSTANTS`; and `places`, where the recordings of a function of f32 and of f64 begin.
include!(concat!(env!("OUT_DIR"), "/recordings.rs"));

/// The number of a function's instructions, if the operation is one.
pub(crate) fn length(ty: Type, op: Op) -> Option<usize> {
    let place = places(op)?[usize::from(ty == Type::F64)];
    let of_step = |(step, _)| match step {
        Step::Float | Step::Bits => 0,
        Step::DivFloat | Step::Sqrt => DIVISION,
        _ => 1,
    };
    let all = steps(&RECORDINGS[place..], op.arity());
    Some(all.take_while(|(step, _)| *step != Step::Return).map(of_step).sum())
}

/// Writes a function of one number or of two of a type, which the operation is.
pub(crate) fn function(writer: &Writer, ty: Type, op: Op, arguments: &[Operand]) -> Operand {
    let Some(places) = places(op) else { unreachable!("{op:?} is not a function") };
    let mut values = arguments.to_vec();
    let mut ends = Vec::new();
    for (step, [a, b, c]) in
        steps(&RECORDINGS[places[usize::from(ty == Type::F64)]..], arguments.len())
    {
        let value = |number: usize| values[number];
        let emit = |name, class, operands: &[Operand]| writer.emit(name, class, operands);
        let unary = |name, class| emit(name, class, &[value(a)]);
        let binary = |name, class| emit(name, class, &[value(a), value(b)]);
        let ternary = |name| emit(name, Class::F64, &[value(a), value(b), value(c)]);
        let shifted = |name| emit(name, Class::B64, &[value(a), Operand::b32(b as i32)]);
        let made = match step {
            Step::Float => Operand::Constant(Class::F64, CONSTANTS[a]),
            Step::Bits => Operand::Constant(Class::B64, CONSTANTS[a]),
            Step::NegFloat => unary("neg.f64", Class::F64),
            Step::AddFloat => binary("add.rn.f64", Class::F64),
            Step::SubFloat => binary("sub.rn.f64", Class::F64),
            Step::MulFloat => binary("mul.rn.f64", Class::F64),
            Step::DivFloat => binary("div.rn.f64", Class::F64),
            Step::AddBits => binary("add.s64", Class::B64),
            Step::SubBits => binary("sub.s64", Class::B64),
            Step::And => binary("and.b64", Class::B64),
            Step::Or => binary("or.b64", Class::B64),
            Step::Xor => binary("xor.b64", Class::B64),
            Step::Widen => unary("cvt.f64.f32", Class::F64),
            Step::Narrow => unary("cvt.rn.f32.f64", Class::F32),
            Step::Fma => ternary("fma.rn.f64"),
            Step::Sqrt => unary("sqrt.rn.f64", Class::F64),
            Step::ToBits => unary("mov.b64", Class::B64),
            Step::ToFloat => unary("mov.b64", Class::F64),
            Step::ShiftLeft => shifted("shl.b64"),
            Step::ShiftRight => shifted("shr.u64"),
            Step::Less => binary("setp.lt.f64", Class::Predicate),
            Step::Equal => binary("setp.eq.f64", Class::Predicate),
            Step::Select => ternary("selp.f64"),
            Step::Copy => unary("mov.f64", Class::F64),
            Step::SkipUnless => {
                let skips = unary("not.pred", Class::Predicate);
                let end = writer.label();
                writer.jump_if(skips, end);
                ends.push((end, writer.instructions()));
                continue;
            }
            Step::Set => {
                writer.set("mov.f64", value(a), &[value(b)]);
                continue;
            }
            Step::End => {
                let Some((end, before)) = ends.pop() else {
                    unreachable!("parts end after they begin")
                };
                writer.are_rare_since(before);
                writer.place(end);
                continue;
            }
            Step::Return => return value(a),
        };
        values.push(made);
    }
    unreachable!("a recording ends with its result")
}
