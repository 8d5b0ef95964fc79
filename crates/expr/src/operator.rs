//! Operators and their precedence.

use crate::Op;
use crate::lexer::Token;

/// A comparison.
#[derive(Clone, Copy)]
pub(crate) struct Comparison {
    pub(crate) op: Op,
    /// True if the operation takes the operands in reverse order.
    pub(crate) is_swapped: bool,
    /// True if the value before the operands is the result of the chain's earlier comparisons.
    pub(crate) is_chained: bool,
}

/// An operator between two values or before one.
#[derive(Clone, Copy)]
pub(crate) enum Operator {
    Comparison(Comparison),
    /// Any other operator that groups to the left.
    Binary(Op),
    /// A sign. `+` has no operation.
    Sign(Option<Op>),
    /// A power, which groups to the right.
    Power,
}

impl Operator {
    /// Less than the strength of any operator.
    pub(crate) const NONE: u8 = 0;
    pub(crate) const COMPARISON: u8 = 1;

    /// The token as an operator between two values.
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

    /// The precedence: if there are operators on both sides of a value, the stronger one takes it.
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
