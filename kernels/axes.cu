// Reductions along axes: kernels without the formula of the elements (elements.cuh).
//
// A block has some neighbouring results, or all elements of some: `lanes` neighbouring lanes of a warp have a
// result each, and the other lanes further elements of the same ones. So the warps of a block share the columns
// of the same results, and a column never has terms of two.
//
// The parameters, which follow those of the inputs and of the shape, are the numbers of results and of elements
// of each, which is below 2^31; the number of blocks that share the elements of a result, shifted by 8 bits, in bit
// 7 whether states are stored in place of results, and the logarithm of the number of lanes; the memory in which
// such blocks merge their states; and how to add up (exact sums), or the index of the first element (folds).
//
// PLACE is the address of a result. Its second operand is the result's number, and the third the distance
// between a thread's elements. STATE stores a state there, RESULT a result.
#include "elements.cuh"

constexpr int WARPS = BLOCK_THREADS / WARP;

// The results and the elements of a block.
struct Part {
    u64 results, n, group, begin, last;
    unsigned parts, part;
    int lanes;
    bool stores_states;

    __device__ Part(u64 results, u64 n, u64 partition) : results(results), n(n) {
        lanes = 1 << (partition & 0x7F);
        stores_states = (partition & 0x80) != 0;
        parts = static_cast<unsigned>(partition >> 8);
        group = blockIdx.x / parts;
        part = blockIdx.x % parts;
        const unsigned share = (static_cast<unsigned>(n) + parts - 1) / parts;
        begin = static_cast<u64>(part) * share;
        last = min(begin + share, n);
    }

    // The result of the calling thread. Threads behind the last result have that one, too.
    __device__ u64 result() const { return min(group * lanes + lane() % lanes, results - 1); }

    // Returns whether the calling thread stores its result.
    __device__ bool stores() const {
        return threadIdx.x < lanes && group * lanes + threadIdx.x < results;
    }

    __device__ int step() const { return WARP / lanes; }
    __device__ int offset() const { return lane() / lanes; }
    __device__ u64 end() const { return last; }
    __device__ u64 first(int len) const { return begin + threadIdx.x / WARP * len; }
    __device__ u64 next(int len) const { return WARPS * len; }

    template <class T>
    __device__ T *place() const {
        T *place;
        asm volatile("PLACE %0, %1, %2;"
                     : "=l"(place)
                     : "l"(result()), "l"(static_cast<u64>(step())));
        return place;
    }
};

namespace exact {

// A word of the state of a lane's result, in the two rows of its digits.
template <class K>
__device__ inline long long word(const Columns<K> &columns, int row, int lane) {
    const int digit = 2 * (row - COUNTS);
    return row < COUNTS ? columns.counts[row][lane]
                        : static_cast<long long>(columns.digits[digit + 1][lane]) << 32 |
                              static_cast<unsigned>(columns.digits[digit][lane]);
}

template <class K>
__device__ inline void set_word(Columns<K> &columns, int row, int lane, long long word) {
    const int digit = 2 * (row - COUNTS);
    if (row < COUNTS) {
        columns.counts[row][lane] = static_cast<int>(word);
    } else {
        columns.digits[digit][lane] = static_cast<int>(word);
        columns.digits[digit + 1][lane] = static_cast<int>(word >> 32);
    }
}

// Turns a block's columns into the words of its results' states: adds those of lanes with the same result.
template <class K>
__device__ inline void merge_lanes(Columns<K> &columns, int lanes) {
#pragma unroll 1
    for (int row = threadIdx.x / WARP; row < K::ROWS; row += WARPS) {
        const int digit = 2 * (row - COUNTS);
        long long sum = row < COUNTS ? columns.counts[row][lane()]
                                     : columns.digits[digit][lane()] +
                                           columns.digits[digit + 1][lane()] * 65536LL;
#pragma unroll 1
        for (int half = WARP / 2; half >= lanes; half /= 2) {
            sum += __shfl_xor_sync(ALL_THREADS, sum, half);
        }
        set_word(columns, row, lane(), sum);
    }
}

// Adds the words of the blocks that have elements of the same results. Returns in the whole block whether all
// have added theirs: then the last one has the sums, and leaves zeros.
template <class K>
__device__ inline bool merge_parts(Columns<K> &columns, const Part &part, Scratch *scratch) {
    const int words = K::ROWS * part.lanes;
    u64 *const of_group = scratch->words + part.group * (words + 1);
#pragma unroll 1
    for (int i = threadIdx.x; i < words; i += BLOCK_THREADS) {
        const long long added = word(columns, i / part.lanes, i % part.lanes);
        if (added != 0) {
            atomicAdd(&of_group[i], static_cast<u64>(added));
        }
    }
    if (!is_last_of(part.parts, reinterpret_cast<unsigned *>(&of_group[words]))) {
        return false;
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < words; i += BLOCK_THREADS) {
        const u64 sum = atomicExch(&of_group[i], 0);
        set_word(columns, i / part.lanes, i % part.lanes, static_cast<long long>(sum));
    }
    __syncthreads();
    return true;
}

template <class K, class T>
__device__ inline void reduce_axes(const Part &part, Scratch *scratch, u64 mode) {
    __shared__ Columns<K> columns;
    T *const place = part.place<T>();
    columns.clear();
    __syncthreads();
    add_elements(columns, part, mode);
    __syncthreads();
    merge_lanes(columns, part.lanes);
    __syncthreads();
    if (part.parts > 1 && !merge_parts(columns, part, scratch)) {
        return;
    }
    if (part.stores()) {
        long long words[K::ROWS];
        int first = K::DIGITS, last = -1;
#pragma unroll 1
        for (int row = 0; row < K::ROWS; row++) {
            words[row] = word(columns, row, threadIdx.x);
            if (row >= COUNTS && words[row] != 0) {
                first = min(first, row - COUNTS);
                last = row - COUNTS;
            }
        }
        words[0] = static_cast<long long>(part.n);
        if (part.stores_states) {
            long long *const state = reinterpret_cast<long long *>(place);
#pragma unroll 1
            for (int row = 0; row < K::ROWS; row++) {
                state[row] = words[row];
            }
            return;
        }
        int what;
        asm volatile("FINISH %0;" : "=r"(what));
        *place = result_of<K, T>(words, first, last, what);
    }
}

}  // namespace exact

