/* Calls every function of the header and checks what it promises. */
#include "check.h"

#include <stdint.h>
#include <string.h>

static void versions(void)
{
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", GPUVEC_VERSION_MAJOR, GPUVEC_VERSION_MINOR,
             GPUVEC_VERSION_PATCH);
    CHECK(strcmp(version, gpuvec_version()) == 0);
    CHECK(gpuvec_abi_version() == GPUVEC_ABI_VERSION);
    printf("gpuvec %s\n", version);
}

static void status_strings(void)
{
    CHECK(strncmp(gpuvec_status_string(GPUVEC_OK), "GPUVEC_OK", 9) == 0);
    CHECK(strstr(gpuvec_status_string(GPUVEC_ERROR_INTERNAL), "GPUVEC_ERROR_INTERNAL") != NULL);
    CHECK(strstr(gpuvec_status_string(-1), "not a status") != NULL);
}

static void placements(void)
{
    for (int32_t place = GPUVEC_PLACE_AUTO; place <= GPUVEC_PLACE_CPU; place++) {
        CHECK_OK(gpuvec_set_placement(place));
        CHECK(gpuvec_get_placement() == place);
    }
    CHECK(gpuvec_why_cpu()[0] != '\0');
    CHECK(gpuvec_set_placement(-1) == GPUVEC_ERROR_VALUE);
    CHECK(gpuvec_get_placement() == GPUVEC_PLACE_CPU);
}

static void devices(void)
{
    CHECK_OK(gpuvec_set_placement(GPUVEC_PLACE_AUTO));
    CHECK_OK(gpuvec_init());
    const int32_t count = gpuvec_device_count();
    CHECK(count >= 0);
    for (int32_t device = 0; device < count; device++) {
        CHECK(gpuvec_device_name(device) != NULL);
        printf("device %d: %s\n", (int)device, gpuvec_device_name(device));
    }
    CHECK(gpuvec_device_name(count) == NULL);
    CHECK(gpuvec_last_error()[0] != '\0');
    CHECK((gpuvec_why_cpu()[0] == '\0') == (count > 0));
    CHECK_OK(gpuvec_set_placement(GPUVEC_PLACE_GPU));
    CHECK(gpuvec_init() == (count > 0 ? GPUVEC_OK : GPUVEC_ERROR_NO_GPU));
}

static void last_run(int32_t place)
{
    gpuvec_run run, older;
    CHECK_OK(gpuvec_last_run(&run, sizeof run));
    CHECK(run.chunks >= 1 && run.threads >= 1 && run.path != 0);
    CHECK(place != GPUVEC_PLACE_CPU || run.backend == GPUVEC_BACKEND_CPU);
    CHECK(place != GPUVEC_PLACE_GPU || run.backend == GPUVEC_BACKEND_GPU);
    CHECK((run.devices != 0) == (run.backend == GPUVEC_BACKEND_GPU));

    memset(&older, 0x55, sizeof older);
    CHECK_OK(gpuvec_last_run(&older, offsetof(gpuvec_run, devices)));
    CHECK(older.backend == run.backend && older.path == run.path);
    CHECK(older.devices == 0x5555555555555555 && older.bytes_staged == 0x5555555555555555);
    CHECK(gpuvec_last_run(NULL, sizeof run) == GPUVEC_ERROR_NULL);
}

static void nothing_to_do(void)
{
    gpuvec_run run;
    float out = 5;
    CHECK_OK(vector_add(NULL, NULL, NULL, 0));
    CHECK_OK(add_arrays(NULL, NULL, NULL, 0));
    CHECK_OK(dot_product(NULL, NULL, NULL, 0));
    CHECK_OK(dot_product(NULL, NULL, &out, 0));
    CHECK(out == 0);
    CHECK_OK(gpuvec_last_run(&run, sizeof run));
    CHECK(run.backend == GPUVEC_BACKEND_NONE && run.path == 0 && run.chunks == 0);
}

static void floats(float *a, float *b, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        a[i] = (float)(i % 100);
        b[i] = 2;
    }
    CHECK_OK(vector_add(a, b, out, n));
    for (size_t i = 0; i < n; i++) {
        CHECK(out[i] == a[i] + 2 && b[i] == 2);
    }
    CHECK_OK(vector_add(out, b, out, n));
    CHECK_OK(vector_add(b, out, out, n));
    double twice = 0;
    for (size_t i = 0; i < n; i++) {
        CHECK(out[i] == a[i] + 6);
        twice += 2 * (double)a[i];
    }
    float dot;
    CHECK_OK(dot_product(a, b, &dot, n));
    CHECK(dot == (float)twice);
    CHECK_OK(dot_product(a, b, b, n));
    CHECK(b[0] == dot && (n == 1 || b[1] == 2));
}

static void integers(int32_t *a, int32_t *b, int32_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        a[i] = INT32_MAX - (int32_t)(i % 3);
        b[i] = 2;
    }
    CHECK_OK(add_arrays(a, b, out, n));
    for (size_t i = 0; i < n; i++) {
        CHECK(out[i] == (i % 3 == 2 ? INT32_MAX : INT32_MIN + 1 - (int32_t)(i % 3)));
    }
}

/* One set of arrays serves both types: they are as wide, and every value is written before it is
 * read. */
static void operations(int32_t place, void *a, void *b, void *out, size_t n)
{
    CHECK_OK(gpuvec_set_placement(place));
    CHECK(a != NULL && b != NULL && out != NULL);
    floats(a, b, out, n);
    integers(a, b, out, n);
    last_run(place);
    nothing_to_do();
}

static void pageable_and_pinned(int32_t place, size_t n)
{
    const size_t bytes = n * sizeof(float);
    CHECK_OK(gpuvec_set_placement(place));
    void *pageable[] = {malloc(bytes), malloc(bytes), malloc(bytes)};
    void *pinned[] = {pinned_alloc(bytes), pinned_alloc(bytes), pinned_alloc(bytes)};
    operations(place, pageable[0], pageable[1], pageable[2], n);
    operations(place, pinned[0], pinned[1], pinned[2], n);
    operations(place, pageable[0], pinned[1], pageable[2], n);
    for (int i = 0; i < 3; i++) {
        CHECK((uintptr_t)pinned[i] % 4096 == 0);
        free(pageable[i]);
        CHECK_OK(pinned_free(pinned[i]));
    }
    CHECK(pinned_free(pinned[0]) == GPUVEC_ERROR_POINTER);
    CHECK(gpuvec_last_error()[0] != '\0');
    CHECK_OK(pinned_free(NULL));
    CHECK(gpuvec_last_error()[0] == '\0');
}

int main(int argc, char **argv)
{
    const size_t n = size_argument(argc, argv, 1000000);
    versions();
    status_strings();
    placements();
    devices();
    pageable_and_pinned(GPUVEC_PLACE_AUTO, n);
    pageable_and_pinned(GPUVEC_PLACE_CPU, n);
    if (gpuvec_device_count() > 0) {
        pageable_and_pinned(GPUVEC_PLACE_GPU, n);
    }
    printf("every function keeps its promises\n");
    return EXIT_SUCCESS;
}
