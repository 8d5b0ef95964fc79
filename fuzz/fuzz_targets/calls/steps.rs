//! The fuzzer's choices: steps whose arguments are right about half of the time, so that long
//! programs make progress, and otherwise wrong in every respect.

use crate::memory::{Allocator, Memory};
use libfuzzer_sys::arbitrary::{self, Arbitrary, Result, Unstructured};

#[derive(Debug)]
pub struct Program {
    pub with_large_memory: bool,
    pub steps: Vec<Step>,
}

impl<'a> Arbitrary<'a> for Program {
    /// Reads all steps of the input; the derived `Vec` would end after each step with even chances.
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        let mut program = Program { with_large_memory: input.arbitrary()?, steps: Vec::new() };
        while !input.is_empty() {
            program.steps.push(input.arbitrary()?);
        }
        Ok(program)
    }
}

#[derive(Arbitrary, Debug)]
pub enum Step {
    Call {
        operation: Operation,
        alpha: u64,
        a: Pointer,
        b: Pointer,
        out: Pointer,
        n: Length,
        on: On,
    },
    Copy {
        dst: Pointer,
        src: Pointer,
        bytes: Length,
        on: On,
    },
    /// `Memory::fill`.
    Fill {
        region: u8,
        seed: u32,
        mask: u32,
        base: u32,
    },
    Place(Placement),
    Threads(Threads),
    Alloc(Allocator, Bytes, Device),
    Free(Allocator, Freed),
    Register(Pointer, Length),
    Unregister(Registered),
    Stream(StreamCall, Handle, Handle),
    Event(EventCall, Handle, Handle),
}

/// The stream of a call, and its order after the unfinished work of another stream.
#[derive(Arbitrary, Debug)]
pub struct On {
    pub stream: Handle,
    pub by_event: bool,
}

/// The handle of a present or former stream or event.
#[derive(Arbitrary, Debug)]
pub enum Handle {
    Live(u8),
    Wrong(WrongHandle),
}

#[derive(Arbitrary, Debug)]
pub enum WrongHandle {
    Null,
    Destroyed(u8),
    /// A handle of the other kind.
    Foreign(u8),
    Any(u64),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum StreamCall {
    Create(Device),
    /// The number of one of the three default streams.
    Adopt(u8),
    Destroy,
    Synchronize,
    Query,
    /// Waits for an event.
    Wait,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum EventCall {
    Create,
    Destroy,
    /// Records the event in a stream.
    Record,
    Query,
    Synchronize,
    /// Measures the time to another event; sometimes with NULL for the result.
    Elapsed {
        without_result: bool,
    },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Device {
    First,
    Any(i32),
}

impl Device {
    pub fn ordinal(self) -> i32 {
        match self {
            Device::First => 0,
            Device::Any(ordinal) => ordinal,
        }
    }
}

/// One operation of each shape and each size of element, and expressions of each shape.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    VectorAdd,
    AddArrays,
    DotProduct,
    MulI64,
    DivF64,
    ScaleF32,
    AxpyF32,
    AxpyF64,
    DotI32,
    SumF64,
    SumI64,
    MinF32,
    /// `a*b + 1`, of f32.
    FormulaF32,
    /// `sum(i64(a)*b)`, of i32.
    SumOfFormulaI32,
}

#[derive(Arbitrary, Debug)]
pub enum Pointer {
    Inside { region: u8, element: u16 },
    Wrong(WrongPointer),
}

#[derive(Arbitrary, Debug)]
pub enum WrongPointer {
    Null,
    Misaligned {
        region: u8,
        element: u32,
        past: u8,
    },
    Anywhere(u64),
    /// An address in the last page of the address space.
    Top(u16),
}

impl Pointer {
    pub fn address(&self, memory: &Memory) -> usize {
        match *self {
            Pointer::Inside { region, element } => memory.address(region, element.into()),
            Pointer::Wrong(WrongPointer::Null) => 0,
            Pointer::Wrong(WrongPointer::Misaligned { region, element, past }) => {
                memory.address(region, element as usize) + usize::from(past % 8)
            }
            Pointer::Wrong(WrongPointer::Anywhere(address)) => address as usize,
            Pointer::Wrong(WrongPointer::Top(below)) => usize::MAX - usize::from(below % 4096),
        }
    }
}

#[derive(Arbitrary, Debug)]
pub enum Length {
    Short(u8),
    Long(u16),
    /// A length near the sizes at which the library changes its plan.
    Edge {
        size: u8,
        offset: u8,
    },
    Any(u64),
}

impl Length {
    pub fn elements(&self) -> usize {
        const SIZES: [usize; 8] =
            [32, 128, 4096, 65_536, 131_072, 1 << 61, 1 << 62, usize::MAX / 2 + 1];
        match *self {
            Length::Short(n) => n.into(),
            Length::Long(n) => n.into(),
            Length::Edge { size, offset } => {
                SIZES[usize::from(size % 8)].wrapping_add(usize::from(offset % 5)).wrapping_sub(2)
            }
            Length::Any(n) => n as usize,
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Placement {
    Known(u8),
    Any(i8),
}

impl Placement {
    pub fn number(self) -> i32 {
        match self {
            Placement::Known(number) => (number % 4).into(),
            Placement::Any(number) => number.into(),
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Threads {
    Few(u8),
    Any(i32),
}

impl Threads {
    pub fn number(self) -> i32 {
        match self {
            Threads::Few(number) => (number % 5).into(),
            Threads::Any(number) => number,
        }
    }
}

/// The largest size that can always be allocated; larger ones are chosen so that they never can.
pub const MOST_BYTES: usize = u16::MAX as usize;

#[derive(Arbitrary, Debug)]
pub enum Bytes {
    Few(u16),
    TooMany(u64),
}

impl Bytes {
    pub fn bytes(&self) -> usize {
        match *self {
            Bytes::Few(bytes) => bytes.into(),
            Bytes::TooMany(bytes) => (bytes | 1 << 60) as usize,
        }
    }
}

#[derive(Arbitrary, Debug)]
pub enum Freed {
    /// Existing memory of any kind, from its first byte on.
    Region(u8),
    Earlier(u8),
    Other(Pointer),
}

impl Freed {
    pub fn address(&self, memory: &Memory) -> usize {
        match self {
            Freed::Region(region) => memory.address(*region, 0),
            Freed::Earlier(which) => memory.freed(*which),
            Freed::Other(pointer) => pointer.address(memory),
        }
    }
}

#[derive(Arbitrary, Debug)]
pub enum Registered {
    Earlier(u8),
    Other(Pointer),
}

impl Registered {
    pub fn address(&self, memory: &Memory) -> usize {
        match self {
            Registered::Earlier(which) => memory.registered(*which),
            Registered::Other(pointer) => pointer.address(memory),
        }
    }
}
