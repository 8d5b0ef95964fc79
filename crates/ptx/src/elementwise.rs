//! The kernel of an elementwise program.
//!
//! If some element begins a vector in all arrays, threads compute several elements at once, in vectors from the first such
//! element on, and the elements before and behind the vectors singly; else all elements singly. (`fast_loop.rs` does so
//! for programs with fast functions.)

use crate::array::Array;
use crate::deferred;
use crate::elements::Elements;
use crate::fast_loop::{self, Shortcut};
use crate::function;
use crate::grid::Grid;
use crate::kernel::{Kernel, elementwise_text};
use crate::operation::operand_type;
use crate::partitioned::PartitionedProgram;
use crate::vectors::Vectors;
use crate::writer::{Class, Operand, Writer, ptx};
use gpuvec_expr::{Node, Op, Program, Source, Type};

/// The elements that each thread of a large grid takes.
#[derive(Clone, Copy)]
struct PerThread {
    /// Elements that are computed at once.
    items: usize,
    /// Tiles: how often the thread does so.
    tiles: usize,
    /// The blocks that a multiprocessor should hold at once: as many as spill no registers.
    blocks: u32,
}

impl PerThread {
    /// Chooses the sizes for `instructions` for an element, and `arrays` with elements of up to `bytes`. `is_fast`:
    /// the program has fast functions, and no instructions of f64. `is_function`: it is a fast function of an array.
    ///
    /// Arrays of 2^29 bytes, GB/s of an H200 with 1, 2 and 8 tiles a thread: an add of f32 4363, 4350,
    /// 4281; 20 operations 4104, 4205, 4080. Shares of a copy's rate on an H100, 2^27 elements, with 8 tiles a
    /// thread, 3 and 2: exponentials of f32 0.952, 0.979, 0.989; logarithms 0.951, 0.982, 0.986; log1p 0.953,
    /// 0.991, 0.914. With one vector at once and two, 2^26 elements: sines of f32 0.925, 0.944; with 5 blocks 0.961
    /// instead of those with 4. With 2 blocks, 3 and 4, of f64: sines 0.847, 0.927, 0.956; exponentials 0.973, 0.977,
    /// 0.984. With one vector of 8 bytes at once and two, an H200, 2^27 elements: copies of f16 0.874, 0.995, an add
    /// 0.994, 1.038, square roots 0.743, 0.924; bools of u8 0.502, 0.738. Functions of f32 alone there, with 4 blocks
    /// and 3 tiles, 5 and 6, 6 and 6: sines 0.80, 0.91, 0.95; inverse cosines 0.74, 0.84, 0.87; exponentials with 5
    /// blocks and 3 tiles 0.98, 6 tiles 0.96.
    fn new(
        instructions: usize, arrays: usize, bytes: usize, is_fast: bool, is_function: bool,
    ) -> PerThread {
        let per_array = instructions / arrays;
        let vector = if bytes <= 4 { 4 } else { 2 };
        let most_of_two = if is_fast || bytes > 4 { 128 } else { 37 };
        let items = match instructions {
            _ if per_array >= 16 && instructions <= most_of_two => 2 * vector,
            // One vector has 8 bytes at the most.
            ..=128 if bytes <= 2 => 2 * vector,
            ..=128 => vector,
            // More at once would need too many registers.
            129..=256 => 2,
            _ => 1,
        };
        let tiles = match per_array {
            ..6 => 1,
            6..16 => 2,
            _ if is_function && instructions >= 60 => 6,
            _ if is_fast && items == 2 * vector => 3,
            _ => 4,
        };
        let blocks = match (instructions, is_function) {
            _ if is_fast && tiles >= 3 && items < 4 => 5,
            _ if tiles < 3 || items < 4 => 2,
            (..=48, _) if is_fast => 5,
            (_, true) => 6,
            _ if is_fast => 4,
            // Error functions of f64, with 100, spill.
            (..=96, _) if arrays == 2 => 4,
            _ => 3,
        };
        PerThread { items, tiles, blocks }
    }

    /// Half as many elements at once: the driver compiles the text in less time.
    ///
    /// An H200, without this and with it: `pow(x, y) + log(x)` is compiled in 75 and 55 ms, and takes 635 and 656
    /// µs for 2^26 elements; `sqrt(x * x + y * y) + atan2(y, x)` 73 and 60 ms, 382 and 404 µs.
    fn halved(self) -> PerThread {
        PerThread { items: (self.items / 2).max(1), blocks: 5, ..self }
    }
}

