//! The axes of calls on arrays of any strides, and the tiles in which GPUs run such calls.

use super::array::MAX_ARRAYS;
use super::by_key;
use super::checked::Call;
use super::task::{Task, TaskKind};
use super::transfer::{Transfer, Transfers};
use crate::policy::gpu;
use arrayvec::ArrayVec;
use gpuvec_axes::{Axes, Block, Blocks, MAX_AXES, Space, View, are_columns};

/// The axes of a call, and the strides of its arrays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strides<'a> {
    axes: &'a Axes,
    /// A view for each input, then for each output.
    views: &'a [View],
    /// True if the call's work takes the states of the results, and no results are written.
    pub(crate) wants_states: bool,
}

/// The tiles of a call. Each is a block of the kept axes with a block of the reduced axes.
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
    /// `None` if results have no elements.
    reduced: Option<Block>,
    /// The index of its first element among the elements of each result.
    pub(crate) first: usize,
}

/// The tiles in which GPUs run a call on arrays of any strides. The elements of a [`Staged`](Transfer::Staged) array
/// are gathered into a pinned buffer, or scattered from one, and kernels access the buffer in place. An input that
/// repeats elements has [`Dma`](Transfer::Dma): its distinct elements are gathered and then copied to a device buffer.
/// The output of a reduction is a [`State`](Transfer::State), which the host merges, if several tiles have elements of
/// a result or if states are wanted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TilePlan {
    pub(crate) tiles: Tiles,
    /// The offset of each array, or of an output's states, in a slot's buffers.
    pub(crate) offsets: ArrayVec<usize, MAX_ARRAYS>,
    /// The transfers for which a slot allocates buffers.
    pub(crate) buffers: Transfers,
}

/// The alignment of arrays and states in a slot's buffers, in bytes: kernels load vectors of up to 16 bytes, and store
/// the words of states, of up to 8.
pub(crate) const BUFFER_ALIGNMENT: usize = 16;

/// The most results of a launch, and the most elements of each. Kernels can number this many, and it is a multiple of
/// the elements of any vector.
const MOST_ELEMENTS: usize = 1 << 30;

/// The fewest bytes that a kernel reads at once.
pub(crate) const SECTOR_BYTES: usize = 32;

/// The most bytes of the states of a tile's results in a slot.
const STATES_BYTES: usize = gpu::STAGED_CHUNK_BYTES;

impl<'a> Strides<'a> {
    pub(super) fn new(axes: &'a Axes, views: &'a [View]) -> Self {
        Strides { axes, views, wants_states: false }
    }

    pub(crate) fn axes(&self) -> &'a Axes {
        self.axes
    }

    pub(crate) fn views(&self) -> &'a [View] {
        self.views
    }

    /// The axes of the elements of a result.
    pub(crate) fn reduced(&self) -> &'a Space {
        self.axes.reduced()
    }

    /// The tiles for kernels that reach all arrays in place.
    pub(crate) fn tiles_in_place(&self, task: Task<'_>) -> Tiles {
        let [kept, reduced] = self.spaces();
        let kept = kept.blocks(self.most_results(task));
        Tiles { kept, reduced: reduced.blocks(MOST_ELEMENTS) }
    }

    /// The most results of a launch. An elementwise kernel numbers all their elements.
    fn most_results(&self, task: Task<'_>) -> usize {
        let n = match task.kind() {
            TaskKind::Copy | TaskKind::Elementwise | TaskKind::Reduced | TaskKind::Grouped => 1,
            TaskKind::Mixed => self.reduced().elements(),
        };
        (MOST_ELEMENTS / n.max(1)).max(1)
    }

    /// True if each result has elements, but no more than a kernel can number.
    pub(super) fn fits_launches(&self) -> bool {
        (1..=MOST_ELEMENTS).contains(&self.reduced().elements())
    }

    /// A number below 32 for kinds of reductions with different speeds. It depends on the number of elements of a
    /// result, and on whether elements or results are adjacent in memory.
    pub(super) fn kind(&self, inputs: usize) -> u32 {
        const POWERS: u32 = 4;
        let length = self.reduced().elements().max(1).ilog2() / POWERS;
        2 * length + u32::from(self.are_columns(inputs))
    }

    fn spaces(&self) -> [&'a Space; 2] {
        [self.axes.kept(), self.axes.reduced()]
    }

    /// The number of distinct elements of a view in two spaces.
    #[inline(never)]
    fn distinct(spaces: [&Space; 2], view: &View) -> usize {
        spaces.map(|space| space.distinct(view).elements()).iter().product()
    }

    /// The bytes of an array's distinct elements.
    pub(super) fn bytes(&self, number: usize) -> usize {
        let view = &self.views[number];
        Self::distinct(self.spaces(), view) * view.element_bytes
    }

    /// The bytes of the sectors that contain an array's elements.
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

    /// True if an array repeats elements.
    pub(super) fn repeats(&self, view: &View) -> bool {
        let all: usize = self.spaces().iter().map(|space| space.elements()).product();
        Self::distinct(self.spaces(), view) < all
    }

    /// True if an input is read in columns.
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

    /// The index of a tile's first result in the order of the kept axes.
    pub(crate) fn first_result(&self, tile: &Tile) -> usize {
        self.kept.first_element(tile.number)
    }

    /// The number of tiles that share results.
    pub(crate) fn parts(&self) -> usize {
        self.reduced.count().max(1)
    }

    /// The elements of the largest tile.
    pub(super) fn elements(&self) -> usize {
        self.kept.elements() * self.reduced.elements()
    }

    /// Returns tile `number`. Tiles that share results are adjacent.
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

    /// The lengths of its kept axes, then of its reduced axes.
    #[inline(never)]
    pub(crate) fn lengths(&self) -> ArrayVec<usize, MAX_AXES> {
        let reduced = self.reduced.as_ref().map_or(&[0][..], |block| block.space().lengths());
        self.kept().lengths().iter().chain(reduced).copied().collect()
    }

    /// True if its results have elements.
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

    /// The bytes from the first element of a view to the first element of the tile.
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
        let has_table = call.task().kind() == TaskKind::Grouped;
        let merges = !has_table && (tiles.parts() > 1 || shape.must_merge());
        if merges {
            transfers.merge_states(call);
        }
        let is_staged = merges || transfers.is_any_staged();
        let buffers = Transfers::of_buffers(is_staged, call.task().kind());
        let full = [tiles.kept.full(), tiles.reduced.full()];
        let mut end = 0;
        let place = |(number, (view, transfer)): (usize, (&View, Transfer))| {
            let each = match transfer {
                Transfer::Staged | Transfer::Dma => view.element_bytes,
                Transfer::State => state_bytes(call, number - call.inputs().len()),
                Transfer::InPlace | Transfer::Mapped | Transfer::Table => 0,
            };
            let start = end;
            let distinct = Strides::distinct([&full[0], &full[1]], view);
            end += (each * distinct).next_multiple_of(BUFFER_ALIGNMENT);
            start
        };
        let offsets = strides.views.iter().zip(transfers.all()).enumerate().map(place).collect();
        TilePlan { tiles, offsets, buffers }
    }
}

