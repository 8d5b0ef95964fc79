//! Adds arrays to accumulators: contiguous arrays to one sum, arrays of any strides along axes.
//!
//! The elements are added to new states, which are then added to the accumulator's own: an error leaves the accumulator
//! unchanged. Contiguous arrays run as in the operation. Along axes, cores add arrays in host memory. If a GPU holds
//! arrays, or the placement demands one, the GPU reduces them to states, which the host merges. If states have more
//! bytes than their elements, the elements are copied from device memory chunk by chunk, and cores add them.

use super::arguments::saturated_elements;
use super::log::{self, Subject};
use super::memory_kinds::MemoryKinds;
use super::reduce_axes::ReduceAxes;
use super::work::{CpuProgram, Evaluating, MISSING, NO_BUFFERS, ReducingSeveral};
use super::{Runner, execute, last_run, run};
use crate::call::{Argument, Arguments, Array, Binding, Call, Evaluation, Formula, Task};
use crate::cpu::expression::OutputStates;
use crate::cuda::device;
use crate::error::Error;
use crate::objects::accumulator::{Accumulator, Shape};
use crate::objects::expression::{self, Expression, Refused};
use crate::objects::stream::{Stream, given, gpuvec_stream};
use crate::policy::cores;
use crate::process::memory;
use crate::process::settings::{self, Placement};
use arrayvec::ArrayVec;
use bytemuck::cast_slice;
use gpuvec_axes::MAX_RANK;
use gpuvec_expr::{Element, Form};
use gpuvec_ops::Op;
use std::ptr::null_mut;
use std::sync::Arc;

/// The most arrays of an addition: two for a dot product.
const MOST_INPUTS: usize = 2;

/// Adds elements of arrays to the sums of an accumulator. Each sum gets the elements with its index along the axes that
/// are not reduced.
pub(crate) fn accumulate(
    accumulator: &Accumulator, shape: &[i64], reduced_axes: u64, inputs: &[Argument<'_>],
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let op = accumulator.op();
    log::begin(Subject::Accumulator(Some(op)), saturated_elements(shape));
    check_shape(shape, reduced_axes, accumulator.shape())?;
    if !memory::is_left() {
        return Err(NO_BUFFERS);
    }
    let placement = settings::placement()?;
    let of_stream = given(stream)?;
    let (formula, bindings) = (Formula::of(op), &[Binding::Array; MOST_INPUTS][..op.inputs()]);
    let task = Task::Evaluate(Evaluation { formula, bindings, groups: 0 });
    // SAFETY: no call writes there. This placeholder has the accumulator's axes, and so gives the states their order.
    let results = unsafe { Argument::new("state", accumulator.address(), formula.output, None) };
    let outputs = &[results];
    let arguments = Arguments { task, contiguous: None, shape, reduced_axes, inputs, outputs };
    let add_all = |call: &Call<'_>| {
        let (sums, n) = match call.strides() {
            None => (1, call.n()),
            Some(strides) => (strides.axes().kept().elements(), strides.reduced().elements()),
        };
        if n == 0 && call.strides().is_some() {
            last_run::clear();
            return Ok(());
        }
        let states = states(task, sums)?;
        let states = match call.strides() {
            None => add(states, 0, call, placement, of_stream.as_deref())?,
            Some(_) => {
                if placement == Placement::Gpu {
                    device::usable()?;
                }
                if are_added_on_gpus(op, n, call, placement) {
                    add(states, 0, call, Placement::Gpu, of_stream.as_deref())?
                } else if call.inputs().iter().any(|input| input.device().is_some()) {
                    of_stream.as_deref().map_or(Ok(()), Stream::synchronize)?;
                    add_chunks(states, &arguments, call)?
                } else {
                    add(states, 0, call, Placement::Cpu, of_stream.as_deref())?
                }
            }
        };
        accumulator.add_states(states.sum(0))?;
        if n == 0 {
            last_run::clear();
        }
        Ok(())
    };
    if arguments.check(MemoryKinds { task, placement }, add_all)?.is_none() {
        last_run::clear();
    }
    Ok(())
}

/// True if a GPU adds `n` elements to each sum: the placement demands it or one device holds arrays, and a state has no
/// more bytes than these elements. (On an H100, 100,000 sums of 75 elements: f32 7.2 ms, 11.1 by copies for cores;
/// products of f64 97 to 103 ms, 99 to 254 by copies.)
fn are_added_on_gpus(op: Op, n: usize, call: &Call<'_>, placement: Placement) -> bool {
    let mut devices = call.inputs().iter().filter_map(Array::device);
    let first = devices.next();
    let bytes = n.saturating_mul(op.inputs() * op.element_bytes());
    (placement == Placement::Gpu || first.is_some())
        && devices.all(|device| Some(device) == first)
        && op.state_bytes() <= bytes
}

