//! The driver's functions, under the driver's names and with its signatures.
//!
//! # Safety
//! Each trusts its caller as the driver does: pointers lead to what the CUDA driver API's reference
//! says of them.

#![expect(missing_docs, reason = "the driver's reference has them")]
#![expect(clippy::missing_safety_doc, reason = "said once, above, for all of them")]

use crate::context::{self, Handle};
use crate::faults::{begin, violate};
use crate::memory::{self, Block, Kind};
use crate::op::Op;
use crate::{
    Code, INVALID_CONTEXT, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, NO_DEVICE, NOT_FOUND,
    OUT_OF_MEMORY, SUCCESS, UNSUPPORTED_PTX_VERSION, kernels, lock, setting, stream,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Mutex;

/// Does a call's work, unless the call is to fail. The work gets the code that what it queues is
/// to fail with.
fn call(name: &'static str, work: impl FnOnce(Option<Code>) -> Result<(), Code>) -> Code {
    begin(name).and_then(work).err().unwrap_or(SUCCESS)
}

/// # Safety
/// `to` must be writable.
unsafe fn put<T>(to: *mut T, value: T) {
    // SAFETY: this function's promise.
    unsafe { to.write(value) };
}

/// The names of the codes that tests use; the driver has many more.
const NAMES: [(Code, &CStr); 15] = [
    (0, c"CUDA_SUCCESS"),
    (1, c"CUDA_ERROR_INVALID_VALUE"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY"),
    (3, c"CUDA_ERROR_NOT_INITIALIZED"),
    (100, c"CUDA_ERROR_NO_DEVICE"),
    (101, c"CUDA_ERROR_INVALID_DEVICE"),
    (200, c"CUDA_ERROR_INVALID_IMAGE"),
    (201, c"CUDA_ERROR_INVALID_CONTEXT"),
    (222, c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
    (400, c"CUDA_ERROR_INVALID_HANDLE"),
    (500, c"CUDA_ERROR_NOT_FOUND"),
    (700, c"CUDA_ERROR_ILLEGAL_ADDRESS"),
    (719, c"CUDA_ERROR_LAUNCH_FAILED"),
    (801, c"CUDA_ERROR_NOT_SUPPORTED"),
    (999, c"CUDA_ERROR_UNKNOWN"),
];

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(code: Code, name: *mut *const c_char) -> Code {
    let known = NAMES.iter().find(|(known, _)| *known == code);
    // SAFETY: the caller's promise.
    unsafe { put(name, known.map_or(std::ptr::null(), |(_, name)| name.as_ptr())) };
    if known.is_some() { SUCCESS } else { INVALID_VALUE }
}

fn version() -> c_int {
    setting("STAND_IN_DRIVER_VERSION", 12_080) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(to: *mut c_int) -> Code {
    // SAFETY: the caller's promise.
    unsafe { put(to, version()) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: c_uint) -> Code {
    call("cuInit", |_| if context::devices() == 0 { Err(NO_DEVICE) } else { Ok(()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Code {
    call("cuDeviceGetCount", |_| {
        // SAFETY: the caller's promise.
        unsafe { put(count, context::devices() as c_int) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Code {
    call("cuDeviceGet", |_| {
        context::device(ordinal)?;
        // SAFETY: the caller's promise.
        unsafe { put(device, ordinal) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, size: c_int, device: c_int) -> Code {
    call("cuDeviceGetName", |_| {
        let text = format!("stand-in {}\0", context::device(device)?);
        let len = text.len().min(usize::try_from(size).unwrap_or(0));
        // SAFETY: the caller promises `size` writable bytes.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), name.cast(), len) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    _attribute: c_uint,
    device: c_int,
) -> Code {
    call("cuDeviceGetAttribute", |_| {
        context::device(device)?;
        // SAFETY: the caller's promise.
        unsafe { put(value, 4) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(to: *mut Handle, device: c_int) -> Code {
    call("cuDevicePrimaryCtxRetain", |_| {
        let handle = context::retain_primary(context::device(device)?);
        // SAFETY: the caller's promise.
        unsafe { put(to, handle) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Code {
    call("cuDevicePrimaryCtxRelease_v2", |_| context::release_primary(context::device(device)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxReset_v2(device: c_int) -> Code {
    violate("a primary context was reset, which takes it from everybody");
    call("cuDevicePrimaryCtxReset_v2", |_| context::device(device).map(|_| ()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v2(to: *mut Handle, _flags: c_uint, device: c_int) -> Code {
    call("cuCtxCreate_v2", |_| {
        let handle = context::create(context::device(device)?);
        // SAFETY: the caller's promise.
        unsafe { put(to, handle) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxDestroy_v2(handle: Handle) -> Code {
    call("cuCtxDestroy_v2", |_| {
        context::destroy(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(to: *mut Handle) -> Code {
    call("cuCtxGetCurrent", |_| {
        // SAFETY: the caller's promise.
        unsafe { put(to, context::current()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(handle: Handle) -> Code {
    call("cuCtxSetCurrent", |_| context::set_current(handle))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(handle: Handle) -> Code {
    call("cuCtxPushCurrent_v2", |_| context::push(handle))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(to: *mut Handle) -> Code {
    call("cuCtxPopCurrent_v2", |_| {
        // SAFETY: the caller's promise.
        unsafe { put(to, context::pop()?) };
        Ok(())
    })
}

/// The kernels of each module that is loaded.
static MODULES: Mutex<Vec<Vec<Op>>> = Mutex::new(Vec::new());

/// How many modules were loaded.
pub(crate) fn modules() -> usize {
    lock(&MODULES).len()
}

/// # Safety
/// As for the driver: `image` is PTX that ends in NUL.
unsafe fn load(to: *mut usize, image: *const c_char) -> Result<(), Code> {
    context::current_device()?;
    if version() < 12_000 {
        return Err(UNSUPPORTED_PTX_VERSION);
    }
    // SAFETY: this function's promise.
    let text = unsafe { CStr::from_ptr(image) }.to_str().map_err(|_| INVALID_IMAGE)?;
    if !text.contains(".version 8.0") {
        return Err(UNSUPPORTED_PTX_VERSION);
    }
    let names = text.split(".visible .entry ").skip(1).filter_map(|rest| rest.split('(').next());
    let mut modules = lock(&MODULES);
    modules.push(names.filter_map(kernels::find).collect());
    // SAFETY: this function's promise.
    unsafe { put(to, modules.len()) };
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(to: *mut usize, image: *const c_char) -> Code {
    // SAFETY: the caller's promise.
    call("cuModuleLoadData", |_| unsafe { load(to, image) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    to: *mut usize,
    image: *const c_char,
    _count: c_uint,
    _options: *mut c_uint,
    _values: *mut *mut c_void,
) -> Code {
    // SAFETY: the caller's promise.
    call("cuModuleLoadDataEx", |_| unsafe { load(to, image) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(_module: usize) -> Code {
    call("cuModuleUnload", |_| Ok(()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    to: *mut usize,
    module: usize,
    name: *const c_char,
) -> Code {
    call("cuModuleGetFunction", |_| {
        // SAFETY: the caller's promise.
        let wanted = unsafe { CStr::from_ptr(name) }.to_str().ok().and_then(kernels::find);
        let modules = lock(&MODULES);
        let ops = modules.get(module.wrapping_sub(1)).ok_or(INVALID_HANDLE)?;
        let op = wanted.filter(|op| ops.contains(op)).ok_or(NOT_FOUND)?;
        // SAFETY: the caller's promise.
        unsafe { put(to, op as usize + 1) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: usize,
    _grid_x: c_uint,
    _grid_y: c_uint,
    _grid_z: c_uint,
    _block_x: c_uint,
    _block_y: c_uint,
    _block_z: c_uint,
    _shared_bytes: c_uint,
    on: usize,
    parameters: *const *const u64,
    _extra: *mut *mut c_void,
) -> Code {
    call("cuLaunchKernel", |fails| {
        let op = *Op::ALL.get(function.wrapping_sub(1)).ok_or(INVALID_HANDLE)?;
        // SAFETY: the kernels' four parameters are 64 bits each, and are read before this returns.
        let [a, b, out, n] =
            std::array::from_fn(|i| unsafe { parameters.add(i).read().read() } as usize);
        stream::enqueue(on, failing(fails, move || kernels::run(op, [a, b, out], n)))
    })
}

/// Work, or in its place the failure that the plan has for it.
fn failing(
    fails: Option<Code>,
    work: impl FnOnce() -> Result<(), Code> + Send + 'static,
) -> stream::Work {
    match fails {
        Some(code) => Box::new(move || Err(code)),
        None => Box::new(work),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(
    to: *mut usize,
    _flags: c_uint,
    _priority: c_int,
) -> Code {
    call("cuStreamCreateWithPriority", |_| {
        context::current_device()?;
        let handle = stream::create().ok_or(OUT_OF_MEMORY)?;
        // SAFETY: the caller's promise.
        unsafe { put(to, handle) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(handle: usize) -> Code {
    call("cuStreamDestroy_v2", |_| stream::destroy(handle))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(handle: usize) -> Code {
    // A stream is waited for even where the call fails: what it was given must be at rest then.
    let begun = begin("cuStreamSynchronize");
    let waited = stream::synchronize(handle);
    begun.map(|_| ()).and(waited).err().unwrap_or(SUCCESS)
}

/// # Safety
/// As for the driver.
unsafe fn allocate<T>(
    to: *mut T,
    kind: Kind,
    bytes: usize,
    typed: impl FnOnce(usize) -> T,
) -> Result<(), Code> {
    let address = memory::allocate(kind, context::current_device()?, bytes)?;
    // SAFETY: this function's promise.
    unsafe { put(to, typed(address)) };
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(to: *mut u64, bytes: usize) -> Code {
    // SAFETY: the caller's promise.
    call("cuMemAlloc_v2", |_| unsafe { allocate(to, Kind::Device, bytes, |at| at as u64) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocManaged(to: *mut u64, bytes: usize, _flags: c_uint) -> Code {
    // SAFETY: the caller's promise.
    call("cuMemAllocManaged", |_| unsafe { allocate(to, Kind::Managed, bytes, |at| at as u64) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(
    to: *mut *mut c_void,
    bytes: usize,
    _flags: c_uint,
) -> Code {
    call("cuMemHostAlloc", |_| {
        // SAFETY: the caller's promise.
        unsafe { allocate(to, Kind::Host, bytes, std::ptr::with_exposed_provenance_mut) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> Code {
    call("cuMemFree_v2", |_| {
        stream::synchronize_all();
        memory::free(address as usize, false)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(address: *mut c_void) -> Code {
    call("cuMemFreeHost", |_| {
        stream::synchronize_all();
        memory::free(address.addr(), true)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code {
    call("cuMemGetInfo_v2", |_| {
        let ordinal = context::current_device()?;
        // SAFETY: the caller's promise.
        unsafe {
            put(free, memory::free_bytes(ordinal));
            put(total, memory::device_bytes());
        }
        Ok(())
    })
}

/// The device's end of a copy.
fn device_end(address: u64, bytes: usize) -> Result<usize, Code> {
    memory::reach(address as usize, bytes).map(<*mut u8>::expose_provenance).ok_or_else(|| {
        violate(&format!("a copy of {bytes} bytes at {address:#x}, where no device has so many"));
        INVALID_VALUE
    })
}

/// # Safety
/// Both must lead to `bytes` bytes.
unsafe fn copy(to: usize, from: usize, bytes: usize) {
    let to = std::ptr::with_exposed_provenance_mut::<u8>(to);
    let from = std::ptr::with_exposed_provenance::<u8>(from);
    // SAFETY: this function's promise; the two may overlap, as `copy` allows.
    unsafe { std::ptr::copy(from, to, bytes) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> Code {
    call("cuMemcpyHtoD_v2", |_| {
        context::current_device()?;
        stream::synchronize_all();
        // SAFETY: the caller's promise for the host's end; the other was found.
        unsafe { copy(device_end(to, bytes)?, from.expose_provenance(), bytes) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> Code {
    call("cuMemcpyDtoH_v2", |_| {
        context::current_device()?;
        stream::synchronize_all();
        // SAFETY: as in cuMemcpyHtoD_v2.
        unsafe { copy(to.expose_provenance(), device_end(from, bytes)?, bytes) };
        Ok(())
    })
}

/// Host memory may be copied later only if it is page-locked.
fn require_pinned(address: usize, bytes: usize) {
    if memory::reach(address, bytes).is_none() {
        violate(&format!("an asynchronous copy of pageable memory at {address:#x}"));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    bytes: usize,
    on: usize,
) -> Code {
    call("cuMemcpyHtoDAsync_v2", |fails| {
        let (to, from) = (device_end(to, bytes)?, from.expose_provenance());
        require_pinned(from, bytes);
        let work = move || {
            // SAFETY: the caller promises the host's end until it synchronises; the other was
            // found, and freeing it waits for all streams.
            unsafe { copy(to, from, bytes) };
            Ok(())
        };
        stream::enqueue(on, failing(fails, work))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    bytes: usize,
    on: usize,
) -> Code {
    call("cuMemcpyDtoHAsync_v2", |fails| {
        let (to, from) = (to.expose_provenance(), device_end(from, bytes)?);
        require_pinned(to, bytes);
        let work = move || {
            // SAFETY: as in cuMemcpyHtoDAsync_v2.
            unsafe { copy(to, from, bytes) };
            Ok(())
        };
        stream::enqueue(on, failing(fails, work))
    })
}

/// Fills at once, after all that was queued: on the legacy default stream, the only one here.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD32Async(to: u64, value: c_uint, count: usize, _on: usize) -> Code {
    call("cuMemsetD32Async", |_| {
        stream::synchronize_all();
        let at = std::ptr::with_exposed_provenance_mut::<c_uint>(device_end(to, count * 4)?);
        // SAFETY: the elements were found, and nothing is under way in them.
        unsafe { std::slice::from_raw_parts_mut(at, count) }.fill(value);
        Ok(())
    })
}

const MEMORY_TYPE: c_uint = 2;
const DEVICE_POINTER: c_uint = 3;
const IS_MANAGED: c_uint = 8;
const DEVICE_ORDINAL: c_uint = 9;
const RANGE_START: c_uint = 11;
const RANGE_BYTES: c_uint = 12;
const NO_ORDINAL: c_int = -2;

/// Writes one attribute of an address, as the driver does: nothing for ranges that it lacks.
///
/// # Safety
/// `value` must be writable for the attribute's type.
unsafe fn put_attribute(
    value: *mut c_void,
    attribute: c_uint,
    address: u64,
    block: Option<Block>,
) -> Result<(), Code> {
    let is = |kind| block.is_some_and(|block| block.kind == kind);
    // SAFETY: this function's promise, in each arm.
    unsafe {
        match (attribute, block) {
            (MEMORY_TYPE, None) => put(value.cast::<c_uint>(), 0),
            (MEMORY_TYPE, Some(_)) => put(value.cast(), if is(Kind::Host) { 1u32 } else { 2 }),
            (IS_MANAGED, _) => put(value.cast::<u8>(), is(Kind::Managed).into()),
            (DEVICE_ORDINAL, None) => put(value.cast(), NO_ORDINAL),
            (DEVICE_ORDINAL, Some(block)) => put(value.cast(), block.ordinal as c_int),
            (DEVICE_POINTER, Some(_)) if context::current() != 0 => put(value.cast(), address),
            (DEVICE_POINTER, Some(_)) => return Err(INVALID_CONTEXT),
            (DEVICE_POINTER, None) => return Err(INVALID_VALUE),
            (RANGE_START, Some(block)) => put(value.cast(), block.start as u64),
            (RANGE_BYTES, Some(block)) => put(value.cast(), block.bytes),
            (RANGE_START | RANGE_BYTES, None) => {}
            _ => return Err(INVALID_VALUE),
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttribute(
    value: *mut c_void,
    attribute: c_uint,
    address: u64,
) -> Code {
    call("cuPointerGetAttribute", |_| {
        // SAFETY: the caller's promise.
        unsafe { put_attribute(value, attribute, address, memory::find(address as usize)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttributes(
    count: c_uint,
    attributes: *const c_uint,
    values: *const *mut c_void,
    address: u64,
) -> Code {
    call("cuPointerGetAttributes", |_| {
        let block = memory::find(address as usize);
        for i in 0..count as usize {
            // SAFETY: the caller promises `count` of both. What one attribute lacks is no error of
            // the call.
            let _ = unsafe {
                put_attribute(values.add(i).read(), attributes.add(i).read(), address, block)
            };
        }
        Ok(())
    })
}
