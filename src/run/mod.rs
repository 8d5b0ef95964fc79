//! Runs calls: makes a [`Call`] of a caller's arguments, plans it, and does as the plan says.

mod accumulate;
mod bindings;
mod cores;
mod dlpack;
mod evaluate;
mod gpus;
mod host;
pub mod last_run;
pub(crate) mod log;
mod memory_kinds;
mod passes;
mod reduce_axes;
mod strided_iter;
mod work;

use crate::call::plan::{Fallback, OnCores, OnStream, Plan, on_cores, on_stream, plan};
use crate::call::{
    Arguments, Array, Arrays, Binding, Call, ChunkWork, Evaluation, Extent, Formula, Input, Layout,
    Output, Task, choose, fastest_cores,
};
use crate::cpu::expression::{
    Add, BlockReduction, Reducer, ReductionVisitor, States, add_exactly, visit,
};
use crate::cuda::{alloc, device, stream as cuda};
use crate::error::Error;
use crate::objects::expression::Expression;
use crate::objects::stream::{Stream, given, gpuvec_stream};
use crate::policy::CORES;
use crate::process::settings::{self, Placement};
use crate::process::warmup;
pub(crate) use accumulate::{accumulate_contiguous, accumulate_strided};
pub(crate) use bindings::OUTPUT_NAMES;
pub(crate) use dlpack::evaluate_tensors;
pub use evaluate::gpuvec_array;
pub(crate) use evaluate::{Strided, evaluate, evaluate_strided, read_shape};
use gpus::Failure;
use gpuvec_exact::State;
use gpuvec_ops::{Accumulator, Element, Exact, Op};
use host::{Host, timed};
use last_run::{Backend, Reason, Report, Selection};
use log::Subject;
use memory_kinds::MemoryKinds;
use std::ffi::c_void;

use work::{CpuProgram, Evaluating, Reducing, ReducingSeveral, Whole};

/// Runs an operation on its arrays, or queues it on a stream; `alpha` has the bits of the number by which it
/// multiplies, if it does. Says in the thread's last run how, as all functions of this module.
///
/// # Safety
/// As [`Arguments::new`].
pub(crate) unsafe fn operation(
    op: Op, alpha: u64, inputs: &[Input], out: *mut c_void, n: usize, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    log::begin(Subject::Operation(op), n);
    let (formula, count) = (Formula::of(op), inputs.len());
    let bindings = [Binding::Array, Binding::Array, Binding::Scalar(alpha)];
    let bindings = &bindings[2 - count..][..count + usize::from(formula.has_alpha)];
    let task = Task::Evaluate(Evaluation { formula, bindings });
    let outputs = [Output { name: "out", pointer: out, layout: formula.output }];
    // SAFETY: this function's promise.
    let arguments = unsafe { Arguments::new(task, inputs, &outputs, n) };
    run(&arguments, CpuProgram::Operation { op, alpha }, stream, None)
}

/// Copies bytes, or queues that on a stream.
///
/// # Safety
/// As [`Arguments::new`].
pub(crate) unsafe fn copy(
    src: *const c_void, dst: *mut c_void, bytes: usize, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    log::begin(Subject::Copy, bytes);
    let layout = Layout::contiguous(1);
    let input = [Input { name: "src", pointer: src, layout }];
    let output = [Output { name: "dst", pointer: dst, layout }];
    // SAFETY: this function's promise.
    let arguments = unsafe { Arguments::new(Task::Copy, &input, &output, bytes) };
    run(&arguments, CpuProgram::Copy, stream, None)
}

/// Adds the terms of an exact sum or dot product to a state. The stream's earlier work is done before, and
/// the state is there when this returns; after an error it is as it was. Checks the arguments and follows the
/// placement as for an output in host memory.
///
/// # Safety
/// As [`Arguments::new`], of the inputs.
unsafe fn accumulate<O: Exact>(
    inputs: &[Input], n: usize, stream: *mut gpuvec_stream, state: &mut State<O::Kind>,
) -> Result<(), Error> {
    log::begin(Subject::Accumulator(Some(O::OP)), n);
    let bindings = &[Binding::Array; 2][..O::OP.inputs()];
    let formula = Formula::of(O::OP);
    let task = Task::Evaluate(Evaluation { formula, bindings });
    // In the place of an output, which nothing writes.
    let pointer = (&raw mut *state).cast();
    let output = [Output { name: "state", pointer, layout: formula.output }];
    // SAFETY: this function's promise.
    let arguments = unsafe { Arguments::new(task, inputs, &output, n) };
    let mut merge = |runner: &Runner<'_>, work: &Evaluating<'_>| {
        state.merge(&Reduction { runner, work }.reduce(States::of::<O::Kind>(), add_exactly)?);
        Ok(())
    };
    run(&arguments, CpuProgram::Operation { op: O::OP, alpha: 0 }, stream, Some(&mut merge))
}

/// Makes the driver of a device compile an expression, where there is a GPU.
pub(crate) fn prepare(expression: &Expression, device: i32) -> Result<(), Error> {
    match device::asked_for(settings::placement()?, device)? {
        Some(device) => expression.passes().try_for_each(|pass| device.prepare(&pass.formula)),
        None => Ok(()),
    }
}

