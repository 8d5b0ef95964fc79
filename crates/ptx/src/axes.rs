//! The places of elements and results in reductions along axes (kernels/axes.cu), for arrays of any strides.
//!
//! Behind the parameters of the inputs, and before those of the frame, the parameters of the shape hold:
//!
//! | parameters | hold |
//! |---|---|
//! | three for each kept axis but the first | its length, and the multiplier and the shift that divide by it |
//! | one for each kept axis, of each declared input and then of the output | the array's stride in bytes |
//! | three for each reduced axis but the first | as for kept axes |
//! | one for each reduced axis, of each declared input | the array's stride in bytes |
//! | the last | the address of the output |
//!
//! The frame's are those that kernels/axes.cu lists. Results and elements have numbers below 2^31.

use crate::elements::{Array, Elements, Loaded, VECTOR_BYTES, vector};
use crate::hooks::BLOCKS;
use crate::policy::POLICY;
use crate::reduction::{BLOCKS_ALONG, adds_f64_products};
use crate::strided::{divisors, indexes, moved};
use crate::writer::{Class, Operand, Writer};
use gpuvec_expr::{Form, Program, Reduction};
use std::slice;

/// The numbers of axes of a reduction's kernel, each at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Along {
    /// The axes of the results.
    pub kept: usize,
    /// The axes of the elements of a result.
    pub reduced: usize,
}

/// The chains of additions that compute the addresses of a thread's elements: the last one of a single chain would be
/// known, and so loaded, much later than the first one.
const CHAINS: usize = POLICY.address_chains;

/// The letter of the shape's parameters.
const LETTER: char = 's';

/// The registers of the kernel: the distance between a thread's elements, the number of the thread among those of the
/// result or, if elements are not in vectors, the least number of 32 bits; and the address of the result's first element
/// in the declared input of a number.
pub(crate) const STEP: &str = "%step";
const LANE: &str = "%lane";
const FROM: &str = "%from";

impl Along {
    /// Returns the number of blocks that a multiprocessor should hold at once of a reduction whose formula is small.
    #[must_use]
    pub fn blocks_per_multiprocessor(self, program: &Program) -> u32 {
        let is_heavy =
            program.reduction().is_some_and(|(reduction, ty)| adds_f64_products(reduction, ty));
        match program.reduction() {
            _ if self.kept > 1 || self.reduced > 1 || is_heavy => BLOCKS_ALONG,
            Some((Reduction::Min | Reduction::Max, _)) => BLOCKS + 1,
            _ => BLOCKS,
        }
    }

    /// Returns the number of the shape's parameters for a number of declared inputs.
    pub(crate) const fn parameters(self, inputs: usize) -> usize {
        self.of_reduced(inputs) + 3 * (self.reduced - 1) + inputs * self.reduced + 1
    }

    /// The number of the first parameter of the reduced axes.
    const fn of_reduced(self, inputs: usize) -> usize {
        3 * (self.kept - 1) + (inputs + 1) * self.kept
    }

    /// Writes the code that finds a result: its address, from its number, and what the registers hold.
    ///
    /// The comments are for the emulator.
    pub(crate) fn place(self, text: &mut String, program: &Program, operands: &[&str]) {
        let &[place, result, step, lane] = operands else { return };
        let declared = program.inputs().len();
        text.extend(["// place ", &operands.join(" "), "\n.reg .b32 ", STEP, ", ", LANE, ";\n"]);
        (0..declared)
            .for_each(|number| text.extend([".reg .b64 ", FROM, &number.to_string(), ";\n"]));
        text.extend(["mov.b32 ", STEP, ", ", step, ";\n"]);
        text.extend(["mov.b32 ", LANE, ", ", lane, ";\n{\n"]);
        let writer = Writer::new();
        let number = writer.emit("cvt.u32.u64", Class::B32, &[writer.move_from(result)]);
        let indexes = indexes(&writer, number, &divisors(&writer, LETTER, 0, self.kept));
        let first = 3 * (self.kept - 1);
        let moved = |number: usize, address| {
            let strides = strides(&writer, first + number * self.kept, self.kept);
            moved(&writer, address, &indexes, &strides)
        };
        for (number, input) in program.inputs().enumerate() {
            if input.form == Form::Array {
                let array = Array::new(&writer, input.element, 'a', number);
                writer.move_to(&format!("{FROM}{number}"), moved(number, array.address()));
            }
        }
        let last = self.parameters(declared) - 1;
        let output = writer.load_parameter(".u64", Class::B64, LETTER, last);
        writer.move_to(place, moved(declared, output));
        writer.finish(text);
        text.push_str("}\n// end of place\n");
    }
}

