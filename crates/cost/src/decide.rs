//! Decides where a call runs.

use crate::case::{Case, Question, Standing};
use crate::learner::Learner;
use crate::policy::{LONG_CALL_NS, trying};
use crate::{CHOICES, Choice, Choices, Processors, Work};

/// A decision where a call runs.
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    /// The choice.
    pub choice: Choice,
    /// True if the choice is tried, to learn how long it takes; false if it is predicted to finish first.
    pub is_explored: bool,
    /// The predicted time of each choice.
    pub predicted: Predictions,
    /// True if the call's time is to be observed.
    pub is_observed: bool,
    /// True if the call is long enough to be timed.
    pub is_long: bool,
}

impl Decision {
    fn new(choice: Choice, is_explored: bool, predicted: Predictions, is_observed: bool) -> Self {
        let is_long = choice != Choice::CallingCore || predicted[choice as usize] > LONG_CALL_NS;
        Decision { choice, is_explored, predicted, is_observed, is_long }
    }
}

/// The predicted time of each choice, in nanoseconds, or infinity for a choice that the machine does not have.
pub type Predictions = [f32; CHOICES];

/// The facts that a decision depends on, for each choice.
struct Outlook {
    predicted: Predictions,
    /// The standard deviations of the predictions' logarithms.
    deviations: [f32; CHOICES],
    /// True for choices on which no call of the case was observed.
    is_new: [bool; CHOICES],
}

/// A choice that is not predicted to finish first.
struct Alternative {
    choice: Choice,
    /// The expected cost of a try, in nanoseconds.
    cost: f32,
    /// The time that the choice would save if it were faster than predicted.
    gain: f32,
    /// The choice is tried despite its prediction once the case's calls have taken this many times the cost of a try.
    caution: f32,
}

impl Learner {
    /// Returns the standing decision for a repeated call of an operation, if there is one. [`Learner::decide`] would
    /// return the same, but takes longer.
    pub fn standing(
        &self, operation: u32, core_ns: f32, is_staged: bool, processors: &Processors,
        among: Choices,
    ) -> Option<Choice> {
        let question = Question::new(core_ns, processors, among);
        let case = self.case_of(operation, core_ns, is_staged, true);
        case.known(question)
    }

    /// Decides where a call runs, among some choices.
    ///
    /// The decision is for the choice that is predicted to finish first, unless it is time to try another one. A try is
    /// due once earlier calls may have lost several times its expected cost, or once the calls of the case have taken
    /// many times this cost. If the prediction is well known, or the call is not long, the decision stands for several
    /// calls, and the last of them is observed. A decision for a choice that is new to the case stands for the number
    /// of calls that show how long later calls take.
    pub fn decide(&self, work: &Work, processors: &Processors, among: Choices) -> Decision {
        let case = self.case(work);
        let question = Question::new(work.core_ns, processors, among);
        if let Some((choice, standing)) = case.standing(question) {
            let is_observed = standing != Standing::Known || case.is_last();
            let is_explored = standing == Standing::Tried;
            return Decision::new(choice, is_explored, case.predicted(), is_observed);
        }
        let outlook = self.outlook(case, work, processors);
        let fastest = outlook.fastest(among);
        let time = outlook.predicted[fastest as usize];
        let (calls, standing) = if outlook.is_new[fastest as usize] {
            (tries(work, fastest, time), Standing::New)
        } else {
            let is_well_known = outlook.deviations[fastest as usize] < trying::WELL_KNOWN;
            let is_short = time < LONG_CALL_NS;
            (if is_well_known || is_short { trying::STANDING_CALLS } else { 1 }, Standing::Known)
        };
        let others = among.iter().filter(|choice| *choice != fastest);
        let others = others.filter_map(|choice| outlook.alternative(work, choice, fastest));
        let predicted = outlook.predicted;
        match explored(self, case, calls, time, others) {
            Some(choice) => {
                let more_calls = tries(work, choice, predicted[choice as usize]) - 1;
                case.stand(question, choice, &predicted, more_calls, Standing::Tried);
                Decision::new(choice, true, predicted, more_calls == 0)
            }
            None => {
                case.stand(question, fastest, &predicted, calls - 1, standing);
                Decision::new(fastest, false, predicted, calls == 1)
            }
        }
    }

    fn outlook(&self, case: &Case, work: &Work, processors: &Processors) -> Outlook {
        let rates = self.rates();
        let mut outlook = Outlook {
            predicted: [f32::INFINITY; CHOICES],
            deviations: [0.0; CHOICES],
            is_new: [false; CHOICES],
        };
        for choice in Choice::ALL.into_iter().filter(|choice| choice.exists(work, processors)) {
            let prediction = self.prediction(case, work, choice, processors, &rates);
            let estimate = prediction.estimate();
            outlook.predicted[choice as usize] = estimate.mean.exp();
            outlook.deviations[choice as usize] = estimate.variance.sqrt();
            outlook.is_new[choice as usize] = prediction.is_first();
        }
        outlook
    }
}

/// The alternative to try now, if one is due. Otherwise the decision stands for `calls` calls of `fastest` nanoseconds
/// each.
fn explored(
    learner: &Learner, case: &Case, calls: u32, fastest: f32,
    others: impl Iterator<Item = Alternative>,
) -> Option<Choice> {
    let calls = calls as f32;
    let is_due = |other: &Alternative| {
        let number = other.choice as usize;
        let may_pay = other.gain > 0.0
            && learner.lost[number].is_reached(calls * other.gain, trying::CAUTION * other.cost);
        // Even with certain predictions, a try is due now and then.
        may_pay | case.spent[number].is_reached(calls * fastest, other.caution * other.cost)
    };
    // If several are due, the one that is due least often. (A try that costs nothing is due at every call.)
    others.filter(is_due).max_by(|a, b| a.cost.total_cmp(&b.cost)).map(|other| other.choice)
}

/// The number of calls of a try. If calls repeat, the first call does not show how long later calls take: arrays may be
/// in the caches of other processors, and the time to wake threads or a GPU may be a large part of a short call.
fn tries(work: &Work, choice: Choice, time: f32) -> u32 {
    let wakes_cores = choice.is_cores() && choice != Choice::CallingCore;
    match work.is_repeated {
        true if wakes_cores && time < trying::WAKING_NS => trying::SHORT_TRIES,
        true if time < trying::CACHED_NS => trying::TRIES,
        _ => 1,
    }
}

impl Outlook {
    fn fastest(&self, among: Choices) -> Choice {
        let time_of = |choice: &Choice| self.predicted[*choice as usize];
        let fastest = among.iter().min_by(|a, b| time_of(a).total_cmp(&time_of(b)));
        fastest.unwrap_or(Choice::CallingCore)
    }

    /// The cost and the gain of a try of a choice, if the machine has it.
    fn alternative(&self, work: &Work, choice: Choice, fastest: Choice) -> Option<Alternative> {
        let [time, least] = [choice, fastest].map(|choice| self.predicted[choice as usize]);
        let deviation = self.deviations[choice as usize];
        let tries = tries(work, choice, time) as f32;
        time.is_finite().then(|| Alternative {
            choice,
            cost: tries * (time * (0.5 * deviation * deviation).exp() - least),
            gain: least - time * (-trying::OPTIMISM * deviation).exp(),
            caution: if self.is_new[choice as usize] {
                trying::CAUTION_IF_NEW
            } else {
                trying::CAUTION_IN_A_CASE
            },
        })
    }
}
