//! The user's settings: the placement, the number of threads, the device, the vector instructions, and the log.
//!
//! The first call that needs the environment reads it, once. It is not read in a process that runs with another user's
//! rights (`secure_getenv`).

use super::log::Log;
use super::{memory, nvtx, scheduling};
use crate::arch::{VECTORS, VECTORS_IN_WORDS};
use crate::error::{Error, interned};
use once_cell::race::OnceBox;
use std::cell::Cell;
use std::ffi::CStr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicUsize, Ordering};

/// cbindgen:rename-all=QualifiedScreamingSnakeCase
/// The processors that work on a call.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The cores, the GPUs, or both at the same time: whichever is predicted to finish first.
    Auto = 0,
    /// The GPU, or an error.
    Gpu = 1,
    /// As many cores as are predicted to finish first; operations do not open the driver.
    Cpu = 2,
    /// All cores and all GPUs at the same time for long pinned arrays, otherwise as `GPUVEC_PLACE_CPU`; an
    /// array in device memory as with `GPUVEC_PLACE_AUTO`.
    All = 3,
}

const PLACEMENTS: [(&str, Placement); 4] = [
    ("auto", Placement::Auto),
    ("gpu", Placement::Gpu),
    ("cpu", Placement::Cpu),
    ("all", Placement::All),
];

impl Placement {
    pub(crate) fn from_value(value: i32) -> Option<Self> {
        PLACEMENTS.iter().find(|(_, known)| *known as i32 == value).map(|(_, known)| *known)
    }
}

const NOT_CHOSEN: i32 = -1;
static CHOSEN_PLACEMENT: AtomicI32 = AtomicI32::new(NOT_CHOSEN);

thread_local! {
    /// The calling thread's own placement. A forked child inherits the placement of the thread that forked.
    static OF_THREAD: Cell<Option<Placement>> = const { Cell::new(None) };
}

/// Returns the placement in force for the calling thread: its own, else the process's from `set_placement`, else the
/// environment's, else `Auto`.
pub(crate) fn placement() -> Result<Placement, Error> {
    let of_process = || Placement::from_value(CHOSEN_PLACEMENT.load(Ordering::Relaxed));
    match OF_THREAD.get().or_else(of_process) {
        Some(placement) => Ok(placement),
        None => environment()?.placement,
    }
}

/// Returns the calling thread's own placement.
pub(crate) fn thread_placement() -> Option<Placement> {
    OF_THREAD.get()
}

/// Sets the calling thread's own placement. With `None` the process's placement is in force again.
pub(crate) fn set_thread_placement(placement: Option<Placement>) {
    OF_THREAD.set(placement);
}

pub(crate) fn set_placement(placement: Placement) {
    CHOSEN_PLACEMENT.store(placement as i32, Ordering::Relaxed);
}

/// Fails if an environment variable is invalid and in force.
pub(crate) fn check() -> Result<(), Error> {
    let environment = environment()?;
    if environment.is_right { Ok(()) } else { environment.check() }
}

/// The most threads that a call may use. A larger number counts as this one.
pub(crate) const MOST_THREADS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// The number from `set_threads`; 0 defers to the environment.
static CHOSEN_THREADS: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of threads that may work on one call: from `set_threads`, else from `GPUVEC_NUM_THREADS`, else
/// from `OMP_NUM_THREADS`, else one for each CPU that the process may use.
pub(crate) fn threads() -> Result<NonZeroUsize, Error> {
    match NonZeroUsize::new(CHOSEN_THREADS.load(Ordering::Relaxed)) {
        Some(chosen) => Ok(chosen),
        None => environment()?.threads,
    }
}

/// Sets the number of threads that may work on one call; with 0 the environment's is in force again.
pub(crate) fn set_threads(threads: usize) {
    CHOSEN_THREADS.store(threads.min(MOST_THREADS.get()), Ordering::Relaxed);
}

