//! Merges states of two words: a value and an index.
//!
//! The values of floats are integers in the same order, their keys: of integers a merge is one instruction, on
//! every device. A NaN's key wins all merges. With an index zeros of both signs are equal, and the values are
//! the bits of an f64.

use crate::hooks::Hook;
use crate::operation::quiet_nan;
use crate::writer::{Class, Operand, Writer};
use crate::{halves, reduction};
use gpuvec_expr::half::{BF16_NAN, F16_NAN};
use gpuvec_expr::{Element, Program, Reduction, Type};

/// A reduction, and the type of what it reduces.
#[derive(Clone, Copy)]
pub(crate) struct Fold {
    reduction: Reduction,
    ty: Type,
    /// The type of a least or greatest value in memory, if it is converted to that: a float of 16 bits, or u64.
    converted: Option<Element>,
}

impl Fold {
    /// The fold of a program's only output, if that is a reduction.
    pub(crate) fn of(program: &Program) -> Option<Fold> {
        let [output] = program.outputs() else { return None };
        let converted = output.conversion().map(|_| output.element);
        Some(Fold { reduction: output.reduction()?, ty: output.ty, converted })
    }

    pub(crate) const fn reduction(self) -> Reduction {
        self.reduction
    }

    /// The type of what is reduced.
    pub(crate) const fn ty(self) -> Type {
        self.ty
    }

    /// The type of the result in memory, if it is converted to that.
    pub(crate) const fn converted(self) -> Option<Element> {
        self.converted
    }

    const fn is_float(self) -> bool {
        matches!(self.ty, Type::F32 | Type::F64)
    }

    fn is_minimum(self) -> bool {
        matches!(self.reduction, Reduction::Min | Reduction::ArgMin)
    }

    /// Says whether it is one of integers that are added.
    fn adds(self) -> bool {
        use Reduction::{All, Any, Count, Dot, Sum};
        matches!(self.reduction, Sum | Dot | Any | All | Count)
    }

    /// Says whether it is a product of integers.
    fn multiplies(self) -> bool {
        self.reduction == Reduction::Prod
    }

    /// Says whether the value is an integer of 64 bits, whatever the elements are.
    fn is_wide(self) -> bool {
        self.adds() || self.multiplies()
    }

    /// Says whether its result is the index of an element, to which their order matters.
    pub(crate) fn has_index(self) -> bool {
        matches!(self.reduction, Reduction::ArgMin | Reduction::ArgMax)
    }

    /// Says whether it is an exact sum, whose elements the frame adds up.
    pub(crate) fn is_exact(self) -> bool {
        use Reduction::{Dot, Mean, Norm, Sum};
        self.is_float() && matches!(self.reduction, Sum | Dot | Mean | Norm)
    }

    /// The state of no elements of a thread's batch: a value, and the distance of the element that has
    /// it from the first one.
    pub(crate) fn begin(self, writer: &Writer, distance: Operand) -> [Operand; 2] {
        let identity = match self.ty {
            _ if self.is_wide() => Operand::Constant(Class::B64, self.identity()),
            Type::F32 => Operand::f32(self.infinity() as f32),
            Type::F64 => Operand::Constant(Class::F64, self.infinity().to_bits()),
            Type::I32 => Operand::b32(self.identity() as i32),
            ty => Operand::Constant(Class::of(ty), self.identity()),
        };
        [identity, distance].map(|first| writer.copy(first))
    }

    /// Adds an element to a thread's state, behind those it has.
    pub(crate) fn add(
        self, writer: &Writer, [state, place]: [Operand; 2], element: &reduction::Element,
    ) {
        if self.adds() {
            let term = self.term(writer, element);
            return writer.set("add.s64", state, &[state, term]);
        }
        if self.multiplies() {
            let factor = self.factor(writer, element);
            return writer.set("mul.lo.s64", state, &[state, factor]);
        }
        let value = element.values[0];
        let names = |names: [&'static str; 4]| match self.ty {
            Type::F32 => names[0],
            Type::F64 => names[1],
            Type::I32 => names[2],
            _ => names[3],
        };
        let select = names(["selp.f32", "selp.f64", "selp.b32", "selp.b64"]);
        if self.has_index() {
            let [low, high] = if self.is_minimum() { [state, value] } else { [value, state] };
            let test = names(["setp.le.f32", "setp.le.f64", "setp.le.s32", "setp.le.s64"]);
            let mut stays = writer.emit(test, Class::Predicate, &[low, high]);
            if self.is_float() {
                let test = names(["setp.nan.f32", "setp.nan.f64", "", ""]);
                let is_nan = writer.emit(test, Class::Predicate, &[state, state]);
                stays = writer.emit("or.pred", Class::Predicate, &[stays, is_nan]);
            }
            writer.set(select, state, &[state, value, stays]);
            return writer.set("selp.b32", place, &[place, element.distance(writer), stays]);
        }
        let name = match self.is_minimum() {
            true => names(["min.f32", "min.f64", "min.s32", "min.s64"]),
            false => names(["max.f32", "max.f64", "max.s32", "max.s64"]),
        };
        if self.is_float() {
            let test = names(["setp.nan.f32", "setp.nan.f64", "", ""]);
            let is_nan = writer.emit(test, Class::Predicate, &[state, value]);
            writer.set(name, state, &[state, value]);
            writer.set(select, state, &[quiet_nan(self.ty), state, is_nan]);
        } else {
            writer.set(name, state, &[state, value]);
        }
    }

