// The end of a reduction on the device: the tiles' states become one, as src/ops/accumulator.rs says, and
// the result is stored as the output's type.
#include "accumulators.cuh"

// States of which a block of fold_* makes one; a power of two, so that the tree may be cut there.
constexpr int GROUP = 2048;

// Merges `count` states as a tree, in place: the whole block, which has one thread for each pair or
// goes over the pairs in order. Neighbours are read before anything is written over them.
template <class A>
__device__ inline void merge_in_order(typename A::State *states, u64 count) {
    while (count > 1) {
        const u64 pairs = count / 2;
        for (u64 first = 0; first < pairs; first += blockDim.x) {
            const u64 pair = first + threadIdx.x;
            typename A::State state = A::identity();
            if (pair < pairs) {
                state = A::merge(states[2 * pair], states[2 * pair + 1]);
            }
            __syncthreads();
            if (pair < pairs) {
                states[pair] = state;
            }
            __syncthreads();
        }
        if (count % 2 == 1 && threadIdx.x == 0) {
            states[pairs] = states[count - 1];
        }
        __syncthreads();
        count = pairs + count % 2;
    }
}

template <class A>
__device__ inline void fold(const typename A::State *states, typename A::State *groups, u64 count) {
    __shared__ typename A::State group[GROUP];
    const u64 start = static_cast<u64>(blockIdx.x) * GROUP;
    const u64 len = count - start < GROUP ? count - start : GROUP;
    for (u64 i = threadIdx.x; i < len; i += blockDim.x) {
        group[i] = states[start + i];
    }
    __syncthreads();
    merge_in_order<A>(group, len);
    if (threadIdx.x == 0) {
        groups[blockIdx.x] = group[0];
    }
}

template <class A, class T>
__device__ inline void finish(typename A::State *states, T *out, u64 count) {
    merge_in_order<A>(states, count);
    if (threadIdx.x == 0) {
        out[0] = canonical(static_cast<T>(states[0]));
    }
}

// groups[g] becomes the state of states[g * GROUP] and the GROUP - 1 after it: one block for each
// group.
#define FOLD(name, A)                                                                           \
    extern "C" __global__ void fold_##name(const A::State *states, A::State *groups, u64 count) { \
        fold<A>(states, groups, count);                                                          \
    }

// out[0] becomes the result of all states, which are destroyed: one block.
#define FINISH(name, A, T)                                                                      \
    extern "C" __global__ void finish_##name(A::State *states, T *out, u64 count) {               \
        finish<A>(states, out, count);                                                           \
    }

FOLD(sum_f64, Sum<double>)
FOLD(sum_i64, Sum<long long>)
FOLD(min_f32, Min<float>)
FOLD(min_f64, Min<double>)
FOLD(min_i32, Min<int>)
FOLD(min_i64, Min<long long>)
FOLD(max_f32, Max<float>)
FOLD(max_f64, Max<double>)
FOLD(max_i32, Max<int>)
FOLD(max_i64, Max<long long>)

FINISH(sum_f64_f32, Sum<double>, float)
FINISH(sum_f64_f64, Sum<double>, double)
FINISH(sum_i64_i64, Sum<long long>, long long)
FINISH(min_f32_f32, Min<float>, float)
FINISH(min_f64_f64, Min<double>, double)
FINISH(min_i32_i32, Min<int>, int)
FINISH(min_i64_i64, Min<long long>, long long)
FINISH(max_f32_f32, Max<float>, float)
FINISH(max_f64_f64, Max<double>, double)
FINISH(max_i32_i32, Max<int>, int)
FINISH(max_i64_i64, Max<long long>, long long)
