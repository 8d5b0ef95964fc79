/**
 * @file
 * gpuvec: vector operations on NVIDIA GPUs through plain C functions.
 *
 * Pass ordinary pointers to arrays and a length. The library does the CUDA work inside (memory,
 * transfers, kernel launches) and writes the result to the output array. Without a usable GPU it
 * does the same work on the CPU, with the same bits.
 *
 *     #include "gpuvec.h"
 *
 *     float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, out[3];
 *     if (vector_add(a, b, out, 3) != GPUVEC_OK) {
 *         fprintf(stderr, "%s\n", gpuvec_last_error());
 *     }
 *
 * == Functions ==
 *
 * Classic functions:
 *
 *     vector_add                         Adds arrays of float: out[i] = a[i] + b[i]
 *     add_arrays                         Adds arrays of int32_t: out[i] = a[i] + b[i]
 *     dot_product                        Dot product of float: out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]
 *     pinned_alloc                       Allocates pinned memory
 *     pinned_free                        Frees pinned memory
 *
 * Elementwise operations:
 *
 *     gpuvec_add_f32, _f64, _i32, _i64   Adds: out[i] = a[i] + b[i]
 *     gpuvec_sub_f32, _f64, _i32, _i64   Subtracts: out[i] = a[i] - b[i]
 *     gpuvec_mul_f32, _f64, _i32, _i64   Multiplies: out[i] = a[i] * b[i]
 *     gpuvec_div_f32, _f64               Divides: out[i] = a[i] / b[i]
 *     gpuvec_scale_f32, _f64             Multiplies by a number: out[i] = alpha * a[i]
 *     gpuvec_axpy_f32, _f64              Adds a multiple: out[i] = alpha * a[i] + b[i]
 *
 * Reductions:
 *
 *     gpuvec_dot_f32, _f64, _i32, _i64   Dot product: out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]
 *     gpuvec_sum_f32, _f64, _i32, _i64   Sum: out[0] = a[0] + … + a[n-1]
 *     gpuvec_min_f32, _f64, _i32, _i64   Minimum: out[0] is the smallest a[i]
 *     gpuvec_max_f32, _f64, _i32, _i64   Maximum: out[0] is the largest a[i]
 *
 * Accumulators:
 *
 *     gpuvec_accumulator_create          Creates an accumulator without elements
 *     gpuvec_accumulator_create_nd       Creates an accumulator with a shape
 *     gpuvec_accumulator_add             Adds n elements of a, or n products a[i] * b[i]
 *     gpuvec_accumulator_add_nd          Adds the elements of arrays of any strides, along axes
 *     gpuvec_accumulator_add_by          Adds the elements of each key to a sum of their own
 *     gpuvec_accumulator_merge           Adds all elements of another accumulator
 *     gpuvec_accumulator_value           Stores the sum so far: exact, rounded once
 *     gpuvec_accumulator_bytes           Returns the size of a serialized accumulator in bytes
 *     gpuvec_accumulator_serialize       Serializes an accumulator into bytes
 *     gpuvec_accumulator_deserialize     Creates an accumulator from a serialized state
 *     gpuvec_accumulator_deserialize_nd  Creates an accumulator with a shape from its serialized states
 *     gpuvec_accumulator_destroy         Destroys an accumulator; NULL does nothing
 *
 * Expressions:
 *
 *     gpuvec_expr_compile                Compiles an expression and stores its handle in expr
 *     gpuvec_expr_compile_by             Compiles reductions by key and stores their handle in expr
 *     gpuvec_expr_run_by                 Reduces the elements of each key
 *     gpuvec_expr_run                    Evaluates an expression for each of n elements, or reduces them
 *     gpuvec_expr_run_outputs            Evaluates an expression with several outputs in one pass
 *     gpuvec_expr_run_nd                 Evaluates an expression on arrays of any strides
 *     gpuvec_expr_run_dlpack             Evaluates an expression on DLPack tensors
 *     gpuvec_expr_prepare                Compiles an expression for a GPU in advance
 *     gpuvec_expr_num_outputs            Returns the number of outputs
 *     gpuvec_expr_output_type            Returns the gpuvec_type of the output's elements
 *     gpuvec_expr_is_reduction           Returns 1 if the expression is a reduction, and 0 if not
 *     gpuvec_expr_output_type_at         Returns the gpuvec_type of the elements of one output
 *     gpuvec_expr_is_reduction_at        Returns 1 if one output is a reduction, and 0 if not
 *     gpuvec_expr_text                   Stores an expression's program or its PTX as text
 *     gpuvec_expr_destroy                Destroys an expression; NULL does nothing
 *
 * Memory:
 *
 *     gpuvec_pinned_alloc                Allocates pinned (page-locked) host memory
 *     gpuvec_pinned_free                 Frees pinned memory; NULL does nothing
 *     gpuvec_device_alloc                Allocates device memory
 *     gpuvec_device_free                 Frees device memory; NULL does nothing
 *     gpuvec_device_of                   Returns the number of the GPU that holds device memory
 *     gpuvec_host_register               Page-locks existing host memory
 *     gpuvec_host_unregister             Undoes one gpuvec_host_register of the address ptr
 *     gpuvec_copy                        Copies bytes bytes between any two kinds of memory, from src to dst
 *     gpuvec_memory                      Stores the sizes of the memory that the library holds on a device
 *     gpuvec_trim                        Returns unused memory to the driver
 *
 * Streams and events:
 *
 *     gpuvec_stream_create               Creates a stream
 *     gpuvec_stream_from_native          Creates a handle for an existing CUstream (cudaStream_t)
 *     gpuvec_stream_destroy              Destroys a stream; NULL does nothing
 *     gpuvec_stream_synchronize          Waits until all work of a stream is done; NULL does nothing
 *     gpuvec_stream_query                Checks whether all work queued on a stream is done
 *     gpuvec_stream_wait                 Makes later work of a stream wait for an event
 *     gpuvec_event_create                Creates an event
 *     gpuvec_event_record                Records an event on a stream
 *     gpuvec_event_query                 Checks whether the work before an event is done
 *     gpuvec_event_synchronize           Waits until the work before an event is done
 *     gpuvec_event_elapsed               Stores the milliseconds between two events in ms
 *     gpuvec_event_destroy               Destroys an event; NULL does nothing
 *
 * Settings and library:
 *
 *     gpuvec_set_placement               Sets the placement of all later calls
 *     gpuvec_get_placement               Returns the placement in force for the calling thread
 *     gpuvec_set_thread_placement        Sets the placement of the calling thread's later calls
 *     gpuvec_get_thread_placement        Returns the calling thread's own placement
 *     gpuvec_set_num_threads             Sets the greatest number of threads that work on one call
 *     gpuvec_get_num_threads             Returns the greatest number of threads that work on one call
 *     gpuvec_set_device                  Sets the device that computes calls on host arrays
 *     gpuvec_get_device                  Returns the device that computes calls on host arrays
 *     gpuvec_why_cpu                     Returns the reason why no GPU is usable
 *     gpuvec_last_run                    Stores where, how and why this thread's last operation on arrays ran
 *     gpuvec_init                        Starts the worker threads, and opens the driver and a GPU
 *     gpuvec_device_count                Returns the number of GPUs that the driver shows
 *     gpuvec_device_name                 Returns the name of a GPU
 *     gpuvec_version                     Returns the library's version
 *     gpuvec_abi_version                 Returns the version of the library's binary interface
 *
 * Errors:
 *
 *     gpuvec_last_error                  Describes the failure of this thread's last call
 *     gpuvec_last_status                 Returns the status of this thread's last call
 *     gpuvec_status_string               Describes a status: its name, and its meaning in a few words
 *
 * The section "All functions", at the end, has the rules for all of them: arrays and their memory,
 * results, streams, placement, errors, threads, signals, fork, ownership. Each section begins with what
 * its functions share; a function's comment adds the rest. In short:
 *
 * - Arrays may be in any kind of memory and of any length. Inputs are never written. The output may be
 *   one of the inputs, and must not overlap them otherwise. n and shapes count elements; strides and
 *   sizes are in bytes.
 * - A function with a NULL stream returns when its work is done.
 * - Functions return GPUVEC_OK or another gpuvec_status, or NULL on failure; gpuvec_last_error() then
 *   says what went wrong. Arguments are checked before anything is written.
 * - Any thread may call any function at any time.
 * - Arrays belong to the caller, and strings to the library; each create, alloc, register and compile
 *   has its destroy, free and unregister.
 */

/* This file is generated from src/abi by `cargo build`; do not edit it. */

#ifndef GPUVEC_H
#define GPUVEC_H

#include <stddef.h>
#include <stdint.h>

/* == Constants and types ==
 *
 * The types of the last run, of accumulators and of expressions are in the sections of their functions.
 */

/** The version of this header, MAJOR.MINOR.PATCH; the library's is gpuvec_version(). */
#define GPUVEC_VERSION_MAJOR 0
/** The minor version. */
#define GPUVEC_VERSION_MINOR 1
/** The patch version. */
#define GPUVEC_VERSION_PATCH 0

/**
 * The version of this header's binary interface; the library's is `gpuvec_abi_version()`. It is
 * raised when a function, a status or a field is changed or removed, not when one is added: a
 * program needs a library of the same version of the interface that is at least as new as its header.
 */
#define GPUVEC_ABI_VERSION 1

/** The device number that means all devices. */
#define GPUVEC_ALL_DEVICES -1

/**
 * The status that functions return. New codes are only ever appended.
 *
 * 1xx: an argument is wrong. 2xx: the call cannot run here or as requested. 3xx: a resource ran
 * out. 4xx: the driver or a device failed. 9xx: a defect in gpuvec.
 */
enum gpuvec_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** The work is done. */
    GPUVEC_OK = 0,
    /** Not an error: the queried work is not done yet. */
    GPUVEC_NOT_READY = 1,
    /** A pointer is NULL where an array with elements, a result or a handle is needed. */
    GPUVEC_ERROR_NULL = 101,
    /** A pointer is not a multiple of its element size. */
    GPUVEC_ERROR_MISALIGNED = 102,
    /** `n` elements or `bytes` bytes do not fit into the address space. */
    GPUVEC_ERROR_SIZE = 103,
    /** The output overlaps an input without being exactly that input. */
    GPUVEC_ERROR_OVERLAP = 104,
    /**
     * An array reaches beyond its allocation: device memory, or memory that `gpuvec_pinned_alloc` returned.
     */
    GPUVEC_ERROR_OUT_OF_BOUNDS = 105,
    /** The function does not accept this pointer: for example, its memory was already freed. */
    GPUVEC_ERROR_POINTER = 106,
    /** The function does not accept this value. */
    GPUVEC_ERROR_VALUE = 107,
    /** The handle does not exist: it was destroyed or never created. */
    GPUVEC_ERROR_HANDLE = 108,
    /** There are no elements, but the operation needs one: `min`, `max`, `argmin`, `argmax`. */
    GPUVEC_ERROR_EMPTY = 109,
    /**
     * The bytes do not hold an accumulator state: they are damaged, incomplete or something else.
     */
    GPUVEC_ERROR_STATE = 110,
    /**
     * The text of an expression, or the name of an input, is wrong; `gpuvec_last_error()` shows the place.
     */
    GPUVEC_ERROR_EXPRESSION = 111,
    /** The placement is `gpu` but no GPU is usable; `gpuvec_why_cpu()` says why. */
    GPUVEC_ERROR_NO_GPU = 201,
    /**
     * The process was forked after the driver was in use, and the call needs it; or a signal
     * handler that interrupted gpuvec forked the process.
     */
    GPUVEC_ERROR_FORKED = 202,
    /** An environment variable of gpuvec has a wrong value. */
    GPUVEC_ERROR_ENVIRONMENT = 203,
    /** The placement cannot access an array's memory, or gpuvec cannot use the stream's context. */
    GPUVEC_ERROR_PLACEMENT = 204,
    /** A signal handler made the call while another gpuvec call was in progress in its thread. */
    GPUVEC_ERROR_REENTRANT = 205,
    /** Host, pinned or device memory ran out. */
    GPUVEC_ERROR_OUT_OF_MEMORY = 301,
    /** A CUDA driver function failed; `gpuvec_last_error()` names it and its error. */
    GPUVEC_ERROR_DRIVER = 401,
    /** A device failed and stays unusable until the process ends. */
    GPUVEC_ERROR_DEVICE_LOST = 402,
    /** A defect in gpuvec, caught before it reached the caller. */
    GPUVEC_ERROR_INTERNAL = 901,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum gpuvec_status gpuvec_status;
