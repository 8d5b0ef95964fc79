//! The package's arrays in device memory.

use crate::array::{Array, NumPy};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};

/// The class `gpuvec.DeviceArray` and the names of its attributes.
pub(crate) struct DeviceArrays {
    class: Py<PyAny>,
    /// "_uses": an array's queued work that was not waited for.
    uses: Py<PyString>,
    /// "_found": a tuple of the ndarray that describes the elements, their device or None, and more.
    found: Py<PyString>,
    /// "_new": makes an array from a shape, a dtype and a device.
    new: Py<PyString>,
}

static KNOWN: PyOnceLock<DeviceArrays> = PyOnceLock::new();

/// Passes the class of arrays in device memory to this module.
#[pyfunction]
pub(crate) fn accept(class: Bound<'_, PyAny>) {
    let py = class.py();
    let name = |name| PyString::new(py, name).unbind();
    let (uses, found, new) = (name("_uses"), name("_found"), name("_new"));
    let _ = KNOWN.set(py, DeviceArrays { class: class.unbind(), uses, found, new });
}

impl DeviceArrays {
    pub(crate) fn get(py: Python<'_>) -> Option<&'static Self> {
        KNOWN.get(py)
    }

    pub(crate) fn has(&self, object: &Bound<'_, PyAny>) -> bool {
        object.get_type().as_ptr() == self.class.as_ptr()
    }

    /// Returns the array. `None` if the array has queued work, but the call is not queued.
    pub(crate) fn found<'py>(
        &self, numpy: &NumPy, object: &Bound<'py, PyAny>, is_queued: bool,
    ) -> PyResult<Option<Array<'py>>> {
        if !is_queued && !object.getattr(&self.uses)?.is_empty()? {
            return Ok(None);
        }
        let found = object.getattr(&self.found)?.cast_into::<PyTuple>()?;
        let Some(array) = numpy.array(&found.get_item(0)?) else { return Ok(None) };
        let device: Option<i32> = found.get_item(1)?.extract()?;
        Ok(Some(Array { object: Some(object.clone()), device: device.or(Some(0)), ..array }))
    }

    /// Makes an array in the memory of a device.
    pub(crate) fn empty<'py>(
        &self, lengths: Bound<'py, PyTuple>, dtype: &Bound<'py, PyAny>, device: i32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = lengths.py();
        self.class.bind(py).call_method1(&self.new, (lengths, dtype, device))
    }
}
