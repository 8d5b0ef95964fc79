//! The kernels of reductions by key: templates of kernels/by_key.cu, whose top lists their parameters and the table.
//!
//! The parameters of the inputs come first. For arrays of any strides the parameters of the shape follow, as in
//! reductions along axes (`axis_reduction.rs`): the outer axes are those of the results, which each have all groups. The
//! strides and the address of the output are there, but are not used.
//!
//! A thread's elements are values and then their keys. The values are terms of exact sums, pairs of factors of f64, or
//! words of a fold as the table has them. Products of f32 are exact in f64, and take the template of sums of f64.

use crate::axis_reduction::AxisReduction;
use crate::fold::{Fold, Item};
use crate::kernel::Kernel;
use crate::partitioned::PartitionedProgram;
use crate::placeholder::Placeholder;
use crate::reduction::{Batch, Reduced};
use crate::writer::{Operand, Writer, ptx};
use gpuvec_expr::{Program, Reduction, Type};

/// Threads of a block that templates ask for (kernels/policy.cuh), and half of them for kernels that need more registers.
const THREADS: [u32; 2] = [1024, 512];

/// The line that says the threads of a block.
fn most_threads(threads: u32) -> String {
    format!(".maxntid {threads}, 1, 1\n")
}

/// Returns the name of the compiled template of a program's only reduction by key. `None` for argmin and argmax, and for
/// other programs.
pub(crate) fn template(program: &Program) -> Option<&'static str> {
    let [output] = program.outputs() else { return None };
    output.key()?;
    Some(match (output.reduction()?, output.ty) {
        (Reduction::ArgMin | Reduction::ArgMax, _) => return None,
        (Reduction::Sum | Reduction::Mean, Type::F32) => "by_key_sum_f32",
        (Reduction::Sum | Reduction::Mean, Type::F64) => "by_key_sum_f64",
        (Reduction::Dot | Reduction::Norm, Type::F32) => "by_key_sum_f64",
        (Reduction::Dot | Reduction::Norm, Type::F64) => "by_key_dot_f64",
        _ => "by_key_fold",
    })
}

/// Writes the kernel of a program of one reduction by key.
pub(crate) fn kernel(
    name: &str, program: &Program, fold: Fold, template: &str,
    partitioned: Option<&PartitionedProgram<'_>>, axes: Option<AxisReduction>,
) -> Kernel {
    let reduced = Reduced { program, fold, partitioned, axes };
    let by_key = ByKey { reduced: &reduced, is_by_words: !fold.is_exact() };
    let mut is_small = false;
    let text = reduced.fill(name, template, |text, placeholder, operands| match placeholder {
        Placeholder::Elements => is_small = by_key.elements(text, operands),
        Placeholder::Place => {
            axes.inspect(|axes| axes.place(text, program, operands));
        }
        Placeholder::Fold => {
            text.extend(["mov.u32 ", operands[0], ", ", by_key.operation(), ";\n"]);
        }
        _ => unreachable!("no placeholder of a reduction by key"),
    });
    let is_light = is_small && axes.is_none() && !fold.adds_f64_products();
    let threads = THREADS[usize::from(!is_light)];
    let text = text.replacen(&most_threads(THREADS[0]), &most_threads(threads), 1);
    Kernel::of_text(name, text, [by_key.len(), 1], 1).with_threads(threads)
}

struct ByKey<'r> {
    reduced: &'r Reduced<'r>,
    /// True for folds.
    is_by_words: bool,
}

