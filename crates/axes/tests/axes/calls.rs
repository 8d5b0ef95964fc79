//! Calls that tests make, and a model of them: all elements, one by one.

use gpuvec_axes::{Argument, Arguments, Axes, Error, Space, View, c_order};
use proptest::prelude::*;
use std::ops::RangeInclusive;

/// An array that owns its strides.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) address: usize,
    pub(crate) element_bytes: usize,
    pub(crate) strides: Option<Vec<i64>>,
}

impl Array {
    /// An array with these strides.
    pub(crate) fn new(address: usize, element_bytes: usize, strides: &[i64]) -> Self {
        Array { address, element_bytes, strides: Some(strides.to_vec()) }
    }

    fn argument(&self) -> Argument<'_> {
        Argument {
            address: self.address,
            element_bytes: self.element_bytes,
            strides: self.strides.as_deref().map(bytemuck::cast_slice),
        }
    }
}

/// A call that owns its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) shape: Vec<i64>,
    pub(crate) inputs: Vec<Array>,
    pub(crate) outputs: Vec<Array>,
    /// The outputs that are whole, a bit each.
    pub(crate) whole_outputs: u64,
    pub(crate) reduced_axes: u64,
    pub(crate) is_indexed: bool,
}

impl Call {
    /// An elementwise call.
    pub(crate) fn map(shape: &[i64], inputs: &[Array], outputs: &[Array]) -> Self {
        Call::reduce(shape, 0, inputs, outputs)
    }

    /// A call that reduces some axes.
    pub(crate) fn reduce(
        shape: &[i64], reduced_axes: u64, inputs: &[Array], outputs: &[Array],
    ) -> Self {
        Call {
            shape: shape.to_vec(),
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            whole_outputs: 0,
            reduced_axes,
            is_indexed: false,
        }
    }

    /// The axes of the call, and the views of its inputs and outputs.
    pub(crate) fn axes(&self) -> Result<Option<(Axes, Vec<View>)>, Error> {
        let [inputs, outputs] = [&self.inputs, &self.outputs]
            .map(|arrays| arrays.iter().map(Array::argument).collect::<Vec<_>>());
        let arguments = Arguments {
            shape: &self.shape,
            inputs: &inputs,
            outputs: &outputs,
            whole_outputs: self.whole_outputs,
            reduced_axes: self.reduced_axes,
            is_indexed: self.is_indexed,
        };
        let mut views = vec![View::default(); inputs.len() + outputs.len()];
        let axes = Axes::new(&arguments, &mut views)?;
        Ok(axes.map(|axes| (axes, views)))
    }

    pub(crate) fn is_whole(&self, output: usize) -> bool {
        self.whole_outputs >> output & 1 != 0
    }

    pub(crate) fn is_reduced(&self, axis: usize) -> bool {
        self.reduced_axes >> axis & 1 != 0
    }

    /// The lengths of the kept axes, or of the reduced axes; other axes have length 1.
    pub(crate) fn lengths(&self, is_reduced: bool) -> Vec<usize> {
        let length = |(axis, length): (usize, &i64)| match self.is_reduced(axis) == is_reduced {
            true => *length as usize,
            false => 1,
        };
        self.shape.iter().enumerate().map(length).collect()
    }

    /// The address of an element of an array: `is_output` is false of whole outputs.
    pub(crate) fn address(&self, array: &Array, is_output: bool, indexes: &[usize]) -> usize {
        let mut shape = self.shape.clone();
        if is_output {
            (0..shape.len()).filter(|axis| self.is_reduced(*axis)).for_each(|axis| shape[axis] = 1);
        }
        let mut room = vec![0; shape.len()];
        let in_c_order = c_order(&shape, array.element_bytes, &mut room);
        let strides = array.strides.as_deref().unwrap_or(in_c_order);
        let used = indexes.iter().zip(strides).enumerate();
        let used = used.filter(|(axis, _)| !(is_output && self.is_reduced(*axis)));
        let offset: i64 = used.map(|(_, (index, stride))| *index as i64 * stride).sum();
        array.address.wrapping_add_signed(offset as isize)
    }

    /// The addresses of an array's elements, each once for every result.
    pub(crate) fn addresses(&self, array: &Array, is_output: bool) -> Vec<usize> {
        let mut lengths = self.lengths(false);
        if !is_output {
            lengths = self.shape.iter().map(|length| *length as usize).collect();
        }
        indexes(&lengths).map(|indexes| self.address(array, is_output, &indexes)).collect()
    }
}

/// All indexes of a shape, in C order.
pub(crate) fn indexes(lengths: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let lengths = lengths.to_vec();
    (0..lengths.iter().product()).map(move |mut number| {
        let mut indexes = vec![0; lengths.len()];
        for (index, length) in indexes.iter_mut().zip(&lengths).rev() {
            *index = number % length;
            number /= length;
        }
        indexes
    })
}

