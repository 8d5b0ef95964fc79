//! The host process: forks, signal handlers, floating-point modes, environment, scheduling, lack of memory.

pub(crate) mod float_modes;
pub(crate) mod fork;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod nvtx;
pub(crate) mod scheduling;
pub(crate) mod settings;
pub(crate) mod thread;
pub(crate) mod warmup;
