//! The work of an elementwise expression on arrays that are not contiguous.

use crate::call::chunk::Chunk;
use crate::call::{Binding, MAX_ARRAYS, MAX_INPUTS, MAX_OUTPUTS};
use crate::cpu::expression::{BlockProgram, Range, Scratch};
use crate::cpu::{Grid, gather, scatter};
use crate::tuning::STRIDED_BLOCK;
use arrayvec::ArrayVec;
use gpuvec_axes::{Access, Axes, Block, Blocks, View};
use std::collections::TryReserveError;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// The walk of a program over arrays of any strides, in blocks of whole rows. Arrays that are contiguous in a block
/// are read and written where they are; of others, the elements are copied.
pub(super) struct Walk<'a> {
    program: &'a BlockProgram,
    bindings: &'a [Binding],
    blocks: Blocks,
    inputs: &'a [View],
    outputs: &'a [View],
}

impl<'a> Walk<'a> {
    /// The walk over the kept axes of a call that reduces none. The views are those of the arrays among the
    /// bindings, and those of the program's outputs.
    ///
    /// # Safety
    /// The promise of a call: the inputs are readable and the outputs writable where the views lead, until the walk
    /// ends; no other thread changes them meanwhile. The bindings are as the program declares them.
    pub(super) unsafe fn new(
        program: &'a BlockProgram, bindings: &'a [Binding], axes: &Axes, inputs: &'a [View],
        outputs: &'a [View],
    ) -> Self {
        Walk { program, bindings, blocks: axes.kept().blocks(STRIDED_BLOCK), inputs, outputs }
    }

    /// Computes the blocks that begin in chunks of the elements, in the order of the walk.
    pub(super) fn compute(
        &self, chunks: &mut dyn Iterator<Item = Chunk>,
    ) -> Result<(), TryReserveError> {
        let mut scratch = self.program.scratch(self.blocks.elements())?;
        let [mut inputs, mut outputs] =
            [Copies::new(self, self.inputs)?, Copies::new(self, self.outputs)?];
        for chunk in chunks {
            let ends = [chunk.start(), chunk.start() + chunk.len()];
            let [first, end] = ends.map(|element| self.blocks.beginning_at(element));
            for block in self.blocks.walk(first..end) {
                self.compute_block(&block, &mut scratch, &mut inputs, &mut outputs);
            }
        }
        Ok(())
    }

    fn compute_block(
        &self, block: &Block, scratch: &mut Scratch, inputs: &mut Copies<'_>,
        outputs: &mut Copies<'_>,
    ) {
        let arrays: ArrayVec<*const c_void, MAX_INPUTS> = (0..self.inputs.len())
            .map(|input| inputs.gathered(input, block).cast_const())
            .collect();
        let results: ArrayVec<*mut c_void, MAX_OUTPUTS> =
            (0..self.outputs.len()).map(|output| outputs.place(output, block)).collect();
        // SAFETY: whoever made the walk promises the elements of the block, which no other thread has; copies have
        // room for them. An output is exactly an input or overlaps none: their access is the same, and so they are
        // the same memory, or a copy each.
        let range =
            unsafe { Range::new(self.bindings, &arrays, &results, block.space().elements()) };
        self.program.map(scratch, range);
        (0..self.outputs.len()).for_each(|output| outputs.scatter(output, block));
    }
}

/// Copies of a block's elements, of the arrays that need one.
struct Copies<'a> {
    views: &'a [View],
    /// For each array its copy, if it needs one.
    copies: ArrayVec<Option<Copied>, MAX_ARRAYS>,
    /// The memory of all copies.
    words: Vec<MaybeUninit<u64>>,
}

/// A copy of elements of an array.
struct Copied {
    /// The first of its words.
    first: usize,
    /// The offset of the block that it holds, and the number of elements. The blocks from an offset on are alike.
    offset: isize,
    elements: usize,
}

impl<'a> Copies<'a> {
    fn new(walk: &Walk<'_>, views: &'a [View]) -> Result<Self, TryReserveError> {
        let mut count = 0;
        let mut copied = |view: &View| {
            let is_needed = walk.blocks.full().access(view) != Access::Direct;
            is_needed.then(|| {
                count += 1;
                Copied { first: (count - 1) * walk.blocks.elements(), offset: 0, elements: 0 }
            })
        };
        let copies = views.iter().map(&mut copied).collect();
        let mut words = Vec::new();
        words.try_reserve_exact(count * walk.blocks.elements())?;
        words.resize(count * walk.blocks.elements(), MaybeUninit::uninit());
        Ok(Copies { views, copies, words })
    }

    /// The address of an array's elements, which are copied if need be.
    fn gathered(&mut self, number: usize, block: &Block) -> *mut c_void {
        let (place, elements) = (self.place(number, block), block.space().elements());
        let view = &self.views[number];
        let offset = block.offset(view);
        if let Some(copied) = &mut self.copies[number]
            && (copied.offset != offset || copied.elements < elements)
        {
            (copied.offset, copied.elements) = (offset, elements);
            // SAFETY: whoever made the walk promises the elements; the copy has room for those of a block, in
            // words.
            unsafe { gather(Grid::of(block.space(), view), address(view, offset), place.cast()) };
        }
        place
    }

    /// The address of an array's elements, or of the copy of them that it needs.
    fn place(&mut self, number: usize, block: &Block) -> *mut c_void {
        let view = &self.views[number];
        match &self.copies[number] {
            Some(copied) => (&raw mut self.words[copied.first]).cast(),
            None => address(view, block.offset(view)).cast(),
        }
    }

    /// Copies a block's elements to where an array has them, if need be.
    fn scatter(&mut self, number: usize, block: &Block) {
        if self.copies[number].is_some() {
            let (place, view) = (self.place(number, block), &self.views[number]);
            let to = address(view, block.offset(view));
            // SAFETY: whoever made the walk promises the elements, which no other thread has; the program has
            // written the copies.
            unsafe { scatter(Grid::of(block.space(), view), place.cast(), to) };
        }
    }
}

/// The address of an element of an array.
pub(super) fn address(view: &View, offset: isize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(view.first.wrapping_add_signed(offset))
}
