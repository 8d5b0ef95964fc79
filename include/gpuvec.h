/*
 * gpuvec: vector operations on NVIDIA GPUs, behind plain C functions.
 *
 * Pass ordinary pointers to arrays and a length; the library does the CUDA work inside (memory,
 * transfers, launches) and writes the result where you said. Where there is no GPU it does the
 * same work on the CPU, with the same bits.
 *
 *     #include "gpuvec.h"
 *
 *     float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, out[3];
 *     if (vector_add(a, b, out, 3) != GPUVEC_OK) {
 *         fprintf(stderr, "%s\n", gpuvec_last_error());
 *     }
 *
 * Building. Link with the library alone: cc program.c -Iinclude -Ltarget/release -lgpuvec. Neither
 * building nor running needs a CUDA toolkit. NVIDIA's driver (525 or newer) is opened at the first
 * call that can use it; without it the library loads and works all the same. Loading the library
 * starts no thread and makes no call of the driver.
 *
 * Pointers. An array may be ordinary (pageable) host memory, page-locked (pinned) host memory,
 * managed memory, or memory of a GPU, in any mix, and of any length: nothing has to fit into the
 * GPU's memory. It begins at any multiple of its element's size. Inputs are never written. The
 * output may be exactly one of the inputs (in place); any other overlap of the output with an input
 * is an error. With n == 0 a function succeeds and touches no array. Memory of a GPU needs
 * placement auto or gpu; it is used where it is, by the GPU that holds the output, else the first
 * input, and what another GPU holds is copied there in pieces. Wrong lengths, and memory that
 * somebody changes or frees during the call, are the caller's to avoid.
 *
 * The family. gpuvec_<operation>_<type>(…, out, n, stream) for add, sub, mul (f32 f64 i32 i64), div,
 * scale, axpy (f32 f64), dot and sum (f32 f64 i32 i64). vector_add, add_arrays and dot_product are
 * gpuvec_add_f32, gpuvec_add_i32 and gpuvec_dot_f32 with a NULL stream.
 *
 * Streams. With a NULL stream a function returns when the work is done. Otherwise it queues the work
 * behind what the stream has, and returns at once, if a GPU reaches every array: memory of the
 * stream's GPU, page-locked memory, managed memory. These arrays must then stay alive, and be
 * changed by nobody, until the stream is done with them; what goes wrong meanwhile is an error of the
 * next call with that stream. If an array is pageable or of another GPU, the function waits for
 * the stream's earlier work and returns when its own is done: then nothing has to stay alive. A call
 * without a stream waits for no stream. Where there is no GPU all work is done at once, and a
 * program with streams runs unchanged. With placement cpu a call waits for its stream, and the cores
 * do the work.
 *
 * Handles. Streams and events are handles, which are never followed: one that was destroyed, or never
 * was one, is GPUVEC_ERROR_HANDLE.
 *
 * Placement. GPUVEC_PLACE_AUTO, the default: the GPU does the work, unless the calling core alone
 * would be done sooner; where there is no usable GPU, all cores do it. GPUVEC_PLACE_GPU: the GPU, or
 * an error. GPUVEC_PLACE_CPU: all cores. GPUVEC_PLACE_ALL: all cores, and beside them all GPUs on
 * long page-locked arrays, each taking the next piece when it is done with one; memory of a GPU as
 * with auto. Choose by gpuvec_set_placement, or by the environment variable GPUVEC_PLACEMENT (auto,
 * gpu, cpu or all). GPUVEC_NUM_THREADS bounds the CPU's threads (a whole number; at most 256 are
 * ever used; without it there is one for each CPU of the process's main thread). Both are read once.
 * Any other value is an error, GPUVEC_ERROR_ENVIRONMENT, of every function that returns a status, a
 * handle or memory, but for gpuvec_set_placement, which overrides GPUVEC_PLACEMENT. gpuvec_why_cpu
 * says why there is no GPU to use, and gpuvec_last_run where a call ran. With placement cpu
 * operations do not open the driver; if another library in the process has initialised it, they ask
 * it what memory a pointer leads to.
 *
 * Results do not depend on the placement, the number of threads or GPUs, or the kind of memory:
 * the same input gives the same bits. Arithmetic is IEEE-754's, rounded to nearest, with subnormals,
 * whatever modes the calling thread has set; those are the same afterwards. Every NaN result is the
 * one quiet NaN. Integers wrap around.
 *
 * Errors. Functions return GPUVEC_OK (0) or another gpuvec_status. gpuvec_last_error gives this
 * thread's detail. Arguments are checked before anything is touched: after such an error nothing
 * was written. After GPUVEC_ERROR_OUT_OF_MEMORY, GPUVEC_ERROR_DRIVER or GPUVEC_ERROR_DEVICE_LOST in
 * the middle of the work the output is unspecified. With placement auto or all a GPU that fails is
 * not an error, as long as the inputs are still there: the cores do the work. With a stream it is
 * one: what the stream did before may be missing. A lost device takes its memory and its streams with
 * it; giving them back is right all the same. Nothing is printed, and no error ends the process. Two
 * failures lie beyond that: the C library ends a process in which a thread's first call finds no
 * memory for 2 KiB of thread-local storage, and Rust's runtime one in which a small allocation of
 * the library's own fails.
 *
 * Threads. Any thread may call anything at any time; calls of several threads with one stream are
 * queued in some order. Work that was queued before a call on CUDA's legacy default stream, of the
 * calling thread's device or of one that the call uses, is seen by the call, wherever it runs. The
 * calling thread's current CUDA context is the same afterwards; the library uses each device's
 * primary context and never resets a device. Threads of the library's own help with longer arrays;
 * after such a call they look out for the next for a tenth of a millisecond, giving way to any
 * other, and sleep. They are started with the CPU affinity, the nice value and the policy of the
 * process's main thread, or the ordinary policy in the place of a real-time one. No call waits for a
 * thread that has not begun, so that constructors that run inside dlopen may call. A program whose
 * main thread ends by pthread_exit calls exit in another one: the library's threads never end.
 *
 * Signals. In a signal handler only gpuvec_last_error, gpuvec_status_string, gpuvec_version and
 * gpuvec_abi_version may be called. Any other function that interrupts a call of its thread does
 * nothing and fails with GPUVEC_ERROR_REENTRANT (NULL or 0 where it returns no status); one that
 * interrupts something else may wait for ever, as malloc may. A handler that interrupts a call may
 * fork only to call exec or _exit in the child. The library's threads block every signal but SIGSEGV,
 * SIGBUS, SIGFPE, SIGILL, SIGTRAP and SIGSYS, whose handlers run on them as on the caller: pages that
 * a handler provides on demand work on the CPU. Once the process has the driver open, though, an
 * array longer than 256 KiB whose first or last byte cannot be read as the call begins is
 * GPUVEC_ERROR_POINTER: no handler runs while the library looks.
 *
 * Fork. A child never touches the driver that its parent used: with placement auto it computes on
 * the CPU, with placement gpu it gets GPUVEC_ERROR_FORKED; so it does for its parent's streams.
 *
 * Ownership. Arrays are the caller's; a call is done with them when it returns. Strings that
 * functions return are the library's. At exit nothing is torn down, and the library is never
 * unloaded.
 *
 * Bindings for other languages: every constant here is a plain integer, every enumeration is an
 * int32_t, and what the version macros say is also what gpuvec_version and gpuvec_abi_version return.
 *
 * This file is made from the sources by `cargo build`; do not edit it.
 */


