//! The loop of kernels for arrays whose elements follow each other along different axes.
//!
//! A block of threads computes tiles: squares of the two innermost axes. If the elements of an array follow each other
//! along the outer one of these, the block first copies the array's tile to shared memory, with consecutive threads
//! reading consecutive elements. Then it computes the tile; now consecutive threads read consecutive elements of the
//! other arrays, and write consecutive elements of the outputs.
//!
//! The last element along an axis stands in for the places behind it, and nothing is stored there.

use crate::array::Array;
use crate::grid::Grid;
use crate::policy::{BLOCK_THREADS, TILE_BYTES};
use crate::strided_loop::{StridedArray, StridedLoop, moved};
use crate::writer::{Class, Operand, Writer, ptx};

/// The name of a tile in shared memory, before its number.
const TILE: &str = "tile_";

/// Returns the side of tiles for the total size of an element of each array that is copied there, in bytes; `None` if
/// it is too large.
#[must_use]
pub const fn tile_side(element_bytes: usize) -> Option<usize> {
    match element_bytes {
        0 => None,
        _ if 64 * pitch(64) * element_bytes <= TILE_BYTES => Some(64),
        _ if 32 * pitch(32) * element_bytes <= TILE_BYTES => Some(32),
        _ => None,
    }
}

/// The elements from a row of a tile to the next: threads that access a column access all banks of shared memory.
const fn pitch(side: usize) -> usize {
    side + 1
}

/// Writes the declarations of the tiles of arrays.
pub(crate) fn declare(text: &mut String, arrays: impl Iterator<Item = Array>, side: usize) {
    for (number, array) in arrays.enumerate() {
        let bytes = (side * pitch(side)) << array.shift();
        text.push_str(&format!(".shared .align 16 .b8 {TILE}{number}[{bytes}];\n"));
    }
}

/// Writes the loop over `n` tiles with sides of this many elements. `lengths` are the lengths of the two innermost axes.
pub(crate) fn write(
    strided: &StridedLoop<'_>, grid: &Grid, n: Operand, side: usize, lengths: [Operand; 2],
) {
    let w = strided.w;
    let (tile, in_block, shift) = (w.register(Class::B64), grid.in_block(), side.ilog2() as usize);
    let fast = ptx!(w, in_block, last = side - 1; "and.b32 fast, in_block, last");
    let slow = ptx!(w, in_block, shift; "shr.u32 slow, in_block, shift");
    let tiles = Tiles { strided, w, side, fast, slow, lengths };
    grid.for_each_of_blocks(w, tile, n, || {
        tiles.compute(&tiles.at(ptx!(w, tile; "cvt.u32.u64 number, tile")));
    });
}

/// A thread's part of tiles.
struct Tiles<'t> {
    strided: &'t StridedLoop<'t>,
    w: &'t Writer<'t>,
    side: usize,
    /// The thread's place along the axis on which consecutive threads have consecutive elements, and its first row
    /// along the other one.
    fast: Operand,
    slow: Operand,
    /// The lengths of the two axes, the outer one first.
    lengths: [Operand; 2],
}

/// A tile.
struct Tile {
    /// The addresses of the tile's first element in the inputs and in the outputs.
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
    /// The last places along the two axes at which the tile has elements.
    last: [Operand; 2],
}

/// A place in a tile along the two axes, the outer one first.
type Place = [Operand; 2];

