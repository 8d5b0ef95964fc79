//! The type of every operation on operands of all types, against NumPy's.

use crate::{array, program};
use gpuvec_expr::{Element, Form, Input, Integers, Program, Type, Unfit, compile};

/// NumPy's types, by tools/promotion_table.py.
const TABLE: &str = include_str!("promotion.txt");

/// The type that gpuvec gives where NumPy gives `numpy`: narrow integers become the nearest that are
/// computed, only what is computed of u64 is u64, and of f16 f16, and sums of f16 are f32.
fn computed(numpy: &str, operation: &str, operands: &[&str]) -> Option<Element> {
    let is_sum = ["sum", "mean", "norm", "dot"].contains(&operation);
    match numpy {
        "bool" => Some(Element::Bool),
        "u8" | "i8" | "u16" | "i16" | "i32" => Some(Element::I32),
        "u64" if operands.contains(&"u64") => Some(Element::U64),
        "u32" | "i64" | "u64" => Some(Element::I64),
        "f16" if operands.contains(&"f16") && !is_sum => Some(Element::F16),
        "f16" | "f32" => Some(Element::F32),
        "f64" => Some(Element::F64),
        "-" => None,
        _ => panic!("{numpy}"),
    }
}

/// The type of the elements that a program's output stores.
fn stored(program: &Program) -> Element {
    program.outputs()[0].element
}

/// True if gpuvec refuses operands that NumPy accepts.
fn is_refused(operation: &str, operands: &[&str], numpy: &str) -> bool {
    let bools = operands.iter().all(|&operand| operand == "bool");
    let floats = operands.iter().any(|operand| {
        operand.starts_with('f')
            || ["h", "k/2", "**-1", "0.5"].iter().any(|part| operand.contains(part))
    });
    match operation {
        "<" | "==" | "&" | "^" | "invert" | "clip" | "where" | "sum" | "mean" => false,
        "any" | "count_nonzero" => !bools,
        "pow" => !floats && numpy != "f64",
        "nextafter" if numpy == "f16" && operands.contains(&"f16") => true,
        _ => bools,
    }
}

/// The text of an operation on operands.
fn text(operation: &str, operands: &[&str]) -> String {
    match (operation, operands) {
        ("neg", [x]) => format!("-{x}"),
        ("plus", [x]) => format!("+{x}"),
        ("invert", [x]) => format!("~{x}"),
        ("clip", [x]) => format!("clip({x}, 1, 2)"),
        ("square", [x]) => format!("{x}**2"),
        ("root", [x]) => format!("{x}**0.5"),
        ("count_nonzero", [x]) => format!("count({x})"),
        ("where", [x, y]) => format!("where(condition, {x}, {y})"),
        (name, operands) if name.starts_with(char::is_alphabetic) => {
            format!("{name}({})", operands.join(", "))
        }
        (symbol, [x, y]) => format!("{x} {symbol} {y}"),
        _ => panic!("{operation}"),
    }
}

/// The operand of a type: an array, or of Python's numbers, which are inputs or literals.
fn operand(ty: &str, are_literals: bool) -> String {
    match ty {
        ty if Element::ALL.iter().any(|element| element.name() == ty) => format!("x_{ty}"),
        number if are_literals => format!("({})", number.replace('k', "2").replace('h', "1.5")),
        number => format!("({number})"),
    }
}

