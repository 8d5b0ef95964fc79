//! The log: reads `GPUVEC_LOG`, and writes lines to stderr or to a file.
//!
//! A line is one `write` from a buffer on the stack, without a lock or an allocation: lines of several threads and
//! processes do not mix, and a forked child can write at once. Each line opens the file anew, because the program may
//! close descriptors that it did not open, and another process may rotate the file.

use super::settings;
use arrayvec::ArrayString;
use libc::c_int;
use std::ffi::{CStr, CString};
use std::fmt::{self, Display, Formatter, Write};
use std::mem::MaybeUninit;
use std::time::Instant;

/// The value of `GPUVEC_LOG`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Log {
    /// True if events inside calls have lines as well.
    pub(super) has_events: bool,
    /// The absolute path of the file to which lines are appended. Without a file, stderr.
    file: Option<CString>,
}

impl Log {
    /// Parses `run` or `all`, optionally followed by `:FILE`.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let (lines, file) =
            value.split_once(':').map_or((value, None), |(lines, file)| (lines, Some(file)));
        let has_events = match lines {
            "run" => false,
            "all" => true,
            _ => return None,
        };
        // The program may change its folder between two lines.
        let absolute = |file| {
            CString::new(std::path::absolute(file).ok()?.into_os_string().into_encoded_bytes()).ok()
        };
        let file = match file {
            None => None,
            Some(file) => Some(absolute(file)?),
        };
        Some(Log { has_events, file })
    }

    /// True if lines can be written. Creates the file if it does not exist.
    pub(super) fn is_usable(&self) -> bool {
        self.file.as_deref().is_none_or(|file| appended_to(file, |_| ()).is_some())
    }

    fn write(&self, line: &[u8]) {
        match &self.file {
            None => write_to(libc::STDERR_FILENO, line),
            Some(file) => drop(appended_to(file, |descriptor| write_to(descriptor, line))),
        }
    }
}

/// The most bytes of a line, with its newline. Longer lines are truncated.
const LINE: usize = 512;

/// Writes a line about an event inside a call, if the log has such lines.
pub(crate) fn event(text: fmt::Arguments<'_>) {
    if settings::logs_events() {
        write(text);
    }
}

/// Returns the time at which an event begins, if the log has lines about events.
pub(crate) fn started() -> Option<Instant> {
    settings::logs_events().then(Instant::now)
}

/// Writes a line about an event that began at [`started`]'s time, with the time that it took.
pub(crate) fn done(text: fmt::Arguments<'_>, started: Option<Instant>) {
    if let Some(started) = started {
        write(format_args!("{text} in {}", Time(nanoseconds(started))));
    }
}

/// Writes a line, or drops it if that fails. Leaves `errno` and the thread's signals unchanged.
#[cold]
#[inline(never)]
pub(crate) fn write(text: fmt::Arguments<'_>) {
    if let Some(log) = settings::log() {
        log.write(line(text).as_bytes());
    }
}

fn line(text: fmt::Arguments<'_>) -> ArrayString<LINE> {
    truncated(format_args!("gpuvec: {text}"), '\n')
}

/// A text in one line, truncated so that `last` fits.
pub(super) fn truncated<const BYTES: usize>(
    text: fmt::Arguments<'_>, last: char,
) -> ArrayString<BYTES> {
    let mut line = Line(ArrayString::new());
    // The only failure is that the line is full.
    let _ = line.write_fmt(text);
    line.0.push(last);
    line.0
}

/// A line without its last byte. Newlines in the text are replaced.
struct Line<const BYTES: usize>(ArrayString<BYTES>);

impl<const BYTES: usize> Write for Line<BYTES> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| self.write_char(c))
    }

    fn write_char(&mut self, c: char) -> fmt::Result {
        let c = if c == '\n' { ' ' } else { c };
        if self.0.len() + c.len_utf8() < BYTES {
            self.0.try_push(c).map_err(|_| fmt::Error)
        } else {
            Err(fmt::Error)
        }
    }
}

/// A text, truncated, with unprintable characters escaped.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl Shown<'_> {
    const MOST: usize = 60;
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let printable = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
        for c in self.0.chars().take(Shown::MOST) {
            f.write_char(printable(c))?;
        }
        f.write_str(if self.0.chars().nth(Shown::MOST).is_some() { "..." } else { "" })
    }
}

/// A time in nanoseconds, shown with three digits.
pub(crate) struct Time(pub(crate) u64);

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(1, "ns"), (1_000, "us"), (1_000_000, "ms"), (1_000_000_000, "s")];
        let ns = self.0;
        let fitting = UNITS.into_iter().find(|(unit, _)| ns / unit < 1000);
        let (unit, name) = fitting.unwrap_or(UNITS[3]);
        let (whole, rest) = (ns / unit, ns % unit);
        match whole {
            _ if unit == 1 => write!(f, "{whole} {name}"),
            0..10 => write!(f, "{whole}.{:02} {name}", rest / (unit / 100)),
            10..100 => write!(f, "{whole}.{} {name}", rest / (unit / 10)),
            _ => write!(f, "{whole} {name}"),
        }
    }
}

