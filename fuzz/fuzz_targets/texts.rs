//! Any bytes as the text of an expression, and any parts of texts, as programs and as kernels: millions
//! of them in minutes. What the library does with texts is the target `expressions`.

#![no_main]

mod parts;

use gpuvec_expr::{Element, Form, Input, MAX_NODES, compile};
use gpuvec_ptx::{Kernel, NAME, template};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Case<'a> {
    inputs: [u8; 4],
    text: &'a [u8],
}

fuzz_target!(|case: Case<'_>| {
    if let Ok(text) = str::from_utf8(case.text) {
        check(&case, text);
    }
    check(&case, &parts::joined(case.text));
});

/// The error of too many reductions, which has no place in the text.
const OF_REDUCTIONS: &str = "reductions inside formulas, but at most";

/// A text is refused with a reason and, unless all of it is at fault, the place; or it is a program.
fn check(case: &Case<'_>, text: &str) {
    let inputs = [0, 1, 2, 3].map(|i| declared(parts::NAMES[i], case.inputs[i]));
    match compile(text, &inputs) {
        Err(error) => {
            let shown = error.to_string();
            let mut lines = shown.lines();
            assert!(lines.next().is_some_and(|message| !message.is_empty()), "{text:?}");
            let (line, caret) = (lines.next(), lines.next());
            let width = line.map(|line| line.chars().count());
            assert!(caret.map(str::len) <= width.map(|width| width + 1), "{text:?}: {shown}");
            let has_no_place = text.trim_ascii().is_empty() || shown.contains(OF_REDUCTIONS);
            assert_eq!(caret.is_none(), has_no_place, "{text:?}: {shown}");
        }
        Ok(program) => {
            let nodes = program.nodes();
            assert!(nodes.len() <= MAX_NODES && compile(text, &inputs).as_ref() == Ok(&program));
            for (id, node) in nodes.iter().enumerate() {
                assert!(node.operands().iter().all(|&operand| usize::from(operand) < id));
            }
            let lines = program.to_string().lines().count();
            assert!(lines == nodes.len() + program.outputs().len() || !program.before().is_empty());
            // Kernels take longer, and are as different as their programs' nodes. A variance has two.
            if nodes.len() <= 16 && program.of_sums().unwrap().0 == program {
                assert_eq!(template(&program).is_some(), program.reduction().is_some());
                assert!(!Kernel::new(NAME, &program, FRAME).image().is_empty());
            }
        }
    }
}

/// The part of a reduction's compiled kernel that depends on the expression.
const FRAME: &str = "ELEMENTS %a, %b, %c, %d, %e, %f, %g, %h, %first, %count;\nFINISH %result;\n";

/// An input of any type; numbers are of two.
fn declared(name: &str, byte: u8) -> Input<'_> {
    let form = [Form::Array, Form::Array, Form::Scalar, Form::Number][usize::from(byte >> 6)];
    let elements = match form {
        Form::Number => &[Element::I64, Element::F64],
        _ => Element::ALL,
    };
    Input { name, element: elements[usize::from(byte) % elements.len()], form }
}
