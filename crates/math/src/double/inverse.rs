//! Inverse trigonometric functions.
//!
//! The method is the same as for f32, with error terms of quotients, roots and sums.

use super::pair::{Pair, any_sum, quotient, sum};
use crate::Machine;
use crate::inverse::{ARC_SINE, ARC_TANGENT, PI_REST};
use crate::sequence::{at_most, magnitude, polynomial, two_to, with_sign_of};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI, SQRT_2};

/// base + t + t · square · p, where the base is a multiple of π/4.
#[inline(always)]
fn onto<M: Machine>(m: &M, base: M::F64, t: Pair<M>, square: M::F64, p: M::F64) -> M::F64 {
    let (high, rest) = sum(m, base, t.0);
    let low = m.fma(base, m.f64(PI_REST), rest + t.1);
    high + m.fma(t.0 * square, p, low)
}

/// The angle of a point that is `height` above and `width` beside the origin, to the left if the sign of `side` is set:
/// a multiple of π/4, the tangent of the rest, which is at most tan π/8 in magnitude, and true if the point is to the
/// left. The rest must then be subtracted.
#[inline(always)]
pub(crate) fn reduced_angle<M: Machine>(
    m: &M, height: M::F64, width: M::F64, side: M::F64,
) -> (M::F64, Pair<M>, M::Bool) {
    let zero = m.f64(0.0);
    let far = m.less(width * m.f64(SQRT_2 + 1.0), height);
    let middle = m.less(width * m.f64(SQRT_2 - 1.0), height);
    let choose = |a, b, c| m.select(far, c, m.select(middle, b, a));
    let difference = any_sum(m, height, -width);
    let total = any_sum(m, height, width);
    let rise = (choose(height, difference.0, -width), choose(zero, difference.1, zero));
    let run = (choose(width, total.0, height), choose(zero, total.1, zero));
    let tangent = quotient(m, rise, run);
    let base = choose(zero, m.f64(FRAC_PI_4), m.f64(FRAC_PI_2));
    let left = m.less(with_sign_of(m, m.f64(1.0), side), zero);
    // Exact: the double nearest to π has three zeros at its end.
    (m.select(left, m.f64(PI) - base, base), tangent, left)
}

/// The angle of a point that is `height` above and `width` > 0 beside the origin, to the left if the sign of `side` is
/// set.
#[inline(always)]
fn angle<M: Machine>(m: &M, height: M::F64, width: M::F64, side: M::F64) -> M::F64 {
    let (base, (t, low), left) = reduced_angle(m, height, width, side);
    let square = t * t;
    // atan' t is nearly 1 - t².
    let low = m.fma(-square, low, low);
    let t = (m.select(left, -t, t), m.select(left, -low, low));
    onto(m, base, t, square, polynomial(m, square, &ARC_TANGENT))
}

/// The inverse tangent.
#[inline(always)]
pub fn atan<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    // From 2^60 on it is the double nearest to π/2.
    let size = at_most(m, magnitude(m, x), two_to(60));
    with_sign_of(m, angle(m, size, m.f64(1.0), size), x)
}

/// The angle of the point (x, y), from -π to π.
///
/// The bound of its error: with the height h = |y| and the width w = |x|, the angle is a multiple of π/4 plus or minus
/// atan q, where q is h / w, (h - w) / (h + w) or -w / h, at most tan π/8. The quotient is a pair. Its first part has a
/// relative error of at most 4u, and both parts together 20u², for u = 2^-53: two roundings of the first part, the
/// rounded parts of rise and run, and four roundings of the remainders (quotient_errors in
/// tools/function_bounds/pieces.py). So the bound follows from pieces of q alone, to the left and to the right, near
/// the axis, in the middle and far from it, with the sequence from the quotient on. The lower half plane has the same
/// results with the other sign. Below 2^-960 the result to the right is the rounded sum of both parts, and the second
/// part is rounded to a multiple of 2^-1074, which adds at most a quarter of a unit (inverses.py there, also for
/// underflow).
#[inline(always)]
pub fn atan2<M: Machine>(m: &M, y: M::F64, x: M::F64) -> M::F64 {
    let infinite = |x| m.equal(magnitude(m, x), m.f64(f64::INFINITY));
    let (height, width) = (magnitude(m, y), magnitude(m, x));
    let greater = m.select(m.less(width, height), height, width);
    // With these factors sums do not overflow, and no significant rest underflows.
    let small = m.less(greater, m.f64(two_to(400)));
    let factor = m.select(small, m.f64(two_to(600)), m.f64(two_to(-60)));
    let huge = m.f64(two_to(1020));
    // Beside an infinite width, a finite height is zero.
    let height = height * m.select(infinite(x), m.f64(0.0), factor);
    let height = m.select(infinite(y), huge, height);
    let width = m.select(infinite(x), huge, m.fma(width, factor, m.f64(two_to(-700))));
    with_sign_of(m, angle(m, height, width, x), y)
}

/// An argument t of the arc sine of at most ½. For greater x, asin x = π/2 - 2 asin √((1 - x) / 2).
struct HalfAngle<M: Machine> {
    /// True if x is below ½, and t is x.
    near: M::Bool,
    /// x, or -2 √((1 - x) / 2).
    t: Pair<M>,
    /// x², or (1 - x) / 2.
    square: M::F64,
}

impl<M: Machine> HalfAngle<M> {
    #[inline(always)]
    fn new(m: &M, size: M::F64) -> Self {
        let (zero, minus_two) = (m.f64(0.0), m.f64(-2.0));
        let near = m.less(size, m.f64(0.5));
        let half = (m.f64(1.0) - size) * m.f64(0.5);
        let root = m.sqrt(half);
        // The rest of the root, times -2. For a root of zero it is zero.
        let rest = m.fma(root, root, -half) / (root + m.f64(two_to(-200)));
        let t = (m.select(near, size, minus_two * root), m.select(near, zero, rest));
        Self { near, t, square: m.select(near, size * size, half) }
    }
}

/// The inverse sine.
#[inline(always)]
pub fn asin<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let HalfAngle { near, t, square } = HalfAngle::new(m, magnitude(m, x));
    let base = m.select(near, m.f64(0.0), m.f64(FRAC_PI_2));
    with_sign_of(m, onto(m, base, t, square, polynomial(m, square, &ARC_SINE)), x)
}

/// The inverse cosine: acos x = π/2 - asin x.
#[inline(always)]
pub fn acos<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let HalfAngle { near, t, square } = HalfAngle::new(m, magnitude(m, x));
    let zero = m.f64(0.0);
    let negative = m.less(x, zero);
    let end = m.select(negative, m.f64(PI), zero);
    let base = m.select(near, m.f64(FRAC_PI_2), end);
    let turned = |t| m.select(negative, t, -t);
    let t = (turned(t.0), turned(t.1));
    onto(m, base, t, square, polynomial(m, square, &ARC_SINE))
}
