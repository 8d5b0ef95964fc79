//! The threads of a grid, and the loops that distribute numbers among them.

use crate::policy::BLOCK_THREADS;
use crate::writer::{Class, Operand, Writer, ptx};

/// The place of the calling thread in the grid.
pub(crate) struct Grid {
    /// The thread's number in its block, of 32 bits.
    in_block: Operand,
    /// The number of threads.
    threads: Operand,
}

impl Grid {
    pub(crate) fn new(w: &Writer<'_>) -> Grid {
        let lines = "mov.u32 blocks, %nctaid.x; mov.u32 in_block, %tid.x
                     mul.wide.u32 threads, blocks, block_threads";
        let in_block = w.register(Class::B32);
        let threads = ptx!(w, in_block, block_threads = BLOCK_THREADS as usize; lines);
        Grid { in_block, threads }
    }

    /// The thread's number. It is computed where it is needed, so that no register holds it meanwhile.
    fn thread(&self, w: &Writer<'_>) -> Operand {
        ptx!(w, in_block = self.in_block, shift = BLOCK_THREADS.ilog2() as usize; "
            mov.u32 block, %ctaid.x
            cvt.u64.u32 block, block
            cvt.u64.u32 thread, in_block
            shl.b64 first, block, shift
            or.b64 thread, first, thread
        ")
    }

    /// Writes a loop that runs `body` once for each number below `limit`. The threads of the grid share the numbers, and
    /// `i` holds a thread's current one.
    pub(crate) fn for_each(&self, w: &Writer<'_>, i: Operand, limit: Operand, body: impl FnOnce()) {
        for_each(w, i, limit, [self.thread(w), self.threads], body);
    }

    /// Writes the same loop over the numbers from `start` to `end` in steps of `items`.
    pub(crate) fn for_each_step(
        &self, w: &Writer<'_>, i: Operand, [start, end]: [Operand; 2], items: usize,
        body: impl FnOnce(),
    ) {
        let shift = items.ilog2() as usize;
        let times_items = |count| ptx!(w, count, shift; "shl.b64 items, count, shift");
        let [offset, step] = [self.thread(w), self.threads].map(times_items);
        let first = ptx!(w, start, offset; "add.s64 first, start, offset");
        for_each(w, i, end, [first, step], body);
    }

    /// Writes the same loop over the numbers from `start` to below `limit`.
    pub(crate) fn for_each_from(
        &self, w: &Writer<'_>, start: Operand, i: Operand, limit: Operand, body: impl FnOnce(),
    ) {
        let first = ptx!(w, start, thread = self.thread(w); "add.s64 first, start, thread");
        for_each(w, i, limit, [first, self.threads], body);
    }

    /// Writes a loop that runs `body` once for each number below `limit`, on all threads of one block. The blocks of the
    /// grid share the numbers.
    pub(crate) fn for_each_of_blocks(
        &self, w: &Writer<'_>, i: Operand, limit: Operand, body: impl FnOnce(),
    ) {
        let block = ptx!(w; "mov.u32 block, %ctaid.x; cvt.u64.u32 block, block");
        let blocks = ptx!(w; "mov.u32 blocks, %nctaid.x; cvt.u64.u32 blocks, blocks");
        for_each(w, i, limit, [block, blocks], body);
    }

    /// The thread's number in its block, of 32 bits.
    pub(crate) const fn in_block(&self) -> Operand {
        self.in_block
    }

    /// Ends the kernel. If the parameter is the address of the completion flags, sets the warp's flag for the host, after
    /// all that the warp has written (kernels/common.cuh).
    pub(crate) fn signal_completion(&self, w: &Writer<'_>, parameter: usize) {
        let end = w.label();
        let flags = w.parameter(&"p", parameter);
        let flags = ptx!(w, flags, in_block = self.in_block, end; "
            setp.eq.s64 are_absent, flags, 0
            @are_absent bra end
            bar.warp.sync 0xFFFFFFFF
            and.b32 lane, in_block, 31
            setp.ne.s32 is_other, lane, 0
            @is_other bra end
            membar.sys
            cvta.to.global.u64 global, flags
        ");
        // A warp's flag is a word: four bytes for 32 threads.
        ptx!(w, thread = self.thread(w), flags, end; "
            shr.u64 offset, thread, 3
            add.s64 place, flags, offset
            mov.b32 one, 1
            st.volatile.global.u32 [place], one
            end:
            ret
        ");
        w.append("}\n");
    }
}

/// Writes a loop with the numbers from the first on in `i`, by steps, that are below `limit`.
fn for_each(
    w: &Writer<'_>, i: Operand, limit: Operand, [first, step]: [Operand; 2], body: impl FnOnce(),
) {
    let [again, end] = [w.label(), w.label()];
    ptx!(
        w, i, first, limit, again, end;
        "mov.b64 i, first; setp.ge.u64 none, i, limit; @none bra end; again:"
    );
    body();
    ptx!(
        w, i, step, limit, again, end;
        "add.s64 i, i, step; setp.lt.u64 more, i, limit; @more bra again; end:"
    );
}
