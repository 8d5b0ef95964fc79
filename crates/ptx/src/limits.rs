//! The limits of kernels.

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// The limits of the text that a driver compiles in one piece.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most instructions for an element. A program with more is computed in parts.
    pub instructions: usize,
    /// The operations of a part.
    pub part: usize,
}

impl Limits {
    /// The limits with which a driver compiles any program in some seconds.
    pub const USUAL: Limits = Limits { instructions: 1 << 11, part: 128 };
}
