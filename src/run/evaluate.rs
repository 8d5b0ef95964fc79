//! Evaluates expressions over arrays of any shape and strides.

use super::bindings::{Bindings, OUTPUT_NAMES};
use super::last_run::Backend;
use super::memory_kinds::MemoryKinds;
use super::passes::evaluate_passes;
use super::reduce_axes::{ReduceAxes, Views};
use super::strided_iter::{StridedIter, address};
use super::work::{CpuProgram, Evaluating};
use super::{Reduce, Runner, Subject, execute, last_run, log, queue, run};
use crate::call::chunk::Chunk;
use crate::call::plan::{Plan, on_stream};
use crate::call::{
    Arguments, Array, Arrays, Binding, Call, ChunkWork, Evaluation, Extent, Formula, Input, Layout,
    MAX_ARRAYS, MAX_INPUTS, MAX_OUTPUTS, MemoryKind, Output, Strides, Task, TaskKind,
};
use crate::cpu::{Grid, gather, scatter};
use crate::error::Error;
use crate::objects::accumulator::Shape;
use crate::objects::expression::Expression;
use crate::objects::stream::{Stream, given, gpuvec_stream};
use crate::policy::CORES;
use crate::process::settings::{self, Placement};
use arrayvec::ArrayVec;
use gpuvec_axes::{Access, Argument, Axes, MAX_RANK, Space, Stride, View};
use std::ffi::c_void;
use std::ptr::null;
use std::slice::from_raw_parts;

/// An array of any strides, in memory of any kind.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gpuvec_array {
    /// The element all of whose indexes are 0.
    pub data: *mut c_void,
    /// The distance from an element to the next along each axis, in bytes; NULL for C order. They may be
    /// negative, and 0 for an input that is the same along an axis.
    pub strides: *const i64,
}

/// The arguments of a call, as the caller passed them. A call on contiguous arrays has one axis, without strides.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a> {
    pub(crate) shape: &'a [i64],
    pub(crate) inputs: *const gpuvec_array,
    pub(crate) outputs: *const gpuvec_array,
    /// The outputs' names in errors.
    pub(super) output_names: &'a [&'static str],
    pub(crate) reduced_axes: u64,
}

impl<'a> Strided<'a> {
    pub(crate) fn new(
        shape: &'a [i64], inputs: *const gpuvec_array, outputs: *const gpuvec_array,
        reduced_axes: u64,
    ) -> Self {
        Strided { shape, inputs, outputs, output_names: &OUTPUT_NAMES, reduced_axes }
    }
}

/// Evaluates an expression over `n` elements of contiguous arrays, or queues that on a stream. `inputs` has a pointer
/// for each declared input: to an array, or to the value of a scalar. `outputs` has one for each output.
///
/// # Safety
/// As [`Arguments::new`], of the arrays that the expression uses; `inputs` has as many pointers as the
/// expression has inputs, and pointers of scalars point to values in host memory.
pub(crate) unsafe fn evaluate(
    expression: &Expression, inputs: *const *const c_void, outputs: &[Output], n: usize,
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    log::begin(Subject::Expression(Some(&expression.text)), n);
    // SAFETY: this function's promise.
    unsafe {
        if expression.has_passes {
            return evaluate_in_passes(expression, inputs, outputs, n, stream);
        }
        let mut bindings = Bindings::new();
        bindings.read(expression, inputs, n)?;
        evaluate_contiguous(expression, &bindings, outputs, n, stream)
    }
}

