//! Short pieces of work that no fork of the process comes in between.
//!
//! A fork's child has one thread, and every lock as it was: one that another thread held stays
//! locked for ever. What a child may need is therefore done under one lock, which many threads
//! share and which the forking thread takes for itself before a fork and gives back after it, on
//! both sides. Nothing that could fork itself, as opening the driver does, may run under it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

static LOCK: RwLock<()> = RwLock::new(());

/// Runs `work` while no thread of the process forks. Not to be nested.
pub(crate) fn unbroken<T>(work: impl FnOnce() -> T) -> T {
    let _shared = LOCK.read().unwrap_or_else(PoisonError::into_inner);
    work()
}

/// All that happens when the library is loaded: later, a fork that has already begun would pass
/// the handlers by.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = register_handlers;

extern "C" fn register_handlers() {
    KEPT.store(page_that_children_find_empty(), Ordering::Release);
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
}

/// Where the number of the process is kept, 0 before it is asked for; NULL if it is not kept.
static KEPT: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// The number of the process, without a system call but for the first time.
pub(crate) fn process() -> u32 {
    // SAFETY: NULL, or a page that is mapped for ever, aligned, and zero at first.
    let Some(kept) = (unsafe { KEPT.load(Ordering::Acquire).as_ref() }) else {
        return std::process::id();
    };
    match kept.load(Ordering::Relaxed) {
        0 => {
            let process = std::process::id();
            kept.store(process, Ordering::Relaxed);
            process
        }
        process => process,
    }
}

/// NULL where the kernel cannot do it (before Linux 4.14).
fn page_that_children_find_empty() -> *mut AtomicU32 {
    const ANYWHERE: *mut libc::c_void = std::ptr::null_mut();
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, of which nobody else knows; it is advised, and unmapped if that fails.
    unsafe {
        let page = libc::mmap(ANYWHERE, PAGE, access, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return std::ptr::null_mut();
        }
        if libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, PAGE);
            return std::ptr::null_mut();
        }
        page.cast()
    }
}

/// What the kernel rounds up to a page of its own.
const PAGE: usize = 4096;

/// The lock, while a thread forks.
struct Held(UnsafeCell<Option<RwLockWriteGuard<'static, ()>>>);

// SAFETY: only the thread that holds the lock touches the cell.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

extern "C" fn before() {
    let guard = LOCK.write().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: this thread holds the lock.
    unsafe { *HELD.0.get() = Some(guard) };
}

extern "C" fn after() {
    // SAFETY: as in `process`.
    if let Some(kept) = unsafe { KEPT.load(Ordering::Acquire).as_ref() } {
        kept.store(0, Ordering::Relaxed);
    }
    // SAFETY: this thread, or the one that it is a copy of, took the lock in `before`.
    drop(unsafe { (*HELD.0.get()).take() });
}
