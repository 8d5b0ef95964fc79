/* Ends a process with live pinned memory, after large calls and perhaps during calls. */
#define _GNU_SOURCE
#include "gpuvec.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 6000001, OTHERS = 4 };

static pthread_barrier_t started;

static float *ones(void) {
    float *array = pinned_alloc(N * sizeof(float));
    for (size_t i = 0; array != NULL && i < N; i++) {
        array[i] = 1;
    }
    return array;
}

/* Ends the process with a text if a call fails or its result is wrong. */
static void call(const float *a, float *out) {
    float dot = 0;
    if (vector_add(a, a, out, N) != GPUVEC_OK || dot_product(a, a, &dot, N) != GPUVEC_OK ||
        out[N - 1] != 2 || dot != N) {
        printf("wrong: %s\n", gpuvec_last_error());
        fflush(stdout);
        _exit(1);
    }
}

/* Calls without end, and ignores the results, which do not matter once the process is ending. */
static void *call_for_ever(void *arrays) {
    float *const *array = arrays;
    call(array[0], array[1]);
    pthread_barrier_wait(&started);
    while (vector_add(array[0], array[0], array[1], N) >= 0) {
    }
    return NULL;
}

static void *leave(void *way) {
    if (strcmp(way, "_exit") == 0) {
        _exit(0);
    }
    if (strcmp(way, "quick_exit") == 0) {
        quick_exit(0);
    }
    exit(0);
}

/* exits WAY FROM: exit, _exit or quick_exit; in `main`, a `thread`, or main `during` calls. */
int main(int count, char **argument) {
    if (count != 3) {
        return 2;
    }
    pthread_t thread;
    float *arrays[1 + OTHERS];
    for (int i = 0; i <= OTHERS; i++) {
        if ((arrays[i] = ones()) == NULL) {
            return 3;
        }
    }
    call(arrays[0], arrays[1]);
    if (strcmp(argument[2], "during") == 0) {
        static float *pairs[OTHERS][2];
        pthread_barrier_init(&started, NULL, OTHERS + 1);
        for (int i = 0; i < OTHERS; i++) {
            pairs[i][0] = arrays[0];
            pairs[i][1] = arrays[1 + i];
            pthread_create(&thread, NULL, call_for_ever, pairs[i]);
        }
        pthread_barrier_wait(&started);
    }
    if (strcmp(argument[2], "thread") == 0) {
        pthread_create(&thread, NULL, leave, argument[1]);
        pthread_join(thread, NULL);
    }
    leave(argument[1]);
}
