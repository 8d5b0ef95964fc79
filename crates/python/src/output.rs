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
    pub(crate) array: Bound<'py, PyAny>,
    /// Whether the call returns the only element in place of the array.
    pub(crate) is_value: bool,
    /// The address of its first element.
    pub(crate) address: usize,
}

impl Output {
    /// Returns the caller's array, or a new one if `out` is None, for inputs like `first`. `None` if the
    /// caller's is not an ordinary contiguous array of the right type and shape.
    pub(crate) fn target<'py>(
        &self, numpy: &NumPy, out: &Bound<'py, PyAny>, first: &Array<'_, 'py>,
    ) -> PyResult<Option<Target<'py>>> {
        let is_new = out.is_none();
        let array = match is_new {
            true => {
                numpy.empty_like((!self.is_reduction).then_some(first), out.py(), &self.dtype)?
            }
            false => out.clone(),
        };
        let fields = numpy.array(&array).filter(|fields| self.fits(fields, first));
        let address = fields.map(|fields| fields.address());
        let is_value = is_new && self.is_reduction;
        Ok(address.map(|address| Target { array, is_value, address }))
    }

    fn fits(&self, out: &Array, first: &Array) -> bool {
        let is_long_enough =
            if self.is_reduction { out.size() == 1 } else { out.shape() == first.shape() };
        is_long_enough && out.is_contiguous() && self.is_writable(out)
    }

    /// Says whether the library can write the result's elements to an array.
    pub(crate) fn is_writable(&self, out: &Array) -> bool {
        out.is_output() && out.has_dtype(&self.dtype)
    }
}

impl<'py> Target<'py> {
    /// Returns what a call returns: the array, or its value.
    pub(crate) fn result(self) -> PyResult<Bound<'py, PyAny>> {
        match self.is_value {
            true => self.array.get_item(PyTuple::empty(self.array.py())),
            false => Ok(self.array),
        }
    }
}
