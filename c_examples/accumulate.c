/* Sums a large array in pieces: two halves, as two processes would, merged by adding integers. */
#include "check.h"

#include <stdint.h>

#define STATE_BYTES 608

/* Terms that cancel except for a few small ones, which a sum in double loses. */
static void fill(double *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        values[i] = i % 3 == 0 ? 1e100 : i % 3 == 1 ? 0x1p-30 : -1e100;
    }
}

/* Adds values piece by piece, and stores the state for another process. */
static void add_pieces(const double *values, size_t n, int64_t *state)
{
    const size_t piece = 1000;
    gpuvec_accumulator *sum = gpuvec_accumulator_create(GPUVEC_ACCUMULATOR_SUM_F64);
    CHECK(sum != NULL);
    for (size_t first = 0; first < n; first += piece) {
        const size_t length = n - first < piece ? n - first : piece;
        CHECK_OK(gpuvec_accumulator_add(sum, values + first, NULL, length, NULL));
    }
    CHECK_OK(gpuvec_accumulator_serialize(sum, state, STATE_BYTES));
    CHECK_OK(gpuvec_accumulator_destroy(sum));
}

int main(int argc, char **argv)
{
    const size_t n = size_argument(argc, argv, 300000) / 3 * 3;
    double *values = malloc(n * sizeof *values);
    int64_t states[2][STATE_BYTES / sizeof(int64_t)];
    CHECK(values != NULL && gpuvec_accumulator_bytes(GPUVEC_ACCUMULATOR_SUM_F64) == STATE_BYTES);
    fill(values, n);

    add_pieces(values, n / 2, states[0]);
    add_pieces(values + n / 2, n - n / 2, states[1]);
    for (size_t i = 0; i < STATE_BYTES / sizeof(int64_t); i++) {
        /* MPI_SUM of MPI_INT64_T does the same; unsigned, because the sum may wrap around. */
        states[0][i] = (int64_t)((uint64_t)states[0][i] + (uint64_t)states[1][i]);
    }

    gpuvec_accumulator *merged = gpuvec_accumulator_deserialize(states[0], STATE_BYTES);
    double value, whole, plain = 0;
    CHECK(merged != NULL);
    CHECK_OK(gpuvec_accumulator_value(merged, &value));
    CHECK_OK(gpuvec_accumulator_destroy(merged));
    CHECK_OK(gpuvec_sum_f64(values, &whole, n, NULL));
    for (size_t i = 0; i < n; i++) {
        plain += values[i];
    }
    printf("%zu elements: %.17g in pieces, %.17g at once, %.17g in a loop\n", n, value, whole, plain);
    CHECK(value == whole && value == (double)(n / 3) * 0x1p-30);
    free(values);
    return EXIT_SUCCESS;
}
