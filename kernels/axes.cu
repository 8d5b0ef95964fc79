// Reductions along axes: kernels without the formula of the elements (placeholders.cuh).
//
// Adjacent lanes of a warp have one result each, and its other lanes have further elements of the same results. So no
// column of a block's exact sums has terms of two results. These results are a group. A block computes one group, or
// several adjacent groups with some of its warps each. Several blocks may split the elements of a group. If results have
// few elements, each warp computes a group of its own.
//
// These parameters follow the inputs and the shape (crates/ptx/src/axis_reduction.rs): the number of results, the number
// of elements of each, which is below 2^31, the memory in which blocks merge their states, the mode of addition (exact
// sums) or the index of the first element (folds), and the partition.
#include "elements.cuh"

constexpr int WARPS = BLOCK_THREADS / WARP, LOG_WARP = 5, LOG_WARPS = 3;
static_assert(1 << LOG_WARP == WARP && 1 << LOG_WARPS == WARPS, "logarithms of the numbers");

// The passes in which each warp computes a group of its own: first in tiles or as uniform sums, then in a window, then in
// levels. In the passes from 0 on, all warps compute the remaining groups.
constexpr int IN_TILE = -4, IN_UNIFORM = -3, IN_WINDOW = -2, IN_LEVELS = -1;

// The elements of each lane in a tile.
constexpr int TILE = policy::TILE;

// The division of results and their elements among blocks and warps (src/cuda/reduce_axes.rs).
struct Partition {
    // The logarithm of the results of a block, or of a warp that computes a group of its own.
    unsigned log_results;
    // The number of blocks that split the elements of a result. 0 if each warp computes a group of its own; it stores no
    // states.
    unsigned splits;
    // The number of results of each lane in a warp's tiles. 0 without tiles.
    unsigned results_per_lane;
    // Nonzero if adjacent lanes of a warp with a group of its own have adjacent elements, not results.
    unsigned in_rows;
    // Nonzero if the elements of each result are adjacent in all arrays, and aligned as vectors.
    unsigned in_vectors;
    // Nonzero if the kernel stores states in place of results.
    unsigned stores_states;

    __device__ bool is_by_warps() const { return splits == 0; }

    // The logarithm of the number of groups of a block whose warps share results, if it may have several.
    __device__ int log_groups(int most) const {
        return most == 1 ? 0 : max(static_cast<int>(log_results) - LOG_WARP, 0);
    }
};

// The results and the elements that the warps of a group compute.
struct Slice {
    static constexpr bool HAS_UNIFORM = true;

    unsigned results, n, group, begin, last, splits, split;
    int lanes, log_lanes, warps_per_result, pass;
    bool is_alone, is_by_rows, stores_states, in_vectors;

    // With tiles, a warp's lanes have several results, one after another. `tile_result` is the number of the current one.
    __device__ Slice(unsigned results, unsigned n, const Partition &partition, int pass, int groups,
                     unsigned tile_result)
        : results(results), n(n), pass(pass) {
        log_lanes = partition.log_results;
        log_lanes = groups > 1 ? min(log_lanes, LOG_WARP) : log_lanes;
        lanes = 1 << log_lanes;
        in_vectors = partition.in_vectors != 0;
        stores_states = partition.stores_states != 0;
        is_alone = pass < 0;
        is_by_rows = is_alone && partition.in_rows != 0;
        if (partition.is_by_warps()) {
            splits = 1;
            split = 0;
            warps_per_result = is_alone ? 1 : WARPS / groups;
            const unsigned of_lane = partition.results_per_lane;
            begin = 0;
            if (in_tile()) {
                // Treats the tiles of a warp as one row of their first result.
                lanes = 1;
                log_lanes = 0;
                group = (blockIdx.x * WARPS + owner(pass, groups)) * of_lane * WARP;
                last = of_lane * WARP;
                return;
            }
            group = (blockIdx.x * max(of_lane, 1) + tile_result) * WARPS + owner(pass, groups);
            last = group * lanes < results ? n : 0;
            return;
        }
        // Blocks that run at the same time have adjacent results.
        warps_per_result = WARPS >> partition.log_groups(groups);
        splits = partition.splits;
        const unsigned blocks = gridDim.x / splits;
        group = blockIdx.x % blocks;
        if (groups > 1) {
            group = (group << partition.log_groups(groups)) + group_of_block();
        }
        split = blockIdx.x / blocks;
        const unsigned len = (n + splits - 1) / splits;
        begin = split * len;
        last = min(begin + len, n);
    }

