//! The exact text of every error.

use crate::{array, compiled};
use gpuvec_expr::{Element, Input, compile};

/// Checks the messages of texts, and the columns of their carets.
#[track_caller]
fn fail(cases: &[(&str, usize, &str)]) {
    for &(text, column, message) in cases {
        let error = compiled(text).expect_err(text).to_string();
        assert_eq!(error, format!("{message}\n{text}\n{:column$}^", ""));
    }
}

#[test]
fn unknown_names() {
    fail(&[
        ("sqrt(a*a + b*c2)", 13, "no array is named 'c2'"),
        ("x_i23 + 1", 0, "no array is named 'x_i23': did you mean 'x_i32'?"),
        ("zzz", 0, "no array is named 'zzz'"),
        ("sqrt + a", 0, "no array is named 'sqrt': write sqrt(...) for the function"),
        (
            "sqr(a)",
            0,
            "no function is named 'sqr': write x**2 for the square, and sqrt(x) for the root",
        ),
        ("sqtr(a)", 0, "no function is named 'sqtr': did you mean 'sqrt'?"),
        ("ln(a)", 0, "no function is named 'ln': write log(x)"),
        ("nearbyintf(a)", 0, "no function is named 'nearbyintf': write rint(x)"),
        ("median(a)", 0, "no function is named 'median': the language does not have it"),
        ("exp10f(a)", 0, "no function is named 'exp10f': the language does not have it"),
        ("expf(a)", 0, "no function is named 'expf': write exp"),
        ("rsqrtf(a)", 0, "no function is named 'rsqrtf': write rsqrt"),
        ("arcsine(a)", 0, "no function is named 'arcsine'"),
        ("isnam(a)", 0, "no function is named 'isnam': did you mean 'isnan'?"),
        ("clip", 0, "no array is named 'clip': write clip(...) for the function"),
        ("hypot3(a)", 0, "no function is named 'hypot3'"),
        ("maximun(a)", 0, "no function is named 'maximun': did you mean 'maximum'?"),
        ("reciprocal(a)", 0, "no function is named 'reciprocal': write 1 / x for floats"),
        ("frobnicate(a)", 0, "no function is named 'frobnicate'"),
        ("u8(a)", 0, "u8 is only a type of inputs: write i32(x) % 256 for integers"),
        ("lambda", 0, "no array is named 'lambda'"),
        ("sum", 0, "no array is named 'sum': write sum(...) for the function"),
        ("a * frob", 4, "no array is named 'frob'"),
    ]);
}

#[test]
fn unknown_symbols() {
    fail(&[
        (
            "a $ b",
            2,
            "the character '$' is not allowed: names have only ASCII letters, digits and _",
        ),
        ("é", 0, "the character 'é' is not allowed: names have only ASCII letters, digits and _"),
        (
            "\"a\"",
            0,
            "the character '\"' is not allowed: names have only ASCII letters, digits and _",
        ),
        (
            "a && m",
            2,
            "'&&' is not an operator here: write & between bools, and parentheses around comparisons",
        ),
        (
            "a || m",
            2,
            "'||' is not an operator here: write | between bools, and parentheses around comparisons",
        ),
        ("a = b", 2, "'=' is not an operator here: write == to compare"),
        ("!m", 0, "'!' is not an operator here: write ~(x) for the opposite of a bool"),
        ("m ? a : b", 2, "'?' is not an operator here: write where(condition, a, b)"),
        ("a @ b", 2, "'@' is not an operator here: write dot(a, b) for arrays of one dimension"),
        ("np.sqrt(a)", 2, "'.' is not an operator here: write sqrt, not np.sqrt"),
        ("a[0]", 1, "'[' is not an operator here: pass the part of the array that you need"),
    ]);
}

