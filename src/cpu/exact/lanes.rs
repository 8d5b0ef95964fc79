//! Exact sums in lanes: of columns, and of short rows.
//!
//! A lane holds the sum of n terms in one f64, or in two, high + low, and the sizes of the smallest term that is not 0
//! and of the largest. Let these be at least 2^e and below 2^(E+1), and n ≤ 2^l. Then the sum is exact in any order:
//!
//! - Of f32 in one f64: terms are multiples of 2^(e−23), and so are all sums, which are below 2^(l+E+1) and so have at
//!   most 53 bits if E − e ≤ 29 − l.
//! - In two f64: high takes each term by TwoSum (Knuth), whose error low takes. Terms are multiples of 2^(e−52), and so
//!   are all values of high and all errors. Sums are below 2^(l+E+1) and an error at most half a unit in their last
//!   place, so that low is below 2^(l + l+E+1−53), and is exact if that is at most 2^(e+1): E − e ≤ 51 − 2l.
//!
//! Sums of sums count as one addition each, so that lanes merge under the same condition. Where it fails, terms go to a
//! state.

use super::{Columns, Inputs, Vectorised};
use crate::arch::{Set, Vectorized, Version};
use gpuvec_exact::{Dot, Float, State, Sum, Value};
use std::collections::TryReserveError;
use std::ops::Range;

/// The most terms of a lane, 2^12: with more, terms would have to be of too similar sizes.
const LOG_TERMS: u32 = 12;

/// The most terms of a row.
const LONGEST_ROW: usize = 1 << LOG_TERMS;

/// A kind of sums that lanes hold.
pub(crate) trait Laned: Vectorised {
    /// The size of a term.
    type Size: Copy + Send + Sync + 'static;
    /// The least and the largest size of no terms.
    const NONE: [Self::Size; 2];
    /// One f64 holds a sum.
    const IS_SINGLE: bool;

    /// The least and the largest size with one more term, of the element x.
    fn include(sizes: [Self::Size; 2], x: Self::Element, term: f64) -> [Self::Size; 2];

    /// The least and the largest size of the terms of both.
    fn join(sizes: [Self::Size; 2], others: [Self::Size; 2]) -> [Self::Size; 2];

    /// Says whether the sum of at most 2^log terms of these sizes is exact.
    fn is_exact(sizes: [Self::Size; 2], sum: f64, log: u32) -> bool;
}

impl Laned for Sum<f32> {
    /// The encoding's magnitude; the least one is less by 1, so that those of zeros are the largest.
    type Size = u32;
    const NONE: [u32; 2] = [u32::MAX, 0];
    const IS_SINGLE: bool = true;

    #[inline(always)]
    fn include([least, most]: [u32; 2], x: f32, _: f64) -> [u32; 2] {
        let size = x.to_bits() & 0x7FFF_FFFF;
        [least.min(size.wrapping_sub(1)), most.max(size)]
    }

    #[inline(always)]
    fn join([least, most]: [u32; 2], others: [u32; 2]) -> [u32; 2] {
        [least.min(others[0]), most.max(others[1])]
    }

    #[inline(always)]
    fn is_exact([least, most]: [u32; 2], _: f64, log: u32) -> bool {
        let range = (most >> 23).wrapping_sub(least.wrapping_add(1) >> 23);
        (most < f32::INFINITY.to_bits()) & (range <= 29 - log)
    }
}

macro_rules! of_pairs {
    ($($kind:ty: $element:ty;)+) => {
        $(impl Laned for $kind {
            type Size = f64;
            const NONE: [f64; 2] = [f64::INFINITY, 0.0];
            const IS_SINGLE: bool = false;

            #[inline(always)]
            fn include([least, most]: [f64; 2], _: $element, term: f64) -> [f64; 2] {
                let size = term.abs();
                [
                    if (size < least) & (size != 0.0) { size } else { least },
                    if size > most { size } else { most },
                ]
            }

            #[inline(always)]
            fn join([least, most]: [f64; 2], others: [f64; 2]) -> [f64; 2] {
                [
                    if others[0] < least { others[0] } else { least },
                    if others[1] > most { others[1] } else { most },
                ]
            }

            #[inline(always)]
            fn is_exact([least, most]: [f64; 2], sum: f64, log: u32) -> bool {
                let [least, most] = [least, most].map(|size| (size.to_bits() >> 52) as u32);
                // A NaN has no size, but a sum that is NaN. TwoSum of larger terms may overflow.
                (sum - sum == 0.0) & (most < 1023 + 960) & (most.saturating_sub(least) <= 51 - 2 * log)
            }
        })+
    };
}

