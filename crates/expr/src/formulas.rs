//! Functions that are formulas in the language: NumPy's names for operators, casts and functions, and functions that
//! need no operation of their own.

use crate::Rule;

/// A function that is a formula of its arguments `x`, `y` and `z`. A formula may have several parts with `;` between
/// them. The values of earlier parts are `u`, `v` and `w`.
pub(crate) struct Formula {
    pub(crate) name: &'static str,
    pub(crate) arity: usize,
    pub(crate) text: Text,
}

/// The text of a formula.
pub(crate) enum Text {
    /// For arguments of any types.
    Any(&'static str),
    /// For arguments that a rule converts to one type. The texts are for integers, f32 and f64.
    Typed(Rule, [&'static str; 3]),
}

impl Formula {
    /// The function of a name.
    pub(crate) fn named(name: &str) -> Option<&'static Formula> {
        FORMULAS.iter().find(|formula| formula.name == name)
    }
}

/// The names of a formula's arguments.
pub(crate) const ARGUMENTS: [&str; 3] = ["x", "y", "z"];
/// The names of the values of its parts.
pub(crate) const PARTS: [&str; 4] = ["u", "v", "w", "result"];

const fn any(name: &'static str, arity: usize, text: &'static str) -> Formula {
    Formula { name, arity, text: Text::Any(text) }
}

/// A function of numbers, with a text for integers and one for floats.
const fn numbers(
    name: &'static str, arity: usize, integers: &'static str, floats: &'static str,
) -> Formula {
    Formula { name, arity, text: Text::Typed(Rule::Number, [integers, floats, floats]) }
}

/// A function of floats, to which integers are converted.
const fn floats(
    name: &'static str, arity: usize, single: &'static str, double: &'static str,
) -> Formula {
    Formula { name, arity, text: Text::Typed(Rule::Float, ["", single, double]) }
}

/// The neighbour of x on the side of y. The parts are the magnitude of x; 1 if the magnitude grows, else -1; and the
/// neighbour's magnitude. That is the magnitude of x plus or minus a bit more than half an ulp, rounded. If half an ulp
/// is subnormal, x is multiplied by a power of two first. Below twice the least normal number, all numbers are equally
/// far apart (Rump, Zimmermann, Boldo, Melquiond: "Computing predecessor and successor in rounding to nearest", 2009).
const NEXT_AFTER_F32: &str = "\
    abs(x); \
    where((x < y) ^ (0 < x), f32(-1), f32(1)); \
    where(u == inf, 3.4028234663852886e38, \
    where(u < 2.350988701644575e-38, u + v * 1e-45, \
    where(u < 1.9721522630525295e-31, \
        (u * 16777216.0 + v * (u * 16777216.0 * 5.960465188081798e-8)) * 5.960464477539063e-8, \
    u + v * (u * 5.960465188081798e-8)))); \
    where((x == y) | (y != y), y, copysign(w, where(x == 0, y, x)))";

/// The same for f64.
const NEXT_AFTER_F64: &str = "\
    abs(x); \
    where((x < y) ^ (0 < x), f64(-1), f64(1)); \
    where(u == inf, 1.7976931348623157e308, \
    where(u < 4.450147717014403e-308, u + v * 5e-324, \
    where(u < 2.004168360008973e-292, \
        (u * 9007199254740992.0 + v * (u * 9007199254740992.0 * 1.1102230246251568e-16)) \
        * 1.1102230246251565e-16, \
    u + v * (u * 1.1102230246251568e-16)))); \
    where((x == y) | (y != y), y, copysign(w, where(x == 0, y, x)))";

/// All such functions.
pub(crate) const FORMULAS: &[Formula] = &[
    // Names of NumPy for operators.
    any("add", 2, "x + y"),
    any("subtract", 2, "x - y"),
    any("multiply", 2, "x * y"),
    any("divide", 2, "x / y"),
    any("true_divide", 2, "x / y"),
    any("floor_divide", 2, "x // y"),
    any("mod", 2, "x % y"),
    any("remainder", 2, "x % y"),
    any("power", 2, "x ** y"),
    any("float_power", 2, "pow(f64(x), f64(y))"),
    any("square", 1, "x * x"),
    any("negative", 1, "-x"),
    any("positive", 1, "+x"),
    any("less", 2, "x < y"),
    any("less_equal", 2, "x <= y"),
    any("greater", 2, "x > y"),
    any("greater_equal", 2, "x >= y"),
    any("equal", 2, "x == y"),
    any("not_equal", 2, "x != y"),
    any("logical_and", 2, "bool(x) & bool(y)"),
    any("logical_or", 2, "bool(x) | bool(y)"),
    any("logical_xor", 2, "bool(x) ^ bool(y)"),
    any("logical_not", 1, "~bool(x)"),
    any("bitwise_and", 2, "x & y"),
    any("bitwise_or", 2, "x | y"),
    any("bitwise_xor", 2, "x ^ y"),
    any("bitwise_not", 1, "~x"),
    any("bitwise_invert", 1, "~x"),
    any("invert", 1, "~x"),
    any("left_shift", 2, "x << y"),
    any("bitwise_left_shift", 2, "x << y"),
    any("right_shift", 2, "x >> y"),
    any("bitwise_right_shift", 2, "x >> y"),
    // Names of NumPy for casts and functions.
    any("bool_", 1, "bool(x)"),
    any("int32", 1, "i32(x)"),
    any("int64", 1, "i64(x)"),
    any("uint64", 1, "u64(x)"),
    any("float16", 1, "f16(x)"),
    any("half", 1, "f16(x)"),
    any("bfloat16", 1, "bf16(x)"),
    any("float32", 1, "f32(x)"),
    any("float64", 1, "f64(x)"),
    any("single", 1, "f32(x)"),
    any("double", 1, "f64(x)"),
    any("absolute", 1, "abs(x)"),
    any("arcsin", 1, "asin(x)"),
    any("arcsinh", 1, "asinh(x)"),
    any("arccos", 1, "acos(x)"),
    any("arccosh", 1, "acosh(x)"),
    any("arctan", 1, "atan(x)"),
    any("arctan2", 2, "atan2(x, y)"),
    any("arctanh", 1, "atanh(x)"),
    any("deg2rad", 1, "radians(x)"),
    any("rad2deg", 1, "degrees(x)"),
    floats("fabs", 1, "abs(x)", "abs(x)"),
    // Integers have no NaN.
    numbers("isnan", 1, "x != x", "x != x"),
    numbers("isinf", 1, "x != x", "abs(x) == inf"),
    numbers("isposinf", 1, "x != x", "x == inf"),
    numbers("isneginf", 1, "x != x", "x == -inf"),
    numbers("isfinite", 1, "x == x", "abs(x) < inf"),
    numbers("signbit", 1, "x < 0", "copysign(1, x) < 0"),
    numbers("round", 1, "x", "rint(x)"),
    numbers("clip", 3, "minimum(maximum(x, y), z)", "minimum(maximum(x, y), z)"),
    numbers("fmin", 2, "minimum(x, y)", "minimum(where(x != x, y, x), where(y != y, x, y))"),
    numbers("fmax", 2, "maximum(x, y)", "maximum(where(x != x, y, x), where(y != y, x, y))"),
    numbers(
        "fmod",
        2,
        "x % y; minimum(sign(u) * sign(x), 0); u - v * v * y",
        "copysign(abs(x) % abs(y), x)",
    ),
    // For f32, the product is computed in f64, and rounded: its error of 2^-52 is less than its distance from the
    // middle of two f32, which is 2^-51 or more. For f64, the factor is a sum of two numbers. The first is smaller than
    // the factor, so that the second is positive, and infinity times it has the right sign.
    floats(
        "degrees",
        1,
        "f32(f64(x) * 57.29577951308232)",
        "fma(x, 57.295779513082316, x * 5.117577790543373e-15)",
    ),
    floats(
        "radians",
        1,
        "f32(f64(x) * 0.017453292519943295)",
        "fma(x, 0.017453292519943295, x * 2.9486522708701687e-19)",
    ),
    // For f64, a Newton step from u, with 1 - x * u^2 from the exact errors of two products. Before it is rounded, the
    // result has an error of some 2^-50 ulp.
    floats(
        "rsqrt",
        1,
        "f32(1 / sqrt(f64(x)))",
        "1 / sqrt(x); x * u; fma(-v, u, 1) - fma(x, u, -v) * u; \
         where((0 < x) & (x < inf), fma(u, w * 0.5, u), u)",
    ),
    floats("nextafter", 2, NEXT_AFTER_F32, NEXT_AFTER_F64),
];
