//! The only way from an exported function into the library and back.
//!
//! The guard saves the caller's floating-point modes and restores them after the call. It turns an error into a status and
//! the text of this thread's `gpuvec_last_error`. It catches a panic, which also becomes a status: nothing is printed, and
//! the panic's message becomes part of that text.

use crate::error::{Error, gpuvec_status, interned};
use crate::pool;
use crate::process::float_modes::with_ieee;
use crate::process::{fork, memory, settings, thread};
use crate::run::{last_run, log};
use std::cell::Cell;
use std::ffi::c_char;
use std::fmt::Write;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};

/// A type that exported functions return. It has a value for each error.
pub(super) trait Returned {
    fn after(error: &Error) -> Self;
}

/// Returns the error's status.
impl Returned for i32 {
    fn after(error: &Error) -> Self {
        error.status() as i32
    }
}

/// Returns NULL.
impl<T> Returned for *mut T {
    fn after(_: &Error) -> Self {
        std::ptr::null_mut()
    }
}

/// Returns NULL.
impl<T> Returned for *const T {
    fn after(_: &Error) -> Self {
        std::ptr::null()
    }
}

/// The work of a call, as a pointer to a closure, so that the guard is compiled once, not for each exported function. Such
/// a closure must be `FnMut`. So an `FnOnce` waits in an `Option`, from which it is taken.
type Body<'a> = &'a mut dyn FnMut() -> Result<(), Error>;

/// Runs an operation on arrays: a [`call`] that `gpuvec_last_run` describes, as do the log and a profiler if the user
/// turned them on.
pub(super) fn operation(body: impl FnOnce() -> Result<(), Error>) -> i32 {
    let mut body = Some(body);
    run_operation(&mut || body.take().map_or(Ok(()), |body| body()))
}

fn run_operation(body: Body<'_>) -> i32 {
    const OK: i32 = gpuvec_status::GPUVEC_OK as i32;
    let mut status = OK;
    let entered = entered(&mut || {
        let answered = answer(&mut || settings::check().and_then(|()| body()));
        if let Err(error) = &answered {
            status = i32::after(error);
            last_run::clear();
        }
        if settings::watches_calls() {
            log::end(status);
        }
        Ok(())
    });
    entered.inspect_err(keep_refusal).map_or_else(|refused| i32::after(&refused), |()| status)
}

/// Runs `body`, or fails if an environment variable is wrong. Afterwards this thread's last error describes the failure, or
/// is empty.
pub(super) fn call<R: Returned>(body: impl FnOnce() -> Result<R, Error>) -> R {
    choice(|| settings::check().and_then(|()| body()))
}

/// Runs a [`call`] that also works if an environment variable is wrong.
pub(super) fn choice<R: Returned>(body: impl FnOnce() -> Result<R, Error>) -> R {
    let (mut body, mut returned) = (Some(body), None);
    let outcome = run_choice(&mut || {
        returned = body.take().map(|body| body()).transpose()?;
        Ok(())
    });
    match (outcome, returned) {
        (Ok(()), Some(returned)) => returned,
        (Ok(()), None) => R::after(&Error::Internal { text: "a call that did not run" }),
        (Err(error), _) => R::after(&error),
    }
}

fn run_choice(body: Body<'_>) -> Result<(), Error> {
    entered(&mut || answer(body)).inspect_err(keep_refusal)
}

/// Stores the error of a call that could not begin, unless a call in progress in this thread owns the last error.
#[cold]
fn keep_refusal(error: &Error) {
    if *error == Error::ForkedInHandler {
        keep_error(error);
    }
}

/// Runs `body`, and stores its error for this thread.
fn answer(body: Body<'_>) -> Result<(), Error> {
    let answered = caught(body);
    match &answered {
        Ok(()) => {
            LAST_STATUS.set(gpuvec_status::GPUVEC_OK as i32);
            LAST_ERROR.with(Text::clear);
        }
        Err(error) => keep_error(error),
    }
    answered
}

/// Stores an error for this thread. Not inlined, to keep the library small.
#[cold]
#[inline(never)]
fn keep_error(error: &Error) {
    LAST_STATUS.set(error.status() as i32);
    if *error != Error::Expression {
        LAST_ERROR.with(|text| text.set(error));
    }
}

/// Stores the text of an expression's error, which is too long for an [`Error`], as this thread's last error. Returns
/// the marker error.
#[cold]
pub(super) fn refuse(expression: &impl std::fmt::Display) -> Error {
    LAST_ERROR.with(|text| text.set(expression));
    Error::Expression
}

