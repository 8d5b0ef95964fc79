//! Calls that fail on purpose, and the count of calls.
//!
//! A plan is a list, separated by commas, of `NUMBER=CODE`: the call of that number, counted from 1
//! since the plan was set, returns the code. `NUMBER=CODE+` makes all later calls fail as well.
//! `NAME=CODE` makes every call of a function fail. `NUMBER=CODE~` lets the call succeed and its
//! queued work fail: the next synchronisation returns the code, and the context is lost.
//!
//! A plan `random:SEED:PER_10000:CODE/CODE/...` makes each call fail with that probability, with one
//! of the codes. The seed and a call's number alone decide on the call, whichever thread makes it.

use crate::codes::{Code, NOT_INITIALIZED};
use crate::{context, held_calls, lock, process};
use std::ffi::{CStr, CString, c_char};
use std::sync::Mutex;

/// The calls that a fault hits.
enum Calls {
    At(usize),
    From(usize),
    Named(String),
}

struct Fault {
    calls: Calls,
    effect: Effect,
}

/// The effect of a fault on a call.
#[derive(Clone, Copy)]
enum Effect {
    Fails(Code),
    WorkFails(Code),
}

/// The calls that fail.
enum Plan {
    Listed(Vec<Fault>),
    Random { seed: u64, per_10000: u64, codes: Vec<Code> },
}

struct State {
    plan: Option<Plan>,
    made: usize,
    failed: usize,
    /// The names of the first calls, no more than [`NAMED`] of them.
    names: Vec<&'static str>,
}

static STATE: Mutex<State> =
    Mutex::new(State { plan: None, made: 0, failed: 0, names: Vec::new() });

/// The number of violations, and the first one. No other lock is taken together with this one, so
/// that a forked child can note its own violations, whatever its parent's threads were doing.
static VIOLATIONS: Mutex<(usize, Option<String>)> = Mutex::new((0, None));

/// The maximum number of remembered names, which bounds the memory of long programs.
const NAMED: usize = 10_000;

/// Driver errors that every later call in the context returns.
fn is_sticky(code: Code) -> bool {
    matches!(code, 226 | 700 | 702 | 710 | 714..=719 | 721 | 810 | 911)
}

/// Begins every call that can fail. Returns the code with which its queued work is to fail, if any.
/// Fails with the plan's code, without a successful cuInit, or with the code that lost the context.
pub(crate) fn begin(name: &'static str) -> Result<Option<Code>, Code> {
    if process::is_forked_child() {
        violate(&format!("{name} in a forked child"));
        return Err(NOT_INITIALIZED);
    }
    let fault = next_fault(name);
    held_calls::wait(name);
    match fault {
        Some(Effect::WorkFails(code)) => return Ok(Some(code)),
        Some(Effect::Fails(code)) => {
            if is_sticky(code) {
                context::lose(context::current(), code);
            }
            return Err(code);
        }
        None => {}
    }
    if !process::is_initialized() && name != "cuInit" {
        return Err(NOT_INITIALIZED);
    }
    const SURVIVE_A_LOST_CONTEXT: [&str; 6] =
        ["cuInit", "cuDevice", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxP", "cuCtxCreate"];
    if !SURVIVE_A_LOST_CONTEXT.iter().any(|prefix| name.starts_with(prefix)) {
        context::check_not_lost(context::current())?;
    }
    Ok(None)
}

fn next_fault(name: &'static str) -> Option<Effect> {
    let mut state = lock(&STATE);
    state.made += 1;
    let number = state.made;
    if number <= NAMED {
        state.names.push(name);
    }
    let plan = state
        .plan
        .get_or_insert_with(|| parsed(&std::env::var("FAKE_DRIVER_FAULTS").unwrap_or_default()));
    let fault = plan.fault(number, name);
    state.failed += usize::from(fault.is_some());
    fault
}

impl Plan {
    /// Returns the effect on the call of this number and name, if it is hit.
    fn fault(&self, number: usize, name: &str) -> Option<Effect> {
        match self {
            Plan::Listed(faults) => {
                let fault = faults.iter().find(|fault| fault.calls.include(number, name))?;
                Some(fault.effect)
            }
            Plan::Random { seed, per_10000, codes } => {
                let random = mixed(seed.wrapping_add(mixed(number as u64)));
                if random % 10_000 >= *per_10000 || codes.is_empty() {
                    return None;
                }
                Some(Effect::Fails(codes[(random / 10_000) as usize % codes.len()]))
            }
        }
    }
}

impl Calls {
    fn include(&self, number: usize, name: &str) -> bool {
        match self {
            Calls::At(hit) => number == *hit,
            Calls::From(first) => number >= *first,
            Calls::Named(hit) => name == hit,
        }
    }
}

/// Returns a pseudorandom number for each number (splitmix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Replaces the plan of faults and counts calls from 1 again.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_driver_faults(plan: *const c_char) {
    // SAFETY: the caller promises a C string.
    let plan = parsed(&unsafe { CStr::from_ptr(plan) }.to_string_lossy());
    let mut state = lock(&STATE);
    state.plan = Some(plan);
    state.made = 0;
    state.failed = 0;
    state.names.clear();
}

