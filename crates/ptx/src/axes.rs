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

use crate::elements::{Array, Elements, Loaded};
use crate::hooks::BLOCKS;
use crate::reduction::{BLOCKS_ALONG, adds_f64_products};
use crate::strided::{divisors, indexes, moved};
use crate::writer::{Class, Operand, Writer};
use gpuvec_expr::{Form, Program};

/// The numbers of axes of a reduction's kernel, each at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Along {
    /// The axes of the results.
    pub kept: usize,
    /// The axes of the elements of a result.
    pub reduced: usize,
}

/// The letter of the shape's parameters.
const LETTER: char = 's';

/// The registers, of the kernel, of the distance between a thread's elements, and of the address of the result's
/// first element in the declared input of a number.
const STEP: &str = "%step";
const FROM: &str = "%from";

impl Along {
    /// Returns the number of blocks that a multiprocessor should hold at once of a reduction whose formula is small.
    #[must_use]
    pub fn blocks_per_multiprocessor(self, program: &Program) -> u32 {
        let is_heavy =
            program.reduction().is_some_and(|(reduction, ty)| adds_f64_products(reduction, ty));
        if self.kept == 1 && self.reduced == 1 && !is_heavy { BLOCKS } else { BLOCKS_ALONG }
    }

    /// Returns the number of the shape's parameters for a number of declared inputs.
    pub(crate) const fn parameters(self, inputs: usize) -> usize {
        self.of_reduced(inputs) + 3 * (self.reduced - 1) + inputs * self.reduced + 1
    }

    /// The number of the first parameter of the reduced axes.
    const fn of_reduced(self, inputs: usize) -> usize {
        3 * (self.kept - 1) + (inputs + 1) * self.kept
    }

    /// Writes the code that finds a result: its address, from its number and the distance between elements.
    ///
    /// The comments are for the emulator.
    pub(crate) fn place(self, text: &mut String, program: &Program, operands: &[&str]) {
        let &[place, result, step] = operands else { return };
        let declared = program.inputs().len();
        text.extend(["// place ", place, " ", result, " ", step, "\n.reg .b64 ", STEP]);
        (0..declared).for_each(|number| text.extend([", ", FROM, &number.to_string()]));
        text.extend([";\nmov.b64 ", STEP, ", ", step, ";\n{\n"]);
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
pub(crate) struct Spread {
    /// The distance between elements, of 64 bits.
    pub(crate) step: Operand,
    /// The number of the first one, of 32 bits.
    first: Operand,
    divisors: Vec<[Operand; 3]>,
    /// Each array that is used, with the address of the result's first element and the strides.
    arrays: Vec<(Array, Operand, Vec<Operand>)>,
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
            step: writer.move_from(STEP),
            first: writer.emit("cvt.u32.u64", Class::B32, &[first]),
            divisors: divisors(writer, LETTER, axes, reduced),
            arrays: elements.numbered_arrays().map(array).collect(),
        }
    }

    /// Computes the results of elements at distances from the first one, each a step further than the one before.
    /// The element at the distance `last` stands in for those past it.
    pub(crate) fn results_at(
        &self, writer: &Writer, elements: &Elements<'_>, places: &[Operand], last: Operand,
    ) -> Vec<Vec<Operand>> {
        let load = |place: Operand| {
            let distance = writer.emit("min.s32", Class::B32, &[place, last]);
            let number = writer.emit("add.s32", Class::B32, &[self.first, distance]);
            let indexes = indexes(writer, number, &self.divisors);
            let value = |(array, from, strides): &(Array, Operand, Vec<Operand>)| {
                array.load_from(writer, moved(writer, *from, &indexes, strides), 1)
            };
            self.arrays.iter().map(value).collect::<Vec<_>>()
        };
        let of_places: Vec<_> = places.iter().map(|place| load(*place)).collect();
        let of_array =
            |array: usize| of_places.iter().map(|values| values[array][0]).collect::<Vec<_>>();
        let loaded: Loaded = elements.loaded((0..self.arrays.len()).map(of_array));
        elements.results_from(places.len(), loaded, &|lane| {
            let step = writer.emit("cvt.u32.u64", Class::B32, &[self.step]);
            let distance = writer.emit("mul.lo.s32", Class::B32, &[lane, step]);
            let place = writer.emit("add.s32", Class::B32, &[places[0], distance]);
            elements.loaded(load(place).into_iter())
        })
    }
}