    /// The term of an element in a sum or a count: zero if the element is past the end.
    fn term(self, writer: &Writer, element: &reduction::Element) -> Operand {
        let mut values = element.values.clone();
        let nothing = match self.ty {
            Type::Bool => Operand::Constant(Class::Predicate, 0),
            Type::I32 => Operand::b32(0),
            _ => Operand::b64(0),
        };
        if self.reduction == Reduction::All {
            values[0] = writer.emit("not.pred", Class::Predicate, &[values[0]]);
        }
        let is_there = element.is_there(writer);
        values[0] = match self.ty {
            Type::Bool => writer.emit("and.pred", Class::Predicate, &[values[0], is_there]),
            Type::I32 => writer.emit("selp.b32", Class::B32, &[values[0], nothing, is_there]),
            _ => writer.emit("selp.b64", Class::B64, &[values[0], nothing, is_there]),
        };
        let wide: Vec<Operand> = values.iter().map(|&value| self.wide(writer, value)).collect();
        wide.into_iter()
            .reduce(|a, b| writer.emit("mul.lo.s64", Class::B64, &[a, b]))
            .unwrap_or(nothing)
    }

    /// The factor of an element in a product: one if the element is past the end.
    fn factor(self, writer: &Writer, element: &reduction::Element) -> Operand {
        let is_there = element.is_there(writer);
        let value = self.wide(writer, element.values[0]);
        writer.emit("selp.b64", Class::B64, &[value, Operand::b64(1), is_there])
    }

    /// A thread's state as the frame has it: a word, and the distance with 64 bits.
    pub(crate) fn words(self, writer: &Writer, [state, place]: [Operand; 2]) -> [Operand; 2] {
        let word = match self.is_wide() {
            true => state,
            false if self.has_keys() => self.key(writer, state),
            false => self.wide(writer, state),
        };
        [word, writer.emit("cvt.s64.s32", Class::B64, &[place])]
    }

    fn wide(self, writer: &Writer, value: Operand) -> Operand {
        match self.ty {
            Type::Bool => {
                let [one, zero] = [1, 0].map(Operand::b64);
                writer.emit("selp.b64", Class::B64, &[one, zero, value])
            }
            Type::I32 => writer.emit("cvt.s64.s32", Class::B64, &[value]),
            Type::I64 | Type::U64 => value,
            Type::F32 => {
                let wide = writer.emit("cvt.f64.f32", Class::F64, &[value]);
                writer.emit("mov.b64", Class::B64, &[wide])
            }
            Type::F64 => writer.emit("mov.b64", Class::B64, &[value]),
        }
    }

