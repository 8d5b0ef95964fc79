use crate::{Choice, Learner, Machine, Work};
#[test]
fn speed() {
    let learner = Learner::new();
    let work = Work {
        operation: 3,
        core_ns: 20_000.0,
        input_bytes: 8e5,
        output_bytes: 4e5,
        is_staged: true,
        most_threads: 10,
        is_shareable: true,
    };
    for (cores, gpus) in [(2, 0), (16, 0), (16, 1), (16, 2)] {
        let machine = Machine { cores, gpus };
        let n = 200_000;
        let begin = std::time::Instant::now();
        for _ in 0..n {
            std::hint::black_box(learner.decide(
                std::hint::black_box(&work),
                &machine,
                crate::Choices::ALL,
            ));
        }
        let decide = begin.elapsed().as_nanos() as f32 / n as f32;
        let begin = std::time::Instant::now();
        for _ in 0..n {
            learner.observe(&work, &machine, Choice::CallingCore, std::hint::black_box(21_000.0));
        }
        println!(
            "seed {cores} {gpus} decide {decide} observe {}",
            begin.elapsed().as_nanos() as f32 / n as f32
        );
    }
}
