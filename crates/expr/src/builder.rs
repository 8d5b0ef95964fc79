//! Types and appends nodes. Equal nodes become one.

use crate::error::{Error, Result, fault};
use crate::literal::{Folded, Number, fold};
use crate::passes;
use crate::rules::{numbers_wanted, refused, refused_reduction};
use crate::types::Class;
use crate::{
    Element, Form, Input, MAX_INPUTS, MAX_NODES, Node, NodeId, Op, Output, OutputKind, Program,
    Reduction, Rule, Source, Type,
};
use std::collections::HashMap;

/// The largest power of a float that is computed by multiplications. Each multiplication adds an error of half an ulp.
const MAX_POWER: i128 = 64;

/// The value of a part of an expression, and the place of the part's first character.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    kind: Kind,
    pub(crate) place: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A Python number.
    Literal(Number),
    /// A node of the class's type.
    Node(NodeId, Class),
}

impl Value {
    pub(crate) const fn literal(number: Number, place: usize) -> Value {
        Value { kind: Kind::Literal(number), place }
    }

    pub(crate) const fn class(self) -> Class {
        match self.kind {
            Kind::Literal(number) => number.class(),
            Kind::Node(_, class) => class,
        }
    }

    /// The value as the result of a function of arguments of a class. A function of Python's numbers alone, or of
    /// floats of 16 bits, has a result of the same class, unless this is a bool.
    pub(crate) fn of_class(self, class: Class) -> Value {
        match self.kind {
            Kind::Node(id, Class::Of(element)) if element == class.value_type().element() => {
                Value { kind: Kind::Node(id, class.computed()), ..self }
            }
            _ => self,
        }
    }

    fn is_unsigned(self) -> bool {
        self.class().value_type() == Type::U64
    }

    /// True for integers that may be negative, but not for literals.
    fn is_signed(self) -> bool {
        match self.kind {
            Kind::Literal(_) => false,
            Kind::Node(_, class) => class.is_signed(),
        }
    }

    pub(crate) const fn at(self, place: usize) -> Value {
        Value { place, ..self }
    }
}

/// A program in the making.
#[derive(Default)]
pub(crate) struct Builder {
    nodes: Vec<Node>,
    known: HashMap<Node, NodeId>,
    /// The reductions read so far, each with the node of its result.
    reductions: Vec<(Output, NodeId)>,
}

/// The number of the first input that is the result of a reduction. Such inputs have these numbers until the passes of
/// the program are known.
const FIRST_RESULT: usize = MAX_INPUTS;
/// The most reductions that a text may contain, including the reductions that are outputs.
const MOST_REDUCTIONS: usize = 200;

impl Builder {
    pub(crate) fn input(&mut self, index: usize, input: &Input<'_>, place: usize) -> Result<Value> {
        let node = Node::new(Source::Input(index as u8), input.element.widened(), &[]);
        let kind = Kind::Node(self.node(node, place)?, input.class());
        Ok(Value { kind, place })
    }

    /// A bool. Unlike a number, it is never weak.
    pub(crate) fn bool(&mut self, value: bool, place: usize) -> Result<Value> {
        let node = Node::new(Source::Constant(value.into()), Type::Bool, &[]);
        let kind = Kind::Node(self.node(node, place)?, Class::BOOL);
        Ok(Value { kind, place })
    }