/// Evaluates an expression in passes, over arrays of one axis without strides. Not inlined, so that short calls of one
/// pass use less stack.
///
/// # Safety
/// As [`evaluate`].
#[inline(never)]
unsafe fn evaluate_in_passes(
    expression: &Expression, inputs: *const *const c_void, outputs: &[Output], n: usize,
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let element_bytes = outputs.first().map_or(1, |output| output.layout.element_bytes);
    let length = i64::try_from(n).map_err(|_| Error::TooLong { n, element_bytes })?;
    let array = |data| gpuvec_array { data, strides: null() };
    let declared = if inputs.is_null() { 0 } else { expression.formula.program().declared().len() };
    // SAFETY: this function's promise.
    let input = |number| array(unsafe { inputs.add(number).read_unaligned() }.cast_mut());
    let given: ArrayVec<gpuvec_array, MAX_INPUTS> = (0..declared).map(input).collect();
    let places: ArrayVec<gpuvec_array, MAX_OUTPUTS> =
        outputs.iter().map(|output| array(output.pointer)).collect();
    let names: ArrayVec<&str, MAX_OUTPUTS> = outputs.iter().map(|output| output.name).collect();
    let strided = Strided {
        shape: &[length],
        inputs: if inputs.is_null() { null() } else { given.as_ptr() },
        outputs: places.as_ptr(),
        output_names: &names,
        reduced_axes: all_reduced(expression, 1),
    };
    // SAFETY: this function's promise.
    unsafe { evaluate_passes(expression, &strided, stream) }
}

/// Evaluates an expression over arrays of any strides, or reduces them along axes; as
/// [`evaluate`], if all arrays are contiguous.
///
/// # Safety
/// `inputs` has an array for each declared input, and `outputs` one for each output.
/// Strides of arrays that the call uses have one number for each axis. The strides point to elements of the arrays,
/// as [`Arguments::new`] demands; `data` of scalars points to values in host memory.
pub(crate) unsafe fn evaluate_strided(
    expression: &Expression, strided: &Strided<'_>, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    log::begin(Subject::Expression(Some(&expression.text)), saturated_elements(strided.shape));
    // SAFETY: this function's promise.
    unsafe {
        match expression.has_passes {
            false => evaluate_part(expression, strided, stream),
            true => evaluate_passes(expression, strided, stream),
        }
    }
}

/// Evaluates one pass of an expression, as the whole or a part of a logged call. Not inlined, to keep the library small.
///
/// # Safety
/// As for [`evaluate_strided`].
#[inline(never)]
pub(super) unsafe fn evaluate_part(
    expression: &Expression, strided: &Strided<'_>, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let mut given = Given::new(strided.shape);
    // SAFETY: this function's promise.
    unsafe { given.read(expression, strided)? };
    if let Some(n) = given.contiguous(expression, strided.reduced_axes) {
        let outputs = given.outputs(expression, strided.output_names);
        // SAFETY: this function's promise.
        return unsafe { evaluate_contiguous(expression, &given.bindings, &outputs, n, stream) };
    }
    let mut views = ArrayVec::<View, MAX_ARRAYS>::new_const();
    views.extend(given.arrays.iter().map(|_| View::default()));
    let views = &mut views[..];
    let Some(axes) = given.axes(expression, strided.reduced_axes, views)? else {
        return without_results(&expression.formula, strided);
    };
    let bindings = &mut given.bindings;
    let (inputs, outputs) = views.split_at(bindings.arrays.len());
    // SAFETY: this function's promise, of the elements to which the checked strides lead.
    unsafe {
        if !is_contiguous(&expression.formula, &axes, inputs, outputs) {
            return evaluate_views(expression, bindings, &axes, views, stream);
        }
        bindings.place_at(inputs);
        let outputs = outputs.iter().map(pointer_to);
        let outputs = named(&expression.formula, strided.output_names, outputs);
        let n = axes.kept().elements() * axes.reduced().elements();
        evaluate_contiguous(expression, bindings, &outputs, n, stream)
    }
}

