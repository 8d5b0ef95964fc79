//! Rules for the sources: every exported function goes through the guard, nothing else is exported, and modules import
//! in one direction.

use gpuvec_ops::Op;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use syn::{Attribute, Expr, Ident, Item, ItemFn, Stmt, Visibility};

/// Reads a file of the repository, in whose root tests run.
fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns every file under `folder` with this extension.
fn files(folder: impl AsRef<Path>, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of the repository");
    let paths = entries.map(|entry| entry.expect("a readable entry").path());
    paths
        .flat_map(|path| if path.is_dir() { files(path, extension) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect()
}

/// The Rust files that build.rs wrote, which files of src include.
fn written() -> Vec<PathBuf> {
    files(env!("OUT_DIR"), "rs")
}

/// The files of the exported functions: src/abi, and what build.rs wrote for it.
fn interface() -> Vec<PathBuf> {
    [files("src/abi", "rs"), written()].concat()
}

/// Returns the functions that a file exports.
fn exported(path: impl AsRef<Path>) -> Vec<ItemFn> {
    let file = syn::parse_file(&read(path)).expect("Rust");
    let functions = file.items.into_iter().filter_map(|item| match item {
        Item::Fn(function) => Some(function),
        _ => None,
    });
    functions.filter(|function| function.sig.abi.is_some()).collect()
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_unsafe_no_mangle(attribute: &Attribute) -> bool {
    attribute.path().is_ident("unsafe")
        && attribute.parse_args::<Ident>().is_ok_and(|inner| inner == "no_mangle")
}

/// Returns whether the body is one call of a function of `guard`.
fn is_one_guard_call(function: &ItemFn) -> bool {
    let [Stmt::Expr(Expr::Call(call), None)] = &function.block.stmts[..] else { return false };
    let Expr::Path(callee) = &*call.func else { return false };
    let names: Vec<String> =
        callee.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    names.len() == 2
        && names[0] == "guard"
        && ["operation", "call", "choice", "query", "constant", "report"]
            .contains(&names[1].as_str())
}

#[test]
fn every_exported_function_is_public_documented_and_one_guard_call() {
    for path in interface() {
        for function in exported(&path) {
            let place = format!("{} in {}", function.sig.ident, path.display());
            assert!(is_public(&function.vis), "{place} is not `pub`");
            let has = |test: fn(&Attribute) -> bool| function.attrs.iter().any(test);
            assert!(has(is_unsafe_no_mangle), "{place} lacks `#[unsafe(no_mangle)]`");
            assert!(has(|attribute| attribute.path().is_ident("doc")), "{place} has no comment");
            assert!(is_one_guard_call(&function), "the body of {place} is not one call of `guard`");
        }
    }
}

/// A scalar, a handle or a structure of a caller may be at any address.
#[test]
fn callers_values_are_accessed_at_any_address() {
    let files = files("src/abi", "rs").into_iter().chain(["src/run/arguments.rs".into()]);
    for path in files {
        let text = read(&path);
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            let aligned = [".read()", ".write(", "ptr::read(", "ptr::write("];
            let found = aligned.iter().find(|aligned| line.contains(*aligned));
            assert_eq!(found, None, "{}: write read_unaligned or write_unaligned", path.display());
        }
    }
}

/// The modules of src/ and the crates of crates/; each imports only itself and later ones.
const PLACES: &[&str] = &[
    "python", "abi", "run", "objects", "cuda", "cpu", "call", "pool", "process", "arch", "policy",
    "error", "cost", "axes", "ptx", "ops", "math", "expr", "exact",
];

/// The crates of tests and benchmarks, which only these depend on.
const OF_TESTS: &[&str] = &["fake_driver", "emulator", "oracle", "interleavings", "benches"];

/// Checks that a module or crate stands before everything that it imports.
fn check_imports(name: &str, imported: &BTreeSet<String>, file: &Path) {
    let place = |name: &str| PLACES.iter().position(|known| *known == name);
    let own = place(name).unwrap_or_else(|| panic!("{name} is not in PLACES"));
    for other in imported {
        let is_further_on = place(other).is_some_and(|place| place >= own);
        assert!(is_further_on, "{} imports {other}", file.display());
    }
}

/// Returns the modules and the crates whose items a file names.
fn imported(text: &str) -> BTreeSet<String> {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    let paths = text.split("::").zip(text.split("::").skip(1));
    let names = paths.filter_map(|(before, after)| {
        let first = before.rsplit(|c| !in_name(c)).next().unwrap_or_default();
        match (first, first.strip_prefix("gpuvec_")) {
            ("crate", _) => after.split(|c| !in_name(c)).next(),
            (_, Some(name)) => Some(name).filter(|name| [PLACES, OF_TESTS].concat().contains(name)),
            _ => None,
        }
    });
    names.map(str::to_owned).collect()
}

#[test]
fn a_room_imports_only_what_stands_further_on() {
    for path in files("src", "rs") {
        let room = path.strip_prefix("src").expect("a file of src").iter().next();
        let room = room.and_then(|room| room.to_str()).unwrap_or_default().trim_end_matches(".rs");
        let is_test = path.ends_with("tests.rs") || path.iter().any(|folder| folder == "tests");
        // The map of the modules; tests, which may have oracles.
        if room != "lib" && !is_test {
            check_imports(room, &imported(&read(&path)), &path);
        }
    }
}

/// The crates as cargo knows them. One has its folder's name after "gpuvec_", and is imported by no other.
#[test]
fn a_crate_depends_only_on_what_stands_further_on() {
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .output();
    let facts: Value = serde_json::from_slice(&cargo.expect("cargo").stdout).expect("JSON");
    let mut found = 0;
    for package in facts["packages"].as_array().expect("packages") {
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let folder = manifest.parent().and_then(Path::file_name).expect("a folder");
        let Some(name) = package["name"].as_str().expect("a name").strip_prefix("gpuvec_") else {
            continue;
        };
        assert_eq!(name, folder, "the crate's name is not its folder's");
        let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
        let linked = dependencies.filter(|dependency| dependency["kind"] != "dev");
        let imported = linked.filter_map(|dependency| {
            assert!(dependency["rename"].is_null(), "{name} renames {dependency}");
            Some(dependency["name"].as_str()?.strip_prefix("gpuvec_")?.to_owned())
        });
        let imported: BTreeSet<String> = imported.collect();
        if !OF_TESTS.contains(&name) {
            check_imports(name, &imported, manifest);
        }
        found += 1;
    }
    let folders = fs::read_dir("crates").expect("the crates").count();
    assert_eq!(found + 1, folders, "each but find_cuda_helper, which has another crate's name");
}

#[test]
fn nothing_else_is_exported() {
    for path in [files("src", "rs"), written()].concat() {
        let text = read(&path);
        let marked = text.matches("no_mangle").count() + text.matches("export_name").count();
        let is_interface = interface().contains(&path);
        let functions = if is_interface { exported(&path).len() } else { 0 };
        assert_eq!(marked, functions, "{} exports more than `exported` finds", path.display());
    }
}

/// Files that build.rs did not write would bring functions that no test here sees.
#[test]
fn only_files_that_build_rs_wrote_are_included() {
    for path in files("src", "rs") {
        for included in read(&path).split("include!(").skip(1) {
            let is_written = included.starts_with("concat!(env!(\"OUT_DIR\"), ");
            assert!(is_written, "{} includes another file", path.display());
        }
    }
}

#[test]
fn the_c_examples_use_every_exported_function() {
    for function in interface().iter().flat_map(exported) {
        let name = function.sig.ident;
        let usages = [
            ("header_check.c", format!("(function){name},")),
            ("all_functions.c", format!("{name}(")),
        ];
        // All of the family are called by the Python tests.
        let is_family = Op::ALL.iter().any(|op| name == format!("gpuvec_{}", op.kernel()));
        for (file, usage) in &usages[..if is_family { 1 } else { 2 }] {
            let text = read(Path::new("c_examples").join(file));
            assert!(text.contains(usage), "no {usage} in c_examples/{file}");
        }
    }
}

#[test]
fn every_operation_has_its_function() {
    let functions = written().into_iter().flat_map(exported);
    let found: BTreeSet<_> = functions.map(|function| function.sig.ident.to_string()).collect();
    let wanted = Op::ALL.iter().map(|op| format!("gpuvec_{}", op.kernel())).collect();
    assert_eq!(found, wanted);
}
