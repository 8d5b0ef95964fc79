//! The vectors of several arrays: where one begins in all of them.

use crate::array::Array;
use crate::writer::{Operand, Writer, ptx};

/// The elements that threads take several at once, as vectors of all arrays.
pub(crate) struct Vectors<'v> {
    pub(crate) arrays: &'v [Array],
    /// The number of elements.
    pub(crate) n: Operand,
    /// The elements that a thread takes at once.
    pub(crate) items: usize,
}

impl Vectors<'_> {
    /// The first element in a vector, if there are vectors.
    pub(crate) fn head(&self, w: &Writer<'_>) -> Operand {
        // The vectors of the smallest elements have the most.
        let reference = self.arrays.iter().min_by_key(|array| array.shift());
        let head = reference.map_or(self.n, |array| array.head(w, self.items));
        ptx!(w, head, n = self.n; "min.u64 first, head, n")
    }

    /// The first element behind all vectors, which begin at `head`: that itself if some array has no vector there.
    pub(crate) fn end(&self, w: &Writer<'_>, head: Operand) -> Operand {
        let past = self.arrays.iter().map(|array| array.past(w, head, self.items));
        let or = |a, b| ptx!(w, a, b; "or.b64 past, a, b");
        let past = past.reduce(or).unwrap_or(self.n);
        ptx!(w, past, n = self.n, head, whole = -(self.items as i64); "
            setp.eq.s64 are_aligned, past, 0
            sub.s64 rest, n, head
            and.b64 in_vectors, rest, whole
            add.s64 end, head, in_vectors
            selp.b64 end, end, head, are_aligned
        ")
    }
}
