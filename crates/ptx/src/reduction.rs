//! The kernels of reductions: compiled templates, in which placeholders stand for what depends on the expression
//! (kernels/placeholders.cuh).

use crate::axis_reduction::{AxisReduction, ThreadElements, last_step, steps};
use crate::elements::{Elements, STEP};
use crate::fold::{Fold, Item};
use crate::function::Tables;
use crate::kernel::{Kernel, entry};
use crate::partitioned::PartitionedProgram;
use crate::placeholder::{ALONG_AXES, BLOCKS, ENTRY, Placeholder, least_blocks};
use crate::policy::{BLOCKS_WITH_ADDRESSES, BODY_BYTES, BODY_INSTRUCTIONS, SMALL_BODY};
use crate::writer::{Operand, Writer, ptx};
use gpuvec_expr::{Program, Reduction, Type};

/// Elements of a thread in a batch of a fold (kernels/policy.cuh).
const FOLD_ELEMENTS: usize = 16;

/// The name of the compiled template that a program's reduction needs: an image of kernels/ptx.
pub(crate) fn template(program: &Program) -> Option<&'static str> {
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

/// The name of the compiled template of a program's reduction along axes.
pub(crate) fn axes_template(program: &Program) -> Option<String> {
    template(program).map(|name| format!("{ALONG_AXES}{name}"))
}

/// A reduction whose kernel is written.
pub(crate) struct Reduced<'p> {
    pub(crate) program: &'p Program,
    pub(crate) fold: Fold,
    pub(crate) partitioned: Option<&'p PartitionedProgram<'p>>,
    pub(crate) axes: Option<AxisReduction>,
}

pub(crate) fn kernel(
    name: &str, program: &Program, fold: Fold, template: &str,
    partitioned: Option<&PartitionedProgram<'_>>, axes: Option<AxisReduction>,
) -> Kernel {
    let mut is_small = false;
    let reduced = Reduced { program, fold, partitioned, axes };
    let text =
        reduced.fill(name, template, |text, placeholder, operands| match (placeholder, axes) {
            (Placeholder::Elements, _) => is_small = reduced.elements(text, operands),
            (Placeholder::Whole, Some(axes)) => reduced.whole(text, axes, operands),
            (Placeholder::Place, Some(axes)) => axes.place(text, program, operands),
            (Placeholder::Whole | Placeholder::Place, None) => {}
            (Placeholder::Finish, _) => {
                let operation = match fold.reduction {
                    Reduction::Mean => "1",
                    Reduction::Norm => "2",
                    _ => "0",
                };
                text.extend(["mov.u32 ", operands[0], ", ", operation, ";\n"]);
            }
            _ => fold.fill(text, placeholder, operands),
        });
    // With one more block, some architecture would spill registers.
    let blocks = match axes {
        None if is_small && !fold.adds_f64_products() => BLOCKS + 1,
        None => BLOCKS,
        Some(axes) if is_small => axes.blocks_per_multiprocessor(program),
        Some(_) => BLOCKS_WITH_ADDRESSES,
    };
    let text = text.replacen(&least_blocks(BLOCKS), &least_blocks(blocks), 1);
    Kernel::of_text(name, text, [FOLD_ELEMENTS, 1], blocks)
}

