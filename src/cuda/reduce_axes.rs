//! Reductions of arrays of any strides along axes: their kernels (kernels/axes.cu), on a stream.

use super::device::Device;
use super::device_view::{DeviceView, DeviceViews};
use super::driver::CUstream;
use super::elementwise::{self, addresses_of_first};
use super::enqueue::{Addresses, input_parameters, last_parameter};
use super::grid::BLOCK_THREADS;
use super::kernels::{Form, MAX_STRIDED_PARAMETERS};
use super::scratch::Lent;
use crate::call::plan::BlockLimits;
use crate::call::{
    Binding, Call, Evaluation, Formula, MAX_INPUTS, MAX_OUTPUTS, SECTOR_BYTES, Strides, Task, Tile,
    Transfers,
};
use crate::error::Error;
use arrayvec::ArrayVec;
use gpuvec_axes::{Divisor, MAX_AXES, are_columns};
use gpuvec_exact::{State, Sum};
use gpuvec_ptx::Along;
use std::cmp::Reverse;
use std::ops::Range;

const WARP: usize = 32;

/// The elements of a result for which a block's threads have a batch each.
const BATCHES: usize = 16 * BLOCK_THREADS as usize;

/// The most blocks that share the elements of a result.
const MOST_PARTS: usize = 1024;

/// The warps of a block.
const WARPS: usize = BLOCK_THREADS as usize / WARP;

/// The bytes of a vector.
const VECTOR_BYTES: usize = 16;

/// The elements that a thread reads before it adds the first one up.
const BATCH: usize = 16;

/// The batches of a thread that outweigh the work on a state, once for each result.
const LEAST_BATCHES: usize = 4;
/// The batches of a thread that outweigh the merge of the states of several blocks.
const LEAST_MERGED: usize = 16;

/// The share of the device, in percent, that blocks of warps with results of their own must fill.
const LEAST_FILLED: usize = 75;

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
    /// Neighbouring lanes with a result each, a power of two: of a warp or, if there are more, of a block's teams of warps.
    lanes: usize,
    /// Blocks that share the elements of the same results; 0 if each warp has results of its own.
    parts: usize,
    /// Says that a warp with results of its own has neighbouring elements, not results, in neighbouring lanes.
    in_rows: bool,
    /// Says that threads read vectors.
    in_vectors: bool,
    /// The results of each lane in a warp's tiles; 0 if it has none.
    in_tiles: usize,
}

impl Partition {
    /// A partition in which lanes have neighbouring results, and read single elements.
    fn new(lanes: usize, parts: usize) -> Self {
        Partition { lanes, parts, in_rows: false, in_vectors: false, in_tiles: 0 }
    }

    /// The parameter of the kernel that says the shares, and whether states are stored.
    fn parameter(&self, stores_states: bool) -> u64 {
        let flags = usize::from(stores_states) << 7
            | usize::from(self.in_vectors) << 6
            | usize::from(self.in_rows) << 5;
        (self.in_tiles << 32 | self.parts << 8 | flags) as u64 | u64::from(self.lanes.ilog2())
    }

    /// The blocks for a number of results.
    fn blocks(&self, results: usize) -> usize {
        let groups = results.div_ceil(self.lanes);
        match self.parts {
            0 => groups.div_ceil(WARPS * self.in_tiles.max(1)),
            parts => groups * parts,
        }
    }
}

/// A tile of a reduction, by the addresses at which a device reaches its arrays.
pub(super) struct PlacedTile {
    lengths: ArrayVec<usize, MAX_AXES>,
    /// The number of kept axes, which come before the reduced ones.
    kept: usize,
    /// The number of the first element of each result.
    first: usize,
    inputs: ArrayVec<DeviceView, MAX_INPUTS>,
    /// Says whether its results have elements.
    has_elements: bool,
    /// The elements, the results, or their states, of each output.
    outputs: ArrayVec<DeviceView, MAX_OUTPUTS>,
    stores_states: bool,
}

impl PlacedTile {
    /// A tile with its arrays: the first `inputs` are inputs.
    pub(super) fn new(
        tile: &Tile, arrays: impl Iterator<Item = DeviceView>, inputs: usize, stores_states: bool,
    ) -> Self {
        let (kept, mut arrays) = (tile.kept().lengths().len(), arrays);
        PlacedTile {
            lengths: tile.lengths(),
            kept,
            first: tile.first,
            has_elements: tile.has_elements(),
            inputs: arrays.by_ref().take(inputs).collect(),
            outputs: arrays.collect(),
            stores_states,
        }
    }

