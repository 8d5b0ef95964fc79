//! The state of the calling thread, which signal handlers that interrupt the thread can read.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence};

/// The state of one thread. Only that thread and its signal handlers use it.
pub(crate) struct Thread {
    /// Raised while the thread is inside a call of the library.
    pub(crate) is_calling: Flag,
    /// Raised while the thread holds the fork lock, or is about to take or release it.
    pub(crate) holds_fork_lock: Flag,
    /// Raised while the thread forks, with the fork lock held exclusively.
    pub(crate) is_forking: Flag,
    /// The number of nested forks for which the thread could not take the fork lock.
    pub(crate) unlocked_forks: AtomicU32,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            is_calling: Flag::lowered(),
            holds_fork_lock: Flag::lowered(),
            is_forking: Flag::lowered(),
            unlocked_forks: AtomicU32::new(0),
        }
    };
}

/// Runs `work` with the calling thread's state.
pub(crate) fn with<T>(work: impl FnOnce(&Thread) -> T) -> T {
    THREAD.with(work)
}

/// A flag. The thread's signal handlers see its changes in the program's order.
pub(crate) struct Flag(AtomicBool);

impl Flag {
    const fn lowered() -> Self {
        Flag(AtomicBool::new(false))
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, is_raised: bool) {
        compiler_fence(Ordering::SeqCst);
        self.0.store(is_raised, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Raises the flag until the result is dropped.
    pub(crate) fn raise(&self) -> Raised<'_> {
        self.set(true);
        Raised(self)
    }
}

/// A raised flag, which is lowered when this is dropped.
pub(crate) struct Raised<'a>(&'a Flag);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
