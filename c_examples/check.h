/* Helpers that the examples share. */
#ifndef CHECK_H
#define CHECK_H

#include "gpuvec.h"

#include <stdio.h>
#include <stdlib.h>

/* Ends the program unless the condition holds. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: failed: %s\nlast error: '%s'\n", __FILE__, __LINE__,           \
                    #condition, gpuvec_last_error());                                              \
            exit(EXIT_FAILURE);                                                                    \
        }                                                                                          \
    } while (0)

/* Ends the program unless the call succeeds. */
#define CHECK_OK(call) CHECK((call) == GPUVEC_OK)

/* Returns the number in the program's first argument, or a default. */
static inline size_t size_argument(int argc, char **argv, size_t by_default)
{
    return argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : by_default;
}

/* Prints where and how this thread's last operation ran. */
static inline void print_run(const char *what)
{
    static const char *const PATHS[] = {"calling core", "cores",  "staged",
                                        "DMA",          "mapped", "resident"};
    gpuvec_run run;
    CHECK_OK(gpuvec_last_run(&run, sizeof run));
    printf("%s: on the %s", what, run.backend == GPUVEC_BACKEND_GPU ? "GPU" : "CPU");
    for (unsigned bit = 0; bit < sizeof PATHS / sizeof *PATHS; bit++) {
        if (run.path >> bit & 1) {
            printf(", %s", PATHS[bit]);
        }
    }
    printf("; %llu chunks, %llu bytes staged\n", (unsigned long long)run.chunks,
           (unsigned long long)run.bytes_staged);
}

#endif