    fn kept(&self) -> Range<usize> {
        0..self.kept
    }

    fn reduced(&self) -> Range<usize> {
        self.kept..self.lengths.len()
    }

    /// The number of elements along axes.
    fn elements(&self, axes: Range<usize>) -> usize {
        self.lengths[axes].iter().product()
    }

    /// Adds the parameters of kept or reduced axes: the divisors, and the strides of the declared inputs and of an
    /// output.
    fn add_axes(
        &self, parameters: &mut Parameters, axes: Range<usize>, bindings: &[Binding],
        output: Option<&DeviceView>,
    ) {
        for length in self.lengths[axes.clone()].iter().skip(1) {
            // A length of 0 divides no number.
            let Divisor { multiplier, shift } = Divisor::new((*length).max(1) as u32);
            parameters.extend([*length as u64, multiplier.into(), shift.into()]);
        }
        // A kernel has an axis where there is none.
        let missing = usize::from(axes.is_empty());
        let mut add = |array: Option<&DeviceView>| {
            let strides =
                array.map_or(&[0; MAX_AXES][axes.clone()], |array| array.strides(axes.clone()));
            parameters.extend(strides.iter().map(|stride| *stride as u64));
            parameters.extend(std::iter::repeat_n(0, missing));
        };
        let mut arrays = self.inputs.iter();
        for binding in bindings {
            add(if matches!(binding, Binding::Array) { arrays.next() } else { None });
        }
        output.into_iter().for_each(|array| add(Some(array)));
    }

    /// The partition of the results and their elements. Neighbouring lanes have neighbouring results where these
    /// are closer in memory than the elements of one, or where a result has too few elements for a block.
    fn partition(
        &self, held: usize, scratch: usize, formula: &Formula, output: &DeviceView,
    ) -> Partition {
        let is_sum_f32 = gpuvec_ptx::frame(formula.program()) == Some("sum_f32");
        let shape = Shape {
            results: self.elements(self.kept()),
            n: self.elements(self.reduced()),
            held,
            scratch,
            state_words: formula.is_exact().then_some(formula.state_bytes / 8),
            stores_states: self.stores_states,
            teams: if is_sum_f32 { WARPS } else { 1 },
        };
        // An array that is the same for all elements of a result is read once for them, in any order.
        let is_across = |array: &&DeviceView| {
            let [kept, reduced] = [self.kept(), self.reduced()].map(|axes| array.strides(axes));
            reduced.last().is_some_and(|along| *along != 0) && are_columns(kept, reduced)
        };
        match self.inputs.iter().filter(is_across).map(DeviceView::element_bytes).max() {
            Some(bytes) => shape.by_columns(bytes),
            None => {
                let bytes = self.inputs.iter().map(DeviceView::element_bytes).max();
                let by_rows =
                    shape.by_rows(bytes.unwrap_or(1), !formula.is_indexed() && self.has_vectors());
                let has_tiles = is_sum_f32 && self.is_dense(output);
                if has_tiles { shape.in_tiles(by_rows) } else { by_rows }
            }
        }
    }

    /// Says whether all elements of an output's results follow each other in every array, are words of 32 bits, and
    /// begin a vector, as the results do.
    fn is_dense(&self, output: &DeviceView) -> bool {
        let word = size_of::<f32>();
        let n = self.elements(self.reduced());
        let is_dense = |array: &DeviceView, n: usize| {
            array.element_bytes() == word && array.strides(self.kept()) == [(n * word) as isize]
        };
        let follow = |array: &DeviceView| {
            is_dense(array, n)
                && array.strides(self.reduced()) == [word as isize]
                && array.address().is_multiple_of(VECTOR_BYTES as u64)
        };
        is_dense(output, 1) && self.inputs.iter().all(follow)
    }

    /// Says whether the elements of each result follow each other in all arrays, and begin a vector there.
    fn has_vectors(&self) -> bool {
        let vector = VECTOR_BYTES as isize;
        let begins = |array: &DeviceView| {
            let stride = array.strides(self.reduced()).last().copied();
            stride == Some(array.element_bytes() as isize)
                && array.address().is_multiple_of(VECTOR_BYTES as u64)
                && array.strides(self.kept()).iter().all(|stride| stride % vector == 0)
        };
        self.reduced().len() == 1 && self.inputs.iter().all(begins)
    }

