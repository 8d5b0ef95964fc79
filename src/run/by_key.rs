//! Reduces the elements of each key to a result of their own.
//!
//! The elements are added to states, one for each key and each index of the axes that are not reduced. The results are
//! stored at the end, so a key outside the groups leaves the outputs as they were.

use super::arguments::{BoundArguments, Given, OUTPUT_NAMES, saturated_elements};
use super::log::{self, Subject};
use super::memory_kinds::MemoryKinds;
use super::reduce_axes::ReduceAxes;
use super::work::{CpuProgram, Evaluating, NO_BUFFERS};
use super::{Runner, copy, execute, last_run};
use crate::call::{
    Argument, Arguments, Array, Call, FindKinds, Layout, MAX_INPUTS, MAX_OUTPUTS, MemoryKind,
    TaskKind, has_tables,
};
use crate::cpu::expression::{BlockProgram, OutputStates};
use crate::cpu::{Grid, low_ends, scatter};
use crate::cuda::{alloc, default_stream, device};
use crate::error::{Error, gpuvec_status};
use crate::objects::stream::{Stream, given, gpuvec_stream};
use crate::process::memory;
use crate::process::settings::{self, Placement};
use arrayvec::ArrayVec;
use bytemuck::cast_slice_mut;
use gpuvec_axes::{Axes, MAX_RANK, View, c_order};
use std::ffi::c_void;
use std::ptr::null_mut;

/// The groups of a call.
#[derive(Clone, Copy)]
pub(crate) struct Groups {
    /// The number of groups: keys are from 0 to one less.
    pub(crate) count: usize,
    /// True if elements whose keys are outside the groups are left out. Otherwise such a key is an error.
    pub(crate) ignores_outside: bool,
}

/// The outputs of a call by key, checked.
struct Outputs {
    arrays: ArrayVec<Array, MAX_OUTPUTS>,
    views: ArrayVec<View, MAX_OUTPUTS>,
    /// The axes of the outputs. `None` if these have no elements.
    axes: Option<Axes>,
    /// The lengths of the axes that are not reduced, and then the number of groups.
    lengths: ArrayVec<usize, MAX_RANK>,
    /// The strides of each output along them.
    strides: ArrayVec<ArrayVec<isize, MAX_RANK>, MAX_OUTPUTS>,
}

/// A call by key.
struct ByKey<'a> {
    blocks: &'a BlockProgram,
    outputs: Outputs,
    groups: Groups,
    /// The number of results along the axes that are not reduced, which each have all groups.
    results: usize,
    stream: Option<&'a Stream>,
    /// True for a call without elements.
    is_empty: bool,
}

/// Evaluates an expression by key.
pub(crate) fn evaluate_by_key(
    given_arguments: &Given<'_>, groups: Groups, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let Given { expression, shape, .. } = *given_arguments;
    log::begin(Subject::Expression(Some(&expression.text)), saturated_elements(shape));
    if expression.formula.kind != TaskKind::Grouped {
        return Err(Error::Value {
            argument: "expr",
            value: 0,
            expected: "it has no keys: compile it with gpuvec_expr_compile_by",
        });
    }
    let placement = settings::placement()?;
    let of_stream = given(stream)?;
    let mut bound = BoundArguments::new();
    bound.groups = groups.count;
    bound.read_inputs(given_arguments)?;
    let mut outputs = Outputs::new(given_arguments, groups)?;
    let results: usize = outputs.lengths[..outputs.lengths.len() - 1].iter().product();
    // The call's outputs have one element for each index of the axes that are not reduced: C order gives the states
    // their order.
    let mut places =
        memory::filled(0_u64, results * outputs.views.len()).map_err(|_| NO_BUFFERS)?;
    for (number, layout) in expression.formula.outputs().enumerate() {
        let place = places[number * results..].as_mut_ptr();
        // SAFETY: the places have a word for each element, and outlive the call.
        bound
            .outputs
            .push(unsafe { Argument::new(OUTPUT_NAMES[number], place.cast(), layout, None) });
    }
    let arguments = bound.arguments(given_arguments);
    let task = arguments.task;
    MemoryKinds { task, placement }.find(&mut outputs.arrays)?;
    let (blocks, stream) = (&expression.blocks, of_stream.as_deref());
    let is_empty = shape.contains(&0);
    let by_key = ByKey { blocks, outputs, groups, results, stream, is_empty };
    match by_key.reduce(&arguments, placement)? {
        Some(mut states) => match states.first_without_result(results * groups.count) {
            Some(state) => Err(Error::EmptyGroup { group: state % groups.count }),
            None => by_key.outputs.store(&mut states),
        },
        None => {
            last_run::clear();
            Ok(())
        }
    }
}

