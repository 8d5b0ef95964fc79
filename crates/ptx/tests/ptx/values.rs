//! Values of every type on which operations go wrong.

use gpuvec_expr::Element;

/// A value, as bits in the low end.
pub(crate) type Bits = u64;

const F32: [u32; 40] = [
    0,
    0x8000_0000,
    1,
    0x8000_0001,
    0x007F_FFFF,
    0x0080_0000,
    0x8080_0000,
    0x3F80_0000,
    0xBF80_0000,
    0x3F7F_FFFF,
    0x3F80_0001,
    0x3F00_0000,
    0xBF00_0000,
    0x3EFF_FFFF,
    0x3FC0_0000,
    0xBFC0_0000,
    0x4020_0000,
    0x4B00_0000,
    0x4B7F_FFFF,
    0x4B80_0000,
    0xCB80_0001,
    0x4EFF_FFFF,
    0x4F00_0000,
    0xCF00_0000,
    0xCF00_0001,
    0x4F80_0000,
    0x5EFF_FFFF,
    0x5F00_0000,
    0xDF00_0000,
    0x7F7F_FFFF,
    0xFF7F_FFFF,
    0x7F80_0000,
    0xFF80_0000,
    0x7FC0_0000,
    0xFFC0_0000,
    0x7F80_0001,
    0xFFC1_2345,
    0x4049_0FDB,
    0x3EAA_AAAB,
    0xC2C8_0000,
];

const F64: [u64; 34] = [
    0,
    1 << 63,
    1,
    (1 << 63) | 1,
    0x000F_FFFF_FFFF_FFFF,
    0x0010_0000_0000_0000,
    0x3FF0_0000_0000_0000,
    0xBFF0_0000_0000_0000,
    0x3FEF_FFFF_FFFF_FFFF,
    0x3FF0_0000_0000_0001,
    0x3FE0_0000_0000_0000,
    0xBFE0_0000_0000_0000,
    0x3FF8_0000_0000_0000,
    0xBFF8_0000_0000_0000,
    0x4004_0000_0000_0000,
    0x4330_0000_0000_0000,
    0x433F_FFFF_FFFF_FFFF,
    0x41DF_FFFF_FFC0_0000,
    0x41E0_0000_0000_0000,
    0xC1E0_0000_0000_0000,
    0xC1E0_0000_0020_0000,
    0x43E0_0000_0000_0000,
    0xC3E0_0000_0000_0000,
    0x43DF_FFFF_FFFF_FFFF,
    0x7FEF_FFFF_FFFF_FFFF,
    0xFFEF_FFFF_FFFF_FFFF,
    0x7FF0_0000_0000_0000,
    0xFFF0_0000_0000_0000,
    0x7FF8_0000_0000_0000,
    0xFFF8_0000_0000_0000,
    0x7FF0_0000_0000_0001,
    0xFFFC_1234_5678_9ABC,
    0x4009_21FB_5444_2D18,
    0x47EF_FFFF_F000_0000,
];

/// Zeros, subnormals, the least normal, ones, the largest, infinities, NaNs.
const F16: [u16; 24] = [
    0x0000, 0x8000, 0x0001, 0x8001, 0x0002, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x0401, 0x3800, 0x3BFF,
    0x3C00, 0xBC00, 0x3C01, 0x3E00, 0x4248, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01,
];

/// The special values of an element type.
pub(crate) fn special(element: Element) -> Vec<Bits> {
    let integers = |bits: u32| -> Vec<Bits> {
        let (mask, half) = (u64::MAX >> (64 - bits), 1_u64 << (bits - 1));
        let near = [0, 1, 2, 3, 7, 10, 100, half - 1, half - 2, half, half + 1, half / 3];
        let negative = near.iter().map(|x: &u64| x.wrapping_neg() & mask);
        near.into_iter().chain(negative).collect()
    };
    match element {
        Element::Bool => vec![0, 1],
        Element::U8 | Element::I8 => integers(8),
        Element::U16 | Element::I16 => integers(16),
        Element::U32 | Element::I32 => integers(32),
        Element::I64 | Element::U64 => integers(64),
        Element::F16 => F16.map(u64::from).to_vec(),
        Element::Bf16 => F32.map(|bits| u64::from(bits >> 16)).to_vec(),
        Element::F32 => F32.map(u64::from).to_vec(),
        Element::F64 => F64.to_vec(),
    }
}

/// Numbers that look random, the same in every run (xorshift64*).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 32) as usize % limit
    }

    /// A value of an element type: a special one, any bits, or a small number.
    pub(crate) fn value(&mut self, element: Element) -> Bits {
        let special = special(element);
        let small = self.below(2000) as f64 / 16.0 - 60.0;
        match (self.below(3), element) {
            (0, _) | (_, Element::Bool) => special[self.below(special.len())],
            (1, Element::F32) => (small as f32).to_bits().into(),
            (1, Element::F64) => small.to_bits(),
            (1, _) => small as i64 as u64,
            _ => self.next(),
        }
    }

    pub(crate) fn values(&mut self, element: Element, n: usize) -> Vec<Bits> {
        (0..n).map(|_| self.value(element)).collect()
    }
}
