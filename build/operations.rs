//! Generates the exported functions, and lists in committed files, from the rows of crates/ops/src/rows.rs.

use std::path::Path;
use std::{env, fs};

/// A row: an operation on one or more element types.
struct Row {
    /// The lines of its documentation.
    doc: &'static [&'static str],
    name: &'static str,
    /// The number of input arrays.
    inputs: usize,
    /// The text of the expression.
    formula: &'static str,
    is_reduction: bool,
    has_alpha: bool,
    functions: &'static [Function],
}

/// A line of a row: the operation on one element type.
struct Function {
    /// Sentences that follow the row's documentation.
    doc: &'static [&'static str],
    /// The operation's type in gpuvec_ops.
    operation: &'static str,
    /// The type of the inputs' elements in Rust.
    element: &'static str,
    /// The type of the output's elements in Rust.
    output: &'static str,
}

macro_rules! operations {
    (
        elementwise {
            $($(#[doc = $e_doc:literal])+
            $e_name:literal, $e_inputs:literal inputs, $e_formula:literal by $e_step:ident {
                $($(#[doc = $e_more:literal])* $e:ident $(($alpha:ident))? of $e_type:ident:
                    ($e_a:pat, $e_b:pat) => $e_out:expr;)+
            })+
        }
        reduction {
            $($(#[doc = $r_doc:literal])+
            $r_name:literal, $r_inputs:literal inputs, $r_formula:literal by $r_step:ident {
                $($(#[doc = $r_more:literal])* $r:ident of $r_type:ident => $r_out:ident by $accumulator:ty
                    $(: ($state:pat, $r_a:pat, $r_b:pat) => $added:expr)?;)+
            })+
        }
    ) => {
        const ROWS: &[Row] = &[
            $(Row {
                doc: &[$($e_doc),+],
                name: $e_name,
                inputs: $e_inputs,
                formula: $e_formula,
                is_reduction: false,
                has_alpha: !concat!($($(stringify!($alpha),)?)+).is_empty(),
                functions: &[$(Function {
                    doc: &[$($e_more),*],
                    operation: stringify!($e),
                    element: stringify!($e_type),
                    output: stringify!($e_type),
                }),+],
            },)+
            $(Row {
                doc: &[$($r_doc),+],
                name: $r_name,
                inputs: $r_inputs,
                formula: $r_formula,
                is_reduction: true,
                has_alpha: false,
                functions: &[$(Function {
                    doc: &[$($r_more),*],
                    operation: stringify!($r),
                    element: stringify!($r_type),
                    output: stringify!($r_out),
                }),+],
            },)+
        ];
    };
}

include!("../crates/ops/src/rows.rs");

/// The modules of src/abi with generated functions: true for the module of the reductions.
const MODULES: [(&str, bool); 2] = [("elementwise", false), ("reduce", true)];

/// Returns the generated functions of a module of src/abi in Rust.
pub(crate) fn functions(module: &str) -> String {
    let of_reductions = MODULES.iter().find(|(name, _)| *name == module).map(|(_, is)| *is);
    let rows = ROWS.iter().filter(|row| Some(row.is_reduction) == of_reductions);
    rows.flat_map(|row| row.functions.iter().map(|function| function.in_rust(row))).collect()
}

/// Writes the functions of each module to cargo's output folder. Returns the paths.
pub(crate) fn write_functions() -> Vec<String> {
    let out = env::var("OUT_DIR").expect("cargo names the folder for what is built");
    MODULES
        .map(|(module, _)| {
            let path = format!("{out}/{module}.rs");
            fs::write(&path, functions(module)).expect("the folder is writable");
            path
        })
        .into()
}

impl Row {
    /// The names of the input arrays.
    fn arrays(&self) -> &'static [&'static str] {
        &["a", "b"][..self.inputs]
    }

    /// Returns a text for each input array, with commas between them.
    fn each(&self, text: impl Fn(&str) -> String) -> String {
        self.arrays().iter().map(|name| text(name)).collect::<Vec<_>>().join(", ")
    }

    /// Returns the documentation in Markdown, on one line.
    fn documentation(&self) -> String {
        self.doc.concat().trim().to_owned()
    }
}

impl Function {
    /// Returns the exported function.
    fn in_rust(&self, row: &Row) -> String {
        let Self { doc, operation, element, output } = self;
        let (name, of_row, more) = (row.name, row.documentation(), doc.concat());
        let inputs = row.each(|name| format!("{name}: *const {element}"));
        let arrays = row.arrays().join(", ");
        let (declared, value) = if row.has_alpha {
            (format!("alpha: {element}, "), "(alpha)")
        } else {
            (String::new(), "")
        };
        format!(
            "/// {of_row}{more}
#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn gpuvec_{name}_{element}(
    {declared}{inputs}, out: *mut {output}, n: usize, stream: *mut gpuvec_stream,
) -> Status {{
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe {{
        operation(gpuvec_ops::{operation}{value}, [{arrays}], out, n, stream)
    }})
}}

"
        )
    }

    /// Returns the overloads in gpuvec.hpp. A reduction has a second overload, which returns its result.
    fn in_cpp(&self, row: &Row) -> String {
        let (element, output) = (in_cpp(self.element), in_cpp(self.output));
        let name = row.name;
        let function = format!("gpuvec_{name}_{}", self.element);
        let inputs = row.each(|name| format!("detail::in<{element}> {name}"));
        let arrays = row.arrays().join(", ");
        if row.is_reduction {
            return format!(
                "inline {output} {name}({inputs}) {{ return detail::value<{output}>({function}, {arrays}); }}\n\
                 inline void {name}({inputs}, {output} *result, gpuvec_stream *on) {{\n    \
                     detail::reduce({function}, result, on, {arrays});\n\
                 }}\n"
            );
        }
        let (declared, called) = if row.has_alpha {
            (format!("{element} alpha, "), format!("std::bind_front({function}, alpha)"))
        } else {
            (String::new(), function)
        };
        format!(
            "inline void {name}({declared}{inputs},\n    \
                 detail::out<{output}> result, gpuvec_stream *on = nullptr) {{\n    \
                 detail::for_each({called}, result, on, {arrays});\n\
             }}\n"
        )
    }
}

/// Returns the name of an element type in C++.
fn in_cpp(element: &str) -> &'static str {
    match element {
        "f32" => "float",
        "f64" => "double",
        "i32" => "int32_t",
        "i64" => "int64_t",
        _ => panic!("gpuvec.hpp has no type for {element}"),
    }
}

