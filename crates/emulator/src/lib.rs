//! Runs the PTX of expressions on the CPU, one thread after the other.
//!
//! It knows the instructions that crates/ptx writes, and refuses all others. Where PTX leaves a result open,
//! its results are odd ones, so that a program that depends on them shows: a NaN has a sign and a payload,
//! registers begin with rubbish.
//!
//! Of a reduction it runs the part that computes the elements. The library's own accumulators stand in for
//! the compiled part.

#![forbid(unsafe_code)]

mod by_key;
mod instructions;
mod memory;
mod parse;
mod reduction;

pub use memory::{HostMemory, Memory};

use by_key::Launch;
use instructions::Compute;
use parse::RUBBISH_BYTE;
use std::fmt;

/// Threads of a block.
const BLOCK_THREADS: u64 = 256;

/// A place in a thread's file: a register, a constant, a parameter.
type Slot = u32;

/// The memory that an instruction accesses.
#[derive(Clone, Copy)]
enum Space {
    /// A parameter, whose value the slot of the address has.
    Parameter,
    Global,
    /// A block's memory.
    Shared,
    /// A thread's memory.
    Local,
}

/// An access to some bytes at the address in a slot, plus an offset.
#[derive(Clone, Copy)]
struct Access {
    space: Space,
    bytes: usize,
    /// The address is a multiple of this.
    aligned: u64,
    /// The sign of a narrow integer fills the register; otherwise zeros do.
    signed: bool,
    offset: u64,
}

/// The effect of an instruction.
#[derive(Clone, Copy)]
enum Action {
    /// Computes the value of one slot from three.
    Compute(Compute),
    /// Loads the first slot from the address in the second one.
    Load(Access),
    /// Stores the first slot at the address in the second one.
    Store(Access),
    /// Adds 1 to the word of shared memory at the address in the second slot. The word before goes to the first slot.
    Increment(Access),
    /// Waits for all threads of the block.
    Barrier,
    /// Goes on at another instruction, if the second slot is not 0.
    Jump(usize),
    /// Goes on at a function's first instruction, and behind this one when it returns.
    Call(usize),
    Return,
}

#[derive(Clone, Copy)]
struct Instruction {
    action: Action,
    slot: Slot,
    from: [Slot; 3],
}

/// A kernel.
#[derive(Default)]
pub struct Kernel {
    instructions: Vec<Instruction>,
    /// The kernel's first instruction.
    start: usize,
    /// Bytes of a thread's local memory.
    local: usize,
    /// The initial content of a block's shared memory: the tables of functions, and rubbish.
    shared: Vec<u8>,
    has_barriers: bool,
    /// The file at the beginning: constants are in their slots.
    file: Vec<u64>,
    /// The slots of the parameters' words of 64 bits.
    parameters: Vec<Slot>,
    /// The words of each parameter.
    words: Vec<usize>,
    /// The slots of %tid.x, %ctaid.x and %nctaid.x.
    special: [Slot; 3],
    reduction: Option<Elements>,
}

/// The files and the shared memory of threads that run one after the other.
struct Block {
    file: Vec<u64>,
    shared: Vec<u8>,
}

/// The part of a reduction that computes a thread's elements; the rest is compiled code.
struct Elements {
    reduction: String,
    ty: String,
    /// Elements of a thread, WARP from one another.
    lanes: usize,
    /// The values of elements, or the words of their state. The values of a dot product's second factor follow the
    /// values of the first.
    results: Vec<Slot>,
    /// The index of the first element, and the number of elements.
    index: Slot,
    count: Slot,
    /// The work of a result of a reduction along axes.
    place: Option<Place>,
}

/// The slots for a result of a reduction along axes.
#[derive(Clone, Copy)]
struct Place {
    address: Slot,
    /// The result's number.
    result: Slot,
    /// The distance between a thread's elements.
    step: Slot,
    /// The number of a thread among the threads of the result; if elements are not in vectors, the least of 32 bits.
    lane: Slot,
    /// 0 if results have no elements: then nothing is read.
    has_elements: Slot,
}

/// The elements of a result, as threads have them.
struct Batches {
    count: usize,
    /// The distance between a thread's elements.
    step: usize,
    in_vectors: bool,
}

/// Threads of a warp.
const WARP: usize = 32;

/// A thread's progress.
struct Thread {
    /// The next instruction.
    next: usize,
    /// The instructions at which calls go on.
    back: Vec<usize>,
    local: Vec<u8>,
    /// Instructions that were run.
    count: u64,
}

