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
 * The sections below hold for all functions. The comment of each function says the rest.
 *
 * == Building and loading ==
 *
 * Link with the library alone: cc program.c -lgpuvec. The library needs glibc and, unless it is
 * a release's, libgcc_s (GCC's runtime library); no CUDA toolkit, neither to build nor to run. It
 * opens NVIDIA's driver (525 or newer) when a GPU is asked for or is worth it (see "Placement");
 * without the driver it loads and works on the CPU. Loading the library starts no thread and calls
 * no driver function.
 *
 * == Operations ==
 *
 * gpuvec_<operation>_<type>(inputs..., out, n, stream):
 *
 *     add, sub, mul   out[i] = a[i] + b[i], a[i] - b[i], a[i] * b[i]   f32 f64 i32 i64
 *     div             out[i] = a[i] / b[i]                             f32 f64
 *     scale           out[i] = alpha * a[i]                            f32 f64
 *     axpy            out[i] = alpha * a[i] + b[i]                     f32 f64
 *     dot             out[0] = a[0]*b[0] + ... + a[n-1]*b[n-1]         f32 f64 i32 i64
 *     sum             out[0] = a[0] + ... + a[n-1]                     f32 f64 i32 i64
 *     min, max        out[0] = the smallest, the largest a[i]          f32 f64 i32 i64
 *
 * f32 is float, f64 is double, i32 is int32_t and i64 is int64_t. dot and sum of floats are exact:
 * the sum of all terms without any rounding, rounded once (see "Results"). Accumulators compute
 * them piece by piece (see "Accumulators"). dot and sum of integers store an int64_t. min and max
 * of floats are IEEE 754-2019's minimum and maximum: NaN if any element is NaN, and -0 below +0.
 *
 * vector_add, add_arrays and dot_product are gpuvec_add_f32, gpuvec_add_i32 and gpuvec_dot_f32 with
 * a NULL stream. pinned_alloc and pinned_free are gpuvec_pinned_alloc and gpuvec_pinned_free. A
 * program with its own functions of these five names defines GPUVEC_NO_SHORT_NAMES before it
 * includes this header.
 *
 * == Expressions ==
 *
 * An expression is a formula as text, which runs in one pass over the arrays:
 *
 *     const char *names[] = {"a", "b"};
 *     const int32_t types[] = {GPUVEC_F32, GPUVEC_F32};
 *     const void *inputs[] = {a, b};
 *     gpuvec_expr *expr;
 *     if (gpuvec_expr_compile("sqrt(a*a + b*b)", names, types, 2, &expr) == GPUVEC_OK) {
 *         gpuvec_expr_run(expr, inputs, out, n, NULL);
 *         gpuvec_expr_destroy(expr);
 *     }
 *
 * Up to 8 formulas with ';' between them have an output each, and run in one pass by gpuvec_expr_run_outputs.
 * Expressions never change, and any number of threads may run one at the same time. All that this
 * header says of operations holds for gpuvec_expr_run, too. docs/expressions.md has the language.
 *
 * == Arrays ==
 *
 * An array may be in any kind of memory: pageable (ordinary) host memory, pinned (page-locked) host
 * memory, managed memory, or device memory (a GPU's). One call may mix memory kinds. An array may
 * have any length: it need not fit into the GPU's memory. Its address, and that of a reduction's
 * result, may be any multiple of its element size. Everything else that an argument points to may be
 * at any address, as in a packed structure: a scalar, a handle, a size, a gpuvec_run, the names, types
 * and pointers of an expression's inputs.
 *
 * Inputs are never written. The output may be exactly one of the inputs (in place); any other
 * overlap of the output with an input is GPUVEC_ERROR_OVERLAP.
 *
 * With n == 0 a function succeeds and accesses no input; only min, max, argmin and argmax, which then
 * have no result, return GPUVEC_ERROR_EMPTY.
 *
 * An operation on device memory runs on the GPU that holds the output or, if the output is in host
 * memory, the first input in device memory. It uses that GPU's arrays in place; arrays of other
 * GPUs are copied to it chunk by chunk. Placement cpu excludes device memory (see "Placement"
 * below).
 *
 * The library cannot detect a wrong length of a host array, or an array that is changed or freed
 * before the call, or the stream that the call was queued on, is done with it. Avoiding both is up
 * to the caller.
 *
 * == Results ==
 *
 * The same input gives the same bits: results do not depend on the placement, the number of threads
 * or GPUs, or the memory kind. Floating-point arithmetic is IEEE 754, rounded to nearest, with
 * subnormals, whatever floating-point modes the calling thread has set; those modes are the same
 * after the call. Every NaN result is the same quiet NaN: 0x7FC00000 for float, 0x7FF8000000000000
 * for double. Integer arithmetic wraps around (two's complement).
 *
 * dot and sum of floats round the exact mathematical result once, to nearest, ties to even. No
 * order of summation shows, no partial sum overflows, and nothing is lost to cancellation. A NaN
 * element, 0 * Inf, and infinities of both signs give NaN; infinities of one sign give that
 * infinity; an exact zero is +0. This holds for all inputs.
 *
 * == Accumulators ==
 *
 * An accumulator is an exact sum, or dot product, that goes on from call to call:
 *
 *     gpuvec_accumulator *sum = gpuvec_accumulator_create(GPUVEC_ACCUMULATOR_SUM_F64);
 *     while (there_is(&piece)) {
 *         gpuvec_accumulator_add(sum, piece.values, NULL, piece.length, NULL);
 *     }
 *     gpuvec_accumulator_value(sum, &value);
 *
 * Its value has the bits of one call on all elements, whatever the pieces and their order.
 * Accumulators of threads, processes and machines merge, without a rounding in between: by
 * gpuvec_accumulator_merge, or serialized, by adding the states' integers, as MPI_SUM does it.
 *
 * gpuvec_accumulator_create_nd makes an accumulator of a shape, which has such a sum for each of its
 * elements: gpuvec_accumulator_add_nd adds arrays of any strides to them, along axes.
 *
 * Several threads may use one accumulator at the same time: each call adds all of its elements at
 * once, or none. A child made by fork goes on with its own copy.
 *
 * == Streams ==
 *
 * With a NULL stream a function returns when its work is done. It waits for no gpuvec stream.
 *
 * With a stream, a function queues its work behind the stream's earlier work and returns at once if
 * the stream's GPU can access every array: device memory of that GPU, pinned memory, managed
 * memory. These arrays must then stay allocated, and no thread may change them, until the stream is
 * done with them. The next call with that stream returns the error of queued work that failed.
 *
 * Queued work runs on the stream's GPU, whatever its length.
 *
 * If an array is in pageable memory or in another GPU's memory, the function waits for the stream's
 * earlier work and returns when its own work is done. No array then has to outlive the call.
 *
 * Without a usable GPU all work is done before the function returns, so a program with streams runs
 * unchanged; only gpuvec_stream_from_native, which takes a stream of a GPU, then returns NULL. With
 * placement cpu an operation waits for its stream and then computes on the cores; a copy is queued.
 *
 * Streams, events, accumulators and expressions are handles that the library never dereferences: one that was
 * destroyed or never created is GPUVEC_ERROR_HANDLE.
 *
 * == Placement ==
 *
 *     GPUVEC_PLACE_AUTO  the default: on the calling core, on several cores, on one or all GPUs, or
 *                        on cores and GPUs at the same time, whichever is predicted to be done first
 *     GPUVEC_PLACE_GPU   on the GPU, or an error; additions of few elements to each sum of an
 *                        accumulator, if there is a usable GPU, on cores (see
 *                        gpuvec_accumulator_add_nd)
 *     GPUVEC_PLACE_CPU   on as many cores as are predicted to be done first
 *     GPUVEC_PLACE_ALL   on all cores and all GPUs at the same time for long pinned arrays, each
 *                        taking its next chunk when it is done with one; otherwise as with
 *                        placement cpu
 *
 * Predictions follow the times of the process's own calls. To learn, a call now and then runs on
 * another choice. Where a call runs may therefore differ from call to call; its results do not.
 *
 * With placement auto, operations open the driver once calls have lost as much time without a GPU
 * as opening it takes, some tenths of a second. Until then they run on the cores. gpuvec_init and
 * every function that asks for GPUs, their memory or their streams opens it at once, and a driver
 * that another library has initialised is used. docs/placement.md has the details.
 *
 * With placement all, too, an operation on device memory runs on one GPU alone (see "Arrays"), and
 * one that is queued on a stream runs on the stream's GPU alone. With placement cpu an operation on
 * device memory is GPUVEC_ERROR_PLACEMENT.
 *
 * gpuvec_set_placement sets the placement, and so does the environment variable GPUVEC_PLACEMENT
 * (auto, gpu, cpu or all). gpuvec_set_thread_placement sets that of the calling thread alone.
 *
 * gpuvec_set_num_threads limits the number of CPU threads that work on a call, the calling one
 * included: threads that compute, copy into pinned buffers, or drive GPUs. One thread can drive several
 * GPUs. Otherwise the environment variable GPUVEC_NUM_THREADS (a whole number) does, or else the first
 * entry of OMP_NUM_THREADS (a list, as OpenMP 5.2 defines it; ignored if it is anything else), and the
 * default is one thread for each CPU of the process's main thread, or for each whole CPU of its control
 * group's quota if that is less. The library never uses more than 256. Idle threads are not counted; as long as the limit is 1, none is started.
 *
 * gpuvec_set_device, or else GPUVEC_DEVICE (a number), chooses the GPU that works on host arrays; the
 * default is the first one, and as many more as pay.
 *
 * GPUVEC_VECTORS (portable, avx2 or avx512) names the newest vector instructions that sums and
 * expressions on the CPU may use; the default is what the processor has, and results are the same.
 *
 * GPUVEC_LOG=run writes a line to stderr when a call on arrays ends: what it was, where it ran, how long
 * it took and why it ran there. GPUVEC_LOG=all also writes lines for compilations, failures of GPUs and
 * their like; run:FILE and all:FILE append to a file.
 *
 * The variables are read once; an empty one counts as unset. If one of the library's own has any other
 * value, every function that returns a status, a handle or memory fails with GPUVEC_ERROR_ENVIRONMENT,
 * except gpuvec_set_placement, gpuvec_set_num_threads and gpuvec_set_device, which override
 * GPUVEC_PLACEMENT, GPUVEC_NUM_THREADS and GPUVEC_DEVICE, and gpuvec_set_thread_placement.
 *
 * gpuvec_why_cpu tells why no GPU is usable, and gpuvec_last_run where the last operation ran and why.
 *
 * With placement cpu, operations do not open the driver. If another library in the process has
 * initialised it, they ask it for the memory kind of each pointer.
 *
 * == Errors ==
 *
 * Functions return GPUVEC_OK (0) or another gpuvec_status; gpuvec_last_error describes the failure
 * of the calling thread's last call. Arguments are checked before any work: after such an error
 * nothing was written. After GPUVEC_ERROR_OUT_OF_MEMORY, GPUVEC_ERROR_DRIVER or
 * GPUVEC_ERROR_DEVICE_LOST in the middle of the work, the contents of the output are unspecified.
 *
 * With placement auto or all, a failing GPU is not an error of a call on host arrays as long as the
 * inputs are intact: the cores do the work. It is an error of a call with device memory, which the
 * cores cannot access, and of a call with a stream, since results of the stream's earlier work may
 * be missing. The memory and the streams of a lost device are lost with it; freeing and destroying
 * them remains correct.
 *
 * The library prints nothing, except for GPUVEC_LOG, and no error ends the process. Two failures are
 * beyond its control:
 * the C library ends a process in which a thread's first call finds no memory for 2 KiB of
 * thread-local storage, and Rust's runtime ends one in which a small allocation of gpuvec's fails.
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
 * Handlers of these run on worker threads as they do on the caller, so a handler that provides
 * pages on demand works on the CPU. Once the process has opened the driver, however, an array
 * longer than 256 KiB whose first or last byte cannot be read at the start of the call is
 * GPUVEC_ERROR_POINTER: no handler runs during that check.
 *
 * == Fork ==
 *
 * A child process never touches the driver that its parent used. It computes on the CPU. With
 * placement gpu, an array in device memory or a stream of its parent it gets GPUVEC_ERROR_FORKED.
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
 * return int32_t to a language that reads no C. Arguments that stand for an enumeration may be any
 * int32_t. Rust's bindgen reads the header as C++ (-x c++). gpuvec_version and gpuvec_abi_version
 * return what the version macros say.
 *
 * This file is generated from src/abi by `cargo build`; do not edit it.
 */
