//! The fast functions of f32 beside their sequences of f64, through the loops of every instruction set.

use super::{BlockProgram, Range};
use crate::arch::Isa;
use crate::arch::float_modes::FloatModes;
use crate::call::Binding;
use gpuvec_expr::{Element, Form, Input, compile};
use gpuvec_math::Scalar;
use std::env;
use std::hint::black_box;
use std::thread;

const BLOCK: u32 = 1 << 16;
const BLOCKS: u32 = 1 << 16;

type Function = fn(&[f32], &mut [f32]);
type OfElement = fn(f32) -> f32;
/// The bits of an input, of its result, and of the right one.
type Wrong = (u32, u32, u32);

/// A function as a program for an instruction set.
fn program(name: &str, isa: Isa) -> BlockProgram {
    let x = Input { name: "x", element: Element::F32, form: Form::Array };
    BlockProgram::new(&compile(&format!("{name}(x)"), &[x]).expect("a function"), isa)
        .expect("memory")
}

/// Returns the distance of inputs in a block. An emulated processor takes long: GPUVEC_TEST_STEP leaves most of them out.
fn step_in_block() -> usize {
    env::var("GPUVEC_TEST_STEP").map_or(1, |step| step.parse().expect("a number"))
}

/// Returns the wrong results on some blocks of consecutive inputs, at most one of each block.
fn wrong(program: &BlockProgram, exact: Function, blocks: impl Iterator<Item = u32>) -> Vec<Wrong> {
    let mut scratch = program.scratch(BLOCK as usize).expect("memory");
    let [mut found, mut right] = [const { Vec::new() }; 2].map(|mut results: Vec<f32>| {
        results.resize(BLOCK as usize, 0.0);
        results
    });
    let mut wrong = Vec::new();
    for block in blocks {
        let places = (0..BLOCK).step_by(step_in_block());
        let inputs: Vec<f32> = places.map(|i| f32::from_bits(block * BLOCK + i)).collect();
        let (bindings, arrays) = (&[Binding::Array], &[inputs.as_ptr().cast()]);
        let outputs = &[found.as_mut_ptr().cast()];
        // SAFETY: the input and the output have as many elements.
        let range = unsafe { Range::new(bindings, arrays, outputs, inputs.len()) };
        program.map(&mut scratch, range);
        exact(&inputs, &mut right);
        let bits = |x: f32| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() };
        let results =
            found.iter().zip(&right).map(|(found, right)| (found.to_bits(), bits(*right)));
        let all = inputs.iter().zip(results).map(|(x, (found, right))| (x.to_bits(), found, right));
        wrong.extend(all.clone().find(|(_, found, right)| found != right));
    }
    wrong
}

/// Returns the wrong results with every instruction set that has a fast sequence.
fn wrong_in_versions(name: &str, exact: Function, step: usize, blocks: &[u32]) -> Vec<Wrong> {
    let isas = Isa::all().filter(|isa| isa.has_fma());
    let programs = isas.map(|isa| program(name, isa));
    // Every other block.
    let find_half = |program: &BlockProgram, first: usize| {
        let all = (0..BLOCKS).step_by(step).chain(blocks.iter().copied());
        wrong(program, exact, all.skip(first).step_by(2))
    };
    let found = programs.flat_map(|program| {
        thread::scope(|scope| {
            let program = &program;
            let half = scope.spawn(move || find_half(program, 1));
            let mut found = find_half(program, 0);
            found.extend(half.join().expect("the other thread does not panic"));
            found
        })
    });
    found.collect()
}

/// Evaluates a function, from one array to another or in place.
fn results(program: &BlockProgram, mut inputs: Vec<f32>, in_place: bool) -> Vec<u32> {
    let mut scratch = program.scratch(inputs.len()).expect("memory");
    let mut apart = vec![0.0_f32; inputs.len()];
    let to = if in_place { inputs.as_mut_ptr() } else { apart.as_mut_ptr() };
    let (arrays, outputs) = (&[inputs.as_mut_ptr().cast_const().cast()], &[to.cast()]);
    // SAFETY: the input and the output have as many elements, and are the same or apart.
    let range = unsafe { Range::new(&[Binding::Array], arrays, outputs, inputs.len()) };
    program.map(&mut scratch, range);
    if in_place { &inputs } else { &apart }.iter().map(|y| y.to_bits()).collect()
}