of_pairs! {
    Sum<f64>: f64;
    Dot<f32>: f32;
}

/// Sums of some lanes.
struct Lanes<K: Laned, const L: usize> {
    high: [f64; L],
    low: [f64; L],
    least: [K::Size; L],
    most: [K::Size; L],
}

impl<K: Laned, const L: usize> Lanes<K, L> {
    const EMPTY: Self =
        Lanes { high: [0.0; L], low: [0.0; L], least: [K::NONE[0]; L], most: [K::NONE[1]; L] };

    /// Adds a term to each lane.
    #[inline(always)]
    fn add(&mut self, a: &[K::Element; L], b: &[K::Element; L]) {
        let mut terms = [0.0; L];
        for i in 0..L {
            let x: f64 = a[i].into();
            terms[i] = if K::PRODUCTS { x * b[i].into() } else { x };
        }
        for i in 0..L {
            [self.least[i], self.most[i]] =
                K::include([self.least[i], self.most[i]], a[i], terms[i]);
        }
        for i in 0..L {
            [self.high[i], self.low[i]] = added::<K>([self.high[i], self.low[i]], terms[i]);
        }
    }
}

/// A sum with one more term.
#[inline(always)]
fn added<K: Laned>([high, low]: [f64; 2], term: f64) -> [f64; 2] {
    if K::IS_SINGLE {
        return [high + term, low];
    }
    let sum = high + term;
    let of_term = sum - high;
    [sum, low + ((high - (sum - of_term)) + (term - of_term))]
}

/// The sum of a row in one or two f64, if that is exact.
// Once in the library, for all its callers.
#[inline(never)]
pub(crate) fn row<K: Laned>(version: Version, inputs: Inputs<'_, K::Element>) -> Option<[f64; 2]> {
    (inputs.len() <= LONGEST_ROW).then(|| version.run(Row::<K>(inputs)))?
}

struct Row<'a, K: Laned>(Inputs<'a, K::Element>);

impl<K: Laned> Vectorized for Row<'_, K> {
    type Result = Option<[f64; 2]>;

    #[inline(always)]
    fn run<S: Set>(self, _: S) -> Option<[f64; 2]> {
        const LANES: usize = 16;
        let Row(inputs) = self;
        let (a, rest_a) = inputs.a().as_chunks::<LANES>();
        let (b, rest_b) = inputs.b().as_chunks::<LANES>();
        let mut lanes = Lanes::<K, LANES>::EMPTY;
        a.iter().zip(b).for_each(|(a, b)| lanes.add(a, b));
        if !rest_a.is_empty() {
            let mut rest = [[K::Element::from_encoding(0); LANES]; 2];
            rest[0][..rest_a.len()].copy_from_slice(rest_a);
            rest[1][..rest_b.len()].copy_from_slice(rest_b);
            lanes.add(&rest[0], &rest[1]);
        }
        let Lanes { high, low, least, most } = &mut lanes;
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                let j = i + half;
                [high[i], low[i]] = added::<K>([high[i], low[i] + low[j]], high[j]);
                [least[i], most[i]] = K::join([least[i], most[i]], [least[j], most[j]]);
            }
            half /= 2;
        }
        let log = inputs.len().next_power_of_two().ilog2();
        let is_exact = K::is_exact([least[0], most[0]], high[0] + low[0], log);
        is_exact.then_some([high[0], low[0]])
    }
}

/// The sums of columns, a lane each.
pub(crate) struct LaneSums<K: Laned> {
    sums: Sums<K>,
    /// The sums before the rows that were added last.
    before: Sums<K>,
    /// No lane has more terms.
    most_terms: usize,
}

