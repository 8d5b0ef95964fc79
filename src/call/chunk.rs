//! Chunks, which are the units of work, and the three ways to hand them out: in order, from a queue, and from ranges.

use super::checked::Call;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Consecutive elements of a call, or consecutive tiles. Only a [`Partition`] and a [`Queue`] make chunks. A run of a
/// call hands out each chunk once, so that only one thread or stream works on it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    start: usize,
    len: usize,
}

impl Chunk {
    /// The index of the first element.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// The number of elements, at least 1.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// The division of a call's elements into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    n: usize,
    chunk: usize,
}

impl Partition {
    /// Divides a call's elements into chunks of `chunk` elements. The last chunk may be shorter.
    pub(super) fn of(call: &Call<'_>, chunk: usize) -> Self {
        Partition { n: call.n(), chunk }
    }

    /// One element, which stands for all elements of a call that reads no array.
    pub(super) const ONE: Partition = Partition { n: 1, chunk: 1 };

    /// The number of elements.
    pub(crate) fn elements(self) -> usize {
        self.n
    }

    /// The number of chunks.
    pub(crate) fn chunks(self) -> usize {
        // A short call has one chunk, for which a division would take too long.
        if self.n <= self.chunk { usize::from(self.n > 0) } else { self.n.div_ceil(self.chunk) }
    }

    /// All chunks, in order.
    pub(crate) fn in_order(self) -> impl Iterator<Item = Chunk> {
        (0..self.chunks()).filter_map(move |index| self.at(index))
    }

    fn at(self, index: usize) -> Option<Chunk> {
        let start = index.checked_mul(self.chunk).filter(|start| *start < self.n)?;
        Some(Chunk { start, len: self.chunk.min(self.n - start) })
    }
}

/// Hands out elements in order to any worker, in chunks of the length that the worker requests.
#[derive(Debug)]
pub(crate) struct Queue {
    n: usize,
    next: AtomicUsize,
}

impl Queue {
    /// A queue of `n` elements or tiles.
    pub(crate) fn new(n: usize) -> Self {
        Queue { n, next: AtomicUsize::new(0) }
    }

    /// The number of elements, or of tiles.
    pub(crate) fn all(&self) -> usize {
        self.n
    }

    /// Hands out the next `most` elements, or all that are left.
    pub(crate) fn take(&self, most: usize) -> Option<Chunk> {
        let start = self.next.fetch_add(most, Ordering::Relaxed);
        (start < self.n).then(|| Chunk { start, len: most.min(self.n - start) })
    }

    /// The number of elements that no worker has taken.
    pub(crate) fn left(&self) -> usize {
        self.n.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Ends the queue: it hands out no more elements.
    pub(crate) fn close(&self) {
        self.next.store(self.n, Ordering::Relaxed);
    }
}

/// Hands out chunks to workers. Each worker begins with a range of its own, and then takes chunks of the other ranges.
/// If calls repeat, a core finds the same part of the arrays in its caches.
#[derive(Debug)]
pub(crate) struct Ranges {
    partition: Partition,
    count: usize,
    taken: [Taken; MAX_RANGES],
}

/// The most ranges. If there are more workers, some share a range.
const MAX_RANGES: usize = 64;

/// The number of chunks that were taken from a range, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Taken(AtomicUsize);

impl Ranges {
    /// Makes a range for each of `workers`, of one chunk at least.
    pub(crate) fn new(partition: Partition, workers: usize) -> Self {
        let count = workers.min(partition.chunks()).clamp(1, MAX_RANGES);
        Ranges { partition, count, taken: std::array::from_fn(|_| Taken::default()) }
    }

    /// The chunks for a worker: first the chunks of its own range, then the rest of other ranges.
    pub(crate) fn of(&self, worker: usize) -> impl Iterator<Item = Chunk> {
        let ranges = (worker..worker + self.count).map(|range| range % self.count);
        ranges.flat_map(move |range| std::iter::from_fn(move || self.take(range)))
    }

