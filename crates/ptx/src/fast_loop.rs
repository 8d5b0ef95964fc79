//! The loop of an elementwise program with fast functions.
//!
//! A thread takes several elements at once. They are vectors of all arrays or, before and behind the vectors, elements
//! apart: their indexes differ by the number of threads of a block. The same code computes both, since it is long. So is
//! the code for the elements for which a fast function is not right.

use crate::array::Array;
use crate::deferred;
use crate::elements::{Elements, Loaded};
use crate::policy::BLOCK_THREADS;
use crate::vectors::Vectors;
use crate::writer::{Class, Operand, Writer, ptx};

/// The distance between elements apart.
const APART: usize = BLOCK_THREADS as usize;

/// A shorter path for the elements of a vector for which a fast function is not right. Without it a thread stores the
/// right elements one by one, and then computes the others once more from memory, so that few registers are in use.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Shortcut {
    /// Defers the elements, if there is room in the list.
    Defer,
    /// If only one element is not right, stores the whole vector before it is computed once more.
    StoreAll,
    /// No shortcut: the text is compiled sooner.
    None,
}

/// Writes the loop: one body with three entry points, for the elements before the vectors, in the vectors and behind them.
/// (Values that are not needed in the body are computed again, so that no register holds them meanwhile.)
pub(crate) fn write(
    elements: &Elements<'_>, w: &Writer<'_>, outputs: &[Array], vectors: &Vectors<'_>,
    shortcut: Shortcut,
) {
    let defers = shortcut == Shortcut::Defer;
    if defers {
        deferred::begin(w);
    }
    let [index, limit, n] = [(); 3].map(|()| w.register(Class::B64));
    let [distance, absent, present, of_block, of_thread] = [(); 5].map(|()| w.register(Class::B32));
    let [compute, next, behind, end] = [(); 4].map(|()| w.label());
    let items = vectors.items;
    let body =
        FastLoop { elements, w, outputs, items, shortcut, index, limit, distance, absent, present };
    ptx!(
        w, n, count = vectors.n, of_block, items_of_block = items * APART, of_thread, items;
        "mov.b64 n, count; mov.b32 of_block, items_of_block; mov.b32 of_thread, items"
    );
    w.assign(limit, vectors.head(w));
    ptx!(w, index, limit, distance, of_block, compute, next; "
        mov.u32 block, %ctaid.x
        mul.wide.u32 index, block, of_block
        mov.u32 in_block, %tid.x
        cvt.u64.u32 wide, in_block
        add.s64 index, index, wide
        mov.b32 distance, 256
        setp.lt.u64 is_there, index, limit
        @is_there bra compute
        bra next
        compute:
    ");
    body.step();
    // The thread's next elements, or else the vectors, or the end.
    let [first, in_block] = [Class::B64, Class::B32].map(|class| w.register(class));
    ptx!(
        w, index, limit, distance, of_block, of_thread, n, first, in_block, compute, next, behind,
        end; "
        mov.u32 blocks, %nctaid.x
        mul.wide.u32 step, blocks, of_block
        add.s64 index, index, step
        setp.lt.u64 is_there, index, limit
        @is_there bra compute
        next:
        setp.eq.s64 is_last, limit, n
        @is_last bra end
        mov.u32 block, %ctaid.x
        mul.wide.u32 first, block, of_block
        add.s64 first, first, limit
        mov.u32 in_block, %tid.x
        setp.eq.s32 are_vectors, distance, 1
        @are_vectors bra behind
        mov.b32 distance, 1
        mul.wide.u32 wide, in_block, of_thread
        add.s64 index, first, wide
    ");
    w.assign(limit, vectors.end(w, limit));
    // The vectors, or else the elements behind them.
    ptx!(w, index, limit, distance, n, first, in_block, compute, next, behind, end; "
        setp.lt.u64 is_there, index, limit
        @is_there bra compute
        bra next
        behind:
        mov.b32 distance, 256
        cvt.u64.u32 wide, in_block
        add.s64 index, first, wide
        mov.b64 limit, n
        setp.lt.u64 is_there, index, limit
        @is_there bra compute
        end:
    ");
    if defers {
        deferred::finish(w, |index, argument| {
            let exact = elements.exact_results(&elements.loaded([vec![argument]].into_iter()));
            body.store_exact(index, exact);
        });
    }
}

/// The work on the elements that a thread takes at once.
struct FastLoop<'p> {
    elements: &'p Elements<'p>,
    w: &'p Writer<'p>,
    outputs: &'p [Array],
    items: usize,
    shortcut: Shortcut,
    /// The index of the first element.
    index: Operand,
    /// The first index that is too large.
    limit: Operand,
    /// The distance from one element to the next: 1 in vectors, else [`APART`].
    distance: Operand,
    /// Words with a bit for each element that does not exist, and for each other bit.
    absent: Operand,
    present: Operand,
}

impl FastLoop<'_> {
    /// Computes and stores the elements. All are computed before the first is stored, since outputs may be inputs.
    fn step(&self) {
        let (elements, w, distance) = (self.elements, self.w, self.distance);
        let (results, rights) = elements.fast_results(self.items, &self.load());
        let wrong = elements.wrong(&rights);
        let [whole, apart, again, compute, end] = [(); 5].map(|()| w.label());
        let none_or_apart = "and.b32 apart_bit, distance, 256; or.b32 bits, wrong, apart_bit
                             setp.eq.s32 is_whole, bits, 0; @is_whole bra whole";
        ptx!(w, distance, wrong, whole; none_or_apart);
        let before = w.instructions();
        let item = w.register(Class::B32);
        let raw: Vec<Operand> = elements.arrays().flat_map(|array| array.registers(w, 1)).collect();
        // Removes the bit of the last element, and returns a predicate: true if others are left.
        let pass_last = || {
            ptx!(
                w, wrong, item;
                "shl.b32 bit, 1, item; xor.b32 wrong, wrong, bit; setp.ne.s32 are_left, wrong, 0"
            )
        };
        match self.shortcut {
            Shortcut::Defer => {
                let defer = w.label();
                ptx!(w, are_apart = self.are_apart(), apart, defer; "@are_apart bra apart; defer:");
                self.load_last(wrong, item, &raw);
                deferred::add(w, self.index_of(item), self.values(&raw)[0].1[0], apart);
                ptx!(w, are_left = pass_last(), defer, whole; "@are_left bra defer; bra whole");
            }
            Shortcut::StoreAll => {
                ptx!(w, wrong, distance, apart; "
                    sub.s32 less, wrong, 1
                    and.b32 others, wrong, less
                    and.b32 apart_bit, distance, 256
                    or.b32 bits, others, apart_bit
                    setp.eq.s32 is_one, bits, 0
                    not.pred are_several, is_one
                    @are_several bra apart
                ");
                self.load_last(wrong, item, &raw);
                self.store(&results);
                ptx!(w, compute; "bra compute");
            }
            Shortcut::None => {}
        }
        ptx!(w, apart; "apart:");
        self.store_right(wrong, &results);
        ptx!(w, wrong, end, again; "setp.eq.s32 none, wrong, 0; @none bra end; again:");
        self.load_last(wrong, item, &raw);
        ptx!(w, compute; "compute:");
        self.store_exact(self.index_of(item), elements.exact_results(&self.values(&raw)));
        ptx!(w, are_left = pass_last(), again, end; "@are_left bra again; bra end");
        w.are_rare_since(before);
        ptx!(w, whole; "whole:");
        self.store(&results);
        ptx!(w, end; "end:");
    }

    fn are_apart(&self) -> Operand {
        ptx!(self.w, distance = self.distance; "setp.ne.s32 are_apart, distance, 1")
    }

    /// Sets the words of absent and present elements: only elements apart may be past the limit.
    fn find_absent(&self) {
        let FastLoop { w, index, limit, distance, absent, present, .. } = *self;
        ptx!(w, index, limit, distance, absent, present; "
            sub.s64 left, limit, index
            min.u64 left, left, 0xFFFF
            cvt.u32.u64 absent, left
            add.s32 absent, absent, 0xFF
            shr.u32 absent, absent, 8
            mov.b32 present, 0xFFFFFFFF
            shl.b32 absent, present, absent
            setp.eq.s32 are_vectors, distance, 1
            selp.b32 absent, 0, absent, are_vectors
            xor.b32 present, present, absent
        ");
    }

    /// Loads the elements: the first one again in place of those that do not exist.
    fn load(&self) -> Loaded {
        let (elements, w) = (self.elements, self.w);
        let raw: Vec<_> = elements.arrays().map(|array| array.registers(w, self.items)).collect();
        let [apart, loaded] = [(); 2].map(|()| w.label());
        let first: Vec<_> = elements.arrays().map(|array| array.place(w, self.index)).collect();
        ptx!(w, are_apart = self.are_apart(), apart; "@are_apart bra apart");
        for (i, array) in elements.arrays().enumerate() {
            array.load_to(w, first[i], &raw[i]);
        }
        ptx!(w, loaded, apart; "bra loaded; apart:");
        self.find_absent();
        let distance = |item: usize| {
            let (is_absent, apart) = (self.has(self.absent, item), APART * item);
            ptx!(w, apart, is_absent; "selp.b32 distance, 0, apart, is_absent")
        };
        let distances: Vec<Operand> = (0..self.items).map(distance).collect();
        for (i, array) in elements.arrays().enumerate() {
            for (&raw, &distance) in raw[i].iter().zip(&distances) {
                array.load_to(w, array.beside(w, first[i], distance), &[raw]);
            }
        }
        ptx!(w, loaded; "loaded:");
        elements.values_of(raw)
    }

    /// Stores the results of a vector.
    fn store(&self, results: &[Vec<Operand>]) {
        self.elements.store(self.outputs, self.index, results);
    }

    /// Stores the right results one by one, since an output may be an input of elements that are not right. Removes the
    /// elements that do not exist from those that are wrong.
    fn store_right(&self, wrong: Operand, results: &[Vec<Operand>]) {
        let w = self.w;
        self.find_absent();
        let first: Vec<_> = self.outputs.iter().map(|output| output.place(w, self.index)).collect();
        let (absent, present) = (self.absent, self.present);
        let are_left_out = ptx!(w, wrong, absent; "or.b32 are_left_out, wrong, absent");
        for (item, values) in results.iter().enumerate() {
            let skip = w.label();
            ptx!(w, is_left_out = self.has(are_left_out, item), skip; "@is_left_out bra skip");
            let distance = self.distance_of(item.into());
            for (i, is_canonical) in self.elements.are_canonical().enumerate() {
                let place = self.outputs[i].beside(w, first[i], distance);
                self.outputs[i].store(w, place, &values[i..=i], is_canonical);
            }
            ptx!(w, skip; "skip:");
        }
        ptx!(w, wrong, present; "and.b32 wrong, wrong, present");
    }

    /// A predicate: true if the bit of an element is set.
    fn has(&self, bits: Operand, item: usize) -> Operand {
        let bit = 1_usize << item;
        ptx!(self.w, bits, mask = bit; "and.b32 bit, bits, mask; setp.ne.s32 has, bit, 0")
    }

    /// The distance of an element from the first one.
    fn distance_of(&self, item: Operand) -> Operand {
        ptx!(self.w, distance = self.distance, item; "mul.lo.s32 from_first, distance, item")
    }

    /// The index of an element.
    fn index_of(&self, item: Operand) -> Operand {
        let lines = "cvt.u64.u32 wide, distance; add.s64 index_of, index, wide";
        ptx!(self.w, distance = self.distance_of(item), index = self.index; lines)
    }

    /// Loads the inputs of the last element that is wrong, and its number.
    fn load_last(&self, wrong: Operand, item: Operand, raw: &[Operand]) {
        let w = self.w;
        ptx!(w, item, wrong; "bfind.u32 item, wrong");
        let index = self.index_of(item);
        for (array, &raw) in self.elements.arrays().zip(raw) {
            array.load_to(w, array.place(w, index), &[raw]);
        }
    }

    /// Stores the results of the element at an index, which were computed without fast functions.
    fn store_exact(&self, index: Operand, exact: Vec<Operand>) {
        for (output, value) in self.outputs.iter().zip(exact) {
            output.store(self.w, output.place(self.w, index), &[value], false);
        }
    }

    fn values(&self, raw: &[Operand]) -> Loaded {
        self.elements.values_of(raw.iter().map(|&raw| vec![raw]).collect())
    }
}
