//! An operator-precedence parser. It looks one token ahead, and appends nodes on the way. Operators and parentheses
//! wait for their values in a list, not in recursive calls, so that the parser takes the same stack for every text.

use crate::builder::{Builder, Value};
use crate::callee::{Callee, names};
use crate::error::{Error, Result, fault, quoted};
use crate::formulas::{ARGUMENTS, Formula, PARTS, Text};
use crate::inputs::{KEYWORDS, check_inputs, check_text, is_keyword};
use crate::lexer::{Lexer, Token};
use crate::literal::Number;
use crate::operator::{Comparison, Operator};
use crate::suggest::suggestion;
use crate::types::Class;
use crate::{
    Form, Input, MAX_DEPTH, MAX_OUTPUTS, NodeId, Op, Output, OutputKind, Program, Reduction, Type,
};

/// The names of constants. An input of the same name hides a constant.
const CONSTANTS: &[(&str, f64)] = &[
    ("pi", std::f64::consts::PI),
    ("e", std::f64::consts::E),
    ("inf", f64::INFINITY),
    ("nan", f64::NAN),
];

/// Compiles an expression of the inputs: one formula, or several with `;` between them. Each formula makes an output.
///
/// The crate's limits bound the time and the memory. The stack does not depend on the text.
///
/// # Errors
///
/// If the text or the inputs are wrong. The error shows the place and what to write.
pub fn compile(text: &str, inputs: &[Input<'_>]) -> std::result::Result<Program, Error> {
    check_inputs(inputs).map_err(Error::of_inputs)?;
    check_text(text).map_err(Error::of_inputs)?;
    let mut builder = Builder::default();
    let outputs = Parser::outputs(text, inputs, &mut builder);
    let outputs = outputs.map_err(|fault| Error::in_text(text, fault))?;
    builder.end(inputs, outputs)
}

/// Compiles reductions of the elements of each key. The text `by` is a formula of the same inputs, whose values are
/// integers: each element's key.
///
/// # Errors
///
/// As [`compile`]; also if a formula is not a reduction, or has a reduction inside.
pub fn compile_by(
    text: &str, by: &str, inputs: &[Input<'_>],
) -> std::result::Result<Program, Error> {
    check_inputs(inputs).map_err(Error::of_inputs)?;
    [text, by].into_iter().try_for_each(check_text).map_err(Error::of_inputs)?;
    let mut builder = Builder::default();
    let key = Parser::key(by, inputs, &mut builder).map_err(|fault| Error::in_text(by, fault))?;
    let grouped = Parser::outputs(text, inputs, &mut builder).and_then(|outputs| {
        let grouped = outputs.into_iter().map(|output| output.grouped(key));
        grouped.collect::<Option<Vec<_>>>().map_or_else(|| fault(0, NOT_BY_KEY), Ok)
    });
    let outputs = grouped.map_err(|fault| Error::in_text(text, fault))?;
    let program = builder.end(inputs, outputs)?;
    if program.before().is_empty() { Ok(program) } else { Err(Error::of_inputs(NOT_BY_KEY)) }
}

const NOT_BY_KEY: &str =
    "by key, each formula is one reduction: write sum(x), and compute with its results afterwards";

/// The token between two formulas.
const SEPARATOR: Token<'static> = Token::Symbol(";");

/// A call that is being read.
#[derive(Clone, Copy)]
struct Call {
    callee: Callee,
    place: usize,
    /// The place of the parenthesis.
    open: usize,
    /// The number of values before the arguments.
    first: usize,
}

/// A part of an expression that waits for the value on its right.
#[derive(Clone, Copy)]
enum Pending {
    /// An operator and its place. If it has a value on its left, that is the last value.
    Operator(Operator, usize),
    Parenthesis,
    Call(Call),
}

/// The values that have names in a text.
#[derive(Clone, Copy)]
enum Scope<'t> {
    Inputs(&'t [Input<'t>]),
    /// In a function's formula: its arguments, and the values of its earlier parts.
    Values(&'t [(&'static str, Value)]),
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    token: Token<'t>,
    place: usize,
    scope: Scope<'t>,
    builder: &'t mut Builder,
    /// The values that no operator has taken.
    values: Vec<Value>,
    pending: Vec<Pending>,
    /// The number of pending parts that nest: all except comparisons and binary operators.
    depth: usize,
    /// The keyword argument of the reduction that ends next.
    ddof: i32,
    /// The contents of the formula and of each reduction that is being read, without the contents of inner reductions.
    contents: Vec<Contents>,
}

