//! Writes kernels to a folder, with their results, for machines without Rust: `make usage` compiles the
//! texts, python_tests/devices/test_expression_kernels.py runs them on a GPU. The folder `operations` in it gets
//! the texts of the operations of crates/ops, by their names.
//!
//!     formulas FOLDER                           kernels and results
//!     formulas FOLDER --texts                   kernels alone
//!     formulas FOLDER --operations TEMPLATES    the operations' kernels alone, from the templates of another folder
//!
//! A line of `cases` is a case: its name, the number of elements, those that a thread takes, the inputs'
//! element types, and the output's. The results' hashes are in a file of the case's name.

use gpuvec_emulator::HostMemory;
use gpuvec_expr::{Element, Form, Input, Op, Program, Rule, Type, compile, compile_by};
use gpuvec_ptx::{AxisReduction, Kernel, Limits, MAX_ITEMS_APART, NAME, Order, Variant};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Formulas with 1 to 58 operations, of arrays a to d of f32 or of f64.
const FORMULAS: &[(&str, &str)] = &[
    ("copy", "a"),
    ("one_op", "a + b"),
    ("three_ops", "a * b + c * 2"),
    ("eight_ops", "sqrt(a * a + b * b) * 0.5 + c / 3 - d"),
    ("horner", "((((((((((a*0.1+0.2)*a+0.3)*a+0.4)*a+0.5)*a+0.6)*a+0.7)*a+0.8)*a+0.9)*a+1)*a+1.1)"),
    ("where_divide", WHERE_DIVIDE),
    ("exp", "exp(a)"),
    ("log", "log(a)"),
    ("sin", "sin(a)"),
    ("logistic", "1 / (1 + exp(-a))"),
    ("remainder", "a % b + a // c"),
    ("black_scholes", BLACK_SCHOLES),
];

const WHERE_DIVIDE: &str = "where(a < b, (a*a + b*b) / (c + 2), sqrt(abs(a*b - c*d))) \
    + minimum(a, b) * maximum(c, d) - floor(a) / (1 + b*b) + abs(c) * (d - 0.5) - where(c > d, a, b)";

const BLACK_SCHOLES: &str = "a * (0.5 + 0.5*erf((log(a/b) + (0.02 + 0.5*d*d)*c) / (d*sqrt(c)) / sqrt(2.0))) \
    - b * exp(-0.02*c) * (0.5 + 0.5*erf(((log(a/b) + (0.02 + 0.5*d*d)*c) / (d*sqrt(c)) - d*sqrt(c)) / sqrt(2.0)))";

/// Reductions of such formulas.
const REDUCTIONS: &[(&str, &str)] = &[
    ("sum", "sum(a)"),
    ("sum_horner", "sum((((a*0.1+0.2)*a+0.3)*a+0.4)*a+0.5)"),
    ("sum_finite", "sum(where(abs(a) < 1000, sqrt(abs(a)), 0))"),
    ("mean_finite", "mean(where(abs(a) < 1000, a, 0))"),
    ("dot", "dot(a, b)"),
    ("dot_finite", "dot(where(abs(a) < 1000, a, 0), where(abs(b) < 1000, b, 1))"),
    ("norm", "norm(a)"),
    ("norm_finite", "norm(where(abs(a) < 1000, a, 0))"),
    ("norm_huge", "norm(where(a < 1e300, where(a == a, a, 0), 0))"),
    ("min_finite", "min(where(a == a, a * b, 0))"),
    ("max", "max(a)"),
    ("argmin_finite", "argmin(where(a == a, a, 0))"),
    ("argmax", "argmax(a - b)"),
    ("any", "any(a > 1e9)"),
    ("all", "all(a == a)"),
    ("count", "count(a < b)"),
];

/// The reductions, and sums of long formulas.
fn reductions() -> impl Iterator<Item = (&'static str, String)> {
    let sums = [("sum_where_divide", WHERE_DIVIDE), ("sum_black_scholes", BLACK_SCHOLES)];
    let sums = sums.map(|(name, text)| (name, format!("sum({text})")));
    REDUCTIONS.iter().map(|(name, text)| (*name, (*text).into())).chain(sums)
}

const FLOATS: [Element; 2] = [Element::F32, Element::F64];

/// Makes the list of the functions with the kinds of their loops.
macro_rules! kinds_of_loops {
    ($($op:ident $name:ident $arguments:tt $loops:ident $cost:tt $oracle:ident;)*) => {
        &[$((stringify!($name), stringify!($loops))),*]
    };
}

/// The functions of crates/math, and the kinds of their loops.
const FUNCTIONS: &[(&str, &str)] = gpuvec_math::functions!(kinds_of_loops!);

/// The formulas with kernels for arrays of any strides: with few registers, and with many.
const STRIDED: &[&str] = &["one_op", "where_divide", "sin", "black_scholes"];

