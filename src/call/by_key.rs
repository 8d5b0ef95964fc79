//! The tables to which kernels of reductions by key add elements (kernels/by_key.cu).

use super::array::MAX_OUTPUTS;
use super::checked::Call;
use super::formula::Evaluation;
use super::task::{Task, TaskKind};
use crate::policy::gpu;
use arrayvec::ArrayVec;
use gpuvec_expr::{Reduction, Type};

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
    pub(crate) count: usize,
    /// The window that holds terms of about 1 as a whole.
    pub(crate) main: usize,
    pub(crate) counts: bool,
}

/// The words of a table before its columns: the first is not 0 if a key is outside the groups.
pub(crate) const HEADER: usize = 2;

/// The most kernels of a call by key: five sums of each output.
pub(crate) const MOST_KERNELS: usize = 5 * MAX_OUTPUTS;

/// The most results along the axes that are not reduced: a tile has elements of all.
const MOST_RESULTS: usize = 1 << 12;

impl Windows {
    /// Windows for terms whose bits have exponents from `range[0]` on, below `range[1]`. One of the windows begins at
    /// the exponent `begin`.
    fn new(width: i32, [least, top]: [i32; 2], begin: i32, counts: bool) -> Self {
        let before = (begin - least + width - 1) / width;
        let base = begin - width * before;
        let words = width as usize / 64 + 1;
        let count = ((top - base) as usize).div_ceil(width as usize);
        Windows { base, width, words, count, main: before as usize, counts }
    }
}

impl Table {
    /// The table of a kernel of a task. `None` if GPUs have no such kernel: for argmin and argmax.
    fn of(kernel: Task<'_>, results: usize, is_counted: bool) -> Option<Self> {
        let Task::Evaluate(Evaluation { formula, groups, .. }) = kernel else { return None };
        let [output] = formula.program().outputs() else { return None };
        let (reduction, ty) = (output.reduction()?, output.ty);
        let counts = is_counted || reduction == Reduction::Mean;
        // A window begins below the last bits of most terms of about 1, and holds them as a whole.
        let windows = match (gpuvec_ptx::template(formula.program())?, ty) {
            ("by_key_sum_f32", _) => Some(Windows::new(36, [-149, 128], -33, counts)),
            // The last bit of an f64 may be 52 below the last bit of a product of f32.
            ("by_key_sum_f64", Type::F32) => Some(Windows::new(96, [-298 - 52, 256], -83, counts)),
            ("by_key_sum_f64", _) => Some(Windows::new(96, [-1074, 1024], -83, counts)),
            ("by_key_dot_f64", _) => Some(Windows::new(160, [-2148, 2048], -139, counts)),
            _ => None,
        };
        Some(Table { reduction, ty, results, groups, windows })
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
