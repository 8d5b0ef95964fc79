/*
 * Keeps data in device memory during a loop of operations: copies the arrays to the device once,
 * queues a hundred steps on a stream, and copies the results back once. The same loop in plain C
 * has the same bits. Without a GPU, device memory is ordinary memory and the program is the same.
 */
#include "check.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { STEPS = 100 };

static const float DT = 0.01f;
static const float DAMPING = 0.99f;

/* Queues one step. Both calls return at once, since all their arrays are on the device. */
static void queue_step(float *x, float *v, size_t n, gpuvec_stream *stream)
{
    CHECK_OK(gpuvec_axpy_f32(DT, v, x, x, n, stream));
    CHECK_OK(gpuvec_scale_f32(DAMPING, v, v, n, stream));
}

/* Computes the same step on the host. An axpy rounds once, as fmaf does. */
static void step(float *x, float *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = fmaf(DT, v[i], x[i]);
        v[i] = DAMPING * v[i];
    }
}

static void *on_device(size_t bytes)
{
    void *memory = gpuvec_device_alloc(bytes, 0);
    CHECK(memory != NULL);
    return memory;
}

/* Queues all steps between two events, and then the dot product into pinned memory. */
static void queue_loop(float *x, float *v, float *dot, size_t n, gpuvec_stream *stream)
{
    gpuvec_event *start = gpuvec_event_create();
    gpuvec_event *end = gpuvec_event_create();
    CHECK(start != NULL && end != NULL);
    CHECK_OK(gpuvec_event_record(start, stream));
    for (int i = 0; i < STEPS; i++) {
        queue_step(x, v, n, stream);
    }
    CHECK_OK(gpuvec_event_record(end, stream));
    print_run("the last step");
    CHECK_OK(gpuvec_dot_f32(x, v, dot, n, stream));

    float milliseconds;
    CHECK_OK(gpuvec_event_synchronize(end));
    CHECK_OK(gpuvec_event_elapsed(start, end, &milliseconds));
    CHECK(milliseconds >= 0);
    printf("%d steps of %zu elements in %.3f ms\n", STEPS, n, (double)milliseconds);
    CHECK_OK(gpuvec_event_destroy(start));
    CHECK_OK(gpuvec_event_destroy(end));
}

/* Copies the arrays to the device, runs the loop, copies them back; returns the dot product. */
static float loop_on_device(float *x, float *v, size_t n)
{
    const size_t bytes = n * sizeof(float);
    gpuvec_stream *stream = gpuvec_stream_create(0);
    float *device_x = on_device(bytes);
    float *device_v = on_device(bytes);
    float *dot = pinned_alloc(sizeof *dot);
    CHECK(stream != NULL && dot != NULL);

    CHECK_OK(gpuvec_copy(device_x, x, bytes, stream));
    CHECK_OK(gpuvec_copy(device_v, v, bytes, stream));
    queue_loop(device_x, device_v, dot, n, stream);
    CHECK_OK(gpuvec_copy(x, device_x, bytes, stream));
    CHECK_OK(gpuvec_copy(v, device_v, bytes, stream));
    CHECK_OK(gpuvec_stream_synchronize(stream));

    const float result = *dot;
    CHECK_OK(pinned_free(dot));
    CHECK_OK(gpuvec_device_free(device_x));
    CHECK_OK(gpuvec_device_free(device_v));
    CHECK_OK(gpuvec_stream_destroy(stream));
    return result;
}

/* All terms are positive, so a sum in double is accurate to more digits than a float has. */
static void check_dot(float dot, const float *x, const float *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i] * (double)v[i];
    }
    CHECK((double)dot >= sum * (1 - FLT_EPSILON) && (double)dot <= sum * (1 + FLT_EPSILON));
    float on_host;
    CHECK_OK(gpuvec_dot_f32(x, v, &on_host, n, NULL));
    CHECK(memcmp(&on_host, &dot, sizeof dot) == 0);
    printf("x . v = %.9g\n", (double)dot);
}

static float *floats(size_t n)
{
    float *array = malloc(n * sizeof *array);
    CHECK(array != NULL);
    return array;
}

int main(int argc, char **argv)
{
    const size_t n = size_argument(argc, argv, 100000);
    float *x = floats(n), *v = floats(n), *host_x = floats(n), *host_v = floats(n);
    for (size_t i = 0; i < n; i++) {
        x[i] = host_x[i] = (float)(i % 1000) / 1000;
        v[i] = host_v[i] = (float)(i % 77 + 1) / 77;
    }

    const float dot = loop_on_device(x, v, n);
    for (int i = 0; i < STEPS; i++) {
        step(host_x, host_v, n);
    }
    CHECK(memcmp(x, host_x, n * sizeof *x) == 0);
    CHECK(memcmp(v, host_v, n * sizeof *v) == 0);
    check_dot(dot, x, v, n);

    free(x);
    free(v);
    free(host_x);
    free(host_v);
    return EXIT_SUCCESS;
}
