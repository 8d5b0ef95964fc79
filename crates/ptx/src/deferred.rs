//! Elements that the threads of a block compute together at the end.
//!
//! A thread that computed an element for which a fast function is not right by itself would let the others of its warp
//! wait. So a block lists such elements in shared memory, and each of its threads computes one of the list at the end.

use crate::writer::{Class, Label, Operand, Writer};

/// The most elements of the list: about ten times as many as a block has of usual arguments.
const MOST: i32 = 128;

/// The name of the list in shared memory: the number of its entries, and from `ENTRIES` on the entries, of 16 bytes: the
/// element's place, and from `ARGUMENT` on the argument, an f32, since the output may be the input.
const LIST: &str = "deferred";
const ENTRIES: u32 = 16;
const ARGUMENT: u32 = ENTRIES + 8;

/// The list of a block.
pub(crate) struct Deferred<'w> {
    writer: &'w Writer,
    /// The thread's number in its block.
    thread: Operand,
}

impl<'w> Deferred<'w> {
    /// Empties the list, before any thread of the block goes on.
    pub(crate) fn new(writer: &'w Writer, thread: Operand) -> Self {
        let list = Deferred { writer, thread };
        let (zero, end) = (Operand::b32(0), writer.label());
        let other = writer.emit("setp.ne.s32", Class::Predicate, &[thread, zero]);
        writer.jump_if(other, end);
        writer.access("st.shared", ".u32", &[writer.in_register(zero)], list.start(), 0);
        writer.place(end);
        writer.line("bar.sync 0");
        list
    }

    /// The declaration of the list.
    pub(crate) fn declaration() -> String {
        format!(".shared .align 16 .b8 {LIST}[{}];\n", ENTRIES as i32 + MOST * 16)
    }

    /// Adds an element to the list, or goes to `full`.
    pub(crate) fn add(&self, place: Operand, argument: Operand, full: Label) {
        let number = self.writer.register(Class::B32);
        self.writer.add_shared(number, self.start());
        let most = Operand::b32(MOST);
        self.writer
            .jump_if(self.writer.emit("setp.ge.s32", Class::Predicate, &[number, most]), full);
        let entry = self.entry(number);
        self.writer.access("st.shared", ".u64", &[place], entry, ENTRIES);
        self.writer.access("st.shared", ".f32", &[argument], entry, ARGUMENT);
    }

    /// Waits for the block, and computes what is in the list: a thread's entry, from the place and the argument.
    pub(crate) fn finish(&self, compute: impl FnOnce(Operand, Operand)) {
        let (writer, end) = (self.writer, self.writer.label());
        writer.line("bar.sync 0");
        let [count, place, argument] =
            [Class::B32, Class::B64, Class::F32].map(|c| writer.register(c));
        writer.access("ld.shared", ".u32", &[count], self.start(), 0);
        let listed = writer.emit("min.s32", Class::B32, &[count, Operand::b32(MOST)]);
        writer.jump_if(writer.emit("setp.ge.s32", Class::Predicate, &[self.thread, listed]), end);
        let entry = self.entry(self.thread);
        writer.access("ld.shared", ".u64", &[place], entry, ENTRIES);
        writer.access("ld.shared", ".f32", &[argument], entry, ARGUMENT);
        compute(place, argument);
        writer.place(end);
    }

    fn start(&self) -> Operand {
        self.writer.emit("mov.b32", Class::B32, &[Operand::Named(LIST)])
    }

    /// The address of an entry, less `ENTRIES`.
    fn entry(&self, number: Operand) -> Operand {
        let offset = self.writer.emit("shl.b32", Class::B32, &[number, Operand::b32(4)]);
        self.writer.emit("add.s32", Class::B32, &[self.start(), offset])
    }
}
