//! Integers that a call computes from Python's integers alone. These must not wrap.
//!
//! In Python such an integer has any size, and NumPy refuses one that does not fit into the other operand's type. So a
//! call computes them first, and fails if one does not fit.

use crate::literal::integers;
use crate::{Element, Form, NodeId, Op, Program, Source, Type};
use std::collections::{HashMap, TryReserveError};

/// The integers of a program that are computed from Python's integers alone.
#[derive(Debug)]
pub struct Integers(Vec<Step>);

/// An integer that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The first input that the integer is computed from.
    pub input: usize,
    /// True if the integer is the input itself.
    pub is_input: bool,
    /// The type that it must have.
    pub ty: Type,
}

/// An integer, and the first input that it is computed from; `None` for constants.
#[derive(Debug)]
struct Step {
    value: Value,
    input: Option<usize>,
}

impl Value {
    fn is_computed(&self) -> bool {
        matches!(self, Value::Op(..) | Value::Cast(..))
    }
}

#[derive(Debug)]
enum Value {
    Constant(i64),
    Input,
    /// An operation on earlier integers.
    Op(Op, [usize; 2]),
    /// A cast of an earlier integer to a type into which it may not fit: i32 or u64.
    Cast(Type, usize),
}

impl Integers {
    /// Finds the integers of a program.
    ///
    /// # Errors
    ///
    /// If there is too little memory.
    pub fn of(program: &Program) -> Result<Integers, TryReserveError> {
        let is_number: Vec<bool> = program
            .inputs()
            .map(|input| input.form == Form::Number && input.element == Element::I64)
            .collect();
        let mut steps = Integers(Vec::new());
        if !is_number.contains(&true) {
            return Ok(steps);
        }
        let mut places = HashMap::new();
        for (id, node) in program.nodes().iter().enumerate() {
            let value = match node.source {
                Source::Constant(bits) if node.ty == Type::I64 => {
                    Some(Value::Constant(bits.cast_signed()))
                }
                Source::Input(input) if is_number[usize::from(input)] => Some(Value::Input),
                Source::Op(op) => operation(op, node.ty, node.operands(), &places),
                _ => None,
            };
            let Some(value) = value else { continue };
            let input = match (node.source, &value) {
                (Source::Input(input), _) => Some(input.into()),
                (_, Value::Op(_, operands)) => {
                    operands.iter().find_map(|&operand| steps.0[operand].input)
                }
                (_, Value::Cast(_, operand)) => steps.0[*operand].input,
                _ => None,
            };
            if input.is_none() && value.is_computed() {
                continue;
            }
            places.try_reserve(1)?;
            steps.0.try_reserve(1)?;
            places.insert(id as NodeId, steps.0.len());
            steps.0.push(Step { value, input });
        }
        // Numbers that are used directly always fit.
        if !steps.0.iter().any(|step| step.value.is_computed()) {
            steps.0.clear();
        }
        Ok(steps)
    }

    /// Checks that every integer fits, with the inputs of a call.
    ///
    /// # Errors
    ///
    /// The first integer that does not fit.
    pub fn check(&self, input: impl Fn(usize) -> i64) -> Result<(), Unfit> {
        let mut values = Vec::with_capacity(self.0.len());
        for step in &self.0 {
            let number = step.input.unwrap_or(0);
            let value = match &step.value {
                Value::Constant(value) => Some(*value),
                Value::Input => Some(input(number)),
                Value::Op(op, [a, b]) => computed(*op, values[*a], values[*b]),
                Value::Cast(ty, a) => Some(values[*a]).filter(|value| has(*ty, *value)),
            };
            values.push(value.ok_or_else(|| self.unfit(&step.value, number))?);
        }
        Ok(())
    }

    fn unfit(&self, value: &Value, input: usize) -> Unfit {
        match value {
            Value::Cast(ty, a) => {
                let is_input = matches!(self.0[*a].value, Value::Input);
                Unfit { input, is_input, ty: *ty }
            }
            _ => Unfit { input, is_input: false, ty: Type::I64 },
        }
    }
}

/// The operation of a node, if it computes an integer from earlier ones.
fn operation(
    op: Op, ty: Type, operands: &[NodeId], places: &HashMap<NodeId, usize>,
) -> Option<Value> {
    let place = |i: usize| places.get(operands.get(i).unwrap_or(&operands[0])).copied();
    match (op, ty) {
        (Op::Cast, Type::I32 | Type::U64) => Some(Value::Cast(ty, place(0)?)),
        (_, Type::I64) if computed(op, 1, 1).is_some() => {
            Some(Value::Op(op, [place(0)?, place(1)?]))
        }
        _ => None,
    }
}

/// Returns true if an integer fits into a type.
fn has(ty: Type, value: i64) -> bool {
    if ty == Type::U64 { value >= 0 } else { i32::try_from(value).is_ok() }
}

/// The result of an operation. `None` if it does not fit, or if the operation has no integer result.
fn computed(op: Op, a: i64, b: i64) -> Option<i64> {
    let result = match op {
        Op::FloorDiv | Op::Mod if b == 0 => return Some(0),
        Op::Shl if b < 0 => return Some(0),
        Op::Shr if b < 0 => integers(op, a.into(), 64),
        _ => integers(op, a.into(), b.into()),
    };
    result??.try_into().ok()
}
