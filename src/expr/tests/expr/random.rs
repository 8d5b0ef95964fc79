//! Random expressions, token soups and bytes.

use crate::written::written;
use crate::{compiled, program};
use gpuvec_expr::{MAX_NODES, Program};
use proptest::prelude::*;

/// How strongly an expression binds, as Python's reference orders it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Comparison,
    Or,
    And,
    Sum,
    Product,
    Sign,
    Power,
    Atom,
}
use Strength::{And, Atom, Comparison, Or, Power, Product, Sign, Sum};

/// An expression, with the fewest parentheses and with all of them.
struct Text {
    fewest: String,
    all: String,
    strength: Strength,
}

impl Text {
    fn atom(text: &str) -> Text {
        Text { fewest: text.into(), all: text.into(), strength: Atom }
    }

    /// The text with fewest parentheses, where it must bind at least so strongly.
    fn within(&self, strength: Strength) -> String {
        if self.strength < strength { format!("({})", self.fewest) } else { self.fewest.clone() }
    }
}

/// Makes expressions of bytes, which are its choices; when they end, it ends.
struct Generator<'b>(std::slice::Iter<'b, u8>);

impl Generator<'_> {
    fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.0.next().copied().unwrap_or(0)) % choices.len()]
    }

    fn number(&mut self, depth: usize) -> Text {
        let form = if depth == 0 { 0 } else { self.choose(&[0, 1, 2, 2, 2, 3, 4, 5, 6, 7]) };
        let deeper = depth.saturating_sub(1);
        match form {
            0 => Text::atom(self.choose(&[
                "a",
                "b",
                "s",
                "x_u8",
                "x_i16",
                "x_u32",
                "x_i32",
                "x_i64",
                "x_f64",
                "0",
                "1",
                "2",
                "3000000000",
                "0.1",
                "1e300",
                "2.5",
                ".5",
                "1.",
            ])),
            1 => self.unary("-", deeper, Self::number),
            2 => {
                let (op, strength, next) = self.choose(&[
                    ("+", Sum, Product),
                    ("-", Sum, Product),
                    ("*", Product, Sign),
                    ("/", Product, Sign),
                    ("//", Product, Sign),
                    ("%", Product, Sign),
                ]);
                self.binary(op, strength, next, deeper, Self::number)
            }
            3 => {
                let base = self.number(deeper);
                let exponent = self.choose(&["2", "3", "-1", "0.5", "0", "2.0", "-2"]);
                Text {
                    fewest: format!("{}**{exponent}", base.within(Atom)),
                    all: format!("(({})**({exponent}))", base.all),
                    strength: Power,
                }
            }
            4 => {
                let condition = self.bool(deeper);
                let [x, y] = [self.number(deeper), self.number(deeper)];
                call("where", &[condition, x, y])
            }
            5 => {
                let cast = self.choose(&["f32", "f64", "i32", "i64"]);
                let x = if self.choose(&[true, false]) {
                    self.number(deeper)
                } else {
                    self.bool(deeper)
                };
                call(cast, &[x])
            }
            6 => {
                let functions = ["sqrt", "abs", "floor", "rint", "exp", "sign", "erf"];
                let name = self.choose(&functions);
                call(name, &[self.number(deeper)])
            }
            _ => {
                let (name, count) =
                    self.choose(&[("minimum", 2), ("hypot", 2), ("fma", 3), ("pow", 2)]);
                let arguments: Vec<Text> = (0..count).map(|_| self.number(deeper)).collect();
                call(name, &arguments)
            }
        }
    }

    fn bool(&mut self, depth: usize) -> Text {
        let form = if depth == 0 { 0 } else { self.choose(&[0, 1, 2, 3, 4, 5]) };
        let deeper = depth.saturating_sub(1);
        match form {
            0 => Text::atom(self.choose(&["m", "True", "False"])),
            1 => self.unary("~", deeper, Self::bool),
            2 => self.binary("&", And, Sum, deeper, Self::bool),
            3 => self.binary("|", Or, And, deeper, Self::bool),
            4 => call("bool", &[self.number(deeper)]),
            _ => {
                let ops = ["<", "<=", ">", ">=", "==", "!="];
                let [first, second] = [self.choose(&ops), self.choose(&ops)];
                let [x, y, z] = [self.number(deeper), self.number(deeper), self.number(deeper)];
                let (fewest, all) = (
                    format!("{} {first} {}", x.within(Or), y.within(Or)),
                    format!("({} {first} {})", x.all, y.all),
                );
                if self.choose(&[true, false]) {
                    return Text { fewest, all, strength: Comparison };
                }
                Text {
                    fewest: format!("{fewest} {second} {}", z.within(Or)),
                    all: format!("({all} & ({} {second} {}))", y.all, z.all),
                    strength: Comparison,
                }
            }
        }
    }

    fn unary(&mut self, op: &str, depth: usize, part: fn(&mut Self, usize) -> Text) -> Text {
        let x = part(self, depth);
        let fewest = format!("{op}{}", x.within(Sign));
        Text { fewest, all: format!("({op}{})", x.all), strength: Sign }
    }

    fn binary(
        &mut self, op: &str, strength: Strength, next: Strength, depth: usize,
        part: fn(&mut Self, usize) -> Text,
    ) -> Text {
        let [x, y] = [part(self, depth), part(self, depth)];
        Text {
            fewest: format!("{} {op} {}", x.within(strength), y.within(next)),
            all: format!("({} {op} {})", x.all, y.all),
            strength,
        }
    }
}

