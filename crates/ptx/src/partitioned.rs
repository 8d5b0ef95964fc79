//! Programs that are too large for one piece of code. Their parts, and their long operations, are device functions.
//!
//! The kernel calls one part after the other, and the parts call the operations. Local memory holds the values that
//! one part computes and another one uses. If each operation were written where it is used, the text of a thousand
//! tangents would have 14 MB. Without parts, a driver would compile two thousand calls for half a minute: its time
//! grows at least with the square of the number of calls in a function.

use crate::array::{access, stored, value};
use crate::function::{self, DIVISION, Tables};
use crate::operation::{apply, operand_type};
use crate::policy::Limits;
use crate::writer::{Class, Operand, Writer, ptx};
use gpuvec_expr::{Node, NodeId, Op, Program, Source, Type};
use std::ops::Range;

/// The instructions that a driver compiles in the time of a division with a whole quotient.
const WHOLE_DIVISION: usize = 128;

/// Bytes of a value in local memory.
const WORD: u32 = 8;

/// A large program, in parts.
pub(crate) struct PartitionedProgram<'p> {
    program: &'p Program,
    /// Nodes of a part.
    part: usize,
    /// The word of local memory for the value of each node that is used outside its part.
    words: Vec<Option<u32>>,
    /// The number of words.
    count: u32,
}

impl<'p> PartitionedProgram<'p> {
    /// Partitions a program whose instructions for an element exceed the limit. None for smaller programs.
    pub(crate) fn of(program: &'p Program, limits: Limits) -> Option<Self> {
        let mut instructions = 0;
        let is_large = program.nodes().iter().any(|node| {
            instructions += long(program, node).map_or(1, |(_, _, length)| length);
            instructions > limits.instructions
        });
        is_large.then(|| PartitionedProgram::new(program, limits.part))
    }

    fn new(program: &'p Program, part: usize) -> Self {
        let nodes = program.nodes();
        let words = vec![None; nodes.len()];
        let mut partitioned = PartitionedProgram { program, part, words, count: 0 };
        let mut last_uses = vec![0; nodes.len()];
        for (id, node) in nodes.iter().enumerate() {
            node.operands().iter().for_each(|&operand| last_uses[usize::from(operand)] = id / part);
        }
        // The kernel itself uses the results, behind the last part.
        program.results().for_each(|id| last_uses[usize::from(id)] = partitioned.parts());
        // It stores the inputs before the first one.
        let is_input = |id: &usize| matches!(nodes[*id].source, Source::Input(_));
        for id in (0..nodes.len()).filter(is_input) {
            partitioned.words[id] = Some(partitioned.new_word());
        }
        let is_computed = |id: &usize| matches!(nodes[*id].source, Source::Op(_));
        let mut unused = Vec::new();
        for number in 0..partitioned.parts() {
            let nodes = partitioned.nodes(number);
            for id in nodes.clone().filter(is_computed).filter(|&id| last_uses[id] > number) {
                partitioned.words[id] =
                    Some(unused.pop().unwrap_or_else(|| partitioned.new_word()));
            }
            // Later parts may reuse the words of values whose last use was here.
            let is_done = |id: &usize| last_uses[*id] == number && is_computed(id);
            unused.extend((0..nodes.end).filter(is_done).filter_map(|id| partitioned.words[id]));
        }
        partitioned
    }

    const fn new_word(&mut self) -> u32 {
        self.count += 1;
        self.count - 1
    }

    fn parts(&self) -> usize {
        self.words.len().div_ceil(self.part)
    }

    /// The nodes of a part.
    fn nodes(&self, number: usize) -> Range<usize> {
        number * self.part..self.words.len().min((number + 1) * self.part)
    }

    /// Writes the declaration of the local memory.
    pub(crate) fn declare(&self, text: &mut String) {
        let bytes = (WORD * self.count.max(1)).to_string();
        text.extend([".local .align 8 .b8 memory[", &bytes, "];\n"]);
    }

    /// Writes the device functions, which come before the kernel.
    pub(crate) fn functions(&self, text: &mut String) {
        let (mut written, tables) = (Vec::new(), Tables::of(self.program, true));
        for (op, ty, _) in self.program.nodes().iter().filter_map(|node| long(self.program, node)) {
            if !written.contains(&(op, ty)) {
                written.push((op, ty));
                write_function(text, &tables, op, ty);
            }
        }
        (0..self.parts()).for_each(|number| self.write_part(text, number));
    }

