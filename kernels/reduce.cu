// Reduction kernels: the state, or the result, of all elements of one array or two.
//
// The last block stores the state at `out`, or the result at `result`: one of them is null. `scratch` is
// zero when a kernel begins and when it ends; no other kernel uses it meanwhile.
#include "accumulators.cuh"
#include "exact.cuh"

// Merges the states of a block's threads, in every thread.
template <class A>
__device__ inline typename A::State merged(typename A::State state) {
    typedef typename A::State State;
    __shared__ State warps[BLOCK_THREADS / WARP];
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2) {
        state = A::merge(state, __shfl_xor_sync(ALL_THREADS, state, half));
    }
    if (lane() == 0) {
        warps[threadIdx.x / WARP] = state;
    }
    __syncthreads();
    state = warps[0];
#pragma unroll
    for (int warp = 1; warp < BLOCK_THREADS / WARP; warp++) {
        state = A::merge(state, warps[warp]);
    }
    __syncthreads();
    return state;
}

// Reduces with an accumulator whose state is one word per block in the scratch memory.
template <class A, int INPUTS, class T, class Accumulate>
__device__ inline void reduce(const T *a, const T *b, typename A::State *out, u64 n, Scratch *scratch,
                              typename A::State *result, Accumulate accumulate) {
    typedef typename A::State State;
    constexpr int LEN = BATCH<T, INPUTS>;
    State state = A::identity();
#pragma unroll 1
    for (u64 start = first_batch(LEN * WARP); start < n; start += next_batch(LEN * WARP)) {
        if (n - start < LEN * WARP) {
            for (u64 i = start + lane(); i < n; i += WARP) {
                state = accumulate(state, a[i], b[i]);
            }
            break;
        }
        T x[LEN], y[LEN];
        read_batch<LEN>(a + start, x);
        read_batch<LEN>(INPUTS == 2 ? b + start : a + start, y);
        __syncwarp();
#pragma unroll
        for (int k = 0; k < LEN; k++) {
            state = accumulate(state, x[k], y[k]);
        }
    }
    state = merged<A>(state);
    if (gridDim.x > 1) {
        State *of_blocks = reinterpret_cast<State *>(scratch->words);
        if (threadIdx.x == 0) {
            of_blocks[blockIdx.x] = state;
        }
        if (!is_last_block(scratch)) {
            return;
        }
        state = A::identity();
        for (unsigned block = threadIdx.x; block < gridDim.x; block += BLOCK_THREADS) {
            state = A::merge(state, __ldcg(of_blocks + block));
            of_blocks[block] = 0;
        }
        state = merged<A>(state);
    }
    if (threadIdx.x == 0) {
        *(out != nullptr ? out : result) = canonical(state);
    }
}

#define REDUCTION(name, INPUTS, T, A, formula)                                                  \
    extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)                                  \
        name(const T *a, const T *b, A::State *out, u64 n, unsigned *flags, Scratch *scratch,    \
             A::State *result, u64) {                                                            \
        reduce<A, INPUTS>(a, b, out, n, scratch, result,                                         \
                          [](A::State s, T x, T y) -> A::State { return formula; });             \
        signal_completion(flags);                                                                \
    }

// The bits of an i32 as those of an i64.
__device__ inline u64 wide(int x) { return static_cast<u64>(static_cast<long long>(x)); }

REDUCTION(dot_i32, 2, int, Sum, s + wide(x) * wide(y))
REDUCTION(dot_i64, 2, u64, Sum, s + x * y)
REDUCTION(sum_i32, 1, int, Sum, s + wide(x))
REDUCTION(sum_i64, 1, u64, Sum, s + x)
REDUCTION(min_f32, 1, float, Min<float>, Min<float>::merge(s, x))
REDUCTION(min_f64, 1, double, Min<double>, Min<double>::merge(s, x))
REDUCTION(min_i32, 1, int, Min<int>, Min<int>::merge(s, x))
REDUCTION(min_i64, 1, long long, Min<long long>, Min<long long>::merge(s, x))
REDUCTION(max_f32, 1, float, Max<float>, Max<float>::merge(s, x))
REDUCTION(max_f64, 1, double, Max<double>, Max<double>::merge(s, x))
REDUCTION(max_i32, 1, int, Max<int>, Max<int>::merge(s, x))
REDUCTION(max_i64, 1, long long, Max<long long>, Max<long long>::merge(s, x))

#define EXACT(name, T, K)                                                                       \
    extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, K::BLOCKS)                       \
        name(const T *a, const T *b, long long *out, u64 n, unsigned *flags, Scratch *scratch,   \
             T *result, u64 mode) {                                                              \
        exact::reduce<K>(a, b, out, n, scratch, result, mode);                                   \
        signal_completion(flags);                                                                \
    }

EXACT(dot_f32, float, exact::DotF32)
EXACT(dot_f64, double, exact::DotF64)
EXACT(sum_f32, float, exact::SumF32)
EXACT(sum_f64, double, exact::SumF64)
