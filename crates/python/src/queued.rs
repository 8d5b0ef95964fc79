//! Calls that are queued on streams.

use crate::array::Array;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ffi::c_int;

/// The work of a call, which the package has the library queue on a stream.
#[pyclass(frozen, module = "gpuvec._native")]
pub(crate) struct Work(Box<dyn Fn(usize) -> c_int + Send + Sync>);

#[pymethods]
impl Work {
    /// Calls the library with a stream's handle; returns its status.
    fn __call__(&self, py: Python<'_>, stream: usize) -> c_int {
        py.detach(|| (self.0)(stream))
    }
}

/// Queues work by the package's function for that, which holds the `arrays` until the stream is done with them, and
/// notes the stream's use of those DeviceArrays that are among the `objects`.
pub(crate) fn queue<'py>(
    function: &Py<PyAny>, stream: &Bound<'py, PyAny>, objects: Vec<Bound<'py, PyAny>>,
    arrays: Vec<&Array<'py>>, work: impl Fn(usize) -> c_int + Send + Sync + 'static,
) -> PyResult<()> {
    let py = stream.py();
    let objects = PyTuple::new(py, objects)?;
    let kept = PyTuple::new(py, arrays.iter().map(|array| &array.owner))?;
    let work = Bound::new(py, Work(Box::new(work)))?;
    function.bind(py).call1((stream, objects, kept, work))?;
    Ok(())
}
