//! Reductions along axes, on random shapes and strides, against the oracle for each result.

use crate::run::{AXES_TEMPLATES, LIMITS, of_kernels, program_of};
use crate::values::{Bits, Random};
use gpuvec_axes::Divisor;
use gpuvec_emulator::HostMemory;
use gpuvec_expr::{Element, Form, Program, Reduction};
use gpuvec_oracle::results;
use gpuvec_ptx::{AxisReduction, Kernel, NAME};

/// Memory of each array, in elements: it has any element to which random strides lead.
pub(crate) const ROOM: usize = 600;

/// Strides of an array in elements, which stay within its memory.
pub(crate) fn strides(random: &mut Random, lengths: &[usize]) -> Vec<usize> {
    let mut room = ROOM - 1;
    let stride = |length: &usize| {
        let stride = random.below(1 + room / length.max(&1) / 2);
        room -= stride * (length - 1);
        stride
    };
    lengths.iter().map(stride).collect()
}

/// The indexes of the element of a number, in C order.
pub(crate) fn indexes(mut number: usize, lengths: &[usize]) -> Vec<usize> {
    let mut found: Vec<usize> = lengths
        .iter()
        .rev()
        .map(|length| {
            let index = number % length;
            number /= length;
            index
        })
        .collect();
    found.reverse();
    found
}

pub(crate) fn offset(indexes: &[usize], strides: &[usize]) -> usize {
    indexes.iter().zip(strides).map(|(index, stride)| index * stride).sum()
}

pub(crate) fn shape_parameters(
    lengths: &[usize], strides: &[Vec<usize>], sizes: &[usize],
) -> Vec<u64> {
    let divisor = |length: &usize| {
        let Divisor { multiplier, shift } = Divisor::new(*length as u32);
        [*length as u64, multiplier.into(), shift.into()]
    };
    let divisors = lengths[1..].iter().flat_map(divisor);
    let bytes = strides.iter().zip(sizes);
    let bytes = bytes.flat_map(|(of, size)| of.iter().map(move |stride| (stride * size) as u64));
    divisors.chain(bytes).collect()
}

/// Reduces random arrays of a program, whose last input is a scalar, along random axes.
fn check(random: &mut Random, program: &Program, element: Element) {
    check_along(random, program, element, false);
}

/// The same along random axes, or along rows of vectors.
fn check_along(random: &mut Random, program: &Program, element: Element, in_vectors: bool) {
    let axes = |random: &mut Random, most: usize| -> Vec<usize> {
        (0..1 + random.below(3)).map(|_| 1 + random.below(most)).collect()
    };
    let (kept, reduced) = match in_vectors {
        true => (vec![1 + random.below(3)], vec![1 + random.below(ROOM / 3)]),
        false => (axes(random, 4), axes(random, 7)),
    };
    let [results_count, n] = [&kept, &reduced].map(|lengths| lengths.iter().product::<usize>());
    let all: Vec<usize> = kept.iter().chain(&reduced).copied().collect();
    let arrays = program.inputs().filter(|input| input.form == Form::Array).count();
    let strides_of_array = |_| match in_vectors {
        true => vec![reduced[0].next_multiple_of(4), 1],
        false => strides(random, &all),
    };
    let mut of_inputs: Vec<_> = (0..arrays).map(strides_of_array).collect();
    // The scalar's are ignored.
    of_inputs.push(vec![3; all.len()]);
    let values: Vec<Vec<Bits>> = (0..=arrays).map(|_| random.values(element, ROOM)).collect();
    let output = program.outputs()[0].element;
    let mut sizes = vec![element.bytes(); of_inputs.len()];
    sizes.push(output.bytes());
    // Results are in reverse order of axes.
    let mut of_output = vec![1; kept.len()];
    (1..kept.len()).for_each(|axis| of_output[axis] = of_output[axis - 1] * kept[axis - 1]);

    let (reduction, ty) = program.reduction().expect("a reduction");
    let value = |input: usize, result: &[usize], place: &[usize]| {
        if input == arrays {
            return values[input][0];
        }
        let (of_kept, of_reduced) = of_inputs[input].split_at(kept.len());
        values[input][offset(result, of_kept) + offset(place, of_reduced)]
    };
    let expected = |number: usize| {
        let result = indexes(number, &kept);
        let of_element = |i: usize| {
            let place = indexes(i, &reduced);
            let inputs: Vec<Bits> =
                (0..=arrays).map(|input| value(input, &result, &place)).collect();
            results(program, &inputs)
        };
        let elements: Vec<_> = (0..n).map(of_element).collect();
        let value = gpuvec_oracle::reduced(reduction, ty, &elements).expect("elements");
        gpuvec_oracle::stored(&program.outputs()[0], value)
    };
    let address = |number: usize| (number as u64 + 1) << 32;
    let mut parameters: Vec<u64> = (0..arrays).map(address).collect();
    parameters.push(values[arrays][0]);
    let [of_kept, of_reduced]: [Vec<Vec<usize>>; 2] = [0..kept.len(), kept.len()..all.len()]
        .map(|part| of_inputs.iter().map(|of| of[part.clone()].to_vec()).collect());
    let with_output: Vec<_> = of_kept.into_iter().chain([of_output.clone()]).collect();
    parameters.extend(shape_parameters(&kept, &with_output, &sizes));
    parameters.extend(shape_parameters(&reduced, &of_reduced, &sizes));
    // The partition of one split: the logarithm of a block's results, and whether elements are in vectors.
    let partition = [1 << 32 | random.below(6) as u64, 0, in_vectors.into()];
    parameters.extend([address(arrays), results_count as u64, n as u64, 0, 0]);
    parameters.extend(partition);

    let wanted = gpuvec_ptx::axes_template(program).expect("a reduction");
    let (_, template) =
        AXES_TEMPLATES.iter().find(|(name, _)| *name == wanted).expect("a template");
    let along = AxisReduction { outer: kept.len(), reduced: reduced.len() };
    for limits in LIMITS {
        let kernel =
            Kernel::along_axes(NAME, program, template, along, limits).expect("a reduction");
        let text = kernel.image().to_str().expect("PTX is ASCII");
        let emulated = gpuvec_emulator::Kernel::parse(text).unwrap_or_else(|why| panic!("{why}"));
        let bytes = |values: &Vec<Bits>| -> Vec<u8> {
            values.iter().flat_map(|bits| bits.to_le_bytes()[..element.bytes()].to_vec()).collect()
        };
        let mut inputs: Vec<Vec<u8>> = values[..arrays].iter().map(bytes).collect();
        let mut out = vec![0xA5; results_count * output.bytes()];
        let mut memory = HostMemory::default();
        inputs.iter_mut().enumerate().for_each(|(number, of)| memory.add(address(number), of));
        memory.add(address(arrays), &mut out);
        emulated.run(&parameters, 1, &mut memory).unwrap_or_else(|why| panic!("{why}\n{text}"));
        for number in 0..results_count {
            let place = offset(&indexes(number, &kept), &of_output) * output.bytes();
            let mut bits = [0; 8];
            bits[..output.bytes()].copy_from_slice(&out[place..place + output.bytes()]);
            let found = u64::from_le_bytes(bits);
            assert_eq!(found, expected(number), "{number} of {kept:?}, {reduced:?}\n{program}");
        }
    }
}

