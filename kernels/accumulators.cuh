// The accumulators of crates/ops/src/accumulator.rs whose states have 8 bytes at most, with the same bits.
#pragma once
#include "common.cuh"

// The wrapping sum.
struct Sum {
    typedef u64 State;
    __device__ static State identity() { return 0; }
    __device__ static State merge(State x, State y) { return x + y; }
};

// PTX's min and max order -0 before +0, but return the other operand for a NaN, which must win.
__device__ inline float quiet_nan(float) { return __int_as_float(0x7FC00000); }

__device__ inline double quiet_nan(double) { return __longlong_as_double(0x7FF8000000000000); }

template <class T>
__device__ inline T unless_nan(T x, T y, T result) {
    return (x != x) | (y != y) ? quiet_nan(x) : result;
}

__device__ inline float minimum(float x, float y) { return unless_nan(x, y, fminf(x, y)); }

__device__ inline double minimum(double x, double y) { return unless_nan(x, y, fmin(x, y)); }

__device__ inline int minimum(int x, int y) { return min(x, y); }

__device__ inline long long minimum(long long x, long long y) { return min(x, y); }

__device__ inline float maximum(float x, float y) { return unless_nan(x, y, fmaxf(x, y)); }

__device__ inline double maximum(double x, double y) { return unless_nan(x, y, fmax(x, y)); }

__device__ inline int maximum(int x, int y) { return max(x, y); }

__device__ inline long long maximum(long long x, long long y) { return max(x, y); }

template <class T>
struct Limits;

template <>
struct Limits<float> {
    __device__ static float lowest() { return __int_as_float(0xFF800000); }
    __device__ static float highest() { return __int_as_float(0x7F800000); }
};

template <>
struct Limits<double> {
    __device__ static double lowest() { return __longlong_as_double(0xFFF0000000000000); }
    __device__ static double highest() { return __longlong_as_double(0x7FF0000000000000); }
};

template <>
struct Limits<int> {
    __device__ static int lowest() { return static_cast<int>(0x80000000); }
    __device__ static int highest() { return 0x7FFFFFFF; }
};

template <>
struct Limits<long long> {
    __device__ static long long lowest() { return static_cast<long long>(0x8000000000000000); }
    __device__ static long long highest() { return 0x7FFFFFFFFFFFFFFF; }
};

// IEEE 754-2019's minimum (section 9.6).
template <class T>
struct Min {
    typedef T State;
    __device__ static State identity() { return Limits<T>::highest(); }
    __device__ static State merge(State x, State y) { return minimum(x, y); }
};

// IEEE 754-2019's maximum (section 9.6).
template <class T>
struct Max {
    typedef T State;
    __device__ static State identity() { return Limits<T>::lowest(); }
    __device__ static State merge(State x, State y) { return maximum(x, y); }
};
