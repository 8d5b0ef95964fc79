// Reduction kernels: one sum of 64 bits for each tile of the input, in the order that src/sum.rs
// describes.
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

// Terms are added in double, or as integers, wrapping.
__device__ inline double plus(double x, double y) { return __dadd_rn(x, y); }

__device__ inline u64 plus(u64 x, u64 y) { return x + y; }

// Rows that are read before the first of them is added up: across the bus each read takes a
// microsecond. A barrier keeps the compiler from putting reads off, to save registers.
template <class T>
constexpr int BATCH = 32 / sizeof(T);

// Adds the terms of a tile that has only `len` elements, or that wide loads cannot read, to the
// thread's lanes. An element that is not there counts as 0, which changes no sum: none is ever -0.
template <class T, class S, class Term>
__device__ inline void add_singly(const T *a, const T *b, u64 len, S *lanes, Term term) {
    const u64 first = threadIdx.x % WARP * LANES_PER_THREAD;
    for (u64 row = first; row < len + first; row += BATCH<T> * LANES) {
        T x[BATCH<T>][LANES_PER_THREAD], y[BATCH<T>][LANES_PER_THREAD];
#pragma unroll
        for (int r = 0; r < BATCH<T>; r++) {
#pragma unroll
            for (int k = 0; k < LANES_PER_THREAD; k++) {
                const u64 i = row + r * LANES + k;
                x[r][k] = i < len ? a[i] : 0;
                y[r][k] = i < len ? b[i] : 0;
            }
        }
        __syncwarp();
#pragma unroll
        for (int r = 0; r < BATCH<T>; r++) {
#pragma unroll
            for (int k = 0; k < LANES_PER_THREAD; k++) {
                lanes[k] = plus(lanes[k], term(x[r][k], y[r][k]));
            }
        }
    }
}

// Adds the terms of a whole tile, in as few wide loads as it takes.
template <class T, class S, class Term>
__device__ inline void add_tile(const T *a, const T *b, S *lanes, Term term) {
    constexpr int PACKS = LANES_PER_THREAD / Pack<T>::LEN;
    const int first = threadIdx.x % WARP * LANES_PER_THREAD;
#pragma unroll 1
    for (int row = 0; row < ROWS; row += BATCH<T>) {
        Pack<T> x[BATCH<T>][PACKS], y[BATCH<T>][PACKS];
#pragma unroll
        for (int r = 0; r < BATCH<T>; r++) {
#pragma unroll
            for (int p = 0; p < PACKS; p++) {
                const int i = first + (row + r) * LANES + p * Pack<T>::LEN;
                x[r][p] = *reinterpret_cast<const Pack<T> *>(a + i);
                y[r][p] = *reinterpret_cast<const Pack<T> *>(b + i);
            }
        }
        __syncwarp();
#pragma unroll
        for (int r = 0; r < BATCH<T>; r++) {
#pragma unroll
            for (int k = 0; k < LANES_PER_THREAD; k++) {
                const int p = k / Pack<T>::LEN, at = k % Pack<T>::LEN;
                lanes[k] = plus(lanes[k], term(x[r][p].at[at], y[r][p].at[at]));
            }
        }
    }
}

// Halves the warp's lanes until thread 0 has the tile's sum.
template <class S>
__device__ inline S halved(S *lanes) {
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2) {
#pragma unroll
        for (int k = 0; k < LANES_PER_THREAD; k++) {
            lanes[k] = plus(lanes[k], __shfl_down_sync(ALL_THREADS, lanes[k], half));
        }
    }
#pragma unroll
    for (int half = LANES_PER_THREAD / 2; half > 0; half /= 2) {
#pragma unroll
        for (int k = 0; k < half; k++) {
            lanes[k] = plus(lanes[k], lanes[k + half]);
        }
    }
    return lanes[0];
}

template <class T, class S, class Term>
__device__ inline void reduce(const T *a, const T *b, S *sums, u64 n, Term term) {
    const bool wide = past_pack(a) == 0 && past_pack(b) == 0;
    const u64 tiles = (n + TILE - 1) / TILE;
    for (u64 tile = grid_thread() / WARP; tile < tiles; tile += grid_threads() / WARP) {
        S lanes[LANES_PER_THREAD] = {};
        const u64 start = tile * TILE;
        const u64 len = n - start < TILE ? n - start : TILE;
        if (wide && len == TILE) {
            add_tile(a + start, b + start, lanes, term);
        } else {
            add_singly(a + start, b + start, len, lanes, term);
        }
        const S sum = halved(lanes);
        if (threadIdx.x % WARP == 0) {
            sums[tile] = sum;
        }
    }
}

#define REDUCTION(name, T, S, formula)                                                          \
    extern "C" __global__ void name(const T *a, const T *b, S *sums, u64 n) {                    \
        reduce(a, b, sums, n, [](T x, T y) -> S { return formula; });                            \
    }

// The bits of an i32 as those of an i64.
__device__ inline u64 wide(int x) { return static_cast<u64>(static_cast<long long>(x)); }

REDUCTION(dot_f32, float, double, __dmul_rn(static_cast<double>(x), static_cast<double>(y)))
REDUCTION(dot_f64, double, double, __dmul_rn(x, y))
REDUCTION(dot_i32, int, u64, wide(x) * wide(y))
REDUCTION(dot_i64, u64, u64, x * y)
REDUCTION(sum_f32, float, double, static_cast<double>(x))
REDUCTION(sum_f64, double, double, x)
REDUCTION(sum_i32, int, u64, wide(x))
REDUCTION(sum_i64, u64, u64, x)
