//! Modules, their kernels, and launches.

use super::{call, failing, put, version};
use crate::faults::violate;
use crate::{
    Code, INVALID_IMAGE, NOT_FOUND, STREAM_CAPTURE_UNSUPPORTED, UNSUPPORTED_PTX_VERSION, context,
    module, stream,
};
use std::ffi::{CStr, c_char, c_uint, c_void};

/// # Safety
/// The driver's promises hold: `image` is PTX that ends in NUL.
unsafe fn load(to: *mut usize, image: *const c_char) -> Result<(), Code> {
    context::current_device()?;
    refuse_capture("cuModuleLoadData")?;
    if version() < 12_000 {
        return Err(UNSUPPORTED_PTX_VERSION);
    }
    // SAFETY: this function's promise.
    let text = unsafe { CStr::from_ptr(image) }.to_str().map_err(|_| INVALID_IMAGE)?;
    if !text.contains(".version 8.0") {
        return Err(UNSUPPORTED_PTX_VERSION);
    }
    let handle = module::load(text)?;
    // SAFETY: this function's promise.
    unsafe { put(to, handle) };
    Ok(())
}

/// Fails while a stream is being captured, unless the thread is in relaxed mode.
fn refuse_capture(name: &str) -> Result<(), Code> {
    if stream::is_forbidden_by_capture() {
        violate(&format!("{name} during a stream capture"));
        return Err(STREAM_CAPTURE_UNSUPPORTED);
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(to: *mut usize, image: *const c_char) -> Code {
    // SAFETY: the caller's promise.
    call("cuModuleLoadData", |_| unsafe { load(to, image) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    to: *mut usize, image: *const c_char, _count: c_uint, _options: *mut c_uint,
    _values: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller's promise.
    call("cuModuleLoadDataEx", |_| unsafe { load(to, image) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(handle: usize) -> Code {
    call("cuModuleUnload", |_| {
        context::current_device()?;
        refuse_capture("cuModuleUnload")?;
        // As the driver does.
        stream::synchronize_all();
        module::unload(handle)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    to: *mut usize, module: usize, name: *const c_char,
) -> Code {
    call("cuModuleGetFunction", |_| {
        // SAFETY: the caller's promise.
        let wanted = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| NOT_FOUND)?;
        let function = module::function(module, wanted)?;
        // SAFETY: the caller's promise.
        unsafe { put(to, function) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: usize, grid_x: c_uint, _grid_y: c_uint, _grid_z: c_uint, block_x: c_uint,
    _block_y: c_uint, _block_z: c_uint, _shared_bytes: c_uint, on: usize,
    parameters: *const *const u64, _extra: *mut *mut c_void,
) -> Code {
    call("cuLaunchKernel", |fails| {
        let kernel = module::kernel(function)?;
        // SAFETY: `parameters` has a pointer for each of the kernel's parameters, to as many words of 64 bits as the
        // parameter has. All are read before this returns.
        let word = |(i, word): (usize, usize)| unsafe {
            parameters.add(i).read().add(word).read_unaligned()
        };
        let words = kernel.words_of_parameters();
        let numbered =
            words.iter().enumerate().flat_map(|(i, &words)| (0..words).map(move |word| (i, word)));
        let values: Vec<u64> = numbered.map(word).collect();
        let warps = grid_x as usize * block_x.div_ceil(32) as usize;
        // The kernel may be unloaded by the time that it runs.
        let run = move || module::kernel(function)?.run(&values, warps);
        stream::enqueue(on, failing(fails, run))
    })
}