/// The outputs at these addresses.
fn named(
    formula: &Formula, names: &[&'static str], pointers: impl Iterator<Item = *mut c_void>,
) -> ArrayVec<Output, MAX_OUTPUTS> {
    let outputs = names.iter().zip(pointers).zip(formula.outputs());
    outputs.map(|((name, pointer), layout)| Output { name, pointer, layout }).collect()
}

/// The bits of all axes for an expression that reduces, else none.
pub(super) fn all_reduced(expression: &Expression, axes: usize) -> u64 {
    match expression.formula.kind {
        TaskKind::Copy | TaskKind::Elementwise => 0,
        TaskKind::Reduced | TaskKind::Mixed => (1 << axes) - 1,
    }
}

/// Ends a call that has no results: as for NumPy, no minimum of no elements is an error all the same.
fn without_results(formula: &Formula, strided: &Strided<'_>) -> Result<(), Error> {
    let is_reduced = |axis: &usize| strided.reduced_axes >> axis & 1 == 1;
    let mut reduced = (0..strided.shape.len()).filter(is_reduced);
    if !formula.has_empty_result && reduced.any(|axis| strided.shape[axis] == 0) {
        return Err(Error::Empty);
    }
    last_run::clear();
    Ok(())
}

/// Evaluates an expression over views. (A function of its own, as the next one: so the stack holds the arrays of one of
/// them.)
///
/// # Safety
/// As [`Arguments::new`], of the elements to which the views lead.
#[inline(never)]
unsafe fn evaluate_views(
    expression: &Expression, bindings: &Bindings, axes: &Axes, views: &[View],
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let checked = Checked::new(expression, bindings, axes, views, stream)?;
    // SAFETY: this function's promise.
    unsafe {
        match expression.formula.kind {
            TaskKind::Copy | TaskKind::Elementwise => checked.map(),
            TaskKind::Reduced | TaskKind::Mixed => checked.reduce(),
        }
    }
}

/// Evaluates one pass of an expression over `n` elements of contiguous arrays. It builds no axes and no views, which
/// take a call of 10 elements 0.2 us of 1.1.
///
/// # Safety
/// As [`Arguments::new`].
#[inline(always)]
unsafe fn evaluate_contiguous(
    expression: &Expression, bindings: &Bindings, outputs: &[Output], n: usize,
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let (formula, bindings_of_all) = (&expression.formula, &bindings.all);
    let task = Task::Evaluate(Evaluation { formula, bindings: bindings_of_all });
    // SAFETY: this function's promise.
    let arguments = unsafe { Arguments::new(task, &bindings.arrays, outputs, n) };
    let steps = CpuProgram::Blocks { blocks: &expression.blocks, bindings: bindings_of_all };
    run(&arguments, steps, stream, None)
}

/// Reads a caller's shape.
///
/// # Safety
/// `shape` has a length for each axis.
pub(crate) unsafe fn read_shape(ndim: i32, shape: *const i64) -> Result<Shape, Error> {
    let axes = usize::try_from(ndim).ok().filter(|axes| *axes <= MAX_RANK);
    let expected = "pass 0 to 32 axes";
    let axes = axes.ok_or(Error::Value { argument: "ndim", value: ndim.into(), expected })?;
    if axes > 0 && shape.is_null() {
        return Err(Error::Null { argument: "shape", n: axes });
    }
    // SAFETY: this function's promise.
    Ok(unsafe { numbers(shape, axes) }.collect())
}

/// The number of elements of a shape, or the largest that there may be; of a shape that is wrong, any number.
pub(super) fn saturated_elements(shape: &[i64]) -> usize {
    let elements = shape.iter().fold(1i64, |all, length| all.saturating_mul(*length));
    elements.max(0) as usize
}

/// What a call reads of its arguments: a copy, since they may be at any address.
pub(super) struct Given<'a> {
    shape: &'a [i64],
    pub(super) bindings: Bindings,
    /// The inputs that the call uses, and the outputs.
    pub(super) arrays: ArrayVec<GivenArray<'a>, MAX_ARRAYS>,
}

/// An array as the caller passed it.
#[derive(Clone, Copy)]
pub(super) struct GivenArray<'a> {
    pub(super) data: *mut c_void,
    /// For each axis; None for C order. (Not copied: all of them take 10 KiB of stack.)
    pub(super) strides: Option<&'a [Stride]>,
}

impl<'a> Given<'a> {
    pub(super) const fn new(shape: &'a [i64]) -> Self {
        Given { shape, bindings: Bindings::new(), arrays: ArrayVec::new_const() }
    }