fn strides(writer: &Writer, first: usize, axes: usize) -> Vec<Operand> {
    let stride = |number| writer.load_parameter(".u64", Class::B64, LETTER, number);
    (first..first + axes).map(stride).collect()
}

/// A thread's elements of a result.
///
/// They are a step apart, unless the result's batch is in vectors: then a thread has the elements of whole vectors that
/// are a step of vectors apart. All threads of the result together have the same elements, in fewer loads; exact sums do
/// not depend on the order.
pub(crate) struct Spread {
    /// The number of the first one, of 32 bits.
    first: Operand,
    divisors: Vec<[Operand; 3]>,
    /// Each array that is used, with the address of the result's first element and the strides.
    arrays: Vec<(Array, Operand, Vec<Operand>)>,
    vectors: Option<Vectors>,
}

/// The vectors of a batch.
struct Vectors {
    /// The elements of each.
    len: usize,
    /// A predicate: true if the batch is in vectors.
    are_there: Operand,
    /// The distance of the thread's first element in vectors from its first one else, of 32 bits.
    first: Operand,
}

impl Vectors {
    fn new(writer: &Writer, len: usize, are_there: Operand) -> Self {
        let operands = [Operand::Named(&LANE), Operand::b32(len as i32 - 1)];
        let first = writer.emit("mul.lo.s32", Class::B32, &operands);
        Vectors { len, are_there, first }
    }
}

impl Spread {
    /// The elements from a number on.
    pub(crate) fn new(
        along: Along, program: &Program, writer: &Writer, elements: &Elements<'_>, first: Operand,
    ) -> Self {
        let Along { reduced, .. } = along;
        let axes = along.of_reduced(program.inputs().len());
        let array = |(number, array)| {
            let strides = strides(writer, axes + 3 * (reduced - 1) + number * reduced, reduced);
            (array, writer.move_from(&format!("{FROM}{number}")), strides)
        };
        Spread {
            first: writer.emit("cvt.u32.u64", Class::B32, &[first]),
            divisors: divisors(writer, LETTER, axes, reduced),
            arrays: elements.numbered_arrays().map(array).collect(),
            vectors: None,
        }
    }

    /// The same in vectors, where the frame says so and a batch of `len` elements a thread is whole: its elements follow
    /// each other in each array, and a vector begins at the first one. For arrays along one axis, with elements of one
    /// size. The number of the thread's first element, and of all elements, are `index` and `count`.
    pub(crate) fn in_vectors(
        mut self, writer: &Writer, len: usize, [index, count]: [Operand; 2],
    ) -> Self {
        let Some(vector) = self.vector() else { return self };
        let b64 = |name, operands: &[Operand]| writer.emit(name, Class::B64, operands);
        let elements = b64("mul.wide.u32", &[Operand::Named(&STEP), Operand::b32(len as i32)]);
        let begin = b64("sub.s64", &[index, b64("cvt.s64.s32", &[Operand::Named(&LANE)])]);
        let end = b64("add.s64", &[begin, elements]);
        // Without vectors the end is behind any element.
        let are_there = writer.emit("setp.le.s64", Class::Predicate, &[end, count]);
        self.vectors = Some(Vectors::new(writer, vector, are_there));
        self
    }

