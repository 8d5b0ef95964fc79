/* Times calls of a function from C, and plain loops to compare calls on small arrays with. */
#define _POSIX_C_SOURCE 199309L
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef int32_t classic(const void *a, const void *b, void *out, size_t n);
typedef int32_t reduction(const void *a, void *out, size_t n, void *stream);
typedef int32_t family(const void *a, const void *b, void *out, size_t n, void *last);

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* Returns the seconds for `count` calls; -1 if one fails. */
double time_classic(classic *call, const void *a, const void *b, void *out, size_t n,
                    int64_t count) {
    int32_t failed = 0;
    const double start = now();
    for (int64_t i = 0; i < count; i++) {
        failed |= call(a, b, out, n);
    }
    return failed ? -1 : now() - start;
}

/* The same for a function with one more argument: a stream or a handle. */
double time_family(family *call, const void *a, const void *b, void *out, size_t n, void *last,
                   int64_t count) {
    int32_t failed = 0;
    const double start = now();
    for (int64_t i = 0; i < count; i++) {
        failed |= call(a, b, out, n, last);
    }
    return failed ? -1 : now() - start;
}

/* The same for a reduction of one array. */
double time_reduction(reduction *call, const void *a, void *out, size_t n, int64_t count) {
    int32_t failed = 0;
    const double start = now();
    for (int64_t i = 0; i < count; i++) {
        failed |= call(a, out, n, NULL);
    }
    return failed ? -1 : now() - start;
}

#define PLAIN(name, T, body)                                                    \
    int32_t name(const void *first, const void *second, void *to, size_t n) {  \
        const T *a = first, *b = second;                                       \
        T *out = to;                                                           \
        body;                                                                  \
        return 0;                                                              \
    }

#define ADD for (size_t i = 0; i < n; i++) out[i] = a[i] + b[i]
#define DOT double sum = 0; for (size_t i = 0; i < n; i++) sum += (double)a[i] * b[i]; out[0] = sum

PLAIN(plain_add_f32, float, ADD)
PLAIN(plain_add_f64, double, ADD)
PLAIN(plain_dot_f32, float, DOT)
PLAIN(plain_dot_f64, double, DOT)
