/* Calls every function of the header and checks the header's promises. */
#include "check.h"

#include <math.h>
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
    CHECK(strncmp(gpuvec_status_string(GPUVEC_NOT_READY), "GPUVEC_NOT_READY", 16) == 0);
    CHECK(strstr(gpuvec_status_string(GPUVEC_ERROR_INTERNAL), "GPUVEC_ERROR_INTERNAL") != NULL);
    CHECK(strstr(gpuvec_status_string(-1), "not a status") != NULL);
}

static void placements(void)
{
    for (int32_t place = GPUVEC_PLACE_AUTO; place <= GPUVEC_PLACE_ALL; place++) {
        CHECK_OK(gpuvec_set_placement(place));
        CHECK(gpuvec_get_placement() == place);
    }
    CHECK_OK(gpuvec_set_placement(GPUVEC_PLACE_CPU));
    CHECK(gpuvec_why_cpu()[0] != '\0');
    CHECK(gpuvec_set_placement(-1) == GPUVEC_ERROR_VALUE);
    CHECK(gpuvec_get_placement() == GPUVEC_PLACE_CPU);

    CHECK(gpuvec_get_thread_placement() == GPUVEC_PLACE_INHERIT);
    CHECK_OK(gpuvec_set_thread_placement(GPUVEC_PLACE_ALL));
    CHECK(gpuvec_get_thread_placement() == GPUVEC_PLACE_ALL);
    CHECK_OK(gpuvec_set_placement(GPUVEC_PLACE_AUTO));
    CHECK(gpuvec_get_placement() == GPUVEC_PLACE_ALL);
    CHECK(gpuvec_set_thread_placement(4) == GPUVEC_ERROR_VALUE);
    CHECK_OK(gpuvec_set_thread_placement(GPUVEC_PLACE_INHERIT));
    CHECK(gpuvec_get_placement() == GPUVEC_PLACE_AUTO);
}

