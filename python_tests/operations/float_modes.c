/* Calls a function of gpuvec's in a floating-point mode that another library might have set. */
#include <stddef.h>
#include <stdint.h>
#include <xmmintrin.h>

/*
 * Any operation: x86-64 passes a first `float` or `double`, and words, in registers of their own, and
 * a function leaves alone what it does not take.
 */
typedef int32_t operation(double alpha, size_t, size_t, size_t, size_t, size_t);

/* Calls it with this MXCSR, and stores what MXCSR is afterwards. */
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
