//! Sums of terms by their exponents. For many terms of any sizes, they are several times faster than deposits.

use crate::{Float, State, Value, Windowed};

/// The number of bins: 16 KiB, half of the nearest cache.
const BINS: usize = 1024;

/// The number of terms after which bins must be emptied. A term is below 2^(106 + 3), so the sum stays below 2^127.
const MAX_TERMS: usize = 1 << 17;

/// The number of terms that are split at a time, in vectors.
const CHUNK: usize = 64;

const FRACTION: u64 = (1 << 52) - 1;
/// The biased exponent of infinities and NaN.
const INFINITE: u64 = 0x7FF;

/// Sums of terms. Bin i counts units of 2^(BASE + SHARE·i).
pub struct Bins<K> {
    sums: [i128; BINS],
    terms: usize,
    kind: std::marker::PhantomData<K>,
}

impl<K: Windowed> Bins<K> {
    /// Every finite term is an f64.
    const FLOAT: bool = K::TERM_BITS <= f64::PRECISION;

    /// The first bin's exponent: an f64 may have zeros below 2^LOW.
    const BASE: i32 = if K::LOW > f64::LEAST { K::LOW - 52 } else { K::LOW };

    /// The number of exponents that share a bin: 4 for products of f64, else fewer.
    const SHARE: usize = (K::TOP - K::LOW - K::TERM_BITS as i32) as usize / BINS + 1;

    /// Bins without terms.
    pub const EMPTY: Self = Self { sums: [0; BINS], terms: 0, kind: std::marker::PhantomData };

    /// Adds finite terms to the bins, and other terms to the state. [`Bins::empty`] moves the bins' sums to the state.
    pub fn deposit(
        &mut self, state: &mut State<K>, number: usize, term: impl Fn(usize) -> K::Term,
    ) {
        for start in (0..number).step_by(CHUNK) {
            let len = CHUNK.min(number - start);
            if self.terms + len > MAX_TERMS {
                self.empty(state);
            }
            if Self::FLOAT && self.add_floats(len, |i| term(start + i)) {
                continue;
            }
            for i in start..start + len {
                self.add(state, term(i));
            }
        }
    }

    /// Adds at most [`CHUNK`] terms that are f64. If one is not finite, adds none and returns false.
    fn add_floats(&mut self, len: usize, term: impl Fn(usize) -> K::Term) -> bool {
        let mut parts = [0.0; CHUNK];
        for (i, part) in parts[..len].iter_mut().enumerate() {
            *part = K::parts(term(i)).into_iter().next().unwrap_or_default();
        }
        let mut units = [0; CHUNK];
        let mut positions = [0; CHUNK];
        let mut carries = 0;
        // Without branches and comparisons, so that the compiler vectorises the loop.
        for i in 0..CHUNK {
            let bits = f64::to_bits(parts[i]);
            let biased = bits >> 52 & INFINITE;
            let is_normal = (biased + INFINITE) >> 11;
            let sign = bits.cast_signed() >> 63;
            units[i] =
                ((bits & FRACTION | is_normal << 52).cast_signed() ^ sign).wrapping_sub(sign);
            let exponent = (biased - is_normal).wrapping_add_signed(f64::LEAST.into());
            positions[i] = exponent.wrapping_sub(i64::from(Self::BASE).cast_unsigned());
            carries |= biased + 1;
        }
        let all_finite = carries <= INFINITE;
        if all_finite {
            self.terms += len;
            for i in 0..CHUNK {
                let (position, units) = (positions[i] as usize, units[i]);
                self.sums[position / Self::SHARE % BINS] +=
                    i128::from(units << (position % Self::SHARE));
            }
        }
        all_finite
    }

    fn add(&mut self, state: &mut State<K>, term: K::Term) {
        let Value::Finite { negative, magnitude, exponent } = K::value(term) else {
            return state.deposit(term);
        };
        self.terms += 1;
        let position = Self::position(exponent);
        let units = (magnitude << (position % Self::SHARE)).cast_signed();
        let sign = -i128::from(negative);
        self.sums[position / Self::SHARE % BINS] += (units ^ sign) - sign;
    }

    /// The exponent relative to the first bin's. For a zero it may be any number.
    fn position(exponent: i32) -> usize {
        exponent.wrapping_sub(Self::BASE) as usize
    }

    /// Moves the bins' sums to a state.
    #[inline(never)]
    pub fn empty(&mut self, state: &mut State<K>) {
        state.count(self.terms);
        self.terms = 0;
        for (exponent, sum) in (Self::BASE..).step_by(Self::SHARE).zip(&mut self.sums) {
            // Bits below 2^LOW are zeros.
            let below = (K::LOW - exponent).max(0);
            state.add_units(std::mem::take(sum) >> below, exponent + below);
        }
    }
}
