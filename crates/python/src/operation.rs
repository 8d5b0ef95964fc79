//! Calls of operations.

use crate::array::{Array, Arrays, NumPy};
use crate::formula::{Call, Formula};
use crate::function::Function;
use crate::output::{Output, Target};
use crate::queued::queue;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBool;

/// An operation: its functions, and the package's functions for other arguments and for errors.
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

    /// Calls the operation. An operation on one array gets it as `a` and as `b`.
    #[pyo3(signature = (a, b, out, stream, factor=None))]
    fn call<'py>(
        &self, py: Python<'py>, a: &Bound<'py, PyAny>, b: &Bound<'py, PyAny>,
        out: &Bound<'py, PyAny>, stream: &Bound<'py, PyAny>, factor: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let axis = &py.None().into_bound(py);
        if let Some(arrays) = Arrays::of_call_on(self.numpy, stream)?
            && let call = (Call { arrays, out, stream, axis, keepdims: false })
            && let Some(result) = self.run(a, b, call, factor)?
        {
            return Ok(result);
        }
        let general = self.general.bind(py);
        match factor {
            Some(factor) => general.call1((a, b, out, stream, factor)),
            None => general.call1((a, b, out, stream)),
        }
    }

    /// Calls the operation, or a reduction along axes. Returns None unless the arguments are ordinary arrays that fit.
    #[pyo3(signature = (a, b, out, stream, axis, keepdims, factor=None))]
    #[expect(clippy::too_many_arguments, reason = "the Python function has these arguments")]
    fn attempt<'py>(
        &self, a: &Bound<'py, PyAny>, b: &Bound<'py, PyAny>, out: &Bound<'py, PyAny>,
        stream: &Bound<'py, PyAny>, axis: &Bound<'py, PyAny>, keepdims: &Bound<'py, PyAny>,
        factor: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(arrays) = Arrays::of_call_on(self.numpy, stream)? else { return Ok(None) };
        let Ok(keepdims) = keepdims.cast_exact::<PyBool>() else { return Ok(None) };
        self.run(a, b, Call { arrays, out, stream, axis, keepdims: keepdims.is_true() }, factor)
    }
}

impl Operation {
    /// Calls the operation's own function, if the arrays are contiguous, or its formula. Returns `None` unless the
    /// arguments are ordinary arrays that fit.
    fn run<'py>(
        &self, a: &Bound<'py, PyAny>, b: &Bound<'py, PyAny>, call: Call<'_, 'py>,
        factor: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((typed, inputs)) = self.arrays(call.arrays, a, b)? else { return Ok(None) };
        let objects = || vec![a.clone(), b.clone()];
        if !call.axis.is_none() || call.keepdims {
            return self.strided(typed, inputs, factor, call, objects);
        }
        let Some(target) = self.plain_target(typed, &inputs, call)? else {
            return self.strided(typed, inputs, factor, call, objects);
        };
        let (function, to) = (typed.function, target.elements.address());
        let factor = factor.unwrap_or(0.0);
        let (addresses, n) = (inputs.addresses(), inputs.first.size());
        // SAFETY: the arrays have these lengths, and this call holds them; what is queued, the stream. Like NumPy's
        // own functions it relies on other threads not to resize arrays against NumPy's advice.
        let work = move |stream| unsafe { function.call(factor, addresses, to, n, stream) };
        if !call.stream.is_none() {
            let mut objects = objects();
            objects.push(target.array.clone());
            let kept = inputs.iter().chain([&target.elements]).collect();
            queue(&self.queued, call.stream, objects, kept, work)?;
        } else {
            let py = a.py();
            let status = py.detach(|| work(0));
            if status != 0 {
                return Err(PyErr::from_value(self.failure.bind(py).call1((status,))?));
            }
        }
        target.result().map(Some)
    }

    /// Returns the target of a call of the operation's own function; `None` unless all arrays are contiguous and
    /// fit each other.
    fn plain_target<'py>(
        &self, typed: &Typed, inputs: &Inputs<'py>, call: Call<'_, 'py>,
    ) -> PyResult<Option<Target<'py>>> {
        let are_plain = || inputs.iter().all(|array| array.has_plain(inputs.first.shape()));
        if inputs.first.shape().len() > self.most_axes || !are_plain() {
            return Ok(None);
        }
        let output = &typed.output;
        let is_new = call.out.is_none() && !output.is_reduction;
        // A copy: to make the target runs Python code.
        let shape = if is_new { inputs.first.shape().to_vec() } else { Vec::new() };
        let target = output.target(call.arrays, call.out, &shape, None, inputs.device())?;
        let fits = |out: &Array| match output.is_reduction {
            true => output.fits(out, &[], true),
            false => output.fits(out, inputs.first.shape(), false),
        };
        let accepts = |array: &Array<'py>| typed.accepts(array);
        Ok(target.filter(|Target { elements, .. }| {
            inputs.iter().all(accepts) && are_plain() && elements.is_contiguous() && fits(elements)
        }))
    }

    /// Calls the operation as a formula, on arrays of any strides.
    fn strided<'py>(
        &self, typed: &Typed, inputs: Inputs<'py>, factor: Option<f64>, call: Call<'_, 'py>,
        objects: impl FnOnce() -> Vec<Bound<'py, PyAny>>,
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
                // Another thread may have set it meanwhile, to the same formula. (Making it inside the cell would run
                // Python code under a lock, for which a child that is forked meanwhile would wait forever.)
                let _ = typed.formula.set(py, formula);
                typed.formula.get(py).expect("it was set")
            }
        };
        let arrays = std::iter::once(inputs.first).chain(inputs.second).collect();
        formula.get().run_arrays(arrays, factor, call, objects)
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
