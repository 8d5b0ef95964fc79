//! Elements that the threads of a block compute together at the end.
//!
//! A thread that computed an element for which a fast function is not right by itself would let the others of its warp
//! wait. So a block lists such elements in shared memory, and each of its threads computes one of the list at the end.
//!
//! The list has room for 128 elements; of usual arguments a block has a tenth of that. It begins with their number. From
//! 16 bytes on it has entries of 16 bytes: an element's place, and the argument, since the output may be the input.

use crate::writer::{Class, Label, Operand, Writer};

/// The list in shared memory.
pub(crate) const DECLARATION: &str = ".shared .align 16 .b8 deferred[2064];\n";

/// Registers for the address of the list or of an entry, for numbers, and for an entry.
const REGISTERS: &str = "\
.reg .pred %is;
.reg .b32 %list, %number, %thread;
.reg .b64 %place;
.reg .f32 %argument;
";

/// Empties the list, before any thread of the block goes on.
const EMPTY: &str = "\
mov.b32 %list, deferred;
mov.b32 %number, 0x0;
mov.u32 %thread, %tid.x;
setp.ne.s32 %is, %thread, 0x0;
@%is bra $empty;
st.shared.u32 [%list], %number;
$empty:
bar.sync 0;
";

/// Finds the number of a new entry, and sets the predicate if the list is full.
const NEW: &str = "\
mov.b32 %list, deferred;
atom.shared.add.u32 %number, [%list], 1;
setp.ge.s32 %is, %number, 0x80;
";

/// Stores a new entry.
const STORE: &str = "\
shl.b32 %number, %number, 0x4;
add.s32 %list, %list, %number;
st.shared.u64 [%list+16], %place;
st.shared.f32 [%list+24], %argument;
";

/// Waits for the block, and loads the thread's entry if there is one.
const LOAD: &str = "\
bar.sync 0;
mov.b32 %list, deferred;
ld.shared.u32 %number, [%list];
min.s32 %number, %number, 0x80;
mov.u32 %thread, %tid.x;
setp.ge.s32 %is, %thread, %number;
@%is bra $listed;
shl.b32 %thread, %thread, 0x4;
add.s32 %list, %list, %thread;
ld.shared.u64 %place, [%list+16];
ld.shared.f32 %argument, [%list+24];
";

/// Begins a kernel with an empty list.
pub(crate) fn begin(writer: &Writer) {
    writer.append(REGISTERS);
    writer.append(EMPTY);
}

/// Adds an element to the list, or goes to `full`.
pub(crate) fn add(writer: &Writer, place: Operand, argument: Operand, full: Label) {
    writer.set("mov.b64", Operand::Named(&"%place"), &[place]);
    writer.set("mov.f32", Operand::Named(&"%argument"), &[argument]);
    writer.append(NEW);
    writer.jump_if(Operand::Named(&"%is"), full);
    writer.append(STORE);
}

/// Computes what is in the list: a thread's entry, from the place and the argument.
pub(crate) fn finish(writer: &Writer, compute: impl FnOnce(Operand, Operand)) {
    writer.append(LOAD);
    let argument = writer.emit("mov.f32", Class::F32, &[Operand::Named(&"%argument")]);
    compute(Operand::Named(&"%place"), argument);
    writer.append("$listed:\n");
}
