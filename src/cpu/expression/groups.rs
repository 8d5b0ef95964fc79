//! The states of reductions by key, one for each group. Each thread has a table of states of its own. The results are
//! computed from the states of all tables.

use super::moments::Moments;
use super::output_states::Sums;
use super::reduce::{BlockReduction, ReductionVisitor, StateOf, Values, visit};
use super::two_parts::OfSum;
use crate::arch::{InstructionSet, Isa, Vectorized};
use crate::cpu::exact::{BLOCK, Cells, Cellular, Cellwise, CommonUnit, Places, Split, Words};
use crate::process::memory::{self, NoMemory};
use arrayvec::ArrayVec;
use gpuvec_exact::{Code, Dot, State};
use gpuvec_expr::{MAX_OUTPUTS, Output, Reduction, Type};
use gpuvec_ops::{Accumulator, Element};
use std::any::Any;
use std::marker::PhantomData;

/// The states of groups to which values are added.
#[derive(Clone, Copy)]
pub(crate) struct Groups {
    /// The number of the first value's state of key 0.
    pub(crate) first: usize,
    /// The number of states from a value's to the next one's of the same key.
    pub(crate) step: usize,
    /// The number of groups: keys are less.
    pub(crate) count: usize,
    /// The index of the first value among the elements of its states.
    pub(crate) index: usize,
    /// The distance of the indexes of a value and the next one.
    pub(crate) index_step: usize,
}

/// The keys of values.
#[derive(Clone, Copy)]
pub(crate) enum Keys<'a> {
    I32(&'a [i32]),
    I64(&'a [i64]),
}

impl Keys<'_> {
    /// The key of a number.
    pub(crate) fn at(self, number: usize) -> i64 {
        match self {
            Keys::I32(keys) => keys[number].into(),
            Keys::I64(keys) => keys[number],
        }
    }
}

/// The states of a block of values.
pub(crate) struct Block<'a> {
    /// For each value, the distance of its state from number `first`; 0 for a key outside the groups.
    places: &'a [usize],
    first: usize,
    /// -1 for each value with a key in the groups, otherwise 0.
    masks: &'a [i64],
    /// True if all keys are in the groups.
    is_inside: bool,
    /// The index of the first value, and the distance to the next one.
    index: [usize; 2],
    /// The keys.
    keys: Keys<'a>,
}

/// Memory for the states of a block.
struct Found {
    places: [usize; BLOCK],
    masks: [i64; BLOCK],
}

/// The masks of values with keys in the groups.
static INSIDE: [i64; BLOCK] = [-1; BLOCK];

impl Found {
    const NEW: Self = Found { places: [0; BLOCK], masks: [0; BLOCK] };

    /// Finds the states for a block of values, which begins with number `first`.
    fn block<'a>(
        &'a mut self, isa: Isa, groups: Groups, keys: Keys<'a>, first: usize,
    ) -> Block<'a> {
        let of = Groups {
            first: groups.first + first * groups.step,
            index: groups.index + first * groups.index_step,
            ..groups
        };
        match keys {
            Keys::I32(keys) => self.find(isa, of, &keys[first..], Keys::I32),
            Keys::I64(keys) => {
                let keys = &keys[first..];
                let keys = &keys[..keys.len().min(BLOCK)];
                if groups.step == 0 && isa.run(Checking { keys, count: groups.count }) {
                    let Groups { first, index, index_step, .. } = of;
                    return Block {
                        places: bytemuck::cast_slice(keys),
                        first,
                        masks: &INSIDE[..keys.len()],
                        is_inside: true,
                        index: [index, index_step],
                        keys: Keys::I64(keys),
                    };
                }
                self.find(isa, of, keys, Keys::I64)
            }
        }
    }

    fn find<'a, T: Copy + Into<i64>>(
        &'a mut self, isa: Isa, groups: Groups, keys: &'a [T], kind: impl Fn(&'a [T]) -> Keys<'a>,
    ) -> Block<'a> {
        let len = keys.len().min(BLOCK);
        let is_inside = isa.run(Finding { keys: &keys[..len], groups, into: self });
        Block {
            places: &self.places[..len],
            first: groups.first,
            masks: if is_inside { &INSIDE[..len] } else { &self.masks[..len] },
            is_inside,
            index: [groups.index, groups.index_step],
            keys: kind(&keys[..len]),
        }
    }
}

