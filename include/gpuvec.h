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
 * placement auto or gpu, and all of it in one call must be of one GPU. Wrong lengths, and memory
 * that somebody changes or frees during the call, are the caller's to avoid.
 *
 * Placement. GPUVEC_PLACE_AUTO, the default: the GPU does the work, unless the calling core alone
 * would be done sooner; where there is no usable GPU, all cores do it. GPUVEC_PLACE_GPU: the GPU, or
 * an error. GPUVEC_PLACE_CPU: all cores. Choose by gpuvec_set_placement, or by the environment
 * variable GPUVEC_PLACEMENT (auto, gpu or cpu). GPUVEC_NUM_THREADS bounds the CPU's threads (a whole
 * number; at most 256 are ever used). Both are read once, and any other value is an error of every
 * call. gpuvec_why_cpu says why there is no GPU to use, and gpuvec_last_run where a call ran.
 *
 * Results do not depend on the placement, the number of threads or GPUs, or the kind of memory:
 * the same input gives the same bits. Arithmetic is IEEE-754's, rounded to nearest, with subnormals,
 * whatever modes the calling thread has set; those are the same afterwards. Every NaN result is the
 * one quiet NaN. Integers wrap around.
 *
 * Errors. Functions return GPUVEC_OK (0) or another gpuvec_status. gpuvec_last_error gives this
 * thread's detail. Arguments are checked before anything is touched: after such an error nothing
 * was written. After GPUVEC_ERROR_DRIVER or GPUVEC_ERROR_DEVICE_LOST in the middle of the work the
 * output is unspecified. With placement auto a GPU that fails is not an error, as long as the inputs
 * are still there: the cores do the work. Nothing is printed, and nothing ends the process.
 *
 * Threads. Any thread may call anything at any time. Work that others queued on CUDA's legacy
 * default stream before a call is seen by the call. The calling thread's current CUDA context is
 * the same afterwards; the library uses each device's primary context and never resets a device.
 *
 * Fork. A child never touches the driver that its parent used: with placement auto it computes on
 * the CPU, with placement gpu it gets GPUVEC_ERROR_FORKED.
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
    // Placement `gpu` was asked for and there is no usable GPU; `gpuvec_why_cpu()` says why.
    GPUVEC_ERROR_NO_GPU = 201,
    // Placement `gpu` was asked for in a process forked after the driver was in use.
    GPUVEC_ERROR_FORKED = 202,
    // An environment variable of gpuvec's has a value that it does not take.
    GPUVEC_ERROR_ENVIRONMENT = 203,
    // The operands cannot be reached from where the work was to run.
    GPUVEC_ERROR_PLACEMENT = 204,
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
// Returns `GPUVEC_OK`, or `GPUVEC_ERROR_POINTER` for a pointer that `pinned_alloc` did not give or
// that was freed before.
int32_t pinned_free(void *ptr);

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
// `GPUVEC_PLACEMENT` is set to something else; `gpuvec_why_cpu()` then says to what.
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

// Pays what the first call would: opens the driver and the first GPU, loads the kernels, starts
// the CPU's threads. A driver or GPU that failed before is tried again.
//
// Never needed; for programs that want to choose when those tenths of a second pass.
//
// Returns `GPUVEC_OK`, also without a GPU; with placement `gpu` the error that a call would return.
int32_t gpuvec_init(void);

// How many GPUs the driver shows to this process; 0 without a driver and in a forked child.
int32_t gpuvec_device_count(void);

// The name of a GPU, for people.
//
// `device` counts from 0. Returns a constant string, or NULL if there is no such device;
// `gpuvec_last_error()` says why.
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
