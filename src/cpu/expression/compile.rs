//! Compiles a program into steps over blocks.

use super::fuse::Pairs;
use super::loops::{GRAIN, Loop};
use super::operations::{copy, load, operation, store};
use crate::arch::Isa;
use crate::call::{MAX_OUTPUTS, picoseconds as cost};
use crate::policy::cores;
use gpuvec_expr::{
    Element, Form, Input, Node, NodeId, Op, Output, OutputKind, Program, Source, Type,
};
use std::collections::TryReserveError;

/// A program as steps over blocks. Immutable; any number of threads run it at the same time.
pub(crate) struct BlockProgram {
    /// The element size in bytes of each input, or 0 if the input is a scalar or is not used; then the element sizes of
    /// the elementwise outputs.
    pub(super) arrays: Vec<usize>,
    pub(super) inputs: usize,
    /// The buffers. Their places follow the places of arrays and outputs.
    pub(super) buffers: Vec<Buffer>,
    /// The values that are known before a run: constants and scalars.
    pub(super) known: Vec<Known>,
    /// The steps on uniform values.
    pub(super) uniform: Vec<Step>,
    /// The steps on the elements of a block.
    pub(super) steps: Vec<Step>,
    /// The values that each reduction takes.
    pub(super) reduced: Vec<Reduced>,
    /// The bytes of the largest value in a register.
    pub(super) register_bytes: usize,
    /// The elements of a block: a multiple of [`GRAIN`].
    pub(super) block: usize,
    /// The time of a core for an element in its caches, in picoseconds.
    cost: u32,
    /// The instruction set for which the program was compiled.
    pub(super) isa: Isa,
}

/// A constant or a scalar, before it is widened.
pub(super) struct Known {
    pub(super) place: Place,
    pub(super) bytes: usize,
    pub(super) bits: Bits,
}

pub(super) enum Bits {
    Constant(u64),
    /// The value of the input of this number.
    Scalar(usize),
}

/// The place of values: an index into the list of a run's addresses. Arrays come first, in the order of the inputs,
/// then outputs, then buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) index: u16,
    /// The first [`GRAIN`] elements stand for all.
    pub(super) is_uniform: bool,
}

/// A buffer of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Buffer {
    /// A uniform value, [`GRAIN`] times.
    Uniform,
    /// The values of a block.
    Register,
}

/// The values that a reduction takes.
pub(super) struct Reduced {
    pub(super) ty: Type,
    /// Their places. A reduction of one value has its place twice.
    pub(super) places: [Place; 2],
    /// The place and the type of the keys, I32 or I64, if each element has one.
    pub(super) keys: Option<(Place, Type)>,
}

/// A loop, and the places of its operands and results.
pub(super) struct Step {
    pub(super) run: Loop,
    pub(super) operands: [Place; 3],
    pub(super) out: Place,
}

impl Step {
    fn new(run: Loop, places: &[Place], out: Place) -> Self {
        let mut operands = [NOWHERE; 3];
        operands[..places.len()].copy_from_slice(places);
        Step { run, operands, out }
    }
}

impl BlockProgram {
    /// Compiles a [program of sums](Program::of_sums) for an instruction set of the processor. Fails if there is too
    /// little memory.
    pub(crate) fn new(program: &Program, isa: Isa) -> Result<Self, TryReserveError> {
        let mut compiler = Compiler::new(program, isa);
        let cast = short_key(program).map(|[cast, _]| usize::from(cast));
        for id in 0..program.nodes().len() {
            let is_skipped = compiler.pairs.is_absorbed(id) || cast == Some(id);
            let value = if is_skipped { NOWHERE } else { compiler.node(id)? };
            compiler.values.push(value);
        }
        compiler.finish()
    }

    /// An estimate of a core's time for an element in its caches, in picoseconds.
    pub(crate) fn cost(&self) -> u32 {
        self.cost
    }
}

struct Compiler<'p> {
    program: &'p Program,
    pairs: Pairs,
    /// The places of the values of the nodes compiled so far.
    values: Vec<Place>,
    /// The last node that uses each node.
    last_uses: Vec<usize>,
    /// The last node that reads an array.
    last_read: usize,
    /// The registers that hold no value that a later step uses.
    free: Vec<Place>,
    compiled: BlockProgram,
}

