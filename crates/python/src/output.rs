//! The arrays that calls write.

use crate::array::{Array, NumPy};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// What a call writes: elements of a type, as many as an input has or, for a reduction, one.
pub(crate) struct Output {
    pub(crate) dtype: Py<PyAny>,
    pub(crate) is_reduction: bool,
}

/// The array that a call writes.
pub(crate) struct Target<'py> {
    array: Bound<'py, PyAny>,
    is_new: bool,
    /// The address of its first element.
    pub(crate) address: usize,
}

impl Output {
    /// Returns the caller's array, or a new one if `out` is None, for inputs like `first`. `None` if the
    /// caller's is not an ordinary array of the right type and shape.
    pub(crate) fn target<'py>(
        &self, numpy: &NumPy, out: &Bound<'py, PyAny>, first: &Array<'_, 'py>,
    ) -> PyResult<Option<Target<'py>>> {
        let is_new = out.is_none();
        let array = match is_new {
            true => numpy.empty((!self.is_reduction).then_some(first), out.py(), &self.dtype)?,
            false => out.clone(),
        };
        let fields = numpy.array(&array).filter(|fields| self.fits(fields, first));
        let address = fields.map(|fields| fields.address());
        Ok(address.map(|address| Target { array, is_new, address }))
    }

    fn fits(&self, out: &Array, first: &Array) -> bool {
        let is_long_enough =
            if self.is_reduction { out.size() == 1 } else { out.shape() == first.shape() };
        is_long_enough && out.is_output() && out.has_dtype(&self.dtype)
    }

    /// Returns what a call returns: the array, or for a reduction that made one its value.
    pub(crate) fn result<'py>(&self, target: Target<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Target { array, is_new, .. } = target;
        if is_new && self.is_reduction {
            return array.get_item(PyTuple::empty(array.py()));
        }
        Ok(array)
    }
}
