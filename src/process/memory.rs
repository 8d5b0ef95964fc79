//! Memory of the host: the page size, allocations that fail without an abort, and the range of addresses where memory
//! of one kind has been seen.

use bytemuck::Zeroable;
use std::collections::TryReserveError;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The page size in bytes: on AArch64 4, 16 or 64 KiB, depending on the kernel's configuration. The library allocates
/// whole pages of pinned memory, so that the driver's other allocations also start at a page.
pub(crate) fn page_bytes() -> usize {
    if cfg!(target_arch = "x86_64") {
        return 4096;
    }
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a kernel has pages")
}

/// More than all allocations after a call of [`is_left`] need together.
pub(crate) const NEEDED_BYTES: usize = 64 << 10;

/// True if [`NEEDED_BYTES`] can be allocated. Callers ask before they start threads or make a value that lasts: both
/// allocate inside other crates, which abort the process if memory has run out.
pub(crate) fn is_left() -> bool {
    is_left_for(NEEDED_BYTES)
}

/// True if `bytes` can be allocated.
pub(crate) fn is_left_for(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// Returns `count` copies of a value, or an error if memory has run out.
pub(crate) fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>, TryReserveError> {
    let mut values = Vec::new();
    values.try_reserve_exact(count)?;
    values.resize(count, value);
    Ok(values)
}

/// Returns `count` values whose bits are zero, or an error if memory has run out. The system's new pages are zero, so
/// pages of a large array are not touched.
pub(crate) fn zeroed<T: Zeroable>(count: usize) -> Result<Box<[T]>, NoMemory> {
    let values = bytemuck::allocation::try_zeroed_slice_box(count).map_err(|()| NoMemory)?;
    advise_large_pages(&values);
    Ok(values)
}

/// The least bytes of an array with large pages. Follows from the size of these, 2 MiB on x86-64.
#[cfg(target_os = "linux")]
const LARGE_BYTES: usize = 4 << 20;

/// Asks the system for large pages for an array that is accessed in any order.
fn advise_large_pages<T>(values: &[T]) {
    #[cfg(target_os = "linux")]
    if size_of_val(values) >= LARGE_BYTES {
        let start = values.as_ptr().cast::<u8>();
        let first = start.align_offset(page_bytes());
        // SAFETY: the whole pages of the array; the advice changes no contents.
        unsafe {
            let address = start.wrapping_add(first).cast_mut().cast();
            libc::madvise(address, size_of_val(values) - first, libc::MADV_HUGEPAGE);
        }
    }
}

/// The error of an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoMemory;

impl From<TryReserveError> for NoMemory {
    fn from(_: TryReserveError) -> Self {
        NoMemory
    }
}

/// The lowest and the highest address at which memory of one kind has been seen. It spares all other memory a slow
/// query.
pub(crate) struct Extent {
    lowest: AtomicUsize,
    highest: AtomicUsize,
}

impl Extent {
    pub(crate) const fn new() -> Self {
        Extent { lowest: AtomicUsize::new(usize::MAX), highest: AtomicUsize::new(0) }
    }

    /// Extends the range to memory of the kind.
    pub(crate) fn note(&self, bytes: RangeInclusive<usize>) {
        // Reads first, so that the cache line stays shared among threads.
        if *bytes.start() < self.lowest.load(Ordering::Relaxed) {
            self.lowest.fetch_min(*bytes.start(), Ordering::Relaxed);
        }
        if *bytes.end() > self.highest.load(Ordering::Relaxed) {
            self.highest.fetch_max(*bytes.end(), Ordering::Relaxed);
        }
    }

    /// True if one of the addresses may be in memory of the kind.
    #[inline(always)]
    pub(crate) fn may_have_any(&self, [first, last]: [usize; 2]) -> bool {
        let noted = self.lowest.load(Ordering::Relaxed)..=self.highest.load(Ordering::Relaxed);
        noted.contains(&first) || noted.contains(&last)
    }
}
