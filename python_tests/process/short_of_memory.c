/* Makes calls in a process that gets no more memory: each gives the right result or an error. */
#define _GNU_SOURCE
#include "memory_limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 1100001 };

/* Allocates all memory that malloc still has. */
static void starve(void) {
    for (size_t bytes = 1 << 20; bytes >= 16; bytes /= 2) {
        while (malloc(bytes) != NULL) {
        }
    }
}

static int is_sum(const float *a, const float *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (out[i] != 2 * a[i]) {
            return 0;
        }
    }
    return 1;
}

/* Checks that every function returns; prints nothing, because printf needs memory, too. */
static int all_answer(const float *a, float *out) {
    for (size_t n = 10; n <= N; n = n < N && 10 * n > N ? N : 10 * n) {
        float dot = -1;
        memset(out, 0, n * sizeof *out);
        int32_t status = vector_add(a, a, out, n);
        if (!is_answer(status, is_sum(a, out, n))) {
            return 0;
        }
        status = dot_product(a, a, &dot, n);
        if (!is_answer(status, dot == n)) {
            return 0;
        }
    }
    int32_t status = vector_add(NULL, a, out, 5);
    return (status == GPUVEC_ERROR_NULL || status == GPUVEC_ERROR_OUT_OF_MEMORY) &&
           is_answer(pinned_free(pinned_alloc(1 << 20)), 1) && is_answer(gpuvec_init(), 1) &&
           gpuvec_last_error() != NULL;
}

/* short_of_memory EXTRA ROUNDS STARVE: bytes above the mapped ones, earlier calls, 1 for no rest */
int main(int count, char **argument) {
    if (count != 4) {
        return 2;
    }
    float *a = malloc(N * sizeof *a), *out = malloc(N * sizeof *out);
    if (a == NULL || out == NULL) {
        return 2;
    }
    for (size_t i = 0; i < N; i++) {
        a[i] = 1;
    }
    for (int round = atoi(argument[2]); round > 0; round--) {
        vector_add(a, a, out, N);
    }
    if (!limit_memory(strtoull(argument[1], NULL, 10))) {
        return 2;
    }
    if (atoi(argument[3])) {
        starve();
    }
    return all_answer(a, out) ? 0 : 1;
}
