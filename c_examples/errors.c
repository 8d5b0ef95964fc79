/* Shows the error texts for wrong arguments, and checks that no array is changed. */
#include "check.h"

#include <stdint.h>
#include <string.h>

enum { N = 100 };

/* Prints the status and the error text, and checks that the text names the problem. */
static void expect(int32_t status, int32_t expected, const char *named)
{
    printf("%s\n    %s\n", gpuvec_status_string(status), gpuvec_last_error());
    CHECK(status == expected);
    CHECK(strstr(gpuvec_last_error(), named) != NULL);
}

static void *misaligned(float *array)
{
    return (char *)array + 1;
}

static void wrong_arrays(const float *a, const float *b, float *out)
{
    expect(vector_add(NULL, b, out, N), GPUVEC_ERROR_NULL, "a is NULL");
    expect(vector_add(a, b, NULL, N), GPUVEC_ERROR_NULL, "out is NULL");
    expect(dot_product(a, b, NULL, N), GPUVEC_ERROR_NULL, "out is NULL");
    expect(vector_add(a, b, misaligned(out), N - 1), GPUVEC_ERROR_MISALIGNED, "out is 0x");
    expect(dot_product(misaligned(out), b, out, 1), GPUVEC_ERROR_MISALIGNED, "a is 0x");
    expect(vector_add(a, out, out + 1, N - 1), GPUVEC_ERROR_OVERLAP, "out partly overlaps b");
    expect(dot_product(out, b, out + 1, N), GPUVEC_ERROR_OVERLAP, "out partly overlaps a");
    expect(vector_add(a, b, out, SIZE_MAX / 2), GPUVEC_ERROR_SIZE, "n is ");
}

static void wrong_memory(void)
{
    void *memory = pinned_alloc(N);
    CHECK(memory != NULL);
    CHECK_OK(pinned_free(memory));
    expect(pinned_free(memory), GPUVEC_ERROR_POINTER, "ptr is 0x");
    int other;
    expect(pinned_free(&other), GPUVEC_ERROR_POINTER, "ptr is 0x");
    CHECK_OK(pinned_free(NULL));
    CHECK(pinned_alloc(SIZE_MAX) == NULL);
    CHECK(strstr(gpuvec_last_error(), "bytes is ") != NULL);

    expect(gpuvec_device_free(&other), GPUVEC_ERROR_POINTER, "gpuvec_device_alloc did not return");
    expect(gpuvec_host_unregister(&other), GPUVEC_ERROR_POINTER, "ptr is 0x");
    char bytes[N];
    expect(gpuvec_copy(bytes + 1, bytes, N - 1, NULL), GPUVEC_ERROR_OVERLAP, "dst partly overlaps");
}

/* Destroyed handles, and pointers that are not handles, are errors. */
static void wrong_handles(float *out)
{
    gpuvec_stream *stream = gpuvec_stream_create(0);
    gpuvec_event *event = gpuvec_event_create();
    CHECK(stream != NULL && event != NULL);
    float ms = -1;
    expect(gpuvec_event_elapsed(event, event, &ms), GPUVEC_ERROR_VALUE, "start was never recorded");
    CHECK_OK(gpuvec_stream_destroy(stream));
    CHECK_OK(gpuvec_event_destroy(event));
    expect(gpuvec_scale_f32(2, out, out, N, stream), GPUVEC_ERROR_HANDLE, "stream is 0x");
    expect(gpuvec_stream_destroy(stream), GPUVEC_ERROR_HANDLE, "stream is 0x");
    expect(gpuvec_event_synchronize(event), GPUVEC_ERROR_HANDLE, "event is 0x");
    expect(gpuvec_event_query((gpuvec_event *)(void *)out), GPUVEC_ERROR_HANDLE, "event is 0x");
    CHECK(ms == -1);
}

static void wrong_numbers(void)
{
    const int32_t before = gpuvec_get_placement();
    expect(gpuvec_set_placement(9), GPUVEC_ERROR_VALUE, "placement is 9");
    CHECK(gpuvec_get_placement() == before);
    CHECK(gpuvec_device_name(-1) == NULL);
    CHECK(gpuvec_last_error()[0] != '\0');
    CHECK(gpuvec_device_alloc(N, -1) == NULL);
    CHECK(strstr(gpuvec_last_error(), "device is -1") != NULL);
    CHECK(gpuvec_stream_create(-1) == NULL);
    CHECK(strstr(gpuvec_last_error(), "device is -1") != NULL);
}

static void no_gpu(const float *a, const float *b, float *out)
{
    CHECK_OK(gpuvec_set_placement(GPUVEC_PLACE_GPU));
    if (gpuvec_device_count() > 0) {
        CHECK_OK(vector_add(a, b, out, 1));
    } else {
        expect(vector_add(a, b, out, N), GPUVEC_ERROR_NO_GPU, gpuvec_why_cpu());
    }
    CHECK_OK(gpuvec_set_placement(GPUVEC_PLACE_AUTO));
}

int main(void)
{
    float a[N], b[N], out[N];
    for (size_t i = 0; i < N; i++) {
        a[i] = 1;
        b[i] = 2;
        out[i] = -1;
    }
    CHECK_OK(gpuvec_set_placement(GPUVEC_PLACE_AUTO));
    wrong_arrays(a, b, out);
    wrong_memory();
    wrong_numbers();
    wrong_handles(out);
    for (size_t i = 0; i < N; i++) {
        CHECK(a[i] == 1 && b[i] == 2 && out[i] == -1);
    }
    no_gpu(a, b, out);

    expect(vector_add(NULL, b, out, N), GPUVEC_ERROR_NULL, "its length is 100");
    CHECK_OK(vector_add(a, b, out, N));
    CHECK(out[0] == 3 && out[N - 1] == 3);
    CHECK(gpuvec_last_error()[0] == '\0');
    return EXIT_SUCCESS;
}
