//! The kernel of an elementwise program.
//!
//! If some element begins a vector in all arrays, threads take packs of elements from the first such element
//! on, and the elements before and behind the packs singly; else all elements singly.

use crate::Kernel;
use crate::elements::{Array, Elements, element};
use crate::grid::Grid;
use crate::hooks::least_blocks;
use crate::large::Large;
use crate::writer::{Class, Operand, Writer, entry};
use gpuvec_expr::Program;

/// The blocks that a multiprocessor should hold at once.
const BLOCKS: u32 = 2;

/// The elements that each thread of a large grid takes.
#[derive(Clone, Copy)]
struct PerThread {
    /// Elements of a pack, which are computed at once.
    lanes: usize,
    /// Packs, which follow one another.
    packs: usize,
}

impl PerThread {
    /// Chooses both for `instructions` for an element, and `arrays` with elements of up to `bytes`.
    ///
    /// Arrays of 2^29 bytes, GB/s of an H200 with 1, 2 and 8 packs a thread: an add of f32 4363, 4350,
    /// 4281; 20 operations 4104, 4205, 4080; an exponential 3099, 3295, 3418. With two vectors at once
    /// 3981, and of f64 4104 for 3794; sines of f64 2967 for 2274, but cube roots of f32, with 3
    /// instructions more than exponentials, 3154 for 3469.
    fn new(instructions: usize, arrays: usize, bytes: usize) -> PerThread {
        let packs = match instructions / arrays {
            ..6 => 1,
            6..16 => 2,
            _ => 8,
        };
        let (vector, most_of_two) = if bytes <= 4 { (4, 37) } else { (2, 128) };
        let lanes = match instructions {
            _ if packs == 8 && instructions <= most_of_two => 2 * vector,
            ..=128 => vector,
            // More at once would need too many registers.
            129..=256 => 2,
            _ => 1,
        };
        PerThread { lanes, packs }
    }
}

pub(crate) fn kernel(name: &str, program: &Program, large: Option<&Large<'_>>) -> Kernel {
    let writer = Writer::new();
    let elements = Elements::new(program, &writer, large);
    let out = Array::new(&writer, element(program.output()), 'p', 0);
    let n = writer.load_parameter(".u64", Class::B64, 'p', 1);
    let grid = Grid::new(&writer);
    let before = writer.instructions();
    let index = writer.register(Class::B64);
    let single = writer.aside(|| step(&elements, &writer, out, index, 1));
    let instructions = writer.instructions() - before;
    let arrays: Vec<Array> = elements.arrays().chain([out]).collect();
    let widest = arrays.iter().map(|array| array.shift()).max().unwrap_or(0);
    let PerThread { lanes, packs } = match large {
        None => PerThread::new(instructions, arrays.len(), 1 << widest),
        Some(_) => PerThread { lanes: 1, packs: 1 },
    };
    if lanes == 1 {
        grid.for_each(&writer, index, n, || writer.append(&single));
    } else {
        let packs = Packs::new(&writer, &elements, out, n, lanes);
        let i = writer.register(Class::B64);
        grid.for_each(&writer, i, packs.count, || {
            let index = packs.element(&writer, i);
            step(&elements, &writer, out, index, lanes);
        });
        let singles = writer.emit("sub.s64", Class::B64, &[n, packs.elements]);
        grid.for_each(&writer, i, singles, || {
            let behind = writer.emit("add.s64", Class::B64, &[i, packs.elements]);
            let is_before = writer.emit("setp.lt.u64", Class::Predicate, &[i, packs.head]);
            writer.set("selp.b64", index, &[i, behind, is_before]);
            writer.append(&single);
        });
    }
    grid.signal_completion(&writer, 2);
    let mut text = String::with_capacity(32 << 10);
    text.push_str(".version 8.0\n.target sm_60\n.address_size 64\n");
    large.into_iter().for_each(|large| large.functions(&mut text));
    entry(&mut text, name, program.inputs().len());
    text.push_str(".param .u64 p0,\n.param .u64 p1,\n.param .u64 p2\n)\n.reqntid 256\n");
    text.extend([&least_blocks(BLOCKS), "{\n"]);
    large.into_iter().for_each(|large| large.declare(&mut text));
    writer.finish(&mut text);
    Kernel::of_text(name, text, [lanes, packs], BLOCKS)
}

/// Computes and stores elements from an index on.
fn step(elements: &Elements<'_>, writer: &Writer, out: Array, index: Operand, lanes: usize) {
    out.store(writer, index, &elements.results(index, lanes).concat());
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
    fn new(
        writer: &Writer, elements: &Elements<'_>, out: Array, n: Operand, lanes: usize,
    ) -> Packs {
        let arrays = || elements.arrays().chain([out]);
        // The smallest elements have the most places in a vector.
        let reference = arrays().min_by_key(|array| array.shift()).unwrap_or(out);
        let boundary = reference.head(writer, lanes);
        let head = writer.emit("min.u64", Class::B64, &[boundary, n]);
        let past = arrays().map(|array| array.past(writer, head, lanes));
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