impl Block<'_> {
    /// The address and the bytes of the keys.
    fn keys(&self) -> (*const u8, usize) {
        let bytes: &[u8] = match self.keys {
            Keys::I32(keys) => bytemuck::cast_slice(keys),
            Keys::I64(keys) => bytemuck::cast_slice(keys),
        };
        (bytes.as_ptr(), bytes.len())
    }

    /// The numbers of the states of values with keys in the groups, and the places of these values.
    fn states(&self) -> impl Iterator<Item = (usize, usize)> {
        let inside = self.masks.iter().zip(self.places).enumerate();
        let inside = inside.filter(|(_, (mask, _))| **mask != 0);
        inside.map(|(place, (_, state))| (place, self.first + state))
    }
}

/// Checks keys: true if all are in the groups.
struct Checking<'a> {
    keys: &'a [i64],
    count: usize,
}

impl Vectorized for Checking<'_> {
    type Result = bool;

    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) -> bool {
        self.keys.iter().fold(true, |all, key| all & ((*key as u64) < self.count as u64))
    }
}

/// Finds the states of values.
struct Finding<'a, T> {
    keys: &'a [T],
    groups: Groups,
    into: &'a mut Found,
}

impl<T: Copy + Into<i64>> Vectorized for Finding<'_, T> {
    /// True if all keys are in the groups.
    type Result = bool;

    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) -> bool {
        let Finding { keys, groups: Groups { step, count, .. }, into } = self;
        // A multiplication in the loop would take as long as the rest.
        match step {
            0 => body(keys, count, into, |_| 0),
            _ => body(keys, count, into, |place| place * step),
        }
    }
}

/// Finds the states of values. `first` returns the distance of the state of key 0 for the value of a place.
#[inline(always)]
fn body<T: Copy + Into<i64>>(
    keys: &[T], count: usize, into: &mut Found, first: impl Fn(usize) -> usize,
) -> bool {
    let len = keys.len();
    let (places, masks) = (&mut into.places[..len], &mut into.masks[..len]);
    let mut all = -1;
    // Vectors: no branches.
    for place in 0..len {
        let key: i64 = keys[place].into();
        let mask = -i64::from((key as u64) < count as u64);
        places[place] = ((first(place) as i64 + key) & mask) as usize;
        masks[place] = mask;
        all &= mask;
    }
    all == -1
}

/// The states of a program's reduced outputs, the same number for each sum.
pub(crate) struct GroupStates {
    outputs: ArrayVec<Sums, MAX_OUTPUTS>,
    /// The states of each reduction of the [`BlockProgram`](super::BlockProgram), in the program's order.
    sums: Vec<Box<dyn ErasedGroups>>,
    found: Box<Found>,
}

