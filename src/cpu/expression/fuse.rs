//! Pairs of operations in one loop, such as `a * b + c`. Each operation rounds.

use super::loops::{Loop, element_loop};
use crate::arch::Isa;
use Arithmetic::{Add, Div, Mul, Sub};
use gpuvec_expr::{Node, NodeId, Op, Program, Source, Type};

/// The pairs of a program.
pub(super) struct Pairs {
    /// For each node, the operand, 0 or 1, that the node's loop computes as well.
    absorbed: Vec<Option<u8>>,
    /// True for each node that the loop of another node computes.
    is_absorbed: Vec<bool>,
}

impl Pairs {
    /// Pairs each sum, difference, product and quotient of floats with an operand that is a sum, a difference or a
    /// product and has no other use. Without AVX2 there are no pairs: their loops would make the library larger for old
    /// processors.
    pub(super) fn of(program: &Program, isa: Isa) -> Self {
        let nodes = program.nodes();
        let mut uses = vec![0_u32; nodes.len()];
        let operands = nodes.iter().flat_map(Node::operands).copied().chain(program.results());
        operands.for_each(|operand| uses[usize::from(operand)] += 1);
        let mut pairs =
            Pairs { absorbed: vec![None; nodes.len()], is_absorbed: vec![false; nodes.len()] };
        if !isa.has_fma() {
            return pairs;
        }
        for (id, node) in nodes.iter().enumerate().filter(|(_, node)| arithmetic(node).is_some()) {
            let is_free = |&operand: &NodeId| {
                let operand = usize::from(operand);
                uses[operand] == 1
                    && matches!(arithmetic(&nodes[operand]), Some(Add | Sub | Mul))
                    && pairs.absorbed[operand].is_none()
            };
            if let Some(operand) = node.operands().iter().position(is_free) {
                pairs.absorbed[id] = Some(operand as u8);
                pairs.is_absorbed[usize::from(node.operands()[operand])] = true;
            }
        }
        pairs
    }

    pub(super) fn is_absorbed(&self, id: usize) -> bool {
        self.is_absorbed[id]
    }

    /// The operands of a node's loop, and their number. A pair has the operands of both operations.
    pub(super) fn operands(&self, nodes: &[Node], id: usize) -> ([NodeId; 3], usize) {
        let operands = nodes[id].operands();
        let mut all = [0; 3];
        let Some(absorbed) = self.absorbed[id].map(usize::from) else {
            all[..operands.len()].copy_from_slice(operands);
            return (all, operands.len());
        };
        all[..2].copy_from_slice(nodes[usize::from(operands[absorbed])].operands());
        all[2] = operands[1 - absorbed];
        (all, 3)
    }

    /// The loop of a pair, if a node has one.
    pub(super) fn loops(&self, nodes: &[Node], id: usize) -> Option<Loop> {
        let absorbed = usize::from(self.absorbed[id]?);
        let first = arithmetic(&nodes[usize::from(nodes[id].operands()[absorbed])])?;
        let second = arithmetic(&nodes[id])?;
        Some(match nodes[id].ty {
            Type::F32 => of_f32(first, second, absorbed == 1),
            _ => of_f64(first, second, absorbed == 1),
        })
    }
}

/// The operations that pairs consist of.
#[derive(Clone, Copy)]
enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
}

fn arithmetic(node: &Node) -> Option<Arithmetic> {
    match (node.source, node.ty) {
        (Source::Op(Op::Add), Type::F32 | Type::F64) => Some(Add),
        (Source::Op(Op::Sub), Type::F32 | Type::F64) => Some(Sub),
        (Source::Op(Op::Mul), Type::F32 | Type::F64) => Some(Mul),
        (Source::Op(Op::Div), _) => Some(Div),
        _ => None,
    }
}

macro_rules! pairs {
    ($name:ident, $T:ident) => {
        /// The loop of `(a first b) second c`, or of `c second (a first b)`.
        fn $name(first: Arithmetic, second: Arithmetic, is_right: bool) -> Loop {
            macro_rules! pair {
                ($a:ident, $b:ident, $c:ident, $result:expr) => {
                    element_loop!(Fused, |$a: $T, $b: $T, $c: $T| -> $T { $result })
                };
            }
            macro_rules! second {
                ($a:ident, $b:ident, $c:ident, $first:expr) => {
                    match (second, is_right) {
                        (Add, _) => pair!($a, $b, $c, $first + $c),
                        (Sub, false) => pair!($a, $b, $c, $first - $c),
                        (Sub, true) => pair!($a, $b, $c, $c - $first),
                        (Mul, _) => pair!($a, $b, $c, $first * $c),
                        (Div, false) => pair!($a, $b, $c, $first / $c),
                        (Div, true) => pair!($a, $b, $c, $c / $first),
                    }
                };
            }
            match first {
                Add => second!(a, b, c, (a + b)),
                Sub => second!(a, b, c, (a - b)),
                Mul => second!(a, b, c, (a * b)),
                Div => unreachable!("quotients are computed in loops of their own"),
            }
        }
    };
}

pairs!(of_f32, f32);
pairs!(of_f64, f64);
