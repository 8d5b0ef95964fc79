//! Compares placement cpu with plain Rust loops: `cargo bench -p gpuvec_benches --bench cpu`.
//!
//! Needs no GPU. `-- add` selects by name. The arrays fit into one core's caches, into the shared cache, or only
//! into memory.

use criterion::measurement::WallTime;
use criterion::{
    AxisScale, BenchmarkGroup, BenchmarkId, Criterion, PlotConfiguration, Throughput,
    criterion_group, criterion_main,
};
use gpuvec::Placement;
use gpuvec::abi::classic::{dot_product, vector_add};
use gpuvec::abi::elementwise::gpuvec_add_f64;
use gpuvec::abi::library::gpuvec_set_placement;
use gpuvec::abi::reduce::gpuvec_dot_f64;
use std::hint::black_box;
use std::iter::zip;
use std::ptr::null_mut;
use std::time::Duration;

const LENGTHS: [usize; 4] = [1_000, 100_000, 1_000_000, 10_000_000];

/// Two inputs and an output, with all pages touched.
struct Arrays<T> {
    a: Vec<T>,
    b: Vec<T>,
    out: Vec<T>,
}

impl<T: Copy + From<u16>> Arrays<T> {
    fn new(n: usize) -> Self {
        let numbers = |step: usize| (0..n).map(|i| T::from((i * step % 1009) as u16)).collect();
        Arrays { a: numbers(7), b: numbers(11), out: vec![T::from(0); n] }
    }
}

/// Makes a group of benchmarks, with gpuvec on placement cpu.
fn group<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    assert_eq!(gpuvec_set_placement(Placement::Cpu as i32), 0);
    let mut group = criterion.benchmark_group(name);
    group.plot_config(PlotConfiguration::default().summary_scale(AxisScale::Logarithmic));
    group.measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    group.sample_size(20);
    group
}

/// Times gpuvec and a plain loop at each length.
fn compare<T: Copy + From<u16>>(
    criterion: &mut Criterion, name: &str, gpuvec: impl Fn(&mut Arrays<T>) -> i32,
    plain: impl Fn(&mut Arrays<T>),
) {
    let mut group = group(criterion, name);
    for n in LENGTHS {
        let mut arrays = Arrays::new(n);
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new("gpuvec", n), |bencher| {
            bencher.iter(|| assert_eq!(gpuvec(black_box(&mut arrays)), 0));
        });
        group.bench_function(BenchmarkId::new("plain loop", n), |bencher| {
            bencher.iter(|| plain(black_box(&mut arrays)));
        });
    }
    group.finish();
}

fn add(criterion: &mut Criterion) {
    compare::<f32>(
        criterion,
        "add_f32",
        |Arrays { a, b, out }| {
            // SAFETY: three arrays of `out.len()` elements, borrowed during the call.
            unsafe { vector_add(a.as_ptr(), b.as_ptr(), out.as_mut_ptr(), out.len()) }
        },
        |Arrays { a, b, out }| zip(out, zip(a, b)).for_each(|(out, (x, y))| *out = *x + *y),
    );
    compare::<f64>(
        criterion,
        "add_f64",
        |Arrays { a, b, out }| {
            // SAFETY: as above.
            unsafe {
                gpuvec_add_f64(a.as_ptr(), b.as_ptr(), out.as_mut_ptr(), out.len(), null_mut())
            }
        },
        |Arrays { a, b, out }| zip(out, zip(a, b)).for_each(|(out, (x, y))| *out = *x + *y),
    );
}

fn dot(criterion: &mut Criterion) {
    compare::<f32>(
        criterion,
        "dot_f32",
        |Arrays { a, b, out }| {
            // SAFETY: two arrays of `a.len()` elements and one of at least one, borrowed.
            unsafe { dot_product(a.as_ptr(), b.as_ptr(), out.as_mut_ptr(), a.len()) }
        },
        |Arrays { a, b, out }| {
            out[0] = zip(a, b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>() as f32;
        },
    );
    compare::<f64>(
        criterion,
        "dot_f64",
        |Arrays { a, b, out }| {
            // SAFETY: as above.
            unsafe { gpuvec_dot_f64(a.as_ptr(), b.as_ptr(), out.as_mut_ptr(), a.len(), null_mut()) }
        },
        |Arrays { a, b, out }| out[0] = zip(a, b).map(|(x, y)| *x * *y).sum(),
    );
}

criterion_group!(benches, add, dot);
criterion_main!(benches);
