//! Runs calls: makes a [`Call`] from a caller's arguments, plans it, and follows the plan.

mod accumulate;
mod arguments;
mod by_key;
mod cores;
mod dlpack;
mod gpus;
mod host;
pub mod last_run;
pub(crate) mod log;
mod memory_kinds;
mod passes;
mod reduce_axes;
mod strided_iter;
mod uniform;
mod work;

use crate::call::plan::{Fallback, OnCores, OnStream, Plan, on_cores, on_stream, plan};
use crate::call::{
    Argument, Arguments, Binding, Call, ChunkWork, Evaluation, Extent, Formula, Layout, Task,
    TaskKind, choose, fastest_cores,
};
use crate::cpu::expression::{Add, BlockReduction, Reducer, ReductionVisitor, States, visit};
use crate::cuda::{alloc, device, stream as cuda};
use crate::error::Error;
use crate::objects::expression::Expression;
use crate::objects::stream::{Stream, given, gpuvec_stream};
use crate::policy;
use crate::process::settings::{self, Placement};
use crate::process::warmup;
pub(crate) use accumulate::accumulate;
pub use arguments::gpuvec_array;
pub(crate) use arguments::{Given, INPUT_NAMES, OUTPUT_NAMES, Pointers};
pub(crate) use by_key::{Groups, accumulate_by_key, evaluate_by_key};
pub(crate) use dlpack::evaluate_tensors;
use gpus::Failure;
use gpuvec_ops::{Accumulator, Element, Op};
use host::{Host, timed};
use last_run::{Backend, Reason, Report, Selection};
use log::Subject;
use memory_kinds::MemoryKinds;
pub(crate) use passes::evaluate;
use std::ffi::c_void;

use reduce_axes::ReduceAxes;
use work::{CpuProgram, Evaluating, NoWork, Reducing, ReducingSeveral, Whole};

/// Runs an operation on its arrays, or queues it on a stream. `alpha` has the bits of its factor, if it has one. Like
/// all functions of this module, stores the thread's last run.
///
/// # Safety
/// As [`Argument::new`]. There are as many inputs as the operation has.
#[inline(never)]
pub(crate) unsafe fn operation<const COUNT: usize>(
    op: Op, alpha: u64, inputs: [*const c_void; COUNT], out: *mut c_void, n: usize,
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    log::begin(Subject::Operation(op), n);
    let formula = Formula::of(op);
    let bindings = [Binding::Array, Binding::Array, Binding::Scalar(alpha)];
    let bindings = &bindings[2 - COUNT..][..COUNT + usize::from(formula.has_alpha)];
    let task = Task::Evaluate(Evaluation { formula, bindings, groups: 0 });
    let layout = Layout::contiguous(op.element_bytes());
    // SAFETY: this function's promise.
    let argument = |name, pointer, layout| unsafe { Argument::new(name, pointer, layout, None) };
    let inputs = std::array::from_fn::<_, COUNT, _>(|i| argument(["a", "b"][i], inputs[i], layout));
    let outputs = [argument("out", out, formula.output)];
    let arguments = Arguments::contiguous(task, n, &inputs, &outputs);
    run(&arguments, CpuProgram::Operation { op, alpha }, stream)
}