impl GroupStates {
    /// A prototype without states, for the reduced outputs of a program.
    pub(crate) fn of<'o>(outputs: impl Iterator<Item = &'o Output>) -> Self {
        let (mut all, mut sums) = (ArrayVec::new(), Vec::new());
        for output in outputs {
            let Some(reduction) = output.reduction() else { continue };
            let (first, moments) = (sums.len(), Moments::of(output));
            match &moments {
                // Variances need the numbers of elements.
                Some(moments) => sums.extend(moments.sums().map(|(reduction, ty)| {
                    let counts = reduction == Reduction::Sum;
                    erased(if counts { Reduction::Mean } else { reduction }, ty, None)
                })),
                None => sums.push(erased(reduction, output.ty, output.conversion())),
            }
            all.push(Sums { numbers: first..sums.len(), moments });
        }
        GroupStates { outputs: all, sums, found: Box::new(Found::NEW) }
    }

    /// A prototype without states of exact sums that have their numbers of elements.
    pub(crate) fn of_sums(code: Code) -> Self {
        let sum = match code {
            Code::SumF32 => erased(Reduction::Mean, Type::F32, None),
            Code::SumF64 => erased(Reduction::Mean, Type::F64, None),
            Code::DotF32 => SumGroups::<Dot<f32>, Dot<f32>, [i64; 3]>::prototype(None),
            Code::DotF64 => SumGroups::<Dot<f64>, Dot<f64>, [i64; 5]>::prototype(None),
        };
        let outputs = [Sums { numbers: 0..1, moments: None }].into_iter().collect();
        GroupStates { outputs, sums: vec![sum], found: Box::new(Found::NEW) }
    }

    /// `count` states without elements for each sum.
    pub(crate) fn identities(&self, count: usize) -> Result<Self, NoMemory> {
        let sums = self.sums.iter().map(|states| states.identities(count));
        let sums = sums.collect::<Result<_, _>>()?;
        Ok(GroupStates { outputs: self.outputs.clone(), sums, found: Box::new(Found::NEW) })
    }

    /// The states of one of the block program's reductions.
    pub(super) fn sum_mut(&mut self, number: usize) -> &mut dyn ErasedGroups {
        &mut *self.sums[number]
    }

    /// The number of the first of `count` states that lacks an element in all tables and therefore a result.
    pub(crate) fn first_without_result(&self, tables: &[&Self], count: usize) -> Option<usize> {
        let of_sum = |sum: usize| {
            let tables: Vec<_> = tables.iter().map(|table| &*table.sums[sum]).collect();
            self.sums[sum].first_without_result(&tables, count)
        };
        (0..self.sums.len()).filter_map(of_sum).min()
    }

    /// Adds values to the states of their keys, for one of the block program's reductions. Returns the place of the
    /// first value whose key is outside the groups; such values are left out.
    pub(crate) fn add(
        &mut self, sum: usize, groups: Groups, isa: Isa, values: Values<'_>,
    ) -> Result<Option<usize>, NoMemory> {
        let mut outside = None;
        for first in (0..values.len()).step_by(BLOCK) {
            let block = self.found.block(isa, groups, values.keys(), first);
            if !block.is_inside && outside.is_none() {
                outside = block.masks.iter().position(|mask| *mask == 0).map(|at| first + at);
            }
            if groups.count > 0 {
                self.sums[sum].add(isa, &block, values.part(first, block.places.len()))?;
            }
        }
        Ok(outside)
    }

    /// The bits of the results of an output, for the elements of several tables. The results are of the states from
    /// number `first` on. If there are no tables, there are no elements.
    pub(crate) fn results(
        &self, tables: &[&Self], output: usize, first: usize, results: &mut [u64],
    ) {
        let Sums { numbers, moments } = &self.outputs[output];
        let of_sum = |sum: usize| -> Vec<&dyn ErasedGroups> {
            tables.iter().map(|table| &*table.sums[sum]).collect()
        };
        let Some(moments) = moments else {
            let sum = numbers.start;
            return self.sums[sum].results(&of_sum(sum), first, results);
        };
        let sums: Vec<_> = numbers.clone().map(|sum| (&self.sums[sum], of_sum(sum))).collect();
        for (state, result) in (first..).zip(results) {
            *result = moments.result(&mut |number, visit| {
                let (of, tables) = &sums[number];
                of.whole(tables, state, visit);
            });
        }
    }

    /// Calls `visit` with the number and the words of each state of the only sum that has elements, for the elements of
    /// several tables.
    pub(crate) fn for_each(
        &self, tables: &[&Self], count: usize, visit: &mut dyn FnMut(usize, &[i64]),
    ) {
        let tables: Vec<_> = tables.iter().map(|table| &*table.sums[0]).collect();
        for number in 0..count {
            self.sums[0].words(&tables, number, &mut |words| {
                if words[0] > 0 {
                    visit(number, words);
                }
            });
        }
    }
}

/// Converts the bits of a result.
type Conversion = fn(u64) -> u64;

/// A prototype without states, for a reduction of values of a type. `conversion` converts the bits of a result to the
/// type of the output array, if that is another one.
fn erased(reduction: Reduction, ty: Type, conversion: Option<Conversion>) -> Box<dyn ErasedGroups> {
    struct Erase(Option<Conversion>);

    impl ReductionVisitor for Erase {
        type Result = Box<dyn ErasedGroups>;

        fn visit<R: BlockReduction>(self) -> Self::Result {
            R::groups(self.0)
        }
    }

    visit(reduction, ty, Erase(conversion))
}

