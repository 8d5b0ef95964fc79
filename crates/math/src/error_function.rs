//! The error function.

use crate::Machine;
use crate::sequence::{at_most, magnitude, polynomial, with_sign_of};

/// The polynomial in erf x = 2x/√π + x NEAR(x²) for |x| ≤ 1, with a relative error of 2^-63.7.
pub(crate) const NEAR: [f64; 14] = [
    1.5333028648299967e-17,
    -0.37612638903183754,
    0.11283791670955215,
    -0.02686617064515187,
    0.005223977625680886,
    -0.00085483270396206,
    0.00012055333677254603,
    -1.4925670206434204e-05,
    1.6462497509832247e-06,
    -1.637083166750953e-07,
    1.484956900466999e-08,
    -1.2505038877092322e-09,
    9.889730020213798e-11,
    -6.0421080193658584e-12,
];
/// The polynomial in erf x = FAR(x - 2.5) for 1 ≤ x ≤ 4, with an error of 2^-53.8.
const FAR: [f64; 27] = [
    0.9995930479825551,
    0.0021782842303527854,
    -0.0054457105758867275,
    0.008350089549681174,
    -0.008622375078339206,
    0.006117348213641672,
    -0.0027984901586162237,
    0.0005424100608356891,
    0.0002606701830253109,
    -0.00025028538438296843,
    7.880129698137315e-05,
    5.137000218774574e-06,
    -1.4079941451828107e-05,
    4.6909464108885755e-06,
    1.8125746476138707e-07,
    -6.41243129393645e-07,
    1.7934804329744406e-07,
    1.8009708621141582e-08,
    -2.383756139210846e-08,
    4.462884815859048e-09,
    1.1843435767180733e-09,
    -6.779453538529436e-10,
    3.646153816750508e-11,
    4.633068521970649e-11,
    -8.998032616674394e-12,
    -1.4489150559127266e-12,
    4.4768233196189817e-13,
];

/// The error function.
///
/// An odd polynomial up to 1, and a polynomial about 2.5 up to 4, where the result is 1 in f32. Both are fitted by
/// tools/minimax.py (Muller, Elementary Functions). Wrong for 0 of 2^32 inputs.
#[inline(always)]
pub fn erf<M: Machine>(m: &M, x: M::F32) -> M::F32 {
    let x = m.widen(x);
    let size = at_most(m, magnitude(m, x), 4.0);
    let square = size * size;
    let near =
        m.fma(size, m.f64(std::f64::consts::FRAC_2_SQRT_PI), size * polynomial(m, square, &NEAR));
    let far = polynomial(m, size - m.f64(2.5), &FAR);
    let y = m.select(m.less(size, m.f64(1.0)), near, far);
    m.narrow(with_sign_of(m, y, x))
}
