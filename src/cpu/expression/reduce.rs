//! The reductions of expressions: they add the values of each block to the state of an accumulator.

use super::compile::BlockProgram;
use super::groups::{ErasedGroups, FoldByKey, Keys, SumGroups};
use super::run::{Range, Scratch};
use super::slab::{Slab, SlabState, SumKind};
use super::two_parts::OfSum;
use crate::arch::Isa;
use crate::cpu::exact::{self, Bounded, Columns, Inputs, Vectorised};
use crate::cpu::fold::{fold, fold_columns};
use crate::policy::cores;
use gpuvec_exact::{Dot, State, Sum};
use gpuvec_expr::{Reduction, Type};
use gpuvec_ops::{
    Accumulator, All, Any, ArgMax, ArgMin, DotI32, DotI64, Element, Fold, Indexed, MaxF32, MaxF64,
    MaxI32, MaxI64, Mean, MinF32, MinF64, MinI32, MinI64, Norm, SumI32, SumI64, WrappingProduct,
    WrappingSum,
};
use std::marker::PhantomData;
use std::ptr::null;
use std::slice::from_raw_parts;

/// The values that a reduction takes, in pairs. A reduction of one array has it as both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    ty: Type,
    addresses: [*const u8; 2],
    /// NULL without keys.
    keys: *const u8,
    /// True if keys are i32, otherwise they are i64.
    has_short_keys: bool,
    len: usize,
    lifetime: PhantomData<&'a [u8]>,
}

impl<'a> Values<'a> {
    /// The values at two addresses.
    ///
    /// # Safety
    /// They have `len` aligned values of this type. Nothing changes them during the lifetime.
    pub(crate) unsafe fn new(ty: Type, addresses: [*const u8; 2], len: usize) -> Self {
        let (keys, has_short_keys) = (null(), false);
        Values { ty, addresses, keys, has_short_keys, len, lifetime: PhantomData }
    }

    /// The same values with the keys at an address, which are of type I32 or I64.
    ///
    /// # Safety
    /// There are as many aligned keys of this type, which nothing changes during the lifetime.
    pub(super) unsafe fn with_keys(self, ty: Type, keys: *const u8) -> Self {
        Values { keys, has_short_keys: ty == Type::I32, ..self }
    }

    /// The keys. None if the values have no keys.
    pub(crate) fn keys(self) -> Keys<'a> {
        match (self.keys.is_null(), self.has_short_keys) {
            (true, _) => Keys::I64(&[]),
            // SAFETY: `with_keys` was promised as many keys of this type.
            (false, true) => Keys::I32(unsafe { from_raw_parts(self.keys.cast(), self.len) }),
            // SAFETY: as above.
            (false, false) => Keys::I64(unsafe { from_raw_parts(self.keys.cast(), self.len) }),
        }
    }

    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// The `len` values from number `first` on.
    ///
    /// # Panics
    /// If there are fewer.
    pub(crate) fn part(self, first: usize, len: usize) -> Self {
        assert!(first + len <= self.len, "a part of the values");
        let addresses = self.addresses.map(|address| address.wrapping_add(first * self.ty.bytes()));
        let key_bytes = match (self.keys.is_null(), self.has_short_keys) {
            (true, _) => 0,
            (false, true) => size_of::<i32>(),
            (false, false) => size_of::<i64>(),
        };
        let keys = self.keys.wrapping_add(first * key_bytes);
        Values { addresses, keys, len, ..self }
    }

    /// The values with their type.
    ///
    /// # Panics
    /// If they are of another type.
    pub(super) fn of<T: Element>(self) -> Inputs<'a, T> {
        assert_eq!(self.ty, T::TYPE);
        // SAFETY: `new` was promised `len` values of the type.
        let [a, b] = self.addresses.map(|at| unsafe { from_raw_parts(at.cast(), self.len) });
        Inputs::new(a, b)
    }
}

/// The values that reductions of columns take: rows of one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueColumns<'a> {
    ty: Type,
    addresses: [*const u8; 2],
    /// The bytes from a row to the next.
    strides: [isize; 2],
    rows: usize,
    len: usize,
    lifetime: PhantomData<&'a [u8]>,
}

impl<'a> ValueColumns<'a> {
    /// The columns of `rows` rows of `len` values, with these bytes between rows.
    ///
    /// # Safety
    /// As for [`Values::new`], of each row.
    pub(crate) unsafe fn new(
        ty: Type, addresses: [*const u8; 2], strides: [isize; 2], rows: usize, len: usize,
    ) -> Self {
        ValueColumns { ty, addresses, strides, rows, len, lifetime: PhantomData }
    }

