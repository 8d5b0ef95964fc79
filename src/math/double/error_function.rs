//! The error function.

use super::exponential::complement;
use super::pair::sum;
use crate::Machine;
use crate::error_function::NEAR;
use crate::sequence::{at_most, magnitude, polynomial, with_sign_of};

/// From here on the function is 1 - erfc x.
const FAR_FROM: f64 = 27.0 / 32.0;
/// Gives log erfc(x) = -`LOG_ERFC_START` + t LOG_ERFC(t) up to 6, where t = x - `FAR_FROM`, such that the
/// error of erf x is 2^-57.7 (tools/minimax.py).
const LOG_ERFC: [f64; 18] = [
    -2.3786996504088105,
    -0.8220781833953905,
    -0.048332529996363595,
    0.011661214476694933,
    -0.0021803604497764918,
    0.00018671047560134952,
    6.95587335917861e-05,
    -4.2871126406094315e-05,
    1.2773146314866221e-05,
    -1.956208114506849e-06,
    -2.4890580019451607e-07,
    2.872771351253893e-07,
    -1.1084161351179039e-07,
    2.8045599229352507e-08,
    -4.983271707458695e-09,
    6.035166635210922e-10,
    -4.488534093369667e-11,
    1.5466870964672442e-12,
];
const LOG_ERFC_START: (f64, f64) = (-1.457685797861741, 5.291835912435579e-17);
/// 2/√π - 1.
const SLOPE: f64 = 0.1283791670955126;

/// The error function.
///
/// x plus an odd polynomial, and from `FAR_FROM` on 1 - e^(log erfc x), which is 1 long before 6.
#[inline(always)]
pub fn erf<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let size = at_most(m, magnitude(m, x), 6.0);
    let square = size * size;
    let slope = m.fma(square, polynomial(m, square, &NEAR[1..]), m.f64(SLOPE));
    let near = m.fma(size, slope, size);
    let t = size - m.f64(FAR_FROM);
    let (log, rest) = sum(m, m.f64(LOG_ERFC_START.0), t * polynomial(m, t, &LOG_ERFC));
    let far = complement(m, (log, rest + m.f64(LOG_ERFC_START.1)));
    with_sign_of(m, m.select(m.less(size, m.f64(FAR_FROM)), near, far), x)
}
