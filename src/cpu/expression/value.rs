//! The values that loops write, and the search for NaNs among them.

use gpuvec_ops::Element;
use std::ops::BitOrAssign;

/// A value that a loop writes.
pub(super) trait Value: Copy {
    /// An integer. For types with NaNs, it is as wide as the value.
    type Mask: Copy + Default + PartialEq + BitOrAssign;
    const HAS_NANS: bool;

    /// All ones if one of two values is a NaN, else zero.
    fn nan_mask(self, other: Self) -> Self::Mask;

    /// The value, with the one encoding if it is a NaN.
    fn canonical(self) -> Self;
}

macro_rules! floats {
    ($($T:ident $Mask:ident;)+) => {
        $(impl Value for $T {
            type Mask = $Mask;
            const HAS_NANS: bool = true;

            /// If two values have no order, one of them is a NaN.
            #[inline(always)]
            fn nan_mask(self, other: Self) -> $Mask {
                if self.partial_cmp(&other).is_none() { $Mask::MAX } else { 0 }
            }

            #[inline(always)]
            fn canonical(self) -> Self {
                Element::canonical(self)
            }
        })+
    };
}

floats! { f32 u32; f64 u64; }

macro_rules! without_nans {
    ($($T:ident)+) => {
        $(impl Value for $T {
            type Mask = u8;
            const HAS_NANS: bool = false;

            #[inline(always)]
            fn nan_mask(self, _: Self) -> u8 {
                0
            }

            #[inline(always)]
            fn canonical(self) -> Self {
                self
            }
        })+
    };
}

without_nans!(bool u8 u16 i32 i64 u64);

/// Masks of the NaNs in chunks. The compiler keeps them in vector registers.
pub(super) struct NanMasks<T: Value, const CHUNK: usize>([T::Mask; CHUNK]);

impl<T: Value, const CHUNK: usize> Default for NanMasks<T, CHUNK> {
    #[inline(always)]
    fn default() -> Self {
        Self([T::Mask::default(); CHUNK])
    }
}

impl<T: Value, const CHUNK: usize> NanMasks<T, CHUNK> {
    /// Adds the masks of a chunk's NaNs. One comparison tests two values.
    #[inline(always)]
    pub(super) fn add(&mut self, values: &[T; CHUNK]) {
        let half = CHUNK / 2;
        for i in 0..CHUNK - half {
            self.0[i] |= values[i].nan_mask(values[half + i]);
        }
    }

    /// True if any chunk had a NaN.
    #[inline(always)]
    pub(super) fn is_any(&self) -> bool {
        self.0.iter().fold(false, |any, &mask| any | (mask != T::Mask::default()))
    }
}
