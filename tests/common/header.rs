//! Reads include/gpuvec.h, which cbindgen lays out line by line.

use std::fs;

/// The header. Tests run in the repository's root.
pub(crate) fn text() -> String {
    fs::read_to_string("include/gpuvec.h").expect("include/gpuvec.h is readable")
}

/// The prototypes, in their order, each on one line.
pub(crate) fn prototypes(header: &str) -> Vec<String> {
    let (_, functions) = header.split_once("extern \"C\" {").expect("the functions' part");
    let is_code = |line: &&str| !line.starts_with("//") && !line.starts_with('#');
    let code: Vec<&str> = functions.lines().filter(is_code).collect();
    let statements = code.join(" ");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    statements.split(';').map(words).filter(|text| text.ends_with(')')).collect()
}

/// The macros that have a value, with it.
pub(crate) fn constants(header: &str) -> Vec<(&str, &str)> {
    let definitions = header.lines().filter_map(|line| line.strip_prefix("#define "));
    definitions.filter_map(|definition| definition.split_once(' ')).collect()
}
