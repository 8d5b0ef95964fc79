//! Means, norms, variances and standard deviations that need several exact sums: of the elements and of their squares,
//! or, for integers, of the two halves of the elements and of the products of the halves.

use gpuvec_exact::{Dot, Float, Kind, State, Sum, mean, root, standard_deviation, variance};
use gpuvec_expr::{Output, OutputKind, Reduction, Type};
use gpuvec_ops::Element;
use std::any::Any;

/// Calls a function with the state of the sum of a number.
pub(super) type Whole<'a> = dyn FnMut(usize, &mut dyn FnMut(&dyn Any)) + 'a;

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

    /// The reduction of each sum, and the type of its values.
    pub(super) fn sums(self) -> impl Iterator<Item = (Reduction, Type)> {
        self.sums.iter().map(move |(sum, _)| (*sum, self.ty))
    }

    /// The bits of the result. `whole` calls a function with the state of the sum of a number.
    pub(super) fn result(self, whole: &mut Whole<'_>) -> u64 {
        match self.ty {
            Type::F32 => self.combined::<f32>(whole),
            _ => self.combined::<f64>(whole),
        }
    }

    #[inline(never)]
    fn combined<T: Float + Element>(self, whole: &mut Whole<'_>) -> u64
    where
        Sum<T>: Kind<Element = T>,
        Dot<T>: Kind<Element = T>,
    {
        const TYPE: &str = "a state of the sum's type";
        let (mut sum, mut squares) = (State::<Sum<T>>::ZERO, State::<Dot<T>>::ZERO);
        for (number, (reduction, operands)) in self.sums.iter().enumerate() {
            whole(number, &mut |state| match reduction {
                Reduction::Sum => sum.merge_part(state.downcast_ref().expect(TYPE)),
                _ => {
                    // The square of an integer contains the product of its two halves twice.
                    let times = if *operands == [0, 1] { 2 } else { 1 };
                    let products = state.downcast_ref().expect(TYPE);
                    (0..times).for_each(|_| squares.merge_part(products));
                }
            });
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