    /// The columns of contiguous rows of `len` values.
    pub(crate) fn of(values: Values<'a>, len: usize) -> Self {
        let Values { ty, addresses, .. } = values;
        let stride = (len * ty.bytes()) as isize;
        let rows = values.len / len;
        ValueColumns { ty, addresses, strides: [stride; 2], rows, len, lifetime: PhantomData }
    }

    /// The values with their type.
    ///
    /// # Panics
    /// If they are of another type.
    fn typed<T: Element>(self) -> Columns<'a, T> {
        assert_eq!(self.ty, T::TYPE);
        // SAFETY: `new` was promised these values of the type.
        unsafe {
            Columns::new(self.addresses.map(<*const u8>::cast), self.strides, self.rows, self.len)
        }
    }
}

/// The operations on the states of a reduction.
#[derive(Clone, Copy)]
pub(crate) struct States<S> {
    pub(crate) identity: fn() -> S,
    pub(crate) merge: fn(&mut S, &S),
    pub(crate) from_words: fn(&[u8]) -> S,
}

impl<S> States<S> {
    pub(crate) fn of<A: Accumulator<State = S>>() -> Self {
        States {
            identity: || A::IDENTITY,
            merge: A::merge,
            from_words: |words| A::from_words(bytemuck::pod_read_unaligned(words)),
        }
    }
}

/// Reduces the arrays of a call.
pub(crate) trait Reducer {
    type Error;

    /// Returns the state of all elements. `add` adds elements to a state.
    fn reduce<S: Copy + Send + Sync>(
        &self, states: States<S>, add: Add<S>,
    ) -> Result<S, Self::Error>;
}

/// A reduction of values of one type. A type stands for each such reduction.
pub(crate) trait BlockReduction: 'static {
    type Accumulator: Accumulator<State: SlabState>;

    /// Adds values to a state. `first` is the index of the first value in the whole array.
    fn add(
        isa: Isa, state: &mut <Self::Accumulator as Accumulator>::State, values: Values<'_>,
        first: usize,
    );

    /// Adds columns to the states from number `state` on. `first` is the index of the first row.
    fn add_columns(
        isa: Isa, slab: &mut Slab<StateOf<Self>>, state: usize, columns: ValueColumns<'_>,
        first: usize,
    );

    /// A prototype of the states of groups. `conversion` converts the bits of a result.
    fn groups(conversion: Option<fn(u64) -> u64>) -> Box<dyn ErasedGroups>;

    /// The result of one row, which has all its elements in `values`.
    fn row(isa: Isa, values: Values<'_>) -> <Self::Accumulator as Accumulator>::Result {
        let mut state = Self::Accumulator::IDENTITY;
        Self::add(isa, &mut state, values, 0);
        Self::Accumulator::finish(&state)
    }

    /// The result of an exact sum in two parts.
    fn of_parts(_: [f64; 2], _: usize) -> <Self::Accumulator as Accumulator>::Result {
        unreachable!("other states have no lanes")
    }

    /// Computes the result of all values without a state, if that is possible.
    const RESULT: Option<ResultOf<<Self::Accumulator as Accumulator>::Result>> = None;

    /// The result from sums with an error bound, which take less time than exact sums. `None` if the bound leaves more
    /// than one result (Ziv's test).
    fn bounded<R: Reducer>(
        _: &R,
    ) -> Result<Option<<Self::Accumulator as Accumulator>::Result>, R::Error> {
        Ok(None)
    }
}

/// The state of a reduction.
pub(crate) type StateOf<R> = <<R as BlockReduction>::Accumulator as Accumulator>::State;

