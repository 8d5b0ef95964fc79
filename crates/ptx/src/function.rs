//! The functions of crates/math as instructions, from recordings of them.

use crate::policy::BLOCK_THREADS;
use crate::writer::{Class, Operand, Writer, decimal, ptx};
use gpuvec_expr::{Node, Op, Program, Source, Type};
use gpuvec_math::{Step, steps};

/// Instructions that a driver compiles in the time of a float's division or root.
pub(crate) const DIVISION: usize = 64;

/// The places at which the recordings of a function begin.
#[derive(Clone, Copy)]
struct Places {
    of_f32: usize,
    of_f64: usize,
    /// The fast sequence of f32.
    fast: Option<usize>,
    /// The f32 sequence checks its error bound and falls back to a more precise one.
    has_test: bool,
    /// The group of tables in which the fast sequence looks values up.
    group: usize,
}

// Defines `RECORDINGS`; `CONSTANTS`; `TABLES` of encodings of f32; `GROUPS` of tables, by their numbers; and the function
// `places`, which returns the places of an operation's recordings.
include!(concat!(env!("OUT_DIR"), "/recordings.rs"));

/// The steps of a function of a type: of its fast sequence if it has one.
fn usual_steps(ty: Type, op: Op) -> Option<impl Iterator<Item = (Step, [usize; 3])>> {
    let places = places(op)?;
    let place = if ty == Type::F64 { places.of_f64 } else { places.fast.unwrap_or(places.of_f32) };
    let returns = |step| matches!(step, Step::Return | Step::ReturnIf);
    Some(steps(&RECORDINGS[place..], op.arity()).take_while(move |(step, _)| !returns(*step)))
}

/// The number of a function's instructions, without rare ones. None if the operation is not a function.
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

/// True for an operation with a long fast sequence and tables that can be rows. Its instructions, not the memory, limit
/// its kernel on GPUs with the fastest memory. For shorter sequences a barrier and copies of tables cost more than they
/// save.
pub(crate) fn is_long(op: Op) -> bool {
    const SHORTER: usize = 51;
    let has_rows = places(op).is_some_and(|places| places.fast.is_some() && has_rows(places.group));
    has_rows && length(Type::F32, op) > Some(SHORTER)
}

/// True for a function with a fast sequence for a type. None if the operation is not a function.
pub(crate) fn is_fast(ty: Type, op: Op) -> Option<bool> {
    Some(ty == Type::F32 && places(op)?.fast.is_some())
}

/// The groups of tables in which a program's functions look values up. Tables are in the shared memory of a block, since
/// loads of global memory need more instructions. The tables of a function follow each other, so that one address serves
/// for all.
///
/// If the program is one long function with at least three tables, they are stored as rows: one load reads a row, which
/// has the entries of all tables at one place.
pub(crate) struct Tables {
    groups: Vec<usize>,
    are_rows: bool,
}

/// The entries of a row, with zeros in place of absent ones.
const ROW: usize = 4;

/// The copies of each row, one behind the other: eight threads load from different banks of shared memory at once.
const COPIES: usize = 8;

/// The bytes of a row, as a power of two, and the bytes of its copies.
const ROW_SHIFT: i32 = 4;
const COPIES_SHIFT: i32 = ROW_SHIFT + COPIES.ilog2() as i32;

/// There are as many rows as a table has entries: each thread of a block makes one of the copies.
const ROWS: usize = BLOCK_THREADS as usize / COPIES;

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

    /// True if the tables are stored as rows.
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
        text.push_str(".shared .align 128 .f32 tables[");
        decimal(text, shared as u32);
        text.push_str("];\n.global .align 128 .f32 values[");
        decimal(text, values.len() as u32);
        text.push_str("] = {");
        for (i, bits) in values.into_iter().enumerate() {
            text.push_str(if i == 0 { "" } else { ", " });
            Operand::Constant(Class::F32, bits.into()).write(text, &[]);
        }
        text.push_str("};\n");
    }

    /// Writes the copy to shared memory, with which all threads of a block begin. The emulator skips the lines between
    /// the comments.
    pub(crate) fn copy(&self, text: &mut String) {
        if self.groups.is_empty() {
            return;
        }
        let w = Writer::new();
        match self.are_rows {
            true => copy_rows(&w),
            false => copy_entries(&w, self.before(usize::MAX)),
        }
        text.push_str("// tables\n{\n");
        w.finish(text);
        text.push_str("}\n// end of tables\n");
    }
}