    /// Applies an operation to its operands. Errors are at `place`.
    pub(crate) fn apply(&mut self, op: Op, values: &[Value], place: usize) -> Result<Value> {
        let start = values.iter().map(|value| value.place).fold(place, usize::min);
        if let Some(number) = folded(op, values, place)? {
            return Ok(Value::literal(number, start));
        }
        if let (Op::Not, [bits]) = (op, values)
            && bits.class().value_type().is_integer()
        {
            let ones = match bits.class().value_type() {
                Type::U64 => u64::MAX.into(),
                _ => -1,
            };
            return self.apply(Op::Xor, &[*bits, Value::literal(Number::Int(ones), place)], place);
        }
        if let (Op::Abs | Op::Sign, [x]) = (op, values)
            && x.is_unsigned()
        {
            let is_zero_or_one = op == Op::Sign;
            let x = if is_zero_or_one { self.cast(*x, Element::Bool, place)? } else { *x };
            return Ok(Value { place: start, ..self.cast(x, Element::U64, place)? });
        }
        if op.rule() == Rule::Comparison
            && let Some(holds) = compared_with_beyond(op, values)
        {
            return Ok(Value { place: start, ..self.bool(holds, place)? });
        }
        if op.rule() == Rule::Comparison
            && let &[a, b] = values
            && (a.is_unsigned() && b.is_signed() || a.is_signed() && b.is_unsigned())
        {
            return Ok(Value { place: start, ..self.compare_signed(op, a, b, place)? });
        }
        let class = if op.rule() == Rule::Comparison { compared(values) } else { common(values) };
        let Some(operand) = op.rule().operand(class) else {
            return fault(place, refused(op, values));
        };
        if operand.value_type() == Type::U64 && op.is_of_order() {
            return Ok(Value { place: start, ..self.in_order(op, values, place)? });
        }
        let result = match op.rule() {
            Rule::Rounding if operand.value_type().is_integer() => {
                return Ok(Value { place: start, ..values[0] });
            }
            Rule::Select => return self.select(values, place, start),
            Rule::Comparison => Class::BOOL,
            _ => operand.computed(),
        };
        let mut nodes = [0; 3];
        for (node, &value) in nodes.iter_mut().zip(values) {
            *node = self.convert(value, operand.value_type(), place)?;
        }
        let node = Node::new(Source::Op(op), result.value_type(), &nodes[..values.len()]);
        Ok(Value { kind: Kind::Node(self.node(node, place)?, result), place: start })
    }

    /// Converts the arguments of a function to the class that a rule gives for them.
    pub(crate) fn promoted(
        &mut self, name: &str, rule: Rule, values: &[Value], place: usize,
    ) -> Result<(Class, Vec<Value>)> {
        let Some(class) = rule.operand(common(values)) else {
            return fault(place, numbers_wanted(name));
        };
        let promoted = values.iter().map(|&value| match class {
            _ if value.class() == class => Ok(value),
            Class::WeakFloat => self.as_float(value, place),
            class => self.in_class(value, class),
        });
        Ok((class, promoted.collect::<Result<_>>()?))
    }

    fn select(&mut self, values: &[Value], place: usize, start: usize) -> Result<Value> {
        let (condition, choices) = (values[0], &values[1..]);
        let class = condition.class();
        if class != Class::BOOL {
            let ty = class.element().name();
            let message = format!("where takes a bool as its condition, not {ty}: write x != 0");
            return fault(condition.place, message);
        }
        let class = common(choices);
        let ty = class.value_type();
        let condition = self.convert(condition, Type::Bool, place)?;
        let [a, b] = [choices[0], choices[1]].map(|choice| self.choice(choice, ty, place));
        let node = Node::new(Source::Op(Op::Where), ty, &[condition, a?, b?]);
        let class = Class::Of(class.element());
        Ok(Value { kind: Kind::Node(self.node(node, place)?, class), place: start })
    }

    /// Compares an integer of u64 with one that may be negative, as integers of i64. An integer of u64 beyond these is
    /// the greater one.
    fn compare_signed(&mut self, op: Op, a: Value, b: Value, place: usize) -> Result<Value> {
        let is_first = a.is_unsigned();
        let wrapped = self.cast(if is_first { a } else { b }, Element::I64, place)?;
        let operands = if is_first { [wrapped, b] } else { [a, wrapped] };
        let compared = self.apply(op, &operands, place)?;
        let zero = Value::literal(Number::Int(0), place);
        match (op, is_first) {
            (Op::NotEqual, _) | (Op::Less | Op::LessEqual, false) => {
                let is_beyond = self.apply(Op::Less, &[wrapped, zero], place)?;
                self.apply(Op::Or, &[is_beyond, compared], place)
            }
            _ => {
                let is_within = self.apply(Op::LessEqual, &[zero, wrapped], place)?;
                self.apply(Op::And, &[is_within, compared], place)
            }
        }
    }

