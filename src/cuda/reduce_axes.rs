//! Queues the kernels of part of a call on a stream; and chooses the launches of reductions along axes (kernels/axes.cu).

use super::completion::Flags;
use super::device::Device;
use super::device_view::{DeviceView, DeviceViews};
use super::driver::CUstream;
use super::elementwise;
use super::enqueue::{
    self, Addresses, Contents, Launch, enqueue, input_parameters, last_parameter,
};
use super::grid::BLOCK_THREADS;
use super::kernels::{Form, MAX_STRIDED_PARAMETERS};
use super::part::Part;
use super::scratch::{Lent, Scratch};
use crate::call::plan::BlockLimits;
use crate::call::{
    Binding, Evaluation, Formula, MAX_INPUTS, MAX_OUTPUTS, SECTOR_BYTES, Task, TaskKind,
};
use crate::error::Error;
use crate::policy::AxisReductions;
use arrayvec::ArrayVec;
use gpuvec_axes::{Divisor, MAX_AXES, are_columns};
use gpuvec_exact::{State, Sum};
use gpuvec_ptx::AxisReduction;
use std::cmp::Reverse;
use std::ops::Range;

const WARP: usize = 32;

/// The warps of a block.
const WARPS: usize = BLOCK_THREADS as usize / WARP;

/// The number of elements that a thread loads before it adds the first one, and the number for a block.
const BATCH: usize = 16;
const BLOCK_BATCH: usize = BATCH * BLOCK_THREADS as usize;

/// The bytes of a vector.
const VECTOR_BYTES: usize = 16;

/// The parameters of a kernel.
type Parameters = ArrayVec<u64, MAX_STRIDED_PARAMETERS>;

/// The division of results and their elements among blocks and warps: a parameter of the kernels, the structure of the
/// same name in kernels/axes.cu, which describes the fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Partition {
    log_results: u32,
    splits: u32,
    results_per_lane: u32,
    in_rows: u32,
    in_vectors: u32,
    stores_states: u32,
}

impl Partition {
    /// A partition in which a block, or a warp if there are no `splits`, has this many results, a power of two.
    fn new(results: usize, splits: usize) -> Self {
        Partition { log_results: results.ilog2(), splits: splits as u32, ..Partition::default() }
    }

    /// The results of a block, or of a warp that has results of its own.
    fn results(&self) -> usize {
        1 << self.log_results
    }

    /// The blocks for a number of results.
    fn blocks(&self, results: usize) -> usize {
        let groups = results.div_ceil(self.results());
        match self.splits as usize {
            0 => groups.div_ceil(WARPS * self.results_per_lane.max(1) as usize),
            splits => groups * splits,
        }
    }
}

/// Part of a call, with the addresses at which a device accesses its arrays.
pub(super) struct PlacedPart {
    lengths: ArrayVec<usize, MAX_AXES>,
    /// The number of kept axes, which come before the reduced ones.
    kept: usize,
    /// The number of the first element of each result.
    first: usize,
    inputs: ArrayVec<DeviceView, MAX_INPUTS>,
    /// True if its results have elements.
    has_elements: bool,
    /// True for a chunk of contiguous arrays, whose reductions have one result.
    is_chunk: bool,
    /// The outputs: elements, results, or states of results.
    outputs: ArrayVec<DeviceView, MAX_OUTPUTS>,
    stores_states: bool,
}

/// The stream for a part's kernels, with what they need beside arrays.
pub(super) struct Target<'a> {
    pub(super) device: &'a Device,
    pub(super) stream: CUstream,
    /// Memory for reductions.
    pub(super) scratch: Option<&'a mut Scratch>,
    pub(super) block_limits: BlockLimits,
    /// Flags by which the only kernel signals completion.
    pub(super) flags: Option<Flags>,
    /// Selects the driver, not a kernel, for a copy of bytes.
    pub(super) copies_by_driver: bool,
}

