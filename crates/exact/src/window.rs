//! Exact sums by floating-point arithmetic, in windows: the reference for vector code and kernels.
//!
//! A level with the unit 2^u has an accumulator a, which begins at σ = 1.5·2^(u+52). The deposit of r
//! is t = a + r, q = t − a, r ← r − q, a ← t. A window has several levels, [`LEVEL_BITS`] bits
//! apart. Each level takes the remainder r of the level above.
//!
//! Why this is exact, in f64 rounded to nearest, without flush to zero or contraction:
//!
//! 1. *The accumulator stays in [2^(u+52), 2^(u+53)], where floats are the multiples of 2^u.* σ is the
//!    middle. With |r| ≤ 2^(u+44), |q| ≤ 2^(u+44) too, since rounding to multiples of 2^u does not
//!    pass 2^(u+44); so [`DEPOSITS`] = 2^7 of them move a by at most 2^(u+51).
//! 2. *q and r − q are exact.* |a| ≥ |r|, so that this is FastTwoSum (Dekker): q = t − a is exact, and
//!    r − q is the error of a + r, which is a float.
//! 3. *The next level's bound holds.* The error is at most half a spacing: |r − q| ≤ 2^(u−1), which is
//!    2^(u' + 44) for u' = u − 45.
//! 4. *A level's sum is the integer bits(a) − bits(σ), in units of 2^u*, since a has moved by q after q,
//!    and the encodings of neighbouring floats are neighbouring integers.
//! 5. *All is deposited if and only if no remainder is left after the last level*, that is, if the last q
//!    equals r (zeros of either sign are equal). A NaN leaves NaN, which is not equal. Code that looks for
//!    remainders in a way that misses NaN must check that a is still in its range instead.
//!
//! A product has two parts, p = x·y rounded and its error e = fma(x, y, −p), and both are deposited. e is exact if
//! |p| ≥ 2^−968: then the product's lowest bit is at least 2^(−969 − 105) = 2^−1074. The product
//! of two f32 is exact, and e is 0.
//!
//! A block of terms is added to the state only after all its checks have passed. Otherwise its terms are
//! deposited as integers.

use crate::{Dot, Float, Kind, State, Sum, digits};

/// The distance between a window's levels, in bits.
pub const LEVEL_BITS: i32 = 45;

/// The number of deposits in a level before its sum is taken.
const DEPOSITS: usize = 1 << 7;

/// Units of windows are 2^(LOW + GRID·k). [`LEVEL_BITS`] is a multiple of GRID, so one array of counters can have the
/// sums of all windows.
const GRID: i32 = 5;

/// In the level with the unit 2^u, parts are at most 2^(u + REACH).
const REACH: i32 = 44;

/// The largest u. The level's accumulator then stays below 2^1023.
const MAX_UNIT: i32 = 1022 - 52;

/// The conditions under which a block's sums are exact. A test leaves each out, to show that sums are wrong without it.
#[derive(Clone, Copy, Debug)]
pub struct Guards {
    /// The block's largest part is at most 2^(u+44), with the u of the highest level. NaN passes, as in the maximum
    /// that processors compute.
    pub limit: bool,
    /// The last level leaves no remainder, and no part is NaN.
    pub witness: bool,
    /// The lowest unit is at least 2^FLOOR. A product below that may have a wrong error, but is not a multiple of the
    /// unit and so leaves a remainder.
    pub floor: bool,
    /// A product that is 0 has a factor that is 0.
    pub zero: bool,
}

impl Guards {
    /// All conditions.
    pub const ALL: Self = Self { limit: true, witness: true, floor: true, zero: true };
}

/// A kind with terms that are sums of f64.
pub trait Windowed: Kind {
    /// The parts of a term, one or two.
    type Parts: IntoIterator<Item = f64>;
    /// The number of parts.
    const PARTS: usize;
    /// The lowest unit of a window is at least 2^FLOOR.
    const FLOOR: i32;

    /// The parts. In the range in which they are exact, their sum is the term's value.
    fn parts(term: Self::Term) -> Self::Parts;

    /// True if a term is 0 because it underflowed.
    fn vanished(term: Self::Term) -> bool;
}

impl<T: Float> Windowed for Sum<T>
where
    Self: Kind<Term = T>,
{
    type Parts = [f64; 1];
    const PARTS: usize = 1;
    const FLOOR: i32 = Self::LOW;

    fn parts(term: T) -> [f64; 1] {
        [term.into()]
    }

    fn vanished(_: T) -> bool {
        false
    }
}

