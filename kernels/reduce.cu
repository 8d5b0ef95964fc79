// Reduction kernels: one state for each tile of the input, in the order that src/ops/accumulator.rs
// describes.
//
// A warp accumulates a tile. Its thread t holds lanes 4t to 4t + 3, the elements that it reads of each
// row of the tile at once; the lanes are then halved through shuffles, and last inside thread 0.
#include "accumulators.cuh"

constexpr int TILE = 4096;
constexpr int LANES = 128;
constexpr int LANES_PER_THREAD = LANES / WARP;
constexpr unsigned ALL_THREADS = 0xFFFFFFFF;

// Rows that are read before the first of them is accumulated: across the bus each read takes a
// microsecond. A barrier keeps the compiler from delaying reads, to save registers.
template <class T>
constexpr int BATCH = 32 / sizeof(T);

// Accumulates the first `len` elements of a tile, whole packs of them, in the thread's lanes. A batch
// that reaches past them reads the first pack again, and leaves it out.
template <bool IS_WHOLE, class T, class S, class Accumulate>
__device__ inline void add_packs(const T *a, const T *b, int len, S *lanes, Accumulate accumulate) {
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
                    lane = accumulate(lane, x[r][p].at[k], y[r][p].at[k]);
                }
            }
        }
    }
}

// Accumulates whole rows of arrays that cannot be read by packs. A batch that reaches past them reads the
// first row again, and leaves it out.
template <class T, class S, class Accumulate>
__device__ inline void add_rows(const T *a, const T *b, int rows, S *lanes, Accumulate accumulate) {
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
                    lanes[k] = accumulate(lanes[k], x[r][k], y[r][k]);
                }
            }
        }
    }
}

// Accumulates a tile, or the `len` elements that there are of it, in the thread's lanes. Elements left
// over, of a pack or a row, are read before the others and accumulated after them.
template <class T, class S, class Accumulate>
__device__ inline void add_tile(const T *a, const T *b, int len, bool wide, S *lanes,
                                Accumulate accumulate) {
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
        add_rows(a, b, whole / LANES, lanes, accumulate);
    } else if (whole < TILE) {
        add_packs<false>(a, b, whole, lanes, accumulate);
    } else {
        add_packs<true>(a, b, TILE, lanes, accumulate);
    }
#pragma unroll
    for (int k = 0; k < LANES_PER_THREAD; k++) {
        if (whole <= last_row + k && last_row + k < len) {
            lanes[k] = accumulate(lanes[k], x[k], y[k]);
        }
    }
}

// Halves the warp's lanes until thread 0 has the tile's state.
template <class A>
__device__ inline typename A::State halved(typename A::State *lanes) {
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2) {
#pragma unroll
        for (int k = 0; k < LANES_PER_THREAD; k++) {
            lanes[k] = A::merge(lanes[k], __shfl_down_sync(ALL_THREADS, lanes[k], half));
        }
    }
#pragma unroll
    for (int half = LANES_PER_THREAD / 2; half > 0; half /= 2) {
#pragma unroll
        for (int k = 0; k < half; k++) {
            lanes[k] = A::merge(lanes[k], lanes[k + half]);
        }
    }
    return lanes[0];
}

template <class A, class T, class Accumulate>
__device__ inline void reduce(const T *a, const T *b, typename A::State *states, u64 n,
                              Accumulate accumulate) {
    const bool wide = past_pack(a) == 0 && past_pack(b) == 0;
    const u64 tiles = (n + TILE - 1) / TILE;
    for (u64 tile = grid_thread() / WARP; tile < tiles; tile += grid_threads() / WARP) {
        typename A::State lanes[LANES_PER_THREAD];
#pragma unroll
        for (int k = 0; k < LANES_PER_THREAD; k++) {
            lanes[k] = A::identity();
        }
        const u64 start = tile * TILE;
        const int len = n - start < TILE ? n - start : TILE;
        add_tile(a + start, b + start, len, wide, lanes, accumulate);
        const typename A::State state = halved<A>(lanes);
        if (threadIdx.x % WARP == 0) {
            states[tile] = state;
        }
    }
}

#define REDUCTION(name, T, A, formula)                                                          \
    extern "C" __global__ void name(const T *a, const T *b, A::State *states, u64 n,             \
                                    unsigned *flags) {                                           \
        reduce<A>(a, b, states, n, [](A::State s, T x, T y) -> A::State { return formula; });    \
        signal_completion(flags);                                                                \
    }

// The bits of an i32 as those of an i64.
__device__ inline u64 wide(int x) { return static_cast<u64>(static_cast<long long>(x)); }

__device__ inline double wide(float x) { return static_cast<double>(x); }

REDUCTION(dot_f32, float, Sum<double>, __dadd_rn(s, __dmul_rn(wide(x), wide(y))))
REDUCTION(dot_f64, double, Sum<double>, __dadd_rn(s, __dmul_rn(x, y)))
REDUCTION(dot_i32, int, Sum<long long>, s + wide(x) * wide(y))
REDUCTION(dot_i64, u64, Sum<long long>, s + x * y)
REDUCTION(sum_f32, float, Sum<double>, __dadd_rn(s, wide(x)))
REDUCTION(sum_f64, double, Sum<double>, __dadd_rn(s, x))
REDUCTION(sum_i32, int, Sum<long long>, s + wide(x))
REDUCTION(sum_i64, u64, Sum<long long>, s + x)
REDUCTION(min_f32, float, Min<float>, Min<float>::merge(s, x))
REDUCTION(min_f64, double, Min<double>, Min<double>::merge(s, x))
REDUCTION(min_i32, int, Min<int>, Min<int>::merge(s, x))
REDUCTION(min_i64, long long, Min<long long>, Min<long long>::merge(s, x))
REDUCTION(max_f32, float, Max<float>, Max<float>::merge(s, x))
REDUCTION(max_f64, double, Max<double>, Max<double>::merge(s, x))
REDUCTION(max_i32, int, Max<int>, Max<int>::merge(s, x))
REDUCTION(max_i64, long long, Max<long long>, Max<long long>::merge(s, x))
