//! The table of operations: one row per operation and element type.
//!
//! A row gives the kernel's name and the formula of one element; everything else follows from it.
//! To add an operation, see CONTRIBUTING.md.

use crate::element::Element;
use crate::sum::{Sum, SumKind};

/// What an operation makes of its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `out[i]` from the inputs' elements `i`.
    Elementwise,
    /// One value from all elements of the inputs.
    Reduction,
}

/// A row of the table, as a type: what the backends are generic over. Its field, if it has one, is
/// the number by which it multiplies.
pub trait Operation: Copy + Send + Sync + 'static {
    /// The row's place in [`Op::ALL`].
    const OP: Op;
    /// What the input arrays hold.
    type Element: Element;
    /// What the output holds.
    type Output: Element;

    /// The number's bits, as the kernel takes it; 0 where there is none.
    fn alpha(self) -> u64 {
        0
    }
}

/// An operation on each element alone.
pub trait Elementwise: Operation<Output = <Self as Operation>::Element> {
    /// One element of the output, before its NaN is made canonical. With one input `b` is `a`.
    fn apply(self, a: Self::Element, b: Self::Element) -> Self::Element;
}

/// What a reduction's terms are added up in.
pub type SumOf<O> = <<O as Operation>::Output as Element>::Sum;

/// An operation that adds up a term for each element (`crate::sum` says in which order).
pub trait Reduction: Operation {
    /// One term. With one input `b` is `a`.
    fn term(self, a: Self::Element, b: Self::Element) -> SumOf<Self>;
    /// The sum and one more term. With `FUSED`, on a processor that has a fused multiply-add, in one
    /// instruction, where that changes no bits.
    #[inline(always)]
    fn added<const FUSED: bool>(
        self,
        sum: SumOf<Self>,
        a: Self::Element,
        b: Self::Element,
    ) -> SumOf<Self> {
        sum.plus(self.term(a, b))
    }
    /// The sum of all terms, rounded once.
    fn round(self, sum: SumOf<Self>) -> Self::Output;
}

/// Something to do with an operation that is known only at run time.
pub trait Visitor {
    /// What comes of it.
    type Result;
    /// For an elementwise operation.
    fn elementwise<O: Elementwise>(self, op: O) -> Self::Result;
    /// For a reduction.
    fn reduction<O: Reduction>(self, op: O) -> Self::Result;
}

macro_rules! visit {
    (Elementwise, $visitor:ident, $op:expr) => {
        $visitor.elementwise($op)
    };
    (Reduction, $visitor:ident, $op:expr) => {
        $visitor.reduction($op)
    };
}

macro_rules! has {
    () => {
        false
    };
    ($alpha:ty) => {
        true
    };
}