/// The bytes of a result's state: the sum over the kernels of the output.
pub(crate) fn state_bytes(call: &Call<'_>, output: usize) -> usize {
    let kernels = call.task().kernels();
    let of_output = kernels.filter(|(_, outputs)| outputs.contains(&output));
    of_output.map(|(kernel, _)| kernel.state_bytes()).sum()
}

/// The features of a call by which its tiles are chosen.
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
        if let Some(most) = by_key::most_elements(self.call) {
            let results = self.strides.axes.kept().elements();
            let is_in_place = self.gpus == 1 && !self.stages_elements();
            let room = if is_in_place { MOST_ELEMENTS } else { self.chunk() };
            return [results, most.min(room / results).max(1)];
        }
        if self.gpus == 1 && !self.stages_elements() {
            let merges = n > MOST_ELEMENTS || self.must_merge();
            let results = self.strides.most_results(self.call.task());
            let results = if merges { results.min(self.most_states()) } else { results };
            return [self.most_staged().map_or(results, |most| most.min(results)), MOST_ELEMENTS];
        }
        let most = self.chunk();
        let room = if self.must_merge() { self.most_states() } else { most };
        let results = (most / n.max(1)).min(room);
        // If results are adjacent, the elements are read in rows of results.
        let least = if self.strides.are_columns(self.call.inputs().len()) {
            gpu::GATHERED_COLUMNS
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

    /// The most elements of a tile if arrays are staged, or devices share the call.
    fn chunk(&self) -> usize {
        let widest = self.call.element_bytes();
        let wanted = self.call.n() * widest / (gpu::PIPELINE_DEPTH * self.gpus);
        let wanted = wanted.next_power_of_two().max(gpu::SMALLEST_CHUNK_BYTES);
        match self.most_staged() {
            None => wanted.min(gpu::DMA_SLOT_BYTES) / widest,
            Some(most) => (wanted.min(gpu::STAGED_CHUNK_BYTES) / widest).min(most),
        }
    }

    /// The staged arrays, with their numbers.
    fn staged(&self) -> impl Iterator<Item = (usize, &View)> {
        let views = self.strides.views.iter().enumerate().zip(self.transfers.all());
        let staged = views.filter(|(_, of)| matches!(of, Transfer::Staged | Transfer::Dma));
        staged.map(|(array, _)| array)
    }

    /// True if arrays with more than one element for each result are staged.
    fn stages_elements(&self) -> bool {
        let writes_elements = match self.call.task().kind() {
            TaskKind::Copy | TaskKind::Elementwise | TaskKind::Mixed => true,
            TaskKind::Reduced | TaskKind::Grouped => false,
        };
        self.staged().any(|(number, _)| number < self.call.inputs().len() || writes_elements)
    }

    /// The most elements of each staged array that fit into a slot. `None` if no array is staged.
    fn most_staged(&self) -> Option<usize> {
        let bytes: usize = self.staged().map(|(_, view)| view.element_bytes).sum();
        let room = match self.call.task().kind() {
            TaskKind::Copy | TaskKind::Elementwise => gpu::STAGED_SLOT_BYTES,
            TaskKind::Reduced | TaskKind::Grouped | TaskKind::Mixed => {
                gpu::STAGED_SLOT_BYTES - STATES_BYTES
            }
        };
        (bytes > 0).then(|| 1 << (room / bytes).ilog2())
    }

    /// The most results with states that fit into a slot together.
    fn most_states(&self) -> usize {
        let outputs = 0..self.call.outputs().len();
        let of_all: usize =
            outputs.map(|output| state_bytes(self.call, output) + BUFFER_ALIGNMENT).sum();
        STATES_BYTES / of_all
    }

    /// True if the host merges states even if no result has several tiles: if states are wanted, if a result is
    /// computed from several states, or if a result would replace an input that a later kernel reads.
    fn must_merge(&self) -> bool {
        let replaces_input =
            self.call.task().has_several_kernels() && self.call.reduces_into_input();
        self.strides.wants_states || self.call.task().has_moments() || replaces_input
    }
}

#[cfg(test)]
mod tests;
