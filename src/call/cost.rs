//! The features of a call that the cost model takes.

use super::array::{Array, Extent, MemoryKind};
use super::by_key;
use super::checked::Call;
use super::formula::FIRST_EXPRESSION;
use super::picoseconds;
use super::task::{Task, TaskKind};
use crate::policy::{cores, gpu};
use gpuvec_cost::Work;

/// The work of a call.
pub(super) fn work(call: &Call<'_>) -> Work {
    let core_ns = core_ns(call);
    let [mut input_bytes, mut output_bytes] = [0.0; 2];
    for (number, bytes) in bytes(call).enumerate() {
        let of_all =
            if number < call.inputs().len() { &mut input_bytes } else { &mut output_bytes };
        *of_all += bytes as f32;
    }
    if call.task().kind() == TaskKind::Grouped {
        output_bytes += by_key::bytes(call) as f32;
    }
    Work {
        operation: operation(call),
        core_ns,
        input_bytes,
        output_bytes,
        is_staged: is_staged(call),
        is_repeated: false,
        most_threads: threads_worth(core_ns),
        is_shareable: is_shareable(call),
    }
}

/// A number that is the same for calls of an operation on the same arrays.
pub(super) fn key(call: &Call<'_>) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let first = call.arrays().next().map_or(0, |array| array.address);
    let parts = [first as u64, call.n() as u64, u64::from(operation(call))];
    parts.into_iter().fold(1, |key, part| (key ^ part).wrapping_mul(ODD))
}

/// The prior's time of a core for a call with all arrays in the core's cache, in nanoseconds.
pub(super) fn core_ns(call: &Call<'_>) -> f32 {
    let for_each = call.task().formula().map_or(COPIED_BYTE, |formula| formula.cost);
    let arrays = call.arrays().count();
    let gathered = call.strides().map_or(0, |_| cores::GATHERED_ELEMENT_PS * arrays);
    call.n() as f32 * (for_each + gathered) as f32 * 1e-3
}

/// The bytes of each array that cross the bus, or that cores read. Elements that an array repeats count once. Kernels
/// that use arrays in place read and write whole sectors across the bus.
fn bytes(call: &Call<'_>) -> impl Iterator<Item = usize> {
    let is_staged = |array: &Array| array.kind == MemoryKind::Pageable;
    call.bytes().zip(call.arrays()).enumerate().map(move |(number, (bytes, array))| {
        let sectors = call.strides().filter(|_| !is_staged(array));
        sectors.map_or(bytes, |strides| strides.sector_bytes(number))
    })
}

/// The time of a core to copy a byte, in picoseconds.
const COPIED_BYTE: usize = 2 * picoseconds::BYTE as usize;

/// A number that is different for different formulas, for different kinds of strides, and for managed memory, which the
/// driver moves.
pub(super) fn operation(call: &Call<'_>) -> u32 {
    const COPY: u64 = FIRST_EXPRESSION - 1;
    const MANAGED: u32 = 1 << 31;
    let number = call.task().formula().map_or(COPY, |formula| formula.id) as u32;
    let kind = call.strides().map_or(0, |strides| 1 + strides.kind(call.inputs().len()));
    let strided = number ^ kind << 24;
    if call.any(MemoryKind::Managed) { strided ^ MANAGED } else { strided }
}

/// The number of an operation on pageable arrays that GPUs use in place.
pub(super) fn in_place(operation: u32) -> u32 {
    const IN_PLACE: u32 = 1 << 30;
    operation ^ IN_PLACE
}

/// The number of threads for which there is enough to do.
pub(super) fn threads_worth(core_ns: f32) -> usize {
    (core_ns / cores::THREAD_SHARE_NS) as usize + 1
}

/// The prior's time of the driver's compiler for a task's kernels, in nanoseconds.
pub(super) fn compiler_ns(task: Task<'_>) -> f32 {
    let [any, for_each, most] = gpu::COMPILER_NS;
    let of_kernel = |(kernel, _): (Task<'_>, &[usize])| match kernel.formula() {
        Some(formula) if formula.is_exact() || formula.kind == TaskKind::Grouped => {
            gpu::EXACT_COMPILER_NS
        }
        Some(formula) => any + (formula.cost as f32 * for_each).min(most),
        None => any,
    };
    task.kernels().map(of_kernel).sum()
}

/// True if an array is staged through a pinned buffer.
pub(super) fn is_staged(call: &Call<'_>) -> bool {
    // The host writes the results of reductions.
    let outputs = call.outputs_of(Extent::Elements).map(|(_, output)| output);
    call.inputs().iter().chain(outputs).any(|array| array.kind == MemoryKind::Pageable)
}

/// True if several processors can share a call: its arrays are long enough, and in host memory that all processors
/// access.
pub(super) fn is_shareable(call: &Call<'_>) -> bool {
    let is_for_all =
        |array: &Array| matches!(array.kind, MemoryKind::Pageable | MemoryKind::Pinned);
    call.max_bytes() > gpu::SHARED_BYTES
        && call.arrays().all(is_for_all)
        && !matches!(call.task(), Task::Copy)
}
