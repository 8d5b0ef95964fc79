//! Calls of compiled expressions with arrays and scalars.

use crate::array::{Array, NumPy};
use crate::foreign::NativeStream;
use crate::function::{Function, Layout, Runs};
use crate::input::Input;
use crate::output::{Output, Target};
use crate::shapes::{Extent, PerAxis, Shapes, strides_in};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};
use smallvec::SmallVec;
use std::ffi::c_int;

/// A compiled expression.
#[pyclass(frozen, module = "gpuvec._native")]
pub(crate) struct Formula {
    numpy: &'static NumPy,
    runs: Runs,
    handle: usize,
    /// The operation's own function for contiguous arrays, if the expression is an operation that has one.
    own: Option<Function>,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    is_tuple: bool,
    /// The most axes of a call without `axis`.
    most_axes: usize,
    /// True if a call without `axis` broadcasts.
    broadcasts: bool,
    /// True if all arrays of a call must have the same shape.
    needs_one_shape: bool,
    /// True if `axis` and `keepdims` may be passed.
    takes_axis: bool,
    queued: Py<PyAny>,
    failure: Py<PyAny>,
}

/// The arguments of a call beside its inputs.
pub(crate) struct Call<'a, 'py> {
    out: &'a Bound<'py, PyAny>,
    stream: &'a Bound<'py, PyAny>,
    /// The native stream of `stream`. Without one the call runs at once.
    pub(crate) native: Option<NativeStream>,
    axis: Option<&'a Bound<'py, PyAny>>,
    keepdims: bool,
}

impl<'a, 'py> Call<'a, 'py> {
    #[inline(always)]
    /// `reduced` has the arguments `axis` and `keepdims`. Returns `None` if this module does not know the type of
    /// `stream` or `keepdims`.
    pub(crate) fn new(
        numpy: &NumPy, out: &'a Bound<'py, PyAny>, stream: &'a Bound<'py, PyAny>,
        reduced: Option<&'a (Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    ) -> PyResult<Option<Self>> {
        let keepdims = reduced.map_or(Some(false), |(_, keepdims)| {
            keepdims.cast_exact::<PyBool>().ok().map(|keepdims| keepdims.is_true())
        });
        let axis = reduced.map(|(axis, _)| axis).filter(|axis| !axis.is_none());
        let native = numpy.stream(stream)?;
        Ok(native.zip(keepdims).map(|(native, keepdims)| Call {
            out,
            stream,
            native,
            axis,
            keepdims,
        }))
    }
}

/// The work of a call that the package queues on a stream.
#[pyclass(frozen, module = "gpuvec._native")]
struct Work(Box<dyn Fn(usize) -> c_int + Send + Sync>);

#[pymethods]
impl Work {
    /// Calls the library with a stream's handle, and returns the status.
    fn __call__(&self, py: Python<'_>, stream: usize) -> c_int {
        py.detach(|| (self.0)(stream))
    }
}

#[pymethods]
impl Formula {
    /// Makes the formula of an expression's handle, which must outlive it, or of an operation's own function.
    ///
    /// `functions` has the addresses of `gpuvec_expr_run_outputs` and `gpuvec_expr_run_nd`. `own` has the address of an
    /// operation's function, its number of inputs, and the size of its factor. An input has a name, a dtype, a form,
    /// and True if it has the elements' shape. An output has a dtype, and True for a reduction. `limits` has the fields
    /// from `most_axes` to `takes_axis`; the package's Python code handles calls beyond them. `calls` has a function
    /// that queues work on a stream, and a function that makes an exception from an error's status.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "only the package calls it")]
    fn new(
        py: Python<'_>, functions: (usize, usize), own: Option<(usize, usize, usize)>,
        handle: usize, inputs: Vec<(Py<PyString>, Py<PyAny>, String, bool)>,
        outputs: Vec<(Py<PyAny>, bool)>, is_tuple: bool, limits: (usize, bool, bool, bool),
        calls: (Py<PyAny>, Py<PyAny>),
    ) -> PyResult<Self> {
        // SAFETY: the addresses come from the library, and the rest from the package's table of declarations
        // (python/gpuvec/_library.py), which a test compares with the header.
        let (runs, own) = unsafe { (Runs::at(functions), own.map(|own| Function::at(own))) };
        let inputs = inputs.into_iter().map(|input| Input::new(py, input));
        let (inputs, numpy) = (inputs.collect::<PyResult<_>>()?, NumPy::get(py)?);
        let (queued, failure) = calls;
        let (most_axes, broadcasts, needs_one_shape, takes_axis) = limits;
        let outputs = outputs.into_iter().map(Output::new).collect();
        Ok(Formula {
            numpy,
            runs,
            handle,
            own,
            inputs,
            outputs,
            is_tuple,
            most_axes,
            broadcasts,
            needs_one_shape,
            takes_axis,
            queued,
            failure,
        })
    }

