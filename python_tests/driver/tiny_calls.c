/* Makes many small additions on the calling core; with a second argument prints the time of one. */
#define _POSIX_C_SOURCE 200112L
#include "gpuvec.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N = 10 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* tiny_calls CALLS [time] */
int main(int count, char **argument) {
    float a[N] = {0}, out[N];
    long calls = count > 1 ? strtol(argument[1], NULL, 10) : 0;
    double begin = now();
    for (long i = 0; i < calls; i++) {
        if (vector_add(a, a, out, N) != GPUVEC_OK) {
            return 1;
        }
    }
    if (count > 2) {
        printf("%.3f microseconds\n", 1e6 * (now() - begin) / (double)calls);
    }
    return 0;
}
