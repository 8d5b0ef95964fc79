//! Calls on arrays of any strides, as GPUs run them: tile after tile.

use super::array::MAX_ARRAYS;
use super::checked::Call;
use super::task::Task;
use super::transfer::{Transfer, Transfers};
use crate::tuning;
use arrayvec::ArrayVec;
use gpuvec_axes::{Axes, Block, Blocks, MAX_AXES, Space, View, are_columns};

/// The axes of a call on arrays of any strides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strides<'a> {
    axes: &'a Axes,
    /// The views of the inputs, then those of the outputs.
    views: &'a [View],
    /// Says that the call's work takes the states of the results, which are not written.
    pub(crate) wants_states: bool,
}

/// The tiles of a call: each is a block of the kept axes with a block of the reduced ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiles {
    kept: Blocks,
    reduced: Blocks,
}

/// A tile of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    /// The number of its block of kept axes.
    pub(crate) number: usize,
    kept: Block,
    /// None if results have no elements.
    reduced: Option<Block>,
    /// The number of its first element among those of each result.
    pub(crate) first: usize,
}

/// How GPUs run a call on arrays of any strides, tile after tile, beside the transfers of the arrays. Of arrays
/// that are [`Staged`](Transfer::Staged) a tile's elements are gathered in a pinned buffer, which kernels use where
/// it is, or scattered from there. Of those with [`Dma`](Transfer::Dma), inputs that repeat elements, the distinct
/// ones are gathered and then copied to a device buffer. Outputs of reductions are [`State`](Transfer::State) if
/// several tiles have elements of a result, or if states are wanted: the host merges them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TilePlan {
    pub(crate) tiles: Tiles,
    /// The places of arrays, or of outputs' states, in a slot's buffers.
    pub(crate) offsets: ArrayVec<usize, MAX_ARRAYS>,
    /// Transfers for which a slot has all buffers of a tile.
    pub(crate) buffers: Transfers,
}

/// Buffers of arrays begin at multiples of this many bytes, as the longest vectors do.
const ALIGNMENT: usize = 16;

/// The most results of a launch, and the most elements of each: below the limit of numbers in kernels, and a
/// multiple of all packs.
const MOST_ELEMENTS: usize = 1 << 30;

/// The fewest bytes that a kernel reads at once.
pub(crate) const SECTOR_BYTES: usize = 32;

/// The most bytes of the states of a tile's results in a slot.
const STATES_BYTES: usize = tuning::STAGED_CHUNK_BYTES;

impl<'a> Strides<'a> {
    /// The axes of a call, along which views lead to the elements of its arrays.
    pub(crate) fn new(axes: &'a Axes, views: &'a [View]) -> Self {
        Strides { axes, views, wants_states: false }
    }

    /// The same for a call whose work [takes the states](super::ChunkWork::take_states) of the results. The outputs'
    /// views tell their order alone. GPUs do not leave such a call to cores, which would add what is taken once more.
    pub(crate) fn for_states(self) -> Self {
        Strides { wants_states: true, ..self }
    }

    pub(crate) fn views(&self) -> &'a [View] {
        self.views
    }

    /// The axes of the elements of a result.
    pub(crate) fn reduced(&self) -> &'a Space {
        self.axes.reduced()
    }

    /// The tiles of a task's kernels that reach all arrays in place.
    pub(crate) fn tiles_in_place(&self, task: Task<'_>) -> Tiles {
        let [kept, reduced] = self.spaces();
        let kept = kept.blocks(self.most_results(task));
        Tiles { kept, reduced: reduced.blocks(MOST_ELEMENTS) }
    }

    /// The most results of a launch. An elementwise kernel numbers all elements of these.
    fn most_results(&self, task: Task<'_>) -> usize {
        let n = if task.is_mixed() { self.reduced().elements() } else { 1 };
        (MOST_ELEMENTS / n.max(1)).max(1)
    }

    /// Says whether each result has elements, and no more than a kernel can number.
    pub(super) fn fits_launches(&self) -> bool {
        (1..=MOST_ELEMENTS).contains(&self.reduced().elements())
    }

    /// A number below 32 that tells reductions apart: by the number of elements of a result, and by whether these
    /// or results are neighbours in memory.
    pub(super) fn kind(&self, inputs: usize) -> u32 {
        const POWERS: u32 = 4;
        let length = self.reduced().elements().max(1).ilog2() / POWERS;
        2 * length + u32::from(self.are_columns(inputs))
    }

    fn spaces(&self) -> [&'a Space; 2] {
        [self.axes.kept(), self.axes.reduced()]
    }

    /// The number of elements of a view, in blocks of the axes, that differ from one another.
    #[inline(never)]
    fn distinct(spaces: [&Space; 2], view: &View) -> usize {
        spaces.map(|space| space.distinct(view).elements()).iter().product()
    }

    /// The bytes of the elements of an array, those that are repeated once.
    pub(super) fn bytes(&self, number: usize) -> usize {
        let view = &self.views[number];
        Self::distinct(self.spaces(), view) * view.element_bytes
    }

    /// The bytes of the sectors in which the elements of an array are.
    pub(super) fn sector_bytes(&self, number: usize) -> usize {
        let view = &self.views[number];
        let of_space = |space: &Space| {
            let steps = space.strides(view).iter().map(|stride| stride.unsigned_abs());
            steps.filter(|step| *step > 0).min()
        };
        let closest = self.spaces().into_iter().filter_map(of_space).min();
        let of_each = closest.unwrap_or(SECTOR_BYTES).clamp(view.element_bytes, SECTOR_BYTES);
        self.bytes(number) / view.element_bytes * of_each
    }

    /// Says whether a view has an element for several of the call's.
    pub(super) fn repeats(&self, view: &View) -> bool {
        let all: usize = self.spaces().iter().map(|space| space.elements()).product();
        Self::distinct(self.spaces(), view) < all
    }

    /// Says whether an input is read in columns.
    fn are_columns(&self, inputs: usize) -> bool {
        let [kept, reduced] = self.spaces();
        let is_across = |view: &View| are_columns(kept.strides(view), reduced.strides(view));
        reduced.elements() > 1 && self.views[..inputs].iter().any(is_across)
    }
}

