//! Compiled expressions, which any number of handles and calls share.

use super::handle::Handles;
use crate::call::Formula;
use crate::cpu;
use crate::cpu::expression::{BlockProgram, BlockReduction, ReductionVisitor, visit};
use crate::cuda::{device, kernels};
use crate::error::Error;
use crate::process::fork::Shared;
use crate::process::log::{self, Shown};
use crate::process::memory;
use ::gpuvec_expr::{Element, Form, Input, Integers, Output, OutputKind, Program, Source, Type};
use gpuvec_ops::Accumulator;
use gpuvec_ptx::outputs_of_kernels;

use std::collections::TryReserveError;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An expression: a formula over arrays and scalars, compiled for any number of calls.
#[expect(non_camel_case_types, reason = "the name that C callers see")]
pub struct gpuvec_expr {
    _private: [u8; 0],
}

/// The type of the elements of an expression's input or output.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(non_camel_case_types, reason = "the names that C callers see")]
pub enum gpuvec_type {
    /// `bool`, a byte: 0 is false, and anything else true. An output is 0 or 1.
    GPUVEC_BOOL = 1,
    /// `uint8_t`, for inputs.
    GPUVEC_U8 = 2,
    /// `int8_t`, for inputs.
    GPUVEC_I8 = 3,
    /// `uint16_t`, for inputs.
    GPUVEC_U16 = 4,
    /// `int16_t`, for inputs.
    GPUVEC_I16 = 5,
    /// `uint32_t`, for inputs.
    GPUVEC_U32 = 6,
    /// `int32_t`.
    GPUVEC_I32 = 7,
    /// `int64_t`.
    GPUVEC_I64 = 8,
    /// `float`.
    GPUVEC_F32 = 9,
    /// `double`.
    GPUVEC_F64 = 10,
    /// IEEE 754's binary16, as `_Float16` and CUDA's `__half`. It is computed as a `float`, and rounded where it is
    /// stored.
    GPUVEC_F16 = 11,
    /// The upper half of a `float`, as CUDA's `__nv_bfloat16`. It is computed as a `float`, too.
    GPUVEC_BF16 = 12,
    /// `uint64_t`.
    GPUVEC_U64 = 13,
}

/// Added to a `gpuvec_type`, declares an input of one value, which is read at each call.
pub const GPUVEC_SCALAR: i32 = 256;

/// Added to `GPUVEC_F64` or `GPUVEC_I64`, declares an input of one value that takes the type of the other
/// operand, as a number in the text does: `k*a` is `float` for an array `a` of `float`.
pub const GPUVEC_NUMBER: i32 = 512;

/// A flag of `gpuvec_expr_run_by` and `gpuvec_accumulator_add_by`: elements whose keys are outside the groups are left out.
pub const GPUVEC_IGNORE_OUTSIDE: i32 = 1;

/// A text that `gpuvec_expr_text` stores.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(non_camel_case_types, reason = "the names that C callers see")]
pub enum gpuvec_expr_form {
    /// The program: a line for each value, in the order of evaluation.
    GPUVEC_EXPR_PROGRAM = 1,
    /// The kernel, in PTX; of an expression with several, one text after the other.
    GPUVEC_EXPR_PTX = 2,
}

use gpuvec_expr_form::*;
use gpuvec_type::*;

const TYPES: [(gpuvec_type, Element); 13] = [
    (GPUVEC_BOOL, Element::Bool),
    (GPUVEC_U8, Element::U8),
    (GPUVEC_I8, Element::I8),
    (GPUVEC_U16, Element::U16),
    (GPUVEC_I16, Element::I16),
    (GPUVEC_U32, Element::U32),
    (GPUVEC_I32, Element::I32),
    (GPUVEC_I64, Element::I64),
    (GPUVEC_F32, Element::F32),
    (GPUVEC_F64, Element::F64),
    (GPUVEC_F16, Element::F16),
    (GPUVEC_BF16, Element::Bf16),
    (GPUVEC_U64, Element::U64),
];

/// The type and form of an input that a caller declares as the number `declared`.
pub(crate) fn declaration(declared: i32) -> Result<(Element, Form), Error> {
    const MASK: i32 = GPUVEC_SCALAR | GPUVEC_NUMBER;
    let (form, number) = match declared & MASK {
        0 => (Form::Array, declared),
        GPUVEC_SCALAR => (Form::Scalar, declared - GPUVEC_SCALAR),
        GPUVEC_NUMBER => (Form::Number, declared - GPUVEC_NUMBER),
        _ => (Form::Array, 0),
    };
    element(number).map(|element| (element, form)).ok_or(Error::Value {
        argument: "an element of types",
        value: declared.into(),
        expected: "pass a gpuvec_type, from 1 to 13; with | GPUVEC_SCALAR for one value, or | GPUVEC_NUMBER",
    })
}

