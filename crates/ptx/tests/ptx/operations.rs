//! Every operation on every type, on special values.

use crate::run::{Launch, check, program_of};
use crate::values::{Bits, Random, special};
use gpuvec_expr::{Element, Form, Input, Op, Rule, Type, compile};

/// All combinations of special values of three operands: x changes fastest.
fn combinations(element: Element, arity: usize) -> Vec<Vec<Bits>> {
    let values = special(element);
    let count = values.len();
    let n = count.pow(arity.min(2) as u32);
    let mut random = Random(7);
    let column = |k: usize, random: &mut Random| -> Vec<Bits> {
        (0..n)
            .map(|i| match k {
                0 => values[i % count],
                1 => values[i / count % count],
                _ => random.value(element),
            })
            .collect()
    };
    (0..4).map(|k| column(k, &mut random)).collect()
}

fn text(op: Op) -> String {
    text_of(op, "x")
}

/// An operation on a first operand, y and z.
pub(crate) fn text_of(op: Op, x: &str) -> String {
    let symbol = op.spelling();
    match (op, op.arity()) {
        (Op::Not | Op::Neg, _) => format!("{symbol}{x}"),
        (Op::Where, _) => format!("where({x} < y, y, z)"),
        (op, 1) if Op::FUNCTIONS.contains(&op) => format!("{symbol}({x})"),
        (op, 2) if Op::FUNCTIONS.contains(&op) => format!("{symbol}({x}, y)"),
        (op, 3) if Op::FUNCTIONS.contains(&op) => format!("{symbol}({x}, y, z)"),
        _ => format!("{x} {symbol} y"),
    }
}

/// True if an operation accepts these elements.
pub(crate) fn takes(op: Op, element: Element) -> bool {
    let is_float = matches!(element.widened(), Type::F32 | Type::F64);
    match op.rule() {
        Rule::Logic => element == Element::Bool,
        Rule::Bits => !is_float,
        Rule::Integer => element.widened().is_integer(),
        Rule::Cast => false,
        Rule::FloatOnly => is_float,
        Rule::Select | Rule::Comparison => true,
        _ => element != Element::Bool,
    }
}

#[test]
fn every_operation_on_special_values() {
    let mut checked = 0;
    for &op in Op::ALL {
        for &element in Element::ALL {
            if !takes(op, element) {
                continue;
            }
            let inputs = combinations(element, op.arity());
            let launch = Launch { blocks: 2, ..Launch::of(inputs[0].len()) };
            check(&program_of(&text(op), element), &inputs, launch);
            checked += 1;
        }
    }
    assert!(checked > 200, "{checked} operations");
}

#[test]
fn every_cast() {
    for &element in Element::ALL {
        for to in Element::ALL.iter().filter(|to| to.is_of_results()) {
            let inputs = combinations(element, 1);
            for text in [format!("{}(x)", to.name()), format!("{}(x) == x", to.name())] {
                let program = program_of(&text, element);
                check(&program, &inputs, Launch::of(inputs[0].len()));
            }
        }
    }
}

#[test]
fn functions_of_many_arguments() {
    let mut random = Random(3);
    for element in [Element::F32, Element::F64] {
        for &op in Op::FUNCTIONS {
            let n = 3000;
            let inputs: Vec<_> = (0..4).map(|_| random.values(element, n)).collect();
            check(&program_of(&text(op), element), &inputs, Launch::of(n));
        }
    }
}

#[test]
fn remainders_of_numbers_far_apart() {
    let mut random = Random(9);
    for element in [Element::F32, Element::F64] {
        let n = 5000;
        let inputs: Vec<Vec<Bits>> =
            (0..4).map(|_| (0..n).map(|_| random.next()).collect()).collect();
        let inputs: Vec<Vec<Bits>> = inputs
            .into_iter()
            .map(|values| match element {
                Element::F32 => values.iter().map(|x| x >> 32).collect(),
                _ => values,
            })
            .collect();
        for text in ["x % y", "x // y"] {
            check(&program_of(text, element), &inputs, Launch::of(n));
        }
    }
}

#[test]
fn scalars_of_every_type() {
    for &element in Element::ALL {
        for value in special(element) {
            let inputs = [Input { name: "s", element, form: Form::Scalar }];
            let program = compile("where(s == s, s, s)", &inputs).unwrap_or_else(|e| panic!("{e}"));
            check(&program, &[vec![value]], Launch::of(5));
        }
    }
}

#[test]
fn constants_alone() {
    for text in ["1", "2.5", "1 < 2.5", "f32(0.1)", "i32(7) // 0", "sqrt(f32(2))", "True & False"] {
        let Ok(program) = compile(text, &[]) else { continue };
        check(&program, &[], Launch::of(9));
    }
}
