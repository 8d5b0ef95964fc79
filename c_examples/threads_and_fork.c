/*
 * Calls the library from many threads concurrently, and then forks. The child, which must not use
 * the driver, gets the same results from the CPU, and the parent continues as before.
 */
#define _POSIX_C_SOURCE 200809L

#include "check.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 16, ROUNDS = 3 };

/* The longest comes first, so that all threads race to start the library's worker threads. */
static const size_t LENGTHS[] = {300000, 70000, 1000, 1};

static void *checked(void *memory)
{
    CHECK(memory != NULL);
    return memory;
}

static void add_floats(float *a, float *b, float *out, size_t n, int number)
{
    for (size_t i = 0; i < n; i++) {
        a[i] = (float)(i % 64);
        b[i] = (float)number;
    }
    CHECK_OK(vector_add(a, b, out, n));
    double dot = 0;
    for (size_t i = 0; i < n; i++) {
        CHECK(out[i] == a[i] + b[i]);
        dot += (double)a[i] * (double)b[i];
    }
    CHECK_OK(dot_product(a, b, out, n));
    CHECK(out[0] == (float)dot);
}

static void add_integers(int32_t *a, int32_t *b, size_t n, int number)
{
    for (size_t i = 0; i < n; i++) {
        a[i] = (int32_t)i;
        b[i] = number;
    }
    CHECK_OK(add_arrays(a, b, a, n));
    for (size_t i = 0; i < n; i++) {
        CHECK(a[i] == (int32_t)i + number);
    }
}

/* Tests operations, memory and errors in thread `number`. */
static void compute(int number)
{
    const size_t bytes = LENGTHS[0] * sizeof(float);
    void *pageable = checked(malloc(bytes));
    void *pinned = checked(pinned_alloc(bytes));
    void *out = checked(pinned_alloc(bytes));
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        add_floats(pageable, pinned, out, LENGTHS[i], number);
        add_integers(out, pageable, LENGTHS[i], number);
        CHECK(vector_add(NULL, pinned, out, (size_t)number + 1) == GPUVEC_ERROR_NULL);
        char expected[64];
        snprintf(expected, sizeof expected, "a is NULL, but its length is %d:", number + 1);
        CHECK(strncmp(gpuvec_last_error(), expected, strlen(expected)) == 0);
    }
    free(pageable);
    CHECK_OK(pinned_free(pinned));
    CHECK_OK(pinned_free(out));
}

static void *thread(void *number)
{
    for (int round = 0; round < ROUNDS; round++) {
        compute(*(const int *)number);
    }
    return NULL;
}

static void many_threads(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, thread, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

static void check_child(int had_gpu)
{
    const float a = 1, b = 2;
    float out = -1;
    many_threads();
    CHECK(gpuvec_device_count() == 0);
    CHECK(gpuvec_why_cpu()[0] != '\0');
    CHECK_OK(gpuvec_set_placement(GPUVEC_PLACE_GPU));
    CHECK(vector_add(&a, &b, &out, 1) == (had_gpu ? GPUVEC_ERROR_FORKED : GPUVEC_ERROR_NO_GPU));
    CHECK(out == -1);
}

/* Forks. The child ends by `_exit`, which skips the parent's exit handlers. */
static void child_and_parent(void)
{
    const int had_gpu = gpuvec_device_count() > 0;
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        check_child(had_gpu);
        _exit(EXIT_SUCCESS);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
    CHECK((gpuvec_device_count() > 0) == had_gpu);
}

int main(void)
{
    CHECK_OK(gpuvec_set_placement(GPUVEC_PLACE_AUTO));
    many_threads();
    child_and_parent();
    many_threads();
    printf("%d threads, a child and its parent got the right results\n", THREADS);
    return EXIT_SUCCESS;
}
