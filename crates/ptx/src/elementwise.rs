//! The kernel of an elementwise program.
//!
//! If some element begins a vector in all arrays, threads take packs of elements from the first such element
//! on, and the elements before and behind the packs singly; else all elements singly. (For fast functions:
//! `fast_loop.rs`.)

use crate::Kernel;
use crate::deferred;
use crate::elements::{Array, Elements};
use crate::fast_loop::{self, Shortcut};
use crate::function::{self, Tables};
use crate::grid::Grid;
use crate::hooks::least_blocks;
use crate::large::Large;
use crate::operation::operand_type;
use crate::writer::{Class, Operand, Writer, entry};
use gpuvec_expr::{Node, Op, Program, Source, Type};

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
    /// there are fast functions, and no instructions of f64; `is_function` if the program is a fast one of an array.
    ///
    /// Arrays of 2^29 bytes, GB/s of an H200 with 1, 2 and 8 packs a thread: an add of f32 4363, 4350,
    /// 4281; 20 operations 4104, 4205, 4080. Shares of a copy's rate on an H100, 2^27 elements, with 8 packs a
    /// thread, 3 and 2: exponentials of f32 0.952, 0.979, 0.989; logarithms 0.951, 0.982, 0.986; log1p 0.953,
    /// 0.991, 0.914. With one vector at once and two, 2^26 elements: sines of f32 0.925, 0.944; with 5 blocks 0.961
    /// instead of those with 4. With 2 blocks, 3 and 4, of f64: sines 0.847, 0.927, 0.956; exponentials 0.973, 0.977,
    /// 0.984. With one vector of 8 bytes at once and two, an H200, 2^27 elements: copies of f16 0.874, 0.995, an add
    /// 0.994, 1.038, square roots 0.743, 0.924; bools of u8 0.502, 0.738. Functions of f32 alone there, with 4 blocks
    /// and 3 packs, 5 and 6, 6 and 6: sines 0.80, 0.91, 0.95; inverse cosines 0.74, 0.84, 0.87; exponentials with 5
    /// blocks and 3 packs 0.98, 6 packs 0.96.
    fn new(
        instructions: usize, arrays: usize, bytes: usize, is_fast: bool, is_function: bool,
    ) -> PerThread {
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
            _ if is_function && instructions >= 60 => 6,
            _ if is_fast && lanes == 2 * vector => 3,
            _ => 4,
        };
        let blocks = match (instructions, is_function) {
            _ if is_fast && packs >= 3 && lanes < 4 => 5,
            _ if packs < 3 || lanes < 4 => 2,
            (..=48, _) if is_fast => 5,
            (_, true) => 6,
            _ if is_fast => 4,
            // Error functions of f64, with 100, spill.
            (..=96, _) if arrays == 2 => 4,
            _ => 3,
        };
        PerThread { lanes, packs, blocks }
    }

    /// Half as many elements at once: the driver compiles the text in less time.
    ///
    /// An H200, without this and with it: `pow(x, y) + log(x)` is compiled in 75 and 55 ms, and takes 635 and 656
    /// µs for 2^26 elements; `sqrt(x * x + y * y) + atan2(y, x)` 73 and 60 ms, 382 and 404 µs.
    fn halved(self) -> PerThread {
        PerThread { lanes: (self.lanes / 2).max(1), packs: self.packs, blocks: 5 }
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
        None => {
            let (is_fast, is_function) = (is_fast(program), fast_function(program).is_some());
            let usual =
                PerThread::new(instructions, arrays.len(), 1 << widest, is_fast, is_function);
            match program.nodes() {
                _ if has_long_function(program) => usual.halved(),
                // With fewer blocks the driver's compiler takes more registers for an angle than it needs.
                [_, _, _] if elements.are_tested() && !is_fast => PerThread { blocks: 5, ..usual },
                _ => usual,
            }
        }
        Some(_) => PerThread { lanes: 1, packs: 1, blocks: 2 },
    };
    let shortcut = match fast_function(program) {
        Some(op) if lanes > 1 && function::is_long(op) => Shortcut::Defer,
        _ if has_long_function(program) => Shortcut::None,
        _ => Shortcut::StoreAll,
    };
    let packed = Packs { arrays: &arrays, n, lanes };
    if lanes == 1 {
        grid.for_each(&writer, index, n, || writer.append(&single));
    } else if elements.are_tested() {
        fast_loop::write(&elements, &writer, &outputs, &packed, shortcut);
    } else {
        let head = packed.head(&writer);
        let end = packed.end(&writer, head);
        grid.for_each_pack(&writer, index, [head, end], lanes, || {
            step(&elements, &writer, &outputs, index, lanes);
        });
        // After the loop, so that no register holds it meanwhile.
        let in_packs = writer.emit("sub.s64", Class::B64, &[end, head]);
        let i = writer.register(Class::B64);
        grid.for_each_from(&writer, in_packs, i, n, || {
            let before = writer.emit("sub.s64", Class::B64, &[i, in_packs]);
            let is_before = writer.emit("setp.lt.u64", Class::Predicate, &[before, head]);
            writer.set("selp.b64", index, &[before, i, is_before]);
            writer.append(&single);
        });
    }
    let flags = outputs.len() + 1;
    grid.signal_completion(&writer, flags);
    let declarations = if shortcut == Shortcut::Defer { deferred::DECLARATION } else { "" };
    let text = whole(name, program, large, writer, declarations, flags, blocks);
    Kernel::of_text(name, text, [lanes, packs], blocks)
}

