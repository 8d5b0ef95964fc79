//! Fast functions of f32, which leave some inputs to the sequences of f64.
//!
//! A function is a sequence of operations on 32 bits. It computes the result in two parts, `high` and `low`. Their sum
//! has a relative error below a bound ε of about 2^-34, which each file derives. If high + (low ± ε high) round to the
//! same float, so does the exact result: rounding is monotone (Ziv, Fast evaluation of elementary mathematical
//! functions with correctly rounded last bit). Otherwise, for about one input in a thousand and for inputs outside of a
//! range, the sequence of f64 decides. Both sequences round correctly, so the result's bits do not depend on the
//! choice.

mod constants;
mod error_function;
mod exponential;
mod hyperbolic;
mod inverse;
mod inverse_hyperbolic;
mod logarithm;
mod logarithm_of_sum;
mod machine;
mod roots;
mod tangent;
#[cfg(test)]
mod tests;
mod trigonometric;

pub use constants::EXP_POWERS;
pub use error_function::erf;
pub use exponential::{Expm1, exp, exp2, expm1};
pub use hyperbolic::{cosh, sinh};
pub use inverse::{acos, asin, atan};
pub use inverse_hyperbolic::{acosh, asinh, atanh};
pub use logarithm::{Log, Log2, Log10, log, log2, log10};
pub use logarithm_of_sum::log1p;
pub use machine::{Machine32, Tables};
pub use roots::cbrt;
pub use tangent::{tan, tanh};
pub use trigonometric::{cos, sin};

/// A function with a sequence in two halves. A loop can begin the next elements before it finishes the latest ones,
/// since processors look ahead only as far as their schedulers reach.
pub trait Halves {
    /// False if the first half is empty.
    const ARE_TWO: bool = true;
    /// The values between the halves.
    type Middle<M: Machine32>;

    /// The first half.
    fn begin<M: Machine32>(m: &M, x: M::F32) -> Self::Middle<M>;

    /// The result, and where it is right.
    fn finish<M: Machine32>(m: &M, middle: Self::Middle<M>) -> (M::F32, M::Bool);
}

/// Defines the sequences that are not in halves.
macro_rules! whole {
    ($($Name:ident $function:ident;)*) => {
        $(#[doc = concat!("[`", stringify!($function), "`], all in the second half.")]
        pub struct $Name;

        impl Halves for $Name {
            const ARE_TWO: bool = false;
            type Middle<M: Machine32> = M::F32;

            #[inline(always)]
            fn begin<M: Machine32>(_: &M, x: M::F32) -> M::F32 {
                x
            }

            #[inline(always)]
            fn finish<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
                $function(m, x)
            }
        })*
    };
}

whole! {
    Cbrt cbrt; Exp exp; Exp2 exp2; Log1p log1p; Sin sin; Cos cos; Tan tan; Asin asin; Acos acos; Atan atan; Sinh sinh;
    Cosh cosh; Tanh tanh; Asinh asinh; Acosh acosh; Atanh atanh; Erf erf;
}

/// Adding this to a number below 2^22 in magnitude and subtracting it again rounds to the nearest integer. The low bits
/// of the sum are this integer.
const TO_INTEGER: f32 = 12_582_912.0; // 1.5 · 2^23

/// The same for the nearest multiple of 1/16. The low bits of the sum are the number of sixteenths.
const TO_SIXTEENTHS: f32 = TO_INTEGER / 16.0;

/// Rounds high + low with a relative error of at most `bound`: [`Machine32::rounded`].
#[inline(always)]
fn rounded<M: Machine32>(m: &M, high: M::F32, low: M::F32, bound: f32) -> (M::F32, M::Bool) {
    m.rounded(high, [m.fma(high, m.f32(-bound), low), m.fma(high, m.f32(bound), low)])
}

/// a + b in two parts, exactly, if a = 0 or |a| ≥ |b| (Dekker).
#[inline(always)]
fn sum<M: Machine32>(a: M::F32, b: M::F32) -> (M::F32, M::F32) {
    let high = a + b;
    (high, (a - high) + b)
}

/// a · b in two parts, exactly unless it underflows.
#[inline(always)]
fn product<M: Machine32>(m: &M, a: M::F32, b: M::F32) -> (M::F32, M::F32) {
    let high = a * b;
    (high, m.fms(a, b, high))
}

/// The polynomial with these coefficients, lowest first, by Horner's rule.
#[inline(always)]
fn polynomial<M: Machine32>(m: &M, x: M::F32, coefficients: &[f32]) -> M::F32 {
    let (last, rest) = coefficients.split_last().expect("a polynomial has coefficients");
    let mut sum = m.f32(*last);
    for &c in rest.iter().rev() {
        sum = m.fma(sum, x, m.f32(c));
    }
    sum
}

/// y with the sign bit of x. The sign bit of y must not be set unless x has it.
#[inline(always)]
fn with_sign_of<M: Machine32>(m: &M, y: M::F32, x: M::F32) -> M::F32 {
    m.float(m.bits(y) | (m.bits(x) & m.i32(i32::MIN)))
}
