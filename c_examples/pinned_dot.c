/* Computes the dot product of two large pinned arrays, and prints where it ran and its time. */
#define _POSIX_C_SOURCE 199309L

#include "check.h"

#include <float.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static float *pinned_floats(size_t n)
{
    float *array = pinned_alloc(n * sizeof *array);
    CHECK(array != NULL);
    return array;
}

/* All terms are positive, so a sum in double is accurate to more digits than a float has. */
static double fill(float *a, float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        a[i] = (float)(i % 1000 + 1) / 1000;
        b[i] = (float)(i % 77 + 1) / 77;
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

static void check_run(void)
{
    gpuvec_run run;
    CHECK_OK(gpuvec_last_run(&run, sizeof run));
    CHECK(run.bytes_staged == 0);
    print_run("dot_product");
    if (gpuvec_why_cpu()[0] != '\0') {
        printf("%s\n", gpuvec_why_cpu());
    }
}

int main(int argc, char **argv)
{
    const size_t n = size_argument(argc, argv, 10000000);
    CHECK_OK(gpuvec_init());
    float *a = pinned_floats(n);
    float *b = pinned_floats(n);
    const double sum = fill(a, b, n);

    float out;
    const double start = seconds();
    CHECK_OK(dot_product(a, b, &out, n));
    const double milliseconds = 1e3 * (seconds() - start);

    check_run();
    printf("%zu elements in %.3f ms: %.9g, in double %.17g\n", n, milliseconds, (double)out, sum);
    CHECK((double)out >= sum * (1 - FLT_EPSILON) && (double)out <= sum * (1 + FLT_EPSILON));
    CHECK_OK(pinned_free(a));
    CHECK_OK(pinned_free(b));
    return EXIT_SUCCESS;
}
