//! The memory of arrays, and its expected content.

use gpuvec::abi::classic::pinned_free;
use gpuvec::abi::memory::{gpuvec_copy, gpuvec_device_free, gpuvec_host_unregister};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use std::borrow::Cow;
use std::ops::Range;
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};

/// The kind of memory.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocator {
    Pinned,
    Device,
}

/// Heap memory between AddressSanitizer's guards, then memory from the library.
pub struct Memory {
    regions: Vec<Region>,
    freed: Vec<usize>,
    /// The addresses and lengths of registered arrays.
    registered: Vec<(usize, usize)>,
}

struct Region {
    address: usize,
    expected: Vec<u8>,
    from: From,
    /// Set if calls may have changed it since it was last read.
    is_stale: bool,
}

/// The origin of a region.
enum From {
    /// The heap; owns the memory.
    Heap(#[expect(dead_code, reason = "it is used through its address")] Vec<u64>),
    /// The library; true if the host cannot access the memory.
    Library(Allocator, bool),
}

/// Bytes of a small region, for many calls a second.
const SMALL: usize = 4 * 1024;
/// Bytes of a large region, for which the library uses several cores.
const LARGE: usize = 4 * 140_000;

impl Memory {
    pub fn new(with_large: bool) -> Self {
        let sizes = [SMALL, SMALL, LARGE];
        let regions = sizes[..if with_large { 3 } else { 2 }].iter().map(|bytes| {
            let mut heap = vec![0u64; bytes / 8];
            let address = heap.as_mut_ptr().expose_provenance();
            Region { address, expected: vec![0; *bytes], from: From::Heap(heap), is_stale: true }
        });
        Memory { regions: regions.collect(), freed: Vec::new(), registered: Vec::new() }
    }

    /// Returns the address of an element of a region, both numbers modulo their count.
    pub fn address(&self, region: u8, element: usize) -> usize {
        let region = &self.regions[usize::from(region) % self.regions.len()];
        region.address + 8 * (element % (region.expected.len() / 8 + 1))
    }

    pub fn holds(&self, (address, bytes): (usize, usize)) -> bool {
        bytes == 0 || self.place(address, bytes).is_some()
    }

    /// Returns the bytes of device memory from that address on; None for other memory.
    pub fn on_device(&self, address: usize) -> Option<usize> {
        let region = self.regions.iter().find(|region| region.holds(address, 1))?;
        region.is_on_device().then(|| region.address + region.expected.len() - address)
    }

    /// Returns whether the array is at least partly in ordinary memory: not a GPU's, nor given by the
    /// library, nor registered.
    pub fn is_pageable(&self, (address, bytes): (usize, usize)) -> bool {
        let is_heaps = |region: &Region| matches!(region.from, From::Heap(_));
        let region = self.regions.iter().find(|region| region.holds(address, bytes));
        region.is_some_and(is_heaps) && !self.is_registered(address, bytes)
    }

    /// Returns the expected content.
    pub fn expected(&self, address: usize, bytes: usize) -> &[u8] {
        let (region, range) = self.place(address, bytes).expect("memory that is there");
        &self.regions[region].expected[range]
    }

    /// Sets the expected content.
    pub fn expect(&mut self, address: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            let (region, range) = self.place(address, bytes.len()).expect("memory that is there");
            self.regions[region].expected[range].copy_from_slice(bytes);
            self.regions[region].is_stale = true;
        }
    }

    /// Fills a region with words: `base` with random bits where `mask` is set.
    pub fn fill(&mut self, region: u8, seed: u32, mask: u32, base: u32) {
        let index = usize::from(region) % self.regions.len();
        self.regions[index].fill(seed, mask, base);
    }

    /// Adds memory of the library, of which `bytes` may be used.
    pub fn add(&mut self, address: *mut u8, bytes: usize, by: Allocator, is_on_device: bool) {
        let address = address.expose_provenance();
        assert_eq!(address % if is_on_device { 256 } else { 4096 }, 0);
        assert!(self.regions.iter().all(|other| !other.touches(address, bytes)));
        self.freed.retain(|freed| *freed != address);
        let from = From::Library(by, is_on_device);
        let mut region = Region { address, expected: vec![0; bytes], from, is_stale: true };
        region.fill(1, u32::MAX, 0);
        self.regions.push(region);
    }

    /// Frees the address if it is a live allocation of that function; returns whether it is.
    pub fn forget(&mut self, address: usize, by: Allocator) -> bool {
        let is_it = |region: &Region| {
            region.address == address
                && matches!(region.from, From::Library(given_by, _) if given_by == by)
        };
        let Some(index) = self.regions.iter().position(is_it) else { return false };
        let region = self.regions.remove(index);
        let (gone, kept) =
            self.registered.drain(..).partition(|(address, _)| region.holds(*address, 1));
        self.registered = kept;
        unregister(gone);
        self.freed.push(address);
        true
    }

