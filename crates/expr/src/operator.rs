//! Operators, and how strongly each binds.

use crate::Op;
use crate::lexer::Token;

/// A comparison, by an operation on its operands or on those swapped.
#[derive(Clone, Copy)]
pub(crate) struct Comparison {
    pub(crate) op: Op,
    pub(crate) is_swapped: bool,
    /// True if the result of the chain so far, a bool, is the value before the operands.
    pub(crate) is_chained: bool,
}

/// An operator between values or in front of one.
#[derive(Clone, Copy)]
pub(crate) enum Operator {
    Comparison(Comparison),
    /// Any other operator that groups to the left.
    Binary(Op),
    /// A sign; `+` does nothing.
    Sign(Option<Op>),
    /// A power, which groups to the right.
    Power,
}

impl Operator {
    /// Binds less strongly than all operators.
    pub(crate) const NONE: u8 = 0;
    pub(crate) const COMPARISON: u8 = 1;

    /// The operator between two values that a token is.
    pub(crate) fn infix(token: Token<'_>) -> Option<Operator> {
        let Token::Symbol(symbol) = token else { return None };
        let comparison =
            |op, is_swapped| Operator::Comparison(Comparison { op, is_swapped, is_chained: false });
        Some(match symbol {
            "<" => comparison(Op::Less, false),
            "<=" => comparison(Op::LessEqual, false),
            ">" => comparison(Op::Less, true),
            ">=" => comparison(Op::LessEqual, true),
            "==" => comparison(Op::Equal, false),
            "!=" => comparison(Op::NotEqual, false),
            "|" => Operator::Binary(Op::Or),
            "^" => Operator::Binary(Op::Xor),
            "&" => Operator::Binary(Op::And),
            "<<" => Operator::Binary(Op::Shl),
            ">>" => Operator::Binary(Op::Shr),
            "+" => Operator::Binary(Op::Add),
            "-" => Operator::Binary(Op::Sub),
            "*" => Operator::Binary(Op::Mul),
            "/" => Operator::Binary(Op::Div),
            "//" => Operator::Binary(Op::FloorDiv),
            "%" => Operator::Binary(Op::Mod),
            "**" => Operator::Power,
            _ => return None,
        })
    }

    /// Of two operators beside a value, the one that binds more strongly has it.
    pub(crate) const fn strength(self) -> u8 {
        match self {
            Operator::Comparison(_) => Operator::COMPARISON,
            Operator::Binary(Op::Or) => 2,
            Operator::Binary(Op::Xor) => 3,
            Operator::Binary(Op::And) => 4,
            Operator::Binary(Op::Shl | Op::Shr) => 5,
            Operator::Binary(Op::Add | Op::Sub) => 6,
            Operator::Binary(_) => 7,
            Operator::Sign(_) => 8,
            Operator::Power => 9,
        }
    }
}
