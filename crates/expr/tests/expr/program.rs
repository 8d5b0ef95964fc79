//! The programs of expressions: nodes, sharing, constants, precedence.

use crate::program;
use crate::written::written;
use gpuvec_expr::{Element, Op, Rule, Source, compile};
use gpuvec_oracle::random::{INPUTS, array};

#[track_caller]
fn gives(text: &str, expected: &str) {
    let lines: Vec<&str> = expected.lines().map(str::trim).collect();
    assert_eq!(program(text).to_string().lines().collect::<Vec<_>>(), lines, "{text}");
}

/// Checks that two texts give the same program.
#[track_caller]
fn same(text: &str, other: &str) {
    assert_eq!(written(&program(text)), written(&program(other)), "{text}");
}

#[test]
fn several_formulas_share_their_nodes() {
    let program = compile("a + s * b; s * b > a; sum(s * b)", &INPUTS).unwrap();
    assert_eq!(
        program.to_string(),
        "%0: f32 = array a: f32\n%1: f32 = scalar s: f32\n%2: f32 = array b: f32\n\
         %3: f32 = mul %1, %2\n%4: f32 = add %0, %3\n%5: bool = less %0, %3\n\
         output: f32 = %4\noutput: bool = %5\noutput: f32 = sum %3\n"
    );
    let elements = program.outputs().iter().map(|output| output.element);
    assert!(elements.eq([Element::F32, Element::Bool, Element::F32]));
    assert_eq!(program.reduction(), None);
    assert_eq!(
        program.of_outputs(&[2]).unwrap().to_string(),
        "%0: f32 = scalar s: f32\n%1: f32 = array b: f32\n%2: f32 = mul %0, %1\n\
         output: f32 = sum %2\n"
    );
    assert_eq!(program.of_outputs(&[2]).unwrap(), compile("sum(s * b)", &INPUTS).unwrap());
    assert_eq!(
        program.of_outputs(&[0, 1]).unwrap(),
        compile("a + s * b;s * b > a", &INPUTS).unwrap()
    );
}

#[test]
fn up_to_eight_formulas_are_one_program() {
    let reductions = "max(a) ; any(m)\n;\n argmin(x_i64); mean(x_u8);dot(a, b);x_i16;norm(c); -a";
    let outputs = compile(reductions, &INPUTS).unwrap().outputs().to_vec();
    let names: Vec<_> = outputs.iter().map(|output| output.reduction().map(|r| r.name())).collect();
    let (none, some) = (None, Some);
    assert_eq!(
        names,
        [
            some("max"),
            some("any"),
            some("argmin"),
            some("mean"),
            some("dot"),
            none,
            some("norm"),
            none
        ]
    );
}

#[test]
fn equal_parts_are_one_node() {
    gives(
        "sum(sqrt(a*a + b*b) / sqrt(b*b + a*a) + sqrt(a*a + b*b) * s)",
        "%0: f32 = array a: f32
        %1: f32 = mul %0, %0
        %2: f32 = array b: f32
        %3: f32 = mul %2, %2
        %4: f32 = add %1, %3
        %5: f32 = sqrt %4
        %6: f32 = add %3, %1
        %7: f32 = sqrt %6
        %8: f32 = div %5, %7
        %9: f32 = scalar s: f32
        %10: f32 = mul %5, %9
        %11: f32 = add %8, %10
        output: f32 = sum %11",
    );
}

#[test]
fn an_input_hides_a_constant_of_its_name() {
    let program = compile("e * pi", &[array("e", Element::I32)]).expect("right");
    let text = "%0: i32 = array e: i32\n%1: f64 = cast %0\n%2: f64 = 3.141592653589793\n";
    assert!(program.to_string().starts_with(text), "{program}");
}

#[test]
fn integers_are_widened_and_combine_with_f32_if_they_are_short() {
    gives(
        "x_u8 * a",
        "%0: i32 = array x_u8: u8
        %1: f32 = array a: f32
        %2: f32 = cast %0
        %3: f32 = mul %2, %1
        output: f32 = %3",
    );
    gives(
        "x_u32 + x_i8",
        "%0: i64 = array x_u32: u32
        %1: i32 = array x_i8: i8
        %2: i64 = cast %1
        %3: i64 = add %0, %2
        output: i64 = %3",
    );
}

