// What every reduction shares: how the grid goes over the arrays, and how its blocks become one state.
//
// The states of elements may be merged in any order. A warp takes a batch of elements, the grid's warps
// take batches in turn; each block merges its warps' states and adds its own to the scratch memory, by
// integer atomics. The last block to do so takes the state of all elements out, and leaves zeros.
#pragma once
#include "common.cuh"

constexpr unsigned ALL_THREADS = 0xFFFFFFFF;

// Elements that a thread reads of an array before it accumulates the first of them: across the bus each
// read takes a microsecond.
template <class T>
constexpr int BATCH = 64 / sizeof(T);

// Elements of a warp's batch.
template <class T>
constexpr int WARP_BATCH = BATCH<T> * WARP;

// Memory of a device that the blocks of a grid add their states to. It is zero when a kernel begins, and
// when it ends. The words go on to the end of the memory.
struct Scratch {
    unsigned finished;
    u64 words[1];
};

__device__ inline int lane() { return threadIdx.x % WARP; }

// Reads a thread's elements of the batch that begins at `array`.
template <class T>
__device__ inline void read_batch(const T *array, T *x) {
#pragma unroll
    for (int k = 0; k < BATCH<T>; k++) {
        x[k] = array[k * WARP + lane()];
    }
}

// The first element of the calling warp's first batch, and the distance to the next one.
template <class T>
__device__ inline u64 first_batch() {
    return grid_thread() / WARP * WARP_BATCH<T>;
}

template <class T>
__device__ inline u64 next_batch() {
    return grid_threads() / WARP * WARP_BATCH<T>;
}

// Says in the whole block whether this block is the last that has added its state. What the others have
// added is visible then.
__device__ inline bool is_last_block(Scratch *scratch) {
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicAdd(&scratch->finished, 1) == gridDim.x - 1;
        if (is_last) {
            scratch->finished = 0;
        }
        __threadfence();
    }
    __syncthreads();
    return is_last;
}
