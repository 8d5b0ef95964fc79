//! The code of a program for each element: it loads operands, and computes results from them.

use crate::array::{Array, access, value};
use crate::function::{self, Tables};
use crate::operation::{apply, canonical, operand_type};
use crate::partitioned::PartitionedProgram;
use crate::writer::{Class, Operand, Writer, ptx};
use gpuvec_expr::{Form, Node, Program, Source, Type};

/// The distance between a thread's elements in a reduction.
pub(crate) const STEP: usize = 32;

/// The values that were loaded for elements, with the nodes of the arrays.
pub(crate) type Loaded = Vec<(usize, Vec<Operand>)>;

/// A program, with the values that all elements share.
pub(crate) struct Elements<'p> {
    program: &'p Program,
    w: &'p Writer<'p>,
    /// The parts that compute the nodes, if the program is large.
    partitioned: Option<&'p PartitionedProgram<'p>>,
    /// The arrays that are used, with their nodes and the numbers of their inputs.
    arrays: Vec<([usize; 2], Array)>,
    /// The values of nodes that do not depend on an array.
    shared: Vec<Option<Operand>>,
    /// The tables of functions.
    tables: Tables,
}

impl<'p> Elements<'p> {
    /// Loads addresses and scalars. Computes the nodes that depend on no array, unless the program is large.
    pub(crate) fn new(
        program: &'p Program, w: &'p Writer<'p>, partitioned: Option<&'p PartitionedProgram<'p>>,
    ) -> Self {
        let shared = vec![None; program.nodes().len()];
        let tables = Tables::of(program, partitioned.is_some());
        let mut elements = Elements { program, w, partitioned, arrays: Vec::new(), shared, tables };
        for (id, node) in program.nodes().iter().enumerate() {
            let Source::Input(number) = node.source else { continue };
            let number = usize::from(number);
            let Some(input) = program.inputs().nth(number) else { continue };
            if input.form == Form::Array {
                elements.arrays.push(([id, number], Array::new(w, input.element, &"a", number)));
            } else {
                let place = Operand::Numbered(&"a", number as u32);
                let raw = w.load("ld.param", access(input.element), place, 0);
                elements.shared[id] = Some(value(w, input.element, raw));
            }
        }
        if partitioned.is_none() {
            elements.shared = elements.values(&[], None);
        }
        elements
    }

