//! Detects arguments that share memory.

use crate::MAX_AXES;
use crate::axes::{Axes, View};
use crate::error::Error;

/// Fails if an output overlaps itself, another output, or an input that it does not replace. `whole_outputs` is a bit
/// mask.
pub(crate) fn refuse(
    axes: &Axes, inputs: &[View], outputs: &[View], whole_outputs: u64,
) -> Result<(), Error> {
    for (output, view) in outputs.iter().enumerate() {
        if may_overlap_itself(axes, view) {
            return Err(Error::OverlapsItself { output });
        }
        if let Some(other) = outputs[..output].iter().position(|other| may_share(axes, view, other))
        {
            return Err(Error::OutputsOverlap { output, other });
        }
        let is_only = axes.kept().elements() == 1 && whole_outputs >> output & 1 == 0;
        let is_wrong = |input| may_share(axes, view, input) && !may_replace(is_only, view, input);
        if let Some(input) = inputs.iter().position(is_wrong) {
            return Err(Error::Overlap { output, input });
        }
    }
    Ok(())
}

/// True if the output may replace the input in place: it has the same elements, or it is the only result and replaces
/// the first element.
fn may_replace(is_only: bool, output: &View, input: &View) -> bool {
    (output.strides() == input.strides() || is_only)
        && output.address == input.address
        && output.element_bytes == input.element_bytes
}

/// The bytes of an array relative to its lowest address: an element starts at each sum of multiples of the strides.
/// Strides are positive.
#[derive(Clone, Copy)]
struct Footprint {
    element_bytes: i64,
    axes: [Axis; MAX_AXES],
    rank: usize,
}

#[derive(Clone, Copy, Default)]
struct Axis {
    stride: i64,
    last: i64,
}

impl Footprint {
    fn new(axes: &Axes, view: &View) -> Self {
        let mut footprint = Footprint {
            element_bytes: view.element_bytes as i64,
            axes: [Axis::default(); MAX_AXES],
            rank: 0,
        };
        for space in [axes.kept(), axes.reduced()] {
            for (length, stride) in space.lengths().iter().zip(space.strides(view)) {
                footprint
                    .push(Axis { stride: stride.unsigned_abs() as i64, last: *length as i64 - 1 });
            }
        }
        footprint
    }

    fn push(&mut self, axis: Axis) {
        if axis.stride != 0 {
            self.axes[self.rank] = axis;
            self.rank += 1;
        }
    }

    fn axes(&self) -> &[Axis] {
        &self.axes[..self.rank]
    }

    /// The distance from the lowest byte to the end of the highest.
    fn bytes(&self) -> i64 {
        self.axes().iter().map(|axis| axis.stride * axis.last).sum::<i64>() + self.element_bytes
    }

    /// The footprint without the axes with strides that are multiples of `modulus`.
    fn modulo(&self, modulus: i64) -> Footprint {
        let mut rest = Footprint { rank: 0, ..*self };
        self.axes()
            .iter()
            .filter(|axis| axis.stride % modulus != 0)
            .for_each(|axis| rest.push(*axis));
        rest
    }
}

/// The most pairs of footprints to compare for one pair of arrays.
const MOST_STEPS: u32 = 500;

/// True if two arrays may share memory. Never false if they do; rarely true if they do not.
fn may_share(axes: &Axes, view: &View, other: &View) -> bool {
    if !view.is_near(other) {
        return false;
    }
    let [first, second] = [view, other].map(|view| Footprint::new(axes, view));
    let distance = other.lowest.wrapping_sub(view.lowest) as i64;
    let mut steps = MOST_STEPS;
    meet(distance, &first, &second, &mut steps)
}

/// True if two footprints may meet. The second starts `distance` bytes after the first.
///
/// Footprints that meet also meet modulo every number. Modulo a common divisor of the largest strides all records, rows
/// or matrices coincide, so the footprints get shorter. If neither is longer than the divisor, they can meet only at
/// two distances.
fn meet(distance: i64, first: &Footprint, second: &Footprint, steps: &mut u32) -> bool {
    if distance >= first.bytes() || -distance >= second.bytes() {
        return false;
    }
    let (mut modulus, mut strides) = (0, descending_strides(first, second));
    while let Some(stride) = strides.next().filter(|_| *steps > 0) {
        *steps -= 1;
        let divisor = greatest_common_divisor(stride, modulus);
        if divisor == modulus {
            continue;
        }
        modulus = divisor;
        let [first, second] = [first.modulo(modulus), second.modulo(modulus)];
        if first.bytes().max(second.bytes()) > modulus {
            continue;
        }
        let distance = distance.rem_euclid(modulus);
        if !meet(distance, &first, &second, steps)
            && !meet(distance - modulus, &first, &second, steps)
        {
            return false;
        }
    }
    true
}

/// The strides of both footprints, the largest first.
fn descending_strides(first: &Footprint, second: &Footprint) -> impl Iterator<Item = i64> {
    let mut strides = [0; 2 * MAX_AXES];
    let both = first.axes().iter().chain(second.axes());
    strides.iter_mut().zip(both).for_each(|(place, axis)| *place = axis.stride);
    strides.sort_unstable_by(|a, b| b.cmp(a));
    strides.into_iter().take_while(|stride| *stride != 0)
}

fn greatest_common_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// True if elements of one array may overlap: the stride of an axis is shorter than the extent of all axes with shorter
/// strides together.
fn may_overlap_itself(axes: &Axes, view: &View) -> bool {
    let Footprint { element_bytes, mut axes, rank } = Footprint::new(axes, view);
    let axes = &mut axes[..rank];
    axes.sort_unstable_by_key(|axis| axis.stride);
    let mut bytes = element_bytes;
    for axis in axes {
        if axis.stride < bytes {
            return true;
        }
        bytes += axis.stride * axis.last;
    }
    false
}
