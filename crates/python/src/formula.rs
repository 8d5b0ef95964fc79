//! Calls of compiled expressions with NumPy's arrays and Python's floats.

use crate::array::{Array, NumPy};
use crate::function::{Run, RunStrided, StridedArray};
use crate::output::{Output, Target};
use crate::strided::{Reduced, broadcast, order, strides_in};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyString};
use std::ffi::c_int;

/// A compiled expression.
#[pyclass(frozen, module = "gpuvec._native")]
pub(crate) struct Formula {
    numpy: &'static NumPy,
    run: Run,
    run_strided: RunStrided,
    handle: usize,
    inputs: Vec<Input>,
    output: Output,
    most_axes: usize,
    failure: Py<PyAny>,
}

/// An input: its name; the element type of an array, or `None` for a Python float; and whether it is an array
/// that has the elements' shape, as all have that the formula reads.
type Input = (Py<PyString>, Option<Py<PyAny>>, bool);

/// The address of an array, or the bits of a float, of which the library takes the address.
type Value = u64;

/// The inputs of a call.
struct Values<'a, 'py> {
    all: Vec<Value>,
    arrays: Vec<Array<'a, 'py>>,
}

#[pymethods]
impl Formula {
    /// Makes the formula of an expression's handle, which outlives it. `functions` has the addresses of
    /// `gpuvec_expr_run` and `gpuvec_expr_run_nd`; `output` has a dtype, and says whether the formula is a
    /// reduction. The inputs have at most `most_axes` axes, unless they are reduced along some. `failure`
    /// makes an exception of a status that is an error.
    #[new]
    fn new(
        py: Python<'_>, functions: (usize, usize), handle: usize, inputs: Vec<Input>,
        output: (Py<PyAny>, bool), most_axes: usize, failure: Py<PyAny>,
    ) -> PyResult<Self> {
        // SAFETY: the package takes the addresses of these functions from the library.
        let (run, run_strided) = unsafe { (Run::at(functions.0), RunStrided::at(functions.1)) };
        let (output, numpy) = (Output { dtype: output.0, is_reduction: output.1 }, NumPy::get(py)?);
        Ok(Formula { numpy, run, run_strided, handle, inputs, output, most_axes, failure })
    }

    /// Runs the expression with the values of its inputs. Returns None unless all are ordinary arrays, at
    /// least one, and floats, of shapes that fit each other, `out` and `axis`.
    fn call<'py>(
        &self, inputs: &Bound<'py, PyDict>, out: &Bound<'py, PyAny>, axis: &Bound<'py, PyAny>,
        keepdims: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(given) = self.given(inputs)? else { return Ok(None) };
        let Some(values) = self.values(&given) else { return Ok(None) };
        let call = Call { out, axis, keepdims: keepdims.is_truthy()? };
        let first = &values.arrays[0];
        let is_plain = |array: &Array| array.is_contiguous() && array.shape() == first.shape();
        if !call.is_along()
            && values.arrays.iter().all(is_plain)
            && first.shape().len() <= self.most_axes
            && let Some(target) = self.output.target(self.numpy, out, first)?
        {
            let (addresses, n) = (self.addresses(&values), first.size());
            let (run, handle, to) = (self.run, self.handle, target.address);
            // SAFETY: the package keeps the handle. The arrays have these lengths, and this call holds
            // them and the floats. Like NumPy's own functions it relies on other threads not to resize
            // arrays against NumPy's advice.
            let status = out.py().detach(|| unsafe { run.call(handle, &addresses, to, n) });
            return self.result(status, target);
        }
        self.call_strided(&values, call)
    }
}

/// The arguments that a caller passes beside the inputs.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a, 'py> {
    pub(crate) out: &'a Bound<'py, PyAny>,
    pub(crate) axis: &'a Bound<'py, PyAny>,
    pub(crate) keepdims: bool,
}

impl Call<'_, '_> {
    /// Says whether it is one for reductions alone.
    fn is_along(&self) -> bool {
        self.keepdims || !self.axis.is_none()
    }
}

