//! The iteration space of a call: its axes after merging.

use crate::MAX_AXES;
use crate::axes::View;
use crate::blocks::Blocks;

/// True if an array with these strides along kept and reduced axes is read in columns: elements of adjacent results are
/// closer in memory than elements of one result, or all elements of a result are the same.
#[must_use]
pub fn are_columns(kept: &[isize], reduced: &[isize]) -> bool {
    let [across, along] =
        [kept, reduced].map(|strides| strides.last().map_or(0, |stride| stride.unsigned_abs()));
    across != 0 && (across < along || along == 0)
}

/// The kept axes of a call, its reduced axes, or a block of either. A space without axes has one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    lengths: [usize; MAX_AXES],
    rank: usize,
    /// The number of the views' axes before the first axis of the space.
    skipped: usize,
    elements: usize,
}

/// The stride of a view along the innermost axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// The elements are adjacent, or the space has no axes.
    Unit,
    /// The same element is repeated.
    Zero,
    /// Any other stride.
    Strided,
}

/// The placement in memory of a view's elements in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The elements are adjacent in memory, in the order of iteration.
    Direct,
    /// All elements of the block are the same.
    Uniform,
    /// The elements are not adjacent, or in another order.
    Gathered,
}

impl Space {
    /// A space of the views' axes after the first `skipped` axes.
    pub(crate) fn new(lengths: &[usize], skipped: usize) -> Self {
        let mut space = Space {
            lengths: [1; MAX_AXES],
            rank: lengths.len(),
            skipped,
            elements: lengths.iter().product(),
        };
        space.lengths[..lengths.len()].copy_from_slice(lengths);
        space
    }

    /// A space of the views' first axis, or of no axis if it has one element.
    pub(crate) fn line(elements: usize) -> Self {
        Space::new(if elements == 1 { &[] } else { std::slice::from_ref(&elements) }, 0)
    }

    /// The lengths of the axes.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths[..self.rank]
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The strides of a view along the axes.
    pub fn strides<'a>(&self, view: &'a View) -> &'a [isize] {
        &view.strides()[self.skipped..][..self.rank]
    }

    /// The number of the space's first axis among the views' axes.
    pub(crate) fn skipped(&self) -> usize {
        self.skipped
    }

    /// The kind of a view's stride along the innermost axis.
    pub fn inner(&self, view: &View) -> Inner {
        match self.strides(view).last() {
            None => Inner::Unit,
            Some(0) => Inner::Zero,
            Some(stride) if *stride == view.element_bytes as isize => Inner::Unit,
            Some(_) => Inner::Strided,
        }
    }

    /// The number of a view's elements that are adjacent in memory before the first gap. It divides the number of
    /// elements of the space.
    pub fn run(&self, view: &View) -> usize {
        let mut run = 1;
        for (length, stride) in self.lengths().iter().zip(self.strides(view)).rev() {
            if *length != 1 && *stride != (run * view.element_bytes) as isize {
                break;
            }
            run *= length;
        }
        run
    }

    /// The placement in memory of a view's elements in the space.
    pub fn access(&self, view: &View) -> Access {
        let mut axes = self.lengths().iter().zip(self.strides(view));
        if self.run(view) == self.elements {
            Access::Direct
        } else if axes.all(|(length, stride)| *length == 1 || *stride == 0) {
            Access::Uniform
        } else {
            Access::Gathered
        }
    }

    /// The space of a view's distinct elements: axes along which its stride is 0 have length 1.
    pub fn distinct(&self, view: &View) -> Space {
        let mut lengths = self.lengths;
        for (length, stride) in lengths.iter_mut().zip(self.strides(view)) {
            *length = if *stride == 0 { 1 } else { *length };
        }
        Space::new(&lengths[..self.rank], self.skipped)
    }

    /// Divides the space into blocks of at most `most` elements, or of one element if `most` is 0.
    pub fn blocks(&self, most: usize) -> Blocks {
        Blocks::new(*self, most)
    }

    /// The distance in bytes from a view's first element to the element at `indexes`.
    pub(crate) fn offset(strides: &[isize], indexes: &[usize]) -> isize {
        indexes.iter().zip(strides).map(|(index, stride)| *index as isize * stride).sum()
    }
}
