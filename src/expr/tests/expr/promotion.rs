//! The type of every operation on operands of all types, against NumPy's.

use crate::{array, program};
use gpuvec_expr::{Element, Type, compile};

/// NumPy's types, by tools/promotion_table.py.
const TABLE: &str = include_str!("promotion.txt");

/// The type that gpuvec gives where NumPy gives `numpy`: narrow types become the nearest that are
/// computed.
fn computed(numpy: &str) -> Option<Type> {
    match numpy {
        "bool" => Some(Type::Bool),
        "u8" | "i8" | "u16" | "i16" | "i32" => Some(Type::I32),
        "u32" | "i64" | "u64" => Some(Type::I64),
        "f16" | "f32" => Some(Type::F32),
        "f64" => Some(Type::F64),
        "-" => None,
        _ => panic!("{numpy}"),
    }
}

/// Says whether gpuvec refuses operands that NumPy takes.
fn is_refused(operation: &str, operands: &[&str]) -> bool {
    let bools = operands.iter().all(|&operand| operand == "bool");
    let floats = operands.iter().any(|operand| operand.starts_with('f'));
    match operation {
        "<" | "==" | "where" | "sum" | "mean" => false,
        "&" | "any" | "count_nonzero" => !bools,
        "pow" => !floats,
        _ => bools,
    }
}

/// The text of an operation on operands.
fn text(operation: &str, operands: &[&str]) -> String {
    match (operation, operands) {
        ("neg", [x]) => format!("-{x}"),
        ("plus", [x]) => format!("+{x}"),
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

/// The operand of a type: an array, or a literal.
fn operand(ty: &str) -> String {
    match ty {
        "int" => "1".into(),
        "float" => "1.0".into(),
        ty => format!("x_{ty}"),
    }
}

fn check(operation: &str, types: &[&str], numpy: &str) {
    let names: Vec<String> = types.iter().map(|ty| operand(ty)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = text(operation, &names);
    let arrays: Vec<String> =
        Element::ALL.iter().map(|element| format!("x_{}", element.name())).collect();
    let mut inputs = vec![array("condition", Element::Bool)];
    inputs.extend(arrays.iter().zip(Element::ALL).map(|(name, element)| array(name, *element)));
    let result = compile(&text, &inputs).map(|program| program.output());
    let expected = computed(numpy).filter(|_| !is_refused(operation, types));
    assert_eq!(result.clone().ok(), expected, "{text}: {result:?}");
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
    assert_eq!(count, 12 * (16 * 12 + 20));
}

#[test]
fn floats_of_literals_alone_are_weak() {
    for text in ["a * sqrt(2)", "a + 1 / 3", "a * exp(-0.5) / (2 * 3.14159)**0.5", "a - 7.5 % 2"] {
        assert_eq!(program(text).output(), Type::F32, "{text}");
    }
    for text in ["a * where(m, 1.0, 0.0)", "a * f64(2)", "a * minimum(1, 2)"] {
        assert_eq!(program(text).output(), Type::F64, "{text}");
    }
}

#[test]
fn every_cast_gives_its_type_from_every_type() {
    for ty in Type::ALL {
        for from in ["m", "x_u8", "x_i32", "x_i64", "a", "x_f64", "1", "1.5", "sqrt(2)"] {
            assert_eq!(program(&format!("{ty}({from})")).output(), ty, "{ty}({from})");
        }
    }
}