impl ByKey<'_> {
    /// The states of all groups. `None` if there are no results.
    fn reduce(
        &self, arguments: &Arguments<'_>, placement: Placement,
    ) -> Result<Option<OutputStates>, Error> {
        let kinds = MemoryKinds { task: arguments.task, placement };
        let states = arguments.check(kinds, |call| {
            self.outputs.refuse_overlap(call)?;
            if has_tables(call) && placement != Placement::Cpu {
                match self.reduce_in_place(call, placement) {
                    Ok(None) => {}
                    Err(error) if call.device().is_some() && leaves_copies(&error) => {}
                    states => return states,
                }
            } else if placement == Placement::Gpu {
                device::usable()?;
            }
            match call.device() {
                Some(_) => self.reduce_copies(arguments, call),
                None => self.reduce_in_place(call, Placement::Cpu),
            }
        })?;
        Ok(states.flatten())
    }

    /// Copies the inputs that the host cannot access, and reduces the copies on cores.
    fn reduce_copies(
        &self, arguments: &Arguments<'_>, call: &Call<'_>,
    ) -> Result<Option<OutputStates>, Error> {
        self.stream.map_or(Ok(()), Stream::synchronize)?;
        let (mut inputs, mut copies) = (ArrayVec::<_, MAX_INPUTS>::new(), Vec::new());
        for (input, array) in arguments.inputs.iter().zip(call.inputs()) {
            if array.device().is_none() {
                inputs.push(*input);
                continue;
            }
            let mut words = words(array.bytes)?;
            let to = words.as_mut_ptr().cast::<c_void>();
            let from = std::ptr::with_exposed_provenance(array.address);
            let layout = Layout::contiguous(1);
            // SAFETY: the call promises the input's bytes, and there is room for them in the copy.
            let [from, to] = [from, to.cast_const()]
                .map(|address| unsafe { Argument::new(array.name, address, layout, None) });
            copy([from, to], array.bytes, null_mut())?;
            // SAFETY: the copy has the bytes of all elements, and lives until the copies are reduced.
            inputs.push(unsafe { input.copied(array.address, words.as_mut_ptr().cast()) });
            copies.push(words);
        }
        self.reduce(&Arguments { inputs: &inputs, ..*arguments }, Placement::Cpu)
    }

    /// Reduces the elements where the plan says. `None` if only cores can tell the result: which key is outside the
    /// groups, or whether a group has elements.
    fn reduce_in_place(
        &self, call: &Call<'_>, placement: Placement,
    ) -> Result<Option<OutputStates>, Error> {
        let (blocks, groups) = (self.blocks, self.groups);
        let states = OutputStates::of(call.task().reductions());
        let states = states.identities(self.results * groups.count).map_err(|_| NO_BUFFERS)?;
        if self.is_empty {
            return Ok(Some(states));
        }
        let mut reducing =
            ReduceAxes::new(blocks, &call.for_states())?.by_key(groups.count, states);
        let mut reduce = |runner: &Runner<'_>, _: &Evaluating<'_>| {
            runner.run_along_axes(&mut reducing).map(drop)
        };
        let steps = CpuProgram::Blocks(blocks);
        execute(call, placement, self.stream, steps, Some(&mut reduce))?;
        match reducing.outside() {
            Some((index, key)) if !groups.ignores_outside => {
                Err(Error::Key { index, key, groups: groups.count })
            }
            _ if reducing.is_outside() && !groups.ignores_outside => Ok(None),
            // The formula's next tables have all windows.
            _ if reducing.are_left() => self.reduce_in_place(call, placement),
            _ => {
                let states = reducing.into_states()?;
                // A device's table has the same word for no elements and for a minimum that is the greatest i64.
                let is_unclear = placement != Placement::Cpu
                    && states.first_without_result(self.results * groups.count).is_some();
                Ok((!is_unclear).then_some(states))
            }
        }
    }
}

/// True for an error after which copies on the host may still be reduced: a device lacks memory for the tables, or the
/// arrays are in the memory of several devices.
fn leaves_copies(error: &Error) -> bool {
    let lacks_memory = error.status() == gpuvec_status::GPUVEC_ERROR_OUT_OF_MEMORY;
    lacks_memory || matches!(error, Error::StridedOnOtherDevice { .. })
}

/// Memory for a copy of an array, in words.
fn words(bytes: usize) -> Result<Vec<u64>, Error> {
    let purpose = "copies of arrays in device memory";
    memory::filled(0, bytes.div_ceil(size_of::<u64>()))
        .map_err(|_| Error::OutOfHostMemory { bytes, purpose })
}

