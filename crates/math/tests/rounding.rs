//! Every function of one f32 against CORE-MATH, whose functions are proved to round correctly.

use std::thread;

/// Inputs are tried in blocks, which the compiler can turn into vectors.
const BLOCK: u32 = 1 << 16;
const BLOCKS: u32 = 1 << 16;

/// Blocks with results close to the middle of two floats, with 1, and with the infinities and NaNs.
const HARD: [u32; 19] = [
    0x3288, 0x3540, 0x3710, 0x3a12, 0x3b42, 0x3d8d, 0x3982, 0x3efd, 0x3f80, 0x5f18, 0x6115, 0x7f80,
    0xb53f, 0xb70f, 0xba12, 0xbb0e, 0xbcf3, 0xbd8d, 0xff80,
];

type Function = fn(f32) -> f32;

/// An input with its result and the right one.
type Wrong = (f32, f32, f32);

fn inputs(block: u32) -> impl Iterator<Item = f32> {
    (0..BLOCK).map(move |i| f32::from_bits(block * BLOCK + i))
}

/// Returns the wrong results of some blocks; NaNs are all alike.
fn wrong(ours: fn(&mut [f32]), oracle: Function, blocks: impl Iterator<Item = u32>) -> Vec<Wrong> {
    let mut found = Vec::new();
    for block in blocks {
        let mut results: Vec<f32> = inputs(block).collect();
        ours(&mut results);
        for (x, result) in inputs(block).zip(results) {
            let right = oracle(x);
            let same = result.to_bits() == right.to_bits() || (result.is_nan() && right.is_nan());
            if !same {
                found.push((x, result, right));
            }
        }
    }
    found
}

/// Returns the wrong results of all blocks, which two threads share.
fn wrong_of_all(ours: fn(&mut [f32]), oracle: Function) -> Vec<Wrong> {
    thread::scope(|scope| {
        let odd = scope.spawn(move || wrong(ours, oracle, (1..BLOCKS).step_by(2)));
        let mut found = wrong(ours, oracle, (0..BLOCKS).step_by(2));
        found.extend(odd.join().expect("the other thread does not panic"));
        found
    })
}

macro_rules! functions {
    ($($op:ident $name:ident $arguments:tt $loops:ident $cost:tt $oracle:ident;)*) => {
        $(functions!(@test $name $arguments $oracle);)*
    };
    // tests/two_arguments.rs
    (@test $name:ident (x y) $oracle:ident) => {};
    (@test $name:ident (x) $oracle:ident) => {
        mod $name {
            use gpuvec_math::Scalar;

            fn ours(block: &mut [f32]) {
                block.iter_mut().for_each(|x| *x = gpuvec_math::$name(&Scalar, *x));
            }

            #[test]
            fn rounds_a_sample_correctly() {
                let sample = (0..super::BLOCKS).step_by(521).chain(super::HARD);
                assert_eq!(super::wrong(ours, core_math::$oracle, sample), []);
            }

            #[test]
            #[ignore = "takes a minute on two cores (make every-float)"]
            fn rounds_every_input_correctly() {
                assert_eq!(super::wrong_of_all(ours, core_math::$oracle), []);
            }
        }
    };
}

gpuvec_math::functions!(functions!);