macro_rules! operations {
    ($(
        $(#[$doc:meta])+
        $row:ident $(($alpha:ty))?: $kernel:literal, $inputs:literal of $element:ty => $output:ty,
        $shape:ident { $($formula:item)+ }
    )+) => {
        /// The rows of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Op {
            $($(#[$doc])+ $row,)+
        }

        impl Op {
            /// Every row, in the table's order.
            pub const ALL: &[Op] = &[$(Op::$row),+];

            /// The name of the operation's kernel, and its name in messages.
            #[must_use]
            pub const fn kernel(self) -> &'static str {
                match self { $(Op::$row => $kernel),+ }
            }

            /// What the operation makes of its inputs.
            #[must_use]
            pub const fn shape(self) -> Shape {
                match self { $(Op::$row => Shape::$shape),+ }
            }

            /// How many input arrays it has: one or two.
            #[must_use]
            pub const fn inputs(self) -> usize {
                match self { $(Op::$row => $inputs),+ }
            }

            /// Whether it multiplies by a number.
            #[must_use]
            pub const fn has_alpha(self) -> bool {
                match self { $(Op::$row => has!($($alpha)?)),+ }
            }

            /// The size of an element of its inputs, in bytes.
            #[must_use]
            pub const fn element_bytes(self) -> usize {
                match self { $(Op::$row => size_of::<$element>()),+ }
            }

            /// The size of an element of its output, in bytes.
            #[must_use]
            pub const fn output_bytes(self) -> usize {
                match self { $(Op::$row => size_of::<$output>()),+ }
            }

            /// What a reduction with such an output adds its terms up in.
            #[must_use]
            pub const fn sum_kind(self) -> SumKind {
                match self { $(Op::$row => <<$output as Element>::Sum as Sum>::KIND),+ }
            }

            /// Does what the visitor does with the row's type; `alpha` is the bits of its number.
            pub fn visit<V: Visitor>(self, alpha: u64, visitor: V) -> V::Result {
                match self {
                    $(Op::$row => visit!(
                        $shape, visitor, $row $((<$alpha as Element>::from_bits(alpha)))?
                    )),+
                }
            }
        }

        $(
            $(#[$doc])+
            #[derive(Clone, Copy, Debug)]
            pub struct $row $((pub $alpha))?;

            impl Operation for $row {
                const OP: Op = Op::$row;
                type Element = $element;
                type Output = $output;

                $(fn alpha(self) -> u64 {
                    <$alpha as Element>::bits(self.0)
                })?
            }

            impl $shape for $row {
                $(#[inline(always)] $formula)+
            }
        )+
    };
}

operations! {
    /// `a[i] + b[i]` in f32.
    AddF32: "add_f32", 2 of f32 => f32, Elementwise {
        fn apply(self, a: f32, b: f32) -> f32 { a + b }
    }

    /// `a[i] + b[i]` in f64.
    AddF64: "add_f64", 2 of f64 => f64, Elementwise {
        fn apply(self, a: f64, b: f64) -> f64 { a + b }
    }

    /// `a[i] + b[i]` in i32, wrapping.
    AddI32: "add_i32", 2 of i32 => i32, Elementwise {
        fn apply(self, a: i32, b: i32) -> i32 { a.wrapping_add(b) }
    }

    /// `a[i] + b[i]` in i64, wrapping.
    AddI64: "add_i64", 2 of i64 => i64, Elementwise {
        fn apply(self, a: i64, b: i64) -> i64 { a.wrapping_add(b) }
    }

    /// `a[i] - b[i]` in f32.
    SubF32: "sub_f32", 2 of f32 => f32, Elementwise {
        fn apply(self, a: f32, b: f32) -> f32 { a - b }
    }

    /// `a[i] - b[i]` in f64.
    SubF64: "sub_f64", 2 of f64 => f64, Elementwise {
        fn apply(self, a: f64, b: f64) -> f64 { a - b }
    }

    /// `a[i] - b[i]` in i32, wrapping.
    SubI32: "sub_i32", 2 of i32 => i32, Elementwise {
        fn apply(self, a: i32, b: i32) -> i32 { a.wrapping_sub(b) }
    }

    /// `a[i] - b[i]` in i64, wrapping.
    SubI64: "sub_i64", 2 of i64 => i64, Elementwise {
        fn apply(self, a: i64, b: i64) -> i64 { a.wrapping_sub(b) }
    }

    /// `a[i] * b[i]` in f32.
    MulF32: "mul_f32", 2 of f32 => f32, Elementwise {
        fn apply(self, a: f32, b: f32) -> f32 { a * b }
    }

    /// `a[i] * b[i]` in f64.
    MulF64: "mul_f64", 2 of f64 => f64, Elementwise {
        fn apply(self, a: f64, b: f64) -> f64 { a * b }
    }

    /// `a[i] * b[i]` in i32, wrapping.
    MulI32: "mul_i32", 2 of i32 => i32, Elementwise {
        fn apply(self, a: i32, b: i32) -> i32 { a.wrapping_mul(b) }
    }

    /// `a[i] * b[i]` in i64, wrapping.
    MulI64: "mul_i64", 2 of i64 => i64, Elementwise {
        fn apply(self, a: i64, b: i64) -> i64 { a.wrapping_mul(b) }
    }

    /// `a[i] / b[i]` in f32.
    DivF32: "div_f32", 2 of f32 => f32, Elementwise {
        fn apply(self, a: f32, b: f32) -> f32 { a / b }
    }

    /// `a[i] / b[i]` in f64.
    DivF64: "div_f64", 2 of f64 => f64, Elementwise {
        fn apply(self, a: f64, b: f64) -> f64 { a / b }
    }

    /// `alpha * a[i]` in f32.
    ScaleF32(f32): "scale_f32", 1 of f32 => f32, Elementwise {
        fn apply(self, a: f32, _: f32) -> f32 { self.0 * a }
    }

    /// `alpha * a[i]` in f64.
    ScaleF64(f64): "scale_f64", 1 of f64 => f64, Elementwise {
        fn apply(self, a: f64, _: f64) -> f64 { self.0 * a }
    }

    /// `alpha * a[i] + b[i]` in f32, rounded once.
    AxpyF32(f32): "axpy_f32", 2 of f32 => f32, Elementwise {
        fn apply(self, a: f32, b: f32) -> f32 { self.0.mul_add(a, b) }
    }

    /// `alpha * a[i] + b[i]` in f64, rounded once.
    AxpyF64(f64): "axpy_f64", 2 of f64 => f64, Elementwise {
        fn apply(self, a: f64, b: f64) -> f64 { self.0.mul_add(a, b) }
    }

    /// The sum of `a[i] * b[i]` in f32. A product of two f32 has at most 48 bits: exact in f64.
    DotF32: "dot_f32", 2 of f32 => f32, Reduction {
        fn term(self, a: f32, b: f32) -> f64 { f64::from(a) * f64::from(b) }
        fn added<const FUSED: bool>(self, sum: f64, a: f32, b: f32) -> f64 {
            // The product is exact, so that only the sum is rounded either way.
            if FUSED { f64::from(a).mul_add(f64::from(b), sum) } else { sum + self.term(a, b) }
        }
        fn round(self, sum: f64) -> f32 { sum as f32 }
    }

    /// The sum of `a[i] * b[i]` in f64, each product rounded.
    DotF64: "dot_f64", 2 of f64 => f64, Reduction {
        fn term(self, a: f64, b: f64) -> f64 { a * b }
        fn round(self, sum: f64) -> f64 { sum }
    }

    /// The sum of `a[i] * b[i]` of i32 in i64: products are exact, the sum wraps.
    DotI32: "dot_i32", 2 of i32 => i64, Reduction {
        fn term(self, a: i32, b: i32) -> i64 { i64::from(a) * i64::from(b) }
        fn round(self, sum: i64) -> i64 { sum }
    }

    /// The sum of `a[i] * b[i]` in i64, wrapping.
    DotI64: "dot_i64", 2 of i64 => i64, Reduction {
        fn term(self, a: i64, b: i64) -> i64 { a.wrapping_mul(b) }
        fn round(self, sum: i64) -> i64 { sum }
    }

    /// The sum of `a[i]` in f32.
    SumF32: "sum_f32", 1 of f32 => f32, Reduction {
        fn term(self, a: f32, _: f32) -> f64 { f64::from(a) }
        fn round(self, sum: f64) -> f32 { sum as f32 }
    }

    /// The sum of `a[i]` in f64.
    SumF64: "sum_f64", 1 of f64 => f64, Reduction {
        fn term(self, a: f64, _: f64) -> f64 { a }
        fn round(self, sum: f64) -> f64 { sum }
    }

    /// The sum of `a[i]` of i32 in i64, wrapping.
    SumI32: "sum_i32", 1 of i32 => i64, Reduction {
        fn term(self, a: i32, _: i32) -> i64 { i64::from(a) }
        fn round(self, sum: i64) -> i64 { sum }
    }

    /// The sum of `a[i]` in i64, wrapping.
    SumI64: "sum_i64", 1 of i64 => i64, Reduction {
        fn term(self, a: i64, _: i64) -> i64 { a }
        fn round(self, sum: i64) -> i64 { sum }
    }
}
