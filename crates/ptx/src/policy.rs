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
    /// The limits with which a driver compiles any program in some seconds.
    pub const USUAL: Limits = POLICY.limits;
}

/// The sizes of generated kernels.
pub(crate) struct Policy {
    /// The most instructions of an element, and the operations of a part beyond that.
    pub(crate) limits: Limits,
    pub(crate) elementwise: Elementwise,
    /// Blocks that a multiprocessor should hold at once of kernels whose addresses need many registers: reductions along
    /// several axes, and arrays of any strides.
    pub(crate) blocks_with_addresses: u32,
    /// Reductions: the most bytes and instructions of a loop's body; and the most instructions of one that leaves
    /// registers for one more block.
    pub(crate) body_bytes: usize,
    pub(crate) body_instructions: usize,
    pub(crate) small_body: usize,
    /// The chains of additions that compute the addresses of a thread's elements along axes. The last address of a single
    /// chain is known, and its element loaded, much later than the first one.
    pub(crate) address_chains: usize,
    /// The most elements that a thread takes at once that are not adjacent: more need too many registers for addresses.
    pub(crate) elements_apart: usize,
    /// A block's shared memory for tiles: what each device has, but for the tables of functions.
    pub(crate) tile_bytes: usize,
    /// The instructions from which on a function beside other operations halves the elements of a thread.
    pub(crate) long_function: usize,
}

/// The thresholds for the elements of a thread, in instructions for an element.
pub(crate) struct Elementwise {
    /// A thread computes two vectors at once if the formula has at least `two_vectors_from` instructions per array, and at
    /// most `two_vectors_to` per element: for ordinary f32, and for fast functions and f64.
    pub(crate) two_vectors_from: usize,
    pub(crate) two_vectors_to: [usize; 2],
    /// The most instructions with which a thread takes one vector, and two elements.
    pub(crate) one_vector_to: usize,
    pub(crate) two_elements_to: usize,
    /// Instructions for each array from which on a thread of a large grid computes two tiles, and four.
    pub(crate) two_tiles_from: usize,
    pub(crate) four_tiles_from: usize,
    /// The instructions from which on a fast function has six tiles.
    pub(crate) six_tiles_from: usize,
    /// The most instructions with which fast functions have five blocks, and others on two arrays four.
    pub(crate) five_blocks_to: usize,
    pub(crate) four_blocks_to: usize,
}

pub(crate) const POLICY: Policy = Policy {
    // A driver compiles any formula in some seconds: 4,090 divisions take 3 s.
    limits: Limits { instructions: 1 << 11, part: 128 },
    elementwise: Elementwise {
        // One vector at once and two, as shares of a copy's rate. H100, 2^26 sines of f32: 0.925, 0.944. H200, 2^27 elements
        // of f16: copies 0.874, 0.995, an add 0.994, 1.038, square roots 0.743, 0.924; bools of u8 0.502, 0.738. Beyond the limits some architecture spills registers.
        two_vectors_from: 16,
        two_vectors_to: [37, 128],
        one_vector_to: 128,
        two_elements_to: 256,
        // 2^29 bytes, GB/s with 1, 2 and 8 tiles: an add of f32 4363, 4350, 4281; 20 operations 4104, 4205, 4080. H100, fast
        // functions with 8, 3 and 2 tiles: exponentials 0.952, 0.979, 0.989, log1p 0.953, 0.991, 0.914 of a copy's rate.
        two_tiles_from: 6,
        four_tiles_from: 16,
        // With 4 blocks and 3 tiles, 5 and 6, 6 and 6: sines 0.80, 0.91, 0.95, inverse cosines 0.74, 0.84, 0.87;
        // exponentials with 5 blocks and 3 tiles 0.98, 6 tiles 0.96.
        six_tiles_from: 60,
        // H100, f64, with 2, 3 and 4 blocks: sines 0.847, 0.927, 0.956, exponentials 0.973, 0.977, 0.984. Error functions
        // of f64, with 100 instructions, spill with four.
        five_blocks_to: 48,
        four_blocks_to: 96,
    },
    // With 3 some architecture spills registers.
    blocks_with_addresses: 2,
    // Across the bus a load takes a microsecond: 64 bytes as in kernels/policy.cuh. Not measured alone.
    body_bytes: 64,
    body_instructions: 512,
    // Dots of f32, 2^28, on device arrays: 4 blocks 495 µs, 3 503. With larger bodies some architecture spills with 4.
    small_body: 256,
    // Columns of 16,384: one chain 0.87, four 0.88; columns of 512: 0.93 and 0.94.
    address_chains: 4,
    // Not measured alone.
    elements_apart: 4,
    // Follows from the 48 KiB that each device has.
    tile_bytes: 40 << 10,
    // `pow(x, y) + log(x)` compiles in 55 ms, 75 without, and takes 656 µs for 2^26 elements, 635 without.
    long_function: 256,
};

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
        PerThread { items: 1, tiles: 1, blocks: POLICY.blocks_with_addresses };

    /// Chooses them for `instructions` for an element, and `arrays` with elements of up to `bytes`. `is_fast` if
    /// there are fast functions, and no instructions of f64; `is_function` if the program is a fast function of an array.
    pub(crate) fn new(
        instructions: usize, arrays: usize, bytes: usize, is_fast: bool, is_function: bool,
    ) -> PerThread {
        let of = &POLICY.elementwise;
        let per_array = instructions / arrays;
        let vector = if bytes <= 4 { 4 } else { 2 };
        let two_vectors_to = of.two_vectors_to[usize::from(is_fast || bytes > 4)];
        let has_two = per_array >= of.two_vectors_from && instructions <= two_vectors_to;
        let items = if has_two {
            2 * vector
        } else if instructions <= of.one_vector_to {
            // A vector has 8 bytes at the most.
            if bytes <= 2 { 2 * vector } else { vector }
        } else if instructions <= of.two_elements_to {
            2
        } else {
            1
        };
        let tiles = match per_array {
            _ if per_array < of.two_tiles_from => 1,
            _ if per_array < of.four_tiles_from => 2,
            _ if is_function && instructions >= of.six_tiles_from => 6,
            _ if is_fast && items == 2 * vector => 3,
            _ => 4,
        };
        let blocks = match instructions {
            _ if is_fast && tiles >= 3 && items < 4 => 5,
            _ if tiles < 3 || items < 4 => 2,
            _ if is_fast && instructions <= of.five_blocks_to => 5,
            _ if is_function => 6,
            _ if is_fast => 4,
            _ if arrays == 2 && instructions <= of.four_blocks_to => 4,
            _ => 3,
        };
        PerThread { items, tiles, blocks }
    }

    /// Half as many elements at once, for long functions: the driver compiles the text in less time.
    pub(crate) fn halved(self) -> PerThread {
        PerThread { items: (self.items / 2).max(1), tiles: self.tiles, blocks: 5 }
    }
}
