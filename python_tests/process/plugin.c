/*
 * A plug-in that calls gpuvec while the loader runs its constructor or its destructor.
 *
 * PLUGIN_CALLS_IN=<function>  constructor, destructor or both
 * PLUGIN_LENGTH=<n>           elements in each array
 * PLUGIN_MEMORY=<kind>        pageable or pinned
 *
 * With PROGRAM defined it is an executable, whose functions run before and after main.
 */
#define _POSIX_C_SOURCE 200809L
#include "gpuvec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *setting(const char *variable) {
    const char *value = getenv(variable);
    return value ? value : "";
}

static float *array(size_t n) {
    int is_pinned = strcmp(setting("PLUGIN_MEMORY"), "pinned") == 0;
    return is_pinned ? pinned_alloc(n * sizeof(float)) : malloc(n * sizeof(float));
}

static int is_sum(const float *a, const float *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (out[i] != 2 * a[i]) {
            return 0;
        }
    }
    return 1;
}

/* Prints whether the sums are right; the arrays stay allocated. */
static void add(const char *caller) {
    const char *chosen = setting("PLUGIN_CALLS_IN");
    if (strcmp(chosen, caller) != 0 && strcmp(chosen, "both") != 0) {
        return;
    }
    size_t n = strtoull(setting("PLUGIN_LENGTH"), NULL, 10);
    float *a = array(n), *out = array(n);
    if (a == NULL || out == NULL) {
        dprintf(STDOUT_FILENO, "%s: no memory: %s\n", caller, gpuvec_last_error());
        return;
    }
    for (size_t i = 0; i < n; i++) {
        a[i] = (float)(i % 1000);
    }
    memset(out, 0, n * sizeof *out);
    int32_t status = vector_add(a, a, out, n);
    const char *found = is_sum(a, out, n) ? "right" : "wrong";
    dprintf(STDOUT_FILENO, "%s: %s\n", caller, status == GPUVEC_OK ? found : gpuvec_last_error());
}

__attribute__((constructor)) static void construct(void) {
    add("constructor");
}

__attribute__((destructor)) static void destruct(void) {
    add("destructor");
}

#ifdef PROGRAM
int main(void) {
    return 0;
}
#endif
