//! Inverse trigonometric functions, and the cube root.
//!
//! The polynomials are fitted by tools/minimax.py (Muller, Elementary Functions).

use crate::Machine;
use crate::sequence::{TO_INTEGER, at_most, except, magnitude, polynomial, two_to, with_sign_of};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// The polynomial in atan t = t + t³ ARC_TANGENT(t²) for |t| ≤ tan π/8, with a relative error of 2^-63.9.
pub(crate) const ARC_TANGENT: [f64; 12] = [
    -0.33333333333333326,
    0.19999999999997095,
    -0.14285714285316428,
    0.11111111083750524,
    -0.09090907986168063,
    0.07692279211211024,
    -0.0666617488342659,
    0.05876518951925468,
    -0.05215200822830108,
    0.04490659343228657,
    -0.033177538905060054,
    0.01489681974199842,
];
/// The polynomial in asin t = t + t³ ARC_SINE(t²) for |t| ≤ ½, with a relative error of 2^-58.5.
pub(crate) const ARC_SINE: [f64; 13] = [
    0.16666666666666763,
    0.07499999999970128,
    0.044642857175257324,
    0.030381942676687285,
    0.022372215865539977,
    0.01735159623735537,
    0.013981009551980148,
    0.011397367748421755,
    0.010788895251351986,
    0.003673830554462053,
    0.021786494476072508,
    -0.02111047377742437,
    0.032697872744445244,
];

/// The coefficients of the binomial series of (1 + h)^(-1/3) from h on.
const CBRT_SERIES: [f64; 5] = [-1.0 / 3.0, 2.0 / 9.0, -14.0 / 81.0, 35.0 / 243.0, -91.0 / 729.0];
/// The high word of an encoding divided by -3, plus this, is the high word of an approximation of x^(-1/3) with an
/// error of 3.5 %.
const CBRT_START: f64 = TO_INTEGER + 1_430_186_664.0;

/// Inputs with results too close to the middle of two floats.
const ATAN_EXCEPTION: [(u32, u32); 1] = [(0x3d8d_6b23, 0x3d8d_31c3)];
const ACOS_EXCEPTIONS: [(u32, u32); 2] = [(0x3288_85a3, 0x3fc9_0fdb), (0x3982_6222, 0x3fc9_07b5)];

/// π minus the nearest double, relative to π: the same for half and a quarter of π.
pub(crate) const PI_REST: f64 = 3.8981718325193755e-17;

/// base + t + t³p, where the base is a multiple of π/4.
#[inline(always)]
fn onto<M: Machine>(m: &M, base: M::F64, t: M::F64, square: M::F64, p: M::F64) -> M::F64 {
    base + (t + m.fma(t * square, p, base * m.f64(PI_REST)))
}

/// The inverse tangent.
///
/// atan x = π/4 + atan((x - 1) / (x + 1)) = π/2 - atan(1/x) leaves arguments below tan π/8 = √2 - 1.
/// Wrong for 0 of 2^32 inputs: one result and its negative are replaced.
#[inline(always)]
pub fn atan<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = m.widen(x);
    let size = magnitude(m, x);
    let y = angle(m, at_most(m, size, two_to(300)), m.f64(1.0), size, &ARC_TANGENT);
    m.narrow(with_sign_of(m, except(m, size, y, &ATAN_EXCEPTION), x))
}