    fn take(&self, range: usize) -> Option<Chunk> {
        let [begin, end] = [range, range + 1].map(|r| r * self.partition.chunks() / self.count);
        let Taken(taken) = &self.taken[range];
        // Reads before it writes, so that the cache line of an empty range stays shared.
        let is_left = |taken: usize| (begin + taken < end).then_some(begin + taken);
        is_left(taken.load(Ordering::Relaxed))?;
        self.partition.at(is_left(taken.fetch_add(1, Ordering::Relaxed))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the end of the chunks if they follow each other without a gap, from 0 on.
    fn end_of(chunks: &[Chunk]) -> Option<usize> {
        let follow =
            |end, chunk: &Chunk| (chunk.start == end && chunk.len > 0).then_some(end + chunk.len);
        chunks.iter().try_fold(0, follow)
    }

    proptest! {
        #[test]
        fn a_partition_has_every_element_once(n in 1usize..10_000, chunk in 1usize..500) {
            let partition = Partition { n, chunk };
            let in_order: Vec<Chunk> = partition.in_order().collect();
            prop_assert_eq!(in_order.len(), partition.chunks());
            prop_assert!(in_order[1..].iter().all(|later| later.start % chunk == 0));
            prop_assert_eq!(end_of(&in_order), Some(n));
        }

        #[test]
        fn a_queue_hands_out_every_element_once_to_takers_of_any_lengths(
            n in 1usize..10_000, lengths in prop::collection::vec(1usize..500, 1..9),
            order in prop::collection::vec(0usize..9, 1..50),
        ) {
            let queue = Queue::new(n);
            let mut taken = Vec::new();
            for taker in order.iter().cycle() {
                let most = lengths[taker % lengths.len()];
                let left = queue.left();
                let Some(chunk) = queue.take(most) else { break };
                prop_assert_eq!((chunk.len, queue.left()), (most.min(left), left - chunk.len));
                taken.push(chunk);
            }
            prop_assert_eq!(end_of(&taken), Some(n));
            prop_assert!(queue.left() == 0 && queue.take(1).is_none());
        }

        #[test]
        fn threads_take_every_element_once(
            n in 1usize..10_000, lengths in prop::collection::vec(1usize..500, 1..5),
        ) {
            let queue = Queue::new(n);
            let take_all = |most| std::iter::from_fn(|| queue.take(most)).collect::<Vec<_>>();
            let mut taken: Vec<Chunk> = std::thread::scope(|scope| {
                let start = |most: &usize| scope.spawn({
                    let most = *most;
                    move || take_all(most)
                });
                let threads: Vec<_> = lengths.iter().map(start).collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            taken.sort_by_key(|chunk| chunk.start);
            prop_assert_eq!(end_of(&taken), Some(n));
        }

        #[test]
        fn a_closed_queue_hands_out_nothing(n in 1usize..10_000, most in 1usize..500) {
            let queue = Queue::new(n);
            queue.take(most);
            queue.close();
            prop_assert!(queue.left() == 0 && queue.take(most).is_none());
        }

        #[test]
        fn ranges_hand_out_every_chunk_once_to_any_workers(
            n in 1usize..10_000, chunk in 1usize..500, workers in 1usize..100,
            order in prop::collection::vec((0usize..100, 1usize..9), 1..50),
        ) {
            let partition = Partition { n, chunk };
            let ranges = Ranges::new(partition, workers);
            let early = order.iter().flat_map(|(worker, most)| ranges.of(*worker).take(*most));
            let mut taken: Vec<Chunk> = early.collect();
            taken.extend(ranges.of(0));
            taken.sort_by_key(|chunk| chunk.start);
            prop_assert_eq!(taken, partition.in_order().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_worker_begins_with_its_own_range() {
        let ranges = Ranges::new(Partition { n: 100, chunk: 1 }, 4);
        for (worker, first) in [(2, 50), (0, 0), (3, 75), (1, 25)] {
            assert_eq!(ranges.of(worker).next().map(|chunk| chunk.start), Some(first));
        }
    }
}