impl<'p> Compiler<'p> {
    fn new(program: &'p Program, isa: Isa) -> Self {
        let stored = stored(program).map(|output| output.element.bytes());
        let inputs = program.inputs().map(|_| 0);
        let widest = program.outputs().iter().map(|output| output.ty.bytes()).max();
        let compiled = BlockProgram {
            arrays: inputs.chain(stored).collect(),
            inputs: program.inputs().len(),
            buffers: Vec::new(),
            known: Vec::new(),
            uniform: Vec::new(),
            steps: Vec::new(),
            reduced: Vec::new(),
            register_bytes: widest.unwrap_or(1),
            block: 0,
            cost: 0,
            isa,
        };
        let pairs = Pairs::of(program, isa);
        Compiler {
            program,
            values: Vec::with_capacity(program.nodes().len()),
            last_uses: last_uses(program, &pairs),
            last_read: last_read(program, &pairs),
            pairs,
            free: Vec::new(),
            compiled,
        }
    }

    /// Appends the steps that compute a node's value, if it needs any. Returns the value's place.
    fn node(&mut self, id: usize) -> Result<Place, TryReserveError> {
        let Node { source, ty, .. } = self.program.nodes()[id];
        match source {
            Source::Constant(bits) => self.known(ty.bytes(), Bits::Constant(bits)),
            Source::Input(input) => self.input(id, usize::from(input)),
            Source::Op(op) => self.operation(id, op),
        }
    }

    fn known(&mut self, bytes: usize, bits: Bits) -> Result<Place, TryReserveError> {
        let place = self.buffer(Buffer::Uniform);
        self.compiled.known.try_reserve(1)?;
        self.compiled.known.push(Known { place, bytes, bits });
        Ok(place)
    }

    fn input(&mut self, id: usize, input: usize) -> Result<Place, TryReserveError> {
        let declared = self.program.inputs().nth(input).expect("the inputs are declared");
        let stored = match declared.form {
            Form::Array => {
                self.compiled.arrays[input] = declared.element.bytes();
                array(input)
            }
            Form::Scalar | Form::Number => {
                self.known(declared.element.bytes(), Bits::Scalar(input))?
            }
        };
        match load_loops(self.program, id, &declared) {
            Some(loops) => self.step(id, loops, cost::MOVE, &[stored], &[]),
            None => Ok(stored),
        }
    }

    fn operation(&mut self, id: usize, op: Op) -> Result<Place, TryReserveError> {
        let nodes = self.program.nodes();
        let (operands, number) = self.pairs.operands(nodes, id);
        let operands = &operands[..number];
        let from = nodes[usize::from(operands[number - 1])].ty;
        let loops = self.pairs.loops(nodes, id).or_else(|| operation(op, from, nodes[id].ty));
        let loops = loops.expect("the language has no other operations");
        let mut places = [NOWHERE; 3];
        for (place, &operand) in places.iter_mut().zip(operands) {
            *place = self.values[usize::from(operand)];
        }
        self.step(id, loops, cost::operation(op, from), &places[..number], operands)
    }

    /// Appends the step that computes a node's value from the values at `places`, the values of `nodes`. Returns its
    /// place.
    fn step(
        &mut self, id: usize, run: Loop, cost: u32, places: &[Place], nodes: &[NodeId],
    ) -> Result<Place, TryReserveError> {
        if places.iter().all(|place| place.is_uniform) {
            let out = self.buffer(Buffer::Uniform);
            let step = Step::new(run, places, out);
            self.compiled.uniform.try_reserve(1)?;
            self.compiled.uniform.push(step);
            return Ok(out);
        }
        let size = self.program.nodes()[id].ty.bytes();
        self.release(id, nodes, |operand| operand >= size);
        let out = self.output_of(id).unwrap_or_else(|| self.register(size));
        self.release(id, nodes, |operand| operand < size);
        let step = Step::new(run, places, out);
        self.compiled.steps.try_reserve(1)?;
        self.compiled.steps.push(step);
        self.compiled.cost += cost;
        Ok(out)
    }

    /// The output that a node's loop can write. `None` if the output has another type, or if a later loop reads an
    /// array, which may be the same memory.
    fn output_of(&self, id: usize) -> Option<Place> {
        let number = stored(self.program).position(|output| {
            usize::from(output.operands()[0]) == id && output.element == output.ty.element()
        });
        number.filter(|_| id >= self.last_read).map(|number| self.output(number))
    }

    fn output(&self, number: usize) -> Place {
        array(self.compiled.inputs + number)
    }

