//! Additions to accumulators: of contiguous arrays to one sum, and of arrays of any strides along axes.
//!
//! Along axes, the elements are added to new states, which are then added to the accumulator's own, so that an error
//! leaves the accumulator unchanged. Cores add arrays in host memory. The GPU that holds arrays, or that the placement
//! demands, reduces them to states, which the host merges. If states have more bytes than their elements, the elements
//! are copied from device memory, chunk by chunk, and cores add them.

use super::evaluate::{
    Checked, Given, GivenArray, Strided, evaluate_part, gpuvec_array, is_contiguous,
    saturated_elements,
};
use super::log::{self, Subject};
use super::work::NO_BUFFERS;
use super::{accumulate, last_run};
use crate::call::{Array, Input, MemoryKind};
use crate::cpu::expression::OutputStates;
use crate::cuda::device;
use crate::error::Error;
use crate::objects::accumulator::{Accumulator, Shape};
use crate::objects::expression::{self, Expression, Refused};
use crate::objects::stream::{gpuvec_stream, synchronize};
use crate::policy::CORES;
use crate::process::memory;
use crate::process::settings::{self, Placement};
use arrayvec::ArrayVec;
use gpuvec_axes::{Axes, MAX_RANK, View, c_order};
use gpuvec_exact::State;
use gpuvec_expr::{Element, Form};
use gpuvec_ops::{DotF32, DotF64, Exact, Op, SumF32, SumF64};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// The most arrays whose elements are added.
const MOST_INPUTS: usize = 2;

/// Adds the terms of contiguous arrays to the only sum of an accumulator, at once.
///
/// # Safety
/// As [`Arguments::new`](crate::call::Arguments::new). There are as many inputs as the accumulator's operation has.
pub(crate) unsafe fn accumulate_contiguous(
    accumulator: &Accumulator, inputs: &[Input], n: usize, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    // SAFETY: this function's promise.
    unsafe {
        match accumulator.op() {
            Op::SumF32 => add_terms::<SumF32>(accumulator, inputs, n, stream),
            Op::DotF32 => add_terms::<DotF32>(accumulator, inputs, n, stream),
            Op::SumF64 => add_terms::<SumF64>(accumulator, inputs, n, stream),
            _ => add_terms::<DotF64>(accumulator, inputs, n, stream),
        }
    }
}

/// Adds the terms of an operation to an accumulator of its kind.
///
/// # Safety
/// As [`accumulate_contiguous`].
unsafe fn add_terms<O: Exact>(
    accumulator: &Accumulator, inputs: &[Input], n: usize, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let mut state = State::<O::Kind>::ZERO;
    // SAFETY: this function's promise.
    unsafe { accumulate::<O>(inputs, n, stream, &mut state)? };
    accumulator.add_words(state.words().as_ref())
}

/// Adds elements of arrays of any strides to the sums of an accumulator: to each those that have its index along the
/// axes that are not reduced. There are no outputs.
///
/// # Safety
/// As [`evaluate_strided`](super::evaluate_strided), of the inputs of the accumulator's operation.
pub(crate) unsafe fn accumulate_strided(
    accumulator: &Accumulator, strided: &Strided<'_>, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let op = accumulator.op();
    log::begin(Subject::Accumulator(Some(op)), saturated_elements(strided.shape));
    check_shape(strided, accumulator.shape())?;
    let expression = &*expression(op)?;
    // A placeholder for results, which nothing writes. Its strides put the states in the accumulator's order.
    let results = gpuvec_array { data: accumulator.address(), strides: null() };
    let strided = &Strided { outputs: &raw const results, ..*strided };
    // SAFETY: this function's promise.
    let mut part = unsafe { Part::read(expression, strided)? };
    let Some(axes) = part.axes.filter(|axes| axes.reduced().elements() > 0) else {
        last_run::clear();
        return Ok(());
    };
    let (inputs, outputs) = part.views.split_at(op.inputs());
    if is_contiguous(&expression.formula, &axes, inputs, outputs) {
        part.given.bindings.place_at(inputs);
        let (inputs, n) = (&part.given.bindings.arrays, axes.reduced().elements());
        // SAFETY: this function's promise.
        return unsafe { accumulate_contiguous(accumulator, inputs, n, stream) };
    }
    let bindings = &part.given.bindings;
    let checked = Checked::new(expression, bindings, &axes, &part.views, stream)?;
    let placement = settings::placement()?;
    if placement == Placement::Gpu {
        device::usable()?;
    }
    let states = states(expression, axes.kept().elements())?;
    let kinds = checked.arrays.iter().map(|array| array.kind);
    let is_copied = |kind| matches!(kind, MemoryKind::Device { .. });
    // SAFETY: this function's promise.
    let states = unsafe {
        if are_added_on_gpus(op, axes.reduced().elements(), &checked.arrays, placement) {
            add_to(states, 0, &checked, true)?
        } else if kinds.clone().any(is_copied) {
            synchronize(stream)?;
            let arrays = part.given.arrays[..op.inputs()].iter().zip(kinds);
            let source = |(array, kind)| Source::new(array, strided.shape, op, is_copied(kind));
            let sources = arrays.map(source).collect::<Result<Sources, _>>()?;
            add_chunks(states, expression, strided, sources, &*of_arrays(op, "a", 1)?)?
        } else {
            add_to(states, 0, &checked, false)?
        }
    };
    accumulator.add_states(states.sum(0))
}

