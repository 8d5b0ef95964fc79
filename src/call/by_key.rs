//! The tables to which kernels of reductions by key add elements (kernels/by_key.cu).

use super::array::MAX_OUTPUTS;
use super::checked::Call;
use super::formula::Evaluation;
use super::task::{Task, TaskKind};
use crate::policy::gpu;
use arrayvec::ArrayVec;
use gpuvec_expr::{Reduction, Type};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The layout of a kernel's table: [`HEADER`] words of 64 bits, and then columns with a word for each state. The state
/// of a group in a result has the number `result * groups + key`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub(crate) reduction: Reduction,
    /// The type of the values that are reduced.
    pub(crate) ty: Type,
    /// The number of results along the axes that are not reduced, which each have all groups.
    pub(crate) results: usize,
    pub(crate) groups: usize,
    /// The windows of an exact sum. A fold has none, and one column.
    pub(crate) windows: Option<Windows>,
}

/// The windows in which an exact sum counts. Window `w` has the bits from the exponent `base + width * w` on. Its sum is
/// an integer in `words` columns, the lowest first. The column behind those of all windows has the terms that are not
/// finite and, if they are counted, the number of elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    pub(crate) base: i32,
    pub(crate) width: i32,
    pub(crate) words: usize,
    /// The windows of the table.
    pub(crate) from: usize,
    pub(crate) count: usize,
    /// The window that holds most terms as a whole.
    pub(crate) main: usize,
    pub(crate) counts: bool,
}

/// A kind of exact sums, as kernels count it.
struct Sums {
    width: i32,
    /// The bits of a term.
    bits: i32,
    /// The least exponent of a term's last bit. All terms are below 2^top.
    least: i32,
    top: i32,
}

/// The terms in earlier calls of a formula, by which the windows are chosen.
#[derive(Debug)]
pub(crate) struct Terms {
    /// The exponent above the largest term.
    top: AtomicI32,
    /// True if terms had bits outside the windows of a narrow table.
    are_wide: AtomicBool,
}

impl Terms {
    /// No earlier calls. Most terms are taken to be of about 1.
    pub(crate) const fn new() -> Self {
        const TOP: i32 = 3;
        Terms { top: AtomicI32::new(TOP), are_wide: AtomicBool::new(false) }
    }

    /// Learns from a table to which about `elements` terms of each state were added. Terms do not suit the main window if
    /// a higher one has bits of them, or none has.
    pub(crate) fn learn(&self, table: &Table, words: &[u64], elements: usize) {
        let Some(Windows { base, width, words: of_window, from, count, main, .. }) = table.windows
        else {
            return;
        };
        if words[LEFT] != 0 {
            self.are_wide.store(true, Ordering::Relaxed);
        }
        // Searches the columns from the highest down for a word that is more than a sign. The longest such word of a
        // column has the highest bit of the largest sum.
        let columns = words[HEADER..].chunks(table.states().max(1)).take(count * of_window);
        let length = |column: &[u64]| {
            let bits = |word: &u64| {
                64 - (word ^ (word.cast_signed() >> 63).cast_unsigned()).leading_zeros()
            };
            column.iter().map(bits).max().unwrap_or(0) as i32
        };
        let mut lengths = columns.map(length).enumerate();
        let Some((column, length)) = lengths.rfind(|(_, length)| *length > 0) else { return };
        let window = from + column / of_window;
        if window != main {
            let bit = base + width * window as i32 + 64 * (column % of_window) as i32 + length;
            let of_terms = bit - elements.max(1).ilog2() as i32 / 2 + 2;
            self.top.store(of_terms, Ordering::Relaxed);
        }
    }
}

/// The words of a table before its columns.
pub(crate) const HEADER: usize = 2;
/// The word that is not 0 if a key is outside the groups.
pub(crate) const OUTSIDE: usize = 0;
/// The word that is not 0 if terms have bits in windows that the table lacks.
pub(crate) const LEFT: usize = 1;

/// The most kernels of a call by key: five sums of each output.
pub(crate) const MOST_KERNELS: usize = 5 * MAX_OUTPUTS;

/// The most results along the axes that are not reduced: a tile has elements of all.
const MOST_RESULTS: usize = 1 << 12;