    /// The key of a float.
    fn key(self, writer: &Writer, value: Operand) -> Operand {
        let is_short = self.ty == Type::F32;
        let (class, most) = match is_short {
            true => (Class::B32, Operand::b32(i32::MAX)),
            false => (Class::B64, Operand::b64(i64::MAX)),
        };
        let names = |names: [&'static str; 2]| names[usize::from(!is_short)];
        let zero = if is_short { Operand::b32(0) } else { Operand::b64(0) };
        let bits = writer.emit(names(["mov.b32", "mov.b64"]), class, &[value]);
        let test = names(["setp.lt.s32", "setp.lt.s64"]);
        let is_negative = writer.emit(test, Class::Predicate, &[bits, zero]);
        let other = writer.emit(names(["xor.b32", "xor.b64"]), class, &[bits, most]);
        let select = names(["selp.b32", "selp.b64"]);
        let key = writer.emit(select, class, &[other, bits, is_negative]);
        let key = if is_short { writer.emit("cvt.s64.s32", Class::B64, &[key]) } else { key };
        let test = names(["setp.nan.f32", "setp.nan.f64"]);
        let is_nan = writer.emit(test, Class::Predicate, &[value, value]);
        writer.emit("selp.b64", Class::B64, &[Operand::b64(self.key_of_nan()), key, is_nan])
    }

    /// The lines that a word in capitals stands for.
    pub(crate) fn lines(self, hook: Hook) -> String {
        match hook {
            Hook::Identity => {
                format!("mov.b64 {{0}}, {:#x};\nmov.b64 {{1}}, {:#x};\n", self.identity(), i64::MAX)
            }
            Hook::Merge => self.merge(),
            Hook::State => self.state(),
            Hook::Result => self.result(),
            Hook::Elements | Hook::Whole | Hook::Finish | Hook::Place => {
                unreachable!("no part of a fold")
            }
        }
    }

    /// Says whether the values are keys of floats.
    fn has_keys(self) -> bool {
        self.is_float() && matches!(self.reduction, Reduction::Min | Reduction::Max)
    }

    fn key_of_nan(self) -> i64 {
        if self.is_minimum() { i64::MIN } else { i64::MAX }
    }

    fn infinity(self) -> f64 {
        if self.is_minimum() { f64::INFINITY } else { f64::NEG_INFINITY }
    }

    fn identity(self) -> u64 {
        match self.ty {
            _ if self.adds() => 0,
            _ if self.multiplies() => 1,
            // Greater than all keys but a NaN's that may win, or less.
            Type::F32 | Type::F64 if self.has_keys() => (!self.key_of_nan()).cast_unsigned(),
            Type::F32 | Type::F64 => self.infinity().to_bits(),
            Type::I32 if self.is_minimum() => i64::from(i32::MAX).cast_unsigned(),
            Type::I32 => i64::from(i32::MIN).cast_unsigned(),
            _ if self.is_minimum() => i64::MAX.cast_unsigned(),
            _ => i64::MIN.cast_unsigned(),
        }
    }

    /// Merges {2}, {3} and {4}, {5}, which may be the registers of the result, {0}, {1}.
    fn merge(self) -> String {
        let name = if self.is_minimum() { "min" } else { "max" };
        match self.reduction {
            _ if self.adds() => "add.s64 {0}, {2}, {4};\nmov.b64 {1}, 0;\n".into(),
            _ if self.multiplies() => "mul.lo.s64 {0}, {2}, {4};\nmov.b64 {1}, 0;\n".into(),
            Reduction::ArgMin | Reduction::ArgMax => self.merge_indexed(),
            _ => format!("{name}.s64 {{0}}, {{2}}, {{4}};\nmov.b64 {{1}}, 0;\n"),
        }
    }

    /// Selects the second pair if its value wins, or if the first one's does not and its index is smaller.
    fn merge_indexed(self) -> String {
        let test = if self.is_minimum() { "lt" } else { "gt" };
        let wins = if self.is_float() {
            format!(
                "mov.b64 %ma, {{2}};\nmov.b64 %mb, {{4}};\nsetp.{test}.f64 %mp, %mb, %ma;\n\
                 setp.{test}.f64 %mq, %ma, %mb;\nsetp.nan.f64 %mr, %ma, %ma;\nsetp.nan.f64 %ms, %mb, %mb;\n\
                 not.pred %mt, %mr;\nand.pred %mt, %mt, %ms;\nor.pred %mp, %mp, %mt;\n\
                 not.pred %mt, %ms;\nand.pred %mt, %mt, %mr;\nor.pred %mq, %mq, %mt;\n"
            )
        } else {
            format!("setp.{test}.s64 %mp, {{4}}, {{2}};\nsetp.{test}.s64 %mq, {{2}}, {{4}};\n")
        };
        format!(
            "{{\n.reg .f64 %ma, %mb;\n.reg .b64 %mv, %mi;\n.reg .pred %mp, %mq, %mr, %ms, %mt;\n{wins}\
             setp.lt.s64 %mr, {{5}}, {{3}};\nnot.pred %mq, %mq;\nand.pred %mr, %mr, %mq;\n\
             or.pred %mp, %mp, %mr;\nselp.b64 %mv, {{4}}, {{2}}, %mp;\nselp.b64 %mi, {{5}}, {{3}}, %mp;\n\
             mov.b64 {{0}}, %mv;\nmov.b64 {{1}}, %mi;\n}}\n"
        )
    }

    /// Stores the state of the words {1} and {2} at {0}.
    fn state(self) -> String {
        match self.reduction {
            Reduction::ArgMin | Reduction::ArgMax => {
                let bits = match self.ty {
                    Type::F32 => {
                        "{\n.reg .f64 %ma;\n.reg .f32 %mf;\n.reg .b32 %mr;\n.reg .b64 %mv;\n\
                         .reg .pred %mp;\nmov.b64 %ma, {1};\ncvt.rn.f32.f64 %mf, %ma;\n\
                         setp.nan.f32 %mp, %mf, %mf;\nselp.f32 %mf, 0f7FC00000, %mf, %mp;\n\
                         mov.b32 %mr, %mf;\ncvt.u64.u32 %mv, %mr;\nst.u64 [{0}], %mv;\n}\n"
                    }
                    Type::F64 => {
                        "{\n.reg .f64 %ma;\n.reg .pred %mp;\nmov.b64 %ma, {1};\n\
                         setp.nan.f64 %mp, %ma, %ma;\n\
                         selp.f64 %ma, 0d7FF8000000000000, %ma, %mp;\nst.f64 [{0}], %ma;\n}\n"
                    }
                    Type::I32 => {
                        "{\n.reg .b64 %mv;\nand.b64 %mv, {1}, 0xFFFFFFFF;\nst.u64 [{0}], %mv;\n}\n"
                    }
                    _ => "st.u64 [{0}], {1};\n",
                };
                format!("{bits}st.u64 [{{0}}+8], {{2}};\n")
            }
            _ => self.value(),
        }
    }

    /// Stores the result of the words {1} and {2} at {0}.
    fn result(self) -> String {
        match self.reduction {
            Reduction::Any | Reduction::All => {
                let test = if self.reduction == Reduction::Any { "ne" } else { "eq" };
                format!(
                    "{{\n.reg .pred %mp;\n.reg .b32 %mr;\nsetp.{test}.s64 %mp, {{1}}, 0;\n\
                     selp.b32 %mr, 1, 0, %mp;\nst.u8 [{{0}}], %mr;\n}}\n"
                )
            }
            Reduction::ArgMin | Reduction::ArgMax => "st.u64 [{0}], {2};\n".into(),
            _ => self.converted.map_or_else(|| self.value(), |element| self.value_as(element)),
        }
    }

    /// Stores the value {1} at {0}.
    fn value(self) -> String {
        let (bits, most, nan) = match self.ty {
            Type::F32 if self.has_keys() => (32, i32::MAX.into(), f32::NAN.to_bits().into()),
            Type::F64 if self.has_keys() => (64, i64::MAX, f64::NAN.to_bits()),
            Type::I32 if !self.is_wide() => {
                return "{\n.reg .b32 %mr;\ncvt.u32.u64 %mr, {1};\nst.u32 [{0}], %mr;\n}\n".into();
            }
            _ => return "st.u64 [{0}], {1};\n".into(),
        };
        let lower = if bits == 32 { "cvt.u32.u64" } else { "mov.b64" };
        let key_of_nan = self.key_of_nan();
        format!(
            "{{\n.reg .b{bits} %mv, %mo;\n.reg .pred %mp;\n{lower} %mv, {{1}};\nxor.b{bits} %mo, %mv, {most:#x};\n\
             setp.lt.s{bits} %mp, %mv, 0;\nselp.b{bits} %mv, %mo, %mv, %mp;\n\
             setp.eq.s64 %mp, {{1}}, {key_of_nan:#x};\nselp.b{bits} %mv, {nan:#x}, %mv, %mp;\n\
             st.u{bits} [{{0}}], %mv;\n}}\n"
        )
    }

    /// Stores the value {1} at {0} as an element of another type.
    fn value_as(self, element: Element) -> String {
        let nan = match element {
            Element::F16 => F16_NAN,
            Element::Bf16 => BF16_NAN,
            _ => {
                let sign = 1u64 << 63;
                return format!(
                    "{{\n.reg .b64 %mv;\nxor.b64 %mv, {{1}}, {sign:#x};\nst.u64 [{{0}}], %mv;\n}}\n"
                );
            }
        };
        let (most, key_of_nan) = (i32::MAX, self.key_of_nan());
        let rounded = halves::lines(element);
        format!(
            "{{\n.reg .b32 %mv, %mo;\n.reg .f32 %mf;\n.reg .pred %mp;\ncvt.u32.u64 %mv, {{1}};\n\
             xor.b32 %mo, %mv, {most:#x};\nsetp.lt.s32 %mp, %mv, 0;\nselp.b32 %mv, %mo, %mv, %mp;\n{rounded}\
             setp.eq.s64 %mp, {{1}}, {key_of_nan:#x};\nselp.b32 %mv, {nan:#x}, %mv, %mp;\n\
             st.u16 [{{0}}], %mv;\n}}\n"
        )
    }
}
