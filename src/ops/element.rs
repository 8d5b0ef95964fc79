//! The element types and what is particular to each.

/// A type of array element.
pub trait Element: Copy + Send + Sync + PartialOrd + 'static {
    /// The type's name in the names of functions and kernels.
    const NAME: &'static str;

    /// The value as it is stored: every NaN becomes the one quiet NaN, so that results have the
    /// same bits on every processor.
    fn canonical(self) -> Self;

    /// The value's bits, in the low end of a word: as a kernel takes it.
    fn bits(self) -> u64;

    /// The value of these bits.
    fn from_bits(bits: u64) -> Self;
}

impl Element for f32 {
    const NAME: &'static str = "f32";

    #[inline(always)]
    fn canonical(self) -> Self {
        if self.is_nan() { f32::from_bits(0x7FC0_0000) } else { self }
    }

    fn bits(self) -> u64 {
        self.to_bits().into()
    }

    fn from_bits(bits: u64) -> Self {
        f32::from_bits(bits as u32)
    }
}

impl Element for f64 {
    const NAME: &'static str = "f64";

    #[inline(always)]
    fn canonical(self) -> Self {
        if self.is_nan() { f64::from_bits(0x7FF8_0000_0000_0000) } else { self }
    }

    fn bits(self) -> u64 {
        self.to_bits()
    }

    fn from_bits(bits: u64) -> Self {
        f64::from_bits(bits)
    }
}

impl Element for i32 {
    const NAME: &'static str = "i32";

    #[inline(always)]
    fn canonical(self) -> Self {
        self
    }

    fn bits(self) -> u64 {
        self.cast_unsigned().into()
    }

    fn from_bits(bits: u64) -> Self {
        (bits as u32).cast_signed()
    }
}

impl Element for i64 {
    const NAME: &'static str = "i64";

    #[inline(always)]
    fn canonical(self) -> Self {
        self
    }

    fn bits(self) -> u64 {
        self.cast_unsigned()
    }

    fn from_bits(bits: u64) -> Self {
        bits.cast_signed()
    }
}
