//! Runs a call on cores.

use super::last_run::{
    self, Backend, Choice, GPUVEC_PATH_CALLING_CORE, GPUVEC_PATH_CORES, Report, Selection,
};
use crate::call::chunk::Ranges;
use crate::call::plan::OnCores;
use crate::call::{Call, ChunkWork, MemoryKind};
use crate::cuda::default_stream;
use crate::pool;

/// Computes all chunks of a call.
pub(super) fn run(call: &Call<'_>, plan: &OnCores, selection: Selection, work: &dyn ChunkWork) {
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
    let (choice, path) = match threads {
        1 => (Choice::CallingCore, GPUVEC_PATH_CALLING_CORE),
        _ => (selection.choice, GPUVEC_PATH_CORES),
    };
    last_run::set(Report {
        backend: Backend::Cpu,
        path,
        devices: 0,
        threads: threads as u64,
        chunks: partition.chunks() as u64,
        bytes_staged: 0,
        selection: Selection { choice, ..selection },
    });
}

/// True if a device may be writing to the memory of an array.
pub(super) fn may_be_written_by_devices(call: &Call<'_>) -> bool {
    call.arrays().any(|array| array.kind != MemoryKind::Pageable)
}
