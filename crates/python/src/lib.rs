//! The extension module of the Python package, `gpuvec._native`.
//!
//! Passing three arrays to the library by ctypes takes a microsecond, in which ten cores add 10^5 elements. This module
//! takes a tenth of that for NumPy's arrays of any strides, for device arrays, and for arrays that other libraries
//! export. It does not link the library: the package passes it the addresses of functions.
//!
//! A call returns None for other arguments and for arguments that do not fit. The package's Python code then converts
//! them or raises the error. It also works without this module.

mod array;
mod device_array;
mod foreign;
mod formula;
mod function;
mod input;
mod operation;
mod output;
mod shapes;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    array::NumPy::get(module.py())?;
    module.add_function(wrap_pyfunction!(device_array::accept, module)?)?;
    module.add_function(wrap_pyfunction!(exported, module)?)?;
    module.add_class::<operation::Operation>()?;
    module.add_class::<formula::Formula>()
}

/// Returns the DLPack capsule of an array. The array's queued work precedes later work of `stream`, a native stream.
/// Returns None if the array's class has no C functions for this, or its work is on another stream.
#[pyfunction]
fn exported<'py>(object: &Bound<'py, PyAny>, stream: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    array::NumPy::get(object.py())?.foreign.capsule(object, stream)
}