/// A table of the states of a reduction by key, with the type erased.
pub(crate) trait ErasedGroups: Any + Send + Sync {
    /// Makes `count` states of the same reduction without elements.
    fn identities(&self, count: usize) -> Result<Box<dyn ErasedGroups>, NoMemory>;

    /// Adds values to their states.
    fn add(&mut self, isa: Isa, block: &Block<'_>, values: Values<'_>) -> Result<(), NoMemory>;

    /// Merges a state that a kernel wrote into a state.
    fn merge_words(&mut self, number: usize, words: &[u8]) -> Result<(), NoMemory>;

    /// The number of the first of `count` states that lacks an element and therefore a result, such as a minimum's.
    ///
    /// # Panics
    /// If a table has another type.
    fn first_without_result(&self, _: &[&dyn ErasedGroups], _: usize) -> Option<usize> {
        None
    }

    /// The bits of the results of the states from number `first` on.
    ///
    /// # Panics
    /// As for `first_without_result`.
    fn results(&self, tables: &[&dyn ErasedGroups], first: usize, results: &mut [u64]);

    /// Calls `visit` with the state of a number.
    ///
    /// # Panics
    /// As for `results`.
    fn whole(&self, tables: &[&dyn ErasedGroups], number: usize, visit: &mut dyn FnMut(&dyn Any));

    /// Calls `visit` with the normalised words of an exact sum.
    ///
    /// # Panics
    /// As for `results`; if the reduction is another one.
    fn words(&self, _: &[&dyn ErasedGroups], _: usize, _: &mut dyn FnMut(&[i64])) {
        unreachable!("only exact sums have words")
    }
}

