//! Logarithms: x = 2^k m, r = m c - 1, and log x = k log 2 - log c + log(1 + r).
//!
//! m is from 1 to 2. c, next to 1/m, is from a table of cells of m, in whose middles are the multiples of 1/31; it is
//! a multiple of 1/64 where |r| < 2^-5, or of 1/128 where |r| < 2^-6, so that r is exact. Near 1, c = 1 and r = x - 1;
//! near 2, c = 1/2 and -log c = log 2, which k = -1 takes away.
//!
//! High parts are the logarithm over a unit, an f32 that is -1/2 or next to -1/2 of the logarithm of e, so that they are
//! -2 r + r² to every base, without a product that is rounded: k log 2 - log c is exact in its first part H, where all
//! terms are multiples of 2^-16, and Y = H - 2 r + r². (H - Y) - 2 r is exact: H - Y, about 2 r, and 2 r are multiples
//! of the last bits of Y and r, and their sum is about r²; a last fma with r² makes it what Y lacks. Low parts are not
//! over the unit; what the unit lacks from the logarithm of e is among r's factors there.
//!
//! Relative to the result, r² is at most 2^-11.9: the four roundings of the term r³/3, of at most 2^-24 of it each, err
//! by 2^-35.5 together, and the polynomial by 2^-35.2. Low parts are below 2^-17; where there is one, the result is at
//! least 2^-7, and roundings of them add up to about as much. On each 31st float the greatest error of all bases is 0.85
//! of the bias, 2^-34.2, and where k is neither 0 nor -1 results are greater and the errors not.
//!
//! So as to test one interval from the computed low part, all terms of it are less by a bias: the tables, the low part of
//! log 2, and r's factor. The interval's length is twice the bias, which is the bound of the error.

use super::constants::{
    LOG, LOG_2, LOG_2_LOW, LOG_BIAS, LOG_INVERSE, LOG_SLOPE, LOG_TABLE, LOG_TABLE_LOW, LOG_UNIT,
    LOG2, LOG2_2, LOG2_2_LOW, LOG2_SLOPE, LOG2_TABLE, LOG2_TABLE_LOW, LOG2_UNIT, LOG10, LOG10_2,
    LOG10_2_LOW, LOG10_SLOPE, LOG10_TABLE, LOG10_TABLE_LOW, LOG10_UNIT,
};
use super::{Machine32, TO_INTEGER, polynomial, sum, with_sign_of};

/// An argument: k, c, r, its place in tables, and whether they are right.
struct Reduced<M: Machine32> {
    k: M::F32,
    significand: M::F32,
    c: M::F32,
    place: M::I32,
    is_right: M::Bool,
}

impl<M: Machine32> Reduced<M> {
    #[inline(always)]
    fn new(m: &M, x: M::F32) -> Self {
        let (k, significand, is_right) = m.split(x);
        let place = m.bits(m.fma(significand, m.f32(31.0), m.f32(TO_INTEGER)));
        Reduced { k, significand, c: m.lookup(&LOG_INVERSE, place), place, is_right }
    }

    /// m c - 1.
    #[inline(always)]
    fn r(&self, m: &M) -> M::F32 {
        m.fma(self.significand, self.c, m.f32(-1.0))
    }

    /// k · two and an entry of a table.
    #[inline(always)]
    fn sum(&self, m: &M, (two, table): (f32, &'static [f32; 32])) -> M::F32 {
        m.fma(self.k, m.f32(two / M::EXPONENT), m.lookup(table, self.place))
    }
}

/// The constants of logarithms to a base, which in high parts are over a unit.
struct Base {
    /// The logarithm of 2, and those of inverses of c.
    high: (f32, &'static [f32; 32]),
    /// The rest of them, not over the unit.
    low: (f32, &'static [f32; 32]),
    unit: f32,
    /// What -2 units lack from the logarithm of e.
    slope: f32,
    coefficients: [f32; 4],
}

const NATURAL: Base = Base {
    high: (LOG_2, &LOG_TABLE),
    low: (LOG_2_LOW, &LOG_TABLE_LOW),
    unit: LOG_UNIT,
    slope: LOG_SLOPE,
    coefficients: LOG,
};

const BINARY: Base = Base {
    high: (LOG2_2, &LOG2_TABLE),
    low: (LOG2_2_LOW, &LOG2_TABLE_LOW),
    unit: LOG2_UNIT,
    slope: LOG2_SLOPE,
    coefficients: LOG2,
};

const DECIMAL: Base = Base {
    high: (LOG10_2, &LOG10_TABLE),
    low: (LOG10_2_LOW, &LOG10_TABLE_LOW),
    unit: LOG10_UNIT,
    slope: LOG10_SLOPE,
    coefficients: LOG10,
};

impl Base {
    /// The logarithm of a number, which may lack `r_low` in r.
    #[inline(always)]
    fn of_reduced<M: Machine32>(
        &self, m: &M, reduced: &Reduced<M>, r: M::F32, r_low: Option<M::F32>,
    ) -> (M::F32, M::Bool) {
        let (minus_2, unit, slope) = (m.f32(-2.0), m.f32(self.unit), m.f32(self.slope));
        let high = reduced.sum(m, self.high);
        let y = m.fma(r, r, m.fma(r, minus_2, high));
        let y_low = m.fma(r, r, m.fma(r, minus_2, high - y));
        let low = reduced.sum(m, self.low);
        let (low, slope) = match r_low {
            Some(rest) => (low + rest, slope - rest),
            None => (low, slope),
        };
        let small = m.fma(r, polynomial(m, r, &self.coefficients), slope);
        let low = m.fma(y_low, unit, m.fma(r, small, low));
        let other = m.fma(y, m.f32(2.0 * LOG_BIAS * self.unit), low);
        m.rounded_product(y, self.unit, [low, other])
    }

    #[inline(always)]
    fn of<M: Machine32>(&self, m: &M, x: M::F32) -> (M::F32, M::Bool) {
        let reduced = Reduced::new(m, x);
        let (y, is_sure) = self.of_reduced(m, &reduced, reduced.r(m), None);
        (y, is_sure & reduced.is_right)
    }
}

/// The natural logarithm.
#[inline(always)]
pub fn log<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    NATURAL.of(m, x)
}

/// The logarithm to base 2.
#[inline(always)]
pub fn log2<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    BINARY.of(m, x)
}

/// The logarithm to base 10.
#[inline(always)]
pub fn log10<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    DECIMAL.of(m, x)
}

/// log(1 + x), where r is in two parts: that of the rounded sum, and what the sum lacks times C = c 2^-k.
///
/// The sum of both is exact, since the first one is a multiple of 2^-30. It is x where C is 1. The second part of that,
/// at most 2^-31, is in terms of r up to its product with it: r² times it is below 2^-36 of the result. From
/// 2^24 on the sum may lack more than is computed.
#[inline(always)]
pub fn log1p<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const ABOVE_MOST: f32 = 23.5;
    let one = m.f32(1.0);
    let above = x + one;
    let rest = x - (above - one);
    let reduced = Reduced::new(m, above);
    let exponent = m.bits(above) - m.bits(reduced.significand);
    let c = m.float(m.bits(reduced.c) - exponent);
    let (r, r_low) = sum::<M>(reduced.r(m), rest * c);
    let (y, is_sure) = NATURAL.of_reduced(m, &reduced, r, Some(r_low));
    let is_right = m.less(m.magnitude(reduced.k), m.f32(ABOVE_MOST * M::EXPONENT));
    (with_sign_of(m, y, x), is_sure & is_right)
}
