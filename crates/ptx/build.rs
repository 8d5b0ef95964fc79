//! Records the functions of crates/math: as data they take a fifth of what code that writes them would.

use gpuvec_math::{Recorder, Recordings, Step, double, fast, steps};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// Records a row of the table: the functions of f32 and f64, and the fast function of f32 if there is one.
macro_rules! record {
    ($recorder:ident $rows:ident
     $($op:ident $name:ident($($x:ident)+) $loops:ident $cost:tt $oracle:ident;)*) => {
        $({
            let recorder = &$recorder;
            let of_f32 = recorder.record(|[$($x),+]| gpuvec_math::$name(&recorder, $($x),+));
            let of_f64 = recorder.record(|[$($x),+]| double::$name(&recorder, $($x),+));
            let fast = record!(@$loops recorder $name $($x)+);
            $rows.push((stringify!($op), [of_f32, of_f64], fast));
        })*
    };
    (@fast $recorder:ident $name:ident $($x:ident)+) => {
        Some($recorder.record_fast(|[$($x),+]| fast::$name(&$recorder, $($x),+)))
    };
    (@$loops:ident $recorder:ident $name:ident $($x:ident)+) => {
        None::<usize>
    };
}

/// The numbers of the tables that a fast function of one argument looks values up in.
fn tables_of(recording: &[u8]) -> BTreeSet<usize> {
    let of_step = |(step, [_, table, _]): (Step, [usize; 3])| {
        matches!(step, Step::Lookup16 | Step::Lookup32).then_some(table)
    };
    let until = |(step, _): &(Step, _)| *step != Step::ReturnIf;
    steps(recording, 1).take_while(until).filter_map(of_step).collect()
}

/// True if a function of f32 tests its error bound, and falls back to a more exact sequence.
fn has_test(recording: &[u8]) -> bool {
    let until_end = steps(recording, 2).take_while(|(step, _)| *step != Step::Return);
    let tests = until_end.filter(|(step, _)| *step == Step::SkipUnless).count();
    assert!(tests <= 1, "src/function.rs leaves out one rare part of a function of f32");
    tests == 1
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let recorder = Recorder::default();
    let mut functions: Vec<(&str, [usize; 2], Option<usize>)> = Vec::new();
    gpuvec_math::functions!(record! recorder functions);
    let Recordings { steps, constants, tables } = recorder.finish();
    let mut groups: Vec<BTreeSet<usize>> = vec![BTreeSet::new()];
    let mut rows = String::new();
    for (op, [of_f32, of_f64], fast) in functions {
        let group = fast.map(|place| tables_of(&steps[place..])).unwrap_or_default();
        let number = groups.iter().position(|known| *known == group).unwrap_or(groups.len());
        if number == groups.len() {
            groups.push(group);
        }
        let has_test = has_test(&steps[of_f32..]);
        let places = format!(
            "of_f32: {of_f32}, of_f64: {of_f64}, fast: {fast:?}, has_test: {has_test}, group: {number}"
        );
        writeln!(rows, "Op::{op} => Places {{ {places} }},").expect("text grows");
    }
    let table = format!(
        "static RECORDINGS: &[u8] = include_bytes!(\"recordings\");\n\
         static CONSTANTS: &[u64] = &{constants:?};\n\
         static TABLES: &[&[u32]] = &[{}];\n\
         static GROUPS: &[&[usize]] = &[{}];\n\
         fn places(op: Op) -> Option<Places> {{\nSome(match op {{\n{rows}_ => return None,\n}})\n}}\n",
        slices(tables.iter().map(|table| table.iter().map(|x| x.to_bits() as usize).collect())),
        slices(groups.iter().map(|group| group.iter().copied().collect())),
    );
    let out = env::var("OUT_DIR").expect("cargo names the folder for what is built");
    let write = |name, bytes: &[u8]| fs::write(Path::new(&out).join(name), bytes);
    write("recordings", &steps).expect("the folder is writable");
    write("recordings.rs", table.as_bytes()).expect("the folder is writable");
}

/// Slices as Rust writes them.
fn slices(lists: impl Iterator<Item = Vec<usize>>) -> String {
    lists.map(|list| format!("&{list:?},\n")).collect()
}
