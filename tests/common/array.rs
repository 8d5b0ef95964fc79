//! An array in either kind of host memory, between guards.

use gpuvec::abi::classic::{pinned_alloc, pinned_free};
use std::slice;

/// Elements of 32 bits, with guards in front and behind.
pub(crate) struct Array {
    memory: Memory,
    start: usize,
    n: usize,
}

enum Memory {
    Pageable(Vec<u32>),
    Pinned { address: *mut u32, words: usize },
}

const GUARD: u32 = 0xA5C3_5A3C;
const GUARD_WORDS: usize = 64;

impl Array {
    /// Makes an array that holds `content`, `offset` elements past an address aligned for vectors.
    pub(crate) fn new(content: &[u32], offset: usize, pinned: bool) -> Self {
        let (start, n) = (GUARD_WORDS + offset, content.len());
        let mut memory = Memory::new(start + n + GUARD_WORDS, pinned);
        memory.words_mut().fill(GUARD);
        memory.words_mut()[start..start + n].copy_from_slice(content);
        Array { memory, start, n }
    }

    /// Returns the address of the first element.
    pub(crate) fn pointer(&mut self) -> *mut u32 {
        self.memory.words_mut()[self.start..].as_mut_ptr()
    }

    pub(crate) fn content(&self) -> &[u32] {
        &self.memory.words()[self.start..self.start + self.n]
    }

    pub(crate) fn guards_are_whole(&self) -> bool {
        let words = self.memory.words();
        let (front, rest) = words.split_at(self.start);
        front.iter().chain(&rest[self.n..]).all(|word| *word == GUARD)
    }
}

impl Memory {
    fn new(words: usize, pinned: bool) -> Self {
        if !pinned {
            return Memory::Pageable(vec![0; words]);
        }
        let address: *mut u32 = pinned_alloc(words * size_of::<u32>()).cast();
        assert!(!address.is_null(), "{}", super::last_error());
        // SAFETY: new memory of this many bytes, aligned to a page; it may be uninitialised.
        unsafe { address.write_bytes(0, words) };
        Memory::Pinned { address, words }
    }

    fn words(&self) -> &[u32] {
        match self {
            Memory::Pageable(words) => words,
            // SAFETY: initialised in `new`, and freed only when `self` is dropped.
            Memory::Pinned { address, words } => unsafe { slice::from_raw_parts(*address, *words) },
        }
    }

    fn words_mut(&mut self) -> &mut [u32] {
        match self {
            Memory::Pageable(words) => words,
            Memory::Pinned { address, words } => {
                // SAFETY: as in `words`; `self` is borrowed mutably.
                unsafe { slice::from_raw_parts_mut(*address, *words) }
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Memory::Pinned { address, .. } = self {
            // SAFETY: `new` got the memory from `pinned_alloc`, and it is not used any more.
            let status = unsafe { pinned_free(address.cast()) };
            assert_eq!(status, 0, "{}", super::last_error());
        }
    }
}
