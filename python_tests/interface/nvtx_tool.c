/* A profiler's library, as NVTX loads one: prints the beginning and the end of each range. */

#include <stdint.h>
#include <stdio.h>

/* Facts of NVTX 3's interface for tools, nvtxTypes.h. */
enum { CALLBACKS = 1, CORE = 1, SYNC = 6, RANGE_PUSH_A = 9, RANGE_POP = 11, CORE_SIZE = 16 };

typedef void (*Function)(void);

typedef struct {
    size_t struct_size;
    int (*module_function_table)(int module, Function ***table, unsigned *size);
} Callbacks;

typedef const void *(*ExportTable)(uint32_t id);

static _Thread_local int depth;

static int push(const char *name)
{
    printf("%s\n", name);
    return depth++;
}

static int pop(void)
{
    printf("end %d\n", --depth);
    fflush(stdout);
    return depth;
}

int InitializeInjectionNvtx2(ExportTable export_table)
{
    const Callbacks *callbacks = export_table(CALLBACKS);
    if (!callbacks || callbacks->struct_size < sizeof *callbacks || export_table(99))
        return 0;
    for (int module = CORE; module <= SYNC; module++) {
        Function **table;
        unsigned size;
        if (!callbacks->module_function_table(module, &table, &size) || size < CORE_SIZE)
            return 0;
        for (unsigned number = 1; number < size; number++)
            *table[number] = NULL;
        if (table[0] || table[size])
            return 0;
        if (module == CORE) {
            *table[RANGE_PUSH_A] = (Function)push;
            *table[RANGE_POP] = (Function)pop;
        }
    }
    return callbacks->module_function_table(99, NULL, NULL) == 0;
}
