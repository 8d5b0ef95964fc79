//! One array argument that has passed every check.

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

    /// The address of an element on the host.
    ///
    /// # Panics
    /// If the array is in device memory, which the host does not reach.
    pub(crate) fn host_pointer<T>(&self, element: usize) -> *mut T {
        debug_assert_eq!(self.element_bytes, size_of::<T>());
        self.host_address(element).cast()
    }

    /// The same, of an element whose type is not known here.
    pub(crate) fn host_address(&self, element: usize) -> *mut c_void {
        assert!(self.device().is_none(), "{} is device memory", self.name);
        std::ptr::with_exposed_provenance_mut(self.address + element * self.element_bytes)
    }

    pub(super) fn overlaps(&self, other: &Array) -> bool {
        self.address < other.address + other.bytes && other.address < self.address + self.bytes
    }
}
