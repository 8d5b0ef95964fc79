//! Part of a call: consecutive elements of contiguous arrays, or a tile of arrays of any strides.

use crate::call::{Call, Extent, Strides, Tile};
use arrayvec::ArrayVec;
use gpuvec_axes::MAX_AXES;

/// Part of a call. The axes of its results come before the axes of the elements of each result.
#[expect(clippy::large_enum_variant, reason = "each chunk has one, which is not moved")]
pub(super) enum Part<'a> {
    /// Consecutive elements along one axis. Reductions have one result.
    Chunk { call: &'a Call<'a>, first: usize, len: usize },
    /// The results and elements of a tile.
    Tile { strides: Strides<'a>, tile: Tile },
}

impl<'a> Part<'a> {
    /// The lengths of all axes.
    pub(super) fn lengths(&self) -> ArrayVec<usize, MAX_AXES> {
        match self {
            Part::Chunk { len, .. } => [*len].into_iter().collect(),
            Part::Tile { tile, .. } => tile.lengths(),
        }
    }

    /// The lengths of the axes of the results.
    pub(super) fn results(&self) -> &[usize] {
        match self {
            Part::Chunk { .. } => &[],
            Part::Tile { tile, .. } => tile.kept().lengths(),
        }
    }

    /// True if the results have elements.
    pub(super) fn has_elements(&self) -> bool {
        match self {
            Part::Chunk { .. } => true,
            Part::Tile { tile, .. } => tile.has_elements(),
        }
    }

    /// The index of the part's first element among the elements of each result.
    pub(super) fn first(&self) -> usize {
        match self {
            Part::Chunk { first, .. } => *first,
            Part::Tile { tile, .. } => tile.first,
        }
    }

    /// The strides of array `number` along the axes, in bytes.
    pub(super) fn strides(&self, number: usize) -> [isize; MAX_AXES] {
        match self {
            Part::Chunk { call, .. } => {
                let mut all = [0; MAX_AXES];
                all[0] = stride(call, number) as isize;
                all
            }
            Part::Tile { strides, tile } => tile.strides(&strides.views()[number]),
        }
    }

    /// The bytes from the first element of array `number` to the first element of the part.
    pub(super) fn offset(&self, number: usize) -> isize {
        match self {
            Part::Chunk { call, first, .. } => (first * stride(call, number)) as isize,
            Part::Tile { strides, tile } => tile.offset(&strides.views()[number]),
        }
    }
}

/// The stride of a contiguous array; 0 for the only result of a reduction.
fn stride(call: &Call<'_>, number: usize) -> usize {
    let layout = call.array(number).layout;
    match layout.extent {
        Extent::Elements => layout.element_bytes,
        Extent::Results | Extent::Groups => 0,
    }
}
