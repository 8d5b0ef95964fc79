//! The code of a program for each element: loads, operations, stores.

use crate::function::{self, Tables};
use crate::halves;
use crate::large::Large;
use crate::operation::{apply, canonical, operand_type};
use crate::writer::{Class, Operand, Writer};
use gpuvec_expr::{Element, Form, Node, Program, Source, Type};

/// Bytes, and elements, that one instruction moves at most.
pub(crate) const VECTOR_BYTES: usize = 16;
const VECTOR_ELEMENTS: usize = 4;

/// The distance between a thread's elements in a reduction.
pub(crate) const STEP: i32 = 32;

/// An array that is read or written.
#[derive(Clone, Copy)]
pub(crate) struct Array {
    element: Element,
    address: Operand,
}

impl Array {
    /// The array whose address is a parameter.
    pub(crate) fn new(writer: &Writer, element: Element, letter: char, number: usize) -> Array {
        let address = writer.load_parameter(".u64", Class::B64, letter, number);
        Array { element, address: writer.emit("cvta.to.global.u64", Class::B64, &[address]) }
    }

    /// The bytes of an element, as a power of two.
    pub(crate) const fn shift(self) -> u32 {
        self.element.bytes().ilog2()
    }

    /// The address of the first element.
    pub(crate) const fn address(self) -> Operand {
        self.address
    }

    /// The elements of `lanes` that one instruction moves.
    const fn vector(self, lanes: usize) -> usize {
        vector(self.shift(), lanes)
    }

    /// The elements before the first one that begins a vector.
    pub(crate) fn head(self, writer: &Writer, lanes: usize) -> Operand {
        let elements = match self.shift() {
            0 => self.address,
            shift => {
                writer.emit("shr.u64", Class::B64, &[self.address, Operand::b32(shift as i32)])
            }
        };
        let negative = writer.emit("neg.s64", Class::B64, &[elements]);
        let most = Operand::b64(self.vector(lanes) as i64 - 1);
        writer.emit("and.b64", Class::B64, &[negative, most])
    }

    /// The bytes by which an element is past the beginning of a vector.
    pub(crate) fn past(self, writer: &Writer, index: Operand, lanes: usize) -> Operand {
        let bytes = Operand::b64(((self.vector(lanes) << self.shift()) - 1) as i64);
        writer.emit("and.b64", Class::B64, &[self.place(writer, index), bytes])
    }

    /// The address of an element.
    pub(crate) fn place(self, writer: &Writer, index: Operand) -> Operand {
        let offset = match self.shift() {
            0 => index,
            shift => writer.emit("shl.b64", Class::B64, &[index, Operand::b32(shift as i32)]),
        };
        writer.emit("add.s64", Class::B64, &[self.address, offset])
    }

    /// The address of the element at a distance, of 32 bits, behind that at an address.
    pub(crate) fn beside(self, writer: &Writer, place: Operand, distance: Operand) -> Operand {
        let size = Operand::b32(1 << self.shift());
        let offset = writer.emit("mul.wide.s32", Class::B64, &[distance, size]);
        writer.emit("add.s64", Class::B64, &[place, offset])
    }

    /// Reads `lanes` elements. If there are several, they begin a vector.
    fn load(self, writer: &Writer, index: Operand, lanes: usize) -> Vec<Operand> {
        self.load_from(writer, self.place(writer, index), lanes)
    }

    /// Reads `lanes` elements from an address on. If there are several, they begin a vector.
    pub(crate) fn load_from(self, writer: &Writer, place: Operand, lanes: usize) -> Vec<Operand> {
        let raw: Vec<Operand> = (0..lanes).map(|_| self.register(writer)).collect();
        self.load_to(writer, place, &raw);
        raw.into_iter().map(|raw| widened(writer, self.element, raw)).collect()
    }

    /// A register for an element as it is in memory.
    pub(crate) fn register(self, writer: &Writer) -> Operand {
        writer.register(access(self.element).1)
    }

    /// Reads elements from an address on, as they are in memory. If there are several, they begin a vector.
    pub(crate) fn load_to(self, writer: &Writer, place: Operand, raw: &[Operand]) {
        self.transfer(writer, "ld.global", access(self.element).0, place, raw);
    }

    /// Reads an element at an address, as it is in memory.
    pub(crate) fn load_raw(self, writer: &Writer, place: Operand) -> Operand {
        let raw = self.register(writer);
        self.load_to(writer, place, &[raw]);
        raw
    }

