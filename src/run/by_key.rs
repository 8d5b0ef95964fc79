//! Reduces the elements of each key to a result of their own.
//!
//! The elements are added to states, one for each key and each index of the axes that are not reduced. The results are
//! stored at the end, so a key outside the groups leaves the outputs as they were.

use super::accumulate::of_library;
use super::arguments::{BoundArguments, Given, OUTPUT_NAMES, saturated_elements};
use super::log::{self, Subject};
use super::memory_kinds::MemoryKinds;
use super::reduce_axes::{GroupedResults, ReduceAxes};
use super::work::{CpuProgram, Evaluating, MISSING, NO_BUFFERS};
use super::{Runner, copy, execute, last_run};
use crate::call::{
    Argument, Arguments, Array, Binding, Call, Evaluation, FindKinds, Layout, MAX_INPUTS,
    MAX_OUTPUTS, MemoryKind, Task, TaskKind, has_tables,
};
use crate::cpu::expression::{BlockProgram, GroupStates};
use crate::cpu::{Grid, low_ends, scatter};
use crate::cuda::{alloc, default_stream, device};
use crate::error::{Error, gpuvec_status};
use crate::objects::accumulator::Accumulator;
use crate::objects::expression;
use crate::objects::stream::{Stream, given, gpuvec_stream};
use crate::policy::cores;
use crate::pool;
use crate::process::memory;
use crate::process::settings::{self, Placement};
use arrayvec::ArrayVec;
use bytemuck::cast_slice;
use gpuvec_axes::{Axes, MAX_RANK, View, c_order};
use gpuvec_exact::Code;
use gpuvec_expr::{Element, Form, Input};
use std::ffi::c_void;
use std::num::NonZero;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    /// `None` for an accumulator.
    outputs: Option<&'a Outputs>,
    /// The sums of an accumulator, which cores compute.
    sums: Option<Code>,
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
    let by_key =
        ByKey { blocks, outputs: Some(&outputs), sums: None, groups, results, stream, is_empty };
    match by_key.reduce(&arguments, placement)? {
        Some(results) => match results.group_without_result() {
            Some(group) => Err(Error::EmptyGroup { group }),
            None => outputs.store(&results),
        },
        None => {
            last_run::clear();
            Ok(())
        }
    }
}