    /// Runs the expression with the values of its inputs. Returns None unless this module knows the types of all arrays
    /// and scalars, there is an array, and the shapes fit each other, `out` and `axis`.
    fn call<'py>(
        &self, inputs: &Bound<'py, PyDict>, out: &Bound<'py, PyAny>, stream: &Bound<'py, PyAny>,
        axis: Bound<'py, PyAny>, keepdims: Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let reduced = (axis, keepdims);
        let call = Call::new(self.numpy, out, stream, Some(&reduced))?;
        let Some(call) = call.filter(|_| inputs.len() == self.inputs.len()) else {
            return Ok(None);
        };
        // A few of them need no allocation.
        let mut arrays = SmallVec::<[Array; 2]>::new();
        let mut scalars = SmallVec::<[u64; 2]>::new();
        for input in &self.inputs {
            let Some(value) = inputs.get_item(&input.name)? else { return Ok(None) };
            if input.is_array() {
                let Some(array) = self.numpy.found(&value, call.native)? else { return Ok(None) };
                arrays.push(array);
            } else {
                let Some(bits) = input.bits(&value) else { return Ok(None) };
                scalars.push(bits);
            }
        }
        self.run(&arrays, &scalars, &call)
    }
}

impl Formula {
    /// Runs the expression. Returns `None` if an array's type is not the input's, or if shapes do not fit.
    pub(crate) fn run<'py>(
        &self, arrays: &[Array<'py>], scalars: &[u64], call: &Call<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(shapes) = self.shapes(arrays, call) else { return Ok(None) };
        let Some(targets) = self.targets(arrays, &shapes, call)? else { return Ok(None) };
        // Making the targets may have run Python code that changed arrays. From here to the library's call none runs.
        let fits = |(output, target): (&Output, &Target<'py>)| {
            let (shape, is_full) = (shapes.of_output(output.extent), shapes.reduced.is_full());
            output.fits(&target.array, shape, is_full)
        };
        if !self.arrays_of(arrays).all(|(input, array)| input.accepts(array))
            || !self.have_shapes(arrays, &shapes, call)
            || !self.outputs.iter().zip(&targets).all(fits)
        {
            return Ok(None);
        }
        let work = self.work(arrays, scalars, &targets, shapes);
        self.do_or_queue(work, arrays, &targets, call)?;
        let mut results = targets.into_iter().map(Target::result);
        if !self.is_tuple {
            return results.next().transpose();
        }
        let results = results.collect::<PyResult<Vec<_>>>()?;
        Ok(Some(PyTuple::new(call.out.py(), results)?.into_any()))
    }