    /// Compares integers of u64, or chooses one of them, as integers of i64 in the same order.
    fn in_order(&mut self, op: Op, values: &[Value], place: usize) -> Result<Value> {
        let [a, b] = [values[0], values[1]].map(|value| self.in_signed_order(value, place));
        let result = self.apply(op, &[a?, b?], place)?;
        if result.class() == Class::BOOL {
            return Ok(result);
        }
        let unsigned = self.moved_by_half(result, place)?;
        self.cast(unsigned, Element::U64, place)
    }

    /// Maps an integer of u64 to the integer of i64 at the same place in the order.
    fn in_signed_order(&mut self, value: Value, place: usize) -> Result<Value> {
        let unsigned = self.cast(value, Element::U64, value.place)?;
        let wrapped = self.cast(unsigned, Element::I64, place)?;
        self.moved_by_half(wrapped, place)
    }

    /// Adds 2^63 to an integer of i64, which wraps. To subtract it gives the same.
    fn moved_by_half(&mut self, value: Value, place: usize) -> Result<Value> {
        let half = Value::literal(Number::Int(i64::MIN.into()), place);
        self.apply(Op::Xor, &[value, half], place)
    }

    /// The node of a choice of `where`. For a choice, NumPy rounds a Python integer to f32 directly, not to f64 first.
    fn choice(&mut self, choice: Value, ty: Type, place: usize) -> Result<NodeId> {
        match choice.kind {
            Kind::Literal(Number::Int(value)) if ty == Type::F32 => {
                let bits = (value as f32).to_bits().into();
                self.node(Node::new(Source::Constant(bits), ty, &[]), place)
            }
            Kind::Node(id, Class::WeakInt) => self.convert_node(id, Type::I64, ty, place),
            _ => self.convert(choice, ty, place),
        }
    }

    /// Applies the sign `+`, which does nothing.
    pub(crate) fn plus(&self, value: Value, place: usize) -> Result<Value> {
        if value.class() == Class::BOOL {
            return fault(place, numbers_wanted("'+'"));
        }
        Ok(Value { place, ..value })
    }

    pub(crate) fn cast(&mut self, value: Value, to: Element, place: usize) -> Result<Value> {
        let node = match rounding(to) {
            Some(rounding) => self.rounded(value, to, rounding, place)?,
            None => self.convert(value, to.widened(), place)?,
        };
        Ok(Value { kind: Kind::Node(node, Class::Of(to)), place })
    }

    /// Rounds a value to a float of 16 bits, once.
    fn rounded(&mut self, value: Value, to: Element, rounding: Op, place: usize) -> Result<NodeId> {
        let class = value.class();
        if let Kind::Node(id, _) = value.kind
            && class == Class::Of(to)
            && let Source::Input(number) = self.nodes[usize::from(id)].source
            && usize::from(number) < FIRST_RESULT
        {
            // The value was loaded from an array of such floats.
            return Ok(id);
        }
        let single = match class.value_type() {
            Type::Bool | Type::F32 => self.convert(value, Type::F32, place)?,
            _ => {
                let double = self.convert(value, Type::F64, place)?;
                self.node(Node::new(Source::Op(Op::RoundOdd), Type::F32, &[double]), place)?
            }
        };
        self.node(Node::new(Source::Op(rounding), Type::F32, &[single]), place)
    }

    /// Converts a value to the common class of several.
    fn in_class(&mut self, value: Value, class: Class) -> Result<Value> {
        let node = self.convert(value, class.value_type(), value.place)?;
        Ok(Value { kind: Kind::Node(node, class.computed()), ..value })
    }

