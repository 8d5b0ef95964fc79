//! The memory that arrays are in, and what it must hold.

use std::ops::Range;

/// Heap memory between AddressSanitizer's guards, then what pinned_alloc gave.
pub struct Memory {
    regions: Vec<Region>,
    freed: Vec<usize>,
}

struct Region {
    address: usize,
    expected: Vec<u8>,
    /// Keeps a heap region; None for pinned_alloc's.
    heap: Option<Vec<u64>>,
}

/// For many calls a second.
const SMALL: usize = 4 * 1024;
/// For the lengths at which the library uses several cores.
const LARGE: usize = 4 * 140_000;

impl Memory {
    pub fn new(with_large: bool) -> Self {
        let sizes = [SMALL, SMALL, LARGE];
        let regions = sizes[..if with_large { 3 } else { 2 }].iter().map(|bytes| {
            let mut heap = vec![0u64; bytes / 8];
            let address = heap.as_mut_ptr().expose_provenance();
            Region { address, expected: vec![0; *bytes], heap: Some(heap) }
        });
        Memory { regions: regions.collect(), freed: Vec::new() }
    }

    /// The address of an element of a region, both taken modulo what there is.
    pub fn address(&self, region: u8, element: usize) -> usize {
        let region = &self.regions[usize::from(region) % self.regions.len()];
        region.address + 4 * (element % (region.expected.len() / 4 + 1))
    }

    pub fn holds(&self, (address, bytes): (usize, usize)) -> bool {
        bytes == 0 || self.place(address, bytes).is_some()
    }

    /// What the memory must hold there.
    pub fn expected(&self, address: usize, bytes: usize) -> &[u8] {
        let (region, range) = self.place(address, bytes).expect("memory that is there");
        &self.regions[region].expected[range]
    }

    /// From now on the memory must hold these bytes there.
    pub fn expect(&mut self, address: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            let (region, range) = self.place(address, bytes.len()).expect("memory that is there");
            self.regions[region].expected[range].copy_from_slice(bytes);
        }
    }

    /// Each word of a region becomes `base`, and random where `mask` is set.
    pub fn fill(&mut self, region: u8, seed: u32, mask: u32, base: u32) {
        let index = usize::from(region) % self.regions.len();
        self.regions[index].fill(seed, mask, base);
    }

    pub fn add_pinned(&mut self, address: *mut u8, bytes: usize) {
        let bytes = bytes.max(1).next_multiple_of(4096);
        let address = address.expose_provenance();
        assert_eq!(address % 4096, 0);
        assert!(self.regions.iter().all(|other| !other.touches(address, bytes)));
        self.freed.retain(|freed| *freed != address);
        let mut region = Region { address, expected: vec![0; bytes], heap: None };
        region.fill(1, u32::MAX, 0);
        self.regions.push(region);
    }

    /// Whether the address is pinned_alloc's and not yet freed; then it is freed now.
    pub fn forget_pinned(&mut self, address: usize) -> bool {
        let is_it = |region: &Region| region.heap.is_none() && region.address == address;
        let found = self.regions.iter().position(is_it);
        if let Some(index) = found {
            self.regions.remove(index);
            self.freed.push(address);
        }
        found.is_some()
    }

    /// An address that was freed, or NULL.
    pub fn freed(&self, which: u8) -> usize {
        let index = usize::from(which) % self.freed.len().max(1);
        self.freed.get(index).copied().unwrap_or(0)
    }

    pub fn check(&self) {
        for region in &self.regions {
            let (actual, expected) = (region.actual(), &region.expected[..]);
            // As a whole first: that is fast.
            if actual != expected {
                let byte = actual.iter().zip(expected).position(|(x, y)| x != y).unwrap_or(0);
                let (found, right) = (actual[byte], expected[byte]);
                panic!("byte {byte} of {:#x} is {found:#x}, not {right:#x}", region.address);
            }
        }
    }

    fn place(&self, address: usize, bytes: usize) -> Option<(usize, Range<usize>)> {
        let index = self.regions.iter().position(|region| region.holds(address, bytes))?;
        let start = address - self.regions[index].address;
        Some((index, start..start + bytes))
    }
}

impl Region {
    fn holds(&self, address: usize, bytes: usize) -> bool {
        let start = address.checked_sub(self.address);
        start.is_some_and(|start| bytes <= self.expected.len().saturating_sub(start))
    }

    fn touches(&self, address: usize, bytes: usize) -> bool {
        address < self.address + self.expected.len() && self.address < address + bytes
    }

    fn actual(&self) -> &[u8] {
        let address = std::ptr::with_exposed_provenance(self.address);
        // SAFETY: the region is there, filled, and no call is under way.
        unsafe { std::slice::from_raw_parts(address, self.expected.len()) }
    }

    fn fill(&mut self, seed: u32, mask: u32, base: u32) {
        let mut state = u64::from(seed) << 1 | 1;
        for word in self.expected.chunks_exact_mut(4) {
            // Knuth's linear congruential generator (MMIX).
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            word.copy_from_slice(&(base ^ ((state >> 32) as u32 & mask)).to_ne_bytes());
        }
        let address = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: the region is there, and no call is under way.
        unsafe { self.expected.as_ptr().copy_to_nonoverlapping(address, self.expected.len()) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for region in self.regions.iter().filter(|region| region.heap.is_none()) {
            let pointer = std::ptr::with_exposed_provenance_mut(region.address);
            // SAFETY: pinned_alloc's, and used by nobody any more.
            assert_eq!(unsafe { gpuvec::abi::memory::pinned_free(pointer) }, 0);
        }
    }
}
