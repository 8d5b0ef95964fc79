//! One array argument that has passed every check.

use super::chunk::Chunk;
use gpuvec_expr::OutputKind;
use std::ffi::c_void;

/// The most inputs that a call has, and the most outputs.
pub(crate) const MAX_INPUTS: usize = gpuvec_expr::MAX_INPUTS;
pub(crate) const MAX_OUTPUTS: usize = gpuvec_expr::MAX_OUTPUTS;

/// The most arrays that a call has.
pub(crate) const MAX_ARRAYS: usize = MAX_INPUTS + MAX_OUTPUTS;

/// The kind of memory that an array is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// Ordinary host memory: no GPU reaches it.
    Pageable,
    /// Page-locked host memory, whichever library locked it: GPUs reach it across the bus.
    Pinned,
    /// Page-locked host memory that was locked in several parts: no copy may go across their ends.
    PinnedInParts,
    /// Managed memory: host and devices reach it at the same address.
    Managed,
    /// Memory of one device, which the host does not reach.
    Device {
        /// The device.
        ordinal: usize,
    },
}

/// The number of an array's elements, as it follows from the call's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One for each of the call's elements.
    Elements,
    /// One for each index of the axes that are not reduced. A contiguous call reduces its only axis to one value.
    Results,
}

impl Extent {
    /// The extent of an output of a kind.
    pub(crate) const fn of(kind: OutputKind) -> Self {
        match kind {
            OutputKind::Elementwise => Extent::Elements,
            OutputKind::Reduced { .. } | OutputKind::Single => Extent::Results,
        }
    }

    /// The number of elements in a contiguous call of `n`.
    #[inline(always)]
    pub(super) const fn elements(self, n: usize) -> usize {
        match self {
            Extent::Elements => n,
            Extent::Results => 1,
        }
    }
}

/// The layout of an array: the size of its elements and their number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) element_bytes: usize,
    pub(crate) extent: Extent,
}

impl Layout {
    /// The layout of an array with an element for each of the call's.
    pub(crate) const fn contiguous(element_bytes: usize) -> &'static Self {
        Layout::of(OutputKind::Elementwise, element_bytes)
    }

    /// The layout of an output of a kind, with elements of 1, 2, 4 or 8 bytes.
    pub(crate) const fn of(kind: OutputKind, element_bytes: usize) -> &'static Self {
        const fn layouts(extent: Extent) -> [Layout; 4] {
            [
                Layout { element_bytes: 1, extent },
                Layout { element_bytes: 2, extent },
                Layout { element_bytes: 4, extent },
                Layout { element_bytes: 8, extent },
            ]
        }
        static ELEMENTS: [Layout; 4] = layouts(Extent::Elements);
        static RESULTS: [Layout; 4] = layouts(Extent::Results);
        let place = element_bytes.ilog2() as usize;
        match Extent::of(kind) {
            Extent::Elements => &ELEMENTS[place],
            Extent::Results => &RESULTS[place],
        }
    }

    /// The bytes of the array in a contiguous call of `n` elements, which must fit into the address space.
    #[inline(always)]
    pub(super) fn bytes(&self, n: usize) -> Option<usize> {
        let bytes = self.extent.elements(n).checked_mul(self.element_bytes)?;
        isize::try_from(bytes).is_ok().then_some(bytes)
    }
}

/// An array, where a [`Call`](super::checked::Call) promises its elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array<'a> {
    /// The argument's name in the header.
    pub(crate) name: &'static str,
    pub(crate) address: usize,
    pub(crate) layout: &'a Layout,
    /// The bytes from the first element to the end of the last.
    pub(crate) bytes: usize,
    pub(crate) kind: MemoryKind,
}

impl Array<'_> {
    /// The device that holds the array, if one does.
    pub(crate) fn device(&self) -> Option<usize> {
        match self.kind {
            MemoryKind::Device { ordinal } => Some(ordinal),
            _ => None,
        }
    }

    pub(crate) fn element_bytes(&self) -> usize {
        self.layout.element_bytes
    }

    /// The offset of a chunk's first element, and the bytes of the chunk's elements: none of a result, which belongs
    /// to no chunk.
    pub(crate) fn part(&self, chunk: &Chunk) -> (usize, usize) {
        let bytes = self.layout.element_bytes;
        match self.layout.extent {
            Extent::Elements => (chunk.start() * bytes, chunk.len() * bytes),
            Extent::Results => (0, 0),
        }
    }

    /// The addresses of the first byte and the last.
    #[inline(always)]
    pub(crate) fn ends(&self) -> [usize; 2] {
        [self.address, self.address + self.bytes - 1]
    }

    /// The address of a chunk's elements on the host.
    ///
    /// # Panics
    /// If the array does not have the chunk, or is in device memory, which the host does not reach.
    pub(crate) fn host_elements(&self, chunk: &Chunk) -> *mut c_void {
        assert!(self.device().is_none(), "{} is device memory", self.name);
        let (start, bytes) = self.part(chunk);
        assert!(start + bytes <= self.bytes, "{} has no such chunk", self.name);
        std::ptr::with_exposed_provenance_mut(self.address + start)
    }

    /// The address of an array on the host.
    ///
    /// # Panics
    /// If the array is in device memory, which the host does not reach.
    pub(crate) fn host_bytes(&self) -> *mut u8 {
        assert!(self.device().is_none(), "{} is device memory", self.name);
        std::ptr::with_exposed_provenance_mut(self.address)
    }

    /// Says whether both have the same elements at the same places.
    pub(super) fn is(&self, other: &Array<'_>) -> bool {
        self.address == other.address && *self.layout == *other.layout
    }

    pub(super) fn overlaps(&self, other: &Array<'_>) -> bool {
        self.address < other.address + other.bytes && other.address < self.address + self.bytes
    }
}
