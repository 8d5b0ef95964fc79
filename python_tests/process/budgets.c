/*
 * Makes calls in processes with a limit on memory, one process for each limit.
 *
 * A call returns the right result or an error; no process ends in another way.
 */
#define _GNU_SOURCE
#include "memory_limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 300000, CALLS = 3, RIGHT = 0, WRONG = 1, ALIGNMENT = 16, PAGE = 4096 };

static float ones[N], sums[N];

static int add(void) {
    memset(sums, 0, sizeof sums);
    int32_t status = vector_add(ones, ones, sums, N);
    int is_right = 1;
    for (int i = 0; i < N; i++) {
        is_right &= sums[i] == 2;
    }
    return is_answer(status, is_right);
}

static int dot(void) {
    float dot = 0;
    int32_t status = dot_product(ones, ones, &dot, N);
    return is_answer(status, dot == N);
}

static int use_memory(void) {
    char *memory = pinned_alloc(10000);
    if (memory != NULL) {
        memset(memory, 1, 10000);
    }
    return is_answer(pinned_free(memory), 1);
}

static int use_stream(void) {
    gpuvec_stream *stream = gpuvec_stream_create(0);
    gpuvec_event *event = gpuvec_event_create();
    int is_right = 1;
    if (stream != NULL && event != NULL) {
        is_right = is_answer(gpuvec_add_f32(ones, ones, sums, N, stream), 1) &&
                   is_answer(gpuvec_event_record(event, stream), 1) &&
                   is_answer(gpuvec_stream_synchronize(stream), 1);
    }
    return is_right && is_answer(gpuvec_event_destroy(event), 1) &&
           is_answer(gpuvec_stream_destroy(stream), 1);
}

static int make_error(void) {
    int32_t status = vector_add(NULL, ones, sums, N);
    return status == GPUVEC_ERROR_NULL || status == GPUVEC_ERROR_OUT_OF_MEMORY;
}

static int init(void) {
    return is_answer(gpuvec_init(), 1) && gpuvec_why_cpu() != NULL;
}

/* The candidates for a process's first call. */
static int (*const works[])(void) = {add, dot, use_memory, use_stream, make_error, init};
enum { WORKS = sizeof works / sizeof works[0] };

/*
 * Each process begins with the next function, so that each function is the first call of some
 * processes, and with a few bytes less in the heap, so that each allocation fails in some process.
 */
static void be_child(size_t budget, size_t first) {
    if (malloc(first * ALIGNMENT % PAGE) == NULL) {
        _exit(2);
    }
    if (!limit_memory(budget)) {
        _exit(2);
    }
    for (size_t i = 0; i < CALLS * WORKS; i++) {
        if (!works[(first + i) % WORKS]()) {
            _exit(WRONG);
        }
    }
    _exit(RIGHT);
}

/* budgets FROM TO STEP: bytes above those that are mapped already. */
int main(int count, char **argument) {
    if (count != 4) {
        return 2;
    }
    size_t from = strtoull(argument[1], NULL, 10), to = strtoull(argument[2], NULL, 10);
    size_t step = strtoull(argument[3], NULL, 10), tried = 0, wrong = 0, died = 0, example = 0;
    for (int i = 0; i < N; i++) {
        ones[i] = 1;
    }
    for (size_t budget = from; budget < to; budget += step, tried++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            be_child(budget, tried);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) {
            return 2;
        }
        wrong += WIFEXITED(status) && WEXITSTATUS(status) != RIGHT;
        died += WIFSIGNALED(status) != 0;
        example = status != 0 ? budget : example;
    }
    printf("%zu budgets: %zu processes died, %zu had a wrong result or status", tried, died, wrong);
    printf(died + wrong ? "; for example with %zu bytes\n" : "\n", example);
    return died + wrong ? 1 : 0;
}
