//! Compares exact sums with plain loops of the same instructions: `cargo bench --bench exact`.
//!
//! `-- 100000 1 wide normal,outlier` measures 100,000 elements on 1 core, compared with loops that
//! accumulate f32 in f64, for two kinds of data; `same` instead of `wide` puts both arrays at the same page
//! offset. Ratios above 1 mean that the exact sum is faster. Loops take turns, and each core's time is
//! what it computed.

#[expect(dead_code, unused_imports, unused_macros, reason = "only exact sums are measured")]
#[path = "../src/arch/mod.rs"]
mod arch;
#[expect(dead_code, reason = "only the sizes of exact sums are used")]
#[path = "../src/policy/cores.rs"]
mod cores;
mod policy {
    pub(crate) use crate::cores::CORES;
}
#[expect(dead_code, reason = "only forced versions are measured")]
#[path = "../src/cpu"]
mod cpu {
    pub(crate) mod exact;
}

use arch::{Set, Vectorized, Version};
use cpu::exact::{All, Inputs, Vectorised, accumulate};
use gpuvec_exact::{Dot, State, Sum};
use std::hint::black_box;
use std::thread;

/// The elements of a chunk on a core.
const CHUNK: usize = 1 << 16;

const DATA: &str = "normal,uniform,integers,half zeros,sorted,wide,subnormal,outliers,sparse";

/// Random numbers of a kind of data; f32 has exponents to 60, so that products are finite.
fn number(data: &str, random: &mut u64, place: f64, exponents: i32) -> f64 {
    let mut bits = || {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        *random >> 11
    };
    let mut uniform = || bits() as f64 * 2_f64.powi(-53);
    let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
    let dice = uniform();
    match data {
        "normal" => normal,
        "uniform" => dice,
        "integers" => (dice * 201.0).floor() - 100.0,
        "half zeros" => {
            if dice < 0.5 {
                0.0
            } else {
                normal
            }
        }
        "sorted" => place,
        "wide" => normal * 2_f64.powi((uniform() * f64::from(2 * exponents)) as i32 - exponents),
        "subnormal" => dice * if exponents > 60 { 2_f64.powi(-1023) } else { 2_f64.powi(-127) },
        "outliers" => {
            if dice < 1.0 / 512.0 {
                normal * 2_f64.powi(55)
            } else {
                normal
            }
        }
        "sparse" => {
            if dice < 0.01 {
                normal
            } else {
                0.0
            }
        }
        _ => panic!("no data are called {data}; there are {DATA}"),
    }
}

/// An element type with its plain loops.
trait Plain: Copy + Send + Sync + 'static {
    const EXPONENTS: i32;
    fn of(x: f64) -> Self;
    fn sum(version: Version, is_dot: bool, is_wide: bool, a: &[Self], b: &[Self]) -> f64;
}

/// A loop with `$number` accumulators, in the instructions of each version.
macro_rules! plain_loop {
    ($name:ident($element:ty, $accumulator:ty, $number:literal)) => {
        fn $name(version: Version, is_dot: bool, a: &[$element], b: &[$element]) -> f64 {
            struct Loop<'a, const DOT: bool>(&'a [$element], &'a [$element]);

            impl<const DOT: bool> Vectorized for Loop<'_, DOT> {
                type Result = f64;

                #[inline(always)]
                fn run<S: Set>(self, _: S) -> f64 {
                    let mut sums = [0.0; $number];
                    for (a, b) in self.0.chunks_exact($number).zip(self.1.chunks_exact($number)) {
                        for i in 0..$number {
                            let (x, y) = (<$accumulator>::from(a[i]), <$accumulator>::from(b[i]));
                            sums[i] = if DOT { x.mul_add(y, sums[i]) } else { sums[i] + x };
                        }
                    }
                    sums.iter().copied().map(f64::from).sum()
                }
            }

            match is_dot {
                true => version.run(Loop::<true>(a, b)),
                false => version.run(Loop::<false>(a, b)),
            }
        }
    };
}

plain_loop!(plain_f32(f32, f32, 64));
plain_loop!(plain_wide(f32, f64, 32));
plain_loop!(plain_f64(f64, f64, 32));

impl Plain for f32 {
    const EXPONENTS: i32 = 60;
    fn of(x: f64) -> Self {
        x as f32
    }
    fn sum(version: Version, is_dot: bool, is_wide: bool, a: &[f32], b: &[f32]) -> f64 {
        if is_wide { plain_wide(version, is_dot, a, b) } else { plain_f32(version, is_dot, a, b) }
    }
}

