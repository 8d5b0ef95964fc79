//! Reductions: the values that the expression's part passes to the compiled part, and the texts around it.

use crate::run::{Launch, check_reduction, of_kernels, program_of};
use crate::values::Random;
use gpuvec_expr::{Element, Reduction};

/// A reduction of elements of a type, if there is one.
fn text(reduction: Reduction, element: Element) -> String {
    let name = reduction.name();
    match (reduction, element) {
        (Reduction::Any | Reduction::All | Reduction::Count, _) => format!("{name}(x < y)"),
        (Reduction::Dot, _) => format!("{name}(x + z, y * s)"),
        // Products of even numbers are soon 0.
        (Reduction::Prod, Element::I64) => format!("{name}(x * y - z | 1)"),
        (Reduction::Prod, _) => format!("{name}(i32(x * y - z) | 1)"),
        _ => format!("{name}(x * y - z)"),
    }
}

#[test]
fn every_reduction_of_every_type() {
    let mut random = Random(5);
    for &element in Element::ALL {
        if element == Element::Bool {
            continue;
        }
        for &reduction in Reduction::ALL {
            for program in of_kernels(&program_of(&text(reduction, element), element)) {
                for n in [1, 2, 31, 33, 128, 129, 1000] {
                    let inputs: Vec<_> = (0..4).map(|_| random.values(element, n)).collect();
                    check_reduction(&program, &inputs, Launch { past: &[1, 0], ..Launch::of(n) });
                }
            }
        }
    }
}

#[test]
fn reductions_of_ordinary_values() {
    let mut random = Random(6);
    let n = 777;
    for &reduction in Reduction::ALL {
        for program in of_kernels(&program_of(&text(reduction, Element::F64), Element::F64)) {
            let mut ordinary = || (random.below(1 << 20) as f64 / 1024.0 - 500.0).to_bits();
            let mut values = || (0..n).map(|_| ordinary()).collect();
            let inputs: Vec<Vec<u64>> = (0..4).map(|_| values()).collect();
            check_reduction(&program, &inputs, Launch::of(n));
        }
    }
}
