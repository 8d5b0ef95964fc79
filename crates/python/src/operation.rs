//! Calls of operations.

use crate::array::{Array, NumPy};
use crate::formula::{Call, Formula};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// An operation: a formula for each element type, and the package's functions for them and for other arguments.
#[pyclass(frozen, module = "gpuvec._native")]
pub(crate) struct Operation {
    numpy: &'static NumPy,
    inputs: usize,
    typed: Vec<Typed>,
    formula: Py<PyAny>,
    general: Py<PyAny>,
}

/// An operation for an element type: its formula, once it was needed.
struct Typed {
    dtype: Py<PyAny>,
    formula: PyOnceLock<Py<Formula>>,
}

#[pymethods]
impl Operation {
    /// Makes an operation of `inputs` arrays for element types. `formula(dtype)` returns the [`Formula`], and
    /// `general` is called with arguments that are not ordinary arrays.
    #[new]
    fn new(
        py: Python<'_>, inputs: usize, dtypes: Vec<Py<PyAny>>, formula: Py<PyAny>,
        general: Py<PyAny>,
    ) -> PyResult<Self> {
        let typed = dtypes.into_iter().map(|dtype| Typed { dtype, formula: PyOnceLock::new() });
        Ok(Operation { numpy: NumPy::get(py)?, inputs, typed: typed.collect(), formula, general })
    }

    /// Calls the operation. An operation on one array gets it as `a` and as `b`. A reduction also gets `axis` and
    /// `keepdims`.
    #[pyo3(signature = (a, b, out, stream, factor=None, reduced=None))]
    fn call<'py>(
        &self, a: &Bound<'py, PyAny>, b: &Bound<'py, PyAny>, out: &Bound<'py, PyAny>,
        stream: &Bound<'py, PyAny>, factor: Option<f64>,
        reduced: Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(call) = Call::new(self.numpy, out, stream, reduced.as_ref())?
            && let Some(result) = self.run(a, b, factor, &call)?
        {
            return Ok(result);
        }
        self.general.bind(a.py()).call1((a, b, out, stream, factor, reduced))
    }
}

impl Operation {
    /// Calls the formula; returns `None` unless the inputs are ordinary arrays of one type that fit.
    fn run<'py>(
        &self, a: &Bound<'py, PyAny>, b: &Bound<'py, PyAny>, factor: Option<f64>,
        call: &Call<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(first) = self.numpy.found(a, call.native)? else { return Ok(None) };
        let Some(formula) = self.formula(&first)? else { return Ok(None) };
        if self.inputs == 1 {
            return formula.run_operation(&[first], factor, call);
        }
        let Some(second) = self.numpy.found(b, call.native)? else { return Ok(None) };
        formula.run_operation(&[first, second], factor, call)
    }

    /// Returns the formula for an array's type.
    fn formula(&self, array: &Array) -> PyResult<Option<&Formula>> {
        let typed = self.typed.iter().find(|typed| array.has_dtype(&typed.dtype));
        let Some(Typed { dtype, formula }) = typed else { return Ok(None) };
        let py = array.owner.py();
        if formula.get(py).is_none() {
            let new = self.formula.bind(py).call1((dtype,))?.cast_into::<Formula>()?;
            // Another thread may have set it meanwhile, to the same formula. (Making it inside the cell would run
            // Python code under a lock, for which a child that is forked meanwhile would wait forever.)
            let _ = formula.set(py, new.unbind());
        }
        Ok(formula.get(py).map(Py::get))
    }
}