#[test]
fn literals_take_the_type_of_their_partner() {
    gives(
        "a * 0.1",
        "%0: f32 = array a: f32
        %1: f32 = 0.1
        %2: f32 = mul %0, %1
        output: f32 = %2",
    );
    gives(
        "x_f64 * (2/3)",
        "%0: f64 = array x_f64: f64
        %1: f64 = 0.6666666666666666
        %2: f64 = mul %0, %1
        output: f64 = %2",
    );
    same(
        "x_i64 + -9223372036854775808 + 2**62",
        "x_i64 + -9223372036854775808 + 4611686018427387904",
    );
    same("a + 7 // 2 + -7 // 2 + 7 % -2", "a + 3 + -4 + -1");
    same("a + 1e999", "a + 2e999");
    same("a * pi - e", "a * 3.141592653589793 - 2.718281828459045");
    same("a - inf + -inf", "a - 1e999 + -1e999");
    same("a + nan", "a + (1e999 - 1e999)");
    same("x_f64 / (2*pi)", "x_f64 / 6.283185307179586");
    same("a * (1e999 - 1e999)", "a * ((1e999 - 1e999) * -1)");
}

#[test]
fn zeros_keep_their_sign_and_are_two_constants() {
    gives(
        "a * -0.0 + 0.0",
        "%0: f32 = array a: f32
        %1: f32 = -0.0
        %2: f32 = mul %0, %1
        %3: f32 = 0.0
        %4: f32 = add %2, %3
        output: f32 = %4",
    );
    same("a * -0", "a * 0.0");
}

#[test]
fn a_literal_is_rounded_to_f64_first_as_in_numpy() {
    // 1 + 2^-24 + 2^-60: nearest to 1 + 2^-23 in f32, but in f64 it is the tie, which goes to 1.
    let text = "a + 1.00000005960464477626179";
    assert_eq!(text.trim_start_matches("a + ").parse(), Ok(1.0 + f32::EPSILON));
    same(text, "a + 1.0");
    // 2^60 + 2^36 + 1: the integer goes the same way, but not in NumPy's where.
    same("a + 1152921573326323713", "a + 2**60");
    same("where(m, a, 1152921573326323713)", "where(m, a, f32(1152921642045800448.0))");
    gives(
        "k + a",
        "%0: i64 = number k: i64
        %1: f32 = array a: f32
        %2: f64 = cast %0
        %3: f32 = cast %2
        %4: f32 = add %3, %1
        output: f32 = %4",
    );
    same("where(m, a, k)", "where(m, a, f32(i64(k)))");
}

#[test]
fn powers_and_quotients_of_integers_are_pythons() {
    same("k**-2", "1 / (f64(k) * f64(k))");
    same("k**0.5", "sqrt(f64(k))");
    same("k**2.0", "f64(k) * f64(k)");
    same("k / 2", "f64(k) / f64(2)");
    same("k // 2 * k", "i64(k) // i64(2) * i64(k)");
}

#[test]
fn precedence_and_grouping_are_pythons() {
    for (text, grouped) in [
        ("a - b - c", "(a - b) - c"),
        ("a / b * c", "(a / b) * c"),
        ("a // b % c", "(a // b) % c"),
        ("a + b * c", "a + (b * c)"),
        ("-a * b", "(-a) * b"),
        ("-a**2", "-(a**2)"),
        ("a * -b", "a * (-b)"),
        ("a**-2", "1 / (a * a)"),
        ("a**2**2", "a**4"),
        ("2**-1 + a", "0.5 + a"),
        ("a < b + c", "a < (b + c)"),
        ("m & (a < b) | m", "(m & (a < b)) | m"),
        ("m | m & (a < b)", "m | (m & (a < b))"),
        ("~m & m", "(~m) & m"),
        ("m == m & m", "m == (m & m)"),
        ("x_i32 | x_i64 ^ x_u8 & x_i16 << 1 + 2", "x_i32 | (x_i64 ^ (x_u8 & (x_i16 << (1 + 2))))"),
        ("x_u8 & x_i16 ^ x_i64 | x_i32", "((x_u8 & x_i16) ^ x_i64) | x_i32"),
        ("x_i32 >> 1 << 2 & 3", "((x_i32 >> 1) << 2) & 3"),
        ("x_i32 < x_u8 & 3 < x_i16", "(x_i32 < (x_u8 & 3)) & ((x_u8 & 3) < x_i16)"),
        ("-x_i32 << ~x_i16 * 2", "(-x_i32) << ((~x_i16) * 2)"),
        ("a**b**c", "a**(b**c)"),
        ("-a**-b", "-(a**(-b))"),
        ("a < b < c", "(a < b) & (b < c)"),
        ("a < b < c == d", "((a < b) & (b < c)) & (c == d)"),
        ("a > b", "b < a"),
        ("a >= b", "b <= a"),
        ("+ - + a", "-a"),
        ("\ta\n+ b\r\n", "a + b"),
        ("where(m, a, b,)", "where(m, a, b)"),
    ] {
        same(text, grouped);
    }
}

