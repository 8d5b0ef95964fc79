//! Arrays of other libraries, by DLPack or the CUDA array interface.

use crate::array::{ALIGNED, Array, CONTIGUOUS, Described, Fields, WRITEABLE};
use crate::exchange::{Exchange, VERSIONED};
use crate::strided::MOST_AXES;
use pyo3::exceptions::PyException;
use pyo3::ffi::{PyCapsule_GetPointer, PyCapsule_IsValid, PyImport_GetModuleDict};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::ffi::{CStr, c_int};

/// `DLTensor`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Tensor {
    data: usize,
    device_type: i32,
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
#[derive(Clone, Copy)]
struct Versioned {
    major: u32,
    _minor: u32,
    _context: usize,
    _deleter: usize,
    flags: u64,
    tensor: Tensor,
}

const UNVERSIONED: &CStr = c"dltensor";

/// Flags of a tensor: it is read-only, or a copy, whose changes do not reach the exporter.
const UNWRITABLE: u64 = 1 | 2;

/// DLDeviceType: the host's memory, also page-locked, and a GPU's.
pub(crate) const ON_HOST: [i32; 2] = [1, 3];
pub(crate) const ON_GPU: [i32; 2] = [2, 13];

/// A stream as DLPack numbers it: the driver's handle, or 1 for the legacy default stream.
pub(crate) type NativeStream = usize;

/// The legacy default stream, with which every call is ordered, and the library's own streams.
pub(crate) const LEGACY_DEFAULT_STREAM: NativeStream = 1;

/// The element types: NumPy's typestr, DLPack's code and bits, and the bytes.
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

/// Python objects that calls of the protocols use, made once: names, arguments and dtypes.
pub(crate) struct Foreign {
    dlpack: Py<PyString>,
    dlpack_device: Py<PyString>,
    interface: Py<PyString>,
    arrow: Py<PyString>,
    torch: Py<PyString>,
    is_neg: Py<PyString>,
    jax: Py<PyString>,
    jax_array: Py<PyString>,
    pub(crate) exchange: Exchange,
    /// The arguments of `__dlpack__` for arrays of the host, and of a GPU for the legacy default stream.
    keywords: [Py<PyDict>; 2],
    /// NumPy's dtypes for the rows of [`TYPES`].
    dtypes: Vec<Py<PyAny>>,
}

/// The memory and the layout that another library's array states, not checked yet.
struct Place<'py> {
    owner: Bound<'py, PyAny>,
    address: usize,
    shape: Vec<isize>,
    /// In bytes; `None`: the array is contiguous.
    strides: Option<Vec<isize>>,
    is_writable: bool,
    device: Option<i32>,
}

