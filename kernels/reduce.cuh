// The common part of reductions: how the grid covers the arrays, and how blocks merge into one
// state.
//
// The states of elements may be merged in any order. A warp takes a batch of elements, the grid's warps
// take batches in turn, or the last ones as they are ready; each block merges its warps' states and adds its
// own to the scratch memory, by integer atomics. The last block to do so reads the state of all elements, and
// leaves zeros.
#pragma once
#include "hooks.cuh"

constexpr unsigned ALL_THREADS = 0xFFFFFFFF;

// The number of elements that a thread reads from each of INPUTS arrays before it accumulates the
// first: across the bus each read takes a microsecond.
template <class T, int INPUTS>
constexpr int BATCH = policy::BATCH_BYTES / INPUTS / sizeof(T);

// Memory of a device to which the blocks of a grid add their states. It is zero when a kernel
// begins, and when the kernel ends. The words extend to the end of the memory.
struct Scratch {
    unsigned finished;
    u64 words[1];
};

// Counters of the portions that warps take as they are ready, behind the words of every exact sum. Each is for some of the
// warps, and in a cache line of its own: one alone would answer some 250 warps in a microsecond.
constexpr int COUNTERS = policy::COUNTERS, COUNTER_WORDS = 16, FIRST_COUNTER_WORD = 1024;

__device__ inline unsigned *counter(Scratch *scratch, unsigned number) {
    return reinterpret_cast<unsigned *>(scratch->words + FIRST_COUNTER_WORD + number * COUNTER_WORDS);
}

__device__ inline int lane() { return threadIdx.x % WARP; }

// The first element of the calling warp's first batch, and the distance to the next one, for batches of
// `len` elements.
__device__ inline u64 first_batch(int len) { return grid_thread() / WARP * len; }

__device__ inline u64 next_batch(int len) { return grid_threads() / WARP * len; }

// Returns in the whole block whether this block is the last of `blocks` to have added its state. The states
// that the others have added are visible then. They are counted in `finished`, which is zero again in the end.
__device__ inline bool is_last_of(unsigned blocks, unsigned *finished) {
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicAdd(finished, 1) == blocks - 1;
        if (is_last) {
            *finished = 0;
        }
        __threadfence();
    }
    __syncthreads();
    return is_last;
}

// The same of the whole grid.
__device__ inline bool is_last_block(Scratch *scratch) {
    return is_last_of(gridDim.x, &scratch->finished);
}
