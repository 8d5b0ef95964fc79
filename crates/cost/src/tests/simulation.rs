//! A process's calls on simulated machines, beside an oracle that knows what each choice takes.

use super::machines::{OPERATIONS, Random, Simulated};
use crate::{Choice, Choices, LONG_CALL_NS, Learner, SHORT_CALL_NS, Work};
use std::thread;

const MACHINES: u64 = 1_000;
/// The seed of the first machine; the seeds of the others follow.
const FIRST_SEED: u64 = 1_000;
/// The first calls of a process, while much is unknown, and those after them.
const CALLS: [usize; 2] = [200, 1_000];
/// One of this many short calls is observed, as in the library.
const SHORT_CALLS: usize = 4;

/// A call that a process makes, perhaps again and again.
#[derive(Clone, Copy, PartialEq)]
struct Call {
    operation: usize,
    n: f64,
    is_staged: bool,
}

impl Call {
    fn random(random: &mut Random) -> Self {
        Call {
            operation: random.below(OPERATIONS.len()),
            n: random.log_uniform(1e3, 1e8).floor(),
            is_staged: random.unit() < 0.6,
        }
    }

    /// The call's work, if the one before was the same or not.
    fn work(self, is_repeated: bool) -> Work {
        let operation = &OPERATIONS[self.operation];
        let bytes = self.n * (operation.inputs + operation.output);
        let core_ns = (self.n * operation.element_ns) as f32;
        Work {
            operation: self.operation as u32,
            core_ns,
            input_bytes: (self.n * operation.inputs) as f32,
            output_bytes: (self.n * operation.output) as f32,
            is_staged: self.is_staged,
            is_repeated: is_repeated || core_ns <= LONG_CALL_NS,
            most_threads: (bytes / 131_072.0) as usize + 1,
            is_shareable: bytes > 4e6,
        }
    }
}

/// The outcome of a simulated process.
#[derive(Default)]
struct Outcome {
    seed: u64,
    /// Sums of the logarithms of time / oracle's time: of the first calls, and of the others.
    excess: [f64; 2],
    /// The part of them that explored calls have.
    explored: [f64; 2],
    decisions: Vec<(Choice, bool)>,
}

impl Outcome {
    /// The mean logarithm of time / oracle's time in one of the two periods.
    fn mean(&self, period: usize) -> f64 {
        self.excess[period] / CALLS[period] as f64
    }

    /// The same of all calls.
    fn mean_of_all(&self) -> f64 {
        self.excess.iter().sum::<f64>() / CALLS.iter().sum::<usize>() as f64
    }
}

/// Lets a process make its calls: of a few kinds or all different, under a load that changes or not.
fn process(seed: u64) -> Outcome {
    let mut random = Random(seed);
    let mut machine = Simulated::random(&mut random);
    let learner = Learner::new();
    let kinds = [0, 0, 1, 3, 6][random.below(5)];
    let again = [0.0, 0.9][random.below(2)];
    let load_changes = random.unit() < 0.5;
    let calls: Vec<Call> = (0..kinds).map(|_| Call::random(&mut random)).collect();
    let mut sampled = (0..SHORT_CALLS).map(|number| number == 0).cycle();
    let mut outcome = Outcome { seed, ..Outcome::default() };
    let (mut last, mut is_on_cores) = (None, false);
    for number in 0..CALLS[0] + CALLS[1] {
        if load_changes && random.unit() < 0.002 {
            machine.change_load(&mut random);
        }
        let next = if kinds > 0 { calls[random.below(kinds)] } else { Call::random(&mut random) };
        let call = last.filter(|_| random.unit() < again).unwrap_or(next);
        let is_repeated = last.replace(call) == Some(call);
        let work = call.work(is_repeated);
        let is_short = work.core_ns <= SHORT_CALL_NS;
        let decision =
            (!is_short).then(|| learner.decide(&work, &machine.processors, Choices::ALL));
        let choice = decision.map_or(Choice::CallingCore, |decision| decision.choice);
        let time_if =
            |is_cached, choice| machine.time(call.operation, call.n, &work, is_cached, choice);
        let time = |choice| time_if(is_repeated, choice);
        let exists = |choice: &Choice| choice.exists(&work, &machine.processors);
        let least = Choice::ALL.into_iter().filter(exists).map(time).fold(f64::INFINITY, f64::min);
        let taken = time_if(is_repeated && is_on_cores, choice);
        is_on_cores = !matches!(choice, Choice::Gpu | Choice::Gpus);
        let period = usize::from(number >= CALLS[0]);
        let excess = (taken / least).ln();
        outcome.excess[period] += excess;
        let Some(decision) = decision else { continue };
        if decision.is_explored {
            outcome.explored[period] += excess;
        }
        outcome.decisions.push((choice, decision.is_explored));
        if decision.is_observed && (decision.is_long || sampled.next() == Some(true)) {
            let measured = taken * machine.noise(&mut random);
            learner.observe(&work, &machine.processors, choice, measured as f32);
        }
    }
    outcome
}

