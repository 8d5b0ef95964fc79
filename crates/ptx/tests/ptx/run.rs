//! Runs a program's kernel in the emulator, and compares with the oracle.

use crate::values::Bits;
use gpuvec_emulator::HostMemory;
use gpuvec_expr::{Element, Form, Input, Program, compile};
use gpuvec_oracle::results;
use gpuvec_ptx::{Kernel, Limits, NAME, outputs_of_kernels};

/// The compiled kernels of reductions.
pub(crate) const TEMPLATES: [(&str, &str); 7] = [
    ("sum_f32", include_str!("../../../../kernels/ptx/sum_f32.ptx")),
    ("sum_f64", include_str!("../../../../kernels/ptx/sum_f64.ptx")),
    ("dot_f32", include_str!("../../../../kernels/ptx/dot_f32.ptx")),
    ("dot_f64", include_str!("../../../../kernels/ptx/dot_f64.ptx")),
    ("norm_f32", include_str!("../../../../kernels/ptx/norm_f32.ptx")),
    ("norm_f64", include_str!("../../../../kernels/ptx/norm_f64.ptx")),
    ("fold", include_str!("../../../../kernels/ptx/fold.ptx")),
];

/// The parameters of reductions along axes.
pub(crate) const AXES_TEMPLATES: [(&str, &str); 7] = [
    ("axes_sum_f32", include_str!("../../../../kernels/ptx/axes_sum_f32.ptx")),
    ("axes_sum_f64", include_str!("../../../../kernels/ptx/axes_sum_f64.ptx")),
    ("axes_dot_f32", include_str!("../../../../kernels/ptx/axes_dot_f32.ptx")),
    ("axes_dot_f64", include_str!("../../../../kernels/ptx/axes_dot_f64.ptx")),
    ("axes_norm_f32", include_str!("../../../../kernels/ptx/axes_norm_f32.ptx")),
    ("axes_norm_f64", include_str!("../../../../kernels/ptx/axes_norm_f64.ptx")),
    ("axes_fold", include_str!("../../../../kernels/ptx/axes_fold.ptx")),
];

/// The compiled kernels of reductions by key.
pub(crate) const BY_KEY_TEMPLATES: [(&str, &str); 4] = [
    ("by_key_sum_f32", include_str!("../../../../kernels/ptx/by_key_sum_f32.ptx")),
    ("by_key_sum_f64", include_str!("../../../../kernels/ptx/by_key_sum_f64.ptx")),
    ("by_key_dot_f64", include_str!("../../../../kernels/ptx/by_key_dot_f64.ptx")),
    ("by_key_fold", include_str!("../../../../kernels/ptx/by_key_fold.ptx")),
];

/// Limits within which tests' programs are, and others for which they are large.
pub(crate) const LIMITS: [Limits; 2] = [Limits::USUAL, Limits { instructions: 0, part: 3 }];

/// The text of a program's kernel.
pub(crate) fn text(program: &Program, limits: Limits) -> String {
    let wanted = gpuvec_ptx::template(program);
    let found = TEMPLATES.iter().find(|(name, _)| Some(*name) == wanted);
    let template = found.map_or("", |(_, text)| text);
    let kernel = Kernel::with_limits(NAME, program, template, limits);
    kernel.image().to_str().expect("PTX is ASCII").to_owned()
}

/// The layout of the arrays, and the launch of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub(crate) n: usize,
    pub(crate) blocks: u32,
    /// Elements by which each array, the output last, is past a boundary; the last one is that of all
    /// further arrays.
    pub(crate) past: &'static [usize],
    /// The input that is the output, too.
    pub(crate) in_place: Option<usize>,
}

impl Launch {
    pub(crate) const fn of(n: usize) -> Launch {
        Launch { n, blocks: 1, past: &[0], in_place: None }
    }
}

/// Bytes before and behind an array, which no kernel may change.
const GUARD: usize = 64;
const UNTOUCHED: u8 = 0xA7;

