//! Turns arguments into views: checks them, then sorts and merges their axes.

use crate::MAX_AXES;
use crate::arguments::{Argument, Arguments, Stride, weights};
use crate::error::{Error, Name};
use crate::group::{Arrays, Group, Merged};
use crate::overlap;
use crate::shape::{self, AxisSet};
use crate::space::Space;

/// An array along the merged axes of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The bytes of an element.
    pub element_bytes: usize,
    /// The address of the element at index 0 of every axis.
    pub address: usize,
    /// The lowest address of the array's bytes.
    pub lowest: usize,
    /// The address after the array's highest byte; equal to `lowest` if the array has no elements.
    pub end: usize,
    /// The address at which iteration starts. A flipped axis starts at its last element.
    pub first: usize,
    strides: [isize; MAX_AXES],
}

impl View {
    /// The strides along the kept axes, then along the reduced axes, then zeros. An output that is not whole has
    /// strides of 0 along the reduced axes.
    pub(crate) fn strides(&self) -> &[isize; MAX_AXES] {
        &self.strides
    }

    /// True if the address ranges of the two arrays intersect.
    pub(crate) fn is_near(&self, other: &View) -> bool {
        self.lowest < other.end && other.lowest < self.end
    }
}

/// The axes of a call after merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axes {
    kept: Space,
    reduced: Space,
}

impl Axes {
    /// Checks arguments, and writes the views of the inputs and then of the outputs to `views`.
    ///
    /// Returns `None` if a kept axis has length 0: there is nothing to compute, and addresses are not checked. If only
    /// a reduced axis has length 0, the addresses of inputs and of whole outputs are not checked.
    ///
    /// An output may be exactly one of the inputs: the same address, element size and strides on all axes longer
    /// than 1. If all axes are reduced, a single result may also replace the first element of an input, because it
    /// is written after all elements are read. An output shares no other memory with inputs or other outputs. A
    /// reduction of some of the axes cannot work in place: results are written before all rows are read.
    ///
    /// # Errors
    /// [`Error`] names the argument.
    ///
    /// # Panics
    /// If `views` does not have one view for each argument, or an argument has fewer strides than the shape has axes.
    pub fn new(arguments: &Arguments<'_>, views: &mut [View]) -> Result<Option<Self>, Error> {
        let (kept, reduced) = shape::axes(arguments)?;
        if kept.elements() == 0 {
            return Ok(None);
        }
        let call = Call { arguments, kept, reduced };
        let (inputs, outputs) = views.split_at_mut(arguments.inputs.len());
        assert_eq!(outputs.len(), arguments.outputs.len(), "the views of outputs");
        let are_in_c_order = call.check(inputs, outputs)?;
        let axes = match are_in_c_order && call.has_one_kind_of_axes() {
            true => call.one_axis(inputs, outputs),
            false => call.merge(inputs, outputs)?,
        };
        overlap::refuse(&axes, inputs, outputs, arguments.whole_outputs)?;
        Ok(Some(axes))
    }

    /// The axes of the results.
    pub fn kept(&self) -> &Space {
        &self.kept
    }

    /// The axes along which each result's elements are combined.
    pub fn reduced(&self) -> &Space {
        &self.reduced
    }
}

/// A dummy array of the elements' numbers in C order. It ranks before the inputs, so that sorting leaves the axes in C
/// order.
const NUMBERS: [Argument<'_>; 1] = [Argument { address: 0, element_bytes: 1, strides: None }];

/// Arguments with a valid shape that has at least one result.
struct Call<'a> {
    arguments: &'a Arguments<'a>,
    kept: AxisSet,
    reduced: AxisSet,
}

