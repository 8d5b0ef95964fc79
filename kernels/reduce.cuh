// The parts that all reductions share: the batches of a grid's warps, and the merging of its blocks' states.
//
// States may be merged in any order. Warps take batches of elements in turn, or the last ones as they are ready. Each block
// merges its warps' states and adds the result to the scratch memory by integer atomics. The last block to do so reads the
// state of all elements, and sets the memory to zero.
#pragma once
#include "placeholders.cuh"

constexpr unsigned ALL_THREADS = 0xFFFFFFFF;

// The elements that a thread loads from each of INPUTS arrays before it adds the first one.
template <class T, int INPUTS>
constexpr int BATCH = policy::BATCH_BYTES / INPUTS / sizeof(T);

// The device memory in which the blocks of a grid add their states. It is zero when a kernel begins and when it ends. The
// words extend to the end of the memory.
struct Scratch {
    unsigned finished;
    u64 words[1];
};

// Counters of the portions that warps take as they are ready, behind the words of any exact sum. Each counter is in a cache
// line of its own and serves some of the warps: a single counter serves only some 250 warps in a microsecond.
constexpr int COUNTERS = policy::COUNTERS, COUNTER_WORDS = 16, FIRST_COUNTER_WORD = 1024;

__device__ inline unsigned *counter(Scratch *scratch, unsigned number) {
    return reinterpret_cast<unsigned *>(scratch->words + FIRST_COUNTER_WORD + number * COUNTER_WORDS);
}

__device__ inline int lane() { return threadIdx.x % WARP; }

// The first element of the calling warp's first batch, and the distance to the next one, for batches of `len` elements.
__device__ inline u64 first_batch(int len) { return grid_thread() / WARP * len; }

__device__ inline u64 next_batch(int len) { return grid_threads() / WARP * len; }

// Returns true in all threads of the last of `blocks` blocks to have added its state. The states of the other blocks are then
// visible. Counts in `finished`, which the last block sets to zero.
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

// Returns true in all threads of the grid's last block.
__device__ inline bool is_last_block(Scratch *scratch) {
    return is_last_of(gridDim.x, &scratch->finished);
}