impl Tiles {
    /// The number of tiles.
    pub(crate) fn count(&self) -> usize {
        self.kept.count() * self.parts()
    }

    /// The number of a tile's first result in the order of the kept axes.
    pub(crate) fn first_result(&self, tile: &Tile) -> usize {
        self.kept.first_element(tile.number)
    }

    /// The number of tiles that have elements of the same results.
    pub(crate) fn parts(&self) -> usize {
        self.reduced.count().max(1)
    }

    /// The elements of the largest tile.
    pub(super) fn elements(&self) -> usize {
        self.kept.elements() * self.reduced.elements()
    }

    /// The tile of a number. Those of the same results follow each other.
    #[inline(never)]
    pub(crate) fn at(&self, number: usize) -> Tile {
        let (number, part) = (number / self.parts(), number % self.parts());
        let has_elements = self.reduced.count() > 0;
        Tile {
            number,
            kept: self.kept.at(number),
            reduced: has_elements.then(|| self.reduced.at(part)),
            first: if has_elements { self.reduced.first_element(part) } else { 0 },
        }
    }
}

impl Tile {
    /// The axes of its results.
    pub(crate) fn kept(&self) -> &Space {
        self.kept.space()
    }

    /// The lengths of its kept axes, then of the reduced ones.
    #[inline(never)]
    pub(crate) fn lengths(&self) -> ArrayVec<usize, MAX_AXES> {
        let reduced = self.reduced.as_ref().map_or(&[0][..], |block| block.space().lengths());
        self.kept().lengths().iter().chain(reduced).copied().collect()
    }

    /// Says whether its results have elements.
    pub(crate) fn has_elements(&self) -> bool {
        self.reduced.is_some()
    }

    /// The strides of an array along these axes.
    #[inline(never)]
    pub(crate) fn strides(&self, view: &View) -> [isize; MAX_AXES] {
        let reduced = self.reduced.as_ref().map_or(&[][..], |block| block.space().strides(view));
        let mut all = [0; MAX_AXES];
        let strides = self.kept().strides(view).iter().chain(reduced);
        all.iter_mut().zip(strides).for_each(|(place, stride)| *place = *stride);
        all
    }

    /// The bytes from the first element of a view to that of the tile.
    #[inline(never)]
    pub(crate) fn offset(&self, view: &View) -> isize {
        self.kept.offset(view) + self.reduced.map_or(0, |block| block.offset(view))
    }
}

impl TilePlan {
    /// Plans the tiles of a call on a number of devices. Changes the transfers of reductions' outputs to states if the
    /// host is to merge them.
    pub(super) fn new(
        call: &Call<'_>, strides: Strides<'_>, gpus: usize, transfers: &mut Transfers,
    ) -> Self {
        let shape = Shape { call, strides, transfers, gpus };
        let [results, elements] = shape.tile();
        let kept = strides.axes.kept().blocks(results);
        let tiles = Tiles { kept, reduced: strides.reduced().blocks(elements) };
        let merges = tiles.parts() > 1 || shape.must_merge();
        if merges {
            transfers.merge_states(call);
        }
        let is_staged = merges || transfers.is_any_staged();
        let buffers = Transfers::of_buffers(is_staged, call.task().reduces());
        let full = [tiles.kept.full(), tiles.reduced.full()];
        let mut end = 0;
        let place = |(number, (view, transfer)): (usize, (&View, Transfer))| {
            let each = match transfer {
                Transfer::Staged | Transfer::Dma => view.element_bytes,
                Transfer::State => state_bytes(call, number - call.inputs().len()),
                Transfer::InPlace | Transfer::Mapped => 0,
            };
            let start = end;
            let distinct = Strides::distinct([&full[0], &full[1]], view);
            end += (each * distinct).next_multiple_of(ALIGNMENT);
            start
        };
        let offsets = strides.views.iter().zip(transfers.all()).enumerate().map(place).collect();
        TilePlan { tiles, offsets, buffers }
    }
}

