//! Reads a text: functions, declarations, labels, one instruction a line.

use crate::instructions::Compute;
use crate::{Action, Elements, Instruction, Kernel, OWN, Place, Slot, WORD, instructions};
use std::collections::HashMap;

/// The initial bits of registers and of local memory, which make a read before a write visible.
pub(crate) const RUBBISH: u64 = 0xBAAD_F00D_BAAD_F00D;

/// A kernel in the making.
#[derive(Default)]
struct Parser<'t> {
    /// The functions, by their names.
    functions: HashMap<&'t str, Function>,
    /// The classes of registers of a function or the kernel: the name, the first slot, the number. A brace begins the
    /// classes of an open block.
    classes: Vec<(&'t str, usize, usize)>,
    /// Its registers that have names of their own, and a brace for each block that is open. (A name has one slot.)
    named: Vec<&'t str>,
    file: Vec<u64>,
    /// The slots of registers, constants and parameters, by their spelling.
    slots: HashMap<&'t str, Slot>,
    parameters: Vec<Slot>,
    /// The words of each parameter.
    words: Vec<usize>,
    instructions: Vec<Instruction>,
    /// Bytes of a thread's local memory.
    local: usize,
    tables: Vec<u32>,
    /// The words of the tables that were named last.
    table: usize,
    /// Bytes of a block's own shared memory.
    shared: usize,
    has_barriers: bool,
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
const STRUCTURE: &str = ".param .align 4 .b8 ";
const LOCAL: &str = ".local .align 8 .b8 ";
const SHARED: &str = ".shared .align 128 .f32 ";
const OWN_SHARED: &str = ".shared .align 16 .b8 ";
const VALUES: &str = ".global .align 128 .f32 ";

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
    let special = ["%tid.x", "%ctaid.x", "%nctaid.x"].map(|name| parser.slot(name, 0));
    let (mut name, mut reduction, mut start, mut in_function) = (None, None, 0, false);
    let (is_frame, mut is_copy, mut place, mut in_place) =
        (text.contains(ELEMENTS), false, None, false);
    for line in lines {
        if let Some(entry) = line.strip_prefix(ENTRY) {
            parser.end_scope()?;
            (start, in_function) = (parser.instructions.len(), false);
            name = Some(entry.trim_end_matches('(').to_owned());
        } else if let Some(function) = line.strip_prefix(FUNCTION) {
            parser.end_scope()?;
            in_function = true;
            parser.function(function).ok_or_else(|| format!("no function: {line}"))?;
        } else if let Some(table) = line.strip_prefix(SHARED) {
            parser.declare_shared(table).ok_or_else(|| format!("no table: {line}"))?;
        } else if let Some(values) = line.strip_prefix(VALUES) {
            parser.declare_values(values).ok_or_else(|| format!("no values: {line}"))?;
        } else if line == BEGIN_COPY {
            is_copy = true;
        } else if is_copy {
            is_copy = line != END_COPY;
        } else if let Some(registers) = line.strip_prefix(PLACE) {
            let slots: Vec<Slot> =
                registers.split(' ').map(|name| parser.slot(name, RUBBISH)).collect();
            let &[address, result, step, lane] = &slots[..] else {
                return Err("a place without its registers".into());
            };
            let has_elements = parser.slot(HAS_ELEMENTS, 1);
            place = Some(Place { address, result, step, lane, has_elements });
            in_place = true;
        } else if line == END_PLACE {
            in_place = false;
            parser.end_scope()?;
            let has_elements = parser.slot(HAS_ELEMENTS, 1);
            let behind = parser.instructions.len() + 2;
            parser.push(Action::Jump(behind), 0, [has_elements, 0, 0]);
            parser.instruction("ret")?;
        } else if let Some((lanes, elements)) = line.split_once(ELEMENTS) {
            let lanes = lanes.trim_start_matches("// ").parse().map_err(|_| "no number")?;
            let found = parser.elements(lanes, elements).ok_or("elements without a name")?;
            reduction = Some(Elements { place, ..found });
        } else if line == END {
            parser.instruction("ret")?;
            break;
        } else if !is_frame
            || in_function
            || in_place
            || reduction.is_some()
            || line.starts_with(".param ")
        {
            parser.line(line).map_err(|why| format!("{why}: {line}"))?;
        }
    }
    parser.end_scope()?;
    let Parser {
        file, parameters, words, instructions, local, tables, shared, has_barriers, ..
    } = parser;
    let name = name.ok_or("there is no kernel")?;
    Ok(Kernel {
        name,
        instructions,
        start,
        local,
        tables,
        shared,
        has_barriers,
        file,
        parameters,
        words,
        special,
        reduction,
    })
}