    /// Frees the registers of a node's operands that no later node uses and that have the right size. Operands of at
    /// least the result's size are freed before the result takes a register, since a loop may overwrite them.
    fn release(&mut self, id: usize, operands: &[NodeId], is_right: impl Fn(usize) -> bool) {
        for (i, &operand) in operands.iter().enumerate() {
            let node = usize::from(operand);
            if self.last_uses[node] == id
                && !operands[..i].contains(&operand)
                && is_right(self.program.nodes()[node].ty.bytes())
                && self.is_register(self.values[node])
            {
                self.free.push(self.values[node]);
            }
        }
    }

    fn is_register(&self, place: Place) -> bool {
        let first = self.compiled.arrays.len();
        let buffer = usize::from(place.index).checked_sub(first);
        buffer.is_some_and(|buffer| self.compiled.buffers[buffer] == Buffer::Register)
    }

    fn register(&mut self, bytes: usize) -> Place {
        self.compiled.register_bytes = self.compiled.register_bytes.max(bytes);
        self.free.pop().unwrap_or_else(|| self.buffer(Buffer::Register))
    }

    fn buffer(&mut self, buffer: Buffer) -> Place {
        let index = (self.compiled.arrays.len() + self.compiled.buffers.len()) as u16;
        self.compiled.buffers.push(buffer);
        Place { index, is_uniform: buffer == Buffer::Uniform }
    }

    fn finish(mut self) -> Result<BlockProgram, TryReserveError> {
        // A copy of each value that is reduced or stored, and the store.
        self.compiled.steps.try_reserve(3 * MAX_OUTPUTS)?;
        for output in self.program.outputs() {
            match output.kind {
                OutputKind::Elementwise => {}
                OutputKind::Reduced { .. } | OutputKind::Grouped { .. } | OutputKind::Single => {
                    self.reduce(output);
                }
            }
        }
        self.store();
        let streams: usize = self.compiled.arrays.iter().sum();
        self.compiled.cost += cost::BYTE * streams as u32;
        self.compiled.block = self.block();
        Ok(self.compiled)
    }

    fn reduce(&mut self, output: &Output) {
        let (ty, values) = (output.ty, output.values());
        let short = short_key(self.program).map(|[_, key]| (key, Type::I32));
        let keys = short.or_else(|| Some((output.key()?, Type::I64)));
        let mut place = |ty, operand| {
            let place = self.values[usize::from(operand)];
            if place.is_uniform { self.copied(ty, place) } else { place }
        };
        let places = [values[0], values[values.len() - 1]].map(|value| place(ty, value));
        let keys = keys.map(|(key, ty)| (place(ty, key), ty));
        self.compiled.reduced.push(Reduced { ty, places, keys });
        self.compiled.cost +=
            output.reduction().map_or(0, |reduction| cost::reduction(reduction, ty));
    }

    /// Writes the outputs that no loop has written. If there are several, first copies the outputs that are inputs,
    /// because another output may overwrite the array.
    fn store(&mut self) {
        let outputs: Vec<(Element, Place)> = stored(self.program)
            .map(|output| (output.element, self.values[usize::from(output.operands()[0])]))
            .collect();
        let is_input = |place: Place| usize::from(place.index) < self.compiled.inputs;
        let read: Vec<bool> =
            outputs.iter().map(|(_, place)| outputs.len() > 1 && is_input(*place)).collect();
        let mut places = Vec::new();
        for ((element, place), is_read) in outputs.iter().zip(read) {
            places.push(if is_read { self.copied(element.widened(), *place) } else { *place });
        }
        for (number, (place, (element, _))) in places.into_iter().zip(outputs).enumerate() {
            let out = self.output(number);
            if place.index != out.index {
                let step = Step::new(store(element), &[place], out);
                self.compiled.steps.push(step);
            }
            self.compiled.cost += cost::MOVE;
        }
    }

    /// Copies the values of a place to a register.
    fn copied(&mut self, ty: Type, place: Place) -> Place {
        let out = self.register(ty.bytes());
        let step = Step::new(copy(ty), &[place], out);
        self.compiled.steps.push(step);
        out
    }

