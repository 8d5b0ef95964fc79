//! Saves the caller's floating-point modes while the library computes, and restores them.
//!
//! A thread may run with subnormals flushed to zero (a library that is built with fast-math sets that mode), with
//! another rounding mode, or with exceptions that trap. Neither results nor the driver's own arithmetic may depend on
//! these modes.

use crate::arch::float_modes::FloatModes;

/// Restores the caller's modes and flags when it is dropped, even if `body` panics.
struct Restore(FloatModes);

impl Drop for Restore {
    fn drop(&mut self) {
        if FloatModes::get() != self.0 {
            self.0.set();
        }
    }
}

/// Runs `body` with IEEE-754's default modes. Sets them only if they differ, since that costs more than the rest of a
/// short call.
pub(crate) fn with_ieee<T>(body: impl FnOnce() -> T) -> T {
    let before = FloatModes::get();
    let _restore = Restore(before);
    if before.without_flags() != FloatModes::IEEE {
        set_ieee();
    }
    call(body)
}

/// Keeps the compiler from moving arithmetic out of `body`: it does not know that arithmetic depends on the modes.
#[inline(never)]
fn call<T>(body: impl FnOnce() -> T) -> T {
    body()
}

/// Sets IEEE-754's default modes for good in the calling thread, which is one of the library's own.
pub(crate) fn set_ieee() {
    FloatModes::IEEE.set();
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
        let before = FloatModes::get();
        FloatModes::FLUSH_AND_ROUND_UP.set();
        let flushed = half(f32::MIN_POSITIVE);
        let kept = with_ieee(|| half(f32::MIN_POSITIVE));
        let restored = FloatModes::get().without_flags();
        before.set();
        assert_eq!(flushed, 0.0);
        assert_eq!(kept, f32::MIN_POSITIVE / 2.0);
        assert_eq!(restored, FloatModes::FLUSH_AND_ROUND_UP);
    }

    #[test]
    fn flags_that_the_body_raises_do_not_stay() {
        let before = FloatModes::get();
        FloatModes::IEEE.set();
        let raised = with_ieee(|| {
            half(f32::from_bits(1));
            FloatModes::get()
        });
        let stayed = FloatModes::get();
        before.set();
        assert_ne!(raised, FloatModes::IEEE);
        assert_eq!(raised.without_flags(), FloatModes::IEEE);
        assert_eq!(stayed, FloatModes::IEEE);
    }
}