impl<'t> Parser<'t> {
    fn slot(&mut self, name: &'t str, value: u64) -> Slot {
        let file = &mut self.file;
        *self.slots.entry(name).or_insert_with(|| {
            file.push(value);
            file.len() as Slot - 1
        })
    }

    /// Ends a function or the kernel, whose registers and labels are its own.
    fn end_scope(&mut self) -> Result<(), String> {
        for (place, label) in self.jumps.drain(..) {
            let &target = self.labels.get(label).ok_or_else(|| format!("no label {label}"))?;
            self.instructions[place].action = Action::Jump(target);
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
        let start = self.instructions.len();
        let known = self.functions.insert(name, Function { start, result, parameters });
        known.is_none().then_some(())
    }

    /// Makes a slot for each word of a parameter that is a structure, as in `p4[24]`, which only the frame reads.
    fn declare_structure(&mut self, declaration: &'t str) -> Option<()> {
        let (_, bytes) = declaration.strip_suffix(']')?.split_once('[')?;
        let words = bytes.parse::<usize>().ok()?.div_ceil(WORD);
        for _ in 0..words {
            self.parameters.push(self.file.len() as Slot);
            self.file.push(0);
        }
        self.words.push(words);
        Some(())
    }

    /// Makes the threads' local memory, as in `memory[16];`: at address 0.
    fn declare_local(&mut self, declaration: &'t str) -> Option<()> {
        let (name, bytes) = declaration.strip_suffix("];")?.split_once('[')?;
        self.local = bytes.parse().ok()?;
        self.slot(name, 0);
        Some(())
    }

    /// Makes shared memory of a block's own, as in `tile_0[4160];`.
    fn declare_own_shared(&mut self, declaration: &'t str) -> Option<()> {
        let (name, bytes) = declaration.strip_suffix("];")?.split_once('[')?;
        self.shared = self.shared.next_multiple_of(16);
        self.slot(name, OWN + self.shared as u64);
        self.shared += bytes.parse::<usize>().ok()?;
        Some(())
    }

    /// Names the tables in shared memory, as in `tables[16];`: where their values come to lie.
    fn declare_shared(&mut self, declaration: &'t str) -> Option<()> {
        let (name, words) = declaration.strip_suffix("];")?.split_once('[')?;
        self.table = words.parse().ok()?;
        self.tables.resize(self.tables.len().next_multiple_of(128 / 4), RUBBISH as u32);
        self.slot(name, 4 * self.tables.len() as u64);
        Some(())
    }

    /// Reads the values of the tables that were just named, as in `values[16] = {0f00000000, ...};`. If these have more
    /// words, they have as many copies of each row of four values, one behind the other.
    fn declare_values(&mut self, declaration: &'t str) -> Option<()> {
        let (_, rest) = declaration.strip_suffix("};")?.split_once('[')?;
        let (count, entries) = rest.split_once("] = {")?;
        let entry = |text: &str| u32::from_str_radix(text.strip_prefix("0f")?, 16).ok();
        let entries: Vec<u32> = entries.split(", ").map(entry).collect::<Option<_>>()?;
        let copies = self.table / entries.len();
        let row = if copies > 1 { 4 } else { entries.len() };
        let rows = entries.chunks(row).map(|row| row.repeat(copies));
        (entries.len() == count.parse().ok()?).then(|| self.tables.extend(rows.flatten()))
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
            self.parameters.push(slot);
            self.words.push(1);
            return Ok(());
        }
        if let Some(structure) = line.strip_prefix(STRUCTURE) {
            return self.declare_structure(structure).ok_or_else(|| "no structure".into());
        }
        if let Some(label) = line.strip_suffix(':') {
            let redefined = self.labels.insert(label, self.instructions.len()).is_some();
            return if redefined { Err("a second label".into()) } else { Ok(()) };
        }
        if let Some(declaration) = line.strip_prefix(".reg ") {
            return self.declare(declaration);
        }
        if let Some(declaration) = line.strip_prefix(LOCAL) {
            return self.declare_local(declaration).ok_or_else(|| "no local memory".into());
        }
        if let Some(declaration) = line.strip_prefix(OWN_SHARED) {
            return self.declare_own_shared(declaration).ok_or_else(|| "no shared memory".into());
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
            _ => self.instruction(line.strip_suffix(';').ok_or("no semicolon")?),
        }
    }

    /// Reads what is computed, as in `min f32: %q1 %q2 %q3 %q4`: registers of the frame.
    fn elements(&mut self, lanes: usize, line: &'t str) -> Option<Elements> {
        let (what, registers) = line.split_once(": ")?;
        let (reduction, ty) = what.split_once(' ')?;
        let slots: Vec<Slot> = registers.split(' ').map(|name| self.slot(name, RUBBISH)).collect();
        let [results @ .., index, count] = &slots[..] else { return None };
        let (reduction, ty) = (reduction.to_owned(), ty.to_owned());
        let results = results.to_vec();
        Some(Elements { reduction, ty, lanes, results, index: *index, count: *count, place: None })
    }