    /// The elements of a vector, if arrays along one axis have elements of one size.
    fn vector(&self) -> Option<usize> {
        let shift = self.arrays.first()?.0.shift();
        let alike = self.arrays.iter().all(|(array, ..)| array.shift() == shift);
        let vector = vector(shift, VECTOR_BYTES);
        (alike && vector << shift == VECTOR_BYTES && self.divisors.is_empty()).then_some(vector)
    }

    /// Computes the results of a batch of `len` elements along one axis, which all exist: in vectors where the frame says
    /// so.
    pub(crate) fn results_of_whole(
        mut self, writer: &Writer, elements: &Elements<'_>, len: usize,
    ) -> Vec<Vec<Operand>> {
        if let Some(vector) = self.vector().filter(|vector| len.is_multiple_of(*vector)) {
            let operands = [Operand::Named(&LANE), Operand::b32(0)];
            let are_there = writer.emit("setp.ge.s32", Class::Predicate, &operands);
            self.vectors = Some(Vectors::new(writer, vector, are_there));
        }
        let raw = self.registers(writer, len);
        let [in_vectors, loaded] = [(); 2].map(|()| writer.label());
        let first = Operand::b32(0);
        if let Some(vectors) = &self.vectors {
            writer.jump_if(vectors.are_there, in_vectors);
        }
        self.load_apart(writer, first, &raw);
        if let Some(vectors) = &self.vectors {
            writer.jump(loaded);
            writer.place(in_vectors);
            self.load_vectors(writer, vectors, first, &raw);
            writer.place(loaded);
        }
        elements.results_from(len, elements.widened(raw), &|lane| {
            self.load_one(
                writer,
                elements,
                Self::distance(writer, self.vectors.as_ref(), first, lane),
            )
        })
    }

    /// Registers for a number of elements of each array.
    fn registers(&self, writer: &Writer, len: usize) -> Vec<Vec<Operand>> {
        let registers = |(array, ..): &(Array, Operand, Vec<Operand>)| {
            (0..len).map(|_| array.register(writer)).collect()
        };
        self.arrays.iter().map(registers).collect()
    }

    /// Loads the element at a distance from the first one.
    fn load_one(&self, writer: &Writer, elements: &Elements<'_>, distance: Operand) -> Loaded {
        let raw = self.registers(writer, 1);
        self.load(writer, distance, |array| &raw[array]);
        elements.widened(raw)
    }

    /// Computes the results of elements at distances from the first one, each a step further than the one before.
    /// The element at the distance `last` stands in for those past it.
    pub(crate) fn results_at(
        &self, writer: &Writer, elements: &Elements<'_>, places: &[Operand], last: Operand,
    ) -> Vec<Vec<Operand>> {
        let raw = self.registers(writer, places.len());
        let vectors =
            self.vectors.as_ref().filter(|vectors| places.len().is_multiple_of(vectors.len));
        let [in_vectors, whole, loaded] = [(); 3].map(|()| writer.label());
        if let Some(vectors) = vectors {
            writer.jump_if(vectors.are_there, in_vectors);
        }
        let up_to_last = |distance| writer.emit("min.s32", Class::B32, &[distance, last]);
        let is_along_one_axis = self.divisors.is_empty();
        if is_along_one_axis {
            let end = places[places.len() - 1];
            writer.jump_if(writer.emit("setp.le.s32", Class::Predicate, &[end, last]), whole);
        }
        for (k, place) in places.iter().enumerate() {
            let distance = up_to_last(*place);
            self.load(writer, distance, |array| slice::from_ref(&raw[array][k]));
        }
        if is_along_one_axis {
            writer.jump(loaded);
            writer.place(whole);
            self.load_apart(writer, places[0], &raw);
        }
        if let Some(vectors) = vectors {
            writer.jump(loaded);
            writer.place(in_vectors);
            self.load_vectors(writer, vectors, places[0], &raw);
        }
        writer.place(loaded);
        elements.results_from(places.len(), elements.widened(raw), &|lane| {
            let distance = up_to_last(Self::distance(writer, vectors, places[0], lane));
            self.load_one(writer, elements, distance)
        })
    }

