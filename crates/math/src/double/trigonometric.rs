//! Trigonometric functions.
//!
//! The argument is reduced to a quadrant and a pair, an angle r of at most π/4: with π/2 in three parts (Cody and
//! Waite) or, from 2^30 on, with the bits of 2/π that count for the argument's exponent (Payne and Hanek). sin r and
//! cos r are polynomials fitted by tools/minimax.py.

use super::pair::{Pair, any_sum, multiply, product, quotient, sum};
use crate::Machine;
use crate::sequence::{TO_INTEGER, magnitude, nearest, polynomial, two_to};
use crate::trigonometric::is_odd;
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// The polynomial in sin r = r + r³ SINE(r²), with a relative error of 2^-63.2.
const SINE: [f64; 7] = [
    -0.16666666666666666,
    0.008333333333333042,
    -0.0001984126984096245,
    2.755731907395995e-06,
    -2.5052070913350496e-08,
    1.6054309921903945e-10,
    -7.389361415002503e-13,
];
/// The polynomial in cos r = 1 - r²/2 + r⁴ COSINE(r²), with a relative error of 2^-63.9.
const COSINE: [f64; 6] = [
    0.041666666666666595,
    -0.0013888888888873342,
    2.4801587289001893e-05,
    -2.7557314216915395e-07,
    2.0875705369577252e-09,
    -1.1358747393638473e-11,
];
/// π/2 minus the nearest double, in two parts.
const HALF_PI_REST: (f64, f64) = (6.123233995736766e-17, -1.4973849048591698e-33);

/// The first bits of 2/π, in words of `WORD` bits.
const TWO_OVER_PI: [u64; 25] = [
    0xa2f9_836e_4e44,
    0x1529_fc27_57d1,
    0xf534_ddc0_db62,
    0x9599_3c43_9041,
    0xfe51_63ab_debb,
    0xc561_b724_6e3a,
    0x424d_d2e0_0649,
    0x2eea_09d1_921c,
    0xfe1d_eb1c_b129,
    0xa73e_e882_35f5,
    0x2ebb_4484_e99c,
    0x7026_b45f_7e41,
    0x3991_d639_8353,
    0x39f4_9c84_5f8b,
    0xbdf9_283b_1ff8,
    0x97ff_de05_980f,
    0xef2f_118b_5a0a,
    0x6d1f_6d36_7ecf,
    0x27cb_09b7_4f46,
    0x3f66_9e5f_ea2d,
    0x7527_bac7_ebe5,
    0xf17b_3d07_39f7,
    0x8a52_92ea_6bfb,
    0x5fb1_1f8d_5d08,
    0x5603_3046_fc7b,
];
const WORD: i64 = 48;
/// Greater arguments are reduced with `TWO_OVER_PI`.
const FAR: f64 = two_to(30);

/// Below this magnitude the tangent returns its argument.
const TINY: f64 = two_to(-28);

/// An angle: the number of the quadrant, in the low bits, and the radians from the quadrant's middle.
struct Angle<M: Machine> {
    quadrant: M::I64,
    r: Pair<M>,
    square: M::F64,
}

/// The number of quarter-turns, in the low bits of a shifted number, and the rest in radians, for magnitudes up to
/// `FAR`.
///
/// The first difference is exact. Unless it is zero, it is a multiple of 2^-52, and therefore of the last bit of
/// `term`, which is at most 2^-23. So `sum` is exact, even if `term` is the larger one (Muller and others, Handbook of
/// Floating-Point Arithmetic, 4.3.1).
#[inline(always)]
fn reduce_near<M: Machine>(m: &M, x: M::F64) -> [M::F64; 3] {
    let (n, shifted) = nearest(m, x * m.f64(FRAC_2_PI));
    let minus = -n;
    let (term, term_rest) = product(m, minus, m.f64(HALF_PI_REST.0));
    let (high, rest) = sum(m, m.fma(minus, m.f64(FRAC_PI_2), x), term);
    [shifted, high, m.fma(minus, m.f64(HALF_PI_REST.1), rest + term_rest)]
}

