//! Schedules the library's threads like the process's main thread.
//!
//! A new thread inherits the CPU affinity, the nice value and the scheduling policy of the thread that starts it. The
//! first caller may be bound to one core or run at real-time priority, and the library's threads outlive it. So each of
//! them adopts the main thread's values when it starts.

use libc::{c_int, cpu_set_t, pid_t};
use std::num::NonZeroUsize;

/// The thread id that means the calling thread in the system calls below.
const CALLING: pid_t = 0;

/// Returns the main thread's id, which is the process id.
fn main_thread() -> pid_t {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

/// Returns the number of CPUs that the process may use: the CPUs of its main thread, or the quota of its control group
/// if that is smaller.
pub(crate) fn cpus() -> NonZeroUsize {
    // Counts the CPUs of the calling thread, which may be bound to fewer than the process.
    let calling = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let is_bound_by_quota = affinity(CALLING).is_some_and(|cpus| calling.get() < count(&cpus));
    let of_process = affinity(main_thread()).and_then(|cpus| NonZeroUsize::new(count(&cpus)));
    of_process.filter(|_| !is_bound_by_quota).unwrap_or(calling)
}

/// Returns the CPUs that a thread may run on; `None` if the kernel has more of them than the set holds.
fn affinity(thread: pid_t) -> Option<cpu_set_t> {
    // SAFETY: a set is an array of bits, for which zero is a value.
    let mut cpus = unsafe { std::mem::zeroed::<cpu_set_t>() };
    // SAFETY: the kernel writes no more than the set's size into a local.
    let result = unsafe { libc::sched_getaffinity(thread, size_of::<cpu_set_t>(), &raw mut cpus) };
    (result == 0).then_some(cpus)
}

fn count(cpus: &cpu_set_t) -> usize {
    // SAFETY: reads the set.
    let count = unsafe { libc::CPU_COUNT(cpus) };
    usize::try_from(count).unwrap_or(0)
}

/// Applies the main thread's affinity, nice value and policy to the calling thread, as far as the process may: lowering
/// a nice value needs a privilege. In place of a real-time policy the thread gets the ordinary one, since the library's
/// threads spin for a while before they sleep.
pub(crate) fn follow_main_thread() {
    let main = main_thread();
    if let Some(cpus) = affinity(main) {
        // SAFETY: the kernel reads the set.
        unsafe { libc::sched_setaffinity(CALLING, size_of::<cpu_set_t>(), &raw const cpus) };
    }
    // SAFETY: numbers, for which zero is a value; musl has more of them than a priority.
    let ordinary = unsafe { std::mem::zeroed::<libc::sched_param>() };
    // SAFETY: the kernel reads the parameters and changes only the priority of the thread with that id.
    unsafe {
        libc::sched_setscheduler(CALLING, ordinary_policy(main), &raw const ordinary);
        let nice = libc::getpriority(libc::PRIO_PROCESS, main.cast_unsigned());
        libc::setpriority(libc::PRIO_PROCESS, CALLING.cast_unsigned(), nice);
    }
}

/// Returns a thread's policy, or the ordinary one in place of a policy with priorities.
fn ordinary_policy(thread: pid_t) -> c_int {
    // SAFETY: takes a number.
    match unsafe { libc::sched_getscheduler(thread) } & !libc::SCHED_RESET_ON_FORK {
        policy @ (libc::SCHED_BATCH | libc::SCHED_IDLE) => policy,
        _ => libc::SCHED_OTHER,
    }
}
