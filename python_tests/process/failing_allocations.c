/* Compiles long expressions while one large allocation fails, each in turn: the process goes on. */
#define _GNU_SOURCE
#include "gpuvec.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Allocations below are small: see SECURITY.md. */
enum { LARGE = 1 << 16, MOST_TEXT = 1 << 16 };

/* The number of large allocations until one fails; negative if none does. */
static long until_failure = -1;

static int fails(size_t bytes) {
    return until_failure >= 0 && bytes >= LARGE && until_failure-- == 0;
}

void *malloc(size_t bytes) {
    static void *(*real)(size_t);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "malloc");
    }
    return fails(bytes) ? NULL : real(bytes);
}

void *realloc(void *memory, size_t bytes) {
    static void *(*real)(void *, size_t);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "realloc");
    }
    return fails(bytes) ? NULL : real(memory, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    static int (*real)(void **, size_t, size_t);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "posix_memalign");
    }
    return fails(bytes) ? ENOMEM : real(memory, alignment, bytes);
}

/* Terms, each of which has its number, up to a length; then what ends the text. */
struct text {
    const char *first, *term, *last;
    int terms;
};

static const struct text texts[] = {
    {"a", "+a*%d.5", "", 1300},
    {"a", "+a*%d.5", ";sum(a)/2;sum(a*b);var(a*3);min(b);max(a+2);b;a/sum(b)", 1300},
    {"k", "+k*%d", "+a", 1300},
    {"s", "+s*%d", "", 1300},
    {"a", "+sum(a*%d.5)", "", 20},
    {"a", "<a+%d", "<b", 1000},
    {"a", "+a+%d", "", 4000},
};
enum { TEXTS = sizeof texts / sizeof texts[0] };

static void write_text(char *to, const struct text *text, long spaces) {
    char *end = to + sprintf(to, "%s", text->first);
    for (int i = 0; i < text->terms; i++) {
        end += sprintf(end, text->term, i);
    }
    end += sprintf(end, "%s", text->last);
    /* Unlike all texts before, so that it is compiled. */
    while (spaces-- > 0 && end < to + MOST_TEXT) {
        *end++ = ' ';
    }
    *end = 0;
}

static int32_t compile(const char *text) {
    const char *const names[] = {"a", "b", "k", "s"};
    const int32_t types[] = {GPUVEC_F32, GPUVEC_F32, GPUVEC_I64 | GPUVEC_NUMBER,
                             GPUVEC_F64 | GPUVEC_SCALAR};
    gpuvec_expr *expr = NULL;
    int32_t status = gpuvec_expr_compile(text, names, types, 4, &expr);
    gpuvec_expr_destroy(expr);
    return status;
}

int main(void) {
    static char buffer[2 * MOST_TEXT];
    for (size_t number = 0; number < TEXTS; number++) {
        write_text(buffer, &texts[number], 0);
        int32_t right = compile(buffer);
        long failure = 0;
        for (;; failure++) {
            write_text(buffer, &texts[number], failure + 1);
            until_failure = failure;
            int32_t status = compile(buffer);
            int none_failed = until_failure >= 0;
            until_failure = -1;
            if (status != (none_failed ? right : GPUVEC_ERROR_OUT_OF_MEMORY)) {
                printf("text %zu, allocation %ld: status %d\n", number, failure, status);
                return 1;
            }
            if (none_failed) {
                break;
            }
        }
        /* One is the question whether memory is left. */
        if (failure < 2) {
            printf("text %zu: status %d, %ld large allocations\n", number, right, failure);
            return 1;
        }
    }
    return 0;
}
