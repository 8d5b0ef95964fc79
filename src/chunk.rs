//! The unit of work: a run of elements, and the queue that hands them out.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A run of elements, the unit of work: elements `start` to `start + len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The chunk's number, in the order of the array.
    pub(crate) index: usize,
    /// Its first element.
    pub(crate) start: usize,
    /// Its number of elements; not 0.
    pub(crate) len: usize,
}

/// The chunks of a call, handed to whoever asks next.
#[derive(Debug)]
pub(crate) struct Queue {
    n: usize,
    chunk: usize,
    next: AtomicUsize,
}

impl Queue {
    pub(crate) fn new(n: usize, chunk: usize) -> Self {
        Queue { n, chunk, next: AtomicUsize::new(0) }
    }

    /// How many chunks there are in all.
    pub(crate) fn chunks(&self) -> usize {
        self.n.div_ceil(self.chunk)
    }

    /// The next chunk that nobody has taken.
    pub(crate) fn take(&self) -> Option<Chunk> {
        self.chunk(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// All chunks, for one thread alone.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = Chunk> {
        (0..self.chunks()).filter_map(|index| self.chunk(index))
    }

    fn chunk(&self, index: usize) -> Option<Chunk> {
        let start = index.checked_mul(self.chunk).filter(|start| *start < self.n)?;
        Some(Chunk { index, start, len: self.chunk.min(self.n - start) })
    }

    /// Whether there is none left to take.
    pub(crate) fn is_empty(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.chunks()
    }

    /// Hands out no more.
    pub(crate) fn close(&self) {
        self.next.store(self.chunks(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_queue_hands_out_every_element_once(n in 1usize..10_000, chunk in 1usize..500) {
            let queue = Queue::new(n, chunk);
            let in_turn: Vec<Chunk> = queue.in_turn().collect();
            let mut next = 0;
            let mut count = 0;
            while let Some(piece) = queue.take() {
                prop_assert_eq!((piece.index, piece.start), (count, next));
                prop_assert_eq!(in_turn.get(count), Some(&piece));
                next += piece.len;
                count += 1;
            }
            prop_assert_eq!((next, count, in_turn.len()), (n, queue.chunks(), queue.chunks()));
            prop_assert!(queue.take().is_none());
        }
    }
}
