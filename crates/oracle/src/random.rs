//! Random expressions.

use gpuvec_expr::{Element, Form, Input, compile};
use std::sync::LazyLock;

/// The inputs of the tests: a to d are arrays of f32, and arrays of other types have the type in their names; k and h
/// are a Python integer and a Python float.
pub const INPUTS: [Input<'static>; 19] = [
    array("a", Element::F32),
    array("b", Element::F32),
    array("c", Element::F32),
    array("d", Element::F32),
    Input { name: "s", element: Element::F32, form: Form::Scalar },
    array("m", Element::Bool),
    array("x_u8", Element::U8),
    array("x_i8", Element::I8),
    array("x_u16", Element::U16),
    array("x_i16", Element::I16),
    array("x_u32", Element::U32),
    array("x_i32", Element::I32),
    array("x_i64", Element::I64),
    array("x_f64", Element::F64),
    Input { name: "k", element: Element::I64, form: Form::Number },
    Input { name: "h", element: Element::F64, form: Form::Number },
    array("x_u64", Element::U64),
    array("x_f16", Element::F16),
    array("x_bf16", Element::Bf16),
];

/// An array of a type.
#[must_use]
pub const fn array(name: &str, element: Element) -> Input<'_> {
    Input { name, element, form: Form::Array }
}

/// An integer beyond the range of i32.
const LARGE: &str = "3000000000";

/// The functions of one number.
static OF_ONE: LazyLock<Vec<&str>> = LazyLock::new(|| functions(1, false));
/// The functions of several numbers, with their count.
static OF_MORE: LazyLock<Vec<(&str, usize)>> = LazyLock::new(|| {
    let of = |count| functions(count, false).into_iter().map(move |name| (name, count));
    of(2).chain(of(3)).collect()
});
/// The functions of one number that return a bool.
static PREDICATES: LazyLock<Vec<&str>> = LazyLock::new(|| functions(1, true));

/// Returns the language's functions of `count` numbers that return a bool, or the ones that return a number.
fn functions(count: usize, is_bool: bool) -> Vec<&'static str> {
    let arguments = INPUTS.map(|input| input.name)[..count].join(", ");
    let returns_it = |name: &&str| {
        let program = compile(&format!("{name}({arguments})"), &INPUTS);
        program.is_ok_and(|program| (program.outputs()[0].element == Element::Bool) == is_bool)
    };
    let of_count = gpuvec_expr::functions().filter(|&(_, arity)| arity == count);
    of_count.map(|(name, _)| name).filter(returns_it).collect()
}

/// The precedences of expressions, in the order of Python's reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Comparison,
    Or,
    Xor,
    And,
    Shift,
    Sum,
    Product,
    Sign,
    Power,
    Atom,
}
use Strength::{And, Atom, Comparison, Or, Power, Product, Shift, Sign, Sum, Xor};

/// An expression, with the fewest parentheses and with all of them.
#[derive(Clone, Debug)]
pub struct Text {
    /// The text with the fewest parentheses.
    pub fewest: String,
    /// The text with all parentheses.
    pub all: String,
    strength: Strength,
}

impl Text {
    fn atom(text: &str) -> Text {
        Text { fewest: text.into(), all: text.into(), strength: Atom }
    }

    /// The text with the fewest parentheses for a place that needs at least the precedence `strength`.
    fn within(&self, strength: Strength) -> String {
        if self.strength < strength { format!("({})", self.fewest) } else { self.fewest.clone() }
    }
}

/// Makes expressions from bytes, which are its choices. Without further bytes, it ends the expression.
#[derive(Clone, Debug)]
pub struct Generator<'b>(std::slice::Iter<'b, u8>);

impl<'b> Generator<'b> {
    /// A generator that makes these choices.
    #[must_use]
    pub fn new(choices: &'b [u8]) -> Self {
        Generator(choices.iter())
    }

    fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.0.next().copied().unwrap_or(0)) % choices.len()]
    }

    /// One to four formulas with `;` between them: values, or reductions of values, that are not deeper than `depth`.
    pub fn formulas(&mut self, depth: usize) -> String {
        let count = self.choose(&[1, 2, 2, 3, 3, 4]);
        let formulas: Vec<String> = (0..count).map(|_| self.formula(depth).fewest).collect();
        formulas.join(self.choose(&["; ", ";", " ;\n"]))
    }

    fn formula(&mut self, depth: usize) -> Text {
        match self.choose(&[0, 0, 0, 1, 2, 2, 2, 3, 4]) {
            0 => self.number(depth),
            1 => self.bool(depth),
            2 => {
                let names = ["sum", "mean", "norm", "min", "max", "argmin", "argmax"];
                let name = self.choose(&names);
                call(name, &[self.number(depth)])
            }
            3 => {
                let name = self.choose(&["any", "all", "count"]);
                call(name, &[self.bool(depth)])
            }
            _ => {
                let factors = [self.number(depth), self.number(depth)];
                call("dot", &factors)
            }
        }
    }

    /// An expression of numbers, not deeper than this.
    pub fn number(&mut self, depth: usize) -> Text {
        let form = if depth == 0 { 0 } else { self.choose(&[0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8]) };
        let deeper = depth.saturating_sub(1);
        match form {
            0 => Text::atom(self.choose(&[
                "a", "b", "s", "x_u8", "x_i16", "x_u32", "x_i32", "x_i64", "x_f64", "x_u64",
                "x_f16", "x_bf16", "k", "k", "h", "0", "1", "2", LARGE, "0.1", "1e300", "2.5",
                ".5", "1.",
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
                let exponent = match self.choose(&["2", "3", "-1", "0.5", "0", "2.0", "-2", ""]) {
                    "" => self.number(deeper),
                    literal => Text::atom(literal),
                };
                Text {
                    fewest: format!("{}**{}", base.within(Atom), exponent.within(Sign)),
                    all: format!("(({})**({}))", base.all, exponent.all),
                    strength: Power,
                }
            }
            4 => {
                let condition = self.bool(deeper);
                let [x, y] = [self.number(deeper), self.number(deeper)];
                call("where", &[condition, x, y])
            }
            5 => {
                let cast = self.choose(&["f32", "f64", "i32", "i64", "u64", "f16", "bf16"]);
                let x = if self.choose(&[true, false]) {
                    self.number(deeper)
                } else {
                    self.bool(deeper)
                };
                call(cast, &[x])
            }
            6 => {
                let name = self.choose(&OF_ONE);
                call(name, &[self.number(deeper)])
            }
            7 => self.bits(deeper),
            _ => {
                let (name, count) = self.choose(&OF_MORE);
                let arguments: Vec<Text> = (0..count).map(|_| self.number(deeper)).collect();
                call(name, &arguments)
            }
        }
    }

    /// An operation on the bits of integers, not deeper than this.
    fn bits(&mut self, depth: usize) -> Text {
        let (op, strength, next) = self.choose(&[
            ("&", And, Shift),
            ("|", Or, Xor),
            ("^", Xor, And),
            ("<<", Shift, Sum),
            (">>", Shift, Sum),
            ("~", Sign, Sign),
        ]);
        match op {
            "~" => self.unary("~", depth, Self::integer),
            _ => self.binary(op, strength, next, depth, Self::integer),
        }
    }

    /// An integer, not deeper than this.
    fn integer(&mut self, depth: usize) -> Text {
        let names = ["x_i32", "x_i64", "x_u64", "x_u8", "x_i16", "x_u32", "3", "40", "k"];
        match self.choose(&[0, 1, 2]) {
            1 if depth > 0 => self.bits(depth - 1),
            2 if depth > 0 => call(self.choose(&["i32", "i64", "u64"]), &[self.number(depth - 1)]),
            _ => Text::atom(self.choose(&names)),
        }
    }

    /// An expression of bools, not deeper than this.
    pub fn bool(&mut self, depth: usize) -> Text {
        let form = if depth == 0 { 0 } else { self.choose(&[0, 1, 2, 3, 4, 5, 6, 7]) };
        let deeper = depth.saturating_sub(1);
        match form {
            0 => Text::atom(self.choose(&["m", "True", "False"])),
            1 => self.unary("~", deeper, Self::bool),
            2 => self.binary("&", And, Shift, deeper, Self::bool),
            3 => self.binary("|", Or, Xor, deeper, Self::bool),
            4 => call("bool", &[self.number(deeper)]),
            5 => self.binary("^", Xor, And, deeper, Self::bool),
            6 => call(self.choose(&PREDICATES), &[self.number(deeper)]),
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
