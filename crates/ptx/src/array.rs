//! Loads and stores of arrays' elements.

use crate::halves;
use crate::operation::canonical;
use crate::writer::{Class, Operand, Writer, ptx};
use gpuvec_expr::Element;

/// Bytes, and elements, that one instruction moves at most.
pub(crate) const VECTOR_BYTES: usize = 16;
const VECTOR_ELEMENTS: usize = 4;

/// An array that is read or written.
#[derive(Clone, Copy)]
pub(crate) struct Array {
    element: Element,
    address: Operand,
}

impl Array {
    /// The array whose address is a parameter.
    pub(crate) fn new(
        w: &Writer<'_>, element: Element, letter: &'static &'static str, number: usize,
    ) -> Array {
        let address = w.parameter(letter, number);
        Array { element, address: ptx!(w, address; "cvta.to.global.u64 global, address") }
    }

    /// The array from an element on.
    pub(crate) fn from(self, w: &Writer<'_>, index: Operand) -> Array {
        Array { address: self.place(w, index), ..self }
    }

    /// The bytes of an element, as a power of two.
    pub(crate) const fn shift(self) -> u32 {
        self.element.bytes().ilog2()
    }

    pub(crate) const fn element_bytes(self) -> usize {
        self.element.bytes()
    }

    /// The address of the first element.
    pub(crate) const fn address(self) -> Operand {
        self.address
    }

    /// The elements of `items` that one instruction moves.
    const fn vector(self, items: usize) -> usize {
        vector(self.element_bytes(), items)
    }

    /// The number of elements before the first one at which a vector may begin.
    pub(crate) fn head(self, w: &Writer<'_>, items: usize) -> Operand {
        let (address, shift) = (self.address, self.shift() as usize);
        let elements = match shift {
            0 => address,
            _ => ptx!(w, address, shift; "shr.u64 elements, address, shift"),
        };
        let most = self.vector(items) - 1;
        ptx!(w, elements, most; "neg.s64 negative, elements; and.b64 head, negative, most")
    }

    /// The bytes by which an element is past the boundary of a vector.
    pub(crate) fn past(self, w: &Writer<'_>, index: Operand, items: usize) -> Operand {
        let most = (self.vector(items) << self.shift()) - 1;
        ptx!(w, place = self.place(w, index), most; "and.b64 past, place, most")
    }

    /// The address of an element.
    pub(crate) fn place(self, w: &Writer<'_>, index: Operand) -> Operand {
        let (address, shift) = (self.address, self.shift() as usize);
        let lines = match shift {
            0 => "add.s64 place, address, index",
            _ => "shl.b64 offset, index, shift; add.s64 place, address, offset",
        };
        ptx!(w, address, index, shift; lines)
    }

    /// The address of the element at a distance, of 32 bits, behind the one at an address.
    pub(crate) fn beside(self, w: &Writer<'_>, place: Operand, distance: Operand) -> Operand {
        let lines = "mul.wide.s32 offset, distance, size; add.s64 beside, place, offset";
        ptx!(w, place, distance, size = self.element_bytes(); lines)
    }

    /// The address of the element at an unsigned distance, of 32 bits, behind the one at an address.
    pub(crate) fn behind(self, w: &Writer<'_>, place: Operand, distance: Operand) -> Operand {
        let lines = "mul.wide.u32 offset, distance, size; add.s64 behind, place, offset";
        ptx!(w, place, distance, size = self.element_bytes(); lines)
    }

    /// Reads `items` elements from an address on. If there are several, a vector begins at the address.
    pub(crate) fn load_from(self, w: &Writer<'_>, place: Operand, items: usize) -> Vec<Operand> {
        let raw = self.registers(w, items);
        self.load_to(w, place, &raw);
        raw.into_iter().map(|raw| self.value(w, raw)).collect()
    }

    /// Registers for elements as they are in memory.
    pub(crate) fn registers(self, w: &Writer<'_>, items: usize) -> Vec<Operand> {
        (0..items).map(|_| w.register(access(self.element).1)).collect()
    }

