//! Decides, without doing anything: where a call runs, how each array gets there, in which chunks.

use crate::op::Shape;
use crate::operand::{Call, Operand, Residence, Task};
use crate::route::{Access, Lane, Route};
use crate::settings::Placement;
use crate::sum::{GROUP, TILE};
use crate::tuning;

/// Where a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the core that called.
    CallingCore,
    /// On all cores.
    Cores,
    /// On a GPU, or all of them.
    Gpu,
    /// On all GPUs and all cores.
    Everywhere,
}

/// Where the placement puts a call. Device memory always means a GPU. Whether one can be had is
/// asked only where it matters: finding out may take a while, the first time.
pub(crate) fn place(placement: Placement, call: &Call, has_gpu: impl Fn() -> bool) -> Place {
    match placement {
        _ if call.task == Task::Copy => copier(call),
        Placement::Cpu => cores(call),
        Placement::Gpu => Place::Gpu,
        Placement::Auto if needs_gpu(call) => Place::Gpu,
        Placement::Auto if is_small(call) || !has_gpu() => cores(call),
        Placement::Auto if largest(call) <= core_bytes(call) => Place::CallingCore,
        Placement::Auto => Place::Gpu,
        Placement::All if needs_gpu(call) => Place::Gpu,
        Placement::All if is_for_everybody(call) && has_gpu() => Place::Everywhere,
        Placement::All => cores(call),
    }
}

/// Where bytes are copied: on the host if that is where both ends are.
fn copier(call: &Call) -> Place {
    if needs_gpu(call) { Place::Gpu } else { cores(call) }
}

/// Where a call runs that no GPU takes.
pub(crate) fn cores(call: &Call) -> Place {
    if is_small(call) { Place::CallingCore } else { Place::Cores }
}

/// How many of `most` threads a call on all cores is worth.
pub(crate) fn core_threads(call: &Call, most: usize) -> usize {
    most.min(largest(call).div_ceil(tuning::CORE_SHARE_BYTES))
}

/// Elements in the chunks that so many cores take.
pub(crate) fn core_chunk(call: &Call, threads: usize) -> usize {
    let pieces = if threads == 1 { 1 } else { threads * tuning::CHUNKS_PER_CORE };
    call.n.div_ceil(pieces).next_power_of_two().clamp(TILE, tuning::CORE_CHUNK)
}

/// Whether waking a core, or a GPU, would cost more than it saves.
fn is_small(call: &Call) -> bool {
    largest(call) <= tuning::CALLING_CORE_BYTES
}

/// Whether an operand is out of the host's reach.
pub(crate) fn needs_gpu(call: &Call) -> bool {
    call.device().is_some()
}

fn largest(call: &Call) -> usize {
    call.n * call.task.element_bytes()
}

fn core_bytes(call: &Call) -> usize {
    let [pinned, pageable] = match call.task.shape() {
        Shape::Elementwise => tuning::AUTO_CORE_BYTES_ELEMENTWISE,
        Shape::Reduction => tuning::AUTO_CORE_BYTES_REDUCTION,
    };
    if is_staged(call) { pageable } else { pinned }
}

/// Whether all GPUs are to take chunks of a call that one could run: of host arrays that each of
/// them reaches, and so long that it pays.
pub(crate) fn is_for_all_gpus(call: &Call) -> bool {
    let is_everybodys =
        |operand: Operand| matches!(operand.residence, Residence::Pageable | Residence::Pinned);
    largest(call) > tuning::SEVERAL_GPUS_BYTES
        && call.operands().all(is_everybodys)
        && call.task != Task::Copy
}

/// Whether cores and GPUs together are done sooner than the cores alone. Cores that stage arrays for
/// a GPU would better compute.
fn is_for_everybody(call: &Call) -> bool {
    is_for_all_gpus(call) && !is_staged(call)
}

/// The route of a call whose chunks cores take as well: what one of them began should not keep the
/// others waiting.
pub(crate) fn route_beside_cores(call: &Call, runs_on: usize, gpus: usize) -> Route {
    let route = route(call, runs_on, gpus);
    let chunk = route.chunk.min(tuning::SHARED_CHUNK_BYTES / call.task.element_bytes());
    Route { chunk, ..route }
}

/// Plans a call for `gpus` devices, or for the one that it `runs_on`.
pub(crate) fn route(call: &Call, runs_on: usize, gpus: usize) -> Route {
    let dma = uses_dma(call, gpus);
    let way = |operand: Operand| match call.task {
        Task::Compute(..) => access_of(&operand, dma, runs_on),
        Task::Copy => copy_access_of(&operand),
    };
    let [a, b] = call.inputs.map(|input| input.map(way));
    let output = match call.task.shape() {
        Shape::Elementwise => way(call.output),
        Shape::Reduction => Access::TileSums,
    };
    let uncut = Route { access: [a, b, Some(output)], chunk: call.n };
    Route { chunk: gpu_chunk(call, &uncut, gpus), ..uncut }
}

