//! The kernels of reductions: compiled frames, in which words in capitals stand for what depends on the
//! expression (kernels/elements.cuh).

use crate::Kernel;
use crate::axes::{self, Along, Spread};
use crate::elements::{Elements, STEP};
use crate::fold::Fold;
use crate::function::Tables;
use crate::hooks::{ALONG_AXES, BLOCKS, ENTRY, Hook, least_blocks};
use crate::large::Large;
use crate::policy::POLICY;
use crate::writer::{Class, Operand, Writer, entry};
use gpuvec_expr::{Program, Reduction, Type};

/// Elements of a thread in a batch of a fold (kernels/elements.cuh).
const FOLD_ELEMENTS: usize = 16;

/// Limits of a loop's body: the bytes that a thread reads in it, and its instructions.
const MOST_BYTES: usize = POLICY.body_bytes;
const MOST_INSTRUCTIONS: usize = POLICY.body_instructions;

/// The most instructions of a turn after which a kernel may ask the driver for more blocks on each multiprocessor
/// than [`BLOCKS`]: it needs fewer registers than others.
const MOST_INSTRUCTIONS_OF_SMALL: usize = POLICY.small_body;

/// The name of the compiled kernel that a program's reduction needs: an image of kernels/ptx.
#[must_use]
pub fn frame(program: &Program) -> Option<&'static str> {
    Some(match program.reduction()? {
        (Reduction::Sum | Reduction::Mean, Type::F32) => "sum_f32",
        (Reduction::Sum | Reduction::Mean, Type::F64) => "sum_f64",
        (Reduction::Dot, Type::F32) => "dot_f32",
        (Reduction::Dot, Type::F64) => "dot_f64",
        (Reduction::Norm, Type::F32) => "norm_f32",
        (Reduction::Norm, Type::F64) => "norm_f64",
        _ => "fold",
    })
}

/// The name of the compiled kernel of a program's reduction along axes.
#[must_use]
pub fn axes_frame(program: &Program) -> Option<String> {
    frame(program).map(|name| format!("{ALONG_AXES}{name}"))
}

pub(crate) fn kernel(
    name: &str, program: &Program, fold: Fold, frame: &str, large: Option<&Large<'_>>,
    along: Option<Along>,
) -> Kernel {
    let mut text = String::with_capacity(frame.len() + (32 << 10));
    let tables = Tables::of(program, large.is_some());
    let (mut is_small, mut is_in_entry) = (false, false);
    for line in frame.split_inclusive('\n') {
        if line.starts_with(ENTRY) {
            tables.declare(&mut text);
            large.into_iter().for_each(|large| large.functions(&mut text));
            let declared = program.inputs().len();
            let of_shape = along.map_or(0, |along| along.parameters(declared));
            entry(&mut text, name, declared, of_shape);
            is_in_entry = true;
            continue;
        }
        let Some((hook, operands)) = Hook::of(line) else {
            text.push_str(line);
            if is_in_entry && line == "{\n" {
                tables.copy(&mut text);
                is_in_entry = false;
            }
            continue;
        };
        match (hook, &operands[..]) {
            (Hook::Elements, _) => {
                is_small = elements(&mut text, program, large, fold, along, &operands);
            }
            (Hook::Whole, _) => {
                along
                    .into_iter()
                    .for_each(|along| whole(&mut text, program, large, along, &operands));
            }
            (Hook::Place, _) => {
                along.into_iter().for_each(|along| along.place(&mut text, program, &operands));
            }
            (Hook::Finish, [result, ..]) => {
                let what = match fold.reduction() {
                    Reduction::Mean => "1",
                    Reduction::Norm => "2",
                    _ => "0",
                };
                text.extend(["mov.u32 ", result, ", ", what, ";\n"]);
            }
            _ => fill(&mut text, &fold.lines(hook), &operands),
        }
    }
    let blocks = match along {
        None => blocks(fold, is_small),
        Some(along) if is_small => along.blocks_per_multiprocessor(program),
        Some(_) => BLOCKS_ALONG,
    };
    let text = text.replacen(&least_blocks(BLOCKS), &least_blocks(blocks), 1);
    Kernel::of_text(name, text, [FOLD_ELEMENTS, 1], blocks)
}

/// The blocks that a multiprocessor should hold at once of any reduction along axes: more would leave too few
/// registers for the addresses.
pub(crate) const BLOCKS_ALONG: u32 = POLICY.blocks_with_addresses;

