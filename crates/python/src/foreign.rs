//! Arrays that other libraries export through DLPack: by the C functions of their class (DLPack 1.3, "DLPack C Exchange
//! API"), or by `__dlpack__`, which takes ten microseconds in PyTorch.

use crate::array::{ALIGNED, Array, CONTIGUOUS, Described, Fields, WRITEABLE};
use crate::shapes::MOST_AXES;
use pyo3::exceptions::PyException;
use pyo3::ffi::{
    PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyImport_GetModuleDict, PyObject,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

/// `DLTensor`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Tensor {
    data: usize,
    device_type: c_int,
    device_id: i32,
    axes: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: usize,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Managed {
    major: u32,
    _minor: u32,
    _context: *const c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: Tensor,
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

/// The names of capsules.
const FUNCTIONS: &CStr = c"dlpack_exchange_api";
const VERSIONED: &CStr = c"dltensor_versioned";
const UNVERSIONED: &CStr = c"dltensor";

/// Flags of a tensor that is read-only, or a copy, so that writes do not reach the exporter.
const UNWRITABLE: u64 = 1 | 2;

/// `DLDeviceType`: memory of the host, pageable and page-locked, and of a GPU.
const ON_HOST: [c_int; 2] = [1, 3];
const ON_GPU: [c_int; 2] = [2, 13];

/// A stream as DLPack numbers it: the driver's handle, or 1 for the legacy default stream.
pub(crate) type NativeStream = usize;

/// The legacy default stream. Every call is ordered with it, and so are the library's streams.
pub(crate) const LEGACY_DEFAULT_STREAM: NativeStream = 1;

/// The element types: NumPy's typestr, DLPack's code, and the element's bytes.
const TYPES: [(&str, u8, isize); 12] = [
    ("|b1", 6, 1),
    ("|u1", 1, 1),
    ("|i1", 0, 1),
    ("<u2", 1, 2),
    ("<i2", 0, 2),
    ("<u4", 1, 4),
    ("<i4", 0, 4),
    ("<u8", 1, 8),
    ("<i8", 0, 8),
    ("<f2", 2, 2),
    ("<f4", 2, 4),
    ("<f8", 2, 8),
];

/// The Python objects for calls of the protocol, made once.
pub(crate) struct Foreign {
    functions: Py<PyString>,
    requires_grad: Py<PyString>,
    dlpack: Py<PyString>,
    dlpack_device: Py<PyString>,
    arrow: Py<PyString>,
    torch: Py<PyString>,
    is_neg: Py<PyString>,
    jax: Py<PyString>,
    jax_array: Py<PyString>,
    /// The arguments of `__dlpack__` for arrays of the host, and of a GPU for the legacy default stream.
    keywords: [Py<PyDict>; 2],
    /// NumPy's dtypes of the rows of [`TYPES`].
    dtypes: Vec<Py<PyAny>>,
}

/// The arguments of `__dlpack__`: the array's work shall precede later work of `stream`.
fn keywords(py: Python<'_>, stream: Option<NativeStream>) -> PyResult<Py<PyDict>> {
    let keywords = PyDict::new(py);
    keywords.set_item("stream", stream)?;
    keywords.set_item("max_version", (1, 0))?;
    Ok(keywords.unbind())
}

/// Returns a module that the program has imported.
fn imported<'py>(py: Python<'py>, name: &Py<PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    // SAFETY: this thread holds the interpreter's lock; the dict is the interpreter's own.
    let modules = unsafe { Bound::from_borrowed_ptr(py, PyImport_GetModuleDict()) };
    modules.cast::<PyDict>()?.get_item(name)
}

impl Foreign {
    pub(crate) fn new(numpy: &Bound<'_, PyModule>) -> PyResult<Self> {
        let py = numpy.py();
        let name = |name| PyString::new(py, name).unbind();
        let dtype = numpy.getattr("dtype")?;
        let dtypes = TYPES.iter().map(|(typestr, ..)| Ok(dtype.call1((*typestr,))?.unbind()));
        Ok(Foreign {
            functions: name("__dlpack_c_exchange_api__"),
            requires_grad: name("requires_grad"),
            dlpack: name("__dlpack__"),
            dlpack_device: name("__dlpack_device__"),
            arrow: name("__arrow_c_array__"),
            torch: name("torch"),
            is_neg: name("is_neg"),
            jax: name("jax"),
            jax_array: name("Array"),
            keywords: [keywords(py, None)?, keywords(py, Some(LEGACY_DEFAULT_STREAM))?],
            dtypes: dtypes.collect::<PyResult<_>>()?,
        })
    }

    /// Returns another library's array. Its queued work precedes later work of `stream`. Returns `None` for other
    /// objects, and after an error of the library: the package's Python code meets the error again.
    pub(crate) fn found<'py>(
        &self, object: &Bound<'py, PyAny>, stream: NativeStream,
    ) -> PyResult<Option<Array<'py>>> {
        self.read(object, stream).or_else(|error| {
            if error.is_instance_of::<PyException>(object.py()) { Ok(None) } else { Err(error) }
        })
    }

    fn read<'py>(
        &self, object: &Bound<'py, PyAny>, stream: NativeStream,
    ) -> PyResult<Option<Array<'py>>> {
        if self.is_negated(object)? {
            return Ok(None);
        }
        let capsule = match self.capsule(object, stream)? {
            None => self.requested(object, stream)?,
            capsule => capsule,
        };
        Ok(capsule.and_then(|capsule| self.array(object, capsule)))
    }

    /// True for a PyTorch tensor with the negated elements of its memory, which DLPack cannot describe. (This module
    /// accepts no complex elements, which may be conjugated.)
    fn is_negated(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        if imported(object.py(), &self.torch)?.is_none() {
            return Ok(false);
        }
        object.getattr_opt(&self.is_neg)?.map_or(Ok(false), |is_neg| is_neg.call0()?.is_truthy())
    }

    /// True for an array of JAX, which must not be written, since other arrays may share its memory. Its tensor may not
    /// have the flag for that.
    pub(crate) fn is_immutable(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Some(jax) = imported(object.py(), &self.jax)? else { return Ok(false) };
        jax.getattr_opt(&self.jax_array)?.map_or(Ok(false), |class| object.is_instance(&class))
    }

    /// Returns the DLPack capsule of an array, made by the C functions of its class. The array's queued work precedes
    /// later work of `stream`. Returns `None` if the class has no such functions, or if `__dlpack__` must order the
    /// work or raise the error.
    pub(crate) fn capsule<'py>(
        &self, object: &Bound<'py, PyAny>, stream: NativeStream,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(attribute) = object.get_type().getattr_opt(&self.functions)? else {
            return Ok(None);
        };
        // PyTorch's functions do not refuse a tensor that requires a gradient. Its `__dlpack__` does.
        if object.getattr_opt(&self.requires_grad)?.is_some_and(|it| it.is_truthy().unwrap_or(true))
        {
            return Ok(None);
        }
        // SAFETY: DLPack promises that functions under this name stay as long as the process.
        let functions =
            pointer_in(&attribute, FUNCTIONS).map(|at| unsafe { &*at.cast::<Functions>() });
        let Some(functions) = functions.filter(|functions| functions.major == 1) else {
            return Ok(None);
        };
        let mut tensor = null_mut();
        // SAFETY: DLPack's promise for the functions of an object's class. This thread holds the interpreter's lock.
        let status = unsafe { (functions.export)(object.as_ptr(), &raw mut tensor) };
        if status != 0 || tensor.is_null() {
            PyErr::take(object.py());
            return Ok(None);
        }
        // SAFETY: the tensor is this call's; from here on the capsule owns it.
        let capsule = unsafe { PyCapsule_New(tensor.cast(), VERSIONED.as_ptr(), Some(delete)) };
        // SAFETY: a new reference, or NULL with an exception set.
        let capsule = unsafe { Bound::from_owned_ptr_or_err(object.py(), capsule) }?;
        // SAFETY: DLPack's promise for a tensor of this major version, which the capsule keeps.
        let Managed { major, tensor, .. } = unsafe { &*tensor };
        let is_usable = *major == 1 && is_ordered(functions, tensor, stream);
        if !is_usable {
            PyErr::take(object.py());
        }
        Ok(is_usable.then_some(capsule))
    }

    /// Returns the capsule that an object's `__dlpack__` makes.
    fn requested<'py>(
        &self, object: &Bound<'py, PyAny>, stream: NativeStream,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(device) = object.getattr_opt(&self.dlpack_device)? else { return Ok(None) };
        let (kind, _): (c_int, i32) = device.call0()?.extract()?;
        let is_on_gpu = ON_GPU.contains(&kind);
        // The package handles Arrow's arrays: they are read-only, though not all versions of pyarrow say so, and their
        // results are Arrow's as well.
        if !is_on_gpu && (!ON_HOST.contains(&kind) || object.hasattr(&self.arrow)?) {
            return Ok(None);
        }
        let py = object.py();
        let keywords = match (is_on_gpu, stream) {
            (false, _) => self.keywords[0].clone_ref(py),
            (true, LEGACY_DEFAULT_STREAM) => self.keywords[1].clone_ref(py),
            (true, stream) => keywords(py, Some(stream))?,
        };
        object.getattr(&self.dlpack)?.call((), Some(keywords.bind(py))).map(Some)
    }

    /// Returns the array of a DLPack capsule. `None` for a tensor that this module does not read.
    fn array<'py>(
        &self, object: &Bound<'py, PyAny>, capsule: Bound<'py, PyAny>,
    ) -> Option<Array<'py>> {
        let (tensor, is_writable) = match pointer_in(&capsule, VERSIONED) {
            Some(managed) => {
                // SAFETY: DLPack's promise for a capsule of this name, which lives on.
                let managed = unsafe { &*managed.cast::<Managed>() };
                if managed.major != 1 {
                    return None;
                }
                (managed.tensor, managed.flags & UNWRITABLE == 0)
            }
            // SAFETY: as above; the tensor comes first.
            None => (unsafe { pointer_in(&capsule, UNVERSIONED)?.cast::<Tensor>().read() }, true),
        };
        let row = TYPES.iter().position(|(_, code, bytes)| {
            (*code, 8 * bytes, 1) == (tensor.code, tensor.bits.into(), tensor.lanes)
        })?;
        let (bytes, is_on_gpu) = (TYPES[row].2, ON_GPU.contains(&tensor.device_type));
        if !is_on_gpu && !ON_HOST.contains(&tensor.device_type) {
            return None;
        }
        let axes = usize::try_from(tensor.axes).ok().filter(|axes| *axes <= MOST_AXES)?;
        let numbers = |at: *const i64| -> Option<Vec<isize>> {
            // SAFETY: DLPack's promise: there is a number for each axis.
            let number = |axis| unsafe { at.add(axis).read_unaligned() } as isize;
            (axes == 0 || !at.is_null()).then(|| (0..axes).map(number).collect())
        };
        let shape = numbers(tensor.shape)?;
        let (mut contiguous, mut size) = (vec![0; axes], bytes);
        for axis in (0..axes).rev() {
            contiguous[axis] = size;
            size = size.checked_mul(shape[axis]).filter(|size| *size > 0)?;
        }
        let strides = match tensor.strides.is_null() {
            true => contiguous.clone(),
            false => {
                let strides = numbers(tensor.strides)?.into_iter();
                strides.map(|stride| stride.checked_mul(bytes)).collect::<Option<_>>()?
            }
        };
        let address = tensor.data.checked_add(tensor.byte_offset)?;
        if tensor.data == 0 || !address.is_multiple_of(bytes.unsigned_abs()) {
            return None;
        }
        let is_contiguous = (0..axes).all(|at| shape[at] == 1 || strides[at] == contiguous[at]);
        let flag = |flag: c_int, is_set: bool| if is_set { flag } else { 0 };
        let numbers: Box<[isize]> = [shape, strides].concat().into();
        let fields = Fields {
            _object: [0; 2],
            data: address,
            axes: axes as c_int,
            shape: numbers.as_ptr(),
            strides: numbers[axes..].as_ptr(),
            _base: std::ptr::null(),
            dtype: self.dtypes[row].as_ptr().cast(),
            flags: ALIGNED | flag(CONTIGUOUS, is_contiguous) | flag(WRITEABLE, is_writable),
        };
        Some(Array {
            object: Some(object.clone()),
            owner: capsule,
            described: Some(Box::new(Described { fields, _numbers: numbers })),
            device: is_on_gpu.then_some(tensor.device_id),
        })
    }
}

/// Returns the pointer in an object, if the object is a capsule with a name.
fn pointer_in(object: &Bound<'_, PyAny>, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: this thread holds the interpreter's lock; any object may be asked.
    unsafe {
        (PyCapsule_IsValid(object.as_ptr(), name.as_ptr()) != 0)
            .then(|| PyCapsule_GetPointer(object.as_ptr(), name.as_ptr()))
    }
}

/// True if a tensor's queued work is on `stream`, and so precedes later work of it. Both 0 and 1 are the legacy default
/// stream. Arrays of the host have no queued work. False for other devices.
fn is_ordered(functions: &Functions, tensor: &Tensor, stream: NativeStream) -> bool {
    if !ON_GPU.contains(&tensor.device_type) {
        return ON_HOST.contains(&tensor.device_type);
    }
    let mut current = 0;
    // SAFETY: DLPack's promise for the functions of an object's class.
    let status = unsafe {
        (functions.current_stream)(tensor.device_type, tensor.device_id, &raw mut current)
    };
    status == 0 && current.max(1) == stream.max(1)
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
