/* Makes calls while a thread or the process ends. */
#define _GNU_SOURCE
#include "gpuvec.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 6000001, THREADS = 3 };

static float ones[N], sums[N];
static pthread_key_t key;
static size_t length;
static const char *way;

/* Ends the process with a text if a call fails or gives a wrong result. */
static void call(void) {
    float dot = 0;
    memset(sums, 0, length * sizeof *sums);
    int32_t status = vector_add(ones, ones, sums, length);
    size_t right = 0;
    while (right < length && sums[right] == 2) {
        right++;
    }
    if (status != GPUVEC_OK || right != length ||
        dot_product(ones, ones, &dot, length) != GPUVEC_OK || dot != length) {
        printf("wrong: %s\n", gpuvec_last_error());
        fflush(stdout);
        _exit(1);
    }
    float *memory = pinned_alloc(length * sizeof *memory);
    gpuvec_event *event = gpuvec_event_create();
    if (memory == NULL || event == NULL || pinned_free(memory) != GPUVEC_OK ||
        gpuvec_event_destroy(event) != GPUVEC_OK ||
        vector_add(NULL, ones, sums, length) != GPUVEC_ERROR_NULL ||
        strstr(gpuvec_last_error(), "a is NULL") == NULL) {
        printf("wrong: %s\n", gpuvec_last_error());
        fflush(stdout);
        _exit(1);
    }
}

/* At its first call it asks for another one, after the destructors of other keys. */
static void call_in_destructor(void *times) {
    call();
    if (times == &ones[1]) {
        pthread_setspecific(key, &ones[0]);
    }
}

static int is(const char *part) {
    return strstr(way, part) != NULL;
}

static void *run(void *unused) {
    if (is("called")) {
        call();
    }
    pthread_setspecific(key, &ones[1]);
    return unused;
}

static void run_threads(void) {
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run, NULL) != 0 || pthread_join(thread, NULL) != 0) {
            exit(2);
        }
    }
}

/* Ends the process when the main thread has ended: the library's threads would keep it alive. */
static void *exit_after_main(void *main_thread) {
    pthread_join(*(pthread_t *)main_thread, NULL);
    exit(0);
}

static void end_main_thread(void) {
    static pthread_t main_thread, other;
    main_thread = pthread_self();
    if (pthread_create(&other, NULL, exit_after_main, &main_thread) != 0) {
        exit(2);
    }
    pthread_setspecific(key, &ones[1]);
    pthread_exit(NULL);
}

/*
 * late_calls WAY LENGTH: what ends (thread, main, exit), with `called` if there is an earlier call;
 * the elements of the arrays.
 */
int main(int count, char **argument) {
    if (count != 3) {
        return 2;
    }
    way = argument[1];
    length = strtoull(argument[2], NULL, 10);
    for (int i = 0; i < N; i++) {
        ones[i] = 1;
    }
    if (is("called-before-key")) {
        call();
    }
    pthread_key_create(&key, call_in_destructor);
    if (is("exit")) {
        atexit(call);
    }
    if (is("called")) {
        call();
    }
    if (is("thread")) {
        run_threads();
    }
    if (is("main")) {
        end_main_thread();
    }
    return 0;
}