    /// Reads the arguments, in place as [`Bindings::read`]. Without elements, reads no inputs.
    ///
    /// # Safety
    /// As for [`evaluate_strided`]; the strides live as long as this.
    #[inline(never)]
    pub(super) unsafe fn read(
        &mut self, expression: &Expression, strided: &Strided<'a>,
    ) -> Result<(), Error> {
        let Strided { shape, inputs, outputs, .. } = *strided;
        let axes = shape.len();
        let declared = expression.formula.program().inputs().len();
        let n = usize::from(!shape.contains(&0));
        if n > 0 && declared > 0 && inputs.is_null() {
            return Err(Error::Null { argument: "inputs", n: declared });
        }
        if outputs.is_null() {
            return Err(Error::NullResult { argument: "outputs" });
        }
        // SAFETY: this function's promise.
        let input = |number| unsafe { inputs.add(number).read_unaligned() };
        let all: ArrayVec<gpuvec_array, MAX_INPUTS> = (0..declared * n).map(input).collect();
        let pointers: ArrayVec<_, MAX_INPUTS> =
            all.iter().map(|array| array.data.cast_const()).collect();
        // SAFETY: this function's promise.
        unsafe { self.bindings.read(expression, pointers.as_ptr(), n)? };
        let used = all.iter().zip(&self.bindings.all);
        let used = used.filter(|(_, binding)| matches!(binding, Binding::Array));
        // SAFETY: this function's promise.
        let output = |number| unsafe { outputs.add(number).read_unaligned() };
        let outputs = (0..expression.formula.outputs().count()).map(output);
        let array = |gpuvec_array { data, strides }| {
            let first = strides.cast::<Stride>();
            // SAFETY: this function's promise.
            let strides = (!first.is_null()).then(|| unsafe { from_raw_parts(first, axes) });
            GivenArray { data, strides }
        };
        self.arrays.extend(used.map(|(array, _)| *array).chain(outputs).map(array));
        Ok(())
    }

    /// The number of elements, if the arguments alone tell that all arrays are contiguous: there is one axis at most,
    /// without strides, and reductions reduce it.
    fn contiguous(&self, expression: &Expression, reduced_axes: u64) -> Option<usize> {
        let axes = self.shape.len();
        let is_contiguous = axes <= 1
            && reduced_axes == all_reduced(expression, axes)
            && self.arrays.iter().all(|array| array.strides.is_none());
        let n = self.shape.first().copied().unwrap_or(1);
        usize::try_from(n).ok().filter(|_| is_contiguous)
    }

    /// The outputs, with these names.
    fn outputs(
        &self, expression: &Expression, names: &[&'static str],
    ) -> ArrayVec<Output, MAX_OUTPUTS> {
        let outputs = self.arrays[self.bindings.arrays.len()..].iter();
        named(&expression.formula, names, outputs.map(|output| output.data))
    }

    /// Fails if an argument is wrong.
    pub(super) fn check(
        &self, expression: &Expression, strided: &Strided<'_>,
    ) -> Result<(), Error> {
        if let Some(n) = self.contiguous(expression, strided.reduced_axes) {
            let (formula, bindings) = (&expression.formula, &self.bindings.all);
            let task = Task::Evaluate(Evaluation { formula, bindings });
            let outputs = self.outputs(expression, strided.output_names);
            // SAFETY: the arrays are not accessed.
            let arguments = unsafe { Arguments::new(task, &self.bindings.arrays, &outputs, n) };
            return Call::new(&mut Arrays::new(), &arguments, |_| Ok(MemoryKind::Pageable))
                .map(drop);
        }
        let mut views: ArrayVec<View, MAX_ARRAYS> =
            self.arrays.iter().map(|_| View::default()).collect();
        self.axes(expression, strided.reduced_axes, &mut views).map(drop)
    }

    /// The axes of the call, and the views of its arrays.
    #[inline(never)]
    pub(super) fn axes(
        &self, expression: &Expression, reduced_axes: u64, views: &mut [View],
    ) -> Result<Option<Axes>, Error> {
        let sizes = self.bindings.arrays.iter().map(|input| input.layout);
        let sizes = sizes.chain(expression.formula.outputs());
        let argument = |(array, layout): (&GivenArray<'a>, Layout)| Argument {
            address: array.data.expose_provenance(),
            element_bytes: layout.element_bytes,
            strides: array.strides,
        };
        let arguments: ArrayVec<Argument<'_>, MAX_ARRAYS> =
            self.arrays.iter().zip(sizes).map(argument).collect();
        let (inputs, outputs) = arguments.split_at(self.bindings.arrays.len());
        let shape = self.shape;
        let layouts = expression.formula.outputs().enumerate();
        let whole = layouts.filter(|(_, layout)| layout.extent == Extent::Elements);
        let arguments = gpuvec_axes::Arguments {
            shape,
            inputs,
            outputs,
            whole_outputs: whole.fold(0, |bits, (output, _)| bits | 1 << output),
            reduced_axes,
            is_indexed: expression.formula.is_indexed(),
        };
        let axes = Axes::new(&arguments, views).map_err(Error::Axes)?;
        match expression.formula.kind {
            TaskKind::Copy | TaskKind::Elementwise if axes.is_some() && reduced_axes != 0 => {
                let expected = "the expression is not a reduction: pass 0";
                let value = reduced_axes.cast_signed();
                Err(Error::Value { argument: "reduced_axes", value, expected })
            }
            TaskKind::Copy | TaskKind::Elementwise | TaskKind::Reduced | TaskKind::Mixed => {
                Ok(axes)
            }
        }
    }
}

/// The lengths of a call's axes.
///
/// # Safety
/// There is one for each axis.
unsafe fn numbers(pointer: *const i64, axes: usize) -> impl Iterator<Item = i64> {
    // SAFETY: this function's promise.
    (0..axes).map(move |axis| unsafe { pointer.add(axis).read_unaligned() })
}

/// True if the call's elements are adjacent in each array, and a reduction has one result.
pub(super) fn is_contiguous(
    formula: &Formula, axes: &Axes, inputs: &[View], outputs: &[View],
) -> bool {
    let is_direct = |space: &Space, view: &View| space.access(view) == Access::Direct;
    let is_whole = |view: &View| is_direct(axes.kept(), view) && is_direct(axes.reduced(), view);
    let has_one_axis = match formula.kind {
        TaskKind::Copy | TaskKind::Elementwise => true,
        TaskKind::Reduced | TaskKind::Mixed => axes.kept().elements() == 1,
    };
    has_one_axis
        && inputs.iter().all(is_whole)
        && outputs.iter().zip(formula.outputs()).all(|(view, layout)| match layout.extent {
            Extent::Elements => is_whole(view),
            Extent::Results => is_direct(axes.kept(), view),
        })
}

/// The address of a view's first element.
pub(super) fn pointer_to(view: &View) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(view.first)
}