    /// The arrays that are used.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = Array> {
        self.arrays.iter().map(|(_, array)| *array)
    }

    /// The arrays that are used, with the numbers of their inputs.
    pub(crate) fn numbered_arrays(&self) -> impl Iterator<Item = (usize, Array)> {
        self.arrays.iter().map(|([_, number], array)| (*number, *array))
    }

    /// The loaded operands of each array that is used.
    pub(crate) fn loaded(&self, values: impl Iterator<Item = Vec<Operand>>) -> Loaded {
        self.arrays.iter().map(|([node, _], _)| *node).zip(values).collect()
    }

    /// Loads elements of each array from an index on. If there are several, vectors begin there in all arrays.
    pub(crate) fn load(&self, index: Operand, items: usize) -> Loaded {
        let load = |array: Array| array.load_from(self.w, array.place(self.w, index), items);
        self.loaded(self.arrays().map(load))
    }

    /// Moves the arrays to an index, for elements at distances from it.
    pub(crate) fn from(self, index: Operand) -> Self {
        let arrays = self.arrays.iter().map(|(of, array)| (*of, array.from(self.w, index)));
        Elements { arrays: arrays.collect(), ..self }
    }

    /// Computes the results of elements at distances, of 32 bits, from the first one. Each distance is [`STEP`] more than
    /// the one before. For distances beyond `last`, the element at `last` is computed.
    pub(crate) fn results_at(&self, distances: &[Operand], last: Operand) -> Vec<Vec<Operand>> {
        let w = self.w;
        let raw: Vec<_> = self.arrays().map(|array| array.registers(w, distances.len())).collect();
        let [whole, loaded] = [(); 2].map(|()| w.label());
        let (first, end) = (distances[0], distances[distances.len() - 1]);
        ptx!(w, end, last, whole; "setp.le.s32 is_whole, end, last; @is_whole bra whole");
        for (k, &distance) in distances.iter().enumerate() {
            let distance = ptx!(w, distance, last; "min.s32 within, distance, last");
            for (array, raw) in self.arrays().zip(&raw) {
                array.load_apart(w, distance, STEP, &raw[k..=k]);
            }
        }
        ptx!(w, loaded, whole; "bra loaded; whole:");
        for (array, raw) in self.arrays().zip(&raw) {
            array.load_apart(w, first, STEP, raw);
        }
        ptx!(w, loaded; "loaded:");
        self.results_from(distances.len(), self.values_of(raw), &|item| {
            self.load_at(ptx!(w, item, first, last, each = STEP; "
                mul.lo.s32 step, item, each; add.s32 distance, first, step
                min.s32 within, distance, last
            "))
        })
    }

    /// Loads the element at a distance from the first one.
    fn load_at(&self, distance: Operand) -> Loaded {
        let load = |array: Array| {
            let raw = array.registers(self.w, 1);
            array.load_apart(self.w, distance, STEP, &raw);
            raw
        };
        self.values_of(self.arrays().map(load).collect())
    }

    /// The values of what was loaded from each array.
    pub(crate) fn values_of(&self, raw: Vec<Vec<Operand>>) -> Loaded {
        let values = |(array, raw): (Array, Vec<Operand>)| {
            raw.into_iter().map(|raw| array.value(self.w, raw)).collect()
        };
        self.loaded(self.arrays().zip(raw).map(values))
    }

    /// The number of instructions for one element.
    pub(crate) fn instructions(&self) -> usize {
        let before = self.w.instructions();
        let compute = || drop(self.results_from(1, self.load_at(0.into()), &|_| Vec::new()));
        self.w.aside(compute);
        self.w.instructions() - before
    }

    /// Computes the results of elements from the loaded operands by fast functions. An element for which a fast function
    /// is not right is computed once more, from the operands that `again` loads for its number.
    pub(crate) fn results_from(
        &self, items: usize, loaded: Loaded, again: &dyn Fn(Operand) -> Loaded,
    ) -> Vec<Vec<Operand>> {
        let (results, rights) = self.fast_results(items, &loaded);
        if rights.is_empty() {
            return results;
        }
        // In registers of their own, which may change.
        let own = |results: Vec<Operand>| results.into_iter().map(|value| self.w.copy(value));
        let results: Vec<Vec<Operand>> =
            results.into_iter().map(|of_item| own(of_item).collect()).collect();
        self.repair(&results, &rights, |item| if items == 1 { loaded } else { again(item) });
        results
    }

    /// Computes the results of elements from the loaded operands by fast functions. Returns also a predicate for each
    /// element, true if its results are right; no predicates if the program has no such functions.
    pub(crate) fn fast_results(
        &self, items: usize, loaded: &Loaded,
    ) -> (Vec<Vec<Operand>>, Vec<Operand>) {
        let of_item = |item: usize| -> Vec<(usize, Operand)> {
            loaded.iter().map(|(node, values)| (*node, values[item])).collect()
        };
        if let Some(partitioned) = self.partitioned {
            let known = |item| self.known(&of_item(item));
            let results = (0..items).map(|item| partitioned.results(self.w, &known(item)));
            return (results.collect(), Vec::new());
        }
        let mut rights = Vec::new();
        let results = (0..items).map(|item| {
            let mut right = None;
            let values = self.values(&of_item(item), Some(&mut right));
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

    /// A word with a bit for each element that is not right.
    pub(crate) fn wrong(&self, rights: &[Operand]) -> Operand {
        // One instruction for each element, which sets its bit under a predicate.
        let with_bit = |wrong, (item, &right): (i32, &Operand)| {
            let bit = Operand::from(1 << item);
            let set = match wrong {
                Operand::Constant(..) => bit,
                _ => ptx!(self.w, wrong, bit; "or.b32 set, wrong, bit"),
            };
            ptx!(self.w, wrong, set, right; "selp.b32 bits, wrong, set, right")
        };
        (0..).zip(rights).fold(Operand::from(0), with_bit)
    }

    /// True if the results of some elements may have to be computed once more.
    pub(crate) fn are_tested(&self) -> bool {
        let mut nodes = self.program.nodes().iter().zip(&self.shared);
        let is_tested = |(node, shared): (&Node, &Option<Operand>)| match node.source {
            Source::Op(op) => {
                shared.is_none() && function::is_tested(operand_type(self.program, node), op)
            }
            _ => false,
        };
        self.partitioned.is_none() && nodes.any(is_tested)
    }

    /// For each result, true if it is never a NaN other than the quiet one. A fast function is not right where its result
    /// is NaN, and what replaces that is canonical.
    pub(crate) fn are_canonical(&self) -> impl Iterator<Item = bool> {
        let is_fast = |id| {
            let (id, nodes) = (usize::from(id), self.program.nodes());
            let node = &nodes[id];
            let Source::Op(op) = node.source else { return false };
            let is_fast = function::is_fast(operand_type(self.program, node), op) == Some(true);
            is_fast && self.partitioned.is_none() && self.shared[id].is_none()
        };
        self.program.results().map(is_fast)
    }

    /// Stores the results of elements from an index on.
    pub(crate) fn store(&self, outputs: &[Array], index: Operand, results: &[Vec<Operand>]) {
        for (number, (output, is_canonical)) in outputs.iter().zip(self.are_canonical()).enumerate()
        {
            let values: Vec<Operand> = results.iter().map(|of_item| of_item[number]).collect();
            output.store(self.w, output.place(self.w, index), &values, is_canonical);
        }
    }

    /// The results among the values of nodes.
    fn results_in(&self, values: &[Option<Operand>]) -> Vec<Operand> {
        self.program.results().filter_map(|id| values[usize::from(id)]).collect()
    }

    /// Replaces the results of the elements that are not right, one after the other.
    fn repair(
        &self, results: &[Vec<Operand>], rights: &[Operand], load: impl FnOnce(Operand) -> Loaded,
    ) {
        let (w, end) = (self.w, self.w.label());
        // One element needs no loop, which the driver would compile for longer.
        let (wrong, again) = match rights {
            [right] => {
                ptx!(w, right = *right, end; "@right bra end");
                (None, end)
            }
            _ => {
                let (wrong, again) = (self.wrong(rights), w.label());
                ptx!(w, wrong, end; "setp.eq.s32 are_right, wrong, 0; @are_right bra end");
                (Some(wrong), again)
            }
        };
        let before = w.instructions();
        let item = match wrong {
            Some(wrong) => ptx!(w, again, wrong; "again:; bfind.u32 item, wrong"),
            None => Operand::from(0),
        };
        let exact = self.exact_results(&load(item));
        let exact = exact.into_iter().zip(self.are_canonical()).map(|(value, is_canonical)| {
            if is_canonical { canonical(w, Type::F32, value) } else { value }
        });
        let exact: Vec<_> = exact.collect();
        for (number, of_item) in results.iter().enumerate() {
            let is_this = ptx!(w, item, number; "setp.eq.s32 is_this, item, number");
            for (&result, &exact) in of_item.iter().zip(&exact) {
                w.replace_if(is_this, result, exact);
            }
        }
        if let Some(wrong) = wrong {
            ptx!(w, item, wrong, again; "
                shl.b32 bit, 1, item; xor.b32 wrong, wrong, bit
                setp.ne.s32 are_left, wrong, 0; @are_left bra again
            ");
        }
        w.are_rare_since(before);
        ptx!(w, end; "end:");
    }

    /// The nodes that are shared or loaded.
    fn known(&self, loaded: &[(usize, Operand)]) -> Vec<Option<Operand>> {
        let mut values = self.shared.clone();
        for &(node, value) in loaded {
            values[node] = Some(value);
        }
        values
    }

    /// Computes the nodes that follow from the loaded ones. Fast functions are used if there is a place for the predicate
    /// that is true where they are right.
    fn values(
        &self, loaded: &[(usize, Operand)], mut right: Option<&mut Option<Operand>>,
    ) -> Vec<Option<Operand>> {
        let w = self.w;
        let mut values = self.known(loaded);
        for (id, node) in self.program.nodes().iter().enumerate() {
            if values[id].is_some() {
                continue;
            }
            values[id] = match node.source {
                Source::Constant(bits) => Some(Operand::Constant(Class::of(node.ty), bits)),
                Source::Input(_) => None,
                Source::Op(op) => {
                    let mut operands = [Operand::from(0); 3];
                    let known = operands.iter_mut().zip(node.operands()).all(|(operand, &id)| {
                        values[usize::from(id)].map(|value| *operand = value).is_some()
                    });
                    let operands = &operands[..node.operands().len()];
                    let from = operand_type(self.program, node);
                    known.then(|| {
                        let fast = right.as_mut().and_then(|right| {
                            let (value, is_right) =
                                function::fast(w, from, op, &self.tables, operands)?;
                            let and = |all| ptx!(w, all, is_right; "and.pred both, all, is_right");
                            **right = Some(right.map_or(is_right, and));
                            Some(value)
                        });
                        fast.unwrap_or_else(|| apply(w, op, from, node.ty, operands))
                    })
                }
            };
        }
        values
    }
}