#[test]
fn numbers_that_are_wrong_or_do_not_fit() {
    fail(&[
        ("1.0f + a", 0, "'1.0f' is not a number: write digits, as in 12, 0.5 or 1e-3"),
        ("0x10", 0, "'0x10' is not a number: write digits, as in 12, 0.5 or 1e-3"),
        ("012", 0, "'012' is not a number: write digits, as in 12, 0.5 or 1e-3"),
        ("1..2", 0, "'1..2' is not a number: write digits, as in 12, 0.5 or 1e-3"),
        ("1_000", 0, "'1_000' is not a number: write digits, as in 12, 0.5 or 1e-3"),
        ("1e", 0, "'1e' is not a number: write digits, as in 12, 0.5 or 1e-3"),
        ("x_i32 + 3000000000", 8, "3000000000 does not fit into i32: compute in i64, as in i64(x)"),
        ("x_u64 + -1", 8, "-1 does not fit into u64: compute in i64, as in i64(x)"),
        (
            "x_u64 + 2**64",
            8,
            "18446744073709551616 does not fit into u64: write a float, 18446744073709551616.0",
        ),
        ("i32(3000000000)", 4, "3000000000 does not fit into i32: compute in i64, as in i64(x)"),
        (
            "9223372036854775808",
            0,
            "9223372036854775808 does not fit into i64: write a float, 9223372036854775808.0",
        ),
        (
            "x_i64 + 2**63",
            8,
            "9223372036854775808 does not fit into i64: write a float, 9223372036854775808.0",
        ),
        (
            "99999999999999999999999999999999999999999",
            0,
            "the integer is too large: write a float, as in 1e40",
        ),
        ("2**200", 1, "the integer is too large: write a float, as in 1e40"),
        ("1/0", 1, "a literal is divided by zero: write inf for infinity"),
        ("1 // 0", 2, "a literal is divided by zero: write inf for infinity"),
        ("1 + (2 << -1)", 7, "a literal is shifted by a negative number"),
        ("1 << 127", 2, "the integer is too large: write a float, as in 1e40"),
        ("x_i32 & 4294967295", 8, "4294967295 does not fit into i32: compute in i64, as in i64(x)"),
        ("7 % 0.0", 2, "a literal is divided by zero: write inf for infinity"),
        (
            "x_i32 * 99999999999",
            8,
            "99999999999 does not fit into i32: compute in i64, as in i64(x)",
        ),
    ]);
}

#[test]
fn grammar() {
    fail(&[
        ("a b", 2, "expected an operator or the end, found 'b'"),
        ("a +", 3, "expected a value, found the end"),
        ("(a", 2, "expected an operator or ')', found the end"),
        ("a)", 1, "unmatched ')': remove it, or write the '(' that it closes"),
        ("()", 1, "expected a value, found ')'"),
        ("sqrt(a b)", 7, "expected an operator, ',' or ')', found 'b'"),
        ("sqrt(", 5, "expected a value, found the end"),
        ("sqrt()", 5, "sqrt takes 1 argument, not 0"),
        ("sqrt(a, b)", 8, "sqrt takes 1 argument, not more"),
        (
            "round(a, 2)",
            9,
            "round takes 1 argument, not more: write rint(x * 100) / 100 for two decimals",
        ),
        ("clip(a, 0)", 9, "clip takes 3 arguments, not 2"),
        ("subtract(a, b, c)", 15, "subtract takes 2 arguments, not more"),
        ("hypot(a)", 7, "hypot takes 2 arguments, not 1"),
        ("fma(a, b", 8, "expected an operator, ',' or ')', found the end"),
        (
            "min(a, b)",
            7,
            "min takes 1 argument, not more: write minimum(a, b), in which NaN wins, for two arrays",
        ),
        (
            "max(a, b)",
            7,
            "max takes 1 argument, not more: write maximum(a, b), in which NaN wins, for two arrays",
        ),
        (
            "max(a, axis=0)",
            7,
            "max takes 1 argument, not more: pass axis= to the call, and not in the text",
        ),
        (
            "sum(a, keepdims = True)",
            7,
            "sum takes 1 argument, not more: pass keepdims= to the call, and not in the text",
        ),
        (
            "dot(a, a, out=a)",
            10,
            "dot takes 2 arguments, not more: pass out= to the call, and not in the text",
        ),
        ("sum(a, dtype=a)", 7, "sum takes 1 argument, not more"),
        (
            "m and m",
            2,
            "expected an operator or the end, found 'and': write & between bools, and parentheses around comparisons",
        ),
        (
            "m or m",
            2,
            "expected an operator or the end, found 'or': write | between bools, and parentheses around comparisons",
        ),
        ("not m", 0, "expected a value, found 'not': write ~(x) for the opposite of a bool"),
        (
            "a if m else b",
            2,
            "expected an operator or the end, found 'if': write where(condition, a, b)",
        ),
        (
            "m is m",
            2,
            "expected an operator or the end, found 'is': write x == y to compare, and x != x for NaN",
        ),
        ("sqrt(*a)", 5, "expected a value, found '*'"),
        ("* a", 0, "expected a value, found '*'"),
        ("True(a)", 4, "expected an operator or the end, found '('"),
    ]);
}

