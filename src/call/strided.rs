//! Calls on arrays of any strides, as a GPU runs them.

use super::array::{Array, MAX_ARRAYS, MemoryKind};
use super::checked::Call;
use super::plan::{BlockLimits, block_limits};
use super::transfer::{Transfer, Transfers};
use crate::error::Error;
use crate::tuning;
use arrayvec::ArrayVec;
use gpuvec_axes::{Axes, Blocks, Space, View};

/// A call on arrays of any strides.
pub(crate) struct StridedCall<'a> {
    call: &'a Call<'a>,
    space: &'a Space,
    /// The views of the inputs, then those of the outputs.
    views: &'a [View],
}

/// The way in which a GPU does a call on arrays of any strides.
pub(crate) struct OnStrides {
    /// `InPlace` and `Mapped` as for other calls. Of arrays that are `Staged` the elements of a block are gathered in
    /// a pinned buffer, which kernels use where it is, or scattered from there. Of those with `Dma`, inputs that
    /// repeat elements, the distinct ones are gathered and then copied to a device buffer.
    pub(crate) transfers: Transfers,
    /// The blocks, each with a launch of the kernel.
    pub(crate) blocks: Blocks,
    /// The places of the staged arrays in buffers.
    pub(crate) offsets: ArrayVec<usize, MAX_ARRAYS>,
    pub(crate) block_limits: BlockLimits,
}

/// A reduction of arrays of any strides along axes.
pub(crate) struct AxesCall<'a> {
    call: &'a Call<'a>,
    axes: &'a Axes,
    /// The views of the inputs, then those of the outputs.
    views: &'a [View],
}

/// Buffers of staged arrays begin at multiples of this many bytes, as the longest vectors do.
const ALIGNMENT: usize = 16;

/// The most elements of a launch: below the limit of numbers in kernels, and a multiple of all packs.
const MOST_ELEMENTS: usize = 1 << 30;

impl<'a> StridedCall<'a> {
    /// The call on the elements to which views lead in a space.
    ///
    /// # Safety
    /// The views are those of the call's arrays, and lead only to their elements.
    pub(crate) unsafe fn new(call: &'a Call<'a>, space: &'a Space, views: &'a [View]) -> Self {
        StridedCall { call, space, views }
    }

    pub(crate) fn call(&self) -> &Call<'a> {
        self.call
    }

    pub(crate) fn views(&self) -> &[View] {
        self.views
    }

    /// The elements in blocks for kernels that reach all arrays in place.
    pub(crate) fn blocks_in_place(&self) -> Blocks {
        self.space.blocks(MOST_ELEMENTS)
    }

    /// Plans the call for a device. Fails if an array is in another device's memory.
    pub(crate) fn on_device(&self, device: usize) -> Result<OnStrides, Error> {
        let arrays = self.call.arrays().zip(self.views).enumerate();
        let transfer = |(number, (array, view)): (usize, (&Array<'_>, &View))| {
            let repeats = number < self.call.inputs().len() && self.repeats(view);
            Ok(match array.kind {
                MemoryKind::Device { ordinal } if ordinal != device => {
                    return Err(Error::StridedOnOtherDevice {
                        argument: array.name,
                        ordinal,
                        device,
                    });
                }
                MemoryKind::Device { .. } | MemoryKind::Managed => Transfer::InPlace,
                _ if repeats => Transfer::Dma,
                MemoryKind::Pinned | MemoryKind::PinnedInParts => Transfer::Mapped,
                MemoryKind::Pageable => Transfer::Staged,
            })
        };
        let arrays = arrays.map(transfer).collect::<Result<_, Error>>()?;
        let transfers = Transfers { arrays, inputs: self.call.inputs().len() };
        let blocks = match transfers.is_any_staged() {
            false => self.blocks_in_place(),
            true => self.space.blocks(self.chunk(&transfers)),
        };
        let mut end = 0;
        let place = |(view, transfer): (&View, Transfer)| {
            let bytes = match transfer {
                Transfer::Staged | Transfer::Dma => view.element_bytes * blocks.elements(),
                _ => 0,
            };
            let start = end;
            end += bytes.next_multiple_of(ALIGNMENT);
            start
        };
        let offsets = self.views.iter().zip(transfers.all()).map(place).collect();
        let crosses_bus_alone = blocks.count() == 1 && transfers.cross_bus();
        let block_limits = block_limits(&transfers, blocks.elements(), crosses_bus_alone);
        Ok(OnStrides { transfers, blocks, offsets, block_limits })
    }

    /// The most elements of a block if arrays are staged.
    fn chunk(&self, transfers: &Transfers) -> usize {
        let staged = self.views.iter().zip(transfers.all());
        let staged = staged.filter(|(_, of)| matches!(of, Transfer::Staged | Transfer::Dma));
        let bytes: usize = staged.map(|(view, _)| view.element_bytes).sum();
        let widest = self.call.element_bytes();
        let wanted = self.call.n() * widest / tuning::PIPELINE_DEPTH;
        let wanted = wanted.next_power_of_two().max(tuning::SMALLEST_CHUNK_BYTES);
        let wanted = wanted.min(tuning::STAGED_CHUNK_BYTES) / widest;
        wanted.min(1 << (tuning::STAGED_SLOT_BYTES / bytes).ilog2())
    }

    /// Says whether a view has an element for several of the call's.
    fn repeats(&self, view: &View) -> bool {
        self.space.distinct(view).elements() < self.space.elements()
    }
}

impl<'a> AxesCall<'a> {
    /// The call on the elements to which views lead along axes.
    ///
    /// # Safety
    /// The views are those of the call's arrays, and lead only to their elements.
    pub(crate) unsafe fn new(call: &'a Call<'a>, axes: &'a Axes, views: &'a [View]) -> Self {
        AxesCall { call, axes, views }
    }

    pub(crate) fn call(&self) -> &Call<'a> {
        self.call
    }

    pub(crate) fn views(&self) -> &[View] {
        self.views
    }

    /// The axes of the elements of a result.
    pub(crate) fn reduced(&self) -> &Space {
        self.axes.reduced()
    }

    /// The results in blocks for kernels.
    pub(crate) fn blocks(&self) -> Blocks {
        self.axes.kept().blocks(MOST_ELEMENTS)
    }

    /// Fails if a result has more elements than a kernel can number.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let elements = self.axes.reduced().elements();
        if elements > MOST_ELEMENTS { Err(Error::ReducedTooMany { elements }) } else { Ok(()) }
    }

    /// The transfers by which a device reaches the arrays, all where they are. Fails if it does not.
    pub(crate) fn on_device(&self, device: usize) -> Result<Transfers, Error> {
        let inputs = self.call.inputs().len();
        let transfer = |(number, array): (usize, &Array<'_>)| {
            let argument = array.name;
            Ok(match array.kind {
                // Nothing is read.
                _ if number < inputs && self.axes.reduced().elements() == 0 => Transfer::InPlace,
                MemoryKind::Device { ordinal } if ordinal != device => {
                    return Err(Error::StridedOnOtherDevice { argument, ordinal, device });
                }
                MemoryKind::Device { .. } | MemoryKind::Managed => Transfer::InPlace,
                MemoryKind::Pinned | MemoryKind::PinnedInParts => Transfer::Mapped,
                MemoryKind::Pageable => return Err(Error::ReducedPageable { argument }),
            })
        };
        let arrays = self.call.arrays().enumerate().map(transfer).collect::<Result<_, Error>>()?;
        Ok(Transfers { arrays, inputs })
    }
}
