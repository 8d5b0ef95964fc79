//! Callers' accumulators: exact sums that go on from call to call, and merge. One has a state, or one for each element
//! of a shape.

use super::handle::Handles;
use crate::cpu::expression::{ErasedStates, Laning, begun_states};
use crate::error::Error;
use crate::process::fork;
use arrayvec::ArrayVec;
use gpuvec_axes::{Arguments, Axes, MAX_RANK};
use gpuvec_exact::{
    Code, Dot, Float, Kind, State, Sum, WireError, decode, encode, kind_of, wire_bytes,
};
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

/// The lengths of axes.
pub(crate) type Shape = ArrayVec<i64, MAX_RANK>;

const MOST_BYTES: usize = wire_bytes::<Dot<f64>>();

/// The object behind an accumulator's handle.
pub(crate) struct Accumulator {
    code: Code,
    /// That of the states, which are in C order.
    shape: Shape,
    states: Mutex<States>,
}

/// The states of an accumulator, whose number does not change.
enum States {
    SumF32(Vec<State<Sum<f32>>>),
    DotF32(Vec<State<Dot<f32>>>),
    SumF64(Vec<State<Sum<f64>>>),
    DotF64(Vec<State<Dot<f64>>>),
}

/// Runs code that is generic over the kind of states.
macro_rules! with_states {
    ($held:expr, $states:ident => $code:expr) => {
        match $held {
            States::SumF32($states) => $code,
            States::DotF32($states) => $code,
            States::SumF64($states) => $code,
            States::DotF64($states) => $code,
        }
    };
}

static ACCUMULATORS: Handles<Accumulator> = Handles::new(3, "gpuvec_accumulator_create");

/// The accumulator of a handle.
pub(crate) fn given(
    argument: &'static str, accumulator: *mut gpuvec_accumulator,
) -> Result<Arc<Accumulator>, Error> {
    ACCUMULATORS.get(argument, accumulator)
}

/// Makes an accumulator of no elements.
pub(crate) fn create(kind: i32, shape: Shape) -> Result<*mut gpuvec_accumulator, Error> {
    let code = known(kind)?;
    give(States::new(code, elements(&shape)?)?, code, shape)
}

/// Destroys a handle.
pub(crate) fn destroy(accumulator: *mut gpuvec_accumulator) -> Result<(), Error> {
    if accumulator.is_null() {
        Ok(())
    } else {
        ACCUMULATORS.take("accumulator", accumulator).map(drop)
    }
}

/// The length of the bytes of a kind's states; 0 if there is no such kind.
pub(crate) fn bytes(kind: i32) -> usize {
    code(kind).map_or(0, bytes_of)
}

/// Makes an accumulator of the bytes of one state that [`Accumulator::serialize`] wrote, or of the sum of several such
/// states as integers.
pub(crate) fn deserialize(bytes: &[u8]) -> Result<*mut gpuvec_accumulator, Error> {
    fn read<K: Kind>(states: &mut [State<K>], bytes: &[u8]) -> Result<(), WireError> {
        states[0] = decode(bytes)?;
        Ok(())
    }
    let unreadable = |error| match error {
        WireError::TooManyStates { .. } | WireError::TooManyElements => Error::TooManyStates(error),
        _ => Error::State(error),
    };
    let code = kind_of(bytes).map_err(unreadable)?;
    let mut states = States::new(code, 1)?;
    with_states!(&mut states, states => read(states, bytes)).map_err(unreadable)?;
    give(states, code, Shape::new())
}

/// Makes an accumulator of a shape of the bytes of its states, or of sums of such bytes as integers.
pub(crate) fn deserialize_nd(
    kind: i32, shape: Shape, bytes: &[u8],
) -> Result<*mut gpuvec_accumulator, Error> {
    fn read<K: Kind>(states: &mut [State<K>], bytes: &[u8]) -> Result<(), Error> {
        let all = bytes.chunks_exact(wire_bytes::<K>()).enumerate();
        for (state, (index, bytes)) in states.iter_mut().zip(all) {
            *state = decode(bytes).map_err(|error| Error::StateAt { index, error })?;
        }
        Ok(())
    }
    let code = known(kind)?;
    let count = elements(&shape)?;
    check_size(bytes.len(), code, count)?;
    let mut states = States::new(code, count)?;
    with_states!(&mut states, states => read(states, bytes))?;
    give(states, code, shape)
}

