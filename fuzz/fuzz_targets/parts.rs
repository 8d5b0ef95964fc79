//! Parts of texts, of which bytes choose: most of what they make is almost right.

/// The names of a case's inputs.
pub const NAMES: [&str; 4] = ["a", "b", "c", "k"];

#[rustfmt::skip]
const PARTS: [&str; 120] = [
    "a", "b", "c", "k", "a*b+c", "(a", "b)", "k*", "a", "b", "c", ")", ")", ")", "(", "(",
    "+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", ">", ">=", "&", "|", "~",
    "2", "0.5", "1e9", "7", "-1", "1/3", "1e999", "2147483648", "9223372036854775807", "63", "0", "pi",
    ",", ",", ",", " ", "\n", "True", "nan", "inf", "where(", "fma(", "pow(", "atan2(", "hypot(",
    "minimum(", "maximum(", "copysign(", "sqrt(", "cbrt(", "exp(", "expm1(", "log(", "log1p(", "sin(",
    "tan(", "asin(", "acos(", "tanh(", "sinh(", "erf(", "abs(", "sign(", "floor(", "rint(", "f32(", "f64(",
    "i32(", "i64(", "bool(", "sum(", "mean(", "dot(", "norm(", "min(", "max(", "argmax(", "any(", "all(",
    "count(", "e", "u8(", "and", "é", "^", "<<", ">>", "**", "isnan(", "clip(", "fmax(", "fmod(", "nextafter(",
    "rsqrt(", "degrees(", "round(", "arctan2(", "power(", "logical_xor(", "left_shift(",
    "; ", "; a", "; k", "sum(a)/", "max(b)-", "std(", "u64(", "prod(",
];

/// The text whose parts the bytes choose.
pub fn joined(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| PARTS[usize::from(byte) % PARTS.len()]).collect()
}
