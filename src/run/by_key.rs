//! Reduces the elements of each key to a result of their own.
//!
//! The elements are added to states, one for each key and each index of the axes that are not reduced. The results are
//! stored at the end, so a key outside the groups leaves the outputs as they were.

use super::arguments::{BoundArguments, Given, OUTPUT_NAMES, saturated_elements};
use super::log::{self, Subject};
use super::memory_kinds::MemoryKinds;
use super::reduce_axes::{GroupedResults, ReduceAxes};
use super::work::{CpuProgram, Evaluating, MISSING, NO_BUFFERS};
use super::{Runner, execute, last_run};
use crate::call::{Argument, Array, Call, Layout, MAX_OUTPUTS, TaskKind};
use crate::cpu::expression::GroupStates;
use crate::cpu::{Grid, low_ends, scatter};
use crate::error::Error;
use crate::objects::stream::{given, gpuvec_stream};
use crate::policy::cores;
use crate::pool;
use crate::process::memory;
use crate::process::settings::{self, Placement};
use arrayvec::ArrayVec;
use gpuvec_axes::{Axes, MAX_RANK, View, c_order};
use std::num::NonZero;
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
    views: ArrayVec<View, MAX_OUTPUTS>,
    /// The lengths of the axes that are not reduced, and then the number of groups.
    lengths: ArrayVec<usize, MAX_RANK>,
    /// The strides of each output along them.
    strides: ArrayVec<ArrayVec<isize, MAX_RANK>, MAX_OUTPUTS>,
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
    let of_stream = given(stream)?;
    let mut bound = BoundArguments::new();
    bound.read_inputs(given_arguments)?;
    let outputs = Outputs::new(given_arguments, groups)?;
    let kept: usize = outputs.lengths[..outputs.lengths.len() - 1].iter().product();
    // The call's outputs have one element for each index of the axes that are not reduced: C order gives the states
    // their order.
    let mut places = memory::filled(0_u64, kept * outputs.views.len()).map_err(|_| NO_BUFFERS)?;
    for (number, layout) in expression.formula.outputs().enumerate() {
        let place = places[number * kept..].as_mut_ptr();
        // SAFETY: the places have a word for each element, and outlive the call.
        bound
            .outputs
            .push(unsafe { Argument::new(OUTPUT_NAMES[number], place.cast(), layout, None) });
    }
    let arguments = bound.arguments(given_arguments);
    let (task, placement) = (arguments.task, Placement::Cpu);
    let blocks = &expression.blocks;
    let reduced = |call: &Call<'_>| {
        outputs.refuse_overlap(call)?;
        let states = GroupStates::of(task.reductions());
        let mut reducing = ReduceAxes::new(blocks, call)?.by_key(groups.count, states);
        let mut reduce = |runner: &Runner<'_>, _: &Evaluating<'_>| {
            runner.run_along_axes(&mut reducing).map(drop)
        };
        let steps = CpuProgram::Blocks(blocks);
        execute(call, placement, of_stream.as_deref(), steps, Some(&mut reduce))?;
        match reducing.outside() {
            Some((index, key)) if !groups.ignores_outside => {
                Err(Error::Key { index, key, groups: groups.count })
            }
            _ => reducing.into_groups(),
        }
    };
    let states = arguments.check(MemoryKinds { task, placement }, reduced)?;
    match states {
        Some(results) => outputs.store(&results),
        None => {
            last_run::clear();
            Ok(())
        }
    }
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
        Axes::new(&all, &mut views).map_err(Error::Axes)?;
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
        Ok(Outputs { views, lengths: ordered, strides })
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
        let (groups, kept) = self.lengths.split_last().ok_or(MISSING)?;
        let rows = kept.iter().product::<usize>();
        let per_row = groups.div_ceil(cores::RESULTS_AT_ONCE);
        let rows_at_once = (cores::RESULTS_AT_ONCE / (*groups).max(1)).max(1);
        let parts = if *groups == 0 { 0 } else { rows.div_ceil(rows_at_once) * per_row };
        let next = AtomicUsize::new(0);
        let threads = pool::available(settings::threads().map_or(1, NonZero::get).min(parts / 4));
        pool::run(threads, &|_| {
            let mut buffer = [0; cores::RESULTS_AT_ONCE];
            loop {
                let part = next.fetch_add(1, Ordering::Relaxed);
                if part >= parts {
                    return;
                }
                let first = part / per_row * rows_at_once;
                let start = part % per_row * cores::RESULTS_AT_ONCE;
                let count = (groups - start).min(cores::RESULTS_AT_ONCE);
                for row in first..rows.min(first + rows_at_once) {
                    self.store_row(results, row, start, &mut buffer[..count]);
                }
            }
        });
        Ok(())
    }

    /// Stores results of the groups from `start` on, for one index of the axes that are not reduced. Overwrites `buffer`,
    /// which has a word for each.
    fn store_row(&self, results: &GroupedResults, row: usize, start: usize, buffer: &mut [u64]) {
        let (groups, kept) = (self.lengths[self.lengths.len() - 1], self.lengths.len() - 1);
        let block = results.blocks.partition_point(|(rows, _)| rows.end <= row);
        let (rows, tables) = &results.blocks[block];
        let tables: Vec<&GroupStates> = tables.iter().collect();
        for (output, (view, strides)) in self.views.iter().zip(&self.strides).enumerate() {
            let first = (row - rows.start) * groups + start;
            results.states.results(&tables, output, first, buffer);
            let (mut offset, mut rest) = (start as isize * strides[kept], row);
            for axis in (0..kept).rev() {
                offset += (rest % self.lengths[axis]) as isize * strides[axis];
                rest /= self.lengths[axis];
            }
            let address = view.address.wrapping_add_signed(offset);
            let to = std::ptr::with_exposed_provenance_mut(address);
            let lengths = &[buffer.len()];
            let grid = Grid::new(lengths, &strides[kept..], view.element_bytes);
            let bytes = low_ends(buffer, view.element_bytes);
            // SAFETY: the caller promises the outputs, which were checked; no other thread has these elements.
            unsafe { scatter(grid, bytes.as_ptr(), to) };
        }
    }
}