/// The arrays of a program's outputs.
pub(crate) fn outputs(w: &Writer<'_>, program: &Program) -> Vec<Array> {
    let outputs = program.outputs().iter().enumerate();
    outputs.map(|(number, output)| Array::new(w, output.element, 'p', number)).collect()
}

pub(crate) fn kernel(
    name: &str, program: &Program, partitioned: Option<&PartitionedProgram<'_>>,
) -> Kernel {
    let w = &Writer::new();
    let elements = Elements::new(program, w, partitioned);
    let outputs = outputs(w, program);
    let n = w.load_parameter(".u64", Class::B64, 'p', outputs.len());
    let grid = Grid::new(w);
    let before = w.instructions();
    let index = w.register(Class::B64);
    let single = w.aside(|| step(&elements, &outputs, index, 1));
    let instructions = w.instructions() - before;
    let arrays: Vec<Array> = elements.arrays().chain(outputs.iter().copied()).collect();
    let widest = arrays.iter().map(|array| array.element_bytes()).max().unwrap_or(1);
    let PerThread { items, tiles, blocks } = match partitioned {
        None => {
            let (is_fast, is_function) = (is_fast(program), fast_function(program).is_some());
            let usual = PerThread::new(instructions, arrays.len(), widest, is_fast, is_function);
            match program.nodes() {
                _ if has_long_function(program) => usual.halved(),
                // With fewer blocks the driver's compiler takes more registers for an angle than it needs.
                [_, _, _] if elements.are_tested() && !is_fast => PerThread { blocks: 5, ..usual },
                _ => usual,
            }
        }
        Some(_) => PerThread { items: 1, tiles: 1, blocks: 2 },
    };
    let shortcut = match fast_function(program) {
        Some(op) if items > 1 && function::is_long(op) => Shortcut::Defer,
        _ if has_long_function(program) => Shortcut::None,
        _ => Shortcut::StoreAll,
    };
    let vectors = Vectors { arrays: &arrays, n, items };
    if items == 1 {
        grid.for_each(w, index, n, || w.append(&single));
    } else if elements.are_tested() {
        fast_loop::write(&elements, w, &outputs, &vectors, shortcut);
    } else {
        let head = vectors.head(w);
        let end = vectors.end(w, head);
        grid.for_each_step(w, index, [head, end], items, || {
            step(&elements, &outputs, index, items);
        });
        // After the loop, so that no register holds it meanwhile.
        let in_vectors = ptx!(w, end, head; "sub.s64 in_vectors, end, head");
        let i = w.register(Class::B64);
        grid.for_each_from(w, in_vectors, i, n, || {
            ptx!(w, i, in_vectors, head, index; "
                sub.s64 before, i, in_vectors
                setp.lt.u64 is_before, before, head
                selp.b64 index, before, i, is_before
            ");
            w.append(&single);
        });
    }
    let flags = outputs.len() + 1;
    grid.signal_completion(w, flags);
    let declarations = if shortcut == Shortcut::Defer { deferred::DECLARATION } else { "" };
    let text = elementwise_text(name, program, partitioned, w, declarations, flags, blocks);
    Kernel::of_text(name, text, [items, tiles], blocks)
}

/// Computes and stores elements from an index on. All are computed before the first is stored, since outputs may be
/// inputs. If there are several, the program has no fast functions.
fn step(elements: &Elements<'_>, outputs: &[Array], index: Operand, items: usize) {
    let results = elements.results_from(items, elements.load(index, items), &|_| Vec::new());
    elements.store(outputs, index, &results);
}

/// True for a program with fast functions, and without instructions of f64 except where a fast function is not right.
fn is_fast(program: &Program) -> bool {
    let nodes = program.nodes();
    let function = |node: &Node| match node.source {
        Source::Op(op) => function::is_fast(operand_type(program, node), op),
        _ => None,
    };
    let in_f64 = |node: &Node| node.ty == Type::F64 || function(node) == Some(false);
    !nodes.iter().any(in_f64) && nodes.iter().any(|node| function(node) == Some(true))
}

/// True for a program that has a function with a long text, a power or an angle of f32, and other operations.
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

/// The fast function of an array that a program consists of.
fn fast_function(program: &Program) -> Option<Op> {
    let [input, node] = program.nodes() else { return None };
    let Source::Op(op) = node.source else { return None };
    let is_fast = function::is_fast(operand_type(program, node), op) == Some(true);
    (is_fast && matches!(input.source, Source::Input(_))).then_some(op)
}
