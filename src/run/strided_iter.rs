//! Runs elementwise expressions on arrays that are not contiguous.

use crate::call::chunk::Chunk;
use crate::call::{Binding, Call, MAX_ARRAYS, MAX_INPUTS, MAX_OUTPUTS};
use crate::cpu::expression::{BlockProgram, GRAIN, Range, Scratch};
use crate::cpu::{Grid, gather, scatter};
use crate::policy::cores;
use crate::process::memory;
use arrayvec::ArrayVec;
use gpuvec_axes::{Access, Block, Blocks, Inner, Space, View};
use std::collections::TryReserveError;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Iterates a program over arrays of any strides, in blocks of whole rows. Arrays that are contiguous in a block are
/// read and written in place. Elements of other arrays are copied.
pub(super) struct StridedIter<'a> {
    program: &'a BlockProgram,
    bindings: &'a [Binding],
    blocks: Blocks,
    inputs: &'a [View],
    outputs: &'a [View],
}

impl<'a> StridedIter<'a> {
    /// The iteration for an elementwise call. `None` if the call has no strides.
    pub(super) fn new(program: &'a BlockProgram, call: &Call<'a>) -> Option<Self> {
        let (strides, bindings) = (call.strides()?, call.task().bindings());
        let (inputs, outputs) = strides.views().split_at(call.inputs().len());
        let blocks = blocks(strides.axes().kept(), inputs, outputs);
        Some(StridedIter { program, bindings, blocks, inputs, outputs })
    }

    /// Computes the blocks that begin in chunks of the elements, in the order of iteration.
    pub(super) fn compute(
        &self, chunks: &mut dyn Iterator<Item = Chunk>,
    ) -> Result<(), TryReserveError> {
        let mut scratch = self.program.scratch(self.blocks.elements())?;
        let [mut inputs, mut outputs] =
            [Copies::new(self, self.inputs)?, Copies::new(self, self.outputs)?];
        for chunk in chunks {
            let ends = [chunk.start(), chunk.start() + chunk.len()];
            let [first, end] = ends.map(|element| self.blocks.beginning_at(element));
            if first == end {
                continue;
            }
            let mut block = self.blocks.at(first);
            for _ in first..end {
                self.compute_block(&block, &mut scratch, &mut inputs, &mut outputs);
                self.blocks.advance(&mut block);
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
        // SAFETY: the call promises the elements of the block, which no other thread has; copies have room for them. An
        // output is exactly an input, and then has the same access and so the same memory or a copy, or overlaps none.
        let range =
            unsafe { Range::new(self.bindings, &arrays, &results, block.space().elements()) };
        self.program.map(scratch, range.with_uniform(inputs.uniform));
        (0..self.outputs.len()).for_each(|output| outputs.scatter(output, block));
    }
}

/// Copies of a block's elements, for the arrays that need a copy.
struct Copies<'a> {
    views: &'a [View],
    /// The copy of each array that needs one.
    copies: ArrayVec<Option<Copied>, MAX_ARRAYS>,
    /// A bit for each array that has one element for a block, and so a short copy.
    uniform: u64,
    /// The memory of all copies.
    words: Vec<MaybeUninit<u64>>,
}

/// A copy of elements of an array.
struct Copied {
    /// The index of the first word.
    first: usize,
    /// The offset and the number of the copied elements. A block with the same offset has the same elements.
    offset: isize,
    elements: usize,
}

impl<'a> Copies<'a> {
    fn new(walk: &StridedIter<'_>, views: &'a [View]) -> Result<Self, TryReserveError> {
        let room = walk.blocks.elements().max(GRAIN);
        let (mut count, mut uniform) = (0, 0);
        let copied = |(number, view): (usize, &View)| {
            let access = walk.blocks.full().access(view);
            uniform |= u64::from(access == Access::Uniform) << number;
            (access != Access::Direct).then(|| {
                count += 1;
                Copied { first: (count - 1) * room, offset: 0, elements: 0 }
            })
        };
        let copies = views.iter().enumerate().map(copied).collect();
        let words = memory::filled(MaybeUninit::uninit(), count * room)?;
        Ok(Copies { views, copies, uniform, words })
    }

