//! Estimates of logarithms: a mean and a variance in one atomic word.

use crate::policy::learning;
use std::sync::atomic::{AtomicU64, Ordering};

/// The mean and the variance of a logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mean: f32,
    pub(crate) variance: f32,
}

impl Estimate {
    /// Combines two independent estimates.
    pub(crate) fn with(self, other: Self) -> Self {
        let sum = self.variance + other.variance;
        Estimate {
            mean: (self.mean * other.variance + other.mean * self.variance) / sum,
            variance: self.variance * other.variance / sum,
        }
    }
}

/// A step of a Kalman filter, by which an observation moves estimates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The error of the prediction, divided by its variance.
    gain: f32,
    /// The variance of the prediction and of the observation.
    variance: f32,
    /// The factor of the variances afterwards: more than 1 after a surprise.
    doubt: f32,
    /// True if the call took surprisingly long.
    pub(crate) is_slow: bool,
}

impl Step {
    /// The step for an error of a prediction, and the variance of that error.
    pub(crate) fn new(error: f32, variance: f32) -> Self {
        let bound = learning::SURPRISE * variance.sqrt();
        let doubt = if error.abs() > bound { learning::DOUBT } else { 1.0 };
        let is_slow = error > bound;
        let error = if is_slow { bound / learning::SHRINKING } else { error };
        Step { gain: error / variance, variance, doubt, is_slow }
    }

    /// Returns the estimate after the step. `weight` is the derivative of the prediction's logarithm with respect to
    /// the estimate.
    pub(crate) fn applied(&self, before: Estimate, weight: f32) -> Estimate {
        let share = weight * before.variance;
        Estimate {
            mean: before.mean + share * self.gain,
            variance: before.variance * (1.0 - weight * share / self.variance) * self.doubt,
        }
    }
}

/// The estimate before any observation, and the rate at which estimates age.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prior {
    /// The variance. The mean is 0.
    pub(crate) variance: f32,
    /// The variance that an estimate gains with each observation of any call.
    pub(crate) drift: f32,
}

/// An estimate that any thread reads and writes. One of two concurrent writes is lost.
///
/// The word holds the mean (32 bits), the variance (the upper 16 bits of an f32), and the time of the last write (16
/// bits), as a number of observations. 0 stands for the prior.
#[derive(Debug)]
pub(crate) struct Cell(AtomicU64);

impl Cell {
    pub(crate) const fn new() -> Self {
        Cell(AtomicU64::new(0))
    }

    /// The estimate, aged since it was written until `time`. `None` if none was written.
    pub(crate) fn at(&self, time: u16, prior: Prior) -> Option<Estimate> {
        let word = self.0.load(Ordering::Relaxed);
        let age = f32::from(time.wrapping_sub(word as u16));
        let variance = f32::from_bits(word as u32 & 0xffff_0000) + prior.drift * age;
        let mean = f32::from_bits((word >> 32) as u32);
        (word != 0).then_some(Estimate { mean, variance: variance.min(prior.variance) })
    }

    pub(crate) fn set(&self, estimate: Estimate, time: u16, prior: Prior) {
        let mean = u64::from(estimate.mean.to_bits()) << 32;
        // Rounded up, so that no estimate becomes certain, and that no word becomes 0, which stands for the prior.
        let variance = (estimate.variance.min(prior.variance).to_bits() >> 16) + 1;
        self.0.store(mean | u64::from(variance) << 16 | u64::from(time), Ordering::Relaxed);
    }

    pub(crate) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
