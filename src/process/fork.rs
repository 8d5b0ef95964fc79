//! Forks of the process: the number of this process, and short sections of code that no fork interrupts.
//!
//! The child of a fork has one thread, and a copy of every lock: a lock that another thread held stays locked forever.
//! State that a child may need is therefore changed only under the fork lock. Threads share this lock, and a thread
//! that forks takes it exclusively before the fork and releases it in both processes afterwards. No code that may fork
//! itself, such as opening the driver, may run under it.

use super::thread;
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

static LOCK: RwLock<()> = RwLock::new(());

/// Runs `work` with the fork lock held: no thread of the process forks meanwhile. Calls must not be nested.
pub(crate) fn with_lock<T>(work: impl FnOnce() -> T) -> T {
    thread::with(|thread| {
        // Raised before the lock's own code runs, which a signal may interrupt.
        let _held = thread.holds_fork_lock.raise();
        let _shared = LOCK.read().unwrap_or_else(PoisonError::into_inner);
        work()
    })
}

/// A value that threads share. The fork lock is held while it is used, so a forked child never finds it half changed.
pub(crate) struct Shared<T>(RwLock<T>);

impl<T> Shared<T> {
    pub(crate) const fn new(value: T) -> Self {
        Shared(RwLock::new(value))
    }

