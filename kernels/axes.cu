// Reductions along axes: kernels without the formula of the elements (elements.cuh).
//
// A block has some neighbouring results, or all elements of some: `lanes` neighbouring lanes of a warp have a
// result each, and the other lanes further elements of the same ones. So the warps of a block share the columns
// of the same results, and a column never has terms of two. If a block has more results than a warp has lanes, teams of
// its warps have neighbouring ones.
//
// The parameters, which follow those of the inputs and of the shape, are the numbers of results and of elements
// of each, which is below 2^31; the partition; the memory in which blocks merge their states; and how to add up (exact
// sums), or the index of the first element (folds).
//
// The partition is, from bit 32 on, the number of results of each lane in a warp's tiles, or 0 (exact::reduce_tiles);
// from bit 8 on, the number of blocks that share the elements of a result, or 0 if each warp has results, not states, of
// its own: those of few elements; in bit 7 whether states are stored in place of results; in bit 6 whether the elements of
// each result follow each other in all arrays and begin a vector; in bit 5 whether a warp alone has neighbouring elements,
// not results, in neighbouring lanes; and the logarithm of the number of lanes, or of a block's results if these are more.
//
// PLACE is the address of a result. Its further operands are the result's number, the distance between a thread's
// elements, and the thread's number among those of the result or, if elements are not in vectors, NO_VECTORS. STATE
// stores a state there, RESULT a result.
#include "elements.cuh"

constexpr int WARPS = BLOCK_THREADS / WARP, LOG_WARP = 5, LOG_WARPS = 3;
static_assert(1 << LOG_WARP == WARP && 1 << LOG_WARPS == WARPS, "logarithms of the numbers");

// The rounds in which each warp has results of its own, before those of teams: it adds up in plain sums, in a window, or
// in levels; or first in a tile.
constexpr int IN_TILE = -4, IN_PLAIN = -3, IN_WINDOW = -2, IN_LEVELS = -1;

constexpr int NO_VECTORS = -1 << 31;

// The elements of each lane in a tile.
constexpr int TILE = 16;

// The results and the elements of a team: of the warps of a block, of some of them, or of a warp alone.
struct Part {
    static constexpr bool HAS_PLAIN = true;

    unsigned results, n, group, begin, last, parts, part;
    int lanes, log_lanes, warps, round;
    bool is_alone, is_by_rows, stores_states, in_vectors;

    // The number of blocks that share elements; 0 if each warp has results of its own.
    __device__ static unsigned parts_of(u64 partition) { return static_cast<unsigned>(partition) >> 8; }
    __device__ static bool of_warps(u64 partition) { return parts_of(partition) == 0; }

    // The number of the results of a warp alone or of a block, and its logarithm.
    __device__ static int results_of(u64 partition) { return 1 << log_results_of(partition); }
    __device__ static int log_results_of(u64 partition) { return partition & 0x0F; }

    // The logarithm of the number of teams in a block that has results of its own.
    __device__ static int log_teams_of(u64 partition, int most) {
        return most == 1 ? 0 : max(log_results_of(partition) - LOG_WARP, 0);
    }

    // The number of results of each lane in a warp's tiles; 0 if it has none.
    __device__ static unsigned of_tiles(u64 partition) { return static_cast<unsigned>(partition >> 32); }

