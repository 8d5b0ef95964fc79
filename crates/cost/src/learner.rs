//! Learns factors of the machine's rates, corrections, and the times of the calls of each case.

use crate::break_even::BreakEven;
use crate::case::Case;
use crate::estimate::{Cell, Estimate, Prior, Step};
use crate::model::{self, Factors, RATES, Time};
use crate::policy::{learning, prior};
use crate::{CHOICES, Choice, Processors, Work};
use std::array;
use std::sync::atomic::{AtomicU32, Ordering};

const SIZES: usize = 64;
const OPERATIONS: usize = 64;
const CASES: usize = 2048;

/// The learned estimates. Any thread may use them, and no thread waits for another.
#[derive(Debug)]
pub struct Learner {
    /// The factors of the rates.
    rates: [Cell; RATES],
    /// The corrections of each choice, for calls without and with staged arrays, not repeated and repeated.
    choices: [[[Cell; 2]; 2]; CHOICES],
    /// The corrections for sizes, in half octaves of bytes, of calls that are not repeated and repeated.
    sizes: [[[Cell; SIZES]; 2]; CHOICES],
    /// The corrections for operations, by their hashes.
    operations: [[Cell; OPERATIONS]; CHOICES],
    cases: [Case; CASES],
    /// The time that the driver takes for kernels, relative to the expected time.
    compiler: Cell,
    /// The time that calls may have lost because they did not run on each choice.
    pub(crate) lost: [BreakEven; CHOICES],
    /// The number of observations.
    time: AtomicU32,
}

/// The learned rates.
pub(crate) struct Rates {
    estimates: [Estimate; RATES],
    factors: Factors,
}

/// A prediction, and its parts.
pub(crate) struct Prediction<'a> {
    time: Time,
    corrections: [(&'a Cell, Prior); 3],
    /// The prediction of the model, with all factors and corrections.
    model: Estimate,
    /// The logarithm of the prior's prediction.
    prior: f32,
    /// The estimate from the case's calls, relative to the prior.
    seen: Option<Estimate>,
}

impl Prediction<'_> {
    /// True if no call of the case was observed on the choice.
    pub(crate) fn is_first(&self) -> bool {
        self.seen.is_none()
    }

    /// The predicted logarithm of nanoseconds.
    pub(crate) fn estimate(&self) -> Estimate {
        self.seen.map_or(self.model, |seen| {
            self.model.with(Estimate { mean: self.prior + seen.mean, ..seen })
        })
    }
}

impl Default for Learner {
    fn default() -> Self {
        Self::new()
    }
}

impl Learner {
    /// Returns a learner that has learned nothing yet.
    pub const fn new() -> Self {
        Learner {
            rates: [const { Cell::new() }; RATES],
            choices: [const { [const { [const { Cell::new() }; 2] }; 2] }; CHOICES],
            sizes: [const { [const { [const { Cell::new() }; SIZES] }; 2] }; CHOICES],
            operations: [const { [const { Cell::new() }; OPERATIONS] }; CHOICES],
            cases: [const { Case::new() }; CASES],
            compiler: Cell::new(),
            lost: [const { BreakEven::new() }; CHOICES],
            time: AtomicU32::new(0),
        }
    }

    /// The time, in nanoseconds, that work is predicted to take on a choice.
    pub fn predicted(&self, work: &Work, processors: &Processors, choice: Choice) -> f32 {
        let prediction = self.prediction(self.case(work), work, choice, processors, &self.rates());
        prediction.estimate().mean.exp()
    }

    /// Learns from the time, in nanoseconds, that a call took on a choice.
    pub fn observe(&self, work: &Work, processors: &Processors, choice: Choice, ns: f32) {
        let ln = ns.max(1.0).ln();
        let rates = self.rates();
        let case = self.case(work);
        let prediction = self.prediction(case, work, choice, processors, &rates);
        let now = self.time.fetch_add(1, Ordering::Relaxed) as u16;
        let Prediction { time, model, .. } = prediction;
        let step = Step::new(ln - model.mean, model.variance + learning::NOISE_VARIANCE);
        for (rate, before) in rates.estimates.into_iter().enumerate() {
            let weight = time.by_rate[rate] / time.ns;
            if weight.abs() > learning::LEAST_WEIGHT {
                self.rates[rate].set(step.applied(before, weight), now, rate_prior(rate));
            }
        }
        for (cell, prior) in prediction.corrections {
            let moved = step.applied(at(cell, now, prior), 1.0);
            let most = learning::MOST_DEVIATIONS * prior.variance.sqrt();
            cell.set(Estimate { mean: moved.mean.clamp(-most, most), ..moved }, now, prior);
        }
        let ratio = ln - prediction.prior;
        let seen = match prediction.seen {
            Some(seen) => Step::new(ratio - seen.mean, seen.variance + learning::NOISE_VARIANCE)
                .applied(seen, 1.0),
            None if step.is_slow => Estimate { mean: ratio, variance: learning::CASE.variance },
            None => {
                let excess = (ln - model.mean).max(0.0);
                Estimate {
                    mean: ratio,
                    variance: learning::FRESH_VARIANCE + learning::FRESH_DOUBT * excess * excess,
                }
            }
        };
        case.choices[choice as usize].set(seen, now, learning::CASE);
    }

