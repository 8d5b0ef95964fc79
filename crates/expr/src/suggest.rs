//! Advice for unknown names. It never changes the meaning of a formula.

use crate::{Element, MAX_NAME};

/// Names of NumPy, numexpr, Python and C, with what to write here for the same result.
const EQUIVALENTS: &[(&str, &str)] = &[
    ("around", "round(x)"),
    ("average", "mean(x) for equal weights"),
    ("count_nonzero", "count(x != 0)"),
    ("fix", "trunc(x)"),
    ("float", "f64(x) for Python's float, and f32(x) for C's"),
    ("heaviside", "where(x == 0, y, where(x < 0, 0.0, where(x > 0, 1.0, x)))"),
    ("inner", "dot(x, y) for arrays of one dimension"),
    ("int", "i64(x) for Python's int, and i32(x) for C's"),
    ("int16", "(i32(x) + 32768) % 65536 - 32768 for integers"),
    ("int8", "(i32(x) + 128) % 256 - 128 for integers"),
    ("ln", "log(x)"),
    ("logaddexp", "where(x == y, x + log(2), maximum(x, y) + log1p(exp(-abs(1.0 * x - y))))"),
    ("logp1", "log1p(x)"),
    ("long", "i64(x)"),
    ("nanmax", "max(where(x != x, -inf, x))"),
    ("nanmin", "min(where(x != x, inf, x))"),
    ("nansum", "sum(where(x != x, 0, x))"),
    ("nearbyint", "rint(x)"),
    ("reciprocal", "1 / x for floats"),
    ("select", "where(condition, x, y) for a choice of two"),
    ("sqr", "x**2 for the square, and sqrt(x) for the root"),
    ("uint16", "i32(x) % 65536 for integers"),
    ("uint32", "i64(x) % 4294967296 for integers"),
    ("uint8", "i32(x) % 256 for integers"),
    ("vdot", "dot(x, y)"),
    ("vecdot", "dot(x, y) for arrays of one dimension"),
];

/// Names of NumPy, numexpr, Python, C and CUDA that are not misspellings of names in the language. A name that the
/// language gains may stay in this list, since only unknown names get advice.
const MISSING: &str = "\
    acot acoth allclose angle arange argpartition argsort argwhere array_equal bincount \
    bitwise_count choose comb complex conj conjugate contains convolve corrcoef correlate cospi \
    cot coth cov cross csc csch cumprod cumsum cumulative_prod cumulative_sum diff digitize dist \
    divmod ediff1d einsum erfc erfcinv erfcx erfinv exp10 exp10m1 exp2m1 expit factorial fdim \
    flip float128 fract frexp fsum full full_like gamma gcd gradient histogram i0 \
    i1 ilogb imag imax imin insert interp isclose iscomplex isin isnat isqrt isreal j0 j1 jn \
    kron kurtosis lcm ldexp lerp lgamma linspace llrint llround logaddexp2 logb logit longdouble \
    lrint lround mad map matmul matvec median mix mode modf nan nan_to_num nanargmax nanargmin \
    nancumprod nancumsum nanmean nanmedian nanpercentile nanprod nanquantile nanstd nanvar nint \
    nonzero normcdf ones ones_like outer percentile perm piecewise pow10 pow2 powi ptp quantile \
    rcbrt real relu rem remquo rhypot rms roll sad scalbln scalbn searchsorted sec sech sem \
    sigmoid sinc sincos sincospi sinpi skew softmax softplus sort spacing take tanpi tau tgamma \
    tmax tmin trace trapezoid tril triu uint ulp unique unwrap vecmat y0 y1 yn zeros zeros_like";

/// Returns the text ": did you mean ...?" with the nearest known name, or an empty text.
pub(crate) fn suggestion<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> String {
    nearest(name, known).map_or(String::new(), |known| format!(": did you mean '{known}'?"))
}

/// Returns the advice for a function. A name that contains the nearest known name is the name of another function, such
/// as hypot3.
pub(crate) fn function_suggestion<'k>(
    name: &str, known: impl Iterator<Item = &'k str> + Clone,
) -> String {
    // The names of C's functions of float end with f.
    let stem = name.strip_suffix('f').unwrap_or(name);
    for name in [name, stem] {
        if known.clone().any(|known| known == name) {
            return format!(": write {name}");
        }
        if let Some((_, here)) = EQUIVALENTS.iter().find(|(other, _)| *other == name) {
            return format!(": write {here}");
        }
        if MISSING.split_ascii_whitespace().any(|missing| missing == name) {
            return ": the language does not have it".into();
        }
    }
    let near = nearest(name, known).filter(|near| !name.contains(near));
    suggestion(name, near.into_iter())
}

/// Returns the formula that casts integers to a type that only inputs have.
pub(crate) const fn cast_of_integers(element: Element) -> &'static str {
    match element {
        Element::U8 => "i32(x) % 256",
        Element::I8 => "(i32(x) + 128) % 256 - 128",
        Element::U16 => "i32(x) % 65536",
        Element::I16 => "(i32(x) + 32768) % 65536 - 32768",
        Element::U32 => "i64(x) % 4294967296",
        _ => element.widened().name(),
    }
}

/// Finds the nearest name, with a distance of at most a third of the name's length.
fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    if name.len() > MAX_NAME {
        return None;
    }
    known
        .map(|known| (distance(name.as_bytes(), known.as_bytes()), known))
        .filter(|&(distance, _)| distance <= name.len() / 3)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, known)| known)
}

/// The number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                let swapped: usize = before[j - 2];
                least = least.min(swapped + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callee::names;

    #[test]
    fn there_are_equivalents_only_of_names_that_the_language_lacks() {
        for (name, _) in EQUIVALENTS {
            assert!(!names().any(|known| known == *name), "remove \"{name}\" from EQUIVALENTS");
        }
    }
}
