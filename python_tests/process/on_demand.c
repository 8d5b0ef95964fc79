/*
 * Uses arrays whose pages a signal handler provides at first access, like programs that page data
 * in by themselves (databases, garbage collectors, checkpointing tools).
 */
#define _GNU_SOURCE
#include "gpuvec.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, N = 1 << 20, BYTES = N * sizeof(float), INPUT = 0, OUTPUT = BYTES };

/* The content of both arrays, one after the other, and the addresses at which they appear. */
static int content;
static char *arrays;
static pid_t caller;
static volatile sig_atomic_t is_bus_error, faults_of_other_threads;

static void stop(const char *text) {
    (void)!write(STDOUT_FILENO, text, strlen(text));
    _exit(1);
}

/* The page appears with its content at once: another thread may touch it at the same time. */
static void provide(int number, siginfo_t *info, void *context) {
    (void)context;
    uintptr_t offset = (uintptr_t)info->si_addr - (uintptr_t)arrays;
    if (offset >= 2 * BYTES || number != (is_bus_error ? SIGBUS : SIGSEGV)) {
        stop("a fault elsewhere\n");
    }
    if (syscall(SYS_gettid) != caller) {
        faults_of_other_threads = 1;
    }
    char *page = arrays + offset / PAGE * PAGE;
    int is_provided =
        is_bus_error ? mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, content,
                            page - arrays) != MAP_FAILED
                     : mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0;
    if (!is_provided) {
        stop("a page cannot be provided\n");
    }
}

static void fill_input(void) {
    float *input = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, content, INPUT);
    if (input == MAP_FAILED) {
        stop("no memory\n");
    }
    for (size_t i = 0; i < N; i++) {
        input[i] = (float)(i % 1000);
    }
    munmap(input, BYTES);
}

/* Withdraws all pages: of a file that is too short, or of one that may not be touched. */
static void withdraw(void) {
    static int too_short = -1;
    if (too_short == -1) {
        too_short = memfd_create("too_short", 0);
    }
    int file = is_bus_error ? too_short : content;
    int access = is_bus_error ? PROT_READ | PROT_WRITE : PROT_NONE;
    int flags = MAP_SHARED | (arrays ? MAP_FIXED : 0);
    arrays = mmap(arrays, 2 * BYTES, access, flags, file, 0);
    if (arrays == MAP_FAILED) {
        stop("no mapping\n");
    }
}

static void check_add(void) {
    withdraw();
    const float *input = (const float *)(arrays + INPUT);
    float *output = (float *)(arrays + OUTPUT);
    if (vector_add(input, input, output, N) != GPUVEC_OK) {
        stop(gpuvec_last_error());
    }
    for (size_t i = 0; i < N; i++) {
        if (output[i] != 2 * (float)(i % 1000)) {
            stop("a wrong sum\n");
        }
    }
}

static void check_dot(float expected) {
    withdraw();
    const float *input = (const float *)(arrays + INPUT);
    float dot = 0;
    if (dot_product(input, input, &dot, N) != GPUVEC_OK || dot != expected) {
        stop("a wrong dot product\n");
    }
}

/* Every addend and every sum is a whole number that a double holds exactly. */
static float expected_dot(void) {
    double sum = 0;
    for (size_t i = 0; i < N; i++) {
        sum += (double)(i % 1000) * (double)(i % 1000);
    }
    return (float)sum;
}

/* on_demand SIGNAL: SEGV or BUS. Calls until the handler has run on a thread of the library. */
int main(int count, char **argument) {
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    action.sa_sigaction = provide;
    is_bus_error = count == 2 && strcmp(argument[1], "BUS") == 0;
    caller = (pid_t)syscall(SYS_gettid);
    content = memfd_create("content", 0);
    if (content < 0 || ftruncate(content, 2 * BYTES) != 0 ||
        sigaction(is_bus_error ? SIGBUS : SIGSEGV, &action, NULL) != 0) {
        return 2;
    }
    fill_input();
    float expected = expected_dot();
    while (!faults_of_other_threads) {
        check_add();
        check_dot(expected);
    }
    return 0;
}
