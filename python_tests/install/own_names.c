/* A program with functions of its own by the names of gpuvec's classic ones. */
#define GPUVEC_NO_SHORT_NAMES
#include <gpuvec.h>
#include <stdio.h>

static int vector_add(int a, int b)
{
    return a + b;
}

static int add_arrays(int a)
{
    return a;
}

/* With external linkage it comes before the library's, for the library's own calls as well. */
double dot_product(double a, double b);

double dot_product(double a, double b)
{
    return a * b;
}

static int pinned_alloc = 0, pinned_free = 0;

int main(void)
{
    const float a[] = {1, 2, 3}, b[] = {4, 5, 6};
    float *dot = (float *)gpuvec_pinned_alloc(sizeof *dot);
    if (dot == NULL || gpuvec_dot_f32(a, b, dot, 3, NULL) != GPUVEC_OK) {
        return 1;
    }
    printf("%g %g %d\n", *dot, dot_product(2, 3),
           vector_add(1, add_arrays(2)) + pinned_alloc + pinned_free);
    return gpuvec_pinned_free(dot);
}
