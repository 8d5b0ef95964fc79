//! The kernels of reductions: compiled frames, in which words in capitals stand for what depends on the
//! expression (kernels/expression.cu).

use crate::Kernel;
use crate::elements::{Elements, STEP};
use crate::fold::Fold;
use crate::hooks::{BLOCKS, ENTRY, Hook};
use crate::large::Large;
use crate::writer::{Class, Operand, Writer, entry};
use gpuvec_expr::{Program, Reduction, Type};

/// Elements of a thread in a batch of a fold (kernels/expression.cu).
const FOLD_ELEMENTS: usize = 16;

/// Limits of a loop's body: the bytes that a thread reads in it, and its instructions.
const MOST_BYTES: usize = 64;
const MOST_INSTRUCTIONS: usize = 512;

/// The blocks for each multiprocessor that sums without a loop and with at most [`MOST_INSTRUCTIONS_OF_SMALL`]
/// instructions ask the driver for, in place of [`BLOCKS`]: they need fewer registers.
const BLOCKS_OF_SMALL: &str = ".minnctapersm 4\n";
const MOST_INSTRUCTIONS_OF_SMALL: usize = 256;

/// The name of the compiled kernel that a program's reduction needs: an image of kernels/ptx.
#[must_use]
pub fn frame(program: &Program) -> Option<&'static str> {
    let reduction = program.reduction()?;
    Some(match (reduction, operand_type(program)) {
        (Reduction::Sum | Reduction::Mean, Type::F32) => "expression_sum_f32",
        (Reduction::Sum | Reduction::Mean, Type::F64) => "expression_sum_f64",
        (Reduction::Dot | Reduction::Norm, Type::F32) => "expression_dot_f32",
        (Reduction::Dot | Reduction::Norm, Type::F64) => "expression_dot_f64",
        _ => "expression_fold",
    })
}

/// The type of what is reduced.
fn operand_type(program: &Program) -> Type {
    let first = program.results().first().map(|&id| program.nodes()[usize::from(id)].ty);
    first.unwrap_or(program.output())
}

pub(crate) fn kernel(
    name: &str, program: &Program, reduction: Reduction, frame: &str, large: Option<&Large<'_>>,
) -> Kernel {
    let fold = Fold::new(reduction, operand_type(program));
    let mut text = String::with_capacity(frame.len() + (32 << 10));
    let mut is_small = false;
    for line in frame.split_inclusive('\n') {
        if line.starts_with(ENTRY) {
            large.into_iter().for_each(|large| large.functions(&mut text));
            entry(&mut text, name, program.inputs().len());
            continue;
        }
        let Some((hook, operands)) = Hook::of(line) else {
            text.push_str(line);
            continue;
        };
        match (hook, &operands[..]) {
            (Hook::Elements, _) => {
                is_small = elements(&mut text, program, large, fold, &operands);
            }
            (Hook::Finish, [result, ..]) => {
                let what = match reduction {
                    Reduction::Mean => "1",
                    Reduction::Norm => "2",
                    _ => "0",
                };
                text.extend(["mov.u32 ", result, ", ", what, ";\n"]);
            }
            _ => fill(&mut text, &fold.lines(hook), &operands),
        }
    }
    if is_small {
        text = text.replacen(BLOCKS, BLOCKS_OF_SMALL, 1);
    }
    Kernel::of_text(name, text, [FOLD_ELEMENTS, 1])
}

/// Adds lines in which digits in braces stand for operands.
fn fill(text: &mut String, lines: &str, operands: &[&str]) {
    for part in lines.split_inclusive('}') {
        let place = part.strip_suffix('}').and_then(|part| part.rsplit_once('{'));
        match place.and_then(|(before, digit)| Some((before, digit.parse::<usize>().ok()?))) {
            Some((before, place)) => {
                text.push_str(before);
                text.push_str(operands.get(place).copied().unwrap_or_default());
            }
            None => text.push_str(part),
        }
    }
}