/// True if GPUs add `n` elements to each sum: the placement demands it or a device holds arrays, and a state has no more
/// bytes than these elements. A device does not access arrays of another device. (On an H100,
/// 100,000 sums of 75 elements: f32 7.2 ms, 11.1 by copies for cores; products of f64 97 to 103 ms, 99 to 254 by
/// copies.)
fn are_added_on_gpus(op: Op, n: usize, arrays: &[Array], placement: Placement) -> bool {
    let mut devices = arrays.iter().filter_map(Array::device);
    let first = devices.next();
    let bytes = n.saturating_mul(op.inputs() * op.element_bytes());
    (placement == Placement::Gpu || first.is_some())
        && devices.all(|device| Some(device) == first)
        && op.state_bytes() <= bytes
}

/// Fails unless the lengths of the axes that are not reduced are those wanted.
fn check_shape(strided: &Strided<'_>, wanted: &[i64]) -> Result<(), Error> {
    let kept = |axis: &usize| strided.reduced_axes >> axis & 1 == 0;
    let kept: ArrayVec<usize, MAX_RANK> = (0..strided.shape.len()).filter(kept).collect();
    if kept.len() != wanted.len() {
        return Err(Error::KeptAxes { found: kept.len(), wanted: wanted.len() });
    }
    for (own, (axis, wanted)) in kept.into_iter().zip(wanted.iter().copied()).enumerate() {
        let found = strided.shape[axis];
        if found != wanted {
            return Err(Error::KeptLength { axis, found, own, wanted });
        }
    }
    Ok(())
}

/// An expression of arrays of an operation's type, which are all of its inputs.
fn of_arrays(op: Op, text: &str, count: usize) -> Result<Arc<Expression>, Error> {
    let element = if op.element_bytes() == 4 { Element::F32 } else { Element::F64 };
    let input = |name| ::gpuvec_expr::Input { name, element, form: Form::Array };
    let compiled = expression::compiled(text, &[input("a"), input("b")][..count]);
    compiled.map_err(|refused| match refused {
        Refused::Other(error) => error,
        Refused::Expression(_) => Error::Internal { text: "an expression of the library" },
    })
}

/// The reduction by which cores add terms.
fn expression(op: Op) -> Result<Arc<Expression>, Error> {
    let text = if op.inputs() == 1 { "sum(a)" } else { "dot(a, b)" };
    of_arrays(op, text, op.inputs())
}

/// That number of states without elements, of an expression's reduction.
fn states(expression: &Expression, count: usize) -> Result<OutputStates, Error> {
    const NO_REDUCTION: Error = Error::Internal { text: "no reduction to add terms" };
    if !memory::is_left() {
        return Err(NO_BUFFERS);
    }
    let [output] = expression.formula.program().outputs() else { return Err(NO_REDUCTION) };
    let of_none = OutputStates::of(std::iter::once(output));
    let bytes = count.saturating_mul(of_none.largest_bytes().unwrap_or(0));
    let purpose = "the states of an addition";
    of_none.identities(count).map_err(|_| Error::OutOfHostMemory { bytes, purpose })
}

