// Uniform sums: sums of f32 in f64, which are exact while the terms' exponents are close to each other.
#pragma once
#include "exact.cuh"

namespace exact {

// The sum of a thread's terms.
//
// If the exponents differ by at most SPREAD, the terms are multiples of a unit and below 2^(24 + SPREAD) units. An f64 then
// holds the sum of MOST terms. The exponents of FEW terms may differ by more.
struct UniformSum {
    static constexpr int MOST = 1 << 9, SPREAD = 53 - 24 - 9;
    static constexpr int FEW = 1 << 6, SPREAD_OF_FEW = 53 - 24 - 6;

    double sum;
    // Bounds of the terms' stored exponents; the number of terms.
    int most, least, terms;
    // After batches that could not be added: the number of batches still to skip, and the number skipped last time.
    int to_skip, skipped;

    __device__ UniformSum() : to_skip(0), skipped(0) { clear(); }

    __device__ void clear() {
        sum = 0;
        most = 0;
        least = SPECIAL<float>;
        terms = 0;
    }

    // Adds a batch if the sums of all threads of the warp stay exact, and then returns true in the whole warp. If not, the
    // bounds of a warp alone still include the batch.
    template <int N>
    __device__ bool add(const float (&x)[N], bool is_alone) {
        const Exponents<float> of_batch = exponents<float, N>(x);
        const int most = max(this->most, static_cast<int>(of_batch.most));
        const int least = min(this->least, static_cast<int>(of_batch.least));
        const bool is_exact = most - least <= spread<N>() && most < SPECIAL<float>;
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

    // The greatest difference of the exponents with N more terms.
    template <int N>
    __device__ int spread() const {
        return terms <= FEW - N ? SPREAD_OF_FEW : SPREAD;
    }

    // For a warp alone: true in the whole warp if all batches were added.
    __device__ bool is_exact() const {
        return __all_sync(ALL_THREADS, most - least <= spread<0>() && most < SPECIAL<float>);
    }
    // For a warp alone: true in the whole warp if a batch that was not added is beyond policy::FAR.
    __device__ bool is_far() const { return __any_sync(ALL_THREADS, most - least > policy::FAR); }

    // The range of the terms.
    __device__ Range range() const {
        return {most == SPECIAL<float> ? NOT_FINITE : top<float>(most), exact::unit<float>(least)};
    }

    // Adds the few contiguous elements of a result. Returns true if the calling thread's sum is exact. Threads with rows that
    // begin in the same bank of shared memory begin at different elements.
    __device__ bool add_row(const float *row, unsigned n) {
        return n % 4 == 0 ? add_vectors<float4>(row, n, lane() * n / 32 % (n / 4) * 4)
                          : add_vectors<float>(row, n, lane() * n / 32);
    }

    // Adds them in vectors, beginning at the element `first`.
    template <class Vector>
    __device__ bool add_vectors(const float *row, unsigned n, unsigned first) {
        constexpr unsigned N = sizeof(Vector) / sizeof(float);
        unsigned most = 0, least = 0xFFFFFFFF, place = first;
#pragma unroll 1
        for (unsigned k = 0; k < n; k += N) {
            const Vector vector = reinterpret_cast<const Vector &>(row[place]);
#pragma unroll
            for (unsigned i = 0; i < N; i++) {
                const float x = reinterpret_cast<const float *>(&vector)[i];
                const unsigned high = Format<float>::high(x) & 0x7FFFFFFF;
                most = max(most, high);
                least = min(least, high - 1);
                sum = __dadd_rn(sum, static_cast<double>(x));
            }
            place = place + N == n ? 0 : place + N;
        }
        most >>= HIGH_FRACTION<float>;
        least >>= HIGH_FRACTION<float>;
        return most < SPECIAL<float> && static_cast<int>(most - least) <= SPREAD_OF_FEW;
    }

    // The exponent of the terms' unit.
    __device__ int unit() const { return exact::unit<float>(least); }
    // The sum in units of 2^unit, which is at most the terms' unit.
    __device__ long long units(int unit) const {
        return __double2ll_rn(__dmul_rn(sum, power_of_two(-unit)));
    }

    // Moves the sum to the columns.
    template <class K>
    __device__ void flush(Columns<K> &columns) {
        if (sum != 0) {
            columns.add_units(units(unit()), unit());
        }
        clear();
    }

    // Adds the sums of the lanes that differ in the bits from `lowest` to `highest`. Each of these lanes gets the sum. Returns
    // true in the whole warp if the sums are exact: each term is then the exact difference of the sum and the other term.
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

    // The mean of n elements, computed from the reciprocal of n. A quotient that is rounded to odd and then to f32 is rounded
    // correctly (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd",
    // 2008). The remainder is exact, and its sign shows on which side of the rounded quotient the exact one is.
    __device__ float mean(unsigned n, double reciprocal) const {
        double quotient = __dmul_rn(sum, reciprocal);
        quotient = __fma_rn(__fma_rn(-quotient, n, sum), reciprocal, quotient);
        const double rest = __fma_rn(-quotient, n, sum);
        long long bits = __double_as_longlong(quotient);
        if (rest != 0 && (bits & 1) == 0) {
            bits += (bits ^ __double_as_longlong(rest)) >> 63 | 1;
        }
        return __double2float_rn(__longlong_as_double(bits));
    }
};

}  // namespace exact
