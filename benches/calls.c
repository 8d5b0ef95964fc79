/* Times calls of a function from C. Has a naive function, which allocates, copies, launches, copies
 * back and frees in each call; and the driver calls that no library can avoid: a launch with its
 * synchronization, and the query of a pointer's memory kind. */
#define _POSIX_C_SOURCE 199309L
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int32_t reduction(const void *a, void *out, size_t n, void *stream);
typedef int32_t function(const void *a, const void *b, void *out, size_t n, void *last);

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* Returns the seconds for `count` calls of a function of two arrays or of an expression, where
 * `last` is a stream or a handle; -1 if one fails. */
double time_calls(function *call, const void *a, const void *b, void *out, size_t n, void *last,
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

typedef unsigned long long device_pointer;

enum { THREADS = 256, MOST_BLOCKS = 4096 };

/* The driver's functions, and the data of the calls. */
struct naive {
    int (*init)(unsigned);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*load)(void **, const void *);
    int (*function)(void **, void *, const char *);
    int (*allocate)(device_pointer *, size_t);
    int (*release)(device_pointer);
    int (*copy_in)(device_pointer, const void *, size_t);
    int (*copy_out)(void *, device_pointer, size_t);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    int (*synchronize)(void *);
    int (*attribute)(void *, int, device_pointer);
    int (*attributes)(unsigned, int *, void **, device_pointer);
    void *kernel;
    size_t element;
    int reduces;
};

#define FIND(field, name) find(driver, name, &naive->field, sizeof naive->field)

/* Stores a driver function in `to`; returns 0 if the driver lacks it. */
static int find(void *driver, const char *name, void *to, size_t size) {
    void *symbol = dlsym(driver, name);
    memcpy(to, &symbol, size);
    return symbol != NULL;
}

/* Loads a kernel of a PTX image on device 0; returns NULL on failure. */
struct naive *naive_open(const char *ptx, const char *kernel, size_t element, int reduces) {
    struct naive *naive = calloc(1, sizeof *naive);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *context, *module;
    if (naive == NULL || driver == NULL) {
        return NULL;
    }
    naive->element = element;
    naive->reduces = reduces;
    if (!FIND(init, "cuInit") || !FIND(retain, "cuDevicePrimaryCtxRetain") ||
        !FIND(set_current, "cuCtxSetCurrent") || !FIND(load, "cuModuleLoadData") ||
        !FIND(function, "cuModuleGetFunction") || !FIND(allocate, "cuMemAlloc_v2") ||
        !FIND(release, "cuMemFree_v2") || !FIND(copy_in, "cuMemcpyHtoD_v2") ||
        !FIND(copy_out, "cuMemcpyDtoH_v2") || !FIND(launch, "cuLaunchKernel") ||
        !FIND(synchronize, "cuStreamSynchronize") ||
        !FIND(attribute, "cuPointerGetAttribute") ||
        !FIND(attributes, "cuPointerGetAttributes")) {
        return NULL;
    }
    if (naive->init(0) || naive->retain(&context, 0) || naive->set_current(context) ||
        naive->load(&module, ptx) || naive->function(&naive->kernel, module, kernel)) {
        return NULL;
    }
    return naive;
}

static int launch(struct naive *naive, device_pointer a, device_pointer b, device_pointer out,
                  size_t n) {
    void *arguments[] = {&a, &b, &out, &n};
    size_t blocks = (n + THREADS - 1) / THREADS;
    blocks = blocks < 1 ? 1 : blocks > MOST_BLOCKS ? MOST_BLOCKS : blocks;
    return naive->launch(naive->kernel, (unsigned)blocks, 1, 1, THREADS, 1, 1, 0, NULL, arguments,
                         NULL);
}

/* Computes on host arrays. */
int32_t naive_call(const void *a, const void *b, void *out, size_t n, void *handle) {
    struct naive *naive = handle;
    const size_t bytes = n * naive->element;
    const size_t out_bytes = naive->reduces ? naive->element : bytes;
    const double zero = 0;
    device_pointer to_a = 0, to_b = 0, to_out = 0;
    int failed = naive->allocate(&to_a, bytes) || naive->allocate(&to_b, bytes) ||
                 naive->allocate(&to_out, out_bytes) || naive->copy_in(to_a, a, bytes) ||
                 naive->copy_in(to_b, b, bytes) ||
                 (naive->reduces && naive->copy_in(to_out, &zero, out_bytes)) ||
                 launch(naive, to_a, to_b, to_out, n) || naive->copy_out(out, to_out, out_bytes);
    failed |= to_a && naive->release(to_a);
    failed |= to_b && naive->release(to_b);
    failed |= to_out && naive->release(to_out);
    return failed;
}

/* Launches on arrays that the device can access, and synchronizes. */
int32_t launch_call(const void *a, const void *b, void *out, size_t n, void *handle) {
    struct naive *naive = handle;
    return launch(naive, (device_pointer)a, (device_pointer)b, (device_pointer)out, n) ||
           naive->synchronize(NULL);
}

/* Synchronizes the idle default stream. */
int32_t synchronize_call(const void *a, const void *b, void *out, size_t n, void *handle) {
    struct naive *naive = handle;
    (void)a, (void)b, (void)out, (void)n;
    return naive->synchronize(NULL);
}

enum { MEMORY_TYPE = 2, IS_MANAGED = 8, ORDINAL = 9, RANGE_START = 11, RANGE_SIZE = 12 };

/* Queries the first `n` of the five attributes that describe a pointer. If `n` is 0, queries the
 * memory kind of `a` in a single call: for pageable memory the driver returns
 * CUDA_ERROR_INVALID_VALUE, which is an answer. */
int32_t query_call(const void *a, const void *b, void *out, size_t n, void *handle) {
    struct naive *naive = handle;
    const device_pointer pointer = (device_pointer)(uintptr_t)a;
    const int invalid_value = 1;
    int names[] = {MEMORY_TYPE, IS_MANAGED, ORDINAL, RANGE_START, RANGE_SIZE};
    unsigned type = 0, managed = 0;
    int ordinal = 0;
    device_pointer start = 0;
    size_t size = 0;
    void *values[] = {&type, &managed, &ordinal, &start, &size};
    (void)b, (void)out;
    if (n == 0) {
        const int code = naive->attribute(&type, MEMORY_TYPE, pointer);
        return code != 0 && code != invalid_value;
    }
    return naive->attributes((unsigned)n, names, values, pointer);
}
