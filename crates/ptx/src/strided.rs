//! The kernels of elementwise programs on arrays of any strides.
//!
//! A kernel is written for a [`Variant`]: shapes and strides are parameters. A thread divides the number of a pack,
//! or of an element, by the lengths of the axes, from the innermost outwards; multiplies the indexes by each array's
//! strides; and accesses the elements there. Numbers have 32 bits, and addresses 64.
//!
//! Behind the addresses of the outputs the parameters hold:
//!
//! | parameters | hold |
//! |---|---|
//! | three for each axis but the first | its length, and the multiplier and the shift that divide by it |
//! | one for each axis, of each declared input and then of each output | the array's stride in bytes |
//! | for tiles | the lengths of the two innermost axes |
//! | then | the number of elements, of packs or of tiles: below 2^31 |
//! | | the address of the warps' completion flags, or 0 |
//!
//! The quotient by a length is `(high word of (n * multiplier) + n) >> shift`. The strides of scalars are ignored.
//! In kernels whose threads take packs, the innermost length is in packs, and the innermost strides are ignored. In
//! kernels whose blocks take tiles, the divisors of the two innermost axes are for their lengths in tiles.

use crate::elements::{Array, Elements, Loaded};
use crate::elementwise::whole;
use crate::grid::Grid;
use crate::large::Large;
use crate::policy::POLICY;
use crate::tiles;
use crate::writer::{Class, Operand, Writer};
use crate::{BLOCK_THREADS, Kernel};
use gpuvec_expr::Program;

/// A variant of a program's kernel, for arrays of any strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The number of axes, at least 1.
    pub axes: usize,
    /// The elements that a thread takes at once, a power of two.
    pub lanes: usize,
    /// Which elements these are.
    pub order: Order,
}

/// The elements that a thread takes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Packs: elements that follow each other along the innermost axis, whose length is a multiple of theirs. There,
    /// the elements of each array follow each other in memory and the first of a pack begins a vector of
    /// [`vector_bytes`]; except for the declared inputs whose bits are set, which have one element for all.
    Packs {
        /// A bit for each such input, the lowest for the first.
        uniform: u64,
    },
    /// Packs of elements that follow each other in C order. In each output, and in the declared inputs whose bits are set,
    /// they follow each other in memory and the first of all begins a vector of [`vector_bytes`].
    Flat {
        /// A bit for each such input, the lowest for the first.
        flat: u64,
    },
    /// Elements whose numbers are [`BLOCK_THREADS`] apart, so that the threads of a warp take consecutive ones.
    Apart,
    /// Elements of a tile, which a block of threads takes at once. There are at least two axes.
    Tiles {
        /// A bit for each declared input whose tiles are copied to shared memory, since its elements follow each
        /// other along the last axis but one.
        across: u64,
        /// The side of a tile: that of [`tile_side`](crate::tile_side).
        side: usize,
    },
}

/// The most elements apart that a thread takes at once: more would need too many registers for their addresses.
pub const LANES_APART: usize = POLICY.elements_apart;

/// Returns the alignment in bytes of a pack of `lanes` elements.
#[must_use]
pub const fn vector_bytes(element_bytes: usize, lanes: usize) -> usize {
    crate::elements::vector(element_bytes.ilog2(), lanes) * element_bytes
}

/// Writes a variant of a program's kernel. `packs_per_thread` is as that of the kernel for contiguous arrays.
pub(crate) fn kernel(
    name: &str, program: &Program, variant: Variant, packs_per_thread: usize,
    large: Option<&Large<'_>>,
) -> Kernel {
    // More blocks would leave too few registers for the addresses.
    const BLOCKS: u32 = POLICY.blocks_with_addresses;
    let writer = Writer::new();
    let elements = Elements::new(program, &writer, large);
    let outputs = program.outputs().iter().enumerate();
    let outputs: Vec<Array> =
        outputs.map(|(number, output)| Array::new(&writer, output.element, 'p', number)).collect();
    let walk = Walk::new(program, &writer, variant, &elements, &outputs);
    let parameter = |number| writer.load_parameter(".u64", Class::B64, 'p', number);
    let behind = match variant.order {
        Order::Tiles { .. } => walk.parameters + 2,
        _ => walk.parameters,
    };
    let (n, flags) = (parameter(behind), behind + 1);
    let grid = Grid::new(&writer);
    let i = writer.register(Class::B64);
    match variant.order {
        Order::Packs { .. } => grid.for_each(&writer, i, n, || walk.pack(i)),
        Order::Flat { .. } => walk.flat(&grid, i, n),
        Order::Apart => walk.apart(&grid, i, n),
        Order::Tiles { side, .. } => {
            let lengths = [0, 1].map(|axis| parameter(walk.parameters + axis));
            walk.tiles(&grid, n, side, lengths);
        }
    }
    grid.signal_completion(&writer, flags);
    let mut declarations = String::new();
    if let Order::Tiles { side, .. } = variant.order {
        let across = walk.inputs.iter().filter(|input| input.is_across);
        tiles::declare(&mut declarations, across.map(|input| input.array), side);
    }
    let text = whole(name, program, large, writer, &declarations, flags, BLOCKS);
    Kernel::of_text(name, text, [variant.lanes, packs_per_thread], BLOCKS)
}