    /// The elements of a block: all elements, unless some are used twice while they are in a cache. (The results of a
    /// single long loop are used twice if they are searched for NaNs.)
    fn block(&self) -> usize {
        let buffers = &self.compiled.buffers;
        let registers = buffers.iter().filter(|&&buffer| buffer == Buffer::Register).count();
        let is_alone = match self.compiled.steps.len() {
            0 => true,
            1 => registers == 0 && self.compiled.reduced.is_empty(),
            _ => false,
        };
        if is_alone {
            let output = self.compiled.arrays.last();
            let is_searched =
                self.compiled.cost >= cores::SEARCHED_COST && output == Some(&size_of::<f64>());
            return if is_searched {
                cores::SEARCHED_BLOCK
            } else {
                usize::MAX - usize::MAX % GRAIN
            };
        }
        let [few_buffers, more_buffers, reduction] = cores::EXPRESSION_BLOCK_BYTES;
        let block = match self.compiled.reduced[..] {
            [] if registers <= 1 => few_buffers,
            [] => more_buffers,
            _ => reduction,
        };
        let most = block.min(cores::EXPRESSION_BYTES / registers.max(1));
        (most / self.compiled.register_bytes).max(GRAIN) / GRAIN * GRAIN
    }
}

/// The place of an operand that a loop does not take.
const NOWHERE: Place = Place { index: 0, is_uniform: true };

fn array(input: usize) -> Place {
    Place { index: input as u16, is_uniform: false }
}

/// The elementwise outputs, which loops store.
fn stored(program: &Program) -> impl Iterator<Item = &Output> {
    program.outputs().iter().filter(|output| output.kind == OutputKind::Elementwise)
}

/// The node that casts keys from i32 to i64, if nothing else uses it, and the node of the i32. Reductions take either.
fn short_key(program: &Program) -> Option<[NodeId; 2]> {
    let key = program.outputs().iter().find_map(Output::key)?;
    let nodes = program.nodes();
    let Node { source: Source::Op(Op::Cast), .. } = nodes[usize::from(key)] else { return None };
    let [operand] = *nodes[usize::from(key)].operands() else { return None };
    let mut users =
        nodes.iter().map(Node::operands).chain(program.outputs().iter().map(Output::values));
    let is_short = nodes[usize::from(operand)].ty == Type::I32;
    (is_short && !users.any(|operands| operands.contains(&key))).then_some([key, operand])
}

/// The loop that loads the elements of an input, or `None` if other loops read the array in place. Beside elementwise
/// outputs, the values that a reduction takes are loaded, since an output may overwrite their array.
fn load_loops(program: &Program, id: usize, input: &Input<'_>) -> Option<Loop> {
    let is_reduced = || {
        let mut reductions = program.outputs().iter().filter(|output| output.reduction().is_some());
        let takes = |output: &Output| output.operands().iter().any(|&node| usize::from(node) == id);
        reductions.any(takes) && stored(program).next().is_some()
    };
    let copies =
        || (input.form == Form::Array && is_reduced()).then(|| copy(input.element.widened()));
    load(input.element).or_else(copies)
}

/// The last node with a loop that reads an array. It is after all nodes if an output is an input array.
fn last_read(program: &Program, pairs: &Pairs) -> usize {
    let nodes = program.nodes();
    let inputs: Vec<Input<'_>> = program.inputs().collect();
    let array = |id: usize| match nodes[id].source {
        Source::Input(input) => {
            Some(inputs[usize::from(input)]).filter(|input| input.form == Form::Array)
        }
        _ => None,
    };
    // Other arrays are loaded by a loop of their own.
    let is_in_place = |node: &NodeId| {
        let id = usize::from(*node);
        array(id).is_some_and(|input| load_loops(program, id, &input).is_none())
    };
    if program.results().any(|node| is_in_place(&node)) {
        return usize::MAX;
    }
    let reads = |&id: &usize| {
        let (operands, number) = pairs.operands(nodes, id);
        array(id).is_some() || operands[..number].iter().any(is_in_place)
    };
    (0..nodes.len()).filter(|&id| !pairs.is_absorbed(id)).rfind(reads).unwrap_or(0)
}

/// The last node that uses each node. The results are never free.
fn last_uses(program: &Program, pairs: &Pairs) -> Vec<usize> {
    let nodes = program.nodes();
    let mut last_uses = vec![0; nodes.len()];
    for id in (0..nodes.len()).filter(|&id| !pairs.is_absorbed(id)) {
        let (operands, number) = pairs.operands(nodes, id);
        operands[..number].iter().for_each(|&operand| last_uses[usize::from(operand)] = id);
    }
    let results = program.results().chain(short_key(program).map(|[_, key]| key));
    results.for_each(|result| last_uses[usize::from(result)] = usize::MAX);
    last_uses
}
