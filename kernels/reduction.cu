// Reductions of whole arrays: kernels without the formula of the elements (placeholders.cuh).
//
// The parameters follow the inputs. The kernel stores the state at `out`, or the result at `result`. The last parameter is
// the mode of addition (exact sums), or the index of the first element (folds).
#include "elements.cuh"

namespace exact {

template <class K, class Elements, class T>
__device__ inline void reduce_elements(long long *out, u64 n, Scratch *scratch, T *result, u64 mode) {
    __shared__ Columns<K> columns;
    __shared__ long long words[K::ROWS];
    __shared__ int first, last;
    if (threadIdx.x == 0) {
        first = K::DIGITS;
        last = -1;
    }
    columns.clear();
    Elements of(n, K::BATCH * WARP, scratch);
    __syncthreads();
    Window<K> window;
    UniformSum uniform;
    add_elements(columns, window, uniform, of, mode);
    __syncthreads();
    gather(columns, words, first, last, out, n, scratch, [&] {
        if (result != nullptr && threadIdx.x == 0) {
            const int what = finish();
            *result = result_of<T>(leading<K>(words, first, last), words[0], what);
        }
    });
}

}  // namespace exact

#define EXACT(name, T, K, Elements)                                                              \
    extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS)                          \
        name(long long *out, u64 n, unsigned *flags, Scratch *scratch, T *result, u64 mode) {    \
        exact::reduce_elements<K, Elements>(out, n, scratch, result, mode);                      \
        signal_completion(flags);                                                                \
    }

EXACT(sum_f32, float, exact::SumF32, exact::OfGridInPortions<exact::SumF32>)
EXACT(sum_f64, double, exact::SumF64, exact::OfGrid)
EXACT(dot_f32, float, exact::DotF32, exact::OfGridInPortions<exact::DotF32>)
EXACT(dot_f64, double, exact::DotF64, exact::OfGrid)
EXACT(norm_f32, float, exact::NormF32, exact::OfGridInPortions<exact::NormF32>)
EXACT(norm_f64, double, exact::NormF64, exact::OfGrid)

// Merges the states of a block's threads. Each of them returns the merged state.
__device__ inline Fold merged(Fold state) {
    constexpr int WARPS = BLOCK_THREADS / WARP;
    __shared__ Fold warps[WARPS];
    state = of_lanes(state, WARP);
    if (lane() == 0) {
        warps[threadIdx.x / WARP] = state;
    }
    __syncthreads();
    state = of_lanes(warps[lane() % WARPS], WARPS);
    __syncthreads();
    return state;
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS)
    fold(u64 *out, u64 n, unsigned *flags, Scratch *scratch, u64 *result, u64 index) {
    Fold state = Fold::identity();
#pragma unroll 1
    for (u64 start = first_batch(FOLD_BATCH * WARP); start < n; start += next_batch(FOLD_BATCH * WARP)) {
        Fold batch;
        fold_elements(start + lane(), n, batch.value, batch.index);
        batch.index += index;
        state.merge(batch);
    }
    state = merged(state);
    bool is_last = true;
    if (gridDim.x > 1) {
        Fold *of_blocks = reinterpret_cast<Fold *>(scratch->words);
        if (threadIdx.x == 0) {
            of_blocks[blockIdx.x] = state;
        }
        is_last = is_last_block(scratch);
        if (is_last) {
            state = Fold::identity();
            for (unsigned block = threadIdx.x; block < gridDim.x; block += BLOCK_THREADS) {
                state.merge(Fold{__ldcg(&of_blocks[block].value), __ldcg(&of_blocks[block].index)});
                of_blocks[block] = Fold{0, 0};
            }
            state = merged(state);
        }
    }
    if (is_last && threadIdx.x == 0) {
        if (out != nullptr) {
            store_state(out, state.value, state.index);
        } else {
            store_result(result, state.value, state.index);
        }
    }
    signal_completion(flags);
}
