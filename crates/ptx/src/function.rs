//! The functions of crates/math as instructions, from recordings of them.

use crate::BLOCK_THREADS;
use crate::large::DIVISION;
use crate::writer::{Class, Operand, Writer};
use gpuvec_expr::{Node, Op, Program, Source, Type};
use gpuvec_math::{Step, steps};

/// Where the recordings of a function begin.
#[derive(Clone, Copy)]
struct Places {
    of_f32: usize,
    of_f64: usize,
    /// That of the fast sequence of f32.
    fast: Option<usize>,
    /// That of f32 tests whether its result may be wrong, and has a more exact sequence for that.
    has_test: bool,
    /// The number of the tables that it looks values up in.
    group: usize,
}

// `RECORDINGS`; `CONSTANTS`; `TABLES`, the encodings of f32; `GROUPS` of tables, by their numbers; and `places`,
// those of an operation.
include!(concat!(env!("OUT_DIR"), "/recordings.rs"));

/// The steps of a function of a type, of which those of f32 are the fast ones if there are such.
fn usual_steps(ty: Type, op: Op) -> Option<impl Iterator<Item = (Step, [usize; 3])>> {
    let places = places(op)?;
    let place = if ty == Type::F64 { places.of_f64 } else { places.fast.unwrap_or(places.of_f32) };
    let returns = |step| matches!(step, Step::Return | Step::ReturnIf);
    Some(steps(&RECORDINGS[place..], op.arity()).take_while(move |(step, _)| !returns(*step)))
}

/// The number of a function's instructions, without rare ones, if the operation is one.
pub(crate) fn length(ty: Type, op: Op) -> Option<usize> {
    let of_step = |(step, _)| match step {
        Step::Float | Step::Bits | Step::Float32 | Step::Bits32 | Step::Negate32 => 0,
        Step::Lookup16 | Step::Lookup32 => 3,
        Step::Quotient => 9,
        Step::DivFloat | Step::Sqrt => DIVISION,
        _ => 1,
    };
    Some(usual_steps(ty, op)?.map(of_step).sum())
}

/// Says whether an operation has a long fast sequence with tables that can be rows: it limits its kernel on GPUs
/// with the fastest memory. For shorter ones a barrier and copies of tables cost more than they save.
pub(crate) fn is_long(op: Op) -> bool {
    const SHORTER: usize = 51;
    let has_rows = places(op).is_some_and(|places| places.fast.is_some() && has_rows(places.group));
    has_rows && length(Type::F32, op) > Some(SHORTER)
}

/// Says whether a function of a type has a fast sequence; nothing of another operation.
pub(crate) fn is_fast(ty: Type, op: Op) -> Option<bool> {
    Some(ty == Type::F32 && places(op)?.fast.is_some())
}

/// The groups of tables that a program's functions look values up in. A function's are one behind the other, so that
/// one address serves for all; and in a block's shared memory, since loads of global memory need more instructions.
///
/// Those of a program that is one long function are rows if they are at least three: a row has the entries at the
/// same place, which one load takes.
pub(crate) struct Tables {
    groups: Vec<usize>,
    are_rows: bool,
}

/// The entries of a row, with zeros in place of absent ones.
const ROW: usize = 4;

/// The copies of each row, one behind the other: eight threads load from different banks of shared memory at once.
const COPIES: usize = 8;

/// The bytes of a row, as a power of two, and those of its copies.
const ROW_SHIFT: i32 = 4;
const COPIES_SHIFT: i32 = ROW_SHIFT + COPIES.ilog2() as i32;

/// The number of rows is that of a table's entries: each thread of a block makes one of the copies.
const ROWS: usize = BLOCK_THREADS as usize / COPIES;

/// Lines that make a thread's copy of a row. `ROWS` and `COPIES` are in them.
const COPY_OF_ROW: &str = "\
// tables
{
.reg .b32 %thread, %row;
.reg .b64 %to, %from, %start;
.reg .f32 %value<4>;
mov.u32 %thread, %tid.x;
mul.wide.u32 %to, %thread, 16;
shr.u32 %row, %thread, 3;
mul.wide.u32 %from, %row, 16;
mov.b64 %start, values;
add.s64 %from, %start, %from;
mov.b64 %start, tables;
add.s64 %to, %start, %to;
ld.global.f32 %value0, [%from];
ld.global.f32 %value1, [%from+4];
ld.global.f32 %value2, [%from+8];
ld.global.f32 %value3, [%from+12];
st.shared.v4.f32 [%to], {%value0, %value1, %value2, %value3};
bar.sync 0;
}
// end of tables
";