/// Copies bytes from the first of two arguments to the other, or queues that on a stream.
pub(crate) fn copy(
    [src, dst]: [Argument<'_>; 2], bytes: usize, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    log::begin(Subject::Copy, bytes);
    run(&Arguments::contiguous(Task::Copy, bytes, &[src], &[dst]), CpuProgram::Copy, stream)
}

/// Makes the driver compile an expression for a device, if there is a GPU.
pub(crate) fn prepare(expression: &Expression, device: i32) -> Result<(), Error> {
    match device::asked_for(settings::placement()?, device)? {
        Some(device) => expression.passes().try_for_each(|pass| device.prepare(&pass.formula)),
        None => Ok(()),
    }
}

/// Runs a call's reduction for a purpose other than storing its result.
type Reduce<'a> = &'a mut dyn FnMut(&Runner<'_>, &Evaluating<'_>) -> Result<(), Error>;

/// Runs a call, or queues it on a stream; cores run it by `steps`.
fn run(
    arguments: &Arguments<'_>, steps: CpuProgram<'_>, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let placement = settings::placement()?;
    let of_stream = given(stream)?;
    let kinds = MemoryKinds { task: arguments.task, placement };
    let ran = arguments.check(kinds, |call| {
        if let Some(Stream::Gpu(stream)) = of_stream.as_deref()
            && let Some(plan) = on_stream(call, placement, stream.ordinal())
        {
            return queue(call, &plan, stream);
        }
        if uniform::has_equal_elements(call) && uniform::store(call, steps, placement, stream)? {
            return Ok(());
        }
        execute(call, placement, of_stream.as_deref(), steps, None)?;
        if call.n() == 0 {
            last_run::clear();
        }
        Ok(())
    })?;
    if ran.is_none() {
        last_run::clear();
    }
    Ok(())
}

/// Queues a call on a stream of a device.
fn queue(call: &Call<'_>, plan: &OnStream, stream: &cuda::Stream) -> Result<(), Error> {
    stream.queue(call, plan)?;
    last_run::set(Report {
        backend: Backend::Gpu,
        path: gpus::path(call, &plan.transfers),
        devices: last_run::device_bit(stream.ordinal()),
        threads: 1,
        chunks: 1,
        bytes_staged: 0,
        selection: Selection::NONE,
    });
    Ok(())
}

/// Plans a call, waits for the stream's earlier work, and follows the plan.
fn execute(
    call: &Call<'_>, placement: Placement, stream: Option<&Stream>, steps: CpuProgram<'_>,
    reduce: Option<Reduce<'_>>,
) -> Result<(), Error> {
    let warmups = warmup::count();
    let chosen = choose(call, placement, &Host);
    // A plan is too large to be moved in a short call.
    let plan = &plan(call, placement, &chosen, &Host);
    let plan = plan.as_ref().map_err(|error| *error)?;
    if let Some(stream) = stream {
        stream.synchronize()?;
    }
    let runner = Runner { call, plan, selection: (&chosen).into() };
    let mut work = Evaluating::new(steps, call);
    timed(&chosen, warmups, || match reduce {
        Some(reduce) => reduce(&runner, &work),
        None => runner.work(&mut work),
    })
}

/// A call that is done when its run returns.
struct Runner<'a> {
    call: &'a Call<'a>,
    plan: &'a Plan,
    selection: Selection,
}

impl Runner<'_> {
    /// Does the work of a call.
    fn work(&self, work: &mut Evaluating<'_>) -> Result<(), Error> {
        match self.call.task().reduction() {
            _ if self.reduces_along_axes() => self.reduce_along_axes(work),
            _ if self.call.task().has_several_kernels() => self.reduce_several(work),
            Some((reduction, ty)) => visit(reduction, ty, Reduction { runner: self, work }),
            None => {
                self.run(work)?;
                work.check()
            }
        }
    }

    fn reduces_along_axes(&self) -> bool {
        self.call.strides().is_some()
            && match self.call.task().kind() {
                TaskKind::Copy | TaskKind::Elementwise => false,
                TaskKind::Reduced | TaskKind::Grouped | TaskKind::Mixed => true,
            }
    }

    /// Does the work of a call with reductions along axes.
    #[inline(never)]
    fn reduce_along_axes(&self, work: &Evaluating<'_>) -> Result<(), Error> {
        if uniform::has_equal_elements(self.call) {
            return self.run(&mut NoWork).map(|_| ());
        }
        let mut reducing = ReduceAxes::new(work.blocks()?, self.call)?;
        match self.run_along_axes(&mut reducing)? {
            Backend::Gpu => Ok(()),
            Backend::None | Backend::Cpu => reducing.finish(),
        }
    }

    /// Runs a reduction along axes, and returns the backend that ran it. Fails unless all units are done.
    fn run_along_axes(&self, reducing: &mut ReduceAxes<'_>) -> Result<Backend, Error> {
        if let Plan::Cores(plan) = self.plan {
            reducing.divide(plan.threads);
        }
        let ran_on = self.run(reducing)?;
        match ran_on {
            Backend::Gpu => {}
            Backend::None | Backend::Cpu => reducing.check()?,
        }
        Ok(ran_on)
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

    /// Runs the work on the call's chunks, and returns the backend that ran it. If GPUs fail, cores do the work if the
    /// plan allows it.
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
                crate::process::log::event(format_args!("fell back to cores: {error}"));
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
    /// Stores the bits of the result as a value of the output's type.
    fn store(&self, bits: u64) -> Result<(), Error> {
        let call = self.runner.call;
        let bits = call.task().conversion().map_or(bits, |conversion| conversion(bits));
        alloc::write_bits(&call.outputs()[0], bits)
    }

    /// The result of a sum within a bound, if that may take less time: for arrays in the caches of cores. (Not inlined,
    /// so that its stack is free again if it returns none.)
    #[inline(never)]
    fn bounded<R: BlockReduction>(&self) -> Result<Option<u64>, Error> {
        match self.runner.plan {
            Plan::Cores(plan)
                if plan.partition.elements() <= policy::cores::MOST_BOUNDED
                    && self.work.reads_arrays_alone() =>
            {
                Ok(R::bounded(self)?.map(|result| result.bits()))
            }
            _ => Ok(None),
        }
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

/// The state of `n` elements that all have the same state, by repeated doubling.
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