#else
/** The type of the enumeration of this name, in C before C23. */
typedef int32_t gpuvec_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * An accumulator: the exact sum of all elements that were added to it, or such a sum for each element of a shape.
 */
typedef struct gpuvec_accumulator gpuvec_accumulator;

/** An event: a point in a stream's work, to wait for or to measure times between. */
typedef struct gpuvec_event gpuvec_event;

/** An expression: a formula over arrays and scalars, compiled for any number of calls. */
typedef struct gpuvec_expr gpuvec_expr;

/** A stream: a queue of work that is done in order. */
typedef struct gpuvec_stream gpuvec_stream;

/** An array of any strides, in memory of any kind. */
typedef struct gpuvec_array {
    /** The address of the element with index 0 along every axis. */
    void *data;
    /**
     * The distance from an element to the next along each axis, in bytes; NULL for C order. A stride may be
     * negative; a stride of 0 repeats an input along the axis.
     */
    const int64_t *strides;
} gpuvec_array;

/**
 * The memory that the library holds.
 *
 * Each number was right at some time during the call that stored it. Later versions may append fields; they
 * never change or remove one.
 */
typedef struct gpuvec_memory_info {
    /**
     * The bytes of page-locked host memory that the driver has allocated for the library: callers' memory, and the
     * library's own buffers.
     */
    uint64_t pinned;
    /** The bytes of `pinned` that callers allocated with `gpuvec_pinned_alloc`. */
    uint64_t pinned_allocated;
    /**
     * The bytes of device memory: callers' memory, memory that callers freed, and the library's own buffers.
     */
    uint64_t device;
    /** The bytes of `device` that callers allocated with `gpuvec_device_alloc`. */
    uint64_t device_allocated;
    /**
     * The bytes of `device` that callers freed, and that are kept for the next allocations of the same sizes.
     */
    uint64_t device_kept;
    /** The bytes of host memory that `gpuvec_host_register` has page-locked, in whole pages. */
    uint64_t registered;
    /** The number of kernels that the driver has loaded. */
    uint64_t modules;
} gpuvec_memory_info;