    /// Writes an element to shared memory, as it is in memory.
    pub(crate) fn store_shared(self, writer: &Writer, place: Operand, offset: u32, raw: Operand) {
        writer.access("st.shared", access(self.element).0, &[raw], place, offset);
    }

    /// Reads an element of shared memory.
    pub(crate) fn load_shared(self, writer: &Writer, place: Operand) -> Operand {
        let (name, class) = access(self.element);
        let raw = writer.register(class);
        writer.access("ld.shared", name, &[raw], place, 0);
        widened(writer, self.element, raw)
    }

    /// Reads elements, `STEP` from one another, from a distance of 32 bits on.
    fn load_spread(self, writer: &Writer, distance: Operand, raw: &[Operand]) {
        let place = self.beside(writer, self.address, distance);
        for (k, &raw) in raw.iter().enumerate() {
            let offset = (k as u32 * STEP as u32) << self.shift();
            writer.access("ld.global", access(self.element).0, &[raw], place, offset);
        }
    }

    /// Writes elements. If there are several, they begin a vector. `is_canonical` says that no value is a NaN other
    /// than the quiet one.
    pub(crate) fn store(
        self, writer: &Writer, index: Operand, values: &[Operand], is_canonical: bool,
    ) {
        self.store_to(writer, self.place(writer, index), values, is_canonical);
    }

    /// Writes elements as [`Array::store`], from an address on.
    pub(crate) fn store_to(
        self, writer: &Writer, place: Operand, values: &[Operand], is_canonical: bool,
    ) {
        let raw = |&value: &Operand| self.raw(writer, value, is_canonical);
        let raw: Vec<Operand> = values.iter().map(raw).collect();
        self.transfer(writer, "st.global", access(self.element).0, place, &raw);
    }

    /// A value as it is stored.
    fn raw(self, writer: &Writer, value: Operand, is_canonical: bool) -> Operand {
        match is_canonical && !self.element.is_half() {
            true => writer.in_register(value),
            false => stored(writer, self.element, value),
        }
    }

    fn transfer(self, writer: &Writer, what: &str, ty: &str, place: Operand, raw: &[Operand]) {
        let vector = self.vector(raw.len());
        for (part, offset) in raw.chunks(vector).zip((0..).step_by(vector << self.shift())) {
            writer.access(what, ty, part, place, offset);
        }
    }
}

/// The elements of `lanes` that one instruction moves, of `1 << shift` bytes each.
pub(crate) const fn vector(shift: u32, lanes: usize) -> usize {
    let (most, bytes) = (VECTOR_BYTES >> shift, VECTOR_ELEMENTS);
    let most = if most < bytes { most } else { bytes };
    if lanes < most { lanes } else { most }
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
pub(crate) fn widened(writer: &Writer, element: Element, raw: Operand) -> Operand {
    match element {
        Element::Bool => writer.emit("setp.ne.s32", Class::Predicate, &[raw, Operand::b32(0)]),
        Element::F16 => halves::f32_of_f16(writer, raw),
        Element::Bf16 => halves::f32_of_bf16(writer, raw),
        _ => raw,
    }
}

/// A value as it is stored.
pub(crate) fn stored(writer: &Writer, element: Element, value: Operand) -> Operand {
    match element {
        Element::Bool => {
            let [one, zero] = [1, 0].map(Operand::b32);
            writer.emit("selp.b32", Class::B32, &[one, zero, value])
        }
        Element::F16 => halves::f16_bits(writer, value),
        Element::Bf16 => halves::bf16_bits(writer, value),
        _ => writer.in_register(canonical(writer, element.widened(), value)),
    }
}

/// The values that were loaded for elements, with the nodes of the arrays.
pub(crate) type Loaded = Vec<(usize, Vec<Operand>)>;

/// A program's values, as far as they are known before its elements are.
pub(crate) struct Elements<'p> {
    program: &'p Program,
    writer: &'p Writer,
    /// The parts that compute the nodes, if the program is large.
    large: Option<&'p Large<'p>>,
    /// The arrays that are used, with their nodes.
    arrays: Vec<(usize, Array)>,
    /// The nodes that all elements share.
    shared: Vec<Option<Operand>>,
    /// The tables of functions.
    tables: Tables,
}