    // If each warp has results of its own, `round` is one of theirs or the number of a round of teams. In such a
    // round a team computes the results of one warp. The results of a block's tiles have as many turns as a lane of a
    // tile has results.
    __device__ Part(unsigned results, unsigned n, u64 partition, int round, int teams, unsigned turn)
        : results(results), n(n), round(round) {
        log_lanes = log_results_of(partition);
        log_lanes = teams > 1 ? min(log_lanes, LOG_WARP) : log_lanes;
        lanes = 1 << log_lanes;
        in_vectors = (partition & 0x40) != 0;
        stores_states = (partition & 0x80) != 0;
        is_alone = round < 0;
        is_by_rows = is_alone && (partition & 0x20) != 0;
        if (of_warps(partition)) {
            parts = 1;
            part = 0;
            warps = is_alone ? 1 : WARPS / teams;
            const unsigned turns = of_tiles(partition);
            begin = 0;
            if (in_tile()) {
                // The tiles are as a row of their first result.
                lanes = 1;
                log_lanes = 0;
                group = (blockIdx.x * WARPS + owner(round, teams)) * turns * WARP;
                last = turns * WARP;
                return;
            }
            group = (blockIdx.x * max(turns, 1) + turn) * WARPS + owner(round, teams);
            last = group * lanes < results ? n : 0;
            return;
        }
        // Blocks that run at the same time have neighbouring results.
        warps = WARPS >> log_teams_of(partition, teams);
        parts = parts_of(partition);
        const unsigned groups = gridDim.x / parts;
        group = blockIdx.x % groups;
        if (teams > 1) {
            group = (group << log_teams_of(partition, teams)) + team();
        }
        part = blockIdx.x / groups;
        const unsigned share = (n + parts - 1) / parts;
        begin = part * share;
        last = min(begin + share, n);
    }

    // The same, which is found anew, so that it needs no registers before.
    __device__ Part again(u64 partition, int teams, unsigned turn) const {
        asm volatile("mov.b64 %0, %0;" : "+l"(partition));
        asm volatile("mov.b32 %0, %0;" : "+r"(turn));
        return Part(results, n, partition, round, teams, turn);
    }

    // The warp whose results the calling thread's team has.
    __device__ static int owner(int round, int teams) {
        const int warp = threadIdx.x / WARP;
        return round < 0 ? warp : round * teams + warp / (WARPS / teams);
    }

    // Leaves the results to others.
    __device__ void leave() {
        results = 0;
        last = begin;
    }

    // The number of the team in its block.
    __device__ int team() const { return threadIdx.x / threads(); }

    // The number of the thread in its team, and the threads of that, a power of two.
    __device__ int thread() const { return threadIdx.x & threads() - 1; }
    __device__ int threads() const { return warps * WARP; }

    // The number of the calling thread's result among those of its warp.
    __device__ int of_warp() const { return is_by_rows ? lane() >> LOG_WARP - log_lanes : lane() & lanes - 1; }

    // The lanes with the same result differ in the bits from `lowest` to `highest`.
    __device__ int lowest() const { return is_by_rows ? 1 : lanes; }
    __device__ int highest() const { return (is_by_rows ? step() : WARP) / 2; }

    // The result of the calling thread. Threads behind the last result have that one, too.
    __device__ u64 result() const { return min(group * lanes + of_warp(), results - 1); }

    // Returns whether the calling thread stores its result.
    __device__ bool stores() const {
        return thread() < WARP && offset() == 0 && group * lanes + of_warp() < results;
    }

    __device__ int step() const { return WARP >> log_lanes; }
    __device__ int offset() const { return is_by_rows ? lane() & step() - 1 : lane() >> log_lanes; }
    __device__ unsigned end() const { return last; }
    __device__ unsigned first(int len) const { return begin + thread() / WARP * len; }
    __device__ unsigned next(int len) const { return warps * len; }
    __device__ unsigned after(unsigned start, int len) const { return start + next(len); }
    __device__ bool in_tile() const { return round == IN_TILE; }
    __device__ bool in_plain() const { return round == IN_PLAIN; }
    __device__ bool in_window() const { return round == IN_WINDOW; }
    __device__ bool in_levels() const { return round == IN_LEVELS; }
    __device__ void go_on_in_window() { round = IN_WINDOW; }
    // The elements of a warp alone may be larger than all in its first batch, by these bits. It has one window,
    // which reaches no higher, so that fewer levels hold the small ones.
    __device__ int spare() const { return in_window() ? exact::SPARE : 0; }
    __device__ int grid() const { return in_window() ? 1 : exact::GRID; }