/// The device number that means all devices.
pub const GPUVEC_ALL_DEVICES: i32 = -1;

/// The number from `set_device`; [`NOT_CHOSEN_DEVICE`] defers to the environment.
static CHOSEN_DEVICE: AtomicI32 = AtomicI32::new(NOT_CHOSEN_DEVICE);
const NOT_CHOSEN_DEVICE: i32 = -2;

/// Returns the number of the device for host arrays, or [`GPUVEC_ALL_DEVICES`]: from `set_device`, else from
/// `GPUVEC_DEVICE`, else all.
pub(crate) fn device() -> Result<i32, Error> {
    match CHOSEN_DEVICE.load(Ordering::Relaxed) {
        NOT_CHOSEN_DEVICE => environment()?.device,
        chosen => Ok(chosen),
    }
}

/// Sets the device for host arrays: its number, or [`GPUVEC_ALL_DEVICES`].
pub(crate) fn set_device(device: i32) {
    CHOSEN_DEVICE.store(device, Ordering::Relaxed);
}

/// Returns the index of the newest instruction set that may be used, if the processor has it: from `GPUVEC_VECTORS`,
/// else the last.
pub(crate) fn vectors() -> usize {
    // The guard has refused calls with an invalid environment.
    environment().and_then(|environment| environment.vectors).unwrap_or(0)
}

/// Bit mask of the observers of calls: [`CALL_LINES`] and the constants below. Set when the environment is read.
/// Reading this mask costs a short call less than `environment`.
static WATCHERS: AtomicU8 = AtomicU8::new(0);
/// The log has a line for each call on arrays.
const CALL_LINES: u8 = 1;
/// The log has lines for events inside calls.
const EVENT_LINES: u8 = 2;
/// A profiler is attached.
const PROFILER: u8 = 4;

fn has_watcher(watchers: u8) -> bool {
    WATCHERS.load(Ordering::Relaxed) & watchers != 0
}

/// True if an observer is told of the beginning and the end of each call on arrays.
pub(crate) fn watches_calls() -> bool {
    has_watcher(CALL_LINES | PROFILER)
}

/// True if events inside calls have lines in the log.
pub(crate) fn logs_events() -> bool {
    has_watcher(EVENT_LINES)
}

/// True if a profiler is attached.
pub(crate) fn has_profiler() -> bool {
    has_watcher(PROFILER)
}

/// Returns the log, if there is one.
pub(crate) fn log() -> Option<&'static Log> {
    environment().ok()?.log.as_ref().ok()?.as_ref()
}

struct Environment {
    placement: Result<Placement, Error>,
    threads: Result<NonZeroUsize, Error>,
    device: Result<i32, Error>,
    vectors: Result<usize, Error>,
    log: Result<Option<Log>, Error>,
    /// True if every variable is valid.
    is_right: bool,
}

fn environment() -> Result<&'static Environment, Error> {
    // A lock-free cell: a forked child must not wait for a thread that was reading the environment.
    static ENVIRONMENT: OnceBox<Environment> = OnceBox::new();
    ENVIRONMENT.get_or_try_init(Environment::read)
}

impl Environment {
    /// Fails if a variable is invalid that no setter has overridden.
    #[cold]
    fn check(&self) -> Result<(), Error> {
        threads()?;
        device()?;
        self.vectors?;
        self.log.as_ref().map_err(|error| *error)?;
        placement().map(|_| ())
    }