#[test]
fn formulas_and_what_separates_them() {
    fail(&[
        ("a;", 1, "no formula follows this ';': remove it"),
        ("a; sum(b) ; ", 10, "no formula follows this ';': remove it"),
        (";", 0, "expected a value, found ';'"),
        ("; a", 0, "expected a value, found ';'"),
        ("a;; b", 2, "expected a value, found ';'"),
        ("a + ; b", 4, "expected a value, found ';'"),
        ("(a; b)", 2, "expected an operator or ')', found ';'"),
        ("hypot(a; b)", 7, "expected an operator, ',' or ')', found ';'"),
        ("a; b c", 5, "expected an operator or the end, found 'c'"),
        ("sum(a) ; b * z", 13, "no array is named 'z'"),
        ("a; b; c; d; a; b; c; d; a", 24, "there are more than 8 formulas: split the expression"),
    ]);
    let error = compiled("a + b;\nsum(q)").unwrap_err().to_string();
    assert_eq!(error, "no array is named 'q'\nsum(q)\n    ^");
}

#[test]
fn reductions_in_wrong_places_or_of_wrong_types() {
    fail(&[
        ("min(m)", 0, "min takes numbers, not bools: write all(x)"),
        ("max(m)", 0, "max takes numbers, not bools: write any(x)"),
        ("argmin(m)", 0, "argmin takes numbers, not bools: write argmin(i32(x))"),
        ("norm(m)", 0, "norm takes numbers, not bools: write norm(i32(x))"),
        (
            "dot(m, m)",
            0,
            "dot takes numbers, not bools: write any(x & y), or count(x & y) for the number",
        ),
        (
            "std(m + m)",
            6,
            "'+' takes numbers, not bools: write i32(x) or f32(x) for numbers, & and | for logic",
        ),
        ("var(a, 1)", 7, "var takes 1 argument, not more: write var(x, ddof=1) to divide by n - 1"),
        (
            "std(a, ddof = b)",
            14,
            "ddof is a whole number in the text, below 2^31: write std(x, ddof=1)",
        ),
        (
            "std(a, ddof=1.0)",
            12,
            "ddof is a whole number in the text, below 2^31: write std(x, ddof=1)",
        ),
        (
            "var(a, ddof=-2147483648)",
            12,
            "ddof is a whole number in the text, below 2^31: write var(x, ddof=1)",
        ),
        ("var(a, ddof=1, 2)", 13, "expected ')', found ','"),
        ("var(ddof=1)", 8, "'=' is not an operator here: write == to compare"),
        ("any(a)", 0, "any takes bools, not f32: write any(x != 0)"),
        ("all(x_i32)", 0, "all takes bools, not i32: write all(x != 0)"),
        ("count(a)", 0, "count takes bools, not f32: write count(x != 0)"),
    ]);
}

