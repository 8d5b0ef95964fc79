//! Passes: reductions inside formulas are computed in earlier passes, and are scalars of later passes.

use crate::error::Error;
use crate::program::needed;
use crate::{
    Form, Input, MAX_INPUTS, MAX_NODES, MAX_OUTPUTS, Node, NodeId, Output, OutputKind, Program,
    Source,
};

/// Makes the program of the outputs, and the passes of the reductions that they need. In `nodes`, the result of
/// reduction i is input `MAX_INPUTS` + i.
pub(crate) fn program(
    inputs: &[Input<'_>], mut nodes: Vec<Node>, reductions: &[(Output, NodeId)],
    mut outputs: Vec<Output>,
) -> Result<Program, Error> {
    for output in outputs.iter_mut().filter(|output| output.kind == OutputKind::Single) {
        output.make_signed(&mut nodes);
    }
    let levels = levels(&nodes, reductions);
    let is_needed = needed_by(&nodes, reductions, &outputs);
    // The reductions of each pass.
    let mut passes: Vec<Vec<usize>> = Vec::new();
    for level in 0..=levels.iter().copied().max().unwrap_or(0) {
        let of_level = |number: &usize| is_needed[*number] && levels[*number] == level;
        let all: Vec<usize> = (0..reductions.len()).filter(of_level).collect();
        passes.extend(all.chunks(MAX_OUTPUTS).map(<[usize]>::to_vec));
    }
    let count = passes.iter().flatten().count();
    if inputs.len() + count > MAX_INPUTS {
        return Err(Error::of_inputs(format!(
            "there are {} inputs and {count} reductions inside formulas, but at most {MAX_INPUTS} together are taken: \
             split the expression",
            inputs.len()
        )));
    }
    let mut all: Vec<Input<'_>> = inputs.to_vec();
    let names: Vec<String> = (1..=count).map(|number| format!("result {number}")).collect();
    for (&number, name) in passes.iter().flatten().zip(&names) {
        let (output, id) = reductions[number];
        let element = output.unrounded().element;
        nodes[usize::from(id)] = Node::new(Source::Input(all.len() as u8), element.widened(), &[]);
        all.push(Input { name, element, form: Form::Scalar });
    }
    let of_pass = |numbers: &Vec<usize>| {
        let outputs = numbers.iter().map(|&number| reductions[number].0.unrounded()).collect();
        Program::new(&all, &nodes, outputs)
    };
    let before = passes.iter().map(of_pass).collect::<Result<Vec<Program>, _>>()?;
    let last = Program::new(&all, &nodes, outputs)?;
    if before.iter().chain([&last]).any(|pass| pass.nodes().len() > MAX_NODES) {
        return Err(Error::of_inputs(too_many_operations()));
    }
    Ok(last.after(before, inputs.len()))
}

pub(crate) fn too_many_operations() -> String {
    format!("the expression has more than {MAX_NODES} operations: split it")
}

/// The level of each reduction: above the levels of the reductions on which it depends.
fn levels(nodes: &[Node], reductions: &[(Output, NodeId)]) -> Vec<usize> {
    let mut of_nodes = vec![0; nodes.len()];
    let mut levels = Vec::with_capacity(reductions.len());
    let most = |of_nodes: &[usize], operands: &[NodeId]| {
        operands.iter().map(|&operand| of_nodes[usize::from(operand)]).max().unwrap_or(0)
    };
    for (id, node) in nodes.iter().enumerate() {
        of_nodes[id] = match result_of(node) {
            Some(number) => {
                levels.push(most(&of_nodes, reductions[number].0.operands()));
                levels[number] + 1
            }
            None => most(&of_nodes, node.operands()),
        };
    }
    levels
}

/// The number of the reduction that has the node as its result, if there is one.
fn result_of(node: &Node) -> Option<usize> {
    match node.source {
        Source::Input(input) => usize::from(input).checked_sub(MAX_INPUTS),
        _ => None,
    }
}

/// Marks the reductions that the outputs need.
fn needed_by(nodes: &[Node], reductions: &[(Output, NodeId)], outputs: &[Output]) -> Vec<bool> {
    let mut is_needed = vec![false; reductions.len()];
    let mut wanted = outputs.to_vec();
    loop {
        let of_nodes = needed(nodes, &wanted);
        let results = nodes.iter().zip(of_nodes).filter(|(_, is_needed)| *is_needed);
        let new: Vec<usize> = results
            .filter_map(|(node, _)| result_of(node))
            .filter(|number| !is_needed[*number])
            .collect();
        if new.is_empty() {
            return is_needed;
        }
        for number in new {
            is_needed[number] = true;
            wanted.push(reductions[number].0);
        }
    }
}
