//! Exact sums in lanes: of columns, and of short rows.
//!
//! A lane holds the sum of n ≤ 2^l terms of p bits in one f64, or in two, high + low. It also holds the magnitudes of
//! the smallest term that is not 0, at least 2^e, and of the largest, below 2^(E+1). All terms are multiples of
//! 2^(e−p+1). So are all sums, and the rounding errors of sums. In any order of additions, the sum is exact
//!
//! - in one f64 if E − e ≤ 53 − p − l: all sums are below 2^(l+E+1), and so have at most 53 bits;
//! - in two f64 if E − e ≤ 104 − p − 2l: TwoSum (Knuth) adds each term to high, and its rounding error is added to low.
//!   An error is at most half a unit in the last place of a sum, so that low is at most 2^(l + l+E+1−53), which is below
//!   2^(e−p+1 + 53).
//!
//! The addition of two sums counts as one addition, so that lanes merge under the same condition. If it fails, the
//! terms are added to a state.

use super::{Columns, Inputs, Vectorised};
use crate::arch::{InstructionSet, Isa, Vector, Vectorized, stay_a_loop};
use crate::policy::cores;
use crate::process::memory::filled;
use gpuvec_exact::{Dot, Float, Kind, State, Sum, Value};
use std::collections::TryReserveError;
use std::ops::{Add, Range, Sub};

/// The most terms of a lane, 2^12. With more, few terms would have magnitudes that are similar enough.
const LOG_TERMS: u32 = 12;

/// The most terms of a row.
const LONGEST_ROW: usize = 1 << LOG_TERMS;

/// A kind of sums that lanes can hold.
pub(crate) trait LaneKind: Vectorised {
    /// The magnitude of a term.
    type Size: Copy + Send + Sync + 'static;
    /// The least and the greatest size of no terms.
    const NONE: [Self::Size; 2];
    /// One f64 holds the sum of terms of similar magnitudes.
    const MAY_BE_SINGLE: bool = Self::TERM_BITS <= f32::PRECISION;

    /// The least and the greatest size after one more term, which the element x gives.
    fn include(sizes: [Self::Size; 2], x: Self::Element, term: f64) -> [Self::Size; 2];

    /// True if a sum is exact, for terms with the least and the greatest size `sizes` and exponents that may differ by
    /// `range`.
    fn is_exact(sizes: [Self::Size; 2], sum: f64, range: u32) -> bool;
}

impl LaneKind for Sum<f32> {
    /// The magnitude of an encoding. For the minimum, 1 is subtracted, so that zeros wrap to the largest value.
    type Size = u32;
    const NONE: [u32; 2] = [u32::MAX, 0];

    #[inline(always)]
    fn include([least, most]: [u32; 2], x: f32, _: f64) -> [u32; 2] {
        let size = x.to_bits() & 0x7FFF_FFFF;
        [least.min(size.wrapping_sub(1)), most.max(size)]
    }

    #[inline(always)]
    fn is_exact([least, most]: [u32; 2], _: f64, range: u32) -> bool {
        let difference = (most >> 23).wrapping_sub(least.wrapping_add(1) >> 23);
        (most < f32::INFINITY.to_bits()) & (difference <= range)
    }
}

macro_rules! of_pairs {
    ($($kind:ty: $element:ty;)+) => {
        $(impl LaneKind for $kind {
            type Size = f64;
            const NONE: [f64; 2] = [f64::INFINITY, 0.0];

            #[inline(always)]
            fn include([least, most]: [f64; 2], _: $element, term: f64) -> [f64; 2] {
                let size = term.abs();
                [
                    if (size < least) & (size != 0.0) { size } else { least },
                    if size > most { size } else { most },
                ]
            }

            #[inline(always)]
            fn is_exact([least, most]: [f64; 2], sum: f64, range: u32) -> bool {
                holds([least, most], sum, range)
            }
        })+
    };
}

of_pairs! {
    Sum<f64>: f64;
    Dot<f32>: f32;
}

/// Adjacent lanes.
struct AdjacentLanes<'a, K: LaneKind> {
    high: &'a mut [f64],
    low: &'a mut [f64],
    least: &'a mut [K::Size],
    most: &'a mut [K::Size],
}