    /// Raises a value to a power: to 0.5 by a square root, to a literal whole number by multiplications, and to other
    /// powers by `pow`.
    pub(crate) fn power(&mut self, base: Value, exponent: Value, place: usize) -> Result<Value> {
        let Kind::Literal(number) = exponent.kind else {
            return self.apply(Op::Pow, &[base, exponent], place);
        };
        if base.class() == Class::BOOL {
            return fault(place, numbers_wanted("'**'"));
        }
        let base = match (base.class(), number) {
            (Class::WeakInt, Number::Int(n)) if n < 0 => self.as_float(base, place)?,
            (_, Number::Int(_)) => base,
            (_, Number::Float(_)) => match common(&[base, exponent]) {
                Class::WeakFloat => self.as_float(base, place)?,
                class => self.in_class(base, class)?,
            },
        };
        if number == Number::Float(0.5) {
            return self.apply(Op::Sqrt, &[base], place);
        }
        let integer = base.class().value_type().is_integer();
        match number.whole() {
            Some(n) if integer && n < 0 => fault(
                place,
                format!("integers cannot be raised to the power {n}: write f64(x)**{n}"),
            ),
            Some(n) if integer || n.abs() <= MAX_POWER => self.whole_power(base, n, place),
            _ => self.apply(Op::Pow, &[base, exponent], place),
        }
    }

    /// Raises a value to a whole power. A negative power takes a division at the end.
    fn whole_power(&mut self, base: Value, n: i128, place: usize) -> Result<Value> {
        if n == 0 {
            return self.one_like(base);
        }
        let product = self.product(base, n.unsigned_abs(), place)?;
        let one = Value::literal(Number::Int(1), base.place);
        if n > 0 { Ok(product) } else { self.apply(Op::Div, &[one, product], place) }
    }

    /// The `n`th power of a value, by multiplications. An even power is a power of the square. An odd power is the
    /// value times the even power below it.
    fn product(&mut self, value: Value, n: u128, place: usize) -> Result<Value> {
        if n == 1 {
            return Ok(value);
        }
        let square = self.apply(Op::Mul, &[value, value], place)?;
        let product = self.product(square, n / 2, place)?;
        if n % 2 == 1 { self.apply(Op::Mul, &[value, product], place) } else { Ok(product) }
    }

    /// The output of a reduction of values.
    pub(crate) fn reduce(
        &mut self, reduction: Reduction, ddof: i32, values: &[Value], place: usize,
    ) -> Result<Output> {
        let class = common(values);
        let Some((done, ty, element)) = reduction.types(class) else {
            return fault(place, refused_reduction(reduction, class.element()));
        };
        let is_ordered = class.value_type() == Type::U64 && done.is_of_order();
        let node = |&value: &Value| {
            let value = if is_ordered { self.in_signed_order(value, place)? } else { value };
            self.convert(value, ty, place)
        };
        let nodes: Vec<NodeId> = match values {
            [value @ Value { kind: Kind::Node(..), .. }] if done.has_halves(class) => {
                self.halves(*value, place)?.into()
            }
            _ => values.iter().map(node).collect::<Result<_>>()?,
        };
        let kind = OutputKind::Reduced { reduction: done, ddof };
        Ok(Output::new(kind, ty, element, &nodes))
    }

    /// Splits an integer of 64 bits into a sum of two f64: of its upper 32 bits, and of its lower 32 bits.
    fn halves(&mut self, value: Value, place: usize) -> Result<[NodeId; 2]> {
        let mask = Value::literal(Number::Int(u32::MAX.into()), place);
        let lower = self.apply(Op::And, &[value, mask], place)?;
        let upper = self.apply(Op::Sub, &[value, lower], place)?;
        Ok([self.convert(upper, Type::F64, place)?, self.convert(lower, Type::F64, place)?])
    }

    /// An output with a value for each element.
    pub(crate) fn output(&mut self, value: Value) -> Result<Output> {
        if let Some(reduction) = self.reduction_of(value) {
            return Ok(reduction);
        }
        let element = value.class().element();
        let ty = element.widened();
        let id = self.convert(value, ty, value.place)?;
        // The store rounds the value.
        let node = &self.nodes[usize::from(id)];
        let is_rounded = rounding(element).is_some_and(|op| node.source == Source::Op(op));
        let stored = if is_rounded { node.operands()[0] } else { id };
        Ok(Output::new(OutputKind::Elementwise, ty, element, &[stored]))
    }