/// The angle of a point that is `height` above and `width` > 0 beside the origin, to the left if the sign of `side` is
/// set. `arc_tangent` is the polynomial for the arc tangent.
#[inline(always)]
pub(crate) fn angle<M: Machine>(
    m: &M, height: M::F64, width: M::F64, side: M::F64, arc_tangent: &[f64],
) -> M::F64 {
    let far = m.less(width * m.f64(std::f64::consts::SQRT_2 + 1.0), height);
    let middle = m.less(width * m.f64(std::f64::consts::SQRT_2 - 1.0), height);
    let choose = |a, b, c| m.select(far, c, m.select(middle, b, a));
    let minus = -width;
    let t =
        m.quotient(choose(height, height - width, minus), choose(width, height + width, height));
    let base = choose(m.f64(0.0), m.f64(FRAC_PI_4), m.f64(FRAC_PI_2));
    let left = m.less(with_sign_of(m, m.f64(1.0), side), m.f64(0.0));
    let base = m.select(left, m.f64(PI) - base, base);
    let t = m.select(left, -t, t);
    let square = t * t;
    onto(m, base, t, square, polynomial(m, square, arc_tangent))
}

/// An argument t of the arc sine of at most ½. For greater x, asin x = π/2 - 2 asin √((1 - x) / 2).
struct HalfAngle<M: Machine> {
    /// True if x is below ½, and t is x.
    near: M::Bool,
    /// x, or -2 √((1 - x) / 2).
    t: M::F64,
    /// x², or (1 - x) / 2.
    square: M::F64,
}

impl<M: Machine> HalfAngle<M> {
    #[inline(always)]
    fn new(m: &M, size: M::F64) -> Self {
        let near = m.less(size, m.f64(0.5));
        let half = (m.f64(1.0) - size) * m.f64(0.5);
        let t = m.select(near, size, m.f64(-2.0) * m.sqrt(half));
        Self { near, t, square: m.select(near, size * size, half) }
    }
}

/// The inverse sine.
///
/// Wrong for 0 of 2^32 inputs.
#[inline(always)]
pub fn asin<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = m.widen(x);
    let HalfAngle { near, t, square } = HalfAngle::new(m, magnitude(m, x));
    let base = m.select(near, m.f64(0.0), m.f64(FRAC_PI_2));
    let y = onto(m, base, t, square, polynomial(m, square, &ARC_SINE));
    m.narrow(with_sign_of(m, y, x))
}

/// The inverse cosine: acos x = π/2 - asin x.
///
/// Wrong for 0 of 2^32 inputs: two results are replaced.
#[inline(always)]
pub fn acos<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = m.widen(x);
    let HalfAngle { near, t, square } = HalfAngle::new(m, magnitude(m, x));
    let negative = m.less(x, m.f64(0.0));
    let end = m.select(negative, m.f64(PI), m.f64(0.0));
    let base = m.select(near, m.f64(FRAC_PI_2), end);
    let t = m.select(negative, t, -t);
    let y = onto(m, base, t, square, polynomial(m, square, &ARC_SINE));
    m.narrow(except(m, x, y, &ACOS_EXCEPTIONS))
}

/// The cube root, x times the square of x^(-1/3).
///
/// Wrong for 0 of 2^32 inputs.
#[inline(always)]
pub fn cbrt<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = m.widen(x);
    let size = magnitude(m, x);
    let y = inverse_cube_root(m, size);
    let root = x * (y * y);
    m.narrow(m.select(m.less(size, m.f64(f64::INFINITY)), root, x))
}

/// x^(-1/3) for x > 0, with an error of a few last bits.
///
/// Starts with arithmetic on the exponent, followed by two steps of the binomial series of (1 + h)^(-1/3) with
/// h = x y³ - 1 (Muller, Elementary Functions).
#[inline(always)]
pub(crate) fn inverse_cube_root<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let high = m.float(m.shift_right(m.bits(x), 32) | m.i64((1023 + 52) << 52));
    let high = high - m.f64(two_to(52));
    let start = m.fma(high, m.f64(-1.0 / 3.0), m.f64(CBRT_START));
    let y = m.float(m.shift_left(m.bits(start), 32));
    let step = |y: M::F64, series: &[f64]| {
        let h = m.fma(x * y, y * y, m.f64(-1.0));
        m.fma(y * h, polynomial(m, h, series), y)
    };
    step(step(y, &CBRT_SERIES), &CBRT_SERIES[..2])
}