impl<K: LaneKind> AdjacentLanes<'_, K> {
    /// Adds a term of each row to each lane. Lanes are loaded and stored once for all rows.
    #[inline(always)]
    fn add<S: InstructionSet, const SINGLE: bool>(self, rows: [Inputs<'_, K::Element>; 4]) {
        let AdjacentLanes { high, low, least, most } = self;
        let len = rows[0].len();
        let (high, low) = (&mut high[..len], &mut low[..len]);
        let (least, most) = (&mut least[..len], &mut most[..len]);
        let [a, b] = [rows.map(|row| &row.a()[..len]), rows.map(|row| &row.b()[..len])];
        for i in 0..len {
            if !S::HAS_FMA {
                // Few processors have only the baseline, for which the vector code would be the longest.
                stay_a_loop();
            }
            let (mut sum, mut sizes) = ([high[i], low[i]], [least[i], most[i]]);
            for row in 0..4 {
                let x: f64 = a[row][i].into();
                let term = if K::PRODUCTS { x * b[row][i].into() } else { x };
                sizes = K::include(sizes, a[row][i], term);
                sum = added::<SINGLE, f64>(sum, term);
            }
            high[i] = sum[0];
            if !SINGLE {
                low[i] = sum[1];
            }
            [least[i], most[i]] = sizes;
        }
    }
}

/// A sum with one more term, in one f64 or in two.
#[inline(always)]
fn added<const SINGLE: bool, F: Copy + Add<Output = F> + Sub<Output = F>>(
    [high, low]: [F; 2], term: F,
) -> [F; 2] {
    if SINGLE {
        return [high + term, low];
    }
    let sum = high + term;
    let of_term = sum - high;
    [sum, low + ((high - (sum - of_term)) + (term - of_term))]
}

/// The most that the exponents of `terms` terms may differ by, so that their sum is exact in one f64 or in two.
#[inline(always)]
fn exact_range<K: LaneKind>(is_single: bool, terms: usize) -> u32 {
    let log = terms.next_power_of_two().ilog2();
    if is_single { 53 - K::TERM_BITS - log } else { 104 - K::TERM_BITS - 2 * log }
}

/// True if a sum is exact, for terms with this least and greatest magnitude and exponents that may differ by `range`.
#[inline(always)]
fn holds(magnitudes: [f64; 2], sum: f64, range: u32) -> bool {
    let [least, most] = magnitudes.map(|size| (size.to_bits() >> 52) as u32);
    // A NaN among the terms changes no magnitude, but makes the sum NaN. TwoSum of larger terms may overflow.
    sum.is_finite() & (most < 1023 + 960) & (most.saturating_sub(least) <= range)
}

/// The sum of a row in one or two f64; `None` if these are not exact.
// Not inlined, to keep the library small.
#[inline(never)]
pub(crate) fn row<K: LaneKind>(isa: Isa, inputs: Inputs<'_, K::Element>) -> Option<[f64; 2]> {
    if inputs.len() > LONGEST_ROW {
        return None;
    }
    let single = if K::MAY_BE_SINGLE { isa.run(Row::<K, true>(inputs)) } else { None };
    single.or_else(|| isa.run(Row::<K, false>(inputs)))
}

struct Row<'a, K: LaneKind, const SINGLE: bool>(Inputs<'a, K::Element>);

impl<K: LaneKind, const SINGLE: bool> Vectorized for Row<'_, K, SINGLE> {
    type Result = Option<[f64; 2]>;

    #[inline(always)]
    fn run<S: InstructionSet>(self, set: S) -> Option<[f64; 2]> {
        let Row(inputs) = self;
        let width = CHAINS * S::F64::LANES;
        let mut sums = RowSums::<S, SINGLE>::new(set);
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
        sums.sum(exact_range::<K>(SINGLE, inputs.len()))
    }
}

/// The number of vectors of lanes of a row, and the most lanes.
const CHAINS: usize = 4;
const MOST_LANES: usize = CHAINS * 8;

/// The sums of a row in vectors of lanes.
struct RowSums<S: InstructionSet, const SINGLE: bool> {
    sums: [[S::F64; 2]; CHAINS],
    /// The least and the greatest magnitudes.
    sizes: [[S::F64; 2]; CHAINS],
}

impl<S: InstructionSet, const SINGLE: bool> RowSums<S, SINGLE> {
    #[inline(always)]
    fn new(set: S) -> Self {
        let [zero, infinity] = [0.0, f64::INFINITY].map(|x| S::F64::splat(set, x));
        RowSums { sums: [[zero; 2]; CHAINS], sizes: [[infinity, zero]; CHAINS] }
    }

    /// Adds one term to each lane.
    #[inline(always)]
    fn add<K: LaneKind>(&mut self, set: S, a: &[K::Element], b: &[K::Element]) {
        for (chain, (sum, sizes)) in self.sums.iter_mut().zip(&mut self.sizes).enumerate() {
            let first = chain * S::F64::LANES;
            let mut term = S::F64::load(set, &a[first..]);
            if K::PRODUCTS {
                term = term * S::F64::load(set, &b[first..]);
            }
            *sum = added::<SINGLE, S::F64>(*sum, term);
            *sizes = S::F64::magnitudes(*sizes, term);
        }
    }

