//! Calls of operations on NumPy's arrays.

use crate::array::{Array, Arrays, NumPy};
use crate::formula::{Call, Formula};
use crate::function::Function;
use crate::output::Output;
use crate::queued::queue;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBool;

/// An operation: its functions, and what handles other arguments and errors.
#[pyclass(frozen, module = "gpuvec._native")]
pub(crate) struct Operation {
    numpy: &'static NumPy,
    inputs: usize,
    typed: Vec<Typed>,
    most_axes: usize,
    formula: Py<PyAny>,
    general: Py<PyAny>,
    queued: Py<PyAny>,
    failure: Py<PyAny>,
}

/// An operation's function for an element type.
struct Typed {
    dtype: Py<PyAny>,
    function: Function,
    output: Output,
    /// The operation as a formula, once it was needed.
    formula: PyOnceLock<Py<Formula>>,
}

/// One or two inputs.
struct Inputs<'py> {
    first: Array<'py>,
    second: Option<Array<'py>>,
}

#[pymethods]
impl Operation {
    /// Makes an operation of `inputs` arrays with at most `most_axes` axes. `functions` has for each
    /// element type a dtype, an address in the library, the factor's size in bytes (0: none) and the
    /// output's dtype. Of `calls`, `formula(dtype)` returns the [`Formula`] for arrays of any strides,
    /// `general` is called with arguments that are not ordinary arrays, `queued` queues work on a stream, and
    /// `failure` makes an exception of a status that is an error.
    #[new]
    fn new(
        py: Python<'_>, inputs: usize, is_reduction: bool, most_axes: usize,
        functions: Vec<(Py<PyAny>, usize, usize, Py<PyAny>)>,
        calls: (Py<PyAny>, Py<PyAny>, Py<PyAny>, Py<PyAny>),
    ) -> PyResult<Self> {
        let typed = functions.into_iter().map(|(dtype, address, factor_bytes, result)| {
            // SAFETY: the package takes the address from the library, and the rest from its table of
            // declarations (python/gpuvec/_library.py), which a test compares with the header.
            let function = unsafe { Function::at(address, inputs, factor_bytes) };
            let output = Output { dtype: result, is_reduction };
            let formula = PyOnceLock::new();
            function
                .map(|function| Typed { dtype, function, output, formula })
                .ok_or_else(|| PyValueError::new_err("no function has such arguments"))
        });
        let typed = typed.collect::<PyResult<_>>()?;
        let (numpy, (formula, general, queued, failure)) = (NumPy::get(py)?, calls);
        Ok(Operation { numpy, inputs, typed, most_axes, formula, general, queued, failure })
    }

    /// Calls the operation. One of a single input gets it as `a` and as `b`.
    #[pyo3(signature = (a, b, out, stream, factor=None))]
    fn call<'py>(
        &self, py: Python<'py>, a: &Bound<'py, PyAny>, b: &Bound<'py, PyAny>,
        out: &Bound<'py, PyAny>, stream: &Bound<'py, PyAny>, factor: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(arrays) = Arrays::of_call_on(self.numpy, stream)?
            && let Some((typed, inputs)) = self.arrays(arrays, a, b)?
        {
            if self.are_plain(&inputs)
                && let Some(target) =
                    typed.output.target(arrays, out, &inputs.first, inputs.device())?
                && inputs.iter().all(|array| typed.accepts(array))
                && self.are_plain(&inputs)
                && typed.output.fits(&target.elements, &inputs.first)
            {
                let (function, to) = (typed.function, target.elements.address());
                let factor = factor.unwrap_or(0.0);
                let (addresses, n) = (inputs.addresses(), inputs.first.size());
                // SAFETY: the arrays have these lengths, and this call holds them; what is queued, the stream. Like
                // NumPy's own functions it relies on other threads not to resize arrays against NumPy's advice.
                let run = move |stream| unsafe { function.call(factor, addresses, to, n, stream) };
                if !stream.is_none() {
                    let objects = vec![a.clone(), b.clone(), target.array.clone()];
                    let kept = inputs.iter().chain([&target.elements]).collect();
                    queue(&self.queued, stream, objects, kept, run)?;
                } else {
                    let status = py.detach(|| run(0));
                    if status != 0 {
                        return Err(PyErr::from_value(self.failure.bind(py).call1((status,))?));
                    }
                }
                return target.result();
            }
            let axis = &py.None().into_bound(py);
            let call = Call { out, axis, keepdims: false };
            if stream.is_none()
                && let Some(result) = self.strided(typed, inputs, factor, call)?
            {
                return Ok(result);
            }
        }
        let general = self.general.bind(py);
        match factor {
            Some(factor) => general.call1((a, b, out, stream, factor)),
            None => general.call1((a, b, out, stream)),
        }
    }

    /// Calls a reduction along axes. Returns None unless the arguments are ordinary arrays that fit.
    fn along<'py>(
        &self, a: &Bound<'py, PyAny>, b: &Bound<'py, PyAny>, out: &Bound<'py, PyAny>,
        axis: &Bound<'py, PyAny>, keepdims: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let arrays = Arrays::of_call(self.numpy);
        let Ok(keepdims) = keepdims.cast_exact::<PyBool>() else { return Ok(None) };
        let Some((typed, inputs)) = self.arrays(arrays, a, b)? else { return Ok(None) };
        self.strided(typed, inputs, None, Call { out, axis, keepdims: keepdims.is_true() })
    }
}

