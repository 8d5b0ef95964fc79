//! Logarithms: x = 2^k m, r = m c - a, and log x = k log 2 - log(c/a) + log(1 + r/a).
//!
//! m is from 1 to 2. a is 1, or next to 1 (see below). c is near a/m, and is from a table of cells of m. The middles of
//! the cells are nearly the multiples of 1/31. c is a multiple of 1/64 if |r| < 2^-5, and of 1/128 if |r| < 2^-6, so
//! that r is exact. Near 1, c = a and r = a (x - 1). Near 2, c = a/2 and -log(c/a) = log 2, which k = -1 cancels.
//!
//! High parts are multiples of a unit, an f32. It is -1/2, or next to -1/2, of the logarithm of e over a². In this unit
//! the high part of log(1 + r/a) is -f r + r², for a factor f = 2 a of a few bits, so that no product is rounded. The
//! first part H of k log 2 - log(c/a) is exact, since all its terms are multiples of 2^-16. Y = H - f r + r². (H - Y) -
//! f r is exact: H - Y is about f r, both are multiples of the last bits of Y and of r/16, and their sum is about r². A
//! last fma adds r², which gives the rest that Y lacks. Low parts are not in the unit. The difference between the unit
//! and -1/2 is in a factor of r there.
//!
//! Relative to the result, r² is at most 2^-11.9. The four roundings of the term r³/3, of at most 2^-24 of it each, add
//! 2^-35.5 together, and the polynomial adds 2^-35.2. Low parts are below 2^-17. If there is one, the result is at
//! least 2^-7, and their roundings add about as much. On each 31st float, the greatest error to bases e and 2 is 0.85
//! of the bias, 2^-34.2. If k is neither 0 nor -1, results are greater, but the errors are not. To base 10, c is
//! farther from a/m near 1, and the bias is 2^-33.8. Of all floats from 0.5 to 4, the worst one has 0.98 of it.
//!
//! All terms of the low part are reduced by a bias, so that only one interval above the computed low part is tested:
//! the tables, the low part of log 2, and r's factor. The interval's length is twice the bias, which is the bound of
//! the error.
//!
//! To base 2, a = 35/32 makes log 2 with its bias a multiple of 2^-16 units, with an error of 0.38 of the bias. To base
//! 10, a = 29/32 does, with 0.36. So log 2 has no low part. From m = 1.44 on, the table corrects this error for k = -1,
//! so that it is in proportion to the results: at most 0.76 of the bias, near k log 2 + log 1.44, where other errors
//! are below 0.1 of it.

use super::constants::{
    LOG, LOG_2, LOG_2_LOW, LOG_BIAS, LOG_INVERSE, LOG_SLOPE, LOG_TABLE, LOG_TABLE_LOW, LOG_UNIT,
    LOG2, LOG2_2, LOG2_2_LOW, LOG2_BIAS, LOG2_INVERSE, LOG2_SLOPE, LOG2_TABLE, LOG2_TABLE_LOW,
    LOG2_UNIT, LOG10, LOG10_2, LOG10_2_LOW, LOG10_BIAS, LOG10_INVERSE, LOG10_SLOPE, LOG10_TABLE,
    LOG10_TABLE_LOW, LOG10_UNIT,
};
use super::{Halves, Machine32, TO_INTEGER, Tables, polynomial};

/// A base with a table of c and tables of the logarithms of a/c in two parts. The first parts are in multiples of a
/// unit.
trait Base: Tables<3> {
    /// The steps from 1 to 2 by cells.
    const STEPS: f32;
    /// a and f.
    const AT_1: f32;
    const FACTOR: f32;
    /// The logarithm of 2 in the same two parts.
    const OF_2: [f32; 2];
    const UNIT: f32;
    /// The difference between the logarithm of e, divided by a, and -f units.
    const SLOPE: f32;
    const COEFFICIENTS: [f32; 4];
    /// The relative bias of results, downwards.
    const BIAS: f32;
}

macro_rules! bases {
    ($($doc:literal $function:ident $name:ident($steps:expr, $at_1:expr, $factor:expr): $tables:expr, $of_2:expr, $unit:ident,
        $slope:ident, $coefficients:ident, $bias:ident;)*) => {
        $(#[doc = $doc]
        pub struct $name;

        #[doc = $doc]
        #[inline(always)]
        pub fn $function<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
            $name::finish(m, $name::begin(m, x))
        }

        impl Tables<3> for $name {
            const TABLES: [&'static [f32; 32]; 3] = $tables;
        }

        impl Base for $name {
            const STEPS: f32 = $steps;
            const AT_1: f32 = $at_1;
            const FACTOR: f32 = $factor;
            const OF_2: [f32; 2] = $of_2;
            const UNIT: f32 = $unit;
            const SLOPE: f32 = $slope;
            const COEFFICIENTS: [f32; 4] = $coefficients;
            const BIAS: f32 = $bias;
        })*
    };
}

