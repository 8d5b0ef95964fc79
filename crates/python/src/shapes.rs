//! The shapes of a call: broadcasting, reductions, and the order of axes in memory.

use crate::array::Array;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};
use smallvec::SmallVec;

/// The most axes that the library accepts.
pub(crate) const MOST_AXES: usize = 32;

/// A number for each axis. A few axes need no allocation.
pub(crate) type PerAxis<T> = SmallVec<[T; 4]>;

/// The number of elements of an output.
#[derive(Clone, Copy)]
pub(crate) enum Extent {
    /// One for each element of the broadcast inputs.
    Elements,
    /// One for each index of the axes that are not reduced.
    Results,
}

/// The shapes of a call.
pub(crate) struct Shapes {
    pub(crate) elements: PerAxis<isize>,
    pub(crate) results: PerAxis<isize>,
    pub(crate) reduced: Reduced,
    /// The elements' axes in the order of the inputs' memory, the outermost first. `None` for C order.
    order: Option<PerAxis<usize>>,
}

impl Shapes {
    /// Broadcasts the inputs, and finds the shape of the results. `None` if the inputs do not fit each other or `axis`.
    pub(crate) fn of<'a, 'py: 'a>(
        arrays: impl Iterator<Item = &'a Array<'py>> + Clone, axis: Option<&Bound<'_, PyAny>>,
        keeps: bool,
    ) -> Option<Self> {
        let elements = broadcast(arrays.clone())?;
        let reduced = Reduced::named(axis, keeps, elements.len())?;
        let results = reduced.result_axes();
        let results = results.map(|axis| if reduced.has(axis) { 1 } else { elements[axis] });
        let (results, order) = (results.collect(), order(arrays, elements.len()));
        Some(Shapes { elements, results, reduced, order })
    }

    /// The shape of an output.
    pub(crate) fn of_output(&self, extent: Extent) -> &[isize] {
        match extent {
            Extent::Elements => &self.elements,
            Extent::Results => &self.results,
        }
    }

    /// The order of a new output's axes in memory.
    pub(crate) fn order_of(&self, extent: Extent) -> Option<PerAxis<usize>> {
        let order = self.order.as_ref()?;
        let kept = match extent {
            Extent::Elements => return Some(order.clone()),
            Extent::Results => self.reduced.result_axes(),
        };
        let kept: PerAxis<usize> = kept.collect();
        Some(order.iter().filter_map(|axis| kept.iter().position(|own| own == axis)).collect())
    }

    /// The strides of an output along the axes of the elements: 0 along reduced axes.
    pub(crate) fn strides_of(&self, extent: Extent, output: &Array) -> PerAxis<isize> {
        let (reduced, mut own) = (&self.reduced, output.strides().iter());
        match extent {
            Extent::Elements => own.copied().collect(),
            // The only result may be in an array of any shape.
            Extent::Results if reduced.is_full() => self.elements.iter().map(|_| 0).collect(),
            Extent::Results => {
                let mut stride = |axis| match (reduced.has(axis), reduced.keeps) {
                    (false, _) => own.next().copied(),
                    (true, true) => own.next().map(|_| 0),
                    (true, false) => None,
                };
                (0..reduced.axes).map(|axis| stride(axis).unwrap_or(0)).collect()
            }
        }
    }
}

/// Returns the common shape of arrays. `None` if they have none.
fn broadcast<'a, 'py: 'a>(
    mut arrays: impl Iterator<Item = &'a Array<'py>>,
) -> Option<PerAxis<isize>> {
    let mut shape = PerAxis::from_slice(arrays.next()?.shape());
    for array in arrays {
        if array.shape() == shape.as_slice() {
            continue;
        }
        while shape.len() < array.shape().len() {
            shape.insert(0, 1);
        }
        let missing = shape.len() - array.shape().len();
        for (length, own) in shape[missing..].iter_mut().zip(array.shape()) {
            match (*length, *own) {
                (1, own) => *length = own,
                (length, own) if own != 1 && own != length => return None,
                _ => {}
            }
        }
    }
    (shape.len() <= MOST_AXES).then_some(shape)
}

/// The axes that a call reduces.
pub(crate) struct Reduced {
    /// A bit for each reduced axis.
    pub(crate) mask: u64,
    /// The number of the elements' axes.
    axes: usize,
    /// True if the result keeps the reduced axes, with length 1.
    keeps: bool,
}

impl Reduced {
    /// The axes that `axis` names: an integer, a tuple of integers, or None for all. Returns `None` for other objects,
    /// and for an axis that is named twice or does not exist.
    fn named(axis: Option<&Bound<'_, PyAny>>, keeps: bool, axes: usize) -> Option<Self> {
        let mut mask = 0;
        let mut add = |number: &Bound<'_, PyAny>| {
            let number: isize = number.cast_exact::<PyInt>().ok()?.extract().ok()?;
            let number = if number < 0 { number.checked_add_unsigned(axes)? } else { number };
            let bit = 1 << usize::try_from(number).ok().filter(|number| *number < axes)?;
            let is_new = mask & bit == 0;
            mask |= bit;
            is_new.then_some(())
        };
        match axis.map(|axis| (axis, axis.cast_exact::<PyTuple>())) {
            None => mask = (1 << axes) - 1,
            Some((_, Ok(numbers))) => numbers.iter().try_for_each(|number| add(&number))?,
            Some((axis, Err(_))) => add(axis)?,
        }
        Some(Reduced { mask, axes, keeps })
    }

    /// The axes of the elements that the result keeps.
    fn result_axes(&self) -> impl Iterator<Item = usize> {
        (0..self.axes).filter(|axis| self.keeps || !self.has(*axis))
    }

    fn has(&self, axis: usize) -> bool {
        self.mask >> axis & 1 == 1
    }

    /// True if all axes are reduced.
    pub(crate) fn is_full(&self) -> bool {
        self.mask == (1 << self.axes) - 1
    }
}

/// The strides of an array along axes to which it is broadcast.
pub(crate) fn strides_in(array: &Array, axes: usize) -> impl Iterator<Item = isize> {
    let missing = std::iter::repeat_n(0, axes.saturating_sub(array.shape().len()));
    let own = array.shape().iter().zip(array.strides());
    missing.chain(own.map(|(length, stride)| if *length == 1 { 0 } else { *stride }))
}

/// The axes of a shape in the order of the arrays' memory, the outermost first. `None` if that is C order. This is
/// NumPy's order "K", which python/gpuvec/_shapes.py describes.
fn order<'a, 'py: 'a>(
    mut arrays: impl Iterator<Item = &'a Array<'py>> + Clone, axes: usize,
) -> Option<PerAxis<usize>> {
    if axes < 2 || arrays.clone().all(Array::is_contiguous) {
        return None;
    }
    let strides = |array| strides_in(array, axes).map(isize::unsigned_abs).collect();
    let each: Vec<PerAxis<usize>> = arrays.by_ref().map(strides).collect();
    // From the innermost axis to the outermost.
    let mut order = PerAxis::new();
    for axis in (0..axes).rev() {
        let mut place = order.len();
        for at in (0..order.len()).rev() {
            let pairs = each.iter().map(|strides| (strides[order[at]], strides[axis]));
            let mut compared = pairs
                .filter(|(inner, outer)| *inner != 0 && *outer != 0)
                .map(|(inner, outer)| inner > outer)
                .peekable();
            if compared.peek().is_none() {
                continue;
            }
            if !compared.all(|is_greater| is_greater) {
                break;
            }
            place = at;
        }
        order.insert(place, axis);
    }
    order.reverse();
    (!order.is_sorted()).then_some(order)
}