/// The type of a `gpuvec_type`.
pub(crate) fn element(number: i32) -> Option<Element> {
    TYPES.iter().find(|(known, _)| *known as i32 == number).map(|(_, element)| *element)
}

/// The object behind an expression's handle. It is immutable.
pub(crate) struct Expression {
    /// The text; empty for a pass of another expression.
    pub(crate) text: String,
    pub(crate) formula: Formula,
    pub(crate) blocks: BlockProgram,
    /// Earlier passes, which reduce all elements to values of the last inputs.
    pub(crate) before: Vec<Expression>,
    /// The last passes, if the outputs need two: first for the other outputs, then for those that are single values.
    /// Each has the numbers of its outputs.
    pub(crate) last: Vec<(Expression, Vec<usize>)>,
    /// True if there are several passes, or one for single values.
    pub(crate) has_passes: bool,
    /// A bit for each input that the formula uses.
    uses: u32,
    /// The integers that are computed only from Python's integers. Each call checks them.
    integers: Integers,
}

/// The reason why an expression was refused.
pub(crate) enum Refused {
    /// The text or the inputs are wrong.
    Expression(::gpuvec_expr::Error),
    Other(Error),
}

impl From<TryReserveError> for Refused {
    fn from(_: TryReserveError) -> Self {
        NO_MEMORY.into()
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused::Other(error)
    }
}

static EXPRESSIONS: Handles<Expression> = Handles::new(4, "gpuvec_expr_compile");

/// The expression of a handle.
pub(crate) fn given(expression: *mut gpuvec_expr) -> Result<Arc<Expression>, Error> {
    EXPRESSIONS.get("expr", expression)
}

