// Reductions by key: kernels without the formula of the elements (placeholders.cuh). Each element has a value and a key, an
// integer from 0 on. Elements of the same key are a group.
//
// A launch adds its elements to a table of words of 64 bits, which is zero before the first launch:
//
// | words | hold |
// |---|---|
// | 0 | the complement of the index of the first element whose key is outside the groups, or 0 if there is none |
// | 1 | a bit for each window with bits of terms that the table lacks (exact sums) |
// | then | columns, each with a word for each state |
//
// The state of a group in result r has the number r * groups + key.
//
// Exact sums count in windows. Window w has the bits of terms from the exponent base + WIDTH * w on. A term adds to each
// window the integer that its bits in the window are, with the term's sign, so the sum of all windows is exact:
//
// | columns | hold |
// |---|---|
// | CELL / 2 for each window of the table | the sum of the window as an integer of 32 * CELL bits, the lowest word first |
// | the last | a bit each for a NaN (1), +Inf (2), -Inf (4) among the terms, plus 8 times the number of elements if counted |
//
// | kernel | WIDTH | CELL | the most elements of a table | of each thread in a batch |
// |---|---|---|---|---|
// | by_key_sum_f32 | 36 | 2 | 2^27 | 8 |
// | by_key_sum_f64, also for products of f32, which are exact in f64 | 96 | 4 | 2^31 | 4 |
// | by_key_dot_f64, for products of f64 | 96 | 4 | 2^31 | 4 |
//
// The base is at most the least exponent of a term's bits, and above it less WIDTH: then there are at most 64 windows.
//
// Folds (by_key_fold) have one column. Its words are kept so that 0 is the state of no elements: a sum, the greatest value
// with the highest bit inverted, the least value with the other bits inverted, or a product with the lowest bit inverted.
//
// These parameters, of 64 bits each, follow the inputs (and along axes those of the shape, crates/ptx/src/by_key.rs):
//
// | parameter | holds |
// |---|---|
// | table | the address of the table |
// | results | the number of results along the axes that are not reduced, 1 if all are |
// | n | the number of elements of a result |
// | index | the number that is added to the index of an element outside the groups |
// | groups | the number of groups |
// | first, held | the launch's groups: from `first` on, `held` of them. Elements of other groups are left out |
// | copies | the number of copies of the launch's groups in shared memory, a power of two up to 32; 0 without shared memory |
//
// Exact sums have further ones:
//
// | parameter | holds |
// |---|---|
// | base | the exponent of the first window's lowest bit |
// | from, windows | the windows of the table: from the number `from` on, `windows` of them |
// | near, nears | the windows in shared memory, which the table has, too. 1 is the least number with shared memory |
// | main | the window that most terms are in, one of these |
// | counts | 1 if elements are counted, otherwise 0 |
//
// Blocks have by_key::THREADS threads. Their dynamic shared memory has held * copies words of 32 bits for each of CELL *
// nears + counts (exact sums), or of 2 (folds).
#include "reduce.cuh"
#include "rounding.cuh"

namespace by_key {

constexpr int THREADS = policy::BY_KEY_THREADS;

typedef long long i64;

// The words of a table before its columns.
constexpr int OUTSIDE = 0, LEFT = 1, HEADER = 2;

// What a table's last column has for a term that is not finite, and for an element.
constexpr u64 NAN_BIT = 1, PLUS_INFINITY = 2, MINUS_INFINITY = 4, ELEMENT = 8;

// The elements that a launch adds, and where.
struct Launch {
    u64 *table;
    u64 results, n, index, groups, first, held;
    unsigned copies;

    // The words of a result's groups in a column.
    __device__ u64 *column(int number, u64 result) const {
        return table + HEADER + (number * results + result) * groups;
    }

    // The place of a key among the copies in shared memory, in the copy of this lane.
    __device__ unsigned cell(unsigned of_key) const { return of_key * copies + (lane() & (copies - 1)); }

    __device__ unsigned cells() const { return static_cast<unsigned>(held) * copies; }

    // Returns true if the launch adds elements of this key. Notes a key outside the groups, of the element with the number
    // `i` in this result.
    __device__ bool has(i64 key, u64 result, u64 i) const {
        if (static_cast<u64>(key) - first < held) {
            return true;
        }
        if (static_cast<u64>(key) >= groups) {
            atomicMax(&table[OUTSIDE], ~(index + result * n + i));
        }
        return false;
    }

