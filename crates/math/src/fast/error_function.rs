//! The error function. |x| = c + h, where c is the nearest of 32 nodes, which are denser near 0. With w = -c h,
//! erf |x| = E + D (h + h w + h (w² W(w) + h² (SQUARE(w) + h² FOURTH(w)))), where E is erf c and D its derivative.
//!
//! c and the limits of its cell are within a factor of two, or their last bits are, so that h is exact. E is an f32
//! with an error of 2^-37.7, and D has two parts. h + h w is exact in two parts. The sum of E and of the product of its
//! first part with D is exact in two parts, except for 2^-47.
//!
//! The series has an error of 2^-36.1, E of 2^-37.7, and each sum of low parts without terms of the series of 2^-45:
//! together less than 2^-35.6. Near 0, where D h is most of the result, w is at most 0.11. Relative to D h, the terms
//! of w² have seven roundings of 0.71 w² 2^-24 each (w twice, its square, the polynomial, and three sums), and the
//! terms of h² six of 0.39 h² 2^-24. Both kinds of terms lack the second part of D. Together that is less than 5.4 ·
//! 2^-24 w² and 2.7 · 2^-24 h². With w² = c² h², D times that is below 2.2e-7 h², and greatest for c² = 1/2. For
//! greater w, x is above 2, the result is 1, and D h is so small that these errors are below 2^-44.
//!
//! Below 2^-80 the second part of the product underflows. Such inputs are left to f64, except for 0.

use super::constants::{
    ERF_CURVE, ERF_FOURTH, ERF_NODES, ERF_SLOPE, ERF_SLOPES, ERF_SLOPES_LOW, ERF_SQUARE,
    ERF_VALUES, ERF_W,
};
use super::{Machine32, TO_INTEGER, Tables, polynomial, product, with_sign_of};

/// Nodes c, negated, the derivatives there in two parts, and the values.
struct Nodes;

impl Tables<4> for Nodes {
    const TABLES: [&'static [f32; 32]; 4] = [&ERF_NODES, &ERF_SLOPES, &ERF_SLOPES_LOW, &ERF_VALUES];
}

/// The error function.
#[inline(always)]
pub fn erf<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const BOUND: f32 = 2e-11; // 2^-35.5
    const PER_CUBE: f32 = 2.2e-7;
    let size = m.magnitude(x);
    let bounded = m.min(size, m.f32(4.0));
    let steps = m.fma(bounded, m.f32(ERF_CURVE), m.f32(ERF_SLOPE));
    let place = m.bits(m.fma(bounded, steps, m.f32(TO_INTEGER)));
    let [minus_c, slope, slope_low, value] = m.lookups::<4, Nodes>(place);
    let h = bounded + minus_c;
    let (w, w_low) = product(m, minus_c, h);
    let step = m.fma(h, w, h);
    let step_low = m.fma(h, w, h - step);
    let y = m.fma(slope, step, value);
    let low = m.fma(slope_low, step, m.fma(slope, step, value - y));
    // The rest.
    let (square, w_square) = (h * h, w * w);
    let even = m.fma(square, polynomial(m, w, &ERF_FOURTH), polynomial(m, w, &ERF_SQUARE));
    let series = m.fma(w_square, polynomial(m, w, &ERF_W), m.fma(square, even, w_low));
    let low = m.fma(slope, m.fma(h, series, step_low), low);
    let bound = m.f32(BOUND);
    let error = m.fma(m.magnitude(h) * square, m.f32(PER_CUBE / BOUND), y);
    let (y, is_sure) = m.rounded(y, [m.fnma(error, bound, low), m.fma(error, bound, low)]);
    (with_sign_of(m, y, x), is_sure & is_zero_or_large(m, size))
}

/// True for a magnitude below 2^47 that is 0 or above 2^-80.
#[inline(always)]
fn is_zero_or_large<M: Machine32>(m: &M, size: M::F32) -> M::Bool {
    const SCALE: f32 = (1_u128 << 80) as f32;
    const LEAST: f32 = 1.0 / (1_u128 << 71) as f32;
    let scaled = size * m.f32(SCALE);
    m.less(scaled, m.fma(scaled, scaled, m.f32(LEAST)))
}