impl Reduced<'_> {
    /// The text of a template with the parameters of the inputs, in which `write` replaces the placeholders.
    pub(crate) fn fill(
        &self, name: &str, template: &str, mut write: impl FnMut(&mut String, Placeholder, &[&str]),
    ) -> String {
        let Reduced { program, partitioned, axes, .. } = *self;
        let mut text = String::with_capacity(template.len() + (32 << 10));
        let tables = Tables::of(program, partitioned.is_some());
        let mut is_in_entry = false;
        for line in template.split_inclusive('\n') {
            if line.starts_with(ENTRY) {
                tables.declare(&mut text);
                partitioned.inspect(|partitioned| partitioned.functions(&mut text));
                let declared = program.inputs().len();
                entry(&mut text, name, declared, axes.map_or(0, |axes| axes.parameters(declared)));
                is_in_entry = true;
            } else if let Some((placeholder, operands)) = Placeholder::of(line) {
                write(&mut text, placeholder, &operands);
            } else {
                text.push_str(line);
                if is_in_entry && line == "{\n" {
                    tables.copy(&mut text);
                    is_in_entry = false;
                }
            }
        }
        text
    }

    /// Adds the instructions for a thread's elements. Operands are the results, of dot products first the
    /// results of the first factor, the index of the first element, and the number of elements.
    ///
    /// The comments are for the emulator. Returns true for a small batch.
    fn elements(&self, text: &mut String, operands: &[&str]) -> bool {
        let Reduced { fold, partitioned, .. } = *self;
        let results = operands.len() - 2;
        let w = &Writer::in_place_of(operands);
        let operand = |number: usize| Operand::OfPlaceholder(number as u32);
        let wide = |outer| ptx!(w, outer; "mov.b64 wide, outer");
        let [index, count] = [results, results + 1].map(|number| wide(operand(number)));
        let len = match fold.reduction {
            _ if !fold.is_exact() => FOLD_ELEMENTS,
            Reduction::Dot => results / 2,
            _ => results,
        };
        let batch = Batch::new(self, w, [index, count], len);
        if fold.is_exact() {
            batch.for_each(|group| {
                for (k, first) in (0..results).step_by(len).enumerate() {
                    // Results move up where a loop has several groups.
                    let kept = len - group.len();
                    for to in first..first + kept {
                        let [to, from] = [to, to + group.len()].map(operand);
                        ptx!(w, to, from, ty = fold.ty; "mov.B to, from");
                    }
                    for (number, item) in (first + kept..).zip(group) {
                        w.assign(operand(number), item.values[k]);
                    }
                }
            });
        } else {
            let state = fold.begin(w, batch.first_distance());
            batch.for_each(|group| group.iter().for_each(|item| fold.add(w, state, item)));
            let [word, distance] = fold.words(w, state);
            w.assign(operand(0), word);
            w.assign(operand(1), ptx!(w, index, distance; "add.s64 place, index, distance"));
        }
        // The results of all passes of an exact sum are kept.
        let is_small = batch.is_small && (batch.group == len || !fold.is_exact());
        let (len, ty) = (len.to_string(), fold.ty.name());
        text.extend(["// ", &len, " elements of ", fold.reduction.name(), " ", ty]);
        fold.converted.inspect(|to| text.extend([" as ", to.name()]));
        text.extend([": ", &operands.join(" "), "\n{\n"]);
        partitioned.inspect(|partitioned| partitioned.declare(text));
        w.finish(text);
        text.push_str("}\n// end\n");
        is_small
    }

    /// Adds the instructions that compute a thread's elements of an exact sum in a whole batch without bounds checks, and
    /// set a flag to 1. Sets it to 0 instead if the formula is large, or if there are several axes. Operands are the
    /// results, the flag, and the index of the first element.
    fn whole(&self, text: &mut String, axes: AxisReduction, operands: &[&str]) {
        let w = &Writer::in_place_of(operands);
        let elements = Elements::new(self.program, w, self.partitioned);
        let results = operands.len() - 2;
        let is_short =
            self.partitioned.is_none() && axes.reduced == 1 && pass(&elements, results) == results;
        if is_short {
            let first = Operand::OfPlaceholder(results as u32 + 1);
            let first = ptx!(w, first; "mov.b64 wide, first");
            let of_thread = ThreadElements::new(axes, self.program, w, &elements, first);
            let found = of_thread.results_of_whole(w, &elements, results);
            for (number, of_item) in (0..).zip(&found) {
                w.assign(Operand::OfPlaceholder(number), of_item[0]);
            }
        }
        let flag = if is_short { "1" } else { "0" };
        text.extend(["mov.b32 ", operands[results], ", ", flag, ";\n{\n"]);
        w.finish(text);
        text.push_str("}\n");
    }
}