/// The names of the tables in shared memory, and of their values in global memory.
const TABLES_NAME: &str = "tables";
const VALUES_NAME: &str = "values";

impl Tables {
    pub(crate) fn of(program: &Program, is_large: bool) -> Tables {
        let mut groups = Vec::new();
        for node in program.nodes() {
            let Source::Op(op) = node.source else { continue };
            let is_fast = |places: &Places| node.ty == Type::F32 && places.fast.is_some();
            if let Some(Places { group, .. }) = places(op).filter(is_fast)
                && !GROUPS[group].is_empty()
                && !groups.contains(&group)
            {
                groups.push(group);
            }
        }
        let are_rows = match program.nodes() {
            [_, Node { ty: Type::F32, source: Source::Op(op), .. }] => !is_large && is_long(*op),
            _ => false,
        };
        Tables { groups, are_rows }
    }

    /// Says whether they are rows.
    pub(crate) const fn are_rows(&self) -> bool {
        self.are_rows
    }

    /// The number of entries before a group's.
    fn before(&self, group: usize) -> usize {
        let before = self.groups.iter().take_while(|&&other| other != group);
        before.map(|&other| entries(other).len()).sum()
    }

    /// Writes the declarations, which come before all functions.
    pub(crate) fn declare(&self, text: &mut String) {
        let values: Vec<u32> = match self.groups[..] {
            [] => return,
            [group, ..] if self.are_rows => rows(group),
            _ => self.groups.iter().flat_map(|&group| entries(group)).collect(),
        };
        let shared = if self.are_rows { values.len() * COPIES } else { values.len() };
        let [len, shared] = [values.len(), shared].map(|n| n.to_string());
        text.extend([".shared .align 128 .f32 ", TABLES_NAME, "[", &shared, "];\n"]);
        text.extend([".global .align 128 .f32 ", VALUES_NAME, "[", &len, "] = {"]);
        for (i, bits) in values.into_iter().enumerate() {
            text.push_str(if i == 0 { "" } else { ", " });
            Operand::Constant(Class::F32, bits.into()).write(text);
        }
        text.push_str("};\n");
    }

    /// Writes the copy to shared memory, which all threads of a block begin with. The comments are for the emulator.
    pub(crate) fn copy(&self, text: &mut String) {
        if self.groups.is_empty() {
            return;
        }
        if self.are_rows {
            return text.push_str(COPY_OF_ROW);
        }
        let (writer, len) = (Writer::new(), self.before(usize::MAX));
        let thread = writer.emit("mov.u32", Class::B32, &[Operand::Named(&"%tid.x")]);
        let offset = writer.emit("mul.wide.u32", Class::B64, &[thread, Operand::b32(4)]);
        let place = |name| {
            let start = writer.emit("mov.b64", Class::B64, &[Operand::Named(name)]);
            writer.emit("add.s64", Class::B64, &[start, offset])
        };
        let (from, to, end) = (place(&VALUES_NAME), place(&TABLES_NAME), writer.label());
        for first in (0..len).step_by(BLOCK_THREADS as usize) {
            let left = Operand::b32((len - first) as i32);
            writer.jump_if(writer.emit("setp.ge.s32", Class::Predicate, &[thread, left]), end);
            let value = writer.register(Class::F32);
            writer.access("ld.global", ".f32", &[value], from, 4 * first as u32);
            writer.access("st.shared", ".f32", &[value], to, 4 * first as u32);
        }
        writer.place(end);
        writer.line("bar.sync 0");
        text.push_str("// tables\n{\n");
        writer.finish(text);
        text.push_str("}\n// end of tables\n");
    }
}

/// The encodings in a group's tables.
fn entries(group: usize) -> Vec<u32> {
    GROUPS[group].iter().flat_map(|&number| TABLES[number]).copied().collect()
}