/// The arrays of a call, by their names and layouts.
fn arrays<'a>(
    placement: Placement, views: impl Iterator<Item = ((&'static str, Layout), &'a View)>,
) -> Result<Arrays, Error> {
    let (kinds, mut arrays) = (MemoryKinds::new(placement), Arrays::new());
    for ((name, layout), view) in views {
        let (address, bytes) = (view.lowest, view.end - view.lowest);
        let mut array = Array { name, address, layout, bytes, kind: MemoryKind::Pageable };
        array.kind = kinds.of(&array)?;
        arrays.push(array);
    }
    Ok(arrays)
}

/// A call whose axes and arrays are known.
pub(super) struct Checked<'a> {
    expression: &'a Expression,
    evaluation: Evaluation<'a>,
    axes: &'a Axes,
    /// Of the inputs, then of the outputs.
    views: &'a [View],
    inputs: usize,
    pub(super) arrays: Arrays,
    placement: Placement,
    stream: *mut gpuvec_stream,
}

impl<'a> Checked<'a> {
    /// The call on these views, whose arrays it asks for their kinds of memory.
    pub(super) fn new(
        expression: &'a Expression, bindings: &'a Bindings, axes: &'a Axes, views: &'a [View],
        stream: *mut gpuvec_stream,
    ) -> Result<Self, Error> {
        let formula = &expression.formula;
        let outputs = OUTPUT_NAMES.into_iter().zip(formula.outputs());
        let contiguous = |input: &Input| (input.name, input.layout);
        let all = bindings.arrays.iter().map(contiguous).chain(outputs);
        let placement = settings::placement()?;
        let arrays = arrays(placement, all.zip(views))?;
        let evaluation = Evaluation { formula, bindings: &bindings.all };
        let inputs = bindings.arrays.len();
        Ok(Checked { expression, evaluation, axes, views, inputs, arrays, placement, stream })
    }

