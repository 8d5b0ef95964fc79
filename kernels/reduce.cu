// Kernels of exact sums: the state, or the result, of all elements of one array or two. Other reductions
// are those of expressions (expression.cu).
//
// The last block stores the state at `out`, or the result at `result`: one of them is null. `scratch` is
// zero when a kernel begins and when it ends; no other kernel uses it meanwhile.
#include "exact.cuh"

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
