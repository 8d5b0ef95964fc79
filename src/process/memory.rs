//! Says how large the system's pages are, whether memory is left for small allocations that can only fail by abort, and
//! between which addresses memory of one kind has been.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of a page: on AArch64 4, 16 or 64 KiB, by how the kernel was built. The library asks the driver for whole
/// pages of pinned memory: its other allocations then begin with a page too.
pub(crate) fn page_bytes() -> usize {
    if cfg!(target_arch = "x86_64") {
        return 4096;
    }
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a kernel has pages")
}

/// The number of bytes that the allocations after the question may need together, with room to spare.
pub(crate) const NEEDED_BYTES: usize = 64 << 10;

/// Says whether [`NEEDED_BYTES`] can be allocated. Callers ask before they start threads or make a
/// value that lasts: both allocate inside other crates, which abort the process if memory has run out.
pub(crate) fn is_left() -> bool {
    is_left_for(NEEDED_BYTES)
}

/// Says whether this number of bytes can be allocated.
pub(crate) fn is_left_for(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// The lowest and the highest address at which memory of one kind has been: a filter, which spares other memory a
/// question that takes longer.
pub(crate) struct Extent {
    lowest: AtomicUsize,
    highest: AtomicUsize,
}

impl Extent {
    pub(crate) const fn new() -> Self {
        Extent { lowest: AtomicUsize::new(usize::MAX), highest: AtomicUsize::new(0) }
    }

    /// Notes where such memory is.
    pub(crate) fn note(&self, bytes: RangeInclusive<usize>) {
        // Looks first: the cache line stays with other threads.
        if *bytes.start() < self.lowest.load(Ordering::Relaxed) {
            self.lowest.fetch_min(*bytes.start(), Ordering::Relaxed);
        }
        if *bytes.end() > self.highest.load(Ordering::Relaxed) {
            self.highest.fetch_max(*bytes.end(), Ordering::Relaxed);
        }
    }

    /// True if one of these addresses may be in such memory.
    #[inline(always)]
    pub(crate) fn may_have_any(&self, addresses: [usize; 2]) -> bool {
        let noted = self.lowest.load(Ordering::Relaxed)..=self.highest.load(Ordering::Relaxed);
        addresses.iter().any(|address| noted.contains(address))
    }
}