    // Calls `add` with the number of each result of the block, and the part of the result's warps that this warp is. Blocks
    // split results if there are more blocks.
    template <class Add>
    __device__ void for_each_result(Add add) const {
        const u64 splits = max(static_cast<u64>(gridDim.x) / results, 1ull), blocks = gridDim.x / splits;
        for (u64 result = blockIdx.x / splits; result < results && blockIdx.x / splits < blocks; result += blocks) {
            const u64 warps = splits * (THREADS / WARP);
            add(result, blockIdx.x % splits * (THREADS / WARP) + threadIdx.x / WARP, warps);
        }
    }
};

// Adds an integer of WORDS words to words `stride` apart, with carries.
template <int WORDS, class Word>
__device__ inline void add_words(Word *to, u64 stride, const Word (&words)[WORDS]) {
    Word carry = 0;
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        const Word word = words[k] + carry;
        carry = word < carry;
        if (word != 0) {
            if (k == WORDS - 1) {
                atomicAdd(to + k * stride, word);
            } else {
                carry |= atomicAdd(to + k * stride, word) + word < word;
            }
        }
    }
}

typedef unsigned __int128 u128;

// An integer as words.
template <int WORDS>
__device__ inline void split(u128 integer, unsigned (&words)[WORDS]) {
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        words[k] = static_cast<unsigned>(integer >> 32 * k);
    }
}

template <int WORDS>
__device__ inline void split(u128 integer, u64 (&words)[WORDS]) {
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        words[k] = static_cast<u64>(integer >> 64 * k);
    }
}

// A term: magnitude * 2^position in units of the base, or its negative.
template <class M>
struct Term {
    M magnitude;
    unsigned position;
    bool negative;
    // A bit if the term is not finite, otherwise 0.
    unsigned special;
};

__device__ inline unsigned special_bit(bool is_nan, bool negative) {
    return is_nan ? NAN_BIT : negative ? MINUS_INFINITY : PLUS_INFINITY;
}

// A term of a float. The base is 2^low times less than the format's least number.
template <class T, class M>
__device__ inline Term<M> term_of(T x, unsigned low) {
    typedef exact::Format<T> F;
    typedef typename F::Bits Bits;
    const Bits bits = F::bits(x), hidden = static_cast<Bits>(1) << (F::PRECISION - 1), fraction = bits & (hidden - 1);
    const int stored = static_cast<int>(bits >> (F::PRECISION - 1)) & exact::SPECIAL<T>;
    Term<M> term;
    term.negative = bits >> (8 * sizeof(T) - 1) != 0;
    term.magnitude = fraction | (stored != 0 ? hidden : 0);
    term.position = (stored != 0 ? stored - 1 : 0) + low;
    term.special = stored == exact::SPECIAL<T> ? special_bit(fraction != 0, term.negative) : 0;
    return term;
}

// The kinds of sums.
struct SumF32 {
    typedef u64 Magnitude;
    static constexpr int WIDTH = 36, CELL = 2, BITS = 24, LEAST = exact::Format<float>::LEAST;
    static constexpr int BATCH = policy::BY_KEY_BATCH_OF_F32;
    float x[BATCH];
    i64 keys[BATCH];

    __device__ void load(u64 i, u64 n) { elements(i, n, x, keys); }
    __device__ Term<Magnitude> term(int k, unsigned low) const { return term_of<float, Magnitude>(x[k], low); }
};

struct SumF64 {
    typedef u128 Magnitude;
    static constexpr int WIDTH = 96, CELL = 4, BITS = 53, LEAST = exact::Format<double>::LEAST;
    static constexpr int BATCH = policy::BY_KEY_BATCH;
    double x[BATCH];
    i64 keys[BATCH];

    __device__ void load(u64 i, u64 n) { elements(i, n, x, keys); }
    __device__ Term<Magnitude> term(int k, unsigned low) const { return term_of<double, Magnitude>(x[k], low); }
};

struct DotF64 {
    typedef u128 Magnitude;
    static constexpr int WIDTH = 96, CELL = 4, BITS = 106, LEAST = 2 * exact::Format<double>::LEAST;
    static constexpr int BATCH = policy::BY_KEY_BATCH;
    double x[BATCH], y[BATCH];
    i64 keys[BATCH];

    __device__ void load(u64 i, u64 n) { pairs(i, n, x, y, keys); }

    __device__ Term<Magnitude> term(int k, unsigned low) const {
        Term<Magnitude> term = term_of<double, Magnitude>(x[k], low);
        const Term<Magnitude> other = term_of<double, Magnitude>(y[k], 0);
        term.negative ^= other.negative;
        if (term.special != 0 || other.special != 0) {
            const bool is_nan = ((term.special | other.special) & NAN_BIT) != 0;
            const bool has_zero = (term.special == 0 && term.magnitude == 0) || (other.special == 0 && other.magnitude == 0);
            term.special = special_bit(is_nan || has_zero, term.negative);
        }
        term.position += other.position;
        term.magnitude = static_cast<u128>(static_cast<u64>(term.magnitude)) * static_cast<u64>(other.magnitude);
        return term;
    }
};

