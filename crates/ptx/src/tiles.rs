//! Kernels for arrays whose elements follow each other along different axes.
//!
//! A block of threads takes tiles: squares of the two innermost axes. Of the arrays whose elements follow each other
//! along the outer one of these, it copies a tile to shared memory, where consecutive threads read consecutive
//! elements; and then computes the tile, where they do so of the other arrays and write the outputs.
//!
//! The places of elements behind the end of an axis are those of the last one there, and nothing is stored for them.

use crate::BLOCK_THREADS;
use crate::elements::Array;
use crate::grid::Grid;
use crate::policy::POLICY;
use crate::strided::{Strided, Walk};
use crate::writer::{Class, Operand, Writer};

/// Shared memory for tiles: what each device has for a block, but for the tables of functions.
const SHARED_BYTES: usize = POLICY.tile_bytes;

/// The name of a tile in shared memory, before its number.
const TILE: &str = "tile_";

/// Returns the side of tiles for the total size of an element of each array that is copied there, in bytes; `None` if
/// it is too large.
#[must_use]
pub const fn tile_side(element_bytes: usize) -> Option<usize> {
    match element_bytes {
        0 => None,
        _ if 64 * pitch(64) * element_bytes <= SHARED_BYTES => Some(64),
        _ if 32 * pitch(32) * element_bytes <= SHARED_BYTES => Some(32),
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

/// A thread's part of tiles.
struct Tiles<'t> {
    walk: &'t Walk<'t>,
    writer: &'t Writer,
    side: usize,
    /// The thread's place along the axis on which consecutive threads take consecutive elements, and its first row
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

impl Walk<'_> {
    /// Computes `n` tiles with sides of this many elements.
    pub(crate) fn tiles(&self, grid: &Grid, n: Operand, side: usize, lengths: [Operand; 2]) {
        let writer = self.writer();
        let tile = writer.register(Class::B64);
        let shift = Operand::b32(side.ilog2() as i32);
        let mask = Operand::b32(side as i32 - 1);
        let fast = writer.emit("and.b32", Class::B32, &[grid.in_block(), mask]);
        let slow = writer.emit("shr.u32", Class::B32, &[grid.in_block(), shift]);
        let tiles = Tiles { walk: self, writer, side, fast, slow, lengths };
        grid.for_each_of_blocks(writer, tile, n, || {
            let number = writer.emit("cvt.u32.u64", Class::B32, &[tile]);
            tiles.compute(&tiles.at(number));
        });
    }
}

impl Tiles<'_> {
    fn add_64(&self, a: Operand, b: Operand) -> Operand {
        self.writer.emit("add.s64", Class::B64, &[a, b])
    }

    fn add(&self, a: Operand, b: Operand) -> Operand {
        self.writer.emit("add.s32", Class::B32, &[a, b])
    }

    /// The rows of a tile that the threads of a block take at once.
    const fn rows(&self) -> usize {
        BLOCK_THREADS as usize / self.side
    }

    /// A row that is some turns of all threads behind another one.
    fn behind(&self, row: Operand, turns: usize) -> Operand {
        match turns {
            0 => row,
            _ => self.add(row, Operand::b32((turns * self.rows()) as i32)),
        }
    }

    /// The tile of a number.
    fn at(&self, number: Operand) -> Tile {
        let (writer, mut indexes) = (self.writer, self.walk.indexes(number));
        let shift = Operand::b32(self.side.ilog2() as i32);
        let inner = indexes.len() - 2;
        let last = [0, 1].map(|axis| {
            let index: &mut Operand = &mut indexes[inner + axis];
            *index = writer.emit("shl.b64", Class::B64, &[*index, shift]);
            let left = writer.emit("sub.s64", Class::B64, &[self.lengths[axis], *index]);
            let left = writer.emit("min.u64", Class::B64, &[left, Operand::b64(self.side as i64)]);
            let left = writer.emit("cvt.u32.u64", Class::B32, &[left]);
            self.add(left, Operand::b32(-1))
        });
        let first = |strided: &Strided| {
            let axes = indexes.iter().zip(strided.strides());
            axes.fold(strided.array().address(), |place, (index, stride)| {
                self.add_64(place, writer.emit("mul.lo.s64", Class::B64, &[*index, *stride]))
            })
        };
        let inputs = self.walk.inputs().iter().map(first).collect();
        Tile { inputs, outputs: self.walk.outputs().iter().map(first).collect(), last }
    }

    /// The place, or the last one in its direction at which the tile has an element.
    fn within(&self, tile: &Tile, place: Place) -> Place {
        let least =
            |axis: usize| self.writer.emit("min.s32", Class::B32, &[place[axis], tile.last[axis]]);
        [least(0), least(1)]
    }

    /// The address of an array's element at a place in a tile, whose first element is at `first`. The axis along which
    /// the thread stays comes before the other one.
    fn address(
        &self, first: Operand, strided: &Strided, place: Place, axes: [usize; 2],
    ) -> Operand {
        let strides = &strided.strides()[strided.strides().len() - 2..];
        axes.into_iter().fold(first, |address, axis| {
            let index = self.writer.emit("cvt.u64.u32", Class::B64, &[place[axis]]);
            self.add_64(
                address,
                self.writer.emit("mul.lo.s64", Class::B64, &[index, strides[axis]]),
            )
        })
    }

    fn compute(&self, tile: &Tile) {
        let inputs = self.walk.inputs().iter().zip(&tile.inputs);
        let copied = inputs.filter(|(input, _)| input.is_across()).enumerate();
        for (number, (input, first)) in copied {
            self.copy(tile, number, input, *first);
        }
        self.writer.line("bar.sync 0");
        let (writer, lanes) = (self.writer, self.walk.lanes());
        let row = writer.emit("mov.b32", Class::B32, &[self.slow]);
        let again = writer.label();
        writer.place(again);
        self.compute_rows(tile, row, lanes);
        writer.set("add.s32", row, &[row, Operand::b32((lanes * self.rows()) as i32)]);
        let side = Operand::b32(self.side as i32);
        writer.jump_if(writer.emit("setp.lt.s32", Class::Predicate, &[row, side]), again);
        // Before the next tiles are copied.
        writer.line("bar.sync 0");
    }

    /// Copies a tile of an array to shared memory: consecutive threads take elements along the outer axis.
    fn copy(&self, tile: &Tile, number: usize, input: &Strided, first: Operand) {
        let load = |turns: usize| {
            let place = self.within(tile, [self.fast, self.behind(self.slow, turns)]);
            let address = self.address(first, input, place, [0, 1]);
            input.array().load_raw(self.writer, address)
        };
        let raw: Vec<Operand> = (0..self.side / self.rows()).map(load).collect();
        let to = self.shared(number, input, [self.fast, self.slow]);
        for (turns, &raw) in raw.iter().enumerate() {
            let offset = ((turns * self.rows()) as u32) << input.array().shift();
            input.array().store_shared(self.writer, to, offset, raw);
        }
    }

    /// The address in shared memory of the element at a place in a tile.
    fn shared(&self, number: usize, input: &Strided, [row, column]: Place) -> Operand {
        let writer = self.writer;
        let pitch = Operand::b32(pitch(self.side) as i32);
        let row = writer.emit("mul.lo.s32", Class::B32, &[row, pitch]);
        let shift = Operand::b32(input.array().shift() as i32);
        let offset = writer.emit("shl.b32", Class::B32, &[self.add(row, column), shift]);
        let tile = writer.emit("mov.b32", Class::B32, &[Operand::Numbered(&TILE, number as u32)]);
        self.add(tile, offset)
    }

    /// Computes elements of several rows from one on, each as far from the last as threads of a block take rows.
    fn compute_rows(&self, tile: &Tile, row: Operand, lanes: usize) {
        let writer = self.writer;
        let load = |rows: &[Operand]| {
            let (mut firsts, mut number) = (tile.inputs.iter(), 0);
            self.walk.loaded(|input| {
                let first = firsts.next().copied().unwrap_or(row);
                let values = rows.iter().map(|row| match input.is_across() {
                    true => {
                        let place = self.shared(number, input, [*row, self.fast]);
                        input.array().load_shared(writer, place)
                    }
                    false => {
                        let place = self.within(tile, [*row, self.fast]);
                        let address = self.address(first, input, place, [1, 0]);
                        input.array().load_from(writer, address, 1)[0]
                    }
                });
                let values = values.collect();
                number += usize::from(input.is_across());
                values
            })
        };
        let rows: Vec<Operand> = (0..lanes).map(|lane| self.behind(row, lane)).collect();
        let results = self.walk.elements().results_from(lanes, load(&rows), &|lane| {
            let step = Operand::b32(self.rows() as i32);
            let distance = writer.emit("mul.lo.s32", Class::B32, &[lane, step]);
            load(&[self.add(row, distance)])
        });
        let is_there = |axis: usize, place| {
            writer.emit("setp.le.s32", Class::Predicate, &[place, tile.last[axis]])
        };
        let is_inner = is_there(1, self.fast);
        for (row, of_lane) in rows.iter().zip(&results) {
            let skipped = writer.label();
            let both = [is_inner, is_there(0, *row)];
            let is_inside = writer.emit("and.pred", Class::Predicate, &both);
            writer.jump_if(writer.emit("not.pred", Class::Predicate, &[is_inside]), skipped);
            self.walk.for_each_output(|number, output, is_canonical| {
                let first = tile.outputs[number];
                let address = self.address(first, output, [*row, self.fast], [1, 0]);
                output.array().store_to(writer, address, &[of_lane[number]], is_canonical);
            });
            writer.place(skipped);
        }
    }
}
