//! Runs programs of expressions one element at a time, with Rust's operators.
//!
//! The crate is not a part of the library: tests compare both back ends with it. It shares no code with them, except
//! for the functions that have no other oracle with equal bits (`function.rs`), and the deposits of exact sums.

#![forbid(unsafe_code)]

mod function;
pub mod half;
mod operation;
pub mod random;
mod reduction;
mod value;

pub use reduction::reduced;
pub use value::Value;

use gpuvec_expr::{Element, Output, OutputKind, Program, Reduction, Source};

/// The results of a program for one element; `inputs` has the bits of each input's element.
#[must_use]
pub fn results(program: &Program, inputs: &[u64]) -> Vec<Value> {
    let elements: Vec<_> = program.inputs().map(|input| input.element).collect();
    let mut values: Vec<Value> = Vec::new();
    for node in program.nodes() {
        let operands: Vec<Value> =
            node.operands().iter().map(|&operand| values[usize::from(operand)]).collect();
        values.push(match node.source {
            Source::Constant(bits) => Value::of_bits(node.ty, bits),
            Source::Input(input) => {
                Value::loaded(elements[usize::from(input)], inputs[usize::from(input)])
            }
            Source::Op(op) => operation::apply(op, &operands, node.ty),
        });
    }
    program.results().map(|result| values[usize::from(result)]).collect()
}

/// The bits of a program's outputs. `elements` has the bits of the inputs for each element. An output has a value for
/// each element, or one for a reduction, or none for a reduction without a value for no elements.
#[must_use]
pub fn outputs(program: &Program, elements: &[Vec<u64>]) -> Vec<Vec<u64>> {
    let all: Vec<Vec<Value>> = elements.iter().map(|inputs| results(program, inputs)).collect();
    let mut first = 0;
    let of_output = |output: &Output| {
        let operands = first..first + output.operands().len();
        first = operands.end;
        let values: Vec<Vec<Value>> = all.iter().map(|of| of[operands.clone()].to_vec()).collect();
        let of_all = |reduction| reduced(reduction, output.ty, &values);
        match output.kind {
            OutputKind::Elementwise => values.iter().map(|of_element| of_element[0]).collect(),
            OutputKind::Reduced { .. } | OutputKind::Single => {
                output.reduction().and_then(of_all).into_iter().collect()
            }
            OutputKind::Grouped { .. } => unreachable!("callers reduce each group by itself"),
        }
    };
    let values: Vec<Vec<Value>> = program.outputs().iter().map(of_output).collect();
    let bits_of = |(output, values): (&Output, &Vec<Value>)| {
        values.iter().map(|value| stored(output, *value)).collect()
    };
    program.outputs().iter().zip(&values).map(bits_of).collect()
}

/// The bits with which an output stores a value.
#[must_use]
pub fn stored(output: &Output, value: Value) -> u64 {
    match (value, output.element, output.reduction()) {
        (Value::F32(x), Element::F16, _) => half::f16_bits(x).into(),
        (Value::F32(x), Element::Bf16, _) => half::bf16_bits(x).into(),
        // The least i64 stands for 0.
        (Value::I64(x), Element::U64, Some(Reduction::Min | Reduction::Max)) => {
            (i128::from(x) - i128::from(i64::MIN)) as u64
        }
        (value, ..) => value.stored(),
    }
}
