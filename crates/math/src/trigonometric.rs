//! Trigonometric functions.
//!
//! The argument is reduced to a quadrant and |f| ≤ ½ quarter-turns by the method of Payne and Hanek (Radian Reduction
//! for Trigonometric Functions), in floats: f32 times 28 bits of 2/π is exact in f64, and subtracting multiples of four
//! quarter-turns from a product is exact. Only the bits of 2/π that count for the argument's exponent are used.
//! sin(fπ/2) and cos(fπ/2) are polynomials fitted by tools/minimax.py (Muller, Elementary Functions).

use crate::Machine;
use crate::sequence::{TO_INTEGER, except, magnitude, nearest, polynomial, two_to};

/// The polynomial in sin(fπ/2) = f HALF_PI + f SINE(f²), with a relative error of 2^-57.9.
const SINE: [f64; 7] = [
    5.600774245803796e-17,
    -0.6459640975062443,
    0.07969262624604484,
    -0.0046817541323937,
    0.00016044115120984273,
    -3.5986450833150627e-06,
    5.634164897974042e-08,
];
/// The polynomial in cos(fπ/2) = 1 + f² COSINE(f²), with a relative error of 2^-61.5.
const COSINE: [f64; 7] = [
    -1.2337005501361697,
    0.2536695079010417,
    -0.020863480763180994,
    0.0009192602726330484,
    -2.5202027453495698e-05,
    4.710334370502821e-07,
    -6.289440325390181e-09,
];
const HALF_PI: f64 = std::f64::consts::FRAC_PI_2;

/// Consecutive parts of 28 bits of 2/π.
const TWO_OVER_PI: [f64; 6] = [
    0.6366197690367699,
    3.3308114738561656e-09,
    2.276010047810136e-18,
    2.5268260189002822e-26,
    1.6682867657019525e-34,
    1.158871328288855e-43,
];
/// The rest of 2/π after three, four, five and six parts.
const REST: [f64; 4] =
    [2.52682603558315e-26, 1.668286766860824e-34, 1.1588713353428143e-43, 7.053959263504975e-52];
/// Above each of these magnitudes, one more part contributes only multiples of four quarter-turns.
const SKIPPED: [f64; 3] = [two_to(53), two_to(81), two_to(109)];

/// Inputs of the cosine with results too close to the middle of two floats.
const COS_EXCEPTIONS: [(u32, u32); 2] = [(0x5f18_b878, 0x3f7f_14bb), (0x6115_cb11, 0x3f78_142f)];

/// An angle: `quadrant` in the low bits, and f quarter-turns.
struct Angle<M: Machine> {
    quadrant: M::I64,
    f: M::F64,
}

/// Reduces an angle in radians.
#[inline(always)]
fn reduce<M: Machine>(m: &M, x: M::F64) -> Angle<M> {
    let size = magnitude(m, x);
    let parts = |i: usize| {
        let [a, b, c] = [TWO_OVER_PI[i], TWO_OVER_PI[i + 1], TWO_OVER_PI[i + 2]];
        [a, b, c, REST[i]].map(|part| m.f64(part))
    };
    let [first, second, third] = SKIPPED.map(|bound| m.less(m.f64(bound), size));
    let choose = |condition, yes: [M::F64; 4], no: [M::F64; 4]| {
        std::array::from_fn(|i| m.select(condition, yes[i], no[i]))
    };
    let [a, b, c, rest] =
        m.rarely(first, parts(0), || choose(second, choose(third, parts(3), parts(2)), parts(1)));
    let turns = x * a;
    let to_four = m.f64(4.0 * TO_INTEGER);
    let a = turns - ((turns + to_four) - to_four);
    let (b, c) = (x * b, x * c);
    let (n, shifted) = nearest(m, (a + b) + c);
    // Each sum is exact if its terms cancel.
    let f = m.fma(x, rest, ((a - n) + b) + c);
    Angle { quadrant: m.bits(shifted), f }
}

impl<M: Machine> Angle<M> {
    /// sin(fπ/2).
    #[inline(always)]
    fn sine(&self, m: &M, square: M::F64) -> M::F64 {
        m.fma(self.f, m.f64(HALF_PI), self.f * polynomial(m, square, &SINE))
    }

    /// cos(fπ/2).
    #[inline(always)]
    fn cosine(&self, m: &M, square: M::F64) -> M::F64 {
        m.fma(square, polynomial(m, square, &COSINE), m.f64(1.0))
    }

    /// The sine of the angle plus `quarters` quarter-turns.
    #[inline(always)]
    fn sine_after(&self, m: &M, quarters: i64) -> M::F64 {
        let square = self.f * self.f;
        let quadrant = self.quadrant + m.i64(quarters);
        let (odd, _) = is_odd(m, quadrant);
        let y = m.select(odd, self.cosine(m, square), self.sine(m, square));
        let negative = m.shift_left(m.shift_right(quadrant, 1), 63);
        m.float(m.bits(y) ^ negative)
    }
}

/// True if the quadrant is odd, and the same as the sign bit of a number.
#[inline(always)]
pub(crate) fn is_odd<M: Machine>(m: &M, quadrant: M::I64) -> (M::Bool, M::I64) {
    let sign = m.shift_left(quadrant, 63);
    (m.less(m.float(sign | m.i64(1023 << 52)), m.f64(0.0)), sign)
}

/// The sine of an angle plus `quarters` quarter-turns.
#[cfg(test)]
pub(crate) fn sine<M: Machine>(m: &M, x: M::F64, quarters: i64) -> M::F64 {
    reduce(m, x).sine_after(m, quarters)
}

/// The sine.
///
/// Wrong for 0 of 2^32 inputs.
#[inline(always)]
pub fn sin<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = m.widen(x);
    m.narrow(reduce(m, x).sine_after(m, 0))
}

/// The cosine.
///
/// Wrong for 0 of 2^32 inputs: two results, and the results of the negative inputs, are replaced.
#[inline(always)]
pub fn cos<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = magnitude(m, m.widen(x));
    m.narrow(except(m, x, reduce(m, x).sine_after(m, 1), &COS_EXCEPTIONS))
}

/// The tangent, as the quotient of the polynomials.
///
/// Wrong for 0 of 2^32 inputs.
#[inline(always)]
pub fn tan<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = m.widen(x);
    let angle = reduce(m, x);
    let square = angle.f * angle.f;
    let (sine, cosine) = (angle.sine(m, square), angle.cosine(m, square));
    let (odd, sign) = is_odd(m, angle.quadrant);
    let y = m.quotient(m.select(odd, cosine, sine), m.select(odd, sine, cosine));
    m.narrow(m.float(m.bits(y) ^ sign))
}
