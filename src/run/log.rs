//! Writes a line to stderr when a call on arrays ends, where `GPUVEC_LOG` asks for that.
//!
//! A line is one `write` of a buffer on the stack, without a lock and without an allocation, so that
//! lines of several threads stay whole, and a forked child can write its own at once.

use super::last_run::{self, Backend, Choice, PATHS, Reason, Run};
use crate::error::STATUSES;
use crate::process::settings;
use arrayvec::ArrayString;
use gpuvec_ops::Op;
use std::cell::Cell;
use std::fmt::{self, Display, Formatter, Write};
use std::mem::MaybeUninit;
use std::time::Instant;

/// The subject of a line: what a call does.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    Operation(Op),
    Copy,
    /// An addition to an accumulator, of that operation if the accumulator is known.
    Accumulator(Option<Op>),
    /// An expression, with its text if the expression is known.
    Expression(Option<&'a str>),
}

/// The most bytes of a line, its end included. Longer ones are cut.
const LINE: usize = 512;

/// A call whose line is to be written.
#[derive(Clone, Copy)]
struct Begun {
    /// The line's first words.
    text: ArrayString<96>,
    at: Instant,
}

thread_local! {
    static BEGUN: Cell<Option<Begun>> = const { Cell::new(None) };
}

/// Notes what a call of this thread does, on `n` elements, if lines are wanted.
pub(crate) fn begin(subject: Subject<'_>, n: usize) {
    if settings::logs_runs() {
        note(subject, n);
    }
}

#[cold]
#[inline(never)]
fn note(subject: Subject<'_>, n: usize) {
    let mut text = ArrayString::new();
    // There is room for the longest.
    let _ = write!(text, "{subject} n={n}");
    BEGUN.set(Some(Begun { text, at: Instant::now() }));
}

/// Writes the line of this thread's call, which ends with a `gpuvec_status`.
#[cold]
#[inline(never)]
pub(crate) fn end(status: i32) {
    let begun = BEGUN.take();
    let ns = begun.map_or(0, |begun| u64::try_from(begun.at.elapsed().as_nanos()).unwrap_or(0));
    last_run::set_time(ns);
    let text = begun.as_ref().map_or("call", |begun| &begun.text);
    write(&line(text, ns, status, &last_run::last()));
}

fn line(text: &str, ns: u64, status: i32, run: &Run) -> ArrayString<LINE> {
    let mut line = ArrayString::new();
    let failure = STATUSES.iter().find(|(known, _)| *known as i32 == status && status != 0);
    // The only failure is that the line is full.
    let _ = match failure {
        None => write!(line, "gpuvec: {text} {}", Ran { run, ns }),
        Some((status, _)) => {
            write!(line, "gpuvec: {text} failed with {status:?} after {}", Time(ns))
        }
    };
    line.truncate(line.len().min(LINE - 1));
    line.push('\n');
    line
}

impl Display for Subject<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Operation(op) => f.write_str(op.kernel()),
            Subject::Copy => f.write_str("copy"),
            Subject::Accumulator(None) => f.write_str("accumulator"),
            Subject::Accumulator(Some(op)) => write!(f, "accumulator {}", op.kernel()),
            Subject::Expression(None) => f.write_str("expression"),
            Subject::Expression(Some(text)) => write!(f, "\"{}\"", Shown(text)),
        }
    }
}

/// A text, cut, as characters that a terminal prints.
struct Shown<'a>(&'a str);

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

/// The end of a line: where a call ran, how long it took, why it ran there, and what was predicted.
struct Ran<'a> {
    run: &'a Run,
    ns: u64,
}

