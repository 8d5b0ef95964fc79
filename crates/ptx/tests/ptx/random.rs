//! Random programs.

use crate::run::{Launch, check, check_kernels};
use crate::values::Random;
use gpuvec_expr::compile;
use gpuvec_oracle::random::{Generator, INPUTS};

const PROGRAMS: usize = 3000;
const MORE_PROGRAMS: usize = 100_000;

fn check_programs(count: usize) {
    let mut random = Random(11);
    for number in 0..count {
        let choices: Vec<u8> = (0..120).map(|_| random.next() as u8).collect();
        let mut generator = Generator::new(&choices);
        let text = if number % 4 == 0 { generator.bool(5) } else { generator.number(5) };
        let Ok(program) = compile(&text.fewest, &INPUTS) else { continue };
        let n = 1 + random.below(40);
        let inputs: Vec<_> = INPUTS.iter().map(|input| random.values(input.element, n)).collect();
        let past = [&[0][..], &[1], &[0, 1], &[3]][random.below(4)];
        check(&program, &inputs, Launch { past, ..Launch::of(n) });
    }
}

#[test]
fn random_programs() {
    check_programs(PROGRAMS);
}

#[test]
fn random_formulas() {
    let mut random = Random(12);
    let (mut compiled, mut mixed) = (0, 0);
    while compiled < PROGRAMS / 4 {
        let choices: Vec<u8> = (0..160).map(|_| random.next() as u8).collect();
        let text = Generator::new(&choices).formulas(3);
        let Ok(program) = compile(&text, &INPUTS) else { continue };
        compiled += 1;
        let kernels = gpuvec_ptx::outputs_of_kernels(&program).len();
        mixed += usize::from(kernels > 1 && kernels < program.outputs().len());
        let n = 1 + random.below(40);
        let inputs: Vec<_> = INPUTS.iter().map(|input| random.values(input.element, n)).collect();
        let past = [&[0][..], &[1], &[0, 1], &[3]][random.below(4)];
        let (sums, _) = program.of_sums().unwrap();
        check_kernels(&sums, &inputs, Launch { past, ..Launch::of(n) });
    }
    assert!(mixed > PROGRAMS / 40, "{mixed} programs of both kinds of kernels");
}

#[test]
#[ignore = "takes minutes"]
fn many_random_programs() {
    check_programs(MORE_PROGRAMS);
}
