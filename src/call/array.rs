//! One array argument that has passed every check.

use super::chunk::Chunk;
use std::ffi::c_void;

/// The most inputs that a call has.
pub(crate) const MAX_INPUTS: usize = 32;

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

/// An array, where a [`Call`](super::checked::Call) promises its elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array {
    /// The argument's name in the header.
    pub(crate) name: &'static str,
    pub(crate) address: usize,
    /// The size of an element.
    pub(crate) element_bytes: usize,
    /// The size of all elements.
    pub(crate) bytes: usize,
    pub(crate) kind: MemoryKind,
}

impl Array {
    /// The device that holds the array, if one does.
    pub(crate) fn device(&self) -> Option<usize> {
        match self.kind {
            MemoryKind::Device { ordinal } => Some(ordinal),
            _ => None,
        }
    }

    /// The address of a chunk's elements on the host.
    ///
    /// # Panics
    /// If the array does not have the chunk, or is in device memory, which the host does not reach.
    pub(crate) fn host_elements(&self, chunk: &Chunk) -> *mut c_void {
        assert!(self.device().is_none(), "{} is device memory", self.name);
        let end = (chunk.start() + chunk.len()) * self.element_bytes;
        assert!(end <= self.bytes, "{} has no such chunk", self.name);
        let start = chunk.start() * self.element_bytes;
        std::ptr::with_exposed_provenance_mut(self.address + start)
    }

    /// The address of the one element of an array on the host.
    ///
    /// # Panics
    /// If the array does not have one element of that size, or is in device memory.
    pub(crate) fn host_value<T>(&self) -> *mut T {
        assert!(self.device().is_none(), "{} is device memory", self.name);
        assert_eq!(self.bytes, size_of::<T>(), "the bytes of {}", self.name);
        std::ptr::with_exposed_provenance_mut(self.address)
    }

    pub(super) fn overlaps(&self, other: &Array) -> bool {
        self.address < other.address + other.bytes && other.address < self.address + self.bytes
    }
}
