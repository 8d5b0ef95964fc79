//! Large programs: their kernels are small, and compute the same.

use crate::operations::{takes, text_of};
use crate::run::{Launch, check, check_reduction, program_of, text};
use crate::values::Random;
use gpuvec_expr::{Element, MAX_NODES, Op, Program, Rule};
use gpuvec_ptx::Limits;

/// Bytes of the largest kernel.
const MOST_BYTES: usize = 1 << 20;

/// Terms, each of its number.
fn joined(terms: usize, operator: &str, term: impl Fn(usize) -> String) -> String {
    (0..terms).map(term).collect::<Vec<_>>().join(operator)
}

/// Counts the lines of a text that begin like this.
fn count(text: &str, start: &str) -> usize {
    text.lines().filter(|line| line.starts_with(start)).count()
}

fn values(random: &mut Random, element: Element, n: usize) -> Vec<Vec<u64>> {
    (0..4).map(|_| random.values(element, n)).collect()
}

/// Checks the kernel of a program that is almost as large as the language allows.
#[track_caller]
fn check_size(program: &Program) {
    assert!(program.nodes().len() > MAX_NODES * 3 / 4, "{} operations", program.nodes().len());
    let bytes = text(program, Limits::USUAL).len();
    assert!(bytes < MOST_BYTES, "{bytes} bytes of {:?}", program.nodes().last());
}

#[test]
fn the_most_terms_of_each_operation() {
    for element in [Element::I32, Element::I64, Element::F32, Element::F64] {
        for &op in Op::ALL.iter().filter(|&&op| takes(op, element)) {
            let is_comparison = op.rule() == Rule::Comparison;
            let term = |k: usize| match is_comparison {
                true => format!("({})", text_of(op, &format!("(x + {k})"))),
                false => text_of(op, &format!("(x + {k})")),
            };
            let (operator, reduction) =
                if is_comparison { (" & ", "count") } else { (" + ", "sum") };
            for reduction in ["", reduction] {
                let program = |terms| {
                    let text = format!("{reduction}({})", joined(terms, operator, term));
                    program_of(&text, element)
                };
                let [two, three] = [2, 3].map(|terms| program(terms).nodes().len());
                check_size(&program(2 + (MAX_NODES - two) / (three - two)));
            }
        }
    }
}

#[test]
fn chains_of_divisions() {
    let mut random = Random(12);
    for element in [Element::I32, Element::I64, Element::F32, Element::F64] {
        let inputs = values(&mut random, element, 5);
        for operator in ["/", "//", "%"] {
            let program =
                program_of(&format!("x{}", format!(" {operator} y").repeat(4000)), element);
            check_size(&program);
            check(&program, &inputs, Launch::of(5));
        }
    }
}

#[test]
fn a_thousand_tangents() {
    let mut random = Random(13);
    let tangents = joined(1000, " + ", |k| format!("tan(x * {k}.5)"));
    for element in [Element::F32, Element::F64] {
        let inputs = values(&mut random, element, 5);
        let program = program_of(&tangents, element);
        check(&program, &inputs, Launch::of(5));
        let kernel = text(&program, Limits::USUAL);
        assert_eq!(count(&kernel, ".func (.reg"), 1);
        assert_eq!(count(&kernel, "call (%e"), 1000);
        let program = program_of(&format!("norm({tangents})"), element);
        check_size(&program);
        check_reduction(&program, &inputs, Launch::of(5));
    }
}

#[test]
fn every_function_once() {
    let mut random = Random(14);
    // NaNs and infinities would hide the others.
    let term = |&op: &Op| {
        let value = text_of(op, "x");
        format!("where(abs({value}) < 8, {value}, 0)")
    };
    let sum = Op::FUNCTIONS.iter().map(term).collect::<Vec<_>>().join(" + ");
    for element in [Element::F32, Element::F64] {
        let inputs = values(&mut random, element, 40);
        check(&program_of(&sum, element), &inputs, Launch::of(40));
        check_reduction(&program_of(&format!("sum({sum})"), element), &inputs, Launch::of(40));
    }
}

#[test]
fn values_that_later_parts_use() {
    let mut random = Random(15);
    let inputs = values(&mut random, Element::I64, 9);
    let products = |k: usize| format!("(x * {k} + y)");
    let forward = joined(600, " + ", products);
    let backward = joined(600, " - ", |k| products(599 - k));
    let less = joined(500, " | ", |k| format!("(x % (y + {k}) < {k})"));
    for text in [
        format!("{forward} - {backward}"),
        format!("where({less}, x, y // z) % s"),
        format!("{less} & (z < s)"),
    ] {
        check(&program_of(&text, Element::I64), &inputs, Launch::of(9));
    }
}