impl Tiles<'_> {
    /// The rows of a tile that the threads of a block compute at once.
    const fn rows(&self) -> usize {
        BLOCK_THREADS as usize / self.side
    }

    /// The row of a thread after some passes of all threads.
    fn behind(&self, row: Operand, passes: usize) -> Operand {
        match passes {
            0 => row,
            _ => ptx!(self.w, row, rows = passes * self.rows(); "add.s32 behind, row, rows"),
        }
    }

    /// The tile of a number.
    fn at(&self, number: Operand) -> Tile {
        let (w, mut indexes) = (self.w, self.strided.indexes(number));
        let (side, shift) = (self.side, self.side.ilog2() as usize);
        let inner = indexes.len() - 2;
        let last = [0, 1].map(|axis| {
            let index =
                ptx!(w, index = indexes[inner + axis], shift; "shl.b64 first, index, shift");
            indexes[inner + axis] = index;
            ptx!(w, length = self.lengths[axis], index, side; "
                sub.s64 left, length, index
                min.u64 left, left, side
                cvt.u32.u64 count, left
                add.s32 last, count, 0xFFFFFFFF
            ")
        });
        let first = |of: &StridedArray| moved(w, of.array.address(), &indexes, &of.strides);
        let inputs = self.strided.inputs.iter().map(first).collect();
        Tile { inputs, outputs: self.strided.outputs.iter().map(first).collect(), last }
    }

    /// The place, or the last one in its direction at which the tile has an element.
    fn within(&self, tile: &Tile, place: Place) -> Place {
        let least = |axis: usize| ptx!(self.w, place = place[axis], last = tile.last[axis]; "min.s32 within, place, last");
        [least(0), least(1)]
    }

    /// The address of an array's element at a place in a tile, whose first element is at `first`. The axis along which
    /// the thread stays comes before the other one.
    fn address(
        &self, first: Operand, of: &StridedArray, place: Place, axes: [usize; 2],
    ) -> Operand {
        let strides = &of.strides[of.strides.len() - 2..];
        axes.into_iter().fold(first, |address, axis| {
            ptx!(self.w, address, place = place[axis], stride = strides[axis]; "
                cvt.u64.u32 index, place; mul.lo.s64 offset, index, stride
                add.s64 moved, address, offset
            ")
        })
    }

    fn compute(&self, tile: &Tile) {
        let inputs = self.strided.inputs.iter().zip(&tile.inputs);
        let copied = inputs.filter(|(input, _)| input.is_across).enumerate();
        for (number, (input, first)) in copied {
            self.copy(tile, number, input, *first);
        }
        let (w, items) = (self.w, self.strided.variant.items);
        let again = w.label();
        let row = ptx!(w, slow = self.slow, again; "bar.sync 0; mov.b32 row, slow; again:");
        self.compute_rows(tile, row, items);
        // The second barrier precedes the copies of the next tiles.
        ptx!(w, row, rows = items * self.rows(), side = self.side, again; "
            add.s32 row, row, rows
            setp.lt.s32 are_left, row, side
            @are_left bra again
            bar.sync 0
        ");
    }

    /// Copies a tile of an array to shared memory: consecutive threads copy elements along the outer axis.
    fn copy(&self, tile: &Tile, number: usize, input: &StridedArray, first: Operand) {
        let load = |passes: usize| {
            let place = self.within(tile, [self.fast, self.behind(self.slow, passes)]);
            let address = self.address(first, input, place, [0, 1]);
            let raw = input.array.registers(self.w, 1);
            input.array.load_to(self.w, address, &raw);
            raw[0]
        };
        let raw: Vec<Operand> = (0..self.side / self.rows()).map(load).collect();
        let to = self.shared(number, input, [self.fast, self.slow]);
        for (passes, &raw) in raw.iter().enumerate() {
            let offset = ((passes * self.rows()) as u32) << input.array.shift();
            input.array.store_shared(self.w, to, offset, raw);
        }
    }

    /// The address in shared memory of the element at a place in a tile.
    fn shared(&self, number: usize, input: &StridedArray, [row, column]: Place) -> Operand {
        let (pitch, shift) = (pitch(self.side), input.array.shift() as usize);
        ptx!(self.w, row, column, pitch, shift, tile = Operand::Numbered(&TILE, number as u32); "
            mul.lo.s32 first, row, pitch
            add.s32 element, first, column
            shl.b32 offset, element, shift
            mov.b32 start, tile
            add.s32 address, start, offset
        ")
    }

    /// Computes elements of several rows from one on, each as far from the last as threads of a block compute rows.
    fn compute_rows(&self, tile: &Tile, row: Operand, items: usize) {
        let w = self.w;
        let load = |rows: &[Operand]| {
            let (mut firsts, mut number) = (tile.inputs.iter(), 0);
            self.strided.loaded(|input| {
                let first = firsts.next().copied().unwrap_or(row);
                let values = rows.iter().map(|row| match input.is_across {
                    true => {
                        let place = self.shared(number, input, [*row, self.fast]);
                        input.array.load_shared(w, place)
                    }
                    false => {
                        let place = self.within(tile, [*row, self.fast]);
                        let address = self.address(first, input, place, [1, 0]);
                        input.array.load_from(w, address, 1)[0]
                    }
                });
                let values = values.collect();
                number += usize::from(input.is_across);
                values
            })
        };
        let rows: Vec<Operand> = (0..items).map(|item| self.behind(row, item)).collect();
        let results = self.strided.elements.results_from(items, load(&rows), &|item| {
            let lines = "mul.lo.s32 distance, item, rows; add.s32 behind, row, distance";
            load(&[ptx!(w, item, rows = self.rows(), row; lines)])
        });
        let is_there = |place, axis: usize| ptx!(w, place, last = tile.last[axis]; "setp.le.s32 is_there, place, last");
        let is_inner = is_there(self.fast, 1);
        for (&row, of_item) in rows.iter().zip(&results) {
            let skipped = w.label();
            ptx!(w, is_inner, is_outer = is_there(row, 0), skipped; "
                and.pred is_inside, is_inner, is_outer
                not.pred is_outside, is_inside
                @is_outside bra skipped
            ");
            self.strided.for_each_output(|number, output, is_canonical| {
                let place = [row, self.fast];
                let address = self.address(tile.outputs[number], output, place, [1, 0]);
                output.array.store(w, address, &[of_item[number]], is_canonical);
            });
            ptx!(w, skipped; "skipped:");
        }
    }
}