fn parsed(text: &str) -> Plan {
    match text.strip_prefix("random:") {
        Some(rest) => random(rest),
        None => Plan::Listed(text.split(',').filter(|part| !part.is_empty()).map(fault).collect()),
    }
}

fn random(text: &str) -> Plan {
    let mut parts = text.split(':');
    let mut next = || parts.next().expect("a random plan is random:SEED:PER_10000:CODE/CODE/...");
    let seed = next().parse().expect("a random plan's seed");
    let per_10000 = next().parse().expect("a random plan's probability");
    let codes = next().split('/').map(|code| code.parse().expect("a random plan's code")).collect();
    Plan::Random { seed, per_10000, codes }
}

fn fault(part: &str) -> Fault {
    let (calls, text) = part.split_once('=').expect("a fault is NUMBER=CODE or NAME=CODE");
    let code = text.trim_end_matches(['+', '~']).parse().expect("a fault's code");
    let calls = match calls.parse() {
        Ok(number) if text.ends_with('+') => Calls::From(number),
        Ok(number) => Calls::At(number),
        Err(_) => Calls::Named(calls.to_owned()),
    };
    let effect = if text.ends_with('~') { Effect::WorkFails(code) } else { Effect::Fails(code) };
    Fault { calls, effect }
}

/// Counts the calls since the plan was set that could fail.
#[unsafe(no_mangle)]
extern "C" fn fake_driver_calls() -> u64 {
    lock(&STATE).made as u64
}

/// Counts the calls that failed by the plan.
pub(crate) fn failed() -> usize {
    lock(&STATE).failed
}

/// Returns the name of one of the first 10,000 calls, counted from 1; "" if there was none. The
/// string is leaked.
#[unsafe(no_mangle)]
extern "C" fn fake_driver_call_name(number: u64) -> *const c_char {
    let name = lock(&STATE).names.get((number as usize).wrapping_sub(1)).copied();
    leaked(name.unwrap_or_default())
}

/// Notes a violation: an error of the caller that a real driver may answer with a crash.
pub(crate) fn violate(what: &str) {
    let mut violations = lock(&VIOLATIONS);
    violations.0 += 1;
    violations.1.get_or_insert_with(|| what.to_owned());
}

/// Counts the violations.
pub(crate) fn violations() -> usize {
    lock(&VIOLATIONS).0
}

/// Returns the first violation; "" if there was none. The string is leaked.
#[unsafe(no_mangle)]
extern "C" fn fake_driver_violation() -> *const c_char {
    leaked(lock(&VIOLATIONS).1.as_deref().unwrap_or_default())
}

fn leaked(text: &str) -> *const c_char {
    CString::new(text).unwrap_or_default().into_raw()
}