impl Display for Ran<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Ran { run, ns } = *self;
        let choice = Choice::ALL.into_iter().find(|choice| *choice as i32 == run.choice);
        match choice.unwrap_or(Choice::None) {
            Choice::None if run.backend == Backend::None as i32 => f.write_str("nothing to do")?,
            Choice::None => write!(f, "queued on gpu ({})", Devices(run))?,
            Choice::CallingCore => f.write_str("calling core")?,
            choice @ (Choice::QuarterOfCores | Choice::HalfOfCores | Choice::Cores) => {
                write!(f, "{} ({})", choice.name(), Threads(run.threads))?;
            }
            choice => {
                write!(f, "{} ({}, {})", choice.name(), Devices(run), Threads(run.threads))?;
            }
        }
        write!(f, " {}", Time(ns))?;
        let reason = Reason::ALL.into_iter().find(|reason| *reason as i32 == run.reason);
        if let Some(reason) = reason.filter(|reason| *reason != Reason::None) {
            write!(f, ", {}", reason.name())?;
        }
        let predictions = Choice::ALL.into_iter().zip(run.predicted_ns).filter(|(_, ns)| *ns > 0);
        for (i, (choice, ns)) in predictions.enumerate() {
            let before = if i == 0 { "; predicted: " } else { ", " };
            write!(f, "{before}{} {}", choice.name(), Time(ns))?;
        }
        Ok(())
    }
}

struct Threads(u64);

impl Display for Threads {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} thread{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// The devices that took part, and the transfers of the arrays.
struct Devices<'a>(&'a Run);

impl Display for Devices<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Run { devices, path, .. } = *self.0;
        let mut before = if devices.is_power_of_two() { "device " } else { "devices " };
        for device in (0..u64::BITS).filter(|device| devices >> device & 1 == 1) {
            write!(f, "{before}{device}")?;
            before = ",";
        }
        before = ", ";
        for (_, name) in PATHS.into_iter().filter(|(bit, _)| path & bit != 0) {
            write!(f, "{before}{name}")?;
            before = "+";
        }
        Ok(())
    }
}

/// A time in nanoseconds, shown with three digits.
struct Time(u64);

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

/// Writes a line to stderr. A line that cannot be written is lost. `errno` and the thread's signals stay
/// as they are. (`write` itself would be a cancellation point; the bare system call is none.)
fn write(line: &str) {
    // SAFETY: `errno` is this thread's, and the bytes are a string's.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        without_sigpipe(|| {
            libc::syscall(libc::SYS_write, libc::STDERR_FILENO, line.as_ptr(), line.len());
            *errno == libc::EPIPE
        });
        *errno = before;
    }
}

