//! Calls of operations on NumPy's arrays.

use crate::array::NumPy;
use crate::function::Function;
use crate::output::{Output, Target};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// An operation: its functions, and what handles other arguments and errors.
#[pyclass(frozen, module = "gpuvec._native")]
pub(crate) struct Operation {
    numpy: &'static NumPy,
    typed: Vec<Typed>,
    most_axes: usize,
    general: Py<PyAny>,
    failure: Py<PyAny>,
}

/// An operation's function for an element type.
struct Typed {
    dtype: Py<PyAny>,
    function: Function,
    output: Output,
}

/// What a function is called with.
struct Arguments<'a, 'py> {
    typed: &'a Typed,
    inputs: [usize; 2],
    target: Target<'py>,
    n: usize,
}

#[pymethods]
impl Operation {
    /// Makes an operation of `inputs` arrays with at most `most_axes` axes. `functions` has for each
    /// element type a dtype, an address in the library, the factor's size in bytes (0: none) and the
    /// output's dtype. `general` is called with arguments that are not ordinary arrays; `failure` makes an
    /// exception of a status that is an error.
    #[new]
    fn new(
        py: Python<'_>, inputs: usize, is_reduction: bool, most_axes: usize,
        functions: Vec<(Py<PyAny>, usize, usize, Py<PyAny>)>, general: Py<PyAny>,
        failure: Py<PyAny>,
    ) -> PyResult<Self> {
        let typed = functions.into_iter().map(|(dtype, address, factor_bytes, result)| {
            // SAFETY: the package takes the address from the library, and the rest from its table of
            // declarations (python/gpuvec/_library.py), which a test compares with the header.
            let function = unsafe { Function::at(address, inputs, factor_bytes) };
            let output = Output { dtype: result, is_reduction };
            function
                .map(|function| Typed { dtype, function, output })
                .ok_or_else(|| PyValueError::new_err("no function has such arguments"))
        });
        let typed = typed.collect::<PyResult<_>>()?;
        Ok(Operation { numpy: NumPy::get(py)?, typed, most_axes, general, failure })
    }

    /// Calls the operation. One of a single input gets it as `a` and as `b`.
    #[pyo3(signature = (a, b, out, stream, factor=None))]
    fn call<'py>(
        &self, py: Python<'py>, a: &Bound<'py, PyAny>, b: &Bound<'py, PyAny>,
        out: &Bound<'py, PyAny>, stream: &Bound<'py, PyAny>, factor: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let short = if stream.is_none() { self.arguments(a, b, out)? } else { None };
        let Some(Arguments { typed, inputs, target, n }) = short else {
            let general = self.general.bind(py);
            return match factor {
                Some(factor) => general.call1((a, b, out, stream, factor)),
                None => general.call1((a, b, out, stream)),
            };
        };
        let (function, out, factor) = (typed.function, target.address, factor.unwrap_or(0.0));
        // SAFETY: the arrays have these lengths, and this call holds them. Like NumPy's own functions it
        // relies on other threads not to resize arrays against NumPy's advice.
        let status = py.detach(|| unsafe { function.call(factor, inputs, out, n) });
        if status != 0 {
            return Err(PyErr::from_value(self.failure.bind(py).call1((status,))?));
        }
        typed.output.result(target)
    }
}

impl Operation {
    /// Returns the arguments for ordinary arrays that fit. `None`: the general way accepts them, or tells
    /// what is wrong.
    fn arguments<'a, 'py>(
        &'a self, a: &Bound<'py, PyAny>, b: &Bound<'py, PyAny>, out: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Arguments<'a, 'py>>> {
        let (Some(a), Some(b)) = (self.numpy.array(a), self.numpy.array(b)) else {
            return Ok(None);
        };
        let Some(typed) = self.typed.iter().find(|typed| a.has_dtype(&typed.dtype)) else {
            return Ok(None);
        };
        let are_alike = b.has_dtype(&typed.dtype) && a.shape() == b.shape();
        if !are_alike || !a.is_input() || !b.is_input() || a.shape().len() > self.most_axes {
            return Ok(None);
        }
        let target = typed.output.target(self.numpy, out, &a)?;
        let inputs = [a.address(), b.address()];
        Ok(target.map(|target| Arguments { typed, inputs, target, n: a.size() }))
    }
}