/// The number of elements of a shape. Fails if it is not a shape.
pub(crate) fn elements(shape: &[i64]) -> Result<usize, Error> {
    let of_none =
        Arguments { shape, inputs: &[], outputs: &[], reduced_axes: 0, is_indexed: false };
    let axes = Axes::new(&of_none, &mut []).map_err(Error::Axes)?;
    Ok(axes.map_or(0, |axes| axes.kept().elements()))
}

fn give(states: States, code: Code, shape: Shape) -> Result<*mut gpuvec_accumulator, Error> {
    ACCUMULATORS.give(Accumulator { code, shape, states: Mutex::new(states) })
}

fn known(kind: i32) -> Result<Code, Error> {
    code(kind).ok_or(Error::Value {
        argument: "kind",
        value: kind.into(),
        expected: "pass a gpuvec_accumulator_kind, from 1 to 4",
    })
}

fn code(kind: i32) -> Option<Code> {
    use gpuvec_accumulator_kind::*;
    let kinds = [
        (GPUVEC_ACCUMULATOR_SUM_F32, Code::SumF32),
        (GPUVEC_ACCUMULATOR_DOT_F32, Code::DotF32),
        (GPUVEC_ACCUMULATOR_SUM_F64, Code::SumF64),
        (GPUVEC_ACCUMULATOR_DOT_F64, Code::DotF64),
    ];
    kinds.into_iter().find(|(known, _)| *known as i32 == kind).map(|(_, code)| code)
}

/// The length of the bytes of a state.
fn bytes_of(code: Code) -> usize {
    match code {
        Code::SumF32 => wire_bytes::<Sum<f32>>(),
        Code::DotF32 => wire_bytes::<Dot<f32>>(),
        Code::SumF64 => wire_bytes::<Sum<f64>>(),
        Code::DotF64 => wire_bytes::<Dot<f64>>(),
    }
}

/// Fails unless a caller's size is that of the bytes of all states.
fn check_size(size: usize, code: Code, states: usize) -> Result<(), Error> {
    let needed = states.saturating_mul(bytes_of(code));
    if size == needed { Ok(()) } else { Err(Error::StateBytes { room: size, needed }) }
}

impl Accumulator {
    /// The operation whose terms are added.
    pub(crate) fn op(&self) -> Op {
        match self.code {
            Code::SumF32 => Op::SumF32,
            Code::DotF32 => Op::DotF32,
            Code::SumF64 => Op::SumF64,
            Code::DotF64 => Op::DotF64,
        }
    }

    /// The shape of the states.
    pub(crate) fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The address of the states' memory.
    pub(crate) fn address(&self) -> *mut c_void {
        self.with(|held| with_states!(held, states => states.as_mut_ptr().cast()))
    }

    /// Adds the elements of a state of the same kind, given by its words, to the only one.
    pub(crate) fn add_words(&self, words: &[i64]) -> Result<(), Error> {
        fn add<K: Kind>(states: &mut [State<K>], words: &[i64]) -> Result<(), Error> {
            let mut added = K::ZERO;
            added.as_mut().copy_from_slice(words);
            add_all(states, [(0, &State::from_words(added))].into_iter())
        }
        self.with(|held| with_states!(held, states => add(states, words)))
    }

    /// Adds the elements of states of the same kind, which are complete, each to that of the same number.
    pub(crate) fn add_states(&self, added: &dyn ErasedStates) -> Result<(), Error> {
        fn add<K: Kind>(states: &mut [State<K>], added: &dyn ErasedStates) -> Result<(), Error>
        where
            State<K>: Laning,
        {
            add_all(states, begun_states(added))
        }
        self.with(|held| with_states!(held, states => add(states, added)))
    }

    /// Adds all elements of another accumulator, which may be the same one.
    pub(crate) fn merge(&self, other: &Accumulator) -> Result<(), Error> {
        if self.code != other.code {
            return Err(Error::OtherKind { found: name(other.code), wanted: name(self.code) });
        }
        let [found, wanted] = [&other.shape, &self.shape];
        if found.len() != wanted.len() {
            return Err(Error::OtherAxes { found: found.len(), wanted: wanted.len() });
        }
        if let Some(axis) = (0..found.len()).find(|axis| found[*axis] != wanted[*axis]) {
            return Err(Error::OtherShape { axis, found: found[axis], wanted: wanted[axis] });
        }
        fork::with_lock(|| {
            let (mut to, from);
            // Always in the order of their addresses, so that no two threads wait for each other.
            if ptr::eq(self, other) {
                return self.lock().double();
            } else if ptr::from_ref(self) < ptr::from_ref(other) {
                to = self.lock();
                from = other.lock();
            } else {
                from = other.lock();
                to = self.lock();
            }
            to.merge(&from)
        })
    }

