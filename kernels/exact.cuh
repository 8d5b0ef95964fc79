// Exact sums, by the method and with the states of crates/exact.
//
// A warp adds batches of ordinary elements in a window, by the arithmetic of crates/exact/src/window.rs: a batch counts only
// after its checks have passed. It adds other batches as integers. In the end both are in the block's columns. A column has
// the rows of a state. There is one for each lane, which the warps share.
#pragma once
#include "reduce.cuh"
#include "rounding.cuh"

namespace exact {

// The mode in which batches are only added as integers.
constexpr u64 BY_INTEGERS = 1;

// The rows of a state before its digits: elements, NaN, +Inf, -Inf.
constexpr int COUNTS = 4;
constexpr int NANS = 1, PLUS_INFINITIES = 2, MINUS_INFINITIES = 3;

// The most deposits of a lane before it normalises its column. A deposit changes a digit by less than 2^16, and 8 warps share
// a column: its digits stay below 2^31, and the sums of all blocks' words below 2^62.
constexpr int MOST_DEPOSITS = 1 << 11;

// The sums of a block, for each lane of its warps: counters of the terms that are not finite, and digits of 16 bits. Two
// such digits form one digit of the state. (Atomics of shared memory add 32 bits.)
template <class K>
struct Columns {
    static constexpr int DIGITS = 2 * K::DIGITS;
    int counts[COUNTS][WARP], digits[DIGITS][WARP];

    __device__ void clear() {
        int *counters = counts[0];
#pragma unroll 1
        for (int i = threadIdx.x; i < (COUNTS + DIGITS) * WARP; i += BLOCK_THREADS) {
            counters[i] = 0;
        }
    }

    __device__ void count(int row) { atomicAdd(&counts[row][lane()], 1); }

    // Adds an integer times 2^position. Changes N digits. The integer's words are in two's complement, the lowest first.
    template <int N, int WORDS>
    __device__ void add(unsigned position, unsigned (&words)[WORDS]) {
        int *digit = &digits[position / 16][lane()];
        const unsigned shift = position % 16;
#pragma unroll
        for (int k = WORDS - 1; k > 0; k--) {
            words[k] = __funnelshift_l(words[k - 1], words[k], shift);
        }
        words[0] <<= shift;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const unsigned word = words[k / 2];
            const bool is_last = k == N - 1;
            const int piece = k % 2 == 0 ? (is_last ? word : word & 0xFFFF)
                                         : (is_last ? static_cast<int>(word) >> 16 : word >> 16);
            atomicAdd(digit + k * WARP, piece);
        }
    }

    __device__ void add_units(long long units, int unit) {
        unsigned words[3] = {static_cast<unsigned>(units), static_cast<unsigned>(units >> 32),
                             static_cast<unsigned>(units >> 63)};
        add<5>(unit - K::LOW, words);
    }

    // Carries the bits above 16 of this lane's digits to the next digits. Other warps may add to the digits meanwhile.
    __device__ void normalise() {
#pragma unroll 1
        for (int k = 0; k < DIGITS - 1; k++) {
            int *digit = &digits[k][lane()];
            const int sum = atomicExch(digit, 0);
            atomicAdd(digit, sum & 0xFFFF);
            atomicAdd(digit + WARP, sum >> 16);
        }
    }

    // Computes a word of the state in THREADS adjacent threads. Each thread adds some of the columns. Adjacent threads read
    // columns in different banks.
    template <int THREADS>
    __device__ long long word(int row) const {
        long long sum = 0;
        if (row < COUNTS + DIGITS / 2) {
#pragma unroll 4
            for (int i = 0; i < WARP; i += THREADS) {
                const int column = (i + threadIdx.x) % WARP, digit = 2 * (row - COUNTS);
                sum += row < COUNTS ? counts[row][column]
                                    : digits[digit][column] + digits[digit + 1][column] * 65536LL;
            }
        }
#pragma unroll
        for (int half = THREADS / 2; half > 0; half /= 2) {
            sum += __shfl_xor_sync(ALL_THREADS, sum, half);
        }
        return sum;
    }
};

// The number of threads that compute a word of a block's state: a power of two, at most a warp.
__device__ constexpr int threads_of_word(int rows) {
    int threads = WARP;
    while (threads * rows > BLOCK_THREADS) {
        threads /= 2;
    }
    return threads;
}

