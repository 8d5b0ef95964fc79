//! Blocks: the parts in which a space is walked.

use crate::MAX_AXES;
use crate::axes::View;
use crate::space::Space;
use std::ops::Range;

/// A partition of a space into blocks. A block contains as many whole rows of the innermost axes as are allowed,
/// at one index of each outer axis, or part of a row that is longer. Blocks are walked in the order of the elements.
///
/// A block of a few thousand elements is what a core works on at a time; one of millions, what is sent to a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    space: Space,
    /// The axis that is cut, but for a space without axes.
    cut: usize,
    /// The indexes along it that a block has.
    rows: usize,
    /// The blocks along it.
    along: usize,
    count: usize,
}

impl Blocks {
    #[inline(never)]
    pub(crate) fn new(space: Space, most: usize) -> Self {
        let most = most.max(1);
        let (mut row, mut cut) = (1, space.lengths().len());
        while cut > 0 && row <= most {
            cut -= 1;
            row *= space.lengths()[cut];
        }
        let Some(length) = space.lengths().get(cut).copied().filter(|_| space.elements() > 0)
        else {
            return Blocks { space, cut, rows: 1, along: 1, count: space.elements() };
        };
        let rows = (most / (row / length)).clamp(1, length);
        let along = length.div_ceil(rows);
        let count = space.lengths()[..cut].iter().product::<usize>() * along;
        Blocks { space, cut, rows, along, count }
    }

    /// The number of blocks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The elements of all blocks but those at the end of the axis that is cut.
    pub fn elements(&self) -> usize {
        self.full().elements()
    }

    /// The space of such a block: it tells the access to each view in every block.
    pub fn full(&self) -> Space {
        self.block_space(self.rows)
    }

    /// Says whether blocks that follow each other along the axis that is cut have the same elements of a view.
    pub fn repeats(&self, view: &View) -> bool {
        self.space.strides(view).get(self.cut).is_none_or(|stride| *stride == 0)
    }

    /// The number of the first block that begins at an element or behind it; elements are counted in the order of
    /// the walk. So parts of the elements that are cut anywhere have each block once.
    pub fn beginning_at(&self, element: usize) -> usize {
        let lengths = &self.space.lengths()[self.cut..];
        let row: usize = lengths.iter().skip(1).product();
        let all = lengths.first().map_or(1, |length| length * row);
        if element >= self.space.elements() {
            return self.count;
        }
        element / all * self.along + (element % all).div_ceil(row * self.rows)
    }

    /// The number of the first element of a block, in the order of the walk.
    pub fn first_element(&self, number: usize) -> usize {
        let lengths = &self.space.lengths()[self.cut..];
        let row: usize = lengths.iter().skip(1).product();
        let all = lengths.first().map_or(1, |length| length * row);
        number / self.along * all + number % self.along * self.rows * row
    }

    /// The blocks of these numbers, in their order.
    pub fn walk(&self, numbers: Range<usize>) -> impl Iterator<Item = Block> {
        let mut next = (!numbers.is_empty()).then(|| self.at(numbers.start));
        numbers.map_while(move |_| {
            let block = next?;
            if let Some(next) = &mut next {
                self.advance(next);
            }
            Some(block)
        })
    }

    /// The block of this number.
    ///
    /// # Panics
    /// If there is none.
    #[inline(never)]
    pub fn at(&self, number: usize) -> Block {
        assert!(number < self.count, "{number} is not one of {} blocks", self.count);
        let mut first = [0; MAX_AXES];
        let mut rest = number / self.along;
        for (index, length) in first[..self.cut].iter_mut().zip(self.space.lengths()).rev() {
            *index = rest % length;
            rest /= length;
        }
        if let Some(index) = first.get_mut(self.cut) {
            *index = number % self.along * self.rows;
        }
        self.block(first)
    }

    /// Moves a block on to the one that follows it, or from the last to the first.
    pub fn advance(&self, block: &mut Block) {
        let mut step = self.rows;
        for (index, length) in
            block.first.iter_mut().zip(self.space.lengths()).take(block.axes).rev()
        {
            *index += step;
            if *index < *length {
                break;
            }
            *index = 0;
            step = 1;
        }
        let rows = self.rows_from(&block.first);
        if block.space.lengths().first().is_some_and(|length| *length != rows) {
            block.space = self.block_space(rows);
        }
    }

    /// The indexes of a block along the axis that is cut, by those of its first element.
    fn rows_from(&self, first: &[usize; MAX_AXES]) -> usize {
        let lengths = self.space.lengths();
        self.rows.min(lengths.get(self.cut).map_or(1, |length| length - first[self.cut]))
    }

    /// The block whose first element has these indexes along the axes up to that which is cut.
    fn block(&self, first: [usize; MAX_AXES]) -> Block {
        Block {
            space: self.block_space(self.rows_from(&first)),
            first,
            skipped: self.space.skipped(),
            axes: self.space.lengths().len().min(self.cut + 1),
        }
    }

    /// The space of a block with some indexes along the axis that is cut.
    fn block_space(&self, rows: usize) -> Space {
        let mut lengths = [1; MAX_AXES];
        let inner = &self.space.lengths()[self.cut..];
        let lengths = &mut lengths[..inner.len()];
        lengths.copy_from_slice(inner);
        if let Some(length) = lengths.first_mut() {
            *length = rows;
        }
        Space::new(lengths, self.space.skipped() + self.cut)
    }
}

/// A block of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    space: Space,
    /// The indexes of the first element along the axes up to that which is cut.
    first: [usize; MAX_AXES],
    /// The first of these axes, and their number.
    skipped: usize,
    axes: usize,
}

impl Block {
    /// The block's elements.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The bytes from the first element of a view in the whole space to the first one in the block.
    pub fn offset(&self, view: &View) -> isize {
        Space::offset(&view.strides()[self.skipped..], &self.first[..self.axes])
    }
}