/// Runs `body`, which says whether it has raised SIGPIPE in this thread, and takes that signal back: it
/// would end the process.
fn without_sigpipe(body: impl FnOnce() -> bool) {
    let [mut pipe, mut pending, mut before] =
        [const { MaybeUninit::<libc::sigset_t>::uninit() }; 3];
    // SAFETY: the C library fills in each set before another call reads it; the kernel reads the first 8
    // bytes of a set, as many signals as there are, and the time.
    unsafe {
        libc::sigemptyset(pipe.as_mut_ptr());
        libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), before.as_mut_ptr());
        libc::sigpending(pending.as_mut_ptr());
        let was_pending = libc::sigismember(pending.as_ptr(), libc::SIGPIPE) == 1;
        if body() && !was_pending {
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let nowhere = std::ptr::null_mut::<libc::siginfo_t>();
            libc::syscall(libc::SYS_rt_sigtimedwait, pipe.as_ptr(), nowhere, &raw const now, 8);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::last_run::GPUVEC_PATH_CORES;

    const NS: u64 = 21_345;

    fn shown(subject: Subject<'_>, run: Run) -> String {
        line(&format!("{subject} n=1000000"), NS, 0, &run).to_string()
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
    fn a_line_tells_where_and_why_and_what_was_predicted() {
        let mut run = Run {
            backend: Backend::Cpu as i32,
            path: GPUVEC_PATH_CORES,
            threads: 16,
            choice: Choice::Cores as i32,
            reason: Reason::Fastest as i32,
            ..Run::default()
        };
        let start = "gpuvec: add_f32 n=1000000 cores (16 threads) 21.3 us, fastest";
        assert_eq!(shown(Subject::Operation(Op::AddF32), run), format!("{start}\n"));
        run.predicted_ns[Choice::CallingCore as usize] = 80_100;
        run.predicted_ns[Choice::Cores as usize] = 20_900;
        run.predicted_ns[Choice::Gpu as usize] = 403_000;
        let predicted = "; predicted: calling core 80.1 us, cores 20.9 us, gpu 403 us";
        assert_eq!(shown(Subject::Operation(Op::AddF32), run), format!("{start}{predicted}\n"));
    }

    #[test]
    fn a_line_names_every_reason() {
        let names = [
            (Reason::Explored, ", explored"),
            (Reason::Compiling, ", compiling"),
            (Reason::NoDriverYet, ", no driver yet"),
            (Reason::Fallback, ", fallback"),
            (Reason::None, ""),
        ];
        for (reason, name) in names {
            let path = GPUVEC_PATH_CORES;
            let run = Run { path, threads: 2, reason: reason as i32, ..Run::default() };
            let line = shown(Subject::Copy, run);
            assert!(line.ends_with(&format!(" 21.3 us{name}\n")), "{line}");
        }
    }

    #[test]
    fn a_line_names_devices_and_transfers() {
        let run = Run {
            backend: Backend::Gpu as i32,
            path: last_run::GPUVEC_PATH_STAGED | last_run::GPUVEC_PATH_MAPPED,
            devices: 0b101,
            threads: 2,
            choice: Choice::Gpus as i32,
            reason: Reason::AskedFor as i32,
            ..Run::default()
        };
        let wanted = "gpus (devices 0,2, staged+mapped, 2 threads) 21.3 us, asked for\n";
        assert_eq!(shown(Subject::Copy, run), format!("gpuvec: copy n=1000000 {wanted}"));
        let queued = Run { choice: 0, reason: 0, devices: 1, ..run };
        let wanted = "queued on gpu (device 0, staged+mapped) 21.3 us\n";
        assert_eq!(shown(Subject::Copy, queued), format!("gpuvec: copy n=1000000 {wanted}"));
        assert!(shown(Subject::Copy, Run::default()).ends_with(" nothing to do 21.3 us\n"));
    }

    #[test]
    fn a_failure_has_its_status() {
        let line = line("accumulator n=5", 70, 101, &Run::default());
        assert_eq!(&line, "gpuvec: accumulator n=5 failed with GPUVEC_ERROR_NULL after 70 ns\n");
    }

    #[test]
    fn texts_are_cut_and_printable() {
        let shown = |text: &str| Subject::Expression(Some(text)).to_string();
        assert_eq!(shown("a +\n\t\u{1b}[31mb"), "\"a +???[31mb\"");
        assert_eq!(shown(&"a".repeat(60)), format!("\"{}\"", "a".repeat(60)));
        assert_eq!(shown(&"a".repeat(61)), format!("\"{}...\"", "a".repeat(60)));
    }

    #[test]
    fn the_longest_line_is_cut_and_ends() {
        let run = Run {
            backend: Backend::Gpu as i32,
            path: u32::MAX,
            devices: u64::MAX,
            threads: u64::MAX,
            choice: Choice::CoresAndGpus as i32,
            reason: Reason::NoDriverYet as i32,
            predicted_ns: [u64::MAX; 8],
            ..Run::default()
        };
        note(Subject::Expression(Some(&"x".repeat(99))), usize::MAX);
        let text = BEGUN.take().unwrap().text;
        assert!(text.ends_with("x...\" n=18446744073709551615"));
        let line = line(&text, NS, 0, &run);
        assert!(line.len() <= LINE && line.ends_with('\n') && line.matches('\n').count() == 1);
    }
}
