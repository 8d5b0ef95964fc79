//! Unevaluated sums of two numbers, for values that must be more exact than one number (Dekker, A Floating-Point
//! Technique for Extending the Available Precision; Muller and others, Handbook of Floating-Point Arithmetic).

use crate::Machine;

/// A value as a number and a much smaller rest. Some operations require a rest of at most half the number's last bit.
pub(crate) type Pair<M> = (<M as Machine>::F64, <M as Machine>::F64);

/// a + b, exactly, if |a| ≥ |b| or a is zero.
#[inline(always)]
pub(crate) fn sum<M: Machine>(_: &M, a: M::F64, b: M::F64) -> Pair<M> {
    let high = a + b;
    (high, b - (high - a))
}

/// a + b, exactly.
#[inline(always)]
pub(crate) fn any_sum<M: Machine>(_: &M, a: M::F64, b: M::F64) -> Pair<M> {
    let high = a + b;
    let of_b = high - a;
    (high, (a - (high - of_b)) + (b - of_b))
}

/// a · b, exactly.
#[inline(always)]
pub(crate) fn product<M: Machine>(m: &M, a: M::F64, b: M::F64) -> Pair<M> {
    let high = a * b;
    (high, m.fma(a, b, -high))
}

/// a · b.
#[inline(always)]
pub(crate) fn multiply<M: Machine>(m: &M, a: Pair<M>, b: Pair<M>) -> Pair<M> {
    let (high, low) = product(m, a.0, b.0);
    (high, m.fma(a.0, b.1, m.fma(a.1, b.0, low)))
}

/// a / b, with one division.
#[inline(always)]
pub(crate) fn quotient<M: Machine>(m: &M, a: Pair<M>, b: Pair<M>) -> Pair<M> {
    let inverse = m.f64(1.0) / b.0;
    let high = a.0 * inverse;
    let minus = -high;
    let rest = m.fma(minus, b.0, a.0) + m.fma(minus, b.1, a.1);
    (high, rest * inverse)
}
