// Plain kernels that measure a machine's ceilings and that the naive function launches. They are
// not part of the library.
//
// All have the same parameters. Arrays start at a multiple of PACK_BYTES.
typedef unsigned long long u64;

__device__ inline u64 grid_thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }

__device__ inline u64 grid_threads() { return (u64)gridDim.x * blockDim.x; }

// Bytes that a thread moves at once, in one instruction.
constexpr int PACK_BYTES = 16;

// Elements that PACK_BYTES hold, aligned as the wide load needs.
template <class T>
struct alignas(PACK_BYTES) Pack {
    static constexpr int LEN = PACK_BYTES / sizeof(T);
    T at[LEN];
};

template <class T>
__device__ inline const Pack<T> *packs_of(const T *a) {
    return reinterpret_cast<const Pack<T> *>(a);
}

template <class T>
__device__ inline void plain_add(const T *a, const T *b, T *out, u64 n) {
    const u64 packs = n / Pack<T>::LEN;
    for (u64 i = grid_thread(); i < packs; i += grid_threads()) {
        const Pack<T> x = packs_of(a)[i];
        const Pack<T> y = packs_of(b)[i];
        Pack<T> sums;
#pragma unroll
        for (int k = 0; k < Pack<T>::LEN; k++) {
            sums.at[k] = x.at[k] + y.at[k];
        }
        reinterpret_cast<Pack<T> *>(out)[i] = sums;
    }
    for (u64 i = packs * Pack<T>::LEN + grid_thread(); i < n; i += grid_threads()) {
        out[i] = a[i] + b[i];
    }
}

// Adds a thread's sums to out[0], in any order.
template <class T>
__device__ inline void add_to(T *out, const T *sums, T sum) {
#pragma unroll
    for (int k = 0; k < Pack<T>::LEN; k++) {
        sum += sums[k];
    }
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
        sum += __shfl_down_sync(0xFFFFFFFF, sum, half);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(out, sum);
    }
}

// Fused multiply-add, so that memory is the only bottleneck.
__device__ inline float fused(float x, float y, float sum) { return __fmaf_rn(x, y, sum); }

__device__ inline double fused(double x, double y, double sum) { return __fma_rn(x, y, sum); }

// Adds the dot product of two arrays to out[0], in any order.
template <class T>
__device__ inline void fma_dot(const T *a, const T *b, T *out, u64 n) {
    const u64 packs = n / Pack<T>::LEN;
    T sums[Pack<T>::LEN] = {}, sum = 0;
#pragma unroll 4
    for (u64 i = grid_thread(); i < packs; i += grid_threads()) {
        const Pack<T> x = packs_of(a)[i];
        const Pack<T> y = packs_of(b)[i];
#pragma unroll
        for (int k = 0; k < Pack<T>::LEN; k++) {
            sums[k] = fused(x.at[k], y.at[k], sums[k]);
        }
    }
    for (u64 i = packs * Pack<T>::LEN + grid_thread(); i < n; i += grid_threads()) {
        sum = fused(a[i], b[i], sum);
    }
    add_to(out, sums, sum);
}

// Adds the sum of an array to out[0], in any order.
template <class T>
__device__ inline void plain_sum(const T *a, const T *, T *out, u64 n) {
    const u64 packs = n / Pack<T>::LEN;
    T sums[Pack<T>::LEN] = {}, sum = 0;
#pragma unroll 8
    for (u64 i = grid_thread(); i < packs; i += grid_threads()) {
        const Pack<T> x = packs_of(a)[i];
#pragma unroll
        for (int k = 0; k < Pack<T>::LEN; k++) {
            sums[k] += x.at[k];
        }
    }
    for (u64 i = packs * Pack<T>::LEN + grid_thread(); i < n; i += grid_threads()) {
        sum += a[i];
    }
    add_to(out, sums, sum);
}

#define KERNEL(name, suffix, T)                                                                   \
    extern "C" __global__ void name##_##suffix(const T *a, const T *b, T *out, u64 n) {           \
        name(a, b, out, n);                                                                       \
    }
#define KERNELS(name) KERNEL(name, f32, float) KERNEL(name, f64, double)
KERNELS(plain_add)
KERNELS(fma_dot)
KERNELS(plain_sum)

// Copies whole packs of `a` to `out`.
extern "C" __global__ void plain_copy(const float *a, const float *, float *out, u64 n) {
    const uint4 *__restrict__ from = reinterpret_cast<const uint4 *>(a);
    uint4 *__restrict__ to = reinterpret_cast<uint4 *>(out);
#pragma unroll 4
    for (u64 i = grid_thread(); i < n / 4; i += grid_threads()) {
        to[i] = from[i];
    }
}

// Does nothing: the cost of a launch.
extern "C" __global__ void empty(const float *, const float *, float *, u64) {}
