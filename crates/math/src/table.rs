//! The table of functions: one row each.

/// Calls a macro with the given tokens, followed by the table's rows.
///
/// A row has the function's operation in the language (crates/expr/src/table.rs), its name in this crate for f32 and in
/// [`double`](crate::double) for f64, and its arguments. The kind of its loops on cores follows: `fast` with a faster
/// sequence for most f32, else `seldom`. Then the cost of an element on a core in picoseconds, for f32 and f64,
/// measured on a core of 2023 with AVX-512 (`benches/bench.py`, `formulas-core` and `functions`). The last entry is
/// CORE-MATH's correctly rounded function of f32.
#[macro_export]
macro_rules! functions {
    ($with:ident! $($given:tt)*) => {
        $with! {
            $($given)*
            Cbrt cbrt(x) fast [450, 1200] cbrtf;
            Exp exp(x) fast [400, 1200] expf;
            Exp2 exp2(x) fast [400, 1200] exp2f;
            Expm1 expm1(x) fast [550, 1200] expm1f;
            Log log(x) fast [450, 1500] logf;
            Log2 log2(x) fast [450, 1500] log2f;
            Log10 log10(x) fast [450, 1500] log10f;
            Log1p log1p(x) fast [700, 1500] log1pf;
            Sin sin(x) fast [700, 1600] sinf;
            Cos cos(x) fast [700, 1600] cosf;
            Tan tan(x) fast [900, 1600] tanf;
            Asin asin(x) fast [850, 1500] asinf;
            Acos acos(x) fast [950, 1500] acosf;
            Atan atan(x) fast [850, 1500] atanf;
            Sinh sinh(x) fast [750, 1500] sinhf;
            Cosh cosh(x) fast [1000, 1500] coshf;
            Tanh tanh(x) fast [800, 1500] tanhf;
            Asinh asinh(x) fast [1200, 2400] asinhf;
            Acosh acosh(x) fast [1200, 2300] acoshf;
            Atanh atanh(x) fast [1150, 1900] atanhf;
            Erf erf(x) fast [800, 3100] erff;
            Atan2 atan2(x y) seldom [1650, 1500] atan2f;
            Hypot hypot(x y) seldom [1250, 900] hypotf;
            Pow pow(x y) seldom [3300, 6700] powf;
        }
    };
}
