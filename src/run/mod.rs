//! Runs calls: makes a [`Call`] of a caller's arguments, plans it, and does as the plan says.

mod cores;
mod evaluate;
mod gpus;
mod host;
pub mod last_run;
pub(crate) mod log;
mod memory_kinds;
mod work;

use crate::call::chunk::Chunk;
use crate::call::plan::{Fallback, OnCores, Plan, on_cores, on_stream, plan};
use crate::call::{Call, Input, Task, Work, choose, fastest_cores};
use crate::cpu;
use crate::cuda::alloc;
use crate::error::Error;
use crate::objects::stream::{Stream, given, gpuvec_stream};
use crate::process::settings::{self, Placement};
use crate::process::warmup;
pub(crate) use evaluate::{evaluate, prepare};
use gpus::Failure;
use gpuvec_exact::State;
use gpuvec_ops::{Accumulator, Elementwise, Exact, Fold, Visitor};
use host::{Host, timed};
use last_run::{Backend, Reason, Report, Selection};
use log::Subject;
use memory_kinds::MemoryKinds;
use std::ffi::c_void;
use work::{Accumulate, Copying, Mapping, Reducing, States, Whole};

/// Runs a task over `n` elements of each input, or queues it on a stream. Says in the thread's last run
/// how.
///
/// # Safety
/// As [`Call::with`].
pub(crate) unsafe fn run(
    task: Task<'_>, inputs: &[Input], output: (&'static str, *mut c_void), n: usize,
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    log::begin(task.into(), n);
    let mut then = |call: &Call<'_>, placement, stream: Option<&Stream>| {
        execute(call, placement, stream, &mut |runner| match task {
            Task::Compute { op, alpha } => op.visit(alpha, runner),
            Task::Copy => runner.run(&mut Copying(call)),
            Task::Evaluate(_) => Err(Error::Internal { text: "an expression without its program" }),
        })
    };
    // SAFETY: this function's promise.
    unsafe { with_call(task, inputs, output, n, stream, &mut then) }
}

/// Adds the terms of an exact sum or dot product to a state. The stream's earlier work is done before, and
/// the state is there when this returns; after an error it is as it was. Checks the arguments, follows the
/// placement and sets the thread's last run as [`run`] does for an output in host memory.
///
/// # Safety
/// As [`Call::with`], of the inputs.
pub(crate) unsafe fn accumulate<O: Exact>(
    op: O, inputs: &[Input], n: usize, stream: *mut gpuvec_stream, state: &mut State<O::Kind>,
) -> Result<(), Error> {
    let task = Task::Compute { op: O::OP, alpha: op.alpha() };
    log::begin(Subject::Accumulator(Some(O::OP)), n);
    // In the place of an output, which nothing writes.
    let output = ("state", (&raw mut *state).cast());
    let mut then = |call: &Call<'_>, placement, stream: Option<&Stream>| {
        let warmups = warmup::count();
        let chosen = choose(call, placement, &Host);
        let plan = plan(call, placement, chosen.choice, &Host)?;
        stream.map_or(Ok(()), Stream::synchronize)?;
        let mut merge = |sum: &_| {
            state.merge(sum);
            Ok(())
        };
        let runner = Runner { call, plan: &plan, selection: (&chosen).into() };
        timed(&chosen, warmups, || runner.sum::<O>(&mut merge))
    };
    // SAFETY: this function's promise.
    unsafe { with_call(task, inputs, output, n, stream, &mut then) }
}

/// Does the work of a checked call. Its type is erased, since most of a short call's code comes before.
type Then<'a> = &'a mut dyn FnMut(&Call<'_>, Placement, Option<&Stream>) -> Result<(), Error>;

/// Checks the arguments, and hands the call, the placement and the stream to `then`. The
/// last run says how it ran.
///
/// # Safety
/// As [`Call::with`].
unsafe fn with_call(
    task: Task<'_>, inputs: &[Input], output: (&'static str, *mut c_void), n: usize,
    stream: *mut gpuvec_stream, then: Then<'_>,
) -> Result<(), Error> {
    let (placement, stream) = (settings::placement()?, given(stream)?);
    let mut kinds = None;
    let kind_of = |array: &_| {
        let kinds = kinds.get_or_insert_with(|| MemoryKinds::new(placement));
        if task.is_copy() { kinds.of_copied(array) } else { kinds.of(array) }
    };
    let then = |call: &Call<'_>| then(call, placement, stream.as_deref());
    // SAFETY: this function's promise.
    unsafe { Call::with(task, inputs, output, n, kind_of, then)? };
    if n == 0 {
        last_run::clear();
    }
    Ok(())
}