    fn write_part(&self, text: &mut String, number: usize) {
        let w = &Writer::new();
        let mut values = Values::new(self, w, Operand::Named(&"%memory"));
        for id in self.nodes(number) {
            let node = &self.program.nodes()[id];
            let Source::Op(op) = node.source else { continue };
            let operands: Vec<Operand> = node.operands().iter().map(|&id| values.get(id)).collect();
            let ty = operand_type(self.program, node);
            let value = match length(op, ty) {
                Some(_) => {
                    let result = w.register(Class::of(ty));
                    w.call(&name(op, ty), Some(result), &operands);
                    result
                }
                None => apply(w, op, ty, node.ty, &operands),
            };
            values.put(id, value);
        }
        ptx!(w; "ret");
        text.extend([".func ", &part_name(number), "(.reg .b64 %memory)\n{\n"]);
        w.finish(text);
        text.push_str("}\n");
    }

    /// Calls the parts for an element with its inputs' values, and returns its results.
    pub(crate) fn results(&self, w: &Writer<'_>, inputs: &[Option<Operand>]) -> Vec<Operand> {
        let memory = ptx!(w; "mov.b64 address, memory");
        let values = Values::new(self, w, memory);
        for (id, input) in inputs.iter().enumerate() {
            input.iter().for_each(|&value| values.store(id, value));
        }
        (0..self.parts()).for_each(|number| w.call(&part_name(number), None, &[memory]));
        let mut values = Values::new(self, w, memory);
        self.program.results().map(|id| values.get(id)).collect()
    }
}

/// The values of nodes, as far as the kernel or a part knows them.
struct Values<'l> {
    partitioned: &'l PartitionedProgram<'l>,
    w: &'l Writer<'l>,
    /// The address of the local memory.
    memory: Operand,
    known: Vec<Option<Operand>>,
}

impl<'l> Values<'l> {
    fn new(partitioned: &'l PartitionedProgram<'l>, w: &'l Writer<'l>, memory: Operand) -> Self {
        Values { partitioned, w, memory, known: vec![None; partitioned.words.len()] }
    }

    /// The value of a node: a constant, or known, or in local memory.
    fn get(&mut self, id: NodeId) -> Operand {
        let id = usize::from(id);
        let node = &self.partitioned.program.nodes()[id];
        if let Source::Constant(bits) = node.source {
            return Operand::Constant(Class::of(node.ty), bits);
        }
        *self.known[id].get_or_insert_with(|| {
            let (element, word) = (node.ty.element(), self.partitioned.words[id]);
            let offset = WORD * word.unwrap_or_default();
            value(self.w, element, self.w.load("ld.local", access(element), self.memory, offset))
        })
    }

    /// Sets the value of a node.
    fn put(&mut self, id: usize, value: Operand) {
        self.known[id] = Some(value);
        self.store(id, value);
    }

    /// Stores the value of a node, if another part uses it.
    fn store(&self, id: usize, value: Operand) {
        if let Some(word) = self.partitioned.words[id] {
            let element = self.partitioned.program.nodes()[id].ty.element();
            let raw = stored(self.w, element, value);
            self.w.access("st.local", access(element).0, &[raw], self.memory, WORD * word);
        }
    }
}

/// The operation of a node with its type and the number of its instructions, if it is long.
fn long(program: &Program, node: &Node) -> Option<(Op, Type, usize)> {
    let Source::Op(op) = node.source else { return None };
    let ty = operand_type(program, node);
    Some((op, ty, length(op, ty)?))
}

/// The number of an operation's instructions, if it is long. Its operands and its result have one type.
fn length(op: Op, ty: Type) -> Option<usize> {
    match op {
        Op::Div | Op::Sqrt => Some(DIVISION),
        Op::FloorDiv | Op::Mod => Some(WHOLE_DIVISION),
        _ => function::length(ty, op),
    }
}

fn part_name(number: usize) -> String {
    format!("part_{number}")
}

/// The name of an operation's device function.
fn name(op: Op, ty: Type) -> String {
    format!("{}_{}", op.name(), ty.name())
}

/// Writes the device function of an operation.
fn write_function(text: &mut String, tables: &Tables, op: Op, ty: Type) {
    let (w, class) = (&Writer::new(), Class::of(ty));
    const PARAMETERS: &[&str] = &["%x", "%y"];
    let parameters = &PARAMETERS[..op.arity()];
    let operands: Vec<Operand> = parameters.iter().map(Operand::Named).collect();
    let result = function::either(w, ty, op, tables, &operands)
        .unwrap_or_else(|| apply(w, op, ty, ty, &operands));
    ptx!(w, result, ty; "mov.B %result, result; ret");
    text.extend([".func (.reg .", class.name(), " %result) ", &name(op, ty)]);
    for (i, parameter) in parameters.iter().enumerate() {
        text.extend([if i == 0 { "(" } else { ", " }, ".reg .", class.name(), " ", parameter]);
    }
    text.push_str(")\n{\n");
    w.finish(text);
    text.push_str("}\n");
}
