//! The sizes of generated kernels that were chosen by measurement. One text serves all compute capabilities, so there is
//! one policy, measured on an H200 (compute capability 9.0, driver 580, 2026-11-21 to 2026-11-26) unless a line names an
//! H100; `make usage` shows the registers and spills of every architecture.

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
    /// The limits with which a driver compiles any program in some seconds: 4,090 divisions take 3 s.
    pub const USUAL: Limits = Limits { instructions: 1 << 11, part: 128 };
}

/// Blocks that a multiprocessor should hold at once of kernels whose addresses need many registers: reductions along
/// several axes, and arrays of any strides. With 3 some architecture spills registers.
pub(crate) const BLOCKS_WITH_ADDRESSES: u32 = 2;

/// Reductions: the most bytes and instructions of a loop's body. Across the bus a load takes a microsecond: 64 bytes as in
/// kernels/policy.cuh. Not measured alone.
pub(crate) const BODY_BYTES: usize = 64;
pub(crate) const BODY_INSTRUCTIONS: usize = 512;

/// The most instructions of a loop's body that leaves registers for one more block. Dots of f32, 2^28, on device arrays:
/// 4 blocks 495 µs, 3 503. With larger bodies some architecture spills with 4.
pub(crate) const SMALL_BODY: usize = 256;

/// The chains of additions that compute the addresses of a thread's elements along axes. The last address of a single
/// chain is known, and its element loaded, much later than the first one. Columns of 16,384: one chain 0.87, four 0.88;
/// columns of 512: 0.93 and 0.94.
pub(crate) const ADDRESS_CHAINS: usize = 4;

/// The most elements that a thread computes at once that are not adjacent: more would need too many registers for their
/// addresses. Not measured alone.
pub const MAX_ITEMS_APART: usize = 4;

/// A block's shared memory for tiles: what each device has, 48 KiB, but for the tables of functions.
pub(crate) const TILE_BYTES: usize = 40 << 10;

/// The instructions from which on a function beside other operations halves the elements of a thread: `pow(x, y) + log(x)`
/// compiles in 55 ms, 75 without, and takes 656 µs for 2^26 elements, 635 without.
pub(crate) const LONG_FUNCTION: usize = 256;

/// A thread computes two vectors at once if the formula has at least `TWO_VECTORS_FROM` instructions per array, and at most
/// `TWO_VECTORS_TO` per element: for ordinary f32, and for fast functions and f64.
///
/// One vector at once and two, as shares of a copy's rate. H100, 2^26 sines of f32: 0.925, 0.944. H200, 2^27 elements of
/// f16: copies 0.874, 0.995, an add 0.994, 1.038, square roots 0.743, 0.924; bools of u8 0.502, 0.738. Beyond the limits
/// some architecture spills registers.
pub(crate) const TWO_VECTORS_FROM: usize = 16;
pub(crate) const TWO_VECTORS_TO: [usize; 2] = [37, 128];

/// The most instructions for an element with which a thread takes one vector, and two elements.
pub(crate) const ONE_VECTOR_TO: usize = 128;
pub(crate) const TWO_ELEMENTS_TO: usize = 256;

/// Instructions for each array from which on a thread of a large grid computes two tiles, and four. 2^29 bytes, GB/s with 1,
/// 2 and 8 tiles: an add of f32 4363, 4350, 4281; 20 operations 4104, 4205, 4080. H100, fast functions with 8, 3 and 2
/// tiles: exponentials 0.952, 0.979, 0.989, log1p 0.953, 0.991, 0.914 of a copy's rate.
pub(crate) const TWO_TILES_FROM: usize = 6;
pub(crate) const FOUR_TILES_FROM: usize = 16;

/// The instructions from which on a fast function has six tiles. With 4 blocks and 3 tiles, 5 and 6, 6 and 6: sines 0.80,
/// 0.91, 0.95, inverse cosines 0.74, 0.84, 0.87; exponentials with 5 blocks and 3 tiles 0.98, 6 tiles 0.96.
pub(crate) const SIX_TILES_FROM: usize = 60;

/// The most instructions with which fast functions have five blocks, and others on two arrays four. H100, f64, with 2, 3 and
/// 4 blocks: sines 0.847, 0.927, 0.956, exponentials 0.973, 0.977, 0.984. Error functions of f64, with 100 instructions,
/// spill with four.
pub(crate) const FIVE_BLOCKS_TO: usize = 48;
pub(crate) const FOUR_BLOCKS_TO: usize = 96;

/// The elements that each thread of a large grid takes.
#[derive(Clone, Copy)]
pub(crate) struct PerThread {
    /// Elements that are computed at once.
    pub(crate) items: usize,
    /// Tiles: how often the thread does so.
    pub(crate) tiles: usize,
    /// The blocks per multiprocessor that the kernel asks for: the most for which no register is spilled.
    pub(crate) blocks: u32,
}

impl PerThread {
    /// A program that is computed in parts.
    pub(crate) const OF_PARTS: PerThread =
        PerThread { items: 1, tiles: 1, blocks: BLOCKS_WITH_ADDRESSES };

    /// Chooses them for `instructions` for an element, and `arrays` with elements of up to `bytes`. `is_fast` if
    /// there are fast functions, and no instructions of f64; `is_function` if the program is a fast function of an array.
    pub(crate) fn new(
        instructions: usize, arrays: usize, bytes: usize, is_fast: bool, is_function: bool,
    ) -> PerThread {
        let per_array = instructions / arrays;
        let vector = if bytes <= 4 { 4 } else { 2 };
        let two_vectors_to = TWO_VECTORS_TO[usize::from(is_fast || bytes > 4)];
        let has_two = per_array >= TWO_VECTORS_FROM && instructions <= two_vectors_to;
        let items = if has_two {
            2 * vector
        } else if instructions <= ONE_VECTOR_TO {
            // A vector has 8 bytes at the most.
            if bytes <= 2 { 2 * vector } else { vector }
        } else if instructions <= TWO_ELEMENTS_TO {
            2
        } else {
            1
        };
        let tiles = match per_array {
            _ if per_array < TWO_TILES_FROM => 1,
            _ if per_array < FOUR_TILES_FROM => 2,
            _ if is_function && instructions >= SIX_TILES_FROM => 6,
            _ if is_fast && items == 2 * vector => 3,
            _ => 4,
        };
        let blocks = match instructions {
            _ if is_fast && tiles >= 3 && items < 4 => 5,
            _ if tiles < 3 || items < 4 => 2,
            _ if is_fast && instructions <= FIVE_BLOCKS_TO => 5,
            _ if is_function => 6,
            _ if is_fast => 4,
            _ if arrays == 2 && instructions <= FOUR_BLOCKS_TO => 4,
            _ => 3,
        };
        PerThread { items, tiles, blocks }
    }

    /// Half as many elements at once, for long functions: the driver compiles the text in less time.
    pub(crate) fn halved(self) -> PerThread {
        PerThread { items: (self.items / 2).max(1), tiles: self.tiles, blocks: 5 }
    }
}
