//! Reductions of arrays of any strides along axes: their kernels (kernels/axes.cu), on a stream.

use super::device::Device;
use super::driver::CUstream;
use super::enqueue::{Addresses, input_parameters, last_parameter};
use super::grid::BLOCK_THREADS;
use super::kernels::{Form, MAX_STRIDED_PARAMETERS};
use super::strided::addresses_of_first;
use crate::call::{AxesCall, Binding, Evaluation, Formula, SlotKind, Task, Transfers};
use crate::error::Error;
use crate::tuning::REDUCTION_SCRATCH_BYTES;
use arrayvec::ArrayVec;
use gpuvec_axes::{Divisor, Space, View};
use gpuvec_ptx::Along;

const WARP: usize = 32;

/// The elements of a result for which a block's threads have a batch each.
const BATCHES: usize = 16 * BLOCK_THREADS as usize;

/// The fewest neighbouring results along which memory is read in whole sectors.
const SECTOR_BYTES: usize = 32;

/// The blocks on each multiprocessor, as the kernels ask.
const BLOCKS: usize = 2;

/// The most blocks that share the elements of a result.
const MOST_PARTS: usize = 256;

/// The parameters of a kernel.
type Parameters = ArrayVec<u64, MAX_STRIDED_PARAMETERS>;

/// The shares of blocks in results and elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Partition {
    /// Neighbouring lanes with a result each, a power of two.
    lanes: usize,
    /// Blocks that share the elements of the same results.
    parts: usize,
}

/// Runs a call on a device: when it returns, the results are stored.
pub(crate) fn run(
    device: &'static Device, call: &AxesCall<'_>, transfers: &Transfers,
) -> Result<(), Error> {
    const NO_SLOT: Error = Error::Internal { text: "no slot for a reduction" };
    device.within(|| {
        let taken = device.slots(SlotKind::InPlace).take(&transfers.with_states(), false)?;
        let mut slot = taken.ok_or(NO_SLOT)?;
        let stream = slot.begin();
        slot.scratch()?.lend(stream, |scratch| {
            // SAFETY: the call promises the arrays, and is waited for; the scratch memory is the stream's.
            unsafe { queue(device, stream, call, transfers, scratch) }
        })?;
        slot.wait()
    })
}

/// Queues a call on a stream of a device, whose context is current and which reaches all arrays in place.
///
/// # Safety
/// The stream must be the device's. The arrays must be there until it has done the work. At the address `scratch` is
/// the stream's memory for reductions.
pub(super) unsafe fn queue(
    device: &Device, stream: CUstream, call: &AxesCall<'_>, transfers: &Transfers, scratch: u64,
) -> Result<(), Error> {
    let (task, inputs) = (call.call().task(), call.call().inputs().len());
    let first = addresses_of_first(device, call.call(), call.views(), transfers)?;
    let blocks = call.blocks();
    for (task, outputs) in task.kernels() {
        let Task::Evaluate(Evaluation { formula, bindings }) = task else {
            return Err(Error::Internal { text: "a copy along axes" });
        };
        let numbers = (0..inputs).chain(outputs.iter().map(|output| inputs + output));
        let views: ArrayVec<&View, MAX_VIEWS> =
            numbers.clone().map(|number| &call.views()[number]).collect();
        for block in blocks.walk(0..blocks.count()) {
            let place = |number: usize| {
                first[number].wrapping_add_signed(block.offset(&call.views()[number]) as i64)
            };
            let places: Addresses = numbers.clone().map(place).collect();
            let (kept, reduced) = (block.space(), call.reduced());
            let along = Along { kept: axes(kept), reduced: axes(reduced) };
            let mut parameters: Parameters =
                input_parameters(task, &places[..inputs]).into_iter().collect();
            add_axes(&mut parameters, kept, bindings, &views[..inputs], Some(views[inputs]));
            add_axes(&mut parameters, reduced, bindings, &views[..inputs], None);
            let (results, n) = (kept.elements(), reduced.elements());
            let partition = partition(device, formula, kept, reduced, &views[..inputs]);
            let shares = partition.parts << 8 | partition.lanes.ilog2() as usize;
            let mode = if formula.is_exact() { last_parameter(device, task, 0) } else { 0 };
            parameters.push(places[inputs]);
            parameters.extend([results, n, shares].map(|number| number as u64));
            parameters.extend([scratch, mode]);
            let blocks = (results.div_ceil(partition.lanes) * partition.parts) as u32;
            // SAFETY: this function's promise; the parameters are those of the kernel.
            unsafe {
                let form = Form::Along(along);
                device.kernels.launch_form(formula, form, blocks, stream, &mut parameters)?;
            }
        }
    }
    Ok(())
}