/// Says whether the tables of a group can be rows.
fn has_rows(group: usize) -> bool {
    let tables = GROUPS[group];
    tables.len() > 2 && tables.iter().all(|&number| TABLES[number].len() == ROWS)
}

/// The encodings in the rows of a group.
fn rows(group: usize) -> Vec<u32> {
    let entry = |i: usize| GROUPS[group].get(i % ROW).map_or(0, |&number| TABLES[number][i / ROW]);
    (0..ROWS * ROW).map(entry).collect()
}

/// Loads the row at the place that the low bits say: its copy for the thread.
fn row(writer: &Writer, place: Operand) -> [Operand; ROW] {
    let emit = |name, a, b| writer.emit(name, Class::B32, &[a, b]);
    let thread = writer.emit("mov.u32", Class::B32, &[Operand::Named(&"%tid.x")]);
    let copy = emit("and.b32", thread, Operand::b32(COPIES as i32 - 1));
    let copy = emit("shl.b32", copy, Operand::b32(ROW_SHIFT));
    let tables = writer.emit("mov.b32", Class::B32, &[Operand::Named(&TABLES_NAME)]);
    let copies = emit("add.s32", tables, copy);
    let place = emit("and.b32", place, Operand::b32(ROWS as i32 - 1));
    let offset = emit("shl.b32", place, Operand::b32(COPIES_SHIFT));
    let entries = [(); ROW].map(|()| writer.register(Class::F32));
    writer.access("ld.shared", ".f32", &entries, emit("add.s32", copies, offset), 0);
    entries
}

/// Loads the entry of a table of a group at the place that the low bits say.
fn lookup(
    writer: &Writer, tables: &Tables, group: usize, number: usize, place: Operand,
) -> Operand {
    let before = GROUPS[group].iter().take_while(|&&other| other != number);
    let in_group: usize = before.map(|&other| TABLES[other].len()).sum();
    let start = tables.before(group) + in_group;
    let last = Operand::b32(TABLES[number].len() as i32 - 1);
    let place = writer.emit("and.b32", Class::B32, &[place, last]);
    let offset = writer.emit("shl.b32", Class::B32, &[place, Operand::b32(2)]);
    let first = writer.emit("mov.b32", Class::B32, &[Operand::Named(&TABLES_NAME)]);
    let address = writer.emit("add.s32", Class::B32, &[first, offset]);
    let entry = writer.register(Class::F32);
    writer.access("ld.shared", ".f32", &[entry], address, 4 * start as u32);
    entry
}

/// Writes the quotient of numbers that are far from the ends of the range ([`Step::Quotient`]). ptxas takes 2 ms more
/// for div.rn.f64, which also has to divide others.
///
/// Newton's iteration makes of an approximation the reciprocal rounded correctly, with which one more step rounds the
/// quotient correctly (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", IBM
/// Journal of Research and Development 34(1), 1990). What it subtracts from a zero is a zero of that sign.
fn quotient(writer: &Writer, a: Operand, b: Operand) -> Operand {
    let emit = |name, operands: &[Operand]| writer.emit(name, Class::F64, operands);
    let fma = |x, y, z| emit("fma.rn.f64", &[x, y, z]);
    let minus = |x| emit("neg.f64", &[x]);
    let (one, minus_b) = (Operand::f64(1.0), minus(b));
    let approximation = emit("rcp.approx.ftz.f64", &[b]);
    let error = fma(minus_b, approximation, one);
    let inverse = fma(approximation, fma(error, error, error), approximation);
    let inverse = fma(inverse, fma(minus_b, inverse, one), inverse);
    let near = emit("mul.rn.f64", &[a, inverse]);
    let excess = fma(near, b, minus(a));
    fma(minus(excess), inverse, near)
}

/// Writes a function of one number or of two of a type, which the operation is: right for all arguments.
pub(crate) fn function(writer: &Writer, ty: Type, op: Op, arguments: &[Operand]) -> Operand {
    let Some(places) = places(op) else { unreachable!("{op:?} is not a function") };
    let place = if ty == Type::F64 { places.of_f64 } else { places.of_f32 };
    sequence(writer, ty, place, places.group, None, arguments).0
}

