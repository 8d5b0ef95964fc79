//! The floating-point modes and exception flags of a thread: the register MXCSR (Intel SDM vol. 1, 10.2.3).

use std::arch::asm;

/// The modes and flags of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatModes(u32);

impl FloatModes {
    /// Round to nearest, no flush to zero, no traps, and no flag: the power-up value.
    pub(crate) const IEEE: FloatModes = FloatModes(0x1F80);
    const FLAGS: u32 = 0x3F;

    /// Returns the calling thread's modes and flags.
    #[inline(always)]
    pub(crate) fn get() -> Self {
        // Miri supports only the default modes.
        if cfg!(miri) {
            return Self::IEEE;
        }
        let mut mxcsr = 0u32;
        // SAFETY: stmxcsr writes four bytes to a local of that size.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
        FloatModes(mxcsr)
    }

    /// Sets the calling thread's modes and flags.
    #[inline(always)]
    pub(crate) fn set(self) {
        // SAFETY: ldmxcsr reads four bytes from a local. They are IEEE or were read by stmxcsr, and so have no reserved
        // bit. (`preserves_flags` would be wrong, since ldmxcsr changes the exception flags.)
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const self.0, options(nostack)) };
    }

    /// The modes with all flags cleared.
    pub(crate) const fn without_flags(self) -> Self {
        FloatModes(self.0 & !Self::FLAGS)
    }
}

#[cfg(test)]
impl FloatModes {
    /// Flush subnormal results to zero, and round other results up.
    pub(crate) const FLUSH_AND_ROUND_UP: FloatModes = FloatModes(Self::IEEE.0 | 1 << 15 | 2 << 13);

    /// True if an operand or a result was subnormal.
    pub(crate) const fn met_a_subnormal(self) -> bool {
        const OPERAND: u32 = 1 << 1;
        const UNDERFLOW: u32 = 1 << 4;
        self.0 & (OPERAND | UNDERFLOW) != 0
    }
}