impl PlacedPart {
    /// Part of a call with its arrays, the `inputs` first.
    pub(super) fn new(
        part: &Part<'_>, mut arrays: impl Iterator<Item = DeviceView>, inputs: usize,
        stores_states: bool,
    ) -> Self {
        PlacedPart {
            lengths: part.lengths(),
            kept: part.results().len(),
            first: part.first(),
            has_elements: part.has_elements(),
            is_chunk: matches!(part, Part::Chunk { .. }),
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

    /// Adds the parameters of kept or reduced axes: the divisors, and the strides of the declared inputs and of `output`.
    fn add_axes(
        &self, parameters: &mut Parameters, axes: Range<usize>, bindings: &[Binding],
        output: Option<&DeviceView>,
    ) {
        for length in self.lengths[axes.clone()].iter().skip(1) {
            // A length of 0 divides no number.
            let Divisor { multiplier, shift } = Divisor::new((*length).max(1) as u32);
            parameters.extend([*length as u64, multiplier.into(), shift.into()]);
        }
        // A kernel has at least one axis of each kind.
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

    /// Chooses the partition. Neighbouring lanes have neighbouring results where these are closer in memory than the
    /// elements of one, or where a result has too few elements for a block.
    fn partition(
        &self, policy: &AxisReductions, resident_blocks: usize, scratch: usize, formula: &Formula,
        output: &DeviceView,
    ) -> Partition {
        let is_sum_f32 = gpuvec_ptx::template(formula.program()) == Some("sum_f32");
        let shape = Shape {
            policy,
            results: self.elements(self.kept()),
            n: self.elements(self.reduced()),
            resident_blocks,
            scratch,
            state_words: formula.is_exact().then_some(formula.state_bytes / 8),
            stores_states: self.stores_states,
            groups: if is_sum_f32 { WARPS } else { 1 },
        };
        let partition = self.by_shape(&shape, formula, output);
        Partition { stores_states: self.stores_states.into(), ..partition }
    }

    fn by_shape(&self, shape: &Shape<'_>, formula: &Formula, output: &DeviceView) -> Partition {
        // An array that is the same for all elements of a result is read once for it, in any order.
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
                let has_tiles = shape.groups > 1 && self.is_dense(output);
                if has_tiles { shape.in_tiles(by_rows) } else { by_rows }
            }
        }
    }

    /// True if the results and all their elements are contiguous words of 32 bits, and each array begins a vector.
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

    /// True if the elements of each result are contiguous in all arrays, and begin a vector there.
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

    /// Queues the kernels of a task, or its copy. The kernel of the elementwise outputs comes last, since these may also
    /// be inputs. Sets `wrote` once a kernel that writes outputs is queued. Returns the number of warps that will signal
    /// completion by the flags.
    ///
    /// # Safety
    /// The stream must be the device's, whose context is current. The device must be able to access the arrays' elements
    /// until the stream has done the work. The scratch memory and the flags are the stream's.
    pub(super) unsafe fn queue(
        &self, mut target: Target<'_>, task: Task<'_>, wrote: &mut bool,
    ) -> Result<u32, Error> {
        const NO_SCRATCH: Error = Error::Internal { text: "a reduction without memory" };
        let inputs: Addresses = self.inputs.iter().map(DeviceView::address).collect();
        let mut warps = 0;
        for (task, outputs) in task.kernels() {
            let scratch = target.scratch.take();
            // SAFETY: this function's promise.
            warps = unsafe {
                match (task.kind(), scratch) {
                    (TaskKind::Copy | TaskKind::Elementwise | TaskKind::Mixed, scratch) => {
                        target.scratch = scratch;
                        let warps = self.map(&target, task, outputs)?;
                        *wrote = true;
                        warps
                    }
                    (TaskKind::Reduced, None) => return Err(NO_SCRATCH),
                    (TaskKind::Reduced, Some(scratch)) => {
                        let [output] = outputs else { return Err(enqueue::NO_OUTPUT) };
                        let output = &self.outputs[*output];
                        let warps = if self.is_chunk {
                            scratch.lend(target.stream, |lent| {
                                self.reduce_all(&target, task, &inputs, output, lent)
                            })?
                        } else {
                            scratch.lend_along_axes(target.stream, |lent| {
                                self.reduce_along_axes(&target, task, &inputs, output, lent)
                            })?
                        };
                        target.scratch = Some(scratch);
                        *wrote |= !self.stores_states;
                        warps
                    }
                }
            };
        }
        Ok(warps)
    }

    /// Queues the kernel that reduces all elements to one state or result.
    ///
    /// # Safety
    /// As [`PlacedPart::queue`].
    unsafe fn reduce_all(
        &self, target: &Target<'_>, task: Task<'_>, inputs: &Addresses, output: &DeviceView,
        scratch: u64,
    ) -> Result<u32, Error> {
        let mut arrays = inputs.clone();
        arrays.push(output.address() + task.state_offset() as u64);
        let launch = Launch {
            task,
            arrays: &arrays,
            inputs: inputs.len(),
            first: self.first,
            n: self.elements(self.reduced()),
            contents: match self.stores_states {
                true => Contents::State(scratch),
                false => Contents::Result(scratch),
            },
            block_limit: target.block_limits.of(task),
            flags: target.flags,
        };
        // SAFETY: this function's promise.
        unsafe { enqueue(target.device, target.stream, launch) }
    }

    /// Queues the kernel of a reduction along axes.
    ///
    /// # Safety
    /// As [`PlacedPart::queue`].
    unsafe fn reduce_along_axes(
        &self, target: &Target<'_>, task: Task<'_>, inputs: &Addresses, output: &DeviceView,
        scratch: Lent,
    ) -> Result<u32, Error> {
        let Task::Evaluate(Evaluation { formula, bindings }) = task else {
            return Err(enqueue::NO_OUTPUT);
        };
        let device = target.device;
        let axes = |axes: Range<usize>| axes.len().max(1);
        let along = AxisReduction { outer: axes(self.kept()), reduced: axes(self.reduced()) };
        let address = output.address() + task.state_offset() as u64;
        let mut parameters: Parameters = input_parameters(task, inputs).into_iter().collect();
        self.add_axes(&mut parameters, self.kept(), bindings, Some(output));
        self.add_axes(&mut parameters, self.reduced(), bindings, None);
        let [results, n] = [self.kept(), self.reduced()].map(|axes| self.elements(axes));
        let blocks_at_once = along.blocks_per_multiprocessor(formula.program());
        let resident_blocks = device.multiprocessors.saturating_mul(blocks_at_once) as usize;
        let policy = &device.policy.axes;
        let partition = self.partition(policy, resident_blocks, scratch.bytes, formula, output);
        parameters.extend([address, results as u64, n as u64, scratch.address]);
        parameters.push(last_parameter(device, task, self.first));
        let (blocks, form) = (partition.blocks(results) as u32, Form::Along(along));
        let partition = Some(&partition);
        let kernels = &device.kernels;
        // SAFETY: this function's promise; the kernel has these parameters.
        unsafe {
            kernels.launch_form(
                formula,
                form,
                blocks,
                target.stream,
                &mut parameters,
                partition,
            )?;
        }
        Ok(0)
    }

    /// Queues a copy, or the kernel of an elementwise task, which writes `outputs`.
    ///
    /// # Safety
    /// As [`PlacedPart::queue`].
    unsafe fn map(
        &self, target: &Target<'_>, task: Task<'_>, outputs: &[usize],
    ) -> Result<u32, Error> {
        if !self.has_elements {
            return Ok(0);
        }
        let mut placed = DeviceViews::new(&self.lengths);
        self.inputs.iter().for_each(|input| placed.push(*input));
        outputs.iter().for_each(|output| placed.push(self.outputs[*output]));
        let inputs = self.inputs.len();
        if self.kept < self.lengths.len() {
            placed.sort_by(inputs);
        }
        // SAFETY: this function's promise.
        unsafe { elementwise::launch(target, task, placed, inputs) }
    }
}

/// The facts by which a partition is chosen.
struct Shape<'p> {
    policy: &'p AxisReductions,
    results: usize,
    /// Elements of a result.
    n: usize,
    /// Blocks that the device runs at once.
    resident_blocks: usize,
    /// Bytes of memory in which blocks merge their states.
    scratch: usize,
    /// The words of an exact sum's state.
    state_words: Option<usize>,
    /// True if states are stored, which a warp alone does not have.
    stores_states: bool,
    /// The most neighbouring groups of results of a block: as many as have room for their sums in its shared memory.
    groups: usize,
}

