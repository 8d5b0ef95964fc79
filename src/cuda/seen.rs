//! Where arrays of devices were seen, so that one that was freed since is not taken for the host's.
//!
//! A set of blocks of the address space, which may say yes of others as well, never no of its own.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Devices' memory and the host's do not share blocks of 2 MiB, the driver's large pages.
const BLOCK_SHIFT: u32 = 21;
/// 32 KiB of bits: with 100 GiB of arrays seen, one host address in six is looked at in vain.
const WORDS: usize = 4096;
const BITS: u32 = (WORDS as u64 * u64::BITS as u64).ilog2();

static SEEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// Takes note of an array of a device's.
pub(super) fn note(bytes: Range<usize>) {
    for block in bytes.start >> BLOCK_SHIFT..=(bytes.end - 1) >> BLOCK_SHIFT {
        let (word, bit) = place(block);
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }
}

/// Whether an array of a device's was seen about there.
pub(super) fn is_near(address: usize) -> bool {
    let (word, bit) = place(address >> BLOCK_SHIFT);
    word.load(Ordering::Relaxed) & bit != 0
}

/// A block's bit: by multiplication with the golden ratio (Knuth, The Art of Computer Programming,
/// volume 3, section 6.4).
fn place(block: usize) -> (&'static AtomicU64, u64) {
    let hash = (block as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - BITS);
    (&SEEN[(hash / u64::from(u64::BITS)) as usize], 1 << (hash % u64::from(u64::BITS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_an_array_is_near_and_little_else() {
        let mib = 1 << 20;
        let array = 0x7f12_3450_0010..0x7f12_3450_0010 + 9 * mib;
        note(array.clone());
        assert!(array.clone().step_by(4096).all(is_near));
        assert!(is_near(array.end - 1));
        let elsewhere = (0..1000).map(|block| 0x5500_0000_0000 + block * 2 * mib);
        assert!(elsewhere.filter(|address| is_near(*address)).count() < 10);
    }
}
