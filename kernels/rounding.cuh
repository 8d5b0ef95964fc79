// The formats of floats. Long integers, their quotients and their roots, rounded once.
#pragma once
#include "common.cuh"

namespace exact {

// The format of T. The smallest positive value is 2^LEAST. Stored exponents are BIAS higher than exponents.
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
    // The highest 32 bits, which contain the exponent.
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

// The bits below the exponent among the 32 that `high` returns.
template <class T>
constexpr int HIGH_FRACTION = Format<T>::PRECISION - 1 - (8 * sizeof(T) - 32);

// The stored exponent of infinities and NaN.
template <class T>
constexpr int SPECIAL = 2 * Format<T>::BIAS + 1;

// Normalises digits to the unique form of their integer: all but the last one are in [0, 2^32).
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

// The lowest 64 bits of a nonnegative integer of normalised digits, divided by 2^position and rounded down.
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

// True if a bit below `position` is set.
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
        add_words([&](int k) { return k == 0 ? static_cast<u64>(value) : sign; });
    }

    __device__ void add(const Wide &other) {
        add_words([&](int k) { return other.words[k]; });
    }

    template <class Words>
    __device__ void add_words(Words added) {
        u64 carry = 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const u64 sum = words[k] + added(k) + carry;
            // With a carry, a sum that overflows may equal the word.
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

// The leading bits of a number: its magnitude is (bits + f) * 2^exponent, with 128 bits in `high` and `low`, and f in [0, 1).
// The highest bit is set. The lowest bit is set if f is not 0. Zero has no bits, and NaN only the lowest.
struct Leading {
    u64 high, low;
    int exponent;
    bool is_negative;

    __device__ static Leading zero() { return {0, 0, 0, false}; }
    __device__ static Leading nan() { return {0, 1, 0, false}; }
    // Rounds to infinity in all formats; so do its quotient by 2^64 and its root.
    __device__ static Leading infinity(bool is_negative) { return {1ULL << 63, 0, 2700, is_negative}; }

    // Divides by n. The quotient has 63 or 64 bits.
    __device__ void divide(u64 n) {
        if (n == 0) {
            *this = nan();
        }
        if (high == 0) {
            return;
        }
        const bool has_more = shift(1);
        const int zeros = __clzll(static_cast<long long>(n));
        n <<= zeros;
        // By digits of 32 bits (Knuth, "The Art of Computer Programming", volume 2, section 4.3.1, algorithm D).
        const unsigned upper = n >> 32, lower = n;
        const double reciprocal = __drcp_rn(upper);
        u64 rest = high, quotient = 0;
#pragma unroll 1
        for (int k = 0; k < 2; k++) {
            // Divides by `upper` alone. The error is at most 1, and is corrected.
            u64 digit = __double2ull_rz(__dmul_rn(__ull2double_rn(rest), reciprocal));
            rest -= digit * upper;
            if (static_cast<long long>(rest) < 0) {
                digit--;
                rest += upper;
            } else if (rest >= upper) {
                digit++;
                rest -= upper;
            }
            rest = rest << 32 | low >> 32;
            // The digit is too large by at most 2; always if it has more than 32 bits.
            u64 product = digit * lower;
#pragma unroll 1
            while (product > rest) {
                digit--;
                product -= lower;
                rest += static_cast<u64>(upper) << 32;
                if (rest >> 32 < upper) {
                    // The sum has passed 2^64, and so exceeds the product.
                    break;
                }
            }
            rest -= product;
            quotient = quotient << 32 | digit;
            low <<= 32;
        }
        set(quotient, exponent + zeros, has_more || rest != 0);
    }

    // Takes the square root, which has 63 bits.
    __device__ void root() {
        if (high == 0) {
            return;
        }
        const bool has_more = shift(2 + (exponent & 1));
        const double near = __dsqrt_rz(__ull2double_rz(high));
        u64 root = __double2ull_rz(__dmul_rn(near, 4294967296.0)), rest_high, rest_low;
        // A step of Newton's method, then single steps.
        subtract_square(root, rest_high, rest_low);
        const double rest = __fma_rn(__ull2double_rn(rest_high), 18446744073709551616.0, __ull2double_rn(rest_low));
        root += __double2ull_rz(__ddiv_rn(rest, __ull2double_rn(2 * root)));
#pragma unroll 1
        while (true) {
            subtract_square(root, rest_high, rest_low);
            if (static_cast<long long>(rest_high) < 0) {
                root--;
            } else if (rest_high != 0 || rest_low > 2 * root) {
                root++;
            } else {
                break;
            }
        }
        set(root, exponent / 2, has_more || rest_low != 0);
    }

    // The nearest number of a format, ties to even. `round` in crates/exact/src/digits.rs has the proof.
    template <class T>
    __device__ T rounded() const {
        typedef Format<T> F;
        if (high == 0) {
            return F::of_bits(low == 0 ? 0 : F::INFINITY_BITS | 1ULL << (F::PRECISION - 2));
        }
        const int zeros = __clzll(static_cast<long long>(high));
        const u64 top = high << zeros;
        // The bits of `top` that are below the unit of the result. With more than 64, the result is 0.
        const int highest = exponent + 127 - zeros;
        const int unit = max(highest - (F::PRECISION - 1), F::LEAST);
        const int dropped = min(unit - highest + 63, 65);
        const u64 q = dropped < 64 ? top >> dropped : 0;
        const u64 half = dropped < 65 ? top >> (dropped - 1) & 1 : 0;
        const u64 rest = dropped < 65 ? top << 1 << (64 - dropped) : 1;
        const u64 up = half & (q | static_cast<u64>((rest | low) != 0));
        const u64 steps = static_cast<u64>(unit - F::LEAST) << (F::PRECISION - 1);
        return F::of_bits(min(steps + q + up, F::INFINITY_BITS) | (is_negative ? F::SIGN : 0));
    }

   private:
    // Drops the lowest 1 to 63 bits. Returns true if one of them is set, or f is not 0.
    __device__ bool shift(int bits) {
        const bool is_inexact = low << (64 - bits) != 0;
        low = low >> bits | high << (64 - bits);
        high >>= bits;
        exponent += bits;
        return is_inexact;
    }

    // Replaces the magnitude by a result of 64 bits, with a remainder or without.
    __device__ void set(u64 bits, int exponent, bool has_rest) {
        high = bits;
        low = has_rest;
        this->exponent = exponent - 64;
    }

    // Subtracts a square from the 128 bits, in two's complement.
    __device__ void subtract_square(u64 root, u64 &rest_high, u64 &rest_low) const {
        const u64 square = root * root;
        rest_low = low - square;
        rest_high = high - __umul64hi(root, root) - (low < square);
    }
};

// An integer times 2^low.
template <int N>
__device__ inline Leading leading(Wide<N> x, int low) {
    static_assert(N >= 2, "128 bits");
    const bool is_negative = x.is_negative();
    if (is_negative) {
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
    const int zeros = __clzll(static_cast<long long>(x.words[N - 1]));
    if (0 < zeros && zeros < 64) {
        x.shift(zeros);
    }
    u64 below = 0;
#pragma unroll
    for (int k = 0; k < N - 2; k++) {
        below |= x.words[k];
    }
    return {x.words[N - 1], x.words[N - 2] | (below != 0), highest + low - zeros - 127, is_negative};
}

// An integer of digits times 2^low. Overwrites the digits.
__device__ inline Leading leading(long long *digits, int count, int low) {
    normalise(digits, count);
    const bool is_negative = digits[count - 1] < 0;
    if (is_negative) {
#pragma unroll 1
        for (int k = 0; k < count; k++) {
            digits[k] = -digits[k];
        }
        normalise(digits, count);
    }
    int place = count - 1;
    while (place > 0 && digits[place] == 0) {
        place--;
    }
    const int first = 32 * place + 63 - __clzll(digits[place]) - 127;
    return {bits_from(digits, count, first + 64), bits_from(digits, count, first) | any_below(digits, count, first),
            low + first, is_negative};
}

}  // namespace exact