#ifndef GPUVEC_H
#define GPUVEC_H

#include <stddef.h>
#include <stdint.h>

/* This header's version; the library's own is gpuvec_version(). */
#define GPUVEC_VERSION_MAJOR 0
#define GPUVEC_VERSION_MINOR 1
#define GPUVEC_VERSION_PATCH 0

// This header's binary interface; the library's own is `gpuvec_abi_version()`. Raised when a
// function, a status or a field is changed or removed, not when one is added.
#define GPUVEC_ABI_VERSION 1

// The calling core alone did the work.
#define GPUVEC_PATH_CALLING_CORE 1

// Several cores did the work.
#define GPUVEC_PATH_CORES 2

// An operand was copied through gpuvec's own pinned buffers.
#define GPUVEC_PATH_STAGED 4

// An operand crossed the bus by DMA into or out of device memory.
#define GPUVEC_PATH_DMA 8

// Kernels read or wrote an operand in host memory, across the bus, without a copy.
#define GPUVEC_PATH_MAPPED 16

// An operand was device memory and was used where it is.
#define GPUVEC_PATH_RESIDENT 32

// What every function that returns `int32_t` returns. New codes are only ever appended.
//
// 1xx: an argument is wrong. 2xx: the work cannot run where it was asked to. 3xx: a resource ran
// out. 4xx: the driver or the device failed. 9xx: a defect in gpuvec.
enum gpuvec_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The work is done.
    GPUVEC_OK = 0,
    // Not an error: the work that was asked about is not done yet.
    GPUVEC_NOT_READY = 1,
    // A pointer is NULL although `n` is not 0.
    GPUVEC_ERROR_NULL = 101,
    // A pointer is not a multiple of its element's size.
    GPUVEC_ERROR_MISALIGNED = 102,
    // `n` elements, or that many bytes, are more than an address space holds.
    GPUVEC_ERROR_SIZE = 103,
    // The output overlaps an input without being exactly that input.
    GPUVEC_ERROR_OVERLAP = 104,
    // The allocation behind a device pointer is too short for `n` elements.
    GPUVEC_ERROR_OUT_OF_BOUNDS = 105,
    // The pointer is not one that this function takes, for example one freed before.
    GPUVEC_ERROR_POINTER = 106,
    // A number is not one of the values that the function takes.
    GPUVEC_ERROR_VALUE = 107,
    // A stream or event that does not exist: destroyed before, or never created.
    GPUVEC_ERROR_HANDLE = 108,
    // `n` is 0, and the operation has no result for no elements: `min` and `max`.
    GPUVEC_ERROR_EMPTY = 109,
    // Placement `gpu` was asked for and there is no usable GPU; `gpuvec_why_cpu()` says why.
    GPUVEC_ERROR_NO_GPU = 201,
    // Placement `gpu` was asked for in a process forked after the driver was in use; or the process
    // was forked by a signal handler that interrupted gpuvec.
    GPUVEC_ERROR_FORKED = 202,
    // An environment variable of gpuvec's has a value that it does not take.
    GPUVEC_ERROR_ENVIRONMENT = 203,
    // The operands cannot be reached from where the work was to run.
    GPUVEC_ERROR_PLACEMENT = 204,
    // A signal handler made the call while another call of gpuvec was in progress in its thread.
    GPUVEC_ERROR_REENTRANT = 205,
    // Host, pinned or device memory ran out.
    GPUVEC_ERROR_OUT_OF_MEMORY = 301,
    // A call of the CUDA driver failed; `gpuvec_last_error()` names it and its error.
    GPUVEC_ERROR_DRIVER = 401,
    // A device stopped working and stays unusable until the process ends.
    GPUVEC_ERROR_DEVICE_LOST = 402,
    // A defect in gpuvec, caught before it reached the caller.
    GPUVEC_ERROR_INTERNAL = 901,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum gpuvec_status gpuvec_status;
