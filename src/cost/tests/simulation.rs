//! Learners on many machines, beside an oracle that knows every time.

use super::machines::{OPERATIONS, Random, Simulated};
use crate::{Choice, Decision, Learner, Reason, Work};

const FIRST: usize = 200;
const LATER: usize = 1_000;

#[derive(Clone, Copy)]
struct Case {
    operation: usize,
    n: f64,
    is_staged: bool,
}

impl Case {
    fn random(random: &mut Random) -> Self {
        Case {
            operation: random.below(OPERATIONS.len()),
            n: random.log_uniform(1e3, 1e8).floor(),
            is_staged: random.unit() < 0.6,
        }
    }

    fn work(self) -> Work {
        let operation = &OPERATIONS[self.operation];
        let bytes = self.n * (operation.inputs + operation.output);
        Work {
            operation: self.operation as u32,
            core_ns: (self.n * operation.element_ns) as f32,
            input_bytes: (self.n * operation.inputs) as f32,
            output_bytes: (self.n * operation.output) as f32,
            is_staged: self.is_staged,
            most_threads: (bytes / 131_072.0) as usize + 1,
            is_shareable: bytes > 4e6,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Outcome {
    /// Mean logarithms of time / oracle: of the first calls, of the later ones; explored alone.
    all: [f64; 3],
    explored: [f64; 2],
    few: usize,
    changes: bool,
    seed: u64,
}

fn run(seed: u64) -> Outcome {
    let mut random = Random(seed);
    let mut machine = Simulated::random(&mut random);
    let learner = Learner::new();
    let few = [0, 0, 1, 3, 6][random.below(5)];
    let changes = random.unit() < 0.5;
    let cases: Vec<Case> = (0..few).map(|_| Case::random(&mut random)).collect();
    let mut outcome = Outcome { few, changes, seed, ..Outcome::default() };
    for call in 0..FIRST + LATER {
        if changes && random.unit() < 0.002 {
            machine.change_load(&mut random);
        }
        let case = if few > 0 { cases[random.below(few)] } else { Case::random(&mut random) };
        let work = case.work();
        let Decision { choice, predicted, reason, is_observed } =
            learner.decide(&work, &machine.machine, crate::Choices::ALL);
        let time = |choice| machine.time(case.operation, case.n, &work, choice);
        let there =
            Choice::ALL.into_iter().filter(|choice| predicted[*choice as usize].is_finite());
        let best = there.map(time).fold(f64::INFINITY, f64::min);
        let taken = time(choice);
        let phase = usize::from(call >= FIRST);
        let lost = (taken / best).ln() / [FIRST, LATER][phase] as f64;
        outcome.all[phase] += lost;
        outcome.all[2] += (taken / best).ln() / (FIRST + LATER) as f64;
        if reason == Reason::Explored {
            outcome.explored[phase] += lost;
        }
        if std::env::var("SEED").is_ok_and(|s| s == seed.to_string()) && (taken / best) > 1.2 {
            let t: Vec<String> = Choice::ALL
                .iter()
                .map(|c| {
                    format!("{:?} {:.0}/{:.0}", c, predicted[*c as usize] / 1e3, time(*c) / 1e3)
                })
                .collect();
            println!(
                "seed {call} {:?} {:?} op {} n {:.0} staged {} free {} {}",
                choice,
                reason,
                case.operation,
                case.n,
                case.is_staged,
                machine.free,
                t.join(" ")
            );
        }
        let measured = taken * machine.noise(&mut random);
        let is_long = predicted[choice as usize] > 20_000.0 || choice != Choice::CallingCore;
        if is_observed && (is_long || call % 16 == 0) {
            learner.observe(&work, &machine.machine, choice, measured as f32);
        }
    }
    outcome
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

#[test]
fn distribution() {
    let (base, machines) = (number("BASE", 1000), number("MACHINES", 1000));
    let all: Vec<Outcome> = std::thread::scope(|scope| {
        let run_part = |part: u64| {
            scope.spawn(move || {
                (base..base + machines).skip(part as usize).step_by(2).map(run).collect::<Vec<_>>()
            })
        };
        [0, 1].map(run_part).into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    let classes: [(&str, fn(&Outcome) -> bool); 5] = [
        ("all", |_| true),
        ("few, stable", |o| o.few > 0 && !o.changes),
        ("few, changing", |o| o.few > 0 && o.changes),
        ("many, stable", |o| o.few == 0 && !o.changes),
        ("many, changing", |o| o.few == 0 && o.changes),
    ];
    for (name, is_of) in classes {
        for phase in 0..3 {
            let mut some: Vec<&Outcome> = all.iter().filter(|o| is_of(o)).collect();
            some.sort_by(|a, b| a.all[phase].total_cmp(&b.all[phase]));
            let mean = some.iter().map(|o| o.all[phase]).sum::<f64>() / some.len() as f64;
            let explored =
                some.iter().map(|o| o.explored[phase.min(1)]).sum::<f64>() / some.len() as f64;
            let at = |share: f64| some[((some.len() - 1) as f64 * share) as usize].all[phase].exp();
            println!(
                "{name:15} {phase} mean {:.3} explored {:.3} median {:.3} 90% {:.3} 99% {:.3} worst {:.3} {:?}",
                mean.exp(),
                explored.exp(),
                at(0.5),
                at(0.9),
                at(0.99),
                at(1.0),
                some.iter().rev().take(4).map(|o| o.seed).collect::<Vec<_>>()
            );
        }
    }
}
