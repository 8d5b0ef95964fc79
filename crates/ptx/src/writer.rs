//! Writes instructions, and counts the registers that they use.

use crate::hooks::ENTRY;
use gpuvec_expr::Type;
use std::cell::{Cell, RefCell};

/// The prefix of the registers' names: the frames of reductions use others.
const PREFIX: &str = "%e";

/// The classes of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Predicate,
    B32,
    B64,
    F32,
    F64,
}

impl Class {
    const ALL: [Class; 5] = [Class::Predicate, Class::B32, Class::B64, Class::F32, Class::F64];

    /// The class of values of a type.
    pub(crate) const fn of(ty: Type) -> Class {
        match ty {
            Type::Bool => Class::Predicate,
            Type::I32 => Class::B32,
            Type::I64 | Type::U64 => Class::B64,
            Type::F32 => Class::F32,
            Type::F64 => Class::F64,
        }
    }

    /// The letter of the class's registers.
    const fn letter(self) -> char {
        match self {
            Class::Predicate => 'p',
            Class::B32 => 'r',
            Class::B64 => 'q',
            Class::F32 => 'f',
            Class::F64 => 'd',
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Class::Predicate => ".pred",
            Class::B32 => ".b32",
            Class::B64 => ".b64",
            Class::F32 => ".f32",
            Class::F64 => ".f64",
        }
    }

    /// The instruction that copies a value. (There is none for predicates.)
    pub(crate) const fn copy(self) -> &'static str {
        match self {
            Class::Predicate => "",
            Class::B32 => "mov.b32",
            Class::B64 => "mov.b64",
            Class::F32 => "mov.f32",
            Class::F64 => "mov.f64",
        }
    }
}

/// An operand of an instruction. (Of 16 bytes, for a smaller library.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Register(Class, u32),
    /// The bits of a constant, in the low end.
    Constant(Class, u64),
    /// A variable that is named in the text.
    Named(&'static &'static str),
    /// A variable whose name ends with a number.
    Numbered(&'static &'static str, u32),
}

const _: () = assert!(size_of::<Operand>() == 16);

impl Operand {
    /// A constant of 32 bits.
    pub(crate) const fn b32(value: i32) -> Operand {
        Operand::Constant(Class::B32, value.cast_unsigned() as u64)
    }

    /// A constant of 64 bits.
    pub(crate) const fn b64(value: i64) -> Operand {
        Operand::Constant(Class::B64, value.cast_unsigned())
    }

    pub(crate) const fn f32(value: f32) -> Operand {
        Operand::Constant(Class::F32, value.to_bits() as u64)
    }

    pub(crate) const fn f64(value: f64) -> Operand {
        Operand::Constant(Class::F64, value.to_bits())
    }

    pub(crate) fn write(self, text: &mut String) {
        match self {
            Operand::Numbered(name, number) => {
                text.push_str(name);
                decimal(text, number);
            }
            Operand::Register(class, number) => {
                text.push_str(PREFIX);
                text.push(class.letter());
                decimal(text, number);
            }
            Operand::Named(name) => text.push_str(name),
            Operand::Constant(Class::Predicate, bits) => {
                text.push(if bits == 0 { '0' } else { '1' })
            }
            Operand::Constant(Class::B32 | Class::B64, bits) => {
                hexadecimal(text, "0x", bits, 16 - (bits | 1).leading_zeros() / 4);
            }
            Operand::Constant(Class::F32, bits) => hexadecimal(text, "0f", bits, 8),
            Operand::Constant(Class::F64, bits) => hexadecimal(text, "0d", bits, 16),
        }
    }
}

