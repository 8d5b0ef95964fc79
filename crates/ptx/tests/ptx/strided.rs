//! Kernels for arrays of any strides, on random shapes and strides, against the oracle at each element.

use crate::run::{LIMITS, program_of};
use crate::values::{Bits, Random};
use gpuvec_axes::Divisor;
use gpuvec_emulator::HostMemory;
use gpuvec_expr::{Element, Form, Input, Program, compile};
use gpuvec_oracle::random::{Generator, INPUTS};
use gpuvec_oracle::results;
use gpuvec_ptx::{Kernel, Limits, NAME, Order, Variant, tile_side, vector_bytes};

/// The elements of an array, or those along the innermost axis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inner {
    /// All elements follow each other.
    Flat,
    /// Any stride, but 0 only for inputs.
    Any,
    /// They follow each other.
    Unit,
    /// They are one.
    Zero,
}

/// An array in memory of its own.
#[derive(Clone)]
struct View {
    element: Element,
    /// The bytes from the beginning of the memory to the first element.
    first: usize,
    /// In bytes.
    strides: Vec<i64>,
    memory: Vec<u8>,
}

impl View {
    /// A view with the axes in any order, with gaps, backwards, and broadcast. Along other axes than the innermost
    /// one, strides are multiples of `alignment`.
    fn new(
        random: &mut Random, lengths: &[usize], element: Element, inner: Inner, is_input: bool,
        alignment: usize,
    ) -> View {
        let innermost = lengths.len() - 1;
        let mut axes: Vec<usize> = (0..lengths.len()).collect();
        for i in (1..axes.len()).rev() {
            axes.swap(i, random.below(i + 1));
        }
        if inner == Inner::Flat {
            axes = (0..lengths.len()).rev().collect();
        } else if inner != Inner::Any {
            axes.retain(|axis| *axis != innermost);
            axes.insert(0, innermost);
        }
        let (mut strides, mut first, mut end) = (vec![0; lengths.len()], 0, element.bytes());
        for (place, axis) in axes.into_iter().enumerate() {
            let length = lengths[axis];
            let is_flat = inner == Inner::Flat;
            let is_fixed = is_flat || axis == innermost && inner != Inner::Any;
            let is_zero =
                if is_fixed { inner == Inner::Zero } else { is_input && random.below(4) == 0 };
            if is_zero {
                continue;
            }
            let step = match place {
                _ if is_flat => end,
                0 if is_fixed || random.below(2) == 0 => element.bytes(),
                _ => (end + random.below(3) * element.bytes()).next_multiple_of(alignment),
            };
            let last = step * (length - 1);
            strides[axis] = step as i64;
            if !is_fixed && random.below(3) == 0 {
                strides[axis] = -(step as i64);
                first += last;
            }
            end += last;
        }
        let count = end.div_ceil(element.bytes()) + 3;
        let mut memory = Vec::new();
        for value in random.values(element, count) {
            memory.extend(&value.to_le_bytes()[..element.bytes()]);
        }
        View { element, first, strides, memory }
    }

    /// The place of an element in the memory.
    fn place(&self, index: &[usize]) -> usize {
        let offset = index.iter().zip(&self.strides).map(|(i, stride)| *i as i64 * stride);
        self.first.checked_add_signed(offset.sum::<i64>() as isize).expect("an element")
    }

    fn value(&self, index: &[usize]) -> Bits {
        let mut bits = [0; 8];
        let (place, size) = (self.place(index), self.element.bytes());
        bits[..size].copy_from_slice(&self.memory[place..place + size]);
        u64::from_le_bytes(bits)
    }

