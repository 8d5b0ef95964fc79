//! Exact sums of groups in cells: a few words of 64 bits for each sum, as long as these hold the terms.
//!
//! A word counts in a unit, a power of two. The unit of the first word is chosen for the first terms, and the unit of
//! each further word is 2^width times less. A term is split into integers of these units: the nearest multiple of the
//! first unit, the nearest multiple of the second unit to the rest, and so on. Each is at most 2^(width - 1) units. Cells
//! hold a term if no rest remains and it is not too large. Other terms go elsewhere.
//!
//! Words overflow only after 2^[`LOG_TERMS`] terms. Before that, the highest bits of the words move on, from the first
//! word to a word of carries.

use super::{Inputs, LaneKind, Vectorised};
use crate::arch::{InstructionSet, Isa, Vectorized, prefetch};
use crate::process::memory::{self, NoMemory};
use bytemuck::Zeroable;
use gpuvec_exact::{Dot, Kind, State};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// The terms that are split at once.
pub(crate) const BLOCK: usize = 256;
/// The words of all cells take this many terms, if there are not more cells, before bits move to the carries.
const LOG_TERMS: u32 = 20;
/// The binades, at least, that the largest term may be above the largest of the first ones.
const MARGIN: i32 = 4;
/// The most words for the bits of a term.
const MOST_UNITS: usize = 4;
/// The highest unit, for which floats below 2^52 units and more are finite.
const HIGHEST: i32 = 960;
/// Two parts of a product are exact above 2^LEAST_PRODUCT: no bit is below the least f64.
const LEAST_PRODUCT: i32 = -960;

/// The words of a cell: one for each level of its kind of sums, and perhaps the number of its terms.
pub(crate) trait Words:
    Zeroable + Copy + AsRef<[i64]> + AsMut<[i64]> + Send + Sync + 'static
{
    const ZERO: Self;
    const LEN: usize;
}

impl<const LEN: usize> Words for [i64; LEN]
where
    [i64; LEN]: Zeroable,
{
    const ZERO: Self = [0; LEN];
    const LEN: usize = LEN;
}

/// A kind of sums that cells can hold.
pub(crate) trait Cellular: Vectorised {
    /// The number of words for the bits of a sum: enough for terms that differ by a factor of 2^10 and more.
    const UNITS: usize;

    /// The term of an element or of a pair as the sum of the first [`ADDENDS`](Self::ADDENDS) values. False if their sum may
    /// be another value.
    fn addends(a: Self::Element, b: Self::Element) -> ([f64; 2], bool);

    const ADDENDS: usize = if Self::ERRORS { 2 } else { 1 };
}

impl<K: LaneKind> Cellular for K {
    const UNITS: usize = if K::MAY_BE_SINGLE { 1 } else { 2 };

    #[inline(always)]
    fn addends(a: Self::Element, b: Self::Element) -> ([f64; 2], bool) {
        let (a, b): (f64, f64) = (a.into(), b.into());
        ([if K::PRODUCTS { a * b } else { a }, 0.0], true)
    }
}

impl Cellular for Dot<f64> {
    const UNITS: usize = 4;

    #[inline(always)]
    fn addends(a: f64, b: f64) -> ([f64; 2], bool) {
        let product = a * b;
        let is_exact = (product.abs() > power(LEAST_PRODUCT)) | (a == 0.0) | (b == 0.0);
        ([product, a.mul_add(b, -product)], is_exact)
    }
}

/// The unit of the first words of several tables of cells, which the first terms of the first table determine.
#[derive(Clone, Default)]
pub(crate) struct CommonUnit(Arc<AtomicI32>);

impl CommonUnit {
    /// No unit is as low.
    const NONE: i32 = 0;
    const ORIGIN: i32 = 1 << 16;

    fn get(&self) -> Option<i32> {
        let unit = self.0.load(Ordering::Relaxed);
        (unit != Self::NONE).then_some(unit - Self::ORIGIN)
    }

