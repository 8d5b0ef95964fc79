//! Calls of compiled expressions with arrays and single values.

use crate::array::{Array, Arrays, NumPy};
use crate::function::{Layout, Run, RunStrided};
use crate::input::Input;
use crate::output::{Output, Target};
use crate::queued::queue;
use crate::strided::{Reduced, broadcast, order, strides_in};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};

/// A compiled expression.
#[pyclass(frozen, module = "gpuvec._native")]
pub(crate) struct Formula {
    numpy: &'static NumPy,
    run: Run,
    run_strided: RunStrided,
    handle: usize,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    has_reductions: bool,
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
        let outputs: Vec<_> = outputs.into_iter().map(output).collect();
        let has_reductions = outputs.iter().any(|output| output.is_reduction);
        let numpy = NumPy::get(py)?;
        Ok(Formula {
            numpy,
            run,
            run_strided,
            handle,
            inputs,
            outputs,
            has_reductions,
            is_tuple,
            most_axes,
            is_of_passes,
            queued,
            failure,
        })
    }

    /// Runs the expression with the values of its inputs. Returns None unless all are arrays, at least one, and
    /// single values that this module knows, of shapes that fit each other, `out` and `axis`.
    fn call<'py>(
        &self, inputs: &Bound<'py, PyDict>, out: &Bound<'py, PyAny>, stream: &Bound<'py, PyAny>,
        axis: &Bound<'py, PyAny>, keepdims: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(arrays) = Arrays::of_call_on(self.numpy, stream)? else { return Ok(None) };
        let Ok(keepdims) = keepdims.cast_exact::<PyBool>() else { return Ok(None) };
        let Some(values) = self.values(arrays, inputs)? else { return Ok(None) };
        let call = Call { arrays, out, stream, axis, keepdims: keepdims.is_true() };
        self.run(&values, call, || inputs.values().iter().collect())
    }
}

/// The arguments of a call beside its inputs.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a, 'py> {
    pub(crate) arrays: Arrays,
    pub(crate) out: &'a Bound<'py, PyAny>,
    pub(crate) stream: &'a Bound<'py, PyAny>,
    pub(crate) axis: &'a Bound<'py, PyAny>,
    pub(crate) keepdims: bool,
}

