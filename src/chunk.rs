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

/// How an array is cut into chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    n: usize,
    chunk: usize,
}

impl Cut {
    /// `n` elements, in chunks of so many.
    pub(crate) fn new(n: usize, chunk: usize) -> Self {
        Cut { n, chunk }
    }

    /// How many chunks there are.
    pub(crate) fn chunks(self) -> usize {
        self.n.div_ceil(self.chunk)
    }

    /// All chunks, in order.
    pub(crate) fn in_turn(self) -> impl Iterator<Item = Chunk> {
        (0..self.chunks()).filter_map(move |index| self.at(index))
    }

    fn at(self, index: usize) -> Option<Chunk> {
        let start = index.checked_mul(self.chunk).filter(|start| *start < self.n)?;
        Some(Chunk { index, start, len: self.chunk.min(self.n - start) })
    }
}

/// The chunks of a call, handed to whoever asks next.
#[derive(Debug)]
pub(crate) struct Queue {
    cut: Cut,
    next: AtomicUsize,
}

impl Queue {
    pub(crate) fn new(cut: Cut) -> Self {
        Queue { cut, next: AtomicUsize::new(0) }
    }

    /// The next chunk that nobody has taken.
    pub(crate) fn take(&self) -> Option<Chunk> {
        self.cut.at(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether there is none left to take.
    pub(crate) fn is_empty(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.cut.chunks()
    }

    /// Hands out no more.
    pub(crate) fn close(&self) {
        self.next.store(self.cut.chunks(), Ordering::Relaxed);
    }
}

/// The chunks of a call, a run of them for each of several cores, and then for whoever is done with
/// its own. In call after call a core finds the same part of the same arrays in its caches.
#[derive(Debug)]
pub(crate) struct Shares {
    cut: Cut,
    count: usize,
    taken: [Taken; MOST_SHARES],
}

/// Where there are more cores, some begin with the same share.
const MOST_SHARES: usize = 64;

/// How many chunks of a share were taken; in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Taken(AtomicUsize);

impl Shares {
    /// At most so many shares, each of one chunk at least.
    pub(crate) fn new(cut: Cut, most: usize) -> Self {
        let count = most.min(cut.chunks()).clamp(1, MOST_SHARES);
        Shares { cut, count, taken: std::array::from_fn(|_| Taken::default()) }
    }

    /// The chunks that a core takes: of the share with its number first, while there are any.
    pub(crate) fn of(&self, core: usize) -> impl Iterator<Item = Chunk> {
        let shares = (core..core + self.count).map(|share| share % self.count);
        shares.flat_map(move |share| std::iter::from_fn(move || self.take(share)))
    }

    fn take(&self, share: usize) -> Option<Chunk> {
        let [begin, end] = [share, share + 1].map(|s| s * self.cut.chunks() / self.count);
        let Taken(taken) = &self.taken[share];
        // A look first: who finds a share empty does not take its cache line from the others.
        let is_left = |taken: usize| (begin + taken < end).then_some(begin + taken);
        is_left(taken.load(Ordering::Relaxed))?;
        self.cut.at(is_left(taken.fetch_add(1, Ordering::Relaxed))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_queue_hands_out_every_element_once(n in 1usize..10_000, chunk in 1usize..500) {
            let cut = Cut::new(n, chunk);
            let queue = Queue::new(cut);
            let in_turn: Vec<Chunk> = cut.in_turn().collect();
            let mut next = 0;
            let mut count = 0;
            while let Some(piece) = queue.take() {
                prop_assert_eq!((piece.index, piece.start), (count, next));
                prop_assert_eq!(in_turn.get(count), Some(&piece));
                next += piece.len;
                count += 1;
            }
            prop_assert_eq!((next, count, in_turn.len()), (n, cut.chunks(), cut.chunks()));
            prop_assert!(queue.take().is_none());
        }

        #[test]
        fn shares_are_handed_out_once_however_many_cores_come(
            n in 1usize..10_000, chunk in 1usize..500, cores in 1usize..100,
            order in prop::collection::vec((0usize..100, 1usize..9), 1..50),
        ) {
            let cut = Cut::new(n, chunk);
            let shares = Shares::new(cut, cores);
            let early = order.iter().flat_map(|(core, most)| shares.of(*core).take(*most));
            let mut seen: Vec<Chunk> = early.collect();
            seen.extend(shares.of(0));
            seen.sort_by_key(|chunk| chunk.index);
            prop_assert_eq!(seen, cut.in_turn().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_core_begins_with_its_own_share() {
        let shares = Shares::new(Cut::new(100, 1), 4);
        for (core, first) in [(2, 50), (0, 0), (3, 75), (1, 25)] {
            assert_eq!(shares.of(core).next().map(|chunk| chunk.start), Some(first));
        }
    }
}
