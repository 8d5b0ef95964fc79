// Reduction kernels: one sum of 64 bits for each tile of the input, in the order that src/sum.rs
// describes.
//
// A warp adds up a tile. Its thread t holds lanes 4t to 4t + 3, the elements that it reads of each
// row of the tile at once; the lanes are then halved through shuffles, and last inside thread 0.
#include "common.cuh"

constexpr int TILE = 4096;
constexpr int LANES = 128;
constexpr int LANES_PER_THREAD = LANES / WARP;
constexpr unsigned ALL_THREADS = 0xFFFFFFFF;

// Terms are added in double, or as integers, wrapping.
__device__ inline double plus(double x, double y) { return __dadd_rn(x, y); }

__device__ inline u64 plus(u64 x, u64 y) { return x + y; }

// Rows that are read before the first of them is added up: across the bus each read takes a
// microsecond. A barrier keeps the compiler from putting reads off, to save registers.
template <class T>
constexpr int BATCH = 32 / sizeof(T);

// Adds the terms of the first `len` elements of a tile, whole packs of them, to the thread's lanes.
// Packs that a batch has too many are read as the first one, and not added.
template <bool IS_WHOLE, class T, class S, class Term>
__device__ inline void add_packs(const T *a, const T *b, int len, S *lanes, Term term) {
    constexpr int LEN = Pack<T>::LEN;
    constexpr int PACKS = LANES_PER_THREAD / LEN;
    const int first = threadIdx.x % WARP * LANES_PER_THREAD;
#pragma unroll 1
    for (int row = 0; row < len; row += BATCH<T> * LANES) {
        Pack<T> x[BATCH<T>][PACKS], y[BATCH<T>][PACKS];
#pragma unroll
        for (int r = 0; r < BATCH<T>; r++) {
#pragma unroll
            for (int p = 0; p < PACKS; p++) {
                const int i = first + row + r * LANES + p * LEN;
                const int at = IS_WHOLE || i < len ? i : 0;
                x[r][p] = *reinterpret_cast<const Pack<T> *>(a + at);
                y[r][p] = *reinterpret_cast<const Pack<T> *>(b + at);
            }
        }
        __syncwarp();
#pragma unroll
        for (int r = 0; r < BATCH<T>; r++) {
#pragma unroll
            for (int p = 0; p < PACKS; p++) {
                if (!IS_WHOLE && first + row + r * LANES + p * LEN >= len) {
                    continue;
                }
#pragma unroll
                for (int k = 0; k < LEN; k++) {
                    S &lane = lanes[p * LEN + k];
                    lane = plus(lane, term(x[r][p].at[k], y[r][p].at[k]));
                }
            }
        }
    }
}

// Adds the terms of whole rows of arrays of which packs cannot be read. A row that a batch has too
// many is read as the first one, and not added.
template <class T, class S, class Term>
__device__ inline void add_rows(const T *a, const T *b, int rows, S *lanes, Term term) {
    constexpr int ROWS = BATCH<T> / 2;
    const int first = threadIdx.x % WARP * LANES_PER_THREAD;
#pragma unroll 1
    for (int row = 0; row < rows; row += ROWS) {
        T x[ROWS][LANES_PER_THREAD], y[ROWS][LANES_PER_THREAD];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int at = first + (row + r < rows ? row + r : 0) * LANES;
#pragma unroll
            for (int k = 0; k < LANES_PER_THREAD; k++) {
                x[r][k] = a[at + k];
                y[r][k] = b[at + k];
            }
        }
        __syncwarp();
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (row + r < rows) {
#pragma unroll
                for (int k = 0; k < LANES_PER_THREAD; k++) {
                    lanes[k] = plus(lanes[k], term(x[r][k], y[r][k]));
                }
            }
        }
    }
}

// Adds the terms of a tile, or of the `len` elements that there are of it, to the thread's lanes.
// What is left over, of a pack or a row, is read before the others and added after them.
template <class T, class S, class Term>
__device__ inline void add_tile(const T *a, const T *b, int len, bool wide, S *lanes, Term term) {
    const int left_over = len % (wide ? Pack<T>::LEN : LANES);
    const int whole = len - left_over;
    const int last_row = whole - whole % LANES + threadIdx.x % WARP * LANES_PER_THREAD;
    T x[LANES_PER_THREAD], y[LANES_PER_THREAD];
    if (left_over > 0) {
#pragma unroll
        for (int k = 0; k < LANES_PER_THREAD; k++) {
            const int at = last_row + k < len ? last_row + k : 0;
            x[k] = a[at];
            y[k] = b[at];
        }
    }
    if (!wide) {
        add_rows(a, b, whole / LANES, lanes, term);
    } else if (whole < TILE) {
        add_packs<false>(a, b, whole, lanes, term);
    } else {
        add_packs<true>(a, b, TILE, lanes, term);
    }
#pragma unroll
    for (int k = 0; k < LANES_PER_THREAD; k++) {
        if (whole <= last_row + k && last_row + k < len) {
            lanes[k] = plus(lanes[k], term(x[k], y[k]));
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
        const int len = n - start < TILE ? n - start : TILE;
        add_tile(a + start, b + start, len, wide, lanes, term);
        const S sum = halved(lanes);
        if (threadIdx.x % WARP == 0) {
            sums[tile] = sum;
        }
    }
}

#define REDUCTION(name, T, S, formula)                                                          \
    extern "C" __global__ void name(const T *a, const T *b, S *sums, u64 n, unsigned *flags) {   \
        reduce(a, b, sums, n, [](T x, T y) -> S { return formula; });                            \
        announce(flags);                                                                         \
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
