//! Broadcasting: the shapes and strides of calls on arrays that are not contiguous, or of several shapes.

use crate::array::Array;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

/// The most axes that the library accepts.
pub(crate) const MOST_AXES: usize = 32;

/// Returns the common shape of arrays; `None` if they have none.
pub(crate) fn broadcast(arrays: &[Array]) -> Option<Vec<isize>> {
    let (first, others) = arrays.split_first()?;
    if others.iter().all(|array| array.shape() == first.shape()) {
        return (first.shape().len() <= MOST_AXES).then(|| first.shape().to_vec());
    }
    let axes = arrays.iter().map(|array| array.shape().len()).max()?;
    let mut shape = vec![1; axes];
    for array in arrays {
        let missing = axes - array.shape().len();
        for (length, own) in shape[missing..].iter_mut().zip(array.shape()) {
            match (*length, *own) {
                (1, own) => *length = own,
                (length, own) if own != 1 && own != length => return None,
                _ => {}
            }
        }
    }
    (axes <= MOST_AXES).then_some(shape)
}

/// The axes that a call reduces.
pub(crate) struct Reduced {
    /// A bit for each.
    pub(crate) mask: u64,
    /// True if the result has these axes, too, with length 1.
    keeps: bool,
}

impl Reduced {
    /// All axes of a shape with that many.
    pub(crate) fn all(axes: usize) -> Self {
        Reduced { mask: (1 << axes) - 1, keeps: false }
    }

    /// The axes that `axis` names: an integer, a tuple of them, or None. `None` if it is something else, or
    /// names an axis twice or one that does not exist.
    pub(crate) fn named(axis: &Bound<'_, PyAny>, keeps: bool, axes: usize) -> Option<Self> {
        if axis.is_none() {
            return Some(Reduced { keeps, ..Self::all(axes) });
        }
        let mut mask = 0;
        let mut add = |number: &Bound<'_, PyAny>| {
            let number: isize = number.cast_exact::<PyInt>().ok()?.extract().ok()?;
            let number = if number < 0 { number.checked_add_unsigned(axes)? } else { number };
            let bit = 1 << usize::try_from(number).ok().filter(|number| *number < axes)?;
            let is_new = mask & bit == 0;
            mask |= bit;
            is_new.then_some(())
        };
        match axis.cast_exact::<PyTuple>() {
            Ok(numbers) => numbers.iter().try_for_each(|number| add(&number))?,
            Err(_) => add(axis)?,
        }
        Some(Reduced { mask, keeps })
    }

    /// The shape of the result for elements of a shape.
    pub(crate) fn result(&self, shape: &[isize]) -> Vec<isize> {
        self.result_axes(shape.len())
            .map(|axis| if self.has(axis) { 1 } else { shape[axis] })
            .collect()
    }

    /// The axes of the elements that the result has, too.
    fn result_axes(&self, axes: usize) -> impl Iterator<Item = usize> {
        (0..axes).filter(|axis| self.keeps || !self.has(*axis))
    }

    /// The axes of the result, in the order of the elements' axes.
    pub(crate) fn result_order(&self, order: &[usize]) -> Vec<usize> {
        let axes: Vec<usize> = self.result_axes(order.len()).collect();
        order.iter().filter_map(|axis| axes.iter().position(|own| own == axis)).collect()
    }

    fn has(&self, axis: usize) -> bool {
        self.mask >> axis & 1 == 1
    }

    /// True if all axes are reduced.
    pub(crate) fn is_full(&self, axes: usize) -> bool {
        self.mask == Self::all(axes).mask
    }

    /// The strides of a result along the axes of the elements; 0 along those that are reduced.
    pub(crate) fn strides<'a>(
        &'a self, result: &'a Array, axes: usize,
    ) -> impl Iterator<Item = isize> + 'a {
        let mut rest = result.strides().iter();
        let is_full = self.is_full(axes);
        (0..axes).map(move |axis| {
            let stride = (!is_full && (self.keeps || !self.has(axis))).then(|| rest.next());
            stride.flatten().filter(|_| !self.has(axis)).copied().unwrap_or(0)
        })
    }
}

/// The strides of an array along axes to which it is broadcast.
pub(crate) fn strides_in(array: &Array, axes: usize) -> impl Iterator<Item = isize> {
    let missing = std::iter::repeat_n(0, axes.saturating_sub(array.shape().len()));
    let own = array.shape().iter().zip(array.strides());
    missing.chain(own.map(|(length, stride)| if *length == 1 { 0 } else { *stride }))
}

/// The axes of a shape in the order of arrays in memory, the outermost first; `None` if that is C order. This is
/// NumPy's order "K", as python/gpuvec/_shapes.py describes it.
pub(crate) fn order(arrays: &[Array], axes: usize) -> Option<Vec<usize>> {
    if axes < 2 || arrays.iter().all(Array::is_contiguous) {
        return None;
    }
    let each: Vec<Vec<isize>> =
        arrays.iter().map(|array| strides_in(array, axes).collect()).collect();
    // From the innermost axis to the outermost.
    let mut order: Vec<usize> = Vec::with_capacity(axes);
    for axis in (0..axes).rev() {
        let mut place = order.len();
        for at in (0..order.len()).rev() {
            let pairs = each.iter().map(|strides| (strides[order[at]], strides[axis]));
            let mut compared = pairs
                .filter(|(inner, outer)| *inner != 0 && *outer != 0)
                .map(|(inner, outer)| inner.unsigned_abs() > outer.unsigned_abs())
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
