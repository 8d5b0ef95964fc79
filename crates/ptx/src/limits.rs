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
