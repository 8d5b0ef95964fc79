//! The kernels of reductions: compiled frames, in which words in capitals stand for what depends on the
//! expression (kernels/expression.cu).

use crate::elements::Elements;
use crate::fold::Fold;
use crate::writer::{Class, Operand, Writer, input_parameters};
use crate::{Kernel, Unsupported};
use gpuvec_expr::{Program, Reduction, Type};

/// Elements that a thread takes at once, and the distance between them.
const LANES: usize = 4;
const WARP: i64 = 32;

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
    program: &Program, reduction: Reduction, frame: &str,
) -> Result<Kernel, Unsupported> {
    let fold = Fold::new(reduction, operand_type(program));
    let mut text = String::with_capacity(frame.len() + (32 << 10));
    for line in frame.split_inclusive('\n') {
        if line.starts_with(".visible .entry ") {
            text.push_str(".visible .entry expression(\n");
            input_parameters(&mut text, program.inputs().len());
            continue;
        }
        if !line.starts_with(|first: char| first.is_ascii_uppercase()) {
            text.push_str(line);
            continue;
        }
        let (word, operands) = line.trim_end_matches(";\n").split_once(' ').unwrap_or((line, ""));
        let operands: Vec<&str> = operands.split(", ").collect();
        match (word, &operands[..]) {
            ("ELEMENTS", _) => elements(&mut text, program, reduction, fold, &operands)?,
            ("FINISH", [result]) => {
                let what = match reduction {
                    Reduction::Mean => "1",
                    Reduction::Norm => "2",
                    _ => "0",
                };
                text.extend(["mov.u32 ", result, ", ", what, ";\n"]);
            }
            _ => fill(&mut text, &fold.lines(word), &operands),
        }
    }
    Ok(Kernel::of_text(text, LANES))
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
/// The comments are for the emulator.
fn elements(
    text: &mut String, program: &Program, reduction: Reduction, fold: Fold, operands: &[&str],
) -> Result<(), Unsupported> {
    let [results @ .., first, count] = operands else { return Ok(()) };
    let writer = Writer::new();
    let [index, count] = [first, count].map(|outer| writer.move_from(outer));
    let last = writer.emit("sub.s64", Class::B64, &[count, Operand::b64(1)]);
    let elements = Elements::new(program, &writer)?;
    for lane in 0..LANES {
        let i = writer.emit("add.s64", Class::B64, &[index, Operand::b64(lane as i64 * WARP)]);
        let i = writer.emit("min.u64", Class::B64, &[i, last]);
        let values = elements.results(i, 1)?.concat();
        let values = fold.values(&writer, &values);
        for (k, outer) in results.iter().skip(lane).step_by(LANES).enumerate() {
            // A norm's value is both factors.
            writer.move_to(outer, values[k.min(values.len() - 1)]);
        }
    }
    let ty = operand_type(program).name();
    text.extend(["// elements of ", reduction.name(), " ", ty, ": ", &operands.join(" "), "\n{\n"]);
    writer.finish(text);
    text.push_str("}\n// end\n");
    Ok(())
}
