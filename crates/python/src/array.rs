//! NumPy's arrays, read where they are.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};
use std::ffi::{c_int, c_void};
use std::slice;

/// The fields of `PyArrayObject` (NumPy's reference, "Python types and C-structures"). They are part of
/// NumPy's binary interface: other extension modules are compiled for them. [`NumPy::get`] checks them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Fields {
    _object: [usize; 2],
    data: *mut c_void,
    axes: c_int,
    shape: *const isize,
    strides: *const isize,
    _base: *const c_void,
    dtype: *const c_void,
    flags: c_int,
}

/// `NPY_ARRAY_C_CONTIGUOUS`, `NPY_ARRAY_ALIGNED`, `NPY_ARRAY_WRITEABLE` and `NPY_ARRAY_WARN_ON_WRITE`.
const CONTIGUOUS: c_int = 0x1;
const ALIGNED: c_int = 0x100;
const WRITEABLE: c_int = 0x400;
const WARNS: c_int = c_int::MIN;

/// NumPy, whose arrays are laid out as this module reads them.
pub(crate) struct NumPy {
    ndarray: Py<PyAny>,
    empty: Py<PyAny>,
    /// "shape". (pyo3's `intern` makes strings when they are first needed: a child that is forked meanwhile
    /// would wait for ever.)
    shape: Py<PyString>,
    /// "transpose".
    transpose: Py<PyString>,
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
        let [shape, transpose] =
            ["shape", "transpose"].map(|name| PyString::new(py, name).unbind());
        let numpy = NumPy { ndarray, empty, shape, transpose };
        let known = numpy.empty.bind(py).call1(((3, 5), "f4"))?;
        if numpy.describes(&known, &[3, 5])? {
            return Ok(numpy);
        }
        Err(PyImportError::new_err("this NumPy has another binary interface"))
    }

    /// Says whether the fields of a new array tell what Python tells of it.
    fn describes(&self, known: &Bound<'_, PyAny>, shape: &[isize]) -> PyResult<bool> {
        let Some(array) = self.array(known) else { return Ok(false) };
        let address: usize = known.getattr("ctypes")?.getattr("data")?.extract()?;
        let dtype = known.getattr("dtype")?.unbind();
        Ok(array.address() == address
            && array.has_dtype(&dtype)
            && array.fields.flags & (CONTIGUOUS | ALIGNED | WRITEABLE | WARNS)
                == CONTIGUOUS | ALIGNED | WRITEABLE
            && array.fields.axes == 2
            && array.shape() == shape
            && array.strides() == [20, 4])
    }

    /// Returns an object as an array; `None` if it is of another class, were it derived from ndarray.
    pub(crate) fn array<'a, 'py>(&self, object: &'a Bound<'py, PyAny>) -> Option<Array<'a, 'py>> {
        if object.get_type().as_ptr() != self.ndarray.as_ptr() {
            return None;
        }
        // SAFETY: an ndarray has these fields, as NumPy promises. No other thread changes them meanwhile:
        // the object's type proves that this thread holds the interpreter's lock.
        let fields = unsafe { object.as_ptr().cast::<Fields>().read() };
        Some(Array { object, fields })
    }

    /// Makes an array of the shape of another, or of no axes.
    pub(crate) fn empty_like<'py>(
        &self, like: Option<&Array<'_, 'py>>, py: Python<'py>, dtype: &Py<PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let shape = match like {
            Some(array) => array.object.getattr(&self.shape)?,
            None => PyTuple::empty(py).into_any(),
        };
        self.empty.bind(py).call1((shape, dtype))
    }

    /// Makes an array of a shape, whose axes have an order in memory, the outermost first.
    pub(crate) fn empty<'py>(
        &self, shape: &[isize], order: &[usize], py: Python<'py>, dtype: &Py<PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lengths = PyTuple::new(py, order.iter().map(|axis| shape[*axis]))?;
        let array = self.empty.bind(py).call1((lengths, dtype))?;
        if order.is_sorted() {
            return Ok(array);
        }
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, axis)| places[*axis] = place);
        array.call_method1(&self.transpose, PyTuple::new(py, places)?)
    }
}

/// An array's fields, as they are while Python runs no other code.
pub(crate) struct Array<'a, 'py> {
    object: &'a Bound<'py, PyAny>,
    fields: Fields,
}

impl<'py> Array<'_, 'py> {
    /// The address of the first element.
    pub(crate) fn address(&self) -> usize {
        self.fields.data.addr()
    }

    pub(crate) fn has_dtype(&self, dtype: &Py<PyAny>) -> bool {
        self.fields.dtype == dtype.as_ptr().cast()
    }

    /// The number of elements along each axis.
    pub(crate) fn shape(&self) -> &[isize] {
        let axes = usize::try_from(self.fields.axes).unwrap_or(0);
        if axes == 0 {
            return &[];
        }
        // SAFETY: an ndarray has a length for each axis, for as long as it keeps its shape, which only
        // Python code can change.
        unsafe { slice::from_raw_parts(self.fields.shape, axes) }
    }

    /// The distance between elements along each axis, in bytes.
    pub(crate) fn strides(&self) -> &[isize] {
        let axes = self.shape().len();
        if axes == 0 {
            return &[];
        }
        // SAFETY: as for the shape.
        unsafe { slice::from_raw_parts(self.fields.strides, axes) }
    }

    /// The number of elements.
    pub(crate) fn size(&self) -> usize {
        self.shape().iter().product::<isize>().unsigned_abs()
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        self.fields.flags & CONTIGUOUS != 0
    }

    /// Says whether the library can read the array.
    pub(crate) fn is_input(&self) -> bool {
        self.fields.flags & ALIGNED != 0
    }

    /// Says whether the library can write the array.
    pub(crate) fn is_output(&self) -> bool {
        self.is_input() && self.fields.flags & (WRITEABLE | WARNS) == WRITEABLE
    }
}
