//! Inverse tangent, sine and cosine.
//!
//! For the tangent, b is a number near |x| from a table, and atan |x| = atan b + atan t with t = (|x| - b) / (1 + b
//! |x|).
//!
//! The place in the table is the integer nearest to 31 / (1 + |x|), so that no range of x is a special case. Near 0, b
//! is 0 and t is |x|. For large |x|, t is -1/|x|: the same quotient with 0 in place of 1 and with b = 1. |t| is at most
//! 0.0332, and at most 0.018 if b is 0. b is from |x| / 2 to 2 |x|, so that |x| - b is exact. The other sum is exact in
//! two parts.
//!
//! The quotient has an error of 2^-21.6, which its second part corrects. The second part has errors from the error of
//! the reciprocal, 2^-43.6, from t⁴, 2^-44.2, and from six roundings of 2^-45.6 each. The term t³/3 has five roundings
//! of 2^-24 of it each (of t², the polynomial, its products and the last sum): together at most 2^-35.2 of the result.
//! The polynomial has an error of 2^-26.6 t³.
//!
//! For the sine of an angle, u is |x| if that is up to 1/2. Otherwise u² is (1 - |x|) / 2, which is exact, and the
//! angle is half of the angle with the cosine |x|. u is c + h, where c is from a table with the derivative D of the
//! inverse sine there, and asin u = asin c + D h (1 + w W(w) + q Q) with q = (D h)² and w = c D² h. The values of c are
//! chosen so that D is an f32 with an error of 2^-36.6. c is from u / 2 to 2 u, so that h is exact.
//!
//! The root's second part corrects its error of 1.2 · 2^-21. D h is at most the result and, for the greatest w, 2^-5.7
//! of the angle. The series is then 1 + 2^-8.4 or less. Its roundings, including two of w, add about 2^-36 of the
//! angle, and the series itself 2^-36.3. π/2 minus twice the angle has twice this error; near 1/2 it is hardly more
//! than the angle. All that and the error of D are below 2^-33.5 of the result. The inverse cosine is the angle or
//! twice the angle, or π or π/2 minus that, which is greater. So its error is half as large.
//!
//! All terms of the low part are reduced by a bias, as for logarithms, so that only one interval above it is tested. On
//! each 31st float, errors are at most 0.55 of the tangent's bias, 0.81 of the sine's and 0.77 of the cosine's.

use super::constants::{
    ACOS_BIAS, ACOS_HIGH, ACOS_LOW, ASIN_BIAS, ASIN_HIGH, ASIN_LOW, ASIN_Q, ASIN_SINES,
    ASIN_SLOPES, ASIN_STEPS, ASIN_W, ATAN, ATAN_BIAS, ATAN_HIGH, ATAN_LOW, ATAN_NODES, HALF_TURN,
    SIXTH_TURN,
};
use super::machine::ONE;
use super::{Machine32, TO_INTEGER, Tables, polynomial, product, sum, with_sign_of};
use std::marker::PhantomData;

/// Nodes b, and their inverse tangents in two parts.
struct Nodes;

impl Tables<3> for Nodes {
    const TABLES: [&'static [f32; 32]; 3] = [&ATAN_NODES, &ATAN_HIGH, &ATAN_LOW];
}

/// The inverse tangent.
#[inline(always)]
pub fn atan<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let (one, bias) = (m.f32(1.0), m.f32(ATAN_BIAS));
    let size = m.magnitude(x);
    let shifted = m.fma(m.rough_reciprocal(size + one), m.f32(31.0), m.f32(TO_INTEGER));
    let place = m.bits(shifted);
    let a = m.min(shifted - m.f32(TO_INTEGER), one);
    let [b, table, table_low] = m.lookups::<3, Nodes>(place);
    let top = m.fms(size, a, b);
    let (bottom, bottom_low) = product(m, size, b);
    let (bottom, bottom_rest) = sum::<M>(a, bottom);
    let bottom_low = bottom_low + bottom_rest;
    let inverse = m.reciprocal(bottom);
    let t = top * inverse;
    let square = t * t;
    // The excess of t over the exact quotient.
    let excess = m.fma(t, bottom_low, m.fms(t, bottom, top)) * inverse;
    let low = table_low + m.fms(excess, square, excess);
    let (y, y_low) = sum::<M>(table, t);
    let factor = m.fma(square, polynomial(m, square, &ATAN), bias);
    let low = y_low + m.fma(t, factor, low);
    let (y, is_sure) = m.rounded(y, [low, m.fma(y, m.f32(-2.0 * ATAN_BIAS), low)]);
    (with_sign_of(m, y, x), is_sure)
}

/// Tables of sines, derivatives, and angles in two parts, for the inverse sine and cosine.
struct AsinTables;
struct AcosTables;