    /// The unit, which becomes `unit` if there is none yet.
    fn or(&self, unit: i32) -> i32 {
        let relaxed = Ordering::Relaxed;
        match self.0.compare_exchange(Self::NONE, unit + Self::ORIGIN, relaxed, relaxed) {
            Ok(_) => unit,
            Err(other) => other - Self::ORIGIN,
        }
    }
}

/// A table of cells.
pub(crate) struct Cells<W> {
    words: Box<[W]>,
    /// Empty, or for each cell the bits above its first word, in units of 2^(unit + width).
    carries: Box<[i64]>,
    /// The first words' unit is 2^unit.
    unit: Option<i32>,
    width: i32,
    /// The terms that words may have.
    most_terms: usize,
    /// A bound of the terms in a word.
    terms: usize,
}

/// The cells of the terms of a block.
pub(crate) struct Places<'a> {
    /// Cells are at their places after this number.
    pub(crate) first: usize,
    pub(crate) places: &'a [usize],
    /// -1 for each term that is added, 0 for the others.
    pub(crate) masks: &'a [i64],
    /// The address and the bytes of the keys. The next block's follow them.
    pub(crate) keys: (*const u8, usize),
}

/// The terms of a block as words.
pub(crate) struct Split<W> {
    terms: [W; BLOCK],
    /// -1 for each term that was added, otherwise 0.
    held: [i64; BLOCK],
}

impl<W: Words> Split<W> {
    pub(crate) const NEW: Self = Split { terms: [W::ZERO; BLOCK], held: [0; BLOCK] };

    /// True if the term of a place was added to its cell.
    pub(crate) fn holds(&self, place: usize) -> bool {
        self.held[place] != 0
    }
}

impl<W: Words> Cells<W> {
    /// `count` cells without terms.
    pub(crate) fn new(count: usize) -> Result<Self, NoMemory> {
        let log_terms = count.max(1 << LOG_TERMS).ilog2();
        Ok(Cells {
            words: memory::zeroed(count)?,
            carries: Box::default(),
            unit: None,
            width: 62 - log_terms as i32,
            most_terms: 1 << log_terms,
            terms: 0,
        })
    }

    /// Chooses the unit for the largest term of a block, unless it is chosen. Returns false if the block has only zeros
    /// and terms that are not finite.
    pub(crate) fn choose<K: Cellular>(
        &mut self, common: &CommonUnit, inputs: Inputs<'_, K::Element>,
    ) -> bool {
        self.unit = self.unit.or_else(|| common.get()).or_else(|| {
            let terms = inputs.a().iter().zip(inputs.b()).map(|(a, b)| K::addends(*a, *b).0[0]);
            let terms = terms.filter(|term| term.is_finite() && *term != 0.0);
            let above = terms.map(|term| exponent(term) + MARGIN).max()?;
            let lowest = K::LOW.max(f64_low()) + (K::UNITS as i32 - 1) * self.width;
            Some(common.or((above - (self.width - 1)).clamp(lowest, HIGHEST)))
        });
        self.unit.is_some()
    }

    /// Adds each term of a block to its cell, if its mask is -1 and cells hold it. Terms with the mask 0 are left out.
    /// Returns true if all terms were added; otherwise `split` tells which. Prefetches the next block.
    pub(crate) fn add<K: Cellular>(
        &mut self, isa: Isa, inputs: Inputs<'_, K::Element>, to: Places<'_>, split: &mut Split<W>,
    ) -> Result<bool, NoMemory> {
        let Places { first, places, masks, keys } = to;
        if self.terms + inputs.len() > self.most_terms {
            self.carry::<K>()?;
        }
        self.terms += inputs.len();
        // Zeros have the same words in each unit.
        let (unit, words) = (self.unit.unwrap_or(0), &mut self.words[first..]);
        let origin = |level| match level < K::UNITS {
            true => 1.5 * power(52 + unit - level as i32 * self.width),
            false => 0.0,
        };
        let origins = std::array::from_fn(origin);
        let limit = power(unit + self.width - 1);
        Ok(isa.run(Adding::<K, W> { words, inputs, places, masks, keys, origins, limit, split }))
    }