    /// Calls `store` with the bytes of each sum, rounded once, in C order.
    pub(crate) fn values(&self, store: &mut dyn FnMut(&[u8])) {
        fn each<K: Kind>(states: &[State<K>], store: &mut dyn FnMut(&[u8])) {
            for value in states.iter().map(State::value) {
                store(&value.encoding().to_le_bytes()[..size_of_val(&value)]);
            }
        }
        self.with(|held| with_states!(held, states => each(states, store)));
    }

    /// Calls `store` with the bytes of each state in C order, if a caller's size is that of them all.
    pub(crate) fn serialize(&self, size: usize, store: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        fn each<K: Kind>(states: &[State<K>], store: &mut dyn FnMut(&[u8])) {
            let mut bytes = [0; MOST_BYTES];
            let bytes = &mut bytes[..wire_bytes::<K>()];
            for state in states {
                encode(state, bytes);
                store(bytes);
            }
        }
        self.with(|held| {
            check_size(size, self.code, held.count())?;
            with_states!(held, states => each(states, store));
            Ok(())
        })
    }

    /// Looks at the states, or changes them. A child that is forked meanwhile finds them whole.
    fn with<R>(&self, work: impl FnOnce(&mut States) -> R) -> R {
        fork::with_lock(|| work(&mut self.lock()))
    }

    /// Locks the states, with the fork lock held.
    fn lock(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl States {
    /// That number of states without elements.
    fn new(code: Code, count: usize) -> Result<Self, Error> {
        fn zeros<K: Kind>(count: usize) -> Result<Vec<State<K>>, Error> {
            let mut states = Vec::new();
            let bytes = count.saturating_mul(size_of::<State<K>>());
            let purpose = "the states of an accumulator";
            let none_left = |_| Error::OutOfHostMemory { bytes, purpose };
            states.try_reserve_exact(count).map_err(none_left)?;
            states.resize(count, State::ZERO);
            Ok(states)
        }
        Ok(match code {
            Code::SumF32 => States::SumF32(zeros(count)?),
            Code::DotF32 => States::DotF32(zeros(count)?),
            Code::SumF64 => States::SumF64(zeros(count)?),
            Code::DotF64 => States::DotF64(zeros(count)?),
        })
    }

    fn count(&self) -> usize {
        with_states!(self, states => states.len())
    }

    /// Adds the elements of as many states of the same kind.
    fn merge(&mut self, others: &States) -> Result<(), Error> {
        match (self, others) {
            (States::SumF32(states), States::SumF32(others)) => add_all(states, numbered(others)),
            (States::DotF32(states), States::DotF32(others)) => add_all(states, numbered(others)),
            (States::SumF64(states), States::SumF64(others)) => add_all(states, numbered(others)),
            (States::DotF64(states), States::DotF64(others)) => add_all(states, numbered(others)),
            _ => Err(Error::Internal { text: "states of two kinds" }),
        }
    }

    /// Adds the elements once more.
    fn double(&mut self) -> Result<(), Error> {
        fn double<K: Kind>(states: &mut [State<K>]) -> Result<(), Error> {
            if states.iter().any(|state| state.elements() >= 1 << 62) {
                return Err(Error::TooManyElements);
            }
            for state in states {
                let half = *state;
                state.merge(&half);
            }
            Ok(())
        }
        with_states!(self, states => double(states))
    }
}

/// Adds the elements of numbered states, each to the one of its number: of all, or of none if a state would have too
/// many elements.
fn add_all<'a, K: Kind>(
    states: &mut [State<K>], added: impl Iterator<Item = (usize, &'a State<K>)> + Clone,
) -> Result<(), Error> {
    for (number, state) in added.clone() {
        let elements = states[number].elements().checked_add(state.elements());
        elements.ok_or(Error::TooManyElements)?;
    }
    added.for_each(|(number, state)| states[number].merge(state));
    Ok(())
}

fn numbered<K: Kind>(states: &[State<K>]) -> impl Iterator<Item = (usize, &State<K>)> + Clone {
    states.iter().enumerate()
}

fn name(code: Code) -> &'static str {
    match code {
        Code::SumF32 => "a sum of float",
        Code::DotF32 => "a dot product of float",
        Code::SumF64 => "a sum of double",
        Code::DotF64 => "a dot product of double",
    }
}