/// Tables of angles that are reduced by a bias.
trait Biased: Tables<4> {
    /// The relative bias.
    const BIAS: f32;
}

impl Biased for AsinTables {
    const BIAS: f32 = ASIN_BIAS;
}

impl Biased for AcosTables {
    const BIAS: f32 = ACOS_BIAS;
}

impl Tables<4> for AsinTables {
    const TABLES: [&'static [f32; 32]; 4] = [&ASIN_SINES, &ASIN_SLOPES, &ASIN_HIGH, &ASIN_LOW];
}

impl Tables<4> for AcosTables {
    const TABLES: [&'static [f32; 32]; 4] = [&ASIN_SINES, &ASIN_SLOPES, &ACOS_HIGH, &ACOS_LOW];
}

/// The angle with the sine u, from 0 to π/6: the angle of a sine in the tables, in two parts, and two more terms.
struct Angle<M: Machine32, T> {
    /// True if u is |x|, which is at most 1/2. Otherwise u² is (1 - |x|) / 2, and the angle is half of the angle with
    /// the cosine |x|.
    is_of_sine: M::Bool,
    tables: [M::F32; 2],
    first: M::F32,
    low: M::F32,
    of: PhantomData<T>,
}

impl<M: Machine32, T: Biased> Angle<M, T> {
    #[inline(always)]
    fn new(m: &M, size: M::F32) -> Self {
        let half = m.f32(0.5);
        let is_of_sine = m.less(size, half);
        let square = m.fma(size, m.f32(-0.5), half);
        let (root, inverse) = m.roots(square);
        let u = m.select(is_of_sine, size, root);
        let minus_half_inverse = m.select(is_of_sine, m.f32(0.0), inverse * m.f32(-0.5));
        let u_low = m.fms(root, root, square) * minus_half_inverse;
        let place = m.bits(m.fma(u, m.f32(ASIN_STEPS), m.f32(TO_INTEGER)));
        let [c, slope, table, table_low] = m.lookups::<4, T>(place);
        let (first, first_low) = product(m, slope, u - c);
        let corrected = m.fma(slope, u_low, first);
        let (w, q) = (c * slope * corrected, corrected * corrected);
        let (start, per_w, per_q) = (m.f32(ASIN_Q[0]), m.f32(ASIN_Q[1]), m.f32(ASIN_Q[2]));
        let of_square = m.fma(q, per_q, m.fma(w, per_w, start));
        let series = m.fma(w, polynomial(m, w, &ASIN_W), m.fma(q, of_square, m.f32(T::BIAS)));
        let low = m.fma(corrected, series, m.fma(slope, u_low, first_low));
        Angle { is_of_sine, tables: [table, table_low], first, low, of: PhantomData }
    }

    /// The angle times `factor`, plus a number in two parts, rounded.
    #[inline(always)]
    fn scaled(&self, m: &M, factor: M::F32, [base, base_low]: [M::F32; 2]) -> (M::F32, M::Bool) {
        let [table, table_low] = self.tables;
        let high = m.fma(table, factor, base);
        let rest = m.fma(table_low, factor, base_low);
        let y = m.fma(self.first, factor, high);
        let rest = m.fma(self.first, factor, high - y) + rest;
        let low = m.fma(self.low, factor, rest);
        m.rounded(y, [low, m.fma(y, m.f32(-2.0 * T::BIAS), low)])
    }
}

/// The inverse sine: the angle, or π/2 minus twice the angle. The tables' angles are π/6 smaller than in the first
/// case, and multiplied by -1/2 in the second.
#[inline(always)]
pub fn asin<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let angle = Angle::<M, AsinTables>::new(m, m.magnitude(x));
    let factor = m.select(angle.is_of_sine, m.f32(1.0), m.f32(-2.0));
    let parts = [m.f32(SIXTH_TURN[0]), m.f32(SIXTH_TURN[1])];
    let (y, is_sure) = angle.scaled(m, factor, parts);
    (with_sign_of(m, y, x), is_sure)
}

/// The inverse cosine: near ±1 twice the angle, or π minus that; otherwise π/2 minus the angle with x's sign.
#[inline(always)]
pub fn acos<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    let angle = Angle::<M, AcosTables>::new(m, m.magnitude(x));
    let unit = m.float(m.i32(ONE) | (m.bits(x) & m.i32(i32::MIN)));
    let of_cosine = m.select(angle.is_of_sine, m.f32(0.0), unit);
    // All exact: minus the sign, or twice the sign; half of π, or π or 0 by the sign.
    let factor = m.minus_or_twice(angle.is_of_sine, of_cosine, unit);
    let (half, half_low) = (m.f32(0.5 * HALF_TURN[0]), m.f32(0.5 * HALF_TURN[1]));
    let parts = [m.fnma(of_cosine, half, half), m.fnma(of_cosine, half_low, half_low)];
    angle.scaled(m, factor, parts)
}
