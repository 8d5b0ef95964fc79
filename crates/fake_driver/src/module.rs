//! Modules, which are loaded and unloaded, the functions in them, and launches.

use crate::calls::driver_functions;
use crate::codes::{
    Code, INVALID_HANDLE, INVALID_IMAGE, NOT_FOUND, STREAM_CAPTURE_UNSUPPORTED,
    UNSUPPORTED_PTX_VERSION,
};
use crate::faults::violate;
use crate::kernels::{self, Kernel};
use crate::{context, lock, new_handle, stream, version};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Mutex;

/// The kernels of each module that is loaded.
static MODULES: Mutex<BTreeMap<usize, Vec<(String, Kernel)>>> = Mutex::new(BTreeMap::new());

/// The functions of these modules that were handed out, each with its module.
static FUNCTIONS: Mutex<BTreeMap<usize, (usize, Kernel)>> = Mutex::new(BTreeMap::new());

driver_functions! {
    fn cuModuleLoadData(image: *const c_char) -> usize {
        // SAFETY: the caller's promise.
        unsafe { load(image)? }
    }

    fn cuModuleLoadDataEx(
        image: *const c_char, _count: c_uint, _options: *mut c_uint, _values: *mut *mut c_void,
    ) -> usize {
        // SAFETY: the caller's promise.
        unsafe { load(image)? }
    }

    /// The module's functions are invalid from now on.
    fn cuModuleUnload(handle: usize) {
        context::current_device()?;
        refuse_capture("cuModuleUnload")?;
        // As the driver does.
        stream::synchronize_all();
        lock(&FUNCTIONS).retain(|_, (module, _)| *module != handle);
        if lock(&MODULES).remove(&handle).is_none() {
            violate("a module was unloaded that is not loaded");
            return Err(INVALID_HANDLE);
        }
    }

    fn cuModuleGetFunction(module: usize, name: *const c_char) -> usize {
        // SAFETY: the caller's promise.
        let wanted = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| NOT_FOUND)?;
        let modules = lock(&MODULES);
        let kernels = modules.get(&module).ok_or(INVALID_HANDLE)?;
        let (_, kernel) = kernels.iter().find(|(known, _)| known == wanted).ok_or(NOT_FOUND)?;
        let handle = new_handle();
        lock(&FUNCTIONS).insert(handle, (module, kernel.clone()));
        handle
    }

    fn cuFuncSetAttribute(function: usize, _attribute: c_uint, _value: c_int) {
        kernel(function)?;
    }

    fn cuLaunchKernel(
        function: usize, grid_x: c_uint, _grid_y: c_uint, _grid_z: c_uint, block_x: c_uint,
        _block_y: c_uint, _block_z: c_uint, _shared_bytes: c_uint, on: usize,
        parameters: *const *const u64, _extra: *mut *mut c_void,
    ) |fails| {
        // SAFETY: `parameters` has a pointer for each of the kernel's parameters, to as many words of 64 bits as the
        // parameter has. All are read before this returns.
        let word = |(i, word): (usize, usize)| unsafe {
            parameters.add(i).read().add(word).read_unaligned()
        };
        let words = kernel(function)?.words_of_parameters();
        let numbered =
            words.iter().enumerate().flat_map(|(i, &words)| (0..words).map(move |word| (i, word)));
        let values: Vec<u64> = numbered.map(word).collect();
        let warps = grid_x as usize * block_x.div_ceil(32) as usize;
        // The kernel may be unloaded by the time that it runs.
        stream::enqueue(on, fails, move || kernel(function)?.run(&values, warps))?;
    }
}

/// Loads a text, and returns the handle of the module.
///
/// # Safety
/// `image` must be a C string.
unsafe fn load(image: *const c_char) -> Result<usize, Code> {
    context::current_device()?;
    refuse_capture("cuModuleLoadData")?;
    // SAFETY: this function's promise.
    let text = unsafe { CStr::from_ptr(image) }.to_str().map_err(|_| INVALID_IMAGE)?;
    if version() < 12_000 || !text.contains(".version 8.0") {
        return Err(UNSUPPORTED_PTX_VERSION);
    }
    let (kernels, handle) = (kernels::load(text)?, new_handle());
    lock(&MODULES).insert(handle, kernels);
    Ok(handle)
}

/// Fails while a stream is being captured, unless the thread is in relaxed mode.
fn refuse_capture(name: &str) -> Result<(), Code> {
    if stream::is_forbidden_by_capture() {
        violate(&format!("{name} during a stream capture"));
        return Err(STREAM_CAPTURE_UNSUPPORTED);
    }
    Ok(())
}

/// Returns the kernel of a function. Notes a violation if its module is not loaded.
fn kernel(function: usize) -> Result<Kernel, Code> {
    let kernel = lock(&FUNCTIONS).get(&function).map(|(_, kernel)| kernel.clone());
    kernel.ok_or_else(|| {
        violate("a kernel was launched, or was still queued, after its module was unloaded");
        INVALID_HANDLE
    })
}

/// Counts the modules that are loaded.
pub(crate) fn count() -> usize {
    lock(&MODULES).len()
}