/// The kinds of values in a text.
#[derive(Clone, Copy, Default)]
struct Contents {
    has_array: bool,
    has_reduction: bool,
}

impl Contents {
    /// True if there is only one value, which is computed from reductions.
    const fn are_one_value(self) -> bool {
        self.has_reduction && !self.has_array
    }
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, scope: Scope<'t>, builder: &'t mut Builder) -> Result<Self> {
        let mut lexer = Lexer::new(text);
        let (token, place) = lexer.next()?;
        Ok(Parser {
            lexer,
            token,
            place,
            scope,
            builder,
            values: Vec::new(),
            pending: Vec::new(),
            depth: 0,
            ddof: 0,
            contents: Vec::new(),
        })
    }

    /// Reads all formulas of a text.
    fn outputs(
        text: &'t str, inputs: &'t [Input<'t>], builder: &'t mut Builder,
    ) -> Result<Vec<Output>> {
        let mut parser = Parser::new(text, Scope::Inputs(inputs), builder)?;
        let mut outputs = vec![parser.output()?];
        while parser.token == SEPARATOR {
            parser.separator(outputs.len())?;
            outputs.push(parser.output()?);
        }
        Ok(outputs)
    }

    /// Reads the only formula of a text of keys.
    fn key(text: &'t str, inputs: &'t [Input<'t>], builder: &'t mut Builder) -> Result<NodeId> {
        let mut parser = Parser::new(text, Scope::Inputs(inputs), builder)?;
        parser.contents = vec![Contents::default()];
        parser.read()?;
        let (value, contents) = (parser.values[0], parser.contents[0]);
        if parser.token == SEPARATOR {
            return fault(parser.place, "the keys are one formula: remove the ';'");
        }
        if contents.has_reduction {
            return fault(0, "a reduction has no keys: pass its result as a scalar");
        }
        parser.builder.key(value)
    }

    /// Reads the separator between a formula and the `read` formulas before it.
    fn separator(&mut self, read: usize) -> Result<()> {
        let place = self.place;
        self.advance()?;
        match self.token {
            Token::End => fault(place, "no formula follows this ';': remove it"),
            _ if read == MAX_OUTPUTS => fault(
                self.place,
                format!("there are more than {MAX_OUTPUTS} formulas: split the expression"),
            ),
            _ => Ok(()),
        }
    }

    fn output(&mut self) -> Result<Output> {
        self.contents = vec![Contents::default()];
        self.read()?;
        let values = std::mem::take(&mut self.values);
        let mut output = self.builder.output(values[0])?;
        if output.kind == OutputKind::Elementwise && self.contents[0].are_one_value() {
            output.kind = OutputKind::Single;
        }
        Ok(output)
    }

    /// Reads a part of a function's formula.
    fn value(
        text: &'t str, values: &'t [(&'static str, Value)], builder: &'t mut Builder,
    ) -> Result<Value> {
        let mut parser = Parser::new(text, Scope::Values(values), builder)?;
        parser.read()?;
        Ok(parser.values[0])
    }

    /// Reads up to the end of a formula. The only value is then the output.
    fn read(&mut self) -> Result<()> {
        loop {
            let value = self.operand()?;
            self.push(value)?;
            if self.end_of_value()? {
                return Ok(());
            }
        }
    }

    /// Reads a value, and all signs, parentheses and functions before it, which then wait for it.
    fn operand(&mut self) -> Result<Value> {
        loop {
            let place = self.place;
            match self.token {
                Token::Symbol("-") => self.sign(Some(Op::Neg))?,
                Token::Symbol("~") => self.sign(Some(Op::Not))?,
                Token::Symbol("+") => self.sign(None)?,
                Token::Symbol("(") => {
                    self.advance()?;
                    self.nest(Pending::Parenthesis, place)?;
                }
                Token::Name(name) if !is_keyword(name) => {
                    let is_call = self.lexer.at('(');
                    self.advance()?;
                    if !is_call {
                        return self.input(name, place);
                    }
                    let callee = Callee::named(name, place)?;
                    self.open_call(callee, place)?;
                }
                _ => return self.constant(),
            }
        }
    }

    fn sign(&mut self, op: Option<Op>) -> Result<()> {
        let place = self.place;
        self.advance()?;
        self.nest(Pending::Operator(Operator::Sign(op), place), place)
    }

    /// Reads a literal or a bool.
    fn constant(&mut self) -> Result<Value> {
        let place = self.place;
        let value = match self.token {
            Token::Integer(digits) => {
                let Ok(value) = digits.parse() else {
                    return fault(place, "the integer is too large: write a float, as in 1e40");
                };
                Value::literal(Number::Int(value), place)
            }
            Token::Float(digits) => {
                let Ok(value) = digits.parse() else { return self.unexpected("a number") };
                Value::literal(Number::Float(value), place)
            }
            Token::Name(name @ ("True" | "False")) => {
                self.advance()?;
                return self.builder.bool(name == "True", place);
            }
            _ => return self.unexpected("a value"),
        };
        self.advance()?;
        Ok(value)
    }

    /// The input or the constant of a name.
    fn input(&mut self, name: &str, place: usize) -> Result<Value> {
        let inputs = match self.scope {
            Scope::Inputs(inputs) => inputs,
            Scope::Values(values) => match values.iter().find(|(known, _)| *known == name) {
                Some((_, value)) => return Ok(*value),
                None => &[],
            },
        };
        if let Some(index) = inputs.iter().position(|input| input.name == name) {
            let is_array = inputs[index].form == Form::Array;
            self.contents.last_mut().expect("the text of inputs").has_array |= is_array;
            return self.builder.input(index, &inputs[index], place);
        }
        match CONSTANTS.iter().find(|(constant, _)| *constant == name) {
            Some((_, value)) => Ok(Value::literal(Number::Float(*value), place)),
            None if names().any(|function| function == name) => fault(
                place,
                format!("no array is named '{name}': write {name}(...) for the function"),
            ),
            None => {
                let near = suggestion(name, inputs.iter().map(|input| input.name));
                fault(place, format!("no array is named {}{near}", quoted(name)))
            }
        }
    }

    /// Reads the opening parenthesis of a call.
    fn open_call(&mut self, callee: Callee, place: usize) -> Result<()> {
        let call = Call { callee, place, open: self.place, first: self.values.len() };
        if let Callee::Reduction(_) = callee {
            self.contents.push(Contents::default());
        }
        self.advance()?;
        if self.token == Token::Symbol(")") { self.too_few(call) } else { self.argument(call) }
    }

    fn argument(&mut self, call: Call) -> Result<()> {
        if self.arguments(call) == call.callee.arity() {
            let takes = call.callee.takes();
            let hint = match (call.callee.name(), self.token) {
                (_, Token::Name(name @ ("axis" | "keepdims" | "out"))) if self.lexer.at('=') => {
                    let hint = format!("pass {name}= to the call, and not in the text");
                    return fault(self.place, format!("{takes}, not more: {hint}"));
                }
                ("min", _) => ": write minimum(a, b), in which NaN wins, for two arrays",
                ("max", _) => ": write maximum(a, b), in which NaN wins, for two arrays",
                ("round", _) => ": write rint(x * 100) / 100 for two decimals",
                ("var", _) => ": write var(x, ddof=1) to divide by n - 1",
                ("std", _) => ": write std(x, ddof=1) to divide by n - 1",
                _ => "",
            };
            return fault(self.place, format!("{takes}, not more{hint}"));
        }
        self.nest(Pending::Call(call), call.open)
    }

    /// The number of arguments of a call that were read.
    fn arguments(&self, call: Call) -> usize {
        self.values.len() - call.first
    }

    fn too_few(&self, call: Call) -> Result<()> {
        fault(self.place, format!("{}, not {}", call.callee.takes(), self.arguments(call)))
    }

    /// Gives the last value to the operators, calls and parentheses that the next token ends. Returns true if the value
    /// is then the whole formula. Otherwise an operand follows.
    fn end_of_value(&mut self) -> Result<bool> {
        loop {
            if let Some(operator) = Operator::infix(self.token) {
                self.infix(operator)?;
                return Ok(false);
            }
            self.apply_pending(Operator::NONE)?;
            match self.pending.pop() {
                Some(Pending::Call(call)) => {
                    self.depth -= 1;
                    if self.next_argument(call)? {
                        return Ok(false);
                    }
                    self.call(call)?;
                }
                Some(Pending::Parenthesis) => {
                    self.depth -= 1;
                    self.expect(")", "an operator or ')'")?;
                }
                // All operators are applied.
                Some(Pending::Operator(..)) | None => return self.end(),
            }
        }
    }

    /// Reads the text after an argument. Returns true if another argument begins.
    fn next_argument(&mut self, call: Call) -> Result<bool> {
        if self.token == Token::Symbol(",") {
            let has_ddof =
                matches!(call.callee, Callee::Reduction(Reduction::Var | Reduction::Std))
                    && self.lexer.keyword("ddof");
            self.advance()?;
            if has_ddof {
                self.ddof = self.whole_number(call)?;
                return self.expect(")", "')'").map(|()| false);
            }
            if self.token != Token::Symbol(")") {
                return self.argument(call).map(|()| true);
            }
        }
        if self.token == Token::Symbol(")") && self.arguments(call) < call.callee.arity() {
            self.too_few(call)?;
        }
        self.expect(")", "an operator, ',' or ')'")?;
        Ok(false)
    }

    /// Reads the value of a call's `ddof`.
    fn whole_number(&mut self, call: Call) -> Result<i32> {
        let (place, is_negative) = (self.place, self.token == Token::Symbol("-"));
        if is_negative {
            self.advance()?;
        }
        let digits = if let Token::Integer(digits) = self.token { digits } else { "" };
        let Ok(number) = digits.parse::<i32>() else {
            let name = call.callee.name();
            let wanted = "ddof is a whole number in the text, below 2^31";
            return fault(place, format!("{wanted}: write {name}(x, ddof=1)"));
        };
        self.advance()?;
        Ok(if is_negative { -number } else { number })
    }

    fn end(&self) -> Result<bool> {
        match self.token {
            Token::End | SEPARATOR => Ok(true),
            Token::Symbol(")") => {
                fault(self.place, "unmatched ')': remove it, or write the '(' that it closes")
            }
            _ => self.unexpected("an operator or the end"),
        }
    }

    /// Applies a function to the last values.
    fn call(&mut self, Call { callee, place, first, .. }: Call) -> Result<()> {
        let arguments = &self.values[first..];
        let value = match callee {
            Callee::Cast(element) => self.builder.cast(arguments[0], element, place)?,
            Callee::Function(op) => self.builder.apply(op, arguments, place)?,
            Callee::Formula(formula) => expanded(self.builder, formula, arguments, place)?,
            Callee::Reduction(reduction) => {
                if self.contents.pop().is_some_and(Contents::are_one_value) {
                    return fault(
                        place,
                        "a reduction has arrays only inside other reductions, whose results are one value: leave it \
                         out, or compute these reductions as formulas of their own",
                    );
                }
                if let Some(contents) = self.contents.last_mut() {
                    contents.has_reduction = true;
                }
                let arguments = &self.values[first..];
                let ddof = std::mem::take(&mut self.ddof);
                let output = self.builder.reduce(reduction, ddof, arguments, place)?;
                self.builder.reduced(output, place)?
            }
        };
        self.values.truncate(first);
        self.push(value)
    }

    /// Reads an operator after the last value. Applies the stronger operators that wait; the new operator then waits,
    /// too.
    fn infix(&mut self, operator: Operator) -> Result<()> {
        let place = self.place;
        match operator {
            // It is stronger than all operators that wait.
            Operator::Power => {
                self.advance()?;
                return self.nest(Pending::Operator(operator, place), place);
            }
            Operator::Comparison(comparison) => {
                self.apply_pending(Operator::COMPARISON + 1)?;
                let operator =
                    Operator::Comparison(Comparison { is_chained: self.link()?, ..comparison });
                self.wait(Pending::Operator(operator, place))?;
            }
            _ => {
                self.apply_pending(operator.strength())?;
                self.wait(Pending::Operator(operator, place))?;
            }
        }
        self.advance()
    }

    /// Applies the operators that wait and are at least that strong, the last one first.
    fn apply_pending(&mut self, strength: u8) -> Result<()> {
        while let Some(&Pending::Operator(operator, place)) = self.pending.last()
            && operator.strength() >= strength
        {
            self.pending.pop();
            self.apply(operator, place)?;
        }
        Ok(())
    }

    fn apply(&mut self, operator: Operator, place: usize) -> Result<()> {
        let value = match operator {
            Operator::Comparison(comparison) => return self.compare(comparison, place).map(drop),
            Operator::Binary(op) => {
                let operands: [Value; 2] = self.take();
                self.builder.apply(op, &operands, place)?
            }
            Operator::Sign(op) => {
                self.depth -= 1;
                let [value] = self.take();
                match op {
                    Some(op) => self.builder.apply(op, &[value], place)?,
                    None => self.builder.plus(value, place)?,
                }
            }
            Operator::Power => {
                self.depth -= 1;
                let [base, exponent] = self.take();
                self.builder.power(base, exponent, place)?
            }
        };
        self.push(value)
    }

    /// Applies the comparison that waits for the last value, if there is one. The value is then also the left operand
    /// of the next comparison. Returns true if there was one.
    fn link(&mut self) -> Result<bool> {
        let Some(&Pending::Operator(Operator::Comparison(comparison), place)) = self.pending.last()
        else {
            return Ok(false);
        };
        self.pending.pop();
        let right = self.compare(comparison, place)?;
        self.push(right)?;
        Ok(true)
    }

    /// Replaces the operands of a comparison by the result of its chain, which is true if every comparison is. Returns
    /// the right operand.
    fn compare(&mut self, comparison: Comparison, place: usize) -> Result<Value> {
        let [left, right] = self.take();
        let operands = if comparison.is_swapped { [right, left] } else { [left, right] };
        let mut holds = self.builder.apply(comparison.op, &operands, place)?;
        if comparison.is_chained {
            let [chain] = self.take();
            holds = self.builder.apply(Op::And, &[chain, holds], place)?;
        }
        self.push(holds)?;
        Ok(right)
    }

    fn push(&mut self, value: Value) -> Result<()> {
        self.values.try_reserve(1)?;
        self.values.push(value);
        Ok(())
    }

    /// Lets an operator, a parenthesis or a call wait.
    fn wait(&mut self, pending: Pending) -> Result<()> {
        self.pending.try_reserve(1)?;
        self.pending.push(pending);
        Ok(())
    }

    /// Removes the last values, and returns them.
    fn take<const COUNT: usize>(&mut self) -> [Value; COUNT] {
        let first = self.values.len() - COUNT;
        let taken = std::array::from_fn(|i| self.values[first + i]);
        self.values.truncate(first);
        taken
    }

    /// Lets a sign, a power, a parenthesis or a call wait, one level deeper.
    fn nest(&mut self, pending: Pending, place: usize) -> Result<()> {
        if self.depth == MAX_DEPTH {
            return fault(
                place,
                format!("more than {MAX_DEPTH} levels are nested: split the expression"),
            );
        }
        self.depth += 1;
        self.wait(pending)
    }

    fn advance(&mut self) -> Result<()> {
        (self.token, self.place) = self.lexer.next()?;
        Ok(())
    }

    fn expect(&mut self, symbol: &'static str, wanted: &str) -> Result<()> {
        if self.token == Token::Symbol(symbol) { self.advance() } else { self.unexpected(wanted) }
    }

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
}

/// Applies a function that is a formula of its arguments. Errors are at `place`.
fn expanded(
    builder: &mut Builder, formula: &Formula, arguments: &[Value], place: usize,
) -> Result<Value> {
    let (class, arguments) = match formula.text {
        Text::Any(_) => (None, arguments.to_vec()),
        Text::Typed(rule, _) => {
            let (class, arguments) = builder.promoted(formula.name, rule, arguments, place)?;
            (Some(class), arguments)
        }
    };
    if let Some(Class::Of(element)) = class
        && element.is_half()
        && formula.name == "nextafter"
    {
        let ty = element.name();
        return fault(
            place,
            format!("nextafter takes f32 and f64, not {ty}, which is computed as f32"),
        );
    }
    let text = match (&formula.text, class.map(Class::value_type)) {
        (Text::Any(text), _) => text,
        (Text::Typed(_, [_, text, _]), Some(Type::F32)) => text,
        (Text::Typed(_, [_, _, text]), Some(Type::F64)) => text,
        (Text::Typed(_, [text, _, _]), _) => text,
    };
    let mut values: Vec<_> = ARGUMENTS.into_iter().zip(arguments).collect();
    for (part, name) in text.split(';').zip(PARTS) {
        let value = Parser::value(part, &values, builder).map_err(|fault| fault.at(place))?;
        values.push((name, value));
    }
    let (_, value) = values[values.len() - 1];
    Ok(class.map_or(value, |class| value.of_class(class)).at(place))
}