impl Shape<'_> {
    /// The most lanes with a result each.
    fn most_lanes(&self) -> usize {
        self.results.next_power_of_two().min(WARP)
    }

    /// A partition in which a block has this many results. Several blocks split the elements where there are too few
    /// blocks for the device, or too few for its last wave.
    fn by(&self, results: usize) -> Partition {
        let blocks = self.results.div_ceil(results).max(1);
        // The words of memory in which the blocks of the same results merge their states.
        let words = (self.scratch / 8 - 1) / blocks;
        let room = match self.state_words {
            Some(state) if state * results < words => self.policy.most_splits,
            Some(_) => 1,
            None => words.saturating_sub(1) / (2 * results),
        };
        let most = |batches: usize| {
            let splits = self.n * results / (batches * BLOCK_BATCH);
            splits.min(room).clamp(1, self.policy.most_splits)
        };
        let few = (self.resident_blocks / blocks).clamp(1, most(1));
        let fills = |splits: &usize| self.filled(blocks * splits) >= self.policy.filled_by_splits;
        let splits = (few..=most(self.policy.least_merged)).find(fills);
        Partition::new(results, splits.unwrap_or(few))
    }

    /// The percentage of the device that blocks fill in all waves together.
    fn filled(&self, blocks: usize) -> usize {
        100 * blocks / blocks.next_multiple_of(self.resident_blocks)
    }

    /// The partition in which each warp has `lanes` results of its own, if these fill the device.
    fn by_warps(&self, lanes: usize) -> Option<Partition> {
        let blocks = self.results.div_ceil(lanes * WARPS);
        let has_products = self.state_words > Some(size_of::<State<Sum<f64>>>() / 8);
        let most =
            if has_products { self.policy.most_products_of_warp } else { self.policy.most_of_warp };
        let fills =
            blocks >= self.resident_blocks && self.filled(blocks) >= self.policy.filled_by_warps;
        let is_chosen = self.n <= most && fills && !self.stores_states;
        is_chosen.then_some(Partition::new(lanes, 0))
    }

    /// The same partition with tiles, if each warp has results of its own with few elements. A single element may not be
    /// in tiles: the result's array may then be an input.
    fn in_tiles(&self, partition: Partition) -> Partition {
        let is_short = partition.results() == WARP && (2..=BATCH).contains(&self.n);
        if partition.splits > 0 || !is_short {
            return partition;
        }
        let of_tile = BATCH / self.n;
        let blocks = self.results.div_ceil(BLOCK_THREADS as usize * of_tile);
        let tiles = (blocks / self.resident_blocks).clamp(1, self.policy.most_tiles);
        Partition { results_per_lane: (of_tile * tiles) as u32, in_vectors: 1, ..partition }
    }

    /// The partition of results that are neighbours in memory, with elements of `bytes` bytes: fewer lanes, of whole
    /// sectors, where their blocks fill the device better, and several groups a block where this takes fewer waves.
    fn by_columns(&self, bytes: usize) -> Partition {
        let most = self.most_lanes();
        if let Some(by_warps) = self.by_warps(most) {
            return by_warps;
        }
        let least = (SECTOR_BYTES / bytes).min(most);
        let of_groups = if most == WARP { WARP * self.groups } else { most };
        let twice = |results: &usize| (*results < of_groups).then_some(2 * results);
        let all = std::iter::successors(Some(least), twice).map(|results| self.by(results));
        let cost = |of: &Partition| {
            let blocks = of.blocks(self.results);
            // Fewer lanes cost more than the rest of the device.
            let filled = self.filled(blocks).min(self.policy.filled_by_columns);
            let waves = blocks.div_ceil(self.resident_blocks);
            (Reverse(filled), Reverse(of.results().min(WARP)), waves)
        };
        all.min_by_key(cost).unwrap_or_else(|| self.by(most))
    }

    /// The partition of results whose elements, of `bytes` bytes, are neighbours in memory, and may be `in_vectors`.
    /// With few elements, a warp has several results, up to several batches a lane, if its lanes still read whole
    /// sectors. Where the device is filled several times, a block has several results, since it stores them at once.
    fn by_rows(&self, bytes: usize, in_vectors: bool) -> Partition {
        let lanes_for = |elements: usize| self.n.div_ceil(elements).next_power_of_two().min(WARP);
        let sector = SECTOR_BYTES / if in_vectors { VECTOR_BYTES } else { bytes };
        let of_result =
            lanes_for(self.policy.least_batches * BATCH).max(sector).min(lanes_for(BATCH));
        let fitting = (BLOCK_BATCH / self.n.max(1)).max(1).next_power_of_two();
        let sectors = (WARP * bytes / SECTOR_BYTES).next_power_of_two();
        let spare = (self.results / (self.policy.times_filled * self.resident_blocks)).max(1);
        let several = sectors.min(1 << spare.ilog2()).min(WARP);
        let partition = self
            .by_warps(WARP / of_result)
            .unwrap_or_else(|| self.by(fitting.max(several).min(self.most_lanes())));
        // The elements of a split may begin anywhere.
        let in_vectors = in_vectors && partition.splits <= 1;
        Partition { in_rows: 1, in_vectors: in_vectors.into(), ..partition }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::KernelPolicy;

    const RESIDENT: usize = 264;
    const SCRATCH: usize = 1 << 20;

    fn shape(results: usize, n: usize, state_words: Option<usize>) -> Shape<'static> {
        Shape {
            policy: &KernelPolicy::of([9, 0]).axes,
            results,
            n,
            resident_blocks: RESIDENT,
            state_words,
            scratch: SCRATCH,
            stores_states: false,
            groups: 1,
        }
    }

    #[test]
    fn partitions_fill_a_device_within_the_memory_of_states() {
        for (state_words, groups) in
            [(None, 1), (Some(15), 1), (Some(15), WARPS), (Some(72), 1), (Some(138), 1)]
        {
            for (results, n) in
                [(1, 1), (1, 1 << 28), (3, 1 << 26), (64, 1 << 22), (700, 1 << 20), (1 << 24, 3)]
            {
                let shape = Shape { groups, ..shape(results, n, state_words) };
                for bytes in [1, 4, 8] {
                    let by_rows = [false, true].map(|in_vectors| shape.by_rows(bytes, in_vectors));
                    for of in by_rows.into_iter().chain([shape.by_columns(bytes)]) {
                        let groups = results.div_ceil(of.results());
                        let most = if of.in_rows == 1 { WARP } else { WARP * groups };
                        assert!(of.results() <= most, "{of:?}");
                        let words =
                            state_words.unwrap_or(2 * of.splits as usize) * of.results() + 1;
                        let bytes = 8 + 8 * groups * words;
                        assert!(of.splits as usize <= 1 || bytes <= SCRATCH, "{of:?}");
                        assert!(
                            n < BLOCK_BATCH || of.blocks(results) >= RESIDENT / 16,
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
        let singly = |lanes, splits| Partition { in_rows: 1, ..Partition::new(lanes, splits) };
        let in_vectors = |lanes, splits| Partition { in_vectors: 1, ..singly(lanes, splits) };
        assert_eq!(square.by_columns(4), Partition::new(32, 1));
        assert_eq!(square.by_rows(4, false), singly(1, 0));
        assert_eq!(square.by_rows(4, true), in_vectors(1, 0));
        let few = shape(64, 1 << 22, Some(15));
        assert_eq!(few.by_columns(4), Partition::new(32, 132));
        assert_eq!(few.by_rows(4, true), singly(1, 4));
        let short = shape(1 << 22, 64, Some(15));
        assert_eq!(short.by_rows(4, false), singly(8, 0));
        assert_eq!(short.by_rows(4, true), in_vectors(16, 0));
        // Blocks of warps with results of their own would leave much of the device empty in the last wave.
        assert_eq!(shape(2600, 1 << 14, Some(15)).by_rows(4, true), in_vectors(2, 1));
    }

    #[test]
    fn groups_have_columns_where_a_device_runs_all_blocks_at_once() {
        for (results, n, lanes, splits) in [
            (16384, 16384, 128, 3),
            (16384, 4096, 128, 3),
            (4096, 16384, 32, 3),
            (512, 1 << 19, 32, 24),
            (64, 1 << 22, 32, 198),
            (3, 89_000_000, 4, 396),
        ] {
            let shape =
                Shape { resident_blocks: 396, scratch: 2 << 20, ..shape(results, n, Some(15)) };
            let shape = Shape { groups: WARPS, ..shape };
            assert_eq!(shape.by_columns(4), Partition::new(lanes, splits), "{n} x {results}");
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
            assert_eq!(partition.results_per_lane, of_lane, "{results} rows of {n}");
            let of_block = partition.results() * WARPS * of_lane.max(1) as usize;
            assert!(of_lane == 0 || partition.blocks(results) == results.div_ceil(of_block));
        }
    }
}