/// An array at an address that is a multiple of 256 plus some elements.
struct Array {
    address: u64,
    bytes: Vec<u8>,
}

impl Array {
    fn new(number: usize, past: usize, element: Element, values: &[Bits]) -> Array {
        let size = element.bytes();
        let mut array = vec![UNTOUCHED; GUARD];
        values.iter().for_each(|value| array.extend(&value.to_le_bytes()[..size]));
        array.extend([UNTOUCHED; GUARD]);
        let address = ((number as u64 + 1) << 32) + (past * size) as u64;
        Array { address, bytes: array }
    }

    fn values(&self, size: usize) -> Vec<Bits> {
        let (before, rest) = self.bytes.split_at(GUARD);
        let (values, behind) = rest.split_at(rest.len() - GUARD);
        assert!(before.iter().chain(behind).all(|&byte| byte == UNTOUCHED), "written outside");
        let value = |chunk: &[u8]| {
            let mut bits = [0; 8];
            bits[..size].copy_from_slice(chunk);
            u64::from_le_bytes(bits)
        };
        values.chunks(size).map(value).collect()
    }
}

/// Runs a program's kernel on values of its inputs. A scalar takes the first of its values. Returns those of
/// each output.
fn run(program: &Program, text: &str, inputs: &[Vec<Bits>], launch: Launch) -> Vec<Vec<Bits>> {
    let declared: Vec<Input<'_>> = program.inputs().collect();
    let outputs: Vec<Element> = program.outputs().iter().map(|output| output.element).collect();
    run_text(text, &declared, &outputs, program.reduction().is_some(), inputs, launch)
}