/// Tables with their type.
///
/// # Panics
/// If one has another type.
fn typed<'t, T: 'static>(tables: &[&'t dyn ErasedGroups]) -> Vec<&'t T> {
    let typed = tables.iter().map(|table| {
        let table: &dyn Any = *table;
        table.downcast_ref().expect("tables of the same type")
    });
    typed.collect()
}

/// The most tables of cells: each has another unit.
const MOST_TABLES: usize = 4;

/// Exact sums of the kind `K` with the results of `A`. Cells have the words `W`.
pub(super) struct SumGroups<K: Cellular, A, W> {
    count: usize,
    unit: CommonUnit,
    /// The last one takes further terms.
    cells: ArrayVec<Cells<W>, MOST_TABLES>,
    split: Option<Box<Split<W>>>,
    /// Sums of terms that cells do not hold.
    others: Sparse<State<K>>,
    /// The finite ones of these terms since the unit was chosen.
    missed: usize,
    conversion: Option<Conversion>,
    accumulator: PhantomData<fn() -> A>,
}

impl<K: Cellular<Element: Element>, A: OfSum<State = State<K>>, W: Words> SumGroups<K, A, W> {
    const COUNTS: bool = W::LEN > K::UNITS;

    pub(super) fn prototype(conversion: Option<Conversion>) -> Box<dyn ErasedGroups> {
        Box::new(SumGroups::<K, A, W> {
            count: 0,
            unit: CommonUnit::default(),
            cells: ArrayVec::new(),
            split: None,
            others: Sparse { places: Box::default(), states: Vec::new() },
            missed: 0,
            conversion,
            accumulator: PhantomData,
        })
    }

    /// The sum of the terms of all tables.
    fn sum(tables: &[&Self], number: usize) -> State<K> {
        let mut state = State::ZERO;
        for table in tables {
            table.cells.iter().for_each(|cells| cells.add_to::<K>(&mut state, number));
            table.others.get(number).into_iter().for_each(|other| state.merge(other));
        }
        state
    }
}

impl<K: Cellular<Element: Element>, A: OfSum<State = State<K>>, W: Words> ErasedGroups
    for SumGroups<K, A, W>
{
    fn identities(&self, count: usize) -> Result<Box<dyn ErasedGroups>, NoMemory> {
        Ok(Box::new(SumGroups::<K, A, W> {
            count,
            unit: self.unit.clone(),
            cells: [Cells::new(count)?].into_iter().collect(),
            split: Some(Box::new(Split::NEW)),
            others: Sparse { places: Box::default(), states: Vec::new() },
            missed: 0,
            conversion: self.conversion,
            accumulator: PhantomData,
        }))
    }

    fn add(&mut self, isa: Isa, block: &Block<'_>, values: Values<'_>) -> Result<(), NoMemory> {
        let (Some(cells), Some(split)) = (self.cells.last_mut(), &mut self.split) else {
            return Ok(());
        };
        let inputs = values.of::<K::Element>();
        cells.choose::<K>(&self.unit, inputs);
        let Block { first, places, masks, .. } = *block;
        let to = Places { first, places, masks, keys: block.keys() };
        if cells.add::<K>(isa, inputs, to, split)? {
            return Ok(());
        }
        for (place, number) in block.states().filter(|(place, _)| !split.holds(*place)) {
            let (a, b) = (inputs.a()[place], inputs.b()[place]);
            self.others.get_mut(number, self.count, State::ZERO)?.deposit(K::term_of(a, b));
            self.missed += usize::from(K::addends(a, b).0[0].is_finite());
        }
        if self.missed > self.count / 8 + 4 * BLOCK && !self.cells.is_full() {
            let mut cells = Cells::new(self.count)?;
            if cells.choose::<K>(&CommonUnit::default(), inputs) {
                self.cells.push(cells);
            }
            self.missed = 0;
        }
        Ok(())
    }

    fn merge_words(&mut self, number: usize, words: &[u8]) -> Result<(), NoMemory> {
        let state = A::from_words(bytemuck::pod_read_unaligned(words));
        self.others.get_mut(number, self.count, State::ZERO)?.merge(&state);
        Ok(())
    }

    fn results(&self, tables: &[&dyn ErasedGroups], first: usize, results: &mut [u64]) {
        let tables = typed::<Self>(tables);
        let cells: Vec<_> = tables.iter().flat_map(|table| &table.cells).collect();
        let cellwise = Cellwise::new(&cells);
        let have_others = tables.iter().any(|table| !table.others.states.is_empty());
        let in_cells =
            |number| have_others && tables.iter().any(|table| table.others.get(number).is_some());
        let of_none = A::finish(&State::ZERO);
        for (number, result) in (first..).zip(results) {
            let parts = match &cellwise {
                Some(cells) if !in_cells(number) => cells.parts::<K>(number),
                _ => None,
            };
            let value = match parts {
                Some((_, 0)) if Self::COUNTS => of_none,
                Some((parts, terms)) => A::of_parts(parts, terms),
                None => A::finish(&Self::sum(&tables, number)),
            };
            *result = self.conversion.map_or(value.bits(), |convert| convert(value.bits()));
        }
    }

    fn whole(&self, tables: &[&dyn ErasedGroups], number: usize, visit: &mut dyn FnMut(&dyn Any)) {
        visit(&Self::sum(&typed(tables), number));
    }

    fn words(&self, tables: &[&dyn ErasedGroups], number: usize, visit: &mut dyn FnMut(&[i64])) {
        let mut sum = Self::sum(&typed(tables), number);
        sum.normalise();
        visit(sum.words().as_ref());
    }
}

/// The states of a few of many groups.
struct Sparse<S> {
    /// For each group, the place of its state from 1 on, or 0 if it has none. Empty if no group has one.
    places: Box<[u32]>,
    states: Vec<S>,
}

impl<S> Sparse<S> {
    fn get(&self, number: usize) -> Option<&S> {
        self.states.get((*self.places.get(number)? as usize).checked_sub(1)?)
    }

    /// The state of one of `count` groups. A group without a state gets `identity`.
    fn get_mut(&mut self, number: usize, count: usize, identity: S) -> Result<&mut S, NoMemory> {
        if self.places.is_empty() {
            self.places = memory::zeroed(count)?;
        }
        let place = &mut self.places[number];
        if *place == 0 {
            self.states.try_reserve(1)?;
            self.states.push(identity);
            *place = u32::try_from(self.states.len()).map_err(|_| NoMemory)?;
        }
        Ok(&mut self.states[*place as usize - 1])
    }
}

/// A reduction that adds elements to a state one by one.
pub(super) trait FoldByKey: BlockReduction {
    type Element: Element;

    /// Adds an element or a pair to a state.
    fn include(state: &mut StateOf<Self>, a: Self::Element, b: Self::Element, index: usize);

    /// A prototype of the states of groups.
    fn prototype(conversion: Option<Conversion>) -> Box<dyn ErasedGroups>
    where
        Self: Sized,
    {
        Box::new(FoldGroups::<Self> { states: Vec::new(), is_begun: Vec::new(), conversion })
    }
}

/// States of groups to which elements are added one by one.
struct FoldGroups<R: BlockReduction> {
    states: Vec<StateOf<R>>,
    /// True for each state with elements, if a state without elements has no result. Otherwise empty.
    is_begun: Vec<bool>,
    conversion: Option<Conversion>,
}

impl<R: FoldByKey> FoldGroups<R> {
    fn state(tables: &[&Self], number: usize) -> StateOf<R> {
        let mut state = R::Accumulator::IDENTITY;
        tables.iter().for_each(|table| R::Accumulator::merge(&mut state, &table.states[number]));
        state
    }
}

impl<R: FoldByKey> ErasedGroups for FoldGroups<R> {
    fn identities(&self, count: usize) -> Result<Box<dyn ErasedGroups>, NoMemory> {
        let states = memory::filled(R::Accumulator::IDENTITY, count)?;
        let flags = if R::Accumulator::HAS_EMPTY_RESULT { 0 } else { count };
        let is_begun = memory::filled(false, flags)?;
        Ok(Box::new(FoldGroups::<R> { states, is_begun, conversion: self.conversion }))
    }

    fn add(&mut self, _: Isa, block: &Block<'_>, values: Values<'_>) -> Result<(), NoMemory> {
        let values = values.of::<R::Element>();
        let (a, b, [first, step]) = (values.a(), values.b(), block.index);
        let mut include = |place: usize, number: usize| {
            if !R::Accumulator::HAS_EMPTY_RESULT {
                self.is_begun[number] = true;
            }
            R::include(&mut self.states[number], a[place], b[place], first + place * step);
        };
        if block.is_inside {
            let states = block.places.iter().enumerate();
            states.for_each(|(place, state)| include(place, block.first + state));
        } else {
            block.states().for_each(|(place, number)| include(place, number));
        }
        Ok(())
    }

    fn merge_words(&mut self, number: usize, words: &[u8]) -> Result<(), NoMemory> {
        let words = &words[..size_of::<<R::Accumulator as Accumulator>::Words>()];
        let state = R::Accumulator::from_words(bytemuck::pod_read_unaligned(words));
        R::Accumulator::merge(&mut self.states[number], &state);
        if !R::Accumulator::HAS_EMPTY_RESULT {
            self.is_begun[number] = true;
        }
        Ok(())
    }

    fn first_without_result(&self, tables: &[&dyn ErasedGroups], count: usize) -> Option<usize> {
        let tables = typed::<Self>(tables);
        let is_begun = |number: &usize| tables.iter().any(|table| table.is_begun[*number]);
        let has_empty_result = R::Accumulator::HAS_EMPTY_RESULT;
        if has_empty_result { None } else { (0..count).find(|number| !is_begun(number)) }
    }

    fn results(&self, tables: &[&dyn ErasedGroups], first: usize, results: &mut [u64]) {
        let tables = typed::<Self>(tables);
        for (number, result) in (first..).zip(results) {
            let bits = R::Accumulator::finish(&Self::state(&tables, number)).bits();
            *result = self.conversion.map_or(bits, |convert| convert(bits));
        }
    }

    fn whole(&self, tables: &[&dyn ErasedGroups], number: usize, visit: &mut dyn FnMut(&dyn Any)) {
        visit(&Self::state(&typed(tables), number));
    }
}
