//! The element types and what is particular to each.

/// A type of array element.
pub trait Element: Copy + Send + Sync + PartialEq + 'static {
    /// The value as it is stored: every NaN becomes the one quiet NaN, so that results have the
    /// same bits on every processor.
    fn canonical(self) -> Self;
}

impl Element for f32 {
    #[inline(always)]
    fn canonical(self) -> Self {
        if self.is_nan() { f32::from_bits(0x7FC0_0000) } else { self }
    }
}

impl Element for i32 {
    #[inline(always)]
    fn canonical(self) -> Self {
        self
    }
}