/// Plans a call, and queues it, or lets `work` do as the plan says.
fn execute(
    call: &Call<'_>, placement: Placement, stream: Option<&Stream>,
    work: &mut dyn FnMut(&Runner<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    if let Some(Stream::Gpu(stream)) = stream
        && let Some(plan) = on_stream(call, placement, stream.ordinal())
    {
        stream.queue(call, &plan)?;
        last_run::set(Report {
            backend: Backend::Gpu,
            path: gpus::path(call, &plan.transfers),
            devices: last_run::device_bit(stream.ordinal()),
            threads: 1,
            chunks: 1,
            bytes_staged: 0,
            selection: Selection::NONE,
        });
        return Ok(());
    }
    let warmups = warmup::count();
    let chosen = choose(call, placement, &Host);
    // Where it is: a plan is large for a short call.
    let plan = &plan(call, placement, chosen.choice, &Host);
    let plan = plan.as_ref().map_err(|error| *error)?;
    stream.map_or(Ok(()), Stream::synchronize)?;
    let runner = Runner { call, plan, selection: (&chosen).into() };
    timed(&chosen, warmups, || work(&runner))
}

/// Does something with the state of a reduction.
type Finish<'a, S> = &'a mut dyn FnMut(&S) -> Result<(), Error>;

/// Runs a call that is done when it returns.
struct Runner<'a> {
    call: &'a Call<'a>,
    plan: &'a Plan,
    selection: Selection,
}

impl Runner<'_> {
    /// Runs the work on the call's chunks. Where GPUs fail, cores do it if the plan says so.
    fn run(&self, work: &mut dyn Work) -> Result<(), Error> {
        let on_gpus = match self.plan {
            Plan::Cores(plan) => {
                self.run_on_cores(plan, self.selection, work);
                return Ok(());
            }
            Plan::Gpus(plan) => plan,
        };
        work.begin(self.call.n());
        gpus::run(self.call, on_gpus, self.selection, work).or_else(|Failure { error, wrote }| {
            match on_gpus.fallback {
                Fallback::CoresIfUnwritten if wrote => Err(error),
                Fallback::None => Err(error),
                Fallback::CoresIfUnwritten | Fallback::Cores => {
                    let chosen = fastest_cores(self.call, &Host);
                    let plan = on_cores(self.call, chosen.choice, &Host);
                    let selection = Selection { reason: Reason::Fallback, ..(&chosen).into() };
                    self.run_on_cores(&plan, selection, work);
                    Ok(())
                }
            }
        })
    }

    fn run_on_cores(&self, plan: &OnCores, selection: Selection, work: &mut dyn Work) {
        work.begin(plan.partition.elements());
        cores::run(self.call, plan, selection, work);
    }

    /// Runs an exact sum, and hands its state to `then`.
    fn sum<O: Exact>(&self, then: Finish<'_, State<O::Kind>>) -> Result<(), Error> {
        let sum = |chunks: &mut dyn Iterator<Item = Chunk>, state: &mut _| {
            chunks.for_each(|chunk| cpu::sum::<O>(self.call, &chunk, state));
        };
        self.reduce(&sum, States::of::<O::Kind>(), then)
    }

    /// Runs a reduction, and hands its state to `then`.
    #[inline(never)]
    fn reduce<S: Copy + Send + Sync>(
        &self, accumulate: &Accumulate<'_, S>, states: States<S>, then: Finish<'_, S>,
    ) -> Result<(), Error> {
        let mut work = Reducing::new(accumulate, states);
        self.run(&mut work)?;
        then(&work.state()?)
    }

    /// Stores the result of a reduction.
    fn store<T: Copy>(&self, value: T) -> Result<(), Error> {
        let output = self.call.output();
        if let Some(ordinal) = output.device() {
            // SAFETY: the call promises the output; the driver says that it is of this device.
            return unsafe { alloc::write(ordinal, output.address, value) };
        }
        // SAFETY: the call promises the output, which is aligned, and which the host reaches.
        unsafe { output.host_pointer::<T>(0).write(value) };
        Ok(())
    }
}

impl Visitor for &Runner<'_> {
    type Result = Result<(), Error>;

    fn elementwise<O: Elementwise>(self, op: O) -> Self::Result {
        self.run(&mut Mapping(op, self.call))
    }

    fn fold<O: Fold>(self, op: O) -> Self::Result {
        let fold = |chunks: &mut dyn Iterator<Item = Chunk>, state: &mut _| {
            chunks.for_each(|chunk| cpu::fold(op, self.call, &chunk, state));
        };
        let store = &mut |state: &_| self.store(O::Accumulator::finish(state));
        self.reduce(&fold, States::of::<O::Accumulator>(), store)
    }

    fn exact<O: Exact>(self, _: O) -> Self::Result {
        if let Plan::Cores(plan) = self.plan
            && plan.partition.chunks() == 1
        {
            let mut work = Whole::<O>::new(self.call);
            self.run(&mut work)?;
            return self.store(work.value()?);
        }
        self.sum::<O>(&mut |state| self.store(state.value()))
    }
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
            element_bytes: size_of::<f64>(),
        };
        let inputs = [input("a", a), input("b", b)];
        // SAFETY: both have as many elements as `a`.
        unsafe { accumulate(DotF64, &inputs, a.len(), std::ptr::null_mut(), state) }
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
        let input = Input { name: "a", pointer: std::ptr::null(), element_bytes: 8 };
        // SAFETY: NULL is refused.
        let null = unsafe { accumulate(DotF64, &[input], 2, std::ptr::null_mut(), &mut state) };
        assert!(matches!(null, Err(Error::Null { argument: "a", n: 2 })));
        assert_eq!(state.value(), 5.0);
    }
}