/// Says whether [`fast`] has a sequence for an operation.
pub(crate) fn is_tested(ty: Type, op: Op) -> bool {
    ty == Type::F32 && places(op).is_some_and(|places| places.fast.is_some() || places.has_test)
}

/// Writes the fast sequence of a function of f32, if there is one, or the sequence up to its test: the result, and
/// the predicate that says whether it is right.
pub(crate) fn fast(
    writer: &Writer, ty: Type, op: Op, tables: &Tables, arguments: &[Operand],
) -> Option<(Operand, Operand)> {
    let places = places(op)?;
    if !is_tested(ty, op) {
        return None;
    }
    let place = places.fast.unwrap_or(places.of_f32);
    let (result, is_right) = sequence(writer, ty, place, places.group, Some(tables), arguments);
    Some((result, is_right?))
}

/// Writes a function by the fast sequence, and where that is not right by the other one.
pub(crate) fn either(
    writer: &Writer, ty: Type, op: Op, tables: &Tables, arguments: &[Operand],
) -> Option<Operand> {
    places(op)?.fast?;
    let (result, is_right) = fast(writer, ty, op, tables, arguments)?;
    let (result, end) = (writer.copy(result), writer.label());
    writer.jump_if(is_right, end);
    writer.set(Class::of(ty).copy(), result, &[function(writer, ty, op, arguments)]);
    writer.place(end);
    Some(result)
}

/// The class of a float that may change.
fn class_of(value: Operand) -> Class {
    if matches!(value, Operand::Register(Class::F32, _)) { Class::F32 } else { Class::F64 }
}