impl<'p> Elements<'p> {
    /// Loads addresses and scalars, and computes all that no array has a part in, unless the program is
    /// large.
    pub(crate) fn new(
        program: &'p Program, writer: &'p Writer, large: Option<&'p Large<'p>>,
    ) -> Self {
        let shared = vec![None; program.nodes().len()];
        let tables = Tables::of(program, large.is_some());
        let mut elements = Elements { program, writer, large, arrays: Vec::new(), shared, tables };
        for (id, node) in program.nodes().iter().enumerate() {
            if let Source::Input(index) = node.source {
                elements.input(id, usize::from(index));
            }
        }
        if large.is_none() {
            elements.shared = elements.values(&[], None);
        }
        elements
    }

    fn input(&mut self, node: usize, index: usize) {
        let Some(input) = self.program.inputs().nth(index) else { return };
        match input.form {
            Form::Array => {
                self.arrays.push((node, Array::new(self.writer, input.element, 'a', index)));
            }
            Form::Scalar | Form::Number => {
                let (name, class) = access(input.element);
                let raw = self.writer.load_parameter(name, class, 'a', index);
                self.shared[node] = Some(widened(self.writer, input.element, raw));
            }
        }
    }

    /// The arrays that are used.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = Array> {
        self.arrays.iter().map(|(_, array)| *array)
    }

    /// The arrays that are used, with the numbers of their inputs.
    pub(crate) fn numbered_arrays(&self) -> impl Iterator<Item = (usize, Array)> {
        let numbered = |(node, array): &(usize, Array)| match self.program.nodes()[*node].source {
            Source::Input(number) => Some((usize::from(number), *array)),
            _ => None,
        };
        self.arrays.iter().filter_map(numbered)
    }

    /// The loaded operands of each array that is used.
    pub(crate) fn loaded(&self, values: impl Iterator<Item = Vec<Operand>>) -> Loaded {
        self.arrays.iter().map(|(node, _)| *node).zip(values).collect()
    }

    /// Loads an element of each array, or several, which begin vectors in all arrays.
    pub(crate) fn load(&self, index: Operand, lanes: usize) -> Loaded {
        let of_array =
            |&(node, array): &(usize, Array)| (node, array.load(self.writer, index, lanes));
        self.arrays.iter().map(of_array).collect()
    }

    /// The addresses of an element in the arrays, for elements at distances from it.
    pub(crate) fn from(self, index: Operand) -> Self {
        let writer = self.writer;
        let from = |(node, array): (usize, Array)| {
            (node, Array { address: array.place(writer, index), ..array })
        };
        Elements { arrays: self.arrays.into_iter().map(from).collect(), ..self }
    }

    /// Computes the results of elements at distances, of 32 bits, from the first one, each `STEP` further than
    /// the one before. The element at the distance `last` stands in for those past it.
    pub(crate) fn results_at(&self, places: &[Operand], last: Operand) -> Vec<Vec<Operand>> {
        let writer = self.writer;
        let raw =
            |&(_, array): &(usize, Array)| places.iter().map(|_| array.register(writer)).collect();
        let raw: Vec<Vec<Operand>> = self.arrays.iter().map(raw).collect();
        let [whole, loaded] = [writer.label(), writer.label()];
        let end = places[places.len() - 1];
        writer.jump_if(writer.emit("setp.le.s32", Class::Predicate, &[end, last]), whole);
        for (k, &place) in places.iter().enumerate() {
            let distance = writer.emit("min.s32", Class::B32, &[place, last]);
            for ((_, array), raw) in self.arrays.iter().zip(&raw) {
                array.load_spread(writer, distance, &[raw[k]]);
            }
        }
        writer.jump(loaded);
        writer.place(whole);
        for ((_, array), raw) in self.arrays.iter().zip(&raw) {
            array.load_spread(writer, places[0], raw);
        }
        writer.place(loaded);
        self.results_from(places.len(), self.widened(raw), &|lane| {
            let step = writer.emit("mul.lo.s32", Class::B32, &[lane, Operand::b32(STEP)]);
            let place = writer.emit("add.s32", Class::B32, &[places[0], step]);
            self.load_at(writer.emit("min.s32", Class::B32, &[place, last]))
        })
    }

    /// Loads the element at a distance from the first one.
    fn load_at(&self, distance: Operand) -> Loaded {
        let load = |&(_, array): &(usize, Array)| {
            let raw = array.register(self.writer);
            array.load_spread(self.writer, distance, &[raw]);
            vec![raw]
        };
        self.widened(self.arrays.iter().map(load).collect())
    }

    /// The loaded operands of each array, as values.
    pub(crate) fn widened(&self, raw: Vec<Vec<Operand>>) -> Loaded {
        let of_array = |(&(node, array), raw): (&(usize, Array), Vec<Operand>)| {
            (node, raw.into_iter().map(|raw| widened(self.writer, array.element, raw)).collect())
        };
        self.arrays.iter().zip(raw).map(of_array).collect()
    }

    /// The number of instructions for one element.
    pub(crate) fn instructions(&self) -> usize {
        let writer = self.writer;
        let before = writer.instructions();
        writer.aside(|| drop(self.results_from(1, self.load_at(Operand::b32(0)), &|_| Vec::new())));
        writer.instructions() - before
    }

    /// Computes the results of elements from the loaded operands: by fast functions, and those for which one is
    /// not right once more, from what is loaded `again` for the element of a number.
    pub(crate) fn results_from(
        &self, lanes: usize, loaded: Loaded, again: &dyn Fn(Operand) -> Loaded,
    ) -> Vec<Vec<Operand>> {
        let (results, rights) = self.fast_results(lanes, &loaded);
        if rights.is_empty() {
            return results;
        }
        let results = results.into_iter().map(|of_lane| self.own(of_lane)).collect();
        self.repair(&results, &rights, |lane| if lanes == 1 { loaded } else { again(lane) });
        results
    }

    /// Computes the results of elements from the loaded operands by fast functions, and for each element the predicate
    /// that says whether they are right. There are no predicates if there are no such functions.
    pub(crate) fn fast_results(
        &self, lanes: usize, loaded: &Loaded,
    ) -> (Vec<Vec<Operand>>, Vec<Operand>) {
        let of_lane = |lane: usize| -> Vec<(usize, Operand)> {
            loaded.iter().map(|(node, values)| (*node, values[lane])).collect()
        };
        if let Some(large) = self.large {
            let known = |lane| self.known(&of_lane(lane));
            let results = (0..lanes).map(|lane| large.results(self.writer, &known(lane)));
            return (results.collect(), Vec::new());
        }
        let mut rights = Vec::new();
        let results = (0..lanes).map(|lane| {
            let mut right = None;
            let values = self.values(&of_lane(lane), Some(&mut right));
            rights.extend(right);
            self.results_in(&values)
        });
        (results.collect(), rights)
    }

    /// Computes the results of an element from its loaded operands, without fast functions.
    pub(crate) fn exact_results(&self, loaded: &Loaded) -> Vec<Operand> {
        let of_array = |(node, values): &(usize, Vec<Operand>)| (*node, values[0]);
        let loaded: Vec<_> = loaded.iter().map(of_array).collect();
        self.results_in(&self.values(&loaded, None))
    }

    /// The bits of the elements that are not right.
    pub(crate) fn wrong(&self, rights: &[Operand]) -> Operand {
        // One instruction for each element, which sets its bit under a predicate.
        let with_bit = |wrong, (lane, &right): (i32, &Operand)| {
            let set = match wrong {
                Operand::Constant(..) => Operand::b32(1 << lane),
                _ => self.writer.emit("or.b32", Class::B32, &[wrong, Operand::b32(1 << lane)]),
            };
            self.writer.emit("selp.b32", Class::B32, &[wrong, set, right])
        };
        (0..).zip(rights).fold(Operand::b32(0), with_bit)
    }

    /// Says whether some elements' results may have to be computed once more.
    pub(crate) fn are_tested(&self) -> bool {
        let mut nodes = self.program.nodes().iter().zip(&self.shared);
        let is_tested = |(node, shared): (&Node, &Option<Operand>)| match node.source {
            Source::Op(op) => {
                shared.is_none() && function::is_tested(operand_type(self.program, node), op)
            }
            _ => false,
        };
        self.large.is_none() && nodes.any(is_tested)
    }

    /// Says of each result whether it has no NaN other than the quiet one: a fast function is not right where its
    /// result is NaN, and what replaces that is canonical.
    pub(crate) fn are_canonical(&self) -> impl Iterator<Item = bool> {
        let is_fast = |id| {
            let (id, nodes) = (usize::from(id), self.program.nodes());
            let node = &nodes[id];
            let Source::Op(op) = node.source else { return false };
            let is_fast = function::is_fast(operand_type(self.program, node), op) == Some(true);
            is_fast && self.large.is_none() && self.shared[id].is_none()
        };
        self.program.results().map(is_fast)
    }

    /// The results among the values of nodes.
    fn results_in(&self, values: &[Option<Operand>]) -> Vec<Operand> {
        self.program.results().filter_map(|id| values[usize::from(id)]).collect()
    }

    /// Results in registers of their own, which may change.
    fn own(&self, results: Vec<Operand>) -> Vec<Operand> {
        results.into_iter().map(|value| self.writer.copy(value)).collect()
    }

    /// Replaces the results of the elements that are not right, one after the other.
    fn repair(
        &self, results: &Vec<Vec<Operand>>, rights: &[Operand],
        load: impl FnOnce(Operand) -> Loaded,
    ) {
        let (writer, [again, end]) = (self.writer, [(); 2].map(|()| self.writer.label()));
        let [zero, one] = [0, 1].map(Operand::b32);
        // One element needs no loop, which the driver would compile for longer.
        let mut wrong = None;
        if let [right] = rights {
            writer.jump_if(*right, end);
        } else {
            let bits = *wrong.insert(self.wrong(rights));
            writer.jump_if(writer.emit("setp.eq.s32", Class::Predicate, &[bits, zero]), end);
        }
        let before = writer.instructions();
        writer.place(again);
        let lane = wrong.map_or(zero, |bits| writer.emit("bfind.u32", Class::B32, &[bits]));
        let exact = self.exact_results(&load(lane));
        let exact = exact.into_iter().zip(self.are_canonical()).map(|(value, is_canonical)| {
            if is_canonical { canonical(writer, Type::F32, value) } else { value }
        });
        let exact: Vec<_> = exact.collect();
        for (number, of_lane) in (0..).zip(results) {
            let number = Operand::b32(number);
            let is_this = writer.emit("setp.eq.s32", Class::Predicate, &[lane, number]);
            for (&result, &exact) in of_lane.iter().zip(&exact) {
                writer.replace_if(is_this, result, exact);
            }
        }
        if let Some(bits) = wrong {
            let bit = writer.emit("shl.b32", Class::B32, &[one, lane]);
            writer.set("xor.b32", bits, &[bits, bit]);
            writer.jump_if(writer.emit("setp.ne.s32", Class::Predicate, &[bits, zero]), again);
        }
        writer.are_rare_since(before);
        writer.place(end);
    }

    /// The nodes that are shared or loaded.
    fn known(&self, loaded: &[(usize, Operand)]) -> Vec<Option<Operand>> {
        let mut values = self.shared.clone();
        for &(node, value) in loaded {
            values[node] = Some(value);
        }
        values
    }

    /// Computes the nodes that are known from the loaded ones: by fast functions if there is a place for the
    /// predicate that says whether they are right.
    fn values(
        &self, loaded: &[(usize, Operand)], mut right: Option<&mut Option<Operand>>,
    ) -> Vec<Option<Operand>> {
        let writer = self.writer;
        let mut values = self.known(loaded);
        for (id, node) in self.program.nodes().iter().enumerate() {
            if values[id].is_some() {
                continue;
            }
            values[id] = match node.source {
                Source::Constant(bits) => Some(Operand::Constant(Class::of(node.ty), bits)),
                Source::Input(_) => None,
                Source::Op(op) => {
                    let mut operands = [Operand::b32(0); 3];
                    let known = operands.iter_mut().zip(node.operands()).all(|(operand, &id)| {
                        values[usize::from(id)].map(|value| *operand = value).is_some()
                    });
                    let operands = &operands[..node.operands().len()];
                    let from = operand_type(self.program, node);
                    known.then(|| {
                        let fast = right.as_mut().and_then(|right| {
                            let (value, is_right) =
                                function::fast(writer, from, op, &self.tables, operands)?;
                            let and =
                                |all| writer.emit("and.pred", Class::Predicate, &[all, is_right]);
                            **right = Some(right.map_or(is_right, and));
                            Some(value)
                        });
                        fast.unwrap_or_else(|| apply(writer, op, from, node.ty, operands))
                    })
                }
            };
        }
        values
    }
}
