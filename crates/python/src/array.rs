//! Arrays of NumPy, of other libraries and in device memory, read in place.

use crate::device_array::DeviceArrays;
use crate::foreign::{Foreign, LEGACY_DEFAULT_STREAM, NativeStream};
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};
use std::ffi::{c_int, c_void};
use std::slice;

/// The fields of `PyArrayObject` (NumPy's reference, "Python types and C-structures"). They are part of NumPy's binary
/// interface, for which extension modules are compiled. [`NumPy::get`] checks them.
#[repr(C)]
pub(crate) struct Fields {
    pub(crate) _object: [usize; 2],
    pub(crate) data: usize,
    pub(crate) axes: c_int,
    pub(crate) shape: *const isize,
    pub(crate) strides: *const isize,
    pub(crate) _base: *const c_void,
    pub(crate) dtype: *const c_void,
    pub(crate) flags: c_int,
}

/// `NPY_ARRAY_C_CONTIGUOUS`, `NPY_ARRAY_ALIGNED`, `NPY_ARRAY_WRITEABLE` and `NPY_ARRAY_WARN_ON_WRITE`.
pub(crate) const CONTIGUOUS: c_int = 0x1;
pub(crate) const ALIGNED: c_int = 0x100;
pub(crate) const WRITEABLE: c_int = 0x400;
const WARNS: c_int = c_int::MIN;

/// Returns the bits of a NumPy scalar. The value follows the object's header, where `PyArrayScalar_VAL` reads it.
/// (Unlike Python's conversions, this does not depend on floating-point modes.)
///
/// # Safety
///
/// The object is a scalar with a value of `bytes` bytes, at most eight.
pub(crate) unsafe fn scalar_bits(scalar: &Bound<'_, PyAny>, bytes: usize) -> u64 {
    let mut bits = [0; size_of::<u64>()];
    // SAFETY: this function's promise.
    unsafe {
        let value = scalar.as_ptr().add(1).cast::<u8>();
        value.copy_to_nonoverlapping(bits.as_mut_ptr(), bytes);
    }
    u64::from_le_bytes(bits)
}

/// NumPy, with arrays in the layout that this module reads.
pub(crate) struct NumPy {
    ndarray: Py<PyAny>,
    empty: Py<PyAny>,
    /// "transpose". (pyo3's `intern` would make the string at its first use, under a lock for which a child that is
    /// forked meanwhile would wait forever.)
    transpose: Py<PyString>,
    /// "_native", the native stream of a stream of the package.
    native: Py<PyString>,
    pub(crate) foreign: Foreign,
}

impl NumPy {
    /// Returns NumPy; the first call imports it, and fails if its arrays have other fields.
    pub(crate) fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static NUMPY: PyOnceLock<NumPy> = PyOnceLock::new();
        NUMPY.get_or_try_init(py, || Self::import(py))
    }

    fn import(py: Python<'_>) -> PyResult<Self> {
        let module = py.import("numpy")?;
        let [ndarray, empty] = ["ndarray", "empty"].map(|name| module.getattr(name));
        let (ndarray, empty) = (ndarray?.unbind(), empty?.unbind());
        let [transpose, native] =
            ["transpose", "_native"].map(|name| PyString::new(py, name).unbind());
        let numpy = NumPy { ndarray, empty, transpose, native, foreign: Foreign::new(&module)? };
        let known = numpy.empty.bind(py).call1(((3, 5), "f4"))?;
        let scalar = module.getattr("float32")?.call1((1.5,))?;
        // SAFETY: a float32's value has four bytes.
        let bits = unsafe { scalar_bits(&scalar, size_of::<f32>()) };
        if numpy.describes(&known, &[3, 5])? && bits == u64::from(1.5_f32.to_bits()) {
            return Ok(numpy);
        }
        Err(PyImportError::new_err("this NumPy has another binary interface"))
    }

    /// True if the fields of a new array agree with its attributes in Python.
    fn describes(&self, known: &Bound<'_, PyAny>, shape: &[isize]) -> PyResult<bool> {
        let Some(array) = self.array(known) else { return Ok(false) };
        let address: usize = known.getattr("ctypes")?.getattr("data")?.extract()?;
        let dtype = known.getattr("dtype")?.unbind();
        Ok(array.address() == address
            && array.has_dtype(&dtype)
            && array.fields().flags & (CONTIGUOUS | ALIGNED | WRITEABLE | WARNS)
                == CONTIGUOUS | ALIGNED | WRITEABLE
            && array.shape() == shape
            && array.strides() == [20, 4])
    }

    /// Returns an ndarray as an array; `None` for objects of other classes, derived ones included.
    #[inline(always)]
    pub(crate) fn array<'py>(&self, object: &Bound<'py, PyAny>) -> Option<Array<'py>> {
        let is_such = object.get_type_ptr().cast() == self.ndarray.as_ptr();
        let new = || Array { object: None, owner: object.clone(), described: None, device: None };
        is_such.then(new)
    }

    /// Makes an array, in the memory of `device` if that is given. `order` has the axes in their order in memory, the
    /// outermost first, if that is not C order.
    pub(crate) fn empty<'py>(
        &self, shape: &[isize], order: Option<&[usize]>, dtype: &Bound<'py, PyAny>,
        device: Option<i32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = dtype.py();
        let order = order.filter(|order| !order.is_sorted());
        let lengths = match order {
            None => PyTuple::new(py, shape)?,
            Some(order) => PyTuple::new(py, order.iter().map(|axis| shape[*axis]))?,
        };
        let array = match device.zip(DeviceArrays::get(py)) {
            Some((device, known)) => known.empty(lengths, dtype, device)?,
            None => self.empty.bind(py).call1((lengths, dtype))?,
        };
        let Some(order) = order else { return Ok(array) };
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, axis)| places[*axis] = place);
        array.call_method1(&self.transpose, PyTuple::new(py, places)?)
    }

    /// Returns the native stream for an argument `stream=`: `Some(None)` for None, and `None` for other objects.
    #[inline(always)]
    pub(crate) fn stream(
        &self, stream: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Option<NativeStream>>> {
        if stream.is_none() {
            return Ok(Some(None));
        }
        let native = stream.getattr_opt(&self.native)?;
        Ok(native.and_then(|native| native.extract().ok()).map(Some))
    }

    /// Returns an ndarray, a DeviceArray or another library's array as an array. The other library's work so far
    /// precedes the call's work on `stream`. Without a stream a DeviceArray must have no queued work. Returns `None`
    /// for other objects, which the package's Python code accepts or refuses.
    #[inline(always)]
    pub(crate) fn found<'py>(
        &self, object: &Bound<'py, PyAny>, stream: Option<NativeStream>,
    ) -> PyResult<Option<Array<'py>>> {
        match self.array(object) {
            None => self.found_elsewhere(object, stream),
            array => Ok(array),
        }
    }

    fn found_elsewhere<'py>(
        &self, object: &Bound<'py, PyAny>, stream: Option<NativeStream>,
    ) -> PyResult<Option<Array<'py>>> {
        match DeviceArrays::get(object.py()) {
            Some(known) if known.has(object) => known.found(self, object, stream.is_some()),
            // A derived class, such as masked arrays.
            _ if object.is_instance(self.ndarray.bind(object.py()))? => Ok(None),
            _ => self.foreign.found(object, stream.unwrap_or(LEGACY_DEFAULT_STREAM)),
        }
    }
}