#[test]
fn operands_of_wrong_types() {
    fail(&[
        (
            "m + m",
            2,
            "'+' takes numbers, not bools: write i32(x) or f32(x) for numbers, & and | for logic",
        ),
        (
            "-m",
            0,
            "'-' takes numbers, not bools: write i32(x) or f32(x) for numbers, & and | for logic",
        ),
        (
            "+m",
            0,
            "'+' takes numbers, not bools: write i32(x) or f32(x) for numbers, & and | for logic",
        ),
        (
            "abs(m)",
            0,
            "abs takes numbers, not bools: write i32(x) or f32(x) for numbers, & and | for logic",
        ),
        (
            "sqrt(m)",
            0,
            "sqrt takes numbers, not bools: write i32(x) or f32(x) for numbers, & and | for logic",
        ),
        (
            "m**2",
            1,
            "'**' takes numbers, not bools: write i32(x) or f32(x) for numbers, & and | for logic",
        ),
        (
            "a & b",
            2,
            "'&' takes bools and integers, not f32: put comparisons in parentheses, as in (a < b) & (c < d)",
        ),
        (
            "x_f16 & 1",
            6,
            "'&' takes bools and integers, not f16: put comparisons in parentheses, as in (a < b) & (c < d)",
        ),
        (
            "x_u64 & x_i64",
            6,
            "'&' does not take a u64 and an integer that may be negative: write u64(x) or i64(x) for one of them",
        ),
        (
            "a < b & c < d",
            6,
            "'&' takes bools and integers, not f32: put comparisons in parentheses, as in (a < b) & (c < d)",
        ),
        (
            "m ^ a",
            2,
            "'^' takes bools and integers, not f32: put comparisons in parentheses, as in (a < b) ^ (c < d)",
        ),
        ("~a", 0, "'~' takes bools and integers, not f32: write x == 0"),
        ("a << 2", 2, "'<<' takes integers, not f32: write x * 2**n for a literal n"),
        ("x_i32 >> 2.0", 6, "'>>' takes integers, not f64: write x / 2**n for a literal n"),
        (
            "m << m",
            2,
            "'<<' takes numbers, not bools: write i32(x) or f32(x) for numbers, & and | for logic",
        ),
        (
            "isnan(m)",
            0,
            "isnan takes numbers, not bools: write i32(x) or f32(x) for numbers, & and | for logic",
        ),
        (
            "a + subtract(m, m)",
            4,
            "'-' takes numbers, not bools: write i32(x) or f32(x) for numbers, & and | for logic",
        ),
        (
            "pow(x_i32, 2)",
            0,
            "pow takes floats, not i32: write x**n for a literal n, or pow(f64(x), y) in f64",
        ),
        ("where(a, b, c)", 6, "where takes a bool as its condition, not f32: write x != 0"),
        (
            "2**x_i32",
            1,
            "pow takes floats, not i32: write x**n for a literal n, or pow(f64(x), y) in f64",
        ),
        ("x_i32**-1", 5, "integers cannot be raised to the power -1: write f64(x)**-1"),
        (
            "1 < 2 < m & a",
            10,
            "'&' takes bools and integers, not f32: put comparisons in parentheses, as in (a < b) & (c < d)",
        ),
    ]);
}

#[test]
fn only_the_line_of_the_error_is_shown() {
    let error = |text: &str| compiled(text).expect_err(text).to_string();
    assert_eq!(error("a +\n  b *\n\toops +\n a"), "no array is named 'oops'\n oops +\n ^");
    assert_eq!(error("a +\n \n"), "expected a value, found the end\na +\n   ^");
    assert_eq!(
        error("a \u{1}"),
        "the character '\\u{1}' is not allowed: names have only ASCII letters, digits and _\na  \n  ^"
    );
}

#[test]
fn wide_lines_are_shortened_around_the_place() {
    let text = "a + ".repeat(40) + "oops + " + &"a + ".repeat(40) + "a";
    let shown = format!("...+ {}oops + {}+...", "a + ".repeat(12), "a + ".repeat(4) + "a ");
    let caret = " ".repeat(53) + "^";
    let error = compiled(&text).expect_err("oops").to_string();
    assert_eq!(error, format!("no array is named 'oops'\n{shown}\n{caret}"));

    let name = "x".repeat(100);
    let (part, line) = (&name[..40], &name[..76]);
    let error = compiled(&name).expect_err("x").to_string();
    assert_eq!(error, format!("no array is named '{part}...'\n{line}...\n^"));
}

#[test]
fn texts_and_inputs_that_are_wrong() {
    for text in ["", " \t\n"] {
        let error = compiled(text).expect_err("empty").to_string();
        assert_eq!(error, "the expression is empty: write a formula of the inputs");
    }
    let long = "x".repeat(256);
    for (names, message) in [
        (
            vec![""],
            "'' is not a name: use only ASCII letters, digits and _, and no digit first".to_owned(),
        ),
        (
            vec!["1a"],
            "'1a' is not a name: use only ASCII letters, digits and _, and no digit first".into(),
        ),
        (
            vec!["a b"],
            "'a b' is not a name: use only ASCII letters, digits and _, and no digit first".into(),
        ),
        (
            vec!["é"],
            "'é' is not a name: use only ASCII letters, digits and _, and no digit first".into(),
        ),
        (vec!["and"], "'and' is a word of the language: choose another name".into()),
        (vec!["True"], "'True' is a word of the language: choose another name".into()),
        (vec!["a", "b", "a"], "'a' names two inputs: choose another name for one of them".into()),
        (
            vec![&long],
            format!("'{}...' is longer than 255 bytes: choose a shorter name", &long[..40]),
        ),
    ] {
        let inputs: Vec<Input<'_>> = names.iter().map(|name| array(name, Element::F32)).collect();
        assert_eq!(compile("1", &inputs).expect_err(&message).to_string(), message);
    }
}