impl Formula {
    /// Runs the expression of an operation, whose inputs are arrays of its type and then perhaps a factor.
    /// Returns `None` if their shapes or `out` do not fit.
    pub(crate) fn run_arrays<'py>(
        &self, arrays: Vec<Array<'py>>, factor: Option<f64>, call: Call<'_, 'py>,
        objects: impl FnOnce() -> Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let single = factor.map(f64::to_bits).into_iter().collect();
        self.run(&Values { single, arrays, others: Vec::new() }, call, objects)
    }

    /// Runs the expression. `objects` returns the arguments among which are the arrays. Returns `None` if something
    /// does not fit.
    fn run<'py>(
        &self, values: &Values<'py>, call: Call<'_, 'py>,
        objects: impl FnOnce() -> Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(shape) = self.shape(&values.arrays) else { return Ok(None) };
        let axes = shape.len();
        let Some(reduced) = self.reduced(call, axes) else { return Ok(None) };
        let result = reduced.result(&shape);
        let order = order(&values.arrays, axes);
        let target = |output: &Output, out: &_| match output.is_reduction {
            true => {
                let order = order.as_ref().map(|order| reduced.result_order(order));
                output.target(call.arrays, out, &result, order, values.device())
            }
            false => output.target(call.arrays, out, &shape, order.clone(), values.device()),
        };
        let Some(targets) = self.targets(call.out, target)? else { return Ok(None) };
        // From here to the library's call no Python code runs that could change an array.
        let fits = |(output, target): (&Output, &Target<'py>)| match output.is_reduction {
            true => output.fits(&target.elements, &result, reduced.is_full(axes)),
            false => output.fits(&target.elements, &shape, false),
        };
        if !self.accepts(values)
            || !self.have_shape(&values.arrays, &shape)
            || !self.outputs.iter().zip(&targets).all(fits)
        {
            return Ok(None);
        }
        let (addresses, to) = (self.addresses(values), addresses_of(&targets));
        let (handle, functions) = (self.handle, (self.run, self.run_strided));
        let n = shape.iter().product::<isize>().unsigned_abs();
        let is_plain = values.arrays.iter().all(|array| array.has_plain(&shape))
            && targets.iter().all(|target| target.elements.is_contiguous())
            && (!self.has_reductions || result.iter().all(|length| *length == 1));
        let layout = (!is_plain).then(|| self.layout(values, &targets, shape, &reduced));
        // SAFETY: the package keeps the handle. The arrays have these lengths and strides, and this call holds
        // them and the single values; what is queued, the stream. Like NumPy's own functions it relies on other
        // threads not to resize arrays against NumPy's advice.
        let work = move |stream| unsafe {
            match &layout {
                None => functions.0.call(handle, &addresses, &to, n, stream),
                Some(layout) => functions.1.call(handle, layout, &addresses, &to, stream),
            }
        };
        let py = call.out.py();
        if call.stream.is_none() {
            let status = py.detach(|| work(0));
            if status != 0 {
                return Err(PyErr::from_value(self.failure.bind(py).call1((status,))?));
            }
        } else {
            let mut objects = objects();
            objects.extend(targets.iter().map(|target| target.array.clone()));
            let written = targets.iter().map(|target| &target.elements);
            let kept = values.arrays.iter().chain(&values.others).chain(written).collect();
            queue(&self.queued, call.stream, objects, kept, work)?;
        }
        let mut results = targets.into_iter().map(Target::result);
        if !self.is_tuple {
            return results.next().transpose();
        }
        let results = results.collect::<PyResult<Vec<_>>>()?;
        Ok(Some(PyTuple::new(py, results)?.into_any()))
    }

    /// Returns the common shape of the inputs; `None` if they have none. Reductions inside the formula, and each of
    /// several, may read other arrays: the package tells which of them have other elements, unless all arrays
    /// have one shape.
    fn shape(&self, arrays: &[Array]) -> Option<Vec<isize>> {
        let shape = broadcast(arrays)?;
        let needs_one = self.is_of_passes || (self.has_reductions && self.outputs.len() > 1);
        (!needs_one || arrays.iter().all(|array| array.shape() == shape)).then_some(shape)
    }

    /// True if the inputs still have a common shape.
    fn have_shape(&self, arrays: &[Array], shape: &[isize]) -> bool {
        arrays.iter().all(|array| array.shape() == shape)
            || self.shape(arrays).is_some_and(|common| common == shape)
    }

    /// Returns the layout of arrays of any strides.
    fn layout(
        &self, values: &Values, targets: &[Target], shape: Vec<isize>, reduced: &Reduced,
    ) -> Layout {
        let mut strides = Vec::with_capacity((values.arrays.len() + targets.len()) * shape.len());
        values.arrays.iter().for_each(|array| strides.extend(strides_in(array, shape.len())));
        for (output, Target { elements, .. }) in self.outputs.iter().zip(targets) {
            match output.is_reduction {
                true => strides.extend(reduced.strides(elements, shape.len())),
                false => strides.extend(elements.strides()),
            }
        }
        let have_strides = self.inputs.iter().map(|input| input.is_array() && input.is_counted);
        let mask = if self.has_reductions { reduced.mask } else { 0 };
        Layout { shape, strides, have_strides: have_strides.collect(), mask }
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

    /// Returns the axes that a call reduces; `None` if they are wrong.
    fn reduced(&self, call: Call<'_, '_>, axes: usize) -> Option<Reduced> {
        let (is_along, has_axis) = (call.keepdims || !call.axis.is_none(), !call.axis.is_none());
        let fits = (self.has_reductions || !is_along)
            && (axes <= self.most_axes || has_axis)
            && !(self.is_of_passes && has_axis);
        fits.then(|| Reduced::named(call.axis, call.keepdims, axes))?
    }
}

fn addresses_of(targets: &[Target]) -> Vec<usize> {
    targets.iter().map(|target| target.elements.address()).collect()
}
