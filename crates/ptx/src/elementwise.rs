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
use crate::policy::{LONG_FUNCTION, PerThread};
use crate::vectors::Vectors;
use crate::writer::{Class, Operand, Writer, ptx};
use gpuvec_expr::{Node, Op, Program, Source, Type};

/// The arrays of a program's outputs.
pub(crate) fn outputs(w: &Writer<'_>, program: &Program) -> Vec<Array> {
    let outputs = program.outputs().iter().enumerate();
    outputs.map(|(number, output)| Array::new(w, output.element, &"p", number)).collect()
}

pub(crate) fn kernel(
    name: &str, program: &Program, partitioned: Option<&PartitionedProgram<'_>>,
) -> Kernel {
    let w = &Writer::new();
    let elements = Elements::new(program, w, partitioned);
    let outputs = outputs(w, program);
    let n = w.parameter(&"p", outputs.len());
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
        Some(_) => PerThread::OF_PARTS,
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
    let nodes = program.nodes();
    nodes.iter().any(|node| match node.source {
        Source::Op(op) if nodes.len() > 1 + op.arity() => {
            operand_type(program, node) == Type::F32
                && function::length(Type::F32, op) > Some(LONG_FUNCTION)
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