    /// The call on all its elements.
    ///
    /// # Safety
    /// As [`Arguments::new`], of the elements to which the views lead.
    unsafe fn call(&self) -> Call<'_> {
        // SAFETY: this function's promise.
        unsafe { self.call_with(self.strides()) }
    }

    fn strides(&self) -> Strides<'a> {
        Strides::new(self.axes, self.views)
    }

    /// The same with these strides, which are the call's.
    ///
    /// # Safety
    /// As [`Checked::call`].
    unsafe fn call_with<'s>(&'s self, strides: Strides<'s>) -> Call<'s> {
        let n = self.axes.kept().elements() * self.axes.reduced().elements().max(1);
        let task = Task::Evaluate(self.evaluation);
        // SAFETY: this function's promise; each view belongs to the array of the same number.
        unsafe { Call::strided(task, n, &self.arrays, self.inputs, strides) }
    }

    /// Computes the elements, or queues that on a stream.
    ///
    /// # Safety
    /// As [`Arguments::new`], of the elements to which the views lead.
    unsafe fn map(&self) -> Result<(), Error> {
        let (blocks, bindings) = (&self.expression.blocks, self.evaluation.bindings);
        let (inputs, outputs) = self.views.split_at(self.inputs);
        // SAFETY: this function's promise.
        let (call, walk) = unsafe {
            (self.call(), StridedIter::new(blocks, bindings, self.axes, inputs, outputs))
        };
        match self.is_queued(&call)? {
            true => Ok(()),
            false => self.execute(&call, CpuProgram::Strided(&walk), None),
        }
    }

    /// Reduces the elements and computes the elementwise outputs, or queues that on a stream.
    ///
    /// # Safety
    /// As [`Arguments::new`], of the elements to which the views lead.
    unsafe fn reduce(&self) -> Result<(), Error> {
        // SAFETY: this function's promise.
        let call = unsafe { self.call() };
        let bindings = self.evaluation.bindings;
        let (inputs, outputs) = self.views.split_at(self.inputs);
        let blocks = &self.expression.blocks;
        let steps = CpuProgram::Blocks { blocks, bindings };
        let reads_none = inputs.is_empty() && call.task().kind() == TaskKind::Reduced;
        let are_equal = reads_none || self.axes.reduced().elements() == 0;
        let results = if are_equal { Some(self.results()?) } else { None };
        if self.is_queued(&call)? {
            return Ok(());
        }
        if let Some(results) = results {
            let is_empty = self.axes.reduced().elements() == 0;
            if call.device().is_none() && (is_empty || self.placement != Placement::Gpu) {
                last_run::clear();
                let all = outputs.iter().zip(&results).zip(self.evaluation.formula.outputs());
                for ((view, result), _) in
                    all.filter(|(_, layout)| layout.extent == Extent::Results)
                {
                    // SAFETY: this function's promise.
                    unsafe { fill(self.axes.kept(), view, (&raw const *result).cast()) };
                }
                return Ok(());
            }
            let on_gpu: Reduce<'_> = &mut |runner, _| runner.run(&mut NoWork).map(|_| ());
            return self.execute(&call, steps, Some(on_gpu));
        }
        // SAFETY: this function's promise.
        let mut reducing = unsafe { self.reducing()? };
        let mut ran_on = Backend::None;
        let mut reduce = |runner: &Runner<'_>, _: &Evaluating<'_>| {
            ran_on = reduce_along_axes(runner, &mut reducing)?;
            Ok(())
        };
        self.execute(&call, steps, Some(&mut reduce))?;
        if ran_on == Backend::Gpu { Ok(()) } else { reducing.finish() }
    }

    /// The reductions of the call as the work of cores. The call has elements.
    ///
    /// # Safety
    /// As [`Arguments::new`], of the elements to which the views lead; if cores do the work, in host memory.
    pub(super) unsafe fn reducing(&self) -> Result<ReduceAxes<'_>, Error> {
        let Evaluation { formula, bindings } = self.evaluation;
        let (inputs, outputs) = self.views.split_at(self.inputs);
        let views = Views { inputs, outputs };
        // SAFETY: this function's promise.
        unsafe {
            let outputs = formula.program().outputs();
            ReduceAxes::new(&self.expression.blocks, bindings, self.axes, views, outputs)
        }
    }

    /// Does the work of a reduction whose states are wanted, after the stream's earlier work: on cores, or on GPUs
    /// alone.
    ///
    /// # Safety
    /// As [`Checked::reducing`].
    pub(super) unsafe fn reduce_to_states<'r>(
        &self, mut reducing: ReduceAxes<'r>, on_gpus: bool,
    ) -> Result<ReduceAxes<'r>, Error> {
        let placement = if on_gpus { Placement::Gpu } else { Placement::Cpu };
        let stream = given(self.stream)?;
        // SAFETY: this function's promise.
        let call = unsafe { self.call_with(self.strides().for_states()) };
        let mut reduce = |runner: &Runner<'_>, _: &Evaluating<'_>| {
            reduce_along_axes(runner, &mut reducing).map(|_| ())
        };
        let (blocks, bindings) = (&self.expression.blocks, self.evaluation.bindings);
        let steps = CpuProgram::Blocks { blocks, bindings };
        execute(&call, placement, stream.as_deref(), steps, Some(&mut reduce))?;
        Ok(reducing)
    }

    /// Queues a call on the caller's stream, if the stream's GPU reaches all arrays. Returns true if it did.
    #[inline(never)]
    fn is_queued(&self, call: &Call<'_>) -> Result<bool, Error> {
        if let Some(Stream::Gpu(stream)) = given(self.stream)?.as_deref()
            && let Some(plan) = on_stream(call, self.placement, stream.ordinal())
        {
            return queue(call, &plan, stream).map(|()| true);
        }
        Ok(false)
    }

    /// Runs a call, after the stream's earlier work.
    #[inline(never)]
    fn execute(
        &self, call: &Call<'_>, steps: CpuProgram<'_>, reduce: Option<Reduce<'_>>,
    ) -> Result<(), Error> {
        execute(call, self.placement, given(self.stream)?.as_deref(), steps, reduce)
    }

    /// The results of reductions that read no array: each result has one value for all elements.
    fn results(&self) -> Result<[u64; MAX_OUTPUTS], Error> {
        let mut results = [0u64; MAX_OUTPUTS];
        let places = results.iter_mut().map(|result| (&raw mut *result).cast());
        let given: ArrayVec<Output, MAX_OUTPUTS> = OUTPUT_NAMES
            .into_iter()
            .zip(places)
            .zip(self.evaluation.formula.outputs())
            .map(|((name, pointer), layout)| Output { name, pointer, layout })
            .collect();
        let (task, n) = (Task::Evaluate(self.evaluation), self.axes.reduced().elements());
        // SAFETY: no array is read, and a result is no longer than a word.
        let arguments = unsafe { Arguments::new(task, &[], &given, n) };
        let (blocks, bindings) = (&self.expression.blocks, self.evaluation.bindings);
        run(&arguments, CpuProgram::Blocks { blocks, bindings }, self.stream, None)?;
        Ok(results)
    }
}

