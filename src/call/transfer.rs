//! The transfers by which a GPU accesses the arrays of a call. Data only: the plan makes it, the pipeline
//! follows it.

use super::array::{Extent, MAX_ARRAYS};
use super::checked::Call;
use super::task::TaskKind;
use arrayvec::ArrayVec;

/// The transfer of one array to or from a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// Kernels, or the driver's copies, use the array where it is, without a mapping.
    InPlace,
    /// Kernels use the array where it is, in pinned memory, across the bus.
    Mapped,
    /// Each chunk is copied between pinned memory, or another device's, and a device buffer.
    Dma,
    /// Each chunk is copied through a pinned buffer, which kernels use where it is.
    Staged,
    /// A kernel writes the state of a reduction into a pinned buffer, for the host to merge.
    State,
}

/// The kinds of slots, by the buffers that a chunk needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    /// No buffer for any array.
    InPlace,
    /// Device buffers, to and from which pinned memory is copied.
    Dma,
    /// Pinned buffers: threads copy into and out of them.
    Staged,
}

impl SlotKind {
    /// All kinds, in order.
    pub(crate) const ALL: [SlotKind; 3] = [SlotKind::InPlace, SlotKind::Dma, SlotKind::Staged];
}

/// The transfers of a call's arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transfers {
    /// Those of the inputs, then those of the outputs, in their order.
    pub(super) arrays: ArrayVec<Transfer, MAX_ARRAYS>,
    /// The number of inputs.
    pub(super) inputs: usize,
}

impl Transfers {
    /// Those of all arrays.
    pub(crate) fn all(&self) -> impl Iterator<Item = Transfer> {
        self.arrays.iter().copied()
    }

    /// The same transfers with states in place of the call's results.
    pub(super) fn with_states(mut self, call: &Call<'_>) -> Self {
        for (output, _) in call.outputs_of(Extent::Results) {
            self.arrays[self.inputs + output] = Transfer::State;
        }
        self
    }

    /// That of the array of this number.
    pub(crate) fn of(&self, number: usize) -> Transfer {
        self.arrays[number]
    }

    pub(crate) fn outputs(&self) -> &[Transfer] {
        &self.arrays[self.inputs..]
    }

    pub(crate) fn any(&self, transfer: Transfer) -> bool {
        self.all().any(|other| other == transfer)
    }

    /// Says whether an array is staged, or copied.
    pub(crate) fn is_any_staged(&self) -> bool {
        self.any(Transfer::Staged) || self.any(Transfer::Dma)
    }

    /// The transfers for which a slot allocates buffers: staging and DMA if arrays are staged, and the memory of states
    /// if a task of this kind reduces.
    pub(super) fn of_buffers(are_staged: bool, kind: TaskKind) -> Self {
        let staged = [Transfer::Staged, Transfer::Dma].into_iter().filter(|_| are_staged);
        let state = match kind {
            TaskKind::Copy | TaskKind::Elementwise => None,
            TaskKind::Reduced | TaskKind::Mixed => Some(Transfer::State),
        };
        let arrays = staged.chain(state).collect();
        Transfers { arrays, inputs: 0 }
    }

    /// Says whether kernels read or write host memory element by element, across the bus.
    pub(crate) fn cross_bus(&self) -> bool {
        self.any(Transfer::Mapped) || self.any(Transfer::Staged)
    }

    /// Says whether kernels read host memory across the bus.
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
