//! The kernel's threads.

use crate::BLOCK_THREADS;
use crate::writer::{Class, Operand, Writer};

/// The calling thread's place in the grid.
pub(crate) struct Grid {
    /// The thread's number in its block, of 32 bits.
    in_block: Operand,
    /// The number of threads.
    threads: Operand,
}

impl Grid {
    pub(crate) fn new(writer: &Writer) -> Grid {
        let special = |name| writer.emit("mov.u32", Class::B32, &[Operand::Named(name)]);
        let [blocks, in_block] = [&"%nctaid.x", &"%tid.x"].map(special);
        let block_threads = Operand::b32(BLOCK_THREADS as i32);
        let threads = writer.emit("mul.wide.u32", Class::B64, &[blocks, block_threads]);
        Grid { in_block, threads }
    }

    /// The thread's number, which is computed where it is needed, so that no register holds it meanwhile.
    fn thread(&self, writer: &Writer) -> Operand {
        let block = writer.emit("mov.u32", Class::B32, &[Operand::Named(&"%ctaid.x")]);
        let [block, thread] =
            [block, self.in_block].map(|number| writer.emit("cvt.u64.u32", Class::B64, &[number]));
        let shift = Operand::b32(BLOCK_THREADS.ilog2() as i32);
        let first = writer.emit("shl.b64", Class::B64, &[block, shift]);
        writer.emit("or.b64", Class::B64, &[first, thread])
    }

    /// Writes a loop in which each number below `limit` is that of one thread, in `i`.
    pub(crate) fn for_each(
        &self, writer: &Writer, i: Operand, limit: Operand, body: impl FnOnce(),
    ) {
        for_each(writer, i, limit, [self.thread(writer), self.threads], body);
    }

    /// Writes a loop over packs of `lanes` numbers, from a start to an end, in which each pack is one thread's: its first
    /// number is in `i`.
    pub(crate) fn for_each_pack(
        &self, writer: &Writer, i: Operand, [start, end]: [Operand; 2], lanes: usize,
        body: impl FnOnce(),
    ) {
        let shift = Operand::b32(lanes.ilog2() as i32);
        let packs = |count| writer.emit("shl.b64", Class::B64, &[count, shift]);
        let [offset, step] = [self.thread(writer), self.threads].map(packs);
        let first = writer.emit("add.s64", Class::B64, &[start, offset]);
        for_each(writer, i, end, [first, step], body);
    }

    /// Writes a loop in which each number from `start` on and below `limit` is that of one thread, in `i`.
    pub(crate) fn for_each_from(
        &self, writer: &Writer, start: Operand, i: Operand, limit: Operand, body: impl FnOnce(),
    ) {
        let first = writer.emit("add.s64", Class::B64, &[start, self.thread(writer)]);
        for_each(writer, i, limit, [first, self.threads], body);
    }

    /// Writes a loop in which each number below `limit` is that of one block of threads, in `i`.
    pub(crate) fn for_each_of_blocks(
        &self, writer: &Writer, i: Operand, limit: Operand, body: impl FnOnce(),
    ) {
        let special = |name| {
            let number = writer.emit("mov.u32", Class::B32, &[Operand::Named(name)]);
            writer.emit("cvt.u64.u32", Class::B64, &[number])
        };
        for_each(writer, i, limit, [&"%ctaid.x", &"%nctaid.x"].map(special), body);
    }

    /// The thread's number in its block, of 32 bits.
    pub(crate) const fn in_block(&self) -> Operand {
        self.in_block
    }

    /// Ends the kernel: sets the warp's flag for the host, if the parameter is the flags' address,
    /// after all that the warp has written (kernels/common.cuh).
    pub(crate) fn signal_completion(&self, writer: &Writer, parameter: usize) {
        let end = writer.label();
        let flags = writer.load_parameter(".u64", Class::B64, 'p', parameter);
        let absent = writer.emit("setp.eq.s64", Class::Predicate, &[flags, Operand::b64(0)]);
        writer.jump_if(absent, end);
        writer.line("bar.warp.sync 0xFFFFFFFF");
        let lane = writer.emit("and.b32", Class::B32, &[self.in_block, Operand::b32(31)]);
        let other = writer.emit("setp.ne.s32", Class::Predicate, &[lane, Operand::b32(0)]);
        writer.jump_if(other, end);
        writer.line("membar.sys");
        let flags = writer.emit("cvta.to.global.u64", Class::B64, &[flags]);
        // The words of the warps: four bytes for 32 threads.
        let offset = writer.emit("shr.u64", Class::B64, &[self.thread(writer), Operand::b32(3)]);
        let place = writer.emit("add.s64", Class::B64, &[flags, offset]);
        let one = writer.in_register(Operand::b32(1));
        writer.access("st.volatile.global", ".u32", &[one], place, 0);
        writer.place(end);
        writer.line("ret");
        writer.append("}\n");
    }
}

/// Writes a loop with the numbers from the first on in `i`, by steps, that are below `limit`.
fn for_each(
    writer: &Writer, i: Operand, limit: Operand, [first, step]: [Operand; 2], body: impl FnOnce(),
) {
    let [again, end] = [writer.label(), writer.label()];
    writer.set("mov.b64", i, &[first]);
    let none = writer.emit("setp.ge.u64", Class::Predicate, &[i, limit]);
    writer.jump_if(none, end);
    writer.place(again);
    body();
    writer.set("add.s64", i, &[i, step]);
    let more = writer.emit("setp.lt.u64", Class::Predicate, &[i, limit]);
    writer.jump_if(more, again);
    writer.place(end);
}