    /// Calls an operation's own function, like [`Self::run`] its expression. Also returns `None` unless all arrays are
    /// contiguous and of one shape, and all axes are reduced or none.
    pub(crate) fn run_own<'py>(
        &self, arrays: &[Array<'py>], factor: f64, call: &Call<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (Some(own), [output]) = (self.own, self.outputs.as_slice()) else { return Ok(None) };
        let shape = || arrays[0].shape();
        let are_plain = || arrays.iter().all(|one| one.is_contiguous() && one.shape() == shape());
        let has_axis = call.keepdims || call.axis.is_some();
        if has_axis || shape().len() > self.most_axes || !are_plain() {
            return Ok(None);
        }
        let result = match output.extent {
            Extent::Elements => PerAxis::from_slice(shape()),
            Extent::Results => PerAxis::new(),
        };
        let device = arrays.iter().find_map(|array| array.device);
        let target = match call.out.is_none() {
            true => output.new_target(self.numpy, call.out.py(), &result, None, device)?,
            false => Target::given(self.numpy, call.out, call.native)?,
        };
        let Some(target) = target else { return Ok(None) };
        // Making the target may have run Python code that changed arrays. From here to the library's call none runs.
        let mut typed = arrays.iter().zip(&self.inputs);
        let has_shape = match output.extent {
            Extent::Elements => shape() == result.as_slice(),
            Extent::Results => true,
        };
        let fits = has_shape
            && are_plain()
            && typed.all(|(array, input)| input.accepts(array))
            && output.fits(&target.array, &result, true)
            && target.array.is_contiguous();
        if !fits {
            return Ok(None);
        }
        let n = shape().iter().product::<isize>().unsigned_abs();
        let inputs = [&arrays[0], &arrays[arrays.len() - 1]].map(Array::address);
        let out = target.array.address();
        // SAFETY: as in `work`.
        let work = move |stream| unsafe { own.call(factor, inputs, out, n, stream) };
        self.do_or_queue(work, arrays, std::slice::from_ref(&target), call)?;
        target.result().map(Some)
    }