/// Sums of any number of lanes.
struct Sums<K: Laned> {
    high: Vec<f64>,
    low: Vec<f64>,
    least: Vec<K::Size>,
    most: Vec<K::Size>,
    /// The terms of each.
    terms: Vec<u32>,
}

impl<K: Laned> Default for LaneSums<K> {
    fn default() -> Self {
        LaneSums { sums: Sums::NONE, before: Sums::NONE, most_terms: 0 }
    }
}

impl<K: Laned> LaneSums<K> {
    /// Makes lanes without terms.
    pub(crate) fn reserve(&mut self, lanes: usize) -> Result<(), TryReserveError> {
        self.sums.reserve(lanes)?;
        self.before.reserve(lanes)
    }

    /// Forgets all terms.
    pub(crate) fn clear(&mut self) {
        let Sums { high, low, least, most, terms } = &mut self.sums;
        high.fill(0.0);
        low.fill(0.0);
        least.fill(K::NONE[0]);
        most.fill(K::NONE[1]);
        terms.fill(0);
        self.most_terms = 0;
    }

    /// Says whether lanes may take that number of terms.
    pub(crate) fn has_room(&self, terms: usize) -> bool {
        self.most_terms + terms <= LONGEST_ROW
    }

    /// Adds columns to the lanes from number `first` on, which have room for the rows. Says whether all sums are exact.
    // Once in the library, for all its callers.
    #[inline(never)]
    pub(crate) fn add(
        &mut self, version: Version, first: usize, columns: Columns<'_, K::Element>,
    ) -> bool {
        self.most_terms += columns.rows();
        let lanes = first..first + columns.len();
        self.before.copy_from(&self.sums, lanes.clone());
        version.run(AddColumns { sums: &mut self.sums, first, columns });
        let log = self.log();
        lanes.fold(true, |all, lane| all & self.sums.is_exact(lane, log))
    }

    /// The logarithm of the most terms, rounded up.
    fn log(&self) -> u32 {
        self.most_terms.next_power_of_two().ilog2()
    }

    /// Says whether the sum of a lane is exact.
    pub(crate) fn is_exact(&self, lane: usize) -> bool {
        self.sums.is_exact(lane, self.log())
    }

    /// Forgets what was added last to a lane.
    pub(crate) fn restore(&mut self, lane: usize) {
        self.sums.copy_from(&self.before, lane..lane + 1);
    }

    /// The sum of a lane, and the number of its terms.
    pub(crate) fn sum(&self, lane: usize) -> ([f64; 2], u32) {
        ([self.sums.high[lane], self.sums.low[lane]], self.sums.terms[lane])
    }

    /// Moves the sum of a lane to a state.
    pub(crate) fn empty(&mut self, lane: usize, state: &mut State<K>) {
        let (parts, terms) = self.sum(lane);
        state.count(terms as usize);
        for part in parts {
            if let Value::Finite { negative, magnitude, exponent } = Value::of(part)
                && magnitude != 0
            {
                // Bits below 2^LOW are zeros.
                let below = (K::LOW - exponent).max(0);
                let units = (magnitude >> below).cast_signed();
                state.add_units(if negative { -units } else { units }, exponent + below);
            }
        }
        let Sums { high, low, least, most, terms } = &mut self.sums;
        [high[lane], low[lane]] = [0.0; 2];
        [least[lane], most[lane]] = K::NONE;
        terms[lane] = 0;
    }
}

impl<K: Laned> Sums<K> {
    const NONE: Self = Sums {
        high: Vec::new(),
        low: Vec::new(),
        least: Vec::new(),
        most: Vec::new(),
        terms: Vec::new(),
    };

    fn reserve(&mut self, lanes: usize) -> Result<(), TryReserveError> {
        fn resized<T: Copy>(vec: &mut Vec<T>, len: usize, with: T) -> Result<(), TryReserveError> {
            vec.try_reserve_exact(len)?;
            vec.resize(len, with);
            Ok(())
        }
        resized(&mut self.high, lanes, 0.0)?;
        resized(&mut self.low, lanes, 0.0)?;
        resized(&mut self.least, lanes, K::NONE[0])?;
        resized(&mut self.most, lanes, K::NONE[1])?;
        resized(&mut self.terms, lanes, 0)
    }