/// An array of a call. An ndarray's fields are read anew each time, since any Python code, such as an argument's
/// `__dlpack__` or a finalizer, may give the array another shape, dtype or memory. So a call checks its arrays after it
/// has found or made all of them, and runs no Python code between these checks and the library's call.
pub(crate) struct Array<'py> {
    /// The caller's object, or the call's result, if it is not the owner.
    pub(crate) object: Option<Bound<'py, PyAny>>,
    /// The object that keeps the memory.
    pub(crate) owner: Bound<'py, PyAny>,
    /// The fields of an array that is not NumPy's.
    pub(crate) described: Option<Box<Described>>,
    /// The device that should hold a new result.
    pub(crate) device: Option<i32>,
}

/// An array as another library described it.
pub(crate) struct Described {
    pub(crate) fields: Fields,
    /// The shape and the strides; the fields point to them.
    pub(crate) _numbers: Box<[isize]>,
}

impl<'py> Array<'py> {
    /// The caller's object, or the call's result.
    pub(crate) fn object(&self) -> &Bound<'py, PyAny> {
        self.object.as_ref().unwrap_or(&self.owner)
    }

    fn fields(&self) -> &Fields {
        match &self.described {
            Some(described) => &described.fields,
            // SAFETY: an ndarray has these fields, as NumPy promises. No other thread changes them meanwhile: the
            // owner's lifetime proves that this thread holds the interpreter's lock.
            None => unsafe { &*self.owner.as_ptr().cast::<Fields>() },
        }
    }

    /// The address of the first element.
    pub(crate) fn address(&self) -> usize {
        self.fields().data
    }

    pub(crate) fn has_dtype(&self, dtype: &Py<PyAny>) -> bool {
        self.fields().dtype == dtype.as_ptr().cast()
    }

    /// The number of elements along each axis.
    pub(crate) fn shape(&self) -> &[isize] {
        self.numbers(self.fields().shape)
    }

    /// The distance between elements along each axis, in bytes.
    pub(crate) fn strides(&self) -> &[isize] {
        self.numbers(self.fields().strides)
    }

    /// A number for each axis, behind a pointer of the fields.
    fn numbers(&self, numbers: *const isize) -> &[isize] {
        match usize::try_from(self.fields().axes) {
            // SAFETY: an array has a length and a stride for each axis.
            Ok(axes @ 1..) => unsafe { slice::from_raw_parts(numbers, axes) },
            _ => &[],
        }
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        self.fields().flags & CONTIGUOUS != 0
    }

    /// True if the library can read the array.
    pub(crate) fn is_input(&self) -> bool {
        self.fields().flags & ALIGNED != 0
    }

    /// True if the library can write the array.
    pub(crate) fn is_output(&self) -> bool {
        self.is_input() && self.fields().flags & (WRITEABLE | WARNS) == WRITEABLE
    }
}
