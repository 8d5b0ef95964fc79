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
use crate::arch::{Set, Vector, Vectorized, Version};
use gpuvec_exact::{Dot, Float, State, Sum, Value};
use std::collections::TryReserveError;
use std::ops::{Add, Range, Sub};

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
            fn is_exact([least, most]: [f64; 2], sum: f64, log: u32) -> bool {
                holds::<Self>([least, most], sum, log)
            }
        })+
    };
}

of_pairs! {
    Sum<f64>: f64;
    Dot<f32>: f32;
}

/// Sums of lanes that follow each other.
struct Lanes<'a, K: Laned> {
    high: &'a mut [f64],
    low: &'a mut [f64],
    least: &'a mut [K::Size],
    most: &'a mut [K::Size],
}

impl<K: Laned> Lanes<'_, K> {
    /// Adds a term of each row to each lane. Lanes are loaded and stored once for all rows.
    #[inline(always)]
    fn add<const ROWS: usize>(self, rows: [Inputs<'_, K::Element>; ROWS]) {
        let Lanes { high, low, least, most } = self;
        let len = rows[0].len();
        let (high, low) = (&mut high[..len], &mut low[..len]);
        let (least, most) = (&mut least[..len], &mut most[..len]);
        let [a, b] = [rows.map(|row| &row.a()[..len]), rows.map(|row| &row.b()[..len])];
        for i in 0..len {
            let (mut sum, mut sizes) = ([high[i], low[i]], [least[i], most[i]]);
            for row in 0..ROWS {
                let x: f64 = a[row][i].into();
                let term = if K::PRODUCTS { x * b[row][i].into() } else { x };
                sizes = K::include(sizes, a[row][i], term);
                sum = added::<K, f64>(sum, term);
            }
            high[i] = sum[0];
            if !K::IS_SINGLE {
                low[i] = sum[1];
            }
            [least[i], most[i]] = sizes;
        }
    }
}

/// A sum with one more term.
#[inline(always)]
fn added<K: Laned, F: Copy + Add<Output = F> + Sub<Output = F>>(
    [high, low]: [F; 2], term: F,
) -> [F; 2] {
    if K::IS_SINGLE {
        return [high + term, low];
    }
    let sum = high + term;
    let of_term = sum - high;
    [sum, low + ((high - (sum - of_term)) + (term - of_term))]
}

/// Says whether the sum of at most 2^log terms of these magnitudes is exact.
#[inline(always)]
fn holds<K: Laned>(magnitudes: [f64; 2], sum: f64, log: u32) -> bool {
    let [least, most] = magnitudes.map(|size| (size.to_bits() >> 52) as u32);
    let range = if K::IS_SINGLE { 29 - log } else { 51 - 2 * log };
    // A NaN has no magnitude, but a sum that is NaN. TwoSum of larger terms may overflow.
    (sum - sum == 0.0) & (most < 1023 + 960) & (most.saturating_sub(least) <= range)
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
    fn run<S: Set>(self, set: S) -> Option<[f64; 2]> {
        let Row(inputs) = self;
        let width = CHAINS * S::F64::LANES;
        let mut sums = RowSums::<S>::new(set);
        let whole = inputs.len() - inputs.len() % width;
        for start in (0..whole).step_by(width) {
            sums.add::<K>(set, &inputs.a()[start..], &inputs.b()[start..]);
        }
        if whole < inputs.len() {
            let mut rest = [[K::Element::from_encoding(0); MOST_LANES]; 2];
            for (rest, from) in rest.iter_mut().zip([inputs.a(), inputs.b()]) {
                rest[..inputs.len() - whole].copy_from_slice(&from[whole..]);
            }
            sums.add::<K>(set, &rest[0], &rest[1]);
        }
        sums.sum::<K>(inputs.len().next_power_of_two().ilog2())
    }
}

/// The vectors of lanes of a row, and the most lanes.
const CHAINS: usize = 4;
const MOST_LANES: usize = CHAINS * 8;

/// The sums of a row in vectors of lanes.
struct RowSums<S: Set> {
    sums: [[S::F64; 2]; CHAINS],
    /// The least magnitude and the largest.
    sizes: [[S::F64; 2]; CHAINS],
}

impl<S: Set> RowSums<S> {
    #[inline(always)]
    fn new(set: S) -> Self {
        let [zero, infinity] = [0.0, f64::INFINITY].map(|x| S::F64::splat(set, x));
        RowSums { sums: [[zero; 2]; CHAINS], sizes: [[infinity, zero]; CHAINS] }
    }

    /// Adds the first terms, one for each lane.
    #[inline(always)]
    fn add<K: Laned>(&mut self, set: S, a: &[K::Element], b: &[K::Element]) {
        for (chain, (sum, sizes)) in self.sums.iter_mut().zip(&mut self.sizes).enumerate() {
            let first = chain * S::F64::LANES;
            let mut term = S::F64::load(set, &a[first..]);
            if K::PRODUCTS {
                term = term * S::F64::load(set, &b[first..]);
            }
            *sum = added::<K, S::F64>(*sum, term);
            *sizes = S::F64::magnitudes(*sizes, term);
        }
    }

