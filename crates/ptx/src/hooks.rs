//! The hooks of frames: lines of compiled kernels that stand for what depends on the expression
//! (kernels/elements.cuh). The library's build script checks every frame for them.

/// A line that begins with a word in capitals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// The values of a thread's elements.
    Elements,
    /// The same for a whole batch; not every expression has a shorter way to these.
    Whole,
    /// The number of the operation that computes the result from an exact sum (FINISH_SUM and so on).
    Finish,
    /// The state of no elements.
    Identity,
    /// The merge of two states.
    Merge,
    /// The state as it is written.
    State,
    /// The result of a state.
    Result,
    /// The address of a result, one of several.
    Place,
}

/// How often a frame has a hook, if it has any of its kind.
enum Times {
    Once,
    Twice,
    Often,
}

/// Begins the line that gets another name and other parameters.
pub(crate) const ENTRY: &str = ".visible .entry ";

/// Begins the names of frames of reductions along axes.
pub(crate) const ALONG_AXES: &str = "axes_";

/// The blocks for each multiprocessor that frames ask the driver for: `BLOCKS` of kernels/policy.cuh.
pub(crate) const BLOCKS: u32 = 3;

/// The line that asks for a number of blocks.
pub(crate) fn least_blocks(blocks: u32) -> String {
    format!(".minnctapersm {blocks}\n")
}

impl Hook {
    const OF_ALL: [(Hook, Times); 1] = [(Hook::Elements, Times::Once)];
    const OF_EXACT_SUMS: [(Hook, Times); 1] = [(Hook::Finish, Times::Once)];
    /// Those of a frame with plain sums, of tiles and of other results.
    const OF_PLAIN_SUMS: [(Hook, Times); 2] =
        [(Hook::Finish, Times::Twice), (Hook::Whole, Times::Often)];
    const OF_FOLDS: [(Hook, Times); 4] = [
        (Hook::Identity, Times::Often),
        (Hook::Merge, Times::Often),
        (Hook::State, Times::Once),
        (Hook::Result, Times::Once),
    ];

    /// The hook that a line is, with its operands. None if the line stays as it is.
    ///
    /// # Panics
    /// If the word in capitals is not the name of a hook. [`check_frame`] rejects such frames.
    pub(crate) fn of(line: &str) -> Option<(Self, Vec<&str>)> {
        if !line.starts_with(|first: char| first.is_ascii_uppercase()) {
            return None;
        }
        let (word, operands) = line.trim_end_matches(";\n").split_once(' ').unwrap_or((line, ""));
        let hook = match word {
            "ELEMENTS" => Hook::Elements,
            "WHOLE" => Hook::Whole,
            "FINISH" => Hook::Finish,
            "IDENTITY" => Hook::Identity,
            "MERGE" => Hook::Merge,
            "STATE" => Hook::State,
            "RESULT" => Hook::Result,
            "PLACE" => Hook::Place,
            _ => panic!("a frame has the hook {word}, which means nothing"),
        };
        Some((hook, operands.split(", ").collect()))
    }
}

/// Checks that a frame has every hook of its kind, one entry, and one number of blocks: otherwise a kernel would
/// compile, and compute something else.
///
/// # Panics
/// If it has not.
pub fn check_frame(frame: &str) {
    let hooks: Vec<Hook> =
        frame.split_inclusive('\n').filter_map(|line| Some(Hook::of(line)?.0)).collect();
    let is_fold = !hooks.contains(&Hook::Finish);
    let has_plain_sums = frame.contains(&format!("{ENTRY}{ALONG_AXES}sum_f32("));
    let kind: &[(Hook, Times)] = match (is_fold, has_plain_sums) {
        (true, _) => &Hook::OF_FOLDS,
        (false, false) => &Hook::OF_EXACT_SUMS,
        (false, true) => &Hook::OF_PLAIN_SUMS,
    };
    let is_along_axes = frame.contains(&format!("{ENTRY}{ALONG_AXES}"));
    let place = is_along_axes.then_some((Hook::Place, Times::Once));
    for (hook, times) in Hook::OF_ALL.iter().chain(kind).chain(&place) {
        let found = hooks.iter().filter(|found| *found == hook).count();
        let is_right = match times {
            Times::Once => found == 1,
            Times::Twice => found == 2,
            Times::Often => found > 0,
        };
        assert!(is_right, "a frame has the hook {hook:?} {found} times");
    }
    for text in [ENTRY, &least_blocks(BLOCKS)] {
        let found = frame.matches(text).count();
        assert!(found == 1, "a frame has {text:?} {found} times");
    }
}
