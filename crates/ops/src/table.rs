//! The table of operations: types and traits, made from the rows of rows.rs. To add an operation, see
//! docs/contributing/adding.md.

use crate::{Accumulator, Element, Max, Min, WrappingSum};
use gpuvec_exact::{Dot, Kind, State, Sum, Windowed};
use gpuvec_expr::{Form, Input, Program, compile};

/// The one step of an operation's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Computes `out[i]` from element `i` of each input.
    Map(gpuvec_expr::Op),
    /// Computes one value from all elements of the inputs.
    Reduce(gpuvec_expr::Reduction),
}

/// A line of the table, as a type, over which the backends are generic. The type has a field if the operation
/// multiplies by a number.
pub trait Operation: Copy + Send + Sync + 'static {
    /// The value of [`Op`] for the type.
    const OP: Op;
    /// The type of the inputs' elements.
    type Element: Element;
    /// The type of the output's elements.
    type Output: Element;

    /// The number's bits, as the kernel takes them; 0 if there is none.
    fn alpha(self) -> u64 {
        0
    }

    /// The operation with a number of these bits, if it has one.
    fn with_alpha(bits: u64) -> Self;
}

/// An operation on each element alone.
pub trait Elementwise: Operation<Output = <Self as Operation>::Element> {
    /// Computes one element of the output, before a NaN is made canonical. With one input, `b` is `a`.
    fn apply(self, a: Self::Element, b: Self::Element) -> Self::Element;
}

/// An operation that accumulates all elements.
pub trait Reduction: Operation {
    /// Its accumulator.
    type Accumulator: Accumulator<Result = Self::Output>;
}

/// A reduction with a state that is one value of the output's type.
pub trait Fold:
    Reduction<Accumulator: Accumulator<State = Self::Output, Words = Self::Output>>
{
    /// Adds an element to the state. With one input, `b` is `a`.
    fn fold(self, state: &mut Self::Output, a: Self::Element, b: Self::Element);
}

/// A sum that is exact, and rounded once.
pub trait Exact: Reduction<Accumulator = Self::Kind> {
    /// The kind of the sum.
    type Kind: Windowed<Element = Self::Element>
        + Accumulator<
            State = State<Self::Kind>,
            Words = <Self::Kind as Kind>::Words,
            Result = Self::Output,
        >;
}

/// Code that is generic over an operation's type, for operations known only at run time.
pub trait Visitor {
    /// The code's result.
    type Result;
    /// Runs for an elementwise operation.
    fn elementwise<O: Elementwise>(self, op: O) -> Self::Result;
    /// Runs for a reduction with a state of one value.
    fn fold<O: Fold>(self, op: O) -> Self::Result;
    /// Runs for an exact sum.
    fn exact<O: Exact>(self, op: O) -> Self::Result;
}

/// Implements a reduction's traits. A reduction with a formula folds; a reduction without one is an exact sum.
macro_rules! reduction {
    ($op:ident of $type:ident => $out:ident by $accumulator:ty) => {
        impl Exact for $op {
            type Kind = $accumulator;
        }
    };
    (
        $op:ident of $type:ident => $out:ident by $accumulator:ty:
        ($state:pat, $a:pat, $b:pat) => $added:expr
    ) => {
        impl Fold for $op {
            #[inline(always)]
            fn fold(self, $state: &mut $out, $a: $type, $b: $type) {
                $added;
            }
        }
    };
    (visit $op:ident by $visitor:ident) => {
        $visitor.exact($op)
    };
    (visit $op:ident by $visitor:ident: $added:expr) => {
        $visitor.fold($op)
    };
}

