//! Reports the beginning and the end of each call on arrays: as a range to an attached profiler, and as a line in the
//! log of `GPUVEC_LOG`.

use super::last_run::{self, Backend, CHOICES, Choice, PATHS, REASONS, Reason, Run};
use crate::error::STATUSES;
use crate::process::log::{self, Shown, Time};
use crate::process::{nvtx, settings};
use arrayvec::ArrayString;
use gpuvec_ops::Op;
use std::cell::Cell;
use std::fmt::{self, Display, Formatter, Write};
use std::time::Instant;

/// The subject of a call's line.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    Operation(Op),
    Copy,
    /// An addition to an accumulator, with its operation once the handle is known to be valid.
    Accumulator(Option<Op>),
    /// An expression, with its text once the handle is known to be valid.
    Expression(Option<&'a str>),
}

/// A call that has begun, and is reported when it ends.
#[derive(Clone, Copy)]
struct Begun {
    /// The first words of its line.
    text: ArrayString<96>,
    at: Instant,
    /// True if the profiler has a range for the call.
    has_range: bool,
}

thread_local! {
    static BEGUN: Cell<Option<Begun>> = const { Cell::new(None) };
}

/// Notes the subject and the `n` elements of this thread's call, if calls are reported.
pub(crate) fn begin(subject: Subject<'_>, n: usize) {
    if settings::watches_calls() {
        note(subject, n);
    }
}

#[cold]
#[inline(never)]
fn note(subject: Subject<'_>, n: usize) {
    let mut text = ArrayString::new();
    // There is room for the longest subject.
    let _ = write!(text, "{subject} n={n}");
    // A call with a handle begins again once the handle is known to be valid.
    let has_range = settings::has_profiler() && subject.is_known();
    if has_range {
        nvtx::push(format_args!("gpuvec: {subject}"));
    }
    BEGUN.set(Some(Begun { text, at: Instant::now(), has_range }));
}

/// Reports the end of this thread's call with a `gpuvec_status`.
#[cold]
#[inline(never)]
pub(crate) fn end(status: i32) {
    let begun = BEGUN.take();
    if begun.is_some_and(|begun| begun.has_range) {
        nvtx::pop();
    }
    if settings::log().is_none() {
        return;
    }
    let ns = begun.map_or(0, |begun| log::nanoseconds(begun.at));
    last_run::set_time(ns);
    let text = begun.as_ref().map_or("call", |begun| &begun.text);
    let run = &last_run::last();
    log::write(format_args!("{}", Ended { text, ns, status, run }));
}

/// The line of a call that has ended: its status, or its processors, its time, the reason for the choice, and the
/// predictions.
struct Ended<'a> {
    text: &'a str,
    ns: u64,
    status: i32,
    run: &'a Run,
}

impl Display for Ended<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Ended { text, ns, status, run } = *self;
        write!(f, "{text} ")?;
        let failure = STATUSES.iter().find(|(known, _)| *known as i32 == status && status != 0);
        if let Some((status, _)) = failure {
            return write!(f, "failed with {status:?} after {}", Time(ns));
        }
        let (choice, name) = CHOICES[run.choice as usize];
        match choice {
            Choice::None if run.backend == Backend::None as i32 => f.write_str("nothing to do")?,
            Choice::None => write!(f, "queued on gpu ({})", Devices(run))?,
            Choice::CallingCore => f.write_str(name)?,
            Choice::QuarterOfCores | Choice::HalfOfCores | Choice::Cores => {
                write!(f, "{name} ({})", Threads(run.threads))?;
            }
            Choice::Gpu | Choice::Gpus | Choice::CoresAndGpus => {
                write!(f, "{name} ({}, {})", Devices(run), Threads(run.threads))?;
            }
        }
        write!(f, " {}", Time(ns))?;
        match REASONS[run.reason as usize] {
            (Reason::None, _) => {}
            (_, name) => write!(f, ", {name}")?,
        }
        let predictions = CHOICES.into_iter().zip(run.predicted_ns).filter(|(_, ns)| *ns > 0);
        for (i, ((_, name), ns)) in predictions.enumerate() {
            let before = if i == 0 { "; predicted: " } else { ", " };
            write!(f, "{before}{name} {}", Time(ns))?;
        }
        Ok(())
    }
}

impl Subject<'_> {
    fn is_known(&self) -> bool {
        !matches!(self, Subject::Accumulator(None) | Subject::Expression(None))
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::last_run::GPUVEC_PATH_CORES;

    const NS: u64 = 21_345;

    fn shown(subject: Subject<'_>, run: Run) -> String {
        let text = &format!("{subject} n=1000000");
        Ended { text, ns: NS, status: 0, run: &run }.to_string()
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
        let start = "add_f32 n=1000000 cores (16 threads) 21.3 us, fastest";
        assert_eq!(shown(Subject::Operation(Op::AddF32), run), start);
        run.predicted_ns[Choice::CallingCore as usize] = 80_100;
        run.predicted_ns[Choice::Cores as usize] = 20_900;
        run.predicted_ns[Choice::Gpu as usize] = 403_000;
        let predicted = "; predicted: calling core 80.1 us, cores 20.9 us, gpu 403 us";
        assert_eq!(shown(Subject::Operation(Op::AddF32), run), format!("{start}{predicted}"));
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
            assert!(line.ends_with(&format!(" 21.3 us{name}")), "{line}");
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
        let wanted = "gpus (devices 0,2, staged+mapped, 2 threads) 21.3 us, asked for";
        assert_eq!(shown(Subject::Copy, run), format!("copy n=1000000 {wanted}"));
        let queued = Run { choice: 0, reason: 0, devices: 1, ..run };
        let wanted = "queued on gpu (device 0, staged+mapped) 21.3 us";
        assert_eq!(shown(Subject::Copy, queued), format!("copy n=1000000 {wanted}"));
        assert!(shown(Subject::Copy, Run::default()).ends_with(" nothing to do 21.3 us"));
    }

    #[test]
    fn a_failure_has_its_status() {
        let run = &Run::default();
        let line = Ended { text: "accumulator n=5", ns: 70, status: 101, run }.to_string();
        assert_eq!(line, "accumulator n=5 failed with GPUVEC_ERROR_NULL after 70 ns");
    }

    #[test]
    fn texts_are_cut_and_printable() {
        let shown = |text: &str| Subject::Expression(Some(text)).to_string();
        assert_eq!(shown("a +\n\t\u{1b}[31mb"), "\"a +???[31mb\"");
        assert_eq!(shown(&"a".repeat(60)), format!("\"{}\"", "a".repeat(60)));
        assert_eq!(shown(&"a".repeat(61)), format!("\"{}...\"", "a".repeat(60)));
    }

    #[test]
    fn the_longest_subject_fits() {
        note(Subject::Expression(Some(&"x".repeat(99))), usize::MAX);
        let text = BEGUN.take().unwrap().text;
        assert!(text.ends_with("x...\" n=18446744073709551615"));
    }
}
