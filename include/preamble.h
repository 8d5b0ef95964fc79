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
