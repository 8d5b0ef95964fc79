//! The floating-point modes and exception flags of a thread: the registers FPCR and FPSR (Arm Architecture Reference
//! Manual, C5.2).

use std::arch::asm;

/// The modes and flags of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatModes {
    control: u64,
    status: u64,
}

impl FloatModes {
    /// Round to nearest, no flush to zero, no traps, and no flag: the value that a program starts with.
    pub(crate) const IEEE: FloatModes = FloatModes { control: 0, status: 0 };

    /// Returns the calling thread's modes and flags.
    #[inline(always)]
    pub(crate) fn get() -> Self {
        // Miri supports only the default modes.
        if cfg!(miri) {
            return Self::IEEE;
        }
        let (control, status);
        // SAFETY: any code may read these two registers.
        unsafe {
            asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) status, options(nomem, nostack));
        }
        FloatModes { control, status }
    }

    /// Sets the calling thread's modes and flags.
    #[inline(always)]
    pub(crate) fn set(self) {
        let FloatModes { control, status } = self;
        // SAFETY: the values were read from these registers, or are zeros.
        unsafe {
            asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) control, in(reg) status, options(nostack))
        };
    }

    /// The modes with all flags cleared.
    pub(crate) const fn without_flags(self) -> Self {
        FloatModes { status: 0, ..self }
    }
}

#[cfg(test)]
impl FloatModes {
    /// Flush subnormal results to zero, and round other results up.
    pub(crate) const FLUSH_AND_ROUND_UP: FloatModes =
        FloatModes { control: 1 << 24 | 1 << 22, status: 0 };

    /// True if a result was subnormal. (Without flush to zero, operands raise no flag.)
    pub(crate) const fn met_a_subnormal(self) -> bool {
        const UNDERFLOW: u64 = 1 << 3;
        self.status & UNDERFLOW != 0
    }
}