/// Elements of a formula's case, and of an operation's.
const FORMULA_ELEMENTS: usize = (1 << 21) + 3;
const REDUCTION_ELEMENTS: usize = (1 << 20) + 77;
const OPERATION_ELEMENTS: usize = (1 << 16) + 1;
const LARGE_ELEMENTS: usize = (1 << 12) + 3;

/// Bytes of the largest state, which others are filled up to.
const MOST_STATE_BYTES: usize = 8 * (4 + 134);

/// Elements that one hash stands for.
const HASHED: usize = 1 << 12;

/// The finaliser of splitmix64.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The bits of an input's element: any bits, a special value, or a float between 2^-8 and 2^8.
fn value(element: Element, input: u64, i: u64) -> u64 {
    const SPECIAL: [u64; 8] =
        [0, 1, 1 << 63, 0x7FF0, 0xFFF0, 0xFFF8, 0x3FF0, 0x8000_0000_0000_0001];
    let random = mix((input << 40) + i + 1);
    let (choice, special) = (random & 3, SPECIAL[(random >> 2 & 7) as usize]);
    let top = if special < 0x1_0000 { special << 48 } else { special };
    match element {
        Element::Bool => random >> 63,
        Element::F64 if choice == 0 => mix(random),
        Element::F64 if choice == 1 && random & 0x700 == 0 => top,
        Element::F64 => {
            let exponent = 1023 - 8 + (random >> 2 & 15);
            (random >> 63) << 63 | exponent << 52 | mix(random) >> 12
        }
        Element::F32 if choice == 0 => mix(random) >> 32,
        // Specials of f64, whose exponents have three bits more.
        Element::F32 if choice == 1 && random & 0x700 == 0 => {
            (top >> 63) << 31 | (top << 4 >> 36) & 0x7FFF_FFFF | u64::from(top & 1 == 1)
        }
        Element::F32 => {
            let exponent = 127 - 8 + (random >> 2 & 15);
            (random >> 63) << 31 | exponent << 23 | mix(random) >> 41
        }
        _ if choice == 0 => mix(random),
        _ => (random >> 56).wrapping_sub(128),
    }
}

/// The program of a formula of arrays a to d.
fn program(text: &str, element: Element) -> Program {
    let inputs = ["a", "b", "c", "d"].map(|name| Input { name, element, form: Form::Array });
    compile(text, &inputs).unwrap_or_else(|error| panic!("{error}"))
}

/// The compiled template of a program's reduction.
fn template_text(program: &Program, templates: &Path) -> String {
    let Some(name) = gpuvec_ptx::template(program) else { return String::new() };
    fs::read_to_string(templates.join(format!("{name}.ptx"))).expect("the folder has the templates")
}

/// Writes a file in a folder, which is made.
fn write(folder: &Path, name: &str, bytes: &[u8]) {
    fs::create_dir_all(folder).expect("the folder can be made");
    fs::write(folder.join(name), bytes).expect("the folder is writable");
}

fn write_kernel(folder: &Path, name: &str, kernel: &Kernel) {
    write(folder, &format!("{name}.ptx"), kernel.image().to_bytes());
}

/// Writes the kernels of the operations, by their names.
fn write_operations(folder: &Path, templates: &Path) {
    for op in gpuvec_ops::Op::ALL {
        let program = op.program();
        let kernel = Kernel::new(op.kernel(), &program, &template_text(&program, templates));
        write_kernel(folder, op.kernel(), &kernel);
    }
}

/// The results of the emulator: of elements, or of a reduction its result or its state.
fn results(program: &Program, kernel: &Kernel, n: usize, state: bool) -> Vec<u8> {
    let text = kernel.image().to_str().expect("PTX is ASCII");
    let emulated = gpuvec_emulator::Kernel::parse(text).unwrap_or_else(|why| panic!("{why}"));
    let address = |number: usize| (number as u64 + 1) << 32;
    let (mut arrays, mut parameters) = (Vec::new(), Vec::new());
    for (number, input) in program.inputs().enumerate() {
        let size = input.element.bytes();
        let value = |i: u64| value(input.element, number as u64, i).to_le_bytes();
        let array: Vec<u8> = (0..n as u64).flat_map(|i| value(i).into_iter().take(size)).collect();
        arrays.push(array);
        parameters.push(address(number));
    }
    let place = address(arrays.len());
    let mut out = vec![0; (n * output_bytes(program)).max(MOST_STATE_BYTES)];
    match (program.reduction(), state) {
        (None, _) => parameters.extend([place, n as u64, 0]),
        (Some(_), true) => parameters.extend([place, n as u64, 0, 0, 0, 0]),
        (Some(_), false) => parameters.extend([0, n as u64, 0, 0, place, 0]),
    }
    let mut memory = HostMemory::default();
    memory.add(address(arrays.len()), &mut out);
    for (number, array) in arrays.iter_mut().enumerate() {
        memory.add(address(number), array);
    }
    emulated.run(&parameters, 1, &mut memory).unwrap_or_else(|why| panic!("{why}"));
    out
}

