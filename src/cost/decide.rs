//! Decides where a call runs.

use crate::case::{Case, Question};
use crate::learner::Learner;
use crate::tuning::{
    CAUTION, CAUTION_IN_A_CASE, LONG_CALL_NS, OPTIMISM, STANDING_CALLS, WELL_KNOWN,
};
use crate::{CHOICES, Choice, Choices, Machine, Work};

/// Why a call runs where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The choice is predicted to be done first.
    Fastest,
    /// To find out how long it takes.
    Explored,
}

/// Where a call runs.
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    /// The choice.
    pub choice: Choice,
    /// Why.
    pub reason: Reason,
    /// What each choice is predicted to take.
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

/// What each choice is predicted to take, in nanoseconds; infinite for those that there are not.
pub type Predictions = [f32; CHOICES];

/// A choice that is not predicted to be done first.
struct Alternative {
    choice: Choice,
    /// What a try is expected to cost, in nanoseconds.
    cost: f32,
    /// How much sooner it would be done if it is better than predicted.
    gain: f32,
}

impl Learner {
    /// The decision that stands for a call of an operation, if there is one: what [`Learner::decide`] says for
    /// work that is otherwise the same, found sooner.
    pub fn standing(
        &self, operation: u32, core_ns: f32, is_staged: bool, machine: &Machine, among: Choices,
    ) -> Option<Choice> {
        let question = Question::new(core_ns, machine, among);
        self.case(operation, core_ns, is_staged).standing(question)
    }

    /// Decides where a call runs, among choices.
    ///
    /// It is the one that is predicted to be done first, unless another one is tried to learn how long it
    /// takes: once calls may have lost many times what the try costs, as far as is known. Where much is
    /// known about such a call, a decision stands for some calls.
    pub fn decide(&self, work: &Work, machine: &Machine, among: Choices) -> Decision {
        let case = self.case(work.operation, work.core_ns, work.is_staged);
        let question = Question::new(work.core_ns, machine, among);
        if let Some(choice) = case.standing(question) {
            return Decision::new(choice, Reason::Fastest, case.predicted(), false);
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
        let (choice, reason) = match explored(self, case, calls, time_of(fastest), others) {
            Some(choice) => (choice, Reason::Explored),
            None => {
                case.stand(question, fastest, &predicted, calls - 1);
                (fastest, Reason::Fastest)
            }
        };
        Decision::new(choice, reason, predicted, true)
    }
}

/// The alternative that it is time to try, in the place of a number of calls.
fn explored(
    learner: &Learner, case: &Case, calls: u32, fastest: f32,
    others: impl Iterator<Item = Alternative>,
) -> Option<Choice> {
    let calls = calls as f32;
    let is_due = |other: &Alternative| {
        let number = other.choice as usize;
        let may_pay = other.gain > 0.0
            && learner.lost[number].exceed(calls * other.gain, CAUTION * other.cost);
        // However sure the predictions are, now and then.
        may_pay | case.spent[number].exceed(calls * fastest, CAUTION_IN_A_CASE * other.cost)
    };
    // The one that is due most seldom: those that cost nothing are due at every call.
    others.filter(is_due).max_by(|a, b| a.cost.total_cmp(&b.cost)).map(|other| other.choice)
}

impl Alternative {
    fn new(choice: Choice, time: f32, deviation: f32, fastest: f32) -> Self {
        Alternative {
            choice,
            cost: time * (0.5 * deviation * deviation).exp() - fastest,
            gain: fastest - time * (-OPTIMISM * deviation).exp(),
        }
    }
}