/// Fails unless the axes that are not reduced have the lengths `wanted`.
fn check_shape(shape: &[i64], reduced_axes: u64, wanted: &[i64]) -> Result<(), Error> {
    let kept = |axis: &usize| reduced_axes >> axis & 1 == 0;
    let kept: ArrayVec<usize, MAX_RANK> = (0..shape.len()).filter(kept).collect();
    if kept.len() != wanted.len() {
        return Err(Error::KeptAxes { found: kept.len(), wanted: wanted.len() });
    }
    for (own, (axis, wanted)) in kept.into_iter().zip(wanted.iter().copied()).enumerate() {
        let found = shape[axis];
        if found != wanted {
            return Err(Error::KeptLength { axis, found, own, wanted });
        }
    }
    Ok(())
}

/// The expression of a text with `count` arrays of an operation's type as inputs.
fn of_arrays(op: Op, text: &str, count: usize) -> Result<Arc<Expression>, Error> {
    let element = if op.element_bytes() == 4 { Element::F32 } else { Element::F64 };
    let input = |name| ::gpuvec_expr::Input { name, element, form: Form::Array };
    of_library(expression::compiled(text, None, &[input("a"), input("b")][..count]))
}

/// An expression of the library, which is right.
pub(super) fn of_library(
    compiled: Result<Arc<Expression>, Refused>,
) -> Result<Arc<Expression>, Error> {
    compiled.map_err(|refused| match refused {
        Refused::Other(error) => error,
        Refused::Expression(_) => Error::Internal { text: "an expression of the library" },
    })
}

/// `count` states without elements of a task's reduction.
fn states(task: Task<'_>, count: usize) -> Result<OutputStates, Error> {
    let of_none = OutputStates::of(task.reductions());
    let bytes = count.saturating_mul(of_none.largest_bytes().unwrap_or(0));
    let purpose = "the states of an addition";
    of_none.identities(count).map_err(|_| Error::OutOfHostMemory { bytes, purpose })
}

/// Adds the elements of a call's arrays to the states from number `first` on, and returns the states.
fn add(
    mut states: OutputStates, first: usize, call: &Call<'_>, placement: Placement,
    stream: Option<&Stream>,
) -> Result<OutputStates, Error> {
    let Some(op) = call.task().formula().and_then(|formula| formula.op) else {
        return Err(MISSING);
    };
    if call.strides().is_none() {
        let mut reduce = |runner: &Runner<'_>, work: &Evaluating<'_>| {
            let mut reducing = ReducingSeveral::new(work, call.task().reductions())?;
            runner.run(&mut reducing)?;
            work.check()?;
            states.merge(first, &reducing.into_states()?, 1);
            Ok(())
        };
        let steps = CpuProgram::Operation { op, alpha: 0 };
        execute(call, placement, stream, steps, Some(&mut reduce))?;
        return Ok(states);
    }
    let text = if op.inputs() == 1 { "sum(a)" } else { "dot(a, b)" };
    let expression = of_arrays(op, text, op.inputs())?;
    let call = &call.for_states();
    let mut reducing = ReduceAxes::new(&expression.blocks, call)?.adding_to(states, first);
    let mut reduce =
        |runner: &Runner<'_>, _: &Evaluating<'_>| runner.run_along_axes(&mut reducing).map(|_| ());
    execute(call, placement, stream, CpuProgram::Blocks(&expression.blocks), Some(&mut reduce))?;
    reducing.into_states()
}

/// Adds the elements of a call's arrays to states chunk by chunk on cores, and returns the states. Copies elements that
/// the host cannot access.
fn add_chunks(
    mut states: OutputStates, arguments: &Arguments<'_>, call: &Call<'_>,
) -> Result<OutputStates, Error> {
    let Arguments { task, shape, reduced_axes, inputs, .. } = *arguments;
    let elements = saturated_elements(shape).min(cores::COPIED_CHUNK);
    let source = |(input, array): (&Argument<'_>, &Array)| {
        let copy = array.device().map(|_| words(elements)).transpose()?;
        Ok((input.strides(shape), copy))
    };
    let mut sources = inputs
        .iter()
        .zip(call.inputs())
        .map(source)
        .collect::<Result<ArrayVec<_, MOST_INPUTS>, Error>>()?;
    for chunk in chunks(shape, cores::COPIED_CHUNK as i64) {
        let mut parts = ArrayVec::<Argument<'_>, MOST_INPUTS>::new();
        for (input, (strides, copy)) in inputs.iter().zip(&mut sources) {
            let steps = chunk.first.iter().zip(&*strides).map(|(index, stride)| index * stride);
            let offset = steps.sum::<i64>() as isize;
            // SAFETY: the chunk is part of the array.
            let part = unsafe { input.part(offset, cast_slice(strides)) };
            parts.push(match copy {
                None => part,
                Some(words) => copied(task, &chunk.lengths, part, words)?,
            });
        }
        let part = Arguments { shape: &chunk.lengths, inputs: &parts, ..*arguments };
        let first = chunk.first_kept(shape, reduced_axes);
        let kinds = MemoryKinds { task, placement: Placement::Cpu };
        let added = part.check(kinds, |call| add(states, first, call, Placement::Cpu, None))?;
        states = added.ok_or(MISSING)?;
    }
    Ok(states)
}