/// Adds the elements of each key to a sum of an accumulator. Its shape has an axis for the keys in the place of the first
/// reduced axis. The inputs are the arrays of the accumulator's operation, and the keys of the type `key`. A call
/// without elements has no inputs.
pub(crate) fn accumulate_by_key(
    accumulator: &Accumulator, shape: &[i64], reduced_axes: u64, inputs: &[Argument<'_>],
    key: Element, ignores_outside: bool, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let op = accumulator.op();
    log::begin(Subject::Accumulator(Some(op)), saturated_elements(shape));
    let [outer, count, inner] = groups_of(shape, reduced_axes, accumulator.shape())?;
    let groups = Groups { count, ignores_outside };
    let (placement, of_stream) = (settings::placement()?, given(stream)?);
    let (text, element) = match op.inputs() {
        1 => ("sum(a)", op.element_bytes()),
        _ => ("dot(a, b)", op.element_bytes()),
    };
    let element = if element == size_of::<f32>() { Element::F32 } else { Element::F64 };
    let arrays = ["a", "b"].into_iter().take(op.inputs()).map(|name| (name, element));
    let declared: ArrayVec<_, 3> = arrays
        .chain([("k", key)])
        .map(|(name, element)| Input { name, element, form: Form::Array })
        .collect();
    let expression = of_library(expression::compiled(text, Some("k"), &declared))?;
    if shape.contains(&0) {
        last_run::clear();
        return Ok(());
    }
    let bindings = &[Binding::Array; 3][..declared.len()];
    let formula = &expression.formula;
    let task = Task::Evaluate(Evaluation { formula, bindings, groups: count });
    let results = outer * inner;
    let mut places = memory::filled(0_u64, results).map_err(|_| NO_BUFFERS)?;
    let place = places.as_mut_ptr().cast();
    // SAFETY: there is a word for each result, which gives the states their order. They outlive the call.
    let outputs = &[unsafe { Argument::new("state", place, formula.output, None) }];
    let arguments = Arguments { task, contiguous: None, shape, reduced_axes, inputs, outputs };
    let (blocks, stream) = (&expression.blocks, of_stream.as_deref());
    let sums = Some(accumulator.code());
    let by_key = ByKey { blocks, outputs: None, sums, groups, results, stream, is_empty: false };
    let Some(added) = by_key.reduce(&arguments, placement)? else { return Err(MISSING) };
    accumulator.add_words(&|visit| {
        added.for_each(&mut |result, group, words| {
            let state = (result / inner * count + group) * inner + result % inner;
            visit(state, words);
        });
    })
}

/// The number of states of an accumulator along the axes before its groups, its groups, and the number along the axes
/// behind them.
fn groups_of(shape: &[i64], reduced_axes: u64, states: &[i64]) -> Result<[usize; 3], Error> {
    let is_reduced = |axis: &usize| reduced_axes >> axis & 1 == 1;
    let Some(place) = (0..shape.len()).position(|axis| is_reduced(&axis)) else {
        return Err(Error::Value {
            argument: "reduced_axes",
            value: reduced_axes.cast_signed(),
            expected: "set the bit of an axis along which elements with the same key are added",
        });
    };
    let kept: ArrayVec<usize, MAX_RANK> =
        (0..shape.len()).filter(|axis| !is_reduced(axis)).collect();
    if kept.len() + 1 != states.len() {
        return Err(Error::KeptAxes { found: kept.len() + 1, wanted: states.len() });
    }
    // The axes before the first reduced one stay, all of them.
    for (number, axis) in kept.into_iter().enumerate() {
        let own = number + usize::from(number >= place);
        let (found, wanted) = (shape[axis], states[own]);
        if found != wanted {
            return Err(Error::KeptLength { axis, found, own, wanted });
        }
    }
    let product = |lengths: &[i64]| lengths.iter().product::<i64>() as usize;
    Ok([product(&states[..place]), states[place] as usize, product(&states[place + 1..])])
}

impl ByKey<'_> {
    /// The states of all groups. `None` if there are no results.
    fn reduce(
        &self, arguments: &Arguments<'_>, placement: Placement,
    ) -> Result<Option<GroupedResults>, Error> {
        let kinds = MemoryKinds { task: arguments.task, placement };
        let states = arguments.check(kinds, |call| {
            if let Some(outputs) = self.outputs {
                outputs.refuse_overlap(call)?;
            }
            if self.sums.is_none() && has_tables(call) && placement != Placement::Cpu {
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
    ) -> Result<Option<GroupedResults>, Error> {
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
    ) -> Result<Option<GroupedResults>, Error> {
        let (blocks, groups) = (self.blocks, self.groups);
        let states = match self.sums {
            None => GroupStates::of(call.task().reductions()),
            Some(code) => GroupStates::of_sums(code),
        };
        if self.is_empty {
            let all = std::iter::once(0..self.results);
            return Ok(Some(GroupedResults::new(states, groups.count, all)));
        }
        let mut reducing = ReduceAxes::new(blocks, call)?.by_key(groups.count, states);
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
                let results = reducing.into_groups()?;
                // A device's table has the same word for no elements and for a minimum that is the greatest i64.
                let is_unclear =
                    placement != Placement::Cpu && results.group_without_result().is_some();
                Ok((!is_unclear).then_some(results))
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

    /// Stores the results.
    fn store(&self, results: &GroupedResults) -> Result<(), Error> {
        let Some(axes) = &self.axes else { return Ok(()) };
        if self.arrays.iter().any(|array| array.kind != MemoryKind::Pageable) {
            default_stream::synchronize_for_cores();
        }
        let (mut addresses, mut images) = (ArrayVec::new(), ArrayVec::<_, MAX_OUTPUTS>::new());
        for (view, array) in self.views.iter().zip(&self.arrays) {
            // An image has the bytes from the lowest element of the output to its highest.
            let mut image = words(if array.device().is_some() { array.bytes } else { 0 })?;
            let offset = view.address - array.address;
            addresses.push(match array.device() {
                Some(_) => image.as_mut_ptr().expose_provenance() + offset,
                None => view.address,
            });
            images.push(image);
        }
        self.store_at(results, &addresses);
        for ((view, array), image) in self.views.iter().zip(&self.arrays).zip(&images) {
            let Some(ordinal) = array.device() else { continue };
            let image: &[u8] = &cast_slice(image)[..array.bytes];
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

    /// Computes the results and stores each output at an address on the host.
    fn store_at(&self, results: &GroupedResults, addresses: &ArrayVec<usize, MAX_OUTPUTS>) {
        let (groups, kept) = self.groups_and_kept();
        let all = kept.iter().product::<usize>();
        let parts = groups.div_ceil(cores::RESULTS_AT_ONCE);
        let at_once = (cores::RESULTS_AT_ONCE / groups).max(1);
        let units = all.div_ceil(at_once) * parts;
        let wanted = settings::threads().map_or(1, NonZero::get).min(units / 4);
        let next = AtomicUsize::new(0);
        pool::run(pool::available(wanted), &|_| {
            let mut bits = [0; cores::RESULTS_AT_ONCE];
            loop {
                let unit = next.fetch_add(1, Ordering::Relaxed);
                if unit >= units {
                    return;
                }
                let first = unit / parts * at_once;
                let start = unit % parts * cores::RESULTS_AT_ONCE;
                let bits = &mut bits[..(groups - start).min(cores::RESULTS_AT_ONCE)];
                for result in first..all.min(first + at_once) {
                    for (output, address) in addresses.iter().enumerate() {
                        results.of_groups(output, result, start, bits);
                        self.store_groups(output, *address, [result, start], bits);
                    }
                }
            }
        });
    }

    /// The number of groups, and the lengths of the axes that are not reduced.
    fn groups_and_kept(&self) -> (usize, &[usize]) {
        let (kept, groups) = self.lengths.split_at(self.lengths.len() - 1);
        (groups[0], kept)
    }

    /// Stores results of an output at `address`: for the groups from number `start` on, and one index of the axes that
    /// are not reduced. Overwrites the results.
    fn store_groups(
        &self, output: usize, address: usize, [result, start]: [usize; 2], bits: &mut [u64],
    ) {
        let (_, kept) = self.groups_and_kept();
        let (strides, view) = (&self.strides[output], &self.views[output]);
        let (outer, of_groups) = strides.split_at(kept.len());
        let (mut offset, mut rest) = (start as isize * of_groups[0], result);
        for (length, stride) in kept.iter().zip(outer).rev() {
            offset += (rest % length) as isize * stride;
            rest /= length;
        }
        let lengths = &[bits.len()];
        let bytes = low_ends(bits, view.element_bytes);
        let to = std::ptr::with_exposed_provenance_mut(address.wrapping_add_signed(offset));
        // SAFETY: the caller promises the outputs, which were checked; no other thread has these elements.
        unsafe { scatter(Grid::new(lengths, of_groups, view.element_bytes), bytes.as_ptr(), to) };
    }
}
