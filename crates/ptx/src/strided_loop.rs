//! The loop of an elementwise kernel over arrays of any strides.
//!
//! A thread divides the number of an element, or of a vector, by the lengths of the axes, from the innermost outwards. It
//! multiplies the indexes by each array's strides, and accesses the elements there. Numbers have 32 bits, addresses 64.
//!
//! The quotient by a length is `(high word of (n * multiplier) + n) >> shift`.

use crate::array::{Array, vector};
use crate::elements::{Elements, Loaded};
use crate::grid::Grid;
use crate::policy::BLOCK_THREADS;
use crate::writer::{Class, Operand, Writer, ptx};
use gpuvec_expr::Program;

/// A variant of a program's kernel, for arrays of any strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The number of axes, at least 1.
    pub axes: usize,
    /// The elements that a thread computes at once, a power of two.
    pub items: usize,
    /// Which elements these are.
    pub order: Order,
}

/// The elements that a thread computes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Vectors: elements that follow each other along the innermost axis, whose length is a multiple of theirs. There,
    /// the elements of each array follow each other in memory, and the first of a vector is aligned to
    /// [`vector_bytes`]; except for the declared inputs whose bits are set, which have one element for all.
    Vectors {
        /// A bit for each such input, the lowest for the first.
        broadcast: u64,
    },
    /// Vectors of elements that follow each other in C order. In each output, and in the declared inputs whose bits are
    /// set, they follow each other in memory, and the first of all is aligned to [`vector_bytes`].
    Flat {
        /// A bit for each such input, the lowest for the first.
        flat: u64,
    },
    /// Elements whose numbers are [`BLOCK_THREADS`] apart, so that the threads of a warp compute consecutive ones.
    Apart,
    /// Elements of a tile, which a block of threads computes at once. There are at least two axes.
    Tiles {
        /// A bit for each declared input whose tiles are copied to shared memory, since its elements follow each
        /// other along the last axis but one.
        across: u64,
        /// The side of a tile, as [`tile_side`](crate::tile_side) returns it.
        side: usize,
    },
}

/// Returns the alignment in bytes of a vector of `items` elements.
#[must_use]
pub const fn vector_bytes(element_bytes: usize, items: usize) -> usize {
    vector(element_bytes, items) * element_bytes
}

/// The loop of a kernel over the elements.
pub(crate) struct StridedLoop<'l> {
    pub(crate) w: &'l Writer<'l>,
    pub(crate) variant: Variant,
    pub(crate) elements: &'l Elements<'l>,
    /// The length, the multiplier and the shift of each axis but the first.
    divisors: Vec<[Operand; 3]>,
    pub(crate) inputs: Vec<StridedArray>,
    pub(crate) outputs: Vec<StridedArray>,
    /// The number of the first parameter after the strides.
    pub(crate) parameters: usize,
}

/// An array with its strides.
pub(crate) struct StridedArray {
    pub(crate) array: Array,
    /// The strides along all axes or, in vectors, along all but the innermost.
    pub(crate) strides: Vec<Operand>,
    /// True if all elements of a vector are the same.
    is_broadcast: bool,
    /// True if all elements follow each other in memory.
    is_flat: bool,
    /// True if tiles are copied to shared memory.
    pub(crate) is_across: bool,
}

/// The indexes of an element, of a vector or of a tile along the axes, with 64 bits.
pub(crate) type Indexes = Vec<Operand>;

impl<'l> StridedLoop<'l> {
    pub(crate) fn new(
        program: &Program, w: &'l Writer<'l>, variant: Variant, elements: &'l Elements<'l>,
        outputs: &[Array],
    ) -> Self {
        let (axes, declared) = (variant.axes, program.inputs().len());
        let first = outputs.len();
        let divisors = divisors(w, &"p", first, axes);
        let first = first + 3 * (axes - 1);
        let (read, broadcast, flat, across) = match variant.order {
            Order::Vectors { broadcast } => (axes - 1, broadcast, 0, 0),
            Order::Flat { flat } => (axes, 0, flat, 0),
            Order::Apart => (axes, 0, 0, 0),
            Order::Tiles { across, .. } => (axes, 0, 0, across),
        };
        let strided = |array, number: usize| {
            let stride = |axis| w.parameter(&"p", first + number * axes + axis);
            let is = |bits: u64| number < declared && bits >> number & 1 != 0;
            let strides = (0..read).map(stride).collect();
            let is_flat =
                is(flat) || number >= declared && matches!(variant.order, Order::Flat { .. });
            let (is_broadcast, is_across) = (is(broadcast), is(across));
            StridedArray { array, strides, is_broadcast, is_flat, is_across }
        };
        let inputs = elements.numbered_arrays().map(|(number, array)| strided(array, number));
        let inputs = inputs.collect();
        let numbered = outputs.iter().zip(declared..);
        let outputs: Vec<StridedArray> =
            numbered.map(|(array, number)| strided(*array, number)).collect();
        let parameters = first + (declared + outputs.len()) * axes;
        StridedLoop { w, variant, elements, divisors, inputs, outputs, parameters }
    }

