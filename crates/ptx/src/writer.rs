//! Writes PTX from its text.
//!
//! [`ptx!`] takes lines of PTX in which names stand for operands:
//!
//! ```text
//! let place = ptx!(w, start, distance; "mul.wide.s32 offset, distance, 8; add.s64 place, start, offset");
//! ```
//!
//! A name that is passed before the lines is that operand: an instruction that assigns it changes its register. Any other
//! name that an instruction assigns stands for a new register, of the class that the opcode says, until the end of the
//! lines or its next assignment. The names of variables, of special registers and of registers that begin with `%` are written as
//! they are. In an opcode `T` and `B` stand for the type that is passed, as numbers and as bits: `s32` and `b32`.

use gpuvec_expr::Type;
use std::cell::{Cell, RefCell};

/// The prefix of the registers' names: the templates of reductions use others.
const PREFIX: &str = "%e";

/// Writes lines of PTX, with the operands that they name, and returns the last register that they assign.
macro_rules! ptx {
    (@ $name:ident) => { $crate::writer::Operand::from($name) };
    (@ $name:ident $value:expr) => { $crate::writer::Operand::from($value) };
    ($writer:expr $(, $name:ident $(= $value:expr)?)*; $lines:expr) => {
        $writer.ptx($lines, concat!($(stringify!($name), " "),*), &[$(ptx!(@ $name $($value)?)),*])
    };
}
pub(crate) use ptx;

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

    /// The class of an instruction's result.
    fn of_result(opcode: &str) -> Class {
        let mut types = opcode.rsplit('.');
        let last = types.next().unwrap_or_default();
        let ty = if opcode.starts_with("cvt.") { types.next().unwrap_or_default() } else { last };
        match ty {
            _ if opcode.starts_with("setp.") => Class::Predicate,
            _ if opcode.starts_with("mul.wide.") => Class::B64,
            "pred" => Class::Predicate,
            "f32" => Class::F32,
            "f64" => Class::F64,
            "b64" | "s64" | "u64" => Class::B64,
            _ => Class::B32,
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

    /// The type in the declaration of a register, and in the instructions that copy it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Class::Predicate => "pred",
            Class::B32 => "b32",
            Class::B64 => "b64",
            Class::F32 => "f32",
            Class::F64 => "f64",
        }
    }
}

/// An operand of an instruction. (Of 16 bytes, for a smaller library.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Register(Class, u32),
    /// The bits of a constant, in the low end.
    Constant(Class, u64),
    Label(u32),
    /// A variable that is named in the text.
    Named(&'static &'static str),
    /// A variable whose name ends with a number.
    Numbered(&'static &'static str, u32),
    /// The operand of this number of the placeholder that the text replaces.
    OfPlaceholder(u32),
    /// The class of the type that `T` and `B` stand for in opcodes.
    Class(Class),
}

const _: () = assert!(size_of::<Operand>() == 16);

impl Operand {
    pub(crate) fn write(self, text: &mut String, placeholder: &[&str]) {
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
            Operand::Label(number) => {
                text.push_str("$e");
                decimal(text, number);
            }
            Operand::Named(name) => text.push_str(name),
            Operand::OfPlaceholder(number) => text.push_str(placeholder[number as usize]),
            Operand::Class(class) => unreachable!("{class:?} is not an operand"),
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

    /// The class of a register or a constant.
    pub(crate) const fn class(self) -> Class {
        match self {
            Operand::Register(class, _) | Operand::Constant(class, _) => class,
            _ => Class::B64,
        }
    }
}

macro_rules! constants {
    ($($ty:ty: $class:ident, |$value:ident| $bits:expr;)*) => {
        $(impl From<$ty> for Operand {
            fn from($value: $ty) -> Operand {
                Operand::Constant(Class::$class, $bits)
            }
        })*
    };
}

constants! {
    i32: B32, |value| value.cast_unsigned().into();
    i64: B64, |value| value.cast_unsigned();
    usize: B64, |value| value as u64;
    f32: F32, |value| value.to_bits().into();
    f64: F64, |value| value.to_bits();
}

impl From<Type> for Operand {
    fn from(ty: Type) -> Operand {
        Operand::Class(Class::of(ty))
    }
}

/// Splits a text before the first byte for which a condition holds.
fn split_before(text: &str, is_end: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(is_end).unwrap_or(text.len()))
}

/// Writes a number. (`fmt` would take most of the time that a text takes.)
pub(crate) fn decimal(text: &mut String, number: u32) {
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

/// A text in the making.
#[derive(Default)]
pub(crate) struct Writer<'t> {
    text: RefCell<String>,
    registers: [Cell<u32>; 5],
    labels: Cell<u32>,
    instructions: Cell<usize>,
    /// The operands of the placeholder that the text replaces.
    placeholder: &'t [&'t str],
}

impl<'t> Writer<'t> {
    pub(crate) fn new() -> Self {
        Writer::in_place_of(&[])
    }

