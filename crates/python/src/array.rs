//! Arrays of NumPy, of other libraries and of GPUs, read in place.

use crate::device_array::DeviceArrays;
use crate::foreign::{Foreign, LEGACY_DEFAULT_STREAM, NativeStream};
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};
use std::ffi::{c_int, c_void};
use std::slice;

/// The fields of `PyArrayObject` (NumPy's reference, "Python types and C-structures"). They are part of
/// NumPy's binary interface: other extension modules are compiled for them. [`NumPy::get`] checks them.
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

/// Returns the bits of a scalar of NumPy's: its value is behind the object's header, as `PyArrayScalar_VAL` reads it.
/// (Unlike Python's conversions, this does not depend on floating-point modes.)
///
/// # Safety
///
/// The object is a scalar whose value has that many bytes, at most eight.
pub(crate) unsafe fn scalar_bits(scalar: &Bound<'_, PyAny>, bytes: usize) -> u64 {
    let mut bits = [0; size_of::<u64>()];
    // SAFETY: this function's promise.
    unsafe {
        let value = scalar.as_ptr().add(1).cast::<u8>();
        value.copy_to_nonoverlapping(bits.as_mut_ptr(), bytes);
    }
    u64::from_le_bytes(bits)
}

/// NumPy, whose arrays are laid out as this module reads them.
pub(crate) struct NumPy {
    ndarray: Py<PyAny>,
    empty: Py<PyAny>,
    /// "transpose". (pyo3's `intern` makes a string at its first use, under a lock. A child that another thread forks
    /// meanwhile would wait forever.)
    transpose: Py<PyString>,
    /// "_native", the native stream of a stream of the package.
    native: Py<PyString>,
    foreign: Foreign,
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
        // SAFETY: a float32, whose value has four bytes.
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

    /// Returns an object as an array; `None` for other classes, also those derived from ndarray.
    pub(crate) fn array<'py>(&self, object: &Bound<'py, PyAny>) -> Option<Array<'py>> {
        let is_such = object.get_type_ptr().cast() == self.ndarray.as_ptr();
        is_such.then(|| Array { owner: object.clone(), described: None, device: None })
    }

    /// Returns the DLPack capsule of an array of another library: see [`crate::exchange::Exchange::capsule`].
    pub(crate) fn exported<'py>(
        &self, object: &Bound<'py, PyAny>, stream: NativeStream,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.foreign.exchange.capsule(object, stream)
    }

    /// True if another library's array must not be written: see [`Foreign::is_immutable`].
    pub(crate) fn is_immutable(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.foreign.is_immutable(object)
    }

    /// Makes a contiguous array, in the memory of `device` if there is one.
    pub(crate) fn empty<'py>(
        &self, shape: impl ExactSizeIterator<Item = isize>, py: Python<'py>, dtype: &Py<PyAny>,
        device: Option<i32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lengths = PyTuple::new(py, shape)?;
        match device.zip(DeviceArrays::get(py)) {
            Some((device, known)) => known.empty(lengths, dtype, device),
            None => self.empty.bind(py).call1((lengths, dtype)),
        }
    }

    /// Makes an array whose axes have an order in memory, the outermost first.
    pub(crate) fn empty_in_order<'py>(
        &self, shape: &[isize], order: &[usize], py: Python<'py>, dtype: &Py<PyAny>,
        device: Option<i32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.empty(order.iter().map(|axis| shape[*axis]), py, dtype, device)?;
        if order.is_sorted() {
            return Ok(array);
        }
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, axis)| places[*axis] = place);
        array.call_method1(&self.transpose, PyTuple::new(py, places)?)
    }
}

/// Finds the arrays of a call.
#[derive(Clone, Copy)]
pub(crate) struct Arrays {
    pub(crate) numpy: &'static NumPy,
    /// The stream on which the call is queued; without one the call does its work at once.
    stream: Option<NativeStream>,
}

impl Arrays {
    pub(crate) const fn of_call(numpy: &'static NumPy) -> Self {
        Arrays { numpy, stream: None }
    }

    /// The arrays of a call on a stream, or on None. Returns `None` if it is something else.
    pub(crate) fn of_call_on(
        numpy: &'static NumPy, stream: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Self>> {
        if stream.is_none() {
            return Ok(Some(Self::of_call(numpy)));
        }
        let native = stream.getattr_opt(&numpy.native)?.and_then(|native| native.extract().ok());
        Ok(native.map(|native| Arrays { numpy, stream: Some(native) }))
    }

    /// Returns the elements of an object: an ndarray, a DeviceArray, or an array of another library, whose work so
    /// far precedes the call's. Without a stream a DeviceArray must have no queued work. Returns `None` for other objects,
    /// which the package's Python code accepts or refuses.
    pub(crate) fn found<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Option<Array<'py>>> {
        if let Some(array) = self.numpy.array(object) {
            return Ok(Some(array));
        }
        match DeviceArrays::get(object.py()) {
            Some(known) if known.has(object) => {
                known.found(self.numpy, object, self.stream.is_some())
            }
            // Masked arrays, for example.
            _ if object.is_instance(self.numpy.ndarray.bind(object.py()))? => Ok(None),
            _ => {
                let stream = self.stream.unwrap_or(LEGACY_DEFAULT_STREAM);
                self.numpy.foreign.found(object, stream)
            }
        }
    }
}

/// An array of a call. An ndarray's fields are read anew each time: any Python code, such as an argument's `__dlpack__`
/// or a finalizer that the garbage collector runs, may give the array another shape, dtype or memory. So a call checks
/// its arrays when all are found and made, and runs no Python code between these checks and the library.
pub(crate) struct Array<'py> {
    /// Keeps the memory.
    pub(crate) owner: Bound<'py, PyAny>,
    /// The fields of an array that is not NumPy's.
    pub(crate) described: Option<Box<Described>>,
    /// The device in whose memory a new result belongs.
    pub(crate) device: Option<i32>,
}

/// An array as another library described it.
pub(crate) struct Described {
    pub(crate) fields: Fields,
    /// The shape and the strides, to which the fields point.
    pub(crate) _numbers: Box<[isize]>,
}

impl Array<'_> {
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

    pub(crate) fn dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        // SAFETY: the array, or this module, keeps the dtype.
        unsafe { Bound::from_borrowed_ptr(py, self.fields().dtype.cast_mut().cast()) }
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

    /// The number for each axis.
    fn numbers(&self, numbers: *const isize) -> &[isize] {
        match usize::try_from(self.fields().axes) {
            // SAFETY: an array has a length and a stride for each axis.
            Ok(axes @ 1..) => unsafe { slice::from_raw_parts(numbers, axes) },
            _ => &[],
        }
    }

    /// The number of elements.
    pub(crate) fn size(&self) -> usize {
        self.shape().iter().product::<isize>().unsigned_abs()
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        self.fields().flags & CONTIGUOUS != 0
    }

    /// True if the array is contiguous and has a shape.
    pub(crate) fn has_plain(&self, shape: &[isize]) -> bool {
        self.is_contiguous() && self.shape() == shape
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