#define EXACT(name, T, K)                                                                       \
    extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS)                          \
        name(u64 results, u64 n, u64 partition, Scratch *scratch, u64 mode) {                    \
        exact::reduce_axes<K, T>(Part(results, n, partition), scratch, mode);                    \
    }

EXACT(axes_sum_f32, float, exact::SumF32)
EXACT(axes_sum_f64, double, exact::SumF64)
EXACT(axes_dot_f32, float, exact::DotF32)
EXACT(axes_dot_f64, double, exact::DotF64)
EXACT(axes_norm_f32, float, exact::NormF32)
EXACT(axes_norm_f64, double, exact::NormF64)

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS)
    axes_fold(u64 results, u64 n, u64 partition, Scratch *scratch, u64 index) {
    const Part part(results, n, partition);
    u64 *const place = part.place<u64>();
    Fold state = Fold::identity();
#pragma unroll 1
    for (u64 start = part.first(LEN * part.step()); start < part.end();
         start += part.next(LEN * part.step())) {
        Fold batch;
        asm volatile("ELEMENTS %0, %1, %2, %3;"
                     : "=l"(batch.value), "=l"(batch.index)
                     : "l"(start + part.offset()), "l"(part.end()));
        state.merge(batch);
    }
    __shared__ Fold warps[WARPS][WARP];
    warps[threadIdx.x / WARP][lane()] = of_lanes(state, WARP, part.lanes);
    __syncthreads();
    state = warps[0][lane()];
#pragma unroll 1
    for (int warp = 1; warp < WARPS; warp++) {
        state.merge(warps[warp][lane()]);
    }
    if (part.parts > 1) {
        const u64 states = static_cast<u64>(part.parts) * part.lanes;
        u64 *const of_group = scratch->words + part.group * (2 * states + 1);
        Fold *const of_parts = reinterpret_cast<Fold *>(of_group);
        if (threadIdx.x < part.lanes) {
            of_parts[part.part * part.lanes + threadIdx.x] = state;
        }
        if (!is_last_of(part.parts, reinterpret_cast<unsigned *>(of_group + 2 * states))) {
            return;
        }
        state = Fold::identity();
        if (threadIdx.x < part.lanes) {
            for (u64 i = threadIdx.x; i < states; i += part.lanes) {
                state.merge(Fold{__ldcg(&of_parts[i].value), __ldcg(&of_parts[i].index)});
                of_parts[i] = Fold{0, 0};
            }
        }
    }
    if (!part.stores()) {
        return;
    }
    if (part.stores_states) {
        asm volatile("STATE %0, %1, %2;" ::"l"(place), "l"(state.value), "l"(state.index + index)
                     : "memory");
    } else {
        asm volatile("RESULT %0, %1, %2;" ::"l"(place), "l"(state.value), "l"(state.index) : "memory");
    }
}
