// The kernels of reductions by key on the host. Functions of a test take the place of a formula's placeholders: they load the
// elements of two arrays and their keys.
#include "cuda_on_host.hpp"
#define PLACEHOLDERS
#include "common.cuh"

namespace {

struct {
    const char *x, *y;
    const long long *keys;
    u64 n, result, results;
    int operation;
    bool is_out_of_bounds;
} formula;

// The results that threads have, as `place_by_key` said.
u64 results_of_threads[THREADS];

// The number of the element `i` of the thread's result.
u64 place_of_element(u64 i, u64 n) {
    const u64 place = results_of_threads[threadIdx.x] * n + std::min(i, n - 1);
    formula.is_out_of_bounds |= n != formula.n || place >= formula.n * formula.results;
    return formula.is_out_of_bounds ? 0 : place;
}

template <class T, int N>
void elements(u64 i, u64 n, T (&x)[N], long long (&keys)[N]) {
    for (int k = 0; k < N; k++) {
        const u64 place = place_of_element(i + k * LANES, n);
        memcpy(&x[k], formula.x + place * sizeof(T), sizeof(T));
        keys[k] = formula.keys[place];
    }
}

template <class T, int N>
void pairs(u64 i, u64 n, T (&x)[N], T (&y)[N], long long (&keys)[N]) {
    elements(i, n, x, keys);
    for (int k = 0; k < N; k++) {
        memcpy(&y[k], formula.y + place_of_element(i + k * LANES, n) * sizeof(T), sizeof(T));
    }
}

constexpr int FOLD_ADD = 0, FOLD_MAX = 1, FOLD_MULTIPLY = 2;

int fold_operation() { return formula.operation; }
unsigned recomputed(unsigned value) { return value; }
unsigned shared_address(const unsigned *) { return 0; }
unsigned add_shared(unsigned address, unsigned value);
void place_by_key(u64 result) { results_of_threads[threadIdx.x] = result; }

}  // namespace

#include "exact.cuh"
// The memory of blocks whose size is a launch's.
#undef __shared__
#define __shared__
#include "by_key.cu"

namespace by_key {
u64 shared_memory[1 << 15];
}

namespace {

unsigned add_shared(unsigned address, unsigned value) { return atomicAdd(by_key::shared() + address / 4, value); }

constexpr unsigned RUBBISH = 0xBAADF00D, SHARED_WORDS = 1 << 16;

// Runs a kernel: 0 if all is right, 1 if threads wait for ever, 2 if elements were loaded that are not there, 3 if a kernel
// used more shared memory than its launch has.
template <class Kernel>
int test(const char *x, const char *y, const long long *keys, int operation, const u64 *p, unsigned words, unsigned blocks,
         unsigned seed, Kernel kernel) {
    formula = {x, y, keys, p[2], 0, p[1], operation, false};
    std::fill_n(by_key::shared(), SHARED_WORDS, RUBBISH);
    const bool is_done = launch(blocks, seed, kernel);
    const bool is_within = std::all_of(by_key::shared() + words, by_key::shared() + SHARED_WORDS,
                                       [](unsigned word) { return word == RUBBISH; });
    return !is_done ? 1 : formula.is_out_of_bounds ? 2 : is_within ? 0 : 3;
}

}  // namespace

#define EXACT_ON_HOST(name)                                                                                             \
    extern "C" int name(const char *x, const char *y, const long long *keys, int, u64 *table, const u64 *p,             \
                        unsigned words, unsigned blocks, unsigned seed) {                                               \
        return test(x, y, keys, 0, p, words, blocks, seed, [&] {                                                        \
            by_key_##name(table, p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11], p[12], p[13], p[14]); \
        });                                                                                                             \
    }

EXACT_ON_HOST(sum_f32)
EXACT_ON_HOST(sum_f64)
EXACT_ON_HOST(dot_f64)

extern "C" int fold(const char *x, const char *y, const long long *keys, int operation, u64 *table, const u64 *p,
                    unsigned words, unsigned blocks, unsigned seed) {
    return test(x, y, keys, operation, p, words, blocks, seed,
                [&] { by_key_fold(table, p[1], p[2], p[3], p[4], p[5], p[6], p[7]); });
}