    // Computes the slice again, so that it needs no registers before.
    __device__ Slice again(Partition partition, int groups, unsigned tile_result) const {
        partition.log_results = recomputed(partition.log_results);
        partition.splits = recomputed(partition.splits);
        return Slice(results, n, partition, pass, groups, recomputed(tile_result));
    }

    // The warp with the group that the calling thread computes in a pass.
    __device__ static int owner(int pass, int groups) {
        const int warp = threadIdx.x / WARP;
        return pass < 0 ? warp : pass * groups + warp / (WARPS / groups);
    }

    // Removes all results and elements, so that this pass computes none.
    __device__ void leave() {
        results = 0;
        last = begin;
    }

    // The number of the group in its block.
    __device__ int group_of_block() const { return threadIdx.x / threads(); }

    // The thread's number among the threads of its group, a power of two.
    __device__ int thread() const { return threadIdx.x & threads() - 1; }
    __device__ int threads() const { return warps_per_result * WARP; }

    // The number of the calling thread's result in its group.
    __device__ int of_warp() const { return is_by_rows ? lane() >> LOG_WARP - log_lanes : lane() & lanes - 1; }

    // The lanes with the same result differ in the bits from `lowest` to `highest`.
    __device__ int lowest() const { return is_by_rows ? 1 : lanes; }
    __device__ int highest() const { return (is_by_rows ? step() : WARP) / 2; }

    // The number of the calling thread's result. Threads past the last result have the last one as well.
    __device__ u64 result() const { return min(group * lanes + of_warp(), results - 1); }

    // True if the calling thread stores its result.
    __device__ bool stores() const {
        return thread() < WARP && offset() == 0 && group * lanes + of_warp() < results;
    }

    __device__ int step() const { return WARP >> log_lanes; }
    __device__ int offset() const { return is_by_rows ? lane() & step() - 1 : lane() >> log_lanes; }
    __device__ unsigned end() const { return last; }
    __device__ unsigned first(int len) const { return begin + thread() / WARP * len; }
    __device__ unsigned next(int len) const { return warps_per_result * len; }
    __device__ unsigned after(unsigned start, int len) const { return start + next(len); }
    __device__ bool in_tile() const { return pass == IN_TILE; }
    __device__ bool in_uniform() const { return pass == IN_UNIFORM; }
    __device__ bool in_window() const { return pass == IN_WINDOW; }
    __device__ bool in_levels() const { return pass == IN_LEVELS; }
    __device__ void go_on_in_window() { pass = IN_WINDOW; }
    // A warp alone has one window. It reaches `spare` bits above the first batch, for larger elements, and no higher, so that
    // fewer levels hold the small elements.
    __device__ int spare() const { return in_window() ? policy::SPARE : 0; }
    __device__ int grid() const { return in_window() ? 1 : policy::GRID; }

