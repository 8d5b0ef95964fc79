// Reductions by key: kernels without the formula of the elements (placeholders.cuh). An element has a value and a key, an
// integer from 0 to one less than the number of groups, which is below 2^32. The elements of a key are a group.
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
// Exact sums count in windows. Window w has the WIDTH bits of terms from the exponent base + WIDTH * w on. A term adds its
// bits in a window, as an integer with the term's sign, to the sum of that window. So the sums of all windows together are
// exact:
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
// | by_key_dot_f64, for products of f64 | 160 | 6 | 2^31 | 4 |
//
// The base is at most the exponent of the lowest bit that a term may have, in the kernel's format: -149 for sums of f32, -350
// for products of f32 (whose significands have 53 bits here), -1074 for sums and -2148 for products of f64. It is less than
// WIDTH below that, so there are at most 64 windows.
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
// | near, nears | the windows in shared memory, at least one and all in the table; 0, 0 without shared memory |
// | main | the window that most terms are in: a window in shared memory if there is one, otherwise of the table |
// | counts | 1 if elements are counted, otherwise 0 |
//
// A block has as many threads as `Kernel::threads` of crates/ptx says, and dynamic shared memory of (CELL * nears + counts) *
// held * copies words of 32 bits (exact sums), or 2 * held * copies (folds). A grid has any number of blocks.
#include "exact.cuh"

namespace by_key {

typedef long long i64;

// The words of a table before its columns.
constexpr int OUTSIDE = 0, LEFT = 1, HEADER = 2;

// The bits that a term that is not finite sets in a table's last column, and the number that an element adds to it.
constexpr u64 NAN_BIT = 1, PLUS_INFINITY = 2, MINUS_INFINITY = 4, ELEMENT = 8;

extern __shared__ u64 shared_memory[];

__device__ inline unsigned *shared() { return reinterpret_cast<unsigned *>(shared_memory); }

// A key that is outside all groups, which are fewer than 2^32.
constexpr unsigned NO_KEY = 0xFFFFFFFF;

// The bytes of a word of shared memory.
constexpr unsigned BYTES = sizeof(unsigned);

// The elements that a launch adds, and where.
struct Launch {
    u64 *table;
    u64 results, n, index, groups, first, held;
    unsigned copies;
    // The address of shared memory.
    unsigned shared;

    // The words of a result's groups in a column.
    __device__ u64 *column(int number, u64 result) const {
        return table + HEADER + (number * results + result) * groups;
    }

    // The number of this lane's copy, and the place of a key in it.
    __device__ unsigned copy() const { return lane() & (copies - 1); }
    __device__ unsigned cell(unsigned key) const { return of_launch(key) * copies + copy(); }

    __device__ unsigned cells() const { return static_cast<unsigned>(held) * copies; }

    // The number of a key among the launch's groups.
    __device__ unsigned of_launch(unsigned key) const { return key - static_cast<unsigned>(first); }

