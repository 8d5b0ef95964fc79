/*
 * Adds two ordinary arrays. To build and run it in the repository's root, after
 * `cargo build --release`:
 *
 *     cc -std=c99 -Iinclude c_examples/vector_add.c -Ltarget/release -lgpuvec -o target/vector_add
 *     LD_LIBRARY_PATH=target/release target/vector_add
 */
#include "gpuvec.h"

#include <stdio.h>
#include <stdlib.h>

static int add(const float *a, const float *b, float *out, size_t n)
{
    if (vector_add(a, b, out, n) != GPUVEC_OK) {
        fprintf(stderr, "vector_add: %s\n", gpuvec_last_error());
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < n; i++) {
        if (out[i] != a[i] + b[i]) {
            fprintf(stderr, "element %zu is %g, not %g\n", i, out[i], a[i] + b[i]);
            return EXIT_FAILURE;
        }
    }
    gpuvec_run run;
    gpuvec_last_run(&run, sizeof run);
    printf("%zu sums are right, computed on the %s\n", n,
           run.backend == GPUVEC_BACKEND_GPU ? "GPU" : "CPU");
    return EXIT_SUCCESS;
}

int main(void)
{
    const size_t n = 3000000;
    float *a = malloc(n * sizeof *a);
    float *b = malloc(n * sizeof *b);
    float *out = malloc(n * sizeof *out);
    int result = EXIT_FAILURE;
    if (a && b && out) {
        for (size_t i = 0; i < n; i++) {
            a[i] = (float)i;
            b[i] = 0.5f * (float)i;
        }
        result = add(a, b, out, n);
    }
    free(a);
    free(b);
    free(out);
    return result;
}
