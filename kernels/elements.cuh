// The parts that reductions of whole arrays and along axes share: the exact sums of a warp, and the states of folds. The
// instructions that load the elements of a formula take the place of placeholders (placeholders.cuh).
#pragma once
#include "levels.cuh"
#include "uniform.cuh"

namespace exact {

constexpr int FINISH_SUM = 0, FINISH_MEAN = 1, FINISH_NORM = 2;

template <class T, int D, int L, int N>
__device__ inline void read(u64 i, u64 n, const Sum<T, D, L> &, T (&x)[N], T (&y)[N]) {
    elements(i, n, x);
#pragma unroll
    for (int k = 0; k < N; k++) {
        y[k] = 0;
    }
}

template <class T, int D, int L, int F, int N>
__device__ inline void read(u64 i, u64 n, const Dot<T, D, L, F, 2> &, T (&x)[N], T (&y)[N]) {
    pairs(i, n, x, y);
}

template <class T, int D, int L, int F, int N>
__device__ inline void read(u64 i, u64 n, const Dot<T, D, L, F, 1> &, T (&x)[N], T (&y)[N]) {
    elements(i, n, x);
#pragma unroll
    for (int k = 0; k < N; k++) {
        y[k] = x[k];
    }
}

// The number of levels that hold most batches of ordinary elements. The exponents of f32 show beforehand if they hold a
// batch. The other levels then need not change.
template <class K>
constexpr int FEW_LEVELS = sizeof(typename K::Element) == 4 ? (K::LEVELS + 1) / 2 : K::LEVELS;

// The elements of a whole grid's only result, as warps take them. The elements of a thread are a step apart.
struct OfGrid {
    // True if ordinary elements are added as uniform sums.
    static constexpr bool HAS_UNIFORM = false;
    u64 n;

    __device__ OfGrid(u64 n, int, Scratch *) : n(n) {}

    __device__ static constexpr int step() { return WARP; }
    // The position of the calling thread's first element in a batch.
    __device__ static int offset() { return lane(); }
    __device__ u64 end() const { return n; }
    // The first element of the warp's first batch, and of the batch after the one at `start`.
    __device__ static u64 first(int len) { return first_batch(len); }
    __device__ u64 after(u64 start, int len) { return start + next_batch(len); }
    // True if the window alone must hold the sum. It reaches `spare` bits above a batch, and its unit is on a grid.
    __device__ static constexpr bool in_window() { return false; }
    // True if the uniform sum alone must hold the sum, or the levels of all finite terms.
    __device__ static constexpr bool in_uniform() { return false; }
    __device__ static constexpr bool in_levels() { return false; }
    __device__ static constexpr int spare() { return 0; }
    __device__ static constexpr int grid() { return policy::GRID; }
};

// The same elements in two parts, because some multiprocessors read memory faster than others. The batches of the first part
// are divided evenly among the warps. Warps take portions of the second part as they are ready. K is the kind of sum.
template <class K>
struct OfGridInPortions : OfGrid {
    // There is a second part if there are several blocks and a warp has at least FEWEST batches. It has one batch in SHARE, in
    // portions of PORTION batches.
    static constexpr int FEWEST = policy::FEWEST_FOR_PORTIONS, SHARE = policy::PORTION_SHARE, PORTION = policy::PORTION;
    // The memory with the counters of portions.
    Scratch *scratch;
    // The remaining batches of a portion; in the warp's first thread, the number of the next portion.
    int left;
    unsigned next;

    // The block must synchronize before it asks for a batch: this writes `divided`.
    __device__ OfGridInPortions(u64 n, int len, Scratch *scratch)
        : OfGrid(n, len, scratch), scratch(scratch), left(0), next(0) {
        const u64 batches = n / next_batch(len);
        divided() = batches < FEWEST || gridDim.x == 1 ? 0xFFFFFFFF : batches - batches / SHARE;
    }

    // The batches of each warp in the first part, in shared memory because registers are scarce.
    __device__ static unsigned &divided() {
        __shared__ unsigned divided;
        return divided;
    }