/// Lets a process run on each machine.
fn processes() -> Vec<Outcome> {
    let halves = [0, 1].map(|first| (FIRST_SEED + first..FIRST_SEED + MACHINES).step_by(2));
    thread::scope(|scope| {
        let running = halves.map(|seeds| scope.spawn(|| seeds.map(process).collect::<Vec<_>>()));
        running.into_iter().flat_map(|half| half.join().unwrap()).collect()
    })
}

/// Prints how one of the means is distributed over the machines, and returns the geometric mean and the largest.
fn distribution(name: &str, outcomes: &[Outcome], mean: impl Fn(&Outcome) -> f64) -> [f64; 2] {
    let mut means: Vec<(f64, u64)> =
        outcomes.iter().map(|outcome| (mean(outcome), outcome.seed)).collect();
    means.sort_by(|a, b| a.0.total_cmp(&b.0));
    let of_all = (means.iter().map(|(mean, _)| mean).sum::<f64>() / means.len() as f64).exp();
    let at = |share: f64| means[((means.len() - 1) as f64 * share) as usize];
    let [median, most, nearly_all] = [0.5, 0.9, 0.99].map(|share| at(share).0.exp());
    let (worst, seed) = (at(1.0).0.exp(), at(1.0).1);
    println!(
        "{name:11} geometric mean {of_all:.3}, median {median:.3}, 90 % {most:.3}, 99 % \
         {nearly_all:.3}, worst {worst:.3} (seed {seed})"
    );
    [of_all, worst]
}

#[test]
fn a_process_takes_hardly_longer_than_one_that_knows_all_times() {
    let outcomes = processes();
    println!("time / oracle's time on {MACHINES} machines:");
    let [first, _] = distribution("first calls", &outcomes, |outcome| outcome.mean(0));
    let [later, _] = distribution("later calls", &outcomes, |outcome| outcome.mean(1));
    let [_, worst] = distribution("all calls", &outcomes, Outcome::mean_of_all);
    let explored = |period: usize| {
        let sum: f64 = outcomes.iter().map(|outcome| outcome.explored[period]).sum();
        (sum / (MACHINES as f64 * CALLS[period] as f64)).exp()
    };
    println!("explored calls alone: first {:.3}, later {:.3}", explored(0), explored(1));
    assert!(first <= 1.10, "the first calls take {first:.3} times as long");
    assert!(later <= 1.05, "the later calls take {later:.3} times as long");
    assert!(worst <= 1.3, "the worst process takes {worst:.3} times as long");
}

#[test]
fn the_same_machine_and_calls_make_the_same_decisions() {
    for seed in FIRST_SEED..FIRST_SEED + 20 {
        assert_eq!(process(seed).decisions, process(seed).decisions, "seed {seed}");
    }
}
