// Exact sums of a few f32 in each thread, with levels for all finite f32: a single window for any data.
#pragma once
#include "exact.cuh"

namespace exact {

// True if there are levels for all finite terms of a kind of sum.
template <class K>
constexpr bool HAS_LEVELS = false;
template <>
constexpr bool HAS_LEVELS<SumF32> = true;

// The sums of a warp's threads, in the shared memory of its columns. The lowest level's unit is the least f32. The units of
// adjacent levels are 2^BITS apart.
//
// A term is below 2^42 units of the highest level. A level's remainder of it is at most 2^46 units of the next level. A level
// holds 2^51 units. The highest level holds all terms. Each other level holds a batch and the remainder that `carry` leaves
// there, which is at most as large as that of one term.
struct Levels {
    static constexpr int COUNT = 6, BITS = 47, WORDS = 5;
    // The most terms of a thread.
    static constexpr int MOST = 1 << 8;
    static_assert(SumF32::BATCH + 1 <= 1 << 5);

    double sums[COUNT][WARP];

    __device__ static Levels &of(Columns<SumF32> &columns) {
        static_assert(sizeof(Levels) <= sizeof(columns));
        return reinterpret_cast<Levels &>(columns);
    }

    __device__ static double begin(int level) {
        return no_terms(Format<float>::LEAST + BITS * (COUNT - 1 - level));
    }

    __device__ void clear() {
#pragma unroll
        for (int level = 0; level < COUNT; level++) {
            sums[level][lane()] = begin(level);
        }
    }

    // Moves the whole units of each next higher level there.
    __device__ static void carry(double (&sums)[COUNT]) {
#pragma unroll
        for (int level = COUNT - 1; level > 0; level--) {
            const double rest = deposit(sums[level - 1], __dsub_rn(sums[level], begin(level)));
            sums[level] = __dadd_rn(begin(level), rest);
        }
    }

    // Adds a batch. Returns true in the whole warp if all its elements are finite. Otherwise the sum is lost.
    template <int N>
    __device__ bool add(const float (&x)[N]) {
        double of_thread[COUNT];
#pragma unroll
        for (int level = 0; level < COUNT; level++) {
            of_thread[level] = sums[level][lane()];
        }
        carry(of_thread);
#pragma unroll
        for (int k = 0; k < N; k++) {
            double part = static_cast<double>(x[k]);
#pragma unroll
            for (int level = 0; level < COUNT - 1; level++) {
                part = deposit(of_thread[level], part);
            }
            of_thread[COUNT - 1] = __dadd_rn(of_thread[COUNT - 1], part);
        }
#pragma unroll
        for (int level = 0; level < COUNT; level++) {
            sums[level][lane()] = of_thread[level];
        }
        return !__any_sync(ALL_THREADS, exponents<float, N>(x).most == SPECIAL<float>);
    }

    // Adds the lanes that differ in the bits from `lowest` to `highest`. In each of them, the words of the sum in units of the
    // lowest level replace the levels. The sum is below 2^(128 + 149) units times the number of terms.
    __device__ void merge_lanes(int lowest, int highest) {
        Wide<WORDS> sum(0);
#pragma unroll 1
        for (int level = 0; level < COUNT; level++) {
            long long count = units(sums[level][lane()], begin(level));
#pragma unroll 1
            for (int bit = highest; bit >= lowest; bit /= 2) {
                count += __shfl_xor_sync(ALL_THREADS, count, bit);
            }
            sum.shift(BITS);
            sum.add(count);
        }
#pragma unroll
        for (int k = 0; k < WORDS; k++) {
            sums[k][lane()] = __longlong_as_double(static_cast<long long>(sum.words[k]));
        }
    }

    // The sum, after `merge_lanes`.
    __device__ Wide<WORDS> sum() const {
        Wide<WORDS> sum(0);
#pragma unroll
        for (int k = 0; k < WORDS; k++) {
            sum.words[k] = Format<double>::bits(sums[k][lane()]);
        }
        return sum;
    }
};

}  // namespace exact
