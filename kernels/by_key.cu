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
// Blocks have the threads that the text says (Kernel::threads of crates/ptx). Their dynamic shared memory has held * copies words of 32 bits for each of CELL *
// nears + counts (exact sums), or of 2 (folds).
#include "reduce.cuh"
#include "rounding.cuh"

namespace by_key {

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

    // Returns true for the keys of the launch's groups, and for keys outside all groups.
    __device__ bool holds(i64 key) const { return static_cast<u64>(key) - first < held; }
    __device__ bool is_outside(i64 key) const { return static_cast<u64>(key) >= groups; }

    // Calls `add` with the number of each result of the block, and the part of the result's warps that this warp is. Blocks
    // split results if there are more blocks.
    template <class Add>
    __device__ void for_each_result(Add add) const {
        const u64 splits = max(static_cast<u64>(gridDim.x) / results, 1ull), blocks = gridDim.x / splits;
        for (u64 result = blockIdx.x / splits; result < results && blockIdx.x / splits < blocks; result += blocks) {
            const u64 warps = splits * (blockDim.x / WARP);
            add(result, blockIdx.x % splits * (blockDim.x / WARP) + threadIdx.x / WARP, warps);
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

// The value of the lane whose number differs in the bits of `mask`.
__device__ inline u64 shuffled(u64 value, int mask) { return __shfl_xor_sync(ALL_THREADS, value, mask); }

__device__ inline u128 shuffled(u128 value, int mask) {
    const u64 low = shuffled(static_cast<u64>(value), mask), high = shuffled(static_cast<u64>(value >> 64), mask);
    return static_cast<u128>(high) << 64 | low;
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

// The elements of a thread, WARP from one another, with their keys.
template <class T, int N>
struct Batch {
    static constexpr int LEN = N;
    T x[N];
    i64 keys[N];

    __device__ void load(u64 i, u64 n) { elements(i, n, x, keys); }

    // Moves each element one place down.
    __device__ void shift() {
#pragma unroll
        for (int k = 1; k < N; k++) {
            x[k - 1] = x[k];
            keys[k - 1] = keys[k];
        }
    }

    // Returns true in the whole warp if all its elements have the same key.
    __device__ bool has_one_key() const {
        bool is_same = keys[0] == __shfl_sync(ALL_THREADS, keys[0], 0);
#pragma unroll
        for (int k = 1; k < N; k++) {
            is_same &= keys[k] == keys[0];
        }
        return __all_sync(ALL_THREADS, is_same);
    }
};

// The kinds of sums: the magnitudes of terms, the windows, the bits of a term, and the exponent of the lowest one.
struct SumF32 : Batch<float, policy::BY_KEY_BATCH_OF_F32> {
    typedef u64 Magnitude;
    static constexpr int WIDTH = 36, CELL = 2, BITS = 24, LEAST = exact::Format<float>::LEAST;

    __device__ Term<Magnitude> term(int k, unsigned low) const { return term_of<float, Magnitude>(x[k], low); }
};

struct SumF64 : Batch<double, policy::BY_KEY_BATCH> {
    typedef u128 Magnitude;
    static constexpr int WIDTH = 96, CELL = 4, BITS = 53, LEAST = exact::Format<double>::LEAST;

    __device__ Term<Magnitude> term(int k, unsigned low) const { return term_of<double, Magnitude>(x[k], low); }
};

struct DotF64 : Batch<double, policy::BY_KEY_BATCH> {
    typedef u128 Magnitude;
    static constexpr int WIDTH = 96, CELL = 4, BITS = 106, LEAST = 2 * exact::Format<double>::LEAST;
    double y[LEN];

    __device__ void load(u64 i, u64 n) { pairs(i, n, x, y, keys); }

    __device__ void shift() {
        Batch::shift();
#pragma unroll
        for (int k = 1; k < LEN; k++) {
            y[k - 1] = y[k];
        }
    }

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
    typedef K Batch;
    typedef typename K::Magnitude M;
    static constexpr int WORDS = K::CELL / 2;
    static constexpr M MASK = (static_cast<M>(1) << K::WIDTH) - 1;

    const Launch &launch;
    const Windows &windows;
    u64 result;

    __device__ u64 *column(int number) const { return launch.column(number, result); }
    __device__ u64 *last_column() const { return column(windows.count * WORDS); }
    __device__ unsigned of_launch(i64 key) const { return static_cast<unsigned>(key - launch.first); }
    __device__ u64 stride() const { return launch.results * launch.groups; }

    // Adds an integer to the word of a key in a window.
    __device__ void add_to_table(i64 key, unsigned window, M integer) const {
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
    __device__ void add(i64 key, unsigned window, M bits, bool negative) const {
        const M integer = negative ? -bits : bits;
        if (window - windows.near < windows.nears) {
            add_to_cell(of_launch(key), window, integer);
        } else if (window - windows.from < windows.count) {
            add_to_table(key, window, integer);
        } else {
            atomicOr(&launch.table[LEFT], 1ull << window);
        }
    }

    __device__ Term<M> term(const K &batch, int k) const {
        return batch.term(k, static_cast<unsigned>(K::LEAST - windows.base));
    }

    // Adds an integer in the main window.
    __device__ void add(i64 key, M integer) const {
        if (launch.copies != 0) {
            add_to_cell(of_launch(key), windows.main, integer);
        } else {
            add_to_table(key, windows.main, integer);
        }
    }

    __device__ void count(i64 key, unsigned elements) const {
        if (!windows.counts) {
            // Nothing to do.
        } else if (launch.copies != 0) {
            atomicAdd(counters() + launch.cell(of_launch(key)), elements);
        } else {
            atomicAdd(last_column() + key, ELEMENT * elements);
        }
    }

    // Computes the integer of a term in the main window. Returns false if other windows may have some of its bits.
    __device__ bool in_main(const K &batch, int k, M &integer) const {
        const Term<M> term = this->term(batch, k);
        const unsigned shift = term.position - windows.main * K::WIDTH;
        const bool is_held = shift <= K::WIDTH - K::BITS && term.special == 0;
        const M bits = is_held ? term.magnitude << shift : 0;
        integer = term.negative ? -bits : bits;
        return is_held || (term.magnitude == 0 && term.special == 0);
    }

    // Adds an element. Returns false if it is left to `add_in_windows`.
    __device__ bool add_element(const K &batch, int k) const {
        M integer;
        count(batch.keys[k], 1);
        const bool is_held = in_main(batch, k, integer);
        if (is_held) {
            add(batch.keys[k], integer);
        }
        return is_held;
    }

    // Adds all elements of a warp, which have one key. Returns a bit for each of the thread's elements that is left to
    // `add_in_windows`.
    __device__ unsigned add_batch(const K &batch) const {
        M sum = 0;
        unsigned rest = 0;
#pragma unroll
        for (int k = 0; k < K::LEN; k++) {
            M integer;
            rest |= in_main(batch, k, integer) ? 0 : 1 << k;
            sum += integer;
        }
#pragma unroll 1
        for (int half = WARP / 2; half > 0; half /= 2) {
            sum += shuffled(sum, half);
        }
        if (lane() == 0) {
            count(batch.keys[0], K::LEN * WARP);
            add(batch.keys[0], sum);
        }
        return rest;
    }

    // Adds the first element of a batch in all windows that have some of its bits.
    __device__ void add_in_windows(const K &batch) const {
        Term<M> term = this->term(batch, 0);
        const i64 key = batch.keys[0];
        if (term.special != 0) {
            atomicOr(last_column() + key, static_cast<u64>(term.special));
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

    // The numbers of elements in shared memory, behind the cells.
    __device__ unsigned *counters() const { return shared + K::CELL * windows.nears * launch.cells(); }

    // The words of shared memory.
    __device__ unsigned words() const { return (K::CELL * windows.nears + windows.counts) * launch.cells(); }

    // Moves the sums in shared memory to the table.
    __device__ void flush() const {
        const unsigned held = static_cast<unsigned>(launch.held), cells = launch.cells();
        for (unsigned i = threadIdx.x; i < held * windows.nears; i += blockDim.x) {
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
        for (unsigned i = threadIdx.x; windows.counts && i < held; i += blockDim.x) {
            u64 count = 0;
            for (unsigned copy = 0; copy < launch.copies; copy++) {
                count += counters()[i * launch.copies + (copy + lane() & (launch.copies - 1))];
            }
            if (count != 0) {
                atomicAdd(last_column() + launch.first + i, ELEMENT * count);
            }
        }
    }
};

// Adds all elements of the launch to the states that `of` returns for each result.
template <class Of>
__device__ inline void add_all(const Launch &launch, Of of) {
    launch.for_each_result([&](u64 result, u64 warp, u64 warps) {
        const auto states = of(result);
        typedef typename decltype(of(result))::Batch Batch;
        place_by_key(result);
        for (unsigned i = threadIdx.x; i < states.words(); i += blockDim.x) {
            shared[i] = 0;
        }
        __syncthreads();
        constexpr u64 LEN = Batch::LEN * WARP;
#pragma unroll 1
        for (u64 start = warp * LEN; start < launch.n; start += warps * LEN) {
            Batch batch;
            const u64 i = start + lane();
            batch.load(i, launch.n);
            const int left = static_cast<int>(min(launch.n - start, LEN)) - lane();
            // A bit for each element that is not added yet.
            unsigned rest = 0;
            if (launch.n - start >= LEN && batch.has_one_key() && launch.holds(batch.keys[0])) {
                rest = states.add_batch(batch);
            } else {
#pragma unroll
                for (int k = 0; k < Batch::LEN; k++) {
                    if (k * WARP < left) {
                        if (launch.holds(batch.keys[k])) {
                            rest |= states.add_element(batch, k) ? 0 : 1 << k;
                        } else if (launch.is_outside(batch.keys[k])) {
                            rest |= 1 << k;
                        }
                    }
                }
            }
#pragma unroll 1
            for (int k = 0; rest != 0; k++) {
                if (rest & 1) {
                    if (launch.is_outside(batch.keys[0])) {
                        atomicMax(&launch.table[OUTSIDE], ~(launch.index + result * launch.n + i + k * WARP));
                    } else {
                        states.add_in_windows(batch);
                    }
                }
                rest >>= 1;
                batch.shift();
            }
        }
        __syncthreads();
        if (launch.copies != 0) {
            states.flush();
            __syncthreads();
        }
    });
}

// Merges words of one result.
struct Folds {
    typedef by_key::Batch<u64, policy::BY_KEY_BATCH> Batch;
    const Launch &launch;
    u64 result;
    int operation;

    __device__ u64 merged(u64 a, u64 b) const {
        return operation == FOLD_ADD ? a + b : operation == FOLD_MAX ? max(a, b) : ((a ^ 1) * (b ^ 1)) ^ 1;
    }

    __device__ void merge(u64 *to, u64 word) const {
        if (operation == FOLD_ADD) {
            atomicAdd(to, word);
            return;
        }
        // Few elements are greater than those before.
        u64 old = *static_cast<volatile u64 *>(to);
        if (operation == FOLD_MAX) {
            if (word > old) {
                atomicMax(to, word);
            }
            return;
        }
        u64 known;
        do {
            known = old;
            old = atomicCAS(to, known, merged(known, word));
        } while (old != known);
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

    __device__ void merge_of_key(i64 key, u64 word) const {
        if (launch.copies != 0) {
            merge_to_cell(launch.cell(static_cast<unsigned>(key - launch.first)), word);
        } else {
            merge(launch.column(0, result) + key, word);
        }
    }

    __device__ bool add_element(const Batch &batch, int k) const {
        merge_of_key(batch.keys[k], batch.x[k]);
        return true;
    }

    __device__ unsigned add_batch(const Batch &batch) const {
        u64 word = 0;
#pragma unroll
        for (int k = 0; k < Batch::LEN; k++) {
            word = merged(word, batch.x[k]);
        }
#pragma unroll 1
        for (int half = WARP / 2; half > 0; half /= 2) {
            word = merged(word, shuffled(word, half));
        }
        if (lane() == 0) {
            merge_of_key(batch.keys[0], word);
        }
        return 0;
    }

    __device__ void add_in_windows(const Batch &) const {}

    __device__ unsigned words() const { return 2 * launch.cells(); }

    __device__ void flush() const {
        for (unsigned i = threadIdx.x; i < launch.cells(); i += blockDim.x) {
            if (word(i) != 0) {
                merge(launch.column(0, result) + launch.first + i / launch.copies, word(i));
            }
        }
    }
};

}  // namespace by_key

#define EXACT_BY_KEY(name, K)                                                                                    \
    extern "C" __global__ void __launch_bounds__(policy::BY_KEY_THREADS, 1)                                              \
        by_key_##name(u64 *table, u64 results, u64 n, u64 index, u64 groups, u64 first, u64 held, u64 copies,     \
                      u64 base, u64 from, u64 windows, u64 near, u64 nears, u64 main, u64 counts) {               \
        const by_key::Launch launch{table, results, n, index, groups, first, held, static_cast<unsigned>(copies)}; \
        const by_key::Windows of{static_cast<int>(base),       static_cast<unsigned>(from),                      \
                                 static_cast<unsigned>(windows), static_cast<unsigned>(near),                     \
                                 static_cast<unsigned>(nears), static_cast<unsigned>(main), counts != 0};         \
        by_key::add_all(launch, [&](u64 result) { return by_key::Sums<K>{launch, of, result}; });              \
    }

EXACT_BY_KEY(sum_f32, by_key::SumF32)
EXACT_BY_KEY(sum_f64, by_key::SumF64)
EXACT_BY_KEY(dot_f64, by_key::DotF64)

extern "C" __global__ void __launch_bounds__(policy::BY_KEY_THREADS, 1)
    by_key_fold(u64 *table, u64 results, u64 n, u64 index, u64 groups, u64 first, u64 held, u64 copies) {
    const by_key::Launch launch{table, results, n, index, groups, first, held, static_cast<unsigned>(copies)};
    const int operation = fold_operation();
    by_key::add_all(launch, [&](u64 result) { return by_key::Folds{launch, result, operation}; });
}