/// The arguments of `__dlpack__` for an array, whose work precedes later work of a stream.
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
            dlpack: name("__dlpack__"),
            dlpack_device: name("__dlpack_device__"),
            interface: name("__cuda_array_interface__"),
            arrow: name("__arrow_c_array__"),
            torch: name("torch"),
            is_neg: name("is_neg"),
            jax: name("jax"),
            jax_array: name("Array"),
            exchange: Exchange::new(py),
            keywords: [keywords(py, None)?, keywords(py, Some(LEGACY_DEFAULT_STREAM))?],
            dtypes: dtypes.collect::<PyResult<_>>()?,
        })
    }

    /// Returns the elements of another library's array, whose work so far precedes later work of `stream`. Returns
    /// `None` for other objects, and after an error of the library, which Python code of the package meets again.
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
        let py = object.py();
        if self.is_negated(object)? {
            return Ok(None);
        }
        if let Some(capsule) = self.exchange.capsule(object, stream)? {
            return Ok(self.tensor(capsule));
        }
        if let Some(device) = object.getattr_opt(&self.dlpack_device)? {
            let (kind, _): (i32, i32) = device.call0()?.extract()?;
            let is_on_gpu = ON_GPU.contains(&kind);
            if !is_on_gpu && !ON_HOST.contains(&kind) {
                return Ok(None);
            }
            let of_stream = is_on_gpu && stream != LEGACY_DEFAULT_STREAM;
            let keywords = match of_stream {
                true => keywords(py, Some(stream))?,
                false => self.keywords[usize::from(is_on_gpu)].clone_ref(py),
            };
            let method = object.getattr(&self.dlpack)?;
            let array = self.tensor(method.call((), Some(keywords.bind(py)))?);
            // Arrow's arrays are read-only, though not all versions of pyarrow say so. Their results are Arrow's, too,
            // which the package makes.
            let is_arrow = !is_on_gpu && object.hasattr(&self.arrow)?;
            return Ok(array.filter(|_| !is_arrow));
        }
        match object.getattr_opt(&self.interface)? {
            Some(interface) => self.described(object, interface.cast::<PyDict>()?),
            None => Ok(None),
        }
    }

    /// True if the elements of a tensor of PyTorch's are those in memory with another sign, which DLPack cannot
    /// tell. (Complex elements, which may be conjugated, are not for this module.)
    fn is_negated(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        if imported(object.py(), &self.torch)?.is_none() {
            return Ok(false);
        }
        object.getattr_opt(&self.is_neg)?.map_or(Ok(false), |is_neg| is_neg.call0()?.is_truthy())
    }

    /// True if an array must not be written, though its tensor may have no flag for that: arrays of JAX share
    /// their memory with others.
    pub(crate) fn is_immutable(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Some(jax) = imported(object.py(), &self.jax)? else { return Ok(false) };
        jax.getattr_opt(&self.jax_array)?.map_or(Ok(false), |class| object.is_instance(&class))
    }

    /// The array of a DLPack capsule.
    fn tensor<'py>(&self, capsule: Bound<'py, PyAny>) -> Option<Array<'py>> {
        let pointer = |name: &CStr| {
            // SAFETY: this thread holds the interpreter's lock; any object may be asked.
            unsafe {
                (PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) != 0)
                    .then(|| PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()))
            }
        };
        let (tensor, is_writable) = match pointer(VERSIONED) {
            Some(managed) => {
                // SAFETY: DLPack's promise for a capsule of this name, which lives on.
                let managed = unsafe { managed.cast::<Versioned>().read() };
                if managed.major != 1 {
                    return None;
                }
                (managed.tensor, managed.flags & UNWRITABLE == 0)
            }
            // SAFETY: as above; the tensor comes first.
            None => (unsafe { pointer(UNVERSIONED)?.cast::<Tensor>().read() }, true),
        };
        let is_such = |(_, code, bytes): &&(&str, u8, isize)| {
            (*code, 8 * bytes, 1) == (tensor.code, tensor.bits.into(), tensor.lanes)
        };
        let row = TYPES.iter().position(|row| is_such(&row))?;
        let (is_on_gpu, device_id) = (ON_GPU.contains(&tensor.device_type), tensor.device_id);
        if !is_on_gpu && !ON_HOST.contains(&tensor.device_type) {
            return None;
        }
        let axes = usize::try_from(tensor.axes).ok().filter(|axes| *axes <= MOST_AXES)?;
        let numbers = |at: *const i64| -> Option<Vec<isize>> {
            // SAFETY: DLPack's promise: there is a number for each axis.
            let number = |axis| unsafe { at.add(axis).read_unaligned() } as isize;
            (axes == 0 || !at.is_null()).then(|| (0..axes).map(number).collect())
        };
        let bytes = TYPES[row].2;
        let in_bytes = |strides: Vec<isize>| -> Option<Vec<isize>> {
            strides.into_iter().map(|stride| stride.checked_mul(bytes)).collect()
        };
        let strides = match tensor.strides.is_null() {
            true => None,
            false => Some(in_bytes(numbers(tensor.strides)?)?),
        };
        let place = Place {
            address: tensor.data.checked_add(tensor.byte_offset)?,
            shape: numbers(tensor.shape)?,
            strides,
            is_writable,
            device: is_on_gpu.then_some(device_id),
            owner: capsule,
        };
        (tensor.data != 0).then(|| self.array(place, row))?
    }

    /// The array of a CUDA array interface; `None` if work on another stream precedes its use.
    fn described<'py>(
        &self, object: &Bound<'py, PyAny>, interface: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Array<'py>>> {
        let entry = |name| Ok::<_, PyErr>(interface.get_item(name)?.filter(|one| !one.is_none()));
        let stream: Option<NativeStream> = entry("stream")?.map(|one| one.extract()).transpose()?;
        let is_ordered = stream.is_none_or(|stream| stream == LEGACY_DEFAULT_STREAM);
        let (Some(shape), Some(typestr), Some(data)) =
            (entry("shape")?, entry("typestr")?, entry("data")?)
        else {
            return Ok(None);
        };
        if !is_ordered || entry("mask")?.is_some() || entry("version")?.is_none() {
            return Ok(None);
        }
        let typestr = typestr.cast::<PyString>()?;
        let Some(row) = TYPES.iter().position(|(name, ..)| *typestr == **name) else {
            return Ok(None);
        };
        let (address, is_read_only): (usize, bool) = data.extract()?;
        let place = Place {
            owner: object.clone(),
            address,
            shape: shape.cast::<PyTuple>()?.extract()?,
            strides: entry("strides")?.map(|strides| strides.extract()).transpose()?,
            is_writable: !is_read_only,
            // The interface does not name the GPU: results go to the first.
            device: Some(0),
        };
        Ok(self.array(place, row))
    }

    /// Makes the array of a type of [`TYPES`]; `None` if something is unusual about it.
    fn array<'py>(&self, place: Place<'py>, row: usize) -> Option<Array<'py>> {
        let (shape, bytes) = (place.shape, TYPES[row].2);
        let axes = shape.len();
        let size = shape.iter().try_fold(1_isize, |size, length| {
            (*length > 0).then(|| size.checked_mul(*length))?
        })?;
        size.checked_mul(bytes)?;
        let mut contiguous = vec![0; axes];
        let mut next = bytes;
        for axis in (0..axes).rev() {
            contiguous[axis] = next;
            next *= shape[axis];
        }
        let strides = place.strides.unwrap_or_else(|| contiguous.clone());
        let is_aligned = strides.iter().all(|stride| stride % bytes == 0)
            && place.address.is_multiple_of(bytes.unsigned_abs());
        if place.address == 0 || strides.len() != axes || !is_aligned {
            return None;
        }
        let is_contiguous = (0..axes).all(|at| shape[at] == 1 || strides[at] == contiguous[at]);
        let flag = |flag: c_int, is_set: bool| if is_set { flag } else { 0 };
        let numbers: Box<[isize]> = [shape, strides].concat().into();
        let fields = Fields {
            _object: [0; 2],
            data: place.address,
            axes: axes as c_int,
            shape: numbers.as_ptr(),
            strides: numbers[axes..].as_ptr(),
            _base: std::ptr::null(),
            dtype: self.dtypes[row].as_ptr().cast(),
            flags: ALIGNED | flag(CONTIGUOUS, is_contiguous) | flag(WRITEABLE, place.is_writable),
        };
        let described = Some(Box::new(Described { fields, _numbers: numbers }));
        Some(Array { owner: place.owner, described, device: place.device })
    }
}
