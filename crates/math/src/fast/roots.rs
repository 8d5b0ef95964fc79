//! The cube root: c = x y², where y is near x^(-1/3), corrected by one Newton step.
//!
//! The encoding of x divided by -3 gives a y for which x y³ - 1 = e is below 0.103, so that y² (1 + e ROOT(e)) is
//! x^(-2/3) with an error of 2^-21.6, or of 2^-21.2 with its roundings and the rounding of c. The step adds (x - c³) /
//! (3 c²). The method's error is the square of the last figure, 2^-42.4. x - c³ is below 2^-19.6 x, and its roundings
//! are 2^-43. The factor 1 / (3 c²) has an error of less than 2^-20, which is 2^-41 of the result: together less than
//! 2^-40.

use super::constants::{ROOT, ROOT_START, ROOT_THIRD};
use super::{Machine32, polynomial, product, rounded, with_sign_of};

/// The cube root.
///
/// The argument is multiplied by 2^48, so that nothing underflows. Arguments from 2^80 on are too large for that.
#[inline(always)]
pub fn cbrt<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
    const BOUND: f32 = 1e-12; // 2^-39.9
    let size = m.magnitude(x);
    let scaled = size * m.f32((1_u64 << 48) as f32);
    let shifted = m.fma(m.convert(m.bits(scaled)), m.f32(ROOT_THIRD), m.f32(ROOT_START));
    let start = m.float(m.shift_left::<9>(m.bits(shifted)));
    let square = start * start;
    let excess = m.fms(scaled * start, square, m.f32(1.0));
    let square = m.fma(square * excess, polynomial(m, excess, &ROOT), square);
    let root = scaled * square;
    let (power, power_low) = product(m, root, root);
    let rest = m.fma(power_low, root, m.fms(power, root, scaled));
    let low = rest * (square * m.f32(-1.0 / 3.0));
    let (y, is_sure) = rounded(m, root, low, BOUND);
    let y = y * m.f32(1.0 / 65536.0);
    (with_sign_of(m, y, x), m.and_less(is_sure, size, m.f32((1_u128 << 80) as f32)))
}