/// The blocks that a multiprocessor should hold at once: with one more, some architecture would spill registers.
fn blocks(fold: Fold, is_small: bool) -> u32 {
    if is_small && !adds_f64_products(fold.reduction(), fold.ty()) { BLOCKS + 1 } else { BLOCKS }
}

/// Says whether a reduction adds exact products of f64, which need more registers than other sums.
pub(crate) const fn adds_f64_products(reduction: Reduction, ty: Type) -> bool {
    matches!((reduction, ty), (Reduction::Dot | Reduction::Norm, Type::F64))
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
/// The comments are for the emulator. Returns whether the batch is small.
fn elements(
    text: &mut String, program: &Program, large: Option<&Large<'_>>, fold: Fold,
    along: Option<Along>, operands: &[&str],
) -> bool {
    let [results @ .., first, count] = operands else { return false };
    let writer = Writer::new();
    let [index, count] = [first, count].map(|outer| writer.move_from(outer));
    let reduction = fold.reduction();
    let len = match reduction {
        _ if !fold.is_exact() => FOLD_ELEMENTS,
        Reduction::Dot => results.len() / 2,
        _ => results.len(),
    };
    let in_any_order = !fold.has_index();
    let batch = Batch::new(program, large, along, &writer, [index, count], len, in_any_order);
    if fold.is_exact() {
        batch.for_each(|group| {
            for (k, results) in results.chunks(len).enumerate() {
                // Results move up where a loop has several groups.
                let (kept, new) = results.split_at(len - group.len());
                for (to, from) in kept.iter().zip(&results[group.len()..]) {
                    writer.move_between(to, from, Class::of(fold.ty()));
                }
                for (outer, element) in new.iter().zip(group) {
                    writer.move_to(outer, element.values[k]);
                }
            }
        });
    } else if let [value, place] = results {
        let state = fold.begin(&writer, batch.first_distance());
        batch.for_each(|group| {
            group.iter().for_each(|element| fold.add(&writer, state, element));
        });
        let [word, distance] = fold.words(&writer, state);
        writer.move_to(value, word);
        writer.move_to(place, writer.emit("add.s64", Class::B64, &[index, distance]));
    }
    // The results of an exact sum's turns are all kept.
    let is_small = batch.is_small && (batch.group == len || !fold.is_exact());
    let (len, ty) = (len.to_string(), fold.ty().name());
    text.extend(["// ", &len, " elements of ", reduction.name(), " ", ty]);
    fold.converted().into_iter().for_each(|to| text.extend([" as ", to.name()]));
    text.push_str(": ");
    text.extend([&operands.join(" "), "\n{\n"]);
    large.into_iter().for_each(|large| large.declare(text));
    writer.finish(text);
    text.push_str("}\n// end\n");
    is_small
}

/// Adds the instructions for a thread's elements in a whole batch of an exact sum. Operands are the results, whether they
/// are there, and the index of the first element. They are not there if the formula is large, or if there are several
/// axes.
fn whole(
    text: &mut String, program: &Program, large: Option<&Large<'_>>, along: Along,
    operands: &[&str],
) {
    let [results @ .., are_there, first] = operands else { return };
    let writer = Writer::new();
    let elements = Elements::new(program, &writer, large);
    let is_short =
        large.is_none() && along.reduced == 1 && turn(&elements, results.len()) == results.len();
    if is_short {
        let spread = Spread::new(along, program, &writer, &elements, writer.move_from(first));
        let found = spread.results_of_whole(&writer, &elements, results.len());
        for (outer, of_lane) in results.iter().zip(&found) {
            writer.move_to(outer, of_lane[0]);
        }
    }
    text.extend(["mov.b32 ", are_there, ", ", if is_short { "1" } else { "0" }, ";\n{\n"]);
    writer.finish(text);
    text.push_str("}\n");
}

/// An element of a batch.
pub(crate) struct Element {
    /// The distance of its place from the first element's.
    place: Operand,
    /// The distance of the last element of all, which stands in for those past the end.
    last: Operand,
    /// The values that the reduction takes: two for a dot product, else one.
    pub(crate) values: Vec<Operand>,
}

impl Element {
    /// The distance of the element from the first one.
    pub(crate) fn distance(&self, writer: &Writer) -> Operand {
        writer.emit("min.s32", Class::B32, &[self.place, self.last])
    }

    /// A predicate: false past the end.
    pub(crate) fn is_there(&self, writer: &Writer) -> Operand {
        writer.emit("setp.le.s32", Class::Predicate, &[self.place, self.last])
    }
}

/// The elements of a turn of the loop over `len`.
fn turn(elements: &Elements<'_>, len: usize) -> usize {
    let instructions = elements.instructions();
    let bytes: usize = elements.arrays().map(|array| 4.max(1 << array.shift())).sum();
    let fits =
        |group: &usize| group * bytes <= MOST_BYTES && group * instructions <= MOST_INSTRUCTIONS;
    let halves = |group: &usize| Some(group / 2).filter(|&half| half > 0);
    std::iter::successors(Some(len), halves).find(fits).unwrap_or(1)
}

/// The elements that a thread takes.
struct Batch<'p> {
    writer: &'p Writer,
    elements: Elements<'p>,
    /// The elements along axes; others follow each other, [`STEP`] from one another.
    spread: Option<Spread>,
    /// The distance from the first element to the last one of all, at most the last one of the batch.
    last: Operand,
    len: usize,
    /// Elements of a turn of the loop.
    group: usize,
    /// True for turns of at most [`MOST_INSTRUCTIONS_OF_SMALL`].
    is_small: bool,
}