    /// Moves the highest bits of the words on.
    #[inline(never)]
    fn carry<K: Cellular>(&mut self) -> Result<(), NoMemory> {
        if self.carries.is_empty() {
            self.carries = memory::zeroed(self.words.len())?;
        }
        for (words, carry) in self.words.iter_mut().zip(&mut self.carries) {
            let mut above = 0;
            for word in words.as_mut()[..K::UNITS].iter_mut().rev() {
                *word += above;
                above = (*word + (1 << (self.width - 1))) >> self.width;
                *word -= above << self.width;
            }
            *carry += above;
        }
        self.terms = 1;
        Ok(())
    }

    /// Adds the terms of a cell to a state.
    pub(crate) fn add_to<K: Cellular>(&self, state: &mut State<K>, number: usize) {
        let (Some(unit), words) = (self.unit, self.words[number].as_ref()) else {
            return state.count(self.terms_of::<K>(number));
        };
        for (level, word) in (0..).zip(&words[..K::UNITS]) {
            state.add_units(*word, unit - level * self.width);
        }
        state.add_units(self.carry_of(number), unit + self.width);
        state.count(self.terms_of::<K>(number));
    }

    /// The number of terms, if it is counted.
    fn terms_of<K: Cellular>(&self, number: usize) -> usize {
        self.words[number].as_ref().get(K::UNITS).map_or(0, |terms| *terms as usize)
    }

    #[inline(always)]
    fn carry_of(&self, number: usize) -> i64 {
        self.carries.get(number).copied().unwrap_or(0)
    }

    /// The unit and the width, which cells must share to be added word by word. `None` if all terms are zeros.
    pub(crate) fn units(&self) -> Option<[i32; 2]> {
        self.unit.map(|unit| [unit, self.width])
    }
}

/// The sums of cells of the same numbers in several tables that have the same units.
pub(crate) struct Cellwise<'a, W> {
    tables: &'a [&'a Cells<W>],
    scale: f64,
    lower: f64,
    width: i32,
    /// The most units of a word in each table, with which sums of words are exact in f64.
    most: u64,
}

impl<'a, W: Words> Cellwise<'a, W> {
    /// `None` if the tables have different units.
    pub(crate) fn new(tables: &'a [&'a Cells<W>]) -> Option<Self> {
        let mut units = tables.iter().filter_map(|cells| cells.units());
        let [unit, width] = units.next().unwrap_or([0, tables.first()?.width]);
        let (scale, lower) = (power(unit), power(-width));
        let most = (1 << 53) / tables.len() as u64;
        units.all(|other| other == [unit, width]).then_some(Cellwise {
            tables,
            scale,
            lower,
            width,
            most,
        })
    }

    /// A sum in two parts, the nearest f64 and the rest, and its number of terms, if it is counted. `None` if this cannot
    /// be exact.
    #[inline(always)]
    pub(crate) fn parts<K: Cellular>(&self, number: usize) -> Option<([f64; 2], usize)> {
        let (mut sums, mut bits) = (W::ZERO, 0);
        for table in self.tables {
            let carry = table.carry_of(number);
            bits |= if carry.unsigned_abs() >> (53 - self.width) == 0 { 0 } else { u64::MAX };
            let mut words = table.words[number];
            words.as_mut()[0] = words.as_ref()[0].wrapping_add(carry << self.width);
            for (level, (sum, word)) in sums.as_mut().iter_mut().zip(words.as_ref()).enumerate() {
                *sum = sum.wrapping_add(*word);
                bits |= if level < K::UNITS { word.unsigned_abs() } else { 0 };
            }
        }
        let (sums, terms) = sums.as_ref().split_at(K::UNITS);
        let (high, low) = match sums {
            [high] => (*high as f64, 0.0),
            [high, low] => (*high as f64, *low as f64 * self.lower),
            _ => return None,
        };
        let sum = high + low;
        let of_low = sum - high;
        let rest = (high - (sum - of_low)) + (low - of_low);
        let parts = [sum * self.scale, rest * self.scale];
        let is_exact = bits <= self.most && parts[0].is_finite();
        is_exact.then_some((parts, terms.first().map_or(0, |terms| *terms as usize)))
    }
}

