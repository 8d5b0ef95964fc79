//! Plans a call on the processors that were chosen: its threads, its chunks, and how each array gets there.

use super::array::{Array, MemoryKind};
use super::checked::Call;
use super::choice::{Chosen, Devices, Reach, needs_gpu};
use super::chunk::Partition;
use super::cost::{core_ns, threads_worth};
use super::task::{Task, TaskKind};
use super::tiles::TilePlan;
use super::transfer::{SlotKind, Transfer, Transfers};
use crate::error::Error;
use crate::policy::{cores, gpu};
use crate::process::settings::Placement;
use gpuvec_cost::{BreakEven, Choice, Learner};

/// Every decision about a call that no stream takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Cores compute it, after the stream's earlier work if there is a stream.
    Cores(OnCores),
    /// GPUs compute it, and cores beside them where the plan says so; after the stream's earlier work.
    Gpus(OnGpus),
}

/// Every decision about a call that the caller's stream takes as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OnStream {
    pub(crate) transfers: Transfers,
    pub(crate) block_limits: BlockLimits,
    /// Selects the driver, not a kernel, for a copy of bytes.
    pub(crate) copies_by_driver: bool,
}

/// The most blocks that a kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockLimits {
    elementwise: u32,
    reduction: u32,
}

impl BlockLimits {
    /// The most blocks of the kernel of a task.
    pub(crate) fn of(self, kernel: Task<'_>) -> u32 {
        match kernel.kind() {
            TaskKind::Copy | TaskKind::Elementwise | TaskKind::Mixed => self.elementwise,
            TaskKind::Reduced | TaskKind::Grouped => self.reduction,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OnCores {
    /// Threads that compute, the calling one included.
    pub(crate) threads: usize,
    pub(crate) partition: Partition,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OnGpus {
    /// The devices that take chunks; at least one.
    pub(crate) devices: Vec<usize>,
    pub(crate) transfers: Transfers,
    /// The tiles of arrays of any strides: chunks are of tiles then, not of elements.
    pub(crate) strided: Option<Box<TilePlan>>,
    /// The most elements of a device's chunk; the buffers of a slot hold as many.
    pub(crate) chunk: usize,
    /// The elements to which a device's chunks shrink near the end of a call that cores share, else `chunk`.
    pub(crate) least_chunk: usize,
    /// The elements of a core's chunk.
    pub(crate) core_chunk: usize,
    /// Groups of devices, each with threads of its own: a group for each device, as far as there are threads.
    pub(crate) groups: usize,
    /// Threads that feed each group: several where they stage arrays.
    pub(crate) threads: usize,
    /// Slots of each device that each of those threads holds at most.
    pub(crate) slots: usize,
    /// Threads that compute chunks concurrently with the devices.
    pub(crate) cores: usize,
    pub(crate) block_limits: BlockLimits,
    /// Makes the kernel signal completion by flags, if it has few warps.
    pub(crate) uses_flags: bool,
    pub(crate) fallback: Fallback,
}

impl OnGpus {
    /// Returns the length of a device's next chunk if `left` elements are left. Near the end of a call that
    /// cores share, chunks are shorter: those in all slots together are at most half of `left`, so that the
    /// cores do not wait for the devices.
    pub(crate) fn next_chunk(&self, left: usize) -> usize {
        let slots = self.devices.len() * self.threads * self.slots;
        (left / (4 * slots)).next_power_of_two().clamp(self.least_chunk, self.chunk)
    }
}

/// The reaction to a failure of a plan's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fallback {
    /// The call fails.
    None,
    /// Cores do the work, unless part of the output, which is an input, may have been written.
    CoresIfUnwritten,
    /// Cores do the work.
    Cores,
}

/// The threads and devices of the process, and what its calls taught. A plan asks only where the answer
/// matters, since the question may start threads, or open the driver and devices.
pub(crate) trait Resources {
    /// Threads that may work on a call.
    fn thread_limit(&self) -> usize;
    /// The number of threads that can work on a call, at most `wanted`, the calling one included.
    fn threads(&self, wanted: usize) -> usize;
    /// The devices, without opening the driver.
    fn devices(&self) -> Devices;
    /// The host memory that the open devices reach.
    fn reach(&self) -> Reach;
    /// The first device that can compute, which is open then; or why there is none.
    fn gpu(&self) -> Result<usize, Error>;
    /// True if the kernel of a task is loaded on the first device.
    fn is_ready_for(&self, task: Task<'_>) -> bool;
    /// True if the calling thread's last long call had the same key.
    fn is_repeated(&self, key: u64) -> bool;
    /// All devices that can compute, which are open then; or why there is none.
    fn gpus(&self) -> Result<Vec<usize>, Error>;
    /// Everything that earlier calls taught.
    fn learner(&self) -> &Learner;
    /// The time that calls lost because devices were not open.
    fn opening(&self) -> &BreakEven;
}

/// Plans a call for a stream of a device, if the stream can take it.
pub(crate) fn on_stream(call: &Call<'_>, placement: Placement, device: usize) -> Option<OnStream> {
    let may_compute = placement != Placement::Cpu || matches!(call.task(), Task::Copy);
    // Between kernels a result would already be in the input, which the next one is to read.
    let may_queue = !call.task().has_several_kernels() || !call.reduces_into_input();
    let fits = call.strides().is_none_or(|strides| strides.fits_launches());
    let may_queue = may_queue && fits && !call.is_uniform() && !call.task().has_moments();
    let takes = may_compute && may_queue && is_queueable(call, device);
    takes.then(|| queued(call))
}

/// Plans a call for the processors that were chosen. Fails where the placement demands a GPU and there is
/// none.
pub(crate) fn plan(
    call: &Call<'_>, placement: Placement, chosen: &Chosen, resources: &impl Resources,
) -> Result<Plan, Error> {
    if call.is_uniform() {
        return on_one_element(placement, resources);
    }
    Ok(match chosen.choice {
        Choice::Gpu | Choice::Gpus | Choice::Together => {
            Plan::Gpus(on_gpus(call, placement, chosen, resources)?)
        }
        of_cores => Plan::Cores(on_cores(call, of_cores, resources)),
    })
}

/// Plans a reduction that reads no array: the calling core computes one element, which stands for all.
/// Nothing is left for a GPU, but a placement that demands one does so here, too.
fn on_one_element(placement: Placement, resources: &impl Resources) -> Result<Plan, Error> {
    if placement == Placement::Gpu {
        resources.gpu()?;
    }
    Ok(Plan::Cores(OnCores { threads: 1, partition: Partition::ONE }))
}

/// Plans a call for cores.
pub(crate) fn on_cores(call: &Call<'_>, choice: Choice, resources: &impl Resources) -> OnCores {
    match choice {
        Choice::CallingCore => on_threads(call, 1),
        of_cores => {
            let wanted = of_cores.threads(threads_worth(core_ns(call)), resources.thread_limit());
            on_threads(call, resources.threads(wanted))
        }
    }
}

fn on_threads(call: &Call<'_>, threads: usize) -> OnCores {
    let chunks = if threads == 1 { 1 } else { threads * cores::CHUNKS_PER_CORE };
    let partition = Partition::of(call, core_chunk(call, chunks, cores::CHUNK[0]));
    OnCores { threads: threads.min(partition.chunks()).max(1), partition }
}

/// Returns the length of a core's chunk, a power of two, for about `chunks` chunks.
fn core_chunk(call: &Call<'_>, chunks: usize, least: usize) -> usize {
    call.n().div_ceil(chunks).next_power_of_two().clamp(least, cores::CHUNK[1])
}

/// Returns the length of a core's chunk in a call that devices share.
fn shared_core_chunk(call: &Call<'_>, cores: usize) -> usize {
    let by_time = (core_ns(call) / cores::SHARED_NS) as usize;
    let chunks = by_time.max(cores * cores::CHUNKS_PER_CORE).max(1);
    core_chunk(call, chunks, cores::SHARED_CHUNK)
}

fn on_gpus(
    call: &Call<'_>, placement: Placement, chosen: &Chosen, resources: &impl Resources,
) -> Result<OnGpus, Error> {
    let Chosen { choice, in_place, .. } = *chosen;
    let with_cores = choice == Choice::Together;
    let devices = match call.device() {
        Some(ordinal) => vec![ordinal],
        None if choice == Choice::Gpu => vec![resources.gpu()?],
        None => resources.gpus()?,
    };
    let is_integrated = call.strides().is_none() && resources.reach().is_integrated;
    let mut transfers = Transfers::new(call, &devices, in_place, is_integrated)?;
    let strided = call.strides().map(|strides| {
        let tiles = TilePlan::new(call, strides, devices.len(), &mut transfers);
        Box::new(tiles)
    });
    let (units, mut chunk, buffers) = match &strided {
        None => (call.n(), gpu_chunk(call, &transfers, devices.len()), &transfers),
        Some(strided) => (strided.tiles.count(), 1, &strided.buffers),
    };
    // Cores that are to work keep one of several threads.
    let for_devices = resources.thread_limit().saturating_sub(usize::from(with_cores));
    let groups = for_devices.clamp(1, devices.len());
    if with_cores {
        chunk = chunk.min(gpu::SHARED_CHUNK_BYTES / call.element_bytes());
    }
    let chunks = units.div_ceil(chunk);
    let kind = buffers.slot_kind();
    let mut threads = 1;
    if kind == SlotKind::Staged {
        let for_each = (for_devices / groups).clamp(1, gpu::STAGING_THREADS);
        threads = resources.threads(for_each.min(chunks));
    }
    let left = resources.thread_limit().saturating_sub(groups * threads);
    let cores = if with_cores && left > 0 { resources.threads(left) } else { 0 };
    let smallest = gpu::SMALLEST_CHUNK_BYTES / call.element_bytes();
    let least_chunk = if cores > 0 { chunk.min(smallest) } else { chunk };
    let slots = (gpu::SLOTS[kind as usize] / threads).clamp(1, chunks);
    let is_one_chunk = chunks == 1;
    let crosses_bus_alone = is_one_chunk && transfers.cross_bus();
    let elements = strided.as_ref().map_or(chunk.min(call.n()), |of| of.tiles.elements());
    let block_limits = block_limits(&transfers, elements, crosses_bus_alone);
    let uses_flags = is_one_chunk
        && strided.is_none()
        && !in_place
        && can_signal_completion(call, &transfers, block_limits);
    let fallback = match placement {
        _ if placement == Placement::Gpu || needs_gpu(call) => Fallback::None,
        _ if call.is_in_place() => Fallback::CoresIfUnwritten,
        _ => Fallback::Cores,
    };
    Ok(OnGpus {
        devices,
        transfers,
        strided,
        chunk,
        least_chunk,
        core_chunk: shared_core_chunk(call, cores),
        groups,
        threads,
        slots,
        cores,
        block_limits,
        uses_flags,
        fallback,
    })
}

/// The most blocks of kernels over `n` elements. An elementwise kernel that alone reads and writes across
/// the bus has few; of several such kernels, those that fill the device keep the others waiting, and few
/// blocks of each would be many. A reduction that reads across the bus has few.
fn block_limits(transfers: &Transfers, n: usize, crosses_bus_alone: bool) -> BlockLimits {
    let across_bus = n.div_ceil(gpu::REDUCTION_BLOCK_ACROSS_BUS);
    BlockLimits {
        elementwise: if crosses_bus_alone { gpu::BLOCKS_ACROSS_BUS } else { MAX_BLOCKS },
        reduction: match transfers.read_across_bus() {
            true => u32::try_from(across_bus).unwrap_or(MAX_BLOCKS),
            false => MAX_BLOCKS,
        },
    }
}

/// The most blocks that CUDA launches.
const MAX_BLOCKS: u32 = i32::MAX as u32;

/// True if the kernel has few enough warps to signal completion by flags. They cannot signal a copy or another kernel
/// before or after the kernel, nor that managed memory is accessible to the host, which only the driver knows.
fn can_signal_completion(
    call: &Call<'_>, transfers: &Transfers, block_limits: BlockLimits,
) -> bool {
    const WARPS_OF_BLOCK: u32 = 8;
    // The most elements that a warp takes at once.
    let run = match call.task().kind() {
        TaskKind::Copy | TaskKind::Elementwise | TaskKind::Mixed => 512,
        TaskKind::Reduced | TaskKind::Grouped => gpu::REDUCTION_BLOCK / WARPS_OF_BLOCK as usize,
    };
    let may_be_few = block_limits.of(call.task()) <= gpu::FLAGGED_WARPS / WARPS_OF_BLOCK
        || call.n().div_ceil(run) <= gpu::FLAGGED_WARPS as usize;
    may_be_few
        && !matches!(call.task(), Task::Copy)
        && !call.task().has_several_kernels()
        && !transfers.outputs().contains(&Transfer::Dma)
        && !call.any(MemoryKind::Managed)
}

/// The elements of a chunk, a power of two. Where one GPU works, arrays that no buffer holds a chunk of
/// stay whole.
fn gpu_chunk(call: &Call<'_>, transfers: &Transfers, gpus: usize) -> usize {
    let element_bytes = call.element_bytes();
    // A slot has the elements of all arrays of a transfer, whatever the size of each.
    let fitting = |slot_bytes: usize, transfer: Transfer| {
        let arrays = call.arrays().zip(transfers.all());
        let alike = arrays.filter(|(_, other)| *other == transfer);
        let bytes: usize = alike.map(|(array, _)| array.element_bytes()).sum();
        1 << (slot_bytes / bytes.max(1)).ilog2()
    };
    let largest = match transfers.slot_kind() {
        SlotKind::InPlace if gpus == 1 => return call.n(),
        SlotKind::InPlace => 1 << (gpu::DMA_SLOT_BYTES / element_bytes).ilog2(),
        SlotKind::Dma => fitting(gpu::DMA_SLOT_BYTES, Transfer::Dma),
        SlotKind::Staged => fitting(gpu::STAGED_SLOT_BYTES, Transfer::Staged)
            .min(fitting(gpu::STAGED_SLOT_BYTES, Transfer::Dma))
            .min(gpu::STAGED_CHUNK_BYTES / element_bytes),
    };
    let wanted = call.max_bytes() / (gpu::PIPELINE_DEPTH * gpus);
    let wanted = wanted.next_power_of_two().max(gpu::SMALLEST_CHUNK_BYTES) / element_bytes;
    wanted.min(largest)
}

/// True if a call can be queued on a stream of the device: kernels, or the driver, access every array in place.
fn is_queueable(call: &Call<'_>, device: usize) -> bool {
    let by_driver = is_copied_by_driver(call);
    let is_reached = |array: &Array| match array.kind {
        MemoryKind::Device { ordinal } => ordinal == device || by_driver,
        MemoryKind::Managed | MemoryKind::Pinned | MemoryKind::PinnedInParts => true,
        MemoryKind::Pageable => false,
    };
    call.n() > 0 && call.arrays().all(is_reached)
}

/// True if the driver does a stream's copy: from or to a device, unless memory was page-locked in parts. Copies from
/// host to host use a kernel, because the driver makes the caller wait.
fn is_copied_by_driver(call: &Call<'_>) -> bool {
    matches!(call.task(), Task::Copy) && needs_gpu(call) && !call.any(MemoryKind::PinnedInParts)
}

fn queued(call: &Call<'_>) -> OnStream {
    let by_driver = is_copied_by_driver(call);
    let transfer = |array: &Array| match array.kind {
        MemoryKind::Pinned | MemoryKind::PinnedInParts if !by_driver => Transfer::Mapped,
        _ => Transfer::InPlace,
    };
    let arrays = call.arrays().map(transfer).collect();
    let transfers = Transfers { arrays, inputs: call.inputs().len() };
    let crosses_bus = transfers.cross_bus() || (matches!(call.task(), Task::Copy) && !by_driver);
    let block_limits = block_limits(&transfers, call.n(), crosses_bus);
    OnStream { transfers, block_limits, copies_by_driver: by_driver }
}

#[cfg(test)]
pub(super) mod tests;
