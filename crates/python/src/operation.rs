//! Calls of operations.

use crate::array::{Array, NumPy};
use crate::formula::{Call, Formula};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// An operation: a formula for each element type, and the package's functions that make formulas and handle other
/// arguments.
#[pyclass(frozen, module = "gpuvec._native")]
pub(crate) struct Operation {
    numpy: &'static NumPy,
    inputs: usize,
    typed: Vec<Typed>,
    formula: Py<PyAny>,
    general: Py<PyAny>,
}

/// An operation for an element type.
struct Typed {
    dtype: Py<PyAny>,
    /// The library's own function for contiguous arrays, if it has one.
    own: Option<Py<Formula>>,
    /// The formula for other arrays, made when it is first needed.
    formula: PyOnceLock<Py<Formula>>,
}

#[pymethods]
impl Operation {
    /// Makes an operation on `inputs` arrays. Each element type has an own function or None. `formula(dtype)` returns
    /// the [`Formula`], and `general` is called with arguments that are not ordinary arrays.
    #[new]
    fn new(
        py: Python<'_>, inputs: usize, types: Vec<(Py<PyAny>, Option<Py<Formula>>)>,
        formula: Py<PyAny>, general: Py<PyAny>,
    ) -> PyResult<Self> {
        let typed = types.into_iter().map(|(dtype, own)| {
            let formula = PyOnceLock::new();
            Typed { dtype, own, formula }
        });
        Ok(Operation { numpy: NumPy::get(py)?, inputs, typed: typed.collect(), formula, general })
    }

    /// Calls the operation. An operation on one array gets it as both `a` and `b`. A reduction also gets `axis` and
    /// `keepdims` as `reduced`.
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
    /// Calls the operation's own function, or runs the formula. Returns `None` unless the inputs are ordinary arrays of
    /// one type that fit.
    fn run<'py>(
        &self, a: &Bound<'py, PyAny>, b: &Bound<'py, PyAny>, factor: Option<f64>,
        call: &Call<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(first) = self.numpy.found(a, call.native)? else { return Ok(None) };
        let typed = self.typed.iter().find(|typed| first.has_dtype(&typed.dtype));
        let Some(typed) = typed else { return Ok(None) };
        if self.inputs == 1 {
            return self.run_on(typed, &[first], factor, call);
        }
        let Some(second) = self.numpy.found(b, call.native)? else { return Ok(None) };
        self.run_on(typed, &[first, second], factor, call)
    }

    fn run_on<'py>(
        &self, typed: &Typed, arrays: &[Array<'py>], factor: Option<f64>, call: &Call<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let Some(own) = &typed.own
            && let Some(result) = own.get().run_own(arrays, factor.unwrap_or(0.0), call)?
        {
            return Ok(Some(result));
        }
        let formula = self.formula(typed, arrays[0].owner.py())?;
        formula.map_or(Ok(None), |it| it.run(arrays, factor.map(f64::to_bits).as_slice(), call))
    }

    /// Returns the formula for an element type.
    fn formula<'t>(&self, typed: &'t Typed, py: Python<'_>) -> PyResult<Option<&'t Formula>> {
        let Typed { dtype, formula, .. } = typed;
        if formula.get(py).is_none() {
            let new = self.formula.bind(py).call1((dtype,))?.cast_into::<Formula>()?;
            // Another thread may have set the same formula meanwhile. (Making it inside the cell would run Python code
            // under a lock, for which a child that is forked meanwhile would wait forever.)
            let _ = formula.set(py, new.unbind());
        }
        Ok(formula.get(py).map(Py::get))
    }
}
