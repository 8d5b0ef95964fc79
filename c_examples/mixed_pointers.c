/*
 * Mixes arrays of all memory kinds in one call: pageable memory, pinned memory from pinned_alloc,
 * memory page-locked by gpuvec_host_register, and device memory. All 64 mixes of two inputs and an
 * output give the same result.
 */
#include "check.h"

enum kind { PAGEABLE, PINNED, REGISTERED, DEVICE, KINDS };

static const char *const NAMES[KINDS] = {"pageable", "pinned", "registered", "device"};

/* An array that starts one element into its memory: interior pointers are valid, too. */
struct array {
    enum kind kind;
    double *memory, *data;
};

static struct array make(enum kind kind, size_t n)
{
    const size_t bytes = (n + 1) * sizeof(double);
    double *memory = kind == PINNED   ? pinned_alloc(bytes)
                     : kind == DEVICE ? gpuvec_device_alloc(bytes, 0)
                                      : malloc(bytes);
    CHECK(memory != NULL);
    const struct array array = {kind, memory, memory + 1};
    if (kind == REGISTERED) {
        CHECK_OK(gpuvec_host_register(array.data, n * sizeof(double)));
    }
    return array;
}

static void release(struct array array)
{
    if (array.kind == PINNED) {
        CHECK_OK(pinned_free(array.memory));
    } else if (array.kind == DEVICE) {
        CHECK_OK(gpuvec_device_free(array.memory));
    } else {
        if (array.kind == REGISTERED) {
            CHECK_OK(gpuvec_host_unregister(array.data));
        }
        free(array.memory);
    }
}

/* Checks the results, which gpuvec_copy reads from any kind of memory. */
static void check(struct array out, double *results, size_t n)
{
    CHECK_OK(gpuvec_copy(results, out.data, n * sizeof(double), NULL));
    for (size_t i = 0; i < n; i++) {
        CHECK(results[i] == 2.5 * (double)i);
    }
}

/* Makes an array of a kind with the values i * factor. */
static struct array ramp(enum kind kind, double factor, double *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        values[i] = factor * (double)i;
    }
    const struct array array = make(kind, n);
    CHECK_OK(gpuvec_copy(array.data, values, n * sizeof(double), NULL));
    return array;
}

/* Calls axpy with these memory kinds. Prints four of the mixes, with each kind in each position. */
static void mix(enum kind a_kind, enum kind b_kind, enum kind out_kind, double *values, size_t n)
{
    const struct array a = ramp(a_kind, 1, values, n);
    const struct array b = ramp(b_kind, 0.5, values, n);
    const struct array out = ramp(out_kind, 0, values, n);
    CHECK_OK(gpuvec_axpy_f64(2, a.data, b.data, out.data, n, NULL));
    if (b_kind == (a_kind + 1) % KINDS && out_kind == (b_kind + 1) % KINDS) {
        char what[64];
        snprintf(what, sizeof what, "2 * %s + %s -> %s", NAMES[a_kind], NAMES[b_kind],
                 NAMES[out_kind]);
        print_run(what);
    }
    check(out, values, n);
    release(a);
    release(b);
    release(out);
}

int main(int argc, char **argv)
{
    const size_t n = size_argument(argc, argv, 100000);
    double *values = malloc(n * sizeof *values);
    CHECK(values != NULL);
    for (int i = 0; i < KINDS * KINDS * KINDS; i++) {
        mix((enum kind)(i / (KINDS * KINDS)), (enum kind)(i / KINDS % KINDS),
            (enum kind)(i % KINDS), values, n);
    }
    printf("all %d mixes gave the same result\n", KINDS * KINDS * KINDS);
    free(values);
    return EXIT_SUCCESS;
}
