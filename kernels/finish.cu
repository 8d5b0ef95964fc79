// The end of a reduction on the device: the tiles' sums become one, as src/sum.rs says, and that is
// stored as the output's type.
#include "common.cuh"

// Sums that a block of fold_* makes one of; a power of two, so that the tree may be cut there.
constexpr int GROUP = 2048;

__device__ inline double plus(double x, double y) { return __dadd_rn(x, y); }

__device__ inline long long plus(long long x, long long y) {
    return static_cast<long long>(static_cast<u64>(x) + static_cast<u64>(y));
}

// Adds up `count` sums as a tree, in place: the whole block, which has one thread for each pair or
// goes over the pairs in order. Neighbours are read before anything is written over them.
template <class S>
__device__ inline void tree(S *sums, u64 count) {
    while (count > 1) {
        const u64 pairs = count / 2;
        for (u64 first = 0; first < pairs; first += blockDim.x) {
            const u64 pair = first + threadIdx.x;
            S sum = 0;
            if (pair < pairs) {
                sum = plus(sums[2 * pair], sums[2 * pair + 1]);
            }
            __syncthreads();
            if (pair < pairs) {
                sums[pair] = sum;
            }
            __syncthreads();
        }
        if (count % 2 == 1 && threadIdx.x == 0) {
            sums[pairs] = sums[count - 1];
        }
        __syncthreads();
        count = pairs + count % 2;
    }
}

template <class S>
__device__ inline void fold(const S *sums, S *groups, u64 count) {
    __shared__ S group[GROUP];
    const u64 start = static_cast<u64>(blockIdx.x) * GROUP;
    const u64 len = count - start < GROUP ? count - start : GROUP;
    for (u64 i = threadIdx.x; i < len; i += blockDim.x) {
        group[i] = sums[start + i];
    }
    __syncthreads();
    tree(group, len);
    if (threadIdx.x == 0) {
        groups[blockIdx.x] = group[0];
    }
}

template <class S, class T>
__device__ inline void finish(S *sums, T *out, u64 count) {
    tree(sums, count);
    if (threadIdx.x == 0) {
        out[0] = canonical(static_cast<T>(sums[0]));
    }
}

// groups[g] becomes the sum of sums[g * GROUP] and the GROUP - 1 after it: one block for each
// group.
#define FOLD(name, S)                                                                           \
    extern "C" __global__ void name(const S *sums, S *groups, u64 count) {                        \
        fold(sums, groups, count);                                                               \
    }

// out[0] becomes the sum of all sums, which are destroyed: one block.
#define FINISH(name, S, T)                                                                      \
    extern "C" __global__ void name(S *sums, T *out, u64 count) {                                 \
        finish(sums, out, count);                                                                \
    }

FOLD(fold_f64, double)
FOLD(fold_i64, long long)

FINISH(finish_f32, double, float)
FINISH(finish_f64, double, double)
FINISH(finish_i64, long long, long long)
