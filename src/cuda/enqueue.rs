//! Queues kernels for contiguous arrays, and copies, on a stream.

use super::completion::Flags;
use super::device::Device;
use super::driver::{CUstream, cuMemcpyAsync};
use super::grid;
use super::kernels::{Form, MAX_PARAMETERS, blocks_per_multiprocessor, packs};
use crate::call::{
    Array, Binding, Call, Evaluation, MAX_ARRAYS, Task, TaskKind, Transfer, Transfers,
};
use crate::error::Error;
use crate::policy::gpu;
use arrayvec::ArrayVec;
use gpuvec_expr::{Reduction, Type};

/// The launch of a kernel for contiguous arrays.
pub(super) struct Launch<'a> {
    /// The task of the kernel.
    pub(super) task: Task<'a>,
    /// The addresses of the first elements: of the inputs, then of the outputs.
    pub(super) arrays: &'a [u64],
    /// The number of inputs.
    pub(super) inputs: usize,
    /// The index of the first element in the whole arrays.
    pub(super) first: usize,
    /// The number of elements.
    pub(super) n: usize,
    pub(super) contents: Contents,
    /// The most blocks of the grid.
    pub(super) block_limit: u32,
    /// Flags by which a kernel signals completion.
    pub(super) flags: Option<Flags>,
}

/// The contents of a kernel's outputs.
#[derive(Clone, Copy)]
pub(super) enum Contents {
    /// Elements, or copied bytes.
    Elements,
    /// The state of a reduction, with the address of the stream's scratch memory.
    State(u64),
    /// The result of a reduction, with the address of the stream's scratch memory.
    Result(u64),
}

/// The addresses of a call's arrays.
pub(crate) type Addresses = ArrayVec<u64, MAX_ARRAYS>;

/// The device's addresses of the first elements of a call's arrays, for the arrays that it accesses in place.
pub(super) fn addresses_of_first(
    device: &Device, call: &Call<'_>, transfers: &Transfers,
) -> Result<Addresses, Error> {
    let address = |(number, (array, transfer)): (usize, (&Array, Transfer))| {
        let lowest = match transfer {
            Transfer::Mapped => device.address_of(array.address)?,
            _ => array.address as u64,
        };
        let views = call.strides().map(|strides| &strides.views()[number]);
        Ok(lowest + views.map_or(0, |view| (view.first - view.lowest) as u64))
    };
    call.arrays().zip(transfers.all()).enumerate().map(address).collect()
}

pub(super) const NO_OUTPUT: Error =
    Error::Internal { text: "an output that the task does not have" };

/// The address that a kernel does not write to.
const NULL: u64 = 0;

/// Queues a kernel. Returns the number of warps that will signal completion by the flags.
///
/// # Safety
/// The stream must be the device's, and the device's context must be current. At each address must be memory for all
/// elements, aligned as they are, that the device can access. Until the stream has done the work, nothing else may
/// change the inputs or access the outputs.
pub(super) unsafe fn enqueue(
    device: &Device, stream: CUstream, launch: Launch<'_>,
) -> Result<u32, Error> {
    let Launch { task, arrays, inputs, first, n, contents, block_limit, flags } = launch;
    let (inputs, outputs) = arrays.split_at(inputs);
    let blocks = match task.kind() {
        TaskKind::Copy | TaskKind::Elementwise | TaskKind::Mixed => {
            let [pack, packs_per_thread] = packs(task)?;
            grid::of_packs(n, pack, packs_per_thread, block_limit)
        }
        TaskKind::Reduced | TaskKind::Grouped => {
            let held = device.multiprocessors.saturating_mul(blocks_per_multiprocessor(task)?);
            // Several waves balance the load. Exact sums of f32 do not need them, since their warps take batches from a
            // counter. Folds have room only for the states of the blocks that run at once.
            let has_waves = exact_sum(task) == Some(Type::F64);
            let waves = if has_waves { grid::waves(n, held, device.policy) } else { 1 };
            grid::of_reduction(n, block_limit.min(held.saturating_mul(waves)))
        }
    };
    let flags = flags.filter(|_| grid::warps(blocks) <= gpu::FLAGGED_WARPS);
    let warps = flags.map_or(0, |flags| flags.clear(grid::warps(blocks)));
    let (n, flags) = (n as u64, flags.map_or(NULL, Flags::address));
    let mut parameters = input_parameters(task, inputs);
    let last = || last_parameter(device, task, first);
    match (contents, outputs) {
        (Contents::Elements, outputs) => {
            parameters.extend(outputs.iter().copied().chain([n, flags]));
        }
        (Contents::State(scratch), &[state]) => {
            parameters.extend([state, n, flags, scratch, NULL, last()]);
        }
        (Contents::Result(scratch), &[result]) => {
            parameters.extend([NULL, n, flags, scratch, result, last()]);
        }
        _ => return Err(NO_OUTPUT),
    }
    // SAFETY: this function's promise.
    unsafe {
        device.kernels.launch(task, Form::Contiguous, [blocks, 0], stream, &mut parameters, None)?
    };
    Ok(warps)
}

/// The parameters for a kernel's inputs.
pub(super) fn input_parameters(task: Task<'_>, arrays: &[u64]) -> ArrayVec<u64, MAX_PARAMETERS> {
    let mut arrays = arrays.iter().copied();
    match task {
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

/// The last parameter of a reduction's kernel: for exact sums, 1 if they are to use integers alone; for other
/// reductions, the index of the first element.
pub(super) fn last_parameter(device: &Device, task: Task<'_>, first: usize) -> u64 {
    match exact_sum(task) {
        Some(Type::F32) => u64::from(device.lacks_f64_units),
        Some(_) => 0,
        None => first as u64,
    }
}

/// The type of the elements, if the task is an exact sum.
fn exact_sum(task: Task<'_>) -> Option<Type> {
    use Reduction::{Dot, Mean, Norm, Sum};
    match task.reduction() {
        Some((Sum | Mean | Dot | Norm, ty @ (Type::F32 | Type::F64))) => Some(ty),
        _ => None,
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