/// Writes a recording, whose tables are a group's: its result, and whether it is right if that is not sure. Without
/// the more exact sequence behind a test, unless `tables` is None: then it is right.
///
/// Whole functions of one f32 are for the few elements for which fast ones are not right. They compute their rare
/// parts for all of these, without jumps: the driver's compiler then finds what several functions have in common,
/// such as the reduction of an angle.
fn sequence(
    writer: &Writer, ty: Type, place: usize, group: usize, tables: Option<&Tables>,
    arguments: &[Operand],
) -> (Operand, Option<Operand>) {
    let mut values = arguments.to_vec();
    let (mut ends, mut is_right, mut is_left_out) = (Vec::new(), None, false);
    // The condition of a rare part that is computed without a jump.
    let mut condition = None;
    // The place that was looked up last, and its row.
    let mut last = None;
    for (step, [a, b, c]) in steps(&RECORDINGS[place..], arguments.len()) {
        if is_left_out {
            is_left_out = step != Step::End;
            if !matches!(step, Step::Set | Step::End) {
                values.push(Operand::b32(0));
            }
            continue;
        }
        let value = |number: usize| values[number];
        let emit = |name, class, operands: &[Operand]| writer.emit(name, class, operands);
        let unary = |name, class| emit(name, class, &[value(a)]);
        let binary = |name, class| emit(name, class, &[value(a), value(b)]);
        let ternary = |name, class| emit(name, class, &[value(a), value(b), value(c)]);
        let shifted = |name, class| emit(name, class, &[value(a), Operand::b32(b as i32)]);
        let made = match step {
            Step::Float => Operand::Constant(Class::F64, CONSTANTS[a]),
            Step::Bits => Operand::Constant(Class::B64, CONSTANTS[a]),
            Step::NegFloat => unary("neg.f64", Class::F64),
            Step::AddFloat => binary("add.rn.f64", Class::F64),
            Step::SubFloat => binary("sub.rn.f64", Class::F64),
            Step::MulFloat => binary("mul.rn.f64", Class::F64),
            Step::DivFloat => binary("div.rn.f64", Class::F64),
            Step::Quotient => quotient(writer, value(a), value(b)),
            Step::AddBits => binary("add.s64", Class::B64),
            Step::SubBits => binary("sub.s64", Class::B64),
            Step::And => binary("and.b64", Class::B64),
            Step::Or => binary("or.b64", Class::B64),
            Step::Xor => binary("xor.b64", Class::B64),
            Step::Widen => unary("cvt.f64.f32", Class::F64),
            Step::Narrow => unary("cvt.rn.f32.f64", Class::F32),
            Step::Fma => ternary("fma.rn.f64", Class::F64),
            Step::Sqrt => unary("sqrt.rn.f64", Class::F64),
            Step::ToBits => unary("mov.b64", Class::B64),
            Step::ToFloat => unary("mov.b64", Class::F64),
            Step::ShiftLeft => shifted("shl.b64", Class::B64),
            Step::ShiftRight => shifted("shr.u64", Class::B64),
            Step::Less => binary("setp.lt.f64", Class::Predicate),
            Step::Equal => binary("setp.eq.f64", Class::Predicate),
            Step::Select => ternary("selp.f64", Class::F64),
            Step::Float32 => Operand::Constant(Class::F32, CONSTANTS[a]),
            Step::Bits32 => Operand::Constant(Class::B32, CONSTANTS[a]),
            Step::AddFloat32 => binary("add.rn.f32", Class::F32),
            Step::SubFloat32 => binary("sub.rn.f32", Class::F32),
            Step::MulFloat32 => binary("mul.rn.f32", Class::F32),
            Step::Fma32 => ternary("fma.rn.f32", Class::F32),
            Step::Magnitude32 => unary("abs.f32", Class::F32),
            Step::Negate32 => unary("neg.f32", Class::F32),
            Step::Min32 => binary("min.f32", Class::F32),
            Step::Select32 => ternary("selp.f32", Class::F32),
            // Six instructions less than with subnormals, for which they need not be right.
            Step::Reciprocal32 => unary("rcp.approx.ftz.f32", Class::F32),
            Step::ReciprocalRoot32 => unary("rsqrt.approx.ftz.f32", Class::F32),
            Step::Convert32 => unary("cvt.rn.f32.s32", Class::F32),
            Step::ToBits32 => unary("mov.b32", Class::B32),
            Step::ToFloat32 => unary("mov.b32", Class::F32),
            Step::AddBits32 => binary("add.s32", Class::B32),
            Step::SubBits32 => binary("sub.s32", Class::B32),
            Step::And32 => binary("and.b32", Class::B32),
            Step::Or32 => binary("or.b32", Class::B32),
            Step::Xor32 => binary("xor.b32", Class::B32),
            Step::ShiftLeft32 => shifted("shl.b32", Class::B32),
            Step::Less32 => binary("setp.lt.f32", Class::Predicate),
            Step::Equal32 => binary("setp.eq.f32", Class::Predicate),
            Step::Both => binary("and.pred", Class::Predicate),
            Step::Lookup32 if tables.is_some_and(Tables::are_rows) => {
                let known = last.filter(|(place, _)| *place == value(a));
                let (_, entries) =
                    *last.insert(known.unwrap_or_else(|| (value(a), row(writer, value(a)))));
                let mut of_tables = GROUPS[group].iter().zip(entries);
                let Some((_, entry)) = of_tables.find(|(number, _)| **number == b) else {
                    unreachable!("a table is one of its function's group")
                };
                entry
            }
            Step::Lookup16 | Step::Lookup32 => {
                let Some(tables) = tables else { unreachable!("fast sequences have tables") };
                lookup(writer, tables, group, b, value(a))
            }
            // False if an operand is NaN.
            Step::Differ => binary("setp.ne.f32", Class::Predicate),
            Step::Copy => {
                let class = class_of(value(a));
                unary(class.copy(), class)
            }
            Step::SkipUnless if tables.is_some() => {
                is_right = Some(unary("not.pred", Class::Predicate));
                is_left_out = true;
                continue;
            }
            Step::SkipUnless if ty == Type::F32 && arguments.len() == 1 => {
                condition = Some(value(a));
                continue;
            }
            Step::SkipUnless => {
                let skips = unary("not.pred", Class::Predicate);
                let end = writer.label();
                writer.jump_if(skips, end);
                ends.push((end, writer.instructions()));
                continue;
            }
            Step::End if condition.take().is_some() => continue,
            Step::Set => {
                match condition {
                    Some(condition) => writer.replace_if(condition, value(a), value(b)),
                    None => writer.set(class_of(value(a)).copy(), value(a), &[value(b)]),
                }
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
            Step::Return => return (value(a), is_right),
            Step::ReturnIf => return (value(a), Some(value(b))),
        };
        values.push(made);
    }
    unreachable!("a recording ends with its result")
}
