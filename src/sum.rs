//! The order in which a reduction adds, the same on every backend.
//!
//! Terms are added in f64, or in i64, wrapping, if they are integers. The input is cut into tiles
//! of [`TILE`] elements, whatever the chunks. Inside a tile, lane `l` of [`LANES`] adds the terms
//! `l`, `l + LANES`, `l + 2 LANES`, … one after the other, from +0; then the lanes are halved, lane
//! `l` taking lane `l + half`, until one is left. The tiles' sums are added as a binary tree over
//! their numbers: 0 with 1, 2 with 3, and so on, level by level, a sum without a partner going up
//! unchanged.
//!
//! The tree over whole chunks of 2^k tiles is the same tree, cut at level k. So the result depends
//! on the data alone: not on chunks, threads, or which processor took which part. Elements that
//! are missing from the last tile add nothing.
//!
//! `kernels/reduce.cu` follows the same order.

/// Elements in a tile.
pub(crate) const TILE: usize = 4096;

/// Tiles whose sums a GPU adds up at once; a power of two, so that the tree may be cut there.
pub(crate) const GROUP: usize = 2048;

/// Running sums in a tile.
pub(crate) const LANES: usize = 128;

/// What terms are added up in.
pub trait Sum: Copy + Send + Sync + 'static {
    /// How a sum of this type is read from its bits.
    const KIND: SumKind;
    /// The sum of nothing.
    const ZERO: Self;
    /// This and another one.
    fn plus(self, other: Self) -> Self;
    /// The sum as bits, for places that know no type.
    fn to_bits(self) -> u64;
    /// The sum of these bits.
    fn from_bits(bits: u64) -> Self;
}

/// The types of sums, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumKind {
    /// f64.
    F64,
    /// i64, wrapping.
    I64,
}

impl Sum for f64 {
    const KIND: SumKind = SumKind::F64;
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn to_bits(self) -> u64 {
        f64::to_bits(self)
    }

    fn from_bits(bits: u64) -> Self {
        f64::from_bits(bits)
    }
}

impl Sum for i64 {
    const KIND: SumKind = SumKind::I64;
    const ZERO: Self = 0;

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    fn to_bits(self) -> u64 {
        self.cast_unsigned()
    }

    fn from_bits(bits: u64) -> Self {
        bits.cast_signed()
    }
}

/// Adds up the tiles' (or chunks') sums, in place; zero for none.
pub(crate) fn tree<S: Sum>(sums: &mut [S]) -> S {
    folded(sums, S::plus).unwrap_or(S::ZERO)
}

/// The same for sums of a type that is known as data.
pub(crate) fn tree_of_bits(kind: SumKind, sums: &mut [u64]) -> u64 {
    fn plus<S: Sum>(x: u64, y: u64) -> u64 {
        S::from_bits(x).plus(S::from_bits(y)).to_bits()
    }
    let sum = match kind {
        SumKind::F64 => folded(sums, plus::<f64>),
        SumKind::I64 => folded(sums, plus::<i64>),
    };
    // Both zeros have the bits 0.
    sum.unwrap_or(0)
}

fn folded<T: Copy>(values: &mut [T], plus: impl Fn(T, T) -> T) -> Option<T> {
    let mut count = values.len();
    while count > 1 {
        for pair in 0..count / 2 {
            values[pair] = plus(values[2 * pair], values[2 * pair + 1]);
        }
        if count % 2 == 1 {
            values[count / 2] = values[count - 1];
        }
        count = count.div_ceil(2);
    }
    values.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_is_the_same_however_it_is_cut_at_a_power_of_two() {
        let sums: Vec<f64> = (0..1000).map(|i| 1.0 / f64::from(i * i + 1)).collect();
        let whole = tree(&mut sums.clone());
        for cut in [2, 8, 64, 256, 1024] {
            let mut parts: Vec<f64> =
                sums.chunks(cut).map(|part| tree(&mut part.to_vec())).collect();
            assert_eq!(f64::to_bits(tree(&mut parts)), f64::to_bits(whole), "cut at {cut}");
        }
        let mut bits: Vec<u64> = sums.into_iter().map(f64::to_bits).collect();
        assert_eq!(tree_of_bits(SumKind::F64, &mut bits), f64::to_bits(whole));
    }

    #[test]
    fn tree_of_nothing_is_plus_zero() {
        assert_eq!(f64::to_bits(tree(&mut [])), 0);
        assert_eq!(tree_of_bits(SumKind::F64, &mut []), 0);
        assert_eq!(tree::<i64>(&mut []), 0);
    }
}