    /// Begins a text in place of a placeholder with these operands.
    pub(crate) fn in_place_of(placeholder: &'t [&'t str]) -> Self {
        let text = RefCell::new(String::with_capacity(16 << 10));
        Writer { text, placeholder, ..Writer::default() }
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

    pub(crate) fn label(&self) -> Operand {
        self.labels.set(self.labels.get() + 1);
        Operand::Label(self.labels.get())
    }

    fn count(&self) {
        self.instructions.set(self.instructions.get() + 1);
    }

    /// Writes an instruction whose opcode is from a table, with its result in a new register.
    pub(crate) fn instruction(&self, opcode: &str, operands: &[Operand]) -> Operand {
        let result = self.register(Class::of_result(opcode));
        self.count();
        let text = &mut *self.text.borrow_mut();
        text.extend([opcode, " "]);
        result.write(text, self.placeholder);
        for operand in operands {
            text.push_str(", ");
            operand.write(text, self.placeholder);
        }
        text.push_str(";\n");
        result
    }

    /// Writes lines of PTX: see [`ptx!`]. The operands have the names in `names`, each with a space behind it.
    pub(crate) fn ptx(&self, lines: &str, names: &str, operands: &[Operand]) -> Operand {
        let mut scope: Vec<(&str, Operand)> =
            names.split_terminator(' ').zip(operands.iter().copied()).collect();
        let (mut last, mut rest) = (Operand::from(0), lines);
        while !rest.is_empty() {
            let (line, behind) = split_before(rest, |byte| matches!(byte, b';' | b'\n'));
            last = self.line(line.trim_ascii(), operands.len(), &mut scope).unwrap_or(last);
            rest = behind.get(1..).unwrap_or_default();
        }
        last
    }

    /// Writes a line, and returns the register that it assigns. The scope begins with the caller's operands.
    fn line<'l>(
        &self, line: &'l str, passed: usize, scope: &mut Vec<(&'l str, Operand)>,
    ) -> Option<Operand> {
        if line.is_empty() {
            return None;
        }
        let text = &mut *self.text.borrow_mut();
        if let Some(label) = line.strip_suffix(':') {
            self.target(text, label, scope);
            text.push_str(":\n");
            return None;
        }
        let mut line = line;
        if let Some(guarded) = line.strip_prefix('@') {
            let (guard, instruction) = split_before(guarded, |byte| byte == b' ');
            self.count();
            text.push('@');
            self.operands(text, guard, scope);
            text.push(' ');
            line = &instruction[1..];
        }
        let (opcode, operands) = split_before(line, |byte| byte == b' ');
        let (start, operands) = (text.len(), operands.trim_ascii_start());
        match opcode.rsplit_once('.') {
            Some((stem, letter @ ("T" | "B"))) => {
                let class = scope.iter().find_map(|(_, operand)| match operand {
                    Operand::Class(class) => Some(class.name()),
                    _ => None,
                });
                let ty = match class.unwrap_or_default() {
                    "b32" if letter == "T" => "s32",
                    "b64" if letter == "T" => "s64",
                    class => class,
                };
                text.extend([stem, ".", ty]);
            }
            _ => text.push_str(opcode),
        }
        let class = Class::of_result(&text[start..]);
        text.push_str(if operands.is_empty() { "" } else { " " });
        let (name, others) = split_before(operands, |byte| byte == b',');
        let mut assigned = None;
        if opcode == "bra" {
            self.target(text, operands, scope);
        } else if others.is_empty() || name.starts_with(['[', '%']) {
            self.operands(text, operands, scope);
        } else {
            self.count();
            let known = scope[..passed].iter().find(|(other, _)| *other == name);
            let result = known.map_or_else(|| self.register(class), |(_, operand)| *operand);
            result.write(text, self.placeholder);
            self.operands(text, others, scope);
            if known.is_none() {
                scope.push((name, result));
            }
            assigned = Some(result);
        }
        text.push_str(";\n");
        assigned
    }

    /// Writes a label, which may be new.
    fn target<'l>(&self, text: &mut String, name: &'l str, scope: &mut Vec<(&'l str, Operand)>) {
        let known = scope.iter().find(|(other, _)| *other == name);
        let label = known.map_or_else(|| self.label(), |(_, label)| *label);
        if known.is_none() {
            scope.push((name, label));
        }
        label.write(text, self.placeholder);
    }

    /// Writes operands, with what the names in them stand for.
    fn operands(&self, text: &mut String, operands: &str, scope: &[(&str, Operand)]) {
        let is_of_word =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'%' | b'.');
        let mut rest = operands;
        while let Some(&first) = rest.as_bytes().first() {
            let (word, behind) = split_before(rest, |byte| is_of_word(byte) != is_of_word(first));
            let is_name = first.is_ascii_alphabetic();
            match scope.iter().rfind(|(name, _)| is_name && *name == word) {
                Some((_, operand)) => operand.write(text, self.placeholder),
                None => text.push_str(word),
            }
            rest = behind;
        }
    }

    /// Writes a call of a device function, with its result in a given register if it has one.
    pub(crate) fn call(&self, name: &str, result: Option<Operand>, operands: &[Operand]) {
        self.count();
        let text = &mut *self.text.borrow_mut();
        text.push_str("call ");
        if let Some(result) = result {
            text.push('(');
            result.write(text, self.placeholder);
            text.push_str("), ");
        }
        text.push_str(name);
        text.push_str(", (");
        self.list(text, operands);
        text.push_str(");\n");
    }

    /// Copies a value to a register or a variable.
    pub(crate) fn assign(&self, to: Operand, value: Operand) {
        let known = if matches!(to, Operand::Register(..)) { to } else { value };
        ptx!(self, to, value, class = Operand::Class(known.class()); "mov.B to, value");
    }

    /// The float whose bits a register has.
    pub(crate) fn float_of(&self, bits: Operand) -> Operand {
        let float = if bits.class() == Class::B32 { Class::F32 } else { Class::F64 };
        let (float, class) = (self.register(float), Operand::Class(bits.class()));
        ptx!(self, float, bits, class; "mov.B float, bits")
    }

    /// Loads a parameter of 64 bits. Its name is a letter and a number: `a` for inputs, `p` for what follows them, and `s` for
    /// the shape of a reduction along axes.
    pub(crate) fn parameter(&self, letter: &'static &'static str, number: usize) -> Operand {
        let place = Operand::Numbered(letter, number as u32);
        self.load("ld.param", (".u64", Class::B64), place, 0)
    }

    /// The value in a register, as vectors need it.
    pub(crate) fn in_register(&self, value: Operand) -> Operand {
        if matches!(value, Operand::Constant(..)) { self.copy(value) } else { value }
    }

    /// The value in a register of its own. (No instruction copies predicates.)
    pub(crate) fn copy(&self, value: Operand) -> Operand {
        match value {
            Operand::Constant(Class::Predicate, _) | Operand::Register(Class::Predicate, _) => {
                value
            }
            Operand::Constant(class, _) | Operand::Register(class, _) => {
                let copy = self.register(class);
                self.assign(copy, value);
                copy
            }
            _ => value,
        }
    }

    /// Makes a value in a register of its own equal to another one where a predicate holds.
    pub(crate) fn replace_if(&self, condition: Operand, value: Operand, other: Operand) {
        let select = match value {
            Operand::Register(Class::Predicate, _) => {
                "and.pred new, condition, other; not.pred stays, condition
                 and.pred old, stays, value; or.pred value, new, old"
            }
            Operand::Register(..) => "selp.B value, other, value, condition",
            // A constant is the same in all elements.
            _ => return,
        };
        let class = Operand::Class(value.class());
        ptx!(self, value, other, condition, class; select);
    }

    /// Loads a value of a type to a new register of a class.
    pub(crate) fn load(
        &self, name: &str, (ty, class): (&str, Class), address: Operand, offset: u32,
    ) -> Operand {
        let value = self.register(class);
        self.access(name, ty, &[value], address, offset);
        value
    }

    /// Writes a load or a store of some registers at consecutive places.
    pub(crate) fn access(
        &self, name: &str, ty: &str, registers: &[Operand], address: Operand, offset: u32,
    ) {
        let text = &mut *self.text.borrow_mut();
        let is_store = name.starts_with("st");
        let vector = ["", "", ".v2", "", ".v4"][registers.len()];
        text.extend([name, vector, ty, " "]);
        if is_store {
            self.place(text, address, offset);
            text.push_str(", ");
        }
        text.push_str(if vector.is_empty() { "" } else { "{" });
        self.list(text, registers);
        text.push_str(if vector.is_empty() { "" } else { "}" });
        if !is_store {
            text.push_str(", ");
            self.place(text, address, offset);
        }
        text.push_str(";\n");
    }

    fn list(&self, text: &mut String, operands: &[Operand]) {
        for (i, operand) in operands.iter().enumerate() {
            text.push_str(if i == 0 { "" } else { ", " });
            operand.write(text, self.placeholder);
        }
    }

    fn place(&self, text: &mut String, address: Operand, offset: u32) {
        text.push('[');
        address.write(text, self.placeholder);
        if offset > 0 {
            text.push('+');
            decimal(text, offset);
        }
        text.push(']');
    }

    /// Adds the text to another one, behind the declarations of its registers.
    pub(crate) fn finish(&self, text: &mut String) {
        for class in Class::ALL {
            text.extend([".reg .", class.name(), " ", PREFIX]);
            text.push(class.letter());
            text.push('<');
            decimal(text, self.registers[class as usize].get().max(1));
            text.push_str(">;\n");
        }
        text.push_str(&self.text.borrow());
    }
}
