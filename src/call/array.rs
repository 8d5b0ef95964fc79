//! An array argument that has passed every check.

use super::chunk::Chunk;
use gpuvec_expr::OutputKind;
use std::ffi::c_void;

/// The most inputs of a call, and the most outputs.
pub(crate) const MAX_INPUTS: usize = gpuvec_expr::MAX_INPUTS;
pub(crate) const MAX_OUTPUTS: usize = gpuvec_expr::MAX_OUTPUTS;

/// The most arrays of a call.
pub(crate) const MAX_ARRAYS: usize = MAX_INPUTS + MAX_OUTPUTS;

/// The kind of memory that contains an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// Ordinary host memory, which no GPU reaches.
    Pageable,
    /// Page-locked host memory, whichever library locked it. GPUs reach it across the bus.
    Pinned,
    /// Page-locked host memory that was locked in several parts. No copy may cross the end of a part.
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
    /// One for each key and each index of the axes that are not reduced. A call's array is the part of one key.
    Groups,
}

impl Extent {
    /// The extent of an output of a kind.
    pub(crate) const fn of(kind: OutputKind) -> Self {
        match kind {
            OutputKind::Elementwise => Extent::Elements,
            OutputKind::Reduced { .. } | OutputKind::Single => Extent::Results,
            OutputKind::Grouped { .. } => Extent::Groups,
        }
    }

    /// The number of elements in a contiguous call of `n`.
    #[inline(always)]
    pub(super) const fn elements(self, n: usize) -> usize {
        match self {
            Extent::Elements => n,
            Extent::Results | Extent::Groups => 1,
        }
    }
}

/// The size of an array's elements, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) element_bytes: usize,
    pub(crate) extent: Extent,
}

impl Layout {
    /// An array with an element for each of the call's.
    pub(crate) const fn contiguous(element_bytes: usize) -> Self {
        Layout { element_bytes, extent: Extent::Elements }
    }

    /// An output of a kind.
    pub(crate) const fn of(kind: OutputKind, element_bytes: usize) -> Self {
        Layout { element_bytes, extent: Extent::of(kind) }
    }

    /// The bytes of the array in a contiguous call of `n` elements. `None` if they exceed the address space.
    #[inline(always)]
    pub(super) fn bytes(self, n: usize) -> Option<usize> {
        let bytes = self.extent.elements(n).checked_mul(self.element_bytes)?;
        isize::try_from(bytes).is_ok().then_some(bytes)
    }
}

/// An array whose elements a [`Call`](super::checked::Call) promises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array {
    /// The argument's name in the header.
    pub(crate) name: &'static str,
    pub(crate) address: usize,
    pub(crate) layout: Layout,
    /// The bytes from the first element to the end of the last.
    pub(crate) bytes: usize,
    pub(crate) kind: MemoryKind,
}

impl Array {
    /// The device whose memory contains the array, if one does.
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
            Extent::Results | Extent::Groups => (0, 0),
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
    /// If the chunk exceeds the array, or the array is in device memory, which the host does not reach.
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

    /// True if both have the same elements at the same addresses.
    pub(super) fn is(&self, other: &Array) -> bool {
        self.address == other.address && self.layout == other.layout
    }

    pub(super) fn overlaps(&self, other: &Array) -> bool {
        self.address < other.address + other.bytes && other.address < self.address + self.bytes
    }
}