    pub(crate) fn read<R>(&self, work: impl FnOnce(&T) -> R) -> R {
        with_lock(|| work(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }

    pub(crate) fn change<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        with_lock(|| work(&mut self.0.write().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// True in a child that was forked without the lock, and in its children: threads that they do not have may hold their
/// locks.
static FORKED_WITHOUT_LOCK: AtomicBool = AtomicBool::new(false);

/// True if a signal handler that interrupted this library forked this process or an ancestor.
pub(crate) fn was_without_lock() -> bool {
    FORKED_WITHOUT_LOCK.load(Ordering::Relaxed)
}

/// The only function that runs when the library is loaded: handlers that are registered later would miss a fork that
/// has begun. (Not in Miri, which has no forks.)
#[used]
#[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
static AT_LOAD: extern "C" fn() = register_handlers;

extern "C" fn register_handlers() {
    WIPED.store(page_wiped_on_fork(), Ordering::Release);
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
}

/// The number of this process, in memory that the kernel zeroes in a forked child. NULL if the kernel cannot do that.
static WIPED: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// The largest number of this process and its ancestors.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// Returns a number that differs from the numbers of all ancestors. Process ids may not: a child in another namespace
/// may have its parent's id.
pub(crate) fn process() -> u64 {
    // SAFETY: the pointer is NULL, or points to a page that is mapped for ever, aligned, and zero at first.
    let Some(wiped) = (unsafe { WIPED.load(Ordering::Acquire).as_ref() }) else {
        return FORKS.load(Ordering::Relaxed) << 32 | u64::from(std::process::id());
    };
    match wiped.load(Ordering::Relaxed) {
        0 => {
            let number = 1 + NUMBERS.fetch_add(1, Ordering::Relaxed);
            // If several threads come here at the same time, the first decides.
            match wiped.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => number,
                Err(decided) => decided,
            }
        }
        number => number,
    }
}

/// The number of forks from the first ancestor to this process. Without a page that the kernel zeroes, this number and
/// the process id tell processes apart, except a child that a bare system call made.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Maps a page that the kernel zeroes in a forked child. Returns NULL if the kernel cannot do that (before Linux 4.14).
fn page_wiped_on_fork() -> *mut AtomicU64 {
    const ANYWHERE: *mut libc::c_void = std::ptr::null_mut();
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the mapping is new, and nothing else uses it.
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

/// The bytes of the mapping, which the kernel rounds up to a page.
const PAGE: usize = 4096;

/// The lock, while a thread forks.
struct Held(UnsafeCell<Option<RwLockWriteGuard<'static, ()>>>);

// SAFETY: only the thread that holds the lock touches the cell.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Acquires the lock, unless a signal handler forks in a thread that already holds it: the wait would never end.
extern "C" fn before() {
    let can_lock = thread::with(|thread| {
        let can_lock = !thread.holds_fork_lock.is_raised() && !thread.is_forking.is_raised();
        if can_lock {
            thread.is_forking.set(true);
        } else {
            thread.unlocked_forks.fetch_add(1, Ordering::Relaxed);
        }
        can_lock
    });
    if can_lock {
        let guard = LOCK.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: this thread holds the lock.
        unsafe { *HELD.0.get() = Some(guard) };
    }
}

extern "C" fn after_in_parent() {
    after();
}

extern "C" fn after_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    if !after() {
        FORKED_WITHOUT_LOCK.store(true, Ordering::Relaxed);
    }
}

/// Releases the lock, if [`before`] took it. Returns true in this case.
fn after() -> bool {
    thread::with(|thread| {
        if thread.unlocked_forks.load(Ordering::Relaxed) > 0 {
            thread.unlocked_forks.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        // SAFETY: this thread, or the thread that it is a copy of, took the lock in `before`.
        drop(unsafe { (*HELD.0.get()).take() });
        thread.is_forking.set(false);
        true
    })
}

/// A value that each process makes when it first needs it. A forked child inherits its parent's value and makes its
/// own. Values are never freed or replaced, so that no lock is needed, which a fork could leave locked forever.
pub(crate) struct PerProcess<T: 'static>(AtomicPtr<Owned<T>>);

struct Owned<T: 'static> {
    process: u64,
    value: T,
    /// The parent's value, never read. Leak checkers would report a value to which no pointer points.
    _inherited: Option<&'static Owned<T>>,
}

impl<T: Send + Sync> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        PerProcess(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Returns this process's value, if it exists.
    pub(crate) fn get(&self) -> Option<&'static T> {
        self.newest().filter(|owned| owned.process == process()).map(|owned| &owned.value)
    }

    /// Returns the value of the nearest ancestor that has one, unless this process has its own.
    pub(crate) fn inherited(&self) -> Option<&'static T> {
        self.newest().filter(|owned| owned.process != process()).map(|owned| &owned.value)
    }

    /// Returns this process's value, made now if necessary. If several threads make it at the same time, one value is
    /// used and the others are dropped.
    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &'static T {
        if let Some(value) = self.get() {
            return value;
        }
        let inherited = self.newest();
        let owned = Owned { process: process(), value: make(), _inherited: inherited };
        let made = NonNull::from(Box::leak(Box::new(owned)));
        let before =
            inherited.map_or(std::ptr::null_mut(), |owned| std::ptr::from_ref(owned).cast_mut());
        match self.0.compare_exchange(before, made.as_ptr(), Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: leaked above, and never freed from here on.
            Ok(_) => unsafe { &made.as_ref().value },
            Err(winner) => {
                // SAFETY: leaked above, and never seen by another thread; another thread of this process leaked the
                // winner, since a child has one thread when it begins.
                unsafe {
                    drop(Box::from_raw(made.as_ptr()));
                    &(*winner).value
                }
            }
        }
    }

    fn newest(&self) -> Option<&'static Owned<T>> {
        // SAFETY: the pointer is null or was leaked by `get_or_init`, and is never freed.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_number_and_its_child_another() {
        let parent = process();
        assert_eq!(parent, process());
        // SAFETY: the child only compares numbers and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_new = process() != parent && process() == process();
            // SAFETY: ends this process.
            unsafe { libc::_exit(i32::from(!is_new)) };
        }
        let mut status = -1;
        // SAFETY: the child is this process's own.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        assert_eq!(parent, process());
    }

    #[test]
    fn a_fork_with_the_lock_held_does_not_wait_and_leaves_the_child_marked() {
        let status = with_lock(|| {
            // SAFETY: as in a signal handler, the child only looks at a flag and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: ends this process.
                unsafe { libc::_exit(i32::from(!was_without_lock())) };
            }
            let mut status = -1;
            // SAFETY: the child is this process's own.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            status
        });
        assert_eq!(status, 0);
        assert!(!was_without_lock() && !thread::with(|thread| thread.is_forking.is_raised()));
        assert_eq!(with_lock(|| 1), 1);
    }

    #[test]
    fn a_value_is_made_once_by_a_process() {
        static VALUE: PerProcess<u32> = PerProcess::new();
        assert_eq!(VALUE.get(), None);
        assert_eq!(*VALUE.get_or_init(|| 1), 1);
        assert_eq!(*VALUE.get_or_init(|| 2), 1);
        assert_eq!((VALUE.get(), VALUE.inherited()), (Some(&1), None));
    }
}