    /// Computes `n` vectors.
    pub(crate) fn vectors(&self, grid: &Grid, i: Operand, n: Operand) {
        grid.for_each(self.w, i, n, || self.vector(i));
    }

    fn vector(&self, number: Operand) {
        let (w, items) = (self.w, self.variant.items);
        let number = ptx!(w, number; "cvt.u32.u64 number_of, number");
        let indexes = self.indexes(number);
        let load = |input: &StridedArray| {
            let place = self.place(input, &indexes);
            match input.is_broadcast {
                true => vec![input.array.load_from(w, place, 1)[0]; items],
                false => input.array.load_from(w, place, items),
            }
        };
        let again = |input: &StridedArray, item| {
            let place = self.place(input, &indexes);
            if input.is_broadcast {
                return input.array.load_from(w, place, 1);
            }
            input.array.load_from(w, input.array.behind(w, place, item), 1)
        };
        let results = self.elements.results_from(items, self.loaded(load), &|item| {
            self.loaded(|input| again(input, item))
        });
        self.for_each_output(|number, output, is_canonical| {
            let values: Vec<Operand> = results.iter().map(|of_item| of_item[number]).collect();
            output.array.store(w, self.place(output, &indexes), &values, is_canonical);
        });
    }

    /// Computes `n` elements: several at once in whole tiles, and the others singly.
    pub(crate) fn elements(&self, grid: &Grid, i: Operand, n: Operand) {
        let (w, items) = (self.w, self.variant.items);
        if items == 1 {
            return grid.for_each(w, i, n, || self.elements_from(i, 1));
        }
        let distance = self.distance();
        let [threads, shift] = [distance, distance * items].map(|count| count.ilog2() as usize);
        let tiles = ptx!(w, n, shift; "shr.u64 tiles, n, shift");
        let count = match threads {
            0 => tiles,
            _ => ptx!(w, tiles, threads; "shl.b64 count, tiles, threads"),
        };
        grid.for_each(w, i, count, || {
            let lines = match threads {
                0 => "shl.b64 first, i, shift",
                _ => {
                    "shr.u64 tile, i, threads; shl.b64 first, tile, shift
                     and.b64 in_block, i, last; add.s64 first, first, in_block"
                }
            };
            self.elements_from(ptx!(w, i, threads, shift, last = distance - 1; lines), items);
        });
        let done = ptx!(w, tiles, shift; "shl.b64 done, tiles, shift");
        let rest = ptx!(w, n, done; "sub.s64 rest, n, done");
        grid.for_each(w, i, rest, || {
            self.elements_from(ptx!(w, i, done; "add.s64 behind, i, done"), 1);
        });
    }

    /// The distance between the numbers of elements that a thread computes at once.
    const fn distance(&self) -> usize {
        match self.variant.order {
            Order::Flat { .. } => 1,
            _ => BLOCK_THREADS as usize,
        }
    }