impl Formula {
    /// Runs the expression of an operation, whose inputs are arrays of its type and then perhaps a factor.
    /// Returns `None` if their shapes or `out` do not fit.
    pub(crate) fn call_arrays<'py>(
        &self, arrays: Vec<Array<'_, 'py>>, factor: Option<f64>, call: Call<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let factor = factor.map(f64::to_bits);
        let all = arrays.iter().map(|array| array.address() as Value).chain(factor).collect();
        self.call_strided(&Values { all, arrays }, call)
    }

    /// Returns the values in the order of the inputs; `None` if one is missing, or there are others.
    fn given<'py>(&self, inputs: &Bound<'py, PyDict>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
        if inputs.len() != self.inputs.len() {
            return Ok(None);
        }
        self.inputs.iter().map(|(name, ..)| inputs.get_item(name)).collect()
    }

    /// Returns the values of ordinary arrays that have the right types, at least one, and floats.
    fn values<'a, 'py>(&self, given: &'a [Bound<'py, PyAny>]) -> Option<Values<'a, 'py>> {
        let mut values = Values { all: Vec::with_capacity(given.len()), arrays: Vec::new() };
        for (value, (_, dtype, is_counted)) in given.iter().zip(&self.inputs) {
            let Some(dtype) = dtype else {
                values.all.push(value.cast_exact::<PyFloat>().ok()?.value().to_bits());
                continue;
            };
            let array = self.numpy.array(value)?;
            if !array.is_input() || !array.has_dtype(dtype) {
                return None;
            }
            values.all.push(array.address() as Value);
            if *is_counted {
                values.arrays.push(array);
            }
        }
        (!values.arrays.is_empty()).then_some(values)
    }

    /// The addresses of the inputs, as the library expects them. Those of floats are in the values.
    fn addresses(&self, values: &Values) -> Vec<usize> {
        let address = |(value, (_, dtype, _)): (&Value, &Input)| match dtype {
            Some(_) => *value as usize,
            None => (&raw const *value).expose_provenance(),
        };
        values.all.iter().zip(&self.inputs).map(address).collect()
    }

    /// Runs the expression on arrays of any strides and shapes.
    fn call_strided<'py>(
        &self, values: &Values<'_, 'py>, call: Call<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(shape) = broadcast(&values.arrays) else { return Ok(None) };
        let axes = shape.len();
        let Some(reduced) = self.reduced(call, axes) else { return Ok(None) };
        let Some(target) = self.strided_target(values, &shape, &reduced, call)? else {
            return Ok(None);
        };
        let Some(result) = self.numpy.array(&target.array) else { return Ok(None) };
        let mut numbers = Vec::with_capacity((values.arrays.len() + 2) * axes);
        numbers.extend(shape);
        values.arrays.iter().for_each(|array| numbers.extend(strides_in(array, axes)));
        match self.output.is_reduction {
            true => numbers.extend(reduced.strides(&result, axes)),
            false => numbers.extend(result.strides()),
        }
        let (lengths, strides) = numbers.split_at(axes);
        let mut strides = strides.chunks_exact(axes.max(1)).map(<[isize]>::as_ptr);
        let mut array = |data, has_strides: bool| {
            let strides = has_strides.then(|| strides.next()).flatten();
            StridedArray { data, strides: strides.map_or(0, <*const isize>::expose_provenance) }
        };
        let addresses = self.addresses(values);
        let inputs = addresses.iter().zip(&self.inputs);
        let inputs: Vec<_> = inputs.map(|(data, input)| array(*data, input.2)).collect();
        let outputs = [array(target.address, true)];
        let mask = if self.output.is_reduction { reduced.mask } else { 0 };
        let (run, handle, py) = (self.run_strided, self.handle, call.out.py());
        // SAFETY: as in `call`; the elements are where the strides lead.
        let status = py.detach(|| unsafe { run.call(handle, lengths, &inputs, &outputs, mask) });
        self.result(status, target)
    }

    /// Returns the axes that a call reduces; `None` if they are wrong.
    fn reduced(&self, call: Call<'_, '_>, axes: usize) -> Option<Reduced> {
        let fits = (self.output.is_reduction || !call.is_along())
            && (axes <= self.most_axes || !call.axis.is_none());
        fits.then(|| Reduced::named(call.axis, call.keepdims, axes))?
    }

    /// Returns the caller's array, or a new one; `None` if the caller's does not fit.
    fn strided_target<'py>(
        &self, values: &Values<'_, 'py>, shape: &[isize], reduced: &Reduced, call: Call<'_, 'py>,
    ) -> PyResult<Option<Target<'py>>> {
        let (is_reduction, is_new) = (self.output.is_reduction, call.out.is_none());
        let wanted = if is_reduction { reduced.result(shape) } else { shape.to_vec() };
        let array = match is_new {
            true => {
                let order = order(&values.arrays, shape.len());
                let order = if is_reduction { reduced.result_order(&order) } else { order };
                self.numpy.empty(&wanted, &order, call.out.py(), &self.output.dtype)?
            }
            false => call.out.clone(),
        };
        let is_single = is_reduction && reduced.is_full(shape.len());
        let fits = |array: &Array| array.shape() == wanted || (is_single && array.size() == 1);
        let fields = self.numpy.array(&array).filter(|array| self.output.is_writable(array));
        let address = fields.filter(fits).map(|array| array.address());
        let is_value = is_new && is_reduction && wanted.is_empty();
        Ok(address.map(|address| Target { array, is_value, address }))
    }

    /// Returns what a call returns, or its error.
    fn result<'py>(
        &self, status: c_int, target: Target<'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if status != 0 {
            let failure = self.failure.bind(target.array.py());
            return Err(PyErr::from_value(failure.call1((status,))?));
        }
        target.result().map(Some)
    }
}