#ifdef __cplusplus
extern "C" {
#endif

/* == Classic functions ==
 *
 * Short names for operations that return when their work is done, and for pinned memory.
 *
 * A program that has its own functions of these names defines `GPUVEC_NO_SHORT_NAMES` before it includes the
 * header. The macro only omits declarations: the library exports the names. If another shared library calls
 * a function of its own by such a name, link gpuvec after that library (`-lother -lgpuvec`): the dynamic
 * linker takes the first definition that it finds.
 *
 *     float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, dot;
 *     if (dot_product(a, b, &dot, 3) == GPUVEC_OK) {
 *         printf("%g\n", dot); // 140
 *     }
 */

#ifndef GPUVEC_NO_SHORT_NAMES

/**
 * Adds arrays of `float`: `out[i] = a[i] + b[i]`. The same as `gpuvec_add_f32` with a NULL `stream`.
 */
gpuvec_status vector_add(const float *a,
                         const float *b,
                         float *out,
                         size_t n);

/**
 * Adds arrays of `int32_t`: `out[i] = a[i] + b[i]`. The same as `gpuvec_add_i32` with a NULL `stream`.
 */
gpuvec_status add_arrays(const int32_t *a,
                         const int32_t *b,
                         int32_t *out,
                         size_t n);

/**
 * Dot product of `float`: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`. The same as `gpuvec_dot_f32` with a NULL
 * `stream`.
 */
gpuvec_status dot_product(const float *a,
                          const float *b,
                          float *out,
                          size_t n);

/** Allocates pinned memory. The same as `gpuvec_pinned_alloc`. */
void *pinned_alloc(size_t bytes);

/** Frees pinned memory. The same as `gpuvec_pinned_free`. */
gpuvec_status pinned_free(void *ptr);

#endif /* GPUVEC_NO_SHORT_NAMES */

/* == Elementwise operations ==
 *
 * `gpuvec_<operation>_<type>(inputs…, out, n, stream)` computes `out[i]` from element `i` of each input, for
 * `i` from 0 to `n - 1`. The types are f32 (`float`), f64 (`double`), i32 (`int32_t`) and i64 (`int64_t`).
 *
 * Floating-point elements are rounded to nearest once (IEEE 754), subnormals included; a NaN is stored as
 * 0x7FC00000 (`float`) or 0x7FF8000000000000 (`double`). Integers wrap around (two's complement).
 *
 * `out` may be exactly one of the inputs (in place); any other overlap with an input is an error. `n == 0`
 * does nothing. With a NULL `stream` the call waits for the result (see "Streams"). The functions return
 * `GPUVEC_OK` or an error.
 *
 *     double x[3] = {1, 2, 3}, y[3] = {0.5, 0.5, 0.5};
 *     if (gpuvec_axpy_f64(10, x, y, y, 3, NULL) == GPUVEC_OK) { // y = 10 * x + y
 *         printf("%g %g %g\n", y[0], y[1], y[2]); // 10.5 20.5 30.5
 *     }
 */

/** Adds: `out[i] = a[i] + b[i]`. */
gpuvec_status gpuvec_add_f32(const float *a,
                             const float *b,
                             float *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Adds: `out[i] = a[i] + b[i]`. */
gpuvec_status gpuvec_add_f64(const double *a,
                             const double *b,
                             double *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Adds: `out[i] = a[i] + b[i]`. */
gpuvec_status gpuvec_add_i32(const int32_t *a,
                             const int32_t *b,
                             int32_t *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Adds: `out[i] = a[i] + b[i]`. */
gpuvec_status gpuvec_add_i64(const int64_t *a,
                             const int64_t *b,
                             int64_t *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Subtracts: `out[i] = a[i] - b[i]`. */
gpuvec_status gpuvec_sub_f32(const float *a,
                             const float *b,
                             float *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Subtracts: `out[i] = a[i] - b[i]`. */
gpuvec_status gpuvec_sub_f64(const double *a,
                             const double *b,
                             double *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Subtracts: `out[i] = a[i] - b[i]`. */
gpuvec_status gpuvec_sub_i32(const int32_t *a,
                             const int32_t *b,
                             int32_t *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Subtracts: `out[i] = a[i] - b[i]`. */
gpuvec_status gpuvec_sub_i64(const int64_t *a,
                             const int64_t *b,
                             int64_t *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Multiplies: `out[i] = a[i] * b[i]`. */
gpuvec_status gpuvec_mul_f32(const float *a,
                             const float *b,
                             float *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Multiplies: `out[i] = a[i] * b[i]`. */
gpuvec_status gpuvec_mul_f64(const double *a,
                             const double *b,
                             double *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Multiplies: `out[i] = a[i] * b[i]`. */
gpuvec_status gpuvec_mul_i32(const int32_t *a,
                             const int32_t *b,
                             int32_t *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Multiplies: `out[i] = a[i] * b[i]`. */
gpuvec_status gpuvec_mul_i64(const int64_t *a,
                             const int64_t *b,
                             int64_t *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Divides: `out[i] = a[i] / b[i]`. */
gpuvec_status gpuvec_div_f32(const float *a,
                             const float *b,
                             float *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Divides: `out[i] = a[i] / b[i]`. */
gpuvec_status gpuvec_div_f64(const double *a,
                             const double *b,
                             double *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Multiplies by a number: `out[i] = alpha * a[i]`. */
gpuvec_status gpuvec_scale_f32(float alpha,
                               const float *a,
                               float *out,
                               size_t n,
                               struct gpuvec_stream *stream);

/** Multiplies by a number: `out[i] = alpha * a[i]`. */
gpuvec_status gpuvec_scale_f64(double alpha,
                               const double *a,
                               double *out,
                               size_t n,
                               struct gpuvec_stream *stream);

/** Adds a multiple: `out[i] = alpha * a[i] + b[i]`. Each element is rounded once, as by `fma`. */
gpuvec_status gpuvec_axpy_f32(float alpha,
                              const float *a,
                              const float *b,
                              float *out,
                              size_t n,
                              struct gpuvec_stream *stream);

/** Adds a multiple: `out[i] = alpha * a[i] + b[i]`. Each element is rounded once, as by `fma`. */
gpuvec_status gpuvec_axpy_f64(double alpha,
                              const double *a,
                              const double *b,
                              double *out,
                              size_t n,
                              struct gpuvec_stream *stream);

/* == Reductions ==
 *
 * `gpuvec_<operation>_<type>(inputs…, out, n, stream)` reduces all elements of the inputs to one value and
 * stores it in `out[0]`. The types are f32 (`float`), f64 (`double`), i32 (`int32_t`) and i64 (`int64_t`).
 *
 * `dot` and `sum` of floats are exact: the sum of all elements or exact products is rounded once, to the type
 * of `out` (see "Results"). A NaN is stored as 0x7FC00000 (`float`) or 0x7FF8000000000000 (`double`); an exact
 * zero, and the result for `n == 0`, is +0. `dot` and `sum` of integers are an `int64_t` that wraps around; the
 * result for `n == 0` is 0. Accumulators compute exact sums in parts.
 *
 * `min` and `max` of floats follow IEEE 754-2019's minimum and maximum: -0 is less than +0, and a NaN among
 * the elements makes the result the NaN above. The result therefore has the same bits for any number of
 * threads, on the CPU and on any GPU. An empty array has no minimum or maximum: for `n == 0` the call returns
 * `GPUVEC_ERROR_EMPTY` and writes nothing.
 *
 * `out` is one element. It may be the first element of an input of the same type, and must not overlap the
 * inputs otherwise. With a NULL `stream` the call waits for the result (see "Streams"). The functions return
 * `GPUVEC_OK` or an error.
 *
 *     float x[4] = {1e30f, 1, -1e30f, 2}, sum;
 *     if (gpuvec_sum_f32(x, &sum, 4, NULL) == GPUVEC_OK) {
 *         printf("%g\n", sum); // 3
 *     }
 */

/** Dot product: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`. */
gpuvec_status gpuvec_dot_f32(const float *a,
                             const float *b,
                             float *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Dot product: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`. */
gpuvec_status gpuvec_dot_f64(const double *a,
                             const double *b,
                             double *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Dot product: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`. Products are exact. */
gpuvec_status gpuvec_dot_i32(const int32_t *a,
                             const int32_t *b,
                             int64_t *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Dot product: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`. Products wrap around, too. */
gpuvec_status gpuvec_dot_i64(const int64_t *a,
                             const int64_t *b,
                             int64_t *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Sum: `out[0] = a[0] + … + a[n-1]`. */
gpuvec_status gpuvec_sum_f32(const float *a, float *out, size_t n, struct gpuvec_stream *stream);

/** Sum: `out[0] = a[0] + … + a[n-1]`. */
gpuvec_status gpuvec_sum_f64(const double *a, double *out, size_t n, struct gpuvec_stream *stream);

/** Sum: `out[0] = a[0] + … + a[n-1]`. */
gpuvec_status gpuvec_sum_i32(const int32_t *a,
                             int64_t *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Sum: `out[0] = a[0] + … + a[n-1]`. */
gpuvec_status gpuvec_sum_i64(const int64_t *a,
                             int64_t *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Minimum: `out[0]` is the smallest `a[i]`. */
gpuvec_status gpuvec_min_f32(const float *a, float *out, size_t n, struct gpuvec_stream *stream);

/** Minimum: `out[0]` is the smallest `a[i]`. */
gpuvec_status gpuvec_min_f64(const double *a, double *out, size_t n, struct gpuvec_stream *stream);

/** Minimum: `out[0]` is the smallest `a[i]`. */
gpuvec_status gpuvec_min_i32(const int32_t *a,
                             int32_t *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Minimum: `out[0]` is the smallest `a[i]`. */
gpuvec_status gpuvec_min_i64(const int64_t *a,
                             int64_t *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Maximum: `out[0]` is the largest `a[i]`. */
gpuvec_status gpuvec_max_f32(const float *a, float *out, size_t n, struct gpuvec_stream *stream);

/** Maximum: `out[0]` is the largest `a[i]`. */
gpuvec_status gpuvec_max_f64(const double *a, double *out, size_t n, struct gpuvec_stream *stream);

/** Maximum: `out[0]` is the largest `a[i]`. */
gpuvec_status gpuvec_max_i32(const int32_t *a,
                             int32_t *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/** Maximum: `out[0]` is the largest `a[i]`. */
gpuvec_status gpuvec_max_i64(const int64_t *a,
                             int64_t *out,
                             size_t n,
                             struct gpuvec_stream *stream);

/* == Accumulators ==
 *
 * An accumulator is an exact sum, or dot product, that continues from call to call:
 *
 *     double x[4] = {1e100, 1, -1e100, 2}, value;
 *     gpuvec_accumulator *sum = gpuvec_accumulator_create(GPUVEC_ACCUMULATOR_SUM_F64);
 *     for (int i = 0; i < 4; i += 2) {
 *         gpuvec_accumulator_add(sum, x + i, NULL, 2, NULL); // two elements at a time
 *     }
 *     if (gpuvec_accumulator_value(sum, &value) == GPUVEC_OK) {
 *         printf("%g\n", value); // 3
 *     }
 *     gpuvec_accumulator_destroy(sum);
 *
 * Its value depends only on the elements that were added, not on how they were split or ordered: it has the
 * bits that `gpuvec_sum_f32`, `gpuvec_dot_f32`, `gpuvec_sum_f64` or `gpuvec_dot_f64` returns for all of them.
 * Accumulators of several threads, processes or machines merge without rounding: by
 * `gpuvec_accumulator_merge`, or, once serialized, by adding the integers of their states, as `MPI_SUM` does.
 *
 * `gpuvec_accumulator_create_nd` creates an accumulator with a shape: an array of such sums.
 * `gpuvec_accumulator_add_nd` adds the elements of arrays of any strides to them, along axes, and
 * `gpuvec_accumulator_add_by` adds the elements of each key to a sum of their own.
 *
 * Several threads may use one accumulator at the same time: each call adds all of its elements at once, or
 * none. A child made by `fork` continues with its own copy. Each sum takes fewer than 2^63 elements.
 *
 * Functions that create an accumulator return NULL on failure; `gpuvec_last_error()` says why. Destroy
 * accumulators with `gpuvec_accumulator_destroy`.
 */

/** The kind of an accumulator: its operation and the type of its elements. */
enum gpuvec_accumulator_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** `float` elements. */
    GPUVEC_ACCUMULATOR_SUM_F32 = 1,
    /** The products of pairs of `float` elements. */
    GPUVEC_ACCUMULATOR_DOT_F32 = 2,
    /** `double` elements. */
    GPUVEC_ACCUMULATOR_SUM_F64 = 3,
    /** The products of pairs of `double` elements. */
    GPUVEC_ACCUMULATOR_DOT_F64 = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum gpuvec_accumulator_kind gpuvec_accumulator_kind;
#else
/** The type of the enumeration of this name, in C before C23. */
typedef int32_t gpuvec_accumulator_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/** Creates an accumulator without elements. `kind` is a `gpuvec_accumulator_kind`. */
struct gpuvec_accumulator *gpuvec_accumulator_create(int32_t kind);

/**
 * Creates an accumulator with a shape. Each of its elements is an exact sum or dot product of its own, for
 * arrays that are added along axes.
 *
 * `shape` points to the lengths of the `ndim` axes, at most 32. With 0 axes the accumulator is one that
 * `gpuvec_accumulator_create` creates. The state of each element takes 120 (`SUM_F32`), 192 (`DOT_F32`), 576
 * (`SUM_F64`) or 1,104 (`DOT_F64`) bytes of host memory. Fails with `GPUVEC_ERROR_OUT_OF_MEMORY` if memory for
 * the states runs out.
 */
struct gpuvec_accumulator *gpuvec_accumulator_create_nd(int32_t kind,
                                                        int32_t ndim,
                                                        const int64_t *shape);

/**
 * Adds `n` elements of `a`, or `n` products `a[i] * b[i]`. An accumulator of a sum adds elements, and one of a
 * dot product adds products.
 *
 * `a` and `b` are arrays of the accumulator's type, in memory of any kind; `b` is NULL for a sum. With a stream
 * the call first waits for the stream's earlier work. All elements have been added when the call returns; after
 * an error none has. Returns `GPUVEC_OK`; `GPUVEC_ERROR_VALUE` for an accumulator with a shape; or another
 * error.
 */
gpuvec_status gpuvec_accumulator_add(struct gpuvec_accumulator *accumulator,
                                     const void *a,
                                     const void *b,
                                     size_t n,
                                     struct gpuvec_stream *stream);

/**
 * Adds the elements of arrays of any strides, along axes. The arrays have one common shape. Each sum of the
 * accumulator receives the elements that have its index along the axes that are not reduced.
 *
 * `shape` points to the lengths of the arrays' `ndim` axes, and `inputs` to the array of a sum or to the two
 * arrays of a dot product. `reduced_axes` has a bit for each axis that is reduced; the lowest bit is for the
 * first axis. These arguments are as for `gpuvec_expr_run_nd`: strides are in bytes, NULL for C order, and 0
 * along an axis for broadcasting. The lengths of the axes that are not reduced, in their order, must be the
 * shape of the accumulator. For an accumulator without a shape, all axes must be reduced.
 *
 * Each value has the bits of the exact sum of all its elements, rounded once, whatever the chunks, their order
 * and the strides. The elements of a call have been added to all sums when the call returns; after an error
 * none has. During the call the library needs memory for a second copy of the accumulator's states. With a
 * stream the call first waits for the stream's earlier work.
 *
 * Cores add the elements of arrays in host memory. Arrays in the memory of one GPU, and all arrays with
 * placement `gpu`, are added on the GPU if the elements of each sum have at least as many bytes as a state; the
 * states are then copied to the host. Otherwise, and for arrays in the memory of two GPUs, cores add the
 * elements: device memory is copied to host memory in chunks, and `gpuvec_last_run` then describes the addition
 * of the last chunk. With placement `gpu` the call fails unless a GPU is usable. Contiguous arrays that are
 * reduced to one sum are added as by `gpuvec_accumulator_add`.
 *
 * Returns `GPUVEC_OK`; `GPUVEC_ERROR_VALUE` also if the lengths are not the accumulator's, or if more than 8
 * axes remain after adjacent axes that are contiguous in all arrays have been merged; `GPUVEC_ERROR_SIZE` if a
 * sum would have 2^63 elements; `GPUVEC_ERROR_PLACEMENT` for device memory with placement `cpu`; or another
 * error. Errors name an array `inputs[i]`.
 */
gpuvec_status gpuvec_accumulator_add_nd(struct gpuvec_accumulator *accumulator,
                                        int32_t ndim,
                                        const int64_t *shape,
                                        const struct gpuvec_array *inputs,
                                        uint64_t reduced_axes,
                                        struct gpuvec_stream *stream);

/**
 * Adds the elements of each key to a sum of their own.
 *
 * The accumulator's shape has the axes that are not reduced, and an axis for the keys in the place of the first reduced
 * axis, as the outputs of `gpuvec_expr_run_by`. `keys` points to an array of integers of the `gpuvec_type` `key_type`,
 * one for each element, of the same shape as the inputs: from 0 to the length of that axis less 1. With the flag
 * `GPUVEC_IGNORE_OUTSIDE` elements with other keys are left out. The other arguments are as for
 * `gpuvec_accumulator_add_nd`; at least one axis is reduced.
 *
 * Cores add the elements. Arrays in device memory are copied to host memory.
 *
 * Returns `GPUVEC_OK`; `GPUVEC_ERROR_VALUE` also if a key is outside the groups, and then adds nothing; or another
 * error of `gpuvec_accumulator_add_nd`.
 */
gpuvec_status gpuvec_accumulator_add_by(struct gpuvec_accumulator *accumulator,
                                        int32_t ndim,
                                        const int64_t *shape,
                                        const struct gpuvec_array *inputs,
                                        const struct gpuvec_array *keys,
                                        int32_t key_type,
                                        uint64_t reduced_axes,
                                        int32_t flags,
                                        struct gpuvec_stream *stream);

/**
 * Adds all elements of another accumulator. `other` has the same kind and shape, and does not change.
 *
 * `other` may be `accumulator` itself. Its elements then count twice. Returns `GPUVEC_OK`;
 * `GPUVEC_ERROR_VALUE` for accumulators of two kinds or shapes; `GPUVEC_ERROR_SIZE` if there would be 2^63
 * elements; or another error.
 */
gpuvec_status gpuvec_accumulator_merge(struct gpuvec_accumulator *accumulator,
                                       struct gpuvec_accumulator *other);

/**
 * Stores the sum so far: exact, rounded once. `value` points to a `float` or `double` in host memory or, for an
 * accumulator with a shape, to one for each of its elements, in C order. More elements may be added afterwards.
 *
 * Returns `GPUVEC_OK` or an error.
 */
gpuvec_status gpuvec_accumulator_value(struct gpuvec_accumulator *accumulator,
                                       void *value);

/**
 * Returns the size of a serialized accumulator in bytes. The sizes are 152 for `SUM_F32`, 224 for `DOT_F32`,
 * 608 for `SUM_F64` and 1,136 for `DOT_F64`. Returns 0 for an unknown kind.
 */
size_t gpuvec_accumulator_bytes(int32_t kind);

/**
 * Serializes an accumulator into `bytes`. Another process or machine, or a later run, can deserialize it.
 * `bytes` is in host memory. `size` is the size that `gpuvec_accumulator_bytes` returns. For an accumulator
 * with a shape, it is that size times the number of elements: their states are stored one after the other in C
 * order.
 *
 * The bytes are signed little-endian integers of 64 bits. Adding these integers, as `MPI_SUM` of `MPI_INT64_T`
 * and NCCL do, merges the states of up to 2^30 accumulators of one kind, in any grouping. Returns `GPUVEC_OK`
 * or an error.
 */
gpuvec_status gpuvec_accumulator_serialize(struct gpuvec_accumulator *accumulator,
                                           void *bytes,
                                           size_t size);

/**
 * Creates an accumulator from a serialized state. The `size` bytes were stored by
 * `gpuvec_accumulator_serialize`, or are the sum of several such states as integers. The bytes contain the
 * kind.
 *
 * Fails with `GPUVEC_ERROR_SIZE` for the sum of more than 2^30 states or of 2^63 or more elements, and with
 * `GPUVEC_ERROR_STATE` for bytes that are damaged, incomplete or not an accumulator state.
 */
struct gpuvec_accumulator *gpuvec_accumulator_deserialize(const void *bytes,
                                                          size_t size);

/**
 * Creates an accumulator with a shape from its serialized states. The `size` bytes were stored by
 * `gpuvec_accumulator_serialize`, one state after the other in C order, or are the sum of several such states
 * as integers.
 *
 * `kind` is a `gpuvec_accumulator_kind`, and `shape` points to the lengths of the `ndim` axes. Fails as
 * `gpuvec_accumulator_deserialize` does, and with `GPUVEC_ERROR_VALUE` if `size` is not the size of the states.
 */
struct gpuvec_accumulator *gpuvec_accumulator_deserialize_nd(int32_t kind,
                                                             int32_t ndim,
                                                             const int64_t *shape,
                                                             const void *bytes,
                                                             size_t size);

/**
 * Destroys an accumulator; NULL does nothing.
 *
 * Returns `GPUVEC_OK` or `GPUVEC_ERROR_HANDLE`.
 */
gpuvec_status gpuvec_accumulator_destroy(struct gpuvec_accumulator *accumulator);

/* == Expressions ==
 *
 * An expression is a formula as text, which runs in one pass over the arrays:
 *
 *     float a[3] = {3, 5, 8}, b[3] = {4, 12, 15}, out[3];
 *     const char *names[] = {"a", "b"};
 *     const int32_t types[] = {GPUVEC_F32, GPUVEC_F32};
 *     const void *inputs[] = {a, b};
 *     gpuvec_expr *expr;
 *     if (gpuvec_expr_compile("sqrt(a*a + b*b)", names, types, 2, &expr) == GPUVEC_OK) {
 *         if (gpuvec_expr_run(expr, inputs, out, 3, NULL) == GPUVEC_OK) {
 *             printf("%g %g %g\n", out[0], out[1], out[2]); // 5 13 17
 *         }
 *         gpuvec_expr_destroy(expr);
 *     }
 *
 * Up to 8 formulas with `;` between them, such as `"x + dt*v; v - dt*k*x; sum(v*v)"`, form one expression with
 * an output for each formula. Run it with `gpuvec_expr_run_outputs`. The language is Python's syntax with the
 * types and the functions of NumPy; the page "The language of expressions" of gpuvec's documentation describes
 * it.
 *
 * A reduction inside a formula, such as `"x / sum(x)"`, is computed over all elements in an earlier pass. A
 * call with a stream waits for all passes but the last one. All other reductions in such a text reduce all
 * axes, too. A formula that has arrays only inside reductions, such as `"sum(x) / 2"`, is one value:
 * `gpuvec_expr_is_reduction_at` returns 1.
 *
 * Expressions never change, and any number of threads may run one at the same time. Everything that this
 * header says about operations also applies to `gpuvec_expr_run`. Errors name an input `inputs[i]`, and one of
 * several outputs `outputs[i]`.
 */

/** Added to a `gpuvec_type`, declares an input of one value, which is read at each call. */
#define GPUVEC_SCALAR 256

/**
 * Added to `GPUVEC_F64` or `GPUVEC_I64`, declares an input of one value that takes the type of the other
 * operand, as a number in the text does: `k*a` is `float` for an array `a` of `float`.
 */
#define GPUVEC_NUMBER 512

/**
 * A flag of `gpuvec_expr_run_by` and `gpuvec_accumulator_add_by`: elements whose keys are outside the groups are left out.
 */
#define GPUVEC_IGNORE_OUTSIDE 1

/** The type of the elements of an expression's input or output. */
enum gpuvec_type
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** `bool`, a byte: 0 is false, and anything else true. An output is 0 or 1. */
    GPUVEC_BOOL = 1,
    /** `uint8_t`, for inputs. */
    GPUVEC_U8 = 2,
    /** `int8_t`, for inputs. */
    GPUVEC_I8 = 3,
    /** `uint16_t`, for inputs. */
    GPUVEC_U16 = 4,
    /** `int16_t`, for inputs. */
    GPUVEC_I16 = 5,
    /** `uint32_t`, for inputs. */
    GPUVEC_U32 = 6,
    /** `int32_t`. */
    GPUVEC_I32 = 7,
    /** `int64_t`. */
    GPUVEC_I64 = 8,
    /** `float`. */
    GPUVEC_F32 = 9,
    /** `double`. */
    GPUVEC_F64 = 10,
    /**
     * IEEE 754's binary16, as `_Float16` and CUDA's `__half`. It is computed as a `float`, and rounded where it is
     * stored.
     */
    GPUVEC_F16 = 11,
    /** The upper half of a `float`, as CUDA's `__nv_bfloat16`. It is computed as a `float`, too. */
    GPUVEC_BF16 = 12,
    /** `uint64_t`. */
    GPUVEC_U64 = 13,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum gpuvec_type gpuvec_type;
#else
/** The type of the enumeration of this name, in C before C23. */
typedef int32_t gpuvec_type;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/** A text that `gpuvec_expr_text` stores. */
enum gpuvec_expr_form
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** The program: a line for each value, in the order of evaluation. */
    GPUVEC_EXPR_PROGRAM = 1,
    /** The kernel, in PTX; of an expression with several, one text after the other. */
    GPUVEC_EXPR_PTX = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum gpuvec_expr_form gpuvec_expr_form;
#else
/** The type of the enumeration of this name, in C before C23. */
typedef int32_t gpuvec_expr_form;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Compiles an expression and stores its handle in `expr`.
 *
 * `text` is a C string in UTF-8, in the language of expressions. The expression has `count` inputs, at most
 * 32: `names` points to their names, which are C strings, and `types` to their types. A `gpuvec_type` declares
 * an array with elements of that type, and `gpuvec_type | GPUVEC_SCALAR` declares one value, which is read at
 * each call. `GPUVEC_F64 | GPUVEC_NUMBER` and `GPUVEC_I64 | GPUVEC_NUMBER` also declare one value, which takes
 * the type of the other operand, as a number in the text does. The library does not use the caller's memory
 * after the call.
 *
 * Compiling a text again with the same names and types is usually quick: the library remembers recent ones.
 * Destroy the handle with `gpuvec_expr_destroy`.
 *
 * Returns `GPUVEC_OK`; `GPUVEC_ERROR_EXPRESSION` if the text or a name is wrong, or an operation does not take the
 * types of its operands, and `gpuvec_last_error()` then shows the place; `GPUVEC_ERROR_VALUE` if an element of
 * `types` is not a declaration as above, or there are too many inputs; or another error. After an error `*expr` is
 * NULL.
 */
gpuvec_status gpuvec_expr_compile(const char *text,
                                  const char *const *names,
                                  const int32_t *types,
                                  size_t count,
                                  struct gpuvec_expr **expr);

/**
 * Compiles reductions by key and stores their handle in `expr`.
 *
 * Each formula of `text` is one reduction, such as `"sum(x*w); max(x)"`. `by` is a formula of the same inputs, whose
 * values are integers: each element's key, such as `"k"` for an array of keys, or `"i64(floor((x - low) * scale))"`
 * for a histogram. Run the expression with `gpuvec_expr_run_by`. Otherwise as `gpuvec_expr_compile`.
 */
gpuvec_status gpuvec_expr_compile_by(const char *text,
                                     const char *by,
                                     const char *const *names,
                                     const int32_t *types,
                                     size_t count,
                                     struct gpuvec_expr **expr);

/**
 * Reduces the elements of each key.
 *
 * `shape` points to the lengths of the `ndim` axes of the inputs, as for `gpuvec_expr_run_nd`, and `reduced_axes` has
 * a bit for each axis along which elements with the same key are combined, at least one. `groups` is the number of
 * keys, which are from 0 to `groups - 1`. Each output has the axes that are not reduced, and an axis of length
 * `groups` in the place of the first reduced one; its strides are along these axes. It overlaps no input and no other
 * output.
 *
 * With the flag `GPUVEC_IGNORE_OUTSIDE`, elements with other keys are left out. A group without elements has the result
 * of no elements: 0 for a sum, NaN for a mean.
 *
 * Returns `GPUVEC_OK`; `GPUVEC_ERROR_VALUE` if a key is outside the groups; `GPUVEC_ERROR_EMPTY` if there is a minimum,
 * a maximum or its index, and a group has no elements; or another error of `gpuvec_expr_run_nd`. After the first two
 * errors nothing is written.
 */
gpuvec_status gpuvec_expr_run_by(struct gpuvec_expr *expr,
                                 int32_t ndim,
                                 const int64_t *shape,
                                 const struct gpuvec_array *inputs,
                                 const struct gpuvec_array *outputs,
                                 uint64_t reduced_axes,
                                 size_t groups,
                                 int32_t flags,
                                 struct gpuvec_stream *stream);

/**
 * Evaluates an expression for each of `n` elements, or reduces them.
 *
 * `inputs` points to a pointer for each input, in the order of `gpuvec_expr_compile`: to an array of `n`
 * elements, in memory of any kind, or to the value of a scalar, in host memory at any address. Scalars are read
 * before the call returns. The pointer of an input that the text does not use is ignored. `out` is an array of
 * `n` elements of the type `gpuvec_expr_output_type(expr)`, or one element if the expression is a reduction. It
 * may be exactly one of the input arrays if the elements of both have the same size. A reduction that reads no
 * array reduces `n` equal elements: the calling core computes it in some microseconds, with every placement,
 * whatever `n` is. A call that computes a `var` or `std` returns when its work is done, even with a stream,
 * since the host computes the result from several sums.
 *
 * The GPU's driver compiles an expression when a device first runs it, in some 10 to 100 ms. With placement
 * `auto`, calls on host arrays run on the cores until the expression is compiled for a GPU: by
 * `gpuvec_expr_prepare`, by a call that needs a GPU, or once calls have lost as much time on the cores as the
 * driver is expected to take.
 *
 * Returns `GPUVEC_OK`; `GPUVEC_ERROR_VALUE` if the value of a `GPUVEC_I64 | GPUVEC_NUMBER`, or an integer that
 * is computed from such values alone, does not fit into 64 bits or into the type of the other operand, or if
 * the expression has several outputs; or another error.
 */
gpuvec_status gpuvec_expr_run(struct gpuvec_expr *expr,
                              const void *const *inputs,
                              void *out,
                              size_t n,
                              struct gpuvec_stream *stream);

/**
 * Evaluates an expression with several outputs in one pass. Otherwise as `gpuvec_expr_run`.
 *
 * `outputs` points to a pointer for each output, in the order of the formulas: to an array of `n` elements of
 * the type `gpuvec_expr_output_type_at(expr, index)`, or of one element if
 * `gpuvec_expr_is_reduction_at(expr, index)` returns 1. `num_outputs` is their number,
 * `gpuvec_expr_num_outputs(expr)`.
 *
 * All formulas read the inputs as they are before the call. Each output may be exactly one of the input arrays
 * with elements of the same size, even if another formula reads this array: `"y; x"` into `x` and `y` swaps
 * them. An output must not overlap an input in any other way, nor another output. The result of a reduction may
 * be the first element of an input. After an error any of the outputs may have been written in part.
 *
 * If `n` is 0, output arrays are not written, and reductions store their results for no elements; the call
 * fails if a reduction has none, such as `min`. A call with a stream waits for its work if one of its outputs
 * is a `var` or `std`, or if it has several outputs and the result of a reduction is to be stored in an input
 * array.
 *
 * Returns `GPUVEC_OK`; `GPUVEC_ERROR_VALUE` if `num_outputs` is not the number of outputs, and for the reasons
 * of `gpuvec_expr_run`; or another error.
 */
gpuvec_status gpuvec_expr_run_outputs(struct gpuvec_expr *expr,
                                      const void *const *inputs,
                                      void *const *outputs,
                                      size_t num_outputs,
                                      size_t n,
                                      struct gpuvec_stream *stream);

/**
 * Evaluates an expression on arrays of any strides. The arrays have one common shape. The call evaluates the
 * expression for each element, or reduces the elements along axes, or does both in one pass.
 *
 * `shape` points to the lengths of the `ndim` axes, at most 32; 0 axes stand for one element. `inputs` points
 * to an array for each input, in the order of `gpuvec_expr_compile`, and `outputs` to an array for each of the
 * `gpuvec_expr_num_outputs(expr)` outputs. The strides of an array are the distances in bytes between elements
 * along the axes. A stride of 0 repeats an input along that axis (broadcasting). NULL strides stand for C
 * order. Strides along axes of length 1 are ignored, and so are the strides of scalars, and the strides of
 * reductions' results along the reduced axes. Addresses and strides are multiples of the element size.
 *
 * `reduced_axes` has a bit for each axis along which reductions reduce, the lowest bit for the first axis; it
 * is 0 for an expression without reductions. For each index of the other axes, the result has the bits that
 * `gpuvec_expr_run` computes from the elements with this index, whatever the strides. `argmin` and `argmax`
 * count the elements in C order of the reduced axes. If a reduced axis has length 0, each result is the result
 * of no elements; `min`, `max`, `argmin` and `argmax` then return `GPUVEC_ERROR_EMPTY`, even if another axis
 * has length 0 as well.
 *
 * An output that is not a reduction has all axes, even if other outputs are reductions. All formulas read the
 * inputs as they are before the call.
 *
 * An output may be exactly one of the inputs, with the same address and strides, if the elements of both have
 * the same size; the result of a reduction of all elements may be stored in the first one. Otherwise an output
 * must not overlap an input, another output, or itself. Interleaved arrays, such as fields of the same records
 * or blocks of columns of the same matrix, do not overlap. Arrays with unusual strides may be refused although
 * they do not overlap, if proving it would take too long.
 *
 * If all arrays are contiguous, with the same order of axes, and either all axes are reduced or none is, the
 * call runs as `gpuvec_expr_run` does. Other calls run on the same processors, but never on cores and GPUs
 * together. A GPU uses the arrays that it can access in place; the elements of pageable arrays are gathered and
 * scattered on the way. If the stream's GPU can access all arrays, the call is queued there, as by
 * `gpuvec_expr_run`, unless a result has more than 2^30 elements, an output is a `var` or `std`, or there are
 * several outputs and a reduction's result is to be stored in an input. Otherwise the call waits for the
 * stream's work and returns when its own is done.
 *
 * Returns `GPUVEC_OK`; `GPUVEC_ERROR_OVERLAP`; `GPUVEC_ERROR_PLACEMENT` also if arrays that are not contiguous
 * are in the memory of different devices; `GPUVEC_ERROR_VALUE` also if more than 8 axes remain after adjacent
 * axes that are contiguous in all arrays have been merged; or another error of `gpuvec_expr_run`.
 */
gpuvec_status gpuvec_expr_run_nd(struct gpuvec_expr *expr,
                                 int32_t ndim,
                                 const int64_t *shape,
                                 const struct gpuvec_array *inputs,
                                 const struct gpuvec_array *outputs,
                                 uint64_t reduced_axes,
                                 struct gpuvec_stream *stream);

/**
 * Evaluates an expression on DLPack tensors. Otherwise as `gpuvec_expr_run_nd`.
 *
 * `inputs` points to the address of a `DLTensor` (see DLPack's dlpack.h) for each input, in the order of
 * `gpuvec_expr_compile`, and `outputs` to the address of one for each output. The library only reads these
 * structures, and does not keep them. The tensors are in host memory, pinned or managed memory, or on a CUDA
 * device. Their elements have the types that the expression declares, with one lane. A scalar is a tensor of
 * one element that the host can read. Inputs that the expression does not use may be NULL.
 *
 * The shapes of the input arrays are broadcast as in NumPy: to the shape of the outputs that are not
 * reductions, which must all have the same one, or, if all outputs are reductions, to their common shape.
 * `reduced_axes` has a bit for each axis of this shape. The output of a reduction has only the axes that are
 * not reduced, or all of them, with length 1 along the reduced ones.
 *
 * Returns what `gpuvec_expr_run_nd` returns; `GPUVEC_ERROR_VALUE` also for wrong types, devices or shapes.
 */
gpuvec_status gpuvec_expr_run_dlpack(struct gpuvec_expr *expr,
                                     const void *const *inputs,
                                     const void *const *outputs,
                                     uint64_t reduced_axes,
                                     struct gpuvec_stream *stream);

/**
 * Compiles an expression for a GPU in advance. Afterwards, calls on contiguous arrays run on this GPU without
 * waiting for the driver's compiler. Does nothing if the expression is already compiled for it. The driver
 * caches compiled expressions on disk, across processes.
 *
 * `device` counts from 0. Without a usable GPU, or with placement `cpu`, the function does nothing, and
 * `device` must be 0. Returns `GPUVEC_OK` or an error.
 */
gpuvec_status gpuvec_expr_prepare(struct gpuvec_expr *expr,
                                  int32_t device);

/**
 * Returns the number of outputs. This is the number of formulas in the text, 1 to 8. On failure returns a
 * `gpuvec_status`, which is greater than 8.
 */
int32_t gpuvec_expr_num_outputs(struct gpuvec_expr *expr);

/**
 * Returns the `gpuvec_type` of the output's elements. On failure returns a `gpuvec_status`:
 * `GPUVEC_ERROR_VALUE` if there are several outputs.
 */
int32_t gpuvec_expr_output_type(struct gpuvec_expr *expr);

/**
 * Returns 1 if the expression is a reduction, and 0 if not. The output of a reduction is one value. On failure
 * returns a `gpuvec_status`: `GPUVEC_ERROR_VALUE` if there are several outputs.
 */
int32_t gpuvec_expr_is_reduction(struct gpuvec_expr *expr);

/**
 * Returns the `gpuvec_type` of the elements of one output. `index` counts outputs from 0. On failure returns a
 * `gpuvec_status`.
 */
int32_t gpuvec_expr_output_type_at(struct gpuvec_expr *expr,
                                   size_t index);

/**
 * Returns 1 if one output is a reduction, and 0 if not. The output of a reduction is one value. `index` counts
 * outputs from 0. On failure returns a `gpuvec_status`.
 */
int32_t gpuvec_expr_is_reduction_at(struct gpuvec_expr *expr,
                                    size_t index);

/**
 * Stores an expression's program or its PTX as text. `form` is a `gpuvec_expr_form`: the PTX is the text for
 * the GPU's driver. `buffer` is in host memory.
 *
 * Writes at most `size` bytes, and always ends the text with a NUL; `buffer` may be NULL if `size` is 0. Unless
 * `needed` is NULL, stores the size of the whole text there, with its NUL. The texts are for people, and may
 * change with every version. Returns `GPUVEC_OK` or an error.
 */
gpuvec_status gpuvec_expr_text(struct gpuvec_expr *expr,
                               int32_t form,
                               char *buffer,
                               size_t size,
                               size_t *needed);

/**
 * Destroys an expression; NULL does nothing. Calls in progress and queued work still finish.
 *
 * Returns `GPUVEC_OK` or `GPUVEC_ERROR_HANDLE`.
 */
gpuvec_status gpuvec_expr_destroy(struct gpuvec_expr *expr);

/* == Memory ==
 *
 * Pinned and device memory, registration of host memory, and copies between all kinds of memory.
 *
 * Without a usable GPU, or with placement `cpu`, all of it is ordinary host memory, and everything works the
 * same. Functions that allocate return NULL on failure; `gpuvec_last_error()` says why.
 *
 * Functions that free or unregister memory return `GPUVEC_OK`, or `GPUVEC_ERROR_POINTER` if the matching
 * function did not return or register the address, or if it was already freed or unregistered. After
 * `GPUVEC_ERROR_DEVICE_LOST` the memory is lost with the device, or no longer registered. After any other
 * error it is still allocated or registered: call them again.
 *
 *     float host[3] = {1, 2, 3}, sum;
 *     float *x = gpuvec_device_alloc(sizeof host, 0);
 *     gpuvec_copy(x, host, sizeof host, NULL);
 *     gpuvec_scale_f32(2, x, x, 3, NULL); // in the device's memory
 *     if (gpuvec_sum_f32(x, &sum, 3, NULL) == GPUVEC_OK) {
 *         printf("%g\n", sum); // 12
 *     }
 *     gpuvec_device_free(x);
 */

/**
 * Allocates pinned (page-locked) host memory. A GPU reads and writes this memory directly: arrays in it need no
 * copy on the host, so calls on them are faster.
 *
 * `bytes` is rounded up to one or more pages of 4,096 bytes. The memory starts at a page boundary and is
 * uninitialised. A child made by `fork` must not use memory that its parent page-locked. Free the memory with
 * `gpuvec_pinned_free`.
 */
void *gpuvec_pinned_alloc(size_t bytes);

/**
 * Frees pinned memory; NULL does nothing.
 *
 * First synchronize every stream with queued work that uses the memory.
 */
gpuvec_status gpuvec_pinned_free(void *ptr);

/**
 * Allocates device memory. Operations use arrays in it in place, without a transfer over the bus.
 *
 * `device` counts from 0; `bytes` may be 0. The memory is aligned for every element type and is uninitialised:
 * fill it with `gpuvec_copy`. Without a usable GPU, or with placement `cpu`, `device` must be 0. Free the
 * memory with `gpuvec_device_free`.
 */
void *gpuvec_device_alloc(size_t bytes,
                          int32_t device);

/**
 * Frees device memory; NULL does nothing. It first waits until the device is done with the memory.
 *
 * The library caches up to 512 MiB of each device's freed memory for later allocations of the same sizes. It
 * uses this memory for its own work if the device runs short.
 */
gpuvec_status gpuvec_device_free(void *ptr);

/**
 * Returns the number of the GPU that holds device memory. Returns -1 if `ptr` is host memory, or was not
 * returned by `gpuvec_device_alloc`.
 */
int32_t gpuvec_device_of(const void *ptr);

/**
 * Page-locks existing host memory. A GPU then accesses the `bytes` bytes at `ptr` directly, like memory from
 * `gpuvec_pinned_alloc`. Page-locking takes some tenths of a millisecond per MiB, so it pays for arrays that
 * are used more than once.
 *
 * `ptr` may be any address, and NULL if `bytes` is 0, which locks nothing. Arrays may share pages, and an array
 * may be registered more than once: it stays page-locked until each registration has been undone. Other
 * data in an array's pages stays pageable memory. Without a usable GPU, or with placement `cpu`, the memory
 * does not change. Returns `GPUVEC_OK`, also for memory that another library page-locked, or an error.
 */
gpuvec_status gpuvec_host_register(void *ptr,
                                   size_t bytes);

/**
 * Undoes one `gpuvec_host_register` of the address `ptr`. Registrations of 0 bytes are undone in the same way.
 *
 * Call it after all queued work with the memory is done, and before the memory is freed. Pages that other
 * registrations share stay page-locked until those end.
 */
gpuvec_status gpuvec_host_unregister(void *ptr);

/**
 * Copies `bytes` bytes between any two kinds of memory, from `src` to `dst`. The library finds out the kinds
 * from the pointers, with every placement.
 *
 * `dst` may be exactly `src`; any other overlap is an error. `bytes == 0` does nothing. With a stream the copy
 * is queued if neither array is pageable memory. Otherwise, and with a NULL stream, it is done when the
 * function returns. Returns `GPUVEC_OK` or an error.
 */
gpuvec_status gpuvec_copy(void *dst,
                          const void *src,
                          size_t bytes,
                          struct gpuvec_stream *stream);

/**
 * Stores the sizes of the memory that the library holds on a device.
 *
 * With `GPUVEC_ALL_DEVICES` for `device`, stores the totals of all devices. `info` points to a
 * `gpuvec_memory_info` and `size` is `sizeof(gpuvec_memory_info)`: a program built with an older, shorter
 * structure keeps working, and one built with a newer, longer structure finds 0 in the new fields. Opens
 * neither the driver nor a device: all fields are 0 for a device that this process has not used. Page-locked
 * memory counts for the device with the context in which it was allocated. Returns `GPUVEC_OK`,
 * `GPUVEC_ERROR_NULL`, or `GPUVEC_ERROR_VALUE` for a device that the driver does not show.
 */
gpuvec_status gpuvec_memory(int32_t device,
                            struct gpuvec_memory_info *info,
                            size_t size);

/**
 * Returns unused memory to the driver.
 *
 * On all devices this frees the library's buffers that no call is using, cached memory that callers freed, and
 * the kernels of expressions that are neither in use nor held by a handle. Stores the number of freed bytes of
 * pinned and device memory in `bytes`, which may be NULL.
 *
 * Later calls allocate anew, so the first of them are slower. Waits for the driver, which may wait for work in
 * flight. Does not touch callers' memory, registrations, streams or the kernels of operations. Other threads
 * may make calls at the same time: memory that they use is kept. Memory that the driver refuses to free is
 * kept; the next `gpuvec_trim` tries again. Returns `GPUVEC_OK`, also without a GPU and in a forked child,
 * where there is nothing to return.
 */
gpuvec_status gpuvec_trim(uint64_t *bytes);

/* == Streams and events ==
 *
 * Streams do queued work in order, and events are points in that order. "All functions" says under "Streams"
 * how operations use them.
 *
 * Without a usable GPU, or with placement `cpu`, everything works the same. Functions that create a stream or
 * an event return NULL on failure; `gpuvec_last_error()` says why. The others return `GPUVEC_OK` or an error:
 * `GPUVEC_ERROR_HANDLE` for a handle that does not exist. Destroy functions do nothing with NULL, and succeed
 * also if the device is lost.
 *
 *     gpuvec_stream *stream = gpuvec_stream_create(0);
 *     float *x = gpuvec_pinned_alloc(3 * sizeof *x), *sum = gpuvec_pinned_alloc(sizeof *sum);
 *     if (x && sum) {
 *         x[0] = x[1] = x[2] = 1;
 *         gpuvec_scale_f32(4, x, x, 3, stream); // returns at once on a GPU
 *         gpuvec_sum_f32(x, sum, 3, stream);
 *         if (gpuvec_stream_synchronize(stream) == GPUVEC_OK) {
 *             printf("%g\n", *sum); // 12
 *         }
 *     }
 *     gpuvec_pinned_free(sum);
 *     gpuvec_pinned_free(x);
 *     gpuvec_stream_destroy(stream);
 */

/**
 * Creates a stream. A stream is a queue of work for a GPU, which is done in order while the caller goes on.
 *
 * `device` counts from 0. Without a usable GPU, or with placement `cpu`, `device` must be 0, and each call
 * does its work before it returns. Destroy the stream with `gpuvec_stream_destroy`.
 */
struct gpuvec_stream *gpuvec_stream_create(int32_t device);

/**
 * Creates a handle for an existing `CUstream` (`cudaStream_t`). gpuvec queues its work there, among the
 * program's own work.
 *
 * `native` is the stream. 0 and 1 are the legacy default stream of the calling thread's device. 2 is the
 * per-thread default stream: the handle stands for each calling thread's own stream and is still one queue, in
 * which work waits for everything queued through the handle before. The stream must belong to a device's
 * primary context, as streams of the CUDA runtime, CuPy and PyTorch do. Its owner must not destroy it before
 * the handle. While the stream is being captured into a CUDA graph, a reduction, or a call that would wait for
 * the stream, as on pageable arrays, fails with `GPUVEC_ERROR_VALUE`; so does a query of the stream, and of an
 * event that it recorded meanwhile. The capture goes on. Fails without a GPU. Destroy the handle with
 * `gpuvec_stream_destroy`.
 */
struct gpuvec_stream *gpuvec_stream_from_native(void *native);

/** Destroys a stream; NULL does nothing. Work queued on it is still done. */
gpuvec_status gpuvec_stream_destroy(struct gpuvec_stream *stream);

/**
 * Waits until all work of a stream is done; NULL does nothing.
 *
 * Returns `GPUVEC_OK` or the error of queued work.
 */
gpuvec_status gpuvec_stream_synchronize(struct gpuvec_stream *stream);

/**
 * Checks whether all work queued on a stream is done. The call does not wait.
 *
 * Returns `GPUVEC_OK` if it is, `GPUVEC_NOT_READY` if not, or the error of queued work.
 */
gpuvec_status gpuvec_stream_query(struct gpuvec_stream *stream);

/**
 * Makes later work of a stream wait for an event. All work that is queued on the stream from now on waits. The
 * event may belong to any stream or device. With a NULL stream the calling thread waits.
 *
 * An event that was never recorded delays nothing. If the work before the event fails, the next call with that
 * work's own stream returns the error.
 */
gpuvec_status gpuvec_stream_wait(struct gpuvec_stream *stream,
                                 struct gpuvec_event *event);

/**
 * Creates an event. The new event is not recorded yet.
 *
 * Destroy the event with `gpuvec_event_destroy`.
 */
struct gpuvec_event *gpuvec_event_create(void);

/**
 * Records an event on a stream. The event is done when the work that is queued on the stream at this time is
 * done; an earlier record is replaced. With a NULL stream the event is done at once.
 */
gpuvec_status gpuvec_event_record(struct gpuvec_event *event,
                                  struct gpuvec_stream *stream);

/**
 * Checks whether the work before an event is done. The call does not wait.
 *
 * Returns `GPUVEC_OK` if it is, or if the event was never recorded; `GPUVEC_NOT_READY` if not; or an error.
 */
gpuvec_status gpuvec_event_query(struct gpuvec_event *event);

/** Waits until the work before an event is done. */
gpuvec_status gpuvec_event_synchronize(struct gpuvec_event *event);

/**
 * Stores the milliseconds between two events in `ms`. For events that were recorded on streams of a device, its
 * clock measures the time; without a GPU, the host's clock does.
 *
 * Returns `GPUVEC_OK`; `GPUVEC_NOT_READY` if the work before either event is not done; `GPUVEC_ERROR_VALUE` if
 * either was never recorded or they belong to two devices; or another error.
 */
gpuvec_status gpuvec_event_elapsed(struct gpuvec_event *start,
                                   struct gpuvec_event *end,
                                   float *ms);

/** Destroys an event; NULL does nothing. Work that waits for the event keeps waiting. */
gpuvec_status gpuvec_event_destroy(struct gpuvec_event *event);

/* == Settings and library ==
 *
 * The placement and the threads of calls, the last run, devices and versions. "All functions" says under
 * "Placement" how calls are placed.
 *
 *     float a[3] = {1, 2, 3};
 *     gpuvec_run run;
 *     gpuvec_set_thread_placement(GPUVEC_PLACE_CPU);
 *     gpuvec_scale_f32(2, a, a, 3, NULL);
 *     if (gpuvec_last_run(&run, sizeof run) == GPUVEC_OK && run.backend == GPUVEC_BACKEND_CPU) {
 *         printf("%d thread\n", (int)run.threads); // 1 thread
 *     }
 */

/** The placement of a thread that follows the process's; see `gpuvec_set_thread_placement`. */
#define GPUVEC_PLACE_INHERIT -1

/** The calling core alone did the work. */
#define GPUVEC_PATH_CALLING_CORE 1

/** Several cores did the work. */
#define GPUVEC_PATH_CORES 2

/** An array was staged: copied through gpuvec's own pinned buffers. */
#define GPUVEC_PATH_STAGED 4

/** An array was transferred to or from device memory by DMA. */
#define GPUVEC_PATH_DMA 8

/** Kernels read or wrote an array in host memory across the bus, without a copy (mapped). */
#define GPUVEC_PATH_MAPPED 16

/** An array was in device memory and was used in place. */
#define GPUVEC_PATH_RESIDENT 32

/** The processors that work on a call. */
enum gpuvec_place
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** The cores, the GPUs, or both at the same time: whichever is predicted to finish first. */
    GPUVEC_PLACE_AUTO = 0,
    /** The GPU, or an error. */
    GPUVEC_PLACE_GPU = 1,
    /** As many cores as are predicted to finish first; operations do not open the driver. */
    GPUVEC_PLACE_CPU = 2,
    /**
     * All cores and all GPUs at the same time for long pinned arrays, otherwise as `GPUVEC_PLACE_CPU`; an
     * array in device memory as with `GPUVEC_PLACE_AUTO`.
     */
    GPUVEC_PLACE_ALL = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum gpuvec_place gpuvec_place;
#else
/** The type of the enumeration of this name, in C before C23. */
typedef int32_t gpuvec_place;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/** The kind of processor that did the work. */
enum gpuvec_backend
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** None: there was nothing to do, or the call failed. */
    GPUVEC_BACKEND_NONE = 0,
    /** The CPU. */
    GPUVEC_BACKEND_CPU = 1,
    /** One GPU or several. */
    GPUVEC_BACKEND_GPU = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum gpuvec_backend gpuvec_backend;
#else
/** The type of the enumeration of this name, in C before C23. */
typedef int32_t gpuvec_backend;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/** The choice of processors for a call. */
enum gpuvec_choice
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** None: there was nothing to do, the call failed, or a stream took it. */
    GPUVEC_CHOICE_NONE = 0,
    /** The calling core. */
    GPUVEC_CHOICE_CALLING_CORE = 1,
    /** A quarter of the cores. */
    GPUVEC_CHOICE_QUARTER_OF_CORES = 2,
    /** Half of the cores. */
    GPUVEC_CHOICE_HALF_OF_CORES = 3,
    /** All cores. */
    GPUVEC_CHOICE_CORES = 4,
    /** One GPU. */
    GPUVEC_CHOICE_GPU = 5,
    /** All GPUs. */
    GPUVEC_CHOICE_GPUS = 6,
    /** Cores and GPUs at the same time. */
    GPUVEC_CHOICE_CORES_AND_GPUS = 7,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum gpuvec_choice gpuvec_choice;
#else
/** The type of the enumeration of this name, in C before C23. */
typedef int32_t gpuvec_choice;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/** The reason for a choice. */
enum gpuvec_reason
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** None: nothing was chosen. */
    GPUVEC_REASON_NONE = 0,
    /** It was predicted to finish first. */
    GPUVEC_REASON_FASTEST = 1,
    /** It was tried, to learn how long it takes. */
    GPUVEC_REASON_EXPLORED = 2,
    /** A GPU might be faster, but opening the driver has not paid so far. */
    GPUVEC_REASON_NO_DRIVER_YET = 3,
    /** A GPU might be faster, but having its driver compile the kernel has not paid so far. */
    GPUVEC_REASON_COMPILING = 4,
    /** The placement, or the memory that the arrays are in, leaves no choice. */
    GPUVEC_REASON_ASKED_FOR = 5,
    /** A GPU failed, and cores did the work. */
    GPUVEC_REASON_FALLBACK = 6,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum gpuvec_reason gpuvec_reason;
#else
/** The type of the enumeration of this name, in C before C23. */
typedef int32_t gpuvec_reason;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * The last run: where and how the calling thread's last operation on arrays ran.
 *
 * Later versions may append fields; they never change or remove one.
 */
typedef struct gpuvec_run {
    /** A `gpuvec_backend`. */
    int32_t backend;
    /** The `GPUVEC_PATH_*` bits of all cores and transfers that took part. */
    uint32_t path;
    /** Bit d is set if device d took part. */
    uint64_t devices;
    /** The number of host threads that could take part, including the calling one. */
    uint64_t threads;
    /** The number of chunks that the work was split into. */
    uint64_t chunks;
    /** The number of bytes copied through gpuvec's own pinned buffers; 0 if nothing was staged. */
    uint64_t bytes_staged;
    /** A `gpuvec_choice`. */
    int32_t choice;
    /** A `gpuvec_reason`. */
    int32_t reason;
    /**
     * The nanoseconds that the call took; 0 if it was not measured: short calls are not, unless `GPUVEC_LOG` is set.
     */
    uint64_t time_ns;
    /**
     * The nanoseconds that each choice was predicted to take, by its `gpuvec_choice`; 0 where there was
     * no such choice, or no prediction.
     */
    uint64_t predicted_ns[8];
} gpuvec_run;

/**
 * Sets the placement of all later calls. The placement, a `gpuvec_place`, holds in every thread that has no
 * placement of its own.
 *
 * Overrides the environment variable `GPUVEC_PLACEMENT`. Returns `GPUVEC_OK`, or `GPUVEC_ERROR_VALUE` for any
 * other number.
 */
gpuvec_status gpuvec_set_placement(int32_t placement);

/**
 * Returns the placement in force for the calling thread. The result is a `gpuvec_place`. It is
 * `GPUVEC_ERROR_ENVIRONMENT` if `GPUVEC_PLACEMENT` has a wrong value, which `gpuvec_why_cpu()` then names, and
 * `GPUVEC_ERROR_REENTRANT` in a signal handler that interrupted a call.
 */
int32_t gpuvec_get_placement(void);

/**
 * Sets the placement of the calling thread's later calls. It takes precedence over the process's placement.
 * `placement` is a `gpuvec_place`, or `GPUVEC_PLACE_INHERIT` to follow the process's placement again.
 *
 * Other threads are not affected. A child made by `fork` starts with the placement of the thread that called
 * `fork`; a new thread has none of its own. Returns `GPUVEC_OK`, or `GPUVEC_ERROR_VALUE` for any other number.
 */
gpuvec_status gpuvec_set_thread_placement(int32_t placement);

/**
 * Returns the calling thread's own placement. The result is a `gpuvec_place`, or `GPUVEC_PLACE_INHERIT` if the
 * thread has none.
 */
int32_t gpuvec_get_thread_placement(void);

/**
 * Sets the greatest number of threads that work on one call. The calling thread counts. The number holds for
 * all later calls in every thread; 0 restores the environment's number. A call uses the number of threads that
 * is predicted to finish first.
 *
 * Overrides the environment variables `GPUVEC_NUM_THREADS` and `OMP_NUM_THREADS`. With 1 the calling thread
 * works alone; threads that were started before stay asleep. A number above 256 counts as 256. Returns
 * `GPUVEC_OK`, or `GPUVEC_ERROR_VALUE` for a number below 0.
 */
gpuvec_status gpuvec_set_num_threads(int32_t threads);

/**
 * Returns the greatest number of threads that work on one call. The result is from 1 to 256. It is 0 if
 * `GPUVEC_NUM_THREADS` has a wrong value, which the error of every other call names, and in a signal handler
 * that interrupted a call.
 */
int32_t gpuvec_get_num_threads(void);

/**
 * Sets the device that computes calls on host arrays.
 *
 * The setting holds for all later calls of every thread, and overrides the environment variable
 * `GPUVEC_DEVICE`. With `GPUVEC_ALL_DEVICES` each call uses the first device, or several devices if they are
 * predicted to finish sooner. Calls on device memory run on the device that holds it, and functions that take a
 * device or a stream use that one. Does not open the driver. If the driver shows no device of that number, host
 * arrays are computed without a GPU, for the reason that `gpuvec_why_cpu()` returns. Returns `GPUVEC_OK`, or
 * `GPUVEC_ERROR_VALUE` for a number below -1 and for one that an open driver does not show.
 */
gpuvec_status gpuvec_set_device(int32_t device);

/**
 * Returns the device that computes calls on host arrays. The result may be `GPUVEC_ALL_DEVICES`.
 *
 * It is `GPUVEC_ALL_DEVICES` also if `GPUVEC_DEVICE` has a wrong value, which the error of every other call
 * names.
 */
int32_t gpuvec_get_device(void);

/**
 * Returns the reason why no GPU is usable. Possible reasons are no driver, a driver that is too old, no device,
 * a device that refuses to work, placement `cpu`, and a forked child.
 *
 * Opens the driver and a device to find out, as `gpuvec_init` does, except with placement `cpu`. The string
 * belongs to this thread and is valid until the thread calls this function again; it is empty if a GPU is
 * usable.
 */
const char *gpuvec_why_cpu(void);

/**
 * Stores where, how and why this thread's last operation on arrays ran.
 *
 * `run` points to a `gpuvec_run` and `size` is `sizeof(gpuvec_run)`: a program built with an older, shorter
 * structure keeps working, and one built with a newer, longer structure finds 0 in the new fields. All fields
 * are 0 after an operation that failed or had nothing to do. Returns `GPUVEC_OK` or `GPUVEC_ERROR_NULL`.
 */
gpuvec_status gpuvec_last_run(struct gpuvec_run *run,
                              size_t size);

/**
 * Starts the worker threads, and opens the driver and a GPU. Otherwise later calls do this. The GPU is the
 * first one; with placement `cpu` the call opens neither. A driver or GPU that failed before is tried again.
 *
 * No program has to call it: it only lets you choose when to spend those tenths of a second. With placement
 * `auto`, calls on host arrays may use a GPU from then on; otherwise they open it once that pays. An
 * operation's kernel is still loaded when a device first runs it, which takes some milliseconds, and for which
 * the driver may wait for work in flight. Returns `GPUVEC_OK`, also without a GPU; with placement `gpu`, the
 * error that a call would return.
 */
gpuvec_status gpuvec_init(void);

/**
 * Returns the number of GPUs that the driver shows. The number is 0 without a driver and in a forked child.
 * Opens the driver to find out, with every placement.
 */
int32_t gpuvec_device_count(void);

/**
 * Returns the name of a GPU. Returns NULL if no device has that number; `gpuvec_last_error()` then says why.
 * The name is a constant string.
 *
 * `device` counts from 0. Opens the driver, with every placement.
 */
const char *gpuvec_device_name(int32_t device);

/** Returns the library's version. The version is a constant string, "major.minor.patch". */
const char *gpuvec_version(void);

/**
 * Returns the version of the library's binary interface. A program runs with this library if its
 * header has the same `GPUVEC_ABI_VERSION` and is not of a newer version than `gpuvec_version()`.
 *
 * Within a version of the interface, functions, statuses and fields are only added. A program that was built with
 * an older header therefore runs unchanged; one that was built with a newer header runs as far as it calls no
 * function that the library lacks.
 */
int32_t gpuvec_abi_version(void);

/* == Errors ==
 *
 * The text of a failure, and the meaning of a status.
 *
 * The text and the last status belong to the thread that made the call: read them in that thread, before its
 * next call. A runtime that moves work from thread to thread must not do so in between. In Go, keep the
 * goroutine on its thread with `runtime.LockOSThread`. In Node, call synchronously: koffi runs an asynchronous
 * call on a thread of its pool.
 *
 *     float sum;
 *     if (gpuvec_sum_f32(NULL, &sum, 3, NULL) != GPUVEC_OK) {
 *         puts(gpuvec_last_error()); // a is NULL, but its length is 3: pass an array of that length
 *     }
 */

/**
 * Describes the failure of this thread's last call. The text names the argument, its value and what to do, or
 * the driver function that failed and the driver's name for its error.
 *
 * The text is empty after a call that succeeded. Functions that only return information (`gpuvec_version`,
 * `gpuvec_status_string`, `gpuvec_why_cpu` and the like) leave it unchanged, and so does `gpuvec_last_run`
 * unless it fails. The string belongs to this thread, is valid until the thread's next call, and is never
 * NULL.
 */
const char *gpuvec_last_error(void);

/**
 * Returns the status of this thread's last call. It is `GPUVEC_OK`, or the status of the failure that
 * `gpuvec_last_error()` describes.
 *
 * Call it to learn why a function returned NULL.
 */
gpuvec_status gpuvec_last_status(void);

/**
 * Describes a status: its name, and its meaning in a few words.
 *
 * Returns a constant string. For a number that is not a status, the string says so.
 */
const char *gpuvec_status_string(int32_t status);

#ifdef __cplusplus
}  // extern "C"
#endif

/* == All functions ==
 *
 * These rules apply to all functions, in addition to those of their sections and comments.
 *
 * == Building and loading ==
 *
 * Link only with the library: cc program.c -lgpuvec. The library needs glibc and, unless you use a
 * release, libgcc_s (GCC's runtime library). It needs no CUDA toolkit, neither to build nor to run. It
 * opens NVIDIA's driver (525 or newer) when a call asks for a GPU, or when a GPU is likely to save time
 * (see "Placement"); without the driver it works on the CPU. Loading the library starts no thread and
 * calls no driver function.
 *
 * == Arrays ==
 *
 * An array may be in any kind of memory: pageable (ordinary) host memory, pinned (page-locked) host
 * memory, managed memory, or device memory (a GPU's). One call may mix memory kinds. An array may have
 * any length: it need not fit into the GPU's memory. Arrays and results of reductions must be aligned
 * to their element size. Everything else that an argument points to may be at any address, as in a
 * packed structure: a scalar, a handle, a size, a gpuvec_run, the names, types and pointers of an
 * expression's inputs.
 *
 * Inputs are never written. The output may be exactly one of the inputs (in place); any other
 * overlap of the output with an input is GPUVEC_ERROR_OVERLAP.
 *
 * With n == 0 a function succeeds and accesses no input. Arrays may then be NULL; a NULL address for a
 * reduction's result is still GPUVEC_ERROR_NULL. Only min, max, argmin and argmax, which have no result
 * without elements, return GPUVEC_ERROR_EMPTY.
 *
 * An operation on device memory runs on the GPU that holds the output or, if the output is in host
 * memory, the first input in device memory. It uses that GPU's arrays in place; arrays of other
 * GPUs are copied to it chunk by chunk. Placement cpu excludes device memory (see "Placement"
 * below).
 *
 * An array that reaches beyond memory of gpuvec_pinned_alloc or gpuvec_device_alloc, or beyond another
 * library's device memory, is GPUVEC_ERROR_OUT_OF_BOUNDS. The library cannot detect a wrong length of
 * any other host array. Neither can it detect that an array is changed or freed while a call, or the
 * work that it queued, still uses it. The caller must prevent both.
 *
 * == Results ==
 *
 * The same input has the same result, bit for bit: it does not depend on the placement, the number of
 * threads or GPUs, or the memory kind. Floating-point arithmetic is IEEE 754, rounded to nearest, with
 * subnormals, whatever floating-point modes the calling thread has set; the call leaves those modes
 * unchanged. Every NaN result is the same quiet NaN: 0x7FC00000 for float, 0x7FF8000000000000 for
 * double. Integer arithmetic wraps around (two's complement).
 *
 * dot and sum of floats round the exact mathematical result once, to nearest, ties to even. The order
 * of summation does not matter, no partial sum overflows, and nothing is lost to cancellation. A NaN
 * element, 0 * Inf, and infinities of both signs give NaN; infinities of one sign give that infinity;
 * an exact zero is +0.
 *
 * == Streams ==
 *
 * With a NULL stream a function returns when its work is done. It does not wait for gpuvec streams.
 *
 * With a stream, a function queues its work behind the stream's earlier work and returns at once if the
 * stream's GPU can access every array: device memory of that GPU, pinned memory, managed memory. These
 * arrays must then stay allocated, and no thread may change them, until the stream is done with them.
 * The work runs on the stream's GPU, whatever its length. If it fails, the next call with that stream
 * returns the error.
 *
 * If an array is in pageable memory or in another GPU's memory, the function waits for the stream's
 * earlier work and returns when its own work is done. Its arrays may be freed after the call.
 *
 * Without a usable GPU all work is done before the function returns, so a program with streams runs
 * unchanged; only gpuvec_stream_from_native, which takes a stream of a GPU, then returns NULL. With
 * placement cpu an operation waits for its stream and then computes on the cores; a copy is queued.
 *
 * Streams, events, accumulators and expressions are handles. The library looks a handle up and never
 * dereferences it, so a handle that was destroyed or never created is GPUVEC_ERROR_HANDLE.
 *
 * == Placement ==
 *
 *     GPUVEC_PLACE_AUTO  the default: on the calling core, on several cores, on one or all GPUs, or
 *                        on cores and GPUs at the same time, whichever is predicted to finish first
 *     GPUVEC_PLACE_GPU   on the GPU, or an error; only additions of few elements to each sum of an
 *                        accumulator run on cores (see gpuvec_accumulator_add_nd)
 *     GPUVEC_PLACE_CPU   on as many cores as are predicted to finish first
 *     GPUVEC_PLACE_ALL   on all cores and all GPUs at the same time for long pinned arrays, each
 *                        taking its next chunk when it is done with one; otherwise as with
 *                        placement cpu
 *
 * The library learns its predictions from the times of the process's own calls, and now and then tries
 * another choice. Where a call runs may therefore differ from call to call; its results do not.
 *
 * Opening the driver takes some tenths of a second. With placement auto, operations run on the cores
 * until they have lost that much time for lack of a GPU; then they open the driver. gpuvec_init and
 * every function that asks for GPUs, their memory or their streams open it at once. If another library
 * has initialised the driver, they use it without that wait.
 *
 * Even with placement all, an operation on device memory runs on one GPU (see "Arrays"), and queued
 * work runs on the stream's GPU. With placement cpu an operation on device memory is
 * GPUVEC_ERROR_PLACEMENT.
 *
 * gpuvec_set_placement sets the placement, and so does the environment variable GPUVEC_PLACEMENT (auto,
 * gpu, cpu or all). gpuvec_set_thread_placement sets it only for the calling thread.
 *
 * gpuvec_set_num_threads limits the number of CPU threads that work on a call, the calling one
 * included: threads that compute, copy into pinned buffers, or drive GPUs. One thread can drive several
 * GPUs. Without that setting, the environment variable GPUVEC_NUM_THREADS (a whole number) is the
 * limit, or else the first entry of OMP_NUM_THREADS (a list, as OpenMP 5.2 defines it; ignored if it is
 * anything else). The default is one thread for each CPU that the process's main thread may use, or for
 * each whole CPU of its control group's quota if that is less. The library never uses more than 256
 * threads. Idle threads do not count; as long as the limit is 1, none is started.
 *
 * gpuvec_set_device, or else GPUVEC_DEVICE (a number), chooses the GPU that works on host arrays. By
 * default the first GPU does, together with others where that is predicted to be faster.
 *
 * GPUVEC_VECTORS (portable, avx2 or avx512) names the newest vector instructions that sums and
 * expressions on the CPU may use. The default is the newest that the processor has; results are the
 * same.
 *
 * GPUVEC_LOG=run writes a line to stderr when a call on arrays ends: what it was, where it ran, how
 * long it took and why it ran there. GPUVEC_LOG=all also writes lines for compilations, failures of
 * GPUs and similar events; run:FILE and all:FILE append to a file.
 *
 * The variables are read once; an empty one counts as unset. If a GPUVEC_ variable has an invalid
 * value, every function that returns a status, a handle or memory fails with GPUVEC_ERROR_ENVIRONMENT.
 * The exceptions are gpuvec_set_placement, gpuvec_set_num_threads and gpuvec_set_device, which override
 * GPUVEC_PLACEMENT, GPUVEC_NUM_THREADS and GPUVEC_DEVICE, and gpuvec_set_thread_placement.
 *
 * gpuvec_why_cpu says why no GPU is usable, and gpuvec_last_run where the last operation ran, and why.
 *
 * With placement cpu, operations do not open the driver. If another library in the process has
 * initialised it, they ask it for the memory kind of each pointer.
 *
 * == Errors ==
 *
 * Functions return GPUVEC_OK (0) or another gpuvec_status; gpuvec_last_error describes the failure of
 * the calling thread's last call: call it in the thread that made the failing call. Arguments are
 * checked before any work: after such an error nothing was written. After GPUVEC_ERROR_OUT_OF_MEMORY,
 * GPUVEC_ERROR_DRIVER or GPUVEC_ERROR_DEVICE_LOST in the middle of the work, the contents of the output
 * are unspecified.
 *
 * With placement auto or all, a call on host arrays succeeds even if a GPU fails, as long as the inputs
 * are intact: the cores do the work. A call with device memory fails, since the cores cannot access it,
 * and so does a call with a stream, since results of the stream's earlier work may be missing. The
 * memory and the streams of a lost device are lost with it; free and destroy them as usual.
 *
 * The library prints nothing unless GPUVEC_LOG is set, and no error ends the process. Two failures are
 * beyond its control. The C library ends the process if a thread's first call finds no memory for 2 KiB
 * of thread-local storage, and Rust's runtime ends it if a small allocation inside gpuvec fails.
 *
 * == Threads ==
 *
 * Any thread may call any function at any time. Calls of several threads with one stream are queued
 * in an unspecified order. A call sees the results of all work that was queued before it on CUDA's
 * legacy default stream, of the calling thread's device and of each device that the call uses,
 * wherever the call runs. The calling thread's current CUDA context is the same after the call. The
 * library works in each device's primary context and never resets a device.
 *
 * Worker threads of the library help with longer arrays. After such a call they poll for the next
 * one for 0.1 ms, yielding to any other thread, and then sleep. They start with the CPU affinity,
 * the nice value and the scheduling policy of the process's main thread (the default policy instead
 * of a real-time one). No call waits for a thread that has not started yet, so constructors that
 * run inside dlopen may call the library. Worker threads never end: if the main thread ends by
 * pthread_exit, another thread has to call exit.
 *
 * == Signals ==
 *
 * A signal handler may call only gpuvec_last_error, gpuvec_last_status, gpuvec_status_string,
 * gpuvec_version and gpuvec_abi_version. Any other function does nothing in a handler that
 * interrupted a gpuvec call of its thread, and fails with GPUVEC_ERROR_REENTRANT (NULL or 0 if it
 * returns no status); in a handler that interrupted other code it may deadlock, as malloc may. A
 * handler that interrupted a gpuvec call may fork only to call exec or _exit in the child.
 *
 * Worker threads block every signal except SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP and SIGSYS.
 * Handlers of these signals also run on worker threads, so a handler that provides pages on demand
 * works on the CPU. Once the process has opened the driver, however, an array longer than 256 KiB whose
 * first or last byte cannot be read at the start of the call is GPUVEC_ERROR_POINTER: no handler runs
 * during that check.
 *
 * == Fork ==
 *
 * A child process never touches the driver that its parent used. It computes on the CPU. The child's
 * calls with placement gpu, or with its parent's device memory or streams, fail with
 * GPUVEC_ERROR_FORKED.
 *
 * == Ownership ==
 *
 * Arrays belong to the caller; the library is done with them when the call returns, or when the
 * stream has done the work that the call queued. Strings that functions return belong to the
 * library. Nothing is torn down at exit, and the library is never unloaded.
 *
 * == Other languages ==
 *
 * Every constant in this header is a plain integer and every enumeration is an int32_t, so functions
 * return int32_t to a language that cannot read C. Arguments that stand for an enumeration may be any
 * int32_t. Rust's bindgen reads the header as C++ (-x c++). gpuvec_version and gpuvec_abi_version
 * return the values of the version macros.
 */

#endif  /* GPUVEC_H */
