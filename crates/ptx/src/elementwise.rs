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
use crate::policy::{POLICY, PerThread};
use crate::writer::{Class, Operand, Writer, entry};
use gpuvec_expr::{Node, Op, Program, Source, Type};

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
        Some(_) => PerThread::OF_PARTS,
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
    let nodes = program.nodes();
    nodes.iter().any(|node| match node.source {
        Source::Op(op) if nodes.len() > 1 + op.arity() => {
            operand_type(program, node) == Type::F32
                && function::length(Type::F32, op) > Some(POLICY.long_function)
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
