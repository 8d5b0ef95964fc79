/*
 * Structures in device memory. gpuvec_copy copies an array of structures to the device and back as
 * bytes. Operations take contiguous arrays, so a field to compute on is gathered into a column; all
 * columns here are in one block, at interior pointers.
 */
#include "check.h"

#include <string.h>

static const float DT = 0.25f;

struct particle {
    int32_t id;
    float x, v;
    char name[4];
};

/* A structure of arrays: each field of n particles is contiguous. */
struct columns {
    int32_t *id;
    float *x, *v;
};

static void *checked(void *memory)
{
    CHECK(memory != NULL);
    return memory;
}

static size_t column_bytes(size_t n)
{
    return n * (sizeof(int32_t) + 2 * sizeof(float));
}

/* Divides a block of `column_bytes` into columns. */
static struct columns columns_in(void *block, size_t n)
{
    struct columns columns;
    columns.id = block;
    columns.x = (float *)(columns.id + n);
    columns.v = columns.x + n;
    return columns;
}

static void fill(struct particle *particles, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        particles[i].id = (int32_t)i;
        particles[i].x = (float)(i % 1000);
        particles[i].v = (float)(i % 7) - 3;
        memcpy(particles[i].name, "abc", 4);
    }
}

/* Copies to the device, within the device and back, in a stream's order. */
static void there_and_back(const struct particle *particles, size_t n)
{
    const size_t bytes = n * sizeof *particles;
    struct particle *returned = checked(malloc(bytes));
    char *device = checked(gpuvec_device_alloc(2 * bytes, 0));
    gpuvec_stream *stream = gpuvec_stream_create(0);
    CHECK(stream != NULL);

    CHECK_OK(gpuvec_copy(device, particles, bytes, stream));
    CHECK_OK(gpuvec_copy(device + bytes, device, bytes, stream));
    CHECK_OK(gpuvec_copy(returned, device + bytes, bytes, stream));
    CHECK_OK(gpuvec_stream_synchronize(stream));
    CHECK(memcmp(returned, particles, bytes) == 0);
    printf("%zu structures of %zu bytes came back unchanged\n", n, sizeof *particles);

    CHECK_OK(gpuvec_stream_destroy(stream));
    CHECK_OK(gpuvec_device_free(device));
    free(returned);
}

static void gather(const struct particle *particles, struct columns columns, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        columns.id[i] = particles[i].id;
        columns.x[i] = particles[i].x;
        columns.v[i] = particles[i].v;
    }
}

static void scatter(struct columns columns, struct particle *particles, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        particles[i].id = columns.id[i];
        particles[i].x = columns.x[i];
        particles[i].v = columns.v[i];
    }
}

/* Moves the particles: x += DT * v. All columns are copied at once, as one block. */
static void move(struct particle *particles, size_t n)
{
    void *host = checked(pinned_alloc(column_bytes(n)));
    void *device = checked(gpuvec_device_alloc(column_bytes(n), 0));
    const struct columns there = columns_in(device, n);

    gather(particles, columns_in(host, n), n);
    CHECK_OK(gpuvec_copy(device, host, column_bytes(n), NULL));
    CHECK_OK(gpuvec_axpy_f32(DT, there.v, there.x, there.x, n, NULL));
    print_run("x += DT * v");
    int64_t sum;
    CHECK_OK(gpuvec_sum_i32(there.id, &sum, n, NULL));
    CHECK(sum == (int64_t)(n * (n - 1) / 2));
    CHECK_OK(gpuvec_copy(host, device, column_bytes(n), NULL));
    scatter(columns_in(host, n), particles, n);

    CHECK_OK(gpuvec_device_free(device));
    CHECK_OK(pinned_free(host));
}

static void check_moved(const struct particle *particles, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float v = (float)(i % 7) - 3;
        CHECK(particles[i].id == (int32_t)i && particles[i].v == v);
        CHECK(particles[i].x == (float)(i % 1000) + DT * v);
        CHECK(memcmp(particles[i].name, "abc", 4) == 0);
    }
    printf("%zu particles moved\n", n);
}

int main(int argc, char **argv)
{
    const size_t n = size_argument(argc, argv, 100000);
    struct particle *particles = checked(malloc(n * sizeof *particles));
    fill(particles, n);
    there_and_back(particles, n);
    move(particles, n);
    check_moved(particles, n);
    free(particles);
    return EXIT_SUCCESS;
}
