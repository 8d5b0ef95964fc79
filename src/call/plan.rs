//! Decides, without doing anything: where a call runs, how each array gets there, in which chunks.

use super::array::{Array, MemoryKind};
use super::checked::Call;
use super::chunk::Partition;
use super::cost::{is_small, is_staged, pays_on_calling_core, waits_for_compiler, work};
use super::formula::Formula;
use super::grid::{self, MAX_BLOCKS};
use super::task::Task;
use super::transfer::{SlotKind, Transfer, Transfers};
use crate::error::Error;
use crate::ops::Shape;
use crate::process::settings::Placement;
use crate::tuning;

/// Every decision about a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The caller's stream takes the call as a whole.
    Queue(OnStream),
    /// Cores compute it, after the stream's earlier work if there is a stream.
    Cores(OnCores),
    /// GPUs compute it, and cores beside them where the plan says so; after the stream's earlier work.
    Gpus(OnGpus),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OnStream {
    pub(crate) transfers: Transfers,
    /// The most blocks that a kernel has.
    pub(crate) block_limit: u32,
    /// Selects the driver, not a kernel, for a copy of bytes.
    pub(crate) copies_by_driver: bool,
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
    pub(crate) partition: Partition,
    /// Groups of devices, each with threads of its own: a group for each device, as far as there are threads.
    pub(crate) groups: usize,
    /// Threads that feed each group: several where they stage arrays.
    pub(crate) threads: usize,
    /// Slots of each device that each of those threads holds at most.
    pub(crate) slots: usize,
    /// Threads that compute chunks concurrently with the devices.
    pub(crate) cores: usize,
    /// The most blocks that a kernel has.
    pub(crate) block_limit: u32,
    /// Makes the kernel signal completion by flags.
    pub(crate) uses_flags: bool,
    pub(crate) fallback: Fallback,
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

/// The machine, as a plan needs to know it. A plan asks only where the answer matters, since it may
/// start threads, or open the driver and devices.
pub(crate) trait Machine {
    /// Threads that may work on a call.
    fn thread_limit(&self) -> usize;
    /// The number of threads that can work on a call, at most `wanted`, the calling one included.
    fn threads(&self, wanted: usize) -> usize;
    /// The first device that can compute; or why there is none.
    fn gpu(&self) -> Result<usize, Error>;
    /// Says whether the first of them has compiled a formula.
    fn is_ready_for(&self, formula: &Formula) -> bool;
    /// All devices that can compute; or why there is none.
    fn gpus(&self) -> Result<Vec<usize>, Error>;
}

/// Plans a call, which has a stream of the device `stream` if there is one. Fails where the placement
/// demands a GPU and there is none.
pub(crate) fn plan(
    call: &Call<'_>, placement: Placement, stream: Option<usize>, machine: &impl Machine,
) -> Result<Plan, Error> {
    let is_copy = call.task().is_copy();
    if call.is_uniform() {
        return on_one_element(placement, machine);
    }
    if let Some(device) = stream
        && (placement != Placement::Cpu || is_copy)
        && is_queueable(call, device)
    {
        return Ok(Plan::Queue(on_stream(call)));
    }
    let cores = || Ok(Plan::Cores(on_cores(call, machine)));
    let calling_core = || Ok(Plan::Cores(on_threads(call, 1)));
    let gpus = |with_cores| on_gpus(call, placement, with_cores, machine).map(Plan::Gpus);
    if call.n() == 0 {
        return calling_core();
    }
    if needs_gpu(call) {
        return gpus(false);
    }
    match placement {
        _ if is_copy => cores(),
        Placement::Gpu => gpus(false),
        Placement::Cpu => cores(),
        Placement::Auto if is_small(call) || machine.gpu().is_err() => cores(),
        Placement::Auto if pays_on_calling_core(call) => calling_core(),
        Placement::Auto if waits_for_compiler(call, machine) => cores(),
        Placement::Auto => gpus(false),
        Placement::All
            if pays_everywhere(call)
                && machine.gpu().is_ok()
                && !waits_for_compiler(call, machine) =>
        {
            gpus(true)
        }
        Placement::All => cores(),
    }
}

/// Plans a reduction that reads no array: the calling core computes one element, which stands for all.
/// Nothing is left for a GPU, but a placement that demands one does so here, too.
fn on_one_element(placement: Placement, machine: &impl Machine) -> Result<Plan, Error> {
    if placement == Placement::Gpu {
        machine.gpu()?;
    }
    Ok(Plan::Cores(OnCores { threads: 1, partition: Partition::new(1, 1) }))
}

/// Plans a call for the cores: for the calling one alone if to wake others costs more than it saves.
pub(crate) fn on_cores(call: &Call<'_>, machine: &impl Machine) -> OnCores {
    if is_small(call) {
        return on_threads(call, 1);
    }
    let worth = work(call).div_ceil(tuning::CORE_SHARE_BYTES);
    on_threads(call, machine.threads(worth.min(machine.thread_limit())))
}

fn on_threads(call: &Call<'_>, threads: usize) -> OnCores {
    let chunks = if threads == 1 { 1 } else { threads * tuning::CHUNKS_PER_CORE };
    let [least, most] = tuning::CORE_CHUNK;
    let chunk = call.n().div_ceil(chunks).next_power_of_two().clamp(least, most);
    let partition = Partition::new(call.n(), chunk);
    OnCores { threads: threads.min(partition.chunks()).max(1), partition }
}

fn on_gpus(
    call: &Call<'_>, placement: Placement, with_cores: bool, machine: &impl Machine,
) -> Result<OnGpus, Error> {
    let devices = match call.device() {
        Some(ordinal) => vec![ordinal],
        None if pays_on_several_gpus(call) => machine.gpus()?,
        None => vec![machine.gpu()?],
    };
    let transfers = transfers(call, &devices);
    let mut chunk = gpu_chunk(call, &transfers, devices.len());
    let groups =
        if devices.len() == 1 { 1 } else { machine.thread_limit().clamp(1, devices.len()) };
    let (mut threads, mut cores) = (1, 0);
    if with_cores {
        let left = machine.thread_limit().saturating_sub(groups);
        cores = if left == 0 { 0 } else { machine.threads(left) };
        chunk = chunk.min(tuning::SHARED_CHUNK_BYTES / call.element_bytes());
    }
    let partition = Partition::new(call.n(), chunk);
    let kind = transfers.slot_kind();
    if kind == SlotKind::Staged {
        let for_each = (machine.thread_limit() / groups).clamp(1, tuning::STAGING_THREADS);
        threads = machine.threads(for_each.min(partition.chunks()));
    }
    let slots = (tuning::SLOTS[kind as usize] / threads).clamp(1, partition.chunks());
    let is_one_chunk = partition.chunks() == 1;
    let crosses_bus_alone = is_one_chunk && transfers.cross_bus();
    let len = partition.chunk().min(call.n());
    let block_limit = block_limit(call, &transfers, len, crosses_bus_alone);
    let uses_flags = is_one_chunk && can_signal_completion(call, &transfers, block_limit);
    let fallback = match placement {
        _ if placement == Placement::Gpu || needs_gpu(call) => Fallback::None,
        _ if call.is_in_place() => Fallback::CoresIfUnwritten,
        _ => Fallback::Cores,
    };
    Ok(OnGpus {
        devices,
        transfers,
        partition,
        groups,
        threads,
        slots,
        cores,
        block_limit,
        uses_flags,
        fallback,
    })
}

/// The most blocks of a kernel over `n` elements. An elementwise kernel that alone reads and writes across
/// the bus has few; of several such kernels, those that fill the device keep the others waiting, and few
/// blocks of each would be many. A reduction that reads across the bus has few.
fn block_limit(call: &Call<'_>, transfers: &Transfers, n: usize, crosses_bus_alone: bool) -> u32 {
    match call.task().shape() {
        Shape::Elementwise if crosses_bus_alone => tuning::BLOCKS_ACROSS_BUS,
        Shape::Reduction if transfers.read_across_bus() => {
            let blocks = n.div_ceil(tuning::REDUCTION_BLOCK_ACROSS_BUS);
            u32::try_from(blocks).unwrap_or(MAX_BLOCKS)
        }
        _ => MAX_BLOCKS,
    }
}

/// Says whether the kernel's warps can signal that all work is done. They cannot for a copy behind
/// the kernel, nor for managed memory, which may not be the host's before the driver says so.
fn can_signal_completion(call: &Call<'_>, transfers: &Transfers, block_limit: u32) -> bool {
    let has_few_warps = match call.task() {
        Task::Copy => false,
        task => grid::warps(grid::blocks(task, call.n(), block_limit)) <= tuning::FLAGGED_WARPS,
    };
    has_few_warps && transfers.output != Transfer::Dma && !call.any(MemoryKind::Managed)
}

/// Says whether an array is out of the host's reach.
fn needs_gpu(call: &Call<'_>) -> bool {
    call.device().is_some()
}

/// Says whether all GPUs take chunks of a call that one GPU could compute: of host arrays that each
/// of them reaches, and so long that it pays.
fn pays_on_several_gpus(call: &Call<'_>) -> bool {
    let is_for_all =
        |array: &Array| matches!(array.kind, MemoryKind::Pageable | MemoryKind::Pinned);
    call.max_bytes() > tuning::SEVERAL_GPUS_BYTES
        && call.arrays().all(is_for_all)
        && !call.task().is_copy()
}

/// Says whether cores and GPUs together are done before the cores alone. Cores that stage arrays for
/// a GPU would better compute.
fn pays_everywhere(call: &Call<'_>) -> bool {
    pays_on_several_gpus(call) && !is_staged(call)
}

/// The transfers of the arrays to `devices`, of which the first holds those in device memory.
fn transfers(call: &Call<'_>, devices: &[usize]) -> Transfers {
    let uses_dma = uses_dma(call, devices.len());
    let transfer = |array: &Array| match (call.task(), array.kind) {
        // The driver copies between all memory that it knows.
        (Task::Copy, MemoryKind::Pageable | MemoryKind::PinnedInParts) => Transfer::Staged,
        (Task::Copy, _) => Transfer::InPlace,
        (_, MemoryKind::Device { ordinal }) if ordinal != devices[0] => Transfer::Dma,
        (_, MemoryKind::Device { .. } | MemoryKind::Managed) => Transfer::InPlace,
        (_, MemoryKind::Pinned) if uses_dma => Transfer::Dma,
        (_, MemoryKind::Pinned | MemoryKind::PinnedInParts) => Transfer::Mapped,
        (_, MemoryKind::Pageable) => Transfer::Staged,
    };
    let output = match call.task().shape() {
        Shape::Elementwise => transfer(call.output()),
        Shape::Reduction => Transfer::State,
    };
    Transfers { inputs: call.inputs().iter().map(transfer).collect(), output }
}

/// Says whether pinned arrays are copied to the device, and not read and written across the bus by
/// the kernels themselves. Beside arrays that are staged copies do not pay; nor on several GPUs for an
/// elementwise operation that reads more than it writes: together they get more from the host without.
/// (Two GPUs, 400 MB arrays: an exponential 5.0 ms, 7.1 without copies.)
fn uses_dma(call: &Call<'_>, gpus: usize) -> bool {
    let [elementwise, reduction] = tuning::MAPPED_BYTES;
    let pays = match call.task().shape() {
        Shape::Elementwise => {
            (gpus == 1 || call.inputs().len() == 1) && call.max_bytes() > elementwise
        }
        Shape::Reduction => call.max_bytes() > reduction,
    };
    pays && !is_staged(call)
}

/// The elements of a chunk, a power of two. Where one GPU works, arrays that no buffer holds a chunk of
/// stay whole.
fn gpu_chunk(call: &Call<'_>, transfers: &Transfers, gpus: usize) -> usize {
    let element_bytes = call.element_bytes();
    // A slot has the elements of all arrays of a transfer, whatever the size of each.
    let fitting = |slot_bytes: usize, transfer: Transfer| {
        let arrays = call.arrays().zip(transfers.all());
        let alike = arrays.filter(|(_, other)| *other == transfer);
        let bytes: usize = alike.map(|(array, _)| array.element_bytes).sum();
        1 << (slot_bytes / bytes.max(1)).ilog2()
    };
    let largest = match transfers.slot_kind() {
        SlotKind::InPlace if gpus == 1 => return call.n(),
        SlotKind::InPlace => 1 << (tuning::DMA_SLOT_BYTES / element_bytes).ilog2(),
        SlotKind::Dma => fitting(tuning::DMA_SLOT_BYTES, Transfer::Dma),
        SlotKind::Staged => fitting(tuning::STAGED_SLOT_BYTES, Transfer::Staged)
            .min(fitting(tuning::STAGED_SLOT_BYTES, Transfer::Dma))
            .min(tuning::STAGED_CHUNK_BYTES / element_bytes),
    };
    let wanted = call.max_bytes() / (tuning::PIPELINE_DEPTH * gpus);
    let wanted = wanted.next_power_of_two().max(tuning::SMALLEST_CHUNK_BYTES) / element_bytes;
    wanted.min(largest)
}

/// Says whether a call can be queued on a stream of the device: kernels, or the driver, reach every
/// array where it is.
fn is_queueable(call: &Call<'_>, device: usize) -> bool {
    let by_driver = is_copied_by_driver(call);
    let is_reached = |array: &Array| match array.kind {
        MemoryKind::Device { ordinal } => ordinal == device || by_driver,
        MemoryKind::Managed | MemoryKind::Pinned | MemoryKind::PinnedInParts => true,
        MemoryKind::Pageable => false,
    };
    call.n() > 0 && call.arrays().all(is_reached)
}

/// Says whether a stream leaves a copy to the driver: from or to a device, and not of memory that was
/// page-locked in parts. From host to host the driver makes the caller wait.
fn is_copied_by_driver(call: &Call<'_>) -> bool {
    call.task().is_copy() && needs_gpu(call) && !call.any(MemoryKind::PinnedInParts)
}

fn on_stream(call: &Call<'_>) -> OnStream {
    let by_driver = is_copied_by_driver(call);
    let transfer = |array: &Array| match array.kind {
        MemoryKind::Pinned | MemoryKind::PinnedInParts if !by_driver => Transfer::Mapped,
        _ => Transfer::InPlace,
    };
    let inputs = call.inputs().iter().map(transfer).collect();
    let transfers = Transfers { inputs, output: transfer(call.output()) };
    let crosses_bus = transfers.cross_bus() || (call.task().is_copy() && !by_driver);
    let block_limit = block_limit(call, &transfers, call.n(), crosses_bus);
    OnStream { transfers, block_limit, copies_by_driver: by_driver }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::checked::tests::with_call;
    use crate::ops::Op;
    use MemoryKind::{Managed, Pageable, Pinned};
    use Placement::{All, Auto, Cpu, Gpu};
    use proptest::prelude::*;

    const DEVICE: MemoryKind = MemoryKind::Device { ordinal: 0 };
    const OTHER: MemoryKind = MemoryKind::Device { ordinal: 1 };

    /// A machine with GPUs, and a limit of threads.
    struct Host {
        gpus: usize,
        limit: usize,
    }

    /// A machine with as many GPUs, and 16 threads.
    fn with(gpus: usize) -> Host {
        Host { gpus, limit: 16 }
    }

    impl Machine for Host {
        fn thread_limit(&self) -> usize {
            self.limit
        }

        fn threads(&self, wanted: usize) -> usize {
            wanted.max(1)
        }

        fn gpu(&self) -> Result<usize, Error> {
            self.gpus().map(|gpus| gpus[0])
        }

        fn gpus(&self) -> Result<Vec<usize>, Error> {
            let gpus: Vec<usize> = (0..self.gpus).collect();
            if gpus.is_empty() { Err(Error::NoGpu { why: "a test" }) } else { Ok(gpus) }
        }

        fn is_ready_for(&self, _: &Formula) -> bool {
            false
        }
    }

    /// A machine that must not be asked for anything but its calling core.
    struct NotAsked;

    #[rustfmt::skip]
    impl Machine for NotAsked {
        fn thread_limit(&self) -> usize {
            panic!("threads were asked for")
        }

        fn threads(&self, _: usize) -> usize {
            panic!("threads were asked for")
        }

        fn gpu(&self) -> Result<usize, Error> {
            panic!("a GPU was asked for")
        }

        fn gpus(&self) -> Result<Vec<usize>, Error> {
            panic!("GPUs were asked for")
        }

        fn is_ready_for(&self, _: &Formula) -> bool {
            panic!("a device was asked")
        }
    }

    fn planned(
        op: Op, n: usize, kinds: [MemoryKind; 3], placement: Placement, gpus: usize,
    ) -> Plan {
        with_call(op, n, kinds, |call| plan(call, placement, None, &with(gpus)).unwrap())
    }

    /// A plan in one line.
    fn line(plan: &Plan) -> String {
        let limit =
            |blocks: u32| if blocks == MAX_BLOCKS { "any".into() } else { blocks.to_string() };
        let ways = |transfers: &Transfers| {
            transfers.all().map(|transfer| format!("{transfer:?}")).collect::<Vec<_>>().join(" ")
        };
        match plan {
            Plan::Queue(plan) => {
                format!("stream: {}; {} blocks", ways(&plan.transfers), limit(plan.block_limit))
            }
            Plan::Cores(OnCores { threads, partition }) => {
                format!("cores: {threads} threads; {} chunks", partition.chunks())
            }
            Plan::Gpus(plan) => format!(
                "GPUs {:?}: {}; {} chunks; {} threads, {} slots; {} cores; {} blocks{}; {:?}",
                plan.devices,
                ways(&plan.transfers),
                plan.partition.chunks(),
                plan.threads,
                plan.slots,
                plan.cores,
                limit(plan.block_limit),
                if plan.uses_flags { ", flags" } else { "" },
                plan.fallback
            ),
        }
    }

    #[test]
    fn each_call_has_its_plan() {
        let (add, dot) = (Op::AddF32, Op::DotF32);
        #[rustfmt::skip]
        let table = [
            // Placement, GPUs, operation, n, memory of a, b and out.
            (Cpu, 1, add, 1000, [Pageable; 3], "cores: 1 threads; 1 chunks"),
            (Cpu, 1, add, 100_000, [Pageable; 3], "cores: 7 threads; 25 chunks"),
            (Auto, 0, add, 150_000, [Pinned; 3], "cores: 10 threads; 37 chunks"),
            (Auto, 1, add, 150_000, [Pinned; 3], "cores: 1 threads; 3 chunks"),
            (Auto, 1, add, 300_000, [Pinned; 3],
             "GPUs [0]: Mapped Mapped Mapped; 1 chunks; 1 threads, 1 slots; 0 cores; 64 blocks, flags; Cores"),
            (Auto, 1, add, 1_000_000, [Pageable; 3],
             "GPUs [0]: Staged Staged Staged; 8 chunks; 4 threads, 2 slots; 0 cores; any blocks; Cores"),
            (Auto, 1, dot, 100_000_000, [Pageable; 3],
             "GPUs [0]: Staged Staged State; 382 chunks; 4 threads, 2 slots; 0 cores; 16 blocks; Cores"),
            (Auto, 0, dot, 1, [Pageable, DEVICE, Pinned],
             "GPUs [0]: Staged InPlace State; 1 chunks; 1 threads, 1 slots; 0 cores; 1 blocks, flags; None"),
            (Gpu, 1, add, 1000, [Pinned; 3],
             "GPUs [0]: Mapped Mapped Mapped; 1 chunks; 1 threads, 1 slots; 0 cores; 64 blocks, flags; None"),
            (Gpu, 1, add, 1000, [DEVICE; 3],
             "GPUs [0]: InPlace InPlace InPlace; 1 chunks; 1 threads, 1 slots; 0 cores; any blocks, flags; None"),
            (Gpu, 1, add, 1000, [Managed; 3],
             "GPUs [0]: InPlace InPlace InPlace; 1 chunks; 1 threads, 1 slots; 0 cores; any blocks; None"),
            (Gpu, 1, dot, 1000, [Pinned; 3],
             "GPUs [0]: Mapped Mapped State; 1 chunks; 1 threads, 1 slots; 0 cores; 1 blocks, flags; None"),
            (Gpu, 1, dot, 100_000_000, [DEVICE; 3],
             "GPUs [0]: InPlace InPlace State; 1 chunks; 1 threads, 1 slots; 0 cores; any blocks; None"),
            (Auto, 1, dot, 1 << 30, [DEVICE; 3],
             "GPUs [0]: InPlace InPlace State; 1 chunks; 1 threads, 1 slots; 0 cores; any blocks; None"),
            (Auto, 2, add, 9, [DEVICE, OTHER, DEVICE],
             "GPUs [0]: InPlace Dma InPlace; 1 chunks; 1 threads, 1 slots; 0 cores; any blocks, flags; None"),
            (Auto, 1, add, 100_000_000, [Pinned; 3],
             "GPUs [0]: Dma Dma Dma; 96 chunks; 1 threads, 3 slots; 0 cores; any blocks; Cores"),
            (Auto, 2, add, 100_000_000, [Pinned; 3],
             "GPUs [0, 1]: Mapped Mapped Mapped; 24 chunks; 1 threads, 8 slots; 0 cores; any blocks; Cores"),
            (Auto, 2, Op::ScaleF32, 100_000_000, [Pinned; 3],
             "GPUs [0, 1]: Dma Dma; 48 chunks; 1 threads, 3 slots; 0 cores; any blocks; Cores"),
            (Auto, 2, dot, 100_000_000, [Pinned; 3],
             "GPUs [0, 1]: Dma Dma State; 48 chunks; 1 threads, 3 slots; 0 cores; any blocks; Cores"),
            (Auto, 2, add, 100_000_000, [Pageable, Pinned, Pinned],
             "GPUs [0, 1]: Staged Mapped Mapped; 382 chunks; 4 threads, 2 slots; 0 cores; any blocks; Cores"),
            (Auto, 1, add, 100_000_000, [MemoryKind::PinnedInParts; 3],
             "GPUs [0]: Mapped Mapped Mapped; 1 chunks; 1 threads, 1 slots; 0 cores; 64 blocks, flags; Cores"),
            (All, 1, add, 100_000_000, [Pinned; 3],
             "GPUs [0]: Dma Dma Dma; 382 chunks; 1 threads, 3 slots; 15 cores; any blocks; Cores"),
            (All, 2, dot, 100_000_000, [Pinned; 3],
             "GPUs [0, 1]: Dma Dma State; 382 chunks; 1 threads, 3 slots; 14 cores; any blocks; Cores"),
            (All, 0, add, 100_000_000, [Pinned; 3], "cores: 16 threads; 1526 chunks"),
            (All, 1, add, 100_000_000, [Pageable; 3], "cores: 16 threads; 1526 chunks"),
            (All, 1, add, 1, [DEVICE; 3],
             "GPUs [0]: InPlace InPlace InPlace; 1 chunks; 1 threads, 1 slots; 0 cores; any blocks, flags; None"),
        ];
        for (placement, gpus, op, n, kinds, expected) in table {
            let plan = planned(op, n, kinds, placement, gpus);
            assert_eq!(
                line(&plan),
                expected,
                "{placement:?}, {gpus} GPUs, {op:?} of {n} in {kinds:?}"
            );
        }
    }

    #[test]
    fn auto_takes_the_gpu_from_other_lengths_for_each_exact_sum() {
        let is_on_core = |op, n, kind| {
            line(&planned(op, n, [kind; 3], Auto, 1)).starts_with("cores: 1 threads;")
        };
        for (op, pinned, pageable) in [
            (Op::SumF32, 131_072, 917_504),
            (Op::DotF32, 131_072, 786_432),
            (Op::SumF64, 212_992, 1_048_576),
            (Op::DotF64, 90_112, 524_288),
            (Op::MinF32, 229_376, 917_504),
        ] {
            for (kind, n) in [(Pinned, pinned), (Pageable, pageable)] {
                assert!(is_on_core(op, n, kind) && !is_on_core(op, n + 1, kind), "{op:?}, {n}");
            }
        }
    }

    #[test]
    fn a_stream_takes_calls_whose_arrays_its_device_reaches() {
        let on = |stream, placement, op, n, kinds| {
            with_call(op, n, kinds, |call| {
                line(&plan(call, placement, Some(stream), &with(2)).unwrap())
            })
        };
        let whole = "stream: InPlace InPlace InPlace; any blocks";
        assert_eq!(on(0, Auto, Op::AddF32, 9, [DEVICE; 3]), whole);
        assert_eq!(on(0, Gpu, Op::DotF32, 1 << 40, [DEVICE, DEVICE, Managed]), whole);
        let mapped = "stream: Mapped InPlace Mapped; 64 blocks";
        assert_eq!(on(0, All, Op::AddF32, 9, [Pinned, DEVICE, Pinned]), mapped);
        for (stream, placement, kinds) in [
            (1, Auto, [DEVICE; 3]),
            (0, Auto, [DEVICE, OTHER, DEVICE]),
            (0, Auto, [DEVICE, Pageable, DEVICE]),
        ] {
            assert!(on(stream, placement, Op::AddF32, 9, kinds).starts_with("GPUs"));
        }
        assert!(on(0, Cpu, Op::AddF32, 9, [Pinned; 3]).starts_with("cores"));
    }

    #[test]
    fn small_arrays_wake_neither_a_core_nor_the_driver() {
        for (placement, kind) in [(Auto, Pageable), (Auto, Pinned), (Cpu, Pageable), (All, Pinned)]
        {
            let plan = with_call(Op::AddF32, 1000, [kind; 3], |call| {
                plan(call, placement, None, &NotAsked).unwrap()
            });
            assert_eq!(line(&plan), "cores: 1 threads; 1 chunks");
        }
    }

    #[test]
    fn a_gpu_that_is_demanded_and_missing_is_an_error() {
        let result =
            with_call(Op::AddF32, 1000, [Pageable; 3], |call| plan(call, Gpu, None, &with(0)));
        assert!(matches!(result, Err(Error::NoGpu { .. })));
    }

    fn any_kind() -> impl Strategy<Value = MemoryKind> {
        prop_oneof![Just(Pageable), Just(Pinned), Just(DEVICE), Just(OTHER), Just(Managed)]
    }

    proptest! {
        #[test]
        fn chunks_fit_their_buffers(
            n in 1usize..1 << 40, gpus in 1usize..9,
            a in any_kind(), b in any_kind(), output in any_kind(),
        ) {
            for op in Op::ALL {
                let Plan::Gpus(plan) = planned(*op, n, [a, b, output], Gpu, gpus) else {
                    panic!("not a plan for GPUs")
                };
                let chunk = plan.partition.chunk();
                let bytes = chunk.min(n) * op.element_bytes();
                let count = |transfer| plan.transfers.all().filter(|t| *t == transfer).count();
                let direct = count(Transfer::Dma) * bytes;
                match plan.transfers.slot_kind() {
                    SlotKind::Staged => {
                        let staged = count(Transfer::Staged) * bytes;
                        prop_assert!(staged.max(direct) <= tuning::STAGED_SLOT_BYTES);
                    }
                    SlotKind::Dma => prop_assert!(direct <= tuning::DMA_SLOT_BYTES),
                    SlotKind::InPlace => prop_assert_eq!(direct, 0),
                }
            }
        }

        #[test]
        fn no_more_threads_than_allowed(
            n in 1usize..1 << 40, gpus in 1usize..9, limit in 1usize..20,
            a in any_kind(), b in any_kind(), all: bool,
        ) {
            let placement = if all { All } else { Gpu };
            let machine = Host { gpus, limit };
            let plan = with_call(Op::AddF32, n, [a, b, a], |call| plan(call, placement, None, &machine));
            let (threads, groups, devices) = match plan.unwrap() {
                Plan::Gpus(plan) => {
                    (plan.groups * plan.threads + plan.cores, plan.groups, plan.devices.len())
                }
                Plan::Cores(plan) => (plan.threads, 1, 1),
                Plan::Queue(_) => panic!("there is no stream"),
            };
            prop_assert!(threads <= limit && (1..=devices).contains(&groups));
        }

        #[test]
        fn each_core_has_a_chunk_of_some_size_to_take(n in 1usize..1 << 40) {
            let OnCores { threads, partition } =
                with_call(Op::DotF32, n, [Pageable; 3], |call| on_cores(call, &with(0)));
            let [least, most] = tuning::CORE_CHUNK;
            prop_assert!((least..=most).contains(&partition.chunk()));
            prop_assert!(threads == 1 || partition.chunks() >= threads);
        }
    }
}
