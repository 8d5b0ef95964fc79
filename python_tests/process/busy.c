/* Keeps a thread busy with small calls until it is told to stop. */
#include <stddef.h>
#include <stdint.h>

typedef int32_t operation(const void *a, const void *b, void *out, size_t n);

/* Returns the sum of all statuses: 0. */
int64_t stay_busy(const volatile int32_t *stop, operation *add, void *(*alloc)(size_t),
                  int32_t (*release)(void *));

int64_t stay_busy(const volatile int32_t *stop, operation *add, void *(*alloc)(size_t),
                  int32_t (*release)(void *)) {
    float out[8], in[8] = {0};
    int64_t statuses = 0;
    while (!*stop) {
        statuses += add(in, in, out, 8);
        statuses += release(alloc(1));
    }
    return statuses;
}