/// The walk of a kernel over the elements.
pub(crate) struct Walk<'w> {
    writer: &'w Writer,
    variant: Variant,
    elements: &'w Elements<'w>,
    /// The length, the multiplier and the shift of each axis but the first.
    divisors: Vec<[Operand; 3]>,
    inputs: Vec<Strided>,
    outputs: Vec<Strided>,
    /// The number of the first parameter behind those of the strides.
    parameters: usize,
}

/// An array with its strides.
pub(crate) struct Strided {
    array: Array,
    /// Those of all axes or, where threads take packs, of all but the innermost.
    strides: Vec<Operand>,
    /// Says that all elements of a pack are the same.
    is_uniform: bool,
    /// Says that all elements follow each other in memory.
    is_flat: bool,
    /// Says that tiles are copied to shared memory.
    is_across: bool,
}

impl Strided {
    pub(crate) const fn array(&self) -> Array {
        self.array
    }

    pub(crate) fn strides(&self) -> &[Operand] {
        &self.strides
    }

    pub(crate) const fn is_across(&self) -> bool {
        self.is_across
    }
}

/// The indexes of an element, of a pack or of a tile along the axes, with 64 bits.
pub(crate) type Indexes = Vec<Operand>;

impl<'w> Walk<'w> {
    fn new(
        program: &Program, writer: &'w Writer, variant: Variant, elements: &'w Elements<'w>,
        outputs: &[Array],
    ) -> Self {
        let (axes, declared) = (variant.axes, program.inputs().len());
        let first = outputs.len();
        let divisors = divisors(writer, 'p', first, axes);
        let first = first + 3 * (axes - 1);
        let (read, uniform, flat, across) = match variant.order {
            Order::Packs { uniform } => (axes - 1, uniform, 0, 0),
            Order::Flat { flat } => (axes, 0, flat, 0),
            Order::Apart => (axes, 0, 0, 0),
            Order::Tiles { across, .. } => (axes, 0, 0, across),
        };
        let strided = |array, number: usize| {
            let stride =
                |axis| writer.load_parameter(".u64", Class::B64, 'p', first + number * axes + axis);
            let is = |bits: u64| number < declared && bits >> number & 1 != 0;
            let strides = (0..read).map(stride).collect();
            let (is_uniform, is_flat, is_across) = (is(uniform), is(flat), is(across));
            Strided { array, strides, is_uniform, is_flat, is_across }
        };
        let inputs = elements.numbered_arrays().map(|(number, array)| strided(array, number));
        let inputs = inputs.collect();
        let numbered = outputs.iter().zip(declared..);
        let outputs: Vec<Strided> =
            numbered.map(|(array, number)| strided(*array, number)).collect();
        let parameters = first + (declared + outputs.len()) * axes;
        Walk { writer, variant, elements, divisors, inputs, outputs, parameters }
    }

