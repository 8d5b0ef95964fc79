//! Runs a call on cores.

use super::last_run::{Backend, GPUVEC_PATH_CALLING_CORE, GPUVEC_PATH_CORES, Run};
use crate::call::chunk::Ranges;
use crate::call::plan::OnCores;
use crate::call::{Call, MemoryKind, Work};
use crate::cuda::default_stream;
use crate::pool;

/// Computes all chunks of a call.
pub(super) fn run(call: &Call<'_>, plan: &OnCores, work: &dyn Work) -> Run {
    if may_be_written_by_devices(call) {
        default_stream::synchronize_for_cores();
    }
    let OnCores { threads, partition } = *plan;
    if threads == 1 {
        work.compute(&mut partition.in_order());
    } else {
        let ranges = Ranges::new(partition, threads);
        pool::run(threads, &|worker| work.compute(&mut ranges.of(worker)));
    }
    Run {
        backend: Backend::Cpu as i32,
        path: if threads == 1 { GPUVEC_PATH_CALLING_CORE } else { GPUVEC_PATH_CORES },
        threads: threads as u64,
        chunks: partition.chunks() as u64,
        ..Run::default()
    }
}

/// Says whether a device may be at work in the memory of an array.
pub(super) fn may_be_written_by_devices(call: &Call<'_>) -> bool {
    call.arrays().any(|array| array.kind != MemoryKind::Pageable)
}
