//! Callers' accumulators: exact sums that several calls add to, and that merge. An accumulator has one state, or one
//! for each element of a shape.

use super::handle::Handles;
use crate::cpu::expression::{BlockReduction, ErasedStates, Exact, begun_states};
use crate::error::Error;
use crate::process::{fork, memory};
use arrayvec::ArrayVec;
use gpuvec_axes::{Arguments, Axes, MAX_RANK};
use gpuvec_exact::{Code, Dot, Kind, State, Sum, WireError, kind_of, merge_words};
use gpuvec_ops::Op;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An accumulator: the exact sum of all elements that were added to it, or such a sum for each element of a shape.
#[expect(non_camel_case_types, reason = "the name that C callers see")]
pub struct gpuvec_accumulator {
    _private: [u8; 0],
}

/// The kind of an accumulator: its operation and the type of its elements.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(non_camel_case_types, reason = "the names that C callers see")]
pub enum gpuvec_accumulator_kind {
    /// `float` elements.
    GPUVEC_ACCUMULATOR_SUM_F32 = 1,
    /// The products of pairs of `float` elements.
    GPUVEC_ACCUMULATOR_DOT_F32 = 2,
    /// `double` elements.
    GPUVEC_ACCUMULATOR_SUM_F64 = 3,
    /// The products of pairs of `double` elements.
    GPUVEC_ACCUMULATOR_DOT_F64 = 4,
}

use gpuvec_accumulator_kind::*;

type Row = (gpuvec_accumulator_kind, Code, Op, &'static str);

/// For each kind, the code of its states, its operation, and its name in errors.
const KINDS: [Row; 4] = [
    (GPUVEC_ACCUMULATOR_SUM_F32, Code::SumF32, Op::SumF32, "a sum of float"),
    (GPUVEC_ACCUMULATOR_DOT_F32, Code::DotF32, Op::DotF32, "a dot product of float"),
    (GPUVEC_ACCUMULATOR_SUM_F64, Code::SumF64, Op::SumF64, "a sum of double"),
    (GPUVEC_ACCUMULATOR_DOT_F64, Code::DotF64, Op::DotF64, "a dot product of double"),
];

/// Is called with the number and the words of a state.
type Visit<'a> = dyn FnMut(usize, &[i64]) + 'a;

/// The lengths of axes.
pub(crate) type Shape = ArrayVec<i64, MAX_RANK>;

/// The most words of a state, and the most bytes of its wire form.
const MOST_WORDS: usize = Code::DotF64.words();
const MOST_BYTES: usize = Code::DotF64.wire_bytes();

/// The object behind an accumulator's handle.
pub(crate) struct Accumulator {
    code: Code,
    /// The shape of the array of states.
    shape: Shape,
    /// The words of all states in C order, normalised. Their number does not change.
    words: Mutex<Vec<i64>>,
}

static ACCUMULATORS: Handles<Accumulator> = Handles::new(3, "gpuvec_accumulator_create");

/// The accumulator of a handle.
pub(crate) fn given(
    argument: &'static str, accumulator: *mut gpuvec_accumulator,
) -> Result<Arc<Accumulator>, Error> {
    ACCUMULATORS.get(argument, accumulator)
}

/// Makes an accumulator without elements.
pub(crate) fn create(kind: i32, shape: Shape) -> Result<*mut gpuvec_accumulator, Error> {
    let code = known(kind)?;
    give(zeros(code, elements(&shape)?)?, code, shape)
}

/// Destroys a handle.
pub(crate) fn destroy(accumulator: *mut gpuvec_accumulator) -> Result<(), Error> {
    ACCUMULATORS.destroy("accumulator", accumulator)
}

/// The bytes of a state of a kind in its wire form; 0 if there is no such kind.
pub(crate) fn bytes(kind: i32) -> usize {
    code(kind).map_or(0, Code::wire_bytes)
}

/// Makes an accumulator from the bytes of one state that [`Accumulator::serialize`] wrote, or from several such states
/// that were added as integers.
pub(crate) fn deserialize(bytes: &[u8]) -> Result<*mut gpuvec_accumulator, Error> {
    let unreadable = |error| match error {
        WireError::TooManyStates { .. } | WireError::TooManyElements => Error::TooManyStates(error),
        _ => Error::State(error),
    };
    let code = kind_of(bytes).map_err(unreadable)?;
    let mut words = zeros(code, 1)?;
    code.decode(bytes, &mut words).map_err(unreadable)?;
    give(words, code, Shape::new())
}

/// Does the same for an accumulator with a shape.
pub(crate) fn deserialize_nd(
    kind: i32, shape: Shape, bytes: &[u8],
) -> Result<*mut gpuvec_accumulator, Error> {
    let code = known(kind)?;
    let count = elements(&shape)?;
    check_size(bytes.len(), code, count)?;
    let mut words = zeros(code, count)?;
    let all = words.chunks_exact_mut(code.words()).zip(bytes.chunks_exact(code.wire_bytes()));
    for (index, (words, bytes)) in all.enumerate() {
        code.decode(bytes, words).map_err(|error| Error::StateAt { index, error })?;
    }
    give(words, code, shape)
}

/// The words of `states` states without elements.
fn zeros(code: Code, states: usize) -> Result<Vec<i64>, Error> {
    let count = states.saturating_mul(code.words());
    let (bytes, purpose) = (count.saturating_mul(size_of::<i64>()), "the states of an accumulator");
    memory::filled(0, count).map_err(|_| Error::OutOfHostMemory { bytes, purpose })
}

/// The number of elements of a shape. Fails if the shape is invalid.
fn elements(shape: &[i64]) -> Result<usize, Error> {
    let of_none = Arguments {
        shape,
        inputs: &[],
        outputs: &[],
        whole_outputs: 0,
        reduced_axes: 0,
        is_indexed: false,
    };
    let axes = Axes::new(&of_none, &mut []).map_err(Error::Axes)?;
    Ok(axes.map_or(0, |axes| axes.kept().elements()))
}

fn give(words: Vec<i64>, code: Code, shape: Shape) -> Result<*mut gpuvec_accumulator, Error> {
    ACCUMULATORS.give(Accumulator { code, shape, words: Mutex::new(words) })
}

fn kind(code: Code) -> &'static Row {
    KINDS.iter().find(|(_, known, ..)| *known == code).expect("every code has a kind")
}