    /// Returns a freed address, or NULL.
    pub fn freed(&self, which: u8) -> usize {
        let index = usize::from(which) % self.freed.len().max(1);
        self.freed.get(index).copied().unwrap_or(0)
    }

    /// Returns whether the host has all of these bytes, so that they can be registered.
    pub fn is_hosts(&self, address: usize, bytes: usize) -> bool {
        self.place(address, bytes).is_some_and(|(index, _)| !self.regions[index].is_on_device())
    }

    pub fn register(&mut self, address: usize, bytes: usize) {
        self.registered.push((address, bytes));
    }

    /// Ends the last registration of the address; returns whether there was one.
    pub fn unregister(&mut self, address: usize) -> bool {
        let found = self.registered.iter().rposition(|(registered, _)| *registered == address);
        found.map(|index| self.registered.remove(index)).is_some()
    }

    /// Returns a registered address, or NULL.
    pub fn registered(&self, which: u8) -> usize {
        let index = usize::from(which) % self.registered.len().max(1);
        self.registered.get(index).map_or(0, |(address, _)| *address)
    }

    /// Returns whether registered arrays cover these bytes, several of them in turn.
    fn is_registered(&self, address: usize, bytes: usize) -> bool {
        let mut covered = address;
        while covered < address + bytes {
            let here = self.registered.iter().filter(|(start, _)| *start <= covered);
            match here.map(|(start, bytes)| start + bytes).max() {
                Some(end) if end > covered => covered = end,
                _ => return false,
            }
        }
        true
    }

    /// Checks all memory; nothing may be queued. Memory that must be copied for the check is checked
    /// only after a call wrote there, and in the end.
    pub fn check(&mut self, is_last: bool) {
        for region in &mut self.regions {
            if region.is_on_device() && !region.is_stale && !is_last {
                continue;
            }
            region.is_stale = false;
            let (actual, expected) = (region.actual(), &region.expected[..]);
            // A fast comparison of the whole first.
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
    fn is_on_device(&self) -> bool {
        matches!(self.from, From::Library(_, true))
    }

    fn holds(&self, address: usize, bytes: usize) -> bool {
        let start = address.checked_sub(self.address);
        start.is_some_and(|start| bytes <= self.expected.len().saturating_sub(start))
    }

    fn touches(&self, address: usize, bytes: usize) -> bool {
        address < self.address + self.expected.len() && self.address < address + bytes
    }

    fn actual(&self) -> Cow<'_, [u8]> {
        let (address, bytes) = (with_exposed_provenance(self.address), self.expected.len());
        if !self.is_on_device() {
            // SAFETY: the region exists and is filled, and no call is in flight.
            return Cow::Borrowed(unsafe { std::slice::from_raw_parts(address, bytes) });
        }
        let mut actual = vec![0; bytes];
        copy(actual.as_mut_ptr(), address, bytes);
        Cow::Owned(actual)
    }

    fn fill(&mut self, seed: u32, mask: u32, base: u32) {
        let mut state = u64::from(seed) << 1 | 1;
        for word in self.expected.chunks_mut(4) {
            // Knuth's linear congruential generator (MMIX).
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = base ^ ((state >> 32) as u32 & mask);
            word.copy_from_slice(&value.to_ne_bytes()[..word.len()]);
        }
        let bytes = self.expected.len();
        copy(with_exposed_provenance_mut(self.address), self.expected.as_ptr(), bytes);
    }
}

fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: one is an existing region, and the other has its length; no call is in flight.
    assert_eq!(unsafe { gpuvec_copy(to.cast(), from.cast(), bytes, null_mut()) }, 0);
}

fn unregister(registered: Vec<(usize, usize)>) {
    for (address, _) in registered {
        // SAFETY: the model registered it, and nothing is queued.
        let status = unsafe { gpuvec_host_unregister(with_exposed_provenance_mut(address)) };
        assert_eq!(status, 0, "{address:#x}");
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        unregister(std::mem::take(&mut self.registered));
        for region in &self.regions {
            let From::Library(by, _) = region.from else { continue };
            let pointer = with_exposed_provenance_mut(region.address);
            // SAFETY: memory of the library, which is not used any more.
            let status = unsafe {
                match by {
                    Allocator::Pinned => pinned_free(pointer),
                    Allocator::Device => gpuvec_device_free(pointer),
                }
            };
            assert_eq!(status, 0);
        }
    }
}
