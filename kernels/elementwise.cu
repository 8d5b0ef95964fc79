// Elementwise kernels: out[i] = formula(a[i], b[i]), one row per operation and type at the end.
//
// `out` may be `a` or `b`: each element is read before it is written, by the same thread. Arrays
// begin at any element: where all three are past a 16-byte boundary by the same amount, all but
// the ends are read and written 16 bytes at a time, else one element at a time.
#include "common.cuh"

template <class T, class Formula>
__device__ inline void singly(const T *a, const T *b, T *out, u64 from, u64 to, Formula formula) {
    for (u64 i = from + grid_thread(); i < to; i += grid_threads()) {
        out[i] = canonical(formula(a[i], b[i]));
    }
}

template <class T, class Formula>
__device__ inline void packed(const T *a, const T *b, T *out, u64 packs, Formula formula) {
    const Pack<T> *a_packs = reinterpret_cast<const Pack<T> *>(a);
    const Pack<T> *b_packs = reinterpret_cast<const Pack<T> *>(b);
    Pack<T> *out_packs = reinterpret_cast<Pack<T> *>(out);
    for (u64 i = grid_thread(); i < packs; i += grid_threads()) {
        const Pack<T> x = a_packs[i];
        const Pack<T> y = b_packs[i];
        Pack<T> z;
#pragma unroll
        for (int k = 0; k < Pack<T>::LEN; k++) {
            z.at[k] = canonical(formula(x.at[k], y.at[k]));
        }
        out_packs[i] = z;
    }
}

template <class T, class Formula>
__device__ inline void elementwise(const T *a, const T *b, T *out, u64 n, Formula formula) {
    const u64 past = past_pack(out);
    if (past_pack(a) != past || past_pack(b) != past) {
        singly(a, b, out, 0, n, formula);
        return;
    }
    const u64 to_boundary = past == 0 ? 0 : (PACK_BYTES - past) / sizeof(T);
    const u64 head = to_boundary < n ? to_boundary : n;
    const u64 packs = (n - head) / Pack<T>::LEN;
    singly(a, b, out, 0, head, formula);
    packed(a + head, b + head, out + head, packs, formula);
    singly(a, b, out, head + packs * Pack<T>::LEN, n, formula);
}

// The unsigned type of the same size, which wraps around.
__device__ inline unsigned wrapping(int x) { return static_cast<unsigned>(x); }

__device__ inline u64 wrapping(long long x) { return static_cast<u64>(x); }

#define ELEMENTWISE(name, T, formula)                                                           \
    extern "C" __global__ void name(const T *a, const T *b, T *out, u64 n, unsigned *flags) {    \
        elementwise(a, b, out, n, [](T x, T y) -> T { return formula; });                        \
        signal_completion(flags);                                                                \
    }

// With a number; `b` is `a` where the formula has one input.
#define ELEMENTWISE_ALPHA(name, T, formula)                                                     \
    extern "C" __global__ void name(const T *a, const T *b, T *out, u64 n, unsigned *flags,      \
                                    T alpha) {                                                   \
        elementwise(a, b, out, n, [alpha](T x, T y) -> T { return formula; });                   \
        signal_completion(flags);                                                                \
    }

// A copy between memory that the host reaches too: the driver's own makes the caller wait.
ELEMENTWISE(copy_bytes, unsigned char, x)

ELEMENTWISE(add_f32, float, __fadd_rn(x, y))
ELEMENTWISE(add_f64, double, __dadd_rn(x, y))
ELEMENTWISE(add_i32, int, static_cast<int>(wrapping(x) + wrapping(y)))
ELEMENTWISE(add_i64, long long, static_cast<long long>(wrapping(x) + wrapping(y)))
ELEMENTWISE(sub_f32, float, __fsub_rn(x, y))
ELEMENTWISE(sub_f64, double, __dsub_rn(x, y))
ELEMENTWISE(sub_i32, int, static_cast<int>(wrapping(x) - wrapping(y)))
ELEMENTWISE(sub_i64, long long, static_cast<long long>(wrapping(x) - wrapping(y)))
ELEMENTWISE(mul_f32, float, __fmul_rn(x, y))
ELEMENTWISE(mul_f64, double, __dmul_rn(x, y))
ELEMENTWISE(mul_i32, int, static_cast<int>(wrapping(x) * wrapping(y)))
ELEMENTWISE(mul_i64, long long, static_cast<long long>(wrapping(x) * wrapping(y)))
ELEMENTWISE(div_f32, float, __fdiv_rn(x, y))
ELEMENTWISE(div_f64, double, __ddiv_rn(x, y))
ELEMENTWISE_ALPHA(scale_f32, float, __fmul_rn(alpha, x))
ELEMENTWISE_ALPHA(scale_f64, double, __dmul_rn(alpha, x))
ELEMENTWISE_ALPHA(axpy_f32, float, __fmaf_rn(alpha, x, y))
ELEMENTWISE_ALPHA(axpy_f64, double, __fma_rn(alpha, x, y))

// Does nothing: a driver that takes it takes the other kernels.
extern "C" __global__ void probe() {}
