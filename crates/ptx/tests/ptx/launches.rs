//! Heads, packs and tails: any length, alignment and grid, and outputs in place.

use crate::run::{Launch, check, program_of};
use crate::values::{Bits, Random};
use gpuvec_expr::{Element, Form, Input, compile};
use gpuvec_ptx::outputs_of_kernels;

const LENGTHS: [usize; 16] = [0, 1, 2, 3, 4, 5, 7, 8, 255, 256, 257, 1023, 1024, 1025, 1031, 4100];
const PAST: [&[usize]; 8] = [&[0], &[1], &[2], &[3], &[0, 1], &[1, 1, 1, 1, 2], &[0, 4], &[3, 0]];

#[test]
fn every_length_and_alignment() {
    let mut random = Random(1);
    for element in [Element::F32, Element::F64, Element::U8, Element::I16, Element::Bool] {
        let inputs: Vec<_> = (0..4).map(|_| random.values(element, 4100)).collect();
        // Threads take one vector at once, and two.
        let texts = match element {
            Element::Bool => ["x & ~y", "exp(f32(x)) > 1.5"],
            _ => ["x + y * s", "exp(x)"],
        };
        for text in texts {
            let program = program_of(text, element);
            for n in LENGTHS {
                for past in PAST {
                    for blocks in [1, 3] {
                        check(&program, &inputs, Launch { blocks, past, ..Launch::of(n) });
                    }
                }
            }
        }
    }
}

#[test]
fn arrays_of_several_widths() {
    let mut random = Random(2);
    let elements = [Element::U8, Element::F64, Element::I16, Element::F32];
    let inputs: Vec<Input<'_>> = ["a", "b", "c", "d"]
        .into_iter()
        .zip(elements)
        .map(|(name, element)| Input { name, element, form: Form::Array })
        .collect();
    let values: Vec<_> = elements.iter().map(|&element| random.values(element, 4100)).collect();
    for text in
        ["a + b + c + d", "f32(a) * d", "where(c < a, a, c)", "b < d", "i64(c)", "c", "exp(b + c)"]
    {
        let program = compile(text, &inputs).unwrap_or_else(|error| panic!("{error}"));
        for n in LENGTHS {
            for past in PAST {
                check(&program, &values, Launch { past, ..Launch::of(n) });
            }
        }
    }
}

#[test]
fn several_outputs() {
    let mut random = Random(4);
    let inputs: Vec<Input<'_>> = [("x", Element::F32), ("v", Element::F32), ("m", Element::U8)]
        .into_iter()
        .map(|(name, element)| Input { name, element, form: Form::Array })
        .collect();
    let values: Vec<_> = inputs.iter().map(|input| random.values(input.element, 4100)).collect();
    for text in ["x + 0.5 * v; v - 2 * x", "x > v; exp(x); m + 1", "f64(x) * v; v; x; i64(m)"] {
        let program = compile(text, &inputs).unwrap_or_else(|error| panic!("{error}"));
        for n in LENGTHS {
            for past in PAST {
                check(&program, &values, Launch { past, ..Launch::of(n) });
            }
        }
    }
    let program = compile("x + v; x - v", &inputs).unwrap();
    for n in LENGTHS {
        check(&program, &values, Launch { in_place: Some(0), ..Launch::of(n) });
        check(&program, &values, Launch { in_place: Some(1), ..Launch::of(n) });
    }
}

/// Numbers from 2048 on are left to the sequences of f64: here in all combinations of the elements of a pack.
#[test]
fn packs_with_elements_that_fast_functions_leave() {
    let numbers = |scale: f32| -> Vec<Bits> {
        let number =
            |i: usize| if i >> 3 >> (i & 7) & 1 == 1 { 1e5 } else { 0.1 } + i as f32 * scale;
        (0..2048 + 3).map(|i| number(i).to_bits().into()).collect()
    };
    let inputs = [0.01, 0.02, 0.03, 0.04].map(numbers);
    for text in ["sin(x)", "cos(y) + sin(x)", "sin(y); cos(x) * y"] {
        let program = program_of(text, Element::F32);
        for past in [&[0][..], &[1], &[1, 2]] {
            for in_place in [None, Some(0), Some(1)] {
                check(&program, &inputs, Launch { past, in_place, ..Launch::of(2048 + 3) });
            }
        }
    }
}

#[test]
fn kernels_of_reductions_run_before_outputs_are_stored() {
    let array = |name| Input { name, element: Element::F32, form: Form::Array };
    let compiled = |text: &str| compile(text, &[array("x"), array("v")]).unwrap();
    for (text, kernels) in [
        ("x", &[&[0][..]][..]),
        ("sum(x)", &[&[0]]),
        ("x; v", &[&[0, 1]]),
        ("sum(x); max(v)", &[&[0], &[1]]),
        ("x + v; sum(x); x - v; any(x < v)", &[&[1], &[3], &[0, 2]]),
    ] {
        assert_eq!(outputs_of_kernels(&compiled(text)), kernels, "{text}");
    }
}

#[test]
fn outputs_in_place() {
    let mut random = Random(3);
    for element in [Element::F32, Element::F64, Element::I32] {
        let program = program_of("x * y - x", element);
        let inputs: Vec<_> = (0..4).map(|_| random.values(element, 1030)).collect();
        for past in PAST {
            for in_place in [Some(0), Some(1)] {
                check(&program, &inputs, Launch { past, in_place, ..Launch::of(1030) });
            }
        }
    }
}

#[test]
fn programs_of_every_size() {
    let mut random = Random(4);
    let inputs: Vec<_> = (0..4).map(|_| random.values(Element::F32, 1030)).collect();
    for terms in [1, 20, 40, 80, 160] {
        let text = vec!["sqrt(x*x + y) / (z + s)"; terms].join(" - x * ");
        let distinct: Vec<String> =
            (0..terms).map(|i| format!("sqrt(x*x + {i}) / (z + s)")).collect();
        for text in [text, distinct.join(" - x * ")] {
            check(
                &program_of(&text, Element::F32),
                &inputs,
                Launch { past: &[1], ..Launch::of(1030) },
            );
        }
    }
}