#[test]
fn powers_are_multiplications_in_a_fixed_order() {
    same("a**1", "a");
    same("a**3", "a * (a*a)");
    same("a**6", "(a*a) * ((a*a) * (a*a))");
    same("a**7", "a * ((a*a) * ((a*a) * (a*a)))");
    same("a**2.0", "a * a");
    same("a**-1", "1 / a");
    same("a**0.5", "sqrt(a)");
    same("a**(1/2)", "sqrt(a)");
    same("x_i32**0.5", "sqrt(x_i32)");
    same("x_i32**2.0", "f64(x_i32) * f64(x_i32)");
    same("x_i32**3", "x_i32 * (x_i32 * x_i32)");
    same("x_i32**96", "x_i32**32 * x_i32**64");
    same("x_i32**0 + a", "i32(1) + a");
    same("a**0", "f32(1)");
    same("sqrt(2)**0 * a", "1.0 * a");
}

#[test]
fn other_powers_are_calls_of_pow() {
    same("a**b", "pow(a, b)");
    same("a**0.3", "pow(a, 0.3)");
    same("a**-1.5", "pow(a, -1.5)");
    same("a**65", "pow(a, 65.0)");
    same("x_f64**-65.0", "pow(x_f64, -65.0)");
    same("x_i32**0.3", "pow(f64(x_i32), 0.3)");
    same("2**a", "pow(2.0, a)");
    same("a**k", "pow(a, k)");
    same("x_i32**a", "pow(f64(x_i32), f64(a))");
    same("2**0.3 * a", "pow(2.0, 0.3) * a");
    same("power(a, 2) + power(a, b)", "a**2 + pow(a, b)");
}

#[test]
fn operations_on_bits_take_integers_and_bools() {
    same("~x_u8", "i32(x_u8) ^ -1");
    same("~k & 7", "(k ^ -1) & 7");
    same("m | x_i32", "i32(m) | x_i32");
    same("m ^ 1", "i64(m) ^ i64(1)");
    same("x_u32 >> x_u8", "x_u32 >> i64(x_u8)");
    same("m << 2", "i64(m) << i64(2)");
    gives(
        "m ^ ~m",
        "%0: bool = array m: bool
        %1: bool = not %0
        %2: bool = xor %0, %1
        output: bool = %2",
    );
    same("x_i64 + (6 & 3) + (6 | 3) + (6 ^ 3) + ~6", "x_i64 + 2 + 7 + 5 + -7");
    same("x_i64 + (1 << 62) + (-1 << 63) + (-9 >> 1)", "x_i64 + 2**62 + -2**63 + -5");
    same("x_i64 + (0 << 999) + (7 >> 999) + (-7 >> 999)", "x_i64 + 0 + 0 + -1");
}

