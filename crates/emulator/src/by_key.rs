//! Stands in for the compiled part of a reduction by key: adds elements to the table that kernels/by_key.cu describes.

use crate::Memory;

/// The words of a table before its columns, and the place of each.
const HEADER: u64 = 2;
const OUTSIDE: u64 = 0;
const LEFT: u64 = 1;

/// The value of an element in the last column of exact sums.
const ELEMENT: u64 = 8;

/// The parameters behind those of the inputs and of the shape.
pub(crate) struct Launch {
    table: u64,
    pub(crate) results: u64,
    pub(crate) n: u64,
    index: u64,
    groups: u64,
    first: u64,
    held: u64,
    windows: Option<Windows>,
    operation: Operation,
}

/// The parameters of exact sums.
struct Windows {
    base: i32,
    from: u64,
    count: u64,
    counts: bool,
}

/// The operation of a kernel on the words of elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Add,
    Max,
    Multiply,
    SumF32,
    SumF64,
    DotF64,
}

impl Operation {
    /// The bits of a window.
    fn width(self) -> u32 {
        match self {
            Operation::SumF32 => 36,
            Operation::DotF64 => 160,
            _ => 96,
        }
    }

    /// The words of a window's sum.
    fn words(self) -> u64 {
        match self {
            Operation::SumF32 => 1,
            Operation::DotF64 => 3,
            _ => 2,
        }
    }
}

impl Launch {
    /// Reads the last parameters of a kernel with a name.
    pub(crate) fn new(name: &str, parameters: &[u64]) -> Result<Launch, String> {
        let operation = match name {
            "add" => Operation::Add,
            "max" => Operation::Max,
            "multiply" => Operation::Multiply,
            "sum_f32" => Operation::SumF32,
            "sum_f64" => Operation::SumF64,
            "dot_f64" => Operation::DotF64,
            _ => return Err(format!("no reduction by key {name}")),
        };
        let is_exact = !matches!(operation, Operation::Add | Operation::Max | Operation::Multiply);
        let count = if is_exact { 15 } else { 8 };
        let place = parameters.len().checked_sub(count).ok_or("too few parameters")?;
        let (of_all, of_windows) = parameters[place..].split_at(8);
        let &[table, results, n, index, groups, first, held, copies] = of_all else {
            unreachable!("eight parameters")
        };
        let is_power = copies == 0 || copies.is_power_of_two();
        if !is_power || copies > 32 || first + held > groups || results == 0 {
            return Err(format!("impossible parameters {of_all:?}"));
        }
        let windows = match *of_windows {
            [base, from, windows, near, nears, main, counts] => {
                let (all, shared) = (from..from + windows, near..near + nears);
                let holds_main = if copies > 0 { &shared } else { &all }.contains(&main);
                let is_within = shared.is_empty() || from <= near && shared.end <= all.end;
                if !holds_main || !is_within || (copies == 0) != shared.is_empty() || counts > 1 {
                    return Err(format!("impossible windows {of_windows:?}"));
                }
                Some(Windows { base: base as i32, from, count: windows, counts: counts == 1 })
            }
            _ => None,
        };
        Ok(Launch { table, results, n, index, groups, first, held, windows, operation })
    }

    /// Adds element `i` of a result: its values, and then its key.
    pub(crate) fn add(
        &self, memory: &mut impl Memory, result: u64, i: u64, element: &[u64],
    ) -> Result<(), String> {
        let (&key, values) = element.split_last().ok_or("an element without a key")?;
        if key >= self.groups {
            let place = self.table + 8 * OUTSIDE;
            let before = memory.load(place, 8)?;
            return memory.store(place, 8, before.max(!(self.index + result * self.n + i)));
        }
        if key < self.first || key - self.first >= self.held {
            return Ok(());
        }
        let state = result * self.groups + key;
        match &self.windows {
            None => {
                let place = self.place(0, state);
                let before = memory.load(place, 8)?;
                let after = match self.operation {
                    Operation::Max => before.max(values[0]),
                    Operation::Multiply => (before ^ 1).wrapping_mul(values[0] ^ 1) ^ 1,
                    _ => before.wrapping_add(values[0]),
                };
                memory.store(place, 8, after)
            }
            Some(windows) => self.add_term(memory, windows, state, values),
        }
    }

