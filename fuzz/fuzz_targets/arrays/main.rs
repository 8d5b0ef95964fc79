//! Calls on arrays of any shape and strides: expressions, also of tensors of DLPack, and accumulators along axes.
//! Compares statuses, values and unchanged memory with a model that computes every element by itself.
//!
//! A call is made if the model expects an error, or if every element is in the arena, since that is the caller's
//! promise.

#![no_main]

mod evaluate;
mod formulas;
mod sums;
mod views;

use gpuvec::abi::classic::pinned_alloc;
use gpuvec::abi::errors::gpuvec_last_error;
use gpuvec::abi::library::{gpuvec_get_placement, gpuvec_set_placement, gpuvec_why_cpu};
use gpuvec::gpuvec_status::{self, *};
use libfuzzer_sys::arbitrary::{self, Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::ffi::CStr;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::OnceLock;
use views::{ARENA, View};

#[derive(Debug)]
struct Program {
    is_pinned: bool,
    steps: Vec<Step>,
}

impl<'a> Arbitrary<'a> for Program {
    /// Reads all steps of the input; the derived `Vec` would end after each step with even chances.
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        let mut program = Program { is_pinned: input.arbitrary()?, steps: Vec::new() };
        while !input.is_empty() {
            program.steps.push(input.arbitrary()?);
        }
        Ok(program)
    }
}

#[derive(Arbitrary, Debug)]
enum Step {
    Evaluate(Box<evaluate::Evaluation>),
    Sum(sums::SumCall),
    /// `Arena::fill`.
    Fill {
        seed: u32,
        mask: u64,
        base: u64,
    },
    Place(u8),
}

/// An argument that is wrong, whatever the arrays are.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
pub enum Wrong {
    Nothing,
    NoneEither,
    NorThis,
    NorThat,
    Handle,
    Ndim,
    /// No shape; or no tensor.
    Shape,
    Outputs,
    /// Bits of axes that may not be there, which the model looks for itself.
    Axes,
    /// The type of a tensor, and its device.
    Type,
    Device,
}

impl Wrong {
    /// Returns the errors that the library may report for it.
    fn error(self, is_tensor: bool, axes: usize) -> Vec<gpuvec_status> {
        match self {
            Wrong::Handle => vec![GPUVEC_ERROR_HANDLE],
            Wrong::Ndim => vec![GPUVEC_ERROR_VALUE],
            Wrong::Outputs => vec![GPUVEC_ERROR_NULL],
            Wrong::Shape if is_tensor || axes > 0 => vec![GPUVEC_ERROR_NULL],
            Wrong::Type | Wrong::Device if is_tensor => vec![GPUVEC_ERROR_VALUE],
            _ => Vec::new(),
        }
    }
}

fuzz_target!(|program: Program| {
    has_gpu();
    assert_eq!(gpuvec_set_placement(0), 0);
    let mut arena = Arena::new(program.is_pinned);
    let mut sums = None;
    for step in &program.steps {
        match step {
            Step::Evaluate(evaluation) => evaluate::perform(&mut arena, evaluation),
            Step::Sum(call) => sums::perform(&arena, &mut sums, call),
            Step::Fill { seed, mask, base } => arena.fill(*seed, *mask, *base),
            Step::Place(number) => assert_eq!(gpuvec_set_placement(i32::from(number % 4)), 0),
        }
        arena.check(step);
    }
});

/// The memory in which all arrays are, and its expected content.
pub struct Arena {
    address: usize,
    /// The memory itself, unless the library owns it.
    _heap: Vec<u64>,
    expected: Vec<u8>,
}

impl Arena {
    fn new(is_pinned: bool) -> Self {
        static PINNED: OnceLock<usize> = OnceLock::new();
        let mut heap = vec![0_u64; if is_pinned { 0 } else { ARENA / 8 }];
        let pinned = || *PINNED.get_or_init(|| pinned_alloc(ARENA).expose_provenance());
        let address = if is_pinned { pinned() } else { heap.as_mut_ptr().expose_provenance() };
        let mut arena = Arena { address, _heap: heap, expected: vec![0; ARENA] };
        arena.fill(1, u64::MAX, 0);
        arena
    }

    pub fn address(&self) -> usize {
        self.address
    }

    /// Returns whether all elements of an array are here.
    pub fn holds(&self, view: &View, shape: &[i64], reduced: u64) -> bool {
        let is_here = |first: usize| {
            let offset = first.wrapping_sub(self.address);
            offset < ARENA && view.size <= ARENA - offset
        };
        view.elements(shape, reduced).into_iter().all(is_here)
    }

    /// The bits of the element at an address.
    pub fn bits(&self, address: usize, size: usize) -> u64 {
        bits_of(&self.expected[address - self.address..][..size])
    }

    /// Sets the expected bits of an element.
    pub fn expect(&mut self, address: usize, bits: u64, size: usize) {
        let first = address - self.address;
        self.expected[first..first + size].copy_from_slice(&bits.to_le_bytes()[..size]);
    }

    /// Fills the memory with words: `base` with random bits where `mask` is set.
    fn fill(&mut self, seed: u32, mask: u64, base: u64) {
        let mut state = u64::from(seed) << 1 | 1;
        for word in self.expected.as_chunks_mut::<8>().0 {
            // Knuth's linear congruential generator (MMIX).
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *word = (base ^ state.rotate_left(32) & mask).to_le_bytes();
        }
        let to: *mut u8 = with_exposed_provenance_mut(self.address);
        // SAFETY: the arena has that many bytes, which nothing else uses.
        unsafe { to.copy_from(self.expected.as_ptr(), ARENA) };
    }

    fn check(&self, step: &Step) {
        // SAFETY: the arena has that many bytes, and no call is in flight.
        let actual: &[u8] =
            unsafe { std::slice::from_raw_parts(with_exposed_provenance(self.address), ARENA) };
        if actual != self.expected {
            let byte = actual.iter().zip(&self.expected).position(|(x, y)| x != y).unwrap_or(0);
            let (found, right) = (actual[byte], self.expected[byte]);
            panic!("byte {byte} of {:#x} is {found:#x}, not {right:#x}: {step:?}", self.address);
        }
    }
}

/// The bits of an element.
pub fn bits_of(element: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..element.len()].copy_from_slice(element);
    u64::from_le_bytes(bytes)
}

/// Returns whether the placement demands a GPU that is not there.
pub fn gpu_is_missing() -> bool {
    gpuvec_get_placement() == gpuvec::Placement::Gpu as i32 && !has_gpu()
}

/// Returns whether there is a GPU; determined once, with placement auto.
fn has_gpu() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        assert_eq!(gpuvec_set_placement(0), 0);
        // SAFETY: a C string of this thread's.
        unsafe { CStr::from_ptr(gpuvec_why_cpu()) }.is_empty()
    })
}

fn last_error() -> String {
    // SAFETY: a C string of this thread's, copied before its next call.
    unsafe { CStr::from_ptr(gpuvec_last_error()) }.to_str().expect("UTF-8").to_owned()
}