    template <class T>
    __device__ T *place() const {
        return place_of<T>(result(), step(), in_vectors ? offset() : NO_VECTORS);
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

// The most groups of a block: one for each warp, if the columns of all groups fit into shared memory.
template <class K>
constexpr int GROUPS = WARPS * sizeof(Columns<K>) <= policy::COLUMN_BYTES ? WARPS : 1;

template <class K>
__device__ inline void clear(Columns<K> &columns, const Slice &slice) {
    int *counters = columns.counts[0];
#pragma unroll 1
    for (unsigned i = slice.thread(); i < sizeof(columns) / sizeof(*counters); i += slice.threads()) {
        counters[i] = 0;
    }
}

// Turns a group's columns into the words of its results' states, by adding the columns of lanes with the same result.
template <class K>
__device__ inline void merge_lanes(Columns<K> &columns, const Slice &slice) {
#pragma unroll 1
    for (int row = slice.thread() / WARP; row < K::ROWS; row += slice.warps_per_result) {
        const int digit = 2 * (row - COUNTS);
        long long sum = row < COUNTS ? columns.counts[row][lane()]
                                     : columns.digits[digit][lane()] +
                                           columns.digits[digit + 1][lane()] * 65536LL;
#pragma unroll 1
        for (int half = WARP / 2; half >= slice.lanes; half /= 2) {
            sum += __shfl_xor_sync(ALL_THREADS, sum, half);
        }
        set_word(columns, row, lane(), sum);
    }
}

// Adds the words to the words of the other blocks that split the elements of the same results. Returns true in all threads
// of the last of these blocks, which then has the sums; the memory is zero again. Behind the words of a block's groups, a
// counter counts the blocks that have added their words.
template <class K>
__device__ inline bool merge_splits(Columns<K> &columns, const Slice &slice, Scratch *scratch) {
    const int words = K::ROWS * slice.lanes;
    const unsigned groups = GROUPS<K> == 1 ? 1 : WARPS / slice.warps_per_result;
    u64 *const of_group = scratch->words + slice.group * words + slice.group / groups;
#pragma unroll 1
    for (int i = slice.thread(); i < words; i += slice.threads()) {
        const long long added = word(columns, i / slice.lanes, i % slice.lanes);
        if (added != 0) {
            atomicAdd(&of_group[i], static_cast<u64>(added));
        }
    }
    unsigned *const counter = reinterpret_cast<unsigned *>(&of_group[(groups - slice.group_of_block()) * words]);
    if (!is_last_of(slice.splits, counter)) {
        return false;
    }
#pragma unroll 1
    for (int i = slice.thread(); i < words; i += slice.threads()) {
        const u64 sum = atomicExch(&of_group[i], 0);
        set_word(columns, i / slice.lanes, i % slice.lanes, static_cast<long long>(sum));
    }
    __syncthreads();
    return true;
}

// Reads the words of the state of the calling thread's result, and finds the first and the last nonzero digit.
template <class K>
__device__ inline void read_words(const Columns<K> &columns, long long *words, int &first, int &last) {
#pragma unroll 1
    for (int row = 0; row < K::ROWS; row++) {
        words[row] = word(columns, row, lane());
        if (row >= COUNTS && words[row] != 0) {
            first = min(first, row - COUNTS);
            last = row - COUNTS;
        }
    }
}

// True if each thread of a warp has at most `most` terms.
__device__ inline bool has_few_terms(u64 n, const Partition &partition, int most) {
    return n << partition.log_results <= WARP * most;
}

// The first pass of a warp alone.
template <class K>
__device__ inline int first_pass(u64 n, const Partition &partition, u64 mode) {
    const bool is_uniform = HAS_LEVELS<K> && mode != BY_INTEGERS && has_few_terms(n, partition, UniformSum::MOST);
    return is_uniform ? IN_UNIFORM : IN_WINDOW;
}

// The pass of a warp alone after a pass that did not hold its sums. 0 if there is none.
template <class K>
__device__ inline int next_pass(int pass, const UniformSum &uniform, u64 n, const Partition &partition, u64 mode) {
    if (pass == IN_UNIFORM && !uniform.is_far()) {
        return IN_WINDOW;
    }
    const bool has_levels = HAS_LEVELS<K> && mode != BY_INTEGERS && has_few_terms(n, partition, Levels::MOST);
    return pass < IN_LEVELS && has_levels ? IN_LEVELS : 0;
}

// Computes the results of a warp alone in tiles, for results with few elements that are all adjacent. The lanes load the
// elements of some results side by side, and load the next tile while each lane adds up results of its own. Returns true if
// all of the calling thread's sums are exact.
template <class T>
__device__ inline bool reduce_tiles(float *elements, const Slice &slice, T *place) {
    const unsigned len = TILE / slice.n * WARP, last = slice.last;
    const u64 left = static_cast<u64>(slice.results - slice.group) * slice.n;
    if (slice.group >= slice.results || left < (last - len) * slice.n + TILE * WARP) {
        return false;
    }
    const int what = finish();
    bool is_exact = true;
    const double reciprocal = __drcp_rn(slice.n);
#pragma unroll 1
    for (unsigned first = 0;; first += len) {
        // Zeros behind the last tile: the compiler would keep registers for elements that are not read.
        float x[TILE] = {};
        if (first < last && !whole_elements(first * slice.n + slice.offset(), x)) {
            return false;
        }
        // The first iteration has no results to add up.
#pragma unroll 1
        for (unsigned result = first == 0 ? len : lane(); result < len; result += WARP) {
            UniformSum uniform;
            is_exact &= uniform.add_row(elements + result * slice.n, slice.n);
            place[first - len + result] =
                what == FINISH_MEAN ? uniform.mean(slice.n, reciprocal) : __double2float_rn(uniform.sum);
        }
        if (first == last) {
            return is_exact;
        }
        __syncwarp();
#pragma unroll
        for (int k = 0; k < TILE; k += 4) {
            reinterpret_cast<float4 *>(elements)[k / 4 * WARP + lane()] =
                make_float4(x[k], x[k + 1], x[k + 2], x[k + 3]);
        }
        __syncwarp();
    }
}

// Computes the results of a slice, or their states. Returns false if the warp's sums did not hold them.
template <class K, class T>
__device__ inline bool reduce_slice(Columns<K> &columns, Slice &slice, UniformSum &uniform, Scratch *scratch, u64 mode,
                                    const Partition &partition, unsigned tile_result) {
    T *const place = slice.place<T>();
    if constexpr (HAS_LEVELS<K>) {
        if (slice.in_tile()) {
            return reduce_tiles(reinterpret_cast<float *>(&columns), slice, place);
        }
    }
    if (!slice.is_alone) {
        clear(columns, slice);
        __syncthreads();
    }
    if constexpr (HAS_LEVELS<K>) {
        if (slice.in_levels()) {
            // Other lanes may still read the levels of the previous results.
            __syncwarp();
            Levels::of(columns).clear();
        }
    }
    Window<K> window;
    bool is_done = add_elements(columns, window, uniform, slice, mode);
    slice = slice.again(partition, GROUPS<K>, tile_result);
    long long words[K::ROWS];
    int first = K::DIGITS, last = -1;
    if (slice.in_uniform()) {
        is_done = uniform.merge_lanes(slice.lowest(), slice.highest()) && is_done;
    } else if (slice.in_window()) {
        window.merge_lanes(slice.lowest(), slice.highest());
    } else if (slice.in_levels()) {
        if constexpr (HAS_LEVELS<K>) {
            Levels::of(columns).merge_lanes(slice.lowest(), slice.highest());
        }
    } else {
        __syncthreads();
        merge_lanes(columns, slice);
        __syncthreads();
        if (slice.splits > 1 && !merge_splits(columns, slice, scratch)) {
            return true;
        }
        if (slice.stores()) {
            read_words(columns, words, first, last);
        }
    }
    if (slice.stores_states && slice.stores()) {
        words[0] = static_cast<long long>(slice.n);
        long long *const state = reinterpret_cast<long long *>(place);
#pragma unroll 1
        for (int row = 0; row < K::ROWS; row++) {
            state[row] = words[row];
        }
    } else if (is_done && slice.stores()) {
        const int what = finish();
        if constexpr (HAS_LEVELS<K>) {
            if (slice.in_uniform()) {
                *place = what == FINISH_MEAN ? uniform.mean(slice.n, __drcp_rn(slice.n))
                                             : __double2float_rn(uniform.sum);
                return is_done;
            }
        }
        const auto store = [&](const Leading &sum) { *place = result_of<T>(sum, slice.n, what); };
        if (slice.in_window()) {
            store(leading(window.sum(), window.lowest_unit()));
        } else if (slice.in_levels()) {
            if constexpr (HAS_LEVELS<K>) {
                store(leading(Levels::of(columns).sum(), Format<float>::LEAST));
            }
        } else {
            store(leading<K>(words, first, last));
        }
    }
    return is_done;
}

// Reduces along axes. A warp with a group of its own first adds it up alone: as uniform sums, in a window or in levels. If
// these do not hold the group's sums, further passes compute the group.
template <class K, class T>
__device__ inline void reduce_axes(u64 results, u64 n, Scratch *scratch, u64 mode, const Partition &partition) {
    alignas(float4) __shared__ Columns<K> all_columns[GROUPS<K>];
    __shared__ bool is_held[WARPS];
    static_assert(!HAS_LEVELS<K> || GROUPS<K> == WARPS, "each warp's levels are in columns of its own");
    const bool by_warps = partition.is_by_warps();
    const int passes = by_warps ? WARPS / GROUPS<K> : 1;
    const int log_groups = by_warps ? (GROUPS<K> == 1 ? 0 : LOG_WARPS) : partition.log_groups(GROUPS<K>);
    Columns<K> &columns = all_columns[threadIdx.x >> LOG_WARP + LOG_WARPS - log_groups];
    unsigned tile_result = 0;
    int pass = by_warps ? first_pass<K>(n, partition, mode) : 0;
    if (HAS_LEVELS<K> && partition.results_per_lane > 0) {
        pass = IN_TILE;
    }
#pragma unroll 1
    while (true) {
        Slice slice(results, n, partition, pass, GROUPS<K>, tile_result);
        bool is_left = false;
        if (!slice.is_alone) {
            is_left = by_warps && is_held[Slice::owner(pass, GROUPS<K>)];
            // All threads compute a block's only group together.
            if (GROUPS<K> > 1 && is_left) {
                slice.leave();
            }
            is_left = __syncthreads_and(is_left);
        }
        UniformSum uniform;
        const bool is_done =
            is_left || reduce_slice<K, T>(columns, slice, uniform, scratch, mode, partition, tile_result);
        if (HAS_LEVELS<K> && slice.in_tile()) {
            if (__syncthreads_and(is_done)) {
                return;
            }
            pass = first_pass<K>(n, partition, mode);
            continue;
        }
        if (slice.is_alone) {
            pass = is_done ? 0 : next_pass<K>(slice.pass, uniform, n, partition, mode);
            if (pass < 0) {
                continue;
            }
            is_held[reread_thread() / WARP] = is_done;
            if (__syncthreads_or(!is_done)) {
                continue;
            }
        } else if (++pass < passes) {
            continue;
        }
        if (++tile_result >= partition.results_per_lane) {
            return;
        }
        pass = by_warps ? first_pass<K>(n, partition, mode) : 0;
    }
}

}  // namespace exact

#define EXACT(name, T, K)                                                                       \
    extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS)                          \
        name(u64 results, u64 n, Scratch *scratch, u64 mode, Partition partition) {              \
        exact::reduce_axes<K, T>(results, n, scratch, mode, partition);                          \
    }

