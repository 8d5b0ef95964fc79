//! Elements that the threads of a block compute together at the end.
//!
//! If a thread computed an element for which a fast function is not right by itself, the other threads of its warp would
//! wait. So a block lists such elements in shared memory, and each of its threads computes one of the list at the end.
//!
//! The list begins with the number of entries, and has room for 128: usual arguments need a tenth of that. The entries
//! begin at byte 16 and have 16 bytes each: an element's index, and the argument, since the output may be the input.

use crate::writer::{Class, Operand, Writer, ptx};

/// The list in shared memory.
pub(crate) const DECLARATION: &str = ".shared .align 16 .b8 deferred[2064];\n";

/// Begins a kernel with an empty list.
pub(crate) fn begin(w: &Writer<'_>) {
    ptx!(w; "
        mov.b32 list, deferred
        mov.b32 number, 0
        mov.u32 thread, %tid.x
        setp.ne.s32 is_other, thread, 0
        @is_other bra empty
        st.shared.u32 [list], number
        empty:
        bar.sync 0
    ");
}

/// Adds an element to the list, or goes to `full`.
pub(crate) fn add(w: &Writer<'_>, index: Operand, argument: Operand, full: Operand) {
    ptx!(w, index, argument, full; "
        mov.b32 list, deferred
        atom.shared.add.u32 number, [list], 1
        setp.ge.s32 is_full, number, 128
        @is_full bra full
        shl.b32 offset, number, 4
        add.s32 entry, list, offset
        st.shared.u64 [entry+16], index
        st.shared.f32 [entry+24], argument
    ");
}

/// Waits for the block, and computes the thread's entry, if there is one, from its index and its argument.
pub(crate) fn finish(w: &Writer<'_>, compute: impl FnOnce(Operand, Operand)) {
    let (index, argument, end) = (w.register(Class::B64), w.register(Class::F32), w.label());
    ptx!(w, index, argument, end; "
        bar.sync 0
        mov.b32 list, deferred
        ld.shared.u32 number, [list]
        min.s32 number, number, 128
        mov.u32 thread, %tid.x
        setp.ge.s32 is_behind, thread, number
        @is_behind bra end
        shl.b32 offset, thread, 4
        add.s32 entry, list, offset
        ld.shared.u64 index, [entry+16]
        ld.shared.f32 argument, [entry+24]
    ");
    compute(index, argument);
    ptx!(w, end; "end:");
}
