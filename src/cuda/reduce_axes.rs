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
use gpuvec_exact::{State, Sum};
use gpuvec_ptx::Along;

const WARP: usize = 32;

/// The elements of a result for which a block's threads have a batch each.
const BATCHES: usize = 16 * BLOCK_THREADS as usize;

/// The fewest neighbouring results along which memory is read in whole sectors.
const SECTOR_BYTES: usize = 32;

/// The most blocks that share the elements of a result.
const MOST_PARTS: usize = 1024;

/// The warps of a block.
const WARPS: usize = BLOCK_THREADS as usize / WARP;

/// The elements that a thread reads before it adds the first one up.
const BATCH: usize = 16;

/// The batches of a thread that outweigh the work on a state, once for each result.
const LEAST_BATCHES: usize = 4;

/// The most elements of a result that a warp computes alone: its lanes' sums of more might not fit in an integer.
const MOST_OF_WARP: usize = 1 << 15;

/// The same for products of f64, which more often do not fit in a warp's window. (Norms of rows of 512: 0.31 of a
/// copy's rate, 0.21 by blocks; of 16384: 0.35, 0.66 by blocks.)
const MOST_PRODUCTS_OF_WARP: usize = 1 << 11;

/// The parameters of a kernel.
type Parameters = ArrayVec<u64, MAX_STRIDED_PARAMETERS>;

/// The shares of blocks in results and elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Partition {
    /// Neighbouring lanes with a result each, a power of two.
    lanes: usize,
    /// Blocks that share the elements of the same results; 0 if each warp has results of its own.
    parts: usize,
}

impl Partition {
    /// The blocks for a number of results.
    fn blocks(&self, results: usize) -> usize {
        let groups = results.div_ceil(self.lanes);
        if self.parts == 0 { groups.div_ceil(WARPS) } else { groups * self.parts }
    }
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
            let held = device.multiprocessors * along.blocks_per_multiprocessor();
            let partition = partition(held as usize, formula, kept, reduced, &views[..inputs]);
            let shares = partition.parts << 8 | partition.lanes.ilog2() as usize;
            let mode = if formula.is_exact() { last_parameter(device, task, 0) } else { 0 };
            parameters.push(places[inputs]);
            parameters.extend([results, n, shares].map(|number| number as u64));
            parameters.extend([scratch, mode]);
            let blocks = partition.blocks(results) as u32;
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

/// The partition of the results and their elements. Neighbouring lanes have neighbouring results where these are
/// closer in memory than the elements of one, or where a result has too few elements for a block.
fn partition(
    held: usize, formula: &Formula, kept: &Space, reduced: &Space, inputs: &[&View],
) -> Partition {
    let shape = Shape {
        results: kept.elements(),
        n: reduced.elements(),
        held,
        state_words: formula.is_exact().then_some(formula.state_bytes / 8),
    };
    let inner = |space: &Space, view: &View| {
        space.strides(view).last().map_or(0, |stride| stride.unsigned_abs())
    };
    let is_across = |view: &&&View| {
        let [along, across] = [inner(reduced, view), inner(kept, view)];
        across != 0 && across < along
    };
    let bytes = |view: &&View| view.element_bytes;
    match inputs.iter().filter(is_across).map(bytes).max() {
        Some(bytes) => shape.by_columns(bytes),
        None => shape.by_rows(inputs.iter().map(bytes).max().unwrap_or(1)),
    }
}

/// The numbers by which a partition is chosen.
struct Shape {
    results: usize,
    /// Elements of a result.
    n: usize,
    /// Blocks that the device holds at once.
    held: usize,
    /// The words of an exact sum's state.
    state_words: Option<usize>,
}

impl Shape {
    /// The most lanes with a result each.
    fn most_lanes(&self) -> usize {
        self.results.next_power_of_two().min(WARP)
    }

    /// A partition by lanes: several blocks share elements where there are too few for the device, or where too few
    /// would be left for its last round.
    fn by(&self, lanes: usize) -> Partition {
        let groups = self.results.div_ceil(lanes).max(1);
        // The words of memory in which the blocks of one group merge their states.
        let words = (REDUCTION_SCRATCH_BYTES / 8 - 1) / groups;
        let room = match self.state_words {
            Some(state) if state * lanes < words => MOST_PARTS,
            Some(_) => 1,
            None => words.saturating_sub(1) / (2 * lanes),
        };
        let most = |batches: usize| {
            let parts = self.n * lanes / (batches * BATCHES);
            parts.min(room).clamp(1, MOST_PARTS)
        };
        let few = (self.held / groups).clamp(1, most(1));
        let fills = |parts: &usize| self.filled(groups * parts) >= 90;
        let parts = (few..=most(LEAST_BATCHES)).find(fills);
        Partition { lanes, parts: parts.unwrap_or(few) }
    }