impl Outputs {
    fn new(given: &Given<'_>, groups: Groups) -> Result<Self, Error> {
        let Given { shape, reduced_axes, expression, .. } = *given;
        let is_reduced = |axis: &usize| reduced_axes >> axis & 1 == 1;
        let place = (0..shape.len()).position(|axis| is_reduced(&axis)).unwrap_or(0);
        let count = i64::try_from(groups.count).map_err(|_| Error::Internal { text: "groups" })?;
        // The groups are in the place of the first reduced axis.
        let lengths = (0..shape.len()).filter_map(|axis| match is_reduced(&axis) {
            true => (axis == place).then_some(count),
            false => Some(shape[axis]),
        });
        let mut lengths: ArrayVec<i64, MAX_RANK> = lengths.collect();
        if lengths.is_empty() {
            lengths.push(count);
        }
        given.check_pointers(false)?;
        let layouts = expression.formula.outputs();
        let arguments = layouts.enumerate().map(|(number, Layout { element_bytes, .. })| {
            let array = given.output(number);
            gpuvec_axes::Argument {
                address: array.data.expose_provenance(),
                element_bytes,
                strides: given.strides(array, lengths.len()),
            }
        });
        let arguments: ArrayVec<gpuvec_axes::Argument<'_>, MAX_OUTPUTS> = arguments.collect();
        let mut views: ArrayVec<View, MAX_OUTPUTS> =
            arguments.iter().map(|_| View::default()).collect();
        let all = gpuvec_axes::Arguments {
            shape: &lengths,
            inputs: &[],
            outputs: &arguments,
            whole_outputs: !0,
            reduced_axes: 0,
            is_indexed: false,
        };
        let axes = Axes::new(&all, &mut views).map_err(Error::Axes)?;
        let arrays =
            (0..).zip(expression.formula.outputs()).zip(&views).map(|((number, layout), view)| {
                Array {
                    name: OUTPUT_NAMES[number as usize],
                    address: view.lowest,
                    layout,
                    bytes: view.end - view.lowest,
                    kind: MemoryKind::Pageable,
                }
            });
        let arrays = if axes.is_some() { arrays.collect() } else { ArrayVec::new() };
        let last = |axes: &mut dyn FnMut(usize)| {
            (0..lengths.len()).filter(|axis| *axis != place).chain([place]).for_each(axes);
        };
        let (mut ordered, mut strides) = (ArrayVec::new(), ArrayVec::new());
        last(&mut |axis| ordered.push(lengths[axis] as usize));
        for argument in &arguments {
            let own: ArrayVec<i64, MAX_RANK> = match argument.strides {
                Some(strides) => strides.iter().copied().map(i64::from_ne_bytes).collect(),
                None => c_order(&lengths, argument.element_bytes, &mut [0; MAX_RANK])
                    .iter()
                    .copied()
                    .collect(),
            };
            let mut of_output = ArrayVec::new();
            last(&mut |axis| of_output.push(own[axis] as isize));
            strides.push(of_output);
        }
        Ok(Outputs { arrays, views, axes, lengths: ordered, strides })
    }

    /// Fails if an output is near an input.
    fn refuse_overlap(&self, call: &Call<'_>) -> Result<(), Error> {
        for (view, name) in self.views.iter().zip(OUTPUT_NAMES) {
            let is_near = |input: &&Array| {
                view.lowest < input.address + input.bytes && input.address < view.end
            };
            if let Some(input) = call.inputs().iter().find(is_near) {
                return Err(Error::Overlap { output: name, input: input.name });
            }
        }
        Ok(())
    }

    /// Stores the results of states.
    fn store(&self, states: &mut OutputStates) -> Result<(), Error> {
        let Some(axes) = &self.axes else { return Ok(()) };
        let count = self.lengths.iter().product();
        let mut results = memory::filled(0_u64, count).map_err(|_| NO_BUFFERS)?;
        if self.arrays.iter().any(|array| array.kind != MemoryKind::Pageable) {
            default_stream::synchronize_for_cores();
        }
        for (number, (view, array)) in self.views.iter().zip(&self.arrays).enumerate() {
            states.results(number, &mut results);
            let bytes = low_ends(&mut results, view.element_bytes);
            let grid = Grid::new(&self.lengths, &self.strides[number], view.element_bytes);
            let Some(ordinal) = array.device() else {
                let to = std::ptr::with_exposed_provenance_mut(view.address);
                // SAFETY: the caller promises the outputs, which were checked.
                unsafe { scatter(grid, bytes.as_ptr(), to) };
                continue;
            };
            let mut image = words(array.bytes)?;
            let image: &mut [u8] = &mut cast_slice_mut(&mut image)[..array.bytes];
            // SAFETY: the image has the bytes from the lowest element of the output to its highest.
            unsafe {
                let first = image.as_mut_ptr().add(view.address - array.address);
                scatter(grid, bytes.as_ptr(), first);
            }
            let runs = axes.kept().blocks(axes.kept().run(view));
            for run in runs.walk(0..runs.count()) {
                let place = view.first.wrapping_add_signed(run.offset(view)) - array.address;
                let bytes = &image[place..][..run.space().elements() * view.element_bytes];
                // SAFETY: the caller promises the outputs, which were checked.
                unsafe { alloc::write(ordinal, (array.address + place) as u64, bytes)? };
            }
        }
        Ok(())
    }
}
