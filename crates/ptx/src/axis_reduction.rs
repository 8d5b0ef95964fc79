//! The places of elements and results in reductions along axes (kernels/axes.cu), for arrays of any strides.
//!
//! The parameters of the shape are between the parameters of the inputs and the template's own:
//!
//! | parameters | hold |
//! |---|---|
//! | three for each outer axis but the first | its length, and the multiplier and the shift that divide by it |
//! | one for each outer axis, of each declared input and then of the output | the array's stride in bytes |
//! | three for each reduced axis but the first | as for outer axes |
//! | one for each reduced axis, of each declared input | the array's stride in bytes |
//! | the last | the address of the output |
//!
//! kernels/axes.cu lists the parameters of the template. Results and elements have numbers below 2^31.

use crate::array::{Array, VECTOR_BYTES, vector};
use crate::elements::{Elements, Loaded};
use crate::fold::Fold;
use crate::placeholder::BLOCKS;
use crate::policy::{ADDRESS_CHAINS, BLOCKS_WITH_ADDRESSES};
use crate::strided_loop::{divisors, indexes, moved};
use crate::writer::{Operand, Writer, ptx};
use gpuvec_expr::{Form, Program, Reduction};

/// The numbers of axes of a reduction's kernel, each at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisReduction {
    /// The axes of the results.
    pub outer: usize,
    /// The axes of the elements of a result.
    pub reduced: usize,
}

/// The letter of the shape's parameters.
const LETTER: &str = "s";

/// The register of the address of a result's first element in the declared input of a number. The register `%step` has
/// the distance between a thread's elements. `%lane` has the number of the thread among the result's threads or, if
/// elements are not in vectors, the least number of 32 bits.
const FROM: &str = "%from";

/// The distance between a thread's elements that are `count` elements apart, in 32 bits.
pub(crate) fn steps(w: &Writer<'_>, count: usize) -> Operand {
    ptx!(w, count; "mul.lo.s32 steps, %step, count")
}

/// The distance of the last of `len` elements of a thread from the first one, in 64 bits.
pub(crate) fn last_step(w: &Writer<'_>, len: usize) -> Operand {
    ptx!(w, count = len - 1; "mul.wide.u32 last, %step, count")
}

impl AxisReduction {
    /// Returns the number of blocks that a multiprocessor should hold at once of a reduction whose formula is small.
    #[must_use]
    pub fn blocks_per_multiprocessor(self, program: &Program) -> u32 {
        let is_heavy = Fold::of(program).is_some_and(Fold::adds_f64_products);
        match program.reduction() {
            _ if self.outer > 1 || self.reduced > 1 || is_heavy => BLOCKS_WITH_ADDRESSES,
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
        3 * (self.outer - 1) + (inputs + 1) * self.outer
    }

    /// Writes the code that finds the address of a result from its number, and sets the registers of the kernel.
    ///
    /// The comments are for the emulator.
    pub(crate) fn place(self, text: &mut String, program: &Program, operands: &[&str]) {
        let &[_, _, step, lane] = operands else { return };
        let declared = program.inputs().len();
        text.extend(["// place ", &operands.join(" "), "\n.reg .b32 %step, %lane;\n"]);
        (0..declared)
            .for_each(|number| text.extend([".reg .b64 ", FROM, &number.to_string(), ";\n"]));
        text.extend(["mov.b32 %step, ", step, ";\nmov.b32 %lane, ", lane, ";\n{\n"]);
        let w = &Writer::in_place_of(operands);
        let [place, result] = [0, 1].map(Operand::OfPlaceholder);
        let number = ptx!(w, result; "mov.b64 wide, result; cvt.u32.u64 number, wide");
        let indexes = indexes(w, number, &divisors(w, &LETTER, 0, self.outer));
        let first = 3 * (self.outer - 1);
        let moved = |number: usize, address| {
            let strides = strides(w, first + number * self.outer, self.outer);
            moved(w, address, &indexes, &strides)
        };
        for (number, input) in program.inputs().enumerate() {
            if input.form == Form::Array {
                let array = Array::new(w, input.element, &"a", number);
                let from = Operand::Numbered(&FROM, number as u32);
                w.assign(from, moved(number, array.address()));
            }
        }
        let last = self.parameters(declared) - 1;
        let output = w.parameter(&LETTER, last);
        w.assign(place, moved(declared, output));
        w.finish(text);
        text.push_str("}\n// end of place\n");
    }
}

fn strides(w: &Writer<'_>, first: usize, axes: usize) -> Vec<Operand> {
    (first..first + axes).map(|number| w.parameter(&LETTER, number)).collect()
}

/// A thread's elements of a result.
///
/// They are a step apart, unless the result's batch is in vectors: then a thread has the elements of whole vectors that
/// are a step of vectors apart. All threads of the result together have the same elements, in fewer loads; exact sums do
/// not depend on the order.
pub(crate) struct ThreadElements {
    /// The number of the first one, of 32 bits.
    first: Operand,
    divisors: Vec<[Operand; 3]>,
    arrays: Vec<StridedArray>,
    vectors: Option<BatchVectors>,
}

/// An array that is used, with the address of the result's first element and the strides.
struct StridedArray {
    array: Array,
    from: Operand,
    strides: Vec<Operand>,
}

/// The vectors of a batch.
#[derive(Clone, Copy)]
struct BatchVectors {
    /// The elements of each.
    len: usize,
    /// A predicate: true if the batch is in vectors.
    are_there: Operand,
    /// The distance, of 32 bits, of the thread's first element in vectors from its first element otherwise.
    first: Operand,
}

impl BatchVectors {
    fn new(w: &Writer<'_>, len: usize, are_there: Operand) -> Self {
        let first = ptx!(w, others = len - 1; "mul.lo.s32 first, %lane, others");
        BatchVectors { len, are_there, first }
    }
}

impl ThreadElements {
    /// The elements from a number on.
    pub(crate) fn new(
        axes: AxisReduction, program: &Program, w: &Writer<'_>, elements: &Elements<'_>,
        first: Operand,
    ) -> Self {
        let (reduced, of_reduced) = (axes.reduced, axes.of_reduced(program.inputs().len()));
        let array = |(number, array)| StridedArray {
            array,
            strides: strides(w, of_reduced + 3 * (reduced - 1) + number * reduced, reduced),
            from: ptx!(w, outer = Operand::Numbered(&FROM, number as u32); "mov.b64 from, outer"),
        };
        ThreadElements {
            first: ptx!(w, first; "cvt.u32.u64 number, first"),
            divisors: divisors(w, &LETTER, of_reduced, reduced),
            arrays: elements.numbered_arrays().map(array).collect(),
            vectors: None,
        }
    }

