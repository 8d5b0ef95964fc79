// What reductions accumulate in: the states of src/ops/accumulator.rs, with the same bits.
#pragma once
#include "common.cuh"

template <class T>
struct Sum;

template <>
struct Sum<double> {
    typedef double State;
    __device__ static State identity() { return 0; }
    __device__ static State merge(State x, State y) { return __dadd_rn(x, y); }
};

// Wrapping.
template <>
struct Sum<long long> {
    typedef u64 State;
    __device__ static State identity() { return 0; }
    __device__ static State merge(State x, State y) { return x + y; }
};

__device__ inline bool is_negative(float x) { return __float_as_int(x) < 0; }

__device__ inline bool is_negative(double x) { return __double_as_longlong(x) < 0; }

__device__ inline bool is_negative(int x) { return x < 0; }

__device__ inline bool is_negative(long long x) { return x < 0; }

// Orders -0 before +0; a NaN is not less than anything.
template <class T>
__device__ inline bool less(T x, T y) {
    return x < y || (x == y && is_negative(x));
}

// x where it is wanted or NaN, else y.
template <class T>
__device__ inline T select(T x, T y, bool wants_x) {
    return wants_x || x != x ? x : y;
}

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
    __device__ static State merge(State x, State y) { return select(x, y, less(x, y)); }
};

// IEEE 754-2019's maximum (section 9.6).
template <class T>
struct Max {
    typedef T State;
    __device__ static State identity() { return Limits<T>::lowest(); }
    __device__ static State merge(State x, State y) { return select(x, y, less(y, x)); }
};