bases! {
    "The natural logarithm." log Log(31.0, 1.0, 2.0): [&LOG_INVERSE, &LOG_TABLE, &LOG_TABLE_LOW],
        [LOG_2, LOG_2_LOW], LOG_UNIT, LOG_SLOPE, LOG, LOG_BIAS;
    "The logarithm to base 2." log2 Log2(31.0, 35.0 / 32.0, 35.0 / 16.0): [&LOG2_INVERSE, &LOG2_TABLE, &LOG2_TABLE_LOW],
        [LOG2_2, LOG2_2_LOW], LOG2_UNIT, LOG2_SLOPE, LOG2, LOG2_BIAS;
    "The logarithm to base 10." log10 Log10(30.99, 29.0 / 32.0, 29.0 / 16.0): [&LOG10_INVERSE, &LOG10_TABLE, &LOG10_TABLE_LOW],
        [LOG10_2, LOG10_2_LOW], LOG10_UNIT, LOG10_SLOPE, LOG10, LOG10_BIAS;
}

/// A reduced argument: m, c, the logarithm without the term of 1 + r/a in two parts, and true if these are right.
struct Reduced<M: Machine32> {
    significand: M::F32,
    c: M::F32,
    high: M::F32,
    low: M::F32,
    is_right: M::Bool,
}

impl<M: Machine32> Reduced<M> {
    #[inline(always)]
    fn new<B: Base>(m: &M, x: M::F32) -> Self {
        let (k, significand, is_right) = m.split(x);
        let place = m.bits(m.fma(significand, m.f32(B::STEPS), m.f32(TO_INTEGER)));
        let [c, table, table_low] = m.lookups::<3, B>(place);
        let high = m.fma(k, m.f32(B::OF_2[0] / M::EXPONENT), table);
        let low = match B::OF_2[1] {
            0.0 => table_low,
            rest => m.fma(k, m.f32(rest / M::EXPONENT), table_low),
        };
        Reduced { significand, c, high, low, is_right }
    }

    /// m c - a.
    #[inline(always)]
    fn r<B: Base>(&self, m: &M) -> M::F32 {
        m.fma(self.significand, self.c, m.f32(-B::AT_1))
    }

    /// The logarithm in two parts. The first part is in multiples of the unit.
    #[inline(always)]
    fn parts<B: Base>(&self, m: &M, r: M::F32) -> [M::F32; 2] {
        let (factor, unit) = (m.f32(-B::FACTOR), m.f32(B::UNIT));
        let y = m.fma(r, r, m.fma(r, factor, self.high));
        let y_low = m.fma(r, r, m.fma(r, factor, self.high - y));
        let small = m.fma(r, polynomial(m, r, &B::COEFFICIENTS), m.f32(B::SLOPE));
        [y, m.fma(y_low, unit, m.fma(r, small, self.low))]
    }
}

/// Rounds a logarithm in two parts. The first part is in multiples of the unit.
#[inline(always)]
fn rounded<B: Base, M: Machine32>(m: &M, [y, low]: [M::F32; 2]) -> (M::F32, M::Bool) {
    let other = m.fma(y, m.f32(2.0 * B::BIAS * B::UNIT), low);
    m.rounded_product(y, B::UNIT, [low, other])
}

/// The values between the halves of a logarithm: a reduced argument and r.
pub struct LogParts<M: Machine32>(Reduced<M>, M::F32);

impl<B: Base> Halves for B {
    type Middle<M: Machine32> = LogParts<M>;

    #[inline(always)]
    fn begin<M: Machine32>(m: &M, x: M::F32) -> LogParts<M> {
        let reduced = Reduced::new::<B>(m, x);
        let r = reduced.r::<B>(m);
        LogParts(reduced, r)
    }

    #[inline(always)]
    fn finish<M: Machine32>(m: &M, LogParts(reduced, r): LogParts<M>) -> (M::F32, M::Bool) {
        let (y, is_sure) = rounded::<B, M>(m, reduced.parts::<B>(m, r));
        (y, is_sure & reduced.is_right)
    }
}