static void threads(void)
{
    const int32_t by_environment = gpuvec_get_num_threads();
    CHECK(by_environment >= 1 && by_environment <= 256);
    for (int32_t number = 1; number <= 4; number++) {
        CHECK_OK(gpuvec_set_num_threads(number));
        CHECK(gpuvec_get_num_threads() == number);
    }
    CHECK(gpuvec_set_num_threads(-1) == GPUVEC_ERROR_VALUE);
    CHECK(strstr(gpuvec_last_error(), "threads is -1") != NULL);
    CHECK(gpuvec_get_num_threads() == 4);
    CHECK_OK(gpuvec_set_num_threads(1000));
    CHECK(gpuvec_get_num_threads() == 256);
    CHECK_OK(gpuvec_set_num_threads(0));
    CHECK(gpuvec_get_num_threads() == by_environment);
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
    CHECK(dot_product(NULL, NULL, NULL, 0) == GPUVEC_ERROR_NULL);
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

/* Three arrays, which each test reuses with its own element type and fills before reading. */
struct arrays {
    void *a, *b, *out;
    size_t n;
};

static uint64_t all_bits(size_t i)
{
    return (i + 1) * 0x9E3779B97F4A7C15u;
}

static uint64_t small(size_t i)
{
    return i % 100;
}

/* Makes a call on a, b and out, waits for it, and compares each element with a formula. */
#define EACH(CALL, FORMULA)                                                                        \
    do {                                                                                           \
        CHECK_OK(CALL);                                                                            \
        CHECK_OK(gpuvec_stream_synchronize(stream));                                               \
        for (size_t i = 0; i < n; i++) {                                                           \
            CHECK(out[i] == (FORMULA));                                                            \
        }                                                                                          \
    } while (0)

#define FILL(TYPE, BITS, VALUE)                                                                    \
    const size_t n = arrays.n;                                                                     \
    TYPE *a = arrays.a, *b = arrays.b;                                                             \
    for (size_t i = 0; i < n; i++) {                                                               \
        a[i] = (TYPE)(BITS)VALUE(i);                                                               \
        b[i] = (TYPE)(BITS)VALUE(i + 7);                                                           \
    }

/* Tests add, sub and mul of a type. Integers wrap around like their unsigned type, BITS. */
#define ARITHMETIC(SUFFIX, TYPE, BITS)                                                             \
    static void arithmetic_##SUFFIX(struct arrays arrays, gpuvec_stream *stream)                   \
    {                                                                                              \
        FILL(TYPE, BITS, all_bits)                                                                 \
        TYPE *out = arrays.out;                                                                    \
        EACH(gpuvec_add_##SUFFIX(a, b, out, n, stream), (TYPE)((BITS)a[i] + (BITS)b[i]));          \
        EACH(gpuvec_sub_##SUFFIX(a, b, out, n, stream), (TYPE)((BITS)a[i] - (BITS)b[i]));          \
        EACH(gpuvec_mul_##SUFFIX(a, b, out, n, stream), (TYPE)((BITS)a[i] * (BITS)b[i]));          \
    }
ARITHMETIC(f32, float, float)
ARITHMETIC(f64, double, double)
ARITHMETIC(i32, int32_t, uint32_t)
ARITHMETIC(i64, int64_t, uint64_t)

/* Tests div, scale and axpy of a type. */
#define FLOATING(SUFFIX, TYPE, FMA)                                                                \
    static void floating_##SUFFIX(struct arrays arrays, gpuvec_stream *stream)                     \
    {                                                                                              \
        FILL(TYPE, TYPE, all_bits)                                                                 \
        TYPE *out = arrays.out;                                                                    \
        const TYPE alpha = (TYPE)0.1;                                                              \
        EACH(gpuvec_div_##SUFFIX(a, b, out, n, stream), a[i] / b[i]);                              \
        EACH(gpuvec_scale_##SUFFIX(alpha, a, out, n, stream), alpha * a[i]);                       \
        EACH(gpuvec_axpy_##SUFFIX(alpha, a, b, out, n, stream), FMA(alpha, a[i], b[i]));           \
    }
FLOATING(f32, float, fmaf)
FLOATING(f64, double, fma)

/* Tests dot and sum of a type. WIDE holds the terms exactly, or wraps around. */
#define REDUCTIONS(SUFFIX, TYPE, WIDE, RESULT, VALUE)                                              \
    static void reductions_##SUFFIX(struct arrays arrays, gpuvec_stream *stream)                   \
    {                                                                                              \
        FILL(TYPE, WIDE, VALUE)                                                                    \
        RESULT *out = arrays.out;                                                                  \
        WIDE dot = 0, sum = 0;                                                                     \
        for (size_t i = 0; i < n; i++) {                                                           \
            dot += (WIDE)a[i] * (WIDE)b[i];                                                        \
            sum += (WIDE)a[i];                                                                     \
        }                                                                                          \
        CHECK_OK(gpuvec_dot_##SUFFIX(a, b, out, n, stream));                                       \
        CHECK_OK(gpuvec_stream_synchronize(stream));                                               \
        CHECK(*out == (RESULT)dot);                                                                \
        CHECK_OK(gpuvec_sum_##SUFFIX(a, out, n, stream));                                          \
        CHECK_OK(gpuvec_stream_synchronize(stream));                                               \
        CHECK(*out == (RESULT)sum);                                                                \
    }
REDUCTIONS(f32, float, double, float, small)
REDUCTIONS(f64, double, double, double, small)
REDUCTIONS(i32, int32_t, uint64_t, int64_t, all_bits)
REDUCTIONS(i64, int64_t, uint64_t, int64_t, all_bits)

static void all_types(struct arrays arrays, gpuvec_stream *stream)
{
    arithmetic_f32(arrays, stream);
    arithmetic_f64(arrays, stream);
    arithmetic_i32(arrays, stream);
    arithmetic_i64(arrays, stream);
    floating_f32(arrays, stream);
    floating_f64(arrays, stream);
    reductions_f32(arrays, stream);
    reductions_f64(arrays, stream);
    reductions_i32(arrays, stream);
    reductions_i64(arrays, stream);
}

/* Reuses one set of arrays for all types: every value is written before it is read. */
static void operations(int32_t place, void *a, void *b, void *out, size_t n)
{
    CHECK(a != NULL && b != NULL && out != NULL);
    floats(a, b, out, n);
    integers(a, b, out, n);
    last_run(place);
    nothing_to_do();

    const struct arrays arrays = {a, b, out, n};
    gpuvec_stream *stream = gpuvec_stream_create(0);
    CHECK(stream != NULL);
    all_types(arrays, NULL);
    all_types(arrays, stream);
    last_run(place);
    CHECK_OK(gpuvec_stream_destroy(stream));
}

static void pageable_and_pinned(int32_t place, size_t n)
{
    const size_t bytes = n * sizeof(double);
    void *pageable[] = {malloc(bytes), malloc(bytes), malloc(bytes)};
    void *pinned[] = {pinned_alloc(bytes), gpuvec_pinned_alloc(bytes), pinned_alloc(bytes)};
    operations(place, pageable[0], pageable[1], pageable[2], n);
    operations(place, pinned[0], pinned[1], pinned[2], n);
    operations(place, pageable[0], pinned[1], pageable[2], n);
    for (int i = 0; i < 3; i++) {
        CHECK((uintptr_t)pinned[i] % 4096 == 0);
        free(pageable[i]);
        CHECK_OK(pinned_free(pinned[i]));
    }
    CHECK(pinned_free(pinned[0]) == GPUVEC_ERROR_POINTER);
    CHECK(gpuvec_pinned_free(pinned[1]) == GPUVEC_ERROR_POINTER);
    CHECK(gpuvec_last_error()[0] != '\0' && gpuvec_last_status() == GPUVEC_ERROR_POINTER);
    CHECK_OK(pinned_free(NULL));
    CHECK(gpuvec_last_error()[0] == '\0' && gpuvec_last_status() == GPUVEC_OK);
}

static void registered(int32_t place, size_t n)
{
    const size_t bytes = n * sizeof(double);
    char *memory = malloc(3 * bytes);
    CHECK(memory != NULL);
    CHECK_OK(gpuvec_host_register(memory, 3 * bytes));
    CHECK_OK(gpuvec_host_register(memory, 3 * bytes));
    operations(place, memory, memory + bytes, memory + 2 * bytes, n);
    CHECK_OK(gpuvec_host_unregister(memory));
    operations(place, memory, memory + bytes, memory + 2 * bytes, n);
    CHECK_OK(gpuvec_host_unregister(memory));
    CHECK(gpuvec_host_unregister(memory) == GPUVEC_ERROR_POINTER);
    CHECK(gpuvec_host_register(NULL, bytes) == GPUVEC_ERROR_NULL);
    free(memory);
}

/* Empty arrays need no branch in a program, as with malloc(0). */
static void empty_arrays(void)
{
    CHECK_OK(gpuvec_host_register(NULL, 0));
    CHECK_OK(gpuvec_host_unregister(NULL));
    CHECK(gpuvec_host_unregister(NULL) == GPUVEC_ERROR_POINTER);
    void *pinned = pinned_alloc(0), *device = gpuvec_device_alloc(0, 0);
    CHECK(pinned != NULL && device != NULL);
    CHECK_OK(gpuvec_copy(device, pinned, 0, NULL));
    CHECK_OK(pinned_free(pinned));
    CHECK_OK(gpuvec_device_free(device));
}

/* Copies to the device, computes there, copies within the device, and copies back. */
static void device_memory(size_t n)
{
    const size_t bytes = n * sizeof(int64_t);
    int64_t *host = malloc(bytes);
    int64_t *device = gpuvec_device_alloc(2 * bytes, 0);
    CHECK(host != NULL && device != NULL);
    for (size_t i = 0; i < n; i++) {
        host[i] = (int64_t)i;
    }
    CHECK_OK(gpuvec_copy(device, host, bytes, NULL));
    CHECK_OK(gpuvec_add_i64(device, device, device, n, NULL));
    CHECK_OK(gpuvec_copy(device + n, device, bytes, NULL));
    CHECK_OK(gpuvec_copy(host, device + n, bytes, NULL));
    for (size_t i = 0; i < n; i++) {
        CHECK(host[i] == 2 * (int64_t)i);
    }
    CHECK(gpuvec_device_of(device) < gpuvec_device_count() && gpuvec_device_of(host) == -1);
    CHECK_OK(gpuvec_copy(host, host, bytes, NULL));
    CHECK(gpuvec_copy((char *)host + 1, host, bytes - 1, NULL) == GPUVEC_ERROR_OVERLAP);
    CHECK_OK(gpuvec_device_free(device));
    CHECK(gpuvec_device_free(device) == GPUVEC_ERROR_POINTER);
    CHECK_OK(gpuvec_device_free(NULL));
    CHECK(gpuvec_device_alloc(bytes, -1) == NULL);
    CHECK(gpuvec_last_error()[0] != '\0');
    CHECK(gpuvec_last_status() == GPUVEC_ERROR_VALUE);
    free(host);
}

/* The device for host arrays, and the memory that is held after unused memory was freed. */
static void devices_and_memory(void)
{
    gpuvec_memory_info held, older;
    uint64_t bytes = 1;
    CHECK(gpuvec_get_device() == GPUVEC_ALL_DEVICES);
    CHECK_OK(gpuvec_set_device(0));
    CHECK(gpuvec_get_device() == 0);
    CHECK(gpuvec_set_device(-2) == GPUVEC_ERROR_VALUE);
    CHECK_OK(gpuvec_set_device(GPUVEC_ALL_DEVICES));

    CHECK_OK(gpuvec_trim(&bytes));
    CHECK(bytes != 1);
    CHECK_OK(gpuvec_trim(NULL));
    CHECK_OK(gpuvec_memory(GPUVEC_ALL_DEVICES, &held, sizeof held));
    CHECK(held.pinned == held.pinned_allocated && held.device_kept == 0);
    memset(&older, 0x55, sizeof older);
    CHECK_OK(gpuvec_memory(0, &older, offsetof(gpuvec_memory_info, device)));
    CHECK(older.pinned == held.pinned && older.device == 0x5555555555555555);
    CHECK(gpuvec_memory(0, NULL, sizeof held) == GPUVEC_ERROR_NULL);
    CHECK(gpuvec_memory(-2, &held, sizeof held) == GPUVEC_ERROR_VALUE);
}

/* Makes work on one stream wait for an event of another. */
static void order(gpuvec_stream *first, gpuvec_stream *second, float *values, size_t n)
{
    gpuvec_event *start = gpuvec_event_create();
    gpuvec_event *between = gpuvec_event_create();
    float milliseconds = -1;
    CHECK(start != NULL && between != NULL);
    CHECK_OK(gpuvec_event_query(start));
    CHECK(gpuvec_event_elapsed(start, between, &milliseconds) == GPUVEC_ERROR_VALUE);

    CHECK_OK(gpuvec_event_record(start, first));
    CHECK_OK(gpuvec_scale_f32(2, values, values, n, first));
    CHECK_OK(gpuvec_event_record(between, first));
    CHECK_OK(gpuvec_stream_wait(second, between));
    CHECK_OK(gpuvec_add_f32(values, values, values, n, second));
    const int32_t status = gpuvec_stream_query(second);
    CHECK(status == GPUVEC_OK || status == GPUVEC_NOT_READY);
    CHECK(gpuvec_last_error()[0] == '\0');
    CHECK_OK(gpuvec_stream_synchronize(second));
    CHECK_OK(gpuvec_stream_query(second));

    CHECK_OK(gpuvec_event_synchronize(between));
    CHECK_OK(gpuvec_event_query(between));
    CHECK_OK(gpuvec_event_elapsed(start, between, &milliseconds));
    CHECK(milliseconds >= 0);
    CHECK_OK(gpuvec_event_destroy(start));
    CHECK_OK(gpuvec_event_destroy(between));
    CHECK(gpuvec_event_query(between) == GPUVEC_ERROR_HANDLE);
    CHECK_OK(gpuvec_event_destroy(NULL));
}

static void streams(size_t n)
{
    float *values = pinned_alloc(n * sizeof *values);
    gpuvec_stream *first = gpuvec_stream_create(0);
    gpuvec_stream *second = gpuvec_stream_create(0);
    CHECK(values != NULL && first != NULL && second != NULL);
    for (size_t i = 0; i < n; i++) {
        values[i] = (float)i;
    }
    order(first, second, values, n);
    for (size_t i = 0; i < n; i++) {
        CHECK(values[i] == 4 * (float)i);
    }
    CHECK_OK(gpuvec_stream_destroy(first));
    CHECK_OK(gpuvec_stream_destroy(second));
    CHECK(gpuvec_stream_query(first) == GPUVEC_ERROR_HANDLE);
    CHECK_OK(gpuvec_stream_destroy(NULL));
    CHECK(gpuvec_stream_create(-1) == NULL);
    CHECK_OK(gpuvec_stream_synchronize(NULL));
    CHECK_OK(pinned_free(values));
}

/* Evaluates two formulas and a reduction in one pass, in place of their inputs. */
static void expression_of_several_outputs(void)
{
    static const char *const NAMES[] = {"x", "v"};
    static const int32_t TYPES[] = {GPUVEC_F32, GPUVEC_F32};
    float x[] = {1, 2, 3}, v[] = {10, 20, 30}, sum;
    const void *const inputs[] = {x, v};
    void *const outputs[] = {x, v, &sum};
    gpuvec_expr *expr;
    CHECK_OK(gpuvec_expr_compile("v; x + v; sum(x)", NAMES, TYPES, 2, &expr));
    CHECK(gpuvec_expr_num_outputs(expr) == 3);
    CHECK(gpuvec_expr_output_type_at(expr, 2) == GPUVEC_F32);
    CHECK(gpuvec_expr_is_reduction_at(expr, 2) && !gpuvec_expr_is_reduction_at(expr, 1));
    CHECK(gpuvec_expr_run(expr, inputs, x, 3, NULL) == GPUVEC_ERROR_VALUE);
    CHECK_OK(gpuvec_expr_run_outputs(expr, inputs, outputs, 3, 3, NULL));
    CHECK(x[0] == 10 && x[2] == 30 && v[0] == 11 && v[2] == 33 && sum == 6);
    CHECK_OK(gpuvec_expr_destroy(expr));
}

/* The DLTensor of DLPack's dlpack.h, which is not installed everywhere. */
typedef struct {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} tensor;

/* The means of a matrix's columns, and the matrix less these, in pinned memory. Strides count elements; NULL is C
 * order. */
static void expression_of_tensors(void)
{
    static const char *const NAMES[] = {"x", "mean"};
    static const int32_t TYPES[] = {GPUVEC_F32, GPUVEC_F32};
    static const float VALUES[] = {1, 2, 3, 5, 6, 7};
    enum { PINNED = 3, FLOAT = 2 };
    float *const x = gpuvec_pinned_alloc(15 * sizeof *x);
    CHECK(x != NULL);
    float *const means = x + 6, *const centered = x + 9;
    memcpy(x, VALUES, sizeof VALUES);
    int64_t matrix[] = {2, 3}, row[] = {3}, columns[] = {3, 2}, by_columns[] = {1, 2};
    const tensor of_x = {x, PINNED, 0, 2, FLOAT, 32, 1, matrix, NULL, 0};
    const tensor of_means = {means, PINNED, 0, 1, FLOAT, 32, 1, row, NULL, 0};
    const tensor of_centered = {centered, PINNED, 0, 2, FLOAT, 32, 1, matrix, by_columns, 0};
    const tensor too_long = {x, PINNED, 0, 2, FLOAT, 32, 1, columns, NULL, 0};
    const void *inputs[] = {&of_x, &of_means}, *outputs[] = {&of_means};
    gpuvec_expr *mean, *center;
    CHECK_OK(gpuvec_expr_compile("mean(x)", NAMES, TYPES, 1, &mean));
    CHECK_OK(gpuvec_expr_compile("x - mean", NAMES, TYPES, 2, &center));
    CHECK_OK(gpuvec_expr_run_dlpack(mean, inputs, outputs, 1 << 0, NULL));
    CHECK(means[0] == 3 && means[1] == 4 && means[2] == 5);
    outputs[0] = &of_centered;
    CHECK_OK(gpuvec_expr_run_dlpack(center, inputs, outputs, 0, NULL));
    CHECK(centered[0] == -2 && centered[1] == 2 && centered[4] == -2 && centered[5] == 2);
    outputs[0] = &too_long;
    CHECK(gpuvec_expr_run_dlpack(center, inputs, outputs, 0, NULL) == GPUVEC_ERROR_VALUE);
    CHECK_OK(gpuvec_expr_destroy(mean));
    CHECK_OK(gpuvec_expr_destroy(center));
    CHECK_OK(gpuvec_pinned_free(x));
}

/* Negates two rows of an array in place, and finds the least element of each; then negates them again. */
static void rows_in_one_pass(float *a, size_t columns)
{
    static const char *const NAMES[] = {"a"};
    static const int32_t TYPES[] = {GPUVEC_F32};
    float least[2];
    const int64_t shape[] = {2, (int64_t)columns};
    const gpuvec_array rows = {a, NULL}, outputs[] = {{least, NULL}, {a, NULL}};
    gpuvec_expr *negated;
    CHECK_OK(gpuvec_expr_compile("min(a); -a", NAMES, TYPES, 1, &negated));
    CHECK_OK(gpuvec_expr_run_nd(negated, 2, shape, &rows, outputs, 1 << 1, NULL));
    for (size_t at = 0; at < 2 * columns; at++) {
        CHECK(a[at] <= -least[at / columns]);
        a[at] = -a[at];
    }
    CHECK_OK(gpuvec_expr_destroy(negated));
}

/* Sums the elements of each key. A key outside the groups is an error, unless such elements are left out. */
static void sums_by_key(void)
{
    static const char *const NAMES[] = {"x", "k"};
    static const int32_t TYPES[] = {GPUVEC_F32, GPUVEC_I32};
    float x[] = {1, 2, 4, 8}, sums[] = {7, 7};
    int32_t keys[] = {1, 0, 1, 2};
    const int64_t shape[] = {4};
    const gpuvec_array inputs[] = {{x, NULL}, {keys, NULL}}, output = {sums, NULL};
    gpuvec_expr *expr;
    CHECK_OK(gpuvec_expr_compile_by("sum(x)", "k", NAMES, TYPES, 2, &expr));
    CHECK(gpuvec_expr_run_by(expr, 1, shape, inputs, &output, 1 << 0, 2, 0, NULL) == GPUVEC_ERROR_VALUE);
    CHECK(sums[0] == 7 && sums[1] == 7);
    const int32_t flags = GPUVEC_IGNORE_OUTSIDE;
    CHECK_OK(gpuvec_expr_run_by(expr, 1, shape, inputs, &output, 1 << 0, 2, flags, NULL));
    CHECK(sums[0] == 2 && sums[1] == 5);
    CHECK_OK(gpuvec_expr_destroy(expr));
}

/* Adds arrays of f16, by their bits, and sums one: the sum is a float, which exceeds the largest f16. */
static void expressions_of_halves(void)
{
    static const char *const NAMES[] = {"x", "y"};
    static const int32_t TYPES[] = {GPUVEC_F16, GPUVEC_F16};
    /* 1, 65504 and the least subnormal number; 0.5, 16 and -0.0. */
    const uint16_t x[] = {0x3C00, 0x7BFF, 0x0001}, y[] = {0x3800, 0x4C00, 0x8000};
    uint16_t added[3];
    float sum;
    const void *const inputs[] = {x, y};
    void *const outputs[] = {added, &sum};
    gpuvec_expr *expr;
    CHECK_OK(gpuvec_expr_compile("x + y; sum(x + y)", NAMES, TYPES, 2, &expr));
    CHECK(gpuvec_expr_output_type_at(expr, 0) == GPUVEC_F16);
    CHECK(gpuvec_expr_output_type_at(expr, 1) == GPUVEC_F32);
    CHECK_OK(gpuvec_expr_run_outputs(expr, inputs, outputs, 2, 3, NULL));
    CHECK(added[0] == 0x3E00 && added[1] == 0x7C00 && added[2] == 0x0001);
    CHECK(sum == 65521.5f);
    CHECK_OK(gpuvec_expr_destroy(expr));
}

/* Evaluates expressions for each element, and as a reduction; a wrong text shows its place. */
static void expressions(size_t n)
{
    static const char *const NAMES[] = {"a", "i", "k"};
    static const int32_t TYPES[] = {GPUVEC_F32, GPUVEC_I16, GPUVEC_F64 | GPUVEC_NUMBER};
    double k = 0.5;
    float *const a = malloc(n * sizeof *a), *const out = malloc(n * sizeof *out);
    int16_t *const i = malloc(n * sizeof *i);
    CHECK(a != NULL && out != NULL && i != NULL);
    for (size_t at = 0; at < n; at++) {
        a[at] = (float)(at % 100);
        i[at] = (int16_t)(at % 7);
    }
    const void *const inputs[] = {a, i, &k};
    gpuvec_expr *scaled, *largest, *wrong;
    CHECK_OK(gpuvec_expr_compile("where(i > 2, k*a, a + i)", NAMES, TYPES, 3, &scaled));
    CHECK_OK(gpuvec_expr_compile("max(a * k)", NAMES, TYPES, 3, &largest));
    CHECK(gpuvec_expr_output_type(scaled) == GPUVEC_F32 && !gpuvec_expr_is_reduction(scaled));
    CHECK(gpuvec_expr_output_type(largest) == GPUVEC_F32 && gpuvec_expr_is_reduction(largest));
    CHECK_OK(gpuvec_expr_prepare(scaled, 0));
    CHECK_OK(gpuvec_expr_run(scaled, inputs, out, n, NULL));
    for (size_t at = 0; at < n; at++) {
        CHECK(out[at] == (i[at] > 2 ? 0.5f * a[at] : a[at] + (float)i[at]));
    }
    /* Backwards. */
    const int64_t length = (int64_t)n, back[] = {-4}, back_of_two[] = {-2};
    const gpuvec_array ends[] = {{a + n - 1, back}, {i + n - 1, back_of_two}, {&k, NULL}};
    const gpuvec_array to = {out, NULL};
    CHECK_OK(gpuvec_expr_run_nd(scaled, 1, &length, ends, &to, 0, NULL));
    for (size_t at = 0; at < n; at++) {
        const size_t from = n - 1 - at;
        CHECK(out[at] == (i[from] > 2 ? 0.5f * a[from] : a[from] + (float)i[from]));
    }
    if (n > 1) {
        rows_in_one_pass(a, n / 2);
    }
    CHECK_OK(gpuvec_expr_run(largest, inputs, out, n, NULL));
    CHECK(out[0] == (n < 100 ? (float)(n - 1) : 99.0f) / 2);

    char program[512];
    size_t needed;
    CHECK_OK(gpuvec_expr_text(scaled, GPUVEC_EXPR_PROGRAM, program, sizeof program, &needed));
    CHECK(strlen(program) + 1 == needed && strstr(program, "where") != NULL);
    CHECK_OK(gpuvec_expr_text(scaled, GPUVEC_EXPR_PTX, NULL, 0, &needed));
    CHECK(needed > 1);

    CHECK(gpuvec_expr_compile("a + b", NAMES, TYPES, 3, &wrong) == GPUVEC_ERROR_EXPRESSION);
    CHECK(wrong == NULL && strstr(gpuvec_last_error(), "'b'\na + b\n    ^") != NULL);
    CHECK_OK(gpuvec_expr_destroy(scaled));
    CHECK_OK(gpuvec_expr_destroy(largest));
    expression_of_several_outputs();
    expression_of_tensors();
    expressions_of_halves();
    sums_by_key();
    CHECK(gpuvec_expr_run(scaled, inputs, out, n, NULL) == GPUVEC_ERROR_HANDLE);
    CHECK_OK(gpuvec_expr_destroy(NULL));
    free(a);
    free(i);
    free(out);
}

/* Sums in two accumulators, and merges them: by the library, and by their states. */
static void accumulators(size_t n)
{
    float *values = malloc(n * sizeof *values);
    const int32_t kind = GPUVEC_ACCUMULATOR_DOT_F32;
    gpuvec_accumulator *first = gpuvec_accumulator_create(kind);
    gpuvec_accumulator *second = gpuvec_accumulator_create(kind);
    unsigned char state[224];
    float value = -1, whole = -1;
    CHECK(values != NULL && first != NULL && second != NULL);
    for (size_t i = 0; i < n; i++) {
        values[i] = (float)(i % 1000) / 8;
    }
    CHECK_OK(gpuvec_dot_f32(values, values, &whole, n, NULL));
    CHECK_OK(gpuvec_accumulator_add(first, values, values, n / 2, NULL));
    CHECK_OK(gpuvec_accumulator_add(second, values + n / 2, values + n / 2, n - n / 2, NULL));
    CHECK_OK(gpuvec_accumulator_merge(first, second));
    CHECK_OK(gpuvec_accumulator_value(first, &value));
    CHECK(value == whole);

    CHECK(gpuvec_accumulator_bytes(kind) == sizeof state && gpuvec_accumulator_bytes(0) == 0);
    CHECK_OK(gpuvec_accumulator_serialize(first, state, sizeof state));
    CHECK(gpuvec_accumulator_serialize(first, state, sizeof state - 1) == GPUVEC_ERROR_VALUE);
    gpuvec_accumulator *third = gpuvec_accumulator_deserialize(state, sizeof state);
    CHECK(third != NULL);
    CHECK_OK(gpuvec_accumulator_value(third, &value));
    CHECK(value == whole);
    state[100] ^= 1;
    CHECK(gpuvec_accumulator_deserialize(state, sizeof state) == NULL);
    CHECK(gpuvec_last_status() == GPUVEC_ERROR_STATE);
    CHECK_OK(gpuvec_accumulator_destroy(first));
    CHECK_OK(gpuvec_accumulator_destroy(second));
    CHECK_OK(gpuvec_accumulator_destroy(third));
    CHECK(gpuvec_accumulator_value(first, &value) == GPUVEC_ERROR_HANDLE);
    CHECK_OK(gpuvec_accumulator_destroy(NULL));
    CHECK(gpuvec_accumulator_create(5) == NULL && gpuvec_last_status() == GPUVEC_ERROR_VALUE);
    free(values);
}

/* Sums the columns of a matrix in two accumulators with a shape, half of the rows in each, and merges their states. */
static void accumulators_along_axes(size_t n)
{
    enum { COLUMNS = 3, STATE_BYTES = 608 };
    const size_t rows = n / COLUMNS + 2;
    const int32_t kind = GPUVEC_ACCUMULATOR_SUM_F64;
    const int64_t columns = COLUMNS, by_rows[] = {sizeof(double), (int64_t)(rows * sizeof(double))};
    double *values = malloc(rows * COLUMNS * sizeof *values);
    int64_t states[2][COLUMNS * STATE_BYTES / sizeof(int64_t)];
    double sums[COLUMNS], whole;
    CHECK(values != NULL);
    for (size_t i = 0; i < rows * COLUMNS; i++) {
        values[i] = (i % 2 == 0 ? 1e30 : 1) * (double)(i % 1000);
    }
    for (size_t half = 0; half < 2; half++) {
        /* Element (i, j) of the matrix, which is stored column by column, is values[i + j * rows]. */
        const size_t first = half * (rows / 2), end = half == 0 ? rows / 2 : rows;
        const int64_t shape[] = {(int64_t)(end - first), COLUMNS};
        const gpuvec_array array = {values + first, by_rows};
        gpuvec_accumulator *part = gpuvec_accumulator_create_nd(kind, 1, &columns);
        CHECK(part != NULL);
        CHECK_OK(gpuvec_accumulator_add_nd(part, 2, shape, &array, 1, NULL));
        CHECK(gpuvec_accumulator_add_nd(part, 2, shape, &array, 2, NULL) == GPUVEC_ERROR_VALUE);
        CHECK(gpuvec_accumulator_add(part, values, NULL, n, NULL) == GPUVEC_ERROR_VALUE);
        CHECK_OK(gpuvec_accumulator_serialize(part, states[half], sizeof states[half]));
        CHECK_OK(gpuvec_accumulator_destroy(part));
    }
    for (size_t i = 0; i < sizeof states[0] / sizeof states[0][0]; i++) {
        states[0][i] = (int64_t)((uint64_t)states[0][i] + (uint64_t)states[1][i]);
    }
    gpuvec_accumulator *merged =
        gpuvec_accumulator_deserialize_nd(kind, 1, &columns, states[0], sizeof states[0]);
    CHECK(merged != NULL);
    CHECK_OK(gpuvec_accumulator_value(merged, sums));
    for (size_t j = 0; j < COLUMNS; j++) {
        CHECK_OK(gpuvec_sum_f64(values + j * rows, &whole, rows, NULL));
        CHECK(sums[j] == whole);
    }
    CHECK_OK(gpuvec_accumulator_destroy(merged));
    CHECK(gpuvec_accumulator_deserialize_nd(kind, 1, &columns, states[0], STATE_BYTES) == NULL);
    free(values);
}

/* Adds elements to the sum of their key, in two calls. */
static void accumulators_by_key(void)
{
    enum { GROUPS = 3 };
    const int64_t groups = GROUPS, length = 3;
    double values[] = {1e100, 1, -1e100, 2, 4, 8}, sums[GROUPS];
    int32_t keys[] = {0, 2, 0, 0, 2, GROUPS};
    gpuvec_accumulator *by_key =
        gpuvec_accumulator_create_nd(GPUVEC_ACCUMULATOR_SUM_F64, 1, &groups);
    CHECK(by_key != NULL);
    for (size_t i = 0; i < 6; i += 3) {
        const gpuvec_array array = {values + i, NULL}, of_keys = {keys + i, NULL};
        const int32_t flags = i == 0 ? 0 : GPUVEC_IGNORE_OUTSIDE;
        CHECK_OK(gpuvec_accumulator_add_by(by_key, 1, &length, &array, &of_keys, GPUVEC_I32, 1,
                                           flags, NULL));
    }
    const gpuvec_array array = {values, NULL}, of_keys = {keys + 3, NULL};
    CHECK(gpuvec_accumulator_add_by(by_key, 1, &length, &array, &of_keys, GPUVEC_I32, 1, 0,
                                    NULL) == GPUVEC_ERROR_VALUE);
    CHECK_OK(gpuvec_accumulator_value(by_key, sums));
    CHECK(sums[0] == 2 && sums[1] == 0 && sums[2] == 5);
    CHECK_OK(gpuvec_accumulator_destroy(by_key));
}

/* Uses a CUDA stream, here the default one, if there is a GPU. */
static void native_stream(void)
{
    float values[] = {1, 2, 3};
    gpuvec_stream *stream = gpuvec_stream_from_native(NULL);
    if (gpuvec_device_count() == 0) {
        CHECK(stream == NULL && gpuvec_last_error()[0] != '\0');
        return;
    }
    CHECK(stream != NULL);
    CHECK_OK(gpuvec_scale_f32(2, values, values, 3, stream));
    CHECK(values[0] == 2 && values[1] == 4 && values[2] == 6);
    CHECK_OK(gpuvec_stream_destroy(stream));
}

static void everything(int32_t place, size_t n)
{
    CHECK_OK(gpuvec_set_placement(place));
    pageable_and_pinned(place, n);
    registered(place, n);
    empty_arrays();
    device_memory(n);
    streams(n);
    devices_and_memory();
    native_stream();
    accumulators(n);
    accumulators_along_axes(n);
    accumulators_by_key();
    expressions(n);
}

int main(int argc, char **argv)
{
    const size_t n = size_argument(argc, argv, 200000);
    versions();
    status_strings();
    placements();
    threads();
    devices();
    everything(GPUVEC_PLACE_AUTO, n);
    everything(GPUVEC_PLACE_CPU, n);
    everything(GPUVEC_PLACE_ALL, n);
    if (gpuvec_device_count() > 0) {
        everything(GPUVEC_PLACE_GPU, n);
    }
    printf("every function works as documented\n");
    return EXIT_SUCCESS;
}