    /// Declares the registers of a class, as in `.f32 %ef<3>;`, or of a list, as in `.f32 %x, %y;`.
    fn declare(&mut self, declaration: &'t str) -> Result<(), String> {
        if let Some((_, names)) = declaration.split_once(' ').filter(|_| !declaration.contains('<'))
        {
            for name in names.trim_end_matches(';').split(", ") {
                if self.named.contains(&name) {
                    return Err("a second register of a name".into());
                }
                self.named.push(name);
                self.slot(name, RUBBISH);
            }
            return Ok(());
        }
        let count = declaration.split(['<', '>']).nth(1).and_then(|count| count.parse().ok());
        let (class, _) = declaration.split_once('<').ok_or("no registers")?;
        let name = class.split_once(' ').ok_or("no registers")?.1;
        if ![".pred %ep", ".b32 %er", ".b64 %eq", ".f32 %ef", ".f64 %ed"].contains(&class) {
            return Err("unknown registers".into());
        }
        let (first, count) = (self.file.len(), count.ok_or("no number of registers")?);
        self.file.resize(first + count, RUBBISH);
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
        let bits = match text.get(..2) {
            Some("0x") => u64::from_str_radix(&text[2..], 16).ok(),
            Some("0f") if text.len() == 10 => u64::from_str_radix(&text[2..], 16).ok(),
            Some("0d") if text.len() == 18 => u64::from_str_radix(&text[2..], 16).ok(),
            _ => text.parse().ok(),
        };
        Ok(self.slot(text, bits.ok_or("an operand that is none")?))
    }

    fn instruction(&mut self, line: &'t str) -> Result<(), String> {
        let no_slots = [0; 3];
        if let Some((guard, label)) = line.strip_prefix('@').and_then(|l| l.split_once(" bra ")) {
            let slot = self.operand(guard)?;
            self.jumps.push((self.instructions.len(), label));
            self.push(Action::Jump(0), 0, [slot, 0, 0]);
            return Ok(());
        }
        if let Some(label) = line.strip_prefix("bra ") {
            let always = self.slot("1", 1);
            self.jumps.push((self.instructions.len(), label));
            self.push(Action::Jump(0), 0, [always, 0, 0]);
            return Ok(());
        }
        match line {
            "ret" => {
                self.push(Action::Return, 0, no_slots);
                return Ok(());
            }
            "bar.sync 0" => {
                self.has_barriers = true;
                self.push(Action::Barrier, 0, no_slots);
                return Ok(());
            }
            "bar.warp.sync 0xFFFFFFFF" | "membar.sys" => return Ok(()),
            _ => {}
        }
        let (name, operands) = line.split_once(' ').ok_or("no operands")?;
        match name.split('.').next() {
            Some("call") => self.call(operands),
            Some("ld") => self.load(name, operands),
            Some("st") => self.store(name, operands),
            Some("atom") => self.add_shared(name, operands),
            _ => {
                let (compute, count) = instructions::find(name).ok_or("unknown instruction")?;
                let mut slots = operands.split(", ").map(|operand| self.operand(operand));
                let to = slots.next().ok_or("no result")??;
                let found: Vec<Slot> = slots.collect::<Result<_, _>>()?;
                if found.len() != count {
                    return Err(format!("{} operands, not {count}", found.len()));
                }
                let mut from = no_slots;
                from[..count].copy_from_slice(&found);
                self.push(Action::Compute(compute), to, from);
                Ok(())
            }
        }
    }

    fn push(&mut self, action: Action, slot: Slot, from: [Slot; 3]) {
        self.instructions.push(Instruction { action, slot, from });
    }