EXACT(axes_sum_f32, float, exact::SumF32)
EXACT(axes_sum_f64, double, exact::SumF64)
EXACT(axes_dot_f32, float, exact::DotF32)
EXACT(axes_dot_f64, double, exact::DotF64)
EXACT(axes_norm_f32, float, exact::NormF32)
EXACT(axes_norm_f64, double, exact::NormF64)

// Merges the states of the threads of a block that have the same lane. Each of them returns the merged state.
__device__ inline Fold of_warps(Fold state) {
    __shared__ Fold warps[WARPS][WARP];
    warps[threadIdx.x / WARP][lane()] = state;
    __syncthreads();
    state = warps[0][lane()];
#pragma unroll 1
    for (int warp = 1; warp < WARPS; warp++) {
        state.merge(warps[warp][lane()]);
    }
    return state;
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS)
    axes_fold(u64 results, u64 n, Scratch *scratch, u64 index, Partition partition) {
    Slice slice(results, n, partition, partition.is_by_warps() ? IN_WINDOW : 0, 1, 0);
    u64 *const place = slice.place<u64>();
    Fold state = Fold::identity();
#pragma unroll 1
    for (unsigned start = slice.first(FOLD_BATCH * slice.step()); start < slice.end();
         start += slice.next(FOLD_BATCH * slice.step())) {
        Fold batch;
        fold_elements(start + slice.offset(), slice.end(), batch.value, batch.index);
        state.merge(batch);
    }
    slice = slice.again(partition, 1, 0);
    state = of_lanes(state, 2 * slice.highest(), slice.lowest());
    if (!slice.is_alone) {
        state = of_warps(state);
    }
    if (slice.splits > 1) {
        const u64 states = static_cast<u64>(slice.splits) * slice.lanes;
        u64 *const of_group = scratch->words + slice.group * (2 * states + 1);
        Fold *const of_splits = reinterpret_cast<Fold *>(of_group);
        if (threadIdx.x < slice.lanes) {
            of_splits[slice.split * slice.lanes + threadIdx.x] = state;
        }
        if (!is_last_of(slice.splits, reinterpret_cast<unsigned *>(of_group + 2 * states))) {
            return;
        }
        state = Fold::identity();
        if (threadIdx.x < slice.lanes) {
            for (u64 i = threadIdx.x; i < states; i += slice.lanes) {
                state.merge(Fold{__ldcg(&of_splits[i].value), __ldcg(&of_splits[i].index)});
                of_splits[i] = Fold{0, 0};
            }
        }
    }
    if (!slice.stores()) {
        return;
    }
    if (slice.stores_states) {
        store_state(place, state.value, state.index + index);
    } else {
        store_result(place, state.value, state.index);
    }
}
