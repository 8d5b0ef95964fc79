/*
 * A stand-in for libcuda.so.1 that fails where it is told to. It opens one device, takes the
 * kernels and gives memory, as far as gpuvec asks; what it cannot do is run a kernel.
 *
 * FAIL_<function>=<code>   the function returns this code
 * DEVICES=<count>          devices there are (default 1)
 * DRIVER_VERSION=<version> the CUDA version, as 1000 major + 10 minor (default 12080)
 * CALL_LOG=<path>          the file that every call's name is appended to
 * LOAD_GATE=<path>         a FIFO: loading waits until somebody has opened and closed its other end
 *
 * With ONLY_CUINIT defined all functions but cuInit are missing.
 */
#define _POSIX_C_SOURCE 200112L

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    LAUNCH_OUT_OF_RESOURCES = 701
};
enum { PAGE = 4096 };

/* Notes the call; the code that it is to fail with, or `otherwise`. */
static int answer(const char *function, int otherwise) {
    const char *path = getenv("CALL_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (log) {
        fprintf(log, "%s\n", function);
        fclose(log);
    }
    char variable[64];
    snprintf(variable, sizeof variable, "FAIL_%s", function);
    const char *code = getenv(variable);
    return code ? atoi(code) : otherwise;
}

__attribute__((constructor)) static void wait_at_gate(void) {
    const char *path = getenv("LOAD_GATE");
    FILE *gate = path ? fopen(path, "r") : NULL;
    if (gate) {
        (void)fgetc(gate);
        fclose(gate);
    }
}

/* cuInit has succeeded: until then the real driver answers most calls with NOT_INITIALIZED. */
static volatile int is_initialized;

int cuInit(unsigned flags) {
    (void)flags;
    int code = answer("cuInit", SUCCESS);
    is_initialized |= code == SUCCESS;
    return code;
}

#ifndef ONLY_CUINIT

static int number(const char *variable, int otherwise) {
    const char *value = getenv(variable);
    return value ? atoi(value) : otherwise;
}

/* Something for handles to point to: nobody looks inside. */
static int object;

static int handle(const char *function, void **made) {
    int code = answer(function, SUCCESS);
    if (code == SUCCESS) {
        *made = &object;
    }
    return code;
}

int cuGetErrorName(int code, const char **name) {
    static const struct {
        int code;
        const char *name;
    } names[] = {
        {0, "CUDA_SUCCESS"},
        {2, "CUDA_ERROR_OUT_OF_MEMORY"},
        {3, "CUDA_ERROR_NOT_INITIALIZED"},
        {100, "CUDA_ERROR_NO_DEVICE"},
        {101, "CUDA_ERROR_INVALID_DEVICE"},
        {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
        {218, "CUDA_ERROR_INVALID_PTX"},
        {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
        {500, "CUDA_ERROR_NOT_FOUND"},
        {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
        {719, "CUDA_ERROR_LAUNCH_FAILED"},
        {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
        {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
        {999, "CUDA_ERROR_UNKNOWN"},
    };
    *name = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].code == code) {
            *name = names[i].name;
        }
    }
    return *name ? SUCCESS : INVALID_VALUE;
}

int cuDriverGetVersion(int *version) {
    *version = number("DRIVER_VERSION", 12080);
    return answer("cuDriverGetVersion", SUCCESS);
}

int cuDeviceGetCount(int *count) {
    *count = number("DEVICES", 1);
    return answer("cuDeviceGetCount", SUCCESS);
}

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return answer("cuDeviceGet", SUCCESS);
}

int cuDeviceGetName(char *name, int size, int device) {
    snprintf(name, (size_t)size, "Failing device %d", device);
    return answer("cuDeviceGetName", SUCCESS);
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)attribute;
    (void)device;
    *value = 1;
    return answer("cuDeviceGetAttribute", SUCCESS);
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    (void)device;
    return handle("cuDevicePrimaryCtxRetain", context);
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    return answer("cuDevicePrimaryCtxRelease_v2", SUCCESS);
}

int cuCtxGetCurrent(void **context) {
    *context = NULL;
    return answer("cuCtxGetCurrent", is_initialized ? SUCCESS : NOT_INITIALIZED);
}

int cuCtxPushCurrent_v2(void *context) {
    (void)context;
    return answer("cuCtxPushCurrent_v2", SUCCESS);
}

int cuCtxPopCurrent_v2(void **context) {
    *context = NULL;
    return answer("cuCtxPopCurrent_v2", SUCCESS);
}

