//! Parts of texts, of which bytes choose: most of what they make is almost right.

use gpuvec_expr::Reduction;
use std::sync::LazyLock;

/// The names of a case's inputs.
pub const NAMES: [&str; 4] = ["a", "b", "c", "k"];

/// Parts that are not the beginnings of calls.
#[rustfmt::skip]
const OTHERS: &[&str] = &[
    "a", "b", "c", "k", "a*b+c", "(a", "b)", "k*", "a", "b", "c", ")", ")", ")", "(", "(",
    "+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", ">", ">=", "&", "|", "~",
    "2", "0.5", "1e9", "7", "-1", "1/3", "1e999", "2147483648", "9223372036854775807", "63", "0", "pi",
    ",", ",", ",", " ", "\n", "True", "nan", "inf", "e", "u8(", "and", "é", "^", "<<", ">>", "**",
    "; ", "; a", "; k", "sum(a)/", "max(b)-",
];

/// The parts: calls of all functions and reductions of the language, and others.
static PARTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let functions = gpuvec_expr::functions().map(|(name, _)| name);
    let reductions = Reduction::ALL.iter().map(|reduction| reduction.name());
    let calls = functions.chain(reductions).map(|name| format!("{name}("));
    let parts: Vec<_> = OTHERS.iter().map(|&part| part.to_owned()).chain(calls).collect();
    assert!(parts.len() <= 256, "a byte chooses a part");
    parts
});

/// The text whose parts the bytes choose.
pub fn joined(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| PARTS[usize::from(byte) % PARTS.len()].as_str()).collect()
}