/// Writes a number. (`fmt` would take most of the time that a text takes.)
fn decimal(text: &mut String, number: u32) {
    if number >= 10 {
        decimal(text, number / 10);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}

fn hexadecimal(text: &mut String, prefix: &str, bits: u64, digits: u32) {
    text.push_str(prefix);
    for digit in (0..digits).rev() {
        text.push(char::from(b"0123456789ABCDEF"[(bits >> (4 * digit) & 15) as usize]));
    }
}

/// A label, for jumps.
#[derive(Clone, Copy)]
pub(crate) struct Label(u32);

/// A text in the making.
#[derive(Default)]
pub(crate) struct Writer {
    text: RefCell<String>,
    registers: [Cell<u32>; 5],
    labels: Cell<u32>,
    instructions: Cell<usize>,
}

impl Writer {
    pub(crate) fn new() -> Writer {
        Writer { text: RefCell::new(String::with_capacity(16 << 10)), ..Writer::default() }
    }

    /// The number of instructions so far, without those that are rarely run.
    pub(crate) fn instructions(&self) -> usize {
        self.instructions.get()
    }

    /// Counts the instructions since there were `before` as rarely run.
    pub(crate) fn are_rare_since(&self, before: usize) {
        self.instructions.set(before);
    }

    /// Writes a part, and returns it instead of adding it to the text.
    pub(crate) fn aside(&self, write: impl FnOnce()) -> String {
        let before = self.text.replace(String::with_capacity(4096));
        write();
        self.text.replace(before)
    }

    /// Adds a part that was written aside.
    pub(crate) fn append(&self, part: &str) {
        self.text.borrow_mut().push_str(part);
    }

    pub(crate) fn register(&self, class: Class) -> Operand {
        let count = &self.registers[class as usize];
        count.set(count.get() + 1);
        Operand::Register(class, count.get() - 1)
    }

    /// Writes an instruction with a result in a new register.
    pub(crate) fn emit(&self, name: &str, class: Class, operands: &[Operand]) -> Operand {
        let result = self.register(class);
        self.set(name, result, operands);
        result
    }

    /// Writes an instruction with its result in a given register.
    pub(crate) fn set(&self, name: &str, result: Operand, operands: &[Operand]) {
        self.instructions.set(self.instructions.get() + 1);
        let text = &mut *self.text.borrow_mut();
        text.push_str(name);
        text.push(' ');
        result.write(text);
        for operand in operands {
            text.push_str(", ");
            operand.write(text);
        }
        text.push_str(";\n");
    }

    /// Writes a call of a device function, with its result in a given register if it has one.
    pub(crate) fn call(&self, name: &str, result: Option<Operand>, operands: &[Operand]) {
        self.instructions.set(self.instructions.get() + 1);
        let text = &mut *self.text.borrow_mut();
        text.push_str("call ");
        if let Some(result) = result {
            text.push('(');
            result.write(text);
            text.push_str("), ");
        }
        text.push_str(name);
        for (i, operand) in operands.iter().enumerate() {
            text.push_str(if i == 0 { ", (" } else { ", " });
            operand.write(text);
        }
        text.push_str(");\n");
    }

    /// Moves a value to or from a register that another text names.
    pub(crate) fn move_to(&self, outer: &str, value: Operand) {
        let name = match value {
            Operand::Register(Class::F32, _) | Operand::Constant(Class::F32, _) => "mov.f32 ",
            Operand::Register(Class::F64, _) | Operand::Constant(Class::F64, _) => "mov.f64 ",
            _ => "mov.b64 ",
        };
        let text = &mut *self.text.borrow_mut();
        text.push_str(name);
        text.push_str(outer);
        text.push_str(", ");
        value.write(text);
        text.push_str(";\n");
    }

    /// Moves a value between registers that another text names.
    pub(crate) fn move_between(&self, to: &str, from: &str, class: Class) {
        let name = if class == Class::F32 { "mov.f32 " } else { "mov.f64 " };
        let text = &mut *self.text.borrow_mut();
        [name, to, ", ", from, ";\n"].iter().for_each(|part| text.push_str(part));
    }

    /// The 64 bits of a register that another text names.
    pub(crate) fn move_from(&self, outer: &str) -> Operand {
        let result = self.register(Class::B64);
        let text = &mut *self.text.borrow_mut();
        text.push_str("mov.b64 ");
        result.write(text);
        text.push_str(", ");
        text.push_str(outer);
        text.push_str(";\n");
        result
    }

    /// Writes an instruction without operands.
    pub(crate) fn line(&self, line: &str) {
        let text = &mut *self.text.borrow_mut();
        text.push_str(line);
        text.push_str(";\n");
    }

    /// Loads a parameter, or the low end of it, by a type into a new register: an input's, whose letter is
    /// `a`, or one of those that follow, `p`.
    pub(crate) fn load_parameter(
        &self, ty: &str, class: Class, letter: char, number: usize,
    ) -> Operand {
        let result = self.register(class);
        let text = &mut *self.text.borrow_mut();
        text.push_str("ld.param");
        text.push_str(ty);
        text.push(' ');
        result.write(text);
        text.push_str(", [");
        text.push(letter);
        decimal(text, number as u32);
        text.push_str("];\n");
        result
    }

    /// The value in a register, as vectors need it.
    pub(crate) fn in_register(&self, value: Operand) -> Operand {
        if matches!(value, Operand::Constant(..)) { self.copy(value) } else { value }
    }

    /// The value in a register of its own.
    pub(crate) fn copy(&self, value: Operand) -> Operand {
        let (Operand::Constant(class, _) | Operand::Register(class, _)) = value else {
            return value;
        };
        if class == Class::Predicate { value } else { self.emit(class.copy(), class, &[value]) }
    }

    /// Makes a value that `copy` or `emit` returned equal to another one where a predicate holds.
    pub(crate) fn replace_if(&self, condition: Operand, value: Operand, other: Operand) {
        let name = match value {
            Operand::Register(Class::B32, _) => "selp.b32",
            Operand::Register(Class::B64, _) => "selp.b64",
            Operand::Register(Class::F32, _) => "selp.f32",
            Operand::Register(Class::F64, _) => "selp.f64",
            // There is no such instruction for predicates.
            Operand::Register(Class::Predicate, _) => {
                let new = self.emit("and.pred", Class::Predicate, &[condition, other]);
                let stays = self.emit("not.pred", Class::Predicate, &[condition]);
                let old = self.emit("and.pred", Class::Predicate, &[stays, value]);
                return self.set("or.pred", value, &[new, old]);
            }
            // A constant is the same in all elements.
            _ => return,
        };
        self.set(name, value, &[other, value, condition]);
    }

    pub(crate) fn label(&self) -> Label {
        self.labels.set(self.labels.get() + 1);
        Label(self.labels.get())
    }

    pub(crate) fn place(&self, Label(number): Label) {
        let text = &mut *self.text.borrow_mut();
        text.push_str("$e");
        decimal(text, number);
        text.push_str(":\n");
    }

    /// Writes a jump, which is taken if the predicate is true.
    pub(crate) fn jump_if(&self, predicate: Operand, Label(number): Label) {
        self.instructions.set(self.instructions.get() + 1);
        let text = &mut *self.text.borrow_mut();
        text.push('@');
        predicate.write(text);
        text.push_str(" bra $e");
        decimal(text, number);
        text.push_str(";\n");
    }

    /// Writes a jump.
    pub(crate) fn jump(&self, Label(number): Label) {
        let text = &mut *self.text.borrow_mut();
        text.push_str("bra $e");
        decimal(text, number);
        text.push_str(";\n");
    }

    /// Writes a load or a store of some registers at consecutive places.
    pub(crate) fn access(
        &self, name: &str, ty: &str, registers: &[Operand], address: Operand, offset: u32,
    ) {
        let text = &mut *self.text.borrow_mut();
        let is_store = name.starts_with("st");
        text.push_str(name);
        match registers.len() {
            2 => text.push_str(".v2"),
            4 => text.push_str(".v4"),
            _ => {}
        }
        text.push_str(ty);
        text.push(' ');
        if is_store {
            place(text, address, offset);
            text.push_str(", ");
        }
        list(text, registers);
        if !is_store {
            text.push_str(", ");
            place(text, address, offset);
        }
        text.push_str(";\n");
    }

    /// Adds the text to another one, behind the declarations of its registers.
    pub(crate) fn finish(self, text: &mut String) {
        for class in Class::ALL {
            text.push_str(".reg ");
            text.push_str(class.name());
            text.push(' ');
            text.push_str(PREFIX);
            text.push(class.letter());
            text.push('<');
            decimal(text, self.registers[class as usize].get().max(1));
            text.push_str(">;\n");
        }
        text.push_str(&self.text.into_inner());
    }
}

/// Begins a kernel, with the parameters of its inputs, and of the shape of a reduction along axes, before others.
pub(crate) fn entry(text: &mut String, name: &str, inputs: usize, of_shape: usize) {
    text.extend([ENTRY, name, "(\n"]);
    for (letter, count) in [("a", inputs), ("s", of_shape)] {
        for number in 0..count {
            text.extend([".param .u64 ", letter]);
            decimal(text, number as u32);
            text.push_str(",\n");
        }
    }
}

fn list(text: &mut String, registers: &[Operand]) {
    match registers {
        [register] => register.write(text),
        _ => {
            for (i, register) in registers.iter().enumerate() {
                text.push_str(if i == 0 { "{" } else { ", " });
                register.write(text);
            }
            text.push('}');
        }
    }
}

fn place(text: &mut String, address: Operand, offset: u32) {
    text.push('[');
    address.write(text);
    if offset > 0 {
        text.push('+');
        decimal(text, offset);
    }
    text.push(']');
}
