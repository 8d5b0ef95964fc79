//! The floating-point formats, and their values as integers times powers of two.

/// An IEEE 754 binary format.
pub trait Float: Copy + Into<f64> + Send + Sync + 'static {
    /// The bits of an encoding.
    const BITS: u32;
    /// The bits of a significand, with the one that is not stored.
    const PRECISION: u32;
    /// The smallest positive value is 2^LEAST.
    const LEAST: i32;
    /// Every finite value is smaller than 2^TOP.
    const TOP: i32;
    /// The encoding of +Inf. Encodings of finite values lie below it, in the order of the values.
    const INFINITY: u64 = ((1 << (Self::BITS - Self::PRECISION)) - 1) << (Self::PRECISION - 1);
    /// The encoding of the quiet NaN, which every NaN result has.
    const NAN: u64 = Self::INFINITY | 1 << (Self::PRECISION - 2);

    /// The value's encoding, in the low end of a word.
    fn encoding(self) -> u64;

    /// The value of an encoding.
    fn from_encoding(encoding: u64) -> Self;

    /// The nearest value, as IEEE 754 rounds.
    fn nearest(x: f64) -> Self;
}

macro_rules! formats {
    ($($T:ident: $bits:literal, $precision:literal, $least:literal, $top:literal;)+) => {
        $(impl Float for $T {
            const BITS: u32 = $bits;
            const PRECISION: u32 = $precision;
            const LEAST: i32 = $least;
            const TOP: i32 = $top;

            #[inline(always)]
            fn encoding(self) -> u64 {
                self.to_bits().into()
            }

            #[inline(always)]
            fn from_encoding(encoding: u64) -> Self {
                Self::from_bits(encoding as _)
            }

            #[inline(always)]
            fn nearest(x: f64) -> Self {
                x as Self
            }
        })+
    };
}

formats! {
    f32: 32, 24, -149, 128;
    f64: 64, 53, -1074, 1024;
}

/// A float, or a product of two, without rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// magnitude · 2^exponent, or its negative.
    Finite {
        /// The sign.
        negative: bool,
        /// At most 53 bits of a float, 106 of a product.
        magnitude: u128,
        /// The exponent of the magnitude's lowest bit.
        exponent: i32,
    },
    /// An infinity.
    Infinite {
        /// The sign.
        negative: bool,
    },
    /// Not a number.
    Nan,
}

impl Value {
    /// The value of a float, from its bits: floating-point modes have no effect.
    #[inline]
    pub fn of<T: Float>(x: T) -> Self {
        let sign = 1 << (T::BITS - 1);
        let negative = x.encoding() & sign != 0;
        let magnitude = x.encoding() & (sign - 1);
        if magnitude >= T::INFINITY {
            return if magnitude == T::INFINITY { Self::Infinite { negative } } else { Self::Nan };
        }
        let implicit = 1 << (T::PRECISION - 1);
        let fraction = magnitude & (implicit - 1);
        match (magnitude >> (T::PRECISION - 1)) as i32 {
            0 => Self::Finite { negative, magnitude: fraction.into(), exponent: T::LEAST },
            biased => Self::Finite {
                negative,
                magnitude: (fraction | implicit).into(),
                exponent: T::LEAST + biased - 1,
            },
        }
    }

    /// The product of two floats' values; 0 · Inf is NaN.
    #[inline]
    pub fn times(self, other: Self) -> Self {
        match (self, other) {
            (
                Self::Finite { negative: s, magnitude: x, exponent: e },
                Self::Finite { negative: t, magnitude: y, exponent: f },
            ) => Self::Finite { negative: s != t, magnitude: x * y, exponent: e + f },
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Finite { magnitude: 0, .. }, _) | (_, Self::Finite { magnitude: 0, .. }) => {
                Self::Nan
            }
            (
                Self::Finite { negative: s, .. } | Self::Infinite { negative: s },
                Self::Finite { negative: t, .. } | Self::Infinite { negative: t },
            ) => Self::Infinite { negative: s != t },
        }
    }
}
