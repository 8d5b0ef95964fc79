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