fn call(name: &str, arguments: &[Text]) -> Text {
    let list = |of: fn(&Text) -> &str| arguments.iter().map(of).collect::<Vec<_>>().join(", ");
    Text {
        fewest: format!("{name}({})", list(|x| &x.fewest)),
        all: format!("{name}({})", list(|x| &x.all)),
        strength: Atom,
    }
}

/// Checks what a back end relies on.
fn check_invariants(program: &Program) -> Result<(), TestCaseError> {
    let nodes = program.nodes();
    prop_assert!(nodes.len() <= MAX_NODES);
    let mut used = vec![false; nodes.len()];
    for (id, node) in nodes.iter().enumerate() {
        for &operand in node.operands() {
            prop_assert!(usize::from(operand) < id, "operands come first");
            used[usize::from(operand)] = true;
        }
        prop_assert!(!nodes[..id].contains(node), "no two nodes are equal");
    }
    program.results().iter().for_each(|&id| used[usize::from(id)] = true);
    prop_assert!(used.iter().all(|&used| used), "every node is used");
    Ok(())
}

/// Checks that a text gives a program or a short error whose caret is below the line.
fn check_any_text(text: &str) -> Result<(), TestCaseError> {
    match compiled(text) {
        Ok(program) => check_invariants(&program),
        Err(error) => {
            let error = error.to_string();
            prop_assert!(error.len() < 800, "{error}");
            if text.trim_ascii().is_empty() {
                prop_assert_eq!(error, "the expression is empty: write a formula of the inputs");
                return Ok(());
            }
            let lines: Vec<&str> = error.split('\n').collect();
            prop_assert!(
                matches!(lines[..], [_, line, caret]
                if caret.chars().count() <= line.chars().count() + 1),
                "{error}"
            );
            Ok(())
        }
    }
}

const TOKENS: &[&str] = &[
    "a",
    "m",
    "x_i32",
    "nothing",
    "1",
    "2.5",
    "1e5",
    "0",
    "99999999999999999999",
    "(",
    "(",
    ")",
    ")",
    ",",
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "<",
    ">=",
    "==",
    "&",
    "|",
    "~",
    "sqrt(",
    "where(",
    "fma(",
    "f32(",
    "sum(",
    "and",
    "not",
    "if",
    "\n",
    "\u{e9}",
    "=",
    ".",
    "True",
    "0.5",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parentheses_that_python_implies_change_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = Generator(bytes.iter()).number(5);
        match (compiled(&text.fewest), compiled(&text.all)) {
            (Ok(fewest), Ok(all)) => {
                check_invariants(&fewest)?;
                prop_assert_eq!(fewest, all, "{}", text.fewest);
            }
            (Err(_), Err(_)) => {}
            (fewest, all) => prop_assert!(false, "{}: {fewest:?}, {all:?}", text.fewest),
        }
    }

    #[test]
    fn a_program_written_as_an_expression_gives_itself(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        reduction in prop::sample::select(vec!["", "sum", "mean", "argmin", "norm", "max"]),
    ) {
        let text = format!("{reduction}({})", Generator(bytes.iter()).number(4).fewest);
        let Ok(first) = compiled(&text) else { return Ok(()) };
        let second = program(&written(&first));
        prop_assert_eq!(first.nodes().len(), second.nodes().len());
        prop_assert_eq!(written(&first), written(&second));
        prop_assert_eq!(program(&written(&second)), second);
    }

    #[test]
    fn random_tokens_give_a_program_or_an_error(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..60), blanks: bool,
    ) {
        check_any_text(&tokens.join(if blanks { " " } else { "" }))?;
    }

    #[test]
    fn random_bytes_give_a_program_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check_any_text(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn random_ascii_gives_a_program_or_an_error(text in "[ -~\n\t]{0,300}") {
        check_any_text(&text)?;
    }
}