/// Does something with a call's reduction other than to store its result.
type Reduce<'a> = &'a mut dyn FnMut(&Runner<'_>, &Evaluating<'_>) -> Result<(), Error>;

/// Runs a call, or queues it on a stream; cores run it by `steps`. With `reduce` the call is not queued, and
/// the reduction is left to `reduce`.
fn run(
    arguments: &Arguments<'_>, steps: CpuProgram<'_>, stream: *mut gpuvec_stream,
    reduce: Option<Reduce<'_>>,
) -> Result<(), Error> {
    let (mut arrays, placement) = (Arrays::new(), settings::placement()?);
    let stream = given(stream)?;
    let mut kinds = None;
    let kind_of = |array: &Array| {
        let kinds = kinds.get_or_insert_with(|| MemoryKinds::new(placement));
        match arguments.task() {
            Task::Copy => kinds.of_copied(array),
            Task::Evaluate(_) => kinds.of(array),
        }
    };
    let call = Call::new(&mut arrays, arguments, kind_of)?;
    if let Some(call) = &call {
        if let Some(Stream::Gpu(stream)) = stream.as_deref()
            && reduce.is_none()
            && let Some(plan) = on_stream(call, placement, stream.ordinal())
        {
            return queue(call, &plan, stream);
        }
        execute(call, placement, stream.as_deref(), steps, reduce)?;
    }
    if call.is_none() || arguments.n() == 0 {
        last_run::clear();
    }
    Ok(())
}

/// Queues a call on a stream of a device.
fn queue(call: &Call<'_>, plan: &OnStream, stream: &cuda::Stream) -> Result<(), Error> {
    stream.queue(call, plan)?;
    report_queued(call, plan, stream);
    Ok(())
}

/// Says in the thread's last run that a stream has taken a call.
fn report_queued(call: &Call<'_>, plan: &OnStream, stream: &cuda::Stream) {
    last_run::set(Report {
        backend: Backend::Gpu,
        path: gpus::path(call, &plan.transfers),
        devices: last_run::device_bit(stream.ordinal()),
        threads: 1,
        chunks: 1,
        bytes_staged: 0,
        selection: Selection::NONE,
    });
}

/// Plans a call, and does as the plan says, after the stream's earlier work.
fn execute(
    call: &Call<'_>, placement: Placement, stream: Option<&Stream>, steps: CpuProgram<'_>,
    reduce: Option<Reduce<'_>>,
) -> Result<(), Error> {
    let warmups = warmup::count();
    let chosen = choose(call, placement, &Host);
    // Not moved: a plan is large for a short call.
    let plan = &plan(call, placement, &chosen, &Host);
    let plan = plan.as_ref().map_err(|error| *error)?;
    stream.map_or(Ok(()), Stream::synchronize)?;
    let runner = Runner { call, plan, selection: (&chosen).into() };
    let mut work = Evaluating::new(steps, call);
    timed(&chosen, warmups, || match reduce {
        Some(reduce) => reduce(&runner, &work),
        None => runner.work(&mut work),
    })
}

/// Runs a call that is done when it returns.
struct Runner<'a> {
    call: &'a Call<'a>,
    plan: &'a Plan,
    selection: Selection,
}

impl Runner<'_> {
    /// Does the work of a call.
    fn work(&self, work: &mut Evaluating<'_>) -> Result<(), Error> {
        match self.call.task().reduction() {
            _ if self.call.task().has_several_kernels() => self.reduce_several(work),
            Some((reduction, ty)) => visit(reduction, ty, Reduction { runner: self, work }),
            None => {
                self.run(work)?;
                work.check()
            }
        }
    }

    /// Does the work of a call with several kernels, at least one of them a reduction. Results of reductions are
    /// written last, since they may be in inputs.
    #[inline(never)]
    fn reduce_several(&self, work: &Evaluating<'_>) -> Result<(), Error> {
        let mut reducing = ReducingSeveral::new(work, self.call.task().reductions())?;
        self.run(&mut reducing)?;
        work.check()?;
        let repeats = self.call.is_uniform().then(|| self.call.n());
        let outputs = self.call.outputs_of(Extent::Results);
        let results = reducing.results(repeats)?;
        outputs.zip(results).try_for_each(|((_, output), bits)| alloc::write_bits(output, bits))
    }

    /// Runs the work on the call's chunks, and says where. Where GPUs fail, cores do it if the plan says so.
    fn run(&self, work: &mut dyn ChunkWork) -> Result<Backend, Error> {
        let on_gpus = match self.plan {
            Plan::Cores(plan) => {
                self.run_on_cores(plan, self.selection, work);
                return Ok(Backend::Cpu);
            }
            Plan::Gpus(plan) => plan,
        };
        work.begin(self.call.n());
        let Err(Failure { error, wrote }) = gpus::run(self.call, on_gpus, self.selection, work)
        else {
            return Ok(Backend::Gpu);
        };
        match on_gpus.fallback {
            Fallback::CoresIfUnwritten if wrote => Err(error),
            Fallback::None => Err(error),
            Fallback::CoresIfUnwritten | Fallback::Cores => {
                log::fell_back(error);
                let chosen = fastest_cores(self.call, &Host);
                let plan = on_cores(self.call, chosen.choice, &Host);
                let selection = Selection { reason: Reason::Fallback, ..(&chosen).into() };
                self.run_on_cores(&plan, selection, work);
                Ok(Backend::Cpu)
            }
        }
    }

    fn run_on_cores(&self, plan: &OnCores, selection: Selection, work: &mut dyn ChunkWork) {
        work.begin(plan.partition.elements());
        cores::run(self.call, plan, selection, work);
    }
}

