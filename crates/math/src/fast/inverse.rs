//! Inverse tangent, sine and cosine.
//!
//! For the tangent, |x| = b/a + …, atan |x| = atan(b/a) + atan t with t = (a |x| - b) / (a + b |x|).
//!
//! a is the integer nearest to 31.05 / (1 + |x|), and b = 31 - a, so that no range is apart: near 0 t is |x|, and
//! for large |x| it is -1/|x|. |t| is at most 0.0345, and where a ≥ 30 at most 0.02. Next to a b the difference
//! a |x| - b is exact in two parts: a |x| is at least b / 2, and the difference below 2^24 last bits of it. So is the
//! sum, since a is a multiple of the last bit of b |x| where a is not 0.
//!
//! The quotient errs by 2^-21.6, and its second part makes up for that: this errs by the product with the reciprocal's
//! error, 2^-43.6, with t⁴, 2^-44.2, and by six roundings, 2^-45.6 each. Two sums of low parts, to which t³/3 does not
//! belong, err by 2^-45.4 each: together by less than 2^-41.7. Five roundings that t³/3 meets (of t², t³, the
//! polynomial, its product and the last sum) err by 2^-24 of it each, and the polynomial by 2^-26.6 t³.
//!
//! The sine and the cosine, of which one is |x| and the other is √(1 - x²), are those of A + asin t, where the table has
//! A, its sine and its cosine, and t = sin · cos A - cos · sin A. A is found by the difference of sine and cosine; for
//! the first one t is the sine, and for the last one it is minus the cosine. |t| is at most 0.0345. The products are within
//! a factor of two of each other, if none is 0, so that their difference is exact.
//!
//! The root errs by 1.2 · 2^-21, and its second part by the square of that and by its product with the reciprocal's
//! error, 1.8 · 2^-42 together, and by three roundings: 2.2 · 2^-42 of the root. A and its sine are at most twice the
//! angle: 4.4 · 2^-42 of that, and 1.5 · 2^-42 by five roundings of sums with the second part. The tables' points are
//! next to the circle: 2^-43.7. Where A is 0 none of these is doubled, and the product of the second part and 3/8 t⁴,
//! below 1.2 · 2^-42, is left out: together by less than 2^-39.3. Seven roundings that t³/6 meets (two of them for π less an
//! angle) err by 2^-24 of it each, and the polynomial by 2^-27.6 t³.

use super::constants::{
    ASIN, ASIN_COS, ASIN_HIGH, ASIN_LOW, ASIN_SIN, ASIN_STEPS, ATAN, ATAN_HIGH, ATAN_LOW, PI,
};
use super::{Machine32, TO_INTEGER, polynomial, product, sum, with_sign_of};

/// The inverse tangent.
#[inline(always)]
pub fn atan<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const BOUND: f32 = 3e-13; // 2^-41.6
    const PER_CUBE: f32 = 1.1e-7; // 5/3 · 2^-24 + 2^-26.6
    let size = m.magnitude(x);
    let shifted = m.fma(m.reciprocal(size + m.f32(1.0)), m.f32(31.05), m.f32(TO_INTEGER));
    let place = m.bits(shifted);
    let a = shifted - m.f32(TO_INTEGER);
    let b = m.f32(31.0) - a;
    let (top, top_low) = product(m, size, a);
    let top = top - b;
    let (bottom, bottom_low) = product(m, size, b);
    let (bottom, bottom_rest) = sum::<M>(a, bottom);
    let bottom_low = bottom_low + bottom_rest;
    let inverse = m.reciprocal(bottom);
    let t = top * inverse;
    let square = t * t;
    // What t has too much.
    let excess = (m.fma(t, bottom_low, m.fms(t, bottom, top)) - top_low) * inverse;
    let low = m.lookup(&ATAN_LOW, place) + m.fms(excess, square, excess);
    let (y, y_low) = sum::<M>(m.lookup(&ATAN_HIGH, place), t);
    let cube = square * t;
    let rest = y_low + m.fma(cube, polynomial(m, square, &ATAN), low);
    let error = m.fma(m.magnitude(cube), m.f32(PER_CUBE), y * m.f32(BOUND));
    let (y, is_sure) = m.rounded(y, [rest - error, rest + error]);
    (with_sign_of(m, y, x), is_sure)
}

