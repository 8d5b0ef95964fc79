//! Writes include/gpuvec.h from the template include/gpuvec.h.in and the declarations that cbindgen generates from
//! src/abi, with a section for each module.

use crate::operations;
use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

/// The types and constants that the header declares in the section of the functions that use them, by the beginnings of
/// their names. The others come before all sections.
const TYPES_OF_SECTIONS: [(&str, &[&str]); 3] = [
    ("Accumulators", &["gpuvec_accumulator_kind"]),
    (
        "Expressions",
        &[
            "gpuvec_type",
            "gpuvec_expr_form",
            "GPUVEC_SCALAR",
            "GPUVEC_NUMBER",
            "GPUVEC_IGNORE_OUTSIDE",
        ],
    ),
    (
        "Settings and library",
        &[
            "gpuvec_place",
            "GPUVEC_PLACE_INHERIT",
            "gpuvec_backend",
            "gpuvec_choice",
            "gpuvec_reason",
            "GPUVEC_PATH_",
            "gpuvec_run",
        ],
    ),
];
/// The section that a program can omit, and the macro that it defines for this.
const OPTIONAL: (&str, &str) = ("Classic functions", "GPUVEC_NO_SHORT_NAMES");
/// The endings of the names of an operation's functions.
const ELEMENTS: [&str; 4] = ["_f32", "_f64", "_i32", "_i64"];
/// The column of the descriptions in the table of functions.
const DESCRIPTIONS: usize = 35;
/// The most bytes of a description.
const SUMMARY: usize = 75;

/// A module of src/abi: its comment, without its title, and the names of the functions that it exports.
struct Section {
    title: String,
    contract: String,
    functions: Vec<String>,
}

