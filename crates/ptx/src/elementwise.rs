//! The kernel of an elementwise program.
//!
//! If some element begins a vector in all arrays, threads take packs of elements from the first such element
//! on, and the elements before and behind the packs singly; else all elements singly.

use crate::Kernel;
use crate::elements::{Array, Elements};
use crate::function::{self, Tables};
use crate::grid::Grid;
use crate::hooks::least_blocks;
use crate::large::Large;
use crate::operation::operand_type;
use crate::writer::{Class, Operand, Writer, entry};
use gpuvec_expr::{Node, Program, Source, Type};

/// The elements that each thread of a large grid takes.
#[derive(Clone, Copy)]
struct PerThread {
    /// Elements of a pack, which are computed at once.
    lanes: usize,
    /// Packs, which follow one another.
    packs: usize,
    /// The blocks that a multiprocessor should hold at once: as many as spill no registers.
    blocks: u32,
}

impl PerThread {
    /// Chooses them for `instructions` for an element, and `arrays` with elements of up to `bytes`; `is_fast` if
    /// there are fast functions, and no instructions of f64.
    ///
    /// Arrays of 2^29 bytes, GB/s of an H200 with 1, 2 and 8 packs a thread: an add of f32 4363, 4350,
    /// 4281; 20 operations 4104, 4205, 4080. Shares of a copy's rate on an H100, 2^27 elements, with 8 packs a
    /// thread, 3 and 2: exponentials of f32 0.952, 0.979, 0.989; logarithms 0.951, 0.982, 0.986; log1p 0.953,
    /// 0.991, 0.914. With one vector at once and two, 2^26 elements: sines of f32 0.925, 0.944; with 5 blocks 0.961
    /// instead of those with 4. With 2 blocks, 3 and 4, of f64: sines 0.847, 0.927, 0.956; exponentials 0.973, 0.977,
    /// 0.984. With one vector of 8 bytes at once and two, an H200, 2^27 elements: copies of f16 0.874, 0.995, an add
    /// 0.994, 1.038, square roots 0.743, 0.924; bools of u8 0.502, 0.738.
    fn new(instructions: usize, arrays: usize, bytes: usize, is_fast: bool) -> PerThread {
        let per_array = instructions / arrays;
        let vector = if bytes <= 4 { 4 } else { 2 };
        let most_of_two = if is_fast || bytes > 4 { 128 } else { 37 };
        let lanes = match instructions {
            _ if per_array >= 16 && instructions <= most_of_two => 2 * vector,
            // One vector has 8 bytes at the most.
            ..=128 if bytes <= 2 => 2 * vector,
            ..=128 => vector,
            // More at once would need too many registers.
            129..=256 => 2,
            _ => 1,
        };
        let packs = match per_array {
            ..6 => 1,
            6..16 => 2,
            _ if is_fast && lanes == 2 * vector => 3,
            _ => 4,
        };
        let blocks = match instructions {
            _ if packs < 3 || lanes < 4 => 2,
            // Logarithms, with 50, spill on Volta.
            ..=48 if is_fast => 5,
            _ if is_fast => 4,
            // Error functions of f64, with 100, spill.
            ..=96 if arrays == 2 => 4,
            _ => 3,
        };
        PerThread { lanes, packs, blocks }
    }
}

pub(crate) fn kernel(name: &str, program: &Program, large: Option<&Large<'_>>) -> Kernel {
    let writer = Writer::new();
    let elements = Elements::new(program, &writer, large);
    let outputs: Vec<Array> = program
        .outputs()
        .iter()
        .enumerate()
        .map(|(number, output)| Array::new(&writer, output.element, 'p', number))
        .collect();
    let n = writer.load_parameter(".u64", Class::B64, 'p', outputs.len());
    let grid = Grid::new(&writer);
    let before = writer.instructions();
    let index = writer.register(Class::B64);
    let single = writer.aside(|| step(&elements, &writer, &outputs, index, 1));
    let instructions = writer.instructions() - before;
    let arrays: Vec<Array> = elements.arrays().chain(outputs.iter().copied()).collect();
    let widest = arrays.iter().map(|array| array.shift()).max().unwrap_or(0);
    let PerThread { lanes, packs, blocks } = match large {
        None => PerThread::new(instructions, arrays.len(), 1 << widest, is_fast(program)),
        Some(_) => PerThread { lanes: 1, packs: 1, blocks: 2 },
    };
    if lanes == 1 {
        grid.for_each(&writer, index, n, || writer.append(&single));
    } else {
        let packs = Packs::new(&writer, &arrays, n, lanes);
        let i = writer.register(Class::B64);
        grid.for_each(&writer, i, packs.count, || {
            let index = packs.element(&writer, i);
            step(&elements, &writer, &outputs, index, lanes);
        });
        let singles = writer.emit("sub.s64", Class::B64, &[n, packs.elements]);
        grid.for_each(&writer, i, singles, || {
            let behind = writer.emit("add.s64", Class::B64, &[i, packs.elements]);
            let is_before = writer.emit("setp.lt.u64", Class::Predicate, &[i, packs.head]);
            writer.set("selp.b64", index, &[i, behind, is_before]);
            writer.append(&single);
        });
    }
    let flags = outputs.len() + 1;
    grid.signal_completion(&writer, flags);
    let text = whole(name, program, large, writer, "", flags, blocks);
    Kernel::of_text(name, text, [lanes, packs], blocks)
}

