//! The arrays that calls write.

use crate::array::{Array, Arrays};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The elements that a call writes: those of an array with an input's shape, or one for a reduction.
pub(crate) struct Output {
    pub(crate) dtype: Py<PyAny>,
    pub(crate) is_reduction: bool,
}

/// The array that a call writes.
pub(crate) struct Target<'py> {
    /// The array as a Python object, which the call returns.
    pub(crate) array: Bound<'py, PyAny>,
    /// True if the call returns the only element in place of the array.
    is_value: bool,
    /// Its elements.
    pub(crate) elements: Array<'py>,
}

impl Output {
    /// Returns the caller's array, or a new one if `out` is None, for inputs like `first`: on a device, if
    /// inputs are there. `None` if the caller's is not an array, or nothing has the shape of a new one on a device.
    pub(crate) fn target<'py>(
        &self, arrays: Arrays, out: &Bound<'py, PyAny>, first: &Array<'py>, device: Option<i32>,
    ) -> PyResult<Option<Target<'py>>> {
        if !out.is_none() {
            return Target::found(arrays, out.clone(), false);
        }
        let device = device.filter(|_| !self.is_reduction);
        // A copy: allocating runs Python code.
        let shape = if self.is_reduction { Vec::new() } else { first.shape().to_vec() };
        if device.is_some() && shape.is_empty() {
            return Ok(None);
        }
        let array = arrays.numpy.empty(shape.into_iter(), out.py(), &self.dtype, device)?;
        Target::found(arrays, array, self.is_reduction)
    }

    /// True if the library can write the results there for contiguous inputs like `first`.
    pub(crate) fn fits(&self, out: &Array, first: &Array) -> bool {
        let is_long_enough =
            if self.is_reduction { out.size() == 1 } else { out.shape() == first.shape() };
        is_long_enough && out.is_contiguous() && self.is_typed(out)
    }

    /// True if the library can write elements of the result's type there.
    pub(crate) fn is_typed(&self, out: &Array) -> bool {
        out.is_output() && out.has_dtype(&self.dtype)
    }
}

impl<'py> Target<'py> {
    /// Returns an array as a target, which is not checked yet; `None` if it is something else.
    pub(crate) fn found(
        arrays: Arrays, array: Bound<'py, PyAny>, is_value: bool,
    ) -> PyResult<Option<Self>> {
        let Some(elements) = arrays.found(&array)? else { return Ok(None) };
        if elements.described.is_some() && arrays.numpy.is_immutable(&array)? {
            return Ok(None);
        }
        Ok(Some(Target { array, is_value, elements }))
    }

    /// Returns what a call returns: the array, or its value.
    pub(crate) fn result(self) -> PyResult<Bound<'py, PyAny>> {
        match self.is_value {
            true => self.array.get_item(PyTuple::empty(self.array.py())),
            false => Ok(self.array),
        }
    }
}