#else
typedef int32_t gpuvec_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Where the work of a call is done.
enum gpuvec_place
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // On the GPU, unless the calling core alone would be done sooner; where there is no usable
    // GPU, on all cores.
    GPUVEC_PLACE_AUTO = 0,
    // On the GPU, or an error.
    GPUVEC_PLACE_GPU = 1,
    // On all cores; the driver is not used.
    GPUVEC_PLACE_CPU = 2,
    // On all cores, and beside them on all GPUs where these reach every array in host memory without
    // a copy; as `Auto` does for memory of a GPU.
    GPUVEC_PLACE_ALL = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum gpuvec_place gpuvec_place;
#else
typedef int32_t gpuvec_place;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Which kind of processor did the work.
enum gpuvec_backend
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // None: there was nothing to do, or the call failed.
    GPUVEC_BACKEND_NONE = 0,
    // The CPU.
    GPUVEC_BACKEND_CPU = 1,
    // One GPU or several.
    GPUVEC_BACKEND_GPU = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum gpuvec_backend gpuvec_backend;
#else
typedef int32_t gpuvec_backend;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// An event: a point in a stream's work, which can be waited for and whose time is known.
typedef struct gpuvec_event gpuvec_event;

// A stream: a queue of work that is done in its order.
typedef struct gpuvec_stream gpuvec_stream;

// Where the calling thread's last operation ran, and how.
//
// A later version may append fields, never change or remove one.
typedef struct gpuvec_run {
    // A `gpuvec_backend`.
    int32_t backend;
    // The `GPUVEC_PATH_*` bits of every way that an operand took.
    uint32_t path;
    // Bit d is set if device d took part.
    uint64_t devices;
    // Host threads that could take part, the calling one included.
    uint64_t threads;
    // Pieces that the work was cut into.
    uint64_t chunks;
    // Bytes copied through gpuvec's own pinned buffers; 0 where nothing was staged.
    uint64_t bytes_staged;
} gpuvec_run;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Adds two `float` arrays: `out[i] = a[i] + b[i]` for `i` from 0 to `n - 1`.
//
// Rounded to nearest as IEEE-754 says, subnormals kept; every NaN is stored as 0x7FC00000. `out`
// may be `a` or `b` (in place), and otherwise overlaps neither.
//
// Returns `GPUVEC_OK` when `out` holds the result, or an error. `n == 0` does nothing.
int32_t vector_add(const float *a, const float *b, float *out, size_t n);

