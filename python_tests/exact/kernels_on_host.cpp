// The kernels of reductions on the host. Functions of a test take the place of a formula's placeholders: they load the
// elements of one array or two, and fold to the greatest i64 with the first index.
#include "cuda_on_host.hpp"
#define PLACEHOLDERS
#include "common.cuh"

namespace {

// Arrays, by the distances in bytes of their results and of the elements of a result.
struct Array {
    char *data;
    long long result, element;
};

struct {
    Array inputs[2], output;
    u64 elements, results;
    int finish;
    // Says that batches which are whole have a shorter way.
    bool has_whole;
    bool is_out_of_bounds;
    // The result of each thread, the distance of its elements, and its number among those of the result.
    struct {
        u64 result = 0;
        int step = 32, number = NO_VECTORS;
    } threads[THREADS];
} formula;

template <class T>
T element(const Array &array, u64 i) {
    const u64 result = formula.threads[threadIdx.x].result;
    if (result + i / formula.elements >= formula.results) {
        formula.is_out_of_bounds = true;
        return 0;
    }
    T value;
    memcpy(&value, array.data + result * array.result + i * array.element, sizeof(T));
    return value;
}

template <class T, int N>
void load(const Array &array, u64 i, u64 n, T (&x)[N]) {
    constexpr int VECTOR = 16 / sizeof(T);
    const auto &thread = formula.threads[threadIdx.x];
    const bool has_vectors = thread.number != NO_VECTORS && N % VECTOR == 0 && i - thread.number + N * thread.step <= n;
    for (int k = 0; k < N; k++) {
        const u64 in_vector = i + thread.number * (VECTOR - 1) + k / VECTOR * VECTOR * thread.step + k % VECTOR;
        x[k] = element<T>(array, has_vectors ? in_vector : std::min(i + k * thread.step, n - 1));
    }
}

template <class T, int N>
void elements(u64 i, u64 n, T (&x)[N]) {
    load(formula.inputs[0], i, n, x);
}

template <class T, int N>
void pairs(u64 i, u64 n, T (&x)[N], T (&y)[N]) {
    load(formula.inputs[0], i, n, x);
    load(formula.inputs[1], i, n, y);
}

bool whole_elements(u64 i, float *x) {
    if (formula.has_whole) {
        float all[16];
        load(formula.inputs[0], i, ~0ULL, all);
        std::copy_n(all, 16, x);
    }
    return formula.has_whole;
}

void identity(u64 &value, u64 &index) { value = 1ULL << 63, index = ~0ULL; }

void merge(u64 &value, u64 &index, u64 value_a, u64 index_a, u64 value_b, u64 index_b) {
    const auto [x, y] = std::pair(static_cast<long long>(value_a), static_cast<long long>(value_b));
    const bool is_second = y > x || (y == x && index_b < index_a);
    value = is_second ? value_b : value_a, index = is_second ? index_b : index_a;
}

void fold_elements(u64 i, u64 n, u64 &value, u64 &index) {
    identity(value, index);
    for (int k = 0; k < 16; k++) {
        const u64 at = i + k * formula.threads[threadIdx.x].step;
        if (at < n) {
            merge(value, index, value, index, element<u64>(formula.inputs[0], at), at);
        }
    }
}

void store_state(u64 *out, u64 value, u64 index) { out[0] = value, out[1] = index; }
void store_result(u64 *result, u64, u64 index) { *result = index; }

template <class T>
T *place_of(u64 result, int step, int number) {
    formula.threads[threadIdx.x] = {result, step, number};
    return reinterpret_cast<T *>(formula.output.data + result * formula.output.result);
}

int finish() { return formula.finish; }
unsigned recomputed(unsigned value) { return value; }
unsigned reread_thread() { return threadIdx.x; }

}  // namespace

#include "axes.cu"
#undef EXACT
#include "reduction.cu"

namespace {

// Begins a test, and ends it: 0 if all is right, 1 if threads wait for ever, 2 if elements were loaded that are not there,
// 3 if the memory in which blocks merge is not zero again.
template <class Kernel>
int test(const Array *arrays, u64 results, u64 elements, int finish, bool has_whole, unsigned blocks, unsigned seed,
         Kernel kernel) {
    formula = {{arrays[0], arrays[1]}, arrays[2], elements, results, finish, has_whole, false, {}};
    std::vector<u64> memory(1 << 18);
    const bool is_done = launch(blocks, seed, [&] { kernel(reinterpret_cast<Scratch *>(memory.data())); });
    const bool is_zero = std::all_of(memory.begin(), memory.end(), [](u64 word) { return word == 0; });
    return !is_done ? 1 : formula.is_out_of_bounds ? 2 : is_zero ? 0 : 3;
}

}  // namespace

#define WHOLE(name, T)                                                                                           \
    extern "C" int whole_##name(const Array *arrays, u64 n, int finish, u64 last, bool is_state, unsigned blocks, \
                                unsigned seed) {                                                                  \
        void *const out = arrays[2].data;                                                                         \
        std::vector<unsigned> flags(blocks * THREADS / LANES);                                                    \
        const int outcome = test(arrays, 1, n, finish, false, blocks, seed, [&](Scratch *scratch) {               \
            name(is_state ? static_cast<std::conditional_t<std::is_same_v<T, u64>, u64, long long> *>(out)        \
                          : nullptr,                                                                              \
                 n, flags.data(), scratch, is_state ? nullptr : static_cast<T *>(out), last);                     \
        });                                                                                                       \
        const bool is_signaled = std::count(flags.begin(), flags.end(), 1u) == static_cast<long>(flags.size());   \
        return outcome == 0 && !is_signaled ? 4 : outcome;                                                        \
    }

#define ALONG(name)                                                                                              \
    extern "C" int along_##name(const Array *arrays, u64 results, u64 n, int finish, bool has_whole, u64 last,    \
                                const Partition *partition, unsigned blocks, unsigned seed) {                     \
        return test(arrays, results, n, finish, has_whole, blocks, seed, [&](Scratch *scratch) {                  \
            axes_##name(results, n, scratch, last, *partition);                                                   \
        });                                                                                                       \
    }

#define BOTH(name, T) WHOLE(name, T) ALONG(name)
BOTH(sum_f32, float)
BOTH(sum_f64, double)
BOTH(dot_f32, float)
BOTH(dot_f64, double)
BOTH(norm_f32, float)
BOTH(norm_f64, double)
BOTH(fold, u64)
