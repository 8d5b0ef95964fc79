//! Programs as expressions, which compile to the same program.

use crate::INPUTS;
use gpuvec_expr::{Form, Input, Node, NodeId, Op, Output, Program, Source, Type};

/// Writes a program as an expression, with every parenthesis and every type.
pub(crate) fn written(program: &Program) -> String {
    let formula = |output: &Output| {
        let is_ordered = output.reduction().is_some() && output.conversion().is_some();
        let node = |&id: &NodeId| {
            written_node(program, if is_ordered { unsigned(program, id) } else { id })
        };
        let operands = match output.operands() {
            [upper, _] if output.reduction().is_some_and(|reduction| reduction.arity() == 1) => {
                let whole = whole(program, *upper);
                // With its type: the mean of a narrower array has no halves.
                let ty = program.nodes()[usize::from(whole)].ty;
                format!("{ty}({})", written_node(program, whole))
            }
            operands => operands.iter().map(node).collect::<Vec<_>>().join(", "),
        };
        match output.reduction() {
            Some(reduction) => format!("{}({operands})", reduction.name()),
            None if output.element.is_half() => format!("{}({operands})", output.element.name()),
            None => operands,
        }
    };
    program.outputs().iter().map(formula).collect::<Vec<_>>().join("; ")
}

/// The u64 for whose order an i64 stands, by a cast and the other sign.
fn unsigned(program: &Program, id: NodeId) -> NodeId {
    let operand = |id: NodeId| program.nodes()[usize::from(id)].operands()[0];
    operand(operand(id))
}

/// The integer whose upper half is a node: the cast of the difference from the lower half.
fn whole(program: &Program, upper: NodeId) -> NodeId {
    let operand = |id: NodeId| program.nodes()[usize::from(id)].operands()[0];
    operand(operand(upper))
}

/// The number of nodes in the written text, in which a shared one occurs for each of its uses.
pub(crate) fn written_nodes(program: &Program) -> usize {
    let mut counts: Vec<usize> = Vec::new();
    for node in program.nodes() {
        let operands = node.operands().iter().map(|&operand| counts[usize::from(operand)]);
        counts.push(operands.fold(1, usize::saturating_add));
    }
    program.results().map(|id| counts[usize::from(id)]).fold(0, usize::saturating_add)
}

fn written_node(program: &Program, id: NodeId) -> String {
    let node: &Node = &program.nodes()[usize::from(id)];
    let operands: Vec<String> =
        node.operands().iter().map(|&operand| written_node(program, operand)).collect();
    match node.source {
        Source::Input(input) => match INPUTS[usize::from(input)] {
            // With its type: it is written as a value of that type alone.
            Input { name, form: Form::Number, .. } => format!("{}({name})", node.ty),
            // Of its type, which other values do not round.
            input if input.element.is_half() => format!("f32({})", input.name),
            input => input.name.into(),
        },
        Source::Constant(bits) => written_constant(node.ty, bits),
        // The f64 itself, which the rounding behind it rounds likewise.
        Source::Op(Op::RoundOdd) => operands[0].clone(),
        Source::Op(op @ (Op::RoundF16 | Op::RoundBf16)) => {
            format!("f32({}({}))", op.spelling(), operands[0])
        }
        Source::Op(Op::Cast) => format!("{}({})", node.ty, operands[0]),
        Source::Op(op) if Op::FUNCTIONS.contains(&op) => {
            format!("{}({})", op.name(), operands.join(", "))
        }
        Source::Op(op) if op.arity() == 1 => format!("({}{})", op.spelling(), operands[0]),
        Source::Op(op) => format!("({} {} {})", operands[0], op.spelling(), operands[1]),
    }
}

fn written_constant(ty: Type, bits: u64) -> String {
    let float = match ty {
        Type::Bool => return if bits == 1 { "True" } else { "False" }.into(),
        Type::I32 => return format!("i32({})", bits as u32 as i32),
        Type::I64 => return format!("i64({})", bits as i64),
        Type::U64 => return format!("u64({bits})"),
        Type::F32 => f64::from(f32::from_bits(bits as u32)),
        Type::F64 => f64::from_bits(bits),
    };
    if float.is_nan() {
        return format!("{ty}(1e999 - 1e999)");
    }
    format!("{ty}({float:?})").replace("inf", "1e999")
}
