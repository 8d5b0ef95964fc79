/* Calls a gpuvec function in a floating-point mode that another library might have set. */
#include <stddef.h>
#include <stdint.h>
#include <xmmintrin.h>

/*
 * Any operation: x86-64 passes a first `float` or `double` and words in separate registers, and a
 * function ignores registers of arguments that it does not take.
 */
typedef int32_t operation(double alpha, size_t, size_t, size_t, size_t, size_t);

/* Calls the function with this MXCSR, and stores the MXCSR after the call. */
int32_t call_with_mxcsr(uint32_t mxcsr, uint32_t *after, operation *call, double alpha,
                        const size_t *words);

int32_t call_with_mxcsr(uint32_t mxcsr, uint32_t *after, operation *call, double alpha,
                        const size_t *words) {
    uint32_t before = _mm_getcsr();
    _mm_setcsr(mxcsr);
    int32_t status = call(alpha, words[0], words[1], words[2], words[3], words[4]);
    *after = _mm_getcsr();
    _mm_setcsr(before);
    return status;
}
