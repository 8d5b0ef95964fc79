//! The user's settings: the placement, the number of threads, the vector instructions, and the log.
//!
//! The environment is read once, at the first call that needs it, and not at all in a process
//! that runs with another user's rights (`secure_getenv`).

use super::{memory, scheduling};
use crate::error::{Error, interned};
use once_cell::race::OnceBox;
use std::cell::Cell;
use std::ffi::CStr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// cbindgen:rename-all=QualifiedScreamingSnakeCase
/// The processors that work on a call.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The GPU, unless the calling core alone would finish sooner; without a usable GPU, all cores.
    Auto = 0,
    /// The GPU, or an error.
    Gpu = 1,
    /// All cores; operations do not open the driver.
    Cpu = 2,
    /// All cores and, for long pinned arrays, all GPUs at the same time; an array in device memory as
    /// with `GPUVEC_PLACE_AUTO`.
    All = 3,
}

impl Placement {
    pub(crate) fn from_value(value: i32) -> Option<Self> {
        [Placement::Auto, Placement::Gpu, Placement::Cpu, Placement::All]
            .into_iter()
            .find(|placement| *placement as i32 == value)
    }

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Placement::Auto),
            "gpu" => Some(Placement::Gpu),
            "cpu" => Some(Placement::Cpu),
            "all" => Some(Placement::All),
            _ => None,
        }
    }
}

const NOT_CHOSEN: i32 = -1;
static CHOSEN: AtomicI32 = AtomicI32::new(NOT_CHOSEN);

thread_local! {
    /// The calling thread's own placement. A child made by `fork` has that of the thread that forked.
    static OF_THREAD: Cell<Option<Placement>> = const { Cell::new(None) };
}

/// Returns the placement in force for the calling thread: its own, else that from `set_placement`, else
/// that from the environment, else `Auto`.
pub(crate) fn placement() -> Result<Placement, Error> {
    match OF_THREAD.get().or_else(|| Placement::from_value(CHOSEN.load(Ordering::Relaxed))) {
        Some(placement) => Ok(placement),
        None => environment()?.placement,
    }
}

/// Returns the calling thread's own placement.
pub(crate) fn thread_placement() -> Option<Placement> {
    OF_THREAD.get()
}

/// Sets the calling thread's own placement; with `None` the process's is in force again.
pub(crate) fn set_thread_placement(placement: Option<Placement>) {
    OF_THREAD.set(placement);
}

pub(crate) fn set_placement(placement: Placement) {
    CHOSEN.store(placement as i32, Ordering::Relaxed);
}

/// Fails if an environment variable that is in force is wrong.
pub(crate) fn check() -> Result<(), Error> {
    let environment = environment()?;
    environment.threads?;
    environment.vectors?;
    environment.logs_runs?;
    placement().map(|_| ())
}

/// The most threads that a call may use: a larger number is a mistake.
const MOST_THREADS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// Returns the number of threads that may work on one call: `GPUVEC_NUM_THREADS`, else one for each
/// CPU that the process may use.
pub(crate) fn threads() -> Result<NonZeroUsize, Error> {
    environment()?.threads
}

/// Vector instructions that sums on cores may use, each with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Vectors {
    Portable,
    Avx2,
    Avx512,
}

/// Returns the newest vector instructions that may be used, where the processor has them:
/// `GPUVEC_VECTORS`, else all.
pub(crate) fn vectors() -> Vectors {
    // The guard has refused a call whose environment is wrong.
    environment().and_then(|environment| environment.vectors).unwrap_or(Vectors::Portable)
}

/// Set when `GPUVEC_LOG` is read: a short call asks in less time than `environment` takes.
static LOGS_RUNS: AtomicBool = AtomicBool::new(false);

/// Says whether each call on arrays writes a line to stderr: `GPUVEC_LOG`, which the guard has read.
pub(crate) fn logs_runs() -> bool {
    LOGS_RUNS.load(Ordering::Relaxed)
}

struct Environment {
    placement: Result<Placement, Error>,
    threads: Result<NonZeroUsize, Error>,
    vectors: Result<Vectors, Error>,
    logs_runs: Result<(), Error>,
}

fn environment() -> Result<&'static Environment, Error> {
    // A lock-free cell: a thread that is reading the environment while another forks must not
    // leave the child waiting.
    static ENVIRONMENT: OnceBox<Environment> = OnceBox::new();
    ENVIRONMENT.get_or_try_init(|| {
        if !memory::is_left() {
            let bytes = memory::NEEDED_BYTES;
            return Err(Error::OutOfHostMemory { bytes, purpose: "the first call" });
        }
        let logs_runs = parsed_log(variable(c"GPUVEC_LOG"));
        LOGS_RUNS.store(logs_runs == Ok(true), Ordering::Relaxed);
        Ok(Box::new(Environment {
            placement: parsed_placement(variable(c"GPUVEC_PLACEMENT")),
            threads: parsed_threads(variable(c"GPUVEC_NUM_THREADS")),
            vectors: parsed_vectors(variable(c"GPUVEC_VECTORS")),
            logs_runs: logs_runs.map(drop),
        }))
    })
}