/// The exponent above a term.
fn exponent(term: f64) -> i32 {
    (term.to_bits() >> 52 & 0x7FF) as i32 - 1022
}

/// The exponent of the least f64.
const fn f64_low() -> i32 {
    <f64 as gpuvec_exact::Float>::LEAST
}

/// A power of two in the range of f64.
fn power(exponent: i32) -> f64 {
    match exponent {
        -1022.. => f64::from_bits(((exponent + 1023) as u64) << 52),
        _ => f64::from_bits(1 << (exponent + 1074)),
    }
}

#[inline(always)]
fn add_words<W: Words>(words: &mut W, others: &W) {
    let mut sums = *words;
    for (sum, other) in sums.as_mut().iter_mut().zip(others.as_ref()) {
        *sum = sum.wrapping_add(*other);
    }
    *words = sums;
}

/// Adds the terms of a block to cells.
struct Adding<'a, K: Kind, W> {
    words: &'a mut [W],
    inputs: Inputs<'a, K::Element>,
    places: &'a [usize],
    masks: &'a [i64],
    keys: (*const u8, usize),
    /// The sum of such a float and a term below 2^51 units has the term's units as its last bits.
    origins: [f64; MOST_UNITS],
    /// Terms are less.
    limit: f64,
    split: &'a mut Split<W>,
}

impl<K: Cellular, W: Words> Vectorized for Adding<'_, K, W> {
    /// True if all terms were added.
    type Result = bool;

    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) -> bool {
        let Adding { words, inputs, places, masks, keys, origins, limit, split } = self;
        let len = inputs.len();
        let (a, b, masks) = (inputs.a(), &inputs.b()[..len], &masks[..len]);
        let Split { terms, held } = split;
        let (terms, held) = (&mut terms[..len], &mut held[..len]);
        let mut all = -1;
        // Vectors: no branches.
        for i in 0..len {
            let (mut rests, is_exact) = K::addends(a[i], b[i]);
            let mut is_held = is_exact & (rests[0].abs() < limit);
            let mut term = W::ZERO;
            for rest in &mut rests[..K::ADDENDS] {
                for (level, origin) in origins[..K::UNITS].iter().enumerate() {
                    let moved = *rest + origin;
                    *rest -= moved - origin;
                    let units = moved.to_bits().wrapping_sub(origin.to_bits()).cast_signed();
                    term.as_mut()[level] = term.as_ref()[level].wrapping_add(units);
                }
                is_held &= *rest == 0.0;
            }
            if W::LEN > K::UNITS {
                term.as_mut()[K::UNITS] = 1;
            }
            let mask = masks[i] & -i64::from(is_held);
            held[i] = mask;
            all &= mask;
            term.as_mut().iter_mut().for_each(|word| *word &= mask);
            terms[i] = term;
        }
        let (places, last_places) = places.as_chunks::<4>();
        let (terms, last_terms) = terms.as_chunks::<4>();
        // Elements are a block's last bytes away from the next block's.
        let next = [(a.as_ptr().cast(), size_of_val(a)), keys];
        for (row, (places, terms)) in places.iter().zip(terms).enumerate() {
            for (address, bytes) in next {
                prefetch(address.wrapping_add(bytes + row * bytes * 4 / BLOCK));
            }
            for i in 0..4 {
                add_words(&mut words[places[i]], &terms[i]);
            }
        }
        for (place, term) in last_places.iter().zip(last_terms) {
            add_words(&mut words[*place], term);
        }
        all == -1
    }
}