/// Runs a kernel with these inputs and these types of outputs.
pub(crate) fn run_text(
    text: &str, declared: &[Input<'_>], outputs: &[Element], reduces: bool, inputs: &[Vec<Bits>],
    launch: Launch,
) -> Vec<Vec<Bits>> {
    let emulated =
        gpuvec_emulator::Kernel::parse(text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    let past = |number: usize| launch.past[number.min(launch.past.len() - 1)];
    let (mut arrays, mut parameters) = (Vec::new(), Vec::new());
    for (number, (input, values)) in declared.iter().zip(inputs).enumerate() {
        if input.form != Form::Array {
            // Bits above the element's are anything.
            let unused = u64::MAX.checked_shl(8 * input.element.bytes() as u32).unwrap_or(0);
            parameters.push(values[0] | unused);
        } else {
            let array = Array::new(number, past(number), input.element, &values[..launch.n]);
            parameters.push(array.address);
            arrays.push((number, array));
        }
    }
    let in_place = launch.in_place.and_then(|input| arrays.iter().position(|(n, _)| *n == input));
    let mut places = Vec::new();
    for (number, &output) in (inputs.len()..).zip(outputs) {
        places.push(match in_place {
            Some(place) if number == inputs.len() => place,
            _ => {
                let found = vec![0xA5A5_A5A5_A5A5_A5A5; if reduces { 1 } else { launch.n }];
                arrays.push((number, Array::new(number, past(number), output, &found)));
                arrays.len() - 1
            }
        });
    }
    let (addresses, n) = (places.iter().map(|&place| arrays[place].1.address), launch.n as u64);
    if reduces {
        parameters.extend([0, n, 0, 0]);
        parameters.extend(addresses.chain([0]));
    } else {
        parameters.extend(addresses.chain([n, 0]));
    }
    let mut memory = HostMemory::default();
    for (_, array) in &mut arrays {
        memory.add(array.address - GUARD as u64, &mut array.bytes);
    }
    let outcome = emulated.run(&parameters, launch.blocks, &mut memory);
    outcome.unwrap_or_else(|why| panic!("{why}\n{launch:?}\n{text}"));
    let values = |(&place, output): (&usize, &Element)| arrays[place].1.values(output.bytes());
    places.iter().zip(outputs).map(values).collect()
}

/// Compares the results of the program's kernels with the oracle's.
#[track_caller]
pub(crate) fn check(program: &Program, inputs: &[Vec<Bits>], launch: Launch) {
    for limits in LIMITS {
        compare(program, &run(program, &text(program, limits), inputs, launch), inputs, launch);
    }
}

#[track_caller]
fn compare(program: &Program, found: &[Vec<Bits>], inputs: &[Vec<Bits>], launch: Launch) {
    let shapes: Vec<Form> = program.inputs().map(|input| input.form).collect();
    for i in 0..launch.n {
        let at = |(values, form): (&Vec<Bits>, &Form)| match form {
            Form::Array => values[i],
            Form::Scalar | Form::Number => values[0],
        };
        let of_element: Vec<Bits> = inputs.iter().zip(&shapes).map(at).collect();
        for (output, result) in results(program, &of_element).into_iter().enumerate() {
            let expected = gpuvec_oracle::stored(&program.outputs()[output], result);
            let found = found[output][i];
            assert!(
                found == expected,
                "element {i} of output {output}, {launch:?}: {found:#x}, not {expected:#x}, \
                 of {of_element:#x?}\n{program}"
            );
        }
    }
}

/// Compares the results of a reduction's kernels with the oracle's.
#[track_caller]
pub(crate) fn check_reduction(program: &Program, inputs: &[Vec<Bits>], launch: Launch) {
    let shapes: Vec<Form> = program.inputs().map(|input| input.form).collect();
    let of_element = |i: usize| {
        let at = |(values, form): (&Vec<Bits>, &Form)| match form {
            Form::Array => values[i],
            Form::Scalar | Form::Number => values[0],
        };
        results(program, &inputs.iter().zip(&shapes).map(at).collect::<Vec<_>>())
    };
    let values: Vec<_> = (0..launch.n).map(of_element).collect();
    let (reduction, ty) = program.reduction().expect("a reduction");
    let expected = gpuvec_oracle::reduced(reduction, ty, &values);
    let expected = expected.map(|value| gpuvec_oracle::stored(&program.outputs()[0], value));
    for limits in LIMITS {
        let found = run(program, &text(program, limits), inputs, launch);
        assert_eq!(Some(found[0][0]), expected, "{launch:?}\n{program}");
    }
}

/// Compares the results of all kernels of a program with the oracle's of the whole program.
#[track_caller]
pub(crate) fn check_kernels(program: &Program, inputs: &[Vec<Bits>], launch: Launch) {
    let element = |i: usize| {
        let inputs = program.inputs().zip(inputs);
        let at = |(input, values): (Input<'_>, &Vec<Bits>)| {
            values[if input.form == Form::Array { i } else { 0 }]
        };
        inputs.map(at).collect()
    };
    let elements: Vec<Vec<Bits>> = (0..launch.n).map(element).collect();
    let expected = gpuvec_oracle::outputs(program, &elements);
    for outputs in outputs_of_kernels(program) {
        let of_kernel = program.of_outputs(&outputs).unwrap();
        for limits in LIMITS {
            let found = run(&of_kernel, &text(&of_kernel, limits), inputs, launch);
            for (found, &output) in found.iter().zip(&outputs) {
                assert_eq!(found, &expected[output], "output {output}, {launch:?}\n{program}");
            }
        }
    }
}

/// The program of each kernel of a reduction: the host computes some from several sums.
pub(crate) fn of_kernels(program: &Program) -> Vec<Program> {
    let (sums, _) = program.of_sums().unwrap();
    (0..sums.outputs().len()).map(|output| sums.of_outputs(&[output]).unwrap()).collect()
}

/// Compiles an expression of arrays x, y, z and a scalar s, all of a type.
#[track_caller]
pub(crate) fn program_of(text: &str, element: Element) -> Program {
    let array = |name| Input { name, element, form: Form::Array };
    let scalar = Input { name: "s", element, form: Form::Scalar };
    let inputs = [array("x"), array("y"), array("z"), scalar];
    compile(text, &inputs).unwrap_or_else(|error| panic!("{error}"))
}
