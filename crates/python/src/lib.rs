//! The extension module of the Python package, `gpuvec._native`.
//!
//! ctypes takes a microsecond to pass three arrays to the library, in which ten cores add 10^5 elements.
//! This module passes NumPy's arrays in a tenth of that, and those of GPUs. It does not link the library: the
//! package tells it the addresses of functions. Other arguments go to the package's Python code, which works
//! without this module, too.

mod array;
mod device_array;
mod exchange;
mod foreign;
mod formula;
mod function;
mod input;
mod operation;
mod output;
mod queued;
mod strided;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    array::NumPy::get(module.py())?;
    module.add_function(wrap_pyfunction!(device_array::accept, module)?)?;
    module.add_function(wrap_pyfunction!(dtype_of, module)?)?;
    module.add_function(wrap_pyfunction!(exported, module)?)?;
    module.add_class::<operation::Operation>()?;
    module.add_class::<formula::Formula>()
}

/// Returns the dtype of an array in memory of a GPU or of another library, or None.
#[pyfunction]
fn dtype_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let array = array::Arrays::of_call(array::NumPy::get(object.py())?).found(object)?;
    Ok(array.map(|array| array.dtype(object.py())))
}

/// Returns the DLPack capsule of an array, whose work so far precedes later work of `stream`, a native stream. None:
/// the array's class cannot export it so, or not for that stream.
#[pyfunction]
fn exported<'py>(object: &Bound<'py, PyAny>, stream: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    array::NumPy::get(object.py())?.exported(object, stream)
}