// The windows of a launch.
struct Windows {
    int base;
    unsigned from, count, near, nears, main;
    bool counts;
};

extern __shared__ __align__(8) unsigned shared[];

// Adds to the sums of one result.
template <class K>
struct Sums {
    typedef typename K::Magnitude M;
    static constexpr int WORDS = K::CELL / 2;
    static constexpr M MASK = (static_cast<M>(1) << K::WIDTH) - 1;

    const Launch &launch;
    const Windows &windows;
    u64 result;

    __device__ u64 *column(int number) const { return launch.column(number, result); }
    __device__ u64 stride() const { return launch.results * launch.groups; }

    // Adds an integer to the word of a key in a window.
    __device__ void add_to_table(u64 key, unsigned window, M integer) const {
        u64 words[WORDS];
        split(integer, words);
        add_words(column((window - windows.from) * WORDS) + key, stride(), words);
    }

    __device__ void add_to_cell(unsigned of_key, unsigned window, M integer) const {
        unsigned words[K::CELL];
        split(integer, words);
        const unsigned cells = launch.cells();
        add_words(shared + (window - windows.near) * cells + launch.cell(of_key), windows.nears * cells, words);
    }

    // Adds the bits of a term in one window.
    __device__ void add(u64 key, unsigned window, M bits, bool negative) const {
        const M integer = negative ? -bits : bits;
        if (window - windows.near < windows.nears) {
            add_to_cell(static_cast<unsigned>(key - launch.first), window, integer);
        } else if (window - windows.from < windows.count) {
            add_to_table(key, window, integer);
        } else {
            atomicOr(&launch.table[LEFT], 1ull << window);
        }
    }

    // Adds a term in all windows that have some of its bits.
    __device__ void add_in_windows(u64 key, Term<M> term) const {
        if (term.special != 0) {
            atomicOr(column(windows.count * WORDS) + key, static_cast<u64>(term.special));
            return;
        }
#pragma unroll 1
        while (term.magnitude != 0) {
            const unsigned window = term.position / K::WIDTH, shift = term.position % K::WIDTH;
            const M bits = term.magnitude << shift & MASK;
            if (bits != 0) {
                add(key, window, bits, term.negative);
            }
            term.magnitude >>= K::WIDTH - shift;
            term.position += K::WIDTH - shift;
        }
    }

    __device__ void add_element(const K &batch, int k) const {
        const Term<M> term = batch.term(k, static_cast<unsigned>(K::LEAST - windows.base));
        const u64 key = static_cast<u64>(batch.keys[k]);
        const unsigned shift = term.position - windows.main * K::WIDTH;
        if (term.special == 0 && shift <= K::WIDTH - K::BITS) {
            const M bits = term.magnitude << shift, integer = term.negative ? -bits : bits;
            if (launch.copies != 0) {
                add_to_cell(static_cast<unsigned>(key - launch.first), windows.main, integer);
            } else {
                add_to_table(key, windows.main, integer);
            }
        } else {
            add_in_windows(key, term);
        }
        if (windows.counts) {
            if (launch.copies != 0) {
                atomicAdd(counters() + launch.cell(static_cast<unsigned>(key - launch.first)), 1u);
            } else {
                atomicAdd(column(windows.count * WORDS) + key, ELEMENT);
            }
        }
    }

    // The numbers of elements in shared memory, behind the cells.
    __device__ unsigned *counters() const { return shared + K::CELL * windows.nears * launch.cells(); }

    // The words of shared memory.
    __device__ unsigned words() const { return (K::CELL * windows.nears + windows.counts) * launch.cells(); }

    // Moves the sums in shared memory to the table.
    __device__ void flush() const {
        const unsigned held = static_cast<unsigned>(launch.held), cells = launch.cells();
        for (unsigned i = threadIdx.x; i < held * windows.nears; i += THREADS) {
            M sum = 0;
            for (unsigned copy = 0; copy < launch.copies; copy++) {
                unsigned *const cell = shared + i * launch.copies + (copy + lane() & (launch.copies - 1));
#pragma unroll
                for (int k = 0; k < K::CELL; k++) {
                    sum += static_cast<M>(cell[k * windows.nears * cells]) << 32 * k;
                }
            }
            if (sum != 0) {
                add_to_table(launch.first + i % held, windows.near + i / held, sum);
            }
        }
        for (unsigned i = threadIdx.x; windows.counts && i < held; i += THREADS) {
            u64 count = 0;
            for (unsigned copy = 0; copy < launch.copies; copy++) {
                count += counters()[i * launch.copies + (copy + lane() & (launch.copies - 1))];
            }
            if (count != 0) {
                atomicAdd(column(windows.count * WORDS) + launch.first + i, ELEMENT * count);
            }
        }
    }
};

