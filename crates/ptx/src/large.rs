//! The kernels of large programs, whose parts and whose long operations are device functions.
//!
//! The kernel calls one part after the other, and the parts call the operations. Values that one part
//! makes and another one uses are in local memory. With each operation written where it is used, the
//! text of a thousand tangents would be 14 MB; without parts, a driver would compile two thousand calls
//! for half a minute, since its time grows with the square of a function's calls, and faster.

use crate::Limits;
use crate::elements::{access, stored, widened};
use crate::function::{self, Tables};
use crate::operation::{apply, operand_type};
use crate::writer::{Class, Operand, Writer};
use gpuvec_expr::{Node, NodeId, Op, Program, Source, Type};
use std::ops::Range;

/// Instructions that a driver compiles in the time of a float's division or root, and in that of a
/// division with a whole quotient.
pub(crate) const DIVISION: usize = 64;
const WHOLE_DIVISION: usize = 128;

/// Bytes of a value in local memory.
const WORD: u32 = 8;

/// The name of the local memory, and of the parameter that is its address.
const MEMORY: &str = "memory";
const ADDRESS: Operand = Operand::Named(&"%memory");

/// A large program, in parts.
pub(crate) struct Large<'p> {
    program: &'p Program,
    /// Nodes of a part.
    part: usize,
    /// The word of local memory for the value of each node that is used outside its part.
    words: Vec<Option<u32>>,
    /// The number of words.
    count: u32,
}

impl<'p> Large<'p> {
    /// The parts of a program that has more instructions for an element than a kernel in one piece.
    pub(crate) fn of(program: &'p Program, limits: Limits) -> Option<Large<'p>> {
        let mut instructions = 0;
        let is_large = program.nodes().iter().any(|node| {
            instructions += long(program, node).map_or(1, |(_, _, length)| length);
            instructions > limits.instructions
        });
        is_large.then(|| Large::new(program, limits.part))
    }

    fn new(program: &'p Program, part: usize) -> Large<'p> {
        let nodes = program.nodes();
        let mut large = Large { program, part, words: vec![None; nodes.len()], count: 0 };
        let mut last_uses = vec![0; nodes.len()];
        for (id, node) in nodes.iter().enumerate() {
            node.operands().iter().for_each(|&operand| last_uses[usize::from(operand)] = id / part);
        }
        // The kernel itself uses the results, behind the last part.
        program.results().for_each(|id| last_uses[usize::from(id)] = large.parts());
        // It stores the inputs before the first one.
        let is_input = |id: &usize| matches!(nodes[*id].source, Source::Input(_));
        for id in (0..nodes.len()).filter(is_input) {
            large.words[id] = Some(large.new_word());
        }
        let is_computed = |id: &usize| matches!(nodes[*id].source, Source::Op(_));
        let mut unused = Vec::new();
        for number in 0..large.parts() {
            let nodes = large.nodes(number);
            for id in nodes.clone().filter(is_computed).filter(|&id| last_uses[id] > number) {
                large.words[id] = Some(unused.pop().unwrap_or_else(|| large.new_word()));
            }
            // Later parts may use the words of values that none of them uses.
            let is_done = |id: &usize| last_uses[*id] == number && is_computed(id);
            unused.extend((0..nodes.end).filter(is_done).filter_map(|id| large.words[id]));
        }
        large
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
        text.extend([".local .align 8 .b8 ", MEMORY, "[", &bytes, "];\n"]);
    }

    /// Writes the device functions, which come before the kernel.
    pub(crate) fn functions(&self, text: &mut String) {
        let (mut written, tables) = (Vec::new(), Tables::of(self.program, true));
        for (op, ty, _) in self.program.nodes().iter().filter_map(|node| long(self.program, node)) {
            if !written.contains(&(op, ty)) {
                written.push((op, ty));
                function(text, &tables, op, ty);
            }
        }
        (0..self.parts()).for_each(|number| self.part(text, number));
    }

    /// Writes a part.
    fn part(&self, text: &mut String, number: usize) {
        let writer = Writer::new();
        let mut values = Values::new(self, &writer, ADDRESS);
        for id in self.nodes(number) {
            let node = &self.program.nodes()[id];
            let Source::Op(op) = node.source else { continue };
            let operands: Vec<Operand> = node.operands().iter().map(|&id| values.get(id)).collect();
            let ty = operand_type(self.program, node);
            let value = match length(op, ty) {
                Some(_) => {
                    let result = writer.register(Class::of(ty));
                    writer.call(&name(op, ty), Some(result), &operands);
                    result
                }
                None => apply(&writer, op, ty, node.ty, &operands),
            };
            values.put(id, value);
        }
        writer.line("ret");
        text.extend([".func ", &part_name(number), "(.reg .b64 %memory)\n{\n"]);
        writer.finish(text);
        text.push_str("}\n");
    }

    /// Calls the parts for an element with its inputs' values, and returns its results.
    pub(crate) fn results(&self, writer: &Writer, inputs: &[Option<Operand>]) -> Vec<Operand> {
        let memory = writer.emit("mov.b64", Class::B64, &[Operand::Named(&MEMORY)]);
        let values = Values::new(self, writer, memory);
        for (id, input) in inputs.iter().enumerate() {
            input.iter().for_each(|&value| values.store(id, value));
        }
        (0..self.parts()).for_each(|number| writer.call(&part_name(number), None, &[memory]));
        let mut values = Values::new(self, writer, memory);
        self.program.results().map(|id| values.get(id)).collect()
    }
}

/// The values of nodes, as far as the kernel or a part knows them.
struct Values<'l> {
    large: &'l Large<'l>,
    writer: &'l Writer,
    /// The address of the local memory.
    memory: Operand,
    known: Vec<Option<Operand>>,
}

impl<'l> Values<'l> {
    fn new(large: &'l Large<'l>, writer: &'l Writer, memory: Operand) -> Self {
        Values { large, writer, memory, known: vec![None; large.words.len()] }
    }

