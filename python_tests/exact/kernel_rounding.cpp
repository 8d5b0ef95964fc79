// kernels/rounding.cuh on the host: CUDA's functions that it calls, and an entry for tests.
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>

#define __device__
#define __syncwarp()
#define __threadfence_system()

using std::max;
using std::min;

namespace {

struct {
    unsigned x;
} blockIdx, blockDim, gridDim, threadIdx;

template <class To, class From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof(to));
    return to;
}

// The result of an operation that rounds toward zero.
template <class Operation>
double toward_zero(Operation operation) {
    fesetround(FE_TOWARDZERO);
    const volatile double result = operation();
    fesetround(FE_TONEAREST);
    return result;
}

float __int_as_float(int x) { return bits_as<float>(x); }
unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
float __uint_as_float(unsigned x) { return bits_as<float>(x); }
long long __double_as_longlong(double x) { return bits_as<long long>(x); }
double __longlong_as_double(long long x) { return bits_as<double>(x); }
int __double2hiint(double x) { return static_cast<int>(bits_as<long long>(x) >> 32); }
int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(x); }
unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return static_cast<unsigned __int128>(x) * y >> 64;
}
double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
double __ull2double_rz(unsigned long long x) {
    volatile unsigned long long exact = x;
    return toward_zero([&] { return static_cast<double>(exact); });
}
unsigned long long __double2ull_rz(double x) { return static_cast<unsigned long long>(x); }
double __dsqrt_rz(double x) {
    volatile double exact = x;
    return toward_zero([&] { return std::sqrt(exact); });
}
double __dmul_rn(double x, double y) { return x * y; }
double __ddiv_rn(double x, double y) { return x / y; }
double __drcp_rn(double x) { return 1 / x; }
double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }

}  // namespace

#include "rounding.cuh"

namespace {

u64 finished(exact::Leading sum, int what, u64 n, bool is_single) {
    if (what == 1) {
        sum.divide(n);
    } else if (what == 2) {
        sum.root();
    }
    return is_single ? exact::Format<float>::bits(sum.rounded<float>())
                     : exact::Format<double>::bits(sum.rounded<double>());
}

}  // namespace

// The encoding of an integer of three words times 2^low (what = 0), divided by n (1), or its root (2).
extern "C" u64 of_words(const u64 *words, int low, int what, u64 n, bool is_single) {
    exact::Wide<3> integer(0);
    std::copy_n(words, 3, integer.words);
    return finished(exact::leading(integer, low), what, n, is_single);
}

// The same of digits, which it overwrites.
extern "C" u64 of_digits(long long *digits, int count, int low, int what, u64 n, bool is_single) {
    return finished(exact::leading(digits, count, low), what, n, is_single);
}

// The same of zero (which = 0), NaN (1), infinity (2) and its negative (3).
extern "C" u64 of_special(int which, int what, u64 n, bool is_single) {
    const exact::Leading numbers[] = {exact::Leading::zero(), exact::Leading::nan(),
                                      exact::Leading::infinity(false), exact::Leading::infinity(true)};
    return finished(numbers[which], what, n, is_single);
}
