//! How a GPU gets at the arrays of a call. Data only: the plan makes it, the pipeline follows it.

/// How a GPU gets at one array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Kernels use it where it is, in device or managed memory.
    Resident,
    /// Kernels use it where it is, in pinned memory.
    Mapped,
    /// Each chunk is copied between pinned memory, or another device's, and a device buffer.
    Dma,
    /// Each chunk is copied through a pinned buffer, which kernels use where it is.
    Staged,
    /// Kernels write a reduction's sums of tiles, or of groups of them, into a pinned buffer, for
    /// the host to add up.
    TileSums,
}

/// What a chunk needs on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// No buffer for any array.
    InPlace,
    /// Device buffers, to and from which pinned memory is copied.
    Direct,
    /// Pinned buffers, into and out of which threads copy.
    Staged,
}

impl Lane {
    /// All kinds, in order.
    pub(crate) const ALL: [Lane; 3] = [Lane::InPlace, Lane::Direct, Lane::Staged];
}

/// The ways of a call's arrays, and how long a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// How it gets at `a`, `b` if there is one, and the output.
    pub(crate) access: [Option<Access>; 3],
    /// Elements in each chunk but the last.
    pub(crate) chunk: usize,
}

impl Route {
    /// Every way that an array takes.
    pub(crate) fn ways(&self) -> impl Iterator<Item = Access> {
        self.access.into_iter().flatten()
    }

    /// Whether kernels read or write host memory element by element, across the bus.
    pub(crate) fn crosses_bus(&self) -> bool {
        self.ways().any(|access| matches!(access, Access::Mapped | Access::Staged))
    }

    /// Which kind of lane its chunks need.
    pub(crate) fn lane(&self) -> Lane {
        if self.ways().any(|access| access == Access::Staged) {
            Lane::Staged
        } else if self.ways().any(|access| access == Access::Dma) {
            Lane::Direct
        } else {
            Lane::InPlace
        }
    }

    /// How many arrays before the one in this slot have a buffer of its kind in the lane.
    pub(crate) fn buffers_before(&self, slot: usize, of: Access) -> usize {
        self.access[..slot].iter().filter(|access| **access == Some(of)).count()
    }
}