    // True for the keys of the launch's groups, and for keys outside all groups.
    __device__ bool holds(unsigned key) const { return of_launch(key) < static_cast<unsigned>(held); }
    __device__ bool is_outside(unsigned key) const { return key >= static_cast<unsigned>(groups); }

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

// Adds an integer of WORDS words of 64 bits to words `stride` apart.
template <int WORDS>
__device__ inline void add_words(u64 *to, u64 stride, const u64 (&words)[WORDS]) {
    u64 carry = 0;
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        const u64 word = words[k] + carry;
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

// The same in shared memory: words of 32 bits, `stride` bytes apart from an address on. A sum of two words has their carry.
template <int WORDS>
__device__ inline void add_in_shared(unsigned address, unsigned stride, const u64 (&words)[WORDS]) {
    u64 sum = 0;
#pragma unroll
    for (int k = 0; k < 2 * WORDS; k++) {
        sum = (sum >> 32) + static_cast<unsigned>(words[k / 2] >> 32 * (k % 2));
        const unsigned word = static_cast<unsigned>(sum);
        // The lowest of two words is rarely 0.
        if (word != 0 || (k == 0 && WORDS == 1)) {
            sum += add_shared(address + k * stride, word);
        }
    }
}

using exact::Wide;

// The value of the lane whose number differs in the bits of `mask`.
__device__ inline u64 shuffled(u64 value, int mask) { return __shfl_xor_sync(ALL_THREADS, value, mask); }

// A term: magnitude * 2^position in units of the base, or its negative.
template <int M>
struct Term {
    u64 magnitude[M];
    unsigned position;
    bool negative;
    // The bit for the last column if the term is not finite, otherwise 0.
    unsigned special;

    __device__ bool is_zero() const {
        u64 bits = 0;
#pragma unroll
        for (int k = 0; k < M; k++) {
            bits |= magnitude[k];
        }
        return bits == 0;
    }

    template <int N>
    __device__ Wide<N> with_sign(Wide<N> integer) const {
        if (negative) {
            integer.negate();
        }
        return integer;
    }

    // Removes the lowest bits, up to 32, and returns them.
    __device__ unsigned pop(unsigned bits) {
        const unsigned low = static_cast<unsigned>(magnitude[0]) & 0xFFFFFFFF >> (32 - bits);
#pragma unroll
        for (int k = 0; k < M; k++) {
            magnitude[k] = magnitude[k] >> bits | (k + 1 < M ? magnitude[k + 1] << (64 - bits) : 0);
        }
        position += bits;
        return low;
    }
};

// An integer times 2^shift.
template <int N>
__device__ inline Wide<N> placed(unsigned integer, unsigned shift) {
    Wide<N> placed(0);
#pragma unroll
    for (int k = 0; k < N; k++) {
        if (k == shift / 64) {
            placed.words[k] = static_cast<u64>(integer) << shift % 64;
        } else if (k == shift / 64 + 1) {
            placed.words[k] = static_cast<u64>(integer) >> 1 >> (63 - shift % 64);
        }
    }
    return placed;
}

__device__ inline unsigned special_bit(bool is_nan, bool negative) {
    return is_nan ? NAN_BIT : negative ? MINUS_INFINITY : PLUS_INFINITY;
}

// A float's term. The base is 2^low times less than the format's least number.
template <class T>
__device__ inline Term<1> term_of(T x, unsigned low) {
    const exact::Integer<T> i(x);
    return {{i.magnitude}, i.exponent + low, i.negative, i.is_special ? special_bit(i.is_nan(), i.negative) : 0};
}

__device__ inline Term<2> term_of(double x, double y, unsigned low) {
    const exact::Integer<double> i(x), j(y);
    const bool negative = i.negative != j.negative;
    unsigned special = 0;
    if (i.is_special || j.is_special) {
        const bool has_nan = (i.is_special && i.is_nan()) || (j.is_special && j.is_nan());
        special = special_bit(has_nan || i.magnitude == 0 || j.magnitude == 0, negative);
    }
    const u64 low_bits = i.magnitude * j.magnitude, high_bits = __umul64hi(i.magnitude, j.magnitude);
    return {{low_bits, high_bits}, i.exponent + j.exponent + low, negative, special};
}

// The elements of a thread, WARP from one another, with their keys.
template <class T, int N>
struct Batch {
    static constexpr int LEN = N;
    T x[N];
    unsigned keys[N];

    __device__ void load(u64 i, u64 n) {
        i64 wide[N];
        elements(i, n, x, wide);
        take_keys(wide);
    }

    __device__ void take_keys(const i64 (&wide)[N]) {
#pragma unroll
        for (int k = 0; k < N; k++) {
            keys[k] = wide[k] >> 32 == 0 ? static_cast<unsigned>(wide[k]) : NO_KEY;
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

// Returns the value with this number. (An index that is not constant would put the values into local memory.)
template <class T, int N>
__device__ inline T selected(const T (&values)[N], int number) {
    T value = values[0];
#pragma unroll
    for (int k = 1; k < N; k++) {
        value = k == number ? values[k] : value;
    }
    return value;
}

// The window that holds most terms.
struct MainWindow {
    // f64: the stored exponent of a term that begins at the window's lowest bit. The window holds normal numbers whose stored
    // exponents are from `lowest` on, `count` of them.
    int offset;
    unsigned lowest, count;
    // f32: the power of two that scales the unit of the window's upper half to 1, or 0 if it is not a normal float.
    float scale;

    template <class K>
    __device__ static MainWindow of(unsigned number, int base) {
        constexpr int SPECIAL = K::EXPONENTS;
        MainWindow main;
        main.offset = static_cast<int>(number) * K::WIDTH + base - K::LEAST + 1;
        const int lowest = max(main.offset, 1), highest = min(main.offset + K::WIDTH - K::BITS, SPECIAL - 1);
        main.lowest = static_cast<unsigned>(lowest);
        main.count = static_cast<unsigned>(max(highest - lowest + 1, 0));
        const int exponent = -(base + static_cast<int>(number) * K::WIDTH + K::WIDTH / 2);
        main.scale = exponent < -126 || exponent > 127 ? 0 : __int_as_float(exponent + 127 << 23);
        return main;
    }
};

template <class T>
__device__ inline unsigned stored_exponent(T x) {
    return exact::Format<T>::high(x) >> exact::HIGH_FRACTION<T> & exact::SPECIAL<T>;
}

// True for zeros.
template <class T>
__device__ inline bool is_zero(T x) {
    return exact::Format<T>::bits(x) << 1 == 0;
}

// The significand of a normal number.
template <class T>
__device__ inline typename exact::Format<T>::Bits significand(T x) {
    const typename exact::Format<T>::Bits hidden = static_cast<typename exact::Format<T>::Bits>(1)
                                                   << (exact::Format<T>::PRECISION - 1);
    return (exact::Format<T>::bits(x) & (hidden - 1)) | hidden;
}

// A magnitude times 2^shift, or its negative. The shift is below 64, or the result is not used.
template <int WORDS, int M>
__device__ inline Wide<WORDS> shifted(const u64 (&magnitude)[M], unsigned shift, bool negative) {
    static_assert(M < WORDS, "room for the highest bits");
    Wide<WORDS> integer(0);
#pragma unroll
    for (int k = 0; k < M; k++) {
        integer.words[k] |= magnitude[k] << (shift & 63);
        integer.words[k + 1] |= magnitude[k] >> 1 >> (~shift & 63);
    }
    if (negative) {
        integer.negate();
    }
    return integer;
}

// The kinds of sums: the bits of windows, the words of cells, and of a term its most bits, their words, and the exponent of
// its lowest bit.
struct SumF32 : Batch<float, policy::BY_KEY_BATCH_OF_F32> {
    static constexpr int WIDTH = 36, CELL = 2, BITS = 24, MAGNITUDE = 1, LEAST = exact::Format<float>::LEAST;
    // Half of the window's bits.
    static constexpr int HALF = WIDTH / 2, EXPONENTS = exact::SPECIAL<float>;

    __device__ Term<1> term(int k, unsigned low) const { return term_of(selected(x, k), low); }
    __device__ bool is_zero(int k) const { return by_key::is_zero(x[k]); }

    // Returns true if the main window holds an element, with its integer. Two additions of floats round the element to
    // multiples of 2^HALF units and of one unit. (A shift of the significand would need more of the integer units, which are
    // fewer than the float units.)
    __device__ bool in_main(int k, const MainWindow &main, Wide<1> &integer) const {
        constexpr float ROUND = 1.5f * (1 << 23);
        const float scaled = x[k] * main.scale, high = scaled + ROUND;
        const float rest = (scaled - (high - ROUND)) * (1 << HALF), low = rest + ROUND;
        const int none = __float_as_int(ROUND);
        const i64 highs = __float_as_int(high) - none;
        integer.words[0] = static_cast<u64>((highs << HALF) + (__float_as_int(low) - none));
        // The product may be 0 because it underflows. (Bitwise operators avoid branches.)
        return (fabsf(scaled) < 1 << (HALF - 1)) & (low - ROUND == rest) & ((scaled != 0) | (x[k] == 0));
    }
};

struct SumF64 : Batch<double, policy::BY_KEY_BATCH> {
    static constexpr int WIDTH = 96, CELL = 4, BITS = 53, MAGNITUDE = 1, LEAST = exact::Format<double>::LEAST;
    static constexpr int EXPONENTS = exact::SPECIAL<double>;

    __device__ Term<1> term(int k, unsigned low) const { return term_of(selected(x, k), low); }
    __device__ bool is_zero(int k) const { return by_key::is_zero(x[k]); }

    __device__ bool in_main(int k, const MainWindow &main, Wide<2> &integer) const {
        const unsigned stored = stored_exponent(x[k]);
        integer = shifted<2>({significand(x[k])}, stored - main.offset, __double2hiint(x[k]) < 0);
        return stored - main.lowest < main.count;
    }
};

struct DotF64 : Batch<double, policy::BY_KEY_BATCH> {
    static constexpr int WIDTH = 160, CELL = 6, BITS = 106, MAGNITUDE = 2, LEAST = 2 * exact::Format<double>::LEAST;
    static constexpr int EXPONENTS = exact::SPECIAL<double>;
    double y[LEN];

    __device__ void load(u64 i, u64 n) {
        i64 wide[LEN];
        pairs(i, n, x, y, wide);
        take_keys(wide);
    }
    __device__ Term<2> term(int k, unsigned low) const { return term_of(selected(x, k), selected(y, k), low); }
    __device__ bool is_zero(int k) const {
        constexpr int MOST = exact::SPECIAL<double>;
        return (by_key::is_zero(x[k]) && stored_exponent(y[k]) < MOST) ||
               (by_key::is_zero(y[k]) && stored_exponent(x[k]) < MOST);
    }

    __device__ bool in_main(int k, const MainWindow &main, Wide<3> &integer) const {
        constexpr unsigned NORMAL = exact::SPECIAL<double> - 1;
        const unsigned of_x = stored_exponent(x[k]) - 1, of_y = stored_exponent(y[k]) - 1;
        const unsigned shift = of_x + of_y + 1 - main.offset;
        const u64 a = significand(x[k]), b = significand(y[k]);
        integer = shifted<3>({a * b, __umul64hi(a, b)}, shift, (__double2hiint(x[k]) ^ __double2hiint(y[k])) < 0);
        return of_x < NORMAL && of_y < NORMAL && shift <= WIDTH - BITS;
    }
};

// The windows of a launch.
struct Windows {
    int base;
    unsigned from, count, near, nears, main;
    bool counts;
};

// Adds to the sums of one result.
template <class K>
struct Sums {
    typedef K Batch;
    static constexpr int WORDS = K::CELL / 2;
    typedef Wide<WORDS> Integer;
    static_assert(K::BITS <= K::WIDTH && K::WIDTH - K::BITS < 64, "terms fit in windows, by a short shift");

    const Launch &launch;
    const Windows &windows;
    u64 result;
    MainWindow main;
    // In bytes of shared memory: the distance of a cell's words, of adjacent keys, and where key 0 would be in the main window.
    unsigned stride, step, origin;

    __device__ Sums(const Launch &launch, const Windows &windows, u64 result)
        : launch(launch), windows(windows), result(result),
          main(MainWindow::of<K>(windows.main, windows.base)),
          stride(recomputed(BYTES * windows.nears * launch.cells())), step(BYTES * launch.copies),
          origin(recomputed(launch.shared + BYTES * ((windows.main - windows.near) * launch.cells() + launch.copy()) -
                            static_cast<unsigned>(launch.first) * step)) {}

    __device__ u64 *column(int number) const { return launch.column(number, result); }
    __device__ u64 *last_column() const { return column(windows.count * WORDS); }

    // Adds an integer to the sum of a key in a window of the table.
    __device__ void add_to_table(unsigned key, unsigned window, const Integer &integer) const {
        u64 *const place = column((window - windows.from) * WORDS) + key;
        const u64 states = launch.results * launch.groups;
        add_words(place, states, integer.words);
    }

    // The address of a key's cell in a window, in this lane's copy.
    __device__ unsigned cell(unsigned key, unsigned window) const {
        return origin + key * step + BYTES * (window - windows.main) * launch.cells();
    }

    // Adds an integer in a window, which the table may lack.
    __device__ void add_in_window(unsigned key, unsigned window, const Integer &integer) const {
        if (window - windows.near < windows.nears) {
            add_in_shared(cell(key, window), stride, integer.words);
        } else if (window - windows.from < windows.count) {
            add_to_table(key, window, integer);
        } else {
            atomicOr(&launch.table[LEFT], 1ull << window);
        }
    }

    // Adds an integer in the main window.
    template <bool IN_SHARED>
    __device__ void add(unsigned key, const Integer &integer) const {
        if (IN_SHARED) {
            add_in_shared(cell(key, windows.main), stride, integer.words);
        } else {
            add_to_table(key, windows.main, integer);
        }
    }

    template <bool IN_SHARED>
    __device__ void count(unsigned key, unsigned elements) const {
        if (IN_SHARED) {
            atomicAdd(counters() + launch.cell(key), elements);
        } else {
            atomicAdd(last_column() + key, ELEMENT * elements);
        }
    }

    // Returns a bit for each element of a batch that is left to `add_in_windows`, or whose key is outside the groups. The first
    // element has the number `i`.
    __device__ unsigned rest_of(const K &batch, u64 i) const {
        unsigned rest = 0;
#pragma unroll
        for (int k = 0; k < K::LEN; k++) {
            Integer integer(0);
            const bool is_left = !batch.in_main(k, main, integer) && !batch.is_zero(k);
            if (i + k * WARP < launch.n && (launch.holds(batch.keys[k]) ? is_left : launch.is_outside(batch.keys[k]))) {
                rest |= 1 << k;
            }
        }
        return rest;
    }

    // Adds the elements of a batch whose keys are the launch's. Returns a bit for each element that is left.
    template <bool IN_SHARED>
    __device__ unsigned add_elements(const K &batch, u64 i) const {
        bool is_all = true;
#pragma unroll
        for (int k = 0; k < K::LEN; k++) {
            Integer integer(0);
            const bool is_held = batch.in_main(k, main, integer) & launch.holds(batch.keys[k]);
            if (is_held) {
                add<IN_SHARED>(batch.keys[k], integer);
            }
            is_all &= is_held;
        }
        if (windows.counts) {
#pragma unroll
            for (int k = 0; k < K::LEN; k++) {
                if (launch.holds(batch.keys[k])) {
                    count<IN_SHARED>(batch.keys[k], 1);
                }
            }
        }
        return is_all ? 0 : rest_of(batch, i);
    }

    // Adds all elements of a warp, which have one key.
    template <bool IN_SHARED>
    __device__ unsigned add_batch(const K &batch) const {
        Integer sum(0);
        unsigned rest = 0;
#pragma unroll
        for (int k = 0; k < K::LEN; k++) {
            Integer integer(0);
            if (batch.in_main(k, main, integer)) {
                sum.add(integer);
            } else if (!batch.is_zero(k)) {
                rest |= 1 << k;
            }
        }
#pragma unroll 1
        for (int half = WARP / 2; half > 0; half /= 2) {
            Integer other(0);
#pragma unroll
            for (int k = 0; k < WORDS; k++) {
                other.words[k] = shuffled(sum.words[k], half);
            }
            sum.add(other);
        }
        if (lane() == 0) {
            add<IN_SHARED>(batch.keys[0], sum);
            if (windows.counts) {
                count<IN_SHARED>(batch.keys[0], K::LEN * WARP);
            }
        }
        return rest;
    }

    // Adds element k of a batch in all windows that have some of its bits.
    __device__ void add_in_windows(const K &batch, int k) const {
        auto term = batch.term(k, static_cast<unsigned>(K::LEAST - windows.base));
        const unsigned key = selected(batch.keys, k);
        if (term.special != 0) {
            atomicOr(last_column() + key, static_cast<u64>(term.special));
            return;
        }
#pragma unroll 1
        while (!term.is_zero()) {
            const unsigned window = term.position / K::WIDTH, shift = term.position % K::WIDTH;
            const unsigned bits = term.pop(min(K::WIDTH - shift, 32u));
            if (bits != 0) {
                add_in_window(key, window, term.with_sign(placed<WORDS>(bits, shift)));
            }
        }
    }

    // The numbers of elements in shared memory, behind the cells.
    __device__ unsigned *counters() const { return shared() + K::CELL * windows.nears * launch.cells(); }

    // The words of shared memory.
    __device__ unsigned words() const { return (K::CELL * windows.nears + windows.counts) * launch.cells(); }

    // Moves the sums in shared memory to the table.
    __device__ void flush() const {
        const unsigned held = static_cast<unsigned>(launch.held), cells = launch.cells();
        for (unsigned i = threadIdx.x; i < held * windows.nears; i += blockDim.x) {
            Integer sum(0);
            u64 any = 0;
            for (unsigned copy = 0; copy < launch.copies; copy++) {
                const unsigned *cell = shared() + i * launch.copies + (copy + lane() & (launch.copies - 1));
                Integer of_copy(0);
#pragma unroll
                for (int k = 0; k < K::CELL; k++) {
                    of_copy.words[k / 2] |= static_cast<u64>(cell[k * windows.nears * cells]) << 32 * (k % 2);
                    any |= of_copy.words[k / 2];
                }
                sum.add(of_copy);
            }
            if (any != 0) {
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
            shared()[i] = 0;
        }
        __syncthreads();
        constexpr u64 LEN = Batch::LEN * WARP;
#pragma unroll 1
        for (u64 start = warp * LEN; start < launch.n; start += warps * LEN) {
            Batch batch;
            const u64 i = start + lane();
            batch.load(i, launch.n);
            const bool is_whole = launch.n - start >= LEN;
            if (!is_whole) {
#pragma unroll
                for (int k = 0; k < Batch::LEN; k++) {
                    batch.keys[k] = i + k * WARP < launch.n ? batch.keys[k] : NO_KEY;
                }
            }
            const bool has_one_key = is_whole && batch.has_one_key() && launch.holds(batch.keys[0]);
            // A bit for each element that is not added yet.
            unsigned rest;
            if (launch.copies != 0) {
                rest = has_one_key ? states.template add_batch<true>(batch) : states.template add_elements<true>(batch, i);
            } else {
                rest = has_one_key ? states.template add_batch<false>(batch) : states.template add_elements<false>(batch, i);
            }
#pragma unroll 1
            for (; rest != 0; rest &= rest - 1) {
                const int k = __ffs(rest) - 1;
                if (launch.is_outside(selected(batch.keys, k))) {
                    atomicMax(&launch.table[OUTSIDE], ~(launch.index + result * launch.n + i + k * WARP));
                } else {
                    states.add_in_windows(batch, k);
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

    __device__ u64 word(unsigned cell) const {
        return operation == FOLD_ADD ? static_cast<u64>(shared()[cell + launch.cells()]) << 32 | shared()[cell]
                                     : shared_memory[cell];
    }

    template <bool IN_SHARED>
    __device__ void merge_of_key(unsigned key, u64 word) const {
        const unsigned cell = launch.cell(key);
        if (!IN_SHARED) {
            merge(launch.column(0, result) + key, word);
        } else if (operation == FOLD_ADD) {
            // In halves: shared memory has no additions of 64 bits.
            add_in_shared(launch.shared + BYTES * cell, BYTES * launch.cells(), {word});
        } else {
            merge(shared_memory + cell, word);
        }
    }

    template <bool IN_SHARED>
    __device__ unsigned add_elements(const Batch &batch, u64 i) const {
        unsigned rest = 0;
#pragma unroll
        for (int k = 0; k < Batch::LEN; k++) {
            if (launch.holds(batch.keys[k])) {
                merge_of_key<IN_SHARED>(batch.keys[k], batch.x[k]);
            } else if (i + k * WARP < launch.n && launch.is_outside(batch.keys[k])) {
                rest |= 1 << k;
            }
        }
        return rest;
    }

    template <bool IN_SHARED>
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
            merge_of_key<IN_SHARED>(batch.keys[0], word);
        }
        return 0;
    }

    __device__ void add_in_windows(const Batch &, int) const {}

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

#define EXACT_BY_KEY(name, K)                                                                                     \
    extern "C" __global__ void __launch_bounds__(policy::BY_KEY_THREADS, 1)                                       \
        by_key_##name(u64 *table, u64 results, u64 n, u64 index, u64 groups, u64 first, u64 held, u64 copies,     \
                      u64 base, u64 from, u64 windows, u64 near, u64 nears, u64 main, u64 counts) {               \
        const by_key::Launch launch{table, results, n,    index,                                                  \
                                    groups, first,  held, static_cast<unsigned>(copies),                          \
                                    shared_address(by_key::shared())};                                            \
        const by_key::Windows of{static_cast<int>(base),         static_cast<unsigned>(from),                     \
                                 static_cast<unsigned>(windows), static_cast<unsigned>(near),                     \
                                 static_cast<unsigned>(nears),   static_cast<unsigned>(main), counts != 0};       \
        by_key::add_all(launch, [&](u64 result) { return by_key::Sums<K>(launch, of, result); });                 \
    }

EXACT_BY_KEY(sum_f32, by_key::SumF32)
EXACT_BY_KEY(sum_f64, by_key::SumF64)
EXACT_BY_KEY(dot_f64, by_key::DotF64)

extern "C" __global__ void __launch_bounds__(policy::BY_KEY_THREADS, 1)
    by_key_fold(u64 *table, u64 results, u64 n, u64 index, u64 groups, u64 first, u64 held, u64 copies) {
    const by_key::Launch launch{table, results, n,    index,
                                groups, first,  held, static_cast<unsigned>(copies),
                                shared_address(by_key::shared())};
    const int operation = fold_operation();
    by_key::add_all(launch, [&](u64 result) { return by_key::Folds{launch, result, operation}; });
}