/// The text of a kernel with this code and these declarations. Behind the parameters of inputs it has those up to the number of the last.
pub(crate) fn whole(
    name: &str, program: &Program, large: Option<&Large<'_>>, code: Writer, declarations: &str,
    last: usize, blocks: u32,
) -> String {
    let mut text = String::with_capacity(32 << 10);
    text.push_str(".version 8.0\n.target sm_60\n.address_size 64\n");
    let tables = Tables::of(program);
    tables.declare(&mut text);
    large.into_iter().for_each(|large| large.functions(&mut text));
    entry(&mut text, name, program.inputs().len(), 0);
    for number in 0..last {
        text.extend([".param .u64 p", &number.to_string(), ",\n"]);
    }
    text.extend([".param .u64 p", &last.to_string(), "\n)\n.reqntid 256\n"]);
    text.extend([&least_blocks(blocks), "{\n"]);
    tables.copy(&mut text);
    large.into_iter().for_each(|large| large.declare(&mut text));
    text.push_str(declarations);
    code.finish(&mut text);
    text
}

/// Says whether a program has fast functions, and no instructions of f64 beside what they leave to these.
fn is_fast(program: &Program) -> bool {
    let nodes = program.nodes();
    let function = |node: &Node| match node.source {
        Source::Op(op) => function::is_fast(operand_type(program, node), op),
        _ => None,
    };
    let in_f64 = |node: &Node| node.ty == Type::F64 || function(node) == Some(false);
    !nodes.iter().any(in_f64) && nodes.iter().any(|node| function(node) == Some(true))
}

/// Computes and stores elements from an index on: all are computed before the first is stored, since outputs
/// may be inputs.
fn step(elements: &Elements<'_>, writer: &Writer, outputs: &[Array], index: Operand, lanes: usize) {
    let results = elements.results(index, lanes);
    for (number, (output, is_canonical)) in outputs.iter().zip(elements.are_canonical()).enumerate()
    {
        let values: Vec<Operand> = results.iter().map(|of_lane| of_lane[number]).collect();
        output.store(writer, index, &values, is_canonical);
    }
}

/// The packs of elements.
struct Packs {
    /// Elements before the first pack.
    head: Operand,
    count: Operand,
    /// Elements of all packs.
    elements: Operand,
    lanes: usize,
}

impl Packs {
    fn new(writer: &Writer, arrays: &[Array], n: Operand, lanes: usize) -> Packs {
        // The smallest elements have the most places in a vector.
        let reference = arrays.iter().min_by_key(|array| array.shift());
        let boundary = reference.map_or(n, |array| array.head(writer, lanes));
        let head = writer.emit("min.u64", Class::B64, &[boundary, n]);
        let past = arrays.iter().map(|array| array.past(writer, head, lanes));
        let past = past.reduce(|a, b| writer.emit("or.b64", Class::B64, &[a, b])).unwrap_or(n);
        let aligned = writer.emit("setp.eq.s64", Class::Predicate, &[past, Operand::b64(0)]);
        let rest = writer.emit("sub.s64", Class::B64, &[n, head]);
        let shift = Operand::b32(lanes.ilog2() as i32);
        let packs = writer.emit("shr.u64", Class::B64, &[rest, shift]);
        let count = writer.emit("selp.b64", Class::B64, &[packs, Operand::b64(0), aligned]);
        let elements = writer.emit("shl.b64", Class::B64, &[count, shift]);
        Packs { head, count, elements, lanes }
    }

    /// The first element of a pack.
    fn element(&self, writer: &Writer, pack: Operand) -> Operand {
        let shift = Operand::b32(self.lanes.ilog2() as i32);
        let offset = writer.emit("shl.b64", Class::B64, &[pack, shift]);
        writer.emit("add.s64", Class::B64, &[self.head, offset])
    }
}
