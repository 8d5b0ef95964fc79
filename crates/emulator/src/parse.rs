//! Reads a text: functions, declarations, labels, one instruction a line.

use crate::{Access, Action, Elements, Instruction, Kernel, Place, Slot, Space, instructions};
use std::collections::HashMap;
use std::ops::Range;

/// The initial bits of registers, which make a read before a write visible. Memory has the lowest byte.
const RUBBISH: u64 = 0xBAAD_F00D_BAAD_F00D;
pub(crate) const RUBBISH_BYTE: u8 = RUBBISH as u8;

/// A kernel in the making.
#[derive(Default)]
struct Parser<'t> {
    kernel: Kernel,
    /// The functions, by their names.
    functions: HashMap<&'t str, Function>,
    /// The classes of registers of a function or the kernel: the name, the first slot, the number. A brace begins the
    /// classes of an open block.
    classes: Vec<(&'t str, usize, usize)>,
    /// Its registers that have names of their own, and a brace for each block that is open. (A name has one slot.)
    named: Vec<&'t str>,
    /// The slots of registers, constants and parameters, by their spelling.
    slots: HashMap<&'t str, Slot>,
    /// The place of the shared variable that was declared last.
    shared: Range<usize>,
    labels: HashMap<&'t str, usize>,
    /// The jumps, which may precede their labels.
    jumps: Vec<(usize, &'t str)>,
}

/// A function that the kernel calls.
#[derive(Clone)]
struct Function {
    start: usize,
    result: Option<Slot>,
    parameters: Vec<Slot>,
}

/// The head of every text.
const HEAD: [&str; 3] = [".version 8.0", ".target sm_60", ".address_size 64"];
const ENTRY: &str = ".visible .entry ";
const FUNCTION: &str = ".func ";

/// The beginnings of declarations that concern an expression's part of a template, too: parameters, and the tables of
/// functions with their values.
const DECLARATIONS: [&str; 3] = [".param ", ".shared .align 128 .f32 ", ".global .align 128 .f32 "];

/// The marks at the beginning and the end of an expression's part in a reduction's text.
const ELEMENTS: &str = " elements of ";
const END: &str = "// end";

/// The marks of the first part, which finds a result along axes.
const PLACE: &str = "// place ";
const END_PLACE: &str = "// end of place";

/// The name of a slot for a reduction along axes: 0 if results have no elements.
const HAS_ELEMENTS: &str = "has elements";

/// The marks of the copy of tables to shared memory. The emulator has the tables there from the beginning.
const BEGIN_COPY: &str = "// tables";
const END_COPY: &str = "// end of tables";

pub(crate) fn kernel(text: &str) -> Result<Kernel, String> {
    let mut lines = text.lines();
    if HEAD.iter().any(|&expected| lines.next() != Some(expected)) {
        return Err("the text does not begin as one of crates/ptx".into());
    }
    let mut parser = Parser::default();
    parser.kernel.special = ["%tid.x", "%ctaid.x", "%nctaid.x"].map(|name| parser.slot(name, 0));
    // A template's compiled code is skipped.
    let is_template = text.contains(ELEMENTS);
    let (mut is_read, mut start, mut place) = (!is_template, None, None);
    for line in lines {
        if line.starts_with(ENTRY) {
            parser.end_scope()?;
            start = Some(parser.kernel.instructions.len());
            is_read = !is_template;
        } else if let Some(function) = line.strip_prefix(FUNCTION) {
            parser.end_scope()?;
            parser.function(function).ok_or_else(|| format!("no function: {line}"))?;
            is_read = true;
        } else if line == BEGIN_COPY || line == END_COPY {
            is_read = line == END_COPY && !is_template;
        } else if let Some(registers) = line.strip_prefix(PLACE) {
            let slots: Vec<Slot> = parser.registers(registers);
            let &[address, result, step, lane] = &slots[..] else {
                return Err("a place without its registers".into());
            };
            let has_elements = parser.slot(HAS_ELEMENTS, 1);
            place = Some(Place { address, result, step, lane, has_elements });
            is_read = true;
        } else if line == END_PLACE {
            parser.end_scope()?;
            let has_elements = parser.slot(HAS_ELEMENTS, 1);
            let behind = parser.kernel.instructions.len() + 2;
            parser.push(Action::Jump(behind), 0, [has_elements, 0, 0]);
            parser.instruction("ret")?;
            is_read = false;
        } else if let Some((lanes, elements)) = line.split_once(ELEMENTS) {
            let lanes = lanes.trim_start_matches("// ").parse().map_err(|_| "no number")?;
            let found = parser.elements(lanes, elements).ok_or("elements without a name")?;
            parser.kernel.reduction = Some(Elements { place, ..found });
            is_read = true;
        } else if line == END {
            parser.instruction("ret")?;
            break;
        } else if is_read || DECLARATIONS.iter().any(|begin| line.starts_with(begin)) {
            parser.line(line).map_err(|why| format!("{why}: {line}"))?;
        }
    }
    parser.end_scope()?;
    parser.kernel.start = start.ok_or("there is no kernel")?;
    Ok(parser.kernel)
}

impl<'t> Parser<'t> {
    fn slot(&mut self, name: &'t str, value: u64) -> Slot {
        let file = &mut self.kernel.file;
        *self.slots.entry(name).or_insert_with(|| {
            file.push(value);
            file.len() as Slot - 1
        })
    }

    /// The slots of the registers of a template.
    fn registers(&mut self, names: &'t str) -> Vec<Slot> {
        names.split(' ').map(|name| self.slot(name, RUBBISH)).collect()
    }

    /// Ends a function or the kernel, whose registers and labels are its own.
    fn end_scope(&mut self) -> Result<(), String> {
        for (place, label) in self.jumps.drain(..) {
            let &target = self.labels.get(label).ok_or_else(|| format!("no label {label}"))?;
            self.kernel.instructions[place].action = Action::Jump(target);
        }
        self.labels.clear();
        self.classes.clear();
        self.named.clear();
        Ok(())
    }

    /// Begins a function, as in `(.reg .f64 %result) tan_f64(.reg .f64 %x)`. Not every one has a result.
    fn function(&mut self, line: &'t str) -> Option<()> {
        let (name, parameters) = line.strip_suffix(')')?.rsplit_once('(')?;
        let mut register = |text: &'t str| {
            let name = text.strip_prefix(".reg ")?.split_once(' ')?.1;
            Some(self.slot(name, RUBBISH))
        };
        let (result, name) = match name.strip_prefix('(').and_then(|name| name.split_once(") ")) {
            Some((result, name)) => (Some(register(result)?), name),
            None => (None, name),
        };
        let parameters = parameters.split(", ").map(register).collect::<Option<_>>()?;
        let start = self.kernel.instructions.len();
        let known = self.functions.insert(name, Function { start, result, parameters });
        known.is_none().then_some(())
    }

    /// Declares an array, as in `.shared .align 16 .b8 tile_0[4160];`, the local memory, or a parameter that is a
    /// structure, as in `.param .align 4 .b8 p4[24]`.
    fn array(&mut self, line: &'t str) -> Option<()> {
        let mut words = line.splitn(5, ' ');
        let [space, _, align, ty] = [(); 4].map(|()| words.next().unwrap_or_default());
        let (name, rest) = words.next()?.split_once('[')?;
        let (count, rest) = rest.split_once(']')?;
        let count: usize = count.parse().ok()?;
        let bytes = if ty == ".f32" { 4 * count } else { count };
        let kernel = &mut self.kernel;
        match space {
            ".param" => {
                let words = bytes.div_ceil(size_of::<u64>());
                for _ in 0..words {
                    kernel.parameters.push(kernel.file.len() as Slot);
                    kernel.file.push(0);
                }
                kernel.words.push(words);
            }
            ".local" => {
                kernel.local = bytes;
                self.slot(name, 0);
            }
            ".shared" => {
                let start = kernel.shared.len().next_multiple_of(align.parse().ok()?);
                kernel.shared.resize(start + bytes, RUBBISH_BYTE);
                self.shared = start..start + bytes;
                self.slot(name, start as u64);
            }
            _ => {
                let entry = |text: &str| u32::from_str_radix(text.strip_prefix("0f")?, 16).ok();
                let entries = rest.strip_prefix(" = {")?.strip_suffix("};")?.split(", ");
                let entries: Vec<u32> = entries.map(entry).collect::<Option<_>>()?;
                // In rows of four, each row has several copies, one behind the other.
                let copies = self.shared.len() / bytes;
                let row = if copies > 1 { 4 } else { entries.len() };
                let rows = entries.chunks(row).flat_map(|row| row.repeat(copies));
                let table: Vec<u8> = rows.flat_map(u32::to_le_bytes).collect();
                let place = kernel.shared.get_mut(self.shared.clone())?;
                (place.len() == table.len()).then(|| place.copy_from_slice(&table))?;
            }
        }
        Some(())
    }

    /// Reads a call, as in `(%ed1), tan_f64, (%ed0)`.
    fn call(&mut self, text: &'t str) -> Result<(), String> {
        let (to, name) = match text.strip_prefix('(').and_then(|text| text.split_once("), ")) {
            Some((to, rest)) => (Some(self.operand(to)?), rest),
            None => (None, text),
        };
        let (name, arguments) = name.split_once(", (").ok_or("no arguments")?;
        let arguments = arguments.strip_suffix(')').ok_or("no end of the arguments")?.split(", ");
        let Function { start, result, parameters } =
            self.functions.get(name).ok_or("no such function")?.clone();
        let arguments = arguments.map(|text| self.operand(text)).collect::<Result<Vec<_>, _>>()?;
        if arguments.len() != parameters.len() || to.is_some() != result.is_some() {
            return Err("another number of arguments or results".into());
        }
        parameters.into_iter().zip(arguments).for_each(|(to, from)| self.copy(to, from));
        self.push(Action::Call(start), 0, [0; 3]);
        to.into_iter().zip(result).for_each(|(to, from)| self.copy(to, from));
        Ok(())
    }

    fn copy(&mut self, to: Slot, from: Slot) {
        self.push(Action::Compute(|value, _, _| value), to, [from, 0, 0]);
    }

    fn line(&mut self, line: &'t str) -> Result<(), String> {
        if let Some(name) = line.strip_prefix(".param .u64 ") {
            let slot = self.slot(name.trim_end_matches(','), 0);
            self.kernel.parameters.push(slot);
            self.kernel.words.push(1);
            return Ok(());
        }
        if let Some(label) = line.strip_suffix(':') {
            let redefined = self.labels.insert(label, self.kernel.instructions.len()).is_some();
            return if redefined { Err("a second label".into()) } else { Ok(()) };
        }
        if let Some(declaration) = line.strip_prefix(".reg ") {
            return self.declare(declaration);
        }
        match line {
            "{" => {
                self.named.push(line);
                self.classes.push((line, 0, 0));
                Ok(())
            }
            "}" => {
                let begin = self.named.iter().rposition(|&name| name == "{");
                self.named.truncate(begin.unwrap_or(0));
                let begin = self.classes.iter().rposition(|class| class.0 == "{");
                self.classes.truncate(begin.unwrap_or(0));
                Ok(())
            }
            ")" | ".reqntid 256" => Ok(()),
            _ if line.starts_with(".minnctapersm ") => Ok(()),
            _ if line.starts_with('.') => self.array(line).ok_or_else(|| "no array".into()),
            _ => self.instruction(line.strip_suffix(';').ok_or("no semicolon")?),
        }
    }

    /// Reads what is computed, as in `min f32: %q1 %q2 %q3 %q4`: registers of the template.
    fn elements(&mut self, lanes: usize, line: &'t str) -> Option<Elements> {
        let (what, registers) = line.split_once(": ")?;
        let (reduction, ty) = what.split_once(' ')?;
        let mut results = self.registers(registers);
        let (count, index) = (results.pop()?, results.pop()?);
        let (reduction, ty) = (reduction.to_owned(), ty.to_owned());
        Some(Elements { reduction, ty, lanes, results, index, count, place: None })
    }

    /// Declares the registers of a class, as in `.f32 %ef<3>;`, or of a list, as in `.f32 %x, %y;`.
    fn declare(&mut self, declaration: &'t str) -> Result<(), String> {
        let (class, rest) = declaration.split_once('<').unwrap_or((declaration, ""));
        let name = class.split_once(' ').ok_or("no registers")?.1;
        if rest.is_empty() {
            for name in name.trim_end_matches(';').split(", ") {
                if self.named.contains(&name) {
                    return Err("a second register of a name".into());
                }
                self.named.push(name);
                self.slot(name, RUBBISH);
            }
            return Ok(());
        }
        if ![".pred %ep", ".b32 %er", ".b64 %eq", ".f32 %ef", ".f64 %ed"].contains(&class) {
            return Err("unknown registers".into());
        }
        let count: usize =
            rest.trim_end_matches(">;").parse().map_err(|_| "no number of registers")?;
        let first = self.kernel.file.len();
        self.kernel.file.resize(first + count, RUBBISH);
        self.classes.push((name, first, count));
        Ok(())
    }

    /// The slot of an operand.
    fn operand(&mut self, text: &'t str) -> Result<Slot, String> {
        if let Some(&slot) = self.slots.get(text) {
            return Ok(slot);
        }
        if let Some((name, number)) = text.split_at_checked(3).filter(|_| text.starts_with('%')) {
            let class = self.classes.iter().rfind(|class| class.0 == name);
            let number: usize = number.parse().map_err(|_| "no register's number")?;
            let &(_, first, count) = class.ok_or("no such registers")?;
            return if number < count {
                Ok((first + number) as Slot)
            } else {
                Err("a register that is not declared".into())
            };
        }
        let digits = match text.get(..2) {
            Some("0x") => Some(&text[2..]),
            Some("0f") if text.len() == 10 => Some(&text[2..]),
            Some("0d") if text.len() == 18 => Some(&text[2..]),
            _ => None,
        };
        let bits = digits.map_or(text.parse(), |digits| u64::from_str_radix(digits, 16));
        Ok(self.slot(text, bits.map_err(|_| "an operand that is none")?))
    }

    fn instruction(&mut self, line: &'t str) -> Result<(), String> {
        let (guard, line) = match line.strip_prefix('@').and_then(|line| line.split_once(' ')) {
            Some((guard, line)) if line.starts_with("bra ") => (guard, line),
            Some(_) => return Err("a guard of another instruction than a jump".into()),
            None => ("1", line),
        };
        let (name, operands) = line.split_once(' ').unwrap_or((line, ""));
        match name.split('.').next() {
            Some("bra") => {
                let guard = self.operand(guard)?;
                self.jumps.push((self.kernel.instructions.len(), operands));
                self.push(Action::Jump(0), 0, [guard, 0, 0]);
            }
            Some("ret") => self.push(Action::Return, 0, [0; 3]),
            Some("call") => self.call(operands)?,
            Some("ld" | "st") => self.access(name, operands)?,
            _ if line == "bar.sync 0" => {
                self.kernel.has_barriers = true;
                self.push(Action::Barrier, 0, [0; 3]);
            }
            _ if line == "bar.warp.sync 0xFFFFFFFF" || line == "membar.sys" => {}
            _ if name == "atom.shared.add.u32" => {
                let place = operands.strip_suffix(", 1").ok_or("not an addition of 1")?;
                let (to, place) = place.split_once(", ").ok_or("no address")?;
                let (address, offset) = self.place(place)?;
                let to = self.operand(to)?;
                let space = Space::Shared;
                let word = Access { space, bytes: 4, aligned: 4, signed: false, offset };
                self.push(Action::Increment(word), to, [address, 0, 0]);
            }
            _ => {
                let (compute, count) = instructions::find(name).ok_or("unknown instruction")?;
                let mut slots = operands.split(", ").map(|operand| self.operand(operand));
                let to = slots.next().ok_or("no result")??;
                let found: Vec<Slot> = slots.collect::<Result<_, _>>()?;
                if found.len() != count {
                    return Err(format!("{} operands, not {count}", found.len()));
                }
                let mut from = [0; 3];
                from[..count].copy_from_slice(&found);
                self.push(Action::Compute(compute), to, from);
            }
        }
        Ok(())
    }

    fn push(&mut self, action: Action, slot: Slot, from: [Slot; 3]) {
        self.kernel.instructions.push(Instruction { action, slot, from });
    }

    /// Reads a load, as in `{%ef0, %ef1}, [%eq2+8]`, or a store, whose operands are the other way round.
    fn access(&mut self, name: &str, operands: &'t str) -> Result<(), String> {
        const BEGINNINGS: [(&str, Space); 9] = [
            ("ld.param.", Space::Parameter),
            ("ld.global.", Space::Global),
            ("ld.shared.", Space::Shared),
            ("ld.local.", Space::Local),
            ("st.global.", Space::Global),
            ("st.volatile.global.", Space::Global),
            ("st.shared.", Space::Shared),
            ("st.local.", Space::Local),
            ("st.", Space::Global),
        ];
        let found =
            BEGINNINGS.iter().find_map(|(begin, space)| Some((name.strip_prefix(begin)?, *space)));
        let (ty, space) = found.ok_or("unknown access")?;
        let (count, ty) = match ty.split_once('.') {
            None => (1, ty),
            Some(("v2", ty)) => (2, ty),
            Some(("v4", ty)) => (4, ty),
            _ => return Err("unknown access".into()),
        };
        let (bytes, signed) = match ty {
            "u8" => (1, false),
            "s8" => (1, true),
            "u16" => (2, false),
            "s16" => (2, true),
            "u32" | "f32" => (4, false),
            "u64" | "f64" => (8, false),
            _ => return Err("unknown type".into()),
        };
        let is_store = name.starts_with("st");
        let ends = if is_store { operands.split_once("], ") } else { operands.rsplit_once(", [") };
        let (first, last) = ends.ok_or("no address")?;
        let (place, registers) = if is_store { (first, last) } else { (last, first) };
        let (address, start) = self.place(place)?;
        let list = registers.strip_prefix('{').and_then(|list| list.strip_suffix('}'));
        let registers: Vec<&str> = list.unwrap_or(registers).split(", ").collect();
        if registers.len() != count || list.is_some() != (count > 1) {
            return Err("another number of registers".into());
        }
        for (i, register) in registers.into_iter().enumerate() {
            // The first element of a vector is aligned as all of them together are.
            let aligned = match space {
                Space::Parameter => 1,
                _ if i == 0 => (count * bytes) as u64,
                _ => bytes as u64,
            };
            let offset = start + (i * bytes) as u64;
            let access = Access { space, bytes, aligned, signed, offset };
            let action = if is_store { Action::Store(access) } else { Action::Load(access) };
            let register = self.operand(register)?;
            self.push(action, register, [address, 0, 0]);
        }
        Ok(())
    }

    /// The slot and the offset of an address, as in `[%eq2+8]`.
    fn place(&mut self, text: &'t str) -> Result<(Slot, u64), String> {
        let text = text.trim_start_matches('[').trim_end_matches(']');
        let (register, offset) = text.split_once('+').unwrap_or((text, "0"));
        Ok((self.operand(register)?, offset.parse().map_err(|_| "no offset")?))
    }
}
