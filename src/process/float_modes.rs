//! Saves the caller's floating-point modes while the library computes, and restores them.
//!
//! A thread may run with subnormals flushed to zero (libraries that were built with fast-math set
//! that mode), with another rounding mode, or with exceptions that trap. Neither results nor the
//! driver's own arithmetic may depend on these modes.

use std::arch::asm;

/// Round to nearest, no flush to zero, no traps (Intel SDM vol. 1, 10.2.3: the power-up value).
const IEEE: u32 = 0x1F80;

/// The exception flags, which MXCSR holds beside the modes.
const FLAGS: u32 = 0x3F;

/// Restores the caller's modes and flags, also when `body` panics.
struct Restore(u32);

impl Drop for Restore {
    fn drop(&mut self) {
        if store() != self.0 {
            load(self.0);
        }
    }
}

/// Runs `body` with IEEE-754's default modes. Skips the load if MXCSR already matches: a load costs more
/// than the rest of a short call.
pub(crate) fn with_ieee<T>(body: impl FnOnce() -> T) -> T {
    let before = store();
    let _restore = Restore(before);
    if before & !FLAGS != IEEE {
        set_ieee();
    }
    call(body)
}

/// Keeps the arithmetic between the two loads: the compiler does not know that it depends on them.
#[inline(never)]
fn call<T>(body: impl FnOnce() -> T) -> T {
    body()
}

/// Sets IEEE-754's default modes for the rest of the calling thread, which is the library's own.
pub(crate) fn set_ieee() {
    load(IEEE);
}

fn store() -> u32 {
    // Miri has the default modes alone.
    if cfg!(miri) {
        return IEEE;
    }
    let mut mxcsr = 0u32;
    // SAFETY: stmxcsr writes four bytes to a local of that size.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
    mxcsr
}

fn load(mxcsr: u32) {
    // SAFETY: ldmxcsr reads four bytes from a local; the value is IEEE or one that stmxcsr gave,
    // and so has no reserved bit. (It changes MXCSR's exception flags, which `preserves_flags` would
    // deny.)
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mxcsr, options(nostack)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[inline(never)]
    fn half(x: f32) -> f32 {
        black_box(x) * black_box(0.5)
    }

    #[test]
    fn modes_are_put_aside_and_restored() {
        const FLUSH_TO_ZERO: u32 = 1 << 15;
        const ROUND_UP: u32 = 2 << 13;
        let before = store();
        load(IEEE | FLUSH_TO_ZERO | ROUND_UP);
        let flushed = half(f32::MIN_POSITIVE);
        let kept = with_ieee(|| half(f32::MIN_POSITIVE));
        let restored = store() & !FLAGS;
        load(before);
        assert_eq!(flushed, 0.0);
        assert_eq!(kept, f32::MIN_POSITIVE / 2.0);
        assert_eq!(restored, IEEE | FLUSH_TO_ZERO | ROUND_UP);
    }

    #[test]
    fn flags_that_the_body_raises_do_not_stay() {
        let before = store();
        load(IEEE);
        let raised = with_ieee(|| {
            half(f32::from_bits(1));
            store() & FLAGS
        });
        let stayed = store();
        load(before);
        assert_ne!(raised, 0);
        assert_eq!(stayed, IEEE);
    }
}
