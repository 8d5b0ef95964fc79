//! The job of a call on contiguous arrays: a kernel, or a copy, for each chunk.

use super::chunk_view::ChunkView;
use super::device::Device;
use super::driver::CUstream;
use super::enqueue::{Addresses, Contents, Part, addresses, enqueue};
use super::pipeline::{Job, OnDevice, Progress};
use super::slot::{STATE_BYTES, Slot};
use crate::call::chunk::Chunk;
use crate::call::plan::OnGpus;
use crate::call::{Call, ChunkWork, Extent, Task, TaskKind, Transfer, Transfers, state_bytes};
use crate::error::Error;

/// A call on contiguous arrays.
pub(crate) struct ChunkJob<'a> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) plan: &'a OnGpus,
    /// Merges the states of reductions.
    pub(crate) work: &'a dyn ChunkWork,
}

impl Job for ChunkJob<'_> {
    fn buffers(&self) -> &Transfers {
        &self.plan.transfers
    }

    fn begin(&self, device: &Device) -> Result<Addresses, Error> {
        if let Some(formula) = self.call.task().formula() {
            device.kernels.load_all(formula)?;
        }
        addresses(device, self.call, &self.plan.transfers)
    }

    fn start(
        &self, on: &OnDevice<'_>, slot: &mut Slot, chunk: &Chunk, progress: &mut Progress,
    ) -> Result<(), Error> {
        let stream = slot.begin();
        let (mut arrays, inputs) = (Addresses::new(), self.call.inputs().len());
        for number in 0..inputs {
            let input = self.view(on, number, chunk);
            input.bring_in(on.device, slot, stream)?;
            progress.bytes_staged += input.staged_bytes();
            arrays.push(input.kernel_address(slot)?);
        }
        for (kernel, outputs) in self.call.task().kernels() {
            for &output in outputs {
                let address = self.view(on, inputs + output, chunk).kernel_address(slot)?;
                arrays.push(address + kernel.state_offset() as u64);
            }
            self.enqueue(on.device, slot, stream, chunk, kernel, &arrays)?;
            progress.wrote |= kernel.kind() != TaskKind::Reduced;
            arrays.truncate(inputs);
        }
        self.outputs(on, chunk).try_for_each(|output| output.queue_out(on.device, slot, stream))
    }

    fn finish(
        &self, on: &OnDevice<'_>, slot: &mut Slot, chunk: &Chunk, progress: &mut Progress,
    ) -> Result<(), Error> {
        for (number, (output, _)) in self.call.outputs_of(Extent::Results).enumerate() {
            let state = slot.state(number, state_bytes(self.call, output))?;
            self.work.take_state(number, state, chunk.len());
        }
        self.outputs(on, chunk).try_for_each(|output| {
            progress.bytes_staged += output.staged_bytes();
            output.take_out(slot)
        })
    }
}

impl ChunkJob<'_> {
    /// Queues a kernel, or a copy, of a chunk. `arrays` has the chunk's addresses in the inputs and the kernel's
    /// outputs.
    fn enqueue(
        &self, device: &Device, slot: &mut Slot, stream: CUstream, chunk: &Chunk, task: Task<'_>,
        arrays: &Addresses,
    ) -> Result<(), Error> {
        let flags = if self.plan.uses_flags { slot.flags() } else { None };
        let (inputs, block_limit) = (self.call.inputs().len(), self.plan.block_limits.of(task));
        let enqueue = |contents| {
            let (first, n) = (chunk.start(), chunk.len());
            let part = Part { task, arrays, inputs, first, n, contents, block_limit, flags };
            // SAFETY: the call promises the arrays. The buffers are the slot's, which is waited for before the call
            // returns. By its transfer the device reaches each array.
            unsafe { enqueue(device, stream, part) }
        };
        slot.flagged_warps = match task.kind() {
            TaskKind::Copy => enqueue(Contents::ByDriver)?,
            TaskKind::Elementwise | TaskKind::Mixed => enqueue(Contents::Elements)?,
            TaskKind::Reduced => {
                slot.scratch()?.lend(stream, |scratch| enqueue(Contents::State(scratch)))?
            }
        };
        Ok(())
    }

    /// The chunk's part of each output.
    fn outputs(&self, on: &OnDevice<'_>, chunk: &Chunk) -> impl Iterator<Item = ChunkView> {
        let inputs = self.call.inputs().len();
        (inputs..inputs + self.call.outputs().len()).map(|number| self.view(on, number, chunk))
    }

    /// The chunk's part of array `number`.
    #[inline(never)]
    fn view(&self, on: &OnDevice<'_>, number: usize, chunk: &Chunk) -> ChunkView {
        let (array, transfer) = (self.call.array(number), self.plan.transfers.of(number));
        let earlier = self.call.arrays().zip(self.plan.transfers.all()).take(number);
        let alike = earlier.filter(|(_, other)| *other == transfer);
        let offset = match transfer {
            Transfer::State => alike.count() * STATE_BYTES,
            _ => alike.map(|(array, _)| array.element_bytes()).sum::<usize>() * self.plan.chunk,
        };
        ChunkView::new(array, transfer, on.in_place[number], chunk, offset)
    }
}
