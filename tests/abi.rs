//! Programs built with an older header still run: include/gpuvec.h has everything that
//! tests/abi_baseline.txt lists.
//!
//! `make baselines` adds new facts to the baseline, by UPDATE_ABI=1; it accepts changes and removals only together with a
//! new `GPUVEC_ABI_VERSION`.

use std::{env, fs};

const BASELINE: &str = "tests/abi_baseline.txt";

/// The header, which build.rs lays out line by line. Tests run in the repository's root.
fn header_text() -> String {
    fs::read_to_string("include/gpuvec.h").expect("include/gpuvec.h is readable")
}

fn without_comments(header: &str) -> String {
    let mut parts = header.split("/*");
    let code = parts.next().unwrap_or_default().to_owned();
    parts.fold(code, |code, part| code + part.split_once("*/").expect("the comment ends").1)
}

/// The prototypes, in their order, each on one line. A status is an `int32_t` to programs that are
/// built, whatever the header calls it.
fn prototypes(header: &str) -> Vec<String> {
    let (_, functions) = header.split_once("extern \"C\" {").expect("the functions' part");
    let is_code = |line: &&str| !line.starts_with('#');
    let code: Vec<&str> = functions.lines().filter(is_code).collect();
    let statements = code.join(" ").replace("gpuvec_status ", "int32_t ");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    statements.split(';').map(words).filter(|text| text.ends_with(')')).collect()
}

/// Returns the macros that have a value, with their values.
fn constants(header: &str) -> Vec<(&str, &str)> {
    let definitions = header.lines().filter_map(|line| line.strip_prefix("#define "));
    definitions.filter_map(|definition| definition.split_once(' ')).collect()
}

/// Returns all facts of the header on which built programs rely.
fn interface(header: &str) -> Vec<String> {
    let header = &without_comments(header);
    // Each release has another version, which breaks no program.
    let lasting = |(name, _): &(&str, &str)| !name.starts_with("GPUVEC_VERSION_");
    let constants = constants(header).into_iter().filter(lasting);
    let constants = constants.map(|(name, value)| format!("constant {name} {value}"));
    let functions = prototypes(header).into_iter().map(|text| format!("function {text}"));
    constants.chain(types(header)).chain(functions).collect()
}

/// Returns the values of enumerations, the indexed fields of structures, and the other types.
fn types(header: &str) -> Vec<String> {
    let mut facts = Vec::new();
    let mut holder = String::new();
    let mut fields = 0;
    for line in header.lines().map(str::trim) {
        let fact = line.trim_end_matches([',', ';']);
        if line.starts_with('}') {
            holder.clear();
        } else if !holder.is_empty() && line.contains(" = ") {
            facts.push(format!("{holder} {fact}"));
        } else if !holder.is_empty() && line.ends_with(';') {
            facts.push(format!("{holder} field {fields} {fact}"));
            fields += 1;
        } else if line.starts_with("typedef ") && line.ends_with(';') {
            facts.push(fact.to_owned());
        } else if line.starts_with("enum ") {
            holder = line.to_owned();
        } else if let Some(kind) = line.strip_prefix("typedef ") {
            (holder, fields) = (kind.trim_end_matches(" {").to_owned(), 0);
        }
    }
    facts
}

/// Returns the facts of `of` that `other` lacks.
fn missing<'a>(of: &'a [String], other: &[String]) -> Vec<&'a str> {
    of.iter().filter(|fact| !other.contains(fact)).map(String::as_str).collect()
}

fn version(facts: &[String]) -> Option<&String> {
    facts.iter().find(|fact| fact.starts_with("constant GPUVEC_ABI_VERSION "))
}

/// Returns the facts that a program built with the baseline would miss.
fn broken<'a>(baseline: &'a [String], now: &[String]) -> Vec<&'a str> {
    if version(baseline) == version(now) { missing(baseline, now) } else { Vec::new() }
}

#[test]
fn the_interface_is_the_baselines() {
    let now = interface(&header_text());
    let text = fs::read_to_string(BASELINE).unwrap_or_default();
    let baseline: Vec<String> = text.lines().map(str::to_owned).collect();
    let broken = broken(&baseline, &now);
    assert!(
        broken.is_empty(),
        "built programs rely on these facts; to change them, raise GPUVEC_ABI_VERSION:\n{}",
        broken.join("\n")
    );
    if env::var_os("UPDATE_ABI").is_some() {
        return fs::write(BASELINE, now.join("\n") + "\n").expect("the baseline is writable");
    }
    let changed = [missing(&baseline, &now), missing(&now, &baseline)].concat();
    assert!(
        changed.is_empty(),
        "not in {BASELINE}; to add it, run `make baselines`:\n{}",
        changed.join("\n")
    );
}

const SMALL: &str = "\
#define GPUVEC_H
#define GPUVEC_VERSION_MAJOR 0
#define GPUVEC_ABI_VERSION 1
enum place
#if defined(__cplusplus)
  : int32_t
#endif
 {
    /** The first. */
    FIRST = 0,
};
typedef int32_t place;
typedef struct run {
    /**
     * A comment;
     */
    int32_t backend;
    const char *path;
} run;
extern \"C\" {
gpuvec_status add(const float *a,
                  size_t n);
}
";

#[test]
fn every_kind_of_fact_is_found() {
    let facts = [
        "constant GPUVEC_ABI_VERSION 1",
        "enum place FIRST = 0",
        "typedef int32_t place",
        "struct run field 0 int32_t backend",
        "struct run field 1 const char *path",
        "function int32_t add(const float *a, size_t n)",
    ];
    assert_eq!(interface(SMALL), facts);
}

#[test]
fn a_change_breaks_and_an_addition_does_not() {
    let now = interface(SMALL);
    let after = |from: &str, to: &str| {
        let changed = SMALL.replace(from, to);
        assert_ne!(changed, SMALL);
        let changed = interface(&changed);
        broken(&now, &changed).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(after("FIRST = 0", "FIRST = 1"), ["enum place FIRST = 0"]);
    assert_eq!(after("    FIRST = 0,\n", ""), ["enum place FIRST = 0"]);
    assert_eq!(after("size_t n", "int n"), ["function int32_t add(const float *a, size_t n)"]);
    let inserted = after("    int32_t backend", "    int32_t new;\n    int32_t backend");
    assert_eq!(inserted, [now[3].clone(), now[4].clone()]);
    assert!(after("};", "    SECOND = 1,\n};").is_empty());
    assert!(after("} run", "    int32_t new;\n} run").is_empty());
    assert!(after("ABI_VERSION 1", "ABI_VERSION 2").is_empty());
}
