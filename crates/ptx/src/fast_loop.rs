//! The loop of an elementwise program with fast functions.
//!
//! A thread takes a pack of elements at once, which are vectors of all arrays or, before and behind those, elements
//! that are apart: as far from one another as a block has threads. Both are computed by the same code, which is
//! long, and so are the elements for which a fast function is not right.

use crate::BLOCK_THREADS;
use crate::deferred;
use crate::elements::{Array, Elements, Loaded};
use crate::elementwise::{Packs, store};
use crate::writer::{Class, Operand, Writer};

/// The distance between elements that are apart, in the texts below, too.
const APART: i32 = BLOCK_THREADS as i32;

/// The index of the first element that a thread takes at once; the first index that is too large; the distance from
/// one element to the next, 1 in vectors and else `APART`; and the bits of those that are not there, and of the
/// others.
const INDEX: Operand = Operand::Named(&"%index");
const LIMIT: Operand = Operand::Named(&"%limit");
const DISTANCE: Operand = Operand::Named(&"%distance");
const ABSENT: Operand = Operand::Named(&"%absent");
const PRESENT: Operand = Operand::Named(&"%present");

/// The elements that a block takes at once, and those of a thread.
const OF_BLOCK: Operand = Operand::Named(&"%of_block");
const OF_THREAD: Operand = Operand::Named(&"%of_thread");

const REGISTERS: &str = "\
.reg .pred %there, %last, %apart;
.reg .b32 %distance, %absent, %present, %of_block, %of_thread, %block, %in_block;
.reg .b64 %index, %limit, %first, %wide, %n;
";

/// Begins with the elements before the vectors, whose limit is set: a loop with three beginnings. (What is not
/// needed in the loop is computed again, so that no register holds it meanwhile.)
const BEGIN: &str = "\
mov.u32 %block, %ctaid.x;
mul.wide.u32 %index, %block, %of_block;
mov.u32 %in_block, %tid.x;
cvt.u64.u32 %wide, %in_block;
add.s64 %index, %index, %wide;
mov.b32 %distance, 0x100;
setp.lt.u64 %there, %index, %limit;
@%there bra $elements;
bra $next;
$elements:
";

/// Goes on to the thread's next elements, or else to the vectors, or to the end.
const NEXT: &str = "\
mov.u32 %block, %nctaid.x;
mul.wide.u32 %wide, %block, %of_block;
add.s64 %index, %index, %wide;
setp.lt.u64 %there, %index, %limit;
@%there bra $elements;
$next:
setp.eq.s64 %last, %limit, %n;
@%last bra $end_of_elements;
mov.u32 %block, %ctaid.x;
mul.wide.u32 %first, %block, %of_block;
add.s64 %first, %first, %limit;
mov.u32 %in_block, %tid.x;
setp.eq.s32 %apart, %distance, 0x1;
@%apart bra $behind;
mov.b32 %distance, 0x1;
mul.wide.u32 %wide, %in_block, %of_thread;
add.s64 %index, %first, %wide;
";

/// Goes on to the vectors, whose limit is set, or else to the elements behind them.
const REST: &str = "\
setp.lt.u64 %there, %index, %limit;
@%there bra $elements;
bra $next;
$behind:
mov.b32 %distance, 0x100;
cvt.u64.u32 %wide, %in_block;
add.s64 %index, %first, %wide;
mov.b64 %limit, %n;
setp.lt.u64 %there, %index, %limit;
@%there bra $elements;
$end_of_elements:
";

/// Sets the bits of the elements that are not there, and of all others: only those that are apart may be past the
/// limit.
const FIND_ABSENT: &str = "\
sub.s64 %wide, %limit, %index;
min.u64 %wide, %wide, 0xFFFF;
cvt.u32.u64 %absent, %wide;
add.s32 %absent, %absent, 0xFF;
shr.u32 %absent, %absent, 0x8;
mov.b32 %present, 0xFFFFFFFF;
shl.b32 %absent, %present, %absent;
setp.eq.s32 %apart, %distance, 0x1;
selp.b32 %absent, 0x0, %absent, %apart;
xor.b32 %present, %present, %absent;
";

/// A shorter way for the elements of a vector for which a fast function is not right. Without it a thread stores the
/// right ones one by one, and then computes these once more from memory, so that few registers are in use meanwhile.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Shortcut {
    /// Defers them, if there is room in the list.
    Defer,
    /// If it is one, stores the whole vector before it.
    StoreAll,
    /// There is none: the text is compiled sooner.
    None,
}