    /// The address of a state's word in a column.
    fn place(&self, column: u64, state: u64) -> u64 {
        self.table + 8 * (HEADER + column * self.results * self.groups + state)
    }

    fn add_term(
        &self, memory: &mut impl Memory, windows: &Windows, state: u64, values: &[u64],
    ) -> Result<(), String> {
        let last = self.place(windows.count * self.operation.words(), state);
        let mut flags = memory.load(last, 8)?;
        let factors: Vec<f64> = match self.operation {
            Operation::SumF32 => vec![f32::from_bits(values[0] as u32).into()],
            _ => values.iter().map(|&bits| f64::from_bits(bits)).collect(),
        };
        let product: f64 = factors.iter().product();
        let is_finite = factors.iter().all(|factor| factor.is_finite());
        if !is_finite {
            flags |= match (product.is_nan(), product.is_sign_negative()) {
                (true, _) => 1,
                (_, false) => 2,
                (_, true) => 4,
            };
        }
        memory.store(last, 8, flags + if windows.counts { ELEMENT } else { 0 })?;
        if !is_finite {
            return Ok(());
        }
        let (mut magnitude, mut position, mut negative) = (1, -i64::from(windows.base), false);
        for factor in factors {
            let bits = factor.to_bits();
            let stored = bits >> 52 & 0x7FF;
            magnitude *= u128::from(bits & ((1 << 52) - 1) | u64::from(stored > 0) << 52);
            position += stored.max(1).cast_signed() - 1075;
            negative ^= factor.is_sign_negative();
        }
        if magnitude == 0 {
            return Ok(());
        }
        let zeros = magnitude.trailing_zeros();
        let position = position + i64::from(zeros);
        let mut position = u64::try_from(position).map_err(|_| "a term below the base")?;
        magnitude >>= zeros;
        let width = u64::from(self.operation.width());
        while magnitude != 0 {
            let (window, shift) = (position / width, position % width);
            let len = (width - shift).min(32);
            let bits = magnitude as u64 & ((1 << len) - 1);
            if bits != 0 {
                let shifted = u128::from(bits) << (shift % 64);
                let places = self.places(windows, state, window, shift / 64);
                self.add_words(memory, places, shifted, negative)?;
            }
            magnitude >>= len;
            position += len;
        }
        Ok(())
    }

    /// The addresses of a window's words from number `first` on. `Err` has the window if the table lacks it.
    fn places(
        &self, windows: &Windows, state: u64, window: u64, first: u64,
    ) -> Result<Vec<u64>, u64> {
        let (number, words) = (window.wrapping_sub(windows.from), self.operation.words());
        let place = |word| self.place(number * words + word, state);
        if number < windows.count { Ok((first..words).map(place).collect()) } else { Err(window) }
    }

    /// Adds an integer to words, or subtracts it.
    fn add_words(
        &self, memory: &mut impl Memory, places: Result<Vec<u64>, u64>, mut integer: u128,
        negative: bool,
    ) -> Result<(), String> {
        let places = match places {
            Ok(places) => places,
            Err(window) => {
                let place = self.table + 8 * LEFT;
                let left = memory.load(place, 8)?;
                return memory.store(place, 8, left | 1 << window);
            }
        };
        let mut carry = false;
        for place in places {
            let (before, word) = (memory.load(place, 8)?, integer as u64);
            let (after, over) = match negative {
                true => before.borrowing_sub(word, carry),
                false => before.carrying_add(word, carry),
            };
            carry = over;
            memory.store(place, 8, after)?;
            integer >>= 64;
        }
        Ok(())
    }
}