// Adds two `int32_t` arrays: `out[i] = a[i] + b[i]`, wrapping around as two's complement does.
//
// Otherwise as `vector_add`.
int32_t add_arrays(const int32_t *a, const int32_t *b, int32_t *out, size_t n);

// The dot product of two `float` arrays: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
//
// Products are exact and summed in `double`, in an order that depends on nothing but `n`; the sum
// is rounded once, to `float`. So the result has the same bits on any number of threads, on the
// CPU and on any GPU. A NaN is stored as 0x7FC00000; a sum of nothing (`n == 0`) and an exact zero
// are +0.
//
// `out` is one `float`; it may be `a[0]` or `b[0]`, and otherwise lies outside of both arrays.
//
// Returns `GPUVEC_OK` when `out` holds the result, or an error.
int32_t dot_product(const float *a, const float *b, float *out, size_t n);

// Adds two arrays: `out[i] = a[i] + b[i]` for `i` from 0 to `n - 1`, of `float`.
//
// Rounded to nearest as IEEE-754 says, subnormals kept; every NaN is stored as the quiet one.
//
// `out` may be `a` or `b` (in place), and otherwise overlaps neither. `stream` is where the work
// is queued; with NULL it is done when the function returns. (So for the whole family.)
//
// Returns `GPUVEC_OK`, or an error. `n == 0` does nothing.
int32_t gpuvec_add_f32(const float *a,
                       const float *b,
                       float *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// `out[i] = a[i] + b[i]` for `i` from 0 to `n - 1`, of `double`: as `gpuvec_add_f32`.
int32_t gpuvec_add_f64(const double *a,
                       const double *b,
                       double *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// `out[i] = a[i] + b[i]` for `i` from 0 to `n - 1`, of `int32_t`, wrapping around: otherwise as
// `gpuvec_add_f32`.
int32_t gpuvec_add_i32(const int32_t *a,
                       const int32_t *b,
                       int32_t *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// `out[i] = a[i] + b[i]` for `i` from 0 to `n - 1`, of `int64_t`, wrapping around: otherwise as
// `gpuvec_add_f32`.
int32_t gpuvec_add_i64(const int64_t *a,
                       const int64_t *b,
                       int64_t *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// `out[i] = a[i] - b[i]` for `i` from 0 to `n - 1`, of `float`: as `gpuvec_add_f32`.
int32_t gpuvec_sub_f32(const float *a,
                       const float *b,
                       float *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// `out[i] = a[i] - b[i]` for `i` from 0 to `n - 1`, of `double`: as `gpuvec_add_f32`.
int32_t gpuvec_sub_f64(const double *a,
                       const double *b,
                       double *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// `out[i] = a[i] - b[i]` for `i` from 0 to `n - 1`, of `int32_t`, wrapping around: otherwise as
// `gpuvec_add_f32`.
int32_t gpuvec_sub_i32(const int32_t *a,
                       const int32_t *b,
                       int32_t *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// `out[i] = a[i] - b[i]` for `i` from 0 to `n - 1`, of `int64_t`, wrapping around: otherwise as
// `gpuvec_add_f32`.
int32_t gpuvec_sub_i64(const int64_t *a,
                       const int64_t *b,
                       int64_t *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// `out[i] = a[i] * b[i]` for `i` from 0 to `n - 1`, of `float`: as `gpuvec_add_f32`.
int32_t gpuvec_mul_f32(const float *a,
                       const float *b,
                       float *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// `out[i] = a[i] * b[i]` for `i` from 0 to `n - 1`, of `double`: as `gpuvec_add_f32`.
int32_t gpuvec_mul_f64(const double *a,
                       const double *b,
                       double *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// `out[i] = a[i] * b[i]` for `i` from 0 to `n - 1`, of `int32_t`, wrapping around: otherwise as
// `gpuvec_add_f32`.
int32_t gpuvec_mul_i32(const int32_t *a,
                       const int32_t *b,
                       int32_t *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// `out[i] = a[i] * b[i]` for `i` from 0 to `n - 1`, of `int64_t`, wrapping around: otherwise as
// `gpuvec_add_f32`.
int32_t gpuvec_mul_i64(const int64_t *a,
                       const int64_t *b,
                       int64_t *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// `out[i] = a[i] / b[i]` for `i` from 0 to `n - 1`, of `float`: as `gpuvec_add_f32`.
int32_t gpuvec_div_f32(const float *a,
                       const float *b,
                       float *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// `out[i] = a[i] / b[i]` for `i` from 0 to `n - 1`, of `double`: as `gpuvec_add_f32`.
int32_t gpuvec_div_f64(const double *a,
                       const double *b,
                       double *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// `out[i] = alpha * a[i]` for `i` from 0 to `n - 1`, of `float`: as `gpuvec_add_f32`.
int32_t gpuvec_scale_f32(float alpha,
                         const float *a,
                         float *out,
                         size_t n,
                         struct gpuvec_stream *stream);

// `out[i] = alpha * a[i]` for `i` from 0 to `n - 1`, of `double`: as `gpuvec_add_f32`.
int32_t gpuvec_scale_f64(double alpha,
                         const double *a,
                         double *out,
                         size_t n,
                         struct gpuvec_stream *stream);

// `out[i] = alpha * a[i] + b[i]` for `i` from 0 to `n - 1`, of `float`, rounded once (`fma`):
// otherwise as `gpuvec_add_f32`.
int32_t gpuvec_axpy_f32(float alpha,
                        const float *a,
                        const float *b,
                        float *out,
                        size_t n,
                        struct gpuvec_stream *stream);

// `out[i] = alpha * a[i] + b[i]` for `i` from 0 to `n - 1`, of `double`, rounded once (`fma`):
// otherwise as `gpuvec_add_f32`.
int32_t gpuvec_axpy_f64(double alpha,
                        const double *a,
                        const double *b,
                        double *out,
                        size_t n,
                        struct gpuvec_stream *stream);

// The dot product of two `float` arrays: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
//
// Products are exact and summed in `double`, in an order that depends on nothing but `n`; the sum
// is rounded once. So the result has the same bits on any number of threads, on the CPU and on any
// GPU. A NaN is stored as the quiet one; a sum of nothing (`n == 0`) and an exact zero are +0.
//
// `out` is one value; it may be `a[0]` or `b[0]`, and otherwise lies outside of both arrays.
//
// Returns `GPUVEC_OK`, or an error.
int32_t gpuvec_dot_f32(const float *a,
                       const float *b,
                       float *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// The dot product of two `double` arrays: each product is rounded, and they are summed in `double`
// in an order that depends on nothing but `n`. Otherwise as `gpuvec_dot_f32`.
int32_t gpuvec_dot_f64(const double *a,
                       const double *b,
                       double *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// The dot product of two `int32_t` arrays: products are exact, their sum wraps around in
// `int64_t`. `out` lies outside of both arrays. Otherwise as `gpuvec_dot_f32`.
int32_t gpuvec_dot_i32(const int32_t *a,
                       const int32_t *b,
                       int64_t *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// The dot product of two `int64_t` arrays; products and their sum wrap around. Otherwise as
// `gpuvec_dot_f32`.
int32_t gpuvec_dot_i64(const int64_t *a,
                       const int64_t *b,
                       int64_t *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// The sum of a `float` array: `out[0] = a[0] + … + a[n-1]`, summed in `double` and rounded once.
// Otherwise as `gpuvec_dot_f32`.
int32_t gpuvec_sum_f32(const float *a, float *out, size_t n, struct gpuvec_stream *stream);

// The sum of a `double` array, in an order that depends on nothing but `n`. Otherwise as
// `gpuvec_dot_f32`.
int32_t gpuvec_sum_f64(const double *a, double *out, size_t n, struct gpuvec_stream *stream);

// The sum of an `int32_t` array, which wraps around in `int64_t`. `out` lies outside of the array.
// Otherwise as `gpuvec_dot_f32`.
int32_t gpuvec_sum_i32(const int32_t *a, int64_t *out, size_t n, struct gpuvec_stream *stream);

// The sum of an `int64_t` array, which wraps around. Otherwise as `gpuvec_dot_f32`.
int32_t gpuvec_sum_i64(const int64_t *a, int64_t *out, size_t n, struct gpuvec_stream *stream);

// Stores the smallest element of a `float` array in `out[0]`.
//
// As IEEE 754-2019's minimum (section 9.6): a NaN among the elements makes the result the quiet NaN,
// and -0 is below +0.
// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
//
// `out` is one `float`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
// work is queued; with NULL the function returns when the work is done.
//
// Returns `GPUVEC_OK`, or an error.
int32_t gpuvec_min_f32(const float *a,
                       float *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// Stores the smallest element of a `double` array in `out[0]`.
//
// As IEEE 754-2019's minimum (section 9.6): a NaN among the elements makes the result the quiet NaN,
// and -0 is below +0.
// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
//
// `out` is one `double`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
// work is queued; with NULL the function returns when the work is done.
//
// Returns `GPUVEC_OK`, or an error.
int32_t gpuvec_min_f64(const double *a,
                       double *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// Stores the smallest element of a `int32_t` array in `out[0]`.
//
// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
//
// `out` is one `int32_t`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
// work is queued; with NULL the function returns when the work is done.
//
// Returns `GPUVEC_OK`, or an error.
int32_t gpuvec_min_i32(const int32_t *a,
                       int32_t *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// Stores the smallest element of a `int64_t` array in `out[0]`.
//
// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
//
// `out` is one `int64_t`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
// work is queued; with NULL the function returns when the work is done.
//
// Returns `GPUVEC_OK`, or an error.
int32_t gpuvec_min_i64(const int64_t *a,
                       int64_t *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// Stores the largest element of a `float` array in `out[0]`.
//
// As IEEE 754-2019's maximum (section 9.6): a NaN among the elements makes the result the quiet NaN,
// and -0 is below +0.
// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
//
// `out` is one `float`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
// work is queued; with NULL the function returns when the work is done.
//
// Returns `GPUVEC_OK`, or an error.
int32_t gpuvec_max_f32(const float *a,
                       float *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// Stores the largest element of a `double` array in `out[0]`.
//
// As IEEE 754-2019's maximum (section 9.6): a NaN among the elements makes the result the quiet NaN,
// and -0 is below +0.
// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
//
// `out` is one `double`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
// work is queued; with NULL the function returns when the work is done.
//
// Returns `GPUVEC_OK`, or an error.
int32_t gpuvec_max_f64(const double *a,
                       double *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// Stores the largest element of a `int32_t` array in `out[0]`.
//
// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
//
// `out` is one `int32_t`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
// work is queued; with NULL the function returns when the work is done.
//
// Returns `GPUVEC_OK`, or an error.
int32_t gpuvec_max_i32(const int32_t *a,
                       int32_t *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// Stores the largest element of a `int64_t` array in `out[0]`.
//
// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
//
// `out` is one `int64_t`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
// work is queued; with NULL the function returns when the work is done.
//
// Returns `GPUVEC_OK`, or an error.
int32_t gpuvec_max_i64(const int64_t *a,
                       int64_t *out,
                       size_t n,
                       struct gpuvec_stream *stream);

// Allocates page-locked host memory, which a GPU reads and writes directly: arrays in it are not
// copied on the host first, and calls on them are faster.
//
// `bytes` is rounded up to whole pages, of 4,096 bytes; the memory begins with a page. Its content
// is not defined. Where there is no usable GPU, or with placement `cpu`, it is ordinary memory,
// and everything works the same. A child made by `fork` must not use memory that its parent
// page-locked.
//
// Returns NULL on failure; `gpuvec_last_error()` says why. Give the memory back with
// `pinned_free`.
void *pinned_alloc(size_t bytes);

// Gives back what `pinned_alloc` returned; NULL is fine and does nothing.
//
// Work that is queued on a stream must be done with it.
//
// Returns `GPUVEC_OK`, or `GPUVEC_ERROR_POINTER` for a pointer that `pinned_alloc` did not give or
// that was freed before. After `GPUVEC_ERROR_DEVICE_LOST` the memory is gone, with the device; after
// any other error it is still there, and can be freed again.
int32_t pinned_free(void *ptr);

// Allocates memory of a GPU: arrays in it are used where they are, and nothing crosses the bus.
//
// `device` counts from 0. The memory is aligned for every element type, and its content is not
// defined; fill it by `gpuvec_copy`. Where there is no usable GPU, or with placement `cpu`, it is
// ordinary host memory (device 0), and everything works the same.
//
// Returns NULL on failure; `gpuvec_last_error()` says why. Give the memory back with
// `gpuvec_device_free`.
void *gpuvec_device_alloc(size_t bytes, int32_t device);

// Gives back what `gpuvec_device_alloc` returned; NULL is fine and does nothing. Waits until the
// device is done with it.
//
// Returns `GPUVEC_OK`, or `GPUVEC_ERROR_POINTER` for a pointer that `gpuvec_device_alloc` did not
// give or that was freed before. After `GPUVEC_ERROR_DEVICE_LOST` the memory is gone, with the
// device; after any other error it is still there, and can be freed again.
int32_t gpuvec_device_free(void *ptr);

// Page-locks `bytes` of host memory that exist, so that a GPU reaches them directly, as it does
// memory of `pinned_alloc`. Takes time, some tenths of a millisecond for each MiB: for arrays that
// are used more than once.
//
// Any address will do. Arrays may share pages, and an array may be registered more than once: it
// is unlocked when it was unregistered as often. What else lies in an array's pages stays ordinary
// memory. Where there is no usable GPU, or with placement `cpu`, the memory stays as it is, and
// everything works the same.
//
// Returns `GPUVEC_OK` (also for memory that somebody else page-locked), or an error.
int32_t gpuvec_host_register(void *ptr, size_t bytes);

// Undoes one `gpuvec_host_register` of that address. To be called before the memory is freed, and
// when queued work is done with it. Pages that other registrations share stay locked until those
// end.
//
// Returns `GPUVEC_OK`, or `GPUVEC_ERROR_POINTER` for an address that is not registered. After
// `GPUVEC_ERROR_DEVICE_LOST` it is registered no longer; after any other error it still is, and can
// be unregistered again.
int32_t gpuvec_host_unregister(void *ptr);

// Copies `bytes` bytes from `src` to `dst`. Each is memory of any kind: the direction follows from
// the pointers, with every placement.
//
// `dst` may be exactly `src`, and otherwise does not overlap it. With a stream the copy is queued
// if neither is pageable memory; otherwise, and with NULL, it is done when the function returns.
//
// Returns `GPUVEC_OK`, or an error. `bytes == 0` does nothing.
int32_t gpuvec_copy(void *dst, const void *src, size_t bytes, struct gpuvec_stream *stream);

// Makes a stream: a queue of work for a GPU, which is done in its order while the caller goes on.
//
// `device` counts from 0. Where there is no usable GPU, or with placement `cpu`, whatever is
// queued is done at once (device 0), and everything works the same.
//
// Returns NULL on failure; `gpuvec_last_error()` says why. Give it back with
// `gpuvec_stream_destroy`.
struct gpuvec_stream *gpuvec_stream_create(int32_t device);

// Makes a handle of somebody else's `CUstream` (`cudaStream_t`), so that gpuvec's work is queued
// there, among theirs.
//
// `native` is the stream; 0 and 1 are the legacy default stream of the calling thread's device,
// and 2 the per-thread default stream: in each thread that uses the handle its own, and still one
// queue, in which work waits for all that was queued through the handle before. The stream must be
// of a device's primary context, as those of the CUDA runtime, CuPy and PyTorch are. It stays its
// owner's, who keeps it until the handle is destroyed. A reduction cannot be captured into a CUDA
// graph: on a stream that is being captured it fails with `GPUVEC_ERROR_VALUE`.
//
// Returns NULL on failure; `gpuvec_last_error()` says why.
struct gpuvec_stream *gpuvec_stream_from_native(void *native);

// Gives a stream back; NULL is fine and does nothing. Work that is queued on it is still done.
//
// Returns `GPUVEC_OK`, also where its device is lost, or `GPUVEC_ERROR_HANDLE`.
int32_t gpuvec_stream_destroy(struct gpuvec_stream *stream);

// Waits until all work that is queued on a stream is done. For NULL there is nothing to wait for.
//
// Returns `GPUVEC_OK`, or the error of work that was queued.
int32_t gpuvec_stream_synchronize(struct gpuvec_stream *stream);

// Whether all work that is queued on a stream is done.
//
// Returns `GPUVEC_OK` if it is, `GPUVEC_NOT_READY`, or the error of work that was queued.
int32_t gpuvec_stream_query(struct gpuvec_stream *stream);

// Lets work that is queued on a stream from now on wait for an event, of whatever stream or
// device. With a NULL stream the caller waits. An event that was never recorded is not waited for.
// If the work before the event fails, the next call with that work's own stream says so.
//
// Returns `GPUVEC_OK`, or an error.
int32_t gpuvec_stream_wait(struct gpuvec_stream *stream, struct gpuvec_event *event);

// Makes an event, which is nowhere yet.
//
// Returns NULL on failure; `gpuvec_last_error()` says why. Give it back with
// `gpuvec_event_destroy`.
struct gpuvec_event *gpuvec_event_create(void);

// Puts an event behind the work that is queued on a stream now; where it was before it is no more.
// With a NULL stream it is done at once.
//
// Returns `GPUVEC_OK`, or an error.
int32_t gpuvec_event_record(struct gpuvec_event *event, struct gpuvec_stream *stream);

// Whether the work before an event is done.
//
// Returns `GPUVEC_OK` if it is, or the event was never recorded; `GPUVEC_NOT_READY`; or an error.
int32_t gpuvec_event_query(struct gpuvec_event *event);

// Waits until the work before an event is done.
//
// Returns `GPUVEC_OK`, or an error.
int32_t gpuvec_event_synchronize(struct gpuvec_event *event);

// Stores the time from one event to another, in milliseconds, by the clock of the device that
// their streams are of; by the host's where there is no GPU.
//
// Returns `GPUVEC_OK`; `GPUVEC_NOT_READY` if the work before one of them is not done;
// `GPUVEC_ERROR_VALUE` if one was never recorded or they are of two devices; or another error.
int32_t gpuvec_event_elapsed(struct gpuvec_event *start, struct gpuvec_event *end, float *ms);

// Gives an event back; NULL is fine and does nothing. What waits for it goes on waiting.
//
// Returns `GPUVEC_OK`, also where its device is lost, or `GPUVEC_ERROR_HANDLE`.
int32_t gpuvec_event_destroy(struct gpuvec_event *event);

// Says what went wrong in this thread's last call: which argument, its value and what to do, or
// which call of the driver and the driver's own name for the error.
//
// Empty after a call that succeeded. Functions that only answer questions (`gpuvec_version`,
// `gpuvec_status_string`, `gpuvec_why_cpu`, `gpuvec_last_run` and the like) leave it as it is.
//
// Returns a borrowed string of this thread's, valid until its next call; never NULL.
const char *gpuvec_last_error(void);

// The name of a status and its meaning in a few words.
//
// Returns a constant string; for a number that is no status, one that says so.
const char *gpuvec_status_string(int32_t status);

// Chooses where the work of all later calls is done, in every thread: a `gpuvec_place`.
//
// Goes before the environment variable `GPUVEC_PLACEMENT`.
//
// Returns `GPUVEC_OK`, or `GPUVEC_ERROR_VALUE` for another number.
int32_t gpuvec_set_placement(int32_t placement);

// The placement in force: a `gpuvec_place`, or the status `GPUVEC_ERROR_ENVIRONMENT` if
// `GPUVEC_PLACEMENT` is set to something else; `gpuvec_why_cpu()` then says to what. In a signal
// handler that interrupts a call it is `GPUVEC_ERROR_REENTRANT`.
int32_t gpuvec_get_placement(void);

// Says why there is no GPU to compute on: no driver, one too old, no device, a device that
// refuses, placement `cpu`, a forked child.
//
// Opens the driver and a device to find out, as `gpuvec_init` does, except with placement `cpu`.
//
// Returns a borrowed string of this thread's, valid until it asks again; empty if a GPU is there
// and usable.
const char *gpuvec_why_cpu(void);

// Says where this thread's last operation on arrays ran, and how.
//
// `run` points to a `gpuvec_run` and `size` is its size, `sizeof(gpuvec_run)`: a program built
// with an older, shorter one stays right. After an operation that failed, and one with nothing to
// do, all fields are 0.
//
// Returns `GPUVEC_OK`, or `GPUVEC_ERROR_NULL`.
int32_t gpuvec_last_run(struct gpuvec_run *run, size_t size);

// Pays what the first call would: opens the driver and the first GPU, starts the CPU's threads. A
// driver or GPU that failed before is tried again.
//
// Never needed; for programs that want to choose when those tenths of a second pass. The kernel of
// an operation is loaded when a device first runs it, in some milliseconds, for which the driver
// may wait for work that is under way.
//
// Returns `GPUVEC_OK`, also without a GPU; with placement `gpu` the error that a call would
// return.
int32_t gpuvec_init(void);

// How many GPUs the driver shows to this process; 0 without a driver and in a forked child. Opens the
// driver to find out, with every placement.
int32_t gpuvec_device_count(void);

// The name of a GPU, for people.
//
// `device` counts from 0. Opens the driver, with every placement. Returns a constant string, or NULL
// if there is no such device; `gpuvec_last_error()` says why.
const char *gpuvec_device_name(int32_t device);

// The library's version, as "major.minor.patch": a constant string.
const char *gpuvec_version(void);

// The version of the binary interface. A program that was built with a header whose
// `GPUVEC_ABI_VERSION` is the same runs with this library.
int32_t gpuvec_abi_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GPUVEC_H */