// A float as an integer: magnitude * 2^(exponent + LEAST), or its negative.
template <class T>
struct Integer {
    typename Format<T>::Bits magnitude;
    int exponent;
    bool negative, is_special;

    __device__ explicit Integer(T x) {
        typedef Format<T> F;
        const typename F::Bits one = 1, bits = F::bits(x), hidden = one << (F::PRECISION - 1);
        const int stored = static_cast<int>(bits >> (F::PRECISION - 1)) & SPECIAL<T>;
        negative = bits >> (8 * sizeof(T) - 1) != 0;
        is_special = stored == SPECIAL<T>;
        magnitude = (bits & (hidden - 1)) | (stored != 0 ? hidden : 0);
        exponent = stored != 0 ? stored - 1 : 0;
    }

    // True for a NaN, given a special value.
    __device__ bool is_nan() const {
        return (magnitude & ((decltype(magnitude))1 << (Format<T>::PRECISION - 1)) - 1) != 0;
    }
};

// Counts a term that is not finite.
template <class K>
__device__ inline void add_special(Columns<K> &columns, bool is_nan, bool negative) {
    columns.count(is_nan ? NANS : negative ? MINUS_INFINITIES : PLUS_INFINITIES);
}

// 2^exponent, which must be a normal number.
__device__ inline double power_of_two(int exponent) { return __hiloint2double((exponent + 1023) << 20, 0); }

// Values with stored exponents up to `stored` are below 2^top.
template <class T>
__device__ inline int top(unsigned stored) {
    return static_cast<int>(stored) - Format<T>::BIAS + 1;
}

// The top of batches with elements that are not finite: above every window.
constexpr int NOT_FINITE = 1 << 20;

// The terms are multiples of 2^unit, below 2^top.
struct Range {
    int top, unit;
};

// The greatest and the least stored exponent of a thread's elements, except zeros. The least is a lower bound, which counts a
// power of two as the exponent below. Only f32 uses it.
template <class T>
struct Exponents {
    unsigned most, least;
};

template <class T, int N>
__device__ inline Exponents<T> exponents(const T *x) {
    unsigned most = 0, least = 0xFFFFFFFF;
#pragma unroll
    for (int k = 0; k < N; k++) {
        const unsigned high = Format<T>::high(x[k]) & 0x7FFFFFFF;
        most = max(most, high);
        least = min(least, high - 1);
    }
    return {most >> HIGH_FRACTION<T>, least >> HIGH_FRACTION<T>};
}

// The exponent of the lowest bit of values with stored exponents from `stored` on.
template <class T>
__device__ inline int unit(unsigned stored) {
    return Format<T>::LEAST + max(static_cast<int>(stored), 1) - 1;
}

// Adds a part to a level's sum. Returns the bits that the level does not hold.
__device__ inline double deposit(double &sum, double part) {
    const double next = __dadd_rn(sum, part);
    const double held = __dsub_rn(next, sum);
    sum = next;
    return __dsub_rn(part, held);
}

// A level's sum of no terms. The level's terms are multiples of 2^unit, the distance between adjacent values of its sums.
__device__ inline double no_terms(int unit) { return __hiloint2double((unit + 52 + 1023) << 20 | 1 << 19, 0); }

// A level's sum in units, given its sum of no terms.
__device__ inline long long units(double sum, double none) {
    return __double_as_longlong(sum) - __double_as_longlong(none);
}

template <class T, int D, int L>
struct Sum {
    typedef T Element;
    static constexpr int LOW = Format<T>::LEAST, FLOOR = LOW, BATCH = ::BATCH<T, 1>;
    static constexpr int DIGITS = D, ROWS = COUNTS + D, LEVELS = L;

    template <int N>
    __device__ static Range range(const T *x, const T *) {
        const Exponents<T> of_x = exponents<T, N>(x);
        const int top = of_x.most == SPECIAL<T> ? NOT_FINITE : exact::top<T>(of_x.most);
        return {top, unit<T>(of_x.least)};
    }

    // Adds a term to the sums of the highest levels. Returns the bits of the remainder.
    template <int N>
    __device__ static u64 add(double *sums, T x, T) {
        double part = static_cast<double>(x);
#pragma unroll
        for (int level = 0; level < N; level++) {
            part = deposit(sums[level], part);
        }
        return Format<double>::bits(part);
    }