// Adds all elements of the launch to the states that `of` returns for each result.
template <class K, class Of>
__device__ inline void add_all(const Launch &launch, Of of) {
    launch.for_each_result([&](u64 result, u64 warp, u64 warps) {
        const auto states = of(result);
        place_by_key(result);
        for (unsigned i = threadIdx.x; i < states.words(); i += THREADS) {
            shared[i] = 0;
        }
        __syncthreads();
        constexpr u64 LEN = K::BATCH * WARP;
#pragma unroll 1
        for (u64 start = warp * LEN; start < launch.n; start += warps * LEN) {
            K batch;
            batch.load(start + lane(), launch.n);
#pragma unroll
            for (int k = 0; k < K::BATCH; k++) {
                const u64 i = start + lane() + k * WARP;
                if (i < launch.n && launch.has(batch.keys[k], result, i)) {
                    states.add_element(batch, k);
                }
            }
        }
        __syncthreads();
        if (launch.copies != 0) {
            states.flush();
            __syncthreads();
        }
    });
}

// A batch of a fold: each element's state, and its key.
struct Words {
    static constexpr int BATCH = policy::BY_KEY_BATCH;
    u64 words[BATCH];
    i64 keys[BATCH];

    __device__ void load(u64 i, u64 n) { elements(i, n, words, keys); }
};

// Merges words of one result.
struct Folds {
    const Launch &launch;
    u64 result;
    int operation;

    __device__ void merge(u64 *to, u64 word) const {
        if (operation == FOLD_ADD) {
            atomicAdd(to, word);
        } else if (operation == FOLD_MAX) {
            if (word > *static_cast<volatile u64 *>(to)) {
                atomicMax(to, word);
            }
        } else {
            u64 old = *static_cast<volatile u64 *>(to), assumed;
            do {
                assumed = old;
                old = atomicCAS(to, assumed, ((assumed ^ 1) * (word ^ 1)) ^ 1);
            } while (old != assumed);
        }
    }

    // Sums have their words in shared memory in halves: it has no additions of 64 bits.
    __device__ void merge_to_cell(unsigned cell, u64 word) const {
        if (operation == FOLD_ADD) {
            unsigned words[2];
            split(word, words);
            add_words(shared + cell, launch.cells(), words);
        } else {
            merge(reinterpret_cast<u64 *>(shared) + cell, word);
        }
    }

    __device__ u64 word(unsigned cell) const {
        return operation == FOLD_ADD ? static_cast<u64>(shared[cell + launch.cells()]) << 32 | shared[cell]
                                     : reinterpret_cast<u64 *>(shared)[cell];
    }

    __device__ void add_element(const Words &batch, int k) const {
        if (launch.copies != 0) {
            merge_to_cell(launch.cell(static_cast<unsigned>(batch.keys[k] - launch.first)), batch.words[k]);
        } else {
            merge(launch.column(0, result) + batch.keys[k], batch.words[k]);
        }
    }

    __device__ unsigned words() const { return 2 * launch.cells(); }

    __device__ void flush() const {
        for (unsigned i = threadIdx.x; i < launch.cells(); i += THREADS) {
            if (word(i) != 0) {
                merge(launch.column(0, result) + launch.first + i / launch.copies, word(i));
            }
        }
    }
};

}  // namespace by_key

#define EXACT_BY_KEY(name, K)                                                                                    \
    extern "C" __global__ void __launch_bounds__(by_key::THREADS, 1)                                              \
        by_key_##name(u64 *table, u64 results, u64 n, u64 index, u64 groups, u64 first, u64 held, u64 copies,     \
                      u64 base, u64 from, u64 windows, u64 near, u64 nears, u64 main, u64 counts) {               \
        const by_key::Launch launch{table, results, n, index, groups, first, held, static_cast<unsigned>(copies)}; \
        const by_key::Windows of{static_cast<int>(base),       static_cast<unsigned>(from),                      \
                                 static_cast<unsigned>(windows), static_cast<unsigned>(near),                     \
                                 static_cast<unsigned>(nears), static_cast<unsigned>(main), counts != 0};         \
        by_key::add_all<K>(launch, [&](u64 result) { return by_key::Sums<K>{launch, of, result}; });              \
    }

EXACT_BY_KEY(sum_f32, by_key::SumF32)
EXACT_BY_KEY(sum_f64, by_key::SumF64)
EXACT_BY_KEY(dot_f64, by_key::DotF64)

extern "C" __global__ void __launch_bounds__(by_key::THREADS, 1)
    by_key_fold(u64 *table, u64 results, u64 n, u64 index, u64 groups, u64 first, u64 held, u64 copies) {
    const by_key::Launch launch{table, results, n, index, groups, first, held, static_cast<unsigned>(copies)};
    const int operation = fold_operation();
    by_key::add_all<by_key::Words>(launch, [&](u64 result) { return by_key::Folds{launch, result, operation}; });
}