impl Plain for f64 {
    const EXPONENTS: i32 = 500;
    fn of(x: f64) -> Self {
        x
    }
    fn sum(version: Version, is_dot: bool, _: bool, a: &[f64], b: &[f64]) -> f64 {
        plain_f64(version, is_dot, a, b)
    }
}

/// The seconds that the calling thread computed.
fn seconds(work: impl FnOnce()) -> f64 {
    let now = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes a local.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let start = now();
    work();
    now() - start
}

struct Run<'a> {
    n: usize,
    cores: usize,
    mode: &'a str,
    data: &'a str,
    version: Version,
}

impl Run<'_> {
    fn compare<K: Vectorised<Element: Plain>>(&self, name: &str) {
        let is_dot = name.starts_with("dot");
        let [a, b] = [1, 2].map(|seed| self.array::<K::Element>(seed));
        // Memory begins at pages, both arrays' or the first's.
        let start = |array: &[K::Element], bytes: usize| {
            ((4096 - array.as_ptr().addr() % 4096) % 4096 + bytes) / size_of::<K::Element>()
        };
        let a = &a[start(&a, 0)..][..self.n];
        let b = &b[start(&b, if self.mode == "same" { 0 } else { 2048 })..][..self.n];
        let plain = |a: &[K::Element], b: &[K::Element]| {
            black_box(K::Element::sum(self.version, is_dot, self.mode == "wide", a, b));
        };
        let exact = |a: &[K::Element], b: &[K::Element]| {
            let mut state = State::<K>::ZERO;
            for (a, b) in a.chunks(CHUNK).zip(b.chunks(CHUNK)) {
                accumulate::<K, All>(self.version, &mut state, Inputs::new(a, b));
            }
            black_box(state.value());
        };
        let rounds = (0..25).map(|_| [self.time(a, b, &plain), self.time(a, b, &exact)]);
        let mut rounds: Vec<_> = rounds.collect();
        rounds.sort_by(|[p, e], [q, f]| (p / e).total_cmp(&(q / f)));
        let [plain, exact] = rounds[rounds.len() / 2].map(|time| time * 1e9 / self.n as f64);
        println!(
            "{:8} {name} {:11} {} plain {plain:.3} exact {exact:.3} ns  {:.2}",
            format!("{:?}", self.version),
            self.data,
            self.mode,
            plain / exact
        );
    }

    fn array<T: Plain>(&self, seed: u64) -> Vec<T> {
        let length = self.n.min(1 << 20);
        let mut random = seed * 0x9E37_79B9_7F4A_7C15;
        let mut number =
            |i| T::of(number(self.data, &mut random, i as f64 / length as f64 - 0.5, T::EXPONENTS));
        let numbers: Vec<T> = (0..length).map(&mut number).collect();
        numbers.iter().copied().cycle().take(self.n + 8192).collect()
    }

    /// The longest time of a core, each with its part of the arrays.
    fn time<T: Plain>(&self, a: &[T], b: &[T], work: &(impl Fn(&[T], &[T]) + Sync)) -> f64 {
        let part = self.n.div_ceil(self.cores);
        let repeats = (1 << 21) / self.n + 1;
        let seconds = thread::scope(|scope| {
            let cores = a.chunks(part).zip(b.chunks(part)).map(|(a, b)| {
                scope.spawn(move || seconds(|| (0..repeats).for_each(|_| work(black_box(a), b))))
            });
            let cores: Vec<_> = cores.collect();
            cores.into_iter().map(|core| core.join().expect("a time")).fold(0.0, f64::max)
        });
        seconds / repeats as f64
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let word = |i: usize, default| arguments.get(i).map_or(default, String::as_str);
    let number = |i, default| word(i, default).parse().expect("a number");
    for version in Version::all().filter(|version| *version != Version::BASELINE) {
        for data in word(3, DATA).split(',') {
            let run = Run {
                n: number(0, "32000000"),
                cores: number(1, "2"),
                mode: word(2, "-"),
                data,
                version,
            };
            run.compare::<Dot<f32>>("dot_f32");
            run.compare::<Sum<f32>>("sum_f32");
            run.compare::<Dot<f64>>("dot_f64");
            run.compare::<Sum<f64>>("sum_f64");
        }
    }
}