/// Runs a reduction along axes, and says where. Fails unless all of it is done.
fn reduce_along_axes(runner: &Runner<'_>, reducing: &mut ReduceAxes<'_>) -> Result<Backend, Error> {
    if let Plan::Cores(plan) = runner.plan {
        reducing.divide(plan.threads);
    }
    let ran_on = runner.run(reducing)?;
    if ran_on != Backend::Gpu {
        reducing.check()?;
    }
    Ok(ran_on)
}

/// The work of cores in a call that GPUs do alone.
struct NoWork;

impl ChunkWork for NoWork {
    fn compute(&self, _: &mut dyn Iterator<Item = Chunk>) {}
}

/// Writes a value to all elements of an output.
///
/// # Safety
/// The elements are writable, no other thread has them, and the value has their size.
unsafe fn fill(space: &Space, view: &View, value: *const u8) {
    let blocks = space.blocks(CORES.strided_block);
    let mut values = [0u64; CORES.strided_block];
    let buffer = values.as_mut_ptr().cast();
    // SAFETY: this function's promise; the buffer has a word for each element of a block.
    unsafe {
        gather(Grid::new(&[blocks.elements()], &[0], view.element_bytes), value, buffer);
        for block in blocks.walk(0..blocks.count()) {
            let to = address(view, block.offset(view));
            scatter(Grid::of(block.space(), view), buffer, to);
        }
    }
}
