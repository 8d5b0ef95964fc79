//! One array argument that has passed every check.

use super::chunk::Chunk;
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

/// The number of axes of a call, after axes that can be merged were.
pub(crate) const AXES: usize = 1;

/// The length of each axis of a call, the outermost first.
pub(crate) type Shape = [usize; AXES];

/// The layout of an array: the size of its elements and, for each axis of the call, the distance from an element to
/// the next in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) element_bytes: usize,
    strides: [usize; AXES],
}

impl Layout {
    /// The layout of an array whose elements follow each other.
    pub(crate) const fn contiguous(element_bytes: usize) -> &'static Self {
        &CONTIGUOUS[element_bytes.ilog2() as usize]
    }

    /// The layout of one value, which is that of all elements.
    pub(crate) const fn value(element_bytes: usize) -> &'static Self {
        &VALUES[element_bytes.ilog2() as usize]
    }

    /// Says whether it is that of one value, such as a reduction's.
    #[inline(always)]
    pub(crate) fn is_value(&self) -> bool {
        self.strides == [0; AXES]
    }

    /// The bytes from the first element to the end of the last, which must fit into the address space. No axis is
    /// empty.
    #[inline(always)]
    pub(super) fn bytes(&self, shape: &Shape) -> Option<usize> {
        let to_last = |bytes: usize, (len, stride): (&usize, &usize)| {
            bytes.checked_add((len - 1).checked_mul(*stride)?)
        };
        let bytes = shape.iter().zip(&self.strides).try_fold(self.element_bytes, to_last)?;
        isize::try_from(bytes).is_ok().then_some(bytes)
    }
}

/// The layouts of arrays of 1, 2, 4 and 8 bytes an element, and of values.
static CONTIGUOUS: [Layout; 4] = [of(1, 1), of(2, 2), of(4, 4), of(8, 8)];
static VALUES: [Layout; 4] = [of(1, 0), of(2, 0), of(4, 0), of(8, 0)];

const fn of(element_bytes: usize, stride: usize) -> Layout {
    Layout { element_bytes, strides: [stride] }
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

    /// Says whether it is one value, not an element for each of the call's.
    pub(crate) fn is_value(&self) -> bool {
        self.layout.is_value()
    }

    /// The offset of a chunk's first element, and the bytes of the chunk's elements.
    pub(crate) fn part(&self, chunk: &Chunk) -> (usize, usize) {
        let stride = self.layout.strides[0];
        (chunk.start() * stride, chunk.len() * stride)
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