impl ByKey<'_> {
    fn fold(&self) -> Fold {
        self.reduced.fold
    }

    /// Elements of a thread in a batch (kernels/policy.cuh).
    fn len(&self) -> usize {
        let is_sum_of_f32 = matches!(self.fold().reduction, Reduction::Sum | Reduction::Mean)
            && self.fold().ty == Type::F32;
        if is_sum_of_f32 { 8 } else { 4 }
    }

    /// The number of the operation that merges words: FOLD_ADD and so on of kernels/placeholders.cuh.
    fn operation(&self) -> &'static str {
        match self.fold().reduction {
            Reduction::Min | Reduction::Max => "1",
            Reduction::Prod => "2",
            _ => "0",
        }
    }

    /// The name of the operation on the elements, which the emulator reads from a comment.
    fn name(&self) -> &'static str {
        match (self.fold().reduction, self.fold().ty) {
            (Reduction::Min | Reduction::Max, _) => "max",
            (Reduction::Prod, _) => "multiply",
            _ if self.is_by_words => "add",
            (Reduction::Sum | Reduction::Mean, Type::F32) => "sum_f32",
            (Reduction::Dot | Reduction::Norm, Type::F64) => "dot_f64",
            _ => "sum_f64",
        }
    }

    /// Adds the instructions for a thread's elements. Operands are the values, of products of f64 first the first
    /// factors, the keys, the index of the first element, and the number of elements. Returns true for a small batch.
    ///
    /// The comments are for the emulator.
    fn elements(&self, text: &mut String, operands: &[&str]) -> bool {
        let w = &Writer::in_place_of(operands);
        let (results, len) = (operands.len() - 2, self.len());
        let wide = |number| {
            let operand = Operand::OfPlaceholder(number as u32);
            ptx!(w, operand; "mov.b64 wide, operand")
        };
        let batch = Batch::new(self.reduced, w, [wide(results), wide(results + 1)], len);
        let distance = batch.first_distance();
        batch.for_each(|group| {
            let items = group.iter().map(|item| self.columns(w, distance, item));
            let items: Vec<Vec<Operand>> = items.collect();
            for (column, first) in (0..results).step_by(len).enumerate() {
                // Results move up where a loop has several groups.
                let kept = len - group.len();
                let class = Operand::Class(items[0][column].class());
                for to in first..first + kept {
                    let [to, from] =
                        [to, to + group.len()].map(|number| Operand::OfPlaceholder(number as u32));
                    ptx!(w, to, from, class; "mov.B to, from");
                }
                for (number, item) in (first + kept..).zip(&items) {
                    w.assign(Operand::OfPlaceholder(number as u32), item[column]);
                }
            }
        });
        // All results of a batch in several passes are kept.
        let is_small = batch.is_small && batch.group == len;
        let len = len.to_string();
        text.extend(["// ", &len, " elements of by_key ", self.name(), ": ", &operands.join(" ")]);
        text.push_str("\n{\n");
        self.reduced.partitioned.inspect(|partitioned| partitioned.declare(text));
        w.finish(text);
        text.push_str("}\n// end\n");
        is_small
    }

    /// The values of an element, and its key.
    fn columns(&self, w: &Writer<'_>, distance: Operand, item: &Item) -> Vec<Operand> {
        let fold = self.fold();
        let (&key, values) = item.values.split_last().expect("an element has a key");
        let second = values.last().copied().unwrap_or(key);
        let is_product = matches!(fold.reduction, Reduction::Dot | Reduction::Norm);
        let of_element = match fold.ty {
            _ if self.is_by_words => {
                let item = Item { values: values.to_vec(), ..*item };
                let state = fold.begin(w, distance);
                fold.add(w, state, &item);
                let [word, _] = fold.words(w, state);
                let none = match fold.reduction {
                    Reduction::Min => i64::MAX,
                    Reduction::Max => i64::MIN,
                    Reduction::Prod => 1,
                    _ => 0,
                };
                vec![ptx!(w, word, none; "xor.b64 kept, word, none")]
            }
            Type::F32 if is_product => {
                let lines = "cvt.f64.f32 a, x; cvt.f64.f32 b, second; mul.rn.f64 product, a, b";
                vec![ptx!(w, x = values[0], second; lines)]
            }
            _ if is_product => vec![values[0], second],
            _ => vec![values[0]],
        };
        of_element.into_iter().chain([key]).collect()
    }
}
