//! The table of functions: one row each.

/// Calls a macro with the table's rows, after the tokens that are given for it.
///
/// A row has the function's operation in the language (crates/expr/src/table.rs), its name in this crate, for f32, and
/// in [`double`](crate::double), for f64, and its arguments; then the kind of its loops on cores (`plain`; `seldom`, with
/// a rare sequence; `fast`, with a faster sequence for most f32); the cost of an element on a core, for f32 and f64, in
/// picoseconds, measured on a core of 2023 with AVX-512 (`benches/expression_table.py`, `benches/functions.py`); and
/// CORE-MATH's function of f32, which is proved to round correctly, or `none`.
#[macro_export]
macro_rules! functions {
    ($with:ident! $($given:tt)*) => {
        $with! {
            $($given)*
            Cbrt cbrt(x) plain [750, 1200] cbrtf;
            Exp exp(x) fast [400, 1200] expf;
            Exp2 exp2(x) fast [400, 1200] exp2f;
            Expm1 expm1(x) fast [550, 1200] expm1f;
            Log log(x) fast [500, 1500] logf;
            Log2 log2(x) fast [600, 1500] log2f;
            Log10 log10(x) fast [600, 1500] log10f;
            Log1p log1p(x) fast [600, 1500] log1pf;
            Sin sin(x) fast [700, 1600] sinf;
            Cos cos(x) fast [700, 1600] cosf;
            Tan tan(x) seldom [1700, 1600] tanf;
            Asin asin(x) plain [1000, 1500] asinf;
            Acos acos(x) plain [1000, 1500] acosf;
            Atan atan(x) plain [1000, 1500] atanf;
            Sinh sinh(x) plain [1000, 1500] sinhf;
            Cosh cosh(x) plain [1000, 1500] coshf;
            Tanh tanh(x) plain [1000, 1500] tanhf;
            Erf erf(x) plain [1900, 3100] erff;
            Atan2 atan2(x y) plain [1300, 1500] none;
            Hypot hypot(x y) plain [560, 900] none;
            Pow pow(x y) plain [3000, 6700] none;
        }
    };
}
