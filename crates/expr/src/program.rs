//! Programs: typed nodes, which use earlier nodes.

use crate::{Element, Op, Reduction, Type, half};
use std::collections::TryReserveError;
use std::fmt;

/// The form of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// An element for each element of the call.
    Array,
    /// One value, which is read at the call.
    Scalar,
    /// One value of f64 or i64, which takes the type of the other operand, as a literal does.
    Number,
}

impl Form {
    /// The name in the program's text.
    const fn name(self) -> &'static str {
        match self {
            Form::Array => "array",
            Form::Scalar => "scalar",
            Form::Number => "number",
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
    pub form: Form,
}

/// The place of a node in its program.
pub type NodeId = u16;

/// The source of a node's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A constant of the node's type, with its bits in the low end. A NaN is the one quiet NaN.
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
    /// A node with the operands of its operation. Other sources have none.
    pub(crate) fn new(source: Source, ty: Type, nodes: &[NodeId]) -> Node {
        let mut operands = [0; 3];
        operands[..nodes.len()].copy_from_slice(nodes);
        Node { source, ty, operands }
    }

    /// The operands. They come earlier in the program.
    #[must_use]
    pub fn operands(&self) -> &[NodeId] {
        match self.source {
            Source::Op(op) => &self.operands[..op.arity()],
            _ => &[],
        }
    }
}

/// The kind of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// An element for each element of the call: the value of the only operand.
    Elementwise,
    /// One result for each index of the axes that are not reduced, and so one value if all axes are reduced.
    Reduced {
        /// The reduction of the operands.
        reduction: Reduction,
        /// For `Var` and `Std`, the number that is subtracted from the number of elements before the division.
        ddof: i32,
    },
    /// One result for each key and each index of the axes that are not reduced. The last operand is each element's
    /// key, an i64.
    Grouped {
        /// The reduction of the other operands.
        reduction: Reduction,
        /// As for `Reduced`.
        ddof: i32,
    },
    /// One value that is computed from scalars, whatever the number of elements of the call.
    Single,
}

/// An output of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// The kind of the output.
    pub kind: OutputKind,
    /// The type of the operands.
    pub ty: Type,
    /// The type of the output's elements in memory.
    pub element: Element,
    operands: [NodeId; 3],
    /// The number of operands.
    count: u8,
}

impl Output {
    /// An output. The operands may be the two halves of an integer. A grouped output has its key as the last one.
    pub(crate) fn new(kind: OutputKind, ty: Type, element: Element, nodes: &[NodeId]) -> Output {
        let mut operands = [0; 3];
        operands[..nodes.len()].copy_from_slice(nodes);
        Output { kind, ty, element, operands, count: nodes.len() as u8 }
    }

    /// The reduction that computes the output, if there is one. For an output of one value, a reduction returns that
    /// value from equal elements.
    #[must_use]
    pub fn reduction(&self) -> Option<Reduction> {
        match self.kind {
            OutputKind::Elementwise => None,
            OutputKind::Reduced { reduction, .. } | OutputKind::Grouped { reduction, .. } => {
                Some(reduction)
            }
            OutputKind::Single => Some(match (self.ty, self.element) {
                (Type::Bool, _) => Reduction::Any,
                // The result of Max would be converted from the order of i64 to the order of u64.
                (_, Element::U64) => Reduction::Sum,
                _ => Reduction::Max,
            }),
        }
    }

    /// Replaces an operand of u64, which reductions do not take, by the i64 with the same bits.
    pub(crate) fn make_signed(&mut self, nodes: &mut Vec<Node>) {
        if self.ty == Type::U64 {
            let id = nodes.len() as NodeId;
            nodes.push(Node::new(Source::Op(Op::Cast), Type::I64, self.operands()));
            (self.ty, self.operands) = (Type::I64, [id, 0, 0]);
        }
    }

