// The formats of floats, and long integers that are rounded to them, once.
#pragma once
#include "common.cuh"

namespace exact {

// The format of T: the smallest positive value is 2^LEAST; exponents are stored BIAS higher.
template <class T>
struct Format;

template <>
struct Format<float> {
    typedef float Value;
    typedef unsigned Bits;
    static constexpr int PRECISION = 24, LEAST = -149, BIAS = 127;
    static constexpr u64 INFINITY_BITS = 0x7F800000, SIGN = 0x80000000;
    __device__ static Bits bits(float x) { return __float_as_uint(x); }
    __device__ static float of_bits(u64 bits) { return __uint_as_float(static_cast<unsigned>(bits)); }
    // The bits that hold the exponent, at the high end.
    __device__ static unsigned high(float x) { return bits(x); }
};

template <>
struct Format<double> {
    typedef double Value;
    typedef u64 Bits;
    static constexpr int PRECISION = 53, LEAST = -1074, BIAS = 1023;
    static constexpr u64 INFINITY_BITS = 0x7FF0000000000000, SIGN = 0x8000000000000000;
    __device__ static Bits bits(double x) { return static_cast<u64>(__double_as_longlong(x)); }
    __device__ static double of_bits(u64 bits) {
        return __longlong_as_double(static_cast<long long>(bits));
    }
    __device__ static unsigned high(double x) { return static_cast<unsigned>(__double2hiint(x)); }
};

// The bits right of the exponent, among the 32 that `high` returns.
template <class T>
constexpr int HIGH_FRACTION = Format<T>::PRECISION - 1 - (8 * sizeof(T) - 32);

// The exponent of infinities and NaN.
template <class T>
constexpr int SPECIAL = 2 * Format<T>::BIAS + 1;

// Normalises digits to the unique form of their integer: all but the last in [0, 2^32).
__device__ inline void normalise(long long *digits, int count) {
    long long carry = 0;
#pragma unroll 2
    for (int k = 0; k < count - 1; k++) {
        const long long sum = digits[k] + carry;
        digits[k] = sum & 0xFFFFFFFF;
        carry = sum >> 32;
    }
    digits[count - 1] += carry;
}

// The integer of normalised digits that are not negative, divided by 2^position and rounded down.
__device__ inline u64 bits_from(const long long *digits, int count, int position) {
    const int first = min(max(position, 0) / 32, count - 1);
    u64 bits = 0;
#pragma unroll 1
    for (int k = first; k < min(first + 3, count); k++) {
        const int shift = 32 * k - position;
        const u64 digit = static_cast<u64>(digits[k]);
        if (shift < 0) {
            bits |= -shift < 64 ? digit >> -shift : 0;
        } else {
            bits |= shift < 64 ? digit << shift : 0;
        }
    }
    return bits;
}

// Returns whether a bit below `position` is set.
__device__ inline bool any_below(const long long *digits, int count, int position) {
#pragma unroll 1
    for (int k = 0; k < count && 32 * k < position; k++) {
        const int bits = min(position - 32 * k, 64);
        if (digits[k] << (64 - bits) != 0) {
            return true;
        }
    }
    return false;
}

// An integer of N words of 64 bits, in two's complement, the lowest first.
template <int N>
struct Wide {
    u64 words[N];

    __device__ explicit Wide(long long value) {
        words[0] = static_cast<u64>(value);
#pragma unroll
        for (int k = 1; k < N; k++) {
            words[k] = static_cast<u64>(value >> 63);
        }
    }

    __device__ bool is_negative() const { return static_cast<long long>(words[N - 1]) < 0; }

    // Multiplies by 2^bits, for 0 < bits < 64.
    __device__ void shift(int bits) {
#pragma unroll
        for (int k = N - 1; k > 0; k--) {
            words[k] = words[k] << bits | words[k - 1] >> (64 - bits);
        }
        words[0] <<= bits;
    }

    __device__ void add(long long value) {
        const u64 sign = static_cast<u64>(value >> 63);
        u64 carry = 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const u64 added = k == 0 ? static_cast<u64>(value) : sign;
            const u64 sum = words[k] + added + carry;
            // With the carry, the sum may be the word itself.
            carry = carry != 0 ? sum <= words[k] : sum < words[k];
            words[k] = sum;
        }
    }

    __device__ void negate() {
#pragma unroll
        for (int k = 0; k < N; k++) {
            words[k] = ~words[k];
        }
        add(1);
    }
};

// The value of an integer times 2^low in a format, rounded as below.
template <int N, class F>
__device__ inline typename F::Value rounded(Wide<N> x, int low, F format) {
    const bool negative = x.is_negative();
    if (negative) {
        x.negate();
    }
    int highest = 64 * N - 1;
#pragma unroll
    for (int k = 1; k < N; k++) {
        if (x.words[N - 1] == 0) {
#pragma unroll
            for (int word = N - 1; word > 0; word--) {
                x.words[word] = x.words[word - 1];
            }
            x.words[0] = 0;
            highest -= 64;
        }
    }
    if (x.words[N - 1] == 0) {
        return format.of_bits(0);
    }
    const int zeros = __clzll(static_cast<long long>(x.words[N - 1]));
    if (zeros > 0) {
        x.shift(zeros);
    }
    highest += low - zeros;
    u64 below = 0;
#pragma unroll
    for (int k = 0; k < N - 1; k++) {
        below |= x.words[k];
    }
    // The bits of the highest word that are below the unit of the result. With more than 64, the result is 0.
    const u64 top = x.words[N - 1];
    const int unit = max(highest - (format.PRECISION - 1), format.LEAST);
    const int dropped = min(unit - highest + 63, 65);
    const u64 q = dropped < 64 ? top >> dropped : 0;
    const u64 half = dropped < 65 ? top >> (dropped - 1) & 1 : 0;
    const u64 rest = dropped < 65 ? top << 1 << (64 - dropped) : 1;
    const u64 up = half & (q | static_cast<u64>((rest | below) != 0));
    const u64 steps = static_cast<u64>(unit - format.LEAST) << (format.PRECISION - 1);
    return format.of_bits(min(steps + q + up, format.INFINITY_BITS) | (negative ? format.SIGN : 0));
}

// The value of digits times 2^low in a format, as by `round` in crates/exact/src/digits.rs, which
// proves it right. The digits are overwritten.
template <class F>
__device__ inline typename F::Value rounded(long long *digits, int count, int low, F format) {
    normalise(digits, count);
    const bool negative = digits[count - 1] < 0;
    if (negative) {
#pragma unroll 1
        for (int k = 0; k < count; k++) {
            digits[k] = -digits[k];
        }
        normalise(digits, count);
    }
    int place = count - 1;
    while (place >= 0 && digits[place] == 0) {
        place--;
    }
    if (place < 0) {
        return 0;
    }
    const int highest = 32 * place + 63 - __clzll(digits[place]);
    const int unit = max(highest - (format.PRECISION - 1), format.LEAST - low);
    const u64 q = bits_from(digits, count, unit);
    const u64 half = bits_from(digits, count, unit - 1) & 1;
    const u64 up = half & (q | any_below(digits, count, unit - 1));
    const u64 steps = static_cast<u64>(unit + low - format.LEAST) << (format.PRECISION - 1);
    return format.of_bits(min(steps + q + up, format.INFINITY_BITS) | (negative ? format.SIGN : 0));
}

}  // namespace exact
