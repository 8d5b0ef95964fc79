//! Times the analysis of the axes of a call: `cargo bench -p gpuvec_benches --bench axes`.

use criterion::{Criterion, criterion_group, criterion_main};
use gpuvec_axes::{Argument, Arguments, Axes, Stride, View};
use std::hint::black_box;

/// The axes of three arrays of f32 with these strides, the last one the output.
fn measure(
    criterion: &mut Criterion, name: &str, shape: &[i64], reduced_axes: u64,
    strides: [Option<&[i64]>; 3],
) {
    let bytes = |strides: &[i64]| strides.iter().map(|stride| stride.to_ne_bytes()).collect();
    let strides: [Option<Vec<Stride>>; 3] = strides.map(|strides| strides.map(bytes));
    let [a, b, out] = [1, 2, 3].map(|place| Argument {
        address: place << 40,
        element_bytes: 4,
        strides: strides[place - 1].as_deref(),
    });
    let (inputs, outputs) = ([a, b], [out]);
    let arguments = Arguments {
        shape,
        inputs: &inputs,
        outputs: &outputs,
        whole_outputs: 0,
        reduced_axes,
        is_indexed: false,
    };
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            let mut views = [View::default(); 3];
            let axes = Axes::new(black_box(&arguments), &mut views);
            assert!(black_box(axes).is_ok_and(|axes| axes.is_some()));
            black_box(&views);
        });
    });
}

fn all(criterion: &mut Criterion) {
    const ROWS: i64 = 4000;
    let none = [None; 3];
    measure(criterion, "one axis", &[1000], 0, none);
    measure(criterion, "C order, NULL strides", &[1000, 1000], 0, none);
    let c: Option<&[i64]> = Some(&[ROWS, 4]);
    measure(criterion, "C order, given strides", &[1000, 1000], 0, [c; 3]);
    let f: Option<&[i64]> = Some(&[4, ROWS]);
    measure(criterion, "Fortran order", &[1000, 1000], 0, [f; 3]);
    measure(criterion, "a + row", &[1000, 1000], 0, [c, Some(&[0, 4]), c]);
    measure(criterion, "a + b.T", &[1000, 1000], 0, [c, f, c]);
    measure(criterion, "backwards", &[1000, 1000], 0, [Some(&[-ROWS, -4]); 3]);
    measure(criterion, "sums of rows", &[1000, 1000], 2, [c, c, None]);
    measure(criterion, "sums of columns", &[1000, 1000], 1, [c, c, None]);
    let nchw: Option<&[i64]> = Some(&[3 * 4 * ROWS, 4 * ROWS, ROWS, 4]);
    let nhwc: Option<&[i64]> = Some(&[3 * 4 * ROWS, 4, 12 * 1000, 12]);
    measure(criterion, "NCHW to NHWC", &[8, 3, 4, 1000], 0, [nchw, Some(&[0, 4, 0, 0]), nhwc]);
}

criterion_group!(benches, all);
criterion_main!(benches);
