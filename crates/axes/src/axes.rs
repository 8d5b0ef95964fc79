//! From arguments to views: all checks, and the axes that are left.

use crate::MAX_AXES;
use crate::arguments::{Argument, Arguments, Stride, weights};
use crate::error::{Error, Name};
use crate::group::{Arrays, Group, Merged};
use crate::overlap;
use crate::shape::{self, AxisSet};
use crate::space::Space;

/// An array, or the numbers of elements, along the axes that are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The bytes of an element.
    pub element_bytes: usize,
    /// The address of the element all of whose indexes are 0.
    pub address: usize,
    /// The lowest address of the array's bytes.
    pub lowest: usize,
    /// The address behind the highest of them: the same where there are no elements.
    pub end: usize,
    /// The address of the first element of the walk, which begins at the end of axes that are flipped.
    pub first: usize,
    strides: [isize; MAX_AXES],
}

impl View {
    /// The strides along all axes of the call: the kept ones, the reduced ones, and zeros. Those of an output's
    /// reduced axes are 0.
    pub(crate) fn strides(&self) -> &[isize; MAX_AXES] {
        &self.strides
    }

    /// Says whether arrays have bytes between the same two addresses.
    pub(crate) fn is_near(&self, other: &View) -> bool {
        self.lowest < other.end && other.lowest < self.end
    }
}

/// The axes that are left of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axes {
    kept: Space,
    reduced: Space,
}

impl Axes {
    /// Checks arguments, and writes the views of the inputs and then of the outputs to `views`.
    ///
    /// Returns `None` if there is nothing to compute, since the kept axes have no elements; then arrays may have
    /// any address. Where only the reduced axes have none, that holds for the inputs and the whole outputs.
    ///
    /// An output may be exactly one of the inputs: with the same address, element size and strides on all axes
    /// longer than 1. Where all axes are reduced, it may be the first element of an input, which the result
    /// replaces when all elements are read, unless it is whole. It shares no other memory with inputs, nor with
    /// outputs. A reduction of a part of the axes is not done in place otherwise: the results of some rows are
    /// there before others are read.
    ///
    /// # Errors
    /// [`Error`] names the argument.
    ///
    /// # Panics
    /// If `views` has not exactly these views, or an argument has fewer strides than the shape has axes.
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

    /// The axes of results.
    pub fn kept(&self) -> &Space {
        &self.kept
    }

    /// The axes over which the elements of each result are.
    pub fn reduced(&self) -> &Space {
        &self.reduced
    }
}

/// The numbers of elements in C order, as an array whose addresses they are: its strides, which decide before those
/// of inputs, let no axis move.
const NUMBERS: [Argument<'_>; 1] = [Argument { address: 0, element_bytes: 1, strides: None }];

/// Arguments whose shape is checked; some results are wanted.
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

    /// The whole outputs, a bit each, unless they have no elements.
    fn whole_outputs(&self) -> u64 {
        if self.reduced.elements() == 0 { 0 } else { self.arguments.whole_outputs }
    }

    /// Says whether all axes are kept, or all are reduced.
    fn has_one_kind_of_axes(&self) -> bool {
        self.kept.numbers().is_empty() || self.reduced.numbers().is_empty()
    }

    /// Checks each array by itself. The views have no axes yet. Says whether all arrays are in C order, if all axes
    /// are of one kind.
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

    /// Sets the strides of arrays in C order where all axes are kept, or all reduced. Avoids the general analysis in
    /// the most frequent calls.
    fn one_axis(&self, inputs: &mut [View], outputs: &mut [View]) -> Axes {
        let (kept, reduced) = (self.kept.elements(), self.reduced.elements());
        let is_walked = |output| reduced == 1 || self.arguments.is_whole(output);
        let outputs = outputs.iter_mut().enumerate().filter(|(output, _)| is_walked(*output));
        let walked = outputs.map(|(_, view)| view).chain(inputs);
        walked.for_each(|view| view.strides[0] = view.element_bytes as isize);
        Axes { kept: Space::line(kept, 0), reduced: Space::line(reduced, 0) }
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

/// An array that is checked.
struct Checked<'a> {
    array: Name,
    elements: usize,
    /// Its axes: the kept ones and, of an input, the reduced ones.
    axes: [&'a [u8]; 2],
}

impl Checked<'_> {
    /// Checks the array, and tells the view its ends. Says whether it is in C order, if all axes are of one kind.
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

    /// The bytes from an array's address to its lowest byte and behind its highest one; whether it is in C order.
    /// (Each is below 2^126: the lengths' product is below 2^63.)
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
    /// Sets the strides of views along merged axes, from number `skipped` on, and moves the first elements of views
    /// to the ends of flipped axes.
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
    /// The view of an array without elements, or without axes.
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