fn parsed_placement(value: Option<String>) -> Result<Placement, Error> {
    let Some(value) = value else { return Ok(Placement::Auto) };
    Placement::from_name(&value).ok_or_else(|| Error::Environment {
        variable: "GPUVEC_PLACEMENT",
        value: interned(value),
        expected: "auto, gpu, cpu or all",
    })
}

fn parsed_threads(value: Option<String>) -> Result<NonZeroUsize, Error> {
    let Some(value) = value else { return Ok(scheduling::cpus()) };
    let threads = value.parse::<NonZeroUsize>().map_err(|_| Error::Environment {
        variable: "GPUVEC_NUM_THREADS",
        value: interned(value),
        expected: "a whole number, 1 or more",
    })?;
    Ok(threads.min(MOST_THREADS))
}

fn parsed_vectors(value: Option<String>) -> Result<Vectors, Error> {
    match value.as_deref() {
        None | Some("avx512") => Ok(Vectors::Avx512),
        Some("avx2") => Ok(Vectors::Avx2),
        Some("portable") => Ok(Vectors::Portable),
        Some(wrong) => Err(Error::Environment {
            variable: "GPUVEC_VECTORS",
            value: interned(wrong.to_owned()),
            expected: "portable, avx2 or avx512",
        }),
    }
}

fn parsed_log(value: Option<String>) -> Result<bool, Error> {
    match value.as_deref() {
        None => Ok(false),
        Some("run") => Ok(true),
        Some(wrong) => Err(Error::Environment {
            variable: "GPUVEC_LOG",
            value: interned(wrong.to_owned()),
            expected: "run",
        }),
    }
}

// Miri knows this one alone.
#[cfg(miri)]
use libc::getenv as secure_getenv;

#[cfg(not(miri))]
#[expect(unused_doc_comments, reason = "cbindgen reads it: none of this is for the header")]
/// cbindgen:ignore
unsafe extern "C" {
    /// glibc's, which the libc crate does not declare for Linux.
    fn secure_getenv(name: *const std::ffi::c_char) -> *const std::ffi::c_char;
}

/// The value of an environment variable. An empty one is unset.
fn variable(name: &CStr) -> Option<String> {
    // SAFETY: `name` is a C string. The result is read at once; as for every getenv, the host must not
    // change its environment meanwhile.
    let value = unsafe {
        let value = secure_getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))?
    };
    Some(value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(value: &str) -> Option<String> {
        Some(value.to_owned())
    }

    #[test]
    fn placement_is_parsed_strictly() {
        assert_eq!(parsed_placement(None).unwrap(), Placement::Auto);
        assert_eq!(parsed_placement(owned("gpu")).unwrap(), Placement::Gpu);
        for wrong in ["GPU", " gpu", "gpu ", "1"] {
            assert!(parsed_placement(owned(wrong)).is_err(), "'{wrong}' was taken");
        }
    }

    #[test]
    fn the_placement_of_a_thread_is_its_own() {
        set_thread_placement(Some(Placement::Cpu));
        assert_eq!(placement().unwrap(), Placement::Cpu);
        let other = std::thread::spawn(thread_placement).join().unwrap();
        assert_eq!((other, thread_placement()), (None, Some(Placement::Cpu)));
        set_thread_placement(None);
        assert_eq!(thread_placement(), None);
    }

    #[test]
    fn vectors_are_parsed_strictly_and_ordered() {
        assert_eq!(parsed_vectors(None).unwrap(), Vectors::Avx512);
        assert!(Vectors::Portable < Vectors::Avx2 && Vectors::Avx2 < Vectors::Avx512);
        for wrong in ["AVX2", "sse", " avx2", "none", "0"] {
            assert!(parsed_vectors(owned(wrong)).is_err(), "'{wrong}' was taken");
        }
    }

    #[test]
    fn the_log_is_parsed_strictly() {
        assert_eq!((parsed_log(None), parsed_log(owned("run"))), (Ok(false), Ok(true)));
        for wrong in ["RUN", " run", "runs", "1", "0"] {
            assert!(parsed_log(owned(wrong)).is_err(), "'{wrong}' was taken");
        }
    }

    #[test]
    fn threads_are_parsed_strictly() {
        assert!(parsed_threads(None).is_ok());
        assert_eq!(parsed_threads(owned("3")).unwrap().get(), 3);
        assert_eq!(parsed_threads(owned("1000000")).unwrap(), MOST_THREADS);
        for wrong in ["0", "-1", "two", " 2", "99999999999999999999999"] {
            assert!(parsed_threads(owned(wrong)).is_err(), "'{wrong}' was taken");
        }
    }
}