/// Returns whether the results for an array are right whose elements begin each period with a run of some from 2048 on,
/// which sine and tangent leave to f64.
fn is_right(
    program: &BlockProgram, exact: OfElement, len: usize, [period, run]: [usize; 2],
) -> bool {
    let first = |i: usize| if (i + 1) % period < run { 1e5 } else { 0.1 };
    let inputs: Vec<f32> = (0..len).map(|i| first(i) + i as f32 / 32.0).collect();
    let right: Vec<u32> = inputs.iter().map(|x| exact(*x).to_bits()).collect();
    [false, true].iter().all(|in_place| results(program, inputs.clone(), *in_place) == right)
}

#[test]
fn elements_left_to_f64_may_be_anywhere() {
    const RUNS: [[usize; 2]; 7] =
        [[1, 1], [2, 1], [64, 16], [64, 17], [700, 1], [700, 650], [5000, 1700]];
    // Loop of the tangent take more vectors at once.
    let functions: [(&str, OfElement); 2] =
        [("sin", |x| gpuvec_math::sin(&Scalar, x)), ("tan", |x| gpuvec_math::tan(&Scalar, x))];
    for isa in Isa::all().filter(|isa| isa.has_fma()) {
        for (name, exact) in functions {
            let program = program(name, isa);
            for runs in RUNS {
                for len in [1, 32, 33, 96, 511, 512, 1000, 3585, 20_011] {
                    let is_right = is_right(&program, exact, len, runs);
                    assert!(is_right, "{name} {isa:?} {len} {runs:?}");
                }
            }
        }
    }
}

/// Returns the inputs from 0.01 to 80 for which a fast sequence meets a subnormal operand or result, which takes some
/// processors 100 times as long.
fn with_subnormals(fast: impl Fn(f32) -> (f32, bool)) -> Vec<f32> {
    let meets_one = |x: &f32| {
        FloatModes::IEEE.set();
        black_box(fast(black_box(*x)));
        FloatModes::get().met_a_subnormal()
    };
    (0..4000).map(|i| 0.01 * 1.002_25_f32.powi(i)).filter(meets_one).collect()
}

/// Blocks with the ends of ranges and of tables, with multiples of π, 1 and -1, infinities and NaNs.
const HARD: [u32; 61] = [
    0x0000, 0x0080, 0x3cb1, 0x3d31, 0x3dc9, 0x3e49, 0x3f42, 0x3f7c, 0x3f80, 0x3f82, 0x3fc2, 0x4049,
    0x40c9, 0x42ae, 0x42b1, 0x42fb, 0x44ff, 0x4500, 0x7f7f, 0x7f80, 0x7fc0, 0x8000, 0xbcb1, 0xbf7f,
    0xbf80, 0xc2ae, 0xc2fb, 0xff80, 0x0d7f, 0x0d80, 0x3c93, 0x3d06, 0x3d12, 0x3f7f, 0x407b, 0x4080,
    0x4274, 0x7d04, 0xbc93, 0x3c98, 0x3f31, 0x3fcb, 0x4110, 0x4112, 0xc110, 0x42b0, 0x3d49, 0x3fc9,
    0xbfc9, 0x0001, 0x677f, 0x6780, 0x4185, 0xc18f, 0xc190, 0x3c7f, 0x3c80, 0x3cff, 0x3d00, 0x5f7f,
    0x5f80,
];

macro_rules! functions {
    ($($name:ident)*) => {
        $(mod $name {
            fn exact(inputs: &[f32], results: &mut [f32]) {
                for (x, result) in inputs.iter().zip(results) {
                    *result = gpuvec_math::$name(&super::Scalar, *x);
                }
            }

            #[test]
            fn has_its_bits_on_a_sample() {
                let name = stringify!($name);
                assert_eq!(super::wrong_in_versions(name, exact, 1031, &super::HARD), []);
            }

            #[test]
            fn meets_no_subnormals_for_ordinary_inputs() {
                assert_eq!(super::with_subnormals(|x| gpuvec_math::fast::$name(&super::Scalar, x)), []);
            }

            #[test]
            #[ignore = "takes a minute on two cores (make every-float)"]
            fn has_its_bits_on_every_input() {
                assert_eq!(super::wrong_in_versions(stringify!($name), exact, 1, &[]), []);
            }
        })*
    };
}

functions! { exp exp2 expm1 log log1p log2 log10 sin cos atan asin acos erf tanh sinh cosh asinh acosh atanh tan cbrt }
