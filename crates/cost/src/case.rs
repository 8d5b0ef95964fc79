//! Cases: the calls of one operation, of about the same size and on the same kind of memory.

use crate::break_even::BreakEven;
use crate::estimate::Cell;
use crate::learner::hash;
use crate::policy::LONG_CALL_NS;
use crate::{CHOICES, Choice, Choices, Predictions, Processors};
use std::array;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// The estimates of a case, and the decision that stands for its next calls.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Case {
    tag: AtomicU32,
    /// The standing decision: its question, its choice, the number of calls for which it still stands, and its
    /// `Standing`.
    question: AtomicU32,
    choice: AtomicU8,
    calls: AtomicU32,
    standing: AtomicU8,
    predicted: [AtomicU32; CHOICES],
    /// The time that calls took since a try of each choice was last due.
    pub(crate) spent: [BreakEven; CHOICES],
    /// Logarithms of the times that calls took on each choice, relative to the prior's prediction.
    pub(crate) choices: [Cell; CHOICES],
}

/// The purpose for which a decision stands for several calls.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// To decide less often.
    Known,
    /// To learn how long calls take on a choice that is predicted to be the fastest.
    New,
    /// To learn how long calls take on another choice.
    Tried,
}

impl Standing {
    const ALL: [Standing; 3] = [Standing::Known, Standing::New, Standing::Tried];
}

/// A hash of all inputs of a decision except the learned estimates. A short call has the same hash as calls of about
/// the same length, so that fewer short calls need a new decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question(u32);

/// The bits of an f32 that change at each quarter of an octave.
const UPPER_BITS: u32 = u32::MAX << (f32::MANTISSA_DIGITS - 1 - 2);

impl Question {
    pub(crate) fn new(core_ns: f32, processors: &Processors, among: Choices) -> Self {
        let processors =
            (processors.cores as u32) << 16 ^ (processors.gpus as u32) << 8 ^ u32::from(among.0);
        let is_long = core_ns > LONG_CALL_NS;
        let ns = core_ns.to_bits() & if is_long { u32::MAX } else { UPPER_BITS };
        Question(hash(ns ^ hash(processors)))
    }
}

impl Case {
    pub(crate) const fn new() -> Self {
        Case {
            tag: AtomicU32::new(0),
            question: AtomicU32::new(0),
            choice: AtomicU8::new(0),
            calls: AtomicU32::new(0),
            standing: AtomicU8::new(Standing::Known as u8),
            predicted: [const { AtomicU32::new(0) }; CHOICES],
            spent: [const { BreakEven::new() }; CHOICES],
            choices: [const { Cell::new() }; CHOICES],
        }
    }

    /// Begins a case, unless it is the one in this place. Forgets the other case.
    pub(crate) fn begin(&self, tag: u32) {
        if self.tag.load(Ordering::Relaxed) != tag {
            self.tag.store(tag, Ordering::Relaxed);
            self.calls.store(0, Ordering::Relaxed);
            self.spent.iter().for_each(BreakEven::forget);
            self.choices.iter().for_each(Cell::forget);
        }
    }

    /// Returns the choice that stands for this question, if it stands for more than the next call. Counts the call.
    pub(crate) fn known(&self, question: Question) -> Option<Choice> {
        let is_known = self.standing.load(Ordering::Relaxed) == Standing::Known as u8;
        if is_known { self.counted(question, 2) } else { None }
    }

    /// Returns the choice that stands for this question, and its purpose. Counts the call.
    pub(crate) fn standing(&self, question: Question) -> Option<(Choice, Standing)> {
        let standing = self.standing.load(Ordering::Relaxed) as usize;
        self.counted(question, 1).zip(Standing::ALL.get(standing).copied())
    }

    fn counted(&self, question: Question, least: u32) -> Option<Choice> {
        let calls = self.calls.load(Ordering::Relaxed);
        if calls < least || self.question.load(Ordering::Relaxed) != question.0 {
            return None;
        }
        self.calls.store(calls - 1, Ordering::Relaxed);
        Choice::ALL.get(self.choice.load(Ordering::Relaxed) as usize).copied()
    }

    /// True if the decision stands for no further calls.
    pub(crate) fn is_last(&self) -> bool {
        self.calls.load(Ordering::Relaxed) == 0
    }

    /// The predictions of the standing decision.
    pub(crate) fn predicted(&self) -> Predictions {
        array::from_fn(|choice| f32::from_bits(self.predicted[choice].load(Ordering::Relaxed)))
    }

    /// Lets a decision stand for a number of calls.
    pub(crate) fn stand(
        &self, question: Question, choice: Choice, predicted: &Predictions, calls: u32,
        standing: Standing,
    ) {
        for (place, time) in self.predicted.iter().zip(predicted) {
            place.store(time.to_bits(), Ordering::Relaxed);
        }
        self.choice.store(choice as u8, Ordering::Relaxed);
        self.standing.store(standing as u8, Ordering::Relaxed);
        self.question.store(question.0, Ordering::Relaxed);
        self.calls.store(calls, Ordering::Relaxed);
    }
}