impl<'a> Call<'a> {
    fn shape(&self) -> &'a [i64] {
        self.arguments.shape
    }

    /// The inputs, unless they have no elements.
    fn inputs(&self) -> &'a [Argument<'a>] {
        if self.reduced.elements() == 0 { &[] } else { self.arguments.inputs }
    }

    /// Bit mask of the whole outputs, or 0 if they have no elements.
    fn whole_outputs(&self) -> u64 {
        if self.reduced.elements() == 0 { 0 } else { self.arguments.whole_outputs }
    }

    /// True if all axes are kept, or all are reduced.
    fn has_one_kind_of_axes(&self) -> bool {
        self.kept.numbers().is_empty() || self.reduced.numbers().is_empty()
    }

    /// Checks each array by itself and initialises its view, still without strides. Returns true if all arrays are in C
    /// order, if all axes are of one kind. Otherwise the value is meaningless.
    fn check(&self, inputs: &mut [View], outputs: &mut [View]) -> Result<bool, Error> {
        let mut are_in_c_order = true;
        let (kept, reduced) = (self.kept.numbers(), self.reduced.numbers());
        let elements = self.kept.elements() * self.reduced.elements();
        for (number, (view, input)) in inputs.iter_mut().zip(self.arguments.inputs).enumerate() {
            *view = View::new(input);
            if elements > 0 {
                let of_input =
                    Checked { array: Name::Input(number), elements, axes: [kept, reduced] };
                are_in_c_order &= of_input.check(input, self.shape(), view)?;
            }
        }
        for (number, (view, output)) in outputs.iter_mut().zip(self.arguments.outputs).enumerate() {
            *view = View::new(output);
            let (elements, axes) = match self.arguments.is_whole(number) {
                true => (elements, [kept, reduced]),
                false => (self.kept.elements(), [kept, &[]]),
            };
            if elements > 0 {
                let of_output = Checked { array: Name::Output(number), elements, axes };
                are_in_c_order &= of_output.check(output, self.shape(), view)?;
            }
        }
        Ok(are_in_c_order)
    }

    /// Treats arrays in C order as one axis, if all axes are kept or all are reduced. This saves the most frequent
    /// calls the general analysis.
    fn one_axis(&self, inputs: &mut [View], outputs: &mut [View]) -> Axes {
        let (kept, reduced) = (self.kept.elements(), self.reduced.elements());
        let is_walked = |output| reduced == 1 || self.arguments.is_whole(output);
        let outputs = outputs.iter_mut().enumerate().filter(|(output, _)| is_walked(*output));
        let walked = outputs.map(|(_, view)| view).chain(inputs);
        walked.for_each(|view| view.strides[0] = view.element_bytes as isize);
        Axes { kept: Space::line(kept), reduced: Space::line(reduced) }
    }

    /// Flips, sorts and merges the axes, and sets the strides of the views.
    fn merge(&self, inputs: &mut [View], outputs: &mut [View]) -> Result<Axes, Error> {
        let (shape, mask) = (self.shape(), self.arguments.reduced_axes);
        let all = weights(shape, !0);
        let kept_alone = weights(shape, !mask);
        let reduced_alone = weights(shape, mask);
        let (arguments, written) = (self.inputs(), self.arguments.outputs);
        let sources = Arrays { arguments, which: !0, weights: &all, shape };
        let wholes =
            Arrays { arguments: written, which: self.whole_outputs(), weights: &all, shape };
        let which = !self.arguments.whole_outputs;
        let results = Arrays { arguments: written, which, weights: &kept_alone, shape };
        let which = u64::from(self.arguments.is_indexed);
        let numbers = Arrays { arguments: &NUMBERS, which, weights: &reduced_alone, shape };

        let kept = Group([results, wholes, sources]).merge(self.kept);
        let reduced = match self.reduced.elements() {
            0 => Merged::empty(self.reduced.numbers()),
            _ => Group([numbers, wholes, sources]).merge(self.reduced),
        };
        let axes = kept.count() + reduced.count();
        if axes > MAX_AXES {
            return Err(Error::TooManyMergedAxes { axes });
        }
        sources.set(&kept, 0, inputs);
        sources.set(&reduced, kept.count(), inputs);
        wholes.set(&kept, 0, outputs);
        wholes.set(&reduced, kept.count(), outputs);
        results.set(&kept, 0, outputs);
        Ok(Axes { kept: kept.space(0), reduced: reduced.space(kept.count()) })
    }
}

