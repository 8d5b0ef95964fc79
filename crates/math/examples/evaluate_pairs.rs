//! Evaluates a function of two f32 for other programs: pairs on standard input, results on output.
//!
//!     evaluate_pairs pow < pairs > results
//!
//! Both are little-endian floats.

use gpuvec_math::{Scalar, atan2, hypot, pow};
use std::io::{Read, Write, stdin, stdout};

fn main() -> std::io::Result<()> {
    let name = std::env::args().nth(1).expect("the first argument is the function's name");
    let function = match name.as_str() {
        "pow" => pow,
        "atan2" => atan2,
        "hypot" => hypot,
        other => panic!("{other} is not a function of two numbers"),
    };
    let mut bytes = Vec::new();
    stdin().read_to_end(&mut bytes)?;
    let number = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes);
    let (pairs, _) = bytes.as_chunks::<8>();
    let results = pairs.iter().flat_map(|pair| {
        let ([x, y], _) = pair.as_chunks() else { unreachable!("eight bytes are two numbers") };
        function(&Scalar, number(x), number(y)).to_le_bytes()
    });
    stdout().write_all(&results.collect::<Vec<u8>>())
}
