/* Starts thousands of threads that each make a few calls, and checks that nothing remains. */
#define _GNU_SOURCE
#include "gpuvec.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 1000, MIDDLING = 300000, LARGE = 3000000 };
enum { WARM_UP = 2000, THREADS = 10000, MARGIN_KIB = 1024 };

static float ones[LARGE], sums[LARGE];

static void *call(void *length) {
    size_t n = *(const size_t *)length;
    float dot = 0;
    void *memory = pinned_alloc(n);
    memset(sums, 0, n * sizeof *sums);
    if (vector_add(ones, ones, sums, n) != GPUVEC_OK || sums[n - 1] != 2 ||
        dot_product(ones, ones, &dot, n) != GPUVEC_OK || dot != n || memory == NULL ||
        pinned_free(memory) != GPUVEC_OK || vector_add(NULL, ones, sums, n) != GPUVEC_ERROR_NULL) {
        printf("wrong: %s\n", gpuvec_last_error());
        exit(1);
    }
    return NULL;
}

/* Empties the fake driver's list of calls, if that is the driver. */
static void forget_driver_calls(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = driver ? dlsym(driver, "fake_driver_faults") : NULL;
    void (*set_plan)(const char *plan);
    memcpy(&set_plan, &symbol, sizeof set_plan);
    if (symbol != NULL) {
        set_plan("");
    }
}

static void run_threads(int count) {
    static size_t lengths[2] = {MIDDLING, SMALL};
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, call, &lengths[i % 10 != 0]) != 0) {
            exit(2);
        }
        pthread_join(thread, NULL);
        if (i % 500 == 0) {
            forget_driver_calls();
        }
    }
}

/* Makes calls that need all the buffers that the library keeps. */
static void make_all_buffers(void) {
    for (int i = 0; i < 50; i++) {
        if (vector_add(ones, ones, sums, LARGE) != GPUVEC_OK) {
            exit(3);
        }
    }
}

static long resident_kib(void) {
    char line[256];
    long kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && kib == 0) {
        sscanf(line, "Rss: %ld", &kib);
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib;
}

static int entries(const char *path) {
    DIR *folder = opendir(path);
    int count = 0;
    while (folder != NULL && readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

int main(void) {
    for (int i = 0; i < LARGE; i++) {
        ones[i] = 1;
    }
    make_all_buffers();
    run_threads(WARM_UP);
    long resident = resident_kib();
    int threads = entries("/proc/self/task"), files = entries("/proc/self/fd");
    run_threads(THREADS);
    long grown = resident_kib() - resident;
    int threads_after = entries("/proc/self/task"), files_after = entries("/proc/self/fd");
    /* A joined thread's entry may stay for a moment, so one more thread is not a leak. */
    if (grown > MARGIN_KIB || threads_after > threads + 1 || files_after != files) {
        printf("grew by %ld KiB; threads %d, then %d; files %d, then %d\n", grown, threads,
               threads_after, files, files_after);
        return 1;
    }
    return 0;
}