/// Reduces arrays of every type by every reduction, this many times each.
fn check_every_reduction(times: usize) {
    let mut random = Random(11);
    let mut checked = 0;
    for element in [
        Element::F32,
        Element::F64,
        Element::I32,
        Element::I64,
        Element::U8,
        Element::U64,
        Element::F16,
        Element::Bf16,
    ] {
        for &reduction in Reduction::ALL {
            let name = reduction.name();
            let text = match reduction {
                Reduction::Any | Reduction::All | Reduction::Count => format!("{name}(x < y * s)"),
                Reduction::Dot => format!("{name}(x + z, y * s)"),
                // Products of even numbers are soon 0.
                Reduction::Prod if element == Element::I64 => format!("{name}(x * y - z | 1)"),
                Reduction::Prod => format!("{name}(i32(x * y - z) | 1)"),
                _ => format!("{name}(x * y - z)"),
            };
            for program in of_kernels(&program_of(&text, element)) {
                (0..times).for_each(|_| check(&mut random, &program, element));
                checked += times;
            }
        }
    }
    println!("{checked} random reductions along axes");
}

#[test]
fn every_reduction_along_axes() {
    check_every_reduction(4);
}

#[test]
#[ignore = "takes minutes"]
fn many_reductions_along_axes() {
    check_every_reduction(1820);
}

/// Their fast functions are repaired for elements that are loaded again.
#[test]
fn functions_along_axes() {
    let mut random = Random(12);
    for text in ["sum(exp(x) * s)", "argmin(sin(x) + y)", "dot(log(x), exp(y))", "max(pow(x, y))"] {
        let program = program_of(text, Element::F32);
        (0..8).for_each(|_| check(&mut random, &program, Element::F32));
    }
}

#[test]
fn exact_sums_of_rows_in_vectors() {
    let mut random = Random(13);
    // Of sines many are computed once more, of the element that is loaded again.
    let sines = "sum(where(abs(sin(x)) <= 1, sin(x), 0))";
    for text in ["sum(x * s)", "mean(x)", "norm(x - y)", "dot(x, y)", "sum(x * y - z)", sines] {
        for element in [Element::F32, Element::F64] {
            let program = program_of(text, element);
            (0..16).for_each(|_| check_along(&mut random, &program, element, true));
        }
    }
}