#[test]
fn functions_that_are_formulas_are_those() {
    for (call, formula) in [
        ("arcsin(a)", "asin(a)"),
        ("arctan2(a, b)", "atan2(a, b)"),
        ("arcsinh(a)", "asinh(a)"),
        ("arccosh(a)", "acosh(a)"),
        ("arctanh(a)", "atanh(a)"),
        ("absolute(x_i32)", "abs(x_i32)"),
        ("true_divide(x_i32, 2)", "x_i32 / 2"),
        ("subtract(1, 0.5) * a", "0.5 * a"),
        ("greater(a, 0)", "a > 0"),
        ("logical_and(a, m)", "bool(a) & m"),
        ("left_shift(x_i32, 2)", "x_i32 << 2"),
        ("float32(x_i32)", "f32(x_i32)"),
        ("sum(float64(a))", "sum(f64(a))"),
        ("amax(a)", "max(a)"),
        ("round(x_u8) * a", "x_u8 * a"),
        ("round(a)", "rint(a)"),
        ("isnan(a)", "a != a"),
        ("isfinite(a)", "abs(a) < inf"),
        ("signbit(x_i32)", "x_i32 < 0"),
        ("clip(a, 0, b)", "minimum(maximum(a, 0), b)"),
        // The arguments have one type before they are compared.
        ("clip(x_i16, x_i8, a)", "minimum(maximum(f32(x_i16), f32(x_i8)), a)"),
        ("fmax(x_i32, k)", "maximum(x_i32, k)"),
        ("fmod(a, b)", "copysign(abs(a) % abs(b), a)"),
        ("fmin(a, 1)", "minimum(where(a != a, f32(1), a), where(f32(1) != f32(1), a, f32(1)))"),
        ("degrees(a)", "f32(f64(a) * 57.29577951308232)"),
        ("rad2deg(x_u8)", "f32(f64(f32(x_u8)) * 57.29577951308232)"),
    ] {
        same(call, formula);
    }
}

#[test]
fn a_formula_s_names_are_its_own() {
    let inputs = ["inf", "u", "x", "isnan"].map(|name| array(name, Element::F32));
    let program = |text| compile(text, &inputs).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(program("isfinite(u)"), program("abs(u) < 1e999"));
    assert_eq!(program("power(u, x) + isnan"), program("u**x + isnan"));
}

#[test]
fn rounding_leaves_integers_alone() {
    same("floor(x_i32) + ceil(x_u8) + trunc(x_i64)", "x_i32 + x_u8 + x_i64");
    same("rint(x_i32)", "rint(f64(x_i32))");
}

#[test]
fn bools_are_compared_as_integers() {
    same("m < m", "i32(m) < i32(m)");
    same("m == True", "i32(m) == i32(True)");
}

#[test]
fn reductions_end_the_program() {
    gives("sum(m)", "%0: bool = array m: bool\noutput: i64 = count %0");
    gives("sum(x_u8)", "%0: i32 = array x_u8: u8\noutput: i64 = sum %0");
    gives("argmax(a)", "%0: f32 = array a: f32\noutput: i64 = argmax %0");
    gives("var(x_u8)", "%0: i32 = array x_u8: u8\n%1: f64 = cast %0\noutput: f64 = var %1, ddof=0");
    gives("std(a, ddof = -1)", "%0: f32 = array a: f32\noutput: f32 = std %0, ddof=-1");
    gives("(sum(a))", "%0: f32 = array a: f32\noutput: f32 = sum %0");
    gives(
        "a / sum(a)",
        "pass 1:\n%0: f32 = array a: f32\noutput: f32 = sum %0\n\
         pass 2:\n%0: f32 = array a: f32\n%1: f32 = scalar result 1: f32\n%2: f32 = div %0, %1\noutput: f32 = %2",
    );
    gives("any(m)", "%0: bool = array m: bool\noutput: bool = any %0");
    gives(
        "dot(a, x_f64)",
        "%0: f32 = array a: f32
        %1: f64 = array x_f64: f64
        %2: f64 = cast %0
        output: f64 = dot %2, %1",
    );
    gives(
        "mean(x_i32)",
        "%0: i32 = array x_i32: i32
        %1: f64 = cast %0
        output: f64 = mean %1",
    );
}

#[test]
fn every_function_of_the_table_compiles_to_its_node() {
    for &op in Op::FUNCTIONS {
        let arguments = match op.rule() {
            Rule::Select => "m, a, b",
            _ => ["a", "a, b", "a, b, c"][op.arity() - 1],
        };
        let program = program(&format!("{}({arguments})", op.name()));
        let last = program.nodes().last().expect("a node");
        assert_eq!(last.source, Source::Op(op));
        assert_eq!(last.operands().len(), op.arity());
    }
}