fn check(operation: &str, types: &[&str], numpy: &str) {
    let arrays: Vec<String> =
        Element::ALL.iter().map(|element| format!("x_{}", element.name())).collect();
    let number = |name, element| Input { name, element, form: Form::Number };
    let mut inputs = vec![
        array("condition", Element::Bool),
        number("k", Element::I64),
        number("h", Element::F64),
    ];
    inputs.extend(arrays.iter().zip(Element::ALL).map(|(name, element)| array(name, *element)));
    for literals in [[false; 2], [true; 2], [true, false], [false, true]] {
        let names: Vec<String> =
            types.iter().zip(literals).map(|(ty, literal)| operand(ty, literal)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = text(operation, &names);
        let result = compile(&text, &inputs).map(|program| stored(&program));
        let expected = computed(numpy, operation, types);
        let expected = expected.filter(|_| !is_refused(operation, types, numpy));
        assert_eq!(result.clone().ok(), expected, "{text}: {result:?}");
    }
}

#[test]
fn results_have_numpys_types() {
    let mut lines = TABLE.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let types = lines.next().expect("the types")[2..].to_vec();
    let mut count = 0;
    for line in lines {
        let (operation, left, results) = (line[0], line[1], &line[2..]);
        for (right, numpy) in types.iter().zip(results) {
            let operands = if left == "unary" { vec![*right] } else { vec![left, right] };
            check(operation, &operands, numpy);
            count += 1;
        }
    }
    assert_eq!(count, 29 * (21 * 29 + 26));
}

#[test]
fn numbers_that_are_made_of_numbers_alone_are_weak() {
    for text in [
        "a * sqrt(2)",
        "a + 1 / 3",
        "a * exp(-0.5) / (2 * 3.14159)**0.5",
        "a - 7.5 % 2",
        "a * minimum(1, 2)",
        "a * abs(-k)",
        "a * sqrt(k)",
        "a * maximum(k, h) - sign(k) * floor(k)",
        "a + fma(k, 2, h)",
        "-(k + 1)**2 // 3 % 5 * a",
        "a * (k & 1) + (~k >> 1)",
        "a * 2**0.3 - k**h",
        "a * clip(k, 0, 1) + fmod(k, 3) * fmax(h, 0) - nextafter(h, 1) * rsqrt(k)",
    ] {
        assert_eq!(stored(&program(text)), Element::F32, "{text}");
    }
    for text in ["x_i32 - abs(-k) // 2", "x_u8 * -k", "x_i32 + k**2", "maximum(k, 3) + x_i16"] {
        assert_eq!(stored(&program(text)), Element::I32, "{text}");
    }
    for text in ["a * where(m, 1.0, 0.0)", "a * f64(2)", "a * i64(k)", "a * (k + i64(1))"] {
        assert_eq!(stored(&program(text)), Element::F64, "{text}");
    }
}

/// The first integer that does not fit, for a value of k.
fn unfit(text: &str, k: i64) -> Option<(Type, bool)> {
    let Unfit { input, is_input, ty } = Integers::of(&program(text)).unwrap().check(|_| k).err()?;
    assert_eq!(input, 14, "k");
    Some((ty, is_input))
}

#[test]
fn integers_of_pythons_integers_do_not_wrap() {
    const OVERFLOW: Option<(Type, bool)> = Some((Type::I64, false));
    const NARROW: Option<(Type, bool)> = Some((Type::I32, false));
    const INPUT: Option<(Type, bool)> = Some((Type::I32, true));
    for (text, k, expected) in [
        ("x_i64 + k", i64::MAX, None),
        ("a * k", i64::MIN, None),
        ("a + (k + 1)", i64::MAX, OVERFLOW),
        ("a + (k + 1)", i64::MAX - 1, None),
        ("-k * a", i64::MIN, OVERFLOW),
        ("-k * a", i64::MAX, None),
        ("k**2 * a", 3_037_000_500, OVERFLOW),
        ("k**2 * a", 3_037_000_499, None),
        ("(1 - k) % 7 * a", -i64::MAX, OVERFLOW),
        ("abs(k) * a", i64::MIN, OVERFLOW),
        ("k // -1 * a", i64::MIN, OVERFLOW),
        ("k % -1 * x_i32", i64::MIN, None),
        ("k % 3 * x_i32 + k // 4294967296", i64::MIN, None),
        ("k // 0 + k % 0 + x_i32", i64::MIN, None),
        ("sign(k) + x_i32", i64::MIN, None),
        ("~k * a", i64::MIN, None),
        ("(k & 255 | 1 ^ k) + x_i32", 1 << 31, NARROW),
        ("(k & 255) + x_i32", i64::MAX, None),
        ("(k << 1) * a", i64::MAX, OVERFLOW),
        ("(k << 62) * a", -2, None),
        ("(k << 64) * a", 1, OVERFLOW),
        ("(0 << k) * a", i64::MAX, None),
        ("(1 << k) + x_i32", -1, None),
        ("(k >> 40) + x_i32", i64::MIN, None),
        ("clip(k, 0, 5) + x_i32", i64::MAX, None),
        ("fmod(0, k) * a", i64::MIN, None),
        ("fmod(k, 3) * a", i64::MIN, None),
        ("fmod(k, -9223372036854775808) * a", 1 - i64::MAX, None),
        ("fmod(k, 4294967298) + x_i32", 4_294_967_297, NARROW),
        ("fmod(k, 4294967296) + x_i32", 4_294_967_297, None),
        ("k // -64 * a", i64::MAX, None),
        ("k // 3 * a", i64::MIN, None),
        ("minimum(k, 5) + x_i32", i64::MAX, None),
        ("minimum(k, 5) + x_i32", i64::MIN, NARROW),
        ("k + x_i32", 1 << 31, INPUT),
        ("k + x_u8", -1 << 31, None),
        ("-k + x_i32", -1 << 31, NARROW),
        ("(k - 1) + x_i32", 1 << 31, None),
        ("where(m, k // 2, x_i16)", 1 << 32, NARROW),
        ("x_i32 < k", 1 << 40, None),
        ("m == k", i64::MIN, None),
        ("i64(x_i32) * k * k", i64::MIN, None),
    ] {
        assert_eq!(unfit(text, k), expected, "{text} for {k}");
    }
}

#[test]
fn comparisons_with_pythons_integers_are_exact() {
    let same = |text: &str, other: &str| {
        assert_eq!(program(text).to_string(), program(other).to_string(), "{text}");
    };
    same("x_i32 < 5", "x_i32 < i32(5)");
    same("x_i32 < 1099511627776", "i64(x_i32) < i64(1099511627776)");
    same("x_u8 == 3000000000", "i64(x_u8) == i64(3000000000)");
    same("k >= x_i16", "i64(k) >= i64(x_i16)");
    for (text, other) in [
        ("x_u64 < -1", "False"),
        ("x_u64 != 2**64", "True"),
        ("x_i64 < 2**63", "True"),
        ("x_i64 > 2**63", "False"),
        ("-2**63 - 1 <= x_i32", "True"),
        ("x_u32 == 2**70", "False"),
        ("k != 2**70", "True"),
        ("m < -2**70", "False"),
        ("2**70 < 2**71", "True"),
    ] {
        same(text, other);
    }
}

#[test]
fn every_cast_gives_its_type_from_every_type() {
    for &to in Element::ALL.iter().filter(|to| to.is_of_results()) {
        let inputs = ["m", "x_u8", "x_i32", "x_i64", "x_u64", "x_f16", "x_bf16", "a", "x_f64"];
        for from in inputs.into_iter().chain(["1", "1.5", "sqrt(2)"]) {
            let text = format!("{}({from})", to.name());
            assert_eq!(stored(&program(&text)), to, "{text}");
        }
    }
}
