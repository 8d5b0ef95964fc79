//! The one way of work to a device: part of a call, queued on a stream.

use super::completion::Flags;
use super::device::Device;
use super::driver::{CUstream, cuMemcpyAsync};
use super::kernels::Kernel;
use crate::call::Task;
use crate::call::grid;
use crate::error::Error;
use crate::ops::{GROUP, Op, TILE};

/// Part of a call, by the addresses at which the device reaches it.
pub(super) struct Part<'a> {
    pub(super) task: Task,
    /// The address of the part's first element in each input.
    pub(super) inputs: &'a [u64],
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
    /// The states of the part's tiles.
    Tiles(u64),
    /// The states of groups of tiles, by way of those of the tiles.
    Groups { tiles: u64, groups: u64 },
}

/// In the place of flags, for a kernel that is to set none.
const NO_FLAGS: u64 = 0;

/// Queues part of a call. Gives the number of warps that will signal completion by the flags.
///
/// # Safety
/// The stream must be the device's, whose context is current. Each address must lead the device to
/// memory for all of the part, aligned as its elements; nothing else may change the inputs, or access
/// the output, until the stream has done the work.
pub(super) unsafe fn enqueue(
    device: &Device, stream: CUstream, part: Part<'_>,
) -> Result<u32, Error> {
    let Part { task, inputs, n, output, block_limit, flags } = part;
    let [a, b] = match *inputs {
        [a] => [a, a],
        [a, b] => [a, b],
        _ => return Err(Error::Internal { text: "a kernel has one input or two" }),
    };
    let blocks = grid::blocks(task, n, block_limit);
    let warps = flags.map_or(0, |flags| flags.clear(grid::warps(blocks)));
    let flags = flags.map_or(NO_FLAGS, Flags::address);
    let launch = |kernel, out, alpha| {
        let parameters = &mut [a, b, out, n as u64, flags, alpha];
        // SAFETY: this function's promise.
        unsafe { device.kernels.launch(kernel, blocks, stream, parameters) }
    };
    match (task, output) {
        // SAFETY: this function's promise.
        (Task::Copy, Output::ByDriver(out)) => unsafe { copy(device, stream, a, out, n) },
        (Task::Copy, Output::Elements(out)) => launch(Kernel::Copy, out, 0),
        (Task::Compute { op, alpha }, Output::Elements(out) | Output::Tiles(out)) => {
            launch(Kernel::Compute(op), out, alpha)
        }
        (Task::Compute { op, alpha }, Output::Groups { tiles, groups }) => {
            launch(Kernel::Compute(op), tiles, alpha)?;
            let count = n.div_ceil(TILE);
            let blocks = u32::try_from(count.div_ceil(GROUP)).unwrap_or(u32::MAX);
            let parameters = &mut [tiles, groups, count as u64];
            // SAFETY: this function's promise; the states of the tiles are there by then.
            unsafe { device.kernels.launch(Kernel::Fold(op), blocks, stream, parameters) }
        }
        _ => Err(Error::Internal { text: "an output that the task does not have" }),
    }
    .map(|()| warps)
}

/// Queues the end of a reduction: merges `count` states, destroying them, and stores the result.
///
/// # Safety
/// As [`enqueue`], of the states and of the output.
pub(super) unsafe fn finish(
    device: &Device, stream: CUstream, op: Op, states: u64, count: usize, out: u64,
) -> Result<(), Error> {
    let parameters = &mut [states, out, count as u64];
    // SAFETY: this function's promise.
    unsafe { device.kernels.launch(Kernel::Finish(op), 1, stream, parameters) }
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
