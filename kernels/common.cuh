// The common part of kernels: a thread's place in the grid, canonical NaNs, and completion flags.
#pragma once
#include "policy.cuh"

typedef unsigned long long u64;

constexpr int WARP = 32;

constexpr int BLOCK_THREADS = policy::BLOCK_THREADS;

// The value in place of a thread's number if elements are not aligned as vectors (placeholders.cuh).
constexpr int NO_VECTORS = static_cast<int>(0x80000000);

__device__ inline u64 grid_thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }

__device__ inline u64 grid_threads() { return (u64)gridDim.x * blockDim.x; }

// The value to store: every NaN becomes the one quiet NaN, as on the CPU.
__device__ inline float canonical(float x) { return x != x ? __int_as_float(0x7FC00000) : x; }

__device__ inline double canonical(double x) {
    return x != x ? __longlong_as_double(0x7FF8000000000000) : x;
}

__device__ inline int canonical(int x) { return x; }

__device__ inline long long canonical(long long x) { return x; }

__device__ inline u64 canonical(u64 x) { return x; }

// Signals completion to the host: sets the warp's flag, a word of pinned memory, unless `flags` is null. Once the host reads
// the flag, all writes of the warp are visible to it. All threads of the warp must call this.
__device__ inline void signal_completion(unsigned *flags) {
    if (flags == nullptr) {
        return;
    }
    __syncwarp();
    if (threadIdx.x % WARP == 0) {
        __threadfence_system();
        *static_cast<volatile unsigned *>(flags + grid_thread() / WARP) = 1;
    }
}