/// Copies part of an array to words.
fn copied<'a>(
    task: Task<'_>, shape: &[i64], part: Argument<'_>, words: &mut [u64],
) -> Result<Argument<'a>, Error> {
    let op = task.formula().and_then(|formula| formula.op).ok_or(MISSING)?;
    let expression = of_arrays(op, "a", 1)?;
    let formula = &expression.formula;
    // SAFETY: there is a word for each element.
    let copy = unsafe { Argument::new("copy", words.as_ptr().cast(), formula.output, None) };
    let task = Task::Evaluate(Evaluation { formula, bindings: &[Binding::Array], groups: 0 });
    let (inputs, outputs) = (&[part], &[copy]);
    let arguments = Arguments { task, contiguous: None, shape, reduced_axes: 0, inputs, outputs };
    run(&arguments, CpuProgram::Blocks(&expression.blocks), null_mut())?;
    Ok(copy)
}

/// Memory for `count` values.
fn words(count: usize) -> Result<Vec<u64>, Error> {
    let (bytes, purpose) = (count * size_of::<u64>(), "copies of arrays in device memory");
    memory::filled(0, count).map_err(|_| Error::OutOfHostMemory { bytes, purpose })
}

/// Part of the elements of a shape: whole rows of the innermost axes, or part of one row.
struct Region {
    /// The indexes of the first element.
    first: Shape,
    lengths: Shape,
}

impl Region {
    /// The number of the first element in the C order of the axes that are not reduced. The region's elements have
    /// consecutive numbers.
    fn first_kept(&self, shape: &[i64], reduced_axes: u64) -> usize {
        let kept = |axis: &usize| reduced_axes >> axis & 1 == 0;
        let next = |number, axis: usize| number * shape[axis] + self.first[axis];
        (0..shape.len()).filter(kept).fold(0, next) as usize
    }
}

/// Partitions a shape that has elements into regions of at most `most` elements. A region has whole rows of the
/// innermost axes, or is part of a row that is longer.
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
    use crate::call::Layout;
    use crate::objects::accumulator::{self, gpuvec_accumulator_kind};
    use gpuvec_exact::{Code, Dot, State};
    use proptest::prelude::*;

    fn dot_f64() -> Arc<Accumulator> {
        let kind = gpuvec_accumulator_kind::GPUVEC_ACCUMULATOR_DOT_F64 as i32;
        accumulator::given("dot", accumulator::create(kind, Shape::new()).unwrap()).unwrap()
    }

    fn add_pairs(sum: &Accumulator, a: &[f64], b: *const f64) -> Result<(), Error> {
        let layout = Layout::contiguous(size_of::<f64>());
        let input = |name, values: *const f64| {
            // SAFETY: both arrays have as many elements as `a`, or the address is NULL, which is refused.
            unsafe { Argument::new(name, values.cast(), layout, None) }
        };
        let inputs = [input("a", a.as_ptr()), input("b", b)];
        accumulate(sum, &[a.len() as i64], 1, &inputs, null_mut())
    }

    fn bytes(sum: &Accumulator) -> Vec<u8> {
        let mut bytes = Vec::new();
        sum.serialize(Code::DotF64.wire_bytes(), &mut |state| bytes.extend(state)).unwrap();
        bytes
    }

    #[test]
    fn a_state_of_pieces_has_the_words_of_the_whole() {
        let a: Vec<f64> = (0..300_000).map(|i| f64::from(i).powi(i % 40 - 20)).collect();
        let b: Vec<f64> = a.iter().rev().copied().collect();
        let (mut whole, sum) = (State::<Dot<f64>>::ZERO, dot_f64());
        a.iter().zip(&b).for_each(|(x, y)| whole.deposit((*x, *y)));
        for piece in [0..0, 0..1, 1..5000, 5000..300_000] {
            add_pairs(&sum, &a[piece.clone()], b[piece].as_ptr()).unwrap();
        }
        whole.normalise();
        let mut expected = vec![0; Code::DotF64.wire_bytes()];
        Code::DotF64.encode(whole.words().as_ref(), &mut expected);
        assert_eq!(bytes(&sum), expected);
    }

    #[test]
    fn an_error_leaves_the_state() {
        let (values, sum) = ([1.0, 2.0], dot_f64());
        add_pairs(&sum, &values, values.as_ptr()).unwrap();
        let before = bytes(&sum);
        let null = add_pairs(&sum, &values, std::ptr::null());
        assert!(matches!(null, Err(Error::Null { argument: "b", n: 2 })));
        assert_eq!(bytes(&sum), before);
    }

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