/// Whether pinned arrays are copied to the device, and not read and written across the bus by the
/// kernels themselves. Beside arrays that are staged copies do not pay; nor for an elementwise
/// operation on several GPUs, which together get more from the host without.
fn uses_dma(call: &Call, gpus: usize) -> bool {
    let [elementwise, reduction] = tuning::MAPPED_BYTES;
    let pays = match call.task.shape() {
        Shape::Elementwise => gpus == 1 && largest(call) > elementwise,
        Shape::Reduction => largest(call) > reduction,
    };
    pays && !is_staged(call)
}

/// Whether an array has to go through a pinned buffer.
fn is_staged(call: &Call) -> bool {
    let is_pageable = |operand: &Operand| operand.residence == Residence::Pageable;
    let output_too = call.task.shape() == Shape::Elementwise;
    call.inputs.iter().flatten().any(is_pageable) || (output_too && is_pageable(&call.output))
}

fn access_of(operand: &Operand, dma: bool, runs_on: usize) -> Access {
    match operand.residence {
        Residence::Device { ordinal } if ordinal != runs_on => Access::Dma,
        Residence::Device { .. } | Residence::Managed => Access::Resident,
        Residence::Pinned if dma => Access::Dma,
        Residence::Pinned | Residence::PinnedInParts => Access::Mapped,
        Residence::Pageable => Access::Staged,
    }
}

/// The driver copies between all memory that it knows; other memory goes through a pinned buffer.
fn copy_access_of(operand: &Operand) -> Access {
    match operand.residence {
        Residence::Device { .. } | Residence::Managed | Residence::Pinned => Access::Resident,
        Residence::Pageable | Residence::PinnedInParts => Access::Staged,
    }
}

/// Whether a call can be queued on a stream of that device as it is, for kernels, or the driver, to
/// reach every array where it lies.
pub(crate) fn is_queueable(call: &Call, runs_on: usize) -> bool {
    let by_driver = call.is_drivers_copy();
    let is_reached = |operand: Operand| match operand.residence {
        Residence::Device { ordinal } => ordinal == runs_on || by_driver,
        Residence::Managed | Residence::Pinned | Residence::PinnedInParts => true,
        Residence::Pageable => false,
    };
    call.operands().all(is_reached) && call.n <= MOST_QUEUED
}

/// How a GPU gets at the arrays of a call that is queued.
pub(crate) fn queued_route(call: &Call) -> Route {
    let by_driver = call.is_drivers_copy();
    let way = |operand: Operand| match operand.residence {
        Residence::Pinned | Residence::PinnedInParts if !by_driver => Access::Mapped,
        _ => Access::Resident,
    };
    Route { access: call.slots().map(|operand| operand.map(way)), chunk: call.n }
}

/// Elements of the longest reduction that can be queued: its groups' sums have to fit their buffer.
const MOST_QUEUED: usize = tuning::QUEUED_SUMS * GROUP * TILE;

