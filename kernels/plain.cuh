// Sums of f32 in plain f64, which are exact while the terms' exponents are close to each other.
#pragma once
#include "exact.cuh"

// Returns whether x has the elements of a whole batch (elements.cuh).
__device__ inline bool whole_elements(u64 i, float *x);

namespace exact {

// The sum of a thread's terms.
//
// If the terms' exponents differ by at most SPREAD, they are multiples of a unit, and below 2^(24 + SPREAD) units: an f64
// holds the sum of MOST. A warp alone adds fewer terms, whose exponents may differ more.
struct Plain {
    static constexpr int MOST = 1 << 9, SPREAD = 53 - 24 - 9;
    static constexpr int MOST_ALONE = 1 << 6, SPREAD_ALONE = 53 - 24 - 6;
    // The difference of exponents beyond which a window does not hold the terms either.
    static constexpr int FAR = 60;

    double sum;
    // Bounds of the terms' exponents, as stored; the number of terms.
    int most, least, terms;
    // After batches that were too unlike, the batches to skip, and how many were skipped before.
    int to_skip, skipped;

    __device__ Plain() : to_skip(0), skipped(0) { clear(); }

    __device__ void clear() {
        sum = 0;
        most = 0;
        least = SPECIAL<float>;
        terms = 0;
    }

    // Adds a batch if the sums of all threads of the warp stay exact; returns in the whole warp whether they do.
    template <int N>
    __device__ bool add(const float (&x)[N], bool is_alone) {
        const Exponents<float> of_batch = exponents<float, N>(x);
        const int most = max(this->most, static_cast<int>(of_batch.most));
        const int least = min(this->least, static_cast<int>(of_batch.least));
        const bool is_exact = most - least <= (is_alone ? SPREAD_ALONE : SPREAD) && most < SPECIAL<float>;
        if (!__all_sync(ALL_THREADS, is_exact) || terms > MOST - N) {
            if (is_alone) {
                this->most = most;
                this->least = least;
            }
            return false;
        }
        double odd = 0;
#pragma unroll
        for (int k = 0; k < N; k += 2) {
            sum = __dadd_rn(sum, static_cast<double>(x[k]));
            odd = __dadd_rn(odd, static_cast<double>(x[k + 1]));
        }
        sum = __dadd_rn(sum, odd);
        this->most = most;
        this->least = least;
        terms += N;
        return true;
    }

    // Of a warp alone: returns in all of it whether all batches were added; whether one that was not is beyond FAR.
    __device__ bool is_exact() const {
        return __all_sync(ALL_THREADS, most - least <= SPREAD_ALONE && most < SPECIAL<float>);
    }
    __device__ bool is_far() const { return __any_sync(ALL_THREADS, most - least > FAR); }

    // Of a warp alone: adds pairs of whole batches from one on, as long as the sums of all threads stay exact. Returns
    // the first batch that is not added. Loads both batches of a pair before it waits for one.
    template <int LEN, class Elements>
    __device__ unsigned add_pairs(const Elements &of, unsigned start) {
        const unsigned len = LEN * of.step(), next = of.next(len);
#pragma unroll 1
        while (start + next + len <= of.end()) {
            float x[2 * LEN];
            if (!whole_elements(start + of.offset(), x) || !whole_elements(start + next + of.offset(), x + LEN) ||
                !add(x, true)) {
                break;
            }
            start += 2 * next;
        }
        return start;
    }

    // The exponent of the unit of the terms, and the sum in a unit that is no larger.
    __device__ int unit() const { return exact::unit<float>(least); }
    __device__ long long units(int unit) const {
        return __double2ll_rn(__dmul_rn(sum, power_of_two(-unit)));
    }

    // Hands the sum over to the columns.
    template <class K>
    __device__ void flush(Columns<K> &columns) {
        if (sum != 0) {
            columns.add_units(units(unit()), unit());
        }
        clear();
    }

    // Adds the sums of those lanes that differ in the bits from `lowest` to `highest`, in each of them. Returns in the
    // whole warp whether the sums are exact: the difference from the larger term is exact, and then equals the other.
    __device__ bool merge_lanes(int lowest, int highest) {
        bool is_exact = true;
#pragma unroll 1
        for (int bit = highest; bit >= lowest; bit /= 2) {
            const double other = __shfl_xor_sync(ALL_THREADS, sum, bit), both = __dadd_rn(sum, other);
            is_exact = is_exact && __dsub_rn(both, sum) == other && __dsub_rn(both, other) == sum;
            sum = both;
        }
        return __all_sync(ALL_THREADS, is_exact);
    }

    // The sum in a format, that of f32 or of f64.
    template <class F>
    __device__ u64 value(const F &format) const {
        return format.PRECISION == Format<float>::PRECISION ? Format<float>::bits(__double2float_rn(sum))
                                                            : Format<double>::bits(sum);
    }
};

}  // namespace exact