/// √(1 - x²) for 0 ≤ x ≤ 1, and what it lacks, times -2 `half`.
///
/// 1 - x² is in two parts, with an error below 2^-47 of it. 2^-100 changes 0 alone, whose root has no reciprocal.
#[inline(always)]
fn other_leg<M: Machine32>(m: &M, x: M::F32, half: f32) -> (M::F32, M::F32) {
    const LEAST: f32 = 7.888609e-31; // 2^-100
    let one = m.f32(1.0);
    // Rounded once, so that the root need not wait for the square.
    let minus = m.fms(x, x, one);
    let inverse = m.reciprocal_root(m.f32(LEAST) - minus);
    let rest = m.f32(0.0) - minus;
    let root = rest * inverse;
    let (square, square_low) = product(m, x, x);
    let first = one - square;
    let rest_low = (first - rest) + (((one - first) - square) - square_low);
    let excess = m.fms(root, root, rest) - rest_low;
    (root, excess * (inverse * m.f32(half)))
}

/// An angle from 0 to π/2 in two parts, and t³.
struct Angle<M: Machine32> {
    high: M::F32,
    low: M::F32,
    cube: M::F32,
}

/// The angle with a sine and a cosine. `t_low` adds to the low part of t what one of them lacks, times the other one's
/// entry of the table: of the sine or the cosine.
#[inline(always)]
fn angle<M: Machine32>(
    m: &M, sine: M::F32, cosine: M::F32, t_low: impl FnOnce(M::F32, M::F32, M::F32) -> M::F32,
) -> Angle<M> {
    let place = m.bits(m.fma(sine - cosine, m.f32(ASIN_STEPS), m.f32(TO_INTEGER)));
    let (table_sine, table_cosine) = (m.lookup(&ASIN_SIN, place), m.lookup(&ASIN_COS, place));
    let (plus, plus_low) = product(m, sine, table_cosine);
    let (minus, minus_low) = product(m, cosine, table_sine);
    let t = plus - minus;
    let t_low = t_low(plus_low - minus_low, table_sine, table_cosine);
    let square = t * t;
    let t_low = m.fma(t_low, square * m.f32(0.5), t_low);
    let (high, high_low) = sum::<M>(m.lookup(&ASIN_HIGH, place), t);
    let cube = square * t;
    let low = m.fma(cube, polynomial(m, square, &ASIN), m.lookup(&ASIN_LOW, place) + t_low);
    Angle { high, low: high_low + low, cube }
}

/// Rounds a result to which t adds.
#[inline(always)]
fn rounded<M: Machine32>(m: &M, high: M::F32, low: M::F32, cube: M::F32) -> (M::F32, M::Bool) {
    const BOUND: f32 = 1.6e-12; // 2^-39.2
    const PER_CUBE: f32 = 7.5e-8; // 7/6 · 2^-24 + 2^-27.6
    let error = m.fma(m.magnitude(cube), m.f32(PER_CUBE), high * m.f32(BOUND));
    m.rounded(high, [low - error, low + error])
}

/// The inverse sine.
#[inline(always)]
pub fn asin<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let size = m.magnitude(x);
    let (cosine, excess) = other_leg(m, size, 0.5);
    let t_low = |low, table_sine, _| m.fma(excess, table_sine, low);
    let Angle { high, low, cube } = angle(m, size, cosine, t_low);
    let (y, is_sure) = rounded(m, high, low, cube);
    (with_sign_of(m, y, x), is_sure)
}

/// The inverse cosine: the angle with the cosine |x|, or π less it.
#[inline(always)]
pub fn acos<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let size = m.magnitude(x);
    let (sine, sine_low) = other_leg(m, size, -0.5);
    let t_low = |low, _, table_cosine| m.fma(sine_low, table_cosine, low);
    let Angle { high, low, cube } = angle(m, sine, size, t_low);
    let sign = m.bits(x) & m.i32(i32::MIN);
    let [high, low] = [high, low].map(|part| m.float(m.bits(part) ^ sign));
    // 0 or -2^31.
    let negative = m.convert(sign);
    let [base, base_low] = PI.map(|part| m.f32(part * (-1.0 / (1_u32 << 31) as f32)));
    let (high, high_low) = sum::<M>(negative * base, high);
    rounded(m, high, high_low + m.fma(negative, base_low, low), cube)
}