/// Writes the loop.
pub(crate) fn write(
    elements: &Elements<'_>, writer: &Writer, outputs: &[Array], packs: &Packs<'_>,
    shortcut: Shortcut,
) {
    let defers = shortcut == Shortcut::Defer;
    if defers {
        deferred::begin(writer);
    }
    let body = FastLoop { elements, writer, outputs, lanes: packs.lanes, shortcut };
    let lanes = packs.lanes as i32;
    writer.append(REGISTERS);
    writer.set("mov.b64", Operand::Named(&"%n"), &[packs.n]);
    writer.set("mov.b32", OF_BLOCK, &[Operand::b32(lanes * APART)]);
    writer.set("mov.b32", OF_THREAD, &[Operand::b32(lanes)]);
    writer.set("mov.b64", LIMIT, &[packs.head(writer)]);
    writer.append(BEGIN);
    body.step();
    writer.append(NEXT);
    writer.set("mov.b64", LIMIT, &[packs.end(writer, LIMIT)]);
    writer.append(REST);
    if defers {
        deferred::finish(writer, |place, argument| {
            let exact = elements.exact_results(&elements.loaded([vec![argument]].into_iter()));
            body.store_exact(place, exact);
        });
    }
}

/// The work on the elements that a thread takes at once.
struct FastLoop<'p> {
    elements: &'p Elements<'p>,
    writer: &'p Writer,
    outputs: &'p [Array],
    lanes: usize,
    shortcut: Shortcut,
}