    /// Queues the kernels of a task for the tile: that of the outputs that are not reductions last, since they may
    /// be inputs.
    ///
    /// # Safety
    /// The stream must be the device's, whose context is current. At the arrays' addresses the device must reach
    /// their elements until the stream has done the work. The scratch memory is the stream's.
    pub(super) unsafe fn queue(
        &self, device: &Device, stream: CUstream, task: Task<'_>, scratch: Lent,
        block_limits: BlockLimits,
    ) -> Result<(), Error> {
        let inputs: Addresses = self.inputs.iter().map(DeviceView::address).collect();
        let axes = |axes: Range<usize>| axes.len().max(1);
        let along = Along { kept: axes(self.kept()), reduced: axes(self.reduced()) };
        for (task, outputs) in task.kernels() {
            if !task.is_reduction() {
                // SAFETY: this function's promise.
                unsafe { self.map(device, stream, task, outputs, block_limits.of(task))? };
                continue;
            }
            let (Task::Evaluate(Evaluation { formula, bindings }), &[output]) = (task, outputs)
            else {
                return Err(Error::Internal { text: "a kernel along axes with several outputs" });
            };
            let output = &self.outputs[output];
            let address = output.address() + task.state_offset() as u64;
            let mut parameters: Parameters = input_parameters(task, &inputs).into_iter().collect();
            self.add_axes(&mut parameters, self.kept(), bindings, Some(output));
            self.add_axes(&mut parameters, self.reduced(), bindings, None);
            let [results, n] = [self.kept(), self.reduced()].map(|axes| self.elements(axes));
            let blocks_at_once = along.blocks_per_multiprocessor(formula.program());
            let held = device.multiprocessors.saturating_mul(blocks_at_once);
            let partition = self.partition(held as usize, scratch.bytes, formula, output);
            let shares = partition.parameter(self.stores_states);
            parameters.extend([address, results as u64, n as u64, shares]);
            parameters.extend([scratch.address, last_parameter(device, task, self.first)]);
            let blocks = partition.blocks(results) as u32;
            // SAFETY: this function's promise; the parameters are those of the kernel.
            unsafe {
                let form = Form::Along(along);
                device.kernels.launch_form(formula, form, blocks, stream, &mut parameters)?;
            }
        }
        Ok(())
    }

    /// Queues the kernel of an elementwise task, which has these of the outputs.
    ///
    /// # Safety
    /// As [`PlacedTile::queue`].
    unsafe fn map(
        &self, device: &Device, stream: CUstream, task: Task<'_>, outputs: &[usize],
        block_limit: u32,
    ) -> Result<(), Error> {
        if !self.has_elements {
            return Ok(());
        }
        let mut placed = DeviceViews::new(&self.lengths);
        self.inputs.iter().for_each(|input| placed.push(*input));
        outputs.iter().for_each(|output| placed.push(self.outputs[*output]));
        let inputs = self.inputs.len();
        placed.sort_by(inputs);
        // SAFETY: this function's promise.
        unsafe { elementwise::launch(device, stream, task, placed, inputs, block_limit) }
    }
}

/// Queues a call on a stream of a device, whose context is current and which reaches all arrays in place.
///
/// # Safety
/// The stream must be the device's. The arrays must be there until it has done the work. The scratch memory
/// is the stream's.
pub(super) unsafe fn queue(
    device: &Device, stream: CUstream, call: &Call<'_>, strides: Strides<'_>,
    transfers: &Transfers, scratch: Lent, block_limits: BlockLimits,
) -> Result<(), Error> {
    let first = addresses_of_first(device, call, strides, transfers)?;
    let tiles = strides.tiles_in_place(call.task());
    for tile in (0..tiles.count()).map(|number| tiles.at(number)) {
        let arrays = first.iter().zip(strides.views());
        let arrays = arrays.map(|(first, view)| DeviceView::in_place(*first, &tile, view));
        let placed = PlacedTile::new(&tile, arrays, call.inputs().len(), false);
        // SAFETY: this function's promise, and the call's.
        unsafe { placed.queue(device, stream, call.task(), scratch, block_limits)? };
    }
    Ok(())
}

