//! Runs the PTX of expressions on the CPU, one thread after the other.
//!
//! It knows the instructions that crates/ptx writes, and refuses all others. Where PTX leaves a result open,
//! its results are odd ones, so that a program that depends on them shows: a NaN has a sign and a payload,
//! registers begin with rubbish.
//!
//! Of a reduction it runs the part that computes the elements. The library's own accumulators stand in for
//! the compiled part.

#![forbid(unsafe_code)]

mod instructions;
mod memory;
mod parse;
mod reduction;

pub use memory::{HostMemory, Memory};

use instructions::Compute;
use parse::RUBBISH;

/// Threads of a block.
const BLOCK_THREADS: u64 = 256;

/// A place in a thread's file: a register, a constant, a parameter.
type Slot = u32;

/// The effect of an instruction.
#[derive(Clone, Copy)]
enum Action {
    /// Computes the value of one slot from three.
    Compute(Compute),
    /// Loads from the address in the second slot, plus the offset. Of a narrow integer the sign fills
    /// the register, or zeros do.
    Load {
        bytes: usize,
        aligned: u64,
        signed: bool,
        offset: u64,
    },
    /// As `Load` and `Store`, of shared memory: of the tables, which are loaded by words, or of what blocks have.
    LoadShared {
        bytes: usize,
        aligned: u64,
        signed: bool,
        offset: u64,
    },
    StoreShared {
        bytes: usize,
        offset: u64,
    },
    /// Adds 1 to the word of shared memory at the address in the second slot, plus the offset; what that was before goes to
    /// the first slot.
    AddShared {
        offset: u64,
    },
    /// Waits for all threads of the block.
    Barrier,
    /// Stores the first slot at the address in the second one, plus the offset.
    Store {
        bytes: usize,
        aligned: u64,
        offset: u64,
    },
    /// Loads the word of local memory at the address in the second slot, plus the offset, or stores the
    /// first slot.
    LoadLocal(u64),
    StoreLocal(u64),
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
pub struct Kernel {
    name: String,
    /// The registers of the functions, then the kernel's own registers.
    instructions: Vec<Instruction>,
    /// The kernel's first instruction.
    start: usize,
    /// Bytes of a thread's local memory, which has words of 8.
    local: usize,
    /// The words of the tables in shared memory, of 4 bytes, which begin at address 0.
    tables: Vec<u32>,
    /// Bytes of a block's own shared memory, which begins at [`OWN`].
    shared: usize,
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

/// Threads of a warp.
const WARP: usize = 32;

/// Bytes of a word of local memory.
const WORD: usize = 8;

/// The address of shared memory behind the tables.
const OWN: u64 = 1 << 20;

/// A thread's progress.
struct Thread {
    /// The next instruction.
    next: usize,
    /// The instructions at which calls go on.
    back: Vec<usize>,
    local: Vec<u64>,
    /// Instructions that were run.
    count: u64,
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

    /// The kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
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
        self.reduction.as_ref().is_some_and(|elements| elements.place.is_some())
    }

    /// Computes the operands of a reduction of `count` elements, which are `step` from one another; along axes they may be
    /// `in_vectors`. For an exact sum these are two factors for each element; only dot products need the second. For
    /// other reductions these are the states of all threads, whose values have 64 bits.
    fn elements(
        &self, elements: &Elements, file: &mut [u64], count: usize, step: usize, in_vectors: bool,
        memory: &mut impl Memory,
    ) -> Result<Vec<[u64; 2]>, String> {
        file[elements.count as usize] = count as u64;
        let lanes = elements.lanes;
        let mut values = vec![[0; 2]; count];
        let mut states = Vec::new();
        for batch in (0..count).step_by(lanes * step) {
            for first in batch..batch + step {
                file[elements.index as usize] = first as u64;
                if let Some(place) = elements.place {
                    let lane = if in_vectors { (first - batch) as i32 } else { i32::MIN };
                    file[place.lane as usize] = lane.cast_unsigned().into();
                }
                self.whole(file, memory)?;
                if let [value, place] = elements.results[..] {
                    states.push([value, place].map(|slot| file[slot as usize]));
                    continue;
                }
                for (i, &slot) in elements.results.iter().enumerate() {
                    if let Some(element) = values.get_mut(first + i % lanes * step) {
                        element[i / lanes] = file[slot as usize];
                    }
                }
            }
        }
        Ok(if elements.results.len() == 2 { states } else { values })
    }

