//! The one way of work to a device: part of a call, queued on a stream.

use super::completion::Flags;
use super::device::Device;
use super::driver::{CUstream, cuMemcpyAsync};
use super::grid;
use super::kernels::{MAX_PARAMETERS, blocks_per_multiprocessor, is_compiled, packs};
use crate::call::{Binding, Evaluation, Task};
use crate::error::Error;
use crate::tuning;
use arrayvec::ArrayVec;
use gpuvec_expr::{Reduction, Type};

/// Part of a call, by the addresses at which the device reaches it.
pub(super) struct Part<'a> {
    pub(super) task: Task<'a>,
    /// The address of the part's first element in each input.
    pub(super) inputs: &'a [u64],
    /// The index of the first element in the whole arrays.
    pub(super) first: usize,
    /// Elements.
    pub(super) n: usize,
    pub(super) output: Output,
    /// The most blocks that a kernel has.
    pub(super) block_limit: u32,
    /// Flags by which a kernel signals completion.
    pub(super) flags: Option<Flags>,
}

/// The destination of a part's results.
#[derive(Clone, Copy)]
pub(super) enum Output {
    /// Elements, or copied bytes, from a kernel.
    Elements(u64),
    /// Bytes that the driver copies.
    ByDriver(u64),
    /// The state of a reduction, with the address of the stream's scratch memory.
    State(u64, u64),
    /// The result of a reduction, with the address of the stream's scratch memory.
    Result(u64, u64),
}

const NO_OUTPUT: Error = Error::Internal { text: "an output that the task does not have" };

/// In the place of an address, for a kernel that is not to write there.
const NULL: u64 = 0;

/// Queues part of a call. Returns the number of warps that will signal completion by the flags.
///
/// # Safety
/// The stream must be the device's, whose context is current. At each address the device must reach memory
/// for all of the part, aligned as its elements; nothing else may change the inputs, or access the output,
/// until the stream has done the work.
pub(super) unsafe fn enqueue(
    device: &Device, stream: CUstream, part: Part<'_>,
) -> Result<u32, Error> {
    let Part { task, inputs, first, n, output, block_limit, flags } = part;
    if let (Task::Copy, Output::ByDriver(out), &[from]) = (task, output, inputs) {
        // SAFETY: this function's promise.
        return unsafe { copy(device, stream, from, out, n) }.map(|()| 0);
    }
    let blocks = match task.is_reduction() {
        false => {
            let [pack, packs_per_thread] = packs(task)?;
            grid::of_packs(n, pack, packs_per_thread, block_limit)
        }
        true => {
            let held = device.multiprocessors.saturating_mul(blocks_per_multiprocessor(task)?);
            grid::of_reduction(n, block_limit.min(held))
        }
    };
    let flags = flags.filter(|_| grid::warps(blocks) <= tuning::FLAGGED_WARPS);
    let warps = flags.map_or(0, |flags| flags.clear(grid::warps(blocks)));
    let (n, flags) = (n as u64, flags.map_or(NULL, Flags::address));
    let mut parameters = input_parameters(task, inputs);
    let last = || last_parameter(device, task, first);
    match output {
        Output::ByDriver(_) => return Err(NO_OUTPUT),
        Output::Elements(out) => parameters.extend([out, n, flags]),
        Output::State(state, scratch) => {
            parameters.extend([state, n, flags, scratch, NULL, last()]);
        }
        Output::Result(result, scratch) => {
            parameters.extend([NULL, n, flags, scratch, result, last()]);
        }
    }
    // SAFETY: this function's promise.
    unsafe { device.kernels.launch(task, blocks, stream, &mut parameters)? };
    Ok(warps)
}

/// The parameters of a kernel for its inputs.
fn input_parameters(task: Task<'_>, arrays: &[u64]) -> ArrayVec<u64, MAX_PARAMETERS> {
    let mut arrays = arrays.iter().copied();
    match task {
        // Compiled kernels take two arrays, which may be the same.
        Task::Evaluate(Evaluation { formula, .. }) if is_compiled(formula) => {
            arrays.cycle().take(2).collect()
        }
        Task::Evaluate(Evaluation { bindings, .. }) => {
            let parameter = |binding: &Binding| match binding {
                Binding::Array => arrays.next().unwrap_or(NULL),
                Binding::Scalar(bits) => *bits,
                Binding::Unused => NULL,
            };
            bindings.iter().map(parameter).collect()
        }
        Task::Copy => arrays.collect(),
    }
}

/// The last parameter of a reduction's kernel: for exact sums, whether they are to use integers alone; for
/// other reductions, the index of the first element.
fn last_parameter(device: &Device, task: Task<'_>, first: usize) -> u64 {
    use Reduction::{Dot, Mean, Norm, Sum};
    match task.reduction() {
        Some((Sum | Mean | Dot | Norm, Type::F32)) => u64::from(device.lacks_f64_units),
        Some((Sum | Mean | Dot | Norm, Type::F64)) => 0,
        _ => first as u64,
    }
}

/// Queues a copy of bytes by the driver.
///
/// # Safety
/// As [`enqueue`].
pub(super) unsafe fn copy(
    device: &Device, stream: CUstream, from: u64, to: u64, bytes: usize,
) -> Result<(), Error> {
    // SAFETY: this function's promise.
    unsafe { cuMemcpyAsync(to, from, bytes, stream) }.of("cuMemcpyAsync", device.ordinal())
}