/// The nanoseconds since a moment.
pub(crate) fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Opens a file for appending while `work` runs, or returns `None`. Does not wait for the reader of a pipe. Uses bare
/// system calls, because a thread can be cancelled in the C library's.
fn appended_to<T>(file: &CStr, work: impl FnOnce(c_int) -> T) -> Option<T> {
    const FLAGS: c_int = libc::O_WRONLY
        | libc::O_APPEND
        | libc::O_CREAT
        | libc::O_CLOEXEC
        | libc::O_NOCTTY
        | libc::O_NONBLOCK;
    const MODE: libc::mode_t = 0o666;
    with_errno_kept(|| {
        // SAFETY: the arguments are a C string and numbers.
        let opened =
            unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, file.as_ptr(), FLAGS, MODE) };
        let descriptor = c_int::try_from(opened).ok().filter(|descriptor| *descriptor >= 0)?;
        let done = work(descriptor);
        // SAFETY: the descriptor was opened above, and is this function's alone.
        unsafe { libc::syscall(libc::SYS_close, descriptor) };
        Some(done)
    })
}

fn write_to(descriptor: c_int, line: &[u8]) {
    with_errno_kept(|| {
        without_signals(|| {
            // SAFETY: the bytes are a slice's, and `errno` is this thread's.
            let (written, errno) = unsafe {
                let written = libc::syscall(libc::SYS_write, descriptor, line.as_ptr(), line.len());
                (written, *libc::__errno_location())
            };
            match errno {
                libc::EPIPE if written < 0 => Some(libc::SIGPIPE),
                libc::EFBIG if written < 0 => Some(libc::SIGXFSZ),
                _ => None,
            }
        });
    });
}

fn with_errno_kept<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: `errno` is this thread's.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let done = work();
        *errno = before;
        done
    }
}

/// Runs `body`, which returns the signal that it has raised in this thread, and discards that signal, which would end
/// the process: SIGPIPE for a pipe without a reader, SIGXFSZ beyond a file's size limit.
fn without_signals(body: impl FnOnce() -> Option<c_int>) {
    let [mut blocked, mut pending, mut before, mut raised] =
        [const { MaybeUninit::<libc::sigset_t>::uninit() }; 4];
    // SAFETY: the C library fills in each set before another call reads it; the kernel reads the time and the first 8
    // bytes of a set, which hold all signals.
    unsafe {
        libc::sigemptyset(blocked.as_mut_ptr());
        libc::sigaddset(blocked.as_mut_ptr(), libc::SIGPIPE);
        libc::sigaddset(blocked.as_mut_ptr(), libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, blocked.as_ptr(), before.as_mut_ptr());
        libc::sigpending(pending.as_mut_ptr());
        if let Some(signal) = body()
            && libc::sigismember(pending.as_ptr(), signal) == 0
        {
            libc::sigemptyset(raised.as_mut_ptr());
            libc::sigaddset(raised.as_mut_ptr(), signal);
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let nowhere = std::ptr::null_mut::<libc::siginfo_t>();
            libc::syscall(libc::SYS_rt_sigtimedwait, raised.as_ptr(), nowhere, &raw const now, 8);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_names_lines_and_a_file() {
        let parsed = |value| Log::parse(value).map(|log| (log.has_events, log.file));
        let file = |path: &str| Some(CString::new(path).unwrap());
        assert_eq!(parsed("run"), Some((false, None)));
        assert_eq!(parsed("all"), Some((true, None)));
        assert_eq!(parsed("run:/tmp/a:b"), Some((false, file("/tmp/a:b"))));
        let here = std::env::current_dir().unwrap().join("log");
        assert_eq!(parsed("all:log"), Some((true, file(here.to_str().unwrap()))));
        for wrong in
            ["RUN", " run", "runs", "1", "0", "run:", "all:", ":/tmp/a", "run,all", "/tmp/a"]
        {
            assert_eq!(parsed(wrong), None, "'{wrong}' was taken");
        }
    }

    #[test]
    fn times_have_three_digits() {
        let times = [
            (0, "0 ns"),
            (60, "60 ns"),
            (999, "999 ns"),
            (1_009, "1.00 us"),
            (21_345, "21.3 us"),
            (403_999, "403 us"),
            (1_234_567, "1.23 ms"),
            (59_999_999_999, "59.9 s"),
            (5_000_000_000_000, "5000 s"),
        ];
        for (ns, expected) in times {
            assert_eq!(Time(ns).to_string(), expected);
        }
        assert!(Time(u64::MAX).to_string().ends_with(" s"));
    }

    #[test]
    fn a_file_is_usable_if_it_can_be_appended_to() {
        assert!(Log::parse("run").unwrap().is_usable());
        assert!(!Log::parse("run:/").unwrap().is_usable());
        assert!(!Log::parse("run:/nowhere/log").unwrap().is_usable());
    }

    #[test]
    fn a_line_ends_once_and_is_cut() {
        assert_eq!(&line(format_args!("one\ntwo {}", 3)), "gpuvec: one two 3\n");
        for length in [LINE - 10, LINE - 9, LINE - 8, LINE, 3 * LINE] {
            let line = line(format_args!("{}", "x".repeat(length)));
            assert_eq!(line.len(), LINE.min(length + 9));
            assert!(line.ends_with("x\n"));
        }
        assert!(line(format_args!("{}", "é".repeat(LINE))).ends_with("é\n"));
    }
}
