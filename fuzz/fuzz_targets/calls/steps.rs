//! What the fuzzer chooses: steps whose arguments are often right, and wrong in every way.

use crate::memory::Memory;
use libfuzzer_sys::arbitrary::{self, Arbitrary};

#[derive(Arbitrary, Debug)]
pub struct Program {
    pub with_large_memory: bool,
    pub steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
pub enum Step {
    Call {
        operation: Operation,
        a: Pointer,
        b: Pointer,
        out: Pointer,
        n: Length,
    },
    /// `Memory::fill`.
    Fill {
        region: u8,
        seed: u32,
        mask: u32,
        base: u32,
    },
    Place(i8),
    Alloc(Bytes),
    Free(Freed),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Operation {
    VectorAdd,
    AddArrays,
    DotProduct,
}

#[derive(Arbitrary, Debug)]
pub enum Pointer {
    Null,
    Inside {
        region: u8,
        element: u32,
        skew: u8,
    },
    Anywhere(u64),
    /// In the last page of the address space.
    Top(u16),
}

impl Pointer {
    pub fn address(&self, memory: &Memory) -> usize {
        match *self {
            Pointer::Null => 0,
            Pointer::Inside { region, element, skew } => {
                let misaligned = if skew < 16 { usize::from(skew % 4) } else { 0 };
                memory.address(region, element as usize) + misaligned
            }
            Pointer::Anywhere(address) => address as usize,
            Pointer::Top(below) => usize::MAX - usize::from(below % 4096),
        }
    }
}

#[derive(Arbitrary, Debug)]
pub enum Length {
    Short(u8),
    Long(u16),
    /// Around the sizes at which the library goes another way.
    Edge {
        size: u8,
        beside: u8,
    },
    Any(u64),
}

impl Length {
    pub fn elements(&self) -> usize {
        const SIZES: [usize; 8] =
            [32, 128, 4096, 65_536, 131_072, 1 << 61, 1 << 62, usize::MAX / 2 + 1];
        match *self {
            Length::Short(n) => n.into(),
            Length::Long(n) => n.into(),
            Length::Edge { size, beside } => {
                SIZES[usize::from(size % 8)].wrapping_add(usize::from(beside % 5)).wrapping_sub(2)
            }
            Length::Any(n) => n as usize,
        }
    }
}

/// As many bytes as there always are; what is more is more than there ever are.
pub const MOST_BYTES: usize = u16::MAX as usize;

#[derive(Arbitrary, Debug)]
pub enum Bytes {
    Few(u16),
    TooMany(u64),
}

impl Bytes {
    pub fn bytes(&self) -> usize {
        match *self {
            Bytes::Few(bytes) => bytes.into(),
            Bytes::TooMany(bytes) => (bytes | 1 << 60) as usize,
        }
    }
}

#[derive(Arbitrary, Debug)]
pub enum Freed {
    /// Memory that is there, if any of it is pinned_alloc's from its first byte on.
    Region(u8),
    Earlier(u8),
    Other(Pointer),
}

impl Freed {
    pub fn address(&self, memory: &Memory) -> usize {
        match self {
            Freed::Region(region) => memory.address(*region, 0),
            Freed::Earlier(which) => memory.freed(*which),
            Freed::Other(pointer) => pointer.address(memory),
        }
    }
}
