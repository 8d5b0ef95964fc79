//! The grammar: recursive descent, one token ahead, with nodes appended on the way.

use crate::builder::{Builder, Value};
use crate::error::{Error, Result, fault, quoted};
use crate::lexer::{Lexer, Token, is_word};
use crate::literal::Number;
use crate::suggest::{cast_of_integers, function_suggestion, suggestion};
use crate::{
    Element, Input, MAX_DEPTH, MAX_INPUTS, MAX_NAME, MAX_TEXT, Op, Program, Reduction, Shape, Type,
};

/// Python's words, which are no names, with what to write instead.
const KEYWORDS: &[(&str, &str)] = &[
    ("True", ""),
    ("False", ""),
    ("and", "write & between bools, and parentheses around comparisons"),
    ("or", "write | between bools, and parentheses around comparisons"),
    ("not", "write ~(x) for the opposite of a bool"),
    ("if", "write where(condition, a, b)"),
    ("else", "write where(condition, a, b)"),
    ("in", "write (x == 1) | (x == 2) to compare with several values"),
    ("is", "write x == y to compare, and x != x for NaN"),
];

/// Python's floats that have names, unless an input has the name.
const CONSTANTS: &[(&str, f64)] = &[
    ("pi", std::f64::consts::PI),
    ("e", std::f64::consts::E),
    ("inf", f64::INFINITY),
    ("nan", f64::NAN),
];