    /// The share of the device, in percent, that blocks fill in all rounds together.
    fn filled(&self, blocks: usize) -> usize {
        100 * blocks / blocks.next_multiple_of(self.held)
    }

    /// The partition in which each warp has results of its own, if the device is full of warps then.
    fn by_warps(&self, lanes: usize) -> Option<Partition> {
        let groups = self.results.div_ceil(lanes);
        let has_products = self.state_words > Some(size_of::<State<Sum<f64>>>() / 8);
        let most = if has_products { MOST_PRODUCTS_OF_WARP } else { MOST_OF_WARP };
        let fills = self.n <= most && groups >= self.held * WARPS;
        fills.then_some(Partition { lanes, parts: 0 })
    }

    /// The partition of results that are neighbours in memory, with elements of `bytes` bytes: fewer lanes, of whole
    /// sectors, where blocks fill the device better.
    fn by_columns(&self, bytes: usize) -> Partition {
        let most = self.most_lanes();
        if let Some(by_warps) = self.by_warps(most) {
            return by_warps;
        }
        let least = (SECTOR_BYTES / bytes).min(most);
        let twice = |lanes: &usize| (*lanes < most).then_some(2 * lanes);
        let all = std::iter::successors(Some(least), twice).map(|lanes| self.by(lanes));
        // Fewer lanes cost more than the rest of the device.
        all.max_by_key(|of| self.filled(of.blocks(self.results)).min(85))
            .unwrap_or_else(|| self.by(most))
    }

    /// The partition of results whose elements, of `bytes` bytes, are neighbours in memory. Where these are few, a
    /// warp has several results, up to several batches a lane, if its lanes still read whole sectors. Where the device
    /// is filled several times, a block has several results, since it stores them at once.
    fn by_rows(&self, bytes: usize) -> Partition {
        const TIMES: usize = 4;
        let lanes_for = |elements: usize| self.n.div_ceil(elements).next_power_of_two().min(WARP);
        let sector = SECTOR_BYTES / bytes;
        let of_result = lanes_for(LEAST_BATCHES * BATCH).max(sector).min(lanes_for(BATCH));
        let fitting = (BATCHES / self.n.max(1)).max(1).next_power_of_two();
        let sectors = (WARP * bytes / SECTOR_BYTES).next_power_of_two();
        let spare = (self.results / (TIMES * self.held)).max(1);
        let several = sectors.min(1 << spare.ilog2()).min(WARP);
        self.by_warps(WARP / of_result)
            .unwrap_or_else(|| self.by(fitting.max(several).min(self.most_lanes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: usize = 264;

    fn shape(results: usize, n: usize, state_words: Option<usize>) -> Shape {
        Shape { results, n, held: HELD, state_words }
    }

    #[test]
    fn partitions_fill_a_device_within_the_memory_of_states() {
        for state_words in [None, Some(15), Some(72), Some(138)] {
            for (results, n) in
                [(1, 1), (1, 1 << 28), (3, 1 << 26), (64, 1 << 22), (700, 1 << 20), (1 << 24, 3)]
            {
                let shape = shape(results, n, state_words);
                for bytes in [1, 4, 8] {
                    for of in [shape.by_rows(bytes), shape.by_columns(bytes)] {
                        let groups = results.div_ceil(of.lanes);
                        assert!(of.lanes.is_power_of_two() && of.lanes <= WARP, "{of:?}");
                        let words = state_words.unwrap_or(2 * of.parts) * of.lanes + 1;
                        let bytes = 8 + 8 * groups * words;
                        assert!(of.parts <= 1 || bytes <= REDUCTION_SCRATCH_BYTES, "{of:?}");
                        assert!(
                            n < BATCHES || of.blocks(results) >= HELD / 16,
                            "{results} {n} {of:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn lanes_read_whole_sectors() {
        let square = |axis: fn(&Shape, usize) -> Partition| axis(&shape(16384, 16384, Some(15)), 4);
        assert_eq!(square(Shape::by_columns), Partition { lanes: 32, parts: 1 });
        assert_eq!(square(Shape::by_rows), Partition { lanes: 1, parts: 0 });
        let few = shape(64, 1 << 22, Some(15));
        assert_eq!(few.by_columns(4), Partition { lanes: 32, parts: 132 });
        assert_eq!(few.by_rows(4), Partition { lanes: 1, parts: 4 });
    }
}