    /// Reduces, and stores the state or the result where the parameters say.
    fn reduce(
        &self, elements: &Elements, parameters: &[u64], memory: &mut impl Memory,
    ) -> Result<(), String> {
        let &[.., out, _, _, _, result, first] = parameters else {
            return Err("a reduction without its parameters".into());
        };
        let (mut file, count) = (self.file_with(parameters)?, parameters[parameters.len() - 5]);
        let found = self.elements(elements, &mut file, count as usize, WARP, false, memory)?;
        let reduced = reduction::reduce(&elements.reduction, &elements.ty, &found, first)?;
        let (place, bytes) = match (out, result) {
            (0, place) => (place, reduced.result),
            (place, 0) => (place, reduced.state),
            _ => return Err("a place for the state and one for the result".into()),
        };
        (place..).zip(bytes).try_for_each(|(place, byte)| memory.store(place, 1, byte.into()))
    }

    /// Reduces along axes, and stores the results, or the states, where the parameters say.
    fn reduce_along(
        &self, elements: &Elements, place: Place, parameters: &[u64], memory: &mut impl Memory,
    ) -> Result<(), String> {
        let &[.., results, count, _, first, a, b, c] = parameters else {
            return Err("a reduction without its parameters".into());
        };
        // The fields of the structure Partition (kernels/axes.cu).
        let fields = [a, b, c].map(|word| [word as u32, (word >> 32) as u32]);
        let [[log_results, _], _, [in_vectors, stores_states]] = fields;
        let mut file = self.file_with(parameters)?;
        // A block may have more results than a warp has lanes.
        let distance = (WARP >> log_results).max(1);
        file[place.step as usize] = distance as u64;
        file[place.has_elements as usize] = u64::from(count > 0);
        for number in 0..results {
            file[place.result as usize] = number;
            if count == 0 {
                self.whole(&mut file, memory)?;
            }
            let count = count as usize;
            let found =
                self.elements(elements, &mut file, count, distance, in_vectors != 0, memory)?;
            let reduced = reduction::reduce(&elements.reduction, &elements.ty, &found, first)?;
            (file[place.address as usize]..)
                .zip(if stores_states != 0 { reduced.state } else { reduced.result })
                .try_for_each(|(place, byte)| memory.store(place, 1, byte.into()))?;
        }
        Ok(())
    }

    /// Runs all threads of a grid with the parameters' words, and returns the number of instructions. For a reduction it runs the
    /// expression's part, and returns 0. A fault says which access failed.
    pub fn run(
        &self, parameters: &[u64], blocks: u32, memory: &mut impl Memory,
    ) -> Result<u64, String> {
        if let Some(elements) = &self.reduction {
            if let Some(place) = elements.place {
                return self.reduce_along(elements, place, parameters, memory).map(|()| 0);
            }
            return self.reduce(elements, parameters, memory).map(|()| 0);
        }
        let mut file = self.file_with(parameters)?;
        let mut instructions = 0;
        let [thread, block, grid] = self.special.map(|slot| slot as usize);
        file[grid] = blocks.into();
        for number in 0..u64::from(blocks) {
            file[block] = number;
            if self.has_barriers {
                instructions += self.block(&file, thread, memory)?;
                continue;
            }
            for number in 0..BLOCK_THREADS {
                file[thread] = number;
                instructions += self.whole(&mut file, memory)?;
            }
        }
        Ok(instructions)
    }

    /// The file of threads that have these parameters.
    fn file_with(&self, parameters: &[u64]) -> Result<Vec<u64>, String> {
        if parameters.len() != self.parameters.len() {
            let (found, expected) = (parameters.len(), self.parameters.len());
            return Err(format!("{found} parameters, not {expected}"));
        }
        let mut file = self.file.clone();
        for (&slot, &value) in self.parameters.iter().zip(parameters) {
            file[slot as usize] = value;
        }
        Ok(file)
    }

    /// Runs the threads of a block from barrier to barrier, and returns the number of instructions. `number` is the slot
    /// of a thread's number.
    fn block(&self, file: &[u64], number: usize, memory: &mut impl Memory) -> Result<u64, String> {
        let mut shared = vec![RUBBISH as u8; self.shared];
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
                .collect::<Result<Vec<Stop>, String>>()?;
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
        let local = vec![RUBBISH; self.local / WORD];
        Thread { next: self.start, back: Vec::new(), local, count: 0 }
    }