/// The text of a kernel with this code and these declarations. Behind the parameters of inputs it has those up to
/// the number of the last.
pub(crate) fn whole(
    name: &str, program: &Program, large: Option<&Large<'_>>, code: Writer, declarations: &str,
    last: usize, blocks: u32,
) -> String {
    let mut text = String::with_capacity(32 << 10);
    text.push_str(".version 8.0\n.target sm_60\n.address_size 64\n");
    let tables = Tables::of(program, large.is_some());
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

/// Says whether a program has a function with a long text, beside other operations: a power or an angle of f32.
fn has_long_function(program: &Program) -> bool {
    const LONG: usize = 256;
    let nodes = program.nodes();
    nodes.iter().any(|node| match node.source {
        Source::Op(op) if nodes.len() > 1 + op.arity() => {
            operand_type(program, node) == Type::F32 && function::length(Type::F32, op) > Some(LONG)
        }
        _ => false,
    })
}

/// The fast function that a program is, if it is one of an array.
fn fast_function(program: &Program) -> Option<Op> {
    let [input, node] = program.nodes() else { return None };
    let Source::Op(op) = node.source else { return None };
    let is_fast = function::is_fast(operand_type(program, node), op) == Some(true);
    (is_fast && matches!(input.source, Source::Input(_))).then_some(op)
}

/// Computes and stores elements from an index on: all are computed before the first is stored, since outputs
/// may be inputs. Several have no fast functions.
fn step(elements: &Elements<'_>, writer: &Writer, outputs: &[Array], index: Operand, lanes: usize) {
    let results = elements.results_from(lanes, elements.load(index, lanes), &|_| Vec::new());
    store(elements, writer, outputs, index, &results);
}

/// Stores the results of elements from an index on.
pub(crate) fn store(
    elements: &Elements<'_>, writer: &Writer, outputs: &[Array], index: Operand,
    results: &[Vec<Operand>],
) {
    for (number, (output, is_canonical)) in outputs.iter().zip(elements.are_canonical()).enumerate()
    {
        let values: Vec<Operand> = results.iter().map(|of_lane| of_lane[number]).collect();
        output.store(writer, index, &values, is_canonical);
    }
}

/// The packs of elements of arrays.
pub(crate) struct Packs<'p> {
    pub(crate) arrays: &'p [Array],
    /// The number of elements.
    pub(crate) n: Operand,
    /// The elements of a pack.
    pub(crate) lanes: usize,
}

impl Packs<'_> {
    /// The first element in a pack, if there are packs.
    pub(crate) fn head(&self, writer: &Writer) -> Operand {
        // The smallest elements have the most places in a vector.
        let reference = self.arrays.iter().min_by_key(|array| array.shift());
        let boundary = reference.map_or(self.n, |array| array.head(writer, self.lanes));
        writer.emit("min.u64", Class::B64, &[boundary, self.n])
    }

    /// The first element behind all packs. The first pack begins at `head`.
    pub(crate) fn end(&self, writer: &Writer, head: Operand) -> Operand {
        let past = self.arrays.iter().map(|array| array.past(writer, head, self.lanes));
        let past = past.reduce(|a, b| writer.emit("or.b64", Class::B64, &[a, b])).unwrap_or(self.n);
        let aligned = writer.emit("setp.eq.s64", Class::Predicate, &[past, Operand::b64(0)]);
        let rest = writer.emit("sub.s64", Class::B64, &[self.n, head]);
        let whole = Operand::b64(-(self.lanes as i64));
        let in_packs = writer.emit("and.b64", Class::B64, &[rest, whole]);
        let past = writer.emit("add.s64", Class::B64, &[head, in_packs]);
        writer.emit("selp.b64", Class::B64, &[past, head, aligned])
    }
}