    /// Computes elements from a number on, which are the distance from one another.
    fn elements_from(&self, first: Operand, items: usize) {
        let (w, distance) = (self.w, self.distance());
        let first = ptx!(w, first; "cvt.u32.u64 number, first");
        let number = |apart: Operand| ptx!(w, first, apart; "add.s32 number, first, apart");
        let indexes_of = |item: usize| match item {
            0 => self.indexes(first),
            _ => self.indexes(number((item * distance).into())),
        };
        let indexes: Vec<Indexes> = (0..items).map(indexes_of).collect();
        let flat_place = |of: &StridedArray| of.array.behind(w, of.array.address(), first);
        let loaded = self.loaded(|input| match input.is_flat {
            true => input.array.load_from(w, flat_place(input), items),
            false => indexes.iter().map(|of| self.load(input, of)).collect(),
        });
        let results = self.elements.results_from(items, loaded, &|item| {
            let apart = match distance {
                1 => item,
                _ => ptx!(w, item, distance; "mul.lo.s32 apart, item, distance"),
            };
            let indexes = self.indexes(number(apart));
            self.loaded(|input| vec![self.load(input, &indexes)])
        });
        self.for_each_output(|number, output, is_canonical| {
            let values: Vec<Operand> = results.iter().map(|of_item| of_item[number]).collect();
            if output.is_flat {
                return output.array.store(w, flat_place(output), &values, is_canonical);
            }
            for (indexes, value) in indexes.iter().zip(values) {
                output.array.store(w, self.place(output, indexes), &[value], is_canonical);
            }
        });
    }

    /// Loads the element with these indexes.
    fn load(&self, input: &StridedArray, indexes: &Indexes) -> Operand {
        input.array.load_from(self.w, self.place(input, indexes), 1)[0]
    }

    /// The values that `load` returns for each input.
    pub(crate) fn loaded(&self, load: impl FnMut(&StridedArray) -> Vec<Operand>) -> Loaded {
        self.elements.loaded(self.inputs.iter().map(load))
    }

    pub(crate) fn for_each_output(&self, mut store: impl FnMut(usize, &StridedArray, bool)) {
        let outputs = self.outputs.iter().zip(self.elements.are_canonical());
        outputs.enumerate().for_each(|(number, (output, is))| store(number, output, is));
    }

    /// The indexes of the element, the vector or the tile of a number.
    pub(crate) fn indexes(&self, number: Operand) -> Indexes {
        indexes(self.w, number, &self.divisors)
    }

    /// The address in an array of the element, or of the vector, with these indexes.
    fn place(&self, of: &StridedArray, indexes: &Indexes) -> Operand {
        let place = moved(self.w, of.array.address(), indexes, &of.strides);
        match (self.variant.order, indexes.last()) {
            (Order::Vectors { .. }, Some(&inner)) if !of.is_broadcast => {
                let bytes = self.variant.items << of.array.shift();
                let lines = "mul.lo.s64 offset, inner, bytes; add.s64 address, place, offset";
                ptx!(self.w, place, inner, bytes; lines)
            }
            _ => place,
        }
    }
}

/// The parameters of the divisors of axes but the first: for each its length, a multiplier and a shift.
pub(crate) fn divisors(
    w: &Writer<'_>, letter: &'static &'static str, first: usize, axes: usize,
) -> Vec<[Operand; 3]> {
    let parameter = |number: usize| {
        let place = Operand::Numbered(letter, number as u32);
        w.load("ld.param", (".u32", Class::B32), place, 0)
    };
    (0..axes - 1).map(|axis| [0, 1, 2].map(|part| parameter(first + 3 * axis + part))).collect()
}

/// The indexes along axes of the element of a number of 32 bits, by the divisors of all axes but the first.
pub(crate) fn indexes(w: &Writer<'_>, number: Operand, divisors: &[[Operand; 3]]) -> Indexes {
    let (mut rest, mut indexes) = (number, vec![number; divisors.len() + 1]);
    for (index, &[length, multiplier, shift]) in indexes[1..].iter_mut().zip(divisors).rev() {
        let quotient = ptx!(w, rest, multiplier, shift; "
            mul.hi.u32 high, rest, multiplier
            add.s32 sum, high, rest
            shr.u32 quotient, sum, shift
        ");
        let lines = "mul.lo.s32 whole, quotient, length; sub.s32 index, rest, whole";
        *index = ptx!(w, quotient, length, rest; lines);
        rest = quotient;
    }
    indexes[0] = rest;
    indexes.into_iter().map(|index| ptx!(w, index; "cvt.u64.u32 wide, index")).collect()
}

/// An address, moved by indexes times strides.
pub(crate) fn moved(
    w: &Writer<'_>, address: Operand, indexes: &[Operand], strides: &[Operand],
) -> Operand {
    indexes.iter().zip(strides).fold(address, |place, (&index, &stride)| {
        let lines = "mul.lo.s64 offset, index, stride; add.s64 moved, place, offset";
        ptx!(w, place, index, stride; lines)
    })
}
