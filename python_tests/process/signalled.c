/* Makes first calls during a storm of signals, and finds the threads that handle them. */
#define _GNU_SOURCE
#include "gpuvec.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

enum { N = 300000, CALLS = 50, MICROSECONDS = 20 };

static volatile sig_atomic_t caller, signals, elsewhere;

static void on_signal(int number) {
    (void)number;
    signals = 1;
    if (syscall(SYS_gettid) != caller) {
        elsewhere = 1;
    }
}

static void mask(int how) {
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(how, &alarm, NULL);
}

/* The one thread of the program that takes the signal. */
static void *call(void *array) {
    caller = (sig_atomic_t)syscall(SYS_gettid);
    struct itimerval often = {{0, MICROSECONDS}, {0, MICROSECONDS}};
    setitimer(ITIMER_REAL, &often, NULL);
    mask(SIG_UNBLOCK);
    for (int i = 0; i < CALLS; i++) {
        if (vector_add(array, array, array, N) != GPUVEC_OK) {
            exit(2);
        }
    }
    mask(SIG_BLOCK);
    return NULL;
}

/* Exits with 1 and a message if a thread that is not the program's handled a signal. */
int main(void) {
    static float array[N];
    struct sigaction action = {.sa_handler = on_signal};
    pthread_t thread;
    sigaction(SIGALRM, &action, NULL);
    mask(SIG_BLOCK);
    if (pthread_create(&thread, NULL, call, array) != 0 || pthread_join(thread, NULL) != 0) {
        return 2;
    }
    if (elsewhere) {
        puts("a thread of the library's was interrupted");
    }
    return signals && !elsewhere ? 0 : 1;
}