    /// The node of a key.
    pub(crate) fn key(&mut self, value: Value) -> Result<NodeId> {
        match value.class().value_type() {
            Type::I32 | Type::I64 | Type::U64 => {
                let key = self.cast(value, Element::I64, value.place)?;
                self.convert(key, Type::I64, value.place)
            }
            Type::Bool | Type::F32 | Type::F64 => fault(
                value.place,
                format!(
                    "keys are integers, not {}: convert them, as in i64(floor(x))",
                    value.class().element().name()
                ),
            ),
        }
    }

    /// The result of a reduction as a value of later passes.
    pub(crate) fn reduced(&mut self, output: Output, place: usize) -> Result<Value> {
        let ty = output.element.widened();
        let known = self.reductions.iter().find(|(known, _)| *known == output);
        let id = match known {
            Some((_, id)) => *id,
            None if self.reductions.len() == MOST_REDUCTIONS => {
                return fault(place, "there are too many reductions: split the expression");
            }
            None => {
                let input = (FIRST_RESULT + self.reductions.len()) as u8;
                let id = self.new_node(Node::new(Source::Input(input), ty, &[]))?;
                self.reductions.push((output, id));
                id
            }
        };
        Ok(Value { kind: Kind::Node(id, Class::Of(output.element)), place })
    }

    /// The reduction that has this value as its result, if the value is the result of a reduction.
    fn reduction_of(&self, value: Value) -> Option<Output> {
        let Kind::Node(id, _) = value.kind else { return None };
        self.reductions.iter().find(|(_, result)| *result == id).map(|(output, _)| *output)
    }

