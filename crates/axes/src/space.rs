//! The elements that a call walks, by the axes that are left after merging.

use crate::MAX_AXES;
use crate::axes::View;
use crate::blocks::Blocks;

/// Says whether an array, by its strides along kept and reduced axes, is read in columns: elements of different
/// results are closer to each other in memory than those of a result, or these are all the same.
#[must_use]
pub fn are_columns(kept: &[isize], reduced: &[isize]) -> bool {
    let [across, along] =
        [kept, reduced].map(|strides| strides.last().map_or(0, |stride| stride.unsigned_abs()));
    across != 0 && (across < along || along == 0)
}

/// The kept axes of a call, its reduced ones, or a block of either. A space without axes has one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    lengths: [usize; MAX_AXES],
    rank: usize,
    /// The axes of views before the first one of the space.
    skipped: usize,
    elements: usize,
}

/// The step of a view along the innermost axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// The elements follow each other. Also of a space without axes.
    Unit,
    /// All steps lead to the same element.
    Zero,
    /// Any other step.
    Strided,
}

/// The way to the elements of a view in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The elements follow each other in memory, in the order of the walk.
    Direct,
    /// There is one element for the whole block.
    Uniform,
    /// The elements are apart, or in another order.
    Gathered,
}

impl Space {
    /// The space of axes of views behind the first `skipped` ones.
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

    /// The space of that number of elements in a line: without axes, if it has one.
    pub(crate) fn line(elements: usize, skipped: usize) -> Self {
        let mut space =
            Space { lengths: [1; MAX_AXES], rank: usize::from(elements != 1), skipped, elements };
        space.lengths[0] = elements;
        space
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

    /// The number of the space's first axis among those of views.
    pub(crate) fn skipped(&self) -> usize {
        self.skipped
    }

    /// The step of a view along the innermost axis.
    pub fn inner(&self, view: &View) -> Inner {
        match self.strides(view).last() {
            None => Inner::Unit,
            Some(0) => Inner::Zero,
            Some(stride) if *stride == view.element_bytes as isize => Inner::Unit,
            Some(_) => Inner::Strided,
        }
    }

    /// The elements of a view that follow each other in memory before the first gap: a number that divides those of
    /// the space.
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

    /// The way to the elements of a view.
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

    /// The elements of a view that differ from one another: those at one index of the axes along which its stride
    /// is 0.
    pub fn distinct(&self, view: &View) -> Space {
        let mut lengths = self.lengths;
        for (length, stride) in lengths.iter_mut().zip(self.strides(view)) {
            *length = if *stride == 0 { 1 } else { *length };
        }
        Space::new(&lengths[..self.rank], self.skipped)
    }

    /// The space cut into blocks of at most `most` elements, and of at least one.
    pub fn blocks(&self, most: usize) -> Blocks {
        Blocks::new(*self, most)
    }

    /// The bytes from the first element of a view to that with these indexes.
    pub(crate) fn offset(strides: &[isize], indexes: &[usize]) -> isize {
        indexes.iter().zip(strides).map(|(index, stride)| *index as isize * stride).sum()
    }
}
