//! The table of operations: one row per operation and element type.
//!
//! A row gives the kernel's name and the formula of one element; everything else follows from it.
//! To add an operation, see CONTRIBUTING.md.

use crate::{Accumulator, Element, Max, Min, Sum};

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

/// The state that a reduction accumulates in.
pub type StateOf<O> = <<O as Reduction>::Accumulator as Accumulator>::State;

/// An operation that accumulates all elements (`crate::accumulator` says in which order).
pub trait Reduction: Operation {
    /// What it accumulates in.
    type Accumulator: Accumulator;

    /// The state with one more element. With one input `b` is `a`. With `FUSED`, on a processor that
    /// has a fused multiply-add, in one instruction, where that changes no bits.
    fn accumulate<const FUSED: bool>(
        self,
        state: StateOf<Self>,
        a: Self::Element,
        b: Self::Element,
    ) -> StateOf<Self>;

    /// The result, before its NaN is made canonical.
    fn finish(self, state: StateOf<Self>) -> Self::Output;
}

/// Runs code that is generic over the operation's type, for an operation known only at run time.
pub trait Visitor {
    /// What the code returns.
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

/// What is known of a reduction's accumulator without its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccumulatorInfo {
    /// The name that the accumulator's kernels have.
    pub name: &'static str,
    /// The size of a state, in bytes.
    pub state_bytes: usize,
    /// Whether the identity is a result: that of no elements.
    pub has_empty_result: bool,
}

macro_rules! accumulator_info {
    () => {
        None
    };
    ($accumulator:ty) => {
        Some(AccumulatorInfo {
            name: <$accumulator as Accumulator>::NAME,
            state_bytes: size_of::<<$accumulator as Accumulator>::State>(),
            has_empty_result: <$accumulator as Accumulator>::HAS_EMPTY_RESULT,
        })
    };
}