/// The most views of a kernel.
const MAX_VIEWS: usize = crate::call::MAX_ARRAYS;

/// The number of a kernel's axes for a space, which may have none.
fn axes(space: &Space) -> usize {
    space.lengths().len().max(1)
}

/// Adds the parameters of kept or reduced axes: the divisors, and the strides of the declared inputs and of an output.
fn add_axes(
    parameters: &mut Parameters, space: &Space, bindings: &[Binding], inputs: &[&View],
    output: Option<&View>,
) {
    for length in space.lengths().iter().skip(1) {
        // A length of 0 divides no number.
        let Divisor { multiplier, shift } = Divisor::new((*length).max(1) as u32);
        parameters.extend([*length as u64, multiplier.into(), shift.into()]);
    }
    let mut add = |view: Option<&View>| {
        let strides = view.map_or(&[][..], |view| space.strides(view));
        let missing = axes(space) - strides.len();
        parameters.extend(strides.iter().map(|stride| *stride as u64));
        parameters.extend(std::iter::repeat_n(0, missing));
    };
    let mut arrays = inputs.iter();
    for binding in bindings {
        add(if matches!(binding, Binding::Array) { arrays.next().copied() } else { None });
    }
    output.into_iter().for_each(|view| add(Some(view)));
}

/// The partition of the results and their elements: neighbouring lanes have neighbouring results where these are
/// closer in memory than the elements of one, or where a result has too few elements for a block.
fn partition(
    device: &Device, formula: &Formula, kept: &Space, reduced: &Space, inputs: &[&View],
) -> Partition {
    let (results, n) = (kept.elements(), reduced.elements());
    let held = BLOCKS * device.multiprocessors as usize;
    let inner =
        |space: &Space, view: &View| space.strides(view).last().map_or(0, |s| s.unsigned_abs());
    let is_across = |view: &&View| {
        let [along, across] = [inner(reduced, view), inner(kept, view)];
        across != 0 && across < along
    };
    let most = results.next_power_of_two().min(WARP);
    let lanes =
        match inputs.iter().filter(|view| is_across(view)).map(|view| view.element_bytes).max() {
            None => (BATCHES / n.max(1)).max(1).next_power_of_two().min(most),
            Some(bytes) => {
                // Fewer lanes where there would be too few blocks.
                let least = (SECTOR_BYTES / bytes).min(most);
                let halves = |lanes: &usize| (*lanes > least).then_some(lanes / 2);
                let fills = |lanes: &usize| results.div_ceil(*lanes) >= held;
                std::iter::successors(Some(most), halves).find(fills).unwrap_or(least)
            }
        };
    let groups = results.div_ceil(lanes);
    // The words of memory of which each block of results has its part.
    let words = (REDUCTION_SCRATCH_BYTES / 8 - 1) / groups;
    let room = match formula.is_exact() {
        true if formula.state_bytes / 8 * lanes < words => MOST_PARTS,
        true => 1,
        false => words.saturating_sub(1) / (2 * lanes),
    };
    let batches = n * lanes / BATCHES;
    Partition { lanes, parts: (held / groups).min(batches).min(room).clamp(1, MOST_PARTS) }
}
