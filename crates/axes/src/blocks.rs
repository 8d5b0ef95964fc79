//! Partitions a space into blocks, the units of iteration.

use crate::MAX_AXES;
use crate::axes::View;
use crate::space::Space;
use std::ops::Range;

/// A partition of a space into blocks, in the order of the elements. A block has whole rows of the innermost axes, up
/// to a maximum number of elements, or is part of a row that is longer. It has one index along each outer axis.
///
/// A core works on blocks of a few thousand elements; a GPU receives blocks of millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    space: Space,
    /// The axis that blocks divide, or the number of axes if they divide none.
    cut: usize,
    /// The length of a block along that axis.
    rows: usize,
    /// The number of blocks along that axis.
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

    /// The number of elements of a full block. Blocks at the end of the divided axis may have fewer.
    pub fn elements(&self) -> usize {
        self.full().elements()
    }

    /// The space of a full block. Every block accesses each view in the same manner.
    pub fn full(&self) -> Space {
        self.block_space(self.rows)
    }

    /// True if neighbouring blocks along the divided axis have the same elements of the view.
    pub fn repeats(&self, view: &View) -> bool {
        self.space.strides(view).get(self.cut).is_none_or(|stride| *stride == 0)
    }

    /// Returns the number of the first block that begins at or after an element, in the order of iteration. So disjoint
    /// ranges of elements have disjoint ranges of blocks.
    pub fn beginning_at(&self, element: usize) -> usize {
        let lengths = &self.space.lengths()[self.cut..];
        let row: usize = lengths.iter().skip(1).product();
        let all = lengths.first().map_or(1, |length| length * row);
        if element >= self.space.elements() {
            return self.count;
        }
        element / all * self.along + (element % all).div_ceil(row * self.rows)
    }

    /// The number of a block's first element, in the order of iteration.
    pub fn first_element(&self, number: usize) -> usize {
        let lengths = &self.space.lengths()[self.cut..];
        let row: usize = lengths.iter().skip(1).product();
        let all = lengths.first().map_or(1, |length| length * row);
        number / self.along * all + number % self.along * self.rows * row
    }

    /// Iterates over a range of blocks.
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

    /// Returns block `number`.
    ///
    /// # Panics
    /// If `number` is not below [`Blocks::count`].
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

    /// Replaces a block by the next one, or the last block by the first.
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

    /// The length along the divided axis of a block, given by the indexes of its first element.
    fn rows_from(&self, first: &[usize; MAX_AXES]) -> usize {
        let lengths = self.space.lengths();
        self.rows.min(lengths.get(self.cut).map_or(1, |length| length - first[self.cut]))
    }

    /// The block with these indexes of its first element along the axes up to the divided one.
    fn block(&self, first: [usize; MAX_AXES]) -> Block {
        Block {
            space: self.block_space(self.rows_from(&first)),
            first,
            skipped: self.space.skipped(),
            axes: self.space.lengths().len().min(self.cut + 1),
        }
    }

    /// The space of a block with `rows` indexes along the divided axis.
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
    /// The indexes of the first element along the axes up to the divided one.
    first: [usize; MAX_AXES],
    /// The number of the first of these axes, and their count.
    skipped: usize,
    axes: usize,
}

impl Block {
    /// The block's elements.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The distance in bytes from a view's first element in the whole space to its first element in the block.
    pub fn offset(&self, view: &View) -> isize {
        Space::offset(&view.strides()[self.skipped..], &self.first[..self.axes])
    }
}
