//! The element types.

use gpuvec_expr::{self as expr, Type};

/// A type of array element.
pub trait Element: Copy + Send + Sync + PartialOrd + 'static {
    /// The element type in expressions.
    const ELEMENT: expr::Element;

    /// The type of the elements' values in expressions.
    const TYPE: Type = Self::ELEMENT.widened();

    /// The value as it is stored. Every NaN becomes the one quiet NaN, so that results have the same bits on every
    /// processor.
    fn canonical(self) -> Self;

    /// The value's bits, in the low end of a word, as kernels take them.
    fn bits(self) -> u64;

    /// The value of these bits.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! elements {
    ($($element:ty as $type:ident: $canonical:expr, $bits:expr, $from_bits:expr;)+) => {
        $(impl Element for $element {
            const ELEMENT: expr::Element = expr::Element::$type;

            #[inline(always)]
            fn canonical(self) -> Self {
                $canonical(self)
            }

            fn bits(self) -> u64 {
                $bits(self)
            }

            fn from_bits(bits: u64) -> Self {
                $from_bits(bits)
            }
        })+
    };
}

// The bits are chosen: of two floats that are NaN, LLVM may take either, and returned the NaN of a square root itself.
elements! {
    f32 as F32:
        |x: f32| f32::from_bits(if x.is_nan() { 0x7FC0 << 16 } else { x.to_bits() }),
        |x: f32| x.to_bits().into(),
        |bits| f32::from_bits(bits as u32);
    f64 as F64:
        |x: f64| f64::from_bits(if x.is_nan() { 0x7FF8 << 48 } else { x.to_bits() }),
        f64::to_bits,
        f64::from_bits;
    i32 as I32: |x| x, |x: i32| x.cast_unsigned().into(), |bits| (bits as u32).cast_signed();
    i64 as I64: |x| x, i64::cast_unsigned, u64::cast_signed;
    bool as Bool: |x| x, u64::from, |bits| bits != 0;
}