/// Returns the text of the header, and the names of all functions. `root` is the package's folder.
pub(crate) fn text(root: &Path) -> (String, Vec<String>) {
    let read = |path: &str| {
        fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let modules = read("src/abi/mod.rs");
    let modules =
        modules.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let section = |module: &str| {
        let by_hand = read(&format!("src/abi/{module}.rs"));
        Section::read(&(by_hand + &operations::functions(module)))
    };
    let sections: Vec<_> = modules.map(section).collect();
    let mut declarations = Declarations::generate(root);
    let table = table(&sections, &declarations);
    let texts: String = sections.iter().map(|section| section.text(&mut declarations)).collect();
    let names = sections.into_iter().flat_map(|section| section.functions).collect();
    let text = read("include/gpuvec.h.in")
        .replace(" * @FUNCTIONS@\n", &table)
        .replace("@VERSION_MACROS@\n", &version_macros())
        .replace("@TYPES@\n\n", &declarations.types(""))
        .replace("@SECTIONS@\n\n", &texts);
    (text, names)
}

impl Section {
    fn read(module: &str) -> Self {
        let comment: Vec<&str> =
            module.lines().map_while(|line| line.strip_prefix("//!")).collect();
        let title =
            comment[0].strip_prefix(" # ").expect("a module of src/abi begins with a title");
        let exported = module.split("extern \"C\" fn ").skip(1);
        Self {
            title: title.to_owned(),
            contract: in_c(&comment[1..]),
            functions: exported.map(|rest| word(rest).to_owned()).collect(),
        }
    }

    fn text(&self, declarations: &mut Declarations) -> String {
        let Self { title, contract, functions } = self;
        let types = declarations.types(title);
        let functions: String = functions.iter().map(|name| declarations.take(name)).collect();
        let (optional, switch) = OPTIONAL;
        let declared = if title == optional {
            format!("#ifndef {switch}\n\n{functions}#endif /* {switch} */\n\n")
        } else {
            types + &functions
        };
        format!("/* == {title} ==\n{contract} */\n\n{declared}")
    }
}

/// The declarations that cbindgen writes, each with its comment.
struct Declarations {
    texts: BTreeMap<String, String>,
    /// Types and constants, in cbindgen's order.
    types: Vec<String>,
}

impl Declarations {
    fn generate(root: &Path) -> Self {
        let mut header = Vec::new();
        // cbindgen sees neither macros nor included files.
        let sources = operations::write_functions();
        sources
            .iter()
            .fold(cbindgen::Builder::new(), |builder, path| builder.with_src(path))
            .with_crate(root)
            .with_config(cbindgen::Config::from_root_or_default(root))
            .generate()
            .expect("src/abi is readable as a C interface")
            .write(&mut header);
        let header = String::from_utf8(header).expect("cbindgen writes UTF-8");
        let mut found = Self { texts: BTreeMap::new(), types: Vec::new() };
        for text in header.trim().split("\n\n").filter(|text| !text.starts_with("#ifdef")) {
            let code = code(text);
            let keywords = ["#define ", "enum ", "typedef struct "];
            let name = match keywords.iter().find_map(|keyword| code.strip_prefix(keyword)) {
                Some(rest) => {
                    found.types.push(word(rest).to_owned());
                    word(rest)
                }
                None => {
                    let before = code.split('(').next().unwrap_or_default();
                    before.rsplit([' ', '*']).next().unwrap_or_default()
                }
            };
            found.texts.insert(name.to_owned(), laid_out(text));
        }
        found
    }

    /// Returns the declaration of a function or a type, which appears in the header once.
    fn take(&mut self, name: &str) -> String {
        self.texts.remove(name).unwrap_or_else(|| panic!("cbindgen does not declare {name}"))
            + "\n\n"
    }

    /// Returns the types and constants of a section, or of none for an empty title.
    fn types(&mut self, section: &str) -> String {
        let section_of = |name: &String| {
            let is_of =
                |beginnings: &&[&str]| beginnings.iter().any(|start| name.starts_with(start));
            TYPES_OF_SECTIONS.iter().find(|(_, names)| is_of(names)).map_or("", |(title, _)| title)
        };
        let names: Vec<_> =
            self.types.iter().filter(|name| section_of(name) == section).cloned().collect();
        names.iter().map(|name| self.take(name)).collect()
    }

    /// Returns the first sentence of a declaration's comment, on one line.
    fn summary(&self, name: &str) -> String {
        let comment = self.texts[name].split("*/").next().unwrap_or_default();
        let lines = comment.lines().map(|line| line.trim_start_matches(['/', '*', ' ']).trim_end());
        let text = lines.collect::<Vec<_>>().join(" ").replace('`', "");
        let text = text.trim_start().split(". ").next().unwrap_or_default().trim_end_matches('.');
        assert!(
            text.len() <= SUMMARY,
            "{name}: its comment's first sentence is too long for the table"
        );
        text.to_owned()
    }
}

/// Makes the table of functions, in sections. The functions of an operation share a row.
fn table(sections: &[Section], declarations: &Declarations) -> String {
    let mut lines = Vec::new();
    for section in sections {
        lines.extend([String::new(), format!("{}:", section.title), String::new()]);
        let mut rows: Vec<(&str, String)> = Vec::new();
        for name in &section.functions {
            let (stem, element) = of_an_operation(name);
            match rows.last_mut() {
                Some((last, names)) if !element.is_empty() && *last == stem => {
                    names.push_str(&format!(", {element}"));
                }
                _ => rows.push((stem, name.clone())),
            }
        }
        lines.extend(rows.iter().map(|(_, names)| {
            let summary = declarations.summary(names.split(',').next().unwrap_or_default());
            format!("    {names:DESCRIPTIONS$}{summary}")
        }));
    }
    lines.iter().skip(1).map(|line| format!(" * {line}").trim_end().to_owned() + "\n").collect()
}

/// Splits the name of an operation's function before its element type. Other names have no second part.
fn of_an_operation(name: &str) -> (&str, &str) {
    let split = |ending: &&str| Some((name.strip_suffix(ending)?, name.len() - ending.len()));
    ELEMENTS.iter().find_map(split).map_or((name, ""), |(stem, at)| (stem, &name[at..]))
}

/// Turns the lines of a module's comment into lines of a C comment. Indents code instead of fencing it.
fn in_c(lines: &[&str]) -> String {
    let mut text = String::new();
    let mut indent = "";
    for line in lines {
        match line.trim() {
            "```c" => indent = "    ",
            "```" => indent = "",
            "" => text.push_str(" *\n"),
            _ => text.push_str(&format!(" * {indent}{}\n", &line[1..])),
        }
    }
    text
}

/// Returns a declaration without its comment.
fn code(text: &str) -> &str {
    text.split_once(" */\n").filter(|_| text.starts_with("/**")).map_or(text, |(_, code)| code)
}

/// Returns the name at the beginning of a text.
fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// Lays out a declaration: puts short comments on one line, and describes each enumeration's type.
fn laid_out(text: &str) -> String {
    let comments: String = text.split_inclusive("*/").map(on_one_line).collect();
    comments.replace(
        "typedef int32_t ",
        "/** The type of the enumeration of this name, in C before C23. */\ntypedef int32_t ",
    )
}

/// Puts the comment at the end of `text` on one line, if it has one line of text and this fits.
fn on_one_line(text: &str) -> String {
    let fits = |comment: &str| comment.find('\n').is_some_and(|width| width + 4 <= 100);
    match text.split_once("/**\n") {
        Some((before, comment)) if comment.lines().count() == 2 && fits(comment) => {
            let line = comment.lines().next().unwrap_or_default().trim_start();
            format!("{before}/**{} */", line.trim_start_matches('*'))
        }
        _ => text.to_owned(),
    }
}

fn version_macros() -> String {
    let part =
        |name| env::var(format!("CARGO_PKG_VERSION_{name}")).expect("cargo sets the version");
    format!(
        "/** The version of this header, MAJOR.MINOR.PATCH; the library's is gpuvec_version(). */\n\
         #define GPUVEC_VERSION_MAJOR {}\n\
         /** The minor version. */\n#define GPUVEC_VERSION_MINOR {}\n\
         /** The patch version. */\n#define GPUVEC_VERSION_PATCH {}\n",
        part("MAJOR"),
        part("MINOR"),
        part("PATCH")
    )
}
