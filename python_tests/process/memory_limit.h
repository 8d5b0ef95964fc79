/* Limits the memory of a process, and tells the results that a call may then have. */
#include "gpuvec.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Limits the address space to `bytes` more than are mapped now; returns 0 on failure. */
static int limit_memory(size_t bytes) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu", &pages) != 1) {
        return 0;
    }
    fclose(file);
    bytes += pages * (size_t)sysconf(_SC_PAGESIZE);
    struct rlimit limit = {bytes, bytes};
    return setrlimit(RLIMIT_AS, &limit) == 0;
}

/* Returns whether a call was right, or failed for lack of memory. */
static int is_answer(int32_t status, int is_right) {
    return status == GPUVEC_OK ? is_right : status == GPUVEC_ERROR_OUT_OF_MEMORY;
}
