//! The extension module of the Python package, `gpuvec._native`.
//!
//! ctypes takes a microsecond to pass three arrays to the library, in which ten cores add 10^5 elements.
//! This module passes NumPy's arrays in a tenth of that, and those of GPUs. It does not link the library: the
//! package tells it the addresses of functions. Other arguments go to the package's Python code, which works
//! without this module, too.

mod array;
mod device_array;
mod foreign;
mod formula;
mod function;
mod input;
mod operation;
mod output;
mod strided;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    array::NumPy::get(module.py())?;
    module.add_function(wrap_pyfunction!(device_array::accept, module)?)?;
    module.add_class::<operation::Operation>()?;
    module.add_class::<formula::Formula>()
}
