//! Completion flags: words of pinned memory that the warps of a kernel set once all their writes are visible.
//!
//! A short call polls them instead of synchronizing its stream, because the device needs 2 µs to end a kernel after its
//! last warp. A call of a thousand elements takes 12 µs.

use crate::policy::gpu;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Flags for `gpu::FLAGGED_WARPS` warps.
#[derive(Clone, Copy)]
pub(super) struct Flags(NonNull<AtomicU32>);

impl Flags {
    /// The size of all flags.
    pub(super) const BYTES: usize = gpu::FLAGGED_WARPS as usize * size_of::<AtomicU32>();

    /// # Safety
    /// At the address must be [`Flags::BYTES`] bytes of pinned memory, aligned as words. Nothing else may use them as
    /// long as the flags are used.
    pub(super) unsafe fn at(address: NonNull<u8>) -> Self {
        Flags(address.cast())
    }

    /// The flags' address on every device.
    pub(super) fn address(self) -> u64 {
        self.0.addr().get() as u64
    }

    /// Clears the flags of `warps` warps before their kernel is queued. Returns `warps`.
    pub(super) fn clear(self, warps: u32) -> u32 {
        self.of(warps).iter().for_each(|flag| flag.store(0, Ordering::Relaxed));
        warps
    }

    /// Polls the flags of `warps` warps. Returns true once all are set, which makes the warps' results visible, and
    /// false after a timeout.
    pub(super) fn are_set(self, warps: u32) -> bool {
        let begin = Instant::now();
        self.of(warps).iter().all(|flag| {
            while flag.load(Ordering::Acquire) == 0 {
                if begin.elapsed() > gpu::FLAG_POLLING {
                    return false;
                }
            }
            true
        })
    }

    fn of(&self, warps: u32) -> &[AtomicU32] {
        // SAFETY: `at` was promised the memory, and devices write whole words there.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), warps as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Runs `body` with flags in pageable memory.
    fn with_flags(body: impl FnOnce(Flags)) {
        let words: Vec<AtomicU32> = (0..gpu::FLAGGED_WARPS).map(|_| AtomicU32::new(7)).collect();
        // SAFETY: the words are there for as long as `body` runs.
        body(unsafe { Flags::at(NonNull::from(&words[0]).cast()) });
    }

    #[test]
    fn the_writes_of_warps_are_visible_when_their_flags_are_set() {
        with_flags(|flags| {
            for warps in [1, 2, gpu::FLAGGED_WARPS] {
                let (words, written) = (flags.of(warps), AtomicU32::new(0));
                flags.clear(warps);
                thread::scope(|scope| {
                    scope.spawn(|| {
                        for flag in words {
                            written.fetch_add(1, Ordering::Relaxed);
                            flag.store(1, Ordering::Release);
                        }
                    });
                    while !flags.are_set(warps) {}
                    assert_eq!(written.load(Ordering::Relaxed), warps);
                });
            }
        });
    }

    #[test]
    fn polling_ends_at_a_timeout() {
        with_flags(|flags| {
            flags.clear(3);
            flags.of(3)[0].store(1, Ordering::Release);
            flags.of(3)[2].store(1, Ordering::Release);
            assert!(!flags.are_set(3));
            assert!(flags.are_set(1));
        });
    }
}
