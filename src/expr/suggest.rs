//! Suggestions for names that are not known.

use crate::MAX_NAME;

/// What NumPy, Python and C call things that have another name here.
const SYNONYMS: &[(&str, &str)] = &[
    ("absolute", "abs"),
    ("amax", "max"),
    ("amin", "min"),
    ("arccos", "acos"),
    ("arcsin", "asin"),
    ("arctan", "atan"),
    ("arctan2", "atan2"),
    ("count_nonzero", "count"),
    ("double", "f64"),
    ("fabs", "abs"),
    ("float", "f64"),
    ("float32", "f32"),
    ("float64", "f64"),
    ("fmax", "maximum"),
    ("fmin", "minimum"),
    ("int", "i64"),
    ("int32", "i32"),
    ("int64", "i64"),
    ("power", "pow"),
    ("round", "rint"),
    ("select", "where"),
    ("square", "x**2"),
];

/// Gives the text ": did you mean ...?" with the known name that is nearest, or nothing.
pub(crate) fn suggestion<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> String {
    nearest(name, known).map_or(String::new(), |known| format!(": did you mean '{known}'?"))
}

/// Gives the suggestion for a function.
pub(crate) fn function_suggestion<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> String {
    match SYNONYMS.iter().find(|(synonym, _)| *synonym == name) {
        Some((_, here)) => format!(": write {here}"),
        None => suggestion(name, known),
    }
}

/// Finds the nearest name, at most a third of its characters away.
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

/// Counts the insertions, deletions, replacements and swaps of neighbours that make `b` of `a`.
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