fn known(kind: i32) -> Result<Code, Error> {
    code(kind).ok_or(Error::Value {
        argument: "kind",
        value: kind.into(),
        expected: "pass a gpuvec_accumulator_kind, from 1 to 4",
    })
}

fn code(kind: i32) -> Option<Code> {
    KINDS.iter().find(|(known, ..)| *known as i32 == kind).map(|(_, code, ..)| *code)
}

/// Fails unless a caller's size equals the bytes of all states.
fn check_size(size: usize, code: Code, states: usize) -> Result<(), Error> {
    let needed = states.saturating_mul(code.wire_bytes());
    if size == needed { Ok(()) } else { Err(Error::StateBytes { room: size, needed }) }
}

impl Accumulator {
    /// The operation that gives the terms.
    pub(crate) fn op(&self) -> Op {
        kind(self.code).2
    }

    /// The code of the states.
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// The shape of the states.
    pub(crate) fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The address of the states' memory.
    pub(crate) fn address(&self) -> *mut c_void {
        self.with(|words| words.as_mut_ptr().cast())
    }

    /// Adds complete states of the same kind to the accumulator's states. After an error none has changed.
    pub(crate) fn add_states(&self, added: &dyn ErasedStates) -> Result<(), Error> {
        self.add_words(&|visit| for_each(self.code, added, visit))
    }

