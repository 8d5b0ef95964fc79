// The placeholders of the kernels of reductions: lines in capitals, which crates/ptx/src/placeholder.rs replaces by the
// instructions of a formula. A test that runs the kernels on the host defines PLACEHOLDERS and its own functions instead.
//
//   ELEMENTS  Exact sums: loads the elements i, i + step, ... of each input. Past the n-th it loads the last one. Folds:
//             returns the state of these elements.
//   WHOLE     Exact sums along axes: loads a batch that ends before the last element without checks of bounds, and sets
//             the flag to 1; or sets it to 0 if the formula has no such variant.
//   FINISH    Returns the operation that computes the result from an exact sum: FINISH_SUM and so on.
//   IDENTITY  The state of no elements. MERGE merges two states. STATE stores a state, RESULT its result.
//   FOLD      Returns the operation that merges the words of a fold by key: FOLD_ADD and so on.
//   PLACE     Returns the address of a result, from its number. It also receives the distance between a thread's elements
//             (otherwise a warp's 32), and the thread's number among the threads of the result, or NO_VECTORS.
#ifndef PLACEHOLDERS
#define PLACEHOLDERS
#include "common.cuh"

__device__ inline void elements(u64 i, u64 n, float (&x)[16]) {
    asm volatile("ELEMENTS %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17;"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]),
                   "=f"(x[7]), "=f"(x[8]), "=f"(x[9]), "=f"(x[10]), "=f"(x[11]), "=f"(x[12]),
                   "=f"(x[13]), "=f"(x[14]), "=f"(x[15])
                 : "l"(i), "l"(n));
}

__device__ inline void elements(u64 i, u64 n, double (&x)[6]) {
    asm volatile("ELEMENTS %0, %1, %2, %3, %4, %5, %6, %7;"
                 : "=d"(x[0]), "=d"(x[1]), "=d"(x[2]), "=d"(x[3]), "=d"(x[4]), "=d"(x[5])
                 : "l"(i), "l"(n));
}

__device__ inline void elements(u64 i, u64 n, double (&x)[8]) {
    asm volatile("ELEMENTS %0, %1, %2, %3, %4, %5, %6, %7, %8, %9;"
                 : "=d"(x[0]), "=d"(x[1]), "=d"(x[2]), "=d"(x[3]), "=d"(x[4]), "=d"(x[5]), "=d"(x[6]),
                   "=d"(x[7])
                 : "l"(i), "l"(n));
}

// The elements of both inputs of products.
__device__ inline void pairs(u64 i, u64 n, float (&x)[8], float (&y)[8]) {
    asm volatile("ELEMENTS %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17;"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]),
                   "=f"(x[7]), "=f"(y[0]), "=f"(y[1]), "=f"(y[2]), "=f"(y[3]), "=f"(y[4]), "=f"(y[5]),
                   "=f"(y[6]), "=f"(y[7])
                 : "l"(i), "l"(n));
}

__device__ inline void pairs(u64 i, u64 n, double (&x)[4], double (&y)[4]) {
    asm volatile("ELEMENTS %0, %1, %2, %3, %4, %5, %6, %7, %8, %9;"
                 : "=d"(x[0]), "=d"(x[1]), "=d"(x[2]), "=d"(x[3]), "=d"(y[0]), "=d"(y[1]), "=d"(y[2]),
                   "=d"(y[3])
                 : "l"(i), "l"(n));
}

__device__ inline bool whole_elements(u64 i, float *x) {
    int are_there;
    asm volatile("WHOLE %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17;"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]),
                   "=f"(x[7]), "=f"(x[8]), "=f"(x[9]), "=f"(x[10]), "=f"(x[11]), "=f"(x[12]),
                   "=f"(x[13]), "=f"(x[14]), "=f"(x[15]), "=r"(are_there)
                 : "l"(i));
    return are_there != 0;
}

// The state of a thread's elements of a fold: a value, and the index of the element if the reduction has one.
__device__ inline void fold_elements(u64 i, u64 n, u64 &value, u64 &index) {
    asm volatile("ELEMENTS %0, %1, %2, %3;" : "=l"(value), "=l"(index) : "l"(i), "l"(n));
}

