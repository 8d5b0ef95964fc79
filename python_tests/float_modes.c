/* Calls a function of gpuvec's in a floating-point mode that another library might have set. */
#include <stddef.h>
#include <stdint.h>
#include <xmmintrin.h>

typedef int32_t operation(const void *a, const void *b, void *out, size_t n);

/* Calls it with this MXCSR, and stores what MXCSR is afterwards. */
int32_t call_with_mxcsr(uint32_t mxcsr, uint32_t *after, operation *call, const void *a,
                        const void *b, void *out, size_t n);

int32_t call_with_mxcsr(uint32_t mxcsr, uint32_t *after, operation *call, const void *a,
                        const void *b, void *out, size_t n) {
    uint32_t before = _mm_getcsr();
    _mm_setcsr(mxcsr);
    int32_t status = call(a, b, out, n);
    *after = _mm_getcsr();
    _mm_setcsr(before);
    return status;
}
