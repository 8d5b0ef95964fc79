//! The device-range filter: remembers where arrays of devices were, so that one that was freed since is
//! not taken for the host's.
//!
//! A set of blocks of the address space, which may contain others as well, and lacks none of its own.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Devices' memory and the host's do not share blocks of 2 MiB, the driver's large pages.
const BLOCK_SHIFT: u32 = 21;
/// 32 KiB of bits: with 100 GiB of arrays seen, one host address in six is looked at in vain.
const WORDS: usize = 4096;
const BITS: u32 = (WORDS as u64 * u64::BITS as u64).ilog2();

static SEEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// Pages in which memory of the host's was found since: programs get addresses for it that a
/// device's had before.
static HOSTS: [AtomicUsize; HOST_PAGES] = [const { AtomicUsize::new(0) }; HOST_PAGES];
static ANY_HOSTS: AtomicBool = AtomicBool::new(false);
const HOST_PAGES: usize = 256;
const PAGE_SHIFT: u32 = 12;

/// Takes note of an array of a device's.
pub(super) fn note(bytes: RangeInclusive<usize>) {
    for block in numbers(&bytes, BLOCK_SHIFT) {
        let (word, bit) = place(block);
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }
    if ANY_HOSTS.load(Ordering::Relaxed) {
        forget_hosts(numbers(&bytes, PAGE_SHIFT));
    }
}

fn forget_hosts(pages: RangeInclusive<usize>) {
    if pages.end() - pages.start() < HOST_PAGES {
        for page in pages {
            let found = host_place(page);
            if found.load(Ordering::Relaxed) == page {
                found.store(0, Ordering::Relaxed);
            }
        }
    } else {
        ANY_HOSTS.store(false, Ordering::Relaxed);
        HOSTS.iter().for_each(|page| page.store(0, Ordering::Relaxed));
    }
}

/// Takes note of a byte of the host's, if it is where an array of a device's was.
pub(super) fn note_host(address: usize) {
    if is_near(address) {
        let page = address >> PAGE_SHIFT;
        host_place(page).store(page, Ordering::Relaxed);
        ANY_HOSTS.store(true, Ordering::Relaxed);
    }
}

/// Whether an array of a device's was seen about there, and no byte of the host's in the page since.
pub(super) fn is_near(address: usize) -> bool {
    let (word, bit) = place(address >> BLOCK_SHIFT);
    let page = address >> PAGE_SHIFT;
    word.load(Ordering::Relaxed) & bit != 0 && host_place(page).load(Ordering::Relaxed) != page
}

/// The numbers of the blocks, or pages, that these bytes are in.
fn numbers(bytes: &RangeInclusive<usize>, shift: u32) -> RangeInclusive<usize> {
    bytes.start() >> shift..=bytes.end() >> shift
}

/// A block's bit.
fn place(block: usize) -> (&'static AtomicU64, u64) {
    let hash = hash(block, BITS);
    (&SEEN[hash / u64::BITS as usize], 1 << (hash % u64::BITS as usize))
}

fn host_place(page: usize) -> &'static AtomicUsize {
    &HOSTS[hash(page, HOST_PAGES.ilog2())]
}

/// By multiplication with the golden ratio (Knuth, The Art of Computer Programming, volume 3, section
/// 6.4).
fn hash(number: usize, bits: u32) -> usize {
    ((number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - bits)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_an_array_is_near_and_little_else() {
        let mib = 1 << 20;
        let (first, last) = (0x7f12_3450_0010, 0x7f12_3450_000f + 9 * mib);
        note(first..=last);
        assert!((first..=last).step_by(4096).all(is_near));
        assert!(is_near(last));
        let elsewhere = (0..1000).map(|block| 0x5500_0000_0000 + block * 2 * mib);
        assert!(elsewhere.filter(|address| is_near(*address)).count() < 10);
    }

    #[test]
    fn a_page_that_is_the_hosts_since_is_not_near_until_it_is_a_devices_again() {
        let (page, other) = (0x7f77_0000_1000, 0x7f77_0000_2000);
        for last in [page + 1000, page + 100 * 4096, page + 1000 * 4096] {
            note(page..=last);
            assert!(is_near(page) && is_near(other));
            note_host(page);
            assert!(!is_near(page) && is_near(other));
        }
    }
}
