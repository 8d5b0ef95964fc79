//! Writes the kernels of some formulas to a folder: what `make usage` and the tests on a GPU take.

use gpuvec_expr::{Element, Input, Shape, compile};
use gpuvec_ptx::Kernel;
use std::path::Path;
use std::{env, fs};

/// Formulas with 1 to 58 operations, each of arrays a to f of f32, or of f64 where the name says it.
const FORMULAS: &[(&str, &str)] = &[
    ("add", "a + b"),
    ("three_ops", "a * b + c * 2"),
    ("eight_ops", "sqrt(a * a + b * b) * 0.5 + c / 3 - d"),
    ("horner", "((((((((((a*0.1+0.2)*a+0.3)*a+0.4)*a+0.5)*a+0.6)*a+0.7)*a+0.8)*a+0.9)*a+1)*a+1.1)"),
    (
        "where_divide",
        "where(a < b, (a*a + b*b) / (c + 2), sqrt(abs(a*b - c*d))) + minimum(a, b) * maximum(c, d) \
         - floor(a) / (1 + b*b) + abs(c) * (d - 0.5) - where(c > d, a, b)",
    ),
    ("exp", "exp(a)"),
    ("log", "log(a)"),
    ("sin", "sin(a)"),
    ("logistic", "1 / (1 + exp(-a))"),
    (
        "black_scholes",
        "a * (0.5 + 0.5*erf((log(a/b) + (0.02 + 0.5*d*d)*c) / (d*sqrt(c)) / sqrt(2.0))) \
         - b * exp(-0.02*c) * (0.5 + 0.5*erf(((log(a/b) + (0.02 + 0.5*d*d)*c) / (d*sqrt(c)) \
         - d*sqrt(c)) / sqrt(2.0)))",
    ),
];

fn main() {
    let folder = env::args().nth(1).expect("the folder to write to");
    fs::create_dir_all(&folder).expect("the folder can be made");
    for element in [Element::F32, Element::F64] {
        for (name, text) in FORMULAS {
            let inputs =
                ["a", "b", "c", "d"].map(|name| Input { name, element, shape: Shape::Array });
            let program = compile(text, &inputs).unwrap_or_else(|error| panic!("{error}"));
            match Kernel::new(&program) {
                Ok(kernel) => {
                    let file = format!("{name}_{}.ptx", element.name());
                    let path = Path::new(&folder).join(file);
                    fs::write(path, kernel.image().to_bytes()).expect("the folder is writable");
                }
                Err(error) => println!("{name}: {error}"),
            }
        }
    }
}
