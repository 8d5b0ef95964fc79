//! The process that uses the driver: initialised or not, or a forked child of one that did.
//!
//! A page of memory that the kernel clears in every child identifies a child. Its process id
//! cannot, since it equals the parent's if both are the first process of their namespaces.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

const PAGE: usize = 4096;

/// Set once cuInit has succeeded in this process, or in one from which it was forked.
static IS_INITIALIZED: AtomicBool = AtomicBool::new(false);

/// True if this process was forked from one that had initialized the driver, whose state is
/// invalid here. A child that was forked earlier may use the driver like any other process.
pub(crate) fn is_forked_child() -> bool {
    is_initialized() && initialized_here().load(Ordering::Relaxed) == 0
}

/// Notes that cuInit succeeded.
pub(crate) fn set_initialized() {
    initialized_here().store(1, Ordering::Relaxed);
    IS_INITIALIZED.store(true, Ordering::Release);
}

/// True if cuInit succeeded.
pub(crate) fn is_initialized() -> bool {
    IS_INITIALIZED.load(Ordering::Acquire)
}

/// Maps the page when the driver is loaded: a fork may come in the middle of the first call.
///
/// With `FAKE_DRIVER_LOAD_GATE`, the path of a FIFO, loading then waits until another process or
/// thread has opened and closed the other end.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    MARK.store(page_that_children_find_empty().cast(), Ordering::Release);
    if let Some(gate) = std::env::var_os("FAKE_DRIVER_LOAD_GATE") {
        drop(std::fs::read(gate));
    }
}

static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// The mark of a process that initialised the driver: 0 in every new child.
fn initialized_here() -> &'static AtomicU32 {
    // SAFETY: `at_load` ran; its page is mapped for ever, aligned, and zero at first.
    unsafe { &*MARK.load(Ordering::Acquire) }
}

fn page_that_children_find_empty() -> *mut c_void {
    const ANYWHERE: *mut c_void = std::ptr::null_mut();
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the mapping is new, so that neither it nor the advice touches other memory.
    unsafe {
        let page = libc::mmap(ANYWHERE, PAGE, access, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED, "no page for the mark of this process");
        let advised = libc::madvise(page, PAGE, libc::MADV_WIPEONFORK);
        assert_eq!(advised, 0, "the fake driver needs MADV_WIPEONFORK (Linux 4.14)");
        page
    }
}