    /// Takes the elements in vectors, where the template says so and a batch of `len` elements a thread is whole: its elements
    /// follow each other in each array, and a vector begins at the first one. For arrays along one axis, with elements of
    /// one size. `index` is the number of the thread's first element, and `count` the number of all elements.
    pub(crate) fn in_vectors(
        mut self, w: &Writer<'_>, len: usize, [index, count]: [Operand; 2],
    ) -> Self {
        let Some(vector) = self.vector() else { return self };
        // Without vectors the end is behind any element.
        let are_there = ptx!(w, len, index, count; "
            mul.wide.u32 elements, %step, len
            cvt.s64.s32 lane, %lane
            sub.s64 begin, index, lane
            add.s64 end, begin, elements
            setp.le.s64 are_there, end, count
        ");
        self.vectors = Some(BatchVectors::new(w, vector, are_there));
        self
    }

    /// The elements of a vector, if arrays along one axis have elements of one size.
    fn vector(&self) -> Option<usize> {
        let bytes = self.arrays.first()?.array.element_bytes();
        let alike = self.arrays.iter().all(|of| of.array.element_bytes() == bytes);
        let vector = vector(bytes, VECTOR_BYTES);
        (alike && vector * bytes == VECTOR_BYTES && self.divisors.is_empty()).then_some(vector)
    }

    /// Computes a full batch of `len` elements along one axis, without bounds checks. Loads vectors if the template asks
    /// for them.
    pub(crate) fn results_of_whole(
        mut self, w: &Writer<'_>, elements: &Elements<'_>, len: usize,
    ) -> Vec<Vec<Operand>> {
        if let Some(vector) = self.vector().filter(|vector| len.is_multiple_of(*vector)) {
            let are_there = ptx!(w; "setp.ge.s32 are_there, %lane, 0");
            self.vectors = Some(BatchVectors::new(w, vector, are_there));
        }
        let (raw, first, loaded) = (self.registers(w, len), Operand::from(0), w.label());
        match self.vectors {
            None => self.load_apart(w, first, &raw),
            Some(vectors) => {
                let in_vectors = w.label();
                ptx!(w, is = vectors.are_there, in_vectors; "@is bra in_vectors");
                self.load_apart(w, first, &raw);
                ptx!(w, loaded, in_vectors; "bra loaded; in_vectors:");
                self.load_vectors(w, vectors, first, &raw);
                ptx!(w, loaded; "loaded:");
            }
        }
        elements.results_from(len, elements.values_of(raw), &|item| {
            self.load_one(w, elements, Self::distance(w, self.vectors, first, item))
        })
    }

    /// Registers for a number of elements of each array.
    fn registers(&self, w: &Writer<'_>, len: usize) -> Vec<Vec<Operand>> {
        self.arrays.iter().map(|of| of.array.registers(w, len)).collect()
    }

    /// Loads the element at a distance from the first one.
    fn load_one(&self, w: &Writer<'_>, elements: &Elements<'_>, distance: Operand) -> Loaded {
        let raw = self.registers(w, 1);
        self.load(w, distance, &raw, 0);
        elements.values_of(raw)
    }

    /// Computes the results of elements at distances from the first one, each a step further than the one before.
    /// The element at the distance `last` stands in for those past it.
    pub(crate) fn results_at(
        &self, w: &Writer<'_>, elements: &Elements<'_>, distances: &[Operand], last: Operand,
    ) -> Vec<Vec<Operand>> {
        let raw = self.registers(w, distances.len());
        let vectors = self.vectors.filter(|vectors| distances.len().is_multiple_of(vectors.len));
        let [in_vectors, whole, loaded] = [(); 3].map(|()| w.label());
        if let Some(vectors) = vectors {
            ptx!(w, is = vectors.are_there, in_vectors; "@is bra in_vectors");
        }
        let within = |distance| ptx!(w, distance, last; "min.s32 within, distance, last");
        let is_along_one_axis = self.divisors.is_empty();
        if is_along_one_axis {
            let end = distances[distances.len() - 1];
            ptx!(w, end, last, whole; "setp.le.s32 is_whole, end, last; @is_whole bra whole");
        }
        for (k, &distance) in distances.iter().enumerate() {
            self.load(w, within(distance), &raw, k);
        }
        if is_along_one_axis {
            ptx!(w, loaded, whole; "bra loaded; whole:");
            self.load_apart(w, distances[0], &raw);
        }
        if let Some(vectors) = vectors {
            ptx!(w, loaded, in_vectors; "bra loaded; in_vectors:");
            self.load_vectors(w, vectors, distances[0], &raw);
        }
        ptx!(w, loaded; "loaded:");
        elements.results_from(distances.len(), elements.values_of(raw), &|item| {
            let distance = Self::distance(w, vectors, distances[0], item);
            self.load_one(w, elements, within(distance))
        })
    }

    /// Loads the element at a distance from the first one, of each array into its register number `k`.
    fn load(&self, w: &Writer<'_>, distance: Operand, raw: &[Vec<Operand>], k: usize) {
        let number = ptx!(w, first = self.first, distance; "add.s32 number, first, distance");
        let indexes = indexes(w, number, &self.divisors);
        for (StridedArray { array, from, strides }, raw) in self.arrays.iter().zip(raw) {
            array.load_to(w, moved(w, *from, &indexes, strides), &raw[k..=k]);
        }
    }

    /// Loads elements along one axis, from a distance from the first one on, each a step further than the one before.
    fn load_apart(&self, w: &Writer<'_>, distance: Operand, raw: &[Vec<Operand>]) {
        let lines = "add.s32 number, first, distance; cvt.u64.u32 number, number";
        let number = ptx!(w, first = self.first, distance; lines);
        let step = ptx!(w; "cvt.u64.u32 step, %step");
        for (StridedArray { array, from, strides }, raw) in self.arrays.iter().zip(raw) {
            // Additions only: ptxas would fuse a product into each sum that uses it, and compute it again there.
            let sum = |a, b| ptx!(w, a, b; "add.s64 sum, a, b");
            let step = ptx!(w, step, stride = strides[0]; "mul.lo.s64 bytes, step, stride");
            let twice = sum(step, step);
            let steps = sum(twice, twice);
            let mut places = [moved(w, *from, &[number], strides); ADDRESS_CHAINS];
            for k in 1..ADDRESS_CHAINS {
                places[k] = sum(places[k - 1], step);
            }
            for (k, raw) in raw.chunks(1).enumerate() {
                let place = &mut places[k % ADDRESS_CHAINS];
                array.load_to(w, *place, raw);
                *place = sum(*place, steps);
            }
        }
    }

    /// Loads vectors from the one on in whose place the element at a distance from the first one would be.
    fn load_vectors(
        &self, w: &Writer<'_>, vectors: BatchVectors, distance: Operand, raw: &[Vec<Operand>],
    ) {
        let lines = "add.s32 number, in_vectors, distance; add.s32 number, first, number";
        let number = ptx!(w, in_vectors = vectors.first, distance, first = self.first; lines);
        let step = ptx!(w, bytes = VECTOR_BYTES; "mul.wide.u32 step, %step, bytes");
        for (StridedArray { array, from, .. }, raw) in self.arrays.iter().zip(raw) {
            let mut place = array.behind(w, *from, number);
            for raw in raw.chunks(vectors.len) {
                array.load_to(w, place, raw);
                place = ptx!(w, place, step; "add.s64 next, place, step");
            }
        }
    }

    /// The distance from the first element of the one with a number among those from a distance on.
    fn distance(
        w: &Writer<'_>, vectors: Option<BatchVectors>, from: Operand, number: Operand,
    ) -> Operand {
        let at = |number, from| ptx!(w, number, from; "mul.lo.s32 steps, number, %step; add.s32 at, steps, from");
        let apart = at(number, from);
        let Some(BatchVectors { len, are_there, first }) = vectors else { return apart };
        let in_vector = ptx!(w, number, last = len - 1; "and.b32 in_vector, number, last");
        let vector = ptx!(w, number, in_vector; "sub.s32 vector, number, in_vector");
        let lines = "add.s32 moved, in_vector, from; add.s32 moved, first, moved";
        let in_vectors = at(vector, ptx!(w, in_vector, from, first; lines));
        let lines = "selp.b32 distance, in_vectors, apart, are_there";
        ptx!(w, in_vectors, apart, are_there; lines)
    }
}