    /// Adds states to the accumulator's states. `for_each` calls a function with the number and the words of each. After
    /// an error no state has changed.
    pub(crate) fn add_words(&self, for_each: &dyn Fn(&mut Visit<'_>)) -> Result<(), Error> {
        let len = self.code.words();
        self.with(|words| {
            let mut checked = Ok(());
            for_each(&mut |number, state| {
                checked = checked.and(check_elements(&words[number * len..], state));
            });
            checked?;
            for_each(&mut |number, state| merge_words(&mut words[number * len..][..len], state));
            Ok(())
        })
    }

    /// Adds all elements of another accumulator, which may be the same one.
    pub(crate) fn merge(&self, other: &Accumulator) -> Result<(), Error> {
        if self.code != other.code {
            let [found, wanted] = [other.code, self.code].map(|code| kind(code).3);
            return Err(Error::OtherKind { found, wanted });
        }
        let [found, wanted] = [&other.shape, &self.shape];
        if found.len() != wanted.len() {
            return Err(Error::OtherAxes { found: found.len(), wanted: wanted.len() });
        }
        if let Some(axis) = (0..found.len()).find(|axis| found[*axis] != wanted[*axis]) {
            return Err(Error::OtherShape { axis, found: found[axis], wanted: wanted[axis] });
        }
        fork::with_lock(|| {
            if ptr::eq(self, other) {
                return self.add_each(&mut self.lock(), None);
            }
            // Locks in the order of addresses, so that no two threads wait for each other.
            let [first, second] = match ptr::from_ref(self) < ptr::from_ref(other) {
                true => [self, other],
                false => [other, self],
            };
            let (mut one, mut two) = (first.lock(), second.lock());
            match ptr::eq(first, self) {
                true => self.add_each(&mut one, Some(&two)),
                false => self.add_each(&mut two, Some(&one)),
            }
        })
    }

    /// Adds the elements of other states to states, or their own once more. After an error no state has changed.
    fn add_each(&self, words: &mut [i64], others: Option<&[i64]>) -> Result<(), Error> {
        let len = self.code.words();
        for (number, state) in words.chunks_exact(len).enumerate() {
            check_elements(state, others.map_or(state, |others| &others[number * len..]))?;
        }
        let mut own = [0; MOST_WORDS];
        for (number, state) in words.chunks_exact_mut(len).enumerate() {
            own[..len].copy_from_slice(state);
            merge_words(state, others.map_or(&own[..len], |others| &others[number * len..][..len]));
        }
        Ok(())
    }

    /// Calls `store` with the bytes of each sum in C order, rounded once.
    pub(crate) fn values(&self, store: &mut dyn FnMut(&[u8])) {
        self.with(|words| {
            for state in words.chunks_exact(self.code.words()) {
                let (encoding, bytes) = self.code.value(state);
                store(&encoding.to_le_bytes()[..bytes]);
            }
        });
    }

    /// Calls `store` with the wire form of each state in C order. Fails unless `size` equals the bytes of all states.
    pub(crate) fn serialize(&self, size: usize, store: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        let len = self.code.words();
        self.with(|words| {
            check_size(size, self.code, words.len() / len)?;
            let mut bytes = [0; MOST_BYTES];
            let bytes = &mut bytes[..self.code.wire_bytes()];
            for state in words.chunks_exact(len) {
                self.code.encode(state, bytes);
                store(bytes);
            }
            Ok(())
        })
    }

    /// Reads or changes the states. A child that is forked meanwhile never finds them half changed.
    fn with<R>(&self, work: impl FnOnce(&mut [i64]) -> R) -> R {
        fork::with_lock(|| work(&mut self.lock()))
    }

    /// Locks the states, with the fork lock held.
    fn lock(&self) -> MutexGuard<'_, Vec<i64>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fails if two states, given by their words, together have too many elements.
fn check_elements(words: &[i64], others: &[i64]) -> Result<(), Error> {
    words[0].checked_add(others[0]).map(|_| ()).ok_or(Error::TooManyElements)
}

/// Calls `visit` with the number and the words of each state that has elements.
fn for_each(code: Code, states: &dyn ErasedStates, visit: &mut dyn FnMut(usize, &[i64])) {
    fn of<R, K: Kind>(states: &dyn ErasedStates, visit: &mut dyn FnMut(usize, &[i64]))
    where
        R: BlockReduction<Accumulator: gpuvec_ops::Accumulator<State = State<K>>>,
    {
        begun_states::<R>(states).for_each(|(number, state)| visit(number, state.words().as_ref()));
    }
    match code {
        Code::SumF32 => of::<Exact<Sum<f32>>, _>(states, visit),
        Code::DotF32 => of::<Exact<Dot<f32>>, _>(states, visit),
        Code::SumF64 => of::<Exact<Sum<f64>>, _>(states, visit),
        Code::DotF64 => of::<Exact<Dot<f64>>, _>(states, visit),
    }
}