/// The bytes of the state of a result of an output: of those of all its kernels.
pub(crate) fn state_bytes(call: &Call<'_>, output: usize) -> usize {
    let kernels = call.task().kernels();
    let of_output = kernels.filter(|(_, outputs)| outputs.contains(&output));
    of_output.map(|(kernel, _)| kernel.state_bytes()).sum()
}

/// The numbers by which tiles are chosen.
struct Shape<'a> {
    call: &'a Call<'a>,
    strides: Strides<'a>,
    transfers: &'a Transfers,
    gpus: usize,
}

impl Shape<'_> {
    /// The most results of a tile, and the most elements of each.
    fn tile(&self) -> [usize; 2] {
        let n = self.strides.reduced().elements();
        if self.gpus == 1 && !self.stages_elements() {
            let merges = n > MOST_ELEMENTS || self.must_merge();
            let results = self.strides.most_results(self.call.task());
            let results = if merges { results.min(self.most_states()) } else { results };
            return [self.most_staged().map_or(results, |most| most.min(results)), MOST_ELEMENTS];
        }
        let most = self.chunk();
        let room = if self.must_merge() { self.most_states() } else { most };
        let results = (most / n.max(1)).min(room);
        // Rows of results that are neighbours in memory are read as such.
        let least = if self.strides.are_columns(self.call.inputs().len()) {
            tuning::GATHERED_COLUMNS
        } else {
            1
        };
        let least = least.min(self.strides.axes.kept().elements());
        if n == 1 || results >= least {
            return [results.max(1), n.max(1)];
        }
        let results = least.min(self.most_states());
        [results, (most / results).max(1)]
    }

    /// The most elements of a tile if arrays are staged, or shared by devices.
    fn chunk(&self) -> usize {
        let widest = self.call.element_bytes();
        let wanted = self.call.n() * widest / (tuning::PIPELINE_DEPTH * self.gpus);
        let wanted = wanted.next_power_of_two().max(tuning::SMALLEST_CHUNK_BYTES);
        match self.most_staged() {
            None => wanted.min(tuning::DMA_SLOT_BYTES) / widest,
            Some(most) => (wanted.min(tuning::STAGED_CHUNK_BYTES) / widest).min(most),
        }
    }

    /// The arrays that are staged, by number.
    fn staged(&self) -> impl Iterator<Item = (usize, &View)> {
        let views = self.strides.views.iter().enumerate().zip(self.transfers.all());
        let staged = views.filter(|(_, of)| matches!(of, Transfer::Staged | Transfer::Dma));
        staged.map(|(array, _)| array)
    }

    /// Says whether arrays with more than one element for each result are staged.
    fn stages_elements(&self) -> bool {
        let task = self.call.task();
        let has_results_alone = task.reduces() && !task.is_mixed();
        self.staged().any(|(number, _)| number < self.call.inputs().len() || !has_results_alone)
    }

    /// The most elements of each staged array, if there is one, that have room in a slot.
    fn most_staged(&self) -> Option<usize> {
        let bytes: usize = self.staged().map(|(_, view)| view.element_bytes).sum();
        let room = match self.call.task().reduces() {
            true => tuning::STAGED_SLOT_BYTES - STATES_BYTES,
            false => tuning::STAGED_SLOT_BYTES,
        };
        (bytes > 0).then(|| 1 << (room / bytes).ilog2())
    }

    /// The most results whose states have room in a slot.
    fn most_states(&self) -> usize {
        let outputs = 0..self.call.outputs().len();
        let of_all: usize = outputs.map(|output| state_bytes(self.call, output) + ALIGNMENT).sum();
        STATES_BYTES / of_all
    }

    /// Says whether the host merges states also where no result has several tiles: if states are wanted, or results
    /// are computed from several, or must not be there before all elements are read, since one of several would replace
    /// an input.
    fn must_merge(&self) -> bool {
        let replaces_input =
            self.call.task().has_several_kernels() && self.call.reduces_into_input();
        self.strides.wants_states || self.call.task().has_moments() || replaces_input
    }
}

#[cfg(test)]
mod tests;
