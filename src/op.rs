//! The table of operations: one row per operation and element type.
//!
//! A row gives the kernel's name and the formula of one element; everything else follows from it.
//! To add an operation, see CONTRIBUTING.md.

use crate::element::Element;

/// What an operation makes of its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `out[i]` from `a[i]` and `b[i]`.
    Elementwise,
    /// One value from all of `a` and `b`.
    Reduction,
}

/// A row of the table, as a type: what the backends are generic over.
pub trait Operation: Copy + Send + Sync + 'static {
    /// The row's place in [`Op::ALL`].
    const OP: Op;
    /// What the arrays hold.
    type Element: Element;
}

/// An operation on each pair of elements alone.
pub trait Elementwise: Operation {
    /// One element of the output, before its NaN is made canonical.
    fn apply(self, a: Self::Element, b: Self::Element) -> Self::Element;
}

/// An operation that adds up a term for each pair of elements (`crate::sum` says in which order).
pub trait Reduction: Operation {
    /// One term, exact in f64.
    fn term(self, a: Self::Element, b: Self::Element) -> f64;
    /// The sum of all terms, rounded once.
    fn round(self, sum: f64) -> Self::Element;
}

macro_rules! operations {
    ($($(#[$doc:meta])+ $row:ident: $kernel:literal, $element:ty, $shape:ident { $($formula:item)+ })+) => {
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

            /// The size of an element of its inputs, in bytes.
            #[must_use]
            pub const fn element_bytes(self) -> usize {
                match self { $(Op::$row => size_of::<$element>()),+ }
            }
        }

        $(
            $(#[$doc])+
            #[derive(Clone, Copy, Debug)]
            pub struct $row;

            impl Operation for $row {
                const OP: Op = Op::$row;
                type Element = $element;
            }

            impl $shape for $row {
                $(#[inline(always)] $formula)+
            }
        )+
    };
}

operations! {
    /// `a[i] + b[i]` in f32.
    AddF32: "add_f32", f32, Elementwise {
        fn apply(self, a: f32, b: f32) -> f32 { a + b }
    }

    /// `a[i] + b[i]` in i32, wrapping.
    AddI32: "add_i32", i32, Elementwise {
        fn apply(self, a: i32, b: i32) -> i32 { a.wrapping_add(b) }
    }

    /// The sum of `a[i] * b[i]` in f32. A product of two f32 has at most 48 bits: exact in f64.
    DotF32: "dot_f32", f32, Reduction {
        fn term(self, a: f32, b: f32) -> f64 { f64::from(a) * f64::from(b) }
        fn round(self, sum: f64) -> f32 { sum as f32 }
    }
}
