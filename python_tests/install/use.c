/* Computes 1*4 + 2*5 + 3*6 by the installed library, as C and as C++. */
#include <gpuvec.h>
#include <stdio.h>

int main(void)
{
    const float a[] = {1, 2, 3}, b[] = {4, 5, 6};
    float dot = 0;
    const gpuvec_status status = gpuvec_dot_f32(a, b, &dot, 3, NULL);
    if (status != GPUVEC_OK) {
        return fprintf(stderr, "%s\n", gpuvec_last_error()), 1;
    }
    printf("%g\n", dot);
    return 0;
}