    /// The sum of all lanes; `None` if the exponents of the terms differ by more than `range`.
    #[inline(always)]
    fn sum(self, range: u32) -> Option<[f64; 2]> {
        let [mut sum, mut sizes] = [self.sums[0], self.sizes[0]];
        for chain in 1..CHAINS {
            let [high, low] = self.sums[chain];
            sum = added::<SINGLE, S::F64>([sum[0], sum[1] + low], high);
            let [least, most] = self.sizes[chain];
            // Infinity is the least magnitude of no terms.
            sizes = [S::F64::magnitudes(sizes, least)[0], S::F64::magnitudes(sizes, most)[1]];
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
                [high[i], low[i]] = added::<SINGLE, f64>([high[i], low[i] + low[j]], high[j]);
                least[i] = if least[j] < least[i] { least[j] } else { least[i] };
                most[i] = if most[j] > most[i] { most[j] } else { most[i] };
            }
            half /= 2;
        }
        let is_exact = holds([least[0], most[0]], high[0] + low[0], range);
        is_exact.then_some([high[0], low[0]])
    }
}

/// Adds a sum of some terms, in two parts, to a state.
pub(super) fn add_parts<K: Kind>(state: &mut State<K>, parts: [f64; 2], terms: usize) {
    state.count(terms);
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
}

/// The lanes beside states of type `S`. By default there are none.
pub(crate) trait Lanes<S>: Default + Send + Sync {
    /// Allocates lanes without terms.
    fn reserve(&mut self, _lanes: usize) -> Result<(), TryReserveError> {
        Ok(())
    }

    /// Forgets all terms.
    fn clear(&mut self) {}

    /// The sums of the first lanes, in two parts, and the greatest number of terms of one of them. `None` if there are
    /// no lanes.
    fn sums(&self, _lanes: usize) -> Option<([&[f64]; 2], u32)> {
        None
    }

    /// Moves the sum of a lane to a state.
    fn empty(&mut self, _lane: usize, _state: &mut S) {}
}

/// No lanes.
#[derive(Default)]
pub(crate) struct NoLanes;

impl<S> Lanes<S> for NoLanes {}

/// The sums of columns, a lane each.
pub(crate) struct LaneSums<K: LaneKind> {
    sums: Sums<K>,
    /// The sums before the last rows were added, if there were any.
    before: Sums<K>,
    had_terms: bool,
    /// A row of zeros, which fills up the last four rows.
    zeros: Vec<K::Element>,
    /// No lane has more terms.
    most_terms: usize,
    /// True if two f64 hold a sum, false if one does.
    has_pairs: bool,
}

/// Sums of any number of lanes.
struct Sums<K: LaneKind> {
    high: Vec<f64>,
    low: Vec<f64>,
    least: Vec<K::Size>,
    most: Vec<K::Size>,
    /// The number of terms of each lane.
    terms: Vec<u32>,
}

impl<K: LaneKind> Default for LaneSums<K> {
    fn default() -> Self {
        LaneSums {
            sums: Sums::NONE,
            before: Sums::NONE,
            had_terms: false,
            zeros: Vec::new(),
            most_terms: 0,
            has_pairs: !K::MAY_BE_SINGLE,
        }
    }
}

impl<K: LaneKind> Lanes<State<K>> for LaneSums<K> {
    fn reserve(&mut self, lanes: usize) -> Result<(), TryReserveError> {
        self.sums = Sums::new(lanes)?;
        self.before = Sums::new(lanes)?;
        self.zeros = filled(K::Element::from_encoding(0), lanes)?;
        Ok(())
    }

    fn clear(&mut self) {
        self.sums.clear(0..self.sums.terms.len());
        self.most_terms = 0;
    }

    fn sums(&self, lanes: usize) -> Option<([&[f64]; 2], u32)> {
        let Sums { high, low, terms, .. } = &self.sums;
        let most = terms[..lanes].iter().copied().max().unwrap_or(0);
        Some(([&high[..lanes], &low[..lanes]], most))
    }

    fn empty(&mut self, lane: usize, state: &mut State<K>) {
        let Sums { high, low, terms, .. } = &self.sums;
        if terms[lane] == 0 {
            return;
        }
        add_parts(state, [high[lane], low[lane]], terms[lane] as usize);
        self.sums.clear(lane..lane + 1);
    }
}

impl<K: LaneKind> LaneSums<K> {
    /// True if lanes may take `terms` more terms.
    pub(crate) fn has_room(&self, terms: usize) -> bool {
        self.most_terms + terms <= LONGEST_ROW
    }

