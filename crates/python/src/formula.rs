//! Calls of compiled expressions with arrays and single values.

use crate::array::{Array, Arrays, NumPy};
use crate::function::{Run, RunStrided, StridedArray};
use crate::input::Input;
use crate::output::{Output, Target};
use crate::queued::queue;
use crate::strided::{Reduced, broadcast, order, strides_in};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};
use std::ffi::c_int;

/// A compiled expression.
#[pyclass(frozen, module = "gpuvec._native")]
pub(crate) struct Formula {
    numpy: &'static NumPy,
    run: Run,
    run_strided: RunStrided,
    handle: usize,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    is_tuple: bool,
    most_axes: usize,
    is_of_passes: bool,
    queued: Py<PyAny>,
    failure: Py<PyAny>,
}

/// The inputs of a call.
struct Values<'py> {
    /// The bits of the single values, whose addresses are passed to the library.
    single: Vec<u64>,
    /// The arrays that have the elements' shape, and the others, whose memory this call holds, too.
    arrays: Vec<Array<'py>>,
    others: Vec<Array<'py>>,
}

impl Values<'_> {
    /// The device of the first array that is on one.
    fn device(&self) -> Option<i32> {
        self.arrays.iter().chain(&self.others).find_map(|array| array.device)
    }
}

#[pymethods]
impl Formula {
    /// Makes the formula of an expression's handle, which outlives it. `functions` has the addresses of
    /// `gpuvec_expr_run_outputs` and `gpuvec_expr_run_nd`. Each input has a name, a dtype, a form and whether
    /// it has the elements' shape; each output a dtype and whether it is a reduction, and behind the outputs is
    /// whether a call returns a tuple. Of `limits`, the inputs have at most as many axes as the first says,
    /// unless they are reduced along some, and the second says whether the formula has reductions inside, which the
    /// package calls for arrays that are not contiguous. Of `calls`, the first queues work on a stream, and the second makes an exception of a status that is an error.
    #[new]
    fn new(
        py: Python<'_>, functions: (usize, usize), handle: usize,
        inputs: Vec<(Py<PyString>, Py<PyAny>, String, bool)>,
        outputs: (Vec<(Py<PyAny>, bool)>, bool), limits: (usize, bool),
        calls: (Py<PyAny>, Py<PyAny>),
    ) -> PyResult<Self> {
        // SAFETY: the package takes the addresses of these functions from the library.
        let (run, run_strided) = unsafe { (Run::at(functions.0), RunStrided::at(functions.1)) };
        let inputs = inputs.into_iter().map(|input| Input::new(py, input));
        let inputs = inputs.collect::<PyResult<_>>()?;
        let (outputs, is_tuple) = outputs;
        let (most_axes, is_of_passes) = limits;
        let (queued, failure) = calls;
        let output = |(dtype, is_reduction)| Output { dtype, is_reduction };
        let outputs = outputs.into_iter().map(output).collect();
        let numpy = NumPy::get(py)?;
        Ok(Formula {
            numpy,
            run,
            run_strided,
            handle,
            inputs,
            outputs,
            is_tuple,
            most_axes,
            is_of_passes,
            queued,
            failure,
        })
    }

