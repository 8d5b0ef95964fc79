//! The launches of reductions along axes (kernels/axes.cu): how blocks and warps share results and their elements.

use super::grid::BLOCK_THREADS;
use crate::call::SECTOR_BYTES;
use crate::policy::AxisReductions;
use gpuvec_exact::{State, Sum};
use std::cmp::Reverse;

const WARP: usize = 32;

/// The warps of a block.
pub(super) const WARPS: usize = BLOCK_THREADS as usize / WARP;

/// The elements that a thread loads before it adds the first one, and the elements of a block's threads.
const BATCH: usize = 16;
const BLOCK_BATCH: usize = BATCH * BLOCK_THREADS as usize;

/// The bytes of a vector.
pub(super) const VECTOR_BYTES: usize = 16;

/// The division of results and their elements among blocks and warps. It is a parameter of the kernels: kernels/axes.cu
/// describes the fields of the structure.
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
    /// A partition in which a block, or a warp if there are no `splits`, has `results` results, a power of two.
    fn new(results: usize, splits: usize) -> Self {
        Partition { log_results: results.ilog2(), splits: splits as u32, ..Partition::default() }
    }

    /// The results of a block, or of a warp if there are no `splits`.
    fn results(&self) -> usize {
        1 << self.log_results
    }

    /// The blocks for a number of results.
    pub(super) fn blocks(&self, results: usize) -> usize {
        let groups = results.div_ceil(self.results());
        match self.splits as usize {
            0 => groups.div_ceil(WARPS * self.results_per_lane.max(1) as usize),
            splits => groups * splits,
        }
    }
}

/// The facts by which a partition is chosen.
pub(super) struct Shape<'p> {
    pub(super) policy: &'p AxisReductions,
    pub(super) results: usize,
    /// The elements of a result.
    pub(super) n: usize,
    /// The blocks that the device runs at once.
    pub(super) resident_blocks: usize,
    /// The bytes of memory in which blocks merge their states.
    pub(super) scratch: usize,
    /// The words of an exact sum's state.
    pub(super) state_words: Option<usize>,
    /// True if the kernel stores states, which only blocks have.
    pub(super) stores_states: bool,
    /// The most adjacent groups of 32 results of a block. Its shared memory has room for their sums.
    pub(super) groups: usize,
}

impl Shape<'_> {
    /// The most lanes with a result each.
    fn most_lanes(&self) -> usize {
        self.results.next_power_of_two().min(WARP)
    }

    /// A partition in which a block has `results` results. Several blocks split the elements if there are too few
    /// blocks for the device, or for its last wave.
    fn by(&self, results: usize) -> Partition {
        let blocks = self.results.div_ceil(results).max(1);
        // The words in which the blocks of the same results merge their states.
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
        let stores_states = self.stores_states.into();
        Partition { stores_states, ..Partition::new(results, splits.unwrap_or(few)) }
    }

    /// The percentage of the device that blocks fill, on average over the waves.
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

    /// The same partition with tiles, if each warp has results of its own with few elements. Results of a single
    /// element have none, since their array may be an input.
    pub(super) fn in_tiles(&self, partition: Partition) -> Partition {
        let is_short = partition.results() == WARP && (2..=BATCH).contains(&self.n);
        if partition.splits > 0 || !is_short {
            return partition;
        }
        let of_tile = BATCH / self.n;
        let blocks = self.results.div_ceil(BLOCK_THREADS as usize * of_tile);
        let tiles = (blocks / self.resident_blocks).clamp(1, self.policy.most_tiles);
        Partition { results_per_lane: (of_tile * tiles) as u32, in_vectors: 1, ..partition }
    }

    /// The partition of results that are adjacent in memory, with elements of `bytes` bytes. Fewer lanes share the
    /// results if their blocks then fill the device better; they still read whole sectors. A block has several groups
    /// of results if that takes fewer waves.
    pub(super) fn by_columns(&self, bytes: usize) -> Partition {
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
            // Fewer lanes cost more than an idle rest of the device.
            let filled = self.filled(blocks).min(self.policy.filled_by_columns);
            let waves = blocks.div_ceil(self.resident_blocks);
            (Reverse(filled), Reverse(of.results().min(WARP)), waves)
        };
        all.min_by_key(cost).unwrap_or_else(|| self.by(most))
    }

    /// The partition of results with elements of `bytes` bytes that are adjacent in memory, and loaded in vectors if
    /// `in_vectors`. With few elements, a warp has several results and a lane up to several batches, if the lanes still
    /// read whole sectors. With enough blocks to fill the device several times, a block has several results, which it
    /// stores at once.
    pub(super) fn by_rows(&self, bytes: usize, in_vectors: bool) -> Partition {
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
        // A split may begin at any element, so it is not aligned as a vector.
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