    // Adds a term to the columns.
    __device__ static void add(Columns<Sum> &columns, T x, T) {
        const Integer<T> i(x);
        if (i.is_special) {
            add_special(columns, i.is_nan(), i.negative);
            return;
        }
        const u64 sum = i.negative ? -static_cast<u64>(i.magnitude) : i.magnitude;
        unsigned words[1 + sizeof(T) / 4] = {};
        words[sizeof(T) / 4] = static_cast<unsigned>(static_cast<long long>(sum) >> 63);
        words[0] = static_cast<unsigned>(sum);
        words[1] = static_cast<unsigned>(sum >> 32);
        columns.template add<sizeof(T) == 4 ? 3 : 5>(i.exponent, words);
    }
};

// Multiplies magnitudes into the words of the product, or of its negative.
__device__ inline void multiply(unsigned x, unsigned y, bool negative, unsigned (&words)[2]) {
    const u64 product = static_cast<u64>(x) * y;
    const u64 sum = negative ? -product : product;
    words[0] = static_cast<unsigned>(sum);
    words[1] = static_cast<unsigned>(sum >> 32);
}

__device__ inline void multiply(u64 x, u64 y, bool negative, unsigned (&words)[4]) {
    const u64 sign = -static_cast<u64>(negative);
    const u64 low = (x * y ^ sign) - sign;
    const u64 high = (__umul64hi(x, y) ^ sign) + (negative && low == 0);
    words[0] = static_cast<unsigned>(low);
    words[1] = static_cast<unsigned>(low >> 32);
    words[2] = static_cast<unsigned>(high);
    words[3] = static_cast<unsigned>(high >> 32);
}

// Adds a product of two f32, which is exact in f64. A fused operation computes the remainder of the first level.
template <int L>
__device__ inline u64 add_product(double *sums, float x, float y) {
    const double wide_x = x, wide_y = y;
    const double next = __fma_rn(wide_x, wide_y, sums[0]);
    double part = __fma_rn(wide_x, wide_y, __dsub_rn(sums[0], next));
    sums[0] = next;
#pragma unroll
    for (int level = 1; level < L; level++) {
        part = deposit(sums[level], part);
    }
    return Format<double>::bits(part);
}

// Tests for zero without the f64 units, which have other work.
__device__ inline bool is_zero(double x) { return Format<double>::bits(x) << 1 == 0; }

// Adds a product of two f64: its rounded value and its error. Together they are exact unless the error underflows. The
// window's floor excludes that, unless the product itself becomes 0. The error is at most 2^-53 of the highest level's bound,
// so the next level holds it.
template <int L>
__device__ inline u64 add_product(double *sums, double x, double y) {
    double product = __dmul_rn(x, y);
    double error = __fma_rn(x, y, -product);
    const bool vanished = is_zero(product) && !is_zero(x) && !is_zero(y);
    product = deposit(sums[0], product);
#pragma unroll
    for (int level = 1; level < L; level++) {
        product = deposit(sums[level], product);
        error = deposit(sums[level], error);
    }
    return Format<double>::bits(product) | Format<double>::bits(error) | vanished;
}

template <class T, int INPUTS>
constexpr int BATCH_OF_PRODUCTS = sizeof(T) == 8 && INPUTS == 1 ? policy::BATCH_OF_F64_SQUARES : BATCH<T, INPUTS>;

// Sums of products of the elements of two arrays, or of one array with itself (INPUTS is 1).
template <class T, int D, int L, int F, int INPUTS>
struct Dot {
    typedef T Element;
    static constexpr int LOW = 2 * Format<T>::LEAST, FLOOR = F, BATCH = BATCH_OF_PRODUCTS<T, INPUTS>;
    static constexpr int DIGITS = D, ROWS = COUNTS + D, LEVELS = L;

    template <int N>
    __device__ static Range range(const T *x, const T *y) {
        const Exponents<T> of_x = exponents<T, N>(x), of_y = exponents<T, N>(y);
        const bool is_finite = max(of_x.most, of_y.most) < SPECIAL<T>;
        const int top = exact::top<T>(of_x.most) + exact::top<T>(of_y.most);
        return {is_finite ? top : NOT_FINITE, unit<T>(of_x.least) + unit<T>(of_y.least)};
    }

    template <int N>
    __device__ static u64 add(double *sums, T x, T y) {
        return add_product<N>(sums, x, y);
    }

