//! Records the functions of crates/math: as data they take a fifth of what code that writes them would.

use gpuvec_math::{Recorder, double};
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let recorder = Recorder::default();
    let mut rows = String::new();
    macro_rules! record {
        ($($op:ident $name:ident($($x:ident)+) $loops:ident $cost:tt $oracle:ident;)*) => {
            $({
                let of_f32 = recorder.record(|[$($x),+]| gpuvec_math::$name(&&recorder, $($x),+));
                let of_f64 = recorder.record(|[$($x),+]| double::$name(&&recorder, $($x),+));
                let op = stringify!($op);
                writeln!(rows, "Op::{op} => [{of_f32}, {of_f64}],").expect("text grows");
            })*
        };
    }
    gpuvec_math::functions!(record!);
    let (recordings, constants) = recorder.finish();
    let table = format!(
        "static RECORDINGS: &[u8] = include_bytes!(\"recordings\");\n\
         static CONSTANTS: [u64; {}] = {constants:?};\n\
         fn places(op: Op) -> Option<[usize; 2]> {{\nSome(match op {{\n{rows}_ => return None,\n}})\n}}\n",
        constants.len(),
    );
    let out = env::var("OUT_DIR").expect("cargo names the folder for what is built");
    let write = |name, bytes: &[u8]| fs::write(Path::new(&out).join(name), bytes);
    write("recordings", &recordings).expect("the folder is writable");
    write("recordings.rs", table.as_bytes()).expect("the folder is writable");
}