    /// The program of these outputs. Earlier passes compute the reductions inside their formulas.
    pub(crate) fn end(
        self, inputs: &[Input<'_>], outputs: Vec<Output>,
    ) -> std::result::Result<Program, Error> {
        if self.reductions.is_empty() {
            return Ok(Program::new(inputs, &self.nodes, outputs)?);
        }
        passes::program(inputs, self.nodes, &self.reductions, outputs)
    }

    /// The number 1 in a value's class.
    fn one_like(&mut self, value: Value) -> Result<Value> {
        let one = Value::literal(Number::Int(1), value.place);
        match value.class() {
            Class::WeakInt => Ok(one),
            Class::WeakFloat => self.as_float(one, value.place),
            class => self.in_class(one, class),
        }
    }

    /// Converts a value to a type.
    fn convert(&mut self, value: Value, ty: Type, place: usize) -> Result<NodeId> {
        match value.kind {
            Kind::Literal(number) => match (number.bits(ty), number) {
                (Some(bits), _) => self.node(Node::new(Source::Constant(bits), ty, &[]), place),
                (None, Number::Float(_)) => {
                    let float = self.convert(value, Type::F64, place)?;
                    self.node(Node::new(Source::Op(Op::Cast), ty, &[float]), place)
                }
                (None, Number::Int(_)) => {
                    let hint = match ty {
                        Type::I32 => "compute in i64, as in i64(x)".into(),
                        Type::U64 if number.float() < 0.0 => "compute in i64, as in i64(x)".into(),
                        _ => format!("write a float, {number}.0"),
                    };
                    fault(value.place, format!("{number} does not fit into {ty}: {hint}"))
                }
            },
            Kind::Node(_, Class::WeakInt) if ty == Type::F32 => {
                // NumPy rounds it to a Python float, and then to the type of the array.
                let float = self.convert(value, Type::F64, place)?;
                self.convert_node(float, Type::F64, ty, place)
            }
            Kind::Node(id, class) => self.convert_node(id, class.value_type(), ty, place),
        }
    }

    /// Converts the value of a node, which has the type `from`, to a type.
    fn convert_node(&mut self, id: NodeId, from: Type, ty: Type, place: usize) -> Result<NodeId> {
        if from == ty {
            return Ok(id);
        }
        if (from, ty) == (Type::F32, Type::U64) {
            let double = self.convert_node(id, from, Type::F64, place)?;
            return self.convert_node(double, Type::F64, ty, place);
        }
        self.node(Node::new(Source::Op(Op::Cast), ty, &[id]), place)
    }

    /// Converts a Python number to a Python float.
    fn as_float(&mut self, value: Value, place: usize) -> Result<Value> {
        let kind = match value.kind {
            Kind::Literal(number) => Kind::Literal(Number::Float(number.float())),
            Kind::Node(..) => Kind::Node(self.convert(value, Type::F64, place)?, Class::WeakFloat),
        };
        Ok(Value { kind, ..value })
    }

    fn node(&mut self, node: Node, place: usize) -> Result<NodeId> {
        if let Some(&id) = self.known.get(&node) {
            return Ok(id);
        }
        // Results of reductions are no operations. Most of them are outputs, and so nodes of no pass.
        if self.nodes.len() - self.reductions.len() >= MAX_NODES {
            return fault(place, passes::too_many_operations());
        }
        self.new_node(node)
    }

    fn new_node(&mut self, node: Node) -> Result<NodeId> {
        let id = self.nodes.len() as NodeId;
        self.nodes.try_reserve(1)?;
        self.known.try_reserve(1)?;
        self.nodes.push(node);
        self.known.insert(node, id);
        Ok(id)
    }
}

pub(crate) fn common(values: &[Value]) -> Class {
    Class::common(values.iter().map(|value| value.class()))
}

/// The class in which values are compared. Python integers are compared exactly, whatever the type of the other value.
fn compared(values: &[Value]) -> Class {
    let is_long = |value: &Value| match value.kind {
        Kind::Literal(Number::Int(value)) => i32::try_from(value).is_err(),
        Kind::Node(_, class) => class == Class::WeakInt,
        Kind::Literal(Number::Float(_)) => false,
    };
    match common(values) {
        class if class.value_type() == Type::I32 && values.iter().any(is_long) => {
            Class::of(Type::I64)
        }
        class => class,
    }
}

/// The operation that rounds to a float of 16 bits; `None` for other types.
fn rounding(to: Element) -> Option<Op> {
    match to {
        Element::F16 => Some(Op::RoundF16),
        Element::Bf16 => Some(Op::RoundBf16),
        _ => None,
    }
}

/// The result of a comparison of integers with a literal beyond the range of their type. `None` for other comparisons.
fn compared_with_beyond(op: Op, values: &[Value]) -> Option<bool> {
    // The integers that are not literals may count as 0: a literal out of range compares with 0 as with any of them.
    let number = |value: &Value| match value.kind {
        Kind::Literal(Number::Int(value)) => value,
        _ => 0,
    };
    let ty = common(values).value_type();
    let is_beyond = |value: &Value| match ty {
        Type::U64 => u64::try_from(number(value)).is_err(),
        _ => i64::try_from(number(value)).is_err(),
    };
    if !ty.is_integer() || !values.iter().any(is_beyond) {
        return None;
    }
    let (a, b) = (number(&values[0]), number(&values[1]));
    Some(match op {
        Op::Less => a < b,
        Op::LessEqual => a <= b,
        Op::Equal => a == b,
        _ => a != b,
    })
}

/// Computes the result of an operation on literals. `None` if an operand is not a literal, or if the program has to
/// compute the result.
fn folded(op: Op, values: &[Value], place: usize) -> Result<Option<Number>> {
    let mut numbers = [Number::Int(0); 3];
    for (number, value) in numbers.iter_mut().zip(values) {
        match value.kind {
            Kind::Literal(literal) => *number = literal,
            Kind::Node(..) => return Ok(None),
        }
    }
    match fold(op, &numbers[..values.len()]) {
        Folded::Number(number) => Ok(Some(number)),
        Folded::Not => Ok(None),
        Folded::Error(message) => fault(place, message),
    }
}

impl Input<'_> {
    fn class(&self) -> Class {
        match (self.form, self.element) {
            (Form::Number, Element::F64) => Class::WeakFloat,
            (Form::Number, Element::I64) => Class::WeakInt,
            _ => Class::Of(self.element),
        }
    }
}
