//! The cube root, and the length of a vector.

use super::pair::{product, sum};
use crate::Machine;
use crate::inverse::inverse_cube_root;
use crate::sequence::{magnitude, two_to};
use crate::two_arguments::or_infinite;

/// The cube root, x times the square of x^(-1/3), and a step of Newton's method.
#[inline(always)]
pub fn cbrt<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let zero = m.f64(0.0);
    let size = magnitude(m, x);
    // The rests of smaller cubes would underflow.
    let small = m.less(size, m.f64(two_to(-700)));
    let scaled = m.select(small, x * m.f64(two_to(300)), x);
    let inverse = inverse_cube_root(m, magnitude(m, scaled));
    let inverse_square = inverse * inverse;
    let root = scaled * inverse_square;
    let (square, rest) = product(m, root, root);
    let excess = m.fma(rest, root, m.fma(square, root, -scaled));
    let root = m.fma(excess * m.f64(-1.0 / 3.0), inverse_square, root);
    let root = m.select(small, root * m.f64(two_to(-100)), root);
    // Zero, infinity and NaN are their own roots.
    let finite = m.select(m.less(size, m.f64(f64::INFINITY)), root, x);
    m.select(m.less(zero, size), finite, x)
}

/// √(x² + y²), without overflow, and a step of Newton's method.
#[inline(always)]
pub fn hypot<M: Machine>(m: &M, x: M::F64, y: M::F64) -> M::F64 {
    let (a, b) = (magnitude(m, x), magnitude(m, y));
    let swap = m.less(a, b);
    let (a, b) = (m.select(swap, b, a), m.select(swap, a, b));
    let scale = |large, small| {
        let low = m.select(m.less(a, m.f64(two_to(-400))), m.f64(small), m.f64(1.0));
        m.select(m.less(m.f64(two_to(500)), a), m.f64(large), low)
    };
    let down = scale(two_to(-600), two_to(600));
    let up = scale(two_to(600), two_to(-600));
    let (a_square, a_rest) = product(m, a * down, a * down);
    let (b_square, b_rest) = product(m, b * down, b * down);
    let (square, rest) = sum(m, a_square, b_square);
    let root = m.sqrt(square);
    let lack = m.fma(-root, root, square) + (rest + (a_rest + b_rest));
    let root = m.fma(lack, m.f64(0.5) / (root + m.f64(f64::MIN_POSITIVE)), root);
    or_infinite(m, x, y, root * up)
}
