//! Runs compiled expressions.

use super::log::{self, Subject};
use super::work::{Evaluating, States};
use super::{Runner, execute, with_call};
use crate::call::chunk::Chunk;
use crate::call::{Call, Evaluation, Input, MAX_INPUTS, Operand, Task};
use crate::cpu::expression::{Add, BlockReduction, ReductionVisitor};
use crate::cuda::device;
use crate::error::Error;
use crate::objects::expression::Expression;
use crate::objects::stream::{Stream, gpuvec_stream};
use crate::process::settings;
use arrayvec::ArrayVec;
use gpuvec_expr::{Element, Shape};
use gpuvec_ops::Accumulator;
use std::ffi::c_void;

/// Evaluates an expression over `n` elements of each input array, or queues that on a stream. `inputs`
/// leads to a pointer for each declared input: to an array, or to the value of a scalar.
///
/// # Safety
/// As [`Call::with`], of the arrays that the expression uses; `inputs` has as many pointers as the
/// expression has inputs, and those of scalars lead to values in host memory.
pub(crate) unsafe fn evaluate(
    expression: &Expression, inputs: *const *const c_void, out: *mut c_void, n: usize,
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    log::begin(Subject::Expression(Some(&expression.text)), n);
    let formula = &expression.formula;
    let mut operands = ArrayVec::<Operand, MAX_INPUTS>::new();
    let mut arrays = ArrayVec::<Input, MAX_INPUTS>::new();
    let declared = formula.program.inputs();
    if n > 0 && inputs.is_null() && declared.len() > 0 {
        return Err(Error::Null { argument: "inputs", n: declared.len() });
    }
    for (number, (input, name)) in declared.zip(NAMES).enumerate() {
        operands.push(if n == 0 || !expression.uses(number) {
            Operand::Unused
        } else {
            // SAFETY: this function's promise.
            let pointer = unsafe { inputs.add(number).read_unaligned() };
            match input.shape {
                Shape::Array => {
                    arrays.push(Input { name, pointer, element_bytes: input.element.bytes() });
                    Operand::Array
                }
                Shape::Scalar | Shape::Number => {
                    // SAFETY: this function's promise.
                    Operand::Scalar(unsafe { scalar(name, pointer, input.element)? })
                }
            }
        });
    }
    if n > 0 {
        let bits = |input: usize| match operands[input] {
            Operand::Scalar(bits) => bits,
            _ => 0,
        };
        expression.check_integers(bits, |input| NAMES[input])?;
    }
    let task = Task::Evaluate(Evaluation { formula, operands: &operands });
    let mut then = |call: &Call<'_>, placement, stream: Option<&Stream>| {
        execute(call, placement, stream, &mut |runner| runner.evaluate(expression, &operands))
    };
    // SAFETY: this function's promise.
    unsafe { with_call(task, &arrays, ("out", out), n, stream, &mut then) }
}

/// Has the driver of a device compile an expression, where there is a GPU.
pub(crate) fn prepare(expression: &Expression, device: i32) -> Result<(), Error> {
    match device::asked_for(settings::placement()?, device)? {
        Some(device) => device.prepare(&expression.formula),
        None => Ok(()),
    }
}

impl Runner<'_> {
    fn evaluate(&self, expression: &Expression, operands: &[Operand]) -> Result<(), Error> {
        let mut work = Evaluating::new(expression, operands, self.call);
        let result = match expression.reduce(Reduced { runner: self, work: &work }) {
            Some(result) => result,
            None => self.run(&mut work),
        };
        work.check()?;
        result
    }
}

/// Runs the reduction of an expression.
struct Reduced<'a> {
    runner: &'a Runner<'a>,
    work: &'a Evaluating<'a>,
}

impl ReductionVisitor for Reduced<'_> {
    type Result = Result<(), Error>;

    fn visit<R: BlockReduction>(self) -> Self::Result {
        let store = |runner: &Runner<'_>, state: &_| {
            let call = runner.call;
            let all = call.is_uniform().then(|| repeated::<R::Accumulator>(state, call.n()));
            runner.store(R::Accumulator::finish(all.as_ref().unwrap_or(state)))
        };
        self.reduce(States::of::<R::Accumulator>(), R::add, store)
    }
}

impl Reduced<'_> {
    fn reduce<S: Copy + Send + Sync>(
        self, states: States<S>, add: Add<S>, store: fn(&Runner<'_>, &S) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let accumulate = |chunks: &mut dyn Iterator<Item = Chunk>, state: &mut S| {
            self.work.accumulate(chunks, add, state);
        };
        self.runner.reduce(&accumulate, states, &mut |state| store(self.runner, state))
    }
}

/// The state of `n` elements, which all have the same state: merged with itself for each bit of `n`.
fn repeated<A: Accumulator>(one: &A::State, n: usize) -> A::State {
    let mut state = *one;
    for bit in (0..n.ilog2()).rev() {
        let half = state;
        A::merge(&mut state, &half);
        if n >> bit & 1 == 1 {
            A::merge(&mut state, one);
        }
    }
    state
}

/// The arguments' names in errors.
#[rustfmt::skip]
const NAMES: [&str; MAX_INPUTS] = [
    "inputs[0]", "inputs[1]", "inputs[2]", "inputs[3]", "inputs[4]", "inputs[5]", "inputs[6]",
    "inputs[7]", "inputs[8]", "inputs[9]", "inputs[10]", "inputs[11]", "inputs[12]", "inputs[13]",
    "inputs[14]", "inputs[15]", "inputs[16]", "inputs[17]", "inputs[18]", "inputs[19]", "inputs[20]",
    "inputs[21]", "inputs[22]", "inputs[23]", "inputs[24]", "inputs[25]", "inputs[26]", "inputs[27]",
    "inputs[28]", "inputs[29]", "inputs[30]", "inputs[31]",
];

/// Reads the bits of a scalar.
///
/// # Safety
/// The pointer, unless it is NULL, leads to a value of that type, at any address.
unsafe fn scalar(
    name: &'static str, pointer: *const c_void, element: Element,
) -> Result<u64, Error> {
    if pointer.is_null() {
        return Err(Error::NullScalar { argument: name });
    }
    let mut bits = [0; size_of::<u64>()];
    // SAFETY: this function's promise; no element is larger than a word.
    unsafe { pointer.cast::<u8>().copy_to(bits.as_mut_ptr(), element.bytes()) };
    let bits = u64::from_le_bytes(bits);
    Ok(if element == Element::Bool { u64::from(bits != 0) } else { bits })
}
