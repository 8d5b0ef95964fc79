//! Evaluates a function of f64 for other programs: arguments on standard input, results on output.
//!
//!     evaluate exp < arguments > results
//!
//! Both are little-endian doubles. A function of two arguments takes pairs.

use gpuvec_math::{Scalar, double};
use std::io::{Read, Write, stdin, stdout};

macro_rules! results {
    ($wanted:ident $numbers:ident
     $($op:ident $name:ident($($x:ident)+) $loops:ident $cost:tt $oracle:ident;)*) => {
        match $wanted {
            $(stringify!($name) => {
                let evaluate = |[$($x),+]: [f64; [$(stringify!($x)),+].len()]| {
                    double::$name(&Scalar, $($x),+)
                };
                $numbers.as_chunks().0.iter().map(|&arguments| evaluate(arguments)).collect()
            })*
            other => panic!("{other} is not a function of f64"),
        }
    };
}

fn main() -> std::io::Result<()> {
    let name = std::env::args().nth(1).expect("the first argument is the function's name");
    let mut bytes = Vec::new();
    stdin().read_to_end(&mut bytes)?;
    let (chunks, _) = bytes.as_chunks::<8>();
    let numbers: Vec<f64> = chunks.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect();
    let name = name.as_str();
    let results: Vec<f64> = gpuvec_math::functions!(results! name numbers);
    let bytes: Vec<u8> = results.iter().flat_map(|result| result.to_le_bytes()).collect();
    stdout().write_all(&bytes)
}
