//! Threads without the thread-local destructors of std's threads, which would wait for the dynamic
//! loader while a program inside `dlopen` waits for the threads' work.

use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Starts a detached thread that runs `body`; returns whether the system had one left.
pub(crate) fn start<F: FnOnce() + Send + 'static>(body: F) -> bool {
    extern "C" fn main<F: FnOnce()>(body: *mut c_void) -> *mut c_void {
        // SAFETY: `start` leaked the box for this thread alone.
        let body = *unsafe { Box::from_raw(body.cast::<F>()) };
        // A new thread has the name of the one that starts it, which may be the library's.
        // SAFETY: the kernel copies a C string of at most 16 bytes.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"fake driver".as_ptr()) };
        body();
        std::ptr::null_mut()
    }
    let body = Box::into_raw(Box::new(body));
    let mut thread = MaybeUninit::uninit();
    // SAFETY: the C library writes the thread's handle into a local, which is detached once.
    let code = unsafe {
        let code =
            libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), main::<F>, body.cast());
        if code == 0 {
            libc::pthread_detach(thread.assume_init());
        }
        code
    };
    if code != 0 {
        // SAFETY: no thread was made, so that the box is still this function's.
        drop(unsafe { Box::from_raw(body) });
    }
    code == 0
}