    #[cold]
    fn read() -> Result<Box<Self>, Error> {
        if !memory::is_left() {
            let bytes = memory::NEEDED_BYTES;
            return Err(Error::OutOfHostMemory { bytes, purpose: "the first call" });
        }
        let mut environment = Box::new(Environment {
            placement: parsed_placement(variable(c"GPUVEC_PLACEMENT")),
            threads: parsed_threads(
                variable(c"GPUVEC_NUM_THREADS"),
                variable(c"OMP_NUM_THREADS"),
                scheduling::cpus,
            ),
            device: parsed_device(variable(c"GPUVEC_DEVICE")),
            vectors: parsed_vectors(variable(c"GPUVEC_VECTORS")),
            log: parsed_log(variable(c"GPUVEC_LOG")),
            is_right: false,
        });
        let Environment { placement, threads, device, vectors, log, .. } = &*environment;
        let all =
            [placement.is_ok(), threads.is_ok(), device.is_ok(), vectors.is_ok(), log.is_ok()];
        environment.is_right = all == [true; 5];
        // If several threads read the environment at the same time, one attaches the profiler.
        WATCHERS.fetch_or(watchers(&environment), Ordering::Relaxed);
        Ok(environment)
    }
}

fn wrong(variable: &'static str, value: String, expected: &'static str) -> Error {
    Error::Environment { variable, value: interned(value), expected }
}

fn parsed_placement(value: Option<String>) -> Result<Placement, Error> {
    let Some(value) = value else { return Ok(Placement::Auto) };
    let known = PLACEMENTS.iter().find(|(name, _)| *name == value).map(|(_, known)| *known);
    known.ok_or_else(|| wrong("GPUVEC_PLACEMENT", value, "auto, gpu, cpu or all"))
}

fn parsed_threads(
    own: Option<String>, openmp: Option<String>, default: fn() -> NonZeroUsize,
) -> Result<NonZeroUsize, Error> {
    let threads = match own {
        Some(value) => value
            .parse()
            .map_err(|_| wrong("GPUVEC_NUM_THREADS", value, "a whole number, 1 or more"))?,
        None => openmp.as_deref().and_then(first_of_list).unwrap_or_else(default),
    };
    Ok(threads.min(MOST_THREADS))
}

/// Returns the first entry of a list in the form of `OMP_NUM_THREADS` (OpenMP 5.2, section 21.2.1): positive integers,
/// one for each level of nested parallelism, with commas between them and blanks around them. Returns `None` for any
/// other value, which the OpenMP runtime reports.
fn first_of_list(list: &str) -> Option<NonZeroUsize> {
    let mut entries = list.split(',').map(|entry| entry.trim_ascii().parse());
    let first = entries.next()?.ok()?;
    entries.all(|entry| entry.is_ok()).then_some(first)
}

fn parsed_device(value: Option<String>) -> Result<i32, Error> {
    let Some(value) = value else { return Ok(GPUVEC_ALL_DEVICES) };
    let number = value.parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| wrong("GPUVEC_DEVICE", value, "the number of a device, 0 or more"))
}

fn parsed_vectors(value: Option<String>) -> Result<usize, Error> {
    let Some(value) = value else { return Ok(VECTORS.len() - 1) };
    let known = VECTORS.iter().position(|name| **name == value);
    known.ok_or_else(|| wrong("GPUVEC_VECTORS", value, VECTORS_IN_WORDS))
}

fn parsed_log(value: Option<String>) -> Result<Option<Log>, Error> {
    let Some(value) = value else { return Ok(None) };
    let log = Log::parse(&value).filter(Log::is_usable);
    let expected = "run or all, or one of them with :FILE, a file that can be written";
    log.map(Some).ok_or_else(|| wrong("GPUVEC_LOG", value, expected))
}

/// Attaches the profiler that the environment names, and returns the mask of the observers of calls.
fn watchers(environment: &Environment) -> u8 {
    let lines = match &environment.log {
        Ok(Some(log)) if log.has_events => CALL_LINES | EVENT_LINES,
        Ok(Some(_)) => CALL_LINES,
        _ => 0,
    };
    let has_profiler = variable(c"NVTX_INJECTION64_PATH").is_some_and(nvtx::attach);
    if has_profiler { lines | PROFILER } else { lines }
}