/// Returns a handle of the expression with this text and these inputs, and keys of the text `by`.
pub(crate) fn compile(
    text: &str, by: Option<&str>, inputs: &[Input<'_>],
) -> Result<*mut gpuvec_expr, Refused> {
    Ok(EXPRESSIONS.give_shared(compiled(text, by, inputs)?)?)
}

/// The expression with this text and these inputs, and keys of the text `by`, from the cache or compiled now.
pub(crate) fn compiled(
    text: &str, by: Option<&str>, inputs: &[Input<'_>],
) -> Result<Arc<Expression>, Refused> {
    let whole = by.map(|by| format!("{text} by {by}"));
    let (formulas, text) = (text, whole.as_deref().unwrap_or(text));
    let place = &CACHE[place(text, inputs)];
    let known = place.read(Option::clone).filter(|known| known.is(text, inputs));
    if let Some(known) = known {
        log::event(format_args!("reused \"{}\"", Shown(text)));
        return Ok(known);
    }
    let started = log::started();
    let new = Arc::new(Expression::new(text, formulas, by, inputs)?);
    log::done(format_args!("compiled \"{}\"", Shown(text)), started);
    // The earlier expression is dropped here, without the lock.
    let _earlier = place.change(|cached| cached.replace(new.clone()));
    Ok(new)
}

/// Destroys a handle.
pub(crate) fn destroy(expression: *mut gpuvec_expr) -> Result<(), Error> {
    EXPRESSIONS.destroy("expr", expression)
}

/// The newest expressions, each in the place that the hash of its text and inputs selects.
static CACHE: [Shared<Option<Arc<Expression>>>; CACHED] = [const { Shared::new(None) }; CACHED];
const CACHED: usize = 64;

/// Drops the expressions of the cache that no handle and no call uses.
pub(crate) fn trim() {
    for place in &CACHE {
        let is_unused = |known: &mut Arc<Expression>| Arc::strong_count(known) == 1;
        // The expression is dropped here, without the lock.
        drop(place.change(|cached| cached.take_if(is_unused)));
    }
}

fn place(text: &str, inputs: &[Input<'_>]) -> usize {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    inputs.hash(&mut hasher);
    (hasher.finish() % CACHED as u64) as usize
}

impl Expression {
    fn new(
        text: &str, formulas: &str, by: Option<&str>, inputs: &[Input<'_>],
    ) -> Result<Self, Refused> {
        if !memory::is_left_for(MOST_BYTES) {
            return Err(NO_MEMORY.into());
        }
        let program = match by {
            Some(by) => ::gpuvec_expr::compile_by(formulas, by, inputs),
            None => ::gpuvec_expr::compile(formulas, inputs),
        };
        let program = program.map_err(|error| {
            if error.lacks_memory() { NO_MEMORY.into() } else { Refused::Expression(error) }
        })?;
        let mut expression = Self::of(program)?;
        expression.text.try_reserve_exact(text.len())?;
        expression.text.push_str(text);
        Ok(expression)
    }

    /// The expression of a program with the expressions of its passes, all without a text.
    fn of(program: Program) -> Result<Self, Refused> {
        let all = |pass: &Program| (0..pass.outputs().len()).collect::<Vec<_>>();
        let pass = |pass: &Program| Self::of(pass.of_outputs(&all(pass))?);
        let before = program.before().iter().map(pass).collect::<Result<_, _>>()?;
        let (single, others): (Vec<usize>, Vec<usize>) = (0..program.outputs().len())
            .partition(|&output| program.outputs()[output].kind == OutputKind::Single);
        let has_passes = !program.before().is_empty() || !single.is_empty();
        let last = |outputs: Vec<usize>| Ok((Self::of(program.of_outputs(&outputs)?)?, outputs));
        let last = match single.is_empty() || others.is_empty() {
            true => Vec::new(),
            false => [others, single].into_iter().map(last).collect::<Result<_, Refused>>()?,
        };
        let (sums, outputs_of_sums) = program.of_sums()?;
        let blocks = BlockProgram::new(&sums, cpu::isa())?;
        let uses = program.nodes().iter().fold(0, |inputs, node| match node.source {
            Source::Input(input) => inputs | 1 << input,
            _ => inputs,
        });
        let integers = Integers::of(&program)?;
        let formula = formula(program, blocks.cost() as usize, &sums, &outputs_of_sums)?;
        let text = String::new();
        Ok(Expression { text, formula, blocks, before, last, has_passes, uses, integers })
    }

    fn is(&self, text: &str, inputs: &[Input<'_>]) -> bool {
        self.text == text && self.formula.program().declared().eq(inputs.iter().copied())
    }

    /// The type of the elements of an output, a [`gpuvec_type`].
    pub(crate) fn output_type(&self, index: usize) -> Result<i32, Error> {
        let output = self.output(index)?;
        let known = TYPES.iter().find(|(_, element)| *element == output.element);
        Ok(known.map_or(0, |(known, _)| *known as i32))
    }

    /// Returns 1 if an output is the result of a reduction or a single value; otherwise 0.
    pub(crate) fn has_result(&self, index: usize) -> Result<i32, Error> {
        Ok(match self.output(index)?.kind {
            OutputKind::Elementwise => 0,
            OutputKind::Reduced { .. } | OutputKind::Grouped { .. } | OutputKind::Single => 1,
        })
    }

    /// The output of a caller's index.
    fn output(&self, index: usize) -> Result<&Output, Error> {
        self.formula.program().outputs().get(index).ok_or(Error::Value {
            argument: "index",
            value: i64::try_from(index).unwrap_or(i64::MAX),
            expected: "pass an index below gpuvec_expr_num_outputs(expr)",
        })
    }

    /// The text in a form, a [`gpuvec_expr_form`].
    pub(crate) fn text(&self, form: i32) -> Result<String, Error> {
        match form {
            _ if form == GPUVEC_EXPR_PROGRAM as i32 => Ok(self.formula.program().to_string()),
            _ if form == GPUVEC_EXPR_PTX as i32 => {
                let mut text = String::new();
                for (kernel, _) in self.passes().flat_map(|pass| pass.formula.kernels()) {
                    let image = kernels::kernel_of(kernel)?.image().to_string_lossy();
                    let (bytes, purpose) = (image.len(), "the text of a kernel");
                    let none_left = |_| Error::OutOfHostMemory { bytes, purpose };
                    text.try_reserve_exact(bytes).map_err(none_left)?;
                    text.push_str(&image);
                }
                Ok(text)
            }
            _ => Err(Error::Value {
                argument: "form",
                value: form.into(),
                expected: "pass a gpuvec_expr_form, 1 or 2",
            }),
        }
    }

    /// True if the formula uses an input, given by its index.
    pub(crate) fn uses(&self, input: usize) -> bool {
        self.uses >> input & 1 == 1
    }

    /// True if a pass uses an input, given by its index.
    pub(crate) fn any_pass_uses(&self, input: usize) -> bool {
        self.passes().any(|pass| pass.uses(input))
    }

    /// The passes in the order in which they run.
    pub(crate) fn passes(&self) -> impl Iterator<Item = &Expression> {
        let last = self.last.iter().map(|(pass, _)| pass);
        self.before.iter().chain(last).chain(self.last.is_empty().then_some(self))
    }

    /// True if all outputs are single values. A call then has one element.
    pub(crate) fn has_single_values(&self) -> bool {
        let mut outputs = self.formula.program().outputs().iter();
        outputs.all(|output| output.kind == OutputKind::Single)
    }

    /// Fails if an integer that is computed from a call's numbers does not fit into its type. `bits` returns the bits
    /// of an input, and `name` its name.
    pub(crate) fn check_integers(
        &self, bits: impl Fn(usize) -> u64, name: impl Fn(usize) -> &'static str,
    ) -> Result<(), Error> {
        self.integers.check(|input| bits(input).cast_signed()).map_err(|unfit| Error::Value {
            argument: name(unfit.input),
            value: bits(unfit.input).cast_signed(),
            expected: match (unfit.ty, unfit.is_input) {
                (Type::I32, true) => {
                    "the other operand is an i32: pass an i32, or compute in i64, as in i64(x)"
                }
                (Type::U64, true) => {
                    "the other operand is a u64, which is not negative: pass an i64, or compute in i64, as in i64(x)"
                }
                (Type::U64, false) => {
                    "an integer computed from it is negative, but the other operand is a u64: compute in i64, as in i64(x)"
                }
                (Type::I32, false) => {
                    "an integer computed from it does not fit into i32, the other operand's type: compute in i64, \
                     as in i64(x)"
                }
                _ => "an integer computed from it does not fit into 64 bits: pass a float",
            },
        })
    }
}

/// The formula of a program that costs a core `cost` picoseconds per element. Each output of the program of sums is one
/// sum of an output of the program. `outputs_of_sums` has the numbers of these outputs.
fn formula(
    program: Program, cost: usize, sums: &Program, outputs_of_sums: &[usize],
) -> Result<Formula, Error> {
    let kernels = outputs_of_kernels(sums);
    if kernels.len() == 1 {
        return Ok(of_kernel(program, cost));
    }
    let bytes = kernels.len() * MOST_KERNEL_BYTES;
    if !memory::is_left_for(bytes) {
        return Err(Error::OutOfHostMemory { bytes, purpose: "the kernels of an expression" });
    }
    let with_formula = |outputs: Vec<usize>| {
        let formula = of_kernel(sums.of_outputs(&outputs).map_err(|_| NO_MEMORY)?, cost);
        Ok((formula, outputs.into_iter().map(|output| outputs_of_sums[output]).collect()))
    };
    let formulas: Result<Vec<(Formula, Vec<usize>)>, Error> =
        kernels.into_iter().map(with_formula).collect();
    let mut formulas = formulas?;
    for second in 1..formulas.len() {
        if formulas[second].1 == formulas[second - 1].1 {
            let before = &formulas[second - 1].0;
            formulas[second].0.state_offset = before.state_offset + before.state_bytes;
        }
    }
    Ok(Formula::of_kernels(number(), program, cost, formulas))
}

/// The formula of a program with one kernel.
#[inline(never)]
fn of_kernel(program: Program, cost: usize) -> Formula {
    let state = program.reduction().map(|(reduction, ty)| visit(reduction, ty, OfState));
    let is_single = program.outputs()[0].kind == OutputKind::Single;
    let state = state.map(|(bytes, has_empty_result)| (bytes, has_empty_result || is_single));
    Formula::new(number(), program, cost, state)
}

/// Returns a number that no other formula of an expression has.
fn number() -> u64 {
    static NEWEST: AtomicU64 = AtomicU64::new(0);
    NEWEST.fetch_add(1, Ordering::Relaxed)
}

/// Returns the size of a reduction's state as kernels write it, and true if the reduction of no elements has a result.
struct OfState;

impl ReductionVisitor for OfState {
    type Result = (usize, bool);

    fn visit<R: BlockReduction>(self) -> Self::Result {
        (size_of::<<R::Accumulator as Accumulator>::Words>(), R::Accumulator::HAS_EMPTY_RESULT)
    }
}

/// Retires the kernels. Does not call the driver, since the calling thread may be compiling another text.
impl Drop for Expression {
    fn drop(&mut self) {
        self.formula.kernels().for_each(|(kernel, _)| device::forget(kernel.id));
    }
}

/// Enough memory to compile any text: even a short text may have as many nodes as a program may have.
const MOST_BYTES: usize = 1 << 20;

const NO_MEMORY: Error = Error::OutOfHostMemory { bytes: MOST_BYTES, purpose: "an expression" };

/// Enough memory for the program of one of several kernels.
const MOST_KERNEL_BYTES: usize = 256 << 10;
