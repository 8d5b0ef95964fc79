//! Expressions: their types against NumPy, their programs, the limits, and the text of every error.

mod errors;
mod limits;
mod program;
mod promotion;
mod random;
mod written;

use gpuvec_expr::{Element, Error, Input, Program, Shape, compile};

/// The inputs of the tests: a to d are of f32, those of other types have the type in their names.
const INPUTS: [Input<'static>; 14] = [
    array("a", Element::F32),
    array("b", Element::F32),
    array("c", Element::F32),
    array("d", Element::F32),
    Input { name: "s", element: Element::F32, shape: Shape::Scalar },
    array("m", Element::Bool),
    array("x_u8", Element::U8),
    array("x_i8", Element::I8),
    array("x_u16", Element::U16),
    array("x_i16", Element::I16),
    array("x_u32", Element::U32),
    array("x_i32", Element::I32),
    array("x_i64", Element::I64),
    array("x_f64", Element::F64),
];

const fn array(name: &str, element: Element) -> Input<'_> {
    Input { name, element, shape: Shape::Array }
}

/// Compiles an expression of the tests' inputs.
fn compiled(text: &str) -> Result<Program, Error> {
    compile(text, &INPUTS)
}

/// Compiles an expression that is right.
#[track_caller]
fn program(text: &str) -> Program {
    compiled(text).unwrap_or_else(|error| panic!("{error}"))
}
