//! Expressions: text and declared inputs become a typed program in SSA form.
//!
//! [`compile`] reads the text once, from left to right, and appends nodes to the [`Program`] on the way; there is no
//! syntax tree. Formulas with `;` between them become one program with an output for each. The crate is safe Rust, and
//! knows nothing of the rest of the library. Its caller must have set the default floating-point modes.
//!
//! The language has Python's syntax and precedence, and NumPy 2's types. If NumPy's result would be a surprise in a
//! formula (`+` of two bools), or depends on types that gpuvec lacks, the text is refused with advice on what to write.
//! These differences remain:
//!
//! - Integers of less than 32 bits are computed as i32, and u32 as i64: the elements are widened when they are loaded.
//!   Elements of 8 and 16 bits combine with f32 into f32, as in NumPy.
//! - Comparisons can be chained: `0 < x < 1` is `(0 < x) & (x < 1)`.
//! - A number that is computed from Python's numbers alone, literals or inputs, is still one, even if a function computes
//!   it: `x * sqrt(2)` is f32 for an x of f32.
//! - Python's integers have 64 bits if a call computes them. If one does not fit, the call fails.
//! - `x**n` is a sequence of multiplications for a literal n, the same sequence for each type.
//! - NumPy's names for operators, and functions that need no operation of their own, are formulas in the language. The
//!   parser reads the formula at each call.
//!
//! No rewriting changes a bit. Equal nodes are shared. Arithmetic on literals is done immediately if it is exact or a
//! single IEEE 754 operation (`+ - * /`). So a Python literal has its value before it takes the type of an array, as in
//! Python. All other operations on constants run with the rest of the program, so that each operation has one
//! implementation that decides its bits.

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
/// The largest number of nodes: used inputs, constants, conversions and operations. Equal nodes count once.
pub const MAX_NODES: usize = 4096;
/// The deepest nesting of parentheses, calls, signs and powers.
pub const MAX_DEPTH: usize = 200;
/// The longest text, in bytes.
pub const MAX_TEXT: usize = 64 << 10;
/// The longest name of an input, in bytes.
pub const MAX_NAME: usize = 255;
