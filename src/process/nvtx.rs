//! NVTX: tells an attached profiler when a call begins and ends, as a range of the calling thread.
//!
//! A profiler names its library in `NVTX_INJECTION64_PATH`. In NVTX 3's interface for tools (nvtxTypes.h of
//! <https://github.com/NVIDIA/NVTX>), this library calls the profiler's `InitializeInjectionNvtx2` with a function that
//! returns export tables. The export table for callbacks has a function that returns a table for each module of NVTX.
//! Such a table points to a slot for each function, where the profiler stores its own. This library calls the functions
//! in the slots of nvtxRangePushA and nvtxRangePop.

use super::log;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The length of the longest module table. Entry 0 is empty: functions are numbered from 1.
const FUNCTIONS: usize = 16;
/// The module of ranges and marks, and its functions nvtxRangePushA and nvtxRangePop.
const CORE: c_int = 1;
const RANGE_PUSH: usize = 9;
const RANGE_POP: usize = 11;
/// The newest module.
const SYNC: c_int = 6;
/// The export table for callbacks.
const CALLBACKS: u32 = 1;

/// Slots for the functions of a tool, by their numbers.
type Places = [AtomicPtr<c_void>; FUNCTIONS];

static CORE_FUNCTIONS: Places = [const { AtomicPtr::new(null_mut()) }; FUNCTIONS];
/// The slots of all other modules, which this library never calls.
static OTHER_FUNCTIONS: Places = [const { AtomicPtr::new(null_mut()) }; FUNCTIONS];

/// Pointers to slots, with NULL first and last.
#[repr(transparent)]
struct Table([*const AtomicPtr<c_void>; FUNCTIONS + 1]);

// SAFETY: the pointers are never changed, and any thread may use what they point to.
unsafe impl Sync for Table {}

impl Table {
    const fn of(places: &'static Places) -> Self {
        let mut table = [null(); FUNCTIONS + 1];
        let mut number = 1;
        while number < FUNCTIONS {
            table[number] = &raw const places[number];
            number += 1;
        }
        Table(table)
    }
}

static CORE_TABLE: Table = Table::of(&CORE_FUNCTIONS);
static OTHER_TABLE: Table = Table::of(&OTHER_FUNCTIONS);

/// The export table for callbacks, as NVTX declares it.
#[repr(C)]
struct Callbacks {
    struct_size: usize,
    module_function_table: extern "C" fn(c_int, *mut *const Table, *mut c_uint) -> c_int,
}

static EXPORTED: Callbacks =
    Callbacks { struct_size: size_of::<Callbacks>(), module_function_table: function_table };

extern "C" fn function_table(module: c_int, table: *mut *const Table, size: *mut c_uint) -> c_int {
    let known = match module {
        CORE => &CORE_TABLE,
        2..=SYNC => &OTHER_TABLE,
        _ => return 0,
    };
    // SAFETY: the tool passes NULL, or the address of a variable of its own.
    unsafe {
        if let Some(table) = table.as_mut() {
            *table = known;
        }
        if let Some(size) = size.as_mut() {
            *size = FUNCTIONS as c_uint;
        }
    }
    1
}

extern "C" fn export_table(id: u32) -> *const c_void {
    if id == CALLBACKS { (&raw const EXPORTED).cast() } else { null() }
}

/// Loads a profiler's library, once, and lets it attach itself. Returns true if it does. A failure is silent, as in
/// NVTX itself. The library is never unloaded.
pub(super) fn attach(path: String) -> bool {
    static TRIED: AtomicBool = AtomicBool::new(false);
    const INITIALIZE: &CStr = c"InitializeInjectionNvtx2";
    // Miri loads no libraries.
    if cfg!(miri) || TRIED.swap(true, Ordering::AcqRel) {
        return false;
    }
    let Ok(path) = CString::new(path) else { return false };
    // SAFETY: the names are C strings. The user, who has named the library, answers for its code.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY);
        if library.is_null() {
            return false;
        }
        let initialize = libc::dlsym(library, INITIALIZE.as_ptr());
        if initialize.is_null() {
            return false;
        }
        type Initialize = extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;
        std::mem::transmute::<*mut c_void, Initialize>(initialize)(export_table) != 0
    }
}

/// Begins a range of the calling thread.
pub(crate) fn push(name: fmt::Arguments<'_>) {
    let function = CORE_FUNCTIONS[RANGE_PUSH].load(Ordering::Acquire);
    if !function.is_null() {
        let text = log::truncated::<96>(name, '\0');
        // SAFETY: the tool has stored its nvtxRangePushA there. The text is a C string: its last byte is 0.
        unsafe {
            let push =
                std::mem::transmute::<*mut c_void, extern "C" fn(*const c_char) -> c_int>(function);
            push(text.as_ptr().cast());
        }
    }
}

/// Ends the newest range of the calling thread.
pub(crate) fn pop() {
    let function = CORE_FUNCTIONS[RANGE_POP].load(Ordering::Acquire);
    if !function.is_null() {
        // SAFETY: the tool has stored its nvtxRangePop there.
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(function)() };
    }
}
