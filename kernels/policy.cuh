// The sizes of compiled kernels that were chosen by measurement. One PTX serves all architectures, so there is one policy.
//
// Measured, unless a line says otherwise, on one H200 (driver 580) on device arrays, 2026-11-21 (whole arrays) and
// 2026-11-26 (along axes), as shares of a copy's or of a plain loop's rate.
#pragma once

namespace policy {

// Threads of a block. Not measured alone.
constexpr int BLOCK_THREADS = 256;

// Blocks that a multiprocessor should hold at once. H100, sums of f32 along rows of 64: 2 0.32, 3 0.37; 4 spill registers.
constexpr int BLOCKS = 3;

// Bytes that a thread loads before it adds the first element: a load across the bus takes a microsecond. Norms of f32, 2^28:
// 280 us by batches of 16 elements; 418 by the kernel of dots, whose batches have 8 of each factor.
constexpr int BATCH_BYTES = 64;

// Squares of f64 in a batch: with eight, sm_70 to sm_89 spill 8 bytes of registers.
constexpr int BATCH_OF_F64_SQUARES = 6;

// Elements of a thread in a batch of a fold. Not measured alone.
constexpr int FOLD_BATCH = 16;

// The batches that warps take as they are ready: one in PORTION_SHARE, in portions of PORTION, if a warp has at least
// FEWEST_FOR_PORTIONS. Dots of f32, 2^30: from one counter with portions of 4 0.70, 8 0.90, 16 0.975; from 16 counters 0.96
// with an eighth of the batches, 0.92 with a quarter; from 128 with portions of 3 0.99.
constexpr int FEWEST_FOR_PORTIONS = 24, PORTION_SHARE = 8, PORTION = 3, COUNTERS = 128;

// The most batches that are added as integers, without trying a window, after windows have failed. Not measured alone.
constexpr int MOST_SKIPPED = 63;

// Levels of a window: of sums, and of products. Dots of f32 with four levels (three blocks) take 503 us, with three (four
// blocks) 495; on data spread over half of the exponents four reach 0.81, three 0.57.
constexpr int SUM_LEVELS = 2, PRODUCT_LEVELS = 3;

// The bits by which a window that must hold all further batches reaches above the first one. The distance between the
// exponents of windows' units, so that one window serves batches that differ a little. Not measured alone.
constexpr int SPARE = 2, GRID = 8;

// The difference of exponents beyond which sums along axes try no window after uniform sums. Not measured alone.
constexpr int FAR = 60;

// Elements of each lane in a tile of very short rows: a batch. Rows of 16 and 4: 0.69 and 0.59 with one tile for each warp;
// 0.66 and 0.15 without.
constexpr int TILE = 16;

// The most shared memory for the columns of all warps of a block, so that most devices have room for three blocks. Below
// it, each warp adds integers for itself. H100, rows of 64 of any sizes: 0.23; by the block 0.09.
constexpr int COLUMN_BYTES = 28 << 10;

// Reductions by key. A block fills a multiprocessor, so that its table in shared memory has the most room; blocks have half
// of the threads where some architecture would spill registers otherwise. A thread's batch has this many elements of f32, and
// of 64 bits. Not measured alone.
constexpr int BY_KEY_THREADS = 1024, BY_KEY_BATCH_OF_F32 = 8, BY_KEY_BATCH = 4;

}  // namespace policy
