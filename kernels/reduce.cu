// Reduction kernels: one f64 for each tile of the input, in the order that src/sum.rs describes.
//
// A warp adds up a tile. Its thread t holds lanes 4t to 4t + 3, the elements that it reads of each
// row of the tile at once; the lanes are then halved through shuffles, and last inside thread 0.
#include "common.cuh"

constexpr int TILE = 4096;
constexpr int LANES = 128;
constexpr int WARP = 32;
constexpr int LANES_PER_THREAD = LANES / WARP;
constexpr int ROWS = TILE / LANES;
constexpr unsigned ALL_THREADS = 0xFFFFFFFF;

// Adds the terms of one row to the thread's lanes; elements past `len` add nothing.
template <class T, class Term>
__device__ inline void add_row_singly(const T *a, const T *b, u64 len, double *lanes, Term term) {
#pragma unroll
    for (int k = 0; k < LANES_PER_THREAD; k++) {
        if (k < len) {
            lanes[k] = __dadd_rn(lanes[k], term(a[k], b[k]));
        }
    }
}

template <class T, class Term>
__device__ inline void add_row(const T *a, const T *b, double *lanes, Term term) {
    typedef Pack<T> Row;
    static_assert(Row::LEN == LANES_PER_THREAD, "a thread reads its lanes of a row at once");
    const Row x = *reinterpret_cast<const Row *>(a);
    const Row y = *reinterpret_cast<const Row *>(b);
#pragma unroll
    for (int k = 0; k < LANES_PER_THREAD; k++) {
        lanes[k] = __dadd_rn(lanes[k], term(x.at[k], y.at[k]));
    }
}

// Halves the warp's lanes until thread 0 has the tile's sum.
__device__ inline double halved(double *lanes) {
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2) {
#pragma unroll
        for (int k = 0; k < LANES_PER_THREAD; k++) {
            lanes[k] = __dadd_rn(lanes[k], __shfl_down_sync(ALL_THREADS, lanes[k], half));
        }
    }
#pragma unroll
    for (int half = LANES_PER_THREAD / 2; half > 0; half /= 2) {
#pragma unroll
        for (int k = 0; k < half; k++) {
            lanes[k] = __dadd_rn(lanes[k], lanes[k + half]);
        }
    }
    return lanes[0];
}

template <class T, class Term>
__device__ inline void reduce(const T *a, const T *b, double *sums, u64 n, Term term) {
    const u64 thread = threadIdx.x % WARP;
    const bool wide = past_pack(a) == 0 && past_pack(b) == 0;
    const u64 tiles = (n + TILE - 1) / TILE;
    for (u64 tile = grid_thread() / WARP; tile < tiles; tile += grid_threads() / WARP) {
        double lanes[LANES_PER_THREAD] = {};
        u64 i = tile * TILE + thread * LANES_PER_THREAD;
        if (wide && n - tile * TILE >= TILE) {
#pragma unroll 8
            for (int row = 0; row < ROWS; row++, i += LANES) {
                add_row(a + i, b + i, lanes, term);
            }
        } else {
            for (int row = 0; row < ROWS && i < n; row++, i += LANES) {
                add_row_singly(a + i, b + i, n - i, lanes, term);
            }
        }
        const double sum = halved(lanes);
        if (thread == 0) {
            sums[tile] = sum;
        }
    }
}

#define REDUCTION(name, T, formula)                                                             \
    extern "C" __global__ void name(const T *a, const T *b, double *sums, u64 n) {               \
        reduce(a, b, sums, n, [](T x, T y) -> double { return formula; });                       \
    }

REDUCTION(dot_f32, float, __dmul_rn(static_cast<double>(x), static_cast<double>(y)))
