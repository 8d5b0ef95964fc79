//! Expressions: text and declared inputs become a typed program in SSA form.
//!
//! [`compile`] reads the text once, from left to right, and appends nodes to the [`Program`] as it
//! goes; there is no syntax tree. Formulas with `;` between them become one program, which has an output for each.
//! A crate of its own, in safe Rust, without knowledge of the rest of the library. Its caller has the default
//! floating-point modes set.
//!
//! The language is Python's syntax and precedence, with NumPy 2's types. Where NumPy's result would
//! surprise in a formula (`+` of two bools) or depends on types that gpuvec lacks, there is an error
//! that says what to write. Differences that remain:
//!
//! - Integers of less than 32 bits are computed as i32, and u32 as i64: the elements are widened when
//!   they are loaded. Elements of 8 and 16 bits combine with f32 into f32, as in NumPy.
//! - Chains of comparisons work: `0 < x < 1` is `(0 < x) & (x < 1)`.
//! - A number that is computed from Python's numbers alone, literals or inputs, stays one, also by
//!   functions: `x * sqrt(2)` is f32 for an x of f32.
//! - Python's integers have 64 bits where a call computes them; past that, the call fails.
//! - `x**n` is a sequence of multiplications for a literal n, the same for each type.
//! - Names that NumPy has for operators, and functions that need no operation of their own, are formulas in the
//!   language itself, which the parser reads where they are called.
//!
//! Nothing is rewritten in a way that could change a bit. Equal nodes are shared. Arithmetic on
//! literals is done at once, where it is exact or a single IEEE 754 operation (`+ - * /`): a Python
//! literal then has its value before it takes the type of an array, as in Python. All other
//! operations on constants run with the rest of the program, so that one implementation of each
//! decides its bits.

#![forbid(unsafe_code)]

mod builder;
mod callee;
mod error;
mod formulas;
pub mod half;
mod inputs;
mod integers;
mod lexer;
mod literal;
mod operator;
mod parser;
mod passes;
mod program;
mod rules;
mod suggest;
mod table;
mod types;

pub use callee::functions;
pub use error::Error;
pub use integers::{Integers, Unfit};
pub use parser::{compile, compile_by};
pub use program::{Form, Input, Node, NodeId, Output, OutputKind, Program, Source};
pub use table::{Op, Reduction, Rule};
pub use types::{Element, Type};

/// The largest number of inputs.
pub const MAX_INPUTS: usize = 32;
/// The largest number of outputs, and so of formulas in a text.
pub const MAX_OUTPUTS: usize = 8;
/// The largest number of nodes: inputs that are used, constants, conversions and operations. Equal ones are
/// one.
pub const MAX_NODES: usize = 4096;
/// The deepest nesting of parentheses, calls, signs and powers.
pub const MAX_DEPTH: usize = 200;
/// The longest text, in bytes.
pub const MAX_TEXT: usize = 64 << 10;
/// The longest name of an input, in bytes.
pub const MAX_NAME: usize = 255;