fn output_bytes(program: &Program) -> usize {
    program.outputs()[0].element.bytes()
}

/// A hash for each block of results.
fn hashes(results: &[u8], size: usize) -> Vec<u8> {
    let hash = |block: &[u8]| {
        let values = block.chunks_exact(size).zip(1..);
        values.fold(0_u64, |sum, (value, place)| {
            let mut bits = [0; 8];
            bits[..size].copy_from_slice(value);
            sum.wrapping_add(mix(u64::from_le_bytes(bits) ^ mix(place)))
        })
    };
    results.chunks(size * HASHED).flat_map(|block| hash(block).to_le_bytes()).collect()
}

/// Writes cases to a folder.
struct Cases<'f> {
    folder: &'f Path,
    templates: &'f Path,
    lines: String,
    /// The texts alone are wanted.
    texts_only: bool,
}

impl Cases<'_> {
    fn add(&mut self, name: &str, text: &str, element: Element, n: usize) {
        let (program, name) = (program(text, element), format!("{name}_{}", element.name()));
        let kernel = Kernel::new(NAME, &program, &template_text(&program, self.templates));
        write_kernel(self.folder, &name, &kernel);
        if self.texts_only {
            return;
        }
        let put = |kind, bytes: &[u8]| write(self.folder, &format!("{name}.{kind}"), bytes);
        if program.reduction().is_some() {
            put("result", &results(&program, &kernel, n, false)[..output_bytes(&program)]);
            let mut state = results(&program, &kernel, n, true);
            state.truncate(MOST_STATE_BYTES);
            put("state", &state);
        } else {
            let (results, size) = (results(&program, &kernel, n, false), output_bytes(&program));
            put("hashes", &hashes(&results[..n * size], size));
        }
        let each = kernel.items_per_thread() * kernel.tiles_per_thread();
        let inputs = [element.name(); 4].join(",");
        let output = program.outputs()[0].element.name();
        writeln!(self.lines, "{name} {n} {each} {inputs} {output}").expect("strings grow");
    }
}

/// Writes kernels for arrays of any strides: of few axes and of the most, of vectors, of
/// elements apart and of tiles.
fn write_strided(folder: &Path) {
    let formulas = FORMULAS.iter().filter(|(name, _)| STRIDED.contains(name));
    for ((name, text), element) in formulas.flat_map(|of| FLOATS.map(|ty| (of, ty))) {
        let program = program(text, element);
        let contiguous = Kernel::new(NAME, &program, "");
        let most = contiguous.items_per_thread();
        let side = gpuvec_ptx::tile_side(element.bytes()).expect("room for one array");
        for (order, kind, items) in [
            (Order::Vectors { broadcast: 0b1010 }, "vectors", most),
            (Order::Flat { flat: 0b0101 }, "flat", most.min(MAX_ITEMS_APART)),
            (Order::Apart, "apart", most.min(MAX_ITEMS_APART)),
            (Order::Tiles { across: 1, side }, "tiles", most.min(MAX_ITEMS_APART)),
        ] {
            for axes in [2, 8] {
                let variant = Variant { axes, items, order };
                let kernel = contiguous.strided(&program, variant, Limits::USUAL);
                write_kernel(folder, &format!("{name}_{}_{kind}_{axes}", element.name()), &kernel);
            }
        }
    }
}

/// Writes the kernels of the reductions along axes: of one outer and one reduced axis, and of several.
fn write_axes(folder: &Path, templates: &Path) {
    for ((name, text), element) in reductions().flat_map(|of| FLOATS.map(|ty| (of.clone(), ty))) {
        let program = program(&text, element);
        let template = gpuvec_ptx::axes_template(&program).expect("a reduction");
        let template = fs::read_to_string(templates.join(format!("{template}.ptx")));
        let template = template.expect("the folder has the templates");
        for [outer, reduced] in [[1, 1], [2, 3]] {
            let axes = AxisReduction { outer, reduced };
            let kernel = Kernel::along_axes(NAME, &program, &template, axes, Limits::USUAL);
            let name = format!("axes_{name}_{}_{outer}_{reduced}", element.name());
            write_kernel(folder, &name, &kernel.expect("a reduction"));
        }
    }
}

