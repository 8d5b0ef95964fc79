//! The order in which a reduction adds, the same on every backend.
//!
//! Terms are added in f64. The input is cut into tiles of [`TILE`] elements, whatever the chunks.
//! Inside a tile, lane `l` of [`LANES`] adds the terms `l`, `l + LANES`, `l + 2 LANES`, … one after
//! the other, from +0; then the lanes are halved, lane `l` taking lane `l + half`, until one is
//! left. The tiles' sums are added as a binary tree over their numbers: 0 with 1, 2 with 3, and so
//! on, level by level, a sum without a partner going up unchanged.
//!
//! The tree over whole chunks of 2^k tiles is the same tree, cut at level k. So the result depends
//! on the data alone: not on chunks, threads, or which processor took which part. Elements that
//! are missing from the last tile add nothing.
//!
//! `kernels/reduce.cu` follows the same order.

/// Elements in a tile.
pub(crate) const TILE: usize = 4096;

/// Running sums in a tile.
pub(crate) const LANES: usize = 128;

/// Adds up the tiles' (or chunks') sums, in place; 0 for none.
pub(crate) fn tree(sums: &mut [f64]) -> f64 {
    let mut count = sums.len();
    while count > 1 {
        for pair in 0..count / 2 {
            sums[pair] = sums[2 * pair] + sums[2 * pair + 1];
        }
        if count % 2 == 1 {
            sums[count / 2] = sums[count - 1];
        }
        count = count.div_ceil(2);
    }
    sums.first().copied().unwrap_or(0.0)
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
            assert_eq!(tree(&mut parts).to_bits(), whole.to_bits(), "cut at {cut}");
        }
    }

    #[test]
    fn tree_of_nothing_is_plus_zero() {
        assert_eq!(tree(&mut []).to_bits(), 0);
    }
}