macro_rules! operations {
    ($(
        $(#[$doc:meta])+
        $row:ident $(($alpha:ty))?: $kernel:literal, $inputs:literal of $element:ty => $output:ty,
        $shape:ident $(by $accumulator:ty)? { $($formula:item)+ }
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

            /// The name of an element of its output.
            #[must_use]
            pub const fn output_name(self) -> &'static str {
                match self { $(Op::$row => <$output as Element>::NAME),+ }
            }

            /// What it accumulates in, if it is a reduction.
            #[must_use]
            pub const fn accumulator(self) -> Option<AccumulatorInfo> {
                match self { $(Op::$row => accumulator_info!($($accumulator)?)),+ }
            }

            /// Runs the visitor's code for the row's type; `alpha` is the bits of its number.
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
                $(type Accumulator = $accumulator;)?
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
    DotF32: "dot_f32", 2 of f32 => f32, Reduction by Sum<f64> {
        fn accumulate<const FUSED: bool>(self, sum: f64, a: f32, b: f32) -> f64 {
            let (a, b) = (f64::from(a), f64::from(b));
            // The product is exact, so that only the sum is rounded either way.
            if FUSED { a.mul_add(b, sum) } else { sum + a * b }
        }
        fn finish(self, sum: f64) -> f32 { sum as f32 }
    }

    /// The sum of `a[i] * b[i]` in f64, each product rounded.
    DotF64: "dot_f64", 2 of f64 => f64, Reduction by Sum<f64> {
        fn accumulate<const FUSED: bool>(self, sum: f64, a: f64, b: f64) -> f64 { sum + a * b }
        fn finish(self, sum: f64) -> f64 { sum }
    }

    /// The sum of `a[i] * b[i]` of i32 in i64: products are exact, the sum wraps.
    DotI32: "dot_i32", 2 of i32 => i64, Reduction by Sum<i64> {
        fn accumulate<const FUSED: bool>(self, sum: i64, a: i32, b: i32) -> i64 {
            sum.wrapping_add(i64::from(a) * i64::from(b))
        }
        fn finish(self, sum: i64) -> i64 { sum }
    }

    /// The sum of `a[i] * b[i]` in i64, wrapping.
    DotI64: "dot_i64", 2 of i64 => i64, Reduction by Sum<i64> {
        fn accumulate<const FUSED: bool>(self, sum: i64, a: i64, b: i64) -> i64 {
            sum.wrapping_add(a.wrapping_mul(b))
        }
        fn finish(self, sum: i64) -> i64 { sum }
    }

    /// The sum of `a[i]` in f32.
    SumF32: "sum_f32", 1 of f32 => f32, Reduction by Sum<f64> {
        fn accumulate<const FUSED: bool>(self, sum: f64, a: f32, _: f32) -> f64 { sum + f64::from(a) }
        fn finish(self, sum: f64) -> f32 { sum as f32 }
    }

    /// The sum of `a[i]` in f64.
    SumF64: "sum_f64", 1 of f64 => f64, Reduction by Sum<f64> {
        fn accumulate<const FUSED: bool>(self, sum: f64, a: f64, _: f64) -> f64 { sum + a }
        fn finish(self, sum: f64) -> f64 { sum }
    }

    /// The sum of `a[i]` of i32 in i64, wrapping.
    SumI32: "sum_i32", 1 of i32 => i64, Reduction by Sum<i64> {
        fn accumulate<const FUSED: bool>(self, sum: i64, a: i32, _: i32) -> i64 {
            sum.wrapping_add(i64::from(a))
        }
        fn finish(self, sum: i64) -> i64 { sum }
    }

    /// The sum of `a[i]` in i64, wrapping.
    SumI64: "sum_i64", 1 of i64 => i64, Reduction by Sum<i64> {
        fn accumulate<const FUSED: bool>(self, sum: i64, a: i64, _: i64) -> i64 { sum.wrapping_add(a) }
        fn finish(self, sum: i64) -> i64 { sum }
    }

    /// The smallest `a[i]` of f32. NaN wins, and -0 < +0.
    MinF32: "min_f32", 1 of f32 => f32, Reduction by Min<f32> {
        fn accumulate<const FUSED: bool>(self, state: f32, a: f32, _: f32) -> f32 {
            Min::<f32>::merge(state, a)
        }
        fn finish(self, state: f32) -> f32 { state }
    }

    /// The smallest `a[i]` of f64. NaN wins, and -0 < +0.
    MinF64: "min_f64", 1 of f64 => f64, Reduction by Min<f64> {
        fn accumulate<const FUSED: bool>(self, state: f64, a: f64, _: f64) -> f64 {
            Min::<f64>::merge(state, a)
        }
        fn finish(self, state: f64) -> f64 { state }
    }

    /// The smallest `a[i]` of i32.
    MinI32: "min_i32", 1 of i32 => i32, Reduction by Min<i32> {
        fn accumulate<const FUSED: bool>(self, state: i32, a: i32, _: i32) -> i32 {
            Min::<i32>::merge(state, a)
        }
        fn finish(self, state: i32) -> i32 { state }
    }

    /// The smallest `a[i]` of i64.
    MinI64: "min_i64", 1 of i64 => i64, Reduction by Min<i64> {
        fn accumulate<const FUSED: bool>(self, state: i64, a: i64, _: i64) -> i64 {
            Min::<i64>::merge(state, a)
        }
        fn finish(self, state: i64) -> i64 { state }
    }

    /// The largest `a[i]` of f32. NaN wins, and -0 < +0.
    MaxF32: "max_f32", 1 of f32 => f32, Reduction by Max<f32> {
        fn accumulate<const FUSED: bool>(self, state: f32, a: f32, _: f32) -> f32 {
            Max::<f32>::merge(state, a)
        }
        fn finish(self, state: f32) -> f32 { state }
    }

    /// The largest `a[i]` of f64. NaN wins, and -0 < +0.
    MaxF64: "max_f64", 1 of f64 => f64, Reduction by Max<f64> {
        fn accumulate<const FUSED: bool>(self, state: f64, a: f64, _: f64) -> f64 {
            Max::<f64>::merge(state, a)
        }
        fn finish(self, state: f64) -> f64 { state }
    }

    /// The largest `a[i]` of i32.
    MaxI32: "max_i32", 1 of i32 => i32, Reduction by Max<i32> {
        fn accumulate<const FUSED: bool>(self, state: i32, a: i32, _: i32) -> i32 {
            Max::<i32>::merge(state, a)
        }
        fn finish(self, state: i32) -> i32 { state }
    }

    /// The largest `a[i]` of i64.
    MaxI64: "max_i64", 1 of i64 => i64, Reduction by Max<i64> {
        fn accumulate<const FUSED: bool>(self, state: i64, a: i64, _: i64) -> i64 {
            Max::<i64>::merge(state, a)
        }
        fn finish(self, state: i64) -> i64 { state }
    }
}