    fn copy_from(&mut self, others: &Self, lanes: Range<usize>) {
        self.high[lanes.clone()].copy_from_slice(&others.high[lanes.clone()]);
        self.low[lanes.clone()].copy_from_slice(&others.low[lanes.clone()]);
        self.least[lanes.clone()].copy_from_slice(&others.least[lanes.clone()]);
        self.most[lanes.clone()].copy_from_slice(&others.most[lanes.clone()]);
        self.terms[lanes.clone()].copy_from_slice(&others.terms[lanes]);
    }

    #[inline(always)]
    fn is_exact(&self, lane: usize, log: u32) -> bool {
        let sizes = [self.least[lane], self.most[lane]];
        K::is_exact(sizes, self.high[lane] + self.low[lane], log)
    }

    /// Adds the terms of rows to lanes.
    #[inline(always)]
    fn add<const ROWS: usize, const L: usize>(
        &mut self, first: usize, rows: [Inputs<'_, K::Element>; ROWS],
    ) {
        let len = rows[0].len();
        for start in (0..len - len % L).step_by(L) {
            self.add_chunk::<ROWS, L>(first + start, rows, start);
        }
        for start in len - len % L..len {
            self.add_chunk::<ROWS, 1>(first + start, rows, start);
        }
    }

    /// Adds the terms of rows at some place to the lanes from `first` on.
    #[inline(always)]
    fn add_chunk<const ROWS: usize, const L: usize>(
        &mut self, first: usize, rows: [Inputs<'_, K::Element>; ROWS], start: usize,
    ) {
        let Some((high, low, least, most)) = self.chunk::<L>(first) else { return };
        let mut lanes = Lanes::<K, L> { high: *high, low: *low, least: *least, most: *most };
        for row in rows {
            let [a, b] = [row.a(), row.b()].map(|values| values[start..].first_chunk::<L>());
            if let (Some(a), Some(b)) = (a, b) {
                lanes.add(a, b);
            }
        }
        (*high, *low, *least, *most) = (lanes.high, lanes.low, lanes.least, lanes.most);
    }

    #[expect(clippy::type_complexity, reason = "four arrays")]
    #[inline(always)]
    fn chunk<const L: usize>(
        &mut self, first: usize,
    ) -> Option<(&mut [f64; L], &mut [f64; L], &mut [K::Size; L], &mut [K::Size; L])> {
        Some((
            self.high[first..].first_chunk_mut()?,
            self.low[first..].first_chunk_mut()?,
            self.least[first..].first_chunk_mut()?,
            self.most[first..].first_chunk_mut()?,
        ))
    }
}

/// The work of [`LaneSums::add`].
struct AddColumns<'a, K: Laned> {
    sums: &'a mut Sums<K>,
    first: usize,
    columns: Columns<'a, K::Element>,
}

impl<K: Laned> Vectorized for AddColumns<'_, K> {
    type Result = ();

    #[inline(always)]
    fn run<S: Set>(self, _: S) {
        let AddColumns { sums, first, columns } = self;
        // Lanes are loaded and stored once for four rows.
        let whole = columns.rows() - columns.rows() % 4;
        for row in (0..whole).step_by(4) {
            let rows = [0, 1, 2, 3].map(|i| columns.row(row + i));
            if K::IS_SINGLE {
                sums.add::<4, 16>(first, rows)
            } else {
                sums.add::<4, 8>(first, rows)
            }
        }
        for row in whole..columns.rows() {
            let rows = [columns.row(row)];
            if K::IS_SINGLE {
                sums.add::<1, 16>(first, rows)
            } else {
                sums.add::<1, 8>(first, rows)
            }
        }
        let terms = &mut sums.terms[first..][..columns.len()];
        terms.iter_mut().for_each(|terms| *terms += columns.rows() as u32);
    }
}