    /// The exact sums from which the result is computed, if there are several: the reduction of each sum, and the
    /// places of its operands among the output's operands. An integer of 64 bits is the sum of two operands, halves
    /// that are exact in f64.
    #[must_use]
    pub fn sums(&self) -> &'static [(Reduction, &'static [usize])] {
        use Reduction::{Dot, Mean, Norm, Std, Sum, Var};
        const OF_HALVES: [(Reduction, &[usize]); 5] =
            [(Sum, &[0]), (Sum, &[1]), (Dot, &[0, 0]), (Dot, &[0, 1]), (Dot, &[1, 1])];
        match (self.reduction(), self.values().len()) {
            (Some(Var | Std), 1) => &[(Sum, &[0]), (Dot, &[0, 0])],
            (Some(Var | Std), _) => &OF_HALVES,
            (Some(Mean), 2) => &OF_HALVES[..2],
            (Some(Norm), 2) => &OF_HALVES[2..],
            _ => &[],
        }
    }

    /// The outputs that have a kernel each: the sums from which the result is computed, or the output itself.
    fn of_kernels(&self) -> Vec<Output> {
        let of_sum = |&(reduction, places): &(Reduction, &[usize])| {
            let values = places.iter().map(|&place| self.operands[place]);
            let nodes: Vec<NodeId> = values.chain(self.key()).collect();
            let kind = match self.kind {
                OutputKind::Grouped { .. } => OutputKind::Grouped { reduction, ddof: 0 },
                OutputKind::Elementwise | OutputKind::Reduced { .. } | OutputKind::Single => {
                    OutputKind::Reduced { reduction, ddof: 0 }
                }
            };
            Output::new(kind, self.ty, self.element, &nodes)
        };
        let sums: Vec<Output> = self.sums().iter().map(of_sum).collect();
        if sums.is_empty() { vec![*self] } else { sums }
    }

    /// The same output without rounding to a float of 16 bits, for formulas that use the result.
    pub(crate) fn unrounded(self) -> Output {
        let element = if self.element.is_half() { self.ty.element() } else { self.element };
        Output { element, ..self }
    }

    /// The conversion of the bits of a reduction's result to its type in memory, if that is another type.
    #[must_use]
    pub fn conversion(&self) -> Option<fn(u64) -> u64> {
        match (self.element, self.reduction()) {
            (Element::F16, _) => Some(|bits| half::f16_bits(f32::from_bits(bits as u32)).into()),
            (Element::Bf16, _) => Some(|bits| half::bf16_bits(f32::from_bits(bits as u32)).into()),
            // Each u64 was replaced by the i64 at the same place in the order.
            (Element::U64, Some(Reduction::Min | Reduction::Max)) => Some(|bits| bits ^ 1 << 63),
            _ => None,
        }
    }

    /// The same reduction of the elements of each key. `None` for an output that is not a reduction.
    pub(crate) fn grouped(self, key: NodeId) -> Option<Output> {
        let OutputKind::Reduced { reduction, ddof } = self.kind else { return None };
        let nodes: Vec<NodeId> = self.operands().iter().copied().chain([key]).collect();
        let kind = OutputKind::Grouped { reduction, ddof };
        Some(Output::new(kind, self.ty, self.element, &nodes))
    }

    /// The nodes of the operands: the values, and the key of a grouped output.
    #[must_use]
    pub fn operands(&self) -> &[NodeId] {
        &self.operands[..self.count.into()]
    }

    /// The nodes of the values, each of the type [`ty`](Self::ty).
    #[must_use]
    pub fn values(&self) -> &[NodeId] {
        let keys = usize::from(self.key().is_some());
        &self.operands[..usize::from(self.count) - keys]
    }

    /// The node of the key of a grouped output, an i64.
    #[must_use]
    pub fn key(&self) -> Option<NodeId> {
        match self.kind {
            OutputKind::Grouped { .. } => self.operands().last().copied(),
            OutputKind::Elementwise | OutputKind::Reduced { .. } | OutputKind::Single => None,
        }
    }
}

/// Formulas of the same inputs, checked and typed. Programs of the same text and inputs are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    inputs: Vec<(String, Element, Form)>,
    nodes: Vec<Node>,
    outputs: Vec<Output>,
    /// The number of inputs that the caller declared. The inputs after these are results of earlier passes.
    declared: usize,
    before: Vec<Program>,
}

impl Program {
    /// A program of the nodes that its outputs need.
    pub(crate) fn new(
        inputs: &[Input<'_>], nodes: &[Node], outputs: Vec<Output>,
    ) -> Result<Program, TryReserveError> {
        let needed = needed(nodes, &outputs);
        let mut program = Program {
            inputs: inputs.iter().map(|i| (i.name.to_owned(), i.element, i.form)).collect(),
            nodes: Vec::new(),
            outputs,
            declared: inputs.len(),
            before: Vec::new(),
        };
        program.nodes.try_reserve_exact(needed.iter().filter(|needed| **needed).count())?;
        let mut places = vec![0; nodes.len()];
        for (id, node) in nodes.iter().enumerate().filter(|(id, _)| needed[*id]) {
            places[id] = program.nodes.len() as NodeId;
            let operands = node.operands.map(|operand| places[usize::from(operand)]);
            program.nodes.push(Node { operands, ..*node });
        }
        for output in &mut program.outputs {
            output.operands = output.operands.map(|operand| places[usize::from(operand)]);
        }
        Ok(program)
    }

    /// The inputs, as they were declared. Some may not be used.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = Input<'_>> {
        self.inputs.iter().map(|(name, element, form)| Input {
            name,
            element: *element,
            form: *form,
        })
    }