// Miri supports this function only.
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
    // SAFETY: `name` is a C string. The result is read at once; as with every getenv, the host must not change its
    // environment meanwhile.
    let value = unsafe {
        let value = secure_getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))?
    };
    Some(value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn the_device_is_parsed_strictly() {
        assert_eq!(parsed_device(None).unwrap(), GPUVEC_ALL_DEVICES);
        assert_eq!(parsed_device(owned("3")).unwrap(), 3);
        for wrong in ["-1", " 1", "1 ", "0,1", "all", "2147483648"] {
            assert!(parsed_device(owned(wrong)).is_err(), "'{wrong}' was taken");
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
    fn vectors_are_parsed_strictly() {
        assert_eq!(parsed_vectors(None).unwrap(), VECTORS.len() - 1);
        for (index, name) in VECTORS.iter().enumerate() {
            assert_eq!(parsed_vectors(owned(name)).unwrap(), index);
        }
        for wrong in ["AVX2", "sse", " avx2", "none", "0"] {
            assert!(parsed_vectors(owned(wrong)).is_err(), "'{wrong}' was taken");
        }
    }

    #[test]
    fn a_wrong_log_is_an_error_that_names_it() {
        assert_eq!(parsed_log(None), Ok(None));
        assert!(matches!(parsed_log(owned("run")), Ok(Some(_))));
        for wrong in ["runs", "run:/"] {
            let error = parsed_log(owned(wrong)).unwrap_err().to_string();
            assert!(error.contains(&format!("GPUVEC_LOG is '{wrong}'")), "{error}");
        }
    }

    #[test]
    fn threads_are_parsed_strictly() {
        let parsed = |value| parsed_threads(owned(value), owned("5"), || MOST_THREADS);
        assert_eq!(parsed("3").unwrap().get(), 3);
        assert_eq!(parsed("1000000").unwrap(), MOST_THREADS);
        for wrong in ["0", "-1", "two", " 2", "2,3", "99999999999999999999999"] {
            assert!(parsed(wrong).is_err(), "'{wrong}' was taken");
        }
    }

    #[test]
    fn without_a_variable_each_cpu_has_a_thread_up_to_the_most() {
        let parsed = |cpus| parsed_threads(None, None, cpus).unwrap().get();
        assert_eq!(parsed(|| NonZeroUsize::new(3).unwrap()), 3);
        assert_eq!(parsed(|| NonZeroUsize::new(384).unwrap()), 256);
    }

    /// Returns the number of threads if only `OMP_NUM_THREADS` is set; 7 if that is ignored.
    fn by_openmp(value: &str) -> usize {
        parsed_threads(None, owned(value), || NonZeroUsize::new(7).unwrap()).unwrap().get()
    }

    #[test]
    fn the_first_entry_of_openmps_list_counts() {
        for (list, threads) in [
            ("3", 3),
            (" 3 ", 3),
            ("4,3,2", 4),
            ("\t2 ,\t8 , 1\t", 2),
            ("1000", 256),
            ("5,1000", 5),
        ] {
            assert_eq!(by_openmp(list), threads, "'{list}'");
        }
    }

    #[test]
    fn what_openmp_does_not_allow_is_ignored() {
        let all = "0|-1|two| |,|4,|,4|4,,2|4 2|4;2|4,0|4,x|2.0|0x4|4\u{a0}|99999999999999999999999";
        for wrong in all.split('|') {
            assert_eq!(by_openmp(wrong), 7, "'{wrong}' was taken");
        }
    }

    proptest! {
        #[test]
        fn any_list_of_positive_integers_with_blanks_is_read(
            entries in prop::collection::vec(("[ \t]{0,3}", 1u32.., "[ \t]{0,3}"), 1..6),
        ) {
            let written: Vec<String> =
                entries.iter().map(|(before, entry, after)| format!("{before}{entry}{after}")).collect();
            prop_assert_eq!(by_openmp(&written.join(",")), entries[0].1.min(256) as usize);
        }
    }
}