/// Adds the instructions for a thread's elements. Operands are the results, of dot products those of the
/// second factor behind those of the first, the index of the first element, and the number of elements.
///
/// The comments are for the emulator. Returns whether it is a sum that needs few registers.
fn elements(
    text: &mut String, program: &Program, large: Option<&Large<'_>>, fold: Fold, operands: &[&str],
) -> bool {
    let [results @ .., first, count] = operands else { return false };
    let writer = Writer::new();
    let [index, count] = [first, count].map(|outer| writer.move_from(outer));
    let reduction = fold.reduction();
    let len = match reduction {
        _ if !fold.is_exact() => FOLD_ELEMENTS,
        Reduction::Dot | Reduction::Norm => results.len() / 2,
        _ => results.len(),
    };
    let batch = Batch::new(program, large, &writer, [index, count], len);
    if fold.is_exact() {
        batch.for_each(|group| {
            for (k, results) in results.chunks(len).enumerate() {
                // Results move up where a loop has several groups.
                let (kept, new) = results.split_at(len - group.len());
                for (to, from) in kept.iter().zip(&results[group.len()..]) {
                    writer.move_between(to, from, Class::of(operand_type(program)));
                }
                for (outer, element) in new.iter().zip(group) {
                    // A norm's value is both factors.
                    writer.move_to(outer, element.values[k.min(element.values.len() - 1)]);
                }
            }
        });
    } else if let [value, place] = results {
        let state = fold.begin(&writer, batch.distance(Operand::b32(0)));
        batch.for_each(|group| {
            group.iter().for_each(|element| fold.add(&writer, state, element));
        });
        let [word, distance] = fold.words(&writer, state);
        writer.move_to(value, word);
        writer.move_to(place, writer.emit("add.s64", Class::B64, &[index, distance]));
    }
    let is_small = batch.is_small;
    let (len, ty) = (len.to_string(), operand_type(program).name());
    text.extend(["// ", &len, " elements of ", reduction.name(), " ", ty, ": "]);
    text.extend([&operands.join(" "), "\n{\n"]);
    large.into_iter().for_each(|large| large.declare(text));
    writer.finish(text);
    text.push_str("}\n// end\n");
    is_small
}

/// An element of a batch.
pub(crate) struct Element {
    /// The distance from the first one, at most that of the last element of all.
    pub(crate) distance: Operand,
    /// A predicate: false past the end, where the last element stands in.
    pub(crate) is_there: Operand,
    /// The values that the reduction takes: two for a dot product, else one.
    pub(crate) values: Vec<Operand>,
}

/// The elements that a thread takes.
struct Batch<'p> {
    writer: &'p Writer,
    elements: Elements<'p>,
    /// The distance from the first element to the last one of all, at most the last one of the batch.
    last: Operand,
    len: usize,
    /// Elements of a turn of the loop.
    group: usize,
    /// True for a batch without a loop and with few instructions.
    is_small: bool,
}

impl<'p> Batch<'p> {
    fn new(
        program: &'p Program, large: Option<&'p Large<'p>>, writer: &'p Writer,
        [index, count]: [Operand; 2], len: usize,
    ) -> Self {
        let emit = |name, operands: &[Operand]| writer.emit(name, Class::B64, operands);
        let last = emit("sub.s64", &[count, Operand::b64(1)]);
        let last = emit("sub.s64", &[last, index]);
        let last = emit("min.s64", &[last, Operand::b64(i64::from(STEP) * (len as i64 - 1))]);
        let last = writer.emit("cvt.u32.u64", Class::B32, &[last]);
        let elements = Elements::new(program, writer, large).from(index);
        let before = writer.instructions();
        writer.aside(|| drop(elements.results_at(last, &[last], None)));
        let instructions = writer.instructions() - before;
        let bytes: usize = elements.arrays().map(|array| 4.max(1 << array.shift())).sum();
        let fits = |group: &usize| {
            large.is_none()
                && group * bytes <= MOST_BYTES
                && group * instructions <= MOST_INSTRUCTIONS
        };
        let halves = |group: &usize| Some(group / 2).filter(|&half| half > 0);
        let group = std::iter::successors(Some(len), halves).find(fits).unwrap_or(1);
        let is_small = group == len && group * instructions <= MOST_INSTRUCTIONS_OF_SMALL;
        Batch { writer, elements, last, len, group, is_small }
    }

    fn distance(&self, of_place: Operand) -> Operand {
        self.writer.emit("min.s32", Class::B32, &[of_place, self.last])
    }

    /// Does something with the elements, some at once.
    fn for_each(&self, mut body: impl FnMut(&[Element])) {
        let writer = self.writer;
        let start = writer.emit("mov.b32", Class::B32, &[Operand::b32(0)]);
        let again = writer.label();
        writer.place(again);
        let places: Vec<Operand> = (0..self.group as i32)
            .map(|k| match k {
                0 => start,
                _ => writer.emit("add.s32", Class::B32, &[start, Operand::b32(k * STEP)]),
            })
            .collect();
        let distances: Vec<Operand> = places.iter().map(|&place| self.distance(place)).collect();
        let end = places[self.group - 1];
        let is_whole = writer.emit("setp.le.s32", Class::Predicate, &[end, self.last]);
        let results = self.elements.results_at(start, &distances, Some(is_whole));
        let element = |(k, values): (usize, Vec<Operand>)| Element {
            distance: distances[k],
            is_there: writer.emit("setp.le.s32", Class::Predicate, &[places[k], self.last]),
            values,
        };
        body(&results.into_iter().enumerate().map(element).collect::<Vec<_>>());
        if self.group < self.len {
            let next = Operand::b32(self.group as i32 * STEP);
            writer.set("add.s32", start, &[start, next]);
            let end = Operand::b32(self.len as i32 * STEP);
            let more = writer.emit("setp.lt.s32", Class::Predicate, &[start, end]);
            writer.jump_if(more, again);
        }
    }
}
