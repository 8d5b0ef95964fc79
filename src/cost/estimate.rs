//! Estimates of logarithms: a mean and a variance in one atomic word.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is known of a logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mean: f32,
    pub(crate) variance: f32,
}

impl Estimate {
    /// The best guess by two independent estimates.
    pub(crate) fn with(self, other: Self) -> Self {
        let sum = self.variance + other.variance;
        Estimate {
            mean: (self.mean * other.variance + other.mean * self.variance) / sum,
            variance: self.variance * other.variance / sum,
        }
    }
}

/// A step of a Kalman filter: how far an observation moves estimates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The error of the prediction by its variance.
    gain: f32,
    /// The variance of the prediction, with the observation's own.
    variance: f32,
    /// How much less estimates are worth afterwards.
    doubt: f32,
    /// Says that the call took surprisingly long.
    pub(crate) is_slow: bool,
}

/// An observation is a surprise if its error is larger by this factor than the standard deviation.
const SURPRISE: f32 = 4.8;
/// A call that took surprisingly long may be an outlier: its error counts as smaller by this factor than
/// the bound. (None is fast by accident.)
const SHRINKING: f32 = 2.4;
/// The factor of the variances after a surprise, which may be the rule from now on.
const DOUBT: f32 = 3.0;

impl Step {
    /// The step for an error of a prediction with a variance.
    pub(crate) fn new(error: f32, variance: f32) -> Self {
        let bound = SURPRISE * variance.sqrt();
        let doubt = if error.abs() > bound { DOUBT } else { 1.0 };
        let is_slow = error > bound;
        let error = if is_slow { bound / SHRINKING } else { error };
        Step { gain: error / variance, variance, doubt, is_slow }
    }

    /// Moves an estimate of which the prediction's logarithm has so much.
    pub(crate) fn applied(&self, before: Estimate, weight: f32) -> Estimate {
        let share = weight * before.variance;
        Estimate {
            mean: before.mean + share * self.gain,
            variance: before.variance * (1.0 - weight * share / self.variance) * self.doubt,
        }
    }
}

/// What is known before anything was observed, and how fast knowledge ages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prior {
    /// The variance; the mean is 0.
    pub(crate) variance: f32,
    /// The variance that an estimate gains with each observation of anything.
    pub(crate) drift: f32,
}

/// An estimate that any thread reads and writes. Of two concurrent writes one is lost.
///
/// The word has the mean (32 bits), the variance (the upper 16 bits of an f32), and the time of the last
/// write (16 bits), which counts observations. 0 stands for the prior.
#[derive(Debug)]
pub(crate) struct Cell(AtomicU64);

impl Cell {
    pub(crate) const fn new() -> Self {
        Cell(AtomicU64::new(0))
    }

    /// The estimate at a time, aged since it was written; `None` if nothing was.
    pub(crate) fn at(&self, time: u16, prior: Prior) -> Option<Estimate> {
        let word = self.0.load(Ordering::Relaxed);
        let age = f32::from(time.wrapping_sub(word as u16));
        let variance = f32::from_bits(word as u32 & 0xffff_0000) + prior.drift * age;
        let mean = f32::from_bits((word >> 32) as u32);
        (word != 0).then_some(Estimate { mean, variance: variance.min(prior.variance) })
    }

    pub(crate) fn set(&self, estimate: Estimate, time: u16, prior: Prior) {
        let mean = u64::from(estimate.mean.to_bits()) << 32;
        // Rounded up, so that no estimate is taken for certain, nor the word for the prior.
        let variance = (estimate.variance.min(prior.variance).to_bits() >> 16) + 1;
        self.0.store(mean | u64::from(variance) << 16 | u64::from(time), Ordering::Relaxed);
    }

    pub(crate) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