    /// Runs the work of a call, or queues it on the call's stream.
    fn do_or_queue<'py>(
        &self, work: impl Fn(usize) -> c_int + Send + Sync + 'static, arrays: &[Array<'py>],
        targets: &[Target<'py>], call: &Call<'_, 'py>,
    ) -> PyResult<()> {
        let py = call.out.py();
        if call.native.is_none() {
            let status = py.detach(|| work(0));
            return match status {
                0 => Ok(()),
                _ => Err(PyErr::from_value(self.failure.bind(py).call1((status,))?)),
            };
        }
        let all = || arrays.iter().chain(targets.iter().map(|target| &target.array));
        let objects = PyTuple::new(py, all().map(Array::object).collect::<Vec<_>>())?;
        let kept = PyTuple::new(py, all().map(|array| &array.owner).collect::<Vec<_>>())?;
        self.queued.bind(py).call1((call.stream, objects, kept, Work(Box::new(work))))?;
        Ok(())
    }

    /// Returns the shapes of a call. `None` if they do not fit each other, or if only the package's Python code knows
    /// them: each of several reductions, and reductions inside the formula, may read arrays of different shapes.
    fn shapes(&self, arrays: &[Array], call: &Call<'_, '_>) -> Option<Shapes> {
        let shapes = Shapes::of(self.counted(arrays), call.axis, call.keepdims)?;
        let has_axis = call.axis.is_some();
        let may_differ = !self.needs_one_shape && (self.broadcasts || has_axis);
        let fits = (self.takes_axis || !(has_axis || call.keepdims))
            && (shapes.elements.len() <= self.most_axes || has_axis)
            && (may_differ || self.counted(arrays).all(|array| array.shape() == &*shapes.elements));
        fits.then_some(shapes)
    }

    /// True if the arrays still have the shapes of a call.
    fn have_shapes(&self, arrays: &[Array], shapes: &Shapes, call: &Call<'_, '_>) -> bool {
        self.counted(arrays).all(|array| array.shape() == &*shapes.elements)
            || self.shapes(arrays, call).is_some_and(|now| now.elements == shapes.elements)
    }

    /// Returns the target of each output: the caller's array, or a new one. `None` if an argument does not fit.
    fn targets<'py>(
        &self, arrays: &[Array<'py>], shapes: &Shapes, call: &Call<'_, 'py>,
    ) -> PyResult<Option<SmallVec<[Target<'py>; 1]>>> {
        let given = match call.out.cast_exact::<PyTuple>() {
            Ok(tuple) if self.is_tuple && tuple.len() == self.outputs.len() => Some(tuple),
            Err(_) if !self.is_tuple || call.out.is_none() => None,
            _ => return Ok(None),
        };
        let device = arrays.iter().find_map(|array| array.device);
        let mut targets = SmallVec::new();
        for (number, output) in self.outputs.iter().enumerate() {
            let out = given.map(|tuple| tuple.get_item(number)).transpose()?;
            let out = out.as_ref().unwrap_or(call.out);
            let extent = output.extent;
            let target = match out.is_none() {
                true => {
                    let (shape, order) = (shapes.of_output(extent), shapes.order_of(extent));
                    output.new_target(self.numpy, out.py(), shape, order.as_deref(), device)?
                }
                false => Target::given(self.numpy, out, call.native)?,
            };
            let Some(target) = target else { return Ok(None) };
            targets.push(target);
        }
        Ok(Some(targets))
    }

    /// Returns the call of the library as a function of a stream's handle, or 0. The scalars must outlive it.
    fn work(
        &self, arrays: &[Array], scalars: &[u64], targets: &[Target], shapes: Shapes,
    ) -> impl Fn(usize) -> c_int + Send + Sync + 'static {
        let (mut rest, mut values) = (arrays.iter(), scalars.iter());
        let address = |input: &Input| match input.is_array() {
            true => rest.next().map(Array::address),
            false => values.next().map(|bits| (&raw const *bits).expose_provenance()),
        };
        let mut addresses: SmallVec<[usize; 4]> = self.inputs.iter().filter_map(address).collect();
        addresses.extend(targets.iter().map(|target| target.array.address()));
        let is_whole = |output: &Output| match output.extent {
            Extent::Elements => true,
            Extent::Results => shapes.results.iter().all(|length| *length == 1),
        };
        let is_plain = self.outputs.iter().all(is_whole)
            && targets.iter().all(|target| target.array.is_contiguous())
            && self.counted(arrays).all(Array::is_contiguous)
            && self.counted(arrays).all(|array| array.shape() == &*shapes.elements);
        let n = shapes.elements.iter().product::<isize>().unsigned_abs();
        let layout = (!is_plain).then(|| self.layout(arrays, targets, shapes, &addresses));
        let (runs, handle, count) = (self.runs, self.handle, self.inputs.len());
        // SAFETY: the package keeps the handle. The arrays have these lengths and strides. The caller keeps them and
        // the scalars, or a stream does if the call is queued. Like NumPy's own functions, this one relies on other
        // threads not to resize arrays.
        move |stream| unsafe {
            let Some(Layout { shape, arrays, mask, .. }) = &layout else {
                let (inputs, outputs) = addresses.split_at(count);
                let (from, to, results) = (inputs.as_ptr(), outputs.as_ptr(), outputs.len());
                return (runs.plain)(handle, from, to, results, n, stream);
            };
            let (axes, lengths) = (shape.len() as i32, shape.as_ptr());
            let (from, to) = (arrays.as_ptr(), arrays[count..].as_ptr());
            (runs.strided)(handle, axes, lengths, from, to, *mask, stream)
        }
    }

    /// Returns the layout of arrays of any strides.
    fn layout(
        &self, arrays: &[Array], targets: &[Target], shapes: Shapes, addresses: &[usize],
    ) -> Layout {
        let (axes, mut rest) = (shapes.elements.len(), arrays.iter());
        let of_input = |input: &Input| {
            let array = input.is_array().then(|| rest.next()).flatten();
            array.filter(|_| input.is_counted).map(|array| strides_in(array, axes).collect())
        };
        let mut strides: Vec<_> = self.inputs.iter().map(of_input).collect();
        let outputs = self.outputs.iter().zip(targets);
        strides.extend(
            outputs.map(|(output, target)| Some(shapes.strides_of(output.extent, &target.array))),
        );
        let has_reductions = self.outputs.iter().any(|output| match output.extent {
            Extent::Elements => false,
            Extent::Results => true,
        });
        let mask = if has_reductions { shapes.reduced.mask } else { 0 };
        Layout::new(shapes.elements, mask, addresses, strides)
    }

    /// The arrays of a call that have the elements' shape.
    fn counted<'a, 'py>(
        &'a self, arrays: &'a [Array<'py>],
    ) -> impl Iterator<Item = &'a Array<'py>> + Clone {
        let inputs = self.arrays_of(arrays).filter(|(input, _)| input.is_counted);
        inputs.map(|(_, array)| array)
    }

    /// The arrays of a call, each with its input.
    fn arrays_of<'a, 'py>(
        &'a self, arrays: &'a [Array<'py>],
    ) -> impl Iterator<Item = (&'a Input, &'a Array<'py>)> + Clone {
        self.inputs.iter().filter(|input| input.is_array()).zip(arrays)
    }
}