    fn set(&mut self, index: &[usize], value: Bits) {
        let (place, size) = (self.place(index), self.element.bytes());
        self.memory[place..place + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
}

/// A call of a program: an array for each input and for each output. A scalar is the first element of its array.
struct Case<'p> {
    program: &'p Program,
    lengths: Vec<usize>,
    inputs: Vec<View>,
    outputs: Vec<View>,
    /// The input that is the first output, too.
    in_place: Option<usize>,
}

impl<'p> Case<'p> {
    /// A random call for a variant.
    fn new(random: &mut Random, program: &'p Program, variant: Variant) -> Case<'p> {
        let most = [3000, 60, 20, 8][variant.axes.min(4) - 1];
        let mut lengths: Vec<usize> = (0..variant.axes)
            .map(|axis| 1 + random.below(if axis > 3 { 2 } else { most }))
            .collect();
        let broadcast = match variant.order {
            Order::Vectors { broadcast } => Some(broadcast),
            Order::Flat { .. } | Order::Apart => None,
            Order::Tiles { .. } => {
                let (outer, inner) = lengths.split_at_mut(variant.axes - 2);
                outer.iter_mut().for_each(|length| *length = 1 + random.below(2));
                inner.iter_mut().for_each(|length| *length = 1 + random.below(150));
                None
            }
        };
        if broadcast.is_some() {
            let inner = lengths.last_mut().expect("an axis");
            *inner = inner.next_multiple_of(variant.items);
        }
        let mut view = |element: Element, number: usize, is_input: bool| {
            let is_flat = |flat: u64| !is_input || flat >> number & 1 != 0;
            let (inner, alignment) = match broadcast {
                None if matches!(variant.order, Order::Flat { flat } if is_flat(flat)) => {
                    (Inner::Flat, element.bytes())
                }
                Some(bits) if is_input && bits >> number & 1 != 0 => (Inner::Zero, element.bytes()),
                Some(_) => (Inner::Unit, vector_bytes(element.bytes(), variant.items)),
                None => (Inner::Any, element.bytes()),
            };
            View::new(random, &lengths, element, inner, is_input, alignment)
        };
        let inputs = program.inputs().enumerate();
        let inputs: Vec<View> =
            inputs.map(|(number, input)| view(input.element, number, true)).collect();
        let outputs = program.outputs().iter().enumerate();
        let outputs = outputs.map(|(number, output)| view(output.element, number, false)).collect();
        Case { program, lengths, inputs, outputs, in_place: None }
    }

    /// Puts the first output where an input is, if the elements have the same size.
    fn in_place(mut self, input: usize) -> Self {
        if self.inputs[input].element.bytes() == self.outputs[0].element.bytes() {
            let element = self.inputs[input].element;
            self.inputs[input] = View { element, ..self.outputs[0].clone() };
            self.in_place = Some(input);
        }
        self
    }

    /// The memory of the outputs after the call.
    fn expected(&self) -> Vec<View> {
        let mut outputs = self.outputs.clone();
        let n: usize = self.lengths.iter().product();
        let zero = vec![0; self.lengths.len()];
        for number in 0..n {
            let (mut rest, mut index) = (number, zero.clone());
            for (place, length) in index.iter_mut().zip(&self.lengths).rev() {
                (*place, rest) = (rest % length, rest / length);
            }
            let values = self.program.inputs().zip(&self.inputs).map(|(input, view)| {
                view.value(if input.form == Form::Array { &index } else { &zero })
            });
            let values: Vec<Bits> = values.collect();
            let declared = self.program.outputs();
            let results = results(self.program, &values);
            for (output, (of, result)) in outputs.iter_mut().zip(declared.iter().zip(results)) {
                output.set(&index, gpuvec_oracle::stored(of, result));
            }
        }
        outputs
    }

    /// The memory of the outputs after the kernel's run.
    fn run(&self, variant: Variant, limits: Limits, blocks: u32) -> Vec<View> {
        const BASE: u64 = 1 << 32;
        let text = Kernel::with_limits(NAME, self.program, "", limits);
        let kernel = text.strided(self.program, variant, limits);
        let text = kernel.image().to_str().expect("PTX is ASCII");
        let emulated =
            gpuvec_emulator::Kernel::parse(text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let mut lengths = self.lengths.clone();
        let inner = lengths.len() - 1;
        let mut of_tiles = Vec::new();
        match variant.order {
            Order::Vectors { .. } => lengths[inner] /= variant.items,
            Order::Flat { .. } | Order::Apart => {}
            Order::Tiles { side, .. } => {
                of_tiles.extend(lengths[inner - 1..].iter().map(|length| *length as u64));
                lengths[inner - 1..].iter_mut().for_each(|length| *length = length.div_ceil(side));
            }
        }
        let (mut inputs, mut outputs) = (self.inputs.clone(), self.outputs.clone());
        let count = inputs.len() as u64;
        let address = |number: u64, view: &View| (number + 1) * BASE + view.first as u64;
        let mut parameters = Vec::new();
        for (number, (declared, view)) in (0..).zip(self.program.inputs().zip(&inputs)) {
            parameters.push(match (declared.form, self.in_place) {
                (Form::Array, Some(input)) if input as u64 == number => address(count, view),
                (Form::Array, _) => address(number, view),
                _ => view.value(&vec![0; self.lengths.len()]),
            });
        }
        parameters.extend((count..).zip(&outputs).map(|(number, view)| address(number, view)));
        for length in &lengths[1..] {
            let Divisor { multiplier, shift } = Divisor::new(*length as u32);
            parameters.extend([*length as u64, multiplier.into(), shift.into()]);
        }
        let strides = inputs.iter().chain(&outputs).flat_map(|view| &view.strides);
        parameters.extend(strides.map(|stride| stride.cast_unsigned()));
        parameters.extend(of_tiles);
        parameters.extend([lengths.iter().product::<usize>() as u64, 0]);
        let mut memory = HostMemory::default();
        for (number, view) in (0..).zip(inputs.iter_mut().chain(&mut outputs)) {
            memory.add((number + 1) * BASE, &mut view.memory);
        }
        let outcome = emulated.run(&parameters, blocks, &mut memory);
        outcome.unwrap_or_else(|why| panic!("{why}\n{variant:?}, {:?}\n{text}", self.lengths));
        outputs
    }

    #[track_caller]
    fn check(&self, variant: Variant, limits: Limits, blocks: u32) {
        let (found, expected) = (self.run(variant, limits, blocks), self.expected());
        for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let differs = found.memory.iter().zip(&expected.memory).position(|(a, b)| a != b);
            let view = &self.outputs[number];
            assert_eq!(
                differs, None,
                "output {number} from {} on with strides {:?}, shape {:?}, {variant:?}, {blocks} blocks\n{}",
                view.first, view.strides, self.lengths, self.program
            );
        }
    }
}

/// Compares some calls of a program with each variant's kernel.
fn check(random: &mut Random, program: &Program, calls: usize) {
    let inputs = program.inputs().len() as u32;
    for items in [1, 2, 4, 8] {
        for axes in [1, 2, 3, 4, 8] {
            let vectors = Order::Vectors { broadcast: random.next() & !(u64::MAX << inputs) };
            let flat = Order::Flat { flat: random.next() & !(u64::MAX << inputs) };
            for order in [Order::Apart, vectors, flat] {
                let variant = Variant { axes, items, order };
                for _ in 0..calls {
                    let limits = LIMITS[random.below(5) / 4];
                    let case = Case::new(random, program, variant);
                    case.check(variant, limits, 1 + random.below(3) as u32);
                }
            }
        }
    }
}

/// Compares some calls of a program with kernels of tiles, of some of the input arrays.
fn check_tiles(random: &mut Random, program: &Program, calls: usize) {
    let arrays: Vec<(usize, usize)> = (0..)
        .zip(program.inputs())
        .filter(|(_, input)| input.form == Form::Array)
        .map(|(number, input)| (number, input.element.bytes()))
        .collect();
    for _ in 0..calls {
        let (number, mut bytes) = arrays[random.below(arrays.len())];
        let mut across = 1 << number;
        for (number, of_element) in &arrays {
            let fits = across >> number & 1 == 0 && tile_side(bytes + of_element).is_some();
            if fits && random.below(3) == 0 {
                (across, bytes) = (across | 1 << number, bytes + of_element);
            }
        }
        let side = tile_side(bytes).expect("few arrays");
        let order = Order::Tiles { across, side };
        let variant =
            Variant { axes: 2 + random.below(3), items: [1, 2, 4][random.below(3)], order };
        let case = Case::new(random, program, variant);
        case.check(variant, LIMITS[random.below(5) / 4], 1 + random.below(5) as u32);
    }
}

#[test]
fn tiles_of_every_type() {
    let mut random = Random(26);
    let elements =
        [Element::F32, Element::F64, Element::I64, Element::U8, Element::I16, Element::U32];
    for element in elements {
        check_tiles(&mut random, &program_of("x + y * s", element), 6);
    }
    check_tiles(&mut random, &program_of("x & ~y", Element::Bool), 6);
    check_tiles(&mut random, &program_of("exp(x) * y; log(y)", Element::F32), 6);
    check_tiles(&mut random, &program_of("x - y; z; x * z", Element::F64), 6);
}

#[test]
fn tiles_of_an_output_in_place() {
    let mut random = Random(27);
    let program = program_of("x * y - x; y + 1", Element::F32);
    for across in [0b01, 0b10, 0b11] {
        for axes in [2, 3] {
            let variant = Variant { axes, items: 4, order: Order::Tiles { across, side: 64 } };
            let case = Case::new(&mut random, &program, variant).in_place(0);
            case.check(variant, Limits::USUAL, 2);
        }
    }
}

#[test]
fn every_type_of_elements() {
    let mut random = Random(21);
    let elements =
        [Element::F32, Element::F64, Element::I64, Element::U8, Element::I16, Element::U32];
    for element in elements {
        check(&mut random, &program_of("x + y * s", element), 2);
    }
    check(&mut random, &program_of("x & ~y", Element::Bool), 2);
}

#[test]
fn arrays_of_several_widths_and_several_outputs() {
    let mut random = Random(22);
    let elements = [Element::U8, Element::F64, Element::I16, Element::F32];
    let input = |(name, element)| Input { name, element, form: Form::Array };
    let inputs: Vec<Input<'_>> =
        ["a", "b", "c", "d"].into_iter().zip(elements).map(input).collect();
    for text in ["a + b + c + d", "b < d; f32(a) * d; c", "d; d + 1; a; where(c < a, a, c)"] {
        let program = compile(text, &inputs).unwrap_or_else(|error| panic!("{error}"));
        check(&mut random, &program, 1);
    }
}

#[test]
fn elements_that_fast_functions_leave_are_loaded_again() {
    let mut random = Random(23);
    check(&mut random, &program_of("exp(x) * y", Element::F32), 2);
    check(&mut random, &program_of("sin(x); log(y)", Element::F32), 1);
}

#[test]
fn outputs_in_place() {
    let mut random = Random(24);
    for element in [Element::F32, Element::F64, Element::I32] {
        let program = program_of("x * y - x; y + 1", element);
        for items in [2, 4] {
            for axes in [1, 2, 3] {
                let flat = [0b00, 0b01].map(|flat| Order::Flat { flat });
                for order in
                    [Order::Apart, Order::Vectors { broadcast: 0b10 }].into_iter().chain(flat)
                {
                    let variant = Variant { axes, items, order };
                    let case = Case::new(&mut random, &program, variant).in_place(0);
                    assert!(case.in_place.is_some());
                    case.check(variant, Limits::USUAL, 2);
                }
            }
        }
    }
}

/// Compares this many random calls of random programs, one in sixteen with tiles.
fn check_programs(count: usize) {
    let mut random = Random(25);
    let mut checked = 0;
    while checked < count {
        let choices: Vec<u8> = (0..120).map(|_| random.next() as u8).collect();
        let mut generator = Generator::new(&choices);
        let is_of_bools = random.below(4) == 0;
        let text = if is_of_bools { generator.bool(4) } else { generator.number(4) };
        let Ok(program) = compile(&text.fewest, &INPUTS) else { continue };
        checked += 1;
        if checked % 16 == 0 {
            check_tiles(&mut random, &program, 1);
            continue;
        }
        let (axes, items) = (1 + random.below(5), 1 << random.below(4));
        let vectors = Order::Vectors { broadcast: random.next() & 0xffff };
        let flat = Order::Flat { flat: random.next() & 0xffff };
        let order = [Order::Apart, vectors, flat][checked % 3];
        let variant = Variant { axes, items, order };
        let limits = LIMITS[random.below(5) / 4];
        Case::new(&mut random, &program, variant).check(variant, limits, 1);
    }
    println!("{checked} random calls on arrays of any strides");
}

#[test]
fn random_programs() {
    check_programs(250);
}

#[test]
#[ignore = "takes minutes"]
fn many_random_programs() {
    check_programs(100_000);
}