/// Writes the lists of operations and functions into committed files. `exported` has the names of all functions.
pub(crate) fn write_lists(root: &Path, exported: &[String]) {
    let rows = |text: fn(&Row) -> String| ROWS.iter().map(text).collect::<String>();
    let overloads = |row: &Row| {
        let functions = row.functions.iter().map(|function| function.in_cpp(row));
        format!("/** {} */\n{}", row.documentation(), functions.collect::<String>())
    };
    let in_python = |row: &Row| {
        let types =
            row.functions.iter().map(|one| format!("\"{}\": \"{}\"", one.element, one.output));
        let types = types.collect::<Vec<_>>().join(", ");
        let is_reduction = if row.is_reduction { "True" } else { "False" };
        format!(
            "    \"{}\": (\"{}\", {}, {is_reduction}, {{{types}}}),\n",
            row.name, row.formula, row.inputs
        )
    };
    let in_table = |row: &Row| {
        let alpha = if row.has_alpha { "alpha, " } else { "" };
        let types: Vec<_> = row.functions.iter().map(|one| format!("`{}`", one.element)).collect();
        let [arrays, types] = [row.arrays().join(", "), types.join(" ")];
        format!(
            "| `{}` | {} | `{alpha}{arrays}, out, n, stream` | {types} |\n",
            row.name,
            row.documentation()
        )
    };
    let linked: String = exported.iter().map(|name| format!("    (function){name},\n")).collect();
    fill(root, "include/gpuvec.hpp", &rows(overloads));
    fill(root, "c_examples/header_check.c", &linked);
    fill(root, "python/gpuvec/_library.py", &rows(in_python));
    let table = "| operation | result | arguments | types |\n|---|---|---|---|\n".to_owned()
        + &rows(in_table);
    fill(root, "docs/reference/operations.md", &table);
    fill(
        root,
        "docs/reference/python/operations.md",
        &rows(|row| format!(".. autofunction:: {}\n", row.name)),
    );
}

/// A file's list is between the lines that contain these texts.
const LIST: [&str; 2] = ["Written by build.rs", "End of what build.rs writes"];

/// Replaces a file's list if it changed. Skips a file that does not exist: source packages contain only some of them.
fn fill(root: &Path, path: &str, list: &str) {
    let path = root.join(path);
    let Ok(text) = fs::read_to_string(&path) else { return };
    println!("cargo::rerun-if-changed={}", path.display());
    let [first, last] = LIST.map(|text_of_line| {
        let lines = text.lines().filter(|line| line.contains(text_of_line)).count();
        assert_eq!(lines, 1, "{}: lines with \"{text_of_line}\"", path.display());
        text.find(text_of_line).unwrap_or_default()
    });
    // From the end of the first line to the beginning of the last one.
    let start = first + text[first..].find('\n').map_or(0, |length| length + 1);
    let end = text[..last].rfind('\n').map_or(0, |at| at + 1);
    let filled = format!("{}{list}{}", &text[..start], &text[end..]);
    if filled != text {
        fs::write(&path, filled).expect("a file of the checkout is writable");
    }
}
