//! Times expressions on one core: `cargo bench --bench expression -- 100000 f32 'a*b + c'`.
//!
//! Prints nanoseconds for each element with the instructions of each version: the least of many runs.
//! The inputs a, b, c and d are arrays of the type, with numbers from 0.5 to 1.5.
//! benches/expressions.py compares these times with numexpr's and with compiled loops'.

#[path = "../src/cpu/exact/mod.rs"]
#[expect(dead_code, reason = "sums without a state are not measured")]
mod exact;
#[path = "../src/cpu/expression/mod.rs"]
#[allow(dead_code, unused_imports, reason = "its tests need a main of their own")]
mod expression;
#[path = "../src/cpu/fold.rs"]
#[allow(dead_code, unused_imports, reason = "as above")]
mod fold;

#[path = "../src/tuning.rs"]
#[allow(dead_code, reason = "the sizes of other calls")]
mod tuning;

use exact::Version;
use expression::{BlockProgram, BlockReduction, Operand, ReductionVisitor, visit};
use gpuvec_expr::{Element, Input, Program, Shape, compile};
use gpuvec_ops::Accumulator;
use std::ffi::c_void;
use std::hint::black_box;
use std::time::{Duration, Instant};

const INPUTS: [&str; 4] = ["a", "b", "c", "d"];

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let mut next = || arguments.next().expect("n, an element type and an expression");
    let n: usize = next().parse().expect("n is a number");
    let name = next();
    let element = *Element::ALL.iter().find(|e| e.name() == name).expect("an element type");
    let text = next();
    let inputs = INPUTS.map(|name| Input { name, element, shape: Shape::Array });
    let program = compile(&text, &inputs).unwrap_or_else(|error| panic!("{error}"));
    let arrays: Vec<Vec<u64>> = (0..INPUTS.len()).map(|seed| array(element, n, seed)).collect();
    let blocks = BlockProgram::new(&program, Version::detect()).expect("supported");
    println!("expected {:.4}", f64::from(blocks.cost()) / 1000.0);
    for version in [Version::Baseline, Version::Avx2, Version::Avx512] {
        if version <= Version::detect() {
            let time = time(&program, version, &arrays, n);
            println!("{version:?} {:.4}", time.as_secs_f64() * 1e9 / n as f64);
        }
    }
}

/// Numbers from 0.5 to 1.5, or integers from 50 to 150, in words.
fn array(element: Element, n: usize, seed: usize) -> Vec<u64> {
    let fraction = |i: usize| ((i + seed) as f64 * 0.618_033_988_749_894_9).fract() + 0.5;
    let mut words = vec![0; n + 8];
    let bytes = words.as_mut_ptr().cast::<u8>();
    for i in 0..n {
        // SAFETY: a word for each element.
        unsafe {
            match element {
                Element::F32 => bytes.cast::<f32>().add(i).write(fraction(i) as f32),
                Element::F64 => bytes.cast::<f64>().add(i).write(fraction(i)),
                Element::I32 => bytes.cast::<i32>().add(i).write((fraction(i) * 100.0) as i32),
                Element::I64 => bytes.cast::<i64>().add(i).write((fraction(i) * 100.0) as i64),
                Element::Bool => bytes.add(i).write(u8::from(fraction(i) > 1.0)),
                _ => panic!("{} is only widened", element.name()),
            }
        }
    }
    words
}

fn time(program: &Program, version: Version, arrays: &[Vec<u64>], n: usize) -> Duration {
    let blocks = BlockProgram::new(program, version).expect("supported");
    let operands: Vec<Operand> =
        arrays.iter().map(|array| Operand::Array(array.as_ptr().cast())).collect();
    let Some(reduction) = program.reduction() else {
        let mut out = vec![0_u64; n];
        return least(|| {
            let mut scratch = blocks.scratch(n).expect("memory");
            let out = out.as_mut_ptr().cast::<c_void>();
            // SAFETY: the arrays and the output have a word for each element.
            unsafe { blocks.map(&mut scratch, black_box(&operands), out, n) };
        });
    };
    let ty = program.nodes()[usize::from(program.results()[0])].ty;
    visit(reduction, ty, Reducing { blocks, operands, n }).expect("a reduction")
}

struct Reducing {
    blocks: BlockProgram,
    operands: Vec<Operand>,
    n: usize,
}

impl ReductionVisitor for Reducing {
    type Result = Duration;

    fn visit<R: BlockReduction>(self) -> Duration {
        let Reducing { blocks, operands, n } = &self;
        least(|| {
            let mut scratch = blocks.scratch(*n).expect("memory");
            let mut state = R::Accumulator::IDENTITY;
            // SAFETY: the arrays have a word for each element.
            unsafe { blocks.accumulate::<R>(&mut scratch, black_box(operands), 0, *n, &mut state) };
            black_box(R::Accumulator::finish(&state));
        })
    }
}

/// The least time of runs in a third of a second.
fn least(mut run: impl FnMut()) -> Duration {
    let begin = Instant::now();
    let mut least = Duration::MAX;
    while begin.elapsed() < Duration::from_millis(300) {
        let start = Instant::now();
        run();
        least = least.min(start.elapsed());
    }
    least
}