/// The elements of a pass of the loop over `len`.
fn pass(elements: &Elements<'_>, len: usize) -> usize {
    let instructions = elements.instructions();
    let bytes: usize = elements.arrays().map(|array| 4.max(array.element_bytes())).sum();
    let fits =
        |group: &usize| group * bytes <= BODY_BYTES && group * instructions <= BODY_INSTRUCTIONS;
    let halves = |group: &usize| Some(group / 2).filter(|&half| half > 0);
    std::iter::successors(Some(len), halves).find(fits).unwrap_or(1)
}

/// The elements that a thread computes.
pub(crate) struct Batch<'p> {
    w: &'p Writer<'p>,
    elements: Elements<'p>,
    /// The elements along axes; others are [`STEP`] from one another.
    along_axes: Option<ThreadElements>,
    /// The distance from the first element to the last one of all, at most the last one of the batch.
    last: Operand,
    len: usize,
    /// Elements of a pass of the loop.
    pub(crate) group: usize,
    /// True for passes of at most `SMALL_BODY` instructions.
    pub(crate) is_small: bool,
}

impl<'p> Batch<'p> {
    pub(crate) fn new(
        reduced: &Reduced<'p>, w: &'p Writer<'p>, [index, count]: [Operand; 2], len: usize,
    ) -> Self {
        let Reduced { program, fold, partitioned, axes } = *reduced;
        let last = ptx!(w, count, index; "sub.s64 last, count, 1; sub.s64 last, last, index");
        let elements = Elements::new(program, w, partitioned);
        let is_by_key = program.outputs().iter().any(|output| output.key().is_some());
        let along_axes = axes.map(|axes| {
            let of_thread = ThreadElements::new(axes, program, w, &elements, index);
            if fold.has_index() || is_by_key {
                of_thread
            } else {
                of_thread.in_vectors(w, len, [index, count])
            }
        });
        let most = match &along_axes {
            None => Operand::from(STEP * (len - 1)),
            Some(_) => last_step(w, len),
        };
        let last =
            ptx!(w, last, most; "min.s64 last_of, last, most; cvt.u32.u64 distance, last_of");
        let elements = if along_axes.is_some() { elements } else { elements.from(index) };
        let instructions = elements.instructions();
        let group = if partitioned.is_some() { 1 } else { pass(&elements, len) };
        let is_small = group * instructions <= SMALL_BODY;
        Batch { w, elements, along_axes, last, len, group, is_small }
    }

    /// The distance from the first element to itself, or to the last one of all if the first is past it.
    pub(crate) fn first_distance(&self) -> Operand {
        ptx!(self.w, last = self.last; "min.s32 distance, 0, last")
    }

    /// Writes a loop over the elements, some of them in each pass.
    pub(crate) fn for_each(&self, mut body: impl FnMut(&[Item])) {
        let (w, last) = (self.w, self.last);
        let (start, again) = (ptx!(w; "mov.b32 start, 0"), w.label());
        ptx!(w, again; "again:");
        let place = |k: usize| match k {
            0 => start,
            _ => ptx!(w, start, steps = self.steps(k); "add.s32 place, start, steps"),
        };
        let places: Vec<Operand> = (0..self.group).map(place).collect();
        let results = match &self.along_axes {
            None => self.elements.results_at(&places, last),
            Some(of_thread) => of_thread.results_at(w, &self.elements, &places, last),
        };
        let items = places.into_iter().zip(results);
        let items: Vec<Item> = items.map(|(place, values)| Item { place, last, values }).collect();
        body(&items);
        if self.group < self.len {
            ptx!(w, start, steps = self.steps(self.group); "add.s32 start, start, steps");
            let end = self.steps(self.len);
            ptx!(w, start, end, again; "setp.lt.s32 more, start, end; @more bra again");
        }
    }

    /// The distance of elements that are `count` of the thread's elements apart, in 32 bits.
    fn steps(&self, count: usize) -> Operand {
        match self.along_axes {
            None => Operand::from(count * STEP),
            Some(_) => steps(self.w, count),
        }
    }
}