    __device__ static void add(Columns<Dot> &columns, T x, T y) {
        const Integer<T> i(x), j(y);
        const bool negative = i.negative != j.negative;
        if (i.is_special || j.is_special) {
            const bool has_nan = (i.is_special && i.is_nan()) || (j.is_special && j.is_nan());
            add_special(columns, has_nan || i.magnitude == 0 || j.magnitude == 0, negative);
            return;
        }
        unsigned words[sizeof(T) / 2];
        multiply(i.magnitude, j.magnitude, negative, words);
        columns.template add<sizeof(T)>(i.exponent + j.exponent, words);
    }
};

// The bits between the units of a window's levels, and the bits above a level's unit that a part may have.
constexpr int LEVEL_BITS = 45, REACH = 44;

// The exponent of the largest unit with which a level's sum stays finite.
constexpr int MAX_UNIT = 1022 - 52;

// The most batches whose sums fit in a thread's counts: each batch is below 2^(REACH + 5) units.
constexpr int BATCHES = 1 << 13;

// The window in which a warp adds batches of ordinary elements. Its unit is the same in all threads.
template <class K>
struct Window {
    typedef typename K::Element T;
    // The exponent of the highest level's unit.
    int unit;
    // The batches in the counts.
    int batches;
    // Each level's sum of this thread's terms, in units of the level.
    long long counts[K::LEVELS];

    __device__ Window() : unit(-NOT_FINITE), batches(0), counts() {}

    __device__ static double begin(int unit, int level) { return no_terms(unit - LEVEL_BITS * level); }

    // Returns true in the whole warp if the window holds terms below 2^top for all threads' tops, and the counts have room for
    // another batch.
    __device__ bool reaches(int top) const {
        return __all_sync(ALL_THREADS, top <= unit + REACH) && batches < BATCHES;
    }

    // Returns true in the whole warp if the LEVELS highest levels hold all terms within reach that are multiples of 2^unit, for
    // all threads' units.
    template <int LEVELS>
    __device__ bool holds(int unit) const {
        return __all_sync(ALL_THREADS, unit >= this->unit - LEVEL_BITS * (LEVELS - 1));
    }

    // Adds a batch if the window's highest levels hold it, and then returns true in the whole warp. Does not check if IS_HELD.
    template <int N, int LEVELS = K::LEVELS, bool IS_HELD = false>
    __device__ bool add(const T *x, const T *y) {
        double sums[LEVELS];
#pragma unroll
        for (int level = 0; level < LEVELS; level++) {
            sums[level] = begin(unit, level);
        }
        u64 left = 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            left |= K::template add<LEVELS>(sums, x[k], y[k]);
        }
        // Ignores the sign of a zero.
        if (!IS_HELD && __any_sync(ALL_THREADS, left << 1 != 0)) {
            return false;
        }
#pragma unroll
        for (int level = 0; level < LEVELS; level++) {
            counts[level] += units(sums[level], begin(unit, level));
        }
        batches++;
        return true;
    }

    // Begins with a sum of at most 2^9 terms in a range, and reaches SPARE bits above it. Returns true in the whole warp if the
    // window holds the sum.
    __device__ bool begin_with(double sum, int terms, Range range) {
        unit = reaching(range.top + policy::SPARE, 1);
        if (unit > MAX_UNIT || !holds<K::LEVELS>(range.unit)) {
            return false;
        }
#pragma unroll
        for (int level = 0; level < K::LEVELS; level++) {
            double of_level = begin(unit, level);
            sum = deposit(of_level, sum);
            counts[level] = units(of_level, begin(unit, level));
        }
        batches = terms;
        return true;
    }

    // The unit of the lowest window that holds terms below 2^top for all threads' tops. Units are multiples of `grid`, a power
    // of two.
    __device__ static int reaching(int top, int grid) {
#pragma unroll
        for (int half = WARP / 2; half > 0; half /= 2) {
            top = max(top, __shfl_xor_sync(ALL_THREADS, top, half));
        }
        const int lowest = K::FLOOR + LEVEL_BITS * (K::LEVELS - 1);
        return max(lowest, lowest + (top - REACH - lowest + grid - 1 & -grid));
    }

    // Moves the counts to the columns.
    __device__ void flush(Columns<K> &columns) {
        if (batches == 0) {
            return;
        }
        batches = 0;
#pragma unroll 1
        for (int level = 0; level < K::LEVELS; level++) {
            if (counts[0] != 0) {
                columns.add_units(counts[0], unit - LEVEL_BITS * level);
            }
#pragma unroll
            for (int next = 1; next < K::LEVELS; next++) {
                counts[next - 1] = counts[next];
            }
            counts[K::LEVELS - 1] = 0;
        }
    }

    // Adds the counts of the lanes that differ in the bits from `lowest` to `highest`. Each of them gets the sums.
    __device__ void merge_lanes(int lowest, int highest) {
#pragma unroll 1
        for (int bit = highest; bit >= lowest; bit /= 2) {
#pragma unroll
            for (int level = 0; level < K::LEVELS; level++) {
                counts[level] += __shfl_xor_sync(ALL_THREADS, counts[level], bit);
            }
        }
    }

    // The sum of this thread's terms, in units of the lowest level.
    __device__ Wide<K::LEVELS> sum() const {
        Wide<K::LEVELS> sum(counts[0]);
#pragma unroll
        for (int level = 1; level < K::LEVELS; level++) {
            sum.shift(LEVEL_BITS);
            sum.add(counts[level]);
        }
        return sum;
    }

    // The exponent of the lowest level's unit.
    __device__ int lowest_unit() const { return unit - LEVEL_BITS * (K::LEVELS - 1); }
};

