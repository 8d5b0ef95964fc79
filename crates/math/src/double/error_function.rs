//! The error function.

use super::exponential::complement;
use super::pair::sum;
use crate::Machine;
use crate::error_function::NEAR;
use crate::sequence::{at_most, long_polynomial, magnitude, with_sign_of};

/// From this argument on the function is computed as 1 - erfc x.
const FAR_FROM: f64 = 11.0 / 16.0;
/// The polynomial in log erfc(x) = -`LOG_ERFC_START` + t LOG_ERFC(t) up to 6, where t = x - `FAR_FROM`. It adds an
/// error of 2^-58.8 to erf x (tools/minimax.py).
const LOG_ERFC: [f64; 19] = [
    -2.1255247287479557,
    -0.7976294352452268,
    -0.05616565859333859,
    0.013421770151167496,
    -0.0023095973614529817,
    7.705577267262118e-05,
    0.00013508289398541273,
    -6.254622936614655e-05,
    1.4981024836382873e-05,
    -7.171869843173126e-07,
    -1.1961522191092974e-06,
    6.723883916096668e-07,
    -2.253282344371566e-07,
    5.473842675037769e-08,
    -9.941466796157348e-09,
    1.3250476397614702e-09,
    -1.2263861063240136e-10,
    7.033113026270293e-12,
    -1.8769662969153121e-13,
];
const LOG_ERFC_START: (f64, f64) = (-1.1058927154341582, -4.563847004851285e-17);
/// 2/√π - 1.
const SLOPE: f64 = 0.1283791670955126;

/// The error function.
///
/// x plus an odd polynomial, and from `FAR_FROM` on 1 - e^(log erfc x), which is 1 long before 6.
#[inline(always)]
pub fn erf<M: Machine>(m: &M, x: M::F64) -> M::F64 {
    let size = at_most(m, magnitude(m, x), 6.0);
    let square = size * size;
    let slope = m.fma(square, long_polynomial(m, square, &NEAR[1..]), m.f64(SLOPE));
    let near = m.fma(size, slope, size);
    let t = size - m.f64(FAR_FROM);
    let (log, rest) = sum(m, m.f64(LOG_ERFC_START.0), t * long_polynomial(m, t, &LOG_ERFC));
    let far = complement(m, (log, rest + m.f64(LOG_ERFC_START.1)));
    with_sign_of(m, m.select(m.less(size, m.f64(FAR_FROM)), near, far), x)
}
