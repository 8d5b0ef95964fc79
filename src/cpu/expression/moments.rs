//! Means, norms, variances and standard deviations that need several exact sums: of the elements and of their squares,
//! or, for integers, of the two halves of the elements and of the products of the halves.

use super::erased::{ErasedStates, StatesOf};
use super::reduce::{BlockReduction, Exact};
use gpuvec_exact::{Dot, Float, Kind, State, Sum, mean, root, standard_deviation, variance};
use gpuvec_expr::{Output, OutputKind, Reduction, Type};
use gpuvec_ops::{Accumulator, Element};

/// The computation of a result from its sums.
#[derive(Clone, Copy)]
pub(super) struct Moments {
    reduction: Reduction,
    ddof: i64,
    ty: Type,
    /// The reduction of each sum, and the numbers of the output's operands that it takes.
    sums: &'static [(Reduction, &'static [usize])],
}

impl Moments {
    /// The computation of an output; `None` if it has fewer than two sums.
    pub(super) fn of(output: &Output) -> Option<Self> {
        match (output.kind, output.sums()) {
            (
                OutputKind::Reduced { reduction, ddof } | OutputKind::Grouped { reduction, ddof },
                sums @ [_, _, ..],
            ) => Some(Moments { reduction, ddof: ddof.into(), ty: output.ty, sums }),
            (_, [] | [_]) | (OutputKind::Elementwise | OutputKind::Single, _) => None,
        }
    }

    /// A prototype of the states of each sum.
    pub(super) fn states(self) -> impl Iterator<Item = Box<dyn ErasedStates>> {
        self.sums.iter().map(move |(sum, _)| <dyn ErasedStates>::of(*sum, self.ty, None))
    }

    /// The bits of the result that the state number `state` of each sum gives.
    pub(super) fn result(self, sums: &mut [Box<dyn ErasedStates>], state: usize) -> u64 {
        match self.ty {
            Type::F32 => self.combined::<f32>(sums, state),
            _ => self.combined::<f64>(sums, state),
        }
    }

    #[inline(never)]
    fn combined<T: Float + Element>(self, sums: &mut [Box<dyn ErasedStates>], state: usize) -> u64
    where
        Sum<T>: Kind<Element = T>,
        Dot<T>: Kind<Element = T>,
        Exact<Sum<T>>: BlockReduction<Accumulator: Accumulator<State = State<Sum<T>>>>,
        Exact<Dot<T>>: BlockReduction<Accumulator: Accumulator<State = State<Dot<T>>>>,
    {
        let (mut sum, mut squares) = (State::<Sum<T>>::ZERO, State::<Dot<T>>::ZERO);
        for ((reduction, operands), states) in self.sums.iter().zip(sums) {
            match reduction {
                Reduction::Sum => {
                    sum.merge_part(StatesOf::<Exact<Sum<T>>>::whole(&mut **states, state))
                }
                _ => {
                    // The square of an integer contains the product of its two halves twice.
                    let times = if *operands == [0, 1] { 2 } else { 1 };
                    let products = StatesOf::<Exact<Dot<T>>>::whole(&mut **states, state);
                    (0..times).for_each(|_| squares.merge_part(products));
                }
            }
        }
        match self.reduction {
            Reduction::Mean => mean(&sum),
            Reduction::Norm => root(&squares),
            Reduction::Std => standard_deviation(&sum, &squares, self.ddof),
            _ => variance(&sum, &squares, self.ddof),
        }
        .bits()
    }
}
