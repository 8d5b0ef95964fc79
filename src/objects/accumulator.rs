//! Callers' accumulators: exact sums that go on from call to call, and merge.

use super::handle::Handles;
use crate::error::Error;
use crate::process::fork;
use arrayvec::ArrayVec;
use gpuvec_exact::{
    Code, Dot, Float, Kind, State, Sum, WireError, decode, encode, kind_of, wire_bytes,
};
use std::sync::{Arc, Mutex, PoisonError};

/// An accumulator: the exact sum of all elements that were added to it.
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

/// The bytes of a state.
pub(crate) type StateBytes = ArrayVec<u8, MOST_BYTES>;

const MOST_BYTES: usize = wire_bytes::<Dot<f64>>();

/// The object behind an accumulator's handle.
pub(crate) struct Accumulator(Mutex<Held>);

/// The state of an accumulator.
#[derive(Clone, Copy)]
#[expect(clippy::large_enum_variant, reason = "one allocation, of a kilobyte at most")]
enum Held {
    SumF32(State<Sum<f32>>),
    DotF32(State<Dot<f32>>),
    SumF64(State<Sum<f64>>),
    DotF64(State<Dot<f64>>),
}

/// Runs code that is generic over the kind of a state.
macro_rules! with_state {
    ($held:expr, $state:ident => $code:expr) => {
        match $held {
            Held::SumF32($state) => $code,
            Held::DotF32($state) => $code,
            Held::SumF64($state) => $code,
            Held::DotF64($state) => $code,
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
pub(crate) fn create(kind: i32) -> Result<*mut gpuvec_accumulator, Error> {
    let code = code(kind).ok_or(Error::Value {
        argument: "kind",
        value: kind.into(),
        expected: "pass a gpuvec_accumulator_kind, from 1 to 4",
    })?;
    give(Held::empty(code))
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
    code(kind).map_or(0, |code| Held::empty(code).bytes())
}

/// Makes an accumulator of the bytes that [`Accumulator::serialize`] wrote, or of the sum of several such
/// states as integers.
pub(crate) fn deserialize(bytes: &[u8]) -> Result<*mut gpuvec_accumulator, Error> {
    fn read<K: Kind>(state: &mut State<K>, bytes: &[u8]) -> Result<(), WireError> {
        *state = decode(bytes)?;
        Ok(())
    }
    let mut held = Held::empty(kind_of(bytes).map_err(unreadable)?);
    with_state!(&mut held, state => read(state, bytes)).map_err(unreadable)?;
    give(held)
}

fn unreadable(error: WireError) -> Error {
    match error {
        WireError::TooManyStates { .. } | WireError::TooManyElements => Error::TooManyStates(error),
        _ => Error::State(error),
    }
}

fn give(held: Held) -> Result<*mut gpuvec_accumulator, Error> {
    ACCUMULATORS.give(Accumulator(Mutex::new(held)))
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

impl Accumulator {
    /// The kind of the accumulator's state.
    pub(crate) fn code(&self) -> Code {
        self.with(|held| held.code())
    }

    /// Adds the elements of a state, which is of the same kind: its words.
    pub(crate) fn add(&self, words: &[i64]) -> Result<(), Error> {
        self.with(|held| held.add(words))
    }

    /// Adds the elements of another accumulator, which may be the same one.
    pub(crate) fn merge(&self, other: &Accumulator) -> Result<(), Error> {
        let other = other.with(|held| *held);
        self.with(|held| {
            if held.code() != other.code() {
                return Err(Error::OtherKind {
                    found: name(other.code()),
                    wanted: name(held.code()),
                });
            }
            with_state!(&other, state => held.add(state.words().as_ref()))
        })
    }

    /// The sum, rounded once: the bytes of an element, and their number.
    pub(crate) fn value_bytes(&self) -> ([u8; 8], usize) {
        fn bytes<K: Kind>(state: &State<K>) -> ([u8; 8], usize) {
            let value = state.value();
            (value.encoding().to_le_bytes(), size_of_val(&value))
        }
        self.with(|held| with_state!(held, state => bytes(state)))
    }

    /// The state's bytes, for which the caller has room.
    pub(crate) fn serialize(&self, room: usize) -> Result<StateBytes, Error> {
        let held = self.with(|held| *held);
        let mut bytes = StateBytes::from([0; MOST_BYTES]);
        bytes.truncate(held.bytes());
        if room != bytes.len() {
            return Err(Error::StateBytes { room, needed: bytes.len() });
        }
        with_state!(&held, state => encode(state, &mut bytes));
        Ok(bytes)
    }

    /// Looks at the state, or changes it. A child that is forked meanwhile finds it whole.
    fn with<R>(&self, work: impl FnOnce(&mut Held) -> R) -> R {
        fork::with_lock(|| work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Held {
    fn empty(code: Code) -> Self {
        match code {
            Code::SumF32 => Held::SumF32(State::ZERO),
            Code::DotF32 => Held::DotF32(State::ZERO),
            Code::SumF64 => Held::SumF64(State::ZERO),
            Code::DotF64 => Held::DotF64(State::ZERO),
        }
    }

    fn code(&self) -> Code {
        fn of<K: Kind>(_: &State<K>) -> Code {
            K::CODE
        }
        with_state!(self, state => of(state))
    }

    fn bytes(&self) -> usize {
        fn of<K: Kind>(_: &State<K>) -> usize {
            wire_bytes::<K>()
        }
        with_state!(self, state => of(state))
    }

    fn add(&mut self, words: &[i64]) -> Result<(), Error> {
        fn add<K: Kind>(state: &mut State<K>, words: &[i64]) -> Result<(), Error> {
            let mut added = K::ZERO;
            added.as_mut().copy_from_slice(words);
            let count = state.words().as_ref()[0];
            count.checked_add(words[0]).ok_or(Error::TooManyElements)?;
            state.merge(&State::from_words(added));
            Ok(())
        }
        with_state!(self, state => add(state, words))
    }
}

fn name(code: Code) -> &'static str {
    match code {
        Code::SumF32 => "a sum of float",
        Code::DotF32 => "a dot product of float",
        Code::SumF64 => "a sum of double",
        Code::DotF64 => "a dot product of double",
    }
}