// By key: the elements, or the words of a fold, and their keys.
__device__ inline void elements(u64 i, u64 n, float (&x)[8], long long (&keys)[8]) {
    asm volatile("ELEMENTS %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17;"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]),
                   "=f"(x[7]), "=l"(keys[0]), "=l"(keys[1]), "=l"(keys[2]), "=l"(keys[3]), "=l"(keys[4]),
                   "=l"(keys[5]), "=l"(keys[6]), "=l"(keys[7])
                 : "l"(i), "l"(n));
}

__device__ inline void elements(u64 i, u64 n, double (&x)[4], long long (&keys)[4]) {
    asm volatile("ELEMENTS %0, %1, %2, %3, %4, %5, %6, %7, %8, %9;"
                 : "=d"(x[0]), "=d"(x[1]), "=d"(x[2]), "=d"(x[3]), "=l"(keys[0]), "=l"(keys[1]), "=l"(keys[2]),
                   "=l"(keys[3])
                 : "l"(i), "l"(n));
}

__device__ inline void elements(u64 i, u64 n, u64 (&words)[4], long long (&keys)[4]) {
    asm volatile("ELEMENTS %0, %1, %2, %3, %4, %5, %6, %7, %8, %9;"
                 : "=l"(words[0]), "=l"(words[1]), "=l"(words[2]), "=l"(words[3]), "=l"(keys[0]), "=l"(keys[1]),
                   "=l"(keys[2]), "=l"(keys[3])
                 : "l"(i), "l"(n));
}

__device__ inline void pairs(u64 i, u64 n, double (&x)[4], double (&y)[4], long long (&keys)[4]) {
    asm volatile("ELEMENTS %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13;"
                 : "=d"(x[0]), "=d"(x[1]), "=d"(x[2]), "=d"(x[3]), "=d"(y[0]), "=d"(y[1]), "=d"(y[2]),
                   "=d"(y[3]), "=l"(keys[0]), "=l"(keys[1]), "=l"(keys[2]), "=l"(keys[3])
                 : "l"(i), "l"(n));
}

constexpr int FOLD_ADD = 0, FOLD_MAX = 1, FOLD_MULTIPLY = 2;

__device__ inline int fold_operation() {
    int operation;
    asm volatile("FOLD %0;" : "=r"(operation));
    return operation;
}

__device__ inline int finish() {
    int what;
    asm volatile("FINISH %0;" : "=r"(what));
    return what;
}

__device__ inline void identity(u64 &value, u64 &index) {
    asm volatile("IDENTITY %0, %1;" : "=l"(value), "=l"(index));
}

__device__ inline void merge(u64 &value, u64 &index, u64 value_a, u64 index_a, u64 value_b, u64 index_b) {
    asm volatile("MERGE %0, %1, %2, %3, %4, %5;"
                 : "=l"(value), "=l"(index)
                 : "l"(value_a), "l"(index_a), "l"(value_b), "l"(index_b));
}

__device__ inline void store_state(u64 *out, u64 value, u64 index) {
    asm volatile("STATE %0, %1, %2;" ::"l"(out), "l"(value), "l"(index) : "memory");
}

__device__ inline void store_result(u64 *result, u64 value, u64 index) {
    asm volatile("RESULT %0, %1, %2;" ::"l"(result), "l"(value), "l"(index) : "memory");
}

template <class T>
__device__ inline T *place_of(u64 result, int step, int thread) {
    T *place;
    asm volatile("PLACE %0, %1, %2, %3;" : "=l"(place) : "l"(result), "r"(step), "r"(thread));
    return place;
}

// Finds the elements of a result by key, which has no address of its own: they are a warp apart.
__device__ inline void place_by_key(u64 result) { place_of<void>(result, WARP, NO_VECTORS); }

// The address of a word of shared memory, which the compiler does not compute again.
__device__ inline unsigned shared_address(const unsigned *word) {
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(word));
    asm volatile("mov.b32 %0, %0;" : "+r"(address));
    return address;
}

// Adds to the word at an address of shared memory. Returns the word before.
__device__ inline unsigned add_shared(unsigned address, unsigned value) {
    unsigned before;
    asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(before) : "r"(address), "r"(value) : "memory");
    return before;
}

// Returns the value, which the compiler then treats as a new one: values that depend on it need no registers before.
__device__ inline unsigned recomputed(unsigned value) {
    asm volatile("mov.b32 %0, %0;" : "+r"(value));
    return value;
}

// The thread's number in its block, read again, so that it needs no register before.
__device__ inline unsigned reread_thread() {
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

#endif