impl<'p> Batch<'p> {
    fn new(
        program: &'p Program, large: Option<&'p Large<'p>>, along: Option<Along>,
        writer: &'p Writer, [index, count]: [Operand; 2], len: usize, in_any_order: bool,
    ) -> Self {
        let emit = |name, operands: &[Operand]| writer.emit(name, Class::B64, operands);
        let last = emit("sub.s64", &[count, Operand::b64(1)]);
        let last = emit("sub.s64", &[last, index]);
        let elements = Elements::new(program, writer, large);
        let spread = along.map(|along| {
            let spread = Spread::new(along, program, writer, &elements, index);
            if in_any_order { spread.in_vectors(writer, len, [index, count]) } else { spread }
        });
        let most = match &spread {
            None => Operand::b64(i64::from(STEP) * (len as i64 - 1)),
            Some(_) => {
                emit("mul.wide.u32", &[Operand::Named(&axes::STEP), Operand::b32(len as i32 - 1)])
            }
        };
        let last = emit("min.s64", &[last, most]);
        let last = writer.emit("cvt.u32.u64", Class::B32, &[last]);
        let elements = if spread.is_some() { elements } else { elements.from(index) };
        let instructions = elements.instructions();
        let group = if large.is_some() { 1 } else { turn(&elements, len) };
        let is_small = group * instructions <= MOST_INSTRUCTIONS_OF_SMALL;
        Batch { writer, elements, spread, last, len, group, is_small }
    }

    /// The distance from the first element to itself, or to the last one of all if the first is past it.
    fn first_distance(&self) -> Operand {
        self.writer.emit("min.s32", Class::B32, &[Operand::b32(0), self.last])
    }

    /// Does something with the elements, some at once.
    fn for_each(&self, mut body: impl FnMut(&[Element])) {
        let writer = self.writer;
        let start = writer.emit("mov.b32", Class::B32, &[Operand::b32(0)]);
        let again = writer.label();
        writer.place(again);
        let place = |k: usize| match k {
            0 => start,
            _ => writer.emit("add.s32", Class::B32, &[start, self.steps(k)]),
        };
        let places: Vec<Operand> = (0..self.group).map(place).collect();
        let results = match &self.spread {
            None => self.elements.results_at(&places, self.last),
            Some(spread) => spread.results_at(writer, &self.elements, &places, self.last),
        };
        let element = |(k, values): (usize, Vec<Operand>)| Element {
            place: places[k],
            last: self.last,
            values,
        };
        body(&results.into_iter().enumerate().map(element).collect::<Vec<_>>());
        if self.group < self.len {
            writer.set("add.s32", start, &[start, self.steps(self.group)]);
            let end = self.steps(self.len);
            let more = writer.emit("setp.lt.s32", Class::Predicate, &[start, end]);
            writer.jump_if(more, again);
        }
    }

    /// Returns the distance of elements that are `count` of the thread's elements apart, in 32 bits.
    fn steps(&self, count: usize) -> Operand {
        if self.spread.is_none() {
            return Operand::b32(count as i32 * STEP);
        }
        let operands = [Operand::Named(&axes::STEP), Operand::b32(count as i32)];
        self.writer.emit("mul.lo.s32", Class::B32, &operands)
    }
}