    /// Adds columns to the lanes from number `first` on, which have room for the rows. If the sums of many lanes are
    /// not exact, changes to sums in two f64. Returns the number of lanes with sums that are not exact.
    // Not inlined, to keep the library small.
    #[inline(never)]
    pub(crate) fn add(
        &mut self, isa: Isa, first: usize, columns: Columns<'_, K::Element>,
    ) -> usize {
        let lanes = first..first + columns.len();
        if self.most_terms > 0 {
            self.before.copy_from(&self.sums, lanes.clone());
        }
        self.had_terms = self.most_terms > 0;
        self.most_terms += columns.rows();
        let inexact = self.add_as_is(isa, first, columns);
        if self.has_pairs || inexact <= columns.len() / cores::FEW_INEXACT {
            return inexact;
        }
        self.has_pairs = true;
        self.restore(lanes);
        self.add_as_is(isa, first, columns)
    }

    /// Adds columns to the lanes from number `first` on. Returns the number of lanes with sums that are not exact.
    fn add_as_is(&mut self, isa: Isa, first: usize, columns: Columns<'_, K::Element>) -> usize {
        let range = self.range();
        let (sums, zeros) = (&mut self.sums, &self.zeros[..columns.len()]);
        match self.has_pairs || !K::MAY_BE_SINGLE {
            true => isa.run_as_short(AddColumns::<K, false> { sums, zeros, first, columns, range }),
            false => isa.run_as_short(AddColumns::<K, true> { sums, zeros, first, columns, range }),
        }
    }

    /// The most that the exponents of the terms of an exact sum may differ by.
    fn range(&self) -> u32 {
        exact_range::<K>(!self.has_pairs, self.most_terms)
    }

    pub(crate) fn is_exact(&self, lane: usize) -> bool {
        let (sums, range) = (&self.sums, self.range());
        let sizes = [sums.least[lane], sums.most[lane]];
        K::is_exact(sizes, sums.high[lane] + sums.low[lane], range)
    }

    /// Removes the terms that were added last from lanes.
    pub(crate) fn restore(&mut self, lanes: Range<usize>) {
        if self.had_terms {
            self.sums.copy_from(&self.before, lanes);
        } else {
            self.sums.clear(lanes);
        }
    }
}

impl<K: LaneKind> Sums<K> {
    const NONE: Self = Sums {
        high: Vec::new(),
        low: Vec::new(),
        least: Vec::new(),
        most: Vec::new(),
        terms: Vec::new(),
    };

    fn new(lanes: usize) -> Result<Self, TryReserveError> {
        Ok(Sums {
            high: filled(0.0, lanes)?,
            low: filled(0.0, lanes)?,
            least: filled(K::NONE[0], lanes)?,
            most: filled(K::NONE[1], lanes)?,
            terms: filled(0, lanes)?,
        })
    }

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

    /// The lanes from a number on.
    #[inline(always)]
    fn lanes(&mut self, first: usize) -> AdjacentLanes<'_, K> {
        AdjacentLanes {
            high: &mut self.high[first..],
            low: &mut self.low[first..],
            least: &mut self.least[first..],
            most: &mut self.most[first..],
        }
    }
}

struct AddColumns<'a, K: LaneKind, const SINGLE: bool> {
    sums: &'a mut Sums<K>,
    /// A row of zeros.
    zeros: &'a [K::Element],
    first: usize,
    columns: Columns<'a, K::Element>,
    /// The most that the exponents of the terms of an exact sum may differ by.
    range: u32,
}

impl<K: LaneKind, const SINGLE: bool> Vectorized for AddColumns<'_, K, SINGLE> {
    type Result = usize;

    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) -> usize {
        let AddColumns { sums, zeros, first, columns, range } = self;
        for first_row in (0..columns.rows()).step_by(4) {
            let row = |row| match row < columns.rows() {
                true => columns.row(row),
                false => Inputs::new(zeros, zeros),
            };
            sums.lanes(first).add::<S, SINGLE>([0, 1, 2, 3].map(|i| row(first_row + i)));
        }
        let terms = &mut sums.terms[first..][..columns.len()];
        terms.iter_mut().for_each(|terms| *terms += columns.rows() as u32);
        let AdjacentLanes { high, low, least, most } = sums.lanes(first);
        let (high, low) = (&high[..columns.len()], &low[..columns.len()]);
        let (least, most) = (&least[..columns.len()], &most[..columns.len()]);
        let mut inexact = 0;
        for i in 0..columns.len() {
            inexact += usize::from(!K::is_exact([least[i], most[i]], high[i] + low[i], range));
        }
        inexact
    }
}