/// Adds the elements of a call's arrays to states, from number `first` on, and returns them: on cores, or on GPUs.
///
/// # Safety
/// As [`Checked::reducing`].
unsafe fn add_to(
    states: OutputStates, first: usize, checked: &Checked<'_>, on_gpus: bool,
) -> Result<OutputStates, Error> {
    // SAFETY: this function's promise.
    unsafe {
        let reducing = checked.reducing()?.adding_to(states, first);
        checked.reduce_to_states(reducing, on_gpus)?.into_states()
    }
}

/// The whole or a part of the arrays of a call, with the views of the inputs and of the place of the results.
struct Part<'a> {
    given: Given<'a>,
    views: ArrayVec<View, { MOST_INPUTS + 1 }>,
    /// None without results.
    axes: Option<Axes>,
}

impl<'a> Part<'a> {
    /// # Safety
    /// As [`accumulate_strided`].
    unsafe fn read(expression: &Expression, strided: &Strided<'a>) -> Result<Self, Error> {
        let mut given = Given::new(strided.shape);
        // SAFETY: this function's promise.
        unsafe { given.read(expression, strided)? };
        let mut views: ArrayVec<_, _> = given.arrays.iter().map(|_| View::default()).collect();
        let axes = given.axes(expression, strided.reduced_axes, &mut views)?;
        Ok(Part { given, views, axes })
    }
}

/// Adds the elements of arrays to states, chunk by chunk, and returns the states. The expression `copy` copies elements
/// that the host cannot access.
///
/// # Safety
/// As [`accumulate_strided`]; the sources are the inputs.
unsafe fn add_chunks(
    mut states: OutputStates, expression: &Expression, strided: &Strided<'_>, mut sources: Sources,
    copy: &Expression,
) -> Result<OutputStates, Error> {
    let Strided { shape, reduced_axes, .. } = *strided;
    for chunk in chunks(shape, CORES.copied_chunk as i64) {
        let mut inputs = ArrayVec::<gpuvec_array, MOST_INPUTS>::new();
        for source in &mut sources {
            // SAFETY: this function's promise.
            inputs.push(unsafe { source.chunk(&chunk, copy)? });
        }
        let strided = Strided { shape: &chunk.lengths, inputs: inputs.as_ptr(), ..*strided };
        // SAFETY: this function's promise, of the elements of the chunk, or copies of them.
        states = unsafe {
            let Part { given, views, axes } = Part::read(expression, &strided)?;
            let axes = axes.ok_or(Error::Internal { text: "a chunk without elements" })?;
            let checked = Checked::new(expression, &given.bindings, &axes, &views, null_mut())?;
            add_to(states, chunk.first_kept(shape, reduced_axes), &checked, false)?
        };
    }
    Ok(states)
}

/// An array whose elements are added.
struct Source {
    data: *mut c_void,
    strides: Shape,
    /// Memory for the elements of a chunk, unless the host reaches the array.
    copy: Option<Vec<u64>>,
}

type Sources = ArrayVec<Source, MOST_INPUTS>;

impl Source {
    /// An array of that shape.
    fn new(array: &GivenArray<'_>, shape: &[i64], op: Op, is_copied: bool) -> Result<Self, Error> {
        let mut strides = [0; MAX_RANK];
        let strides = match array.strides {
            None => c_order(shape, op.element_bytes(), &mut strides).iter().copied().collect(),
            Some(strides) => strides.iter().copied().map(i64::from_ne_bytes).collect(),
        };
        let elements = saturated_elements(shape).min(CORES.copied_chunk);
        let copy = is_copied.then(|| words(elements)).transpose()?;
        Ok(Source { data: array.data, strides, copy })
    }

