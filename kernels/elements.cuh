// The parts that reductions of whole arrays and along axes share: the exact sums of a warp, and the states of folds. The
// instructions that load the elements of a formula take the place of hooks (hooks.cuh).
#pragma once
#include "levels.cuh"
#include "plain.cuh"

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

// The number of levels that hold most batches of ordinary elements: the other levels then do not
// change, and the exponents of f32 tell before.
template <class K>
constexpr int FEW_LEVELS = sizeof(typename K::Element) == 4 ? (K::LEVELS + 1) / 2 : K::LEVELS;

// The elements of a result that is that of the whole grid, as warps take them: STEP apart.
struct OfGrid {
    // Says whether ordinary elements are added in plain sums.
    static constexpr bool HAS_PLAIN = false;
    u64 n;

    __device__ OfGrid(u64 n, int, Scratch *) : n(n) {}

    __device__ static constexpr int step() { return WARP; }
    // The number of the calling thread's first element among those of a batch.
    __device__ static int offset() { return lane(); }
    __device__ u64 end() const { return n; }
    // The first element of the warp's first batch, and of the batch after another one.
    __device__ static u64 first(int len) { return first_batch(len); }
    __device__ u64 after(u64 start, int len) { return start + next_batch(len); }
    // Returns whether the window alone must hold the sum. The window reaches `spare` bits above a batch, and its unit
    // is on a grid.
    __device__ static constexpr bool in_window() { return false; }
    // Returns whether the plain sum alone must hold it, or the levels of all finite terms.
    __device__ static constexpr bool in_plain() { return false; }
    __device__ static constexpr bool in_levels() { return false; }
    __device__ static constexpr int spare() { return 0; }
    __device__ static constexpr int grid() { return policy::GRID; }
};

// The same in two parts, since some multiprocessors read memory faster than others: the batches of the first part are
// divided evenly among the warps, which take portions of the second one as they are ready. Of terms of a kind.
template <class K>
struct OfGridInPortions : OfGrid {
    // The fewest batches of a warp for which there is a second part, if there are several blocks. It is one batch of
    // SHARE, in portions of PORTION batches.
    static constexpr int FEWEST = policy::FEWEST_FOR_PORTIONS, SHARE = policy::PORTION_SHARE, PORTION = policy::PORTION;
    // Has the counts of portions.
    Scratch *scratch;
    // The batches that are left of a portion, and in the warp's first thread the count of the next one.
    int left;
    unsigned next;

    // The whole block has to wait before it asks for a batch.
    __device__ OfGridInPortions(u64 n, int len, Scratch *scratch)
        : OfGrid(n, len, scratch), scratch(scratch), left(0), next(0) {
        const u64 batches = n / next_batch(len);
        divided() = batches < FEWEST || gridDim.x == 1 ? 0xFFFFFFFF : batches - batches / SHARE;
    }

    // The batches of each warp in the first part: in shared memory, for lack of registers.
    __device__ static unsigned &divided() {
        __shared__ unsigned divided;
        return divided;
    }

    // Asks for a portion's count while the warp has one portion, or one batch of the first part, to add.
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

// Returns whether elements are added in plain sums first.
template <class Elements>
__device__ inline bool has_plain(const Elements &of, u64 mode) {
    return mode != BY_INTEGERS && !of.in_window() && !of.in_levels();
}

// Adds pairs of whole batches of a warp alone in its plain sum from `start` on, and loads both batches of a pair before it
// waits for one. Returns the first batch that is not added.
template <int LEN, class Elements>
__device__ inline unsigned add_pairs(Plain &plain, const Elements &of, unsigned start) {
    const unsigned len = LEN * of.step(), next = of.next(len);
#pragma unroll 1
    while (start + next + len <= of.end()) {
        float x[2 * LEN];
        if (!whole_elements(start + of.offset(), x) || !whole_elements(start + next + of.offset(), x + LEN) ||
            !plain.add(x, true)) {
            break;
        }
        start += 2 * next;
    }
    return start;
}

// Keeps elements in registers that hold vectors, as they are where vectors are loaded: otherwise the compiler moves each
// batch from there to others, and waits for it. The store says so, and never runs: a mode has no further bits, which the
// compiler does not know.
template <class K, int N>
__device__ inline void keep_in_vectors(Columns<K> &columns, const float (&x)[N], u64 mode) {
    if (mode > BY_INTEGERS) {
#pragma unroll
        for (int k = 0; k < N; k += 4) {
            reinterpret_cast<float4 *>(&columns)[k / 4] = make_float4(x[k], x[k + 1], x[k + 2], x[k + 3]);
        }
    }
}

// Adds all batches of this warp. Elements behind the last one are zeros. Returns in the whole warp false, and leaves
// the columns as they are, if the sum is to be in the window or in levels, and these do not hold a batch.
template <class K, class Elements>
__device__ inline bool add_elements(Columns<K> &columns, Window<K> &window, Plain &plain, Elements &of,
                                    u64 mode) {
    typedef typename K::Element T;
    constexpr int LEN = K::BATCH;
    constexpr bool HAS_PLAIN = HAS_LEVELS<K> && Elements::HAS_PLAIN;
    int skipped = 0, to_skip = 0, deposits = 0;
    auto first = of.first(LEN * of.step());
    if constexpr (HAS_PLAIN) {
        if (of.in_plain()) {
            first = add_pairs<LEN>(plain, of, first);
            if (!plain.is_exact()) {
                of.go_on_in_window();
                if (!window.begin_with(plain.sum, plain.terms, plain.range())) {
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
        if constexpr (HAS_PLAIN) {
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
        if constexpr (HAS_PLAIN) {
            if (!has_plain(of, mode)) {
                // It has a window or integers.
            } else if (plain.to_skip > 0) {
                plain.to_skip--;
            } else {
                bool is_added = plain.add(x, of.in_plain());
                if (of.in_plain() && !is_added) {
                    return false;
                }
                if (!is_added && plain.terms > 0) {
                    plain.flush(columns);
                    deposits++;
                    is_added = plain.add(x, false);
                }
                plain.to_skip = plain.skipped = is_added ? 0 : min(2 * plain.skipped + 1, policy::MOST_SKIPPED);
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
            if constexpr (HAS_PLAIN) {
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
    if (!of.in_window() && !of.in_plain()) {
        plain.flush(columns);
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

// Two words: a value, and an index if the reduction has one.
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

// Merges the states of those of `count` neighbouring lanes whose distance is a multiple of `step`, in each of
// them.
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
