/*
 * A signal handler forks while it interrupts calls of gpuvec.
 *
 * The process has one thread: with more, glibc's own fork would wait for locks of its allocator that
 * the interrupted call may hold.
 */
#define _GNU_SOURCE
#include "gpuvec.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* A call in a handler that interrupts a call. */
#ifndef GPUVEC_ERROR_REENTRANT
#define GPUVEC_ERROR_REENTRANT 205
#endif

enum { MICROSECONDS = 50, FORKS = 3000, SMALL = 10, CHILDS_SECONDS = 60 };

static volatile sig_atomic_t forks;
static int children_call;

static void stop(const char *text) {
    (void)!write(STDOUT_FILENO, text, strlen(text));
    _exit(1);
}

/* Checks that a call gives the right sums, or an error that explains why there are none. */
static int is_answered(void) {
    static const float a[SMALL] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    float out[SMALL] = {0};
    int32_t status = vector_add(a, a, out, SMALL);
    for (size_t i = 0; status == GPUVEC_OK && i < SMALL; i++) {
        if (out[i] != 2 * a[i]) {
            return 0;
        }
    }
    return status == GPUVEC_OK || status == GPUVEC_ERROR_REENTRANT ||
           status == GPUVEC_ERROR_FORKED;
}

static void arm(void) {
    struct itimerval once = {{0, 0}, {0, MICROSECONDS + forks % 50}};
    setitimer(ITIMER_REAL, &once, NULL);
}

/* The default action of the child's alarm ends a child that hangs. */
static void be_child(void) {
    signal(SIGALRM, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(CHILDS_SECONDS);
    _exit(children_call && !is_answered());
}

static void fork_in_handler(int number) {
    (void)number;
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        be_child();
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        stop("no child\n");
    }
    if (status != 0) {
        stop(WIFSIGNALED(status) ? "a child hangs, or died\n" : "a child's call is wrong\n");
    }
    if (++forks < FORKS) {
        arm();
    }
}

/* forking_handler CALL: 1 if the children call gpuvec, 0 if they end at once. */
int main(int count, char **argument) {
    struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
    children_call = count == 2 && atoi(argument[1]);
    sigaction(SIGALRM, &action, NULL);
    arm();
    while (forks < FORKS) {
        void *memory = pinned_alloc(1000);
        gpuvec_event *event = gpuvec_event_create();
        if (memory == NULL || event == NULL || pinned_free(memory) != GPUVEC_OK ||
            gpuvec_event_destroy(event) != GPUVEC_OK) {
            stop("a call failed\n");
        }
    }
    return 0;
}
