//! Calls that fail on purpose, and the count of calls.
//!
//! A plan is a list, separated by commas, of `NUMBER=CODE`: the call of that number, counted from 1
//! since the plan was set, returns the code. `NUMBER=CODE+` makes all later calls fail as well.
//! `NUMBER=CODE~` lets the call succeed and its work fail: the code comes back from the next
//! synchronisation, and the context is lost.

use crate::{Code, NOT_INITIALIZED, context, lock};
use std::sync::Mutex;

/// What happens to a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Once,
    FromThenOn,
    Later,
}

#[derive(Clone, Copy)]
struct Fault {
    number: usize,
    code: Code,
    manner: Manner,
}

struct State {
    plan: Option<Vec<Fault>>,
    made: usize,
    /// The names of the first calls, no more than [`NAMED`] of them.
    names: Vec<&'static str>,
    violation: Option<String>,
    violations: usize,
    process: u32,
}

static STATE: Mutex<State> = Mutex::new(State {
    plan: None,
    made: 0,
    names: Vec::new(),
    violation: None,
    violations: 0,
    process: 0,
});

/// Calls that are remembered by name, so that a program of any length does not grow.
const NAMED: usize = 10_000;

/// Driver errors after which a context answers nothing else.
fn is_sticky(code: Code) -> bool {
    matches!(code, 700 | 702 | 710 | 714..=719)
}

/// Every call that can fail begins here. Returns the code that its queued work is to fail with, if
/// any; fails with what the plan says, or with what the current context was lost to.
pub(crate) fn begin(name: &'static str) -> Result<Option<Code>, Code> {
    let fault = next_fault(name)?;
    match fault {
        Some(Fault { code, manner: Manner::Later, .. }) => return Ok(Some(code)),
        Some(Fault { code, .. }) => {
            if is_sticky(code) {
                context::lose(code);
            }
            return Err(code);
        }
        None => {}
    }
    if survives_a_lost_context(name) { Ok(None) } else { context::lost().map_or(Ok(None), Err) }
}

fn survives_a_lost_context(name: &str) -> bool {
    let kept =
        ["cuInit", "cuDevice", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxP", "cuCtxCreate"];
    kept.iter().any(|prefix| name.starts_with(prefix))
}

fn next_fault(name: &'static str) -> Result<Option<Fault>, Code> {
    let mut state = lock(&STATE);
    let this = std::process::id();
    if state.process == 0 {
        state.process = this;
    }
    if state.process != this {
        drop(state);
        violate(&format!("{name} in a forked child"));
        return Err(NOT_INITIALIZED);
    }
    state.made += 1;
    let number = state.made;
    if number <= NAMED {
        state.names.push(name);
    }
    let plan = state
        .plan
        .get_or_insert_with(|| parsed(&std::env::var("STAND_IN_FAULTS").unwrap_or_default()));
    let hit = plan.iter().find(|fault| match fault.manner {
        Manner::FromThenOn => number >= fault.number,
        Manner::Once | Manner::Later => number == fault.number,
    });
    Ok(hit.copied())
}

/// Replaces the plan and counts from 1 again.
pub(crate) fn set_plan(text: &str) {
    let mut state = lock(&STATE);
    state.plan = Some(parsed(text));
    state.made = 0;
    state.names.clear();
}

fn parsed(text: &str) -> Vec<Fault> {
    text.split(',').filter(|part| !part.is_empty()).map(fault).collect()
}

fn fault(part: &str) -> Fault {
    let (number, rest) = part.split_once('=').expect("a fault is NUMBER=CODE");
    let (code, manner) = match rest.as_bytes().last() {
        Some(b'+') => (&rest[..rest.len() - 1], Manner::FromThenOn),
        Some(b'~') => (&rest[..rest.len() - 1], Manner::Later),
        _ => (rest, Manner::Once),
    };
    let number = number.parse().expect("a fault's number");
    Fault { number, code: code.parse().expect("a fault's code"), manner }
}

/// How many calls there were since the plan was set.
pub(crate) fn calls() -> usize {
    lock(&STATE).made
}

/// The name of one of the first calls, counted from 1.
pub(crate) fn call_name(number: usize) -> Option<&'static str> {
    lock(&STATE).names.get(number.checked_sub(1)?).copied()
}

/// Notes something that no driver forgives.
pub(crate) fn violate(what: &str) {
    let mut state = lock(&STATE);
    state.violations += 1;
    state.violation.get_or_insert_with(|| what.to_owned());
}

/// How many violations there were, and the first one.
pub(crate) fn violations() -> (usize, Option<String>) {
    let state = lock(&STATE);
    (state.violations, state.violation.clone())
}