    /// The time, in nanoseconds, that the driver is expected to take for a kernel if its compiler takes `full_ns`. The
    /// time is shorter, because the driver may find the kernel on disk. Earlier kernels show how much shorter.
    pub fn compiler_ns(&self, full_ns: f32) -> f32 {
        full_ns
            * prior::COMPILER_SHARE
            * at(&self.compiler, self.now(), learning::COMPILER).mean.exp()
    }

    /// Learns from the time that the driver took for a kernel.
    pub fn observe_compiler(&self, full_ns: f32, ns: f32) {
        let now = self.now();
        let before = at(&self.compiler, now, learning::COMPILER);
        let error = (ns.max(1.0) / (full_ns * prior::COMPILER_SHARE)).ln() - before.mean;
        let variance = before.variance + learning::COMPILER_NOISE;
        self.compiler.set(Step::new(error, variance).applied(before, 1.0), now, learning::COMPILER);
    }

    pub(crate) fn rates(&self) -> Rates {
        let now = self.now();
        let estimates = array::from_fn(|rate| at(&self.rates[rate], now, rate_prior(rate)));
        Rates { factors: estimates.map(|rate| rate.mean.exp()), estimates }
    }

    pub(crate) fn prediction(
        &self, case: &Case, work: &Work, choice: Choice, processors: &Processors, rates: &Rates,
    ) -> Prediction<'_> {
        let now = self.now();
        let time = model::time(work, choice, processors, &rates.factors);
        let operation = hash(work.operation) as usize % OPERATIONS;
        let number = choice as usize;
        let [is_staged, is_repeated] = [work.is_staged, work.is_repeated].map(usize::from);
        let corrections = [
            (&self.choices[number][is_staged][is_repeated], learning::CHOICE),
            (&self.sizes[number][is_repeated][size(work)], learning::SIZE),
            (&self.operations[number][operation], learning::OPERATION),
        ];
        let mut model = Estimate { mean: time.ns.ln(), variance: learning::MISFIT_VARIANCE };
        for (cell, prior) in corrections {
            let correction = at(cell, now, prior);
            model.mean += correction.mean;
            model.variance += correction.variance;
        }
        for (rate, by_rate) in rates.estimates.iter().zip(time.by_rate) {
            let weight = by_rate / time.ns;
            model.variance += weight * weight * rate.variance;
        }
        let prior = time.prior_ns.ln();
        let seen = case.choices[number].at(now, learning::CASE);
        Prediction { time, corrections, model, prior, seen }
    }

    /// The case of a call.
    pub(crate) fn case(&self, work: &Work) -> &Case {
        self.case_of(work.operation, work.core_ns, work.is_staged, work.is_repeated)
    }

    pub(crate) fn case_of(
        &self, operation: u32, core_ns: f32, is_staged: bool, is_repeated: bool,
    ) -> &Case {
        let flags = u32::from(is_staged) << 31 ^ u32::from(is_repeated) << 30;
        let tag = hash(hash(operation) ^ half_octave(core_ns) ^ flags);
        let case = &self.cases[tag as usize % CASES];
        case.begin(tag);
        case
    }

    fn now(&self) -> u16 {
        self.time.load(Ordering::Relaxed) as u16
    }
}

fn rate_prior(rate: usize) -> Prior {
    Prior {
        variance: learning::RATE_VARIANCES[rate],
        drift: learning::RATE_DRIFT * learning::RATE_VARIANCES[rate],
    }
}

/// The estimate of a cell at a time, or the prior.
fn at(cell: &Cell, now: u16, prior: Prior) -> Estimate {
    cell.at(now, prior).unwrap_or(Estimate { mean: 0.0, variance: prior.variance })
}

/// The size of all arrays.
fn size(work: &Work) -> usize {
    half_octave(work.bytes()) as usize % SIZES
}

/// A number that changes twice in an octave: at its beginning and in its middle.
fn half_octave(value: f32) -> u32 {
    value.to_bits() >> (f32::MANTISSA_DIGITS - 2)
}

/// A hash with lowest bits that depend on all bits of the key (the finalizer of MurmurHash3).
pub(crate) fn hash(key: u32) -> u32 {
    let key = (key ^ key >> 16).wrapping_mul(0x85eb_ca6b);
    let key = (key ^ key >> 13).wrapping_mul(0xc2b2_ae35);
    key ^ key >> 16
}