impl Sums {
    /// The windows for terms as in earlier calls, in a table of all windows or, if `is_narrow`, of few.
    fn windows(&self, terms: &Terms, counts: bool, is_narrow: bool) -> Windows {
        let Sums { width, bits, least, top } = *self;
        // The main window holds the largest terms as a whole, and those that are up to 2^(width - bits) times smaller.
        let highest = terms.top.load(Ordering::Relaxed).clamp(least + bits, top);
        let begin = highest - width;
        let before = (begin - least + width - 1).div_euclid(width).max(0);
        let base = begin - width * before;
        let (count, main) = ((top - base + width - 1) / width, before);
        let [from, end] = match is_narrow && !terms.are_wide.load(Ordering::Relaxed) {
            true => [main - 1, main + 2].map(|window| window.clamp(0, count)),
            false => [0, count],
        };
        Windows {
            base,
            width,
            words: width as usize / 64 + 1,
            from: from as usize,
            count: (end - from) as usize,
            main: main as usize,
            counts,
        }
    }
}

impl Table {
    /// The table of a kernel of a task. `None` if GPUs have no such kernel: for argmin and argmax.
    fn of(kernel: Task<'_>, results: usize, is_counted: bool) -> Option<Self> {
        let Task::Evaluate(Evaluation { formula, groups, .. }) = kernel else { return None };
        let [output] = formula.program().outputs() else { return None };
        let (reduction, ty) = (output.reduction()?, output.ty);
        let counts = is_counted || reduction == Reduction::Mean;
        let sums = match (gpuvec_ptx::template(formula.program())?, ty) {
            ("by_key_sum_f32", _) => Some(Sums { width: 36, bits: 24, least: -149, top: 128 }),
            // The last bit of an f64 may be 52 below the last bit of a product of f32.
            ("by_key_sum_f64", Type::F32) => {
                Some(Sums { width: 96, bits: 53, least: -298 - 52, top: 256 })
            }
            ("by_key_sum_f64", _) => Some(Sums { width: 96, bits: 53, least: -1074, top: 1024 }),
            ("by_key_dot_f64", _) => Some(Sums { width: 160, bits: 106, least: -2148, top: 2048 }),
            _ => None,
        };
        let table = |is_narrow| {
            let windows = sums.as_ref().map(|sums| sums.windows(&formula.terms, counts, is_narrow));
            Table { reduction, ty, results, groups, windows }
        };
        let all = table(false);
        Some(if all.words() > gpu::WIDE_TABLE_WORDS { table(true) } else { all })
    }

    /// The table of each kernel of a call, in the order of the kernels. `None` if GPUs lack one of the kernels.
    pub(crate) fn all(call: &Call<'_>) -> Option<ArrayVec<Self, MOST_KERNELS>> {
        let task = call.task();
        let results = call.strides()?.axes().kept().elements();
        let sums = |output: &[usize]| task.kernels().filter(|(_, of)| *of == output).count();
        let table = |(kernel, output)| Table::of(kernel, results, sums(output) > 1);
        task.kernels().map(table).collect()
    }

    /// The number of states.
    pub(crate) fn states(&self) -> usize {
        self.results * self.groups
    }

    /// The number of words of 64 bits.
    pub(crate) fn words(&self) -> usize {
        let columns = self.windows.map_or(1, |windows| windows.count * windows.words + 1);
        HEADER.saturating_add(columns.saturating_mul(self.states()))
    }

    /// The most elements of a result that are added to the table: twice as many would not overflow its sums.
    pub(crate) fn most_elements(&self) -> usize {
        let is_narrow = self.windows.is_some_and(|windows| windows.words == 1);
        if is_narrow { 1 << 26 } else { 1 << 30 }
    }
}

/// The most elements of each result in a tile of a call by key. Other calls have none.
pub(super) fn most_elements(call: &Call<'_>) -> Option<usize> {
    let is_by_key = call.task().kind() == TaskKind::Grouped;
    let tables = is_by_key.then(|| Table::all(call)).flatten()?;
    tables.iter().map(Table::most_elements).min()
}

/// True if GPUs can do a call by key: there is a kernel for each reduction, and their tables are small enough. Cores do
/// all other calls by key.
pub(crate) fn has_tables(call: &Call<'_>) -> bool {
    let Some(tables) = Table::all(call) else { return false };
    let words = tables.iter().try_fold(0_usize, |all, table| all.checked_add(table.words()));
    tables.iter().all(|table| table.results <= MOST_RESULTS && table.groups > 0)
        && words.is_some_and(|words| words <= gpu::TABLES_BYTES / size_of::<u64>())
}

/// The bytes of the tables of a call by key.
pub(super) fn bytes(call: &Call<'_>) -> usize {
    let tables = Table::all(call).unwrap_or_default();
    tables.iter().map(|table| table.words().saturating_mul(size_of::<u64>())).sum()
}