    fn load(&mut self, name: &'t str, operands: &'t str) -> Result<(), String> {
        let (registers, place) = operands.split_once(", [").ok_or("no address")?;
        let place = place.strip_suffix(']').ok_or("no address")?;
        let (bytes, signed) = access(name)?;
        if name.starts_with("ld.param") {
            let from = *self.slots.get(place).ok_or("no such parameter")?;
            let to = self.operand(registers)?;
            let part: Compute = match (bytes, signed) {
                (1, false) => |a, _, _| a as u8 as u64,
                (1, true) => |a, _, _| a as i8 as u64,
                (2, false) => |a, _, _| a as u16 as u64,
                (2, true) => |a, _, _| a as i16 as u64,
                (4, _) => |a, _, _| a as u32 as u64,
                _ => |a, _, _| a,
            };
            self.push(Action::Compute(part), to, [from, 0, 0]);
            return Ok(());
        }
        let (address, first) = self.place(place)?;
        if name.starts_with("ld.local") {
            let to = self.operand(registers)?;
            self.push(Action::LoadLocal(first), to, [address, 0, 0]);
            return Ok(());
        }
        if name.starts_with("ld.shared") {
            for (register, (offset, aligned)) in vector(name, registers)?.zip(places(name, bytes)) {
                let to = self.operand(register)?;
                let offset = first + offset;
                let action = Action::LoadShared { bytes, aligned, signed, offset };
                self.push(action, to, [address, 0, 0]);
            }
            return Ok(());
        }
        for (register, (offset, aligned)) in vector(name, registers)?.zip(places(name, bytes)) {
            let to = self.operand(register)?;
            let offset = first + offset;
            let action = Action::Load { bytes, aligned, signed, offset };
            self.push(action, to, [address, 0, 0]);
        }
        Ok(())
    }

    fn store(&mut self, name: &'t str, operands: &'t str) -> Result<(), String> {
        let (place, registers) = operands
            .strip_prefix('[')
            .and_then(|operands| operands.split_once("], "))
            .ok_or("no address")?;
        let (bytes, _) = access(name)?;
        let (address, first) = self.place(place)?;
        if name.starts_with("st.local") {
            let value = self.operand(registers)?;
            self.push(Action::StoreLocal(first), value, [address, 0, 0]);
            return Ok(());
        }
        if name.starts_with("st.shared") {
            let value = self.operand(registers)?;
            self.push(Action::StoreShared { bytes, offset: first }, value, [address, 0, 0]);
            return Ok(());
        }
        for (register, (offset, aligned)) in vector(name, registers)?.zip(places(name, bytes)) {
            let value = self.operand(register)?;
            let offset = first + offset;
            self.push(Action::Store { bytes, aligned, offset }, value, [address, 0, 0]);
        }
        Ok(())
    }

    /// Reads an addition of 1 to a word of shared memory, as in `%er1, [%er2], 1`.
    fn add_shared(&mut self, name: &str, operands: &'t str) -> Result<(), String> {
        let (before, place) = operands.split_once(", [").ok_or("no address")?;
        let place = place.strip_suffix("], 1").filter(|_| name == "atom.shared.add.u32");
        let (address, offset) = self.place(place.ok_or("another atomic operation")?)?;
        let before = self.operand(before)?;
        self.push(Action::AddShared { offset }, before, [address, 0, 0]);
        Ok(())
    }

    /// The register of an address, and the offset.
    fn place(&mut self, text: &'t str) -> Result<(Slot, u64), String> {
        let (register, offset) = text.split_once('+').unwrap_or((text, "0"));
        Ok((self.operand(register)?, offset.parse().map_err(|_| "no offset")?))
    }
}

/// The bytes that an access moves to or from a register, and whether their sign fills it.
fn access(name: &str) -> Result<(usize, bool), String> {
    const KNOWN: [&str; 9] = [
        "ld.param.",
        "ld.shared.",
        "ld.global.",
        "ld.local.",
        "st.global.",
        "st.volatile.global.",
        "st.local.",
        "st.shared.",
        "st.",
    ];
    let rest = KNOWN.iter().find_map(|known| name.strip_prefix(known)).ok_or("unknown access")?;
    Ok(match rest.trim_start_matches("v2.").trim_start_matches("v4.") {
        "u8" => (1, false),
        "s8" => (1, true),
        "u16" => (2, false),
        "s16" => (2, true),
        "u32" | "f32" => (4, false),
        "u64" | "f64" => (8, false),
        _ => return Err("unknown type".into()),
    })
}

/// The registers of an access.
fn vector<'t>(name: &str, registers: &'t str) -> Result<impl Iterator<Item = &'t str>, String> {
    let list = match registers.strip_prefix('{') {
        Some(list) => list.strip_suffix('}').ok_or("no end of the list")?,
        None => registers,
    };
    if list.split(", ").count() != count(name) {
        return Err("another number of registers".into());
    }
    Ok(list.split(", "))
}

fn count(name: &str) -> usize {
    if name.contains(".v2.") {
        2
    } else if name.contains(".v4.") {
        4
    } else {
        1
    }
}

/// The offsets of an access's elements; the first is aligned as all of them together are.
fn places(name: &str, bytes: usize) -> impl Iterator<Item = (u64, u64)> {
    let (count, bytes) = (count(name) as u64, bytes as u64);
    (0..count).map(move |i| (i * bytes, if i == 0 { count * bytes } else { bytes }))
}