/// An array to check.
struct Checked<'a> {
    array: Name,
    elements: usize,
    /// The array's kept axes, and its reduced axes if it is an input or a whole output.
    axes: [&'a [u8]; 2],
}

impl Checked<'_> {
    /// Checks the array and sets the ends of its view. Returns true if the array is in C order, if all axes are of one
    /// kind.
    fn check(
        &self, argument: &Argument<'_>, shape: &[i64], view: &mut View,
    ) -> Result<bool, Error> {
        let (array, Argument { address, element_bytes, strides }) = (self.array, *argument);
        if address == 0 {
            return Err(Error::Null { array, elements: self.elements });
        }
        if address & (element_bytes - 1) != 0 {
            return Err(Error::Misaligned { array, address, alignment: element_bytes });
        }
        let (reach, is_in_c_order) = match strides {
            None => ([0, self.elements as i128 * element_bytes as i128], true),
            Some(strides) => self.reach(strides, shape, element_bytes)?,
        };
        let [lowest, end] = reach.map(|offset| address as i128 + offset);
        if lowest < 0 || end > usize::MAX as i128 || end - lowest > isize::MAX as i128 {
            return Err(Error::OutsideMemory { array, address });
        }
        (view.lowest, view.end) = (lowest as usize, end as usize);
        Ok(is_in_c_order)
    }

    /// Returns the offsets, from the array's address, of its lowest byte and of the end of its highest byte, and true
    /// if it is in C order. (Each offset is below 2^126, because the product of the lengths is below 2^63.)
    fn reach(
        &self, strides: &[Stride], shape: &[i64], element_bytes: usize,
    ) -> Result<([i128; 2], bool), Error> {
        let (element_bytes, mut is_in_c_order) = (element_bytes as i64, true);
        let (mut below, mut above, mut weight) = (0, i128::from(element_bytes), element_bytes);
        for axis in self.axes.iter().flat_map(|axes| axes.iter()).rev().copied().map(usize::from) {
            let (length, stride) = (shape[axis], i64::from_ne_bytes(strides[axis]));
            if stride & (element_bytes - 1) != 0 {
                let alignment = element_bytes as usize;
                return Err(Error::MisalignedStride { array: self.array, axis, stride, alignment });
            }
            if let (0, Name::Output(output)) = (stride, self.array) {
                return Err(Error::BroadcastOutput { output, axis, length: length as usize });
            }
            is_in_c_order &= stride == weight;
            weight = weight.wrapping_mul(length);
            let bytes = i128::from(stride) * i128::from(length - 1);
            *(if stride < 0 { &mut below } else { &mut above }) += bytes;
        }
        Ok(([below, above], is_in_c_order))
    }
}

impl Arrays<'_> {
    /// Sets the strides of views along merged axes, starting at axis number `skipped`, and moves the first element of
    /// each view to the end of every flipped axis.
    fn set(self, merged: &Merged, skipped: usize, views: &mut [View]) {
        for (number, argument) in self.numbered() {
            let view = &mut views[number];
            for (place, axis) in view.strides[skipped..].iter_mut().zip(merged.innermost()) {
                *place = merged.signed(*axis, self.stride(argument, *axis)) as isize;
            }
            for axis in merged.flipped() {
                let last = self.shape[usize::from(axis)] - 1;
                let bytes = last * self.stride(argument, axis);
                view.first = view.first.wrapping_add_signed(bytes as isize);
            }
        }
    }
}

impl View {
    /// A view without axes and with an empty address range.
    fn new(argument: &Argument<'_>) -> Self {
        let Argument { address, element_bytes, .. } = *argument;
        View {
            element_bytes,
            address,
            lowest: address,
            end: address,
            first: address,
            strides: [0; MAX_AXES],
        }
    }
}
