//! The promises of a learner, one at a time.

use crate::{BreakEven, Choice, Choices, Decision, Learner, Processors, Work};

const PROCESSORS: Processors = Processors { cores: 16, gpus: 1 };

/// An addition of page-locked arrays, of 8 MB in and 4 MB out.
const ADDITION: Work = Work {
    operation: 3,
    core_ns: 100_000.0,
    input_bytes: 8e6,
    output_bytes: 4e6,
    is_staged: false,
    is_repeated: true,
    most_threads: 64,
    is_shareable: true,
};

/// Makes calls that take the times that `time` returns, and returns the last decision.
fn calls(
    learner: &Learner, work: &Work, count: usize, time: impl Fn(usize, Choice) -> f32,
) -> Decision {
    let mut last = learner.decide(work, &PROCESSORS, Choices::ALL);
    for number in 0..count {
        learner.observe(work, &PROCESSORS, last.choice, time(number, last.choice));
        last = learner.decide(work, &PROCESSORS, Choices::ALL);
    }
    last
}

fn time_if(best: Choice) -> impl Fn(usize, Choice) -> f32 {
    move |_, choice| if choice == best { 50_000.0 } else { 400_000.0 }
}

/// The choice of most of the next calls, which take as long as the others did.
fn settled(learner: &Learner, time: impl Fn(usize, Choice) -> f32) -> Choice {
    let mut counts = [0; crate::CHOICES];
    for number in 0..40 {
        let decision = learner.decide(&ADDITION, &PROCESSORS, Choices::ALL);
        counts[decision.choice as usize] += 1;
        learner.observe(&ADDITION, &PROCESSORS, decision.choice, time(number, decision.choice));
    }
    *Choice::ALL.iter().max_by_key(|choice| counts[**choice as usize]).unwrap()
}

#[test]
fn each_choice_is_found_if_it_is_the_fastest() {
    for best in Choice::ALL.into_iter().filter(|choice| *choice != Choice::Gpus) {
        let learner = Learner::new();
        calls(&learner, &ADDITION, 1_000, time_if(best));
        assert_eq!(settled(&learner, time_if(best)), best);
    }
}

#[test]
fn only_choices_that_there_are_and_that_are_allowed_are_made() {
    for (cores, gpus) in [(1, 0), (1, 1), (2, 0), (2, 2), (3, 1), (16, 0), (256, 8)] {
        let learner = Learner::new();
        let processors = Processors { cores, gpus };
        for among in [Choices::ALL, Choices::CORES, Choices::CORES.with(Choice::Gpu)] {
            for number in 0..200 {
                let decision = learner.decide(&ADDITION, &processors, among);
                let choice = decision.choice;
                assert!(among.has(choice) && choice.exists(&ADDITION, &processors), "{choice:?}");
                learner.observe(&ADDITION, &processors, choice, 1e5 + number as f32);
            }
        }
    }
}

#[test]
fn what_is_predicted_is_what_calls_took() {
    let learner = Learner::new();
    let time = |_, choice| 30_000.0 + 10_000.0 * choice as usize as f32;
    let Decision { choice, predicted, .. } = calls(&learner, &ADDITION, 100, time);
    let [predicted, took] = [predicted[choice as usize], time(0, choice)];
    assert!((predicted / took - 1.0).abs() < 0.05, "{predicted} ns, took {took} ns");
}

#[test]
fn a_few_calls_that_take_very_long_change_nothing() {
    let learner = Learner::new();
    calls(&learner, &ADDITION, 200, time_if(Choice::HalfOfCores));
    let with_outliers = |number: usize, choice| {
        let outlier = if number.is_multiple_of(17) { 20.0 } else { 1.0 };
        outlier * time_if(Choice::HalfOfCores)(number, choice)
    };
    assert_eq!(settled(&learner, with_outliers), Choice::HalfOfCores);
}

#[test]
fn a_machine_that_changes_is_learned_anew() {
    let learner = Learner::new();
    calls(&learner, &ADDITION, 1_000, time_if(Choice::Cores));
    assert_eq!(settled(&learner, time_if(Choice::Cores)), Choice::Cores);
    calls(&learner, &ADDITION, 400, time_if(Choice::Gpu));
    assert_eq!(settled(&learner, time_if(Choice::Gpu)), Choice::Gpu);
}

#[test]
fn exploring_costs_a_small_share_of_the_time() {
    let learner = Learner::new();
    let time = |choice| time_if(Choice::HalfOfCores)(0, choice);
    let (mut explored, mut all) = (0.0, 0.0);
    for _ in 0..5_000 {
        let decision = learner.decide(&ADDITION, &PROCESSORS, Choices::ALL);
        let Decision { choice, is_explored, .. } = decision;
        learner.observe(&ADDITION, &PROCESSORS, choice, time(choice));
        all += time(choice);
        explored += if is_explored { time(choice) } else { 0.0 };
    }
    assert!(explored < 0.1 * all, "{explored} of {all} ns");
}

#[test]
fn what_one_operation_teaches_of_the_machine_serves_others() {
    let learner = Learner::new();
    // Cores are slow, for whatever operation.
    let time = |_, choice: Choice| if choice.is_cores() { 1e7 } else { 2e5 };
    calls(&learner, &ADDITION, 200, time);
    let other = Work { operation: 4, core_ns: 120_000.0, ..ADDITION };
    let choice = learner.decide(&other, &PROCESSORS, Choices::ALL).choice;
    assert!(!choice.is_cores(), "{choice:?}");
}

#[test]
fn the_compiler_is_expected_to_take_what_it_took() {
    assert!(Learner::new().compiler_ns(8e7) < 8e7);
    for share in [1.0, 0.01] {
        let learner = Learner::new();
        (0..8).for_each(|_| learner.observe_compiler(2e7, share * 2e7));
        let expected = learner.compiler_ns(8e7) / 8e7;
        assert!(expected > 0.6 * share && expected < 1.5 * share, "{expected}, {share} seen");
    }
}

#[test]
fn a_price_is_paid_once_calls_have_lost_as_much() {
    let sum = BreakEven::new();
    let reached: Vec<bool> = (0..8).map(|_| sum.is_reached(30.0, 100.0)).collect();
    assert_eq!(reached, [false, false, false, true, false, false, false, true]);
    assert!(sum.is_reached(101.0, 100.0), "one call that pays for it alone");
}
