//! Calls of compiled expressions with NumPy's arrays and Python's floats.

use crate::array::{Array, NumPy};
use crate::function::Run;
use crate::output::{Output, Target};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat};

/// A compiled expression.
#[pyclass(frozen, module = "gpuvec._native")]
pub(crate) struct Formula {
    numpy: &'static NumPy,
    run: Run,
    handle: usize,
    /// The element type of each input that is an array; `None` for a Python float.
    inputs: Vec<Option<Py<PyAny>>>,
    output: Output,
    most_axes: usize,
    failure: Py<PyAny>,
}

/// The address of an array, or the bits of a float, of which the library takes the address.
type Value = u64;

/// What an expression is run with.
struct Arguments<'py> {
    values: Vec<Value>,
    target: Target<'py>,
    n: usize,
}

#[pymethods]
impl Formula {
    /// Makes the formula of an expression's handle, which outlives it. `run` is the address of
    /// `gpuvec_expr_run`; `output` has a dtype, and says whether the formula is a reduction. The inputs
    /// have at most `most_axes` axes. `failure` makes an exception of a status that is an error.
    #[new]
    fn new(
        py: Python<'_>, run: usize, handle: usize, inputs: Vec<Option<Py<PyAny>>>,
        output: (Py<PyAny>, bool), most_axes: usize, failure: Py<PyAny>,
    ) -> PyResult<Self> {
        // SAFETY: the package takes the address of this function from the library.
        let run = unsafe { Run::at(run) };
        let (dtype, is_reduction) = output;
        let output = Output { dtype, is_reduction };
        Ok(Formula { numpy: NumPy::get(py)?, run, handle, inputs, output, most_axes, failure })
    }

    /// Runs the expression with the values of its inputs, in their order. Returns None unless all are
    /// ordinary arrays, at least one, and floats.
    fn call<'py>(
        &self, py: Python<'py>, inputs: &Bound<'py, PyDict>, out: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(Arguments { values, target, n }) = self.arguments(inputs, out)? else {
            return Ok(None);
        };
        let address = |(value, input): (&Value, &Option<_>)| match input {
            Some(_) => *value as usize,
            None => (&raw const *value).expose_provenance(),
        };
        let addresses: Vec<usize> = values.iter().zip(&self.inputs).map(address).collect();
        let (run, handle, out) = (self.run, self.handle, target.address);
        // SAFETY: the package keeps the handle. The arrays have these lengths, and this call holds them
        // and the floats. Like NumPy's own functions it relies on other threads not to resize arrays
        // against NumPy's advice.
        let status = py.detach(|| unsafe { run.call(handle, &addresses, out, n) });
        if status != 0 {
            return Err(PyErr::from_value(self.failure.bind(py).call1((status,))?));
        }
        self.output.result(target).map(Some)
    }
}

impl Formula {
    /// Returns the arguments for ordinary arrays that fit, and floats.
    fn arguments<'py>(
        &self, inputs: &Bound<'py, PyDict>, out: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Arguments<'py>>> {
        if inputs.len() != self.inputs.len() {
            return Ok(None);
        }
        let given: Vec<Bound<PyAny>> = inputs.iter().map(|(_, value)| value).collect();
        let mut values = Vec::with_capacity(given.len());
        let mut first: Option<Array> = None;
        for (value, dtype) in given.iter().zip(&self.inputs) {
            let Some(dtype) = dtype else {
                let Ok(float) = value.cast_exact::<PyFloat>() else { return Ok(None) };
                values.push(float.value().to_bits());
                continue;
            };
            let fits = |array: &Array| array.is_input() && array.has_dtype(dtype);
            let Some(array) = self.numpy.array(value).filter(fits) else { return Ok(None) };
            values.push(array.address() as Value);
            match &first {
                Some(first) if first.shape() != array.shape() => return Ok(None),
                Some(_) => {}
                None => first = Some(array),
            }
        }
        let Some(first) = first.filter(|first| first.shape().len() <= self.most_axes) else {
            return Ok(None);
        };
        let target = self.output.target(self.numpy, out, &first)?;
        Ok(target.map(|target| Arguments { values, target, n: first.size() }))
    }
}