    /// The sum of all lanes, if that of at most 2^log terms is exact.
    #[inline(always)]
    fn sum<K: Laned>(self, log: u32) -> Option<[f64; 2]> {
        let [mut sum, mut sizes] = [self.sums[0], self.sizes[0]];
        for chain in 1..CHAINS {
            let [high, low] = self.sums[chain];
            sum = added::<K, S::F64>([sum[0], sum[1] + low], high);
            let [least, most] = self.sizes[chain];
            sizes = S::F64::magnitudes(S::F64::magnitudes(sizes, least), most);
        }
        let [mut high, mut low, mut least, mut most] = [[0.0; 8]; 4];
        for (lanes, vector) in [&mut high, &mut low, &mut least, &mut most]
            .into_iter()
            .zip([sum[0], sum[1], sizes[0], sizes[1]])
        {
            let bits = vector.bits();
            lanes.iter_mut().zip(bits.as_ref()).for_each(|(x, bits)| *x = f64::from_bits(*bits));
        }
        let mut half = S::F64::LANES / 2;
        while half > 0 {
            for i in 0..half {
                let j = i + half;
                [high[i], low[i]] = added::<K, f64>([high[i], low[i] + low[j]], high[j]);
                least[i] = if least[j] < least[i] { least[j] } else { least[i] };
                most[i] = if most[j] > most[i] { most[j] } else { most[i] };
            }
            half /= 2;
        }
        let is_exact = holds::<K>([least[0], most[0]], high[0] + low[0], log);
        is_exact.then_some([high[0], low[0]])
    }
}

/// The sums of columns, a lane each.
pub(crate) struct LaneSums<K: Laned> {
    sums: Sums<K>,
    /// The sums before the rows that were added last, if there were terms before.
    before: Sums<K>,
    had_terms: bool,
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
        LaneSums { sums: Sums::NONE, before: Sums::NONE, had_terms: false, most_terms: 0 }
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
        self.sums.clear(0..self.sums.terms.len());
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
        if self.most_terms > 0 {
            self.before.copy_from(&self.sums, first..first + columns.len());
        }
        self.had_terms = self.most_terms > 0;
        self.most_terms += columns.rows();
        let log = self.log();
        version.run(AddColumns { sums: &mut self.sums, first, columns, log })
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
        if self.had_terms {
            self.sums.copy_from(&self.before, lane..lane + 1);
        } else {
            self.sums.clear(lane..lane + 1);
        }
    }

    /// The sums of the first lanes, in two parts, and the number of the terms of the first.
    pub(crate) fn sums(&self, lanes: usize) -> ([&[f64]; 2], u32) {
        let Sums { high, low, terms, .. } = &self.sums;
        ([&high[..lanes], &low[..lanes]], terms[0])
    }

    /// The sum of a lane, and the number of its terms.
    fn sum(&self, lane: usize) -> ([f64; 2], u32) {
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
        self.sums.clear(lane..lane + 1);
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

    /// Forgets the terms of lanes.
    fn clear(&mut self, lanes: Range<usize>) {
        self.high[lanes.clone()].fill(0.0);
        self.low[lanes.clone()].fill(0.0);
        self.least[lanes.clone()].fill(K::NONE[0]);
        self.most[lanes.clone()].fill(K::NONE[1]);
        self.terms[lanes].fill(0);
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

    /// The lanes from a number on.
    #[inline(always)]
    fn lanes(&mut self, first: usize) -> Lanes<'_, K> {
        Lanes {
            high: &mut self.high[first..],
            low: &mut self.low[first..],
            least: &mut self.least[first..],
            most: &mut self.most[first..],
        }
    }
}

/// The work of [`LaneSums::add`].
struct AddColumns<'a, K: Laned> {
    sums: &'a mut Sums<K>,
    first: usize,
    columns: Columns<'a, K::Element>,
    /// The logarithm of the most terms.
    log: u32,
}

impl<K: Laned> Vectorized for AddColumns<'_, K> {
    type Result = bool;

    #[inline(always)]
    fn run<S: Set>(self, _: S) -> bool {
        let AddColumns { sums, first, columns, log } = self;
        let whole = columns.rows() - columns.rows() % 4;
        for row in (0..whole).step_by(4) {
            sums.lanes(first).add([0, 1, 2, 3].map(|i| columns.row(row + i)));
        }
        for row in whole..columns.rows() {
            sums.lanes(first).add([columns.row(row)]);
        }
        let terms = &mut sums.terms[first..][..columns.len()];
        terms.iter_mut().for_each(|terms| *terms += columns.rows() as u32);
        let Lanes { high, low, least, most } = sums.lanes(first);
        let (high, low) = (&high[..columns.len()], &low[..columns.len()]);
        let (least, most) = (&least[..columns.len()], &most[..columns.len()]);
        let mut all_exact = true;
        for i in 0..columns.len() {
            all_exact &= K::is_exact([least[i], most[i]], high[i] + low[i], log);
        }
        all_exact
    }
}