    template <class T>
    __device__ T *place() const {
        T *place;
        asm volatile("PLACE %0, %1, %2, %3;"
                     : "=l"(place)
                     : "l"(result()), "r"(step()), "r"(in_vectors ? offset() : NO_VECTORS));
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

// The teams of a block in a round: each warp is one, if the columns of all leave room for three blocks in the shared
// memory of most devices.
template <class K>
constexpr int TEAMS = WARPS * sizeof(Columns<K>) <= 28 << 10 ? WARPS : 1;

template <class K>
__device__ inline void clear(Columns<K> &columns, const Part &part) {
    int *counters = columns.counts[0];
#pragma unroll 1
    for (unsigned i = part.thread(); i < sizeof(columns) / sizeof(*counters); i += part.threads()) {
        counters[i] = 0;
    }
}

// Turns a team's columns into the words of its results' states: adds those of lanes with the same result.
template <class K>
__device__ inline void merge_lanes(Columns<K> &columns, const Part &part) {
#pragma unroll 1
    for (int row = part.thread() / WARP; row < K::ROWS; row += part.warps) {
        const int digit = 2 * (row - COUNTS);
        long long sum = row < COUNTS ? columns.counts[row][lane()]
                                     : columns.digits[digit][lane()] +
                                           columns.digits[digit + 1][lane()] * 65536LL;
#pragma unroll 1
        for (int half = WARP / 2; half >= part.lanes; half /= 2) {
            sum += __shfl_xor_sync(ALL_THREADS, sum, half);
        }
        set_word(columns, row, lane(), sum);
    }
}

// Adds the words of the blocks that have elements of the same results. Returns in the whole block whether all
// have added theirs: then the last one has the sums, and leaves zeros. Behind the words of a block's teams is the number
// of the blocks that have added theirs.
template <class K>
__device__ inline bool merge_parts(Columns<K> &columns, const Part &part, Scratch *scratch) {
    const int words = K::ROWS * part.lanes;
    const unsigned teams = TEAMS<K> == 1 ? 1 : WARPS / part.warps;
    u64 *const of_group = scratch->words + part.group * words + part.group / teams;
#pragma unroll 1
    for (int i = part.thread(); i < words; i += part.threads()) {
        const long long added = word(columns, i / part.lanes, i % part.lanes);
        if (added != 0) {
            atomicAdd(&of_group[i], static_cast<u64>(added));
        }
    }
    if (!is_last_of(part.parts, reinterpret_cast<unsigned *>(&of_group[(teams - part.team()) * words]))) {
        return false;
    }
#pragma unroll 1
    for (int i = part.thread(); i < words; i += part.threads()) {
        const u64 sum = atomicExch(&of_group[i], 0);
        set_word(columns, i / part.lanes, i % part.lanes, static_cast<long long>(sum));
    }
    __syncthreads();
    return true;
}

// Stores the words of the state of the calling thread's result.
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

// Returns whether a warp's threads have at most a number of terms.
__device__ inline bool has_few_terms(u64 n, u64 partition, int most) {
    return n * Part::results_of(partition) <= WARP * most;
}

// The first round of a warp alone.
template <class K>
__device__ inline int first_round(u64 n, u64 partition, u64 mode) {
    const bool is_plain = HAS_LEVELS<K> && mode != BY_INTEGERS && has_few_terms(n, partition, Plain::MOST);
    return is_plain ? IN_PLAIN : IN_WINDOW;
}

// The round of a warp alone that follows one that did not hold its sums; 0 if none does.
template <class K>
__device__ inline int next_round(int round, const Plain &plain, u64 n, u64 partition, u64 mode) {
    if (round == IN_PLAIN && !plain.is_far()) {
        return IN_WINDOW;
    }
    const bool has_levels = HAS_LEVELS<K> && mode != BY_INTEGERS && has_few_terms(n, partition, Levels::MOST);
    return round < IN_LEVELS && has_levels ? IN_LEVELS : 0;
}

// Computes the results of a warp alone that have few elements, which follow each other as the results do, in tiles: the
// lanes load the elements of some results side by side, and those of the next ones while each adds up results of its own.
// Returns whether all of the calling thread's sums are exact.
template <class T>
__device__ inline bool reduce_tiles(float *elements, const Part &part, T *place) {
    const unsigned len = TILE / part.n * WARP, last = part.last;
    const u64 left = static_cast<u64>(part.results - part.group) * part.n;
    if (part.group >= part.results || left < (last - len) * part.n + TILE * WARP) {
        return false;
    }
    int what;
    asm volatile("FINISH %0;" : "=r"(what));
    bool is_exact = true;
    const double reciprocal = __drcp_rn(part.n);
#pragma unroll 1
    for (unsigned first = 0;; first += len) {
        // Zeros behind the last tile: elements that are not read would keep their registers.
        float x[TILE] = {};
        if (first < last && !whole_elements(first * part.n + part.offset(), x)) {
            return false;
        }
        // The first time there is nothing to add up yet.
#pragma unroll 1
        for (unsigned result = first == 0 ? len : lane(); result < len; result += WARP) {
            Plain plain;
            is_exact &= plain.add_row(elements + result * part.n, part.n);
            place[first - len + result] =
                what == FINISH_MEAN ? plain.mean(part.n, reciprocal) : __double2float_rn(plain.sum);
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

// Computes the results of a part, or their states. Returns false if the warp's sums did not hold them.
template <class K, class T>
__device__ inline bool reduce_part(Columns<K> &columns, Part &part, Plain &plain, Scratch *scratch, u64 mode,
                                   u64 partition, unsigned turn) {
    T *const place = part.place<T>();
    if constexpr (HAS_LEVELS<K>) {
        if (part.in_tile()) {
            return reduce_tiles(reinterpret_cast<float *>(&columns), part, place);
        }
    }
    if (!part.is_alone) {
        clear(columns, part);
        __syncthreads();
    }
    if constexpr (HAS_LEVELS<K>) {
        if (part.in_levels()) {
            // Other lanes may still read those of the results before.
            __syncwarp();
            Levels::of(columns).clear();
        }
    }
    Window<K> window;
    bool is_done = add_elements(columns, window, plain, part, mode);
    part = part.again(partition, TEAMS<K>, turn);
    long long words[K::ROWS];
    int first = K::DIGITS, last = -1;
    if (part.in_plain()) {
        is_done = plain.merge_lanes(part.lowest(), part.highest()) && is_done;
    } else if (part.in_window()) {
        window.merge_lanes(part.lowest(), part.highest());
    } else if (part.in_levels()) {
        if constexpr (HAS_LEVELS<K>) {
            Levels::of(columns).merge_lanes(part.lowest(), part.highest());
        }
    } else {
        __syncthreads();
        merge_lanes(columns, part);
        __syncthreads();
        if (part.parts > 1 && !merge_parts(columns, part, scratch)) {
            return true;
        }
        if (part.stores()) {
            read_words(columns, words, first, last);
        }
    }
    if (part.stores_states && part.stores()) {
        words[0] = static_cast<long long>(part.n);
        long long *const state = reinterpret_cast<long long *>(place);
#pragma unroll 1
        for (int row = 0; row < K::ROWS; row++) {
            state[row] = words[row];
        }
    } else if (is_done && part.stores()) {
        int what;
        asm volatile("FINISH %0;" : "=r"(what));
        if constexpr (HAS_LEVELS<K>) {
            if (part.in_plain()) {
                *place = what == FINISH_MEAN ? plain.mean(part.n, __drcp_rn(part.n)) : __double2float_rn(plain.sum);
                return is_done;
            }
        }
        const auto store = [&](const Leading &sum) { *place = result_of<T>(sum, part.n, what); };
        if (part.in_window()) {
            store(leading(window.sum(), window.lowest_unit()));
        } else if (part.in_levels()) {
            if constexpr (HAS_LEVELS<K>) {
                store(leading(Levels::of(columns).sum(), Format<float>::LEAST));
            }
        } else {
            store(leading<K>(words, first, last));
        }
    }
    return is_done;
}

// Reduces along axes. If each warp has results of its own, it first adds them up alone: in plain sums, a window or
// levels. Teams then compute the results that these do not hold.
template <class K, class T>
__device__ inline void reduce_axes(u64 results, u64 n, u64 partition, Scratch *scratch, u64 mode) {
    alignas(float4) __shared__ Columns<K> all_columns[TEAMS<K>];
    __shared__ bool is_held[WARPS];
    static_assert(!HAS_LEVELS<K> || TEAMS<K> == WARPS, "each warp's levels are in columns of its own");
    const bool of_warps = Part::of_warps(partition);
    const int rounds = of_warps ? WARPS / TEAMS<K> : 1;
    const int log_teams = of_warps ? (TEAMS<K> == 1 ? 0 : LOG_WARPS) : Part::log_teams_of(partition, TEAMS<K>);
    Columns<K> &columns = all_columns[threadIdx.x >> LOG_WARP + LOG_WARPS - log_teams];
    unsigned turn = 0;
    int round = of_warps ? first_round<K>(n, partition, mode) : 0;
    if (HAS_LEVELS<K> && Part::of_tiles(partition) > 0) {
        round = IN_TILE;
    }
#pragma unroll 1
    while (true) {
        Part part(results, n, partition, round, TEAMS<K>, turn);
        bool is_left = false;
        if (!part.is_alone) {
            is_left = of_warps && is_held[Part::owner(round, TEAMS<K>)];
            // The only team goes on together.
            if (TEAMS<K> > 1 && is_left) {
                part.leave();
            }
            is_left = __syncthreads_and(is_left);
        }
        Plain plain;
        const bool is_done = is_left || reduce_part<K, T>(columns, part, plain, scratch, mode, partition, turn);
        if (HAS_LEVELS<K> && part.in_tile()) {
            if (__syncthreads_and(is_done)) {
                return;
            }
            round = first_round<K>(n, partition, mode);
            continue;
        }
        if (part.is_alone) {
            round = is_done ? 0 : next_round<K>(part.round, plain, n, partition, mode);
            if (round < 0) {
                continue;
            }
            // Found anew, so that it needs no register before.
            unsigned thread;
            asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
            is_held[thread / WARP] = is_done;
            if (__syncthreads_or(!is_done)) {
                continue;
            }
        } else if (++round < rounds) {
            continue;
        }
        if (++turn >= Part::of_tiles(partition)) {
            return;
        }
        round = of_warps ? first_round<K>(n, partition, mode) : 0;
    }
}

}  // namespace exact

#define EXACT(name, T, K)                                                                       \
    extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS)                          \
        name(u64 results, u64 n, u64 partition, Scratch *scratch, u64 mode) {                    \
        exact::reduce_axes<K, T>(results, n, partition, scratch, mode);                          \
    }

EXACT(axes_sum_f32, float, exact::SumF32)
EXACT(axes_sum_f64, double, exact::SumF64)
EXACT(axes_dot_f32, float, exact::DotF32)
EXACT(axes_dot_f64, double, exact::DotF64)
EXACT(axes_norm_f32, float, exact::NormF32)
EXACT(axes_norm_f64, double, exact::NormF64)

// Merges the states of those threads of a block that have the same lane, in each of them.
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
    axes_fold(u64 results, u64 n, u64 partition, Scratch *scratch, u64 index) {
    Part part(results, n, partition, Part::of_warps(partition) ? IN_WINDOW : 0, 1, 0);
    u64 *const place = part.place<u64>();
    Fold state = Fold::identity();
#pragma unroll 1
    for (unsigned start = part.first(LEN * part.step()); start < part.end();
         start += part.next(LEN * part.step())) {
        Fold batch;
        asm volatile("ELEMENTS %0, %1, %2, %3;"
                     : "=l"(batch.value), "=l"(batch.index)
                     : "l"(static_cast<u64>(start + part.offset())), "l"(static_cast<u64>(part.end())));
        state.merge(batch);
    }
    part = part.again(partition, 1, 0);
    state = of_lanes(state, 2 * part.highest(), part.lowest());
    if (!part.is_alone) {
        state = of_warps(state);
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
