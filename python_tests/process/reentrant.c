/* Makes calls that are interrupted by a signal handler which calls gpuvec itself. */
#define _GNU_SOURCE
#include "gpuvec.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* A call in a handler that interrupts a call. */
#ifndef GPUVEC_ERROR_REENTRANT
#define GPUVEC_ERROR_REENTRANT 205
#endif

enum { MICROSECONDS = 50, SIGNALS = 20000, SMALL = 10, LARGE = 100000 };

static volatile sig_atomic_t signals, handlers_successes;

static void stop(const char *what, const char *text) {
    char line[700];
    int bytes = snprintf(line, sizeof line, "%s: '%s'\n", what, text);
    (void)!write(STDOUT_FILENO, line, (size_t)bytes);
    _exit(1);
}

static int is_sum(const float *a, const float *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (out[i] != 2 * a[i]) {
            return 0;
        }
    }
    return 1;
}

static void call_in_handler(int number) {
    (void)number;
    static const float a[SMALL] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    float out[SMALL] = {0};
    int32_t status = vector_add(a, a, out, SMALL);
    signals++;
    if (status == GPUVEC_OK && is_sum(a, out, SMALL)) {
        handlers_successes++;
    } else if (status != GPUVEC_ERROR_REENTRANT) {
        stop("the handler's call", gpuvec_last_error());
    }
}

/*
 * Checks the last error of one of the program's own calls. If a handler's call has succeeded since
 * before that call, the text may be the handler's.
 */
static void check_text(sig_atomic_t successes, const char *expected) {
    const char *text = gpuvec_last_error();
    int is_right = expected == NULL ? text[0] == '\0' : strstr(text, expected) != NULL;
    if (!is_right && successes == handlers_successes) {
        stop("the last error", text);
    }
}

static void check_success(const float *a, float *out, size_t n) {
    sig_atomic_t successes = handlers_successes;
    memset(out, 0, n * sizeof *out);
    int32_t status = vector_add(a, a, out, n);
    check_text(successes, NULL);
    if (status != GPUVEC_OK || !is_sum(a, out, n)) {
        stop("a call that is right", "wrong");
    }
}

static void check_error(int32_t status, int32_t expected, sig_atomic_t successes,
                        const char *text) {
    if (status != expected) {
        stop("another status than that of", text);
    }
    check_text(successes, text);
}

static void check_memory(void) {
    sig_atomic_t successes = handlers_successes;
    void *memory = pinned_alloc(1000);
    if (memory == NULL || pinned_free(memory) != GPUVEC_OK) {
        stop("memory", gpuvec_last_error());
    }
    int32_t status = pinned_free(memory);
    check_error(status, GPUVEC_ERROR_POINTER, successes, "already freed");
}

static void check_event(void) {
    gpuvec_event *event = gpuvec_event_create();
    if (event == NULL || gpuvec_event_destroy(event) != GPUVEC_OK) {
        stop("an event", gpuvec_last_error());
    }
    sig_atomic_t successes = handlers_successes;
    int32_t status = gpuvec_event_destroy(event);
    check_error(status, GPUVEC_ERROR_HANDLE, successes, "event is");
}

int main(void) {
    static float a[LARGE], out[LARGE];
    for (size_t i = 0; i < LARGE; i++) {
        a[i] = (float)i;
    }
    struct sigaction action = {.sa_handler = call_in_handler, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, MICROSECONDS}, {0, MICROSECONDS}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    while (signals < SIGNALS) {
        for (int i = 0; i < 100; i++) {
            check_success(a, out, SMALL);
            sig_atomic_t successes = handlers_successes;
            int32_t status = vector_add(NULL, a, out, SMALL);
            check_error(status, GPUVEC_ERROR_NULL, successes, "a is NULL");
            successes = handlers_successes;
            status = vector_add(a, a, out + 1, (size_t)-1);
            check_error(status, GPUVEC_ERROR_SIZE, successes, "n is");
        }
        check_success(a, out, LARGE);
        check_memory();
        check_event();
    }
    setitimer(ITIMER_REAL, &never, NULL);
    return 0;
}