impl<T: Float> Windowed for Dot<T>
where
    Self: Kind<Term = (T, T)>,
{
    type Parts = [f64; 2];
    const PARTS: usize = 2;
    const FLOOR: i32 = if Self::LOW > -968 { Self::LOW } else { -968 };

    fn parts((x, y): (T, T)) -> [f64; 2] {
        let (x, y) = (x.into(), y.into());
        let product = x * y;
        [product, x.mul_add(y, -product)]
    }

    fn vanished((x, y): (T, T)) -> bool {
        let (x, y) = (x.into(), y.into());
        x * y == 0.0 && x != 0.0 && y != 0.0
    }
}

/// Adds terms to a state: by windows of `LEVELS` levels, or by integers if no window holds a block. Returns the number
/// of blocks that no window held.
pub fn accumulate<K: Windowed, const LEVELS: usize>(
    state: &mut State<K>, terms: &[K::Term], guards: Guards,
) -> usize {
    let mut window = None;
    let mut spilled = 0;
    for block in terms.chunks(DEPOSITS / K::PARTS) {
        let parts: Vec<f64> = block.iter().flat_map(|&term| K::parts(term)).collect();
        let largest = parts.iter().fold(0.0_f64, |largest, part| largest.max(part.abs()));
        let vanished = block.iter().any(|&term| K::vanished(term));
        let sums = |unit| {
            let fits = largest <= power(unit + REACH);
            ((fits || !guards.limit) && (!vanished || !guards.zero))
                .then(|| sums::<LEVELS>(unit, parts.clone(), guards))?
        };
        // The window of the preceding block, or else a window for this block.
        let held = window.and_then(sums).or_else(|| {
            window = covering::<K>(largest, LEVELS, guards);
            window.and_then(sums)
        });
        if let (Some(sums), Some(unit)) = (held, window) {
            state.count(block.len());
            state.add_window(&sums, unit);
        } else {
            block.iter().for_each(|&term| state.deposit(term));
            spilled += 1;
        }
    }
    spilled
}

/// The highest unit of the lowest window that holds parts of a size.
fn covering<K: Windowed>(largest: f64, levels: usize, guards: Guards) -> Option<i32> {
    let floor = if guards.floor { K::FLOOR } else { K::FLOOR.min(-1073) };
    let lowest = floor + LEVEL_BITS * (levels as i32 - 1);
    // Every part is below 2^exponent; the exponent of Inf is above MAX_UNIT + REACH.
    let exponent = (largest.to_bits() >> 52) as i32 - 1022;
    let steps = (exponent - REACH - K::LOW + GRID - 1).div_euclid(GRID);
    Some((K::LOW + GRID * steps).max(lowest)).filter(|&unit| unit <= MAX_UNIT)
}

/// The units of a window's levels, from the unit of the highest level.
pub(crate) fn units(highest: i32) -> impl Iterator<Item = i32> {
    (0..).map(move |level| highest - LEVEL_BITS * level)
}

/// Rounds the sums of a window's levels, at most three, without a state. The highest level has the unit 2^unit.
pub fn round_window<T: Float>(sums: &[i64], unit: i32) -> T {
    let lowest = unit - LEVEL_BITS * (sums.len() as i32 - 1);
    // 90 + 64 bits, and the sign.
    let mut digits = [0; 6];
    for (&sum, unit) in sums.iter().zip(units(unit)) {
        let position = (unit - lowest) as usize;
        digits::add(&mut digits, position, sum.unsigned_abs().into(), sum < 0, digits::span(64));
    }
    digits::round(&mut digits, lowest)
}

/// Rounds units of 2^unit without a state.
pub fn round_units<T: Float>(units: i128, unit: i32) -> T {
    let mut digits = [0; 6];
    digits::add(&mut digits, 0, units.unsigned_abs(), units < 0, digits::span(128));
    digits::round(&mut digits, unit)
}

/// The sums of parts in the levels of a window. `None` if a remainder is left.
fn sums<const LEVELS: usize>(
    unit: i32, mut parts: Vec<f64>, guards: Guards,
) -> Option<[i64; LEVELS]> {
    let mut sums = [0; LEVELS];
    for (sum, unit) in sums.iter_mut().zip(units(unit)) {
        let start = 1.5 * power(unit + 52);
        let end = parts.iter_mut().fold(start, deposit);
        *sum = end.to_bits().wrapping_sub(start.to_bits()).cast_signed();
    }
    (!guards.witness || parts.iter().all(|&part| part == 0.0)).then_some(sums)
}

/// Deposits the remainder of a part in a level, and leaves the level's own remainder.
fn deposit(accumulator: f64, part: &mut f64) -> f64 {
    let sum = accumulator + *part;
    *part -= sum - accumulator;
    sum
}

/// 2^exponent, which must be a normal number.
#[must_use]
pub fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}