/// Answers a question about the library, and does not change the last error. Returns `otherwise` after a panic, and in a
/// signal handler that interrupted a call.
pub(super) fn query<R>(otherwise: R, body: impl FnOnce() -> R) -> R {
    let (mut body, mut answer) = (Some(body), None);
    let mut ask = || {
        answer = body.take().map(|body| body());
        Ok(())
    };
    // After a failure there is no answer.
    let _ = entered(&mut || caught(&mut ask));
    answer.unwrap_or(otherwise)
}

/// Like [`constant`], but for answers that are stored in the caller's memory. Changes the last error only if the arguments
/// are wrong.
pub(super) fn report(body: impl FnOnce() -> Result<(), Error>) -> i32 {
    constant(gpuvec_status::GPUVEC_ERROR_INTERNAL as i32, || match body() {
        Ok(()) => gpuvec_status::GPUVEC_OK as i32,
        Err(error) => {
            keep_error(&error);
            i32::after(&error)
        }
    })
}

/// Runs `body` as a call of this thread. Fails if the call might never return: in a signal handler that interrupted a call
/// or a fork of its thread, and in a process that may hold locks for ever.
fn entered(body: Body<'_>) -> Result<(), Error> {
    thread::with(|thread| {
        if thread.is_calling.is_raised() || thread.is_forking.is_raised() {
            return Err(Error::Reentrant);
        }
        if fork::was_without_lock() {
            return Err(Error::ForkedInHandler);
        }
        let _calling = thread.is_calling.raise();
        body()
    })
}

/// Answers a question from constants and this thread's data alone, so that signal handlers may ask at any time.
pub(super) fn constant<R>(otherwise: R, body: impl FnOnce() -> R) -> R {
    panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        std::mem::forget(payload);
        otherwise
    })
}

/// Returns the status of this thread's last error, or `GPUVEC_OK`.
pub(super) fn last_status() -> i32 {
    LAST_STATUS.get()
}

/// Returns the text of this thread's last error, which is valid until the thread's next call.
pub(super) fn last_error() -> *const c_char {
    LAST_ERROR.with(Text::as_ptr)
}

/// Stores a text for this thread, until the thread's next text replaces it.
pub(super) fn keep(text: impl std::fmt::Display) -> *const c_char {
    ANSWER.with(|answer| {
        answer.set(&text);
        answer.as_ptr()
    })
}

/// Runs `body` with IEEE-754's default modes, and turns a panic into an error.
fn caught(body: Body<'_>) -> Result<(), Error> {
    // Not a `Once`: a child that is forked while another thread is inside would wait for ever. std guards the hook by a lock,
    // which no thread may hold at a fork.
    static HOOKED: AtomicBool = AtomicBool::new(false);
    if !HOOKED.load(Ordering::Acquire) && memory::is_left() {
        fork::with_lock(|| {
            if !HOOKED.swap(true, Ordering::AcqRel) {
                let others = panic::take_hook();
                panic::set_hook(Box::new(move |info| {
                    if !is_ours(info) {
                        others(info);
                    }
                }));
            }
        });
    }
    // A panic may leave work half done. That does no harm after this call: the library recovers from poisoned locks, and
    // the header says that the output is unspecified after an error.
    let result = panic::catch_unwind(AssertUnwindSafe(|| with_ieee(body)));
    result.unwrap_or_else(|payload| {
        // A payload's destructor could panic again.
        std::mem::forget(payload);
        Err(Error::Internal { text: PANIC.get() })
    })
}

/// True for a panic of the library's code, which the host's panic hook must not print. Stores its message for the last
/// error.
fn is_ours(info: &PanicHookInfo<'_>) -> bool {
    let is_calling = thread::with(|thread| thread.is_calling.is_raised());
    if is_calling {
        PANIC.set(interned(info.to_string()));
    }
    is_calling || pool::is_ours()
}

thread_local! {
    static PANIC: Cell<&'static str> = const { Cell::new("a thread of gpuvec panicked") };
    static LAST_STATUS: Cell<i32> = const { Cell::new(gpuvec_status::GPUVEC_OK as i32) };
    static LAST_ERROR: Text = const { Text::new() };
    static ANSWER: Text = const { Text::new() };
}

/// A C string of bounded length, stored in place, so that a thread that ends has nothing to free. A signal handler may read
/// or write the text while it interrupts a write: the last byte is never written, so that the bytes are a C string at all
/// times.
struct Text {
    bytes: [Cell<u8>; Text::CAPACITY],
    len: Cell<usize>,
}

impl Text {
    const CAPACITY: usize = 512;

    const fn new() -> Self {
        Text { bytes: [const { Cell::new(0) }; Text::CAPACITY], len: Cell::new(0) }
    }

    fn clear(&self) {
        self.end(0);
    }