    /// The address of an array's elements, or of their copy, which is made now if the array needs one.
    fn gathered(&mut self, number: usize, block: &Block) -> *mut c_void {
        let view = &self.views[number];
        let (offset, elements) = (block.offset(view), block.space().elements());
        let Some(copied) = &mut self.copies[number] else { return address(view, offset).cast() };
        let place: *mut u64 = self.words[copied.first].as_mut_ptr();
        if copied.offset != offset || copied.elements < elements {
            (copied.offset, copied.elements) = (offset, elements);
            let grid = match self.uniform >> number & 1 {
                0 => Grid::of(block.space(), view),
                _ => Grid::new(&[GRAIN], &[0], view.element_bytes),
            };
            // SAFETY: the call promises the elements; the copy has words for a block, or for GRAIN elements.
            unsafe { gather(grid, address(view, offset), place.cast()) };
        }
        place.cast()
    }

    /// The address of an array's elements, or the place for their copy.
    fn place(&mut self, number: usize, block: &Block) -> *mut c_void {
        let view = &self.views[number];
        match &self.copies[number] {
            Some(copied) => (&raw mut self.words[copied.first]).cast(),
            None => address(view, block.offset(view)).cast(),
        }
    }

    /// Copies a block's elements from their copy to the array, if it has one.
    fn scatter(&mut self, number: usize, block: &Block) {
        if self.copies[number].is_some() {
            let (place, view) = (self.place(number, block), &self.views[number]);
            let to = address(view, block.offset(view));
            // SAFETY: the call promises the elements, which no other thread has; the program has written the copy.
            unsafe { scatter(Grid::of(block.space(), view), place.cast(), to) };
        }
    }
}

/// The blocks of an iteration. Their elements and copies fit into a core's first cache.
fn blocks(space: &Space, inputs: &[View], outputs: &[View]) -> Blocks {
    let views = || inputs.iter().chain(outputs);
    let whole = space.blocks(cores::WHOLE_BLOCK);
    if views().all(|view| whole.full().access(view) != Access::Gathered) {
        return whole;
    }
    let touched = |view: &View| {
        let stride = space.strides(view).last().map_or(0, |stride| stride.unsigned_abs());
        match space.inner(view) {
            Inner::Unit | Inner::Zero => view.element_bytes,
            Inner::Strided => view.element_bytes + stride.min(cores::CACHE_LINE),
        }
    };
    let [least, most] = cores::STRIDED_BLOCKS;
    let elements = cores::STRIDED_BLOCK_BYTES / views().map(touched).sum::<usize>();
    let of_rows = views().map(|view| elements_of_rows(space, view)).max().unwrap_or(0);
    let elements = (elements - elements % GRAIN).clamp(least, most);
    space.blocks(elements.max(of_rows.min(cores::TRANSPOSED_BLOCK)))
}

/// The elements of a block with `cores::TRANSPOSED_ROWS` rows, if a view's nearest elements are in different rows; else
/// 0.
fn elements_of_rows(space: &Space, view: &View) -> usize {
    let strides = space.strides(view).iter().map(|stride| stride.unsigned_abs());
    let mut axes = space.lengths().iter().zip(strides).rev();
    let Some((&(mut row), mut least)) = axes.next() else { return 0 };
    let mut elements = 0;
    for (length, stride) in axes {
        if stride != 0 && stride < least {
            (least, elements) = (stride, row * length.min(&cores::TRANSPOSED_ROWS));
        }
        row *= length;
    }
    elements
}

/// The address of an element of an array.
pub(super) fn address(view: &View, offset: isize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(view.first.wrapping_add_signed(offset))
}
