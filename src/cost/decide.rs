//! Decides where a call runs.

use crate::case::{Case, Question, Standing};
use crate::learner::Learner;
use crate::tuning::{
    CAUTION, CAUTION_IN_A_CASE, LONG_CALL_NS, OPTIMISM, STANDING_CALLS, TRIES, WAKING_NS,
    WELL_KNOWN,
};
use crate::{CHOICES, Choice, Choices, Machine, Work};

/// The reason for a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is predicted to be done first.
    Fastest,
    /// It is tried, to learn how long it takes.
    Explored,
}

/// A decision where a call runs.
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    /// The choice.
    pub choice: Choice,
    /// The reason for it.
    pub reason: Reason,
    /// The predicted time of each choice.
    pub predicted: Predictions,
    /// Says that the call's time is to be observed.
    pub is_observed: bool,
    /// Says that the call is long enough to be timed.
    pub is_long: bool,
}

impl Decision {
    fn new(choice: Choice, reason: Reason, predicted: Predictions, is_observed: bool) -> Self {
        let is_long = choice != Choice::CallingCore || predicted[choice as usize] > LONG_CALL_NS;
        Decision { choice, reason, predicted, is_observed, is_long }
    }
}

/// The predicted time of each choice, in nanoseconds; infinite for choices that the machine does not have.
pub type Predictions = [f32; CHOICES];

/// A choice that is not predicted to be done first.
struct Alternative {
    choice: Choice,
    /// The expected cost of a try, in nanoseconds.
    cost: f32,
    /// The time that it would save if it were faster than predicted.
    gain: f32,
}

impl Learner {
    /// Returns the standing decision for a call of an operation, if there is one: that of [`Learner::decide`]
    /// for such work, found sooner.
    pub fn standing(
        &self, operation: u32, core_ns: f32, is_staged: bool, machine: &Machine, among: Choices,
    ) -> Option<Choice> {
        let question = Question::new(core_ns, machine, among);
        self.case(operation, core_ns, is_staged).standing(question, Standing::Decided)
    }

    /// Decides where a call runs, among some choices.
    ///
    /// The decision is for the choice that is predicted to be done first, unless it is time to try another
    /// one: once earlier calls may have lost several times the expected cost of the try, or calls of the
    /// same case took many times as long. If the prediction is well known, or the call is not long, the
    /// decision stands for some calls.
    pub fn decide(&self, work: &Work, machine: &Machine, among: Choices) -> Decision {
        let case = self.case(work.operation, work.core_ns, work.is_staged);
        let question = Question::new(work.core_ns, machine, among);
        if let Some(choice) = case.standing(question, Standing::Decided) {
            return Decision::new(choice, Reason::Fastest, case.predicted(), false);
        }
        if let Some(choice) = case.standing(question, Standing::Tried) {
            return Decision::new(choice, Reason::Explored, case.predicted(), true);
        }
        let rates = self.rates();
        let mut predicted = [f32::INFINITY; CHOICES];
        let mut deviations = [0.0; CHOICES];
        for choice in Choice::ALL.into_iter().filter(|choice| choice.exists(work, machine)) {
            let estimate = self.prediction(case, work, choice, machine, &rates).estimate();
            predicted[choice as usize] = estimate.mean.exp();
            deviations[choice as usize] = estimate.variance.sqrt();
        }
        let time_of = |choice: Choice| predicted[choice as usize];
        let fastest = among.iter().min_by(|a, b| time_of(*a).total_cmp(&time_of(*b)));
        let fastest = fastest.unwrap_or(Choice::CallingCore);
        let is_well_known = deviations[fastest as usize] < WELL_KNOWN;
        let calls =
            if is_well_known || time_of(fastest) < LONG_CALL_NS { STANDING_CALLS } else { 1 };
        let others = among
            .iter()
            .filter(|choice| *choice != fastest && time_of(*choice).is_finite())
            .map(|choice| {
                Alternative::new(
                    choice,
                    time_of(choice),
                    deviations[choice as usize],
                    time_of(fastest),
                )
            });
        match explored(self, case, calls, time_of(fastest), others) {
            Some(choice) => {
                let more_calls = tries(choice, time_of(choice)) - 1;
                case.stand(question, choice, &predicted, more_calls, Standing::Tried);
                Decision::new(choice, Reason::Explored, predicted, more_calls == 0)
            }
            None => {
                case.stand(question, fastest, &predicted, calls - 1, Standing::Decided);
                Decision::new(fastest, Reason::Fastest, predicted, true)
            }
        }
    }
}

/// The alternative to try now, if one is due. The decision would otherwise stand for `calls` calls, which
/// take `fastest` nanoseconds each.
fn explored(
    learner: &Learner, case: &Case, calls: u32, fastest: f32,
    others: impl Iterator<Item = Alternative>,
) -> Option<Choice> {
    let calls = calls as f32;
    let is_due = |other: &Alternative| {
        let number = other.choice as usize;
        let may_pay = other.gain > 0.0
            && learner.lost[number].exceed(calls * other.gain, CAUTION * other.cost);
        // Now and then, however certain the predictions are.
        may_pay | case.spent[number].exceed(calls * fastest, CAUTION_IN_A_CASE * other.cost)
    };
    // The one that is due least often: those that cost nothing are due at every call.
    others.filter(is_due).max_by(|a, b| a.cost.total_cmp(&b.cost)).map(|other| other.choice)
}

/// The number of calls of a try. The threads of other cores may be asleep: where to wake them takes a large part
/// of the time, the first call shows nothing of those that would follow.
fn tries(choice: Choice, time: f32) -> u32 {
    let wakes = choice.is_cores() && choice != Choice::CallingCore;
    if wakes && time < WAKING_NS { TRIES } else { 1 }
}

impl Alternative {
    fn new(choice: Choice, time: f32, deviation: f32, fastest: f32) -> Self {
        let tries = tries(choice, time) as f32;
        Alternative {
            choice,
            cost: tries * (time * (0.5 * deviation * deviation).exp() - fastest),
            gain: fastest - time * (-OPTIMISM * deviation).exp(),
        }
    }
}