    /// Puts passes before the program. Their results are the inputs after the first `declared` inputs.
    pub(crate) fn after(self, before: Vec<Program>, declared: usize) -> Program {
        Program { before, declared, ..self }
    }

    /// The programs of earlier passes, which have the same inputs. Each output is a reduction of all elements. In the
    /// order of passes and outputs, these are the values of the scalars after the declared inputs.
    #[must_use]
    pub fn before(&self) -> &[Program] {
        &self.before
    }

    /// The inputs that the caller declared.
    pub fn declared(&self) -> impl ExactSizeIterator<Item = Input<'_>> {
        self.inputs().take(self.declared)
    }

    /// The nodes, each after its operands. All are used, and no two are equal.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The outputs, in the order of their formulas: at least one.
    #[must_use]
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The reduction that is the only output, and the type of the values that it takes. `None` for other programs.
    #[must_use]
    pub fn reduction(&self) -> Option<(Reduction, Type)> {
        let [output] = self.outputs[..] else { return None };
        match output.kind {
            OutputKind::Elementwise | OutputKind::Grouped { .. } => None,
            OutputKind::Reduced { .. } | OutputKind::Single => {
                output.reduction().map(|reduction| (reduction, output.ty))
            }
        }
    }

    /// The program with the same inputs but only these outputs, given by their indices.
    ///
    /// # Errors
    ///
    /// If there is too little memory.
    pub fn of_outputs(&self, outputs: &[usize]) -> Result<Program, TryReserveError> {
        let inputs: Vec<Input<'_>> = self.inputs().collect();
        let outputs = outputs.iter().map(|&output| self.outputs[output]).collect();
        Program::new(&inputs, &self.nodes, outputs)
    }

    /// The program in which an output that is computed from several sums is replaced by these sums, and for each of its
    /// outputs the number of the original output.
    ///
    /// # Errors
    ///
    /// If there is too little memory.
    pub fn of_sums(&self) -> Result<(Program, Vec<usize>), TryReserveError> {
        let inputs: Vec<Input<'_>> = self.inputs().collect();
        let numbered = self.outputs.iter().enumerate();
        let (outputs, numbers) = numbered
            .flat_map(|(number, output)| {
                output.of_kernels().into_iter().map(move |sum| (sum, number))
            })
            .unzip();
        Ok((Program::new(&inputs, &self.nodes, outputs)?, numbers))
    }

    /// The nodes that the outputs take.
    pub fn results(&self) -> impl Iterator<Item = NodeId> + Clone {
        self.outputs.iter().flat_map(Output::operands).copied()
    }
}

/// Marks the nodes that the outputs need.
pub(crate) fn needed(nodes: &[Node], outputs: &[Output]) -> Vec<bool> {
    let mut needed = vec![false; nodes.len()];
    let results = outputs.iter().flat_map(Output::operands);
    results.for_each(|&id| needed[usize::from(id)] = true);
    for (id, node) in nodes.iter().enumerate().rev() {
        if needed[id] {
            node.operands().iter().for_each(|&operand| needed[usize::from(operand)] = true);
        }
    }
    needed
}

/// The program's text: a line for each node, and one for each output.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, pass) in self.before.iter().enumerate() {
            write!(f, "pass {}:\n{pass}", number + 1)?;
        }
        if !self.before.is_empty() {
            writeln!(f, "pass {}:", self.before.len() + 1)?;
        }
        for (id, node) in self.nodes.iter().enumerate() {
            write!(f, "%{id}: {} = ", node.ty)?;
            match node.source {
                Source::Constant(bits) => constant(f, node.ty, bits)?,
                Source::Input(input) => {
                    let (name, element, form) = &self.inputs[usize::from(input)];
                    write!(f, "{} {name}: {}", form.name(), element.name())?;
                }
                Source::Op(op) => list(f, op.name(), node.operands())?,
            }
            writeln!(f)?;
        }
        for output in &self.outputs {
            write!(f, "output: {} = ", output.element.name())?;
            list(f, output.reduction().map_or("", Reduction::name), output.values())?;
            if let OutputKind::Reduced { reduction, ddof } | OutputKind::Grouped { reduction, ddof } =
                output.kind
                && matches!(reduction, Reduction::Var | Reduction::Std)
            {
                write!(f, ", ddof={ddof}")?;
            }
            if let Some(key) = output.key() {
                write!(f, ", by %{key}")?;
            }
            writeln!(f)?;
        }
        Ok(())
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
        Type::U64 => write!(f, "{bits}"),
        Type::F32 => write!(f, "{:?}", f32::from_bits(bits as u32)),
        Type::F64 => write!(f, "{:?}", f64::from_bits(bits)),
    }
}