/// Runs a call's reduction.
struct Reduction<'a> {
    runner: &'a Runner<'a>,
    work: &'a Evaluating<'a>,
}

impl Reduction<'_> {
    /// Stores the result, whose bits these are, as a value of the output's type.
    fn store(&self, bits: u64) -> Result<(), Error> {
        let call = self.runner.call;
        let bits = call.task().conversion().map_or(bits, |conversion| conversion(bits));
        alloc::write_bits(&call.outputs()[0], bits)
    }

    /// The result of a sum within a bound, if it may take less time. (A function of its own: the stack that it needs is
    /// free again where it has none.)
    #[inline(never)]
    fn bounded<R: BlockReduction>(&self) -> Result<Option<u64>, Error> {
        if !self.may_be_bounded() {
            return Ok(None);
        }
        Ok(R::bounded(self)?.map(|result| result.bits()))
    }

    /// True if bounded sums may take less time: for arrays in the caches of cores.
    fn may_be_bounded(&self) -> bool {
        matches!(self.runner.plan, Plan::Cores(plan) if plan.partition.elements() <= CORES.most_bounded)
            && self.work.reads_arrays_alone()
    }
}

impl Reducer for Reduction<'_> {
    type Error = Error;

    #[inline(never)]
    fn reduce<S: Copy + Send + Sync>(&self, states: States<S>, add: Add<S>) -> Result<S, Error> {
        let mut reducing = Reducing::new(self.work, add, states);
        self.runner.run(&mut reducing)?;
        self.work.check()?;
        reducing.state()
    }
}

impl ReductionVisitor for Reduction<'_> {
    type Result = Result<(), Error>;

    fn visit<R: BlockReduction>(self) -> Self::Result {
        let Reduction { runner, work } = &self;
        if let (Some(result), Plan::Cores(plan)) = (R::RESULT, runner.plan)
            && plan.partition.chunks() == 1
            && work.reads_arrays_alone()
        {
            let mut whole = Whole::new(work, result);
            runner.run(&mut whole)?;
            return self.store(whole.result()?.bits());
        }
        if let Some(bits) = self.bounded::<R>()? {
            return self.store(bits);
        }
        let mut state = self.reduce(States::of::<R::Accumulator>(), R::add)?;
        if runner.call.is_uniform() {
            state = repeated::<R::Accumulator>(&state, runner.call.n());
        }
        self.store(R::Accumulator::finish(&state).bits())
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

#[cfg(test)]
mod tests {
    use super::*;
    use gpuvec_exact::Dot;
    use gpuvec_ops::DotF64;

    fn accumulate_pairs(a: &[f64], b: &[f64], state: &mut State<Dot<f64>>) -> Result<(), Error> {
        let input = |name, values: &[f64]| Input {
            name,
            pointer: values.as_ptr().cast(),
            layout: Layout::contiguous(size_of::<f64>()),
        };
        let inputs = [input("a", a), input("b", b)];
        // SAFETY: both have as many elements as `a`.
        unsafe { accumulate::<DotF64>(&inputs, a.len(), std::ptr::null_mut(), state) }
    }

    #[test]
    fn a_state_of_pieces_has_the_words_of_the_whole() {
        let a: Vec<f64> = (0..300_000).map(|i| f64::from(i).powi(i % 40 - 20)).collect();
        let b: Vec<f64> = a.iter().rev().copied().collect();
        let (mut expected, mut state) = (State::<Dot<f64>>::ZERO, State::ZERO);
        a.iter().zip(&b).for_each(|(x, y)| expected.deposit((*x, *y)));
        for piece in [0..0, 0..1, 1..5000, 5000..300_000] {
            accumulate_pairs(&a[piece.clone()], &b[piece], &mut state).unwrap();
        }
        expected.normalise();
        state.normalise();
        assert_eq!(state.words(), expected.words());
    }

    #[test]
    fn an_error_leaves_the_state() {
        let (values, mut state) = ([1.0, 2.0], State::ZERO);
        accumulate_pairs(&values, &values, &mut state).unwrap();
        let input = Input { name: "a", pointer: std::ptr::null(), layout: Layout::contiguous(8) };
        // SAFETY: NULL is refused.
        let null = unsafe { accumulate::<DotF64>(&[input], 2, std::ptr::null_mut(), &mut state) };
        assert!(matches!(null, Err(Error::Null { argument: "a", n: 2 })));
        assert_eq!(state.value(), 5.0);
    }
}