/// Writes the copy of a row, by each thread.
fn copy_rows(w: &Writer<'_>) {
    ptx!(w, bytes = 1_usize << ROW_SHIFT, copies = COPIES.ilog2() as usize; "
        mov.u32 thread, %tid.x
        mul.wide.u32 to, thread, bytes
        shr.u32 row, thread, copies
        mul.wide.u32 from, row, bytes
        mov.b64 start, values
        add.s64 from, start, from
        mov.b64 start, tables
        add.s64 to, start, to
        ld.global.f32 a, [from]
        ld.global.f32 b, [from+4]
        ld.global.f32 c, [from+8]
        ld.global.f32 d, [from+12]
        st.shared.v4.f32 [to], {a, b, c, d}
        bar.sync 0
    ");
}

/// Writes the copy of this many entries, by the first threads.
fn copy_entries(w: &Writer<'_>, entries: usize) {
    let [thread, from, to] = [Class::B32, Class::B64, Class::B64].map(|class| w.register(class));
    ptx!(w, thread, from, to; "
        mov.u32 thread, %tid.x
        mul.wide.u32 offset, thread, 4
        mov.b64 start, values
        add.s64 from, start, offset
        mov.b64 start, tables
        add.s64 to, start, offset
    ");
    let end = w.label();
    for first in (0..entries).step_by(BLOCK_THREADS as usize) {
        let left = entries - first;
        ptx!(w, thread, left, end; "setp.ge.s32 is_behind, thread, left; @is_behind bra end");
        let value = w.load("ld.global", (".f32", Class::F32), from, 4 * first as u32);
        w.access("st.shared", ".f32", &[value], to, 4 * first as u32);
    }
    ptx!(w, end; "end:; bar.sync 0");
}

/// The encodings in a group's tables.
fn entries(group: usize) -> Vec<u32> {
    GROUPS[group].iter().flat_map(|&number| TABLES[number]).copied().collect()
}

/// True if the tables of a group can be stored as rows.
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
fn row(w: &Writer<'_>, place: Operand) -> [Operand; ROW] {
    let address = ptx!(
        w, place, last_copy = COPIES - 1, row_shift = ROW_SHIFT, last_row = ROWS - 1,
        copies_shift = COPIES_SHIFT; "
        mov.u32 thread, %tid.x
        and.b32 copy, thread, last_copy
        shl.b32 copy, copy, row_shift
        mov.b32 start, tables
        add.s32 copies, start, copy
        and.b32 row, place, last_row
        shl.b32 offset, row, copies_shift
        add.s32 address, copies, offset
    ");
    let entries = [(); ROW].map(|()| w.register(Class::F32));
    w.access("ld.shared", ".f32", &entries, address, 0);
    entries
}

/// Loads the entry of a table of a group at the place that the low bits say.
fn lookup(w: &Writer<'_>, tables: &Tables, group: usize, number: usize, place: Operand) -> Operand {
    let before = GROUPS[group].iter().take_while(|&&other| other != number);
    let in_group: usize = before.map(|&other| TABLES[other].len()).sum();
    let start = tables.before(group) + in_group;
    let address = ptx!(w, place, last = TABLES[number].len() - 1; "
        and.b32 entry, place, last
        shl.b32 offset, entry, 2
        mov.b32 start, tables
        add.s32 address, start, offset
    ");
    w.load("ld.shared", (".f32", Class::F32), address, 4 * start as u32)
}

/// Writes the quotient of numbers that are far from the ends of the range ([`Step::Quotient`]). `div.rn.f64` also divides
/// other numbers, and ptxas compiles it for 2 ms longer.
///
/// Newton's iteration refines an approximation to the correctly rounded reciprocal. One more step with that rounds the
/// quotient correctly (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", IBM
/// Journal of Research and Development 34(1), 1990). The last subtraction keeps the sign of a zero quotient.
fn quotient(w: &Writer<'_>, a: Operand, b: Operand) -> Operand {
    ptx!(w, a, b, one = 1.0; "
        neg.f64 minus_b, b
        rcp.approx.ftz.f64 approximation, b
        fma.rn.f64 error, minus_b, approximation, one
        fma.rn.f64 error, error, error, error
        fma.rn.f64 inverse, approximation, error, approximation
        fma.rn.f64 error, minus_b, inverse, one
        fma.rn.f64 inverse, inverse, error, inverse
        mul.rn.f64 near, a, inverse
        neg.f64 minus_a, a
        fma.rn.f64 excess, near, b, minus_a
        neg.f64 excess, excess
        fma.rn.f64 quotient, excess, inverse, near
    ")
}

/// Writes the function of one number or of two that an operation is: right for all arguments.
pub(crate) fn function(w: &Writer<'_>, ty: Type, op: Op, arguments: &[Operand]) -> Operand {
    let Some(places) = places(op) else { unreachable!("{op:?} is not a function") };
    let place = if ty == Type::F64 { places.of_f64 } else { places.of_f32 };
    sequence(w, ty, place, places.group, None, arguments).0
}

/// True for an operation for which [`fast`] has a sequence.
pub(crate) fn is_tested(ty: Type, op: Op) -> bool {
    ty == Type::F32 && places(op).is_some_and(|places| places.fast.is_some() || places.has_test)
}

/// Writes the fast sequence of a function of f32, if there is one, or the sequence up to its test. Returns the result, and
/// a predicate that is true if the result is right.
pub(crate) fn fast(
    w: &Writer<'_>, ty: Type, op: Op, tables: &Tables, arguments: &[Operand],
) -> Option<(Operand, Operand)> {
    let places = places(op)?;
    if !is_tested(ty, op) {
        return None;
    }
    let place = places.fast.unwrap_or(places.of_f32);
    let (result, is_right) = sequence(w, ty, place, places.group, Some(tables), arguments);
    Some((result, is_right?))
}

/// Writes the fast sequence of a function, and the other one for the arguments for which that is not right.
pub(crate) fn either(
    w: &Writer<'_>, ty: Type, op: Op, tables: &Tables, arguments: &[Operand],
) -> Option<Operand> {
    places(op)?.fast?;
    let (result, is_right) = fast(w, ty, op, tables, arguments)?;
    let (result, end) = (w.copy(result), w.label());
    ptx!(w, is_right, end; "@is_right bra end");
    w.assign(result, function(w, ty, op, arguments));
    ptx!(w, end; "end:");
    Some(result)
}

/// True for a float that may change and has 32 bits, not 64.
fn is_f32(value: Operand) -> bool {
    value.class() == Class::F32
}

/// Writes a recording, whose tables are a group's: its result, and whether it is right if that is not sure. Without
/// the more exact sequence behind a test, unless `tables` is None: then it is right.
///
/// Whole functions of one f32 are for the few elements for which fast ones are not right. They compute their rare
/// parts for all of these, without jumps: the driver's compiler then finds what several functions have in common,
/// such as the reduction of an angle.
fn sequence(
    w: &Writer<'_>, ty: Type, place: usize, group: usize, tables: Option<&Tables>,
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
                values.push(Operand::from(0));
            }
            continue;
        }
        let value = |number: usize| values[number];
        let unary = |opcode| w.instruction(opcode, &[value(a)]);
        let binary = |opcode| w.instruction(opcode, &[value(a), value(b)]);
        let ternary = |opcode| w.instruction(opcode, &[value(a), value(b), value(c)]);
        let shifted = |opcode| w.instruction(opcode, &[value(a), Operand::from(b)]);
        let made = match step {
            Step::Float => Operand::Constant(Class::F64, CONSTANTS[a]),
            Step::Bits => Operand::Constant(Class::B64, CONSTANTS[a]),
            Step::NegFloat => unary("neg.f64"),
            Step::AddFloat => binary("add.rn.f64"),
            Step::SubFloat => binary("sub.rn.f64"),
            Step::MulFloat => binary("mul.rn.f64"),
            Step::DivFloat => binary("div.rn.f64"),
            Step::Quotient => quotient(w, value(a), value(b)),
            Step::AddBits => binary("add.s64"),
            Step::SubBits => binary("sub.s64"),
            Step::And => binary("and.b64"),
            Step::Or => binary("or.b64"),
            Step::Xor => binary("xor.b64"),
            Step::Widen => unary("cvt.f64.f32"),
            Step::Narrow => unary("cvt.rn.f32.f64"),
            Step::Fma => ternary("fma.rn.f64"),
            Step::Sqrt => unary("sqrt.rn.f64"),
            Step::ToBits => unary("mov.b64"),
            Step::ToFloat => w.float_of(value(a)),
            Step::ShiftLeft => shifted("shl.b64"),
            Step::ShiftRight => shifted("shr.u64"),
            Step::Less => binary("setp.lt.f64"),
            Step::Equal => binary("setp.eq.f64"),
            Step::Select => ternary("selp.f64"),
            Step::Float32 => Operand::Constant(Class::F32, CONSTANTS[a]),
            Step::Bits32 => Operand::Constant(Class::B32, CONSTANTS[a]),
            Step::AddFloat32 => binary("add.rn.f32"),
            Step::SubFloat32 => binary("sub.rn.f32"),
            Step::MulFloat32 => binary("mul.rn.f32"),
            Step::Fma32 => ternary("fma.rn.f32"),
            Step::Magnitude32 => unary("abs.f32"),
            Step::Negate32 => unary("neg.f32"),
            Step::Min32 => binary("min.f32"),
            Step::Select32 => ternary("selp.f32"),
            // Six instructions less than with subnormals, for which they need not be right.
            Step::Reciprocal32 => unary("rcp.approx.ftz.f32"),
            Step::ReciprocalRoot32 => unary("rsqrt.approx.ftz.f32"),
            Step::Convert32 => unary("cvt.rn.f32.s32"),
            Step::ToBits32 => unary("mov.b32"),
            Step::ToFloat32 => w.float_of(value(a)),
            Step::AddBits32 => binary("add.s32"),
            Step::SubBits32 => binary("sub.s32"),
            Step::And32 => binary("and.b32"),
            Step::Or32 => binary("or.b32"),
            Step::Xor32 => binary("xor.b32"),
            Step::ShiftLeft32 => shifted("shl.b32"),
            Step::Less32 => binary("setp.lt.f32"),
            Step::Equal32 => binary("setp.eq.f32"),
            Step::Both => binary("and.pred"),
            Step::Lookup32 if tables.is_some_and(Tables::are_rows) => {
                let known = last.filter(|(place, _)| *place == value(a));
                let (_, entries) =
                    *last.insert(known.unwrap_or_else(|| (value(a), row(w, value(a)))));
                let mut of_tables = GROUPS[group].iter().zip(entries);
                let Some((_, entry)) = of_tables.find(|(number, _)| **number == b) else {
                    unreachable!("a table is one of its function's group")
                };
                entry
            }
            Step::Lookup16 | Step::Lookup32 => {
                let Some(tables) = tables else { unreachable!("fast sequences have tables") };
                lookup(w, tables, group, b, value(a))
            }
            // False if an operand is NaN.
            Step::Differ => binary("setp.ne.f32"),
            Step::Copy => unary(if is_f32(value(a)) { "mov.f32" } else { "mov.f64" }),
            Step::SkipUnless if tables.is_some() => {
                is_right = Some(unary("not.pred"));
                is_left_out = true;
                continue;
            }
            Step::SkipUnless if ty == Type::F32 && arguments.len() == 1 => {
                condition = Some(value(a));
                continue;
            }
            Step::SkipUnless => {
                let skips = unary("not.pred");
                let end = w.label();
                ptx!(w, skips, end; "@skips bra end");
                ends.push((end, w.instructions()));
                continue;
            }
            Step::End if condition.take().is_some() => continue,
            Step::Set => {
                let (to, from) = (value(a), value(b));
                match condition {
                    Some(condition) => w.replace_if(condition, to, from),
                    None => w.assign(to, from),
                }
                continue;
            }
            Step::End => {
                let Some((end, before)) = ends.pop() else {
                    unreachable!("parts end after they begin")
                };
                w.are_rare_since(before);
                ptx!(w, end; "end:");
                continue;
            }
            Step::Return => return (value(a), is_right),
            Step::ReturnIf => return (value(a), Some(value(b))),
        };
        values.push(made);
    }
    unreachable!("a recording ends with its result")
}