impl FastLoop<'_> {
    /// Computes and stores them: all are computed before the first is stored, since outputs may be inputs.
    fn step(&self) {
        let (elements, writer) = (self.elements, self.writer);
        let (results, rights) = elements.fast_results(self.lanes, &self.load());
        let wrong = elements.wrong(&rights);
        let [whole, apart, again, compute, end] = [(); 5].map(|()| writer.label());
        let [zero, one] = [0, 1].map(Operand::b32);
        let is_zero = |bits| writer.emit("setp.eq.s32", Class::Predicate, &[bits, zero]);
        let or_apart = |bits| {
            let apart = writer.emit("and.b32", Class::B32, &[DISTANCE, Operand::b32(APART)]);
            writer.emit("or.b32", Class::B32, &[bits, apart])
        };
        writer.jump_if(is_zero(or_apart(wrong)), whole);
        let before = writer.instructions();
        let lane = writer.register(Class::B32);
        let raw: Vec<Operand> = elements.arrays().map(|array| array.register(writer)).collect();
        let pass_last = || {
            let bit = writer.emit("shl.b32", Class::B32, &[one, lane]);
            writer.set("xor.b32", wrong, &[wrong, bit]);
            writer.emit("setp.ne.s32", Class::Predicate, &[wrong, zero])
        };
        match self.shortcut {
            Shortcut::Defer => {
                writer.jump_if(self.are_apart(), apart);
                let defer = writer.label();
                writer.place(defer);
                self.load_last(wrong, lane, &raw);
                deferred::add(writer, self.place(lane), self.argument(&raw), apart);
                writer.jump_if(pass_last(), defer);
                writer.jump(whole);
            }
            Shortcut::StoreAll => {
                let less = writer.emit("sub.s32", Class::B32, &[wrong, one]);
                let others = writer.emit("and.b32", Class::B32, &[wrong, less]);
                let is_one = is_zero(or_apart(others));
                writer.jump_if(writer.emit("not.pred", Class::Predicate, &[is_one]), apart);
                self.load_last(wrong, lane, &raw);
                self.store(&results);
                writer.jump(compute);
            }
            Shortcut::None => {}
        }
        writer.place(apart);
        self.store_right(wrong, &results);
        writer.jump_if(is_zero(wrong), end);
        writer.place(again);
        self.load_last(wrong, lane, &raw);
        writer.place(compute);
        self.store_exact(self.place(lane), elements.exact_results(&self.widened(&raw)));
        writer.jump_if(pass_last(), again);
        writer.jump(end);
        writer.are_rare_since(before);
        writer.place(whole);
        self.store(&results);
        writer.place(end);
    }

    fn are_apart(&self) -> Operand {
        self.writer.emit("setp.ne.s32", Class::Predicate, &[DISTANCE, Operand::b32(1)])
    }

    /// Loads the elements: the first one again in place of those that are not there.
    fn load(&self) -> Loaded {
        let writer = self.writer;
        let registers = |array: Array| (0..self.lanes).map(|_| array.register(writer)).collect();
        let raw: Vec<Vec<Operand>> = self.elements.arrays().map(registers).collect();
        let [apart, loaded] = [(); 2].map(|()| writer.label());
        let places = |array: Array| array.place(writer, INDEX);
        let first: Vec<Operand> = self.elements.arrays().map(places).collect();
        writer.jump_if(self.are_apart(), apart);
        for (i, array) in self.elements.arrays().enumerate() {
            array.load_to(writer, first[i], &raw[i]);
        }
        writer.jump(loaded);
        writer.place(apart);
        writer.append(FIND_ABSENT);
        let distances: Vec<Operand> = (0..self.lanes)
            .map(|lane| {
                let distance = Operand::b32(APART * lane as i32);
                let operands = [Operand::b32(0), distance, self.has(ABSENT, lane)];
                writer.emit("selp.b32", Class::B32, &operands)
            })
            .collect();
        for (i, array) in self.elements.arrays().enumerate() {
            for (&raw, &distance) in raw[i].iter().zip(&distances) {
                array.load_to(writer, array.beside(writer, first[i], distance), &[raw]);
            }
        }
        writer.place(loaded);
        self.elements.widened(raw)
    }

    /// Stores the results of a vector.
    fn store(&self, results: &[Vec<Operand>]) {
        store(self.elements, self.writer, self.outputs, INDEX, results);
    }

    /// Stores those that are right, one by one: an output may be an input of those that are wrong. Of elements that
    /// are not there none is wrong then.
    fn store_right(&self, wrong: Operand, results: &[Vec<Operand>]) {
        let writer = self.writer;
        writer.append(FIND_ABSENT);
        let places = |output: &Array| output.place(writer, INDEX);
        let first: Vec<Operand> = self.outputs.iter().map(places).collect();
        let are_left_out = writer.emit("or.b32", Class::B32, &[wrong, ABSENT]);
        for (lane, values) in results.iter().enumerate() {
            let skip = writer.label();
            writer.jump_if(self.has(are_left_out, lane), skip);
            let distance = self.distance(Operand::b32(lane as i32));
            for (i, is_canonical) in self.elements.are_canonical().enumerate() {
                let place = self.outputs[i].beside(writer, first[i], distance);
                self.outputs[i].store_to(writer, place, &values[i..=i], is_canonical);
            }
            writer.place(skip);
        }
        writer.set("and.b32", wrong, &[wrong, PRESENT]);
    }

    /// Says whether the bit of a lane is set.
    fn has(&self, bits: Operand, lane: usize) -> Operand {
        let (writer, zero) = (self.writer, Operand::b32(0));
        let bit = writer.emit("and.b32", Class::B32, &[bits, Operand::b32(1 << lane)]);
        writer.emit("setp.ne.s32", Class::Predicate, &[bit, zero])
    }

    /// The distance of an element from the first one.
    fn distance(&self, lane: Operand) -> Operand {
        self.writer.emit("mul.lo.s32", Class::B32, &[DISTANCE, lane])
    }

    /// The index of the element of a lane.
    fn place(&self, lane: Operand) -> Operand {
        let distance = self.distance(lane);
        let distance = self.writer.emit("cvt.u64.u32", Class::B64, &[distance]);
        self.writer.emit("add.s64", Class::B64, &[INDEX, distance])
    }

    /// Loads the inputs of the last element that is wrong, and its lane.
    fn load_last(&self, wrong: Operand, lane: Operand, raw: &[Operand]) {
        self.writer.set("bfind.u32", lane, &[wrong]);
        let place = self.place(lane);
        for (array, &raw) in self.elements.arrays().zip(raw) {
            array.load_to(self.writer, array.place(self.writer, place), &[raw]);
        }
    }

    /// Stores the results of the element at a place, which were computed without fast functions.
    fn store_exact(&self, place: Operand, exact: Vec<Operand>) {
        for (output, value) in self.outputs.iter().zip(exact) {
            output.store(self.writer, place, &[value], false);
        }
    }

    /// The argument of a function, from the element of its array.
    fn argument(&self, raw: &[Operand]) -> Operand {
        self.widened(raw)[0].1[0]
    }

    fn widened(&self, raw: &[Operand]) -> Loaded {
        self.elements.widened(raw.iter().map(|&raw| vec![raw]).collect())
    }
}