    // Asks for the next portion's number one portion, or one batch of the first part, ahead, which hides the latency.
    __device__ u64 after(u64 start, int len) {
        if (left > 0) {
            left--;
            return start + len;
        }
        const u64 distance = next_batch(len), shared = divided() * distance, following = start + distance;
        if (following + distance < shared) {
            return following;
        }
        const unsigned counters = min(static_cast<unsigned>(COUNTERS), gridDim.x * (BLOCK_THREADS / WARP));
        const unsigned of_warp = grid_thread() / WARP % counters;
        const u64 count = __shfl_sync(ALL_THREADS, next, 0);
        if (lane() == 0) {
            next = atomicAdd(counter(scratch, of_warp), 1);
        }
        if (following < shared) {
            return following;
        }
        left = PORTION - 1;
        return shared + (count * counters + of_warp) * PORTION * len;
    }
};

// True if elements are added as uniform sums first.
template <class Elements>
__device__ inline bool has_uniform(const Elements &of, u64 mode) {
    return mode != BY_INTEGERS && !of.in_window() && !of.in_levels();
}

// Adds pairs of whole batches from `start` on to the uniform sum of a warp alone. Loads both batches of a pair before it
// waits for one. Returns the start of the first batch that is not added.
template <int LEN, class Elements>
__device__ inline unsigned add_pairs(UniformSum &uniform, const Elements &of, unsigned start) {
    const unsigned len = LEN * of.step(), next = of.next(len);
#pragma unroll 1
    while (start + next + len <= of.end()) {
        float x[2 * LEN];
        if (!whole_elements(start + of.offset(), x) || !whole_elements(start + next + of.offset(), x + LEN) ||
            !uniform.add(x, true)) {
            break;
        }
        start += 2 * next;
    }
    return start;
}

// Makes the compiler keep elements in the aligned registers into which it loads vectors. Otherwise it moves each batch to
// other registers, and waits for the load. The store of vectors never runs, but the compiler does not know that modes have
// no further bits.
template <class K, int N>
__device__ inline void keep_in_vectors(Columns<K> &columns, const float (&x)[N], u64 mode) {
    if (mode > BY_INTEGERS) {
#pragma unroll
        for (int k = 0; k < N; k += 4) {
            reinterpret_cast<float4 *>(&columns)[k / 4] = make_float4(x[k], x[k + 1], x[k + 2], x[k + 3]);
        }
    }
}

// Adds all batches of this warp. Elements past the last one count as zeros. If the window, the uniform sum or the levels
// alone must hold the sum, but do not hold a batch, returns false in the whole warp and leaves the columns unchanged.
template <class K, class Elements>
__device__ inline bool add_elements(Columns<K> &columns, Window<K> &window, UniformSum &uniform, Elements &of,
                                    u64 mode) {
    typedef typename K::Element T;
    constexpr int LEN = K::BATCH;
    constexpr bool HAS_UNIFORM = HAS_LEVELS<K> && Elements::HAS_UNIFORM;
    int skipped = 0, to_skip = 0, deposits = 0;
    auto first = of.first(LEN * of.step());
    if constexpr (HAS_UNIFORM) {
        if (of.in_uniform()) {
            first = add_pairs<LEN>(uniform, of, first);
            if (!uniform.is_exact()) {
                of.go_on_in_window();
                if (!window.begin_with(uniform.sum, uniform.terms, uniform.range())) {
                    return false;
                }
            }
        }
    }
#pragma unroll 1
    for (auto start = first; start < of.end(); start = of.after(start, LEN * of.step())) {
        if (deposits > MOST_DEPOSITS - LEN - K::LEVELS - 1) {
            columns.normalise();
            deposits = 0;
        }
        T x[LEN], y[LEN];
        const bool is_whole = of.end() - start >= LEN * of.step();
        bool is_read = false;
        if constexpr (HAS_UNIFORM) {
            is_read = is_whole && whole_elements(start + of.offset(), x);
        }
        if (!is_read) {
            read(start + of.offset(), of.end(), K(), x, y);
        }
        if (!is_whole) {
            const int len = static_cast<int>(of.end() - start) - of.offset();
#pragma unroll
            for (int k = 0; k < LEN; k++) {
                const bool is_there = k * of.step() < len;
                x[k] = is_there ? x[k] : 0;
                y[k] = is_there ? y[k] : 0;
            }
        }
        if constexpr (HAS_LEVELS<K>) {
            if (of.in_levels()) {
                if (!Levels::of(columns).add(x)) {
                    return false;
                }
                continue;
            }
        }
        if constexpr (HAS_UNIFORM) {
            if (!has_uniform(of, mode)) {
                // A window or integers hold the batch.
            } else if (uniform.to_skip > 0) {
                uniform.to_skip--;
            } else {
                bool is_added = uniform.add(x, of.in_uniform());
                if (of.in_uniform() && !is_added) {
                    return false;
                }
                if (!is_added && uniform.terms > 0) {
                    uniform.flush(columns);
                    deposits++;
                    is_added = uniform.add(x, false);
                }
                uniform.to_skip = uniform.skipped = is_added ? 0 : min(2 * uniform.skipped + 1, policy::MOST_SKIPPED);
                if (is_added) {
                    continue;
                }
            }
        }
        bool is_done = false;
        if (mode != BY_INTEGERS && to_skip == 0) {
            const Range range = K::template range<LEN>(x, y);
            bool moves = !window.reaches(range.top);
#pragma unroll 1
            while (true) {
                if (moves) {
                    if (of.in_window() && window.batches > 0) {
                        return false;
                    }
                    window.flush(columns);
                    deposits += K::LEVELS;
                    window.unit = window.reaching(range.top + of.spare(), of.grid());
                }
                if (window.unit <= MAX_UNIT) {
                    constexpr int FEW = FEW_LEVELS<K>;
                    if (FEW < K::LEVELS && window.template holds<FEW>(range.unit)) {
                        is_done = window.template add<LEN, FEW, true>(x, y);
                    } else {
                        is_done = window.template add<LEN>(x, y);
                    }
                }
                if (is_done || moves) {
                    break;
                }
                // A lower window may hold the batch.
                moves = true;
            }
            to_skip = skipped = is_done ? 0 : min(2 * skipped + 1, policy::MOST_SKIPPED);
        } else {
            to_skip -= to_skip > 0;
        }
        if (!is_done) {
            if constexpr (HAS_UNIFORM) {
                keep_in_vectors(columns, x, mode);
            }
            if (of.in_window()) {
                return false;
            }
            deposits += LEN;
#pragma unroll 1
            for (int k = 0; k < LEN; k++) {
                K::add(columns, x[0], y[0]);
#pragma unroll
                for (int next = 1; next < LEN; next++) {
                    x[next - 1] = x[next];
                    y[next - 1] = y[next];
                }
            }
        }
    }
    if (!of.in_window() && !of.in_uniform()) {
        uniform.flush(columns);
        window.flush(columns);
    }
    return true;
}

// The result of a sum of `n` elements, rounded once.
template <class T>
__device__ inline T result_of(Leading sum, u64 n, int what) {
    if (what == FINISH_MEAN) {
        sum.divide(n);
    } else if (what == FINISH_NORM) {
        sum.root();
    }
    return sum.rounded<T>();
}

}  // namespace exact

constexpr int BLOCKS = policy::BLOCKS;

// The state of a fold: a value, and an index if the reduction has one.
struct Fold {
    u64 value, index;

    __device__ static Fold identity() {
        Fold fold;
        ::identity(fold.value, fold.index);
        return fold;
    }

    __device__ void merge(Fold other) {
        ::merge(value, index, value, index, other.value, other.index);
    }
};

// Merges the states of the lanes among `count` adjacent ones that are multiples of `step` apart. Each of these lanes returns
// the merged state.
__device__ inline Fold of_lanes(Fold state, int count, int step = 1) {
#pragma unroll 1
    for (int half = count / 2; half >= step; half /= 2) {
        const u64 value = __shfl_xor_sync(ALL_THREADS, state.value, half);
        const u64 index = __shfl_xor_sync(ALL_THREADS, state.index, half);
        state.merge(Fold{value, index});
    }
    return state;
}

constexpr int FOLD_BATCH = policy::FOLD_BATCH;