/// The reason for which a kernel fails, in words.
#[derive(Debug)]
pub enum Fault {
    /// An address is not a multiple of the bytes that an instruction accesses there.
    Misaligned(String),
    /// Any other reason.
    Other(String),
}

impl<T: Into<String>> From<T> for Fault {
    fn from(why: T) -> Fault {
        Fault::Other(why.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Fault::Misaligned(why) | Fault::Other(why)) = self;
        f.write_str(why)
    }
}

/// The reason for which a thread stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Barrier,
    Return,
}

impl Kernel {
    /// Reads the one kernel of a text, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<Kernel, String> {
        parse::kernel(text)
    }

    /// The words of 64 bits of each parameter: one word, or the words of a structure.
    #[must_use]
    pub fn words_of_parameters(&self) -> &[usize] {
        &self.words
    }

    /// The reduction and the type of what it reduces, if it is one.
    #[must_use]
    pub fn reduction(&self) -> Option<(&str, &str)> {
        self.reduction.as_ref().map(|elements| (&elements.reduction[..], &elements.ty[..]))
    }

    /// True for a reduction along axes (kernels/axes.cu), which has other parameters.
    #[must_use]
    pub fn is_along_axes(&self) -> bool {
        !self.is_by_key()
            && self.reduction.as_ref().is_some_and(|elements| elements.place.is_some())
    }

    /// True for a reduction by key (kernels/by_key.cu), which has other parameters.
    #[must_use]
    pub fn is_by_key(&self) -> bool {
        self.reduction.as_ref().is_some_and(|elements| elements.reduction == "by_key")
    }

    /// Computes the operands of a reduction of `count` elements, which are `step` from one another; along axes they may be
    /// `in_vectors`. For an exact sum these are two factors for each element; only dot products need the second. For
    /// other reductions these are the states of all threads, whose values have 64 bits.
    fn elements(
        &self, elements: &Elements, block: &mut Block, count: usize, step: usize, in_vectors: bool,
        memory: &mut impl Memory,
    ) -> Result<Vec<[u64; 2]>, Fault> {
        let lanes = elements.lanes;
        let mut values = vec![[0; 2]; count];
        let mut states = Vec::new();
        let batches = Batches { count, step, in_vectors };
        self.run_batches(elements, block, &batches, memory, |file, first, _| {
            if let [value, place] = elements.results[..] {
                states.push([value, place].map(|slot| file[slot as usize]));
                return Ok(());
            }
            for (i, &slot) in elements.results.iter().enumerate() {
                if let Some(element) = values.get_mut(first + i % lanes * step) {
                    element[i / lanes] = file[slot as usize];
                }
            }
            Ok(())
        })?;
        Ok(if elements.results.len() == 2 { states } else { values })
    }

    /// Runs the code of elements for each thread that has some, and calls `each` with the thread's file and the number of
    /// its first element.
    fn run_batches<M: Memory>(
        &self, elements: &Elements, block: &mut Block, batches: &Batches, memory: &mut M,
        mut each: impl FnMut(&[u64], usize, &mut M) -> Result<(), String>,
    ) -> Result<(), Fault> {
        let Batches { count, step, in_vectors } = *batches;
        block.file[elements.count as usize] = count as u64;
        for batch in (0..count).step_by(elements.lanes * step) {
            for first in batch..batch + step {
                block.file[elements.index as usize] = first as u64;
                if let Some(place) = elements.place {
                    let lane = if in_vectors { (first - batch) as i32 } else { i32::MIN };
                    block.file[place.lane as usize] = lane.cast_unsigned().into();
                }
                self.whole(block, memory)?;
                each(&block.file, first, memory)?;
            }
        }
        Ok(())
    }

    /// Reduces by key, and adds to the table that the parameters say.
    fn reduce_by_key(
        &self, elements: &Elements, parameters: &[u64], memory: &mut impl Memory,
    ) -> Result<(), Fault> {
        let launch = Launch::new(&elements.ty, parameters)?;
        let (mut block, lanes) = (self.block_with(parameters)?, elements.lanes);
        let count = launch.n as usize;
        let batches = Batches { count, step: WARP, in_vectors: false };
        for result in 0..launch.results {
            if let Some(place) = elements.place {
                block.file[place.step as usize] = WARP as u64;
                block.file[place.has_elements as usize] = 1;
                block.file[place.result as usize] = result;
            }
            self.run_batches(elements, &mut block, &batches, memory, |file, first, memory| {
                for k in (0..lanes).filter(|k| first + k * WARP < count) {
                    let columns = elements.results[k..].iter().step_by(lanes);
                    let element: Vec<u64> = columns.map(|&slot| file[slot as usize]).collect();
                    launch.add(memory, result, (first + k * WARP) as u64, &element)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Reduces, and stores the state or the result where the parameters say.
    fn reduce(
        &self, elements: &Elements, parameters: &[u64], memory: &mut impl Memory,
    ) -> Result<(), Fault> {
        let &[.., out, _, _, _, result, first] = parameters else {
            return Err("a reduction without its parameters".into());
        };
        let (mut block, count) = (self.block_with(parameters)?, parameters[parameters.len() - 5]);
        let found = self.elements(elements, &mut block, count as usize, WARP, false, memory)?;
        let reduced = reduction::reduce(&elements.reduction, &elements.ty, &found, first)?;
        let (place, bytes) = match (out, result) {
            (0, place) => (place, reduced.result),
            (place, 0) => (place, reduced.state),
            _ => return Err("a place for the state and one for the result".into()),
        };
        store_words(memory, place, &bytes)
    }

    /// Reduces along axes, and stores the results, or the states, where the parameters say.
    fn reduce_along(
        &self, elements: &Elements, place: Place, parameters: &[u64], memory: &mut impl Memory,
    ) -> Result<(), Fault> {
        let &[.., results, count, _, first, a, b, c] = parameters else {
            return Err("a reduction without its parameters".into());
        };
        // The fields of the structure Partition (kernels/axes.cu).
        let fields = [a, b, c].map(|word| [word as u32, (word >> 32) as u32]);
        let [[log_results, _], _, [in_vectors, stores_states]] = fields;
        let mut block = self.block_with(parameters)?;
        // A block may have more results than a warp has lanes.
        let distance = (WARP >> log_results).max(1);
        block.file[place.step as usize] = distance as u64;
        block.file[place.has_elements as usize] = u64::from(count > 0);
        for number in 0..results {
            block.file[place.result as usize] = number;
            if count == 0 {
                self.whole(&mut block, memory)?;
            }
            let count = count as usize;
            let found =
                self.elements(elements, &mut block, count, distance, in_vectors != 0, memory)?;
            let reduced = reduction::reduce(&elements.reduction, &elements.ty, &found, first)?;
            let bytes = if stores_states != 0 { reduced.state } else { reduced.result };
            store_words(memory, block.file[place.address as usize], &bytes)?;
        }
        Ok(())
    }

    /// Runs all threads of a grid with the parameters' words, and returns the number of instructions. For a reduction it runs the
    /// expression's part, and returns 0.
    pub fn run(
        &self, parameters: &[u64], blocks: u32, memory: &mut impl Memory,
    ) -> Result<u64, Fault> {
        if let Some(elements) = &self.reduction {
            if self.is_by_key() {
                return self.reduce_by_key(elements, parameters, memory).map(|()| 0);
            }
            if let Some(place) = elements.place {
                return self.reduce_along(elements, place, parameters, memory).map(|()| 0);
            }
            return self.reduce(elements, parameters, memory).map(|()| 0);
        }
        let mut block = self.block_with(parameters)?;
        let mut instructions = 0;
        let [thread, number, grid] = self.special.map(|slot| slot as usize);
        block.file[grid] = blocks.into();
        for block_number in 0..u64::from(blocks) {
            block.file[number] = block_number;
            if self.has_barriers {
                instructions += self.block(&block.file, thread, memory)?;
                continue;
            }
            for thread_number in 0..BLOCK_THREADS {
                block.file[thread] = thread_number;
                instructions += self.whole(&mut block, memory)?;
            }
        }
        Ok(instructions)
    }

    /// The state of threads that have these parameters.
    fn block_with(&self, parameters: &[u64]) -> Result<Block, Fault> {
        if parameters.len() != self.parameters.len() {
            let (found, expected) = (parameters.len(), self.parameters.len());
            return Err(format!("{found} parameters, not {expected}").into());
        }
        let mut file = self.file.clone();
        for (&slot, &value) in self.parameters.iter().zip(parameters) {
            file[slot as usize] = value;
        }
        Ok(Block { file, shared: self.shared.clone() })
    }

    /// Runs the threads of a block from barrier to barrier, and returns the number of instructions. `number` is the slot
    /// of a thread's number.
    fn block(&self, file: &[u64], number: usize, memory: &mut impl Memory) -> Result<u64, Fault> {
        let mut shared = self.shared.clone();
        let numbered = |thread| {
            let mut file = file.to_vec();
            file[number] = thread;
            (self.thread(), file)
        };
        let mut threads: Vec<_> = (0..BLOCK_THREADS).map(numbered).collect();
        loop {
            let stops = threads
                .iter_mut()
                .map(|(thread, file)| self.resume(thread, file, &mut shared, memory))
                .collect::<Result<Vec<Stop>, Fault>>()?;
            if stops.iter().any(|stop| *stop != stops[0]) {
                return Err("some threads wait at a barrier for others, which have returned".into());
            }
            if stops[0] == Stop::Return {
                return Ok(threads.iter().map(|(thread, _)| thread.count).sum());
            }
        }
    }

    /// A thread that has not run.
    fn thread(&self) -> Thread {
        let local = vec![RUBBISH_BYTE; self.local];
        Thread { next: self.start, back: Vec::new(), local, count: 0 }
    }

    /// Runs a thread of a kernel without barriers, and returns the number of instructions.
    fn whole(&self, block: &mut Block, memory: &mut impl Memory) -> Result<u64, Fault> {
        let mut thread = self.thread();
        match self.resume(&mut thread, &mut block.file, &mut block.shared, memory)? {
            Stop::Return => Ok(thread.count),
            Stop::Barrier => Err("a barrier".into()),
        }
    }

    /// Runs a thread up to the next barrier, or to the end.
    fn resume(
        &self, thread: &mut Thread, file: &mut [u64], shared: &mut [u8], memory: &mut impl Memory,
    ) -> Result<Stop, Fault> {
        let Thread { next, back, local, count } = thread;
        loop {
            let Some(&Instruction { action, slot, from }) = self.instructions.get(*next) else {
                return Err("the kernel does not return".into());
            };
            *next += 1;
            *count += 1;
            let [a, b, c] = from.map(|slot| file[slot as usize]);
            match action {
                Action::Compute(compute) => file[slot as usize] = compute(a, b, c),
                Action::Load(access) => {
                    let (address, bytes) = (access.address(a)?, access.bytes);
                    let value = match access.space {
                        Space::Parameter => a & u64::MAX >> (64 - 8 * bytes),
                        Space::Global => memory.load(address, bytes)?,
                        Space::Shared => shared.load(address, bytes)?,
                        Space::Local => local[..].load(address, bytes)?,
                    };
                    let unused = 64 - 8 * bytes as u32;
                    let wide = (value << unused).cast_signed() >> unused;
                    file[slot as usize] = if access.signed { wide.cast_unsigned() } else { value };
                }
                Action::Store(access) => {
                    let (address, bytes) = (access.address(a)?, access.bytes);
                    let value = file[slot as usize];
                    match access.space {
                        Space::Parameter => return Err("a store to a parameter".into()),
                        Space::Global => memory.store(address, bytes, value)?,
                        Space::Shared => shared.store(address, bytes, value)?,
                        Space::Local => local[..].store(address, bytes, value)?,
                    }
                }
                Action::Increment(access) => {
                    let address = access.address(a)?;
                    let before = shared.load(address, access.bytes)?;
                    shared.store(address, access.bytes, before + 1)?;
                    file[slot as usize] = before;
                }
                Action::Jump(target) if a != 0 => *next = target,
                Action::Jump(_) => {}
                Action::Call(target) => back.push(std::mem::replace(next, target)),
                Action::Return => match back.pop() {
                    Some(behind) => *next = behind,
                    None => return Ok(Stop::Return),
                },
                Action::Barrier => return Ok(Stop::Barrier),
            }
        }
    }
}

impl Access {
    /// The address that is accessed, from the one in the slot.
    fn address(&self, slot: u64) -> Result<u64, Fault> {
        let Access { space, aligned, offset, .. } = *self;
        // Addresses of shared memory have 32 bits.
        let start = if let Space::Shared = space { u64::from(slot as u32) } else { slot };
        aligned_to(aligned, start.wrapping_add(offset))
    }
}

/// The address, if it is a multiple of the bytes that are accessed there at once.
fn aligned_to(bytes: u64, address: u64) -> Result<u64, Fault> {
    match address.is_multiple_of(bytes) {
        true => Ok(address),
        false => {
            Err(Fault::Misaligned(format!("misaligned access of {bytes} bytes at {address:#x}")))
        }
    }
}

/// Stores a state or a result as compiled code does: words of 64 bits, or one shorter value.
fn store_words(memory: &mut impl Memory, place: u64, bytes: &[u8]) -> Result<(), Fault> {
    for (place, word) in (place..).step_by(8).zip(bytes.chunks(8)) {
        let mut value = [0; 8];
        value[..word.len()].copy_from_slice(word);
        let place = aligned_to(word.len() as u64, place)?;
        memory.store(place, word.len(), u64::from_le_bytes(value))?;
    }
    Ok(())
}
