//! DLPack's C interface for exchange, with which a library exports an array by a few function calls (DLPack 1.3,
//! "DLPack C Exchange API"). PyTorch's `__dlpack__` takes ten microseconds for the same.

use crate::foreign::{NativeStream, ON_GPU, ON_HOST};
use pyo3::ffi::{PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyErr_Clear, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

/// `DLDevice`, with which `DLTensor` goes on behind the pointer to the data.
#[repr(C)]
struct Device {
    kind: c_int,
    number: i32,
}

/// `DLManagedTensorVersioned`, as far as the device of its tensor.
#[repr(C)]
struct Managed {
    major: u32,
    _minor: u32,
    _context: *const c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    _flags: u64,
    _data: *const c_void,
    device: Device,
}

/// `DLPackExchangeAPI`.
#[repr(C)]
struct Functions {
    major: u32,
    _minor: u32,
    _previous: *const c_void,
    _allocate: *const c_void,
    export: unsafe extern "C" fn(*mut PyObject, *mut *mut Managed) -> c_int,
    _import: *const c_void,
    _describe: *const c_void,
    current_stream: unsafe extern "C" fn(c_int, i32, *mut usize) -> c_int,
}

const NAME: &CStr = c"dlpack_exchange_api";
pub(crate) const VERSIONED: &CStr = c"dltensor_versioned";

/// Names of attributes, made once.
pub(crate) struct Exchange {
    functions: Py<PyString>,
    requires_grad: Py<PyString>,
}

impl Exchange {
    pub(crate) fn new(py: Python<'_>) -> Self {
        let name = |name| PyString::new(py, name).unbind();
        Exchange {
            functions: name("__dlpack_c_exchange_api__"),
            requires_grad: name("requires_grad"),
        }
    }

    /// Returns the DLPack capsule of an array, whose work so far precedes later work of `stream`.
    /// `None`: the array's class has no such functions, or `__dlpack__` has to order the work or to tell what is
    /// wrong.
    pub(crate) fn capsule<'py>(
        &self, object: &Bound<'py, PyAny>, stream: NativeStream,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(attribute) = object.get_type().getattr_opt(&self.functions)? else {
            return Ok(None);
        };
        // PyTorch leaves this check to its callers: a tensor with a gradient must not be exported.
        if object.getattr_opt(&self.requires_grad)?.is_some_and(|it| it.is_truthy().unwrap_or(true))
        {
            return Ok(None);
        }
        let Some(functions) = functions(&attribute) else { return Ok(None) };
        let mut tensor = null_mut();
        // SAFETY: DLPack's promise for the functions of an object's class. This thread holds the interpreter's lock.
        let status = unsafe { (functions.export)(object.as_ptr(), &raw mut tensor) };
        if status != 0 || tensor.is_null() {
            clear_error();
            return Ok(None);
        }
        // SAFETY: the tensor is this call's, which the capsule owns from here on.
        let capsule = unsafe { PyCapsule_New(tensor.cast(), VERSIONED.as_ptr(), Some(delete)) };
        // SAFETY: a new reference, or NULL with an exception set.
        let capsule = unsafe { Bound::from_owned_ptr_or_err(object.py(), capsule) }?;
        // SAFETY: DLPack's promise for a tensor of this major version, which the capsule keeps.
        let tensor = unsafe { &*tensor };
        Ok((tensor.major == 1 && is_ordered(functions, &tensor.device, stream)).then_some(capsule))
    }
}

/// The functions in an attribute of a class.
fn functions<'a>(attribute: &'a Bound<'_, PyAny>) -> Option<&'a Functions> {
    // SAFETY: this thread holds the interpreter's lock; any object may be asked. DLPack promises that functions
    // under this name stay as long as the process.
    let functions = unsafe {
        (PyCapsule_IsValid(attribute.as_ptr(), NAME.as_ptr()) != 0)
            .then(|| &*PyCapsule_GetPointer(attribute.as_ptr(), NAME.as_ptr()).cast::<Functions>())
    };
    functions.filter(|functions| functions.major == 1)
}

/// True if work on arrays of a device precedes later work of `stream`, since it is on that stream. 0 and 1 are both the
/// legacy default stream. Arrays of the host have no queued work. Other devices are refused.
fn is_ordered(functions: &Functions, device: &Device, stream: NativeStream) -> bool {
    if !ON_GPU.contains(&device.kind) {
        return ON_HOST.contains(&device.kind);
    }
    let mut current = 0;
    // SAFETY: DLPack's promise for the functions of an object's class.
    let status =
        unsafe { (functions.current_stream)(device.kind, device.number, &raw mut current) };
    if status != 0 {
        clear_error();
    }
    status == 0 && current.max(1) == stream.max(1)
}

fn clear_error() {
    // SAFETY: this thread holds the interpreter's lock.
    unsafe { PyErr_Clear() }
}

/// Deletes the tensor of a capsule, unless a consumer has taken it.
unsafe extern "C" fn delete(capsule: *mut PyObject) {
    // SAFETY: the interpreter calls this once for a capsule made above, and holds its lock.
    unsafe {
        if PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            let tensor = PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast::<Managed>();
            if let Some(deleter) = (*tensor).deleter {
                deleter(tensor);
            }
        }
    }
}