/// Where one GPU works, arrays that no buffer holds a chunk of are not cut, but for the tiles' sums
/// of a reduction, which have to fit into one.
fn gpu_chunk(call: &Call, route: &Route, gpus: usize) -> usize {
    let element_bytes = call.task.element_bytes();
    let largest_chunk = match route.lane() {
        Lane::InPlace if gpus == 1 => match call.task.shape() {
            Shape::Elementwise => return call.n,
            Shape::Reduction => {
                return call.n.next_power_of_two().clamp(TILE, tuning::TILE_SUMS * TILE);
            }
        },
        Lane::Staged => tuning::STAGED_CHUNK_BYTES,
        Lane::InPlace => tuning::DIRECT_CHUNKS_BYTES,
        Lane::Direct => {
            let buffers = route.buffers_before(route.access.len(), Access::Dma);
            tuning::DIRECT_CHUNKS_BYTES / buffers.next_power_of_two()
        }
    };
    let wanted = largest(call) / (tuning::PIPELINE_DEPTH * gpus);
    wanted.next_power_of_two().clamp(tuning::SMALLEST_CHUNK_BYTES, largest_chunk) / element_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Op;
    use proptest::prelude::*;

    const PINNED: Residence = Residence::Pinned;
    const DEVICE: Residence = Residence::Device { ordinal: 0 };

    fn call(op: Op, n: usize, residences: [Residence; 3]) -> Call {
        let operand = |name, residence| Operand { name, address: 0x1000, bytes: n * 4, residence };
        let [a, b, output] = residences;
        let b = (op.inputs() == 2).then(|| operand("b", b));
        let inputs = [Some(operand("a", a)), b];
        Call { task: Task::Compute(op, 0), n, inputs, output: operand("out", output) }
    }

    #[test]
    fn small_arrays_stay_on_the_calling_core_and_wake_no_driver() {
        let not_asked = || panic!("the GPU was asked for");
        for residence in [Residence::Pageable, PINNED] {
            let call = call(Op::AddF32, 1000, [residence; 3]);
            assert_eq!(place(Placement::Auto, &call, not_asked), Place::CallingCore);
            assert_eq!(place(Placement::Cpu, &call, not_asked), Place::CallingCore);
            assert_eq!(place(Placement::Gpu, &call, not_asked), Place::Gpu);
        }
    }

    #[test]
    fn middling_arrays_stay_on_the_calling_core_or_take_all_where_there_is_no_gpu() {
        let call = call(Op::AddF32, 150_000, [PINNED; 3]);
        assert_eq!(place(Placement::Auto, &call, || true), Place::CallingCore);
        assert_eq!(place(Placement::Auto, &call, || false), Place::Cores);
    }

    #[test]
    fn large_arrays_go_to_the_gpu_unless_told_otherwise() {
        let call = call(Op::DotF32, 100_000_000, [Residence::Pageable; 3]);
        assert_eq!(place(Placement::Auto, &call, || true), Place::Gpu);
        assert_eq!(place(Placement::Auto, &call, || false), Place::Cores);
        assert_eq!(place(Placement::Cpu, &call, || true), Place::Cores);
    }

    #[test]
    fn all_take_part_in_long_page_locked_arrays() {
        let place = |n, residence, has_gpu| {
            place(Placement::All, &call(Op::AddF32, n, [residence; 3]), || has_gpu)
        };
        let (long, short) = (100_000_000, 1_000_000);
        assert_eq!(place(long, PINNED, true), Place::Everywhere);
        assert_eq!(place(long, PINNED, false), Place::Cores);
        assert_eq!(place(long, Residence::Pageable, true), Place::Cores);
        assert_eq!(place(short, PINNED, true), Place::Cores);
        assert_eq!(place(1000, PINNED, true), Place::CallingCore);
        assert_eq!(place(1, DEVICE, true), Place::Gpu);
    }

    #[test]
    fn device_memory_goes_to_the_gpu_however_small() {
        let call = call(Op::AddF32, 1, [Residence::Pageable, DEVICE, PINNED]);
        assert_eq!(place(Placement::Auto, &call, || false), Place::Gpu);
        assert!(needs_gpu(&call));
    }

    #[test]
    fn pinned_arrays_are_never_staged() {
        for n in [1, 1000, 1 << 20, 1 << 30] {
            let route = super::route(&call(Op::AddF32, n, [PINNED; 3]), 0, 1);
            assert!(route.ways().all(|access| access != Access::Staged), "n = {n}");
        }
    }

    #[test]
    fn arrays_of_another_device_are_copied_and_its_own_are_not() {
        let call = call(Op::AddF32, 9, [DEVICE, Residence::Device { ordinal: 1 }, DEVICE]);
        let here = Some(Access::Resident);
        assert_eq!(super::route(&call, 0, 1).access, [here, Some(Access::Dma), here]);
    }

    fn any_residence() -> impl Strategy<Value = Residence> {
        prop_oneof![Just(Residence::Pageable), Just(PINNED), Just(DEVICE), Just(Residence::Managed)]
    }

    #[test]
    fn cores_take_whole_tiles_and_each_has_several_to_take() {
        for (n, threads, chunk) in
            [(5000, 1, 8192), (100_000, 2, 8192), (100_000, 16, TILE), (1 << 30, 64, 65_536)]
        {
            let call = call(Op::DotF32, n, [Residence::Pageable; 3]);
            assert_eq!(core_chunk(&call, threads), chunk, "n = {n}, {threads} threads");
        }
    }

    proptest! {
        #[test]
        fn chunks_fit_their_buffers_and_hold_whole_tiles(
            n in 1usize..1 << 40, gpus in 1usize..9,
            a in any_residence(), b in any_residence(), output in any_residence(),
        ) {
            for op in Op::ALL {
                let route = super::route(&call(*op, n, [a, b, output]), 0, gpus);
                let bytes = route.chunk.min(n) * op.element_bytes();
                let direct = route.buffers_before(3, Access::Dma);
                match route.lane() {
                    Lane::Staged => prop_assert!(bytes <= tuning::STAGED_CHUNK_BYTES),
                    Lane::Direct => prop_assert!(direct * bytes <= tuning::DIRECT_CHUNKS_BYTES),
                    Lane::InPlace => prop_assert_eq!(direct, 0),
                }
                if op.shape() == Shape::Reduction {
                    prop_assert!(route.chunk.is_multiple_of(TILE));
                    prop_assert!((route.chunk / TILE).is_power_of_two());
                    prop_assert!(route.chunk / TILE <= tuning::TILE_SUMS);
                }
            }
        }
    }
}