/// The same for greater magnitudes. The number of quarter-turns is only right modulo four.
///
/// The relative error of the rest is below 2^-76. No double is nearer to a multiple of π/2 than 2^-61.6 quarter-turns
/// (python_tests/support/hard_angles.py finds the nearest ones of each binade). The omitted words after the fifth
/// contribute less than 2^-138, since x is at most 2^102 after the skips. Up to the product with π/2, sums lose only
/// parts of 2^-104 of the rest.
#[inline(always)]
fn reduce_far<M: Machine>(m: &M, x: M::F64) -> [M::F64; 3] {
    // Words that only add multiples of four quarter-turns are skipped: 16, 8, 4, 2 and 1 of them.
    let mut words = TWO_OVER_PI.map(|word| m.f64(word as f64 * two_to(-WORD)));
    let mut x = x;
    for count in [16, 8, 4, 2, 1] {
        let skip = WORD * count as i64;
        let far = m.less(m.f64(two_to(54 + skip)), x);
        x = m.select(far, x * m.f64(two_to(-skip)), x);
        for i in 0..count + 4 {
            let next = *words.get(i + count).unwrap_or(&words[i]);
            words[i] = m.select(far, next, words[i]);
        }
    }
    let part = |i: i64| product(m, x * m.f64(two_to(-WORD * i)), words[i as usize]);
    let (a, b, c, d) = (part(0), part(1), part(2), part(3));
    let last = m.fma(x * m.f64(two_to(-WORD * 4)), words[4], d.1);
    // Subtracts multiples of eight, exactly. At most four is left, and zero for numbers above 2^54: these are multiples
    // of four, and their first difference is exact.
    let modulo = |x: M::F64| {
        let to_eight = m.f64(8.0 * TO_INTEGER);
        x - ((x - to_eight) + to_eight)
    };
    let mut terms = [modulo(a.0), modulo(a.1), modulo(b.0), b.1, c.0, c.1, d.0, last];
    // Turns the sum's terms into the sum and ever smaller rests (Ogita, Rump and Oishi, Accurate Sum and Dot Product).
    for i in (1..terms.len()).rev() {
        (terms[i - 1], terms[i]) = any_sum(m, terms[i - 1], terms[i]);
    }
    let (n, shifted) = nearest(m, terms[0]);
    // Near a multiple of π/2 the first rests vanish, and any rest except the last two, which are below 2^-94, may be
    // the first one that counts. So each is added to the sum in turn, and the rounding errors are kept.
    let start = (terms[0] - n, terms[6] + terms[7]);
    let turns = terms[1..6].iter().fold(start, |(high, low), &term| {
        let (high, rest) = any_sum(m, high, term);
        (high, low + rest)
    });
    let half_pi = (m.f64(FRAC_PI_2), m.f64(HALF_PI_REST.0));
    let (high, low) = multiply(m, turns, half_pi);
    let (high, low) = sum(m, high, low);
    [shifted, high, low]
}

impl<M: Machine> Angle<M> {
    /// The angle of a magnitude in radians.
    #[inline(always)]
    fn new(m: &M, size: M::F64) -> Self {
        let far = m.less(m.f64(FAR), size);
        let [shifted, high, low] = m.rarely(far, reduce_near(m, size), || reduce_far(m, size));
        Self { quadrant: m.bits(shifted), r: (high, low), square: high * high }
    }

    /// sin r.
    #[inline(always)]
    fn sine(&self, m: &M) -> Pair<M> {
        let (r, low) = self.r;
        let low = m.fma(self.square * low, m.f64(-0.5), low);
        (r, m.fma(r * self.square, polynomial(m, self.square, &SINE), low))
    }

    /// cos r.
    #[inline(always)]
    fn cosine(&self, m: &M) -> Pair<M> {
        let (r, low) = self.r;
        let (high, rest) = sum(m, m.f64(1.0), self.square * m.f64(-0.5));
        let small = m.fma(r, -low, rest);
        (high, m.fma(self.square * self.square, polynomial(m, self.square, &COSINE), small))
    }

    /// The sine of the angle plus `quarters` quarter-turns.
    #[inline(always)]
    fn sine_after(&self, m: &M, quarters: i64) -> M::F64 {
        let quadrant = self.quadrant + m.i64(quarters);
        let (odd, _) = is_odd(m, quadrant);
        let (sine, cosine) = (self.sine(m), self.cosine(m));
        let y = m.select(odd, cosine.0, sine.0) + m.select(odd, cosine.1, sine.1);
        let negative = m.shift_left(m.shift_right(quadrant, 1), 63);
        m.float(m.bits(y) ^ negative)
    }
}

/// An odd function's value at x, given the bits of its value at the magnitude of x.
#[inline(always)]
fn odd_function<M: Machine>(m: &M, x: M::F64, y: M::I64) -> M::F64 {
    m.float(y ^ (m.bits(x) & m.i64(i64::MIN)))
}

/// The sine.
#[inline(always)]
pub fn sin<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let y = Angle::new(m, magnitude(m, x)).sine_after(m, 0);
    odd_function(m, x, m.bits(y))
}

/// The cosine.
#[inline(always)]
pub fn cos<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    Angle::new(m, magnitude(m, x)).sine_after(m, 1)
}

/// The tangent, as the quotient of the polynomials.
///
/// Before the last rounding the error is at most 0.47 units, near 1: 0.33 from the sine and 0.14 from the cosine.
/// Without the rounding error of r's square, `square_rest`, it would be 0.35 more.
#[inline(always)]
pub fn tan<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let angle = Angle::new(m, magnitude(m, x));
    let normal = |(high, low)| sum(m, high, low);
    let square_rest = m.fma(angle.r.0, angle.r.0, -angle.square);
    let (high, low) = angle.cosine(m);
    let cosine = normal((high, m.fma(square_rest, m.f64(-0.5), low)));
    let sine = normal(angle.sine(m));
    let (odd, sign) = is_odd(m, angle.quadrant);
    let choose = |a: Pair<M>, b: Pair<M>| (m.select(odd, a.0, b.0), m.select(odd, a.1, b.1));
    let (high, low) = quotient(m, choose(cosine, sine), choose(sine, cosine));
    let y = odd_function(m, x, m.bits(high + low) ^ sign);
    m.select(m.less(magnitude(m, x), m.f64(TINY)), x, y)
}
