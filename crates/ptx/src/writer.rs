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
    /// The type that `T` and `B` stand for in opcodes.
    Type(Type),
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
            Operand::Type(ty) => unreachable!("{ty:?} is not an operand"),
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

impl From<i32> for Operand {
    fn from(value: i32) -> Operand {
        Operand::Constant(Class::B32, value.cast_unsigned().into())
    }
}

impl From<i64> for Operand {
    fn from(value: i64) -> Operand {
        Operand::Constant(Class::B64, value.cast_unsigned())
    }
}

impl From<usize> for Operand {
    fn from(value: usize) -> Operand {
        Operand::Constant(Class::B64, value as u64)
    }
}

impl From<f32> for Operand {
    fn from(value: f32) -> Operand {
        Operand::Constant(Class::F32, value.to_bits().into())
    }
}

impl From<f64> for Operand {
    fn from(value: f64) -> Operand {
        Operand::Constant(Class::F64, value.to_bits())
    }
}

impl From<Type> for Operand {
    fn from(ty: Type) -> Operand {
        Operand::Type(ty)
    }
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
        let mut last = Operand::from(0);
        for line in lines.split([';', '\n']).map(str::trim).filter(|line| !line.is_empty()) {
            last = self.line(line, operands.len(), &mut scope).unwrap_or(last);
        }
        last
    }

    /// Writes a line, and returns the register that it assigns. The first operands of the scope are those of the caller.
    fn line<'l>(
        &self, line: &'l str, passed: usize, scope: &mut Vec<(&'l str, Operand)>,
    ) -> Option<Operand> {
        let text = &mut *self.text.borrow_mut();
        if let Some(label) = line.strip_suffix(':') {
            self.target(text, label, scope);
            text.push_str(":\n");
            return None;
        }
        if line.starts_with(['.', '{', '}', '/']) {
            text.extend([line, if line.starts_with('.') { ";\n" } else { "\n" }]);
            return None;
        }
        let line = match line.strip_prefix('@').and_then(|line| line.split_once(' ')) {
            Some((guard, line)) => {
                self.count();
                text.push('@');
                self.operands(text, guard, scope);
                text.push(' ');
                line
            }
            None => line,
        };
        let (opcode, operands) = line.split_once(' ').unwrap_or((line, ""));
        let start = text.len();
        for (number, part) in opcode.split('.').enumerate() {
            let passed = scope.iter().find_map(|(_, operand)| match operand {
                Operand::Type(ty) => Some(Class::of(*ty).name()),
                _ => None,
            });
            let bits = passed.unwrap_or_default();
            let part = match part {
                "T" if bits == "b32" => "s32",
                "T" if bits == "b64" => "s64",
                "T" | "B" => bits,
                part => part,
            };
            text.extend([if number == 0 { "" } else { "." }, part]);
        }
        let class = Class::of_result(&text[start..]);
        text.push_str(if operands.is_empty() { "" } else { " " });
        let mut assigned = None;
        if opcode == "bra" {
            self.target(text, operands, scope);
        } else if opcode.starts_with("bar.") || operands.starts_with(['[', '%']) {
            self.operands(text, operands, scope);
        } else if let Some((name, operands)) = operands.split_once(',') {
            self.count();
            let known = scope[..passed].iter().find(|(other, _)| *other == name);
            let result = known.map_or_else(|| self.register(class), |(_, operand)| *operand);
            result.write(text, self.placeholder);
            text.push(',');
            self.operands(text, operands, scope);
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
        if name.starts_with('$') {
            return text.push_str(name);
        }
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
            |byte: char| byte.is_ascii_alphanumeric() || matches!(byte, '_' | '%' | '$' | '.');
        let mut rest = operands;
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|byte| is_of_word(byte) != is_of_word(first)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            match scope.iter().rfind(|(name, _)| *name == word) {
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
        match known.class() {
            Class::B32 => ptx!(self, to, value; "mov.b32 to, value"),
            Class::F32 => ptx!(self, to, value; "mov.f32 to, value"),
            Class::F64 => ptx!(self, to, value; "mov.f64 to, value"),
            _ => ptx!(self, to, value; "mov.b64 to, value"),
        };
    }

    /// The float whose bits a register has.
    pub(crate) fn float_of(&self, bits: Operand) -> Operand {
        if bits.class() == Class::B32 {
            ptx!(self, float = self.register(Class::F32), bits; "mov.b32 float, bits")
        } else {
            ptx!(self, float = self.register(Class::F64), bits; "mov.b64 float, bits")
        }
    }

    /// Loads a parameter, or the low end of it, by a type into a new register of a class: the parameter of an input,
    /// whose letter is `a`, or of those that follow, `p`.
    pub(crate) fn load_parameter(
        &self, ty: &str, class: Class, letter: char, number: usize,
    ) -> Operand {
        let result = self.register(class);
        let text = &mut *self.text.borrow_mut();
        text.extend(["ld.param", ty, " "]);
        result.write(text, self.placeholder);
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
            Operand::Register(Class::B32, _) => "selp.b32 value, other, value, condition",
            Operand::Register(Class::B64, _) => "selp.b64 value, other, value, condition",
            Operand::Register(Class::F32, _) => "selp.f32 value, other, value, condition",
            Operand::Register(Class::F64, _) => "selp.f64 value, other, value, condition",
            Operand::Register(Class::Predicate, _) => {
                "and.pred new, condition, other; not.pred stays, condition
                 and.pred old, stays, value; or.pred value, new, old"
            }
            // A constant is the same in all elements.
            _ => return,
        };
        ptx!(self, value, other, condition; select);
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
