//! Devices and contexts: one primary context for each device, others on demand, current contexts.

use crate::calls::{call, driver_functions};
use crate::codes::{Code, INVALID_CONTEXT, INVALID_DEVICE, NO_DEVICE, OUT_OF_MEMORY, SUCCESS};
use crate::faults::violate;
use crate::{lock, memory, process, setting, stream};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// The handle of a context: its index in the list of all contexts, counted from 1.
pub(crate) type Handle = usize;

struct Context {
    ordinal: usize,
    lost: Option<Code>,
    retained: usize,
}

static CONTEXTS: Mutex<Vec<Context>> = Mutex::new(Vec::new());

/// The contexts of a thread, the current one last.
///
/// The memory is a part of the thread itself and needs no destructor: destructors of other
/// thread-locals and handlers at exit may call the driver, as they may call the real one.
struct Stack {
    contexts: [Handle; MOST],
    depth: usize,
}

/// The maximum number of contexts on a thread's stack.
const MOST: usize = 64;

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack { contexts: [0; MOST], depth: 0 }) };
}

impl Stack {
    fn push(&mut self, handle: Handle) -> Result<(), Code> {
        *self.contexts.get_mut(self.depth).ok_or(OUT_OF_MEMORY)? = handle;
        self.depth += 1;
        Ok(())
    }

    fn pop(&mut self) -> Option<Handle> {
        let last = self.last()?;
        self.depth -= 1;
        Some(last)
    }

    fn last(&self) -> Option<Handle> {
        self.contexts[..self.depth].last().copied()
    }

    fn remove(&mut self, handle: Handle) {
        let (all, mut kept) = (self.depth, 0);
        for i in 0..all {
            if self.contexts[i] != handle {
                self.contexts[kept] = self.contexts[i];
                kept += 1;
            }
        }
        self.depth = kept;
    }
}

driver_functions! {
    fn cuInit(_flags: c_uint) {
        if devices() == 0 {
            return Err(NO_DEVICE);
        }
        process::set_initialized();
    }

    fn cuDeviceGetCount() -> c_int {
        devices() as c_int
    }

    fn cuDeviceGet(number: c_int) -> c_int {
        device(number)? as c_int
    }

    fn cuDeviceGetName(name: *mut c_char, size: c_int, number: c_int) {
        let text = format!("Fake device {}\0", device(number)?);
        let len = text.len().min(usize::try_from(size).unwrap_or(0));
        // SAFETY: the caller promises `size` writable bytes.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), name.cast(), len) };
    }

    fn cuDeviceGetAttribute(attribute: c_uint, number: c_int) -> c_int {
        const MULTIPROCESSOR_COUNT: c_uint = 16;
        const INTEGRATED: c_uint = 18;
        const SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: c_uint = 87;
        const PAGEABLE_MEMORY_ACCESS: c_uint = 88;
        const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_uint = 97;
        const CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM: c_uint = 91;
        const PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES: c_uint = 100;
        device(number)?;
        let value = match attribute {
            CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM => setting("FAKE_DRIVER_HOST_POINTERS", 1),
            INTEGRATED => setting("FAKE_DRIVER_INTEGRATED", 0),
            PAGEABLE_MEMORY_ACCESS | PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES => {
                u64::from(memory::kernels_reach_pageable())
            }
            SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO => setting("FAKE_DRIVER_F64_RATIO", 2),
            MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => 64 << 10,
            MULTIPROCESSOR_COUNT => 4,
            _ => 4,
        };
        value as c_int
    }

    fn cuDevicePrimaryCtxRetain(number: c_int) -> Handle {
        let ordinal = device(number)?;
        contexts()[ordinal].retained += 1;
        ordinal + 1
    }

    fn cuDevicePrimaryCtxRelease_v2(number: c_int) {
        let retained = &mut contexts()[device(number)?].retained;
        *retained = retained.checked_sub(1).ok_or(INVALID_CONTEXT)?;
    }

    fn cuDevicePrimaryCtxReset_v2(number: c_int) {
        violate("a primary context was reset, which destroys it for the whole process");
        device(number)?;
    }

    fn cuCtxCreate_v2(_flags: c_uint, number: c_int) -> Handle {
        let (ordinal, mut contexts) = (device(number)?, contexts());
        STACK.with_borrow_mut(|stack| stack.push(contexts.len() + 1))?;
        contexts.push(Context { ordinal, lost: None, retained: 0 });
        contexts.len()
    }

    fn cuCtxDestroy_v2(handle: Handle) {
        STACK.with_borrow_mut(|stack| stack.remove(handle));
    }

    fn cuCtxGetCurrent() -> Handle {
        current()
    }

    fn cuCtxGetDevice() -> c_int {
        current_device()? as c_int
    }

    fn cuCtxSynchronize() {
        current_device()?;
        stream::synchronize_all();
    }

    fn cuCtxSetCurrent(handle: Handle) {
        if handle > lock(&CONTEXTS).len() {
            return Err(INVALID_CONTEXT);
        }
        STACK.with_borrow_mut(|stack| {
            stack.pop();
            if handle == 0 { Ok(()) } else { stack.push(handle) }
        })?;
    }

    fn cuCtxPopCurrent_v2() -> Handle {
        STACK.with_borrow_mut(Stack::pop).ok_or(INVALID_CONTEXT)?
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(handle: Handle) -> Code {
    // A failure that loses a context loses this one: it is the one whose device the caller notes.
    let pushed = match handle {
        0 => Err(INVALID_CONTEXT),
        _ if handle > lock(&CONTEXTS).len() => Err(INVALID_CONTEXT),
        _ => STACK.with_borrow_mut(|stack| stack.push(handle)),
    };
    let code = call("cuCtxPushCurrent_v2", |_| pushed);
    if code != SUCCESS && pushed.is_ok() {
        STACK.with_borrow_mut(Stack::pop);
    }
    code
}

/// Counts the devices.
fn devices() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let all = setting("FAKE_DRIVER_DEVICES", 1) as usize;
        std::env::var("CUDA_VISIBLE_DEVICES").map_or(all, |list| visible(&list, all))
    })
}