    /// The elements of a chunk where the host reaches them: where they are, or copied by the expression `copy`.
    ///
    /// # Safety
    /// The array has the elements, as [`accumulate_strided`] demands.
    unsafe fn chunk(&mut self, chunk: &Region, copy: &Expression) -> Result<gpuvec_array, Error> {
        let steps = chunk.first.iter().zip(&self.strides).map(|(index, stride)| index * stride);
        let data = self.data.wrapping_byte_offset(steps.sum::<i64>() as isize);
        let there = gpuvec_array { data, strides: self.strides.as_ptr() };
        let Some(words) = &mut self.copy else { return Ok(there) };
        let here = gpuvec_array { data: words.as_mut_ptr().cast(), strides: null() };
        let (inputs, outputs) = (&raw const there, &raw const here);
        let strided = Strided::new(&chunk.lengths, inputs, outputs, 0);
        // SAFETY: this function's promise; the copy has room for the elements.
        unsafe { evaluate_part(copy, &strided, null_mut())? };
        Ok(here)
    }
}

/// Memory for that number of values.
fn words(count: usize) -> Result<Vec<u64>, Error> {
    let (bytes, purpose) = (count * size_of::<u64>(), "copies of arrays in device memory");
    let mut words = Vec::new();
    words.try_reserve_exact(count).map_err(|_| Error::OutOfHostMemory { bytes, purpose })?;
    words.resize(count, 0);
    Ok(words)
}

/// A part of the elements of a shape.
struct Region {
    /// The indexes of the first element.
    first: Shape,
    lengths: Shape,
}

impl Region {
    /// The number of the first element in the C order of the axes that are not reduced. (The region has whole rows of
    /// the innermost axes, so its elements have consecutive numbers.)
    fn first_kept(&self, shape: &[i64], reduced_axes: u64) -> usize {
        let kept = |axis: &usize| reduced_axes >> axis & 1 == 0;
        let next = |number, axis: usize| number * shape[axis] + self.first[axis];
        (0..shape.len()).filter(kept).fold(0, next) as usize
    }
}

/// A partition of a shape, which has elements, into regions of at most `most`: of as many whole rows of the innermost
/// axes as these are, or a part of a row that is longer.
fn chunks(shape: &[i64], most: i64) -> impl Iterator<Item = Region> {
    let (mut row, mut cut) = (1i64, shape.len());
    while cut > 0 && row.saturating_mul(shape[cut - 1]) <= most {
        cut -= 1;
        row *= shape[cut];
    }
    let rows = most / row;
    let mut next: Option<Shape> = Some(shape.iter().map(|_| 0).collect());
    std::iter::from_fn(move || {
        let mut first = next.take()?;
        let along = |axis: usize| match axis {
            _ if axis >= cut => shape[axis],
            _ if axis + 1 == cut => rows.min(shape[axis] - first[axis]),
            _ => 1,
        };
        let lengths = (0..shape.len()).map(along).collect();
        let region = Region { first: first.clone(), lengths };
        for axis in (0..cut).rev() {
            first[axis] += region.lengths[axis];
            if first[axis] < shape[axis] {
                next = Some(first);
                break;
            }
            first[axis] = 0;
        }
        Some(region)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chunks_have_each_element_once_and_follow_each_other(
            shape in prop::collection::vec(1i64..6, 0..5), most in 1i64..40, reduced_axes in 0u64..32,
        ) {
            let elements: i64 = shape.iter().product();
            let whole = Region { first: shape.iter().map(|_| 0).collect(), lengths: shape.iter().copied().collect() };
            prop_assert_eq!(whole.first_kept(&shape, reduced_axes), 0);
            let mut walked = 0;
            for region in chunks(&shape, most) {
                prop_assert_eq!(region.first_kept(&shape, 0), walked as usize);
                let in_region: i64 = region.lengths.iter().product();
                prop_assert!((1..=most).contains(&in_region));
                walked += in_region;
            }
            prop_assert_eq!(walked, elements);
        }
    }

    #[test]
    fn a_chunk_of_reduced_rows_begins_at_its_kept_elements() {
        let firsts = |reduced_axes| -> Vec<usize> {
            let region = |region: Region| region.first_kept(&[2, 4, 3], reduced_axes);
            chunks(&[2, 4, 3], 6).map(region).collect()
        };
        assert_eq!(firsts(0b000), [0, 6, 12, 18]);
        assert_eq!(firsts(0b001), [0, 6, 0, 6]);
        assert_eq!(firsts(0b010), [0, 0, 3, 3]);
        assert_eq!(firsts(0b100), [0, 2, 4, 6]);
        assert_eq!(firsts(0b110), [0, 0, 1, 1]);
    }
}
