//! Folds elements into a state of one value, in vectors.

use super::exact::{Columns, Inputs};
use crate::arch::{InstructionSet, Isa, Vectorized};
use gpuvec_ops::{Accumulator, Fold};

/// Folds elements into one state.
// Not inlined, to keep the library small.
#[inline(never)]
pub(crate) fn fold<O: Fold>(isa: Isa, op: O, inputs: Inputs<'_, O::Element>) -> O::Output {
    isa.run(Folding { op, inputs })
}

struct Folding<'a, O: Fold> {
    op: O,
    inputs: Inputs<'a, O::Element>,
}

impl<O: Fold> Vectorized for Folding<'_, O> {
    type Result = O::Output;

    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) -> O::Output {
        match S::FOLD_LANES {
            128 => body::<O, 128>(self.op, self.inputs),
            32 => body::<O, 32>(self.op, self.inputs),
            _ => body::<O, 8>(self.op, self.inputs),
        }
    }
}

/// States, aligned so that no wide register of them is split between two cache lines.
#[repr(align(64))]
struct Lanes<S, const LANES: usize>([S; LANES]);

/// Folds elements into the states of `LANES` lanes, which registers hold, and merges them.
#[inline(always)]
fn body<O: Fold, const LANES: usize>(op: O, inputs: Inputs<'_, O::Element>) -> O::Output {
    let (a, rest_a) = inputs.a().as_chunks::<LANES>();
    let (b, rest_b) = inputs.b().as_chunks::<LANES>();
    let mut states = [O::Accumulator::IDENTITY; LANES];
    for (a, b) in a.iter().zip(b) {
        for (state, (&x, &y)) in states.iter_mut().zip(a.iter().zip(b)) {
            op.fold(state, x, y);
        }
    }
    let Lanes(lanes) = &mut Lanes(states);
    for (state, (&x, &y)) in lanes.iter_mut().zip(rest_a.iter().zip(rest_b)) {
        op.fold(state, x, y);
    }
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(x, y)| O::Accumulator::merge(x, y));
        half /= 2;
    }
    lanes[0]
}

/// Folds each column into its state.
// Not inlined, to keep the library small.
#[inline(never)]
pub(crate) fn fold_columns<O: Fold>(
    isa: Isa, op: O, states: &mut [O::Output], columns: Columns<'_, O::Element>,
) {
    isa.run_as_short(FoldingColumns { op, states, columns });
}

/// Folds four rows at once, so that a state is loaded and stored once for all of them.
#[inline(always)]
fn fold_rows<O: Fold>(op: O, states: &mut [O::Output], rows: [Inputs<'_, O::Element>; 4]) {
    let len = states.len();
    let [a, b] = [rows.map(|row| &row.a()[..len]), rows.map(|row| &row.b()[..len])];
    for i in 0..len {
        for row in 0..4 {
            op.fold(&mut states[i], a[row][i], b[row][i]);
        }
    }
}

struct FoldingColumns<'a, O: Fold> {
    op: O,
    states: &'a mut [O::Output],
    columns: Columns<'a, O::Element>,
}

impl<O: Fold> Vectorized for FoldingColumns<'_, O> {
    type Result = ();

    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) {
        let FoldingColumns { op, states, columns } = self;
        // Few processors have only the baseline, so that for it one loop must do.
        let whole = if S::HAS_FMA { columns.rows() - columns.rows() % 4 } else { 0 };
        for row in (0..whole).step_by(4) {
            fold_rows(op, states, [0, 1, 2, 3].map(|i| columns.row(row + i)));
        }
        for row in whole..columns.rows() {
            let row = columns.row(row);
            for (state, (&x, &y)) in states.iter_mut().zip(row.a().iter().zip(row.b())) {
                op.fold(state, x, y);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuvec_ops::{DotI32, DotI64, Element, MaxF64, MinF32, SumI32};
    use proptest::prelude::*;

    /// Checks that every instruction set of this processor gives the same bits as one lane.
    fn versions_agree<O: Fold>(op: O, a: &[O::Element], b: &[O::Element]) {
        let inputs = Inputs::new(a, b);
        let bits = |state| O::Accumulator::finish(&state).bits();
        let expected = bits(body::<O, 1>(op, inputs));
        for isa in Isa::all() {
            assert_eq!(bits(fold(isa, op, inputs)), expected, "{isa:?}");
        }
    }

    fn arrays<T: Arbitrary>() -> impl Strategy<Value = [Vec<T>; 2]> {
        (0..=1000usize).prop_flat_map(|len| {
            let array = || prop::collection::vec(any::<T>(), len);
            [array(), array()]
        })
    }

    proptest! {
        #[test]
        fn of_floats([a, _] in arrays::<f32>(), [x, _] in arrays::<f64>()) {
            versions_agree(MinF32, &a, &a);
            versions_agree(MaxF64, &x, &x);
        }

        #[test]
        fn of_integers([a, b] in arrays::<i32>(), [x, y] in arrays::<i64>()) {
            versions_agree(DotI32, &a, &b);
            versions_agree(SumI32, &a, &a);
            versions_agree(DotI64, &x, &y);
        }
    }
}
