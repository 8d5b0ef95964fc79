//! Programs: typed nodes, each of which uses earlier ones.

use crate::{Element, Op, Reduction, Type};
use std::fmt;

/// The number of elements of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// As many elements as the call has.
    Array,
    /// One value, which is read at the call.
    Scalar,
    /// The same, an f64 or i64 that takes the type of its partner, as a literal does.
    Number,
}

impl Shape {
    /// Its name in the program's text.
    const fn name(self) -> &'static str {
        match self {
            Shape::Array => "array",
            Shape::Scalar => "scalar",
            Shape::Number => "number",
        }
    }
}

/// An input, as the caller declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Input<'a> {
    /// The name in the expression.
    pub name: &'a str,
    /// The type in memory.
    pub element: Element,
    /// An array or a scalar.
    pub shape: Shape,
}

/// The place of a node in its program.
pub type NodeId = u16;

/// The source of a node's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A constant of the node's type, its bits in the low end. A NaN is the quiet one.
    Constant(u64),
    /// The input of this index, widened.
    Input(u8),
    /// An operation on nodes.
    Op(Op),
}

/// A value of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The source of the value.
    pub source: Source,
    /// The value's type.
    pub ty: Type,
    operands: [NodeId; 3],
}

impl Node {
    /// A node with operands, whose number is the operation's arity.
    pub(crate) fn new(source: Source, ty: Type, nodes: &[NodeId]) -> Node {
        let mut operands = [0; 3];
        operands[..nodes.len()].copy_from_slice(nodes);
        Node { source, ty, operands }
    }

    /// The operands, all of which come earlier in the program.
    #[must_use]
    pub fn operands(&self) -> &[NodeId] {
        match self.source {
            Source::Op(op) => &self.operands[..op.arity()],
            _ => &[],
        }
    }
}

/// An expression, checked and typed. Immutable; two of the same text and inputs are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    inputs: Vec<(String, Element, Shape)>,
    nodes: Vec<Node>,
    reduction: Option<Reduction>,
    results: Vec<NodeId>,
    output: Type,
}

impl Program {
    /// A program of the nodes that its results need.
    pub(crate) fn new(
        inputs: &[Input<'_>], nodes: &[Node], reduction: Option<Reduction>, results: &[NodeId],
        output: Type,
    ) -> Program {
        let mut program = Program {
            inputs: inputs.iter().map(|i| (i.name.to_owned(), i.element, i.shape)).collect(),
            nodes: Vec::new(),
            reduction,
            results: results.to_vec(),
            output,
        };
        let needed = needed(nodes, results);
        let mut places = vec![0; nodes.len()];
        for (id, node) in nodes.iter().enumerate().filter(|(id, _)| needed[*id]) {
            places[id] = program.nodes.len() as NodeId;
            let operands = node.operands.map(|operand| places[usize::from(operand)]);
            program.nodes.push(Node { operands, ..*node });
        }
        program.results.iter_mut().for_each(|id| *id = places[usize::from(*id)]);
        program
    }

    /// The inputs, as they were declared; not every one need be used.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = Input<'_>> {
        self.inputs.iter().map(|(name, element, shape)| Input {
            name,
            element: *element,
            shape: *shape,
        })
    }

    /// The nodes, each after its operands. Every one is used, and no two are equal.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The reduction of the results; without one, the only result is the output.
    #[must_use]
    pub const fn reduction(&self) -> Option<Reduction> {
        self.reduction
    }

    /// The nodes that the reduction takes, or the one that is the output.
    #[must_use]
    pub fn results(&self) -> &[NodeId] {
        &self.results
    }

    /// The type of the output's elements.
    #[must_use]
    pub const fn output(&self) -> Type {
        self.output
    }
}

/// Marks the nodes that the results need.
fn needed(nodes: &[Node], results: &[NodeId]) -> Vec<bool> {
    let mut needed = vec![false; nodes.len()];
    results.iter().for_each(|&id| needed[usize::from(id)] = true);
    for (id, node) in nodes.iter().enumerate().rev() {
        if needed[id] {
            node.operands().iter().for_each(|&operand| needed[usize::from(operand)] = true);
        }
    }
    needed
}

/// The program's text: a line for each node, and one for the output.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, node) in self.nodes.iter().enumerate() {
            write!(f, "%{id}: {} = ", node.ty)?;
            match node.source {
                Source::Constant(bits) => constant(f, node.ty, bits)?,
                Source::Input(input) => {
                    let (name, element, shape) = &self.inputs[usize::from(input)];
                    write!(f, "{} {name}: {}", shape.name(), element.name())?;
                }
                Source::Op(op) => list(f, op.name(), node.operands())?,
            }
            writeln!(f)?;
        }
        write!(f, "output: {} = ", self.output)?;
        list(f, self.reduction.map_or("", Reduction::name), &self.results)?;
        writeln!(f)
    }
}

/// Writes an operation and its operands.
fn list(f: &mut fmt::Formatter<'_>, name: &str, operands: &[NodeId]) -> fmt::Result {
    f.write_str(name)?;
    for (i, id) in operands.iter().enumerate() {
        let separator = match (i, name) {
            (0, "") => "",
            (0, _) => " ",
            _ => ", ",
        };
        write!(f, "{separator}%{id}")?;
    }
    Ok(())
}

/// Writes a constant: floats with the fewest digits that give the same bits.
fn constant(f: &mut fmt::Formatter<'_>, ty: Type, bits: u64) -> fmt::Result {
    match ty {
        Type::Bool => write!(f, "{}", bits != 0),
        Type::I32 => write!(f, "{}", (bits as u32).cast_signed()),
        Type::I64 => write!(f, "{}", bits.cast_signed()),
        Type::F32 => write!(f, "{:?}", f32::from_bits(bits as u32)),
        Type::F64 => write!(f, "{:?}", f64::from_bits(bits)),
    }
}
