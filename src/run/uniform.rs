//! Reductions along axes with the same value in all results: reductions that read no array or have no elements.

use super::strided_iter::address;
use super::work::CpuProgram;
use super::{last_run, run};
use crate::call::{Argument, Arguments, Call, Extent, MAX_OUTPUTS, TaskKind};
use crate::cpu::{Grid, gather, scatter};
use crate::error::Error;
use crate::objects::stream::gpuvec_stream;
use crate::policy::cores;
use crate::process::settings::Placement;
use arrayvec::ArrayVec;

/// True if the call reduces along axes, and all elements of its results are equal.
pub(super) fn has_equal_elements(call: &Call<'_>) -> bool {
    call.strides().is_some_and(|strides| match call.task().kind() {
        TaskKind::Copy | TaskKind::Elementwise => false,
        TaskKind::Grouped => false,
        TaskKind::Mixed => strides.reduced().elements() == 0,
        TaskKind::Reduced => strides.reduced().elements() == 0 || call.inputs().is_empty(),
    })
}

/// Computes the value of each output's results, and stores it in all of them. Returns false if a GPU must do that,
/// because it holds an output or the placement demands it.
#[inline(never)]
pub(super) fn store(
    call: &Call<'_>, steps: CpuProgram<'_>, placement: Placement, stream: *mut gpuvec_stream,
) -> Result<bool, Error> {
    let Some(strides) = call.strides() else { return Ok(false) };
    let n = strides.reduced().elements();
    if call.device().is_some() || (n > 0 && placement == Placement::Gpu) {
        return Ok(false);
    }
    let mut results = [0u64; MAX_OUTPUTS];
    let places = call.outputs().iter().zip(&mut results).map(|(output, result)| {
        let place = (&raw mut *result).cast_const().cast();
        // SAFETY: the place has a word, no result is longer, and it exists until the call returns.
        unsafe { Argument::new(output.name, place, output.layout, None) }
    });
    let outputs: ArrayVec<_, MAX_OUTPUTS> = places.collect();
    run(&Arguments::contiguous(call.task(), n, &[], &outputs), steps, stream)?;
    last_run::clear();
    let (space, views) = (strides.axes().kept(), &strides.views()[call.inputs().len()..]);
    let blocks = space.blocks(cores::STRIDED_BLOCK);
    let mut values = [0u64; cores::STRIDED_BLOCK];
    let buffer = values.as_mut_ptr().cast();
    for (number, output) in call.outputs_of(Extent::Results) {
        let (view, result) = (&views[number], (&raw const results[number]).cast());
        let lengths = [blocks.elements()];
        let repeated = Grid::new(&lengths, &[0], output.element_bytes());
        // SAFETY: the buffer has a word for each element of a block. The call promises the output's elements, which no
        // other thread has.
        unsafe {
            gather(repeated, result, buffer);
            for block in blocks.walk(0..blocks.count()) {
                let to = address(view, block.offset(view));
                scatter(Grid::of(block.space(), view), buffer, to);
            }
        }
    }
    Ok(true)
}