    pub(crate) const fn writer(&self) -> &'w Writer {
        self.writer
    }

    pub(crate) const fn elements(&self) -> &'w Elements<'w> {
        self.elements
    }

    pub(crate) const fn lanes(&self) -> usize {
        self.variant.lanes
    }

    pub(crate) fn inputs(&self) -> &[Strided] {
        &self.inputs
    }

    pub(crate) fn outputs(&self) -> &[Strided] {
        &self.outputs
    }

    /// Computes a pack.
    fn pack(&self, number: Operand) {
        let (writer, lanes) = (self.writer, self.variant.lanes);
        let number = writer.emit("cvt.u32.u64", Class::B32, &[number]);
        let indexes = self.indexes(number);
        let load = |input: &Strided| {
            let place = self.place(input, &indexes);
            match input.is_uniform {
                true => vec![input.array.load_from(writer, place, 1)[0]; lanes],
                false => input.array.load_from(writer, place, lanes),
            }
        };
        let again = |input: &Strided, lane| {
            let place = self.place(input, &indexes);
            if input.is_uniform {
                return input.array.load_from(writer, place, 1);
            }
            input.array.load_from(writer, self.behind(input, place, lane), 1)
        };
        let results = self.elements.results_from(lanes, self.loaded(load), &|lane| {
            self.loaded(|input| again(input, lane))
        });
        self.for_each_output(|number, output, is_canonical| {
            let values: Vec<Operand> = results.iter().map(|of_lane| of_lane[number]).collect();
            output.array.store_to(writer, self.place(output, &indexes), &values, is_canonical);
        });
    }

    /// Computes `n` elements: those of whole tiles, of [`BLOCK_THREADS`] threads each, at once, and the others
    /// singly.
    fn apart(&self, grid: &Grid, i: Operand, n: Operand) {
        let (writer, lanes) = (self.writer, self.variant.lanes);
        let single = |number| {
            let number = writer.emit("cvt.u32.u64", Class::B32, &[number]);
            self.elements_apart(number, 1);
        };
        if lanes == 1 {
            return grid.for_each(writer, i, n, || single(i));
        }
        let shift = Operand::b32((BLOCK_THREADS * lanes as u32).ilog2() as i32);
        let threads = Operand::b32(BLOCK_THREADS.ilog2() as i32);
        let tiles = writer.emit("shr.u64", Class::B64, &[n, shift]);
        let count = writer.emit("shl.b64", Class::B64, &[tiles, threads]);
        grid.for_each(writer, i, count, || {
            let tile = writer.emit("shr.u64", Class::B64, &[i, threads]);
            let first = writer.emit("shl.b64", Class::B64, &[tile, shift]);
            let within = Operand::b64(i64::from(BLOCK_THREADS) - 1);
            let in_block = writer.emit("and.b64", Class::B64, &[i, within]);
            let first = writer.emit("add.s64", Class::B64, &[first, in_block]);
            let first = writer.emit("cvt.u32.u64", Class::B32, &[first]);
            self.elements_apart(first, lanes);
        });
        let done = writer.emit("shl.b64", Class::B64, &[tiles, shift]);
        let rest = writer.emit("sub.s64", Class::B64, &[n, done]);
        grid.for_each(writer, i, rest, || {
            single(writer.emit("add.s64", Class::B64, &[i, done]));
        });
    }

    /// Computes elements from a number on, [`BLOCK_THREADS`] apart.
    fn elements_apart(&self, first: Operand, lanes: usize) {
        let writer = self.writer;
        let of_lane = |lane: usize| {
            let distance = Operand::b32(lane as i32 * BLOCK_THREADS as i32);
            let number = match lane {
                0 => first,
                _ => writer.emit("add.s32", Class::B32, &[first, distance]),
            };
            self.indexes(number)
        };
        let indexes: Vec<Indexes> = (0..lanes).map(of_lane).collect();
        let loaded = self.loaded(|input| indexes.iter().map(|of| self.load(input, of)).collect());
        let results = self.elements.results_from(lanes, loaded, &|lane| {
            let threads = Operand::b32(BLOCK_THREADS as i32);
            let distance = writer.emit("mul.lo.s32", Class::B32, &[lane, threads]);
            let number = writer.emit("add.s32", Class::B32, &[first, distance]);
            let indexes = self.indexes(number);
            self.loaded(|input| vec![self.load(input, &indexes)])
        });
        self.for_each_output(|number, output, is_canonical| {
            for (indexes, of_lane) in indexes.iter().zip(&results) {
                let place = self.place(output, indexes);
                output.array.store_to(writer, place, &[of_lane[number]], is_canonical);
            }
        });
    }

    /// Computes `n` elements in packs of those that follow each other, and the last ones singly.
    fn flat(&self, grid: &Grid, i: Operand, n: Operand) {
        let (writer, lanes) = (self.writer, self.variant.lanes);
        let shift = Operand::b32(lanes.ilog2() as i32);
        let packs = writer.emit("shr.u64", Class::B64, &[n, shift]);
        grid.for_each(writer, i, packs, || {
            self.elements_flat(writer.emit("shl.b64", Class::B64, &[i, shift]), lanes);
        });
        let done = writer.emit("shl.b64", Class::B64, &[packs, shift]);
        let rest = writer.emit("sub.s64", Class::B64, &[n, done]);
        grid.for_each(writer, i, rest, || {
            self.elements_flat(writer.emit("add.s64", Class::B64, &[i, done]), 1);
        });
    }

    /// Computes elements that follow each other from a number on.
    fn elements_flat(&self, first: Operand, lanes: usize) {
        let writer = self.writer;
        let first = writer.emit("cvt.u32.u64", Class::B32, &[first]);
        let number = |lane| writer.emit("add.s32", Class::B32, &[first, lane]);
        let indexes: Vec<Indexes> =
            (0..lanes).map(|lane| self.indexes(number(Operand::b32(lane as i32)))).collect();
        let place = |strided: &Strided| self.behind(strided, strided.array.address(), first);
        let loaded = self.loaded(|input| match input.is_flat {
            true => input.array.load_from(writer, place(input), lanes),
            false => indexes.iter().map(|of| self.load(input, of)).collect(),
        });
        let results = self.elements.results_from(lanes, loaded, &|lane| {
            let indexes = self.indexes(number(lane));
            self.loaded(|input| vec![self.load(input, &indexes)])
        });
        self.for_each_output(|number, output, is_canonical| {
            let values: Vec<Operand> = results.iter().map(|of_lane| of_lane[number]).collect();
            output.array.store_to(writer, place(output), &values, is_canonical);
        });
    }

    /// The address of the element that is a number of 32 bits behind the one at a place, where they follow each other.
    fn behind(&self, strided: &Strided, place: Operand, number: Operand) -> Operand {
        let size = Operand::b32(1 << strided.array.shift());
        let offset = self.writer.emit("mul.wide.u32", Class::B64, &[number, size]);
        self.writer.emit("add.s64", Class::B64, &[place, offset])
    }

    /// Loads the element with these indexes.
    fn load(&self, input: &Strided, indexes: &Indexes) -> Operand {
        input.array.load_from(self.writer, self.place(input, indexes), 1)[0]
    }

    /// The values of the inputs, for each those that `load` returns.
    pub(crate) fn loaded(&self, load: impl FnMut(&Strided) -> Vec<Operand>) -> Loaded {
        self.elements.loaded(self.inputs.iter().map(load))
    }

    pub(crate) fn for_each_output(&self, mut store: impl FnMut(usize, &Strided, bool)) {
        let outputs = self.outputs.iter().zip(self.elements.are_canonical());
        outputs.enumerate().for_each(|(number, (output, is))| store(number, output, is));
    }

    /// The indexes of the element or the pack of a number.
    pub(crate) fn indexes(&self, number: Operand) -> Indexes {
        indexes(self.writer, number, &self.divisors)
    }

    /// The address in an array of the element, or of the pack, with these indexes.
    fn place(&self, strided: &Strided, indexes: &Indexes) -> Operand {
        let writer = self.writer;
        let add = |place, offset| writer.emit("add.s64", Class::B64, &[place, offset]);
        let place = moved(writer, strided.array.address(), indexes, &strided.strides);
        match (self.variant.order, indexes.last()) {
            (Order::Packs { .. }, Some(&inner)) if !strided.is_uniform => {
                let bytes = Operand::b64((self.variant.lanes as i64) << strided.array.shift());
                add(place, writer.emit("mul.lo.s64", Class::B64, &[inner, bytes]))
            }
            _ => place,
        }
    }
}