impl Operation {
    /// True if inputs are contiguous and have one shape.
    fn are_plain(&self, inputs: &Inputs) -> bool {
        let first = &inputs.first;
        let is_plain = |array: &Array| array.is_contiguous() && array.shape() == first.shape();
        inputs.iter().all(is_plain) && first.shape().len() <= self.most_axes
    }

    /// Calls the operation as a formula, on arrays of any strides.
    fn strided<'py>(
        &self, typed: &Typed, inputs: Inputs<'py>, factor: Option<f64>, call: Call<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        // A dot product of all elements broadcasts nothing, as NumPy's.
        let are_equal = inputs.iter().all(|array| array.shape() == inputs.first.shape());
        if self.most_axes == 1 && call.axis.is_none() && !are_equal {
            return Ok(None);
        }
        let py = call.out.py();
        let formula = match typed.formula.get(py) {
            Some(formula) => formula,
            None => {
                let formula = self.formula.bind(py).call1((&typed.dtype,))?;
                let formula = formula.cast_into::<Formula>()?.unbind();
                // Another thread may have set it meanwhile, to the same formula. (To make it inside the cell,
                // with Python's code, would leave a child that is forked then waiting for ever.)
                let _ = typed.formula.set(py, formula);
                typed.formula.get(py).expect("it was set")
            }
        };
        let arrays = std::iter::once(inputs.first).chain(inputs.second).collect();
        formula.get().call_arrays(arrays, factor, call)
    }

    /// Returns the inputs as arrays of one type, and its function.
    fn arrays<'s, 'py>(
        &'s self, arrays: Arrays, a: &Bound<'py, PyAny>, b: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(&'s Typed, Inputs<'py>)>> {
        let Some(first) = arrays.found(a)? else { return Ok(None) };
        let typed = self.typed.iter().find(|typed| first.has_dtype(&typed.dtype));
        let Some(typed) = typed.filter(|typed| typed.accepts(&first)) else { return Ok(None) };
        if self.inputs == 1 {
            return Ok(Some((typed, Inputs { first, second: None })));
        }
        let second = arrays.found(b)?;
        let second = second.filter(|array| typed.accepts(array));
        Ok(second.map(|second| (typed, Inputs { first, second: Some(second) })))
    }
}

impl Typed {
    /// True if the function can read an array.
    fn accepts(&self, array: &Array) -> bool {
        array.is_input() && array.has_dtype(&self.dtype)
    }
}

impl<'py> Inputs<'py> {
    fn iter(&self) -> impl Iterator<Item = &Array<'py>> {
        std::iter::once(&self.first).chain(&self.second)
    }

    /// The device of the first input that is on one.
    fn device(&self) -> Option<i32> {
        self.iter().find_map(|array| array.device)
    }

    /// The addresses of both; of a single one twice.
    fn addresses(&self) -> [usize; 2] {
        [&self.first, self.second.as_ref().unwrap_or(&self.first)].map(Array::address)
    }
}
