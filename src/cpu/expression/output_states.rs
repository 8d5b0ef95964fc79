//! The states of the reductions of a program. Each reduced output has one or several sums, and each sum has a state for
//! each result.

use super::erased::ErasedStates;
use super::moments::Moments;
use crate::policy::cores;
use arrayvec::ArrayVec;
use gpuvec_expr::{MAX_OUTPUTS, Output};
use std::collections::TryReserveError;
use std::ops::Range;

/// The most sums of a program: five of each output.
pub(crate) const MOST_SUMS: usize = 5 * MAX_OUTPUTS;

/// The states of a program's reduced outputs, the same number for each sum.
pub(crate) struct OutputStates {
    outputs: ArrayVec<Sums, MAX_OUTPUTS>,
    /// The states of each reduction of the [`BlockProgram`](super::BlockProgram), in the program's order.
    sums: Vec<Box<dyn ErasedStates>>,
}

/// The sums of an output.
#[derive(Clone)]
pub(super) struct Sums {
    /// The numbers of the sums among the sums of all outputs.
    pub(super) numbers: Range<usize>,
    /// The computation of the result, if there are several sums.
    pub(super) moments: Option<Moments>,
}

impl OutputStates {
    /// A prototype without states, for the reduced outputs of a program.
    pub(crate) fn of<'o>(outputs: impl Iterator<Item = &'o Output>) -> Self {
        let mut all = OutputStates { outputs: ArrayVec::new(), sums: Vec::new() };
        for output in outputs {
            let Some(reduction) = output.reduction() else { continue };
            let (first, moments) = (all.sums.len(), Moments::of(output));
            match &moments {
                Some(moments) => all
                    .sums
                    .extend(moments.sums().map(|(sum, ty)| <dyn ErasedStates>::of(sum, ty, None))),
                None => {
                    let states = <dyn ErasedStates>::of(reduction, output.ty, output.conversion());
                    all.sums.push(states);
                }
            }
            all.outputs.push(Sums { numbers: first..all.sums.len(), moments });
        }
        all
    }

    /// `count` states without elements for each sum.
    pub(crate) fn identities(&self, count: usize) -> Result<Self, TryReserveError> {
        let mut sums = Vec::new();
        sums.try_reserve_exact(self.sums.len())?;
        for states in &self.sums {
            sums.push(states.identities(count)?);
        }
        Ok(OutputStates { outputs: self.outputs.clone(), sums })
    }

    pub(crate) fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Resets all states to no elements.
    pub(crate) fn clear(&mut self) {
        self.sums.iter_mut().for_each(|states| states.clear());
    }

    /// The states of one of the block program's reductions.
    pub(crate) fn sum(&self, number: usize) -> &dyn ErasedStates {
        &*self.sums[number]
    }

    /// As [`OutputStates::sum`], mutable.
    pub(crate) fn sum_mut(&mut self, number: usize) -> &mut dyn ErasedStates {
        &mut *self.sums[number]
    }

    /// The output with this sum as its only one.
    pub(crate) fn only_output_of(&self, sum: usize) -> Option<usize> {
        self.outputs.iter().position(|output| output.numbers == (sum..sum + 1))
    }

    pub(crate) fn has_one_sum(&self, output: usize) -> bool {
        self.outputs[output].moments.is_none()
    }

    /// The most values that a reduction takes at once. The sums of one output take the same values, and so take a few
    /// at a time, in turn. Reductions of different outputs are faster if each takes all values at once.
    pub(crate) fn reduced_at_once(&self) -> usize {
        let share_values = self.outputs.iter().any(|output| output.moments.is_some());
        if share_values { cores::REDUCED_AT_ONCE } else { usize::MAX }
    }

    /// Moves all terms of lanes to the states, so that these can be merged into others.
    pub(crate) fn complete(&mut self) {
        self.sums.iter_mut().for_each(|states| states.complete());
    }

    /// Merges the first `count` of other states, which are complete, into the states from number `first` on.
    ///
    /// # Panics
    /// If the others are states of other reductions.
    pub(crate) fn merge(&mut self, first: usize, others: &Self, count: usize) {
        for (states, others) in self.sums.iter_mut().zip(&others.sums) {
            states.merge(first, &**others, count);
        }
    }

    /// Merges states of an output that a kernel wrote, of `bytes` bytes each, into the states from number `first` on. A
    /// kernel's state has the words of one sum after the other.
    pub(crate) fn merge_words(&mut self, output: usize, first: usize, words: &[u8], bytes: usize) {
        let mut offset = 0;
        for states in &mut self.sums[self.outputs[output].numbers.clone()] {
            offset += states.merge_words(first, &words[offset..], bytes);
        }
    }

    /// The bits of one result of an output.
    pub(crate) fn result(&mut self, output: usize, state: usize) -> u64 {
        let Sums { numbers, moments } = &self.outputs[output];
        match moments {
            Some(moments) => {
                let sums = &mut self.sums[numbers.clone()];
                moments.result(&mut |number, visit| visit(sums[number].whole(state)))
            }
            None => self.sums[numbers.start].result(state),
        }
    }

    /// The bits of the first results of an output.
    pub(crate) fn results(&mut self, output: usize, results: &mut [u64]) {
        if let Sums { numbers, moments: None } = &self.outputs[output] {
            return self.sums[numbers.start].results(results);
        }
        for (state, result) in results.iter_mut().enumerate() {
            *result = self.result(output, state);
        }
    }

    /// The greatest number of bytes of an output's state. `None` if there are no reduced outputs.
    pub(crate) fn largest_bytes(&self) -> Option<usize> {
        let bytes = |sums: &Sums| {
            self.sums[sums.numbers.clone()].iter().map(|states| states.state_bytes()).sum()
        };
        self.outputs.iter().map(bytes).max()
    }

    /// One state for each sum, of `n` times the elements of the first state. Doubles the state for each bit of `n`.
    pub(crate) fn repeated(&self, n: usize) -> Result<Self, TryReserveError> {
        let mut states = self.copied()?;
        for bit in (0..n.ilog2()).rev() {
            let half = states.copied()?;
            states.merge(0, &half, 1);
            if n >> bit & 1 == 1 {
                states.merge(0, self, 1);
            }
        }
        Ok(states)
    }

    fn copied(&self) -> Result<Self, TryReserveError> {
        let mut copy = self.identities(1)?;
        copy.merge(0, self, 1);
        Ok(copy)
    }
}