/// The addresses of a view's elements in a space from an address on, in the order of the walk.
pub(crate) fn walked(space: &Space, view: &View, first: usize) -> Vec<usize> {
    let strides = space.strides(view);
    let address = |indexes: Vec<usize>| {
        let steps = indexes.iter().zip(strides).map(|(index, stride)| *index as isize * stride);
        first.wrapping_add_signed(steps.sum())
    };
    indexes(space.lengths()).map(address).collect()
}

/// The distance between the regions of memory in which the arrays of random calls are.
const REGION: usize = 1 << 40;

/// Random shapes of a few hundred elements at most.
pub(crate) fn shapes(ranks: RangeInclusive<usize>) -> impl Strategy<Value = Vec<i64>> {
    let length = prop_oneof![2 => Just(1i64), 6 => 2i64..5, 1 => 5i64..9];
    prop::collection::vec(length, ranks)
        .prop_filter("a few hundred elements", |shape| shape.iter().product::<i64>() <= 600)
}

/// The layout of a random array: a C order of the axes in another order, with gaps, flipped, and broadcast.
#[derive(Clone, Debug)]
struct Plan {
    log2_element_bytes: u32,
    is_in_c_order: bool,
    /// For each axis: a key by which axes are sorted, a gap behind each element, whether the axis is flipped, and
    /// whether it is broadcast.
    axes: Vec<(u8, usize, bool, bool)>,
}

fn plans(rank: usize) -> impl Strategy<Value = Plan> {
    let kinds = prop_oneof![
        // Arrays in C order, Fortran order, and flipped as a whole; any.
        2 => Just((0u8..1, 0.0, 0.0)),
        1 => Just((0u8..1, 1.0, 0.1)),
        3 => Just((0u8..8, 0.3, 0.2)),
    ];
    let gaps = prop_oneof![5 => Just(0usize), 1 => 1usize..4];
    (0u32..4, prop::bool::weighted(0.3), kinds).prop_flat_map(
        move |(bytes, c, (keys, flips, zeros))| {
            let axis =
                (keys, gaps.clone(), prop::bool::weighted(flips), prop::bool::weighted(zeros));
            prop::collection::vec(axis, rank).prop_map(move |axes| Plan {
                log2_element_bytes: bytes,
                is_in_c_order: c,
                axes,
            })
        },
    )
}

impl Plan {
    /// The array of a call's shape, whose other axes have the length 1.
    fn array(&self, lengths: &[usize], address: usize, may_broadcast: bool) -> Array {
        let element_bytes = 1 << self.log2_element_bytes;
        if self.is_in_c_order {
            return Array { address, element_bytes, strides: None };
        }
        let mut order: Vec<usize> = (0..lengths.len()).rev().collect();
        order.sort_by_key(|axis| self.axes[*axis].0);
        let mut array = Array { address, element_bytes, strides: None };
        let (mut strides, mut step) = (vec![0; lengths.len()], element_bytes);
        for axis in order {
            let (_, gap, is_flipped, is_broadcast) = self.axes[axis];
            if is_broadcast && may_broadcast {
                continue;
            }
            step += gap * element_bytes;
            strides[axis] = if is_flipped { -(step as i64) } else { step as i64 };
            if is_flipped {
                array.address += step * (lengths[axis] - 1);
            }
            step *= lengths[axis];
        }
        array.strides = Some(strides);
        array
    }
}

/// Random calls on arrays that do not overlap; some reduce a few axes. One output at least is not whole.
pub(crate) fn calls() -> impl Strategy<Value = Call> {
    let masks = || prop_oneof![1 => Just(0), 1 => Just(!0), 3 => any::<u64>()];
    let of_shapes = (shapes(0..=7), masks(), masks(), 1usize..4, 1usize..3);
    of_shapes.prop_flat_map(|(shape, mask, whole_outputs, inputs, outputs)| {
        let plans = prop::collection::vec(plans(shape.len()), inputs + outputs);
        (Just(shape), plans, any::<bool>()).prop_map(move |(shape, plans, is_indexed)| {
            let reduced_axes = mask & ((1 << shape.len()) - 1);
            let call = Call::reduce(&shape, reduced_axes, &[], &[]);
            let outputs = plans.len() - inputs;
            let has_results = (0..outputs).any(|output| whole_outputs >> output & 1 == 0);
            let whole_outputs = if has_results { whole_outputs } else { 0 };
            let mut call = Call { is_indexed, whole_outputs, ..call };
            let kept = call.lengths(false);
            let all: Vec<usize> = shape.iter().map(|length| *length as usize).collect();
            for (number, plan) in plans.iter().enumerate() {
                let address = (number + 1) * REGION;
                match number < inputs {
                    true => call.inputs.push(plan.array(&all, address, true)),
                    false if call.is_whole(number - inputs) => {
                        call.outputs.push(plan.array(&all, address, false));
                    }
                    false => call.outputs.push(plan.array(&kept, address, false)),
                }
            }
            call
        })
    })
}