    /// Loads the element at a distance from the first one, of each array into the registers for its number.
    fn load<'r>(&self, writer: &Writer, distance: Operand, raw: impl Fn(usize) -> &'r [Operand]) {
        let number = writer.emit("add.s32", Class::B32, &[self.first, distance]);
        let indexes = indexes(writer, number, &self.divisors);
        for (number, (array, from, strides)) in self.arrays.iter().enumerate() {
            array.load_to(writer, moved(writer, *from, &indexes, strides), raw(number));
        }
    }

    /// Loads elements along one axis, from a distance from the first one on, each a step further than the one before.
    fn load_apart(&self, writer: &Writer, distance: Operand, raw: &[Vec<Operand>]) {
        let b64 = |name, operands: &[Operand]| writer.emit(name, Class::B64, operands);
        let number =
            b64("cvt.u64.u32", &[writer.emit("add.s32", Class::B32, &[self.first, distance])]);
        let step = b64("cvt.u64.u32", &[Operand::Named(&STEP)]);
        for ((array, from, strides), raw) in self.arrays.iter().zip(raw) {
            let step = b64("mul.lo.s64", &[step, strides[0]]);
            // By additions: an assembler would put a product into each of the sums that it is a term of.
            let sum = |place, step| b64("add.s64", &[place, step]);
            let twice = sum(step, step);
            let steps = sum(twice, twice);
            let mut places = [moved(writer, *from, &[number], strides); CHAINS];
            for k in 1..CHAINS {
                places[k] = sum(places[k - 1], step);
            }
            for (k, raw) in raw.iter().enumerate() {
                let place = &mut places[k % CHAINS];
                array.load_to(writer, *place, slice::from_ref(raw));
                *place = sum(*place, steps);
            }
        }
    }

    /// Loads the vectors from that on in whose place the element at a distance from the first one would be.
    fn load_vectors(
        &self, writer: &Writer, vectors: &Vectors, distance: Operand, raw: &[Vec<Operand>],
    ) {
        let number = writer.emit("add.s32", Class::B32, &[vectors.first, distance]);
        let number = writer.emit("add.s32", Class::B32, &[self.first, number]);
        let operands = [Operand::Named(&STEP), Operand::b32(VECTOR_BYTES as i32)];
        let step = writer.emit("mul.wide.u32", Class::B64, &operands);
        for ((array, from, _), raw) in self.arrays.iter().zip(raw) {
            let bytes = Operand::b32(1 << array.shift());
            let offset = writer.emit("mul.wide.u32", Class::B64, &[number, bytes]);
            let mut place = writer.emit("add.s64", Class::B64, &[*from, offset]);
            for raw in raw.chunks(vectors.len) {
                array.load_to(writer, place, raw);
                place = writer.emit("add.s64", Class::B64, &[place, step]);
            }
        }
    }

    /// The distance from the first element of the one with a number among those from a distance on.
    fn distance(
        writer: &Writer, vectors: Option<&Vectors>, from: Operand, number: Operand,
    ) -> Operand {
        let emit = |name, operands: &[Operand]| writer.emit(name, Class::B32, operands);
        let steps = |number| emit("mul.lo.s32", &[number, Operand::Named(&STEP)]);
        let at = |number, from| emit("add.s32", &[steps(number), from]);
        let apart = at(number, from);
        let Some(vectors) = vectors else { return apart };
        let in_vector = emit("and.b32", &[number, Operand::b32(vectors.len as i32 - 1)]);
        let vector = emit("sub.s32", &[number, in_vector]);
        let first = emit("add.s32", &[vectors.first, emit("add.s32", &[in_vector, from])]);
        emit("selp.b32", &[at(vector, first), apart, vectors.are_there])
    }
}
