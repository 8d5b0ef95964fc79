//! How a GPU gets at the arrays of a call. Data only: the plan makes it, the pipeline follows it.

/// How a GPU gets at one array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Kernels use it where it is, in device or managed memory.
    Resident,
    /// Kernels use it where it is, in pinned memory.
    Mapped,
    /// Each chunk is copied between pinned memory and a device buffer.
    Dma,
    /// Each chunk is copied through a pinned buffer, which kernels use where it is.
    StagedMapped,
    /// Each chunk is copied through a pinned buffer and between that and a device buffer.
    StagedDma,
    /// Kernels write a reduction's tile sums into a pinned buffer, for the host to add up.
    TileSums,
}

impl Access {
    /// Whether the chunk goes through one of our pinned buffers.
    pub(crate) fn is_staged(self) -> bool {
        matches!(self, Access::StagedMapped | Access::StagedDma)
    }

    /// Whether the chunk goes through a device buffer of ours.
    pub(crate) fn is_dma(self) -> bool {
        matches!(self, Access::Dma | Access::StagedDma)
    }
}

/// The ways of a call's arrays, and how long a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// How it gets at `a`, `b` and the output.
    pub(crate) access: [Access; 3],
    /// Elements in each chunk but the last.
    pub(crate) chunk: usize,
}