/// Counts the devices that a list of numbers shows, up to the first wrong one, as the driver does.
fn visible(list: &str, all: usize) -> usize {
    let is_device = |number: &&str| number.parse::<usize>().is_ok_and(|ordinal| ordinal < all);
    list.split(',').take_while(is_device).count()
}

/// Returns the device of a number.
fn device(number: c_int) -> Result<usize, Code> {
    usize::try_from(number).ok().filter(|ordinal| *ordinal < devices()).ok_or(INVALID_DEVICE)
}

/// Locks the contexts, which begin with the primary ones.
fn contexts() -> MutexGuard<'static, Vec<Context>> {
    let mut contexts = lock(&CONTEXTS);
    while contexts.len() < devices() {
        let ordinal = contexts.len();
        contexts.push(Context { ordinal, lost: None, retained: 0 });
    }
    contexts
}

/// Returns this thread's context; 0 for none.
pub(crate) fn current() -> Handle {
    STACK.with_borrow(|stack| stack.last().unwrap_or(0))
}

/// Returns the device of this thread's context.
pub(crate) fn current_device() -> Result<usize, Code> {
    match current() {
        0 => Err(INVALID_CONTEXT),
        handle => Ok(device_of(handle)),
    }
}

/// Returns the device of a context.
pub(crate) fn device_of(handle: Handle) -> usize {
    lock(&CONTEXTS)[handle - 1].ordinal
}

/// Fails with the code that lost a context; without a context, with the code that lost the first device's.
pub(crate) fn check_not_lost(handle: Handle) -> Result<(), Code> {
    let contexts = lock(&CONTEXTS);
    let lost = contexts.get(handle.saturating_sub(1)).and_then(|context| context.lost);
    lost.map_or(Ok(()), Err)
}

/// Loses a context; without a context, the first device's.
pub(crate) fn lose(handle: Handle, code: Code) {
    if let Some(context) = contexts().get_mut(handle.saturating_sub(1)) {
        context.lost.get_or_insert(code);
    }
}

/// Counts the retained references to primary contexts.
pub(crate) fn retained() -> usize {
    lock(&CONTEXTS).iter().map(|context| context.retained).sum()
}