macro_rules! operations {
    (
        elementwise {
            $($(#[doc = $_e_doc:literal])+
            $e_name:literal, $e_inputs:literal inputs, $e_formula:literal by $e_step:ident {
                $($(#[doc = $_e_more:literal])* $e:ident $(($alpha:ident))? of $e_type:ident: ($e_a:pat, $e_b:pat) => $e_out:expr;)+
            })+
        }
        reduction {
            $($(#[doc = $_r_doc:literal])+
            $r_name:literal, $r_inputs:literal inputs, $r_formula:literal by $r_step:ident {
                $($(#[doc = $_r_more:literal])* $r:ident of $r_type:ident => $r_out:ident by $accumulator:ty
                    $(: ($state:pat, $r_a:pat, $r_b:pat) => $added:expr)?;)+
            })+
        }
    ) => {
        /// The rows of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Op {
            $($(#[doc = concat!("`", $e_formula, "` of ", stringify!($e_type), ".")] $e,)+)+
            $($(#[doc = concat!("`", $r_formula, "` of ", stringify!($r_type), ".")] $r,)+)+
        }

        impl Op {
            /// Every operation, in the table's order.
            pub const ALL: &[Op] = &[$($(Op::$e,)+)+ $($(Op::$r,)+)+];

            /// The name of the operation's kernel, and of its function after `gpuvec_`.
            #[must_use]
            pub const fn kernel(self) -> &'static str {
                match self {
                    $($(Op::$e => concat!($e_name, "_", stringify!($e_type)),)+)+
                    $($(Op::$r => concat!($r_name, "_", stringify!($r_type)),)+)+
                }
            }

            /// The operation as an expression of its arrays `a` and `b` and of the number `alpha` by which it
            /// multiplies.
            #[must_use]
            pub const fn formula(self) -> &'static str {
                match self {
                    $($(Op::$e => $e_formula,)+)+
                    $($(Op::$r => $r_formula,)+)+
                }
            }

            /// The step of its program.
            #[must_use]
            pub const fn step(self) -> Step {
                match self {
                    $($(Op::$e => Step::Map(gpuvec_expr::Op::$e_step),)+)+
                    $($(Op::$r => Step::Reduce(gpuvec_expr::Reduction::$r_step),)+)+
                }
            }

            /// The type of its inputs' elements.
            #[must_use]
            pub const fn element(self) -> gpuvec_expr::Element {
                match self {
                    $($(Op::$e => <$e_type as Element>::ELEMENT,)+)+
                    $($(Op::$r => <$r_type as Element>::ELEMENT,)+)+
                }
            }

            /// The number of its input arrays: one or two.
            #[must_use]
            pub const fn inputs(self) -> usize {
                match self {
                    $($(Op::$e => $e_inputs,)+)+
                    $($(Op::$r => $r_inputs,)+)+
                }
            }

            /// True if the operation multiplies by a number.
            #[must_use]
            pub const fn has_alpha(self) -> bool {
                match self {
                    $($(Op::$e => !stringify!($($alpha)?).is_empty(),)+)+
                    _ => false,
                }
            }

            /// The size of an element of its inputs, in bytes.
            #[must_use]
            pub const fn element_bytes(self) -> usize {
                self.element().bytes()
            }

            /// The size of an element of its output, in bytes.
            #[must_use]
            pub const fn output_bytes(self) -> usize {
                match self {
                    $($(Op::$r => size_of::<$r_out>(),)+)+
                    _ => self.element_bytes(),
                }
            }

            /// The size of a reduction's state as its kernel writes it, in bytes.
            #[must_use]
            pub const fn state_bytes(self) -> usize {
                match self {
                    $($(Op::$r => size_of::<<$accumulator as Accumulator>::Words>(),)+)+
                    _ => 0,
                }
            }

            /// True for an exact sum, which is rounded once.
            #[must_use]
            pub const fn is_exact(self) -> bool {
                match self {
                    $($(Op::$r => stringify!($($added)?).is_empty(),)+)+
                    _ => false,
                }
            }

            /// True if the operation has a result for no elements.
            #[must_use]
            pub const fn has_empty_result(self) -> bool {
                match self {
                    $($(Op::$r => <$accumulator as Accumulator>::HAS_EMPTY_RESULT,)+)+
                    _ => true,
                }
            }

            /// Runs the visitor's code for the operation's type. `bits` are the bits of its number.
            #[inline(always)]
            pub fn visit<V: Visitor>(self, bits: u64, visitor: V) -> V::Result {
                match self {
                    $($(Op::$e => visitor.elementwise($e::with_alpha(bits)),)+)+
                    $($(Op::$r => reduction!(visit $r by visitor $(: $added)?),)+)+
                }
            }
        }

        $($(
            #[doc = concat!("`", $e_formula, "` of ", stringify!($e_type), ".")]
            #[derive(Clone, Copy, Debug)]
            pub struct $e $((#[doc = stringify!($alpha)] pub $e_type))?;

            impl Operation for $e {
                const OP: Op = Op::$e;
                type Element = $e_type;
                type Output = $e_type;

                $(fn alpha(self) -> u64 {
                    let $alpha = self.0;
                    $alpha.bits()
                })?

                #[inline(always)]
                fn with_alpha(_bits: u64) -> Self {
                    $e $(({
                        let $alpha = <$e_type as Element>::from_bits(_bits);
                        $alpha
                    }))?
                }
            }

            impl Elementwise for $e {
                #[inline(always)]
                fn apply(self, $e_a: $e_type, $e_b: $e_type) -> $e_type {
                    $(let $alpha = self.0;)?
                    $e_out
                }
            }
        )+)+

        $($(
            #[doc = concat!("`", $r_formula, "` of ", stringify!($r_type), ".")]
            #[derive(Clone, Copy, Debug, Default)]
            pub struct $r;

            impl Operation for $r {
                const OP: Op = Op::$r;
                type Element = $r_type;
                type Output = $r_out;

                fn with_alpha(_: u64) -> Self {
                    $r
                }
            }

            impl Reduction for $r {
                type Accumulator = $accumulator;
            }

            reduction! {
                $r of $r_type => $r_out by $accumulator $(: ($state, $r_a, $r_b) => $added)?
            }
        )+)+
    };
}

include!("rows.rs");

impl Op {
    /// The operation's program. The inputs are the arrays and, if the operation multiplies by a number, that number.
    ///
    /// # Panics
    /// If the row's formula is not an expression. (The tests compile each formula.)
    #[must_use]
    pub fn program(self) -> Program {
        let element = self.element();
        let array = |name| Input { name, element, form: Form::Array };
        let number = Input { name: "alpha", element, form: Form::Scalar };
        let arrays = ["a", "b"].into_iter().take(self.inputs()).map(array);
        let inputs: Vec<_> = arrays.chain(self.has_alpha().then_some(number)).collect();
        compile(self.formula(), &inputs).expect("a row's formula is an expression")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuvec_expr::Source;

    #[test]
    fn a_program_is_the_rows_step_on_its_inputs() {
        for &op in Op::ALL {
            let program = op.program();
            let is_input = |node: &gpuvec_expr::Node| matches!(node.source, Source::Input(_));
            let computed: Vec<_> = program.nodes().iter().filter(|node| !is_input(node)).collect();
            match op.step() {
                Step::Map(step) => {
                    assert_eq!(computed.len(), 1, "{op:?}");
                    assert_eq!(computed[0].source, Source::Op(step), "{op:?}");
                }
                Step::Reduce(reduction) => {
                    assert!(computed.is_empty(), "{op:?}");
                    assert_eq!(
                        program.reduction(),
                        Some((reduction, op.element().widened())),
                        "{op:?}"
                    );
                }
            }
            assert!(program.nodes().iter().all(|node| node.ty == op.element().widened()), "{op:?}");
            let [output] = program.outputs() else { panic!("{op:?}") };
            assert_eq!(output.element.bytes(), op.output_bytes(), "{op:?}");
            assert_eq!(program.inputs().len(), op.inputs() + usize::from(op.has_alpha()), "{op:?}");
        }
    }
}