    /// Runs a thread of a kernel without barriers, and returns the number of instructions.
    fn whole(&self, file: &mut [u64], memory: &mut impl Memory) -> Result<u64, String> {
        let mut thread = self.thread();
        match self.resume(&mut thread, file, &mut [], memory)? {
            Stop::Return => Ok(thread.count),
            Stop::Barrier => Err("a barrier".into()),
        }
    }

    /// Runs a thread up to the next barrier, or to the end.
    fn resume(
        &self, thread: &mut Thread, file: &mut [u64], shared: &mut [u8], memory: &mut impl Memory,
    ) -> Result<Stop, String> {
        let Thread { next, back, local, count } = thread;
        let word = |address: u64, offset: u64| {
            Ok::<_, String>(checked(address.wrapping_add(offset), WORD as u64)? as usize / WORD)
        };
        loop {
            let Some(&Instruction { action, slot, from }) = self.instructions.get(*next) else {
                return Err("the kernel does not return".into());
            };
            *next += 1;
            *count += 1;
            let [a, b, c] = from.map(|slot| file[slot as usize]);
            match action {
                Action::Compute(compute) => file[slot as usize] = compute(a, b, c),
                Action::Load { bytes, aligned, signed, offset } => {
                    let address = checked(a.wrapping_add(offset), aligned)?;
                    let value = memory.load(address, bytes)?;
                    file[slot as usize] = extended(value, bytes, signed);
                }
                Action::LoadShared { bytes, aligned, signed, offset } => {
                    // Addresses of shared memory have 32 bits.
                    let address = checked(u64::from(a as u32) + offset, aligned)?;
                    let value = match address.checked_sub(OWN) {
                        None => self.tables.get(address as usize / 4).map(|word| u64::from(*word)),
                        Some(place) => {
                            shared.get(place as usize..place as usize + bytes).map(little)
                        }
                    };
                    let value = value.ok_or("no such place in shared memory")?;
                    file[slot as usize] = extended(value, bytes, signed);
                }
                Action::AddShared { offset } => {
                    let place = own(shared, u64::from(a as u32) + offset, 4)?;
                    let before = little(place);
                    place.copy_from_slice(&(before as u32).wrapping_add(1).to_le_bytes());
                    file[slot as usize] = before;
                }
                Action::StoreShared { bytes, offset } => {
                    let place = own(shared, u64::from(a as u32) + offset, bytes)?;
                    place.copy_from_slice(&file[slot as usize].to_le_bytes()[..bytes]);
                }
                Action::Store { bytes, aligned, offset } => {
                    let address = checked(a.wrapping_add(offset), aligned)?;
                    memory.store(address, bytes, file[slot as usize])?;
                }
                Action::LoadLocal(offset) => {
                    let word = local.get(word(a, offset)?).ok_or("no such local memory")?;
                    file[slot as usize] = *word;
                }
                Action::StoreLocal(offset) => {
                    let word = local.get_mut(word(a, offset)?).ok_or("no such local memory")?;
                    *word = file[slot as usize];
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

/// A value of some bytes, as a register has it.
fn extended(value: u64, bytes: usize, signed: bool) -> u64 {
    let unused = 64 - 8 * bytes as u32;
    let wide = (value << unused).cast_signed() >> unused;
    if signed { wide.cast_unsigned() } else { value }
}

/// The value of at most eight bytes.
fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The bytes of a block's own shared memory at an address, which is as aligned as their number.
fn own(shared: &mut [u8], address: u64, bytes: usize) -> Result<&mut [u8], String> {
    let place = checked(address, bytes as u64)?.checked_sub(OWN);
    let bytes = place.and_then(|place| shared.get_mut(place as usize..place as usize + bytes));
    bytes.ok_or_else(|| "no such place in shared memory".into())
}

/// The address, if it is as aligned as an access needs.
fn checked(address: u64, aligned: u64) -> Result<u64, String> {
    if address.is_multiple_of(aligned) {
        return Ok(address);
    }
    Err(format!("an access of {aligned} bytes at once at {address:#x}, which is not aligned"))
}
