//! The placeholders of templates: lines of compiled kernels that stand for what depends on the expression
//! (kernels/placeholders.cuh). The library's build script checks the placeholders of every template.

/// A line that begins with a word in capitals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placeholder {
    /// The values of a thread's elements.
    Elements,
    /// The values of a whole batch, without bounds checks, if the expression has shorter code for that.
    Whole,
    /// The number of the operation that computes the result from an exact sum (FINISH_SUM and so on).
    Finish,
    /// The state of no elements.
    Identity,
    /// The merge of two states.
    Merge,
    /// The store of the state.
    State,
    /// The store of the result of a state.
    Result,
    /// The address of a result, one of several.
    Place,
    /// The number of the operation that merges words by key (FOLD_ADD and so on).
    Fold,
}

/// Begins the line that gets another name and other parameters.
pub(crate) const ENTRY: &str = ".visible .entry ";

/// Begins the names of templates of reductions along axes.
pub(crate) const ALONG_AXES: &str = "axes_";

/// Begins the names of templates of reductions by key.
const BY_KEY: &str = "by_key_";

/// The blocks for each multiprocessor that templates ask the driver for: `BLOCKS` of kernels/policy.cuh.
pub(crate) const BLOCKS: u32 = 3;

/// The line that asks for a number of blocks.
pub(crate) fn least_blocks(blocks: u32) -> String {
    format!(".minnctapersm {blocks}\n")
}

impl Placeholder {
    /// The placeholder that a line is, with its operands. None if the line stays as it is.
    ///
    /// # Panics
    /// If the word in capitals is not the name of a placeholder. [`check_template`] rejects such templates.
    pub(crate) fn of(line: &str) -> Option<(Self, Vec<&str>)> {
        if !line.starts_with(|first: char| first.is_ascii_uppercase()) {
            return None;
        }
        let (word, operands) = line.trim_end_matches(";\n").split_once(' ').unwrap_or((line, ""));
        let placeholder = match word {
            "ELEMENTS" => Placeholder::Elements,
            "WHOLE" => Placeholder::Whole,
            "FINISH" => Placeholder::Finish,
            "IDENTITY" => Placeholder::Identity,
            "MERGE" => Placeholder::Merge,
            "STATE" => Placeholder::State,
            "RESULT" => Placeholder::Result,
            "PLACE" => Placeholder::Place,
            "FOLD" => Placeholder::Fold,
            _ => panic!("a template has the placeholder {word}, which means nothing"),
        };
        Some((placeholder, operands.split(", ").collect()))
    }
}

/// Checks that a template has every placeholder of its kind, one entry, and one number of blocks: otherwise a kernel would
/// compile, and compute something else.
///
/// # Panics
/// If the template lacks one of these, or has it too often.
pub fn check_template(template: &str) {
    let found: Vec<Placeholder> =
        template.split_inclusive('\n').filter_map(|line| Some(Placeholder::of(line)?.0)).collect();
    let is_by_key = template.contains(&format!("{ENTRY}{BY_KEY}"));
    let is_fold_by_key = template.contains(&format!("{ENTRY}{BY_KEY}fold("));
    let is_fold = !found.contains(&Placeholder::Finish);
    let is_along_axes = template.contains(&format!("{ENTRY}{ALONG_AXES}"));
    // One path for tiles with uniform exponents, and one for other results.
    let has_uniform_sums = template.contains(&format!("{ENTRY}{ALONG_AXES}sum_f32("));
    let often = 1..=usize::MAX;
    let exactly = |times| times..=times;
    let expected = match (is_fold, has_uniform_sums) {
        _ if is_fold_by_key => vec![(Placeholder::Fold, exactly(1))],
        _ if is_by_key => Vec::new(),
        (true, _) => vec![
            (Placeholder::Identity, often.clone()),
            (Placeholder::Merge, often),
            (Placeholder::State, exactly(1)),
            (Placeholder::Result, exactly(1)),
        ],
        (false, false) => vec![(Placeholder::Finish, exactly(1))],
        (false, true) => vec![(Placeholder::Finish, exactly(2)), (Placeholder::Whole, often)],
    };
    let place = (is_along_axes || is_by_key).then_some((Placeholder::Place, exactly(1)));
    for (placeholder, times) in
        expected.into_iter().chain([(Placeholder::Elements, exactly(1))]).chain(place)
    {
        let count = found.iter().filter(|found| **found == placeholder).count();
        assert!(
            times.contains(&count),
            "a template has the placeholder {placeholder:?} {count} times"
        );
    }
    let blocks = if is_by_key { 1 } else { BLOCKS };
    for text in [ENTRY, &least_blocks(blocks)] {
        let count = template.matches(text).count();
        assert!(count == 1, "a template has {text:?} {count} times");
    }
}
