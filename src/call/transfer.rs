//! The transfers through which a GPU accesses the arrays of a call. The plan chooses them, and the pipeline does them.

use super::array::{Array, Extent, MAX_ARRAYS, MemoryKind};
use super::checked::Call;
use super::cost::is_staged;
use super::task::{Task, TaskKind};
use crate::error::Error;
use crate::policy::gpu;
use arrayvec::ArrayVec;

/// The transfer of one array to or from a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// Kernels, or the driver's copies, access the array in place.
    InPlace,
    /// Kernels access the array in place, in pinned memory, across the bus.
    Mapped,
    /// Each chunk is copied between a device buffer and pinned memory or another device's memory.
    Dma,
    /// Each chunk is copied through a pinned buffer, which kernels access in place.
    Staged,
    /// A kernel writes the state of a reduction into a pinned buffer, for the host to merge.
    State,
    /// Kernels add elements by key to tables of the device, which the host merges at the end.
    Table,
}

/// The kinds of slots, by the buffers that a chunk needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    /// No buffer for any array.
    InPlace,
    /// Device buffers for copies of pinned memory.
    Dma,
    /// Pinned buffers, which threads fill and empty.
    Staged,
}

impl SlotKind {
    /// All kinds, in order.
    pub(crate) const ALL: [SlotKind; 3] = [SlotKind::InPlace, SlotKind::Dma, SlotKind::Staged];
}

/// The transfers of a call's arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transfers {
    /// A transfer for each input, then for each output.
    pub(super) arrays: ArrayVec<Transfer, MAX_ARRAYS>,
    /// The number of inputs.
    pub(super) inputs: usize,
}

impl Transfers {
    /// Chooses the transfers of a call on `devices`. Arrays in device memory are in the memory of the first device, or
    /// are copied there. With `in_place`, GPUs access pageable arrays in place. Fails if an array with strides is in
    /// another device's memory.
    pub(super) fn new(
        call: &Call<'_>, devices: &[usize], in_place: bool, is_integrated: bool,
    ) -> Result<Self, Error> {
        let (inputs, device) = (call.inputs().len(), devices[0]);
        let uses_dma = !is_integrated && uses_dma(call, devices.len());
        let transfer = |(number, array): (usize, &Array)| {
            let extent = array.layout.extent;
            Ok(match (call.task(), call.strides(), array.kind) {
                // The driver copies between any memory that it knows.
                (Task::Copy, _, MemoryKind::Pageable | MemoryKind::PinnedInParts) => {
                    Transfer::Staged
                }
                (Task::Copy, ..) => Transfer::InPlace,
                _ if extent == Extent::Groups => Transfer::Table,
                (_, None, _) if extent == Extent::Results => Transfer::State,
                (_, Some(strides), _) if number >= inputs && strides.wants_states => {
                    Transfer::State
                }
                // If results have no elements, kernels access only the results.
                (_, Some(strides), _)
                    if extent == Extent::Elements && strides.reduced().elements() == 0 =>
                {
                    Transfer::InPlace
                }
                (_, None, MemoryKind::Device { ordinal }) if ordinal != device => Transfer::Dma,
                (_, Some(_), MemoryKind::Device { ordinal }) if ordinal != device => {
                    return Err(Error::StridedOnOtherDevice {
                        argument: array.name,
                        ordinal,
                        device,
                    });
                }
                (.., MemoryKind::Device { .. } | MemoryKind::Managed) => Transfer::InPlace,
                (.., MemoryKind::Pageable) if in_place => Transfer::InPlace,
                (_, Some(strides), _)
                    if number < inputs && strides.repeats(&strides.views()[number]) =>
                {
                    Transfer::Dma
                }
                (_, None, MemoryKind::Pinned) if uses_dma => Transfer::Dma,
                (.., MemoryKind::Pinned | MemoryKind::PinnedInParts) => Transfer::Mapped,
                (.., MemoryKind::Pageable) => Transfer::Staged,
            })
        };
        let arrays = call.arrays().enumerate().map(transfer).collect::<Result<_, Error>>()?;
        Ok(Transfers { arrays, inputs })
    }

    /// The transfers of all arrays.
    pub(crate) fn all(&self) -> impl Iterator<Item = Transfer> {
        self.arrays.iter().copied()
    }

    /// Lets kernels write states instead of the results of reductions. The host merges the states.
    pub(super) fn merge_states(&mut self, call: &Call<'_>) {
        for (output, _) in call.outputs_of(Extent::Results) {
            self.arrays[self.inputs + output] = Transfer::State;
        }
    }

    /// The transfer of array `number`.
    pub(crate) fn of(&self, number: usize) -> Transfer {
        self.arrays[number]
    }

    pub(crate) fn outputs(&self) -> &[Transfer] {
        &self.arrays[self.inputs..]
    }

    pub(crate) fn any(&self, transfer: Transfer) -> bool {
        self.all().any(|other| other == transfer)
    }

    /// True if an array is staged or copied.
    pub(crate) fn is_any_staged(&self) -> bool {
        self.any(Transfer::Staged) || self.any(Transfer::Dma)
    }

    /// The transfers for which a slot allocates buffers: staging and DMA if `are_staged`, and memory for states if a
    /// task of this kind reduces.
    pub(super) fn of_buffers(are_staged: bool, kind: TaskKind) -> Self {
        let staged = [Transfer::Staged, Transfer::Dma].into_iter().filter(|_| are_staged);
        let state = match kind {
            TaskKind::Copy | TaskKind::Elementwise | TaskKind::Grouped => None,
            TaskKind::Reduced | TaskKind::Mixed => Some(Transfer::State),
        };
        let arrays = staged.chain(state).collect();
        Transfers { arrays, inputs: 0 }
    }

    /// One staged array.
    pub(crate) fn staged() -> Self {
        Transfers { arrays: [Transfer::Staged].into_iter().collect(), inputs: 0 }
    }

    /// True if kernels read or write host memory element by element, across the bus.
    pub(crate) fn cross_bus(&self) -> bool {
        self.any(Transfer::Mapped) || self.any(Transfer::Staged)
    }

    /// True if kernels read host memory across the bus.
    pub(crate) fn read_across_bus(&self) -> bool {
        let inputs = &self.arrays[..self.inputs];
        inputs.iter().any(|input| matches!(input, Transfer::Mapped | Transfer::Staged))
    }

    /// The kind of slot that the chunks need.
    pub(crate) fn slot_kind(&self) -> SlotKind {
        if self.any(Transfer::Staged) {
            SlotKind::Staged
        } else if self.any(Transfer::Dma) {
            SlotKind::Dma
        } else {
            SlotKind::InPlace
        }
    }
}

/// True if pinned contiguous arrays are copied to the device. Longer calls are faster with copies than with kernels
/// that access the arrays across the bus. Copies do not pay if other arrays are staged. Nor do they pay on several GPUs
/// for an elementwise operation on several inputs: together, the GPUs read faster from the host without copies. (Two
/// GPUs, 400 MB arrays: an exponential 5.0 ms, 7.1 without copies.)
fn uses_dma(call: &Call<'_>, gpus: usize) -> bool {
    let [elementwise, reduction] = gpu::MAPPED_BYTES;
    let pays = match call.task().kind() {
        TaskKind::Copy | TaskKind::Elementwise | TaskKind::Mixed => {
            (gpus == 1 || call.inputs().len() == 1) && call.max_bytes() > elementwise
        }
        TaskKind::Reduced | TaskKind::Grouped => call.max_bytes() > reduction,
    };
    pays && !is_staged(call)
}