/// Compiles an expression of the inputs.
///
/// Time and memory are bounded by the crate's limits, the stack to half a mebibyte.
///
/// # Errors
///
/// If the text or the inputs are wrong: the error says where, and what to write.
pub fn compile(text: &str, inputs: &[Input<'_>]) -> std::result::Result<Program, Error> {
    check_inputs(inputs).map_err(Error::of_inputs)?;
    if text.len() > MAX_TEXT {
        return Err(Error::of_inputs(format!(
            "the expression has {} bytes, but at most {MAX_TEXT} are taken: split it",
            text.len()
        )));
    }
    if text.trim_ascii().is_empty() {
        let message = "the expression is empty: write a formula of the inputs";
        return Err(Error::of_inputs(message.into()));
    }
    Parser::program(text, inputs).map_err(|fault| Error::in_text(text, fault))
}

fn check_inputs(inputs: &[Input<'_>]) -> std::result::Result<(), String> {
    let count = inputs.len();
    if count > MAX_INPUTS {
        return Err(format!(
            "there are {count} inputs, but at most {MAX_INPUTS} are taken: split the expression"
        ));
    }
    for (i, Input { name, element, shape }) in inputs.iter().enumerate() {
        let wrong = if name.len() > MAX_NAME {
            format!("is longer than {MAX_NAME} bytes: choose a shorter name")
        } else if !name.starts_with(|c: char| is_word(c) && !c.is_ascii_digit())
            || !name.chars().all(is_word)
        {
            "is no name: write letters, digits and _, and no digit first".into()
        } else if KEYWORDS.iter().any(|(keyword, _)| keyword == name) {
            "is a word of the language: choose another name".into()
        } else if *shape == Shape::Number && !matches!(element, Element::F64 | Element::I64) {
            format!(
                "is a number of type {}: declare it as f64 or i64, or as a scalar",
                element.name()
            )
        } else if inputs[..i].iter().any(|earlier| earlier.name == *name) {
            "names two inputs: choose another name for one of them".into()
        } else {
            continue;
        };
        return Err(format!("{} {wrong}", quoted(name)));
    }
    Ok(())
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    token: Token<'t>,
    place: usize,
    depth: usize,
    inputs: &'t [Input<'t>],
    builder: Builder,
}

impl<'t> Parser<'t> {
    fn program(text: &'t str, inputs: &'t [Input<'t>]) -> Result<Program> {
        let mut lexer = Lexer::new(text);
        let (token, place) = lexer.next()?;
        let builder = Builder::default();
        let mut parser = Parser { lexer, token, place, depth: 0, inputs, builder };
        if let Some(reduction) = parser.reduction() {
            return parser.reduced(reduction);
        }
        let value = parser.expression()?;
        parser.end()?;
        parser.builder.output(inputs, value)
    }

    /// A reduction, which is the whole expression.
    fn reduced(mut self, reduction: Reduction) -> Result<Program> {
        let place = self.place;
        self.advance()?;
        let values = self.arguments(reduction.name(), reduction.arity())?;
        if self.token != Token::End {
            return fault(self.place, outermost(reduction.name()));
        }
        self.builder.reduce(self.inputs, reduction, &values, place)
    }

    /// The reduction of which a call begins at the token.
    fn reduction(&mut self) -> Option<Reduction> {
        let Token::Name(name) = self.token else { return None };
        let reduction = Reduction::ALL.iter().find(|reduction| reduction.name() == name)?;
        self.lexer.at_call().then_some(*reduction)
    }

    fn end(&self) -> Result<()> {
        match self.token {
            Token::End => Ok(()),
            Token::Symbol(")") => fault(self.place, "no '(' belongs to this ')'"),
            _ => self.unexpected("an operator or the end"),
        }
    }

    fn advance(&mut self) -> Result<()> {
        (self.token, self.place) = self.lexer.next()?;
        Ok(())
    }

    #[inline(never)]
    fn unexpected<T>(&self, wanted: &str) -> Result<T> {
        let hint = match self.token {
            Token::Name(name) => KEYWORDS.iter().find(|(keyword, _)| *keyword == name),
            _ => None,
        };
        let hint = hint.map_or("", |(_, hint)| hint);
        let separator = if hint.is_empty() { "" } else { ": " };
        let found = self.token.quoted();
        fault(self.place, format!("expected {wanted}, found {found}{separator}{hint}"))
    }

    fn expect(&mut self, symbol: &'static str, wanted: &str) -> Result<()> {
        if self.token == Token::Symbol(symbol) { self.advance() } else { self.unexpected(wanted) }
    }

    /// Runs a part of the grammar one level deeper.
    fn nested<T>(&mut self, place: usize, part: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return fault(
                place,
                format!("more than {MAX_DEPTH} levels are nested: split the expression"),
            );
        }
        self.depth += 1;
        let result = part(self);
        self.depth -= 1;
        result
    }

    /// Comparisons, in chains: each must hold.
    fn expression(&mut self) -> Result<Value> {
        let mut left = self.binary(0)?;
        let mut chain = None;
        while let Token::Symbol(symbol) = self.token {
            let (op, swapped) = match symbol {
                "<" => (Op::Less, false),
                "<=" => (Op::LessEqual, false),
                ">" => (Op::Less, true),
                ">=" => (Op::LessEqual, true),
                "==" => (Op::Equal, false),
                "!=" => (Op::NotEqual, false),
                _ => break,
            };
            let place = self.place;
            self.advance()?;
            let right = self.binary(0)?;
            let operands = if swapped { [right, left] } else { [left, right] };
            let holds = self.builder.apply(op, &operands, place)?;
            chain = Some(match chain {
                Some(chain) => self.builder.apply(Op::And, &[chain, holds], place)?,
                None => holds,
            });
            left = right;
        }
        Ok(chain.unwrap_or(left))
    }

    /// Operators that bind at least as strongly as those of a level; they group to the left.
    fn binary(&mut self, level: usize) -> Result<Value> {
        let mut left = self.unary()?;
        while let Some((op, strength)) = self.operator().filter(|(_, strength)| *strength >= level)
        {
            let place = self.place;
            self.advance()?;
            let right = self.binary(strength + 1)?;
            left = self.builder.apply(op, &[left, right], place)?;
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(Op, usize)> {
        let Token::Symbol(symbol) = self.token else { return None };
        Some(match symbol {
            "|" => (Op::Or, 0),
            "&" => (Op::And, 1),
            "+" => (Op::Add, 2),
            "-" => (Op::Sub, 2),
            "*" => (Op::Mul, 3),
            "/" => (Op::Div, 3),
            "//" => (Op::FloorDiv, 3),
            "%" => (Op::Mod, 3),
            _ => return None,
        })
    }

    /// Signs, which bind less strongly than the power on their right.
    fn unary(&mut self) -> Result<Value> {
        let place = self.place;
        let op = match self.token {
            Token::Symbol("-") => Some(Op::Neg),
            Token::Symbol("~") => Some(Op::Not),
            Token::Symbol("+") => None,
            _ => return self.power(),
        };
        self.advance()?;
        let value = self.nested(place, Self::unary)?;
        match op {
            Some(op) => self.builder.apply(op, &[value], place),
            None => self.builder.plus(value, place),
        }
    }

    /// A power, which groups to the right.
    fn power(&mut self) -> Result<Value> {
        let base = self.atom()?;
        if self.token != Token::Symbol("**") {
            return Ok(base);
        }
        let place = self.place;
        self.advance()?;
        let exponent = self.nested(place, Self::unary)?;
        self.builder.power(base, exponent, place)
    }

    fn atom(&mut self) -> Result<Value> {
        let place = self.place;
        match self.token {
            Token::Integer(digits) => {
                let Ok(value) = digits.parse() else {
                    return fault(place, "the integer is too large: write a float, as in 1e40");
                };
                self.advance()?;
                Ok(Value::literal(Number::Int(value), place))
            }
            Token::Float(digits) => {
                let Ok(value) = digits.parse() else { return self.unexpected("a number") };
                self.advance()?;
                Ok(Value::literal(Number::Float(value), place))
            }
            Token::Symbol("(") => {
                self.advance()?;
                let value = self.nested(place, Self::expression)?;
                self.expect(")", "an operator or ')'")?;
                Ok(value)
            }
            Token::Name(name @ ("True" | "False")) => {
                self.advance()?;
                self.builder.bool(name == "True", place)
            }
            Token::Name(name) if !KEYWORDS.iter().any(|(keyword, _)| *keyword == name) => {
                let is_call = self.lexer.at_call();
                self.advance()?;
                if is_call { self.call(name, place) } else { self.input(name, place) }
            }
            _ => self.unexpected("a value"),
        }
    }

    /// An input, or a constant.
    #[inline(never)]
    fn input(&mut self, name: &str, place: usize) -> Result<Value> {
        if let Some(index) = self.inputs.iter().position(|input| input.name == name) {
            return self.builder.input(index, &self.inputs[index], place);
        }
        match CONSTANTS.iter().find(|(constant, _)| *constant == name) {
            Some((_, value)) => Ok(Value::literal(Number::Float(*value), place)),
            None if functions().any(|function| function == name) => fault(
                place,
                format!("no array is named '{name}': write {name}(...) for the function"),
            ),
            None => {
                let near = suggestion(name, self.inputs.iter().map(|input| input.name));
                fault(place, format!("no array is named {}{near}", quoted(name)))
            }
        }
    }

    fn call(&mut self, name: &str, place: usize) -> Result<Value> {
        if let Some(ty) = Type::ALL.into_iter().find(|ty| ty.name() == name) {
            let values = self.arguments(ty.name(), 1)?;
            return self.builder.cast(values[0], ty, place);
        }
        if let Some(op) = Op::FUNCTIONS.iter().find(|op| op.name() == name) {
            let values = self.arguments(op.name(), op.arity())?;
            return self.builder.apply(*op, &values, place);
        }
        if let Some(reduction) = Reduction::ALL.iter().find(|reduction| reduction.name() == name) {
            return fault(place, outermost(reduction.name()));
        }
        if let Some(element) = Element::ALL.iter().find(|element| element.name() == name) {
            let cast = cast_of_integers(*element);
            let message = format!("{name} is a type of inputs alone: write {cast} for integers");
            return fault(place, message);
        }
        let near = function_suggestion(name, functions());
        fault(place, format!("no function is named {}{near}", quoted(name)))
    }

    /// A call's arguments, `count` of them.
    fn arguments(&mut self, name: &str, count: usize) -> Result<Vec<Value>> {
        let open = self.place;
        self.expect("(", "'('")?;
        let takes =
            || format!("{name} takes {count} argument{}", if count == 1 { "" } else { "s" });
        let mut values = Vec::with_capacity(count);
        while self.token != Token::Symbol(")") {
            if values.len() == count {
                let hint = match name {
                    "min" => ": write minimum(a, b), in which NaN wins, for two arrays",
                    "max" => ": write maximum(a, b), in which NaN wins, for two arrays",
                    _ => "",
                };
                return fault(self.place, format!("{}, and this is one more{hint}", takes()));
            }
            values.push(self.nested(open, Self::expression)?);
            if self.token != Token::Symbol(",") {
                break;
            }
            self.advance()?;
        }
        if self.token == Token::Symbol(")") && values.len() < count {
            return fault(self.place, format!("{}, not {}", takes(), values.len()));
        }
        self.expect(")", "an operator, ',' or ')'")?;
        Ok(values)
    }
}

/// The names that may be called.
fn functions() -> impl Iterator<Item = &'static str> + Clone {
    let casts = Type::ALL.into_iter().map(Type::name);
    let functions = Op::FUNCTIONS.iter().map(|op| op.name());
    casts.chain(functions).chain(Reduction::ALL.iter().map(|reduction| reduction.name()))
}

fn outermost(name: &str) -> String {
    format!(
        "{name} is a reduction, which must be the whole expression: compute it first, and pass \
         the result as a scalar"
    )
}
