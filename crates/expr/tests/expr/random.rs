//! Random expressions, token soups and bytes.

use crate::written::{written, written_nodes};
use crate::{compiled, program};
use gpuvec_expr::{MAX_NODES, Output, Program};
use gpuvec_oracle::random::Generator;
use proptest::prelude::*;

/// Checks what a back end relies on.
fn check_invariants(program: &Program) -> Result<(), TestCaseError> {
    let nodes = program.nodes();
    prop_assert!(nodes.len() <= MAX_NODES);
    let mut used = vec![false; nodes.len()];
    for (id, node) in nodes.iter().enumerate() {
        for &operand in node.operands() {
            prop_assert!(usize::from(operand) < id, "operands come first");
            used[usize::from(operand)] = true;
        }
        prop_assert!(!nodes[..id].contains(node), "no two nodes are equal");
    }
    program.results().for_each(|id| used[usize::from(id)] = true);
    prop_assert!(used.iter().all(|&used| used), "every node is used");
    Ok(())
}

/// The most nodes of a written text: the limits of the language let in more.
const MOST_WRITTEN: usize = 1000;

/// Checks that a text's program, written as an expression, compiles to the same program.
fn check_written(text: &str) -> Result<(), TestCaseError> {
    let Ok(first) = compiled(text) else { return Ok(()) };
    check_invariants(&first)?;
    // No text has a value of f16 alone that is not rounded.
    let is_of_halves = |output: &Output| output.reduction().is_some() && output.element.is_half();
    if written_nodes(&first) > MOST_WRITTEN || first.outputs().iter().any(is_of_halves) {
        return Ok(());
    }
    let second = program(&written(&first));
    prop_assert_eq!(first.nodes().len(), second.nodes().len());
    prop_assert_eq!(first.outputs().len(), second.outputs().len());
    prop_assert_eq!(written(&first), written(&second));
    prop_assert_eq!(program(&written(&second)), second);
    Ok(())
}

/// Checks that a text gives a program or a short error whose caret is below the line.
fn check_any_text(text: &str) -> Result<(), TestCaseError> {
    match compiled(text) {
        Ok(program) => check_invariants(&program),
        Err(error) => {
            let error = error.to_string();
            prop_assert!(error.len() < 800, "{error}");
            if text.trim_ascii().is_empty() {
                prop_assert_eq!(error, "the expression is empty: write a formula of the inputs");
                return Ok(());
            }
            let lines: Vec<&str> = error.split('\n').collect();
            prop_assert!(
                matches!(lines[..], [_, line, caret]
                if caret.chars().count() <= line.chars().count() + 1),
                "{error}"
            );
            Ok(())
        }
    }
}

const TOKENS: &[&str] = &[
    "a",
    "m",
    "x_i32",
    "nothing",
    "1",
    "2.5",
    "1e5",
    "0",
    "99999999999999999999",
    "(",
    "(",
    ")",
    ")",
    ",",
    ";",
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "<",
    ">=",
    "==",
    "&",
    "|",
    "~",
    "sqrt(",
    "where(",
    "fma(",
    "f32(",
    "sum(",
    "and",
    "not",
    "if",
    "\n",
    "\u{e9}",
    "=",
    ".",
    "True",
    "0.5",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parentheses_that_python_implies_change_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = Generator::new(&bytes).number(5);
        match (compiled(&text.fewest), compiled(&text.all)) {
            (Ok(fewest), Ok(all)) => {
                check_invariants(&fewest)?;
                prop_assert_eq!(fewest, all, "{}", text.fewest);
            }
            (Err(_), Err(_)) => {}
            (fewest, all) => prop_assert!(false, "{}: {fewest:?}, {all:?}", text.fewest),
        }
    }

    #[test]
    fn a_program_written_as_an_expression_gives_itself(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        reduction in prop::sample::select(vec!["", "sum", "mean", "argmin", "norm", "max"]),
    ) {
        let text = format!("{reduction}({})", Generator::new(&bytes).number(4).fewest);
        check_written(&text)?;
    }

    #[test]
    fn several_formulas_written_as_an_expression_give_their_program(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        check_written(&Generator::new(&bytes).formulas(3))?;
    }

    #[test]
    fn random_tokens_give_a_program_or_an_error(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..60), blanks: bool,
    ) {
        check_any_text(&tokens.join(if blanks { " " } else { "" }))?;
    }

    #[test]
    fn random_bytes_give_a_program_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check_any_text(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn random_ascii_gives_a_program_or_an_error(text in "[ -~\n\t]{0,300}") {
        check_any_text(&text)?;
    }
}