/// Writes the kernels of the reductions by key, of contiguous arrays and of arrays of any strides.
fn write_by_key(folder: &Path, templates: &Path) {
    let of_floats = reductions().flat_map(|of| FLOATS.map(|ty| (of.clone(), ty)));
    let of_integers = [("prod", "prod(a)"), ("max", "max(a)")];
    let of_integers = of_integers.map(|(name, text)| ((name, text.to_owned()), Element::I64));
    for ((name, text), element) in of_floats.chain(of_integers) {
        let array = |name, element| Input { name, element, form: Form::Array };
        let inputs = ["a", "b", "c", "d"].map(|name| array(name, element));
        let inputs = [&inputs[..], &[array("key", Element::I32)]].concat();
        let program = compile_by(&text, "key", &inputs).unwrap_or_else(|error| panic!("{error}"));
        let template = template_text(&program, templates);
        if template.is_empty() {
            continue;
        }
        let name = format!("by_key_{name}_{}", element.name());
        write_kernel(folder, &name, &Kernel::new(NAME, &program, &template));
        for [outer, reduced] in [[1, 1], [2, 3]] {
            let axes = AxisReduction { outer, reduced };
            let kernel = Kernel::along_axes(NAME, &program, &template, axes, Limits::USUAL);
            write_kernel(
                folder,
                &format!("{name}_{outer}_{reduced}"),
                &kernel.expect("a reduction"),
            );
        }
    }
}

/// An expression of an operation on `x`, b and c.
fn operation(op: Op, x: &str) -> String {
    let symbol = op.spelling();
    match (op, op.arity()) {
        (Op::Not | Op::Neg, _) => format!("{symbol}{x}"),
        (Op::Where, _) => format!("where({x} < b, b, c)"),
        _ if !Op::FUNCTIONS.contains(&op) => format!("{x} {symbol} b"),
        (_, 1) => format!("{symbol}({x})"),
        (_, 2) => format!("{symbol}({x}, b)"),
        _ => format!("{symbol}({x}, b, c)"),
    }
}

/// Writes a sum of calls of every function, which is long enough to be computed in parts.
fn large() -> String {
    let first = ["a", "b", "c", "d", "a*b", "b*c", "c*d", "d*a"];
    let calls = Op::FUNCTIONS.iter().flat_map(|op| first.map(|x| operation(*op, x)));
    let term = |call: String| format!("where(abs({call}) < 8, {call}, 0)");
    calls.map(term).collect::<Vec<_>>().join(" + ")
}

fn main() {
    let folder = PathBuf::from(env::args().nth(1).expect("the folder to write to"));
    let texts_only = env::args().nth(2).is_some_and(|option| option == "--texts");
    if let Some(templates) = env::args().nth(3) {
        return write_operations(&folder, Path::new(&templates));
    }
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/ptx");
    write_operations(&folder.join("operations"), &templates);
    let (folder, templates) = (&*folder, &*templates);
    let mut cases = Cases { folder, templates, lines: String::new(), texts_only };
    for element in FLOATS {
        for (name, text) in FORMULAS {
            cases.add(name, text, element, FORMULA_ELEMENTS);
        }
        for (name, text) in reductions() {
            cases.add(name, &text, element, REDUCTION_ELEMENTS);
        }
        cases.add("large", &large(), element, LARGE_ELEMENTS);
        cases.add("sum_large", &format!("sum({})", large()), element, LARGE_ELEMENTS);
    }
    for element in [Element::I32, Element::I64] {
        for (name, text) in [
            ("sum", "sum(a * b)"),
            ("dot", "dot(a, b)"),
            ("argmin", "argmin(a)"),
            ("min", "min(a)"),
        ] {
            cases.add(name, text, element, REDUCTION_ELEMENTS);
        }
    }
    if texts_only {
        write_strided(&folder.join("strided"));
        write_axes(&folder.join("axes"), templates);
        write_by_key(&folder.join("by_key"), templates);
        // The functions of f32 that need no instruction of f64, as kernels/build.py checks.
        for (name, _) in FUNCTIONS.iter().filter(|(_, loops)| *loops == "fast") {
            cases.add(&format!("fast_{name}"), &format!("{name}(a)"), Element::F32, 0);
        }
        return;
    }
    for &element in Element::ALL {
        for &op in Op::ALL {
            let is_float = matches!(element.widened(), Type::F32 | Type::F64);
            let takes = match op.rule() {
                Rule::Cast => false,
                Rule::Logic => element == Element::Bool,
                Rule::Bits => !is_float,
                Rule::Integer => !is_float && element != Element::Bool,
                Rule::Select | Rule::Comparison => true,
                Rule::FloatOnly => is_float,
                _ => element != Element::Bool,
            };
            if takes {
                let name = format!("op_{}", op.name());
                cases.add(&name, &operation(op, "a"), element, OPERATION_ELEMENTS);
            }
        }
        for to in Element::ALL.iter().filter(|to| to.is_of_results()) {
            let cast = to.name();
            let text = format!("{cast}(a)");
            cases.add(&format!("to_{cast}"), &text, element, OPERATION_ELEMENTS);
        }
    }
    write(folder, "cases", cases.lines.as_bytes());
}