/// The parameters of the divisors of axes but the first: for each its length, a multiplier and a shift.
pub(crate) fn divisors(
    writer: &Writer, letter: char, first: usize, axes: usize,
) -> Vec<[Operand; 3]> {
    let parameter = |number| writer.load_parameter(".u32", Class::B32, letter, number);
    (0..axes - 1).map(|axis| [0, 1, 2].map(|part| parameter(first + 3 * axis + part))).collect()
}

/// The indexes along axes of the element of a number of 32 bits, by the divisors of all axes but the first.
pub(crate) fn indexes(writer: &Writer, number: Operand, divisors: &[[Operand; 3]]) -> Indexes {
    let (mut rest, mut indexes) = (number, vec![number; divisors.len() + 1]);
    for (index, [length, multiplier, shift]) in indexes[1..].iter_mut().zip(divisors).rev() {
        let high = writer.emit("mul.hi.u32", Class::B32, &[rest, *multiplier]);
        let sum = writer.emit("add.s32", Class::B32, &[high, rest]);
        let quotient = writer.emit("shr.u32", Class::B32, &[sum, *shift]);
        let whole = writer.emit("mul.lo.s32", Class::B32, &[quotient, *length]);
        *index = writer.emit("sub.s32", Class::B32, &[rest, whole]);
        rest = quotient;
    }
    indexes[0] = rest;
    let wide = |index| writer.emit("cvt.u64.u32", Class::B64, &[index]);
    indexes.into_iter().map(wide).collect()
}

/// An address, moved by indexes times strides.
pub(crate) fn moved(
    writer: &Writer, address: Operand, indexes: &[Operand], strides: &[Operand],
) -> Operand {
    indexes.iter().zip(strides).fold(address, |place, (index, stride)| {
        let offset = writer.emit("mul.lo.s64", Class::B64, &[*index, *stride]);
        writer.emit("add.s64", Class::B64, &[place, offset])
    })
}