    /// Stores as much of the text as fits.
    fn set(&self, text: &impl std::fmt::Display) {
        self.clear();
        // Writing into a `Text` never fails.
        let _ = write!(Writer(self), "{text}");
    }

    fn append(&self, text: &str) {
        let len = self.len.get();
        let fits = text.floor_char_boundary(Text::CAPACITY - 1 - len);
        for (byte, written) in self.bytes[len..].iter().zip(&text.as_bytes()[..fits]) {
            byte.set(*written);
        }
        self.end(len + fits);
    }

    fn end(&self, len: usize) {
        self.len.set(len);
        self.bytes[len].set(0);
    }

    fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

struct Writer<'a>(&'a Text);

impl Write for Writer<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.append(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::{CStr, c_void};

    fn last() -> String {
        // SAFETY: the text is this thread's, and no call comes in between.
        unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_a_status_and_the_next_call_works() {
        let status = operation(|| panic!("on purpose"));
        assert_eq!(status, gpuvec_status::GPUVEC_ERROR_INTERNAL as i32);
        assert!(last().contains("a defect in gpuvec"), "{}", last());
        assert!(last().contains("on purpose") && last().contains("guard.rs"), "{}", last());
        assert_eq!(operation(|| Ok(())), 0);
        assert_eq!(last(), "");
    }

    #[test]
    fn a_panic_in_a_pointers_function_becomes_null() {
        let pointer: *mut c_void = call(|| panic!("on purpose"));
        assert!(pointer.is_null());
        assert_eq!(query(7, || panic!("on purpose")), 7);
        assert_eq!(constant(8, || panic!("on purpose")), 8);
    }

    #[test]
    fn an_error_becomes_its_status_and_text() {
        let error = Error::Null { argument: "b", n: 7 };
        let status = operation(|| Err(error));
        assert_eq!(status, gpuvec_status::GPUVEC_ERROR_NULL as i32);
        assert_eq!((last_status(), last()), (status, error.to_string()));
        let pointer: *mut c_void = call(|| Err(Error::Forked));
        assert!(pointer.is_null());
        assert_eq!(last_status(), gpuvec_status::GPUVEC_ERROR_FORKED as i32);
        assert_eq!(operation(|| Ok(())), 0);
        assert_eq!((last_status(), last()), (0, String::new()));
    }

    #[test]
    fn a_question_leaves_the_last_error() {
        operation(|| Err(Error::Forked));
        assert_eq!(query(0, || 5), 5);
        assert_eq!(last(), Error::Forked.to_string());
    }

    #[test]
    fn a_call_inside_another_is_refused_and_leaves_its_error() {
        let status = operation(|| {
            let refused = operation(|| panic!("it does not run"));
            assert_eq!(refused, gpuvec_status::GPUVEC_ERROR_REENTRANT as i32);
            assert_eq!((query(7, || 8), constant(7, || 8)), (7, 8));
            Err(Error::Forked)
        });
        assert_eq!(status, gpuvec_status::GPUVEC_ERROR_FORKED as i32);
        assert_eq!(last(), Error::Forked.to_string());
        assert_eq!(operation(|| Ok(())), 0);
    }

    #[test]
    fn a_question_that_is_wrong_has_its_error() {
        assert_eq!(report(|| Ok(())), 0);
        operation(|| Err(Error::Forked));
        assert_eq!(report(|| Ok(())), 0);
        assert_eq!(last(), Error::Forked.to_string());
        let error = Error::NullResult { argument: "run" };
        assert_eq!(report(|| Err(error)), gpuvec_status::GPUVEC_ERROR_NULL as i32);
        assert_eq!((last_status(), last()), (error.status() as i32, error.to_string()));
    }

    #[test]
    fn a_process_that_a_handler_forked_learns_why_its_calls_fail() {
        let why = Error::ForkedInHandler.to_string();
        let is_told = |status| status == last_status() && status != 0 && last() == why;
        let status = fork::with_lock(|| {
            // SAFETY: the child makes calls, which are refused, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let both = is_told(operation(|| Ok(()))) && is_told(call(|| Ok(0)));
                // SAFETY: ends this process.
                unsafe { libc::_exit(i32::from(!both)) };
            }
            let mut status = -1;
            // SAFETY: the child is this process's own.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            status
        });
        assert_eq!(status, 0);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = Text::new();
        text.set(&"é".repeat(Text::CAPACITY));
        // SAFETY: a C string, which lasts as long as `text`.
        let kept = unsafe { CStr::from_ptr(text.as_ptr()) };
        assert_eq!(kept.to_str().unwrap(), "é".repeat((Text::CAPACITY - 1) / 2));
    }
}