/// The numbers by which a partition is chosen.
struct Shape {
    results: usize,
    /// Elements of a result.
    n: usize,
    /// Blocks that the device holds at once.
    held: usize,
    /// Bytes of memory in which blocks merge their states.
    scratch: usize,
    /// The words of an exact sum's state.
    state_words: Option<usize>,
    /// Says that states are stored, which blocks have.
    stores_states: bool,
    /// The most teams of a block that have neighbouring results: those whose sums have room in its shared memory.
    teams: usize,
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
        let words = (self.scratch / 8 - 1) / groups;
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
        let parts = (few..=most(LEAST_MERGED)).find(fills);
        Partition::new(lanes, parts.unwrap_or(few))
    }

    /// The share of the device, in percent, that blocks fill in all rounds together.
    fn filled(&self, blocks: usize) -> usize {
        100 * blocks / blocks.next_multiple_of(self.held)
    }

    /// The partition in which each warp has results of its own, if the device is full of warps then.
    fn by_warps(&self, lanes: usize) -> Option<Partition> {
        let blocks = self.results.div_ceil(lanes * WARPS);
        let has_products = self.state_words > Some(size_of::<State<Sum<f64>>>() / 8);
        let most = if has_products { MOST_PRODUCTS_OF_WARP } else { MOST_OF_WARP };
        let fills = blocks >= self.held && self.filled(blocks) >= LEAST_FILLED;
        let fills = self.n <= most && fills && !self.stores_states;
        fills.then_some(Partition::new(lanes, 0))
    }

    /// The same with tiles, if each warp has results of its own, whose elements are few. Of a single element, another
    /// array of the call may be the result.
    fn in_tiles(&self, partition: Partition) -> Partition {
        const TILES: usize = 4;
        let is_short = partition.lanes == WARP && (2..=BATCH).contains(&self.n);
        if partition.parts > 0 || !is_short {
            return partition;
        }
        let of_tile = BATCH / self.n;
        let blocks = self.results.div_ceil(BLOCK_THREADS as usize * of_tile);
        let tiles = (blocks / self.held).clamp(1, TILES);
        Partition { in_tiles: of_tile * tiles, in_vectors: true, ..partition }
    }

    /// The partition of results that are neighbours in memory, with elements of `bytes` bytes: fewer lanes, of whole
    /// sectors, where blocks fill the device better, and several teams of lanes where they do so in fewer rounds.
    fn by_columns(&self, bytes: usize) -> Partition {
        let most = self.most_lanes();
        if let Some(by_warps) = self.by_warps(most) {
            return by_warps;
        }
        let least = (SECTOR_BYTES / bytes).min(most);
        let of_teams = if most == WARP { WARP * self.teams } else { most };
        let twice = |lanes: &usize| (*lanes < of_teams).then_some(2 * lanes);
        let all = std::iter::successors(Some(least), twice).map(|lanes| self.by(lanes));
        // Fewer lanes cost more than the rest of the device.
        let cost = |of: &Partition| {
            let blocks = of.blocks(self.results);
            let share = self.filled(blocks).min(85);
            (Reverse(share), Reverse(of.lanes.min(WARP)), blocks.div_ceil(self.held))
        };
        all.min_by_key(cost).unwrap_or_else(|| self.by(most))
    }

    /// The partition of results whose elements, of `bytes` bytes, are neighbours in memory, and may be `in_vectors`.
    /// Where these are few, a warp has several results, up to several batches a lane, if its lanes still read whole
    /// sectors. Where the device is filled several times, a block has several results, since it stores them at once.
    fn by_rows(&self, bytes: usize, in_vectors: bool) -> Partition {
        const TIMES: usize = 4;
        let lanes_for = |elements: usize| self.n.div_ceil(elements).next_power_of_two().min(WARP);
        let sector = SECTOR_BYTES / if in_vectors { VECTOR_BYTES } else { bytes };
        let of_result = lanes_for(LEAST_BATCHES * BATCH).max(sector).min(lanes_for(BATCH));
        let fitting = (BATCHES / self.n.max(1)).max(1).next_power_of_two();
        let sectors = (WARP * bytes / SECTOR_BYTES).next_power_of_two();
        let spare = (self.results / (TIMES * self.held)).max(1);
        let several = sectors.min(1 << spare.ilog2()).min(WARP);
        let partition = self
            .by_warps(WARP / of_result)
            .unwrap_or_else(|| self.by(fitting.max(several).min(self.most_lanes())));
        // The shares of blocks may begin anywhere.
        Partition { in_rows: true, in_vectors: in_vectors && partition.parts <= 1, ..partition }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: usize = 264;
    const SCRATCH: usize = 1 << 20;

    fn shape(results: usize, n: usize, state_words: Option<usize>) -> Shape {
        let (scratch, stores_states) = (SCRATCH, false);
        Shape { results, n, held: HELD, state_words, scratch, stores_states, teams: 1 }
    }

    #[test]
    fn partitions_fill_a_device_within_the_memory_of_states() {
        for (state_words, teams) in
            [(None, 1), (Some(15), 1), (Some(15), WARPS), (Some(72), 1), (Some(138), 1)]
        {
            for (results, n) in
                [(1, 1), (1, 1 << 28), (3, 1 << 26), (64, 1 << 22), (700, 1 << 20), (1 << 24, 3)]
            {
                let shape = Shape { teams, ..shape(results, n, state_words) };
                for bytes in [1, 4, 8] {
                    let by_rows = [false, true].map(|in_vectors| shape.by_rows(bytes, in_vectors));
                    for of in by_rows.into_iter().chain([shape.by_columns(bytes)]) {
                        let groups = results.div_ceil(of.lanes);
                        let most = if of.in_rows { WARP } else { WARP * teams };
                        assert!(of.lanes.is_power_of_two() && of.lanes <= most, "{of:?}");
                        let words = state_words.unwrap_or(2 * of.parts) * of.lanes + 1;
                        let bytes = 8 + 8 * groups * words;
                        assert!(of.parts <= 1 || bytes <= SCRATCH, "{of:?}");
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
        let square = shape(16384, 16384, Some(15));
        let singly = |lanes, parts| Partition { in_rows: true, ..Partition::new(lanes, parts) };
        let in_vectors = |lanes, parts| Partition { in_vectors: true, ..singly(lanes, parts) };
        assert_eq!(square.by_columns(4), Partition::new(32, 1));
        assert_eq!(square.by_rows(4, false), singly(1, 0));
        assert_eq!(square.by_rows(4, true), in_vectors(1, 0));
        let few = shape(64, 1 << 22, Some(15));
        assert_eq!(few.by_columns(4), Partition::new(32, 132));
        assert_eq!(few.by_rows(4, true), singly(1, 4));
        let short = shape(1 << 22, 64, Some(15));
        assert_eq!(short.by_rows(4, false), singly(8, 0));
        assert_eq!(short.by_rows(4, true), in_vectors(16, 0));
        // Blocks of warps with results of their own would leave much of the device empty in the last round.
        assert_eq!(shape(2600, 1 << 14, Some(15)).by_rows(4, true), in_vectors(2, 1));
    }

    #[test]
    fn teams_have_columns_where_a_device_holds_all_blocks_then() {
        for (results, n, lanes, parts) in [
            (16384, 16384, 128, 3),
            (16384, 4096, 128, 3),
            (4096, 16384, 32, 3),
            (512, 1 << 19, 32, 24),
            (64, 1 << 22, 32, 198),
            (3, 89_000_000, 4, 396),
        ] {
            let shape = Shape { held: 396, scratch: 2 << 20, ..shape(results, n, Some(15)) };
            let shape = Shape { teams: WARPS, ..shape };
            assert_eq!(shape.by_columns(4), Partition::new(lanes, parts), "{n} x {results}");
        }
    }

    #[test]
    fn very_many_short_rows_have_tiles() {
        for (results, n, of_lane) in [
            (1 << 24, 16, 4),
            (1 << 26, 4, 16),
            (89_000_000, 3, 20),
            (130_000, 16, 1),
            (1 << 26, 1, 0),
            (1 << 24, 17, 0),
            (1000, 4, 0),
        ] {
            let shape = shape(results, n, Some(15));
            let partition = shape.in_tiles(shape.by_rows(4, n % 4 == 0));
            assert_eq!(partition.in_tiles, of_lane, "{results} rows of {n}");
            let of_block = partition.lanes * WARPS * of_lane.max(1);
            assert!(of_lane == 0 || partition.blocks(results) == results.div_ceil(of_block));
        }
    }
}