// Returns the sum in a state's words. Only the digits from `first` to `last` may be nonzero. Replaces them by their magnitude.
// A digit above them has the sign.
template <class K>
__device__ inline Leading leading(long long *words, int first, int last) {
    const bool has_plus = words[PLUS_INFINITIES] > 0, has_minus = words[MINUS_INFINITIES] > 0;
    if (words[NANS] > 0 || (has_plus && has_minus)) {
        return Leading::nan();
    }
    if (has_plus || has_minus) {
        return Leading::infinity(has_minus);
    }
    if (first > last) {
        return Leading::zero();
    }
    const int count = min(last + 2, K::DIGITS) - first;
    return leading(words + COUNTS + first, count, K::LOW + 32 * first);
}

// Adds the block's words to the other blocks' words. Returns true in all threads of the last block, which then has the sum;
// the memory is zero again.
template <class K>
__device__ inline bool merge(long long *words, Scratch *scratch) {
    const int row = threadIdx.x;
    if (row < K::ROWS && words[row] != 0) {
        atomicAdd(&scratch->words[row], static_cast<u64>(words[row]));
    }
    if (!is_last_block(scratch)) {
        return false;
    }
    if (row < K::ROWS) {
        words[row] = static_cast<long long>(atomicExch(&scratch->words[row], 0));
    }
    if (row < COUNTERS) {
        *counter(scratch, row) = 0;
    }
    return true;
}

// Turns the block's columns into words, and merges the words of all blocks. The last block stores the merged words, finds the
// first and the last nonzero digit, and calls `finish`.
template <class K, class Finish>
__device__ inline void gather(const Columns<K> &columns, long long *words, int &first, int &last,
                              long long *out, u64 n, Scratch *scratch, Finish finish) {
    constexpr int THREADS = threads_of_word(K::ROWS);
    const long long word = columns.template word<THREADS>(threadIdx.x / THREADS);
    if (threadIdx.x % THREADS == 0 && threadIdx.x / THREADS < K::ROWS) {
        words[threadIdx.x / THREADS] = word;
    }
    __syncthreads();
    const int row = threadIdx.x;
    if (gridDim.x > 1 && !merge<K>(words, scratch)) {
        return;
    }
    if (row == 0) {
        words[row] = static_cast<long long>(n);
    }
    if (row < K::ROWS && out != nullptr) {
        out[row] = words[row];
    }
    if (COUNTS <= row && row < K::ROWS && words[row] != 0) {
        atomicMin(&first, row - COUNTS);
        atomicMax(&last, row - COUNTS);
    }
    __syncthreads();
    finish();
}

// The kinds of sums: the digits and levels, and for products the least exponent of a window's lowest unit, and the number of
// arrays.
typedef Sum<float, 11, policy::SUM_LEVELS> SumF32;
typedef Sum<double, 68, policy::SUM_LEVELS> SumF64;
typedef Dot<float, 20, policy::PRODUCT_LEVELS, 2 * Format<float>::LEAST, 2> DotF32;
typedef Dot<double, 134, policy::PRODUCT_LEVELS, -968, 2> DotF64;
typedef Dot<float, 20, policy::PRODUCT_LEVELS, 2 * Format<float>::LEAST, 1> NormF32;
typedef Dot<double, 134, policy::PRODUCT_LEVELS, -968, 1> NormF64;

}  // namespace exact