    /// The value of a node: a constant, or known, or in local memory.
    fn get(&mut self, id: NodeId) -> Operand {
        let id = usize::from(id);
        let node = &self.large.program.nodes()[id];
        if let Source::Constant(bits) = node.source {
            return Operand::Constant(Class::of(node.ty), bits);
        }
        *self.known[id].get_or_insert_with(|| {
            let (ty, class) = access(node.ty.element());
            let raw = self.writer.register(class);
            let offset = WORD * self.large.words[id].unwrap_or_default();
            self.writer.access("ld.local", ty, &[raw], self.memory, offset);
            widened(self.writer, node.ty.element(), raw)
        })
    }

    /// Sets the value of a node.
    fn put(&mut self, id: usize, value: Operand) {
        self.known[id] = Some(value);
        self.store(id, value);
    }

    /// Stores the value of a node, if another part uses it.
    fn store(&self, id: usize, value: Operand) {
        if let Some(word) = self.large.words[id] {
            let ty = self.large.program.nodes()[id].ty;
            let raw = stored(self.writer, ty.element(), value);
            let (ty, _) = access(ty.element());
            self.writer.access("st.local", ty, &[raw], self.memory, WORD * word);
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

/// The name of a part.
fn part_name(number: usize) -> String {
    format!("part_{number}")
}

/// The name of an operation's device function.
fn name(op: Op, ty: Type) -> String {
    format!("{}_{}", op.name(), ty.name())
}

/// Writes the device function of an operation.
fn function(text: &mut String, tables: &Tables, op: Op, ty: Type) {
    let (writer, class) = (Writer::new(), Class::of(ty));
    const PARAMETERS: &[&str] = &["%x", "%y"];
    let parameters = &PARAMETERS[..op.arity()];
    let operands: Vec<Operand> = parameters.iter().map(Operand::Named).collect();
    let result = function::either(&writer, ty, op, tables, &operands)
        .unwrap_or_else(|| apply(&writer, op, ty, ty, &operands));
    writer.set(class.copy(), Operand::Named(&"%result"), &[result]);
    writer.line("ret");
    text.extend([".func (.reg ", class.name(), " %result) ", &name(op, ty)]);
    for (i, parameter) in parameters.iter().enumerate() {
        text.extend([if i == 0 { "(" } else { ", " }, ".reg ", class.name(), " ", parameter]);
    }
    text.push_str(")\n{\n");
    writer.finish(text);
    text.push_str("}\n");
}