/// Computes the result of values.
pub(crate) type ResultOf<T> = fn(Isa, Values<'_>) -> T;

/// Code that is generic over a reduction, for reductions known only at run time.
pub(crate) trait ReductionVisitor {
    type Result;
    fn visit<R: BlockReduction>(self) -> Self::Result;
}

/// [`BlockReduction::add`] of a reduction with states of type `S`.
pub(crate) type Add<S> = fn(Isa, &mut S, Values<'_>, usize);

/// Adds values to the state of a program's reduction. The first argument is the reduction's number.
pub(crate) type AddValues<'a> = dyn FnMut(usize, Isa, Values<'_>, usize) + 'a;

impl BlockProgram {
    /// The instruction set for which the program was compiled.
    pub(crate) fn isa(&self) -> Isa {
        self.isa
    }

    /// The types of the values that reductions take, and the numbers of the inputs with these values. Empty if the
    /// program computes anything from its inputs.
    pub(crate) fn reduced_arrays(&self) -> impl Iterator<Item = (Type, [usize; 2])> {
        let reduced = self.reduced.iter().filter(|_| self.steps.is_empty());
        reduced.map(|reduced| (reduced.ty, reduced.places.map(|place| usize::from(place.index))))
    }

    /// Runs the program over a range: calls `add` with the values that each reduction takes, block by block, and stores
    /// the elementwise outputs. `first` is the index of the range's first element in the whole arrays.
    pub(crate) fn accumulate(
        &self, scratch: &mut Scratch, range: Range<'_>, first: usize, add: &mut AddValues<'_>,
    ) {
        let mut each = |number: usize, [a, b, keys]: [*const u8; 3], start, len| {
            let reduced = &self.reduced[number];
            // SAFETY: the run passes the addresses of `len` values, and changes them only after this call.
            let mut values = unsafe { Values::new(reduced.ty, [a, b], len) };
            if let Some((_, ty)) = reduced.keys {
                // SAFETY: as above.
                values = unsafe { values.with_keys(ty, keys) };
            }
            add(number, self.isa, values, first + start);
        };
        self.run(scratch, range, &mut each);
    }
}

/// Adds values to an exact sum.
pub(crate) fn add_exactly<K: Vectorised<Element: Element>>(
    isa: Isa, state: &mut State<K>, values: Values<'_>, _: usize,
) {
    exact::accumulate::<K, exact::All>(isa, state, values.of());
}

/// The reduction with the accumulator `A`, which computes its result from an exact sum of the kind `K`.
pub(crate) struct Exact<K, A = K>(PhantomData<(K, A)>);

impl<K, A> BlockReduction for Exact<K, A>
where
    K: SumKind<Element: Element>,
    A: OfSum<State = State<K>>,
    State<K>: SlabState,
{
    type Accumulator = A;

    fn add(isa: Isa, state: &mut State<K>, values: Values<'_>, first: usize) {
        add_exactly(isa, state, values, first);
    }

    fn add_columns(
        isa: Isa, slab: &mut Slab<State<K>>, state: usize, columns: ValueColumns<'_>, _: usize,
    ) {
        K::add_columns(isa, slab, state, columns.typed());
    }

    fn groups(conversion: Option<fn(u64) -> u64>) -> Box<dyn ErasedGroups> {
        SumGroups::<K, A, A::Cell>::prototype(conversion)
    }

    fn row(isa: Isa, values: Values<'_>) -> A::Result {
        if let Some(parts) = K::row(isa, values.of()) {
            return A::of_parts(parts, values.len);
        }
        if let Some(result) = A::OF_VALUES {
            return result(isa, values);
        }
        let mut state = State::ZERO;
        add_exactly::<K>(isa, &mut state, values, 0);
        A::finish(&state)
    }

    fn of_parts(parts: [f64; 2], terms: usize) -> A::Result {
        A::of_parts(parts, terms)
    }

    const RESULT: Option<ResultOf<A::Result>> = A::OF_VALUES;

    /// A greater sum has no smaller result, so that the ends of the sum's interval give the ends of the result's.
    fn bounded<R: Reducer>(reducer: &R) -> Result<Option<A::Result>, R::Error> {
        if !K::PRODUCTS {
            return Ok(None);
        }
        let states = States {
            identity: || Bounded::<K>::ZERO,
            merge: Bounded::merge,
            from_words: |_| unreachable!("devices' sums are exact"),
        };
        let add: Add<Bounded<K>> = |isa, sum, values, _| sum.accumulate(isa, values.of());
        let Some(ends) = reducer.reduce(states, add)?.ends() else { return Ok(None) };
        let [least, most] = ends.map(|end| A::finish(&end));
        Ok((least.bits() == most.bits()).then_some(least))
    }
}

/// A reduction with a state of one value.
struct Folding<O>(PhantomData<O>);

impl<O: Fold<Output: SlabState> + Default> BlockReduction for Folding<O> {
    type Accumulator = O::Accumulator;

    fn add(isa: Isa, state: &mut O::Output, values: Values<'_>, _: usize) {
        O::Accumulator::merge(state, &fold(isa, O::default(), values.of()));
    }

    fn add_columns(
        isa: Isa, slab: &mut Slab<O::Output>, state: usize, columns: ValueColumns<'_>, _: usize,
    ) {
        let states = slab.states(state, columns.len);
        fold_columns(isa, O::default(), states, columns.typed());
    }

    fn groups(conversion: Option<fn(u64) -> u64>) -> Box<dyn ErasedGroups> {
        Self::prototype(conversion)
    }
}

impl<O: Fold<Output: SlabState> + Default> FoldByKey for Folding<O> {
    type Element = O::Element;

    #[inline(always)]
    fn include(state: &mut O::Output, a: O::Element, b: O::Element, _: usize) {
        O::default().fold(state, a, b);
    }
}

/// The index of the first least or greatest value. `O` finds the value.
struct First<A, O>(PhantomData<(A, O)>);

impl<A, O> BlockReduction for First<A, O>
where
    A: Accumulator<State = Indexed<O::Element>>,
    Indexed<O::Element>: SlabState,
    O: Fold<Output = <O as gpuvec_ops::Operation>::Element> + Default,
{
    type Accumulator = A;

    fn add(isa: Isa, state: &mut A::State, values: Values<'_>, first: usize) {
        let wins = |value, index: usize, over: A::State| {
            let mut merged = over;
            A::merge(&mut merged, &Indexed { value, index: index as i64 });
            merged.index != over.index
        };
        for (part, start) in values
            .of::<O::Element>()
            .a()
            .chunks(cores::INDEXED_VALUES)
            .zip((first..).step_by(cores::INDEXED_VALUES))
        {
            let best = fold(isa, O::default(), Inputs::new(part, part));
            if !wins(best, start, *state) {
                continue;
            }
            let later = Indexed { value: best, index: 1 };
            let place = part.iter().position(|&value| wins(value, 0, later)).unwrap_or(0);
            let found = Indexed { value: part[place], index: (start + place) as i64 };
            A::merge(state, &found);
        }
    }

    fn add_columns(
        _: Isa, slab: &mut Slab<A::State>, state: usize, columns: ValueColumns<'_>, first: usize,
    ) {
        let states = slab.states(state, columns.len);
        let columns = columns.typed::<O::Element>();
        for row in 0..columns.rows() {
            let index = (first + row) as i64;
            for (state, &value) in states.iter_mut().zip(columns.row(row).a()) {
                A::merge(state, &Indexed { value, index });
            }
        }
    }

    fn groups(conversion: Option<fn(u64) -> u64>) -> Box<dyn ErasedGroups> {
        Self::prototype(conversion)
    }
}

impl<A, O> FoldByKey for First<A, O>
where
    A: Accumulator<State = Indexed<O::Element>>,
    Indexed<O::Element>: SlabState,
    O: Fold<Output = <O as gpuvec_ops::Operation>::Element> + Default,
{
    type Element = O::Element;

    #[inline(always)]
    fn include(state: &mut A::State, value: O::Element, _: O::Element, index: usize) {
        A::merge(state, &Indexed { value, index: index as i64 });
    }
}

/// Adds each row's values to the columns' states.
fn add_rows<T: Element>(
    slab: &mut Slab<i64>, state: usize, columns: ValueColumns<'_>, add: impl Fn(&mut i64, T),
) {
    let states = slab.states(state, columns.len);
    let columns = columns.typed::<T>();
    for row in 0..columns.rows() {
        states.iter_mut().zip(columns.row(row).a()).for_each(|(state, &value)| add(state, value));
    }
}

/// The number of bools that are `IS`.
struct Counting<A, const IS: bool>(PhantomData<A>);

impl<A: Accumulator<State = i64>, const IS: bool> BlockReduction for Counting<A, IS> {
    type Accumulator = A;

    fn add(_: Isa, state: &mut i64, values: Values<'_>, _: usize) {
        // The count of a lane fits into a byte.
        let rows = values.of::<bool>().a().chunks(255 * 64);
        let trues = rows.map(|rows| {
            let mut lanes = [0u8; 64];
            for row in rows.chunks(64) {
                lanes.iter_mut().zip(row).for_each(|(lane, &is_true)| *lane += u8::from(is_true));
            }
            lanes.iter().map(|&lane| i64::from(lane)).sum::<i64>()
        });
        let trues: i64 = trues.sum();
        *state += if IS { trues } else { values.len() as i64 - trues };
    }

    fn add_columns(
        _: Isa, slab: &mut Slab<i64>, state: usize, columns: ValueColumns<'_>, _: usize,
    ) {
        add_rows(slab, state, columns, |trues, is_true: bool| *trues += i64::from(is_true == IS));
    }

    fn groups(conversion: Option<fn(u64) -> u64>) -> Box<dyn ErasedGroups> {
        Self::prototype(conversion)
    }
}

impl<A: Accumulator<State = i64>, const IS: bool> FoldByKey for Counting<A, IS> {
    type Element = bool;

    #[inline(always)]
    fn include(state: &mut i64, is_true: bool, _: bool, _: usize) {
        *state += i64::from(is_true == IS);
    }
}

/// The product of integers.
struct Product<T>(PhantomData<T>);

impl<T: Element + Into<i64>> BlockReduction for Product<T> {
    type Accumulator = WrappingProduct;

    fn add(_: Isa, state: &mut i64, values: Values<'_>, _: usize) {
        // Several lanes, since a multiplication must wait for the previous one of its lane.
        let mut lanes = [1_i64; 8];
        for row in values.of::<T>().a().chunks(lanes.len()) {
            for (lane, &value) in lanes.iter_mut().zip(row) {
                *lane = lane.wrapping_mul(value.into());
            }
        }
        lanes.iter().for_each(|lane| WrappingProduct::merge(state, lane));
    }

    fn add_columns(
        _: Isa, slab: &mut Slab<i64>, state: usize, columns: ValueColumns<'_>, _: usize,
    ) {
        add_rows(slab, state, columns, |product, value: T| {
            *product = product.wrapping_mul(value.into());
        });
    }

    fn groups(conversion: Option<fn(u64) -> u64>) -> Box<dyn ErasedGroups> {
        Self::prototype(conversion)
    }
}

impl<T: Element + Into<i64>> FoldByKey for Product<T> {
    type Element = T;

    #[inline(always)]
    fn include(product: &mut i64, value: T, _: T, _: usize) {
        *product = product.wrapping_mul(value.into());
    }
}

/// Calls the visitor with the reduction of values of a type.
///
/// # Panics
/// If the language has no such reduction.
pub(crate) fn visit<V: ReductionVisitor>(reduction: Reduction, ty: Type, visitor: V) -> V::Result {
    macro_rules! rows {
        ($($reduction:ident $ty:ident: $row:ty;)+) => {
            match (reduction, ty) {
                $((Reduction::$reduction, Type::$ty) => visitor.visit::<$row>(),)+
                _ => unreachable!("the language has no {reduction:?} of {ty}"),
            }
        };
    }
    rows! {
        Sum F32: Exact<Sum<f32>>;
        Sum F64: Exact<Sum<f64>>;
        Sum I32: Folding<SumI32>;
        Sum I64: Folding<SumI64>;
        Mean F32: Exact<Sum<f32>, Mean<f32>>;
        Mean F64: Exact<Sum<f64>, Mean<f64>>;
        Dot F32: Exact<Dot<f32>>;
        Dot F64: Exact<Dot<f64>>;
        Dot I32: Folding<DotI32>;
        Dot I64: Folding<DotI64>;
        Prod I32: Product<i32>;
        Prod I64: Product<i64>;
        Norm F32: Exact<Dot<f32>, Norm<f32>>;
        Norm F64: Exact<Dot<f64>, Norm<f64>>;
        Min F32: Folding<MinF32>;
        Min F64: Folding<MinF64>;
        Min I32: Folding<MinI32>;
        Min I64: Folding<MinI64>;
        Max F32: Folding<MaxF32>;
        Max F64: Folding<MaxF64>;
        Max I32: Folding<MaxI32>;
        Max I64: Folding<MaxI64>;
        ArgMin F32: First<ArgMin<f32>, MinF32>;
        ArgMin F64: First<ArgMin<f64>, MinF64>;
        ArgMin I32: First<ArgMin<i32>, MinI32>;
        ArgMin I64: First<ArgMin<i64>, MinI64>;
        ArgMax F32: First<ArgMax<f32>, MaxF32>;
        ArgMax F64: First<ArgMax<f64>, MaxF64>;
        ArgMax I32: First<ArgMax<i32>, MaxI32>;
        ArgMax I64: First<ArgMax<i64>, MaxI64>;
        Any Bool: Counting<Any, true>;
        All Bool: Counting<All, false>;
        Count Bool: Counting<WrappingSum, true>;
    }
}
