//! Completion flags: words of pinned memory, in which the warps of a kernel say that all is there
//! that they have written.
//!
//! A short call looks at them instead of waiting for its stream: what the device does to end a kernel,
//! after its last warp, takes longer than the kernel of a thousand elements (2 µs of 12).

use crate::tuning;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// A flag for each of [`tuning::FLAGGED_WARPS`] warps.
#[derive(Clone, Copy)]
pub(crate) struct Flags(NonNull<AtomicU32>);

impl Flags {
    /// What they take.
    pub(crate) const BYTES: usize = tuning::FLAGGED_WARPS as usize * size_of::<AtomicU32>();

    /// # Safety
    /// So many bytes of pinned memory must be there, aligned as a word, for as long as the flags are
    /// used, and for them alone.
    pub(crate) unsafe fn at(address: NonNull<u8>) -> Self {
        Flags(address.cast())
    }

    /// Where every device finds them.
    pub(crate) fn address(self) -> u64 {
        self.0.addr().get() as u64
    }

    /// Clears those of so many warps, whose kernel is not queued yet.
    pub(crate) fn clear(self, warps: u32) {
        self.of(warps).iter().for_each(|flag| flag.store(0, Ordering::Relaxed));
    }

    /// Whether so many warps are done, soon enough: what they have written is there then.
    pub(crate) fn are_set(self, warps: u32) -> bool {
        let begin = Instant::now();
        self.of(warps).iter().all(|flag| {
            while flag.load(Ordering::Acquire) == 0 {
                if begin.elapsed() > tuning::FLAGS_LOOKED_AT {
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

    /// Flags in memory like any other.
    fn with_flags(body: impl FnOnce(Flags)) {
        let words: Vec<AtomicU32> = (0..tuning::FLAGGED_WARPS).map(|_| AtomicU32::new(7)).collect();
        // SAFETY: so many words, for as long as `body` runs.
        body(unsafe { Flags::at(NonNull::from(&words[0]).cast()) });
    }

    #[test]
    fn what_warps_wrote_is_there_when_their_flags_are_set() {
        with_flags(|flags| {
            for warps in [1, 2, tuning::FLAGGED_WARPS] {
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
    fn a_warp_that_is_not_done_is_given_up_after_a_while() {
        with_flags(|flags| {
            flags.clear(3);
            flags.of(3)[0].store(1, Ordering::Release);
            flags.of(3)[2].store(1, Ordering::Release);
            assert!(!flags.are_set(3));
            assert!(flags.are_set(1));
        });
    }
}