int cuCtxGetDevice(int *device) {
    *device = 0;
    return answer("cuCtxGetDevice", SUCCESS);
}

int cuCtxSetCurrent(void *context) {
    (void)context;
    return answer("cuCtxSetCurrent", SUCCESS);
}

int cuModuleLoadData(void **module, const void *image) {
    (void)image;
    return handle("cuModuleLoadData", module);
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
                       void **values) {
    (void)image;
    (void)count;
    (void)options;
    (void)values;
    return handle("cuModuleLoadDataEx", module);
}

int cuModuleUnload(void *module) {
    (void)module;
    return answer("cuModuleUnload", SUCCESS);
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    (void)module;
    (void)name;
    return handle("cuModuleGetFunction", function);
}

/* All memory is pageable to it: it knows no address. */
int cuPointerGetAttributes(unsigned count, const int *attributes, void **values, uint64_t address) {
    (void)count;
    (void)attributes;
    (void)values;
    (void)address;
    return answer("cuPointerGetAttributes", SUCCESS);
}

int cuPointerGetAttribute(void *value, int attribute, uint64_t address) {
    (void)value;
    (void)attribute;
    (void)address;
    return answer("cuPointerGetAttribute", INVALID_VALUE);
}

int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    (void)flags;
    int code = answer("cuMemHostAlloc", SUCCESS);
    return code == SUCCESS && posix_memalign(address, PAGE, bytes) ? OUT_OF_MEMORY : code;
}

int cuMemFreeHost(void *address) {
    free(address);
    return answer("cuMemFreeHost", SUCCESS);
}

int cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags) {
    (void)address;
    (void)bytes;
    (void)flags;
    return answer("cuMemHostRegister_v2", SUCCESS);
}

int cuMemHostUnregister(void *address) {
    (void)address;
    return answer("cuMemHostUnregister", SUCCESS);
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    int code = answer("cuMemAlloc_v2", SUCCESS);
    void *memory = code == SUCCESS ? malloc(bytes) : NULL;
    *address = (uintptr_t)memory;
    return code == SUCCESS && !memory ? OUT_OF_MEMORY : code;
}

int cuMemFree_v2(uint64_t address) {
    free((void *)(uintptr_t)address);
    return answer("cuMemFree_v2", SUCCESS);
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
    memcpy((void *)(uintptr_t)to, from, bytes);
    return answer("cuMemcpyHtoD_v2", SUCCESS);
}

int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    (void)stream;
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    return answer("cuMemcpyAsync", SUCCESS);
}

int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    (void)flags;
    (void)priority;
    return handle("cuStreamCreateWithPriority", stream);
}

int cuStreamDestroy_v2(void *stream) {
    (void)stream;
    return answer("cuStreamDestroy_v2", SUCCESS);
}

int cuStreamSynchronize(void *stream) {
    (void)stream;
    return answer("cuStreamSynchronize", SUCCESS);
}

int cuStreamQuery(void *stream) {
    (void)stream;
    return answer("cuStreamQuery", SUCCESS);
}

int cuStreamGetCtx(void *stream, void **context) {
    (void)stream;
    return handle("cuStreamGetCtx", context);
}

int cuStreamIsCapturing(void *stream, int *status) {
    (void)stream;
    *status = 0;
    return answer("cuStreamIsCapturing", SUCCESS);
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    (void)stream;
    (void)event;
    (void)flags;
    return answer("cuStreamWaitEvent", SUCCESS);
}

int cuEventCreate(void **event, unsigned flags) {
    (void)flags;
    return handle("cuEventCreate", event);
}

int cuEventDestroy_v2(void *event) {
    (void)event;
    return answer("cuEventDestroy_v2", SUCCESS);
}

int cuEventElapsedTime(float *ms, void *start, void *end) {
    (void)start;
    (void)end;
    *ms = 0;
    return answer("cuEventElapsedTime", SUCCESS);
}

int cuEventQuery(void *event) {
    (void)event;
    return answer("cuEventQuery", SUCCESS);
}

int cuEventRecord(void *event, void *stream) {
    (void)event;
    (void)stream;
    return answer("cuEventRecord", SUCCESS);
}

int cuEventSynchronize(void *event) {
    (void)event;
    return answer("cuEventSynchronize", SUCCESS);
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra) {
    (void)function;
    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;
    (void)stream;
    (void)parameters;
    (void)extra;
    return answer("cuLaunchKernel", LAUNCH_OUT_OF_RESOURCES);
}

#endif
