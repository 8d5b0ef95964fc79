//! Devices and contexts: one primary context for each device, others on demand, current contexts.

use crate::{Code, INVALID_CONTEXT, INVALID_DEVICE, OUT_OF_MEMORY, lock, setting};
use std::cell::RefCell;
use std::sync::{Mutex, OnceLock};

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

/// Counts the devices.
pub(crate) fn devices() -> usize {
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

/// Returns the device of that number.
pub(crate) fn device(number: i32) -> Result<usize, Code> {
    usize::try_from(number).ok().filter(|ordinal| *ordinal < devices()).ok_or(INVALID_DEVICE)
}

/// Retains a device's primary context once more.
pub(crate) fn retain_primary(ordinal: usize) -> Handle {
    let mut contexts = lock(&CONTEXTS);
    make_primaries(&mut contexts);
    contexts[ordinal].retained += 1;
    ordinal + 1
}

/// Releases a retained primary context.
pub(crate) fn release_primary(ordinal: usize) -> Result<(), Code> {
    let mut contexts = lock(&CONTEXTS);
    make_primaries(&mut contexts);
    let retained = &mut contexts[ordinal].retained;
    *retained = retained.checked_sub(1).ok_or(INVALID_CONTEXT)?;
    Ok(())
}

/// Creates a context that is not primary, and makes it current on this thread.
pub(crate) fn create(ordinal: usize) -> Result<Handle, Code> {
    let mut contexts = lock(&CONTEXTS);
    make_primaries(&mut contexts);
    STACK.with_borrow_mut(|stack| stack.push(contexts.len() + 1))?;
    contexts.push(Context { ordinal, lost: None, retained: 0 });
    Ok(contexts.len())
}

fn make_primaries(contexts: &mut Vec<Context>) {
    while contexts.len() < devices() {
        contexts.push(Context { ordinal: contexts.len(), lost: None, retained: 0 });
    }
}

/// Destroys a context, and removes it from this thread's stack.
pub(crate) fn destroy(handle: Handle) {
    STACK.with_borrow_mut(|stack| stack.remove(handle));
}

/// Returns this thread's context; 0 for none.
pub(crate) fn current() -> Handle {
    STACK.with_borrow(|stack| stack.last().unwrap_or(0))
}

/// Replaces this thread's context; 0 pops it.
pub(crate) fn set_current(handle: Handle) -> Result<(), Code> {
    if handle > lock(&CONTEXTS).len() {
        return Err(INVALID_CONTEXT);
    }
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        if handle == 0 { Ok(()) } else { stack.push(handle) }
    })
}

/// Pushes a context on this thread's stack.
pub(crate) fn push(handle: Handle) -> Result<(), Code> {
    if handle == 0 || handle > lock(&CONTEXTS).len() {
        return Err(INVALID_CONTEXT);
    }
    STACK.with_borrow_mut(|stack| stack.push(handle))
}

/// Pops this thread's context.
pub(crate) fn pop() -> Result<Handle, Code> {
    STACK.with_borrow_mut(Stack::pop).ok_or(INVALID_CONTEXT)
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

/// Returns the code that lost this thread's context, or without one the first device's.
pub(crate) fn lost() -> Option<Code> {
    lost_of(current())
}

/// Returns the code that lost a context.
pub(crate) fn lost_of(handle: Handle) -> Option<Code> {
    lock(&CONTEXTS).get(handle.saturating_sub(1)).and_then(|context| context.lost)
}

/// Loses this thread's context, or without one the first device's.
pub(crate) fn lose(code: Code) {
    lose_of(current(), code);
}

/// Loses a context.
pub(crate) fn lose_of(handle: Handle, code: Code) {
    let mut contexts = lock(&CONTEXTS);
    make_primaries(&mut contexts);
    if let Some(context) = contexts.get_mut(handle.saturating_sub(1)) {
        context.lost.get_or_insert(code);
    }
}

/// Counts the retained references to primary contexts.
pub(crate) fn retained() -> usize {
    lock(&CONTEXTS).iter().map(|context| context.retained).sum()
}