    /// Reads elements from an address on, as they are in memory. If there are several, a vector begins at the address.
    pub(crate) fn load_to(self, w: &Writer<'_>, place: Operand, raw: &[Operand]) {
        self.transfer(w, "ld.global", place, raw);
    }

    /// Writes an element to shared memory, as it is in memory.
    pub(crate) fn store_shared(self, w: &Writer<'_>, place: Operand, offset: u32, raw: Operand) {
        w.access("st.shared", access(self.element).0, &[raw], place, offset);
    }

    /// Reads an element of shared memory.
    pub(crate) fn load_shared(self, w: &Writer<'_>, place: Operand) -> Operand {
        self.value(w, w.load("ld.shared", access(self.element), place, 0))
    }

    /// Reads elements, `step` from one another, from a distance of 32 bits on.
    pub(crate) fn load_apart(
        self, w: &Writer<'_>, distance: Operand, step: usize, raw: &[Operand],
    ) {
        let place = self.beside(w, self.address, distance);
        for (&raw, offset) in raw.iter().zip((0..).step_by(step << self.shift())) {
            w.access("ld.global", access(self.element).0, &[raw], place, offset);
        }
    }

    /// Writes elements from an address on. If there are several, a vector begins at the address. `is_canonical` promises
    /// that no value is a NaN other than the quiet one.
    pub(crate) fn store(
        self, w: &Writer<'_>, place: Operand, values: &[Operand], is_canonical: bool,
    ) {
        let raw = |&value: &Operand| match is_canonical && !self.element.is_half() {
            true => w.in_register(value),
            false => stored(w, self.element, value),
        };
        self.transfer(w, "st.global", place, &values.iter().map(raw).collect::<Vec<_>>());
    }

    /// The value of what was loaded.
    pub(crate) fn value(self, w: &Writer<'_>, raw: Operand) -> Operand {
        value(w, self.element, raw)
    }

    fn transfer(self, w: &Writer<'_>, name: &str, place: Operand, raw: &[Operand]) {
        let vector = self.vector(raw.len());
        for (part, offset) in raw.chunks(vector).zip((0..).step_by(vector << self.shift())) {
            w.access(name, access(self.element).0, part, place, offset);
        }
    }
}

/// The elements of `items` that one instruction moves, of this many bytes each.
pub(crate) const fn vector(element_bytes: usize, items: usize) -> usize {
    let most = VECTOR_BYTES / element_bytes;
    let most = if most < VECTOR_ELEMENTS { most } else { VECTOR_ELEMENTS };
    if items < most { items } else { most }
}

/// The type by which elements are accessed, and the class of their registers.
pub(crate) const fn access(element: Element) -> (&'static str, Class) {
    match element {
        Element::Bool | Element::U8 => (".u8", Class::B32),
        Element::I8 => (".s8", Class::B32),
        Element::U16 | Element::F16 | Element::Bf16 => (".u16", Class::B32),
        Element::I16 => (".s16", Class::B32),
        Element::U32 => (".u32", Class::B64),
        Element::I32 => (".u32", Class::B32),
        Element::I64 | Element::U64 => (".u64", Class::B64),
        Element::F32 => (".f32", Class::F32),
        Element::F64 => (".f64", Class::F64),
    }
}

/// The value of what was loaded.
pub(crate) fn value(w: &Writer<'_>, element: Element, raw: Operand) -> Operand {
    match element {
        Element::Bool => ptx!(w, raw; "setp.ne.s32 value, raw, 0"),
        Element::F16 => halves::f32_of_f16(w, raw),
        Element::Bf16 => halves::f32_of_bf16(w, raw),
        _ => raw,
    }
}

/// A value as it is stored.
pub(crate) fn stored(w: &Writer<'_>, element: Element, value: Operand) -> Operand {
    match element {
        Element::Bool => ptx!(w, value; "selp.b32 raw, 1, 0, value"),
        Element::F16 => halves::f16_bits(w, value),
        Element::Bf16 => halves::bf16_bits(w, value),
        _ => w.in_register(canonical(w, element.widened(), value)),
    }
}
