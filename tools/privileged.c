/* Prints whether the process runs with another user's rights, the placement in force, and the
 * status of a call. */
#include "gpuvec.h"
#include <stdio.h>
#include <sys/auxv.h>

int main(void) {
    float a[4] = {1, 2, 3, 4}, out[4];
    int32_t status = vector_add(a, a, out, 4);
    printf("privileged %lu placement %d status %d\n", getauxval(AT_SECURE),
           (int)gpuvec_get_placement(), (int)status);
    return 0;
}
