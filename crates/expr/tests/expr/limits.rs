//! The limits: what is just within them compiles, on a small stack, and what is beyond is an error.

use crate::{array, compiled};
use gpuvec_expr::{Element, Input, MAX_DEPTH, MAX_INPUTS, MAX_NAME, MAX_NODES, MAX_TEXT, compile};

/// More than `compile` needs for any text, with what the thread itself takes. Builds that are not optimised
/// have larger frames.
const STACK: usize = if cfg!(debug_assertions) { 256 << 10 } else { 64 << 10 };

/// Texts with `n` levels, of every part of the grammar that nests.
fn nested(n: usize) -> Vec<String> {
    [
        ("(", "a", ")"),
        ("-", "a", ""),
        ("1**", "1", ""),
        ("sqrt(", "a", ")"),
        ("a + 1 * (", "a", ")"),
    ]
    .map(|(before, inner, after)| before.repeat(n) + inner + &after.repeat(n))
    .into()
}

/// Every part of the grammar that nests, behind operators of every strength that wait for it: what comes
/// before a value, and behind it.
fn parts() -> Vec<(String, &'static str)> {
    let nests = [
        ("(", ")"),
        ("-", ""),
        ("+", ""),
        ("~", ""),
        ("2**", ""),
        ("sqrt(", ")"),
        ("f32(", ",)"),
        ("fma(a,a,", ")"),
        ("nextafter(a,", ")"),
        ("fma(", ",a,a)"),
        ("where(m,", ",a)"),
    ];
    let waiting = ["", "a+b*", "m|m&i<1+2*", "a<=b<a|m&a-b//"];
    let parts =
        nests.map(|(before, after)| waiting.map(|first| (format!("{first}{before}"), after)));
    parts.concat()
}

/// The deepest texts of two parts by turns, which end as they should, too early, or too late.
fn deepest() -> impl Iterator<Item = String> {
    let parts = parts();
    let pairs = parts
        .clone()
        .into_iter()
        .flat_map(move |x| parts.clone().into_iter().map(move |y| [x.clone(), y]));
    pairs.flat_map(|[(before, after), (inner_before, inner_after)]| {
        let opened = (before + &inner_before).repeat(MAX_DEPTH / 2) + "a";
        let closing = inner_after.to_owned() + after;
        [0, MAX_DEPTH / 2, MAX_DEPTH].map(|n| opened.clone() + &closing.repeat(n))
    })
}

#[test]
fn every_text_compiles_on_the_same_small_stack() {
    let check = || {
        for text in nested(MAX_DEPTH) {
            assert!(compiled(&text).is_ok(), "{text}");
        }
        for text in deepest() {
            if let Err(error) = compiled(&text) {
                assert!(!error.to_string().contains("levels are nested"), "{error}");
            }
        }
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(check).expect("a thread");
    assert!(thread.join().is_ok());
}

#[test]
fn deeper_nesting_is_an_error() {
    for n in [MAX_DEPTH + 1, 5_000] {
        for text in nested(n) {
            let error = compiled(&text).expect_err("too deep").to_string();
            assert!(error.starts_with("more than 200 levels are nested"), "{error}");
        }
    }
}

#[test]
fn long_sums_are_not_deep() {
    assert!(compiled("a + b - ".repeat(2000).trim_end_matches(" - ")).is_ok());
}

#[test]
fn programs_have_at_most_so_many_nodes() {
    let sum = |nodes: usize| "a".to_owned() + &"+a".repeat(nodes - 1);
    assert_eq!(compiled(&sum(MAX_NODES)).expect("fits").nodes().len(), MAX_NODES);
    let error = compiled(&sum(MAX_NODES + 1)).expect_err("too many").to_string();
    assert!(error.starts_with("the expression has more than 4096 operations: split it\n"));
}

#[test]
fn each_pass_has_at_most_so_many_nodes() {
    // With the sum, or its result, which is a node of the later pass.
    let sum = |nodes: usize| "a".to_owned() + &"+a".repeat(nodes - 1);
    let whole = compiled(&format!("sum({})", sum(MAX_NODES))).expect("fits");
    assert_eq!(whole.nodes().len(), MAX_NODES);
    let divided = |nodes: usize| compiled(&format!("({}) / sum(a)", sum(nodes)));
    assert_eq!(divided(MAX_NODES - 2).expect("fits").nodes().len(), MAX_NODES);
    let error = divided(MAX_NODES - 1).expect_err("too many").to_string();
    assert!(error.starts_with("the expression has more than 4096 operations: split it"), "{error}");
    assert!(compiled(&format!("sum({})", sum(MAX_NODES + 1))).is_err());
}

#[test]
fn texts_have_at_most_so_many_bytes() {
    assert!(compiled(&("a".to_owned() + &" ".repeat(MAX_TEXT - 1))).is_ok());
    let error = compiled(&" ".repeat(MAX_TEXT + 1)).expect_err("too long").to_string();
    assert_eq!(error, "the expression has 65537 bytes, but at most 65536 are allowed: split it");
}

#[test]
fn there_are_at_most_so_many_inputs() {
    let names: Vec<String> = (0..=MAX_INPUTS).map(|i| format!("x{i}")).collect();
    let inputs: Vec<Input<'_>> = names.iter().map(|name| array(name, Element::F64)).collect();
    let all = names[..MAX_INPUTS].join("+");
    assert_eq!(compile(&all, &inputs[..MAX_INPUTS]).expect("fits").inputs().len(), MAX_INPUTS);
    let error = compile("x0", &inputs).expect_err("too many").to_string();
    assert_eq!(error, "there are 33 inputs, but at most 32 are taken: split the expression");
}

#[test]
fn names_have_at_most_so_many_bytes() {
    let name = "x".repeat(MAX_NAME);
    assert!(compile(&name, &[array(&name, Element::F32)]).is_ok());
}
