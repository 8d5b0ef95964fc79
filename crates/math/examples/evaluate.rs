//! Evaluates a function of f64 for other programs: arguments on standard input, results on output.
//!
//!     evaluate exp < arguments > results
//!
//! Both are little-endian doubles. A function of two arguments takes pairs.

use gpuvec_math::{Scalar, double};
use std::io::{Read, Write, stdin, stdout};

macro_rules! functions {
    ($wanted:ident, $numbers:ident, { $($one:ident)* }, { $($two:ident)* }) => {
        match $wanted {
            $(stringify!($one) => $numbers.iter().map(|&x| double::$one(&Scalar, x)).collect(),)*
            $(stringify!($two) => {
                $numbers.chunks_exact(2).map(|pair| double::$two(&Scalar, pair[0], pair[1])).collect()
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
    let results: Vec<f64> = functions!(name, numbers, {
        exp exp2 expm1 sinh cosh tanh log log1p log2 log10 erf sin cos tan asin acos atan cbrt
    }, { pow atan2 hypot });
    let bytes: Vec<u8> = results.iter().flat_map(|result| result.to_le_bytes()).collect();
    stdout().write_all(&bytes)
}