    /// Runs the expression with the values of its inputs. Returns None unless all are arrays, at least one, and
    /// single values that this module knows, of shapes that fit each other, `out` and `axis`; of a call on a stream
    /// also contiguous.
    fn call<'py>(
        &self, inputs: &Bound<'py, PyDict>, out: &Bound<'py, PyAny>, stream: &Bound<'py, PyAny>,
        axis: &Bound<'py, PyAny>, keepdims: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(arrays) = Arrays::of_call_on(self.numpy, stream)? else { return Ok(None) };
        let Ok(keepdims) = keepdims.cast_exact::<PyBool>() else { return Ok(None) };
        let Some(values) = self.values(arrays, inputs)? else { return Ok(None) };
        let call = Call { out, axis, keepdims: keepdims.is_true() };
        if !call.is_along() && self.are_plain(&values) {
            let (first, device) = (&values.arrays[0], values.device());
            let target = |output: &Output, out: &_| output.target(arrays, out, first, device);
            let fits = |output: &Output, out: &Array<'py>| output.fits(out, first);
            if let Some(targets) = self.targets(out, target)?
                && self.accepts(&values)
                && self.are_plain(&values)
                && self.fit(&targets, fits)
            {
                let to: Vec<usize> =
                    targets.iter().map(|target| target.elements.address()).collect();
                let (addresses, n) = (self.addresses(&values), first.size());
                let (run, handle) = (self.run, self.handle);
                // SAFETY: the package keeps the handle. The arrays have these lengths, and this call holds
                // them and the single values; what is queued, the stream. Like NumPy's own functions it relies on
                // other threads not to resize arrays against NumPy's advice.
                let run = move |stream| unsafe { run.call(handle, &addresses, &to, n, stream) };
                let mut status = 0;
                if stream.is_none() {
                    status = out.py().detach(|| run(0));
                } else {
                    let results = targets.iter().map(|target| target.array.clone());
                    let objects = inputs.values().iter().chain(results).collect();
                    let written = targets.iter().map(|target| &target.elements);
                    let kept = values.arrays.iter().chain(&values.others).chain(written).collect();
                    queue(&self.queued, stream, objects, kept, run)?;
                }
                return self.result(status, targets, out.py());
            }
        }
        let is_general = self.is_of_passes || !stream.is_none();
        if is_general { Ok(None) } else { self.call_strided(&values, call) }
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
        &self, arrays: Vec<Array<'py>>, factor: Option<f64>, call: Call<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let single = factor.map(f64::to_bits).into_iter().collect();
        self.call_strided(&Values { single, arrays, others: Vec::new() }, call)
    }

    /// Returns the values in the order of the inputs. Returns `None` if an input is missing, has another type or is
    /// not declared, and if no input is an array.
    fn values<'py>(
        &self, arrays: Arrays, inputs: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Values<'py>>> {
        if inputs.len() != self.inputs.len() {
            return Ok(None);
        }
        let count = inputs.len();
        let mut values =
            Values { single: Vec::new(), arrays: Vec::with_capacity(count), others: Vec::new() };
        for input in &self.inputs {
            let Some(value) = inputs.get_item(&input.name)? else { return Ok(None) };
            if !input.is_array() {
                let Some(bits) = input.bits(&value) else { return Ok(None) };
                values.single.push(bits);
                continue;
            }
            let array = arrays.found(&value)?;
            let Some(array) = array.filter(|array| input.accepts(array)) else { return Ok(None) };
            let places = if input.is_counted { &mut values.arrays } else { &mut values.others };
            places.push(array);
        }
        Ok((!values.arrays.is_empty()).then_some(values))
    }

    /// Returns for each output the target for what the caller passes, or for None; `None` if something does not
    /// fit.
    fn targets<'py>(
        &self, out: &Bound<'py, PyAny>,
        mut target: impl FnMut(&Output, &Bound<'py, PyAny>) -> PyResult<Option<Target<'py>>>,
    ) -> PyResult<Option<Vec<Target<'py>>>> {
        let given = match out.cast_exact::<PyTuple>() {
            Ok(tuple) if self.is_tuple && tuple.len() == self.outputs.len() => Some(tuple),
            Err(_) if !self.is_tuple || out.is_none() => None,
            _ => return Ok(None),
        };
        let mut targets = Vec::with_capacity(self.outputs.len());
        for (number, output) in self.outputs.iter().enumerate() {
            let found = match given {
                Some(tuple) => target(output, &tuple.get_item(number)?)?,
                None => target(output, out)?,
            };
            let Some(found) = found else { return Ok(None) };
            targets.push(found);
        }
        Ok(Some(targets))
    }

    /// The arrays among the values, in the order of the inputs.
    fn arrays_of<'a, 'py>(
        &'a self, values: &'a Values<'py>,
    ) -> impl Iterator<Item = (&'a Input, &'a Array<'py>)> {
        let (mut arrays, mut others) = (values.arrays.iter(), values.others.iter());
        self.inputs.iter().filter(|input| input.is_array()).filter_map(move |input| {
            let array = if input.is_counted { arrays.next() } else { others.next() };
            array.map(|array| (input, array))
        })
    }

    /// True if the arrays have the inputs' types.
    fn accepts(&self, values: &Values) -> bool {
        self.arrays_of(values).all(|(input, array)| input.accepts(array))
    }

    /// True if the arrays that have the elements' shape are contiguous, and have one shape.
    fn are_plain(&self, values: &Values) -> bool {
        let first = &values.arrays[0];
        let is_plain = |array: &Array| array.is_contiguous() && array.shape() == first.shape();
        values.arrays.iter().all(is_plain) && first.shape().len() <= self.most_axes
    }

    /// True if all outputs fit.
    fn fit<'py>(
        &self, targets: &[Target<'py>], fits: impl Fn(&Output, &Array<'py>) -> bool,
    ) -> bool {
        self.outputs.iter().zip(targets).all(|(output, target)| fits(output, &target.elements))
    }

    /// The addresses of the inputs, as the library expects them.
    fn addresses(&self, values: &Values) -> Vec<usize> {
        let mut single = values.single.iter();
        let mut arrays = self.arrays_of(values);
        let address = |input: &Input| match input.is_array() {
            true => arrays.next().map(|(_, array)| array.address()),
            false => single.next().map(|bits| (&raw const *bits).expose_provenance()),
        };
        self.inputs.iter().filter_map(address).collect()
    }

    /// Runs the expression on arrays of any strides and shapes.
    fn call_strided<'py>(
        &self, values: &Values<'py>, call: Call<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let is_reduction = self.outputs[0].is_reduction;
        if self.outputs.iter().any(|output| output.is_reduction != is_reduction) {
            return Ok(None);
        }
        let Some(shape) = broadcast(&values.arrays) else { return Ok(None) };
        // Each of several reductions may read other arrays: the package tells which of them have other elements.
        let has_one_shape = values.arrays.iter().all(|array| array.shape() == shape);
        if is_reduction && self.outputs.len() > 1 && !has_one_shape {
            return Ok(None);
        }
        let axes = shape.len();
        let Some(reduced) = self.reduced(call, axes, is_reduction) else { return Ok(None) };
        let wanted = if is_reduction { reduced.result(&shape) } else { shape.clone() };
        let target = |output: &Output, out: &_| {
            self.strided_target(output, out, values, &wanted, (axes, &reduced))
        };
        let Some(targets) = self.targets(call.out, target)? else { return Ok(None) };
        let is_single = is_reduction && reduced.is_full(axes);
        let fits = |output: &Output, out: &Array<'py>| {
            output.is_typed(out) && (out.shape() == wanted || (is_single && out.size() == 1))
        };
        let are_same = self.accepts(values) && broadcast(&values.arrays).as_ref() == Some(&shape);
        if !are_same || !self.fit(&targets, fits) {
            return Ok(None);
        }
        let mut numbers = Vec::with_capacity((values.arrays.len() + targets.len() + 1) * axes);
        numbers.extend_from_slice(&shape);
        values.arrays.iter().for_each(|array| numbers.extend(strides_in(array, axes)));
        for Target { elements, .. } in &targets {
            match is_reduction {
                true => numbers.extend(reduced.strides(elements, axes)),
                false => numbers.extend(elements.strides()),
            }
        }
        let (lengths, strides) = numbers.split_at(axes);
        let mut strides = strides.chunks_exact(axes.max(1)).map(<[isize]>::as_ptr);
        let mut array = |data, has_strides: bool| {
            let strides = has_strides.then(|| strides.next()).flatten();
            StridedArray { data, strides: strides.map_or(0, <*const isize>::expose_provenance) }
        };
        let addresses = self.addresses(values);
        let inputs = addresses.iter().zip(&self.inputs);
        let inputs: Vec<_> = inputs
            .map(|(data, input)| array(*data, input.is_array() && input.is_counted))
            .collect();
        let outputs: Vec<_> =
            targets.iter().map(|target| array(target.elements.address(), true)).collect();
        let mask = if is_reduction { reduced.mask } else { 0 };
        let (run, handle, py) = (self.run_strided, self.handle, call.out.py());
        // SAFETY: as in `call`; the elements are where the strides lead.
        let status = py.detach(|| unsafe { run.call(handle, lengths, &inputs, &outputs, mask) });
        self.result(status, targets, py)
    }

    /// Returns the axes that a call reduces; `None` if they are wrong.
    fn reduced(&self, call: Call<'_, '_>, axes: usize, is_reduction: bool) -> Option<Reduced> {
        let fits =
            (is_reduction || !call.is_along()) && (axes <= self.most_axes || !call.axis.is_none());
        fits.then(|| Reduced::named(call.axis, call.keepdims, axes))?
    }

    /// Returns the caller's array, or a new one if `out` is None; `None` if the caller's is not an array.
    fn strided_target<'py>(
        &self, output: &Output, out: &Bound<'py, PyAny>, values: &Values<'py>, wanted: &[isize],
        (axes, reduced): (usize, &Reduced),
    ) -> PyResult<Option<Target<'py>>> {
        let arrays = Arrays::of_call(self.numpy);
        if !out.is_none() {
            return Target::found(arrays, out.clone(), false);
        }
        let order = order(&values.arrays, axes);
        let order = if output.is_reduction { reduced.result_order(&order) } else { order };
        // A result of no axes is a value of the host's.
        let device = values.device().filter(|_| !wanted.is_empty());
        let array = self.numpy.empty_in_order(wanted, &order, out.py(), &output.dtype, device)?;
        Target::found(arrays, array, output.is_reduction && wanted.is_empty())
    }

    /// Returns what a call returns, or its error.
    fn result<'py>(
        &self, status: c_int, targets: Vec<Target<'py>>, py: Python<'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if status != 0 {
            return Err(PyErr::from_value(self.failure.bind(py).call1((status,))?));
        }
        let mut results = targets.into_iter().map(Target::result);
        if !self.is_tuple {
            return results.next().transpose();
        }
        let results = results.collect::<PyResult<Vec<_>>>()?;
        Ok(Some(PyTuple::new(py, results)?.into_any()))
    }
}
